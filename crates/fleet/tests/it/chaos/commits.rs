//! Commits of which it is not known whether they were made: settled by looking, never guessed.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::chaos::chance::Chance;
use crate::chaos::cluster::{Cluster, url};
use crate::chaos::http::{Http, Request, Said};
use crate::chaos::node::{Node, Site};
use crate::chaos::proxy::{Cut, Proxy};

/// A note, and the key that goes with it.
pub fn note(text: &str) -> Request {
    Request {
        path: "/ops/add_note".to_owned(),
        body: json!({ "kind": "lesson", "text": text }),
        key: text.to_owned(),
        agent: None,
    }
}

/// The notes that are there.
pub fn notes(http: &Http, node: &Node) -> Vec<String> {
    let list = http.read(node, "list_notes", json!({}));
    let texts = list.as_array().unwrap().iter();
    texts
        .map(|note| note["text"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn a_commit_that_is_lost_is_settled_by_its_key() {
    let cluster = Cluster::start();
    let site = Site::new(cluster.url());
    let proxy = Proxy::to(cluster.port);
    let near = site.node("near", url(proxy.port));
    let far = site.node("far", cluster.url());
    let http = Http::new(&site.token, Chance::new(1));
    let mut texts = Vec::new();
    for round in 0..4 {
        let cuts: [(&str, Cut); 3] = [
            ("before", Cut::Before),
            ("after", Cut::After),
            // A caller elsewhere meanwhile waits for it, instead of doing it again.
            ("ghost", Cut::Ghost(Duration::from_millis(200 * round))),
        ];
        for (name, cut) in cuts {
            let text = format!("{name} {round}");
            let request = note(&text);
            let broken = proxy.broken();
            proxy.break_commit(cut);
            let first = http.ask(&near, &request);
            assert_eq!(proxy.broken(), broken + 1, "{text}: {first:?}");
            let again = http.ask(&far, &request);
            let Said::Done(again) = again else {
                panic!("{text}: {again:?}");
            };
            match first {
                Said::Done(first) => assert_eq!(first, again, "{text}"),
                Said::Nothing(_) => {}
                Said::Refused(code, why) => panic!("{text}: {code}: {why}"),
            }
            texts.push(text);
            assert_eq!(notes(&http, &far), texts);
            // And the one whose connection was lost goes on by itself.
            let text = format!("next {name} {round}");
            let mut next = Http::new(&site.token, Chance::new(1));
            let nodes = std::slice::from_ref(&near);
            let until = Instant::now() + Duration::from_secs(20);
            let said = next.settle(nodes, &note(&text), until);
            assert!(matches!(said, Said::Done(_)), "{said:?}");
            texts.push(text);
        }
    }
    assert_eq!(notes(&http, &near), texts);
    assert!(site.run(&["doctor"]).status.success());
}
