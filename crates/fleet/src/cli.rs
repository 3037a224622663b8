//! The command line's arguments. `command/` runs them, `help.rs` explains them.

mod lazy;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

pub use self::lazy::{Lazy, parse};
use crate::{command, complete};

/// The version, and the features of this build beyond the usual ones.
const VERSION: &str = match cfg!(feature = "otel") {
    true => concat!(env!("CARGO_PKG_VERSION"), " (otel)"),
    false => env!("CARGO_PKG_VERSION"),
};

/// Keeps fleets of AI agents alive through context death
#[derive(Debug, Parser)]
#[command(
    name = "fleet",
    version = VERSION,
    about,
    disable_help_subcommand = true
)]
pub struct Cli {
    #[command(flatten)]
    pub globals: Globals,
    #[command(subcommand)]
    pub command: Option<Command>,
}

impl Cli {
    /// The command line of a hook as settings files have it: two words, and no option. Describing all that can be typed is a quarter of
    /// what a hook costs.
    pub fn of_hook(arguments: &[OsString]) -> Option<Self> {
        let [_, hook, client, event] = arguments else {
            return None;
        };
        let word = |argument: &OsString| {
            let word = argument.to_str()?;
            (!word.is_empty() && !word.starts_with('-')).then(|| word.to_owned())
        };
        if hook != "hook" {
            return None;
        }
        let (client, event) = (word(client)?, word(event)?);
        Some(Self {
            globals: Globals::default(),
            command: Some(Command::Hook(Lazy(command::hook::HookArgs {
                client,
                event,
            }))),
        })
    }
}

/// Options that every command takes.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Everywhere")]
pub struct Globals {
    /// Run as if started in this folder
    #[arg(short = 'C', long = "dir", global = true, value_name = "PATH")]
    pub dir: Option<PathBuf>,
    /// Location of the store: a folder or postgres://… [env: FLEET_LOCATION]
    #[arg(long, global = true, value_name = "L")]
    pub location: Option<String>,
    /// Talk to a server instead of a store [env: FLEET_SERVER, FLEET_TOKEN]
    #[arg(long, global = true, value_name = "URL", conflicts_with = "location")]
    pub server: Option<String>,
    /// The mission to work on (default: the current one) [env: FLEET_MISSION]
    #[arg(long, global = true, value_name = "ID", add = complete::missions())]
    pub mission: Option<String>,
    /// Act as this agent [env: FLEET_AGENT]
    #[arg(long, global = true, value_name = "NAME", add = complete::agents())]
    pub agent: Option<String>,
    /// Print exactly one JSON document on stdout, also for errors
    #[arg(long, global = true, overrides_with = "json")]
    pub json: bool,
    /// Keep only these fields of the JSON, such as `id,status`
    #[arg(
        long,
        global = true,
        value_name = "A,B",
        value_delimiter = ',',
        requires = "json"
    )]
    pub fields: Vec<String>,
    /// Print nothing but errors
    #[arg(short, long, global = true, overrides_with = "quiet")]
    pub quiet: bool,
    /// Print the store and the time taken on stderr
    #[arg(short, long, global = true, conflicts_with = "quiet")]
    pub verbose: bool,
    /// When to use colours
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub color: ColorWhen,
    /// Never prompt; fail with exit code 2 instead
    #[arg(long, global = true, overrides_with = "no_input")]
    pub no_input: bool,
    /// Do a write only once, even if it is sent several times
    #[arg(long, global = true, value_name = "K")]
    pub idempotency_key: Option<String>,
}

/// The choice of when colours are used.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub enum ColorWhen {
    #[default]
    Auto,
    Always,
    Never,
}

