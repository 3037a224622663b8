//! Whether a briefing really reached its agent, on both engines: given twice at most, recalled in a line,
//! acknowledged or not; and how it is known that a context was lost.

use flightline::context::receipt::BriefingView;
use flightline::context::{AcknowledgeBriefing, Briefed, DeliverBriefing};
use flightline::core::setting::{Briefing, Form, Receipt};
use flightline::mail::relay::relay;
use flightline::recovery::compaction::{CompactionEvidence, ReportCompaction};
use flightline_testkit::prelude::*;
use serde_json::json;

const DELIVER: DeliverBriefing = DeliverBriefing {
    mission: None,
    max_tokens: None,
    minimal: false,
    tree: None,
};

/// Control coordinates; ada is at "Endpoint", bob at "Docs".
fn working(world: &World) -> Story<'_> {
    let story = led(world, &["Model", "Endpoint", "Docs", "Tests"]);
    story.board("ada", Role::Specialist, 7);
    story.board("bob", Role::Specialist, 8);
    story.finish("ada", &["Model"]);
    story.claim("ada", "Endpoint").unwrap();
    story.claim("bob", "Docs").unwrap();
    story
}

fn deliver(story: &Story<'_>, agent: &str) -> Briefed {
    story.run(agent, &DELIVER).unwrap()
}

fn in_full(story: &Story<'_>, agent: &str) -> Briefed {
    story.run(agent, &brief_agent()).unwrap()
}

fn acknowledge(story: &Story<'_>, agent: &str, nonce: &str) {
    let nonce = nonce.to_owned();
    story.run(agent, &AcknowledgeBriefing { nonce }).unwrap();
}

/// How an agent stands, as everybody sees it.
fn standing(story: &Story<'_>, agent: &str) -> Option<BriefingView> {
    story.run("", &show_agent(agent)).unwrap().briefing
}

fn status(story: &Story<'_>, agent: &str) -> Option<(String, u32)> {
    standing(story, agent).map(|view| (view.status, view.deliveries))
}

fn said(status: &str, times: u32) -> Option<(String, u32)> {
    Some((status.to_owned(), times))
}

