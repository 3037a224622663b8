//! The commands, one file per noun. Each parses a request, runs one operation, and shows its outcome.

pub mod agent;
pub mod backup;
pub mod call;
pub mod checkpoint;
pub mod config;
pub mod conflict;
pub mod context;
pub mod demo;
pub mod dialect;
pub mod doctor;
pub mod effect;
pub mod event;
pub mod help;
pub mod hook;
pub mod init;
pub mod lock;
pub mod login;
pub mod mail;
pub mod mcp;
pub mod mission;
pub mod note;
mod plain;
pub mod prime;
pub mod prune;
pub mod recovery;
pub mod reference;
pub mod replay;
pub mod report;
pub mod run;
pub mod serve;
pub mod setup;
pub mod sortie;
pub mod stats;
pub mod status;
pub mod statusline;
pub mod token;
pub mod transfer;
pub mod trust;
mod typed;

use std::collections::BTreeSet;
use std::process::ExitCode;

use flightline::core::{Code, Refusal};

use crate::app::App;
use crate::cli::{Command, Lazy};

/// The end of a command: an exit code, or the refusal.
pub type CommandResult = Result<ExitCode, Refusal>;

/// The exit code when nothing failed, and something needs attention.
pub const ATTENTION: u8 = 5;

/// Runs a command; without one, shows the status.
pub fn run(command: Option<Command>, app: &mut App) -> CommandResult {
    let command = command.unwrap_or(Command::Status);
    app.purpose = name(&command).to_owned();
    let done = dispatch(command, app).map_err(|refusal| app.explain(refusal));
    let done = done.map_err(|refusal| match app.ui.written {
        true => refusal.after_a_write(
            "check with `fleet log` which changes were written before you repeat it",
        ),
        false => refusal,
    });
    app.say_noticed();
    // A command that was refused for it has said so.
    if !matches!(&done, Err(refusal) if refusal.code == Code::Untrusted) {
        app.say_untrusted();
    }
    upkeep(app);
    done
}

/// Does the work that follows a write, after its answer was decided.
pub fn upkeep(app: &mut App) {
    if !app.ui.written {
        return;
    }
    // The answer stands whatever becomes of the copy: a failed backup is recorded and tried again.
    // A server looks after all of it but the files in this work tree.
    let mut failed = BTreeSet::new();
    if !app.has_keeper() {
        match app.follow_write() {
            Ok(these) => failed.extend(these),
            Err(refusal) => failed.extend([refusal.message]),
        }
    }
    failed.extend(app.write_mirrors().err().map(|refusal| refusal.message));
    // One failure stops none of the other work. A failure that all of it shares is said once.
    for message in failed {
        app.ui.warn(message);
    }
}

