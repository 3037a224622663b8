//! Figures for Prometheus: whole, well written, true, and about nobody.

use std::collections::BTreeMap;

use flightline::core::token::Scope;
use flightline_testkit::both_engines;
use serde_json::json;

use crate::exposition::{Family, read};
use crate::server::{start, token};

/// What INTERFACES.md promises and what else is watched.
const PROMISED: &[&str] = &[
    "flightline_build_info",
    "flightline_uptime_seconds",
    "flightline_process_resident_memory_bytes",
    "flightline_process_open_fds",
    "flightline_request_duration_seconds",
    "flightline_request_bytes",
    "flightline_response_bytes",
    "flightline_refusals_total",
    "flightline_checkpoints_total",
    "flightline_checkpoint_duration_seconds",
    "flightline_checkpoint_bytes",
    "flightline_recovery_duration_seconds",
    "flightline_briefings_total",
    "flightline_briefings_pending",
    "flightline_compactions_total",
    "flightline_locks_held",
    "flightline_locks_orphaned",
    "flightline_locks_lost_total",
    "flightline_lock_conflicts_total",
    "flightline_messages_pending",
    "flightline_oldest_heartbeat_age_seconds",
    "flightline_backups",
    "flightline_backup_failures_total",
    "flightline_store_bytes",
    "flightline_store_up",
    "flightline_group_commit_size",
    "flightline_queue_length",
    "flightline_queue_wait_seconds",
    "flightline_streams_open",
    "flightline_missions",
    "flightline_agents",
    "flightline_journal_revision",
    "flightline_job_last_run_age_seconds",
    "flightline_job_last_duration_seconds",
    "flightline_job_healthy",
    "flightline_job_runs_total",
    "flightline_job_failures_total",
];

/// The value of a figure, by its name and some of its labels.
pub fn value(page: &BTreeMap<String, Family>, name: &str, labels: &[(&str, &str)]) -> f64 {
    let family = ["_count", "_sum", "_bucket", ""]
        .iter()
        .filter_map(|suffix| page.get(name.strip_suffix(suffix)?))
        .next()
        .unwrap_or_else(|| panic!("no {name}"));
    let fits = |known: &BTreeMap<String, String>| {
        labels
            .iter()
            .all(|(label, text)| known.get(*label).is_some_and(|it| it == text))
    };
    family
        .figures
        .iter()
        .filter(|(sample, (known, _))| sample == name && fits(known))
        .map(|(_, (_, value))| *value)
        .sum()
}

