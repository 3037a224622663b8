//! Files beside the store, flipped, cut, replaced, gone, and what may stand in their place.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::{
    Case, Damage, Doctor, Look, Reach, answer, bears, copy, essence, is_untouched, sound, survive,
};
use crate::crash::beside;
use crate::crash::world::World;

/// Does something to the file of Login's newest checkpoint.
fn to_file(name: impl Into<String>, doctor: Doctor, act: impl Fn(&Path) + 'static) -> Case {
    let (login, name) = (&sound().login, name.into());
    let newest = format!("{}.json", login.checkpoints[2].id);
    let act = move |world: &World| {
        let home = world.state().join("checkpoints").join(&login.id);
        act(&home.join(&newest));
    };
    let reach = Reach::Mission;
    (
        Damage {
            name,
            reach,
            doctor,
        },
        Box::new(act),
    )
}

#[test]
fn a_file_damaged_anywhere_is_found_and_written_anew() {
    let login = &sound().login;
    let file = format!("checkpoints/{}/{}.json", login.id, login.checkpoints[2].id);
    let bytes = fs::read(sound().world.state().join(&file)).unwrap();
    let world = copy();
    let file = world.state().join(file);
    let mut damaged: Vec<(String, Vec<u8>)> = Vec::new();
    for step in 0..16 {
        let at = step * (bytes.len() - 1) / 15;
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << (step % 8);
        damaged.push((format!("byte {at} flipped"), flipped));
    }
    for step in 0..6 {
        let length = step * (bytes.len() - 1) / 5;
        damaged.push((format!("cut to {length} bytes"), bytes[..length].to_vec()));
    }
    let (from, to) = (bytes.len() / 3, bytes.len() / 2);
    let mut zeroed = bytes.clone();
    zeroed[from..to].fill(0);
    damaged.push(("a hole of zeros".to_owned(), zeroed));
    damaged.push((
        "something at its end".to_owned(),
        [&bytes[..], b"\n"].concat(),
    ));
    let newest = &login.checkpoints[2];
    for (name, bytes) in damaged {
        fs::write(&file, bytes).unwrap();
        let mission = ["--mission", login.id.as_str()];
        let verified = bears(
            &world,
            &name,
            &[&["checkpoints", "verify"], &mission[..]].concat(),
        );
        assert_eq!(verified.code(), Some(6), "{name}");
        let plan = bears(
            &world,
            &name,
            &[&["resume", "--dry-run"], &mission[..]].concat(),
        );
        assert_eq!(
            answer(&plan).unwrap()["checkpoint_id"],
            *newest.id,
            "{name}"
        );
        let shown = bears(&world, &name, &["checkpoints", "show", &newest.id]);
        assert_eq!(essence(&answer(&shown).unwrap()), newest.shown, "{name}");
        assert_eq!(
            bears(&world, &name, &["doctor", "--fix"]).code(),
            Some(0),
            "{name}"
        );
        beside::files_are_whole(&world, &name);
    }
    is_untouched(&world, "all of them", &sound().search, Look::Closely);
}

#[test]
fn whatever_stands_in_a_files_place_is_found_and_harms_nothing() {
    let [first, _, _] = &*sound().login.checkpoints else {
        unreachable!("three were taken")
    };
    let first = format!("{}.json", first.id);
    let other = format!(
        "{}/{}.json",
        sound().search.id,
        sound().search.checkpoints[2].id
    );
    let replace = |by: &dyn Fn(&Path), file: &Path| {
        fs::remove_file(file).unwrap();
        by(file);
    };
    let sibling = first.clone();
    survive(vec![
        to_file("missing", Doctor::Finds, |file| {
            fs::remove_file(file).unwrap()
        }),
        to_file(
            "an earlier one of the mission",
            Doctor::Finds,
            move |file| {
                fs::copy(file.with_file_name(&first), file).unwrap();
            },
        ),
        to_file("one of another mission", Doctor::Finds, move |file| {
            let checkpoints = file.parent().unwrap().parent().unwrap();
            fs::copy(checkpoints.join(&other), file).unwrap();
        }),
        to_file("a folder", Doctor::Finds, move |file| {
            replace(&|file| fs::create_dir(file).unwrap(), file)
        }),
        to_file("a link to an earlier one", Doctor::Finds, move |file| {
            replace(&|file| symlink(&sibling, file).unwrap(), file);
        }),
        to_file("a link to nowhere", Doctor::Finds, move |file| {
            replace(&|file| symlink("nowhere", file).unwrap(), file)
        }),
        to_file("a link to itself", Doctor::Finds, move |file| {
            replace(&|file| symlink(beside::name(file), file).unwrap(), file);
        }),
        to_file("larger than any memory", Doctor::Finds, |file| {
            let file = fs::File::options().write(true).open(file).unwrap();
            file.set_len(1 << 42).unwrap();
        }),
        to_file("a pipe that nobody writes to", Doctor::Finds, move |file| {
            let make = |file: &Path| {
                let made = std::process::Command::new("mkfifo")
                    .arg(file)
                    .status()
                    .unwrap();
                assert!(made.success());
            };
            replace(&make, file);
        }),
        to_file("a device without end", Doctor::Finds, move |file| {
            replace(&|file| symlink("/dev/zero", file).unwrap(), file);
        }),
    ]);
}

#[test]
fn whatever_stands_in_place_of_the_link_or_the_folder_harms_nothing() {
    let link = |file: &Path| file.with_file_name("latest.json");
    let home = |file: &Path| file.parent().unwrap().to_path_buf();
    let relink = move |file: &Path, to: &str| {
        fs::remove_file(link(file)).unwrap();
        symlink(to, link(file)).unwrap();
    };
    survive(vec![
        to_file("no latest.json", Doctor::MayNotCare, move |file| {
            fs::remove_file(link(file)).unwrap()
        }),
        to_file(
            "latest.json leads nowhere",
            Doctor::MayNotCare,
            move |file| relink(file, "chk-gone.json"),
        ),
        to_file(
            "latest.json leads outside",
            Doctor::MayNotCare,
            move |file| relink(file, "/etc/passwd"),
        ),
        to_file(
            "latest.json leads to itself",
            Doctor::MayNotCare,
            move |file| relink(file, "latest.json"),
        ),
        to_file("latest.json is a file", Doctor::MayNotCare, move |file| {
            fs::remove_file(link(file)).unwrap();
            fs::write(link(file), "{ half").unwrap();
        }),
        to_file("latest.json is a folder", Doctor::MayNotCare, move |file| {
            fs::remove_file(link(file)).unwrap();
            fs::create_dir(link(file)).unwrap();
        }),
        to_file(
            "the mission's folder is missing",
            Doctor::Finds,
            move |file| fs::remove_dir_all(home(file)).unwrap(),
        ),
        to_file(
            "the mission's folder is a file",
            Doctor::Finds,
            move |file| {
                fs::remove_dir_all(home(file)).unwrap();
                fs::write(home(file), "in the way").unwrap();
            },
        ),
        to_file(
            "the mission's folder is elsewhere",
            Doctor::MayNotCare,
            move |file| {
                let elsewhere = home(file).with_file_name("elsewhere");
                fs::rename(home(file), &elsewhere).unwrap();
                symlink("elsewhere", home(file)).unwrap();
            },
        ),
    ]);
}
