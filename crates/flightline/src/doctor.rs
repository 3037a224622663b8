//! Checks a store against its invariants, and repairs what has a sound copy.

mod backups;
pub mod disk;
mod folder;
mod repair;
mod tables;

use crate::Schema;
use std::path::{Path, PathBuf};

use flightline_core::Subject;
use flightline_core::agent::Agent;
use flightline_core::lock::Lock;
use flightline_core::message::{Delivery, Message};
use flightline_core::mission::Mission;
use flightline_core::sortie::Sortie;
use flightline_store::verify::{self, COLUMNS, OnProgress, unmatched};
use flightline_store::{DamageKind, DamagedValue, Find, Tx};
use flightline_workspace::WorkTree;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::fleet::Fleet;
use crate::recovery::tasks::TaskTrouble;
use crate::status::Attention;

/// The outcome of an examination by the doctor.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
pub struct Diagnosis {
    /// True when nothing has to be done: every check is ok, no task waits where the policy wants tasks found, and
    /// every connected coding agent reaches the fleet.
    pub healthy: bool,
    /// The checks, each with its findings.
    pub checks: Vec<DoctorCheck>,
    /// Sentences about the damage in the store that was repaired.
    #[serde(default)]
    pub repaired: Vec<String>,
    /// The backup of the store as it was before the repair.
    #[serde(default)]
    pub backup: Option<PathBuf>,
    /// True when there is known damage that cannot be mended; its check reports it.
    #[serde(default)]
    pub set_aside: bool,
    /// Tasks that need a decision, where the policy wants them found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<TaskTrouble>,
    /// Everything else that needs a person, as `fleet status` names it. None of it is damage.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attention: Vec<Attention>,
    /// The coding agents whose settings have hooks of Flightline, and whether those hooks reach the fleet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub connections: Vec<Connection>,
}

impl Diagnosis {
    /// Returns true when the store is sound: every check is ok.
    pub fn is_sound(&self) -> bool {
        self.checks.iter().all(|check| check.ok)
    }

    /// Adds the needs of the work and the connections of coding agents, and judges the whole.
    #[must_use]
    pub fn with(self, needs: Needs, connections: Vec<Connection>) -> Self {
        let connected = connections.iter().all(|connection| connection.ok);
        Self {
            healthy: self.is_sound() && needs.tasks.is_empty() && connected,
            tasks: needs.tasks,
            attention: needs.attention,
            connections,
            ..self
        }
    }
}

/// Work that needs a person.
#[derive(Clone, Debug, Default)]
pub struct Needs {
    /// Tasks, where the policy wants them found.
    pub tasks: Vec<TaskTrouble>,
    /// Everything else that needs a person.
    pub attention: Vec<Attention>,
}

/// The connection of a coding agent: a settings file, or a plugin, with hooks of Flightline.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
pub struct Connection {
    /// The client, such as `claude`.
    pub client: String,
    /// The owner of the settings: `user` or `project`; `plugin` when a plugin has the hooks.
    pub scope: String,
    /// The path of the settings file, or of the plugin's file.
    pub path: PathBuf,
    /// True when the hooks reach the fleet, as far as that can be told.
    pub ok: bool,
    /// Time that a tried hook took, in milliseconds; none when none was tried, or it did not answer.
    pub answered_ms: Option<u64>,
    /// The problems that were found with the connection.
    pub findings: Vec<ConnectionFinding>,
}

/// A problem with a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct ConnectionFinding {
    /// The finding as a sentence.
    pub what: String,
    /// The remedy, as a sentence.
    pub remedy: String,
    /// True when the hooks do not work before the problem is solved.
    pub blocks: bool,
}

/// A check of the doctor, with its findings.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
pub struct DoctorCheck {
    /// The name of the check.
    pub name: String,
    /// True when the check found no problem.
    pub ok: bool,
    /// The problems that were found, or the repairs that were made.
    pub findings: Vec<String>,
}

pub use backups::examine_backups;
pub use folder::examine_folder;
pub use repair::{Repaired, repair};

