//! Words for stories about checkpoints and recovery.

use std::fmt::Display;
use std::path::PathBuf;

use flightline::agent::{Heartbeat, HeartbeatRecorded, RegisterAgent, Sighting};
use flightline::checkpoint::CheckpointDocument;
use flightline::checkpoint::files::WholeCheckpoint;
use flightline::checkpoint::inspect::{CheckpointMark, MarkCheckpoint};
use flightline::checkpoint::serve::{ReadsCheckpoints, serve};
use flightline::checkpoint::take::TakeCheckpoint;
use flightline::checkpoint::thin::{PlanThinning, Thinned, thin};
use flightline::checkpoint::{backups, files};
use flightline::core::agent::Role;
use flightline::core::checkpoint::{Checkpoint, Reason};
use flightline::core::event::{Event, EventType};
use flightline::core::sortie::Sortie;
use flightline::core::{CheckpointId, Refusal, Subject};
use flightline::recovery::compaction::{Compacted, CompactionEvidence, ReportCompaction};
use flightline::recovery::detect::{Detect, RecoveryCandidate};
use flightline::recovery::resume::{Resume, Resumed};
use flightline::store::{Find, StoredEvent};

use super::{DONE, Story, process, registration, take_checkpoint, undo_rewind};
use crate::caller;

