//! A sound checkpoint stays sound: random work of several missions at once, on both engines. Every few steps every checkpoint
//! there is must pass its check and hold exactly the values that it held when it was first read.
//!
//! `FLEET_WALK_STEPS` sets how many steps are taken on each engine, `FLEET_WALK_SEED` where chance begins.

use std::collections::BTreeMap;

use flightline::Error;
use flightline::checkpoint::daily::daily;
use flightline::checkpoint::inspect::VerifyCheckpoint;
use flightline::checkpoint::thin::thin;
use flightline::core::checkpoint::section_of;
use flightline::core::event::Change;
use flightline::registry::Registered;
use flightline_testkit::prelude::*;

use crate::model::acts::Chance;
use crate::model::from_environment;
use crate::rebuild::rebuilt_at;

const AGENTS: [&str; 3] = ["ada", "bob", "eve"];
const PATHS: [&str; 5] = ["src/a.rs", "src/b.rs", "src", "docs/x.md", "docs"];
const MISSIONS: usize = 3;
/// So many steps are one life of a fleet.
const LIFE: u64 = 250;
/// How often every checkpoint is looked at.
const LOOK: u64 = 10;

const MINUTE: i64 = 60_000;
const DAY: i64 = 24 * 60 * MINUTE;

struct Walk<'w> {
    story: Story<'w>,
    chance: Chance,
    /// What each checkpoint held when it was first read.
    held: BTreeMap<CheckpointId, String>,
}

impl<'w> Walk<'w> {
    fn new(world: &'w World, seed: u64) -> Self {
        Self {
            story: Story::unrehearsed(world),
            chance: Chance::new(seed),
            held: BTreeMap::new(),
        }
    }

    fn run<O: Registered>(&self, agent: &str, operation: &O) -> Result<(), Refusal> {
        self.story.run(agent, operation).map(drop)
    }

    /// One of the missions, by its id.
    fn mission(&mut self) -> String {
        let all = self.story.all::<Mission>();
        let at = self.chance.below(all.len());
        all[at].id.to_string()
    }

    fn sortie(&mut self) -> Option<Sortie> {
        let mut all = self.story.all::<Sortie>();
        let at = self.chance.below(all.len());
        (at < all.len()).then(|| all.swap_remove(at))
    }

    fn checkpoint(&mut self) -> Option<CheckpointId> {
        let all = self.story.checkpoints();
        all.get(self.chance.below(all.len())).map(|one| one.id)
    }

    /// The name of the agent that owns something, mostly; else anybody's.
    fn owner_or_any(&mut self, owner: Option<String>) -> String {
        match owner {
            Some(owner) if !self.chance.one_in(4) => owner,
            _ => self.chance.of(&AGENTS).to_owned(),
        }
    }

    /// Does something; says what, and how it was refused.
    fn step(&mut self) -> (&'static str, Result<(), Refusal>) {
        let later = match self.chance.below(60) {
            0 => 5 * DAY,
            1 => 3 * 60 * MINUTE,
            2 => -20 * MINUTE,
            3..15 => 2 * MINUTE,
            _ => 250,
        };
        self.story.world.clock.advance(later);
        if self.story.all::<Mission>().is_empty() {
            return ("create a mission", self.create());
        }
        match self.chance.below(100) {
            0..3 if self.story.all::<Mission>().len() < MISSIONS => {
                ("create a mission", self.create())
            }
            0..24 => self.work(),
            24..50 => self.locks(),
            50..62 => self.words(),
            62..66 => self.crew(),
            66..76 => {
                let take = TakeCheckpoint {
                    mission: Some(self.mission()),
                    reason: None,
                    details: None,
                    note: self.chance.one_in(2).then(|| note("one more")),
                };
                let who = self.owner_or_any(Some(String::new()));
                ("take a checkpoint", self.run(&who, &take))
            }
            76..84 => {
                let who = self.owner_or_any(Some(String::new()));
                let mission = self.mission();
                ("use a mission", self.run(&who, &UseMission { mission }))
            }
            84..92 => self.recover(),
            _ => self.keep_house(),
        }
    }

    fn create(&mut self) -> Result<(), Refusal> {
        let sorties = ["One", "Two", "Three", "Four"].map(sortie).to_vec();
        self.run("", &create_mission("Mission", sorties))
    }

