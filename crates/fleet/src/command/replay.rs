//! `fleet replay`: steps through a mission's history, with keys on a terminal, else as text or JSON lines.

mod browse;

use std::collections::BTreeMap;
use std::process::ExitCode;

use clap::Args;
use flightline::core::setting::RecoveryKind;
use flightline::core::{CheckpointId, Code, Kind, MissionId, Refusal};
use flightline::replay::{PageStart, Replay, ReplayPage, ReplayStep, StateAt};
use serde::Serialize;

use super::CommandResult;
use super::checkpoint::show;
use super::event::story;
use super::plain::Words;
use crate::app::{App, DisplayIds};
use crate::complete;
use crate::terminal::KeyReader;
use crate::ui::{Cell, Page};
use browse::{BrowseView, Browser};
pub use browse::{Decoder, Key};

#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// Start at this checkpoint or revision (default: the mission's first step)
    #[arg(long, value_name = "CHK|REV", add = complete::checkpoints())]
    from: Option<String>,
    /// End at this checkpoint or revision (default: the newest step)
    #[arg(long, value_name = "CHK|REV", add = complete::checkpoints())]
    to: Option<String>,
    /// Show only this step, and the state after it
    #[arg(long, value_name = "CHK|REV", conflicts_with_all = ["from", "to"], add = complete::checkpoints())]
    step: Option<String>,
}

/// The number of events to read at once. Far more than a screen holds, far less than a history.
const PAGE: u64 = 200;

/// The most events of one step that are told one by one.
const TOLD: usize = 40;

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ReplayLine {
    /// The header of the replay: the first line.
    Replay(Header),
    Step(Box<ReplayStep>),
    /// The state at the end: the last line.
    End(Box<End>),
}

/// Header of a replay: the mission, and the range of revisions.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Header {
    /// Id of the replayed mission.
    pub mission_id: MissionId,
    /// Title of the replayed mission.
    pub title: String,
    /// Id of the unbroken journal that the steps come from.
    pub history: String,
    /// First revision of the replay.
    pub from: u64,
    /// Last revision of the replay.
    pub to: u64,
}

/// End of a replay.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct End {
    /// Number of steps in the replay.
    pub steps: u64,
    /// State of the mission after the last step.
    pub state: Option<StateAt>,
    /// Reason for which that state is not known any more.
    pub no_state: Option<Refusal>,
}

pub fn run(args: &ReplayArgs, app: &mut App) -> CommandResult {
    if let Some(step) = &args.step {
        return alone(step, app);
    }
    let request = Replay {
        from: args.from.clone(),
        to: args.to.clone(),
        limit: PAGE,
        ..Replay::default()
    };
    open(request, app)
}

/// Opens the replay of a mission at the checkpoint it was resumed from.
pub fn open_at(mission: MissionId, checkpoint: CheckpointId, app: &mut App) -> CommandResult {
    let request = Replay {
        mission: Some(mission.to_string()),
        from: Some(checkpoint.to_string()),
        limit: PAGE,
        ..Replay::default()
    };
    open(request, app)
}

/// Browses with keys on a terminal, else prints text or JSON lines.
fn open(request: Replay, app: &mut App) -> CommandResult {
    if app.ui.is_interactive() && !app.globals.no_input {
        browse(request, app)
    } else {
        stream(request, app)
    }
}

fn header(page: &ReplayPage) -> Header {
    Header {
        mission_id: page.mission_id,
        title: page.title.clone(),
        history: page.history.clone(),
        from: page.from,
        to: page.to,
    }
}

/// Prints one step, and the state after it.
fn alone(step: &str, app: &mut App) -> CommandResult {
    let mut page = app.run(&at(None, step.to_owned()))?;
    let short = shortener(app, &page)?;
    let Some(step) = page.steps.pop() else {
        return Err(Refusal::new(Code::NotFound, "there is no such step"));
    };
    app.ui.answer(&step, |out| {
        say_step(out, &step, &words(&short, &page.names));
        out.line("");
        say_state(out, &step, &short);
    })?;
    Ok(ExitCode::SUCCESS)
}

