//! Settings: each number and switch of the policy, its name in `config.toml`, and how it is written.

use super::{Policy, Preset, RecoveryMode, is_switchable};
use crate::checkpoint::Reason;
use crate::dialect::Dialect;
use crate::dialect::compress::Compression;
use crate::retention::Surplus;
use crate::text::Name;
use crate::time::{Millis, human_span, parse_span};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnobType {
    /// A duration, such as `"10m"`.
    Span,
    Count,
    /// `true` or `false`.
    Switch,
    /// Three percentages, such as `25,50,75`.
    Percents,
    Word,
    Names,
}

#[derive(Clone, Copy, Debug)]
pub struct Knob {
    pub name: &'static str,
    pub meaning: &'static str,
    pub shape: KnobType,
    /// The trigger it switches.
    pub reason: Option<Reason>,
    pub get: fn(&Policy, Option<Reason>) -> String,
    pub set: fn(&mut Policy, Option<Reason>, &str) -> Result<(), String>,
}

fn span(text: &str, unit: &str) -> Result<Millis, String> {
    match parse_span(text, unit)? {
        0 => Err("a duration of zero is not allowed".to_owned()),
        span => Ok(span),
    }
}

fn shown(span: Millis) -> String {
    human_span(span).replace(' ', "")
}

fn count(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err(format!("`{text}` is not a whole number above zero")),
        Ok(number) => Ok(number),
    }
}

fn percent(text: &str) -> Result<u8, String> {
    match text.trim().parse() {
        Ok(number @ 1..=100) => Ok(number),
        _ => Err(format!("`{text}` is not a percentage from 1 to 100")),
    }
}

fn switch(text: &str) -> Result<bool, String> {
    match text {
        "true" | "on" => Ok(true),
        "false" | "off" => Ok(false),
        _ => Err(format!("`{text}` is neither `true` nor `false`")),
    }
}

macro_rules! spans {
    ($($name:literal $meaning:literal $unit:literal $($field:ident).+;)*) => { [$(Knob {
        name: $name, meaning: $meaning, shape: KnobType::Span, reason: None,
        get: |policy, _| shown(policy.$($field).+),
        set: |policy, _, text| { policy.$($field).+ = span(text, $unit)?; Ok(()) },
    }),*] };
}

macro_rules! counts {
    ($($name:literal $meaning:literal $($field:ident).+;)*) => { [$(Knob {
        name: $name, meaning: $meaning, shape: KnobType::Count, reason: None,
        get: |policy, _| policy.$($field).+.to_string(),
        set: |policy, _, text| { policy.$($field).+ = count(text)?; Ok(()) },
    }),*] };
}

macro_rules! percents {
    ($($name:literal $meaning:literal $field:ident;)*) => { [$(Knob {
        name: $name, meaning: $meaning, shape: KnobType::Count, reason: None,
        get: |policy, _| policy.$field.to_string(),
        set: |policy, _, text| { policy.$field = percent(text)?; Ok(()) },
    }),*] };
}

macro_rules! mirrors {
    ($($name:literal $meaning:literal $dialect:ident;)*) => { [$(Knob {
        name: $name, meaning: $meaning, shape: KnobType::Switch, reason: None,
        get: |policy, _| policy.mirrors.has(Dialect::$dialect).to_string(),
        set: |policy, _, text| { policy.mirrors.switch(Dialect::$dialect, switch(text)?); Ok(()) },
    }),*] };
}

const SPANS: [Knob; 9] = spans! {
    "liveness.quiet" "silence after which an agent is quiet, and a mission may need recovery" "s" quiet_ms;
    "liveness.warning" "silence after which an agent needs a warning" "s" warning_ms;
    "liveness.stalled" "silence after which an agent is stalled" "s" stalled_ms;
    "liveness.heartbeat" "how often an agent is expected to give a sign of life" "s" heartbeat_ms;
    "liveness.downtime" "a pause of all writing after which silence proves nothing" "s" downtime_ms;
    "locks.ttl" "how long after its holder's last sign of life a lock lapses" "s" lock_ttl_ms;
    "checkpoints.interval" "with `triggers.interval`: how often a changing mission gets a checkpoint" "s" interval_ms;
    "checkpoints.valid" "older checkpoints are not resumed from automatically" "s" valid_ms;
    "retention.older_than" "checkpoints older than this are deleted" "d" retention.older_than_ms;
};

