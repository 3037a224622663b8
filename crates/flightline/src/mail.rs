//! Operations on mail. Mail belongs to an agent, not to its incarnation, and is delivered until it is
//! acknowledged.

pub(crate) mod deadline;
pub mod list;
pub(crate) mod post;
pub(crate) mod progress;
pub mod relay;

use crate::Schema;
use flightline_core::agent::Agent;
use flightline_core::checkpoint::Reason;
use flightline_core::event::EventType;
use flightline_core::message::{Delivery, DeliveryState, Message, MessageKind};
use flightline_core::note::Failure;
use flightline_core::text::NoteText;
use flightline_core::time::Millis;
use flightline_core::{AgentId, Body, Code, MessageId, Refusal, Subject, Time, Title};
use flightline_store::Find;
use serde::{Deserialize, Serialize};
use serde_json::json;

use self::deadline::notice_overdue;
pub(crate) use self::post::{Letter, hand_over, move_mail, notice, notice_for, post};
pub(crate) use self::progress::bring_up_to_date;
use crate::checkpoint::trigger::record_failure;
use crate::error::Result;
use crate::fleet::{Access, ActsFor, Caller, Fleet, Operation, Scope, WhenFull};
use crate::note::failure::{settle_acknowledged, settle_sent};
use crate::op_context::OpContext;

/// Sends a message to agents.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct SendMail {
    /// The recipients: names or ids of agents, or `dispatch` for the mission's coordinator.
    #[schemars(length(min = 1))]
    pub to: Vec<String>,
    /// The subject line of the message.
    pub subject: Title,
    /// The text of the message.
    pub body: Option<Body>,
    /// The mission that the message is about; the current one when there is one.
    pub mission: Option<String>,
    /// Time that the recipients have to acknowledge the message.
    pub acknowledge_within_ms: Option<Millis>,
}

/// Answers a message: everyone in it but the answerer gets the answer.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct ReplyMail {
    /// The message that is answered.
    pub message: String,
    /// The text of the answer.
    pub body: Body,
}

/// Lists an agent's mail and marks it as delivered. Unacknowledged only, unless asked for all.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct OpenInbox {
    /// List acknowledged messages too.
    pub all: bool,
    /// Maximum number of entries, oldest first.
    pub limit: u64,
}

/// Lists another agent's mail without marking anything.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct PeekInbox {
    /// The agent whose inbox is listed, by name or id.
    pub agent: String,
    /// List acknowledged messages too.
    #[serde(default)]
    pub all: bool,
    /// Maximum number of entries, oldest first.
    pub limit: u64,
}

/// Reads a message, which marks it as delivered to the acting agent.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct ReadMail {
    /// The message to read.
    pub message: String,
}

/// Acknowledges that messages were understood.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct AcknowledgeMail {
    /// The messages to acknowledge.
    #[serde(default)]
    pub messages: Vec<String>,
    /// Acknowledge every message in the acting agent's inbox.
    #[serde(default)]
    pub all: bool,
}

/// Shows a conversation, oldest first.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct ShowThread {
    /// A message of the conversation.
    pub message: String,
}

/// Puts a message back into the mailboxes that have not acknowledged it.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct RequeueMail {
    /// The message to deliver again.
    pub message: String,
}

/// A message and its deliveries.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
pub struct MessageView {
    /// The message as it is stored.
    pub message: Message,
    /// The delivery of the message to each recipient.
    pub deliveries: Vec<DeliveryView>,
}

/// The delivery of a message to one recipient.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
pub struct DeliveryView {
    /// The recipient's name.
    pub to: String,
    /// The state of the delivery.
    pub state: DeliveryState,
    /// The time at which it was noticed that the recipient had not acknowledged by the deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overdue_at: Option<Time>,
}

impl Operation for SendMail {
    const NAME: &'static str = "send_mail";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Agent;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = MessageView;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<MessageView> {
        notice_overdue(ctx)?;
        let named = self.mission.is_some() || ctx.caller.mission.is_some();
        let mission = if named {
            Some(ctx.mission(self.mission.as_deref())?)
        } else {
            ctx.current_mission()?
        };
        if self.to.is_empty() {
            return Err(Refusal::invalid("a message needs a recipient")
                .hint("give `--to NAME`")
                .into());
        }
        let mut to: Vec<Agent> = Vec::new();
        for reference in &self.to {
            let agent = match (reference.as_str(), &mission) {
                ("dispatch", Some(mission)) => ctx.dispatch_of(mission)?,
                _ => ctx.find_agent(reference).map_err(undeliverable)?,
            };
            if agent.retired_at.is_some() {
                return Err(Refusal::new(
                    Code::IllegalTransition,
                    format!("{} was retired and reads no mail", agent.name),
                )
                .hint("write to `dispatch`, or list the agents with `fleet agents list`")
                .details(json!({ "undeliverable": agent.name }))
                .into());
            }
            if !to.iter().any(|known| known.id == agent.id) {
                to.push(agent);
            }
        }
        let acknowledge_by = self.acknowledge_within_ms.map(|span| ctx.now().plus(span));
        let letter = Letter {
            from: None,
            to: &to,
            subject: self.subject.clone(),
            body: self.body.clone(),
            kind: MessageKind::Note,
            mission: mission.map(|mission| mission.id),
            reply_to: None,
            acknowledge_by,
            progress_of: None,
        };
        let message = post(ctx, &letter)?;
        settle_sent(ctx, message.mission_id, &message.subject)?;
        view(ctx, message)
    }
}

