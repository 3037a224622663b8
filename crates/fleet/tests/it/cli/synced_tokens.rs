//! A fleet at a server: whose token brings what, and what a repository cannot do with it.

use std::fs;

use flightline_testkit::Engine;
use serde_json::{Value, json};

use crate::cli::far::{Far, token};
use crate::cli::running::Ran;
use crate::cli::world::{World, mode};

/// Two projects in one database, and the server of the first, which serves both.
fn two_projects() -> (Far, Far) {
    let ours = Far::on(Engine::Postgres, &["Ours"]);
    let mut theirs = Far::on(Engine::Postgres, &["Theirs"]);
    theirs.server = None;
    (ours, theirs)
}

fn with(far: &Far, token: &str, typed: &str) -> Ran {
    far.line(typed).env("FLEET_TOKEN", token).run()
}

fn waiting(far: &Far, token: &str) -> Value {
    let status = with(far, token, "status --json");
    assert_eq!(status.code, 0, "{status:?}");
    status.json()["synced"]["waiting"].clone()
}

#[test]
fn two_repositories_at_one_server_keep_to_their_projects() {
    let (ours, theirs) = two_projects();
    let laptop = World::empty().local_only("it talks to the server of another world");
    let at = |name: &str, typed: &str, input: &str| {
        let folder = laptop.home().join(name);
        fs::create_dir_all(&folder).unwrap();
        let mut words = vec!["-C", folder.to_str().unwrap()];
        words.extend(typed.split(' '));
        let line = laptop.command(&words).without("FLEET_TEST_NOW");
        let ran = line.without("FLEET_TEST_IDS").stdin(input).run();
        assert_eq!(ran.code, 0, "{name}, {typed}: {ran:?}");
        ran.stdout
    };
    let login = format!("login {}", ours.url);
    at("a", &login, &ours.token);
    at("b", &login, &theirs.token);
    assert!(at("a", "sorties list", "").contains("Ours"));
    assert!(at("b", "sorties list", "").contains("Theirs"));
    at("a", "note lesson for-us", "");
    assert_eq!(
        (ours.notes(), theirs.notes()),
        (vec!["for-us".to_owned()], vec![])
    );
    let file = laptop.home().join(".config/flightline/servers.toml");
    assert_eq!(mode(&file), 0o600);
    at("b", "logout", "");
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains(&ours.token) && !text.contains(&theirs.token));
    assert!(at("a", "sorties list", "").contains("Ours"));
    // As the first versions wrote it: one token for each server.
    let root = laptop.home().join("a").canonicalize().unwrap();
    let old = format!(
        "[servers.\"{0}\"]\ntoken = \"{1}\"\n[repositories]\n{root:?} = \"{0}\"\n",
        ours.url, ours.token
    );
    fs::write(&file, old).unwrap();
    assert!(at("a", "sorties list", "").contains("Ours"));
    assert!(at("a", "logout", "").contains("its token is forgotten"));
    assert!(!fs::read_to_string(&file).unwrap().contains(&ours.token));
}

#[test]
fn what_waits_for_one_project_is_never_brought_to_another() {
    let (mut ours, theirs) = two_projects();
    ours.go_down();
    for agent in ["", "ada"] {
        let queued = ours
            .line("note lesson ours")
            .env("FLEET_AGENT", agent)
            .run();
        assert_eq!(queued.code, 0, "{queued:?}");
    }
    ours.come_back();
    let said = with(&ours, &theirs.token, "note lesson theirs");
    assert_eq!((said.code, said.stderr.as_str()), (0, ""), "{said:?}");
    let held = waiting(&ours, &theirs.token);
    let held: Vec<&Value> = held
        .as_array()
        .unwrap()
        .iter()
        .map(|of| &of["for_other_token"])
        .collect();
    assert_eq!(held, [1, 1]);
    let shown = with(&ours, &theirs.token, "status").stdout;
    assert!(
        shown.contains("on this machine only; 1 for another token"),
        "{shown}"
    );
    assert_eq!(
        (ours.notes().len(), theirs.notes()),
        (0, vec!["theirs".to_owned()])
    );
    assert_eq!(waiting(&ours, &ours.token), json!([]));
    assert_eq!(ours.notes(), ["ours", "ours"]);
}

