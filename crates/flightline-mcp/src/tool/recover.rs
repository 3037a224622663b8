//! Tools for what survives a lost context: briefings, checkpoints, recovery.

use flightline::checkpoint::inspect::{
    DiffCheckpoints, ListCheckpoints, MarkCheckpoint, ShowCheckpoint, VerifyCheckpoints,
};
use flightline::checkpoint::take::TakeCheckpoint;
use flightline::context::peek::PeekBriefing;
use flightline::context::{AcknowledgeBriefing, BriefAgent, DeliverBriefing};
use flightline::core::Refusal;
use flightline::recovery::detect::Detect;
use flightline::recovery::resume::Resume;
use flightline::recovery::undo::Undo;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Does, List, Loaded, PlannedCall, Tool, needed, read};
use crate::mirror::{ToolOutput, at, row, short};
use crate::runner::Call;
#[cfg(test)]
use crate::schema;

pub(super) const TOOLS: &[Tool] = &[
    Tool {
        name: "fleet_context",
        title: "Briefing",
        about: "Who you are, what is done, what comes next. Call it first and after losing context; then acknowledge with ack: the nonce.",
        loaded: Loaded::Core,
        does: Does::Adds,
        #[cfg(test)]
        input: schema::of::<ContextArgs>(),
        output: &[("text", "string"), ("nonce", "string")],
        plan: context,
    },
    Tool {
        name: "fleet_checkpoint",
        title: "Checkpoint",
        about: "Saves the mission's state, to recover from.",
        loaded: Loaded::Core,
        does: Does::Adds,
        #[cfg(test)]
        input: schema::of::<CheckpointArgs>(),
        output: &[("id", "string")],
        plan: checkpoint,
    },
    Tool {
        name: "fleet_checkpoints",
        title: "Checkpoints",
        about: "List, show, compare, verify, pin or annotate checkpoints.",
        loaded: Loaded::Full,
        does: Does::Adds,
        #[cfg(test)]
        input: schema::of::<CheckpointsArgs>(),
        output: &[
            ("checkpoints", "array"),
            ("checkpoint", "object"),
            ("differences", "array"),
            ("verifications", "array"),
            ("next_cursor", "string"),
        ],
        plan: checkpoints,
    },
    Tool {
        name: "fleet_resume",
        title: "Recover a mission",
        about: "detect: missions that need recovery; preview: what a resume would do; resume: free dead agents' work, or go back to a checkpoint; undo: take the last rewind back.",
        loaded: Loaded::Full,
        does: Does::Rewinds,
        #[cfg(test)]
        input: schema::of::<ResumeArgs>(),
        output: &[
            ("candidates", "array"),
            ("resumed", "object"),
            ("next_cursor", "string"),
        ],
        plan: resume,
    },
];

#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
struct ContextArgs {
    ack: Option<String>,
    #[serde(default)]
    full: bool,
    #[cfg_attr(test, schemars(skip))]
    of: Option<String>,
    #[cfg_attr(test, schemars(skip))]
    max_tokens: Option<usize>,
    #[cfg_attr(test, schemars(skip))]
    mission: Option<String>,
    #[cfg_attr(test, schemars(skip))]
    agent: Option<String>,
}

/// The most tokens of a briefing: a longer one does not fit into a result.
const LONGEST_BRIEFING: usize = 3_000;

fn context(arguments: &str) -> Result<PlannedCall, Refusal> {
    let args: ContextArgs = read("fleet_context", arguments)?;
    if let Some(nonce) = args.ack {
        let call = Call::of::<AcknowledgeBriefing>(json!({ "nonce": nonce }));
        return Ok(PlannedCall::new(call.by(args.agent), |outcome| {
            ToolOutput::object(outcome, "acknowledged: continue the mission".to_owned())
        }));
    }
    let max_tokens = args.max_tokens.map(|most| most.min(LONGEST_BRIEFING));
    let mut request = json!({
        "mission": args.mission,
        "max_tokens": max_tokens,
        "minimal": false,
    });
    let call = match (args.of, args.full) {
        (Some(other), _) => {
            request["agent"] = json!(other);
            let call = Call::of::<PeekBriefing>(request).by(args.agent);
            return Ok(PlannedCall::new(call, |outcome| briefing(outcome, false)));
        }
        (None, true) => Call::of::<BriefAgent>(request),
        (None, false) => Call::of::<DeliverBriefing>(request),
    };
    Ok(PlannedCall::new(call.by(args.agent), |outcome| {
        briefing(outcome, true)
    }))
}

