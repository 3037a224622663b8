//! A client that speaks MCP to a `fleet mcp` of its own, for tests.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::{Value, json};

use crate::cli::world::World;

/// A client that speaks MCP to a `fleet mcp` of its own.
pub struct Client {
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    asked: u64,
}

impl Client {
    /// Starts a server with these arguments, and shakes hands.
    pub fn start(world: &World, arguments: &[&str]) -> Self {
        Self::spawn(world, arguments, "").hello()
    }

    /// Shakes hands.
    pub fn hello(self) -> Self {
        let mut client = self;
        let hello = client.ask(
            "initialize",
            json!({
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": { "name": "tests", "version": "1" },
            }),
        );
        assert_eq!(
            hello["result"]["serverInfo"]["name"], "flightline",
            "{hello}"
        );
        client.tell("notifications/initialized");
        client
    }

    /// Starts a server, with a token where one is given, and says nothing to it yet.
    pub fn spawn(world: &World, arguments: &[&str], token: &str) -> Self {
        let mut typed = vec!["mcp"];
        typed.extend(arguments);
        // Every call opens the store anew: ids that count up from one number would be the same.
        let mut process = world
            .command(&typed)
            .command
            .env_remove("FLEET_TEST_IDS")
            .env_remove("FLEET_TEST_NOW")
            .envs((!token.is_empty()).then_some(("FLEET_TOKEN", token)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self {
            input: process.stdin.take(),
            output: BufReader::new(process.stdout.take().unwrap()),
            process,
            asked: 0,
        }
    }

    fn send(&mut self, message: &Value) {
        let input = self.input.as_mut().unwrap();
        writeln!(input, "{message}").unwrap();
        input.flush().unwrap();
    }

    fn tell(&mut self, method: &str) {
        self.send(&json!({ "jsonrpc": "2.0", "method": method }));
    }

    /// Asks for something, and waits for the answer.
    pub fn ask(&mut self, method: &str, params: Value) -> Value {
        self.asked += 1;
        self.send(
            &json!({ "jsonrpc": "2.0", "id": self.asked, "method": method, "params": params }),
        );
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        let answer: Value =
            serde_json::from_str(&line).unwrap_or_else(|_| panic!("not JSON: {line}"));
        assert_eq!(answer["id"], self.asked, "{answer}");
        answer
    }

    /// Calls a tool, whatever comes of it.
    pub fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let answer = self.ask(
            "tools/call",
            json!({ "name": tool, "arguments": arguments }),
        );
        let result = answer["result"].clone();
        assert!(result.is_object(), "{tool}: {answer}");
        let mirror = text(&result);
        assert!(mirror.lines().count() <= 10, "{tool}: {mirror}");
        result
    }

    /// Calls a tool that must succeed, and gives its data.
    pub fn ok(&mut self, tool: &str, arguments: Value) -> Value {
        let result = self.call(tool, arguments);
        assert_eq!(result["isError"], false, "{tool}: {result}");
        result["structuredContent"].clone()
    }

    /// Calls a tool that must be refused, and gives what it says.
    pub fn refused(&mut self, tool: &str, arguments: Value) -> String {
        let result = self.call(tool, arguments);
        assert_eq!(result["isError"], true, "{tool}: {result}");
        assert!(result.get("structuredContent").is_none(), "{result}");
        text(&result)
    }

    /// Has nothing to say any more.
    pub fn close(&mut self) {
        self.input = None;
    }

    /// Ends as a client does: by closing the input.
    pub fn end(mut self) {
        self.input = None;
        let mut line = String::new();
        assert_eq!(self.output.read_line(&mut line).unwrap(), 0, "{line}");
        assert!(self.process.wait().unwrap().success());
    }
}

/// The text that the model reads.
pub fn text(result: &Value) -> String {
    result["content"][0]["text"].as_str().unwrap().to_owned()
}

/// A mission with two sorties. Every call of a tool opens the store by itself, beside no server.
pub fn mission() -> World {
    World::with_sorties(&["User model", "Endpoint"]).local_only("calls open the store themselves")
}
