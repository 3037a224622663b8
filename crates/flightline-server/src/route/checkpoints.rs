//! Seed A's six endpoints, with its own envelopes.

use crate::Schema;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::IntoResponse;
use flightline::agent::look_around;
use flightline::checkpoint::CheckpointDocument;
use flightline::checkpoint::inspect::{
    CheckpointMark, CheckpointSummary, ListCheckpoints, MarkCheckpoint, ShowCheckpoint,
};
use flightline::checkpoint::leftovers::clear;
use flightline::checkpoint::prune::{PlanPrune, PruneCheckpoints, plan_all};
use flightline::checkpoint::serve as from_files;
use flightline::checkpoint::take::TakeCheckpoint;
use flightline::checkpoint::thin::thin;
use flightline::core::checkpoint::{Reason, Trigger};
use flightline::core::text::NoteText;
use flightline::core::{Code, Kind, Name, Refusal};
use flightline::recovery::resume::{Resume, Resumed};
use flightline::registry::Commit;
use flightline::{Access, Caller, Done, Operation};
use serde::{Deserialize, Serialize};

use super::page::{PageRequest, next};
use super::take::MOST;
use super::{HandlerOutcome, HandlerResult, Shared, mark};
use crate::middleware::{JsonBody, PathNames, Principal, Query};
use crate::serve::ServerMessage;

/// The number of listed checkpoints when the request names none.
const LISTED: u64 = 10;
const DAY_MS: u64 = 86_400_000;

#[derive(Debug, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Create {
    /// Mission whose checkpoint is taken; without it, the current one.
    mission_id: Option<String>,
    /// Kind of occasion; `manual` without it.
    trigger: Option<Trigger>,
    /// Details of the occasion, in free text.
    trigger_details: Option<NoteText>,
    /// Agent that takes the checkpoint; by default the token's.
    #[schemars(regex(pattern = r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,99}$"))]
    created_by: Option<String>,
    /// Exact reason for the checkpoint; without it, the usual reason of the trigger.
    reason: Option<Reason>,
    /// Note to keep with the checkpoint.
    note: Option<NoteText>,
}

/// The checkpoint that was taken.
#[derive(Debug, Serialize, Schema)]
pub(crate) struct CreatedCheckpoint {
    /// The checkpoint in full.
    checkpoint: CheckpointDocument,
}

/// A page of checkpoints.
#[derive(Debug, Serialize, Schema)]
pub(crate) struct CheckpointPage {
    /// The checkpoints, newest first.
    checkpoints: Vec<CheckpointSummary>,
    /// Number of checkpoints on all pages.
    total: u64,
    /// Cursor of the next page; null on the last page.
    next_cursor: Option<String>,
}

impl Create {
    fn reason(&self) -> Result<Reason, Refusal> {
        let usual = match self.trigger {
            None | Some(Trigger::Manual) => Reason::Manual,
            Some(Trigger::Progress) => Reason::Milestone,
            Some(Trigger::Error) => Reason::Blocker,
            Some(Trigger::Compaction) => Reason::PreCompact,
        };
        let reason = self.reason.unwrap_or(usual);
        if self
            .trigger
            .is_some_and(|trigger| trigger != reason.trigger())
        {
            return Err(Refusal::invalid(format!(
                "the reason `{}` belongs to the trigger `{}`",
                reason.as_str(),
                reason.trigger().as_str()
            ))
            .hint("leave one of the two out"));
        }
        Ok(reason)
    }
}

pub(crate) async fn create(
    State(shared): State<Arc<Shared>>,
    principal: Principal,
    headers: HeaderMap,
    body: JsonBody,
) -> HandlerResult {
    let asked: Create = body.read()?;
    let caller = principal.caller_of(&headers, asked.created_by.as_deref(), None)?;
    let request = TakeCheckpoint {
        reason: Some(asked.reason()?),
        mission: asked.mission_id,
        details: asked.trigger_details,
        note: asked.note,
    };
    let taken = shared.run(&principal, caller, request).await?;
    let at = format!("/api/v1/checkpoints/{}", taken.value.id);
    let mut response = taken
        .map(|checkpoint| CreatedCheckpoint { checkpoint })
        .answer(StatusCode::CREATED)?;
    if let Ok(at) = HeaderValue::from_str(&at) {
        response.headers_mut().insert(header::LOCATION, at);
    }
    Ok(response)
}

#[derive(Debug, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CheckpointListQuery {
    /// Mission whose checkpoints are listed; without it, the current one.
    mission_id: Option<String>,
    /// Maximum number of checkpoints on this page; 10 by default.
    limit: Option<u64>,
    /// `next_cursor` of the page before.
    cursor: Option<String>,
    /// Include checkpoints that were archived.
    #[serde(default)]
    archived: bool,
}

