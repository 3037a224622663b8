//! The briefing: what an agent is told when it comes back, as text for its context.
//!
//! Only our own words are trusted. They are the [`template`]: sentences, numbers, times, ids and the
//! names of commands. Every string that an agent or a user wrote is data: it stands between
//! `<NONCE author>` and `</NONCE>`, on lines that we begin, and [`strip_data`] takes all of it away and
//! leaves the template. Lists are one block per author, because a fence per line costs a third of the
//! room.
//!
//! The order is fixed, and the first [`FIRST`] characters are enough to act on, because clients cut
//! what is longer. What does not fit is counted, and the command that shows it is named: a briefing becomes shorter,
//! and is never refused.

mod cause;
mod fence;
mod files;
mod layout;
mod list;
mod rules;
mod share;

use serde::{Deserialize, Serialize};

pub use self::cause::{Cause, Ending, Predecessor};
pub(crate) use self::fence::clean;
pub use self::fence::{check_constraint, strip_data};
use self::layout::{Commands, Draft};
use self::list::{BriefingSection, ShownSection, Zone};
pub use self::rules::ConstraintRoom;
pub use self::share::estimate_tokens;
use self::share::{Size, SizeRequest, fair};
use crate::agent::Role;
use crate::context::ContextMode;
use crate::error::Refusal;
use crate::sortie::{SortieStatus, SubtaskProgress};
use crate::text::Name;
use crate::time::{Millis, Time};

/// After so many characters a client may cut; who the agent is and what comes next stand before, if
/// the constraints are not long.
pub const FIRST: usize = 2_000;
/// The most tokens of a briefing that says only where to read it all.
pub const LEAST: usize = 200;
/// What effects and next steps have together, even when the constraints are long.
const HEAD_LEAST: Size = Size::new(500, 1_150);
/// What blockers have at most, so that files and decisions are not crowded out.
const BLOCKERS: Size = Size::new(500, 450);

/// A text and its author.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Quote {
    /// Who wrote it: an agent's name, `user:NAME`, or `flightline`.
    pub author: String,
    /// The text as its author wrote it.
    pub text: String,
}

/// Everything a briefing can say. Lists are in the order of their importance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Facts {
    /// What the mission is about.
    pub mission_title: Quote,
    /// The mission's id, or as much of it as is unique.
    pub mission_id: String,
    /// The sortie the agent is at.
    pub sortie: Option<SortieFacts>,
    /// The agent that is briefed; none when a person or a whole fleet is.
    pub agent: Option<AgentFacts>,
    /// The id of the checkpoint the work was resumed from.
    pub checkpoint: Option<String>,
    /// The revision these facts are true at.
    pub rev: u64,
    /// The mission's progress.
    pub progress_percent: u8,
    /// The last action in the mission.
    pub last_action: Option<Quote>,
    /// Rules that bind everybody on the mission: first of all, and word for word where there is room.
    pub constraints: Vec<Quote>,
    /// Effects on the world that happened.
    pub effects_done: Vec<Quote>,
    /// Effects that were begun and never reported done.
    pub effects_in_doubt: Vec<Quote>,
    /// The next steps of the mission.
    pub next_steps: Vec<Quote>,
    /// The blockers of the mission.
    pub blockers: Vec<Quote>,
    /// Files that were worked on.
    pub files: Vec<FileFact>,
    /// The decisions of the mission.
    pub decisions: Vec<Quote>,
    /// Attempts that do not work.
    pub dead_ends: Vec<Quote>,
    /// What changed while the agent was away.
    pub changes: Vec<Quote>,
    /// Mail the agent has not acknowledged.
    pub mail: Vec<MailFact>,
    /// How long the mission has taken so far.
    pub elapsed_ms: Millis,
    /// The last sign of life.
    pub last_activity_at: Option<Time>,
    /// That the agent is given only what is required, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<ModeFacts>,
    /// Why the briefing is given.
    #[serde(default)]
    pub cause: Cause,
    /// Who had the sortie before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predecessor: Option<Predecessor>,
    /// Whether it tells how things are, or how they were.
    #[serde(default)]
    pub moment: Moment,
}

/// Whether a briefing tells how things are, or how they were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Moment {
    /// As of now: the agent can work by it, and acknowledge it.
    #[default]
    Now,
    /// As of the checkpoint.
    Checkpoint,
}

