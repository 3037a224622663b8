//! Finds the parts of the journal that rewinds left behind: they happened, and count for nothing in their mission any
//! more.

use std::collections::BTreeMap;

use flightline_core::setting::{Recovery, RecoveryKind};
use flightline_core::{CheckpointId, Kind, MissionId, Subject};
use flightline_store::Find;

use crate::checkpoint::readable;
use crate::error::Result;
use crate::op_context::OpContext;

/// The parts of the journal that the rewinds of a mission left behind, oldest rewind first.
pub(crate) struct Undone(Vec<Span>);

/// The events after a cut and before the mission went back to it.
struct Span {
    cut: u64,
    rewound: u64,
    to: CheckpointId,
}

impl Undone {
    /// Returns the spans of a mission that count no more. A rewind that was taken back left none.
    pub(crate) fn of(ctx: &mut OpContext<'_, '_>, mission: MissionId) -> Result<Self> {
        let rewinds = rewinds(ctx, mission)?;
        if rewinds.is_empty() {
            return Ok(Self(Vec::new()));
        }
        let rows = ctx.tx.rows(Kind::Recovery, Find::Mission(mission))?;
        let born: BTreeMap<String, u64> = rows.into_iter().map(|row| (row.id, row.born)).collect();
        let spans = rewinds.into_iter().filter_map(|rewind| {
            Some(Span {
                cut: rewind.cut_rev,
                rewound: *born.get(&rewind.key())?,
                to: rewind.checkpoint_id,
            })
        });
        Ok(Self(spans.collect()))
    }

    /// The checkpoint that the mission went back to from this revision; none when what happened there counts.
    pub(crate) fn at(&self, rev: u64) -> Option<CheckpointId> {
        let left = |span: &&Span| span.cut < rev && rev < span.rewound;
        self.0.iter().rfind(left).map(|span| span.to)
    }

    /// The last rewind: when it happened, and to which checkpoint.
    pub(crate) fn last(&self) -> Option<(u64, CheckpointId)> {
        self.0.last().map(|span| (span.rewound, span.to))
    }
}

/// The last rewind of a mission, unless it was taken back.
pub(crate) fn last_rewind(
    ctx: &mut OpContext<'_, '_>,
    mission: MissionId,
) -> Result<Option<Recovery>> {
    Ok(rewinds(ctx, mission)?.pop())
}

fn rewinds(ctx: &mut OpContext<'_, '_>, mission: MissionId) -> Result<Vec<Recovery>> {
    let (mut rewinds, _) = readable::<Recovery>(ctx.tx, Find::Mission(mission))?;
    rewinds.retain(|it| it.kind == RecoveryKind::Rewind && it.undone_at.is_none());
    Ok(rewinds)
}
