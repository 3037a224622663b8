//! The recovery context of a mission as it is now: the sorties that it is about, the agents that have them, and the last act.

use std::collections::BTreeSet;
use std::sync::Arc;

use flightline_core::agent::Agent;
use flightline_core::event::Event;
use flightline_core::mission::Mission;
use flightline_core::recovery::{RecoveryContext, RecoveryInput, recovery_context};
use flightline_core::sortie::{Sortie, SortieError, SortieFile, SortieStatus};
use flightline_core::{AgentId, Kind, SortieId};
use flightline_store::Find;

use crate::error::Result;
use crate::op_context::OpContext;
use crate::recovery::undone::Undone;

/// Number of pending sorties that are considered for the next steps.
const PENDING_LOOKED_AT: u64 = 50;

/// Number of past acts that are read at once.
const WORK_LOOKED_AT: u64 = 64;

/// Number of sorties up to which all are read at once; of more, only those that are considered.
const READ_AT_ONCE: u64 = 200;

pub(crate) fn context(
    ctx: &mut OpContext<'_, '_>,
    mission: &Mission,
    blockers: Vec<String>,
) -> Result<RecoveryContext> {
    let LookedAt {
        mut sorties,
        settled,
        settled_count,
    } = looked_at(ctx, mission)?;
    let last_event = last_standing_act(ctx, mission)?;
    // The sortie that was acted on last is named, even when it is completed by now.
    if let Some(event) = &last_event
        && let Some(id) = event
            .subject
            .split('/')
            .next()
            .filter(|id| id.starts_with(SortieId::PREFIX))
        && !sorties.iter().any(|sortie| sortie.id.to_string() == id)
    {
        sorties.extend(ctx.tx.get_shared::<Sortie>(id)?);
    }
    let agents = owners(ctx, &sorties)?;
    let held = sorties.iter().filter(|sortie| sortie.status.is_held());
    let holders: BTreeSet<AgentId> = held.filter_map(|sortie| sortie.assigned_to).collect();
    let of: Vec<AgentId> = holders.iter().copied().collect();
    let holders: BTreeSet<String> = holders.iter().map(ToString::to_string).collect();
    let pulses = ctx.tx.pulses_of(&of)?.into_iter();
    let last_pulse = pulses
        .filter(|pulse| holders.contains(&pulse.agent))
        .map(|pulse| pulse.at)
        .max();
    let situation = RecoveryInput {
        mission,
        sorties: &sorties.iter().map(AsRef::as_ref).collect::<Vec<_>>(),
        settled: &settled,
        settled_count,
        progress: ctx.progress(mission.id)?,
        files: &ctx.tx.find::<SortieFile>(Find::Mission(mission.id))?,
        errors: &ctx.tx.find::<SortieError>(Find::Mission(mission.id))?,
        notes: &crate::note::of_mission(ctx, mission.id)?,
        agents: &agents.iter().map(AsRef::as_ref).collect::<Vec<_>>(),
        last_event: last_event.as_ref(),
        last_pulse,
        blockers,
        now: ctx.now(),
    };
    Ok(recovery_context(&situation))
}

/// The sorties that the recovery context of a mission is about.
#[derive(Default)]
struct LookedAt {
    /// Sorties that are held or failed, and the first pending ones, oldest first.
    sorties: Vec<Arc<Sortie>>,
    /// Settled sorties, as far as one of `sorties` could wait for them.
    settled: BTreeSet<SortieId>,
    /// Number of settled sorties in all.
    settled_count: u64,
}

