//! A replica took the place of the database, and may lack what was acknowledged last: what both have goes on as if nothing
//! had happened, and what only the other had is refused for good. On PostgreSQL: a file has no replica.

use std::time::Duration;

use flightline::checkpoint::import::{ImportArrival, ImportCheckpoint};
use flightline::checkpoint::thin::thin;
use flightline::core::history::LEFT_OUT;
use flightline::event::EventList;
use flightline::metrics_snapshot::{Counted, ReadMetricsSnapshot};
use flightline::{IfUnchanged, Target};
use flightline_testkit::prelude::*;

fn world() -> World {
    World::new(Engine::Postgres)
}

fn after(story: &Story<'_>, place: &Cursor) -> Result<EventList, Refusal> {
    let list = ListEvents {
        after: Some(place.clone()),
        limit: 100,
        ..ListEvents::default()
    };
    story.run("", &list)
}

/// The database fails over, and the first write begins a history.
fn fail_over(world: &World, story: &Story<'_>) -> Cursor {
    let left = story.cursor();
    damage::fail_over(world);
    story.lock("dispatch", &["README.md"]).unwrap();
    left
}

#[test]
fn places_that_both_have_go_on_and_others_are_refused_for_good() {
    let world = world();
    let story = Story::new(&world);
    story.mission("Add login", &["Model"]);
    let early = story.cursor();
    story.claim("ada", "Model").unwrap();
    let left = fail_over(&world, &story);
    let now = story.cursor();
    assert!(now.history != left.history && now.rev > LEFT_OUT);
    // From before it, every event once.
    let (all, rest) = (story.events_after(0), after(&story, &early).unwrap());
    let missed: Vec<_> = all
        .iter()
        .filter(|event| event.rev > early.rev)
        .cloned()
        .collect();
    assert_eq!((rest.events, rest.cursor), (missed, now.clone()));
    let news = after(&story, &left).unwrap().events;
    assert_eq!(news[0].kind, "history_begun");
    assert!(!news[0].is_bookkeeping(), "it is part of the story");
    // One that was seen in the lost part: never data, however far the journal goes.
    let lost = Cursor {
        rev: left.rev + 2,
        ..left.clone()
    };
    for _ in 0..3 {
        let refused = after(&story, &lost).unwrap_err();
        assert_eq!(refused.code, Code::HistoryChanged);
        assert_eq!(
            refused.message,
            format!(
                "revision {} was lost when a replica replaced the database; revisions up to {} exist",
                lost.rev, left.rev
            )
        );
        // It says where to go on, and there it does.
        let from: Cursor = serde_json::from_value(refused.details["after"].clone()).unwrap();
        assert_eq!(
            after(&story, &from).unwrap().events[0].kind,
            "history_begun"
        );
        story.report("ada", "Model", "more");
    }
    // Nor is one that somebody put together of both.
    let mixed = Cursor {
        history: now.history,
        rev: lost.rev,
    };
    assert_eq!(
        after(&story, &mixed).unwrap_err().code,
        Code::HistoryChanged
    );
    assert!(
        story.damaged_values().is_empty(),
        "{:?}",
        story.damaged_values()
    );
}

#[test]
fn no_fence_and_no_epoch_of_the_lost_part_comes_again() {
    let world = world();
    let story = Story::new(&world);
    story.mission("Add login", &["Model"]);
    story.register("ada", flightline::core::agent::Role::Specialist);
    let kept = story.lock("ada", &["src/a.rs"]).unwrap()[0].lock.fence;
    fail_over(&world, &story);
    // Whatever the lost part handed out lies below.
    let fence = story.lock("bob", &["src/b.rs"]).unwrap()[0].lock.fence;
    assert!(fence > kept + LEFT_OUT);
    // Sessions go on in the epochs that they have.
    let acts = |agent: &str, epoch: u64| {
        let caller = Caller {
            epoch: Some(epoch),
            ..caller(agent)
        };
        story.run_as(&caller, &locks_on(&["src/a.rs"])).map(drop)
    };
    acts("ada", 1).unwrap();
    // What the lost part may have known as ada's second epoch is nobody's.
    let again = RegisterAgent {
        session: Some(title("another")),
        ..registration("ada")
    };
    let epoch = story.run("", &again).unwrap().agent.epoch;
    assert_eq!(epoch, 1_002);
    assert_eq!(acts("ada", 2).unwrap_err().code, Code::Fenced);
    acts("ada", epoch).unwrap();
    // One whose name is new here may have had it there; it comes in as before, and not as what it was.
    assert_eq!(acts("eve", 1).unwrap_err().code, Code::Fenced);
    let caller = Caller {
        session: Some("s".to_owned()),
        ..caller("eve")
    };
    story.run_as(&caller, &locks_on(&["src/e.rs"])).unwrap();
    assert_eq!(story.agent("eve").epoch, 1_002);
    assert!(story.damaged_values().is_empty());
}