#[test]
fn what_somebody_said_is_not_brought_as_somebody_elses() {
    let mut far = Far::new(&[]);
    let linus = token(&far.world, "linus --scope admin");
    let agent = token(&far.world, "worker --scope agent --as-agent ada");
    far.go_down();
    // By its token this is an agent: with another it would be a person.
    assert_eq!(with(&far, &agent, "note lesson from-ada").code, 0);
    assert_eq!(far.run("note lesson from-grace").code, 0);
    let named = far.line("note lesson from-bob").agent("bob").run();
    assert_eq!(named.code, 0, "{named:?}");
    for token in [&far.token, &agent] {
        let secret = token.rsplit('_').next().unwrap().as_bytes();
        for file in ["-@tok-", "bob@prj-"] {
            let kept = fs::read(far.spool(file)).unwrap();
            assert!(!kept.windows(secret.len()).any(|part| part == secret));
        }
    }
    far.come_back();
    // An agent that was named is the same from every caller.
    let held: u64 = waiting(&far, &linus)
        .as_array()
        .unwrap()
        .iter()
        .map(|of| of["for_other_token"].as_u64().unwrap())
        .sum();
    assert_eq!(held, 2);
    assert_eq!(far.notes(), ["from-bob"]);
    // Nor do they keep back what is new.
    assert_eq!(with(&far, &linus, "note lesson from-linus").code, 0);
    far.ok("status");
    assert_eq!(with(&far, &agent, "note list").code, 0);
    let notes = far.here("note list");
    let mut said: Vec<(String, String)> = notes
        .as_array()
        .unwrap()
        .iter()
        .map(|note| {
            (
                note["text"].as_str().unwrap().to_owned(),
                note["author"].as_str().unwrap().to_owned(),
            )
        })
        .collect();
    said.sort();
    let pairs = said
        .iter()
        .map(|(text, author)| (text.as_str(), author.as_str()));
    assert_eq!(
        pairs.collect::<Vec<_>>(),
        [
            ("from-ada", "ada"),
            ("from-bob", "bob"),
            ("from-grace", "user:grace"),
            ("from-linus", "user:linus"),
        ]
    );
}

fn revoke(far: &Far, name: &str) {
    let revoked = far
        .world
        .line(&format!("token revoke {name}"))
        .without("FLEET_TEST_NOW")
        .without("FLEET_TEST_IDS")
        .run();
    assert_eq!(revoked.code, 0, "{revoked:?}");
}

fn authors(far: &Far) -> Vec<(String, String)> {
    let text = |note: &Value, field: &str| note[field].as_str().unwrap().to_owned();
    let notes = far.here("note list");
    let notes = notes.as_array().unwrap().iter();
    let mut said: Vec<_> = notes
        .map(|note| (text(note, "text"), text(note, "author")))
        .collect();
    said.sort();
    said
}

