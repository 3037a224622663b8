//! Tasks' checkpoints, seed B's.

use std::fs;

use flightline::core::dialect::{Dialect, Json};
use flightline::mirror::MirrorNotice;
use flightline_testkit::prelude::*;

use super::{Mirror, export, import, json, try_import};

const FILE: &str = "progress/checkpoints/migration-T060.json";
const SCHEMA: &str =
    include_str!("../../../../flightline-core/tests/it/dialects/data/sitebuilder_schema.json");
const START: &str =
    include_str!("../../../../flightline-core/tests/it/dialects/data/sitebuilder_start.json");
/// The seed's own partial documents, in the order of a task's life.
const UPDATES: [&str; 6] = [
    include_str!(
        "../../../../flightline-core/tests/it/dialects/data/sitebuilder_update_start.json"
    ),
    include_str!("../../../../flightline-core/tests/it/dialects/data/sitebuilder_update_mid.json"),
    include_str!(
        "../../../../flightline-core/tests/it/dialects/data/sitebuilder_update_progress.json"
    ),
    include_str!(
        "../../../../flightline-core/tests/it/dialects/data/sitebuilder_update_blocked.json"
    ),
    include_str!(
        "../../../../flightline-core/tests/it/dialects/data/sitebuilder_update_complete.json"
    ),
    include_str!("../../../../flightline-core/tests/it/dialects/data/sitebuilder_update_done.json"),
];

fn task(story: &Story<'_>, named: &str) -> SortieView {
    let sortie = story.sortie_id(named);
    story.run("", &ShowSortie { sortie }).unwrap()
}

fn only(story: &Story<'_>) -> Json {
    let mut out = export(story, Dialect::Sitebuilder);
    assert_eq!(out.len(), 1);
    json(&out.remove(0).1)
}

