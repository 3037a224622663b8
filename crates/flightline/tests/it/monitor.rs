//! The primary's look at the others, on both engines: the seed's report, and one word per silence.

use std::sync::Barrier;
use std::thread;

use expect_test::expect;
use flightline::Operation;
use flightline::agent::monitor::{MonitorAgents, SilenceNotice};
use flightline::recovery::compaction::{CompactionEvidence, ReportCompaction};
use flightline_testkit::prelude::*;
use flightline_testkit::story::epic::epic;

/// The subjects of everything in an agent's mailbox.
fn mailbox(story: &Story<'_>, agent: &str) -> Vec<String> {
    let id = story.agent(agent).id;
    let mut mail = story.all::<Message>();
    mail.retain(|message| message.to.contains(&id));
    mail.into_iter()
        .map(|message| message.subject.to_string())
        .collect()
}

const WARNING: &str = "CHECKPOINT WARNING - No Update in 30 Minutes";

/// How many minutes ago the secondary wrote, as the monitor has it.
fn minutes(story: &Story<'_>) -> i64 {
    story.monitor("").agents[0].minutes
}

both_engines! {
    fn the_report_is_the_seeds(world: &World) {
        let story = epic(world);
        let lead = RegisterAgent { role: Some(Role::Dispatch), kind: Some(name("claude")), ..registration("lead") };
        story.run("", &lead).unwrap();
        story.pass_minutes(45);
        story.register("Secondary-B", Role::Specialist);
        story.pass_minutes(41);
        story.register("Secondary-C", Role::Specialist);
        story.pass_minutes(4);
        assert_eq!(
            story.report_of("Agent-Primary"),
            ["❌ Secondary-A: STALE (90 min) - Likely crashed", "⚠️ Secondary-B: WARNING (45 min) - May be slow", "✅ Secondary-C: ACTIVE (4 min ago)"],
            "in the order of the names, and without those who coordinate"
        );
    }

    fn silence_is_strictly_more_than_the_thresholds(world: &World) {
        let story = epic(world);
        for (pass, line) in [
            (30, "✅ Secondary-A: ACTIVE (30 min ago)"),
            (1, "⚠️ Secondary-A: WARNING (31 min) - May be slow"),
            (29, "⚠️ Secondary-A: WARNING (60 min) - May be slow"),
            (1, "❌ Secondary-A: STALE (61 min) - Likely crashed"),
        ] {
            story.pass_minutes(pass);
            let seen = story.monitor("");
            assert_eq!(seen.agents[0].line, line);
            assert_eq!(seen.attention, !line.contains("ACTIVE"));
        }
    }

    fn a_silent_agent_is_warned_once_to_the_letter(world: &World) {
        let story = epic(world);
        story.send("Agent-Primary", &["Secondary-A"], "Hello").unwrap();
        story.pass_minutes(31);
        assert_eq!(story.monitor("Agent-Primary").agents[0].told, Some(SilenceNotice::Warned));
        for _ in 0..3 {
            story.pass_minutes(9);
            assert_eq!(story.monitor("Agent-Primary").agents[0].told, None);
        }
        assert_eq!(mailbox(&story, "Secondary-A"), ["Hello", WARNING]);
        let mail = story.all::<Message>().pop().unwrap();
        expect![[r#"
            ## Message 2 (2026-01-04 12:31) ⏳ UNREAD
            **Subject:** CHECKPOINT WARNING - No Update in 30 Minutes
            **Action:** Please update your checkpoint and confirm you're still working
            **Details:** Your last checkpoint was at 12:00 (31 minutes ago)
                     Expected checkpoint every 15 minutes
                     Are you still actively working?
            **Next:** Reply "Still working" and update checkpoint ASAP
            **Acknowledge:** Reply immediately"#]].assert_eq(&mail.body.unwrap());
        assert_eq!(story.events_of("agent_warned").len(), 1);
        assert!(mailbox(&story, "Agent-Primary").is_empty(), "nobody else is told");
    }

    fn an_agent_that_has_likely_crashed_is_told_of_once(world: &World) {
        let story = epic(world);
        story.pass_minutes(31);
        story.monitor("");
        story.pass_minutes(30);
        let told = story.monitor("").agents.remove(0).told;
        let notice = "Secondary-A hasn't updated checkpoint in 61 minutes".to_owned();
        assert_eq!(told, Some(SilenceNotice::Escalated { to: name("Agent-Primary"), notice: notice.clone() }));
        for _ in 0..3 {
            story.pass_minutes(60);
            assert_eq!(story.monitor("").agents[0].told, None);
        }
        assert_eq!(mailbox(&story, "Agent-Primary"), ["Secondary-A: STALE (likely crashed)"]);
        assert_eq!(mailbox(&story, "Secondary-A"), [WARNING]);
        let mail = story.all::<Message>().pop().unwrap();
        let (first, rest) = mail.body.as_ref().unwrap().split_once("\n\n").unwrap();
        assert_eq!(first, notice);
        assert_eq!(rest, "Resume the same agent: fleet agents resume Secondary-A\nLet another take over: fleet agents takeover Secondary-A NEW\nRestart from scratch: fleet agents restart Secondary-A");
    }

    fn who_is_found_stale_at_once_is_not_warned_as_well(world: &World) {
        let story = epic(world);
        story.pass_minutes(90);
        story.monitor("");
        assert!(mailbox(&story, "Secondary-A").is_empty());
        assert_eq!(mailbox(&story, "Agent-Primary").len(), 1);
    }

    fn each_silence_is_another(world: &World) {
        let story = epic(world);
        for round in 1..=3 {
            story.pass_minutes(31);
            story.monitor("");
            story.pass_minutes(30);
            story.monitor("");
            assert_eq!((mailbox(&story, "Secondary-A").len(), mailbox(&story, "Agent-Primary").len()), (round, round));
            story.beat("Secondary-A").unwrap();
            // Whether or not somebody looks in between.
            if round == 1 {
                assert_eq!(story.report_of(""), ["✅ Secondary-A: ACTIVE (0 min ago)"]);
                assert_eq!(story.events_of("agent_spoke").len(), 1);
            }
        }
        assert!(story.damaged_values().is_empty());
    }

    fn of_two_monitors_at_once_one_speaks(world: &World) {
        let story = epic(world);
        for pass in [31, 30] {
            story.pass_minutes(pass);
            let start = Barrier::new(2);
            let look = || {
                let mut fleet = Fleet::new(world.store(), Preset::Epic.policy());
                start.wait();
                let seen = fleet.run(&MonitorAgents::default(), &caller("")).unwrap();
                u32::from(seen.agents[0].told.is_some())
            };
            let told = thread::scope(|scope| {
                let other = scope.spawn(look);
                look() + other.join().unwrap()
            });
            assert_eq!(told, 1);
        }
        assert_eq!((mailbox(&story, "Secondary-A").len(), mailbox(&story, "Agent-Primary").len()), (1, 1));
    }

    fn everything_an_agent_does_itself_is_a_sign(world: &World) {
        let story = epic(world);
        let acts: [&dyn Fn(); 6] = [
            &|| story.beat("Secondary-A").unwrap(),
            &|| drop(story.run("Secondary-A", &UpdateAgent { stage: Some(title("S2.P3")), ..UpdateAgent::default() }).unwrap()),
            &|| story.report("Secondary-A", "spec.md", "half"),
            &|| drop(story.run("Secondary-A", &open_inbox(9)).unwrap()),
            &|| drop(story.lock("Secondary-A", &["x"]).unwrap()),
            // A refusal is an answer to somebody.
            &|| drop(story.claim("Secondary-A", "spec.md").and_then(|_| story.change("Secondary-A", "checklist.md", SortieAction::Unblock)).unwrap_err()),
        ];
        for act in acts {
            story.pass_minutes(20);
            assert_eq!(minutes(&story), 20);
            act();
            assert_eq!(minutes(&story), 0);
        }
    }

    fn nothing_that_others_do_is(world: &World) {
        let story = epic(world);
        let own = story.agent("Secondary-A").last_checkpoint;
        let primary = "Agent-Primary";
        let about = |stage: &str| UpdateAgent { agent: Some("Secondary-A".to_owned()), stage: Some(title(stage)), ..UpdateAgent::default() };
        let compacted = ReportCompaction { agent: Some("Secondary-A".to_owned()), evidence: CompactionEvidence::Hook };
        let acts: [&dyn Fn(); 9] = [
            &|| drop(story.run(primary, &about("S2.P3")).unwrap()),
            &|| drop(story.run("", &about("S2.P4")).unwrap()),
            &|| drop(story.send(primary, &["Secondary-A"], "Hello").unwrap()),
            &|| drop(story.change(primary, "checklist.md", SortieAction::Assign { to: "Secondary-A".to_owned() }).unwrap()),
            &|| drop(story.run(primary, &compacted).unwrap()),
            &|| drop(story.checkpoint()),
            &|| drop(story.detect(primary, Vec::new())),
            &|| drop(story.resume(primary, Vec::new())),
            &|| drop(story.run(primary, &ListAgents { retired: false, sightings: Vec::new() }).unwrap()),
        ];
        let mut silent = 0;
        for act in acts {
            story.pass_minutes(2);
            silent += 2;
            act();
            assert_eq!(minutes(&story), silent);
        }
        assert_eq!(story.agent("Secondary-A").last_checkpoint, own);
    }

    fn an_old_session_is_no_sign(world: &World) {
        let story = epic(world);
        let first = story.agent("Secondary-A").epoch;
        story.register("Secondary-A", Role::Specialist);
        story.pass_minutes(40);
        let ghost = Caller { epoch: Some(first), ..caller("Secondary-A") };
        assert!(story.run_as(&ghost, &Heartbeat::default()).is_err());
        assert!(story.run_as(&ghost, &UpdateAgent::default()).is_err());
        assert_eq!(minutes(&story), 40);
    }

    fn the_warning_can_be_answered_and_the_primary_hears_it(world: &World) {
        let story = epic(world);
        story.pass_minutes(40);
        story.monitor("");
        let warning = story.all::<Message>().pop().unwrap();
        let reply = ReplyMail { message: warning.id.to_string(), body: Body::parse("body", "Still working").unwrap() };
        let answer = story.run("Secondary-A", &reply).unwrap();
        assert_eq!(answer.deliveries[0].to, "Agent-Primary");
        assert_eq!(minutes(&story), 0);
        let open = story.run("Secondary-A", &open_inbox(9)).unwrap();
        assert!(open.is_empty(), "answering acknowledges");
    }

    fn who_is_complete_or_retired_is_left_alone(world: &World) {
        let story = epic(world);
        let done = UpdateAgent { status: Some(AgentStatus::Complete), ..UpdateAgent::default() };
        story.run("Secondary-A", &done).unwrap();
        story.run("", &RegisterAgent { kind: Some(name("secondary")), ..registration("Secondary-B") }).unwrap();
        story.run("", &retire("Secondary-B")).unwrap();
        story.pass_minutes(90);
        let seen = story.monitor("");
        assert_eq!(seen.agents.len(), 1);
        assert!(seen.agents[0].complete && !seen.attention, "its line is the seed's, and nobody minds");
        assert_eq!(seen.agents[0].line, "❌ Secondary-A: STALE (90 min) - Likely crashed");
        assert!(story.all::<Message>().is_empty());
    }

    fn without_a_mission_any_dispatch_is_told(world: &World) {
        let story = Story::under(world, Preset::Epic.policy());
        story.register("ada", Role::Specialist);
        story.pass_minutes(61);
        let Some(SilenceNotice::Escalated { to, .. }) = story.monitor("").agents.remove(0).told else { panic!() };
        assert_eq!(to.as_str(), "dispatch", "a mailbox, until somebody coordinates");
        story.register("lead", Role::Dispatch);
        story.beat("ada").unwrap();
        story.pass_minutes(61);
        let Some(SilenceNotice::Escalated { to, .. }) = story.monitor("").agents.remove(0).told else { panic!() };
        assert_eq!(to.as_str(), "lead");
    }

    fn every_preset_has_its_own_numbers(world: &World) {
        let story = Story::new(world);
        story.run("", &flightline_testkit::story::create_mission("Add login", vec![sortie("Model")])).unwrap();
        story.claim("ada", "Model").unwrap();
        story.pass_minutes(11);
        let seen = story.monitor("");
        assert_eq!((seen.warning_minutes, seen.failure_minutes), (10, 30));
        // The seed's words are for the seed's fleets.
        assert_eq!(seen.agents[0].line, "ada: warning (last sign 11m ago)");
        let warned = story.all::<Message>().pop().unwrap();
        assert_eq!(warned.subject.as_str(), "Still working?");
        assert!(warned.body.unwrap().contains("`fleet heartbeat --agent ada`"));
    }

    fn looking_changes_nothing_when_there_is_nothing_to_say(world: &World) {
        let story = epic(world);
        let rev = story.rev();
        story.monitor("");
        story.pass_minutes(20);
        story.monitor("Agent-Primary");
        assert_eq!(story.rev(), rev);
        assert_eq!(MonitorAgents::NAME, "monitor_agents");
    }
}
