//! Stepping through a mission's history on both engines: whole requests, forwards and back, in pages of any
//! size, with the state at any step; and never a write.

use std::collections::BTreeMap;
use std::time::Duration;

use flightline::replay::{PageStart, Replay, ReplayPage, ReplayStep};
use flightline_testkit::prelude::*;
use serde_json::{Map, Value, json};

/// Work of two agents on two missions, with checkpoints, mail and locks, a rewind and its undo.
fn eventful(world: &World) -> (Story<'_>, MissionId) {
    let story = Story::new(world);
    story.register("lead", flightline::core::agent::Role::Dispatch);
    story.mission("Before", &["Old"]);
    let mission = story.mission("Add login", &["Model", "Endpoint", "Docs", "Tests"]);
    let mission = mission.mission.id;
    story.pass_minutes(1);
    story.lock("ada", &["src/a.rs", "src/b.rs"]).unwrap();
    story.finish("ada", &["Model"]);
    story.pass_minutes(1);
    story.claim("bob", "Endpoint").unwrap();
    story.send("bob", &["ada"], "Hello").unwrap();
    story.report("bob", "Endpoint", "half done");
    let taken = story.checkpoint().id;
    let block = SortieAction::Block {
        reason: note("no token"),
    };
    story.change("bob", "Endpoint", block).unwrap();
    story.force_rewind(taken);
    story.pass_minutes(1);
    story.undo().unwrap();
    story.settle();
    (story, mission)
}

fn page(story: &Story<'_>, request: Replay) -> Result<ReplayPage, Refusal> {
    story.run("", &request)
}

/// The whole replay that was asked for, on one page.
fn all(story: &Story<'_>, from: Option<&str>, to: Option<&str>) -> Vec<ReplayStep> {
    let request = Replay {
        mission: Some(story.all::<Mission>()[1].id.to_string()),
        ..range(from, to)
    };
    page(story, request).unwrap().steps
}

fn range(from: Option<&str>, to: Option<&str>) -> Replay {
    Replay {
        from: from.map(str::to_owned),
        to: to.map(str::to_owned),
        limit: 10_000,
        ..Replay::default()
    }
}

fn at(of: impl ToString) -> Replay {
    let of = of.to_string();
    Replay {
        place: PageStart::At { of },
        limit: 10,
        states: true,
        ..Replay::default()
    }
}

fn numbers(steps: &[ReplayStep]) -> Vec<u64> {
    steps.iter().map(|step| step.step).collect()
}

type Documents = BTreeMap<(Kind, String), Map<String, Value>>;

/// Documents without what a difference does not tell: empty fields, and when a record changed last.
fn documents(values: Vec<StoredEvent>) -> Documents {
    let read = |value: StoredEvent| {
        let mut fields: Map<String, Value> = serde_json::from_str(&value.text).unwrap();
        fields.retain(|name, value| !value.is_null() && name != "updated_at");
        ((value.kind, value.id), fields)
    };
    values.into_iter().map(read).collect()
}

/// What a step makes of a state.
fn apply(state: &mut Documents, step: &ReplayStep) {
    for change in &step.changes {
        let key = (change.kind, change.id.clone());
        if change.change == "removed" {
            assert!(state.remove(&key).is_some(), "{key:?}");
            continue;
        }
        let fields = state.entry(key).or_default();
        for (name, (was, is)) in &change.fields {
            assert_eq!(fields.get(name).unwrap_or(&Value::Null), was, "{name}");
            match is.is_null() {
                true => drop(fields.remove(name)),
                false => drop(fields.insert(name.clone(), is.clone())),
            }
        }
    }
}

fn thin_all(story: &Story<'_>) {
    assert!(story.thin_all().values > 0);
}

