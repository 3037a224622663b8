//! Records the work of a session: the mission it works on, the files it changes, the errors it meets.

use std::collections::BTreeSet;

use flightline_core::agent::Agent;
use flightline_core::lock::Lock;
use flightline_core::mission::Mission;
use flightline_core::setting::CurrentMission;
use flightline_core::sortie::{FileChange, Sortie, SortieError};
use flightline_core::text::NoteText;
use flightline_core::time::Millis;
use flightline_core::{AgentId, Code, Kind, MissionId, Name, RepoPath, Subject, Title};
use flightline_store::Find;

use super::TellHook;
use crate::agent::{Heartbeat, UpdateAgent};
use crate::error::{Error, Result};
use crate::fleet::Operation;
use crate::lock::{AcquireLocks, ReleaseLocks};
use crate::mission::{CreateMission, UseMission};
use crate::op_context::OpContext;
use crate::sortie::add::NewSortie;
use crate::sortie::claim::ClaimSortie;
use crate::sortie::report::{ClearErrors, FileReport, ReportError, UpdateSortie};

/// Purpose of the locks that a hook takes. By these words they are recognised, and released when the turn ends.
const PURPOSE: &str = "edited in this turn";
/// Time in which one announcement is believed of a client that announces a compaction before every request.
const ANNOUNCED_EVERY: Millis = 5 * 60_000;
/// The kind of the errors that tools meet.
const TOOL_FAILED: &str = "tool_failed";

/// Records a sign of life. Returns the advice for an agent whose context fills up.
pub(super) fn beat(ctx: &mut OpContext<'_, '_>, heartbeat: &Heartbeat) -> Result<Option<String>> {
    let beaten = heartbeat.decide(ctx)?;
    super::seat::refresh(ctx)?;
    let percent = beaten.context_percent.unwrap_or_default();
    let is_news = !beaten.crossed.is_empty();
    Ok(match (is_news, beaten.stop) {
        (false, _) => None,
        (true, false) => Some(format!(
            "Flightline: your context is {percent} % full. Finish the task at hand, and begin no other. Your work is saved."
        )),
        (true, true) => {
            let mut text = format!(
                "Flightline: your context is {percent} % full, and is about to be lost. Stop after this operation. Your work is saved. If a briefing came since, the context is new: go on."
            );
            if !beaten.remaining.is_empty() {
                text.push_str("\nLeft to do:");
                for step in &beaten.remaining {
                    text.push_str("\n- ");
                    text.push_str(step);
                }
            }
            Some(text)
        }
    })
}

/// The mission that the acting agent works on: where it holds work, the one it chose or got, else one that people made.
pub(super) fn mission(ctx: &mut OpContext<'_, '_>) -> Result<Option<Mission>> {
    if let Some(reference) = ctx.caller.mission.clone() {
        return ctx.mission(Some(&reference)).map(Some);
    }
    let Some(agent) = ctx.agent.clone() else {
        return Ok(None);
    };
    if let Some(sortie) = current_sortie(ctx)? {
        return Ok(ctx.tx.get::<Mission>(sortie.mission_id)?);
    }
    if let Some(own) = chosen(ctx, &agent)? {
        let mission = ctx.tx.get::<Mission>(own)?;
        if mission.as_ref().is_some_and(|it| it.status.is_open()) {
            return Ok(mission);
        }
    }
    of_people(ctx)
}

/// The newest open mission that no session got by itself.
fn of_people(ctx: &mut OpContext<'_, '_>) -> Result<Option<Mission>> {
    let mut own = BTreeSet::new();
    for agent in ctx.tx.find::<Agent>(Find::All)? {
        own.extend(chosen(ctx, &agent)?);
    }
    let mut newest: Option<(u64, String)> = None;
    for row in ctx.tx.rows(Kind::Mission, Find::All)? {
        let id: MissionId = row.typed_id()?;
        let status = flightline_core::mission::MissionStatus::from_word(&row.status);
        if own.contains(&id) || !status.is_some_and(|status| status.is_open()) {
            continue;
        }
        let last = ctx.tx.last_work_rev(id)?.unwrap_or(row.rev);
        if newest.as_ref().is_none_or(|(rev, _)| last > *rev) {
            newest = Some((last, row.id));
        }
    }
    match newest {
        Some((_, id)) => Ok(ctx.tx.get::<Mission>(&id)?),
        None => Ok(None),
    }
}