/// A briefing, which is read whole. The text alone is given, without the facts that it was made from.
fn briefing(mut outcome: Value, own: bool) -> ToolOutput {
    if let Value::Object(fields) = &mut outcome {
        fields.remove("facts");
    }
    let (text, nonce) = (at(&outcome, "/text"), at(&outcome, "/nonce"));
    let acknowledged = at(&outcome, "/receipt/status") == "acknowledged";
    let line = match own && !acknowledged && !nonce.is_empty() {
        true => format!("read it, then call fleet_context with {{\"ack\": \"{nonce}\"}}"),
        false => "a briefing".to_owned(),
    };
    ToolOutput::object(outcome, line).with_document(Some(text))
}

#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
struct CheckpointArgs {
    note: Option<String>,
    #[cfg_attr(test, schemars(skip))]
    mission: Option<String>,
    #[cfg_attr(test, schemars(skip))]
    agent: Option<String>,
}

fn checkpoint(arguments: &str) -> Result<PlannedCall, Refusal> {
    let args: CheckpointArgs = read("fleet_checkpoint", arguments)?;
    let call = Call::of::<TakeCheckpoint>(json!({
        "mission": args.mission,
        "note": args.note,
    }));
    Ok(PlannedCall::new(call.by(args.agent), |outcome| {
        let line = checkpoint_line(&outcome);
        ToolOutput::object(outcome, line)
    }))
}

fn checkpoint_line(checkpoint: &Value) -> String {
    row([
        short(checkpoint, "/id"),
        at(checkpoint, "/timestamp"),
        format!("{}%", at(checkpoint, "/progress_percent")),
        at(checkpoint, "/reason"),
        at(checkpoint, "/note"),
    ])
}

#[derive(Clone, Copy, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
enum CheckpointsAction {
    List,
    Show,
    Diff,
    Verify,
    Pin,
    Unpin,
    Note,
}

#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
struct CheckpointsArgs {
    action: CheckpointsAction,
    /// Id of a checkpoint, or `@latest`.
    checkpoint: Option<String>,
    /// The later checkpoint of a diff; without it, the present.
    with: Option<String>,
    text: Option<String>,
    mission: Option<String>,
    cursor: Option<String>,
    agent: Option<String>,
}

fn checkpoints(arguments: &str) -> Result<PlannedCall, Refusal> {
    let args: CheckpointsArgs = read("fleet_checkpoints", arguments)?;
    let which = |action: &str| {
        needed(
            "fleet_checkpoints",
            action,
            "checkpoint",
            args.checkpoint.clone(),
        )
    };
    let mark = |action: &str, mark: Value| -> Result<PlannedCall, Refusal> {
        let call =
            Call::of::<MarkCheckpoint>(json!({ "checkpoint": which(action)?, "mark": mark }));
        Ok(PlannedCall::new(call.by(args.agent.clone()), |outcome| {
            let line = checkpoint_line(&outcome);
            ToolOutput::object(json!({ "checkpoint": outcome }), line)
        }))
    };
    match args.action {
        CheckpointsAction::List => Ok(PlannedCall::list(
            Call::of::<ListCheckpoints>(json!({ "mission": args.mission, "limit": u64::MAX })),
            List {
                key: "checkpoints",
                one: "checkpoint",
                id: "/id",
                at: "/checkpoints",
                line: checkpoint_line,
            },
            args.cursor,
        )),
        CheckpointsAction::Show => {
            let call = Call::of::<ShowCheckpoint>(json!({ "checkpoint": which("show")? }));
            Ok(PlannedCall::new(call, |outcome| {
                let line = checkpoint_line(&outcome);
                ToolOutput::object(json!({ "checkpoint": outcome }), line)
            }))
        }
        CheckpointsAction::Diff => Ok(PlannedCall::list(
            Call::of::<DiffCheckpoints>(json!({ "a": which("diff")?, "b": args.with })),
            List {
                key: "differences",
                one: "difference",
                id: "/id",
                at: "",
                line: |it| row([at(it, "/change"), at(it, "/kind"), short(it, "/id")]),
            },
            args.cursor,
        )),
        CheckpointsAction::Verify => Ok(PlannedCall::list(
            Call::of::<VerifyCheckpoints>(json!({ "checkpoint": args.checkpoint })),
            List {
                key: "verifications",
                one: "checkpoint",
                id: "/id",
                at: "",
                line: |it| {
                    let sound = match it["sound"] == true {
                        true => "sound".to_owned(),
                        false => "damaged".to_owned(),
                    };
                    row([short(it, "/id"), sound, at(it, "/problem")])
                },
            },
            args.cursor,
        )),
        CheckpointsAction::Pin => mark("pin", json!("pin")),
        CheckpointsAction::Unpin => mark("unpin", json!("unpin")),
        CheckpointsAction::Note => {
            let text = needed("fleet_checkpoints", "note", "text", args.text.clone())?;
            mark("note", json!({ "note": { "text": text } }))
        }
    }
}

