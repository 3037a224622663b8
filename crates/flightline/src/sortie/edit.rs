//! Changes the task of a sortie, and its position in the order.

use crate::Schema;
use std::collections::{BTreeMap, HashMap, HashSet};

use flightline_core::event::EventType;
use flightline_core::mission::Mission;
use flightline_core::sortie::Sortie;
use flightline_core::text::NoteText;
use flightline_core::time::Millis;
use flightline_core::{Code, Name, Refusal, RepoPath, SortieId, Title};
use flightline_store::Find;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::add::labelled;
use super::change::check_owner;
use super::{SortieSummary, SortieView, summaries, view};
use crate::checkpoint::milestone::catch_up;
use crate::error::Result;
use crate::fleet::{Access, ActsFor, Operation, Scope};
use crate::mission::short;
use crate::op_context::OpContext;

/// Changes the task of a sortie. Fields that are left out stay as they are.
#[derive(Clone, Debug, Default, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct EditSortie {
    /// The sortie to edit.
    pub sortie: String,
    /// The title of the sortie: the work to be done.
    pub title: Option<Title>,
    /// The full description of the task.
    pub description: Option<NoteText>,
    /// The id of the task in other tools, such as `T060`.
    pub task_id: Option<Name>,
    /// Priority of the sortie; a higher number goes first.
    pub priority: Option<i32>,
    /// Expected duration of the work.
    pub estimate_ms: Option<Millis>,
    /// Sorties that must be completed first as well.
    #[serde(default)]
    #[schemars(inner(regex(
        pattern = r"^srt-([0-9a-f]{4,8}|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})$"
    )))]
    pub add_dependencies: Vec<String>,
    /// Sorties that need not be completed first any more.
    #[serde(default)]
    #[schemars(inner(regex(
        pattern = r"^srt-([0-9a-f]{4,8}|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})$"
    )))]
    pub remove_dependencies: Vec<String>,
    /// Further files that the work is expected to touch.
    #[serde(default)]
    pub add_files: Vec<RepoPath>,
    /// Files that the work is not expected to touch any more.
    #[serde(default)]
    pub remove_files: Vec<RepoPath>,
    /// Further acceptance criteria, as names or in free text.
    #[serde(default)]
    pub add_criteria: Vec<Title>,
    /// Acceptance criteria to remove.
    #[serde(default)]
    pub remove_criteria: Vec<Title>,
    /// Instructions for resuming the sortie after an interruption.
    pub resume_instructions: Option<NoteText>,
}

/// Changes the position of a sortie in its mission: the order in which sorties are listed and claimed.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct MoveSortie {
    /// The sortie to move.
    pub sortie: String,
    /// The new position in the order.
    pub to: NewPlace,
}

/// The new position of a sortie in its mission.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(rename_all = "snake_case")]
#[serde(deny_unknown_fields)]
pub enum NewPlace {
    /// Before every other sortie.
    First,
    /// After every other sortie.
    Last,
    /// Just before the named sortie.
    Before {
        /// The sortie before which it is put.
        #[schemars(regex(
            pattern = r"^srt-([0-9a-f]{4,8}|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})$"
        ))]
        sortie: String,
    },
    /// Just after the named sortie.
    After {
        /// The sortie after which it is put.
        #[schemars(regex(
            pattern = r"^srt-([0-9a-f]{4,8}|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})$"
        ))]
        sortie: String,
    },
}

