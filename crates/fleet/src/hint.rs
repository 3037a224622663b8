//! Completes the commands that are shown to be pasted. Each repeats the options that its reader typed and a shell does not
//! remember: the folder, the store, the mission, the acting agent, and a yes that was given.

use std::borrow::Cow;
use std::ffi::OsString;

use clap::Parser;

use flightline::core::shell::shell_word;

use crate::cli::{Cli, Globals};

/// The beginning of a command that can be pasted.
const OURS: &str = "fleet ";

/// The placeholder for the acting agent where it is not known.
const SOMEBODY: &str = "--agent NAME";

/// The typed options that a later command needs as well.
#[derive(Clone, Debug, Default)]
pub struct Repeated {
    /// The flags that say where the fleet is, ready to be pasted.
    place: Vec<String>,
    mission: Option<String>,
    agent: Option<String>,
    /// True when the environment names an agent: then it need not be typed.
    agent_in_environment: bool,
    /// True when a question was answered beforehand, with `-y`.
    yes: bool,
}

impl Repeated {
    /// The repeated options of the typed command. `environment` is the agent that the environment names.
    pub fn of(globals: &Globals, environment: Option<&str>, arguments: &[OsString]) -> Self {
        let mut place = Vec::new();
        let dir = globals.dir.as_ref().map(|dir| dir.display().to_string());
        for (flag, value) in [
            ("-C", dir.as_ref()),
            ("--location", globals.location.as_ref()),
            ("--server", globals.server.as_ref()),
        ] {
            place.extend(value.map(|value| format!("{flag} {}", shell_word(value))));
        }
        let flags = arguments.iter().take_while(|word| *word != "--");
        Self {
            place,
            mission: globals.mission.clone(),
            agent: globals.agent.clone(),
            agent_in_environment: environment.is_some(),
            yes: flags
                .into_iter()
                .any(|word| word == "-y" || word == "--yes"),
        }
    }

    /// Completes every command of ours that stands in backticks in a text.
    pub fn complete<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if !text.contains("`fleet ") {
            return Cow::Borrowed(text);
        }
        let mut complete = String::with_capacity(text.len() + 32);
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('`') {
            let end = match after.starts_with(OURS) {
                true => end_of_command(after),
                false => after.find('`'),
            };
            let Some((quoted, behind)) = end.and_then(|end| after.split_at_checked(end)) else {
                break;
            };
            complete.push_str(before);
            complete.push('`');
            match quoted.starts_with(OURS) {
                true => complete.push_str(&self.command(quoted)),
                false => complete.push_str(quoted),
            }
            complete.push('`');
            rest = &behind[1..];
        }
        complete.push_str(rest);
        Cow::Owned(complete)
    }

    /// Completes one command. Anything else stays as it is.
    pub fn command(&self, command: &str) -> String {
        let Some(rest) = command.strip_prefix(OURS) else {
            return command.to_owned();
        };
        let words: Vec<&str> = rest.split_whitespace().collect();
        if words.contains(&"--help") || words.first() == Some(&"help") {
            return command.to_owned();
        }
        let mut said = vec!["fleet".to_owned()];
        said.extend(self.place_of(&words));
        said.push(self.with_agent(rest, &words));
        if let Some(mission) = &self.mission
            && works_on_a_mission(&words)
        {
            said.push(format!("--mission {}", shell_word(mission)));
        }
        self.with_yes(said.join(" "))
    }

    fn place_of(&self, words: &[&str]) -> Vec<String> {
        let named = |flag: &str| words.contains(&flag);
        let moves = named("-C") || named("--location") || named("--server");
        match (moves, words.first()) {
            (true, _) => Vec::new(),
            // `login` itself sets where the fleet is from now on.
            (false, Some(&"login")) => {
                let dir = self.place.iter().filter(|flag| flag.starts_with("-C "));
                dir.cloned().collect()
            }
            (false, _) => self.place.clone(),
        }
    }

    fn with_agent(&self, rest: &str, words: &[&str]) -> String {
        let placeholder = rest.contains(SOMEBODY);
        match (&self.agent, placeholder) {
            (Some(agent), true) => {
                rest.replace(SOMEBODY, &format!("--agent {}", shell_word(agent)))
            }
            (None, true) if self.agent_in_environment => rest.replace(&format!(" {SOMEBODY}"), ""),
            (Some(agent), false) if !words.contains(&"--agent") && acts(words, agent) => {
                format!("{rest} --agent {}", shell_word(agent))
            }
            _ => rest.to_owned(),
        }
    }

    /// Adds the yes that was given, to a command that takes one.
    fn with_yes(&self, command: String) -> String {
        if !self.yes {
            return command;
        }
        let sure = format!("{command} -y");
        let mut words = sure.split_whitespace();
        // Neither looks for a question to be answered, nor a repair. To trust a fleet is never an aside.
        let asks = !words
            .clone()
            .any(|word| matches!(word, "--dry-run" | "--fix" | "trust"));
        match asks && Cli::try_parse_from(&mut words).is_ok() {
            true => sure,
            false => command,
        }
    }
}

