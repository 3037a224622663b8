//! `fleet help`: explains a topic or a command.

use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use super::CommandResult;
use crate::app::App;
use crate::help;

#[derive(Debug, Args)]
pub struct HelpArgs {
    /// A topic or a command (default: list all)
    topic: Vec<String>,
}

pub fn help(args: &HelpArgs, app: &mut App) -> CommandResult {
    let text = help::about(&args.topic)?;
    app.ui.answer(&json!({ "text": text }), |page| {
        page.block(0, text.trim_end())
    })?;
    Ok(ExitCode::SUCCESS)
}
