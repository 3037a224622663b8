//! Lists the projects of a store, for a caller that names one that is not there.

use crate::Schema;
use flightline_core::shell::shell_word;
use flightline_core::{Code, Kind, Refusal};
use flightline_store::{Store, StoreError};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::error::Result;

/// A project in a store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct StoredProject {
    /// The project's id.
    pub id: String,
    /// The name of the project.
    pub name: String,
    /// Number of missions in the project.
    pub missions: u64,
}

impl std::fmt::Display for StoredProject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let noun = if self.missions == 1 {
            "mission"
        } else {
            "missions"
        };
        write!(f, "{} ({}, {} {noun})", self.id, self.name, self.missions)
    }
}

pub fn inventory(store: &mut Store) -> Result<Vec<StoredProject>> {
    let before = store.project().to_owned();
    let listed = store.projects()?;
    let mut projects = Vec::new();
    for id in listed {
        store.enter(&id);
        let missions = store.read(|tx| tx.ids(Kind::Mission));
        let name = store.title(&id).map(|(_, name)| name);
        if let (Ok(name), Ok(missions)) = (name, missions) {
            projects.push(StoredProject {
                id,
                name,
                missions: missions.len() as u64,
            });
        }
    }
    store.enter(&before);
    Ok(projects)
}

/// Number of projects that are named; a shared database may have thousands.
const NAMED: usize = 5;

/// Refuses a project that a store does not have, and says which it has; the likeliest first. The store's own words where
/// it has none.
pub fn unknown_project(wanted: &str, mut known: Vec<StoredProject>) -> Refusal {
    known.sort_by_key(|project| (distance(wanted, &project.id), project.id.clone()));
    let Some(likeliest) = known.first() else {
        return StoreError::UnknownProject(wanted.to_owned()).into();
    };
    let mut named: Vec<String> = known.iter().take(NAMED).map(ToString::to_string).collect();
    if known.len() > NAMED {
        named.push(format!("{} more", known.len() - NAMED));
    }
    Refusal::new(
        Code::NoProject,
        format!(
            "the store has no project {wanted}; it has: {}",
            named.join(", ")
        ),
    )
    .hint(format!(
        "set it right with `fleet config set project {}`",
        shell_word(&likeliest.id)
    ))
    .details(json!({ "project": wanted, "projects": known }))
}

/// Counts the places in which two ids differ.
fn distance(a: &str, b: &str) -> usize {
    let differing = a.bytes().zip(b.bytes()).filter(|(a, b)| a != b).count();
    differing + a.len().abs_diff(b.len())
}
