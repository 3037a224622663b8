//! The remaining steps of a task that a full context cuts short.

use crate::agent::Agent;
use crate::sortie::{Sortie, Subtask, SubtaskStatus};

/// The remaining steps of a sortie, in the order to do them: where it stopped, its parts that are not complete, its owner's
/// next steps, the criteria that are not met, and its completion.
pub fn remaining_steps(
    sortie: &Sortie,
    subtasks: &[Subtask],
    owner: Option<&Agent>,
) -> Vec<String> {
    let mut steps = Vec::new();
    let mut add = |step: String| {
        if !steps.contains(&step) {
            steps.push(step);
        }
    };
    match (
        &sortie.cursor.next_to_process,
        &sortie.cursor.last_processed,
    ) {
        (Some(next), _) => add(format!("Continue with {next}")),
        (None, Some(last)) => add(format!("Go on after {last}")),
        (None, None) => {}
    }
    for (wanted, verb) in [
        (SubtaskStatus::InProgress, "Finish"),
        (SubtaskStatus::Failed, "Try again"),
        (SubtaskStatus::Pending, "Do"),
    ] {
        for subtask in subtasks.iter().filter(|subtask| subtask.status == wanted) {
            add(match &subtask.title {
                Some(title) => format!("{verb} {}: {title}", subtask.name),
                None => format!("{verb} {}", subtask.name),
            });
        }
    }
    let listed = subtasks.len() as u64;
    let done = subtasks
        .iter()
        .filter(|it| it.status == SubtaskStatus::Complete)
        .count() as u64;
    if let Some(declared) = sortie.declared {
        // Parts that were only counted: those that are neither listed nor among the completed ones.
        let hidden = declared.total.saturating_sub(listed);
        let open = hidden.saturating_sub(declared.completed.saturating_sub(done));
        if open > 0 {
            let noun = if open == 1 { "part" } else { "parts" };
            add(format!(
                "Do {open} more {noun} of {}, which are not listed",
                declared.total
            ));
        }
    }
    for step in owner.into_iter().flat_map(|agent| &agent.next_steps) {
        add(step.to_string());
    }
    let unmet = sortie.acceptance_criteria.iter().filter(|(_, met)| !**met);
    for (criterion, _) in unmet {
        add(format!("Meet the criterion {criterion}"));
    }
    add(format!("Complete \"{}\"", sortie.title));
    steps
}
