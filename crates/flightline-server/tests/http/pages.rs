//! Lists page by page, and tags: what is not sent twice, and not changed unseen.

use std::collections::BTreeSet;

use flightline::core::token::Scope;
use flightline_testkit::{Engine, World, both_engines, damage};
use serde_json::{Value, json};

use crate::server::{Client, start, token};

/// Everything of a list, in pages of two.
fn all(client: &Client, path: &str, things: &str) -> Vec<Value> {
    let (mut found, mut cursor) = (Vec::new(), None::<String>);
    let join = if path.contains('?') { '&' } else { '?' };
    loop {
        let next = cursor
            .as_ref()
            .map_or(String::new(), |cursor| format!("&cursor={cursor}"));
        let page = client.get(&format!("{path}{join}limit=2{next}")).ok(200);
        let given = page[things]
            .as_array()
            .unwrap_or_else(|| panic!("{path}: {page}"));
        assert!(given.len() <= 2, "{page}");
        found.extend(given.iter().cloned());
        match page["next_cursor"].as_str() {
            Some(text) => cursor = Some(text.to_owned()),
            None => {
                if let Some(total) = page["total"].as_u64() {
                    assert_eq!(total, found.len() as u64, "{path}");
                }
                return found;
            }
        }
    }
}

fn id(value: &Value) -> String {
    value["id"]
        .as_str()
        .unwrap_or_else(|| panic!("{value}"))
        .to_owned()
}

