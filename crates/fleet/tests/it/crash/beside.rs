//! The files beside a store: each is whole, and `latest.json` leads to one that is there.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use flightline::checkpoint::CheckpointDocument;

use crate::crash::world::World;

/// The folders of checkpoints' files, one for each mission.
pub fn homes(world: &World) -> Vec<PathBuf> {
    entries(&world.state().join("checkpoints"))
}

/// What a folder holds, in order.
pub fn entries(folder: &Path) -> Vec<PathBuf> {
    let found = fs::read_dir(folder).into_iter().flatten();
    let mut found: Vec<PathBuf> = found.map(|entry| entry.unwrap().path()).collect();
    found.sort();
    found
}

/// The name of a file.
pub fn name(path: &Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}

/// Makes a folder as another one is: its files, folders and links, and nothing else.
pub fn copy_folder(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    fs::create_dir_all(to).unwrap();
    fs::set_permissions(to, fs::metadata(from).unwrap().permissions()).unwrap();
    for entry in entries(from) {
        let target = to.join(name(&entry));
        let kind = fs::symlink_metadata(&entry).unwrap().file_type();
        if kind.is_symlink() {
            symlink(fs::read_link(&entry).unwrap(), target).unwrap();
        } else if kind.is_dir() {
            copy_folder(&entry, &target);
        } else {
            fs::copy(&entry, target).unwrap();
        }
    }
}

/// Every file that has a checkpoint's name is a sound one, and `latest.json` leads to the newest.
pub fn files_are_whole(world: &World, when: &str) {
    for home in homes(world) {
        let mut sound: Vec<CheckpointDocument> = Vec::new();
        for file in entries(&home) {
            if name(&file).starts_with("chk-") {
                let read = flightline_testkit::read_checkpoint(&file);
                sound.push(read.unwrap_or_else(|refusal| panic!("{when}: {refusal}")));
            }
        }
        let link = home.join("latest.json");
        match fs::read_link(&link) {
            Ok(_) => {
                let real = fs::canonicalize(&link);
                let real = real.unwrap_or_else(|error| panic!("{when}: latest.json: {error}"));
                assert_eq!(
                    real.parent(),
                    Some(fs::canonicalize(&home).unwrap().as_path()),
                    "{when}"
                );
                assert!(flightline_testkit::read_checkpoint(&real).is_ok(), "{when}");
            }
            // Between the first file and the link to it a process may die.
            Err(_) => assert!(
                sound.len() <= 1,
                "{when}: {} files, and no latest.json",
                sound.len()
            ),
        }
    }
}

/// The files of checkpoints.
pub fn files(world: &World) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = homes(world).iter().flat_map(|home| entries(home)).collect();
    files.retain(|file| name(file).starts_with("chk-"));
    files
}

/// What processes that died were writing goes with the next checkpoint, once it is old enough.
pub fn what_the_dead_wrote_goes(world: &World) {
    let unfinished = || {
        let mut files: Vec<PathBuf> = homes(world).iter().flat_map(|home| entries(home)).collect();
        files.retain(|file| name(file).starts_with('.'));
        files
    };
    let mut touch = world.sealed("touch");
    touch.args(["--no-dereference", "--date=2026-01-01"]);
    assert!(unfinished().is_empty() || touch.args(unfinished()).status().unwrap().success());
    for home in homes(world) {
        let mission = ["--mission", name(&home), "--note", "after all that"];
        let take = [&["checkpoint"], &mission[..]].concat();
        world.run(&take).works();
    }
    assert!(unfinished().is_empty(), "{:?}", unfinished());
}
