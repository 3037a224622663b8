//! Finds the sorties of a mission that are ready, and the obstacles of the others.

use crate::Schema;
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use flightline_core::lock::Lock;
use flightline_core::sortie::{Sortie, SortieStatus};
use flightline_core::{AgentId, RepoPath, SortieId};
use flightline_store::Find;
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::fleet::{Access, ActsFor, Operation, Scope};
use crate::mission::short;
use crate::op_context::OpContext;

/// Lists the sorties of a mission in its order, each with the reason why it cannot be claimed.
#[derive(Clone, Debug, Default, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct ListQueue {
    /// The mission whose sorties are listed; the current one when none is named.
    pub mission: Option<String>,
    /// List only sorties that the caller can claim now, the next one first.
    #[serde(default)]
    pub ready: bool,
}

/// A sortie with the sorties and locks that it waits for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
pub struct QueuedSortie {
    /// The sortie's id.
    pub id: SortieId,
    /// The title of the sortie: the work to be done.
    pub title: String,
    /// The current status of the sortie.
    pub status: SortieStatus,
    /// The name of the sortie's owner, if it has one.
    pub assigned_to: Option<String>,
    /// Priority of the sortie; a higher number goes first.
    pub priority: i32,
    /// Sorties that must be completed first.
    pub depends_on: Vec<SortieId>,
    /// True when the caller can claim the sortie now.
    pub ready: bool,
    /// The reason why the sortie cannot be claimed; none when it is ready, completed or left out.
    pub why: Option<String>,
}

impl Operation for ListQueue {
    const NAME: &'static str = "list_queue";
    const ACCESS: Access = Access::Read;
    const SCOPE: Scope = Scope::Read;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = Vec<QueuedSortie>;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<Vec<QueuedSortie>> {
        let mission = ctx.mission(self.mission.as_deref())?;
        let me = ctx.agent_id();
        let mut locks = ctx.tx.find::<Lock>(Find::All)?;
        locks.retain(|lock| Some(lock.held_by) != me);
        let mut sorties = ctx.tx.find::<Sortie>(Find::Mission(mission.id))?;
        sorties.sort_by_key(|sortie| sortie.position);
        let queue = WorkQueue::new(&sorties, &locks, me);
        let mut found: Vec<&Sortie> = sorties.iter().collect();
        if self.ready {
            found.retain(|sortie| queue.is_ready(sortie));
            found.sort_by_key(|sortie| Reverse(rank(sortie)));
        }
        let mut listed = Vec::with_capacity(found.len());
        for sortie in found {
            let ready = queue.is_ready(sortie);
            let why = match ready || sortie.status.is_settled() {
                true => None,
                false => Some(queue.obstacle(sortie).told(ctx, sortie)?),
            };
            listed.push(QueuedSortie {
                id: sortie.id,
                title: sortie.title.to_string(),
                status: sortie.status,
                assigned_to: sortie
                    .assigned_to
                    .map(|owner| ctx.agent_name(owner))
                    .transpose()?,
                priority: sortie.priority,
                depends_on: sortie.depends_on.clone(),
                ready,
                why,
            });
        }
        Ok(listed)
    }
}

/// Returns the rank of a sortie among several that are ready: work that was assigned before work that is free, then
/// the more urgent, then work that was interrupted, then the first.
pub(crate) fn rank(sortie: &Sortie) -> (bool, i32, bool, Reverse<u64>) {
    let given = sortie.status == SortieStatus::Assigned;
    let interrupted = sortie.is_interrupted();
    (
        given,
        sortie.priority,
        interrupted,
        Reverse(sortie.position),
    )
}

/// The sorties of a mission, as an agent sees them that looks for work.
pub(crate) struct WorkQueue<'a> {
    pub(crate) sorties: &'a [Sortie],
    by_id: HashMap<SortieId, &'a Sortie>,
    settled: HashSet<SortieId>,
    /// Locks of others.
    locks: &'a [Lock],
    me: Option<AgentId>,
}

/// The reason why a sortie cannot be claimed.
pub(crate) enum ClaimObstacle<'a> {
    /// Unfinished sorties that this one depends on.
    Waits(Vec<&'a Sortie>),
    /// Files of the sortie that other agents have locked.
    Locked(Vec<(&'a RepoPath, &'a Lock)>),
    Held,
    Mine,
    /// The sortie failed, and waits for its release before a retry.
    Failed,
}

impl<'a> WorkQueue<'a> {
    pub(crate) fn new(sorties: &'a [Sortie], locks: &'a [Lock], me: Option<AgentId>) -> Self {
        let settled = sorties.iter().filter(|sortie| sortie.status.is_settled());
        Self {
            sorties,
            by_id: sorties.iter().map(|sortie| (sortie.id, sortie)).collect(),
            settled: settled.map(|sortie| sortie.id).collect(),
            locks,
            me,
        }
    }

