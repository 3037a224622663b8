//! What is left of a task, what has changed, and our checkpoints as seed E's documents.

use expect_test::expect;
use flightline_core::agent::Agent;
use flightline_core::checkpoint::Checkpoint;
use flightline_core::context::{
    DeltaDecision, changes, decide, recovery_document, remaining_steps,
};
use flightline_core::dialect::recovery::{in_progress, moved};
use flightline_core::dialect::{Dialect, DialectDocument, Json};
use flightline_core::mission::Mission;
use flightline_core::sortie::{Sortie, SortieStatus, Subtask};
use proptest::prelude::*;
use serde_json::{Value, json};

const MISSION: &str = "msn-00000000-0000-4000-8000-000000000001";
const T0: &str = "2026-01-04T12:00:00.000Z";

fn mission() -> Mission {
    serde_json::from_value(json!({
        "id": MISSION, "title": "Add login", "objective": "Complete authentication system", "status": "in_progress",
        "phase": "development", "workflow": { "current": null, "previous": null, "entered_at": null, "states": {}, "pending": [] },
        "stack_id": "fastapi", "sprint": "sprint-2", "dispatch": null, "timeline": 0, "created_at": T0, "updated_at": T0,
        "started_at": T0, "completed_at": null, "reason": null,
    }))
    .unwrap()
}

/// The sortie with this number; its task has the seed's id.
fn sortie(number: u64, title: &str, status: SortieStatus) -> Sortie {
    serde_json::from_value(json!({
        "id": format!("srt-00000000-0000-4000-8000-{number:012}"), "mission_id": MISSION, "task_id": format!("T{number:03}"),
        "title": title, "description": null, "status": status, "position": number, "priority": 0, "assigned_to": null,
        "assigned_epoch": null, "depends_on": [], "files": [], "attempts": 0, "progress_notes": null,
        "cursor": { "last_processed": null, "next_to_process": null, "notes": null }, "declared": null,
        "acceptance_criteria": {}, "resumable": true, "resume_instructions": null, "blocked_reason": null, "failure": null,
        "approval": null, "estimate_ms": null, "token_usage": { "input": 0, "output": 0 }, "input": null, "output": null,
        "created_at": T0, "updated_at": T0, "assigned_at": null, "started_at": null, "completed_at": null,
    }))
    .unwrap()
}

fn subtask(name: &str, title: Option<&str>, status: &str) -> Subtask {
    serde_json::from_value(json!({
        "sortie_id": "srt-00000000-0000-4000-8000-000000000005", "mission_id": MISSION, "name": name, "title": title,
        "status": status, "output": null, "updated_at": T0,
    }))
    .unwrap()
}

fn agent(next_steps: &[&str]) -> Agent {
    serde_json::from_value(json!({
        "id": "agt-00000000-0000-4000-8000-000000000001", "name": "ada", "role": "specialist", "type": null, "epoch": 1,
        "context": 0, "session_id": null, "process": null, "status": "in_progress", "feature": null, "stage": null,
        "phase": null, "can_resume": true, "blockers": [], "files_modified": [], "recovery_instructions": null,
        "current_step": null, "next_steps": next_steps, "coordination": { "last_inbox_check": null,
        "last_epic_readme_update": null, "last_status_update": null }, "last_checkpoint": null,
        "next_checkpoint_expected": null, "created_at": T0, "updated_at": T0, "session_started_at": T0, "retired_at": null,
    }))
    .unwrap()
}

/// The seed's board when its example was taken.
fn tasks() -> Vec<Sortie> {
    use SortieStatus::{Assigned, Completed, InProgress, Pending};
    vec![
        sortie(1, "Set up", Completed),
        sortie(2, "User model", Completed),
        sortie(3, "Login endpoint", Completed),
        sortie(4, "Token issuing", Completed),
        sortie(5, "JWT refresh token logic", InProgress),
        sortie(6, "Add rate limiting", Pending),
        sortie(7, "Implement caching", Assigned),
        sortie(8, "Setup monitoring", Pending),
    ]
}

fn checkpoint(consumed: bool) -> Checkpoint {
    let mut checkpoint = json!({
        "id": "chk-00000000-0000-4000-8000-000000000001", "sha256": "", "status": "valid", "pinned_at": null, "note": null,
        "cut": {
            "mission_id": MISSION, "rev": 9, "timeline": 0, "timestamp": "2025-10-30T15:30:00.000Z", "trigger": "compaction",
            "reason": "token_critical", "trigger_details": null, "progress_percent": 50, "sorties": {}, "locks": 0,
            "messages": 0, "sections": {}, "created_by": "ada", "version": "1.0.0",
            "recovery_context": { "last_action": "", "next_steps": ["unused"], "blockers": [], "files_modified": [],
                "mission_summary": "", "elapsed_time_ms": 0, "last_activity_at": T0 },
            "agent_context": {
                "agent_id": "agt-00000000-0000-4000-8000-000000000001", "agent": "ada", "epoch": 1, "context": 0,
                "tokens": { "percent": 91, "used": 182_000, "total": 200_000 }, "mode": "recovery", "stack_id": "fastapi",
                "sortie_id": "srt-00000000-0000-4000-8000-000000000005",
                "remaining": ["Finish T005: JWT refresh token logic", "Run pytest suite"],
                "delta_changes": [
                    { "operation": "move", "file": "taskBoard", "taskId": "T005", "from": "backlog", "to": "inProgress" },
                    { "operation": "update", "file": "progress", "field": "metrics.currentSprint.completed", "value": 4 },
                ],
            },
        },
    });
    if consumed {
        checkpoint["consumed_at"] = json!(T0);
    }
    serde_json::from_value(checkpoint).unwrap()
}

