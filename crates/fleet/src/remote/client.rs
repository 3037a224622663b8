//! The client of a server: sends one operation at a time, over HTTP. A write has a key, so that a write whose answer was
//! lost is sent again and done once.

use std::time::{Duration, Instant};

use flightline::Access;
use flightline::core::{Code, Refusal};
use flightline::remote::{
    ANSWER_TYPE, OLDEST_API, RemoteCall, ServerAnswer, ServerReply, VERSION, header,
};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use ureq::http::{HeaderValue, Response};
use ureq::{Body, Timeout};

use super::Address;
use super::trust::{distrust, trusted};
use super::unreachable::Unreachable;
use crate::config::Secret;

/// The time that making a connection may take.
const CONNECT: Duration = Duration::from_secs(5);
/// The time that an answer may take: longer than a server waits for its store.
const SLOWEST: Duration = Duration::from_secs(30);
/// The most bytes of an answer. Read and understood, it takes a few times as much memory.
const LARGEST: u64 = 32 * 1024 * 1024;
/// The pause before a request is sent again, unless the server names one.
const PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// The address, the token and the limits of a client.
#[derive(Debug)]
pub struct ClientConfig {
    pub address: Address,
    pub token: Secret,
    /// The time for which a request is sent again in all.
    pub patience: Duration,
    /// The protocol version of this end.
    pub api: u32,
    /// True when the user says which authorities to trust, instead of this machine.
    pub authorities_named: bool,
    /// In tests: the time, and the number of the next id.
    pub test_now: Option<String>,
    pub test_ids: Option<u64>,
}

pub struct ServerClient {
    agent: ureq::Agent,
    client_config: ClientConfig,
}

pub enum Sent {
    Answered(ServerAnswer),
    Unreachable {
        unreachable: Unreachable,
        /// True when the request may have been done all the same: the same key will tell.
        perhaps: bool,
    },
}

enum Attempt {
    Answered(ServerAnswer),
    /// The request may have been done or not, and is worth sending again, after this time if the server named one.
    Again(String, Option<Duration>),
    /// The server says that the request was not done, and may be later.
    Declined(Unreachable, Option<Duration>),
    /// Nothing was sent: no server is there.
    Nobody(String),
    /// Nothing was sent: the peer could not prove that it is the server.
    Distrusted(Unreachable),
}

#[derive(Deserialize)]
struct Whole<'a> {
    #[serde(borrow)]
    outcome: &'a RawValue,
    #[serde(default)]
    warnings: Vec<String>,
    #[serde(default)]
    noticed: Vec<String>,
}

/// A problem, as RFC 9457 has it.
#[derive(Deserialize)]
struct Problem {
    code: String,
    detail: String,
    #[serde(default)]
    hint: Option<String>,
    #[serde(default)]
    details: Value,
    #[serde(default)]
    retryable: bool,
    #[serde(default)]
    warnings: Vec<String>,
    #[serde(default)]
    noticed: Vec<String>,
}

impl ServerClient {
    /// Sets up a client; sends nothing yet. Fails when the trusted authorities cannot be read.
    pub fn new(client_config: ClientConfig) -> Result<Self, Refusal> {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            // A token is for the server it was given for.
            .max_redirects(0)
            .proxy(None)
            .timeout_connect(Some(CONNECT.min(client_config.patience)))
            .timeout_global(Some(SLOWEST))
            .user_agent(format!("fleet/{VERSION}"))
            .tls_config(trusted(
                &client_config.address,
                client_config.authorities_named,
            )?)
            .build();
        Ok(Self {
            agent: ureq::Agent::new_with_config(config),
            client_config,
        })
    }

