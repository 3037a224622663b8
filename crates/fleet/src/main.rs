//! `fleet`: the command line's entry point.

mod app;
mod cli;
mod command;
mod complete;
mod config;
mod fields;
mod help;
mod hint;
mod remote;
mod sessions;
mod terminal;
mod ui;
mod usage;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::CommandFactory;
use clap::error::ErrorKind;
use flightline::core::Refusal;

use crate::app::App;
use crate::cli::{Cli, ColorWhen, Command, Lazy};
use crate::config::Environment;
use crate::hint::Repeated;
use crate::ui::Ui;

fn main() -> ExitCode {
    // Answers the shell and ends, when it is the shell that asks.
    clap_complete::CompleteEnv::with_factory(Cli::command)
        .shells(complete::shells())
        .complete();
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let cli = match Cli::of_hook(&arguments) {
        Some(cli) => cli,
        None => match cli::parse(&arguments) {
            Ok(cli) => cli,
            Err(error) => return usage(&error, &arguments),
        },
    };
    let globals = &cli.globals;
    let mut ui = Ui::new(
        globals.json,
        globals.fields.clone(),
        globals.quiet,
        globals.color,
    );
    let env = Environment::read();
    let named = env.as_ref().ok().and_then(|env| env.agent.as_deref());
    ui.repeated = Repeated::of(globals, named, &arguments);
    if let Ok(env) = &env {
        (ui.pager, ui.pager_has_settings) = (env.pager.clone(), env.pager_has_settings);
    }
    if let Some(Command::Hook(Lazy(hook))) = &cli.command {
        return match env {
            Ok(env) => command::hook::run(hook, globals, &ui, env),
            // A hook never hinders its client.
            Err(refusal) => spare(&ui, &refusal),
        };
    }
    let app = env.and_then(|env| App::new(cli.globals, ui.clone(), env));
    let done = app.and_then(|mut app| command::run(cli.command, &mut app));
    match done {
        Ok(attention) => attention,
        Err(refusal) => refuse(&ui, &refusal),
    }
}

/// Prints help and version as answers; refuses everything else that clap reports, like any other refusal.
fn usage(error: &clap::Error, arguments: &[OsString]) -> ExitCode {
    let json = arguments.iter().any(|argument| argument == "--json");
    let ui = Ui::new(json, Vec::new(), false, typed_color(arguments));
    let answer = match error.kind() {
        ErrorKind::DisplayHelp => Some(help::asked_for(arguments)),
        ErrorKind::DisplayVersion => Some(error.render()),
        _ => None,
    };
    if let Some(answer) = answer {
        let text = if json {
            serde_json::json!({ "text": answer.to_string() }).to_string()
        } else {
            answer.ansi().to_string().trim_end().to_owned()
        };
        return match ui.print(&text) {
            Ok(()) => ExitCode::SUCCESS,
            Err(refusal) => refuse(&ui, &refusal),
        };
    }
    let refusal = usage::refusal(error, &Cli::command(), arguments);
    match is_hook(arguments) {
        true => spare(&ui, &refusal),
        false => refuse(&ui, &refusal),
    }
}

/// Returns true when a command line that cannot be read is that of a hook: settings files may be newer than this program.
fn is_hook(arguments: &[OsString]) -> bool {
    arguments.get(1).is_some_and(|word| word == "hook")
}

/// Warns a person who looks, and tells the client nothing: to some clients, a hook that fails forbids what the agent was
/// about to do.
fn spare(ui: &Ui, refusal: &Refusal) -> ExitCode {
    ui.warn(&refusal.message);
    ExitCode::SUCCESS
}

/// The choice of colours that was typed in a command line that cannot be read.
fn typed_color(arguments: &[OsString]) -> ColorWhen {
    let words: Vec<&str> = arguments.iter().filter_map(|word| word.to_str()).collect();
    let given = |value: &str| {
        words.contains(&format!("--color={value}").as_str())
            || words.windows(2).any(|pair| pair == ["--color", value])
    };
    match (given("always"), given("never")) {
        (true, false) => ColorWhen::Always,
        (false, true) => ColorWhen::Never,
        (true, true) | (false, false) => ColorWhen::Auto,
    }
}

fn refuse(ui: &Ui, refusal: &Refusal) -> ExitCode {
    ui.refuse(refusal);
    ExitCode::from(refusal.code.exit_code())
}
