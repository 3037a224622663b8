//! `fleet mcp`: offers the fleet as tools to a coding agent, on standard input and output.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use flightline::Access;
use flightline::core::agent::Agent;
use flightline::core::{Code, Refusal, RepoPath};
use flightline::recovery::claims::ListClaims;
use flightline::registry::{self, CallContext, Called, Spoken};
use flightline_mcp::{Call, Loaded, serve_stdio};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{CommandResult, lock, upkeep};
use crate::app::App;
use crate::cli::Globals;

#[derive(Debug, Args)]
pub struct McpArgs {
    /// Which tools to offer: the eight that agents work with, or all fifteen
    #[arg(long, value_name = "SET", default_value = "core")]
    tools: ToolSet,
}

/// The set of tools that a client is offered.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum ToolSet {
    Core,
    Full,
}

pub fn run(args: &McpArgs, app: &mut App) -> CommandResult {
    let loaded = match args.tools {
        ToolSet::Core => Loaded::Core,
        ToolSet::Full => Loaded::Full,
    };
    let app = &*app;
    serve_stdio(loaded, &mut |call| answer(app, call))
        .map_err(|error| Refusal::new(Code::Failed, format!("cannot speak MCP: {error}")))?;
    Ok(ExitCode::SUCCESS)
}

/// Runs an operation as a command of its own would run it: the store, the settings, the trust and the session that this
/// process belongs to are read anew, because all of them change while a client runs.
fn answer(app: &App, call: Call) -> Called {
    let globals = Globals {
        agent: call.agent.clone().or_else(|| app.globals.agent.clone()),
        idempotency_key: None,
        ..app.globals.clone()
    };
    let mut app = match App::new(globals, app.ui.clone(), app.env.clone()) {
        Ok(app) => app,
        Err(refusal) => return Err(refusal).into(),
    };
    app.purpose = "mcp".to_owned();
    let called = match attempt(&mut app, call) {
        Ok(called) => called,
        Err(refusal) => Err(refusal).into(),
    };
    app.say_noticed();
    upkeep(&mut app);
    Called {
        outcome: called.outcome.map_err(|refusal| app.explain(refusal)),
        ..called
    }
}

fn attempt(app: &mut App, call: Call) -> Result<Called, Refusal> {
    let folder = app.home()?.state.clone();
    // Nothing of a stranger's gets into the context of an agent.
    app.must_be_trusted()?;
    let entry = registry::find(call.operation)?;
    let caller = app.caller()?;
    let request = complete(app, entry.name, call.request)?.to_string();
    let ask = CallContext {
        caller: &caller,
        folder: &folder,
        rehearse: call.rehearse,
    };
    let called = entry.run(app.fleet()?, &request, &ask);
    if let Ok(Spoken::Outcome(outcome)) = &called.outcome {
        app.ui.written |= entry.access != Access::Read && !call.rehearse;
        note_session(app, entry.name, outcome);
    }
    Ok(called)
}

/// The operations whose requests carry observations of agents' processes on this machine.
const WITH_SIGHTINGS: [&str; 8] = [
    "acquire_locks",
    "begin_effect",
    "detect",
    "list_agents",
    "resume",
    "show_agent",
    "show_status",
    "undo",
];
/// The operations whose requests carry the state of the work tree.
const WITH_TREE: [&str; 4] = ["brief_agent", "deliver_briefing", "peek_briefing", "resume"];

/// Adds the observations of this machine to a request, and turns its paths into paths of the repository.
fn complete(app: &mut App, operation: &str, mut request: Value) -> Result<Value, Refusal> {
    if WITH_SIGHTINGS.contains(&operation) {
        request["sightings"] = json!(app.sightings()?);
    }
    if WITH_TREE.contains(&operation) {
        let text = |field: &str| request[field].as_str().map(str::to_owned);
        let claims = ListClaims {
            mission: text("mission"),
            checkpoint: text("checkpoint"),
        };
        request["tree"] = json!(app.look(&claims)?);
    }
    match operation {
        "acquire_locks" | "check_locks" => {
            each_text(request.get_mut("paths"), |path| {
                Ok(app.lockable(path)?.to_string())
            })?;
        }
        "release_locks" | "renew_locks" => {
            each_text(request.get_mut("locks"), |named| {
                lock::reference(named, app)
            })?;
        }
        "update_sortie" => {
            for file in request["files"].as_array_mut().into_iter().flatten() {
                each_text(file.get_mut("path"), |path| Ok(app.path(path)?.to_string()))?;
            }
        }
        "add_note" => {
            each_text(request.get_mut("path"), |path| {
                Ok(app.path(path)?.to_string())
            })?;
            if let Some(path) = request["path"].as_str() {
                // A file that is not there is noted without a checksum, which is checked where one is needed.
                request["checksum"] = json!(app.checksum(&RepoPath::parse(path)?).ok());
            }
        }
        _ => {}
    }
    Ok(request)
}

/// Changes a text, or each text of a list, if it is there.
fn each_text(
    value: Option<&mut Value>,
    mut change: impl FnMut(&str) -> Result<String, Refusal>,
) -> Result<(), Refusal> {
    match value {
        Some(Value::String(text)) => *text = change(text)?,
        Some(Value::Array(items)) => {
            for item in items {
                if let Value::String(text) = item {
                    *text = change(text)?;
                }
            }
        }
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => {}
    }
    Ok(())
}

/// Notes the session of an agent that was registered here, so that this process continues as that session.
fn note_session(app: &App, operation: &str, outcome: &RawValue) {
    #[derive(Deserialize)]
    struct Registered {
        agent: Agent,
    }
    if operation == "register_agent"
        && let Ok(Registered { agent }) = serde_json::from_str(outcome.get())
        && let Ok(sessions) = app.sessions()
    {
        sessions.begun(&agent);
    }
}

#[cfg(test)]
mod tests {
    use schemars::SchemaGenerator;

    use super::*;

    #[test]
    fn operations_are_asked_with_all_that_this_machine_knows() {
        for name in flightline_mcp::calls() {
            let entry = registry::find(name).unwrap();
            let schema = (entry.request)(&mut SchemaGenerator::default()).to_value();
            let takes = |field: &str| schema["properties"].get(field).is_some();
            assert_eq!(takes("sightings"), WITH_SIGHTINGS.contains(&name), "{name}");
            assert_eq!(takes("tree"), WITH_TREE.contains(&name), "{name}");
        }
    }
}
