//! A store with something broken in it, byte by byte and column by column: `fleet` says so, or uses the
//! other copy or the checkpoint before and says that; it never panics, never takes a wrong state for the
//! right one, and one mission's damage leaves the others alone.

use std::fs;
use std::os::unix::fs::symlink;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::OnceLock;

use flightline_testkit::Engine;
use serde_json::{Map, Value, json};

use crate::beside;
use crate::world::{Answer, World};

/// Two missions with work under way and three checkpoints each, and all that is true of them.
struct Sound {
    world: World,
    login: Mission,
    search: Mission,
}

/// What is true of a mission.
struct Mission {
    id: String,
    sorties: Value,
    checkpoints: Vec<Checkpoint>,
}

/// What is true of a checkpoint.
struct Checkpoint {
    id: String,
    shown: Value,
}

/// Made once, and copied for each damage.
fn sound() -> &'static Sound {
    static SOUND: OnceLock<Sound> = OnceLock::new();
    SOUND.get_or_init(|| {
        let world = World::timeless(Engine::Sqlite);
        let login = build(&world, "Login", "ada");
        let search = build(&world, "Search", "bob");
        // Nothing but the database: the copies need no log.
        world.sqlite("PRAGMA wal_checkpoint(TRUNCATE)");
        Sound { world, login, search }
    })
}

fn build(world: &World, title: &str, agent: &str) -> Mission {
    let mut create = vec!["mission", "create", title];
    for sortie in ["Model", "Endpoint", "Docs", "Tests", "Deploy"] {
        create.extend(["--sortie", sortie]);
    }
    world.run(&create).works();
    let missions = world.ask(&["missions", "list"]);
    let mut missions = missions.as_array().unwrap().iter();
    let id = missions.find(|mission| mission["title"] == title).unwrap()["id"].as_str().unwrap();
    let by = |words: &[&str]| world.run(&[words, &["--mission", id]].concat()).by(agent).json();
    let claimed = by(&["sorties", "claim", "--next"]);
    by(&["locks", "acquire", &format!("src/{title}.rs")]);
    by(&["mail", "send", "--to", agent, "--subject", "Remember"]);
    by(&["checkpoint", "--note", "the first"]);
    by(&["sorties", "complete", claimed["sortie"]["id"].as_str().unwrap()]);
    by(&["note", "lesson", "measure first"]);
    by(&["checkpoint", "--note", "the second"]);
    by(&["sorties", "claim", "--next"]);
    by(&["checkpoint", "--note", "the third"]);
    by(&["note", "lesson", "and then cut"]);
    let list = by(&["checkpoints", "list"]);
    let mut checkpoints: Vec<Checkpoint> = list
        .as_array()
        .unwrap()
        .iter()
        .map(|one| {
            let id = one["id"].as_str().unwrap().to_owned();
            let shown = essence(&world.ask(&["checkpoints", "show", &id]));
            Checkpoint { id, shown }
        })
        .collect();
    checkpoints.reverse();
    assert_eq!(checkpoints.len(), 3);
    Mission {
        id: id.to_owned(),
        sorties: sorties(&by(&["sorties", "list"])),
        checkpoints,
    }
}

/// What a checkpoint holds, without what is noted about it.
fn essence(shown: &Value) -> Value {
    let mut essence = Map::new();
    for field in ["id", "mission_id", "rev", "timestamp", "trigger", "progress_percent", "sorties", "active_locks",
                  "pending_messages", "recovery_context", "created_by", "version"] {
        essence.insert(field.to_owned(), shown[field].clone());
    }
    Value::Object(essence)
}

/// Where each sortie stands.
fn sorties(list: &Value) -> Value {
    let list = list.as_array().unwrap().iter();
    list.map(|one| json!([one["id"], one["title"], one["status"], one["assigned_to"]])).collect()
}

/// How much of the world a damage may spoil.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// One mission.
    Mission,
    /// What one mission is listed by: lists read no documents, and it is the doctor who compares.
    Listing,
    /// What all missions share.
    Fleet,
}

/// What the doctor has to say about a damage.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Doctor {
    Finds,
    /// It is no part of the state.
    MayNotCare,
}

