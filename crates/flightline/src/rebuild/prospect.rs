//! Foretells the outcome of a rebuild, for a caller whose store cannot be opened.

use std::collections::BTreeMap;
use std::path::Path;

use flightline_core::mission::Mission;
use flightline_core::text::read_stored;
use flightline_core::{Kind, MissionId, Time};
use flightline_store::{Location, aside};

use super::{gather, without_files};
use crate::checkpoint::CheckpointDocument;

/// The expected outcome of a rebuild.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prospect {
    pub files: usize,
    pub newest: Option<Time>,
    /// The missions that would come back, each with how far it was.
    pub missions: Vec<(String, u8)>,
    /// The project that the files belong to, when it is one.
    pub project: Option<String>,
    hint: String,
}

impl Prospect {
    /// Returns the hint for a store that cannot be used.
    pub fn hint(&self) -> &str {
        &self.hint
    }
}

/// Looks at the files of checkpoints in `state`, for a store at `location` that cannot be used.
pub fn prospect(state: &Path, location: &Location) -> Prospect {
    let (documents, _) = gather(state);
    let newest = documents.iter().map(|document| document.timestamp).max();
    let missions = missions(&documents);
    let hint = match newest {
        None => without_files(location),
        Some(at) => format!(
            "`fleet doctor --rebuild` brings back {} from {}{}",
            named(&missions),
            match documents.len() {
                1 => format!("1 sound checkpoint file of {at}"),
                files => format!("{files} sound checkpoint files, the newest of {at}"),
            },
            match location {
                Location::Folder(folder) if !aside::holds_database(folder) => "",
                Location::Folder(_) | Location::Postgres(_) => ", and keeps the old store aside",
            }
        ),
    };
    let mut projects: Vec<&str> = documents
        .iter()
        .filter_map(|document| Some(document.state.as_ref()?.project.as_str()))
        .collect();
    projects.sort_unstable();
    projects.dedup();
    Prospect {
        files: documents.len(),
        newest,
        missions,
        project: match projects.as_slice() {
            [only] => Some((*only).to_owned()),
            _ => None,
        },
        hint,
    }
}

/// The missions that these files hold, oldest first, as the newest of each tells it.
fn missions(documents: &[CheckpointDocument]) -> Vec<(String, u8)> {
    let mut newest: BTreeMap<MissionId, (usize, (String, u8))> = BTreeMap::new();
    for (place, document) in documents.iter().enumerate() {
        let values = document.state.iter().flat_map(|state| &state.values);
        let mut missions = values.filter(|value| value.kind == Kind::Mission);
        let title = missions.find_map(|value| read_stored::<Mission>(&value.text).ok());
        let title = title.map_or_else(String::new, |mission| mission.title.to_string());
        let first = newest
            .get(&document.mission_id)
            .map_or(place, |(first, _)| *first);
        newest.insert(
            document.mission_id,
            (first, (title, document.progress_percent)),
        );
    }
    let mut missions: Vec<(usize, (String, u8))> = newest.into_values().collect();
    missions.sort_by_key(|(first, _)| *first);
    missions.into_iter().map(|(_, mission)| mission).collect()
}

/// The newest missions by name, and how many more there are.
fn named(missions: &[(String, u8)]) -> String {
    const NAMED: usize = 3;
    let newest = missions.iter().rev().take(NAMED);
    let names: Vec<String> = newest
        .map(|(title, percent)| format!("\"{title}\" ({percent} %)"))
        .collect();
    match missions.len().saturating_sub(NAMED) {
        0 => names.join(", "),
        1 => format!("{} and 1 more mission", names.join(", ")),
        more => format!("{} and {more} more missions", names.join(", ")),
    }
}
