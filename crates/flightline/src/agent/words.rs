//! Sentences about an agent whose work goes on elsewhere or later, in our own words: under the preset of another system its
//! dialect has them.

use std::fmt::Write as _;

use flightline_core::Name;
use flightline_core::agent::Agent;
use flightline_core::dialect::Json;
use flightline_core::sortie::Sortie;

use super::held_sorties;
use super::takeover::Handoff;
use crate::error::Result;
use crate::mission::short;
use crate::op_context::OpContext;
use crate::recovery::verdict;

/// Number of things of one kind that are named one by one.
const NAMED: usize = 10;

/// Writes the handoff: the agent's report on its work, and the sorties and locks it holds or held.
pub(super) fn handed_over(
    ctx: &mut OpContext<'_, '_>,
    checkpoint: &Json,
    handoff: &Handoff,
) -> Result<String> {
    let from = &handoff.from;
    let mut lines = Lines::of(checkpoint);
    lines.one("Instructions", checkpoint.text("recovery_instructions"));
    lines.all("Sorties", ", ", &named(ctx, &handoff.sorties)?);
    lines.all("Locks", ", ", &handoff.locks);
    if handoff.messages > 0 {
        lines.one("Messages", Some(&handoff.messages.to_string()));
    }
    lines.one("File", handoff.checkpoint_file.as_deref());
    let first = match (&handoff.to, lines.0.is_empty()) {
        (None, true) => format!("{from} has said nothing of its work, and holds nothing."),
        (None, false) => format!("The work of {from}:"),
        (Some(to), true) => format!("{to} took over from {from}, which left nothing."),
        (Some(to), false) => format!("{to} took over the work of {from}:"),
    };
    Ok(format!("{first}\n{}", lines.0))
}

/// The commands to go on with, for this caller: a takeover that would be refused is not shown.
pub(super) fn hand_over(
    ctx: &mut OpContext<'_, '_>,
    old: &Agent,
    to: Option<&Name>,
) -> Result<String> {
    let from = &old.name;
    if let Some(to) = to {
        return Ok(format!(
            "See the briefing of {to} with `fleet context --of {to}`"
        ));
    }
    let see = format!("See its briefing with `fleet context --of {from}`");
    if old.retired_at.is_some() || !is_gone(ctx, old)? {
        return Ok(see);
    }
    let may_choose = ctx.is_in_charge() || ctx.agent_id() == Some(old.id);
    let new = match may_choose {
        true => "NEW".to_owned(),
        false => ctx.actor(),
    };
    Ok(format!(
        "{see}; take the work over with `fleet agents takeover {from} {new}`"
    ))
}

fn is_gone(ctx: &mut OpContext<'_, '_>, agent: &Agent) -> Result<bool> {
    if agent.session_started_at.is_none() || agent.session_ended_at.is_some() {
        return Ok(true);
    }
    let pulse = ctx.tx.pulse(agent.id)?;
    Ok(verdict(ctx, agent.clone(), pulse.as_ref(), &[]).is_gone())
}

/// Writes that an agent is back, with its words about its work and the sorties that it holds.
pub(super) fn gone_on(ctx: &mut OpContext<'_, '_>, agent: &Agent, last: &Json) -> Result<String> {
    let mut lines = Lines::of(last);
    let held = held_sorties(ctx, agent.id)?;
    lines.all("Sorties", ", ", &named(ctx, &held)?);
    Ok(format!("{} continues.\n{}", agent.name, lines.0))
}

/// Writes the instructions to a person for an agent whose context is full.
pub(super) fn begin_anew(agent: &Agent, task: Option<&str>) -> String {
    let name = &agent.name;
    let at = task.map_or_else(String::new, |task| format!(" with {task}"));
    format!(
        "{name} continues{at} in a new session. What it has reported is kept:\n\
         \n\
         1. End this session: `fleet agents end --agent {name}`\n\
         2. Start the agent again and bring it back: `fleet agents resume {name}`\n\
         3. Give it its briefing: `fleet context --agent {name}`\n"
    )
}

/// Sorties by their titles and ids.
fn named(ctx: &mut OpContext<'_, '_>, ids: &[String]) -> Result<Vec<String>> {
    let mut all = Vec::new();
    for id in ids {
        let Some(sortie) = ctx.tx.get::<Sortie>(id)? else {
            all.push(short(id));
            continue;
        };
        let task = sortie.task_id.as_ref();
        let id = task.map_or_else(|| short(id), ToString::to_string);
        all.push(format!("\"{}\" ({id})", sortie.title));
    }
    Ok(all)
}

struct Lines(String);

impl Lines {
    fn of(checkpoint: &Json) -> Self {
        let mut lines = Self(String::new());
        lines.one("Feature", checkpoint.text("feature"));
        lines.one("Stage", checkpoint.text("stage"));
        lines.one("Phase", checkpoint.text("phase"));
        lines.one("At", checkpoint.text("current_step"));
        lines.all("Done", "; ", &checkpoint.texts("completed_steps"));
        lines.all("Next", "; ", &checkpoint.texts("next_steps"));
        lines.all("Blocked by", "; ", &checkpoint.texts("blockers"));
        lines.all("Files", ", ", &checkpoint.texts("files_modified"));
        lines
    }

    fn one(&mut self, what: &str, said: Option<&str>) {
        if let Some(said) = said {
            // Writing to a String cannot fail.
            let _ = writeln!(self.0, "- {what}: {}", said.replace(['\n', '\t'], " "));
        }
    }

    fn all(&mut self, what: &str, between: &str, said: &[impl AsRef<str>]) {
        let some: Vec<&str> = said.iter().take(NAMED).map(AsRef::as_ref).collect();
        let mut some = some.join(between);
        if said.len() > NAMED {
            let _ = write!(some, "{between}and {} more", said.len() - NAMED);
        }
        self.one(what, Some(some.as_str()).filter(|some| !some.is_empty()));
    }
}