impl Story<'_> {
    /// Takes a checkpoint of the current mission for a reason.
    pub fn checkpoint_for(
        &self,
        agent: &str,
        reason: Reason,
    ) -> Result<CheckpointDocument, Refusal> {
        let take = TakeCheckpoint {
            reason: Some(reason),
            ..take_checkpoint()
        };
        self.run(agent, &take)
    }

    /// Has a person take a checkpoint of the current mission.
    pub fn checkpoint(&self) -> CheckpointDocument {
        self.checkpoint_for("", Reason::Manual)
            .expect("a checkpoint is taken")
    }

    /// Has an agent or a person mark the checkpoint with this id.
    pub fn mark(
        &self,
        agent: &str,
        checkpoint: impl Display,
        mark: CheckpointMark,
    ) -> Result<(), Refusal> {
        let mark = MarkCheckpoint {
            checkpoint: checkpoint.to_string(),
            mark,
        };
        self.run(agent, &mark).map(drop)
    }

    /// Every checkpoint as it is stored, oldest first.
    pub fn checkpoints(&self) -> Vec<Checkpoint> {
        self.all()
    }

    /// The checkpoint with this id, with every value that it names.
    pub fn whole(&self, checkpoint: CheckpointId) -> CheckpointDocument {
        self.run("", &WholeCheckpoint { checkpoint })
            .expect("the checkpoint can be read")
    }

    /// Has a person thin every value away that nothing needs.
    pub fn thin_all(&self) -> Thinned {
        let all = PlanThinning {
            older_than_ms: Some(0),
            ..PlanThinning::default()
        };
        self.with_fleet(|fleet| thin(fleet, &caller(""), &all))
            .expect("the journal is thinned")
    }

    /// Has an agent tell how full its context is.
    pub fn fill(&self, agent: &str, percent: u8) -> HeartbeatRecorded {
        let beat = Heartbeat {
            context_percent: Some(percent),
            ..Heartbeat::default()
        };
        self.run(agent, &beat).expect("the heartbeat is recorded")
    }

    /// Has an agent report that its context was compacted.
    pub fn compact(&self, agent: &str) -> Compacted {
        let report = ReportCompaction {
            agent: None,
            evidence: CompactionEvidence::Hook,
        };
        self.run(agent, &report)
            .expect("the compaction is recorded")
    }

    /// The reason of each checkpoint, oldest first.
    pub fn reasons(&self) -> Vec<Reason> {
        let all = self.checkpoints().into_iter();
        all.map(|checkpoint| checkpoint.cut.reason).collect()
    }

    /// All subjects of a kind, oldest first.
    pub fn all<S: Subject>(&self) -> Vec<S> {
        self.look(|tx| tx.find(Find::All))
    }

    pub fn state(&self) -> Vec<StoredEvent> {
        self.look(|tx| tx.state_at(tx.rev(), None))
    }

    pub fn stored_sortie(&self, named: &str) -> Sortie {
        self.sortie(named).sortie
    }

    /// Has an agent claim sorties and complete them, one after the other.
    pub fn finish(&self, agent: &str, named: &[&str]) {
        for name in named {
            self.claim(agent, name).expect("it is claimed");
            self.change(agent, name, DONE).expect("it is completed");
        }
    }

    /// Has an agent register in a new session, in the process with this number.
    pub fn board(&self, agent: &str, role: Role, pid: u32) {
        let register = RegisterAgent {
            role: Some(role),
            process: Some(process(pid)),
            ..registration(agent)
        };
        self.run("", &register).expect("the agent is registered");
    }

    pub fn seen(&self, alive: bool, agents: &[&str]) -> Vec<Sighting> {
        let sight = |name: &&str| {
            let agent = self.agent(name);
            let process = agent.process.expect("it registered with a process");
            Sighting::new(agent.id, process, alive)
        };
        agents.iter().map(sight).collect()
    }

    /// Looks for missions that need recovery.
    pub fn detect(&self, agent: &str, sightings: Vec<Sighting>) -> Vec<RecoveryCandidate> {
        let detect = Detect {
            threshold_ms: None,
            sightings,
        };
        self.run(agent, &detect).expect("one can look")
    }

    /// Resumes the current mission, and keeps everything.
    pub fn resume(&self, agent: &str, sightings: Vec<Sighting>) -> Result<Resumed, Refusal> {
        self.run(agent, &roll_forward(sightings))
    }

    /// Has a person go back to a checkpoint.
    pub fn rewind(&self, to: CheckpointId) -> Result<Resumed, Refusal> {
        self.run("", &back_to(to, Force::No))
    }

    /// Has a person go back to a checkpoint, whatever agents that are alive did since.
    pub fn force_rewind(&self, to: CheckpointId) -> Resumed {
        self.run("", &back_to(to, Force::Yes))
            .expect("the mission goes back")
    }

    /// Has a person take the last rewind back.
    pub fn undo(&self) -> Result<Resumed, Refusal> {
        self.run("", &undo_rewind(Force::No))
    }

    /// Runs an operation that reads checkpoints, with the help of their files. Returns also the warnings.
    pub fn serve<O: ReadsCheckpoints>(
        &self,
        operation: &O,
    ) -> (Result<O::Outcome, Refusal>, Vec<String>) {
        let folder = self.state_folder();
        let served = self.with_fleet(|fleet| serve(fleet, &folder, &caller(""), operation));
        let outcome = served
            .done
            .map_err(flightline::Error::into_refusal)
            .map(|done| done.outcome);
        (outcome, served.warnings)
    }

    /// Every event of this type, oldest first.
    pub fn events_of(&self, kind: &str) -> Vec<Event> {
        // A misspelt type would be one that never happened.
        assert!(EventType::from_word(kind).is_some(), "no type: {kind}");
        let mut events = self.events_after(0);
        events.retain(|event| event.kind == kind);
        events
    }

    /// The types of the events after `rev`, oldest first.
    pub fn kinds_after(&self, rev: u64) -> Vec<String> {
        let events = self.events_after(rev).into_iter();
        events.map(|event| event.kind).collect()
    }

    /// The state folder, where checkpoints have their files.
    pub fn state_folder(&self) -> PathBuf {
        self.world.folder().join(".flightline")
    }

    /// Writes the files of checkpoints that are due.
    pub fn settle(&self) {
        let folder = self.state_folder();
        self.with_fleet(|fleet| backups::settle(fleet, &folder, &caller("")))
            .expect("a failed backup fails nothing");
    }

    pub fn file_of(&self, checkpoint: &CheckpointDocument) -> PathBuf {
        self.state_folder()
            .join(files::name_of(checkpoint.mission_id, checkpoint.id))
    }
}

/// Permission to undo work of agents that are alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Force {
    /// Work of living agents may be undone.
    Yes,
    No,
}

pub fn back_to(checkpoint: CheckpointId, force: Force) -> Resume {
    Resume {
        checkpoint: Some(checkpoint.to_string()),
        force: force == Force::Yes,
        ..roll_forward(Vec::new())
    }
}

/// The request to resume the current mission and to keep everything.
pub fn roll_forward(sightings: Vec<Sighting>) -> Resume {
    Resume {
        sightings,
        ..Resume::default()
    }
}
