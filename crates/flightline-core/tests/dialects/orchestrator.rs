//! Seed D: an orchestrator's checkpoints.

use flightline_core::checkpoint::CheckpointStatus;
use flightline_core::dialect::compress::Compression;
use flightline_core::dialect::orchestrator::*;
use flightline_core::dialect::{Unreadable, text_of};
use proptest::prelude::*;

use crate::corpus::{check_bad_files, check_round_trip, said_when};
use crate::random;

/// Written by the seed's own code: an agent at work, and a workflow in `ERROR`.
pub const RUNNING: &str = include_str!("data/orchestrator_running.json");
const ERROR: &str = include_str!("data/orchestrator_error.json");
const INDEX: &str = include_str!("data/orchestrator_index.json");

fn round_trip(text: &str) -> Result<String, Unreadable> {
    read(text).map(|checkpoint| write(&checkpoint))
}

pub fn running() -> Checkpoint {
    read(RUNNING).unwrap()
}

pub fn failed() -> Checkpoint {
    read(ERROR).unwrap()
}

#[test]
fn documents_come_back_to_the_letter() {
    for document in [RUNNING, ERROR] {
        check_round_trip(round_trip, document);
        assert_eq!(round_trip(document).unwrap(), document);
    }
}

#[test]
fn bad_files_are_refused() {
    check_bad_files(round_trip, RUNNING);
}

#[test]
fn wrong_types_are_refused_with_their_place() {
    for (from, to, message) in [
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
    ] {
        assert_eq!(said_when(round_trip, RUNNING, from, to), message);
    }
}

#[test]
fn checksums_are_those_of_the_seeds_code() {
    for document in [RUNNING, ERROR] {
        let checkpoint = read(document).unwrap();
        assert_eq!(checkpoint.verify(), []);
        let keep = flightline_core::dialect::field::Keep::Known;
        assert_eq!(checkpoint.checksums(keep), checkpoint.metadata.checksums);
    }
}

#[test]
fn a_change_is_found_in_its_section() {
    for (from, to, section) in [
        ("\"TESTING\"", "\"DONE\"", Section::Workflow),
        ("\"attempts\": 2", "\"attempts\": 3", Section::Agents),
        ("0.000001", "0.000002", Section::Context),
        (
            "\"isDirty\": true",
            "\"isDirty\": false",
            Section::FileSystem,
        ),
        ("281b468dcac4eed3", "281b468dcac4eed4", Section::Overall),
    ] {
        assert!(RUNNING.contains(from));
        let changed = read(&RUNNING.replacen(from, to, 1)).unwrap();
        assert_eq!(changed.verify(), [section]);
    }
    // A section and its checksum changed together: the overall one does not fit any more.
    let mut forged = running();
    forged.agents.clear();
    let keep = flightline_core::dialect::field::Keep::Known;
    forged.metadata.checksums.agents = forged.checksums(keep).agents;
    assert_eq!(forged.verify(), [Section::Overall]);
}

#[test]
fn a_number_written_differently_is_the_same_number() {
    let other = RUNNING
        .replace("0.000001", "1.0e-6")
        .replace("12000", "12000.0");
    assert_ne!(other, RUNNING);
    assert_eq!(read(&other).unwrap().verify(), []);
}

#[test]
fn unknown_fields_may_have_been_hashed_or_not() {
    // Added later: the seed does not see it, and its checksum still holds.
    let added = RUNNING.replacen("\"currentState\"", "\"x\": 1, \"currentState\"", 1);
    assert_eq!(read(&added).unwrap().verify(), []);
    // There when it was hashed: in its place, it holds too, also after it was read and written.
    let mut hashed = read(&added).unwrap();
    let keep = flightline_core::dialect::field::Keep::All;
    hashed.metadata.checksums = hashed.checksums(keep);
    assert_ne!(
        hashed.metadata.checksums.workflow,
        running().metadata.checksums.workflow
    );
    assert_eq!(hashed.verify(), []);
    assert_eq!(read(&write(&hashed)).unwrap().verify(), []);
}

#[test]
fn a_sealed_checkpoint_is_sound_and_knows_its_size() {
    let mut checkpoint = failed();
    checkpoint.status = CheckpointStatus::Archived;
    checkpoint.workflow.current_state = "TESTING".to_owned();
    assert_eq!(checkpoint.verify(), [Section::Workflow]);
    checkpoint.seal();
    assert_eq!(checkpoint.verify(), []);
    let text = write(&checkpoint);
    assert_eq!(
        checkpoint.metadata.checkpoint_size.as_u64(),
        Some(text.len() as u64)
    );
}

#[test]
fn a_file_is_unpacked_read_and_verified() {
    let bytes = include_bytes!("data/orchestrator_running.json.gz");
    let unpacked = Compression::detect(bytes)
        .unpack(bytes, flightline_core::dialect::MAX_BYTES)
        .unwrap();
    let checkpoint = read(text_of(&unpacked).unwrap()).unwrap();
    assert_eq!(checkpoint, running());
    assert_eq!(checkpoint.verify(), []);
    let broken = text_of(b"{\n  \"a\": \"\xff\"}").unwrap_err();
    assert_eq!(broken.to_string(), "it is not UTF-8 at line 2, column 9");
}

#[test]
fn files_are_named_by_bare_uuids() {
    let id = running().id;
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
        assert_eq!(file_name(&id, compression), file);
        assert_eq!(id_of(file), Some((id.clone(), compression)));
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
    for (entry, checkpoint) in entries.iter().zip([running(), failed()]) {
        assert!(entry.names_its_file());
        let size = entry.size.as_u64().unwrap();
        let ours = IndexEntry::of(&checkpoint, size, entry.path.clone());
        assert_eq!(&ours, entry);
    }
    let elsewhere = INDEX.replacen(
        "/base/6f9f6b52-6f55-4b38-8f0a-6c1c2b1f6e01.json.gz",
        "/etc/passwd",
        1,
    );
    assert!(!read_index(&elsewhere).unwrap()[0].names_its_file());
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_checkpoint_comes_back_as_it_was(document in random::orchestrator()) {
        check_round_trip(round_trip, &document.pretty(&[]));
    }

    #[test]
    fn whatever_is_sealed_is_sound_and_stays_so(document in random::orchestrator()) {
        let mut checkpoint = read(&document.stringify()).unwrap();
        checkpoint.seal();
        prop_assert_eq!(checkpoint.verify(), vec![]);
        let text = write(&checkpoint);
        prop_assert_eq!(checkpoint.metadata.checkpoint_size.as_u64(), Some(text.len() as u64));
        prop_assert_eq!(read(&text).unwrap().verify(), vec![]);
    }
}
