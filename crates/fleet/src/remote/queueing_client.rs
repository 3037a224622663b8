//! Delivers requests to the server, queued ones before new ones, and queues those that may wait while the server cannot be
//! reached.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use flightline::core::event::sha256_hex;
use flightline::core::redact::contains_secret;
use flightline::core::token::unknown;
use flightline::core::{Code, Name, Refusal, text};
use flightline::registry::may_wait;
use flightline::rejected_delivery::RecordRejected;
use flightline::remote::{
    Deferred, Late, Offline, QueueDelivery, Remote, RemoteCall, ServerAnswer,
};
use flightline::store::CrashPoints;
use flightline::store::clock::{Clock, IdSource};
use flightline::{Access, Caller, Operation};
use serde_json::{Value, json};

use super::TokenOwner;
use super::client::{Sent, ServerClient};
use super::spool::{Spool, SpoolContents, SpoolQueue, SpooledRequest};
use super::unreachable::Unreachable;

/// The most bytes of a late request's text that are quoted.
const TOLD: usize = 4_000;
const TOLD_WHY: usize = 1_000;

/// The client of a server that also delivers queues, and remembers what could not be delivered.
pub struct QueueingClient {
    client: ServerClient,
    /// The public part of the token that requests are sent with.
    token_owner: Option<TokenOwner>,
    spool: Spool,
    clock: Clock,
    /// In test builds, the steps at which this process ends.
    steps: CrashPoints,
    begun: bool,
    /// The reason for which the server cannot be reached, when it is known.
    down: Option<Unreachable>,
    /// The reasons for which queues cannot be delivered though the server is there, by queue.
    stuck: BTreeMap<String, Refusal>,
}

enum Brought {
    /// The whole queue, or as much as this server takes.
    Enough,
    Down(Unreachable),
}

impl QueueingClient {
    /// Makes a client for this server and token, with these queues.
    pub fn new(
        (client, token_owner): (ServerClient, Option<TokenOwner>),
        spool: Spool,
        clock: Clock,
        steps: CrashPoints,
    ) -> Self {
        Self {
            client,
            token_owner,
            spool,
            clock,
            steps,
            begun: false,
            down: None,
            stuck: BTreeMap::new(),
        }
    }

    /// Delivers all queues, each in its order. Returns sentences about it.
    fn deliver(&mut self, asking: &str) -> Vec<String> {
        let mut said = Vec::new();
        let mut delivery = QueueDelivery::default();
        if let Err(refusal) = self.spool.check() {
            said.push(format!(
                "the queue on this machine is not read: {}",
                refusal.message
            ));
            return said;
        }
        if let Err(refusal) = self.spool.sort(asking) {
            said.push(format!(
                "the queue on this machine cannot be sorted by server: {}",
                refusal.message
            ));
        }
        for name in self.spool.queues() {
            // Other queues may be on their way already; the agent's own queue comes before its new request.
            let patience = match name == asking {
                true => Duration::from_secs(15),
                false => Duration::ZERO,
            };
            let queue = match self.spool.take_within(&name, patience) {
                Ok(queue) => queue,
                Err(refusal) => {
                    self.stuck.insert(name, refusal);
                    continue;
                }
            };
            match self.bring(&name, &queue, &mut delivery, &mut said) {
                Ok(Brought::Enough) => {}
                Ok(Brought::Down(unreachable)) => {
                    self.down = Some(unreachable);
                    break;
                }
                Err(error) => said.push(format!(
                    "the queue on this machine for {name} cannot be read or written: {error}"
                )),
            }
        }
        if delivery.delivered > 0 || !delivery.late.is_empty() {
            delivery.at = Some(self.clock.now());
            if let Err(error) = self.spool.remember(&delivery) {
                said.push(format!("the delivery cannot be recorded: {error}"));
            }
            said.push(told(&delivery));
        }
        said
    }