    fn work(&mut self) -> (&'static str, Result<(), Refusal>) {
        let agent = self.chance.of(&AGENTS);
        let Some(sortie) = self.sortie() else {
            let (mission, lock) = (Some(self.mission()), false);
            return ("claim", self.run(agent, &ClaimNext { mission, lock }));
        };
        let id = sortie.id.to_string();
        let owner = sortie.assigned_to.map(|owner| {
            self.story
                .look(|tx| tx.get::<Agent>(owner))
                .map_or_else(String::new, |agent| agent.name.to_string())
        });
        let owner = self.owner_or_any(owner);
        let change = |action| change_sortie(id.clone(), action);
        match self.chance.below(10) {
            0..2 => {
                let (mission, lock) = (Some(self.mission()), self.chance.one_in(2));
                ("claim", self.run(agent, &ClaimNext { mission, lock }))
            }
            2..4 => {
                let (sortie, lock) = (id, false);
                ("claim", self.run(agent, &ClaimSortie { sortie, lock }))
            }
            4..6 => {
                let update = UpdateSortie {
                    sortie: id,
                    note: Some(note("going on")),
                    ..UpdateSortie::default()
                };
                ("report", self.run(&owner, &update))
            }
            6 => {
                let error = ReportError {
                    blocking: self.chance.one_in(3),
                    ..report_error(id, "oops", "oops")
                };
                ("report an error", self.run(&owner, &error))
            }
            7 => {
                let release = change(GIVEN_BACK);
                ("release a sortie", self.run(&owner, &release))
            }
            8 => {
                let to = self.chance.of(&AGENTS).to_owned();
                let action = SortieAction::Reassign { to, reason: None };
                ("reassign", self.run("", &change(action)))
            }
            _ => {
                let done = change(DONE);
                ("complete", self.run(&owner, &done))
            }
        }
    }

    fn locks(&mut self) -> (&'static str, Result<(), Refusal>) {
        let agent = self.chance.of(&AGENTS);
        let held = self.story.all::<Lock>();
        let lock = held.get(self.chance.below(held.len())).cloned();
        let holder = lock.as_ref().and_then(|lock| {
            let id = lock.held_by.to_string();
            self.story
                .look(|tx| tx.get::<Agent>(&id))
                .map(|agent| agent.name.to_string())
        });
        let holder = self.owner_or_any(holder);
        let file = lock.map_or_else(|| "src".to_owned(), |lock| lock.file.to_string());
        match self.chance.below(12) {
            0..4 => {
                let sortie = match self.chance.one_in(4) {
                    true => self.sortie().map(|sortie| sortie.id.to_string()),
                    false => None,
                };
                let paths = [self.chance.of(&PATHS), self.chance.of(&PATHS)];
                let count = 1 + self.chance.below(2);
                let acquire = AcquireLocks {
                    sortie,
                    ttl_ms: self.chance.one_in(3).then_some(60_000),
                    ..locks_on(&paths[..count])
                };
                ("acquire", self.run(agent, &acquire))
            }
            4..8 => {
                let acquire = locks_on(&[file.as_str()]);
                ("acquire again", self.run(&holder, &acquire))
            }
            8 => {
                let renew = RenewLocks {
                    locks: vec![file],
                    fence: None,
                    ttl_ms: None,
                };
                ("renew", self.run(&holder, &renew))
            }
            9..11 => {
                let release = ReleaseLocks {
                    locks: vec![file],
                    all: false,
                    fence: None,
                };
                ("release", self.run(&holder, &release))
            }
            _ => {
                let steal = StealLock {
                    path: path(&file),
                    reason: note("urgent"),
                };
                ("steal", self.run(agent, &steal))
            }
        }
    }

    fn words(&mut self) -> (&'static str, Result<(), Refusal>) {
        let (agent, mission) = (self.chance.of(&AGENTS), Some(self.mission()));
        match self.chance.below(7) {
            0..2 => {
                let send = SendMail {
                    to: vec![self.chance.of(&AGENTS).to_owned()],
                    subject: title("Hello"),
                    body: None,
                    mission,
                    acknowledge_within_ms: self.chance.one_in(2).then_some(60_000),
                };
                ("send", self.run(agent, &send))
            }
            2 => ("open the inbox", self.run(agent, &open_inbox(100))),
            3 => ("acknowledge", self.run(agent, &acknowledge_all())),
            4 => {
                let add = AddNote {
                    mission,
                    ..lesson("learned")
                };
                ("note", self.run(agent, &add))
            }
            5 => {
                let begin = BeginEffect {
                    mission,
                    again: self.chance.one_in(2),
                    ..begin_effect(self.chance.of(&["deploy", "publish"]))
                };
                ("begin an effect", self.run(agent, &begin))
            }
            _ => {
                let finish = FinishEffect {
                    mission,
                    ..finish_effect(self.chance.of(&["deploy", "publish"]))
                };
                ("finish an effect", self.run(agent, &finish))
            }
        }
    }

