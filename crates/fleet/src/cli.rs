//! The command line's arguments. `command/` runs them, `help.rs` explains them.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::{command, complete};

/// The version, and what this build has beyond every other.
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

/// Options that every command takes.
#[derive(Clone, Debug, Args)]
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
    /// Print only errors
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

/// When to use colours.
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
    Init(command::init::InitArgs),
    /// Trust this repository's fleet, for example after a clone
    Trust(command::trust::TrustArgs),
    /// Show the fleet at a glance, and work that needs attention
    Status,
    /// Take a checkpoint of the current mission
    Checkpoint(command::checkpoint::CheckpointArgs),
    /// Checkpoints: list, show, compare, verify, prune …
    #[command(subcommand)]
    Checkpoints(command::checkpoint::CheckpointsCommand),
    /// Find missions that need recovery (exit code 5 when there is one)
    Detect(command::recovery::DetectArgs),
    /// Resume a mission, or restore it exactly to a checkpoint
    Resume(command::recovery::ResumeArgs),
    /// Step through a mission's history, changing nothing
    Replay(command::replay::ReplayArgs),
    /// Undo the last rewind
    Undo(command::recovery::UndoArgs),
    /// Print the acting agent's briefing, for use after a lost context
    Context(command::context::ContextArgs),
    /// Missions: objectives, divided into sorties
    #[command(visible_alias = "mission", subcommand)]
    Missions(command::mission::MissionCommand),
    /// Sorties: units of work with one owner
    #[command(visible_alias = "sortie", subcommand)]
    Sorties(command::sortie::SortieCommand),
    /// Agents: the workers of the fleet
    #[command(visible_alias = "agent", subcommand)]
    Agents(command::agent::AgentCommand),
    /// Send a heartbeat for the acting agent
    Heartbeat(command::agent::HeartbeatArgs),
    /// Print the handoff document for an agent's successor
    Handoff(command::agent::recovery::HandoffArgs),
    /// Locks on files and folders
    #[command(visible_alias = "lock", subcommand)]
    Locks(command::lock::LockCommand),
    /// Mail between agents
    #[command(visible_alias = "mails", subcommand)]
    Mail(command::mail::MailCommand),
    /// Notes: decisions, lessons, constraints, blockers, next steps …
    #[command(visible_alias = "notes", subcommand)]
    Note(command::note::NoteCommand),
    /// Effects: external actions that must not happen twice
    #[command(visible_alias = "effects", subcommand)]
    Effect(command::effect::EffectCommand),
    /// Events: the journal of everything that happened
    #[command(visible_alias = "event", subcommand)]
    Events(command::event::EventCommand),
    /// Show the journal as a readable story, newest first
    Log(command::event::LogArgs),
    /// Show counts of all records, and the space they use
    Stats(command::stats::StatsArgs),
    /// Compare the time that sorties took with their estimates
    Report(command::report::ReportArgs),
    /// Check the store, and repair it
    Doctor(command::doctor::DoctorArgs),
    /// Copy a consistent snapshot of the whole store to a new file
    Backup(command::backup::BackupArgs),
    /// Replace the store with a backup; the old content is kept
    Restore(command::backup::RestoreArgs),
    /// Import the files of another system
    Import(command::dialect::ImportArgs),
    /// Export the store as files of another system
    Export(command::dialect::ExportArgs),
    /// Show and resolve conflicting files of other systems
    #[command(visible_alias = "conflict", subcommand)]
    Conflicts(command::conflict::ConflictCommand),
    /// Serve this fleet to other programs and machines over HTTP
    Serve(command::serve::ServeArgs),
    /// Tokens: access to a server
    #[command(visible_alias = "tokens", subcommand)]
    Token(command::token::TokenCommand),
    /// Log in to a server, and use its fleet in this repository
    Login(command::login::LoginArgs),
    /// Log out of this repository's server, and forget its token
    Logout,
    /// Show and change settings
    #[command(subcommand)]
    Config(command::config::ConfigCommand),
    /// Run one operation with JSON from stdin, for orchestrators
    Call(command::call::CallArgs),
    /// Offer this fleet as MCP tools on stdin and stdout, for coding agents
    Mcp(command::mcp::McpArgs),
    /// Run a demo: real agents are killed, and nothing is lost
    Demo(command::demo::DemoArgs),
    /// An agent of the demo
    #[command(hide = true)]
    DemoAgent(command::demo::DemoAgentArgs),
    /// Print a shell's completion script, with live ids
    Completions(command::reference::CompletionsArgs),
    /// Print the manual page, or write all of them to a folder
    Man(command::reference::ManArgs),
    /// Print the JSON Schema of an answer
    Schema(command::reference::SchemaArgs),
    /// Print the OpenAPI description of the server
    Openapi,
    /// Connect a coding agent: its hooks tell the fleet of its sessions
    Setup(command::setup::SetupArgs),
    /// Tell an agent where it stands and how to work here
    Prime,
    /// Print the block for AGENTS.md that tells agents how to work here
    AgentsMd(command::prime::AgentsMdArgs),
    /// Run any program as an agent, and start it again when it dies
    Run(command::run::RunArgs),
    /// Print one line for a coding agent's status bar
    Statusline,
    /// Answer a coding agent's hook, with its JSON on stdin
    Hook(command::hook::HookArgs),
    /// Explain a topic or a command
    Help(command::help::HelpArgs),
}