const MORE_SPANS: [Knob; 1] = spans! {
    "retention.completed" "how long a completed mission keeps its final checkpoint" "d" retention.completed_ms;
};

const HISTORY: Knob = Knob {
    name: "retention.history",
    meaning: "how long the journal keeps every value (default: as `retention.older_than`)",
    shape: KnobType::Span,
    reason: None,
    get: |policy, _| shown(policy.retention.history()),
    set: |policy, _, text| {
        policy.retention.history_ms = Some(span(text, "d")?);
        Ok(())
    },
};

const COUNTS: [Knob; 4] = counts! {
    "retention.keep" "number of the newest checkpoints that a mission keeps" retention.keep;
    "retention.most" "maximum number of checkpoints of a mission" retention.most;
    "checkpoints.significant_lines" "number of changed lines above which a file has changed significantly" significant_lines;
    "recovery.retry_limit" "number of attempts after which a failed sortie blocks a resume" retry_limit;
};

const TOKENS: [Knob; 2] = percents! {
    "tokens.warning" "how full a context is, in percent, when it is saved" token_warning;
    "tokens.critical" "how full a context is, in percent, when it is saved at once and its agent told to stop" token_critical;
};

const MIRRORS: [Knob; 4] = mirrors! {
    "mirrors.sitebuilder" "keep `progress/checkpoints/` and `progress/STATUS.md` up to date" Sitebuilder;
    "mirrors.epic" "keep `agent_checkpoints/` up to date" Epic;
    "mirrors.orchestrator" "keep `.flightline/orchestrator/` up to date" Orchestrator;
    "mirrors.recovery" "keep `checkpoints/` up to date" Recovery;
};

const COMPRESSION: Knob = Knob {
    name: "mirrors.compression",
    meaning: "how files in `.flightline/orchestrator/` are compressed: none, gzip, lz4 or zstd",
    shape: KnobType::Word,
    reason: None,
    get: |policy, _| policy.mirror_compression.as_str().to_owned(),
    set: |policy, _, text| {
        policy.mirror_compression = Compression::from_word(text)
            .ok_or_else(|| format!("`{text}` is none of none, gzip, lz4 and zstd"))?;
        Ok(())
    },
};

const PRESET: Knob = Knob {
    name: "preset",
    meaning: "the preset of these settings: fleet, sitebuilder, epic, orchestrator or recovery",
    shape: KnobType::Word,
    reason: None,
    get: |policy, _| policy.preset.as_str().to_owned(),
    set: |policy, _, text| {
        let preset = Preset::from_word(text).ok_or_else(|| {
            let known: Vec<&str> = Preset::ALL.iter().map(|preset| preset.as_str()).collect();
            format!("there is no preset `{text}`: {}", known.join(", "))
        })?;
        // A preset is where the numbers start: it comes before all others.
        *policy = preset.policy();
        Ok(())
    },
};

const MILESTONES: Knob = Knob {
    name: "checkpoints.milestones",
    meaning: "percentages at which a mission gets a checkpoint",
    shape: KnobType::Percents,
    reason: None,
    get: |policy, _| {
        policy
            .milestones
            .map(|percent| percent.to_string())
            .join(",")
    },
    set: |policy, _, text| {
        let parts: Vec<u8> = text.split(',').map(percent).collect::<Result<_, _>>()?;
        let milestones: [u8; 3] = parts
            .try_into()
            .map_err(|_| format!("`{text}` is not three percentages"))?;
        if !milestones.is_sorted_by(|a, b| a < b) {
            return Err(format!("`{text}` does not rise"));
        }
        policy.milestones = milestones;
        Ok(())
    },
};

const SURPLUS: Knob = Knob {
    name: "retention.surplus",
    meaning: "what to do with checkpoints above `retention.most`: delete or archive",
    shape: KnobType::Word,
    reason: None,
    get: |policy, _| policy.retention.surplus.as_str().to_owned(),
    set: |policy, _, text| {
        policy.retention.surplus = Surplus::from_word(text)
            .ok_or_else(|| format!("`{text}` is neither `delete` nor `archive`"))?;
        Ok(())
    },
};

