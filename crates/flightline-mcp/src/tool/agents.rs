//! Tools for working beside others: agents, locks, mail.

use flightline::agent::takeover::ShowHandoff;
use flightline::agent::{Heartbeat, ListAgents, RegisterAgent, RetireAgent, ShowAgent};
use flightline::core::Refusal;
use flightline::core::agent::Role;
use flightline::lock::{AcquireLocks, CheckLocks, ListLocks, ReleaseLocks, RenewLocks};
use flightline::mail::{AcknowledgeMail, OpenInbox, ReadMail, ReplyMail, SendMail, ShowThread};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Does, List, Loaded, PlannedCall, Tool, needed, read};
use crate::mirror::{ToolOutput, at, row, short};
use crate::runner::Call;
#[cfg(test)]
use crate::schema;

pub(super) const TOOLS: &[Tool] = &[
    Tool {
        name: "fleet_heartbeat",
        title: "Heartbeat",
        about: "Says that you live and what you do. Obey `stop` and `instructions`.",
        loaded: Loaded::Core,
        does: Does::Adds,
        #[cfg(test)]
        input: schema::of::<HeartbeatArgs>(),
        output: &[("stop", "boolean")],
        plan: heartbeat,
    },
    Tool {
        name: "fleet_lock",
        title: "Locks",
        about: "Lock files, folders or globs before you edit. release without paths frees all yours.",
        loaded: Loaded::Core,
        does: Does::Adds,
        #[cfg(test)]
        input: schema::of::<LockArgs>(),
        output: &[("locks", "array")],
        plan: lock,
    },
    Tool {
        name: "fleet_mail",
        title: "Mail",
        about: "Messages between agents; `dispatch` coordinates.",
        loaded: Loaded::Core,
        does: Does::Adds,
        #[cfg(test)]
        input: schema::of::<MailArgs>(),
        output: &[("messages", "array")],
        plan: mail,
    },
    Tool {
        name: "fleet_agents",
        title: "Agents",
        about: "The workers of the fleet: list, show, register, retire; handoff: the document for a successor.",
        loaded: Loaded::Full,
        does: Does::Adds,
        #[cfg(test)]
        input: schema::of::<AgentsArgs>(),
        output: &[
            ("agents", "array"),
            ("agent", "object"),
            ("handoff", "object"),
            ("next_cursor", "string"),
        ],
        plan: agents,
    },
];

#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
struct HeartbeatArgs {
    step: Option<String>,
    context_percent: Option<u8>,
    #[cfg_attr(test, schemars(skip))]
    agent: Option<String>,
}

fn heartbeat(arguments: &str) -> Result<PlannedCall, Refusal> {
    let args: HeartbeatArgs = read("fleet_heartbeat", arguments)?;
    let call = Call::of::<Heartbeat>(json!({
        "step": args.step,
        "context_percent": args.context_percent,
    }));
    Ok(PlannedCall::new(call.by(args.agent), |outcome| {
        let stop = match outcome["stop"] == true {
            true => "stop now".to_owned(),
            false => String::new(),
        };
        let line = row([at(&outcome, "/agent"), stop, at(&outcome, "/instructions")]);
        ToolOutput::object(outcome, line)
    }))
}

#[derive(Clone, Copy, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
enum LockVerb {
    #[default]
    Acquire,
    Renew,
    Release,
    Check,
    List,
}

#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
struct LockArgs {
    #[serde(default)]
    action: LockVerb,
    #[serde(default)]
    paths: Vec<String>,
    purpose: Option<String>,
    #[cfg_attr(test, schemars(skip))]
    sortie: Option<String>,
    #[cfg_attr(test, schemars(skip))]
    cursor: Option<String>,
    #[cfg_attr(test, schemars(skip))]
    agent: Option<String>,
}

fn lock(arguments: &str) -> Result<PlannedCall, Refusal> {
    let args: LockArgs = read("fleet_lock", arguments)?;
    let paths = |action: &str| {
        let given = Some(args.paths.clone()).filter(|paths| !paths.is_empty());
        needed("fleet_lock", action, "paths", given)
    };
    let call = match args.action {
        LockVerb::Acquire => Call::of::<AcquireLocks>(json!({
            "paths": paths("acquire")?,
            "purpose": args.purpose,
            "sortie": args.sortie,
        })),
        LockVerb::Renew => Call::of::<RenewLocks>(json!({ "locks": paths("renew")? })),
        LockVerb::Release if args.paths.is_empty() => {
            Call::of::<ReleaseLocks>(json!({ "all": true }))
        }
        LockVerb::Release => Call::of::<ReleaseLocks>(json!({ "locks": args.paths })),
        LockVerb::List => Call::of::<ListLocks>(json!({})),
        LockVerb::Check => {
            return Ok(PlannedCall::list(
                Call::of::<CheckLocks>(json!({ "paths": paths("check")? })),
                List {
                    key: "locks",
                    one: "path",
                    id: "/path",
                    at: "",
                    line: |it| {
                        let free = match it["free"] == true {
                            true => "free".to_owned(),
                            false => format!("locked by {}", at(it, "/lock/holder")),
                        };
                        row([at(it, "/path"), free])
                    },
                },
                args.cursor,
            ));
        }
    };
    Ok(PlannedCall::list(
        call.by(args.agent),
        List {
            key: "locks",
            one: "lock",
            id: "/lock/id",
            at: "",
            line: |it| {
                row([
                    at(it, "/lock/file"),
                    at(it, "/holder"),
                    format!("fence {}", at(it, "/lock/fence")),
                    at(it, "/lock/purpose"),
                ])
            },
        },
        args.cursor,
    ))
}