impl Operation for EditSortie {
    const NAME: &'static str = "edit_sortie";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Agent;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = SortieView;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<SortieView> {
        let before = ctx.sortie(&self.sortie)?;
        check_owner(ctx, &before, "edit")?;
        let mut sortie = before.clone();
        if let Some(title) = &self.title {
            sortie.title = title.clone();
        }
        sortie.description = self.description.clone().or(sortie.description);
        sortie.task_id = self.task_id.clone().or(sortie.task_id);
        sortie.priority = self.priority.unwrap_or(sortie.priority);
        sortie.estimate_ms = self.estimate_ms.or(sortie.estimate_ms);
        sortie.resume_instructions = self
            .resume_instructions
            .clone()
            .or(sortie.resume_instructions);
        self.edit_dependencies(ctx, &mut sortie)?;
        sortie
            .files
            .retain(|file| !self.remove_files.contains(file));
        for file in &self.add_files {
            if !sortie.files.contains(file) {
                sortie.files.push(file.clone());
            }
        }
        self.edit_criteria(&mut sortie)?;
        let fields = changed(&before, &sortie);
        if fields.is_empty() {
            return view(ctx, before);
        }
        sortie.updated_at = ctx.now();
        let data = json!({ "title": sortie.title, "fields": fields });
        ctx.tx.set(EventType::SortieEdited, &sortie, &data)?;
        catch_up(ctx, sortie.mission_id)?;
        view(ctx, sortie)
    }
}

impl EditSortie {
    fn edit_dependencies(&self, ctx: &mut OpContext<'_, '_>, sortie: &mut Sortie) -> Result<()> {
        for reference in &self.remove_dependencies {
            let needed = ctx.sortie(reference)?;
            let (id, title) = (short(needed.id), &needed.title);
            let Some(at) = sortie.depends_on.iter().position(|it| *it == needed.id) else {
                return Err(Refusal::new(
                    Code::NotFound,
                    format!("{} does not wait for {id} (\"{title}\")", short(sortie.id)),
                )
                .hint(format!(
                    "see its dependencies with `fleet sorties show {}`",
                    short(sortie.id)
                ))
                .into());
            };
            sortie.depends_on.remove(at);
        }
        for reference in &self.add_dependencies {
            let needed = ctx.sortie_in(sortie.mission_id, reference)?;
            if !sortie.depends_on.contains(&needed.id) {
                sortie.depends_on.push(needed.id);
            }
        }
        match self.add_dependencies.is_empty() {
            true => Ok(()),
            false => refuse_circle(ctx, sortie),
        }
    }

    fn edit_criteria(&self, sortie: &mut Sortie) -> Result<()> {
        for text in &self.remove_criteria {
            let (key, _) = labelled("criterion", text)?;
            if sortie.acceptance_criteria.remove(&key).is_none() {
                let known: Vec<&str> = sortie
                    .acceptance_criteria
                    .keys()
                    .map(Name::as_str)
                    .collect();
                return Err(Refusal::new(
                    Code::NotFound,
                    format!("`{key}` is not a criterion of {}", short(sortie.id)),
                )
                .hint(match known.is_empty() {
                    true => "it has no criteria".to_owned(),
                    false => format!("its criteria: {}", known.join(", ")),
                })
                .into());
            }
            sortie.criteria_texts.remove(&key);
        }
        for text in &self.add_criteria {
            let (key, text) = labelled("criterion", text)?;
            sortie
                .acceptance_criteria
                .entry(key.clone())
                .or_insert(false);
            if let Some(text) = text {
                sortie.criteria_texts.insert(key, text);
            }
        }
        Ok(())
    }
}

/// The names of the fields that differ.
fn changed(before: &Sortie, after: &Sortie) -> Vec<&'static str> {
    [
        ("title", before.title != after.title),
        ("description", before.description != after.description),
        ("task_id", before.task_id != after.task_id),
        ("priority", before.priority != after.priority),
        ("estimate", before.estimate_ms != after.estimate_ms),
        ("dependencies", before.depends_on != after.depends_on),
        ("files", before.files != after.files),
        (
            "criteria",
            before.acceptance_criteria != after.acceptance_criteria
                || before.criteria_texts != after.criteria_texts,
        ),
        (
            "resume_instructions",
            before.resume_instructions != after.resume_instructions,
        ),
    ]
    .into_iter()
    .filter_map(|(name, differs)| differs.then_some(name))
    .collect()
}

