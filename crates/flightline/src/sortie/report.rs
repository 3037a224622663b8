//! Records the reports of a sortie's owner: progress, subtasks, files, errors, reviews.

use crate::Schema;
use std::collections::BTreeMap;

use flightline_core::checkpoint::Reason;
use flightline_core::event::EventType;
use flightline_core::sortie::{
    Declared, FileChange, Review, Sortie, SortieError, SortieFile, SortieStatus, Subtask,
    SubtaskStatus,
};
use flightline_core::text::NoteText;
use flightline_core::{Code, Name, Refusal, RepoPath, Subject, Title};
use flightline_store::Find;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::change::{check_move, check_owner};
use super::{SortieView, subtask_progress, view};
use crate::checkpoint::milestone::catch_up;
use crate::checkpoint::take::take_asked;
use crate::checkpoint::trigger::{error as trigger_error, first_of};
use crate::error::Result;
use crate::fleet::{Access, ActsFor, Operation, Scope, WhenFull};
use crate::mail::progress::post_progress;
use crate::mission::short;
use crate::op_context::OpContext;
use crate::remote::Offline;

/// Reports progress of a sortie. Fields that are left out stay as they are.
#[derive(Clone, Debug, Default, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct UpdateSortie {
    /// The sortie to report on.
    pub sortie: String,
    /// The progress in the owner's words.
    pub note: Option<NoteText>,
    /// Subtasks and the new status of each.
    #[serde(default)]
    pub subtasks: Vec<SubtaskReport>,
    /// Counts of all, completed and failed subtasks, when the subtasks are not listed.
    pub declared: Option<Declared>,
    /// Files created, modified or deleted.
    #[serde(default)]
    pub files: Vec<FileReport>,
    /// Number of changed lines per file, where known.
    #[serde(default)]
    pub changed_lines: BTreeMap<RepoPath, u64>,
    /// Acceptance criteria by name, each true when it is met.
    #[serde(default)]
    pub criteria: BTreeMap<Name, bool>,
    /// The item that was processed last.
    pub last_processed: Option<Title>,
    /// The item that comes next.
    pub next_to_process: Option<Title>,
    /// Further notes on the current position.
    pub cursor_notes: Option<NoteText>,
    /// True when the sortie can be resumed after an interruption.
    pub resumable: Option<bool>,
    /// Instructions for resuming the sortie.
    pub resume_instructions: Option<NoteText>,
    /// Tokens that the agent's model read since the last report.
    #[serde(default)]
    pub tokens_in: u64,
    /// Tokens that the agent's model wrote since the last report.
    #[serde(default)]
    pub tokens_out: u64,
    /// Take a checkpoint of the mission in the same commit.
    #[serde(default)]
    pub checkpoint: bool,
}

/// The status of a subtask.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct SubtaskReport {
    /// The name of the subtask within its sortie; a new name adds a subtask.
    pub name: Name,
    /// The title of the subtask.
    pub title: Option<Title>,
    /// The new status of the subtask.
    pub status: SubtaskStatus,
    /// The result of the subtask.
    pub output: Option<Title>,
}

/// The report of a changed file.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct FileReport {
    /// The path of the file.
    pub path: RepoPath,
    /// The change that was made to the file.
    pub change: FileChange,
}

/// Reports an error met in a sortie.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct ReportError {
    /// The sortie in which the error happened.
    pub sortie: String,
    /// The kind of the error, such as `api_error`.
    pub kind: Name,
    /// The status code, when it came from an API.
    pub status: Option<u16>,
    /// The text of the error.
    pub message: NoteText,
    /// True when work cannot go on: the sortie becomes blocked.
    #[serde(default)]
    pub blocking: bool,
}

/// Marks the open errors of a sortie as cleared.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct ClearErrors {
    /// The sortie whose errors are cleared.
    pub sortie: String,
}

