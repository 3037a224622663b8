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
    let reports = reports(desk, sortie, &dispatch)?;
    if let Some(mut message) = unread(desk, &dispatch, &reports)? {
        message.subject = subject;
        message.body = body;
        message.sent_at = desk.now();
        // The report itself is part of the story, this is not.
        let data = json!({ "to": [dispatch.name], "subject": message.subject, "tells_of": "sortie_progress" });
        desk.tx.set("message_updated", &message, &data)?;
        return Ok(());
    }
    settle_older(desk, &dispatch, &reports)?;
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

const PENDING: &str = "pending";
const READ: &str = "delivered";

/// What dispatch was told of a sortie and has not acknowledged, oldest first. Only of its mission: in the mailbox of a large
/// fleet's dispatch there is a report of every sortie.
fn reports(desk: &mut Desk<'_, '_>, sortie: &Sortie, dispatch: &Agent) -> Result<Vec<SubjectRow>> {
    let (of, to) = (sortie.key(), dispatch.id.to_string());
    let find = Find::Mission(sortie.mission_id);
    let mut rows = desk.tx.rows(Kind::Delivery, find)?;
    rows.retain(|row| {
        row.name.as_deref() == Some(of.as_str())
            && row.agent.as_deref() == Some(to.as_str())
            && matches!(row.status.as_str(), PENDING | READ)
    });
    Ok(rows)
}

/// The message that nobody has read yet and that can be brought up to date: of the same sender, and with
/// nothing that this sender wrote later behind it, because mail keeps its order.
fn unread(
    desk: &mut Desk<'_, '_>,
    dispatch: &Agent,
    reports: &[SubjectRow],
) -> Result<Option<Message>> {
    let Some(ours) = reports.iter().rfind(|row| row.status == PENDING) else {
        return Ok(None);
    };
    let message = match &ours.parent {
        Some(id) => desk.tx.get::<Message>(id)?,
        None => None,
    };
    let Some(message) = message.filter(|message| message.from == desk.actor()) else {
        return Ok(None);
    };
    let overtaken = is_overtaken(desk, dispatch, ours)?;
    Ok((!overtaken).then_some(message))
}

/// Whether dispatch has unread mail of this sender that is younger than a report.
fn is_overtaken(desk: &mut Desk<'_, '_>, dispatch: &Agent, report: &SubjectRow) -> Result<bool> {
    // What a person wrote is not found by its sender: any that is younger may be.
    let notes = match desk.agent_id() {
        None => None,
        Some(sender) => {
            let find = Find::AgentStatus(sender, MessageKind::Note.as_str());
            let notes = desk.tx.rows(Kind::Message, find)?;
            if notes.is_empty() {
                return Ok(false);
            }
            Some(notes)
        }
    };
    let unread = Find::AgentStatus(dispatch.id, PENDING);
    let unread = desk.tx.rows(Kind::Delivery, unread)?;
    let mut younger = unread.iter().filter(|row| row.born > report.born);
    Ok(younger.any(|row| match &notes {
        None => true,
        Some(notes) => notes
            .iter()
            .any(|note| row.parent.as_ref() == Some(&note.id)),
    }))
}

/// What an earlier report said is over with the next one, whether it was read or not.
fn settle_older(desk: &mut Desk<'_, '_>, dispatch: &Agent, reports: &[SubjectRow]) -> Result<()> {
    for row in reports {
        if let Some(mut delivery) = desk.tx.get::<Delivery>(&row.id)? {
            delivery.state = DeliveryState::Acknowledged { at: desk.now() };
            let data = json!({ "to": dispatch.name });
            desk.tx.set("message_superseded", &delivery, &data)?;
        }
    }
    Ok(())
}
