use serde_json::json;

use super::*;

const ID: &str = "agt-00000000-0000-4000-8000-000000000001";

fn remains(kind: Kind, id: &str) -> Remains<'_> {
    Remains {
        kind,
        id,
        former: None,
        columns: None,
        event: None,
        mission: None,
        data: json!({}),
        changes: 1,
        recipients: Vec::new(),
        highest_epoch: 3,
        rev: 40,
        now: Time::from_millis(1_000),
    }
}

fn value<T: DeserializeOwned>(remains: &Remains<'_>) -> T {
    match stand_in(remains) {
        Some(StandIn::Made(text)) => read_stored(&text).unwrap(),
        other => panic!("{other:?}"),
    }
}

fn named(name: &str, status: &str) -> Option<FoundBy> {
    Some(FoundBy {
        name: Some(name.to_owned()),
        status: status.to_owned(),
        ..FoundBy::default()
    })
}

#[test]
fn an_agent_comes_back_without_its_session_and_above_every_epoch() {
    let id: AgentId = ID.parse().unwrap();
    let name = Name::parse("name", "ada").unwrap();
    let former = serde_json::to_string(&Agent {
        epoch: 2,
        session_id: Some(Title::parse("session", "s-1").unwrap()),
        ..Agent::new(id, name, Role::Dispatch, Time::from_millis(1))
    });
    let former = former.unwrap();
    let agent: Agent = value(&Remains {
        former: Some(&former),
        columns: named("ada", "idle"),
        ..remains(Kind::Agent, ID)
    });
    assert_eq!((agent.epoch, agent.role), (1_003, Role::Specialist));
    assert_eq!((agent.session_id, agent.retired_at), (None, None));

    for (columns, name) in [(named("ada", "retired"), "ada"), (None, "lost-00000000")] {
        let made: Agent = value(&Remains {
            columns,
            ..remains(Kind::Agent, ID)
        });
        assert_eq!((made.name.as_str(), made.epoch), (name, 1_003));
        assert!(made.retired_at.is_some());
    }
}

#[test]
fn a_mission_keeps_its_status_and_waits_for_a_person_where_that_is_lost() {
    let id = "msn-00000000-0000-4000-8000-000000000001";
    let title = Title::parse("title", "Add login").unwrap();
    let former = serde_json::to_string(&Mission {
        status: MissionStatus::InProgress,
        dispatch: ID.parse().ok(),
        timeline: 2,
        ..Mission::new(id.parse().unwrap(), title, Time::from_millis(1))
    });
    let former = former.unwrap();
    for (status, then) in [
        (Some("completed"), MissionStatus::Completed),
        (Some("in_progress"), MissionStatus::InProgress),
        (None, MissionStatus::Paused),
    ] {
        let mission: Mission = value(&Remains {
            former: Some(&former),
            columns: status.and_then(|status| named("Add login", status)),
            ..remains(Kind::Mission, id)
        });
        assert_eq!((mission.status, mission.dispatch), (then, None));
        assert_eq!(mission.constraints_by, Pinning::Dispatch);
        assert_eq!(mission.timeline, 3);
    }
}

#[test]
fn a_token_is_revoked() {
    let id = "tok-00000000-0000-4000-8000-000000000001";
    let token: Token = value(&Remains {
        columns: named("laptop", "given"),
        ..remains(Kind::Token, id)
    });
    assert_eq!(token.name.as_str(), "laptop");
    assert!(!token.is_valid(Time::from_millis(1_000)));
}

#[test]
fn what_was_acknowledged_or_done_stays_so() {
    let message = "msg-00000000-0000-4000-8000-000000000001";
    let id = format!("{message}/{ID}");
    let delivery: Delivery = value(&Remains {
        columns: named("", "acknowledged"),
        ..remains(Kind::Delivery, &id)
    });
    assert!(matches!(delivery.state, DeliveryState::Acknowledged { .. }));
    // Its event is sound where its columns are not.
    let delivery: Delivery = value(&Remains {
        event: Some(EventType::MessageAcknowledged),
        ..remains(Kind::Delivery, &id)
    });
    assert!(matches!(delivery.state, DeliveryState::Acknowledged { .. }));
    let agent: Agent = value(&Remains {
        event: Some(EventType::AgentRetired),
        columns: named("ada", "idle"),
        ..remains(Kind::Agent, ID)
    });
    assert!(agent.retired_at.is_some());

    let mission = "msn-00000000-0000-4000-8000-000000000001";
    for (status, is_done) in [("done", true), ("intent", false)] {
        let effect: Effect = value(&Remains {
            columns: Some(FoundBy {
                mission: Some(mission.to_owned()),
                ..named("deploy", status).unwrap()
            }),
            ..remains(Kind::Effect, "eff-00000000-0000-4000-8000-000000000001")
        });
        assert_eq!(effect.is_done(), is_done);
    }
    let id = format!("{mission}/1/50");
    let milestone: Milestone = value(&remains(Kind::Milestone, &id));
    assert_eq!((milestone.timeline, milestone.percent), (1, 50));
}

#[test]
fn a_lost_setting_never_lowers_an_epoch_nor_forgets_a_history() {
    let floor: EpochFloor = value(&Remains {
        data: json!({ "above": 5_000 }),
        ..remains(Kind::Setting, EpochFloor::KEY)
    });
    assert_eq!(floor.epoch, 5_000);
    let floor: EpochFloor = value(&remains(Kind::Setting, EpochFloor::KEY));
    assert_eq!(floor.epoch, 1_003);
    let branch: Branch = value(&Remains {
        data: json!({ "before": { "history": "h0", "rev": 7 } }),
        ..remains(Kind::Setting, "history/h1")
    });
    assert_eq!((&*branch.history, &*branch.before), ("h1", "h0"));
    assert_eq!((branch.left_at, branch.epochs_above), (7, 1_003));
    assert_eq!(stand_in(&remains(Kind::Setting, "history/h1")), None);
    let removed = stand_in(&remains(Kind::Setting, "current-mission/user"));
    assert_eq!(removed, Some(StandIn::Removal));
}