/// Returns true when a command acts as an agent: its effect, or the things it shows, depend on the acting agent.
fn acts(words: &[&str], agent: &str) -> bool {
    let verb = words.get(1).copied().unwrap_or_default();
    match words.first().copied().unwrap_or_default() {
        "call" | "checkpoint" | "context" | "heartbeat" | "import" | "mail" | "mails"
        | "resume" | "undo" => true,
        "effect" | "effects" | "lock" | "locks" | "mission" | "missions" | "note" | "notes"
        | "sortie" | "sorties" => !matches!(verb, "check" | "list" | "ready" | "show" | "tree"),
        "checkpoints" => matches!(
            verb,
            "archive" | "delete" | "import" | "pin" | "prune" | "unpin"
        ),
        // An agent whose session is over cannot say so itself.
        "agent" | "agents" => {
            let about = words.get(2).copied().unwrap_or_default();
            !matches!(verb, "list" | "monitor" | "register" | "show") && about != agent
        }
        _ => false,
    }
}

/// Returns true when a command works on a mission that it does not name, neither by itself nor by a thing of it.
fn works_on_a_mission(words: &[&str]) -> bool {
    let named = words.iter().any(|word| {
        *word == "--mission"
            || ["msn-", "srt-", "chk-"]
                .iter()
                .any(|prefix| word.starts_with(prefix))
    });
    let verb = words.get(1).copied().unwrap_or_default();
    !named
        && match words.first().copied().unwrap_or_default() {
            "checkpoint" | "checkpoints" | "context" | "event" | "events" | "log" | "note"
            | "notes" | "replay" | "report" | "resume" | "sortie" | "sorties" | "status"
            | "undo" => true,
            "effect" | "effects" => verb != "list",
            "lock" | "locks" => verb == "acquire",
            "mail" | "mails" => verb == "send",
            "mission" | "missions" => !matches!(verb, "create" | "list" | "use"),
            _ => false,
        }
}

/// The end of a command: the first backtick that a shell would not read as part of a quoted word.
fn end_of_command(text: &str) -> Option<usize> {
    let (mut quote, mut is_escaped) = (None, false);
    let end = text.char_indices().find(|(_, letter)| {
        if std::mem::take(&mut is_escaped) {
            return false;
        }
        match (quote, letter) {
            (None, '\\') => is_escaped = true,
            (None, '\'' | '"') => quote = Some(*letter),
            (Some(open), letter) if open == *letter => quote = None,
            _ => {}
        }
        *letter == '`' && quote.is_none()
    });
    // A quotation mark elsewhere begins no quoted word.
    end.map(|(at, _)| at).or_else(|| text.find('`'))
}

#[cfg(test)]
mod tests;
