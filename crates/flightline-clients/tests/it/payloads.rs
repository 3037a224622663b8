//! The reading of payloads.

use std::fmt::Write as _;

use expect_test::{Expect, expect, expect_file};
use flightline_clients::{Client, HookEvent, wire};
use serde_json::{Value, json};

fn told(event: &HookEvent) -> String {
    let mut line = format!("{} {}", event.client, event.session);
    let cwd = event.cwd.iter().map(|it| format!(" in {}", it.display()));
    let record = event
        .transcript
        .iter()
        .map(|it| format!(" record {}", it.display()));
    line.extend(cwd.chain(record));
    if let Some(subagent) = &event.subagent {
        line += &format!(" subagent {:?}", (&subagent.id, &subagent.kind));
    }
    if let Some(gauge) = event.gauge {
        line += &format!(" gauge {}/{}", gauge.used, gauge.total);
    }
    format!("{line}\n    {:?}", event.happening)
}

fn read(named: Client, event: &str, body: &Value) -> String {
    let event = wire::read(named, event, &body.to_string());
    event.map_or("nothing".to_owned(), |it| told(&it))
}

#[test]
fn every_recorded_payload_is_understood() {
    for client in Client::ALL {
        let mut all = String::new();
        for (named, event, body) in super::recorded() {
            if named == client {
                writeln!(all, "{event}\n    {}", read(named, &event, &body)).unwrap();
            }
        }
        let file = format!("../payloads/{client}.expected");
        expect_file![file].assert_eq(&all);
    }
}

/// Checks the reading of a payload that lacks only its session.
fn check_tool(client: Client, event: &str, body: Value, expected: Expect) {
    let session = match client {
        Client::Opencode => "sessionID",
        Client::Cline => "taskId",
        Client::Copilot => "sessionId",
        Client::Claude | Client::Codex | Client::Gemini | Client::Cursor => "session_id",
    };
    let mut body = body;
    body[session] = json!("s");
    let found = wire::read(client, event, &body.to_string()).expect("it has a session");
    assert_eq!(found.session, "s");
    expected.assert_eq(&format!("{:?}", found.happening));
}

