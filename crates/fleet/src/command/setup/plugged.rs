//! Finds the plugins of ours that a client has installed, in the client's own files.

use std::path::{Path, PathBuf};

use flightline::core::Refusal;
use flightline::workspace::beneath::Dir;
use flightline_clients::Client;
use flightline_clients::setup::{
    InstalledPlugin, PluginFolder, RegisteredHook, SetupFile, SetupScope, installed_plugins,
    newest_version, registered,
};

use super::read;
use crate::app::App;

/// The files of clients: those of the user, and those of a repository.
pub struct ClientFiles<'a> {
    app: &'a App,
    home: Option<PathBuf>,
    root: PathBuf,
}

pub struct Plugged {
    pub plugin: InstalledPlugin,
    pub place: SetupFile,
    pub path: PathBuf,
    /// The content of that file; none when it cannot be read.
    pub text: Option<String>,
    pub hooks: Vec<RegisteredHook>,
}

impl<'a> ClientFiles<'a> {
    pub fn new(app: &'a App) -> Self {
        let home = app.env.surroundings.home.as_ref().map(PathBuf::from);
        Self {
            app,
            home: home.filter(|home| home.is_absolute()),
            root: app.root(),
        }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The path of a file. A user's own may be reached by links.
    pub fn path(&self, place: &SetupFile) -> Option<PathBuf> {
        let root = match place.scope {
            SetupScope::User => self.home.as_deref()?,
            SetupScope::Project => &self.root,
        };
        let variable = |name: &str| {
            let mut known = self.app.env.client_folders.iter();
            known
                .find(|(known, _)| *known == name)
                .map(|(_, folder)| folder.clone())
        };
        let path = place.resolve(root, variable, Path::exists);
        match place.scope {
            SetupScope::User => Some(path.canonicalize().unwrap_or(path)),
            SetupScope::Project => Some(path),
        }
    }

    /// Reads a file: its path and its text; none when it does not exist.
    pub fn text(&self, place: &SetupFile) -> Result<Option<(PathBuf, String)>, Refusal> {
        let Some(path) = self.path(place) else {
            return Ok(None);
        };
        let root = (place.scope == SetupScope::Project).then_some(self.root.as_path());
        Ok(read(root, &path)?.map(|text| (path, text)))
    }

    /// Reads the text of a file, as far as it can be read.
    pub fn text_at_best(&self, place: &SetupFile) -> Option<String> {
        self.text(place).ok().flatten().map(|(_, text)| text)
    }

    /// Finds the plugins of ours that a client runs here.
    pub fn plugged(&self, client: Client) -> Vec<Plugged> {
        let found = installed_plugins(client, &self.root, &|place| self.text_at_best(place));
        let plugged = found.into_iter().filter_map(|plugin| {
            let folder = self.folder(&plugin.files)?;
            let (place, path) = plugin.hooks(client, &folder);
            let text = read(None, &path).ok().flatten();
            let hooks = text
                .as_deref()
                .and_then(|text| registered(&place, text).ok());
            Some(Plugged {
                plugin,
                place,
                path,
                text,
                hooks: hooks.unwrap_or_default(),
            })
        });
        plugged.collect()
    }

    fn folder(&self, files: &PluginFolder) -> Option<PathBuf> {
        let versions = match files {
            PluginFolder::At(folder) => return Some(folder.clone()),
            PluginFolder::Versions(place) => self.path(place)?,
        };
        let (above, name) = Dir::towards(None, &versions).ok()?;
        let names = above.names_in(&name).unwrap_or_default();
        // Where there is no version, the path still says which folder lacks it.
        let newest = newest_version(&names).unwrap_or("local").to_owned();
        Some(versions.join(newest))
    }
}