fn dispatch(command: Command, app: &mut App) -> CommandResult {
    match command {
        Command::Checkpoint(Lazy(args)) => checkpoint::take(&args, app),
        Command::Checkpoints(Lazy(command)) => checkpoint::run(command, app),
        Command::Detect(Lazy(args)) => recovery::detect(&args, app),
        Command::Resume(Lazy(args)) => recovery::resume(&args, app),
        Command::Replay(Lazy(args)) => replay::run(&args, app),
        Command::Undo(Lazy(args)) => recovery::undo(&args, app),
        Command::Context(Lazy(args)) => context::run(&args, app),
        Command::Init(Lazy(args)) => init::run(&args, app),
        Command::Trust(Lazy(args)) => trust::run(&args, app),
        Command::Status => status::run(app),
        Command::Missions(Lazy(command)) => mission::run(command, app),
        Command::Sorties(Lazy(command)) => sortie::run(command, app),
        Command::Agents(Lazy(command)) => agent::run(command, app),
        Command::Heartbeat(Lazy(args)) => agent::heartbeat(args, app),
        Command::Handoff(Lazy(args)) => agent::recovery::handoff(&args, app),
        Command::Locks(Lazy(command)) => lock::run(command, app),
        Command::Mail(Lazy(command)) => mail::run(command, app),
        Command::Note(Lazy(command)) => note::run(command, app),
        Command::Effect(Lazy(command)) => effect::run(command, app),
        Command::Events(Lazy(command)) => event::run(command, app),
        Command::Log(Lazy(args)) => event::log(&args, app),
        Command::Stats(Lazy(args)) => stats::run(&args, app),
        Command::Report(Lazy(args)) => report::run(&args, app),
        Command::Doctor(Lazy(args)) => doctor::run(&args, app),
        Command::Backup(Lazy(args)) => backup::back_up(&args, app),
        Command::Restore(Lazy(args)) => backup::restore(&args, app),
        Command::Import(Lazy(args)) => dialect::import(&args, app),
        Command::Export(Lazy(args)) => dialect::export(&args, app),
        Command::Serve(Lazy(args)) => serve::run(&args, app),
        Command::Token(Lazy(command)) => token::run(command, app),
        Command::Conflicts(Lazy(command)) => conflict::run(&command, app),
        Command::Login(Lazy(args)) => login::log_in(&args, app),
        Command::Logout => login::log_out(app),
        Command::Config(Lazy(command)) => config::run(command, app),
        Command::Call(Lazy(args)) => call::run(&args, app),
        Command::Mcp(Lazy(args)) => mcp::run(&args, app),
        Command::Demo(Lazy(args)) => demo::run(&args, app),
        Command::DemoAgent => demo::wait_for_the_end(),
        Command::Completions(Lazy(args)) => reference::completions(&args, app),
        Command::Man(Lazy(args)) => reference::man(&args, app),
        Command::Schema(Lazy(args)) => reference::schema(&args, app),
        Command::Openapi => serve::describe(app),
        Command::Setup(Lazy(args)) => setup::run(&args, app),
        Command::Prime => prime::prime(app),
        Command::AgentsMd(Lazy(args)) => prime::agents(&args, app),
        Command::Run(Lazy(args)) => run::run(&args, app),
        Command::Statusline => statusline::run(app),
        // A hook was answered before this.
        Command::Hook(_) => Ok(ExitCode::SUCCESS),
        Command::Help(Lazy(args)) => help::help(&args, app),
    }
}

/// The name of a command, shown to other processes that wait for it: never its arguments, which may be private.
fn name(command: &Command) -> &'static str {
    match command {
        Command::Checkpoint(_) => "checkpoint",
        Command::Checkpoints(_) => "checkpoints",
        Command::Detect(_) => "detect",
        Command::Resume(_) => "resume",
        Command::Replay(_) => "replay",
        Command::Undo(_) => "undo",
        Command::Context(_) => "context",
        Command::Init(_) => "init",
        Command::Trust(_) => "trust",
        Command::Status => "status",
        Command::Missions(_) => "missions",
        Command::Sorties(_) => "sorties",
        Command::Agents(_) => "agents",
        Command::Heartbeat(_) => "heartbeat",
        Command::Handoff(_) => "handoff",
        Command::Locks(_) => "locks",
        Command::Mail(_) => "mail",
        Command::Note(_) => "note",
        Command::Effect(_) => "effect",
        Command::Events(_) => "events",
        Command::Log(_) => "log",
        Command::Stats(_) => "stats",
        Command::Report(_) => "report",
        Command::Doctor(_) => "doctor",
        Command::Backup(_) => "backup",
        Command::Restore(_) => "restore",
        Command::Import(_) => "import",
        Command::Export(_) => "export",
        Command::Serve(_) => "serve",
        Command::Token(_) => "token",
        Command::Conflicts(_) => "conflicts",
        Command::Login(_) => "login",
        Command::Logout => "logout",
        Command::Config(_) => "config",
        Command::Call(_) => "call",
        Command::Mcp(_) => "mcp",
        Command::Demo(_) => "demo",
        Command::DemoAgent => "demo-agent",
        Command::Completions(_) => "completions",
        Command::Man(_) => "man",
        Command::Schema(_) => "schema",
        Command::Openapi => "openapi",
        Command::Setup(_) => "setup",
        Command::Prime => "prime",
        Command::AgentsMd(_) => "agents-md",
        Command::Run(_) => "run",
        Command::Statusline => "statusline",
        Command::Hook(_) => "hook",
        Command::Help(_) => "help",
    }
}
