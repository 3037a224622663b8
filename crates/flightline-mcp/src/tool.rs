//! The tools: rows of a table. Each maps its arguments to one operation of the registry.

mod agents;
mod inspect;
mod recover;
mod work;

use std::sync::Arc;

use flightline::core::Refusal;
use flightline::registry::{Called, Spoken, misfit, value_of};
use rmcp::model::{CallToolResult, ContentBlock, JsonObject, Tool as Described, ToolAnnotations};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::mirror::ToolOutput;
use crate::next;
use crate::room::{FieldMap, MOST, cut, fit, page, without_nulls};
use crate::runner::{Call, OperationRunner};
use crate::schema;
#[cfg(test)]
use crate::schema::Maker;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Loaded {
    /// The tools that every agent works with.
    #[default]
    Core,
    /// All tools, each with its whole schema.
    Full,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Does {
    Looks,
    /// Writes, and loses nothing that was there.
    Adds,
    /// Takes work back.
    Rewinds,
}

/// A tool. Its arguments are a type; fields that few calls need are read and not described (`#[schemars(skip)]`): every
/// description is paid for in every request to a model. docs/mcp.md has all of them.
pub(crate) struct Tool {
    pub(crate) name: &'static str,
    title: &'static str,
    about: &'static str,
    loaded: Loaded,
    does: Does,
    #[cfg(test)]
    input: Maker,
    /// The fields of the tool's outcome, each with its type.
    output: &'static [(&'static str, &'static str)],
    plan: fn(&str) -> Result<PlannedCall, Refusal>,
}

/// The operation for a call, and how its outcome is rendered.
pub(crate) struct PlannedCall {
    pub(crate) call: Call,
    show: Show,
}

type Show = Box<dyn FnOnce(Value) -> Result<ToolOutput, Refusal> + Send>;

impl PlannedCall {
    /// Plans the call of an operation whose outcome `show` renders.
    fn new(call: Call, show: impl FnOnce(Value) -> ToolOutput + Send + 'static) -> Self {
        Self {
            call,
            show: Box::new(move |outcome| Ok(show(outcome))),
        }
    }

    /// Plans the call of an operation that gives a list, of which the part that fits is shown.
    fn list(call: Call, list: List, cursor: Option<String>) -> Self {
        Self {
            call,
            show: Box::new(move |outcome| list.show(outcome, cursor.as_deref())),
        }
    }
}

#[derive(Clone, Copy)]
struct List {
    /// The field that holds the items in the tool's outcome.
    key: &'static str,
    one: &'static str,
    id: &'static str,
    at: &'static str,
    line: fn(&Value) -> String,
}

impl List {
    fn show(self, mut outcome: Value, cursor: Option<&str>) -> Result<ToolOutput, Refusal> {
        let items = match outcome.pointer_mut(self.at).map(Value::take) {
            Some(Value::Array(items)) => items,
            _ => Vec::new(),
        };
        let all = items.len();
        let (page, next) = page(items, self.id, cursor)?;
        let many = self.key.replace('_', " ");
        let first = match (all, page.len()) {
            (all, shown) if all == shown => crate::mirror::count(all, self.one, &many),
            (all, shown) => format!("{shown} of {all} {many}"),
        };
        let mut lines = vec![first];
        lines.extend(page.iter().map(self.line));
        if let Some(next) = &next {
            let more = format!("more: call again with \"cursor\": \"{next}\"");
            lines.truncate(crate::mirror::LINES - 1);
            lines.push(more);
        }
        let mut content = FieldMap::from_iter([(self.key.to_owned(), Value::Array(page))]);
        if let Some(next) = next {
            content.insert("next_cursor".to_owned(), Value::String(next));
        }
        Ok(ToolOutput {
            content,
            lines,
            document: None,
        })
    }
}

fn all() -> impl Iterator<Item = &'static Tool> {
    let rows: [&[Tool]; 4] = [inspect::TOOLS, recover::TOOLS, work::TOOLS, agents::TOOLS];
    rows.into_iter().flatten()
}

/// Finds the tool of this name, whether it is loaded or not.
pub(crate) fn find(name: &str) -> Option<&'static Tool> {
    all().find(|tool| tool.name == name)
}