/// Records a review of a sortie.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct AddReview {
    /// The sortie that was reviewed.
    pub sortie: String,
    /// The name of the reviewer; the acting agent when none is named.
    pub reviewer: Option<Name>,
    /// The score; a review without one is a request for a review.
    pub score: Option<i64>,
    /// The reviewer's comment.
    pub note: Option<NoteText>,
}

impl Operation for UpdateSortie {
    const NAME: &'static str = "update_sortie";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Agent;
    const WHEN_FULL: WhenFull = WhenFull::UsesReserve;
    const OFFLINE: Offline = Offline::Kept;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = SortieView;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<SortieView> {
        let mut sortie = ctx.sortie(&self.sortie)?;
        check_owner(ctx, &sortie, "update")?;
        refuse_ended(&sortie, "update")?;
        if let Some(unknown) = self
            .criteria
            .keys()
            .find(|name| !sortie.acceptance_criteria.contains_key(name))
        {
            // A criterion that appears only when it is met would hide one that was mistyped.
            if !sortie.acceptance_criteria.is_empty() {
                let known: Vec<&str> = sortie
                    .acceptance_criteria
                    .keys()
                    .map(Name::as_str)
                    .collect();
                return Err(Refusal::invalid(format!(
                    "`{unknown}` is not a criterion of {}",
                    short(sortie.id)
                ))
                .hint(format!("its criteria: {}", known.join(", ")))
                .into());
            }
        }
        let now = ctx.now();
        let completed_before = sortie.declared.unwrap_or_default().completed;
        sortie.progress_notes = self.note.clone().or(sortie.progress_notes);
        sortie.declared = self.declared.or(sortie.declared);
        sortie.acceptance_criteria.extend(self.criteria.clone());
        let cursor = &mut sortie.cursor;
        cursor.last_processed = self.last_processed.clone().or(cursor.last_processed.take());
        cursor.next_to_process = self
            .next_to_process
            .clone()
            .or(cursor.next_to_process.take());
        cursor.notes = self.cursor_notes.clone().or(cursor.notes.take());
        sortie.resumable = self.resumable.unwrap_or(sortie.resumable);
        sortie.resume_instructions = self
            .resume_instructions
            .clone()
            .or(sortie.resume_instructions);
        let tokens = &mut sortie.token_usage;
        tokens.input = tokens.input.saturating_add(self.tokens_in);
        tokens.output = tokens.output.saturating_add(self.tokens_out);
        sortie.updated_at = now;
        sortie.interrupted = None;
        for report in &self.subtasks {
            let was = record_subtask(ctx, &sortie, report)?;
            // Counts that are declared here hold these subtasks already.
            if let (None, Some(declared)) = (self.declared, &mut sortie.declared) {
                declared.count(was, report.status);
            }
        }
        for report in &self.files {
            record_file(ctx, &sortie, report)?;
        }
        let progress = subtask_progress(ctx, &sortie)?;
        ctx.tx.set(
            EventType::SortieProgress,
            &sortie,
            &json!({ "note": self.note, "percent": progress.percent }),
        )?;
        post_progress(ctx, &sortie)?;
        catch_up(ctx, sortie.mission_id)?;
        let mission = ctx.mission_of(sortie.mission_id)?;
        let mut reasons = self.reasons(&sortie, ctx.policy.significant_lines);
        if let Some(counts) = self.declared.filter(|it| it.completed > completed_before) {
            let details = format!(
                "Completed {} of {} subtasks",
                counts.completed, counts.total
            );
            reasons.insert(0, (Reason::SubtaskDone, details));
        }
        let checkpoint = match (first_of(ctx, &mission, reasons)?, self.checkpoint) {
            (None, true) => Some(take_asked(ctx, &mission)?.id),
            (taken, _) => taken,
        };
        Ok(SortieView {
            checkpoint,
            ..view(ctx, sortie)?
        })
    }
}

