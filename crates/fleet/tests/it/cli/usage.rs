//! Command lines that cannot be read: what is wrong, and how it is written.

use expect_test::expect;
use serde_json::json;

use crate::cli::stage;
use crate::cli::world::World;

#[test]
fn a_command_that_does_not_exist() {
    let world = World::empty();
    world.fleet("nonsense").expect(expect![[r#"
        [stderr]
        error: there is no command `nonsense`

        hint: did you mean `note`?
              usage: fleet [OPTIONS] [COMMAND]
              see `fleet --help`
        [exit 2]
    "#]]);
    world.fleet("misions list").expect(expect![[r#"
        [stderr]
        error: there is no command `misions`

        hint: did you mean `mission`?
              usage: fleet [OPTIONS] [COMMAND]
              see `fleet --help`
        [exit 2]
    "#]]);
    world.fleet("missions lst").expect(expect![[r#"
        [stderr]
        error: there is no command `lst`

        hint: did you mean `list`?
              usage: fleet missions [OPTIONS] <COMMAND>
              see `fleet missions --help`
        [exit 2]
    "#]]);
    world.fleet("missions nonsense --json").expect(expect![[r#"
        {"error":{"code":"invalid_input","hint":"usage: fleet missions [OPTIONS] <COMMAND>\nsee `fleet missions --help`","message":"there is no command `nonsense`","retryable":false}}
        [exit 2]
    "#]]);
}

#[test]
fn a_command_without_its_subcommand() {
    let world = World::empty();
    world.fleet("agents").expect(expect![[r#"
        [stderr]
        error: a subcommand is missing

        hint: one of: register, list, show, update, monitor, resume, takeover, restart, end, sync, retire
              usage: fleet agents [OPTIONS] <COMMAND>
              see `fleet agents --help`
        [exit 2]
    "#]]);
    world.fleet("lock --json").expect(expect![[r#"
        {"error":{"code":"invalid_input","hint":"one of: acquire, renew, release, list, check, steal\nusage: fleet locks [OPTIONS] <COMMAND>\nsee `fleet locks --help`","message":"a subcommand is missing","retryable":false}}
        [exit 2]
    "#]]);
}

#[test]
fn a_flag_that_does_not_exist() {
    let world = World::empty();
    world.fleet("sorties claim --nxt").expect(expect![[r#"
        [stderr]
        error: there is no flag `--nxt`

        hint: did you mean `--next`?
              usage: fleet sorties claim --next [ID]
              see `fleet sorties claim --help`
        [exit 2]
    "#]]);
    world.fleet("status --verbos").expect(expect![[r#"
        [stderr]
        error: there is no flag `--verbos`

        hint: did you mean `--verbose`?
              usage: fleet status --verbose
              see `fleet status --help`
        [exit 2]
    "#]]);
    world.fleet("status extra").expect(expect![[r#"
        [stderr]
        error: `extra` is one argument too many

        hint: usage: fleet status [OPTIONS]
              see `fleet status --help`
        [exit 2]
    "#]]);
}

#[test]
fn a_text_that_begins_with_a_dash() {
    let world = stage::world();
    world.fleet("note lesson \"- first\"").expect(expect![[r#"
        [stderr]
        error: there is no flag `- `

        hint: a text that begins with a dash goes at the end, after `--`
              usage: fleet note lesson [OPTIONS] <TEXT>
              see `fleet note lesson --help`
        [exit 2]
    "#]]);
    world.ok("note lesson -- \"- first\"");
    // Behind a flag for texts it is a text: agents write lists.
    let list = "- first\n- second";
    let sent = world.command(&[
        "mail",
        "send",
        "--to",
        "ada",
        "--subject",
        "-",
        "--body",
        list,
        "--json",
    ]);
    let sent = sent.stdin("--- from stdin").run().json();
    assert_eq!(
        (&sent["message"]["body"], &sent["message"]["subject"]),
        (&json!(list), &json!("--- from stdin"))
    );
    let blocked = stage::named("sorties block {Model} --reason");
    let mut arguments = crate::cli::world::words(&blocked);
    arguments.push("-5 degrees".into());
    assert_eq!(world.command(&arguments).run().code, 0);
}

#[test]
fn something_that_is_missing() {
    let world = World::empty();
    world.fleet("sorties show").expect(expect![[r#"
        [stderr]
        error: `<ID>` is missing

        hint: usage: fleet sorties show <ID>
              see `fleet sorties show --help`
        [exit 2]
    "#]]);
    world.fleet("mail send").expect(expect![[r#"
        [stderr]
        error: `--to <NAME>` and `--subject <SUBJECT>` are missing

        hint: usage: fleet mail send --to <NAME> --subject <SUBJECT>
              see `fleet mail send --help`
        [exit 2]
    "#]]);
    world.fleet("sorties claim").expect(expect![[r#"
        [stderr]
        error: `<ID>` is missing

        hint: usage: fleet sorties claim <ID>
              see `fleet sorties claim --help`
        [exit 2]
    "#]]);
    world.fleet("sorties show --json").expect(expect![[r#"
        {"error":{"code":"invalid_input","hint":"usage: fleet sorties show --json <ID>\nsee `fleet sorties show --help`","message":"`<ID>` is missing","retryable":false}}
        [exit 2]
    "#]]);
    world.fleet("status --mission").expect(expect![[r#"
        [stderr]
        error: `--mission <ID>` needs a value

        hint: see `fleet status --help`
        [exit 2]
    "#]]);
}

#[test]
fn a_value_that_cannot_be() {
    let world = World::empty();
    world.fleet("--color blue status").expect(expect![[r#"
        [stderr]
        error: `--color <WHEN>` cannot be `blue`

        hint: it may be: auto, always, never
              see `fleet status --help`
        [exit 2]
    "#]]);
    world
        .fleet("missions list --limit many")
        .expect(expect![[r#"
        [stderr]
        error: `--limit <LIMIT>` cannot be `many`: invalid digit found in string

        hint: see `fleet missions list --help`
        [exit 2]
    "#]]);
    world.fleet("events tail --for ever").expect(expect![[r#"
        [stderr]
        error: `--for <SPAN>`: `ever` is not a duration: write `90s`, `15m`, `12h` or `7d`

        hint: see `fleet events tail --help`
        [exit 2]
    "#]]);
    world
        .fleet("agents update --can-resume perhaps")
        .expect(expect![[r#"
        [stderr]
        error: `--can-resume <CAN_RESUME>` cannot be `perhaps`

        hint: it may be: true, false
              see `fleet agents update --help`
        [exit 2]
    "#]]);
}

#[test]
fn flags_that_exclude_each_other() {
    let world = World::empty();
    world.fleet("status -q -v").expect(expect![[r#"
        [stderr]
        error: `--quiet` cannot be used with `--verbose`

        hint: usage: fleet status --quiet
              see `fleet status --help`
        [exit 2]
    "#]]);
    for conflict in [
        "sorties claim srt-1234 --next",
        "locks release src --all",
        "mail ack msg-1234 --all",
        "agents update --blocker rain --clear-blockers",
        "sorties error srt-1234 --clear --message boom",
        "sorties error srt-1234 --clear --blocking",
    ] {
        let ran = world.fleet(conflict);
        assert!(
            ran.refused(2).contains(" cannot be used with "),
            "{conflict}: {ran:?}"
        );
    }
    // Fields of what is not JSON mean nothing.
    world.fleet("status --fields id").expect(expect![[r#"
        [stderr]
        error: `--json` is missing

        hint: usage: fleet status --json --fields <A,B>
              see `fleet status --help`
        [exit 2]
    "#]]);
}

#[test]
fn flags_that_are_given_twice() {
    let world = World::new();
    world
        .fleet("agents register ada --role dispatch --role dispatch")
        .expect(expect![[r#"
        [stderr]
        error: `--role <ROLE>` is given twice

        hint: usage: fleet agents register [OPTIONS] <NAME>
              see `fleet agents register --help`
        [exit 2]
    "#]]);
    // Programs that wrap a command add what it may have already.
    for harmless in [
        "--json status --json",
        "status --json --json -q -q --no-input --no-input",
    ] {
        assert_eq!(world.fleet(harmless).json()["rev"], 0, "{harmless}");
    }
}

#[test]
fn counts_that_do_not_count() {
    let world = stage::world();
    world
        .agent("ada", "heartbeat --tokens lots")
        .expect(expect![[r#"
        [stderr]
        error: `lots` does not count tokens

        hint: write `--tokens 120000/200000`
        [exit 2]
    "#]]);
    world
        .agent("ada", "heartbeat --context-percent 101")
        .refused(2);
    for wrong in ["3", "5/3", "a/b", "-1/3"] {
        let typed = stage::named(&format!("sorties update {{Model}} --done={wrong}"));
        assert!(
            world
                .agent("ada", &typed)
                .refused(2)
                .contains("is not a count"),
            "{wrong}"
        );
    }
    for wrong in ["post", "post=", "post=great", "=complete"] {
        let update = stage::named("sorties update {Model} --subtask");
        let mut arguments = crate::cli::world::words(&update);
        arguments.push(wrong.into());
        world.command(&arguments).agent("ada").run().refused(2);
    }
}

#[test]
fn help_and_version_are_answers() {
    let world = World::empty();
    for asked in [
        "--help",
        "-h",
        "help",
        "missions --help",
        "sorties claim -h",
    ] {
        let ran = world.ok(asked);
        assert!(
            ran.stdout.contains("Usage: fleet") && ran.stderr.is_empty(),
            "{asked}"
        );
        let json = world.ok(&format!("{asked} --json")).json();
        assert!(
            json["text"].as_str().unwrap().contains("Usage: fleet"),
            "{asked}"
        );
    }
    let version = world.ok("--version").stdout;
    assert!(
        version.starts_with("fleet ") && version.trim().len() > "fleet ".len(),
        "{version}"
    );
    assert_eq!(world.ok("-V --json").json()["text"], version);
}