#[test]
fn what_was_said_with_a_token_that_is_over_is_brought_with_a_new_one() {
    let mut far = Far::new(&[]);
    let linus = token(&far.world, "linus --scope admin");
    let worker = token(&far.world, "worker --scope agent --as-agent ada");
    far.go_down();
    assert_eq!(far.run("note lesson from-grace").code, 0);
    assert_eq!(with(&far, &worker, "note lesson from-ada").code, 0);
    far.come_back();
    // While it still opens, it waits for it; and it is said for which, and what to do.
    let shown = with(&far, &linus, "status").stdout;
    let id = waiting(&far, &linus)[0]["token_id"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(id.starts_with("tok-"), "{id}");
    assert!(
        shown.contains(
            "log in with that one, or with a new one after it has ended   → fleet login "
        ),
        "{shown}"
    );
    revoke(&far, "grace");
    revoke(&far, "worker");
    for token in [&far.token, &worker] {
        let refused = with(&far, token, "status");
        assert_ne!(refused.code, 0);
        assert!(
            refused.stderr.contains("this token was revoked"),
            "{refused:?}"
        );
        let wait = "2 requests wait on this machine: to deliver them, log in with a new token of the same project: `fleet login ";
        assert!(refused.stderr.contains(wait), "{refused:?}");
    }
    // A person speaks for a person, and nobody for an agent but the agent.
    let delivered = with(&far, &linus, "status");
    assert!(
        delivered
            .stderr
            .contains("delivered the queue of this machine: 1 request"),
        "{delivered:?}"
    );
    let held = waiting(&far, &linus);
    assert_eq!(
        (held.as_array().unwrap().len(), &held[0]["for_other_token"]),
        (1, &json!(1))
    );
    let again = token(&far.world, "worker-2 --scope agent --as-agent ada");
    assert_eq!(with(&far, &again, "note list").code, 0);
    assert_eq!(waiting(&far, &linus), json!([]));
    let said = |text: &str, author: &str| (text.to_owned(), author.to_owned());
    assert_eq!(
        authors(&far),
        [said("from-ada", "ada"), said("from-grace", "user:linus")]
    );
}

#[test]
fn what_was_done_before_its_token_was_over_is_not_done_again() {
    let mut far = Far::new(&[]);
    let linus = token(&far.world, "linus --scope admin");
    far.go_down();
    far.ok("note lesson once");
    let spool = far.spool("-@tok-");
    let kept = fs::read(&spool).unwrap();
    far.come_back();
    far.ok("status");
    // As if its answer had been lost.
    fs::write(&spool, kept).unwrap();
    revoke(&far, "grace");
    let delivered = with(&far, &linus, "status");
    assert!(
        delivered.stderr.contains("delivered the queue"),
        "{delivered:?}"
    );
    assert!(!spool.exists());
    let once = [("once".to_owned(), "user:grace".to_owned())];
    assert_eq!(authors(&far), once);
}

#[test]
fn a_repository_cannot_say_anything_with_the_users_token() {
    let mut far = Far::new(&["Model"]);
    far.go_down();
    assert_eq!(far.run("note lesson mine").code, 0);
    let spool = far.spool("-@tok-");
    let name = spool.file_name().unwrap().to_str().unwrap();
    let sound = fs::read_to_string(&spool).unwrap();
    let planted = far.world.write(
        &format!(".flightline/spool/{name}"),
        &sound.replace("mine", "planted"),
    );
    far.world.write(
        ".flightline/spool/-.jsonl",
        &sound.replace("mine", "planted"),
    );
    far.come_back();
    far.ok("note list");
    assert_eq!(far.notes(), ["mine"]);
    assert!(planted.exists());
    // Wherever it comes from: only what is ever kept is brought. It stays, and that is said.
    let mut entry: Value = serde_json::from_str(&sound).unwrap();
    entry["operation"] = json!("create_mission");
    entry["request"] = json!({ "title": "Planted" });
    for line in [entry.to_string(), sound.replace("\"v\":2", "\"v\":99")] {
        fs::write(&spool, &line).unwrap();
        let told = far.ok("missions list");
        assert!(
            told.stderr.contains("1 request waits on this machine: "),
            "{told:?}"
        );
        assert!(
            told.stderr
                .contains("was not written by this version of `fleet`"),
            "{told:?}"
        );
        assert!(!told.stdout.contains("Planted"), "{told:?}");
        assert_eq!(
            fs::read_to_string(&spool).unwrap().trim_end(),
            line.trim_end()
        );
        assert!(!spool.with_extension("damaged.jsonl").exists());
        assert_eq!(far.run("missions create Other").code, 6);
    }
    assert_eq!(far.notes(), ["mine"]);
}

#[test]
fn without_a_folder_of_ones_own_nothing_is_queued() {
    let mut far = Far::new(&[]);
    far.go_down();
    let refused = far.line("note lesson lost").without("HOME").run();
    let told = refused.refused(7);
    assert!(told.contains("set HOME, or XDG_STATE_HOME"), "{told}");
    // One of another place is used.
    let state = far.world.home().join("state");
    let queued = far
        .line("note lesson kept")
        .without("HOME")
        .env("XDG_STATE_HOME", &state)
        .run();
    assert_eq!(queued.code, 0, "{queued:?}");
    assert_eq!(mode(&state.join("flightline/spool")), 0o700);
    assert!(!far.world.repo().join(".flightline/spool").exists());
}

#[test]
fn what_comes_too_late_is_noted_however_long_its_key_is() {
    let mut far = Far::new(&["Model"]);
    far.ok("agents register ada");
    let key = "k".repeat(255);
    far.go_down();
    let line = far.line(&format!("note lesson late --idempotency-key {key}"));
    let queued = line.agent("ada").env("FLEET_EPOCH", "1").run();
    assert_eq!(queued.code, 0, "{queued:?}");
    let beside = far
        .world
        .line("agents register ada")
        .without("FLEET_TEST_NOW");
    assert_eq!(beside.without("FLEET_TEST_IDS").run().code, 0);
    far.come_back();
    let told = far.ok("status").stderr;
    assert!(told.contains("one came too late"), "{told}");
    let notes = far.here("note list --kind late");
    assert_eq!(notes.as_array().unwrap().len(), 1, "{notes}");
}
