//! Ids as people read them, and the names of things.

use crate::Schema;
use std::collections::{BTreeMap, BTreeSet};

use flightline_core::Kind;
use flightline_core::id::{WHOLE, shortest_unique};
use flightline_store::{Find, Neighbours};
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::fleet::{Access, ActsFor, Operation, Scope};
use crate::op_context::OpContext;
use crate::sortie::task_ids;

/// Lists every id of some kinds, so that ids can be shortened or completed.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct ListIds {
    /// The kinds of subject whose ids are listed.
    pub kinds: Vec<Kind>,
}

/// Every id of each kind, in byte order.
#[derive(Clone, Debug, Default, Serialize, Deserialize, Schema)]
pub struct IdList {
    /// The ids by kind.
    pub ids: BTreeMap<Kind, Vec<String>>,
}

impl Operation for ListIds {
    const NAME: &'static str = "list_ids";
    const ACCESS: Access = Access::Read;
    const SCOPE: Scope = Scope::Read;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = IdList;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<IdList> {
        let ids = self
            .kinds
            .iter()
            .map(|kind| Ok((*kind, ctx.tx.ids(*kind)?)))
            .collect::<Result<_>>()?;
        Ok(IdList { ids })
    }
}

/// Returns the shortest unique beginning of each of these ids, so that people can read and type it.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct ShortenIds {
    /// The ids, or beginnings of ids, of any kind.
    pub ids: BTreeSet<String>,
}

/// The short forms of ids, as people read them.
#[derive(Clone, Debug, Default, Serialize, Deserialize, Schema)]
pub struct ShortIds {
    /// The shortest beginning that no other id of its kind shares, by what was asked about. A beginning that fits no id, or
    /// several, is not among them.
    pub short: BTreeMap<String, String>,
}

impl Operation for ShortenIds {
    const NAME: &'static str = "shorten_ids";
    const ACCESS: Access = Access::Read;
    const SCOPE: Scope = Scope::Read;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = ShortIds;

    /// Looks at the neighbours of each id, and not at all ids there are.
    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<ShortIds> {
        let mut by_kind: BTreeMap<Kind, Vec<&str>> = BTreeMap::new();
        for id in &self.ids {
            if let Some(kind) = Kind::of_id(id) {
                by_kind.entry(kind).or_default().push(id);
            }
        }
        let mut short = BTreeMap::new();
        for (kind, ids) in by_kind {
            ctx.tx.neighbours(kind, &ids, |asked, beside| {
                if let Some(beginning) = shortened(asked, beside) {
                    short.insert(asked.to_owned(), beginning.to_owned());
                }
            })?;
        }
        Ok(ShortIds { short })
    }
}

/// The shortest unique beginning of the one id that is meant. A whole id is meant whether or not it is still there.
fn shortened<'a>(asked: &'a str, beside: Neighbours<'a>) -> Option<&'a str> {
    let fits = beside
        .from
        .iter()
        .flatten()
        .filter(|id| id.starts_with(asked));
    let meant = match (fits.count(), asked.len()) {
        (1, _) => beside.from[0]?,
        (0, WHOLE) => asked,
        _ => return None,
    };
    let beside = beside
        .before
        .into_iter()
        .chain(beside.from.into_iter().flatten());
    Some(shortest_unique(meant, &beside.collect::<Vec<_>>()))
}

/// Lists the names of the things of a kind, so that a shell can complete them.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct ListNames {
    /// The kind of subject whose names are listed.
    pub kind: Kind,
    /// Maximum number of entries.
    pub limit: usize,
}

impl Operation for ListNames {
    const NAME: &'static str = "list_names";
    const ACCESS: Access = Access::Read;
    const SCOPE: Scope = Scope::Read;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = Vec<(String, String)>;

    /// Ids and names, newest first; a sortie that has a task id can be called by that, too.
    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<Vec<(String, String)>> {
        let mut tasks = BTreeMap::new();
        if self.kind == Kind::Sortie {
            for (sortie, task) in task_ids(ctx, None)? {
                tasks.insert(sortie.to_string(), task.to_string());
            }
        }
        let rows = ctx.tx.rows(self.kind, Find::All)?.into_iter().rev();
        let named = rows.flat_map(|row| {
            let name = row.name.unwrap_or_default();
            let task = tasks.remove(&row.id).map(|task| (task, name.clone()));
            task.into_iter().chain([(row.id, name)])
        });
        Ok(named.take(self.limit).collect())
    }
}
