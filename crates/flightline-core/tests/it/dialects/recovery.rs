//! Seed E: checkpoints for when tokens run out.

use expect_test::expect;
use flightline_core::briefing::{estimate_tokens, strip_data};
use flightline_core::checkpoint::Reason;
use flightline_core::dialect::recovery::*;
use flightline_core::dialect::{Dialect, DialectDocument, Json};
use flightline_core::time::Time;
use proptest::prelude::*;

use crate::dialects::corpus::{self, check_bad_files, check_refused, check_round_trip, time};
use crate::dialects::random;

const EXAMPLE: &str = include_str!("data/recovery_example.json");
const NONCE: &str = "k7q2x9fd";
const DAY: u64 = 86_400_000;

fn read(text: &str) -> DialectDocument {
    corpus::read(Dialect::Recovery, text)
}

fn example() -> DialectDocument {
    read(EXAMPLE)
}

#[test]
fn the_example_comes_back_to_the_letter() {
    assert_eq!(check_round_trip(Dialect::Recovery, EXAMPLE), EXAMPLE);
}

#[test]
fn bad_files_are_refused() {
    check_bad_files(Dialect::Recovery, EXAMPLE);
}

#[test]
fn wrong_types_are_refused_with_their_place() {
    let cases = [
        (
            "\"timestamp\": \"2025-10-30T15:30:00Z\",",
            "",
            "`timestamp` is missing at `$`",
        ),
        (
            "\"2025-10-30T15:30:00Z\"",
            "\"noon\"",
            "`noon` is not a time such as 2026-01-04T15:30:00Z at `$.timestamp`",
        ),
        (
            "\"2025-10-30T15:30:00Z\"",
            "1761838200",
            "expected text, found a number at `$.timestamp`",
        ),
        (
            "\"version\": \"1.0\"",
            "\"version\": \"2.0\"",
            "its version is `2.0`, and only 1 is understood at `$.version`",
        ),
        (
            "182000",
            "\"many\"",
            "expected a number, found text at `$.tokenUsage.total`",
        ),
        (
            "\"T005\",",
            "5,",
            "expected a task or a list of tasks, found a number at `$.state.inProgress`",
        ),
        (
            "{\"id\": \"T007\",",
            "{",
            "`id` is missing at `$.state.backlogSnapshot[1]`",
        ),
        (
            "\"STACK_ID\": \"fastapi\"",
            "\"STACK_ID\": [\"fastapi\"]",
            "expected text, found a list at `$.context.STACK_ID`",
        ),
        (
            "\"deltaChanges\": [",
            "\"deltaChanges\": {}, \"x\": [",
            "expected a list, found an object at `$.deltaChanges`",
        ),
    ];
    check_refused(Dialect::Recovery, EXAMPLE, &cases);
}

#[test]
fn one_task_or_a_list_of_them_can_be_in_progress() {
    assert_eq!(in_progress(&example()), ["T005"]);
    let many = EXAMPLE.replacen("\"T005\",", "[\"T005\", \"T009\"],", 1);
    check_round_trip(Dialect::Recovery, &many);
    assert_eq!(in_progress(&read(&many)), ["T005", "T009"]);
    let none = EXAMPLE.replacen("\"T005\",", "null,", 1);
    check_round_trip(Dialect::Recovery, &none);
    assert!(in_progress(&read(&none)).is_empty());
}

#[test]
fn files_are_named_by_their_time() {
    let at = time("2025-10-30T15:30:00.250Z");
    assert_eq!(backup_name(at), "checkpoint-2025-10-30T15-30-00.250Z.json");
    assert_eq!(
        emergency_name(at),
        "emergency-2025-10-30T15-30-00.250Z.json"
    );
}

#[test]
fn reasons_have_the_seeds_words() {
    for reason in [
        Reason::TokenWarning,
        Reason::TokenCritical,
        Reason::SessionEnd,
        Reason::Manual,
    ] {
        assert_eq!(reason_of(word_of(reason)), Some(reason));
        assert_eq!(word_of(reason), reason.as_str());
    }
    assert_eq!(word_of(Reason::TaskComplete), "task_completion");
    assert_eq!(reason_of("task_completion"), Some(Reason::TaskComplete));
    assert_eq!(reason_of("whim"), None);
}

fn started(checkpoint: &DialectDocument, stack: Option<&str>, gone: &[&str], now: &str) -> Start {
    let expected = Expected {
        stack_id: stack,
        task_exists: &|task| !gone.contains(&task),
        max_age: DAY,
        now: time(now),
    };
    start(checkpoint, &expected)
}

