//! Messages that were to be acknowledged by a certain time. No daemon waits for it: the next operation that sends, reads,
//! checkpoints, detects or resumes notices, and pays one look when nothing is due.

use std::collections::BTreeMap;

use flightline_core::agent::Agent;
use flightline_core::checkpoint::Reason;
use flightline_core::event::EventType;
use flightline_core::message::{Delivery, Message};
use flightline_core::mission::Mission;
use flightline_core::note::Failure;
use flightline_core::setting::Deadlines;
use flightline_core::text;
use flightline_core::{Kind, MessageId, Time};
use flightline_store::{Actor, Find, StoreError};
use serde_json::json;

use super::post::notice;
use crate::checkpoint::trigger::trigger;
use crate::error::Result;
use crate::mission::short;
use crate::note::failure::{FailureAuthor, note_failure};
use crate::op_context::OpContext;

/// Maximum number of overdue messages reported at once; the rest is left to the next command.
const AT_ONCE: usize = 20;

/// Remembers that a message must be acknowledged by `by`.
pub(super) fn watch(ctx: &mut OpContext<'_, '_>, by: Time) -> Result<()> {
    let known = ctx.tx.get::<Deadlines>(Deadlines::KEY)?;
    if known.is_some_and(|known| known.next.is_some_and(|next| next <= by)) {
        return Ok(());
    }
    let next = Deadlines { next: Some(by) };
    ctx.tx
        .set(EventType::DeadlineSet, &next, &json!({ "next": by }))?;
    Ok(())
}

/// Notices messages that were not acknowledged before their deadline: each leaves one error checkpoint,
/// and its sender is told, once.
pub(crate) fn notice_overdue(ctx: &mut OpContext<'_, '_>) -> Result<()> {
    let known = ctx.tx.get::<Deadlines>(Deadlines::KEY)?;
    if known
        .and_then(|known| known.next)
        .is_none_or(|next| next >= ctx.now())
    {
        return Ok(());
    }
    // The operation that noticed has other work to do: trouble here must not stop it.
    ctx.attempt(settle_overdue)?.or(Ok(()))
}

fn settle_overdue(ctx: &mut OpContext<'_, '_>) -> Result<()> {
    let who = ctx.tx.actor().clone();
    ctx.tx.act_as(Actor::flightline());
    let mut late: BTreeMap<(Time, MessageId), Vec<Delivery>> = BTreeMap::new();
    let mut next = None;
    for delivery in open(ctx)? {
        let Some(by) = delivery.due() else { continue };
        let message = (by, delivery.message_id);
        let known = late.contains_key(&message);
        if by < ctx.now() && !ctx.just_woke(by) && (known || late.len() < AT_ONCE) {
            late.entry(message).or_default().push(delivery);
        } else {
            next = Some(next.map_or(by, |next: Time| next.min(by)));
        }
    }
    for ((by, message), deliveries) in late {
        // A message that cannot be read is the doctor's; its recipients are late all the same.
        let message = match ctx.tx.get::<Message>(message) {
            Err(StoreError::Corrupt(_)) => None,
            message => message?,
        };
        fail(ctx, message.as_ref(), deliveries, by)?;
    }
    let data = json!({ "next": next });
    ctx.tx
        .set(EventType::DeadlinesChecked, &Deadlines { next }, &data)?;
    ctx.tx.act_as(who);
    Ok(())
}

/// Deliveries with a deadline that still has to be met.
fn open(ctx: &mut OpContext<'_, '_>) -> Result<Vec<Delivery>> {
    let mut found = Vec::new();
    for row in ctx.tx.rows(Kind::Delivery, Find::All)? {
        if row.name.is_none() || !["pending", "delivered"].contains(&row.status.as_str()) {
            continue;
        }
        match ctx.tx.get::<Delivery>(&row.id) {
            Ok(delivery) => found.extend(delivery),
            Err(StoreError::Corrupt(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(found)
}

fn fail(
    ctx: &mut OpContext<'_, '_>,
    message: Option<&Message>,
    deliveries: Vec<Delivery>,
    by: Time,
) -> Result<()> {
    let mut late = Vec::new();
    for mut delivery in deliveries {
        late.push(ctx.agent_name(delivery.to)?);
        delivery.overdue_at = Some(ctx.now());
        let data = json!({
            "to": late.last(),
            "subject": message.map(|message| &message.subject),
            "acknowledge_by": by,
        });
        ctx.tx.set(EventType::MessageOverdue, &delivery, &data)?;
    }
    let Some(message) = message else {
        return Ok(());
    };
    let late = late.join(", ");
    let details = format!(
        "{late} did not acknowledge \"{}\" of {} by {} ({})",
        message.subject,
        message.from,
        by.to_seconds(),
        short(message.id)
    );
    let mission = match message.mission_id {
        Some(id) => ctx.tx.get::<Mission>(id)?,
        None => None,
    };
    // A mission that is over needs no way back.
    if let Some(mission) = mission.filter(|mission| mission.status.is_open()) {
        let whose = FailureAuthor {
            author: message.from.clone(),
            id: message.from_id,
        };
        let told = text::NoteText::parse("details", &details)?;
        let failure = Failure::Unacknowledged {
            message: message.id,
        };
        note_failure(ctx, &mission, whose, &told, Some(failure))?;
        let blockers = vec![details.clone()];
        trigger(ctx, &mission, Reason::DeliveryFailed, details, blockers)?;
    }
    let sender = match message.from_id {
        Some(id) => ctx.tx.get::<Agent>(id)?,
        None => None,
    };
    if let Some(sender) = sender.filter(|sender| sender.retired_at.is_none()) {
        let subject = format!("Not acknowledged in time: {}", message.subject);
        let body = format!(
            "{late} had until {}. It stays in the mailbox. List the agents with: fleet agents list",
            by.to_seconds()
        );
        notice(ctx, sender, &subject, &body, message.mission_id)?;
    }
    Ok(())
}
