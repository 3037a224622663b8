//! What a checkpoint names is what was recorded when it was taken, on both engines, whatever became of it since: a lock that its
//! holder takes again for another mission stays in the checkpoints of the first.

use std::time::Duration;

use flightline::checkpoint::inspect::VerifyCheckpoint;
use flightline::checkpoint::thin::thin;
use flightline::core::checkpoint::{Digest, DigestLine, sections};
use flightline_testkit::outside;
use flightline_testkit::prelude::*;
use serde_json::json;

const DAY: Duration = Duration::from_secs(86_400);

/// Two missions, and a lock of ada's that belongs to the first.
fn two_missions(world: &World) -> (Story<'_>, MissionId, MissionId) {
    let story = Story::new(world);
    let login = story.mission("Add login", &["Model"]).mission.id;
    story.lock("ada", &["src/a.rs"]).unwrap();
    let search = story.mission("Add search", &["Index"]).mission.id;
    (story, login, search)
}

fn turn_to(story: &Story<'_>, mission: MissionId) {
    let mission = mission.to_string();
    story.run("", &UseMission { mission }).unwrap();
}

fn take(story: &Story<'_>, mission: MissionId) -> CheckpointId {
    let request = TakeCheckpoint {
        mission: Some(mission.to_string()),
        note: Some(note("one more")),
        ..take_checkpoint()
    };
    story.run("", &request).unwrap().id
}

/// The files that were locked at a checkpoint, which must be sound.
fn locked(story: &Story<'_>, id: CheckpointId) -> Vec<String> {
    let verdict = story.run("", &VerifyCheckpoint { checkpoint: id }).unwrap();
    assert_eq!((verdict.sound, verdict.problem), (true, None));
    let show = ShowCheckpoint {
        checkpoint: id.to_string(),
    };
    let shown = story.run("", &show).unwrap();
    let files = shown.active_locks.iter().map(|lock| lock.file.to_string());
    files.collect()
}

/// Moves a lock to another mission under its own id, as versions before this one did.
fn move_lock(story: &Story<'_>, file: &str, to: Option<MissionId>) {
    let locks = story.all::<Lock>();
    let mut lock = locks
        .into_iter()
        .find(|lock| lock.file.to_string() == file)
        .unwrap();
    lock.mission_id = to;
    story
        .with_fleet(|fleet| {
            let store = fleet.store().unwrap();
            store.write(|tx| tx.set(EventType::LockAcquired, &lock, &json!({})))
        })
        .unwrap();
}

/// The locks of a checkpoint, as the view shows them.
fn viewed(world: &World, id: CheckpointId) -> Vec<String> {
    let sql = format!(
        "SELECT CAST(locks_json AS TEXT) FROM checkpoints WHERE project = {{project}} AND id = '{id}'"
    );
    let rows = outside::query(world, &sql);
    // Agents stand there by their names, so they are no locks of ours.
    let locks: Vec<serde_json::Value> =
        serde_json::from_str(rows[0][0].as_deref().unwrap()).unwrap();
    let file = |lock: &serde_json::Value| lock["file"].as_str().unwrap().to_owned();
    locks.iter().map(file).collect()
}

