//! The database's machine dies, and its replica takes its place. A synchronous one has everything that was
//! acknowledged. One that lags has not, and then nobody may go on reading as if nothing had happened.
//! `scripts/failover` runs this and prints its table.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::chaos::chance::{self, Chance};
use crate::chaos::cluster::Cluster;
use crate::chaos::commits::note;
use crate::chaos::http::{Http, Request, Said};
use crate::chaos::node::{Node, Site};
use crate::chaos::run::{place, run, serves_again};
use crate::chaos::stream::{StreamPosition, peek};

/// Both of them: whichever takes writes.
fn either(primary: &Cluster, standby: &Cluster) -> String {
    format!(
        "postgres://postgres@127.0.0.1:{},127.0.0.1:{}/postgres?target_session_attrs=read-write",
        primary.port, standby.port
    )
}

#[test]
fn a_synchronous_replica_has_everything_that_was_acknowledged() {
    let chance = Chance::new(chance::seed());
    let primary = Cluster::start();
    let standby = primary.standby();
    primary.sql("ALTER SYSTEM SET synchronous_standby_names = '*'");
    primary.sql("SELECT pg_reload_conf()");
    primary.until("SELECT sync_state FROM pg_stat_replication", "sync");
    let site = Site::new(either(&primary, &standby));
    let nodes: Vec<Node> = ["one", "two", "three"]
        .iter()
        .map(|name| site.node(name, either(&primary, &standby)))
        .collect();
    let mut rows = Vec::new();
    let figures = run(&site, &nodes, &chance, |crowd| {
        crowd.ledger.wait_for(300);
        rows.push((
            "acknowledged before the primary died",
            crowd.ledger.acknowledged().to_string(),
        ));
        let died = Instant::now();
        primary.kill();
        // Somebody has to notice.
        thread::sleep(Duration::from_secs(1));
        let before = crowd.ledger.acknowledged();
        let promoted = Instant::now();
        standby.promote();
        rows.push((
            "the primary is killed; until the replica takes writes",
            seconds(died.elapsed()),
        ));
        let first = crowd.ledger.wait_for(1);
        rows.push((
            "… until a client's write is acknowledged again",
            seconds(first),
        ));
        let http = Http::new(&site.token, Chance::new(1));
        for node in &nodes {
            serves_again(&http, node);
        }
        rows.push((
            "… until all three servers serve again",
            seconds(promoted.elapsed()),
        ));
        crowd.ledger.wait_for(300);
        let after = crowd.ledger.acknowledged() - before;
        rows.push(("acknowledged after it", after.to_string()));
    });
    assert_eq!(
        figures.histories, 1,
        "every reader passed from one to the next"
    );
    rows.extend([
        (
            "acknowledged in all, each there once at every server",
            figures.acknowledged.to_string(),
        ),
        ("lost, doubled", "0, 0".to_owned()),
        (
            "left open by clients who did not ask again: there once or not at all",
            figures.unanswered.to_string(),
        ),
        ("asked again with the same key", figures.repeats.to_string()),
        (
            "locks granted, each fence once and larger than those before",
            figures.locks.to_string(),
        ),
        (
            "revisions, each read once and in order by every reader",
            figures.revisions.to_string(),
        ),
    ]);
    println!("\n| failover to a synchronous replica, 3 servers, 64 clients | |\n|---|---|");
    for (what, figure) in rows {
        println!("| {what} | {figure} |");
    }
}

fn seconds(span: Duration) -> String {
    format!("{:.1} s", span.as_secs_f64())
}

/// A lock, by an agent of its own: its fence.
fn fence(http: &mut Http, nodes: &[Node], agent: &str) -> u64 {
    let request = Request {
        path: "/locks".to_owned(),
        body: json!({ "paths": [format!("src/{agent}.rs")], "ttl_ms": 3_600_000 }),
        key: format!("lock of {agent}"),
        agent: Some(agent.to_owned()),
    };
    let until = Instant::now() + Duration::from_secs(30);
    match http.settle(nodes, &request, until) {
        Said::Done(answer) => answer[0]["lock"]["fence"].as_u64().unwrap(),
        other => panic!("{agent}: {other:?}"),
    }
}

