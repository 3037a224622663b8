//! Every operation, asked for with a token of scope `agent` that names another agent. There is no door here: what
//! is refused is refused by the operation's own transaction, so that every transport has it.

use Meaning::{Addresses, Another, Coordinates, SpeaksFor};
use flightline::Access;
use flightline::core::Name;
use flightline::core::count::{self, Work};
use flightline::core::event::sha256_hex;
use flightline::core::token::{Presented, Scope};
use flightline::registry::{CallContext, Called, find, operations, value_of};
use flightline::token::CreateToken;
use flightline_testkit::prelude::*;
use schemars::SchemaGenerator;
use serde_json::{Value, json};

/// The fields of requests that can name an agent, by their names.
const NAMING: [&str; 9] = [
    "action", "agent", "by", "dispatch", "from", "name", "owner", "reviewer", "to",
];

/// What an operation makes of such a field.
#[derive(Clone, Copy, PartialEq)]
enum Meaning {
    /// Whom it speaks for.
    SpeaksFor,
    /// For coordinators, for any name.
    Coordinates,
    /// Who is written to or given something.
    Addresses,
    /// Something else than an agent.
    Another,
}

/// Every such field of what a token of scope `agent` may ask for. `NAMED` is an agent's name in it.
fn fields() -> Vec<(&'static str, &'static str, Meaning, Value)> {
    let late = json!({
        "operation": "update_sortie", "said": "x", "asked_at": "2026-01-04T12:00:00Z", "agent": "NAMED",
        "mission": null, "sortie": null, "code": "fenced", "why": "y",
    });
    vec![
        (
            "move_sortie",
            "to",
            Another,
            json!({ "sortie": "srt-1a2b", "to": "first" }),
        ),
        (
            "register_agent",
            "name",
            SpeaksFor,
            json!({ "name": "NAMED" }),
        ),
        (
            "update_agent",
            "agent",
            SpeaksFor,
            json!({ "agent": "NAMED" }),
        ),
        (
            "retire_agent",
            "agent",
            SpeaksFor,
            json!({ "agent": "NAMED" }),
        ),
        (
            "resume_agent",
            "agent",
            SpeaksFor,
            json!({ "agent": "NAMED" }),
        ),
        (
            "end_session",
            "agent",
            SpeaksFor,
            json!({ "agent": "NAMED" }),
        ),
        ("full_sync", "agent", SpeaksFor, json!({ "agent": "NAMED" })),
        (
            "report_compaction",
            "agent",
            SpeaksFor,
            json!({ "agent": "NAMED", "evidence": "hook" }),
        ),
        (
            "add_review",
            "reviewer",
            SpeaksFor,
            json!({ "sortie": "srt-ffff", "reviewer": "NAMED" }),
        ),
        (
            "create_mission",
            "dispatch",
            SpeaksFor,
            json!({ "title": "M", "dispatch": "NAMED", "states": {}, "sorties": [] }),
        ),
        (
            "update_mission",
            "dispatch",
            Coordinates,
            json!({ "dispatch": "NAMED" }),
        ),
        ("record_late", "agent", SpeaksFor, late),
        (
            "send_mail",
            "to",
            Addresses,
            json!({ "to": ["NAMED"], "subject": "x" }),
        ),
        (
            "change_sortie",
            "action",
            Addresses,
            json!({ "sortie": "srt-ffff", "action": { "assign": { "to": "NAMED" } } }),
        ),
        (
            "change_mission",
            "to",
            Another,
            json!({ "to": "in_progress" }),
        ),
        (
            "transition_mission",
            "to",
            Another,
            json!({ "to": "building", "pending": false }),
        ),
    ]
}

/// A token, and the caller that comes with it.
pub(crate) fn guest(world: &World, token: &str, scope: Scope, agent: &str) -> Caller {
    let name = |text: &str| Name::parse("name", text).unwrap();
    let secret = sha256_hex(token);
    let given = world
        .run(
            "",
            &CreateToken {
                name: name(token),
                scope,
                agent: (scope == Scope::Agent).then(|| name(agent)),
                expires_in_ms: None,
                sha256: sha256_hex(&secret),
            },
        )
        .unwrap();
    let written = flightline::core::token::written(&given.project, given.id, &secret);
    Caller {
        agent: Some(agent.to_owned()),
        user: token.to_owned(),
        token: Some(Presented::parse(&written).unwrap()),
        ..Caller::default()
    }
}

