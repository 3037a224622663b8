//! The database's machine dies, and its replica takes its place. A synchronous one has everything that was
//! acknowledged. One that lags has not, and then nobody may go on reading as if nothing had happened.
//! `scripts/failover` runs this and prints its table.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::chance::{self, Chance};
use crate::cluster::Cluster;
use crate::commits::note;
use crate::http::{Http, Said};
use crate::node::{Node, Site};
use crate::run::{place, run, serves_again};
use crate::stream::peek;

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
            "… until all three servers have gone on by themselves",
            seconds(promoted.elapsed()),
        ));
        crowd.ledger.wait_for(300);
        let after = crowd.ledger.acknowledged() - before;
        rows.push(("acknowledged after it", after.to_string()));
    });
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

#[test]
fn a_replica_that_lags_refuses_places_it_never_had() {
    let primary = Cluster::start();
    let standby = primary.standby();
    let site = Site::new(either(&primary, &standby));
    let nodes = [site.node("one", either(&primary, &standby))];
    let mut http = Http::new(&site.token, Chance::new(1));
    let mut write = |text: &str| {
        let until = Instant::now() + Duration::from_secs(30);
        let said = http.settle(&nodes, &note(text), until);
        assert!(matches!(said, Said::Done(_)), "{said:?}");
    };
    write("both have it");
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
        write(&format!("only the primary has {number}"));
    }
    let ahead = place(&look, &nodes[0]);
    assert!(ahead.rev >= common.rev + 10);
    primary.kill();
    standby.promote();
    write("after it");

    let after = |place: &crate::stream::Place| {
        let after = json!({ "history": place.history, "rev": place.rev });
        look.look(
            &nodes[0],
            "list_events",
            json!({ "after": after, "limit": 100 }),
        )
    };
    match after(&ahead) {
        Said::Refused(code, _) => assert_eq!(code, "history_changed"),
        other => panic!("{other:?}"),
    }
    let stream = peek(&nodes[0], &site.token, &ahead);
    assert!(
        stream.contains(" 409 ") && stream.contains("history_changed"),
        "{stream}"
    );
    assert!(site.run(&["doctor"]).status.success());
}