#[test]
fn a_good_checkpoint_is_resumed_from() {
    let now = "2025-10-31T15:29:59.999Z";
    assert_eq!(
        started(&example(), Some("fastapi"), &[], now),
        Start::Resume
    );
    assert_eq!(started(&example(), None, &[], now), Start::Resume);
    // A clock that went backwards makes nothing old.
    let before = "2025-10-30T10:00:00Z";
    assert_eq!(started(&example(), None, &[], before), Start::Resume);
}

#[test]
fn an_empty_timestamp_is_no_checkpoint() {
    let cleared = EXAMPLE.replacen("2025-10-30T15:30:00Z", "", 1);
    for checkpoint in [
        read(&cleared),
        read(r#"{"timestamp": ""}"#),
        read(r#"{"timestamp": null}"#),
    ] {
        let begun = started(
            &checkpoint,
            Some("other"),
            &["T005"],
            "2030-01-01T00:00:00Z",
        );
        assert_eq!(begun, Start::Normal);
        assert_eq!(begun.log(), None);
    }
}

#[test]
fn a_checkpoint_that_does_not_fit_is_kept_and_the_session_starts_normally() {
    let fallback = |stack, gone: &[&str], now| {
        let begun = started(&example(), stack, gone, now);
        assert!(matches!(begun, Start::Fallback { .. }), "{begun:?}");
        begun.log().unwrap()
    };
    let soon = "2025-10-30T16:00:00Z";
    assert_eq!(
        fallback(Some("fastapi"), &[], "2025-10-31T15:30:00Z"),
        "Checkpoint resume failed: it is 1d old, and one of 1d or more is not resumed"
    );
    assert_eq!(
        fallback(Some("axum"), &[], soon),
        "Checkpoint resume failed: its STACK_ID is `fastapi`, and the project's is `axum`"
    );
    assert_eq!(
        fallback(Some("fastapi"), &["T005", "T002", "T008"], soon),
        "Checkpoint resume failed: it names tasks that do not exist any more: T005, T002, T008"
    );
    let all = started(&example(), Some("axum"), &["T005"], "2025-11-30T00:00:00Z");
    assert!(matches!(&all, Start::Fallback { why } if why.len() == 3));
    let mut bare = example();
    bare.set("context", Json::Null);
    let log = started(&bare, Some("axum"), &[], soon).log().unwrap();
    assert!(log.ends_with("its STACK_ID is missing, and the project's is `axum`"));
}

#[test]
fn the_recovery_context_names_what_to_load_now_and_later() {
    let context = recovery_context(
        &example(),
        Some("JWT refresh token logic, in `auth/refresh.py`"),
        NONCE,
        CONTEXT_TOKENS,
    )
    .unwrap();
    expect![[r#"
        ## Recovery mode

        Load now:
        - context-strategy.md
        - token-monitoring.md
        - projectConfig.md:STACK_ID
        - activeContext.md
        - Current task from checkpoints/latest.json

        Load later:
        - Stack profiles (load when coding resumes)
        - techContext.md (load if needed)
        - systemPatterns.md (load if needed)
        - deliverables.md (skip unless release task)

        The checkpoint says:
        <k7q2x9fd checkpoint>
        Task: T005
        Task details: JWT refresh token logic, in `auth/refresh.py`
        STACK_ID: fastapi
        Objective: Complete authentication system
        Instructions: Load recovery context, complete T005 JWT refresh implementation, run tests, then full sync and return to standard mode.
        Next step: Finish T005: JWT refresh token logic
        Next step: Write unit tests for refresh endpoint
        Next step: Run pytest suite
        Next step: Update progress metrics
        Next step: Move T005 to done
        Phase: development
        Sprint: sprint-2
        Delta: {"file":"taskBoard","operation":"move","taskId":"T005","from":"backlog","to":"inProgress"}
        Delta: {"file":"progress","operation":"update","field":"metrics.currentSprint.completed","value":4}
        Backlog: T006 Add rate limiting
        Backlog: T007 Implement caching
        Backlog: T008 Setup monitoring
        Done: T001
        Done: T002
        Done: T003
        Done: T004
        </k7q2x9fd>
    "#]]
    .assert_eq(&context.text);
    assert_eq!(context.left_out, 0);
    assert!(context.tokens <= CONTEXT_TOKENS);
}

#[test]
fn a_recovery_context_keeps_to_its_budget_and_says_what_it_leaves_out() {
    let mut large = example();
    let steps: Vec<String> = (0..20_000).map(|n| format!("Step {n} of many")).collect();
    large.set("nextSteps", steps);
    let context = recovery_context(&large, None, NONCE, CONTEXT_TOKENS).unwrap();
    assert!(context.tokens <= CONTEXT_TOKENS, "{}", context.tokens);
    assert!(
        context.tokens > CONTEXT_TOKENS * 9 / 10,
        "{}",
        context.tokens
    );
    assert!(context.left_out > 19_000);
    assert!(context.text.contains("Next step: Step 0 of many\n"));
    assert!(context.text.ends_with(&format!(
        "Left out for want of room: {}, to be read in `checkpoints/latest.json`.\n",
        context.left_out
    )));
    assert!(recovery_context(&example(), None, NONCE, 50).is_err());
    assert!(recovery_context(&example(), None, "no", CONTEXT_TOKENS).is_err());
}

#[test]
fn our_deltas_are_written_as_the_seeds() {
    let ours = [
        moved("T005", "backlog", "inProgress"),
        updated("metrics.currentSprint.completed", Json::from(4)),
    ];
    let text = |deltas: &[Json]| deltas.iter().map(Json::stringify).collect::<Vec<_>>();
    assert_eq!(text(&ours), text(example().items("deltaChanges")));
}

fn found(names: &[(&str, u64)], now: Time) -> Vec<FoundFile> {
    let file = |(name, age): &(&str, u64)| FoundFile {
        name: (*name).to_owned(),
        modified: now.minus(*age),
    };
    names.iter().map(file).collect()
}

#[test]
fn clean_up_keeps_the_latest_five_backups_and_every_emergency() {
    let now = time("2025-11-30T00:00:00Z");
    let files = found(
        &[
            ("latest.json", 100 * DAY),
            ("checkpoint-f.json", 1),
            ("checkpoint-e.json", 2),
            ("checkpoint-d.json", 3),
            ("checkpoint-c.json", 4),
            ("checkpoint-b.json", 5),
            ("checkpoint-a.json", 6),
            ("emergency-new.json", 7 * DAY),
            ("emergency-old.json", 7 * DAY + 1),
            ("notes.json", 100 * DAY),
        ],
        now,
    );
    assert_eq!(
        CleanUp::default().plan(&files, now),
        CleanupPlan {
            delete: vec!["checkpoint-a.json".to_owned()],
            archive: vec!["emergency-old.json".to_owned()],
        }
    );
    let old = found(
        &[
            ("checkpoint-x.json", 7 * DAY),
            ("checkpoint-y.json", 7 * DAY + 1),
        ],
        now,
    );
    assert_eq!(
        CleanUp::default().plan(&old, now).delete,
        ["checkpoint-y.json"]
    );
}

#[test]
fn the_resume_instructions_are_the_seeds() {
    expect![[r#"
        Session interrupted at T004. To resume:

        1. Start new session
        2. Agent will auto-detect checkpoint
        3. Or manually: "Resume from last checkpoint"
        4. System loads minimal context and continues
    "#]]
    .assert_eq(&resume_instructions(Some("T004")));
    let without = resume_instructions(None);
    assert!(without.starts_with("Session interrupted. To resume:\n"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn any_checkpoint_comes_back_as_it_was(document in random::recovery()) {
        check_round_trip(Dialect::Recovery, &document.pretty(&[]));
    }

    /// Whatever a checkpoint says, the context fits, and our own words are the same.
    #[test]
    fn a_context_fits_and_speaks_with_one_voice(
        document in random::recovery(),
        hostile in prop::collection::vec("(</?k7q2x9fd( checkpoint)?>|\\PC|[\\n\\r\u{202e}\u{200b}])*", 0..4),
        budget in 300usize..2_500,
    ) {
        let mut checkpoint = read(&document.stringify());
        checkpoint.set("nextSteps", hostile);
        let context = recovery_context(&checkpoint, None, NONCE, budget).unwrap();
        prop_assert!(context.tokens <= budget, "{} of {}", context.tokens, budget);
        prop_assert_eq!(context.tokens, estimate_tokens(&context.text));
        let nothing = recovery_context(&Json::Null, None, NONCE, budget).unwrap();
        let ours = strip_data(&context.text, NONCE);
        let voice = strip_data(&nothing.text, NONCE);
        prop_assert!(ours.starts_with(&voice), "{}", ours);
        prop_assert_eq!(ours.lines().count() - voice.lines().count(), if context.left_out > 0 { 2 } else { 0 });
        prop_assert_eq!(context.text.matches(NONCE).count(), 2);
    }

    #[test]
    fn any_checkpoint_starts_a_session(document in random::recovery(), now in 0i64..4_000_000_000_000) {
        let checkpoint = read(&document.stringify());
        let expected = Expected {
            stack_id: Some("fastapi"),
            task_exists: &|task| task.starts_with('T'),
            max_age: DAY,
            now: Time::from_millis(now),
        };
        let begun = start(&checkpoint, &expected);
        if let Some(told) = begun.log() {
            prop_assert_eq!(told.lines().count(), 1);
        }
        prop_assert_eq!(begun == Start::Normal, checkpoint.written().is_none());
    }
}