both_engines! {
    fn every_list_is_read_page_by_page(world: &World) {
        let server = start(world);
        let boss = server.with(&token(world, "boss", Scope::Dispatch, None));
        let sorties: Vec<Value> = (1..=5).map(|number| json!({ "title": format!("S{number}") })).collect();
        let mut missions = Vec::new();
        for number in 0..5 {
            let made = boss.post("/api/v1/missions", &json!({ "title": format!("M{number}"), "sorties": sorties })).ok(201);
            missions.push(id(&made["mission"]));
        }
        let mission = &missions[4];
        for number in 0..5 {
            let name = format!("agent-{number}");
            boss.post("/api/v1/agents", &json!({ "name": name })).ok(201);
            let agent = boss.and("fleet-agent", &name);
            agent.post("/api/v1/locks", &json!({ "paths": [format!("src/{number}.rs")] })).ok(201);
            boss.post("/api/v1/messages", &json!({ "to": ["agent-0"], "subject": name })).ok(201);
            boss.post(&format!("/api/v1/missions/{mission}/notes"), &json!({ "kind": "lesson", "text": name })).ok(201);
            agent.post("/api/v1/effects", &json!({ "key": name })).ok(201);
            boss.post("/api/v1/checkpoints", &json!({ "mission_id": mission, "note": name })).ok(201);
        }
        for (path, things, key, count) in [
            ("/api/v1/missions", "missions", "/id", 5),
            (&*format!("/api/v1/missions/{mission}/sorties"), "sorties", "/id", 5),
            (&format!("/api/v1/missions/{mission}/notes"), "notes", "/id", 5),
            ("/api/v1/effects", "effects", "/id", 5),
            ("/api/v1/agents", "agents", "/agent/id", 0),
            ("/api/v1/locks", "locks", "/lock/id", 5),
            ("/api/v1/messages", "messages", "/message/id", 0),
            ("/api/v1/agents/agent-0/inbox", "messages", "/message/id", 5),
            (&format!("/api/v1/checkpoints?mission_id={mission}"), "checkpoints", "/id", 5),
            (&format!("/api/v1/missions/{mission}/timeline"), "events", "/rev", 0),
            ("/api/v1/events", "events", "/rev", 0),
        ] {
            let found = all(&boss, path, things);
            let keys: BTreeSet<String> = found.iter().map(|it| it.pointer(key).unwrap_or_else(|| panic!("{path}: {it}")).to_string()).collect();
            assert_eq!(keys.len(), found.len(), "{path}: nothing twice");
            // The server writes mail and events of its own, and makes a mailbox for them.
            match count {
                0 => assert!(found.len() >= 5, "{path}"),
                count => assert_eq!(found.len(), count, "{path}"),
            }
        }
        let history = boss.get("/api/v1/events?limit=1").ok(200)["cursor"]["history"].as_str().unwrap().to_owned();
        let forwards = all(&boss, &format!("/api/v1/events?after={history}.0"), "events");
        let revs = |events: &[Value]| events.iter().map(|it| it["rev"].as_u64().unwrap()).collect::<Vec<_>>();
        assert_eq!(revs(&forwards), (1..=forwards.len() as u64).collect::<Vec<_>>());
        let back = revs(&all(&boss, "/api/v1/events", "events"));
        assert_eq!(back, (1..=back[0]).rev().collect::<Vec<_>>());
        server.end();
    }

    fn a_list_that_grows_meanwhile_repeats_and_misses_nothing(world: &World) {
        let server = start(world);
        let boss = server.with(&token(world, "boss", Scope::Dispatch, None));
        let make = |title: &str| id(&boss.post("/api/v1/missions", &json!({ "title": title })).ok(201)["mission"]);
        let old: Vec<String> = (0..4).map(|number| make(&format!("M{number}"))).collect();
        let first = boss.get("/api/v1/missions?limit=2").ok(200);
        make("New");
        let cursor = first["next_cursor"].as_str().unwrap();
        let second = boss.get(&format!("/api/v1/missions?limit=2&cursor={cursor}")).ok(200);
        let ids = |page: &Value| page["missions"].as_array().unwrap().iter().map(id).collect::<Vec<_>>();
        assert_eq!(ids(&first), [old[3].clone(), old[2].clone()]);
        assert_eq!(ids(&second), [old[1].clone(), old[0].clone()]);
        assert_eq!((second["total"].as_u64(), second["next_cursor"].as_str()), (Some(5), None));

        // A cursor of another journal, or of one that is ahead, is given no data.
        let (place, key) = cursor.split_once('~').unwrap();
        let history = place.split_once('.').unwrap().0;
        for (wrong, status, code) in [
            (format!("{history}.999999~{key}"), 409, "history_changed"),
            (format!("other.1~{key}"), 409, "history_changed"),
            (format!("{history}.1~msn-00000000-0000-0000-0000-000000000000"), 409, "history_changed"),
            ("nonsense".to_owned(), 400, "invalid_input"),
            (place.to_owned(), 400, "invalid_input"),
        ] {
            let answer = boss.get(&format!("/api/v1/missions?cursor={wrong}"));
            assert_eq!(answer.problem(status), code, "{wrong}");
        }
        for query in ["limit=0", "limit=1001", "limit=x", "limit=1&limit=2", "archived=maybe", "nonsense=1"] {
            assert_eq!(boss.get(&format!("/api/v1/missions?{query}")).problem(400), "invalid_input", "{query}");
        }
        server.end();
    }

    fn what_is_known_is_not_sent_again(world: &World) {
        let server = start(world);
        let boss = server.with(&token(world, "boss", Scope::Dispatch, None));
        let made = boss.post("/api/v1/missions", &json!({ "title": "M", "sorties": [{ "title": "One" }] })).ok(201);
        let mission = format!("/api/v1/missions/{}", id(&made["mission"]));
        let sortie = format!("/api/v1/sorties/{}", id(&made["sorties"][0]));
        let checkpoint = boss.post("/api/v1/checkpoints", &json!({})).ok(201);
        let checkpoint = format!("/api/v1/checkpoints/{}", id(&checkpoint["checkpoint"]));
        for path in [mission.as_str(), &sortie, &checkpoint, "/api/v1/missions", "/api/v1/checkpoints"] {
            // The server writes the checkpoint's file meanwhile, and says so: then there is something new.
            let known = (0..50).find_map(|_| {
                let first = boss.get(path);
                let tag = first.header("etag").unwrap_or_else(|| panic!("{path}: {first:?}")).to_owned();
                let again = boss.and("if-none-match", &tag).get(path);
                let weak = boss.and("if-none-match", &format!("\"x\", W/{tag}")).get(path);
                (again.status == 304 && weak.status == 304).then_some((tag, again))
            });
            let (tag, again) = known.unwrap_or_else(|| panic!("{path} is new each time"));
            assert_eq!((again.text.as_str(), again.header("etag")), ("", Some(tag.as_str())));
            assert!(again.header("x-request-id").is_some());
            assert_eq!(boss.and("if-none-match", "\"x\"").get(path).status, 200, "{path}");
        }
        // What changed is sent: the mission's own tag stays, what is told of it does not.
        let tag = boss.get(&mission).header("etag").unwrap().to_owned();
        boss.and("fleet-agent", "ada").post(&format!("{sortie}/claim"), &json!({})).ok(200);
        assert_eq!(boss.and("if-none-match", &tag).get(&mission).status, 200);
        server.end();
    }

    fn what_changed_since_it_was_read_is_not_written_over(world: &World) {
        let server = start(world);
        let boss = server.with(&token(world, "boss", Scope::Dispatch, None));
        let made = boss.post("/api/v1/missions", &json!({ "title": "M", "sorties": [{ "title": "One" }, { "title": "Two" }] })).ok(201);
        let mission = format!("/api/v1/missions/{}", id(&made["mission"]));
        let sortie = format!("/api/v1/sorties/{}", id(&made["sorties"][0]));
        let checkpoint = boss.post("/api/v1/checkpoints", &json!({})).ok(201);
        let checkpoint = format!("/api/v1/checkpoints/{}", id(&checkpoint["checkpoint"]));
        let tag = |path: &str| boss.get(path).header("etag").unwrap().to_owned();

        let (first, second) = (tag(&mission), boss.get(&mission));
        let patch = |if_match: &str, title: &str| {
            boss.and("if-match", if_match).send("PATCH", &mission, Some(&json!({ "title": title }).to_string()))
        };
        let done = patch(&first, "Renamed");
        assert_eq!(done.status, 200, "{done:?}");
        let new = done.header("etag").unwrap().to_owned();
        assert_eq!(patch(&first, "Lost").problem(412), "changed");
        assert_eq!(patch(second.header("etag").unwrap(), "Lost").problem(412), "changed");
        assert_eq!(boss.get(&mission).json()["mission"]["title"], "Renamed");
        assert_eq!(patch(&format!("\"nonsense\", {new}"), "Again").status, 200);
        assert_eq!(patch("*", "Once more").status, 200);
        assert_eq!(patch(&format!("W/{}", tag(&mission)), "Lost").problem(412), "changed");
        assert_eq!(patch("nonsense", "Lost").problem(412), "changed");

        // Transitions of a sortie, and what is part of it.
        let seen = tag(&sortie);
        let ada = boss.and("fleet-agent", "ada");
        ada.and("if-match", &seen).post(&format!("{sortie}/claim"), &json!({})).ok(200);
        let late = ada.and("if-match", &seen).post(&format!("{sortie}/complete"), &json!({}));
        assert_eq!(late.problem(412), "changed");
        let seen = tag(&sortie);
        ada.post(&format!("{sortie}/error"), &json!({ "kind": "flaky", "message": "x" })).ok(200);
        assert_eq!(ada.and("if-match", &seen).post(&format!("{sortie}/complete"), &json!({})).problem(412), "changed");

        // Seed A's.
        let seen = tag(&checkpoint);
        boss.send("PATCH", &checkpoint, Some(&json!({ "note": "mine" }).to_string())).ok(200);
        assert_eq!(boss.and("if-match", &seen).delete(&checkpoint).problem(412), "changed");
        let recover = boss.and("if-match", &seen).post(&format!("{checkpoint}/recover"), &json!({}));
        assert_eq!(recover.problem(412), "changed");
        assert_eq!(boss.and("if-match", &tag(&checkpoint)).delete(&checkpoint).status, 204);

        // Where there is no one thing, it cannot be asked for.
        assert_eq!(boss.and("if-match", "*").post("/api/v1/missions", &json!({ "title": "x" })).problem(400), "invalid_input");
        assert_eq!(boss.and("if-match", "*").op("list_missions", &json!({ "limit": 1 })).problem(400), "invalid_input");
        server.end();
    }
}

