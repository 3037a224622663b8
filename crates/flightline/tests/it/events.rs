//! The journal, on both engines: every change is one event, and everybody can follow.

use std::collections::BTreeMap;

use flightline::core::event::{Change, Event};
use flightline::event::EventList;
use flightline_testkit::prelude::*;

fn list(limit: u64) -> ListEvents {
    ListEvents {
        limit,
        ..ListEvents::default()
    }
}

fn kinds(events: &[Event]) -> Vec<&str> {
    events.iter().map(|event| event.kind.as_str()).collect()
}

/// Follows the journal from `cursor` to its end, `limit` events at a time.
fn follow(story: &Story<'_>, cursor: Cursor, limit: u64) -> (Vec<Event>, Cursor) {
    let (mut seen, mut cursor) = (Vec::new(), cursor);
    loop {
        let more = ListEvents {
            after: Some(cursor.clone()),
            ..list(limit)
        };
        let EventList {
            events,
            cursor: next,
            ..
        } = story.run("", &more).unwrap();
        let end = events.is_empty();
        seen.extend(events);
        cursor = next;
        if end {
            return (seen, cursor);
        }
    }
}

/// A little of everything happens.
fn busy(world: &World) -> Story<'_> {
    let story = Story::new(world);
    story.mission("Add login", &["User model", "Login endpoint"]);
    story.register("lead", Role::Dispatch);
    story.claim("ada", "User model").unwrap();
    story.lock("ada", &["src/a.rs", "src/b.rs"]).unwrap();
    story.send("ada", &["ada"], "To myself").unwrap();
    let update = UpdateSortie {
        sortie: story.sortie_id("User model"),
        subtasks: vec![subtask("part", SubtaskStatus::Complete)],
        files: vec![file("src/a.rs", FileChange::Modified)],
        ..UpdateSortie::default()
    };
    story.run("ada", &update).unwrap();

    story
        .change_keeping_locks("ada", "User model", DONE)
        .unwrap();
    story.run("ada", &release_all()).unwrap();
    story
}

fn state_at(story: &Story<'_>, rev: u64) -> Vec<StoredEvent> {
    story.look(|tx| tx.state_at(rev, None))
}

