//! Taking a checkpoint: one row, and the hash of what it names.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use flightline_core::agent::Agent;
use flightline_core::checkpoint::{
    Backup, Checkpoint, CheckpointStatus, Cut, Digest, Reason, SectionDigest, Trigger, VERSION,
    sections,
};
use flightline_core::context::{AgentContext, DeltaChange, changes};
use flightline_core::event::{Event, EventType};
use flightline_core::message::DeliveryState;
use flightline_core::mission::Mission;
use flightline_core::recovery::{RecoveryContext, Situation, recovery_context};
use flightline_core::sortie::{Sortie, SortieError, SortieFile, SortieStatus};
use flightline_core::text::NoteText;
use flightline_core::{AgentId, CheckpointId, Kind, SortieId, Time};
use flightline_store::{Actor, Find};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::surplus::{hold_maximum, surplus_of_next};
use super::{CheckpointDocument, Contents};
use crate::agent::context::{agent_context, last_figures};
use crate::error::Result;
use crate::fleet::{Access, ActsFor, Operation, Scope};
use crate::mail::deadline::notice_overdue;
use crate::op_context::OpContext;
use crate::recovery::undone::Undone;
use crate::remote::Offline;

/// How many sorties that wait are looked at for the next steps.
const PENDING_LOOKED_AT: u64 = 50;

/// So much work of the past is read at once.
const WORK_LOOKED_AT: u64 = 64;

/// Up to so many sorties are read in one go; of more, only those that are looked at.
const READ_AT_ONCE: u64 = 200;

/// Takes a checkpoint.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TakeCheckpoint {
    /// Of which mission; the current one when none is named.
    pub mission: Option<String>,
    /// Why; by default because the caller asked.
    pub reason: Option<Reason>,
    /// More about why.
    pub details: Option<NoteText>,
    /// What to remember about it.
    pub note: Option<NoteText>,
}

impl Operation for TakeCheckpoint {
    const NAME: &'static str = "take_checkpoint";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Agent;
    const OFFLINE: Offline = Offline::Kept;
    type Outcome = CheckpointDocument;

    fn acts_for(&self) -> ActsFor<'_> {
        ActsFor::Caller
    }

    /// It is taken on delivery, after what came before it, and says when it was asked for.
    fn for_later(&self, asked_at: Time) -> Result<String> {
        let when = format!("asked for at {asked_at}, while the server could not be reached");
        let details = match self.details.as_ref().or(self.note.as_ref()) {
            Some(details) => format!("{details} ({when})"),
            None => when,
        };
        // A text that becomes too long is kept without the details.
        let details = NoteText::parse("details", &details).ok();
        crate::fleet::to_json(&Self {
            details: details.or_else(|| self.details.clone()),
            ..self.clone()
        })
    }

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<CheckpointDocument> {
        notice_overdue(ctx)?;
        let mission = ctx.mission(self.mission.as_deref())?;
        let reason = self.reason.unwrap_or(Reason::Manual);
        let details = self
            .details
            .as_ref()
            .or(self.note.as_ref())
            .map(ToString::to_string);
        let taking = NewCheckpoint {
            mission: &mission,
            reason,
            details: details.clone(),
            note: self.note.clone(),
            // A failure is a blocker for the agent that goes on from here.
            blockers: match reason.trigger() {
                Trigger::Error => details.iter().cloned().collect(),
                Trigger::Progress | Trigger::Manual | Trigger::Compaction => Vec::new(),
            },
        };
        let of = match ctx.agent.clone().filter(|_| reason.ends_context()) {
            Some(agent) => {
                let tokens = last_figures(ctx, &agent)?;
                Some(agent_context(ctx, &agent, &mission, tokens)?)
            }
            None => None,
        };
        let before = ctx.tx.rev();
        let checkpoint = take_for(ctx, &taking, of, Same::AskedFor)?;
        match just_taken(ctx, &checkpoint, before)? {
            // Its file cannot have been written yet.
            Some(contents) => super::document_in_full(ctx, &checkpoint, &contents, Backup::Pending),
            None => super::document(ctx, &checkpoint),
        }
    }
}

