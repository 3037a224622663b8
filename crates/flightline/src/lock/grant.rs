//! Grants locks: all that are requested or none. Locks of silent holders are reclaimed on the way.

use super::{AcquireLocks, LockView, view, watch};
use crate::agent::{Sighting, last_sign, look_around, sight};
use crate::checkpoint::trigger::{own_mission, record_failure};
use crate::error::Result;
use crate::fleet::{Caller, Fleet};
use crate::mission::short;
use crate::note::failure::settle_locks;
use crate::op_context::OpContext;
use flightline_core::agent::Agent;
use flightline_core::checkpoint::Reason;
use flightline_core::event::EventType;
use flightline_core::liveness::ProcessSight;
use flightline_core::lock::Lock;
use flightline_core::mission::Mission;
use flightline_core::note::Failure;
use flightline_core::shell::shell_text;
use flightline_core::sortie::Sortie;
use flightline_core::text::NoteText;
use flightline_core::time::{Millis, human_span};
use flightline_core::{Code, LockId, MissionId, Refusal, RepoPath, Time, Title};
use flightline_store::Find;
use serde_json::json;
use std::time::{Duration, Instant};

/// Takes locks, and waits for them when others hold them: at most `wait`, calling `pause` between tries. Looks for the
/// processes of holders on this machine, so that a dead holder keeps no agent waiting. Refuses when they are still held in
/// the end.
pub fn acquire(
    fleet: &mut Fleet,
    request: &AcquireLocks,
    caller: &Caller,
    wait: Duration,
    pause: &mut dyn FnMut(Duration),
) -> Result<Vec<LockView>> {
    let began = Instant::now();
    let mut request = request.clone();
    let mut looked = false;
    loop {
        let refusal = match fleet.run(&request, caller) {
            Err(crate::Error::Refused(refusal)) if refusal.code == Code::LockHeld => refusal,
            result => return result,
        };
        let seen = look_around(fleet)?;
        if !looked && !seen.is_empty() {
            looked = true;
            request.sightings = seen;
            continue;
        }
        request.sightings = seen;
        let left = wait.saturating_sub(began.elapsed());
        if left.is_zero() && wait.is_zero() {
            return Err((*refusal).into());
        }
        if left.is_zero() {
            let waited = human_span(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
            let message = format!("timed out after {waited}: {}", refusal.message);
            let details = NoteText::parse("details", &message)?;
            let files = request.paths.clone();
            let failure = (details, Failure::LockTimeout { files });
            record_failure(fleet, caller, None, Reason::LockTimeout, failure);
            return Err(Refusal {
                message,
                ..*refusal
            }
            .into());
        }
        pause(left.min(Duration::from_millis(200)));
    }
}

/// Grants all of `paths` to the acting agent, or none. A lock of its own is granted anew, with a new fence, and as
/// another lock when it is for work in another mission now; one of an agent that is dead or has been silent for too long
/// is reclaimed. A lock for no sortie belongs to the mission its holder works in, else to the current one.
pub(crate) fn grant_all(
    ctx: &mut OpContext<'_, '_>,
    paths: &[RepoPath],
    purpose: Option<Title>,
    ttl_ms: Option<Millis>,
    sortie: Option<&Sortie>,
    sightings: &[Sighting],
) -> Result<Vec<LockView>> {
    let agent = ctx.acting()?.clone();
    let work = match sortie {
        Some(sortie) => Some(sortie.mission_id),
        None => own_mission(ctx)?.map(|mission| mission.id),
    };
    let mut held = ctx.tx.find::<Lock>(Find::All)?;
    let in_the_way = watch::in_the_way(&held, paths, |lock| lock.held_by != agent.id);
    let mut granted = Vec::new();
    for path in paths {
        if granted
            .iter()
            .any(|view: &LockView| view.lock.file.is_same(path))
        {
            // Named twice: a second grant would void the fence of the first.
            continue;
        }
        // A folder may overlap several locks; each must go, or nothing is granted.
        while let Some(at) = held
            .iter()
            .position(|lock| lock.file.overlaps(path) && lock.held_by != agent.id)
        {
            let lock = held.remove(at);
            reclaim(ctx, &lock, path, sightings)?.map_err(|refusal| {
                // An agent that waits for one of these locks waits for all of them.
                watch::name_those_in_the_way(refusal, &in_the_way)
            })?;
        }
        let own = held
            .iter()
            .position(|lock| lock.file.is_same(path) && lock.held_by == agent.id)
            .map(|at| held.remove(at));
        let mission_id = match work {
            Some(mission) => Some(mission),
            None => mission_of_no_work(ctx, own.as_ref())?,
        };
        let id = match own {
            Some(own) if own.mission_id == mission_id => {
                ctx.tx.end_watch(own.id)?;
                own.id
            }
            Some(own) => {
                // A lock belongs to one mission for good: checkpoints of both name their own locks.
                let data = json!({ "file": own.file, "fence": own.fence, "reason": "taken for another mission" });
                ctx.tx.remove(EventType::LockReleased, &own, &data)?;
                LockId::new(ctx.tx.uuid())
            }
            None => LockId::new(ctx.tx.uuid()),
        };
        let lock = Lock {
            id,
            file: path.clone(),
            held_by: agent.id,
            epoch: agent.epoch,
            fence: ctx.tx.next_rev(),
            sortie_id: sortie.map(|sortie| sortie.id),
            mission_id,
            purpose: purpose.clone(),
            timeout_ms: ttl_ms.unwrap_or(ctx.policy.lock_ttl_ms),
            acquired_at: ctx.now(),
        };
        ctx.tx.set(
            EventType::LockAcquired,
            &lock,
            &json!({ "file": lock.file, "fence": lock.fence }),
        )?;
        held.push(lock.clone());
        granted.push(view(ctx, lock)?);
    }
    let files = granted.iter().map(|view| &view.lock.file);
    settle_locks(ctx, agent.id, files)?;
    Ok(granted)
}

/// The mission of a lock whose holder has no work: the one it belongs to already, as long as that is open, else the
/// current one.
fn mission_of_no_work(
    ctx: &mut OpContext<'_, '_>,
    own: Option<&Lock>,
) -> Result<Option<MissionId>> {
    if let Some(mission) = own.and_then(|own| own.mission_id)
        && let Some(known) = ctx.tx.get::<Mission>(mission)?
        && known.status.is_open()
    {
        return Ok(Some(mission));
    }
    Ok(ctx.current_mission()?.map(|mission| mission.id))
}

/// Takes a lock from a holder that is dead or silent for too long; refuses when it is neither.
fn reclaim(
    ctx: &mut OpContext<'_, '_>,
    lock: &Lock,
    wanted: &RepoPath,
    sightings: &[Sighting],
) -> Result<std::result::Result<(), Refusal>> {
    let Some(holder) = ctx.tx.get::<Agent>(lock.held_by)? else {
        ctx.tx.remove(
            EventType::LockReclaimed,
            lock,
            &json!({ "file": lock.file, "reason": "its holder is unknown" }),
        )?;
        return Ok(Ok(()));
    };
    let pulse = ctx.tx.pulse(holder.id)?;
    let sign = last_sign(ctx, &holder, pulse.as_ref());
    let since = watch::silent_since(ctx, lock, sign)?;
    let seen = sight(ctx, &holder, sightings);
    let reason = match seen {
        ProcessSight::Gone { pid } if lock.epoch == holder.epoch => {
            Some(format!("process {pid} of {} is gone", holder.name))
        }
        // A process that runs may be frozen: it keeps a lock for no longer than the time to live.
        ProcessSight::Alive { .. } | ProcessSight::Gone { .. } | ProcessSight::Unknown => {
            lock.has_lapsed(since, ctx.now()).then(|| {
                format!(
                    "{} gave no sign of life for {}",
                    holder.name,
                    human_span(ctx.now().since(since))
                )
            })
        }
    };
    // The sign may have come while we looked: the pulse is held, or the holder is alive after all.
    let holds = match (&reason, &pulse) {
        (Some(_), Some(pulse)) => ctx.tx.hold_pulse(holder.id, pulse.at)?,
        (Some(_), None) => true,
        (None, _) => false,
    };
    match reason.filter(|_| holds) {
        Some(reason) => {
            ctx.tx.remove(
                EventType::LockReclaimed,
                lock,
                &json!({ "file": lock.file, "fence": lock.fence, "from": holder.name, "sortie": lock.sortie_id, "reason": reason }),
            )?;
            Ok(Ok(()))
        }
        None => Ok(Err(held_by_another(ctx, lock, &holder, sign, wanted))),
    }
}

fn held_by_another(
    ctx: &OpContext<'_, '_>,
    lock: &Lock,
    holder: &Agent,
    sign: Option<Time>,
    wanted: &RepoPath,
) -> Refusal {
    let subject = if lock.file.is_same(wanted) {
        format!("`{wanted}` is locked")
    } else {
        format!("`{wanted}` overlaps `{}`, locked", lock.file)
    };
    let mut about = Vec::new();
    about.extend(lock.sortie_id.map(short));
    about.extend(
        lock.purpose
            .as_ref()
            .map(|purpose| format!("\"{purpose}\"")),
    );
    about.extend(sign.map(|sign| format!("last sign {} ago", human_span(ctx.now().since(sign)))));
    let about = if about.is_empty() {
        String::new()
    } else {
        format!(" ({})", about.join(", "))
    };
    Refusal::new(Code::LockHeld, format!("{subject} by {}{about}", holder.name))
        .hint(format!(
            "wait for it with `fleet locks acquire {} --wait 15m`\nor ask with `fleet mail send --to {} --subject {}`",
            wanted.as_word(),
            holder.name,
            shell_text(&format!("Need {wanted}"))
        ))
        .details(json!({
            "path": wanted, "locked": lock.file, "lock": lock.id, "holder": holder.name, "fence": lock.fence,
            "sortie": lock.sortie_id, "purpose": lock.purpose,
        }))
}
