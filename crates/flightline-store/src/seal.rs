//! Hashes of whole rows. The seal of an event covers its columns and its predecessor's seal, so that events are a
//! chain: every event that is changed, lost or put between them shows. Rows beside the journal have sums of their own.
//!
//! A seal covers the hash of a value, not its text, and takes a thinned value for one that is there: thinning and mending
//! leave the chain as it is. Nor does it cover `base`, whose damage the hash of the value shows, and the project: a restore
//! may give a journal to another one.
//!
//! A seal is half of a SHA-256. It tells damage, and two events that a program could write from one another; it is no
//! signature, because a program that can write the tables can write seals. Each event carries two, its own and the one
//! before, so that it can be judged alone and so that a lost one is still known by its seal.

use flightline_core::event::{Change, Hasher};

use crate::error::StoreError;
use crate::value::{Row, SqlValue};

/// The positions of an event's columns, in the order in which they are written.
pub(crate) const REV: usize = 1;
pub(crate) const STEP: usize = 2;
pub(crate) const AT: usize = 3;
pub(crate) const KIND: usize = 4;
pub(crate) const MISSION: usize = 5;
pub(crate) const SUBJECT_KIND: usize = 6;
pub(crate) const SUBJECT: usize = 7;
pub(crate) const ACTOR: usize = 8;
pub(crate) const EPOCH: usize = 9;
pub(crate) const DATA: usize = 10;
pub(crate) const CHANGE: usize = 11;
pub(crate) const AFTER: usize = 12;
pub(crate) const SHA: usize = 13;
pub(crate) const PREV: usize = 14;
pub(crate) const SEAL: usize = 15;

const SEAL_BYTES: usize = 16;
/// The number of bytes of the sum of a row beside the journal.
const SUM_BYTES: usize = 8;
/// The number of bytes of each part of the sum of a row whose columns change one by one.
const PART_BYTES: usize = 4;

/// Computes the seal of an event with these columns, after the event with the seal `prev`.
pub(crate) fn of_event(columns: &[SqlValue], prev: &str) -> String {
    event_hash(columns, prev).beginning(SEAL_BYTES)
}

fn event_hash(columns: &[SqlValue], prev: &str) -> Hasher {
    let mut bytes = Vec::with_capacity(512);
    take_text(&mut bytes, prev);
    for (at, value) in columns.iter().enumerate().take(SHA + 1).skip(REV) {
        match (at, value) {
            (AFTER, _) => {}
            (CHANGE, SqlValue::Text(word)) if word == Change::Thinned.as_str() => {
                take_text(&mut bytes, Change::Set.as_str());
            }
            _ => take(&mut bytes, value),
        }
    }
    hashed(&bytes)
}

/// Returns true when the event in this row is as it was written, by its own seal, after the event that it names.
pub(crate) fn is_intact(row: &Row) -> bool {
    match (row.0.get(PREV), row.0.get(SEAL)) {
        (Some(SqlValue::Text(prev)), Some(SqlValue::Text(seal))) => {
            event_hash(&row.0, prev).begins(SEAL_BYTES, seal)
        }
        _ => false,
    }
}

pub(crate) fn sum(columns: &[SqlValue]) -> String {
    hash(columns).beginning(SUM_BYTES)
}

/// Returns true when `sum` is the sum of these columns.
pub(crate) fn is_sum<'a>(sum: &str, columns: impl IntoIterator<Item = &'a SqlValue>) -> bool {
    hash(columns).begins(SUM_BYTES, sum)
}

/// A part of a sum, for columns that change by themselves.
pub(crate) fn part(columns: &[SqlValue]) -> String {
    hash(columns).beginning(PART_BYTES)
}

/// Returns true when the last column is the sum of the others.
pub(crate) fn has_its_sum(row: &Row) -> Result<bool, StoreError> {
    match row.0.split_last() {
        Some((SqlValue::Text(found), columns)) => Ok(is_sum(found, columns)),
        Some(_) => Ok(false),
        None => Err(StoreError::Corrupt("a row without columns".to_owned())),
    }
}

fn hash<'a>(columns: impl IntoIterator<Item = &'a SqlValue>) -> Hasher {
    let mut bytes = Vec::with_capacity(512);
    for value in columns {
        take(&mut bytes, value);
    }
    hashed(&bytes)
}

/// Hashes the bytes in one piece: a row has a dozen short columns.
fn hashed(bytes: &[u8]) -> Hasher {
    let mut hasher = Hasher::default();
    hasher.update(bytes);
    hasher
}

/// Appends a value with its type and, where it has one, its length: no two rows are taken for one another.
fn take(bytes: &mut Vec<u8>, value: &SqlValue) {
    match value {
        SqlValue::Null => bytes.push(b'-'),
        SqlValue::Int(number) => {
            bytes.push(b'i');
            bytes.extend(number.to_le_bytes());
        }
        SqlValue::Text(text) => take_text(bytes, text),
    }
}

fn take_text(bytes: &mut Vec<u8>, text: &str) {
    bytes.push(b't');
    bytes.extend((text.len() as u64).to_le_bytes());
    bytes.extend(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::{params, values};

    fn event() -> Vec<SqlValue> {
        values![
            "prj",
            7_i64,
            7_i64,
            1_i64,
            "made",
            None::<&str>,
            "note",
            "nte-1",
            "user:x",
            None::<i64>,
            "{}",
            "set",
            "text",
            "sha"
        ]
    }

    #[test]
    fn every_column_but_the_project_and_the_text_is_under_the_seal() {
        let (sound, before) = (event(), "0".repeat(32));
        let seal = of_event(&sound, &before);
        assert_eq!(seal.len(), 32);
        assert_ne!(of_event(&sound, &"1".repeat(32)), seal);
        for at in 0..sound.len() {
            for other in [SqlValue::Null, SqlValue::Int(8), SqlValue::from("other")] {
                let mut changed = sound.clone();
                changed[at] = other;
                let same = of_event(&changed, &before) == seal;
                assert_eq!(same, changed == sound || at == 0 || at == AFTER, "{at}");
            }
        }
    }

    #[test]
    fn thinning_leaves_the_seal() {
        let mut thinned = event();
        thinned[CHANGE] = SqlValue::from("thinned");
        thinned[AFTER] = SqlValue::Null;
        assert_eq!(of_event(&thinned, ""), of_event(&event(), ""));
    }

    #[test]
    fn what_moves_from_one_column_to_the_next_shows() {
        let (one, other) = (params!["ab", "c"], params!["a", "bc"]);
        assert_ne!(sum(one), sum(other));
        assert_ne!(sum(params![1_i64]), sum(params!["1"]));
        assert_ne!(sum(params![None::<&str>]), sum(params![""]));
    }
}