const DESTRUCTIVE: Knob = Knob {
    name: "checkpoints.destructive",
    meaning: "with `triggers.before_destructive`: the destructive operations",
    shape: KnobType::Names,
    reason: None,
    get: |policy, _| {
        let names: Vec<&str> = policy.destructive.iter().map(Name::as_str).collect();
        names.join(",")
    },
    set: |policy, _, text| {
        let names = text
            .split(',')
            .map(str::trim)
            .filter(|name| !name.is_empty());
        policy.destructive = names
            .map(|name| Name::parse("the name of an operation", name).map_err(|it| it.message))
            .collect::<Result<_, _>>()?;
        Ok(())
    },
};

macro_rules! switches {
    ($($name:literal $meaning:literal $($field:ident).+;)*) => { [$(Knob {
        name: $name, meaning: $meaning, shape: KnobType::Switch, reason: None,
        get: |policy, _| policy.$($field).+.to_string(),
        set: |policy, _, text| { policy.$($field).+ = switch(text)?; Ok(()) },
    }),*] };
}

/// The switches, except those of triggers.
const SWITCHES: [Knob; 7] = switches! {
    "recovery.auto_resume" "resume without asking, where no question can be asked" auto_resume;
    "recovery.enabled" "handle full contexts and ending sessions: checkpoints, minimal mode, validation on resume" recovery_enabled;
    "recovery.strict" "refuse to resume while a blocker needs a decision" strict;
    "recovery.tasks" "`detect` and `doctor` name tasks that lost their session, have errors or unmet criteria" find_tasks;
    "mail.progress" "progress of a sortie is posted to the mailbox of dispatch" progress_mail;
    "hooks.lock_edits" "a coding agent's hook locks each file that it edits, until the turn ends" lock_edits;
    "checkpoints.every_error" "with `triggers.blocker`: an error takes a checkpoint even when work can continue" every_error;
};

const EMERGENCIES: [Knob; 1] = switches! {
    "retention.emergencies_apart" "archive checkpoints of `token_critical` instead of deleting them, and do not count them" retention.emergencies_apart;
};

const STACK_ID: Knob = Knob {
    name: "recovery.stack_id",
    meaning: "the technology stack of the project, unless a mission names another: a session resumes on the same one",
    shape: KnobType::Word,
    reason: None,
    get: |policy, _| {
        let stack = policy.stack_id.as_ref();
        stack.map_or_else(|| NO_STACK.to_owned(), ToString::to_string)
    },
    set: |policy, _, text| {
        policy.stack_id = match text {
            NO_STACK => None,
            text => Some(Name::parse("stack id", text).map_err(|refusal| refusal.message)?),
        };
        Ok(())
    },
};

/// The text of the setting where a project has no stack.
const NO_STACK: &str = "none";

const RECOVERY_MODE: Knob = Knob {
    name: "recovery.mode",
    meaning: "the mode after a full context: minimal (briefings hold only the required parts) or full",
    shape: KnobType::Word,
    reason: None,
    get: |policy, _| policy.recovery_mode.as_str().to_owned(),
    set: |policy, _, text| {
        policy.recovery_mode = [RecoveryMode::Minimal, RecoveryMode::Full]
            .into_iter()
            .find(|mode| mode.as_str() == text)
            .ok_or_else(|| format!("`{text}` is neither `minimal` nor `full`"))?;
        Ok(())
    },
};

/// Every setting of the policy, the preset first.
pub fn knobs() -> Vec<Knob> {
    let mut all = vec![PRESET];
    all.extend(SPANS);
    all.push(MILESTONES);
    all.extend(COUNTS);
    all.extend(MORE_SPANS);
    all.push(HISTORY);
    all.push(SURPLUS);
    all.extend(EMERGENCIES);
    all.push(DESTRUCTIVE);
    all.extend(TOKENS);
    all.extend(SWITCHES);
    all.extend([RECOVERY_MODE, STACK_ID]);
    all.extend(MIRRORS);
    all.push(COMPRESSION);
    all.extend(
        Reason::ALL
            .iter()
            .filter(|reason| is_switchable(**reason))
            .map(|reason| trigger(*reason)),
    );
    all
}

fn trigger(reason: Reason) -> Knob {
    Knob {
        name: reason.setting(),
        meaning: reason.meaning(),
        shape: KnobType::Switch,
        reason: Some(reason),
        get: |policy, reason| {
            reason
                .is_some_and(|reason| policy.triggers.has(reason))
                .to_string()
        },
        set: |policy, reason, text| {
            let on = switch(text)?;
            if let Some(reason) = reason {
                policy.triggers.switch(reason, on);
            }
            Ok(())
        },
    }
}
