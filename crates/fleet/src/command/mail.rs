//! `fleet mail`: sends, lists, reads, answers, acknowledges and requeues messages.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use flightline::core::Kind;
use flightline::core::message::MessageKind;
use flightline::mail::{
    AcknowledgeMail, DeliveryView, MessageView, OpenInbox, PeekInbox, ReadMail, ReplyMail,
    RequeueMail, SendMail, ShowThread, send,
};

use super::{CommandResult, typed};
use crate::app::{App, DisplayIds};
use crate::complete;
use crate::ui::{BOLD, Cell, Page, state};

#[derive(Debug, Subcommand)]
pub enum MailCommand {
    /// Send a message
    Send(SendArgs),
    /// List your mail and mark it as delivered; `--of` shows another agent's
    Inbox {
        /// Include messages that were acknowledged
        #[arg(long)]
        all: bool,
        /// Show this agent's inbox without marking anything
        #[arg(long, value_name = "NAME", add = complete::agents())]
        of: Option<String>,
        /// Maximum number of messages, oldest first
        #[arg(long, default_value_t = 50)]
        limit: u64,
    },
    /// Read a message and mark it as delivered
    Read(MessageArg),
    /// Reply to a message and acknowledge it
    Reply {
        #[command(flatten)]
        id: MessageArg,
        /// The text (`-` reads stdin)
        #[arg(long, allow_hyphen_values = true)]
        body: String,
    },
    /// Acknowledge messages (safe to repeat)
    Ack {
        /// The messages: their ids, or the beginnings of them
        #[arg(required_unless_present = "all", conflicts_with = "all", add = complete::messages())]
        ids: Vec<String>,
        /// Acknowledge everything in your inbox
        #[arg(long)]
        all: bool,
    },
    /// Show a conversation, oldest first
    Thread(MessageArg),
    /// Requeue a message for recipients that have not acknowledged it
    Requeue(MessageArg),
}

#[derive(Debug, Args)]
pub struct MessageArg {
    /// The message: its id, or the beginning of it
    #[arg(add = complete::messages())]
    id: String,
}

#[derive(Debug, Args)]
pub struct SendArgs {
    /// A recipient (repeatable); `dispatch` is the mission's dispatch
    #[arg(long, required = true, value_name = "NAME", add = complete::agents())]
    to: Vec<String>,
    /// The subject: the message in one line
    #[arg(long, allow_hyphen_values = true)]
    subject: String,
    /// The text (`-` reads stdin)
    #[arg(long, allow_hyphen_values = true)]
    body: Option<String>,
    /// Deadline for the acknowledgement, such as `30m` from now
    #[arg(long, value_name = "IN", value_parser = typed::span)]
    ack_within: Option<u64>,
}

pub fn run(command: MailCommand, app: &mut App) -> CommandResult {
    match command {
        MailCommand::Send(args) => {
            let request = SendMail {
                to: args.to.clone(),
                subject: typed::title("subject", &args.subject)?,
                body: typed::maybe(args.body.as_ref(), typed::body)?,
                mission: None,
                acknowledge_within_ms: args.ack_within,
            };
            app.will_answer("message-view")?;
            let caller = app.caller()?;
            let view =
                send(app.fleet()?, &request, &caller).map_err(flightline::Error::into_refusal)?;
            app.ui.written = true;
            sent(app, &view)
        }
        MailCommand::Inbox { all, of, limit } => {
            let messages = match of {
                Some(agent) => app.run(&PeekInbox { agent, all, limit })?,
                None => app.run(&OpenInbox { all, limit })?,
            };
            list(app, &messages, "No mail.")
        }
        MailCommand::Read(id) => {
            let view = app.run(&ReadMail { message: id.id })?;
            show(app, std::slice::from_ref(&view), &view)
        }
        MailCommand::Reply { id, body } => {
            let view = app.run(&ReplyMail {
                message: id.id,
                body: typed::body(&body)?,
            })?;
            sent(app, &view)
        }
        MailCommand::Ack { ids, all } => {
            let messages = app.run(&AcknowledgeMail { messages: ids, all })?;
            let short = app.short(&[Kind::Message], &messages)?;
            app.ui.answer(&messages, |page| {
                for view in &messages {
                    page.line(format_args!(
                        "{}  {}  {}",
                        state("acknowledged"),
                        short.id(view.message.id),
                        view.message.subject
                    ));
                }
                if messages.is_empty() {
                    page.line("Nothing to acknowledge");
                }
            })?;
            Ok(ExitCode::SUCCESS)
        }
        MailCommand::Thread(id) => {
            let messages = app.run(&ShowThread { message: id.id })?;
            show(app, &messages, &messages)
        }
        MailCommand::Requeue(id) => {
            let view = app.run(&RequeueMail { message: id.id })?;
            list(app, std::slice::from_ref(&view), "")
        }
    }
}

