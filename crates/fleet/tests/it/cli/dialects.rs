//! `fleet import` and `fleet export`: what people see, and what is refused.

use std::fs;
use std::os::unix::fs::symlink;

use expect_test::expect;

use crate::cli::world::World;

macro_rules! data {
    ($name:literal) => {
        include_str!(concat!(
            "../../../../flightline-core/tests/it/dialects/data/",
            $name
        ))
    };
}

const TASK: &str = data!("sitebuilder_schema.json");
const AGENT: &str = data!("epic_first.json");
const CONTEXT: &str = data!("recovery_example.json");

/// Every dialect that keeps one document in one file, with a good one of it.
const GOOD: [(&str, &str); 3] = [
    ("sitebuilder", TASK),
    ("epic", AGENT),
    ("recovery", CONTEXT),
];

#[test]
fn files_of_three_systems_come_in_and_go_out() {
    let world = World::new();
    for (dialect, text) in GOOD {
        world.write(&format!("{dialect}.json"), text);
    }
    world
        .fleet("import sitebuilder sitebuilder.json")
        .expect(expect![[r#"
            Imported: T060 of Riley from sitebuilder.json: new
        "#]]);
    world
        .fleet("import sitebuilder sitebuilder.json")
        .expect(expect![[r#"
            Known: T060 of Riley from sitebuilder.json
        "#]]);
    world.fleet("import epic epic.json").expect(expect![[r#"
        Imported: Secondary-A from epic.json: new
    "#]]);
    world
        .fleet("import recovery recovery.json")
        .expect(expect![[r#"
            Imported: checkpoint of Tasks from progress/checkpoints from recovery.json: new
            [stderr]
            warning: recovery.json: it is of 2025-10-30T15:30:00Z, too old to be resumed from by itself
        "#]]);
    world.fleet("export sitebuilder out").expect(expect![[r#"
        Exported out/migration-T060.json
    "#]]);
    let out = fs::read_to_string(world.repo().join("out/migration-T060.json")).unwrap();
    let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    assert_eq!(json(&out), json(TASK));
    world.fleet("export sitebuilder out").expect(expect![[r#"
        Exported out/migration-T060.json
    "#]]);
    world.write("out/migration-T060.json", "mine");
    world.fleet("export sitebuilder out").expect(expect![[r#"
        [stderr]
        error: out/migration-T060.json exists already, and says something else

        hint: choose another folder, or replace it with `--force`
        [exit 4]
    "#]]);
    assert_eq!(
        fs::read_to_string(world.repo().join("out/migration-T060.json")).unwrap(),
        "mine"
    );
    world.ok("export sitebuilder out --force");
}

#[test]
fn bad_files_are_refused_and_nothing_is_half_imported() {
    let world = World::new();
    for (dialect, good) in GOOD {
        let before = world.rev();
        let inside = |field: &str| good.replacen('{', &format!("{{{field},"), 1);
        let bad = [
            ("empty", String::new()),
            ("cut short", good[..good.len() / 2].to_owned()),
            ("no object", "[]".to_owned()),
            ("wrong type", good.replacen(": \"", ": 7, \"was\": \"", 1)),
            ("twice", inside("\"x\": 1, \"x\": 2")),
            ("half a character", inside(r#""x": "\ud83d""#)),
            (
                "deep",
                inside(&format!("\"x\": {}{}", "[".repeat(65), "]".repeat(65))),
            ),
            (
                "huge",
                inside(&format!("\"x\": \"{}\"", "x".repeat(9 << 20))),
            ),
        ];
        for (what, text) in bad {
            world.write("bad.json", &text);
            let ran = world.fleet(&format!("import {dialect} bad.json"));
            assert_eq!(ran.code, 2, "{dialect}, {what}: {ran:?}");
            assert!(
                ran.stderr.contains("bad.json"),
                "{dialect}, {what}: {ran:?}"
            );
        }
        fs::write(world.repo().join("bad.json"), [0xff, 0xfe, b'{']).unwrap();
        assert_eq!(world.fleet(&format!("import {dialect} bad.json")).code, 2);
        assert_eq!(world.rev(), before, "nothing came in");
        // A good file beside a bad one comes in all the same.
        world.write("many/a.json", good);
        world.write("many/b.json", "{");
        let ran = world.fleet(&format!("import {dialect} many"));
        assert_eq!(ran.code, 2, "{ran:?}");
        assert!(ran.stdout.contains("Imported: "), "{ran:?}");
        assert!(ran.stdout.contains("Refused: "), "{ran:?}");
        assert_ne!(world.rev(), before);
    }
    let before = world.rev();
    world.write("real.json", AGENT);
    symlink("real.json", world.repo().join("link.json")).unwrap();
    world.fleet("import epic link.json").expect(expect![[r#"
        [stderr]
        error: cannot read link.json: link.json is a link, and no link is followed here
        [exit 1]
    "#]]);
    world.fleet("import epic missing.json").expect(expect![[r#"
            [stderr]
            error: there is no file `missing.json`
            [exit 3]
        "#]]);
    fs::create_dir(world.repo().join("none")).unwrap();
    world.fleet("import epic none").expect(expect![[r#"
        [stderr]
        error: there are no `.json` files in none
        [exit 3]
    "#]]);
    assert_eq!(world.rev(), before, "nothing came in");
    // What editors on Windows do to a file harms nobody.
    world.write(
        "windows.json",
        &format!("\u{feff}{}", AGENT.replace('\n', "\r\n")),
    );
    world.ok("import epic windows.json");
}
