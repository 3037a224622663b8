//! A checkpoint of ours as seed E's document.

use super::delta::task_label;
use crate::checkpoint::Checkpoint;
use crate::dialect::field::{Extra, Maybe, Stamp};
use crate::dialect::recovery::{
    self, BacklogItem, CheckpointReason, Context, Phase, State, Tasks, Timestamp, TokenUsage,
    backlog_snapshot,
};
use crate::mission::Mission;
use crate::sortie::{Sortie, SortieStatus};

/// Seed E's document of a checkpoint: `mission` and `sorties` as the checkpoint names them. One that was
/// consumed by a full sync has an empty timestamp: nothing resumes from it any more.
#[must_use]
pub fn recovery_document(
    checkpoint: &Checkpoint,
    mission: &Mission,
    sorties: &[Sortie],
) -> recovery::Checkpoint {
    let cut = &checkpoint.cut;
    let of = cut.agent_context.as_ref();
    let mut sorties: Vec<&Sortie> = sorties.iter().collect();
    sorties.sort_by_key(|sortie| sortie.position);
    let labels = |wanted: &dyn Fn(&Sortie) -> bool| -> Vec<String> {
        let found = sorties.iter().filter(|it| wanted(it));
        found.map(|it| task_label(it)).collect()
    };
    let begun = |it: &Sortie| {
        matches!(it.status, SortieStatus::InProgress | SortieStatus::Blocked) || it.is_interrupted()
    };
    // The task the context was at comes first: it is the one to go on with.
    let mut doing = labels(&begun);
    let at = of.and_then(|of| of.sortie_id);
    let at = sorties.iter().find(|sortie| Some(sortie.id) == at);
    if let Some(at) = at {
        let label = task_label(at);
        doing.sort_by_key(|task| *task != label);
    }
    let backlog = sorties
        .iter()
        .filter(|it| matches!(it.status, SortieStatus::Pending | SortieStatus::Assigned))
        .filter(|it| !it.is_interrupted())
        .map(|it| BacklogItem::new(task_label(it), it.title.to_string()));
    let timestamp = match checkpoint.consumed_at {
        Some(_) => Timestamp::Empty,
        None => Timestamp::At(Stamp::exact(cut.timestamp)),
    };
    let mut document = recovery::Checkpoint::new(timestamp);
    document.reason = Maybe::Is(CheckpointReason::of(cut.reason));
    document.token_usage = of
        .map(|of| TokenUsage {
            total: of.tokens.and_then(|it| it.used).map(Into::into).into(),
            percentage: of.tokens.map(|it| u64::from(it.percent).into()).into(),
            mode: Maybe::Is(of.mode.as_str().to_owned()),
            extra: Extra::default(),
        })
        .into();
    document.state = Maybe::Is(State {
        completed_tasks: Maybe::Is(labels(&|it| it.status == SortieStatus::Completed)),
        in_progress: Maybe::Is(match doing.len() {
            1 => Tasks::One(doing.remove(0)),
            _ => Tasks::Many(doing),
        }),
        backlog_snapshot: Maybe::Is(backlog_snapshot(backlog)),
        current_phase: mission
            .phase
            .as_ref()
            .map(|it| Phase::from_word(it.as_str()))
            .into(),
        extra: Extra::default(),
    });
    let stack = of
        .and_then(|of| of.stack_id.as_ref())
        .or(mission.stack_id.as_ref());
    let objective = mission.objective.as_ref().map(ToString::to_string);
    document.context = Maybe::Is(Context {
        stack_id: stack.map(ToString::to_string).into(),
        current_sprint: mission.sprint.as_ref().map(ToString::to_string).into(),
        active_objective: Maybe::Is(objective.unwrap_or_else(|| mission.title.to_string())),
        extra: Extra::default(),
    });
    let remaining = of.map(|of| &of.remaining).filter(|steps| !steps.is_empty());
    document.next_steps = Maybe::Is(
        remaining
            .unwrap_or(&cut.recovery_context.next_steps)
            .clone(),
    );
    let deltas = of.into_iter().flat_map(|of| &of.delta_changes);
    document.delta_changes = Maybe::Is(deltas.map(super::DeltaChange::to_delta).collect());
    document.resume_instructions = at.map(|sortie| instructions(sortie)).into();
    document
}

/// How to go on: what the sortie says of it, else what the seed's example does.
fn instructions(sortie: &Sortie) -> String {
    match &sortie.resume_instructions {
        Some(instructions) => instructions.to_string(),
        None => format!(
            "Load recovery context, complete {} {}, run tests, then full sync and return to standard mode.",
            task_label(sortie),
            sortie.title
        ),
    }
}
