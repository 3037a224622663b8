//! Lost or unreadable parts of a store that were left out of an answer: they are always reported.

use std::fmt;

use crate::tx::Tx;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Loss {
    Event {
        rev: u64,
    },
    /// The project's row is not as it was written.
    Project,
    /// The last revisions were acknowledged, and are not in the database any more.
    Tail {
        from: u64,
        to: u64,
    },
}

impl Loss {
    /// The remedy for the loss.
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::Event { .. } | Self::Project => "repair it with `fleet doctor --fix`",
            Self::Tail { .. } => {
                "restore a newer backup with `fleet restore FILE`, or continue from the newest checkpoint with `fleet resume`"
            }
        }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Event { rev } => {
                write!(
                    f,
                    "the event of revision {rev} is damaged, and was left out"
                )
            }
            Self::Project => write!(f, "the project's row in the store is damaged"),
            Self::Tail { from, to } if from == to => write!(
                f,
                "revision {to} was acknowledged, but is no longer in the database"
            ),
            Self::Tail { from, to } => write!(
                f,
                "revisions {from} to {to} were acknowledged, but are no longer in the database"
            ),
        }
    }
}

impl Tx<'_> {
    /// Takes the losses that this transaction found. The caller that takes them reports them.
    pub fn take_losses(&mut self) -> Vec<Loss> {
        std::mem::take(&mut self.losses)
    }

    pub(crate) fn miss(&mut self, loss: Loss) {
        if !self.losses.contains(&loss) {
            self.losses.push(loss);
        }
    }
}
