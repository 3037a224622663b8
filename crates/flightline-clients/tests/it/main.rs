//! The contracts of the clients, checked against payloads that they sent.

mod answers;
mod hostile;
mod payloads;
mod shell;
mod usage;

use serde_json::Value;

use flightline_clients::Client;

/// The recorded payloads, each with the client whose hook got it and the event.
fn recorded() -> Vec<(Client, String, Value)> {
    let files = [
        (Client::Claude, include_str!("../payloads/claude.jsonl")),
        (
            Client::Claude,
            include_str!("../payloads/claude.interactive.jsonl"),
        ),
        (Client::Codex, include_str!("../payloads/codex.jsonl")),
        (Client::Gemini, include_str!("../payloads/gemini.jsonl")),
        (Client::Opencode, include_str!("../payloads/opencode.jsonl")),
        (Client::Copilot, include_str!("../payloads/copilot.jsonl")),
        (Client::Cline, include_str!("../payloads/cline.jsonl")),
        (Client::Cursor, include_str!("../payloads/cursor.jsonl")),
    ];
    let lines = files
        .into_iter()
        .flat_map(|(client, text)| text.lines().map(move |it| (client, it)));
    lines
        .filter(|(_, line)| !line.trim().is_empty())
        .map(|(client, line)| {
            let line: Value = serde_json::from_str(line).expect("a line is JSON");
            (
                client,
                line["event"]
                    .as_str()
                    .expect("a line names its event")
                    .to_owned(),
                line["stdin"].clone(),
            )
        })
        .collect()
}