impl UpdateSortie {
    /// Returns the reasons in this report that may be worth a checkpoint, with their details.
    fn reasons(&self, sortie: &Sortie, significant_lines: u64) -> Vec<(Reason, String)> {
        let done = self
            .subtasks
            .iter()
            .filter(|subtask| subtask.status == SubtaskStatus::Complete)
            .map(|subtask| (Reason::SubtaskDone, format!("Completed {}", subtask.name)));
        let created = self
            .files
            .iter()
            .filter(|file| file.change == FileChange::Created)
            .map(|file| (Reason::FileCreated, format!("Created {}", file.path)));
        let modified = self
            .files
            .iter()
            .filter(|file| {
                file.change == FileChange::Modified
                    && (sortie.files.contains(&file.path)
                        || self
                            .changed_lines
                            .get(&file.path)
                            .is_some_and(|lines| *lines > significant_lines))
            })
            .map(|file| (Reason::FileModified, format!("Changed {}", file.path)));
        done.chain(created).chain(modified).collect()
    }
}

impl Operation for ReportError {
    const NAME: &'static str = "report_error";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Agent;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = SortieView;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<SortieView> {
        let mut sortie = ctx.sortie(&self.sortie)?;
        check_owner(ctx, &sortie, "report an error on")?;
        refuse_ended(&sortie, "report an error on")?;
        if let Some(status) = self.status.filter(|status| !(100..=599).contains(status)) {
            return Err(Refusal::invalid(format!("{status} is not a status code"))
                .hint("a status code lies between 100 and 599")
                .into());
        }
        let number = ctx
            .tx
            .rows(flightline_core::Kind::Error, Find::Parent(&sortie.key()))?
            .len() as u64
            + 1;
        let error = SortieError {
            sortie_id: sortie.id,
            mission_id: sortie.mission_id,
            number,
            kind: self.kind.clone(),
            status: self.status,
            message: self.message.clone(),
            blocking: self.blocking,
            timestamp: ctx.now(),
            cleared_at: None,
        };
        let data = json!({ "type": error.kind, "status": error.status, "message": error.message, "blocking": error.blocking });
        ctx.tx.set(EventType::SortieError, &error, &data)?;
        if self.blocking && sortie.status != SortieStatus::Blocked {
            check_move(&sortie, SortieStatus::Blocked, "block")?;
            sortie.status = SortieStatus::Blocked;
            sortie.blocked_reason = Some(self.message.clone());
            sortie.updated_at = ctx.now();
            ctx.tx.set(
                EventType::SortieBlocked,
                &sortie,
                &json!({ "reason": self.message }),
            )?;
        }
        let mission = ctx.mission_of(sortie.mission_id)?;
        let api = self.kind.as_str() == "api_error" || self.status.is_some();
        let status = self
            .status
            .map_or_else(String::new, |status| format!(" {status}"));
        let details = format!("{}{status}: {}", self.kind, self.message);
        if api {
            trigger_error(ctx, &mission, Reason::ApiError, details)?;
        } else if self.blocking || ctx.policy.every_error {
            trigger_error(ctx, &mission, Reason::Blocker, details)?;
        }
        catch_up(ctx, mission.id)?;
        view(ctx, sortie)
    }
}

impl Operation for ClearErrors {
    const NAME: &'static str = "clear_errors";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Agent;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = SortieView;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<SortieView> {
        let sortie = ctx.sortie(&self.sortie)?;
        check_owner(ctx, &sortie, "clear the errors of")?;
        for mut error in ctx.tx.find::<SortieError>(Find::Parent(&sortie.key()))? {
            if error.cleared_at.is_none() {
                error.cleared_at = Some(ctx.now());
                ctx.tx.set(
                    EventType::SortieErrorCleared,
                    &error,
                    &json!({ "number": error.number }),
                )?;
            }
        }
        view(ctx, sortie)
    }
}

