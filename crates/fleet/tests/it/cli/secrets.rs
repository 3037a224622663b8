//! Secrets: whatever somebody types, and wherever, they are in no stream and in no file.

use crate::cli::running::Ran;
use crate::cli::stage;
use crate::cli::world::World;

/// A text with a secret in it, and the part of it that must never be seen again.
struct Secret {
    typed: String,
    hidden: Vec<String>,
}

/// Built from pieces, so that no scanner takes this file for a leak.
fn secrets() -> Vec<Secret> {
    let whole = |parts: &[&str]| {
        let typed = parts.concat();
        Secret {
            hidden: vec![typed.clone()],
            typed,
        }
    };
    let within = |before: &str, hidden: &str, after: &str| Secret {
        typed: format!("{before}{hidden}{after}"),
        hidden: vec![hidden.to_owned()],
    };
    let key_lines = [
        "MIIEowIBAAKCAQEA7bq0example0key",
        "QmFzZTY0bGluZXR3b29mdGhla2V5Cg",
    ];
    vec![
        whole(&["AKIA", "IOSFODNN7", "EXAMPLZ"]),
        whole(&["ghp", "_", "abcdefghijklmnopqrst", "uvwxyz0123456789"]),
        whole(&[
            "eyJhbGciOiJIUzI1NiJ9",
            ".",
            "eyJzdWIiOiIxMjM0NTY3ODkwIn0",
            ".",
            "dozjgNryP4J3jVmNHl0w5N",
        ]),
        Secret {
            typed: format!(
                "-----BEGIN RSA {0}-----\n{1}\n{2}\n-----END RSA {0}-----",
                ["PRIVATE", " KEY"].concat(),
                key_lines[0],
                key_lines[1]
            ),
            hidden: key_lines.map(str::to_owned).to_vec(),
        },
        within(
            "postgres://admin:",
            &["tr0ub4", "dor"].concat(),
            "@db.example/x",
        ),
        within("password=", &["hunter2", "hunter2"].concat(), ""),
    ]
}

/// Where a text can be typed and is kept. `@` is the text.
const KEPT: [&[&str]; 24] = [
    &[
        "missions",
        "create",
        "--objective=@",
        "--sortie=@",
        "--phase=@",
        "--sprint=@",
        "--",
        "@",
    ],
    &["missions", "pause", "--reason", "@"],
    &["missions", "start", "--reason", "@"],
    &["missions", "transition", "planning", "--reason", "@"],
    &[
        "sorties",
        "add",
        "--description",
        "@",
        "--resume-instructions",
        "@",
        "--",
        "@",
    ],
    &[
        "sorties",
        "add",
        "Data",
        "--input",
        "{\"deep\":[\"@json\"]}",
    ],
    &[
        "sorties",
        "update",
        "{Model}",
        "--note",
        "@",
        "--last",
        "@",
        "--next",
        "@",
        "--cursor-notes",
        "@",
    ],
    &[
        "sorties",
        "update",
        "{Model}",
        "--subtask",
        "one=complete:@",
        "--resume-instructions",
        "@",
    ],
    &["sorties", "error", "{Model}", "--message", "@"],
    &["sorties", "review", "{Done}", "--score", "9", "--note", "@"],
    &["sorties", "block", "{Model}", "--reason", "@"],
    &["sorties", "fail", "{Stuck}", "--reason", "@"],
    &["sorties", "approve", "{Done}", "--reason", "@"],
    &["note", "decision", "--why", "@", "--", "@"],
    &["note", "constraint", "--", "@"],
    &["note", "artifact", "--path", "README.md", "--", "@"],
    &[
        "mail",
        "send",
        "--to",
        "bob",
        "--subject",
        "@",
        "--body",
        "@",
    ],
    &["locks", "acquire", "src/z.rs", "--purpose", "@"],
    &["effect", "begin", "release", "--what", "@"],
    &["effect", "done", "release", "--result", "@"],
    &[
        "agents",
        "update",
        "--step",
        "@",
        "--next-step",
        "@",
        "--blocker",
        "@",
        "--recovery-instructions",
        "@",
        "--feature=@",
    ],
    &["agents", "register", "new", "--session=@", "--feature=@"],
    &["heartbeat", "--step", "@"],
    &["missions", "create", "Keyed", "--idempotency-key=@"],
];

