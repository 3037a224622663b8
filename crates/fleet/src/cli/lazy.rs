//! Describes the arguments of a command only when the command is given. To describe all of some hundred commands takes
//! longer than most of them run.

use std::cell::Cell;
use std::ffi::OsString;

use clap::builder::Resettable;
use clap::error::{Error, ErrorKind};
use clap::{ArgMatches, Args, Command, CommandFactory, FromArgMatches, Id, Parser, Subcommand};

use super::{Cli, Globals, VERSION};

thread_local! {
    /// True while a command line is read. A help page or a list of commands describes all commands at once.
    static READING: Cell<bool> = const { Cell::new(false) };
}

/// Reads a command line. Only the command that it names is described: clap copies the options that every command takes
/// into each command it knows. An error is clap's error about the whole command line.
pub fn parse(arguments: &[OsString]) -> Result<Cli, Error> {
    reading(|| match alone(arguments) {
        Ok(cli) => Ok(cli),
        Err(error) if error.kind() == ErrorKind::DisplayVersion => Err(error),
        // Help, and mistakes: they are told with all commands in view.
        Err(_) => Cli::try_parse_from(arguments),
    })
}

/// Reads a command line as if the first command named in it were the only one. Another word that names a command, such as
/// the value of an option, makes the line unreadable.
fn alone(arguments: &[OsString]) -> Result<Cli, Error> {
    let whole = Cli::command();
    let mut named = arguments.iter().skip(1).filter_map(|word| word.to_str());
    let named = named.find_map(|word| whole.find_subcommand(word));
    let slim = Command::new("fleet")
        .version(VERSION)
        .disable_help_subcommand(true)
        .subcommands(named.cloned());
    let mut matches = Globals::augment_args(slim).try_get_matches_from(arguments)?;
    Cli::from_arg_matches_mut(&mut matches)
}

/// Runs `read` so that the arguments of commands are described only when they are given.
fn reading<T>(read: impl FnOnce() -> T) -> T {
    READING.set(true);
    let done = read();
    READING.set(false);
    done
}

/// Arguments or commands that are described when they are given.
#[derive(Debug)]
pub struct Lazy<T>(pub T);

/// Describes a command, and keeps the help texts that it had before.
fn in_its_words(command: Command, describe: fn(Command) -> Command) -> Command {
    let about = Resettable::from(command.get_about().cloned());
    let long_about = Resettable::from(command.get_long_about().cloned());
    describe(command).about(about).long_about(long_about)
}

impl<T: FromArgMatches> FromArgMatches for Lazy<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        T::from_arg_matches(matches).map(Self)
    }

    fn from_arg_matches_mut(matches: &mut ArgMatches) -> Result<Self, Error> {
        T::from_arg_matches_mut(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches(matches)
    }

    fn update_from_arg_matches_mut(&mut self, matches: &mut ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches_mut(matches)
    }
}

impl<T: Args> Args for Lazy<T> {
    fn group_id() -> Option<Id> {
        T::group_id()
    }

    fn augment_args(command: Command) -> Command {
        match READING.get() {
            true => command.defer(|command| in_its_words(command, T::augment_args)),
            false => T::augment_args(command),
        }
    }

    fn augment_args_for_update(command: Command) -> Command {
        T::augment_args_for_update(command)
    }
}

impl<T: Subcommand> Subcommand for Lazy<T> {
    fn augment_subcommands(command: Command) -> Command {
        match READING.get() {
            true => command.defer(|command| in_its_words(command, T::augment_subcommands)),
            false => T::augment_subcommands(command),
        }
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        T::augment_subcommands_for_update(command)
    }

    fn has_subcommand(name: &str) -> bool {
        T::has_subcommand(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(command: &Command, above: &[String], found: &mut Vec<Vec<String>>) {
        for below in command.get_subcommands() {
            let words = [above, &[below.get_name().to_owned()]].concat();
            all(below, &words, found);
            found.push(words);
        }
    }

    #[test]
    fn a_command_that_is_described_when_it_is_given_takes_the_same() {
        let mut commands = Vec::new();
        all(&Cli::command(), &["fleet".to_owned()], &mut commands);
        assert!(commands.len() > 100, "{}", commands.len());
        for words in commands {
            for more in ["--help", "--no-such-flag"] {
                agree(words.iter().map(String::as_str).chain([more]).collect());
            }
        }
        assert!(!READING.get());
    }

    #[test]
    fn a_command_line_means_the_same_where_only_its_command_is_described() {
        for line in include_str!("../../help/examples.txt").lines() {
            let line = line.trim();
            if line.starts_with("fleet ") && !line.contains(['"', '\'', '|', '$', '>']) {
                agree(line.split_whitespace().collect());
            }
        }
        for line in [
            "fleet",
            "fleet --version",
            "fleet -V status",
            "fleet --help",
            "fleet stat",
            "fleet status status",
            "fleet --agent status list",
            "fleet --agent status agents list --json",
            "fleet agents --agent status list",
            "fleet -C status status -q --fields a,b",
            "fleet --json --fields id status --location x --server y",
            "fleet -- status",
            "fleet status -- x",
            "fleet sortie ls",
            "fleet lock acquire a b --agent ada --quiet --verbose",
        ] {
            agree(line.split_whitespace().collect());
        }
    }

    /// Checks that a command line is read alike, or refused in the same words.
    fn agree(words: Vec<&str>) {
        let said = |error: Error| error.render().to_string();
        let at_once = Cli::try_parse_from(&words).map_err(said);
        let typed: Vec<OsString> = words.iter().map(OsString::from).collect();
        let late = parse(&typed).map_err(said);
        assert_eq!(format!("{late:?}"), format!("{at_once:?}"), "{words:?}");
    }
}