impl Operation for AddReview {
    const NAME: &'static str = "add_review";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Agent;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> =
        |op| ActsFor::named(op.reviewer.as_ref().map(Name::as_str));
    type Outcome = SortieView;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<SortieView> {
        let sortie = ctx.sortie(&self.sortie)?;
        let reviewer = match (&self.reviewer, &ctx.agent) {
            (Some(reviewer), _) => reviewer.clone(),
            (None, Some(agent)) => agent.name.clone(),
            (None, None) => {
                return Err(Refusal::invalid("a review needs a reviewer")
                    .hint("give `--reviewer NAME`, or act as an agent with `--agent NAME`")
                    .into());
            }
        };
        let review = Review {
            sortie_id: sortie.id,
            mission_id: sortie.mission_id,
            reviewer,
            score: self.score,
            note: self.note.clone(),
            at: ctx.now(),
        };
        let data = json!({ "reviewer": review.reviewer, "score": review.score });
        ctx.tx.set(EventType::SortieReviewed, &review, &data)?;
        catch_up(ctx, sortie.mission_id)?;
        if let Some(score) = review.score {
            let mission = ctx.mission_of(sortie.mission_id)?;
            let details = format!("{} gave \"{}\" {score}", review.reviewer, sortie.title);
            first_of(ctx, &mission, vec![(Reason::ReviewDone, details)])?;
        }
        view(ctx, sortie)
    }
}

fn refuse_ended(sortie: &Sortie, verb: &str) -> Result<()> {
    if sortie.status.is_held() {
        return Ok(());
    }
    let (id, status) = (short(sortie.id), sortie.status.as_str());
    let hint = match sortie.status {
        SortieStatus::Completed => {
            format!("send it back first with `fleet sorties reject {id} --reason \"…\"`")
        }
        _ => format!("claim it first with `fleet sorties claim {id} --agent NAME`"),
    };
    Err(Refusal::new(
        Code::IllegalTransition,
        format!("cannot {verb} {id} (\"{}\"): it is {status}", sortie.title),
    )
    .hint(hint)
    .into())
}

/// Records where a subtask stands now. Where it stood before.
pub(crate) fn record_subtask(
    ctx: &mut OpContext<'_, '_>,
    sortie: &Sortie,
    report: &SubtaskReport,
) -> Result<Option<SubtaskStatus>> {
    let before = ctx
        .tx
        .get::<Subtask>(&format!("{}/{}", sortie.id, report.name))?;
    let was = before.as_ref().map(|before| before.status);
    let (title, output) = before.map_or((None, None), |before| (before.title, before.output));
    let subtask = Subtask {
        sortie_id: sortie.id,
        mission_id: sortie.mission_id,
        name: report.name.clone(),
        title: report.title.clone().or(title),
        status: report.status,
        output: report.output.clone().or(output),
        updated_at: ctx.now(),
    };
    ctx.tx.set(
        EventType::SubtaskUpdated,
        &subtask,
        &json!({ "status": subtask.status.as_str() }),
    )?;
    Ok(was)
}

pub(crate) fn record_file(
    ctx: &mut OpContext<'_, '_>,
    sortie: &Sortie,
    report: &FileReport,
) -> Result<()> {
    let before = ctx
        .tx
        .get::<SortieFile>(&format!("{}/{}", sortie.id, report.path))?;
    // A file that this sortie created and then modified is still a new file to all others.
    let change = match (before.map(|file| file.change), report.change) {
        (Some(FileChange::Created), FileChange::Modified) => FileChange::Created,
        (_, change) => change,
    };
    let file = SortieFile {
        sortie_id: sortie.id,
        mission_id: sortie.mission_id,
        path: report.path.clone(),
        change,
        by: ctx.actor(),
        at: ctx.now(),
    };
    let event = match change {
        FileChange::Created => EventType::FileCreated,
        FileChange::Modified => EventType::FileModified,
        FileChange::Deleted => EventType::FileDeleted,
    };
    ctx.tx.set(event, &file, &json!({ "path": file.path }))?;
    Ok(())
}