/// That an agent is given only what is required.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ModeFacts {
    /// Its mode; never the normal one.
    pub mode: ContextMode,
    /// Whether the project keeps the files that seed E's protocol names.
    pub protocol_files: bool,
}

/// The sortie the agent is at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SortieFacts {
    /// Its id, or as much of it as is unique.
    pub id: String,
    /// What it is about.
    pub title: Quote,
    /// Where it stands.
    pub status: SortieStatus,
    /// Which attempt this is.
    pub attempt: u32,
    /// How far it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<SubtaskProgress>,
}

/// The agent that is briefed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AgentFacts {
    /// The agent's name.
    pub name: Name,
    /// The epoch of the agent's session.
    pub epoch: u64,
    /// Whether it coordinates or works.
    pub role: Role,
}

/// A file that was worked on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FileFact {
    /// Its path, from the repository's root.
    pub path: String,
    /// Whether what was said of it is true.
    pub mark: FileMark,
}

/// Whether what was said of a file is true. What needs attention comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum FileMark {
    /// It is not there.
    Missing,
    /// It is not what it was when it was reported.
    Changed,
    /// A report says so, and the work tree was not looked at.
    Claimed,
    /// It is as it was reported.
    Verified,
}

impl FileMark {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Changed => "changed",
            Self::Claimed => "claimed",
            Self::Verified => "verified",
        }
    }
}

/// Mail the agent has not acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MailFact {
    /// The message's id, or as much of it as is unique.
    pub id: String,
    /// What it is about; its author is the sender.
    pub subject: Quote,
}

/// How long a briefing may be. Both hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Budget {
    /// As [`estimate_tokens`] counts.
    pub max_tokens: usize,
    /// The most Unicode characters.
    pub max_chars: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            max_tokens: 2_000,
            max_chars: 9_000,
        }
    }
}

impl Budget {
    fn limit(self) -> Size {
        Size::new(self.max_chars, self.max_tokens.saturating_mul(3))
    }
}

/// How much a briefing says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Everything there is room for.
    Full,
    /// The required part: constraints, who you are, effects, next steps, blockers, commands.
    Minimal,
}

/// Writes the briefing. The same arguments give the same bytes, and the text keeps to both limits of
/// the budget: with too little room for everything the required part is written, then less of the constraints, and
/// in the end only where to read it all, which takes up to [`LEAST`] tokens whatever is allowed. All that is left out
/// is counted, with the command that shows it.
///
/// The nonce names the fences: 6 to 32 ASCII letters and digits, to be derived with a secret, so that
/// no author can know it beforehand. Refuses a malformed id or nonce, which is a mistake of the caller.
pub fn write(facts: &Facts, nonce: &str, budget: Budget, mode: Mode) -> Result<String, Refusal> {
    draft(facts, nonce, budget, mode).map(|draft| draft.text)
}

/// What [`write()`] says in its own words: the same text without the data blocks. It depends on ids,
/// names, numbers, times and on how much is shown, never on what the data says.
pub fn template(facts: &Facts, nonce: &str, budget: Budget, mode: Mode) -> Result<String, Refusal> {
    draft(facts, nonce, budget, mode).map(|draft| draft.template)
}

/// Why a briefing is only recalled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recall {
    /// It was offered twice, and is not acknowledged.
    Waiting,
    /// It is acknowledged.
    Read,
}

/// One line for an agent that was offered its briefing twice, or has acknowledged it.
pub fn recall_line(
    mission_id: &str,
    agent: Option<&Name>,
    recall: Recall,
) -> Result<String, Refusal> {
    check_id("mission id", mission_id)?;
    let command = layout::context_command(agent, mission_id);
    let what = match recall {
        Recall::Waiting => "is waiting",
        Recall::Read => "is acknowledged, and here again",
    };
    Ok(format!(
        "Flightline: your briefing for `{mission_id}` {what}: `{command}`"
    ))
}

