//! A repository that wants something to be run. Nothing of it runs: the marker is never made.

use std::fs;

use crate::scene::{Scene, executable, names};

/// A repository all of whose doors lead to a program that makes a marker.
fn trap() -> (Scene, std::path::PathBuf) {
    let scene = Scene::new(&[
        ("a", "a"),
        ("sub.txt", "x"),
        (
            ".gitattributes",
            "* filter=evil diff=evil\n*.bin filter=lfs\n",
        ),
        ("b.bin", "b"),
    ]);
    let marker = scene.beside("marker");
    let evil = scene.beside("evil");
    executable(
        &evil,
        &format!("echo \"$0 $*\" >> {}; cat", marker.display()),
    );
    let evil = evil.to_str().unwrap();
    for (key, value) in [
        ("core.fsmonitor", evil),
        ("core.pager", evil),
        ("pager.status", evil),
        ("core.editor", evil),
        ("core.askPass", evil),
        ("core.sshCommand", evil),
        ("core.gitProxy", evil),
        ("core.hooksPath", "hooks"),
        ("credential.helper", evil),
        ("diff.external", evil),
        ("diff.evil.textconv", evil),
        ("diff.evil.command", evil),
        ("filter.evil.clean", evil),
        ("filter.evil.smudge", evil),
        ("filter.evil.required", "true"),
        ("filter.lfs.process", evil),
        ("filter.lfs.required", "true"),
        ("filter.dotted.name.clean", evil),
        ("alias.status", &format!("!{evil}")),
        ("alias.config", &format!("!{evil}")),
        ("gpg.program", evil),
        ("uploadpack.packObjectsHook", evil),
        ("remote.origin.url", &format!("ext::{evil}")),
        ("remote.origin.promisor", "true"),
        ("extensions.partialClone", "origin"),
        ("status.submoduleSummary", "true"),
    ] {
        scene.git(&["config", key, value]);
    }
    for hook in [
        "post-index-change",
        "pre-auto-gc",
        "fsmonitor-watchman",
        "post-checkout",
    ] {
        for folder in ["hooks", ".git/hooks"] {
            fs::create_dir_all(scene.root().join(folder)).unwrap();
            executable(
                &scene.root().join(folder).join(hook),
                &format!("echo {hook} >> {}", marker.display()),
            );
        }
    }
    (scene, marker)
}

#[test]
fn nothing_that_a_repository_configures_is_run() {
    let (scene, marker) = trap();
    // Contents have to be compared: of the same size, and with another time.
    scene.write("a", "c");
    scene.write("b.bin", "d");
    scene.write("new", "x");
    let seen = scene.look(&["a", "sub.txt"]);
    assert!(names(&seen.modified_files).contains(&"a"), "{seen:?}");
    assert!(names(&seen.modified_files).contains(&"b.bin"), "{seen:?}");
    assert!(names(&seen.created_files).contains(&"new"), "{seen:?}");
    scene.glance(&["a"]);
    assert!(
        !marker.exists(),
        "{}",
        fs::read_to_string(&marker).unwrap_or_default()
    );
    // The trap works: asked without care, git runs what is in it.
    let _ = std::process::Command::new("git")
        .args(["-c", "core.fsmonitor=false", "status"])
        .current_dir(scene.root())
        .env("HOME", scene.home())
        .output()
        .unwrap();
    assert!(marker.exists());
}

#[test]
fn a_missing_object_is_not_fetched() {
    let (scene, marker) = trap();
    let blob = scene.git(&["rev-parse", "HEAD:a"]);
    fs::remove_file(
        scene
            .root()
            .join(".git/objects")
            .join(&blob[..2])
            .join(&blob[2..]),
    )
    .unwrap();
    scene.write("a", "c");
    scene.look(&[]);
    assert!(!marker.exists());
}

#[test]
fn a_filter_whose_name_cannot_be_switched_off_is_not_trusted() {
    let (scene, marker) = trap();
    let evil = scene.beside("evil");
    let config = scene.root().join(".git/config");
    let text = fs::read_to_string(&config).unwrap();
    let more = format!("{text}[filter \"a=b\"]\n\tclean = {}\n", evil.display());
    fs::write(&config, more).unwrap();
    fs::write(scene.root().join(".git/info/attributes"), "* filter=a=b\n").unwrap();
    scene.write("a", "c");
    let seen = scene.look(&["a"]);
    assert!(!marker.exists());
    assert!(
        seen.warnings[0].contains("filters cannot be switched off"),
        "{seen:?}"
    );
    // Where HEAD is can still be told.
    assert!(seen.git_status.is_some());
}

#[test]
fn the_repository_does_not_decide_where_its_work_tree_is() {
    let scene = Scene::new(&[("a", "a")]);
    let other = scene.beside("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("private"), "x").unwrap();
    scene.git(&["config", "core.worktree", other.to_str().unwrap()]);
    scene.write("new", "x");
    let seen = scene.look(&[]);
    assert_eq!(names(&seen.created_files), ["new"]);
    assert!(seen.deleted_files.is_empty(), "{seen:?}");
}

#[test]
fn a_git_in_the_repository_is_not_run_whatever_the_path_says() {
    let mut scene = Scene::new(&[("a", "a")]);
    let marker = scene.beside("marker");
    executable(
        &scene.root().join("git"),
        &format!("echo run >> {}", marker.display()),
    );
    scene.path = format!(".:{}", crate::scene::PATH).into();
    assert!(scene.look(&[]).git_status.is_some());
    scene.path = ".".into();
    assert!(scene.look(&[]).git_status.is_none());
    assert!(!marker.exists());
}

#[test]
fn submodules_are_not_entered() {
    let scene = Scene::new(&[("a", "a")]);
    let marker = scene.beside("marker");
    let inner = scene.root().join("inner");
    fs::create_dir(&inner).unwrap();
    scene.git(&["-C", "inner", "init", "-q"]);
    fs::write(inner.join("x"), "x").unwrap();
    fs::write(inner.join(".gitattributes"), "* filter=evil\n").unwrap();
    scene.git(&["-C", "inner", "add", "-A"]);
    scene.git(&["-C", "inner", "commit", "-q", "-m", "inner"]);
    scene.git(&["-c", "advice.addEmbeddedRepo=false", "add", "inner"]);
    scene.git(&["commit", "-q", "-m", "with a submodule"]);
    let evil = scene.beside("evil");
    executable(&evil, &format!("echo run >> {}; cat", marker.display()));
    for key in ["filter.evil.clean", "core.fsmonitor"] {
        scene.git(&["-C", "inner", "config", key, evil.to_str().unwrap()]);
    }
    fs::write(inner.join("x"), "y").unwrap();
    let seen = scene.look(&[]);
    assert!(!marker.exists());
    assert_eq!(seen.git_status.unwrap().is_dirty, Some(false));
}
