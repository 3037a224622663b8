//! The text of a refused call: why, the hint, and the next call to make.

use flightline::core::{Code, Refusal};

use crate::tool::{self, Loaded};

/// The tool that does what a command does, and the field for the command's first word after the action.
const COMMANDS: [(&str, &str, &str); 18] = [
    ("status", "fleet_status", "mission"),
    ("context", "fleet_context", ""),
    ("heartbeat", "fleet_heartbeat", ""),
    ("sorties", "fleet_sortie", "sortie"),
    ("sortie", "fleet_sortie", "sortie"),
    ("note", "fleet_note", "note"),
    ("notes", "fleet_note", "note"),
    ("checkpoint", "fleet_checkpoint", ""),
    ("checkpoints", "fleet_checkpoints", "checkpoint"),
    ("locks", "fleet_lock", "paths"),
    ("mail", "fleet_mail", "message"),
    ("missions", "fleet_mission", "mission"),
    ("mission", "fleet_mission", "mission"),
    ("resume", "fleet_resume", "checkpoint"),
    ("undo", "fleet_resume", ""),
    ("effect", "fleet_effect", "key"),
    ("agents", "fleet_agents", "name"),
    ("replay", "fleet_replay", ""),
];

pub(crate) fn told(refusal: &Refusal, tool: &str, loaded: Loaded) -> String {
    let code = serde_json::to_value(refusal.code);
    let code = code.as_ref().ok().and_then(|code| code.as_str());
    let mut text = format!("error ({}): {}", code.unwrap_or("failed"), refusal.message);
    if let Some(hint) = &refusal.hint {
        text.push_str(&format!("\nhint: {hint}"));
    }
    text.push_str(&format!("\nnext: {}", next(refusal, tool, loaded)));
    text
}

fn next(refusal: &Refusal, tool: &str, loaded: Loaded) -> String {
    match refusal.code {
        // No tool helps: a person must do something outside.
        Code::NoProject => {
            return "ask the user to run `fleet init` in this repository, then call again"
                .to_owned();
        }
        Code::Untrusted => {
            return "ask the user to look at this fleet with `fleet status` and to run `fleet trust` if it is theirs, then call again".to_owned();
        }
        Code::Unavailable | Code::CommitUnknown => {
            return format!("call `{tool}` again in a moment, with the same arguments");
        }
        _ => {}
    }
    let hint = refusal.hint.as_deref().unwrap_or_default();
    if names_no_agent(hint) {
        return format!("call `{tool}` again with \"agent\": your name in the fleet");
    }
    let mut commands = hint.split('`').skip(1).step_by(2);
    if let Some(command) = commands.find(|text| text.starts_with("fleet ")) {
        return match call_for(command) {
            Some((name, call)) if tool::loaded(loaded).any(|known| known.name == name) => call,
            _ => format!("run `{command}` in a shell"),
        };
    }
    match refusal.code {
        Code::InvalidInput | Code::TooLong | Code::ConfirmationNeeded => {
            format!("call `{tool}` again with other arguments")
        }
        Code::Fenced => {
            "call `fleet_context`: another session may have taken your place".to_owned()
        }
        Code::NothingLeft => "call `fleet_status`".to_owned(),
        _ => match tool {
            "fleet_sortie" => "call `fleet_sortie` with {\"action\": \"list\"}".to_owned(),
            "fleet_lock" => "call `fleet_lock` with {\"action\": \"list\"}".to_owned(),
            "fleet_mail" => "call `fleet_mail` with {\"action\": \"inbox\"}".to_owned(),
            _ => "call `fleet_status`".to_owned(),
        },
    }
}

/// Returns true when a hint says that no agent acts.
fn names_no_agent(hint: &str) -> bool {
    hint.contains("--agent NAME") && hint.contains("FLEET_AGENT")
}

/// The call that does what a command line does: its tool, and the sentence.
fn call_for(command: &str) -> Option<(&'static str, String)> {
    let mut words = command.strip_prefix("fleet ")?.split_whitespace();
    let noun = words.next()?;
    let (_, name, field) = COMMANDS.into_iter().find(|(known, ..)| *known == noun)?;
    let mut rest = words.take_while(|word| !word.starts_with('-')).peekable();
    let mut arguments: Vec<String> = Vec::new();
    let actions = actions(name);
    let action = match noun {
        "resume" | "undo" => Some(noun),
        _ => rest.next_if(|word| actions.iter().any(|known| known == word)),
    };
    arguments.extend(action.map(|action| format!("\"action\": \"{action}\"")));
    if let (Some(thing), false) = (rest.next(), field.is_empty()) {
        arguments.push(match field {
            "paths" => format!("\"paths\": [\"{thing}\"]"),
            field => format!("\"{field}\": \"{thing}\""),
        });
    }
    let with = match arguments.is_empty() {
        true => String::new(),
        false => format!(" with {{{}}}", arguments.join(", ")),
    };
    Some((name, format!("call `{name}`{with}")))
}

fn actions(name: &str) -> Vec<String> {
    let schema = tool::find(name).map(|tool| tool.described().input_schema);
    let words = schema.and_then(|schema| {
        let words = schema
            .get("properties")?
            .pointer("/action/enum")?
            .as_array()?;
        Some(
            words
                .iter()
                .filter_map(|word| word.as_str().map(str::to_owned))
                .collect(),
        )
    });
    words.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_of_a_hint_becomes_a_call() {
        for (command, expected) in [
            (
                "fleet sorties claim srt-d513 --agent NAME",
                r#"call `fleet_sortie` with {"action": "claim", "sortie": "srt-d513"}"#,
            ),
            (
                "fleet locks acquire src/auth.ts --wait 15m",
                r#"call `fleet_lock` with {"action": "acquire", "paths": ["src/auth.ts"]}"#,
            ),
            ("fleet context --agent ada", "call `fleet_context`"),
            (
                "fleet undo",
                r#"call `fleet_resume` with {"action": "undo"}"#,
            ),
        ] {
            assert_eq!(call_for(command).unwrap().1, expected);
        }
        assert!(call_for("fleet doctor --fix").is_none());
    }

    #[test]
    fn what_no_tool_can_do_is_said_to_the_user() {
        let refusal = Refusal::new(Code::NoProject, "there is no fleet here")
            .hint("create one with `fleet init`");
        let told = told(&refusal, "fleet_status", Loaded::Core);
        assert_eq!(
            told,
            "error (no_project): there is no fleet here\nhint: create one with `fleet init`\nnext: ask the user to run `fleet init` in this repository, then call again"
        );
    }

    #[test]
    fn what_no_loaded_tool_does_is_done_in_a_shell() {
        let refusal =
            Refusal::new(Code::NotFound, "x").hint("list them with `fleet missions list`");
        assert!(
            told(&refusal, "fleet_status", Loaded::Full)
                .ends_with(r#"next: call `fleet_mission` with {"action": "list"}"#)
        );
        assert!(
            told(&refusal, "fleet_status", Loaded::Core)
                .ends_with("next: run `fleet missions list` in a shell")
        );
    }
}