/// Everything `fleet` does.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Create `.flightline/` here: a store for this repository's fleet
    Init(Lazy<command::init::InitArgs>),
    /// Trust this repository's fleet, for example after a clone
    Trust(Lazy<command::trust::TrustArgs>),
    /// Show the fleet at a glance, and work that needs attention
    Status,
    /// Take a checkpoint of the current mission
    Checkpoint(Lazy<command::checkpoint::TakeArgs>),
    /// Checkpoints: list, show, compare, verify, prune …
    #[command(subcommand)]
    Checkpoints(Lazy<command::checkpoint::CheckpointsCommand>),
    /// Find missions that need recovery (exit code 5 when there is one)
    Detect(Lazy<command::recovery::DetectArgs>),
    /// Resume a mission, or restore it exactly to a checkpoint
    Resume(Lazy<command::recovery::ResumeArgs>),
    /// Step through a mission's history, changing nothing
    Replay(Lazy<command::replay::ReplayArgs>),
    /// Undo the last rewind
    Undo(Lazy<command::recovery::UndoArgs>),
    /// Print the acting agent's briefing, for use after a lost context
    Context(Lazy<command::context::ContextArgs>),
    /// Missions: objectives, divided into sorties
    #[command(visible_alias = "mission", subcommand)]
    Missions(Lazy<command::mission::MissionCommand>),
    /// Sorties: units of work with one owner
    #[command(visible_alias = "sortie", subcommand)]
    Sorties(Lazy<command::sortie::SortieCommand>),
    /// Agents: the workers of the fleet
    #[command(visible_alias = "agent", subcommand)]
    Agents(Lazy<command::agent::AgentCommand>),
    /// Send a heartbeat for the acting agent
    Heartbeat(Lazy<command::agent::HeartbeatArgs>),
    /// Print the handoff document for an agent's successor
    Handoff(Lazy<command::agent::recovery::HandoffArgs>),
    /// Locks on files and folders
    #[command(visible_alias = "lock", subcommand)]
    Locks(Lazy<command::lock::LockCommand>),
    /// Mail between agents
    #[command(visible_alias = "mails", subcommand)]
    Mail(Lazy<command::mail::MailCommand>),
    /// Notes: decisions, lessons, constraints, blockers, next steps …
    #[command(visible_alias = "notes", subcommand)]
    Note(Lazy<command::note::NoteCommand>),
    /// Effects: external actions that must not happen twice
    #[command(visible_alias = "effects", subcommand)]
    Effect(Lazy<command::effect::EffectCommand>),
    /// Events: the journal of everything that happened
    #[command(visible_alias = "event", subcommand)]
    Events(Lazy<command::event::EventCommand>),
    /// Show the journal as a readable story, newest first
    Log(Lazy<command::event::LogArgs>),
    /// Show counts of all records, and the space they use
    Stats(Lazy<command::stats::StatsArgs>),
    /// Compare the time that sorties took with their estimates
    Report(Lazy<command::report::ReportArgs>),
    /// Check the store, and repair it
    Doctor(Lazy<command::doctor::DoctorArgs>),
    /// Copy a consistent snapshot of the whole store to a new file
    Backup(Lazy<command::backup::BackupArgs>),
    /// Replace the store with a backup; the old content is kept
    Restore(Lazy<command::backup::RestoreArgs>),
    /// Import the files of another system
    Import(Lazy<command::dialect::DialectImportArgs>),
    /// Export the store as files of another system
    Export(Lazy<command::dialect::DialectExportArgs>),
    /// Show and resolve conflicting files of other systems
    #[command(visible_alias = "conflict", subcommand)]
    Conflicts(Lazy<command::conflict::ConflictCommand>),
    /// Serve this fleet to other programs and machines over HTTP
    Serve(Lazy<command::serve::ServeArgs>),
    /// Tokens: access to a server
    #[command(visible_alias = "tokens", subcommand)]
    Token(Lazy<command::token::TokenCommand>),
    /// Log in to a server, and use its fleet in this repository
    Login(Lazy<command::login::LoginArgs>),
    /// Log out of this repository's server, and forget its token
    Logout,
    /// Show and change settings
    #[command(subcommand)]
    Config(Lazy<command::config::ConfigCommand>),
    /// Run one operation with JSON from stdin, for orchestrators
    Call(Lazy<command::call::CallArgs>),
    /// Offer this fleet to coding agents as MCP tools
    Mcp(Lazy<command::mcp::McpArgs>),
    /// Run a demo: real agents are killed, and nothing is lost
    Demo(Lazy<command::demo::DemoArgs>),
    /// The process of an agent of the demo
    #[command(hide = true)]
    DemoAgent,
    /// Print a shell's completion script, with live ids
    Completions(Lazy<command::reference::CompletionsArgs>),
    /// Print the manual page, or write all of them to a folder
    Man(Lazy<command::reference::ManArgs>),
    /// Print the JSON Schema of an answer
    Schema(Lazy<command::reference::SchemaArgs>),
    /// Print the OpenAPI description of the server
    Openapi,
    /// Connect a coding agent: its hooks tell the fleet of its sessions
    Setup(Lazy<command::setup::SetupArgs>),
    /// Tell an agent where it stands and how to work here
    Prime,
    /// Print the block for AGENTS.md that tells agents how to work here
    AgentsMd(Lazy<command::prime::AgentsMdArgs>),
    /// Run any program as an agent, and start it again when it dies
    Run(Lazy<command::run::RunArgs>),
    /// Print one line for a coding agent's status bar
    Statusline,
    /// Answer a coding agent's hook, with its JSON on stdin
    Hook(Lazy<command::hook::HookArgs>),
    /// Explain a topic or a command
    Help(Lazy<command::help::HelpArgs>),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hook_is_read_as_every_other_command() {
        let typed = |line: &str| -> Vec<OsString> { line.split(' ').map(OsString::from).collect() };
        for line in [
            "fleet hook claude PreToolUse",
            "/opt/fleet hook codex SessionStart",
        ] {
            let read = parse(&typed(line)).expect("a command line");
            let known = Cli::of_hook(&typed(line)).expect("a hook");
            assert_eq!(format!("{known:?}"), format!("{read:?}"));
        }
        for line in [
            "fleet hook",
            "fleet hook claude",
            "fleet hook claude --help",
            "fleet hook claude Stop --json",
            "fleet status claude Stop",
        ] {
            assert!(Cli::of_hook(&typed(line)).is_none(), "{line}");
        }
    }
}
