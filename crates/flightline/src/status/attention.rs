//! Lists the matters that need a person, each with the command that settles it.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use flightline_core::checkpoint::{Backup, Checkpoint};
use flightline_core::effect::{Effect, EffectState};
use flightline_core::liveness::Life;
use flightline_core::mission::MissionStatus;
use flightline_core::note::{Note, NoteKind};
use flightline_core::sortie::{SortieError, SortieStatus};
use flightline_core::time::human_span;
use flightline_core::{Kind, MissionId};
use flightline_store::{Damage, Find, ListOrder, ListScope, Loss, RowList};

use super::{Attention, MissionStatusView};
use crate::agent::AgentView;
use crate::checkpoint::readable;
use crate::error::Result;
use crate::lock::LockView;
use crate::mission::short;
use crate::note::of_mission;
use crate::op_context::OpContext;
use crate::recovery::detect::RecoveryCandidate;

/// The most things of one kind that are named one by one.
const NAMED: usize = 5;

/// Returns the needs of the work: of agents, sorties, effects, blockers, locks.
pub(super) fn of_work(
    ctx: &mut OpContext<'_, '_>,
    mission: Option<&MissionStatusView>,
    agents: &[AgentView],
    locks: &[LockView],
) -> Result<Vec<Attention>> {
    let mut missions = Missions::default();
    let mut found: Vec<Attention> = agents
        .iter()
        .flat_map(|view| of_agent(view, ctx.policy.token_critical))
        .collect();
    found.extend(of_sorties(ctx, mission, &mut missions)?);
    found.extend(few(
        of_effects(ctx, agents, &mut missions)?,
        "effects in doubt",
        "fleet effect list --in-doubt",
    ));
    found.extend(few(
        of_blockers(ctx, &mut missions)?,
        "blockers",
        "fleet note list --kind blocker",
    ));
    found.extend(few(
        of_locks(ctx, locks, &mut missions)?,
        "locks of missions that are over",
        "fleet locks list",
    ));
    found.extend(mission.and_then(of_mission_done));
    Ok(found)
}

/// The requested missions, known without reading their documents.
#[derive(Default)]
struct Missions(BTreeMap<MissionId, Option<Known>>);

struct Known {
    title: String,
    status: Option<MissionStatus>,
}

impl Known {
    fn is_open(&self) -> bool {
        self.status.is_none_or(MissionStatus::is_open)
    }
}

impl Missions {
    fn get(&mut self, ctx: &mut OpContext<'_, '_>, id: MissionId) -> Result<Option<&Known>> {
        let known = match self.0.entry(id) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(vacant) => {
                let row = ctx.tx.row(Kind::Mission, &id.to_string())?;
                vacant.insert(row.map(|row| Known {
                    status: MissionStatus::from_word(&row.status),
                    title: row.name.unwrap_or_default(),
                }))
            }
        };
        Ok(known.as_ref())
    }

    /// Returns those of these missions that are open, in the order of their ids.
    fn open(
        &mut self,
        ctx: &mut OpContext<'_, '_>,
        ids: impl IntoIterator<Item = MissionId>,
    ) -> Result<Vec<(MissionId, String)>> {
        let ids: BTreeSet<MissionId> = ids.into_iter().collect();
        let mut open = Vec::new();
        for id in ids {
            let known = self.get(ctx, id)?.filter(|known| known.is_open());
            open.extend(known.map(|known| (id, known.title.clone())));
        }
        Ok(open)
    }
}

fn ids(texts: Vec<String>) -> impl Iterator<Item = MissionId> {
    texts.into_iter().filter_map(|id| id.parse().ok())
}

