//! Separates files of checkpoints that belong to the present journal from those that a restore or a rebuild has left.

use std::collections::{BTreeMap, BTreeSet};

use flightline_core::CheckpointId;
use flightline_core::checkpoint::{Checkpoint, RebuiltFrom};
use flightline_core::history::FollowedHistory;

use crate::checkpoint::CheckpointDocument;

/// Returns the position at which a checkpoint was taken at first: a rebuild gives it another revision, in a new
/// history, and may die before it has written all files anew.
pub(super) fn taken_in(checkpoint: &Checkpoint, history: &str) -> RebuiltFrom {
    checkpoint.taken_in.clone().unwrap_or_else(|| RebuiltFrom {
        history: history.to_owned(),
        rev: checkpoint.cut.rev,
    })
}

/// The revision at which a file's checkpoint was taken at first. They grow through all histories of a project.
pub(super) fn taken_at(document: &CheckpointDocument) -> u64 {
    place_of(document).map_or(document.rev, |place| place.rev)
}

/// The position at which a checkpoint was taken, as its file tells it.
#[derive(Clone, Copy, Debug)]
struct HistoryPosition<'a> {
    history: &'a str,
    rev: u64,
    /// The histories that this one continues; none where the file does not say.
    follows: Option<&'a [FollowedHistory]>,
}

/// The checkpoints of parts of histories that were left. Histories that nothing connects leave one another alone.
pub(super) fn left_behind(documents: &[CheckpointDocument]) -> BTreeSet<CheckpointId> {
    let places: Vec<(CheckpointId, HistoryPosition<'_>)> = documents
        .iter()
        .filter_map(|document| Some((document.id, place_of(document)?)))
        .collect();
    let all: Vec<HistoryPosition<'_>> = places.iter().map(|(_, place)| *place).collect();
    let newest = newest_of_each(&all);
    let left = places.into_iter().filter(|(_, place)| {
        let last = newest.get(place.history);
        last.is_some_and(|last| !is_part(place, last))
    });
    left.map(|(id, _)| id).collect()
}

/// The histories that these files belong to, and how far, for the store built from them.
pub(super) fn followed_by(documents: &[CheckpointDocument]) -> Vec<FollowedHistory> {
    let mut up_to: BTreeMap<&str, u64> = BTreeMap::new();
    for place in documents.iter().filter_map(place_of) {
        let last = up_to.entry(place.history).or_default();
        *last = (*last).max(place.rev.saturating_add(1));
    }
    let follows = up_to.into_iter().map(|(history, up_to)| FollowedHistory {
        history: history.to_owned(),
        up_to,
    });
    follows.collect()
}

fn place_of(document: &CheckpointDocument) -> Option<HistoryPosition<'_>> {
    let state = document.state.as_ref()?;
    let (history, rev) = match &state.checkpoint.taken_in {
        Some(taken) => (taken.history.as_str(), taken.rev),
        None => (state.history.as_str(), document.rev),
    };
    Some(HistoryPosition {
        history,
        rev,
        follows: state.follows.as_deref(),
    })
}

/// Returns true when a position is part of the journal in which `last` was taken, or may be. The record of a
/// checkpoint comes right after the revision it names.
fn is_part(place: &HistoryPosition<'_>, last: &HistoryPosition<'_>) -> bool {
    let Some(follows) = last.follows else {
        return true;
    };
    place.history == last.history
        || follows
            .iter()
            .any(|part| part.history == place.history && place.rev < part.up_to)
}

/// Returns for each history the newest position in it or in any that is connected with it: revisions grow through all
/// histories of a project.
fn newest_of_each<'a>(places: &[HistoryPosition<'a>]) -> BTreeMap<&'a str, HistoryPosition<'a>> {
    let mut group: BTreeMap<&str, usize> = BTreeMap::new();
    for (number, place) in places.iter().enumerate() {
        let follows = place.follows.unwrap_or_default().iter();
        let all = follows.map(|part| part.history.as_str());
        let all: Vec<&str> = all.chain([place.history]).collect();
        // Histories that were groups of their own are one from here on.
        let joined: BTreeSet<usize> = all
            .iter()
            .filter_map(|history| group.get(history).copied())
            .collect();
        for of in group.values_mut().filter(|of| joined.contains(of)) {
            *of = number;
        }
        group.extend(all.into_iter().map(|history| (history, number)));
    }
    let mut newest: BTreeMap<usize, HistoryPosition<'a>> = BTreeMap::new();
    for place in places {
        let Some(of) = group.get(place.history) else {
            continue;
        };
        let last = newest.entry(*of).or_insert(*place);
        if place.rev > last.rev {
            *last = *place;
        }
    }
    let each = places.iter().filter_map(|place| {
        let last = newest.get(group.get(place.history)?)?;
        Some((place.history, *last))
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(history: &str, up_to: u64) -> FollowedHistory {
        FollowedHistory {
            history: history.to_owned(),
            up_to,
        }
    }

    /// The places that count, of histories, revisions and what each history goes on from.
    fn kept(
        places: &[(&'static str, u64, Option<&[FollowedHistory]>)],
    ) -> Vec<(&'static str, u64)> {
        let all: Vec<HistoryPosition<'_>> = places
            .iter()
            .map(|(history, rev, follows)| HistoryPosition {
                history,
                rev: *rev,
                follows: *follows,
            })
            .collect();
        let newest = newest_of_each(&all);
        places
            .iter()
            .zip(&all)
            .filter(|(_, place)| is_part(place, &newest[place.history]))
            .map(|((history, rev, _), _)| (*history, *rev))
            .collect()
    }

    #[test]
    fn what_came_after_the_backup_that_was_restored_is_left() {
        let restored = [part("one", 10)];
        assert_eq!(
            kept(&[
                ("one", 5, Some(&[])),
                ("one", 10, Some(&[])),
                ("one", 12, Some(&[])),
                ("two", 100, Some(&restored)),
            ]),
            [("one", 5), ("two", 100)]
        );
    }

    #[test]
    fn a_restore_that_was_taken_back_is_left_itself() {
        let (restored, back) = ([part("one", 10)], [part("one", 15)]);
        assert_eq!(
            kept(&[
                ("one", 12, Some(&[])),
                ("two", 100, Some(&restored)),
                ("three", 200, Some(&back)),
            ]),
            [("one", 12), ("three", 200)]
        );
    }

    #[test]
    fn files_that_do_not_say_and_stores_that_nothing_connects_are_kept() {
        assert_eq!(kept(&[("one", 12, None), ("two", 100, None)]).len(), 2);
        assert_eq!(
            kept(&[("one", 500, Some(&[])), ("fresh", 3, Some(&[]))]).len(),
            2
        );
    }
}
