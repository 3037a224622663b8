//! Repairs: the good copy over the bad one, never the other way round, and only after a backup.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use flightline_core::{CheckpointId, Kind};
use flightline_store::{
    CopyLocation, Damage, DamageKind, DamagedValue, Mended, OtherCopy, StoreError, StoredEvent, Tx,
    ValueAside,
};

use flightline_store::verify;

use super::tables;
use crate::backup::free_file;
use crate::checkpoint::files;
use crate::checkpoint::mend::{CheckpointsToRead, ExamineCheckpoints, MendCheckpoint};
use crate::checkpoint::serve;
use crate::error::{Error, Result};
use crate::fleet::{Caller, Fleet};
use crate::mission::short;

/// The repairs, and where the store from before is kept.
#[derive(Clone, Debug, Default)]
pub struct Repaired {
    pub done: Vec<String>,
    pub backup: Option<PathBuf>,
}

/// Repairs the store as far as a sound copy of the damaged value is found in it or in the files of checkpoints;
/// a checkpoint that no copy can mend is quarantined. Touches nothing when all is well, and nothing before
/// a copy of everything is in `folder`.
pub fn repair(fleet: &mut Fleet, folder: &Path, stamp: &str) -> Result<Repaired> {
    let examined = verify::examine(fleet.store()?, &mut |_, _| {})?;
    let rows = fleet
        .store()?
        .read(|tx| tx.rows_as_they_are(Kind::Checkpoint));
    let (mut damaged_values, checkpoints) = (examined.damaged_values.clone(), rows?.len());
    let damaged_checkpoints = if checkpoints > 0 || !files::all(folder).is_empty() {
        damaged_checkpoints(fleet, folder)?
    } else {
        Vec::new()
    };
    let spare = from_files(folder, &damaged_values);
    if damaged_checkpoints.is_empty()
        && spare.is_empty()
        && !damaged_values.iter().any(has_a_copy)
        && !can_set_any_aside(fleet, &damaged_values)?
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
        damaged_values = fleet.store()?.read(|tx| tx.damaged_values())?;
    }
    done.extend(mend_all(fleet, &damaged_values, from_within));
    done.extend(mend_checkpoints(fleet, &damaged_checkpoints));
    // A value that no checkpoint in the store names any more may still be in a file, and a value mended above may
    // be all that a row lacked.
    let left = fleet.store()?.read(|tx| tx.damaged_values())?;
    let spare = from_files(folder, &left);
    done.extend(mend_all(fleet, &left, |tx, damaged_value| {
        match spare
            .get(&damaged_value.rev)
            .filter(|_| lacks_a_copy(damaged_value))
        {
            // A sealed file of ours, whose values make up what its checkpoint names.
            Some(copy) if matches!(damaged_value.what, DamageKind::Lost(_)) => {
                tx.bring_back(copy, "file")
            }
            Some(copy) => tx.mend_value(copy, "file"),
            None => Ok(Mended::Refused),
        }
    }));
    let left = fleet.store()?.read(|tx| tx.damaged_values())?;
    done.extend(mend_all(fleet, &left, from_within));
    let aside = values_aside(fleet)?;
    if !aside.is_empty() {
        done.extend(aside);
        // A stand-in may be all that a row lacked, or a checkpoint to be judged.
        let left = fleet.store()?.read(|tx| tx.damaged_values())?;
        done.extend(mend_all(fleet, &left, from_within));
        let checkpoints = self::damaged_checkpoints(fleet, folder)?;
        done.extend(mend_checkpoints(fleet, &checkpoints));
    }
    done.extend(tables::set_aside(fleet)?);
    Ok(Repaired {
        done,
        backup: Some(backup),
    })
}

/// Mends checkpoints, or quarantines those that no copy can mend. Returns a sentence for each.
fn mend_checkpoints(fleet: &mut Fleet, damaged: &[MendCheckpoint]) -> Vec<String> {
    let mut done = Vec::new();
    for mend in damaged {
        match fleet.run(mend, &Caller::default()) {
            Ok(mended) => done.extend(mended.said),
            Err(error) => done.push(format!(
                "{} cannot be repaired: {}",
                short(mend.checkpoint),
                error.into_refusal().message
            )),
        }
    }
    done
}

