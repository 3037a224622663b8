//! Seed D: an orchestrator's checkpoints.

use flightline_core::checkpoint::Reason;
use flightline_core::dialect::compress::Compression;
use flightline_core::dialect::orchestrator::*;
use flightline_core::dialect::{Dialect, DialectDocument, Json, text_of};
use proptest::prelude::*;

use crate::dialects::corpus::{self, check_bad_files, check_refused, check_round_trip};
use crate::dialects::random;

/// Written by the seed's own code: an agent at work, and a workflow in `ERROR`.
const RUNNING: &str = include_str!("data/orchestrator_running.json");
const ERROR: &str = include_str!("data/orchestrator_error.json");
const INDEX: &str = include_str!("data/orchestrator_index.json");

fn read(text: &str) -> DialectDocument {
    corpus::read(Dialect::Orchestrator, text)
}

fn running() -> DialectDocument {
    read(RUNNING)
}

#[test]
fn documents_come_back_to_the_letter() {
    for document in [RUNNING, ERROR] {
        assert_eq!(check_round_trip(Dialect::Orchestrator, document), document);
    }
}

#[test]
fn bad_files_are_refused() {
    check_bad_files(Dialect::Orchestrator, RUNNING);
}

#[test]
fn wrong_types_are_refused_with_their_place() {
    let cases = [
        (
            "6f9f6b52-6f55-4b38-8f0a-6c1c2b1f6e01",
            "../../etc/passwd",
            "`../../etc/passwd` is not a UUID at `$.id`",
        ),
        (
            "6f9f6b52-6f55-4b38-8f0a-6c1c2b1f6e01",
            "6f9f6b526f554b388f0a6c1c2b1f6e01",
            "`6f9f6b526f554b388f0a6c1c2b1f6e01` is not a UUID at `$.id`",
        ),
        (
            "\"1.0.0\"",
            "\"2.0.0\"",
            "its version is `2.0.0`, and only 1 is understood at `$.version`",
        ),
        (
            "\"agent_complete\"",
            "\"lunch\"",
            "`lunch` is none of `state_transition`, `agent_complete`, `user_approval`, `error_occurred`, `manual`, `time_interval`, `before_destructive` at `$.trigger`",
        ),
        (
            "\"status\": \"valid\"",
            "\"status\": \"fine\"",
            "`fine` is none of `creating`, `valid`, `corrupted`, `expired`, `archived` at `$.status`",
        ),
        (
            "\"PLANNING\",\n    \"stateHistory\"",
            "null,\n    \"stateHistory\"",
            "expected text, found null at `$.workflow.previousState`",
        ),
        (
            "\"attempts\": 1",
            "\"attempts\": -1",
            "`-1` is not a whole number at `$.agents[0].attempts`",
        ),
        (
            "\"attempts\": 0",
            "\"tries\": 0",
            "`attempts` is missing at `$.agents[2]`",
        ),
        (
            "\"input\": {}",
            "\"input\": []",
            "expected an object, found a list at `$.agents[1].input`",
        ),
        (
            "\"size\": 2048",
            "\"size\": \"2 KB\"",
            "expected a number, found text at `$.fileSystem.modifiedFiles[0].size`",
        ),
        (
            "\"gzip\"",
            "\"rar\"",
            "`rar` is none of `none`, `gzip`, `lz4`, `zstd` at `$.metadata.compressionType`",
        ),
        (
            "\"canResume\": true",
            "\"canResume\": \"true\"",
            "expected true or false, found text at `$.recovery.canResume`",
        ),
    ];
    check_refused(Dialect::Orchestrator, RUNNING, &cases);
}

#[test]
fn checksums_are_those_of_the_seeds_code() {
    for document in [RUNNING, ERROR] {
        let checkpoint = read(document);
        assert!(verify(&checkpoint).is_empty());
        let mut sealed = checkpoint.clone();
        sealed["metadata"]["checksums"] = Json::Null;
        seal(&mut sealed);
        assert_eq!(
            sealed["metadata"]["checksums"],
            checkpoint["metadata"]["checksums"]
        );
    }
}

