//! Secrets, on both engines: sent in every text field of every operation, and kept nowhere.

use std::path::Path;

use flightline::checkpoint::destructive::BeforeDestructive;
use flightline::lock::CheckLocks;
use flightline::mail::ShowThread;
use flightline_testkit::prelude::*;
use probe::{Prober, TEXT, assert_clean, secrets};
use serde_json::{Value, json};

mod probe;

fn new_sortie(depends_on: &[String]) -> Value {
    json!({
        "title": TEXT, "description": TEXT, "task_id": "T060", "depends_on": depends_on, "files": ["src/a.rs"],
        "criteria": ["tests"], "criteria_texts": [TEXT], "priority": 0, "estimate_ms": 1, "resume_instructions": TEXT, "input": data(),
    })
}

fn data() -> Value {
    json!({ "note": TEXT, "list": [TEXT, { "deep": TEXT }], "password": TEXT })
}

fn process() -> Value {
    json!({ "pid": 7, "started": 1, "boot_id": "boot", "host": "hangar" })
}

fn probe_missions_and_sorties(prober: &Prober<'_>) {
    prober.probe::<CreateMission>("ada", || {
        json!({
            "title": TEXT, "objective": TEXT, "phase": TEXT, "stack_id": "rust", "sprint": TEXT, "dispatch": "lead",
            "states": { "planning": ["building"], "building": [] }, "sorties": [new_sortie(&[])],
        })
    });
    prober.probe::<ChangeMission>("ada", || json!({ "mission": prober.story.mission("Lost", &[]).mission.id, "to": "failed", "reason": TEXT }));
    prober.probe::<TransitionMission>(
        "ada",
        || json!({ "mission": prober.mission, "to": "building", "reason": TEXT, "pending": false }),
    );
    prober.probe::<UseMission>("ada", || json!({ "mission": prober.mission }));
    prober.probe::<AddSorties>("ada", || {
        let view = prober.story.mission(&prober.fresh("Mission "), &["Needed"]);
        let needed = view.sorties[0].id.to_string();
        json!({ "mission": view.mission.id, "sorties": [new_sortie(&[needed])] })
    });
    prober.probe::<ClaimSortie>("bob", || json!({ "sortie": prober.sortie(), "lock": true }));
    prober.probe::<ClaimNext>("bob", || json!({ "mission": prober.mission, "lock": true }));
    let change = |sortie: String, action: Value| json!({ "sortie": sortie, "action": action });
    let complete = || json!({ "complete": { "output": null } });
    prober.probe::<ChangeSortie>("ada", || {
        change(
            prober.sortie(),
            json!({ "reassign": { "to": "bob", "reason": TEXT } }),
        )
    });
    prober.probe::<ChangeSortie>("ada", || {
        change(prober.sortie(), json!({ "assign": { "to": "ada" } }))
    });
    prober.probe::<ChangeSortie>("ada", || {
        change(prober.sortie(), json!({ "block": { "reason": TEXT } }))
    });
    prober.probe::<ChangeSortie>("ada", || {
        change(prober.sortie(), json!({ "complete": { "output": data() } }))
    });
    prober.probe::<ChangeSortie>("ada", || {
        change(prober.sortie(), json!({ "fail": { "reason": TEXT } }))
    });
    prober.probe::<ChangeSortie>("ada", || {
        change(prober.sortie(), json!({ "release": { "reason": TEXT } }))
    });
    let completed = || prober.moved(prober.sortie(), complete());
    prober.probe::<ChangeSortie>("lead", || {
        change(completed(), json!({ "approve": { "reason": TEXT } }))
    });
    prober.probe::<ChangeSortie>("lead", || {
        change(completed(), json!({ "reject": { "reason": TEXT } }))
    });
    prober.probe::<ChangeSortie>("ada", || {
        change(prober.sortie(), json!({ "cancel": { "reason": TEXT } }))
    });
    prober.probe::<EditSortie>("ada", || {
        json!({
            "sortie": prober.sortie(), "title": TEXT, "description": TEXT, "task_id": "T061", "priority": 1,
            "estimate_ms": 1, "add_files": ["src/b.rs"], "add_criteria": [TEXT], "resume_instructions": TEXT,
        })
    });
    prober.probe::<MoveSortie>(
        "ada",
        || json!({ "sortie": prober.sortie(), "to": "first" }),
    );
    prober.probe::<UpdateSortie>("ada", || {
        json!({
            "sortie": prober.sortie(), "note": TEXT, "declared": null,
            "subtasks": [{ "name": "part", "title": TEXT, "status": "complete", "output": TEXT }],
            "files": [{ "path": "src/a.rs", "change": "created" }], "criteria": { "tests": true },
            "last_processed": TEXT, "next_to_process": TEXT, "cursor_notes": TEXT, "resumable": true,
            "resume_instructions": TEXT, "tokens_in": 1, "tokens_out": 1,
        })
    });
    prober.probe::<ReportError>("ada", || {
        json!({ "sortie": prober.sortie(), "kind": "api_error", "status": 503, "message": TEXT, "blocking": true })
    });
    prober.probe::<ClearErrors>("ada", || json!({ "sortie": prober.sortie() }));
    prober.probe::<AddReview>(
        "ada",
        || json!({ "sortie": prober.sortie(), "reviewer": "rex", "score": 7, "note": TEXT }),
    );
}

