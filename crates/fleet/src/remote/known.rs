//! Remembers the server that each repository talks to, and the token for it, which selects the project. The file is the
//! user's own, which no other user can read; nothing of it is ever in a repository.

use std::path::{Path, PathBuf};

use flightline::core::{Code, Refusal};
use flightline::file::{Replacing, plain, put};
use flightline::workspace::beneath::Dir;
use toml_edit::{DocumentMut, Item, Table, value};

use super::Address;
use crate::config::Secret;

const FILE: &str = "servers.toml";
const LARGEST: usize = 1024 * 1024;
const ABOUT: &str = "# Servers of Flightline: tokens, and which server each repository talks to.\n# Written by `fleet login` and `fleet logout`.\n\n";

pub struct Known {
    path: PathBuf,
    document: DocumentMut,
}

impl Known {
    /// Reads the file beside the user's settings; a file that is not there names no server.
    pub fn read(user_config: Option<&Path>) -> Result<Option<Self>, Refusal> {
        let Some(folder) = user_config.and_then(Path::parent) else {
            return Ok(None);
        };
        let path = folder.join(FILE);
        let cannot = |why: &dyn std::fmt::Display| {
            Refusal::new(
                Code::Failed,
                format!("{} cannot be read: {why}", path.display()),
            )
            .hint("correct it, or remove it and log in again with `fleet login URL`")
        };
        let bytes = plain(&path, LARGEST).map_err(|error| cannot(&error))?;
        let text =
            String::from_utf8(bytes.unwrap_or_default()).map_err(|_| cannot(&"it is not UTF-8"))?;
        // The message of the parser would show a line, and a line may hold a token.
        let document = text
            .parse::<DocumentMut>()
            .map_err(|_| cannot(&"it is not TOML"))?;
        Ok(Some(Self { path, document }))
    }

    /// The server that a repository talks to.
    pub fn server_of(&self, root: &Path) -> Option<&str> {
        let of = self.repository(root)?;
        of.as_str().or_else(|| of.get("server")?.as_str())
    }

    /// The token with which a repository talks to a server. A token is for one project, so another repository's will not
    /// do.
    pub fn token_for(&self, root: &Path, server: &Address) -> Option<Secret> {
        if self.server_of(root)? != server.as_str() {
            return None;
        }
        let of = self.repository(root)?;
        // The first files had one token for each server.
        let token = match of.as_str() {
            Some(server) => self.document.get("servers")?.get(server)?.get("token")?,
            None => of.get("token")?,
        };
        Some(Secret::new(token.as_str()?.to_owned()))
    }

    fn repository(&self, root: &Path) -> Option<&Item> {
        self.document.get("repositories")?.get(root.to_str()?)
    }

    /// Remembers the server that a repository talks to, and its token.
    pub fn remember(
        &mut self,
        server: &Address,
        token: &Secret,
        root: &Path,
    ) -> Result<(), Refusal> {
        let root = root
            .to_str()
            .ok_or_else(|| Refusal::invalid(format!("{} is not UTF-8", root.display())))?;
        let mut entry = Table::new();
        entry.insert("server", value(server.as_str()));
        entry.insert("token", value(token.reveal()));
        self.table("repositories")?.insert(root, Item::Table(entry));
        self.tidy()?;
        self.write()
    }

    /// Forgets that a repository talks to a server, and its token. Returns true when the token is gone: in the first
    /// files, other repositories may share it.
    pub fn forget(&mut self, root: &Path) -> Result<bool, Refusal> {
        let repositories = self.table("repositories")?;
        let removed = root.to_str().and_then(|root| repositories.remove(root));
        let kept = self.tidy()?;
        self.write()?;
        let shared = removed.as_ref().and_then(Item::as_str);
        Ok(!shared.is_some_and(|server| kept.iter().any(|kept| kept == server)))
    }

    /// Drops the tokens that the first files had for each server, when no repository needs them any more. Returns the
    /// servers whose tokens stay.
    fn tidy(&mut self) -> Result<Vec<String>, Refusal> {
        let repositories = self.table("repositories")?.iter();
        let needed: Vec<String> = repositories
            .filter_map(|(_, of)| of.as_str().map(str::to_owned))
            .collect();
        if needed.is_empty() {
            self.document.remove("servers");
        } else {
            self.table("servers")?
                .retain(|server, _| needed.iter().any(|needed| needed == server));
        }
        Ok(needed)
    }

    fn table(&mut self, name: &str) -> Result<&mut Table, Refusal> {
        let item = self
            .document
            .entry(name)
            .or_insert(Item::Table(Table::new()));
        let path = &self.path;
        item.as_table_mut().ok_or_else(|| {
            Refusal::new(
                Code::Failed,
                format!("{} cannot be read: `{name}` is no table", path.display()),
            )
            .hint("correct it, or remove it and log in again with `fleet login URL`")
        })
    }

    fn write(&self) -> Result<(), Refusal> {
        let cannot = |error: std::io::Error| {
            Refusal::new(
                Code::Unavailable,
                format!("cannot write {}: {error}", self.path.display()),
            )
        };
        if let Some(folder) = self.path.parent() {
            let (above, below) = Dir::towards(None, folder).map_err(cannot)?;
            above.make(below, 0o700).map_err(cannot)?;
        }
        let text = self.document.to_string();
        let text = match text.starts_with(ABOUT) {
            true => text,
            false => format!("{ABOUT}{}", text.trim_start()),
        };
        put(&self.path, text, Replacing::Yes, 0o600).map_err(cannot)
    }
}