    fn crew(&mut self) -> (&'static str, Result<(), Refusal>) {
        let agent = self.chance.of(&AGENTS);
        match self.chance.below(6) {
            0..3 => ("heartbeat", self.run(agent, &Heartbeat::default())),
            3..5 => ("register", self.run("", &registration(agent))),
            _ => {
                let (agent, reason) = (agent.to_owned(), None);
                ("retire", self.run("", &RetireAgent { agent, reason }))
            }
        }
    }

    fn recover(&mut self) -> (&'static str, Result<(), Refusal>) {
        match self.chance.below(6) {
            0..3 => {
                let resume = Resume {
                    checkpoint: self.checkpoint().map(|id| id.to_string()),
                    force: !self.chance.one_in(4),
                    ..Resume::default()
                };
                ("rewind", self.run("", &resume))
            }
            3..5 => {
                let undo = Undo {
                    mission: Some(self.mission()),
                    force: !self.chance.one_in(4),
                    sightings: Vec::new(),
                };
                ("undo", self.run("", &undo))
            }
            _ => {
                let resume = Resume {
                    mission: Some(self.mission()),
                    ..Resume::default()
                };
                ("resume", self.run("", &resume))
            }
        }
    }

    fn keep_house(&mut self) -> (&'static str, Result<(), Refusal>) {
        let refused = |result: Result<(), Error>| result.map_err(Error::into_refusal);
        match self.chance.below(8) {
            0..2 => {
                let mark = match self.chance.below(6) {
                    0..2 => CheckpointMark::Pin,
                    2..4 => CheckpointMark::Unpin,
                    4 => CheckpointMark::Archive,
                    _ => CheckpointMark::Delete,
                };
                let Some(id) = self.checkpoint() else {
                    return ("mark a checkpoint", Ok(()));
                };
                let checkpoint = id.to_string();
                let mark = MarkCheckpoint { checkpoint, mark };
                ("mark a checkpoint", self.run("", &mark))
            }
            2 => {
                let prune = PlanPrune {
                    mission: None,
                    older_than_ms: Some(self.chance.of(&[MINUTE.unsigned_abs(), 1])),
                    keep: Some(4),
                    as_of: None,
                    force: false,
                };
                let done = self.story.with_fleet(|fleet| {
                    let plan = plan_all(fleet, &caller(""), &prune)?;
                    apply_all(fleet, &caller(""), &prune, &plan).map(drop)
                });
                ("prune", refused(done))
            }
            3 => {
                let done = self.story.with_fleet(|fleet| daily(fleet, &caller("")));
                ("daily retention", refused(done.map(drop)))
            }
            4..6 => {
                let all = PlanThinning {
                    older_than_ms: Some(self.chance.of(&[0, 10 * MINUTE.unsigned_abs()])),
                    ..PlanThinning::default()
                };
                let done = |fleet: &mut _| thin(fleet, &caller(""), &all).map(drop);
                ("thin", refused(self.story.with_fleet(done)))
            }
            6 => {
                let to = self.chance.of(&["in_progress", "in_progress", "paused"]);
                let change = ChangeMission {
                    mission: Some(self.mission()),
                    ..change_mission(serde_json::from_value(to.into()).unwrap())
                };
                ("move a mission", self.run("", &change))
            }
            _ => {
                self.story.settle();
                ("write files", Ok(()))
            }
        }
    }

