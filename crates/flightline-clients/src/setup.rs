//! The settings files of coding agents: the entries that connect a client to `fleet`, and their removal.
//!
//! Nothing here opens a file. [`places`] names every file of a client, [`install`] says how a file reads with our entries, and
//! [`remove`] says how it reads without them. A file that was not changed since comes back byte for byte, through the [`SetupUndo`] that
//! `install` gives. In a file that was changed only our entries go; all the rest stays as it is now.

mod block;
mod bundle;
mod connection;
mod diff;
mod hooks;
mod installed;
mod json;
mod lines;
mod own_files;
mod program;
mod setup_error;
mod setup_file;
mod tables;
mod trust;
mod undo;

pub use block::agents_md;
pub use bundle::{PluginFile, plugin_commands, plugin_files};
pub use connection::{HookObstacle, RegisteredHook, obstacles, registered};
pub use diff::diff;
pub use hooks::{Hook, hooks};
pub use installed::{InstalledPlugin, PluginFolder, installed_plugins, newest_version};
pub use own_files::{plugin_js, skill_md};
pub use setup_error::SetupError;
pub use setup_file::{JsonPart, Moved, OwnedFile, SettingsFormat, SetupFile, SetupScope, places};
pub use trust::{
    Left, Untrusted, codex_trust, codex_untrusted, disconnect, distrust_hooks, install_trust,
    remove_trust, trust_hooks,
};
pub use undo::SetupUndo;

/// The text of a settings file with our entries, and the way back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EditedSettings {
    /// The text of the file. It equals the text before when everything was there already.
    pub text: String,
    /// The way back, for [`remove`]. The caller keeps it beside the file's path. There is none when every entry was
    /// there already and no earlier one was kept.
    pub undo: Option<SetupUndo>,
}

impl EditedSettings {
    /// Takes a further change of the file into the way back: [`install_trust`] makes one.
    #[must_use]
    pub fn followed_by(self, text: String) -> Self {
        let undo = match self.undo {
            Some(undo) => undo.follow(&self.text, &text),
            None if text == self.text => None,
            None => Some(SetupUndo::between(Some(&self.text), &text, Vec::new())),
        };
        Self { text, undo }
    }
}

/// Puts our entries into a settings file. An entry of ours that names another program, or has an older shape, is brought up to date
/// where it stands.
///
/// `before` is the text of the file, if there is one. `undo` is the way back that the last install gave, if one was kept. `binary` is
/// the absolute path of `fleet`. Refuses when a key that we need holds something else, or a name of ours is taken by
/// another tool.
pub fn install(
    place: &SetupFile,
    before: Option<&str>,
    undo: Option<&SetupUndo>,
    binary: &str,
) -> Result<EditedSettings, SetupError> {
    program::check(binary)?;
    let text = match place.kind {
        SettingsFormat::Json(parts) => json::install(place.client, parts, before, binary)?,
        SettingsFormat::Toml => tables::install(before.unwrap_or_default(), binary)?,
        SettingsFormat::Markdown => block::install(before.unwrap_or_default())?,
        SettingsFormat::File(own) => own_files::install(own, before, binary)?,
    };
    let original = match (before, undo) {
        (Some(now), Some(undo)) => remove(place, now, Some(undo))?,
        (before, _) => before.map(str::to_owned),
    };
    if undo.is_none() && before == Some(text.as_str()) {
        return Ok(EditedSettings { text, undo: None });
    }
    let kept = match (before, undo) {
        (Some(_), Some(undo)) => undo.kept().to_vec(),
        (before, _) => kept(place, before)?,
    };
    let undo = SetupUndo::between(original.as_deref(), &text, kept);
    Ok(EditedSettings {
        text,
        undo: Some(undo),
    })
}

/// Takes our entries out of a settings file. `None` says that nothing is left, so that the file goes too.
///
/// With the `undo` of the install the text from before comes back, as long as the file was not changed since: an entry of ours that a
/// person had written before the install comes back too. Without it, or after a change, every entry of ours goes and nothing else.
pub fn remove(
    place: &SetupFile,
    now: &str,
    undo: Option<&SetupUndo>,
) -> Result<Option<String>, SetupError> {
    if let Some(original) = undo.and_then(|undo| undo.restore(now)) {
        return Ok(original);
    }
    match place.kind {
        SettingsFormat::Json(parts) => json::remove(place.client, parts, now, undo),
        SettingsFormat::Toml => Ok(unless_ours(tables::remove(now)?, now, undo)),
        SettingsFormat::Markdown => Ok(unless_ours(block::remove(now)?, now, undo)),
        SettingsFormat::File(_) => Ok(own_files::remove(now)),
    }
}

pub fn installed(place: &SetupFile, now: &str) -> Result<bool, SetupError> {
    Ok(remove(place, now, None)?.as_deref() != Some(now))
}

/// An empty text stands for no file, unless the file was there, and empty, before us.
fn unless_ours(text: String, now: &str, undo: Option<&SetupUndo>) -> Option<String> {
    let ours = undo.is_none_or(SetupUndo::created);
    let emptied = text.trim().is_empty() && text != now;
    (!(ours && emptied)).then_some(text)
}

/// The keys that our entries need and that the file has already.
fn kept(place: &SetupFile, before: Option<&str>) -> Result<Vec<String>, SetupError> {
    match (place.kind, before) {
        (SettingsFormat::Json(parts), Some(text)) => json::kept(place.client, parts, text),
        (
            SettingsFormat::Json(_)
            | SettingsFormat::Toml
            | SettingsFormat::Markdown
            | SettingsFormat::File(_),
            _,
        ) => Ok(Vec::new()),
    }
}

#[cfg(test)]
mod tests;
