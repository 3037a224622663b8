//! The briefing that a checkpoint would have given: made of the values that it names, and of nothing since.

use super::peek::word;
use crate::Schema;
use flightline_core::agent::Agent;
use flightline_core::briefing::{
    AgentFacts, Budget, Cause, Facts, FileFact, FileMark, MailFact, Mode, Moment, Quote,
    SortieFacts, write,
};
use flightline_core::checkpoint::Checkpoint;
use flightline_core::effect::{Effect, EffectState};
use flightline_core::message::{Delivery, DeliveryState, Message};
use flightline_core::mission::Mission;
use flightline_core::note::{Note, NoteKind};
use flightline_core::recovery::{OwnContext, OwnWork, own_context};
use flightline_core::redact::shown;
use flightline_core::sortie::{
    Declared, Sortie, SortieError, SortieFile, Subtask, SubtaskProgress, SubtaskStatus,
};
use flightline_core::{CheckpointId, Code, Refusal};
use serde::{Deserialize, Serialize};

use super::constraints;
use crate::checkpoint::{self, Contents};
use crate::error::Result;
use crate::fleet::{Access, ActsFor, Operation, Scope};
use crate::mission::short;
use crate::op_context::OpContext;

/// Returns a checkpoint's recovery context as text: an agent's own, or that of the whole mission.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct BriefCheckpoint {
    /// The checkpoint's id; `@latest` for the newest.
    pub checkpoint: String,
    /// The agent to brief, as it was then.
    pub agent: Option<String>,
    /// Maximum number of tokens of the briefing.
    pub max_tokens: Option<usize>,
}

/// A checkpoint's briefing, and the facts it was made from.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
pub struct CheckpointBriefing {
    /// The checkpoint that the briefing is of.
    pub checkpoint_id: CheckpointId,
    /// The text of the briefing.
    pub text: String,
    /// The facts from which the briefing was made.
    pub facts: Facts,
}

impl Operation for BriefCheckpoint {
    const NAME: &'static str = "brief_checkpoint";
    const BRIEFS: bool = true;
    const ACCESS: Access = Access::Read;
    const SCOPE: Scope = Scope::Read;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = CheckpointBriefing;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<CheckpointBriefing> {
        let checkpoint = checkpoint::find(ctx, &self.checkpoint)?;
        let contents = checkpoint::load(ctx, &checkpoint)?;
        let facts = facts(&checkpoint, &contents, self.agent.as_deref())?;
        let nonce = word(ctx, &checkpoint.id.to_string())?;
        let mut budget = Budget::default();
        budget.max_tokens = self.max_tokens.unwrap_or(budget.max_tokens);
        Ok(CheckpointBriefing {
            checkpoint_id: checkpoint.id,
            text: write(&facts, &nonce, budget, Mode::Full)?,
            facts,
        })
    }
}

fn quote(author: &str, text: &str) -> Quote {
    Quote {
        author: author.to_owned(),
        text: text.to_owned(),
    }
}

