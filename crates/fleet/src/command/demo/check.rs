//! Whether it all held: read again from the store and the files. Only two things have to be taken from
//! elsewhere: how the processes ended, and an agent's own word that it looked into the ledger.

use std::collections::BTreeSet;
use std::path::Path;

use flightline::checkpoint::inspect::CheckpointSummary;
use flightline::core::Refusal;
use flightline::core::checkpoint::CheckpointStatus;
use flightline::core::effect::{Effect, EffectState};
use flightline::core::event::Event;
use flightline::core::message::DeliveryState;
use flightline::core::mission::MissionStatus;
use flightline::core::sortie::SortieStatus;
use flightline::doctor::{Care, attend};
use flightline::mail::MessageView;
use serde::Serialize;

use super::agent::Report;
use super::crew::Ending;
use super::found::Found;
use super::part::{LEDGER, LINES, PARTS, Part, ledger, read_or_empty};
use super::script::{DISPATCH, FORGETFUL, KILLED, Played, SUCCESSOR};
use crate::app::App;

/// One thing that must hold.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    pub name: String,
    pub ok: bool,
    pub detail: String,
}

/// What a check found: that it holds, or what is wrong.
type Verdict = Result<String, String>;

/// Checks everything. Where the store could not be read, only how the processes ended.
pub fn run(
    app: &mut App,
    folder: &Path,
    played: &Played,
    found: &Result<Found, Refusal>,
) -> Vec<Check> {
    let mut checks = vec![check("the story came to its end", ended(played))];
    let found = match found {
        Ok(found) => found,
        Err(refusal) => {
            let why = Err(refusal.message.clone());
            checks.push(check("the store can be read", why));
            return checks;
        }
    };
    checks.extend([
        check(
            "every sortie was completed exactly once",
            completed_once(found),
        ),
        check(
            "the dead agent's work was recovered, and another agent finished it",
            brought_back(found),
        ),
        check(
            "its effect in doubt was checked before anything was repeated",
            looked_first(played, found),
        ),
        check(
            "the agent that lost its context continued from its briefing",
            remembered(found),
        ),
        check(
            "a new dispatch took over the mission, once",
            succeeded(found),
        ),
        check("every effect was done once", effects_once(found)),
        check("every line is in the ledger once", ledger_once(folder)),
        check("no lock is left", no_locks(found)),
        check("no message was lost", no_mail_lost(found)),
        check("every file is right, byte for byte", files(folder)),
        check(
            "there is a checkpoint at 25, 50 and 75 %",
            milestones(found),
        ),
        check(
            "the doctor finds the store and the checkpoint files sound",
            doctor(app),
        ),
    ]);
    checks
}

fn check(name: &str, verdict: Verdict) -> Check {
    Check {
        name: name.to_owned(),
        ok: verdict.is_ok(),
        detail: verdict.unwrap_or_else(|wrong| wrong),
    }
}

fn unless(problems: &[String], well: String) -> Verdict {
    if problems.is_empty() {
        Ok(well)
    } else {
        Err(problems.join("; "))
    }
}

fn ended(played: &Played) -> Verdict {
    if let Some(failure) = &played.failure {
        return Err(failure.clone());
    }
    let mut problems = Vec::new();
    for (name, ending) in &played.endings {
        let expected = match (name.as_str(), ending) {
            (KILLED | DISPATCH, Some(Ending::Killed { signal })) => *signal == Some(9),
            (KILLED | DISPATCH, _) | (_, None | Some(Ending::Killed { .. })) => false,
            (_, Some(Ending::Left { code, said })) => *code == Some(0) && said.is_empty(),
        };
        if !expected {
            let told = ending
                .as_ref()
                .map_or_else(|| "still running".to_owned(), Ending::told);
            problems.push(format!("{name}: {told}"));
        }
    }
    let count = played.endings.len();
    unless(
        &problems,
        format!(
            "{count} agent processes; {KILLED} and {DISPATCH} ended by SIGKILL, the others by themselves"
        ),
    )
}

fn completed_once(found: &Found) -> Verdict {
    let (mut problems, sorties) = (Vec::new(), &found.mission.sorties);
    for sortie in sorties {
        let id = sortie.id.to_string();
        let completions = found.of("sortie_completed");
        let times = completions.filter(|event| event.subject == id).count();
        if times != 1 || sortie.status != SortieStatus::Completed {
            problems.push(format!(
                "\"{}\" is {}, and was completed {times} times",
                sortie.title,
                sortie.status.as_str()
            ));
        }
    }
    if sorties.len() as u64 != PARTS {
        problems.push(format!("there are {} sorties", sorties.len()));
    }
    let status = found.mission.mission.status;
    if status != MissionStatus::Completed {
        problems.push(format!("the mission is {}", status.as_str()));
    }
    unless(
        &problems,
        format!("{} sorties, and the mission is completed", sorties.len()),
    )
}

