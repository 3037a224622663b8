//! Finds the cause of an agent's briefing and the earlier owner of its work, in the journal.

use flightline_core::agent::Agent;
use flightline_core::briefing::{Cause, Ending, Predecessor, Quote};
use flightline_core::event::{Event, EventType};
use flightline_core::mission::Mission;
use flightline_core::sortie::Sortie;
use flightline_core::{Kind, Name, Subject};

use crate::agent::takeover::REASSIGNED_BY_TAKEOVER;
use crate::error::Result;
use crate::mission::short;
use crate::op_context::OpContext;
use crate::recovery::undone::Undone;

/// Maximum number of events of one agent or sortie that are read: older ones no longer matter.
const LOOKED_AT: u64 = 2_000;

/// The cause of a briefing, and the earlier owner of the sortie.
pub(super) struct Background {
    pub(super) cause: Cause,
    pub(super) predecessor: Option<Predecessor>,
}

pub(super) fn background(
    ctx: &mut OpContext<'_, '_>,
    mission: &Mission,
    agent: Option<&Agent>,
    sortie: Option<&Sortie>,
    agents: &[Agent],
) -> Result<Background> {
    let rewound = Undone::of(ctx, mission.id)?.last();
    let rewound = rewound.map(|(rev, to)| (rev, Cause::Rewind { to: short(to) }));
    let mut moments: Vec<(u64, Cause)> = rewound.into_iter().collect();
    let Some(agent) = agent else {
        moments.push((0, Cause::Compaction));
        return Ok(Background {
            cause: Cause::newest(moments),
            predecessor: None,
        });
    };
    moments.extend(began(ctx, agent)?);
    let before = match sortie {
        Some(sortie) => before(ctx, sortie, agents)?,
        None => None,
    };
    if let Some((taken, before)) = &before
        && before.name != agent.name
    {
        moments.push((*taken, Cause::Takeover));
    }
    Ok(Background {
        cause: Cause::newest(moments),
        predecessor: before.map(|(_, before)| before),
    })
}

fn began(ctx: &mut OpContext<'_, '_>, agent: &Agent) -> Result<Option<(u64, Cause)>> {
    let events = ctx.tx.events_of(Kind::Agent, &agent.key(), LOOKED_AT)?;
    let mut began = events.iter().filter(|event| begins_context(event));
    let Some(newest) = began.next() else {
        // The journal does not go back that far, and the agent does.
        return Ok((agent.epoch > 1).then_some((0, Cause::NewSession)));
    };
    let cause = match (
        newest.event_type(),
        began.next().and_then(Event::event_type),
    ) {
        (Some(EventType::AgentCompacted), _) => Cause::Compaction,
        (Some(EventType::AgentRestarted), _) | (_, Some(EventType::AgentRestarted)) => {
            Cause::Restart
        }
        (_, None) => Cause::FirstStart,
        (_, Some(_)) => Cause::NewSession,
    };
    Ok(Some((newest.rev, cause)))
}

fn begins_context(event: &Event) -> bool {
    match event.event_type() {
        Some(EventType::AgentRegistered) => event.data.get("mailbox_only").is_none(),
        Some(
            EventType::AgentSessionStarted
            | EventType::AgentResumed
            | EventType::AgentCompacted
            | EventType::AgentRestarted,
        ) => true,
        _ => false,
    }
}

/// Returns the owner of a sortie before the present one, and the revision at which the present one got it.
fn before(
    ctx: &mut OpContext<'_, '_>,
    sortie: &Sortie,
    agents: &[Agent],
) -> Result<Option<(u64, Predecessor)>> {
    let events = ctx.tx.events_of(Kind::Sortie, &sortie.key(), LOOKED_AT)?;
    let mut taken = 0;
    for event in &events {
        let ending = match event.event_type() {
            Some(EventType::SortieClaimed | EventType::SortieAssigned) => {
                taken = taken.max(event.rev);
                continue;
            }
            Some(EventType::SortieRequeued) => Ending::Gone,
            Some(EventType::SortieReassigned) => {
                taken = taken.max(event.rev);
                match event.data["reason"].as_str() {
                    Some(REASSIGNED_BY_TAKEOVER) => Ending::TakenOver,
                    Some(_) | None => Ending::Reassigned,
                }
            }
            Some(EventType::SortieReleased) => Ending::Released,
            Some(EventType::SortieFailed) => Ending::Failed,
            // Earlier events were taken back.
            Some(EventType::SortieRestarted | EventType::SortieRestored) => break,
            _ => continue,
        };
        let name = match ending {
            Ending::Failed => Some(event.actor.as_str()),
            Ending::Gone | Ending::TakenOver | Ending::Reassigned | Ending::Released => {
                event.data["from"].as_str()
            }
        };
        let name = name.and_then(|name| Name::parse("agent name", name).ok());
        // A person may have said so, who had nothing.
        let Some(name) = name.filter(|name| agents.iter().any(|agent| agent.name == *name)) else {
            continue;
        };
        let reason = reason(ctx, event, ending, &name, agents)?;
        let before = Predecessor {
            name,
            ending,
            at: event.timestamp,
            reason,
        };
        return Ok(Some((taken, before)));
    }
    Ok(None)
}

/// Returns the reason why an agent lost a sortie.
fn reason(
    ctx: &mut OpContext<'_, '_>,
    event: &Event,
    ending: Ending,
    name: &Name,
    agents: &[Agent],
) -> Result<Option<Quote>> {
    let said = |event: &Event| event.data["reason"].as_str().map(str::to_owned);
    let (author, text) = match ending {
        Ending::TakenOver => {
            let agent = agents.iter().find(|agent| agent.name == *name);
            let events = match agent {
                Some(agent) => ctx.tx.events_of(Kind::Agent, &agent.key(), LOOKED_AT)?,
                None => Vec::new(),
            };
            let crashed = events
                .iter()
                .find(|event| event.is(EventType::AgentCrashed));
            ("flightline".to_owned(), crashed.and_then(said))
        }
        Ending::Gone => ("flightline".to_owned(), said(event)),
        Ending::Reassigned | Ending::Released | Ending::Failed => {
            (event.actor.clone(), said(event))
        }
    };
    Ok(text.map(|text| Quote { author, text }))
}
