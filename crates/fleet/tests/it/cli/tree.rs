//! Checkpoints of a git repository, and what became of its files: real git, fixed commits.

use std::fs;
use std::time::{Duration, Instant};

use expect_test::{Expect, expect};
use flightline_testkit::program::write_script;
use flightline_testkit::repository::TestRepository;
use serde_json::Value;

use crate::cli::world::{PATH, World};

/// A repository with a fleet, in which ada has changed one file and made another.
fn working() -> (World, TestRepository) {
    let world = World::empty();
    let files = [
        ("src/model.rs", "model\n"),
        ("src/api.rs", "api\n"),
        ("old.txt", "old\n"),
    ];
    let repository = TestRepository::new(&world.repo(), &files);
    world.ok("init");
    world.ok("missions create \"Add login\" --sortie Model --sortie Docs");
    let id = world.sortie("Model");
    world.agent_ok("ada", &format!("sorties claim {id}"));
    world.agent_ok("ada", "locks acquire src/api.rs");
    repository.write("src/model.rs", "another model\n");
    repository.write("src/new.rs", "new\n");
    repository.remove("old.txt");
    world.agent_ok(
        "ada",
        &format!("sorties update {id} --modified src/model.rs --created src/new.rs"),
    );
    (world, repository)
}

fn check(text: &str, expected: &Expect) {
    expected.assert_eq(text);
}

/// A text from this line on.
fn from<'t>(text: &'t str, line: &str) -> &'t str {
    let index = text.find(line);
    &text[index.unwrap_or_else(|| panic!("no {line:?} in {text}"))..]
}

