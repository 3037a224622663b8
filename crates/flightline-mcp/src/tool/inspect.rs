//! Tools that look: the fleet's status, its events, a replay.

use flightline::core::Refusal;
use flightline::event::ListEvents;
use flightline::replay::Replay;
use flightline::status::ShowStatus;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Does, Loaded, PlannedCall, Tool, read};
use crate::mirror::{ToolOutput, at, count, length, row, short};
use crate::room::{MOST, tokens};
use crate::runner::Call;
#[cfg(test)]
use crate::schema;

pub(super) const TOOLS: &[Tool] = &[
    Tool {
        name: "fleet_status",
        title: "Status",
        about: "Mission, sorties, agents, locks, what needs attention.",
        loaded: Loaded::Core,
        does: Does::Looks,
        #[cfg(test)]
        input: schema::of::<StatusArgs>(),
        output: &[("mission", "object")],
        plan: status,
    },
    Tool {
        name: "fleet_events",
        title: "Events",
        about: "The journal of all that happened, newest first.",
        loaded: Loaded::Full,
        does: Does::Looks,
        #[cfg(test)]
        input: schema::of::<EventsArgs>(),
        output: &[("events", "array"), ("next_cursor", "string")],
        plan: events,
    },
    Tool {
        name: "fleet_replay",
        title: "Replay",
        about: "A mission's history step by step, oldest first: what each step changed.",
        loaded: Loaded::Full,
        does: Does::Looks,
        #[cfg(test)]
        input: schema::of::<ReplayArgs>(),
        output: &[("steps", "array"), ("next_cursor", "string")],
        plan: replay,
    },
];

#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
struct StatusArgs {
    mission: Option<String>,
}

fn status(arguments: &str) -> Result<PlannedCall, Refusal> {
    let args: StatusArgs = read("fleet_status", arguments)?;
    let call = Call::of::<ShowStatus>(json!({ "mission": args.mission }));
    Ok(PlannedCall::new(call, |outcome| {
        let lines = status_lines(&outcome);
        ToolOutput {
            lines,
            ..ToolOutput::object(outcome, String::new())
        }
    }))
}

pub(crate) fn status_lines(status: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    match status.pointer("/mission/mission") {
        None => lines.push("no mission".to_owned()),
        Some(mission) => lines.push(row([
            at(mission, "/title"),
            short(mission, "/id"),
            at(mission, "/status"),
            format!(
                "{}%, {} of {} sorties done",
                at(status, "/mission/progress_percent"),
                at(status, "/mission/progress/completed"),
                at(status, "/mission/progress/total"),
            ),
        ])),
    }
    let needs = status.pointer("/attention").and_then(Value::as_array);
    for need in needs.into_iter().flatten().take(3) {
        lines.push(format!("needs attention: {}", at(need, "/what")));
    }
    let sorties = status.pointer("/mission/sorties").and_then(Value::as_array);
    let open = sorties.into_iter().flatten();
    let open = open.filter(|sortie| sortie["status"] != "completed");
    lines.extend(open.take(4).map(sortie_line));
    let (agents, locks) = (length(status, "/agents"), length(status, "/locks"));
    lines.push(format!(
        "{}, {}",
        count(agents, "agent", "agents"),
        count(locks, "lock", "locks")
    ));
    lines
}

pub(super) fn sortie_line(sortie: &Value) -> String {
    row([
        short(sortie, "/id"),
        at(sortie, "/status"),
        at(sortie, "/title"),
        at(sortie, "/assigned_to"),
    ])
}

#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
struct EventsArgs {
    mission: Option<String>,
    /// Type of the events, such as `sortie_completed`.
    r#type: Option<String>,
    /// Full id of the subject that the events are about.
    about: Option<String>,
    cursor: Option<String>,
}

/// The number of events that one call asks for.
const EVENTS: u64 = 50;

