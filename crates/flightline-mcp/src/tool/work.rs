//! Tools for work: missions, sorties, notes, effects.

#[cfg(test)]
use std::borrow::Cow;
use std::collections::BTreeMap;

use flightline::core::Refusal;
use flightline::core::note::NoteKind;
use flightline::core::sortie::{SortieStatus, SubtaskStatus};
use flightline::effect::{BeginEffect, FinishEffect, ListEffects};
use flightline::mission::{ChangeMission, CreateMission, ListMissions, ShowMission, UseMission};
use flightline::note::end::EndNote;
use flightline::note::{AddNote, ListNotes};
use flightline::sortie::add::AddSorties;
use flightline::sortie::change::ChangeSortie;
use flightline::sortie::claim::{ClaimNext, ClaimSortie};
use flightline::sortie::report::{ReportError, UpdateSortie};
use flightline::sortie::{ListSorties, ShowSortie};
#[cfg(test)]
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use super::inspect::sortie_line;
use super::{Does, List, Loaded, PlannedCall, Tool, needed, read};
use crate::mirror::{ToolOutput, at, row, short};
use crate::runner::Call;
#[cfg(test)]
use crate::schema;

pub(super) const TOOLS: &[Tool] = &[
    Tool {
        name: "fleet_sortie",
        title: "Sorties",
        about: "Units of work: claim the next one or `sortie`, report with update, then complete.",
        loaded: Loaded::Core,
        does: Does::Adds,
        #[cfg(test)]
        input: schema::of::<SortieArgs>(),
        output: &[("sortie", "object"), ("sorties", "array")],
        plan: sortie,
    },
    Tool {
        name: "fleet_note",
        title: "Notes",
        about: "Records what must outlive your context.",
        loaded: Loaded::Core,
        does: Does::Adds,
        #[cfg(test)]
        input: schema::of::<NoteArgs>(),
        output: &[("note", "object"), ("notes", "array")],
        plan: note,
    },
    Tool {
        name: "fleet_mission",
        title: "Missions",
        about: "Objectives, divided into sorties: list, show, create, add sorties, change status.",
        loaded: Loaded::Full,
        does: Does::Adds,
        #[cfg(test)]
        input: schema::of::<MissionArgs>(),
        output: &[
            ("mission", "object"),
            ("missions", "array"),
            ("sorties", "array"),
            ("next_cursor", "string"),
        ],
        plan: mission,
    },
    Tool {
        name: "fleet_effect",
        title: "Effects",
        about: "Actions in the world outside that must not happen twice: begin before, done after.",
        loaded: Loaded::Full,
        does: Does::Adds,
        #[cfg(test)]
        input: schema::of::<EffectArgs>(),
        output: &[
            ("effect", "object"),
            ("effects", "array"),
            ("next_cursor", "string"),
        ],
        plan: effect,
    },
];

#[derive(Clone, Copy, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
enum SortieVerb {
    #[default]
    List,
    Show,
    Claim,
    Start,
    Update,
    Complete,
    Fail,
    Block,
    Unblock,
    Release,
    Error,
}

#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
struct SortieArgs {
    #[serde(default)]
    action: SortieVerb,
    sortie: Option<String>,
    /// Report, result or reason.
    text: Option<String>,
    next: Option<String>,
    #[serde(default)]
    files: Vec<String>,
    /// Status by name.
    #[serde(default)]
    #[cfg_attr(test, schemars(with = "BTreeMap<String, String>"))]
    subtasks: BTreeMap<String, SubtaskStatus>,
    cursor: Option<String>,
    #[serde(default)]
    #[cfg_attr(test, schemars(skip))]
    lock: bool,
    #[serde(default)]
    #[cfg_attr(test, schemars(skip))]
    checkpoint: bool,
    #[cfg_attr(test, schemars(skip))]
    status: Option<SortieStatus>,
    #[cfg_attr(test, schemars(skip))]
    mission: Option<String>,
    #[cfg_attr(test, schemars(skip))]
    agent: Option<String>,
}

