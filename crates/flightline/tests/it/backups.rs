//! Backups of the whole store and the way back, on both engines and from one to the other.

use std::path::PathBuf;

use expect_test::expect;
use flightline::backup::{BackedUp, Restored, back_up, restore};
use flightline::core::event::sha256_hex;
use flightline::core::token::{Presented, Scope, written};
use flightline::token::{CheckToken, CreateToken, RevokeToken};
use flightline_testkit::named;
use flightline_testkit::prelude::*;

fn saved(story: &Story<'_>, name: &str) -> (PathBuf, Result<BackedUp, Refusal>) {
    let file = story.world.folder().join(name);
    let made = story.with_fleet(|fleet| back_up(fleet, &file));
    (file, made.map_err(flightline::Error::into_refusal))
}

fn restored(story: &Story<'_>, file: &str, keep: &str) -> Result<Restored, Refusal> {
    let (file, keep) = (
        story.world.folder().join(file),
        story.world.folder().join(keep),
    );
    story
        .with_fleet(|fleet| restore(fleet, &named(&file), &keep, &caller("")))
        .map_err(flightline::Error::into_refusal)
}

fn given(story: &Story<'_>, named: &str) -> Presented {
    let secret = sha256_hex(named);
    let create = CreateToken {
        name: name(named),
        scope: Scope::Read,
        agent: None,
        expires_in_ms: None,
        sha256: sha256_hex(&secret),
    };
    let id = story.run("", &create).unwrap().id;
    Presented::parse(&written(&story.world.project, id, &secret)).unwrap()
}

/// Ada is at a sortie and holds a lock; then a backup is made; then more happens.
fn stage(world: &World) -> Story<'_> {
    let story = Story::new(world);
    story.mission("Add login", &["User model", "Login endpoint"]);
    let ada = RegisterAgent {
        session: Some(title("s-1")),
        process: Some(process(7)),
        ..registration("ada")
    };
    story.run("", &ada).unwrap();
    story.claim("ada", "User model").unwrap();
    story.lock("ada", &["src/a.rs"]).unwrap();
    story.send("ada", &["ada"], "Before").unwrap();
    saved(&story, "backup.db").1.unwrap();
    story.change("ada", "User model", DONE).unwrap();
    story.run("", &registration("ada")).unwrap();
    story.run("", &registration("ada")).unwrap();
    for _ in 0..4 {
        story.run("", &registration("bob")).unwrap();
    }
    story.lock("bob", &["src/b.rs"]).unwrap();
    story
}

/// The fleet as text but for the lines of a kind.
fn without(kind: &str, text: &str) -> String {
    let kept = text.lines().filter(|line| !line.starts_with(kind));
    kept.map(|line| format!("{line}\n")).collect()
}