both_engines! {
    fn figures_tell_what_happened_and_name_nobody(world: &World) {
        let server = start(world);
        let boss = server.with(&token(world, "tests", Scope::Dispatch, None));
        let made = boss.op("create_mission", &json!({ "title": "Add login", "sorties": [{ "title": "Model" }, { "title": "Docs" }] })).ok(200);
        let (ada, bob) = (boss.and("fleet-agent", "ada"), boss.and("fleet-agent", "bob"));
        ada.op("claim_next", &json!({ "lock": false })).ok(200);
        bob.op("claim_next", &json!({ "lock": false })).ok(200);
        let lock = json!({ "paths": ["src/a.rs"], "ttl_ms": null, "purpose": null, "sortie": null, "sightings": [] });
        ada.op("acquire_locks", &lock).ok(200);
        assert_eq!(bob.op("acquire_locks", &lock).problem(409), "lock_held");
        let mail = json!({ "to": ["bob"], "subject": "Hello", "body": null, "mission": null, "acknowledge_within_ms": null });
        ada.op("send_mail", &mail).ok(200);
        boss.op("take_checkpoint", &json!({ "mission": null, "reason": null, "details": null, "note": null })).ok(200);
        ada.op("add_note", &json!({ "mission": null, "kind": "lesson", "text": "rain", "rationale": null, "sortie": null, "path": null, "checksum": null, "artifact_type": null })).ok(200);
        boss.post("/api/v1/checkpoints", &json!({ "mission_id": made["mission"]["id"], "trigger": "manual" })).ok(201);
        world.pass(std::time::Duration::from_secs(90));
        let figures = boss.get("/metrics");
        assert_eq!(figures.status, 200);
        assert_eq!(figures.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
        let page = read(&figures.text);
        for name in PROMISED {
            assert!(page.contains_key(*name), "{name} is missing");
        }
        for name in page.keys() {
            assert!(PROMISED.contains(&name.as_str()), "{name} is not in the list");
        }
        let expected = [
            ("flightline_checkpoints_total", vec![("trigger", "manual")], 2.0),
            ("flightline_checkpoint_duration_seconds_count", vec![], 2.0),
            ("flightline_checkpoint_bytes_count", vec![], 2.0),
            ("flightline_lock_conflicts_total", vec![], 1.0),
            ("flightline_refusals_total", vec![("code", "lock_held")], 1.0),
            ("flightline_locks_held", vec![], 1.0),
            ("flightline_locks_orphaned", vec![], 0.0),
            ("flightline_messages_pending", vec![], 1.0),
            ("flightline_missions", vec![("status", "in_progress")], 1.0),
            ("flightline_agents", vec![("life", "active")], 2.0),
            ("flightline_oldest_heartbeat_age_seconds", vec![], 90.0),
            ("flightline_store_up", vec![], 1.0),
            ("flightline_job_healthy", vec![("task", "write_probe")], 1.0),
            ("flightline_streams_open", vec![], 0.0),
        ];
        for (name, labels, wanted) in expected {
            let found = value(&page, name, &labels);
            assert!((found - wanted).abs() < 1e-9, "{name} {labels:?}: {found}, not {wanted}");
        }
        for name in ["flightline_process_resident_memory_bytes", "flightline_process_open_fds", "flightline_group_commit_size_count"] {
            assert!(value(&page, name, &[]) > 0.0, "{name}");
        }
        for queue in ["read", "write"] {
            let waited = value(&page, "flightline_queue_wait_seconds_count", &[("queue", queue)]);
            assert!(waited > 0.0, "{queue}");
        }
        assert!(value(&page, "flightline_store_bytes", &[("part", "database")]) > 1_000.0);
        for private in ["ada", "bob", "src/a.rs", "Hello", "msn-", "chk-", "Add login"] {
            assert!(!figures.text.contains(private), "{private} is in the figures");
        }
        server.end();
    }

    fn what_others_write_is_counted_too_and_nothing_twice(world: &World) {
        let server = start(world);
        let client = server.with(&token(world, "tests", Scope::Read, None));
        let taken = || value(&read(&client.get("/metrics").text), "flightline_checkpoints_total", &[]);
        let story = flightline_testkit::story::Story::new(world);
        story.mission("Add login", &["Model"]);
        story.claim("ada", "Model").unwrap();
        for wanted in [1.0, 2.0] {
            story.report("ada", "Model", &wanted.to_string());
            story.checkpoint();
            assert!((taken() - wanted).abs() < 1e-9, "{} {wanted}", taken());
            assert!((taken() - wanted).abs() < 1e-9, "{} {wanted}", taken());
        }
        server.end();
    }
}

/// Every figure that a dashboard, a rule or the manual names is one that there is, and every one there is is on
/// the dashboard.
#[test]
fn what_is_watched_is_there() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let named = |file: &str| -> Vec<String> {
        let text = std::fs::read_to_string(root.join(file)).unwrap();
        let words = text.split(|letter: char| !letter.is_ascii_lowercase() && letter != '_');
        words
            .filter(|word| word.starts_with("flightline_"))
            .map(str::to_owned)
            .collect()
    };
    let family = |word: &str| {
        let bare = ["_bucket", "_sum", "_count"]
            .iter()
            .find_map(|suffix| word.strip_suffix(suffix));
        bare.filter(|bare| PROMISED.contains(bare))
            .unwrap_or(word)
            .to_owned()
    };
    let dashboard = "deploy/grafana/flightline.json";
    for file in [
        dashboard,
        "deploy/prometheus/flightline.rules.yml",
        "docs/operating.md",
    ] {
        let found = named(file);
        assert!(!found.is_empty(), "{file} names no figure");
        for word in found {
            assert!(
                PROMISED.contains(&family(&word).as_str()),
                "{file}: there is no {word}"
            );
        }
    }
    let shown: Vec<String> = named(dashboard).iter().map(|word| family(word)).collect();
    for name in PROMISED {
        assert!(
            shown.contains(&(*name).to_owned()),
            "{name} is not on the dashboard"
        );
    }
    let parsed: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(root.join(dashboard)).unwrap()).unwrap();
    assert!(parsed["panels"].as_array().unwrap().len() > 20);
}