    fn bring(
        &mut self,
        name: &str,
        queue: &SpoolQueue,
        delivery: &mut QueueDelivery,
        said: &mut Vec<String>,
    ) -> std::io::Result<Brought> {
        let (SpoolContents { entries, rest, .. }, damaged) = queue.kept()?;
        let all = entries.len() + rest.len();
        if let Some(file) = damaged {
            said.push(format!(
                "some queued requests on this machine cannot be read, and are kept in {}",
                file.display()
            ));
        }
        for (at, entry) in entries.iter().enumerate() {
            if entry.server != self.client.address().as_str() {
                said.push(format!(
                    "{} on this machine for {}: deliver with `fleet login {}`, or drop with `rm {}`",
                    waiting(all - at),
                    entry.server,
                    entry.server,
                    queue.file().display()
                ));
                return Ok(Brought::Enough);
            }
            // The server would take the line as written in another project, or by another principal; unless it names its
            // agent.
            let may = |token_owner: &TokenOwner| {
                entry.fits(token_owner)
                    || (entry.project == token_owner.project
                        && entry.on_behalf_of_token(token_owner).is_some())
            };
            let Some(token_owner) = self.token_owner.clone().filter(may) else {
                self.stuck.insert(name.to_owned(), for_another_token());
                return Ok(Brought::Enough);
            };
            // The file may have been written by any program of the user: only operations that may wait are delivered.
            if !may_wait(&entry.operation) {
                self.stop_at(name, queue, all - at, said);
                return Ok(Brought::Enough);
            }
            let answer = match self.ask(entry, &token_owner) {
                Sent::Answered(answer) => answer,
                Sent::Unreachable { unreachable, .. } => return Ok(Brought::Down(unreachable)),
            };
            self.steps.step();
            match answer.reply {
                Ok(_) => delivery.delivered += 1,
                // The token that queued it may still come; or this token may not speak for it.
                Err(refusal) if refusal.code == Code::Forbidden && !entry.fits(&token_owner) => {
                    self.stuck.insert(name.to_owned(), refusal);
                    return Ok(Brought::Enough);
                }
                Err(refusal) if is_ours(refusal.code) => {
                    said.push(format!(
                        "{} on this machine: {}",
                        waiting(all - at),
                        refusal.message
                    ));
                    self.stuck.insert(name.to_owned(), refusal);
                    return Ok(Brought::Enough);
                }
                Err(refusal) => match self.record_late(entry, &refusal) {
                    Sent::Unreachable { unreachable, .. } => return Ok(Brought::Down(unreachable)),
                    Sent::Answered(answer) => {
                        if let Err(untold) = answer.reply {
                            let file = queue.put_aside(entry)?;
                            said.push(format!(
                                "`{}` of {} was refused ({}), and that cannot be recorded ({}): it is kept in {}",
                                entry.operation,
                                entry.at,
                                refusal.message,
                                untold.message,
                                file.display()
                            ));
                        } else {
                            delivery.late.push(Late {
                                agent: entry.agent.clone(),
                                operation: entry.operation.clone(),
                                asked_at: entry.at,
                                why: refusal.message,
                            });
                        }
                    }
                },
            }
            self.steps.step();
            queue.replace(&entries[at + 1..], &rest)?;
        }
        if !rest.is_empty() {
            self.stop_at(name, queue, rest.len(), said);
        }
        Ok(Brought::Enough)
    }

    /// Stops at a line of another version: it stays for the program that wrote it.
    fn stop_at(&mut self, name: &str, queue: &SpoolQueue, count: usize, said: &mut Vec<String>) {
        let refusal = Refusal::new(
            Code::OtherVersion,
            format!(
                "{} was not written by this version of `fleet`, and stays as it is",
                queue.file().display()
            ),
        )
        .hint("upgrade `fleet` here; or look at that file, and remove it if it is not yours");
        said.push(format!(
            "{} on this machine: {}",
            waiting(count),
            refusal.message
        ));
        self.stuck.insert(name.to_owned(), refusal);
    }

