//! A story: one connection to a world, short words for what happens in it, and the fleet as text, so
//! that a test reads like an incident.

pub mod epic;
pub mod login;
mod play;
pub mod recovery;
mod request;
pub mod task;
mod text;

use std::cell::RefCell;

use flightline::agent::{AgentView, Heartbeat, RegisterAgent};
use flightline::core::agent::{Agent, Process, Role};
use flightline::core::event::Event;
use flightline::core::policy::Policy;
use flightline::core::text::NoteText;
use flightline::core::{Kind, Name, Refusal, RepoPath, Title};
use flightline::event::{Cursor, ListEvents};
use flightline::lock::LockView;
use flightline::mail::{MessageView, PeekInbox};
use flightline::mission::{MissionView, TransitionMission};
use flightline::registry::Registered;
use flightline::sortie::change::{ChangeSortie, SortieAction};
use flightline::sortie::claim::ClaimSortie;
use flightline::sortie::{ShowSortie, SortieView};
use flightline::store::{EventFilter, Find, Tx};
use flightline::workspace::WorkTree;
use flightline::{Caller, Fleet};

use crate::{World, caller};

pub use request::*;

/// A world with one connection to its fleet, and short words for acts in it.
pub struct Story<'w> {
    pub world: &'w World,
    fleet: RefCell<Fleet>,
}

impl<'w> Story<'w> {
    /// Begins a story in `world`.
    pub fn new(world: &'w World) -> Self {
        Self {
            world,
            fleet: RefCell::new(world.fleet()),
        }
    }

    /// Begins a story in `world` without rehearsals: for tests of many steps, which would take twice as long.
    pub fn unrehearsed(world: &'w World) -> Self {
        Self {
            world,
            fleet: RefCell::new(unrehearsed_fleet(world)),
        }
    }

    /// Begins a story in `world` under another policy.
    pub fn under(world: &'w World, policy: Policy) -> Self {
        Self {
            world,
            fleet: RefCell::new(Fleet::new(world.store(), policy)),
        }
    }

    /// Begins a story in `world` whose fleet is run in a work tree.
    pub fn in_tree(world: &'w World, tree: WorkTree) -> Self {
        Self {
            world,
            fleet: RefCell::new(world.fleet().in_tree(tree)),
        }
    }

    /// Begins a story in `world` whose agents are registered.
    pub fn with_agents(world: &'w World, agents: &[&str]) -> Self {
        let story = Self::new(world);
        for agent in agents {
            story.register(agent, Role::Specialist);
        }
        story
    }

    /// Runs an operation as `agent`, or as a person when it is empty.
    pub fn run<O: Registered>(&self, agent: &str, operation: &O) -> Result<O::Outcome, Refusal> {
        self.run_as(&caller(agent), operation)
    }

    pub fn run_as<O: Registered>(
        &self,
        caller: &Caller,
        operation: &O,
    ) -> Result<O::Outcome, Refusal> {
        self.fleet
            .borrow_mut()
            .run(operation, caller)
            .map_err(flightline::Error::into_refusal)
    }

    /// Runs `act` with the fleet as a whole.
    pub fn with_fleet<T>(&self, act: impl FnOnce(&mut Fleet) -> T) -> T {
        act(&mut self.fleet.borrow_mut())
    }

    /// Moves the clock forwards.
    pub fn pass_minutes(&self, minutes: u64) {
        self.world
            .pass(std::time::Duration::from_secs(minutes * 60));
    }

    /// Has a person create a mission with these sorties.
    pub fn mission(&self, name: &str, sorties: &[&str]) -> MissionView {
        let sorties = sorties.iter().map(|name| sortie(name)).collect();
        self.run("", &create_mission(name, sorties))
            .expect("a mission is created")
    }

    /// The id of the newest sortie with this title.
    pub fn sortie_id(&self, named: &str) -> String {
        let rows = self.look(|tx| tx.rows(Kind::Sortie, Find::All));
        rows.into_iter()
            .rev()
            .find(|row| row.name.as_deref() == Some(named))
            .unwrap_or_else(|| panic!("there is no sortie \"{named}\""))
            .id
    }

    pub fn claim(&self, agent: &str, named: &str) -> Result<SortieView, Refusal> {
        let claim = ClaimSortie {
            sortie: self.sortie_id(named),
            lock: false,
        };
        self.run(agent, &claim)
    }

    pub fn claim_next(&self, agent: &str) -> Result<SortieView, Refusal> {
        self.run(agent, &claim_next())
    }

    /// Has an agent or a person move the sortie with this title.
    pub fn change(
        &self,
        agent: &str,
        named: &str,
        action: SortieAction,
    ) -> Result<SortieView, Refusal> {
        self.run(agent, &change_sortie(self.sortie_id(named), action))
    }

    /// Has an agent move a sortie by its title, and keep the locks that it took for it.
    pub fn change_keeping_locks(
        &self,
        agent: &str,
        named: &str,
        action: SortieAction,
    ) -> Result<SortieView, Refusal> {
        let change = ChangeSortie {
            keep_locks: true,
            ..change_sortie(self.sortie_id(named), action)
        };
        self.run(agent, &change)
    }

    /// Has a person move the workflow of the current mission to a state.
    pub fn transition(&self, to: &str) {
        let transition = TransitionMission {
            reason: Some(note("as planned")),
            ..transition_mission(to)
        };
        self.run("", &transition).expect("the workflow moves");
    }

