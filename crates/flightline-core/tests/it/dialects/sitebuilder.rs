//! Seed B: task checkpoints.

use expect_test::expect;
use flightline_core::dialect::sitebuilder::*;
use flightline_core::dialect::{Dialect, DialectDocument, Json};
use flightline_core::time::Time;
use proptest::prelude::*;

use crate::dialects::corpus::{self, check_bad_files, check_refused, check_round_trip, time};
use crate::dialects::random;

/// More silence than this, and a session is over.
const SESSION_TIMEOUT: u64 = 10 * MINUTE;
const SCHEMA: &str = include_str!("data/sitebuilder_schema.json");
const START: &str = include_str!("data/sitebuilder_start.json");
const UPDATE_START: &str = include_str!("data/sitebuilder_update_start.json");
const UPDATE_PROGRESS: &str = include_str!("data/sitebuilder_update_progress.json");
const UPDATE_MID: &str = include_str!("data/sitebuilder_update_mid.json");
const UPDATE_COMPLETE: &str = include_str!("data/sitebuilder_update_complete.json");
const UPDATE_BLOCKED: &str = include_str!("data/sitebuilder_update_blocked.json");
const UPDATE_DONE: &str = include_str!("data/sitebuilder_update_done.json");
const HEARTBEAT: &str = include_str!("data/sitebuilder_heartbeat.json");

const MINUTE: u64 = 60_000;

fn read(text: &str) -> DialectDocument {
    corpus::read(Dialect::Sitebuilder, text)
}

/// The checkpoint after these updates.
fn after(start: &str, updates: &[&str]) -> DialectDocument {
    let mut checkpoint = read(start);
    for update in updates {
        apply(&mut checkpoint, read_part(update).unwrap()).unwrap();
    }
    checkpoint
}

#[test]
fn documents_are_written_as_the_seed_shows_them() {
    assert_eq!(check_round_trip(Dialect::Sitebuilder, START), START);
    // But for the empty lines by which the seed groups its fields.
    let schema = check_round_trip(Dialect::Sitebuilder, SCHEMA);
    assert_eq!(schema, SCHEMA.replace("\n\n", "\n"));
}

#[test]
fn bad_files_are_refused() {
    check_bad_files(Dialect::Sitebuilder, SCHEMA);
    check_bad_files(Dialect::Sitebuilder, START);
}

#[test]
fn wrong_types_are_refused_with_their_place() {
    let cases = [
        ("\"agent\": \"migration\",", "", "`agent` is missing at `$`"),
        (
            "\"in_progress\"",
            "7",
            "expected text, found a number at `$.status`",
        ),
        (
            "\"progress_percent\": 65",
            "\"progress_percent\": 101",
            "`101` is not a percentage from 0 to 100 at `$.progress_percent`",
        ),
        (
            "\"progress_percent\": 65",
            "\"progress_percent\": \"65\"",
            "expected a whole number, found text at `$.progress_percent`",
        ),
        (
            "\"total\": 29",
            "\"total\": -29",
            "`-29` is not a whole number at `$.subtasks.total`",
        ),
        (
            "\"2025-12-08T14:52:10Z\"",
            "\"today\"",
            "`today` is not a time such as 2026-01-04T15:30:00Z at `$.updated_at`",
        ),
        (
            "{\"id\": \"post-20\",",
            "{",
            "`id` is missing at `$.subtasks.items[2]`",
        ),
        (
            "\"frontmatter_valid\": true",
            "\"frontmatter_valid\": \"yes\"",
            "expected true or false, found text at `$.acceptance_criteria_met.frontmatter_valid`",
        ),
        (
            "\"agent_5\": null",
            "\"agent_5\": \"good\"",
            "expected a number, found text at `$.review_scores.agent_5`",
        ),
        (
            "\"errors\": []",
            "\"errors\": {}",
            "expected a list, found an object at `$.errors`",
        ),
        (
            "\"errors\": []",
            "\"errors\": [\"broken\"]",
            "expected an object, found text at `$.errors[0]`",
        ),
        (
            "\"resumable\": true",
            "\"resumable\": \"true\"",
            "expected true or false, found text at `$.resumable`",
        ),
    ];
    check_refused(Dialect::Sitebuilder, SCHEMA, &cases);
}

