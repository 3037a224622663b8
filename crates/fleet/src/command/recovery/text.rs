//! Renders a resume, or the plan of one, as text.

use super::tree;
use crate::app::DisplayIds;
use crate::ui::Page;
use flightline::core::Name;
use flightline::core::context::ContextMode;
use flightline::core::recovery::Analysis;
use flightline::recovery::resume::Resumed;
use flightline::recovery::start::SessionStart;
use flightline::status::Attention;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Tense {
    Would,
    Done,
}

pub(super) fn say(page: &mut Page, done: &Resumed, short: &DisplayIds, tense: Tense) {
    let context = &done.recovery_context;
    page.line(format_args!(
        "Resuming from checkpoint: {}",
        short.id(done.checkpoint_id)
    ));
    page.line(format_args!(
        "Mission: {} - \"{}\"",
        short.id(done.mission_id),
        done.mission_title
    ));
    page.line("");
    page.line("Recovery Context:");
    page.line(format_args!("- Last action: {}", context.last_action));
    page.line(format_args!(
        "- Progress: {}% ({}/{} sorties complete)",
        done.progress_percent, done.completed, done.total
    ));
    page.line("");
    page.line("Next Steps:");
    for (number, step) in (1..).zip(&context.next_steps) {
        page.line(format_args!("{number}. {step}"));
    }
    list(page, "Blockers:", &context.blockers);
    list(page, "Files Modified:", &tree::marked(context));
    if let Some(check) = &context.work_tree {
        let changes = tree::changes(check, context);
        if !changes.is_empty() {
            list(page, "Work Tree Since The Checkpoint:", &changes);
        }
    }
    if !done.requeued_sorties.is_empty() || !done.released_locks.is_empty() {
        let ids = done
            .requeued_sorties
            .iter()
            .map(|id| format!("{} is free to be claimed again", short.id(id)));
        let locks = done
            .released_locks
            .iter()
            .map(|file| format!("{file} is no longer locked"));
        list(
            page,
            "Taken from agents that are gone:",
            &ids.chain(locks).collect::<Vec<_>>(),
        );
    }
    if done.rewound {
        list(page, "Lost by going back:", &done.lost);
    }
    if !done.skipped_agents.is_empty() {
        let skipped = done.skipped_sorties.iter().zip(&done.skipped_agents);
        let skipped: Vec<String> = skipped
            .map(|(id, agent)| format!("{} ({agent})", short.id(id)))
            .collect();
        list(page, "Left out, because it failed:", &skipped);
    }
    if let Some(state) = &done.restored_state {
        let analysis = done.analysis.as_ref();
        let was = analysis.and_then(|analysis| analysis.resume_from_state.as_ref());
        page.line("");
        match was.filter(|was| *was != state) {
            Some(was) => page.line(format_args!("Workflow: {state} (set back from {was})")),
            None => page.line(format_args!("Workflow: {state}")),
        }
    }
    if !done.errors.is_empty() {
        list(page, "Still in the way:", &done.errors);
    }
    if tense == Tense::Would {
        say_analysis(page, done.analysis.as_ref());
    }
    page.line("");
    page.line(match tense {
        Tense::Done => "Restoring state...",
        Tense::Would => "Would restore:",
    });
    say_counts(page, done, tense);
    say_doubts(page, done);
    say_next(page, done);
    page.line("");
    if let Some(agent) = done.started.as_ref().and_then(going_on) {
        let goes = match tense {
            Tense::Done => "goes",
            Tense::Would => "would go",
        };
        let briefing = page.command(format!("fleet context --agent {agent}"));
        page.line(format_args!(
            "{agent} {goes} on in recovery mode. Its briefing: {briefing}"
        ));
    }
    match tense {
        Tense::Done => page.line("Recovery complete. Mission resumed."),
        Tense::Would => page.line("Nothing was changed."),
    }
}

/// Prints how many sorties, locks and messages were changed, as the journal has it.
pub(super) fn say_counts(page: &mut Page, done: &Resumed, tense: Tense) {
    let restored = done.restored;
    let of = |count: u64, noun: &str| match count {
        1 => format!("1 {noun}"),
        count => format!("{count} {noun}s"),
    };
    for (done, would, count, noun) in [
        ("Restored", "Restore", restored.sorties, "sortie"),
        ("Re-acquired", "Re-acquire", restored.locks, "lock"),
        ("Requeued", "Requeue", restored.messages, "message"),
    ] {
        let verb = match tense {
            Tense::Done => done,
            Tense::Would => would,
        };
        page.line(format_args!("- {verb} {}", of(count, noun)));
    }
}

/// Prints the effects that dead agents began and never reported done.
fn say_doubts(page: &mut Page, done: &Resumed) {
    if done.in_doubt.is_empty() {
        return;
    }
    let doubts = done.in_doubt.iter().map(|effect| {
        format!(
            "`{}`, which {} began at {} and never reported done",
            effect.key,
            effect.by,
            effect.at.to_seconds()
        )
    });
    list(page, "In Doubt:", &doubts.collect::<Vec<_>>());
}

/// Renders an open action, with its command.
pub(super) fn left_to_do(page: &Page, left: &Attention) -> String {
    let command = page.command(&left.command);
    match &left.otherwise {
        Some(other) => format!("{}: {command}, or: {}", left.what, page.command(other)),
        None => format!("{}: {command}", left.what),
    }
}

pub(super) fn say_next(page: &mut Page, done: &Resumed) {
    if done.next.is_empty() {
        return;
    }
    let next: Vec<String> = done
        .next
        .iter()
        .map(|next| left_to_do(page, next))
        .collect();
    list(page, "What To Do Now:", &next);
}

/// Prints seed D's analysis where it has something to say: seed A's layout knows nothing of it.
pub fn say_analysis(page: &mut Page, analysis: Option<&Analysis>) {
    let unusual = |it: &&Analysis| !it.can_resume || it.resume_from_state.is_some();
    let Some(analysis) = analysis.filter(unusual) else {
        return;
    };
    page.line("");
    page.line("Recovery Analysis:");
    let can = if analysis.can_resume { "yes" } else { "no" };
    page.line(format_args!("  Can Resume: {can}"));
    let facts = [
        ("From State", &analysis.resume_from_state),
        ("From Agent", &analysis.resume_from_agent),
    ];
    for (what, found) in facts {
        if let Some(found) = found {
            page.line(format_args!("  {what}: {found}"));
        }
    }
    let lists = [
        ("In the Way", &analysis.blockers),
        ("Suggestions", &analysis.suggestions),
    ];
    for (what, items) in lists.iter().filter(|(_, items)| !items.is_empty()) {
        page.line(format_args!("  {what}:"));
        for item in *items {
            page.line(format_args!("    - {item}"));
        }
    }
}

/// The agent that continues in recovery mode.
pub(super) fn going_on(start: &SessionStart) -> Option<&Name> {
    let agent = start.agent.as_ref();
    agent.filter(|_| start.mode == ContextMode::Recovery)
}

pub(super) fn list(page: &mut Page, headline: &str, items: &[String]) {
    page.line("");
    page.line(headline);
    for item in items {
        page.line(format_args!("- {item}"));
    }
    if items.is_empty() {
        page.line("- None");
    }
}