/// What a checkpoint names, when it was taken in this very transaction, after `before`: then that is what the
/// subjects' rows hold, and the journal need not be looked through for it. It was hashed a moment ago, in this transaction; where a
/// text is damaged, [`super::load`] finds out.
fn just_taken(
    ctx: &mut OpContext<'_, '_>,
    checkpoint: &Checkpoint,
    before: u64,
) -> Result<Option<Contents>> {
    if checkpoint.cut.rev != before {
        return Ok(None);
    }
    let (cut, mission) = (&checkpoint.cut, checkpoint.cut.mission_id);
    let remembered = Contents::remembered(ctx.tx, mission)?;
    if remembered.is_some() && !cfg!(debug_assertions) {
        return Ok(remembered);
    }
    let contents = ctx.tx.values_now(mission)?.map(Contents::new);
    if let Some(contents) = &contents {
        debug_assert_eq!(contents.sections(cut.digest), cut.sections);
    }
    if let (Some(remembered), Some(contents)) = (&remembered, &contents) {
        let (known, found) = (remembered.views()?, contents.views()?);
        debug_assert_eq!(known.sorties, found.sorties);
        debug_assert_eq!(known.active_locks, found.active_locks);
        debug_assert_eq!(known.pending_messages, found.pending_messages);
    }
    Ok(remembered.or(contents))
}

pub(crate) struct NewCheckpoint<'a> {
    pub(crate) mission: &'a Mission,
    pub(crate) reason: Reason,
    pub(crate) details: Option<String>,
    pub(crate) note: Option<NoteText>,
    pub(crate) blockers: Vec<String>,
}

/// Takes a checkpoint of the state as it is in this transaction. Nothing has changed since the last one
/// for the same reason: that one is returned.
pub(crate) fn take(ctx: &mut OpContext<'_, '_>, taking: &NewCheckpoint<'_>) -> Result<Checkpoint> {
    take_for(ctx, taking, None, Same::State)
}

/// Takes the checkpoint that a caller wants together with another act.
pub(crate) fn take_asked(ctx: &mut OpContext<'_, '_>, mission: &Mission) -> Result<Checkpoint> {
    let taking = NewCheckpoint {
        mission,
        reason: Reason::Manual,
        details: None,
        note: None,
        blockers: Vec::new(),
    };
    take_for(ctx, &taking, None, Same::AskedFor)
}

/// What makes a checkpoint the one that is wanted again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Same {
    /// That nothing has changed since: Flightline takes it by itself.
    State,
    /// That it was asked for by the same caller in the same words, too.
    AskedFor,
}

/// Takes a checkpoint for an agent's context that is full, or ends, if `of` is given.
pub(crate) fn take_for(
    ctx: &mut OpContext<'_, '_>,
    taking: &NewCheckpoint<'_>,
    of: Option<AgentContext>,
    sameness: Same,
) -> Result<Checkpoint> {
    let mission = taking.mission;
    let now = ctx.tx.sections(mission.id)?;
    // A checkpoint since then has left an event since then.
    let mut taken = false;
    let newest = ctx.tx.newest_work(mission.id, |event| {
        taken |= event.subject_kind == Kind::Checkpoint;
        true
    })?;
    taken |= newest.past_others;
    let changed = newest.event.map(|event| event.rev);
    let since = match changed {
        Some(_) if !taken => Vec::new(),
        changed => taken_since(ctx, mission, changed)?,
    };
    // Those of before an upgrade are compared as they were hashed.
    let first = match since.iter().any(|same| same.cut.digest == Digest::Lines) {
        true => sections(ctx.tx.lines(mission.id)?, Digest::Lines),
        false => BTreeMap::new(),
    };
    let now_in = |digest: Digest| match digest {
        Digest::Lines => &first,
        Digest::Buckets => &now,
    };
    let by = author(ctx);
    let same_words = |same: &Checkpoint| match sameness {
        Same::State => true,
        Same::AskedFor => same.cut.trigger_details == taking.details && same.cut.created_by == by,
    };
    let same = since.into_iter().find(|same| {
        same.cut.reason == taking.reason
                && same_words(same)
                && same.cut.timeline == mission.timeline
                && same.status != CheckpointStatus::Corrupted
                && taking.note.is_none()
                // Each context has one of its own, until nothing is left to resume from it.
                && same.consumed_at.is_none()
                && match (&same.cut.agent_context, &of) {
                    (Some(same), Some(of)) => same.is_same(of),
                    (same, of) => same.is_some() == of.is_some(),
                }
                // Two failures are two causes, even when nothing changed between them; and a checkpoint before a push
                // does not serve an agent that is about to deploy.
                && (!is_particular(taking.reason)
                    || same.cut.trigger_details == taking.details)
                && changed.is_none_or(|changed| changed <= same.cut.rev)
                && same_work(&same.cut.sections, now_in(same.cut.digest))
    });
    if let Some(same) = same {
        return Ok(same);
    }
    let id = CheckpointId::new(ctx.tx.uuid());
    record(ctx, taking, id, of, now)
}