#[test]
fn a_refusal_names_the_file_and_the_place() {
    let refused = DialectDocument::read(Dialect::Sitebuilder, "{\"agent\": 1}");
    let refusal = refused.unwrap_err().refusal("x-T1.json");
    assert_eq!(
        refusal.message,
        "cannot read `x-T1.json`: `checkpoint_id` is missing at `$`"
    );
    assert_eq!(refusal.details["path"], "$");
}

#[test]
fn partial_documents_are_updates_and_not_checkpoints() {
    for part in [
        UPDATE_START,
        UPDATE_PROGRESS,
        UPDATE_MID,
        UPDATE_COMPLETE,
        UPDATE_BLOCKED,
        UPDATE_DONE,
    ] {
        assert!(DialectDocument::read(Dialect::Sitebuilder, part).is_err());
        // Everything it says arrives in the checkpoint it belongs to.
        let became = after(START, &[part]);
        let Json::Object(fields) = read_part(part).unwrap() else {
            panic!("not an object");
        };
        for (key, value) in fields {
            match (key.as_str(), value) {
                ("subtasks", Json::Object(counts)) => {
                    for (key, value) in counts {
                        assert_eq!(became.get("subtasks").unwrap().get(&key), Some(&value));
                    }
                }
                (_, value) => assert_eq!(became.get(&key), Some(&value), "{key}"),
            }
        }
    }
}

