//! The reason for which an agent is briefed, and the agent that had its work before.

use crate::Schema;
use serde::{Deserialize, Serialize};

use super::Quote;
use crate::text::Name;
use crate::time::Time;

/// The reason for which an agent is briefed: how its present context began, or what happened to its work since.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, Schema)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Cause {
    /// The agent has just begun, and had no context before.
    FirstStart,
    /// The agent's client compacted its context. A reader that is no agent gets this sentence, too.
    #[default]
    Compaction,
    /// A new session has the agent's name.
    NewSession,
    /// The agent has work that another agent began.
    Takeover,
    /// The agent's work was taken back, and it begins from scratch.
    Restart,
    /// The mission went back to a checkpoint.
    Rewind {
        /// The checkpoint's id, or as much of it as is unique.
        to: String,
    },
}

impl Cause {
    /// Returns the newest of the possible causes of a briefing, each given with its revision. Without any, the
    /// agent has just begun.
    pub fn newest(moments: impl IntoIterator<Item = (u64, Self)>) -> Self {
        let newest = moments.into_iter().max_by_key(|(rev, _)| *rev);
        newest.map_or(Self::FirstStart, |(_, cause)| cause)
    }

    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::FirstStart => "first_start",
            Self::Compaction => "compaction",
            Self::NewSession => "new_session",
            Self::Takeover => "takeover",
            Self::Restart => "restart",
            Self::Rewind { .. } => "rewind",
        }
    }

    /// The second line of a briefing: why the agent gets it.
    pub(super) fn sentence(&self) -> String {
        match self {
            Self::FirstStart => "You are starting to work on a mission.".to_owned(),
            Self::Compaction => "You are resuming a mission after context compaction.".to_owned(),
            Self::NewSession => "You are resuming a mission in a new session.".to_owned(),
            Self::Takeover => "You are taking over work that another agent began.".to_owned(),
            Self::Restart => {
                "You are starting over: what you did before was taken back.".to_owned()
            }
            Self::Rewind { to } => {
                format!("You are resuming a mission that went back to checkpoint `{to}`.")
            }
        }
    }
}

/// The agent that had a sortie before the one that is briefed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct Predecessor {
    /// The predecessor's name; the briefed agent's own when it had the sortie in an earlier session.
    pub name: Name,
    /// The way in which the predecessor lost the sortie.
    pub ending: Ending,
    /// Time at which the predecessor's work ended.
    pub at: Time,
    /// The reason for the end, as far as a person, an agent or evidence gives one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Quote>,
}

/// The way in which an agent lost a sortie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Schema)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// The agent was dead or silent, and a recovery freed its work.
    Gone,
    /// Another agent took over from the agent.
    TakenOver,
    /// A person or dispatch gave the sortie to another agent.
    Reassigned,
    /// The agent gave the sortie back.
    Released,
    /// The sortie failed.
    Failed,
}

impl Ending {
    /// The agent's fate, in words.
    pub(super) const fn told(self) -> &'static str {
        match self {
            Self::Gone => "found gone",
            Self::TakenOver => "gone, and its work taken over",
            Self::Reassigned => "its work reassigned",
            Self::Released => "gave it back",
            Self::Failed => "failed",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_cause_counts() {
        let to = "chk-1".to_owned();
        assert_eq!(Cause::newest([]), Cause::FirstStart);
        assert_eq!(
            Cause::newest([
                (7, Cause::Takeover),
                (5, Cause::NewSession),
                (9, Cause::Rewind { to: to.clone() }),
            ]),
            Cause::Rewind { to }
        );
    }
}
