//! Reads the act of a tool from its input. The clients share a few shapes and differ in names, so every name is tried.

use serde_json::Value;

use crate::json::{first, text, unwrapped};
use crate::{ClientTask, ClientTaskStatus, ToolUse};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolKind {
    /// The tool changes the files that its input names.
    Edit,
    Shell,
    /// The tool replaces the client's own task list.
    Tasks,
}

/// Returns the act of a tool of this kind with this input. An input that does not say is `Other`.
pub fn tool_use(act: ToolKind, input: &Value) -> ToolUse {
    let input = &*unwrapped(input);
    let known = match act {
        ToolKind::Edit => edit(input),
        ToolKind::Shell => shell(input),
        ToolKind::Tasks => tasks(input).map(ToolUse::Tasks),
    };
    known.unwrap_or(ToolUse::Other)
}

/// The entries of a task list, wherever the input has it: as a list, or as a text of `- [x] …` lines.
pub fn tasks(input: &Value) -> Option<Vec<ClientTask>> {
    let list = first(input, &["todos", "plan", "items", "tasks", "task_progress"])?;
    match &*unwrapped(list) {
        Value::Array(entries) => Some(entries.iter().filter_map(task).collect()),
        Value::String(lines) => Some(lines.lines().filter_map(checked).collect()),
        _ => None,
    }
}

/// A reason in few words: at most 300 characters, and never empty.
pub fn reason(why: &str) -> String {
    const LONGEST: usize = 300;
    let why = why.trim();
    if why.is_empty() {
        return "failed".to_owned();
    }
    match why.char_indices().nth(LONGEST) {
        None => why.to_owned(),
        Some(_) => why.chars().take(LONGEST - 1).chain(['…']).collect(),
    }
}

/// Describes the failure of a shell command, from its exit code and its output. The end of an output gives the reason.
pub fn exit_reason(code: i64, output: &str) -> Option<String> {
    if code == 0 {
        return None;
    }
    let last = output.lines().map(str::trim).rfind(|it| !it.is_empty());
    Some(match last {
        Some(line) => reason(&format!("exit code {code}: {line}")),
        None => format!("exit code {code}"),
    })
}

pub fn exit_code(result: &Value) -> Option<i64> {
    let code = |value: &Value| first(value, &["exit_code", "exitCode"])?.as_i64();
    code(result).or_else(|| code(result.get("metadata")?))
}

/// The files that a patch of the `*** Update File: …` kind changes, each once.
pub fn patched_files(patch: &str) -> Vec<String> {
    const MARKS: [&str; 4] = [
        "*** Update File: ",
        "*** Add File: ",
        "*** Delete File: ",
        "*** Move to: ",
    ];
    let mut files = Vec::new();
    for line in patch.lines() {
        let named = MARKS
            .iter()
            .find_map(|mark| line.trim_start().strip_prefix(mark));
        if let Some(file) = named.map(str::trim) {
            push_new(&mut files, file);
        }
    }
    files
}

/// Returns the reason why a result says that the tool failed: an error in it, or an exit code.
pub fn failure_in(result: &Value) -> Option<String> {
    let result = &*unwrapped(result);
    if let Some(error) = first(result, &["error"]) {
        return failure_text(error);
    }
    let output = text(result, &["output", "stderr", "stdout", "content"]).unwrap_or_default();
    if let Some(code) = exit_code(result) {
        return exit_reason(code, output);
    }
    let says = |key: &str, answer: bool| result.get(key) == Some(&Value::Bool(answer));
    let refused = says("isError", true) || says("is_error", true) || says("success", false);
    refused.then(|| reason(output))
}

/// The reason that an error names, which is a text or an object with one.
pub fn failure_text(error: &Value) -> Option<String> {
    match error {
        Value::Null | Value::Bool(false) => None,
        Value::String(why) if why.is_empty() => None,
        Value::String(why) => Some(reason(why)),
        error => Some(reason(
            text(error, &["message", "error", "type"]).unwrap_or_default(),
        )),
    }
}