fn at(mission: Option<String>, of: String) -> Replay {
    Replay {
        mission,
        place: PageStart::At { of },
        limit: PAGE,
        states: true,
        ..Replay::default()
    }
}

/// Prints step after step, as text or as JSON lines.
fn stream(request: Replay, app: &mut App) -> CommandResult {
    let mut page = app.run(&request)?;
    let mut short = shortener(app, &page)?;
    let head = header(&page);
    let mut request = Replay {
        history: Some(head.history.clone()),
        ..request
    };
    // Fields are those of steps.
    let framed = app.ui.fields.is_empty();
    if framed {
        let line = format!(
            "Replay of {} \"{}\", revisions {} to {}",
            short.id(head.mission_id),
            head.title,
            head.from,
            head.to
        );
        app.ui.element(&ReplayLine::Replay(head.clone()), line)?;
    }
    let (mut steps, mut last) = (0, None);
    // Steps written meanwhile belong to another replay.
    let asked = |page: &mut ReplayPage| page.steps.retain(|step| step.step <= head.to);
    asked(&mut page);
    while let Some(rev) = page.steps.last().map(|step| step.rev) {
        for step in page.steps {
            let mut out = app.ui.page();
            out.line("");
            say_step(&mut out, &step, &words(&short, &page.names));
            app.ui.element(
                &ReplayLine::Step(Box::new(step)),
                format_args!("{}", out.text()),
            )?;
            steps += 1;
        }
        last = Some(rev);
        request.place = PageStart::After { rev };
        page = app.run(&request)?;
        asked(&mut page);
        short = shortener(app, &page)?;
    }
    let state = match last {
        Some(rev) => {
            let mission = Some(head.mission_id.to_string());
            app.run(&at(mission, rev.to_string()))?.steps.pop()
        }
        None => None,
    };
    if framed {
        let mut out = app.ui.page();
        out.line("");
        say_end(&mut out, steps, state.as_ref());
        let (state, no_state) = state.map_or((None, None), |step| (step.state, step.no_state));
        let end = End {
            steps,
            state,
            no_state,
        };
        app.ui.element(
            &ReplayLine::End(Box::new(end)),
            format_args!("{}", out.text()),
        )?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Goes forwards and back through the steps, key by key.
fn browse(request: Replay, app: &mut App) -> CommandResult {
    // The keys are ours to read.
    app.ui.pager = None;
    // From where it opens one can go back as well.
    let opening = match &request.from {
        Some(of) => PageStart::At { of: of.clone() },
        None => PageStart::First,
    };
    let mut names = BTreeMap::new();
    let mut request = Replay {
        from: None,
        ..request
    };
    let first = app.run(&Replay {
        place: opening.clone(),
        ..request.clone()
    });
    // Nothing happened at this revision: the page begins with the events after it.
    let page = match (first, &opening) {
        (Err(refusal), PageStart::At { of }) if refusal.code == Code::NotFound => {
            app.run(&Replay {
                from: Some(of.clone()),
                ..request.clone()
            })?
        }
        (page, _) => page?,
    };
    let head = header(&page);
    let short = shortener(app, &head)?;
    request.mission = Some(head.mission_id.to_string());
    request.history = Some(head.history.clone());
    app.ui.answer(&head, |out| {
        out.line(format_args!(
            "Replay of {} \"{}\"",
            short.id(head.mission_id),
            head.title
        ));
    })?;
    names.extend(page.names);
    let mut browser = Browser::new(page.steps);
    let mut keys = KeyReader::open().map_err(|error| {
        Refusal::new(
            Code::Failed,
            format!("cannot read keys from the terminal: {error}"),
        )
        .hint("for text without keys: `fleet replay --no-input`")
    })?;
    let mut said = BrowseView::Step;
    loop {
        match said {
            BrowseView::Quit => return Ok(ExitCode::SUCCESS),
            BrowseView::Step | BrowseView::State => {
                if let Some(step) = browser.step() {
                    show_one(app, step, &said, &head, &names)?;
                }
            }
            BrowseView::FirstAlready => app.ui.talk("This is the first step."),
            BrowseView::LastAlready => app.ui.talk("This is the last step."),
            BrowseView::Help => app.ui.talk(HELP),
        }
        let prompt = browser.step().map_or_else(
            || "nothing happened there; q to quit ".to_owned(),
            |step| {
                format!(
                    "step {}: n next, p previous, s state, ? keys, q quit ",
                    step.step
                )
            },
        );
        app.ui.replace_line("", &prompt);
        let key = keys.next_key().map_err(|error| {
            Refusal::new(Code::Failed, format!("cannot read the terminal: {error}"))
        })?;
        app.ui.replace_line(&prompt, "");
        said = browser.press(key.unwrap_or(Key::Quit), |place| {
            let page = app.run(&Replay {
                place,
                ..request.clone()
            })?;
            names.extend(page.names);
            Ok(page.steps)
        })?;
    }
}

const HELP: &str = "\
n, right, space, enter   next step
p, left, backspace       previous step
g, home                  first step
G, end                   last step
s                        the state after this step
q                        quit";

fn show_one(
    app: &mut App,
    step: &ReplayStep,
    said: &BrowseView,
    head: &Header,
    names: &BTreeMap<String, String>,
) -> Result<(), Refusal> {
    if *said != BrowseView::State {
        let short = shortener(app, step)?;
        return app.ui.answer(step, |out| {
            say_step(out, step, &words(&short, names));
        });
    }
    let mission = Some(head.mission_id.to_string());
    let page = app.run(&at(mission, step.rev.to_string()))?;
    match page.steps.first() {
        Some(step) => {
            let short = shortener(app, step)?;
            app.ui.answer(step, |out| say_state(out, step, &short))
        }
        None => Ok(()),
    }
}

fn shortener<T: Serialize>(app: &mut App, shown: &T) -> Result<DisplayIds, Refusal> {
    app.short(
        &[
            Kind::Mission,
            Kind::Sortie,
            Kind::Agent,
            Kind::Lock,
            Kind::Message,
            Kind::Checkpoint,
        ],
        shown,
    )
}

fn words<'a>(short: &'a DisplayIds, names: &'a BTreeMap<String, String>) -> Words<'a> {
    Words { short, names }
}

/// Prints a step: its actor, its time, its commands, and before → after.
fn say_step(page: &mut Page, step: &ReplayStep, words: &Words<'_>) {
    let timeline = match step.timeline {
        Some(timeline) if timeline > 0 => format!("   timeline {timeline}"),
        _ => String::new(),
    };
    page.line(format_args!(
        "{}   {}   {}{timeline}",
        Cell::bold(format_args!("Step {}", step.step)),
        step.timestamp.to_seconds(),
        step.actor
    ));
    if let Some(recovery) = &step.recovery {
        let id = words.short.id(recovery.checkpoint_id);
        let begins = match step.timeline {
            Some(timeline) => format!("; timeline {timeline} begins"),
            None => String::new(),
        };
        page.line(match (recovery.kind, recovery.undo) {
            (RecoveryKind::RollForward, _) => format!("  Resumed from {id}"),
            (RecoveryKind::Rewind, false) => format!("  Went back to {id}{begins}"),
            (RecoveryKind::Rewind, true) => {
                format!("  Undid a rewind: as it was at {id}{begins}")
            }
        });
    }
    let mut told: Vec<(Kind, &str)> = Vec::new();
    for event in step.events.iter().take(TOLD) {
        let subject = (event.subject_kind, event.subject.as_str());
        page.line(format_args!("  {}", story(event, words.short, words.names)));
        let change = step
            .changes
            .iter()
            .find(|change| (change.kind, change.id.as_str()) == subject);
        // Of several events about one subject, the first shows the result of all of them.
        if let Some(change) = change.filter(|_| !told.contains(&subject)) {
            told.push(subject);
            if change.change == "changed" {
                words.fields(page, 4, &without_the_time(change, step));
            }
        }
    }
    if step.events.len() > TOLD {
        page.hint(format_args!(
            "  … and {} more events; all of them: `fleet replay --step {} --json`",
            step.events.len() - TOLD,
            step.step
        ));
    }
    if let Some(missing) = &step.missing {
        let things: Vec<String> = missing
            .values
            .iter()
            .take(5)
            .map(|value| words.thing(&value.id))
            .collect();
        let more = missing.values.len().saturating_sub(things.len());
        let more = match more {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let why = match missing.code {
            Code::Integrity => "the store has no sound copy (`fleet doctor`)",
            _ => "retention has taken them",
        };
        page.hint(format_args!(
            "  The values of {}{more} are no longer known: {why}.",
            things.join(", ")
        ));
        let commands: Vec<String> = missing
            .checkpoints
            .iter()
            .map(|id| format!("`fleet checkpoints show {}`", words.short.id(id)))
            .collect();
        if !commands.is_empty() {
            page.hint(format_args!(
                "  Nearest checkpoints that were kept: {}",
                commands.join(", ")
            ));
        }
    }
}

/// Drops the fields of a change that only hold the step's time: the step shows it already.
fn without_the_time(
    change: &flightline::checkpoint::inspect::Difference,
    step: &ReplayStep,
) -> flightline::checkpoint::inspect::Difference {
    let mut change = change.clone();
    let now = serde_json::Value::String(step.timestamp.to_string());
    change.fields.retain(|_, (_, is)| *is != now);
    change
}

/// Prints the state after a step.
fn say_state(page: &mut Page, step: &ReplayStep, short: &DisplayIds) {
    if let Some(refusal) = &step.no_state {
        page.line(format_args!("The state is not known: {}", refusal.message));
        if let Some(hint) = &refusal.hint {
            page.line(hint);
        }
    }
    let Some(state) = &step.state else { return };
    page.line(format_args!(
        "State after step {} (revision {})",
        step.step, state.rev
    ));
    page.line(format_args!(
        "Mission: {} \"{}\", {}",
        short.id(state.mission.id),
        state.mission.title,
        state.mission.status.as_str().replace('_', " ")
    ));
    if let Some(current) = &state.mission.workflow.current {
        page.line(format_args!("Workflow: {current}"));
    }
    page.line(format_args!("Progress: {}%", state.progress_percent));
    page.line(format_args!("Timeline: {}", state.mission.timeline));
    page.line("");
    show::contents(
        page,
        &state.sorties,
        &state.active_locks,
        &state.pending_messages,
        &show::Reading {
            short,
            now: step.timestamp,
        },
    );
    page.line("");
    page.line(format_args!("Agents ({}):", state.agents.len()));
    let rows: Vec<Vec<Cell>> = state
        .agents
        .iter()
        .map(|agent| {
            vec![
                Cell::new(&agent.name).indent(2),
                Cell::new(agent.status.as_str().replace('_', " ")),
                Cell::new(agent.current_step.as_deref().unwrap_or("")),
            ]
        })
        .collect();
    page.columns(&[], &rows);
}

fn say_end(page: &mut Page, steps: u64, last: Option<&ReplayStep>) {
    let noun = if steps == 1 { "step" } else { "steps" };
    let Some(last) = last else {
        page.line("Nothing happened there.");
        return;
    };
    let state = match &last.state {
        Some(state) => format!(
            "; at the end {} {}, {} % complete",
            state.sorties.len(),
            match state.sorties.len() {
                1 => "sortie",
                _ => "sorties",
            },
            state.progress_percent
        ),
        None => String::new(),
    };
    page.line(format_args!("{steps} {noun}{state}"));
    let at = page.command(format!("fleet replay --step {}", last.step));
    page.line(format_args!("The state at a step: {at}"));
}