fn ask(world: &World, caller: &Caller, name: &str, request: &Value) -> Result<Value, Refusal> {
    let request = request.to_string();
    let ask = CallContext {
        caller,
        folder: world.folder(),
        rehearse: false,
    };
    // It is read once, before it is run, however often that is.
    let before = count::so_far(Work::Request);
    let read = find(name)?.read(&request)?;
    assert_eq!(count::so_far(Work::Request), before + 1, "{name}");
    let called = Called::from(read.run(&mut world.fleet(), &ask));
    assert_eq!(count::so_far(Work::Request), before + 1, "{name}");
    value_of(&called.outcome?.now()?)
}

fn code(outcome: Result<Value, Refusal>) -> Option<Code> {
    outcome.err().map(|refusal| refusal.code)
}

#[test]
fn every_field_that_can_name_an_agent_says_whether_it_speaks_for_it() {
    let known = fields();
    for entry in operations() {
        // What only looks, or is for those who coordinate, speaks for nobody that it might not.
        if entry.access == Access::Read || entry.scope > Scope::Agent {
            continue;
        }
        let schema = (entry.request)(&mut SchemaGenerator::default()).to_value();
        let properties = schema["properties"].as_object();
        for field in properties
            .into_iter()
            .flat_map(|properties| properties.keys())
        {
            let decided = known
                .iter()
                .any(|(name, known, ..)| *name == entry.name && known == field);
            assert!(
                decided || !NAMING.contains(&field.as_str()),
                "`{}` of `{}` can name an agent: say in `fields` what it means, and in `ACTS_FOR`",
                field,
                entry.name
            );
        }
    }
}

