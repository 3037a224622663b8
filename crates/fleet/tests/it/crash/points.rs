//! A command that dies at any of its steps has done everything or nothing, and can be repeated.

use flightline_testkit::Engine;
use serde_json::Value;

use crate::crash::journal::{self, Entry};
use crate::crash::world::World;

/// A command to die in, and how to see what it did.
struct Case {
    name: &'static str,
    /// Who acts; nobody when empty.
    agent: &'static str,
    /// What must be there first.
    before: &'static [&'static [&'static str]],
    /// What must come before each round, if anything.
    prepare: Option<fn(&World, u64) -> String>,
    /// The command in its n-th round, after what was prepared.
    command: fn(&str, u64) -> String,
    /// Listings that change with it.
    look: &'static [&'static [&'static str]],
}

const WORK: [Case; 3] = [
    Case {
        name: "mission create with sorties",
        agent: "",
        before: &[],
        prepare: None,
        command: |_, n| format!("mission create M{n} --sortie A{n} --sortie B{n}"),
        look: &[&["missions", "list"], &["sorties", "list"]],
    },
    Case {
        name: "sorties claim --next",
        agent: "ada",
        before: &[],
        prepare: Some(|world, n| {
            world.run(&["sorties", "add", &format!("S{n}")]).works();
            String::new()
        }),
        command: |_, _| "sorties claim --next".to_owned(),
        look: &[&["sorties", "list"]],
    },
    Case {
        name: "sorties complete",
        agent: "ada",
        // Progress is told to one that coordinates.
        before: &[
            &["agents", "register", "dispatch", "--role", "dispatch"],
            &["mail", "send", "--to", "dispatch", "--subject", "Hello"],
        ],
        prepare: Some(|world, n| {
            let add = ["sorties", "add", &format!("S{n}"), "--file", "src"];
            world.run(&add).works();
            let claim = ["sorties", "claim", "--next", "--lock"];
            let claimed = world.run(&claim).by("ada").json();
            claimed["sortie"]["id"].as_str().unwrap().to_owned()
        }),
        command: |id, _| format!("sorties complete {id}"),
        look: &[&["sorties", "list"], &["mail", "inbox", "--of", "dispatch"]],
    },
];

const HOLDINGS: [Case; 2] = [
    Case {
        name: "locks acquire of three paths",
        agent: "ada",
        before: &[],
        prepare: None,
        command: |_, n| format!("locks acquire a/{n} b/{n} c/{n}"),
        look: &[&["locks", "list"]],
    },
    Case {
        name: "agents register",
        agent: "",
        before: &[],
        prepare: None,
        command: |_, n| format!("agents register agent-{n} --session s{n}"),
        look: &[&["agents", "list"]],
    },
];

const TALK: [Case; 4] = [
    Case {
        name: "mail send to two",
        agent: "ada",
        before: &[
            &["agents", "register", "bob"],
            &["agents", "register", "eve"],
        ],
        prepare: None,
        command: |_, n| format!("mail send --to bob --to eve --subject Letter-{n}"),
        look: &[
            &["mail", "inbox", "--of", "bob"],
            &["mail", "inbox", "--of", "eve"],
        ],
    },
    Case {
        name: "note",
        agent: "ada",
        before: &[],
        prepare: None,
        command: |_, n| format!("note decision Lesson-{n} --rationale because"),
        look: &[&["note", "list"]],
    },
    Case {
        name: "effect begin",
        agent: "",
        before: &[],
        prepare: None,
        command: |_, n| format!("effect begin deploy-{n} --what ship"),
        look: &[&["effect", "list"]],
    },
    Case {
        name: "effect done",
        agent: "ada",
        before: &[],
        prepare: Some(|world, n| {
            let key = format!("deploy-{n}");
            world.run(&["effect", "begin", &key]).by("ada").works();
            key
        }),
        command: |key, _| format!("effect done {key} --result shipped"),
        look: &[&["effect", "list"]],
    },
];

#[test]
fn work_that_dies_at_any_step_is_whole_or_absent_on_sqlite() {
    WORK.iter()
        .for_each(|case| die_everywhere(Engine::Sqlite, case));
}

#[test]
fn work_that_dies_at_any_step_is_whole_or_absent_on_postgres() {
    WORK.iter()
        .for_each(|case| die_everywhere(Engine::Postgres, case));
}

#[test]
fn holding_that_dies_at_any_step_is_whole_or_absent_on_sqlite() {
    HOLDINGS
        .iter()
        .for_each(|case| die_everywhere(Engine::Sqlite, case));
}

#[test]
fn holding_that_dies_at_any_step_is_whole_or_absent_on_postgres() {
    HOLDINGS
        .iter()
        .for_each(|case| die_everywhere(Engine::Postgres, case));
}

#[test]
fn talk_that_dies_at_any_step_is_whole_or_absent_on_sqlite() {
    TALK.iter()
        .for_each(|case| die_everywhere(Engine::Sqlite, case));
}

#[test]
fn talk_that_dies_at_any_step_is_whole_or_absent_on_postgres() {
    TALK.iter()
        .for_each(|case| die_everywhere(Engine::Postgres, case));
}

#[test]
fn a_note_survives_two_deaths_in_a_row_on_sqlite() {
    die_twice_everywhere(Engine::Sqlite);
}

#[test]
fn a_note_survives_two_deaths_in_a_row_on_postgres() {
    die_twice_everywhere(Engine::Postgres);
}

/// What can be seen of a world.
struct Sight {
    rev: u64,
    events: Vec<Entry>,
    listings: Vec<Value>,
}

impl Sight {
    fn of(world: &World, case: &Case) -> Self {
        let (rev, events) = journal::newest(world, 20);
        Self {
            rev,
            events,
            listings: case.look.iter().map(|look| world.ask(look)).collect(),
        }
    }

    /// What came since `before` is nothing, or all of `whole`; the listings agree. Says whether it came.
    fn shows(&self, before: &Self, whole: &[String], when: &str) -> bool {
        let came = journal::after(before.rev, self.rev, &self.events);
        if came.is_empty() {
            assert_eq!(self.listings, before.listings, "{when}");
            return false;
        }
        assert_eq!(came, whole, "{when}");
        for (now, before) in self.listings.iter().zip(&before.listings) {
            assert_ne!(now, before, "{when}");
        }
        true
    }
}

/// A world that is ready for a case, and what an undisturbed round writes.
fn ready(engine: Engine, case: &Case) -> (World, Vec<String>) {
    let world = World::timeless(engine);
    for arguments in case.before {
        world.run(arguments).works();
    }
    // The first round also does what is done once only.
    let mut whole = Vec::new();
    for round in 0..2 {
        let command = Command::prepare(&world, case, round);
        let rev = journal::newest(&world, 0).0;
        command.act(None);
        whole = journal::since(&world, rev);
    }
    (world, whole)
}

/// A command in one of its rounds, which happens once however often it is asked for.
struct Command<'a> {
    world: &'a World,
    agent: &'a str,
    words: String,
    key: String,
}

impl<'a> Command<'a> {
    fn prepare(world: &'a World, case: &'a Case, round: u64) -> Self {
        let prepared = case.prepare.map(|prepare| prepare(world, round));
        let prepared = prepared.unwrap_or_default();
        Self {
            world,
            agent: case.agent,
            words: (case.command)(&prepared, round),
            key: format!("round {round}"),
        }
    }

