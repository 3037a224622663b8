//! A fleet at a server: commands that do not care where it is, and what they do when it is not there.

use std::fs;

use expect_test::expect;
use flightline_testkit::Engine;
use serde_json::json;

use crate::cli::far::Far;
use crate::cli::lossy::Lossy;
use crate::cli::server::Server;
use crate::cli::world::{World, mode};

/// Runs one test with a store on each engine.
macro_rules! on_both_engines {
    (fn $name:ident($engine:ident) $body:block) => {
        mod $name {
            use super::*;

            fn body($engine: Engine) $body

            #[test]
            fn sqlite() {
                body(Engine::Sqlite);
            }

            #[test]
            fn postgres() {
                body(Engine::Postgres);
            }
        }
    };
}

/// `text` with the address of the server, which differs from run to run, named.
fn anonymous(far: &Far, text: &str) -> String {
    text.replace(&far.url, "URL")
}

on_both_engines! {
    fn commands_say_the_same_through_a_server(engine) {
        let far = Far::on(engine, &["Model", "Login"]);
        for typed in ["sorties list", "missions list", "locks list", "note list", "token list"] {
            let (there, here) = (far.run(typed), far.world.line(typed).without("FLEET_TEST_NOW").run());
            assert_eq!(there, here, "{typed}");
            assert_eq!((there.code, there.stderr.as_str()), (0, ""), "{typed}");
        }
        let claimed = far.line("sorties claim --next").agent("ada").run();
        assert_eq!(claimed.code, 0, "{claimed:?}");
        let sorties = far.here("sorties list");
        assert_eq!(sorties[0]["assigned_to"], "ada");
        let status = far.ok("status --json").json();
        assert_eq!(status["synced"]["server"], json!(far.url));
        assert_eq!(status["synced"]["waiting"], json!([]));
        let spoken = far.ok("status -v").stderr;
        assert_eq!(anonymous(&far, &spoken), "server at URL\n");
    }
}

#[test]
fn a_refusal_reads_as_it_would_here() {
    let far = Far::new(&["Model"]);
    for typed in [
        "sorties show srt-ffff",
        "sorties complete srt-ffff --agent ada",
        "missions start nothing",
        "locks acquire",
        "sorties claim --next",
        "note lesson x --idempotency-key \"\"",
    ] {
        let (there, here) = (far.run(typed), far.world.fleet(typed));
        assert_eq!(there, here, "{typed}");
        assert_ne!(there.code, 0, "{typed}");
    }
}