fn looked_at(ctx: &mut OpContext<'_, '_>, mission: &Mission) -> Result<LookedAt> {
    let of = Find::Mission(mission.id);
    let counts = ctx.tx.counts(Kind::Sortie, of)?;
    let settled = |word: &str| SortieStatus::from_word(word).is_some_and(SortieStatus::is_settled);
    let of_settled = counts.iter().filter(|(status, _)| settled(status));
    let settled_count = of_settled.map(|(_, count)| count).sum();
    let total: u64 = counts.iter().map(|(_, count)| count).sum();
    let mut found = LookedAt {
        settled_count,
        ..LookedAt::default()
    };
    if total <= READ_AT_ONCE {
        let mut waiting = 0;
        let mut is_looked_at = |status: SortieStatus| {
            waiting += u64::from(status == SortieStatus::Pending);
            status != SortieStatus::Pending || waiting <= PENDING_LOOKED_AT
        };
        match ctx.tx.find_shared::<Sortie>(of) {
            Ok(all) => {
                for sortie in all {
                    if sortie.status.is_settled() {
                        found.settled.insert(sortie.id);
                    } else if is_looked_at(sortie.status) {
                        found.sorties.push(sortie);
                    }
                }
            }
            // The damaged sortie may be one that is not looked at. Those that are looked at are read one by one.
            Err(flightline_store::StoreError::Corrupt(_)) => {
                for row in ctx.tx.rows(Kind::Sortie, of)? {
                    match SortieStatus::from_word(&row.status) {
                        Some(status) if status.is_settled() => {
                            found.settled.insert(row.typed_id()?);
                        }
                        Some(status) if is_looked_at(status) => {
                            found.sorties.extend(ctx.tx.get_shared::<Sortie>(&row.id)?);
                        }
                        Some(_) | None => {}
                    }
                }
            }
            Err(error) => return Err(error.into()),
        }
        return Ok(found);
    }
    let mut rows = Vec::new();
    for status in SortieStatus::ALL.into_iter().filter(|it| !it.is_settled()) {
        let most = match status {
            SortieStatus::Pending => PENDING_LOOKED_AT,
            _ => u64::MAX,
        };
        let (kind, word) = (Kind::Sortie, status.as_str());
        rows.extend(ctx.tx.rows_of_status(kind, mission.id, word, most)?);
    }
    rows.sort_by(|a, b| (a.born, &a.id).cmp(&(b.born, &b.id)));
    for row in rows {
        found.sorties.extend(ctx.tx.get_shared::<Sortie>(&row.id)?);
    }
    let waited_for: BTreeSet<SortieId> = found
        .sorties
        .iter()
        .flat_map(|sortie| sortie.depends_on.iter().copied())
        .collect();
    for id in waited_for {
        let status = ctx.tx.status_of(Kind::Sortie, &id.to_string())?;
        if status.is_some_and(|status| settled(&status)) {
            found.settled.insert(id);
        }
    }
    Ok(found)
}

/// The agents that have, or had, one of these sorties, oldest first.
fn owners(ctx: &mut OpContext<'_, '_>, sorties: &[Arc<Sortie>]) -> Result<Vec<Arc<Agent>>> {
    let ids: BTreeSet<AgentId> = sorties.iter().filter_map(|it| it.assigned_to).collect();
    let mut owners = Vec::with_capacity(ids.len());
    for id in ids {
        owners.extend(ctx.tx.get_shared::<Agent>(id)?);
    }
    owners.sort_by_key(|agent| (agent.created_at, agent.id));
    Ok(owners)
}

/// The last act of an agent or a person on a mission, not Flightline's own checkpointing, notifying or detecting. An
/// act that a document tells of happened when the document says.
pub(crate) fn last_act(ctx: &mut OpContext<'_, '_>, mission: &Mission) -> Result<Option<Event>> {
    let Some(newest) = ctx.tx.newest_work(mission.id, is_act)?.event else {
        return Ok(None);
    };
    // An event that was recorded before a document was imported may have happened after the events of the document.
    let (mut rev, mut recorded_at, mut last) = (newest.rev, newest.timestamp, newest);
    while last.happened_at() < recorded_at {
        let work = ctx.tx.work_before(mission.id, rev, WORK_LOOKED_AT)?;
        let Some(oldest) = work.last() else { break };
        (rev, recorded_at) = (oldest.rev, oldest.timestamp);
        for act in work.into_iter().filter(is_act) {
            if act.happened_at() > last.happened_at() {
                last = act;
            }
        }
    }
    Ok(Some(last))
}

/// The newest act that no rewind left behind.
pub(crate) fn last_standing_act(
    ctx: &mut OpContext<'_, '_>,
    mission: &Mission,
) -> Result<Option<Event>> {
    if mission.timeline == 0 {
        return last_act(ctx, mission);
    }
    let undone = Undone::of(ctx, mission.id)?;
    let stands = |event: &Event| is_act(event) && undone.at(event.rev).is_none();
    Ok(ctx.tx.newest_work(mission.id, stands)?.event)
}

/// Returns true when an event is the act of an agent or a person, not of a mailbox.
fn is_act(event: &Event) -> bool {
    event.is_work()
        && event.subject_kind != Kind::Delivery
        && !(event.subject_kind == Kind::Message && tells_progress(event))
}

/// Returns true when a message only tells of a report. In older journals only seed B's words say so.
fn tells_progress(event: &Event) -> bool {
    let subject = event.data["subject"].as_str();
    event.is_bookkeeping() || subject.is_some_and(|it| it.starts_with("@orchestrator"))
}