both_engines! {
    fn a_step_is_one_request_told_whole_and_in_order(world: &World) {
        let (story, mission) = eventful(world);
        let steps = all(&story, None, None);
        let mut requests: Vec<u64> = story
            .events_after(0)
            .iter()
            .filter(|event| event.mission_id == Some(mission))
            .map(|event| event.step)
            .collect();
        requests.dedup();
        assert_eq!(numbers(&steps), requests, "every request that touched the mission, once");
        for step in &steps {
            assert!(step.events.iter().all(|event| event.step == step.step));
            assert_eq!(step.rev, step.events.last().unwrap().rev);
            assert!(step.events.iter().all(|event| event.mission_id == Some(mission) || event.mission_id.is_none()));
            assert_eq!((&step.missing, &step.state), (&None, &None));
        }
        let claimed = steps.iter().find(|step| step.actor == "bob").unwrap();
        let kinds: Vec<&str> = claimed.events.iter().map(|event| event.kind.as_str()).collect();
        assert_eq!(kinds, ["agent_registered", "sortie_claimed"]);
        let sortie = claimed.changes.iter().find(|change| change.kind == Kind::Sortie).unwrap();
        assert_eq!(sortie.fields["status"], (json!("pending"), json!("in_progress")));
    }

    fn pages_of_any_size_tell_the_same_forwards_and_back(world: &World) {
        let (story, mission) = eventful(world);
        let steps = all(&story, None, None);
        for limit in [1, 2, 3, 7, 40] {
            let request = Replay { mission: Some(mission.to_string()), limit, ..Replay::default() };
            let (mut forwards, mut place) = (Vec::new(), PageStart::First);
            loop {
                let page = page(&story, Replay { place: place.clone(), ..request.clone() }).unwrap();
                let Some(last) = page.steps.last() else { break };
                let few = page.steps.iter().map(|step| step.events.len() as u64).sum::<u64>() <= limit;
                assert!(few || page.steps.len() == 1, "a page has {limit} events, or one step");
                place = PageStart::After { rev: last.rev };
                forwards.extend(page.steps);
            }
            assert_eq!(forwards, steps, "{limit}");
            let (mut backwards, mut place) = (Vec::new(), PageStart::Last);
            loop {
                let page = page(&story, Replay { place: place.clone(), ..request.clone() }).unwrap();
                let Some(first) = page.steps.first() else { break };
                place = PageStart::Before { step: first.step };
                backwards.extend(page.steps.into_iter().rev());
            }
            backwards.reverse();
            assert_eq!(backwards, steps, "{limit}");
        }
    }

    fn what_the_steps_changed_adds_up_to_the_state_at_each(world: &World) {
        let (story, mission) = eventful(world);
        let values = |rev| documents(story.look(|tx| tx.values_at(rev, mission)));
        let steps = all(&story, None, None);
        let mut state = values(steps[0].step - 1);
        for step in &steps {
            apply(&mut state, step);
            assert_eq!(state, values(step.rev), "after step {}", step.step);
        }
        assert_eq!(state, values(story.rev()), "nothing is left out");
    }

    fn the_state_at_a_step_is_what_a_checkpoint_there_names(world: &World) {
        let (story, _) = eventful(world);
        let manual = story.checkpoints().into_iter().find(|one| one.cut.trigger_details.is_none());
        let id = manual.unwrap().id.to_string();
        let mut found = page(&story, at(&id)).unwrap();
        let step = found.steps.pop().unwrap();
        let (state, shown) = (step.state.unwrap(), story.run("", &ShowCheckpoint { checkpoint: id }).unwrap());
        assert_eq!((state.sorties, state.active_locks, state.pending_messages), (shown.sorties, shown.active_locks, shown.pending_messages));
        assert_eq!((state.progress_percent, state.mission.id), (shown.progress_percent, shown.mission_id));
        let agents: Vec<&str> = state.agents.iter().map(|agent| agent.name.as_str()).collect();
        assert_eq!(agents.len(), 3, "{agents:?}");
    }

    fn rewinds_and_timelines_are_told_as_such(world: &World) {
        let (story, _) = eventful(world);
        let steps = all(&story, None, None);
        let rewinds: Vec<&ReplayStep> = steps.iter().filter(|step| step.recovery.is_some()).collect();
        let told: Vec<(RecoveryKind, bool, Option<u32>)> = rewinds
            .iter()
            .map(|step| {
                let recovery = step.recovery.as_ref().unwrap();
                (recovery.kind, recovery.undo, step.timeline)
            })
            .collect();
        assert_eq!(told, [(RecoveryKind::Rewind, false, Some(1)), (RecoveryKind::Rewind, true, Some(2))]);
        let place = steps.iter().position(|step| step.recovery.is_some()).unwrap();
        assert!(steps[..place].iter().all(|step| step.timeline == Some(0)));
        let back = page(&story, at(rewinds[0].step)).unwrap().steps.remove(0).state.unwrap();
        let endpoint = back.sorties.iter().find(|sortie| sortie.title == "Endpoint").unwrap();
        assert_eq!(endpoint.status, SortieStatus::InProgress, "it was blocked, and is not any more");
        let undone = page(&story, at(rewinds[1].step)).unwrap().steps.remove(0).state.unwrap();
        let endpoint = undone.sorties.iter().find(|sortie| sortie.title == "Endpoint").unwrap();
        assert_eq!(endpoint.status, SortieStatus::Blocked);
    }

    fn a_plain_resume_is_told_as_one(world: &World) {
        let (story, _) = eventful(world);
        let from = story.resume("", vec![]).unwrap().checkpoint_id;
        let last = all(&story, None, None).pop().unwrap();
        let recovery = last.recovery.unwrap();
        assert_eq!((recovery.kind, recovery.checkpoint_id, recovery.undo), (RecoveryKind::RollForward, from, false));
    }

    fn a_range_is_named_by_checkpoints_or_revisions_and_holds_whole_steps(world: &World) {
        let (story, _) = eventful(world);
        let steps = all(&story, None, None);
        let holds = |rev: u64| steps.iter().position(|step| (step.step..=step.rev).contains(&rev)).unwrap();
        let checkpoints = story.checkpoints();
        for checkpoint in &checkpoints {
            // The step that took it is the first, and the last.
            let place = holds(checkpoint.cut.rev + 1);
            let id = checkpoint.id.to_string();
            assert_eq!(numbers(&all(&story, Some(&id), None)), numbers(&steps[place..]));
            assert_eq!(numbers(&all(&story, None, Some(&id))), numbers(&steps[..=place]));
            assert_eq!(all(&story, Some(&id), Some(&id)), &steps[place..=place]);
        }
        let long = steps.iter().position(|step| step.rev > step.step + 1).unwrap();
        let middle = (steps[long].step + 1).to_string();
        assert_eq!(all(&story, Some(&middle), Some(&middle)), &steps[long..=long], "never half of a request");
        assert_eq!(all(&story, Some("0"), None), steps, "not before it was there");
        let last = page(&story, Replay { place: PageStart::Last, limit: 1, ..range(None, Some(&middle)) });
        assert_eq!(last.unwrap().steps, &steps[long..=long]);
    }

    fn what_names_no_step_is_refused(world: &World) {
        let (story, mission) = eventful(world);
        let refused = |request: Replay| page(&story, request).unwrap_err();
        assert_eq!(refused(range(Some("chk-ffffffff"), None)).code, Code::NotFound);
        assert_eq!(refused(range(Some("nonsense"), None)).code, Code::InvalidInput);
        assert_eq!(refused(range(None, Some(""))).code, Code::InvalidInput);
        let beyond = refused(range(Some("99999999999999999999999"), None));
        assert_eq!((beyond.code, beyond.message.ends_with(&format!("the newest is {}", story.rev()))), (Code::NotFound, true));
        assert_eq!(refused(range(Some("20"), Some("10"))).code, Code::InvalidInput);
        assert_eq!(refused(at("1")).code, Code::NotFound, "the mission was not there yet");
        story.mission("Newer", &["Elsewhere"]);
        let elsewhere = refused(Replay { mission: Some(mission.to_string()), ..at(story.rev()) });
        let near = all(&story, None, None).pop().unwrap().step;
        assert_eq!((elsewhere.code, elsewhere.hint.unwrap()), (Code::NotFound, format!("the steps next to it: `fleet replay --step {near}`")));
        let first = story.all::<Mission>()[0].id;
        assert_ne!(first, mission);
        let id = story.checkpoints()[0].id.to_string();
        let other = Replay { mission: Some(first.to_string()), ..range(Some(&id), None) };
        assert_eq!(refused(other).code, Code::InvalidInput);
        let replaced = Replay { history: Some("another".to_owned()), ..range(None, None) };
        assert_eq!(refused(replaced).code, Code::HistoryChanged);
    }

    fn what_agents_do_is_part_of_every_missions_story(world: &World) {
        let (story, _) = eventful(world);
        let (before, rev) = (all(&story, None, None).len(), story.rev());
        story.register("eve", flightline::core::agent::Role::Specialist);
        story.mission("Newer", &["Elsewhere"]);
        story.claim("eve", "Elsewhere").unwrap();
        let steps = all(&story, None, None);
        assert_eq!((steps.len(), steps[before].step), (before + 1, rev + 1), "a checkpoint names all agents, and no other mission");
        assert_eq!((steps[before].changes[0].kind, steps[before].timeline), (Kind::Agent, Some(2)));
    }

    fn a_checkpoint_names_its_mission(world: &World) {
        let (story, mission) = eventful(world);
        story.mission("Newer", &["Elsewhere"]);
        assert_ne!(page(&story, range(None, None)).unwrap().mission_id, mission);
        let id = story.checkpoints()[0].id.to_string();
        assert_eq!(page(&story, range(Some(&id), None)).unwrap().mission_id, mission);
    }

    fn what_retention_took_is_said_with_what_is_near_and_the_rest_goes_on(world: &World) {
        let (story, mission) = eventful(world);
        let before = all(&story, None, None);
        world.pass(Duration::from_secs(30 * 86_400));
        thin_all(&story);
        let steps = all(&story, None, None);
        assert_eq!(numbers(&steps), numbers(&before), "every step is still told");
        assert!(steps.iter().zip(&before).all(|(now, then)| now.events.len() == then.events.len() && now.actor == then.actor));
        let missing: Vec<&ReplayStep> = steps.iter().filter(|step| step.missing.is_some()).collect();
        assert!(!missing.is_empty() && missing.len() < steps.len());
        let ids: Vec<String> = story.checkpoints().iter().map(|one| one.id.to_string()).collect();
        for step in &missing {
            let missing = step.missing.as_ref().unwrap();
            assert_eq!(missing.code, Code::HistoryThinned);
            assert!(!missing.checkpoints.is_empty() && missing.checkpoints.iter().all(|id| ids.contains(id)), "{missing:?}");
        }
        // Where a checkpoint is, the state is known; elsewhere it is said why not.
        let mut known = 0;
        for step in &steps {
            let step = page(&story, Replay { mission: Some(mission.to_string()), ..at(step.step) }).unwrap().steps.remove(0);
            match (&step.state, &step.no_state) {
                (Some(_), None) => known += 1,
                (None, Some(why)) => {
                    assert_eq!(why.code, Code::HistoryThinned);
                    assert!(why.hint.as_ref().unwrap().contains("fleet checkpoints show chk-"), "{why:?}");
                }
                both => panic!("{both:?}"),
            }
        }
        assert!(known > 0 && known < steps.len(), "{known} of {}", steps.len());
        let last = steps.last().unwrap();
        assert_eq!((last.timeline, &last.missing), (Some(2), &None));
    }

    fn what_is_damaged_is_said_and_the_rest_goes_on(world: &World) {
        let (story, _) = eventful(world);
        let before = all(&story, None, None);
        damage::everywhere(world, Kind::Sortie, &story.sortie_id("Endpoint"), 0);
        let steps = all(&story, None, None);
        assert_eq!(numbers(&steps), numbers(&before));
        let bad: Vec<&ReplayStep> = steps.iter().filter(|step| step.missing.is_some()).collect();
        assert!(bad.iter().all(|step| step.missing.as_ref().unwrap().code == Code::Integrity));
        assert!(bad.len() >= 2 && bad.len() < steps.len());
        let no_state = page(&story, at(bad[1].step)).unwrap().steps.remove(0).no_state;
        assert_eq!(no_state.unwrap().code, Code::Integrity);
    }

    fn a_copy_that_is_sound_serves(world: &World) {
        let (story, _) = eventful(world);
        let before = all(&story, None, None);
        let last = story.look(|tx| tx.rows(Kind::Sortie, flightline::store::Find::All));
        let last = last.iter().find(|row| row.name.as_deref() == Some("Model")).unwrap().rev;
        damage::journal(world, Kind::Sortie, &story.sortie_id("Model"), last - 1);
        assert_eq!(all(&story, None, None), before, "the row has the same value");
    }

    fn a_replay_writes_nothing_and_is_no_sign_of_life(world: &World) {
        let (story, _) = eventful(world);
        let look = || story.look(|tx| Ok((tx.rev(), tx.events_since(0)?, tx.pulses()?.into_iter().map(|pulse| (pulse.agent, pulse.at)).collect::<Vec<_>>())));
        let before = (look(), story.as_text());
        world.pass(Duration::from_secs(3 * 86_400));
        for who in ["", "ada", "somebody-new"] {
            for place in [PageStart::First, PageStart::Last, PageStart::After { rev: 9 }, PageStart::Before { step: 20 }] {
                let request = Replay { place, states: true, ..range(None, None) };
                assert!(!story.run(who, &request).unwrap().steps.is_empty());
            }
        }
        assert_eq!((look(), story.as_text()), before);
    }

    fn a_request_of_many_changes_is_one_step_however_small_the_page(world: &World) {
        let story = Story::new(world);
        let titles: Vec<String> = (0..60).map(|n| format!("Sortie {n}")).collect();
        story.mission("Large", &titles.iter().map(String::as_str).collect::<Vec<_>>());
        story.claim("ada", "Sortie 3").unwrap();
        for limit in [1, 7, 61, 62] {
            let first = page(&story, Replay { limit, ..Replay::default() }).unwrap();
            assert_eq!((first.steps[0].events.len(), first.steps[0].changes.len()), (61, 61), "{limit}");
            let back = page(&story, Replay { limit, place: PageStart::Before { step: first.steps[0].rev + 1 }, ..Replay::default() });
            assert_eq!(back.unwrap().steps, &first.steps[..1], "{limit}");
            assert_eq!(page(&story, Replay { limit, ..at("5") }).unwrap().steps[0].events.len(), 61);
        }
    }

    fn a_checkpoint_that_is_gone_is_still_part_of_the_story(world: &World) {
        let (story, _) = eventful(world);
        let taken: Vec<CheckpointId> = story.checkpoints().iter().map(|one| one.id).collect();
        world.pass(Duration::from_secs(30 * 86_400));
        let plan = PlanPrune { older_than_ms: Some(0), keep: Some(1), mission: None, as_of: None, force: false };
        story.with_fleet(|fleet| {
            let pruned = plan_all(fleet, &caller(""), &plan).unwrap();
            apply_all(fleet, &caller(""), &plan, &pruned).unwrap();
        });
        let left: Vec<CheckpointId> = story.checkpoints().iter().map(|one| one.id).collect();
        let gone = taken.iter().find(|id| !left.contains(id)).unwrap();
        assert_eq!(page(&story, range(Some(&gone.to_string()), None)).unwrap_err().code, Code::NotFound);
        let told = all(&story, None, None);
        let kinds: Vec<&str> = told.iter().flat_map(|step| &step.events).filter(|event| event.subject == gone.to_string()).map(|event| event.kind.as_str()).collect();
        assert_eq!((kinds.first(), kinds.last()), (Some(&"fleet_checkpointed"), Some(&"checkpoint_pruned")));
    }
}