pub(crate) async fn list(
    State(shared): State<Arc<Shared>>,
    principal: Principal,
    headers: HeaderMap,
    Query(asked): Query<CheckpointListQuery>,
) -> HandlerResult {
    let limit = asked.limit.unwrap_or(LISTED).min(MOST);
    let asking = PageRequest::new(limit, asked.cursor.as_deref())?;
    let request = ListCheckpoints {
        mission: asked.mission_id,
        archived: asked.archived,
        limit,
    };
    let (mut caller, window) = (principal.caller(&headers)?, asking.window());
    caller.place = asking.place();
    caller.window = Some(window.clone());
    let listed = shared.run(&principal, caller, request).await?;
    let since = listed.since.clone();
    let paged = listed.and_then(|list| {
        let last = list.checkpoints.last().map(|last| last.id.to_string());
        let (total, next_cursor) = next(window.given(), last, since.as_ref())?;
        Ok(CheckpointPage {
            checkpoints: list.checkpoints,
            total,
            next_cursor,
        })
    });
    paged?.answer(StatusCode::OK)
}

pub(crate) async fn show(
    State(shared): State<Arc<Shared>>,
    PathNames(id): PathNames<String>,
    principal: Principal,
    headers: HeaderMap,
) -> HandlerResult {
    let caller = principal.caller_of(&headers, None, Some((Kind::Checkpoint, id.clone())))?;
    let request = ShowCheckpoint { checkpoint: id };
    match shared
        .run(&principal, caller.clone(), request.clone())
        .await
    {
        // The checkpoint's file may have the values that the store has lost. They are put back,
        // which is a write.
        Err(refusal) if refusal.code == Code::Integrity => {
            let state = shared.projects.state_of(&principal.project().id);
            let served = shared.with(
                principal.project(),
                Access::Write,
                Commit::Own,
                move |fleet| {
                    from_files::serve(fleet, &state, &caller, &request)
                        .done
                        .map_err(flightline::Error::into_refusal)
                },
            );
            served.await?.answer(StatusCode::OK)
        }
        shown => shown?.answer(StatusCode::OK),
    }
}

#[derive(Debug, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Recover {
    /// Report what would be done, and do nothing.
    #[serde(default)]
    dry_run: bool,
    /// Agent that recovers the mission; by default the token's.
    #[schemars(regex(pattern = r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,99}$"))]
    agent_id: Option<String>,
    /// Roll back finished work even of agents that are alive.
    #[serde(default)]
    force: bool,
    /// Resume a mission that has failed or was completed.
    #[serde(default)]
    reopen: bool,
    /// Continue without failed work.
    #[serde(default)]
    skip_failed: bool,
    /// Set the workflow back to this state.
    reset_to: Option<Name>,
}

/// The outcome of a recovery: seed A's three fields first.
#[derive(Debug, Serialize, Schema)]
pub(crate) struct Recovered {
    /// Always true: a recovery that is refused is answered with a problem.
    success: bool,
    /// The last action, the next steps and the blockers.
    recovery_context: flightline::core::recovery::RecoveryContext,
    /// Numbers of the restored sorties, locks and messages.
    restored: flightline::recovery::resume::RestoredCounts,
    /// True when nothing was done: the answer says what would be.
    dry_run: bool,
    /// Warnings, such as about a damaged checkpoint that was passed over.
    warnings: Vec<String>,
    /// The blockers that need a decision.
    errors: Vec<String>,
    /// Agents whose work failed and was left out.
    skipped_agents: Vec<String>,
    /// The state the workflow is in now; none when the mission has no workflow.
    restored_state: Option<String>,
    /// Work that the recovery took away.
    lost: Vec<String>,
    /// The effects that were begun and never reported done, by agents that are gone.
    in_doubt: Vec<flightline::recovery::aftermath::DoubtfulEffect>,
    /// The remaining actions, each with its command.
    next: Vec<flightline::status::Attention>,
    /// The checkpoint of the state before, with which the recovery can be undone.
    before: Option<flightline::core::CheckpointId>,
}

impl Recovered {
    fn of(done: Resumed, dry_run: bool) -> Self {
        Self {
            success: true,
            recovery_context: done.recovery_context,
            restored: done.restored,
            dry_run,
            warnings: done.warnings,
            errors: done.errors,
            skipped_agents: done.skipped_agents,
            restored_state: done.restored_state,
            lost: done.lost,
            in_doubt: done.in_doubt,
            next: done.next,
            // The checkpoint that a dry run took was dropped with the rest.
            before: done.before.filter(|_| !dry_run),
        }
    }
}