/// The checkpoints with which something is wrong, and what files offer to mend them.
fn damaged_checkpoints(fleet: &mut Fleet, folder: &Path) -> Result<Vec<MendCheckpoint>> {
    let missions = fleet.store()?.read(|tx| {
        let mut missions = BTreeSet::new();
        for row in tx.rows_as_they_are(Kind::Checkpoint)? {
            missions.extend(row.mission);
        }
        for row in tx.rows_as_they_are(Kind::Mission)? {
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
                wanted: CheckpointsToRead::All,
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

/// Makes the repairs of `mend`: at once, or, when the engine objects, one by one. Returns a sentence for each.
fn mend_all(
    fleet: &mut Fleet,
    damaged_values: &[DamagedValue],
    mend: impl Fn(&mut Tx<'_>, &DamagedValue) -> std::result::Result<Mended, StoreError>,
) -> Vec<String> {
    let mut attempt = |damaged_values: &[DamagedValue]| {
        fleet.store()?.write(|tx| {
            let (mut done, mut mended) = (Vec::new(), BTreeSet::new());
            for damaged_value in damaged_values {
                // A row is written anew as a whole, whatever was wrong with it.
                let again = is_of_row(damaged_value)
                    && mended.contains(&(damaged_value.kind, &damaged_value.id));
                if again || mend(tx, damaged_value)? == Mended::Healed {
                    done.push(format!("{damaged_value}; repaired"));
                    mended.extend(
                        is_of_row(damaged_value).then_some((damaged_value.kind, &damaged_value.id)),
                    );
                }
            }
            Ok::<_, Error>(done)
        })
    };
    match attempt(damaged_values) {
        Ok(done) => done,
        Err(_) => damaged_values
            .iter()
            .flat_map(|damaged_value| {
                attempt(std::slice::from_ref(damaged_value)).unwrap_or_else(|error| {
                    vec![format!("{damaged_value}; cannot be repaired: {error}")]
                })
            })
            .collect(),
    }
}

fn can_set_any_aside(fleet: &mut Fleet, damaged_values: &[DamagedValue]) -> Result<bool> {
    fleet.store()?.read(|tx| {
        for damaged_value in damaged_values {
            if tx.can_set_aside(damaged_value)? {
                return Ok(true);
            }
        }
        Ok(false)
    })
}

/// Sets the values aside that are still damaged, one by one, so that everything else goes on: last values first, then the
/// texts of former ones. Says what became of each.
fn values_aside(fleet: &mut Fleet) -> Result<Vec<String>> {
    let mut said = Vec::new();
    for is_former in [false, true] {
        let left = fleet.store()?.read(|tx| tx.damaged_values())?;
        let is_of_journal = |it: &DamagedValue| matches!(it.what, DamageKind::Journal(_));
        for damaged_value in left.iter().filter(|it| is_of_journal(it) == is_former) {
            let aside = fleet.store()?.write(|tx| tx.set_value_aside(damaged_value));
            said.push(match aside {
                Ok(None) => continue,
                Ok(Some(ValueAside::Repaired)) => format!("{damaged_value}; repaired"),
                Ok(Some(ValueAside::Known)) => format!("{damaged_value}; set aside"),
                Ok(Some(ValueAside::Former(rev))) => format!(
                    "{damaged_value}; set aside, and its value of revision {rev} stands again"
                ),
                Ok(Some(ValueAside::Made)) => format!(
                    "{damaged_value}; set aside, and a record of what remained stands in its place"
                ),
                Ok(Some(ValueAside::Removed)) => format!("{damaged_value}; set aside, and removed"),
                Err(error) => format!("{damaged_value}; cannot be set aside: {error}"),
            });
        }
    }
    Ok(said)
}

/// Mends a value from its other copy in the store.
fn from_within(
    tx: &mut Tx<'_>,
    damaged_value: &DamagedValue,
) -> std::result::Result<Mended, StoreError> {
    match &damaged_value.what {
        DamageKind::Journal(OtherCopy::Sound) | DamageKind::Lost(OtherCopy::Sound) => {
            tx.mend(&Damage {
                kind: damaged_value.kind,
                id: damaged_value.id.clone(),
                rev: damaged_value.rev,
                place: CopyLocation::Journal,
            })
        }
        DamageKind::LastValue(OtherCopy::Sound)
        | DamageKind::Row
        | DamageKind::Missing
        | DamageKind::Columns(_) => tx.mend_row(damaged_value.kind, &damaged_value.id),
        DamageKind::Sum => tx.mend_sum(damaged_value.kind, &damaged_value.id),
        // Which of two sound values is right cannot be known, and nothing is made up.
        DamageKind::Journal(OtherCopy::None)
        | DamageKind::Lost(OtherCopy::None)
        | DamageKind::LastValue(OtherCopy::None)
        | DamageKind::Conflict
        | DamageKind::Unreadable => Ok(Mended::Refused),
    }
}

/// Returns true when the store itself can mend a damaged value.
fn has_a_copy(damaged_value: &DamagedValue) -> bool {
    match damaged_value.what {
        DamageKind::Journal(other) | DamageKind::Lost(other) | DamageKind::LastValue(other) => {
            other == OtherCopy::Sound
        }
        DamageKind::Row | DamageKind::Missing | DamageKind::Columns(_) | DamageKind::Sum => true,
        DamageKind::Conflict | DamageKind::Unreadable => false,
    }
}

fn is_of_row(damaged_value: &DamagedValue) -> bool {
    match damaged_value.what {
        DamageKind::LastValue(_)
        | DamageKind::Row
        | DamageKind::Missing
        | DamageKind::Columns(_)
        | DamageKind::Sum => true,
        DamageKind::Journal(_)
        | DamageKind::Lost(_)
        | DamageKind::Conflict
        | DamageKind::Unreadable => false,
    }
}

fn lacks_a_copy(damaged_value: &DamagedValue) -> bool {
    matches!(
        damaged_value.what,
        DamageKind::Journal(OtherCopy::None) | DamageKind::Lost(OtherCopy::None)
    )
}

/// The values of which the store has no sound copy, as files have them.
fn from_files(folder: &Path, damaged_values: &[DamagedValue]) -> BTreeMap<u64, StoredEvent> {
    let lacking = damaged_values.iter().filter(|it| lacks_a_copy(it));
    let lacking = lacking.map(|damaged_value| damaged_value.rev).collect();
    let found = serve::values_in(folder, files::all(folder), lacking);
    found.iter().map(|it| (it.rev, it.into())).collect()
}
