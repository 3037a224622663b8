//! The health of a store: everything that must hold, checked on the real thing.

mod backups;
mod rows;

use flightline_core::Subject;
use flightline_core::agent::Agent;
use flightline_core::lock::Lock;
use flightline_core::message::{Delivery, Message};
use flightline_core::mission::Mission;
use flightline_core::sortie::Sortie;
use flightline_store::{Find, Tx, verify};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::fleet::Fleet;

/// What the doctor found.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Diagnosis {
    /// Whether everything is well.
    pub healthy: bool,
    /// Each check and what it found.
    pub checks: Vec<Check>,
}

/// One check.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Check {
    /// What was checked.
    pub name: String,
    /// Whether it is well.
    pub ok: bool,
    /// What is wrong, or what was put right.
    pub findings: Vec<String>,
}

pub use backups::examine_backups;

/// Whether the doctor only looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Care {
    /// Looks.
    Look,
    /// Repairs what is safe to repair.
    Repair,
}

/// Examines the whole store. Changes nothing but the modes of files that were open to others, which
/// every command repairs when it opens the store.
///
/// # Errors
/// When the store cannot be read at all.
pub fn examine(fleet: &mut Fleet) -> Result<Diagnosis> {
    let repaired = fleet.store().repaired().to_vec();
    let mut checks = vec![Check {
        name: "permissions".to_owned(),
        ok: true,
        findings: repaired,
    }];
    for finding in verify::verify(fleet.store())? {
        checks.push(Check {
            name: finding.check.to_owned(),
            ok: finding.problems.is_empty(),
            findings: finding.problems,
        });
    }
    // Damaged documents are reported above; what they refer to cannot be judged then.
    if checks.iter().all(|check| check.ok) {
        let rules = fleet.store().read(|tx| {
            Ok::<_, Error>(vec![
                check("rows say what their documents say", rows::astray(tx)?),
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
    })
}

fn check(name: &str, findings: Vec<String>) -> Check {
    Check {
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
        if tx.get::<Agent>(&lock.held_by.to_string())?.is_none() {
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
        if tx.get::<Mission>(&sortie.mission_id.to_string())?.is_none() {
            findings.push(format!("{} belongs to no mission", sortie.id));
        }
        let owner = match sortie.assigned_to {
            Some(owner) => Some(tx.get::<Agent>(&owner.to_string())?),
            None => None,
        };
        match owner {
            Some(Some(_)) => {}
            Some(None) => findings.push(format!(
                "{} belongs to an agent that does not exist",
                sortie.id
            )),
            None if sortie.status.is_held() => {
                findings.push(format!(
                    "{} is {} and belongs to nobody",
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
        if tx
            .get::<Message>(&delivery.message_id.to_string())?
            .is_none()
        {
            findings.push(format!(
                "{} delivers a message that does not exist",
                delivery.key()
            ));
        }
        if tx.get::<Agent>(&delivery.to.to_string())?.is_none() {
            findings.push(format!(
                "{} goes to an agent that does not exist",
                delivery.key()
            ));
        }
    }
    Ok(findings)
}