both_engines! {
    fn a_lock_taken_again_in_another_mission_leaves_the_checkpoints_of_the_first_as_they_are(world: &World) {
        let (story, login, search) = two_missions(world);
        let before = take(&story, login);
        story.claim("ada", "Index").unwrap();
        let again = story.lock("ada", &["src/a.rs"]).unwrap().remove(0).lock;
        assert_eq!(again.mission_id, Some(search), "it is for the work its holder has now");
        let after = (take(&story, login), take(&story, search));
        assert_eq!((locked(&story, before), locked(&story, after.0), locked(&story, after.1)),
            (vec!["src/a.rs".to_owned()], vec![], vec!["src/a.rs".to_owned()]));
        story.force_rewind(before);
        assert_eq!((locked(&story, before), story.damaged_values()), (vec!["src/a.rs".to_owned()], vec![]));
    }

    fn a_lock_taken_again_for_another_mission_is_another_lock(world: &World) {
        let (story, login, search) = two_missions(world);
        let first = story.all::<Lock>().remove(0);
        let rev = story.rev();
        story.claim("ada", "Index").unwrap();
        let again = story.lock("ada", &["src/a.rs"]).unwrap().remove(0).lock;
        let told: Vec<(String, Option<MissionId>)> = story.events_after(rev).into_iter()
            .filter(|event| event.kind.starts_with("lock_")).map(|event| (event.kind, event.mission_id)).collect();
        assert_eq!(told, [("lock_released".to_owned(), Some(login)), ("lock_acquired".to_owned(), Some(search))]);
        assert_ne!(again.id, first.id);
        assert!(again.fence > first.fence);
        assert_eq!(story.all::<Lock>(), [again]);
    }

    fn a_lock_taken_again_for_no_work_goes_on_as_it_was(world: &World) {
        let (story, login, search) = two_missions(world);
        let first = story.all::<Lock>().remove(0);
        turn_to(&story, search);
        let again = story.lock("ada", &["src/a.rs"]).unwrap().remove(0).lock;
        assert_eq!((again.id, again.mission_id), (first.id, Some(login)));
        assert!(again.fence > first.fence);
        let for_a_sortie = AcquireLocks { sortie: Some(story.sortie_id("Index")), ..locks_on(&["src/a.rs"]) };
        let moved = story.run("ada", &for_a_sortie).unwrap().remove(0).lock;
        assert_eq!(moved.mission_id, Some(search));
        assert_ne!(moved.id, first.id);
    }

    fn a_lock_that_an_older_version_moved_is_read_as_it_was_recorded(world: &World) {
        let (story, login, search) = two_missions(world);
        let file = || vec!["src/a.rs".to_owned()];
        let (login_1, search_1) = (take(&story, login), take(&story, search));
        move_lock(&story, "src/a.rs", Some(search));
        let (login_2, search_2) = (take(&story, login), take(&story, search));
        move_lock(&story, "src/a.rs", None);
        let (login_3, search_3) = (take(&story, login), take(&story, search));
        move_lock(&story, "src/a.rs", Some(login));
        let all = [login_1, search_1, login_2, search_2, login_3, search_3];
        let expected = [file(), vec![], vec![], file(), file(), file()];
        let whole = |id| serde_json::to_string(&story.whole(id)).unwrap();
        let texts = all.map(whole);
        for released in [false, true] {
            for (id, files) in all.iter().zip(&expected) {
                assert_eq!((locked(&story, *id), viewed(world, *id)), (files.clone(), files.clone()), "{id} {released}");
            }
            // Nothing that one of them names is ever thinned, whatever the row of the lock says.
            world.pass(DAY);
            let everything = PlanThinning { older_than_ms: Some(0), ..PlanThinning::default() };
            story.with_fleet(|fleet| thin(fleet, &caller(""), &everything)).unwrap();
            assert_eq!(all.map(whole), texts);
            if !released {
                story.run("ada", &release_all()).unwrap();
            }
        }
        assert_eq!(story.damaged_values(), Vec::<String>::new());
        // Whose own values alone go with it.
        let prune = PlanPrune { mission: Some(search.to_string()), older_than_ms: Some(1), keep: Some(1), as_of: None, force: false };
        let plan = story.with_fleet(|fleet| plan_all(fleet, &caller(""), &prune)).unwrap();
        story.with_fleet(|fleet| apply_all(fleet, &caller(""), &prune, &plan)).unwrap();
        for (at, files) in [(0, file()), (2, vec![]), (4, file()), (5, file())] {
            assert_eq!(locked(&story, all[at]), files);
        }
    }

    fn a_checkpoint_of_before_is_verified_as_it_was_hashed(world: &World) {
        let (story, login, search) = two_missions(world);
        let asked = TakeCheckpoint { mission: Some(login.to_string()), ..take_checkpoint() };
        let id = story.run("", &asked).unwrap().id;
        let lines = story.look(|tx| tx.lines(login));
        let hashed = |digest: Digest, lines: Vec<DigestLine>| {
            story.with_fleet(|fleet| {
                fleet.store().unwrap().write(|tx| {
                    let mut it = tx.get::<Checkpoint>(id)?.unwrap();
                    it.cut.digest = digest;
                    it.cut.sections = sections(lines.clone(), digest);
                    it.sha256 = it.cut.sha256();
                    tx.set(EventType::CheckpointNoted, &it, &json!({}))?;
                    Ok::<_, flightline::store::StoreError>(it)
                })
            })
        };
        let old = hashed(Digest::Lines, lines.clone()).unwrap();
        assert!(!serde_json::to_string(&old).unwrap().contains("digest"), "it does not say how");
        assert_eq!(locked(&story, id), ["src/a.rs"]);
        assert_eq!(story.run("", &asked).unwrap().id, id, "nothing has changed since");
        story.claim("ada", "Model").unwrap();
        take(&story, search);
        let new = take(&story, login);
        assert_eq!((locked(&story, id), locked(&story, new)), (vec!["src/a.rs".to_owned()], vec!["src/a.rs".to_owned()]));
        assert_eq!(story.damaged_values(), Vec::<String>::new());
        // What was hashed otherwise than it says is damaged.
        hashed(Digest::Buckets, lines.clone()).unwrap();
        assert_eq!(locked(&story, id), ["src/a.rs"]);
        let mut other = lines;
        other[0].rev += 1;
        for digest in [Digest::Lines, Digest::Buckets] {
            hashed(digest, other.clone()).unwrap();
            let verdict = story.run("", &VerifyCheckpoint { checkpoint: id }).unwrap();
            assert!(!verdict.sound, "{digest:?}");
        }
    }
}
