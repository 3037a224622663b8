//! The servers that somebody has come in to, with their tokens, and which of them each repository talks to. It
//! is the user's own file, which nobody else can read; nothing of it is ever in a repository.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use flightline::core::{Code, Refusal};
use flightline::file::{Replacing, plain, put};
use toml_edit::{DocumentMut, Item, Table, value};

use super::Address;
use crate::config::Secret;

const FILE: &str = "servers.toml";
const LARGEST: usize = 1024 * 1024;
const ABOUT: &str = "# Servers of Flightline: tokens, and which server each repository talks to.\n# Written by `fleet login` and `fleet logout`.\n\n";

/// What is known of servers.
pub struct Known {
    path: PathBuf,
    document: DocumentMut,
}

impl Known {
    /// Reads the file beside the user's settings; one that is not there says nothing.
    ///
    /// # Errors
    /// When it cannot be read.
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
            .hint("correct it, or remove it and come in again with `fleet login URL`")
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
        let table = self.document.get("repositories")?.as_table()?;
        table.get(root.to_str()?)?.as_str()
    }

    /// The token for a server.
    pub fn token_for(&self, server: &Address) -> Option<Secret> {
        let servers = self.document.get("servers")?.as_table()?;
        let token = servers.get(server.as_str())?.get("token")?.as_str()?;
        Some(Secret::new(token.to_owned()))
    }

    /// Remembers a token, and that a repository talks to its server.
    ///
    /// # Errors
    /// When it cannot be written.
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
        entry.insert("token", value(token.reveal()));
        self.table("servers")?
            .insert(server.as_str(), Item::Table(entry));
        self.table("repositories")?
            .insert(root, value(server.as_str()));
        self.write()
    }

    /// Forgets that a repository talks to a server; and its token, when no other does. Says whether the token
    /// was forgotten too.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn forget(&mut self, root: &Path, server: &str) -> Result<bool, Refusal> {
        let repositories = self.table("repositories")?;
        if let Some(root) = root.to_str() {
            repositories.remove(root);
        }
        let used = repositories
            .iter()
            .any(|(_, other)| other.as_str() == Some(server));
        if !used {
            self.table("servers")?.remove(server);
        }
        self.write()?;
        Ok(!used)
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
            .hint("correct it, or remove it and come in again with `fleet login URL`")
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
            let mut builder = fs::DirBuilder::new();
            builder.recursive(true).mode(0o700);
            builder.create(folder).map_err(cannot)?;
        }
        let text = self.document.to_string();
        let text = match text.starts_with(ABOUT) {
            true => text,
            false => format!("{ABOUT}{}", text.trim_start()),
        };
        put(&self.path, text, Replacing::Yes, 0o600).map_err(cannot)
    }
}
