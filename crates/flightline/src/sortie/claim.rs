//! Claims a sortie: compare and set, so that exactly one agent wins.

use crate::Schema;
use std::time::{Duration, Instant};

use flightline_core::event::EventType;
use flightline_core::lock::Lock;
use flightline_core::mission::Mission;
use flightline_core::sortie::{Sortie, SortieStatus};
use flightline_core::time::human_span;
use flightline_core::{Code, Refusal};
use flightline_store::Find;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::SortieView;
use super::change::{check_move, refuse_open_errors};
use super::queue::{ClaimObstacle, WorkQueue, rank};
use super::recovered::{Locking, taken_up};
use crate::checkpoint::milestone::catch_up;
use crate::error::{Error, Result};
use crate::fleet::{Access, ActsFor, Caller, Fleet, Operation, Scope};
use crate::lock::grant_all;
use crate::mission::{begin_if_pending, short};
use crate::op_context::OpContext;
use crate::recovery::start::start_with;

/// Claims a sortie for the acting agent and begins it.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct ClaimSortie {
    /// The sortie to claim.
    pub sortie: String,
    /// Lock the sortie's files too; if one of them cannot be locked, nothing is claimed.
    #[serde(default)]
    pub lock: bool,
}

/// Claims the next sortie that is ready, and begins it.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct ClaimNext {
    /// The mission to claim from; the current one when none is named.
    pub mission: Option<String>,
    /// Lock the sortie's files too.
    #[serde(default)]
    pub lock: bool,
}

impl Operation for ClaimSortie {
    const NAME: &'static str = "claim_sortie";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Agent;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = SortieView;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<SortieView> {
        let sortie = ctx.sortie(&self.sortie)?;
        let agent = ctx.acting()?.clone();
        if sortie.assigned_to == Some(agent.id) && sortie.status == SortieStatus::InProgress {
            // Asking twice is harmless.
            return Ok(SortieView {
                already: true,
                ..taken_up(ctx, sortie, Locking::No)?
            });
        }
        if let Some(owner) = sortie
            .assigned_to
            .filter(|owner| sortie.status.is_held() && *owner != agent.id)
        {
            let owner = ctx.agent_name(owner)?;
            return Err(Refusal::new(
                Code::AlreadyTaken,
                format!("{} (\"{}\") is {owner}'s", short(sortie.id), sortie.title),
            )
            .hint("take the next free one with `fleet sorties claim --next`")
            .details(json!({ "owner": owner }))
            .into());
        }
        if sortie.status == SortieStatus::Blocked {
            // The owner of a sortie cannot get past an error by claiming it again.
            refuse_open_errors(ctx, &sortie)?;
        }
        refuse_waiting(ctx, &sortie)?;
        take(ctx, sortie, self.lock)
    }
}

impl Operation for ClaimNext {
    const NAME: &'static str = "claim_next";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Agent;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = SortieView;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<SortieView> {
        let agent = ctx.acting()?.id;
        let mission = ctx.mission(self.mission.as_deref())?;
        let locks = ctx.tx.find::<Lock>(Find::All)?;
        let others: Vec<Lock> = locks
            .into_iter()
            .filter(|lock| lock.held_by != agent)
            .collect();
        // One query for all of them: a round trip for each would make a large mission wait.
        let sorties = ctx.tx.find::<Sortie>(Find::Mission(mission.id))?;
        let queue = WorkQueue::new(&sorties, &others, Some(agent));
        let ready = sorties.iter().filter(|sortie| queue.is_ready(sortie));
        let best = ready.max_by_key(|sortie| rank(sortie));
        match best {
            Some(sortie) => take(ctx, sortie.clone(), self.lock),
            None => Err(nothing_ready(ctx, &mission, &queue)?.into()),
        }
    }
}

