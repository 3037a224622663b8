//! Reads a mission's history step by step, forwards and back, one request at a time. Writes nothing.

pub mod state;
mod step;

use crate::Schema;
use std::collections::BTreeMap;

use flightline_core::event::Event;
use flightline_core::mission::Mission;
use flightline_core::{Code, Kind, MissionId, Refusal};
use flightline_store::{Find, ReplayEvent, ReplayFrom};
use serde::{Deserialize, Serialize};

pub use step::{AgentAt, Missing, MissingValue, ReplayStep, StateAt, StepRecovery};

use crate::checkpoint;
use crate::error::Result;
use crate::event::names_of;
use crate::fleet::{Access, ActsFor, Operation, Scope};
use crate::mission::short;
use crate::op_context::OpContext;

/// Reads a page of a mission's history. Steps are whole: all changes of one request are one step.
#[derive(Clone, Debug, Default, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct Replay {
    /// The mission whose history is read; that of the checkpoints named, else the current one.
    pub mission: Option<String>,
    /// The first step: a revision, or a checkpoint for the step that took it; the mission's first step when none is
    /// named.
    pub from: Option<String>,
    /// The last step, included; the newest when none is named.
    pub to: Option<String>,
    /// The place of the page in the history.
    #[serde(default)]
    pub place: PageStart,
    /// Maximum number of events, but at least one whole step.
    pub limit: u64,
    /// Include the state after each step.
    #[serde(default)]
    pub states: bool,
    /// The journal that earlier pages came from, so that a restore in between is noticed.
    #[serde(default)]
    pub history: Option<String>,
}

/// The place of a page in a mission's history.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Schema)]
#[serde(rename_all = "snake_case")]
pub enum PageStart {
    /// The first steps of the range.
    #[default]
    First,
    /// The last steps of the range.
    Last,
    /// The steps that follow a step.
    After {
        /// The last revision of that step.
        rev: u64,
    },
    /// The steps that lead to a step.
    Before {
        /// The first revision of that step.
        step: u64,
    },
    /// A single step, wherever it is.
    At {
        /// A revision of the step, or a checkpoint that it took.
        of: String,
    },
}

/// A page of a mission's history.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
pub struct ReplayPage {
    /// The mission whose history it is.
    pub mission_id: MissionId,
    /// The title of the mission.
    pub title: String,
    /// The unbroken journal from which the steps come.
    pub history: String,
    /// The first revision of the range.
    pub from: u64,
    /// The last revision of the range.
    pub to: u64,
    /// The steps, oldest first; none when there are no more that way.
    pub steps: Vec<ReplayStep>,
    /// The names of agents and the titles of sorties, by their ids.
    pub names: BTreeMap<String, String>,
}

const MOST: u64 = 2_000;

impl Operation for Replay {
    const NAME: &'static str = "replay";
    const ACCESS: Access = Access::Read;
    const SCOPE: Scope = Scope::Read;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = ReplayPage;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<ReplayPage> {
        let history = ctx.tx.history().to_owned();
        if self.history.as_ref().is_some_and(|seen| *seen != history) {
            return Err(Refusal::new(
                Code::HistoryChanged,
                "the journal was replaced since the replay began",
            )
            .hint("start again with `fleet replay`")
            .into());
        }
        let at = match &self.place {
            PageStart::At { of } => Some(of.as_str()),
            PageStart::First
            | PageStart::Last
            | PageStart::After { .. }
            | PageStart::Before { .. } => None,
        };
        let [from, to, at] = [self.from.as_deref(), self.to.as_deref(), at]
            .map(|reference| reference.map(|reference| point(ctx, reference)).transpose());
        let (from, to, at) = (from?, to?, at?);
        let mission = self.mission_of(ctx, [&from, &to, &at])?;
        let mut pages = Pages::of(ctx, mission.id, self.limit)?;
        if let Some(from) = &from {
            pages.first = pages.first.max(from.step);
        }
        if let Some(to) = &to {
            pages.last = pages.last.min(to.rev);
        }
        if pages.first > pages.last {
            return Err(Refusal::invalid(format!(
                "the replay would begin at revision {}, and end before it, at {}",
                pages.first, pages.last
            ))
            .hint("give `--from` an earlier step, or leave `--to` out")
            .into());
        }
        let end = match &to {
            Some(to) => pages.end_of(ctx, to.step)?,
            None => pages.last.saturating_add(1),
        };
        let happenings = match (&self.place, &at) {
            (_, Some(at)) => pages.alone(ctx, &mission, at)?,
            (PageStart::After { rev }, _) => {
                let rev = (*rev).max(pages.first.saturating_sub(1));
                pages.forwards(ctx, rev, end)?
            }
            (PageStart::Before { step }, _) => pages.backwards(ctx, (*step).min(end))?,
            (PageStart::Last, _) => pages.backwards(ctx, end)?,
            (PageStart::First | PageStart::At { .. }, _) => {
                pages.forwards(ctx, pages.first.saturating_sub(1), end)?
            }
        };
        let events: Vec<Event> = happenings.iter().map(|one| one.event.clone()).collect();
        Ok(ReplayPage {
            mission_id: mission.id,
            title: mission.title.to_string(),
            history,
            from: pages.first,
            to: pages.last,
            steps: step::read(ctx, mission.id, &happenings, self.states)?,
            names: names_of(ctx, &events)?,
        })
    }
}

