//! Walks along the subjects and their events, side by side, and checks that each row is what its events make of it. Both
//! come in the order of kind and id, a page at a time.

use std::collections::{BTreeSet, VecDeque};

use flightline_core::Kind;
use flightline_core::event::{Change, sha256_hex};
use flightline_core::subject::keys_of;

use super::{VerifyPart, VerifyProgress};
use crate::damage::{DamageKind, DamagedValue, OtherCopy};
use crate::engine::Driver;
use crate::error::StoreError;
use crate::seal;
use crate::table::event::query_values;
use crate::table::statements;
use crate::value::{Row, params};

statements! {
    ROWS = "SELECT s.kind, s.id, s.mission, s.parent, s.agent, s.name, s.status, s.percent, s.sum, s.born, s.rev, s.at, s.sha, s.doc, s.gone, \
            e.subject_kind, e.subject, e.change, e.after, e.sha, e.mission, e.at, e.base, (SELECT b.after FROM event b WHERE b.project = e.project AND b.rev = e.base) \
            FROM subject s LEFT JOIN event e ON e.project = s.project AND e.rev = s.rev \
            WHERE s.project = ?1 AND (s.kind, s.id) > (?2, ?3) ORDER BY s.kind, s.id LIMIT 500";
    CHANGES = "SELECT subject_kind, subject, rev, change FROM event \
            WHERE project = ?1 AND (subject_kind, subject, rev) > (?2, ?3, ?4) ORDER BY subject_kind, subject, rev LIMIT 2000";
    HASH = "SELECT sha FROM event WHERE project = ?1 AND rev = ?2";
}

const SUM: usize = 8;
const BORN: usize = 9;
const REV: usize = 10;
const AT: usize = 11;
const SHA: usize = 12;
const DOC: usize = 13;
const GONE: usize = 14;
const EVENT_KIND: usize = 15;
const EVENT_SUBJECT: usize = 16;
const CHANGE: usize = 17;
const AFTER: usize = 18;
const EVENT_SHA: usize = 19;
const EVENT_MISSION: usize = 20;
const EVENT_AT: usize = 21;

#[derive(Debug, Default)]
pub(crate) struct Folded {
    /// The subjects that differ from their events, by kind and id, or that have no row; as words.
    pub(crate) unfolded: Vec<String>,
    /// The damage of each such subject, as far as its kind is known.
    pub(crate) damaged_values: Vec<DamagedValue>,
    /// Rows of an unknown kind, or that no event made.
    pub(crate) strays: Vec<(String, String)>,
}

#[derive(Default)]
struct EventSpan {
    /// The first event that gave the subject a value.
    born: Option<u64>,
    last: Option<u64>,
    /// The last event that gave the subject a value.
    value: Option<u64>,
}

/// Walks along all subjects of a project. Events that are `damaged` count for nothing.
pub(crate) fn walk(
    driver: &mut dyn Driver,
    project: &str,
    damaged: &BTreeSet<u64>,
    watch: &mut VerifyProgress<'_>,
) -> Result<Folded, StoreError> {
    let mut folded = Folded::default();
    let mut changes = Changes::new(project, damaged);
    let (mut kind, mut id, mut seen) = (String::new(), String::new(), 0);
    loop {
        let params = params![project, kind.as_str(), id.as_str()];
        let rows = query_values(driver, ROWS, params, AFTER)?;
        let Some(last) = rows.last() else { break };
        (kind, id) = (last.text(0)?, last.text(1)?);
        for row in &rows {
            let key = (row.text(0)?, row.text(1)?);
            for missing in changes.up_to(driver, Some(&key))? {
                folded.missing(missing);
            }
            let told = changes.of(driver, &key)?;
            folded.row(driver, project, row, key, &told, damaged)?;
        }
        seen += rows.len() as u64;
        watch.tell(VerifyPart::State, seen);
    }
    for missing in changes.up_to(driver, None)? {
        folded.missing(missing);
    }
    Ok(folded)
}

impl Folded {
    fn missing(&mut self, (kind, id): (String, String)) {
        self.unfolded
            .push(format!("{kind} {id} has events and no value"));
        if let Ok(kind) = kind.parse() {
            self.damaged_values.push(DamagedValue {
                kind,
                id,
                rev: 0,
                what: DamageKind::Missing,
            });
        }
    }