    /// The sortie with this title, and all its parts.
    pub fn sortie(&self, named: &str) -> SortieView {
        let show = ShowSortie {
            sortie: self.sortie_id(named),
        };
        self.run("", &show).expect("the sortie is shown")
    }

    /// Has an agent register, in a new session.
    pub fn register(&self, agent: &str, role: Role) -> AgentView {
        let register = RegisterAgent {
            role: Some(role),
            ..registration(agent)
        };
        self.run("", &register).expect("the agent is registered")
    }

    pub fn beat(&self, agent: &str) -> Result<(), Refusal> {
        self.run(agent, &Heartbeat::default()).map(drop)
    }

    pub fn lock(&self, agent: &str, paths: &[&str]) -> Result<Vec<LockView>, Refusal> {
        self.run(agent, &locks_on(paths))
    }

    /// Every lock with its holder, as `FILE HOLDER`, by file.
    pub fn locks(&self) -> Vec<String> {
        let text = self.as_text();
        let locks = text.lines().filter_map(|line| line.strip_prefix("lock "));
        let mut locks: Vec<String> = locks.map(str::to_owned).collect();
        locks.sort();
        locks
    }

    /// Has an agent or a person write to agents.
    pub fn send(&self, from: &str, to: &[&str], about: &str) -> Result<MessageView, Refusal> {
        self.run(from, &letter(to, about))
    }

    /// Has an agent read its new mail: the subject of each message.
    pub fn read_mail(&self, agent: &str) -> Vec<String> {
        let mail = self.run(agent, &open_inbox(100)).expect("it may read");
        mail.iter().map(subject).collect()
    }

    /// Has an agent acknowledge a message.
    pub fn acknowledge(
        &self,
        agent: &str,
        mail: &MessageView,
    ) -> Result<Vec<MessageView>, Refusal> {
        self.run(agent, &acknowledge(&mail.message.id.to_string()))
    }

    /// Every message that was ever sent to an agent.
    pub fn mailbox(&self, agent: &str) -> Vec<MessageView> {
        let look = PeekInbox {
            all: true,
            ..peek_inbox(agent, 100)
        };
        self.run("", &look).expect("a person may look")
    }

    /// Every message that was ever sent to an agent: its subject.
    pub fn mail_of(&self, agent: &str) -> Vec<String> {
        self.mailbox(agent).iter().map(subject).collect()
    }

    /// The agent of this name, as it is stored.
    pub fn agent(&self, named: &str) -> Agent {
        self.look(|tx| tx.find::<Agent>(Find::AgentName(named)))
            .pop()
            .unwrap_or_else(|| panic!("there is no agent {named}"))
    }

    /// Every event after `rev`, oldest first.
    pub fn events_after(&self, rev: u64) -> Vec<Event> {
        let filter = EventFilter {
            limit: 10_000,
            ..EventFilter::default()
        };
        self.look(|tx| tx.events_after(rev, &filter))
    }

    pub fn rev(&self) -> u64 {
        self.look(|tx| Ok(tx.rev()))
    }

    /// The place in the journal after everything that happened so far.
    pub fn cursor(&self) -> Cursor {
        let list = ListEvents {
            limit: 1,
            ..ListEvents::default()
        };
        let listed = self.run("", &list).expect("the journal can be read");
        listed.cursor
    }

    /// The findings of the doctor; empty when all is well.
    pub fn damaged_values(&self) -> Vec<String> {
        let diagnosis = self
            .with_fleet(flightline::doctor::examine)
            .expect("the doctor can look");
        let bad = diagnosis.checks.into_iter().filter(|check| !check.ok);
        bad.flat_map(|check| check.findings).collect()
    }

    /// Has a sortie's owner report progress: a change that leaves everything else as it is.
    pub fn report(&self, agent: &str, named: &str, text: &str) {
        let update = flightline::sortie::report::UpdateSortie {
            sortie: self.sortie_id(named),
            note: Some(note(text)),
            ..flightline::sortie::report::UpdateSortie::default()
        };
        self.run(agent, &update).expect("progress is taken");
    }

    /// Reads the store.
    pub fn look<T>(
        &self,
        f: impl FnOnce(&mut Tx<'_>) -> Result<T, flightline::store::StoreError>,
    ) -> T {
        self.with_fleet(|fleet| fleet.store().expect("a store").read(f))
            .expect("the store can be read")
    }
}

fn subject(mail: &MessageView) -> String {
    mail.message.subject.to_string()
}

/// Opens the fleet in a world, through a connection of its own that rehearses nothing.
pub fn unrehearsed_fleet(world: &World) -> Fleet {
    Fleet::new(world.unrehearsed(), Policy::default())
}

/// Parses a title.
pub fn title(text: &str) -> Title {
    Title::parse("title", text).expect("a title")
}

/// Parses a longer text.
pub fn note(text: &str) -> NoteText {
    NoteText::parse("note", text).expect("a note")
}

/// Parses a name.
pub fn name(text: &str) -> Name {
    Name::parse("name", text).expect("a name")
}

/// Parses a path in the repository.
pub fn path(text: &str) -> RepoPath {
    RepoPath::parse(text).expect("a path")
}

pub fn process(pid: u32) -> Process {
    Process {
        pid,
        started: 4_711,
        boot_id: "00000000-0000-4000-8000-00000000b007".to_owned(),
        host: "hangar".to_owned(),
    }
}