    fn name_of(&self, agent: Option<&str>) -> String {
        Spool::name_of(agent, self.token_owner.as_ref(), self.address())
    }

    fn ask(&mut self, entry: &SpooledRequest, token_owner: &TokenOwner) -> Sent {
        let (caller, request) = (entry.caller(token_owner), entry.request.to_string());
        let call = plain(&entry.operation, &request, &caller);
        self.client.send(&call, Some(&entry.key))
    }

    /// Records a line that came too late, once, however often this is called.
    fn record_late(&mut self, entry: &SpooledRequest, refusal: &Refusal) -> Sent {
        let of = |field: &str| entry.request[field].as_str().map(str::to_owned);
        let request = || {
            Ok::<_, Refusal>(RecordRejected {
                note: Some(entry.note()),
                operation: Name::parse("operation", &entry.operation)?,
                said: text::NoteText::parse("note", &cut(&what_was_said(&entry.request), TOLD))?,
                asked_at: entry.at,
                agent: entry
                    .agent
                    .as_deref()
                    .map(|agent| Name::parse("agent name", agent))
                    .transpose()?,
                mission: of("mission").or_else(|| entry.mission.clone()),
                sortie: of("sortie"),
                code: refusal.code,
                why: text::NoteText::parse("why", &cut(&refusal.message, TOLD_WHY))?,
            })
        };
        let request = match request().map(|request| json!(request).to_string()) {
            Ok(request) => request,
            Err(refusal) => return Sent::Answered(refusal.into()),
        };
        let caller = Caller::default();
        let call = plain(RecordRejected::NAME, &request, &caller);
        // A key may be as long as a key may be: its hash never is.
        let key = format!("late-{}", sha256_hex(&entry.key));
        self.client.send(&call, Some(&key))
    }

    /// Queues, drops or refuses a request that cannot be delivered now.
    fn set_aside(
        &mut self,
        call: &RemoteCall<'_>,
        key: Option<&str>,
        unreachable: &Unreachable,
        perhaps: bool,
    ) -> ServerAnswer {
        match (call.offline, key) {
            (Offline::Kept, Some(key)) => match self.keep(call, key, unreachable, perhaps) {
                Ok(later) => later.into(),
                Err(refusal) => refusal.into(),
            },
            (Offline::Dropped, _) => Deferred {
                message: format!(
                    "{}; this heartbeat is dropped, and the next one replaces it",
                    self.cannot(unreachable)
                ),
                details: json!({ "dropped": true, "server": self.address() }),
            }
            .into(),
            (_, Some(key)) if perhaps => Refusal::new(
                Code::CommitUnknown,
                format!(
                    "{}, and it is not known whether it was done",
                    self.cannot(unreachable)
                ),
            )
            .hint(format!(
                "run it again with `--idempotency-key {key}`: it is done only once"
            ))
            .into(),
            _ => {
                let queues = self.spool.waiting(self.token_owner.as_ref());
                let count: usize = queues.iter().map(|of| of.count).sum();
                let mut hint = unreachable.advice("nothing was done");
                if count > 0 {
                    let _ = write!(hint, "; {} on this machine to be delivered", waiting(count));
                }
                Refusal::new(Code::Unavailable, self.cannot(unreachable))
                    .hint(hint)
                    .details(json!({ "server": self.address(), "waiting": queues }))
                    .into()
            }
        }
    }

    fn cannot(&self, unreachable: &Unreachable) -> String {
        format!("the server at {} {}", self.address(), unreachable.what)
    }

