//! Takes a checkpoint: one row, and the hash of the values that it names.

use crate::Schema;
use std::collections::BTreeMap;

use flightline_core::checkpoint::{
    Backup, Checkpoint, CheckpointStatus, Cut, Digest, Reason, SectionDigest, Trigger, VERSION,
    sections,
};
use flightline_core::context::{AgentContext, DeltaChange, changes};
use flightline_core::event::EventType;
use flightline_core::message::DeliveryState;
use flightline_core::mission::Mission;
use flightline_core::sortie::Sortie;
use flightline_core::text::NoteText;
use flightline_core::{CheckpointId, Kind, Time};
use flightline_store::{Actor, Find};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::recovery_context::context;
use super::surplus::{hold_maximum, surplus_of_next};
use super::{CheckpointDocument, Contents};
use crate::agent::context::{agent_context, last_figures};
use crate::error::Result;
use crate::fleet::{Access, ActsFor, Operation, Scope};
use crate::mail::deadline::notice_overdue;
use crate::op_context::OpContext;
use crate::remote::Offline;

/// Takes a checkpoint of a mission.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
pub struct TakeCheckpoint {
    /// The mission of which the checkpoint is taken; the current one when none is named.
    pub mission: Option<String>,
    /// The reason for the checkpoint; by default that the caller asked for it.
    pub reason: Option<Reason>,
    /// Further details of the reason.
    pub details: Option<NoteText>,
    /// A note to keep with the checkpoint.
    pub note: Option<NoteText>,
}

impl Operation for TakeCheckpoint {
    const NAME: &'static str = "take_checkpoint";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Agent;
    const OFFLINE: Offline = Offline::Kept;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = CheckpointDocument;

    /// Builds the request to queue: the checkpoint is taken after everything queued before it, and tells when it
    /// was asked for.
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
            // The file of the checkpoint cannot have been written yet.
            Some(contents) => super::document_in_full(ctx, &checkpoint, &contents, Backup::Pending),
            None => super::document(ctx, &checkpoint),
        }
    }
}

/// Returns the values that a checkpoint names, when it was taken in this transaction, after `before`: then the
/// subjects' rows hold them, and the journal need not be searched. They were hashed a moment ago; where a text is
/// damaged, [`super::load`] finds out.
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

/// The condition under which an existing checkpoint answers a request for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Same {
    /// Nothing has changed since: for checkpoints that Flightline takes by itself.
    State,
    /// Nothing has changed since, and the same caller asked for it in the same words.
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
    // Checkpoints from before an upgrade are compared as they were hashed.
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

/// Returns true when a reason is one of many: then its details count too.
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
        // A checkpoint that came back from a file, which is imported or pinned, may be old and the newest all the
        // same.
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

/// Returns true when two cuts hold the same work. Agents' own records do not count, and of mail only acts on it
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

/// The revision of the last change of a mission that was not made by checkpointing, notifying or
/// detecting.
pub(crate) fn last_change(ctx: &mut OpContext<'_, '_>, mission: &Mission) -> Result<Option<u64>> {
    let change = ctx.tx.newest_work(mission.id, |_| true)?;
    Ok(change.event.map(|event| event.rev))
}