fn facts(checkpoint: &Checkpoint, contents: &Contents, agent: Option<&str>) -> Result<Facts> {
    let agents: Vec<Agent> = contents.of()?;
    let agent = match agent {
        None => None,
        Some(wanted) => {
            let known =
                |agent: &&Agent| agent.name.as_str() == wanted || agent.id.to_string() == wanted;
            let found = agents.iter().find(known).ok_or_else(|| {
                let message = format!("there was no agent `{}` at that checkpoint", shown(wanted));
                Refusal::new(Code::NotFound, message)
            })?;
            Some(found)
        }
    };
    let missions: Vec<Mission> = contents.of()?;
    let title = missions
        .first()
        .map_or("", |mission| mission.title.as_str());
    let mut sorties: Vec<Sortie> = contents.of()?;
    sorties.sort_by_key(|sortie| sortie.position);
    sorties.retain(|sortie| {
        agent.is_some_and(|agent| sortie.assigned_to == Some(agent.id)) && sortie.status.is_held()
    });
    let mut notes: Vec<Note> = contents.of()?;
    notes.retain(Note::holds);
    let of = |kind: NoteKind| -> Vec<Quote> {
        let wanted = notes.iter().filter(|note| note.kind == kind);
        wanted
            .map(|note| quote(&note.author, &note.told()))
            .collect()
    };
    let effects: Vec<Effect> = contents.of()?;
    let described = |effect: &Effect| match &effect.what {
        Some(what) => quote(&effect.by, &format!("{}: {what}", effect.key)),
        None => quote(&effect.by, effect.key.as_str()),
    };
    let (done, begun): (Vec<&Effect>, Vec<&Effect>) = effects
        .iter()
        .partition(|effect| matches!(effect.state, EffectState::Done { .. }));
    let progress = match sorties.first() {
        Some(sortie) => Some(progress(contents, sortie)?),
        None => None,
    };
    let context = &checkpoint.cut.recovery_context;
    let own = own(contents, agent, &sorties, &notes, checkpoint)?;
    let files = own.files.into_iter().map(|path| FileFact {
        path,
        mark: FileMark::Claimed,
    });
    Ok(Facts {
        mission_title: quote("mission", title),
        mission_id: short(checkpoint.cut.mission_id),
        sortie: sorties.first().map(|sortie| SortieFacts {
            id: short(sortie.id),
            title: quote("sortie", &sortie.title),
            status: sortie.status,
            attempt: sortie.attempts,
            progress,
        }),
        agent: agent.map(|agent| AgentFacts {
            name: agent.name.clone(),
            epoch: agent.epoch,
            role: agent.role,
        }),
        checkpoint: Some(short(checkpoint.id)),
        rev: checkpoint.cut.rev,
        progress_percent: checkpoint.cut.progress_percent,
        last_action: Some(own.last_action),
        constraints: constraints(&notes),
        effects_done: done.into_iter().map(described).collect(),
        // The checkpoint does not tell whether these effects happened later.
        effects_in_doubt: begun.into_iter().map(described).collect(),
        next_steps: own.next_steps,
        blockers: own.blockers,
        files: files.collect(),
        decisions: of(NoteKind::Decision),
        dead_ends: of(NoteKind::DeadEnd),
        changes: Vec::new(),
        mail: mail(contents, agent)?,
        elapsed_ms: context.elapsed_time_ms,
        last_activity_at: Some(context.last_activity_at),
        mode: None,
        cause: Cause::Compaction,
        predecessor: None,
        moment: Moment::Checkpoint,
    })
}

fn progress(contents: &Contents, sortie: &Sortie) -> Result<SubtaskProgress> {
    let mut subtasks: Vec<Subtask> = contents.of()?;
    subtasks.retain(|subtask| subtask.sortie_id == sortie.id);
    let of = |status: SubtaskStatus| {
        let those = subtasks.iter().filter(|subtask| subtask.status == status);
        those.count() as u64
    };
    let listed = Declared {
        total: subtasks.len() as u64,
        completed: of(SubtaskStatus::Complete),
        failed: of(SubtaskStatus::Failed),
    };
    Ok(SubtaskProgress::of(sortie.status, listed, sortie.declared))
}

/// The agent's work at that time; the mission's for an agent without a sortie.
fn own(
    contents: &Contents,
    agent: Option<&Agent>,
    sorties: &[Sortie],
    notes: &[Note],
    checkpoint: &Checkpoint,
) -> Result<OwnContext> {
    let context = &checkpoint.cut.recovery_context;
    if sorties.is_empty() {
        let quotes =
            |items: &[String]| items.iter().map(|item| quote("flightline", item)).collect();
        return Ok(OwnContext {
            last_action: quote("flightline", &context.last_action),
            next_steps: quotes(&context.next_steps),
            blockers: quotes(&context.blockers),
            files: context.files_modified.clone(),
        });
    }
    let mine = |id| sorties.iter().any(|sortie| sortie.id == id);
    let mut errors: Vec<SortieError> = contents.of()?;
    errors.retain(|error| mine(error.sortie_id));
    let mut files: Vec<SortieFile> = contents.of()?;
    files.retain(|file| mine(file.sortie_id));
    Ok(own_context(&OwnWork {
        agent,
        sorties,
        errors: &errors,
        files: &files,
        notes,
        last_act: &context.last_action,
    }))
}

fn mail(contents: &Contents, agent: Option<&Agent>) -> Result<Vec<MailFact>> {
    let Some(agent) = agent else {
        return Ok(Vec::new());
    };
    let messages: Vec<Message> = contents.of()?;
    let mut deliveries: Vec<Delivery> = contents.of()?;
    deliveries.retain(|delivery| {
        delivery.to == agent.id
            && delivery.digest.is_none()
            && !matches!(delivery.state, DeliveryState::Acknowledged { .. })
    });
    let facts = deliveries.iter().filter_map(|delivery| {
        let message = messages.iter().find(|it| it.id == delivery.message_id)?;
        Some(MailFact {
            id: short(message.id),
            subject: quote(&message.from, &message.subject),
        })
    });
    Ok(facts.collect())
}
