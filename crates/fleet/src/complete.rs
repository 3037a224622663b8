//! Completion with live ids: the candidates come from the store of the shell's folder.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;

use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use clap_complete::env::{Bash, Elvish, EnvCompleter, Fish, Powershell, Shells, Zsh};
use flightline::core::Kind;
use flightline::ids::ListNames;

use crate::app::App;
use crate::cli::{ColorWhen, Globals};
use crate::config::Environment;
use crate::ui::{Ui, visible};

/// The shells that completion supports. Zsh, fish and Elvish quote what they put on the line. Bash and PowerShell put it
/// there as it is, so they are offered only words that stand for themselves.
pub fn shells() -> Shells<'static> {
    Shells(&[&Unquoted(Bash), &Elvish, &Fish, &Unquoted(Powershell), &Zsh])
}

/// A shell that does not quote the words it is offered. It would run a path called `$(touch x)`, and bash looks for files
/// that match a `*` as soon as it reads the answer.
struct Unquoted<S>(S);

impl<S: EnvCompleter> EnvCompleter for Unquoted<S> {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn is(&self, name: &str) -> bool {
        self.0.is(name)
    }

    fn write_registration(
        &self,
        var: &str,
        name: &str,
        bin: &str,
        completer: &str,
        buf: &mut dyn Write,
    ) -> Result<(), io::Error> {
        self.0.write_registration(var, name, bin, completer, buf)
    }

    fn write_complete(
        &self,
        cmd: &mut clap::Command,
        args: Vec<OsString>,
        current_dir: Option<&Path>,
        buf: &mut dyn Write,
    ) -> Result<(), io::Error> {
        let mut offered = Vec::new();
        self.0
            .write_complete(cmd, args, current_dir, &mut offered)?;
        let offered = String::from_utf8_lossy(&offered);
        buf.write_all(harmless(&offered).as_bytes())
    }
}

/// The character at which bash's script splits the answer; other shells, and tests, use line breaks.
const BETWEEN: char = '\u{b}';

/// Keeps the candidates that a shell reads as one plain word. PowerShell's have their help after a tab.
fn harmless(offered: &str) -> String {
    let between = if offered.contains(BETWEEN) {
        BETWEEN
    } else {
        '\n'
    };
    let kept: Vec<&str> = offered
        .split([BETWEEN, '\n'])
        .filter(|candidate| is_plain_word(candidate.split('\t').next().unwrap_or_default()))
        .collect();
    kept.join(between.encode_utf8(&mut [0; 4]))
}

/// Returns true for a word that a shell takes as it stands: letters and digits of any script, and signs that mean nothing
/// anywhere.
fn is_plain_word(text: &str) -> bool {
    let plain = |c: char| c.is_alphanumeric() || "._/:=,+%-".contains(c);
    !text.is_empty() && text.chars().all(plain)
}

pub fn missions() -> ArgValueCandidates {
    ArgValueCandidates::new(|| candidates(Kind::Mission))
}

pub fn sorties() -> ArgValueCandidates {
    ArgValueCandidates::new(|| candidates(Kind::Sortie))
}

pub fn agents() -> ArgValueCandidates {
    ArgValueCandidates::new(|| candidates(Kind::Agent))
}

pub fn messages() -> ArgValueCandidates {
    ArgValueCandidates::new(|| candidates(Kind::Message))
}

pub fn checkpoints() -> ArgValueCandidates {
    ArgValueCandidates::new(|| candidates(Kind::Checkpoint))
}

pub fn tokens() -> ArgValueCandidates {
    ArgValueCandidates::new(|| candidates(Kind::Token))
}

pub fn locks() -> ArgValueCandidates {
    ArgValueCandidates::new(|| candidates(Kind::Lock))
}

/// The candidates of a kind. There are none where there is no store: a shell that waits for Tab gets no error.
fn candidates(kind: Kind) -> Vec<CompletionCandidate> {
    let globals = Globals {
        dir: None,
        location: None,
        server: None,
        mission: None,
        agent: None,
        json: false,
        fields: Vec::new(),
        quiet: true,
        verbose: false,
        color: ColorWhen::Never,
        no_input: true,
        idempotency_key: None,
    };
    let ui = Ui::new(false, Vec::new(), true, ColorWhen::Never);
    let app = Environment::read().and_then(|mut env| {
        // Completion must not wait for a server that is not there.
        env.patience_ms.get_or_insert_with(|| "500".to_owned());
        App::new(globals, ui, env)
    });
    let Ok(mut app) = app else {
        return Vec::new();
    };
    let named = app.run(&ListNames { kind, limit: 200 });
    named
        .unwrap_or_default()
        .into_iter()
        .map(|(id, name)| match kind {
            Kind::Agent | Kind::Lock | Kind::Token => CompletionCandidate::new(name),
            _ => CompletionCandidate::new(id.chars().take(12).collect::<String>())
                .help(Some(visible(&name).into_owned().into())),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_words_are_offered_to_a_shell_that_does_not_quote() {
        let offered = "src/a.rs\u{b}$(touch x)\u{b}`id`\u{b}a b\u{b}*\u{b}~root\u{b}x;y\u{b}größe.txt\u{b}--agent";
        assert_eq!(harmless(offered), "src/a.rs\u{b}größe.txt\u{b}--agent");
        assert_eq!(harmless("$(touch x)"), "");
        assert_eq!(
            harmless("msn-1a2b\tPay $(now)\nb'c\tquote\n"),
            "msn-1a2b\tPay $(now)"
        );
    }
}
