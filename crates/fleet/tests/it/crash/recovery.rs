//! Dying while a checkpoint is taken, a mission is brought back, a rewind is taken back or old checkpoints
//! go, and dying again in the repetition: it happened wholly or not at all, the files beside the store are
//! whole, and the newest complete checkpoint is what `fleet` offers.

use std::process::Command;

use flightline_testkit::Engine;
use serde_json::{Value, json};

use crate::crash::beside;
use crate::crash::journal;
use crate::crash::world::{NOON, World};

/// A command to die in.
struct Case {
    name: &'static str,
    /// When its world begins.
    began: &'static str,
    /// What must be there first.
    before: fn(&World),
    /// What comes before each round. Says what the command works on.
    prepare: fn(&World, u64) -> String,
    /// The command, for what was prepared.
    command: fn(&str) -> String,
    /// What it does when it is whole, beside its events.
    whole: fn(&Sight, &Sight),
    /// How many files it adds; it removes some when negative.
    files: isize,
    /// What `detect` exits with ten minutes later: 0 where the recovery settled it, and nobody has come to work since.
    detects: i32,
}

const CHECKPOINT: Case = Case {
    name: "checkpoint",
    began: NOON,
    before: work_is_under_way,
    prepare: |world, round| {
        let lesson = format!("Lesson {round}");
        world.run(&["note", "lesson", &lesson]).works();
        lesson
    },
    command: |_| "checkpoint".to_owned(),
    whole: |before, after| {
        assert_eq!(after.work, before.work);
        assert_ne!(after.newest, before.newest);
    },
    files: 1,
    detects: 5,
};

const RESUME: Case = Case {
    name: "resume",
    began: NOON,
    before: work_is_under_way,
    prepare: |world, _| {
        let mut process = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = process.id().to_string();
        world
            .run(&["agents", "register", "bob", "--pid", &pid])
            .works();
        let claimed = world.run(&["sorties", "claim", "--next"]).by("bob").json();
        world
            .run(&["locks", "acquire", "src/b.rs"])
            .by("bob")
            .works();
        world.run(&["checkpoint"]).works();
        process.kill().unwrap();
        process.wait().unwrap();
        claimed["sortie"]["title"].as_str().unwrap().to_owned()
    },
    command: |_| "resume -y".to_owned(),
    whole: |before, after| {
        assert_eq!(before.work["Endpoint"], json!(["in_progress", "bob"]));
        assert_eq!(after.work["Endpoint"], json!(["pending", null]));
        assert_eq!(after.work["Model"], before.work["Model"], "nothing is lost");
        assert_eq!(
            (before.locks.as_slice(), after.locks.len()),
            (&["src/b.rs".to_owned()][..], 0)
        );
        assert_eq!(after.newest, before.newest);
    },
    files: 0,
    detects: 0,
};

const REWIND: Case = Case {
    name: "resume --checkpoint",
    began: NOON,
    before: |world| {
        work_is_under_way(world);
        world.run(&["checkpoint", "--note", "here"]).works();
    },
    prepare: |world, _| {
        claim_next(world);
        first_noted(world)
    },
    command: |id| format!("resume --checkpoint {id} --force -y"),
    whole: |before, after| {
        assert_eq!(before.work["Endpoint"], json!(["in_progress", "ada"]));
        assert_eq!(after.work["Endpoint"], json!(["pending", null]));
        assert_eq!(after.work["Model"], before.work["Model"]);
        assert_ne!(after.newest, before.newest, "the state before is saved");
    },
    // The state before and the state after.
    files: 2,
    detects: 0,
};

const UNDO: Case = Case {
    name: "undo",
    began: NOON,
    before: |world| {
        work_is_under_way(world);
        world.run(&["checkpoint", "--note", "here"]).works();
        claim_next(world);
    },
    prepare: |world, _| {
        let back = first_noted(world);
        world
            .run(&["resume", "--checkpoint", &back, "--force", "-y"])
            .works();
        back
    },
    command: |_| "undo".to_owned(),
    whole: |before, after| {
        assert_eq!(before.work["Endpoint"], json!(["pending", null]));
        assert_eq!(after.work["Endpoint"], json!(["in_progress", "ada"]));
        assert_ne!(after.newest, before.newest, "the state before is saved");
    },
    // The state before and the state after.
    files: 2,
    detects: 5,
};

