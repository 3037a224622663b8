//! `fleet missions`: creates, shows and edits missions, and moves them from state to state.

use std::collections::BTreeMap;
use std::process::ExitCode;

use clap::{Args, Subcommand, ValueEnum};
use flightline::core::mission::{MissionStatus, Pinning};
use flightline::core::{Kind, Name, Refusal};
use flightline::mission::update::UpdateMission;
use flightline::mission::{
    ChangeMission, CreateMission, ListMissions, MissionView, ShowMission, TransitionMission,
    UseMission,
};
use flightline::sortie::add::NewSortie;

use super::{CommandResult, typed};
use crate::app::{App, DisplayIds};
use crate::complete;
use crate::ui::{BOLD, Cell, Page, bar, state};

#[derive(Debug, Subcommand)]
pub enum MissionCommand {
    /// Create a mission, with its first sorties
    Create(CreateArgs),
    /// List missions, newest first
    List {
        /// Include missions that were archived
        #[arg(long)]
        archived: bool,
        /// Maximum number of missions
        #[arg(long, default_value_t = 50)]
        limit: u64,
    },
    /// Show a mission
    Show {
        /// The mission: its id, or the beginning of it (default: the current one)
        #[arg(add = complete::missions())]
        id: Option<String>,
    },
    /// Edit a mission; fields not given stay unchanged
    Edit(MissionEditArgs),
    /// Start a mission, or continue it
    Start(ChangeArgs),
    /// Pause a mission
    Pause(ChangeArgs),
    /// Complete a mission; every sortie must be completed
    Complete(ChangeArgs),
    /// Give up a mission: mark it as failed
    Fail(ChangeArgs),
    /// Archive a mission; nothing is deleted
    Archive(ChangeArgs),
    /// Move a mission's workflow to another state
    Transition {
        /// The state to move to
        to: String,
        /// The reason for the move, kept as its trigger
        #[arg(long, allow_hyphen_values = true)]
        reason: Option<String>,
        /// Only record that the move is pending
        #[arg(long)]
        pending: bool,
    },
    /// Make a mission the current one
    Use {
        /// The mission: its id, or the beginning of it
        #[arg(add = complete::missions())]
        id: String,
    },
}

#[derive(Debug, Args)]
pub struct CreateArgs {
    /// The title: the mission in one line
    title: String,
    /// The objective: the state to reach
    #[arg(long, allow_hyphen_values = true)]
    objective: Option<String>,
    /// The title of a sortie (repeatable)
    #[arg(long = "sortie", value_name = "TITLE")]
    sorties: Vec<String>,
    /// The phase it begins in, in your own words
    #[arg(long)]
    phase: Option<String>,
    /// The technology stack it belongs to
    #[arg(long, value_name = "STACK")]
    stack_id: Option<String>,
    /// The sprint it belongs to
    #[arg(long)]
    sprint: Option<String>,
    /// The agent that coordinates it
    #[arg(long, value_name = "NAME", add = complete::agents())]
    dispatch: Option<String>,
    /// A workflow state and its possible next states, such as `planning:building,done`
    #[arg(long = "state", value_name = "STATE[:NEXT,…]")]
    states: Vec<String>,
}

