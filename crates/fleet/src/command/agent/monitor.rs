//! `fleet agents monitor`: reports silent agents, once or again and again.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use flightline::agent::monitor::{MonitorAgents, Monitored, MonitoredAgent, SilenceNotice};
use flightline::core::dialect::epic::MonitorLevel;
use flightline::core::policy::Preset;

use crate::app::App;
use crate::command::{ATTENTION, CommandResult, typed};
use crate::ui::{Cell, Page, state};

#[derive(Debug, Args)]
pub struct MonitorArgs {
    /// Repeat until interrupted; one JSON document per check with `--json`
    #[arg(long)]
    watch: bool,
    /// Time between two checks, such as `15m`
    #[arg(long, value_name = "SPAN", value_parser = typed::span, default_value = "1m", requires = "watch")]
    interval: u64,
    /// Stop after this time, such as `8h` (default: never)
    #[arg(long = "for", value_name = "SPAN", value_parser = typed::span, requires = "watch")]
    during: Option<u64>,
}

pub fn run(args: &MonitorArgs, app: &mut App) -> CommandResult {
    let began = Instant::now();
    loop {
        let sightings = app.sightings()?;
        let seen = app.run(&MonitorAgents { sightings })?;
        if args.watch {
            app.ui.look(&seen, |page| report(page, &seen))?;
        } else {
            app.ui.answer(&seen, |page| report(page, &seen))?;
        }
        for agent in &seen.agents {
            say_told(agent, app);
        }
        let left = match (args.watch, args.during) {
            (false, _) => Duration::ZERO,
            (true, None) => Duration::MAX,
            (true, Some(span)) => Duration::from_millis(span).saturating_sub(began.elapsed()),
        };
        if left.is_zero() {
            return Ok(match seen.attention {
                true => ExitCode::from(ATTENTION),
                false => ExitCode::SUCCESS,
            });
        }
        // Interrupted here or anywhere, it leaves each message sent whole or not at all.
        std::thread::sleep(left.min(Duration::from_millis(args.interval)));
    }
}

/// Prints seed C's report in its fleets, and nothing else. In other fleets, prints the table of `fleet agents list` as
/// well.
fn report(page: &mut Page, seen: &Monitored) {
    if seen.preset == Preset::Epic {
        for agent in &seen.agents {
            page.line(&agent.line);
        }
    } else {
        let row = |agent: &MonitoredAgent| {
            vec![
                state(agent.life.as_str()),
                Cell::new(&agent.agent),
                Cell::new(&agent.evidence),
            ]
        };
        page.table(&[], &seen.agents.iter().map(row).collect::<Vec<_>>());
    }
    if seen.agents.is_empty() {
        page.line("No agent to monitor: only coordinating agents have begun.");
    }
}

/// Prints the actions taken for a silent agent, beside the report.
fn say_told(agent: &MonitoredAgent, app: &App) {
    let name = &agent.agent;
    match &agent.told {
        Some(SilenceNotice::Warned) => app.ui.talk(format_args!("{name} was warned.")),
        Some(SilenceNotice::Escalated { to, notice }) => {
            app.ui.warn(format_args!(
                "{notice}. {to} was told; continue with `fleet agents resume {name}`, `fleet agents takeover {name} NEW` or `fleet agents restart {name}`"
            ));
        }
        None if agent.complete && agent.standing != MonitorLevel::Active => app.ui.talk(
            format_args!("{name} reported that it is complete: its silence is ignored."),
        ),
        None => {}
    }
}