both_engines! {
    fn a_briefing_is_given_in_full_twice_and_then_in_one_line(world: &World) {
        let story = working(world);
        let first = deliver(&story, "ada");
        assert_eq!((first.form, first.receipt), (Form::Full, Receipt::Offered { at: world.clock.now() }));
        assert!(first.text.starts_with("## Recovery Context"));
        story.pass_minutes(1);
        let second = deliver(&story, "ada");
        assert_eq!((second.form, second.text == first.text, second.receipt), (Form::Full, true, first.receipt), "repeated, and offered when it was");
        for _ in 0..3 {
            let line = deliver(&story, "ada");
            let mission = &line.facts.mission_id;
            assert_eq!((line.form, line.text), (Form::Line, format!("Flightline: your briefing for `{mission}` is waiting: `fleet context --full --agent ada --mission {mission}`")));
            assert_eq!(line.nonce, first.nonce);
        }
        assert_eq!(story.events_of("briefing_offered").len() + story.events_of("briefing_repeated").len(), 2);
        assert_eq!(story.all::<Briefing>().len(), 1);
    }

    fn what_was_acknowledged_is_not_repeated(world: &World) {
        let story = working(world);
        let first = deliver(&story, "ada");
        acknowledge(&story, "ada", &first.nonce);
        let line = deliver(&story, "ada");
        let mission = &line.facts.mission_id;
        assert_eq!(line.text, format!("Flightline: your briefing for `{mission}` is acknowledged, and here again: `fleet context --full --agent ada --mission {mission}`"));
        assert_eq!(line.receipt, Receipt::Acknowledged { at: world.clock.now() });
    }

    fn a_caller_that_asks_for_all_of_it_gets_all_of_it(world: &World) {
        let story = working(world);
        for _ in 0..3 {
            deliver(&story, "ada");
        }
        for _ in 0..3 {
            let asked = in_full(&story, "ada");
            assert_eq!((asked.form, asked.text.starts_with("## Recovery Context")), (Form::Full, true));
        }
        assert_eq!(status(&story, "ada"), said("offered", 2), "what was asked for is not counted");
    }

    fn work_that_goes_on_does_not_bring_it_back_in_full(world: &World) {
        let story = working(world);
        let forms: Vec<Form> = (0..4).map(|number| {
            story.send("bob", &["ada"], &format!("News {number}")).unwrap();
            deliver(&story, "ada").form
        }).collect();
        assert_eq!(forms, [Form::Full, Form::Full, Form::Line, Form::Line], "another revision is not another context");
        let receipts: Vec<&str> = story.all::<Briefing>().iter().map(|one| one.receipt.as_str()).collect();
        assert_eq!(receipts, ["expired", "offered"]);
    }

    fn each_compaction_begins_anew(world: &World) {
        let story = working(world);
        let old = deliver(&story, "ada");
        for _ in 0..3 {
            deliver(&story, "ada");
        }
        let lost = story.compact("ada");
        assert_eq!((lost.agent.as_str(), lost.context, lost.missions.len()), ("ada", 1, 1));
        assert_eq!(status(&story, "ada"), said("pending", 0));
        assert_eq!(story.all::<Briefing>()[0].receipt.as_str(), "expired", "it was offered to a context that is gone");
        let late = AcknowledgeBriefing { nonce: old.nonce.clone() };
        assert_eq!(story.run("ada", &late).unwrap_err().code, Code::IllegalTransition);
        let new = deliver(&story, "ada");
        assert_eq!((new.form, deliver(&story, "ada").form, deliver(&story, "ada").form), (Form::Full, Form::Full, Form::Line));
        assert_ne!(new.nonce, old.nonce);
        assert_eq!(story.agent("ada").epoch, 1, "and its session goes on");
    }

    fn each_session_begins_anew(world: &World) {
        let story = working(world);
        let old = deliver(&story, "ada");
        acknowledge(&story, "ada", &old.nonce);
        story.board("ada", Role::Specialist, 17);
        assert_eq!(status(&story, "ada"), said("pending", 0));
        assert_eq!(deliver(&story, "ada").form, Form::Full);
        assert_eq!(story.all::<Briefing>()[0].receipt.as_str(), "acknowledged", "what was read stays read");
    }

    fn everybody_sees_who_really_got_theirs(world: &World) {
        let story = working(world);
        assert_eq!((status(&story, "ada"), status(&story, "bob"), status(&story, "control")), (None, None, None), "nobody lost anything");
        for agent in ["ada", "bob", "control"] {
            story.compact(agent);
        }
        let read = deliver(&story, "ada");
        acknowledge(&story, "ada", &read.nonce);
        let at = world.clock.now();
        story.pass_minutes(1);
        deliver(&story, "bob");
        let view = standing(&story, "ada").unwrap();
        assert_eq!((view.status.as_str(), view.at, view.deliveries, view.mission_id.is_some()), ("acknowledged", Some(at), 1, true));
        assert_eq!((status(&story, "bob"), status(&story, "control")), (said("offered", 1), said("pending", 0)));
        let shown = story.run("", &show_status()).unwrap();
        let all: Vec<Option<String>> = shown.agents.into_iter().map(|view| view.briefing.map(|it| it.status)).collect();
        assert_eq!(all, ["pending", "acknowledged", "offered"].map(|word| Some(word.to_owned())), "control, ada and bob");
    }

    fn who_has_nothing_to_do_waits_for_no_briefing(world: &World) {
        let story = working(world);
        story.board("eve", Role::Specialist, 9);
        story.board("eve", Role::Specialist, 10);
        assert_eq!(status(&story, "eve"), None);
        story.compact("ada");
        story.change("ada", "Endpoint", DONE).unwrap();
        assert_eq!(status(&story, "ada"), None, "nor who is done");
        story.run("", &retire("ada")).unwrap();
        assert_eq!(status(&story, "ada"), None);
    }

    fn a_client_that_says_so_is_evidence(world: &World) {
        let story = working(world);
        let taken = story.checkpoint_for("ada", Reason::PreCompact).unwrap();
        story.pass_minutes(2);
        story.beat("bob").unwrap();
        story.compact("ada");
        let event = story.events_of("context_compacted").pop().unwrap();
        assert_eq!((event.actor.as_str(), event.subject_kind), ("flightline", Kind::Mission));
        assert_eq!(event.data, json!({
            "mission_id": taken.mission_id, "last_activity_at": "2026-01-04T12:00:00.000Z", "inactivity_duration_ms": 120_000,
            "checkpoint_available": true, "checkpoint_id": taken.id, "evidence": "hook", "agent": "ada",
        }));
        assert_eq!(story.events_of("agent_compacted").pop().unwrap().data, json!({ "context": 1, "evidence": "hook" }));
    }

    fn a_new_session_of_one_that_had_work_is_evidence(world: &World) {
        let story = working(world);
        story.board("ada", Role::Specialist, 17);
        let evidence: Vec<serde_json::Value> = story.events_of("context_compacted").into_iter().map(|event| json!([event.data["evidence"], event.data["agent"]])).collect();
        assert_eq!(evidence, [json!(["new_epoch", "ada"])]);
        assert_eq!((story.agent("ada").epoch, story.agent("ada").context), (2, 0));
        story.board("control", Role::Dispatch, 18);
        assert_eq!(story.events_of("context_compacted").len(), 2, "a coordinator has work, too");
        story.board("eve", Role::Specialist, 9);
        story.board("eve", Role::Specialist, 10);
        assert_eq!(story.events_of("context_compacted").len(), 2, "and who has none lost none");
    }

    fn the_same_session_registering_again_lost_nothing(world: &World) {
        let story = working(world);
        let again = RegisterAgent { session: Some(title("s-1")), ..registration("ada") };
        story.run("", &again).unwrap();
        let rev = story.events_of("context_compacted").len();
        story.run("", &again).unwrap();
        assert_eq!(story.events_of("context_compacted").len(), rev);
    }

    fn a_silence_after_it_is_told_all_the_same(world: &World) {
        let story = working(world);
        story.checkpoint();
        story.compact("ada");
        story.pass_minutes(6);
        assert_eq!(story.detect("", vec![]).len(), 1);
        let evidence: Vec<serde_json::Value> = story.events_of("context_compacted").into_iter().map(|event| event.data["evidence"].clone()).collect();
        assert_eq!(evidence, ["hook", "inactivity"]);
        story.detect("", vec![]);
        assert_eq!(story.events_of("context_compacted").len(), 2, "once");
    }

    fn dispatch_is_told_of_others_and_not_of_itself(world: &World) {
        let story = working(world);
        story.compact("ada");
        story.compact("control");
        story.board("bob", Role::Specialist, 18);
        story.with_fleet(|fleet| relay(fleet, &caller(""))).unwrap();
        let told: Vec<String> = story.mail_of("control").into_iter().filter(|subject| subject.contains("lost its context")).collect();
        assert!(told.len() == 1 && told[0].ends_with(" finds that bob lost its context (new epoch) (the newest of 2)"), "{told:?}");
    }

    fn it_is_no_activity_of_the_mission(world: &World) {
        let story = working(world);
        let first = story.checkpoint();
        story.compact("ada");
        assert_eq!(story.checkpoint().id, first.id, "nor a change");
    }

    fn only_the_agent_itself_or_the_one_in_charge_may_say_so(world: &World) {
        let story = working(world);
        let report = ReportCompaction { agent: Some("ada".to_owned()), evidence: CompactionEvidence::Hook };
        assert_eq!(story.run("bob", &report).unwrap_err().code, Code::NotYours);
        assert_eq!(story.run("", &report).unwrap().context, 1);
        assert_eq!(story.run("control", &report).unwrap().context, 2);
        let nobody = ReportCompaction { agent: None, evidence: CompactionEvidence::Hook };
        assert_eq!(story.run("", &nobody).unwrap_err().code, Code::InvalidInput);
    }

    fn a_damaged_mission_keeps_nobody_from_coming_back(world: &World) {
        let story = working(world);
        let id = story.all::<Mission>()[0].id.to_string();
        damage::live(world, Kind::Mission, &id);
        story.board("ada", Role::Specialist, 17);
        assert_eq!(story.agent("ada").epoch, 2);
    }
}