fn probe_agents_and_locks(prober: &Prober<'_>) {
    prober.probe::<RegisterAgent>("", || {
        json!({
            "name": "newcomer", "role": "specialist", "kind": "claude", "session": TEXT, "process": process(), "feature": TEXT,
        })
    });
    prober.probe::<UpdateAgent>("ada", || {
        json!({
            "agent": "ada", "status": "waiting", "feature": TEXT, "stage": TEXT, "phase": TEXT, "step": TEXT,
            "completed_steps": [TEXT], "next_steps": [TEXT], "blockers": [TEXT], "clear_blockers": false,
            "files": ["src/a.rs"], "clear_files": false, "recovery_instructions": TEXT, "can_resume": true,
            "next_checkpoint_ms": 1, "updated_overview": true,
        })
    });
    prober.probe::<RetireAgent>("lead", || {
        let agent = prober.fresh("temp");
        prober.story.register(&agent, Role::Specialist);
        json!({ "agent": agent, "reason": TEXT })
    });
    prober.probe::<Heartbeat>(
        "ada",
        || json!({ "step": TEXT, "context_percent": 1, "tokens": null }),
    );
    prober.probe::<AcquireLocks>("ada", || {
        let sighting = json!({ "agent": prober.story.agent("bob").id, "process": process(), "alive": true });
        json!({ "paths": ["src/a.rs"], "ttl_ms": null, "purpose": TEXT, "sortie": prober.sortie(), "sightings": [sighting] })
    });
    prober.probe::<RenewLocks>(
        "ada",
        || json!({ "locks": ["src/a.rs"], "fence": null, "ttl_ms": null }),
    );
    prober.probe::<ReleaseLocks>(
        "ada",
        || json!({ "locks": ["src/a.rs"], "all": false, "fence": null }),
    );
    prober.probe::<StealLock>("ada", || {
        let file = prober.fresh("eve/");
        prober.story.lock("eve", &[&file]).unwrap();
        json!({ "path": file, "reason": TEXT })
    });
}

