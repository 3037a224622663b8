//! A client that costs little: one connection that stays open, and no library between.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use serde_json::Value;

/// A connection to a server.
pub struct Client {
    stream: BufReader<TcpStream>,
    host: String,
    token: String,
    /// The agent it acts as.
    pub agent: Option<String>,
}

impl Client {
    pub fn new(url: &str, token: &str) -> Self {
        let host = url.replace("http://", "");
        let stream = TcpStream::connect(&host).unwrap();
        stream.set_nodelay(true).unwrap();
        Self {
            stream: BufReader::new(stream),
            host,
            token: token.to_owned(),
            agent: None,
        }
    }

    /// Asks, and reads the answer to its end.
    pub fn send(&mut self, method: &str, path: &str, body: &str) -> Vec<u8> {
        self.ask(method, &format!("/api/v1{path}"), body)
    }

    /// Asks for a path outside of the API.
    pub fn root(&mut self, method: &str, path: &str, body: &str) -> Vec<u8> {
        self.ask(method, path, body)
    }

    fn ask(&mut self, method: &str, path: &str, body: &str) -> Vec<u8> {
        let agent = self
            .agent
            .as_ref()
            .map(|name| format!("fleet-agent: {name}\r\n"));
        let token = match self.token.is_empty() {
            true => String::new(),
            false => format!("authorization: Bearer {}\r\n", self.token),
        };
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\n{token}{}\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.host,
            agent.unwrap_or_default(),
            body.len()
        );
        self.stream.get_mut().write_all(request.as_bytes()).unwrap();
        let (mut line, mut length, mut status) = (String::new(), 0, String::new());
        loop {
            line.clear();
            self.stream.read_line(&mut line).unwrap();
            let text = line.trim_end();
            if text.is_empty() {
                break;
            }
            if status.is_empty() {
                text.clone_into(&mut status);
            }
            if let Some(value) = text.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut answer = vec![0; length];
        self.stream.read_exact(&mut answer).unwrap();
        assert!(
            status.starts_with("HTTP/1.1 2"),
            "{method} {path}: {status}: {}",
            String::from_utf8_lossy(&answer)
        );
        answer
    }

    pub fn json(&mut self, method: &str, path: &str, body: &Value) -> Value {
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        serde_json::from_slice(&self.send(method, path, &body)).unwrap()
    }

    /// Opens a stream of events, and reads up to its greeting.
    pub fn listen(mut self) -> BufReader<TcpStream> {
        let request = format!(
            "GET /api/v1/events/stream HTTP/1.0\r\nhost: {}\r\nauthorization: Bearer {}\r\n\r\n",
            self.host, self.token
        );
        self.stream.get_mut().write_all(request.as_bytes()).unwrap();
        let mut line = String::new();
        while !line.starts_with("data: ") {
            line.clear();
            assert!(self.stream.read_line(&mut line).unwrap() > 0, "no stream");
        }
        self.stream
    }
}
