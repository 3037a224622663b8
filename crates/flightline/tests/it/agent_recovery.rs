//! Seed C's three ways to recover, on both engines: the same agent goes on, another takes over, or all begins
//! from scratch.

use std::sync::Barrier;
use std::thread;

use expect_test::expect;
use flightline::agent::restart::Restarted;
use flightline::agent::resume::{ResumeAgent, ResumedAgent};
use flightline::agent::takeover::ShowHandoff;
use flightline::core::agent::Step;
use flightline::core::sortie::Subtask;
use flightline_testkit::prelude::*;
use flightline_testkit::story::epic::{epic, specification, take_over};

const SPEC: &str = "feature_02_team_penalty/spec.md";

fn resume(agent: &str) -> ResumeAgent {
    ResumeAgent {
        agent: agent.to_owned(),
        session: None,
        process: None,
    }
}

fn restart(agent: &str) -> RestartAgent {
    RestartAgent {
        agent: agent.to_owned(),
        force: false,
        sightings: Vec::new(),
    }
}

/// The caller that an agent was before.
fn ghost(agent: &Agent) -> Caller {
    Caller {
        epoch: Some(agent.epoch),
        session: agent.session_id.as_ref().map(ToString::to_string),
        ..caller(agent.name.as_str())
    }
}

/// The old incarnation can neither write nor beat any more.
fn is_fenced(story: &Story<'_>, before: &Agent) {
    let old = ghost(before);
    let beat = story.run_as(&old, &Heartbeat::default()).map(drop);
    let update = story.run_as(&old, &UpdateAgent::default()).map(drop);
    for refused in [beat, update] {
        assert_eq!(refused.unwrap_err().code, Code::Fenced);
    }
}

fn locks(story: &Story<'_>) -> Vec<(String, String, u64)> {
    let holder = |lock: &Lock| {
        let agents = story.all::<Agent>();
        let holder = agents.into_iter().find(|agent| agent.id == lock.held_by);
        holder.unwrap().name.to_string()
    };
    let all = story.all::<Lock>().into_iter();
    all.map(|lock| (lock.file.to_string(), holder(&lock), lock.epoch))
        .collect()
}

fn code<T>(done: Result<T, Refusal>) -> Code {
    done.map(drop).unwrap_err().code
}

/// Everything a sortie's owner can report of it.
fn report_everything(story: &Story<'_>) {
    let id = story.sortie_id("spec.md");
    let update = UpdateSortie {
        sortie: id.clone(),
        note: Some(note("80% complete")),
        subtasks: vec![SubtaskReport {
            output: Some(title("spec.md")),
            ..subtask("requirements", SubtaskStatus::Complete)
        }],
        files: vec![file(SPEC, FileChange::Modified)],
        criteria: [(name("reviewed"), true)].into(),
        next_to_process: Some(title("Acceptance Criteria")),
        resume_instructions: Some(note("go on")),
        resumable: Some(false),
        tokens_in: 7,
        ..UpdateSortie::default()
    };
    story.run("Secondary-A", &update).unwrap();
    story
        .run(
            "Secondary-A",
            &report_error(id.clone(), "api_error", "boom"),
        )
        .unwrap();
    let review = AddReview {
        sortie: id,
        reviewer: Some(name("lead")),
        score: Some(7),
        note: None,
    };
    story.run("", &review).unwrap();
}

