//! The dispatch of the demo: sets the other agents to work, reads their reports, notices dead agents, and recovers their
//! work. It can be killed like any other: its successor takes the mission over.

use std::time::Duration;

use flightline::agent::{ListAgents, RetireAgent};
use flightline::core::agent::Role;
use flightline::core::liveness::Life;
use flightline::core::message::DeliveryState;
use flightline::core::mission::{Mission, MissionStatus};
use flightline::core::sortie::SortieStatus;
use flightline::core::text::Note;
use flightline::core::{Code, Refusal, Title};
use flightline::mail::{MessageView, SendMail, ShowThread};
use flightline::mission::{ChangeMission, MissionView, ShowMission};
use flightline::recovery::detect::Detect;
use flightline::recovery::resume::Resume;
use flightline::sortie::change::{ChangeSortie, SortieAction};

use super::agent::{Hand, Report};
use super::part::SPECIALISTS;

/// How often to look.
const LOOK: Duration = Duration::from_millis(80);

/// What a specialist is told at the beginning, and at the end.
pub const GO: &str = "Go: claim what is ready";
pub const STAND_DOWN: &str = "Stand down: everything is done";

/// How long a dispatch watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    Killed,
    Finished,
}

pub fn watch(hand: &mut Hand<'_>, until: Until) -> Result<(), Refusal> {
    let view = wait_for_mission(hand)?;
    if coordinates(hand, &view.mission)? {
        set_out(hand, &view)?;
    } else {
        take_over(hand, &view.mission)?;
    }
    loop {
        hand.mail()?;
        bring_back(hand)?;
        let view = hand.run(&ShowMission { mission: None })?;
        let done = |status: SortieStatus| status == SortieStatus::Completed;
        if until == Until::Finished && view.sorties.iter().all(|sortie| done(sortie.status)) {
            return end(hand);
        }
        hand.pause(LOOK)?;
    }
}

fn wait_for_mission(hand: &mut Hand<'_>) -> Result<MissionView, Refusal> {
    loop {
        match hand.run(&ShowMission { mission: None }) {
            Ok(view) => return Ok(view),
            Err(refusal) if refusal.code == Code::NotFound => hand.pause(LOOK)?,
            Err(refusal) => return Err(refusal),
        }
    }
}

fn coordinates(hand: &mut Hand<'_>, mission: &Mission) -> Result<bool, Refusal> {
    let agents = hand.run(&ListAgents {
        retired: false,
        sightings: Vec::new(),
    })?;
    Ok(agents.iter().any(|view| {
        Some(view.agent.id) == mission.dispatch && view.agent.name.as_str() == hand.name
    }))
}

/// One sortie for each agent, the rest for the first that is ready.
fn set_out(hand: &mut Hand<'_>, view: &MissionView) -> Result<(), Refusal> {
    for (sortie, name) in view.sorties.iter().zip(SPECIALISTS) {
        hand.run(&ChangeSortie {
            sortie: sortie.id.to_string(),
            action: SortieAction::Assign {
                to: name.to_owned(),
            },
            keep_locks: false,
            checkpoint: false,
        })?;
    }
    tell(hand, SPECIALISTS.map(str::to_owned).to_vec(), GO)?;
    Ok(())
}

/// Looks for missions that need recovery, and brings them back.
fn bring_back(hand: &mut Hand<'_>) -> Result<(), Refusal> {
    let sightings = hand.app.sightings()?;
    let found = hand.run(&Detect {
        threshold_ms: None,
        sightings: sightings.clone(),
    })?;
    for candidate in found
        .into_iter()
        .filter(|candidate| candidate.checkpoint_available)
    {
        let (gone, alive): (Vec<_>, Vec<_>) =
            candidate.agents.iter().partition(|agent| !agent.keeps);
        let held = |count: usize| if count == 1 { "sortie" } else { "sorties" };
        hand.say(Report::Detected {
            gone: gone
                .iter()
                .map(|agent| {
                    let count = agent.sorties.len();
                    format!(
                        "{} is {}: {}; it held {count} {}",
                        agent.name,
                        agent.life.as_str(),
                        agent.evidence,
                        held(count)
                    )
                })
                .collect(),
            alive: alive.iter().map(|agent| agent.name.clone()).collect(),
        })?;
        resume(hand, &candidate.mission_id.to_string())?;
    }
    Ok(())
}

