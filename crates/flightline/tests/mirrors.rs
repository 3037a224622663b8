//! The files of the other systems: taken in, given out, and kept up to date, on both engines.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::PathBuf;

use flightline::agent::{ShowAgent, UpdateAgent};
use flightline::core::agent::{AgentStatus, Role};
use flightline::core::dialect::{Dialect, Json};
use flightline::dialect::{ExportDocuments, ImportDocuments, Incoming, TakenIn};
use flightline::mirror::{Mirrors, Said, take_in, write_out};
use flightline_testkit::story::{Story, title};
use flightline_testkit::{both_engines, caller};

const FORMAT: &str = include_str!("../../flightline-core/tests/dialects/data/epic_format.json");
const FIRST: &str = include_str!("../../flightline-core/tests/dialects/data/epic_first.json");
const UPDATE: &str = include_str!("../../flightline-core/tests/dialects/data/epic_update.json");

fn import(story: &Story<'_>, dialect: Dialect, file: &str, text: &str) -> TakenIn {
    let request = ImportDocuments {
        dialect,
        documents: vec![Incoming {
            file: file.to_owned(),
            text: text.to_owned(),
            before: None,
        }],
        mission: None,
    };
    story.run("", &request).unwrap().remove(0)
}

fn export(story: &Story<'_>, dialect: Dialect) -> Vec<(String, String)> {
    let request = ExportDocuments {
        dialect,
        mission: None,
        since: None,
    };
    let given = story.run("", &request).unwrap();
    let documents = given.documents.into_iter();
    documents
        .map(|document| (document.file, document.text))
        .collect()
}

fn json(text: &str) -> Json {
    Json::parse(text).unwrap()
}

/// The mirror of one dialect, in the world's own folder.
struct Mirror<'s, 'w> {
    story: &'s Story<'w>,
    mirrors: Mirrors,
}

impl<'s, 'w> Mirror<'s, 'w> {
    fn new(story: &'s Story<'w>, dialect: Dialect) -> Self {
        let root = story.world.folder().join("work");
        Self {
            story,
            mirrors: Mirrors {
                state: root.join(".state"),
                root,
                dialects: vec![dialect],
            },
        }
    }

    /// What a command does: takes in, then writes out.
    fn pass(&self) -> Vec<Said> {
        self.story.with_fleet(|fleet| {
            let mut said = take_in(fleet, &self.mirrors, &caller("")).unwrap();
            said.extend(write_out(fleet, &self.mirrors, &caller("")).unwrap());
            said
        })
    }

    fn path(&self, file: &str) -> PathBuf {
        self.mirrors.root.join(file)
    }

    fn read(&self, file: &str) -> String {
        fs::read_to_string(self.path(file)).unwrap()
    }

    fn write(&self, file: &str, text: &str) {
        fs::create_dir_all(self.path(file).parent().unwrap()).unwrap();
        fs::write(self.path(file), text).unwrap();
    }

    fn files(&self, folder: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path(folder)) else {
            return Vec::new();
        };
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }
}

fn step(story: &Story<'_>, agent: &str, step: &str) {
    let update = UpdateAgent {
        step: Some(title(step)),
        ..UpdateAgent::default()
    };
    story.run(agent, &update).unwrap();
}

