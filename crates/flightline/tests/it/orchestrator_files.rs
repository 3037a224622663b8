//! An orchestrator's files: taken in, given out, and kept up to date, on both engines.

use flightline::core::Name;
use flightline::core::dialect::compress::Compression;
use flightline::core::dialect::{Dialect, DialectDocument, Original, orchestrator};
use flightline::dialect::{
    ExportDocuments, ExportedDocuments, ImportDocuments, ImportedDocument, Incoming, Outgoing,
};
use flightline::recovery::points::ListRecoveryPoints;
use flightline_testkit::prelude::*;

use crate::mirrors::json;

mod mirror;

const RUNNING: &str =
    include_str!("../../../flightline-core/tests/it/dialects/data/orchestrator_running.json");
const ERROR: &str =
    include_str!("../../../flightline-core/tests/it/dialects/data/orchestrator_error.json");
const INDEX: &str =
    include_str!("../../../flightline-core/tests/it/dialects/data/orchestrator_index.json");
const FIRST: &str = "6f9f6b52-6f55-4b38-8f0a-6c1c2b1f6e01";
const SECOND: &str = "6f9f6b52-6f55-4b38-8f0a-6c1c2b1f6e02";

fn incoming(file: &str, text: &str) -> Incoming {
    Incoming {
        file: file.to_owned(),
        text: text.to_owned(),
        before: None,
        even_if_older: false,
    }
}

fn import_all(
    story: &Story<'_>,
    documents: &[(&str, &str)],
) -> Result<Vec<ImportedDocument>, Refusal> {
    let documents = documents.iter();
    let request = ImportDocuments {
        dialect: Dialect::Orchestrator,
        documents: documents.map(|(file, text)| incoming(file, text)).collect(),
        mission: None,
    };
    story.run("", &request)
}

fn import(story: &Story<'_>, text: &str) -> Result<ImportedDocument, Refusal> {
    let file = format!("{}.json", read(text).word("id"));
    Ok(import_all(story, &[(&file, text)])?.remove(0))
}

fn export(story: &Story<'_>) -> ExportedDocuments {
    let request = ExportDocuments {
        dialect: Dialect::Orchestrator,
        mission: None,
        since: None,
        ended_since: None,
    };
    story.run("", &request).unwrap()
}

fn exported(story: &Story<'_>, id: &str) -> Outgoing {
    let documents = export(story).documents.into_iter();
    let mut found = documents.filter(|it| it.file.starts_with(id));
    found.next().unwrap()
}

fn read(text: &str) -> DialectDocument {
    DialectDocument::read(Dialect::Orchestrator, text).unwrap()
}

fn sound(text: &str) -> DialectDocument {
    let document = read(text);
    assert!(orchestrator::verify(&document).is_empty());
    document
}

/// A document with something changed in it, and its checksums right again.
fn resealed(text: &str, change: impl FnOnce(&mut DialectDocument)) -> String {
    let mut document = read(text);
    change(&mut document);
    orchestrator::seal(&mut document);
    document.write()
}

/// The document with one more lesson.
fn with_lesson(text: &str, lesson: &str) -> String {
    resealed(text, |it| {
        it["context"]["lessons"].list_mut().push(lesson.into())
    })
}

fn kept(story: &Story<'_>, id: &str) -> Option<Original> {
    let id = Original::id(Dialect::Orchestrator, &format!("chk-{id}"));
    story.look(|tx| tx.get::<Original>(&id))
}

fn status_of(story: &Story<'_>, id: &str) -> Option<CheckpointStatus> {
    let id = format!("chk-{id}");
    let all = story.checkpoints().into_iter();
    all.filter(|it| it.id.to_string() == id)
        .map(|it| it.status)
        .next()
}

fn working(world: &World, policy: Policy) -> Story<'_> {
    let story = Story::under(world, policy);
    story.mission("Ship it", &["Plan", "Code"]);
    story
}

fn plain() -> Policy {
    Policy {
        mirror_compression: Compression::None,
        ..Preset::Orchestrator.policy()
    }
}

