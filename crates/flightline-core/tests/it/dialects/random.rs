//! Random documents of each dialect: everything that need not be there perhaps not, fields that nobody
//! knows, keys in any order.

use flightline_core::dialect::Json;
use proptest::prelude::*;

use crate::dialects::corpus::{Need, flag, json, list, named, object, stamp, text, whole, word};
use Need::{May, Must, Null};

pub fn sitebuilder() -> BoxedStrategy<Json> {
    let percent = (0u64..=100).prop_map(Json::from).boxed();
    let score = prop_oneof![Just(Json::Null), whole()].boxed();
    let status = word(&["in_progress", "complete", "blocked", "paused", ""]);
    let item = object(vec![
        ("id", Must, text()),
        (
            "status",
            Null,
            word(&["pending", "complete", "failed", "?"]),
        ),
        ("output", Null, text()),
    ]);
    let subtasks = object(vec![
        ("total", Null, whole()),
        ("completed", Null, whole()),
        ("failed", Null, whole()),
        ("items", Null, list(item)),
    ]);
    let error = object(vec![
        ("type", Null, text()),
        ("message", Must, text()),
        ("timestamp", Null, stamp()),
        ("blocking", Null, flag()),
    ]);
    let context = object(vec![
        ("last_processed", Null, text()),
        ("next_to_process", Null, text()),
        ("notes", Null, text()),
    ]);
    let heartbeat = object(vec![
        ("last_beat", Must, stamp()),
        ("interval_seconds", Null, whole()),
        ("status", Null, word(&["alive", "tired"])),
    ]);
    object(vec![
        ("checkpoint_id", Must, text()),
        ("agent", Must, text()),
        ("agent_name", Null, text()),
        ("task_id", Must, text()),
        ("task_title", Null, text()),
        ("status", Must, status),
        ("progress_percent", Null, percent),
        ("started_at", Null, stamp()),
        ("updated_at", Null, stamp()),
        ("completed_at", Null, stamp()),
        ("subtasks", Null, subtasks),
        ("files_created", Null, list(text())),
        ("files_modified", Null, list(text())),
        ("acceptance_criteria_met", Null, named(flag())),
        ("review_scores", Null, named(score)),
        ("errors", Null, list(error)),
        ("context", Null, context),
        ("resumable", Null, flag()),
        ("resume_instructions", Null, text()),
        ("heartbeat", Null, heartbeat),
    ])
}

pub fn epic() -> BoxedStrategy<Json> {
    let status = word(&["IN_PROGRESS", "WAITING", "BLOCKED", "COMPLETE", "?"]);
    let coordination = object(vec![
        ("last_inbox_check", Null, stamp()),
        ("unread_messages", Null, whole()),
        ("last_epic_readme_update", Null, stamp()),
        ("last_status_update", Null, stamp()),
    ]);
    object(vec![
        ("agent_id", Must, text()),
        ("agent_type", Null, word(&["primary", "secondary", "other"])),
        ("session_id", Null, text()),
        ("feature", Null, text()),
        ("stage", Null, text()),
        ("phase", Null, text()),
        ("last_checkpoint", Must, stamp()),
        ("next_checkpoint_expected", Null, stamp()),
        ("status", Null, status),
        ("can_resume", Null, flag()),
        ("blockers", Null, list(text())),
        ("files_modified", Null, list(text())),
        ("recovery_instructions", Null, text()),
        ("current_step", Null, text()),
        ("completed_steps", Null, list(text())),
        ("next_steps", Null, list(text())),
        ("coordination_state", Null, coordination),
    ])
}

