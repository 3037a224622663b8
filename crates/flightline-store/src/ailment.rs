//! What is wrong with the values of a store, one by one, and which copy of each is sound.

use std::fmt;

use flightline_core::event::{Change, sha256_hex};
use flightline_core::subject::keys_of;
use flightline_core::{Keys, Kind};

use crate::error::Error;
use crate::table::statements;
use crate::tx::Tx;
use crate::value::{Row, params};

statements! {
    TEXTS = "SELECT rev, subject_kind, subject, after, sha FROM event WHERE project = ?1 AND rev > ?2 AND change = 'set' \
             ORDER BY rev LIMIT 500";
    ROWS = "SELECT s.kind, s.id, s.rev, s.sha, s.doc, s.gone, s.born, s.mission, s.parent, s.agent, s.name, s.status, s.percent, \
            e.subject_kind, e.subject, e.change, e.after, e.sha, \
            (SELECT CAST(min(b.rev) AS BIGINT) FROM event b WHERE b.project = s.project AND b.subject_kind = s.kind \
            AND b.subject = s.id AND b.change IN ('set', 'thinned')), \
            (SELECT CAST(max(l.rev) AS BIGINT) FROM event l WHERE l.project = s.project AND l.subject_kind = s.kind \
            AND l.subject = s.id AND l.change <> 'none') \
            FROM subject s LEFT JOIN event e ON e.project = s.project AND e.rev = s.rev \
            WHERE s.project = ?1 AND (s.kind > ?2 OR (s.kind = ?2 AND s.id > ?3)) ORDER BY s.kind, s.id LIMIT 500";
    ROWLESS = "SELECT DISTINCT e.subject_kind, e.subject FROM event e WHERE e.project = ?1 AND e.change <> 'none' \
               AND NOT EXISTS (SELECT 1 FROM subject s WHERE s.project = e.project AND s.kind = e.subject_kind AND s.id = e.subject) \
               ORDER BY e.subject_kind, e.subject";
}

/// Something that is wrong with a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ailment {
    /// The kind of thing.
    pub kind: Kind,
    /// Its id.
    pub id: String,
    /// The revision of the value.
    pub rev: u64,
    /// What is wrong.
    pub what: Ill,
}

/// What can be wrong with a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ill {
    /// The journal's text fails its hash; whether the subject's row has the same value, sound.
    Journal(Other),
    /// The event that gave it is lost; whether the subject's row has the value, sound.
    Lost(Other),
    /// The row's text fails its hash; whether the journal's is sound.
    LastValue(Other),
    /// The row is not what the journal says it is, and the journal is sound.
    Row,
    /// There is no row, and the journal knows the subject.
    Missing,
    /// These columns, by which it is found, are not what its document says.
    Columns(Vec<&'static str>),
    /// Both copies match their own hash, and differ.
    Conflict,
    /// It matches its hash and is no document of its kind.
    Unreadable,
}

/// The other copy of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Other {
    /// It is sound.
    Sound,
    /// It is damaged too, or is another value.
    None,
}

impl fmt::Display for Ailment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, id, rev, .. } = self;
        match &self.what {
            Ill::Journal(other) => write!(
                f,
                "{kind} {id} (revision {rev}) does not match its checksum in the journal; {}",
                match other {
                    Other::Sound => "its last value is the same, and sound",
                    Other::None => "the store has no other copy",
                }
            ),
            Ill::Lost(other) => write!(
                f,
                "the event that gave {kind} {id} its value (revision {rev}) is lost; {}",
                match other {
                    Other::Sound => "its last value is sound",
                    Other::None => "the store has no other copy",
                }
            ),
            Ill::LastValue(other) => write!(
                f,
                "the last value of {kind} {id} does not match its checksum; {}",
                match other {
                    Other::Sound => "the journal's is sound",
                    Other::None => "the store has no other copy",
                }
            ),
            Ill::Row => write!(f, "{kind} {id} differs from what its events say"),
            Ill::Missing => write!(f, "{kind} {id} has events and no value"),
            Ill::Columns(columns) => write!(
                f,
                "{kind} {id} is found by another {} than its document says",
                columns.join(", ")
            ),
            Ill::Conflict => write!(
                f,
                "{kind} {id} (revision {rev}) has two values, and both match their checksums"
            ),
            Ill::Unreadable => write!(f, "{kind} {id} cannot be read"),
        }
    }
}

