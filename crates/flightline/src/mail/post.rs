//! Puts messages into mailboxes.

use flightline_core::agent::Agent;
use flightline_core::dialect::Dialect;
use flightline_core::event::EventType;
use flightline_core::message::{Delivery, DeliveryState, Message, MessageKind};
use flightline_core::{AgentId, Body, MessageId, MissionId, SortieId, Subject, Time, Title};
use flightline_store::{Actor, Find};
use serde_json::json;

use super::deadline::watch;
use crate::error::Result;
use crate::op_context::OpContext;

pub(crate) struct Letter<'a> {
    /// The sender, when it is not the acting agent: it gets the answer.
    pub(crate) from: Option<&'a Agent>,
    pub(crate) to: &'a [Agent],
    pub(crate) subject: Title,
    pub(crate) body: Option<Body>,
    pub(crate) kind: MessageKind,
    pub(crate) mission: Option<MissionId>,
    pub(crate) reply_to: Option<&'a Message>,
    pub(crate) acknowledge_by: Option<Time>,
    /// The sortie whose progress it tells.
    pub(crate) progress_of: Option<SortieId>,
}

/// Returns the sender of a sortie's progress: the agent that reports it, in seed B's words, else Flightline.
pub(super) fn progress_sender(ctx: &OpContext<'_, '_>) -> (String, Option<AgentId>) {
    match ctx.policy.speaks(Dialect::Sitebuilder) {
        true => (ctx.actor(), ctx.agent_id()),
        false => (Actor::flightline().name, None),
    }
}

/// Sends a letter, and puts it into each recipient's mailbox.
pub(crate) fn post(ctx: &mut OpContext<'_, '_>, letter: &Letter<'_>) -> Result<Message> {
    let id = MessageId::new(ctx.tx.uuid());
    let (from, from_id) = match (letter.from, letter.kind) {
        (Some(agent), _) => (agent.name.to_string(), Some(agent.id)),
        (None, MessageKind::Notice) => (Actor::flightline().name, None),
        (None, MessageKind::Progress) => progress_sender(ctx),
        (None, MessageKind::Note | MessageKind::Event) => (ctx.actor(), ctx.agent_id()),
    };
    let message = Message {
        id,
        thread_id: letter.reply_to.map_or(id, |question| question.thread_id),
        in_reply_to: letter.reply_to.map(|question| question.id),
        mission_id: letter.mission,
        from,
        from_id,
        to: letter.to.iter().map(|agent| agent.id).collect(),
        subject: letter.subject.clone(),
        body: letter.body.clone(),
        kind: letter.kind,
        sent_at: ctx.now(),
        acknowledge_by: letter.acknowledge_by,
        event: None,
    };
    let to: Vec<&str> = letter.to.iter().map(|agent| agent.name.as_str()).collect();
    let mut data = json!({ "to": to, "subject": message.subject });
    if letter.progress_of.is_some() {
        // The report itself is part of the story, the message is not.
        data["tells_of"] = json!(EventType::SortieProgress.as_str());
    }
    ctx.tx.set(EventType::MessageSent, &message, &data)?;
    for agent in letter.to {
        let delivery = Delivery {
            message_id: id,
            to: agent.id,
            mission_id: letter.mission,
            state: DeliveryState::Pending,
            acknowledge_by: letter.acknowledge_by,
            overdue_at: None,
            digest: None,
            progress_of: letter.progress_of,
        };
        ctx.tx.set(
            EventType::MessageQueued,
            &delivery,
            &json!({ "to": agent.name }),
        )?;
    }
    if let Some(by) = letter.acknowledge_by {
        watch(ctx, by)?;
    }
    Ok(message)
}

/// Sends a message of Flightline itself to an agent.
pub(crate) fn notice(
    ctx: &mut OpContext<'_, '_>,
    to: Agent,
    subject: &str,
    body: &str,
    mission: Option<MissionId>,
) -> Result<()> {
    notice_for(ctx, None, to, (subject, body), mission)
}

/// Tells an agent something in another agent's name, so that this one gets the answer.
pub(crate) fn notice_for(
    ctx: &mut OpContext<'_, '_>,
    from: Option<&Agent>,
    to: Agent,
    (subject, body): (&str, &str),
    mission: Option<MissionId>,
) -> Result<()> {
    let letter = Letter {
        from,
        to: &[to],
        subject: Title::parse("subject", &subject[..subject.floor_char_boundary(400)])?,
        body: Some(Body::parse("body", body)?),
        kind: MessageKind::Notice,
        mission,
        reply_to: None,
        acknowledge_by: None,
        progress_of: None,
    };
    post(ctx, &letter).map(drop)
}

/// Copies the unacknowledged mail of a mission from an agent's mailbox to that of its successor. The old
/// mailbox keeps it: mail belongs to an agent.
pub(crate) fn hand_over(
    ctx: &mut OpContext<'_, '_>,
    mission: MissionId,
    from: AgentId,
    to: &Agent,
) -> Result<()> {
    let from_name = ctx.agent_name(from)?;
    for mut delivery in ctx.tx.find::<Delivery>(Find::Mission(mission))? {
        let open = !matches!(delivery.state, DeliveryState::Acknowledged { .. });
        if delivery.to != from || !open || !forward(ctx, &delivery, &from_name, to)? {
            continue;
        }
        // The deadline is now the other recipient's: a recipient that is gone has none.
        if delivery.due().is_some() {
            let data = json!({ "from": from_name, "to": to.name });
            delivery.acknowledge_by = None;
            ctx.tx
                .set(EventType::MessageDeadlineMoved, &delivery, &data)?;
        }
    }
    Ok(())
}

/// Moves the unacknowledged mail of an agent that is gone to its successor, whatever mission it is about.
/// Messages that only tell of events need no answer, and stay. Returns the number moved.
pub(crate) fn move_mail(ctx: &mut OpContext<'_, '_>, from: &Agent, to: &Agent) -> Result<u64> {
    let mut moved = 0;
    for delivery in ctx.tx.find::<Delivery>(Find::Agent(from.id))? {
        let open = !matches!(delivery.state, DeliveryState::Acknowledged { .. });
        if !open || delivery.digest.is_some() {
            continue;
        }
        forward(ctx, &delivery, from.name.as_str(), to)?;
        let data = json!({ "from": from.name, "to": to.name });
        ctx.tx.remove(EventType::MessageMoved, &delivery, &data)?;
        moved += 1;
    }
    Ok(moved)
}

/// Queues a message for another agent as well; not when it has it already.
fn forward(
    ctx: &mut OpContext<'_, '_>,
    delivery: &Delivery,
    from: &str,
    to: &Agent,
) -> Result<bool> {
    let handed = Delivery {
        to: to.id,
        state: DeliveryState::Pending,
        ..delivery.clone()
    };
    if ctx.tx.get::<Delivery>(&handed.key())?.is_some() {
        return Ok(false);
    }
    let data = json!({ "from": from, "to": to.name });
    ctx.tx.set(EventType::MessageForwarded, &handed, &data)?;
    Ok(true)
}