#[test]
fn a_checkpoint_shows_the_work_tree() {
    let (world, _repository) = working();
    world.ok("checkpoint");
    check(
        from(&world.ok("checkpoints show @latest").stdout, "Work Tree:"),
        &expect![[r#"
            Work Tree:
              Branch: main
              Commit: 9c75fe8ce40954636ae12ea24a2a9efa1bedf238
              Changes: yes
              Modified (1):
                src/model.rs  14 bytes  sha256 7f84898ef2a0
              Created (1):
                src/new.rs  4 bytes  sha256 7aa7a5359173
              Named (1):
                src/api.rs  4 bytes  sha256 d171794c5c1f
              Deleted (1):
                old.txt
              Unstaged (2):
                old.txt
                src/model.rs
        "#]],
    );
    let shown = world.json("checkpoints show @latest");
    let seen = &shown["file_system"];
    assert_eq!(seen["git_status"]["is_dirty"], true);
    assert_eq!(seen["modified_files"][0]["path"], "src/model.rs");
    assert_eq!(seen["modified_files"][0]["size"], 14);
    assert_eq!(seen["truncated"], false);
    // The file says the same, and both are as the published schema says.
    let mission = shown["mission_id"].as_str().unwrap();
    let file = world.state().join("checkpoints").join(mission);
    let file = file.join(format!("{}.json", shown["id"].as_str().unwrap()));
    let file: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    assert_eq!(file["file_system"], *seen);
    let schema = world.json("schema checkpoint");
    assert!(schema["properties"].get("file_system").is_some());
    let validator = jsonschema::validator_for(&schema).unwrap();
    assert!(validator.is_valid(&file) && validator.is_valid(&shown));
    world.ok("checkpoints verify");
}

#[test]
fn every_checkpoint_has_it() {
    let (world, _repository) = working();
    let branch = |world: &World| {
        let shown = world.json("checkpoints show @latest");
        let git = &shown["file_system"]["git_status"];
        (
            shown["reason"].as_str().unwrap().to_owned(),
            git["branch"].as_str().map(str::to_owned),
        )
    };
    let main = Some("main".to_owned());
    for (typed, reason) in [
        ("checkpoint", "manual"),
        (
            "checkpoint --before git_push --target main",
            "before_destructive",
        ),
        ("checkpoint --reason pre_compact", "pre_compact"),
    ] {
        world.ok(typed);
        assert_eq!(branch(&world), (reason.to_owned(), main.clone()));
    }
    let id = world.sortie("Model");
    world.agent_ok("ada", &format!("sorties complete {id}"));
    assert_eq!(branch(&world), ("milestone".to_owned(), main.clone()));
    world.ok("resume --checkpoint @latest~2 --force -y");
    assert_eq!(branch(&world), ("after_restore".to_owned(), main));
}

#[test]
fn resume_compares_what_was_said_with_the_work_tree() {
    let (world, repository) = working();
    world.ok("checkpoint");
    repository.write("src/new.rs", "somebody else\n");
    repository.remove("src/api.rs");
    repository.git(&["checkout", "-q", "-b", "side"]);
    repository.git(&["commit", "-q", "--allow-empty", "-m", "second"]);
    let dry = world.ok("resume --dry-run").stdout;
    check(
        from(&dry, "Files Modified:"),
        &expect![[r#"
            Files Modified:
            - src/model.rs (verified)
            - src/new.rs (changed since)

            Work Tree Since The Checkpoint:
            - HEAD moved: main at 9c75fe8c → side at 30a00154
            - missing src/api.rs

            Would restore:
            - Restore 0 sorties
            - Re-acquire 0 locks
            - Requeue 0 messages

            What To Do Now:
            - ada keeps srt-af9e72eb: its briefing: fleet context --agent ada

            Nothing was changed.
        "#]],
    );
    let planned = world.json("resume --dry-run");
    let real = world.ok("resume").stdout;
    let part = |text: &str, end: &str| {
        let part = from(text, "Files Modified:");
        part[..part.find(end).unwrap()].to_owned()
    };
    assert_eq!(part(&real, "Restoring"), part(&dry, "Would"));
    let context = world.json("resume");
    assert_eq!(
        context["work_tree"],
        planned["recovery_context"]["work_tree"]
    );
    let moved = &context["work_tree"]["head_moved"];
    assert_eq!(moved["from"]["branch"], "main");
    assert_eq!(moved["to"]["branch"], "side");
}

#[test]
fn a_briefing_marks_the_files() {
    let (world, repository) = working();
    world.ok("checkpoint");
    repository.write("src/new.rs", "somebody else\n");
    repository.git(&["checkout", "-q", "-b", "side"]);
    let briefed = world.agent_ok("ada", "context --json").json();
    let files: Vec<String> = briefed["facts"]["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| {
            format!(
                "{} {}",
                file["mark"].as_str().unwrap(),
                file["path"].as_str().unwrap()
            )
        })
        .collect();
    assert_eq!(files, ["verified src/model.rs", "changed src/new.rs"]);
    let text = briefed["text"].as_str().unwrap();
    for line in [
        "- changed src/new.rs\n- verified src/model.rs",
        "HEAD moved: main at ",
    ] {
        assert!(text.contains(line), "{line:?} in {text}");
    }
}

#[test]
fn a_git_that_hangs_costs_a_moment_and_is_said() {
    let (world, _repository) = working();
    let world = world.local_only("the `git` of one command is replaced, and a server has its own");
    let programs = world.home().join("programs");
    fs::create_dir(&programs).unwrap();
    let git = programs.join("git");
    write_script(&git, "exec sleep 60");
    let began = Instant::now();
    let path = format!("{}:{PATH}", programs.display());
    let taken = world.line("checkpoint").env("PATH", path).run();
    assert_eq!(taken.code, 0, "{taken:?}");
    assert!(began.elapsed() < Duration::from_secs(30));
    let shown = world.ok("checkpoints show @latest").stdout;
    check(
        from(&shown, "Work Tree:"),
        &expect![[r#"
        Work Tree:
          Named (3):
            src/api.rs    4 bytes   sha256 d171794c5c1f
            src/model.rs  14 bytes  sha256 7f84898ef2a0
            src/new.rs    4 bytes   sha256 7aa7a5359173
          Truncated: not everything could be looked at
          Warning: git did not answer within 2000 ms
    "#]],
    );
}

#[test]
fn what_the_environment_says_of_git_does_not_reach_it() {
    let (world, _repository) = working();
    let other = world.home().join("other");
    let other = TestRepository::new(&other, &[("elsewhere", "x")]);
    let marker = world.home().join("marker");
    let taken = world
        .line("checkpoint")
        .env("GIT_DIR", other.root().join(".git"))
        .env("GIT_WORK_TREE", other.root())
        .env("GIT_TRACE", &marker)
        .env("GIT_CONFIG_COUNT", "1")
        .env("GIT_CONFIG_KEY_0", "core.worktree")
        .env("GIT_CONFIG_VALUE_0", other.root())
        .run();
    assert_eq!(taken.code, 0, "{taken:?}");
    let seen = world.json("checkpoints show @latest");
    assert_eq!(
        seen["file_system"]["deleted_files"],
        serde_json::json!(["old.txt"])
    );
    assert!(!marker.exists());
}

#[test]
fn a_command_that_takes_no_checkpoint_asks_git_nothing() {
    let (world, _repository) = working();
    let world = world.local_only("the `git` of one command is replaced, and a server has its own");
    let programs = world.home().join("programs");
    fs::create_dir(&programs).unwrap();
    let (git, marker) = (programs.join("git"), world.home().join("marker"));
    write_script(&git, &format!("echo run >> {}\nexit 1", marker.display()));
    let path = format!("{}:{PATH}", programs.display());
    let id = world.sortie("Model");
    for typed in [
        format!("sorties update {id} --note half"),
        "heartbeat".to_owned(),
        "status".to_owned(),
        "mail inbox".to_owned(),
        "locks list".to_owned(),
    ] {
        let ran = world.line(&typed).agent("ada").env("PATH", &path).run();
        assert_eq!(ran.code, 0, "{ran:?}");
    }
    assert!(!marker.exists());
    world.line("checkpoint").env("PATH", &path).run();
    assert!(marker.exists());
}

#[test]
fn what_mirrors_write_is_no_part_of_the_work() {
    let (world, repository) = working();
    for mirror in ["sitebuilder", "epic", "recovery"] {
        world.ok(&format!("config set mirrors.{mirror} true"));
    }
    world.ok("config set mirrors.root docs");
    world.agent_ok("ada", "agents update --step Writing");
    repository.write("docs/guide.md", "by hand\n");
    world.ok("checkpoint");
    world.agent_ok("ada", "agents update --step Reading");
    let shown = world.json("checkpoints show @latest");
    let created = &shown["file_system"]["created_files"];
    let created: Vec<&str> = created.as_array().unwrap().iter().map(name_of).collect();
    assert_eq!(created, ["docs/guide.md", "src/new.rs"]);
    assert!(
        world
            .repo()
            .join("docs/agent_checkpoints/ada.json")
            .exists()
    );
    assert!(world.repo().join("docs/progress/STATUS.md").exists());
    let resumed = world.ok("resume -y").stdout;
    assert!(!resumed.contains("agent_checkpoints"), "{resumed}");
}

fn name_of(file: &Value) -> &str {
    file["path"].as_str().or(file.as_str()).unwrap()
}

#[test]
fn an_orchestrators_document_says_what_was_seen() {
    let (world, _repository) = working();
    world.ok("checkpoint");
    let given = world.json("export orchestrator");
    let mut last = given["documents"].as_array().unwrap().iter();
    let last = last.rfind(|document| document["file"] != "index.json");
    let text = last.unwrap()["text"].as_str().unwrap();
    let document: Value = serde_json::from_str(text).unwrap();
    let seen = &document["fileSystem"];
    assert_eq!(seen["createdFiles"], serde_json::json!(["src/new.rs"]));
    assert_eq!(seen["deletedFiles"], serde_json::json!(["old.txt"]));
    assert_eq!(seen["modifiedFiles"][0]["path"], "src/model.rs");
    assert_eq!(seen["modifiedFiles"][0]["size"], 14);
    assert_eq!(seen["gitStatus"]["branch"], "main");
    assert_eq!(seen["gitStatus"]["isDirty"], true);
    world.write("one.json", text);
    world.ok("import orchestrator one.json");
}
