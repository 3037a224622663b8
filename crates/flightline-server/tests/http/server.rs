//! A server in this process, and who talks to it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use flightline::core::event::sha256_hex;
use flightline::core::policy::Policy;
use flightline::core::token::{Scope, written};
use flightline::core::{Name, Refusal};
use flightline::token::CreateToken;
use flightline_server::{Limits, ServerMessage, Setup, Stop, serve};
use flightline_testkit::World;
use serde_json::Value;

/// Longer than any request takes.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server that ends with the test.
pub struct Server {
    pub address: SocketAddr,
    stop: Stop,
    thread: Option<JoinHandle<Result<(), Refusal>>>,
    /// What it said of requests.
    log: Arc<Mutex<Vec<String>>>,
}

/// Starts a server on a world.
pub fn start(world: &World) -> Server {
    start_with(world, Limits::default())
}

/// Starts a server on a world, with other limits.
pub fn start_with(world: &World, limits: Limits) -> Server {
    let state = world.folder().join(".flightline");
    std::fs::create_dir_all(&state).expect("a folder");
    let setup = Setup {
        address: "127.0.0.1:0".parse().expect("an address"),
        hosts: vec!["fleet.example".to_owned()],
        location: world.location.clone(),
        project: world.project.clone(),
        options: world.options(),
        policy: Policy::default(),
        state,
        mirrors: None,
        tree: None,
        user: "tester".to_owned(),
        lifetime: None,
        limits,
        api: flightline::remote::API,
        test_mode: None,
        traces: None,
    };
    let (stop, log) = (Stop::default(), Arc::new(Mutex::new(Vec::new())));
    let (ready, is_ready) = mpsc::channel();
    let (ends, kept) = (stop.clone(), Arc::clone(&log));
    let thread = std::thread::spawn(move || {
        let say = Arc::new(move |said: ServerMessage| match said {
            ServerMessage::Ready(it) => drop(ready.send(it.address)),
            ServerMessage::Served(line) => kept.lock().expect("a log").push(format!("{line:?}")),
            ServerMessage::Warning(text) => kept.lock().expect("a log").push(text),
            ServerMessage::Stopping => {}
        });
        serve(setup, say, &ends)
    });
    let address = is_ready.recv_timeout(PATIENCE).expect("a server");
    Server {
        address,
        stop,
        thread: Some(thread),
        log,
    }
}

impl Server {
    /// Ends it, and waits until it has.
    pub fn end(mut self) {
        self.stop.now();
        let thread = self.thread.take().expect("a server");
        thread.join().expect("no panic").expect("a good end");
    }

    /// Everything it has said so far.
    pub fn log(&self) -> String {
        self.log.lock().expect("a log").join("\n")
    }

    /// A client that talks to it with this token.
    pub fn with(&self, token: &str) -> Client {
        Client {
            base: format!("http://{}", self.address),
            headers: vec![("authorization".to_owned(), format!("Bearer {token}"))],
        }
    }

    /// Sends these bytes, and reads what comes back until the connection ends.
    pub fn raw(&self, bytes: &[u8]) -> String {
        let mut stream = TcpStream::connect(self.address).expect("a connection");
        stream
            .set_read_timeout(Some(PATIENCE))
            .expect("a time limit");
        // Who is refused early is not listened to any more.
        let _ = stream.write_all(bytes);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.now();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A token for a world's server.
pub fn token(world: &World, name: &str, scope: Scope, agent: Option<&str>) -> String {
    let secret = sha256_hex(name);
    let request = CreateToken {
        name: Name::parse("name", name).expect("a name"),
        scope,
        agent: agent.map(|agent| Name::parse("agent", agent).expect("a name")),
        expires_in_ms: Some(3_600_000),
        sha256: sha256_hex(&secret),
    };
    let given = world.run("", &request).expect("a token");
    written(&given.project, given.id, &secret)
}

/// Who talks to a server.
#[derive(Clone)]
pub struct Client {
    base: String,
    headers: Vec<(String, String)>,
}

/// What a server answered.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub text: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The answer of something that was done.
    pub fn ok(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.header("content-type"), Some("application/json"));
        self.json()
    }

    /// The problem of something that was not, in RFC 9457's words, and its code.
    pub fn problem(&self, status: u16) -> String {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(
            self.header("content-type"),
            Some("application/problem+json"),
            "{self:?}"
        );
        let problem = self.json();
        assert_eq!(problem["status"], status, "{problem}");
        for field in ["type", "title", "detail", "code", "request_id"] {
            assert!(problem[field].is_string(), "{field}: {problem}");
        }
        assert_eq!(
            problem["request_id"].as_str(),
            self.header("x-request-id"),
            "{problem}"
        );
        problem["code"].as_str().expect("a code").to_owned()
    }
}

impl Client {
    /// This client with one more header.
    pub fn and(&self, name: &str, value: &str) -> Self {
        let mut more = self.clone();
        more.headers.push((name.to_owned(), value.to_owned()));
        more
    }

    pub fn get(&self, path: &str) -> Answer {
        self.send("GET", path, None)
    }

    pub fn post(&self, path: &str, body: &Value) -> Answer {
        self.send("POST", path, Some(&body.to_string()))
    }

    pub fn delete(&self, path: &str) -> Answer {
        self.send("DELETE", path, None)
    }

    /// Runs an operation by its name.
    pub fn op(&self, name: &str, body: &Value) -> Answer {
        self.post(&format!("/api/v1/ops/{name}"), body)
    }

    pub fn send(&self, method: &str, path: &str, body: Option<&str>) -> Answer {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(PATIENCE))
            .build();
        let agent = ureq::Agent::new_with_config(config);
        let mut request = ureq::http::Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base));
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let sent = match body {
            Some(body) => {
                let request = request
                    .header("content-type", "application/json")
                    .body(body.to_owned());
                agent.run(request.expect("a request"))
            }
            None => agent.run(request.body(()).expect("a request")),
        };
        let mut response = sent.expect("an answer");
        let headers = response.headers().iter().map(|(name, value)| {
            let value = value.to_str().expect("plain headers");
            (name.to_string(), value.to_owned())
        });
        Answer {
            status: response.status().as_u16(),
            headers: headers.collect(),
            text: response.body_mut().read_to_string().expect("a body"),
        }
    }
}