/// Takes the next sortie that is ready, and waits for one: at most `wait`, calling `pause` between tries. When nothing is
/// left, there is nothing to wait for.
pub fn claim_next(
    fleet: &mut Fleet,
    request: &ClaimNext,
    caller: &Caller,
    wait: Duration,
    pause: &mut dyn FnMut(Duration),
) -> Result<SortieView> {
    let began = Instant::now();
    loop {
        let refusal = match fleet.run(request, caller) {
            Err(Error::Refused(refusal)) if refusal.code == Code::NothingReady => refusal,
            result => return result,
        };
        let left = wait.saturating_sub(began.elapsed());
        if left.is_zero() {
            let waited = human_span(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
            let message = match wait.is_zero() {
                true => refusal.message.clone(),
                false => format!("timed out after {waited}: {}", refusal.message),
            };
            return Err(Refusal {
                message,
                ..*refusal
            }
            .into());
        }
        pause(left.min(Duration::from_millis(200)));
    }
}

/// The most sorties that a refusal names one by one.
const NAMED: usize = 10;

/// Builds the refusal when no sortie is ready: everything is done, or the obstacle of each of the rest.
fn nothing_ready(
    ctx: &mut OpContext<'_, '_>,
    mission: &Mission,
    queue: &WorkQueue<'_>,
) -> Result<Refusal> {
    let (id, all) = (short(mission.id), queue.sorties.len());
    let name = format!("{id} (\"{}\")", mission.title);
    if all == 0 {
        return Ok(
            Refusal::new(Code::NothingReady, format!("{name} has no sortie yet"))
                .hint("add one with `fleet sorties add \"…\"`")
                .details(json!({ "waiting": 0, "locked": 0, "sorties": [] })),
        );
    }
    let open: Vec<&Sortie> = queue.open().collect();
    if open.is_empty() {
        let completed = |sortie: &&Sortie| sortie.status == SortieStatus::Completed;
        let done = queue.sorties.iter().filter(completed).count();
        let message = match (all, done == all) {
            (1, true) => format!("the only sortie of {name} is completed"),
            (all, true) => format!("all {all} sorties of {name} are completed"),
            (all, false) => format!("all {all} sorties of {name} are completed or left out"),
        };
        let hint = match mission.status.is_open() {
            true => format!("complete the mission with `fleet missions complete {id}`"),
            false => "see which missions are open with `fleet missions list`".to_owned(),
        };
        return Ok(Refusal::new(Code::NothingLeft, message)
            .hint(hint)
            .details(json!({ "completed": done, "sorties": all })));
    }
    let (mut lines, mut told, mut waiting, mut locked, mut moves) =
        (Vec::new(), Vec::new(), 0, 0, false);
    for sortie in open {
        let obstacle = queue.obstacle(sortie);
        match obstacle {
            ClaimObstacle::Waits(_) => waiting += 1,
            ClaimObstacle::Locked(_) => locked += 1,
            ClaimObstacle::Held | ClaimObstacle::Mine => {
                moves |= sortie.status != SortieStatus::Blocked
            }
            ClaimObstacle::Failed => {}
        }
        let why = obstacle.told(ctx, sortie)?;
        told.push(json!({ "id": sortie.id, "title": sortie.title, "status": sortie.status.as_str(), "why": why }));
        lines.push(format!("{} (\"{}\") {why}", short(sortie.id), sortie.title));
    }
    if lines.len() > NAMED {
        let more = lines.len() - NAMED;
        lines.truncate(NAMED);
        lines.push(format!("and {more} more: `fleet sorties list`"));
    }
    let changes_by_itself = moves || locked > 0;
    if changes_by_itself {
        lines.push("wait for one with `fleet sorties claim --next --wait 15m`".to_owned());
    }
    let refusal = Refusal::new(Code::NothingReady, format!("no sortie of {name} is ready"))
        .hint(lines.join("\n"))
        .details(json!({ "waiting": waiting, "locked": locked, "sorties": told }));
    Ok(Refusal {
        retryable: changes_by_itself,
        ..refusal
    })
}

fn take(ctx: &mut OpContext<'_, '_>, mut sortie: Sortie, lock: bool) -> Result<SortieView> {
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
    begin_if_pending(ctx, sortie.mission_id)?;
    let (agent, now, from) = (ctx.acting()?.clone(), ctx.now(), sortie.status);
    sortie.status = SortieStatus::InProgress;
    sortie.assigned_to = Some(agent.id);
    sortie.assigned_epoch = Some(agent.epoch);
    sortie.assigned_at = Some(now);
    sortie.started_at.get_or_insert(now);
    sortie.blocked_reason = None;
    sortie.failure = None;
    sortie.attempts += 1;
    sortie.updated_at = now;
    ctx.tx.set(
        EventType::SortieClaimed,
        &sortie,
        &json!({ "from": from.as_str(), "attempt": sortie.attempts }),
    )?;
    if lock && !sortie.files.is_empty() {
        let (files, purpose) = (sortie.files.clone(), Some(sortie.title.clone()));
        grant_all(ctx, &files, purpose, None, Some(&sortie), &[])?;
    }
    let mission = sortie.mission_id;
    let started = match sortie.interrupted {
        Some(_) => start_with(ctx, &agent, &sortie)?,
        None => None,
    };
    let mut view = taken_up(ctx, sortie, Locking::Again)?;
    let problem = started.and_then(|started| started.warning());
    if let Some(context) = &mut view.recovery_context {
        context.blockers.extend(problem);
    }
    catch_up(ctx, mission)?;
    Ok(view)
}

/// Refuses to begin a sortie that depends on one that is neither completed nor left out.
pub(crate) fn refuse_waiting(ctx: &mut OpContext<'_, '_>, sortie: &Sortie) -> Result<()> {
    for needed in &sortie.depends_on {
        let Some(needed) = ctx.tx.get::<Sortie>(*needed)? else {
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