    fn row(
        &mut self,
        driver: &mut dyn Driver,
        project: &str,
        row: &Row,
        (word, id): (String, String),
        told: &EventSpan,
        damaged: &BTreeSet<u64>,
    ) -> Result<(), StoreError> {
        let Ok(kind) = word.parse::<Kind>() else {
            self.unfolded.push(differs(&word, &id));
            self.strays.push((word, id));
            return Ok(());
        };
        // An unreadable revision belongs to no event.
        let rev = row.unsigned(REV).unwrap_or(0);
        // No event knows it, and the one it names gave a value to another.
        let others = row
            .opt_text(EVENT_SUBJECT)?
            .is_some_and(|subject| subject != id)
            || row.opt_text(EVENT_KIND)?.is_some_and(|kind| kind != word);
        if others && told.last.is_none() && !damaged.contains(&rev) {
            self.unfolded.push(differs(&word, &id));
            self.strays.push((word, id));
            return Ok(());
        }
        let mut judged = if damaged.contains(&rev) {
            // The event cannot be relied on: the row stands for itself.
            Judged {
                ill: by_itself(kind, row)?,
                folds: true,
            }
        } else {
            judge(kind, &id, row, told, damaged)?
        };
        // The value of the last event there is, at a revision that there never was: the row's revision is damaged.
        if let ([DamageKind::Lost(_)], Some(last)) = (&judged.ill[..], told.last) {
            let hashes = driver.query(HASH, params![project, last])?;
            let hash = hashes.first().map_or(Ok(None), |row| row.opt_text(0))?;
            if hash == row.opt_text(SHA)? {
                judged.ill = vec![DamageKind::Row];
            }
        }
        let gone = row.opt_int(GONE)?.is_some();
        // Where events say nothing any more, the last value may be one that is not known.
        if gone
            && judged.folds
            && let Some(value) = told.value
            && damaged.range(value.min(rev)..rev).next().is_none()
        {
            let hashes = driver.query(HASH, params![project, value])?;
            let hash = hashes.first().map_or(Ok(None), |row| row.opt_text(0))?;
            if hash != row.opt_text(SHA)? {
                judged = Judged {
                    ill: vec![DamageKind::Row],
                    folds: false,
                };
            }
        }
        // A removed subject has its text, or none.
        let doc = row.opt_text(DOC)?.filter(|doc| gone && !doc.is_empty());
        let other_text =
            doc.is_some_and(|doc| !is_sound(&Some(doc), &row.opt_text(SHA).unwrap_or(None)));
        if judged.ill.is_empty() && other_text {
            judged.ill.push(DamageKind::Sum);
        }
        if judged.ill.is_empty() && row.text(SUM)? != seal::sum(&row.0[..SUM]) {
            judged.ill.push(DamageKind::Sum);
        }
        if !judged.folds {
            self.unfolded.push(differs(&word, &id));
        }
        self.damaged_values
            .extend(judged.ill.into_iter().map(|what| DamagedValue {
                kind,
                id: id.clone(),
                rev,
                what,
            }));
        Ok(())
    }
}

fn differs(kind: &str, id: &str) -> String {
    format!("{kind} {id} differs from what its events say")
}

/// The damage of a row, and whether the row agrees with its events.
struct Judged {
    ill: Vec<DamageKind>,
    folds: bool,
}

fn judge(
    kind: Kind,
    id: &str,
    row: &Row,
    told: &EventSpan,
    damaged: &BTreeSet<u64>,
) -> Result<Judged, StoreError> {
    let ill = |what| {
        Ok(Judged {
            ill: vec![what],
            folds: false,
        })
    };
    let rev = row.unsigned(REV).unwrap_or(0);
    let gone = row.opt_int(GONE)?.map(i64::unsigned_abs);
    let (doc, sha) = (row.opt_text(DOC)?, row.opt_text(SHA)?);
    let row_is_sound = kind.is_kept_once() || is_sound(&doc, &sha);
    let Some(change) = row.opt_text(CHANGE)? else {
        return ill(DamageKind::Lost(
            if gone.is_none() && doc.is_some() && row_is_sound {
                OtherCopy::Sound
            } else {
                OtherCopy::None
            },
        ));
    };
    let born = row.unsigned(BORN).unwrap_or(0);
    let fits = row.opt_text(EVENT_KIND)?.as_deref() == Some(kind.as_str())
        && row.opt_text(EVENT_SUBJECT)?.as_deref() == Some(id)
        && told.last == Some(rev)
        && (told.born == Some(born) || damaged.contains(&born))
        && row.int(AT)? == row.int(EVENT_AT)?;
    let wanted = match gone {
        None => Change::Set,
        Some(_) => Change::Gone,
    };
    if !fits || change != wanted.as_str() || gone.is_some_and(|gone| gone != rev) {
        return ill(DamageKind::Row);
    }
    let at_home = row.opt_text(EVENT_MISSION)? == row.opt_text(2)?;
    if gone.is_some() {
        return Ok(Judged {
            ill: (!at_home).then_some(DamageKind::Row).into_iter().collect(),
            folds: at_home,
        });
    }
    let (after, after_sha) = (row.opt_text(AFTER)?, row.opt_text(EVENT_SHA)?);
    let journal_is_sound = is_sound(&after, &after_sha);
    let mut ill = Vec::new();
    match (row_is_sound, journal_is_sound) {
        (true, true) if sha != after_sha && kind.is_kept_once() => ill.push(DamageKind::Row),
        (true, true) if sha != after_sha => ill.push(DamageKind::Conflict),
        (true, _) => {}
        (false, true) => ill.push(DamageKind::LastValue(OtherCopy::Sound)),
        (false, false) => ill.push(DamageKind::LastValue(OtherCopy::None)),
    }
    let same = sha == after_sha && doc.as_ref().is_none_or(|doc| Some(doc) == after.as_ref());
    let folds = ill.is_empty() && same && at_home && after.is_some();
    let text = if journal_is_sound { after } else { doc };
    if row_is_sound || journal_is_sound {
        ill.extend(
            text.and_then(|text| wrong_columns(kind, row, &text).transpose())
                .transpose()?,
        );
    }
    Ok(Judged { ill, folds })
}