fn sortie(arguments: &str) -> Result<PlannedCall, Refusal> {
    let args: SortieArgs = read("fleet_sortie", arguments)?;
    let which = |action: &str| needed("fleet_sortie", action, "sortie", args.sortie.clone());
    let said = |action: &str| needed("fleet_sortie", action, "text", args.text.clone());
    let change = |name: &str, action: Value| -> Result<Call, Refusal> {
        let request =
            json!({ "sortie": which(name)?, "action": action, "checkpoint": args.checkpoint });
        Ok(Call::of::<ChangeSortie>(request))
    };
    let call = match args.action {
        SortieVerb::List => {
            return Ok(PlannedCall::list(
                Call::of::<ListSorties>(json!({
                    "mission": args.mission,
                    "status": args.status,
                    "limit": u64::MAX,
                })),
                SORTIES,
                args.cursor,
            ));
        }
        SortieVerb::Show => Call::of::<ShowSortie>(json!({ "sortie": which("show")? })),
        SortieVerb::Claim => match &args.sortie {
            Some(sortie) => Call::of::<ClaimSortie>(json!({ "sortie": sortie, "lock": args.lock })),
            None => Call::of::<ClaimNext>(json!({ "mission": args.mission, "lock": args.lock })),
        },
        SortieVerb::Update => {
            let modified = |path: &String| json!({ "path": path, "change": "modified" });
            let files: Vec<Value> = args.files.iter().map(modified).collect();
            let standing = |(name, status): (&String, &SubtaskStatus)| json!({ "name": name, "status": status });
            let subtasks: Vec<Value> = args.subtasks.iter().map(standing).collect();
            Call::of::<UpdateSortie>(json!({
                "sortie": which("update")?,
                "note": args.text,
                "next_to_process": args.next,
                "files": files,
                "subtasks": subtasks,
                "checkpoint": args.checkpoint,
            }))
        }
        SortieVerb::Start => change("start", json!("start"))?,
        SortieVerb::Complete => change("complete", json!({ "complete": { "output": args.text } }))?,
        SortieVerb::Fail => change("fail", json!({ "fail": { "reason": said("fail")? } }))?,
        SortieVerb::Block => change("block", json!({ "block": { "reason": said("block")? } }))?,
        SortieVerb::Unblock => change("unblock", json!("unblock"))?,
        SortieVerb::Release => change("release", json!({ "release": { "reason": args.text } }))?,
        SortieVerb::Error => Call::of::<ReportError>(json!({
            "sortie": which("error")?,
            "kind": "error",
            "message": said("error")?,
        })),
    };
    Ok(PlannedCall::new(call.by(args.agent), |outcome| {
        let line = row([
            short(&outcome["sortie"], "/id"),
            at(&outcome["sortie"], "/status"),
            at(&outcome["sortie"], "/title"),
            at(&outcome, "/owner"),
            format!("mission {}%", at(&outcome, "/mission_percent")),
        ]);
        ToolOutput::object(outcome, line)
    }))
}

const SORTIES: List = List {
    key: "sorties",
    one: "sortie",
    id: "/id",
    at: "",
    line: sortie_line,
};

#[derive(Clone, Copy, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
enum NoteVerb {
    #[default]
    Add,
    List,
    Close,
    Withdraw,
}

/// A kind of note that agents write.
#[derive(Clone, Copy)]
struct Written(NoteKind);

impl Written {
    fn words() -> Vec<&'static str> {
        let kinds = NoteKind::ALL.into_iter();
        let written = kinds.filter(|kind| kind.is_written());
        written.map(NoteKind::as_str).collect()
    }
}

impl<'de> Deserialize<'de> for Written {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = String::deserialize(deserializer)?;
        let kind = NoteKind::from_spelling(&word).filter(|kind| kind.is_written());
        kind.map(Self).ok_or_else(|| {
            let words = Self::words().join("`, `");
            D::Error::custom(format!("unknown kind `{word}`, expected one of `{words}`"))
        })
    }
}

#[cfg(test)]
impl JsonSchema for Written {
    fn schema_name() -> Cow<'static, str> {
        "Written".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "enum": Self::words() })
    }
}

#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
struct NoteArgs {
    #[serde(default)]
    action: NoteVerb,
    kind: Option<Written>,
    text: Option<String>,
    rationale: Option<String>,
    note: Option<String>,
    cursor: Option<String>,
    #[cfg_attr(test, schemars(skip))]
    sortie: Option<String>,
    #[cfg_attr(test, schemars(skip))]
    path: Option<String>,
    #[cfg_attr(test, schemars(skip))]
    agent: Option<String>,
}

fn note(arguments: &str) -> Result<PlannedCall, Refusal> {
    let args: NoteArgs = read("fleet_note", arguments)?;
    let kind = args.kind.map(|Written(kind)| kind);
    let end = |name: &str, how: &str| -> Result<Call, Refusal> {
        let note = needed("fleet_note", name, "note", args.note.clone())?;
        Ok(Call::of::<EndNote>(
            json!({ "note": note, "how": how, "reason": args.text }),
        ))
    };
    let call = match args.action {
        NoteVerb::List => {
            return Ok(PlannedCall::list(
                Call::of::<ListNotes>(json!({ "kind": kind })),
                List {
                    key: "notes",
                    one: "note",
                    id: "/id",
                    at: "",
                    line: note_line,
                },
                args.cursor,
            ));
        }
        NoteVerb::Close => end("close", "closed")?,
        NoteVerb::Withdraw => end("withdraw", "withdrawn")?,
        NoteVerb::Add => Call::of::<AddNote>(json!({
            "kind": needed("fleet_note", "add", "kind", kind)?,
            "text": needed("fleet_note", "add", "text", args.text.clone())?,
            "rationale": args.rationale,
            "sortie": args.sortie,
            "path": args.path,
        })),
    };
    Ok(PlannedCall::new(call.by(args.agent), |outcome| {
        let line = note_line(&outcome);
        ToolOutput::object(json!({ "note": outcome }), line)
    }))
}

fn note_line(note: &Value) -> String {
    row([
        short(note, "/id"),
        at(note, "/kind"),
        at(note, "/text"),
        at(note, "/author"),
    ])
}

