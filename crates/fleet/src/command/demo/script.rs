//! What happens in the demo, in which order. It starts and kills processes; all else they do themselves.

use std::path::Path;
use std::time::Instant;

use flightline::checkpoint::inspect::ListCheckpoints;
use flightline::core::note::NoteKind;
use flightline::core::text::Note;
use flightline::core::{Code, Data, Name, Refusal, RepoPath, Time, Title};
use flightline::mission::CreateMission;
use flightline::note::AddNote;
use flightline::sortie::add::NewSortie;
use flightline::store::clock::Clock;
use serde_json::json;

use super::agent::{Duty, Report};
use super::crew::{Crew, Ending, Heard};
use super::part::{Part, SPECIALISTS, read_or_empty};
use crate::app::App;

/// The agent that is killed in the middle of an edit.
pub const KILLED: &str = "bob";
/// The agent that loses its context.
pub const FORGETFUL: &str = "carol";
/// The one that coordinates, and the one that takes its place.
pub const DISPATCH: &str = "dispatch";
pub const SUCCESSOR: &str = "dispatch-2";

/// The observations of the demo while it ran.
pub struct Played {
    /// When it began.
    pub began: Time,
    /// Why it did not come to its end, if it did not.
    pub failure: Option<String>,
    /// What the agents said.
    pub heard: Vec<Heard>,
    /// What the demo itself did.
    pub deeds: Vec<Deed>,
    /// How each agent ended.
    pub endings: Vec<(String, Option<Ending>)>,
}

/// Something the demo did.
pub struct Deed {
    pub at: Time,
    pub what: String,
}

/// Plays the whole story. When this returns, no process of it is left.
pub fn play(app: &mut App, folder: &Path, deadline: Instant) -> Played {
    let began = Clock::System.now();
    let user_state = app.env.user_state.clone();
    let mut crew = Crew::new(folder, user_state.as_deref(), deadline);
    let mut deeds = Vec::new();
    let failure = act(app, folder, &mut crew, &mut deeds).err();
    crew.dismiss();
    Played {
        began,
        failure,
        heard: crew.heard().to_vec(),
        deeds,
        endings: crew.endings(),
    }
}

fn act(app: &mut App, folder: &Path, crew: &mut Crew, deeds: &mut Vec<Deed>) -> Result<(), String> {
    crew.start(DISPATCH, Duty::Watch)?;
    for name in SPECIALISTS {
        crew.start(
            name,
            match name {
                KILLED => Duty::WorkAndHang,
                FORGETFUL => Duty::WorkAndForget,
                _ => Duty::Work,
            },
        )?;
    }
    crew.until("everybody to register", |crew| {
        let mut all = SPECIALISTS.iter().chain([&DISPATCH]);
        Ok(all.all(|name| crew.has_said(name, |report| matches!(report, Report::Ready))))
    })?;
    create_mission(app).map_err(|refusal| refusal.message)?;

    crew.until("bob to be in the middle of an edit", |crew| {
        Ok(crew.has_said(KILLED, |report| matches!(report, Report::MidEdit { .. })))
    })?;
    crew.until("the checkpoint at 25 %", |_| reached(app, 25))?;
    let left_behind = last_line(folder, crew)?;
    kill(crew, KILLED, deeds, &left_behind)?;
    crew.until("dispatch to bring bob's work back", |crew| {
        Ok(crew.has_said(DISPATCH, |report| matches!(report, Report::Resumed { .. })))
    })?;

    crew.until("the checkpoint at 50 %", |_| reached(app, 50))?;
    kill(crew, DISPATCH, deeds, "no agent coordinates now")?;
    crew.start(SUCCESSOR, Duty::WatchAndFinish)?;
    crew.until("the new dispatch to take over", |crew| {
        Ok(crew.has_said(SUCCESSOR, |report| matches!(report, Report::Resumed { .. })))
    })?;
    crew.until("everybody to finish", |crew| Ok(crew.all_ended()))
}

fn kill(
    crew: &mut Crew,
    name: &str,
    deeds: &mut Vec<Deed>,
    left_behind: &str,
) -> Result<(), String> {
    let pid = crew.pid(name).unwrap_or_default();
    let at = Clock::System.now();
    match crew.kill(name)? {
        Ending::Killed { signal: Some(9) } => {}
        other => return Err(format!("{name} was to be killed, but: {}", other.told())),
    }
    let what = format!("kills {name} (process {pid}) with SIGKILL; {left_behind}");
    deeds.push(Deed { at, what });
    Ok(())
}

/// How the file ends that was being edited, as it is on the disk.
fn last_line(folder: &Path, crew: &Crew) -> Result<String, String> {
    let file = crew
        .heard()
        .iter()
        .find_map(|heard| match &heard.said.report {
            Report::MidEdit { file } => Some(file.clone()),
            _ => None,
        });
    let file = file.ok_or("no agent reported which file was being edited")?;
    let text = read_or_empty(&folder.join(&file)).map_err(|error| format!("{file}: {error}"))?;
    let last = text.rsplit('\n').next().unwrap_or_default();
    Ok(format!("{file} ends in half a line, \"{last}\""))
}

/// Whether the mission has a checkpoint for this milestone.
fn reached(app: &mut App, percent: u8) -> Result<bool, String> {
    let list = app.run(&ListCheckpoints {
        mission: None,
        archived: false,
        limit: 100,
    });
    match list {
        Ok(list) => {
            let mut all = list.checkpoints.iter();
            Ok(all.any(|checkpoint| {
                checkpoint.reason == "milestone" && checkpoint.progress_percent >= percent
            }))
        }
        Err(refusal) if refusal.code == Code::Unavailable => Ok(false),
        Err(refusal) => Err(refusal.message),
    }
}

/// A mission of eight sorties, and a rule that everybody must keep.
fn create_mission(app: &mut App) -> Result<(), Refusal> {
    let sorties = Part::all().map(sortie).collect::<Result<Vec<_>, _>>()?;
    app.run(&CreateMission {
        title: Title::parse("title", "Write a small book")?,
        objective: Some(Note::parse(
            "objective",
            "Eight parts, each in its own file, each published exactly once",
        )?),
        phase: None,
        stack_id: None,
        sprint: None,
        dispatch: Some(DISPATCH.to_owned()),
        states: Default::default(),
        sorties,
    })?;
    app.run(&AddNote {
        mission: None,
        kind: NoteKind::Constraint,
        text: Note::parse(
            "note",
            "Never publish a part twice: look into ledger.txt when in doubt",
        )?,
        rationale: None,
        sortie: None,
        path: None,
        checksum: None,
        artifact_type: None,
    })?;
    Ok(())
}

fn sortie(part: Part) -> Result<NewSortie, Refusal> {
    Ok(NewSortie {
        task_id: Some(Name::parse("task", &format!("part-{}", part.0))?),
        files: vec![RepoPath::parse(&part.file())?],
        resume_instructions: Some(Note::parse(
            "instructions",
            &format!(
                "Keep the lines of {} that were reported, write those that are missing, then publish {}",
                part.file(),
                part.effect()
            ),
        )?),
        input: Some(Data::new(json!({ "part": part.0 }))?),
        ..NewSortie::titled(Title::parse("title", &part.title())?)
    })
}