fn of_agent(view: &AgentView, critical_percent: u8) -> Vec<Attention> {
    let (name, life) = (&view.agent.name, view.liveness.life);
    let holds = !view.sorties.is_empty() || !view.locks.is_empty();
    let mut found = Vec::new();
    if holds && life >= Life::Warning {
        found.push(Attention::new(
            format!(
                "{name} is {} ({}) and holds {}",
                life.as_str(),
                view.liveness.evidence,
                held_things(view)
            ),
            format!("fleet agents show {name}"),
        ));
    }
    if view.unread > 0 && life >= Life::Stalled && view.agent.epoch > 0 {
        let (count, wait) = match view.unread {
            1 => ("1 message".to_owned(), "waits"),
            many => (format!("{many} messages"), "wait"),
        };
        found.push(
            Attention::new(
                format!(
                    "{count} {wait} for {name}, which is {} ({})",
                    life.as_str(),
                    view.liveness.evidence
                ),
                format!("fleet agents resume {name}"),
            )
            .otherwise(format!("fleet agents takeover {name} NEW")),
        );
    }
    let percent = view.pulse["context_percent"].as_u64().unwrap_or(0);
    if percent >= u64::from(critical_percent)
        && life < Life::Stalled
        && view.agent.session_ended_at.is_none()
    {
        found.push(Attention::new(
            format!(
                "the context of {name} is {percent} % full: end its session, then start a new one"
            ),
            format!("fleet agents end {name}"),
        ));
    }
    if !view.agent.blockers.is_empty() {
        let blockers = view.agent.blockers.iter().map(ToString::to_string);
        found.push(Attention::new(
            format!(
                "{name} is blocked: {}",
                blockers.collect::<Vec<_>>().join("; ")
            ),
            format!("fleet agents update {name} --clear-blockers"),
        ));
    }
    found
}

fn held_things(view: &AgentView) -> String {
    let sorties = view.sorties.iter().map(short);
    let locks = view.locks.iter().map(ToString::to_string);
    sorties.chain(locks).collect::<Vec<_>>().join(", ")
}

/// Sorties of open missions that are blocked or failed. Of another mission than the one that is shown, the mission is named.
fn of_sorties(
    ctx: &mut OpContext<'_, '_>,
    shown: Option<&MissionStatusView>,
    missions: &mut Missions,
) -> Result<Vec<Attention>> {
    let mut found = Vec::new();
    let in_trouble = ids(ctx.tx.missions_in_trouble()?);
    let looked_at = in_trouble.chain(shown.map(|view| view.mission.id));
    for (id, name) in missions.open(ctx, looked_at)? {
        let is_shown = shown.is_some_and(|view| view.mission.id == id);
        let of = match is_shown {
            true => String::new(),
            false => format!(" of \"{name}\""),
        };
        let mut here = Vec::new();
        for (id, title, status) in troubled(ctx, id, shown.filter(|_| is_shown))? {
            let sortie = format!("{} (\"{title}\"){of}", short(&id));
            here.push(match status {
                SortieStatus::Blocked => of_blocked(ctx, &id, &sortie, shown)?,
                _ => Attention::new(
                    format!("{sortie} failed; to retry it"),
                    format!("fleet sorties release {}", short(&id)),
                ),
            });
        }
        found.extend(few(
            here,
            "sorties that are blocked or failed",
            "fleet sorties list",
        ));
    }
    Ok(found)
}

/// The sorties of a mission that are blocked or failed, by id and title. Those of the mission that is shown were read before.
fn troubled(
    ctx: &mut OpContext<'_, '_>,
    mission: MissionId,
    shown: Option<&MissionStatusView>,
) -> Result<Vec<(String, String, SortieStatus)>> {
    let in_trouble =
        |status: &SortieStatus| matches!(status, SortieStatus::Blocked | SortieStatus::Failed);
    if let Some(view) = shown {
        let sorties = view.sorties.iter();
        return Ok(sorties
            .filter(|sortie| in_trouble(&sortie.status))
            .map(|sortie| (sortie.id.to_string(), sortie.title.clone(), sortie.status))
            .collect());
    }
    let status_of = |word: &str| SortieStatus::from_word(word).filter(in_trouble);
    let rows = ctx.tx.rows(Kind::Sortie, Find::Mission(mission))?;
    Ok(rows
        .into_iter()
        .filter_map(|row| {
            Some((
                row.id,
                row.name.unwrap_or_default(),
                status_of(&row.status)?,
            ))
        })
        .collect())
}

