//! Looking at checkpoints and marking them, on both engines.

use flightline::checkpoint::inspect::CheckpointList;
use flightline_testkit::prelude::*;
use serde_json::json;

/// A mission with three milestones behind it, and a manual checkpoint.
fn working(world: &World) -> (Story<'_>, Vec<CheckpointId>) {
    let story = Story::new(world);
    story.mission("Add login", &["Model", "Endpoint", "Docs", "Tests"]);
    for title in ["Model", "Endpoint", "Docs"] {
        story.pass_minutes(1);
        story.finish("ada", &[title]);
    }
    story.claim("bob", "Tests").unwrap();
    story.checkpoint();
    let ids = story.checkpoints().iter().map(|one| one.id).collect();
    (story, ids)
}

fn list(story: &Story<'_>, limit: u64, archived: bool) -> CheckpointList {
    let request = ListCheckpoints {
        mission: None,
        archived,
        limit,
    };
    story.run("", &request).unwrap()
}

fn listed(list: &CheckpointList) -> Vec<CheckpointId> {
    list.checkpoints.iter().map(|one| one.id).collect()
}

fn show(story: &Story<'_>, reference: &str) -> Result<CheckpointId, Refusal> {
    let request = ShowCheckpoint {
        checkpoint: reference.to_owned(),
    };
    story.run("", &request).map(|document| document.id)
}

fn problems(story: &Story<'_>) -> Vec<(CheckpointId, Option<String>)> {
    let verdicts = story.run("", &verify_checkpoints());
    let verdicts = verdicts.unwrap().into_iter();
    verdicts
        .filter(|verdict| !verdict.sound)
        .map(|verdict| (verdict.id, verdict.problem))
        .collect()
}

/// Writes a checkpoint's record as another program would.
fn forge(story: &Story<'_>, checkpoint: &Checkpoint) {
    let write = |fleet: &mut Fleet| {
        fleet
            .store()
            .unwrap()
            .write(|tx| tx.set(EventType::CheckpointNoted, checkpoint, &json!({})))
    };
    story.with_fleet(write).unwrap();
}

