//! What happened, told from the journal and from what was seen: nothing else.

use flightline::core::event::Event;
use flightline::core::narrate::{Narrator, shortened, who};
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
    /// The agent or person that acted.
    pub who: String,
    /// The sentence about it.
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

/// The events of the journal that the story is made of.
const TOLD: [&str; 16] = [
    "agent_registered",
    "agent_retired",
    "briefing_acknowledged",
    "context_compacted",
    "dispatch_changed",
    "effect_done",
    "fleet_checkpointed",
    "fleet_recovered",
    "lock_released",
    "message_forwarded",
    "mission_completed",
    "mission_created",
    "note_added",
    "sortie_claimed",
    "sortie_completed",
    "sortie_requeued",
];

fn journal(event: &Event, found: &Found) -> Option<(String, String)> {
    let is_told = TOLD.contains(&event.kind.as_str());
    // A lock that is released with its work is no news; one that was taken back is.
    if !is_told || event.kind == "lock_released" && event.data["reason"] == Value::Null {
        return None;
    }
    let narrator = Narrator {
        names: &found.names,
        short: &shortened,
    };
    let what = narrator.tell(event);
    let more = match event.kind.as_str() {
        "agent_registered" => match found.pids.get(&event.subject) {
            Some(pid) => format!(", process {pid}"),
            None => String::new(),
        },
        "sortie_claimed" => format!(", and locks {}", locked_with(event, found)),
        "message_forwarded" => {
            let same = |other: &&Event| other.step == event.step;
            let mut handed = found.of("message_forwarded").filter(same);
            if handed.next().is_none_or(|first| first.rev != event.rev) {
                return None;
            }
            format!(": {} in all", handed.count() + 1)
        }
        _ => String::new(),
    };
    Some((who(event).to_owned(), format!("{what}{more}")))
}

/// The files that were locked in the same request.
fn locked_with(event: &Event, found: &Found) -> String {
    let same = found
        .of("lock_acquired")
        .filter(|lock| lock.step == event.step);
    let files: Vec<&str> = same.filter_map(|lock| lock.data["file"].as_str()).collect();
    files.join(", ")
}