/// Examines the store, the files of checkpoints and their folder. With [`Care::Repair`], a value with a sound copy is
/// repaired from it, after a copy of the store was made; a value without one is quarantined.
pub fn attend(fleet: &mut Fleet, folder: &Path, care: Care, stamp: &str) -> Result<Diagnosis> {
    attend_with(fleet, folder, care, stamp, &mut |_, _| {})
}

/// Examines the store like [`attend`], and tells how far it is.
pub fn attend_with(
    fleet: &mut Fleet,
    folder: &Path,
    care: Care,
    stamp: &str,
    on_progress: OnProgress<'_>,
) -> Result<Diagnosis> {
    let repaired = match care {
        Care::Look => Repaired::default(),
        Care::Repair => repair(fleet, folder, stamp)?,
    };
    let mut diagnosis = examine_with(fleet, on_progress)?;
    for (name, checks) in [
        ("checkpoints", examine_backups(fleet, folder, care)),
        ("state folder", examine_folder(fleet, folder, care)),
        (disk::DISK, disk::examine_disk(fleet)),
        ("repository", Ok(examine_repository(fleet))),
    ] {
        match checks {
            Ok(checks) => diagnosis.checks.extend(checks),
            // A part that cannot be looked at must not hide the report on the rest.
            Err(error) if error.is_damage() => {
                let found = vec![error.into_refusal().message];
                diagnosis.checks.push(check(name, found));
            }
            Err(error) => return Err(error),
        }
    }
    diagnosis.healthy = diagnosis.is_sound();
    diagnosis.repaired = repaired.done;
    diagnosis.backup = repaired.backup;
    Ok(diagnosis)
}

/// Warns about a state folder that the repository tracks: a pull can replace it, and every clone gets a copy. No
/// warning when it is not tracked, or git cannot tell.
fn examine_repository(fleet: &Fleet) -> Vec<DoctorCheck> {
    let tracked = fleet.work_tree().is_some_and(WorkTree::tracks_state);
    let found = tracked.then(|| {
        "the repository tracks `.flightline/`, so that a pull can replace it: `git rm -r --cached .flightline`"
            .to_owned()
    });
    // A warning: no repair of the store would help.
    let told = |found| DoctorCheck {
        name: "repository".to_owned(),
        ok: true,
        findings: vec![found],
    };
    found.map(told).into_iter().collect()
}

/// The choice between an examination and a repair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Care {
    /// Examines, and changes nothing.
    Look,
    Repair,
}

/// Examines the whole store. Changes nothing but the modes of files that were open to others, which every command
/// repairs when it opens the store.
pub fn examine(fleet: &mut Fleet) -> Result<Diagnosis> {
    examine_with(fleet, &mut |_, _| {})
}

fn examine_with(fleet: &mut Fleet, on_progress: OnProgress<'_>) -> Result<Diagnosis> {
    let repaired = fleet.store()?.repaired().to_vec();
    let mut checks = vec![DoctorCheck {
        name: "permissions".to_owned(),
        ok: true,
        findings: repaired,
    }];
    let weaknesses = fleet.store()?.weaknesses()?;
    if !weaknesses.is_empty() {
        checks.push(DoctorCheck {
            name: "durability".to_owned(),
            ok: true,
            findings: weaknesses,
        });
    }
    let examined = verify::examine(fleet.store()?, on_progress)?;
    let (damaged_values, mut set_aside) = (examined.damaged_values, false);
    for finding in examined.findings {
        let about = damaged_values
            .iter()
            .filter(|damaged_value| check_of(damaged_value) == finding.check);
        // By name, and with the copy that is sound, where that can be told.
        let mut problems: Vec<String> = about.map(ToString::to_string).collect();
        let told = |problem: &String| {
            let mut damaged_values = damaged_values.iter();
            damaged_values.any(|damaged_value| {
                *problem == damaged_value.to_string()
                    || problem.starts_with(&format!("{} {} ", damaged_value.kind, damaged_value.id))
                    || *problem == unmatched(damaged_value.rev)
            })
        };
        let counted = !problems.is_empty();
        let rest = finding.problems.into_iter();
        // The number of further problems is counted anew.
        problems.extend(rest.filter(|said| !(told(said) || counted && said.starts_with("and "))));
        let mut done = check(finding.check, few(problems));
        set_aside |= !finding.known.is_empty();
        done.findings.extend(few(finding.known));
        checks.push(done);
    }
    // Damaged documents are reported above; what they refer to cannot be judged then.
    if checks.iter().all(|check| check.ok) {
        let rules = fleet.store()?.read(|tx| {
            Ok::<_, Error>(vec![
                check("locks exclude one another", locks(tx)?),
                check("work has an owner that exists", owners(tx)?),
                check("mail has a message and a recipient", mail(tx)?),
            ])
        })?;
        checks.extend(rules);
    }
    Ok(Diagnosis {
        healthy: checks.iter().all(|check| check.ok),
        checks,
        repaired: Vec::new(),
        backup: None,
        set_aside,
        tasks: Vec::new(),
        attention: Vec::new(),
        connections: Vec::new(),
    })
}

