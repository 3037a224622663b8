//! Looking back on both engines: the state at any place, a checkpoint's briefing, recoveries by their ids; and
//! what only the routes of the server ask for.

use flightline::context::past::BriefCheckpoint;
use flightline::lock::held::StealHeldLock;
use flightline::mail::list::ListMessages;
use flightline::recovery::past::{ListRecoveries, UndoRecovery};
use flightline::replay::state::ShowState;
use flightline::{IfUnchanged, Target};
use flightline_testkit::prelude::*;

fn state(story: &Story<'_>, at: Option<&str>) -> Result<Vec<SortieStatus>, Code> {
    let request = ShowState {
        mission: None,
        at: at.map(str::to_owned),
    };
    let state = story.run("", &request).map_err(|refusal| refusal.code)?;
    Ok(state.sorties.iter().map(|sortie| sortie.status).collect())
}

fn about(kind: Kind, reference: &str, if_unchanged: IfUnchanged) -> Caller {
    Caller {
        target: Some(Target {
            kind,
            reference: reference.to_owned(),
            if_unchanged,
        }),
        ..caller("")
    }
}

fn undo(id: impl ToString, force: bool) -> UndoRecovery {
    UndoRecovery {
        recovery: id.to_string(),
        force,
        sightings: Vec::new(),
    }
}

