//! Finds the damage of a store's values, one by one, and the sound copy of each.

use std::fmt;

use flightline_core::Kind;

use crate::error::StoreError;
use crate::tx::Tx;
use crate::verify::{self, Examination};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedValue {
    pub kind: Kind,
    pub id: String,
    pub rev: u64,
    pub what: DamageKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DamageKind {
    /// The journal's text fails its hash; the subject's row may have the same value, sound.
    Journal(OtherCopy),
    /// The event that gave the value is lost; the subject's row may have the value, sound.
    Lost(OtherCopy),
    /// The row's text fails its hash; the journal's may be sound.
    LastValue(OtherCopy),
    /// The row differs from the journal's account of it, and the journal is sound.
    Row,
    /// There is no row, and the journal knows the subject.
    Missing,
    /// These columns, by which the subject is found, differ from its document.
    Columns(Vec<&'static str>),
    /// The columns by which the subject is found fail their checksum, and its document says nothing against them.
    Sum,
    /// Both copies match their own hash, and differ.
    Conflict,
    /// The value matches its hash and is no document of its kind.
    Unreadable,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherCopy {
    Sound,
    /// The other copy is damaged too, or is another value.
    None,
}

impl fmt::Display for DamagedValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, id, rev, .. } = self;
        match &self.what {
            DamageKind::Journal(other) => write!(
                f,
                "{kind} {id} (revision {rev}) does not match its checksum in the journal; {}",
                match other {
                    OtherCopy::Sound => "its last value is the same, and sound",
                    OtherCopy::None => "the store has no other copy",
                }
            ),
            DamageKind::Lost(other) => write!(
                f,
                "the event that gave {kind} {id} its value (revision {rev}) is lost; {}",
                match other {
                    OtherCopy::Sound => "its last value is sound",
                    OtherCopy::None => "the store has no other copy",
                }
            ),
            DamageKind::LastValue(other) => write!(
                f,
                "the last value of {kind} {id} does not match its checksum; {}",
                match other {
                    OtherCopy::Sound => "the journal's is sound",
                    OtherCopy::None => "the store has no other copy",
                }
            ),
            DamageKind::Row => write!(f, "{kind} {id} differs from what its events say"),
            DamageKind::Missing => write!(f, "{kind} {id} has events and no value"),
            DamageKind::Columns(columns) => write!(
                f,
                "{kind} {id} is found by another {} than its document says",
                columns.join(", ")
            ),
            DamageKind::Sum => write!(
                f,
                "the columns by which {kind} {id} is found do not match their checksum"
            ),
            DamageKind::Conflict => write!(
                f,
                "{kind} {id} (revision {rev}) has two values, and both match their checksums"
            ),
            DamageKind::Unreadable => write!(f, "{kind} {id} cannot be read"),
        }
    }
}

impl Tx<'_> {
    /// All damage of values; that of the journal first, then in order of kind and id.
    pub fn damaged_values(&mut self) -> Result<Vec<DamagedValue>, StoreError> {
        Ok(self.examine()?.damaged_values)
    }

    /// All damage that this transaction sees, except what only the engine knows.
    pub fn examine(&mut self) -> Result<Examination, StoreError> {
        verify::checks_within(self.driver, &self.project.id)
    }
}
