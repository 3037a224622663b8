//! A document's workflow, agents and knowledge, as a mission, its sorties and its notes.

use std::collections::BTreeSet;

use flightline_core::agent::Agent;
use flightline_core::dialect::Json;
use flightline_core::event::{Event, EventType};
use flightline_core::mission::{Mission, Workflow};
use flightline_core::note::{Note, NoteKind};
use flightline_core::recovery::analysis::agents_of;
use flightline_core::sortie::{Interruption, Sortie, SortieStatus, TokenUsage};
use flightline_core::{
    JsonData, Kind, Name, NoteId, Refusal, RepoPath, SortieId, Subject, Time, Title, text,
};
use flightline_store::Find;
use serde_json::json;

use super::super::super::filled;
use crate::error::Result;
use crate::mission::{short, workflow_history};
use crate::op_context::OpContext;
use crate::sortie::add::{NewSortie, add_all};

/// Maximum number of states of a history that are imported: the last ones.
const MOST_STATES: usize = 500;
/// Maximum number of a mission's events that are searched for documents that told its workflow's state.
const LOOKED_BACK: u64 = 1_000;

/// Knowledge here that is newer than a document.
#[derive(Default)]
pub(super) struct Newer {
    workflow: Option<Workflow>,
    sorties: Vec<Sortie>,
}

impl Newer {
    /// Puts the newer knowledge back, once the checkpoint holds the content of the document.
    pub(super) fn put_back(
        self,
        ctx: &mut OpContext<'_, '_>,
        mission: &mut Mission,
        warnings: &mut Vec<String>,
    ) -> Result<()> {
        if let Some(workflow) = self.workflow {
            mission.workflow = workflow;
            let data = json!({ "kept": mission.workflow.current });
            ctx.tx.set(EventType::MissionKept, mission, &data)?;
        }
        for sortie in self.sorties {
            warnings.push(format!(
                "{} (\"{}\") has changed since, and stays as it is",
                short(sortie.id),
                sortie.title
            ));
            let data = json!({ "status": sortie.status.as_str() });
            ctx.tx.set(EventType::SortieKept, &sortie, &data)?;
        }
        Ok(())
    }
}

fn written(document: &Json) -> Time {
    document.time("createdAt").unwrap_or(Time::EARLIEST)
}

/// Brings a mission to where a document says it was.
pub(super) fn store(
    ctx: &mut OpContext<'_, '_>,
    mission: &mut Mission,
    document: &Json,
    warnings: &mut Vec<String>,
) -> Result<Newer> {
    let newer = Newer {
        workflow: workflow(ctx, mission, document, warnings)?,
        sorties: sorties(ctx, mission, document, warnings)?,
    };
    notes(ctx, mission, document, warnings)?;
    Ok(newer)
}

/// Returns a value that fits the store; one that does not is kept in the document only, with a warning.
fn fitting<T>(read: std::result::Result<T, Refusal>, warnings: &mut Vec<String>) -> Option<T> {
    match read {
        Ok(value) => Some(value),
        Err(refusal) => {
            warnings.push(format!("{}; it is only kept", refusal.message));
            None
        }
    }
}

/// Moves the workflow to the state of the document. Returns the workflow before when that is newer.
fn workflow(
    ctx: &mut OpContext<'_, '_>,
    mission: &mut Mission,
    document: &Json,
    warnings: &mut Vec<String>,
) -> Result<Option<Workflow>> {
    let (said, written) = (&document["workflow"], written(document));
    let state = said.word("currentState");
    let Some(current) = fitting(Name::parse("a state", state), warnings) else {
        return Ok(None);
    };
    let before = mission.workflow.clone();
    let last_said = last_import(ctx, mission)?;
    if !before.states.is_empty() && !before.states.contains_key(&current) {
        warnings.push(format!(
            "`{current}` is not a declared state of {}; it is only kept",
            short(mission.id)
        ));
        return Ok(None);
    }
    let known = workflow_history(ctx, mission)?;
    let entries = said.items("stateHistory");
    let left_out = entries.len().saturating_sub(MOST_STATES);
    if left_out > 0 {
        warnings.push(format!("the first {left_out} states are only kept"));
    }
    let entries = &entries[left_out..];
    let mut from: Option<&str> = None;
    for entry in entries {
        let to = entry.word("state");
        let at = entry.time("enteredAt").unwrap_or(written);
        if !known
            .iter()
            .any(|past| past.state == to && past.entered_at == at)
        {
            tell(ctx, mission, from, to, entry.word("trigger"), at)?;
        }
        from = Some(to);
    }
    let last = entries.last().filter(|it| it.word("state") == state);
    let moved = before.current.as_ref() != Some(&current);
    if last.is_none() && moved {
        let from = said.text("previousState");
        tell(ctx, mission, from, current.as_str(), "import", written)?;
    }
    let previous = said.text("previousState");
    let pending = said.texts("pendingTransitions").into_iter();
    mission.workflow = Workflow {
        entered_at: match last {
            Some(entry) => entry.time("enteredAt"),
            None if moved => Some(written),
            None => before.entered_at,
        },
        current: Some(current),
        previous: previous.and_then(|state| fitting(Name::parse("a state", state), warnings)),
        states: before.states.clone(),
        pending: pending
            .filter_map(|state| fitting(Name::parse("a state", state), warnings))
            .collect(),
    };
    let data = json!({ "dialect": "orchestrator", "state": mission.workflow.current });
    if mission.workflow == before {
        // That the workflow was still in this state then is news as well. The statement of an older
        // document is not.
        ctx.tx.note(EventType::MissionImported, mission, &data)?;
        return Ok(None);
    }
    mission.updated_at = mission.updated_at.max(ctx.now());
    ctx.tx.set(EventType::MissionImported, mission, &data)?;
    let is_newer = before.entered_at.max(last_said) > Some(written);
    Ok(is_newer.then_some(before))
}

