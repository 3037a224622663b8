//! What does not fit is counted and said.

use std::fs;
use std::time::{Duration, Instant};

use crate::scene::{Scene, names, texts, warnings};

#[test]
fn too_many_files_degrade_to_those_that_fit_and_what_is_named_comes_first() {
    let mut scene = Scene::new(&[("a", "a"), ("z", "z")]);
    for number in 0..30 {
        scene.write(&format!("new/{number:02}"), "x");
    }
    scene.write("a", "b");
    scene.bounds.files = 10;
    let seen = scene.look(&["z"]);
    assert_eq!(names(&seen.named_files), ["z"]);
    assert_eq!(names(&seen.modified_files), ["a"]);
    // Ten in git's lists; one of them had to make room for the one that is named.
    assert_eq!(seen.created_files.len(), 8);
    assert_eq!(seen.left_out, 31 - 9);
    assert!(seen.truncated);
    assert_eq!(seen.git_status.unwrap().is_dirty, Some(true));
    scene.bounds.files = 2;
    let now = scene.glance(&["a", "z", "new/01", "new/02"]);
    assert_eq!((names(&now.files), now.left_out), (vec!["a", "z"], 2));
}

#[test]
fn a_long_answer_is_cut_at_a_record_and_the_rest_counted() {
    let mut scene = Scene::new(&[]);
    for number in 0..200 {
        scene.write(&format!("file-{number:03}"), "x");
    }
    scene.bounds.output = 600;
    let seen = scene.look(&[]);
    assert!(!seen.created_files.is_empty());
    assert_eq!(
        seen.created_files.len() as u64 + seen.left_out,
        200,
        "{seen:?}"
    );
    assert!(seen.truncated);
}

#[test]
fn large_files_and_too_many_bytes_are_not_hashed_and_said() {
    let mut scene = Scene::new(&[]);
    scene.write("large", &"x".repeat(2000));
    scene.write("one", &"x".repeat(900));
    scene.write("two", &"x".repeat(900));
    scene.bounds.file = 1000;
    scene.bounds.bytes = 1000;
    let seen = scene.look(&[]);
    let told: Vec<(&str, Option<u64>, bool, &str)> = seen
        .created_files
        .iter()
        .map(|file| {
            let unread = file.unread.as_ref().map_or("", |it| it.as_str());
            (
                file.path.as_str(),
                file.size,
                file.checksum.is_some(),
                unread,
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            ("large", Some(2000), false, "it is too large to be hashed"),
            ("one", Some(900), true, ""),
            (
                "two",
                Some(900),
                false,
                "there was too much else to be hashed"
            ),
        ]
    );
}

#[test]
fn no_time_for_files_leaves_them_out() {
    let mut scene = Scene::new(&[("a", "a")]);
    scene.write("a", "b");
    scene.bounds.hashing = Duration::ZERO;
    let seen = scene.look(&["a"]);
    assert_eq!((seen.left_out, seen.truncated), (1, true));
    assert_eq!(texts(&seen.git_status.unwrap().unstaged_files), ["a"]);
}

#[test]
fn a_git_that_does_not_answer_is_ended_with_all_it_started() {
    let mut scene = Scene::new(&[("a", "a")]);
    let ids = scene.beside("ids");
    let script = format!(
        "sleep 60 & echo $! >> {0}; echo $$ >> {0}; wait",
        ids.display()
    );
    scene.program("git", &script);
    scene.bounds.git = Duration::from_millis(300);
    scene.bounds.head = Duration::from_millis(200);
    let began = Instant::now();
    let seen = scene.look(&["a"]);
    assert!(began.elapsed() < Duration::from_secs(20));
    assert_eq!(warnings(&seen), "git did not answer within 300 ms");
    assert!(seen.truncated);
    assert_eq!(seen.git_status, None);
    // What was named is still looked at.
    assert_eq!(names(&seen.named_files), ["a"]);
    let ids = fs::read_to_string(ids).unwrap();
    assert!(ids.lines().count() >= 2, "{ids}");
    for id in ids.lines() {
        // Ended, or a zombie that init has not collected yet; the kernel may take a moment.
        let state = || {
            let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
            let state = stat.rsplit_once(") ").map(|(_, rest)| rest[..1].to_owned());
            state.unwrap_or_else(|| "gone".to_owned())
        };
        let ended = |state: String| ["gone", "Z", "X"].contains(&state.as_str());
        while !ended(state()) && began.elapsed() < Duration::from_secs(20) {
            std::thread::yield_now();
        }
        assert!(ended(state()), "{id} is {}", state());
    }
}

#[test]
fn a_status_that_takes_too_long_still_says_where_head_is() {
    let mut scene = Scene::new(&[("a", "a")]);
    let commit = scene.git(&["rev-parse", "HEAD"]);
    // Only the question about all files is slow, as in a huge work tree.
    scene.program(
        "git",
        "case \"$*\" in *untracked-files=all*) exec sleep 60;; esac; exec /usr/bin/git \"$@\"",
    );
    scene.bounds.git = Duration::from_secs(2);
    scene.bounds.head = Duration::from_secs(10);
    let git = scene.look(&[]).git_status.unwrap();
    assert_eq!(git.branch.unwrap().as_str(), "main");
    assert_eq!(git.commit_hash.unwrap().as_str(), commit);
    assert_eq!(git.is_dirty, None);
}

#[test]
fn a_git_that_fails_or_talks_nonsense_is_said() {
    let mut scene = Scene::new(&[("a", "a")]);
    scene.program("git", "exit 128");
    assert_eq!(
        warnings(&scene.look(&[])),
        "git ended with code 128; `git status` may say why"
    );
    scene.program(
        "git",
        "case \"$*\" in *config*) exit 1;; esac; printf 'hello\\0'",
    );
    let seen = scene.look(&["a"]);
    assert_eq!(
        warnings(&seen),
        "git cannot be asked: record 1 of what git printed cannot be read: it has no fields"
    );
    assert_eq!(names(&seen.named_files), ["a"]);
}