/// A checkpoint with something new in it; its bare id.
fn take(story: &Story<'_>, text: &str) -> String {
    story.pass_minutes(1);
    story.run("", &lesson(text)).unwrap();
    let id = story.checkpoint().id.to_string();
    id.trim_start_matches("chk-").to_owned()
}

both_engines! {
    fn documents_come_back_as_they_were_with_their_checksums(world: &World) {
        let story = Story::new(world);
        for (id, text) in [(FIRST, RUNNING), (SECOND, ERROR)] {
            let taken = import(&story, text).unwrap();
            assert_eq!((taken.changed, taken.of), (true, format!("chk-{id}")));
            let rev = story.rev();
            assert!(!import(&story, text).unwrap().changed, "twice is once");
            assert_eq!(story.rev(), rev);
            let out = exported(&story, id);
            assert_eq!((out.file, json(&out.text)), (format!("{id}.json"), json(text)));
            sound(&out.text);
        }
        assert_eq!(export(&story).documents.len(), 2);
        assert!(world.problems().is_empty());
    }

    fn a_mission_is_where_the_document_says_it_was(world: &World) {
        let story = Story::new(world);
        assert_eq!(import(&story, RUNNING).unwrap().warnings, [""; 0]);
        let view = story.run("", &ShowMission { mission: None }).unwrap();
        let mission = &view.mission;
        assert_eq!((mission.title.as_str(), mission.status), ("Add payments", MissionStatus::InProgress));
        assert_eq!(mission.objective.as_ref().unwrap().as_str(), "Add payments\n\t\"by card\"");
        let workflow = &mission.workflow;
        assert_eq!((workflow.current.as_ref().map(Name::as_str), workflow.previous.as_ref().map(Name::as_str)), (Some("IMPLEMENTING"), Some("PLANNING")));
        assert_eq!(workflow.pending.iter().map(ToString::to_string).collect::<Vec<_>>(), ["TESTING", "ERROR"]);
        let history: Vec<_> = view.history.iter().map(|past| (past.state.as_str(), past.entered_at.to_string(), past.trigger.as_str())).collect();
        assert_eq!(history, [
            ("PLANNING", "2026-01-10T09:00:00.000Z".to_owned(), "start"),
            ("IMPLEMENTING", "2026-01-10T09:20:00.250Z".to_owned(), "plan_approved"),
        ]);
        assert_eq!(view.history[0].exited_at, Some(view.history[1].entered_at));
        let planner = story.sortie("planner").sortie;
        assert_eq!((planner.status, planner.attempts, planner.token_usage.input, planner.token_usage.output), (SortieStatus::Completed, 1, 12_000, 800));
        assert_eq!(planner.started_at.unwrap().to_string(), "2026-01-10T09:00:05.000Z");
        assert_eq!(planner.completed_at.unwrap().to_string(), "2026-01-10T09:19:00.000Z");
        assert_eq!(serde_json::to_value(&planner.output).unwrap(), serde_json::json!({"plan": ["a", "b"], "cost": 1.5, "none": null, "ok": true}));
        assert!(planner.input.is_some());
        let coder = story.sortie("coder").sortie;
        assert_eq!((coder.status, coder.attempts, coder.assigned_to), (SortieStatus::Pending, 2, None), "it was running, and is pending");
        assert_eq!(coder.interrupted.unwrap().owner.as_str(), "coder");
        assert_eq!(story.sortie("tester").sortie.status, SortieStatus::Pending);
        let notes = story.run("", &list_notes()).unwrap();
        let told: Vec<_> = notes.iter().map(|note| (note.kind, note.text.as_str(), note.rationale.as_ref().map(|why| why.as_str()), note.checksum.as_deref())).collect();
        assert_eq!(told, [
            (NoteKind::Lesson, "Ask before adding a dependency", None, None),
            (NoteKind::Decision, "Use webhooks", Some("Polling is slow"), None),
            (NoteKind::Artifact, "spec", None, Some("8696e00c42e594e7")),
        ]);
        assert_eq!(notes[2].path.as_ref().unwrap().as_str(), "docs/payments.md");
        assert_eq!(notes[1].at.to_string(), "2026-01-10T09:10:00.000Z");
        let shown = story.run("", &ShowCheckpoint { checkpoint: format!("chk-{FIRST}") }).unwrap();
        assert_eq!((shown.reason.as_str(), shown.trigger_details.as_deref()), ("agent_complete", Some("Agent planner completed")));
        assert!(story.run("", &verify_checkpoints()).unwrap().iter().all(|it| it.sound));
    }

    fn documents_of_one_session_are_one_mission_whatever_their_order(world: &World) {
        let later = resealed(RUNNING, |it| {
            it["id"] = "6f9f6b52-6f55-4b38-8f0a-6c1c2b1f6e09".into();
            it["createdAt"] = "2026-01-10T09:50:00.000Z".into();
            it["workflow"]["previousState"] = "IMPLEMENTING".into();
            it["workflow"]["currentState"] = "TESTING".into();
            it["agents"].list_mut()[1]["status"] = "completed".into();
            it["context"]["lessons"].list_mut().push("Cards expire".into());
        });
        for order in [[RUNNING, &later], [&later, RUNNING]] {
            let world = World::new(world.engine);
            let story = Story::new(&world);
            for text in order {
                import(&story, text).unwrap();
            }
            // Somebody makes another mission current meanwhile: it is not meant.
            let missions = story.run("", &ListMissions { archived: true, limit: 10 }).unwrap();
            assert_eq!(missions.len(), 1);
            let view = story.run("", &ShowMission { mission: None }).unwrap();
            assert_eq!(view.mission.workflow.current.as_ref().unwrap().as_str(), "TESTING", "the newer stays");
            assert_eq!(view.history.iter().map(|past| past.state.as_str()).collect::<Vec<_>>(), ["PLANNING", "IMPLEMENTING", "TESTING"]);
            assert_eq!(view.sorties.len(), 3, "agents are known by their names");
            assert_eq!(story.sortie("coder").sortie.status, SortieStatus::Completed);
            let notes = story.run("", &ListNotes { kind: Some(NoteKind::Lesson), ..list_notes() }).unwrap();
            assert_eq!(notes.len(), 2, "what is known is not noted again");
            assert_eq!(json(&exported(&story, FIRST).text), json(RUNNING));
            // Each checkpoint holds what its own document says.
            let points = story.run("", &ListRecoveryPoints { mission: None, limit: 9 }).unwrap().points;
            let state = |id: &str| points.iter().find(|it| it.id.to_string() == format!("chk-{id}")).unwrap().state.clone().unwrap();
            assert_eq!(state(FIRST), "IMPLEMENTING");
            assert_eq!(state("6f9f6b52-6f55-4b38-8f0a-6c1c2b1f6e09"), "TESTING");
            let back = Resume { checkpoint: Some(format!("chk-{FIRST}")), force: true, ..Resume::default() };
            story.run("", &back).unwrap();
            assert_eq!(story.sortie("coder").sortie.status, SortieStatus::Pending);
            assert!(world.problems().is_empty());
        }
    }

    fn what_somebody_is_at_work_on_stays_theirs(world: &World) {
        let story = Story::new(world);
        story.mission("Payments", &["coder"]);
        story.claim("ada", "coder").unwrap();
        let taken = import(&story, RUNNING).unwrap();
        assert!(taken.warnings.iter().any(|it| it.contains("(\"coder\") has changed since, and stays as it is")), "{:?}", taken.warnings);
        let coder = story.sortie("coder").sortie;
        assert_eq!((coder.status, coder.assigned_to), (SortieStatus::InProgress, Some(story.agent("ada").id)));
        assert_eq!(story.run("", &ShowMission { mission: None }).unwrap().sorties.len(), 3);
        assert_eq!(json(&exported(&story, FIRST).text), json(RUNNING), "and the document says what it said");
        story.report("ada", "coder", "still mine");
    }

    fn the_same_id_with_other_content_is_refused(world: &World) {
        let story = Story::new(world);
        import(&story, RUNNING).unwrap();
        let rev = story.rev();
        let other = with_lesson(RUNNING, "Another");
        let refusal = import(&story, &other).unwrap_err();
        assert_eq!((refusal.code, refusal.code.exit_code()), (Code::AlreadyExists, 4));
        assert_eq!(refusal.message, format!("`{FIRST}.json`: chk-6f9f6b52 is here already, and says something else in `context`"));
        assert!(refusal.hint.unwrap().contains(&format!("fleet checkpoints show chk-{FIRST}")));
        assert_eq!((story.rev(), json(&exported(&story, FIRST).text)), (rev, json(RUNNING)));
        // How its file is written is no content.
        let packed = RUNNING.replace("\"gzip\"", "\"none\"").replace("\"checkpointSize\": 0", "\"checkpointSize\": 77");
        assert!(!import(&story, &packed).unwrap().changed);
        // That it was archived is news.
        assert!(import(&story, &RUNNING.replace("\"valid\"", "\"archived\"")).unwrap().changed);
        assert_eq!(status_of(&story, FIRST), Some(CheckpointStatus::Archived));
    }

    fn a_damaged_section_is_named_and_nothing_comes_in(world: &World) {
        let story = Story::new(world);
        import(&story, ERROR).unwrap();
        let rev = story.rev();
        for (from, to, section) in [
            ("\"attempts\": 2", "\"attempts\": 3", "agents"),
            ("\"IMPLEMENTING\",\n    \"previous", "\"TESTING\",\n    \"previous", "workflow"),
            ("Use webhooks", "Use polling", "context"),
            ("\"size\": 2048", "\"size\": 2049", "fileSystem"),
            ("281b468dcac4eed3", "281b468dcac4eed4", "overall"),
        ] {
            assert!(RUNNING.contains(from), "{from}");
            let damaged = RUNNING.replacen(from, to, 1);
            let taken = import_all(&story, &[("good.json", ERROR), ("bad.json", &damaged)]).unwrap();
            assert_eq!((&taken[0].refused, taken[0].changed), (&None, false));
            let refusal = taken[1].refused.clone().unwrap();
            assert_eq!((refusal.code, refusal.code.exit_code()), (Code::Integrity, 6));
            assert_eq!(refusal.message, format!("`bad.json` is damaged: its section `{section}` does not match its checksum"));
            assert_eq!(refusal.details["sections"], serde_json::json!([section]));
        }
        assert_eq!(story.rev(), rev);
    }

    fn secrets_in_a_document_are_not_kept_and_its_checksums_are_right(world: &World) {
        let story = Story::new(world);
        let secret = with_lesson(RUNNING, "the key is sk-ant-REDACTED");
        import(&story, &secret).unwrap();
        let out = exported(&story, FIRST);
        assert!(!out.text.contains("abcdefghijkl") && out.text.contains("the key is"));
        sound(&out.text);
        assert!(!import(&story, &secret).unwrap().changed);
        assert!(!format!("{:?}", story.events_after(0)).contains("abcdefghijkl"));
    }

    fn what_does_not_fit_is_kept_and_said(world: &World) {
        let story = Story::new(world);
        let strange = resealed(RUNNING, |it| {
            it["agents"].list_mut()[2]["agentId"] = "the second tester".into();
            it["agents"].list_mut()[0]["output"]["long"] = "x".repeat(40_000).into();
            it["workflow"]["pendingTransitions"] = vec!["not a name"].into();
            it["context"]["artifacts"].list_mut()[0]["path"] = "/etc/passwd".into();
            it["context"]["lessons"] = vec!["y".repeat(9_000)].into();
        });
        let taken = import(&story, &strange).unwrap();
        let said = taken.warnings.join("\n");
        for what in ["the output of planner is too large", "`not a name` cannot be used as a state", "it is absolute", "lesson"] {
            assert!(said.contains(what), "{what}: {said}");
        }
        assert_eq!(story.sortie("the second tester").sortie.task_id, None);
        assert_eq!(json(&exported(&story, FIRST).text), json(&strange));
        assert!(!import(&story, &strange).unwrap().changed);
    }

    fn an_index_is_compared_and_never_followed(world: &World) {
        let story = Story::new(world);
        let files = [("b/index.json", INDEX), ("b/one.json", RUNNING), ("b/two.json", ERROR)];
        let taken = import_all(&story, &files).unwrap();
        assert_eq!(taken.iter().map(|it| (it.file.as_str(), it.changed)).collect::<Vec<_>>(), [("b/index.json", false), ("b/one.json", true), ("b/two.json", true)]);
        assert_eq!(taken[0].warnings, [""; 0]);
        let wrong = INDEX.replace("\"state\": \"ERROR\"", "\"state\": \"DONE\"").replace("/base/6f9f6b52-6f55-4b38-8f0a-6c1c2b1f6e01.json.gz", "/etc/passwd");
        let taken = import_all(&story, &[("index.json", &wrong), ("two.json", ERROR)]).unwrap();
        assert_eq!(taken[0].warnings, [
            format!("its entry {FIRST} names another's file"),
            format!("it lists {FIRST}, which is not there"),
            format!("its entry {SECOND} has another `state`"),
        ]);
        let taken = import_all(&story, &[("index.json", "[]"), ("two.json", ERROR)]).unwrap();
        assert_eq!(taken[0].warnings, [format!("it does not list {SECOND}")]);
        let taken = import_all(&story, &[("index.json", "{"), ("two.json", ERROR)]).unwrap();
        assert!(taken[0].warnings[0].starts_with("it is no index: "));
        let refusal = import_all(&story, &[("index.json", INDEX)]).unwrap_err();
        assert_eq!(refusal.message, "`index.json` is an index, and holds no checkpoint");
    }

    fn our_own_checkpoints_go_out_sealed_and_are_known_when_they_come_back(world: &World) {
        let story = working(world, plain());
        let id = take(&story, "measure first");
        let out = exported(&story, &id);
        assert_eq!(out.file, format!("{id}.json"));
        let document = sound(&out.text);
        assert_eq!((document.word("id"), document.word("trigger")), (id.as_str(), "manual"));
        let rev = story.rev();
        assert!(!import(&story, &out.text).unwrap().changed);
        assert_eq!(story.rev(), rev);
        let refusal = import(&story, &resealed(&out.text, |it| it.set("triggerReason", "else"))).unwrap_err();
        assert_eq!(refusal.code, Code::AlreadyExists);
        story.mark("", format!("chk-{id}"), CheckpointMark::Archive).unwrap();
        assert!(export(&story).documents.iter().all(|it| it.file != out.file), "archived ones are not exported");
        // Another store takes it in as it is.
        let other = World::new(world.engine);
        let other = Story::new(&other);
        assert!(import(&other, &out.text).unwrap().changed);
        assert_eq!(json(&exported(&other, &id).text), json(&out.text));
    }

    fn a_damaged_checkpoint_hides_no_other(world: &World) {
        let story = working(world, plain());
        let (bad, good) = (take(&story, "one"), take(&story, "two"));
        damage::everywhere(world, Kind::Checkpoint, &format!("chk-{bad}"), 0);
        let given = export(&story);
        assert_eq!(given.documents.iter().map(|it| it.file.clone()).collect::<Vec<_>>(), [format!("{good}.json")]);
        assert_eq!(given.lost.len(), 1);
    }

    fn what_is_deleted_takes_its_document_with_it(world: &World) {
        let story = Story::new(world);
        import(&story, RUNNING).unwrap();
        assert!(kept(&story, FIRST).is_some());
        story.mark("", format!("chk-{FIRST}"), CheckpointMark::Delete).unwrap();
        assert_eq!((kept(&story, FIRST), export(&story).documents.len()), (None, 0));
        assert!(import(&story, RUNNING).unwrap().changed, "and can come again");
        assert_eq!(json(&exported(&story, FIRST).text), json(RUNNING));
        assert_eq!(story.run("", &ShowMission { mission: None }).unwrap().sorties.len(), 3);
        assert!(world.problems().is_empty());
    }
}