pub(crate) async fn recover(
    State(shared): State<Arc<Shared>>,
    PathNames(id): PathNames<String>,
    principal: Principal,
    headers: HeaderMap,
    body: JsonBody,
) -> HandlerResult {
    principal.may_call(Resume::NAME)?;
    let asked: Recover = body.read_there()?;
    let target = (Kind::Checkpoint, id.clone());
    let caller = principal.caller_of(&headers, asked.agent_id.as_deref(), Some(target))?;
    let (state, dry_run) = (
        shared.projects.state_of(&principal.project().id),
        asked.dry_run,
    );
    let done = shared.with(
        principal.project(),
        Access::Write,
        Commit::Own,
        move |fleet| {
            let refused = flightline::Error::into_refusal;
            let request = Resume {
                mission: None,
                checkpoint: Some(id.clone()),
                force: asked.force,
                reopen: asked.reopen,
                skip_failed: asked.skip_failed,
                reset_to: asked.reset_to.clone(),
                tree: None,
                // A request that is asked again must be the same, whatever runs here meanwhile.
                sightings: match caller.idempotency_key {
                    Some(_) => Vec::new(),
                    None => look_around(fleet).map_err(refused)?,
                },
            };
            let served = match dry_run {
                true => from_files::rehearse(fleet, &state, &caller, &request),
                false => from_files::serve(fleet, &state, &caller, &request),
            };
            served.done.map_err(refused)
        },
    );
    done.await?
        .map(|done| Recovered::of(done, dry_run))
        .answer(StatusCode::OK)
}

pub(crate) async fn delete(
    State(shared): State<Arc<Shared>>,
    PathNames(id): PathNames<String>,
    principal: Principal,
    headers: HeaderMap,
) -> HandlerResult {
    principal.may_call(MarkCheckpoint::NAME)?;
    let caller = principal.caller_of(&headers, None, Some((Kind::Checkpoint, id.clone())))?;
    let request = MarkCheckpoint {
        checkpoint: id,
        mark: CheckpointMark::Delete,
    };
    let (state, say) = (
        shared.projects.state_of(&principal.project().id),
        Arc::clone(&shared.say),
    );
    let gone = shared.with(
        principal.project(),
        Access::Write,
        Commit::Own,
        move |fleet| {
            let refused = flightline::Error::into_refusal;
            let deleted = fleet.run_fully(&request, &caller).map_err(refused)?;
            // The checkpoint is gone, even if its file is not: the next deletion looks for the file
            // again.
            if let Err(error) = clear(fleet, &state) {
                say(ServerMessage::Warning(error.into_refusal().message));
            }
            Ok(deleted)
        },
    );
    let replayed = gone.await?.replayed;
    let mut response = StatusCode::NO_CONTENT.into_response();
    mark(response.headers_mut(), replayed);
    Ok(response)
}

#[derive(Debug, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Prune {
    /// Age in days above which checkpoints go; the policy's when none is given.
    older_than_days: Option<u64>,
    /// Number of the newest checkpoints of a mission that stay; the policy's when none is given.
    keep_per_mission: Option<u64>,
    /// Prune only checkpoints of this mission; without it, of all missions.
    mission_id: Option<String>,
    /// Plan only: report the checkpoints that would go.
    #[serde(default)]
    dry_run: bool,
    /// Trust the clock, however far it is ahead of what confirms it.
    #[serde(default)]
    force: bool,
}

pub(crate) async fn prune(
    State(shared): State<Arc<Shared>>,
    principal: Principal,
    headers: HeaderMap,
    body: JsonBody,
) -> HandlerResult {
    principal.may_call(PruneCheckpoints::NAME)?;
    let asked: Prune = body.read_there()?;
    let caller = principal.caller(&headers)?;
    let request = PlanPrune {
        mission: asked.mission_id,
        older_than_ms: asked
            .older_than_days
            .map(|days| days.saturating_mul(DAY_MS)),
        keep: asked.keep_per_mission,
        force: asked.force,
        as_of: None,
    };
    let refused = flightline::Error::into_refusal;
    if asked.dry_run {
        let planned = shared.with(
            principal.project(),
            Access::Read,
            Commit::Own,
            move |fleet| {
                plan_all(fleet, &caller, &request)
                    .map(Done::plain)
                    .map_err(refused)
            },
        );
        return planned.await?.answer(StatusCode::OK);
    }
    let (state, say) = (
        shared.projects.state_of(&principal.project().id),
        Arc::clone(&shared.say),
    );
    let done = shared.with(
        principal.project(),
        Access::Write,
        Commit::Own,
        move |fleet| {
            let plan = request.clone();
            let pruned = fleet
                .run_fully(&PruneCheckpoints { plan }, &caller)
                .map_err(refused)?;
            // Thinning and clearing that fail now are done again by the next pruning.
            let keyless = Caller {
                idempotency_key: None,
                ..caller.clone()
            };
            let rest = thin(fleet, &keyless, &request.thinning()).map(drop);
            if let Err(error) = rest.and_then(|()| clear(fleet, &state)) {
                say(ServerMessage::Warning(error.into_refusal().message));
            }
            Ok(pruned)
        },
    );
    let pruned = HandlerOutcome {
        since: None,
        ..done.await?
    };
    pruned.answer(StatusCode::OK)
}
