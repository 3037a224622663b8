//! Missions, on both engines.

use expect_test::expect;
use flightline::ids::{ListIds, ShortenIds};
use flightline_testkit::prelude::*;

fn move_to(story: &Story<'_>, to: MissionStatus) -> Result<MissionView, Refusal> {
    let change = ChangeMission {
        reason: Some(note("because")),
        ..change_mission(to)
    };
    story.run("", &change)
}

fn current(story: &Story<'_>, caller: &Caller) -> String {
    let show = ShowMission { mission: None };
    story
        .run_as(caller, &show)
        .unwrap()
        .mission
        .title
        .to_string()
}

fn choose(story: &Story<'_>, agent: &str, mission: &MissionView) -> Result<MissionView, Refusal> {
    let choice = UseMission {
        mission: mission.mission.id.to_string(),
    };
    story.run(agent, &choice)
}

fn listed(story: &Story<'_>, archived: bool) -> Vec<String> {
    let list = ListMissions {
        archived,
        limit: 10,
    };
    let shown = story.run("", &list).unwrap();
    shown
        .into_iter()
        .map(|mission| {
            let mark = if mission.current { "*" } else { " " };
            format!("{mark} {} {}", mission.title, mission.status)
        })
        .collect()
}

both_engines! {
    fn a_mission_is_begun_paused_taken_up_again_completed_and_archived(world: &World) {
        let story = Story::new(world);
        let created = story.mission("Add login", &[]).mission;
        assert_eq!(created.status, MissionStatus::Pending);
        assert_eq!((created.started_at, created.completed_at), (None, None));
        let begun = move_to(&story, MissionStatus::InProgress).unwrap().mission;
        assert_eq!(begun.started_at, Some(world.clock.now()));
        story.pass_minutes(1);
        let paused = move_to(&story, MissionStatus::Paused).unwrap().mission;
        assert_eq!(paused.reason, Some(note("because")));
        let resumed = move_to(&story, MissionStatus::InProgress).unwrap().mission;
        assert_eq!(resumed.started_at, begun.started_at, "it began once");
        let failed = move_to(&story, MissionStatus::Failed).unwrap().mission;
        assert_eq!(failed.completed_at, Some(world.clock.now()));
        let again = move_to(&story, MissionStatus::InProgress).unwrap().mission;
        assert_eq!(again.completed_at, None);
        move_to(&story, MissionStatus::Completed).unwrap();
        let shelved = move_to(&story, MissionStatus::Archived).unwrap().mission;
        assert_eq!(shelved.status, MissionStatus::Archived);
        assert!(story.damaged_values().is_empty());
    }

    fn an_illegal_move_is_refused_and_says_which_are_legal(world: &World) {
        let story = Story::new(world);
        story.mission("Add login", &[]);
        let refused = move_to(&story, MissionStatus::Completed).unwrap_err();
        assert_eq!(refused.code, Code::IllegalTransition);
        assert!(
            refused.message.ends_with("(\"Add login\") is pending and cannot become completed"),
            "{}",
            refused.message
        );
        assert_eq!(
            refused.hint.unwrap(),
            "from pending it may become: in_progress, failed, archived"
        );
        assert!(move_to(&story, MissionStatus::Pending).unwrap().already);
        assert_eq!(
            move_to(&story, MissionStatus::Paused).unwrap_err().code,
            Code::IllegalTransition
        );
        move_to(&story, MissionStatus::InProgress).unwrap();
        let (rev, twice) = (story.rev(), move_to(&story, MissionStatus::InProgress));
        assert_eq!((twice.unwrap().already, story.rev()), (true, rev));
        move_to(&story, MissionStatus::Completed).unwrap();
        let reopened = move_to(&story, MissionStatus::InProgress).unwrap_err();
        assert_eq!(reopened.hint.unwrap(), "from completed it may become: archived");
        let id = story.run("", &ShowMission { mission: None }).unwrap().mission.id.to_string();
        move_to(&story, MissionStatus::Archived).unwrap();
        let revive =
            ChangeMission { mission: Some(id), ..change_mission(MissionStatus::InProgress) };
        assert_eq!(
            story.run("", &revive).unwrap_err().hint.unwrap(),
            "from archived it may become: nothing"
        );
    }

    fn a_mission_with_unfinished_sorties_is_not_complete(world: &World) {
        let story = Story::new(world);
        story.mission("Add login", &["User model", "Login endpoint"]);
        story.claim("ada", "User model").unwrap();
        story.change("ada", "User model", DONE).unwrap();
        let refused = move_to(&story, MissionStatus::Completed).unwrap_err();
        assert_eq!(refused.code, Code::Unfinished);
        assert!(
            refused.message.contains("1 sortie is not completed, first"),
            "{}",
            refused.message
        );
        assert!(refused.message.ends_with("(\"Login endpoint\")"), "{}", refused.message);
        story.claim("ada", "Login endpoint").unwrap();
        story
            .change("ada", "Login endpoint", SortieAction::Fail { reason: note("no time") })
            .unwrap();
        assert_eq!(move_to(&story, MissionStatus::Completed).unwrap_err().code, Code::Unfinished);
        story.claim("bob", "Login endpoint").unwrap();
        story.change("bob", "Login endpoint", DONE).unwrap();
        let done = move_to(&story, MissionStatus::Completed).unwrap();
        assert_eq!((done.progress_percent, done.progress.completed), (100, 2));
        let rejected =
            story.change("", "User model", SortieAction::Reject { reason: note("wrong") });
        assert_eq!(rejected.unwrap_err().code, Code::IllegalTransition);
        expect![[r#"
            mission "Add login" completed 100%
              sortie "User model" completed ada
              sortie "Login endpoint" completed bob attempt 2
        "#]]
        .assert_eq(&story.as_text());
    }

    fn a_closed_or_paused_mission_takes_no_work(world: &World) {
        let story = Story::new(world);
        let view = story.mission("Add login", &["User model"]);
        move_to(&story, MissionStatus::InProgress).unwrap();
        move_to(&story, MissionStatus::Paused).unwrap();
        let refused = story.claim("ada", "User model").unwrap_err();
        assert_eq!(
            (refused.code, refused.message.as_str()),
            (Code::IllegalTransition, "the mission is paused")
        );
        move_to(&story, MissionStatus::Failed).unwrap();
        let add = AddSorties {
            mission: Some(view.mission.id.to_string()),
            ..add_sorties(vec![sortie("More")])
        };
        let refused = story.run("", &add).unwrap_err();
        assert_eq!(refused.message, "the mission is failed, so nothing can be added to it");
        assert_eq!(story.claim("ada", "User model").unwrap_err().code, Code::IllegalTransition);
        assert_eq!(choose(&story, "ada", &view).unwrap_err().code, Code::IllegalTransition);
    }

    fn progress_is_rounded_and_honest_at_the_end(world: &World) {
        let story = Story::new(world);
        story.mission("Add login", &["One", "Two", "Three"]);
        let mut seen = Vec::new();
        for _ in 0..3 {
            let claimed = story.claim_next("ada").unwrap();
            let done = story.change("ada", claimed.sortie.title.as_str(), DONE);
            seen.push(done.unwrap().mission_percent);
        }
        assert_eq!(seen, [33, 67, 100]);
    }

    fn what_flightline_does_by_itself_does_not_move_the_current_mission(world: &World) {
        let story = Story::new(world);
        story.mission("First", &["A"]);
        story.claim("ada", "A").unwrap();
        story.checkpoint();
        story.pass_minutes(10);
        story.mission("Second", &["B"]);
        story.settle();
        assert_eq!(story.events_of("checkpoint_created").len(), 1);
        assert_eq!(current(&story, &caller("")), "Second", "a file was written");
        assert_eq!(story.detect("", vec![]).len(), 1);
        assert_eq!(current(&story, &caller("")), "Second", "a silence was told");
    }

    fn the_current_mission_is_the_one_chosen_else_the_one_active_most_recently(world: &World) {
        let story = Story::new(world);
        let first = story.mission("First", &["A"]);
        let second = story.mission("Second", &["B"]);
        let (ada, bob) = (caller("ada"), caller("bob"));
        assert_eq!(current(&story, &ada), "Second", "the last one created was active last");
        story.claim("ada", "A").unwrap();
        assert_eq!(current(&story, &ada), "First", "work moves the current mission");
        choose(&story, "bob", &second).unwrap();
        assert_eq!(current(&story, &bob), "Second", "bob chose it");
        assert_eq!(current(&story, &ada), "First", "and only bob did");
        choose(&story, "", &second).unwrap();
        assert_eq!(
            current(&story, &ada),
            "Second",
            "what a person chose holds for those who chose nothing"
        );
        choose(&story, "ada", &first).unwrap();
        assert_eq!(
            (current(&story, &ada), current(&story, &caller(""))),
            ("First".to_owned(), "Second".to_owned())
        );
        let told = Caller { mission: Some(second.mission.id.to_string()), ..ada.clone() };
        assert_eq!(
            current(&story, &told),
            "Second",
            "what the caller says goes before what it chose"
        );
        let archive = ChangeMission {
            mission: Some(first.mission.id.to_string()),
            ..change_mission(MissionStatus::Archived)
        };
        story.run("", &archive).unwrap();
        assert_eq!(current(&story, &ada), "Second", "a choice ends with its mission");
    }

    fn finished_missions_are_current_only_when_there_is_nothing_else(world: &World) {
        let story = Story::new(world);
        let old = story.mission("Old", &[]);
        let new = story.mission("New", &[]);
        let fail = ChangeMission { mission: Some(new.mission.id.to_string()), ..change_mission(MissionStatus::Failed) };
        story.run("", &fail).unwrap();
        assert_eq!(current(&story, &caller("")), "Old", "open ones come first");
        let archive = ChangeMission { mission: Some(old.mission.id.to_string()), ..change_mission(MissionStatus::Archived) };
        story.run("", &archive).unwrap();
        assert_eq!(current(&story, &caller("")), "New");
    }

    fn an_archived_mission_is_hidden_and_kept(world: &World) {
        let story = Story::new(world);
        let first = story.mission("First", &[]);
        story.mission("Second", &[]);
        assert_eq!(listed(&story, false), ["* Second pending", "  First pending"]);
        let archive = ChangeMission {
            mission: Some(first.mission.id.to_string()),
            ..change_mission(MissionStatus::Archived)
        };
        story.run("", &archive).unwrap();
        assert_eq!(listed(&story, false), ["* Second pending"]);
        assert_eq!(listed(&story, true), ["* Second pending", "  First archived"]);
        let shown =
            story.run("", &ShowMission { mission: Some(first.mission.id.to_string()) }).unwrap();
        assert_eq!(shown.mission.title, title("First"));
        let limited = ListMissions { archived: true, limit: 1 };
        assert_eq!(story.run("", &limited).unwrap().len(), 1);
    }

    fn a_mission_is_found_by_any_unique_beginning_of_its_id(world: &World) {
        let story = Story::new(world);
        let whole = story.mission("First", &[]).mission.id.to_string();
        let show =
            |reference: &str| story.run("", &ShowMission { mission: Some(reference.to_owned()) });
        for reference in [&whole[..], &whole[..8], &whole[4..8], &whole[4..], &whole.to_uppercase()]
        {
            assert_eq!(show(reference).unwrap().mission.id.to_string(), whole, "{reference}");
        }
        for malformed in [
            "srt-4f1c09ab",
            "msn-xyz",
            "Login",
            "",
            "../etc",
            "msn-4f1c09ab-",
            "msn-\0",
            "日本語日本語",
        ] {
            let refused = show(malformed).unwrap_err();
            assert_eq!(
                refused.code,
                if malformed == "msn-4f1c09ab-" { Code::NotFound } else { Code::InvalidInput },
                "{malformed}"
            );
        }
        let short = show("4f1").unwrap_err();
        assert_eq!(short.message, "`4f1` is too short: give at least 4 characters of the id");
        let unknown = show("ffff").unwrap_err();
        assert_eq!(
            (unknown.code, unknown.message.as_str()),
            (Code::NotFound, "there is no mission `ffff`")
        );
    }

    fn an_ambiguous_beginning_lists_the_candidates(world: &World) {
        let story = Story::new(world);
        let ids: Vec<String> = (0..20)
            .map(|at| story.mission(&format!("Mission {at}"), &[]).mission.id.to_string())
            .collect();
        // More ids than digits: two begin alike.
        let begin = |digit: u32| format!("msn-{digit:x}");
        let alike = |with: &String| ids.iter().filter(|id| id.starts_with(with)).count() > 1;
        let shared = (0..16).map(begin).find(alike).unwrap();
        let refused = story.run("", &ShowMission { mission: Some(shared) }).unwrap_err();
        assert_eq!(refused.code, Code::AmbiguousId);
        let candidates = refused.details["candidates"].as_array().unwrap();
        assert!(
            candidates.len() > 1
                && candidates.iter().all(|id| ids.contains(&id.as_str().unwrap().to_owned()))
        );
        assert!(refused.message.contains("` could be msn-"), "{}", refused.message);
        assert_eq!(refused.hint.unwrap(), "use more characters");
    }

    fn candidates_that_begin_alike_are_told_so_that_each_can_be_typed(world: &World) {
        let story = Story::new(world);
        let twins = [0x1000_u128, 0x2000].map(|number| flightline_testkit::value::mission(number, "A twin"));
        for twin in &twins {
            let set = world.store().write(|tx| tx.set(EventType::MissionCreated, twin, &serde_json::json!({})));
            set.map_err(|error: flightline::store::StoreError| error).unwrap();
        }
        let show = |typed: &str| story.run("", &ShowMission { mission: Some(typed.to_owned()) });
        let refused = show("msn-00000000").unwrap_err();
        assert_eq!(refused.code, Code::AmbiguousId);
        let (_, told) = refused.message.split_once(" could be ").unwrap();
        let told: Vec<&str> = told.split(" or ").collect();
        assert_eq!(told.len(), 2, "{}", refused.message);
        for (typed, twin) in told.iter().zip(&twins) {
            assert_eq!(show(typed).unwrap().mission.id, twin.id, "{}", refused.message);
        }
    }

    fn ids_are_shortened_by_their_neighbours_to_what_names_only_them(world: &World) {
        let story = Story::new(world);
        let ids: Vec<String> = [0x1000_u128, 0x1001, 0x2000, 1 << 124]
            .iter()
            .map(|number| {
                let one = flightline_testkit::value::mission(*number, "One of several");
                let set = world.store().write(|tx| tx.set(EventType::MissionCreated, &one, &serde_json::json!({})));
                set.map_err(|error: flightline::store::StoreError| error).unwrap();
                one.id.to_string()
            })
            .collect();
        let gone = format!("{}8", &ids[3][..39]);
        let asked = [&ids[0], &ids[1], &ids[2], &ids[3], &gone, &ids[3][..12], &ids[0][..12], "msn-ffffffff", "xyz-00000000", "é"];
        let shorten = ShortenIds { ids: asked.into_iter().map(ToString::to_string).collect() };
        let short = story.run("", &shorten).unwrap().short;
        let of = |id: &str| short.get(id).map(String::as_str);
        assert_eq!(of(&ids[0]), Some(&*ids[0]));
        assert_eq!(of(&ids[1]), Some(&*ids[1]));
        assert_eq!(of(&ids[2]), Some(&ids[2][..37]));
        assert_eq!(of(&ids[3]), Some(&ids[3][..8]));
        assert_eq!(of(&ids[3][..12]), Some(&ids[3][..8]), "a beginning that fits one id means that");
        assert_eq!(of(&gone), Some(&*gone), "one that is gone must not be taken for its neighbour");
        assert_eq!(of(&ids[0][..12]), None, "a beginning that fits several means none");
        assert_eq!(short.len(), 6, "{short:?}");
        // Each of them names what it was made of.
        for id in &ids {
            let shown = story.run("", &ShowMission { mission: of(id).map(str::to_owned) }).unwrap();
            assert_eq!(shown.mission.id.to_string(), *id);
        }
        // More of them than one statement asks about: most of those there are, and a few of many.
        let many: Vec<String> = (0..140).map(|_| story.mission("One of many", &[]).mission.id.to_string()).collect();
        let all = story.run("", &ListIds { kinds: vec![Kind::Mission] }).unwrap().ids.remove(&Kind::Mission).unwrap();
        for asked in [&many[..70], &many[..32]] {
            let short = story.run("", &ShortenIds { ids: asked.iter().cloned().collect() }).unwrap().short;
            for id in asked {
                assert_eq!(short[id], flightline::core::id::shortest_unique(id, &all));
            }
        }
    }

    fn every_id_of_a_kind_is_listed_in_byte_order(world: &World) {
        let story = Story::new(world);
        let mut ids: Vec<String> =
            (0..9).map(|_| story.mission("One of many", &[]).mission.id.to_string()).collect();
        story.lock("ada", &["a.rs"]).unwrap();
        let list = ListIds { kinds: vec![Kind::Mission, Kind::Sortie, Kind::Lock] };
        let listed = story.run("", &list).unwrap().ids;
        ids.sort();
        assert_eq!(
            (&listed[&Kind::Mission], listed[&Kind::Sortie].len(), listed[&Kind::Lock].len()),
            (&ids, 0, 1)
        );
    }
}
