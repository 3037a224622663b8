//! Whatever goes wrong, a hook ends in time and with exit code 0, says nothing that its client would trip over, and leaves everything whole.

use std::io::Write;
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use flightline_clients::Client;
use flightline_clients::setup;
use serde_json::{Value, json};

use crate::cli::hook_corpus::{left_open, recorded, takes};
use crate::cli::running::{Fleet, Ran};
use crate::cli::world::World;

/// A hook limits itself to 1.5 s. The rest is for a machine that is busy with other tests.
const ENOUGH: Duration = Duration::from_secs(20);

/// The client's name of a session's id.
const fn session_key(client: Client) -> &'static str {
    match client {
        Client::Opencode => "sessionID",
        Client::Cline => "taskId",
        Client::Copilot => "sessionId",
        Client::Cursor => "conversation_id",
        Client::Claude | Client::Codex | Client::Gemini => "session_id",
    }
}

/// The events that `fleet setup` connects, each with a payload: a recorded one where there is one.
fn events(client: Client, world: &World) -> Vec<(&'static str, Value)> {
    let recorded = recorded(client, world);
    let payload = |event: &str| {
        let known = recorded.iter().find(|(name, _)| name == event);
        match known {
            Some((_, text)) => serde_json::from_str(text).expect("JSON"),
            None => {
                json!({ session_key(client): "one", "cwd": world.repo(), "directory": world.repo() })
            }
        }
    };
    setup::hooks(client)
        .iter()
        .map(|hook| (hook.event, payload(hook.event)))
        .collect()
}

/// Runs hooks side by side, and checks that each ends well.
fn all_end_well<'w>(
    world: &'w World,
    client: Client,
    payloads: Vec<(&str, String)>,
    hinder: impl Fn(Fleet<'w>) -> Fleet<'w>,
) {
    let began = Instant::now();
    let running: Vec<_> = payloads
        .into_iter()
        .map(|(event, payload)| {
            let fleet = world.line(&format!("hook {client} {event}"));
            (event, hinder(fleet.stdin(payload)).spawn())
        })
        .collect();
    for (event, hook) in running {
        ended_well(client, event, &hook.wait());
    }
    assert!(began.elapsed() < ENOUGH, "{client}: {:?}", began.elapsed());
}

fn ended_well(client: Client, event: &str, ran: &Ran) {
    assert_eq!(ran.code, 0, "{client} {event}: {ran:?}");
    takes(client, event, ran.stdout.trim_end());
}

/// Nothing is broken, and the next hook works.
fn is_whole(world: &World) {
    world.ok("doctor");
    let payload = json!({
        "session_id": "afterwards", "cwd": world.repo(), "hook_event_name": "SessionStart",
        "source": "startup",
    });
    let ran = world
        .line("hook claude SessionStart")
        .stdin(payload.to_string())
        .run();
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{ran:?}");
    let agents = world.json("agents list --json").to_string();
    assert!(agents.contains("afterwards"), "{agents}");
}

#[test]
fn what_is_no_payload_does_no_harm() {
    let world = World::with_sorties(&["Model"]);
    for client in Client::ALL {
        let mut payloads = Vec::new();
        for (event, whole) in events(client, &world) {
            let text = whole.to_string();
            let half = text.char_indices().nth(text.chars().count() / 2);
            payloads.push((event, text[..half.expect("a middle").0].to_owned()));
            payloads.push((event, "{}".to_owned()));
            // Only the session is known.
            let bare = json!({ session_key(client): "one" });
            payloads.push((event, bare.to_string()));
            // Every field has a type that nobody expects.
            let mut odd = whole.clone();
            for (at, (_, value)) in odd
                .as_object_mut()
                .expect("an object")
                .iter_mut()
                .enumerate()
            {
                *value = [json!(null), json!(7), json!([[]]), json!({"a": 1})][at % 4].clone();
            }
            odd[session_key(client)] = json!("one");
            payloads.push((event, odd.to_string()));
            payloads.push(("NoSuchEvent", text));
        }
        for some in payloads.chunks(8) {
            all_end_well(&world, client, some.to_vec(), |fleet| fleet);
        }
    }
    is_whole(&world);
}

#[test]
fn ten_megabytes_are_read_or_left() {
    let world = World::with_sorties(&["Model"]);
    let long = "x".repeat(10_000_000);
    for client in Client::ALL {
        // What a person says, and what a tool answers.
        let (said, answered) = match client {
            Client::Claude | Client::Codex => ("UserPromptSubmit", "PostToolUse"),
            Client::Gemini => ("BeforeAgent", "AfterTool"),
            Client::Opencode => ("chat.message", "tool.execute.after"),
            Client::Copilot => ("userPromptSubmitted", "postToolUse"),
            Client::Cline => ("UserPromptSubmit", "PostToolUse"),
            Client::Cursor => ("beforeSubmitPrompt", "postToolUse"),
        };
        for (event, field) in [(said, "prompt"), (answered, "tool_response")] {
            let key = session_key(client);
            let text = format!("{{\"{key}\":\"one\",\"{field}\":\"{long}\"}}");
            all_end_well(&world, client, vec![(event, text)], |it| it);
        }
    }
    is_whole(&world);
}

