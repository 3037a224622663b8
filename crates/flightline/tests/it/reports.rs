//! What else an owner reports of its sortie, on both engines: files, criteria, cursor, errors, reviews.

use flightline::core::sortie::TokenUsage;
use flightline_testkit::prelude::*;
use flightline_testkit::story::task::{begun, update};

both_engines! {
    fn a_file_created_and_then_modified_is_still_new_to_others(world: &World) {
        let story = begun(world);
        let report = |files| UpdateSortie { files, ..update(&story) };
        story
            .run(
                "ada",
                &report(vec![
                    file("new.rs", FileChange::Created),
                    file("old.rs", FileChange::Modified),
                ]),
            )
            .unwrap();
        story
            .run(
                "ada",
                &report(vec![
                    file("new.rs", FileChange::Modified),
                    file("./old.rs", FileChange::Modified),
                ]),
            )
            .unwrap();
        let view = story.run("ada", &report(vec![file("gone.rs", FileChange::Deleted)])).unwrap();
        let seen: Vec<_> = view
            .files
            .iter()
            .map(|file| (file.path.as_str(), file.change, file.by.as_str()))
            .collect();
        assert_eq!(
            seen,
            [
                ("new.rs", FileChange::Created, "ada"),
                ("old.rs", FileChange::Modified, "ada"),
                ("gone.rs", FileChange::Deleted, "ada"),
            ]
        );
        let view = story
            .run(
                "ada",
                &report(vec![
                    file("new.rs", FileChange::Deleted),
                    file("gone.rs", FileChange::Created),
                ]),
            )
            .unwrap();
        assert_eq!(
            (view.files[0].change, view.files[2].change),
            (FileChange::Deleted, FileChange::Created)
        );
    }

    fn criteria_are_met_by_name_and_a_mistyped_one_is_refused(world: &World) {
        let story = begun(world);
        let met =
            |named: &str| UpdateSortie { criteria: [(name(named), true)].into(), ..update(&story) };
        let view = story.run("ada", &met("tests_pass")).unwrap();
        assert_eq!(
            view.sortie.acceptance_criteria,
            [(name("docs_written"), false), (name("tests_pass"), true)].into()
        );
        let refused = story.run("ada", &met("tests_past")).unwrap_err();
        assert_eq!(
            (refused.code, refused.hint.unwrap().as_str()),
            (Code::InvalidInput, "its criteria: docs_written, tests_pass")
        );
    }

    fn a_sortie_without_criteria_takes_what_its_owner_names(world: &World) {
        let story = Story::new(world);
        story.mission("Add login", &["Write 29 files"]);
        story.claim("ada", "Write 29 files").unwrap();
        let named = UpdateSortie { criteria: [(name("reviewed"), false)].into(), ..update(&story) };
        assert_eq!(story.run("ada", &named).unwrap().sortie.acceptance_criteria.len(), 1);
    }

    fn the_cursor_moves_and_what_is_left_out_stays(world: &World) {
        let story = begun(world);
        let first = UpdateSortie {
            note: Some(note("halfway")),
            last_processed: Some(title("file_18")),
            next_to_process: Some(title("file_19")),
            cursor_notes: Some(note("skip the drafts")),
            resume_instructions: Some(note("open file_19")),
            tokens_in: 1_000,
            tokens_out: 100,
            ..update(&story)
        };
        story.run("ada", &first).unwrap();
        let later = UpdateSortie {
            last_processed: Some(title("file_19")),
            tokens_in: 5,
            tokens_out: u64::MAX,
            ..update(&story)
        };
        let sortie = story.run("ada", &later).unwrap().sortie;
        assert_eq!(sortie.cursor.last_processed, Some(title("file_19")));
        assert_eq!(sortie.cursor.next_to_process, Some(title("file_19")));
        assert_eq!(sortie.cursor.notes, Some(note("skip the drafts")));
        assert_eq!(
            (sortie.progress_notes, sortie.resume_instructions),
            (Some(note("halfway")), Some(note("open file_19")))
        );
        assert_eq!(sortie.token_usage, TokenUsage { input: 1_005, output: u64::MAX });
        assert_eq!((sortie.resumable, sortie.estimate_ms), (true, Some(3_600_000)));
    }

    fn progress_can_only_be_made_on_a_sortie_that_somebody_has(world: &World) {
        let story = Story::new(world);
        story.mission("Add login", &["Write 29 files"]);
        let pending = story.run("ada", &update(&story)).unwrap_err();
        assert_eq!(pending.code, Code::IllegalTransition);
        assert!(pending.hint.unwrap().starts_with("claim it first"));
        story.claim("ada", "Write 29 files").unwrap();
        story.change("ada", "Write 29 files", DONE).unwrap();
        let completed = story.run("ada", &update(&story)).unwrap_err();
        assert!(
            completed.hint.unwrap().starts_with("send it back first with `fleet sorties reject")
        );
        let error = ReportError {
            blocking: true,
            ..report_error(story.sortie_id("Write 29 files"), "late", "too late")
        };
        assert_eq!(story.run("ada", &error).unwrap_err().code, Code::IllegalTransition);
    }

    fn a_second_blocking_error_joins_the_first_and_both_are_cleared(world: &World) {
        let story = begun(world);
        let error = |message| ReportError {
            blocking: true,
            ..report_error(story.sortie_id("Write 29 files"), "dependency_missing", message)
        };
        story.run("ada", &error("no libfoo")).unwrap();
        story.pass_minutes(1);
        let view = story.run("ada", &error("no libbar")).unwrap();
        assert_eq!((view.errors.len(), view.sortie.blocked_reason), (2, Some(note("no libfoo"))));
        let refused = story.change("ada", "Write 29 files", SortieAction::Unblock).unwrap_err();
        assert!(
            refused.message.ends_with("still has 2 errors blocking: no libfoo"),
            "{}",
            refused.message
        );
        let clear = ClearErrors { sortie: story.sortie_id("Write 29 files") };
        let rev = story.rev();
        story.run("ada", &clear).unwrap();
        assert_eq!(story.events_after(rev).len(), 2);
        story.run("ada", &clear).unwrap();
        assert_eq!(story.events_after(rev).len(), 2, "clearing twice is harmless");
        let free = story.change("ada", "Write 29 files", SortieAction::Resume).unwrap();
        assert_eq!(
            (free.sortie.status, free.errors.len()),
            (SortieStatus::InProgress, 2),
            "errors are kept"
        );
    }

    fn each_reviewer_has_one_review_and_the_last_one_counts(world: &World) {
        let story = begun(world);
        let review = |reviewer: Option<&str>, score| AddReview {
            sortie: story.sortie_id("Write 29 files"),
            reviewer: reviewer.map(name),
            score,
            note: Some(note("as asked")),
        };
        story.run("", &review(Some("quality"), None)).unwrap();
        story.run("rex", &review(None, Some(7))).unwrap();
        let view = story.run("", &review(Some("quality"), Some(-9))).unwrap();
        let scores: Vec<_> =
            view.reviews.iter().map(|one| (one.reviewer.as_str(), one.score)).collect();
        assert_eq!(scores, [("quality", Some(-9)), ("rex", Some(7))]);
        let nobody = story.run("", &review(None, Some(1))).unwrap_err();
        assert_eq!(
            (nobody.code, nobody.message.as_str()),
            (Code::InvalidInput, "a review needs a reviewer")
        );
    }
}
