//! Reports the cost of a mission's work, against its estimates.

use crate::Schema;
use std::collections::BTreeMap;

use flightline_core::agent::Agent;
use flightline_core::mission::{Mission, MissionStatus};
use flightline_core::sortie::{Review, Sortie, SortieStatus, TokenUsage};
use flightline_core::time::Millis;
use flightline_core::{MissionId, Name, SortieId, Time};
use flightline_store::Find;
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::fleet::{Access, ActsFor, Operation, Scope};
use crate::op_context::OpContext;

/// Reports the cost of a mission's work. Changes nothing.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct ShowReport {
    /// The mission to report on; the current one when none is named.
    pub mission: Option<String>,
}

/// The cost of a mission's work. Figures that were not reported are left out, not guessed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
pub struct Report {
    /// The mission that is reported on.
    pub mission_id: MissionId,
    /// The title of the mission.
    pub title: String,
    /// The current status of the mission.
    pub status: MissionStatus,
    /// The sorties of the mission, in its order.
    pub sorties: Vec<ReportLine>,
    /// The totals of all sorties.
    pub totals: Totals,
}

/// The cost of a sortie.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
pub struct ReportLine {
    /// The sortie that is reported on.
    pub sortie_id: SortieId,
    /// The id of the task in other tools, such as `T060`.
    pub task_id: Option<Name>,
    /// The title of the sortie: the work to be done.
    pub title: String,
    /// The current status of the sortie.
    pub status: SortieStatus,
    /// The name of the sortie's owner, if it has one.
    pub owner: Option<String>,
    /// Expected duration of the work.
    pub estimate_ms: Option<Millis>,
    /// Time from the first start of the work until its completion, or until now while it is worked on: on the clock,
    /// waiting included. None when it has not begun, and when its end is not known.
    pub actual_ms: Option<Millis>,
    /// True when `actual_ms` is final.
    pub finished: bool,
    /// `actual_ms` as a multiple of `estimate_ms`, once it is final.
    pub ratio: Option<f64>,
    /// Number of times that work on the sortie began.
    pub attempts: u32,
    /// Tokens spent on the sortie; none when none were reported.
    pub tokens: Option<TokenUsage>,
    /// The reviews of the sortie; one without a score is only requested.
    pub reviews: Vec<ReviewLine>,
    /// The acceptance criteria that are not met.
    pub unmet_criteria: Vec<Name>,
}

/// The review of one reviewer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct ReviewLine {
    /// The reviewer's name.
    pub reviewer: Name,
    /// The score; none while the review is requested.
    pub score: Option<i64>,
}

/// The totals of all sorties, and the number of sorties of which each figure is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, Schema)]
pub struct Totals {
    /// The number of sorties.
    pub sorties: u64,
    /// Number of completed sorties.
    pub completed: u64,
    /// Total estimate of the sorties that have one.
    pub estimate_ms: Millis,
    /// Number of sorties that have an estimate.
    pub estimated: u64,
    /// Total time of the sorties whose time is final.
    pub actual_ms: Millis,
    /// Number of sorties whose time is final.
    pub measured: u64,
    /// Actual time as a multiple of the estimate, of the sorties that have both.
    pub ratio: Option<f64>,
    /// Number of sorties that have both.
    pub compared: u64,
    /// Number of times that work began, over all sorties.
    pub attempts: u64,
    /// Tokens that were reported, over all sorties.
    pub tokens: TokenUsage,
    /// Number of sorties for which tokens were reported.
    pub tokens_reported: u64,
    /// Number of criteria that are not met.
    pub unmet_criteria: u64,
}

impl Operation for ShowReport {
    const NAME: &'static str = "show_report";
    const ACCESS: Access = Access::Read;
    const SCOPE: Scope = Scope::Read;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = Report;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<Report> {
        let mission = ctx.mission(self.mission.as_deref())?;
        let sorties = ctx.tx.find::<Sortie>(Find::Mission(mission.id))?;
        let reviews = ctx.tx.find::<Review>(Find::Mission(mission.id))?;
        let agents = ctx.tx.find::<Agent>(Find::All)?;
        Ok(report(&mission, &sorties, &reviews, &agents, ctx.now()))
    }
}

