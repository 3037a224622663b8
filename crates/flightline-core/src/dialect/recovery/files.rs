//! Names of files, and which of them go.

use crate::dialect::stamped;
use crate::time::{Millis, Time};

/// The folder of the checkpoints, from the repository's root.
pub const FOLDER: &str = "checkpoints";
/// The one a session looks at.
pub const LATEST_FILE: &str = "latest.json";

const BACKUP: &str = "checkpoint-";
const EMERGENCY: &str = "emergency-";

/// The file of a backup: `checkpoint-2025-10-30T15-30-00.000Z.json`. No `:`, which not every file system
/// takes; sorted by name is sorted by time.
pub fn backup_name(time: Time) -> String {
    format!("{BACKUP}{}.json", file_time(time))
}

pub fn emergency_name(time: Time) -> String {
    format!("{EMERGENCY}{}.json", file_time(time))
}

fn file_time(time: Time) -> String {
    let millis = time.as_millis().rem_euclid(1000);
    format!("{}.{millis:03}Z", stamped(time, "%Y-%m-%dT%H-%M-%S"))
}

/// The time in the name of a backup or an emergency checkpoint.
pub fn time_in(file: &str) -> Option<Time> {
    let stem = file.strip_suffix(".json")?;
    let stamp = stem
        .strip_prefix(BACKUP)
        .or_else(|| stem.strip_prefix(EMERGENCY))?;
    let (day, hour) = stamp.split_once('T')?;
    format!("{day}T{}", hour.replace('-', ":")).parse().ok()
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundFile {
    pub name: String,
    pub modified: Time,
}

/// The numbers clean-up decides by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CleanUp {
    /// The age above which backups go and emergency checkpoints are put apart.
    pub max_age: Millis,
    /// The number of backups that stay, besides the latest.
    pub backups: usize,
}

impl Default for CleanUp {
    fn default() -> Self {
        Self {
            max_age: 7 * 86_400_000,
            backups: 5,
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CleanupPlan {
    /// Backups that go, oldest first.
    pub delete: Vec<String>,
    /// Emergency checkpoints that are put apart, oldest first. They are never deleted.
    pub archive: Vec<String>,
}

impl CleanUp {
    /// Plans clean-up. The latest checkpoint, and files that are not ours, are not touched.
    pub fn plan(&self, files: &[FoundFile], now: Time) -> CleanupPlan {
        let old = |file: &FoundFile| now.since(file.modified) > self.max_age;
        let of = |prefix: &str| {
            let is_one =
                |it: &&FoundFile| it.name.starts_with(prefix) && it.name.ends_with(".json");
            let mut found: Vec<&FoundFile> = files.iter().filter(is_one).collect();
            found.sort_by_key(|file| (file.modified, &file.name));
            found
        };
        let backups = of(BACKUP);
        let spare = backups.len().saturating_sub(self.backups);
        let backups = backups.into_iter().enumerate();
        let emergencies = of(EMERGENCY).into_iter();
        CleanupPlan {
            delete: backups
                .filter(|(index, file)| *index < spare || old(file))
                .map(|(_, file)| file.name.clone())
                .collect(),
            archive: emergencies
                .filter(|file| old(file))
                .map(|file| file.name.clone())
                .collect(),
        }
    }
}