/// Takes a checkpoint that has its id already, whether or not another holds the same.
pub(crate) fn take_as(
    ctx: &mut OpContext<'_, '_>,
    taking: &NewCheckpoint<'_>,
    id: CheckpointId,
) -> Result<Checkpoint> {
    let sections = ctx.tx.sections(taking.mission.id)?;
    record(ctx, taking, id, None, sections)
}

fn record(
    ctx: &mut OpContext<'_, '_>,
    taking: &NewCheckpoint<'_>,
    id: CheckpointId,
    of: Option<AgentContext>,
    sections: BTreeMap<String, SectionDigest>,
) -> Result<Checkpoint> {
    let mission = taking.mission;
    let (rev, now) = (ctx.tx.rev(), ctx.now());
    let progress = ctx.progress(mission.id)?;
    let context = context(ctx, mission, taking.blockers.clone())?;
    let sorties: BTreeMap<String, u64> = ctx
        .tx
        .counts(Kind::Sortie, Find::Mission(mission.id))?
        .into_iter()
        .collect();
    let messages = open_messages(ctx, mission)?;
    let agent_context = match of {
        Some(of) => Some(AgentContext {
            delta_changes: delta_changes(ctx, mission)?,
            ..of
        }),
        None => None,
    };
    let cut = Cut {
        mission_id: mission.id,
        rev,
        timeline: mission.timeline,
        timestamp: now,
        trigger: taking.reason.trigger(),
        reason: taking.reason,
        trigger_details: taking.details.clone(),
        progress_percent: progress.percent(),
        sorties,
        locks: sections.get("locks").map_or(0, |section| section.count),
        messages,
        sections,
        recovery_context: context,
        created_by: author(ctx),
        version: VERSION.to_owned(),
        agent_context,
        digest: Digest::NEW,
    };
    let checkpoint = Checkpoint {
        id,
        sha256: cut.sha256(),
        status: CheckpointStatus::Valid,
        pinned_at: None,
        note: taking.note.clone(),
        imported: None,
        consumed_at: None,
        resumed_by: None,
        taken_in: None,
        cut,
    };
    let cut = &checkpoint.cut;
    let data = json!({
        "checkpoint_id": checkpoint.id,
        "mission_id": mission.id,
        "trigger": cut.trigger,
        "reason": cut.reason,
        "progress_percent": cut.progress_percent,
        "sortie_count": cut.sortie_count(),
        "lock_count": cut.locks,
        "message_count": cut.messages,
    });
    let surplus = surplus_of_next(ctx, mission, taking.reason)?;
    ctx.tx
        .set(EventType::FleetCheckpointed, &checkpoint, &data)?;
    ctx.tx.set_backup(checkpoint.id, &Backup::Pending)?;
    hold_maximum(ctx, mission, surplus)?;
    Ok(checkpoint)
}

/// Whether a reason is one of many: what it is about counts.
fn is_particular(reason: Reason) -> bool {
    reason.trigger() == Trigger::Error || reason == Reason::BeforeDestructive
}