fn report(
    mission: &Mission,
    sorties: &[Sortie],
    reviews: &[Review],
    agents: &[Agent],
    now: Time,
) -> Report {
    let mut given: BTreeMap<SortieId, Vec<ReviewLine>> = BTreeMap::new();
    for review in reviews {
        given.entry(review.sortie_id).or_default().push(ReviewLine {
            reviewer: review.reviewer.clone(),
            score: review.score,
        });
    }
    let lines: Vec<ReportLine> = sorties
        .iter()
        .map(|sortie| {
            let owner = agents
                .iter()
                .find(|agent| Some(agent.id) == sortie.assigned_to);
            ReportLine {
                owner: owner.map(|agent| agent.name.to_string()),
                reviews: given.remove(&sortie.id).unwrap_or_default(),
                ..line(sortie, now)
            }
        })
        .collect();
    Report {
        mission_id: mission.id,
        title: mission.title.to_string(),
        status: mission.status,
        totals: totals(&lines),
        sorties: lines,
    }
}

fn line(sortie: &Sortie, now: Time) -> ReportLine {
    let finished = sortie.status == SortieStatus::Completed;
    let actual_ms = match sortie.status {
        SortieStatus::Completed | SortieStatus::InProgress | SortieStatus::Blocked => {
            sortie.actual_ms(now)
        }
        // No agent is at it, and it is not known when the last one stopped.
        SortieStatus::Pending
        | SortieStatus::Assigned
        | SortieStatus::Failed
        | SortieStatus::Skipped => None,
    };
    let tokens = sortie.token_usage;
    ReportLine {
        sortie_id: sortie.id,
        task_id: sortie.task_id.clone(),
        title: sortie.title.to_string(),
        status: sortie.status,
        owner: None,
        estimate_ms: sortie.estimate_ms,
        actual_ms,
        finished: finished && actual_ms.is_some(),
        ratio: actual_ms
            .filter(|_| finished)
            .and_then(|actual| ratio(actual, sortie.estimate_ms?)),
        attempts: sortie.attempts,
        tokens: (tokens != TokenUsage::default()).then_some(tokens),
        reviews: Vec::new(),
        unmet_criteria: sortie
            .acceptance_criteria
            .iter()
            .filter(|(_, met)| !**met)
            .map(|(name, _)| name.clone())
            .collect(),
    }
}

fn totals(lines: &[ReportLine]) -> Totals {
    let mut all = Totals::default();
    let (mut expected, mut took) = (0, 0);
    for line in lines {
        all.sorties += 1;
        all.completed += u64::from(line.status == SortieStatus::Completed);
        all.attempts += u64::from(line.attempts);
        all.unmet_criteria += line.unmet_criteria.len() as u64;
        if let Some(estimate) = line.estimate_ms {
            all.estimate_ms = all.estimate_ms.saturating_add(estimate);
            all.estimated += 1;
        }
        if let Some(actual) = line.actual_ms.filter(|_| line.finished) {
            all.actual_ms = all.actual_ms.saturating_add(actual);
            all.measured += 1;
            if let Some(estimate) = line.estimate_ms {
                expected += u128::from(estimate);
                took += u128::from(actual);
                all.compared += 1;
            }
        }
        if let Some(tokens) = line.tokens {
            all.tokens.input = all.tokens.input.saturating_add(tokens.input);
            all.tokens.output = all.tokens.output.saturating_add(tokens.output);
            all.tokens_reported += 1;
        }
    }
    all.ratio = hundredths(took, expected);
    all
}

fn ratio(actual: Millis, estimate: Millis) -> Option<f64> {
    hundredths(u128::from(actual), u128::from(estimate))
}

/// `part` as a multiple of `whole`, to two places, rounded in whole numbers so that it is the same everywhere.
fn hundredths(part: u128, whole: u128) -> Option<f64> {
    let rounded = (part * 200 + whole).checked_div(whole * 2)?;
    // As many as a report can show are held exactly.
    u32::try_from(rounded)
        .ok()
        .map(|rounded| f64::from(rounded) / 100.0)
}