both_engines! {
    fn every_change_of_an_operation_is_one_event_in_one_step(world: &World) {
        let story = busy(world);
        let events = story.events_after(0);
        let revs: Vec<u64> = events.iter().map(|event| event.rev).collect();
        assert_eq!(revs, (1..=story.rev()).collect::<Vec<_>>(), "no gaps");
        let mut steps: BTreeMap<u64, Vec<&str>> = BTreeMap::new();
        for event in &events {
            steps.entry(event.step).or_default().push(&event.kind);
        }
        let steps: Vec<Vec<&str>> = steps.into_values().collect();
        assert_eq!(
            steps,
            [
                vec!["mission_created", "sortie_added", "sortie_added"],
                vec!["agent_registered"],
                vec!["agent_registered", "mission_started", "sortie_claimed"],
                vec!["lock_acquired", "lock_acquired"],
                vec!["message_sent", "message_queued"],
                vec![
                    "subtask_updated",
                    "file_modified",
                    "sortie_progress",
                    "message_sent",
                    "message_queued"
                ],
                vec![
                    "sortie_completed",
                    "milestone_reached",
                    "milestone_reached",
                    "fleet_checkpointed"
                ],
                vec!["lock_released", "lock_released"],
            ]
        );
        for event in &events {
            assert!(
                event.step <= event.rev
                    && events[usize::try_from(event.step).unwrap() - 1].step == event.step
            );
        }
    }

    fn an_operation_that_changes_nothing_leaves_no_event(world: &World) {
        let story = busy(world);
        let rev = story.rev();
        story.claim("ada", "User model").unwrap_err();
        story.send("ada", &["nobody"], "Lost").unwrap_err();
        story.beat("ada").unwrap();
        let _ = story.as_text();
        assert_eq!(story.rev(), rev);
    }

    fn the_state_is_the_fold_of_the_events(world: &World) {
        let story = busy(world);
        let last = story.rev();
        // Each step changes exactly the subjects that its events name, and nothing else.
        let events = story.events_after(0);
        let mut rev = 0;
        while rev < last {
            let step: Vec<&Event> = events.iter().filter(|event| event.step == rev + 1).collect();
            let next = step.last().unwrap().rev;
            let (before, after) = (state_at(&story, rev), state_at(&story, next));
            for value in &after {
                let named = step
                    .iter()
                    .any(|event| event.subject == value.id && event.subject_kind == value.kind);
                assert_eq!(!before.contains(value), named, "{} {} at {next}", value.kind, value.id);
            }
            let gone = step.iter().filter(|event| event.change == Change::Gone).count();
            let kept = before
                .iter()
                .filter(|value| {
                    after.iter().any(|now| now.id == value.id && now.kind == value.kind)
                })
                .count();
            assert_eq!(before.len() - kept, gone);
            assert_eq!(state_at(&story, next - 1), before, "a step is seen whole or not at all");
            rev = next;
        }
        assert!(story.damaged_values().is_empty());
    }

    fn events_say_who_did_what_to_which_thing(world: &World) {
        let story = Story::new(world);
        let mission = story.mission("Add login", &["User model"]).mission.id;
        story.claim("ada", "User model").unwrap();
        let events = story.events_after(0);
        let created = &events[0];
        assert_eq!(
            (created.actor.as_str(), created.epoch, created.subject_kind, created.change),
            ("user:tester", None, Kind::Mission, Change::Set)
        );
        assert_eq!(
            (created.mission_id, created.timestamp, &created.data["title"]),
            (Some(mission), world.clock.now(), &"Add login".into())
        );
        let claimed = events.last().unwrap();
        assert_eq!(
            (claimed.actor.as_str(), claimed.epoch, claimed.subject.as_str()),
            ("ada", Some(1), story.sortie_id("User model").as_str())
        );
        let json = serde_json::to_value(claimed).unwrap();
        assert_eq!(
            (&json["type"], &json["data"]["attempt"]),
            (&"sortie_claimed".into(), &1.into())
        );
    }

    fn events_are_listed_newest_first_and_filtered(world: &World) {
        let story = busy(world);
        let newest = story.run("", &list(2)).unwrap();
        assert_eq!(kinds(&newest.events), ["lock_released", "lock_released"]);
        assert_eq!(newest.events[0].rev, story.rev());
        let completed = ListEvents { kind: Some("sortie_completed".to_owned()), ..list(9) };
        assert_eq!(story.run("", &completed).unwrap().events.len(), 1);
        let about = ListEvents { subject: Some(story.sortie_id("User model")), ..list(9) };
        assert_eq!(
            kinds(&story.run("", &about).unwrap().events),
            ["sortie_completed", "sortie_progress", "sortie_claimed", "sortie_added"]
        );
        let other = story.mission("Another", &[]).mission.id.to_string();
        let of_mission = ListEvents { mission: Some(other[..12].to_owned()), ..list(9) };
        assert_eq!(kinds(&story.run("", &of_mission).unwrap().events), ["mission_created"]);
        assert_eq!(
            story
                .run("", &ListEvents { mission: Some("msn-ffff".to_owned()), ..list(9) })
                .unwrap_err()
                .code,
            Code::NotFound
        );
    }

    fn events_are_listed_since_a_time(world: &World) {
        let story = busy(world);
        story.pass_minutes(5);
        let since = Some(world.clock.now());
        story.run("ada", &lesson("late")).unwrap();
        assert_eq!(
            kinds(&story.run("", &ListEvents { since, ..list(9) }).unwrap().events),
            ["note_added"]
        );
    }

    fn a_cursor_follows_the_journal_without_gaps_or_repeats(world: &World) {
        let story = busy(world);
        let history = story.run("", &list(1)).unwrap().cursor.history;
        let all = story.events_after(0);
        for limit in [1, 3, 1_000] {
            let (seen, end) = follow(&story, Cursor { history: history.clone(), rev: 0 }, limit);
            assert_eq!(seen, all, "{limit} at a time");
            assert_eq!(end.rev, story.rev());
        }
        let here = story.run("", &list(1)).unwrap().cursor;
        story.lock("bob", &["c.rs"]).unwrap();
        let (news, _) = follow(&story, here, 10);
        assert_eq!(kinds(&news), ["agent_registered", "lock_acquired"]);
    }

    fn a_cursor_goes_on_past_events_that_are_filtered_out(world: &World) {
        let story = busy(world);
        let history = story.run("", &list(1)).unwrap().cursor.history;
        let locks = ListEvents {
            kind: Some("lock_acquired".to_owned()),
            after: Some(Cursor { history, rev: 0 }),
            ..list(1)
        };
        let first = story.run("", &locks).unwrap();
        assert_eq!(first.cursor.rev, first.events[0].rev, "there may be more");
        let second =
            story.run("", &ListEvents { after: Some(first.cursor), ..locks.clone() }).unwrap();
        let end = story.run("", &ListEvents { after: Some(second.cursor), ..locks }).unwrap();
        assert_eq!((end.events.len(), end.cursor.rev), (0, story.rev()));
    }

    fn a_cursor_of_another_history_is_refused(world: &World) {
        let story = busy(world);
        let here = story.run("", &list(1)).unwrap().cursor;
        let elsewhere = Cursor { history: "another".to_owned(), rev: 1 };
        let ahead = Cursor { rev: here.rev + 1, ..here.clone() };
        for wrong in [elsewhere, ahead] {
            let refused = story.run("", &ListEvents { after: Some(wrong), ..list(9) }).unwrap_err();
            assert_eq!(
                (refused.code, refused.message.as_str()),
                (Code::HistoryChanged, "the journal was replaced since you last looked")
            );
        }
        assert!(
            story.run("", &ListEvents { after: Some(here), ..list(9) }).unwrap().events.is_empty()
        );
    }
}
