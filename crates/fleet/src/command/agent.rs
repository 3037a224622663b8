//! `fleet agents` and `fleet heartbeat`: registers agents, shows them, changes them, ends and retires them, and gives
//! signs of life.

mod monitor;
pub mod recovery;
mod session;

use std::process::ExitCode;

use clap::{Args, Subcommand, ValueEnum};
use flightline::agent::{
    AgentView, Heartbeat, ListAgents, RegisterAgent, RetireAgent, ShowAgent, UpdateAgent,
};
use flightline::context::receipt::BriefingView;
use flightline::core::agent::{AgentStatus, Process, Role};
use flightline::core::{Kind, Refusal};
use flightline::recovery::start::SessionStart;
use flightline::workspace;

use super::{CommandResult, typed};
use crate::app::App;
use crate::complete;
use crate::ui::{BOLD, Cell, Page, state};

#[derive(Debug, Subcommand)]
pub enum AgentCommand {
    /// Register an agent, or start a new session of a known one (epoch + 1)
    Register(RegisterArgs),
    /// List agents and their liveness
    List {
        /// Include agents that were retired
        #[arg(long)]
        retired: bool,
    },
    /// Show an agent
    Show(AgentArg),
    /// Update an agent's status, steps and recovery instructions
    Update(Box<AgentUpdateArgs>),
    /// Report active, slow and likely crashed agents; warn and escalate once per silence
    Monitor(monitor::MonitorArgs),
    /// Resume an agent in a new session, with its work, locks and mail
    Resume(recovery::AgentResumeArgs),
    /// Give a crashed agent's work, locks and mail to another agent
    Takeover(recovery::TakeoverArgs),
    /// Restart an agent's work from scratch; its progress is discarded
    Restart(recovery::RestartArgs),
    /// End an agent's session; it keeps its work, and work in progress is saved
    End(AgentArg),
    /// Report a full sync: the agent returns to normal mode
    Sync(AgentArg),
    /// Retire an agent; it holds nothing afterwards and gets no more mail
    Retire {
        /// The agent: its name, or its id
        #[arg(add = complete::agents())]
        name: String,
        /// The reason it is retired, kept in its history
        #[arg(long, allow_hyphen_values = true)]
        reason: Option<String>,
    },
}

#[derive(Debug, Args)]
pub struct AgentArg {
    /// The agent: its name, or its id (default: the acting agent)
    #[arg(add = complete::agents())]
    name: Option<String>,
}

