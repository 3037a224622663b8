//! Every exit code, at least once, and what it means.

use std::fs;

use expect_test::expect;

use crate::cli::stage;
use crate::cli::world::World;

/// A loopback port where no server listens.
const NOBODY: &str = "postgres://postgres@127.0.0.1:1/postgres";

#[test]
fn zero_is_done() {
    assert_eq!(World::new().fleet("status").code, 0);
}

#[test]
fn one_is_failed() {
    let world = World::new();
    // The one disk that is always full.
    let full = || {
        fs::OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .unwrap()
    };
    let ran = world.line("schema mission").stdout(full()).go();
    ran.expect(expect![[r#"
        [stderr]
        error: cannot write the answer: No space left on device (os error 28)
        [exit 1]
    "#]]);
    assert_eq!(world.line("--help").stdout(full()).go().code, 1);
    assert_eq!(world.line("status --json").stdout(full()).go().code, 1);
}

#[test]
fn a_reader_that_goes_away_is_not_a_trouble_worth_words() {
    let world = stage::world();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let writer: std::os::fd::OwnedFd = writer.into();
    let ran = world.line("log").stdout(writer.into()).go();
    assert_eq!((ran.code, ran.stderr.as_str()), (1, ""));
}

#[test]
fn two_is_wrong_usage_or_a_missing_yes() {
    let world = stage::world();
    assert_eq!(world.fleet("status --nonsense").code, 2);
    assert_eq!(world.fleet("missions create \"\"").code, 2);
    assert_eq!(world.fleet("restore copy.db").code, 2);
}

#[test]
fn three_is_not_found_or_ambiguous() {
    let world = stage::world();
    assert_eq!(world.fleet("sorties show srt-ffff").code, 3);
    // A prefix alone names nothing, however few there are.
    assert_eq!(world.fleet("sorties show srt-").code, 2);
    assert_eq!(World::empty().fleet("status").code, 3);
}

#[test]
fn four_is_a_conflict() {
    let world = stage::world();
    for typed in [
        "sorties claim {Model} --agent bob",
        "sorties complete {Login}",
        "missions complete",
        "locks acquire src --agent bob",
        "effect begin deploy",
        "note lesson X --agent old",
    ] {
        assert_eq!(world.fleet(&stage::named(typed)).code, 4, "{typed}");
    }
}

#[test]
fn five_is_attention() {
    let world = stage::world();
    assert_eq!(world.fleet("locks check src --agent bob").code, 5);
    world.sql("UPDATE subject SET sha = 'x' WHERE kind = 'note'");
    assert_eq!(world.fleet("doctor").code, 5);
}

#[test]
fn six_is_a_store_that_cannot_be_trusted() {
    let world = stage::world().local_only("it damages the store");
    world.sql("UPDATE subject SET doc = '{\"not\":\"a mission\"}' WHERE kind = 'mission'");
    let ran = world.fleet("missions show");
    assert_eq!(ran.code, 0, "the journal has it: {ran:?}");
    assert!(ran.stderr.contains("warning: the last value of mission"));
    world.sql("UPDATE event SET after = '{\"not\":\"a mission\"}' WHERE subject_kind = 'mission'");
    let ran = world.fleet("missions show");
    assert_eq!(ran.code, 6, "{ran:?}");
    assert!(
        ran.refused(6)
            .contains("hint: look closer with `fleet doctor`"),
        "{ran:?}"
    );
    world.sql("PRAGMA user_version = 99");
    assert_eq!(world.fleet("status").code, 6);
}

#[test]
fn seven_is_unavailable_try_again() {
    let world = stage::world();
    let ran = world.command(&["status", "--location", NOBODY]).run();
    ran.expect(expect![[r#"
        [stderr]
        error: the store cannot be reached: PostgreSQL: Connection refused (os error 111)

        hint: nothing was written; try again later
        [exit 7]
    "#]]);
    let json = world
        .command(&["missions", "create", "X", "--json", "--location", NOBODY])
        .run();
    assert_eq!((json.code, json.error_code().as_str()), (7, "unavailable"));
    assert_eq!(json.json()["error"]["retryable"], true);
    // Nothing half-made stays behind that would pass for a fleet.
    let bare = World::empty();
    assert_eq!(bare.command(&["init", "--location", NOBODY]).run().code, 7);
    assert_eq!(bare.fleet("status").code, 3);
    assert_eq!(bare.fleet("init").code, 0);
}

#[test]
fn the_codes_are_explained() {
    let told = World::empty().ok("help exit-codes").stdout;
    for code in 0..=7 {
        assert!(
            told.contains(&format!("\n  {code}  ")),
            "{code} is not in {told}"
        );
    }
}
