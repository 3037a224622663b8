//! `fleet completions`, `man` and `schema`: prints completion scripts, manual pages and JSON schemas.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use clap_complete::env::Shells;
use flightline::core::{Code, Refusal};
use flightline::file::Replacing;
use flightline::workspace::beneath::Dir;
use serde_json::{Map, json};

use super::CommandResult;
use crate::app::App;
use crate::help;

#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell that shall complete commands
    shell: Shell,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
    Elvish,
    Powershell,
}

#[derive(Debug, Args)]
pub struct ManArgs {
    /// Write one page per command to this folder
    #[arg(long = "to", value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct SchemaArgs {
    /// The name of the schema (default: list all names)
    name: Option<String>,
}

pub fn completions(args: &CompletionsArgs, app: &mut App) -> CommandResult {
    let name = match args.shell {
        Shell::Bash => "bash",
        Shell::Zsh => "zsh",
        Shell::Fish => "fish",
        Shell::Elvish => "elvish",
        Shell::Powershell => "powershell",
    };
    let shells = Shells::builtins();
    let shell = shells
        .completer(name)
        .ok_or_else(|| Refusal::invalid(format!("`{name}` is not a shell we know")))?;
    let mut script = Vec::new();
    shell
        .write_registration("COMPLETE", "fleet", "fleet", "fleet", &mut script)
        .map_err(|error| Refusal::new(Code::Failed, format!("cannot write the script: {error}")))?;
    let script = String::from_utf8_lossy(&script).into_owned();
    app.ui
        .answer(&json!({ "shell": name, "script": script }), |page| {
            page.block(0, script.trim_end())
        })?;
    Ok(ExitCode::SUCCESS)
}

