//! Noticing that a mission needs recovery, on both engines: by silence or by proof, told once.

use std::time::Duration;

use flightline::core::liveness::Life;
use flightline_testkit::prelude::*;
use serde_json::json;

fn evidence(found: &[RecoveryCandidate]) -> Vec<&str> {
    found.iter().map(|one| one.evidence.as_str()).collect()
}

fn peek(story: &Story<'_>) -> Vec<RecoveryCandidate> {
    let peek = PeekCandidates {
        threshold_ms: None,
        sightings: vec![],
    };
    story.run("", &peek).unwrap()
}

fn inbox(story: &Story<'_>, agent: &str) -> Vec<(String, String)> {
    let mail = story.mailbox(agent).into_iter();
    mail.filter(|one| one.message.kind != MessageKind::Progress)
        .map(|one| {
            (
                one.message.subject.to_string(),
                one.message.body.map_or(String::new(), |it| it.to_string()),
            )
        })
        .collect()
}

fn ids(found: &[RecoveryCandidate]) -> Vec<MissionId> {
    found.iter().map(|one| one.mission_id).collect()
}

both_engines! {
    fn silence_of_more_than_five_minutes_makes_a_candidate(world: &World) {
        let story = at_endpoint(world);
        let checkpoint = story.checkpoints().pop().unwrap().id;
        story.pass_minutes(5);
        assert!(story.detect("", vec![]).is_empty(), "not a moment earlier");
        world.pass(Duration::from_millis(1));
        let found = story.detect("", vec![]);
        assert_eq!(evidence(&found), ["inactivity"]);
        let one = &found[0];
        assert_eq!((one.checkpoint_available, one.checkpoint_id, one.inactivity_duration_ms), (true, Some(checkpoint), 300_001));
        assert_eq!(one.last_activity_at, world.clock.now().minus(300_001));
        assert_eq!(one.agents.iter().map(|agent| (agent.name.as_str(), agent.life, agent.keeps)).collect::<Vec<_>>(), [("ada", Life::Quiet, true)]);
        assert_eq!(one.agents[0].sorties, [story.sortie_id("Endpoint")]);
    }

    fn the_threshold_can_be_chosen(world: &World) {
        let story = at_endpoint(world);
        story.pass_minutes(2);
        let sooner = Detect { threshold_ms: Some(60_000), sightings: vec![] };
        assert_eq!(story.run("", &sooner).unwrap().len(), 1);
        story.pass_minutes(30);
        let later = Detect { threshold_ms: Some(3_600_000), sightings: vec![] };
        assert!(story.run("", &later).unwrap().is_empty());
    }

    fn a_process_that_is_gone_is_proof_at_once(world: &World) {
        let story = at_endpoint(world);
        let found = story.detect("", story.seen(false, &["ada"]));
        assert_eq!(evidence(&found), ["process_gone"]);
        assert_eq!((found[0].agents[0].life, found[0].agents[0].keeps, found[0].agents[0].evidence.as_str()), (Life::Dead, false, "process 7 is gone"));
    }

    fn a_dead_agent_that_holds_nothing_proves_nothing(world: &World) {
        let story = at_endpoint(world);
        story.board("bob", Role::Specialist, 8);
        assert!(story.detect("", story.seen(false, &["bob"])).is_empty());
    }

    fn silence_is_no_evidence_while_a_process_of_the_mission_is_seen_running(world: &World) {
        let story = at_endpoint(world);
        for minutes in [6, 30, 600] {
            story.pass_minutes(minutes);
            assert!(story.detect("", story.seen(true, &["ada"])).is_empty(), "{minutes} more minutes of thinking");
        }
        assert_eq!(story.detect("", vec![]).len(), 1, "nobody looked");
        story.board("bob", Role::Specialist, 8);
        assert_eq!(story.detect("", story.seen(true, &["bob"])).len(), 1, "somebody else's process says nothing");
    }

    fn signs_of_life_and_acts_are_activity(world: &World) {
        let story = at_endpoint(world);
        story.pass_minutes(4);
        story.beat("ada").unwrap();
        story.pass_minutes(4);
        assert!(story.detect("", vec![]).is_empty(), "a heartbeat");
        story.run("ada", &UpdateSortie { sortie: story.sortie_id("Endpoint"), note: Some(note("half of it")), ..UpdateSortie::default() }).unwrap();
        story.pass_minutes(4);
        assert!(story.detect("", vec![]).is_empty(), "a report");
        story.pass_minutes(2);
        assert_eq!(story.detect("", vec![]).len(), 1);
    }

    fn what_flightline_does_itself_is_no_activity(world: &World) {
        let story = at_endpoint(world);
        story.pass_minutes(6);
        let silence = story.detect("", vec![])[0].last_activity_at;
        story.checkpoint();
        story.settle();
        story.resume("", vec![]).unwrap();
        story.run("", &brief_agent()).unwrap();
        let found = story.detect("", vec![]);
        assert_eq!((found.len(), found[0].last_activity_at), (1, silence));
    }

    fn a_rewind_of_a_large_mission_is_no_activity_either(world: &World) {
        let story = Story::new(world);
        let titles: Vec<String> = (1..=40).map(|number| format!("Part {number}")).collect();
        story.mission("Add login", &titles.iter().map(String::as_str).collect::<Vec<_>>());
        story.claim("ada", "Part 1").unwrap();
        let cut = story.checkpoint().id;
        let more = add_sorties((0..60).map(|number| sortie(&format!("More {number}"))).collect());
        story.run("ada", &more).unwrap();
        let act = world.clock.now();
        story.pass_minutes(31);
        let rewound = story.force_rewind(cut);
        assert_eq!(rewound.lost.len(), 60);
        let found = story.detect("", vec![]);
        assert_eq!(found[0].last_activity_at, act, "behind sixty events of our own");
        assert_eq!(rewound.recovery_context.last_action, "ada was working on \"Part 1\"");
    }

    fn a_silence_is_told_once(world: &World) {
        let story = at_endpoint(world);
        story.pass_minutes(6);
        let rev = story.rev();
        for _ in 0..3 {
            assert_eq!(story.detect("", vec![]).len(), 1, "it is still found");
            story.pass_minutes(10);
        }
        story.detect("", story.seen(false, &["ada"]));
        assert_eq!(story.events_of("context_compacted").len(), 1);
        assert_eq!(story.kinds_after(rev).iter().filter(|kind| *kind == "message_sent").count(), 1);
        story.beat("ada").unwrap();
        story.pass_minutes(6);
        story.detect("", vec![]);
        assert_eq!(story.events_of("context_compacted").len(), 2, "the next silence");
    }

    fn a_death_is_told_once_while_others_go_on_working(world: &World) {
        let story = at_endpoint(world);
        story.board("bob", Role::Specialist, 8);
        story.claim("bob", "Docs").unwrap();
        for _ in 0..3 {
            assert_eq!(evidence(&story.detect("", story.seen(false, &["ada"]))), ["process_gone"]);
            story.pass_minutes(1);
            story.beat("bob").unwrap();
        }
        assert_eq!(story.events_of("context_compacted").len(), 1);
        story.detect("", story.seen(false, &["ada", "bob"]));
        assert_eq!(story.events_of("context_compacted").len(), 2, "another death");
    }

    fn context_compacted_has_seed_as_fields(world: &World) {
        let story = at_endpoint(world);
        let checkpoint = story.checkpoint();
        story.pass_minutes(6);
        story.detect("", vec![]);
        let event = serde_json::to_value(&story.events_of("context_compacted")[0]).unwrap();
        assert_eq!((&event["type"], &event["timestamp"], &event["actor"]), (&json!("context_compacted"), &json!("2026-01-04T12:06:00.000Z"), &json!("flightline")));
        assert_eq!(event["data"], json!({
            "mission_id": checkpoint.mission_id, "last_activity_at": "2026-01-04T12:00:00.000Z", "inactivity_duration_ms": 360_000,
            "checkpoint_available": true, "checkpoint_id": checkpoint.id, "evidence": "inactivity",         }));
    }

    fn a_silent_mission_without_a_checkpoint_is_told_too(world: &World) {
        let story = Story::new(world);
        story.mission("Add login", &["Model"]);
        story.claim("ada", "Model").unwrap();
        story.pass_minutes(6);
        let found = story.detect("", vec![]);
        assert_eq!((found[0].checkpoint_available, found[0].checkpoint_id), (false, None));
        let told = story.events_of("context_compacted").pop().unwrap();
        assert_eq!(told.data["checkpoint_available"], false);
        assert_eq!(inbox(&story, "dispatch")[0].1, "Quiet for 6m, and there is no checkpoint to resume from.");
    }

    fn a_checkpoint_of_a_whole_mission_is_none_to_resume_from(world: &World) {
        let story = Story::new(world);
        story.mission("Add login", &["Model"]);
        story.finish("ada", &["Model"]);
        story.pass_minutes(6);
        let found = story.detect("", vec![]);
        assert_eq!((found.len(), found[0].checkpoint_available), (1, false), "progress was 100 %");
    }

    fn dispatch_gets_recovery_available(world: &World) {
        let story = Story::new(world);
        story.register("control", Role::Dispatch);
        let mission = story.run("control", &create_mission("Add login", vec![sortie("Model"), sortie("Docs")])).unwrap().mission;
        story.finish("ada", &["Model"]);
        story.pass_minutes(6);
        story.detect("", vec![]);
        let mail = inbox(&story, "control");
        assert_eq!(mail.len(), 1);
        assert_eq!(mail[0].0, "recovery_available: Add login");
        let (checkpoint, mission) = (story.checkpoints()[0].id.to_string(), mission.id.to_string());
        assert_eq!(mail[0].1, format!("Quiet for 6m. Found checkpoint {}. Resume with: fleet resume --mission {}", &checkpoint[..12], &mission[..12]));
    }

    fn a_title_as_long_as_may_be_fits_into_the_message(world: &World) {
        let story = Story::new(world);
        story.mission(&"ü".repeat(250), &["Model"]);
        story.claim("ada", "Model").unwrap();
        story.pass_minutes(6);
        assert_eq!(story.detect("", vec![]).len(), 1);
        assert!(inbox(&story, "dispatch")[0].0.starts_with("recovery_available: üü"));
    }

    fn dispatch_that_comes_back_finds_its_own_mission(world: &World) {
        let story = led(world, &["Model", "Docs"]);
        story.finish("ada", &["Model"]);
        let act = world.clock.now();
        story.pass_minutes(6);
        let found = story.detect("control", story.seen(true, &["control"]));
        assert_eq!(evidence(&found), ["inactivity"], "that it asks is no sign that it knows");
        story.board("control", Role::Dispatch, 4);
        let found = story.detect("control", vec![]);
        assert_eq!((found.len(), found[0].last_activity_at), (1, act), "nor that it came back");
        story.register("other", Role::Dispatch);
        assert!(story.detect("other", vec![]).is_empty(), "to others its coming back is activity");
    }

    fn only_missions_under_way_are_looked_at(world: &World) {
        let story = at_endpoint(world);
        story.mission("Not begun", &["Later"]);
        story.mission("Paused", &["Now"]);
        story.claim("bob", "Now").unwrap();
        let paused = story.all::<Mission>().pop().unwrap().id.to_string();
        story.run("", &ChangeMission { mission: Some(paused), ..change_mission(MissionStatus::Paused) }).unwrap();
        story.pass_minutes(60);
        let found = story.detect("", vec![]);
        assert_eq!(found.iter().map(|one| one.title.as_str()).collect::<Vec<_>>(), ["Add login"]);
    }

    fn looking_tells_nobody(world: &World) {
        let story = at_endpoint(world);
        story.pass_minutes(6);
        let rev = story.rev();
        assert_eq!(peek(&story).len(), 1);
        let status = story.run("", &show_status()).unwrap();
        assert_eq!(status.recovery.len(), 1);
        assert!(status.attention.iter().any(|it| it.what.contains("needs recovery")), "{:?}", status.attention);
        assert_eq!(story.rev(), rev);
    }

    fn how_much_came_after_the_checkpoint_is_counted(world: &World) {
        let story = at_endpoint(world);
        story.checkpoint();
        story.send("ada", &["ada"], "one").unwrap();
        story.pass_minutes(6);
        assert_eq!(peek(&story)[0].events_since, 1, "the message, and not how it is kept");
    }

    fn a_damaged_mission_hides_no_other_and_is_not_hidden(world: &World) {
        let story = at_endpoint(world);
        let first = story.all::<Mission>()[0].id;
        story.mission("Another", &["Elsewhere"]);
        story.claim("bob", "Elsewhere").unwrap();
        let second = story.all::<Mission>()[1].id;
        story.pass_minutes(6);
        damage::everywhere(world, Kind::Mission, &first.to_string(), 0);
        let found = story.detect("", vec![]);
        assert_eq!(ids(&found), [first, second]);
        assert_eq!(evidence(&found), ["damaged", "inactivity"]);
        assert_eq!(found[0].title, "Add login");
        assert_eq!(story.events_of("context_compacted").len(), 1, "of the sound one");
    }

    fn a_damaged_sortie_of_one_mission_hides_no_other_mission(world: &World) {
        let story = at_endpoint(world);
        story.mission("Another", &["Elsewhere"]);
        story.claim("bob", "Elsewhere").unwrap();
        story.pass_minutes(6);
        damage::everywhere(world, Kind::Sortie, &story.sortie_id("Endpoint"), 0);
        assert!(evidence(&story.detect("", vec![])).contains(&"inactivity"));
    }

    fn a_damaged_checkpoint_is_not_offered(world: &World) {
        let story = at_endpoint(world);
        let first = story.checkpoints()[0].id;
        story.send("ada", &["ada"], "one").unwrap();
        let second = story.checkpoint().id;
        damage::live(world, Kind::Checkpoint, &second.to_string());
        story.pass_minutes(6);
        assert_eq!(story.detect("", vec![])[0].checkpoint_id, Some(first));
        damage::live(world, Kind::Checkpoint, &first.to_string());
        assert_eq!(peek(&story)[0].checkpoint_id, None);
    }

    fn a_retired_agent_is_no_news(world: &World) {
        let story = at_endpoint(world);
        story.run("", &registration("eve")).unwrap();
        story.run("", &retire("eve")).unwrap();
        assert!(story.detect("", vec![]).is_empty());
    }
}
