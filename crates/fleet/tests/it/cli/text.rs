//! Bad text: nothing, too much, bytes that are not text, characters that are not for reading.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use expect_test::expect;

use crate::cli::stage;
use crate::cli::world::World;

const TEN_MEGABYTES: usize = 10 * 1024 * 1024;

/// A message to ada whose body comes from stdin.
const SEND: &str = "mail send --to ada --subject Hello --body -";

#[test]
fn an_empty_text_is_refused_with_its_field_named() {
    let world = stage::world();
    let before = world.rev();
    for (typed, told) in [
        ("missions create \"\"", "the title is empty"),
        ("missions create \"   \"", "the title is empty"),
        (
            "missions create X --sortie \"\"",
            "the sortie title is empty",
        ),
        ("sorties block {Model} --reason \"\"", "the reason is empty"),
        ("mail send --to ada --subject \"\"", "the subject is empty"),
        (
            "mail send --to ada --subject X --body \"\"",
            "the body is empty",
        ),
        ("note lesson \"\"", "the note is empty"),
        ("locks acquire \"\" --agent ada", "the path is empty"),
        (
            "locks steal src/a.rs --reason \"\" --agent bob",
            "the reason is empty",
        ),
        ("agents register \"\"", "`` cannot be"),
        ("effect begin \"\"", "`` cannot be"),
    ] {
        let ran = world.fleet(&stage::named(typed));
        let error = ran.refused(2);
        assert!(
            error.starts_with(&format!("error: {told}")),
            "{typed}: {error}"
        );
    }
    // Nothing on stdin is nothing, too.
    let nothing = world.line(SEND).stdin("").run();
    assert!(
        nothing.refused(2).starts_with("error: the body is empty\n"),
        "{nothing:?}"
    );
    assert_eq!(world.rev(), before);
}