fn events(arguments: &str) -> Result<PlannedCall, Refusal> {
    let args: EventsArgs = read("fleet_events", arguments)?;
    let before = args.cursor.as_deref().map(place).transpose()?;
    let call = Call::of::<ListEvents>(json!({
        "mission": args.mission,
        "kind": args.r#type,
        "subject": args.about,
        "before": before,
        "limit": EVENTS,
        "story": false,
    }));
    Ok(PlannedCall::new(call, |mut outcome| {
        let history = at(&outcome, "/cursor/history");
        let events = match outcome.pointer_mut("/events").map(Value::take) {
            Some(Value::Array(events)) => events,
            _ => Vec::new(),
        };
        let asked = events.len();
        let events = as_many_as_fit(events);
        let last = events.last().map(|event| at(event, "/rev"));
        let full = asked == usize::try_from(EVENTS).unwrap_or(usize::MAX) || events.len() < asked;
        let next = last.filter(|_| full).map(|rev| format!("{history}.{rev}"));
        let lines = events.iter().map(|event| {
            row([
                at(event, "/timestamp"),
                at(event, "/actor"),
                at(event, "/type"),
                short(event, "/subject"),
            ])
        });
        let first = count(events.len(), "event", "events");
        let lines: Vec<String> = lines.collect();
        ToolOutput::object(with_cursor("events", events, next), first).with_lines(lines)
    }))
}

/// A place in the journal, as `HISTORY.REV`.
fn place(cursor: &str) -> Result<Value, Refusal> {
    let read = cursor
        .rsplit_once('.')
        .and_then(|(history, rev)| Some((history, rev.parse::<u64>().ok()?)));
    let (history, rev) = read.ok_or_else(|| {
        Refusal::invalid("the cursor is none that this tool gave")
            .hint("call again without a cursor, or with a `next_cursor` as it was given")
    })?;
    Ok(json!({ "history": history, "rev": rev }))
}

#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
struct ReplayArgs {
    mission: Option<String>,
    /// First step: a revision or a checkpoint.
    from: Option<String>,
    /// Last step: a revision or a checkpoint.
    to: Option<String>,
    cursor: Option<String>,
}

fn replay(arguments: &str) -> Result<PlannedCall, Refusal> {
    let args: ReplayArgs = read("fleet_replay", arguments)?;
    let after = match &args.cursor {
        None => None,
        Some(cursor) => Some(cursor.parse::<u64>().map_err(|_| {
            Refusal::invalid("the cursor is none that this tool gave")
                .hint("call again without a cursor, or with a `next_cursor` as it was given")
        })?),
    };
    let mut request = json!({
        "mission": args.mission,
        "from": args.from,
        "to": args.to,
        "limit": 20,
    });
    if let Some(rev) = after {
        request["place"] = json!({ "after": { "rev": rev } });
    }
    let call = Call::of::<Replay>(request);
    Ok(PlannedCall::new(call, |mut outcome| {
        let to = outcome.pointer("/to").and_then(Value::as_u64);
        let steps = match outcome.pointer_mut("/steps").map(Value::take) {
            Some(Value::Array(steps)) => steps,
            _ => Vec::new(),
        };
        let steps = as_many_as_fit(steps);
        let last = steps.last().and_then(|step| step["rev"].as_u64());
        let next = last.filter(|last| to.is_some_and(|to| *last < to));
        let lines = steps.iter().map(|step| {
            let kinds = step["events"].as_array().into_iter().flatten();
            let kinds: Vec<String> = kinds.map(|event| at(event, "/type")).collect();
            row([at(step, "/step"), at(step, "/actor"), kinds.join(", ")])
        });
        let lines: Vec<String> = lines.collect();
        let first = count(steps.len(), "step", "steps");
        let next = next.map(|rev| rev.to_string());
        ToolOutput::object(with_cursor("steps", steps, next), first).with_lines(lines)
    }))
}

/// The first items of a list that fit into a result, at least one.
fn as_many_as_fit(items: Vec<Value>) -> Vec<Value> {
    let mut room = MOST - 100;
    let mut kept = Vec::new();
    for item in items {
        let size = tokens(&item) + 1;
        if size > room && !kept.is_empty() {
            break;
        }
        room = room.saturating_sub(size);
        kept.push(item);
    }
    kept
}

fn with_cursor(key: &str, items: Vec<Value>, next: Option<String>) -> Value {
    let mut content = json!({ key: items });
    if let Some(next) = next {
        content["next_cursor"] = Value::String(next);
    }
    content
}