both_engines! {
    fn checkpoints_are_listed_newest_first(world: &World) {
        let (story, ids) = working(world);
        let all = list(&story, 10, false);
        assert_eq!((listed(&all), all.total), (ids.iter().rev().copied().collect(), 4));
        let newest = &all.checkpoints[1];
        assert_eq!((newest.trigger, newest.reason.as_str(), newest.progress_percent, newest.sortie_count), (Trigger::Progress, "milestone", 75, 4));
        assert_eq!((newest.trigger_details.as_deref(), newest.timestamp), (Some("Reached 75% milestone"), world.clock.now()));
        let two = list(&story, 2, false);
        assert_eq!((two.checkpoints.len(), two.total), (2, 4));
    }

    fn a_list_is_of_one_mission(world: &World) {
        let (story, ids) = working(world);
        let first = story.all::<Mission>()[0].id;
        story.mission("Another", &["Elsewhere"]);
        let other = story.checkpoint().id;
        assert_eq!(listed(&list(&story, 10, false)), [other]);
        let named = ListCheckpoints { mission: Some(first.to_string()), archived: false, limit: 1 };
        assert_eq!(listed(&story.run("", &named).unwrap()), [ids[3]]);
    }

    fn the_newest_and_those_before_it_have_names(world: &World) {
        let (story, ids) = working(world);
        assert_eq!(show(&story, "@latest").unwrap(), ids[3]);
        assert_eq!(show(&story, "@latest~3").unwrap(), ids[0]);
        assert_eq!(show(&story, &ids[1].to_string()[..16]).unwrap(), ids[1]);
        assert_eq!(show(&story, "@latest~4").unwrap_err().code, Code::NotFound);
        assert_eq!(show(&story, "@latest~x").unwrap_err().code, Code::InvalidInput);
        assert_eq!(show(&story, "chk-ffffffff").unwrap_err().code, Code::NotFound);
    }

    fn a_pinned_checkpoint_is_neither_deleted_nor_archived(world: &World) {
        let (story, ids) = working(world);
        story.mark("", ids[0], CheckpointMark::Pin).unwrap();
        for wish in [CheckpointMark::Delete, CheckpointMark::Archive] {
            let refused = story.mark("", ids[0], wish).unwrap_err();
            assert_eq!(refused.code, Code::Unfinished);
            assert!(refused.message.ends_with("it is pinned") && refused.hint.unwrap().contains("unpin"), "{}", refused.message);
        }
        story.mark("", ids[0], CheckpointMark::Unpin).unwrap();
        story.mark("", ids[0], CheckpointMark::Delete).unwrap();
        assert_eq!(story.checkpoints().len(), 3);
    }

    fn every_mark_has_its_event(world: &World) {
        let (story, ids) = working(world);
        let rev = story.rev();
        for wish in [CheckpointMark::Pin, CheckpointMark::Unpin, CheckpointMark::Note { text: note("look here") }, CheckpointMark::Archive] {
            story.mark("", ids[0], wish).unwrap();
        }
        story.mark("", ids[1], CheckpointMark::Delete).unwrap();
        assert_eq!(story.kinds_after(rev), ["checkpoint_pinned", "checkpoint_unpinned", "checkpoint_noted", "checkpoint_archived", "checkpoint_deleted"]);
        assert!(story.events_after(rev).iter().all(|event| event.data["checkpoint_id"].is_string() && event.actor == "user:tester"));
        assert_eq!(story.checkpoints()[0].note, Some(note("look here")));
    }

    fn marks_do_not_touch_what_a_checkpoint_names(world: &World) {
        let (story, ids) = working(world);
        let before = story.checkpoints()[3].clone();
        story.mark("", ids[3], CheckpointMark::Pin).unwrap();
        story.mark("", ids[3], CheckpointMark::Note { text: note("x") }).unwrap();
        let after = story.checkpoints()[3].clone();
        assert_eq!((after.sha256, &after.cut), (before.sha256, &before.cut));
        assert_eq!(problems(&story), []);
    }

    fn an_archived_checkpoint_is_out_of_the_way_and_not_gone(world: &World) {
        let (story, ids) = working(world);
        story.mark("", ids[3], CheckpointMark::Archive).unwrap();
        assert_eq!(listed(&list(&story, 10, false)), [ids[2], ids[1], ids[0]]);
        let with = list(&story, 10, true);
        assert_eq!((with.total, with.checkpoints[0].status), (4, CheckpointStatus::Archived));
        assert_eq!(show(&story, "@latest").unwrap(), ids[2]);
        assert_eq!(story.resume("", vec![]).unwrap().checkpoint_id, ids[2]);
        assert!(story.rewind(ids[3]).is_ok(), "who names it gets it");
    }

    fn a_difference_names_what_changed(world: &World) {
        let (story, ids) = working(world);
        let diff = |a: CheckpointId, b: Option<CheckpointId>| story.run("", &DiffCheckpoints { a: a.to_string(), b: b.map(|id| id.to_string()) }).unwrap();
        assert_eq!(diff(ids[3], None), []);
        assert_eq!(diff(ids[3], Some(ids[3])), []);
        story.lock("bob", &["a.rs"]).unwrap();
        story.change("bob", "Tests", SortieAction::Block { reason: note("no token") }).unwrap();
        let found = diff(ids[3], None);
        let lines: Vec<(&str, Kind)> = found.iter().map(|one| (one.change.as_str(), one.kind)).collect();
        assert_eq!(lines, [("changed", Kind::Sortie), ("added", Kind::Lock)]);
        assert_eq!(found[0].fields["status"], (json!("in_progress"), json!("blocked")));
        assert!(diff(ids[0], Some(ids[1])).iter().any(|one| one.fields.get("status") == Some(&(json!("pending"), json!("completed")))));
    }

    fn checkpoints_of_two_missions_do_not_compare(world: &World) {
        let (story, ids) = working(world);
        story.mission("Another", &["Elsewhere"]);
        let other = story.checkpoint().id;
        let request = DiffCheckpoints { a: ids[0].to_string(), b: Some(other.to_string()) };
        assert_eq!(story.run("", &request).unwrap_err().message, "the two checkpoints belong to different missions");
    }

    fn a_value_that_was_changed_behind_our_back_is_found_in_every_checkpoint_that_has_it(world: &World) {
        let (story, ids) = working(world);
        assert_eq!(problems(&story), []);
        let second = story.checkpoints()[1].cut.rev;
        damage::everywhere(world, Kind::Sortie, &story.sortie_id("Docs"), second);
        let bad: Vec<CheckpointId> = problems(&story).into_iter().map(|(id, _)| id).collect();
        assert_eq!(bad, ids[2..], "those before the damage are sound");
    }

    fn a_header_that_was_changed_is_found(world: &World) {
        let (story, ids) = working(world);
        let mut forged = story.checkpoints().remove(1);
        forged.cut.recovery_context.next_steps.push("Delete everything".to_owned());
        forge(&story, &forged);
        let found = problems(&story);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].0, ids[1]);
        assert!(found[0].1.as_ref().unwrap().ends_with("is damaged: its header does not match its checksum"), "{found:?}");
    }

    fn a_cut_that_names_other_values_is_found_by_its_section(world: &World) {
        let (story, _) = working(world);
        let mut forged = story.checkpoints().remove(1);
        forged.cut.rev = story.checkpoints()[0].cut.rev;
        forged.sha256 = forged.cut.sha256();
        forge(&story, &forged);
        let found = problems(&story);
        assert!(found[0].1.as_ref().unwrap().contains("its section `"), "{found:?}");
    }

    fn a_version_of_the_future_is_refused_and_a_later_one_of_ours_is_read(world: &World) {
        let (story, ids) = working(world);
        let mut newer = story.checkpoints().remove(3);
        newer.cut.version = "1.7.0".to_owned();
        newer.sha256 = newer.cut.sha256();
        forge(&story, &newer);
        assert_eq!(problems(&story), []);
        let pin = MarkCheckpoint { checkpoint: newer.id.to_string(), mark: CheckpointMark::Pin };
        assert_eq!(story.run("", &pin).unwrap_err().code, Code::NewerStore, "read, and not written over");
        newer.cut.version = "2.0.0".to_owned();
        newer.sha256 = newer.cut.sha256();
        forge(&story, &newer);
        let found = problems(&story);
        assert!(found[0].1.as_ref().unwrap().ends_with("it has a version that this `fleet` does not know"), "{found:?}");
        let done = story.resume("", vec![]).unwrap();
        assert_eq!((done.checkpoint_id, done.warnings.len()), (ids[2], 1), "the one before is used, and said so");
        assert_eq!(story.checkpoints().remove(3).status, CheckpointStatus::Valid, "it is not ours to mark");
    }

    fn a_record_that_cannot_be_read_is_named_and_hides_no_other(world: &World) {
        let (story, ids) = working(world);
        damage::live(world, Kind::Checkpoint, &ids[1].to_string());
        assert_eq!(problems(&story), [(ids[1], Some(format!("{} is damaged: its record does not match its checksum", &ids[1].to_string()[..12])))]);
        assert_eq!(listed(&list(&story, 10, false)), [ids[3], ids[2], ids[1], ids[0]]);
        assert_eq!(show(&story, &ids[1].to_string()).unwrap_err().code, Code::Integrity);
        story.finish("ada", &[]);
        assert!(story.checkpoint_for("ada", Reason::Shutdown).is_ok(), "taking one works");
    }

    fn one_missions_damage_leaves_the_other_untouched(world: &World) {
        let (story, ids) = working(world);
        story.mission("Another", &["Elsewhere", "Nowhere"]);
        story.finish("ada", &["Elsewhere"]);
        let other = story.all::<Mission>()[1].id;
        damage::everywhere(world, Kind::Sortie, &story.sortie_id("Model"), 0);
        damage::live(world, Kind::Checkpoint, &ids[0].to_string());
        damage::everywhere(world, Kind::Sortie, &story.sortie_id("Docs"), 0);
        assert_eq!(problems(&story), []);
        story.claim("ada", "Nowhere").unwrap();
        let cut = story.checkpoint();
        story.settle();
        assert_eq!((cut.mission_id, story.file_of(&cut).exists()), (other, true));
        assert_eq!(story.resume("", vec![]).unwrap().mission_id, other);
        story.change("ada", "Nowhere", SortieAction::Fail { reason: note("gave up") }).unwrap();
        assert!(story.rewind(cut.id).is_ok() && story.undo().is_ok());
    }
}