/// Finds the damage of a row whose event cannot be relied on.
fn by_itself(kind: Kind, row: &Row) -> Result<Vec<DamageKind>, StoreError> {
    if row.opt_int(GONE)?.is_some() {
        return Ok(Vec::new());
    }
    let (text, sha) = match kind.is_kept_once() {
        true => (row.opt_text(AFTER)?, row.opt_text(SHA)?),
        false => (row.opt_text(DOC)?, row.opt_text(SHA)?),
    };
    if !is_sound(&text, &sha) {
        return Ok(vec![DamageKind::LastValue(OtherCopy::None)]);
    }
    let wrong = text.and_then(|text| wrong_columns(kind, row, &text).transpose());
    Ok(wrong.transpose()?.into_iter().collect())
}

/// Finds the columns that differ from the document.
fn wrong_columns(kind: Kind, row: &Row, text: &str) -> Result<Option<DamageKind>, StoreError> {
    let Ok(keys) = keys_of(kind, text) else {
        return Ok(Some(DamageKind::Unreadable));
    };
    let wanted = [
        ("mission", keys.mission.map(|id| id.to_string())),
        ("parent", keys.parent.clone()),
        ("agent", keys.agent.map(|id| id.to_string())),
        ("name", keys.name.clone()),
        ("status", Some(keys.status.to_owned())),
    ];
    let mut wrong = Vec::new();
    for (at, (name, wanted)) in (2..).zip(wanted) {
        let found = row.opt_text(at)?;
        // A checkpoint that was being made when its store was upgraded from schema 1 was taken for made.
        let upgraded = kind == Kind::Checkpoint
            && found.as_deref() == Some("valid")
            && wanted.as_deref() == Some("creating");
        if found != wanted && !upgraded {
            wrong.push(name);
        }
    }
    if row.opt_int(7)? != keys.percent.map(i64::from) {
        wrong.push("percent");
    }
    Ok((!wrong.is_empty()).then_some(DamageKind::Columns(wrong)))
}

pub(crate) fn is_sound(text: &Option<String>, sha: &Option<String>) -> bool {
    matches!((text, sha), (Some(text), Some(sha)) if sha256_hex(text) == *sha)
}

/// The changes of all subjects, by kind, id and revision.
struct Changes<'a> {
    project: &'a str,
    damaged: &'a BTreeSet<u64>,
    page: VecDeque<Changed>,
    end: (String, String, u64),
    over: bool,
}

struct Changed {
    key: (String, String),
    rev: u64,
    change: String,
}

impl<'a> Changes<'a> {
    fn new(project: &'a str, damaged: &'a BTreeSet<u64>) -> Self {
        Self {
            project,
            damaged,
            page: VecDeque::new(),
            end: (String::new(), String::new(), 0),
            over: false,
        }
    }

    /// Returns the next event that changed something and can be relied on.
    fn peek(&mut self, driver: &mut dyn Driver) -> Result<Option<&Changed>, StoreError> {
        while self.page.is_empty() && !self.over {
            let (kind, id, rev) = &self.end;
            let params = params![self.project, kind.as_str(), id.as_str(), *rev];
            let rows = driver.query(CHANGES, params)?;
            let Some(last) = rows.last() else {
                self.over = true;
                break;
            };
            self.end = (last.text(0)?, last.text(1)?, last.unsigned(2)?);
            for row in &rows {
                let (rev, change) = (row.unsigned(2)?, row.text(3)?);
                if change != Change::None.as_str() && !self.damaged.contains(&rev) {
                    let key = (row.text(0)?, row.text(1)?);
                    self.page.push_back(Changed { key, rev, change });
                }
            }
        }
        Ok(self.page.front())
    }

    /// Returns the subjects before `key` that the journal knows.
    fn up_to(
        &mut self,
        driver: &mut dyn Driver,
        key: Option<&(String, String)>,
    ) -> Result<Vec<(String, String)>, StoreError> {
        let mut before: Vec<(String, String)> = Vec::new();
        while let Some(changed) = self.peek(driver)? {
            if key.is_some_and(|key| changed.key >= *key) {
                break;
            }
            if before.last() != Some(&changed.key) {
                before.push(changed.key.clone());
            }
            self.page.pop_front();
        }
        Ok(before)
    }

    /// Reads the journal's account of a subject.
    fn of(
        &mut self,
        driver: &mut dyn Driver,
        key: &(String, String),
    ) -> Result<EventSpan, StoreError> {
        let mut told = EventSpan::default();
        while let Some(changed) = self.peek(driver)? {
            if changed.key != *key {
                break;
            }
            if changed.change != Change::Gone.as_str() {
                told.born = told.born.or(Some(changed.rev));
                told.value = Some(changed.rev);
            }
            told.last = Some(changed.rev);
            self.page.pop_front();
        }
        Ok(told)
    }
}
