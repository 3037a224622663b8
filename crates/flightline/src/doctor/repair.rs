//! Repairs: the good copy over the bad one, never the other way round, and only after a backup.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use flightline_core::{CheckpointId, Kind};
use flightline_store::{
    Ailment, Damage, Error as StoreError, Find, Ill, Mended, Other, Place, StoredEvent, Tx,
};

use flightline_store::verify;

use super::tables;
use crate::backup::free_file;
use crate::checkpoint::files;
use crate::checkpoint::mend::{ExamineCheckpoints, MendCheckpoint, Wanted};
use crate::checkpoint::serve;
use crate::error::{Error, Result};
use crate::fleet::{Caller, Fleet};
use crate::mission::short;

/// The repairs, and where the store from before is kept.
#[derive(Clone, Debug, Default)]
pub struct Repaired {
    /// Sentences about the repairs.
    pub done: Vec<String>,
    /// The copy of the store as it was.
    pub backup: Option<PathBuf>,
}

/// Repairs the store as far as a sound copy of what is damaged is found in it or in the files of checkpoints;
/// a checkpoint that no copy can mend is quarantined. Touches nothing when all is well, and nothing before
/// a copy of everything is in `folder`.
///
/// # Errors
/// When the store cannot be read or copied.
pub fn repair(fleet: &mut Fleet, folder: &Path, stamp: &str) -> Result<Repaired> {
    let examined = verify::examine(fleet.store()?, &mut |_, _| {})?;
    let rows = fleet
        .store()?
        .read(|tx| tx.rows(Kind::Checkpoint, Find::All));
    let (mut ailments, checkpoints) = (examined.ailments.clone(), rows?.len());
    let ailing = if checkpoints > 0 || !files::all(folder).is_empty() {
        ailing(fleet, folder)?
    } else {
        Vec::new()
    };
    let spare = from_files(folder, &ailments);
    if ailing.is_empty()
        && spare.is_empty()
        && !ailments.iter().any(has_a_copy)
        && !tables::are_ill(&examined)
    {
        return Ok(Repaired::default());
    }
    let backup = free_file(folder, &format!("before-fix-{stamp}"))?;
    match fleet.store()?.back_up(&backup) {
        Err(StoreError::Corrupt(_)) => fleet.store()?.back_up_as_it_is(&backup)?,
        made => made?,
    };
    let mut done = tables::mend(fleet, &examined)?;
    if !done.is_empty() {
        // Events that are as they were again say more of values than before.
        ailments = fleet.store()?.read(|tx| tx.ailments())?;
    }
    done.extend(mend_all(fleet, &ailments, from_within));
    for mend in &ailing {
        match fleet.run(mend, &Caller::default()) {
            Ok(mended) => done.extend(mended.said),
            Err(error) => done.push(format!(
                "{} cannot be repaired: {}",
                short(mend.checkpoint),
                error.into_refusal().message
            )),
        }
    }
    // What no checkpoint in the store names any more may still be in a file, and what was mended above may
    // be all that a row lacked.
    let left = fleet.store()?.read(|tx| tx.ailments())?;
    let spare = from_files(folder, &left);
    done.extend(mend_all(fleet, &left, |tx, ailment| {
        match spare.get(&ailment.rev).filter(|_| lacks_a_copy(ailment)) {
            // A sealed file of ours, whose values make up what its checkpoint names.
            Some(copy) if matches!(ailment.what, Ill::Lost(_)) => tx.bring_back(copy, "file"),
            Some(copy) => tx.mend_value(copy, "file"),
            None => Ok(Mended::Refused),
        }
    }));
    let left = fleet.store()?.read(|tx| tx.ailments())?;
    done.extend(mend_all(fleet, &left, from_within));
    done.extend(tables::set_aside(fleet)?);
    Ok(Repaired {
        done,
        backup: Some(backup),
    })
}

/// The checkpoints with which something is wrong, and what files offer to mend them.
fn ailing(fleet: &mut Fleet, folder: &Path) -> Result<Vec<MendCheckpoint>> {
    let missions = fleet.store()?.read(|tx| {
        let mut missions = BTreeSet::new();
        for row in tx.rows(Kind::Checkpoint, Find::All)? {
            missions.extend(row.mission);
        }
        for row in tx.rows(Kind::Mission, Find::All)? {
            missions.insert(row.id);
        }
        Ok::<_, Error>(missions)
    })?;
    let mut mends = Vec::new();
    for mission in missions {
        let caller = Caller {
            mission: Some(mission),
            ..Caller::default()
        };
        let examined = match fleet.run(
            &ExamineCheckpoints {
                wanted: Wanted::All,
            },
            &caller,
        ) {
            Ok(examined) => examined,
            // A mission that cannot be read is told by its own check.
            Err(error) if error.is_damage() => continue,
            Err(Error::Refused(_)) => continue,
            Err(error) => return Err(error),
        };
        let before: BTreeSet<CheckpointId> = examined
            .checkpoints
            .iter()
            .filter(|checkpoint| checkpoint.quarantined && checkpoint.problem.is_some())
            .map(|checkpoint| checkpoint.id)
            .collect();
        let offers = serve::offers(folder, &examined).into_iter();
        // A quarantined value without new evidence stays as it is.
        mends.extend(offers.filter(|offer| {
            !before.contains(&offer.checkpoint)
                || offer.record.is_some()
                || !offer.values.is_empty()
        }));
    }
    for mend in &mut mends {
        mend.quarantine = true;
    }
    Ok(mends)
}

