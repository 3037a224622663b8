//! Names of files: checkpoints, archives, backups.

use crate::dialect::stamped;
use crate::error::Refusal;
use crate::redact::shown;
use crate::time::Time;

/// The folder of the checkpoints, from the repository's root.
pub const FOLDER: &str = "agent_checkpoints";
/// The folder of the checkpoints of agents that ended: apart, so that the seed's monitor does not see them.
pub const ARCHIVE_FOLDER: &str = "agent_checkpoints/archive";
/// The number of backups of an agent that stay.
const BACKUPS_KEPT: usize = 10;

const LONGEST: usize = 200;

/// The end of an agent's work, when its checkpoint goes into the archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The agent crashed, and another takes over.
    Crashed,
    /// The agent begins anew.
    Aborted,
    /// The agent is done, and no agent continues its work.
    Retired,
}

impl Ended {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Crashed => "crashed",
            Self::Aborted => "aborted",
            Self::Retired => "retired",
        }
    }
}

/// The file of an agent: `primary.json` of `Agent-Primary`, `secondary_a.json` of `Secondary-A`.
///
/// Two agents can have the same file (`A-B` and `a_b`), so its content decides whose it is. Refuses a name of which
/// nothing is left, or that is too long.
pub fn file_name(agent_id: &str) -> Result<String, Refusal> {
    Ok(format!("{}.json", stem(agent_id)?))
}

/// The file of an agent that ended: `secondary_a_crashed_1768489200.json`.
pub fn archive_name(agent_id: &str, ended: Ended, now: Time) -> Result<String, Refusal> {
    let seconds = now.as_millis().div_euclid(1000);
    Ok(format!(
        "{}_{}_{seconds}.json",
        stem(agent_id)?,
        ended.as_str()
    ))
}

/// The file that keeps the version before an update: `secondary_a_20260115_143000.json`.
pub fn backup_name(agent_id: &str, now: Time) -> Result<String, Refusal> {
    Ok(format!(
        "{}_{}.json",
        stem(agent_id)?,
        stamped(now, "%Y%m%d_%H%M%S")
    ))
}

/// Returns those of these files that are backups of the agent and are no longer kept, oldest first.
///
/// The seed's pattern `secondary_a_*.json` also fits the backups of `secondary_a_b`; ours does not.
pub fn surplus_backups<'a>(
    agent_id: &str,
    files: impl IntoIterator<Item = &'a str>,
) -> Result<Vec<&'a str>, Refusal> {
    let mut backups = backups(agent_id, files)?;
    backups.truncate(backups.len().saturating_sub(BACKUPS_KEPT));
    Ok(backups)
}

/// The newest backup of the agent among these files.
pub fn latest_backup<'a>(
    agent_id: &str,
    files: impl IntoIterator<Item = &'a str>,
) -> Result<Option<&'a str>, Refusal> {
    Ok(backups(agent_id, files)?.pop())
}

/// Returns true when the primary monitors an agent: every one but itself, and every one whose file is
/// `secondary_*.json`, at which the seed's script looks.
pub fn is_monitored(agent_id: &str, is_primary: bool) -> bool {
    !is_primary || stem(agent_id).is_ok_and(|stem| stem.starts_with("secondary_"))
}

fn backups<'a>(
    agent_id: &str,
    files: impl IntoIterator<Item = &'a str>,
) -> Result<Vec<&'a str>, Refusal> {
    let stem = stem(agent_id)?;
    let is_backup = |file: &&str| {
        file.strip_prefix(stem.as_str())
            .and_then(|rest| rest.strip_suffix(".json"))
            .is_some_and(is_stamp)
    };
    let mut backups: Vec<&str> = files.into_iter().filter(is_backup).collect();
    backups.sort_unstable();
    Ok(backups)
}

/// Returns true when the text is a time such as `_20260115_143000`.
fn is_stamp(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() == 16
        && bytes.iter().enumerate().all(|(index, byte)| match index {
            0 | 9 => *byte == b'_',
            _ => byte.is_ascii_digit(),
        })
}

fn stem(agent_id: &str) -> Result<String, Refusal> {
    let plain: String = agent_id
        .to_lowercase()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
        .collect();
    let stem = plain.strip_prefix("agent_").unwrap_or(&plain);
    let named = stem.bytes().any(|byte| byte != b'_');
    if !named || stem.len() > LONGEST {
        return Err(Refusal::invalid(format!(
            "`{}` cannot be used as an agent in a file's name",
            shown(agent_id)
        ))
        .hint("give the agent a name with a letter or a digit, of at most 200 characters"));
    }
    Ok(stem.to_owned())
}