impl Replay {
    /// The mission to replay: a named checkpoint means its mission.
    fn mission_of(
        &self,
        ctx: &mut OpContext<'_, '_>,
        points: [&Option<Point>; 3],
    ) -> Result<Mission> {
        let mut named = points
            .into_iter()
            .flatten()
            .filter_map(|point| point.mission);
        let Some(first) = named.next() else {
            return ctx.mission(self.mission.as_deref());
        };
        let asked = self.mission.is_some() || ctx.caller.mission.is_some();
        let other = match asked {
            true => Some(ctx.mission(self.mission.as_deref())?.id),
            false => None,
        };
        if named.chain(other).any(|mission| mission != first) {
            return Err(Refusal::invalid(format!(
                "the checkpoint is of another mission, {}",
                short(first)
            ))
            .hint("the checkpoints of a mission: `fleet checkpoints list --mission ID`")
            .into());
        }
        ctx.mission_of(first)
    }
}

/// A named place in the journal.
struct Point {
    rev: u64,
    /// The first revision of the request it belongs to.
    step: u64,
    mission: Option<MissionId>,
}

/// Reads a revision, which is all digits, or a checkpoint.
fn point(ctx: &mut OpContext<'_, '_>, reference: &str) -> Result<Point> {
    let digits = !reference.is_empty() && reference.bytes().all(|byte| byte.is_ascii_digit());
    let (rev, mission) = if digits {
        let newest = ctx.tx.rev();
        match reference.parse::<u64>() {
            Ok(rev) if rev <= newest => (rev, None),
            _ => {
                return Err(Refusal::new(
                    Code::NotFound,
                    format!("there is no revision {reference}: the newest is {newest}"),
                )
                .hint("list them with `fleet events list`, or name a checkpoint")
                .into());
            }
        }
    } else {
        let checkpoint = checkpoint::find(ctx, reference)?;
        // The record of the checkpoint comes right after the revision that it names.
        let record = checkpoint.cut.rev.saturating_add(1);
        (record, Some(checkpoint.cut.mission_id))
    };
    // A restore leaves revisions out: a missing one begins with itself.
    let step = ctx.tx.step_of(rev)?.unwrap_or(rev);
    Ok(Point { rev, step, mission })
}

/// Reads the journal of a mission page by page.
struct Pages {
    mission: MissionId,
    limit: u64,
    first: u64,
    last: u64,
}

impl Pages {
    fn of(ctx: &mut OpContext<'_, '_>, mission: MissionId, limit: u64) -> Result<Self> {
        let row = ctx.tx.rows(Kind::Mission, Find::Mission(mission))?;
        let born = row.first().map_or(0, |row| row.born);
        Ok(Self {
            mission,
            limit: limit.clamp(1, MOST),
            // The story includes all events of the request that made the mission.
            first: ctx.tx.step_of(born)?.unwrap_or(born),
            last: ctx.tx.rev(),
        })
    }