impl Tx<'_> {
    /// Everything that is wrong with values, in order of kind and id; what is wrong in the journal first.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn ailments(&mut self) -> Result<Vec<Ailment>, Error> {
        let mut found = self.ill_texts()?;
        let (mut kind, mut id) = (String::new(), String::new());
        loop {
            let project = self.project.id.as_str();
            let rows = self
                .driver
                .query(ROWS, params![project, kind.as_str(), id.as_str()])?;
            let Some(last) = rows.last() else { break };
            (kind, id) = (last.text(0)?, last.text(1)?);
            for row in &rows {
                let (kind, id, rev) = (read_kind(&row.text(0)?)?, row.text(1)?, row.unsigned(2)?);
                let ill = judge(kind, &id, row)?.into_iter();
                found.extend(ill.map(|what| Ailment {
                    kind,
                    id: id.clone(),
                    rev,
                    what,
                }));
            }
        }
        let project = self.project.id.as_str();
        for row in self.driver.query(ROWLESS, params![project])? {
            found.push(Ailment {
                kind: read_kind(&row.text(0)?)?,
                id: row.text(1)?,
                rev: 0,
                what: Ill::Missing,
            });
        }
        Ok(found)
    }

    fn ill_texts(&mut self) -> Result<Vec<Ailment>, Error> {
        let (mut found, mut rev) = (Vec::new(), 0);
        loop {
            let project = self.project.id.as_str();
            let rows = self.driver.query(TEXTS, params![project, rev])?;
            let Some(last) = rows.last() else {
                return Ok(found);
            };
            rev = last.unsigned(0)?;
            for row in &rows {
                if is_sound(&row.opt_text(3)?, &row.opt_text(4)?) {
                    continue;
                }
                let (kind, id) = (read_kind(&row.text(1)?)?, row.text(2)?);
                let rev = row.unsigned(0)?;
                let other = self.last_value(kind, &id, rev)?;
                let what = Ill::Journal(if other.is_some() {
                    Other::Sound
                } else {
                    Other::None
                });
                found.push(Ailment {
                    kind,
                    id,
                    rev,
                    what,
                });
            }
        }
    }
}

/// What is wrong with a row, beside what its event shows by itself.
fn judge(kind: Kind, id: &str, row: &Row) -> Result<Vec<Ill>, Error> {
    let (rev, gone) = (row.unsigned(2)?, row.opt_int(5)?);
    let (doc, sha) = (row.opt_text(4)?, row.opt_text(3)?);
    let row_is_sound = kind.is_kept_once() || is_sound(&doc, &sha);
    let Some(change) = row.opt_text(15)? else {
        return Ok(vec![Ill::Lost(
            if gone.is_none() && doc.is_some() && row_is_sound {
                Other::Sound
            } else {
                Other::None
            },
        )]);
    };
    let fits = row.opt_text(13)?.as_deref() == Some(kind.as_str())
        && row.opt_text(14)?.as_deref() == Some(id)
        && row.opt_unsigned(19)? == Some(rev)
        && row.opt_unsigned(18)? == Some(row.unsigned(6)?);
    let wanted = match gone {
        None => Change::Set,
        Some(_) => Change::Gone,
    };
    if !fits || change != wanted.as_str() {
        return Ok(vec![Ill::Row]);
    }
    if gone.is_some() {
        return Ok(Vec::new());
    }
    let (after, after_sha) = (row.opt_text(16)?, row.opt_text(17)?);
    let journal_is_sound = is_sound(&after, &after_sha);
    let mut ill = Vec::new();
    match (row_is_sound, journal_is_sound) {
        (true, true) if sha != after_sha && kind.is_kept_once() => ill.push(Ill::Row),
        (true, true) if sha != after_sha => ill.push(Ill::Conflict),
        (true, _) => {}
        (false, true) => ill.push(Ill::LastValue(Other::Sound)),
        (false, false) => ill.push(Ill::LastValue(Other::None)),
    }
    let text = if journal_is_sound { after } else { doc };
    if let Some(text) = text.filter(|_| row_is_sound || journal_is_sound) {
        match keys_of(kind, &text) {
            Ok(keys) => {
                let columns = wrong_columns(row, &keys)?;
                if !columns.is_empty() {
                    ill.push(Ill::Columns(columns));
                }
            }
            Err(_) => ill.push(Ill::Unreadable),
        }
    }
    Ok(ill)
}

fn wrong_columns(row: &Row, keys: &Keys) -> Result<Vec<&'static str>, Error> {
    let wanted = [
        ("mission", keys.mission.map(|id| id.to_string())),
        ("parent", keys.parent.clone()),
        ("agent", keys.agent.map(|id| id.to_string())),
        ("name", keys.name.clone()),
        ("status", Some(keys.status.to_owned())),
    ];
    let mut wrong = Vec::new();
    for (at, (name, wanted)) in (7..).zip(wanted) {
        if row.opt_text(at)? != wanted {
            wrong.push(name);
        }
    }
    if row.opt_unsigned(12)? != keys.percent.map(u64::from) {
        wrong.push("percent");
    }
    Ok(wrong)
}

fn is_sound(text: &Option<String>, sha: &Option<String>) -> bool {
    matches!((text, sha), (Some(text), Some(sha)) if sha256_hex(text) == *sha)
}

fn read_kind(word: &str) -> Result<Kind, Error> {
    word.parse()
        .map_err(|error: flightline_core::subject::UnknownKind| Error::Corrupt(error.to_string()))
}
