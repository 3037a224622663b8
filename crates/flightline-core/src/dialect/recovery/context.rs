//! Writes the recovery context: the text that a session that resumes is given, in no more than 2,000 tokens.

use super::{Json, backlog, in_progress};
use crate::briefing::{check_nonce, clean, estimate_tokens};
use crate::error::{Code, Refusal};

pub const CONTEXT_TOKENS: usize = 2_000;
/// The things that a session in recovery mode loads.
pub const LOAD_NOW: [&str; 5] = [
    "context-strategy.md",
    "token-monitoring.md",
    "projectConfig.md:STACK_ID",
    "activeContext.md",
    "Current task from checkpoints/latest.json",
];
/// The things that a session in recovery mode loads later, each with the moment for it.
pub const LOAD_LATER: [(&str, &str); 4] = [
    ("Stack profiles", "load when coding resumes"),
    ("techContext.md", "load if needed"),
    ("systemPatterns.md", "load if needed"),
    ("deliverables.md", "skip unless release task"),
];

/// The most characters of a single text, so that one cannot crowd out the others.
const LONGEST: usize = 400;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResumeText {
    pub text: String,
    /// The number of tokens of the text, estimated on the safe side.
    pub tokens: usize,
    /// The number of lines of the checkpoint for which there was no room.
    pub left_out: usize,
}

/// Writes the recovery context of a checkpoint. `task` holds the known facts about the current task; the texts of the
/// checkpoint stand between `<NONCE checkpoint>` and `</NONCE>`, as in a briefing. Refuses when not even our own words
/// fit into `max_tokens`.
pub fn recovery_context(
    checkpoint: &Json,
    task: Option<&str>,
    nonce: &str,
    max_tokens: usize,
) -> Result<ResumeText, Refusal> {
    check_nonce(nonce)?;
    let lists = lists(checkpoint, task);
    let most: usize = lists.iter().map(|(_, entries)| entries.len()).sum();
    let mut head = "## Recovery mode\n\nLoad now:\n".to_owned();
    for name in LOAD_NOW {
        head += &format!("- {name}\n");
    }
    head += "\nLoad later:\n";
    for (name, when) in LOAD_LATER {
        head += &format!("- {name} ({when})\n");
    }
    head += &format!("\nThe checkpoint says:\n<{nonce} checkpoint>\n");
    let tail = |left_out: usize| match left_out {
        0 => format!("</{nonce}>\n"),
        count => format!(
            "</{nonce}>\n\nLeft out for want of room: {count}, to be read in `checkpoints/latest.json`.\n"
        ),
    };
    // Estimates add up, but for rounding; one token for each of the three parts.
    let frame = estimate_tokens(&head) + estimate_tokens(&tail(most)) + 3;
    let Some(room) = max_tokens.checked_sub(frame) else {
        return Err(Refusal::new(
            Code::TooLong,
            format!("a recovery context takes about {frame} tokens, and {max_tokens} are allowed"),
        )
        .hint("allow the recovery context more room"));
    };
    let mut body = String::new();
    let mut left_out = 0;
    for (label, entries) in lists {
        let mut rest = entries.len();
        for entry in &entries {
            let line = format!("{label}: {}\n", shorten(&clean(entry, nonce, LONGEST)));
            if estimate_tokens(&body) + estimate_tokens(&line) > room {
                break;
            }
            body += &line;
            rest -= 1;
        }
        left_out += rest;
    }
    let text = format!("{head}{body}{}", tail(left_out));
    Ok(ResumeText {
        tokens: estimate_tokens(&text),
        text,
        left_out,
    })
}

/// Returns the contents of the checkpoint, the most important first, each with its label.
fn lists(checkpoint: &Json, task: Option<&str>) -> Vec<(&'static str, Vec<String>)> {
    let (state, context) = (&checkpoint["state"], &checkpoint["context"]);
    let owned = |texts: Vec<&str>| texts.into_iter().map(str::to_owned).collect();
    let one = |text: Option<&str>| text.map(str::to_owned).into_iter().collect();
    let deltas = checkpoint.items("deltaChanges").iter();
    let backlog = backlog(checkpoint);
    vec![
        ("Task", owned(in_progress(checkpoint))),
        ("Task details", one(task)),
        ("STACK_ID", one(context.text("STACK_ID"))),
        ("Objective", one(context.text("activeObjective"))),
        ("Instructions", one(checkpoint.text("resumeInstructions"))),
        ("Next step", owned(checkpoint.texts("nextSteps"))),
        ("Phase", one(state.text("currentPhase"))),
        ("Sprint", one(context.text("currentSprint"))),
        ("Delta", deltas.map(Json::stringify).collect()),
        (
            "Backlog",
            backlog
                .map(|(id, title)| format!("{id} {}", title.unwrap_or_default()))
                .collect(),
        ),
        ("Done", owned(state.texts("completedTasks"))),
    ]
}

fn shorten(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
