//! Describes the state of the space that pruned values took in the store.

use crate::Schema;
use flightline_store::Compaction;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::fleet::Fleet;

/// The state of the space that old values took in the store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Schema)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum FreedSpace {
    /// The store uses the space again.
    #[default]
    Reusable,
    /// The file system has the space back.
    Returned {
        /// Number of bytes, including earlier free space.
        bytes: u64,
    },
    /// The store uses the space again; returning it would be worth the effort, but not now.
    Later {
        /// The reason why it was not returned.
        why: String,
    },
    /// The database server uses the space again after its cleanup.
    Server,
}

impl FreedSpace {
    /// Gives free space of a store back, when it is worth it; `loose` bytes are known to be free.
    pub fn give_back(fleet: &mut Fleet, loose: u64, most: u64) -> Self {
        let compacted = match fleet.store() {
            Ok(store) => store.compact(loose, most).map_err(Error::from),
            Err(error) => Err(error),
        };
        match compacted {
            Ok(Compaction::NotWorthIt) => Self::Reusable,
            Ok(Compaction::Returned(bytes)) => Self::Returned { bytes },
            Ok(Compaction::Later(why)) => Self::Later {
                why: why.to_owned(),
            },
            Ok(Compaction::ByServer) => Self::Server,
            // The space is free all the same: the pruning itself is done.
            Err(error) => Self::Later {
                why: error.to_string(),
            },
        }
    }
}