#[test]
fn what_is_left_is_split_into_steps_in_the_order_to_do_them() {
    let mut task = sortie(5, "Refresh", SortieStatus::InProgress);
    assert_eq!(remaining_steps(&task, &[], None), ["Complete \"Refresh\""]);
    task.cursor = serde_json::from_value(
        json!({ "last_processed": "line 39", "next_to_process": "line 40", "notes": null }),
    )
    .unwrap();
    task.declared =
        serde_json::from_value(json!({ "total": 9, "completed": 4, "failed": 0 })).unwrap();
    task.acceptance_criteria =
        serde_json::from_value(json!({ "tests_pass": false, "typed": true })).unwrap();
    let subtasks = [
        subtask("schema", None, "complete"),
        subtask("tests", Some("Unit tests"), "pending"),
        subtask("rotate", None, "failed"),
        subtask("issue", Some("Issue tokens"), "in_progress"),
    ];
    let owner = agent(&["Run the suite", "Do tests: Unit tests"]);
    let steps = remaining_steps(&task, &subtasks, Some(&owner));
    expect![[r#"
        Continue with line 40
        Finish issue: Issue tokens
        Try again rotate
        Do tests: Unit tests
        Do 2 more parts of 9, which are not listed
        Run the suite
        Meet the criterion tests_pass
        Complete "Refresh""#]]
    .assert_eq(&steps.join("\n"));
}

#[test]
fn a_checkpoint_of_ours_is_written_as_the_seeds_example() {
    let document = recovery_document(&checkpoint(false), &mission(), &tasks());
    expect![[r#"
        {
          "version": "1.0",
          "timestamp": "2025-10-30T15:30:00Z",
          "reason": "token_critical",
          "tokenUsage": {
            "total": 182000,
            "percentage": 91,
            "mode": "recovery"
          },
          "state": {
            "completedTasks": ["T001", "T002", "T003", "T004"],
            "inProgress": "T005",
            "backlogSnapshot": [
              {"id": "T006", "title": "Add rate limiting"},
              {"id": "T007", "title": "Implement caching"},
              {"id": "T008", "title": "Setup monitoring"}
            ],
            "currentPhase": "development"
          },
          "context": {
            "STACK_ID": "fastapi",
            "currentSprint": "sprint-2",
            "activeObjective": "Complete authentication system"
          },
          "nextSteps": [
            "Finish T005: JWT refresh token logic",
            "Run pytest suite"
          ],
          "deltaChanges": [
            {"file": "taskBoard", "operation": "move", "taskId": "T005", "from": "backlog", "to": "inProgress"},
            {"file": "progress", "operation": "update", "field": "metrics.currentSprint.completed", "value": 4}
          ],
          "resumeInstructions": "Load recovery context, complete T005 JWT refresh token logic, run tests, then full sync and return to standard mode."
        }
    "#]]
    .assert_eq(&document.write());
    let read = DialectDocument::read(Dialect::Recovery, &document.write());
    assert_eq!(read.unwrap(), document);
}

#[test]
fn one_that_was_consumed_has_an_empty_timestamp() {
    let text = recovery_document(&checkpoint(true), &mission(), &tasks()).write();
    assert!(text.contains("\"timestamp\": \"\""), "{text}");
}

#[test]
fn the_task_that_was_at_hand_comes_first_and_five_of_the_backlog_are_named() {
    let mut tasks = tasks();
    tasks[0].status = SortieStatus::Blocked;
    for number in 9..=12 {
        tasks.push(sortie(number, "More", SortieStatus::Pending));
    }
    let document = recovery_document(&checkpoint(false), &mission(), &tasks);
    assert_eq!(in_progress(&document), ["T005", "T001"]);
    assert_eq!(document["state"].items("backlogSnapshot").len(), 5);
}

#[test]
fn a_way_of_many_steps_is_one_move() {
    let before = [
        sortie(1, "Model", SortieStatus::Pending),
        sortie(2, "Gone", SortieStatus::InProgress),
    ];
    let now = [
        sortie(1, "Model", SortieStatus::Completed),
        sortie(3, "New", SortieStatus::Blocked),
        sortie(4, "Given", SortieStatus::Assigned),
    ];
    let written: Vec<Value> = changes(&before, &now)
        .iter()
        .map(|change| serde_json::to_value(change).unwrap())
        .collect();
    assert_eq!(
        written,
        [
            json!({ "file": "taskBoard", "operation": "move", "taskId": "T001", "from": "backlog", "to": "done" }),
            json!({ "file": "taskBoard", "operation": "move", "taskId": "T003", "from": "backlog", "to": "inProgress" }),
            json!({ "file": "progress", "operation": "update", "field": "metrics.currentSprint.completed", "value": 1 }),
        ]
    );
}

#[test]
fn a_task_that_two_go_by_is_not_guessed() {
    let mut twin = sortie(2, "Twin", SortieStatus::Pending);
    twin.task_id = sortie(1, "Model", SortieStatus::Pending).task_id;
    let sorties = [sortie(1, "Model", SortieStatus::Pending), twin];
    let decided = decide(&moved("T001", "backlog", "done"), &sorties);
    let why = "several tasks are called `T001`".to_owned();
    assert_eq!(decided, DeltaDecision::Kept { why });
    // By its own id each of them is one.
    let own = sorties[1].id.to_string();
    let decided = decide(&moved(&own, "backlog", "done"), &sorties);
    let (sortie, to) = (&sorties[1], SortieStatus::Completed);
    assert_eq!(decided, DeltaDecision::Move { sortie, to });
}

#[test]
fn a_change_is_made_once_and_one_that_cannot_be_made_says_why() {
    let sorties = [
        sortie(5, "Refresh", SortieStatus::InProgress),
        sortie(6, "Limits", SortieStatus::Completed),
    ];
    let decided = |text: &str| decide(&Json::parse(text).unwrap(), &sorties);
    let completed = r#"{"file": "progress", "operation": "update", "field": "metrics.currentSprint.completed", "value": 1}"#;
    assert_eq!(decided(completed), DeltaDecision::Already);
    let there = moved("T005", "backlog", "inProgress");
    assert_eq!(decide(&there, &sorties), DeltaDecision::Already);
    let deep = format!(
        r#"{{"file": "progress", "operation": "update", "field": "{}a", "value": 1}}"#,
        "a.".repeat(100_000)
    );
    for (text, said) in [
        (
            r#"{"file": "taskBoard", "operation": "move", "taskId": "T005", "from": "backlog", "to": "done"}"#,
            "`T005` is in `inProgress`, not in `backlog`",
        ),
        (
            r#"{"file": "taskBoard", "operation": "move", "taskId": "T1", "from": "x", "to": "done"}"#,
            "`T1` is nowhere, not in `x`",
        ),
        (
            r#"{"file": "taskBoard", "operation": "move", "taskId": "T005", "from": "inProgress", "to": "attic"}"#,
            "the board has no column `attic`",
        ),
        (
            r#"{"file": "progress", "operation": "update", "field": "metrics.currentSprint.completed", "value": 4}"#,
            "`metrics.currentSprint.completed` is counted here, not set",
        ),
        (
            r#"{"file": "progress", "operation": "update", "field": "metrics.mood", "value": 4}"#,
            "`metrics.mood` is counted here, not set",
        ),
        (
            r#"{"file": "progress", "operation": "update", "field": "metrics.currentSprint.completed.x", "value": 1}"#,
            "`metrics.currentSprint.completed` is a number, not an object",
        ),
        (
            r#"{"file": "progress", "operation": "update", "field": "a..b", "value": 1}"#,
            "`a..b` is no name of a field",
        ),
        (&deep, "a.a` is no name of a field"),
        (
            r#"{"file": "/etc/passwd", "operation": "append", "value": "x"}"#,
            r#"unknown change: {"file":"/etc/passwd","operation":"append","value":"x"}"#,
        ),
        (
            r#"{"file": "taskBoard", "operation": "move", "taskId": 5, "from": "a", "to": "b"}"#,
            r#"unknown change: {"file":"taskBoard","operation":"move","taskId":5,"from":"a","to":"b"}"#,
        ),
        ("\"later\"", "unknown change: \"later\""),
    ] {
        let DeltaDecision::Kept { why } = decided(text) else {
            panic!("{text}");
        };
        assert!(why.ends_with(said), "{why}");
    }
}

proptest! {
    #[test]
    fn what_changed_leads_from_the_one_state_to_the_other(
        before in prop::collection::vec(0usize..7, 1..12),
        now in prop::collection::vec(0usize..7, 1..12),
    ) {
        let states = |all: &[usize]| -> Vec<Sortie> {
            (1..).zip(all).map(|(number, status)| sortie(number, "Task", SortieStatus::ALL[*status])).collect()
        };
        let (mut board, now) = (states(&before), states(&now));
        for extra in board.len()..now.len() {
            board.push(sortie(extra as u64 + 1, "Task", SortieStatus::Pending));
        }
        board.truncate(now.len());
        for change in changes(&board.clone(), &now) {
            if let DeltaDecision::Move { sortie, to } = decide(&change.to_delta(), &board) {
                let id = sortie.id;
                board.iter_mut().filter(|it| it.id == id).for_each(|it| it.status = to);
            }
        }
        // Every change is made by now, and the columns are the same.
        for change in changes(&board, &now) {
            prop_assert!(false, "{change:?} is left");
        }
    }
}
