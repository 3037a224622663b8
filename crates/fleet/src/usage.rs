//! Explains a wrong command line in our own words: what, which, and how it is written.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, Error};
use flightline::core::redact::{redact, shown};
use flightline::core::{Code, Refusal};

/// Translates clap's error about the command line `arguments`. `root` is the whole command.
pub fn refusal(error: &Error, root: &Command, arguments: &[OsString]) -> Refusal {
    let text = error.render().to_string();
    let (command, name) = typed_command(root, arguments);
    let (message, told) = match error.kind() {
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand => (
            "a subcommand is missing".to_owned(),
            Some(subcommands(command)),
        ),
        ErrorKind::InvalidSubcommand => (
            format!(
                "there is no command {}",
                quoted(error, ContextKind::InvalidSubcommand)
            ),
            meant(error, ContextKind::SuggestedSubcommand),
        ),
        ErrorKind::UnknownArgument => (
            unknown(error),
            meant(error, ContextKind::SuggestedArg).or_else(|| dashed(error)),
        ),
        ErrorKind::MissingRequiredArgument => (missing(error), None),
        ErrorKind::InvalidValue => (
            invalid_value(error),
            listed(error, ContextKind::ValidValue).map(|values| format!("it may be: {values}")),
        ),
        ErrorKind::ValueValidation => (not_valid(error), None),
        ErrorKind::ArgumentConflict => (conflict(error), None),
        ErrorKind::InvalidUtf8 => (
            "an argument is not UTF-8".to_owned(),
            Some("convert it first, with `iconv` for example".to_owned()),
        ),
        // Redacted before it is cut: half a secret would not be recognised.
        _ => (
            redact(&text)
                .lines()
                .next()
                .unwrap_or_default()
                .trim_start_matches("error: ")
                .to_owned(),
            None,
        ),
    };
    let mut hint: Vec<String> = told.into_iter().collect();
    hint.extend(usage_line(&text).map(|usage| format!("usage: {usage}")));
    hint.push(format!("see `{name} --help`"));
    Refusal::new(Code::InvalidInput, message).hint(hint.join("\n"))
}

fn usage_line(text: &str) -> Option<&str> {
    text.lines()
        .find_map(|line| line.strip_prefix("Usage: "))
        .map(str::trim)
}

/// Finds the command that was typed, as far as there is one, and its whole name.
pub fn typed_command<'a>(root: &'a Command, arguments: &[OsString]) -> (&'a Command, String) {
    let (mut command, mut name) = (root, root.get_name().to_owned());
    for word in arguments.iter().skip(1).filter_map(|word| word.to_str()) {
        if let Some(below) = command.find_subcommand(word) {
            name = format!("{name} {}", below.get_name());
            command = below;
        }
    }
    (command, name)
}

fn subcommands(command: &Command) -> String {
    let names: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
    format!("one of: {}", names.join(", "))
}

fn unknown(error: &Error) -> String {
    let typed = quoted(error, ContextKind::InvalidArg);
    if typed.starts_with("`-") {
        format!("there is no flag {typed}")
    } else {
        format!("{typed} is one argument too many")
    }
}

/// The hint on giving a text that is no flag although it looks like one.
fn dashed(error: &Error) -> Option<String> {
    let typed = strings(error, ContextKind::InvalidArg);
    let name = typed.first()?.trim_start_matches('-');
    let is_text = !name.starts_with(|c: char| c.is_ascii_alphabetic()) || name.contains(' ');
    is_text.then(|| "a text that begins with a dash goes at the end, after `--`".to_owned())
}

fn missing(error: &Error) -> String {
    let what = quoted(error, ContextKind::InvalidArg);
    let verb = if what.contains("` and `") {
        "are"
    } else {
        "is"
    };
    format!("{what} {verb} missing")
}

fn conflict(error: &Error) -> String {
    let one = quoted(error, ContextKind::InvalidArg);
    let other = quoted(error, ContextKind::PriorArg);
    if one == other {
        format!("{one} is given twice")
    } else {
        format!("{one} cannot be used with {other}")
    }
}

fn invalid_value(error: &Error) -> String {
    let flag = quoted(error, ContextKind::InvalidArg);
    match strings(error, ContextKind::InvalidValue).first() {
        Some(value) if !value.is_empty() => format!("{flag} cannot be `{}`", shown(value)),
        _ => format!("{flag} needs a value"),
    }
}

fn not_valid(error: &Error) -> String {
    let flag = quoted(error, ContextKind::InvalidArg);
    let why = std::error::Error::source(error).map_or_else(String::new, ToString::to_string);
    let why: String = why.chars().filter(|c| !c.is_control()).collect();
    match strings(error, ContextKind::InvalidValue).first() {
        Some(value) if !why.contains(value.as_str()) => {
            format!("{flag} cannot be `{}`: {why}", shown(value))
        }
        _ => format!("{flag}: {why}"),
    }
}

fn meant(error: &Error, kind: ContextKind) -> Option<String> {
    // The best comes last.
    let close = strings(error, kind);
    let close = close.last()?;
    Some(format!("did you mean `{close}`?"))
}

fn listed(error: &Error, kind: ContextKind) -> Option<String> {
    let values = strings(error, kind);
    (!values.is_empty()).then(|| values.join(", "))
}

/// The typed word, in backticks, without secrets and control characters.
fn quoted(error: &Error, kind: ContextKind) -> String {
    let quoted: Vec<String> = strings(error, kind)
        .iter()
        .map(|text| format!("`{}`", shown(text)))
        .collect();
    quoted.join(" and ")
}

fn strings(error: &Error, kind: ContextKind) -> Vec<String> {
    match error.get(kind) {
        Some(ContextValue::String(text)) => vec![text.clone()],
        Some(ContextValue::Strings(texts)) => texts.clone(),
        _ => Vec::new(),
    }
}
