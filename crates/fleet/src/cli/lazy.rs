//! Arguments of commands that are described only when one of them is given. To describe all of some hundred commands takes longer
//! than most of them run.

use std::cell::Cell;

use clap::builder::Resettable;
use clap::error::Error;
use clap::{ArgMatches, Args, Command, FromArgMatches, Id, Subcommand};

thread_local! {
    /// Whether a command line is being read: a help page or a list of commands gets all of them at once.
    static READING: Cell<bool> = const { Cell::new(false) };
}

/// Reads a command line: the arguments of a command are described only when it is given.
pub fn reading<T>(read: impl FnOnce() -> T) -> T {
    READING.set(true);
    let done = read();
    READING.set(false);
    done
}

/// Arguments or commands that are described when they are given.
#[derive(Debug)]
pub struct Lazy<T>(pub T);

/// Describes a command, in the words that were said of it before.
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
    use clap::{CommandFactory, Parser};

    use super::*;
    use crate::cli::Cli;

    /// The words of every command.
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
                let words = || words.iter().map(String::as_str).chain([more]);
                let said = |error: Error| error.render().to_string();
                let at_once = Cli::try_parse_from(words()).map_err(said);
                let late = reading(|| Cli::try_parse_from(words())).map_err(said);
                assert_eq!(format!("{late:?}"), format!("{at_once:?}"));
            }
        }
        assert!(!READING.get());
    }
}