#[derive(Clone, Copy, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
enum ResumeAction {
    Detect,
    Preview,
    Resume,
    Undo,
}

#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
struct ResumeArgs {
    action: ResumeAction,
    mission: Option<String>,
    /// Checkpoint to go back to exactly.
    checkpoint: Option<String>,
    /// Also take back finished work of living agents.
    #[serde(default)]
    force: bool,
    /// Continue without failed work.
    #[serde(default)]
    skip_failed: bool,
    /// Resume a mission that has ended.
    #[serde(default)]
    reopen: bool,
    cursor: Option<String>,
    agent: Option<String>,
}

fn resume(arguments: &str) -> Result<PlannedCall, Refusal> {
    let args: ResumeArgs = read("fleet_resume", arguments)?;
    let (call, line): (Call, fn(&Value) -> String) = match args.action {
        ResumeAction::Detect => {
            return Ok(PlannedCall::list(
                Call::of::<Detect>(json!({ "sightings": [] })).by(args.agent),
                List {
                    key: "candidates",
                    one: "mission that needs recovery",
                    id: "/mission_id",
                    at: "",
                    line: |it| {
                        row([
                            short(it, "/mission_id"),
                            at(it, "/title"),
                            at(it, "/evidence"),
                        ])
                    },
                },
                args.cursor,
            ));
        }
        ResumeAction::Preview | ResumeAction::Resume => {
            let call = Call::of::<Resume>(json!({
                "mission": args.mission,
                "checkpoint": args.checkpoint,
                "force": args.force,
                "skip_failed": args.skip_failed,
                "reopen": args.reopen,
                "sightings": [],
            }));
            match args.action {
                ResumeAction::Preview => (
                    Call {
                        rehearse: true,
                        ..call
                    },
                    |it| format!("would resume: {}", resumed_line(it)),
                ),
                _ => (call, |it| format!("resumed: {}", resumed_line(it))),
            }
        }
        ResumeAction::Undo => {
            let request = json!({ "mission": args.mission, "force": args.force, "sightings": [] });
            (Call::of::<Undo>(request), |it| {
                format!("taken back: {}", resumed_line(it))
            })
        }
    };
    Ok(PlannedCall::new(call.by(args.agent), move |outcome| {
        let line = line(&outcome);
        let lost = outcome["lost"].as_array().into_iter().flatten();
        let lost: Vec<String> = lost.map(|it| format!("lost: {}", at(it, ""))).collect();
        let warned = outcome["warnings"].as_array().into_iter().flatten();
        let warned: Vec<String> = warned
            .map(|it| format!("warning: {}", at(it, "")))
            .collect();
        ToolOutput::object(json!({ "resumed": outcome }), line)
            .with_lines(lost.into_iter().chain(warned))
    }))
}

fn resumed_line(resumed: &Value) -> String {
    row([
        at(resumed, "/mission_title"),
        format!("{}%", at(resumed, "/progress_percent")),
        format!("from {}", short(resumed, "/checkpoint_id")),
    ])
}