both_engines! {
    fn the_state_at_a_revision_a_time_and_a_checkpoint(world: &World) {
        use SortieStatus::{Completed, InProgress, Pending};
        let story = Story::new(world);
        let view = story.mission("Add login", &["Model", "Endpoint"]);
        let created = story.cursor().rev;
        story.pass_minutes(1);
        story.claim("ada", "Model").unwrap();
        let checkpoint = story.checkpoint().id.to_string();
        story.pass_minutes(1);
        story.finish("ada", &["Model"]);

        assert_eq!(state(&story, None), Ok(vec![Completed, Pending]));
        assert_eq!(state(&story, Some(&checkpoint)), Ok(vec![InProgress, Pending]));
        assert_eq!(state(&story, Some(&created.to_string())), Ok(vec![Pending, Pending]));
        assert_eq!(state(&story, Some("2026-01-04T12:00:30Z")), Ok(vec![Pending, Pending]));
        assert_eq!(state(&story, Some("2026-01-04T13:01:30+01:00")), Ok(vec![InProgress, Pending]));
        // In the middle of the request that made it, the mission was not there.
        assert_eq!(state(&story, Some(&(created - 1).to_string())), Err(Code::NotFound));
        assert_eq!(state(&story, Some("2025-01-01T00:00:00Z")), Err(Code::NotFound));
        assert_eq!(state(&story, Some("999999")), Err(Code::NotFound));
        assert_eq!(state(&story, Some("yesterday")), Err(Code::InvalidInput));
        assert!(state(&story, Some("2200-01-01T00:00:00Z")).is_ok(), "to look is no harm");
        let since = ListEvents { since: Some(Time::LATEST.plus(1)), limit: 1, ..ListEvents::default() };
        assert!(story.run("", &since).unwrap().events.is_empty());
        let other = story.mission("Other", &["One"]);
        let wrong = ShowState { mission: Some(other.mission.id.to_string()), at: Some(checkpoint) };
        assert_eq!(story.run("", &wrong).unwrap_err().code, Code::InvalidInput);
        let first = ShowState { mission: Some(view.mission.id.to_string()), at: Some("0".to_owned()) };
        assert_eq!(story.run("", &first).unwrap_err().code, Code::NotFound);
    }

    fn an_older_value_in_the_place_of_a_lost_one_is_told(world: &World) {
        use SortieStatus::{Completed, InProgress, Pending};
        for damaged in ["UPDATE event SET subject = 'srt-x'", "UPDATE event SET subject_kind = 'sortiex'", "UPDATE event SET change = 'none'", "DELETE FROM event"] {
            let world = &World::new(world.engine);
            let story = Story::new(world);
            story.mission("Add login", &["Model", "Endpoint"]);
            story.claim("ada", "Model").unwrap();
            let claimed = story.events_of("sortie_claimed")[0].rev;
            story.claim("bob", "Endpoint").unwrap();
            let then = story.rev();
            story.finish("ada", &["Model"]);
            let show = |at: u64| story.run("", &ShowState { mission: None, at: Some(at.to_string()) }).unwrap();
            assert_eq!((state(&story, Some(&then.to_string())), show(then).lost), (Ok(vec![InProgress, InProgress]), vec![]));
            assert_eq!(damage::raw(world, &format!("{damaged} WHERE project = {{project}} AND rev = {claimed}")), 1);
            assert_eq!(state(&story, Some(&then.to_string())), Ok(vec![Pending, InProgress]), "{damaged}");
            assert_eq!(show(then).lost, [claimed], "{damaged}");
            assert!(show(claimed - 1).lost.is_empty(), "{damaged}");
            assert_eq!(state(&story, None), Ok(vec![Completed, InProgress]), "the last values are kept apart");
            let said = story.with_fleet(|fleet| {
                let store = fleet.store().unwrap();
                store.read(|tx| tx.state_at(then, None)).unwrap();
                store.take_losses()
            });
            assert!(said.iter().any(|loss| loss.to_string().contains(&format!("the event of revision {claimed} is damaged"))), "{said:?}");
        }
    }

    fn a_checkpoint_briefs_as_it_was_then(world: &World) {
        let story = Story::new(world);
        story.mission("Add login", &["Model", "Endpoint"]);
        story.board("ada", Role::Specialist, 7);
        story.claim("ada", "Model").unwrap();
        story.run("", &add_note(NoteKind::Decision, "tokens, not sessions")).unwrap();
        story.send("bob", &["ada"], "Look at this").unwrap();
        story.report("ada", "Model", "half of the model");
        let checkpoint = story.checkpoint().id.to_string();
        story.finish("ada", &["Model"]);
        story.run("", &add_note(NoteKind::Decision, "sessions after all")).unwrap();
        let request = |agent: Option<&str>, max_tokens| BriefCheckpoint {
            checkpoint: checkpoint.clone(),
            agent: agent.map(str::to_owned),
            max_tokens,
        };
        let hers = story.run("", &request(Some("ada"), None)).unwrap();
        assert_eq!(hers.facts.agent.as_ref().unwrap().name.as_str(), "ada");
        assert_eq!(hers.facts.sortie.as_ref().unwrap().status, SortieStatus::InProgress);
        for told in ["Add login", "half of the model", "tokens, not sessions", "Look at this"] {
            assert!(hers.text.contains(told), "{told}: {}", hers.text);
        }
        assert!(!hers.text.contains("sessions after all"), "{}", hers.text);
        let all = story.run("", &request(None, None)).unwrap();
        assert_eq!(all.facts.agent, None);
        assert!(all.text.contains("Endpoint"), "{}", all.text);
        let short = story.run("", &request(Some("ada"), Some(480))).unwrap();
        assert!(short.text.len() < hers.text.len());
        assert_eq!(story.run("", &request(Some("eve"), None)).unwrap_err().code, Code::NotFound);
        // Asking for it is no event.
        let rev = |story: &Story<'_>| story.run("", &ListEvents::default()).unwrap().cursor.rev;
        let before = rev(&story);
        story.run("", &request(Some("ada"), None)).unwrap();
        assert_eq!(rev(&story), before);
    }

    fn a_recovery_is_taken_back_by_its_id(world: &World) {
        let story = Story::new(world);
        story.mission("Add login", &["Model", "Endpoint"]);
        let first = story.checkpoint().id;
        story.finish("ada", &["Model"]);
        let second = story.checkpoint().id;
        story.force_rewind(first);
        story.force_rewind(second);
        let listed = story.run("", &ListRecoveries::default()).unwrap();
        assert_eq!(listed.len(), 2);
        assert!(listed.iter().all(|it| it.kind == RecoveryKind::Rewind));
        assert_eq!((listed[0].checkpoint_id, listed[1].checkpoint_id), (second, first));
        let code = |request: &UndoRecovery| story.run("", request).map(drop).map_err(|refusal| refusal.code);
        // What came after it would be lost with it.
        assert_eq!(code(&undo(listed[1].id, true)), Err(Code::IllegalTransition));
        assert_eq!(code(&undo("rcv-ffff", true)), Err(Code::NotFound));
        assert_eq!(code(&undo(listed[0].id, true)), Ok(()));
        assert_eq!(code(&undo(listed[0].id, true)), Err(Code::IllegalTransition));
        let done = story.run("", &ListRecoveries::default()).unwrap();
        let undone: Vec<_> = done.iter().filter(|it| it.undone_at.is_some()).map(|it| it.id).collect();
        assert_eq!(undone, [listed[0].id]);
        // Taking back is a rewind too, and can be taken back as such.
        assert_eq!(code(&undo(done[0].id, true)), Ok(()));
    }

    fn a_missions_record_is_changed_and_the_rest_stays(world: &World) {
        let story = Story::new(world);
        let id = story.mission("Add login", &["Model"]).mission.id.to_string();
        let request = UpdateMission {
            mission: Some(id.clone()),
            title: Some(title("Add logout")),
            sprint: Some(title("12")),
            ..UpdateMission::default()
        };
        let changed = story.run("", &request).unwrap().mission;
        assert_eq!((changed.title.as_str(), changed.sprint.as_deref()), ("Add logout", Some("12")));
        let nothing = UpdateMission { mission: Some(id.clone()), ..UpdateMission::default() };
        assert_eq!(story.run("", &nothing).unwrap().mission, changed);
        let unknown = UpdateMission { dispatch: Some("eve".to_owned()), ..request.clone() };
        assert_eq!(story.run("", &unknown).unwrap_err().code, Code::NotFound);
        for to in [MissionStatus::Failed, MissionStatus::Archived] {
            story.run("", &ChangeMission { mission: Some(id.clone()), ..change_mission(to) }).unwrap();
        }
        assert_eq!(story.run("", &request).unwrap_err().code, Code::IllegalTransition);
    }

    fn messages_are_listed_and_a_lock_is_taken_by_its_id(world: &World) {
        let story = Story::new(world);
        story.mission("Add login", &["Model"]);
        story.register("ada", Role::Specialist);
        story.register("bob", Role::Specialist);
        story.send("ada", &["bob"], "First").unwrap();
        story.send("bob", &["ada"], "Second").unwrap();
        story.send("", &["bob"], "Third").unwrap();
        let subjects = |agent: Option<&str>, limit| {
            let request = ListMessages { mission: None, agent: agent.map(str::to_owned), limit };
            let listed = story.run("", &request).unwrap();
            listed.iter().map(|view| view.message.subject.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(subjects(None, 9), ["Third", "Second", "First"]);
        assert_eq!(subjects(Some("ada"), 9), ["Second", "First"]);
        assert_eq!(subjects(None, 1), ["Third"]);

        let held = story.lock("ada", &["src/a.rs"]).unwrap();
        let steal = StealHeldLock { lock: held[0].lock.id.to_string(), reason: note("urgent") };
        let taken = story.run("bob", &steal).unwrap();
        assert_eq!((taken[0].holder.as_str(), taken[0].lock.file.as_str()), ("bob", "src/a.rs"));
        // That lock is gone; bob's is another.
        assert_eq!(story.run("ada", &steal).unwrap_err().code, Code::NotFound);
    }

    fn what_changed_since_is_not_written_over(world: &World) {
        let story = Story::new(world);
        let mission = story.mission("Add login", &["Model", "Docs"]).mission.id.to_string();
        let sortie = story.sortie_id("Model");
        let mut fleet = world.fleet();
        let look = |fleet: &mut Fleet, kind, reference: &str| {
            let caller = about(kind, reference, IfUnchanged::NoCondition);
            fleet.run_fully(&ShowMission { mission: Some(mission.clone()) }, &caller).unwrap().since.unwrap()
        };
        let rename = |text: &str| UpdateMission {
            mission: Some(mission.clone()),
            title: Some(title(text)),
            ..UpdateMission::default()
        };
        story.claim("ada", "Docs").unwrap();
        let seen = look(&mut fleet, Kind::Mission, &mission);
        let of_sortie = look(&mut fleet, Kind::Sortie, &sortie);
        // Something else changes: the mission's own record does not.
        story.claim("ada", "Model").unwrap();
        let if_unchanged = |places: &[&Cursor]| {
            about(Kind::Mission, &mission, IfUnchanged::Since(places.iter().copied().cloned().collect()))
        };
        let now = fleet.run_fully(&rename("First"), &if_unchanged(&[&seen])).unwrap().since.unwrap();
        assert!(now.rev > seen.rev && now.history == seen.history);
        let late = fleet.run(&rename("Second"), &if_unchanged(&[&seen])).unwrap_err();
        assert_eq!(late.into_refusal().code, Code::Changed);
        let elsewhere = Cursor { history: "other".to_owned(), ..now.clone() };
        let foreign = fleet.run(&rename("Second"), &if_unchanged(&[&elsewhere])).unwrap_err();
        assert_eq!(foreign.into_refusal().code, Code::Changed);
        let second = fleet.run_fully(&rename("Second"), &if_unchanged(&[&seen, &now])).unwrap().since.unwrap();
        // The same key is the same request, however much has changed since.
        let keyed = Caller { idempotency_key: Some("k".to_owned()), ..if_unchanged(&[&second]) };
        assert!(!fleet.run_fully(&rename("Third"), &keyed).unwrap().replayed);
        assert!(fleet.run_fully(&rename("Third"), &keyed).unwrap().replayed);
        assert!(!fleet.run_fully(&rename("Fourth"), &caller("")).unwrap().replayed);
        // What is part of a sortie is a change of it.
        let claimed = look(&mut fleet, Kind::Sortie, &sortie);
        assert!(claimed.rev > of_sortie.rev);
        story.report("ada", "Model", "half");
        assert!(look(&mut fleet, Kind::Sortie, &sortie).rev > claimed.rev);
    }

    fn the_newest_events_are_read_page_by_page(world: &World) {
        let story = Story::new(world);
        story.mission("Add login", &["Model", "Docs"]);
        story.finish("ada", &["Model", "Docs"]);
        let all = story.run("", &ListEvents { limit: 1_000, ..ListEvents::default() }).unwrap();
        let mut revs = Vec::new();
        let mut before = None;
        loop {
            let page = ListEvents { before: before.clone(), limit: 3, ..ListEvents::default() };
            let page = story.run("", &page).unwrap();
            let Some(last) = page.events.last() else { break };
            before = Some(Cursor { history: page.cursor.history.clone(), rev: last.rev });
            revs.extend(page.events.iter().map(|event| event.rev));
        }
        assert_eq!(revs, all.events.iter().map(|event| event.rev).collect::<Vec<_>>());
        let elsewhere = Cursor { history: "other".to_owned(), rev: 1 };
        let wrong = ListEvents { before: Some(elsewhere), limit: 3, ..ListEvents::default() };
        assert_eq!(story.run("", &wrong).unwrap_err().code, Code::HistoryChanged);
    }
}