fn of_blocked(
    ctx: &mut OpContext<'_, '_>,
    id: &str,
    sortie: &str,
    shown: Option<&MissionStatusView>,
) -> Result<Attention> {
    let (errors, _) = readable::<SortieError>(ctx.tx, Find::Parent(id))?;
    let error = errors
        .into_iter()
        .find(|error| error.blocking && error.cleared_at.is_none());
    if let Some(error) = error {
        return Ok(Attention::new(
            format!("{sortie} is blocked by an error: {}", error.message),
            format!("fleet sorties error {} --clear", short(id)),
        ));
    }
    let active = shown.iter().flat_map(|view| &view.active);
    let reason = active
        .filter(|active| active.id == id)
        .find_map(|active| active.blocked_reason.as_deref());
    let why = reason.map_or_else(String::new, |reason| format!(": {reason}"));
    Ok(Attention::new(
        format!("{sortie} is blocked{why}"),
        format!("fleet sorties unblock {}", short(id)),
    ))
}

/// Effects that were begun, whose author cannot say any more whether they happened.
fn of_effects(
    ctx: &mut OpContext<'_, '_>,
    agents: &[AgentView],
    missions: &mut Missions,
) -> Result<Vec<Attention>> {
    let mut found = Vec::new();
    let list = RowList::new(Kind::Effect, ListScope::All, &[EffectState::DONE]);
    for row in ctx.tx.some_rows(list, ListOrder::OLDEST, u64::MAX)? {
        let Ok(Some(effect)) = ctx.tx.get::<Effect>(&row.id) else {
            continue;
        };
        let Some(why) = doubt(ctx, &effect, agents) else {
            continue;
        };
        let of = missions.get(ctx, effect.mission_id)?;
        let of = of.map_or("", |mission| &mission.title);
        let (key, mission) = (&effect.key, short(effect.mission_id));
        found.push(
            Attention::new(
                format!("{} began `{key}` for \"{of}\" and {why}: check whether it happened, then report it", effect.by),
                format!("fleet effect done {key} --mission {mission}"),
            )
            .otherwise(format!("fleet effect begin {key} --again --mission {mission}")),
        );
    }
    Ok(found)
}

/// Returns the reason why an effect that was begun is in doubt; none while its author is at work on it.
fn doubt(ctx: &OpContext<'_, '_>, effect: &Effect, agents: &[AgentView]) -> Option<String> {
    let EffectState::Intent { at } = effect.state else {
        return None;
    };
    let Some(id) = effect.agent_id else {
        let age = ctx.now().since(at);
        return (age > ctx.policy.quiet_ms)
            .then(|| format!("has not reported it for {}", human_span(age)));
    };
    let Some(author) = agents.iter().find(|view| view.agent.id == id) else {
        return Some("is retired".to_owned());
    };
    if effect.epoch != Some(author.agent.epoch) {
        return Some("has a new session since".to_owned());
    }
    let life = author.liveness.life;
    (life >= Life::Stalled).then(|| format!("is {}", life.as_str()))
}

fn of_blockers(ctx: &mut OpContext<'_, '_>, missions: &mut Missions) -> Result<Vec<Attention>> {
    let mut found = Vec::new();
    let noted = ctx.tx.missions_with_notes(NoteKind::Blocker.as_str())?;
    for (id, title) in missions.open(ctx, ids(noted))? {
        let notes = of_mission(ctx, id)?.into_iter();
        let blocker = |note: &Note| note.kind == NoteKind::Blocker && note.after_cut.is_none();
        found.extend(notes.filter(blocker).map(|note| {
            Attention::new(
                format!(
                    "{} noted a blocker of \"{}\": {}",
                    note.author, title, note.text
                ),
                format!("fleet note list --kind blocker --mission {}", short(id)),
            )
        }));
    }
    Ok(found)
}