struct Damage {
    name: String,
    reach: Reach,
    doctor: Doctor,
}

/// A damage, and how it is done.
type Case = (Damage, Box<dyn Fn(&World)>);

/// A copy of the sound world.
fn copy() -> World {
    let world = World::timeless_bare(Engine::Sqlite);
    copy_folder(&sound().world.state(), &world.state());
    world
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in beside::entries(from) {
        let target = to.join(beside::name(&entry));
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

/// A command that may say that something is damaged, and does nothing worse.
fn bears(world: &World, damage: &str, words: &[&str]) -> Answer {
    let answer = world.run(words).in_json().ends();
    let said = format!("{damage}: {}: {answer}", words.join(" "));
    let thinned = answer.code() == Some(4) && answer.out.contains("\"history_thinned\"");
    assert!(matches!(answer.code(), Some(0 | 3 | 5 | 6)) || thinned, "{said}");
    assert!(!answer.err.contains("panicked"), "{said}");
    answer
}

fn answer(of: &Answer) -> Option<Value> {
    (of.code() == Some(0)).then(|| serde_json::from_str(&of.out).unwrap())
}

/// Asks a damaged world for everything about a mission: what it answers is true.
fn is_true_or_refused(world: &World, damage: &Damage, mission: &Mission) {
    let (damage, lists_are_true) = (&*damage.name, damage.reach != Reach::Listing);
    let ask = |words: &[&str]| bears(world, damage, &[words, &["--mission", &mission.id]].concat());
    let is_as_it_was = |what: &str| {
        if let Some(list) = answer(&ask(&["sorties", "list"])).filter(|_| lists_are_true) {
            assert_eq!(sorties(&list), mission.sorties, "{damage}: {what}");
        }
    };
    ask(&["status"]);
    ask(&["checkpoints", "list"]);
    ask(&["checkpoints", "verify"]);
    is_as_it_was("at first");
    for checkpoint in &mission.checkpoints {
        if let Some(shown) = answer(&bears(world, damage, &["checkpoints", "show", &checkpoint.id])) {
            assert_eq!(essence(&shown), checkpoint.shown, "{damage}");
        }
    }
    let newest = &mission.checkpoints.last().unwrap().id;
    if let Some(plan) = answer(&ask(&["resume", "--dry-run"])) {
        let passed_over = plan["checkpoint_id"] != **newest;
        let warnings = plan["warnings"].as_array().unwrap();
        assert!(!passed_over || !warnings.is_empty(), "{damage}: passed over in silence");
    }
    ask(&["resume", "-y"]);
    is_as_it_was("after a resume");
    let first = &mission.checkpoints[0];
    let back = bears(world, damage, &["resume", "--checkpoint", &first.id, "--force", "-y"]);
    match (back.code(), answer(&ask(&["sorties", "list"]))) {
        _ if !lists_are_true => {}
        (Some(0), Some(list)) => {
            let then = first.shown["sorties"].as_array().unwrap().iter();
            let then: Value = then.map(|one| json!([one["id"], one["title"], one["status"], one["assigned_to"]])).collect();
            assert_eq!(sorties(&list), then, "{damage}: after a rewind");
        }
        (_, Some(list)) => assert_eq!(sorties(&list), mission.sorties, "{damage}: half a rewind"),
        (_, None) => {}
    }
}

/// A mission that nothing happened to works as ever.
fn is_untouched(world: &World, damage: &str, mission: &Mission) {
    let ask = |words: &[&str]| {
        let words = [words, &["--mission", &mission.id]].concat();
        let answer = world.run(&words).in_json().ends();
        assert_eq!(answer.code(), Some(0), "{damage}: {}: {answer}", words.join(" "));
        serde_json::from_str::<Value>(&answer.out).unwrap()
    };
    assert_eq!(sorties(&ask(&["sorties", "list"])), mission.sorties, "{damage}");
    ask(&["checkpoints", "verify"]);
    let plan = ask(&["resume", "--dry-run"]);
    assert_eq!(plan["checkpoint_id"], *mission.checkpoints.last().unwrap().id, "{damage}");
    assert_eq!(plan["warnings"], json!([]), "{damage}");
    ask(&["resume", "-y"]);
    ask(&["checkpoint", "--note", "still here"]);
    let first = &mission.checkpoints[0];
    ask(&["resume", "--checkpoint", &first.id, "--force", "-y"]);
}

/// Does each damage to a copy of the sound world of its own, and looks what comes of it.
fn survive(damages: Vec<Case>) {
    let mut failed = Vec::new();
    for (damage, act) in &damages {
        let came = catch_unwind(AssertUnwindSafe(|| survives(damage, act)));
        if came.is_err() {
            failed.push(&damage.name);
        }
    }
    assert!(failed.is_empty(), "{} of {}: {failed:#?}", failed.len(), damages.len());
}

fn survives(damage: &Damage, act: impl FnOnce(&World)) {
    let world = copy();
    act(&world);
    let name = &damage.name;
    let looked = bears(&world, name, &["doctor"]);
    if damage.doctor == Doctor::Finds {
        assert_ne!(looked.code(), Some(0), "{name}: the doctor finds nothing");
    }
    match damage.reach {
        Reach::Mission | Reach::Listing => is_untouched(&world, name, &sound().search),
        Reach::Fleet => is_true_or_refused(&world, damage, &sound().search),
    }
    is_true_or_refused(&world, damage, &sound().login);
    bears(&world, name, &["doctor", "--fix"]);
}

/// Changes rows behind the store's back, whatever its checks say.
fn edit(world: &World, sql: &str) {
    let changed = world.sqlite(&format!("PRAGMA ignore_check_constraints = 1; {sql}; SELECT changes()"));
    assert_ne!(changed, "0", "{sql}");
}

/// The row of the journal that gave a subject its value last.
fn in_journal(kind: &str, id: &str) -> String {
    format!(
        "rev = (SELECT max(rev) FROM event WHERE subject_kind = '{kind}' AND subject = '{id}' AND change = 'set')"
    )
}

/// One character of a text, so many eighths into it, becomes another.
fn flip(column: &str, eighths: usize) -> String {
    let at = format!("max(length({column}) * {eighths} / 8 - 1, 0)");
    format!(
        "substr({column}, 1, {at}) || char(unicode(substr({column}, {at} + 1, 1)) + 1) || substr({column}, {at} + 2)"
    )
}

fn text_damages(column: &str) -> Vec<String> {
    let mut all: Vec<String> = (0..=8).map(|eighths| flip(column, eighths)).collect();
    all.extend((0..4).map(|quarters| format!("substr({column}, 1, length({column}) * {quarters} / 4)")));
    all.push(format!("{column} || ' '"));
    all.push("'null'".to_owned());
    all.push("CAST(zeroblob(40) AS TEXT)".to_owned());
    all
}

#[test]
fn a_checkpoint_whose_record_is_damaged_in_the_journal_is_never_taken_for_another() {
    let login = &sound().login;
    let (second, third) = (&login.checkpoints[1].id, &login.checkpoints[2].id);
    let row = in_journal("checkpoint", third);
    let mut edits: Vec<(String, Doctor)> = Vec::new();
    for text in text_damages("after") {
        edits.push((format!("after = {text}"), Doctor::Finds));
    }
    let of_second = |column: &str| format!("(SELECT {column} FROM event WHERE {})", in_journal("checkpoint", second));
    edits.push((format!("after = {}", of_second("after")), Doctor::Finds));
    edits.push(("after = NULL".to_owned(), Doctor::Finds));
    for sha in [flip("sha", 4), "''".to_owned(), "NULL".to_owned(), of_second("sha")] {
        edits.push((format!("sha = {sha}"), Doctor::Finds));
    }
    columns(&row, edits, &sound().search.id);
}

#[test]
fn a_checkpoint_whose_values_are_damaged_in_the_journal_is_never_taken_for_a_sound_one() {
    let login = &sound().login;
    // Completed before the second checkpoint, so that two of them name this value.
    let (first, second) = (id_of(&login.sorties, 0), id_of(&login.sorties, 1));
    let row = in_journal("sortie", first);
    let mut edits: Vec<(String, Doctor)> = Vec::new();
    for text in text_damages("after") {
        edits.push((format!("after = {text}"), Doctor::Finds));
    }
    let of_second = |column: &str| format!("(SELECT {column} FROM event WHERE {})", in_journal("sortie", second));
    edits.push((format!("after = {}, sha = {}", of_second("after"), of_second("sha")), Doctor::Finds));
    edits.push(("after = NULL".to_owned(), Doctor::Finds));
    for sha in [flip("sha", 4), "''".to_owned(), "NULL".to_owned()] {
        edits.push((format!("sha = {sha}"), Doctor::Finds));
    }
    columns(&row, edits, &sound().search.id);
}

fn id_of(sorties: &Value, place: usize) -> &str {
    sorties[place][0].as_str().unwrap()
}

/// Does each edit to the row of the journal, and one to each of its other columns.
fn columns(row: &str, mut edits: Vec<(String, Doctor)>, other_mission: &str) {
    for (edit, doctor) in [
        ("rev = rev + 100000", Doctor::Finds),
        ("step = step + 1", Doctor::MayNotCare),
        ("step = 1", Doctor::MayNotCare),
        ("at = -9223372036854775807", Doctor::MayNotCare),
        ("at = 9223372036854775807", Doctor::MayNotCare),
        ("kind = ''", Doctor::MayNotCare),
        ("mission = NULL", Doctor::Finds),
        ("mission = 'msn-'", Doctor::Finds),
        ("subject_kind = 'bogus'", Doctor::Finds),
        ("subject_kind = 'note'", Doctor::Finds),
        ("subject = ''", Doctor::Finds),
        ("subject = 'chk-00000000-0000-4000-8000-000000000000'", Doctor::Finds),
        ("actor = ''", Doctor::MayNotCare),
        ("epoch = -1", Doctor::MayNotCare),
        ("data = ''", Doctor::MayNotCare),
        ("data = '{'", Doctor::MayNotCare),
        ("data = '[]'", Doctor::MayNotCare),
        ("change = 'none'", Doctor::Finds),
        ("change = 'gone'", Doctor::Finds),
        ("change = 'thinned'", Doctor::Finds),
        ("change = ''", Doctor::Finds),
    ] {
        edits.push((edit.to_owned(), doctor));
    }
    edits.push((format!("mission = '{other_mission}'"), Doctor::Finds));
    let damage = |(set, doctor): (String, Doctor)| {
        by_sql(&format!("UPDATE event SET {set} WHERE {row}"), Reach::Mission, doctor)
    };
    let mut damages: Vec<_> = edits.into_iter().map(damage).collect();
    damages.push(by_sql(&format!("DELETE FROM event WHERE {row}"), Reach::Mission, Doctor::Finds));
    survive(damages);
}

fn by_sql(sql: &str, reach: Reach, doctor: Doctor) -> Case {
    let (name, sql) = (sql.to_owned(), sql.to_owned());
    let act = move |world: &World| edit(world, &sql);
    (Damage { name, reach, doctor }, Box::new(act))
}

/// Damages to the row that holds a subject's last value.
fn in_table(kind: &str, id: &str, other_id: &str) -> Vec<Case> {
    let row = format!("kind = '{kind}' AND id = '{id}'");
    let other = |column: &str| format!("(SELECT o.{column} FROM subject o WHERE o.kind = '{kind}' AND o.id = '{other_id}')");
    let mut damages: Vec<Case> = Vec::new();
    let mut update = |set: &str, reach: Reach, doctor: Doctor| {
        damages.push(by_sql(&format!("UPDATE subject SET {set} WHERE {row}"), reach, doctor));
    };
    for column in [
        "mission = NULL",
        "mission = 'msn-'",
        "parent = 'nobody'",
        "agent = 'nobody'",
        "name = 'manual '",
        "status = ''",
        "status = 'failed'",
        "status = 'archived'",
        "born = 1",
        "born = born + 100000",
        "rev = 1",
        "rev = -1",
        "rev = rev + 100000",
        "gone = 1",
        "id = ''",
        "kind = 'bogus'",
    ] {
        update(column, Reach::Listing, Doctor::Finds);
    }
    update("at = 9223372036854775807", Reach::Listing, Doctor::MayNotCare);
    for sha in ["''".to_owned(), flip("sha", 4), other("sha")] {
        update(&format!("sha = {sha}"), Reach::Mission, Doctor::Finds);
    }
    // What a checkpoint names is in the journal alone.
    if kind != "checkpoint" {
        for text in text_damages("doc") {
            update(&format!("doc = {text}"), Reach::Mission, Doctor::Finds);
        }
        update(&format!("doc = {}", other("doc")), Reach::Mission, Doctor::Finds);
    }
    damages.push(by_sql(&format!("DELETE FROM subject WHERE {row}"), Reach::Listing, Doctor::Finds));
    damages
}

#[test]
fn a_checkpoint_whose_row_is_damaged_is_never_taken_for_another() {
    let login = &sound().login;
    survive(in_table("checkpoint", &login.checkpoints[2].id, &login.checkpoints[1].id));
}

#[test]
fn a_sortie_whose_row_is_damaged_is_never_taken_for_another() {
    let login = &sound().login;
    survive(in_table("sortie", id_of(&login.sorties, 0), id_of(&login.sorties, 1)));
}

#[test]
fn one_missions_damage_of_any_kind_leaves_the_other_alone() {
    let login = &sound().login.id;
    let mut damages = Vec::new();
    for kind in ["mission", "sortie", "lock", "message", "delivery", "note", "checkpoint"] {
        let rows = format!("mission = '{login}'");
        damages.push(by_sql(
            &format!("UPDATE event SET after = after || ' ' WHERE subject_kind = '{kind}' AND change = 'set' AND {rows}"),
            Reach::Mission,
            Doctor::Finds,
        ));
        if kind != "checkpoint" {
            damages.push(by_sql(
                &format!("UPDATE subject SET doc = doc || ' ' WHERE kind = '{kind}' AND {rows}"),
                Reach::Mission,
                Doctor::Finds,
            ));
        }
    }
    survive(damages);
}

#[test]
fn damage_to_what_missions_share_is_said() {
    let mut damages = Vec::new();
    for kind in ["agent", "lock"] {
        damages.push(by_sql(
            &format!("UPDATE event SET after = after || ' ' WHERE subject_kind = '{kind}' AND change = 'set'"),
            Reach::Fleet,
            Doctor::Finds,
        ));
        damages.push(by_sql(
            &format!("UPDATE subject SET doc = doc || ' ' WHERE kind = '{kind}'"),
            Reach::Fleet,
            Doctor::Finds,
        ));
    }
    for project in ["rev = rev - 1", "rev = rev + 5", "rev = 0", "rev = -1", "history = ''", "created_at = -1", "awake_since = 9223372036854775807"] {
        let doctor = if project.starts_with("rev") { Doctor::Finds } else { Doctor::MayNotCare };
        damages.push(by_sql(&format!("UPDATE project SET {project}"), Reach::Fleet, doctor));
    }
    survive(damages);
}

/// Does something to the file of Login's newest checkpoint.
fn to_file(name: impl Into<String>, doctor: Doctor, act: impl Fn(&Path) + 'static) -> Case {
    let (login, name) = (&sound().login, name.into());
    let newest = format!("{}.json", login.checkpoints[2].id);
    let act = move |world: &World| {
        let home = world.state().join("checkpoints").join(&login.id);
        act(&home.join(&newest));
    };
    let reach = Reach::Mission;
    (Damage { name, reach, doctor }, Box::new(act))
}

#[test]
fn a_file_damaged_anywhere_is_found_and_written_anew() {
    let login = &sound().login;
    let file = format!("checkpoints/{}/{}.json", login.id, login.checkpoints[2].id);
    let bytes = fs::read(sound().world.state().join(&file)).unwrap();
    let world = copy();
    let file = world.state().join(file);
    let mut damaged: Vec<(String, Vec<u8>)> = Vec::new();
    for step in 0..24 {
        let at = step * (bytes.len() - 1) / 23;
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
    damaged.push(("something at its end".to_owned(), [&bytes[..], b"\n"].concat()));
    let newest = &login.checkpoints[2];
    for (name, bytes) in damaged {
        fs::write(&file, bytes).unwrap();
        let mission = ["--mission", login.id.as_str()];
        let verified = bears(&world, &name, &[&["checkpoints", "verify"], &mission[..]].concat());
        assert_eq!(verified.code(), Some(6), "{name}");
        let plan = bears(&world, &name, &[&["resume", "--dry-run"], &mission[..]].concat());
        assert_eq!(answer(&plan).unwrap()["checkpoint_id"], *newest.id, "{name}");
        let shown = bears(&world, &name, &["checkpoints", "show", &newest.id]);
        assert_eq!(essence(&answer(&shown).unwrap()), newest.shown, "{name}");
        assert_eq!(bears(&world, &name, &["doctor", "--fix"]).code(), Some(0), "{name}");
        beside::files_are_whole(&world, &name);
    }
    is_untouched(&world, "all of them", &sound().search);
}

#[test]
fn whatever_stands_in_a_files_place_is_found_and_harms_nothing() {
    let [first, _, _] = &*sound().login.checkpoints else { unreachable!("three were taken") };
    let first = format!("{}.json", first.id);
    let other = format!("{}/{}.json", sound().search.id, sound().search.checkpoints[2].id);
    let replace = |by: &dyn Fn(&Path), file: &Path| {
        fs::remove_file(file).unwrap();
        by(file);
    };
    let sibling = first.clone();
    survive(vec![
        to_file("missing", Doctor::Finds, |file| fs::remove_file(file).unwrap()),
        to_file("an earlier one of the mission", Doctor::Finds, move |file| {
            fs::copy(file.with_file_name(&first), file).unwrap();
        }),
        to_file("one of another mission", Doctor::Finds, move |file| {
            let checkpoints = file.parent().unwrap().parent().unwrap();
            fs::copy(checkpoints.join(&other), file).unwrap();
        }),
        to_file("a folder", Doctor::Finds, move |file| replace(&|file| fs::create_dir(file).unwrap(), file)),
        to_file("a link to an earlier one", Doctor::Finds, move |file| {
            replace(&|file| symlink(&sibling, file).unwrap(), file);
        }),
        to_file("a link to nowhere", Doctor::Finds, move |file| replace(&|file| symlink("nowhere", file).unwrap(), file)),
        to_file("a link to itself", Doctor::Finds, move |file| {
            replace(&|file| symlink(beside::name(file), file).unwrap(), file);
        }),
        to_file("larger than any memory", Doctor::Finds, |file| {
            let file = fs::File::options().write(true).open(file).unwrap();
            file.set_len(1 << 42).unwrap();
        }),
        to_file("a pipe that nobody writes to", Doctor::Finds, move |file| {
            let make = |file: &Path| {
                let made = std::process::Command::new("mkfifo").arg(file).status().unwrap();
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
        to_file("no latest.json", Doctor::MayNotCare, move |file| fs::remove_file(link(file)).unwrap()),
        to_file("latest.json leads nowhere", Doctor::MayNotCare, move |file| relink(file, "chk-gone.json")),
        to_file("latest.json leads outside", Doctor::MayNotCare, move |file| relink(file, "/etc/passwd")),
        to_file("latest.json leads to itself", Doctor::MayNotCare, move |file| relink(file, "latest.json")),
        to_file("latest.json is a file", Doctor::MayNotCare, move |file| {
            fs::remove_file(link(file)).unwrap();
            fs::write(link(file), "{ half").unwrap();
        }),
        to_file("latest.json is a folder", Doctor::MayNotCare, move |file| {
            fs::remove_file(link(file)).unwrap();
            fs::create_dir(link(file)).unwrap();
        }),
        to_file("the mission's folder is missing", Doctor::Finds, move |file| fs::remove_dir_all(home(file)).unwrap()),
        to_file("the mission's folder is a file", Doctor::Finds, move |file| {
            fs::remove_dir_all(home(file)).unwrap();
            fs::write(home(file), "in the way").unwrap();
        }),
        to_file("the mission's folder is elsewhere", Doctor::MayNotCare, move |file| {
            let elsewhere = home(file).with_file_name("elsewhere");
            fs::rename(home(file), &elsewhere).unwrap();
            symlink("elsewhere", home(file)).unwrap();
        }),
    ]);
}