/// Returns the time of the newest document that told the state of the workflow.
fn last_import(ctx: &mut OpContext<'_, '_>, mission: &Mission) -> Result<Option<Time>> {
    let events = ctx
        .tx
        .events_of(Kind::Mission, &mission.key(), LOOKED_BACK)?;
    let imports = events
        .iter()
        .filter(|event| event.is(EventType::MissionImported));
    Ok(imports.map(Event::happened_at).max())
}

/// A move of the workflow that happened elsewhere, and when.
fn tell(
    ctx: &mut OpContext<'_, '_>,
    mission: &Mission,
    from: Option<&str>,
    to: &str,
    trigger: &str,
    at: Time,
) -> Result<()> {
    let short = |text: &str| text.chars().take(200).collect::<String>();
    let data = json!({
        "from": from.map(short), "to": short(to), "trigger": short(trigger), "at": at,
    });
    ctx.tx
        .note(EventType::MissionTransitioned, mission, &data)?;
    Ok(())
}

/// Brings the sorties to where the agents were. Returns those that are newer as they were.
fn sorties(
    ctx: &mut OpContext<'_, '_>,
    mission: &Mission,
    document: &Json,
    warnings: &mut Vec<String>,
) -> Result<Vec<Sortie>> {
    let mut known = ctx.tx.find::<Sortie>(Find::Mission(mission.id))?;
    known.sort_by_key(|sortie| sortie.position);
    let names = agents_of(&known, &ctx.tx.find::<Agent>(Find::All)?);
    let mut used: BTreeSet<SortieId> = BTreeSet::new();
    let mut newer = Vec::new();
    for agent in document.items("agents") {
        let id = agent.word("agentId");
        let found = known.iter().zip(&names).find(|(sortie, name)| {
            (*name == id || sortie.title.as_str() == id) && !used.contains(&sortie.id)
        });
        let before = match found {
            Some((sortie, _)) => sortie.clone(),
            None => added(ctx, mission, id)?,
        };
        used.insert(before.id);
        let written = written(document);
        let sortie = said_of(&before, agent, written, warnings);
        let same = Sortie {
            updated_at: before.updated_at,
            ..sortie.clone()
        };
        // That the sortie was still like this then is news as well. The statement of an older document
        // is not.
        if same == before && written <= before.updated_at {
            continue;
        }
        if found.is_some() && (before.status.is_held() || before.updated_at > written) {
            newer.push(before);
        }
        let data = json!({
            "dialect": "orchestrator", "agent": id, "said": agent.word("status"),
            "status": sortie.status.as_str(),
        });
        ctx.tx.set(EventType::SortieImported, &sortie, &data)?;
    }
    Ok(newer)
}

/// A sortie for an agent that has none yet.
fn added(ctx: &mut OpContext<'_, '_>, mission: &Mission, agent: &str) -> Result<Sortie> {
    let line: String = agent.chars().take(200).collect();
    let title = Title::parse("agent", &line).or_else(|_| Title::parse("agent", "unnamed agent"));
    let new = NewSortie {
        task_id: Name::parse("agent", agent).ok(),
        ..NewSortie::titled(title?)
    };
    let id = add_all(ctx, mission, &[new])?;
    let id = id.first().map(ToString::to_string).unwrap_or_default();
    ctx.sortie(&id)
}

