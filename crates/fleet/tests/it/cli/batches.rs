//! Several acts in one commit, as typed.

use expect_test::expect;

use crate::cli::world::World;

#[test]
fn a_report_takes_a_checkpoint_along_and_several_operations_are_one_commit() {
    let world = World::with_sorties(&["Endpoint", "Docs"]);
    world.ok("agents register ada");
    world.agent_ok("ada", "sorties claim --next");
    let id = world.sortie("Endpoint");
    let told = world.agent_ok(
        "ada",
        &format!("sorties update {id} --last begun --checkpoint"),
    );
    assert!(
        told.stdout.contains("   checkpoint chk-"),
        "{}",
        told.stdout
    );
    let before = world.rev();
    let batch = |second: &str| {
        let first = format!(
            r#"{{"operation":"update_sortie","request":{{"sortie":"{id}","note":"half of it"}}}}"#
        );
        let text = format!(r#"{{"operations":[{first},{second}]}}"#);
        world.line("call run_batch").agent("ada").stdin(text).run()
    };
    batch(r#"{"operation":"show_mission","request":{"mission":"msn-ffff"}}"#).expect(expect![[r#"
        [stderr]
        error: nothing of the batch was done: operation 2 (`show_mission`): there is no mission `msn-ffff`

        hint: list them with `fleet missions list`
        [exit 3]
    "#]]);
    assert_eq!(world.rev(), before, "nothing was written");
    let done = batch(r#"{"operation":"take_checkpoint"}"#);
    assert_eq!(done.code, 0, "{}", done.stderr);
    assert!(done.stdout.contains("half of it"), "{}", done.stdout);
    let steps = world.json("checkpoints list");
    assert_eq!(steps.as_array().map(Vec::len), Some(2), "{steps}");
}
