//! Checks a whole store, for `fleet doctor` and every test of a crash. It works in parts, each in bounded memory and in
//! time that grows with the store and no faster.

pub(crate) mod fold;
pub(crate) mod journal;
pub(crate) mod side_tables;

pub use journal::{JournalFault, Wrong};
pub use side_tables::Stale;

use std::fmt;
use std::time::{Duration, Instant};

use crate::damage::{DamageKind, DamagedValue};
use crate::engine::{Acknowledged, Driver};
use crate::error::StoreError;
use crate::store::Store;
use crate::table::project::ProjectRow;

/// The check of the columns by which rows are found.
pub const COLUMNS: &str = "search columns match the documents";

/// The most problems of one kind that are listed one by one.
const TOLD: usize = 10;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckFinding {
    pub check: &'static str,
    pub problems: Vec<String>,
    /// Earlier problems that cannot be mended and were set aside: reported, with nothing more to be done about them.
    pub known: Vec<String>,
}

impl CheckFinding {
    /// Returns true when a copy of the store should be kept: not when all damage can be derived from sound data.
    pub(crate) fn is_grave(&self) -> bool {
        !self.problems.is_empty() && !matches!(self.check, COLUMNS | "schema")
    }
}

#[derive(Clone, Debug, Default)]
pub struct Examination {
    pub findings: Vec<CheckFinding>,
    pub damaged_values: Vec<DamagedValue>,
    pub troubles: Vec<JournalFault>,
    /// The damage beside the journal.
    pub stale: Vec<Stale>,
    /// Rows of an unknown kind, or that no event made.
    pub strays: Vec<(String, String)>,
    /// True when indexes or views are missing.
    pub schema: bool,
    /// True when the database is behind the acknowledged writes, or those cannot be read.
    pub behind: bool,
    pub parts: Vec<(VerifyPart, Duration)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerifyPart {
    /// The engine's own check of its files.
    Engine,
    /// The check that tables, indexes and views are there.
    Schema,
    Journal,
    /// The check of the subjects against their events.
    State,
    /// The check of the rows beside the journal.
    Beside,
}

impl fmt::Display for VerifyPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Engine => "engine",
            Self::Schema => "schema",
            Self::Journal => "journal",
            Self::State => "state",
            Self::Beside => "beside the journal",
        })
    }
}

/// A callback for the progress of an examination: the part, and how many rows of it were looked at.
pub type OnProgress<'a> = &'a mut dyn FnMut(VerifyPart, u64);

/// Reports the progress, and keeps the times.
pub(crate) struct VerifyProgress<'a> {
    on_progress: OnProgress<'a>,
    parts: Vec<(VerifyPart, Duration)>,
    began: Instant,
}

impl VerifyProgress<'_> {
    pub(crate) fn tell(&mut self, part: VerifyPart, done: u64) {
        (self.on_progress)(part, done);
    }

    fn end(&mut self, part: VerifyPart) {
        self.parts.push((part, self.began.elapsed()));
        self.began = Instant::now();
    }
}

/// Runs every check on one snapshot of the store.
pub fn verify(store: &mut Store) -> Result<Vec<CheckFinding>, StoreError> {
    Ok(examine(store, &mut |_, _| {})?.findings)
}

/// Runs every check on one snapshot of the store, and reports the progress.
pub fn examine(store: &mut Store, on_progress: OnProgress<'_>) -> Result<Examination, StoreError> {
    let mut watch = VerifyProgress {
        on_progress,
        parts: Vec::new(),
        began: Instant::now(),
    };
    watch.tell(VerifyPart::Engine, 0);
    let integrity = store.driver().integrity()?;
    watch.end(VerifyPart::Engine);
    let schema = store.driver().schema_troubles()?;
    watch.end(VerifyPart::Schema);
    let project = store.project().to_owned();
    // Before the snapshot: a process that writes meanwhile is ahead of it.
    let acknowledged = store.driver().acknowledged(&project);
    store.driver().begin_read()?;
    let examined = checks(store.driver(), &project, acknowledged, &mut watch);
    store.driver().rollback();
    let mut examined = examined?;
    examined.schema = !schema.is_empty();
    examined.findings.insert(0, finding("engine", integrity));
    examined.findings.insert(1, finding("schema", schema));
    examined.parts = watch.parts;
    Ok(examined)
}

/// Runs the checks of the tables, inside a transaction.
pub(crate) fn checks_within(
    driver: &mut dyn Driver,
    project: &str,
) -> Result<Examination, StoreError> {
    let mut watch = VerifyProgress {
        on_progress: &mut |_, _| {},
        parts: Vec::new(),
        began: Instant::now(),
    };
    checks(driver, project, Ok(None), &mut watch)
}

