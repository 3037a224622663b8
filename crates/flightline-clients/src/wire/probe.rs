//! Tries a hook: an event in the client's own spelling of which nothing comes but an answer, and the reading of that
//! answer as the client reads it.

use std::path::Path;

use serde_json::{Value, json};

use crate::Client;

/// The ids of sessions that do not exist begin with this.
const MARK: &str = "fleet-doctor-";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The event, in the client's word: one whose answer reaches the model.
    pub event: &'static str,
    /// The text that the hook gets on standard input.
    pub stdin: String,
    /// The session that does not exist. The answer names it.
    pub session: String,
}

/// An event that tries a hook of a client in a folder. `nonce` tells it from every other.
pub fn probe(client: Client, folder: &Path, nonce: &str) -> Probe {
    let session = format!("{MARK}{nonce}");
    let (event, body) = match client {
        Client::Claude | Client::Codex | Client::Gemini => (
            "SessionStart",
            json!({
                "session_id": session, "cwd": folder, "hook_event_name": "SessionStart",
                "source": "startup",
            }),
        ),
        Client::Opencode => (
            "session.start",
            json!({ "sessionID": session, "directory": folder, "source": "startup" }),
        ),
        Client::Copilot => (
            "sessionStart",
            json!({ "sessionId": session, "cwd": folder, "source": "new" }),
        ),
        // Cline drops the answers to all other events.
        Client::Cline => (
            "PostToolUse",
            json!({
                "hookName": "tool_result", "taskId": session, "workspaceRoots": [folder],
                "sessionContext": { "rootSessionId": session },
                "postToolUse": { "toolName": "read_files", "parameters": {}, "success": true },
            }),
        ),
        Client::Cursor => (
            "sessionStart",
            json!({
                "conversation_id": session, "session_id": session, "workspace_roots": [folder],
                "hook_event_name": "sessionStart",
            }),
        ),
    };
    Probe {
        event,
        stdin: body.to_string(),
        session,
    }
}

pub(super) fn is_probe(session: &str) -> bool {
    session.starts_with(MARK)
}

/// The context that a client hands to its model when a hook answers so. None when the answer has none, or is not in the client's shape.
pub fn context_in(client: Client, event: &str, stdout: &str) -> Option<String> {
    let answer: Value = serde_json::from_str(stdout).ok()?;
    let context = match client {
        Client::Claude | Client::Codex | Client::Gemini => {
            let specific = answer.get("hookSpecificOutput")?;
            let named = specific.get("hookEventName")?.as_str() == Some(event);
            specific.get("additionalContext").filter(|_| named)?
        }
        Client::Opencode => answer.get("context")?,
        Client::Copilot => answer.get("additionalContext")?,
        Client::Cline => {
            let goes_on = answer.get("cancel")?.as_bool() == Some(false);
            answer.get("context").filter(|_| goes_on)?
        }
        Client::Cursor => answer.get("additional_context")?,
    };
    context.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{accepts_context, read, render};
    use crate::{HookEventKind, HookReply};

    #[test]
    fn a_probe_is_recognised_and_its_answer_is_read_as_the_client_reads_it() {
        for client in Client::ALL {
            let probe = probe(client, Path::new("/home/ada/shop"), "ab12");
            assert!(accepts_context(client, probe.event), "{client}");
            let heard = read(client, probe.event, &probe.stdin).expect("an event");
            assert_eq!(heard.client, client);
            assert_eq!(heard.session, probe.session, "{client}");
            assert_eq!(heard.cwd.as_deref(), Some(Path::new("/home/ada/shop")));
            assert_eq!(heard.happening, HookEventKind::Probe, "{client}");
            let reply = HookReply {
                context: Some("heard".to_owned()),
                ..HookReply::default()
            };
            let said = render(client, probe.event, &reply);
            let context = context_in(client, probe.event, &said);
            assert_eq!(context.as_deref(), Some("heard"), "{client}");
            for silent in ["", "{}", "[]", "heard", "{\"context\":7}"] {
                assert_eq!(context_in(client, probe.event, silent), None, "{client}");
            }
        }
    }
}