both_engines! {
    fn whole_documents_come_back_as_they_were(world: &World) {
        let story = Story::new(world);
        for text in [START, SCHEMA] {
            assert!(import(&story, Dialect::Sitebuilder, FILE, text).changed);
            assert!(!import(&story, Dialect::Sitebuilder, FILE, text).changed, "twice is once");
            assert_eq!(only(&story), json(text));
        }
        let view = task(&story, "Convert Nature Trail PDFs to Markdown");
        assert_eq!(view.sortie.status, SortieStatus::InProgress);
        assert_eq!((view.progress.total, view.progress.completed, view.progress.percent), (29, 19, 65), "declared counts survive a partial list");
        assert_eq!((view.subtasks.len(), view.files.len(), view.reviews.len()), (4, 3, 2));
        assert_eq!(view.sortie.cursor.next_to_process, Some(title("Post20English.pdf")));
        assert_eq!(view.sortie.acceptance_criteria.get(&name("frontmatter_valid")), Some(&true));
    }

    fn parts_are_updates_of_the_task_they_belong_to(world: &World) {
        let story = Story::new(world);
        let refused = try_import(&story, Dialect::Sitebuilder, FILE, UPDATES[1]).unwrap_err();
        assert!(refused.message.contains("`checkpoint_id` is missing"), "{}", refused.message);
        // The seed's whole document is of a later moment than the first of its parts.
        let begun = SCHEMA.replace("2025-12-08T14:52:10Z", "2025-12-08T14:30:25Z");
        import(&story, Dialect::Sitebuilder, FILE, &begun);
        let mut percents = Vec::new();
        for update in UPDATES {
            let update_json = json(update);
            import(&story, Dialect::Sitebuilder, FILE, update);
            let now = only(&story);
            for key in ["status", "progress_percent", "resumable", "resume_instructions", "completed_at"] {
                if let Some(said) = update_json.get(key) {
                    assert_eq!(now.get(key), Some(said), "{key} of {update}");
                }
            }
            percents.push(now.get("progress_percent").cloned().unwrap());
        }
        assert_eq!(percents.len(), 6);
        let view = task(&story, "Convert Nature Trail PDFs to Markdown");
        assert_eq!(view.sortie.status, SortieStatus::Completed);
        assert!(view.sortie.acceptance_criteria.values().all(|met| *met));
    }

    fn what_is_done_here_goes_into_the_document(world: &World) {
        let story = Story::new(world);
        let strange = SCHEMA.replacen('{', r#"{ "ticket": {"id": 7}, "#, 1);
        import(&story, Dialect::Sitebuilder, FILE, &strange);
        let sortie = story.sortie_id("Convert Nature Trail PDFs to Markdown");
        let update = UpdateSortie {
            sortie,
            subtasks: vec![SubtaskReport { output: Some(title("post-20.md")), ..subtask("post-20", SubtaskStatus::Complete) }],
            files: vec![file("docs/post-20.md", FileChange::Created)],
            ..UpdateSortie::default()
        };
        story.run("Riley", &update).unwrap();
        let (out, before) = (only(&story), json(SCHEMA));
        assert_eq!(out.get("ticket"), Some(&json(r#"{"id": 7}"#)));
        for same in ["started_at", "checkpoint_id", "review_scores", "context", "task_title"] {
            assert_eq!(out.get(same), before.get(same), "{same}");
        }
        let items = out.get("subtasks").and_then(|subtasks| subtasks.get("items")).unwrap();
        let Json::List(items) = items else { panic!("a list") };
        assert_eq!(items.len(), 4);
        assert!(items.contains(&json(r#"{"id": "post-20", "status": "complete", "output": "post-20.md"}"#)));
        let Some(Json::List(files)) = out.get("files_created") else { panic!("a list") };
        assert_eq!(files.len(), 3);
    }

    fn the_file_of_a_task_is_replaced_by_its_archive(world: &World) {
        let story = Story::new(world);
        let mirror = Mirror::new(&story, Dialect::Sitebuilder);
        story.mission("Site", &["Convert", "Later"]);
        story.claim("riley", "Convert").unwrap();
        assert_eq!(mirror.pass(), []);
        let sortie = story.sortie_id("Convert");
        let current = format!("riley-{sortie}.json");
        assert_eq!(mirror.files("progress/checkpoints"), [current]);
        let status = mirror.read("progress/STATUS.md");
        let at = story.all::<Sortie>()[0].updated_at.to_seconds();
        assert!(status.contains(&format!("As of {at}\n")) && status.contains(&format!("| 0% | {at} | in_progress |")) && status.contains("| not started |"), "{status}");
        // It is the same page however much later somebody looks.
        story.pass_minutes(7);
        assert_eq!(mirror.pass(), []);
        assert_eq!(mirror.read("progress/STATUS.md"), status);
        mirror.write("progress/STATUS.md", &format!("# Mine\n\n{status}\nMy words.\n"));
        story.run("riley", &change_sortie(sortie.clone(), DONE)).unwrap();
        assert_eq!(mirror.pass(), []);
        assert_eq!(mirror.files("progress/checkpoints"), [format!("riley-{sortie}-complete.json")]);
        let status = mirror.read("progress/STATUS.md");
        assert!(status.starts_with("# Mine\n") && status.ends_with("My words.\n") && status.contains("| complete |"), "{status}");
        let done = json(&mirror.read(&format!("progress/checkpoints/riley-{sortie}-complete.json")));
        assert_eq!((done.get("status"), done.get("resumable")), (Some(&Json::from("complete")), Some(&Json::Bool(false))));
    }

    fn what_an_agent_writes_itself_is_taken_in_and_checkpointed(world: &World) {
        let story = Story::new(world);
        let mirror = Mirror::new(&story, Dialect::Sitebuilder);
        mirror.write(FILE, START);
        assert!(matches!(mirror.pass().as_slice(), [MirrorNotice::Done(_)]));
        let half = START.replace("\"completed\": 0", "\"completed\": 10").replace("\"files_created\": []", "\"files_created\": [\"docs/a.md\"]");
        assert_ne!(half, START);
        mirror.write(FILE, &half);
        assert!(matches!(mirror.pass().as_slice(), [MirrorNotice::Done(_)]));
        let view = task(&story, "T060");
        assert_eq!((view.progress.percent, view.files.len()), (34, 1));
        assert_eq!(json(&mirror.read(FILE)).get("files_created"), Some(&json(r#"["docs/a.md"]"#)));
        let reasons = story.checkpoints().into_iter().map(|checkpoint| checkpoint.cut.reason);
        assert!(!reasons.collect::<Vec<_>>().contains(&Reason::FileCreated), "the preset `fleet` does not ask for it");
    }

    fn a_page_whose_marks_are_broken_is_left_alone(world: &World) {
        let story = Story::new(world);
        let mirror = Mirror::new(&story, Dialect::Sitebuilder);
        story.mission("Site", &["Convert"]);
        story.claim("riley", "Convert").unwrap();
        mirror.pass();
        let broken = mirror.read("progress/STATUS.md").replace("<!-- /flightline", "<!-- flightline");
        mirror.write("progress/STATUS.md", &broken);
        assert!(matches!(mirror.pass().as_slice(), [MirrorNotice::Trouble(said)] if said.contains("STATUS.md is not up to date")));
        assert_eq!(mirror.read("progress/STATUS.md"), broken);
        fs::remove_file(mirror.path("progress/STATUS.md")).unwrap();
        assert_eq!(mirror.pass(), []);
        assert!(mirror.read("progress/STATUS.md").contains("| riley |"));
    }

    fn parts_work_through_the_mirror_too(world: &World) {
        let story = Story::new(world);
        let mirror = Mirror::new(&story, Dialect::Sitebuilder);
        mirror.write(FILE, SCHEMA);
        mirror.pass();
        mirror.write(FILE, UPDATES[3]);
        let said = mirror.pass();
        assert!(matches!(said.as_slice(), [MirrorNotice::Done(_)]), "{said:?}");
        let now = json(&mirror.read(FILE));
        assert_eq!((now.get("status"), now.get("task_title")), (Some(&Json::from("blocked")), json(SCHEMA).get("task_title")));
    }

    fn what_is_complete_has_the_last_word(world: &World) {
        let story = Story::new(world);
        let mirror = Mirror::new(&story, Dialect::Sitebuilder);
        let done = SCHEMA.replace("\"in_progress\",\n  \"progress_percent\": 65", "\"complete\",\n  \"progress_percent\": 100").replace("\"completed_at\": null", "\"completed_at\": \"2025-12-08T15:30:00Z\"");
        assert_ne!(done, SCHEMA);
        mirror.write(FILE, SCHEMA);
        mirror.write("progress/checkpoints/migration-T060-complete.json", &done);
        mirror.pass();
        let view = task(&story, "Convert Nature Trail PDFs to Markdown");
        assert_eq!(view.sortie.status, SortieStatus::Completed);
        assert_eq!(mirror.files("progress/checkpoints"), ["migration-T060-complete.json"]);
        // Written before it was completed, and only seen now.
        mirror.write(FILE, SCHEMA);
        let said = mirror.pass();
        assert!(matches!(said.as_slice(), [MirrorNotice::Trouble(said)] if said.contains("was completed at")), "{said:?}");
        assert_eq!(task(&story, "Convert Nature Trail PDFs to Markdown").sortie.status, SortieStatus::Completed);
    }

    fn a_task_that_another_has_is_not_taken_back(world: &World) {
        let story = Story::new(world);
        let mirror = Mirror::new(&story, Dialect::Sitebuilder);
        mirror.write(FILE, SCHEMA);
        mirror.pass();
        let sortie = story.sortie_id("Convert Nature Trail PDFs to Markdown");
        story.register("bob", flightline::core::agent::Role::Specialist);
        story.run("", &change_sortie(sortie, SortieAction::Reassign { to: "bob".to_owned(), reason: None })).unwrap();
        mirror.pass();
        mirror.write(FILE, &SCHEMA.replace("\"completed\": 19", "\"completed\": 20"));
        let said = mirror.pass();
        assert!(matches!(said.as_slice(), [MirrorNotice::Trouble(said)] if said.contains("belongs to bob now")), "{said:?}");
    }
}
