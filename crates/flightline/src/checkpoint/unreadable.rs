//! Checkpoints whose record is damaged: the facts that the journal still has of them, and their removal.

use flightline_core::checkpoint::{Checkpoint, CheckpointStatus, Reason, Trigger};
use flightline_core::event::{Change, EventType};
use flightline_core::id::Typed;
use flightline_core::{CheckpointId, Code, Keys, Kind, MissionId, Refusal, Subject};
use flightline_store::{Find, SubjectRow};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::inspect::{CheckpointMark, CheckpointSummary, unreadable};
use super::{readable, tree};
use crate::error::Result;
use crate::mission::short;
use crate::op_context::OpContext;

/// Maximum number of events of one checkpoint that are read: it is taken, backed up and marked.
const EVENTS: u64 = 1_000;

/// A checkpoint of which only the name is known: enough to remove it.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Nameless {
    id: CheckpointId,
    mission_id: MissionId,
}

impl Subject for Nameless {
    const KIND: Kind = Kind::Checkpoint;

    fn key(&self) -> String {
        self.id.to_string()
    }

    fn keys(&self) -> Keys {
        Keys {
            mission: Some(self.mission_id),
            status: CheckpointStatus::Corrupted.as_str(),
            ..Keys::default()
        }
    }
}

/// Marks a checkpoint whose record cannot be read. It can only be deleted, and goes with its damaged text.
pub(super) fn mark(
    ctx: &mut OpContext<'_, '_>,
    reference: &str,
    mark: &CheckpointMark,
) -> Result<CheckpointSummary> {
    let typed = Typed::parse(reference, CheckpointId::PREFIX)?;
    let ids = ctx
        .tx
        .ids_between(Kind::Checkpoint, &typed.beginning, &typed.end())?;
    let (_, damaged) = readable::<Checkpoint>(ctx.tx, Find::All)?;
    let row = damaged.into_iter().find(|row| ids.contains(&row.id));
    let Some(row) = row else {
        return Err(Refusal::new(
            Code::NotFound,
            format!("there is no checkpoint `{reference}`"),
        )
        .into());
    };
    if !matches!(mark, CheckpointMark::Delete) {
        let id = short(&row.id);
        return Err(Refusal::new(Code::Integrity, unreadable(&row.id))
            .hint(format!(
                "repair it from its file with `fleet doctor --fix`; if that has none: `fleet checkpoints delete {id} -y`"
            ))
            .into());
    }
    let summary = summary_of(ctx, &row)?;
    let nameless = Nameless {
        id: summary.id,
        mission_id: summary.mission_id,
    };
    let set: Vec<u64> = ctx
        .tx
        .events_of(Kind::Checkpoint, &row.id, EVENTS)?
        .into_iter()
        .filter(|event| event.change == Change::Set)
        .map(|event| event.rev)
        .collect();
    let data = json!({ "checkpoint_id": nameless.id, "unreadable": true });
    ctx.tx
        .remove(EventType::CheckpointDeleted, &nameless, &data)?;
    ctx.tx.forget_backup(nameless.id)?;
    tree::forget(ctx, nameless.id)?;
    // The text of the checkpoint is unreadable, and would be reported as damage for ever.
    ctx.tx.thin(&set)?;
    Ok(summary)
}

/// The list's entry for a checkpoint whose record cannot be read: from the event that took it.
pub(super) fn summary_of(
    ctx: &mut OpContext<'_, '_>,
    row: &SubjectRow,
) -> Result<CheckpointSummary> {
    let events = ctx.tx.events_of(Kind::Checkpoint, &row.id, EVENTS)?;
    let taken = events
        .iter()
        .find(|event| event.is(EventType::FleetCheckpointed));
    let told = taken.map_or(&Value::Null, |event| &event.data);
    let percent = told["progress_percent"].as_u64().unwrap_or(0);
    Ok(CheckpointSummary {
        id: row.typed_id()?,
        mission_id: row.mission.as_deref().unwrap_or_default().parse()?,
        timestamp: taken.map_or(row.at, |event| event.timestamp),
        trigger: Trigger::deserialize(&told["trigger"]).unwrap_or(Trigger::Manual),
        reason: Reason::deserialize(&told["reason"])
            .unwrap_or(Reason::Manual)
            .as_str()
            .to_owned(),
        trigger_details: None,
        progress_percent: u8::try_from(percent).unwrap_or(100),
        sortie_count: told["sortie_count"].as_u64().unwrap_or(0),
        status: CheckpointStatus::Corrupted,
        pinned: false,
        note: None,
    })
}