/// The mission has a dispatch that is gone: the agent that resumes it first takes its place.
fn take_over(hand: &mut Hand<'_>, mission: &Mission) -> Result<(), Refusal> {
    let sightings = hand.app.sightings()?;
    let agents = hand.run(&ListAgents {
        retired: false,
        sightings,
    })?;
    let (mut gone, alive): (Vec<_>, Vec<_>) = agents
        .iter()
        .filter(|view| view.agent.name.as_str() != hand.name)
        .partition(|view| view.liveness.life == Life::Dead);
    gone.retain(|view| Some(view.agent.id) == mission.dispatch);
    hand.say(Report::Detected {
        gone: gone
            .iter()
            .map(|view| {
                format!(
                    "{} is {}: {}; it coordinated the mission",
                    view.agent.name,
                    view.liveness.life.as_str(),
                    view.liveness.evidence
                )
            })
            .collect(),
        alive: alive
            .iter()
            .map(|view| view.agent.name.to_string())
            .collect(),
    })?;
    resume(hand, &mission.id.to_string())?;
    // Should the old one wake after all, it is refused.
    for view in gone {
        let reason = format!("{}; {} took over", view.liveness.evidence, hand.name);
        hand.run(&RetireAgent {
            agent: view.agent.name.to_string(),
            reason: Some(Note::parse("reason", &reason)?),
        })?;
    }
    Ok(())
}

fn resume(hand: &mut Hand<'_>, mission: &str) -> Result<(), Refusal> {
    let sightings = hand.app.sightings()?;
    let resumed = hand.run(&Resume {
        mission: Some(mission.to_owned()),
        sightings,
        ..Resume::default()
    })?;
    let after = hand.run(&ShowMission {
        mission: Some(mission.to_owned()),
    })?;
    let title = |id: &String| {
        let found = after
            .sorties
            .iter()
            .find(|sortie| sortie.id.to_string() == *id);
        found.map_or_else(|| id.clone(), |sortie| format!("\"{}\"", sortie.title))
    };
    let mut done: Vec<String> = resumed
        .requeued_sorties
        .iter()
        .map(|id| format!("{} is free again", title(id)))
        .collect();
    let freed = resumed.released_locks.iter();
    done.extend(freed.map(|file| format!("{file} is no longer locked")));
    let (lost, from) = (resumed.lost.len(), resumed.checkpoint_id.to_string());
    done.push(format!(
        "from checkpoint {} and all that happened since, {} of {} sorties complete, {lost} lost",
        from.get(..12).unwrap_or(&from),
        resumed.completed,
        resumed.total
    ));
    hand.say(Report::Resumed { done })
}

/// Everything is done: sends the others home, waits until they have read it, and ends the mission.
fn end(hand: &mut Hand<'_>) -> Result<(), Refusal> {
    let sightings = hand.app.sightings()?;
    let agents = hand.run(&ListAgents {
        retired: false,
        sightings,
    })?;
    let alive: Vec<String> = agents
        .iter()
        .filter(|view| view.agent.role == Role::Specialist && view.liveness.life != Life::Dead)
        .map(|view| view.agent.name.to_string())
        .collect();
    let sent = tell(hand, alive, STAND_DOWN)?;
    let message = sent.message.id.to_string();
    while !hand
        .run(&ShowThread {
            message: message.clone(),
        })?
        .iter()
        .all(is_acknowledged)
    {
        hand.mail()?;
        hand.pause(LOOK)?;
    }
    hand.mail()?;
    hand.run(&ChangeMission {
        mission: None,
        to: MissionStatus::Completed,
        reason: None,
    })?;
    Ok(())
}

/// Whether everybody who got a message has said so.
pub fn is_acknowledged(view: &MessageView) -> bool {
    view.deliveries
        .iter()
        .all(|delivery| matches!(delivery.state, DeliveryState::Acknowledged { .. }))
}

fn tell(hand: &mut Hand<'_>, to: Vec<String>, subject: &str) -> Result<MessageView, Refusal> {
    hand.run(&SendMail {
        to,
        subject: Title::parse("subject", subject)?,
        body: None,
        mission: None,
        acknowledge_within_ms: None,
    })
}