fn checks(
    driver: &mut dyn Driver,
    id: &str,
    acknowledged: Result<Option<Acknowledged>, String>,
    watch: &mut VerifyProgress<'_>,
) -> Result<Examination, StoreError> {
    let row = driver
        .take_project(id, false)?
        .ok_or_else(|| StoreError::UnknownProject(id.to_owned()))?;
    // The row as it is: its content is compared with the journal.
    let said = ProjectRow::read(id, &row)?;
    let project = ProjectRow::from_row(driver, id, &row)?;
    let walked = journal::walk(driver, &said, watch)?;
    watch.end(VerifyPart::Journal);
    let mut problems: Vec<String> = few(&walked.troubles);
    if walked.last != said.rev {
        let (counter, last) = (said.rev, walked.last);
        problems.push(format!(
            "the counter is at {counter}, the last event at {last}"
        ));
    } else if walked.last_seal != said.seal {
        problems.push(format!(
            "the project's row does not name the event of revision {}",
            walked.last
        ));
    }
    let mut known: Vec<String> = walked
        .known
        .iter()
        .map(|trouble| format!("{trouble}; set aside"))
        .collect();
    known.extend(walked.lost_tails);
    let journal = CheckFinding {
        check: "journal",
        problems,
        known,
    };
    let folded = fold::walk(driver, id, &walked.damaged, watch)?;
    watch.end(VerifyPart::State);
    let mut stale = side_tables::walk(driver, id, watch)?;
    if !project.intact || (driver.name() == "sqlite" && said.timeline.is_some()) {
        stale.push(Stale::Project);
    }
    watch.end(VerifyPart::Beside);
    let mut damaged_values = ill_values(driver, id, &walked.unmatched)?;
    let unmatched: Vec<String> = walked
        .unmatched
        .iter()
        .map(|(rev, ..)| self::unmatched(*rev))
        .collect();
    damaged_values.extend(folded.damaged_values);
    let known_values = walked.known_values.iter().map(|(rev, kind, id)| {
        let kind = kind.map_or("?", |kind| kind.as_str());
        format!("{} ({kind} {id}); set aside", self::unmatched(*rev))
    });
    let checksums = CheckFinding {
        check: "checksums",
        problems: few(&unmatched),
        known: known_values.collect(),
    };
    let columns: Vec<&DamagedValue> = damaged_values
        .iter()
        .filter(|damaged_value| {
            matches!(
                damaged_value.what,
                DamageKind::Columns(_) | DamageKind::Sum | DamageKind::Unreadable
            )
        })
        .collect();
    let behind = behind(&project, acknowledged);
    let is_behind = !behind.is_empty();
    let findings = vec![
        journal,
        finding("last acknowledged revision", behind),
        finding("state equals fold of events", few(&folded.unfolded)),
        checksums,
        finding(COLUMNS, few(&columns)),
        finding("beside the journal", few(&stale)),
    ];
    Ok(Examination {
        findings,
        damaged_values,
        troubles: walked.troubles,
        stale,
        strays: folded.strays,
        behind: is_behind,
        ..Examination::default()
    })
}

/// Describes how far the database is behind the acknowledged writes; empty when it is not.
fn behind(project: &ProjectRow, acknowledged: Result<Option<Acknowledged>, String>) -> Vec<String> {
    match acknowledged {
        Ok(Some(last)) => last
            .lost_since(project)
            .map(|loss| format!("{loss}; {}", loss.hint()))
            .into_iter()
            .collect(),
        Ok(None) => Vec::new(),
        Err(why) => vec![why],
    }
}

fn ill_values(
    driver: &mut dyn Driver,
    project: &str,
    unmatched: &[journal::Unmatched],
) -> Result<Vec<DamagedValue>, StoreError> {
    let mut ill = Vec::new();
    for (rev, kind, id) in unmatched {
        // The value of an event of no known kind belongs to no subject.
        let Some(kind) = *kind else { continue };
        let other = crate::mend::sound_row(driver, project, kind, id, *rev)?;
        ill.push(DamagedValue {
            kind,
            id: id.clone(),
            rev: *rev,
            what: DamageKind::Journal(match other {
                Some(_) => crate::damage::OtherCopy::Sound,
                None => crate::damage::OtherCopy::None,
            }),
        });
    }
    Ok(ill)
}

fn finding(check: &'static str, problems: Vec<String>) -> CheckFinding {
    CheckFinding {
        check,
        problems,
        known: Vec::new(),
    }
}

/// Lists the first of many, and how many more there are.
fn few<T: ToString>(all: &[T]) -> Vec<String> {
    let mut told: Vec<String> = all.iter().take(TOLD).map(ToString::to_string).collect();
    if all.len() > TOLD {
        told.push(format!("and {} more", all.len() - TOLD));
    }
    told
}

/// The sentence about a value in the journal that fails its hash.
pub fn unmatched(rev: u64) -> String {
    format!("the value at revision {rev} does not match its checksum")
}
