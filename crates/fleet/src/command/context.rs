//! `fleet context`: prints the acting agent's briefing, previews another agent's, and acknowledges one.

use std::process::ExitCode;

use clap::Args;
use flightline::context::peek::PeekBriefing;
use flightline::context::{AcknowledgeBriefing, BriefAgent, DeliverBriefing};
use flightline::recovery::claims::ListClaims;

use super::CommandResult;
use crate::app::App;
use crate::complete;

#[derive(Debug, Args)]
pub struct ContextArgs {
    /// Maximum number of tokens (default: 2000)
    #[arg(long, value_name = "N")]
    max_tokens: Option<usize>,
    /// Only the required parts
    #[arg(long)]
    minimal: bool,
    /// The whole briefing, even if it was given before
    #[arg(long)]
    full: bool,
    /// Preview this agent's briefing without acting as the agent; nothing is recorded
    #[arg(long, value_name = "NAME", conflicts_with_all = ["full", "ack"], add = complete::agents())]
    of: Option<String>,
    /// Acknowledge the briefing that has this word
    #[arg(long, value_name = "WORD", conflicts_with_all = ["max_tokens", "minimal", "full"])]
    ack: Option<String>,
}

pub fn run(args: &ContextArgs, app: &mut App) -> CommandResult {
    if let Some(nonce) = &args.ack {
        let briefing = app.run(&AcknowledgeBriefing {
            nonce: nonce.clone(),
        })?;
        app.ui.answer(&briefing, |page| {
            page.line("Acknowledged. Continue the mission.")
        })?;
        return Ok(ExitCode::SUCCESS);
    }
    let (max_tokens, minimal) = (args.max_tokens, args.minimal);
    let tree = app.look(&ListClaims::default())?;
    if let Some(agent) = &args.of {
        let seen = app.run(&PeekBriefing {
            agent: agent.clone(),
            mission: None,
            max_tokens,
            minimal,
            tree,
        })?;
        app.ui.answer(&seen, |page| page.block(0, &seen.text))?;
        return Ok(ExitCode::SUCCESS);
    }
    // A person has no context that could be filled with what it holds already.
    let briefed = if args.full || app.caller()?.agent.is_none() {
        app.run(&BriefAgent {
            mission: None,
            max_tokens,
            minimal,
            tree,
        })?
    } else {
        app.run(&DeliverBriefing {
            mission: None,
            max_tokens,
            minimal,
            tree,
        })?
    };
    app.ui
        .answer(&briefed, |page| page.block(0, &briefed.text))?;
    Ok(ExitCode::SUCCESS)
}
