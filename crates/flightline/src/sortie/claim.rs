//! Taking a sortie: compare and set, so that exactly one agent wins.

use flightline_core::lock::Lock;
use flightline_core::sortie::{Sortie, SortieStatus};
use flightline_core::{Code, Refusal, SortieId};
use flightline_store::Find;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::SortieView;
use super::change::{check_move, refuse_open_errors};
use super::recovered::{Locking, taken_up};
use crate::checkpoint::milestone::catch_up;
use crate::desk::Desk;
use crate::error::Result;
use crate::fleet::{Access, ActsFor, Operation, Scope};
use crate::lock::grant_all;
use crate::mission::{begin_if_pending, short};

/// Takes a sortie for the acting agent and begins it.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClaimSortie {
    /// Which.
    pub sortie: String,
    /// Whether to lock its files too; if one cannot be locked, nothing is claimed.
    #[serde(default)]
    pub lock: bool,
}

/// Takes the next sortie that is ready.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClaimNext {
    /// Of which mission; the current one when none is named.
    pub mission: Option<String>,
    /// Whether to lock its files too.
    #[serde(default)]
    pub lock: bool,
}

impl Operation for ClaimSortie {
    const NAME: &'static str = "claim_sortie";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Agent;
    type Outcome = SortieView;

    fn acts_for(&self) -> ActsFor<'_> {
        ActsFor::Caller
    }

    fn decide(&self, desk: &mut Desk<'_, '_>) -> Result<SortieView> {
        let sortie = desk.sortie(&self.sortie)?;
        let agent = desk.acting()?.clone();
        if sortie.assigned_to == Some(agent.id) && sortie.status == SortieStatus::InProgress {
            // Asking twice is harmless.
            return taken_up(desk, sortie, Locking::No);
        }
        if let Some(owner) = sortie
            .assigned_to
            .filter(|owner| sortie.status.is_held() && *owner != agent.id)
        {
            let owner = desk.agent_name(owner)?;
            return Err(Refusal::new(
                Code::AlreadyTaken,
                format!("{} (\"{}\") is {owner}'s", short(sortie.id), sortie.title),
            )
            .hint("take the next free one with `fleet sorties claim --next`")
            .details(json!({ "owner": owner }))
            .into());
        }
        if sortie.status == SortieStatus::Blocked {
            // Its owner cannot slip past an error by claiming anew.
            refuse_open_errors(desk, &sortie)?;
        }
        refuse_waiting(desk, &sortie)?;
        take(desk, sortie, self.lock)
    }
}

impl Operation for ClaimNext {
    const NAME: &'static str = "claim_next";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Agent;
    type Outcome = SortieView;

    fn acts_for(&self) -> ActsFor<'_> {
        ActsFor::Caller
    }

    fn decide(&self, desk: &mut Desk<'_, '_>) -> Result<SortieView> {
        let agent = desk.acting()?.id;
        let mission = desk.mission(self.mission.as_deref())?;
        let locks = desk.tx.find::<Lock>(Find::All)?;
        let others: Vec<Lock> = locks
            .into_iter()
            .filter(|lock| lock.held_by != agent)
            .collect();
        // One query for all of them: a round trip for each would make a large mission wait.
        let sorties = desk.tx.find::<Sortie>(Find::Mission(mission.id))?;
        let settled: std::collections::HashSet<SortieId> = sorties
            .iter()
            .filter(|sortie| sortie.status.is_settled())
            .map(|sortie| sortie.id)
            .collect();
        // Work given to this agent goes before work that is free.
        let mut best: Option<(bool, i32, u64, Sortie)> = None;
        let (mut waiting, mut locked) = (0, 0);
        for sortie in sorties {
            let mine = sortie.status == SortieStatus::Assigned && sortie.assigned_to == Some(agent);
            if sortie.status != SortieStatus::Pending && !mine {
                continue;
            }
            if !sortie
                .depends_on
                .iter()
                .all(|needed| settled.contains(needed))
            {
                waiting += 1;
                continue;
            }
            if others
                .iter()
                .any(|lock| sortie.files.iter().any(|file| file.overlaps(&lock.file)))
            {
                locked += 1;
                continue;
            }
            let rank = (mine, sortie.priority, u64::MAX - sortie.position);
            if best
                .as_ref()
                .is_none_or(|(mine, priority, place, _)| rank > (*mine, *priority, *place))
            {
                best = Some((rank.0, rank.1, rank.2, sortie));
            }
        }
        match best {
            Some((_, _, _, sortie)) => take(desk, sortie, self.lock),
            None => Err(Refusal::new(
                Code::NothingReady,
                format!("no sortie of {} (\"{}\") is ready", short(mission.id), mission.title),
            )
            .hint(format!("{waiting} wait for others, {locked} need files that others have locked; see `fleet sorties list`"))
            .details(json!({ "waiting": waiting, "locked": locked }))
            .into()),
        }
    }
}

fn take(desk: &mut Desk<'_, '_>, mut sortie: Sortie, lock: bool) -> Result<SortieView> {
    check_move(&sortie, SortieStatus::InProgress, "claim")?;
    if sortie.status == SortieStatus::Completed {
        return Err(Refusal::new(
            Code::IllegalTransition,
            format!(
                "cannot claim {} (\"{}\"): it is completed",
                short(sortie.id),
                sortie.title
            ),
        )
        .hint(
            "if it must be done again, send it back with `fleet sorties reject ID --reason \"…\"`",
        )
        .into());
    }
    begin_if_pending(desk, sortie.mission_id)?;
    let (agent, now, from) = (desk.acting()?.clone(), desk.now(), sortie.status);
    sortie.status = SortieStatus::InProgress;
    sortie.assigned_to = Some(agent.id);
    sortie.assigned_epoch = Some(agent.epoch);
    sortie.assigned_at = Some(now);
    sortie.started_at.get_or_insert(now);
    sortie.blocked_reason = None;
    sortie.failure = None;
    sortie.attempts += 1;
    sortie.updated_at = now;
    desk.tx.set(
        "sortie_claimed",
        &sortie,
        &json!({ "from": from.as_str(), "attempt": sortie.attempts }),
    )?;
    if lock && !sortie.files.is_empty() {
        let (files, purpose) = (sortie.files.clone(), Some(sortie.title.clone()));
        grant_all(desk, &files, purpose, None, Some(&sortie), &[])?;
    }
    let mission = sortie.mission_id;
    let view = taken_up(desk, sortie, Locking::Again)?;
    catch_up(desk, mission)?;
    Ok(view)
}

/// Refuses to begin a sortie that depends on one that is neither completed nor left out.
pub(crate) fn refuse_waiting(desk: &mut Desk<'_, '_>, sortie: &Sortie) -> Result<()> {
    for needed in &sortie.depends_on {
        let Some(needed) = desk.tx.get::<Sortie>(&needed.to_string())? else {
            continue;
        };
        if !needed.status.is_settled() {
            return Err(Refusal::new(
                Code::IllegalTransition,
                format!(
                    "{} (\"{}\") waits for {} (\"{}\"), which is {}",
                    short(sortie.id),
                    sortie.title,
                    short(needed.id),
                    needed.title,
                    needed.status.as_str()
                ),
            )
            .hint("take the next ready one with `fleet sorties claim --next`")
            .into());
        }
    }
    Ok(())
}
