//! An agent's own context: for its briefing, and for the next owner of interrupted work.

use crate::agent::Agent;
use crate::briefing::Quote;
use crate::note::{Note, NoteKind};
use crate::sortie::{FileChange, Sortie, SortieError, SortieFile, SortieStatus};

/// The state that an agent's own context is computed from.
#[derive(Clone, Debug)]
pub struct OwnWork<'a> {
    /// The agent; none when a person looks.
    pub agent: Option<&'a Agent>,
    /// The agent's sorties, the present one first.
    pub sorties: &'a [Sortie],
    pub errors: &'a [SortieError],
    /// Files changed in the first of them.
    pub files: &'a [SortieFile],
    /// The notes of the mission that hold.
    pub notes: &'a [Note],
    /// The last action, as far as the journal knows.
    pub last_act: &'a str,
}

/// An agent's own view of its work. Each text has an author.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnContext {
    /// The last action on the agent's own work.
    pub last_action: Quote,
    pub next_steps: Vec<Quote>,
    pub blockers: Vec<Quote>,
    /// Files worked on or expected to be.
    pub files: Vec<String>,
}

pub fn own_context(work: &OwnWork<'_>) -> OwnContext {
    OwnContext {
        last_action: last_action(work),
        next_steps: next_steps(work),
        blockers: blockers(work),
        files: files(work),
    }
}

fn quote(author: &str, text: impl Into<String>) -> Quote {
    Quote {
        author: author.to_owned(),
        text: text.into(),
    }
}

fn owner<'a>(work: &OwnWork<'a>) -> &'a str {
    work.agent.map_or("flightline", |agent| agent.name.as_str())
}

/// The author of a sortie's report: its owner before, until its present owner has reported.
fn writer<'a>(work: &OwnWork<'a>, sortie: &'a Sortie) -> &'a str {
    let before = sortie.interrupted.as_ref();
    before.map_or(owner(work), |before| before.owner.as_str())
}

fn last_action(work: &OwnWork<'_>) -> Quote {
    let Some(first) = work.sorties.first() else {
        return quote("flightline", work.last_act);
    };
    let writer = writer(work, first);
    match (&first.cursor.last_processed, &first.progress_notes) {
        (Some(last), Some(note)) => quote(writer, format!("{last}; {note}")),
        (Some(last), None) => quote(writer, last.to_string()),
        (None, Some(note)) => quote(writer, note.to_string()),
        (None, None) => quote("flightline", work.last_act),
    }
}

fn next_steps(work: &OwnWork<'_>) -> Vec<Quote> {
    let mut steps = Vec::new();
    for sortie in work.sorties {
        let writer = writer(work, sortie);
        if let Some(instructions) = &sortie.resume_instructions {
            steps.push(quote(writer, instructions.to_string()));
        }
        steps.push(match &sortie.cursor.next_to_process {
            Some(next) => quote(writer, format!("Continue \"{}\" with {next}", sortie.title)),
            None => quote(owner(work), format!("Complete \"{}\"", sortie.title)),
        });
    }
    let own = work.agent.into_iter().flat_map(|agent| &agent.next_steps);
    steps.extend(own.map(|step| quote(owner(work), step.to_string())));
    steps
}

fn blockers(work: &OwnWork<'_>) -> Vec<Quote> {
    let mut found = Vec::new();
    for sortie in work.sorties {
        let before = sortie.interrupted.as_ref();
        if let Some(reason) = before.and_then(|before| before.blocked_reason.as_ref()) {
            found.push(quote(
                writer(work, sortie),
                format!("it was blocked before: {reason}"),
            ));
        }
        if sortie.status == SortieStatus::Blocked {
            let reason = sortie.blocked_reason.as_deref();
            found.push(quote(owner(work), reason.unwrap_or("no reason given")));
        }
    }
    let own = work.agent.into_iter().flat_map(|agent| &agent.blockers);
    found.extend(own.map(|blocker| quote(owner(work), blocker.to_string())));
    // Open errors, except those it is blocked by already.
    for error in work.errors.iter().filter(|it| it.cleared_at.is_none()) {
        let sortie = work.sorties.iter().find(|it| it.id == error.sortie_id);
        if let Some(sortie) = sortie
            && sortie.blocked_reason.as_ref() != Some(&error.message)
        {
            found.push(quote(
                writer(work, sortie),
                format!("{}: {}", error.kind, error.message),
            ));
        }
    }
    let noted = work.notes.iter().filter(|note| is_in_the_way(work, note));
    found.extend(noted.map(|note| quote(&note.author, note.told())));
    found
}

/// Returns true when a note names an obstacle in the agent's way: in its own work, or in that of every agent.
fn is_in_the_way(work: &OwnWork<'_>, note: &Note) -> bool {
    let own = |agent: &Agent| note.author_id == Some(agent.id);
    note.kind == NoteKind::Blocker
        && match note.sortie_id {
            Some(id) => work.sorties.iter().any(|sortie| sortie.id == id),
            None => note.failure.is_none() || work.agent.is_some_and(own),
        }
}

fn files(work: &OwnWork<'_>) -> Vec<String> {
    let Some(first) = work.sorties.first() else {
        return Vec::new();
    };
    let changed = work
        .files
        .iter()
        .filter(|file| file.sortie_id == first.id && file.change != FileChange::Deleted);
    let mut files: Vec<String> = changed
        .map(|file| file.path.to_string())
        .chain(first.files.iter().map(ToString::to_string))
        .collect();
    files.sort();
    files.dedup();
    files
}