fn draft<'a>(
    facts: &Facts,
    nonce: &'a str,
    budget: Budget,
    mode: Mode,
) -> Result<Draft<'a>, Refusal> {
    check(facts, nonce)?;
    let limit = budget.limit();
    let commands = Commands::new(facts);
    let sections = list::sections(facts, nonce, &commands);
    let required = sections.partition_point(|section| section.heading.zone != Zone::Rest);
    let rules = rules::rules(facts, nonce, &commands.constraints);
    let whole = Parts {
        facts,
        nonce,
        rules: &rules,
        sections: &sections,
        left_out: &[],
    };
    let required = Parts {
        sections: &sections[..required],
        left_out: &sections[required..],
        ..whole
    };
    let at_once = match mode {
        Mode::Full => whole.fit(limit).or_else(|| required.fit(limit)),
        Mode::Minimal => required.fit(limit),
    };
    if let Some(draft) = at_once {
        return Ok(draft);
    }
    // The other required parts come first now: an agent that does not know its task cannot keep a rule while doing it.
    let without = Parts {
        rules: &ShownSection::default(),
        ..required
    };
    let room = limit - without.needed(&without.frame()) - Size::of(layout::PARTLY);
    let rules = rules::within(facts, nonce, &commands.constraints, room);
    let draft = rules.and_then(|rules| {
        let fewer = Parts {
            rules: &rules,
            ..required
        };
        fewer.fit(limit)
    });
    Ok(draft.unwrap_or_else(|| layout::write_least(facts, nonce, limit)))
}

/// What a briefing is put together from.
#[derive(Clone, Copy)]
struct Parts<'a, 'f> {
    facts: &'f Facts,
    nonce: &'a str,
    rules: &'f ShownSection,
    sections: &'f [BriefingSection],
    left_out: &'f [BriefingSection],
}

impl<'a> Parts<'a, '_> {
    fn write(&self, shown: &[ShownSection]) -> Draft<'a> {
        let lists = (self.sections, self.left_out);
        layout::write(self.facts, self.nonce, self.rules, lists, shown)
    }

    /// The text with nothing in its lists.
    fn frame(&self) -> Draft<'a> {
        let nothing: Vec<ShownSection> = self
            .sections
            .iter()
            .map(|_| ShownSection::default())
            .collect();
        self.write(&nothing)
    }

    /// How much room it takes at least.
    fn needed(&self, frame: &Draft<'_>) -> Size {
        let owed: Size = self.sections.iter().map(|it| it.ask().floor).sum();
        Size::of(&frame.text) + owed
    }

    /// The text with as much of each section as there is room for; none when there is not room for the least.
    fn fit(&self, limit: Size) -> Option<Draft<'a>> {
        let frame = self.frame();
        if !self.needed(&frame).fits(limit) {
            return None;
        }
        let mut owed: Size = self.sections.iter().map(|it| it.ask().floor).sum();
        let head = FIRST.saturating_sub(frame.head_chars);
        // Plain prose costs that many thirds; what costs more should not take the room of all that follows.
        let head = Size::new(head, head + head / 4).most(HEAD_LEAST);
        let mut room = limit - Size::of(&frame.text);
        let mut shown = Vec::with_capacity(self.sections.len());
        for (zone, most) in [
            (Zone::Head, head),
            (Zone::Blockers, BLOCKERS),
            (Zone::Rest, Size::ENDLESS),
        ] {
            let group = self.sections.iter().filter(|it| it.heading.zone == zone);
            let asks: Vec<SizeRequest> = group.clone().map(BriefingSection::ask).collect();
            let floor: Size = asks.iter().map(|ask| ask.floor).sum();
            owed = owed - floor;
            let shares = fair(&asks, (room - owed).least(most.most(floor)));
            for (section, share) in group.zip(shares) {
                let part = section.show(share);
                // What one zone leaves, the next has.
                room = room - part.size;
                shown.push(part);
            }
        }
        Some(self.write(&shown))
    }
}

pub(crate) fn check_nonce(nonce: &str) -> Result<(), Refusal> {
    let plain = nonce.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if !plain || !(6..=32).contains(&nonce.len()) {
        return Err(Refusal::invalid(
            "the briefing's nonce is not 6 to 32 ASCII letters and digits",
        ));
    }
    Ok(())
}

/// What becomes part of our own words must be one.
fn check(facts: &Facts, nonce: &str) -> Result<(), Refusal> {
    check_nonce(nonce)?;
    check_id("mission id", &facts.mission_id)?;
    if let Some(sortie) = &facts.sortie {
        check_id("sortie id", &sortie.id)?;
    }
    if let Some(checkpoint) = &facts.checkpoint {
        check_id("checkpoint id", checkpoint)?;
    }
    if let Cause::Rewind { to } = &facts.cause {
        check_id("checkpoint id", to)?;
    }
    Ok(())
}

fn check_id(what: &str, id: &str) -> Result<(), Refusal> {
    Name::parse(what, id).map(|_| ())
}

#[cfg(test)]
mod tests;