pub fn orchestrator() -> BoxedStrategy<Json> {
    let id = any::<u128>()
        .prop_map(|bits| Json::Text(uuid(bits)))
        .boxed();
    let entry = object(vec![
        ("state", Must, text()),
        ("enteredAt", Must, stamp()),
        ("exitedAt", May, stamp()),
        ("trigger", Must, text()),
    ]);
    let workflow = object(vec![
        (
            "currentState",
            Must,
            word(&["PLANNING", "ERROR", "COMPLETE", ""]),
        ),
        ("previousState", May, text()),
        ("stateHistory", Must, list(entry)),
        ("pendingTransitions", Must, list(text())),
    ]);
    let tokens = object(vec![("input", Must, whole()), ("output", Must, whole())]);
    let agent = object(vec![
        ("agentId", Must, text()),
        (
            "status",
            Must,
            word(&["pending", "running", "completed", "failed", "skipped"]),
        ),
        ("startedAt", May, stamp()),
        ("completedAt", May, stamp()),
        ("input", May, named(json())),
        ("output", May, named(json())),
        ("error", May, text()),
        ("attempts", Must, (0u64..5).prop_map(Json::from).boxed()),
        ("tokenUsage", May, tokens),
    ]);
    let artifact = object(vec![
        ("id", Must, text()),
        ("type", Must, text()),
        ("path", Must, text()),
        ("checksum", Must, text()),
    ]);
    let decision = object(vec![
        ("id", Must, text()),
        ("decision", Must, text()),
        ("rationale", Must, text()),
        ("madeAt", Must, stamp()),
    ]);
    let context = object(vec![
        ("projectId", Must, text()),
        ("sessionId", Must, text()),
        ("taskDescription", Must, text()),
        ("workBreakdown", May, named(json())),
        ("artifacts", Must, list(artifact)),
        ("lessons", Must, list(text())),
        ("decisions", Must, list(decision)),
    ]);
    let modified = object(vec![
        ("path", Must, text()),
        ("checksum", Must, text()),
        ("size", Must, whole()),
        ("modifiedAt", Must, stamp()),
    ]);
    let git = object(vec![
        ("branch", Must, text()),
        ("commitHash", Must, text()),
        ("isDirty", Must, flag()),
        ("stagedFiles", Must, list(text())),
        ("unstagedFiles", Must, list(text())),
    ]);
    let files = object(vec![
        ("modifiedFiles", Must, list(modified)),
        ("createdFiles", Must, list(text())),
        ("deletedFiles", Must, list(text())),
        ("gitStatus", May, git),
    ]);
    let checksums = object(
        ["workflow", "agents", "context", "fileSystem", "overall"]
            .map(|section| (section, Must, text()))
            .to_vec(),
    );
    let metadata = object(vec![
        ("orchestratorVersion", Must, text()),
        ("checkpointSize", Must, whole()),
        ("compressionType", Must, word(&["none", "gzip", "lz4"])),
        ("checksums", Must, checksums),
    ]);
    let recovery = object(vec![
        ("canResume", Must, flag()),
        ("resumeFromAgent", May, text()),
        ("resumeFromState", May, text()),
        ("blockers", Must, list(text())),
    ]);
    object(vec![
        ("id", Must, id),
        ("version", Must, word(&["1.0.0", "1.7", "0.9", "odd"])),
        ("createdAt", Must, stamp()),
        (
            "trigger",
            Must,
            word(&["manual", "time_interval", "error_occurred"]),
        ),
        ("triggerReason", Must, text()),
        (
            "status",
            Must,
            word(&["creating", "valid", "corrupted", "expired", "archived"]),
        ),
        ("workflow", Must, workflow),
        ("agents", Must, list(agent)),
        ("context", Must, context),
        ("fileSystem", Must, files),
        ("metadata", Must, metadata),
        ("recovery", Must, recovery),
    ])
}

fn uuid(bits: u128) -> String {
    let hex = format!("{bits:032x}");
    [
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..],
    ]
    .join("-")
}

pub fn recovery() -> BoxedStrategy<Json> {
    let timestamp = prop_oneof![1 => word(&[""]), 1 => Just(Json::Null), 6 => stamp()].boxed();
    let task = prop_oneof![word(&["T001", "T002", "T003"]), text()].boxed();
    let tokens = object(vec![
        ("total", Null, whole()),
        ("percentage", Null, whole()),
        ("mode", Null, text()),
    ]);
    let backlog_task = object(vec![("id", Must, task.clone()), ("title", Null, text())]);
    let backlog = prop_oneof![1 => task.clone(), 4 => backlog_task].boxed();
    let in_progress = prop_oneof![task.clone(), list(task.clone())].boxed();
    let phase = word(&["bootstrap", "development", "testing", "release", "party"]);
    let state = object(vec![
        ("completedTasks", Null, list(task.clone())),
        ("inProgress", Null, in_progress),
        ("backlogSnapshot", Null, list(backlog)),
        ("currentPhase", Null, phase),
    ]);
    let context = object(vec![
        ("STACK_ID", Null, word(&["fastapi", "axum", ""])),
        ("currentSprint", Null, text()),
        ("activeObjective", Null, text()),
    ]);
    object(vec![
        ("version", Null, word(&["1.0", "1.1", "odd"])),
        ("timestamp", Must, timestamp),
        (
            "reason",
            Null,
            word(&["token_warning", "token_critical", "manual", "whim"]),
        ),
        ("tokenUsage", Null, tokens),
        ("state", Null, state),
        ("context", Null, context),
        ("nextSteps", Null, list(text())),
        (
            "deltaChanges",
            Null,
            list(prop_oneof![delta(), json()].boxed()),
        ),
        ("resumeInstructions", Null, text()),
    ])
}

/// A change to a task board or to the progress, or almost one.
pub fn delta() -> BoxedStrategy<Json> {
    let column = word(&["backlog", "inProgress", "done"]);
    let moved = object(vec![
        ("file", Must, word(&["taskBoard"])),
        ("operation", Must, word(&["move"])),
        ("taskId", Must, word(&["T001", "T002", "T003"])),
        ("from", Must, column.clone()),
        ("to", May, column),
    ]);
    let updated = object(vec![
        ("file", Must, word(&["progress"])),
        ("operation", Must, word(&["update"])),
        (
            "field",
            Must,
            word(&["a", "a.b", "a.b.c", "d", ".", "a..b", ""]),
        ),
        ("value", May, json()),
    ]);
    prop_oneof![moved, updated].boxed()
}