pub(crate) fn loaded(loaded: Loaded) -> impl Iterator<Item = &'static Tool> {
    all().filter(move |tool| loaded == Loaded::Full || tool.loaded == Loaded::Core)
}

fn read<T: DeserializeOwned>(tool: &str, arguments: &str) -> Result<T, Refusal> {
    misfit::read(&format!("the call of `{tool}`"), arguments)
}

/// Returns the value that an action needs, or a refusal that says which field is missing.
fn needed<T>(tool: &str, action: &str, field: &str, given: Option<T>) -> Result<T, Refusal> {
    given.ok_or_else(|| {
        Refusal::invalid(format!("`{action}` of `{tool}` lacks `{field}`"))
            .hint(format!("call `{tool}` again with `{field}`"))
    })
}

impl Tool {
    pub(crate) fn described(&self) -> Described {
        let annotations = ToolAnnotations::new();
        let annotations = match self.does {
            Does::Looks => annotations.read_only(true),
            Does::Adds => annotations.destructive(false),
            Does::Rewinds => annotations.destructive(true),
        };
        Described::new(self.name, self.about, self.arguments())
            .with_title(self.title)
            .with_annotations(annotations)
            .with_raw_output_schema(Arc::new(schema::output(self.output)))
    }

    fn arguments(&self) -> JsonObject {
        schema::input(self.name)
    }

    pub(crate) async fn call(
        &self,
        runner: &dyn OperationRunner,
        loaded: Loaded,
        arguments: Option<JsonObject>,
    ) -> CallToolResult {
        let arguments = Value::Object(arguments.unwrap_or_default()).to_string();
        let (shown, warnings) = match (self.plan)(&arguments) {
            Err(refusal) => (Err(refusal), Vec::new()),
            Ok(plan) => {
                let Called { outcome, warnings } = runner.call(plan.call).await;
                let shown = outcome.and_then(|spoken| match spoken {
                    Spoken::Outcome(outcome) => {
                        let mut outcome = value_of(&outcome)?;
                        without_nulls(&mut outcome);
                        (plan.show)(outcome)
                    }
                    // The request is delivered when the server can be reached, or is dropped because a later one
                    // replaces it.
                    Spoken::Later(later) => {
                        let content = serde_json::json!({ "later": later.message });
                        Ok(ToolOutput::object(content, later.message))
                    }
                });
                (shown, warnings)
            }
        };
        match shown {
            Ok(shown) => told(shown, warnings),
            Err(refusal) => {
                let mut text = next::told(&refusal, self.name, loaded);
                for warning in warnings {
                    text.push_str(&format!("\nwarning: {warning}"));
                }
                CallToolResult::error(vec![ContentBlock::text(text)])
            }
        }
    }
}

fn told(shown: ToolOutput, warnings: Vec<String>) -> CallToolResult {
    let shown = shown.with_lines(warnings.into_iter().map(|it| format!("warning: {it}")));
    let mut content = vec![ContentBlock::text(shown.text())];
    content.extend(shown.document.map(|text| ContentBlock::text(cut(text))));
    let mut structured = Value::Object(shown.content);
    fit(&mut structured, MOST);
    let mut result = CallToolResult::structured(structured);
    result.content = content;
    result
}

/// Every operation that a tool, a resource or a prompt may call.
pub fn calls() -> Vec<&'static str> {
    let mut names: Vec<&str> = examples()
        .filter_map(|(tool, arguments)| (find(tool)?.plan)(arguments).ok())
        .map(|plan| plan.call.operation)
        .collect();
    names.extend(crate::resource::calls());
    names.extend(crate::prompt::calls());
    names.sort_unstable();
    names.dedup();
    names
}

pub(crate) fn examples() -> impl Iterator<Item = (&'static str, &'static str)> {
    EXAMPLES.lines().filter_map(|line| line.split_once(' '))
}

