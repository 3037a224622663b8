//! Progress mail to the dispatch of a mission. There is one open message per sortie: however much is reported, an unread
//! mailbox stays small. Flightline's own message only names the sortie: its progress and last report are read from the
//! sortie when the message is shown, so a report is kept once. Under the preset of seed B the words are the seed's, the
//! sender is the reporting agent, and the message is brought up to date until it is read.

use flightline_core::agent::Agent;
use flightline_core::dialect::Dialect;
use flightline_core::dialect::sitebuilder::progress_line;
use flightline_core::event::EventType;
use flightline_core::message::{Delivery, DeliveryState, Message, MessageKind};
use flightline_core::mission::Mission;
use flightline_core::sortie::Sortie;
use flightline_core::{Body, Kind, Subject, Title};
use flightline_store::{Actor, Find, SubjectRow};
use serde_json::json;

use super::post::{Letter, post, progress_sender};
use crate::error::Result;
use crate::mission::short;
use crate::op_context::OpContext;
use crate::sortie::subtask_progress;

/// Posts how far a sortie is, where the policy wants it.
pub(crate) fn post_progress(ctx: &mut OpContext<'_, '_>, sortie: &Sortie) -> Result<()> {
    if !ctx.policy.progress_mail {
        return Ok(());
    }
    let mission = ctx.mission(Some(&sortie.mission_id.to_string()))?;
    let Some(dispatch) = reader(ctx, &mission)? else {
        return Ok(());
    };
    if ctx.agent_id() == Some(dispatch.id) {
        return Ok(());
    }
    let percent = subtask_progress(ctx, sortie)?.percent;
    let (subject, body) = match ctx.policy.speaks(Dialect::Sitebuilder) {
        true => {
            let task = sortie.task_id.as_ref();
            let task = task.map_or_else(|| sortie.id.to_string(), ToString::to_string);
            let note = sortie.progress_notes.as_deref().map(ToString::to_string);
            (progress_line(&task, percent), note)
        }
        false => (own_subject(sortie), Some(own_hint(sortie))),
    };
    let subject = Title::parse("subject", &subject)?;
    let body = body.map(|text| Body::parse("body", &text)).transpose()?;
    let reporter = ctx.tx.actor().clone();
    if !ctx.policy.speaks(Dialect::Sitebuilder) {
        ctx.tx.act_as(Actor::flightline());
    }
    let told = tell(ctx, sortie, dispatch, subject, body);
    ctx.tx.act_as(reporter);
    told
}

/// The agent that is told of a mission's progress. In seed B's words there is a mailbox in any case; else nothing is
/// written while no agent coordinates, because a message without a reader is no work that waits.
fn reader(ctx: &mut OpContext<'_, '_>, mission: &Mission) -> Result<Option<Agent>> {
    match ctx.policy.speaks(Dialect::Sitebuilder) {
        true => ctx.dispatch_of(mission).map(Some),
        false => ctx.present_dispatch(mission),
    }
}

/// Maximum number of bytes of a sortie's title in a subject line.
const TITLE: usize = 120;

/// Maximum number of a sortie's events that are searched for its last report.
const LATELY: u64 = 20;

/// A sortie as Flightline's own messages call it: its id and its title.
fn called(sortie: &Sortie) -> (String, String) {
    let title = sortie.title.as_str();
    let title = match title.len() > TITLE {
        true => format!("{}…", &title[..title.floor_char_boundary(TITLE)]),
        false => title.to_owned(),
    };
    let id = sortie.task_id.as_ref();
    let id = id.map_or_else(|| short(sortie.id), ToString::to_string);
    (id, title)
}

fn own_subject(sortie: &Sortie) -> String {
    let (id, title) = called(sortie);
    format!("Progress of {id}: {title}")
}

fn own_hint(sortie: &Sortie) -> String {
    format!("See it with: fleet sorties show {}", called(sortie).0)
}

/// Updates Flightline's own message about a sortie with the present progress and the last report, until the recipient
/// has acknowledged it.
pub(crate) fn bring_up_to_date(
    ctx: &mut OpContext<'_, '_>,
    message: &mut Message,
    delivery: &Delivery,
) -> Result<()> {
    let is_open = !matches!(delivery.state, DeliveryState::Acknowledged { .. });
    let Some(of) = delivery.progress_of.filter(|_| is_open) else {
        return Ok(());
    };
    if message.from != Actor::flightline().name {
        return Ok(());
    }
    let Some(sortie) = ctx.tx.get::<Sortie>(of)? else {
        return Ok(());
    };
    let percent = subtask_progress(ctx, &sortie)?.percent;
    let (id, title) = called(&sortie);
    let lately = ctx.tx.events_of(Kind::Sortie, &sortie.key(), LATELY)?;
    let report = lately
        .iter()
        .find(|event| event.is(EventType::SortieProgress) || event.is(EventType::SortieCompleted));
    let reporter = report.map(|event| format!("{} reported it.", event.actor));
    let note = sortie.progress_notes.as_deref().map(ToString::to_string);
    let body: Vec<String> = reporter.into_iter().chain(note).collect();
    message.subject = Title::parse("subject", &format!("{id} is at {percent} %: {title}"))?;
    if !body.is_empty() {
        message.body = Some(Body::parse("body", &body.join("\n\n"))?);
    }
    Ok(())
}