impl Operation for ReplyMail {
    const NAME: &'static str = "reply_mail";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Agent;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = MessageView;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<MessageView> {
        // First of all: answering late acknowledges, and was late all the same.
        notice_overdue(ctx)?;
        let question = ctx.by_id::<Message>(&self.message, MessageId::PREFIX)?;
        let me = ctx.agent_id();
        let mut to = Vec::new();
        for id in question.from_id.iter().chain(&question.to) {
            let agent = ctx
                .tx
                .get::<Agent>(*id)?
                .filter(|agent| agent.retired_at.is_none());
            if let Some(agent) = agent.filter(|agent| Some(agent.id) != me)
                && !to.iter().any(|known: &Agent| known.id == agent.id)
            {
                to.push(agent);
            }
        }
        if to.is_empty() {
            return Err(Refusal::new(
                Code::NotFound,
                "there is no agent to answer: a person wrote that message",
            )
            .hint("write a note instead: `fleet note decision \"…\"`")
            .into());
        }
        if let Some(me) = me {
            settle(ctx, &question, me, Mark::Acknowledged)?;
        }
        let subject = if question.subject.starts_with("Re: ") {
            question.subject.clone()
        } else {
            let subject: String = format!("Re: {}", question.subject)
                .chars()
                .take(120)
                .collect();
            Title::parse("subject", &subject)?
        };
        let letter = Letter {
            from: None,
            to: &to,
            subject,
            body: Some(self.body.clone()),
            kind: MessageKind::Note,
            mission: question.mission_id,
            reply_to: Some(&question),
            acknowledge_by: None,
            progress_of: None,
        };
        let message = post(ctx, &letter)?;
        view(ctx, message)
    }
}

impl Operation for OpenInbox {
    const NAME: &'static str = "open_inbox";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Agent;
    const WHEN_FULL: WhenFull = WhenFull::Answered;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = Vec<MessageView>;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<Vec<MessageView>> {
        notice_overdue(ctx)?;
        let mut agent = ctx.acting()?.clone();
        agent.coordination.last_inbox_check = Some(ctx.now());
        let messages = inbox(ctx, &agent, self.all, self.limit)?;
        if !messages.is_empty() {
            ctx.tx.set(
                EventType::InboxOpened,
                &agent,
                &json!({ "messages": messages.len() }),
            )?;
        }
        for message in &messages {
            settle(ctx, message, agent.id, Mark::Delivered)?;
        }
        views(ctx, messages)
    }
}

impl Operation for PeekInbox {
    const NAME: &'static str = "peek_inbox";
    const ACCESS: Access = Access::Read;
    const SCOPE: Scope = Scope::Read;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = Vec<MessageView>;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<Vec<MessageView>> {
        let agent = ctx.find_agent(&self.agent)?;
        let messages = inbox(ctx, &agent, self.all, self.limit)?;
        views(ctx, messages)
    }
}

impl Operation for ReadMail {
    const NAME: &'static str = "read_mail";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Agent;
    const WHEN_FULL: WhenFull = WhenFull::Answered;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = MessageView;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<MessageView> {
        notice_overdue(ctx)?;
        let message = ctx.by_id::<Message>(&self.message, MessageId::PREFIX)?;
        if let Some(me) = ctx.agent_id() {
            settle(ctx, &message, me, Mark::Delivered)?;
        }
        view(ctx, message)
    }
}

impl Operation for AcknowledgeMail {
    const NAME: &'static str = "acknowledge_mail";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Agent;
    const WHEN_FULL: WhenFull = WhenFull::UsesReserve;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = Vec<MessageView>;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<Vec<MessageView>> {
        // First of all: a message that is acknowledged now was late all the same.
        notice_overdue(ctx)?;
        let me = ctx.acting()?.clone();
        let mut messages = Vec::new();
        if self.all {
            messages = inbox(ctx, &me, false, u64::MAX)?;
        } else if self.messages.is_empty() {
            return Err(Refusal::invalid("no message to acknowledge was given")
                .hint("name messages, or acknowledge everything with `fleet mail ack --all`")
                .into());
        }
        for reference in &self.messages {
            let message = ctx.by_id::<Message>(reference, MessageId::PREFIX)?;
            let key = format!("{}/{}", message.id, me.id);
            if ctx.tx.get::<Delivery>(&key)?.is_none() {
                return Err(Refusal::new(
                    Code::NotYours,
                    format!(
                        "{} was not sent to {}",
                        crate::mission::short(message.id),
                        me.name
                    ),
                )
                .into());
            }
            messages.push(message);
        }
        for message in &messages {
            settle(ctx, message, me.id, Mark::Acknowledged)?;
        }
        views(ctx, messages)
    }
}