#[derive(Debug, Args)]
pub struct RegisterArgs {
    /// The agent's name, unique in the project
    name: String,
    /// The role: dispatch coordinates, a specialist works
    #[arg(long)]
    role: Option<RoleArg>,
    /// A free-form type: primary, claude, migration …
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<String>,
    /// The client's session id; registering again with the same id keeps the epoch
    #[arg(long)]
    session: Option<String>,
    /// The agent's process id, so that its end is noticed at once
    #[arg(long)]
    pid: Option<u32>,
    /// The feature the agent owns
    #[arg(long)]
    feature: Option<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum RoleArg {
    Dispatch,
    Specialist,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum StatusArg {
    Idle,
    #[value(alias = "in_progress")]
    InProgress,
    Waiting,
    Blocked,
    Complete,
}

#[derive(Debug, Args)]
pub struct AgentUpdateArgs {
    #[command(flatten)]
    agent: AgentArg,
    /// The agent's status, as it reports it
    #[arg(long)]
    status: Option<StatusArg>,
    /// The feature the agent owns
    #[arg(long)]
    feature: Option<String>,
    /// The stage that its work is in, in free text
    #[arg(long)]
    stage: Option<String>,
    /// The phase that its work is in, in free text
    #[arg(long)]
    phase: Option<String>,
    /// The current step; the previous one becomes a completed step
    #[arg(long, value_name = "WHAT", allow_hyphen_values = true)]
    step: Option<String>,
    /// A completed step (repeatable)
    #[arg(long = "completed", value_name = "WHAT", allow_hyphen_values = true)]
    completed_steps: Vec<String>,
    /// A next step (repeatable); replaces the earlier list
    #[arg(long = "next-step", value_name = "WHAT", allow_hyphen_values = true)]
    next_steps: Vec<String>,
    /// A blocker (repeatable); replaces the earlier list
    #[arg(long = "blocker", value_name = "WHAT", allow_hyphen_values = true)]
    blockers: Vec<String>,
    /// Remove all blockers of the agent
    #[arg(long, conflicts_with = "blockers")]
    clear_blockers: bool,
    /// A changed file (repeatable); added to the list
    #[arg(long = "file", value_name = "PATH")]
    files: Vec<String>,
    /// Empty the list of changed files, for example after a commit
    #[arg(long)]
    clear_files: bool,
    /// How to resume the work (`-` reads stdin)
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    recovery_instructions: Option<String>,
    /// Say whether the work can be resumed
    #[arg(long)]
    can_resume: Option<bool>,
    /// Time until the next report, such as `15m`
    #[arg(long, value_name = "IN", value_parser = typed::span, default_value = "15m")]
    next_checkpoint: u64,
    /// Report that the overview of the whole effort was updated
    #[arg(long)]
    updated_overview: bool,
    /// A sync point, where the agent waits for others or continues after them
    #[arg(long, value_name = "WHICH")]
    sync_point: Option<String>,
}

#[derive(Debug, Args)]
pub struct HeartbeatArgs {
    /// The step that the agent is at
    #[arg(long, value_name = "WHAT", allow_hyphen_values = true)]
    step: Option<String>,
    /// How full the context is, in percent, such as `89` or `89.9`
    #[arg(long, value_name = "PERCENT")]
    context_percent: Option<String>,
    /// Tokens used and total, such as `120000/200000`
    #[arg(long, value_name = "USED/TOTAL")]
    tokens: Option<String>,
}

pub fn run(command: AgentCommand, app: &mut App) -> CommandResult {
    match command {
        AgentCommand::Register(args) => register(&args, app),
        AgentCommand::List { retired } => list(retired, app),
        AgentCommand::Show(agent) => {
            let sightings = app.sightings()?;
            let view = app.run(&ShowAgent {
                agent: agent.name,
                sightings,
            })?;
            show(&view, app)
        }
        AgentCommand::Update(args) => {
            let Some(view) = app.run_or_keep(&args.request(app)?)? else {
                return Ok(ExitCode::SUCCESS);
            };
            app.ui.answer(&view, |page| {
                let step = view
                    .agent
                    .current_step
                    .as_ref()
                    .map_or_else(String::new, |step| format!("   {step}"));
                page.line(format_args!(
                    "{}  {}{step}",
                    view.agent.name,
                    state(view.agent.status.as_str())
                ));
            })?;
            Ok(ExitCode::SUCCESS)
        }
        AgentCommand::Monitor(args) => monitor::run(&args, app),
        AgentCommand::Resume(args) => recovery::resume(&args, app),
        AgentCommand::Takeover(args) => recovery::takeover(&args, app),
        AgentCommand::Restart(args) => recovery::restart(&args, app),
        AgentCommand::End(agent) => session::end(agent.name, app),
        AgentCommand::Sync(agent) => session::sync(agent.name, app),
        AgentCommand::Retire { name, reason } => {
            let reason = typed::maybe(reason.as_ref(), |text| typed::note("reason", text))?;
            let view = app.run(&RetireAgent {
                agent: name,
                reason,
            })?;
            app.ui.answer(&view, |page| {
                page.line(format_args!("{} retired", view.agent.name))
            })?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

pub fn heartbeat(args: HeartbeatArgs, app: &mut App) -> CommandResult {
    let tokens = match &args.tokens {
        Some(text) => Some(read_tokens(text)?),
        None => None,
    };
    let request = Heartbeat {
        step: typed::maybe(args.step.as_ref(), |text| typed::title("step", text))?,
        context_percent: args
            .context_percent
            .as_deref()
            .map(read_percent)
            .transpose()?,
        tokens,
    };
    let Some(beaten) = app.run_or_keep(&request)? else {
        return Ok(ExitCode::SUCCESS);
    };
    session::say_beaten(&beaten, app)
}

/// Parses a percentage, rounded down. The operation refuses more than 100.
fn read_percent(text: &str) -> Result<u8, Refusal> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let over = digits(part) && part.bytes().any(|byte| byte != b'0');
    match whole.parse::<u64>() {
        Ok(100) if over => Ok(101),
        Ok(percent) if digits(whole) && digits(part) => {
            Ok(u8::try_from(percent).unwrap_or(u8::MAX))
        }
        Ok(_) | Err(_) => Err(Refusal::invalid(format!("`{text}` is not a percentage"))
            .hint("give `--context-percent` from 0 to 100, or `--tokens USED/TOTAL`")),
    }
}

fn read_tokens(text: &str) -> Result<(u64, u64), Refusal> {
    let read = text
        .split_once('/')
        .and_then(|(used, total)| Some((used.parse().ok()?, total.parse().ok()?)));
    match read {
        Some(tokens) => Ok(tokens),
        None => Err(Refusal::invalid(format!("`{text}` does not count tokens"))
            .hint("write `--tokens 120000/200000`")),
    }
}

/// Describes the process with this number, as it is stored.
fn process_of(pid: Option<u32>) -> Result<Option<Process>, Refusal> {
    let describe = |pid| {
        workspace::describe(pid).ok_or_else(|| {
            Refusal::invalid(format!("there is no process {pid} on this machine"))
                .hint("leave `--pid` out, or give a running one")
        })
    };
    pid.map(describe).transpose()
}

fn register(args: &RegisterArgs, app: &mut App) -> CommandResult {
    let request = RegisterAgent {
        name: typed::name("agent name", &args.name)?,
        role: args.role.map(|role| match role {
            RoleArg::Dispatch => Role::Dispatch,
            RoleArg::Specialist => Role::Specialist,
        }),
        kind: typed::maybe(args.kind.as_ref(), |text| typed::name("type", text))?,
        session: typed::maybe(args.session.as_ref(), |text| typed::title("session", text))?,
        process: process_of(args.pid)?,
        feature: typed::maybe(args.feature.as_ref(), |text| typed::title("feature", text))?,
    };
    let view = app.run(&request)?;
    app.sessions()?.begun(&view.agent);
    let kinds: &[Kind] = match view.start {
        Some(_) => &[Kind::Checkpoint],
        None => &[],
    };
    let short = app.short(kinds, &view)?;
    if let Some(warning) = view.start.as_ref().and_then(SessionStart::warning) {
        app.ui.warn(warning);
    }
    app.ui.answer(&view, |page| {
        let agent = &view.agent;
        page.line(format_args!(
            "{}  {}  epoch {}",
            agent.name,
            agent.role.as_str(),
            agent.epoch
        ));
        page.line(format_args!(
            "Act as it with: export FLEET_AGENT={} FLEET_EPOCH={}",
            agent.name, agent.epoch
        ));
        let pending = |briefing: &BriefingView| briefing.status == "pending";
        let start = view.start.as_ref().filter(|start| start.problem.is_none());
        if let Some(start) = start {
            page.line(format_args!(
                "It continues from {} in {} mode.",
                short.id(start.checkpoint_id),
                start.mode.as_str()
            ));
        }
        if start.is_some() || view.briefing.as_ref().is_some_and(pending) {
            let briefing = page.command(format!("fleet context --agent {}", agent.name));
            page.line(format_args!(
                "It has work from before. Its briefing: {briefing}"
            ));
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

fn list(retired: bool, app: &mut App) -> CommandResult {
    let sightings = app.sightings()?;
    let agents = app.run(&ListAgents { retired, sightings })?;
    let (short, now) = (app.short(&[Kind::Sortie], &agents)?, app.now()?);
    app.ui.answer(&agents, |page| {
        page.at(now);
        if agents.is_empty() {
            page.line("No agent yet. The first command with `--agent NAME` registers one.");
            return;
        }
        let rows: Vec<Vec<Cell>> = agents
            .iter()
            .map(|view| {
                let holds: Vec<String> = view
                    .sorties
                    .iter()
                    .map(|id| short.id(id))
                    .chain(view.locks.iter().map(ToString::to_string))
                    .collect();
                vec![
                    Cell::new(&view.agent.name),
                    Cell::new(view.agent.role.as_str()),
                    state(if view.agent.retired_at.is_some() {
                        "retired"
                    } else {
                        view.liveness.life.as_str()
                    }),
                    Cell::new(view.agent.epoch),
                    Cell::new(view.unread),
                    Cell::new(&view.liveness.evidence),
                    Cell::new(if holds.is_empty() {
                        "-".to_owned()
                    } else {
                        holds.join(", ")
                    }),
                ]
            })
            .collect();
        page.table(
            &[
                "NAME", "ROLE", "LIFE", "EPOCH", "UNREAD", "EVIDENCE", "HOLDS",
            ],
            &rows,
        );
    })?;
    Ok(ExitCode::SUCCESS)
}

impl AgentUpdateArgs {
    fn request(&self, app: &App) -> Result<UpdateAgent, Refusal> {
        let title = |what: &'static str| move |text: &str| typed::title(what, text);
        Ok(UpdateAgent {
            agent: self.agent.name.clone(),
            status: self.status.map(|status| match status {
                StatusArg::Idle => AgentStatus::Idle,
                StatusArg::InProgress => AgentStatus::InProgress,
                StatusArg::Waiting => AgentStatus::Waiting,
                StatusArg::Blocked => AgentStatus::Blocked,
                StatusArg::Complete => AgentStatus::Complete,
            }),
            feature: typed::maybe(self.feature.as_ref(), title("feature"))?,
            stage: typed::maybe(self.stage.as_ref(), title("stage"))?,
            phase: typed::maybe(self.phase.as_ref(), title("phase"))?,
            step: typed::maybe(self.step.as_ref(), title("step"))?,
            completed_steps: typed::titles("step", &self.completed_steps)?,
            next_steps: typed::titles("next step", &self.next_steps)?,
            blockers: typed::titles("blocker", &self.blockers)?,
            clear_blockers: self.clear_blockers,
            files: app.paths(&self.files)?,
            clear_files: self.clear_files,
            recovery_instructions: typed::maybe(self.recovery_instructions.as_ref(), |text| {
                typed::note("recovery instructions", text)
            })?,
            can_resume: self.can_resume,
            next_checkpoint_ms: Some(self.next_checkpoint),
            updated_overview: self.updated_overview,
            sync_point: typed::maybe(self.sync_point.as_ref(), title("sync point"))?,
        })
    }
}

fn show(view: &AgentView, app: &mut App) -> CommandResult {
    let (short, now) = (app.short(&[Kind::Sortie], view)?, app.now()?);
    app.ui.answer(view, |page| {
        page.at(now);
        let sorties: Vec<String> = view.sorties.iter().map(|id| short.id(id)).collect();
        details(page, view, &sorties);
    })?;
    Ok(ExitCode::SUCCESS)
}

fn details(page: &mut Page, view: &AgentView, sorties: &[String]) {
    let agent = &view.agent;
    page.line(format_args!(
        "{}   {}   {}   epoch {}",
        Cell::styled(&agent.name, BOLD),
        agent.role.as_str(),
        state(view.liveness.life.as_str()),
        agent.epoch
    ));
    let list = |items: Vec<String>| (!items.is_empty()).then(|| items.join(", "));
    let text = |title: Option<&flightline::core::Title>| title.map(ToString::to_string);
    let facts = [
        ("Evidence", Some(view.liveness.evidence.clone())),
        ("Status", Some(agent.status.as_str().replace('_', " "))),
        ("Type", agent.kind.as_ref().map(ToString::to_string)),
        ("Session", text(agent.session_id.as_ref())),
        (
            "Process",
            agent
                .process
                .as_ref()
                .map(|process| format!("{} on {}", process.pid, process.host)),
        ),
        ("Feature", text(agent.feature.as_ref())),
        ("Stage", text(agent.stage.as_ref())),
        ("Phase", text(agent.phase.as_ref())),
        ("Step", text(agent.current_step.as_ref())),
        (
            "Context",
            view.pulse["context_percent"]
                .as_u64()
                .map(|percent| format!("{percent} % full")),
        ),
        (
            "Mode",
            (!agent.mode.is_normal())
                .then(|| format!("{}, until its task is complete", agent.mode.as_str())),
        ),
        (
            "Done",
            list(
                view.completed_steps
                    .iter()
                    .map(|step| step.text.to_string())
                    .collect(),
            ),
        ),
        (
            "Next",
            list(agent.next_steps.iter().map(ToString::to_string).collect()),
        ),
        (
            "Blockers",
            list(agent.blockers.iter().map(ToString::to_string).collect()),
        ),
        (
            "Files",
            list(
                agent
                    .files_modified
                    .iter()
                    .map(ToString::to_string)
                    .collect(),
            ),
        ),
        ("Sorties", list(sorties.to_vec())),
        (
            "Locks",
            list(view.locks.iter().map(ToString::to_string).collect()),
        ),
        (
            "Unread mail",
            (view.unread > 0).then(|| view.unread.to_string()),
        ),
        (
            "Recovery",
            agent
                .recovery_instructions
                .as_ref()
                .map(ToString::to_string),
        ),
        ("Last sign", view.last_sign.map(|at| page.time(at))),
        ("Last report", agent.last_checkpoint.map(|at| page.time(at))),
    ];
    let rows: Vec<Vec<Cell>> = facts
        .into_iter()
        .filter_map(|(name, value)| Some(vec![Cell::dim(name), Cell::new(value?)]))
        .collect();
    page.table(&[], &rows);
}