    /// Whole steps after `rev`, before `end`.
    fn forwards(
        &self,
        ctx: &mut OpContext<'_, '_>,
        rev: u64,
        end: u64,
    ) -> Result<Vec<ReplayEvent>> {
        self.whole(ctx, ReplayFrom::After(rev), |rev| rev < end)
    }

    /// Whole steps before `end`, oldest first.
    fn backwards(&self, ctx: &mut OpContext<'_, '_>, end: u64) -> Result<Vec<ReplayEvent>> {
        let mut found = self.whole(ctx, ReplayFrom::Before(end), |rev| rev >= self.first)?;
        found.reverse();
        Ok(found)
    }

    /// Returns as many whole steps as fit into a page, one at least, in the order of reading.
    fn whole(
        &self,
        ctx: &mut OpContext<'_, '_>,
        way: ReplayFrom,
        within: impl Fn(u64) -> bool,
    ) -> Result<Vec<ReplayEvent>> {
        let (mut found, mut more) = self.some(ctx, way, &within)?;
        let step_of = |one: Option<&ReplayEvent>| one.map(|one| one.event.step);
        let (first, last) = (step_of(found.first()), step_of(found.last()));
        if more && first != last {
            // The next page begins with it.
            found.retain(|one| Some(one.event.step) != last);
            return Ok(found);
        }
        while more {
            let way = match (way, found.last()) {
                (ReplayFrom::After(_), Some(one)) => ReplayFrom::After(one.event.rev),
                (ReplayFrom::Before(_), Some(one)) => ReplayFrom::Before(one.event.rev),
                (_, None) => break,
            };
            let (mut rest, further) = self.some(ctx, way, &within)?;
            let read = rest.len();
            rest.retain(|one| Some(one.event.step) == last);
            more = further && rest.len() == read;
            found.append(&mut rest);
        }
        Ok(found)
    }

    /// A page of events, and whether there may be more that way.
    fn some(
        &self,
        ctx: &mut OpContext<'_, '_>,
        way: ReplayFrom,
        within: &impl Fn(u64) -> bool,
    ) -> Result<(Vec<ReplayEvent>, bool)> {
        let mut found = ctx.tx.happenings(self.mission, way, self.limit)?;
        let full = found.len() as u64 == self.limit;
        let read = found.len();
        found.retain(|one| within(one.event.rev));
        let more = full && found.len() == read;
        Ok((found, more))
    }

    /// The first revision of the mission behind a step.
    fn end_of(&self, ctx: &mut OpContext<'_, '_>, step: u64) -> Result<u64> {
        let mut rev = step.saturating_sub(1);
        loop {
            let found = ctx
                .tx
                .happenings(self.mission, ReplayFrom::After(rev), self.limit)?;
            if let Some(next) = found.iter().find(|one| one.event.step > step) {
                return Ok(next.event.rev);
            }
            match found.last() {
                Some(last) if found.len() as u64 == self.limit => rev = last.event.rev,
                _ => return Ok(ctx.tx.rev().saturating_add(1)),
            }
        }
    }

    fn alone(
        &self,
        ctx: &mut OpContext<'_, '_>,
        mission: &Mission,
        at: &Point,
    ) -> Result<Vec<ReplayEvent>> {
        if at.step >= self.first {
            let end = self.end_of(ctx, at.step)?;
            let found = self.forwards(ctx, at.step.saturating_sub(1), end)?;
            if !found.is_empty() {
                return Ok(found);
            }
        }
        let mut near = Vec::new();
        for way in [ReplayFrom::Before(at.rev), ReplayFrom::After(at.rev)] {
            let page = ctx.tx.happenings(self.mission, way, 1)?;
            near.extend(page.first().map(|one| one.event.step));
        }
        near.retain(|step| *step >= self.first);
        let commands: Vec<String> = near
            .iter()
            .map(|step| format!("`fleet replay --step {step}`"))
            .collect();
        let refusal = Refusal::new(
            Code::NotFound,
            format!(
                "nothing happened in {} (\"{}\") at revision {}",
                short(mission.id),
                mission.title,
                at.rev
            ),
        );
        Err(match commands.is_empty() {
            true => refusal,
            false => refusal.hint(format!("the steps next to it: {}", commands.join(" and "))),
        }
        .into())
    }
}