both_engines! {
    fn a_token_speaks_for_its_own_agent_in_every_operation(world: &World) {
        let story = Story::new(world);
        story.mission("M", &["One"]);
        for agent in ["ada", "bob"] {
            story.run("", &registration(agent)).unwrap();
        }
        let bob = story.agent("bob").id.to_string();
        let ada = guest(world, "adas", Scope::Agent, "ada");
        let boss = guest(world, "boss", Scope::Dispatch, "ada");
        let with = |body: &Value, agent: &str| -> Value {
            serde_json::from_str(&body.to_string().replace("NAMED", agent)).unwrap()
        };
        for (name, field, meaning, body) in fields() {
            let refused = |caller: &Caller, agent: &str| code(ask(world, caller, name, &with(&body, agent))) == Some(Code::Forbidden);
            let what = format!("{name}, {field}");
            assert_eq!(refused(&ada, "bob"), matches!(meaning, SpeaksFor | Coordinates), "{what}");
            if meaning == SpeaksFor {
                assert!(refused(&ada, "nobody-here"), "{what}");
                // A name cannot be an id where an agent is made or named for the first time.
                assert!(name == "register_agent" || refused(&ada, &bob), "{what}");
            }
            assert!(!refused(&boss, "bob"), "{what}");
            assert_eq!(refused(&ada, "ada"), meaning == Coordinates, "{what}");
            // Nor does it come as somebody else, or as a person.
            for agent in [Some("bob".to_owned()), Some(bob.clone()), None] {
                let other = Caller { agent, ..ada.clone() };
                assert!(refused(&other, "ada"), "{what}");
            }
        }
    }

    fn a_refused_request_is_no_sign_of_life_of_the_agent_it_names(world: &World) {
        let story = Story::new(world);
        story.run("", &registration("bob")).unwrap();
        let ada = guest(world, "adas", Scope::Agent, "ada");
        let before = serde_json::to_string(&world.store().read(|tx| tx.pulses()).unwrap().iter().map(|pulse| pulse.at).collect::<Vec<_>>()).unwrap();
        world.pass(std::time::Duration::from_secs(60));
        let as_bob = Caller { agent: Some("bob".to_owned()), ..ada };
        assert_eq!(code(ask(world, &as_bob, "open_inbox", &json!({ "all": false, "limit": 1 }))), Some(Code::Forbidden));
        let after = serde_json::to_string(&world.store().read(|tx| tx.pulses()).unwrap().iter().map(|pulse| pulse.at).collect::<Vec<_>>()).unwrap();
        assert_eq!(after, before);
    }

    fn an_agents_word_does_not_make_another_dead(world: &World) {
        let story = Story::new(world);
        let bob = RegisterAgent { process: Some(process(7)), ..registration("bob") };
        story.run("", &bob).unwrap();
        story.run("", &registration("ada")).unwrap();
        story.lock("bob", &["a.rs"]).unwrap();
        let forged = AcquireLocks { sightings: story.seen(false, &["bob"]), ..locks_on(&["a.rs"]) };
        let forged = serde_json::to_value(&forged).unwrap();
        let ada = guest(world, "adas", Scope::Agent, "ada");
        assert_eq!(code(ask(world, &ada, "acquire_locks", &forged)), Some(Code::LockHeld));
        let seen = json!({ "sightings": forged["sightings"] });
        let shown = ask(world, &ada, "list_agents", &seen).unwrap().to_string();
        assert!(!shown.contains("process 7 is gone"), "{shown}");
        // Those who coordinate are believed, and so is the fleet's own machine.
        let boss = guest(world, "boss", Scope::Dispatch, "ada");
        let shown = ask(world, &boss, "list_agents", &seen).unwrap().to_string();
        assert!(shown.contains("process 7 is gone"), "{shown}");
        ask(world, &boss, "acquire_locks", &forged).unwrap();
    }

    fn a_mission_is_stopped_and_taken_up_again_by_those_who_coordinate(world: &World) {
        let story = Story::new(world);
        let mission = story.mission("M", &["One"]).mission.id;
        let ada = guest(world, "adas", Scope::Agent, "ada");
        let boss = guest(world, "boss", Scope::Dispatch, "ada");
        let change = |caller: &Caller, to: MissionStatus| {
            code(ask(world, caller, "change_mission", &json!({ "mission": mission, "to": to, "reason": "x" })))
        };
        let stops = [MissionStatus::Paused, MissionStatus::Completed, MissionStatus::Failed, MissionStatus::Archived];
        for to in stops {
            assert_eq!(change(&ada, to), Some(Code::Forbidden), "{to:?}");
        }
        assert_eq!(change(&ada, MissionStatus::InProgress), None);
        for to in stops {
            assert_eq!(change(&ada, to), Some(Code::Forbidden), "{to:?}");
        }
        assert_eq!(change(&boss, MissionStatus::Paused), None);
        assert_eq!(change(&ada, MissionStatus::InProgress), Some(Code::Forbidden));
        assert_eq!(change(&boss, MissionStatus::InProgress), None);
        assert_eq!(change(&boss, MissionStatus::Failed), None);
    }

    fn an_agents_token_makes_nobody_coordinate(world: &World) {
        let ada = guest(world, "adas", Scope::Agent, "ada");
        let as_dispatch = json!({ "name": "ada", "role": "dispatch" });
        assert_eq!(code(ask(world, &ada, "register_agent", &as_dispatch)), Some(Code::Forbidden));
        assert_eq!(code(ask(world, &ada, "register_agent", &json!({ "name": "ada", "role": "specialist" }))), None);
    }

    fn what_came_too_late_is_told_by_the_caller_that_brings_it(world: &World) {
        let story = Story::new(world);
        story.mission("M", &["One"]);
        story.run("", &registration("ada")).unwrap();
        let ada = guest(world, "adas", Scope::Agent, "ada");
        let late = fields().into_iter().find(|(name, ..)| *name == "record_late").unwrap().3;
        for agent in [Value::Null, json!("ada")] {
            let mut late = late.clone();
            late["agent"] = agent;
            let noted = ask(world, &ada, "record_late", &late).unwrap();
            assert_eq!(noted["author"], "ada");
        }
        let told = ask(world, &ada, "peek_inbox", &json!({ "agent": "dispatch", "all": true, "limit": 9 })).unwrap();
        let from = |told: &Value| told["message"]["from"].as_str().unwrap().to_owned();
        assert_eq!(told.as_array().unwrap().iter().map(from).collect::<Vec<_>>(), ["ada", "ada"]);
        let events = ask(world, &ada, "list_events", &json!({ "limit": 100, "story": false })).unwrap();
        let late = events["events"].as_array().unwrap().iter().filter(|event| event["type"] == "note_added");
        assert!(late.clone().count() == 2 && late.clone().all(|event| event["actor"] == "ada"), "{events}");
    }

    fn errands_need_their_scope_without_a_door(world: &World) {
        let ada = guest(world, "adas", Scope::Agent, "ada");
        assert_eq!(code(ask(world, &ada, "after_write", &json!({ "heartbeat": false }))), Some(Code::Forbidden));
        // What an errand does on the way is its own affair.
        assert_eq!(code(ask(world, &ada, "settle_backups", &json!({}))), None);
    }
}
