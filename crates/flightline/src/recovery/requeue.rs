//! Sorties of agents that are gone and mail that may be lost: both are there again to be taken.

use std::collections::BTreeSet;

use flightline_core::event::EventType;
use flightline_core::lock::Lock;
use flightline_core::message::{Delivery, DeliveryState, MessageKind};
use flightline_core::mission::Mission;
use flightline_core::sortie::{Interruption, Sortie, SortieStatus};
use flightline_core::{AgentId, Kind, Subject};
use flightline_store::Find;
use serde_json::json;

use super::AgentVerdict;
use super::detect::is_offer;
use super::locks::locked_for;
use crate::checkpoint::readable;
use crate::error::Result;
use crate::op_context::OpContext;

pub(super) fn requeue_sorties(
    ctx: &mut OpContext<'_, '_>,
    mission: &Mission,
    verdicts: &[AgentVerdict],
    then: &[Lock],
    taken_from: &mut BTreeSet<AgentId>,
) -> Result<Vec<String>> {
    let mut requeued = Vec::new();
    for verdict in verdicts.iter().filter(|verdict| verdict.is_gone()) {
        // Of other missions not even the documents are read: one that is damaged is no reason to stop.
        let (mut held, _) = readable::<Lock>(ctx.tx, Find::Agent(verdict.agent.id))?;
        let held_then = then.iter().filter(|lock| lock.held_by == verdict.agent.id);
        held.extend(held_then.cloned());
        let mut rows = ctx.tx.rows(Kind::Sortie, Find::Agent(verdict.agent.id))?;
        rows.retain(|row| row.mission.as_deref() == Some(&*mission.key()));
        for row in rows {
            let Some(mut sortie) = ctx.tx.get::<Sortie>(&row.id)? else {
                continue;
            };
            if !sortie.status.is_held() {
                continue;
            }
            sortie.status = SortieStatus::Pending;
            sortie.unassign();
            sortie.updated_at = ctx.now();
            sortie.interrupted = Some(Interruption {
                owner: verdict.agent.name.clone(),
                at: ctx.now(),
                locks: locked_for(&sortie, &held),
                blocked_reason: sortie.blocked_reason.take(),
            });
            let data = json!({ "from": verdict.agent.name, "reason": verdict.liveness.evidence, "attempt": sortie.attempts + 1 });
            ctx.tx.set(EventType::SortieRequeued, &sortie, &data)?;
            taken_from.insert(verdict.agent.id);
            requeued.push(sortie.id.to_string());
        }
    }
    Ok(requeued)
}

/// Queues mail again that was read and not acknowledged, for each recipient that may have lost it.
/// Acknowledged mail is never queued again, and an offer to recover is settled by recovering.
pub(super) fn requeue_mail(
    ctx: &mut OpContext<'_, '_>,
    mission: &Mission,
    verdicts: &[AgentVerdict],
) -> Result<()> {
    let find = Find::Mission(mission.id);
    let messages = ctx.tx.rows(Kind::Message, find)?;
    let offers: BTreeSet<String> = messages
        .into_iter()
        .filter(|row| row.status == MessageKind::Notice.as_str())
        .filter(|row| row.name.as_deref().is_some_and(is_offer))
        .map(|row| row.id)
        .collect();
    for mut delivery in ctx.tx.find::<Delivery>(find)? {
        if matches!(delivery.state, DeliveryState::Acknowledged { .. }) {
            continue;
        }
        if offers.contains(&delivery.message_id.to_string()) {
            delivery.state = DeliveryState::Acknowledged { at: ctx.now() };
            let data = json!({ "reason": "recovered" });
            ctx.tx.set(EventType::MessageSettled, &delivery, &data)?;
            continue;
        }
        match delivery.state {
            DeliveryState::Pending => {}
            DeliveryState::Delivered { .. } => {
                let active = verdicts.iter().any(|verdict| {
                    verdict.agent.id == delivery.to
                        && verdict.liveness.life == flightline_core::liveness::Life::Active
                });
                if !active {
                    delivery.state = DeliveryState::Pending;
                    ctx.tx.set(
                        EventType::MessageRequeued,
                        &delivery,
                        &json!({ "reason": "recovered" }),
                    )?;
                }
            }
            DeliveryState::Acknowledged { .. } => {}
        }
    }
    Ok(())
}
