//! What the store holds in the end, read anew.

use std::collections::BTreeMap;

use flightline::agent::ListAgents;
use flightline::checkpoint::inspect::{CheckpointSummary, ListCheckpoints};
use flightline::core::Refusal;
use flightline::core::agent::Agent;
use flightline::core::effect::Effect;
use flightline::core::event::Event;
use flightline::effect::ListEffects;
use flightline::event::ListEvents;
use flightline::lock::{ListLocks, LockView};
use flightline::mail::{MessageView, PeekInbox};
use flightline::mission::{MissionView, ShowMission};
use flightline::note::ListNotes;

use crate::app::App;

/// What the store holds in the end.
pub struct Found {
    pub events: Vec<Event>,
    /// Names of agents, titles of the mission and its sorties, texts of notes: by id.
    pub names: BTreeMap<String, String>,
    /// Processes of agents, by id.
    pub pids: BTreeMap<String, u32>,
    pub agents: Vec<Agent>,
    pub mission: MissionView,
    pub effects: Vec<Effect>,
    pub locks: Vec<LockView>,
    pub checkpoints: Vec<CheckpointSummary>,
    /// Messages, by id.
    pub messages: BTreeMap<String, MessageView>,
}

impl Found {
    /// The events of one kind, in order.
    pub fn of<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Event> {
        self.events.iter().filter(move |event| event.kind == kind)
    }

    /// The title of a sortie.
    pub fn title(&self, id: &str) -> &str {
        self.names.get(id).map_or("", String::as_str)
    }
}

/// Reads everything that is to be checked.
pub fn look(app: &mut App) -> Result<Found, Refusal> {
    let mission = app.run(&ShowMission { mission: None })?;
    let notes = app.run(&ListNotes {
        mission: None,
        kind: None,
        all: false,
    })?;
    let agents: Vec<Agent> = app
        .run(&ListAgents {
            retired: true,
            sightings: Vec::new(),
        })?
        .into_iter()
        .map(|view| view.agent)
        .collect();
    let mut messages = BTreeMap::new();
    for agent in &agents {
        let inbox = app.run(&PeekInbox {
            agent: agent.name.to_string(),
            all: true,
            limit: u64::MAX,
        })?;
        messages.extend(
            inbox
                .into_iter()
                .map(|view| (view.message.id.to_string(), view)),
        );
    }
    let mut names = BTreeMap::from([(
        mission.mission.id.to_string(),
        mission.mission.title.to_string(),
    )]);
    let sorties = mission.sorties.iter();
    names.extend(sorties.map(|sortie| (sortie.id.to_string(), sortie.title.clone())));
    let notes = notes.into_iter();
    names.extend(notes.map(|note| (note.id.to_string(), note.text.to_string())));
    names.extend(
        agents
            .iter()
            .map(|agent| (agent.id.to_string(), agent.name.to_string())),
    );
    let pid = |agent: &Agent| Some((agent.id.to_string(), agent.process.as_ref()?.pid));
    Ok(Found {
        events: all_events(app)?,
        names,
        pids: agents.iter().filter_map(pid).collect(),
        agents,
        mission,
        effects: app.run(&ListEffects {
            mission: None,
            in_doubt: false,
        })?,
        locks: app.run(&ListLocks { agent: None })?,
        checkpoints: app
            .run(&ListCheckpoints {
                mission: None,
                archived: true,
                limit: 1_000,
            })?
            .checkpoints,
        messages,
    })
}

fn all_events(app: &mut App) -> Result<Vec<Event>, Refusal> {
    let nothing = ListEvents {
        limit: 0,
        ..ListEvents::default()
    };
    let mut cursor = app.run(&nothing)?.cursor;
    let end = std::mem::take(&mut cursor.rev);
    let mut events = Vec::new();
    while cursor.rev < end {
        let list = app.run(&ListEvents {
            after: Some(cursor),
            limit: 1_000,
            ..ListEvents::default()
        })?;
        events.extend(list.events);
        cursor = list.cursor;
    }
    Ok(events)
}
