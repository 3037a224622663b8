//! Walks along the journal, and checks that its events are all there, each as it was written, each after the one it names,
//! and that values match their hashes. A page at a time, whatever the size of the journal.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use flightline_core::Kind;
use flightline_core::event::{Change, EventType, sha256_hex};
use flightline_core::history::LEFT_OUT;
use serde_json::Value as Json;

use super::{VerifyPart, VerifyProgress};
use crate::engine::Driver;
use crate::error::StoreError;
use crate::mend::IN_PLACE_OF;
use crate::seal;
use crate::table::event::put_together;
use crate::table::project::ProjectRow;
use crate::table::statements;
use crate::value::{Row, SqlValue, params};

statements! {
    PAGE = "SELECT project, rev, step, at, kind, mission, subject_kind, subject, actor, epoch, data, change, after, sha, prev, seal, base, (SELECT b.after FROM event b WHERE b.project = event.project AND b.rev = event.base) \
            FROM event WHERE project = ?1 AND rev > ?2 ORDER BY rev LIMIT 500";
}

/// The most faults that are remembered one by one.
const REMEMBERED: usize = 10_000;

/// A fault of an event, or between two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalFault {
    pub rev: u64,
    pub what: Wrong,
    /// The hash of the row as it is: a known trouble is recognised by it.
    pub(crate) found: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// The event before it is lost.
    Gap,
    /// The last event before the history that begins here is lost.
    LostEnd,
    /// The first event of its request is lost.
    Torn,
    /// One column is damaged, and its value is known.
    Column(&'static str),
    Changed,
    /// The event is as it was written, and follows another event than the one before it.
    Unlinked,
}

impl fmt::Display for JournalFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rev = self.rev;
        match self.what {
            Wrong::Gap => write!(f, "no event before revision {rev}"),
            Wrong::LostEnd => write!(
                f,
                "the last event before the history that begins at revision {rev} is missing"
            ),
            Wrong::Torn => write!(
                f,
                "revision {rev} belongs to a request whose beginning is missing"
            ),
            Wrong::Column(column) => write!(
                f,
                "the event of revision {rev} is damaged: its `{column}`, which is known"
            ),
            Wrong::Changed => write!(f, "the event of revision {rev} is damaged"),
            Wrong::Unlinked => write!(
                f,
                "the event of revision {rev} does not follow the one before it"
            ),
        }
    }
}

/// A value that does not match its hash: the revision, and the subject's kind and id.
pub(crate) type Unmatched = (u64, Option<Kind>, String);

#[derive(Debug, Default)]
pub(crate) struct Walked {
    /// Trouble that is not known yet.
    pub(crate) troubles: Vec<JournalFault>,
    /// Trouble that was set aside.
    pub(crate) known: Vec<JournalFault>,
    /// The events whose content cannot be relied on.
    pub(crate) damaged: BTreeSet<u64>,
    pub(crate) unmatched: Vec<Unmatched>,
    /// Values that do not match their hashes, and were set aside.
    pub(crate) known_values: Vec<Unmatched>,
    pub(crate) last: u64,
    pub(crate) last_seal: String,
    /// The revisions lost at the end of histories, as the journal tells.
    pub(crate) lost_tails: Vec<String>,
    pub(crate) events: u64,
}

/// An event whose own seal does not fit: the next event may still tell why.
struct Doubt {
    rev: u64,
    computed: String,
    found: String,
}

pub(crate) fn walk(
    driver: &mut dyn Driver,
    project: &ProjectRow,
    watch: &mut VerifyProgress<'_>,
) -> Result<Walked, StoreError> {
    let mut walk = Walk::default();
    let mut rev = 0;
    loop {
        let rows = driver.query(PAGE, params![project.id.as_str(), rev])?;
        let Some(last) = rows.last() else { break };
        rev = last.unsigned(seal::REV)?;
        for mut row in rows {
            let kept = is_kept_base(&row);
            let told = put_together(&mut row, seal::AFTER);
            walk.step(&row, Stored { kept, told })?;
        }
        watch.tell(VerifyPart::Journal, walk.walked.events);
    }
    Ok(walk.end(&project.seal))
}