/// The changes on a mission since its last checkpoint; none when that one is damaged.
fn delta_changes(ctx: &mut OpContext<'_, '_>, mission: &Mission) -> Result<Vec<DeltaChange>> {
    let archived = Some(CheckpointStatus::Archived.as_str());
    let last = ctx.tx.newest::<Checkpoint>(mission.id, archived, 1)?;
    let before = match last.first() {
        None => Vec::new(),
        Some(last) => match super::load(ctx, last) {
            Ok(contents) => contents.of::<Sortie>()?,
            Err(error) if error.is_damage() => return Ok(Vec::new()),
            Err(error) => return Err(error),
        },
    };
    let mut now = ctx.tx.find::<Sortie>(Find::Mission(mission.id))?;
    now.sort_by_key(|sortie| sortie.position);
    Ok(changes(&before, &now))
}

/// The checkpoints taken since the last change of a mission: the only ones that can hold the same. One that is
/// damaged is the same as nothing.
fn taken_since(
    ctx: &mut OpContext<'_, '_>,
    mission: &Mission,
    changed: Option<u64>,
) -> Result<Vec<Checkpoint>> {
    let archived = Some(CheckpointStatus::Archived.as_str());
    let since =
        |checkpoint: &Checkpoint| changed.is_none_or(|changed| checkpoint.cut.rev >= changed);
    // Almost always there is none, and the newest says so.
    let mut limit = 1;
    loop {
        let mut taken = ctx.tx.newest::<Checkpoint>(mission.id, archived, limit)?;
        let all = (taken.len() as u64) < limit;
        // One that came back from a file, which is imported or pinned, may be of long ago and newest all the same.
        let native = |it: &&Checkpoint| it.imported.is_none() && it.pinned_at.is_none();
        let older = taken.iter().filter(native).any(|it| !since(it));
        taken.retain(since);
        if all || older {
            return Ok(taken);
        }
        limit *= 16;
    }
}

/// The author of a checkpoint: the caller, or Flightline for what only it noticed.
fn author(ctx: &OpContext<'_, '_>) -> String {
    let flightline = Actor::flightline();
    if *ctx.tx.actor() == flightline {
        flightline.name
    } else {
        ctx.actor()
    }
}

/// Whether two cuts hold the same work. Agents' own records do not count, and of mail only acts on it
/// ([`last_change`]): an idle fleet makes no checkpoints.
fn same_work(a: &BTreeMap<String, SectionDigest>, b: &BTreeMap<String, SectionDigest>) -> bool {
    ["mission", "sorties", "locks", "notes", "effects"]
        .iter()
        .all(|name| a.get(*name) == b.get(*name))
}

fn open_messages(ctx: &mut OpContext<'_, '_>, mission: &Mission) -> Result<u64> {
    let counts = ctx.tx.counts(Kind::Delivery, Find::Mission(mission.id))?;
    let acknowledged = "acknowledged";
    debug_assert_eq!(
        DeliveryState::Acknowledged {
            at: Time::from_millis(0)
        }
        .as_str(),
        acknowledged
    );
    Ok(counts
        .into_iter()
        .filter(|(status, _)| status != acknowledged)
        .map(|(_, count)| count)
        .sum())
}

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
    let situation = Situation {
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
    /// Those that are held or failed, and the first that wait, oldest first.
    sorties: Vec<Arc<Sortie>>,
    /// Those that nothing waits for any more, as far as one of these could wait for them.
    settled: BTreeSet<SortieId>,
    /// How many of those there are in all.
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
            // It may be one that is not looked at: those that are, are read one by one.
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
        owners.extend(ctx.tx.get_shared::<Agent>(&id.to_string())?);
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
    // An event recorded before a document came in may have happened after what the document tells.
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

/// Whether an agent or a person did this, and not a mailbox.
fn is_act(event: &Event) -> bool {
    event.is_work()
        && event.subject_kind != Kind::Delivery
        && !(event.subject_kind == Kind::Message && tells_progress(event))
}

/// Whether a message only tells of a report. In older journals only seed B's words say so.
fn tells_progress(event: &Event) -> bool {
    let subject = event.data["subject"].as_str();
    event.is_bookkeeping() || subject.is_some_and(|it| it.starts_with("@orchestrator"))
}

/// The revision of the last change of a mission that was not made by checkpointing, notifying or
/// detecting.
pub(crate) fn last_change(ctx: &mut OpContext<'_, '_>, mission: &Mission) -> Result<Option<u64>> {
    let change = ctx.tx.newest_work(mission.id, |_| true)?;
    Ok(change.event.map(|event| event.rev))
}