pub fn man(args: &ManArgs, app: &mut App) -> CommandResult {
    let failed = |error: std::io::Error| {
        Refusal::new(Code::Failed, format!("cannot write the manual: {error}"))
    };
    if let Some(folder) = &args.folder {
        let folder = app.here.join(folder);
        let (above, below) = app.towards(&folder).map_err(failed)?;
        let place = above.make(below, 0o755).map_err(failed)?;
        let mut command = help::command();
        command.build();
        let pages = write_pages(command, &place).map_err(failed)?;
        app.ui
            .answer(&json!({ "folder": folder, "pages": pages }), |page| {
                page.line(format_args!("Wrote {pages} pages to {}", folder.display()));
            })?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = Vec::new();
    clap_mangen::Man::new(help::command())
        .render(&mut text)
        .map_err(failed)?;
    let text = String::from_utf8_lossy(&text).into_owned();
    app.ui.answer(&json!({ "page": text }), |page| {
        page.block(0, text.trim_end())
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the page of a command and those of its commands. Returns how many it wrote.
fn write_pages(command: clap::Command, place: &Dir) -> std::io::Result<usize> {
    let mut pages = 1;
    let inner = command
        .get_subcommands()
        .filter(|inner| !inner.is_hide_set());
    for inner in inner.cloned().collect::<Vec<_>>() {
        pages += write_pages(inner, place)?;
    }
    let (page, mut text) = (clap_mangen::Man::new(command), Vec::new());
    page.render(&mut text)?;
    place.put(page.get_filename(), text, Replacing::Yes, 0o644)?;
    Ok(pages)
}

pub fn schema(args: &SchemaArgs, app: &mut App) -> CommandResult {
    let schemas = flightline_server::schemas();
    let names: Vec<&String> = schemas
        .as_object()
        .into_iter()
        .flat_map(Map::keys)
        .collect();
    let Some(wanted) = &args.name else {
        app.ui.answer(&names, |page| {
            for name in &names {
                page.line(name);
            }
        })?;
        return Ok(ExitCode::SUCCESS);
    };
    let Some(schema) = schemas.get(wanted) else {
        let names: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
        return Err(
            Refusal::new(Code::NotFound, format!("there is no schema `{wanted}`"))
                .hint(format!("schemas: {}", names.join(", "))),
        );
    };
    app.ui
        .answer(schema, |page| page.block(0, format_args!("{schema:#}")))?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use schemars::{JsonSchema, SchemaGenerator};
    use serde_json::Value;

    use super::*;

    type MakeSchema = fn() -> Value;

    /// The published schemas by name.
    const SCHEMAS: &[(&str, MakeSchema)] = &[
        (
            "checkpoint",
            schema_of::<flightline::checkpoint::CheckpointDocument>,
        ),
        (
            "checkpoint-list",
            schema_of::<flightline::checkpoint::inspect::CheckpointList>,
        ),
        (
            "recovery-context",
            schema_of::<flightline::core::recovery::RecoveryContext>,
        ),
        ("briefing", schema_of::<flightline::context::Briefed>),
        (
            "candidate",
            schema_of::<flightline::recovery::detect::RecoveryCandidate>,
        ),
        (
            "resumed",
            schema_of::<flightline::recovery::resume::Resumed>,
        ),
        (
            "recovery-points",
            schema_of::<flightline::recovery::points::RecoveryPoints>,
        ),
        (
            "prepared",
            schema_of::<flightline::checkpoint::destructive::Prepared>,
        ),
        ("pruned", schema_of::<flightline::checkpoint::prune::Pruned>),
        ("replay", schema_of::<crate::command::replay::Header>),
        ("replay-end", schema_of::<crate::command::replay::End>),
        ("replay-step", schema_of::<flightline::replay::ReplayStep>),
        (
            "monitored",
            schema_of::<flightline::agent::monitor::Monitored>,
        ),
        (
            "resumed-agent",
            schema_of::<flightline::agent::resume::ResumedAgent>,
        ),
        (
            "taken-over",
            schema_of::<flightline::agent::takeover::TakenOver>,
        ),
        ("handoff", schema_of::<flightline::agent::takeover::Handoff>),
        ("restored", schema_of::<flightline::backup::Restored>),
        (
            "restored-states",
            schema_of::<crate::command::recovery::StatesRestored>,
        ),
        ("serving", schema_of::<crate::command::serve::Serving>),
        ("edited", schema_of::<crate::command::prime::Edited>),
        (
            "created-token",
            schema_of::<crate::command::token::CreatedToken>,
        ),
        ("policy", schema_of::<flightline::core::policy::Policy>),
        ("mission", schema_of::<flightline::core::mission::Mission>),
        ("sortie", schema_of::<flightline::core::sortie::Sortie>),
        ("agent", schema_of::<flightline::core::agent::Agent>),
        ("lock", schema_of::<flightline::core::lock::Lock>),
        ("message", schema_of::<flightline::core::message::Message>),
        ("note", schema_of::<flightline::core::note::Note>),
        ("effect", schema_of::<flightline::core::effect::Effect>),
        ("event", schema_of::<flightline::core::event::Event>),
        ("error", schema_of::<Refusal>),
        ("status", schema_of::<flightline::status::FleetStatus>),
        ("stats", schema_of::<flightline::stats::Stats>),
        ("report", schema_of::<flightline::report::Report>),
        ("task-table", schema_of::<flightline::task::TaskTable>),
        (
            "mission-view",
            schema_of::<flightline::mission::MissionView>,
        ),
        ("sortie-view", schema_of::<flightline::sortie::SortieView>),
        ("agent-view", schema_of::<flightline::agent::AgentView>),
        ("lock-view", schema_of::<flightline::lock::LockView>),
        ("message-view", schema_of::<flightline::mail::MessageView>),
    ];

    fn schema_of<T: JsonSchema>() -> Value {
        SchemaGenerator::default()
            .into_root_schema_for::<T>()
            .to_value()
    }

    #[test]
    fn the_published_schemas_are_those_of_the_types() {
        let made: Map<String, Value> = SCHEMAS
            .iter()
            .map(|(name, make)| ((*name).to_owned(), make()))
            .collect();
        let text = format!("{:#}\n", Value::Object(made));
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schemas.json");
        #[expect(
            clippy::disallowed_methods,
            reason = "as snapshots are renewed everywhere"
        )]
        if std::env::var("UPDATE_EXPECT").is_ok() {
            std::fs::write(path, &text).unwrap();
        }
        #[expect(clippy::disallowed_methods, reason = "a file of the repository")]
        let committed = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            committed == text,
            "docs/schemas.json is old: run this test with UPDATE_EXPECT=1"
        );
    }
}