#[test]
fn a_change_is_found_in_its_section() {
    for (from, to, section) in [
        ("\"TESTING\"", "\"DONE\"", "workflow"),
        ("\"attempts\": 2", "\"attempts\": 3", "agents"),
        ("0.000001", "0.000002", "context"),
        ("\"isDirty\": true", "\"isDirty\": false", "fileSystem"),
        ("281b468dcac4eed3", "281b468dcac4eed4", "overall"),
    ] {
        assert!(RUNNING.contains(from));
        let changed = read(&RUNNING.replacen(from, to, 1));
        assert_eq!(verify(&changed), [section]);
    }
    // A section and its checksum changed together: the overall one does not fit any more.
    let mut forged = running();
    forged["agents"].list_mut().clear();
    let mut sealed = forged.clone();
    seal(&mut sealed);
    forged["metadata"]["checksums"]["agents"] = sealed["metadata"]["checksums"]["agents"].clone();
    assert_eq!(verify(&forged), ["overall"]);
}

#[test]
fn a_number_written_differently_is_the_same_number() {
    let other = RUNNING
        .replace("0.000001", "1.0e-6")
        .replace("12000", "12000.0");
    assert_ne!(other, RUNNING);
    assert!(verify(&read(&other)).is_empty());
}

#[test]
fn unknown_fields_may_have_been_hashed_or_not() {
    // Added later: the seed does not see it, and its checksum still holds.
    let added = RUNNING.replacen("\"currentState\"", "\"x\": 1, \"currentState\"", 1);
    assert!(verify(&read(&added)).is_empty());
    // There when it was hashed, in its place: the seed's checksums hold too, also after it was read and written.
    let hashed = added
        .replacen("7b44a86caafe89ae", "0924914fad7407e5", 1)
        .replacen("281b468dcac4eed3", "f2a1869976e092f4", 1);
    assert!(verify(&read(&hashed)).is_empty());
    assert!(verify(&read(&read(&hashed).write())).is_empty());
}

/// Sealed, it is sound and knows its size, also after it was written and read.
fn check_sealed(mut checkpoint: DialectDocument) {
    seal(&mut checkpoint);
    let text = checkpoint.write();
    for checkpoint in [&checkpoint, &read(&text)] {
        assert!(verify(checkpoint).is_empty());
        let size = checkpoint["metadata"].whole("checkpointSize");
        assert_eq!(size, Some(text.len() as u64));
    }
}

#[test]
fn a_sealed_checkpoint_is_sound_and_knows_its_size() {
    let mut checkpoint = read(ERROR);
    checkpoint.set("status", "archived");
    checkpoint["workflow"]["currentState"] = "TESTING".into();
    assert_eq!(verify(&checkpoint), ["workflow"]);
    check_sealed(checkpoint);
}

#[test]
fn a_file_is_unpacked_read_and_verified() {
    let bytes = include_bytes!("data/orchestrator_running.json.gz");
    let unpacked = Compression::detect(bytes)
        .unpack(bytes, flightline_core::dialect::MAX_BYTES)
        .unwrap();
    assert_eq!(read(text_of(&unpacked).unwrap()), running());
    let broken = text_of(b"{\n  \"a\": \"\xff\"}").unwrap_err();
    assert_eq!(broken.to_string(), "it is not UTF-8 at line 2, column 9");
}

#[test]
fn files_are_named_by_bare_uuids() {
    let id = "6f9f6b52-6f55-4b38-8f0a-6c1c2b1f6e01";
    for (compression, file) in [
        (
            Compression::None,
            "6f9f6b52-6f55-4b38-8f0a-6c1c2b1f6e01.json",
        ),
        (
            Compression::Gzip,
            "6f9f6b52-6f55-4b38-8f0a-6c1c2b1f6e01.json.gz",
        ),
        (
            Compression::Lz4,
            "6f9f6b52-6f55-4b38-8f0a-6c1c2b1f6e01.json.lz4",
        ),
        (
            Compression::Zstd,
            "6f9f6b52-6f55-4b38-8f0a-6c1c2b1f6e01.json.zst",
        ),
    ] {
        assert_eq!(file_name(id, compression), file);
        assert_eq!(id_of(file), Some((id, compression)));
    }
    for file in [
        "index.json",
        "x.json.gz",
        "6f9f6b52-6f55-4b38-8f0a-6c1c2b1f6e01",
        ".json",
    ] {
        assert_eq!(id_of(file), None, "{file}");
    }
}