#[test]
fn what_was_looked_at_before_it_can_still_be_changed() {
    let world = world();
    let story = Story::new(&world);
    let mission = story
        .mission("Add login", &["Model"])
        .mission
        .id
        .to_string();
    let about = |if_unchanged: IfUnchanged| Caller {
        target: Some(Target {
            kind: Kind::Mission,
            reference: mission.clone(),
            if_unchanged,
        }),
        ..caller("")
    };
    let show = ShowMission {
        mission: Some(mission.clone()),
    };
    let mut fleet = world.fleet();
    let shown = fleet
        .run_fully(&show, &about(IfUnchanged::NoCondition))
        .unwrap();
    let seen = shown.since.unwrap();
    fail_over(&world, &story);
    let rename = |text: &str| UpdateMission {
        mission: Some(mission.clone()),
        title: Some(title(text)),
        ..UpdateMission::default()
    };
    let lost = Cursor {
        rev: seen.rev + 1,
        ..seen.clone()
    };
    let refused = fleet.run(&rename("Lost"), &about(IfUnchanged::Since(vec![lost])));
    assert_eq!(refused.unwrap_err().into_refusal().code, Code::Changed);
    fleet
        .run(
            &rename("Found"),
            &about(IfUnchanged::Since(vec![seen.clone()])),
        )
        .unwrap();
    let late = fleet.run(&rename("Late"), &about(IfUnchanged::Since(vec![seen])));
    assert_eq!(late.unwrap_err().into_refusal().code, Code::Changed);
}

#[test]
fn what_was_left_out_is_passed_over() {
    let world = world();
    let story = Story::new(&world);
    story.mission("Add login", &["Model", "Docs"]);
    story.finish("ada", &["Docs"]);
    story.claim("ada", "Model").unwrap();
    let count = |after: Option<Counted>| story.run("", &ReadMetricsSnapshot { after }).unwrap();
    let counted = count(None).counted;
    story.checkpoint();
    fail_over(&world, &story);
    story.report("ada", "Model", "one");
    story.report("ada", "Model", "two");
    story.checkpoint();
    // Figures count both sides, and come to the end.
    let figures = count(Some(counted));
    assert_eq!(
        figures.happened.checkpoints.len(),
        1,
        "up to where it was left"
    );
    let rest = count(Some(figures.counted));
    assert_eq!(
        (rest.happened.checkpoints.len(), rest.counted.rev),
        (1, story.rev())
    );
    // So does thinning, however little it does at once.
    world.pass(Duration::from_secs(86_400));
    let (mut from, mut rounds) = (0, 0);
    loop {
        let some = PlanThinning {
            from,
            revisions: Some(20),
            older_than_ms: Some(0),
            ..PlanThinning::default()
        };
        from = story.run("", &some).unwrap().next;
        story
            .with_fleet(|fleet| thin(fleet, &caller(""), &some))
            .unwrap();
        rounds += 1;
        assert!(rounds < 50, "there is no end to it");
        if from == 0 {
            break;
        }
    }
    let thinned = |event: &flightline::core::event::Event| {
        event.change == flightline::core::event::Change::Thinned
    };
    assert!(story.events_after(LEFT_OUT).iter().any(thinned));
    assert!(
        story.damaged_values().is_empty(),
        "{:?}",
        story.damaged_values()
    );
}

#[test]
fn checkpoints_of_before_are_its_own() {
    let world = world();
    let story = Story::new(&world);
    story.mission("Add login", &["Model", "Docs"]);
    story.claim("ada", "Model").unwrap();
    let (lost, deleted) = (story.checkpoint(), {
        // The mailbox that this makes is replaced when its dispatch speaks.
        story.send("ada", &["dispatch"], "Half of it").unwrap();
        story.report("ada", "Model", "half");
        story.checkpoint()
    });
    story.settle();
    let document = story.whole(deleted.id);
    story.mark("", deleted.id, CheckpointMark::Delete).unwrap();
    fail_over(&world, &story);
    // A record that the store lost comes back from its file.
    for table in [
        "event WHERE subject",
        "subject WHERE id",
        "backup WHERE checkpoint",
    ] {
        let sql = format!(
            "DELETE FROM {table} = '{}' AND project = {{project}}",
            lost.id
        );
        assert!(damage::raw(&world, &sql) > 0, "{sql}");
    }
    let show = ShowCheckpoint {
        checkpoint: lost.id.to_string(),
    };
    let (shown, _) = story.serve(&show);
    assert_eq!(shown.unwrap().sorties, lost.sorties);
    // And one whose values are thinned away comes back as one of this journal.
    world.pass(Duration::from_secs(86_400));
    let all = PlanThinning {
        older_than_ms: Some(0),
        ..PlanThinning::default()
    };
    story.report("ada", "Model", "done");
    world.pass(Duration::from_secs(86_400));
    story
        .with_fleet(|fleet| thin(fleet, &caller(""), &all))
        .unwrap();
    let arrival = story
        .run("", &ImportCheckpoint { document })
        .unwrap()
        .arrival;
    assert_eq!(arrival, ImportArrival::Copied);
}
