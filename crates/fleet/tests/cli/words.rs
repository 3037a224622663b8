//! What is said is so: each sentence against what happened.

use std::process::Command;

use crate::world::World;

#[test]
fn a_checkpoint_that_was_there_already_is_not_said_to_be_created() {
    let world = World::with_sorties(&["Model"]);
    world.agent_ok("ada", "sorties claim --next");
    let first = world.ok("checkpoint").stdout;
    assert!(first.starts_with("Checkpoint created: chk-"), "{first}");
    let second = world.ok("checkpoint").stdout;
    assert!(
        second.contains("is current: nothing has changed since it was taken"),
        "{second}"
    );
    let id = world.json("checkpoints list")[0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let deleted = world.ok(&format!("checkpoints delete {id} -y")).stdout;
    assert_eq!(deleted, format!("Deleted {}\n", &id[..8]));
}

#[test]
fn a_sync_that_changes_nothing_says_so() {
    let world = World::with_sorties(&["Model"]);
    world.ok("agents register ada");
    let said = world.ok("agents sync ada").stdout;
    assert_eq!(
        said,
        "ada was in normal mode already: nothing has changed.\n"
    );
}

#[test]
fn a_mistyped_recipient_is_recognised_and_leaves_nothing() {
    let world = World::with_sorties(&["Model"]);
    world.agent_ok("ada", "sorties claim --next");
    let refused = world.fleet("mail send --to adda --subject Hello");
    assert!(
        refused.refused(3).contains("did you mean `ada`?"),
        "{refused:?}"
    );
    assert_eq!(world.json("checkpoints list"), serde_json::json!([]));
}

#[test]
fn fields_that_an_answer_cannot_have_are_refused_before_anything_is_done() {
    let world = World::with_sorties(&["Model"]);
    let before = world.rev();
    let refused = world.fleet("sorties claim --next --agent ada --json --fields sortie.titel");
    refused.refused_in_json(2);
    assert!(
        refused.stdout.contains("did you mean `title`?"),
        "{refused:?}"
    );
    assert_eq!(world.rev(), before);
    let claimed = world
        .fleet("sorties claim --next --agent ada --json --fields sortie.title")
        .json();
    assert_eq!(claimed["sortie.title"], "Model");
}

#[test]
fn where_the_environment_does_not_say_who_the_user_is_the_system_does() {
    let world = World::new();
    let made = world.line("missions create X").without("USER").run();
    assert_eq!(made.code, 0, "{made:?}");
    let said = Command::new("id").arg("-un").output().unwrap();
    let name = String::from_utf8(said.stdout).unwrap();
    let actor = world.json("events list --type mission_created")["events"][0]["actor"].clone();
    assert_eq!(actor, format!("user:{}", name.trim()));
}

#[test]
fn the_log_can_be_cut_and_followed() {
    let world = World::with_sorties(&["Model"]);
    world.agent_ok("ada", "sorties claim --next");
    let two = world.ok("log -n 2").stdout;
    assert_eq!(two.lines().count(), 2, "{two}");
    assert!(
        two.lines().next().unwrap().ends_with("claims \"Model\""),
        "{two}"
    );
    let followed = world.ok("log -f -n 2 --for 300ms").stdout;
    assert!(
        followed
            .lines()
            .last()
            .unwrap()
            .ends_with("ada  claims \"Model\""),
        "{followed}"
    );
}

#[test]
fn a_token_is_all_that_goes_to_stdout() {
    let world = World::new().local_only("tokens are made where the store is");
    let made = world.ok("token create laptop");
    assert_eq!(made.stdout.lines().count(), 1, "{made:?}");
    assert!(
        made.stdout.starts_with("fleet_") && made.stderr.contains("This is shown once"),
        "{made:?}"
    );
    world.ok("token create ada --as-agent ada");
    let listed = world.json("token list");
    assert_eq!(
        (&listed[0]["scope"], &listed[1]["scope"]),
        (&"dispatch".into(), &"agent".into())
    );
    let text = world.ok("token list").stdout;
    assert!(
        text.contains("CREATED") && text.contains("user:grace"),
        "{text}"
    );
}