fn sent(app: &mut App, view: &MessageView) -> CommandResult {
    let short = app.short(&[Kind::Message], view)?;
    app.ui.answer(view, |page| {
        let to: Vec<&str> = view
            .deliveries
            .iter()
            .map(|delivery| delivery.to.as_str())
            .collect();
        page.line(format_args!(
            "{}  sent to {}: {}",
            short.id(view.message.id),
            to.join(", "),
            view.message.subject
        ));
    })?;
    Ok(ExitCode::SUCCESS)
}

fn list(app: &mut App, messages: &[MessageView], empty: &str) -> CommandResult {
    let (short, now) = (app.short(&[Kind::Message], &messages)?, app.now()?);
    app.ui.answer(&messages, |page| {
        page.at(now);
        if messages.is_empty() {
            page.line(empty);
            return;
        }
        let (events, mail): (Vec<&MessageView>, Vec<&MessageView>) = messages
            .iter()
            .partition(|view| view.message.kind == MessageKind::Event);
        let rows: Vec<Vec<Cell>> = mail
            .iter()
            .map(|view| {
                let states = view
                    .deliveries
                    .iter()
                    .map(|delivery| format!("{} {}", delivery.to, way(delivery)));
                vec![
                    short.id(view.message.id).into(),
                    Cell::new(page.time(view.message.sent_at)),
                    Cell::new(&view.message.from),
                    Cell::new(&view.message.subject),
                    Cell::dim(states.collect::<Vec<_>>().join(", ")),
                ]
            })
            .collect();
        if !rows.is_empty() {
            page.table(&["ID", "SENT", "FROM", "SUBJECT", "STATE"], &rows);
        }
        tell_events(page, &events, &short);
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the messages that need no answer, in short.
fn tell_events(page: &mut Page, events: &[&MessageView], short: &DisplayIds) {
    if events.is_empty() {
        return;
    }
    page.line("For your information:");
    let rows: Vec<Vec<Cell>> = events
        .iter()
        .map(|view| {
            vec![
                Cell::new(short.id(view.message.id)).indent(2),
                Cell::new(page.time(view.message.sent_at)),
                Cell::new(&view.message.subject),
            ]
        })
        .collect();
    page.table(&[], &rows);
}

/// The state of a delivery, and whether it is overdue.
fn way(delivery: &DeliveryView) -> String {
    let late = if delivery.overdue_at.is_some() {
        ", overdue"
    } else {
        ""
    };
    format!("{}{late}", delivery.state.as_str())
}

fn show<T: serde::Serialize>(
    app: &mut App,
    messages: &[MessageView],
    outcome: &T,
) -> CommandResult {
    let (short, now) = (app.short(&[Kind::Message], outcome)?, app.now()?);
    app.ui.answer(outcome, |page| {
        page.at(now);
        for (at, view) in messages.iter().enumerate() {
            if at > 0 {
                page.line("");
            }
            whole(page, view, &short);
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

fn whole(page: &mut Page, view: &MessageView, short: &DisplayIds) {
    let message = &view.message;
    page.line(format_args!(
        "{}   {}",
        Cell::styled(&message.subject, BOLD),
        short.id(message.id)
    ));
    let to: Vec<String> = view
        .deliveries
        .iter()
        .map(|delivery| format!("{} ({})", delivery.to, way(delivery)))
        .collect();
    page.line(format_args!(
        "From {} to {}, {}",
        message.from,
        to.join(", "),
        page.time(message.sent_at)
    ));
    if let Some(body) = &message.body {
        page.line("");
        for line in body.lines() {
            page.line(format_args!("  {line}"));
        }
    }
}