fn edit(input: &Value) -> Option<ToolUse> {
    const PATHS: [&str; 8] = [
        "file_path",
        "filePath",
        "path",
        "notebook_path",
        "notebookPath",
        "target_file",
        "absolutePath",
        "absolute_path",
    ];
    const PATCHES: [&str; 5] = ["input", "patch", "patchText", "command", "diff"];
    let mut paths = Vec::new();
    if let Some(path) = text(input, &PATHS) {
        push_new(&mut paths, path);
    }
    let several = first(input, &["edits", "files", "changes"]).and_then(Value::as_array);
    for path in several
        .into_iter()
        .flatten()
        .filter_map(|it| text(it, &PATHS))
    {
        push_new(&mut paths, path);
    }
    let patches = PATCHES.iter().filter_map(|key| input.get(key)?.as_str());
    for file in patches.chain(input.as_str()).flat_map(patched_files) {
        push_new(&mut paths, &file);
    }
    (!paths.is_empty()).then_some(ToolUse::Edit { paths })
}

fn shell(input: &Value) -> Option<ToolUse> {
    let several = first(input, &["commands"]).and_then(|it| sequence(&unwrapped(it)));
    let single = || match first(input, &["command", "cmd", "script"]).unwrap_or(input) {
        Value::String(command) => Some(command.clone()),
        Value::Array(words) => arguments(words),
        _ => None,
    };
    let command = several.or_else(single).filter(|it| !it.trim().is_empty())?;
    // The patch of an `apply_patch` that goes through the shell.
    if command.trim_start().starts_with("apply_patch") {
        let paths = patched_files(&command);
        if !paths.is_empty() {
            return Some(ToolUse::Edit { paths });
        }
    }
    Some(ToolUse::Shell { command })
}

/// Joins commands that run one after the other into one command line.
fn sequence(commands: &Value) -> Option<String> {
    let one = |command: &Value| match command {
        Value::String(line) => Some(line.clone()),
        Value::Object(_) => {
            let program = text(command, &["command"])?;
            let rest = command.get("args").and_then(Value::as_array);
            match rest.and_then(|words| arguments(words)) {
                Some(words) if !words.is_empty() => Some(format!("{program} {words}")),
                _ => Some(program.to_owned()),
            }
        }
        _ => None,
    };
    match commands {
        Value::Array(list) => Some(list.iter().filter_map(one).collect::<Vec<_>>().join(" && ")),
        single => one(single),
    }
}

fn arguments(words: &[Value]) -> Option<String> {
    let words: Option<Vec<&str>> = words.iter().map(Value::as_str).collect();
    let words = words?;
    // A NUL cannot be quoted, and no program can get one.
    Some(shlex::try_join(words.iter().copied()).unwrap_or_else(|_| words.join(" ")))
}

fn task(entry: &Value) -> Option<ClientTask> {
    const TITLES: [&str; 7] = [
        "content",
        "step",
        "description",
        "title",
        "subject",
        "text",
        "task",
    ];
    let title = match entry {
        Value::String(title) => title.trim(),
        entry => text(entry, &TITLES)?.trim(),
    };
    let status = match text(entry, &["status", "state"]) {
        Some(word) => status(word),
        None if entry.get("completed").and_then(Value::as_bool) == Some(true) => {
            ClientTaskStatus::Completed
        }
        None => ClientTaskStatus::Pending,
    };
    (!title.is_empty()).then(|| ClientTask {
        title: title.to_owned(),
        status,
    })
}

fn status(word: &str) -> ClientTaskStatus {
    match word.to_ascii_lowercase().as_str() {
        "in_progress" | "in-progress" | "inprogress" | "active" | "running" => {
            ClientTaskStatus::InProgress
        }
        "completed" | "complete" | "done" => ClientTaskStatus::Completed,
        "cancelled" | "canceled" | "deleted" | "skipped" => ClientTaskStatus::Cancelled,
        _ => ClientTaskStatus::Pending,
    }
}

/// The task of a line such as `- [x] Write the tests`.
fn checked(line: &str) -> Option<ClientTask> {
    let line = line.trim().trim_start_matches(['-', '*', '+']).trim_start();
    let mut inside = line.strip_prefix('[')?.chars();
    let mark = inside.next()?;
    let title = inside.as_str().strip_prefix(']')?.trim();
    let status = match mark {
        'x' | 'X' | '✓' => ClientTaskStatus::Completed,
        '~' | '/' | '>' => ClientTaskStatus::InProgress,
        '-' => ClientTaskStatus::Cancelled,
        _ => ClientTaskStatus::Pending,
    };
    (!title.is_empty()).then(|| ClientTask {
        title: title.to_owned(),
        status,
    })
}

fn push_new(list: &mut Vec<String>, entry: &str) {
    if !entry.is_empty() && !list.iter().any(|it| it == entry) {
        list.push(entry.to_owned());
    }
}