const PRUNE: Case = Case {
    name: "checkpoints prune",
    began: "2026-01-02T12:00:00Z",
    before: work_is_under_way,
    prepare: |world, round| {
        for minute in [2 * round, 2 * round + 1] {
            let note = format!("Old {minute}");
            let then = format!("2026-01-03T{:02}:{:02}:00Z", minute / 60, minute % 60);
            let old = world.run(&["checkpoint", "--note", &note]);
            old.env("FLEET_TEST_NOW", then).works();
        }
        String::new()
    },
    command: |_| "checkpoints prune --older-than 1h --keep 2 -y".to_owned(),
    whole: |before, after| {
        assert_eq!((&after.work, &after.newest), (&before.work, &before.newest));
    },
    files: -2,
    detects: 5,
};

macro_rules! dies_everywhere {
    ($($sqlite:ident, $postgres:ident: $case:ident;)*) => {
        $(
            #[test]
            fn $sqlite() {
                die_everywhere(Engine::Sqlite, &$case);
            }

            #[test]
            fn $postgres() {
                die_everywhere(Engine::Postgres, &$case);
            }
        )*
    };
}

dies_everywhere! {
    a_checkpoint_that_dies_at_any_step_is_whole_or_absent_on_sqlite,
    a_checkpoint_that_dies_at_any_step_is_whole_or_absent_on_postgres: CHECKPOINT;
    a_resume_that_dies_at_any_step_is_whole_or_absent_on_sqlite,
    a_resume_that_dies_at_any_step_is_whole_or_absent_on_postgres: RESUME;
    a_rewind_that_dies_at_any_step_is_whole_or_absent_on_sqlite,
    a_rewind_that_dies_at_any_step_is_whole_or_absent_on_postgres: REWIND;
    an_undo_that_dies_at_any_step_is_whole_or_absent_on_sqlite,
    an_undo_that_dies_at_any_step_is_whole_or_absent_on_postgres: UNDO;
    a_prune_that_dies_at_any_step_is_whole_or_absent_on_sqlite,
    a_prune_that_dies_at_any_step_is_whole_or_absent_on_postgres: PRUNE;
}

/// Ada has finished one sortie of three.
fn work_is_under_way(world: &World) {
    let create = "mission create Login --sortie Model --sortie Endpoint --sortie Docs";
    world.run(&create.split(' ').collect::<Vec<_>>()).works();
    let id = claim_next(world);
    world.run(&["sorties", "complete", &id]).by("ada").works();
}

fn claim_next(world: &World) -> String {
    let claimed = world.run(&["sorties", "claim", "--next"]).by("ada").json();
    claimed["sortie"]["id"].as_str().unwrap().to_owned()
}

/// The checkpoint that somebody wrote a note to.
fn first_noted(world: &World) -> String {
    let all = world.ask(&["checkpoints", "list", "--limit", "1000"]);
    let mut noted = all.as_array().unwrap().iter();
    let noted = noted.rfind(|one| one["note"] == "here").unwrap();
    noted["id"].as_str().unwrap().to_owned()
}

/// What can be seen of a world.
struct Sight {
    rev: u64,
    events: Vec<journal::Entry>,
    /// Each sortie's status and owner, by its title.
    work: Value,
    locks: Vec<String>,
    /// The newest checkpoint.
    newest: String,
}

impl Sight {
    fn of(world: &World) -> Self {
        let (rev, events) = journal::newest(world, 60);
        let status = world.ask(&["status"]);
        let mut work = json!({});
        for sortie in status["mission"]["sorties"].as_array().unwrap() {
            let title = sortie["title"].as_str().unwrap();
            work[title] = json!([sortie["status"], sortie["assigned_to"]]);
        }
        Self {
            rev,
            events,
            work,
            locks: journal::texts(&status["locks"], "/lock/file"),
            newest: status["checkpoint"]["id"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
        }
    }

    /// The types of the events since `before`.
    fn since(&self, before: &Self) -> Vec<String> {
        journal::after(before.rev, self.rev, &self.events)
    }

    /// All of it came since `before`, or nothing. Says whether it came.
    fn shows(&self, before: &Self, case: &Case, whole: &[String], when: &str) -> bool {
        let came = self.since(before);
        if came.is_empty() {
            let seen = |sight: &Self| {
                let Self {
                    work,
                    locks,
                    newest,
                    ..
                } = sight;
                (work.clone(), locks.clone(), newest.clone())
            };
            assert_eq!(seen(self), seen(before), "{when}");
            return false;
        }
        assert_eq!(came, whole, "{when}");
        (case.whole)(before, self);
        true
    }
}

/// What holds whenever nobody is at work: the store is sound, every file is whole, and the newest complete
/// checkpoint is what would be resumed from.
fn all_is_well(world: &World, sight: &Sight, when: &str) {
    let seen = world.run(&["doctor"]).ends();
    assert_eq!(seen.code(), Some(0), "{when}: {seen}");
    beside::files_are_whole(world, when);
    if !sight.newest.is_empty() {
        let plan = world.ask(&["resume", "--dry-run"]);
        assert_eq!(plan["checkpoint_id"], *sight.newest, "{when}");
        assert_eq!(plan["warnings"], json!([]), "{when}");
    }
}

/// A command in one of its rounds, which happens once however often it is asked for.
struct Round<'a> {
    world: &'a World,
    words: String,
    key: String,
}