#[test]
fn a_server_that_is_not_there_is_named() {
    let world = World::new().local_only("it names a server that is not there");
    let nobody = world
        .line("sorties list")
        .env("FLEET_SERVER", "http://127.0.0.1:1")
        .env("FLEET_TOKEN", "fleet_x")
        .run();
    expect![[r#"
        error: the server at http://127.0.0.1:1 cannot be reached: connection refused

        hint: nothing was done: try again when it is reachable
    "#]]
    .assert_eq(nobody.refused(7));
    let both = world
        .line("status")
        .env("FLEET_SERVER", "http://127.0.0.1:1")
        .env("FLEET_LOCATION", "store")
        .run();
    expect![[r#"
        error: FLEET_SERVER and FLEET_LOCATION are both set, and a fleet is in one place

        hint: run `unset FLEET_SERVER` or `unset FLEET_LOCATION`
    "#]]
    .assert_eq(both.refused(2));
    let odd = world.fleet("status --server ftp://example.com");
    expect![[r#"
        error: `ftp://example.com` is not the address of a server: it begins with neither `https://` nor `http://`

        hint: give one such as `https://fleet.example.com` or `http://127.0.0.1:7878`
    "#]]
    .assert_eq(odd.refused(2));
    let tokenless = world.fleet("status --server http://127.0.0.1:1");
    expect![[r#"
        error: this repository has no token for http://127.0.0.1:1

        hint: log in with `fleet login http://127.0.0.1:1`, or set FLEET_TOKEN
    "#]]
    .assert_eq(tokenless.refused(1));
}

#[test]
fn what_works_on_the_store_itself_is_refused_elsewhere() {
    let far = Far::new(&[]);
    for typed in [
        "doctor",
        "doctor --fix",
        "backup x.db",
        "restore x.db -y",
        "serve",
        "init",
    ] {
        let told = far.run(typed);
        let told = anonymous(&far, told.refused(2));
        let expected = "error: this command works on the store itself, which is at URL";
        assert!(told.starts_with(expected), "{typed}: {told}");
    }
}

#[test]
fn versions_that_do_not_fit_are_said() {
    let mut far = Far::new(&[]);
    let newer = far.line("status").env("FLEET_TEST_API", "2").run();
    expect![[r#"
        error: this `fleet` (0.2.0, API 2) is newer than the server (0.2.0, API 1) understands

        hint: nothing was done; upgrade the server; or use `fleet` 0.2.0 here
    "#]]
    .assert_eq(newer.refused(6));
    let older = far.line("status").env("FLEET_TEST_API", "0").run();
    expect![[r#"
        error: this `fleet` (0.2.0, API 0) is older than the server (0.2.0, API 1) understands

        hint: nothing was done; upgrade `fleet` here to 0.2.0
    "#]]
    .assert_eq(older.refused(6));
    // A server of long ago, which does not know to refuse.
    far.go_down();
    let place = far.url.trim_start_matches("http://").to_owned();
    far.world
        .everywhere
        .push(("FLEET_TEST_API", "0".to_owned()));
    far.server = Some(Server::start_at(&far.world, &place, ""));
    let ancient = far.line("status").env("FLEET_TEST_API", "0").run();
    assert!(
        anonymous(&far, ancient.refused(6)).contains("the server at URL (0.2.0, API 0) is older"),
        "{ancient:?}"
    );
}

#[test]
fn who_comes_in_is_checked_and_remembered_for_this_repository_only() {
    let far = Far::new(&["Model"]);
    let laptop = World::empty().local_only("it talks to the server of another world");
    let login = |token: &str| {
        laptop
            .line(&format!("login {}", far.url))
            .stdin(token.to_owned())
            .run()
    };
    let wrong = login("fleet_nonsense");
    assert_eq!(wrong.code, 1, "{wrong:?}");
    let forged = format!("{}0", &far.token[..far.token.len() - 1]);
    let forged = if forged == far.token {
        far.token.replace('a', "b")
    } else {
        forged
    };
    assert_eq!(login(&forged).code, 1);
    assert_eq!(login("").code, 2);
    assert!(!laptop.home().join(".config").exists());
    let came_in = login(&format!("{}\n", far.token));
    assert_eq!(
        anonymous(&far, &came_in.text()),
        "This repository's fleet is at URL from now on\n"
    );
    let file = laptop.home().join(".config/flightline/servers.toml");
    assert_eq!(mode(&file), 0o600);
    assert!(fs::read_to_string(&file).unwrap().contains(&far.token));
    for (path, bytes) in laptop.all_bytes() {
        let secret = far.token.as_bytes();
        let found = bytes.windows(secret.len()).any(|part| part == secret);
        assert!(!found || path == file, "{}", path.display());
    }
    let plainly = |typed: &str| {
        let line = laptop.line(typed).without("FLEET_TEST_NOW");
        line.without("FLEET_TEST_IDS").run()
    };
    assert!(plainly("sorties list").stdout.contains("Model"));
    let below = laptop.line("sorties list").in_folder("src/deep").run();
    assert!(below.stdout.contains("Model"), "{below:?}");
    assert_eq!(plainly("note lesson \"from afar\"").code, 0);
    assert_eq!(far.notes(), ["from afar"]);
    // Another repository of the same person has nothing to do with it.
    let other = laptop.home().join("other");
    fs::create_dir(&other).unwrap();
    let elsewhere = laptop
        .command(&["-C", other.to_str().unwrap(), "status"])
        .run();
    assert_eq!(elsewhere.code, 3, "{elsewhere:?}");
    let left = plainly("logout");
    assert_eq!(
        anonymous(&far, &left.text()),
        "Logged out of URL: its token is forgotten\n"
    );
    assert!(!fs::read_to_string(&file).unwrap().contains(&far.token));
    assert_eq!(plainly("logout").code, 3);
    // Its state folder names no project: there is no fleet on this machine.
    assert_eq!(plainly("sorties list").code, 3);
}

#[test]
fn a_token_that_was_revoked_opens_nothing_and_that_is_said() {
    let far = Far::new(&[]);
    far.ok("token revoke grace");
    let refused = far.run("status");
    let told = anonymous(&far, refused.refused(1));
    assert!(
        told.contains("hint: log in with `fleet login URL`"),
        "{told}"
    );
}

on_both_engines! {
    fn what_is_said_while_the_server_is_away_is_delivered_in_order_and_once(engine) {
        let mut far = Far::on(engine, &["Model", "Login"]);
        let sortie = far.here("sorties list")[0]["id"].as_str().unwrap().to_owned();
        let ada = |far: &Far, typed: &str| far.line(typed).agent("ada").run();
        assert_eq!(ada(&far, &format!("sorties claim {sortie}")).code, 0);
        assert_eq!(ada(&far, "effect begin deploy").code, 0);
        far.go_down();
        let queued = ada(&far, &format!("sorties update {sortie} --note \"half of it\""));
        assert_eq!(queued.code, 0, "{queued:?}");
        assert_eq!(
            anonymous(&far, &queued.stdout),
            "Queued on this machine only: the server at URL cannot be reached: connection refused; \
             it is delivered by the next command that reaches it (1 request of ada waits)\n"
        );
        for (waiting, typed) in [
            (2, "note lesson \"first, with AKIAIOSFODNN7EXAMPLE\""),
            (3, "note lesson second"),
            (4, "effect done deploy --result fine"),
            (5, "checkpoint --note \"before lunch\""),
            (6, "agents update --step third"),
        ] {
            let queued = ada(&far, &format!("{typed} --json"));
            assert_eq!(queued.code, 0, "{queued:?}");
            let answer = queued.json();
            assert_eq!((&answer["queued"], &answer["waiting"]), (&json!(true), &json!(waiting)), "{answer}");
        }
        let dropped = ada(&far, "heartbeat");
        assert_eq!((dropped.code, dropped.stderr.as_str()), (0, ""), "{dropped:?}");
        assert!(dropped.stdout.contains("this heartbeat is dropped"), "{dropped:?}");
        for typed in [
            "locks acquire src/a.rs",
            "sorties claim --next",
            "resume",
            "effect begin again",
            "mail send --to bob --subject Hello",
            "status",
        ] {
            let refused = ada(&far, typed);
            let told = anonymous(&far, refused.refused(7));
            assert!(told.contains("6 requests wait on this machine to be delivered"), "{typed}: {told}");
        }
        let away = ada(&far, "status --json").json();
        let waiting = &away["error"]["details"]["waiting"][0];
        assert_eq!((&waiting["agent"], &waiting["count"]), (&json!("ada"), &json!(6)), "{away}");
        let spool = far.spool("ada@prj-");
        assert_eq!(mode(&spool), 0o600);
        assert_eq!(mode(spool.parent().unwrap()), 0o700);
        assert!(!fs::read_to_string(&spool).unwrap().contains("AKIAIOSFODNN7EXAMPLE"));
        far.come_back();
        // The next command brings them, before anything of its own.
        let third = ada(&far, "note lesson third");
        assert_eq!(third.code, 0, "{third:?}");
        assert_eq!(third.stderr, "delivered the queue of this machine: 6 requests\n");
        let notes = far.notes();
        assert_eq!(notes.len(), 3, "{notes:?}");
        assert!(notes[0].starts_with("first, with ") && notes[1..] == ["second", "third"], "{notes:?}");
        assert!(!spool.exists());
        assert_eq!(far.here("effect list")[0]["state"]["status"], "done");
        let shown = far.here(&format!("sorties show {sortie}"));
        assert!(shown.to_string().contains("half of it"), "{shown}");
        let checkpoint = far.here("checkpoints show @latest");
        let why = checkpoint["trigger_details"].as_str().unwrap();
        assert!(
            why.starts_with("before lunch (asked for at 20") && why.ends_with("could not be reached)"),
            "{why}"
        );
        // It holds what was said before it, and nothing after.
        assert_eq!(checkpoint["note"], "before lunch");
        let status = far.ok("status --json").json();
        assert_eq!(status["synced"]["waiting"], json!([]));
        assert_eq!(status["synced"]["last_delivery"]["delivered"], 6);
    }
}

on_both_engines! {
    fn what_comes_too_late_becomes_a_note_and_mail_to_dispatch(engine) {
        let mut far = Far::on(engine, &["Model"]);
        let sortie = far.here("sorties list")[0]["id"].as_str().unwrap().to_owned();
        let ada = |far: &Far, typed: &str| far.line(typed).agent("ada").env("FLEET_EPOCH", "1").run();
        assert_eq!(far.line("agents register ada").run().code, 0);
        assert_eq!(ada(&far, &format!("sorties claim {sortie}")).code, 0);
        far.go_down();
        assert_eq!(ada(&far, &format!("sorties update {sortie} --note \"nearly done\"")).code, 0);
        assert_eq!(ada(&far, "note decision \"use bcrypt\"").code, 0);
        // Somebody else has taken her place meanwhile, where the store is.
        let beside = far.world.line("agents register ada").without("FLEET_TEST_NOW");
        assert_eq!(beside.without("FLEET_TEST_IDS").run().code, 0);
        far.come_back();
        let status = far.ok("status");
        assert_eq!(
            status.stderr,
            "warning: delivered the queue of this machine: 2 requests; 2 came too late \
             (epoch 1 of ada is over: epoch 2 has taken its place), and are noted\n"
        );
        assert!(status.stdout.contains("Too late"), "{status:?}");
        let notes = far.here("note list --kind late");
        let told = |at: usize, field: &str| notes[at][field].as_str().unwrap_or_default().to_owned();
        assert_eq!(notes.as_array().unwrap().len(), 2, "{notes}");
        assert_eq!((told(0, "text"), told(0, "sortie_id")), ("nearly done".to_owned(), sortie));
        assert_eq!((told(1, "text"), told(1, "author")), ("use bcrypt".to_owned(), "ada".to_owned()));
        assert!(told(1, "rationale").contains("refused on delivery: epoch 1 of ada is over"), "{notes}");
        let mail = far.here("mail inbox --all --agent dispatch");
        let late = mail.to_string().matches("Too late from ada").count();
        assert!(late >= 2, "{mail}");
        // Nothing of it is said twice.
        let again = far.ok("status");
        assert_eq!(again.stderr, "");
        assert_eq!(far.here("note list --kind late").as_array().unwrap().len(), 2);
    }
}

on_both_engines! {
    fn a_client_that_dies_between_answer_and_removal_doubles_nothing(engine) {
        let mut far = Far::on(engine, &[]);
        far.go_down();
        for text in ["one", "two"] {
            let queued = far.line(&format!("note lesson {text}")).agent("ada").run();
            assert_eq!(queued.code, 0, "{queued:?}");
        }
        far.come_back();
        for moment in ["1", "2", "1", "3"] {
            let died = far.line("note list").agent("ada").env("FLEET_CRASH_AT", moment).run();
            assert_ne!(died.code, 0, "{moment}: {died:?}");
        }
        far.ok("note list");
        assert_eq!(far.notes(), ["one", "two"]);
    }
}

on_both_engines! {
    fn an_answer_that_is_lost_is_asked_for_again_and_done_once(engine) {
        let mut far = Far::on(engine, &[]);
        let lossy = Lossy::before(far.server.as_ref().unwrap().url.clone());
        far.url = lossy.url();
        lossy.lose(2);
        far.ok("note lesson one");
        assert_eq!(lossy.lost(), 2);
        assert_eq!(far.notes(), ["one"]);
        // The server dies after it has written, and before anybody hears of it.
        lossy.lose(1_000);
        let queued = far.line("note lesson two").env("FLEET_TEST_PATIENCE_MS", "300").run();
        assert_eq!(queued.code, 0, "{queued:?}");
        assert!(queued.stdout.starts_with("Queued on this machine only"), "{queued:?}");
        let unknown = far
            .line("mail send --to bob --subject Hello")
            .env("FLEET_TEST_PATIENCE_MS", "300")
            .run();
        assert_eq!(unknown.code, 7, "{unknown:?}");
        far.go_down();
        far.server = Some(Server::start(&far.world, ""));
        lossy.lead_to(far.server.as_ref().unwrap().url.clone());
        lossy.lose(0);
        far.ok("note lesson three");
        assert_eq!(far.notes(), ["one", "two", "three"]);
    }
}

#[test]
fn nothing_is_lost_of_a_queue_that_is_damaged_or_for_another_server() {
    let mut far = Far::new(&[]);
    far.go_down();
    assert_eq!(far.run("note lesson one").code, 0);
    let spool = far.spool("-@tok-");
    let sound = fs::read_to_string(&spool).unwrap();
    fs::write(&spool, format!("nonsense\n{sound}")).unwrap();
    far.come_back();
    let told = far.ok("note list").stderr;
    let aside = spool.with_extension("damaged.jsonl");
    assert!(told.contains("cannot be read, and are kept in"), "{told}");
    assert_eq!(fs::read_to_string(&aside).unwrap(), "nonsense\n");
    assert_eq!(far.notes(), ["one"]);
    assert!(far.ok("status").stdout.contains("Damaged"));
    // What was said to another server is for that one.
    fs::write(&spool, sound.replace(&far.url, "http://127.0.0.1:1")).unwrap();
    let told = far.ok("note list").stderr;
    assert!(
        told.contains("1 request waits on this machine for http://127.0.0.1:1"),
        "{told}"
    );
    let left = far.spool("-@tok-");
    assert_ne!(left, spool, "it has a queue of its own");
    // It keeps nobody from speaking to this one, and it is said how to bring it or drop it.
    far.ok("missions create Other");
    far.ok("note lesson two");
    assert_eq!(far.notes(), ["two"]);
    let status = far.ok("status").stdout;
    let how = "for http://127.0.0.1:1: deliver them there, or drop them with `rm HOME/";
    assert!(status.contains(how), "{status}");
    let name = left.file_name().unwrap().to_str().unwrap();
    assert!(status.contains(&format!("{name}`")), "{status}");
    fs::remove_file(&left).unwrap();
    let told = far.ok("note list").stderr;
    assert!(!told.contains("on this machine"), "{told}");
}

#[test]
fn a_queue_of_an_older_version_is_brought_before_anything_new() {
    let mut far = Far::new(&[]);
    far.go_down();
    assert_eq!(far.run("note lesson one").code, 0);
    // One queue was for all servers.
    let spool = far.spool("-@tok-");
    let name = spool.file_name().unwrap().to_str().unwrap().to_owned();
    let older = spool.with_file_name(format!("{}.jsonl", name.rsplit_once('@').unwrap().0));
    fs::rename(&spool, &older).unwrap();
    assert_eq!(far.run("note lesson two").code, 0);
    far.come_back();
    far.ok("note lesson three");
    assert_eq!(far.notes(), ["one", "two", "three"]);
    assert!(!older.exists() && !spool.exists());
}

/// The tests that no server comes between when all others run through one, by their reasons.
#[test]
fn what_is_only_tried_beside_the_store_is_little_and_says_why() {
    let mut reasons: Vec<String> = Vec::new();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/cli");
    for file in fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        if path.is_dir() {
            continue;
        }
        let text = fs::read_to_string(path).unwrap();
        let marked = text.split(".local_only(\"").skip(1);
        reasons.extend(marked.map(|rest| rest.split('"').next().unwrap().to_owned()));
    }
    reasons.sort();
    expect![[r#"
        `-v` names the store
        a server has a clock of its own
        a server has a clock of its own
        a server knows the user by the token
        a store is trusted where it is
        another process holds the store
        calls open the store themselves
        calls open the store themselves
        commands die at points of their own
        commands die at points of their own
        doctor works beside the store
        hints are the same wherever the store is
        hints are the same wherever the store is
        it changes the store's file
        it compares the bytes of the store
        it compares the bytes of the store
        it damages the store
        it damages the store
        it damages the store
        it damages the store
        it edits the store's settings
        it has a server of its own
        it has a server of its own
        it has a server of its own
        it has a server of its own
        it has a server of its own
        it is about files beside the store
        it is about files beside the store
        it is about folders of this machine
        it is about settings files
        it is about the store's files
        it is about where the store is
        it is about where the store is
        it is about where the store is
        it is about where the store is
        it looks at files beside the store
        it looks at the files of the store
        it names a server that is not there
        it removes the store's file
        it replaces the store's file
        it replaces the store's file
        it talks to the server of another world
        it talks to the server of another world
        it talks to the server of another world
        it talks to the server of another world
        it talks to the server of another world
        it talks to the server of another world
        it writes into the database
        its files are damaged, too
        its process is on this machine
        its process is on this machine
        its store is broken
        mirrors are files of this work tree
        no file may grow
        processes are looked at where they run
        the `git` of one command is replaced, and a server has its own
        the `git` of one command is replaced, and a server has its own
        the clock is the command's own
        the clock is this machine's
        the ids of the server's own acts would differ
        the processes are started by hand
        the program finds the store by itself
        the server is none
        the session is known by its process
        the session is known by its process
        the sessions are those of one machine
        the store is lost
        the store is lost
        they work on the store itself
        tokens are made where the store is
        trust is of this machine
        trust is of this machine
        trust is of this machine
    "#]]
    .assert_eq(&(reasons.join("\n") + "\n"));
}