fn chosen(ctx: &mut OpContext<'_, '_>, agent: &Agent) -> Result<Option<MissionId>> {
    let key = format!("current-mission/{}", agent.id);
    let chosen = ctx.tx.get::<CurrentMission>(&key)?;
    Ok(chosen.map(|chosen| chosen.mission_id))
}

/// The sortie that the acting agent is at: the newest of those it holds.
pub(super) fn current_sortie(ctx: &mut OpContext<'_, '_>) -> Result<Option<Sortie>> {
    let Some(agent) = ctx.agent_id() else {
        return Ok(None);
    };
    let held = ctx
        .tx
        .find_those::<Sortie>(Find::Agent(agent), |it| it.status.is_held())?;
    Ok(held.into_iter().max_by_key(|sortie| sortie.started_at))
}

/// A session without work gets a mission of its own, titled by the first prompt.
pub(super) fn begin(ctx: &mut OpContext<'_, '_>, prompt: Option<&Title>) -> Result<()> {
    let Some(title) = prompt.cloned() else {
        return Ok(());
    };
    if mission(ctx)?.is_some() {
        return Ok(());
    }
    let create = CreateMission {
        sorties: vec![NewSortie::titled(title.clone())],
        ..CreateMission::titled(title)
    };
    let made = create.decide(ctx)?;
    let choose = UseMission {
        mission: made.mission.id.to_string(),
    };
    choose.decide(ctx)?;
    if let Some(first) = made.sorties.first() {
        let claim = ClaimSortie {
            sortie: first.id.to_string(),
            lock: false,
        };
        claim.decide(ctx)?;
    }
    Ok(())
}

/// Returns true when a checkpoint was taken so lately that an announcement which hardly ever comes true needs no
/// further one. Everything that happens in between is in the journal, and a compaction loses nothing of it.
pub(super) fn was_just_saved(ctx: &mut OpContext<'_, '_>) -> Result<bool> {
    let Some(mission) = mission(ctx)? else {
        return Ok(true);
    };
    let now = ctx.now();
    let newest = crate::checkpoint::newest_first(ctx, &mission)?;
    let newest = newest.first().map(|it| it.cut.timestamp);
    Ok(newest.is_some_and(|at| now.since(at) < ANNOUNCED_EVERY))
}

pub(super) fn locks_edits(ctx: &OpContext<'_, '_>) -> bool {
    ctx.policy.lock_edits
}

/// Returns true when the agent holds locks on all of these paths.
pub(super) fn holds_all(
    ctx: &mut OpContext<'_, '_>,
    agent: &Agent,
    paths: &[RepoPath],
) -> Result<bool> {
    let own = ctx.tx.find::<Lock>(Find::Agent(agent.id))?;
    let holds = |path: &RepoPath| {
        own.iter()
            .any(|lock| lock.epoch == agent.epoch && lock.file.is_same(path))
    };
    Ok(paths.iter().all(holds))
}

/// Returns true when locks of others are in the way of an edit.
pub(super) fn is_in_the_way(
    ctx: &mut OpContext<'_, '_>,
    agent: &Agent,
    paths: &[RepoPath],
) -> Result<bool> {
    Ok(locks_edits(ctx) && !others(ctx, Some(agent.id), paths)?.is_empty())
}

/// The locks of others that overlap these paths.
fn others(
    ctx: &mut OpContext<'_, '_>,
    me: Option<AgentId>,
    paths: &[RepoPath],
) -> Result<Vec<Lock>> {
    Ok(ctx.tx.find_those::<Lock>(Find::All, |lock| {
        Some(lock.held_by) != me && paths.iter().any(|path| lock.file.overlaps(path))
    })?)
}

