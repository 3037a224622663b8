//! What whoever resumes a mission decides: to go on without what failed, and in which state.

use flightline_core::agent::Agent;
use flightline_core::mission::Mission;
use flightline_core::recovery::analysis::{agents_of, analyze};
use flightline_core::recovery::{Analysis, Analyzed, When};
use flightline_core::sortie::{Sortie, SortieStatus};
use flightline_core::{Code, Name, Refusal, SortieId};
use flightline_store::Find;
use serde_json::json;

use crate::desk::Desk;
use crate::error::Result;
use crate::mission::{enter, short, workflow_history};

/// What was decided.
#[derive(Clone, Debug, Default)]
pub(super) struct Choices {
    /// Go on without what failed.
    pub(super) skip_failed: bool,
    /// Set the workflow back to this state.
    pub(super) reset_to: Option<Name>,
}

/// What came of it.
pub(super) struct Chosen {
    /// Whose work was left out, in seed D's words.
    pub(super) agents: Vec<String>,
    /// What was left out.
    pub(super) sorties: Vec<SortieId>,
    /// Whether the workflow was moved.
    pub(super) moved: bool,
    /// What is worth knowing.
    pub(super) warnings: Vec<String>,
    /// What still wants a decision.
    pub(super) still_in_the_way: Vec<String>,
}

impl Choices {
    /// Analyses what was found. Under a strict policy, what nobody has decided about stops a resume.
    pub(super) fn weigh(
        &self,
        desk: &mut Desk<'_, '_>,
        mission: &Mission,
        when: When<'_>,
    ) -> Result<Analysis> {
        let (sorties, agents) = work_of(desk, mission)?;
        let found = Analyzed {
            mission,
            sorties: &sorties,
            agents: &agents,
            when,
            retry_limit: desk.policy.retry_limit,
        };
        let analysis = analyze(&found);
        let decided = self.skip_failed || self.reset_to.is_some();
        if analysis.can_resume || decided || !desk.policy.strict {
            return Ok(analysis);
        }
        Err(Refusal::new(
            Code::Unfinished,
            format!(
                "cannot resume {} (\"{}\"): {}",
                short(mission.id),
                mission.title,
                found.stops().join("; ")
            ),
        )
        .hint(analysis.suggestions.join("\n"))
        .details(json!({
            "errors": found.stops(),
            "blockers": analysis.blockers,
            "suggestions": analysis.suggestions,
        }))
        .into())
    }

    /// Does what was decided, as whoever decided it.
    pub(super) fn apply(&self, desk: &mut Desk<'_, '_>, mission: &mut Mission) -> Result<Chosen> {
        let (mut sorties, agents) = work_of(desk, mission)?;
        let names = agents_of(&sorties, &agents);
        let mut chosen = Chosen {
            agents: Vec::new(),
            sorties: Vec::new(),
            moved: false,
            warnings: Vec::new(),
            still_in_the_way: Vec::new(),
        };
        for (sortie, name) in sorties.iter_mut().zip(names) {
            if !self.skip_failed || sortie.status != SortieStatus::Failed {
                continue;
            }
            sortie.status = SortieStatus::Skipped;
            sortie.updated_at = desk.now();
            let data =
                json!({ "agent": name, "reason": sortie.failure, "attempts": sortie.attempts });
            desk.tx.set("sortie_skipped", sortie, &data)?;
            chosen.warnings.push(format!(
                "{} (\"{}\") failed and is left out",
                short(sortie.id),
                sortie.title
            ));
            chosen.sorties.push(sortie.id);
            chosen.agents.push(name);
        }
        if let Some(to) = &self.reset_to {
            chosen.moved = self.reset(desk, mission, to)?;
        }
        chosen.still_in_the_way = Analyzed {
            mission,
            sorties: &sorties,
            agents: &agents,
            when: When::Now,
            retry_limit: desk.policy.retry_limit,
        }
        .stops();
        Ok(chosen)
    }

    fn reset(&self, desk: &mut Desk<'_, '_>, mission: &mut Mission, to: &Name) -> Result<bool> {
        let history = workflow_history(desk, mission)?;
        let was_in: Vec<String> = history.into_iter().map(|past| past.state).collect();
        mission.workflow.check_reset(to, &was_in)?;
        if mission.workflow.current.as_ref() == Some(to) {
            return Ok(false);
        }
        // What was asked for in the state that is left waits for nothing any more.
        mission.workflow.pending.clear();
        enter(desk, mission, to.clone(), "recovery")?;
        Ok(true)
    }
}

/// The sorties of a mission, in order, and the agents of the project.
fn work_of(desk: &mut Desk<'_, '_>, mission: &Mission) -> Result<(Vec<Sortie>, Vec<Agent>)> {
    let mut sorties = desk.tx.find::<Sortie>(Find::Mission(mission.id))?;
    sorties.sort_by_key(|sortie| sortie.position);
    Ok((sorties, desk.tx.find::<Agent>(Find::All)?))
}
