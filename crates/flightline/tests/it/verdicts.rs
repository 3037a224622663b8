//! Sorties that do not go straight to their end, on both engines: blocked, failed, given back,
//! interrupted, judged.

use flightline::core::sortie::Verdict;
use flightline_testkit::prelude::*;

use crate::sorties::{approve, begun, block, fail, refused, reject};

both_engines! {
    fn approval_and_rejection_are_for_completed_sorties(world: &World) {
        let story = begun(world, "User model");
        assert_eq!(refused(story.change("", "User model", approve())), Code::IllegalTransition);
        story.change("ada", "User model", DONE).unwrap();
        let approved = story.change("", "User model", approve()).unwrap().sortie;
        let approval = approved.approval.unwrap();
        assert_eq!(
            (approved.status, approval.verdict, approval.by.as_str()),
            (SortieStatus::Completed, Verdict::Approved, "user:tester")
        );
        let rejected = story.change("rex", "User model", reject()).unwrap().sortie;
        let approval = rejected.approval.unwrap();
        assert_eq!((rejected.status, rejected.completed_at), (SortieStatus::InProgress, None));
        assert_eq!(
            (approval.verdict, approval.by.as_str(), approval.reason),
            (Verdict::Rejected, "rex", Some(note("tests are missing")))
        );
        assert_eq!(
            story.sortie("User model").owner.as_deref(),
            Some("ada"),
            "it goes back to its owner"
        );
    }

    fn resuming_is_for_work_that_was_interrupted(world: &World) {
        let story = begun(world, "User model");
        story.register("ada", Role::Specialist);
        let resumed = story.change("ada", "User model", SortieAction::Resume).unwrap().sortie;
        assert_eq!(
            (resumed.assigned_epoch, resumed.attempts),
            (Some(2), 1),
            "a new session, the same attempt"
        );
        let update = UpdateSortie {
            sortie: story.sortie_id("User model"),
            resumable: Some(false),
            ..UpdateSortie::default()
        };
        story.run("ada", &update).unwrap();
        let refusal = story.change("ada", "User model", SortieAction::Resume).unwrap_err();
        assert!(refusal.message.ends_with("it is marked as not resumable"), "{}", refusal.message);
        story.change("ada", "User model", DONE).unwrap();
        story.mission("Second", &["Waiting"]);
        let refusal = story.change("", "Waiting", SortieAction::Resume).unwrap_err();
        assert!(refusal.message.ends_with("it is pending"), "{}", refusal.message);
        assert_eq!(
            refusal.hint.unwrap(),
            format!(
                "only a sortie that is in progress or blocked can be resumed; claim it with `fleet sorties claim {} --agent NAME`, which hands over the remaining work",
                &story.sortie_id("Waiting")[..12]
            )
        );
    }

    fn a_blocking_error_must_be_cleared_before_work_goes_on(world: &World) {
        let story = begun(world, "User model");
        let error = ReportError {
            status: Some(503),
            blocking: true,
            ..report_error(story.sortie_id("User model"), "api_error", "the API is down")
        };
        let blocked = story.run("ada", &error).unwrap().sortie;
        assert_eq!(
            (blocked.status, blocked.blocked_reason),
            (SortieStatus::Blocked, Some(note("the API is down")))
        );
        for action in [SortieAction::Unblock, SortieAction::Resume] {
            let refusal = story.change("ada", "User model", action).unwrap_err();
            assert_eq!(refusal.code, Code::IllegalTransition);
            assert!(
                refusal.message.ends_with("still has an error blocking: the API is down"),
                "{}",
                refusal.message
            );
        }
        assert_eq!(
            story.claim("ada", "User model").unwrap_err().code,
            Code::IllegalTransition,
            "claiming anew is no way around"
        );
        let clear = ClearErrors { sortie: story.sortie_id("User model") };
        let cleared = story.run("ada", &clear).unwrap();
        assert_eq!(
            (cleared.sortie.status, cleared.errors[0].cleared_at),
            (SortieStatus::Blocked, Some(world.clock.now()))
        );
        assert_eq!(
            story.change("ada", "User model", SortieAction::Unblock).unwrap().sortie.status,
            SortieStatus::InProgress
        );
    }

    fn an_error_that_does_not_block_is_only_recorded(world: &World) {
        let story = begun(world, "User model");
        let error = |status| ReportError {
            status,
            ..report_error(story.sortie_id("User model"), "api_error", "slow")
        };
        story.run("ada", &error(Some(503))).unwrap();
        let twice = story.run("ada", &error(None)).unwrap();
        assert_eq!(twice.sortie.status, SortieStatus::InProgress);
        assert_eq!(
            twice.errors.iter().map(|one| (one.number, one.status)).collect::<Vec<_>>(),
            [(1, Some(503)), (2, None)]
        );
        assert_eq!(
            story.run("ada", &error(Some(42))).unwrap_err().message,
            "42 is not a status code"
        );
        story.change("ada", "User model", block()).unwrap();
        story.change("ada", "User model", SortieAction::Unblock).unwrap();
    }

    fn a_failed_sortie_says_why_and_can_be_taken_up_again(world: &World) {
        let story = begun(world, "User model");
        let failed = story.change("ada", "User model", fail()).unwrap().sortie;
        assert_eq!(
            (failed.status, failed.failure),
            (SortieStatus::Failed, Some(note("out of ideas")))
        );
        let free = story.change("ada", "User model", GIVEN_BACK).unwrap().sortie;
        assert_eq!((free.status, free.failure), (SortieStatus::Pending, None));
    }

    fn releasing_gives_a_sortie_back_to_everybody(world: &World) {
        let story = begun(world, "User model");
        let free = story.change("ada", "User model", GIVEN_BACK).unwrap();
        assert_eq!(
            (free.sortie.status, free.owner, free.sortie.assigned_epoch),
            (SortieStatus::Pending, None, None)
        );
        assert_eq!(story.claim("bob", "User model").unwrap().sortie.attempts, 2);
    }

    fn blocking_says_why_and_unblocking_forgets_it(world: &World) {
        let story = begun(world, "User model");
        let blocked = story.change("ada", "User model", block()).unwrap().sortie;
        assert_eq!(
            (blocked.status, blocked.blocked_reason),
            (SortieStatus::Blocked, Some(note("waiting for the schema")))
        );
        let unblocked = story.change("ada", "User model", SortieAction::Unblock).unwrap().sortie;
        assert_eq!(
            (unblocked.status, unblocked.blocked_reason, unblocked.attempts),
            (SortieStatus::InProgress, None, 1)
        );
    }
}
