//! Rows of the store: every column of the journal and of the last values, flipped, cut, replaced, gone.

use serde_json::Value;

use super::{Case, Damage, Doctor, Reach, sound, survive};
use crate::crash::world::World;

/// Changes rows behind the store's back, whatever its checks say.
fn edit(world: &World, sql: &str) {
    let changed = world.sqlite(&format!(
        "PRAGMA ignore_check_constraints = 1; {sql}; SELECT changes()"
    ));
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
    vec![
        flip(column, 0),
        flip(column, 3),
        flip(column, 8),
        format!("substr({column}, 1, length({column}) / 2)"),
        format!("{column} || ' '"),
        "'null'".to_owned(),
        "CAST(zeroblob(40) AS TEXT)".to_owned(),
    ]
}

/// The journal's text, damaged in each way.
fn damaged_texts() -> Vec<(String, Doctor)> {
    let texts = text_damages("after").into_iter();
    texts
        .map(|text| (format!("after = {text}"), Doctor::Finds))
        .collect()
}

/// A column of a row of the journal, as an expression.
fn in_row(column: &str, row: &str) -> String {
    format!("(SELECT {column} FROM event WHERE {row})")
}

#[test]
fn a_checkpoint_whose_record_is_damaged_in_the_journal_is_never_taken_for_another() {
    let login = &sound().login;
    let (second, third) = (&login.checkpoints[1].id, &login.checkpoints[2].id);
    let row = in_journal("checkpoint", third);
    let mut edits = damaged_texts();
    let of_second = |column: &str| in_row(column, &in_journal("checkpoint", second));
    edits.push((format!("after = {}", of_second("after")), Doctor::Finds));
    edits.push(("after = NULL".to_owned(), Doctor::Finds));
    for sha in [
        flip("sha", 4),
        "''".to_owned(),
        "NULL".to_owned(),
        of_second("sha"),
    ] {
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
    let mut edits = damaged_texts();
    let of_second = |column: &str| in_row(column, &in_journal("sortie", second));
    edits.push((
        format!("after = {}, sha = {}", of_second("after"), of_second("sha")),
        Doctor::Finds,
    ));
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
        (
            "subject = 'chk-00000000-0000-4000-8000-000000000000'",
            Doctor::Finds,
        ),
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
        by_sql(
            &format!("UPDATE event SET {set} WHERE {row}"),
            Reach::Mission,
            doctor,
        )
    };
    let mut damages: Vec<_> = edits.into_iter().map(damage).collect();
    damages.push(by_sql(
        &format!("DELETE FROM event WHERE {row}"),
        Reach::Mission,
        Doctor::Finds,
    ));
    survive(damages);
}

fn by_sql(sql: &str, reach: Reach, doctor: Doctor) -> Case {
    let (name, sql) = (sql.to_owned(), sql.to_owned());
    let act = move |world: &World| edit(world, &sql);
    (
        Damage {
            name,
            reach,
            doctor,
        },
        Box::new(act),
    )
}

/// Damages to the row that holds a subject's last value.
fn in_table(kind: &str, id: &str, other_id: &str) -> Vec<Case> {
    let row = format!("kind = '{kind}' AND id = '{id}'");
    let other = |column: &str| {
        format!(
            "(SELECT o.{column} FROM subject o WHERE o.kind = '{kind}' AND o.id = '{other_id}')"
        )
    };
    let mut damages: Vec<Case> = Vec::new();
    let mut update = |set: &str, reach: Reach, doctor: Doctor| {
        damages.push(by_sql(
            &format!("UPDATE subject SET {set} WHERE {row}"),
            reach,
            doctor,
        ));
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
    update(
        "at = 9223372036854775807",
        Reach::Listing,
        Doctor::MayNotCare,
    );
    for sha in ["''".to_owned(), flip("sha", 4), other("sha")] {
        update(&format!("sha = {sha}"), Reach::Mission, Doctor::Finds);
    }
    // What a checkpoint names is in the journal alone.
    if kind != "checkpoint" {
        for text in text_damages("doc") {
            update(&format!("doc = {text}"), Reach::Mission, Doctor::Finds);
        }
        update(
            &format!("doc = {}", other("doc")),
            Reach::Mission,
            Doctor::Finds,
        );
    }
    damages.push(by_sql(
        &format!("DELETE FROM subject WHERE {row}"),
        Reach::Listing,
        Doctor::Finds,
    ));
    damages
}

#[test]
fn a_checkpoint_whose_row_is_damaged_is_never_taken_for_another() {
    let login = &sound().login;
    survive(in_table(
        "checkpoint",
        &login.checkpoints[2].id,
        &login.checkpoints[1].id,
    ));
}

#[test]
fn a_sortie_whose_row_is_damaged_is_never_taken_for_another() {
    let login = &sound().login;
    survive(in_table(
        "sortie",
        id_of(&login.sorties, 0),
        id_of(&login.sorties, 1),
    ));
}

#[test]
fn one_missions_damage_of_any_kind_leaves_the_other_alone() {
    let login = &sound().login.id;
    let mut damages = Vec::new();
    for kind in [
        "mission",
        "sortie",
        "lock",
        "message",
        "delivery",
        "note",
        "checkpoint",
    ] {
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
    for project in [
        "rev = rev - 1",
        "rev = rev + 5",
        "rev = 0",
        "rev = -1",
        "history = ''",
        "created_at = -1",
        "awake_since = 9223372036854775807",
    ] {
        let doctor = if project.starts_with("rev") {
            Doctor::Finds
        } else {
            Doctor::MayNotCare
        };
        damages.push(by_sql(
            &format!("UPDATE project SET {project}"),
            Reach::Fleet,
            doctor,
        ));
    }
    survive(damages);
}