    fn keep(
        &mut self,
        call: &RemoteCall<'_>,
        key: &str,
        unreachable: &Unreachable,
        perhaps: bool,
    ) -> Result<Deferred, Refusal> {
        let at = self.clock.now();
        // A request that may have been done must be the same when it is sent again.
        let request = match perhaps {
            true => call.request.clone(),
            false => (call.later)(at)?,
        };
        let token_owner = self.token_owner.as_ref().ok_or_else(unknown)?;
        let entry = SpooledRequest::new(
            key,
            (self.address(), token_owner),
            at,
            (call.operation, &request),
            call.caller,
        );
        let queue = self
            .spool
            .take(&self.name_of(call.caller.agent.as_deref()))?;
        let count = queue.push(&entry).map_err(|error| {
            Refusal::new(
                Code::Unavailable,
                format!(
                    "{}, and it cannot be queued on this machine: {error}",
                    self.cannot(unreachable)
                ),
            )
            .hint("nothing was done or queued: run it again when the server is reachable")
        })?;
        let whose = call.caller.agent.as_deref().unwrap_or("you");
        Ok(Deferred {
            message: format!(
                "queued on this machine only: {}; it is delivered by the next command that reaches it ({} of {whose} {})",
                self.cannot(unreachable),
                requests(count),
                if count == 1 { "waits" } else { "wait" }
            ),
            details: json!({
                "queued": true,
                "operation": call.operation,
                "idempotency_key": key,
                "agent": call.caller.agent,
                "asked_at": at,
                "waiting": count,
                "server": self.address(),
            }),
        })
    }
}

impl Remote for QueueingClient {
    fn call(&mut self, call: &RemoteCall<'_>) -> ServerAnswer {
        let own = self.name_of(call.caller.agent.as_deref());
        let said = match self.begun {
            true => Vec::new(),
            false => self.deliver(&own),
        };
        self.begun = true;
        let key = key_of(call);
        let writes = call.access != Access::Read && !call.rehearse;
        // A write is never sent before an earlier request.
        let older = Spool::name_at_any(call.caller.agent.as_deref(), self.token_owner.as_ref());
        let behind = writes && (self.spool.has(&own) || self.spool.has(&older));
        let mut answer = match (&self.down, behind) {
            (Some(unreachable), _) => {
                let unreachable = unreachable.clone();
                self.set_aside(call, key.as_deref(), &unreachable, false)
            }
            (None, true) if call.offline == Offline::Refused => self.behind(&own, &older).into(),
            (None, true) => {
                let unreachable = Unreachable::unreached(&self.behind(&own, &older).message, None);
                self.set_aside(call, key.as_deref(), &unreachable, false)
            }
            (None, false) => match self.client.send(call, key.as_deref()) {
                Sent::Answered(answer) => answer,
                Sent::Unreachable {
                    unreachable,
                    perhaps,
                } => {
                    let answer = self.set_aside(call, key.as_deref(), &unreachable, perhaps);
                    self.down = Some(unreachable);
                    answer
                }
            },
        };
        answer.warnings.splice(0..0, said);
        if let Err(refusal) = &mut answer.reply
            && refusal.code == Code::Unauthenticated
        {
            self.advise(refusal);
        }
        answer
    }

    fn address(&self) -> &str {
        self.client.address().as_str()
    }
}

impl QueueingClient {
    /// Adds to a refusal the advice about requests that wait for an expired token.
    fn advise(&self, refusal: &mut Refusal) {
        let queues = self.spool.waiting(self.token_owner.as_ref());
        let count: usize = queues.iter().map(|of| of.count).sum();
        if count > 0 {
            let hint = refusal.hint.take().unwrap_or_default();
            refusal.hint = Some(format!(
                "{hint}\n{} on this machine: to deliver them, log in with a new token of the same project: `fleet login {}`",
                waiting(count),
                self.address()
            ));
        }
    }

