//! Seed D's files on the command line: checkpoints of an orchestrator come in, go out, and are kept beside.

use std::fs;

use expect_test::expect;
use flightline::core::dialect::compress::Compression;
use flightline::core::dialect::{Dialect, DialectDocument, Json, orchestrator};

use crate::cli::world::World;

const RUNNING: &str =
    include_str!("../../../../flightline-core/tests/it/dialects/data/orchestrator_running.json");
const RUNNING_GZ: &[u8] = include_bytes!(
    "../../../../flightline-core/tests/it/dialects/data/orchestrator_running.json.gz"
);
const ERROR: &str =
    include_str!("../../../../flightline-core/tests/it/dialects/data/orchestrator_error.json");
const INDEX: &str =
    include_str!("../../../../flightline-core/tests/it/dialects/data/orchestrator_index.json");
const FIRST: &str = "6f9f6b52-6f55-4b38-8f0a-6c1c2b1f6e01";
const SECOND: &str = "6f9f6b52-6f55-4b38-8f0a-6c1c2b1f6e02";

/// A project of an orchestrator: two checkpoints and an index.
fn project() -> World {
    let world = World::new();
    world.write("old/index.json", INDEX);
    world.write(&format!("old/{SECOND}.json"), ERROR);
    fs::write(
        world.repo().join(format!("old/{FIRST}.json.gz")),
        RUNNING_GZ,
    )
    .expect("a file");
    world
}

fn json(text: &str) -> Json {
    Json::parse(text).expect("JSON")
}