#[derive(Clone, Copy, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
enum MissionVerb {
    List,
    Show,
    Create,
    Add,
    Use,
    Start,
    Pause,
    Complete,
    Fail,
    Archive,
}

#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
struct MissionArgs {
    action: MissionVerb,
    mission: Option<String>,
    title: Option<String>,
    objective: Option<String>,
    /// Titles of sorties, for create and add.
    #[serde(default)]
    sorties: Vec<String>,
    reason: Option<String>,
    cursor: Option<String>,
    agent: Option<String>,
}

fn mission(arguments: &str) -> Result<PlannedCall, Refusal> {
    let args: MissionArgs = read("fleet_mission", arguments)?;
    let titled = |title: &String| json!({ "title": title });
    let sorties: Vec<Value> = args.sorties.iter().map(titled).collect();
    let change = |to: &str| {
        Call::of::<ChangeMission>(json!({
            "mission": args.mission,
            "to": to,
            "reason": args.reason,
        }))
    };
    let call = match args.action {
        MissionVerb::List => {
            return Ok(PlannedCall::list(
                Call::of::<ListMissions>(json!({ "limit": u64::MAX })),
                List {
                    key: "missions",
                    one: "mission",
                    id: "/id",
                    at: "",
                    line: mission_line,
                },
                args.cursor,
            ));
        }
        MissionVerb::Add => {
            let request = json!({ "mission": args.mission, "sorties": sorties });
            let call = Call::of::<AddSorties>(request).by(args.agent);
            return Ok(PlannedCall::list(call, SORTIES, args.cursor));
        }
        MissionVerb::Show => Call::of::<ShowMission>(json!({ "mission": args.mission })),
        MissionVerb::Create => Call::of::<CreateMission>(json!({
            "title": needed("fleet_mission", "create", "title", args.title)?,
            "objective": args.objective,
            "sorties": sorties,
        })),
        MissionVerb::Use => Call::of::<UseMission>(json!({
            "mission": needed("fleet_mission", "use", "mission", args.mission)?,
        })),
        MissionVerb::Start => change("in_progress"),
        MissionVerb::Pause => change("paused"),
        MissionVerb::Complete => change("completed"),
        MissionVerb::Fail => change("failed"),
        MissionVerb::Archive => change("archived"),
    };
    Ok(PlannedCall::new(call.by(args.agent), |outcome| {
        let line = row([
            mission_line(&outcome["mission"]),
            format!("{}%", at(&outcome, "/progress_percent")),
        ]);
        let sorties = outcome["sorties"].as_array().into_iter().flatten();
        let sorties: Vec<String> = sorties.map(sortie_line).collect();
        ToolOutput::object(outcome, line).with_lines(sorties)
    }))
}

fn mission_line(mission: &Value) -> String {
    let current = match mission["current"] == true {
        true => "current".to_owned(),
        false => String::new(),
    };
    row([
        short(mission, "/id"),
        at(mission, "/status"),
        at(mission, "/title"),
        current,
    ])
}

#[derive(Clone, Copy, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
enum EffectVerb {
    Begin,
    Done,
    List,
}

#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
struct EffectArgs {
    action: EffectVerb,
    /// Name of the effect, unique in its mission.
    key: Option<String>,
    what: Option<String>,
    result: Option<String>,
    /// Begin the effect again, after you checked that it did not happen.
    #[serde(default)]
    again: bool,
    /// List only effects that may or may not have happened.
    #[serde(default)]
    in_doubt: bool,
    sortie: Option<String>,
    mission: Option<String>,
    cursor: Option<String>,
    agent: Option<String>,
}

fn effect(arguments: &str) -> Result<PlannedCall, Refusal> {
    let args: EffectArgs = read("fleet_effect", arguments)?;
    let key = |action: &str| needed("fleet_effect", action, "key", args.key.clone());
    let call = match args.action {
        EffectVerb::List => {
            let request = json!({ "mission": args.mission, "in_doubt": args.in_doubt });
            return Ok(PlannedCall::list(
                Call::of::<ListEffects>(request),
                List {
                    key: "effects",
                    one: "effect",
                    id: "/id",
                    at: "",
                    line: effect_line,
                },
                args.cursor,
            ));
        }
        EffectVerb::Begin => Call::of::<BeginEffect>(json!({
            "key": key("begin")?,
            "what": args.what,
            "again": args.again,
            "sortie": args.sortie,
            "mission": args.mission,
        })),
        EffectVerb::Done => Call::of::<FinishEffect>(json!({
            "key": key("done")?,
            "result": args.result,
            "mission": args.mission,
        })),
    };
    Ok(PlannedCall::new(call.by(args.agent), |outcome| {
        let line = effect_line(&outcome);
        ToolOutput::object(json!({ "effect": outcome }), line)
    }))
}

fn effect_line(effect: &Value) -> String {
    row([
        at(effect, "/key"),
        at(effect, "/state/status"),
        at(effect, "/by"),
        at(effect, "/what"),
    ])
}
