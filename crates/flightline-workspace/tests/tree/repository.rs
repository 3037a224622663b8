//! What a repository says.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;

use flightline_core::event::sha256_hex;

use crate::scene::{Scene, names, texts, warnings};

#[test]
fn every_way_a_file_can_differ_has_its_list() {
    let scene = Scene::new(&[
        ("kept.txt", "kept"),
        ("edited.txt", "before"),
        ("staged.txt", "before"),
        ("both.txt", "before"),
        ("removed.txt", "x"),
        ("forgotten.txt", "x"),
        ("renamed.txt", "a long enough text to be recognised"),
        (".gitignore", "ignored/\n"),
    ]);
    scene.write("edited.txt", "after");
    scene.write("staged.txt", "after");
    scene.git(&["add", "staged.txt"]);
    scene.write("both.txt", "staged");
    scene.git(&["add", "both.txt"]);
    scene.write("both.txt", "and again");
    fs::remove_file(scene.root().join("removed.txt")).unwrap();
    scene.git(&["rm", "-q", "--cached", "forgotten.txt"]);
    scene.git(&["mv", "renamed.txt", "moved.txt"]);
    scene.write("new/with space.txt", "new");
    scene.write("ignored/x", "x");
    scene.write(".flightline/checkpoints/x.json", "{}");
    scene.write("added.txt", "x");
    scene.git(&["add", "added.txt"]);
    let seen = scene.look(&["kept.txt", "src/planned.rs"]);
    assert_eq!(
        names(&seen.modified_files),
        ["both.txt", "edited.txt", "staged.txt"]
    );
    assert_eq!(
        names(&seen.created_files),
        [
            "added.txt",
            "forgotten.txt",
            "moved.txt",
            "new/with space.txt"
        ]
    );
    assert_eq!(texts(&seen.deleted_files), ["removed.txt", "renamed.txt"]);
    // What is named and as it was committed is looked at as well; what is not there yet says nothing.
    assert_eq!(names(&seen.named_files), ["kept.txt"]);
    let git = seen.git_status.as_ref().unwrap();
    assert_eq!(git.branch.as_ref().unwrap().as_str(), "main");
    assert_eq!(
        git.commit_hash.as_ref().unwrap().as_str(),
        scene.git(&["rev-parse", "HEAD"])
    );
    assert_eq!(git.is_dirty, Some(true));
    assert_eq!(
        texts(&git.staged_files),
        [
            "added.txt",
            "both.txt",
            "forgotten.txt",
            "moved.txt",
            "renamed.txt",
            "staged.txt"
        ]
    );
    assert_eq!(
        texts(&git.unstaged_files),
        ["both.txt", "edited.txt", "removed.txt"]
    );
    assert!(!seen.truncated && seen.left_out == 0, "{seen:?}");
    let edited = &seen.modified_files[1];
    assert_eq!(edited.checksum.as_deref(), Some(&*sha256_hex("after")));
    assert_eq!(edited.size, Some(5));
    assert!(edited.modified_at.unwrap().as_millis() > 1_700_000_000_000);
}

#[test]
fn a_clean_tree_a_first_commit_and_a_detached_head_are_told_apart() {
    let scene = Scene::empty();
    let git = scene.look(&[]).git_status.unwrap();
    assert_eq!(git.branch.unwrap().as_str(), "main");
    assert_eq!((git.commit_hash, git.is_dirty), (None, Some(false)));
    let scene = Scene::new(&[("a", "a")]);
    // Our own folder makes nothing dirty.
    scene.write(".flightline/x", "x");
    assert_eq!(scene.look(&[]).git_status.unwrap().is_dirty, Some(false));
    scene.git(&["checkout", "-q", "--detach"]);
    let git = scene.look(&[]).git_status.unwrap();
    assert_eq!(git.branch, None);
    assert!(git.commit_hash.is_some());
    assert_eq!(scene.glance(&[]).head.unwrap().commit_hash, git.commit_hash);
}