#[test]
fn of_many_who_saw_the_same_one_writes() {
    let world = World::new(Engine::Sqlite);
    let server = start(&world);
    let boss = server.with(&token(&world, "boss", Scope::Dispatch, None));
    let made = boss
        .post("/api/v1/missions", &json!({ "title": "M" }))
        .ok(201);
    let mission = format!("/api/v1/missions/{}", id(&made["mission"]));
    let tag = boss.get(&mission).header("etag").unwrap().to_owned();
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|number| {
                let (client, mission) = (boss.and("if-match", &tag), &mission);
                scope.spawn(move || {
                    let body = json!({ "title": format!("By {number}") }).to_string();
                    client.send("PATCH", mission, Some(&body)).status
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    let count = |status| statuses.iter().filter(|it| **it == status).count();
    assert_eq!((count(200), count(412)), (1, 7), "{statuses:?}");
    server.end();
}

#[test]
fn a_list_goes_on_after_a_failover() {
    let world = World::new(Engine::Postgres);
    let server = start(&world);
    let boss = server.with(&token(&world, "boss", Scope::Dispatch, None));
    let make = |title: &str| {
        let made = boss.post("/api/v1/missions", &json!({ "title": title }));
        id(&made.ok(201)["mission"])
    };
    let old: Vec<String> = (0..4).map(|number| make(&format!("M{number}"))).collect();
    let first = boss.get("/api/v1/missions?limit=2").ok(200);
    let cursor = first["next_cursor"].as_str().unwrap();
    damage::fail_over(&world);
    make("New");
    let next = |cursor: &str| boss.get(&format!("/api/v1/missions?limit=2&cursor={cursor}"));
    let second = next(cursor).ok(200);
    let ids: Vec<String> = second["missions"]
        .as_array()
        .unwrap()
        .iter()
        .map(id)
        .collect();
    assert_eq!(ids, [old[1].clone(), old[0].clone()]);
    // One that was given in a part that is lost gets no data.
    let (place, key) = cursor.split_once('~').unwrap();
    let (history, rev) = place.split_once('.').unwrap();
    let lost = format!("{history}.{}~{key}", rev.parse::<u64>().unwrap() + 1_000);
    assert_eq!(next(&lost).problem(409), "history_changed");
    server.end();
}