/// Takes the locks that an edit needs; names the holder when it cannot.
pub(super) fn lock(
    ctx: &mut OpContext<'_, '_>,
    paths: &[RepoPath],
    hook: &TellHook,
) -> Result<Option<String>> {
    if paths.is_empty() || !locks_edits(ctx) {
        return Ok(None);
    }
    let acquire = AcquireLocks {
        paths: paths.to_vec(),
        ttl_ms: None,
        purpose: Some(Title::parse("purpose", PURPOSE)?),
        sortie: None,
        sightings: hook.sightings.clone(),
    };
    match ctx.attempt(|ctx| acquire.decide(ctx))? {
        Ok(_) => Ok(None),
        // The session waits for its subagent, which must not wait for it.
        Err(Error::Refused(refusal))
            if refusal.code == Code::LockHeld && are_the_sessions(ctx, paths, hook)? =>
        {
            Ok(None)
        }
        Err(Error::Refused(refusal)) if refusal.code == Code::LockHeld => {
            let hint = refusal.hint.as_deref().unwrap_or_default();
            Ok(Some(format!(
                "Flightline: {}. To go on, {hint}",
                refusal.message
            )))
        }
        // An edit that cannot be locked for any other reason is not stopped.
        Err(Error::Refused(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns true when all the locks in the way of a subagent's edit are those of the session that started it.
fn are_the_sessions(
    ctx: &mut OpContext<'_, '_>,
    paths: &[RepoPath],
    hook: &TellHook,
) -> Result<bool> {
    if hook.subagent.is_none() {
        return Ok(false);
    }
    let Some(session) = super::seat::of_session(ctx, &hook.of_parent())? else {
        return Ok(false);
    };
    let me = ctx.agent_id();
    let in_the_way = others(ctx, me, paths)?;
    Ok(in_the_way.iter().all(|lock| lock.held_by == session.id))
}

/// Lets go of what hooks locked by themselves.
pub(super) fn release(ctx: &mut OpContext<'_, '_>) -> Result<()> {
    let Some(agent) = ctx.agent_id() else {
        return Ok(());
    };
    let own = ctx.tx.find_those::<Lock>(Find::Agent(agent), |lock| {
        lock.purpose.as_ref().map(Title::as_str) == Some(PURPOSE)
    })?;
    if own.is_empty() {
        return Ok(());
    }
    let release = ReleaseLocks {
        locks: own.iter().map(|lock| lock.id.to_string()).collect(),
        all: false,
        fence: None,
    };
    release.decide(ctx).map(drop)
}

/// Notes the files that the agent has changed.
pub(super) fn touched(ctx: &mut OpContext<'_, '_>, paths: &[RepoPath]) -> Result<()> {
    let known = ctx.agent.as_ref().map(|agent| &agent.files_modified);
    let is_new = |path: &&RepoPath| known.is_none_or(|known| !known.contains(path));
    let files: Vec<RepoPath> = paths.iter().filter(is_new).cloned().collect();
    if files.is_empty() {
        return Ok(());
    }
    if let Some(sortie) = current_sortie(ctx)? {
        let changed = files.iter().map(|path| FileReport {
            path: path.clone(),
            change: FileChange::Modified,
        });
        let update = UpdateSortie {
            sortie: sortie.id.to_string(),
            files: changed.collect(),
            ..UpdateSortie::default()
        };
        drop(ctx.attempt(|ctx| update.decide(ctx))?);
    }
    let update = UpdateAgent {
        files,
        ..UpdateAgent::default()
    };
    update.decide(ctx)?;
    super::seat::refresh(ctx)
}

/// A tool failed: the sortie keeps it until the turn ends well.
pub(super) fn failed(ctx: &mut OpContext<'_, '_>, why: &NoteText) -> Result<()> {
    let Some(sortie) = current_sortie(ctx)? else {
        return Ok(());
    };
    let errors = ctx.tx.find::<SortieError>(Find::Parent(&sortie.key()))?;
    if errors
        .iter()
        .any(|it| it.cleared_at.is_none() && it.message == *why)
    {
        return Ok(());
    }
    let report = ReportError {
        sortie: sortie.id.to_string(),
        kind: Name::parse("kind", TOOL_FAILED)?,
        status: None,
        message: why.clone(),
        blocking: false,
    };
    report.decide(ctx).map(drop)
}

/// A turn ended: its last line is the state of the work, and the locks of edited files are released.
pub(super) fn stopped(ctx: &mut OpContext<'_, '_>, said: Option<&Title>) -> Result<()> {
    release(ctx)?;
    let Some(sortie) = current_sortie(ctx)? else {
        return Ok(());
    };
    let errors = ctx.tx.find::<SortieError>(Find::Parent(&sortie.key()))?;
    let mut open = errors
        .iter()
        .filter(|it| it.cleared_at.is_none())
        .peekable();
    if open.peek().is_some() && open.all(|it| it.kind.as_str() == TOOL_FAILED) {
        let clear = ClearErrors {
            sortie: sortie.id.to_string(),
        };
        drop(ctx.attempt(|ctx| clear.decide(ctx))?);
    }
    if let Some(said) = said {
        let update = UpdateSortie {
            sortie: sortie.id.to_string(),
            last_processed: Some(said.clone()),
            ..UpdateSortie::default()
        };
        update.decide(ctx)?;
    }
    Ok(())
}