    /// The sorties that are neither completed nor left out.
    pub(crate) fn open(&self) -> impl Iterator<Item = &'a Sortie> {
        let open = |sortie: &&Sortie| !sortie.status.is_settled();
        self.sorties.iter().filter(open)
    }

    /// Returns true when a sortie can be claimed now: it is free, or assigned to the asking agent, nothing that it
    /// depends on is missing, and no other agent has locked its files.
    pub(crate) fn is_ready(&self, sortie: &Sortie) -> bool {
        self.is_free(sortie) && self.missing(sortie).is_empty() && self.locked(sortie).is_empty()
    }

    /// Returns the obstacle that keeps a sortie that is not ready from being claimed.
    pub(crate) fn obstacle(&self, sortie: &'a Sortie) -> ClaimObstacle<'a> {
        if !self.is_free(sortie) {
            return match sortie.status {
                SortieStatus::Failed => ClaimObstacle::Failed,
                _ if self.me.is_some() && sortie.assigned_to == self.me => ClaimObstacle::Mine,
                _ => ClaimObstacle::Held,
            };
        }
        match self.missing(sortie) {
            missing if missing.is_empty() => ClaimObstacle::Locked(self.locked(sortie)),
            missing => ClaimObstacle::Waits(missing),
        }
    }

    fn is_free(&self, sortie: &Sortie) -> bool {
        match sortie.status {
            SortieStatus::Pending => true,
            SortieStatus::Assigned => self.me.is_some() && sortie.assigned_to == self.me,
            SortieStatus::InProgress
            | SortieStatus::Blocked
            | SortieStatus::Completed
            | SortieStatus::Failed
            | SortieStatus::Skipped => false,
        }
    }

    /// The sorties that have to be done first and are not.
    pub(crate) fn missing(&self, sortie: &Sortie) -> Vec<&'a Sortie> {
        let needed = sortie.depends_on.iter();
        let open = needed.filter(|id| !self.settled.contains(id));
        open.filter_map(|id| self.by_id.get(id).copied()).collect()
    }

    fn locked(&self, sortie: &'a Sortie) -> Vec<(&'a RepoPath, &'a Lock)> {
        let of = |file: &'a RepoPath| {
            let in_the_way = self.locks.iter().filter(|lock| file.overlaps(&lock.file));
            in_the_way.map(move |lock| (file, lock))
        };
        sortie.files.iter().flat_map(of).collect()
    }
}

impl ClaimObstacle<'_> {
    /// The end of a sentence that begins with the sortie.
    pub(crate) fn told(&self, ctx: &mut OpContext<'_, '_>, sortie: &Sortie) -> Result<String> {
        Ok(match self {
            Self::Waits(needed) => {
                let mut names = Vec::new();
                for needed in needed {
                    names.push(format!(
                        "{} (\"{}\"), which {}",
                        short(needed.id),
                        needed.title,
                        standing(ctx, needed)?
                    ));
                }
                format!("waits for {}", names.join(", and for "))
            }
            Self::Locked(files) => {
                let mut names = Vec::new();
                for (file, lock) in files {
                    let holder = ctx.agent_name(lock.held_by)?;
                    names.push(format!("{file}, which {holder} has locked"));
                }
                format!("needs {}", names.join(", and "))
            }
            Self::Held | Self::Mine | Self::Failed => standing(ctx, sortie)?,
        })
    }
}

/// Describes the status of a sortie, as the end of a sentence.
fn standing(ctx: &mut OpContext<'_, '_>, sortie: &Sortie) -> Result<String> {
    let owner = match sortie.assigned_to {
        Some(owner) => ctx.agent_name(owner)?,
        None => "nobody".to_owned(),
    };
    Ok(match sortie.status {
        SortieStatus::Pending => "is pending".to_owned(),
        SortieStatus::Assigned => format!("is assigned to {owner}"),
        SortieStatus::InProgress => format!("is in progress ({owner})"),
        SortieStatus::Blocked => match &sortie.blocked_reason {
            Some(reason) => format!("is blocked ({owner}): {reason}"),
            None => format!("is blocked ({owner})"),
        },
        SortieStatus::Completed => "is completed".to_owned(),
        SortieStatus::Failed => {
            let again = format!("`fleet sorties release {}`", short(sortie.id));
            format!("failed; {again} allows a retry")
        }
        SortieStatus::Skipped => "is left out".to_owned(),
    })
}
