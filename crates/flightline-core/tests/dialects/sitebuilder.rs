//! Seed B: task checkpoints.

use expect_test::expect;
use flightline_core::dialect::field::Maybe;
use flightline_core::dialect::json::Json;
use flightline_core::dialect::sitebuilder::*;
use flightline_core::time::Time;
use proptest::prelude::*;

use crate::corpus::{check_bad_files, check_round_trip, said_when, time};
use crate::random;

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

fn round_trip(text: &str) -> Result<String, flightline_core::dialect::Unreadable> {
    read(text).map(|checkpoint| write(&checkpoint))
}

/// The checkpoint after these updates.
fn after(start: &str, updates: &[&str]) -> Checkpoint {
    let mut checkpoint = read(start).unwrap();
    for update in updates {
        checkpoint.apply(read_update(update).unwrap()).unwrap();
    }
    checkpoint
}

#[test]
fn whole_documents_come_back_as_they_were() {
    check_round_trip(round_trip, SCHEMA);
    check_round_trip(round_trip, START);
}

#[test]
fn documents_are_written_as_the_seed_shows_them() {
    assert_eq!(round_trip(START).unwrap(), START);
    // But for the empty lines by which the seed groups its fields.
    assert_eq!(round_trip(SCHEMA).unwrap(), SCHEMA.replace("\n\n", "\n"));
}

#[test]
fn bad_files_are_refused() {
    check_bad_files(round_trip, SCHEMA);
    check_bad_files(round_trip, START);
}

#[test]
fn wrong_types_are_refused_with_their_place() {
    for (from, to, message) in [
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
    ] {
        assert_eq!(said_when(round_trip, SCHEMA, from, to), message);
    }
}

