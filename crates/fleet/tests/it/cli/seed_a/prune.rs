//! `fleet checkpoints prune`.

use expect_test::expect;
use serde_json::json;

use super::{act, seed};
use crate::cli::colour::on_a_terminal;
use crate::cli::world::World;

/// Two missions with checkpoints that are eight days old, of which three may go.
fn old() -> World {
    let world = seed();
    let login = world.json("missions list")[0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    for number in 0..3 {
        world.ok(&format!("checkpoint --note \"Number {number}\""));
    }
    world.ok("missions create \"Write the manual\" --sortie Outline --sortie Chapters");
    let outline = world.sortie("Outline");
    act(&world, "Specialist-2", &format!("sorties claim {outline}"));
    act(
        &world,
        "Specialist-2",
        &format!("sorties error {outline} --type api_error --status 503 --message \"try later\""),
    );
    for number in 0..3 {
        world.ok(&format!("checkpoint --note \"Chapter {number}\""));
    }
    world.ok(&format!("missions use {login}"));
    world.pass(8 * 86_400);
    world
}

/// How large files are is not for the seed to say.
fn sized(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        match line
            .strip_prefix("Total: ")
            .and_then(|rest| rest.split_once(" ("))
        {
            Some((count, _)) => out += &format!("Total: {count} (SIZE)\n"),
            None => out += &format!("{line}\n"),
        }
    }
    out
}

#[test]
fn fleet_checkpoints_prune() {
    let world = old();
    let plan = world.fleet("checkpoints prune --dry-run");
    expect![[r#"
        Pruning checkpoints older than 7 days (keeping 3 per mission)...

        Would delete:
          chk-6869  msn-1a1a  2026-01-04  progress
          chk-8b37  msn-1a1a  2026-01-04  progress
          chk-166f  msn-fc55  2026-01-04  error

        Total: 3 checkpoints (SIZE)
        Journal: 40 old values (14.0 kB)
        Expired, but kept: 2 the last of an unfinished mission, 4 among the newest that stay
    "#]]
    .assert_eq(&sized(&plan.text()));
    let asked = world.fleet("checkpoints prune --older-than 3 --keep 1");
    assert_eq!((asked.code, asked.stdout.as_str()), (2, ""), "{asked:?}");
    expect![[r#"
        Pruning checkpoints older than 3 days (keeping 1 per mission)...

        Would delete:
          chk-6869  msn-1a1a  2026-01-04  progress
          chk-8b37  msn-1a1a  2026-01-04  progress
          chk-e23a  msn-1a1a  2026-01-04  manual
          chk-eaee  msn-1a1a  2026-01-04  manual
          chk-166f  msn-fc55  2026-01-04  error
          chk-1f23  msn-fc55  2026-01-04  manual
          chk-27d6  msn-fc55  2026-01-04  manual

        Total: 7 checkpoints (SIZE)
        Journal: 40 old values (14.0 kB)
        Expired, but kept: 2 the last of an unfinished mission
        error: this would delete 7 checkpoints and thin the journal by 40 old values (14.0 kB), and needs confirmation

        hint: nothing was changed; run `fleet checkpoints prune --older-than 3 --keep 1 -y`
    "#]]
    .assert_eq(&sized(&asked.stderr));
    let json = world.json("checkpoints prune --dry-run");
    assert_eq!(
        (&json["deleted"], json["details"].as_array().unwrap().len()),
        (&json!(3), 3)
    );
    assert!(json["freed_bytes"].as_u64().unwrap() > 0, "{json}");
    for name in ["id", "mission_id"] {
        assert!(json["details"][0][name].is_string(), "{name}");
    }
    let done = world.fleet("checkpoints prune -y");
    expect![[r#"
        Pruning checkpoints older than 7 days (keeping 3 per mission)...

        Deleted:
          chk-6869  msn-1a1a  2026-01-04  progress
          chk-8b37  msn-1a1a  2026-01-04  progress
          chk-166f  msn-fc55  2026-01-04  error

        Total: 3 checkpoints (SIZE)
        Journal: 40 old values (14.0 kB); the store uses that space again
        Expired, but kept: 2 the last of an unfinished mission, 4 among the newest that stay
    "#]]
    .assert_eq(&sized(&done.text()));
    world
        .fleet("checkpoints prune --dry-run")
        .expect(expect![[r#"
            Pruning checkpoints older than 7 days (keeping 3 per mission)...

            Nothing to delete.
            Expired, but kept: 2 the last of an unfinished mission, 4 among the newest that stay
        "#]]);
}

#[test]
fn fleet_checkpoints_prune_asks_on_a_terminal() {
    let plain = [("NO_COLOR", "1")];
    let world = old();
    let no = on_a_terminal(&world, "checkpoints prune", &plain, "n\n");
    assert!(no.stdout.contains("Would delete:\n"), "{no:?}");
    assert!(no.stdout.contains("\n\nProceed? [y/N] "), "{no:?}");
    assert_eq!(no.code, 2, "{no:?}");
    let yes = on_a_terminal(&world, "checkpoints prune", &plain, "y\n");
    assert!(
        yes.code == 0 && yes.stdout.contains("Deleted:\n"),
        "{yes:?}"
    );
}
