//! Compares two checkpoints, field by field.

use crate::Schema;
use std::collections::BTreeMap;

use flightline_core::{Kind, Refusal};
use flightline_store::StoredEvent;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::checkpoint::{find, load};
use crate::error::Result;
use crate::fleet::{Access, ActsFor, Operation, Scope};
use crate::op_context::OpContext;

/// Compares two checkpoints, or a checkpoint with the current state.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
pub struct DiffCheckpoints {
    /// The earlier checkpoint.
    pub a: String,
    /// The later checkpoint; the current state when none is named.
    pub b: Option<String>,
}

/// A subject that differs between two states.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
pub struct Difference {
    /// The kind of the subject.
    pub kind: Kind,
    /// The id of the subject.
    pub id: String,
    /// The kind of difference: `added`, `removed` or `changed`.
    pub change: String,
    /// The fields that differ, before and after.
    pub fields: BTreeMap<String, (Value, Value)>,
}

impl Operation for DiffCheckpoints {
    const NAME: &'static str = "diff_checkpoints";
    const ACCESS: Access = Access::Read;
    const SCOPE: Scope = Scope::Read;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = Vec<Difference>;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<Vec<Difference>> {
        let a = find(ctx, &self.a)?;
        let before = load(ctx, &a)?.values;
        let after = match &self.b {
            Some(reference) => {
                let b = find(ctx, reference)?;
                if b.cut.mission_id != a.cut.mission_id {
                    return Err(Refusal::invalid(
                        "the two checkpoints belong to different missions",
                    )
                    .into());
                }
                load(ctx, &b)?.values
            }
            None => {
                let rev = ctx.tx.rev();
                ctx.tx.values_at(rev, a.cut.mission_id)?
            }
        };
        Ok(differences(&before, &after))
    }
}

/// Returns the differences between two states, in order of kind and id.
pub(crate) fn differences(before: &[StoredEvent], after: &[StoredEvent]) -> Vec<Difference> {
    let index = |values: &'_ [StoredEvent]| -> Vec<((Kind, String), String)> {
        values
            .iter()
            .map(|value| ((value.kind, value.id.clone()), value.text.clone()))
            .collect()
    };
    let (before, after): (BTreeMap<_, _>, BTreeMap<_, _>) = (
        index(before).into_iter().collect(),
        index(after).into_iter().collect(),
    );
    let mut found = Vec::new();
    let mut keys: Vec<&(Kind, String)> = before.keys().chain(after.keys()).collect();
    keys.sort();
    keys.dedup();
    for key in keys {
        let (was, is) = (before.get(key), after.get(key));
        let change = match (was, is) {
            (Some(was), Some(is)) if was == is => continue,
            (Some(_), Some(_)) => "changed",
            (None, _) => "added",
            (_, None) => "removed",
        };
        found.push(Difference {
            kind: key.0,
            id: key.1.clone(),
            change: change.to_owned(),
            fields: fields(was, is),
        });
    }
    found
}

fn fields(was: Option<&String>, is: Option<&String>) -> BTreeMap<String, (Value, Value)> {
    let read = |text: Option<&String>| {
        text.and_then(|text| serde_json::from_str::<Value>(text).ok())
            .unwrap_or(Value::Null)
    };
    let (was, is) = (read(was), read(is));
    let names = [&was, &is]
        .into_iter()
        .filter_map(Value::as_object)
        .flat_map(|fields| fields.keys().cloned());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names.dedup();
    names
        .into_iter()
        .filter(|name| was[name.as_str()] != is[name.as_str()] && name != "updated_at")
        .map(|name| {
            (
                name.clone(),
                (was[name.as_str()].clone(), is[name.as_str()].clone()),
            )
        })
        .collect()
}