/// Maximum number of findings that one check reports.
const TOLD: usize = 20;

/// The check that something wrong with a value belongs to.
fn check_of(damaged_value: &DamagedValue) -> &'static str {
    match damaged_value.what {
        DamageKind::Journal(_) => "checksums",
        DamageKind::Lost(_)
        | DamageKind::LastValue(_)
        | DamageKind::Row
        | DamageKind::Missing
        | DamageKind::Conflict => "state equals fold of events",
        DamageKind::Columns(_) | DamageKind::Sum | DamageKind::Unreadable => COLUMNS,
    }
}

/// The first of many, and how many more there are.
fn few(mut findings: Vec<String>) -> Vec<String> {
    if findings.len() > TOLD {
        let more = findings.len() - TOLD;
        findings.truncate(TOLD);
        findings.push(format!("and {more} more"));
    }
    findings
}

fn check(name: &str, findings: Vec<String>) -> DoctorCheck {
    DoctorCheck {
        name: name.to_owned(),
        ok: findings.is_empty(),
        findings,
    }
}

fn locks(tx: &mut Tx<'_>) -> Result<Vec<String>> {
    let locks = tx.find::<Lock>(Find::All)?;
    let mut findings = Vec::new();
    for (at, lock) in locks.iter().enumerate() {
        for other in locks.iter().skip(at + 1) {
            if lock.file.overlaps(&other.file) && lock.held_by != other.held_by {
                findings.push(format!(
                    "`{}` and `{}` overlap and have two holders",
                    lock.file, other.file
                ));
            }
        }
        if lock.fence > tx.rev() {
            findings.push(format!("the fence of `{}` lies in the future", lock.file));
        }
        if tx.get::<Agent>(lock.held_by)?.is_none() {
            findings.push(format!(
                "`{}` is held by an agent that does not exist",
                lock.file
            ));
        }
    }
    Ok(findings)
}

fn owners(tx: &mut Tx<'_>) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for sortie in tx.find::<Sortie>(Find::All)? {
        if tx.get::<Mission>(sortie.mission_id)?.is_none() {
            findings.push(format!("{} belongs to no mission", sortie.id));
        }
        let owner = sortie
            .assigned_to
            .map(|owner| tx.get::<Agent>(owner))
            .transpose()?;
        match owner {
            Some(Some(_)) => {}
            Some(None) => findings.push(format!(
                "{} belongs to an agent that does not exist",
                sortie.id
            )),
            None if sortie.status.is_held() => {
                findings.push(format!(
                    "{} is {} and has no owner",
                    sortie.id,
                    sortie.status.as_str()
                ));
            }
            None => {}
        }
    }
    Ok(findings)
}

fn mail(tx: &mut Tx<'_>) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for delivery in tx.find::<Delivery>(Find::All)? {
        if tx.get::<Message>(delivery.message_id)?.is_none() {
            findings.push(format!(
                "{} delivers a message that does not exist",
                delivery.key()
            ));
        }
        if tx.get::<Agent>(delivery.to)?.is_none() {
            findings.push(format!(
                "{} goes to an agent that does not exist",
                delivery.key()
            ));
        }
    }
    Ok(findings)
}
