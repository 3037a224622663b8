//! `fleet`: the command line.

mod app;
mod cli;
mod command;
mod complete;
mod config;
mod ui;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use flightline::core::{Code, Refusal};

use crate::app::App;
use crate::cli::{Cli, ColorWhen};
use crate::config::Environment;
use crate::ui::Ui;

fn main() -> ExitCode {
    // Answers the shell and ends, when it is the shell that asks.
    clap_complete::CompleteEnv::with_factory(Cli::command).complete();
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let cli = match Cli::try_parse_from(&arguments) {
        Ok(cli) => cli,
        Err(error) => return usage(&error, &arguments),
    };
    let globals = &cli.globals;
    let ui = Ui::new(
        globals.json,
        globals.fields.clone(),
        globals.quiet,
        globals.color,
    );
    let app = App::new(cli.globals, ui.clone(), Environment::read());
    let done = app.and_then(|mut app| command::run(cli.command, &mut app));
    match done {
        Ok(attention) => attention,
        Err(refusal) => {
            ui.refuse(&refusal);
            ExitCode::from(refusal.code.exit_code())
        }
    }
}

/// Help and version are answers; everything else clap says is a refusal like any other.
fn usage(error: &clap::Error, arguments: &[OsString]) -> ExitCode {
    use clap::error::ErrorKind::{
        DisplayHelp, DisplayHelpOnMissingArgumentOrSubcommand, DisplayVersion,
    };
    let json = arguments.iter().any(|argument| argument == "--json");
    let ui = Ui::new(json, Vec::new(), false, ColorWhen::Auto);
    match error.kind() {
        DisplayHelp | DisplayVersion => {
            let text = if json {
                serde_json::json!({ "text": error.render().to_string() }).to_string()
            } else {
                error.render().ansi().to_string().trim_end().to_owned()
            };
            let _ = ui.print(&text);
            ExitCode::SUCCESS
        }
        kind => {
            let text = error.render().to_string();
            let mut lines = text.lines();
            let first = lines
                .next()
                .unwrap_or_default()
                .trim_start_matches("error: ")
                .to_owned();
            let message = if kind == DisplayHelpOnMissingArgumentOrSubcommand {
                "a subcommand is missing".to_owned()
            } else {
                first
            };
            let rest: Vec<&str> = lines
                .map(str::trim_end)
                .skip_while(|line| line.is_empty())
                .collect();
            let refusal = Refusal::new(Code::InvalidInput, message).hint(hint(kind, &text, &rest));
            ui.refuse(&refusal);
            ExitCode::from(refusal.code.exit_code())
        }
    }
}

fn hint(kind: clap::error::ErrorKind, text: &str, rest: &[&str]) -> String {
    if kind == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return text.trim_end().to_owned();
    }
    let said = rest.join("\n");
    said.trim()
        .trim_start_matches("tip: ")
        .replace("\n\nFor more information, try '--help'.", "")
}