/// Where a text can be typed and is refused.
const REFUSED: [&[&str]; 27] = [
    &["sorties", "show", "@"],
    &["missions", "use", "@"],
    &["mail", "read", "@"],
    &["agents", "show", "@"],
    &["agents", "register", "@"],
    &["--agent", "@", "note", "lesson", "X"],
    &["--mission", "@", "status"],
    &["mail", "send", "--to", "@", "--subject", "X"],
    &["locks", "acquire", "src/@"],
    &["locks", "acquire", "/etc/@"],
    &["effect", "begin", "@"],
    &["sorties", "list", "--status", "@"],
    &["sorties", "update", "{Model}", "--done", "@"],
    &["sorties", "update", "{Model}", "--subtask", "@"],
    &["missions", "list", "--limit", "@"],
    &["--color", "@", "status"],
    &["locks", "acquire", "src/y.rs", "--ttl", "@"],
    &["events", "list", "--since", "@"],
    &["status", "--@"],
    &["@"],
    &["status", "@"],
    &["config", "get", "@"],
    &["config", "set", "locks.ttl", "@"],
    &["schema", "@"],
    &["help", "@"],
    &["-C", "@", "status"],
    &["restore", "@", "-y"],
];

fn fill(arguments: &[&str], secret: &str) -> Vec<String> {
    let quoted = serde_json::to_string(secret).unwrap();
    let inside = quoted.trim_matches('"');
    let filled = arguments
        .iter()
        .map(|argument| argument.replace("@json", inside).replace('@', secret));
    filled
        .map(|argument| {
            if argument.starts_with("{M")
                || argument.starts_with("{D")
                || argument.starts_with("{S")
            {
                stage::named(&argument)
            } else {
                argument
            }
        })
        .collect()
}

fn check_streams(secret: &Secret, arguments: &[String], ran: &Ran) {
    for hidden in &secret.hidden {
        let seen = ran.stdout.contains(hidden) || ran.stderr.contains(hidden);
        assert!(!seen, "{arguments:?} shows it: {ran:?}");
    }
}

fn check_files(secret: &Secret, world: &World) {
    for (file, bytes) in world.all_bytes() {
        let text = String::from_utf8_lossy(&bytes);
        for hidden in &secret.hidden {
            assert!(!text.contains(hidden), "{hidden} is in {}", file.display());
        }
    }
}

/// Runs all of `commands` with each secret, once for people and once for programs.
fn check(commands: &[&[&str]], exits: fn(i32) -> bool) {
    for secret in secrets() {
        for json in [false, true] {
            let world = stage::world();
            for arguments in commands {
                let mut arguments = fill(arguments, &secret.typed);
                if json {
                    arguments.insert(0, "--json".to_owned());
                }
                let ran = world.command(&arguments).env("FLEET_AGENT", "ada").run();
                assert!(exits(ran.code), "{arguments:?}: {ran:?}");
                check_streams(&secret, &arguments, &ran);
            }
            // What shows everything shows none of it.
            for typed in [
                "log --limit 500",
                "events list --limit 500 --json",
                "status --json",
                "missions list",
                "notes list",
                "mail inbox --of bob --json",
                "config list",
            ] {
                let ran = world.ok(typed);
                check_streams(&secret, &[typed.to_owned()], &ran);
            }
            world.ok("backup after.db");
            check_files(&secret, &world);
        }
    }
}

#[test]
fn what_is_kept_is_kept_without_them() {
    check(&KEPT, |code| code == 0);
}

#[test]
fn what_is_refused_does_not_repeat_them() {
    check(&REFUSED, |code| matches!(code, 2 | 3));
}