#[test]
fn a_fleet_below_the_root_of_its_repository_sees_its_own_part() {
    let scene = Scene::new(&[("outside", "x"), ("part/inside", "x")]);
    scene.write("outside", "y");
    scene.write("part/inside", "y");
    scene.write("part/new", "y");
    let seen = scene.tree(&scene.root().join("part")).look(&[]);
    assert_eq!(names(&seen.modified_files), ["inside"]);
    assert_eq!(names(&seen.created_files), ["new"]);
    assert_eq!(seen.left_out, 0);
}

#[test]
fn a_linked_work_tree_has_its_own_branch_and_changes() {
    let scene = Scene::new(&[("a", "a")]);
    let linked = scene.beside("linked");
    scene.git(&[
        "worktree",
        "add",
        "-q",
        "-b",
        "side",
        linked.to_str().unwrap(),
    ]);
    fs::write(linked.join("a"), "b").unwrap();
    let seen = scene.tree(&linked).look(&[]);
    assert_eq!(seen.git_status.unwrap().branch.unwrap().as_str(), "side");
    assert_eq!(names(&seen.modified_files), ["a"]);
    assert!(scene.look(&[]).modified_files.is_empty());
}

#[test]
fn names_that_cannot_be_written_down_are_counted_and_said() {
    let scene = Scene::new(&[("a", "a")]);
    scene.write("new\nline", "x");
    scene.write("b c", "x");
    let odd = scene.root().join(std::ffi::OsStr::from_bytes(b"\xff\xfe"));
    fs::write(odd, "x").unwrap();
    let seen = scene.look(&[]);
    assert_eq!(names(&seen.created_files), ["b c"]);
    assert_eq!(seen.left_out, 2);
    assert!(seen.truncated);
    assert_eq!(
        warnings(&seen),
        "2 files have names that cannot be written down: not UTF-8, too long, with control characters or a secret"
    );
}

#[test]
fn nothing_in_the_repository_is_written() {
    let scene = Scene::new(&[("a", "a")]);
    scene.write("a", "a");
    let index = scene.root().join(".git/index");
    let before = fs::read(&index).unwrap();
    // A reader that refreshed the index would write it now.
    scene.look(&["a"]);
    scene.glance(&["a"]);
    assert_eq!(fs::read(&index).unwrap(), before);
    assert!(!scene.root().join(".git/index.lock").exists());
}

#[test]
fn a_repository_is_asked_about_a_folder_wherever_a_link_to_it_lies() {
    let scene = Scene::new(&[("sub/.flightline/config.toml", "x")]);
    scene.write("sub/.flightline/new.toml", "x");
    let other = scene.beside("other");
    fs::create_dir_all(other.join(".git")).unwrap();
    symlink(scene.root().join("sub"), other.join("link")).unwrap();
    for folder in [scene.root().join("sub"), other.join("link")] {
        let state = scene.tree(&folder.join(".flightline"));
        assert_eq!(state.tracks(&["config.toml"]), Some(true), "{folder:?}");
        assert_eq!(state.tracks(&["new.toml"]), Some(false), "{folder:?}");
        let tree = scene.tree(&folder);
        assert!(tree.tracks_state(), "{folder:?}");
    }
}

#[test]
fn a_folder_that_looks_like_a_repository_is_none() {
    let scene = Scene::new(&[
        (".flightline/config.toml", "x"),
        (".flightline/HEAD", "ref: refs/heads/main\n"),
        (".flightline/objects/.keep", ""),
        (".flightline/refs/.keep", ""),
        (
            ".flightline/config",
            "[core]\n\trepositoryformatversion = 99\n",
        ),
    ]);
    let state = scene.tree(&scene.root().join(".flightline"));
    assert_eq!(state.tracks(&["config.toml"]), Some(true));
    assert_eq!(state.tracks(&["other.toml"]), Some(false));
}