fn probe_mail_notes_and_effects(prober: &Prober<'_>) {
    prober.probe::<SendMail>("ada", || {
        json!({ "to": ["bob"], "subject": TEXT, "body": TEXT, "mission": prober.mission, "acknowledge_within_ms": 1 })
    });
    prober.probe::<ReplyMail>(
        "ada",
        || json!({ "message": prober.message(), "body": TEXT }),
    );
    prober.probe::<ReadMail>("ada", || json!({ "message": prober.message() }));
    prober.probe::<RequeueMail>("ada", || json!({ "message": prober.message() }));
    prober.probe::<AcknowledgeMail>(
        "ada",
        || json!({ "messages": [prober.message()], "all": false }),
    );
    prober.probe::<BeforeDestructive>("ada", || {
        json!({ "mission": prober.mission, "operation": "deploy", "target": TEXT, "note": TEXT })
    });
    prober.probe::<AddNote>("ada", || {
        json!({
            "mission": prober.mission, "kind": "artifact", "text": TEXT, "rationale": TEXT, "sortie": null,
            "path": "docs/a.md", "checksum": "ab".repeat(32), "artifact_type": "report",
        })
    });
    prober.probe::<BeginEffect>("ada", || {
        json!({ "key": prober.fresh("effect"), "mission": prober.mission, "sortie": null, "what": TEXT, "again": false })
    });
    prober.probe::<FinishEffect>("ada", || {
        let (key, mission) = (prober.fresh("effect"), &prober.mission);
        let begin = BeginEffect {
            mission: Some(mission.clone()),
            ..begin_effect(&key)
        };
        prober.story.run("ada", &begin).unwrap();
        json!({ "key": key, "mission": mission, "result": TEXT })
    });
}

fn probe_everything_that_only_looks(prober: &Prober<'_>) {
    prober.probe::<ListSorties>(
        "ada",
        || json!({ "mission": prober.mission, "status": null, "agent": "ada", "limit": 1 }),
    );
    prober.probe::<ShowSortie>("ada", || json!({ "sortie": prober.sortie() }));
    prober.probe::<ShowAgent>("ada", || json!({ "agent": "ada", "sightings": [] }));
    prober.probe::<ListAgents>("ada", || json!({ "retired": true, "sightings": [] }));
    prober.probe::<ListLocks>("ada", || json!({ "agent": "ada" }));
    prober.probe::<CheckLocks>("ada", || json!({ "paths": ["src"] }));
    prober.probe::<PeekInbox>("ada", || json!({ "agent": "ada", "all": true, "limit": 1 }));
    prober.probe::<ShowThread>("ada", || json!({ "message": prober.message() }));
    prober.probe::<ListNotes>("ada", || json!({ "mission": prober.mission, "kind": null }));
    prober.probe::<ListEffects>(
        "ada",
        || json!({ "mission": prober.mission, "in_doubt": false }),
    );
    prober.probe::<ListEvents>("ada", || {
        json!({ "mission": null, "subject": "x", "kind": "x", "since": null, "after": { "history": "x", "rev": 1 }, "limit": 1 })
    });
    prober.probe::<ShowStatus>(
        "ada",
        || json!({ "mission": prober.mission, "sightings": [] }),
    );
}

fn probe_callers(prober: &Prober<'_>) {
    for (at, secret) in prober.secrets.iter().enumerate() {
        let text = secret.text.clone();
        let callers = [
            Caller {
                agent: Some(text.clone()),
                ..Caller::default()
            },
            Caller {
                session: Some(text.clone()),
                ..caller(&format!("in-session-{at}"))
            },
            Caller {
                user: text.clone(),
                ..Caller::default()
            },
            Caller {
                user: text.clone(),
                idempotency_key: Some(format!("k{at}")),
                ..Caller::default()
            },
            Caller {
                mission: Some(text.clone()),
                ..caller("ada")
            },
            Caller {
                idempotency_key: Some(text.clone()),
                ..caller("ada")
            },
            Caller {
                agent: Some(text.clone()),
                idempotency_key: Some(format!("a{at}")),
                ..Caller::default()
            },
        ];
        for caller in callers {
            let said = match prober.story.run_as(&caller, &lesson("learned")) {
                Ok(outcome) => serde_json::to_string(&outcome).unwrap(),
                Err(refusal) => serde_json::to_string(&refusal).unwrap(),
            };
            assert_clean(
                &prober.secrets,
                &format!("the answer to {caller:?}"),
                said.as_bytes(),
            );
            let said = match prober.story.run_as(&caller, &Heartbeat::default()) {
                Ok(outcome) => serde_json::to_string(&outcome).unwrap(),
                Err(refusal) => serde_json::to_string(&refusal).unwrap(),
            };
            assert_clean(
                &prober.secrets,
                "the answer to a heartbeat",
                said.as_bytes(),
            );
        }
    }
}