#[test]
fn ten_megabytes_on_stdin_are_refused_without_being_kept() {
    let world = stage::world();
    let before = world.rev();
    world
        .line(SEND)
        .stdin(vec![b'x'; TEN_MEGABYTES])
        .run()
        .expect(expect![[r#"
            [stderr]
            error: the body on stdin is longer than 65536 bytes

            hint: put the long version into a file and name the file
            [exit 2]
        "#]]);
    let json = world
        .line(&format!("{SEND} --json"))
        .stdin(vec![b'x'; TEN_MEGABYTES])
        .run();
    assert_eq!((json.code, json.error_code().as_str()), (2, "too_long"));
    let note = world
        .line("note lesson -")
        .stdin(vec![b'x'; TEN_MEGABYTES])
        .run();
    assert!(
        note.refused(2)
            .starts_with("error: the note on stdin is longer than 8192 bytes\n")
    );
    let call = world
        .line("call add_note")
        .stdin(vec![b'x'; TEN_MEGABYTES])
        .run();
    assert!(
        call.refused(2)
            .starts_with("error: the request on stdin is longer than 1048576 bytes\n")
    );
    assert_eq!(world.rev(), before);
}

#[test]
fn what_fits_is_kept_whole() {
    let world = stage::world();
    let body = "z".repeat(65_536);
    let sent = world
        .line(&format!("{SEND} --json"))
        .stdin(body.clone())
        .run();
    let id = sent.json()["message"]["id"].as_str().unwrap().to_owned();
    let read = world.agent("ada", &format!("mail read {id} --json"));
    assert_eq!(read.json()["message"]["body"], body);
    let more = world.line(SEND).stdin(format!("{body}z")).run();
    more.expect(expect![[r#"
        [stderr]
        error: the body has 65537 bytes, and at most 65536 are allowed

        hint: put the long version into a file and name the file
        [exit 2]
    "#]]);
    let title = world.fleet(&format!("missions create {}", "t".repeat(501)));
    title.expect(expect![[r#"
        [stderr]
        error: the title has 501 bytes, and at most 500 are allowed

        hint: put the long version into a file and name the file
        [exit 2]
    "#]]);
    world.ok(&format!("missions create {}", "t".repeat(500)));
}

#[test]
fn bytes_that_are_not_utf8_are_refused_on_stdin() {
    let world = stage::world();
    let before = world.rev();
    world
        .line(SEND)
        .stdin(*b"caf\xe9")
        .run()
        .expect(expect![[r#"
        [stderr]
        error: the body on stdin is not UTF-8

        hint: convert it first, with `iconv` for example
        [exit 2]
    "#]]);
    let json = world
        .line(&format!("{SEND} --json"))
        .stdin(*b"\xff\xfe")
        .run();
    assert_eq!(
        (json.code, json.error_code().as_str()),
        (2, "invalid_input")
    );
    assert_eq!(world.rev(), before);
}

#[test]
fn bytes_that_are_not_utf8_are_refused_in_arguments() {
    let world = stage::world();
    let (before, latin) = (world.rev(), OsStr::from_bytes(b"caf\xe9"));
    let create = [OsStr::new("missions"), OsStr::new("create"), latin];
    world.command(&create).run().expect(expect![[r#"
        [stderr]
        error: an argument is not UTF-8

        hint: convert it first, with `iconv` for example
              usage: fleet missions create [OPTIONS] <TITLE>
              see `fleet missions create --help`
        [exit 2]
    "#]]);
    let json = [create.as_slice(), &[OsStr::new("--json")]].concat();
    let ran = world.command(&json).run();
    assert_eq!((ran.code, ran.error_code().as_str()), (2, "invalid_input"));
    // A folder may have any name: it is only missing.
    let folder = [OsStr::new("-C"), latin, OsStr::new("status")];
    world.command(&folder).run().refused(3);
    assert_eq!(world.rev(), before);
}

#[test]
fn bytes_that_are_not_utf8_in_the_environment_do_not_make_a_person_of_an_agent() {
    let world = stage::world();
    let latin = OsStr::from_bytes(b"caf\xe9");
    let note = world.line("note lesson X").env("FLEET_AGENT", latin);
    note.run().expect(expect![[r#"
        [stderr]
        error: FLEET_AGENT is not UTF-8

        hint: set it anew, or run `unset FLEET_AGENT`
        [exit 2]
    "#]]);
    for name in [
        "FLEET_EPOCH",
        "FLEET_SESSION",
        "FLEET_MISSION",
        "FLEET_LOCATION",
    ] {
        let ran = world.line("note lesson X").env(name, latin).run();
        assert!(
            ran.refused(2)
                .starts_with(&format!("error: {name} is not UTF-8\n")),
            "{ran:?}"
        );
    }
    // Other people's variables are their business.
    assert_eq!(world.line("status").env("USER", latin).run().code, 0);
}

#[test]
fn nul_and_other_control_characters_do_not_get_in() {
    let world = stage::world();
    let before = world.rev();
    let only = world.line(SEND).stdin(*b"\0\0\0").run();
    assert!(
        only.refused(2).starts_with("error: the body is empty\n"),
        "{only:?}"
    );
    assert_eq!(world.rev(), before);
    let body = "a\0b\u{1b}[31mred\u{7}\u{9b}\r\nsecond\tline\u{7f}";
    let sent = world.line(&format!("{SEND} --json")).stdin(body).run();
    assert_eq!(sent.json()["message"]["body"], "ab[31mred\nsecond\tline");
    let title = world
        .command(&["missions", "create", "x\u{1b}]0;owned\u{7}y", "--json"])
        .run();
    assert_eq!(title.json()["mission"]["title"], "x]0;ownedy");
}

#[test]
fn control_characters_are_not_repeated_in_errors() {
    let world = stage::world();
    let evil = "\u{1b}]0;owned\u{7}x\u{8}";
    for arguments in [
        ["sorties", "show", evil],
        ["agents", "show", evil],
        ["config", "get", evil],
        ["schema", evil, "-q"],
        ["help", evil, "-q"],
        ["-C", evil, "status"],
        ["restore", evil, "-y"],
        ["completions", evil, "-q"],
        [evil, "-q", "-q"],
        ["events", "list", &format!("--since={evil}")],
        ["call", evil, "-q"],
        ["--location", evil, "status"],
        ["locks", "check", evil],
    ] {
        // As on a terminal: a pipe would take escape sequences out by itself.
        let command = [&["--color", "always"], arguments.as_slice()].concat();
        let ran = world.command(&command).run();
        assert_ne!(ran.code, 0, "{arguments:?}");
        let evil = |c: char| c.is_control() && c != '\n' && c != '\u{1b}';
        let told = ran.text();
        assert!(
            !told.contains(evil) && !told.contains("\u{1b}]"),
            "{arguments:?}: {ran:?}"
        );
    }
}

/// Marks that turn the direction of writing, line separators and C1 controls, as a file in a repository may be called.
const TURNED: &str = "src/\u{202e}sr.niam\u{2066}\u{200f}\u{61c}\u{2028}x";
const TURNED_SEEN: &str = "src/\\u202esr.niam\\u2066\\u200f\\u061c\\u2028x";

#[test]
fn what_turns_the_direction_of_writing_does_not_reach_the_terminal() {
    let world = stage::world();
    let title = format!("Pay {TURNED}");
    let made = world
        .command(&["missions", "create", &title, "--sortie", &title, "--json"])
        .run();
    assert!(made.stdout.is_ascii(), "{made:?}");
    assert_eq!(
        made.json()["mission"]["title"],
        title,
        "JSON says what is stored"
    );
    assert_eq!(
        world
            .command(&["locks", "acquire", TURNED, "--agent", "ada"])
            .run()
            .code,
        0
    );
    for typed in [
        "locks list",
        "missions list",
        "sorties list",
        "status",
        "log",
        "locks list --json",
        "events list --json",
    ] {
        for color in ["always", "never"] {
            let ran = world.ok(&format!("{typed} --color {color}"));
            let text = ran.text();
            let hidden = |c: char| matches!(c, '\u{61c}' | '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
            assert!(!text.contains(hidden), "{typed}: {text:?}");
        }
    }
    assert!(world.ok("locks list").stdout.contains(TURNED_SEEN));
    // Errors repeat what was typed, and the talk beside an answer names things.
    let refused = world
        .command(&["locks", "acquire", TURNED, "--agent", "bob"])
        .run();
    assert!(
        refused.stderr.contains("\\u202e") && !refused.stderr.contains('\u{202e}'),
        "{refused:?}"
    );
    let unknown = world
        .command(&["agents", "show", "a\u{202e}b\u{9b}31m"])
        .run();
    assert!(unknown.refused(3).contains("`a\\u202eb31m`"), "{unknown:?}");
}

#[test]
fn what_an_older_store_holds_does_not_reach_the_terminal_either() {
    let world = World::with_sorties(&["Harmless"]).local_only("it writes into the database");
    let id = world.sortie("Harmless");
    // As it would be there had an older version let it in: the name in its row is what lists show first.
    world.sql(&format!(
        "UPDATE subject SET name = 'a' || char(27) || ']0;x' || char(155, 8238) WHERE id = '{id}'"
    ));
    for typed in ["sorties list", "status", "doctor", "log"] {
        let text = world.line(&format!("{typed} --color always")).run().text();
        let evil = |c: char| c.is_control() && c != '\n' && c != '\u{1b}' || c == '\u{202e}';
        assert!(
            !text.contains(evil) && !text.contains("\u{1b}]"),
            "{typed}: {text:?}"
        );
    }
}

#[test]
fn a_line_break_in_a_title_does_not_forge_a_line_of_output() {
    let world = World::new();
    let title = "Harmless\nmsn-00000000  Forged";
    let made = world
        .command(&["missions", "create", title, "--sortie", title])
        .run();
    for ran in [
        made,
        world.ok("status"),
        world.ok("missions list"),
        world.ok("missions show"),
        world.ok("log"),
    ] {
        let forged = ran
            .stdout
            .lines()
            .any(|line| line.trim_start().starts_with("msn-00000000"));
        assert!(
            !forged && ran.stdout.contains("Harmless msn-00000000"),
            "{ran:?}"
        );
    }
    let claimed = world.agent_ok("ada", "sorties claim --next");
    assert_eq!(claimed.stdout.lines().count(), 1, "{claimed:?}");
}

#[test]
fn deep_json_is_refused() {
    let world = stage::world();
    let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
    let given = world
        .command(&["sorties", "add", "X", "--input", &deep])
        .run();
    given.expect(expect![[r#"
        [stderr]
        error: the input is not JSON: recursion limit exceeded at line 1 column 128
        [exit 2]
    "#]]);
    let request = format!("{{\"deep\":{}", "[".repeat(100_000));
    let called = world.line("call add_note --json").stdin(request).run();
    assert_eq!(
        (called.code, called.error_code().as_str()),
        (2, "invalid_input")
    );
}
