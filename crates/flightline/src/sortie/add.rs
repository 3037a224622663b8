//! Adds sorties to a mission.

use crate::Schema;
use std::collections::BTreeMap;

use flightline_core::event::EventType;
use flightline_core::mission::Mission;
use flightline_core::sortie::Sortie;
use flightline_core::text::NoteText;
use flightline_core::time::Millis;
use flightline_core::{Code, JsonData, Kind, Name, Refusal, RepoPath, SortieId, Title};
use flightline_store::Find;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{SortieSummary, summaries};
use crate::checkpoint::milestone::catch_up;
use crate::error::Result;
use crate::fleet::{Access, ActsFor, Operation, Scope};
use crate::op_context::OpContext;

const MOST: usize = 100_000;

/// Adds sorties to a mission.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct AddSorties {
    /// The mission to add to; the current one when none is named.
    pub mission: Option<String>,
    /// The sorties to add, in order.
    pub sorties: Vec<NewSortie>,
}

/// A sortie to add to the mission.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct NewSortie {
    /// The title of the sortie: the work to be done.
    pub title: Title,
    /// The full description of the task.
    pub description: Option<NoteText>,
    /// The id of the task in other tools, such as `T060`.
    pub task_id: Option<Name>,
    /// Sorties that must be completed first, by id or beginning of an id.
    #[serde(default)]
    #[schemars(inner(regex(
        pattern = r"^srt-([0-9a-f]{4,8}|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})$"
    )))]
    pub depends_on: Vec<String>,
    /// Files that the work is expected to touch.
    #[serde(default)]
    pub files: Vec<RepoPath>,
    /// The acceptance criteria, by name.
    #[serde(default)]
    pub criteria: Vec<Name>,
    /// Acceptance criteria in free text: each gets a name that is made of it.
    #[serde(default)]
    pub criteria_texts: Vec<Title>,
    /// Priority of the sortie; a higher number goes first.
    #[serde(default)]
    pub priority: i32,
    /// Expected duration of the work.
    pub estimate_ms: Option<Millis>,
    /// Instructions for resuming the sortie after an interruption.
    pub resume_instructions: Option<NoteText>,
    /// Input data that the work starts from.
    pub input: Option<JsonData>,
}

impl NewSortie {
    /// A sortie with a title and nothing else.
    pub fn titled(title: Title) -> Self {
        Self {
            title,
            description: None,
            task_id: None,
            depends_on: Vec::new(),
            files: Vec::new(),
            criteria: Vec::new(),
            criteria_texts: Vec::new(),
            priority: 0,
            estimate_ms: None,
            resume_instructions: None,
            input: None,
        }
    }
}

impl Operation for AddSorties {
    const NAME: &'static str = "add_sorties";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Agent;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = Vec<SortieSummary>;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<Vec<SortieSummary>> {
        let mission = ctx.mission(self.mission.as_deref())?;
        if !mission.status.is_open() {
            return Err(Refusal::new(
                Code::IllegalTransition,
                format!(
                    "the mission is {}, so nothing can be added to it",
                    mission.status.as_str()
                ),
            )
            .into());
        }
        let added = add_all(ctx, &mission, &self.sorties)?;
        catch_up(ctx, mission.id)?;
        let mut all = summaries(ctx, mission.id)?;
        all.retain(|sortie| added.contains(&sortie.id));
        Ok(all)
    }
}

pub(crate) fn add_all(
    ctx: &mut OpContext<'_, '_>,
    mission: &Mission,
    sorties: &[NewSortie],
) -> Result<Vec<SortieId>> {
    let count = ctx.tx.rows(Kind::Sortie, Find::Mission(mission.id))?.len();
    if count + sorties.len() > MOST {
        return Err(Refusal::invalid(format!("a mission has at most {MOST} sorties")).into());
    }
    let mut added = Vec::with_capacity(sorties.len());
    for (position, new) in (count as u64 + 1..).zip(sorties) {
        let mut depends_on = Vec::with_capacity(new.depends_on.len());
        for reference in &new.depends_on {
            depends_on.push(ctx.sortie_in(mission.id, reference)?.id);
        }
        let now = ctx.now();
        let mut criteria: BTreeMap<Name, bool> = new
            .criteria
            .iter()
            .map(|name| (name.clone(), false))
            .collect();
        let mut criteria_texts = BTreeMap::new();
        for text in &new.criteria_texts {
            let (key, text) = labelled("criterion", text)?;
            criteria.insert(key.clone(), false);
            criteria_texts.extend(text.map(|text| (key, text)));
        }
        let (id, title) = (SortieId::new(ctx.tx.uuid()), new.title.clone());
        let sortie = Sortie {
            task_id: new.task_id.clone(),
            description: new.description.clone(),
            position,
            priority: new.priority,
            depends_on,
            files: new.files.clone(),
            acceptance_criteria: criteria,
            criteria_texts,
            resume_instructions: new.resume_instructions.clone(),
            estimate_ms: new.estimate_ms,
            input: new.input.clone(),
            ..Sortie::new(id, mission.id, title, now)
        };
        ctx.tx.set(
            EventType::SortieAdded,
            &sortie,
            &json!({ "title": sortie.title }),
        )?;
        added.push(sortie.id);
    }
    Ok(added)
}

/// The name that stands for a text, and the text where it says more than the name.
pub(crate) fn labelled(what: &str, text: &Title) -> Result<(Name, Option<Title>)> {
    if let Ok(name) = Name::parse(what, text) {
        return Ok((name, None));
    }
    Ok((Name::of_text(what, text)?, Some(text.clone())))
}