/// A call of each action of each tool.
const EXAMPLES: &str = r#"fleet_status {}
fleet_status {"mission":"msn-1a2b"}
fleet_context {}
fleet_context {"full":true,"max_tokens":1000,"agent":"ada"}
fleet_context {"of":"bob"}
fleet_context {"ack":"40d7fc60"}
fleet_heartbeat {"step":"tests","context_percent":40}
fleet_sortie {"action":"list","status":"pending"}
fleet_sortie {"action":"show","sortie":"srt-1a2b"}
fleet_sortie {"action":"claim"}
fleet_sortie {"action":"claim","sortie":"srt-1a2b","lock":true}
fleet_sortie {"action":"start","sortie":"srt-1a2b"}
fleet_sortie {"action":"update","sortie":"srt-1a2b","text":"half","next":"rest","files":["a.rs"],"subtasks":{"one":"complete"},"checkpoint":true}
fleet_sortie {"action":"complete","sortie":"srt-1a2b","text":"done","checkpoint":true}
fleet_sortie {"action":"fail","sortie":"srt-1a2b","text":"why"}
fleet_sortie {"action":"block","sortie":"srt-1a2b","text":"why"}
fleet_sortie {"action":"unblock","sortie":"srt-1a2b"}
fleet_sortie {"action":"release","sortie":"srt-1a2b"}
fleet_sortie {"action":"error","sortie":"srt-1a2b","text":"timeout"}
fleet_note {"kind":"decision","text":"use tokens","rationale":"short"}
fleet_note {"action":"list","kind":"decision"}
fleet_note {"action":"close","note":"nte-1a2b"}
fleet_note {"action":"withdraw","note":"nte-1a2b","text":"why"}
fleet_checkpoint {"note":"before the refactoring"}
fleet_lock {"action":"acquire","paths":["src/a.rs"],"purpose":"why"}
fleet_lock {"action":"renew","paths":["src/a.rs"]}
fleet_lock {"action":"release","paths":["src/a.rs"]}
fleet_lock {"action":"release"}
fleet_lock {"action":"check","paths":["src/a.rs"]}
fleet_lock {"action":"list"}
fleet_mail {"action":"inbox"}
fleet_mail {"action":"read","message":"msg-1a2b"}
fleet_mail {"action":"send","to":["bob"],"subject":"hello","body":"you"}
fleet_mail {"action":"reply","message":"msg-1a2b","body":"yes"}
fleet_mail {"action":"ack","message":"msg-1a2b"}
fleet_mail {"action":"thread","message":"msg-1a2b"}
fleet_mission {"action":"list"}
fleet_mission {"action":"show"}
fleet_mission {"action":"create","title":"M","objective":"it works","sorties":["One","Two"]}
fleet_mission {"action":"add","sorties":["Three"]}
fleet_mission {"action":"use","mission":"msn-1a2b"}
fleet_mission {"action":"start"}
fleet_mission {"action":"pause","reason":"why"}
fleet_mission {"action":"complete"}
fleet_mission {"action":"fail","reason":"why"}
fleet_mission {"action":"archive"}
fleet_checkpoints {"action":"list"}
fleet_checkpoints {"action":"show","checkpoint":"@latest"}
fleet_checkpoints {"action":"diff","checkpoint":"@latest~1","with":"@latest"}
fleet_checkpoints {"action":"verify"}
fleet_checkpoints {"action":"pin","checkpoint":"@latest"}
fleet_checkpoints {"action":"unpin","checkpoint":"@latest"}
fleet_checkpoints {"action":"note","checkpoint":"@latest","text":"good"}
fleet_resume {"action":"detect"}
fleet_resume {"action":"preview"}
fleet_resume {"action":"resume","checkpoint":"@latest"}
fleet_resume {"action":"undo"}
fleet_effect {"action":"begin","key":"deploy","what":"to production"}
fleet_effect {"action":"done","key":"deploy","result":"up"}
fleet_effect {"action":"list","in_doubt":true}
fleet_agents {"action":"list"}
fleet_agents {"action":"show","name":"bob"}
fleet_agents {"action":"register","name":"bob","role":"specialist"}
fleet_agents {"action":"retire","name":"bob","reason":"done"}
fleet_agents {"action":"handoff","name":"bob"}
fleet_events {}
fleet_events {"type":"sortie_claimed","cursor":"c671d4fa-1108-4855-8fd5-a008dad3a81f.21"}
fleet_replay {}
fleet_replay {"from":"3","cursor":"9"}"#;

#[cfg(test)]
mod tests;