both_engines! {
    fn a_backup_holds_everything_and_says_so(world: &World) {
        let story = stage(world);
        let (file, made) = saved(&story, "second.db");
        let made = made.unwrap();
        assert_eq!((made.rev, made.events), (story.rev(), story.rev()));
        assert_eq!(made.bytes, std::fs::metadata(&file).unwrap().len());
        assert_eq!(
            saved(&story, "second.db").1.unwrap_err().code,
            Code::InvalidInput,
            "nothing is written over"
        );
        let left: Vec<_> = std::fs::read_dir(world.folder())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .filter(|name| name.to_string_lossy().contains(".flightline-"))
            .collect();
        assert!(left.is_empty(), "nothing is left beside it: {left:?}");
    }

    fn a_restore_brings_back_the_work_and_grants_nothing_old(world: &World) {
        let story = stage(world);
        let before = story.rev();
        let came_back = restored(&story, "backup.db", "undo.db").unwrap();
        assert_eq!(came_back.released_locks, 1);
        assert!(story.rev() > before, "revisions only grow");
        expect![[r#"
            mission "Add login" in_progress 0%
              sortie "User model" in_progress ada
              sortie "Login endpoint" pending -
            agent ada epoch 4
            agent bob epoch 5 retired
            mail ada "Before"
              to ada pending
        "#]]
        .assert_eq(&story.as_text());
        assert!(story.damaged_values().is_empty(), "{:?}", story.damaged_values());
        let fences = story.lock("ada", &["src/a.rs"]).unwrap();
        assert!(fences[0].lock.fence > before, "fences only grow");
    }

    fn every_epoch_of_before_is_over(world: &World) {
        let story = stage(world);
        restored(&story, "backup.db", "undo.db").unwrap();
        assert_eq!(story.agent("ada").epoch, 4, "she had reached the third");
        assert_eq!((story.agent("ada").session_id, story.agent("ada").process), (None, None));
        for epoch in 1..=3 {
            let old = Caller { epoch: Some(epoch), ..caller("ada") };
            assert_eq!(story.run_as(&old, &Heartbeat::default()).unwrap_err().code, Code::Fenced);
            assert_eq!(story.run_as(&old, &locks_on(&["x"])).unwrap_err().code, Code::Fenced);
        }
        assert_eq!(story.register("ada", Role::Specialist).agent.epoch, 5);
    }

    fn an_agent_that_came_after_the_backup_does_not_begin_anew(world: &World) {
        let story = stage(world);
        assert_eq!(story.agent("bob").epoch, 4);
        restored(&story, "backup.db", "undo.db").unwrap();
        let old = Caller { epoch: Some(4), ..caller("bob") };
        assert_eq!(story.run_as(&old, &locks_on(&["x"])).unwrap_err().code, Code::Fenced);
        assert_eq!(
            story.run("bob", &locks_on(&["x"])).unwrap_err().code,
            Code::Fenced,
            "he was not there yet"
        );
        assert!(story.register("bob", Role::Specialist).agent.epoch > 4);
        assert_eq!(story.run_as(&old, &locks_on(&["x"])).unwrap_err().code, Code::Fenced);
        story.run("bob", &locks_on(&["x"])).unwrap();
    }

    fn old_cursors_and_fences_are_void(world: &World) {
        let story = stage(world);
        let (early, late) = (Cursor { rev: 3, ..story.cursor() }, story.cursor());
        let fence = story.lock("ada", &["src/a.rs"]).unwrap()[0].lock.fence;
        restored(&story, "backup.db", "undo.db").unwrap();
        for old in [early, late] {
            let follow = ListEvents { after: Some(old), limit: 9, ..ListEvents::default() };
            assert_eq!(story.run("", &follow).unwrap_err().code, Code::HistoryChanged);
        }
        let renew =
            RenewLocks { locks: vec!["src/a.rs".to_owned()], fence: Some(fence), ttl_ms: None };
        assert_eq!(story.run("ada", &renew).unwrap_err().code, Code::NotFound);
        let here = story.cursor();
        let follow = ListEvents { after: Some(here), limit: 9, ..ListEvents::default() };
        assert!(story.run("", &follow).unwrap().events.is_empty());
    }

    fn a_restore_is_told_in_the_journal(world: &World) {
        let story = stage(world);
        let before = story.rev();
        let came_back = restored(&story, "backup.db", "undo.db").unwrap();
        let events = story.events_after(before);
        assert_eq!(
            (events[0].kind.as_str(), events[0].actor.as_str()),
            ("store_restored", "user:tester")
        );
        assert_eq!(events[0].data["rev"], came_back.rev);
        assert!(events.iter().all(|event| event.step == events[0].step), "in one step");
        let reasons: Vec<_> = events
            .iter()
            .filter(|event| event.kind == "lock_released")
            .map(|event| &event.data["reason"])
            .collect();
        assert_eq!(reasons, ["the store was restored"]);
    }

    fn the_undo_file_brings_back_what_was_there(world: &World) {
        let story = stage(world);
        let before = story.as_text();
        restored(&story, "backup.db", "undo.db").unwrap();
        assert_ne!(story.as_text(), before);
        restored(&story, "undo.db", "undo-of-undo.db").unwrap();
        assert_eq!(without("lock", &without("agent", &story.as_text())), without("lock", &without("agent", &before)));
        assert!(story.all::<Lock>().is_empty());
        assert_eq!(story.agent("bob").retired_at, None);
        assert!(story.agent("ada").epoch > 4, "epochs go on from the highest ever seen");
        assert!(story.damaged_values().is_empty());
    }

    fn a_restore_that_cannot_be_done_changes_nothing(world: &World) {
        let story = stage(world);
        let (text, rev) = (story.as_text(), story.rev());
        std::fs::write(world.folder().join("junk.db"), b"this is no backup, and never was one")
            .unwrap();
        std::fs::write(world.folder().join("taken.db"), b"").unwrap();
        let bytes = std::fs::read(world.folder().join("backup.db")).unwrap();
        // Every copy of the mission's document: some may be what SQLite left behind in its pages.
        let (document, mut broken) = (b"\"Add login\",\"objective\"", bytes.clone());
        let copies: Vec<usize> = (0..bytes.len() - document.len())
            .filter(|at| bytes[*at..].starts_with(document))
            .collect();
        copies.iter().for_each(|at| broken[at + 1] = b'B');
        std::fs::write(world.folder().join("broken.db"), broken).unwrap();
        std::fs::write(world.folder().join("short.db"), &bytes[..bytes.len() / 2]).unwrap();
        for (number, wrong) in
            ["junk.db", "missing.db", "broken.db", "short.db", "taken.db"].iter().enumerate()
        {
            let refusal = restored(&story, wrong, &format!("undo-{number}.db")).unwrap_err();
            assert!(
                matches!(
                    refusal.code,
                    Code::InvalidInput | Code::NotOurStore | Code::Integrity | Code::NoProject
                ),
                "{wrong}: {refusal:?}"
            );
        }
        assert_eq!(
            restored(&story, "backup.db", "taken.db").unwrap_err().code,
            Code::InvalidInput,
            "what is to be kept is never written over"
        );
        assert_eq!((story.as_text(), story.rev()), (text, rev));
        assert!(story.damaged_values().is_empty());
    }

    fn idempotency_keys_survive_a_restore(world: &World) {
        let story = Story::new(world);
        let keyed = keyed("ada", "k");
        let first = story.run_as(&keyed, &create_mission("Add login", vec![])).unwrap();
        saved(&story, "backup.db").1.unwrap();
        restored(&story, "backup.db", "undo.db").unwrap();
        let again = story.run_as(&keyed, &create_mission("Add login", vec![])).unwrap();
        assert_eq!(again.mission.id, first.mission.id);
    }

    fn a_token_that_was_taken_back_since_stays_taken_back(world: &World) {
        let story = Story::new(world);
        let kept = given(&story, "kept");
        let lost = given(&story, "lost");
        saved(&story, "backup.db").1.unwrap();
        let later = given(&story, "later");
        story.run("", &RevokeToken { token: "lost".to_owned() }).unwrap();
        restored(&story, "backup.db", "undo.db").unwrap();
        let opens = |presented: &Presented| story.run("", &CheckToken { presented: presented.clone() }).is_ok();
        assert!(opens(&kept));
        assert!(!opens(&lost), "it was taken back");
        assert!(!opens(&later), "nobody knows it any more");
        assert_eq!(story.damaged_values(), [] as [&str; 0]);
    }

    fn a_retired_agent_stays_retired(world: &World) {
        let story = stage(world);
        story.run("", &retire("bob")).unwrap();
        saved(&story, "later.db").1.unwrap();
        restored(&story, "later.db", "undo.db").unwrap();
        assert!(story.agent("bob").retired_at.is_some());
    }

    fn after_a_restore_every_lease_gets_a_full_grace(world: &World) {
        let story = stage(world);
        story.pass_minutes(300);
        restored(&story, "backup.db", "undo.db").unwrap();
        story.lock("ada", &["src/a.rs"]).unwrap();
        story.pass_minutes(29);
        assert_eq!(story.lock("eve", &["src/a.rs"]).unwrap_err().code, Code::LockHeld);
    }

    fn a_backup_moves_a_fleet_to_the_other_engine(world: &World) {
        let story = stage(world);
        let other = World::new(match world.engine {
            Engine::Sqlite => Engine::Postgres,
            Engine::Postgres => Engine::Sqlite,
        });
        std::fs::copy(world.folder().join("backup.db"), other.folder().join("backup.db")).unwrap();
        let moved = Story::new(&other);
        restored(&moved, "backup.db", "undo.db").unwrap();
        restored(&story, "backup.db", "undo.db").unwrap();
        assert_eq!(without("agent", &moved.as_text()), without("agent", &story.as_text()));
        assert!(moved.damaged_values().is_empty());
        moved.claim_next("eve").unwrap();
    }
}