#[test]
fn what_a_replica_that_lagged_never_had_is_refused_for_good() {
    let primary = Cluster::start();
    let standby = primary.standby();
    let site = Site::new(either(&primary, &standby));
    let nodes = [site.node("one", either(&primary, &standby))];
    let mut http = Http::new(&site.token, Chance::new(1));
    let write = |http: &mut Http, text: &str| {
        let until = Instant::now() + Duration::from_secs(30);
        let said = http.settle(&nodes, &note(text), until);
        assert!(matches!(said, Said::Done(_)), "{said:?}");
    };
    write(&mut http, "both have it");
    let kept = fence(&mut http, &nodes, "ada");
    let reached = primary.sql("SELECT pg_current_wal_lsn()").unwrap();
    let replayed = format!("SELECT pg_last_wal_replay_lsn() >= '{reached}'");
    standby.until(&replayed, "t");
    let look = Http::new(&site.token, Chance::new(1));
    let common = place(&look, &nodes[0]);
    // From here on it gets nothing.
    standby.sql("ALTER SYSTEM SET primary_conninfo = ''");
    standby.sql("SELECT pg_reload_conf()");
    standby.until("SELECT count(*) FROM pg_stat_wal_receiver", "0");
    for number in 0..10 {
        write(&mut http, &format!("only the primary has {number}"));
    }
    let lost = fence(&mut http, &nodes, "bob");
    assert!(lost > kept);
    let ahead = place(&look, &nodes[0]);
    assert!(ahead.rev >= common.rev + 11);
    primary.kill();
    standby.promote();
    write(&mut http, "after it");

    let after = |place: &StreamPosition| {
        let after = json!({ "history": place.history, "rev": place.rev });
        let ask = json!({ "after": after, "limit": 1_000 });
        look.look(&nodes[0], "list_events", ask)
    };
    // Also when there is far more than the other ever had.
    for round in 0..3 {
        match after(&ahead) {
            Said::Refused(code, why) => {
                assert_eq!(code, "history_changed");
                let hint = why["hint"].as_str().unwrap();
                assert!(hint.contains("fleet events tail --after "), "{why}");
            }
            other => panic!("{other:?}"),
        }
        let stream = peek(&nodes[0], &site.token, &ahead);
        assert!(
            stream.contains(" 409 ") && stream.contains("history_changed"),
            "{stream}"
        );
        for number in 0..20 {
            write(&mut http, &format!("{number} of round {round} after it"));
        }
    }
    // What both had goes on: every event once, and one of them says what happened.
    let Said::Done(rest) = after(&common) else {
        panic!("{:?}", after(&common));
    };
    let events = rest["events"].as_array().unwrap();
    let begun = events
        .iter()
        .position(|event| event["type"] == "history_begun")
        .unwrap();
    assert_eq!(events[begun]["data"]["before"]["history"], common.history);
    let left = events[begun]["data"]["before"]["rev"].as_u64().unwrap();
    assert!((common.rev..ahead.rev).contains(&left), "{left}");
    for (at, event) in events.iter().enumerate() {
        let next = if at == begun {
            continue;
        } else {
            event["rev"].as_u64().unwrap()
        };
        let last = match at {
            0 => common.rev,
            _ => events[at - 1]["rev"].as_u64().unwrap(),
        };
        assert_eq!(next, last + 1);
    }
    let now = place(&look, &nodes[0]);
    assert_ne!(now.history, ahead.history);
    let stream = peek(&nodes[0], &site.token, &common);
    assert!(stream.contains("event: history_begun"), "{stream}");
    // Nobody has bob's lock, and its next holder comes after him.
    let new = fence(&mut http, &nodes, "eve");
    assert!(new > lost && new > ahead.rev, "{new} {lost}");
    let taken = Request {
        path: "/locks".to_owned(),
        body: json!({ "paths": ["src/bob.rs"], "ttl_ms": 3_600_000 }),
        key: "the same".to_owned(),
        agent: Some("eve".to_owned()),
    };
    let Said::Done(taken) = look.ask(&nodes[0], &taken) else {
        panic!("nobody has it");
    };
    assert!(taken[0]["lock"]["fence"].as_u64().unwrap() > lost);
    assert!(site.run(&["doctor"]).status.success());
}