#[test]
fn a_client_that_never_closes_the_pipe_is_not_waited_for() {
    let world = World::with_sorties(&["Model"]).local_only("the processes are started by hand");
    for client in Client::ALL {
        let began = Instant::now();
        let mut open = Vec::new();
        for (event, payload) in events(client, &world) {
            // Nothing comes, half of it, or all of it; then silence.
            for part in [0, 2, 1] {
                let text = payload.to_string();
                let end = text.len().checked_div(part).unwrap_or(0);
                let end = (0..=end).rev().find(|at| text.is_char_boundary(*at));
                let text = &text[..end.expect("a place")];
                let (child, stdin) = left_open(&world, client.as_str(), event, text);
                open.push((event, child, stdin));
            }
        }
        for (event, mut child, stdin) in open {
            assert!(child.wait().expect("it ends").success(), "{client} {event}");
            drop(stdin);
        }
        assert!(began.elapsed() < ENOUGH, "{client}: {:?}", began.elapsed());
    }
    is_whole(&world);
}

#[test]
fn a_store_that_cannot_be_written_is_left_alone() {
    let world = World::with_sorties(&["Model"]).local_only("no file may grow");
    for client in Client::ALL {
        for (event, payload) in events(client, &world) {
            // Root may write everywhere; no process may write past its limit.
            let mut shell = Command::new("sh");
            shell.args(["-c", "trap '' XFSZ; ulimit -f 0; exec \"$@\"", "sh"]);
            shell.args([env!("CARGO_BIN_EXE_fleet"), "hook", client.as_str(), event]);
            let ran = world.wrapped(shell).stdin(payload.to_string()).run();
            ended_well(client, event, &ran);
        }
    }
    assert_eq!(world.json("agents list --json"), json!([]));
    is_whole(&world);
}

#[test]
fn a_store_that_another_process_writes_is_not_waited_for() {
    let world = World::with_sorties(&["Model"]).local_only("another process holds the store");
    let mut holder = Command::new("sqlite3")
        .arg(world.database())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the `sqlite3` command, which `scripts/setup` installs");
    let mut typed = holder.stdin.take().expect("a pipe");
    writeln!(typed, "BEGIN IMMEDIATE;\nSELECT 'held';").expect("written");
    let mut said = [0; 4];
    let mut answers = holder.stdout.take().expect("a pipe");
    std::io::Read::read_exact(&mut answers, &mut said).expect("it holds the store");
    for client in Client::ALL {
        let payloads = events(client, &world);
        let payloads = payloads
            .into_iter()
            .map(|(event, payload)| (event, payload.to_string()));
        all_end_well(&world, client, payloads.collect(), |fleet| fleet);
    }
    writeln!(typed, "ROLLBACK;").expect("written");
    drop(typed);
    assert!(holder.wait().expect("it ends").success());
    assert_eq!(world.json("agents list --json"), json!([]));
    is_whole(&world);
}

#[test]
fn a_server_that_is_away_or_says_nothing_is_not_waited_for() {
    let world = World::with_sorties(&["Model"]).local_only("the server is none");
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let silent_url = format!("http://{}", silent.local_addr().expect("an address"));
    let token = format!(
        "fleet_{}_{}_{}",
        "0".repeat(32),
        "0".repeat(32),
        "a".repeat(64)
    );
    for client in Client::ALL {
        for url in ["http://127.0.0.1:1", &silent_url] {
            let payloads = events(client, &world);
            let payloads = payloads
                .into_iter()
                .map(|(event, payload)| (event, payload.to_string()));
            all_end_well(&world, client, payloads.collect(), |fleet| {
                fleet.env("FLEET_SERVER", url).env("FLEET_TOKEN", &token)
            });
        }
    }
    is_whole(&world);
}

#[test]
fn an_odd_clock_and_an_odd_environment_do_no_harm() {
    let world = World::with_sorties(&["Model"]).local_only("the clock is this machine's");
    for client in Client::ALL {
        for (name, value) in [
            ("FLEET_TEST_NOW", "0"),
            ("FLEET_TEST_NOW", "9999-12-30T00:00:00Z"),
            ("FLEET_EPOCH", "no number"),
            ("FLEET_LOCATION", "nosuch://place"),
            ("HOME", "relative/home"),
        ] {
            let payloads = events(client, &world);
            let payloads = payloads
                .into_iter()
                .map(|(event, payload)| (event, payload.to_string()));
            all_end_well(&world, client, payloads.collect(), |fleet| {
                fleet.env(name, value)
            });
        }
    }
}

#[test]
fn a_command_line_of_a_newer_setup_forbids_nothing() {
    let world = World::new();
    for line in [
        "hook",
        "hook claude",
        "hook claude PreToolUse --since 3",
        "hook claude PreToolUse more",
    ] {
        let ran = world.line(line).stdin("{}").run();
        assert_eq!((ran.code, ran.stdout.as_str()), (0, ""), "{line}: {ran:?}");
        assert!(ran.stderr.starts_with("warning: "), "{line}: {ran:?}");
    }
    assert_eq!(world.fleet("hook --help").code, 0);
}
