//! After a restore, and after a rebuild of a store that is there or was lost: no cursor, fence, epoch or
//! session of before is accepted, on both engines.

use std::fs;

use flightline::backup::{back_up, restore};
use flightline_testkit::named;
use flightline_testkit::prelude::*;

use crate::fencing::everything::ask_for_everything;
use crate::rebuild::rebuilt;

/// What a client may still remember of a store that was replaced.
struct Memory {
    cursors: Vec<Cursor>,
    /// Of ada's locks on `src/a.rs`.
    fences: Vec<u64>,
    rev: u64,
}

/// How a store is replaced.
#[derive(Clone, Copy, Debug)]
enum Way {
    Restore,
    Rebuild,
}

fn session(agent: &str, session: &str) -> Caller {
    Caller {
        session: Some(session.to_owned()),
        ..caller(agent)
    }
}

fn epoch(agent: &str, epoch: u64) -> Caller {
    Caller {
        epoch: Some(epoch),
        ..caller(agent)
    }
}

fn begin(story: &Story<'_>, agent: &str, session: &str) -> u64 {
    let register = RegisterAgent {
        role: Some(Role::Dispatch),
        session: Some(title(session)),
        ..registration(agent)
    };
    story.run("", &register).unwrap().agent.epoch
}

/// Ada is at work in her first session; that is saved, in a backup and in a checkpoint's file. Then she comes
/// in a second session, and bob in his first and second.
fn stage(world: &World) -> Memory {
    let story = Story::new(world);
    begin(&story, "ada", "s-1");
    story.run("", &registration("idle")).unwrap();
    story.mission("Add login", &["Ada's", "Free", "Next"]);
    story.claim("ada", "Ada's").unwrap();
    let first = story.lock("ada", &["src/a.rs"]).unwrap()[0].lock.fence;
    story.run("ada", &begin_effect("publish")).unwrap();
    let once = create_mission("Saved", vec![]);
    story.run_as(&keyed("", "saved"), &once).unwrap();
    story
        .run_as(&keyed("ada", "lock"), &locks_on(&["src/k.rs"]))
        .unwrap();
    let early = story.cursor();
    let login = story.sortie("Ada's").sortie.mission_id.to_string();
    story.run("", &UseMission { mission: login }).unwrap();
    story.checkpoint();
    story.settle();
    let file = world.folder().join("backup.db");
    story.with_fleet(|fleet| back_up(fleet, &file)).unwrap();
    begin(&story, "ada", "s-2");
    story.run("ada", &release_all()).unwrap();
    let second = story.lock("ada", &["src/a.rs"]).unwrap()[0].lock.fence;
    begin(&story, "bob", "b-1");
    begin(&story, "bob", "b-2");
    let later = create_mission("Later", vec![]);
    story.run_as(&keyed("", "later"), &later).unwrap();
    Memory {
        cursors: vec![
            Cursor {
                rev: 1,
                ..early.clone()
            },
            early,
            story.cursor(),
        ],
        fences: vec![first, second],
        rev: story.rev(),
    }
}

fn replace(world: &World, way: Way) {
    match way {
        Way::Restore => {
            let (file, keep) = (
                world.folder().join("backup.db"),
                world.folder().join("undo.db"),
            );
            restore(&mut world.fleet(), &named(&file), &keep, &caller("")).unwrap();
        }
        Way::Rebuild => {
            rebuilt(world).unwrap();
        }
    }
}

/// A client that remembers the old store gets nowhere with it.
fn nothing_old_is_accepted(world: &World, memory: &Memory) {
    let story = Story::new(world);
    cursors_are_void(&story, memory);
    assert!(story.rev() > memory.rev, "no revision is given out twice");
    assert!(story.all::<Lock>().is_empty());
    let refused = |who: &Caller| {
        for (operation, answer) in ask_for_everything(&story, who) {
            let refusal = answer.expect_err(operation);
            assert_eq!(refusal.code, Code::Fenced, "{operation}: {refusal}");
        }
    };
    let old = [
        epoch("ada", 1),
        epoch("ada", 2),
        session("ada", "s-1"),
        session("ada", "s-2"),
    ];
    old.iter().for_each(refused);
    for bob in [
        epoch("bob", 1),
        epoch("bob", 2),
        session("bob", "b-1"),
        session("bob", "b-2"),
    ] {
        let answer = story.run_as(&bob, &locks_on(&["x"]));
        assert_eq!(answer.unwrap_err().code, Code::Fenced, "{bob:?}");
    }
    // They come back as new ones, and what they were before is as void as ever.
    let (ada, bob) = (begin(&story, "ada", "s-3"), begin(&story, "bob", "b-3"));
    assert!(ada > 2 && bob > 2, "{ada}, {bob}");
    old.iter().for_each(refused);
    assert_eq!(
        story
            .run_as(&epoch("bob", 2), &Heartbeat::default())
            .unwrap_err()
            .code,
        Code::Fenced
    );
    story
        .run_as(
            &Caller {
                session: Some("s-3".to_owned()),
                ..epoch("ada", ada)
            },
            &Heartbeat::default(),
        )
        .unwrap();
    story
        .run_as(&epoch("bob", bob), &Heartbeat::default())
        .unwrap();
    fences_are_void(&story, memory);
    assert!(
        story.damaged_values().is_empty(),
        "{:?}",
        story.damaged_values()
    );
}

