//! Which histories the files of checkpoints belong to.

use std::collections::BTreeMap;

use flightline_core::history::Followed;

use crate::checkpoint::CheckpointDocument;

/// The histories that these files belong to, and how far, for what is built from them.
pub(super) fn followed_by(documents: &[CheckpointDocument]) -> Vec<Followed> {
    let mut up_to: BTreeMap<&str, u64> = BTreeMap::new();
    for document in documents {
        let Some(state) = &document.state else {
            continue;
        };
        let last = up_to.entry(&state.history).or_default();
        *last = (*last).max(document.rev.saturating_add(1));
    }
    let follows = up_to.into_iter().map(|(history, up_to)| Followed {
        history: history.to_owned(),
        up_to,
    });
    follows.collect()
}