/// A sortie as an agent's entry says it was. One that was running comes back as pending.
fn said_of(before: &Sortie, agent: &Json, written: Time, warnings: &mut Vec<String>) -> Sortie {
    let name = agent.word("agentId");
    let status = match agent.word("status") {
        "completed" => SortieStatus::Completed,
        "failed" => SortieStatus::Failed,
        "skipped" => SortieStatus::Skipped,
        _ => SortieStatus::Pending,
    };
    let settled = status == SortieStatus::Completed && before.status == status;
    let owner = Name::parse("agent", name).ok();
    let owner = owner.filter(|_| agent.word("status") == "running");
    let interrupted = owner.map(|owner| Interruption {
        owner,
        at: written,
        locks: Vec::new(),
        blocked_reason: None,
    });
    let error = filled(agent, "error").filter(|_| status != SortieStatus::Completed);
    let tokens = &agent["tokenUsage"];
    let mut sortie = Sortie {
        status,
        assigned_to: before.assigned_to.filter(|_| settled),
        assigned_epoch: before.assigned_epoch.filter(|_| settled),
        attempts: u32::try_from(agent.whole("attempts").unwrap_or(0)).unwrap_or(u32::MAX),
        blocked_reason: None,
        failure: error.and_then(|text| fitting(text::NoteText::parse("error", text), warnings)),
        token_usage: TokenUsage {
            input: tokens.whole("input").unwrap_or(0),
            output: tokens.whole("output").unwrap_or(0),
        },
        input: data(agent, "input", warnings),
        output: data(agent, "output", warnings),
        updated_at: written,
        started_at: agent.time("startedAt"),
        completed_at: agent.time("completedAt"),
        interrupted,
        ..before.clone()
    };
    // A sortie's record has a size; a document may be larger.
    let too_large = |sortie: &Sortie| {
        let text = serde_json::to_string(sortie).unwrap_or_default();
        text.len() > Kind::Sortie.max_document()
    };
    if too_large(&sortie) && sortie.output.take().is_some() {
        warnings.push(format!(
            "the output of {name} is too large; it is only kept"
        ));
    }
    if too_large(&sortie) && sortie.input.take().is_some() {
        warnings.push(format!("the input of {name} is too large; it is only kept"));
    }
    sortie
}

fn data(agent: &Json, what: &str, warnings: &mut Vec<String>) -> Option<JsonData> {
    let value = agent.given(what)?.clone();
    let data = JsonData::new(value.into()).map_err(|refusal| Refusal {
        message: format!(
            "the {what} of {}: {}",
            agent.word("agentId"),
            refusal.message
        ),
        ..refusal
    });
    fitting(data, warnings)
}

/// The agents' knowledge, as far as it is not noted here yet.
fn notes(
    ctx: &mut OpContext<'_, '_>,
    mission: &Mission,
    document: &Json,
    warnings: &mut Vec<String>,
) -> Result<()> {
    let context = &document["context"];
    let mut known = ctx.tx.find::<Note>(Find::Mission(mission.id))?;
    let blank = |ctx: &OpContext<'_, '_>, kind: NoteKind, text: text::NoteText, at: Time| Note {
        id: NoteId::new(ctx.tx.uuid()),
        kind,
        mission_id: mission.id,
        sortie_id: None,
        text,
        rationale: None,
        path: None,
        checksum: None,
        artifact_type: None,
        author: ctx.actor(),
        author_id: ctx.agent_id(),
        at,
        after_cut: None,
        replaces: None,
        ended: None,
        failure: None,
    };
    let written = ctx.now();
    let mut new: Vec<Note> = Vec::new();
    let lessons = context.texts("lessons").into_iter();
    for lesson in lessons.filter(|it| !it.trim().is_empty()) {
        if let Some(text) = fitting(text::NoteText::parse("lesson", lesson), warnings) {
            new.push(blank(ctx, NoteKind::Lesson, text, written));
        }
    }
    for decision in context.items("decisions") {
        let text = text::NoteText::parse("decision", decision.word("decision"));
        let Some(text) = fitting(text, warnings) else {
            continue;
        };
        let why = filled(decision, "rationale");
        let at = decision.time("madeAt").unwrap_or(written);
        new.push(Note {
            rationale: why
                .and_then(|why| fitting(text::NoteText::parse("rationale", why), warnings)),
            ..blank(ctx, NoteKind::Decision, text, at)
        });
    }
    for artifact in context.items("artifacts") {
        let Some(path) = fitting(RepoPath::parse(artifact.word("path")), warnings) else {
            continue;
        };
        let called = filled(artifact, "id").unwrap_or(artifact.word("path"));
        let Some(text) = fitting(text::NoteText::parse("artifact", called), warnings) else {
            continue;
        };
        new.push(Note {
            path: Some(path),
            checksum: Some(
                artifact
                    .word("checksum")
                    .chars()
                    .take(128)
                    .collect::<String>(),
            )
            .filter(|sum| !sum.is_empty()),
            artifact_type: Name::parse("type", artifact.word("type")).ok(),
            ..blank(ctx, NoteKind::Artifact, text, written)
        });
    }
    for note in new {
        let is_known = known.iter().any(|it| {
            it.kind == note.kind
                && it.text == note.text
                && it.rationale == note.rationale
                && it.path == note.path
                && it.checksum == note.checksum
        });
        if !is_known {
            debug_assert_eq!(note.keys().mission, Some(mission.id));
            ctx.tx.set(
                EventType::NoteAdded,
                &note,
                &json!({ "kind": note.kind.as_str() }),
            )?;
            known.push(note);
        }
    }
    Ok(())
}