#[derive(Default)]
struct Walk {
    walked: Walked,
    troubles: Vec<JournalFault>,
    /// Values that do not match their hashes, and by what each is known again.
    unmatched: Vec<(Unmatched, String)>,
    /// The trouble set aside, by revision.
    aside: BTreeMap<u64, BTreeSet<String>>,
    /// The seal of the event before, and the seal of the lost event in whose place that one stands.
    seal: String,
    stands_for: Option<String>,
    doubt: Option<Doubt>,
    /// The first revision of the request that the event before belongs to, where it is there.
    begun: Option<u64>,
}

impl Walk {
    fn step(&mut self, row: &Row, stored: Stored) -> Result<(), StoreError> {
        let rev = row.unsigned(seal::REV)?;
        let kind = EventType::from_word(&row.text(seal::KIND)?);
        let (prev, own) = (row.text(seal::PREV)?, row.text(seal::SEAL)?);
        let adjacent = self.place(rev, kind);
        let doubted = self.settle_doubt(&prev);
        let intact = self.judge(row, rev, (&prev, &own));
        if intact
            && adjacent
            && !doubted
            && prev != self.seal
            && self.stands_for.as_ref() != Some(&prev)
        {
            self.trouble(
                rev,
                Wrong::Unlinked,
                seal::sum(&[
                    SqlValue::from(self.seal.as_str()),
                    SqlValue::from(prev.as_str()),
                ]),
            );
        }
        self.stands_for = None;
        if intact {
            self.read(row, rev, kind)?;
        }
        self.request(rev, row.unsigned(seal::STEP).unwrap_or(rev), intact);
        self.value(row, stored, rev, intact)?;
        self.seal = own;
        self.walked.last = rev;
        self.walked.events += 1;
        Ok(())
    }

    /// Returns true when the event before this revision is the one that should be there.
    fn place(&mut self, rev: u64, kind: Option<EventType>) -> bool {
        let before = self.walked.last;
        match kind {
            Some(EventType::StoreRestored) => true,
            Some(EventType::HistoryBegun) => {
                let there = rev <= LEFT_OUT + 1 || before == rev - LEFT_OUT - 1;
                if !there {
                    self.trouble(rev, Wrong::LostEnd, "missing".to_owned());
                }
                there
            }
            _ if rev > 1 && before + 1 != rev => {
                self.trouble(rev, Wrong::Gap, "missing".to_owned());
                false
            }
            _ => true,
        }
    }

    /// Ends the doubt about the event before by the seal that this one names. Returns true when there was a doubt.
    fn settle_doubt(&mut self, prev: &str) -> bool {
        let Some(doubt) = self.doubt.take() else {
            return false;
        };
        let what = match doubt.computed == prev {
            true => Wrong::Column("seal"),
            false => {
                self.walked.damaged.insert(doubt.rev);
                Wrong::Changed
            }
        };
        self.trouble(doubt.rev, what, doubt.found);
        true
    }

    fn judge(&mut self, row: &Row, rev: u64, (prev, own): (&str, &str)) -> bool {
        let computed = seal::of_event(&row.0, prev);
        if computed == own {
            return true;
        }
        let found = fingerprint(row);
        if seal::of_event(&row.0, &self.seal) == own {
            self.trouble(rev, Wrong::Column("prev"), found);
        } else if hash_alone(row, prev, own).is_some() {
            self.trouble(rev, Wrong::Column("sha"), found);
        } else {
            self.doubt = Some(Doubt {
                rev,
                computed,
                found,
            });
        }
        false
    }