#[test]
fn they_are_replaced_and_not_merely_dropped() {
    let world = World::new();
    let kinds = [
        "aws-key",
        "github-token",
        "jwt",
        "private-key",
        "url-password",
        "password",
    ];
    for (secret, kind) in secrets().iter().zip(kinds) {
        let title = format!("before {} after", secret.typed);
        let made = world
            .command(&["missions", "create", &title, "--json"])
            .run();
        let kept = made.json()["mission"]["title"].as_str().unwrap().to_owned();
        assert!(
            kept.starts_with("before ") && kept.ends_with(" after"),
            "{kept}"
        );
        assert!(kept.contains(&format!("[redacted:{kind}]")), "{kept}");
    }
}

#[test]
fn what_comes_from_stdin_and_the_environment_is_no_exception() {
    for secret in secrets() {
        let world = stage::world();
        let (typed, hidden) = (secret.typed.as_str(), &secret);
        let run = |line: &str, input: &str| {
            let ran = world
                .line(&stage::named(line))
                .agent("ada")
                .stdin(input)
                .run();
            check_streams(hidden, &[line.to_owned()], &ran);
            ran.code
        };
        assert_eq!(run("mail send --to bob --subject X --body -", typed), 0);
        assert_eq!(run("note lesson -", typed), 0);
        let request = serde_json::json!({ "kind": "lesson", "text": typed });
        assert_eq!(run("call add_note", &request.to_string()), 0);
        assert_eq!(
            run(
                "call claim_next",
                &serde_json::json!({ "lock": typed }).to_string()
            ),
            2
        );
        assert_eq!(run("call claim_next --json", typed), 2);
        for name in [
            "FLEET_AGENT",
            "FLEET_EPOCH",
            "FLEET_MISSION",
            "FLEET_LOCATION",
        ] {
            let ran = world.line("note lesson X").env(name, typed).run();
            assert_ne!(ran.code, 0, "{name}");
            check_streams(&secret, &[name.to_owned()], &ran);
        }
        for name in ["USER", "FLEET_SESSION"] {
            let ran = world
                .line("note lesson X")
                .env(name, typed)
                .agent("eve")
                .run();
            check_streams(&secret, &[name.to_owned()], &ran);
        }
        check_files(&secret, &world);
    }
}

#[test]
fn the_password_of_a_store_is_not_shown() {
    let world = World::new().local_only("it is about where the store is");
    let hidden = ["tr0ub4", "dor"].concat();
    let url = format!("postgres://admin:{hidden}@127.0.0.1:1/x");
    let set = world
        .command(&["config", "set", "location", &url, "--user"])
        .run();
    assert_eq!(
        set.text(),
        "location = postgres://admin:[redacted:url-password]@127.0.0.1:1/x (user)\n"
    );
    for typed in [
        "config list",
        "config get location",
        "config list --json",
        "status -v",
        "init",
        "init --json",
    ] {
        let ran = world.fleet(typed);
        assert!(!ran.text().contains(&hidden), "{typed}: {ran:?}");
    }
    // It is kept where only its owner reads, and works: the connection is tried with it.
    let file = world.home().join(".config/flightline/config.toml");
    assert_eq!(crate::cli::world::mode(&file), 0o600);
    assert!(std::fs::read_to_string(file).unwrap().contains(&hidden));
    assert_eq!(world.fleet("status").code, 7);
}

#[test]
fn a_broken_settings_file_is_not_quoted() {
    for secret in secrets() {
        let world = World::new();
        for wrong in [
            format!("x = \"{}\n", secret.typed),
            format!("[locks]\nttl = '''{}'''\n", secret.typed),
        ] {
            world.write(".flightline/config.toml", &wrong);
            for typed in ["status", "status --json"] {
                let ran = world.fleet(typed);
                assert_eq!(ran.code, 2, "{ran:?}");
                check_streams(&secret, &[typed.to_owned()], &ran);
            }
        }
    }
}