#[test]
fn a_whole_life_from_start_to_completion() {
    let done = after(START, &[UPDATE_MID, UPDATE_DONE]);
    expect![[r#"
        {
          "checkpoint_id": "migration-T060-20251208-143025",
          "agent": "migration",
          "task_id": "T060",
          "status": "complete",
          "progress_percent": 100,
          "started_at": "2025-12-08T14:30:25Z",
          "updated_at": "2025-12-08T15:30:00Z",
          "completed_at": "2025-12-08T15:30:00Z",
          "subtasks": {
            "total": 29,
            "completed": 29,
            "items": [
              {"id": "post-01", "status": "complete"},
              {"id": "post-10", "status": "complete"},
              {"id": "post-11", "status": "pending"}
            ]
          },
          "files_created": [
            "docs/content-extraction/pdfs-markdown/nature-trail/post-01.md",
            "docs/content-extraction/pdfs-markdown/nature-trail/post-10.md"
          ],
          "acceptance_criteria_met": {
            "29_files_created": true,
            "frontmatter_valid": true,
            "manifest_updated": true
          },
          "review_scores": {
            "agent_4": 88
          },
          "context": {
            "last_processed": "Post10English.pdf",
            "next_to_process": "Post11English.pdf"
          },
          "resumable": false
        }
    "#]]
    .assert_eq(&done.write());
    assert_eq!(percent(&done), 100);
}

#[test]
fn an_update_adds_files_merges_items_and_clears_errors() {
    let checkpoint = after(
        SCHEMA,
        &[
            r#"{"files_created": ["docs/content-extraction/pdfs-markdown/nature-trail/post-02.md", "new.md"],
               "subtasks": {"completed": 20, "items": [{"id": "post-20", "status": "complete"}, {"id": "post-22"}]},
               "context": {"next_to_process": null, "mood": "good"},
               "review_scores": {"agent_5": 9.5},
               "owner": "ada"}"#,
            UPDATE_BLOCKED,
            r#"{"errors": []}"#,
        ],
    );
    let text = checkpoint.write();
    for line in [
        r#"    "docs/content-extraction/pdfs-markdown/nature-trail/post-02.md","#,
        r#"    "new.md""#,
        r#"      {"id": "post-20", "status": "complete", "output": null},"#,
        r#"      {"id": "post-22"}"#,
        r#"    "last_processed": "Post19English.pdf","#,
        r#"    "next_to_process": null,"#,
        r#"    "mood": "good""#,
        r#"    "agent_5": 9.5"#,
        r#"  "errors": [],"#,
        r#"  "owner": "ada""#,
    ] {
        assert!(text.lines().any(|it| it == line), "{line}\n{text}");
    }
    assert_eq!(checkpoint.word("status"), "blocked");
    assert_eq!(progress(&checkpoint).completed, 20);
}

#[test]
fn an_update_of_another_task_changes_nothing() {
    let mut checkpoint = read(SCHEMA);
    let part = read_part(r#"{"task_id": "T061", "status": "complete"}"#).unwrap();
    let refusal = apply(&mut checkpoint, part).unwrap_err();
    assert_eq!(
        refusal.message,
        "the update is for the task `T061`, and the checkpoint of `T060`"
    );
    assert_eq!(checkpoint, read(SCHEMA));
}

#[test]
fn progress_is_counted_in_subtasks_and_rounded_down() {
    // 19 of 29, though only four are listed, two of them complete.
    let progress = progress(&read(SCHEMA));
    assert_eq!((progress.completed, progress.total), (19, 29));
    assert_eq!(progress.percent, 65);
    // The seed itself says 35 once and 34 once for 10 of 29; it is 34.
    let declared = after(START, &[UPDATE_PROGRESS]);
    assert_eq!(declared.whole("progress_percent"), Some(35));
    assert_eq!(percent(&declared), 34);
    assert_eq!(percent(&after(START, &[UPDATE_MID])), 34);
    // Without subtasks the agent's word counts.
    let mut alone = read(SCHEMA);
    alone.set("subtasks", Json::Null);
    assert_eq!(percent(&alone), 65);
    // More done than there is, and none at all.
    let odd = after(START, &[r#"{"subtasks": {"total": 3, "completed": 9}}"#]);
    assert_eq!(percent(&odd), 100);
    let none = after(START, &[r#"{"subtasks": {"total": 0, "completed": 0}}"#]);
    assert_eq!(percent(&none), 0);
}

#[test]
fn the_progress_line_is_the_seeds() {
    assert_eq!(
        progress_line("T060", percent(&read(SCHEMA))),
        "@orchestrator: Task T060 progress: 65%"
    );
}

#[test]
fn a_session_timeout_is_silence_of_more_than_ten_minutes_in_progress() {
    let last = time("2025-12-08T14:52:10Z");
    let checkpoint = read(SCHEMA);
    let at = |span: u64| scenario(&checkpoint, SESSION_TIMEOUT, last.plus(span));
    assert_eq!(at(10 * MINUTE), None);
    assert_eq!(
        at(10 * MINUTE + 1),
        Some(Scenario::SessionTimeout {
            quiet_ms: 10 * MINUTE + 1
        })
    );
    assert_eq!(
        scenario(&checkpoint, SESSION_TIMEOUT, last.minus(MINUTE)),
        None
    );
    assert_eq!(
        at(25 * MINUTE).unwrap().describe(),
        "in progress, and silent for 25m"
    );
    // Complete and blocked ones are not silent, they are done or wait.
    let done = after(START, &[UPDATE_DONE]);
    assert_eq!(scenario(&done, SESSION_TIMEOUT, last.plus(u64::MAX)), None);
}

#[test]
fn an_error_is_a_blocked_task_with_errors_until_they_are_cleared() {
    let now = time("2025-12-08T14:53:00Z");
    let mut blocked = after(SCHEMA, &[UPDATE_BLOCKED]);
    let found = scenario(&blocked, SESSION_TIMEOUT, now).unwrap();
    assert_eq!(
        found.describe(),
        "blocked: Cannot find source PDF: Post20English.pdf"
    );
    blocked.set("errors", Json::List(Vec::new()));
    assert_eq!(scenario(&blocked, SESSION_TIMEOUT, now), None);
}

#[test]
fn partial_completion_names_the_criteria_that_are_not_met() {
    let claimed = after(SCHEMA, &[r#"{"status": "complete"}"#]);
    assert_eq!(
        scenario(&claimed, SESSION_TIMEOUT, Time::from_millis(0)),
        Some(Scenario::PartialCompletion {
            unmet: vec!["29_files_created".to_owned()]
        })
    );
    let done = after(SCHEMA, &[UPDATE_COMPLETE]);
    assert_eq!(scenario(&done, SESSION_TIMEOUT, Time::from_millis(0)), None);
}

#[test]
fn a_heartbeat_stands_in_the_checkpoint() {
    let beat = &after(START, &[HEARTBEAT])["heartbeat"];
    assert_eq!(beat.time("last_beat"), Some(time("2025-12-08T14:55:00Z")));
    assert_eq!(beat.whole("interval_seconds"), Some(300));
}

#[test]
fn files_are_named_as_in_the_seed() {
    assert_eq!(
        file_name("migration", "T060").unwrap(),
        "migration-T060.json"
    );
    assert_eq!(
        archive_name("migration", "T060").unwrap(),
        "migration-T060-complete.json"
    );
    assert_eq!(
        checkpoint_id("migration", "T060", time("2025-12-08T14:30:25Z")).unwrap(),
        read(SCHEMA).word("checkpoint_id")
    );
    assert!(is_archive("migration-T060-complete.json"));
    assert!(!is_archive("migration-T060.json"));
    for (agent, task) in [
        ("../x", "T1"),
        ("a", "../../etc/passwd"),
        ("a/b", "T1"),
        ("", "T1"),
        ("a", ""),
        ("a", "T1-complete"),
        ("a\n", "T1"),
        (".hidden", "T1"),
    ] {
        assert!(file_name(agent, task).is_err(), "{agent} {task}");
        assert!(archive_name(agent, task).is_err(), "{agent} {task}");
    }
}

fn row(checkpoint: &Json) -> StatusRow {
    StatusRow {
        agent: checkpoint.word("agent").to_owned(),
        task: checkpoint.word("task_id").to_owned(),
        percent: percent(checkpoint),
        last_update: last_update(checkpoint),
        status: checkpoint.word("status").to_owned(),
    }
}

fn rows() -> Vec<StatusRow> {
    let technical = r#"{"checkpoint_id": "x", "agent": "technical", "task_id": "T040",
        "status": "complete", "updated_at": "2025-12-08T14:49:10Z"}"#;
    let not_started = StatusRow {
        agent: "content".to_owned(),
        task: "T001".to_owned(),
        percent: 0,
        last_update: None,
        status: StatusRow::NOT_STARTED.to_owned(),
    };
    let begun = [SCHEMA, technical].map(|text| row(&read(text)));
    begun.into_iter().chain([not_started]).collect()
}

#[test]
fn the_table_of_active_checkpoints_is_the_seeds() {
    expect![[r#"
        <!-- flightline:active-checkpoints -->
        ## Active Checkpoints

        As of 2025-12-08T14:52:10Z

        | Agent | Task | Progress | Last Update | Status |
        |-------|------|----------|-------------|--------|
        | migration | T060 | 65% | 2025-12-08T14:52:10Z | in_progress |
        | technical | T040 | 100% | 2025-12-08T14:49:10Z | complete |
        | content | T001 | 0% | — | not started |
        <!-- /flightline:active-checkpoints -->
    "#]]
    .assert_eq(&status_block(&rows()));
}

#[test]
fn only_the_marked_block_of_status_md_changes() {
    let (old, new) = (
        format!("{BEGIN}\nold\n{END}\n"),
        format!("{BEGIN}\nnew\n{END}\n"),
    );
    for (existing, expected) in [
        (String::new(), new.clone()),
        ("# Ours\n".to_owned(), format!("# Ours\n\n{new}")),
        ("# Ours".to_owned(), format!("# Ours\n\n{new}")),
        (format!("a\n{old}b"), format!("a\n{new}b")),
        (format!("{old}b\n\n"), format!("{new}b\n\n")),
        (format!("\u{feff}{old}"), format!("\u{feff}{new}")),
        (format!("a\n  {BEGIN}  \nx\n{END}"), format!("a\n{new}")),
        (
            format!("a\n{old}b\n").replace('\n', "\r\n"),
            format!("a\n{new}b\n").replace('\n', "\r\n"),
        ),
        // A mark in the middle of a line is somebody talking about it.
        (
            format!("see `{BEGIN}`\n"),
            format!("see `{BEGIN}`\n\n{new}"),
        ),
    ] {
        let placed = place_in_status(&existing, &new).unwrap();
        assert_eq!(placed, expected, "{existing:?}");
        assert_eq!(place_in_status(&placed, &new).unwrap(), placed);
    }
}

#[test]
fn a_status_file_whose_marks_are_broken_is_left_alone() {
    for broken in [
        format!("{BEGIN}\nx\n"),
        format!("x\n{END}\n"),
        format!("{END}\n{BEGIN}\n"),
        format!("{BEGIN}\n{BEGIN}\n{END}\n"),
        format!("{BEGIN}\n{END}\n{BEGIN}\n{END}\n"),
    ] {
        let refusal = place_in_status(&broken, "new").unwrap_err();
        assert!(refusal.hint.is_some());
    }
}

#[test]
fn a_name_cannot_break_the_table() {
    let row = StatusRow {
        agent: format!("a|b\n{END}"),
        task: "t\\".to_owned(),
        percent: 1,
        last_update: None,
        status: "x\r\n| y |".to_owned(),
    };
    let block = status_block(&[row]);
    let placed = place_in_status("", &block).unwrap();
    assert_eq!(placed.lines().count(), 7, "{placed}");
    assert_eq!(place_in_status(&placed, &block).unwrap(), placed);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn any_checkpoint_comes_back_as_it_was(document in random::sitebuilder()) {
        check_round_trip(Dialect::Sitebuilder, &document.pretty(&[]));
    }

    #[test]
    fn rules_hold_for_any_checkpoint(document in random::sitebuilder(), now in 0i64..4_000_000_000_000) {
        let checkpoint = read(&document.stringify());
        prop_assert!(percent(&checkpoint) <= 100);
        prop_assert_eq!(progress_line(checkpoint.word("task_id"), 1).lines().count(), 1);
        let _ = scenario(&checkpoint, SESSION_TIMEOUT, Time::from_millis(now));
        let block = status_block(&[self::row(&checkpoint)]);
        let dated = usize::from(last_update(&checkpoint).is_some());
        prop_assert_eq!(block.lines().count(), 7 + 2 * dated);
        let mine = format!("mine\n\n{block}yours");
        let placed = place_in_status(&mine, "").unwrap();
        prop_assert_eq!(placed, "mine\n\nyours");
    }

    /// Every update is idempotent, and leaves what it does not name alone.
    #[test]
    fn an_update_twice_is_an_update_once(document in random::sitebuilder(), part in random::sitebuilder()) {
        let mut checkpoint = read(&document.stringify());
        let mut part = read_part(&part.stringify()).unwrap();
        for key in ["checkpoint_id", "agent", "task_id"] {
            part[key] = Json::Null;
        }
        apply(&mut checkpoint, part.clone()).unwrap();
        let once = checkpoint.clone();
        prop_assert_eq!(&read(&once.write()), &once, "it is still a document");
        apply(&mut checkpoint, part).unwrap();
        prop_assert_eq!(&checkpoint, &once);
        apply(&mut checkpoint, read_part("{}").unwrap()).unwrap();
        prop_assert_eq!(&checkpoint, &once);
    }
}