#[derive(Clone, Copy, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
enum MailVerb {
    #[default]
    Inbox,
    Read,
    Send,
    Reply,
    Ack,
    Thread,
}

#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
struct MailArgs {
    #[serde(default)]
    action: MailVerb,
    message: Option<String>,
    #[serde(default)]
    to: Vec<String>,
    subject: Option<String>,
    body: Option<String>,
    #[cfg_attr(test, schemars(skip))]
    cursor: Option<String>,
    #[cfg_attr(test, schemars(skip))]
    agent: Option<String>,
}

/// The number of letters of an inbox that one call opens: to open one is to read it.
const OPENED: u64 = 20;

fn mail(arguments: &str) -> Result<PlannedCall, Refusal> {
    let args: MailArgs = read("fleet_mail", arguments)?;
    let which = |action: &str| needed("fleet_mail", action, "message", args.message.clone());
    let said = |action: &str| needed("fleet_mail", action, "body", args.body.clone());
    let call = match args.action {
        MailVerb::Inbox => {
            let call = Call::of::<OpenInbox>(json!({ "all": false, "limit": OPENED }));
            return Ok(PlannedCall::list(
                call.by(args.agent),
                MESSAGES,
                args.cursor,
            ));
        }
        MailVerb::Thread => {
            let call = Call::of::<ShowThread>(json!({ "message": which("thread")? }));
            return Ok(PlannedCall::list(
                call.by(args.agent),
                MESSAGES,
                args.cursor,
            ));
        }
        MailVerb::Ack => {
            let request = match &args.message {
                Some(message) => json!({ "messages": [message] }),
                None => json!({ "all": true }),
            };
            let call = Call::of::<AcknowledgeMail>(request);
            return Ok(PlannedCall::list(
                call.by(args.agent),
                MESSAGES,
                args.cursor,
            ));
        }
        MailVerb::Read => Call::of::<ReadMail>(json!({ "message": which("read")? })),
        MailVerb::Reply => Call::of::<ReplyMail>(json!({
            "message": which("reply")?,
            "body": said("reply")?,
        })),
        MailVerb::Send => Call::of::<SendMail>(json!({
            "to": needed("fleet_mail", "send", "to", Some(args.to).filter(|to| !to.is_empty()))?,
            "subject": needed("fleet_mail", "send", "subject", args.subject)?,
            "body": args.body,
        })),
    };
    let reads = matches!(args.action, MailVerb::Read);
    Ok(PlannedCall::new(call.by(args.agent), move |outcome| {
        let line = message_line(&outcome);
        let body = Some(at(&outcome, "/message/body")).filter(|body| reads && !body.is_empty());
        ToolOutput::object(json!({ "messages": [outcome] }), line).with_document(body)
    }))
}

const MESSAGES: List = List {
    key: "messages",
    one: "message",
    id: "/message/id",
    at: "",
    line: message_line,
};

fn message_line(view: &Value) -> String {
    let to = view["deliveries"].as_array().into_iter().flatten();
    let to: Vec<String> = to.map(|delivery| at(delivery, "/to")).collect();
    row([
        short(view, "/message/id"),
        format!("{} to {}", at(view, "/message/from"), to.join(", ")),
        at(view, "/message/subject"),
    ])
}

#[derive(Clone, Copy, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
enum AgentsVerb {
    List,
    Show,
    Register,
    Retire,
    Handoff,
}

#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
struct AgentsArgs {
    action: AgentsVerb,
    name: Option<String>,
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    role: Option<Role>,
    reason: Option<String>,
    cursor: Option<String>,
    agent: Option<String>,
}

fn agents(arguments: &str) -> Result<PlannedCall, Refusal> {
    let args: AgentsArgs = read("fleet_agents", arguments)?;
    let which = |action: &str| needed("fleet_agents", action, "name", args.name.clone());
    let call = match args.action {
        AgentsVerb::List => {
            return Ok(PlannedCall::list(
                Call::of::<ListAgents>(json!({})),
                List {
                    key: "agents",
                    one: "agent",
                    id: "/agent/id",
                    at: "",
                    line: agent_line,
                },
                args.cursor,
            ));
        }
        AgentsVerb::Handoff => {
            let call = Call::of::<ShowHandoff>(json!({ "agent": which("handoff")? }));
            return Ok(PlannedCall::new(call, |outcome| {
                let text = at(&outcome, "/text");
                let line = format!("what {} leaves to a successor", at(&outcome, "/from"));
                ToolOutput::object(json!({ "handoff": outcome }), line).with_document(Some(text))
            }));
        }
        AgentsVerb::Show => Call::of::<ShowAgent>(json!({ "agent": args.name })),
        AgentsVerb::Register => Call::of::<RegisterAgent>(json!({
            "name": which("register")?,
            "role": args.role,
        })),
        AgentsVerb::Retire => Call::of::<RetireAgent>(json!({
            "agent": which("retire")?,
            "reason": args.reason,
        })),
    };
    Ok(PlannedCall::new(call.by(args.agent), |mut outcome| {
        let line = agent_line(&outcome);
        // The agent's own record is not hidden in one of the same name.
        if let Value::Object(fields) = &mut outcome
            && let Some(Value::Object(agent)) = fields.remove("agent")
        {
            fields.extend(agent);
        }
        ToolOutput::object(json!({ "agent": outcome }), line)
    }))
}

fn agent_line(view: &Value) -> String {
    row([
        at(view, "/agent/name"),
        at(view, "/agent/role"),
        at(view, "/liveness/life"),
        at(view, "/pulse/step"),
    ])
}