#[test]
fn the_index_has_the_seeds_eight_fields() {
    let entries = read_index(INDEX).unwrap();
    assert_eq!(write_index(&entries), INDEX);
    for (entry, checkpoint) in entries.iter().zip([running(), read(ERROR)]) {
        assert!(names_its_file(entry));
        let size = entry.whole("size").unwrap();
        let ours = index_entry(&checkpoint, size, entry.word("path"));
        assert_eq!(ours.stringify(), entry.stringify());
    }
    let elsewhere = INDEX.replacen(
        "/base/6f9f6b52-6f55-4b38-8f0a-6c1c2b1f6e01.json.gz",
        "/etc/passwd",
        1,
    );
    assert!(!names_its_file(&read_index(&elsewhere).unwrap()[0]));
    assert_eq!(read_index("[]").unwrap(), []);
    for bad in [
        "{}",
        "[{}]",
        "[1]",
        "[",
        &INDEX.replacen("\"size\": 1215", "\"size\": null", 1),
    ] {
        assert!(read_index(bad).is_err(), "{bad}");
    }
}

#[test]
fn recovery_is_analysed_as_the_seed_does() {
    for checkpoint in [running(), read(ERROR)] {
        assert_eq!(analyze(&checkpoint), checkpoint["recovery"]);
    }
    let mut checkpoint = running();
    assert_eq!(checkpoint["recovery"].flag("canResume"), Some(true));
    assert_eq!(
        checkpoint["recovery"].text("resumeFromAgent"),
        Some("coder")
    );
    // A failed agent that can be tried again is not in the way.
    checkpoint["agents"].list_mut()[1]["status"] = "failed".into();
    let analysed = analyze(&checkpoint);
    assert_eq!(analysed.flag("canResume"), Some(true));
    assert!(analysed.items("blockers").is_empty());
    checkpoint["workflow"]["currentState"] = "ABORTED".into();
    let analysed = analyze(&checkpoint);
    assert_eq!(analysed.texts("blockers"), ["Workflow in ABORTED state"]);
    assert_eq!(analysed.flag("canResume"), Some(false));
}

const HAPPENINGS: [(TriggerCause<'static>, &str); 7] = [
    (
        TriggerCause::StateTransition {
            from: "PLANNING",
            to: "IMPLEMENTING",
            trigger: "plan_approved",
        },
        "State transition: PLANNING → IMPLEMENTING (plan_approved)",
    ),
    (
        TriggerCause::AgentCompleted { agent: "planner" },
        "Agent planner completed",
    ),
    (
        TriggerCause::AgentFailed { agent: "coder" },
        "Agent coder failed",
    ),
    (
        TriggerCause::Error {
            context: "coder",
            message: "no card",
        },
        "Error in coder: no card",
    ),
    (
        TriggerCause::Destructive {
            operation: "git_push",
            target: "origin/main",
        },
        "Before git_push: origin/main",
    ),
    (TriggerCause::Interval, "Periodic checkpoint"),
    (TriggerCause::Shutdown, "Shutdown checkpoint"),
];

#[test]
fn every_happening_has_the_seeds_words() {
    for (happening, reason) in HAPPENINGS {
        assert_eq!(happening.reason(), reason);
    }
}

#[test]
fn triggers_and_reasons_fit_together() {
    for trigger in [
        "state_transition",
        "agent_complete",
        "user_approval",
        "error_occurred",
        "manual",
        "time_interval",
        "before_destructive",
    ] {
        assert_eq!(trigger_of(reason_of(trigger)), trigger);
    }
    assert_eq!(trigger_of(Reason::LockTimeout), "error_occurred");
    assert_eq!(trigger_of(Reason::TokenCritical), "manual");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_checkpoint_comes_back_as_it_was(document in random::orchestrator()) {
        check_round_trip(Dialect::Orchestrator, &document.pretty(&[]));
    }

    #[test]
    fn whatever_is_sealed_is_sound_and_stays_so(document in random::orchestrator()) {
        check_sealed(read(&document.stringify()));
    }
}