/// The event by which work was taken back from the dead agent.
fn requeued(found: &Found) -> Result<&Event, String> {
    let mut events = found
        .of("sortie_requeued")
        .filter(|event| event.data["from"] == KILLED);
    match (events.next(), events.next()) {
        (Some(only), None) => Ok(only),
        (None, _) => Err(format!("nothing was taken back from {KILLED}")),
        (Some(_), Some(_)) => Err(format!("work was taken back from {KILLED} more than once")),
    }
}

/// The event by which another finished that work.
fn finished(found: &Found) -> Result<&Event, String> {
    let taken = requeued(found)?;
    let after = |event: &&Event| event.subject == taken.subject && event.rev > taken.rev;
    let claimed = found.of("sortie_claimed").find(after);
    let completed = found.of("sortie_completed").find(after);
    match (claimed, completed) {
        (Some(claimed), Some(completed)) if claimed.actor == completed.actor => Ok(completed),
        _ => Err(format!(
            "no agent finished \"{}\"",
            found.title(&taken.subject)
        )),
    }
}

fn brought_back(found: &Found) -> Verdict {
    let completed = finished(found)?;
    if completed.actor == KILLED {
        return Err(format!("{KILLED} finished it itself"));
    }
    Ok(format!(
        "\"{}\" went from {KILLED} to {}",
        found.title(&completed.subject),
        completed.actor
    ))
}

fn looked_first(played: &Played, found: &Found) -> Verdict {
    let completed = finished(found)?;
    let title = found.title(&completed.subject);
    let part = Part::all().find(|part| part.title() == title);
    let effect = part.map(Part::effect).unwrap_or_default();
    let looked = played
        .heard
        .iter()
        .find_map(|heard| match &heard.said.report {
            Report::Looked {
                effect: looked,
                happened,
            } if *looked == effect && heard.who == completed.actor => Some(*happened),
            _ => None,
        });
    match looked {
        Some(true) => Ok(format!("{effect} was in the ledger: only reported done")),
        Some(false) => Ok(format!("{effect} was not in the ledger: begun again")),
        None => Err(format!("{} did not look for {effect}", completed.actor)),
    }
}

fn remembered(found: &Found) -> Verdict {
    let own = |kind| found.of(kind).filter(|event| event.actor == FORGETFUL);
    let read = own("briefing_acknowledged")
        .next()
        .ok_or_else(|| format!("{FORGETFUL} acknowledged no briefing"))?;
    let held = own("sortie_claimed")
        .filter(|event| event.rev < read.rev)
        .last()
        .ok_or_else(|| format!("{FORGETFUL} was at nothing when it was briefed"))?;
    let title = found.title(&held.subject);
    if own("sortie_completed").any(|event| event.subject == held.subject && event.rev > read.rev) {
        Ok(format!(
            "{FORGETFUL} acknowledged it in the middle of \"{title}\", and completed that"
        ))
    } else {
        Err(format!("{FORGETFUL} never completed \"{title}\""))
    }
}

fn succeeded(found: &Found) -> Verdict {
    let mission = &found.mission.mission;
    let has_it = found
        .agents
        .iter()
        .any(|agent| agent.name.as_str() == SUCCESSOR && mission.dispatch == Some(agent.id));
    match found.of("dispatch_changed").count() {
        1 if has_it => Ok(format!("from {DISPATCH} to {SUCCESSOR}")),
        times => Err(format!(
            "dispatch changed {times} times; {SUCCESSOR} has the mission: {has_it}"
        )),
    }
}

fn effects_once(found: &Found) -> Verdict {
    let mut problems = Vec::new();
    for part in Part::all() {
        let key = part.effect();
        let named = |effect: &&Effect| effect.key.as_str() == key;
        let known: Vec<&Effect> = found.effects.iter().filter(named).collect();
        let is_done = |effect: &&Effect| matches!(effect.state, EffectState::Done { .. });
        let said = found.of("effect_done");
        let said = said
            .filter(|event| event.data["key"] == key.as_str())
            .count();
        if known.len() != 1 || !known.iter().all(is_done) || said != 1 {
            problems.push(format!(
                "{key} is known {} times, and was reported done {said} times",
                known.len()
            ));
        }
    }
    let in_doubt = found.effects.iter().filter(|effect| effect.attempts > 1);
    unless(
        &problems,
        format!(
            "{} effects; {} were in doubt for a while",
            found.effects.len(),
            in_doubt.count()
        ),
    )
}