    /// Refuses a new request of an agent whose earlier requests still wait.
    fn behind(&self, own: &str, older: &str) -> Refusal {
        let why = self.stuck.get(own).or_else(|| self.stuck.get(older));
        Refusal::new(
            why.map_or(Code::Unavailable, |why| why.code),
            format!(
                "earlier requests still wait on this machine: {}",
                why.map_or("they cannot be read here", |why| why.message.as_str())
            ),
        )
        .hint(
            why.and_then(|why| why.hint.clone())
                .unwrap_or_else(|| "see the queue with `fleet status`".to_owned()),
        )
    }
}

/// The key of a write: the caller's own, or a new one, so that a write whose answer is lost is done once.
fn key_of(call: &RemoteCall<'_>) -> Option<String> {
    match (&call.caller.idempotency_key, call.access) {
        _ if call.rehearse => None,
        (Some(key), _) => Some(wire_key(key)),
        (None, Access::Write) => Some(format!("fleet-{}", IdSource::Random.next())),
        (None, Access::Read | Access::Pulse) => None,
    }
}

/// Returns a key as it can be sent and kept: one with other characters, or with a secret, is replaced by its hash.
fn wire_key(key: &str) -> String {
    let plain = key
        .bytes()
        .all(|byte| byte.is_ascii_graphic() || byte == b' ');
    match key.len() <= 255 && (!plain || contains_secret(key)) {
        true => format!("sha256-{}", sha256_hex(key)),
        false => key.to_owned(),
    }
}

/// Returns true when the reason of a refusal lies with this machine or the server, and not with the request.
fn is_ours(code: Code) -> bool {
    matches!(
        code,
        Code::Unauthenticated
            | Code::Forbidden
            | Code::OtherVersion
            | Code::Failed
            | Code::Integrity
            | Code::NewerStore
            | Code::NotOurStore
            | Code::Untrusted
            | Code::Unavailable
            | Code::CommitUnknown
    )
}

fn for_another_token() -> Refusal {
    Refusal::new(Code::Unauthenticated, "they are for another token")
        .hint("log in with that token (`fleet login URL`); see the queue with `fleet status`")
}

fn plain<'a>(operation: &'a str, request: &'a str, caller: &'a Caller) -> RemoteCall<'a> {
    RemoteCall {
        operation,
        access: Access::Write,
        rehearse: false,
        offline: Offline::Refused,
        request: request.to_owned(),
        later: &|_| Err(Refusal::new(Code::Failed, "it is kept already").into()),
        caller,
    }
}

/// The text of a request, without its empty fields.
fn what_was_said(request: &Value) -> String {
    for field in ["text", "note", "result"] {
        if let Some(text) = request[field].as_str() {
            return text.to_owned();
        }
    }
    let mut said = request.clone();
    if let Value::Object(fields) = &mut said {
        fields.retain(|_, value| match value {
            Value::Null => false,
            Value::Bool(is) => *is,
            Value::Number(number) => number.as_u64() != Some(0),
            Value::String(text) => !text.is_empty(),
            Value::Array(items) => !items.is_empty(),
            Value::Object(fields) => !fields.is_empty(),
        });
    }
    said.to_string()
}

fn cut(text: &str, most: usize) -> String {
    text.chars().take(most).collect()
}

fn requests(count: usize) -> String {
    match count {
        1 => "1 request".to_owned(),
        count => format!("{count} requests"),
    }
}

fn waiting(count: usize) -> String {
    let wait = if count == 1 { "waits" } else { "wait" };
    format!("{} {wait}", requests(count))
}

/// The beginning of a message that a queue was delivered.
pub const DELIVERED: &str = "delivered the queue of this machine";

/// Tells the delivered requests, in one line.
fn told(delivery: &QueueDelivery) -> String {
    let done = format!(
        "{DELIVERED}: {}",
        requests(delivery.delivered + delivery.late.len())
    );
    match delivery.late.as_slice() {
        [] => done,
        [one] => format!("{done}; one came too late ({}), and is noted", one.why),
        several => format!(
            "{done}; {} came too late ({}), and are noted",
            several.len(),
            several[0].why
        ),
    }
}