impl<'a> Round<'a> {
    fn prepare(world: &'a World, case: &Case, round: u64) -> Self {
        Self {
            world,
            words: (case.command)(&(case.prepare)(world, round)),
            key: format!("round {round}"),
        }
    }

    /// Runs it, and lets it die at a step. Says whether it died; if not, it did what it was asked to.
    fn act(&self, dies: Option<u64>) -> bool {
        let words: Vec<&str> = self.words.split(' ').collect();
        let mut run = self.world.run(&words).once(&self.key);
        if let Some(step) = dies {
            run = run.dies_at(step);
        }
        let answer = run.ends();
        let died = dies.is_some() && answer.died();
        assert!(died || answer.code() == Some(0), "{}: {answer}", self.words);
        died
    }
}

/// A world that is ready for a case, and the events of an undisturbed round.
fn ready(engine: Engine, case: &Case) -> (World, Vec<String>) {
    let mut world = World::timeless(engine);
    // What is taken later is never the older one, whatever the clock says: so all of it is before noon.
    world.let_time_be(Some(case.began));
    (case.before)(&world);
    world.let_time_be(Some(NOON));
    // The first round also does what is done once only.
    Round::prepare(&world, case, 0).act(None);
    let round = Round::prepare(&world, case, 1);
    let before = Sight::of(&world);
    round.act(None);
    let whole = Sight::of(&world).since(&before);
    (world, whole)
}

fn die_everywhere(engine: Engine, case: &Case) {
    let (mut world, mut whole) = ready(engine, case);
    let (mut deaths, mut survived) = (0, 0);
    // What the engines do at a step is the same in all commands, and dying there is tried in `points`.
    let stride = match engine {
        Engine::Sqlite => 1,
        Engine::Postgres => 7,
    };
    for step in (1..).step_by(stride) {
        if deaths % 8 == 7 {
            // The more checkpoints there are, the longer everything takes.
            (world, whole) = ready(engine, case);
        }
        let round = Round::prepare(&world, case, step + 1);
        let (before, files) = (Sight::of(&world), beside::files(&world).len());
        let died = round.act(Some(step));
        let when = format!("{}, after step {step}", case.name);
        let after = Sight::of(&world);
        let came = after.shows(&before, case, &whole, &when);
        all_is_well(&world, &after, &when);
        if !died {
            assert!(came, "{when}");
            break;
        }
        deaths += 1;
        survived += u32::from(came);
        // Dies again in the repetition, at steps spread over all of it.
        let again = step * 7 % 29 + 1;
        let when = format!("{when} and step {again}");
        if step % 2 == 0 && round.act(Some(again)) {
            all_is_well(&world, &Sight::of(&world), &when);
        }
        round.act(None);
        let after = Sight::of(&world);
        assert!(after.shows(&before, case, &whole, &when), "{when}");
        beside::files_are_whole(&world, &when);
        let files = files.checked_add_signed(case.files).unwrap();
        assert_eq!(beside::files(&world).len(), files, "{when}");
    }
    assert!(
        deaths >= 2 && survived < deaths,
        "{}: {deaths} deaths, {survived} after the commit",
        case.name
    );
    beside::what_the_dead_wrote_goes(&world);
    // The newest one is offered later, too.
    let sight = Sight::of(&world);
    let later = world
        .run(&["detect"])
        .env("FLEET_TEST_NOW", "2026-01-04T12:10:00Z");
    let later = later.in_json().ends();
    assert_eq!(later.code(), Some(case.detects), "{later}");
    let found: Value = serde_json::from_str(&later.out).unwrap();
    let mut found = found.as_array().unwrap().iter();
    let ours = found.find(|one| one["title"] == "Login").unwrap();
    assert_eq!(ours["checkpoint_id"], *sight.newest);
}