    /// What is wrong with the checkpoints there are; each must hold what it held when it was first read.
    fn unsound(&mut self) -> Vec<String> {
        let mut wrong = Vec::new();
        for checkpoint in self.story.checkpoints() {
            let id = checkpoint.id;
            let verdict = self.story.run("", &VerifyCheckpoint { checkpoint: id });
            match verdict {
                Ok(verdict) if verdict.sound => {}
                Ok(verdict) => {
                    wrong.push(format!("{id}: {:?}", verdict.problem));
                    continue;
                }
                Err(refusal) => {
                    wrong.push(format!("{id}: {refusal}"));
                    continue;
                }
            }
            let whole = self.story.run("", &WholeCheckpoint { checkpoint: id });
            match whole.map(|whole| serde_json::to_string(&whole.state.map(|state| state.values))) {
                Err(refusal) => wrong.push(format!("{id}: {refusal}")),
                Ok(text) => {
                    let text = text.unwrap();
                    let held = self.held.entry(id).or_insert_with(|| text.clone());
                    if *held != text {
                        wrong.push(format!("{id} holds something else than before"));
                    }
                }
            }
        }
        wrong
    }
}

/// What belonged to more than one mission: cuts of the past are found by the mission that a row names.
fn moved(story: &Story<'_>) -> Vec<String> {
    let (mut missions, mut moved) = (BTreeMap::new(), Vec::new());
    for event in story.events_after(0) {
        if event.change == Change::None || section_of(event.subject_kind).is_none() {
            continue;
        }
        let subject = format!("{} {}", event.subject_kind, event.subject);
        let first = *missions.entry(subject.clone()).or_insert(event.mission_id);
        if first != event.mission_id {
            moved.push(subject);
        }
    }
    moved
}

/// Builds the store anew from the files of checkpoints, and goes on in it.
fn begin_anew<'w>(walk: Walk<'w>, stamp: &str) -> Walk<'w> {
    let Walk { story, chance, .. } = walk;
    story.settle();
    let world = story.world;
    drop(story);
    rebuilt_at(world, stamp).unwrap();
    Walk {
        story: Story::unrehearsed(world),
        chance,
        held: BTreeMap::new(),
    }
}

fn live(engine: Engine, seed: u64, steps: u64) {
    let world = World::new(engine);
    let mut walk = Walk::new(&world, seed);
    let rebuilt = walk.chance.one_in(2).then_some(steps * 2 / 3);
    let (mut taken, mut refused) = (Vec::new(), 0);
    for number in 1..=steps {
        let (what, done) = walk.step();
        refused += u64::from(done.is_err());
        taken.push(match &done {
            Ok(()) => what.to_owned(),
            Err(refusal) => format!("{what} ({refusal})"),
        });
        let so_far = |said: &str| {
            let last: Vec<&String> = taken.iter().rev().take(2 * LOOK as usize).collect();
            format!("{said}: {engine:?}, seed {seed}, step {number}; newest first: {last:#?}")
        };
        if let Err(refusal) = &done {
            assert_ne!(refusal.code, Code::Integrity, "{}", so_far("damaged"));
            assert_ne!(refusal.code, Code::Failed, "{}", so_far("failed"));
        }
        if number % LOOK == 0 || number == steps {
            let unsound = walk.unsound();
            assert!(unsound.is_empty(), "{}\n{unsound:#?}", so_far("unsound"));
        }
        if rebuilt == Some(number) && !walk.story.checkpoints().is_empty() {
            walk = begin_anew(walk, &format!("step-{number}"));
            let unsound = walk.unsound();
            assert!(unsound.is_empty(), "{}\n{unsound:#?}", so_far("rebuilt"));
        }
    }
    assert_eq!(
        moved(&walk.story),
        Vec::<String>::new(),
        "{engine:?}, seed {seed}"
    );
    assert_eq!(
        walk.story.damaged_values(),
        Vec::<String>::new(),
        "{engine:?}, seed {seed}"
    );
    assert!(
        steps < LIFE || refused * 10 < steps * 7,
        "{refused} of {steps} steps were refused: too dull"
    );
}

fn live_all(engine: Engine) {
    let steps = from_environment("FLEET_WALK_STEPS", 1_250);
    let seed = from_environment("FLEET_WALK_SEED", 1);
    for life in 0..steps.div_ceil(LIFE) {
        live(engine, seed + life, LIFE.min(steps - life * LIFE));
    }
}

#[test]
fn a_sound_checkpoint_stays_sound_on_sqlite() {
    live_all(Engine::Sqlite);
}

#[test]
fn a_sound_checkpoint_stays_sound_on_postgres() {
    live_all(Engine::Postgres);
}
