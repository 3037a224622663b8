//! A checkpoint of ours as seed E's document.

use serde_json::json;

use super::delta::task_label;
use crate::checkpoint::Checkpoint;
use crate::dialect::recovery::{BACKLOG, VERSION, word_of};
use crate::dialect::{Dialect, DialectDocument, Json};
use crate::mission::Mission;
use crate::sortie::{Sortie, SortieStatus};

/// Seed E's document of a checkpoint: `mission` and `sorties` as the checkpoint names them. One that was
/// consumed by a full sync has an empty timestamp: nothing resumes from it any more.
pub fn recovery_document(
    checkpoint: &Checkpoint,
    mission: &Mission,
    sorties: &[Sortie],
) -> DialectDocument {
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
        .map(|it| json!({ "id": task_label(it), "title": it.title }));
    let stack = of.and_then(|of| of.stack_id.as_ref());
    let remaining = of.map(|of| &of.remaining).filter(|steps| !steps.is_empty());
    let mut document = DialectDocument::new(
        Dialect::Recovery,
        json!({
            "version": VERSION,
            "timestamp": match checkpoint.consumed_at {
                Some(_) => String::new(),
                None => cut.timestamp.to_shortest(),
            },
            "reason": word_of(cut.reason),
            "tokenUsage": of.map(|of| json!({
                "total": of.tokens.and_then(|it| it.used),
                "percentage": of.tokens.map(|it| it.percent),
                "mode": of.mode.as_str(),
            })),
            "state": {
                "completedTasks": labels(&|it| it.status == SortieStatus::Completed),
                "inProgress": match doing.as_slice() {
                    [task] => json!(task),
                    tasks => json!(tasks),
                },
                "backlogSnapshot": backlog.take(BACKLOG).collect::<Vec<_>>(),
                "currentPhase": mission.phase,
            },
            "context": {
                "STACK_ID": stack.or(mission.stack_id.as_ref()),
                "currentSprint": mission.sprint,
                "activeObjective": match &mission.objective {
                    Some(objective) => objective.as_str(),
                    None => mission.title.as_str(),
                },
            },
            "nextSteps": remaining.unwrap_or(&cut.recovery_context.next_steps),
            "resumeInstructions": at.map(|sortie| instructions(sortie)),
        }),
    );
    // The order of a change's keys is the seed's.
    let deltas = of.into_iter().flat_map(|of| &of.delta_changes);
    let deltas: Vec<Json> = deltas.map(super::DeltaChange::to_delta).collect();
    document.set("deltaChanges", deltas);
    document
}

/// Returns instructions for going on: those of the sortie, else those of the seed's example.
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