#[test]
fn a_project_comes_in_and_goes_out_again() {
    let world = project();
    world.fleet("import orchestrator old").expect(expect![[r#"
        Imported: chk-6f9f6b52 (IMPLEMENTING) from old/6f9f6b52-6f55-4b38-8f0a-6c1c2b1f6e01.json.gz: state is "IMPLEMENTING", agents: 1 completed, 1 pending, 1 running
        Imported: chk-6f9f6b52 (ERROR) from old/6f9f6b52-6f55-4b38-8f0a-6c1c2b1f6e02.json: state is "ERROR", agents: 1 failed
        Known: the index from old/index.json
    "#]]);
    world.fleet("import orchestrator old").expect(expect![[r#"
        Known: chk-6f9f6b52 (IMPLEMENTING) from old/6f9f6b52-6f55-4b38-8f0a-6c1c2b1f6e01.json.gz
        Known: chk-6f9f6b52 (ERROR) from old/6f9f6b52-6f55-4b38-8f0a-6c1c2b1f6e02.json
        Known: the index from old/index.json
    "#]]);
    world.fleet("status").expect(expect![[r#"
        Add payments   msn-1166   ● in progress   33 %   ▓▓▓▓▓▒▒▒▒▒▒▒▒▒▒▒  1 of 3
          ✓ completed  srt-af9e  planner
          ✗ failed     srt-4dd5  coder
          ○ pending    srt-ec0d  tester
        Checkpoint  chk-6f9f6b52-6f55-4b38-8f0a-6c1c2b1f6e02, 2026-01-04T12:00:02.000Z, Error in coder: no card, in the store and in its file
        Agents      none
        Locks       none
        Mail        none
        Needs you   srt-4dd5 ("coder") failed; to retry it   → fleet sorties release srt-4dd5
    "#]]);
    world.fleet("export orchestrator new").expect(expect![[r#"
        Exported new/6f9f6b52-6f55-4b38-8f0a-6c1c2b1f6e01.json.gz
        Exported new/6f9f6b52-6f55-4b38-8f0a-6c1c2b1f6e02.json
        Exported new/index.json
    "#]]);
    let packed = fs::read(world.repo().join(format!("new/{FIRST}.json.gz"))).expect("a file");
    let text = Compression::Gzip.unpack(&packed, 1 << 20).expect("gzip");
    assert_eq!(
        json(std::str::from_utf8(&text).expect("text")),
        json(RUNNING)
    );
    let text = fs::read_to_string(world.repo().join(format!("new/{SECOND}.json")));
    assert_eq!(json(&text.expect("a file")), json(ERROR));
    let index = fs::read_to_string(world.repo().join("new/index.json")).expect("an index");
    let entries = orchestrator::read_index(&index).expect("an index");
    assert_eq!(entries.len(), 2);
    for entry in &entries {
        let size = fs::metadata(entry.word("path")).expect("its file").len();
        assert_eq!(entry.whole("size"), Some(size));
    }
    // Again into the same folder: nothing is in the way, and the index follows.
    world.ok("checkpoint --note more");
    world.ok("export orchestrator new");
    let index = fs::read_to_string(world.repo().join("new/index.json")).expect("an index");
    assert_eq!(orchestrator::read_index(&index).expect("an index").len(), 3);
    world.write("new/index.json", "mine");
    assert_eq!(world.fleet("export orchestrator new").code, 4);
    world.ok("export orchestrator new --force");
    let given = world.json("export orchestrator");
    assert_eq!(given["documents"].as_array().expect("documents").len(), 3);
}

#[test]
fn a_single_file_or_stdin_may_be_compressed() {
    let world = World::new();
    world.write("one.json", ERROR);
    for compression in Compression::ALL {
        let file = format!("one.json{}", compression.suffix());
        let packed = compression.pack(ERROR.as_bytes()).expect("packed");
        fs::write(world.repo().join(&file), &packed).expect("a file");
        let taken = world.json(&format!("import orchestrator {file}"));
        assert_eq!(taken[0]["changed"], compression == Compression::None);
        let piped = world.line("import orchestrator -").stdin(packed).run();
        assert_eq!(piped.code, 0, "{piped:?}");
    }
}

#[test]
fn bad_files_are_refused_with_the_place() {
    let world = project();
    let rev = world.rev();
    fs::write(world.repo().join("cut.json.gz"), &RUNNING_GZ[..400]).expect("a file");
    world
        .fleet("import orchestrator cut.json.gz")
        .expect(expect![[r#"
            [stderr]
            error: cannot read `cut.json.gz`: its gzip data is damaged: incomplete deflate stream
            [exit 6]
        "#]]);
    let bomb = Compression::Zstd
        .pack(&vec![b' '; 64 << 20])
        .expect("packed");
    fs::write(world.repo().join("bomb.json.zst"), bomb).expect("a file");
    world
        .fleet("import orchestrator bomb.json.zst")
        .expect(expect![[r#"
            [stderr]
            error: cannot read `bomb.json.zst`: it unfolds into more than 8388608 bytes
            [exit 2]
        "#]]);
    world.write("bent.json", &RUNNING.replace("Use webhooks", "Use polling"));
    world
        .fleet("import orchestrator bent.json")
        .expect(expect![[r#"
            [stderr]
            error: `bent.json` is damaged: its section `context` does not match its checksum

            hint: take another copy of it, or an earlier checkpoint
            [exit 6]
        "#]]);
    world
        .fleet("import orchestrator old/index.json")
        .expect(expect![[r#"
            [stderr]
            error: `old/index.json` is an index, and holds no checkpoint

            hint: import its folder: `fleet import orchestrator FOLDER`
            [exit 2]
        "#]]);
    assert_eq!(world.rev(), rev, "nothing came in");
    // Each file of a folder stands for itself.
    world.write(&format!("old/{FIRST}.json"), "{");
    world.fleet("import orchestrator old").expect(expect![[r#"
        Refused: cannot read `old/6f9f6b52-6f55-4b38-8f0a-6c1c2b1f6e01.json`: it ends too early at line 1, column 2
        Imported: chk-6f9f6b52 (IMPLEMENTING) from old/6f9f6b52-6f55-4b38-8f0a-6c1c2b1f6e01.json.gz: state is "IMPLEMENTING", agents: 1 completed, 1 pending, 1 running
        Imported: chk-6f9f6b52 (ERROR) from old/6f9f6b52-6f55-4b38-8f0a-6c1c2b1f6e02.json: state is "ERROR", agents: 1 failed
        Known: the index from old/index.json
        [stderr]
        warning: 1 of 4 files were not taken in; nothing of them was changed
        [exit 2]
    "#]]);
    world.ok(&format!("import orchestrator old/{SECOND}.json"));
    let other = ERROR.replace("\"s\"", "\"t\"");
    let mut other = DialectDocument::read(Dialect::Orchestrator, &other).expect("a document");
    orchestrator::seal(&mut other);
    world.write("other.json", &other.write());
    world
        .fleet("import orchestrator other.json")
        .expect(expect![[r#"
            [stderr]
            error: `other.json`: chk-6f9f6b52 is here already, and says something else in `context`

            hint: look at it with `fleet checkpoints show chk-6f9f6b52-6f55-4b38-8f0a-6c1c2b1f6e02`; a changed document needs an `id` of its own
            [exit 4]
        "#]]);
}

#[test]
fn an_index_that_is_wrong_is_said() {
    let world = project();
    let wrong = INDEX.replace("\"state\": \"ERROR\"", "\"state\": \"DONE\"");
    world.write("old/index.json", &wrong);
    fs::remove_file(world.repo().join(format!("old/{FIRST}.json.gz"))).expect("gone");
    world.fleet("import orchestrator old").expect(expect![[r#"
        Imported: chk-6f9f6b52 (ERROR) from old/6f9f6b52-6f55-4b38-8f0a-6c1c2b1f6e02.json: state is "ERROR", agents: 1 failed
        Known: the index from old/index.json
        [stderr]
        warning: old/index.json: it lists 6f9f6b52-6f55-4b38-8f0a-6c1c2b1f6e01, which is not there
        warning: old/index.json: its entry 6f9f6b52-6f55-4b38-8f0a-6c1c2b1f6e02 has another `state`
    "#]]);
}

#[test]
fn the_mirror_is_kept_in_the_state_folder() {
    let world = World::with_sorties(&["Plan"]);
    world.ok("config set preset orchestrator");
    world.ok("checkpoint --note first");
    let place = world.state().join("orchestrator");
    let files = || {
        let names = fs::read_dir(&place).expect("a folder");
        let names = names.map(|entry| entry.expect("an entry").file_name());
        let mut names: Vec<String> = names.map(|it| it.into_string().expect("text")).collect();
        names.sort();
        names
    };
    let there = files();
    assert!(there.len() == 2 && there[0].ends_with(".json.gz") && there[1] == "index.json");
    assert_eq!(crate::cli::world::mode(&place), 0o700);
    assert_eq!(crate::cli::world::mode(&place.join(&there[0])), 0o600);
    world.ok("config set mirrors.compression lz4");
    world.ok("checkpoint --note second");
    assert!(files().iter().any(|file| file.ends_with(".json.lz4")));
    fs::write(place.join(format!("{FIRST}.json.gz")), RUNNING_GZ).expect("a file");
    world.fleet("status").expect(expect![[r#"
        Add login   msn-1166   ● in progress   25 %   ▓▓▓▓▒▒▒▒▒▒▒▒▒▒▒▒  1 of 4
          ○ pending    srt-af9e  Plan
          ✓ completed  srt-3ce8  planner
          ○ pending    srt-db1f  coder
          ○ pending    srt-7957  tester
        Checkpoint  chk-6f9f, 2026-01-04T12:00:07.000Z, Agent planner completed, in the store, its file is to be written
        Agents      none
        Locks       none
        Mail        none
        Needs you   nothing
        [stderr]
        took in .flightline/orchestrator/6f9f6b52-6f55-4b38-8f0a-6c1c2b1f6e01.json.gz (chk-6f9f6b52 (IMPLEMENTING)): state is "IMPLEMENTING", agents: 1 completed, 1 pending, 1 running
    "#]]);
    world
        .fleet("config set mirrors.compression rar")
        .expect(expect![[r#"
        [stderr]
        error: `rar` is none of none, gzip, lz4 and zstd
        [exit 2]
    "#]]);
}

#[test]
fn what_its_writer_calls_corrupted_is_not_taken_for_sound() {
    let world = World::new();
    let corrupted = RUNNING.replacen("\"status\": \"valid\"", "\"status\": \"corrupted\"", 1);
    assert_ne!(corrupted, RUNNING);
    let before = world.rev();
    world.write(&format!("{FIRST}.json"), &corrupted);
    world
        .fleet(&format!("import orchestrator {FIRST}.json"))
        .expect(expect![[r#"
            [stderr]
            error: `6f9f6b52-6f55-4b38-8f0a-6c1c2b1f6e01.json`: its writer marked it as `corrupted`, without a reason

            hint: take another copy of it, or an earlier checkpoint
            [exit 6]
        "#]]);
    assert_eq!(world.rev(), before);
}

#[test]
fn control_characters_that_are_not_kept_are_told_of() {
    let world = World::new();
    let mut document = DialectDocument::read(Dialect::Orchestrator, RUNNING).expect("a document");
    document["triggerReason"] = format!("{}\u{7}", document.word("triggerReason")).into();
    document["context"]["lessons"]
        .list_mut()
        .push("bell \u{7}".into());
    orchestrator::seal(&mut document);
    world.write(&format!("{FIRST}.json"), &document.write());
    world
        .fleet(&format!("import orchestrator {FIRST}.json"))
        .expect(expect![[r#"
            Imported: chk-6f9f6b52 (IMPLEMENTING) from 6f9f6b52-6f55-4b38-8f0a-6c1c2b1f6e01.json: state is "IMPLEMENTING", agents: 1 completed, 1 pending, 1 running
            [stderr]
            warning: 6f9f6b52-6f55-4b38-8f0a-6c1c2b1f6e01.json: its texts held control characters or secrets, which are not kept: its checksums were made anew
        "#]]);
}
