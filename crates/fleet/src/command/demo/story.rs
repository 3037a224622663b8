//! What happened, told from the journal and from what was seen: nothing else.

use flightline::core::event::Event;
use flightline::core::{Millis, Time};
use serde::Serialize;
use serde_json::Value;

use super::agent::Report;
use super::crew::Heard;
use super::found::Found;
use super::script::Played;

/// One thing that happened.
#[derive(Clone, Debug, Serialize)]
pub struct Beat {
    /// Milliseconds since the start.
    pub at_ms: Millis,
    /// Who did it.
    pub who: String,
    /// What.
    pub what: String,
    /// How it is known.
    pub source: Source,
}

/// How something is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// It stands in the journal.
    Journal,
    /// An agent said so on its stdout, or the demo did it.
    Seen,
}

/// The whole story, in the order of time.
pub fn tell(played: &Played, found: Option<&Found>) -> Vec<Beat> {
    let seen_by_agents = played.heard.iter().filter_map(|heard| {
        let what = seen(&heard.said.report)?;
        Some((heard.said.at, heard.who.clone(), what, Source::Seen))
    });
    let seen_by_us = played.deeds.iter().map(|deed| {
        let who = "the demo".to_owned();
        (deed.at, who, deed.what.clone(), Source::Seen)
    });
    let written = found.into_iter().flat_map(|found| {
        found.events.iter().filter_map(|event| {
            let (who, what) = journal(event, found)?;
            Some((event.timestamp, who, what, Source::Journal))
        })
    });
    let mut beats: Vec<(Time, String, String, Source)> =
        seen_by_agents.chain(seen_by_us).chain(written).collect();
    // Stable, so that within a millisecond the journal keeps its own order, behind what was said first.
    beats.sort_by_key(|(at, ..)| *at);
    beats
        .into_iter()
        .map(|(at, who, what, source)| Beat {
            at_ms: at.since(played.began),
            who,
            what,
            source,
        })
        .collect()
}

/// The briefing that an agent got.
pub fn briefing(heard: &[Heard], who: &str) -> Option<String> {
    heard.iter().find_map(|heard| match &heard.said.report {
        Report::Briefed { text } if heard.who == who => Some(text.clone()),
        _ => None,
    })
}

fn seen(report: &Report) -> Option<String> {
    Some(match report {
        Report::Ready => return None,
        Report::MidEdit { file } => format!("has written half a line of {file}, and hangs"),
        Report::Forgot => {
            "loses its context in the middle of an edit: all it knew is gone".to_owned()
        }
        Report::Briefed { text } => format!(
            "asks who it is, and gets a briefing of {} characters (below)",
            text.chars().count()
        ),
        Report::Recalled {
            next_steps,
            in_doubt,
        } => {
            let keys: Vec<&str> = in_doubt
                .iter()
                .map(|effect| effect.split(':').next().unwrap_or(effect))
                .collect();
            format!(
                "reads there: {}; in doubt: {}",
                next_steps.join("; "),
                keys.join(", ")
            )
        }
        Report::Mended { file, dropped } => {
            format!("takes \"{dropped}\" off the end of {file}: it was never reported")
        }
        Report::Looked { effect, happened } => {
            let then = if *happened {
                "finds it there, and only reports it done"
            } else {
                "does not find it, and begins it again"
            };
            format!("cannot know whether {effect} happened: looks into the ledger, {then}")
        }
        Report::Detected { gone, alive } => {
            let alive = match alive.as_slice() {
                [] => String::new(),
                alive => format!(" (alive: {})", alive.join(", ")),
            };
            format!("detects: {}{alive}", gone.join("; "))
        }
        Report::Resumed { done } => format!("resumes the mission: {}", done.join("; ")),
    })
}

fn journal(event: &Event, found: &Found) -> Option<(String, String)> {
    let text = |field: &str| event.data[field].as_str().unwrap_or_default();
    let short = |field: &str| text(field).chars().take(12).collect::<String>();
    let title = || format!("\"{}\"", found.title(&event.subject));
    let what = match event.kind.as_str() {
        "agent_registered" => {
            let process = match found.pids.get(&event.subject) {
                Some(pid) => format!(", process {pid}"),
                None => String::new(),
            };
            format!("registers as {}{process}", text("role"))
        }
        "mission_created" => format!("creates the mission \"{}\"", text("title")),
        "note_added" => {
            let note = found.notes.get(&event.subject);
            format!("pins a rule: {}", note.map_or("", String::as_str))
        }
        "sortie_claimed" => {
            let attempt = match event.data["attempt"].as_u64() {
                Some(number @ 2..) => format!(", attempt {number}"),
                _ => String::new(),
            };
            let files = locked_with(event, found);
            format!("claims {} and locks {files}{attempt}", title())
        }
        "effect_done" => format!("has published: {} is done", text("key")),
        "sortie_completed" => format!("completes {}", title()),
        "fleet_checkpointed" => {
            let percent = event.data["progress_percent"].as_u64().unwrap_or_default();
            format!("takes checkpoint {} at {percent} %", short("checkpoint_id"))
        }
        "context_compacted" => format!(
            "notes that the mission needs recovery, evidence {}",
            text("evidence")
        ),
        "sortie_requeued" => format!(
            "takes {} back from {}: {}",
            title(),
            text("from"),
            text("reason")
        ),
        "lock_released" if event.data["reason"] != Value::Null => {
            format!("releases {}: {}", text("file"), text("reason"))
        }
        "fleet_recovered" => format!(
            "has recovered the mission in one transaction, from {}",
            short("checkpoint_id")
        ),
        "dispatch_changed" => format!("makes {} the dispatch of the mission", text("to")),
        "message_forwarded" => {
            let same = |other: &&Event| other.step == event.step;
            let mut handed = found.of("message_forwarded").filter(same);
            if handed.next().is_none_or(|first| first.rev != event.rev) {
                return None;
            }
            format!(
                "hands {} what {} never acknowledged: {} in all",
                text("to"),
                text("from"),
                handed.count() + 1
            )
        }
        "agent_retired" => format!(
            "retires {}: {}",
            found.agent_name(&event.subject),
            text("reason")
        ),
        "briefing_acknowledged" => "acknowledges its briefing".to_owned(),
        "mission_completed" => "completes the mission".to_owned(),
        _ => return None,
    };
    // A checkpoint is taken in the transaction of whoever gave cause for it, and by nobody's wish.
    let who = match event.kind.as_str() {
        "fleet_checkpointed" => "flightline".to_owned(),
        _ => event.actor.clone(),
    };
    Some((who, what))
}

/// The files that were locked in the same request.
fn locked_with(event: &Event, found: &Found) -> String {
    let same = found
        .of("lock_acquired")
        .filter(|lock| lock.step == event.step);
    let files: Vec<&str> = same.filter_map(|lock| lock.data["file"].as_str()).collect();
    files.join(", ")
}
