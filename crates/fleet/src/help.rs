//! Help pages: commands in groups, examples on every page, topics. The command that is parsed has
//! none of it, so that a command which is run does not pay for it.

use std::ffi::OsString;

use clap::builder::StyledStr;
use clap::{Command, CommandFactory};
use flightline::core::{Code, Refusal};

use crate::cli::Cli;
use crate::usage::typed_command;

/// Topics that belong to no single command.
const TOPICS: [(&str, &str); 14] = [
    ("quickstart", include_str!("../help/quickstart.txt")),
    ("concepts", include_str!("../help/concepts.txt")),
    ("checkpoints", include_str!("../help/checkpoints.txt")),
    ("recovery", include_str!("../help/recovery.txt")),
    ("effects", include_str!("../help/effects.txt")),
    ("presets", include_str!("../help/presets.txt")),
    ("agents", include_str!("../help/agents.txt")),
    ("locks", include_str!("../help/locks.txt")),
    ("server", include_str!("../help/server.txt")),
    ("ids", include_str!("../help/ids.txt")),
    ("json", include_str!("../help/json.txt")),
    ("exit-codes", include_str!("../help/exit-codes.txt")),
    ("environment", include_str!("../help/environment.txt")),
    ("secrets", include_str!("../help/secrets.txt")),
];

/// Command lines that can be typed as they stand, each below a comment if it needs one.
const EXAMPLES: &str = include_str!("../help/examples.txt");

/// The number of examples on the page of a noun such as `sorties`, whose commands have pages of their own.
const EXAMPLES_OF_A_NOUN: usize = 4;

/// The commands of the first page, by the task of the person who looks for one.
const GROUPS: [(&str, &[&str]); 8] = [
    (
        "Set up",
        &[
            "init", "setup", "trust", "config", "login", "logout", "demo",
        ],
    ),
    ("Plan work", &["missions", "sorties", "note"]),
    (
        "Work as an agent",
        &[
            "agents",
            "heartbeat",
            "locks",
            "mail",
            "effect",
            "context",
            "prime",
            "run",
            "handoff",
        ],
    ),
    (
        "Survive",
        &[
            "checkpoint",
            "checkpoints",
            "detect",
            "resume",
            "undo",
            "replay",
        ],
    ),
    ("Look", &["status", "log", "events", "report", "stats"]),
    (
        "Keep the store",
        &[
            "doctor",
            "backup",
            "restore",
            "import",
            "export",
            "conflicts",
        ],
    ),
    (
        "Serve and integrate",
        &[
            "serve",
            "token",
            "call",
            "mcp",
            "hook",
            "statusline",
            "agents-md",
            "schema",
            "openapi",
        ],
    ),
    ("Reference", &["help", "man", "completions"]),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Detail {
    /// `-h`: without the options that every command takes, and without examples.
    DisplayIds,
    /// `--help`: all of it.
    Full,
}

/// Makes the whole command line with its examples, as pages show it.
pub fn command() -> Command {
    let root = with_examples(Cli::command(), "fleet");
    let groups = groups(&root);
    root.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}Options:\n{{options}}{{after-help}}"
    ))
    .after_help(format!(
        "Without a command: `fleet status`. Short help of a command: `-h`; with examples: `--help`.\n\nTopics: {}",
        topics().join(", ")
    ))
}

/// Renders the page that a command line with `-h` or `--help` asks for.
pub fn asked_for(arguments: &[OsString]) -> StyledStr {
    let mut root = command();
    root.build();
    let (found, _) = typed_command(&root, arguments);
    let full = arguments.iter().any(|argument| argument == "--help");
    page(
        found.clone(),
        if full {
            Detail::Full
        } else {
            Detail::DisplayIds
        },
    )
}

/// Returns the text about a topic or a command; without a name, the first page.
pub fn about(path: &[String]) -> Result<String, Refusal> {
    if let [topic] = path
        && let Some((_, text)) = TOPICS.iter().find(|(name, _)| name == topic)
    {
        return Ok((*text).to_owned());
    }
    let mut root = command();
    root.build();
    let mut found = &root;
    for name in path {
        found = found.find_subcommand(name).ok_or_else(|| {
            Refusal::new(
                Code::NotFound,
                format!("there is no topic or command `{}`", path.join(" ")),
            )
            .hint(format!(
                "topics: {}; commands: `fleet --help`",
                topics().join(", ")
            ))
        })?;
    }
    Ok(page(found.clone(), Detail::Full).to_string())
}

fn topics() -> Vec<&'static str> {
    TOPICS.iter().map(|(name, _)| *name).collect()
}

fn page(mut command: Command, detail: Detail) -> StyledStr {
    if detail == Detail::DisplayIds {
        let is_root = command.get_name() == "fleet";
        command = command.mut_args(|argument| {
            let everywhere = argument.is_global_set();
            argument.hide(everywhere)
        });
        if !is_root {
            command = command.after_help("");
        }
    }
    command.render_help()
}

