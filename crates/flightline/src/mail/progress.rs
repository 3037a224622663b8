//! Telling the mailbox of a mission's dispatch how far a sortie is, in seed B's words. There is one open
//! message per sortie, which is brought up to date until it is read: however much is reported, a mailbox
//! that nobody reads stays small.

use flightline_core::agent::Agent;
use flightline_core::dialect::sitebuilder::progress_line;
use flightline_core::message::{Delivery, DeliveryState, Message, MessageKind};
use flightline_core::sortie::Sortie;
use flightline_core::{Body, Kind, Subject, Title};
use flightline_store::{Find, SubjectRow};
use serde_json::json;

use super::post::{Letter, post};
use crate::desk::Desk;
use crate::error::Result;
use crate::sortie::subtask_progress;

/// Posts how far a sortie is, where the policy wants it.
pub(crate) fn post_progress(desk: &mut Desk<'_, '_>, sortie: &Sortie) -> Result<()> {
    if !desk.policy.progress_mail {
        return Ok(());
    }
    let mission = desk.mission(Some(&sortie.mission_id.to_string()))?;
    let dispatch = desk.dispatch_of(&mission)?;
    if desk.agent_id() == Some(dispatch.id) {
        return Ok(());
    }
    let percent = subtask_progress(desk, sortie)?.percent;
    let task = sortie
        .task_id
        .as_ref()
        .map_or_else(|| sortie.id.to_string(), ToString::to_string);
    let subject = Title::parse("subject", &progress_line(&task, percent))?;
    let body = sortie
        .progress_notes
        .as_deref()
        .map(|note| Body::parse("body", note))
        .transpose()?;
    let pending = desk
        .tx
        .rows(Kind::Delivery, Find::AgentStatus(dispatch.id, "pending"))?;
    if let Some(mut message) = unread(desk, sortie, &pending)? {
        message.subject = subject;
        message.body = body;
        message.sent_at = desk.now();
        // The report itself is part of the story, this is not.
        let data = json!({ "to": [dispatch.name], "subject": message.subject, "tells_of": "sortie_progress" });
        desk.tx.set("message_updated", &message, &data)?;
        return Ok(());
    }
    settle_older(desk, sortie, &dispatch, &pending)?;
    let letter = Letter {
        from: None,
        to: &[dispatch],
        subject,
        body,
        kind: MessageKind::Progress,
        mission: Some(mission.id),
        reply_to: None,
        acknowledge_by: None,
        progress_of: Some(sortie.id),
    };
    post(desk, &letter).map(drop)
}

fn tells_of(row: &SubjectRow, sortie: &Sortie) -> bool {
    row.name.as_deref() == Some(sortie.key().as_str())
}

/// The message that nobody has read yet and that can be brought up to date: of the same sender, and with
/// nothing that this sender wrote later behind it, because mail keeps its order.
fn unread(
    desk: &mut Desk<'_, '_>,
    sortie: &Sortie,
    pending: &[SubjectRow],
) -> Result<Option<Message>> {
    let Some(ours) = pending.iter().rfind(|row| tells_of(row, sortie)) else {
        return Ok(None);
    };
    let message = match &ours.parent {
        Some(id) => desk.tx.get::<Message>(id)?,
        None => None,
    };
    let Some(message) = message.filter(|message| message.from == desk.actor()) else {
        return Ok(None);
    };
    let later = pending.iter().filter(|row| row.born > ours.born);
    let later: Vec<&String> = later.filter_map(|row| row.parent.as_ref()).collect();
    let overtaken = match (later.is_empty(), desk.agent_id()) {
        (true, _) => false,
        (false, None) => true,
        (false, Some(sender)) => {
            let notes = Find::AgentStatus(sender, MessageKind::Note.as_str());
            let notes = desk.tx.rows(Kind::Message, notes)?;
            notes.iter().any(|note| later.contains(&&note.id))
        }
    };
    Ok((!overtaken).then_some(message))
}

/// What an earlier report said is over with the next one, whether it was read or not.
fn settle_older(
    desk: &mut Desk<'_, '_>,
    sortie: &Sortie,
    dispatch: &Agent,
    pending: &[SubjectRow],
) -> Result<()> {
    let read = Find::AgentStatus(dispatch.id, "delivered");
    let read = desk.tx.rows(Kind::Delivery, read)?;
    let older = pending.iter().chain(&read);
    for row in older.filter(|row| tells_of(row, sortie)) {
        if let Some(mut delivery) = desk.tx.get::<Delivery>(&row.id)? {
            delivery.state = DeliveryState::Acknowledged { at: desk.now() };
            let data = json!({ "to": dispatch.name });
            desk.tx.set("message_superseded", &delivery, &data)?;
        }
    }
    Ok(())
}
