//! Agents' checkpoints, seed C's.

use std::fs;

use flightline::core::dialect::{Dialect, Json};
use flightline::dialect::{ImportDocuments, Incoming};
use flightline::mirror::MirrorNotice;
use flightline_testkit::prelude::*;

use super::{Mirror, export, import, json};

const FORMAT: &str =
    include_str!("../../../../flightline-core/tests/it/dialects/data/epic_format.json");
const FIRST: &str =
    include_str!("../../../../flightline-core/tests/it/dialects/data/epic_first.json");
const UPDATE: &str =
    include_str!("../../../../flightline-core/tests/it/dialects/data/epic_update.json");

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

    fn a_file_that_says_primary_gives_its_agent_no_authority(world: &World) {
        let story = Story::new(world);
        let taken = import(&story, Dialect::Epic, "primary.json", FORMAT);
        let primary = story.agent(&taken.name);
        assert_eq!((primary.role, primary.kind.as_ref().map(|kind| kind.as_str())), (Role::Specialist, Some("primary")));
        assert!(taken.warnings.iter().any(|said| said.contains("--role dispatch")), "{:?}", taken.warnings);
        // Somebody who may says so, and a file takes nothing of that back.
        story.register(&taken.name, Role::Dispatch);
        assert_eq!(story.agent(&taken.name).role, Role::Dispatch);
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

    fn a_bad_document_changes_nothing_and_keeps_no_other_out(world: &World) {
        let story = Story::new(world);
        let incoming = |file: &str, text: &str| Incoming { file: file.to_owned(), text: text.to_owned(), before: None , even_if_older: false};
        let request = ImportDocuments {
            dialect: Dialect::Epic,
            documents: vec![incoming("a.json", FIRST), incoming("b.json", &FORMAT.replace("true", "\"yes\""))],
            mission: None,
        };
        let taken = story.run("", &request).unwrap();
        assert_eq!((taken[0].changed, &taken[0].refused), (true, &None));
        let refused = taken[1].refused.as_ref().map(|refusal| refusal.message.as_str());
        assert_eq!(refused, Some("cannot read `b.json`: expected true or false, found text at `$.can_resume`"));
        assert_eq!(export(&story, Dialect::Epic).len(), 1, "nothing of the bad one is left");
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
        let taken = |what: &str| MirrorNotice::Done(format!("took in agent_checkpoints/secondary_a.json (Secondary-A): {what}"));
        assert_eq!(mirror.pass(), [taken("new")]);
        step(&story, "Secondary-A", "By command");
        mirror.pass();
        // It changes one field in what it read; what was done here meanwhile stays.
        let text = mirror.read("agent_checkpoints/secondary_a.json");
        story.run("Secondary-A", &UpdateAgent { blockers: vec![title("No key")], ..UpdateAgent::default() }).unwrap();
        mirror.write("agent_checkpoints/secondary_a.json", &text.replace("\"IN_PROGRESS\"", "\"WAITING\""));
        assert_eq!(mirror.pass(), [taken("status is \"WAITING\"")]);
        let agent = story.run("", &show_agent("Secondary-A")).unwrap().agent;
        assert_eq!((agent.status, agent.current_step, agent.blockers), (AgentStatus::Waiting, Some(title("By command")), vec![title("No key")]));
        let now = json(&mirror.read("agent_checkpoints/secondary_a.json"));
        assert_eq!(now.get("blockers"), Some(&json(r#"["No key"]"#)));
    }

    fn a_damaged_file_is_kept_beside_and_written_anew(world: &World) {
        let story = Story::new(world);
        let mirror = Mirror::new(&story, Dialect::Epic);
        story.register("Secondary-A", Role::Specialist);
        mirror.pass();
        // But for the mail that tells of it.
        let known = |mirror: &Mirror<'_, '_>| {
            let text = mirror.read("agent_checkpoints/secondary_a.json");
            text.split("\"coordination_state\"").next().unwrap().to_owned()
        };
        let good = known(&mirror);
        for (number, bad) in ["", "{", "{\"agent_id\": 7}", "\u{0}"].iter().enumerate() {
            mirror.write("agent_checkpoints/secondary_a.json", bad);
            // What is whole is judged at once.
            if Json::parse(bad).is_err() {
                mirror.settle();
            }
            assert!(matches!(mirror.pass().as_slice(), [MirrorNotice::Trouble(said)] if said.contains(".conflict")), "{bad}");
            assert_eq!(known(&mirror), good);
            let conflicts = mirror.files("agent_checkpoints").into_iter().filter(|file| file.contains(".conflict"));
            assert_eq!(conflicts.count(), number + 1, "none is lost");
        }
        fs::remove_file(mirror.path("agent_checkpoints/secondary_a.json")).unwrap();
        mirror.pass();
        assert_eq!(known(&mirror), good);
    }

    fn a_backup_serves_when_the_store_does_not_know_the_agent(world: &World) {
        let story = Story::new(world);
        let mirror = Mirror::new(&story, Dialect::Epic);
        mirror.write("agent_checkpoints/backups/secondary_a_20260115_143000.json", FIRST);
        mirror.write("agent_checkpoints/secondary_a.json", "{\"agent_id\"");
        mirror.settle();
        let said = mirror.pass();
        assert_eq!(said.last(), Some(&MirrorNotice::Done("agent_checkpoints/secondary_a.json is restored from agent_checkpoints/backups/secondary_a_20260115_143000.json".to_owned())));
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
        assert!(said.iter().all(|said| matches!(said, MirrorNotice::Trouble(said) if said.contains("is a link, and no link is followed"))), "{said:?}");
        assert_eq!(mirror.read("elsewhere.json"), FIRST);
    }

    fn two_agents_of_one_file_do_not_overwrite_each_other(world: &World) {
        let story = Story::new(world);
        let mirror = Mirror::new(&story, Dialect::Epic);
        story.register("A-B", Role::Specialist);
        story.register("a_b", Role::Specialist);
        assert!(matches!(mirror.pass().as_slice(), [MirrorNotice::Trouble(said)] if said.contains("has no file of its own")));
        assert_eq!(json(&mirror.read("agent_checkpoints/a_b.json")).get("agent_id"), Some(&Json::from("A-B")));
    }

    fn the_file_of_an_agent_that_ends_goes_into_the_archive(world: &World) {
        let story = Story::under(world, Preset::Epic.policy());
        let mirror = Mirror::new(&story, Dialect::Epic);
        for agent in ["Secondary-A", "Secondary-B", "Secondary-C"] {
            story.register(agent, Role::Specialist);
            step(&story, agent, "At work");
        }
        mirror.pass();
        let before = mirror.read("agent_checkpoints/secondary_a.json");
        story.pass_minutes(90);
        let over = TakeOver { from: "Secondary-A".to_owned(), to: name("Secondary-D"), session: None, force: true, sightings: Vec::new() };
        let taken = story.run("", &over).unwrap();
        story.run("", &RestartAgent { agent: "Secondary-B".to_owned(), force: true, sightings: Vec::new() }).unwrap();
        story.run("", &retire("Secondary-C")).unwrap();
        assert_eq!(mirror.pass(), []);
        let archived = mirror.files("agent_checkpoints/archive");
        assert_eq!(archived.len(), 3, "{archived:?}");
        for (file, word) in archived.iter().zip(["secondary_a_crashed_", "secondary_b_aborted_", "secondary_c_retired_"]) {
            assert!(file.starts_with(word), "{file}");
        }
        assert_eq!(mirror.read(&format!("agent_checkpoints/archive/{}", archived[0])), before);
        assert!(taken.handoff.text.contains(&archived[0]), "{}", taken.handoff.text);
        let there: Vec<String> = mirror.files("agent_checkpoints").into_iter().filter(|file| file.ends_with(".json")).collect();
        assert!(!there.contains(&"secondary_a.json".to_owned()) && !there.contains(&"secondary_c.json".to_owned()), "{there:?}");
        assert!(there.contains(&"secondary_d.json".to_owned()), "{there:?}");
        assert_eq!(mirror.pass(), []);
        assert_eq!(mirror.files("agent_checkpoints/archive"), archived, "once");
    }

    fn an_old_session_and_a_retired_agent_take_nothing_back(world: &World) {
        let story = Story::new(world);
        let mirror = Mirror::new(&story, Dialect::Epic);
        let file = "agent_checkpoints/secondary_a.json";
        let register = |session: &str| RegisterAgent { session: Some(title(session)), ..registration("Secondary-A") };
        story.run("", &register("one")).unwrap();
        mirror.pass();
        let of_one = mirror.read(file);
        story.run("", &register("two")).unwrap();
        mirror.pass();
        // The old session wakes, and writes what it knows.
        mirror.write(file, &of_one.replace("\"WAITING\"", "\"IN_PROGRESS\""));
        let said = mirror.pass();
        assert!(matches!(said.as_slice(), [MirrorNotice::Trouble(said)] if said.contains("is over")), "{said:?}");
        assert_eq!(json(&mirror.read(file)).get("session_id"), Some(&Json::from("two")));
        // A session that nobody had before is a new one.
        mirror.write(file, &mirror.read(file).replace("\"two\"", "\"three\""));
        assert!(matches!(mirror.pass().as_slice(), [MirrorNotice::Done(_)]));
        let agent = story.run("", &show_agent("Secondary-A")).unwrap().agent;
        assert_eq!((agent.epoch, agent.session_id), (3, Some(title("three"))));
        story.run("", &retire("Secondary-A")).unwrap();
        mirror.pass();
        mirror.write(file, &of_one);
        assert!(matches!(mirror.pass().as_slice(), [MirrorNotice::Trouble(said)] if said.contains("was retired")));
    }

    fn what_ended_stays_ended_for_every_writer(world: &World) {
        let story = Story::new(world);
        let mirror = Mirror::new(&story, Dialect::Epic);
        let file = "agent_checkpoints/secondary_a.json";
        mirror.write(file, FIRST);
        mirror.pass();
        let of_old = mirror.read(file);
        story.run("", &RestartAgent { agent: "Secondary-A".to_owned(), force: true, sightings: Vec::new() }).unwrap();
        mirror.pass();
        assert_eq!(mirror.files("agent_checkpoints/archive").len(), 1);
        // It wakes: what it said before is no news, and what it says now is refused.
        mirror.write(file, &of_old);
        assert_eq!(mirror.pass(), []);
        let new = of_old.replace("Reading S2.P1 guide", "Going on");
        for text in [new.clone(), new.replace("\"session_id\"", "\"was\"")] {
            mirror.write(file, &text);
            let said = mirror.pass();
            assert!(matches!(said.as_slice(), [MirrorNotice::Trouble(said)] if said.contains("is over")), "{said:?}");
        }
    }

    fn an_old_file_and_another_agents_archive_take_nothing_back(world: &World) {
        let story = Story::new(world);
        let mirror = Mirror::new(&story, Dialect::Epic);
        let file = "agent_checkpoints/secondary_a.json";
        story.register("Secondary-A", Role::Specialist);
        step(&story, "Secondary-A", "One");
        mirror.pass();
        let old = mirror.read(file);
        story.pass_minutes(5);
        step(&story, "Secondary-A", "Two");
        mirror.pass();
        mirror.write(file, &old);
        assert!(matches!(mirror.pass().as_slice(), [MirrorNotice::Trouble(said)] if said.contains("the store has newer data")));
        assert_eq!(json(&mirror.read(file)).get("current_step"), Some(&Json::from("Two")));
        // The seed's own archive stays where the seed put it, and means nothing.
        mirror.write("agent_checkpoints/secondary_a_crashed_1768489200.json", &old);
        assert_eq!(mirror.pass(), []);
        assert_eq!(mirror.read("agent_checkpoints/secondary_a_crashed_1768489200.json"), old);
    }

    fn one_that_cannot_be_kept_stops_no_other(world: &World) {
        let story = Story::new(world);
        let mirror = Mirror::new(&story, Dialect::Epic);
        let many: Vec<String> = (0..1_000).map(|n| format!("\"src/a/rather/long/path/to/a/file/number/{n}.rs\"")).collect();
        let large = FIRST.replace("\"files_modified\": []", &format!("\"files_modified\": [{}]", many.join(",")));
        assert_ne!(large, FIRST);
        mirror.write("agent_checkpoints/secondary_a.json", &large);
        mirror.write("agent_checkpoints/secondary_b.json", &FIRST.replace("Secondary-A", "Secondary-B"));
        // Two keys that are one when they are cleaned, and a name that leaves none for a file.
        mirror.write("agent_checkpoints/secondary_c.json", &FIRST.replace("Secondary-A", "Secondary-C").replacen('{', "{ \"x\": 1, \"x\\u0001\": 2,", 1));
        story.register("agent-", Role::Specialist);
        let said = mirror.pass();
        assert_eq!(said.iter().filter(|said| matches!(said, MirrorNotice::Trouble(_))).count(), 2, "{said:?}");
        assert_eq!(said.len(), 3, "{said:?}");
        assert!(story.run("", &show_agent("Secondary-B")).is_ok());
        assert_eq!(mirror.pass(), [], "and then there is peace");
    }

    fn nobody_takes_in_what_is_about_another(world: &World) {
        let story = Story::new(world);
        story.register("Secondary-A", Role::Specialist);
        story.register("bob", Role::Specialist);
        let request = ImportDocuments { dialect: Dialect::Epic, documents: vec![Incoming { file: "a.json".to_owned(), text: FIRST.to_owned(), before: None , even_if_older: false}], mission: None };
        assert_eq!(story.run("bob", &request).unwrap_err().code, Code::NotYours);
    }
}
