//! A fleet at a server: whose token brings what, and what a repository cannot do with it.

use std::fs;

use flightline_testkit::Engine;
use serde_json::{Value, json};

use crate::running::Ran;
use crate::synced::{Far, token};
use crate::world::{World, mode};

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
    // An agent that was named is the same, whoever brings it.
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
