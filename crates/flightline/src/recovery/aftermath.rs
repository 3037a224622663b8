//! Reads from the journal the changes that a recovery made, and lists the actions that remain.

use crate::Schema;
use std::collections::BTreeSet;

use flightline_core::effect::{Effect, EffectState};
use flightline_core::event::EventType;
use flightline_core::liveness::Life;
use flightline_core::mission::Mission;
use flightline_core::sortie::SortieStatus;
use flightline_core::{Kind, Subject, Time};
use flightline_store::{EventFilter, Find};
use serde::{Deserialize, Serialize};

use super::AgentVerdict;
use super::resume::RestoredCounts;
use crate::error::Result;
use crate::mission::short;
use crate::op_context::OpContext;
use crate::status::Attention;

/// Number of events that are read at once.
const PAGE: u64 = 1_000;

/// An action on an external system that an agent began, and never reported done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct DoubtfulEffect {
    /// The name of the effect, as its author gave it.
    pub key: String,
    /// The name of the agent or person that began it.
    pub by: String,
    /// The time at which the effect was begun.
    pub at: Time,
}

/// The changes after this revision: sorties, granted locks, messages that come again.
pub(super) fn changed_since(ctx: &mut OpContext<'_, '_>, rev: u64) -> Result<RestoredCounts> {
    let (mut sorties, mut locks, mut messages) =
        (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let mut after = rev;
    loop {
        let filter = EventFilter {
            limit: PAGE,
            ..EventFilter::default()
        };
        let events = ctx.tx.events_after(after, &filter)?;
        for event in &events {
            match (event.subject_kind, event.event_type()) {
                (Kind::Sortie, _) => sorties.insert(event.subject.clone()),
                (_, Some(EventType::LockAcquired)) => locks.insert(event.subject.clone()),
                (_, Some(EventType::MessageRequeued)) => messages.insert(event.subject.clone()),
                _ => false,
            };
        }
        match events.last() {
            Some(last) if events.len() as u64 == PAGE => after = last.rev,
            _ => break,
        }
    }
    Ok(RestoredCounts {
        sorties: sorties.len() as u64,
        locks: locks.len() as u64,
        messages: messages.len() as u64,
    })
}

/// Effects of a mission that were begun by agents that are gone.
pub(super) fn in_doubt(
    ctx: &mut OpContext<'_, '_>,
    mission: &Mission,
    verdicts: &[AgentVerdict],
) -> Result<Vec<DoubtfulEffect>> {
    let mut doubtful = Vec::new();
    for effect in ctx.tx.find::<Effect>(Find::Mission(mission.id))? {
        let EffectState::Intent { at } = effect.state else {
            continue;
        };
        let owner = verdicts
            .iter()
            .find(|verdict| Some(verdict.agent.id) == effect.agent_id);
        let at_it = owner.is_some_and(|verdict| {
            verdict.liveness.life == Life::Active && effect.epoch == Some(verdict.agent.epoch)
        });
        if !at_it {
            doubtful.push(DoubtfulEffect {
                key: effect.key.to_string(),
                by: effect.by,
                at,
            });
        }
    }
    Ok(doubtful)
}

/// The remaining actions after a recovery: to settle effects in doubt, to start agents, or to take it back.
pub(super) fn what_is_left(
    ctx: &mut OpContext<'_, '_>,
    mission: &Mission,
    verdicts: &[AgentVerdict],
    doubtful: &[DoubtfulEffect],
    rewound: bool,
) -> Result<Vec<Attention>> {
    let of = format!("--mission {}", short(mission.id));
    let mut left: Vec<Attention> = doubtful
        .iter()
        .map(|effect| Attention {
            what: format!(
                "check whether `{}` happened, which {} began",
                effect.key, effect.by
            ),
            command: format!("fleet effect done {} {of}", effect.key),
            otherwise: Some(format!("fleet effect begin {} --again {of}", effect.key)),
        })
        .collect();
    left.extend(agents_to_start(ctx, mission, verdicts)?);
    if rewound {
        left.push(Attention::new("to undo this", format!("fleet undo {of}")));
    }
    Ok(left)
}

/// The agents of a mission that are to read their briefing, or that there is none at work.
pub(super) fn agents_to_start(
    ctx: &mut OpContext<'_, '_>,
    mission: &Mission,
    verdicts: &[AgentVerdict],
) -> Result<Vec<Attention>> {
    let rows = ctx.tx.rows(Kind::Sortie, Find::Mission(mission.id))?;
    let status = |word: &str| SortieStatus::from_word(word);
    if rows
        .iter()
        .all(|row| status(&row.status).is_some_and(SortieStatus::is_settled))
    {
        return Ok(Vec::new());
    }
    let (mut left, mut at_work) = (Vec::new(), false);
    for verdict in verdicts.iter().filter(|verdict| !verdict.is_gone()) {
        let key = verdict.agent.key();
        let held: Vec<String> = rows
            .iter()
            .filter(|row| row.agent.as_ref() == Some(&key))
            .filter(|row| status(&row.status).is_some_and(SortieStatus::is_held))
            .map(|row| short(&row.id))
            .collect();
        let dispatches = mission.dispatch == Some(verdict.agent.id);
        if held.is_empty() && !dispatches {
            continue;
        }
        let (name, life) = (&verdict.agent.name, verdict.liveness.life);
        at_work |= life == Life::Active;
        let has = match held.is_empty() {
            true => "coordinates it".to_owned(),
            false => format!("keeps {}", held.join(", ")),
        };
        let what = match life {
            Life::Active => format!("{name} {has}: its briefing"),
            _ => format!(
                "{name} {has}, and is {} ({}): start it again",
                life.as_str(),
                verdict.liveness.evidence
            ),
        };
        left.push(Attention::new(
            what,
            format!("fleet context --agent {name}"),
        ));
    }
    if !at_work && left.is_empty() {
        left.push(Attention::new(
            format!("no agent works on \"{}\": start one", mission.title),
            "fleet context --agent NAME",
        ));
    }
    Ok(left)
}
