//! A disk that fails at one call of a command, which `strace` makes it do: what the command says then is so. `scripts/faults`
//! does this to every command that writes, in many ways; here are those that once said what was not so.

use std::fs;

use flightline_testkit::Engine;

use crate::crash::world::{Answer, World};

/// Runs a command whose n-th call of a kind fails with an I/O error. None when it makes fewer calls.
fn failing(world: &World, call: &str, number: u64, arguments: &[&str]) -> Option<Answer> {
    let trace = world.home().join("trace");
    let mut command = world.sealed("strace");
    command
        .args(["-f", "-qq", "-e", &format!("trace={call}"), "-e"])
        .arg(format!("inject={call}:error=EIO:when={number}"))
        .arg("-o")
        .arg(&trace)
        .arg(env!("CARGO_BIN_EXE_fleet"))
        .args(arguments);
    let answer = Answer::new(command.output().unwrap());
    assert!(
        !answer.err.contains("panicked"),
        "{call} {number}: {answer}"
    );
    let struck = fs::read_to_string(trace).unwrap().contains("INJECTED");
    struck.then_some(answer)
}

#[test]
fn a_checkpoint_whose_disk_fails_is_there_when_it_says_so_and_is_not_denied_when_it_is() {
    let world = World::new(Engine::Sqlite);
    let count = || {
        let list = world.ask(&["checkpoints", "list", "--limit", "1000"]);
        list.as_array().unwrap().len()
    };
    let (mut taken, mut refused) = (0, 0);
    for number in (1..).step_by(4) {
        let note = format!("Before number {number}");
        world.run(&["note", "lesson", &note]).works();
        let before = count();
        let Some(answer) = failing(&world, "pwrite64", number, &["checkpoint"]) else {
            break;
        };
        let came = count() - before;
        match answer.code() {
            Some(0) => {
                assert_eq!(came, 1, "write {number}: {answer}");
                taken += 1;
            }
            Some(_) => {
                let denied = answer.err.contains("nothing was written");
                assert!(
                    came == 0 || !denied,
                    "write {number}: it is there: {answer}"
                );
                refused += 1;
            }
            None => panic!("write {number}: {answer}"),
        }
    }
    assert!(taken > 3 && refused > 0, "{taken} taken, {refused} refused");
    world.run(&["doctor", "--fix"]).works();
    world.is_well();
}

#[test]
fn a_repair_whose_disk_fails_afterwards_does_not_say_that_nothing_was_written() {
    let world = World::new(Engine::Sqlite);
    world.run(&["sorties", "add", "Model"]).works();
    let forge = "UPDATE subject SET status = 'failed' WHERE kind = 'sortie'";
    let status = || world.sqlite("SELECT status FROM subject WHERE kind = 'sortie'");
    let (mut repaired, mut refused) = (0, 0);
    for number in (1..).step_by(9) {
        world.sqlite(forge);
        let Some(answer) = failing(&world, "pwrite64", number, &["doctor", "--fix"]) else {
            break;
        };
        if answer.code() == Some(7) {
            refused += 1;
            let told = "earlier repairs are kept";
            assert!(
                answer.err.contains(told) || !answer.err.contains("nothing was"),
                "write {number}: {answer}"
            );
        }
        repaired += u32::from(status() == "pending");
        world.run(&["doctor", "--fix"]).works();
        assert_eq!(status(), "pending", "write {number}: {answer}");
        world.is_well();
    }
    assert!(
        repaired > 0 && refused > 0,
        "{repaired} repaired, {refused} refused"
    );
}

#[test]
fn a_home_that_cannot_be_read_is_not_taken_for_a_fleet_that_nobody_trusts() {
    let world = World::new(Engine::Sqlite);
    let mut unread = 0;
    for number in 1.. {
        let Some(answer) = failing(&world, "openat", number, &["note", "lesson", "Mine"]) else {
            break;
        };
        let said = format!("open {number}: {answer}");
        assert!(!answer.err.contains("is not trusted"), "{said}");
        assert!(
            !answer.err.contains("neither created nor trusted"),
            "{said}"
        );
        unread += u32::from(answer.err.contains("cannot read which fleets you trust"));
    }
    assert!(unread > 0, "it is told when it happens");
    world.is_well();
}

#[test]
fn a_mirror_whose_copy_cannot_be_read_is_not_taken_for_what_somebody_else_wrote() {
    let world = World::new(Engine::Sqlite);
    world.run(&["agents", "register", "ada"]).works();
    world
        .run(&["config", "set", "mirrors.epic", "true"])
        .works();
    world
        .run(&["agents", "update", "--step", "one"])
        .by("ada")
        .works();
    let taken_in = || world.sqlite("SELECT count(*) FROM event WHERE kind = 'document_imported'");
    assert_eq!(taken_in(), "0");
    let mut told = 0;
    for number in 1.. {
        let Some(answer) = failing(&world, "openat", number, &["status"]) else {
            break;
        };
        assert!(!answer.err.contains("somebody else wrote"), "{answer}");
        told += u32::from(answer.err.contains("ada.json is left alone"));
    }
    assert!(told > 0, "it is told when it happens");
    assert_eq!(taken_in(), "0");
}
