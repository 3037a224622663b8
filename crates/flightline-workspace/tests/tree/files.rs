//! What files say, with git and without.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

use flightline_core::event::sha256_hex;
use flightline_core::file_system::SeenKind;

use crate::scene::{Scene, kinds, names};

#[test]
fn without_a_repository_the_files_that_are_named_are_looked_at() {
    let scene = Scene::bare();
    scene.write("src/a.rs", "a");
    scene.write("other", "x");
    scene.write(".flightline/config.toml", "x");
    let named = [
        "src/a.rs",
        "src/to-come.rs",
        "src",
        ".flightline/config.toml",
    ];
    let seen = scene.look(&named);
    assert_eq!(
        kinds(&seen.named_files),
        [("src", SeenKind::Folder), ("src/a.rs", SeenKind::File)]
    );
    assert_eq!(
        seen.named_files[1].checksum.as_deref(),
        Some(&*sha256_hex("a"))
    );
    assert_eq!(seen.git_status, None);
    assert!(!seen.truncated && seen.warnings.is_empty(), "{seen:?}");
    let now = scene.glance(&named);
    assert_eq!(now.head, None);
    assert_eq!(
        kinds(&now.files),
        [
            ("src/a.rs", SeenKind::File),
            ("src/to-come.rs", SeenKind::Missing),
            ("src", SeenKind::Folder),
        ]
    );
}

#[test]
fn a_folder_in_which_nothing_is_named_says_nothing() {
    let scene = Scene::bare();
    scene.write("a", "a");
    assert!(scene.look(&["not/there"]).is_empty());
}

#[test]
fn a_repository_without_git_is_looked_at_as_far_as_it_is_named() {
    let mut scene = Scene::new(&[("a", "a")]);
    scene.path = scene.beside("programs").into_os_string();
    let seen = scene.look(&["a"]);
    assert_eq!(names(&seen.named_files), ["a"]);
    assert_eq!(seen.git_status, None);
    assert_eq!(
        seen.warnings[0].as_str(),
        "there is no `git` on this machine's path"
    );
}

#[test]
fn links_are_never_followed() {
    let scene = Scene::new(&[("a", "a")]);
    let secret = scene.beside("secret");
    fs::create_dir(&secret).unwrap();
    fs::write(secret.join("key"), "private").unwrap();
    symlink(secret.join("key"), scene.root().join("link")).unwrap();
    symlink(&secret, scene.root().join("folder")).unwrap();
    let seen = scene.look(&["folder/key"]);
    let target = secret.join("key").to_str().unwrap().to_owned();
    let link = seen
        .created_files
        .iter()
        .find(|it| it.path.as_str() == "link");
    let link = link.unwrap();
    assert_eq!(link.kind, SeenKind::Link);
    // The text it points with, not what it points at.
    assert_eq!(link.checksum.as_deref(), Some(&*sha256_hex(&target)));
    let behind = &seen.named_files[0];
    assert_eq!((behind.kind, &behind.checksum), (SeenKind::Other, &None));
    assert!(behind.unread.as_ref().unwrap().contains("behind a link"));
}

#[test]
fn pipes_are_not_waited_for_and_what_cannot_be_read_is_said() {
    let scene = Scene::new(&[("a", "a")]);
    let pipe = scene.root().join("pipe");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    let closed = scene.write("closed", "x");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
    let now = scene.glance(&["pipe", "closed", "a/b"]);
    assert_eq!(
        (now.files[0].kind, &now.files[0].checksum),
        (SeenKind::Other, &None)
    );
    // The superuser reads this, too.
    if fs::read(&closed).is_err() {
        let unread = now.files[1].unread.as_ref().unwrap();
        assert!(unread.contains("cannot be read"), "{unread}");
    }
    let behind = now.files[2].unread.as_ref().unwrap();
    assert!(behind.contains("in the place of a folder"), "{behind}");
}