#[derive(Debug, Args)]
pub struct MissionEditArgs {
    /// The mission: its id, or the beginning of it (default: the current one)
    #[arg(add = complete::missions())]
    id: Option<String>,
    /// The title: the mission in one line
    #[arg(long)]
    title: Option<String>,
    /// The objective: the state to reach
    #[arg(long, allow_hyphen_values = true)]
    objective: Option<String>,
    /// The phase it is in, in your own words
    #[arg(long)]
    phase: Option<String>,
    /// The technology stack it belongs to
    #[arg(long, value_name = "STACK")]
    stack_id: Option<String>,
    /// The sprint it belongs to
    #[arg(long)]
    sprint: Option<String>,
    /// The agent that coordinates it
    #[arg(long, value_name = "NAME", add = complete::agents())]
    dispatch: Option<String>,
    /// Say who may pin constraints: everyone, or only dispatch and people
    #[arg(long, value_name = "WHO")]
    constraints_by: Option<PinningArg>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum PinningArg {
    Everyone,
    Dispatch,
}

#[derive(Debug, Args)]
pub struct ChangeArgs {
    /// The mission: its id, or the beginning of it (default: the current one)
    #[arg(add = complete::missions())]
    id: Option<String>,
    /// The reason for the change, kept in its history
    #[arg(long, allow_hyphen_values = true)]
    reason: Option<String>,
}

pub fn run(command: MissionCommand, app: &mut App) -> CommandResult {
    match command {
        MissionCommand::Create(args) => create(&args, app),
        MissionCommand::List { archived, limit } => list(archived, limit, app),
        MissionCommand::Show { id } => {
            let view = app.run(&ShowMission { mission: id })?;
            show(&view, app)
        }
        MissionCommand::Edit(args) => edit(args, app),
        MissionCommand::Start(args) => change(args, MissionStatus::InProgress, app),
        MissionCommand::Pause(args) => change(args, MissionStatus::Paused, app),
        MissionCommand::Complete(args) => change(args, MissionStatus::Completed, app),
        MissionCommand::Fail(args) => change(args, MissionStatus::Failed, app),
        MissionCommand::Archive(args) => change(args, MissionStatus::Archived, app),
        MissionCommand::Transition {
            to,
            reason,
            pending,
        } => {
            let request = TransitionMission {
                mission: None,
                to: typed::name("state", &to)?,
                reason: typed::maybe(reason.as_ref(), |text| typed::note("reason", text))?,
                pending,
            };
            let view = app.run(&request)?;
            say(app, &view, |page, id, view| {
                let workflow = &view.mission.workflow;
                let from = workflow
                    .previous
                    .as_ref()
                    .map_or_else(|| "the beginning".to_owned(), ToString::to_string);
                match (&workflow.current, pending) {
                    (Some(current), false) => page.line(format_args!("{id}  {from} → {current}")),
                    _ => page.line(format_args!("{id}  will move to {to}")),
                }
            })
        }
        MissionCommand::Use { id } => {
            let view = app.run(&UseMission { mission: id })?;
            say(app, &view, |page, id, view| {
                page.line(format_args!(
                    "{id}  {}   is now the current mission",
                    view.mission.title
                ))
            })
        }
    }
}

fn create(args: &CreateArgs, app: &mut App) -> CommandResult {
    let sorties = typed::titles("sortie title", &args.sorties)?
        .into_iter()
        .map(NewSortie::titled)
        .collect();
    let request = CreateMission {
        title: typed::title("title", &args.title)?,
        objective: typed::maybe(args.objective.as_ref(), |text| {
            typed::note("objective", text)
        })?,
        phase: typed::maybe(args.phase.as_ref(), |text| typed::title("phase", text))?,
        stack_id: typed::maybe(args.stack_id.as_ref(), |text| typed::name("stack id", text))?,
        sprint: typed::maybe(args.sprint.as_ref(), |text| typed::title("sprint", text))?,
        dispatch: args.dispatch.clone(),
        states: states(&args.states)?,
        sorties,
    };
    let view = app.run(&request)?;
    let short = app.short(&[Kind::Mission, Kind::Sortie], &view)?;
    app.ui.answer(&view, |page| {
        page.line(format_args!(
            "{}  {}",
            short.id(view.mission.id),
            view.mission.title
        ));
        for sortie in &view.sorties {
            let name = super::sortie::name(sortie);
            page.line(format_args!("  {}  {name}", short.id(sortie.id)));
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

fn edit(args: MissionEditArgs, app: &mut App) -> CommandResult {
    let request = UpdateMission {
        mission: args.id,
        title: typed::maybe(args.title.as_ref(), |text| typed::title("title", text))?,
        objective: typed::maybe(args.objective.as_ref(), |text| {
            typed::note("objective", text)
        })?,
        phase: typed::maybe(args.phase.as_ref(), |text| typed::title("phase", text))?,
        stack_id: typed::maybe(args.stack_id.as_ref(), |text| typed::name("stack id", text))?,
        sprint: typed::maybe(args.sprint.as_ref(), |text| typed::title("sprint", text))?,
        dispatch: args.dispatch,
        constraints_by: args.constraints_by.map(|who| match who {
            PinningArg::Everyone => Pinning::Everyone,
            PinningArg::Dispatch => Pinning::Dispatch,
        }),
    };
    let view = app.run(&request)?;
    show(&view, app)
}

fn states(typed_states: &[String]) -> Result<BTreeMap<Name, Vec<Name>>, Refusal> {
    let read = |text: &String| {
        let (state, next) = text.split_once(':').unwrap_or((text, ""));
        let next = next.split(',').filter(|name| !name.is_empty());
        Ok((
            typed::name("state", state)?,
            next.map(|name| typed::name("state", name))
                .collect::<Result<_, _>>()?,
        ))
    };
    typed_states.iter().map(read).collect()
}

fn list(archived: bool, limit: u64, app: &mut App) -> CommandResult {
    let missions = app.run(&ListMissions { archived, limit })?;
    let (short, now) = (app.short(&[Kind::Mission], &missions)?, app.now()?);
    app.ui.answer(&missions, |page| {
        page.at(now);
        if missions.is_empty() {
            page.line("No mission yet.");
            return;
        }
        let rows: Vec<Vec<Cell>> = missions
            .iter()
            .map(|mission| {
                vec![
                    short.id(mission.id).into(),
                    state(&mission.status),
                    Cell::new(format_args!("{} %", mission.progress_percent)),
                    Cell::new(format_args!(
                        "{}/{}",
                        mission.progress.completed, mission.progress.total
                    )),
                    Cell::new(page.time(mission.updated_at)),
                    Cell::new(&mission.title),
                    Cell::dim(if mission.current { "(current)" } else { "" }),
                ]
            })
            .collect();
        page.table(
            &["ID", "STATUS", "PROGRESS", "SORTIES", "CHANGED", "TITLE"],
            &rows,
        );
    })?;
    Ok(ExitCode::SUCCESS)
}

fn change(args: ChangeArgs, to: MissionStatus, app: &mut App) -> CommandResult {
    let reason = typed::maybe(args.reason.as_ref(), |text| typed::note("reason", text))?;
    let view = app.run(&ChangeMission {
        mission: args.id,
        to,
        reason,
    })?;
    say(app, &view, |page, id, view| {
        let checkpoint = view.checkpoint.map_or_else(String::new, |id| {
            format!("   checkpoint {}", &id.to_string()[..12])
        });
        let already = match view.already {
            true => "   unchanged: already in that state",
            false => "",
        };
        page.line(format_args!(
            "{}  {id}  {}{checkpoint}{already}",
            state(view.mission.status.as_str()),
            view.mission.title
        ));
        super::lock::say_released(page, &view.released_locks);
    })
}

fn say(
    app: &mut App,
    view: &MissionView,
    say: impl FnOnce(&mut Page, String, &MissionView),
) -> CommandResult {
    let short = app.short(&[Kind::Mission], view)?;
    app.ui
        .answer(view, |page| say(page, short.id(view.mission.id), view))?;
    Ok(ExitCode::SUCCESS)
}

fn show(view: &MissionView, app: &mut App) -> CommandResult {
    let (short, now) = (app.short(&[Kind::Mission, Kind::Sortie], view)?, app.now()?);
    app.ui.answer(view, |page| {
        page.at(now);
        details(page, view, &short);
    })?;
    Ok(ExitCode::SUCCESS)
}

fn details(page: &mut Page, view: &MissionView, short: &DisplayIds) {
    let mission = &view.mission;
    page.line(format_args!(
        "{}   {}   {}",
        Cell::styled(&mission.title, BOLD),
        short.id(mission.id),
        state(mission.status.as_str())
    ));
    page.line(format_args!(
        "{} %   {}  {} of {}",
        view.progress_percent,
        bar(view.progress_percent),
        view.progress.completed,
        view.progress.total
    ));
    let mut facts: Vec<(&str, String)> = Vec::new();
    let mut fact = |name, value: Option<String>| facts.extend(value.map(|value| (name, value)));
    fact(
        "Objective",
        mission.objective.as_ref().map(ToString::to_string),
    );
    fact("Phase", mission.phase.as_ref().map(ToString::to_string));
    fact("Stack", mission.stack_id.as_ref().map(ToString::to_string));
    fact("Sprint", mission.sprint.as_ref().map(ToString::to_string));
    fact(
        "State",
        mission.workflow.current.as_ref().map(ToString::to_string),
    );
    let pending: Vec<String> = mission
        .workflow
        .pending
        .iter()
        .map(ToString::to_string)
        .collect();
    fact("Pending", (!pending.is_empty()).then(|| pending.join(", ")));
    let history: Vec<&str> = view
        .history
        .iter()
        .map(|past| past.state.as_str())
        .collect();
    fact(
        "History",
        (!history.is_empty()).then(|| history.join(" → ")),
    );
    fact(
        "Constraints",
        match mission.constraints_by {
            Pinning::Everyone => None,
            Pinning::Dispatch => Some("pinned by dispatch and people only".to_owned()),
        },
    );
    fact("Reason", mission.reason.as_ref().map(ToString::to_string));
    fact("Created", Some(page.time(mission.created_at)));
    fact("Started", mission.started_at.map(|at| page.time(at)));
    fact("Ended", mission.completed_at.map(|at| page.time(at)));
    let rows: Vec<Vec<Cell>> = facts
        .into_iter()
        .map(|(name, value)| vec![Cell::dim(name), value.into()])
        .collect();
    page.table(&[], &rows);
    page.line("");
    super::sortie::table(page, &view.sorties, short);
}