both_engines! {
    fn the_same_agent_goes_on_in_a_new_session(world: &World) {
        let story = epic(world);
        story.send("Agent-Primary", &["Secondary-A"], "Any news?").unwrap();
        let (before, lock) = (story.agent("Secondary-A"), story.all::<Lock>().remove(0));
        story.pass_minutes(45);
        let resumed: ResumedAgent = story.run("", &resume("Secondary-A")).unwrap();
        expect![[r#"
            ✅ Checkpoint found! Resuming work...

            **Previous Session:**
            - Stage: S2.P2 (Specification)
            - Last Update: 12:00 (45 minutes ago)
            - Status: IN_PROGRESS

            **Current State:**
            - spec.md: Started
            - feature_02_team_penalty/spec.md

            **Resuming from:** Writing Acceptance Criteria in spec.md

            **Next Steps:**
            1. Complete Acceptance Criteria section
            2. Finish checklist.md questions
            3. Transition to S2.P3

            I'll continue where I left off...
        "#]].assert_eq(&resumed.message);
        let after = story.agent("Secondary-A");
        assert_eq!(after, resumed.agent);
        assert_eq!((after.id, &after.feature, &after.stage), (before.id, &before.feature, &before.stage));
        assert_eq!(after.epoch, before.epoch + 1);
        assert!(after.session_id.is_some(), "a session of its own");
        assert_eq!(after.status, AgentStatus::InProgress);
        assert_eq!(after.next_checkpoint_expected, Some(after.last_checkpoint.unwrap().plus(900_000)));
        let sortie = story.stored_sortie("spec.md");
        assert_eq!((sortie.assigned_to, sortie.assigned_epoch, sortie.status), (Some(after.id), Some(after.epoch), SortieStatus::InProgress));
        let again = story.all::<Lock>().remove(0);
        assert_eq!((again.id, again.epoch), (lock.id, after.epoch));
        assert!(again.fence > lock.fence, "a new fence");
        assert_eq!((resumed.unread, story.read_mail("Secondary-A")), (1, vec!["Any news?".to_owned()]));
        assert_eq!(story.report_of(""), ["✅ Secondary-A: ACTIVE (0 min ago)"]);
        is_fenced(&story, &before);
        assert!(story.damaged_values().is_empty());
    }

    fn the_new_session_works_and_the_old_fence_is_void(world: &World) {
        let story = epic(world);
        let lock = story.all::<Lock>().remove(0);
        let named = ResumeAgent { session: Some(title("abc123")), ..resume("Secondary-A") };
        let back = story.run("", &named).unwrap().agent;
        assert_eq!(back.session_id.as_ref().unwrap().as_str(), "abc123");
        let me = ghost(&back);
        story.run_as(&me, &UpdateAgent { stage: Some(title("S2.P3")), ..UpdateAgent::default() }).unwrap();
        let renew = |fence| RenewLocks { locks: vec![SPEC.to_owned()], fence: Some(fence), ttl_ms: None };
        assert_eq!(code(story.run_as(&me, &renew(lock.fence))), Code::Fenced);
        story.run_as(&me, &renew(story.all::<Lock>()[0].fence)).unwrap();
        // The same session again begins nothing anew.
        let again = story.run("", &named).unwrap();
        assert_eq!((again.agent.epoch, again.sorties.len(), again.locks.len()), (back.epoch, 1, 1));
    }

    fn a_resume_with_the_same_key_is_one(world: &World) {
        let story = epic(world);
        let once = keyed("", "k");
        let first = story.run_as(&once, &resume("Secondary-A")).unwrap();
        let second = story.run_as(&once, &resume("Secondary-A")).unwrap();
        assert_eq!((first.agent.epoch, &first.agent.session_id), (second.agent.epoch, &second.agent.session_id));
        assert_eq!(code(story.run_as(&once, &resume("Agent-Primary"))), Code::KeyReused);
    }

    fn a_lock_that_lapsed_is_taken_again_where_it_is_free(world: &World) {
        let story = epic(world);
        story.lock("Secondary-A", &["taken.md"]).unwrap();
        story.register("eve", Role::Specialist);
        for _ in 0..8 {
            story.pass_minutes(9);
            story.beat("eve").unwrap();
        }
        // Eve takes both, and gives one back.
        story.lock("eve", &[SPEC, "taken.md"]).unwrap();
        story.run("eve", &release(&[SPEC])).unwrap();
        let resumed = story.run("", &resume("Secondary-A")).unwrap();
        let epoch = resumed.agent.epoch;
        assert_eq!(locks(&story), [("taken.md".to_owned(), "eve".to_owned(), 1), (SPEC.to_owned(), "Secondary-A".to_owned(), epoch)]);
        let fence = resumed.locks[0].lock.fence;
        assert_eq!(resumed.blockers, [
            format!("{SPEC} had lapsed; Secondary-A holds it again with fence {fence}"),
            "taken.md is locked by eve, Secondary-A held it before".to_owned(),
        ]);
        assert!(story.damaged_values().is_empty());
    }

    fn what_cannot_be_resumed_is_refused_with_the_reason(world: &World) {
        let story = epic(world);
        let said = story.run("", &resume("nobody")).unwrap_err();
        assert_eq!((said.code, said.message.as_str()), (Code::NotFound, "there is no agent `nobody`"));
        story.run("Secondary-A", &UpdateAgent { can_resume: Some(false), ..UpdateAgent::default() }).unwrap();
        let said = story.run("", &resume("Secondary-A")).unwrap_err();
        assert_eq!((said.code, said.message.as_str()), (Code::IllegalTransition, "Secondary-A reported that its work cannot be resumed"));
        assert!(said.hint.unwrap().contains("fleet agents restart Secondary-A"));
    }

    fn another_takes_over_everything_in_one_transaction(world: &World) {
        let story = epic(world);
        story.send("Agent-Primary", &["Secondary-A"], "Any news?").unwrap();
        let read = story.send("Agent-Primary", &["Secondary-A"], "Understood?").unwrap();
        story.run("Secondary-A", &acknowledge(&read.message.id.to_string())).unwrap();
        let (before, lock) = (story.agent("Secondary-A"), story.all::<Lock>().remove(0));
        story.pass_minutes(61);
        let rev = story.rev();
        let taken = story.take_over("Secondary-A", "Secondary-C").unwrap();
        expect![[r#"
            I'm taking over feature_02_team_penalty from crashed Secondary-A.

            Checkpoint File: agent_checkpoints/archive/secondary_a_crashed_1767531660.json
            Resume from: S2.P2 Specification Phase
        "#]].assert_eq(&taken.handoff.text);
        expect![[r#"
            mission "Epic" in_progress 0% led by Agent-Primary
              sortie "spec.md" in_progress Secondary-C attempt 2
              sortie "checklist.md" pending -
            agent Secondary-A epoch 2 retired
            lock feature_02_team_penalty/spec.md Secondary-C
            mail Agent-Primary "Any news?"
              to Secondary-C pending
            mail Agent-Primary "Understood?"
              to Secondary-A acknowledged
        "#]].assert_eq(&story.as_text());
        let events = story.events_after(rev);
        assert!(events.iter().all(|event| event.step == events[0].step), "one transaction");
        let crashed = events.iter().find(|event| event.kind == "agent_crashed").unwrap();
        assert_eq!((crashed.data["to"].as_str(), crashed.data["archive"].as_str()), (Some("Secondary-C"), Some("secondary_a_crashed_1767531660.json")));
        assert_eq!((crashed.data["reason"].as_str(), crashed.data["checkpoint"]["stage"].as_str()), (Some("last sign 1h 1m ago"), Some("S2.P2")));
        let new = story.agent("Secondary-C");
        assert_eq!((&new.feature, &new.stage, &new.current_step, &new.recovery_instructions), (&before.feature, &before.stage, &before.current_step, &before.recovery_instructions));
        assert_eq!((new.status, new.epoch, new.role), (AgentStatus::InProgress, 1, Role::Specialist));
        let steps = story.all::<Step>();
        assert_eq!(steps.iter().filter(|step| step.agent_id == new.id).count(), 1);
        let moved = story.all::<Lock>().remove(0);
        assert!(moved.fence > lock.fence && moved.id != lock.id && moved.epoch == new.epoch);
        let sortie = story.stored_sortie("spec.md");
        assert_eq!((sortie.attempts, sortie.interrupted.unwrap().owner.as_str()), (2, "Secondary-A"));
        assert!(story.agent("Secondary-A").retired_at.is_some());
        is_fenced(&story, &before);
        assert_eq!(code(story.beat("Secondary-A")), Code::Fenced, "also for who brings no epoch");
        assert_eq!(story.report_of(""), ["✅ Secondary-C: ACTIVE (0 min ago)"], "the monitor does not see the dead");
        story.change("Secondary-C", "spec.md", DONE).unwrap();
        assert!(story.damaged_values().is_empty());
    }

    fn the_package_can_be_printed_again_at_any_time(world: &World) {
        let story = epic(world);
        let show = ShowHandoff { agent: "Secondary-A".to_owned() };
        let before = story.run("", &show).unwrap();
        assert_eq!((before.to.as_ref(), before.checkpoint_file.as_deref()), (None, Some("agent_checkpoints/secondary_a.json")));
        assert_eq!((before.sorties.len(), before.locks.as_slice(), before.messages), (1, [SPEC.to_owned()].as_slice(), 0));
        story.send("Agent-Primary", &["Secondary-A"], "Any news?").unwrap();
        story.pass_minutes(61);
        let given = story.take_over("Secondary-A", "Secondary-C").unwrap().handoff;
        assert_eq!((given.messages, given.checkpoint["stage"].as_str()), (1, Some("S2.P2")));
        story.pass_minutes(600);
        story.change("Secondary-C", "spec.md", DONE).unwrap();
        assert_eq!(story.run("", &show).unwrap(), given);
    }

    fn an_agent_at_work_that_takes_over_adds_to_what_it_has(world: &World) {
        let story = epic(world);
        story.register("Secondary-B", Role::Specialist);
        story.claim("Secondary-B", "checklist.md").unwrap();
        story.lock("Secondary-B", &["own.md"]).unwrap();
        story.run("Secondary-B", &UpdateAgent { feature: Some(title("feature_03")), ..specification() }).unwrap();
        story.pass_minutes(50);
        story.beat("Secondary-B").unwrap();
        story.pass_minutes(15);
        let before = story.agent("Secondary-B");
        story.run("Secondary-B", &take_over("Secondary-A", "Secondary-B")).unwrap();
        let after = story.agent("Secondary-B");
        assert_eq!((after.epoch, after.session_id, after.feature), (before.epoch, before.session_id, before.feature), "its session goes on");
        assert_eq!(locks(&story), [("own.md".to_owned(), "Secondary-B".to_owned(), 1), (SPEC.to_owned(), "Secondary-B".to_owned(), 1)]);
        for title in ["spec.md", "checklist.md"] {
            assert_eq!(story.stored_sortie(title).assigned_to, Some(after.id));
        }
        assert!(story.damaged_values().is_empty());
    }

    fn a_session_that_is_named_begins_anew(world: &World) {
        let story = epic(world);
        story.register("Secondary-B", Role::Specialist);
        story.pass_minutes(61);
        let named = TakeOver { session: Some(title("fresh")), ..take_over("Secondary-A", "Secondary-B") };
        let before = story.agent("Secondary-B");
        let new = story.run("", &named).unwrap().agent;
        assert_eq!((new.epoch, new.session_id.as_ref().unwrap().as_str()), (2, "fresh"));
        is_fenced(&story, &before);
    }

    fn who_is_alive_is_not_taken_over_without_force(world: &World) {
        let story = epic(world);
        story.pass_minutes(59);
        let rev = story.rev();
        let said = story.take_over("Secondary-A", "Secondary-C").unwrap_err();
        assert_eq!((said.code, said.message.as_str()), (Code::IllegalTransition, "Secondary-A is not known to be gone: last sign 59m ago"));
        assert!(said.hint.unwrap().contains("`fleet agents takeover Secondary-A Secondary-C --force`"));
        let said = story.run("", &restart("Secondary-A")).unwrap_err();
        assert!(said.hint.unwrap().contains("`fleet agents restart Secondary-A -y --force`"));
        assert_eq!(story.rev(), rev, "nothing was written");
        let forced = TakeOver { force: true, ..take_over("Secondary-A", "Secondary-C") };
        let before = story.agent("Secondary-A");
        assert_eq!(story.run("", &forced).unwrap().evidence, "last sign 59m ago");
        is_fenced(&story, &before);
    }

    fn a_process_that_is_gone_is_proof_and_one_that_runs_is_too(world: &World) {
        let story = epic(world);
        story.board("Secondary-A", Role::Specialist, 7);
        story.pass_minutes(90);
        let running = TakeOver { sightings: story.seen(true, &["Secondary-A"]), ..take_over("Secondary-A", "Secondary-C") };
        let said = story.run("", &running).unwrap_err();
        assert_eq!(said.message, "Secondary-A is not known to be gone: last sign 1h 30m ago, but process 7 is running");
        story.beat("Secondary-A").unwrap();
        let gone = TakeOver { sightings: story.seen(false, &["Secondary-A"]), ..take_over("Secondary-A", "Secondary-C") };
        assert_eq!(story.run("", &gone).unwrap().evidence, "process 7 is gone");
    }

    fn wrong_takeovers_are_refused(world: &World) {
        let story = epic(world);
        story.register("Secondary-B", Role::Specialist);
        story.register("eve", Role::Specialist);
        story.pass_minutes(61);
        for (by, from, to, expected) in [
            ("", "nobody", "Secondary-C", Code::NotFound),
            ("", "Secondary-A", "Secondary-A", Code::InvalidInput),
            ("", "Secondary-A", "flightline", Code::InvalidInput),
            ("eve", "Secondary-A", "Secondary-B", Code::NotYours),
        ] {
            let rev = story.rev();
            assert_eq!(code(story.run(by, &take_over(from, to))), expected, "{by} {from} {to}");
            assert_eq!(story.rev(), rev);
        }
        story.run("", &retire("Secondary-B")).unwrap();
        let said = story.take_over("Secondary-B", "Secondary-C").unwrap_err();
        assert_eq!((said.code, said.message.as_str()), (Code::IllegalTransition, "Secondary-B was retired, and holds nothing to take over"));
        // Also into the hands of one that was retired: it begins anew.
        assert_eq!(story.take_over("Secondary-A", "Secondary-B").unwrap().agent.epoch, 2);
    }

    fn a_takeover_happens_once(world: &World) {
        let story = epic(world);
        story.pass_minutes(61);
        let once = keyed("", "k");
        let first = story.run_as(&once, &take_over("Secondary-A", "Secondary-C")).unwrap();
        let rev = story.rev();
        let second = story.run_as(&once, &take_over("Secondary-A", "Secondary-C")).unwrap();
        assert_eq!((first.handoff, story.rev()), (second.handoff, rev));
        let said = story.take_over("Secondary-A", "Secondary-D").unwrap_err();
        assert_eq!((said.code, said.message.as_str()), (Code::AlreadyTaken, "Secondary-C has taken over from Secondary-A already"));
        let said = story.run("", &resume("Secondary-A")).unwrap_err();
        assert_eq!(said.message, "Secondary-A was retired, and has no work to resume");
    }

    fn of_two_takeovers_at_once_one_wins(world: &World) {
        let story = epic(world);
        story.pass_minutes(61);
        let start = Barrier::new(2);
        let try_it = |to: &str| {
            let mut fleet = Fleet::new(world.store(), Preset::Epic.policy());
            start.wait();
            let done = fleet.run(&take_over("Secondary-A", to), &caller(""));
            done.map(drop).map_err(|error| error.into_refusal().code)
        };
        let (one, two) = thread::scope(|scope| {
            let other = scope.spawn(|| try_it("Secondary-C"));
            (try_it("Secondary-B"), other.join().unwrap())
        });
        let (winner, loser) = if one.is_ok() { ("Secondary-B", two) } else { ("Secondary-C", one) };
        assert_eq!(loser, Err(Code::AlreadyTaken));
        assert_eq!(locks(&story), [(SPEC.to_owned(), winner.to_owned(), 1)]);
        assert_eq!(story.events_of("agent_crashed").len(), 1);
        assert!(story.damaged_values().is_empty());
    }

    fn the_agent_that_takes_over_from_the_primary_coordinates(world: &World) {
        let story = epic(world);
        story.pass_minutes(61);
        story.beat("Secondary-A").unwrap();
        story.take_over("Agent-Primary", "Agent-Primary-2").unwrap();
        let new = story.agent("Agent-Primary-2");
        assert_eq!((new.role, story.all::<Mission>()[0].dispatch), (Role::Dispatch, Some(new.id)));
        assert_eq!(story.read_mail("Secondary-A"), ["dispatch_changed: Agent-Primary-2 now coordinates Epic"]);
    }

    fn a_restart_keeps_nothing_of_what_was_done(world: &World) {
        let story = epic(world);
        report_everything(&story);
        story.send("Agent-Primary", &["Secondary-A"], "Any news?").unwrap();
        let before = story.agent("Secondary-A");
        story.pass_minutes(61);
        let rev = story.rev();
        let done: Restarted = story.run("", &restart("Secondary-A")).unwrap();
        assert_eq!(done.archive_file.as_deref(), Some("agent_checkpoints/archive/secondary_a_aborted_1767531660.json"));
        assert_eq!((done.sorties.len(), done.locks.as_slice()), (1, [SPEC.to_owned()].as_slice()));
        let events = story.events_after(rev);
        assert!(events.iter().all(|event| event.step == events[0].step), "one transaction");
        let said = events.iter().find(|event| event.kind == "agent_restarted").unwrap();
        assert_eq!(said.data["archive"], "secondary_a_aborted_1767531660.json");
        let view = story.sortie("spec.md");
        assert_eq!((view.sortie.status, view.owner, view.sortie.attempts, view.actual_ms), (SortieStatus::Pending, None, 0, None));
        assert!(view.files.is_empty() && view.errors.is_empty() && view.reviews.is_empty());
        assert!(view.sortie.progress_notes.is_none() && view.sortie.resume_instructions.is_none() && view.sortie.resumable);
        assert_eq!(view.sortie.acceptance_criteria, [(name("reviewed"), false)].into(), "what is asked for stays");
        let part = story.all::<Subtask>().remove(0);
        assert_eq!((part.name.as_str(), part.status, part.output), ("requirements", SubtaskStatus::Pending, None));
        assert!(story.all::<Lock>().is_empty() && story.all::<Step>().is_empty());
        let after = story.agent("Secondary-A");
        assert_eq!((after.feature, after.stage, after.current_step, after.recovery_instructions), (before.feature.clone(), None, None, None));
        assert!(after.next_steps.is_empty() && after.files_modified.is_empty());
        assert_eq!((after.epoch, after.status), (before.epoch + 1, AgentStatus::Idle));
        is_fenced(&story, &before);
        assert!(story.report_of("").is_empty(), "there is no checkpoint to look at");
        assert_eq!(code(story.run("", &resume("Secondary-A"))), Code::NotFound);
        // It begins anew, and nothing of before is said to it.
        story.register("Secondary-A", Role::Specialist);
        let claimed = story.claim("Secondary-A", "spec.md").unwrap();
        assert!(claimed.recovery_context.is_none() && claimed.locks.is_empty());
        assert_eq!(story.read_mail("Secondary-A"), ["Any news?"], "mail stays");
        assert!(story.damaged_values().is_empty());
    }

    fn a_restart_under_a_policy_that_saves_first_can_be_gone_back_on(world: &World) {
        let story = Story::new(world);
        story.mission("Add login", &["Model", "Tests"]);
        story.claim("ada", "Model").unwrap();
        story.report("ada", "Model", "half");
        story.pass_minutes(31);
        let done = story.run("", &restart("ada")).unwrap();
        let saved = done.checkpoints[0];
        assert!(story.stored_sortie("Model").progress_notes.is_none());
        story.rewind(saved).unwrap();
        assert_eq!(story.stored_sortie("Model").progress_notes.unwrap().as_str(), "half");
    }

    fn wrong_restarts_are_refused(world: &World) {
        let story = epic(world);
        story.register("eve", Role::Specialist);
        story.pass_minutes(61);
        assert_eq!(code(story.run("", &restart("nobody"))), Code::NotFound);
        assert_eq!(code(story.run("eve", &restart("Secondary-A"))), Code::NotYours);
        story.take_over("Secondary-A", "Secondary-C").unwrap();
        assert_eq!(code(story.run("", &restart("Secondary-A"))), Code::IllegalTransition);
        let once = keyed("", "k");
        let forced = RestartAgent { force: true, ..restart("Secondary-C") };
        let first = story.run_as(&once, &forced).unwrap();
        assert_eq!(story.run_as(&once, &forced).unwrap().agent.epoch, first.agent.epoch);
    }
}
