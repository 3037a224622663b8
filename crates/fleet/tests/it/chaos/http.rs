//! Who talks to servers: any of them, and again with the same key, until there is an answer.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::chaos::chance::Chance;
use crate::chaos::node::Node;

/// How long an attempt waits for its answer.
const ATTEMPT: Duration = Duration::from_secs(5);

/// How long anybody asks for something to read.
const PATIENCE: Duration = Duration::from_secs(30);

/// What came of an attempt.
#[derive(Clone, Debug)]
pub enum Said {
    /// It was done.
    Done(Value),
    /// It was not done, and will not be.
    Refused(String, Value),
    /// Unknown: no answer, or one that says to come back.
    Nothing(String),
}

/// Something to be done once.
#[derive(Clone, Debug)]
pub struct Request {
    pub path: String,
    pub body: Value,
    pub key: String,
    /// The agent it is done as.
    pub agent: Option<String>,
}

/// A client.
pub struct Http {
    agent: ureq::Agent,
    token: String,
    pub chance: Chance,
    /// How often it had to ask again.
    pub repeats: u64,
    /// Whether a server may say that it is broken: one whose disk is gone.
    pub forgives: bool,
}

impl Http {
    pub fn new(token: &str, chance: Chance) -> Self {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(ATTEMPT))
            .build();
        Self {
            agent: ureq::Agent::new_with_config(config),
            token: token.to_owned(),
            chance,
            repeats: 0,
            forgives: false,
        }
    }

    /// Asks one server, once.
    pub fn ask(&self, node: &Node, request: &Request) -> Said {
        let mut post = self
            .agent
            .post(format!("{}/api/v1{}", node.url(), request.path))
            .header("authorization", format!("Bearer {}", self.token))
            .header("content-type", "application/json")
            .header("idempotency-key", &request.key);
        if let Some(agent) = &request.agent {
            post = post.header("fleet-agent", agent);
        }
        self.answer(post.send(request.body.to_string()))
    }

    /// Asks one server after another until one answers, or the time is over.
    pub fn settle(&mut self, nodes: &[Node], request: &Request, until: Instant) -> Said {
        loop {
            let node = &nodes[self.chance.place(nodes.len())];
            let said = self.ask(node, request);
            if !matches!(said, Said::Nothing(_)) || Instant::now() > until {
                return said;
            }
            self.repeats += 1;
            std::thread::sleep(self.chance.millis(20, 200));
        }
    }

    /// Reads from one server until it answers: each of its connections finds out by itself that the
    /// database went away.
    pub fn look(&self, node: &Node, operation: &str, body: Value) -> Said {
        let began = Instant::now();
        let request = Request {
            path: format!("/ops/{operation}"),
            body,
            key: "a look".to_owned(),
            agent: None,
        };
        loop {
            match self.ask(node, &request) {
                Said::Nothing(why) => assert!(began.elapsed() < PATIENCE, "{operation}: {why}"),
                said => return said,
            }
        }
    }

    /// Reads what can be read.
    pub fn read(&self, node: &Node, operation: &str, body: Value) -> Value {
        match self.look(node, operation, body) {
            Said::Done(value) => value,
            other => panic!("{operation}: {other:?}"),
        }
    }

    fn answer(&self, sent: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> Said {
        let mut response = match sent {
            Ok(response) => response,
            Err(error) => return Said::Nothing(error.to_string()),
        };
        let status = response.status().as_u16();
        let body = response
            .body_mut()
            .with_config()
            .limit(1 << 30)
            .read_to_string();
        let text = match body {
            Ok(text) => text,
            Err(error) => return Said::Nothing(error.to_string()),
        };
        let value: Value =
            serde_json::from_str(&text).unwrap_or_else(|_| panic!("{status}: {text}"));
        match status {
            200..=299 => Said::Done(value),
            503 => Said::Nothing(text),
            400..=499 => {
                Said::Refused(value["code"].as_str().unwrap_or_default().to_owned(), value)
            }
            _ if self.forgives => Said::Nothing(text),
            _ => panic!("a server is broken: {status}: {text}"),
        }
    }
}