#[test]
fn a_refusal_names_the_file_and_the_place() {
    let refusal = read("{\"agent\": 1}").unwrap_err().refusal("x-T1.json");
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
        assert!(read(part).is_err());
        let update = read_update(part).unwrap();
        // Everything it says arrives in the checkpoint it belongs to.
        let mut checkpoint = read(START).unwrap();
        checkpoint.apply(update).unwrap();
        let (said, became) = (Json::parse(part).unwrap(), write(&checkpoint));
        let became = Json::parse(&became).unwrap();
        let Json::Object(fields) = said else {
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
    .assert_eq(&write(&done));
    assert_eq!(done.percent(), 100);
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
    let text = write(&checkpoint);
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
    assert_eq!(checkpoint.status, TaskStatus::Blocked);
    assert_eq!(checkpoint.progress().completed, 20);
}

#[test]
fn an_update_of_another_task_changes_nothing() {
    let mut checkpoint = read(SCHEMA).unwrap();
    let update = read_update(r#"{"task_id": "T061", "status": "complete"}"#).unwrap();
    let refusal = checkpoint.apply(update).unwrap_err();
    assert_eq!(
        refusal.message,
        "the update is for the task `T061`, and the checkpoint of `T060`"
    );
    assert_eq!(checkpoint, read(SCHEMA).unwrap());
}

#[test]
fn progress_is_counted_in_subtasks_and_rounded_down() {
    // 19 of 29, though only four are listed, two of them complete.
    let progress = read(SCHEMA).unwrap().progress();
    assert_eq!((progress.completed, progress.total), (19, 29));
    assert_eq!(progress.percent, 65);
    // The seed itself says 35 once and 34 once for 10 of 29; it is 34.
    let declared = after(START, &[UPDATE_PROGRESS]);
    assert_eq!(declared.progress_percent.get().unwrap().get(), 35);
    assert_eq!(declared.percent(), 34);
    assert_eq!(after(START, &[UPDATE_MID]).percent(), 34);
    // Without subtasks the agent's word counts.
    let mut alone = read(SCHEMA).unwrap();
    alone.subtasks = Maybe::Absent;
    assert_eq!(alone.percent(), 65);
    // More done than there is, and none at all.
    let odd = after(START, &[r#"{"subtasks": {"total": 3, "completed": 9}}"#]);
    assert_eq!(odd.percent(), 100);
    let none = after(START, &[r#"{"subtasks": {"total": 0, "completed": 0}}"#]);
    assert_eq!(none.percent(), 0);
}

#[test]
fn the_progress_line_is_the_seeds() {
    assert_eq!(
        progress_line("T060", read(SCHEMA).unwrap().percent()),
        "@orchestrator: Task T060 progress: 65%"
    );
}

#[test]
fn a_session_timeout_is_silence_of_more_than_ten_minutes_in_progress() {
    let last = time("2025-12-08T14:52:10Z");
    let checkpoint = read(SCHEMA).unwrap();
    let at = |span: u64| checkpoint.scenario(SESSION_TIMEOUT, last.plus(span));
    assert_eq!(at(10 * MINUTE), None);
    assert_eq!(
        at(10 * MINUTE + 1),
        Some(Scenario::SessionTimeout {
            quiet_ms: 10 * MINUTE + 1
        })
    );
    assert_eq!(
        checkpoint.scenario(SESSION_TIMEOUT, last.minus(MINUTE)),
        None
    );
    assert_eq!(
        at(25 * MINUTE).unwrap().describe(),
        "in progress, and silent for 25m"
    );
    // Complete and blocked ones are not silent, they are done or wait.
    let done = after(START, &[UPDATE_DONE]);
    assert_eq!(done.scenario(SESSION_TIMEOUT, last.plus(u64::MAX)), None);
}

#[test]
fn an_error_is_a_blocked_task_with_errors_until_they_are_cleared() {
    let now = time("2025-12-08T14:53:00Z");
    let mut blocked = after(SCHEMA, &[UPDATE_BLOCKED]);
    let scenario = blocked.scenario(SESSION_TIMEOUT, now).unwrap();
    assert_eq!(
        scenario.describe(),
        "blocked: Cannot find source PDF: Post20English.pdf"
    );
    blocked.errors = Maybe::Is(Vec::new());
    assert_eq!(blocked.scenario(SESSION_TIMEOUT, now), None);
}

#[test]
fn partial_completion_names_the_criteria_that_are_not_met() {
    let claimed = after(SCHEMA, &[r#"{"status": "complete"}"#]);
    assert_eq!(
        claimed.scenario(SESSION_TIMEOUT, Time::from_millis(0)),
        Some(Scenario::PartialCompletion {
            unmet: vec!["29_files_created".to_owned()]
        })
    );
    let done = after(SCHEMA, &[UPDATE_COMPLETE]);
    assert_eq!(done.scenario(SESSION_TIMEOUT, Time::from_millis(0)), None);
}

#[test]
fn a_heartbeat_stands_in_the_checkpoint() {
    let checkpoint = after(START, &[HEARTBEAT]);
    let beat = Heartbeat::at(time("2025-12-08T14:55:00Z"), 5 * MINUTE);
    assert_eq!(checkpoint.heartbeat.get(), Some(&beat));
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
        read(SCHEMA).unwrap().checkpoint_id
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

fn row(checkpoint: &Checkpoint) -> Row {
    Row {
        agent: checkpoint.agent.clone(),
        task: checkpoint.task_id.clone(),
        percent: checkpoint.percent(),
        last_update: checkpoint.last_update(),
        status: checkpoint.status.as_str().to_owned(),
    }
}

fn rows() -> Vec<Row> {
    let technical = r#"{"checkpoint_id": "x", "agent": "technical", "task_id": "T040",
        "status": "complete", "updated_at": "2025-12-08T14:49:10Z"}"#;
    let not_started = Row {
        agent: "content".to_owned(),
        task: "T001".to_owned(),
        percent: 0,
        last_update: None,
        status: Row::NOT_STARTED.to_owned(),
    };
    let begun = [SCHEMA, technical].map(|text| row(&read(text).unwrap()));
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
    let row = Row {
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
        check_round_trip(round_trip, &document.pretty(&[]));
    }

    #[test]
    fn rules_hold_for_any_checkpoint(document in random::sitebuilder(), now in 0i64..4_000_000_000_000) {
        let checkpoint = read(&document.stringify()).unwrap();
        let now = Time::from_millis(now);
        prop_assert!(checkpoint.percent() <= 100);
        prop_assert_eq!(progress_line(&checkpoint.task_id, 1).lines().count(), 1);
        let _ = checkpoint.scenario(SESSION_TIMEOUT, now);
        let block = status_block(&[self::row(&checkpoint)]);
        let dated = usize::from(checkpoint.last_update().is_some());
        prop_assert_eq!(block.lines().count(), 7 + 2 * dated);
        let mine = format!("mine\n\n{block}yours");
        let placed = place_in_status(&mine, "").unwrap();
        prop_assert_eq!(placed, "mine\n\nyours");
    }

    /// Every update is idempotent, and leaves what it does not name alone.
    #[test]
    fn an_update_twice_is_an_update_once(document in random::sitebuilder(), update in random::sitebuilder()) {
        let mut checkpoint = read(&document.stringify()).unwrap();
        let mut update = read_update(&update.stringify()).unwrap();
        (update.checkpoint_id, update.agent, update.task_id) = Default::default();
        checkpoint.apply(update.clone()).unwrap();
        let once = checkpoint.clone();
        checkpoint.apply(update).unwrap();
        prop_assert_eq!(&checkpoint, &once);
        checkpoint.apply(Update::default()).unwrap();
        prop_assert_eq!(&checkpoint, &once);
    }
}