/// Refuses a sortie that would wait for itself, whatever is between: it would never be ready.
fn refuse_circle(ctx: &mut OpContext<'_, '_>, sortie: &Sortie) -> Result<()> {
    let all = ctx.tx.find::<Sortie>(Find::Mission(sortie.mission_id))?;
    let needs: HashMap<SortieId, &[SortieId]> = all
        .iter()
        .map(|other| (other.id, other.depends_on.as_slice()))
        .collect();
    let mut open: Vec<(SortieId, SortieId)> = Vec::new();
    open.extend(sortie.depends_on.iter().map(|id| (*id, *id)));
    let mut seen = HashSet::new();
    while let Some((id, through)) = open.pop() {
        if id == sortie.id {
            let title = all.iter().find(|other| other.id == through);
            let title = title.map_or("", |other| other.title.as_str());
            return Err(Refusal::invalid(format!(
                "{} (\"{}\") cannot wait for {} (\"{title}\"), which waits for it",
                short(sortie.id),
                sortie.title,
                short(through)
            ))
            .hint("see the dependencies with `fleet sorties tree`")
            .into());
        }
        if seen.insert(id) {
            let further = needs.get(&id).copied().unwrap_or_default();
            open.extend(further.iter().map(|next| (*next, through)));
        }
    }
    Ok(())
}

impl Operation for MoveSortie {
    const NAME: &'static str = "move_sortie";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Agent;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = Vec<SortieSummary>;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<Vec<SortieSummary>> {
        let sortie = ctx.sortie(&self.sortie)?;
        check_owner(ctx, &sortie, "move")?;
        let mut all = ctx.tx.find::<Sortie>(Find::Mission(sortie.mission_id))?;
        all.sort_by_key(|one| one.position);
        let before: BTreeMap<SortieId, u64> =
            all.iter().map(|one| (one.id, one.position)).collect();
        all.retain(|one| one.id != sortie.id);
        let at = match &self.to {
            NewPlace::First => 0,
            NewPlace::Last => all.len(),
            NewPlace::Before { sortie: other } => place_of(ctx, &all, &sortie, other)?,
            NewPlace::After { sortie: other } => place_of(ctx, &all, &sortie, other)? + 1,
        };
        all.insert(at, sortie.clone());
        let now = ctx.now();
        let mut moved = false;
        for (position, mut one) in (1..).zip(all) {
            if before.get(&one.id) == Some(&position) {
                continue;
            }
            one.position = position;
            one.updated_at = now;
            moved = true;
            ctx.tx.set(
                EventType::SortieReordered,
                &one,
                &json!({ "position": position }),
            )?;
        }
        if moved {
            remember_order(ctx, &sortie)?;
            catch_up(ctx, sortie.mission_id)?;
        }
        summaries(ctx, sortie.mission_id)
    }
}

/// Records that the mission's sorties are no longer in the order in which they were added.
fn remember_order(ctx: &mut OpContext<'_, '_>, sortie: &Sortie) -> Result<()> {
    let mission = ctx.tx.get::<Mission>(sortie.mission_id)?;
    if let Some(mut mission) = mission.filter(|mission| !mission.reordered) {
        mission.reordered = true;
        mission.updated_at = ctx.now();
        ctx.tx.set(
            EventType::MissionUpdated,
            &mission,
            &json!({ "fields": ["order"] }),
        )?;
    }
    Ok(())
}

fn place_of(
    ctx: &mut OpContext<'_, '_>,
    all: &[Sortie],
    sortie: &Sortie,
    other: &str,
) -> Result<usize> {
    let other = ctx.sortie(other)?;
    all.iter()
        .position(|one| one.id == other.id)
        .ok_or_else(|| {
            let message = match other.id == sortie.id {
                true => format!("{} cannot be moved next to itself", short(sortie.id)),
                false => format!(
                    "{} (\"{}\") belongs to another mission",
                    short(other.id),
                    other.title
                ),
            };
            Refusal::invalid(message).into()
        })
}
