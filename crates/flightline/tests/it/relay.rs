//! What becomes of checkpoints reaches the mailbox of the mission's dispatch, on both engines: in short,
//! once, without an answer, and without being part of the work.

use flightline::core::setting::NotifiedUpTo;
use flightline::mail::relay::relay;
use flightline_testkit::prelude::*;
use serde_json::json;

/// Control coordinates a mission of eight; ada works on it.
fn working(world: &World) -> Story<'_> {
    let sorties = [
        "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight",
    ];
    let story = led(world, &sorties);
    story.board("ada", Role::Specialist, 7);
    story.claim("ada", "One").unwrap();
    story
}

fn tell(story: &Story<'_>) {
    story
        .with_fleet(|fleet| relay(fleet, &caller("ada")))
        .unwrap();
}

fn told(story: &Story<'_>, agent: &str) -> Vec<MessageView> {
    let mut mail = story.run("", &peek_inbox(agent, 99)).unwrap();
    mail.retain(|view| view.message.kind == MessageKind::Event);
    mail
}

fn kinds(story: &Story<'_>, agent: &str) -> Vec<String> {
    let told = told(story, agent).into_iter();
    told.map(|view| view.message.event.unwrap().kind).collect()
}

fn open(story: &Story<'_>, who: &str) -> Vec<MessageView> {
    story.run(who, &open_inbox(99)).unwrap()
}

