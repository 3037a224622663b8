//! Answers in the words of each client.

use std::fmt::Write as _;

use expect_test::expect_file;
use flightline_clients::{Client, HookReply, wire};

/// The events of each client that its settings name, and one that nobody knows.
fn events(client: Client) -> &'static [&'static str] {
    match client {
        Client::Claude => &[
            "SessionStart",
            "UserPromptSubmit",
            "PreToolUse",
            "PostToolUse",
            "PostToolUseFailure",
            "PreCompact",
            "PostCompact",
            "Stop",
            "SubagentStart",
            "SubagentStop",
            "SessionEnd",
            "Unknown",
        ],
        Client::Codex => &[
            "SessionStart",
            "UserPromptSubmit",
            "PreToolUse",
            "PostToolUse",
            "PreCompact",
            "PostCompact",
            "Stop",
            "SubagentStart",
            "SubagentStop",
            "SessionEnd",
            "Unknown",
        ],
        Client::Gemini => &[
            "SessionStart",
            "BeforeAgent",
            "BeforeTool",
            "AfterTool",
            "PreCompress",
            "AfterAgent",
            "SessionEnd",
            "Unknown",
        ],
        Client::Opencode => &[
            "session.start",
            "chat.message",
            "tool.execute.before",
            "tool.execute.after",
            "session.compacting",
            "session.compacted",
            "session.idle",
            "session.deleted",
            "todo.updated",
            "Unknown",
        ],
        Client::Copilot => &[
            "sessionStart",
            "SessionStart",
            "userPromptSubmitted",
            "preToolUse",
            "PreToolUse",
            "postToolUse",
            "PostToolUse",
            "postToolUseFailure",
            "preCompact",
            "agentStop",
            "subagentStart",
            "subagentStop",
            "sessionEnd",
            "Unknown",
        ],
        Client::Cline => &[
            "TaskStart",
            "TaskResume",
            "UserPromptSubmit",
            "PreToolUse",
            "PostToolUse",
            "TaskComplete",
            "TaskCancel",
            "SessionShutdown",
            "Unknown",
        ],
        Client::Cursor => &[
            "sessionStart",
            "SessionStart",
            "beforeSubmitPrompt",
            "preToolUse",
            "PreToolUse",
            "beforeShellExecution",
            "postToolUse",
            "PostToolUse",
            "postToolUseFailure",
            "preCompact",
            "stop",
            "subagentStop",
            "sessionEnd",
            "Unknown",
        ],
    }
}

fn reply(context: Option<&str>, deny: Option<&str>, notice: Option<&str>) -> HookReply {
    HookReply {
        context: context.map(str::to_owned),
        deny: deny.map(str::to_owned),
        notice: notice.map(str::to_owned),
        env: Vec::new(),
    }
}

#[test]
fn every_client_is_answered_in_its_words() {
    for client in Client::ALL {
        let mut all = String::new();
        for event in events(client) {
            let takes = if wire::accepts_context(client, event) {
                ", takes a context"
            } else {
                ""
            };
            writeln!(all, "{event}{takes}").unwrap();
            let replies = [
                ("nothing", reply(None, None, None)),
                ("context", reply(Some("CONTEXT \"1\"\n2"), None, None)),
                ("deny", reply(None, Some("DENY"), None)),
                ("notice", reply(None, None, Some("NOTICE"))),
                ("all", reply(Some("CONTEXT"), Some("DENY"), Some("NOTICE"))),
            ];
            for (name, reply) in replies {
                let line = format!("    {name:8}{}", wire::render(client, event, &reply));
                writeln!(all, "{}", line.trim_end()).unwrap();
            }
        }
        let file = format!("../payloads/{client}.answers");
        expect_file![file].assert_eq(&all);
    }
}

#[test]
fn an_answer_has_the_context_where_it_is_taken_and_nowhere_else() {
    for client in Client::ALL {
        for event in events(client) {
            let answer = wire::render(client, event, &reply(Some("CONTEXT"), None, None));
            assert_eq!(
                answer.contains("CONTEXT"),
                wire::accepts_context(client, event),
                "{client} {event}"
            );
            if !answer.is_empty() {
                let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
                assert!(answer.is_object());
            }
            let empty = reply(Some(""), Some(""), Some(""));
            assert_eq!(
                wire::render(client, event, &empty),
                wire::render(client, event, &HookReply::default())
            );
        }
        assert!(wire::context_limit(client) >= 9_000);
    }
}

#[test]
fn nothing_is_said_where_claude_and_codex_refuse_it() {
    for client in [Client::Claude, Client::Codex] {
        for event in ["PreCompact", "PostCompact", "SessionEnd"] {
            assert_eq!(
                wire::render(client, event, &reply(Some("C"), Some("D"), None)),
                ""
            );
        }
        assert_eq!(
            wire::render(client, "SessionEnd", &reply(None, None, Some("N"))),
            ""
        );
    }
}