    /// Runs it, and lets it die at a step. Says whether it died; if not, it did what it was asked to.
    fn act(&self, dies: Option<u64>) -> bool {
        let words: Vec<&str> = self.words.split(' ').collect();
        let mut run = self.world.run(&words).once(&self.key);
        if !self.agent.is_empty() {
            run = run.by(self.agent);
        }
        if let Some(step) = dies {
            run = run.dies_at(step);
        }
        let answer = run.ends();
        let died = dies.is_some() && answer.died();
        assert!(died || answer.code() == Some(0), "{answer}");
        died
    }
}

fn die_everywhere(engine: Engine, case: &Case) {
    let (world, whole) = ready(engine, case);
    let (mut deaths, mut survived) = (0, 0);
    let mut before = Sight::of(&world, case);
    for step in 1.. {
        let command = Command::prepare(&world, case, step + 1);
        if case.prepare.is_some() {
            before = Sight::of(&world, case);
        }
        let died = command.act(Some(step));
        world.is_well();
        let when = format!("{}, after step {step}", case.name);
        let after = Sight::of(&world, case);
        let came = after.shows(&before, &whole, &when);
        if !died {
            assert!(came, "{when}");
            break;
        }
        deaths += 1;
        survived += u32::from(came);
        // Dies again in the repetition, somewhere else.
        let again = step * 5 % 9 + 1;
        command.act(Some(again));
        command.act(None);
        let when = format!("{when} and step {again}");
        let after = Sight::of(&world, case);
        assert!(after.shows(&before, &whole, &when), "{when}");
        before = after;
    }
    assert!(
        deaths >= 5 && survived >= 1 && survived < deaths,
        "{}: {deaths} deaths, {survived} after the commit",
        case.name
    );
}

fn die_twice_everywhere(engine: Engine) {
    let case = &TALK[1];
    let (world, whole) = ready(engine, case);
    let (mut rev, mut round) = (journal::newest(&world, 0).0, 1);
    for first in 1.. {
        for second in (1..).step_by(2) {
            round += 1;
            let command = Command::prepare(&world, case, round);
            if !command.act(Some(first)) {
                assert!(first > 5 && second == 1, "there are steps to die at");
                return;
            }
            let died = command.act(Some(second));
            command.act(None);
            assert_eq!(journal::since(&world, rev), whole, "{first}, then {second}");
            rev += whole.len() as u64;
            if !died {
                world.is_well();
                break;
            }
        }
    }
}