fn of_locks(
    ctx: &mut OpContext<'_, '_>,
    locks: &[LockView],
    missions: &mut Missions,
) -> Result<Vec<Attention>> {
    let mut over = Vec::new();
    for view in locks {
        let Some(id) = view.lock.mission_id else {
            continue;
        };
        let mission = missions.get(ctx, id)?;
        let ended = mission.and_then(|it| Some((&it.title, it.status.filter(|it| !it.is_open())?)));
        over.extend(ended.map(|(title, status)| {
            Attention::new(
                format!(
                    "{} holds {} for \"{title}\", which is {}",
                    view.holder,
                    view.lock.file,
                    status.as_str()
                ),
                format!(
                    "fleet locks release {} --agent {}",
                    view.lock.file.as_word(),
                    view.holder
                ),
            )
        }));
    }
    Ok(over)
}

fn of_mission_done(view: &MissionStatusView) -> Option<Attention> {
    let settled = view.sorties.iter().all(|sortie| sortie.status.is_settled());
    if view.progress.total == 0 || !settled || !view.mission.status.is_open() {
        return None;
    }
    let what = match view.progress.completed == view.progress.total {
        true => "every sortie is completed",
        false => "every sortie is completed or left out",
    };
    let command = format!("fleet missions complete {}", short(view.mission.id));
    Some(Attention::new(what, command))
}

/// Returns the needs of a candidate for recovery, and of its tasks.
pub(super) fn of_candidate(candidate: &RecoveryCandidate) -> Vec<Attention> {
    let mission = candidate.needs_recovery().then(|| recovery(candidate));
    let tasks = candidate.tasks.iter().map(|task| {
        let next = task.next.first().cloned();
        Attention::new(task.line(), next.unwrap_or_default())
    });
    let left = candidate.left.iter().cloned();
    mission.into_iter().chain(tasks).chain(left).collect()
}

fn recovery(candidate: &RecoveryCandidate) -> Attention {
    let quiet = human_span(candidate.inactivity_duration_ms);
    match candidate.checkpoint_available {
        true => Attention::new(
            format!(
                "\"{}\" needs recovery ({}, quiet for {quiet})",
                candidate.title,
                candidate.evidence.replace('_', " ")
            ),
            format!("fleet resume --mission {}", short(candidate.mission_id)),
        ),
        false => Attention::new(
            format!(
                "\"{}\" needs recovery (quiet for {quiet}) and has no checkpoint",
                candidate.title
            ),
            format!("fleet log --mission {}", short(candidate.mission_id)),
        ),
    }
}

pub(super) fn of_backup(checkpoint: &Checkpoint, backup: &Backup) -> Option<Attention> {
    match backup {
        Backup::Failed { why, .. } => Some(Attention::new(
            format!("the backup of {} failed: {why}", short(checkpoint.id)),
            "fleet doctor",
        )),
        Backup::Pending | Backup::Written { .. } | Backup::Shared => None,
    }
}

/// Values that were read from their second copy: nothing is lost yet.
pub(super) fn of_damage(noticed: &[Damage]) -> Option<Attention> {
    let first = noticed.first()?;
    let others = match noticed.len() - 1 {
        0 => String::new(),
        others => format!(" (and {others} more like it)"),
    };
    Some(Attention::new(
        format!("{first}{others}"),
        "fleet doctor --fix",
    ))
}

pub(super) fn of_loss(loss: &Loss) -> Attention {
    let what = loss.to_string();
    match loss {
        Loss::Event { .. } | Loss::Project => Attention::new(what, "fleet doctor --fix"),
        Loss::Tail { .. } => Attention::new(what, "fleet restore FILE").otherwise("fleet resume"),
    }
}

/// The first of many, and how many more there are.
fn few(mut all: Vec<Attention>, what: &str, command: &str) -> Vec<Attention> {
    if all.len() > NAMED {
        let more = all.len() - NAMED;
        all.truncate(NAMED);
        all.push(Attention::new(format!("and {more} more {what}"), command));
    }
    all
}