fn ledger_once(folder: &Path) -> Verdict {
    let lines = ledger(folder).map_err(|error| format!("{LEDGER}: {error}"))?;
    let mut problems = Vec::new();
    for entry in Part::all().map(Part::entry) {
        let times = lines.iter().filter(|line| **line == entry).count();
        if times != 1 {
            problems.push(format!("\"{entry}\" is there {times} times"));
        }
    }
    if lines.len() as u64 != PARTS {
        problems.push(format!("{LEDGER} has {} lines", lines.len()));
    }
    unless(&problems, format!("{} lines in {LEDGER}", lines.len()))
}

fn no_locks(found: &Found) -> Verdict {
    let told = |(file, holder)| format!("{file} is locked by {holder}");
    let held = found
        .locks
        .iter()
        .map(|view| (&view.lock.file, &view.holder));
    let problems: Vec<String> = held.map(told).collect();
    let granted = found.of("lock_acquired").count();
    unless(&problems, format!("{granted} were granted in all"))
}

/// Every message that was sent is in a mailbox, and every recipient acknowledged its mail. A dead dispatch cannot: its
/// successor must have.
fn no_mail_lost(found: &Found) -> Verdict {
    let sent: BTreeSet<&str> = found
        .of("message_sent")
        .map(|event| event.subject.as_str())
        .collect();
    let mut problems: Vec<String> = sent
        .iter()
        .filter(|id| {
            found
                .messages
                .get(**id)
                .is_none_or(|view| view.deliveries.is_empty())
        })
        .map(|id| format!("{id} is in no mailbox"))
        .collect();
    let (mut own, mut inherited) = (0, 0);
    for view in found.messages.values() {
        for name in view.deliveries.iter().map(|delivery| delivery.to.as_str()) {
            if has_acknowledged(view, name) {
                own += 1;
            } else if name == DISPATCH && has_acknowledged(view, SUCCESSOR) {
                inherited += 1;
            } else {
                let subject = &view.message.subject;
                problems.push(format!("{name} did not acknowledge \"{subject}\""));
            }
        }
    }
    unless(
        &problems,
        format!(
            "{} messages, {own} times acknowledged; {inherited} that {DISPATCH} died over went to {SUCCESSOR}",
            sent.len()
        ),
    )
}

fn has_acknowledged(view: &MessageView, name: &str) -> bool {
    view.deliveries.iter().any(|delivery| {
        delivery.to == name && matches!(delivery.state, DeliveryState::Acknowledged { .. })
    })
}

fn files(folder: &Path) -> Verdict {
    let mut problems = Vec::new();
    for part in Part::all() {
        let file = part.file();
        match read_or_empty(&folder.join(&file)) {
            Ok(text) if text == part.beginning(LINES) => {}
            Ok(text) => problems.push(format!("{file} has {} bytes that are wrong", text.len())),
            Err(error) => problems.push(format!("{file}: {error}")),
        }
    }
    unless(&problems, format!("{PARTS} files of {LINES} lines"))
}

fn milestones(found: &Found) -> Verdict {
    let mut problems = Vec::new();
    for percent in [25, 50, 75] {
        let fits = |checkpoint: &&CheckpointSummary| {
            checkpoint.reason == "milestone" && checkpoint.progress_percent == percent
        };
        let there: Vec<&CheckpointSummary> = found.checkpoints.iter().filter(fits).collect();
        let valid = |checkpoint: &&CheckpointSummary| checkpoint.status == CheckpointStatus::Valid;
        if there.len() != 1 || !there.iter().all(valid) {
            let words: Vec<&str> = there.iter().map(|it| it.status.as_str()).collect();
            problems.push(format!("at {percent} %: [{}]", words.join(", ")));
        }
    }
    unless(
        &problems,
        format!(
            "{} checkpoints, each in the store and in a file",
            found.checkpoints.len()
        ),
    )
}

fn doctor(app: &mut App) -> Verdict {
    let checks = examine_all(app).map_err(|refusal| refusal.message)?;
    let problems: Vec<String> = checks
        .iter()
        .filter(|check| !check.ok)
        .map(|check| format!("{}: {}", check.name, check.findings.join(", ")))
        .collect();
    unless(&problems, format!("{} checks", checks.len()))
}

fn examine_all(app: &mut App) -> Result<Vec<flightline::doctor::Check>, Refusal> {
    let state = app.home()?.state.clone();
    let diagnosis = attend(app.fleet()?, &state, Care::Look, "");
    Ok(diagnosis.map_err(flightline::Error::into_refusal)?.checks)
}