fn tell(
    ctx: &mut OpContext<'_, '_>,
    sortie: &Sortie,
    dispatch: Agent,
    subject: Title,
    body: Option<Body>,
) -> Result<()> {
    let reports = reports(ctx, sortie, &dispatch)?;
    if let Some(mut message) = unread(ctx, &dispatch, &reports)? {
        // An unread message that says this already needs no update.
        if message.subject == subject && message.body == body {
            return Ok(());
        }
        message.subject = subject;
        message.body = body;
        message.sent_at = ctx.now();
        // The report itself is part of the story, this is not.
        let data = json!({ "to": [dispatch.name], "subject": message.subject, "tells_of": EventType::SortieProgress.as_str() });
        ctx.tx.set(EventType::MessageUpdated, &message, &data)?;
        return Ok(());
    }
    settle_older(ctx, &dispatch, &reports)?;
    let letter = Letter {
        from: None,
        to: &[dispatch],
        subject,
        body,
        kind: MessageKind::Progress,
        mission: Some(sortie.mission_id),
        reply_to: None,
        acknowledge_by: None,
        progress_of: Some(sortie.id),
    };
    post(ctx, &letter).map(drop)
}

const PENDING: &str = "pending";
const READ: &str = "delivered";

/// Returns the reports on a sortie that dispatch has not acknowledged, oldest first. Only of its mission: in the
/// mailbox of a large fleet's dispatch there is a report of every sortie.
fn reports(
    ctx: &mut OpContext<'_, '_>,
    sortie: &Sortie,
    dispatch: &Agent,
) -> Result<Vec<SubjectRow>> {
    let (of, to) = (sortie.key(), dispatch.id.to_string());
    let find = Find::Mission(sortie.mission_id);
    let mut rows = ctx.tx.rows(Kind::Delivery, find)?;
    rows.retain(|row| {
        row.name.as_deref() == Some(of.as_str())
            && row.agent.as_deref() == Some(to.as_str())
            && matches!(row.status.as_str(), PENDING | READ)
    });
    Ok(rows)
}

/// The unread message that can be brought up to date: of the same sender, and without a later message of that sender,
/// because mail keeps its order.
fn unread(
    ctx: &mut OpContext<'_, '_>,
    dispatch: &Agent,
    reports: &[SubjectRow],
) -> Result<Option<Message>> {
    let Some(ours) = reports.iter().rfind(|row| row.status == PENDING) else {
        return Ok(None);
    };
    let message = match &ours.parent {
        Some(id) => ctx.tx.get::<Message>(id)?,
        None => None,
    };
    let (sender, agent) = progress_sender(ctx);
    let Some(message) = message.filter(|message| message.from == sender) else {
        return Ok(None);
    };
    // Flightline writes of each thing in a message of its own: between them there is no order to keep.
    let is_flightline = agent.is_none() && sender == Actor::flightline().name;
    let overtaken = !is_flightline && is_overtaken(ctx, dispatch, ours)?;
    Ok((!overtaken).then_some(message))
}

/// Returns true when dispatch has unread mail of this sender that is younger than a report.
fn is_overtaken(
    ctx: &mut OpContext<'_, '_>,
    dispatch: &Agent,
    report: &SubjectRow,
) -> Result<bool> {
    // A person's messages are not found by their sender: any younger message may be one.
    let notes = match ctx.agent_id() {
        None => None,
        Some(sender) => {
            let find = Find::AgentStatus(sender, MessageKind::Note.as_str());
            let notes = ctx.tx.rows(Kind::Message, find)?;
            if notes.is_empty() {
                return Ok(false);
            }
            Some(notes)
        }
    };
    let unread = Find::AgentStatus(dispatch.id, PENDING);
    let unread = ctx.tx.rows(Kind::Delivery, unread)?;
    let mut younger = unread.iter().filter(|row| row.born > report.born);
    Ok(younger.any(|row| match &notes {
        None => true,
        Some(notes) => notes
            .iter()
            .any(|note| row.parent.as_ref() == Some(&note.id)),
    }))
}

/// Settles earlier reports, which are over with the next one, whether they were read or not.
fn settle_older(
    ctx: &mut OpContext<'_, '_>,
    dispatch: &Agent,
    reports: &[SubjectRow],
) -> Result<()> {
    for row in reports {
        if let Some(mut delivery) = ctx.tx.get::<Delivery>(&row.id)? {
            delivery.state = DeliveryState::Acknowledged { at: ctx.now() };
            let data = json!({ "to": dispatch.name });
            ctx.tx.set(EventType::MessageSuperseded, &delivery, &data)?;
        }
    }
    Ok(())
}
