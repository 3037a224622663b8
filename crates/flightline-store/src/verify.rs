//! Checks of a whole store: what `fleet doctor` and every test of a crash rely on.

use flightline_core::event::sha256_hex;

use crate::error::Error;
use crate::store::Store;
use crate::table::project::Project;
use crate::table::statements;
use crate::value::{Row, params};

statements! {
    UNFOLDED = "SELECT s.kind, s.id FROM subject s LEFT JOIN event e ON e.project = s.project AND e.rev = s.rev \
        WHERE s.project = ?1 AND (e.rev IS NULL OR e.subject_kind <> s.kind OR e.subject <> s.id \
        OR (s.gone IS NULL AND (e.change <> 'set' OR coalesce(e.sha, '') <> s.sha OR coalesce(e.after, '') <> coalesce(s.doc, e.after, '-'))) \
        OR (s.gone IS NOT NULL AND e.change <> 'gone') \
        OR coalesce(e.mission, '') <> coalesce(s.mission, '') \
        OR s.born <> (SELECT coalesce(min(b.rev), 0) FROM event b WHERE b.project = s.project AND b.subject_kind = s.kind \
        AND b.subject = s.id AND b.change IN ('set', 'thinned')) \
        OR EXISTS (SELECT 1 FROM event x WHERE x.project = s.project AND x.subject_kind = s.kind AND x.subject = s.id \
        AND x.rev > s.rev AND x.change <> 'none')) ORDER BY s.kind, s.id LIMIT 10";
    UNBORN = "SELECT e.subject_kind, e.subject FROM event e WHERE e.project = ?1 AND e.change <> 'none' \
        AND NOT EXISTS (SELECT 1 FROM subject s WHERE s.project = e.project AND s.kind = e.subject_kind AND s.id = e.subject) \
        ORDER BY e.rev LIMIT 10";
    GAPS = "SELECT e.rev FROM event e WHERE e.project = ?1 AND e.rev > 1 AND e.kind NOT IN ('store_restored', 'history_begun') \
        AND NOT EXISTS (SELECT 1 FROM event p WHERE p.project = e.project AND p.rev = e.rev - 1) ORDER BY e.rev LIMIT 10";
    // A history that goes on from another leaves so many revisions out: `core::history::LEFT_OUT`.
    LOST_ENDS = "SELECT e.rev FROM event e WHERE e.project = ?1 AND e.kind = 'history_begun' AND e.rev > 100000000001 \
        AND NOT EXISTS (SELECT 1 FROM event p WHERE p.project = e.project AND p.rev = e.rev - 100000000001) ORDER BY e.rev LIMIT 10";
    TORN = "SELECT e.rev FROM event e WHERE e.project = ?1 AND e.step < e.rev \
        AND NOT EXISTS (SELECT 1 FROM event f WHERE f.project = e.project AND f.rev = e.step AND f.step = e.step) \
        ORDER BY e.rev LIMIT 10";
    LAST = "SELECT CAST(coalesce(max(rev), 0) AS BIGINT) FROM event WHERE project = ?1";
    TEXTS = "SELECT rev, after, sha FROM event WHERE project = ?1 AND rev > ?2 AND change = 'set' ORDER BY rev LIMIT 2000";
}

/// What one check found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What was checked.
    pub check: &'static str,
    /// What is wrong: nothing when all is well.
    pub problems: Vec<String>,
}

/// Runs every check on one snapshot of the store.
///
/// # Errors
/// When the store cannot be read at all.
pub fn verify(store: &mut Store) -> Result<Vec<Finding>, Error> {
    let integrity = store.driver().integrity()?;
    store.driver().begin_read()?;
    let findings = checks(store);
    store.driver().rollback();
    let mut findings = findings?;
    findings.insert(
        0,
        Finding {
            check: "engine",
            problems: integrity,
        },
    );
    Ok(findings)
}

fn checks(store: &mut Store) -> Result<Vec<Finding>, Error> {
    let project = store.project().to_owned();
    let driver = store.driver();
    let row = driver
        .take_project(&project, false)?
        .ok_or_else(|| Error::UnknownProject(project.clone()))?;
    let counter = Project::from_row(&project, &row)?.rev;
    let mut list = |sql: &'static str, say: fn(&Row) -> Result<String, Error>| {
        driver
            .query(sql, params![project.as_str()])?
            .iter()
            .map(say)
            .collect::<Result<Vec<_>, _>>()
    };
    let mut journal = list(GAPS, |row| {
        Ok(format!("no event before revision {}", row.int(0)?))
    })?;
    journal.extend(list(LOST_ENDS, |row| {
        let begun = row.int(0)?;
        Ok(format!(
            "the last event before the history that begins at revision {begun} is missing"
        ))
    })?);
    journal.extend(list(TORN, |row| {
        Ok(format!(
            "revision {} belongs to a request whose beginning is missing",
            row.int(0)?
        ))
    })?);
    let last = list(LAST, |row| row.int(0).map(|rev| rev.to_string()))?;
    if last.first() != Some(&counter.to_string()) {
        journal.push(format!(
            "the counter is at {counter}, the last event at {}",
            last.concat()
        ));
    }
    let mut fold = list(UNFOLDED, |row| {
        Ok(format!(
            "{} {} differs from what its events say",
            row.text(0)?,
            row.text(1)?
        ))
    })?;
    fold.extend(list(UNBORN, |row| {
        Ok(format!(
            "{} {} has events and no value",
            row.text(0)?,
            row.text(1)?
        ))
    })?);
    let hashes = wrong_hashes(store, &project)?;
    Ok(vec![
        Finding {
            check: "journal",
            problems: journal,
        },
        Finding {
            check: "state equals fold of events",
            problems: fold,
        },
        Finding {
            check: "checksums",
            problems: hashes,
        },
    ])
}

/// What is said of a value in the journal that fails its hash.
#[must_use]
pub fn unmatched(rev: u64) -> String {
    format!("the value at revision {rev} does not match its checksum")
}

fn wrong_hashes(store: &mut Store, project: &str) -> Result<Vec<String>, Error> {
    let (mut wrong, mut rev) = (Vec::new(), 0);
    loop {
        let rows = store.driver().query(TEXTS, params![project, rev])?;
        let Some(last) = rows.last() else {
            return Ok(wrong);
        };
        rev = last.unsigned(0)?;
        for row in &rows {
            let sound = match (row.opt_text(1)?, row.opt_text(2)?) {
                (Some(text), Some(sha)) => sha256_hex(&text) == sha,
                _ => false,
            };
            if wrong.len() < 10 && !sound {
                wrong.push(unmatched(row.unsigned(0)?));
            }
        }
    }
}