fn read_all(folder: &Path, files: &mut Vec<(String, Vec<u8>)>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read_all(&path, files);
        } else {
            files.push((path.display().to_string(), std::fs::read(&path).unwrap()));
        }
    }
}

both_engines! {
    fn a_secret_in_any_text_of_any_operation_is_kept_nowhere(world: &World) {
        let prober = Prober::new(world);
        probe_missions_and_sorties(&prober);
        probe_agents_and_locks(&prober);
        probe_mail_notes_and_effects(&prober);
        probe_everything_that_only_looks(&prober);
        probe_callers(&prober);
        let (done, refused) = prober.tally.get();
        assert!(done > 70 && refused > 100, "{done} done, {refused} refused");
        assert!(prober.story.damaged_values().is_empty());
        let copy = world.folder().join("copy.db");
        prober.story.with_fleet(|fleet| flightline::backup::back_up(fleet, &copy)).unwrap();
        let secrets = prober.secrets;
        // No connection is left: every byte may be read.
        drop(prober.story);
        let mut files = Vec::new();
        read_all(world.folder(), &mut files);
        assert_eq!(
            files.iter().any(|(name, _)| name.ends_with("flightline.db")),
            world.engine == Engine::Sqlite
        );
        for (name, bytes) in &files {
            assert_clean(&secrets, name, bytes);
        }
        let (_, copy) = files.iter().find(|(name, _)| name.ends_with("copy.db")).unwrap();
        for kept in [
            "before [redacted:aws-key]",
            "[redacted:github-token]",
            "[redacted:jwt]",
            "[redacted:url-password]@db/x",
            "password=[redacted:password]",
            "[redacted:private-key] after",
        ] {
            assert!(
                copy.windows(kept.len()).any(|window| window == kept.as_bytes()),
                "{kept}: the rest of the text is kept"
            );
        }
    }

    fn a_name_or_path_that_looks_like_a_secret_is_refused(world: &World) {
        let story = Story::new(world);
        let key = &secrets()[0].text;
        assert_eq!(story.run(key, &locks_on(&["a"])).unwrap_err().code, Code::InvalidInput);
        assert_eq!(story.beat(key).unwrap_err().code, Code::NotFound);
        let wire = json!({ "paths": [format!("keys/{key}")], "ttl_ms": null, "purpose": null, "sortie": null, "sightings": [] });
        assert!(
            serde_json::from_value::<AcquireLocks>(wire)
                .unwrap_err()
                .to_string()
                .contains("looks like it holds a secret")
        );
        let process = flightline::core::agent::Process {
            host: key.clone(),
            ..flightline_testkit::story::process(7)
        };
        let register = RegisterAgent { process: Some(process), ..registration("ada") };
        assert_eq!(story.run("", &register).unwrap_err().code, Code::InvalidInput);
    }

    fn a_value_that_only_its_key_gives_away_is_a_secret_too(world: &World) {
        let story = Story::new(world);
        story.mission("Add login", &["User model"]);
        story.claim("ada", "User model").unwrap();
        let bare = secrets()[4].needles[0];
        let output =
            json!({ "user": "ada", "password": bare, "nested": [{ "api_key": bare }], "count": 3 });
        let change = json!({ "sortie": story.sortie_id("User model"), "action": { "complete": { "output": output } } });
        let change: ChangeSortie = serde_json::from_value(change).unwrap();
        let kept = serde_json::to_value(story.run("ada", &change).unwrap().sortie.output).unwrap();
        let gone = "[redacted:password]";
        assert_eq!(
            kept,
            json!({ "user": "ada", "password": gone, "nested": [{ "api_key": gone }], "count": 3 })
        );
    }
}