both_engines! {
    fn a_specialists_checkpoint_reaches_dispatch_with_seed_as_fields(world: &World) {
        let story = working(world);
        let taken = story.checkpoint_for("ada", Reason::Manual).unwrap();
        story.settle();
        story.pass_minutes(1);
        tell(&story);
        let told = told(&story, "control");
        let short = &taken.id.to_string()[..12];
        let subjects: Vec<&str> = told.iter().map(|view| view.message.subject.as_str()).collect();
        let places = if world.engine == flightline_testkit::Engine::Sqlite { "sqlite" } else { "postgres" };
        assert_eq!(subjects, [format!("ada takes checkpoint {short} at 0 % (manual)"), format!("flightline writes the file of {short}")]);
        let event = serde_json::to_value(&told[0].message.event).unwrap();
        assert_eq!(event, json!({
            "type": "fleet_checkpointed", "timestamp": "2026-01-04T12:00:00.000Z", "count": 1, "since": "2026-01-04T12:00:00.000Z",
            "data": {
                "checkpoint_id": taken.id, "mission_id": taken.mission_id, "trigger": "manual", "reason": "manual", "progress_percent": 0,
                "sortie_count": 8, "lock_count": 0, "message_count": 0,
            },
        }));
        assert_eq!((told[0].message.from.as_str(), told[0].message.mission_id), ("flightline", Some(taken.mission_id)));
        assert_eq!(told[1].message.event.as_ref().unwrap().data["storage_locations"], json!([places, "file"]));
    }

    fn what_dispatch_did_itself_it_is_not_told(world: &World) {
        let story = working(world);
        let taken = story.checkpoint_for("control", Reason::Manual).unwrap().id;
        story.mark("control", taken, CheckpointMark::Pin).unwrap();
        story.resume("control", vec![]).unwrap();
        tell(&story);
        assert_eq!(kinds(&story, "control"), [] as [&str; 0]);
        story.resume("ada", vec![]).unwrap();
        tell(&story);
        assert_eq!(kinds(&story, "control"), ["fleet_recovered"]);
    }

    fn everything_that_becomes_of_a_checkpoint_is_told(world: &World) {
        let story = working(world);
        let mut taken = Vec::new();
        for reason in [Reason::Manual, Reason::Shutdown, Reason::PreCompact, Reason::SessionEnd, Reason::TokenWarning, Reason::TokenCritical] {
            taken.push(story.checkpoint_for("ada", reason).unwrap().id);
        }
        story.mark("ada", taken[0], CheckpointMark::Pin).unwrap();
        story.mark("", taken[0], CheckpointMark::Unpin).unwrap();
        story.mark("ada", taken[1], CheckpointMark::Archive).unwrap();
        story.mark("ada", taken[2], CheckpointMark::Delete).unwrap();
        story.pass_minutes(60 * 24 * 8);
        let plan = story.run("", &PlanPrune::default()).unwrap();
        assert_eq!(plan.deleted, 1);
        story.run("", &ApplyPrune { plan: PlanPrune::default(), delete: plan.details.iter().map(|one| one.id).collect(), archive: Vec::new(), more: false }).unwrap();
        story.resume("", vec![]).unwrap();
        tell(&story);
        let mut found = kinds(&story, "control");
        found.sort();
        assert_eq!(found, ["checkpoint_archived", "checkpoint_deleted", "checkpoint_pinned", "checkpoint_pruned", "checkpoint_unpinned", "fleet_checkpointed", "fleet_recovered", "resume_fell_back"]);
        let subjects: Vec<String> = told(&story, "control").iter().map(|view| view.message.subject.to_string()).collect();
        assert!(subjects.contains(&format!("ada deletes {}", &taken[2].to_string()[..12])), "{subjects:?}");
    }

    fn a_context_that_is_found_lost_is_told_as_recovery_available_and_not_twice(world: &World) {
        let story = working(world);
        story.checkpoint_for("control", Reason::Manual).unwrap();
        story.pass_minutes(6);
        story.detect("", vec![]);
        tell(&story);
        assert_eq!(kinds(&story, "control"), [] as [&str; 0]);
        let mail: Vec<String> = story.all::<Message>().iter().map(|message| message.subject.to_string()).collect();
        assert_eq!(mail, ["recovery_available: Add login"]);
    }

    fn one_message_of_each_kind_grows_until_it_is_read(world: &World) {
        let story = working(world);
        for number in 0..4 {
            story.lock("ada", &[&format!("{number}.rs")]).unwrap();
            story.checkpoint_for("ada", Reason::Manual).unwrap();
            story.settle();
            tell(&story);
            story.pass_minutes(1);
        }
        let told_of = told(&story, "control");
        assert_eq!(told_of.len(), 2, "fleet_checkpointed and checkpoint_created");
        assert_eq!((told_of[0].message.event.as_ref().unwrap().count, told_of[0].message.event.as_ref().unwrap().since), (4, "2026-01-04T12:00:00Z".parse().unwrap()));
        assert!(told_of[0].message.subject.ends_with(" (the newest of 4)"), "{}", told_of[0].message.subject);
        let newest = story.checkpoints().pop().unwrap().id;
        assert_eq!(told_of[0].message.event.as_ref().unwrap().data["checkpoint_id"], json!(newest));
        open(&story, "control");
        story.lock("ada", &["last.rs"]).unwrap();
        story.checkpoint_for("ada", Reason::Manual).unwrap();
        tell(&story);
        let again = told(&story, "control");
        assert_eq!((again.len(), again[0].message.event.as_ref().unwrap().count), (1, 1), "what was read does not grow");
        assert_ne!(again[0].message.id, told_of[0].message.id);
    }

    fn who_has_read_it_is_done_with_it(world: &World) {
        let story = working(world);
        story.checkpoint_for("ada", Reason::Manual).unwrap();
        tell(&story);
        let show = show_agent("control");
        assert_eq!(story.run("", &show).unwrap().unread, 0, "nobody waits for an answer");
        assert!(story.run("control", &brief_agent()).unwrap().facts.mail.is_empty());
        let first = open(&story, "control");
        assert_eq!((first.len(), first[0].deliveries[0].state.as_str()), (1, "acknowledged"));
        assert!(open(&story, "control").is_empty());
        assert!(story.damaged_values().is_empty());
    }

    fn it_is_no_part_of_what_a_checkpoint_names(world: &World) {
        let story = working(world);
        let first = story.checkpoint_for("ada", Reason::Manual).unwrap();
        let sections = story.checkpoints().pop().unwrap().cut.sections;
        tell(&story);
        assert_eq!(story.checkpoint_for("ada", Reason::Manual).unwrap().id, first.id);
        open(&story, "control");
        assert_eq!(story.checkpoint_for("ada", Reason::Manual).unwrap().id, first.id, "nor when dispatch has read it");
        tell(&story);
        let other = story.checkpoint_for("ada", Reason::Shutdown).unwrap();
        assert_eq!((other.pending_messages.len(), first.pending_messages.len()), (0, 0));
        assert_eq!(story.checkpoints().pop().unwrap().cut.sections["sorties"], sections["sorties"]);
        assert_eq!(story.checkpoints().pop().unwrap().cut.sections.get("messages"), None);
        assert_eq!(story.checkpoints().len(), 2);
    }

    fn it_is_no_activity(world: &World) {
        let story = working(world);
        story.checkpoint_for("ada", Reason::Manual).unwrap();
        let act = world.clock.now();
        story.pass_minutes(6);
        assert_eq!(story.detect("", vec![]).len(), 1);
        story.mark("", story.checkpoints()[0].id, CheckpointMark::Pin).unwrap();
        tell(&story);
        let found = story.detect("", vec![]);
        assert_eq!((found.len(), found[0].last_activity_at), (1, act));
        assert_eq!(story.events_of("context_compacted").len(), 1);
    }

    fn nothing_is_written_when_there_is_nothing_to_tell(world: &World) {
        let story = working(world);
        tell(&story);
        let rev = story.rev();
        story.lock("ada", &["a.rs"]).unwrap();
        let (acted, before) = (story.rev(), rev);
        tell(&story);
        assert_eq!(story.rev(), acted, "after {before}");
        story.checkpoint_for("ada", Reason::Manual).unwrap();
        tell(&story);
        let rev = story.rev();
        tell(&story);
        assert_eq!(story.rev(), rev, "once told");
    }

    fn it_is_no_part_of_the_story(world: &World) {
        let story = working(world);
        story.checkpoint_for("ada", Reason::Manual).unwrap();
        tell(&story);
        let log = ListEvents { limit: 2, story: true, ..ListEvents::default() };
        let told: Vec<String> = story.run("", &log).unwrap().events.into_iter().map(|event| event.kind).collect();
        assert_eq!(told, ["fleet_checkpointed", "sortie_claimed"], "as many as were asked for");
        let whole = ListEvents { limit: 999, story: true, ..ListEvents::default() };
        assert!(story.run("", &whole).unwrap().events.iter().all(|event| !event.is_bookkeeping()));
    }

    fn the_next_caller_tells_what_was_left_untold(world: &World) {
        let story = working(world);
        story.checkpoint_for("ada", Reason::Manual).unwrap();
        drop(story);
        let other = Story::new(world);
        other.pass_minutes(30);
        tell(&other);
        assert_eq!(kinds(&other, "control"), ["fleet_checkpointed"]);
    }

    fn the_journal_is_not_read_from_its_beginning_each_time(world: &World) {
        let story = Story::unrehearsed(world);
        story.mission("Add login", &["One"]);
        story.register("ada", Role::Specialist);
        tell(&story);
        for number in 0..260 {
            story.lock("ada", &[&format!("{number}.rs")]).unwrap();
            story.send("ada", &["ada"], "Hello").unwrap();
        }
        tell(&story);
        let mark = story.with_fleet(|fleet| fleet.store().unwrap().read(|tx| tx.get::<NotifiedUpTo>(NotifiedUpTo::KEY))).unwrap().unwrap();
        assert!(mark.rev > 500, "{mark:?}");
        assert!(story.all::<Agent>().iter().all(|agent| agent.name.as_str() == "ada"), "and no mailbox was made for nothing");
    }

    fn a_damaged_mission_keeps_no_other_from_being_told(world: &World) {
        let story = working(world);
        story.checkpoint_for("ada", Reason::Manual).unwrap();
        story.run("control", &create_mission("Another", vec![sortie("Elsewhere")])).unwrap();
        let second = story.all::<Mission>()[1].id;
        story.claim("bob", "Elsewhere").unwrap();
        let take = TakeCheckpoint { mission: Some(second.to_string()), ..take_checkpoint() };
        story.run("bob", &take).unwrap();
        let first = story.with_fleet(|fleet| fleet.store().unwrap().read(|tx| tx.rows(Kind::Mission, Find::All))).unwrap().remove(0).id;
        damage::everywhere(world, Kind::Mission, &first, 0);
        tell(&story);
        let told = told(&story, "control");
        assert_eq!((told.len(), told[0].message.mission_id), (1, Some(second)));
    }
}