impl Operation for ShowThread {
    const NAME: &'static str = "show_thread";
    const ACCESS: Access = Access::Read;
    const SCOPE: Scope = Scope::Read;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = Vec<MessageView>;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<Vec<MessageView>> {
        let message = ctx.by_id::<Message>(&self.message, MessageId::PREFIX)?;
        let thread = ctx
            .tx
            .find::<Message>(Find::Parent(&message.thread_id.to_string()))?;
        views(ctx, thread)
    }
}

impl Operation for RequeueMail {
    const NAME: &'static str = "requeue_mail";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Dispatch;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Fleet;
    type Outcome = MessageView;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<MessageView> {
        let message = ctx.by_id::<Message>(&self.message, MessageId::PREFIX)?;
        for to in &message.to {
            settle(ctx, &message, *to, Mark::Requeued)?;
        }
        view(ctx, message)
    }
}

/// Sends a message; one that cannot be delivered leaves an error checkpoint behind. Refuses a recipient that is unknown or
/// retired.
pub fn send(fleet: &mut Fleet, request: &SendMail, caller: &Caller) -> Result<MessageView> {
    let sent = fleet.run(request, caller);
    if let Err(crate::Error::Refused(refusal)) = &sent
        && refusal.details.get("undeliverable").is_some()
    {
        let details = NoteText::parse("details", &refusal.message)?;
        let mission = request.mission.clone();
        let subject = request.subject.clone();
        let failure = (details, Failure::Undelivered { subject });
        record_failure(fleet, caller, mission, Reason::DeliveryFailed, failure);
    }
    sent
}

/// Mail to an unknown name cannot be delivered. A mistyped name is no failure of the fleet's.
fn undeliverable(error: crate::Error) -> crate::Error {
    let mistyped = |refusal: &Refusal| refusal.details.get("meant").is_some();
    match error {
        crate::Error::Refused(refusal) if refusal.code == Code::NotFound && !mistyped(&refusal) => {
            refusal.details(json!({ "undeliverable": true })).into()
        }
        error => error,
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    Delivered,
    Acknowledged,
    Requeued,
}

/// Moves a delivery on. A repeated mark is harmless, and an acknowledged delivery stays so.
fn settle(ctx: &mut OpContext<'_, '_>, message: &Message, to: AgentId, mark: Mark) -> Result<()> {
    let Some(mut delivery) = ctx.tx.get::<Delivery>(&format!("{}/{to}", message.id))? else {
        return Ok(());
    };
    let at = ctx.now();
    // A message that needs no answer is settled when it is read; that changes nothing of a mission.
    let mark = match (message.kind, mark) {
        (MessageKind::Event, Mark::Delivered) => Mark::Acknowledged,
        (_, mark) => mark,
    };
    let (state, event) = match (delivery.state, mark) {
        (DeliveryState::Pending, Mark::Delivered) => {
            (DeliveryState::Delivered { at }, EventType::MessageDelivered)
        }
        (DeliveryState::Pending | DeliveryState::Delivered { .. }, Mark::Acknowledged) => (
            DeliveryState::Acknowledged { at },
            EventType::MessageAcknowledged,
        ),
        (DeliveryState::Delivered { .. }, Mark::Requeued) => {
            (DeliveryState::Pending, EventType::MessageRequeued)
        }
        (DeliveryState::Pending, Mark::Requeued)
        | (DeliveryState::Delivered { .. }, Mark::Delivered)
        | (DeliveryState::Acknowledged { .. }, _) => return Ok(()),
    };
    delivery.state = state;
    ctx.tx
        .set(event, &delivery, &json!({ "subject": message.subject }))?;
    if mark == Mark::Acknowledged && delivery.overdue_at.is_some() {
        settle_acknowledged(ctx, message)?;
    }
    Ok(())
}

fn inbox(
    ctx: &mut OpContext<'_, '_>,
    agent: &Agent,
    all: bool,
    limit: u64,
) -> Result<Vec<Message>> {
    let deliveries = ctx.tx.find::<Delivery>(Find::Agent(agent.id))?;
    let wanted = deliveries
        .into_iter()
        .filter(|delivery| all || !matches!(delivery.state, DeliveryState::Acknowledged { .. }))
        .take(usize::try_from(limit).unwrap_or(usize::MAX));
    let mut messages = Vec::new();
    for delivery in wanted {
        messages.extend(ctx.tx.get::<Message>(delivery.message_id)?);
    }
    Ok(messages)
}

fn views(ctx: &mut OpContext<'_, '_>, messages: Vec<Message>) -> Result<Vec<MessageView>> {
    messages
        .into_iter()
        .map(|message| view(ctx, message))
        .collect()
}

fn view(ctx: &mut OpContext<'_, '_>, mut message: Message) -> Result<MessageView> {
    let mut deliveries = Vec::new();
    for delivery in ctx.tx.find::<Delivery>(Find::Parent(&message.key()))? {
        bring_up_to_date(ctx, &mut message, &delivery)?;
        deliveries.push(DeliveryView {
            to: ctx.agent_name(delivery.to)?,
            state: delivery.state,
            overdue_at: delivery.overdue_at,
        });
    }
    Ok(MessageView {
        message,
        deliveries,
    })
}
