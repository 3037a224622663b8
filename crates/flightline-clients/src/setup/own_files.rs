//! Files that are ours as a whole.

use super::setup_file::OwnedFile;
use super::{SetupError, program};

/// A file of ours has this word in it.
const MARK: &str = "flightline:file";
const PLUGIN: &str = include_str!("plugin.js");
const PROGRAM: &str = "\"@fleet@\"";

/// The plugin for OpenCode, which runs the `fleet` at this path.
pub fn plugin_js(binary: &str) -> String {
    let path = serde_json::Value::from(binary).to_string();
    PLUGIN.replace(PROGRAM, &path)
}

/// The skill for Claude Code.
pub const fn skill_md() -> &'static str {
    include_str!("SKILL.md")
}

/// The program that Cline runs for an event. Without `fleet` it does nothing, because an error would stop the agent.
pub(super) fn script(event: &str, binary: &str) -> String {
    let word = program::quoted(binary);
    format!(
        "#!/bin/sh\n\
         # {MARK}: written by `fleet setup cline`\n\
         command -v {word} >/dev/null 2>&1 || exit 0\n\
         exec {word} hook cline {event}\n"
    )
}

/// The text of a file of ours. A file of another tool stays.
pub(super) fn install(
    own: OwnedFile,
    before: Option<&str>,
    binary: &str,
) -> Result<String, SetupError> {
    if let Some(text) = before
        && !text.trim().is_empty()
        && !text.contains(MARK)
    {
        return Err(SetupError::Taken {
            what: name(own).to_owned(),
        });
    }
    Ok(match own {
        OwnedFile::Plugin => plugin_js(binary),
        OwnedFile::Skill => skill_md().to_owned(),
        OwnedFile::Script(event) => script(event, binary),
    })
}

/// Returns the text that is left: none, unless the file is not ours.
pub(super) fn remove(now: &str) -> Option<String> {
    (!now.contains(MARK)).then(|| now.to_owned())
}

const fn name(own: OwnedFile) -> &'static str {
    match own {
        OwnedFile::Plugin => "flightline.js",
        OwnedFile::Skill => "SKILL.md",
        OwnedFile::Script(event) => event,
    }
}