    /// Sends a request again and again until there is an answer, no server is there, or patience ends.
    pub fn send(&mut self, call: &RemoteCall<'_>, key: Option<&str>) -> Sent {
        let began = Instant::now();
        let mut pause = PAUSE;
        let (mut knocked, mut perhaps) = (false, false);
        loop {
            let (unreachable, wait) = match self.attempt(call, key) {
                Attempt::Answered(answer) => return Sent::Answered(answer),
                // A server that restarts is there in a moment.
                Attempt::Nobody(why) if knocked => {
                    let unreachable = Unreachable::unreached(&why, None);
                    return Sent::Unreachable {
                        unreachable,
                        perhaps,
                    };
                }
                Attempt::Nobody(why) => {
                    knocked = true;
                    (Unreachable::unreached(&why, None), None)
                }
                Attempt::Distrusted(unreachable) => {
                    return Sent::Unreachable {
                        unreachable,
                        perhaps,
                    };
                }
                Attempt::Declined(unreachable, wait) => (unreachable, wait),
                Attempt::Again(why, wait) => {
                    perhaps = true;
                    (Unreachable::unreached(&why, None), wait)
                }
            };
            let wait = wait.unwrap_or(pause).min(LONGEST_PAUSE);
            if began.elapsed() + wait > self.client_config.patience {
                return Sent::Unreachable {
                    unreachable,
                    perhaps,
                };
            }
            std::thread::sleep(wait);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    pub fn address(&self) -> &Address {
        &self.client_config.address
    }

    fn attempt(&mut self, call: &RemoteCall<'_>, key: Option<&str>) -> Attempt {
        let url = self
            .client_config
            .address
            .of(&format!("/api/v1/ops/{}", call.operation));
        let mut request = self
            .agent
            .post(url)
            .header(
                "authorization",
                format!("Bearer {}", self.client_config.token.reveal()),
            )
            .header("content-type", "application/json")
            .header("accept", ANSWER_TYPE)
            .header(header::API, self.client_config.api.to_string())
            .header(header::VERSION, VERSION);
        let caller = call.caller;
        let epoch = caller.epoch.map(|epoch| epoch.to_string());
        let on_behalf_of_token = caller.on_behalf_of_token.map(|token| token.to_string());
        let next_id = self.client_config.test_ids.map(|next| next.to_string());
        let mut unfit = None;
        for (name, value) in [
            (header::AGENT, caller.agent.as_deref()),
            (header::EPOCH, epoch.as_deref()),
            (header::SESSION, caller.session.as_deref()),
            (header::MISSION, caller.mission.as_deref()),
            (header::INSTEAD_OF, on_behalf_of_token.as_deref()),
            (header::IDEMPOTENCY_KEY, key),
            (header::REHEARSE, call.rehearse.then_some("true")),
            (header::TEST_NOW, self.client_config.test_now.as_deref()),
            (header::TEST_IDS, next_id.as_deref()),
        ] {
            match value.map(|value| HeaderValue::from_bytes(value.as_bytes())) {
                None => {}
                Some(Ok(value)) => request = request.header(name, value),
                Some(Err(_)) => unfit = Some(name),
            }
        }
        if let Some(name) = unfit {
            let what = name.trim_start_matches("fleet-");
            let refusal = Refusal::invalid(format!("the {what} holds a control character"));
            return Attempt::Answered(refusal.into());
        }
        match request.send(call.request.as_str()) {
            Ok(response) => self.read(response, call.access),
            Err(error) => failed(&error),
        }
    }

    fn read(&mut self, mut response: Response<Body>, access: Access) -> Attempt {
        let text = |name: &str| {
            let value = response.headers().get(name)?;
            value.to_str().ok().map(str::to_owned)
        };
        let (api, version) = (text(header::API), text(header::VERSION));
        let replayed = text(header::REPLAYED).is_some();
        let wait = text("retry-after").and_then(|wait| wait.parse().ok());
        let wait = wait.map(Duration::from_secs);
        let elsewhere = text("location");
        let next_id = text(header::TEST_IDS).and_then(|next| next.parse().ok());
        let status = response.status().as_u16();
        let body = response.body_mut().with_config().limit(LARGEST);
        let body = match body.read_to_string() {
            Ok(body) => body,
            // Asking again would give the same.
            Err(ureq::Error::BodyExceedsLimit(_)) => {
                return Attempt::Answered(self.too_large(access).into());
            }
            Err(error) => return Attempt::Again(format!("the answer broke off: {error}"), None),
        };
        self.client_config.test_ids = next_id.or(self.client_config.test_ids);
        if matches!(status, 429 | 502..=504) {
            return match serde_json::from_str::<Problem>(&body) {
                Ok(said) if said.code == "unavailable" => {
                    Attempt::Declined(Unreachable::declined(&said.detail, said.hint), wait)
                }
                Ok(said) => Attempt::Again(said.detail, wait),
                Err(_) => Attempt::Again(format!("it answers {status}"), wait),
            };
        }
        Attempt::Answered(match api.and_then(|api| api.parse::<u32>().ok()) {
            None if matches!(status, 300..=399) => self.moved(elsewhere.as_deref()).into(),
            None => self.stranger(status).into(),
            Some(api) if api < OLDEST_API => self
                .too_old(api, version.as_deref().unwrap_or("unknown"))
                .into(),
            Some(_) if status == 200 => self.outcome(&body, replayed),
            Some(_) => self.problem(status, &body),
        })
    }

    fn outcome(&self, body: &str, replayed: bool) -> ServerAnswer {
        match serde_json::from_str::<Whole<'_>>(body) {
            Ok(whole) => ServerAnswer {
                reply: Ok(ServerReply::Outcome(whole.outcome.get().to_owned())),
                replayed,
                warnings: whole.warnings,
                noticed: whole.noticed,
            },
            Err(error) => Refusal::new(
                Code::Failed,
                format!(
                    "the answer of {} cannot be read: {error}",
                    self.client_config.address
                ),
            )
            .into(),
        }
    }

    /// Reads a problem as the operation's own refusal: it reads as it would here.
    fn problem(&self, status: u16, body: &str) -> ServerAnswer {
        let Ok(problem) = serde_json::from_str::<Problem>(body) else {
            return self.stranger(status).into();
        };
        let code = serde_json::from_value(Value::String(problem.code.clone()));
        let code = code.unwrap_or(match status {
            400 | 415 => Code::InvalidInput,
            404 | 405 => Code::NotFound,
            413 => Code::TooLong,
            403 | 421 => Code::Forbidden,
            _ => Code::Failed,
        });
        let hint = match code {
            Code::Unauthenticated => Some(format!(
                "log in with `fleet login {}`",
                self.client_config.address
            )),
            _ => problem.hint,
        };
        ServerAnswer {
            reply: Err(Refusal {
                code,
                message: problem.detail,
                hint,
                details: problem.details,
                retryable: problem.retryable,
            }),
            replayed: false,
            warnings: problem.warnings,
            noticed: problem.noticed,
        }
    }

    fn too_large(&self, access: Access) -> Refusal {
        let size = LARGEST / (1024 * 1024);
        let message = format!(
            "the answer of {} is larger than {size} MiB, and was not read",
            self.client_config.address
        );
        match access {
            Access::Read => Refusal::new(Code::Failed, message).hint(
                "ask for less, for example with `--limit`; or check that this is your server",
            ),
            Access::Write | Access::Pulse => Refusal::new(
                Code::CommitUnknown,
                format!("{message}: it is not known whether it was done"),
            )
            .hint("check first with `fleet log`; and check that this is your server"),
        }
    }

    fn stranger(&self, status: u16) -> Refusal {
        Refusal::new(
            Code::OtherVersion,
            format!(
                "the program at {} is not a Flightline server (status {status})",
                self.client_config.address
            ),
        )
        .hint("check the address of the server: `fleet serve` prints it when it starts")
    }

    /// Refuses a redirect. A token is for the server it was made for: only a person may name another.
    fn moved(&self, to: Option<&str>) -> Refusal {
        let to = to.and_then(|to| Address::parse(to.split("/api/v1/").next()?).ok());
        let (there, name) = match &to {
            Some(to) => (format!("redirects to {to}"), to.as_str()),
            None => ("redirects to another place".to_owned(), "URL"),
        };
        Refusal::new(
            Code::OtherVersion,
            format!(
                "{} {there}, where its token is not sent",
                self.client_config.address
            ),
        )
        .hint(format!(
            "if the server is there, log in there with `fleet login {name}`"
        ))
    }

    fn too_old(&self, api: u32, version: &str) -> Refusal {
        Refusal::new(
            Code::OtherVersion,
            format!(
                "the server at {} ({version}, API {api}) is older than this `fleet` ({VERSION}, API {}) understands",
                self.client_config.address, self.client_config.api
            ),
        )
        .hint(format!("upgrade the server; or use `fleet` {version} here"))
    }
}

/// Sorts a failed attempt by whether a server was there.
fn failed(error: &ureq::Error) -> Attempt {
    use std::io::ErrorKind::{
        AddrNotAvailable, ConnectionRefused, HostUnreachable, NetworkDown, NetworkUnreachable,
    };
    if let Some(unreachable) = distrust(error) {
        return Attempt::Distrusted(unreachable);
    }
    let why = error.to_string();
    match error {
        ureq::Error::HostNotFound
        | ureq::Error::ConnectionFailed
        | ureq::Error::Timeout(Timeout::Resolve | Timeout::Connect) => Attempt::Nobody(why),
        ureq::Error::Io(io)
            if matches!(
                io.kind(),
                AddrNotAvailable
                    | ConnectionRefused
                    | HostUnreachable
                    | NetworkDown
                    | NetworkUnreachable
            ) =>
        {
            Attempt::Nobody(io.kind().to_string())
        }
        ureq::Error::Io(_) | ureq::Error::Timeout(_) | ureq::Error::Protocol(_) => {
            Attempt::Again(why, None)
        }
        _ => Attempt::Nobody(why),
    }
}