    /// Reads the data of events that the walk itself has to know.
    fn read(&mut self, row: &Row, rev: u64, kind: Option<EventType>) -> Result<(), StoreError> {
        let data = || -> Result<Json, StoreError> {
            Ok(serde_json::from_str(&row.text(seal::DATA)?).unwrap_or_default())
        };
        match kind {
            Some(EventType::EventBroughtBack) => {
                let data = data()?;
                self.stands_for = data[IN_PLACE_OF].as_str().map(str::to_owned);
            }
            Some(EventType::DamageSetAside) => {
                let data = data()?;
                if let (Some(rev), Some(found)) = (data["rev"].as_u64(), data["found"].as_str()) {
                    self.aside.entry(rev).or_default().insert(found.to_owned());
                }
            }
            Some(EventType::HistoryBegun) => {
                let data = data()?;
                let lost = (data["lost"]["from"].as_u64(), data["lost"]["to"].as_u64());
                if let (Some(from), Some(to)) = lost {
                    self.walked.lost_tails.push(format!(
                        "revisions {from} to {to} were acknowledged and lost before revision {rev}"
                    ));
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn request(&mut self, rev: u64, step: u64, intact: bool) {
        if step == rev {
            self.begun = Some(step);
        } else if intact && self.begun != Some(step) {
            self.trouble(rev, Wrong::Torn, "missing".to_owned());
        }
    }

    fn value(
        &mut self,
        row: &Row,
        stored: Stored,
        rev: u64,
        intact: bool,
    ) -> Result<(), StoreError> {
        if row.text(seal::CHANGE)? != Change::Set.as_str() {
            // Nothing was said there, or it was thinned away, and is kept for others at most.
            let there = row.opt_text(seal::AFTER)?.is_some() && !stored.kept;
            if intact && (there || stored.told) {
                self.trouble(
                    rev,
                    Wrong::Column("after"),
                    seal::sum(&row.0[seal::AFTER..=seal::AFTER]),
                );
            }
            return Ok(());
        }
        let sound = match (row.opt_text(seal::AFTER)?, row.opt_text(seal::SHA)?) {
            (Some(text), Some(sha)) => sha256_hex(&text) == sha,
            _ => false,
        };
        if !sound {
            let kind = row.text(seal::SUBJECT_KIND)?.parse().ok();
            let subject = row.text(seal::SUBJECT)?;
            let found = value_found(&row.0[seal::AFTER], &row.0[seal::SHA]);
            self.unmatched.push(((rev, kind, subject), found));
        }
        Ok(())
    }

    fn trouble(&mut self, rev: u64, what: Wrong, found: String) {
        if self.troubles.len() < REMEMBERED {
            self.troubles.push(JournalFault { rev, what, found });
        }
    }

    fn end(mut self, last: &str) -> Walked {
        self.settle_doubt(last);
        self.walked.last_seal = self.stands_for.take().unwrap_or_else(|| self.seal.clone());
        let is_aside = |rev: u64, found: &String| {
            let known = self.aside.get(&rev);
            known.is_some_and(|known| known.contains(found))
        };
        let aside = |trouble: &JournalFault| is_aside(trouble.rev, &trouble.found);
        (self.walked.known, self.walked.troubles) = self.troubles.into_iter().partition(aside);
        for (value, found) in self.unmatched {
            match is_aside(value.0, &found) {
                true => self.walked.known_values.push(value),
                false => self.walked.unmatched.push(value),
            }
        }
        self.walked
    }
}

/// The sum by which a damaged value is known again: of its text, put together as far as that goes, and its hash.
pub(crate) fn value_found(text: &SqlValue, sha: &SqlValue) -> String {
    seal::sum(&[text.clone(), sha.clone()])
}

#[derive(Clone, Copy)]
struct Stored {
    /// True when the value was thinned, and its text is kept as the base of deltas.
    kept: bool,
    /// True when the value is a delta.
    told: bool,
}

/// Returns true when a value was thinned, and its text is still there and sound, as the base of later deltas.
pub(crate) fn is_kept_base(row: &Row) -> bool {
    let text = |at: usize| match row.0.get(at) {
        Some(SqlValue::Text(text)) => Some(text.as_str()),
        _ => None,
    };
    text(seal::CHANGE) == Some(Change::Thinned.as_str())
        && match (text(seal::AFTER), text(seal::SHA)) {
            (Some(text), Some(sha)) => sha256_hex(text) == sha,
            _ => false,
        }
}

pub(crate) fn fingerprint(row: &Row) -> String {
    let columns = row.0.iter().enumerate();
    let columns = columns.filter(|(at, _)| !matches!(*at, 0 | seal::AFTER));
    seal::sum(&columns.map(|(_, value)| value.clone()).collect::<Vec<_>>())
}

/// Returns the hash of the value, when it alone is damaged: with the hash of the text, the event is as it was written.
pub(crate) fn hash_alone(row: &Row, prev: &str, own: &str) -> Option<String> {
    let Some(SqlValue::Text(text)) = row.0.get(seal::AFTER) else {
        return None;
    };
    let (mut columns, sha) = (row.0.clone(), sha256_hex(text));
    columns[seal::SHA] = SqlValue::from(sha.as_str());
    (seal::of_event(&columns, prev) == own).then_some(sha)
}