fn cursors_are_void(story: &Story<'_>, memory: &Memory) {
    let now = story.cursor();
    let newest = Cursor {
        rev: now.rev,
        ..memory.cursors[0].clone()
    };
    let ahead = Cursor {
        rev: now.rev + 1,
        ..now.clone()
    };
    for old in memory.cursors.iter().chain([&newest, &ahead]) {
        let follow = ListEvents {
            after: Some(old.clone()),
            limit: 9,
            ..ListEvents::default()
        };
        let refusal = story.run("", &follow).unwrap_err();
        assert_eq!(refusal.code, Code::HistoryChanged, "{old:?}");
    }
    let follow = ListEvents {
        after: Some(now),
        limit: 9,
        ..ListEvents::default()
    };
    assert!(story.run("", &follow).unwrap().events.is_empty());
}

fn fences_are_void(story: &Story<'_>, memory: &Memory) {
    let file = || vec!["src/a.rs".to_owned()];
    let try_all = |code: Code| {
        for fence in &memory.fences {
            let renew = RenewLocks {
                locks: file(),
                fence: Some(*fence),
                ttl_ms: None,
            };
            assert_eq!(story.run("ada", &renew).unwrap_err().code, code);
            let release = ReleaseLocks {
                locks: file(),
                all: false,
                fence: Some(*fence),
            };
            assert_eq!(story.run("ada", &release).unwrap_err().code, code);
        }
    };
    try_all(Code::NotFound);
    let new = story.lock("ada", &["src/a.rs"]).unwrap()[0].lock.fence;
    assert!(
        memory.fences.iter().all(|old| new > *old),
        "fences only grow"
    );
    try_all(Code::Fenced);
    assert_eq!(story.all::<Lock>().len(), 1, "nobody let it go");
}

fn missions(story: &Story<'_>, named: &str) -> usize {
    let all = story.all::<Mission>();
    all.iter()
        .filter(|mission| mission.title.as_str() == named)
        .count()
}

both_engines! {
    fn after_a_restore_nothing_old_is_accepted(world: &World) {
        let memory = stage(world);
        replace(world, Way::Restore);
        nothing_old_is_accepted(world, &memory);
    }

    fn after_a_rebuild_nothing_old_is_accepted(world: &World) {
        let memory = stage(world);
        replace(world, Way::Rebuild);
        nothing_old_is_accepted(world, &memory);
    }

    fn after_a_rebuild_and_a_restore_of_what_was_before_it_nothing_old_is_accepted(world: &World) {
        let memory = stage(world);
        replace(world, Way::Rebuild);
        replace(world, Way::Restore);
        nothing_old_is_accepted(world, &memory);
    }

    fn agents_whose_records_are_damaged_are_not_forgotten(world: &World) {
        let memory = stage(world);
        let agents: Vec<Agent> = Story::new(world).all();
        for agent in agents.iter().filter(|agent| ["ada", "bob"].contains(&agent.name.as_str())) {
            damage::live(world, Kind::Agent, &agent.id.to_string());
            damage::journal(world, Kind::Agent, &agent.id.to_string(), 0);
        }
        replace(world, Way::Restore);
        nothing_old_is_accepted(world, &memory);
    }

    fn a_key_is_remembered_as_far_as_what_it_did_is_there(world: &World) {
        stage(world);
        replace(world, Way::Restore);
        let story = Story::new(world);
        for (key, title, there) in [("saved", "Saved", 1), ("later", "Later", 0)] {
            assert_eq!(missions(&story, title), there);
            story.run_as(&keyed("", key), &create_mission(title, vec![])).unwrap();
            assert_eq!(missions(&story, title), 1, "done once in this history");
        }
        // An answer of before may tell of a lock of before, which is worth nothing now.
        begin(&story, "ada", "s-3");
        let told = story.run_as(&keyed("ada", "lock"), &locks_on(&["src/k.rs"])).unwrap();
        let renew = RenewLocks { locks: vec!["src/k.rs".to_owned()], fence: Some(told[0].lock.fence), ttl_ms: None };
        assert_eq!(story.run("ada", &renew).unwrap_err().code, Code::NotFound);
        story.lock("bob-3", &["src/k.rs"]).unwrap();
    }

    fn a_rebuild_remembers_no_key_and_says_so(world: &World) {
        stage(world);
        replace(world, Way::Rebuild);
        let story = Story::new(world);
        assert_eq!(missions(&story, "Saved"), 0, "it never had a checkpoint");
        for _ in 0..2 {
            story.run_as(&keyed("", "saved"), &create_mission("Saved", vec![])).unwrap();
        }
        assert_eq!(missions(&story, "Saved"), 1);
    }
}

#[test]
fn after_a_lost_store_nothing_old_is_accepted() {
    let world = World::new(Engine::Sqlite);
    let memory = stage(&world);
    let database = world.folder().join(".flightline/flightline.db");
    fs::write(&database, "not a database").unwrap();
    let _ = fs::remove_file(database.with_extension("db-wal"));
    replace(&world, Way::Rebuild);
    nothing_old_is_accepted(&world, &memory);
}

#[test]
fn after_a_lost_store_and_a_restore_nothing_old_is_accepted() {
    let world = World::new(Engine::Sqlite);
    let memory = stage(&world);
    fs::remove_file(world.folder().join(".flightline/flightline.db")).unwrap();
    let _ = fs::remove_file(world.folder().join(".flightline/flightline.db-wal"));
    replace(&world, Way::Rebuild);
    replace(&world, Way::Restore);
    nothing_old_is_accepted(&world, &memory);
}