/// Adds the examples of its page to a command, and to every command below it.
fn with_examples(command: Command, path: &str) -> Command {
    let limit = if command.has_subcommands() {
        EXAMPLES_OF_A_NOUN
    } else {
        usize::MAX
    };
    let names: Vec<String> = command
        .get_subcommands()
        .map(|below| below.get_name().to_owned())
        .collect();
    // A command's own text, such as the variables of a build with traces, comes before its examples.
    let own = command.get_after_help().map(ToString::to_string);
    let examples = examples(path, limit);
    let mut command = command.after_help(match own {
        Some(own) if !own.is_empty() => format!("{own}\n\n{examples}"),
        _ => examples,
    });
    for name in names {
        let below = format!("{path} {name}");
        command = command.mut_subcommand(name, |inner| with_examples(inner, &below));
    }
    command
}

/// Returns at most `limit` examples of the command `path`, each with the comment above it.
fn examples(path: &str, limit: usize) -> String {
    let mut text = String::from("Examples:");
    let (mut comment, mut found) = (None, 0);
    for line in EXAMPLES.lines() {
        if line.starts_with('#') {
            comment = Some(line);
            continue;
        }
        let comment = comment.take();
        let of_it = line
            .strip_prefix(path)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(' '));
        if !of_it || found == limit {
            continue;
        }
        found += 1;
        for shown in comment.into_iter().chain([line]) {
            text.push_str("\n  ");
            text.push_str(shown);
        }
    }
    if found == 0 { String::new() } else { text }
}

/// The commands of the first page with their descriptions, below the headlines of their groups.
fn groups(root: &Command) -> String {
    let width = root
        .get_subcommands()
        .map(|command| command.get_name().len())
        .max()
        .unwrap_or_default();
    let mut text = String::new();
    for (title, names) in GROUPS {
        text.push_str(title);
        text.push_str(":\n");
        for name in names {
            let about = root
                .find_subcommand(name)
                .and_then(Command::get_about)
                .map_or_else(String::new, ToString::to_string);
            text.push_str(&format!("  {name:width$}  {about}\n"));
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::Parser;

    use super::*;

    #[test]
    fn every_command_stands_in_exactly_one_group() {
        let root = Cli::command();
        let there: BTreeSet<&str> = root
            .get_subcommands()
            .filter(|command| !command.is_hide_set())
            .map(Command::get_name)
            .collect();
        let grouped: Vec<&str> = GROUPS
            .iter()
            .flat_map(|(_, names)| names.iter().copied())
            .collect();
        assert_eq!(grouped.len(), there.len());
        assert_eq!(grouped.into_iter().collect::<BTreeSet<_>>(), there);
        let wide: Vec<String> = groups(&root)
            .lines()
            .filter(|line| line.chars().count() > 80)
            .map(str::to_owned)
            .collect();
        assert_eq!(wide, Vec::<String>::new());
    }

    #[test]
    fn every_example_can_be_typed() {
        let lines = EXAMPLES.lines().filter(|line| line.starts_with("fleet"));
        for line in lines {
            let words = shlex::split(&line.replace("$$", "1")).unwrap();
            if let Err(error) = Cli::try_parse_from(words) {
                panic!("{line}: {error}");
            }
            assert!(line.chars().count() <= 78, "{line} is too wide");
        }
    }

    #[test]
    fn every_command_has_an_example() {
        fn visit(command: &Command, path: &str, bare: &mut Vec<String>) {
            for below in command.get_subcommands().filter(|it| !it.is_hide_set()) {
                let path = format!("{path} {}", below.get_name());
                if examples(&path, 1).is_empty() {
                    bare.push(path.clone());
                }
                visit(below, &path, bare);
            }
        }
        let mut bare = Vec::new();
        visit(&Cli::command(), "fleet", &mut bare);
        assert_eq!(bare, Vec::<String>::new(), "commands without an example");
    }

    #[test]
    fn every_argument_says_more_than_its_name() {
        fn visit(command: &Command, path: &str, bare: &mut Vec<String>) {
            for argument in command.get_arguments().filter(|it| !it.is_hide_set()) {
                let (name, help) = (argument.get_id().as_str(), argument.get_help());
                let help = help.map(ToString::to_string).unwrap_or_default();
                let words = help.split_whitespace();
                let own = words
                    .clone()
                    .map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()));
                let own =
                    own.filter(|word| !["A", "An", "The", "Its", "a", "the", "of"].contains(word));
                let repeats = own.map(str::to_lowercase).all(|word| name.contains(&word));
                if words.count() < 4 || repeats {
                    bare.push(format!("{path} {name}: {help}"));
                }
            }
            for below in command.get_subcommands() {
                visit(below, &format!("{path} {}", below.get_name()), bare);
            }
        }
        let mut bare = Vec::new();
        visit(&Cli::command(), "fleet", &mut bare);
        assert_eq!(bare, Vec::<String>::new(), "help that says nothing");
    }
}
