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
    /// Titles of sorties, by id.
    pub titles: BTreeMap<String, String>,
    /// Texts of notes, by id.
    pub notes: BTreeMap<String, String>,
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

    /// The name of an agent.
    pub fn agent_name(&self, id: &str) -> &str {
        let known = |agent: &&Agent| agent.id.to_string() == id;
        let found = self.agents.iter().find(known);
        found.map_or("", |agent| agent.name.as_str())
    }

    /// The title of a sortie.
    pub fn title(&self, id: &str) -> &str {
        self.titles.get(id).map_or("", String::as_str)
    }
}

/// Reads everything that is to be checked.
pub fn look(app: &mut App) -> Result<Found, Refusal> {
    let mission = app.run(&ShowMission { mission: None })?;
    let notes = app.run(&ListNotes {
        mission: None,
        kind: None,
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
    let pid = |agent: &Agent| Some((agent.id.to_string(), agent.process.as_ref()?.pid));
    Ok(Found {
        events: all_events(app)?,
        titles: mission
            .sorties
            .iter()
            .map(|sortie| (sortie.id.to_string(), sortie.title.clone()))
            .collect(),
        notes: notes
            .into_iter()
            .map(|note| (note.id.to_string(), note.text.to_string()))
            .collect(),
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
