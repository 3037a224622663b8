//! Several operations in one commit, on both engines.

use flightline::batch::RunBatch;
use flightline::core::count::{self, Work};
use flightline::core::token::Scope;
use flightline::registry::{CallContext, find};
use flightline_testkit::prelude::*;
use serde_json::{Value, json};

use crate::registry::guest;

fn batch(parts: &[(&str, Value)]) -> RunBatch {
    let part = |(operation, request): &(&str, Value)| json!({ "operation": operation, "request": request });
    let parts: Vec<Value> = parts.iter().map(part).collect();
    serde_json::from_value(json!({ "operations": parts })).unwrap()
}

fn run(story: &Story<'_>, parts: &[(&str, Value)]) -> Result<Value, Refusal> {
    let done = story.run("ada", &batch(parts))?;
    Ok(serde_json::to_value(done).unwrap()["outcomes"].take())
}

both_engines! {
    fn all_of_a_batch_is_done_in_one_step_and_each_sees_what_came_before(world: &World) {
        let story = at_endpoint(world);
        let before = story.rev();
        let id = story.sortie_id("Endpoint");
        let done = run(&story, &[
            ("update_sortie", json!({ "sortie": id, "note": "half of it" })),
            ("take_checkpoint", json!({})),
            ("show_sortie", json!({ "sortie": id })),
        ]).unwrap();
        assert_eq!(done.as_array().unwrap().len(), 3);
        assert_eq!(done[2]["sortie"]["progress_notes"], "half of it");
        let taken = done[1]["id"].as_str().unwrap();
        let events = story.events_after(before);
        assert_eq!(events.iter().filter(|event| event.kind == "fleet_checkpointed").count(), 1);
        let cut = story.all::<Checkpoint>().into_iter().find(|checkpoint| checkpoint.id.to_string() == taken);
        let cut = cut.unwrap().cut;
        let told = events.iter().find(|event| event.kind == "sortie_progress").unwrap();
        assert!(cut.rev >= told.rev, "the checkpoint holds what was reported with it");
    }

    fn one_refusal_refuses_the_batch_and_says_which(world: &World) {
        let story = at_endpoint(world);
        let (before, id) = (story.rev(), story.sortie_id("Endpoint"));
        let refusal = run(&story, &[
            ("update_sortie", json!({ "sortie": id, "note": "half of it" })),
            ("acquire_locks", json!({ "paths": ["a.rs"] })),
            ("show_sortie", json!({ "sortie": "srt-ffffffff" })),
        ]).unwrap_err();
        assert_eq!(refusal.code, Code::NotFound);
        assert!(
            refusal.message.starts_with("nothing of the batch was done: operation 3 (`show_sortie`): "),
            "{}", refusal.message
        );
        assert_eq!(story.rev(), before);
        assert_eq!(story.sortie("Endpoint").sortie.progress_notes, None);
        assert!(story.lock("ada", &["a.rs"]).is_ok(), "nobody has locked it");
    }

    fn what_cannot_be_part_of_a_batch_is_refused(world: &World) {
        let story = at_endpoint(world);
        for name in ["run_batch", "resume", "prune_checkpoints", "settle_backups", "no_such"] {
            let refusal = run(&story, &[(name, json!({}))]).unwrap_err();
            assert!(matches!(refusal.code, Code::InvalidInput | Code::NotFound), "{name}: {refusal:?}");
        }
        let none = run(&story, &[]).unwrap_err();
        assert_eq!(none.message, "a batch has 1 to 64 operations, and this one has 0");
        let many = vec![("show_status", json!({})); 65];
        assert_eq!(run(&story, &many).unwrap_err().code, Code::InvalidInput);
        let wrong = run(&story, &[("heartbeat", json!({ "step": 7 }))]).unwrap_err();
        assert_eq!(
            wrong.message,
            "nothing of the batch was done: operation 1 (`heartbeat`): `step` of its request is the number 7, and must be a text"
        );
    }

    fn a_batch_is_read_with_its_parts_once_and_a_retry_may_be_spelled_otherwise(world: &World) {
        let story = at_endpoint(world);
        let caller = keyed("ada", "once");
        let ask = CallContext { caller: &caller, folder: world.folder(), rehearse: false };
        let id = story.sortie_id("Endpoint");
        let said = [
            format!(r#"{{"operations":[{{"operation":"update_sortie","request":{{"sortie":"{id}","note":"half"}}}},{{"operation":"tell_time"}}]}}"#),
            format!(r#"{{"operations": [{{"request": {{"note": "half", "sortie": "{id}"}}, "operation": "update_sortie"}}, {{"operation": "tell_time", "request": {{}}}}]}}"#),
        ];
        let answers = said.map(|text| {
            let before = count::so_far(Work::Request);
            let read = find("run_batch").unwrap().read(&text).unwrap();
            assert_eq!(count::so_far(Work::Request), before + 3, "the batch and its two parts");
            let done = read.run(&mut world.fleet(), &ask).outcome.unwrap().now().unwrap();
            assert_eq!(count::so_far(Work::Request), before + 3);
            (done.replayed, done.outcome.text().unwrap().to_string())
        });
        let [(first, answer), (second, again)] = answers;
        assert_eq!((first, second), (false, true));
        assert_eq!(answer, again);
        assert!(answer.starts_with(r#"{"outcomes":[{"sortie":"#), "{answer}");
    }

    fn a_token_goes_no_further_in_a_batch_than_alone(world: &World) {
        let story = at_endpoint(world);
        story.board("bob", Role::Specialist, 8);
        let caller = guest(world, "adas", Scope::Agent, "ada");
        for (name, request) in [
            ("retire_agent", json!({ "agent": "bob" })),
            ("create_token", json!({ "name": "more", "scope": "admin", "sha256": "0".repeat(64) })),
        ] {
            let refused = story.run_as(&caller, &batch(&[("show_status", json!({})), (name, request)]));
            assert_eq!(refused.err().unwrap().code, Code::Forbidden, "{name}");
        }
    }

    fn a_report_takes_its_checkpoint_along(world: &World) {
        let story = at_endpoint(world);
        let report = UpdateSortie {
            sortie: story.sortie_id("Endpoint"),
            note: Some(note("half of it")),
            checkpoint: true,
            ..UpdateSortie::default()
        };
        let taken = story.run("ada", &report).unwrap().checkpoint.unwrap();
        let cut = story.all::<Checkpoint>().into_iter().find(|it| it.id == taken).unwrap().cut;
        assert_eq!(cut.created_by, "ada");
        let block = SortieAction::Block { reason: note("waits for a key") };
        let done = ChangeSortie { checkpoint: true, ..change_sortie(story.sortie_id("Endpoint"), block) };
        assert!(story.run("ada", &done).unwrap().checkpoint.is_some());
    }
}