#[test]
fn edits() {
    use Client::*;
    let claude = |tool: &str, input: Value| json!({"tool_name": tool, "tool_input": input, "tool_use_id": "t"});
    let tools = [
        (Claude, "PreToolUse", "Edit"),
        (Claude, "PreToolUse", "Write"),
        (Claude, "PreToolUse", "MultiEdit"),
        (Gemini, "BeforeTool", "replace"),
        (Gemini, "BeforeTool", "write_file"),
    ];
    for (client, event, tool) in tools {
        let mut body = claude(tool, json!({"file_path": "/p/a.rs", "content": "x"}));
        body["session_id"] = json!("s");
        let shown = read(client, event, &body);
        assert!(
            shown.contains(r#"Edit { paths: ["/p/a.rs"] }"#),
            "{client} {tool}: {shown}"
        );
    }
    check_tool(
        Claude,
        "PreToolUse",
        claude("NotebookEdit", json!({"notebook_path": "/p/n.ipynb"})),
        expect![[
            r#"BeforeTool(ToolCall { name: "NotebookEdit", id: "t", act: Edit { paths: ["/p/n.ipynb"] } })"#
        ]],
    );
    check_tool(
        Codex,
        "PreToolUse",
        claude(
            "apply_patch",
            json!({"command": "*** Begin Patch\n*** Update File: src/a.rs\n*** Move to: src/b.rs\n@@\n-x\n+*** y\n*** Add File: c.rs\n+z\n*** Delete File: d.rs\n*** Update File: src/a.rs\n*** End Patch"}),
        ),
        expect![[
            r#"BeforeTool(ToolCall { name: "apply_patch", id: "t", act: Edit { paths: ["src/a.rs", "src/b.rs", "c.rs", "d.rs"] } })"#
        ]],
    );
    check_tool(
        Codex,
        "PreToolUse",
        claude(
            "Bash",
            json!({"command": "apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: x\n*** End Patch\nEOF"}),
        ),
        expect![[r#"BeforeTool(ToolCall { name: "Bash", id: "t", act: Edit { paths: ["x"] } })"#]],
    );
    check_tool(
        Opencode,
        "tool.execute.before",
        json!({"tool": "edit", "args": {"filePath": "/p/a.rs"}, "callID": "c"}),
        expect![[
            r#"BeforeTool(ToolCall { name: "edit", id: "c", act: Edit { paths: ["/p/a.rs"] } })"#
        ]],
    );
    check_tool(
        Copilot,
        "preToolUse",
        json!({"toolName": "str_replace_editor", "toolArgs": {"path": "/p/a.rs", "command": "create"}}),
        expect![[
            r#"BeforeTool(ToolCall { name: "str_replace_editor", id: "", act: Edit { paths: ["/p/a.rs"] } })"#
        ]],
    );
    check_tool(
        Copilot,
        "preToolUse",
        json!({"toolName": "create", "toolArgs": "{\"path\":\"/p/a.rs\"}"}),
        expect![[
            r#"BeforeTool(ToolCall { name: "create", id: "", act: Edit { paths: ["/p/a.rs"] } })"#
        ]],
    );
    check_tool(
        Cline,
        "PreToolUse",
        json!({"preToolUse": {"toolName": "write_to_file", "parameters": {"path": "a.rs", "task_progress": "- [x] one"}}}),
        expect![[
            r#"BeforeTool(ToolCall { name: "write_to_file", id: "", act: Edit { paths: ["a.rs"] } })"#
        ]],
    );
    check_tool(
        Cline,
        "PreToolUse",
        json!({"tool_call": {"id": "c", "name": "apply_patch", "input": {"input": "*** Begin Patch\n*** Update File: a\n"}}}),
        expect![[
            r#"BeforeTool(ToolCall { name: "apply_patch", id: "c", act: Edit { paths: ["a"] } })"#
        ]],
    );
    check_tool(
        Claude,
        "PreToolUse",
        claude("Edit", json!({"file_path": 3})),
        expect![[r#"BeforeTool(ToolCall { name: "Edit", id: "t", act: Other })"#]],
    );
}

#[test]
fn shell_commands() {
    use Client::*;
    check_tool(
        Codex,
        "PreToolUse",
        json!({"tool_name": "exec_command", "tool_input": {"cmd": "ls -l"}}),
        expect![[
            r#"BeforeTool(ToolCall { name: "exec_command", id: "", act: Shell { command: "ls -l" } })"#
        ]],
    );
    check_tool(
        Codex,
        "PreToolUse",
        json!({"tool_name": "shell", "tool_input": {"command": ["bash", "-lc", "cd x && git push"]}}),
        expect![[
            r#"BeforeTool(ToolCall { name: "shell", id: "", act: Shell { command: "bash -lc 'cd x && git push'" } })"#
        ]],
    );
    check_tool(
        Cline,
        "PreToolUse",
        json!({"tool_call": {"name": "run_commands", "input": {"commands": ["a b", {"command": "c", "args": ["d e"]}, 3]}}}),
        expect![[
            r#"BeforeTool(ToolCall { name: "run_commands", id: "", act: Shell { command: "a b && c 'd e'" } })"#
        ]],
    );
    check_tool(
        Cline,
        "PreToolUse",
        json!({"preToolUse": {"toolName": "run_commands", "parameters": {"commands": "[\"echo hi\", \"ls\"]"}}}),
        expect![[
            r#"BeforeTool(ToolCall { name: "run_commands", id: "", act: Shell { command: "echo hi && ls" } })"#
        ]],
    );
    check_tool(
        Cline,
        "PreToolUse",
        json!({"preToolUse": {"toolName": "execute_command", "parameters": {"command": "[ -f x ]"}}}),
        expect![[
            r#"BeforeTool(ToolCall { name: "execute_command", id: "", act: Shell { command: "[ -f x ]" } })"#
        ]],
    );
    check_tool(
        Claude,
        "PreToolUse",
        json!({"tool_name": "Bash"}),
        expect![[r#"BeforeTool(ToolCall { name: "Bash", id: "", act: Other })"#]],
    );
}

#[test]
fn task_lists() {
    use Client::*;
    check_tool(
        Claude,
        "PostToolUse",
        json!({"tool_name": "TodoWrite", "tool_input": {"todos": [
            {"content": "one", "status": "completed", "activeForm": "doing one"},
            {"content": "two", "status": "in_progress"},
            {"content": "three", "status": "odd"},
            {"status": "pending"}, null, 3,
        ]}}),
        expect![[
            r#"AfterTool { tool: ToolCall { name: "TodoWrite", id: "", act: Tasks([ClientTask { title: "one", status: Completed }, ClientTask { title: "two", status: InProgress }, ClientTask { title: "three", status: Pending }]) }, failed: None }"#
        ]],
    );
    check_tool(
        Codex,
        "PostToolUse",
        json!({"tool_name": "update_plan", "tool_input": {"plan": [{"step": "one", "status": "completed"}]}}),
        expect![[
            r#"AfterTool { tool: ToolCall { name: "update_plan", id: "", act: Tasks([ClientTask { title: "one", status: Completed }]) }, failed: None }"#
        ]],
    );
    check_tool(
        Gemini,
        "AfterTool",
        json!({"tool_name": "write_todos", "tool_input": {"todos": [{"description": "one", "status": "cancelled"}]}}),
        expect![[
            r#"AfterTool { tool: ToolCall { name: "write_todos", id: "", act: Tasks([ClientTask { title: "one", status: Cancelled }]) }, failed: None }"#
        ]],
    );
    check_tool(
        Opencode,
        "todo.updated",
        json!({"todos": [{"content": "one", "status": "pending"}]}),
        expect![[
            r#"AfterTool { tool: ToolCall { name: "todowrite", id: "", act: Tasks([ClientTask { title: "one", status: Pending }]) }, failed: None }"#
        ]],
    );
    check_tool(
        Opencode,
        "todo.updated",
        json!({"properties": {"todos": []}}),
        expect![[
            r#"AfterTool { tool: ToolCall { name: "todowrite", id: "", act: Tasks([]) }, failed: None }"#
        ]],
    );
    check_tool(
        Copilot,
        "postToolUse",
        json!({"toolName": "update_todo", "toolArgs": {"todos": "# Plan\n- [x] one\n- [ ] two\n* [~] three\n- none"}}),
        expect![[
            r#"AfterTool { tool: ToolCall { name: "update_todo", id: "", act: Tasks([ClientTask { title: "one", status: Completed }, ClientTask { title: "two", status: Pending }, ClientTask { title: "three", status: InProgress }]) }, failed: None }"#
        ]],
    );
    check_tool(
        Cline,
        "PostToolUse",
        json!({"postToolUse": {"toolName": "attempt_completion", "parameters": {"task_progress": "- [x] one\n- [ ] two"}}}),
        expect![[
            r#"AfterTool { tool: ToolCall { name: "attempt_completion", id: "", act: Tasks([ClientTask { title: "one", status: Completed }, ClientTask { title: "two", status: Pending }]) }, failed: None }"#
        ]],
    );
}

#[test]
fn failures() {
    use Client::*;
    check_tool(
        Claude,
        "PostToolUseFailure",
        json!({"tool_name": "Bash", "tool_input": {"command": "x"}, "error": "Exit code 1\nno such file", "is_interrupt": false}),
        expect![[
            r#"AfterTool { tool: ToolCall { name: "Bash", id: "", act: Shell { command: "x" } }, failed: Some("Exit code 1\nno such file") }"#
        ]],
    );
    check_tool(
        Claude,
        "PostToolUseFailure",
        json!({"tool_name": "Read"}),
        expect![[
            r#"AfterTool { tool: ToolCall { name: "Read", id: "", act: Other }, failed: Some("failed") }"#
        ]],
    );
    check_tool(
        Claude,
        "PostToolUseFailure",
        json!({"error": "ü".repeat(1000)}),
        expect![[
            r#"AfterTool { tool: ToolCall { name: "", id: "", act: Other }, failed: Some("üüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüü…") }"#
        ]],
    );
    let codex = |response: Value| json!({"tool_name": "Bash", "tool_input": {"command": "x"}, "tool_response": response});
    check_tool(
        Codex,
        "PostToolUse",
        codex(json!("Exit code: 0\nfine")),
        expect![[
            r#"AfterTool { tool: ToolCall { name: "Bash", id: "", act: Shell { command: "x" } }, failed: None }"#
        ]],
    );
    check_tool(
        Codex,
        "PostToolUse",
        codex(json!("Exit code: 2\nWall time: 1 s\nOutput:\none\nbad\n")),
        expect![[
            r#"AfterTool { tool: ToolCall { name: "Bash", id: "", act: Shell { command: "x" } }, failed: Some("exit code 2: bad") }"#
        ]],
    );
    check_tool(
        Codex,
        "PostToolUse",
        codex(json!(
            "Wall time: 1 s\nProcess exited with code 1\nOutput:\nbad"
        )),
        expect![[
            r#"AfterTool { tool: ToolCall { name: "Bash", id: "", act: Shell { command: "x" } }, failed: Some("exit code 1: bad") }"#
        ]],
    );
    check_tool(
        Codex,
        "PostToolUse",
        codex(json!("{\"output\":\"bad\",\"metadata\":{\"exit_code\":3}}")),
        expect![[
            r#"AfterTool { tool: ToolCall { name: "Bash", id: "", act: Shell { command: "x" } }, failed: Some("exit code 3: bad") }"#
        ]],
    );
    check_tool(
        Codex,
        "PostToolUse",
        codex(json!({"isError": true, "content": []})),
        expect![[
            r#"AfterTool { tool: ToolCall { name: "Bash", id: "", act: Shell { command: "x" } }, failed: Some("failed") }"#
        ]],
    );
    check_tool(
        Gemini,
        "AfterTool",
        json!({"tool_name": "replace", "tool_input": {"file_path": "a"}, "tool_response": {"llmContent": "x", "error": {"message": "no match", "type": "edit_no_occurrence_found"}}}),
        expect![[
            r#"AfterTool { tool: ToolCall { name: "replace", id: "", act: Edit { paths: ["a"] } }, failed: Some("no match") }"#
        ]],
    );
    check_tool(
        Gemini,
        "AfterTool",
        json!({"tool_name": "run_shell_command", "tool_input": {"command": "x"}, "tool_response": {"llmContent": "Output: bad\nExit Code: 4\nProcess Group PGID: 1", "returnDisplay": "bad"}}),
        expect![[
            r#"AfterTool { tool: ToolCall { name: "run_shell_command", id: "", act: Shell { command: "x" } }, failed: Some("exit code 4: bad") }"#
        ]],
    );
    check_tool(
        Copilot,
        "postToolUse",
        json!({"toolName": "bash", "toolArgs": {"command": "x"}, "toolResult": {"resultType": "failure", "textResultForLlm": "broken"}}),
        expect![[
            r#"AfterTool { tool: ToolCall { name: "bash", id: "", act: Shell { command: "x" } }, failed: Some("broken") }"#
        ]],
    );
    check_tool(
        Copilot,
        "postToolUse",
        json!({"toolName": "bash", "toolArgs": {"command": "x"}, "toolResult": {"resultType": "success", "textResultForLlm": "bad\n<shellId: 1 completed with exit code 7>"}}),
        expect![[
            r#"AfterTool { tool: ToolCall { name: "bash", id: "", act: Shell { command: "x" } }, failed: Some("exit code 7: bad") }"#
        ]],
    );
    check_tool(
        Copilot,
        "postToolUseFailure",
        json!({"toolName": "edit", "toolArgs": {"path": "a"}, "error": "no match"}),
        expect![[
            r#"AfterTool { tool: ToolCall { name: "edit", id: "", act: Edit { paths: ["a"] } }, failed: Some("no match") }"#
        ]],
    );
    check_tool(
        Cline,
        "PostToolUse",
        json!({"tool_result": {"name": "editor", "input": {"path": "a"}, "error": "no match"}}),
        expect![[
            r#"AfterTool { tool: ToolCall { name: "editor", id: "", act: Edit { paths: ["a"] } }, failed: Some("no match") }"#
        ]],
    );
    check_tool(
        Cline,
        "PostToolUse",
        json!({"tool_result": {"name": "run_commands", "input": {"commands": ["a"]}, "output": [{"query": "a", "success": true}, {"query": "b", "error": "bad", "success": false}]}}),
        expect![[
            r#"AfterTool { tool: ToolCall { name: "run_commands", id: "", act: Shell { command: "a" } }, failed: Some("bad") }"#
        ]],
    );
    check_tool(
        Opencode,
        "tool.execute.after",
        json!({"tool": "bash", "args": {"command": "x"}, "error": "bad"}),
        expect![[
            r#"AfterTool { tool: ToolCall { name: "bash", id: "", act: Shell { command: "x" } }, failed: Some("bad") }"#
        ]],
    );
}

#[test]
fn a_foreign_caller_is_recognised() {
    let check = |event: &str, body: Value, expected: Client| {
        let found = wire::read(Client::Claude, event, &body.to_string()).unwrap();
        assert_eq!(found.client, expected, "{body}");
        assert_eq!(found.session, "s");
    };
    // Copilot runs the hooks of `.claude/settings.json`, with Claude's event names.
    let copilot = json!({"hook_event_name": "SessionStart", "session_id": "s", "timestamp": "2026-11-15T02:36:18.815Z", "cwd": "/p", "source": "new", "initial_prompt": "do it"});
    check("SessionStart", copilot.clone(), Client::Copilot);
    check(
        "Stop",
        json!({"hook_event_name": "Stop", "session_id": "s", "timestamp": "2026-11-15T02:36:18.815Z", "transcript_path": "/home/user/.copilot/session-state/s/events.jsonl"}),
        Client::Copilot,
    );
    check(
        "sessionStart",
        json!({"sessionId": "s", "timestamp": 3}),
        Client::Copilot,
    );
    check(
        "PreToolUse",
        json!({"hook_event_name": "preToolUse", "conversation_id": "s", "cursor_version": "3"}),
        Client::Cursor,
    );
    check(
        "Stop",
        json!({"session_id": "s", "transcript_path": "/x/rollout-2026-s.jsonl"}),
        Client::Codex,
    );
    check(
        "Stop",
        json!({"session_id": "s", "timestamp": "x", "transcript_path": "/x/chats/session-2026-s.jsonl"}),
        Client::Gemini,
    );
    // A later version of Claude may have a timestamp too.
    check(
        "Stop",
        json!({"session_id": "s", "timestamp": "x", "transcript_path": "/x/s.jsonl"}),
        Client::Claude,
    );
    check("Stop", json!({"session_id": "s"}), Client::Claude);
    expect![[r#"
        copilot s in /p
            Start { source: Startup, prompt: Some("do it") }"#]]
    .assert_eq(&read(Client::Claude, "SessionStart", &copilot));
    let tool = json!({"hook_event_name": "PostToolUse", "session_id": "s", "timestamp": "x", "tool_name": "Edit", "tool_input": {"path": "a.rs"}, "tool_result": {"result_type": "success"}});
    expect![[r#"
        copilot s
            AfterTool { tool: ToolCall { name: "Edit", id: "", act: Edit { paths: ["a.rs"] } }, failed: None }"#]].assert_eq(&read(Client::Claude, "PostToolUse", &tool));
}

#[test]
fn a_subagent_belongs_to_the_session_that_started_it() {
    let claude = json!({"session_id": "s", "agent_id": "a1", "agent_type": "Explore", "tool_name": "Bash", "tool_input": {"command": "ls"}});
    expect![[r#"
        claude s subagent ("a1", "Explore")
            BeforeTool(ToolCall { name: "Bash", id: "", act: Shell { command: "ls" } })"#]]
    .assert_eq(&read(Client::Claude, "PreToolUse", &claude));
    let start =
        json!({"sessionID": "child", "parentID": "s", "agent": "explore", "directory": "/p"});
    expect![[r#"
        opencode s in /p subagent ("child", "explore")
            SubagentStart"#]]
    .assert_eq(&read(Client::Opencode, "session.start", &start));
    expect![[r#"
        opencode s in /p subagent ("child", "explore")
            SubagentStop { said: None }"#]]
    .assert_eq(&read(Client::Opencode, "session.idle", &start));
    expect![[r#"
        opencode s in /p subagent ("child", "explore")
            Other"#]]
    .assert_eq(&read(Client::Opencode, "chat.message", &start));
    let cline = json!({"taskId": "t", "sessionContext": {"rootSessionId": "s"}, "agent_id": "a2", "parent_agent_id": "a1", "hookName": "agent_end", "turn": {"outputText": "ok"}});
    expect![[r#"
        cline s subagent ("a2", "")
            SubagentStop { said: Some("ok") }"#]]
    .assert_eq(&read(Client::Cline, "TaskComplete", &cline));
    let copilot = json!({"sessionId": "s", "agentName": "explore"});
    expect![[r#"
        copilot s subagent ("explore", "explore")
            SubagentStart"#]]
    .assert_eq(&read(Client::Copilot, "subagentStart", &copilot));
}

#[test]
fn our_own_plugin_for_opencode_is_understood() {
    let start = json!({"sessionID": "s", "directory": "/p", "source": "resume", "tokens": {"used": 5, "total": 10}});
    expect![[r#"
        opencode s in /p gauge 5/10
            Start { source: Resume, prompt: None }"#]]
    .assert_eq(&read(Client::Opencode, "session.start", &start));
    let prompt = json!({"sessionID": "s", "directory": "/p", "prompt": "do it"});
    expect![[r#"
        opencode s in /p
            Prompt { text: "do it" }"#]]
    .assert_eq(&read(Client::Opencode, "chat.message", &prompt));
    let deleted = json!({"sessionID": "s"});
    expect![[r#"
        opencode s
            End { reason: "deleted" }"#]]
    .assert_eq(&read(Client::Opencode, "session.deleted", &deleted));
}

#[test]
fn the_payload_knows_its_event_better_than_the_command_line() {
    let body = json!({"session_id": "s", "hook_event_name": "Stop"});
    expect![[r#"
        claude s
            Stop { said: None }"#]]
    .assert_eq(&read(Client::Claude, "PreToolUse", &body));
    let body = json!({"session_id": "s", "hook_event_name": "Notification"});
    expect![[r#"
        claude s
            Other"#]]
    .assert_eq(&read(Client::Claude, "Stop", &body));
    let body = json!({"session_id": "s", "source": "fork"});
    expect![[r#"
        claude s
            Start { source: Resume, prompt: None }"#]]
    .assert_eq(&read(Client::Claude, "SessionStart", &body));
}