both_engines! {
    fn an_agents_document_comes_back_as_it_was(world: &World) {
        let story = Story::new(world);
        for (file, text) in [("primary.json", FORMAT), ("secondary_a.json", FIRST)] {
            assert!(import(&story, Dialect::Epic, file, text).changed);
            assert!(!import(&story, Dialect::Epic, file, text).changed, "twice is once");
        }
        let out = export(&story, Dialect::Epic);
        assert_eq!(out.iter().map(|(file, _)| file.as_str()).collect::<Vec<_>>(), ["primary.json", "secondary_a.json"]);
        assert_eq!((json(&out[0].1), json(&out[1].1)), (json(FORMAT), json(FIRST)));
        import(&story, Dialect::Epic, "secondary_a.json", UPDATE);
        assert_eq!(json(&export(&story, Dialect::Epic)[1].1), json(UPDATE));
    }

    fn what_is_done_here_goes_into_the_document_and_the_rest_stays(world: &World) {
        let story = Story::new(world);
        let strange = FIRST.replacen('{', r#"{ "colour": {"of": ["sky", 7.50]}, "#, 1);
        import(&story, Dialect::Epic, "secondary_a.json", &strange);
        step(&story, "Secondary-A", "Writing the spec");
        let out = json(&export(&story, Dialect::Epic)[0].1);
        assert_eq!(out.get("colour"), Some(&json(r#"{"of": ["sky", 7.50]}"#)));
        assert_eq!(out.get("current_step"), Some(&Json::from("Writing the spec")));
        let before = json(&strange);
        assert_eq!(out.get("feature"), before.get("feature"));
        assert_ne!(out.get("completed_steps"), before.get("completed_steps"), "the step before it is done");
    }

    fn a_bad_document_changes_nothing_and_takes_the_others_with_it(world: &World) {
        let story = Story::new(world);
        let before = story.rev();
        let incoming = |file: &str, text: &str| Incoming { file: file.to_owned(), text: text.to_owned(), before: None };
        let request = ImportDocuments {
            dialect: Dialect::Epic,
            documents: vec![incoming("a.json", FIRST), incoming("b.json", &FORMAT.replace("true", "\"yes\""))],
            mission: None,
        };
        let refusal = story.run("", &request).unwrap_err();
        assert_eq!(refusal.message, "cannot read `b.json`: expected true or false, found text at `$.can_resume`");
        assert_eq!(story.rev(), before);
    }

    fn secrets_in_a_document_are_not_kept(world: &World) {
        let story = Story::new(world);
        let secret = FIRST.replacen('{', r#"{ "api_key": "sk-ant-REDACTED", "#, 1);
        import(&story, Dialect::Epic, "secondary_a.json", &secret);
        assert!(!export(&story, Dialect::Epic)[0].1.contains("abcdefghijkl"));
        let all = story.events_after(0);
        assert!(!format!("{all:?}").contains("abcdefghijkl"));
    }

    fn the_mirror_follows_the_agent_and_keeps_ten_backups(world: &World) {
        let story = Story::new(world);
        let mirror = Mirror::new(&story, Dialect::Epic);
        story.register("Secondary-A", Role::Specialist);
        assert_eq!(mirror.pass(), []);
        for number in 1..=14 {
            story.pass_minutes(1);
            step(&story, "Secondary-A", &format!("Step {number}"));
            assert_eq!(mirror.pass(), []);
            let text = mirror.read("agent_checkpoints/secondary_a.json");
            assert_eq!(json(&text).get("current_step"), Some(&Json::from(format!("Step {number}").as_str())));
        }
        assert_eq!(mirror.files("agent_checkpoints/backups").len(), 10);
        let rev = story.rev();
        assert_eq!(mirror.pass(), []);
        assert_eq!(story.rev(), rev, "our own files are nobody's news");
    }

    fn what_an_agent_writes_itself_is_taken_in(world: &World) {
        let story = Story::new(world);
        let mirror = Mirror::new(&story, Dialect::Epic);
        mirror.write("agent_checkpoints/secondary_a.json", FIRST);
        let taken = Said::Done("took in agent_checkpoints/secondary_a.json, which somebody else wrote".to_owned());
        assert_eq!(mirror.pass(), std::slice::from_ref(&taken));
        step(&story, "Secondary-A", "By command");
        mirror.pass();
        // It changes one field in what it read; what was done here meanwhile stays.
        let text = mirror.read("agent_checkpoints/secondary_a.json");
        story.run("Secondary-A", &UpdateAgent { blockers: vec![title("No key")], ..UpdateAgent::default() }).unwrap();
        mirror.write("agent_checkpoints/secondary_a.json", &text.replace("\"IN_PROGRESS\"", "\"WAITING\""));
        assert_eq!(mirror.pass(), [taken]);
        let agent = story.run("", &ShowAgent { agent: Some("Secondary-A".to_owned()), sightings: Vec::new() }).unwrap().agent;
        assert_eq!((agent.status, agent.current_step, agent.blockers), (AgentStatus::Waiting, Some(title("By command")), vec![title("No key")]));
        let now = json(&mirror.read("agent_checkpoints/secondary_a.json"));
        assert_eq!(now.get("blockers"), Some(&json(r#"["No key"]"#)));
    }

    fn a_damaged_file_is_kept_beside_and_written_anew(world: &World) {
        let story = Story::new(world);
        let mirror = Mirror::new(&story, Dialect::Epic);
        story.register("Secondary-A", Role::Specialist);
        mirror.pass();
        let good = mirror.read("agent_checkpoints/secondary_a.json");
        for (number, bad) in ["", "{", "{\"agent_id\": 7}", "\u{0}"].iter().enumerate() {
            mirror.write("agent_checkpoints/secondary_a.json", bad);
            assert!(matches!(mirror.pass().as_slice(), [Said::Trouble(said)] if said.contains(".conflict")), "{bad}");
            assert_eq!(mirror.read("agent_checkpoints/secondary_a.json"), good);
            let conflicts = mirror.files("agent_checkpoints").into_iter().filter(|file| file.contains(".conflict"));
            assert_eq!(conflicts.count(), number + 1, "none is lost");
        }
        fs::remove_file(mirror.path("agent_checkpoints/secondary_a.json")).unwrap();
        mirror.pass();
        assert_eq!(mirror.read("agent_checkpoints/secondary_a.json"), good);
    }

    fn a_backup_serves_when_the_store_does_not_know_the_agent(world: &World) {
        let story = Story::new(world);
        let mirror = Mirror::new(&story, Dialect::Epic);
        mirror.write("agent_checkpoints/backups/secondary_a_20260115_143000.json", FIRST);
        mirror.write("agent_checkpoints/secondary_a.json", "{\"agent_id\"");
        let said = mirror.pass();
        assert_eq!(said.last(), Some(&Said::Done("agent_checkpoints/secondary_a.json is restored from agent_checkpoints/backups/secondary_a_20260115_143000.json".to_owned())));
        assert_eq!(json(&mirror.read("agent_checkpoints/secondary_a.json")), json(FIRST));
    }

    fn a_link_or_a_folder_in_a_files_place_is_left_alone(world: &World) {
        let story = Story::new(world);
        let mirror = Mirror::new(&story, Dialect::Epic);
        story.register("Secondary-A", Role::Specialist);
        mirror.pass();
        let path = mirror.path("agent_checkpoints/secondary_a.json");
        fs::remove_file(&path).unwrap();
        mirror.write("elsewhere.json", FIRST);
        std::os::unix::fs::symlink(mirror.path("elsewhere.json"), &path).unwrap();
        let said = mirror.pass();
        assert!(said.iter().all(|said| matches!(said, Said::Trouble(said) if said.contains("it is not a plain file"))), "{said:?}");
        assert_eq!(mirror.read("elsewhere.json"), FIRST);
    }

    fn two_agents_of_one_file_do_not_overwrite_each_other(world: &World) {
        let story = Story::new(world);
        let mirror = Mirror::new(&story, Dialect::Epic);
        story.register("A-B", Role::Specialist);
        story.register("a_b", Role::Specialist);
        assert!(matches!(mirror.pass().as_slice(), [Said::Trouble(said)] if said.contains("has no file of its own")));
        assert_eq!(json(&mirror.read("agent_checkpoints/a_b.json")).get("agent_id"), Some(&Json::from("A-B")));
    }
}
