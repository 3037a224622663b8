//! The decisions of a caller that resumes a mission: to go on without failed sorties, and in which state.

use flightline_core::agent::Agent;
use flightline_core::event::EventType;
use flightline_core::mission::Mission;
use flightline_core::recovery::analysis::{agents_of, analyze};
use flightline_core::recovery::{AnalysedAt, Analysis, Analyzed};
use flightline_core::sortie::{Sortie, SortieStatus};
use flightline_core::{Code, Name, Refusal, SortieId};
use flightline_store::Find;
use serde_json::json;

use crate::checkpoint::readable;
use crate::error::Result;
use crate::mission::{enter, short, workflow_history};
use crate::op_context::OpContext;

#[derive(Clone, Debug)]
pub(super) struct Choices {
    /// Continue without failed work.
    pub(super) skip_failed: bool,
    /// Set the workflow back to this state.
    pub(super) reset_to: Option<Name>,
}

#[derive(Debug, Default)]
pub(super) struct Chosen {
    /// The analysis before any decision; none where none was asked for.
    pub(super) analysis: Option<Analysis>,
    /// The agents whose work was left out, in seed D's words.
    pub(super) agents: Vec<String>,
    pub(super) sorties: Vec<SortieId>,
    /// The state that the workflow was to be set back to.
    pub(super) reset_to: Option<Name>,
    pub(super) moved: bool,
    pub(super) warnings: Vec<String>,
    /// Blockers that still need a decision.
    pub(super) still_in_the_way: Vec<String>,
}

impl Choices {
    /// Analyses a mission as it was found, and carries the decisions out, as acts of the caller. Under a strict policy,
    /// an undecided blocker stops a resume.
    pub(super) fn apply(
        self,
        ctx: &mut OpContext<'_, '_>,
        mission: &mut Mission,
        when: AnalysedAt<'_>,
    ) -> Result<Chosen> {
        // An unreadable sortie is the doctor's, and no reason to stop.
        let (mut sorties, _) = readable::<Sortie>(ctx.tx, Find::Mission(mission.id))?;
        sorties.sort_by_key(|sortie| sortie.position);
        let agents = ctx.tx.find::<Agent>(Find::All)?;
        let found = Analyzed {
            mission,
            sorties: &sorties.iter().collect::<Vec<_>>(),
            agents: &agents.iter().collect::<Vec<_>>(),
            when,
            retry_limit: ctx.policy.retry_limit,
        };
        let mut chosen = Chosen {
            analysis: Some(self.weigh(ctx, &found)?),
            ..Chosen::default()
        };
        if self.skip_failed {
            skip(ctx, &mut sorties, &agents, &mut chosen)?;
        }
        if let Some(to) = &self.reset_to {
            chosen.moved = reset(ctx, mission, to)?;
        }
        chosen.reset_to = self.reset_to;
        chosen.still_in_the_way = Analyzed {
            mission,
            sorties: &sorties.iter().collect::<Vec<_>>(),
            agents: &agents.iter().collect::<Vec<_>>(),
            when,
            retry_limit: ctx.policy.retry_limit,
        }
        .stops();
        Ok(chosen)
    }

    fn weigh(&self, ctx: &OpContext<'_, '_>, found: &Analyzed<'_>) -> Result<Analysis> {
        let analysis = analyze(found);
        let decided = self.skip_failed || self.reset_to.is_some();
        if analysis.can_resume || decided || !ctx.policy.strict {
            return Ok(analysis);
        }
        let (mission, errors) = (found.mission, found.stops());
        let (id, title, why) = (short(mission.id), &mission.title, errors.join("; "));
        Err(Refusal::new(
            Code::Unfinished,
            format!("cannot resume {id} (\"{title}\"): {why}"),
        )
        .hint(analysis.suggestions.join("\n"))
        .details(json!({
            "errors": errors,
            "blockers": analysis.blockers,
            "suggestions": analysis.suggestions,
        }))
        .into())
    }
}

fn skip(
    ctx: &mut OpContext<'_, '_>,
    sorties: &mut [Sortie],
    agents: &[Agent],
    chosen: &mut Chosen,
) -> Result<()> {
    let names = agents_of(sorties, agents);
    for (sortie, name) in sorties.iter_mut().zip(names) {
        if sortie.status != SortieStatus::Failed {
            continue;
        }
        sortie.status = SortieStatus::Skipped;
        sortie.updated_at = ctx.now();
        let data = json!({ "agent": name, "reason": sortie.failure, "attempts": sortie.attempts });
        ctx.tx.set(EventType::SortieSkipped, sortie, &data)?;
        let (id, title) = (short(sortie.id), &sortie.title);
        chosen
            .warnings
            .push(format!("{id} (\"{title}\") failed and is left out"));
        chosen.sorties.push(sortie.id);
        chosen.agents.push(name);
    }
    Ok(())
}

/// Sets the workflow back. Returns true when it was in another state.
fn reset(ctx: &mut OpContext<'_, '_>, mission: &mut Mission, to: &Name) -> Result<bool> {
    let history = workflow_history(ctx, mission)?;
    let was_in: Vec<String> = history.into_iter().map(|past| past.state).collect();
    mission.workflow.check_reset(to, &was_in)?;
    if mission.workflow.current.as_ref() == Some(to) {
        return Ok(false);
    }
    // Transitions that were asked for in the left state wait for nothing any more.
    mission.workflow.pending.clear();
    enter(ctx, mission, to.clone(), "recovery")?;
    Ok(true)
}