/// Mends what `mend` can: all at once, or, when the engine objects, one by one. Says what was mended.
fn mend_all(
    fleet: &mut Fleet,
    ailments: &[Ailment],
    mend: impl Fn(&mut Tx<'_>, &Ailment) -> std::result::Result<Mended, StoreError>,
) -> Vec<String> {
    let mut attempt = |ailments: &[Ailment]| {
        fleet.store()?.write(|tx| {
            let (mut done, mut mended) = (Vec::new(), BTreeSet::new());
            for ailment in ailments {
                // A row is written anew as a whole, whatever was wrong with it.
                let again = is_of_row(ailment) && mended.contains(&(ailment.kind, &ailment.id));
                if again || mend(tx, ailment)? == Mended::Healed {
                    done.push(format!("{ailment}; repaired"));
                    mended.extend(is_of_row(ailment).then_some((ailment.kind, &ailment.id)));
                }
            }
            Ok::<_, Error>(done)
        })
    };
    match attempt(ailments) {
        Ok(done) => done,
        Err(_) => ailments
            .iter()
            .flat_map(|ailment| {
                attempt(std::slice::from_ref(ailment))
                    .unwrap_or_else(|error| vec![format!("{ailment}; cannot be repaired: {error}")])
            })
            .collect(),
    }
}

/// Mends a value from its other copy in the store.
fn from_within(tx: &mut Tx<'_>, ailment: &Ailment) -> std::result::Result<Mended, StoreError> {
    match &ailment.what {
        Ill::Journal(Other::Sound) | Ill::Lost(Other::Sound) => tx.mend(&Damage {
            kind: ailment.kind,
            id: ailment.id.clone(),
            rev: ailment.rev,
            place: Place::Journal,
        }),
        Ill::LastValue(Other::Sound) | Ill::Row | Ill::Missing | Ill::Columns(_) => {
            tx.mend_row(ailment.kind, &ailment.id)
        }
        Ill::Sum => tx.mend_sum(ailment.kind, &ailment.id),
        // Which of two sound values is right cannot be known, and nothing is made up.
        Ill::Journal(Other::None)
        | Ill::Lost(Other::None)
        | Ill::LastValue(Other::None)
        | Ill::Conflict
        | Ill::Unreadable => Ok(Mended::Refused),
    }
}

/// Whether the store itself can mend it.
fn has_a_copy(ailment: &Ailment) -> bool {
    match ailment.what {
        Ill::Journal(other) | Ill::Lost(other) | Ill::LastValue(other) => other == Other::Sound,
        Ill::Row | Ill::Missing | Ill::Columns(_) | Ill::Sum => true,
        Ill::Conflict | Ill::Unreadable => false,
    }
}

fn is_of_row(ailment: &Ailment) -> bool {
    match ailment.what {
        Ill::LastValue(_) | Ill::Row | Ill::Missing | Ill::Columns(_) | Ill::Sum => true,
        Ill::Journal(_) | Ill::Lost(_) | Ill::Conflict | Ill::Unreadable => false,
    }
}

fn lacks_a_copy(ailment: &Ailment) -> bool {
    matches!(
        ailment.what,
        Ill::Journal(Other::None) | Ill::Lost(Other::None)
    )
}

/// The values of which the store has no sound copy, as files have them.
fn from_files(folder: &Path, ailments: &[Ailment]) -> BTreeMap<u64, StoredEvent> {
    let mut lacking: BTreeSet<u64> = ailments
        .iter()
        .filter(|ailment| lacks_a_copy(ailment))
        .map(|ailment| ailment.rev)
        .collect();
    let mut found = BTreeMap::new();
    for path in files::all(folder) {
        if lacking.is_empty() {
            break;
        }
        let state = files::read(folder, &path)
            .ok()
            .and_then(|document| document.state);
        for value in state.into_iter().flat_map(|state| state.values) {
            if lacking.remove(&value.rev) {
                let copy = StoredEvent {
                    kind: value.kind,
                    id: value.id,
                    rev: value.rev,
                    text: value.text,
                    sha: value.sha,
                };
                found.insert(copy.rev, copy);
            }
        }
    }
    found
}
