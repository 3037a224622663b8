//! `fleet setup CLIENT…`: connects coding agents to the fleet, by entries in their own settings files. Every file can be given back as it was.

pub mod plugged;
mod plugin;
mod undo;
mod written;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use flightline::core::{Code, Refusal};
use flightline::store::CrashPoints;
use flightline_clients::Client;
use flightline_clients::setup::{
    self, SettingsFormat, SetupError, SetupFile, SetupScope, SetupUndo, codex_trust, diff,
    disconnect, distrust_hooks, trust_hooks,
};
use serde::Serialize;

use self::plugged::{ClientFiles, Plugged};
use self::written::mode_of;
pub(super) use self::written::{Written, cannot_edit, read};
use super::{ATTENTION, CommandResult};
use crate::app::App;

#[derive(Debug, Args)]
pub struct SetupArgs {
    /// The clients: claude, codex, gemini, opencode, copilot, cline, cursor; none lists those that are installed
    clients: Vec<String>,
    /// Edit the settings of this repository, for everyone who works in it
    #[arg(long, conflicts_with = "user")]
    project: bool,
    /// Edit your own settings, for all repositories (default)
    #[arg(long)]
    user: bool,
    /// Only check whether the entries are there (exit code 5 when one is missing)
    #[arg(long, conflicts_with_all = ["remove", "dry_run"])]
    check: bool,
    /// Show the changes and make none
    #[arg(long)]
    dry_run: bool,
    /// Take the entries out again
    #[arg(long)]
    remove: bool,
    /// Consent to the hooks for Codex, which runs no hook that its user has not trusted
    #[arg(long)]
    trust_hooks: bool,
    /// Write a folder that Claude Code or Codex installs a plugin from, instead of entries in its settings
    #[arg(
        long, value_name = "DIR",
        conflicts_with_all = ["project", "user", "check", "dry_run", "remove", "trust_hooks"]
    )]
    plugin: Option<PathBuf>,
    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
}

/// The change to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Act {
    Create,
    Change,
    Delete,
    Keep,
}

struct Edit {
    client: Client,
    path: PathBuf,
    /// The folder that no link may lead out of: a repository.
    root: Option<PathBuf>,
    before: Option<String>,
    after: Option<String>,
    undo: Option<SetupUndo>,
    executable: bool,
    has_hooks: bool,
}

/// An installed plugin of ours, in a client that is being set up.
struct PluggedIn {
    client: Client,
    plugin: Plugged,
}

impl PluggedIn {
    fn is_of(&self, edit: &Edit) -> bool {
        self.client == edit.client
    }

    /// The warning about a client that has both the plugin and the entries.
    fn twice(&self) -> String {
        let plugin = &self.plugin.plugin;
        format!(
            "{} has the plugin {} as well: every event is reported twice. Take one out: `{}`, or `fleet setup {} --remove`.",
            self.client.title(),
            plugin.id,
            plugin.removal(self.client),
            self.client
        )
    }
}

/// Finds the plugins of ours in the clients of these edits.
fn plugged_of(app: &App, edits: &[Edit]) -> Vec<PluggedIn> {
    let files = ClientFiles::new(app);
    let clients: BTreeSet<Client> = edits.iter().map(|edit| edit.client).collect();
    let all = clients.into_iter().flat_map(|client| {
        // A plugin without hooks connects nothing: the doctor says so.
        let plugged = files.plugged(client).into_iter();
        let plugged = plugged.filter(|plugin| !plugin.hooks.is_empty());
        plugged.map(move |plugin| PluggedIn { client, plugin })
    });
    all.collect()
}

/// A file and its change, for programs.
#[derive(Serialize)]
struct EditReport {
    client: &'static str,
    path: PathBuf,
    act: Act,
}

pub fn run(args: &SetupArgs, app: &mut App) -> CommandResult {
    if args.clients.is_empty() {
        return offer(app);
    }
    let clients = args.clients.iter().map(|word| {
        word.parse::<Client>()
            .map_err(|why| Refusal::invalid(why).hint("list them with `fleet setup`"))
    });
    let clients = clients.collect::<Result<Vec<_>, Refusal>>()?;
    if let Some(folder) = &args.plugin {
        let [client] = clients.as_slice() else {
            return Err(Refusal::invalid("a plugin is for one client")
                .hint("name one: `fleet setup claude --plugin DIR`"));
        };
        return plugin::run(*client, folder, app);
    }
    let scope = match args.project {
        true => SetupScope::Project,
        false => SetupScope::User,
    };
    let setup = Setup::new(app, scope, args)?;
    let mut edits = Vec::new();
    for client in clients {
        edits.extend(setup.edits(client)?);
    }
    let plugged = plugged_of(app, &edits);
    if args.check {
        // A client with a plugin of ours has everything that its files lack.
        let lacks = |edit: &&Edit| {
            edit.act() != Act::Keep && (edit.has_hooks || !plugged.iter().any(|it| it.is_of(edit)))
        };
        let changed = edits.iter().filter(lacks).count();
        let told = |edit: &&Edit| edit.act() == Act::Keep || lacks(edit);
        show(app, edits.iter().filter(told), |page| {
            for it in &plugged {
                let (title, id) = (it.client.title(), &it.plugin.plugin.id);
                let twice = edits.iter().any(|edit| it.is_of(edit) && edit.has_hooks);
                page.line(match twice {
                    false => format!("{title} is connected by the plugin {id}."),
                    true => it.twice(),
                });
            }
            match changed {
                0 => page.line("Everything is set up."),
                1 => page.line("1 file lacks entries: run `fleet setup` for its client."),
                many => page.line(format_args!(
                    "{many} files lack entries: run `fleet setup` for their clients."
                )),
            }
        })?;
        return Ok(match changed {
            0 => ExitCode::SUCCESS,
            _ => ExitCode::from(ATTENTION),
        });
    }
    let changed = edits.iter().filter(|edit| edit.act() != Act::Keep).count();
    if changed == 0 {
        show(app, &edits, |page| page.line("Nothing is to be changed."))?;
        return Ok(ExitCode::SUCCESS);
    }
    for edit in edits.iter().filter(|edit| edit.act() != Act::Keep) {
        // Before anything is changed.
        mode_of(edit.root.as_deref(), &edit.path)?;
        let path = edit.path.display().to_string();
        let change = diff(
            edit.before.as_deref(),
            edit.after.as_deref(),
            path.trim_start_matches('/'),
        );
        app.ui.show_beside(change.trim_end());
    }
    if args.dry_run {
        show(app, &edits, |page| page.line("Nothing was changed."))?;
        return Ok(ExitCode::SUCCESS);
    }
    if !args.yes {
        let files = match changed {
            1 => "1 file".to_owned(),
            many => format!("{many} files"),
        };
        let mut command = format!("fleet setup {}", args.clients.join(" "));
        for (given, flag) in [
            (args.project, " --project"),
            (args.remove, " --remove"),
            (args.trust_hooks, " --trust-hooks"),
        ] {
            command.push_str(if given { flag } else { "" });
        }
        command.push_str(" -y");
        let act = format!("change {files} as shown");
        app.ui.confirm(&act, &command, app.asking())?;
    }
    // A folder goes with the file that it was made for, which was the first in it.
    let ordered: Vec<&Edit> = match args.remove {
        true => edits.iter().rev().collect(),
        false => edits.iter().collect(),
    };
    for edit in ordered {
        setup.apply(edit, args.remove)?;
    }
    let untrusted =
        !args.remove && !args.trust_hooks && edits.iter().any(|edit| edit.client == Client::Codex);
    show(app, &edits, |page| {
        match args.remove {
            true => page
                .line("The entries are gone. Sessions that run keep their hooks until they end."),
            false => page.line("Start a new session: its hooks tell the fleet of it."),
        }
        for it in plugged.iter().filter(|_| !args.remove) {
            page.line(it.twice());
        }
        if untrusted {
            page.line("Codex runs no hook that you have not trusted: type `/hooks` in Codex and trust those of `fleet`,");
            page.line(match args.project {
                true => "or consent here with `fleet setup codex --project --trust-hooks`.",
                false => "or consent here with `fleet setup codex --trust-hooks`.",
            });
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Lists the clients that are on this machine.
fn offer(app: &mut App) -> CommandResult {
    let path = app.env.surroundings.path.clone().unwrap_or_default();
    let is_there = |client: &Client| {
        let program = program(*client);
        std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
    };
    let found: Vec<Client> = Client::ALL.into_iter().filter(is_there).collect();
    let words: Vec<&str> = found.iter().map(|client| client.as_str()).collect();
    app.ui.answer(&words, |page| {
        if found.is_empty() {
            let all: Vec<&str> = Client::ALL.iter().map(|it| it.as_str()).collect();
            page.line("No coding agent was found on this machine's PATH.");
            page.line(format_args!("Set one up by its name: {}.", all.join(", ")));
            return;
        }
        page.line("Found on this machine:");
        for client in &found {
            page.line(format_args!("  {:12} fleet setup {client}", client.title()));
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The name of a client's program.
const fn program(client: Client) -> &'static str {
    match client {
        Client::Cursor => "cursor-agent",
        other => other.as_str(),
    }
}

fn show<'a>(
    app: &App,
    edits: impl IntoIterator<Item = &'a Edit>,
    end: impl FnOnce(&mut crate::ui::Page),
) -> Result<(), Refusal> {
    let answers: Vec<EditReport> = edits.into_iter().map(Edit::answer).collect();
    app.ui.answer(&answers, |page| {
        for answer in &answers {
            let word = match answer.act {
                Act::Create => "new",
                Act::Change => "changed",
                Act::Delete => "deleted",
                Act::Keep => "unchanged",
            };
            page.line(format_args!("{word:10} {}", answer.path.display()));
        }
        end(page);
    })
}

impl Edit {
    fn act(&self) -> Act {
        match (&self.before, &self.after) {
            (before, after) if before == after => Act::Keep,
            (None, Some(_)) => Act::Create,
            (Some(_), None) => Act::Delete,
            _ => Act::Change,
        }
    }

    fn answer(&self) -> EditReport {
        EditReport {
            client: self.client.as_str(),
            path: self.path.clone(),
            act: self.act(),
        }
    }
}

struct Setup {
    scope: SetupScope,
    root: PathBuf,
    binary: String,
    variables: Vec<(&'static str, PathBuf)>,
    /// The user's own folder with the records of how files are given back.
    kept: Option<PathBuf>,
    remove: bool,
    /// True when Codex's trust is looked at: it was consented to, is taken back, or is checked.
    with_trust: bool,
    home: Option<PathBuf>,
    steps: CrashPoints,
}

impl Setup {
    fn new(app: &App, scope: SetupScope, args: &SetupArgs) -> Result<Self, Refusal> {
        let home = app.env.surroundings.home.as_ref().map(PathBuf::from);
        let home = home.filter(|home| home.is_absolute());
        let root = match scope {
            SetupScope::User => home.clone().ok_or_else(|| {
                Refusal::new(
                    Code::NotFound,
                    "HOME is not set: there are no settings of yours",
                )
                .hint("set HOME, or edit the repository's with `fleet setup CLIENT --project`")
            })?,
            SetupScope::Project => app.root(),
        };
        let binary = match scope {
            SetupScope::User => std::env::current_exe()
                .map_err(|error| {
                    Refusal::new(
                        Code::Failed,
                        format!("cannot tell where `fleet` is: {error}"),
                    )
                })?
                .display()
                .to_string(),
            // Other users have the program elsewhere.
            SetupScope::Project => "fleet".to_owned(),
        };
        Ok(Self {
            scope,
            root,
            binary,
            variables: app.env.client_folders.clone(),
            kept: app
                .env
                .user_state
                .as_ref()
                .map(|it| it.join("flightline/setup")),
            remove: args.remove,
            with_trust: args.trust_hooks || args.remove || args.check,
            home,
            steps: app.steps()?,
        })
    }

    fn edits(&self, client: Client) -> Result<Vec<Edit>, Refusal> {
        let mut edits = Vec::new();
        for place in setup::places(client, self.scope) {
            if connected(&place) {
                edits.push(self.edit(&place)?);
            }
        }
        if client == Client::Codex
            && let Some(trust) = self.trust(&edits)?
        {
            // The file may have our MCP server already, or get it now.
            match edits.iter_mut().find(|edit| edit.path == trust.path) {
                Some(edit) => *edit = trust,
                None => edits.push(trust),
            }
        }
        Ok(edits)
    }

    fn path(&self, place: &SetupFile, root: &Path) -> PathBuf {
        let variable = |name: &str| {
            let known = self.variables.iter().find(|(known, _)| *known == name);
            known.map(|(_, folder)| folder.clone())
        };
        place.resolve(root, variable, Path::exists)
    }

    fn edit(&self, place: &SetupFile) -> Result<Edit, Refusal> {
        let path = self.real(&self.path(place, &self.root));
        let root = (self.scope == SetupScope::Project).then_some(self.root.as_path());
        let before = read(root, &path)?;
        let undo = self.undo_of(&path);
        let trouble = |trouble: SetupError| cannot_edit(&path, &trouble);
        let (after, undo) = match (self.remove, &before) {
            (true, None) => (None, None),
            (true, Some(now)) => {
                let left = setup::remove(place, now, undo.as_ref()).map_err(trouble)?;
                (left, None)
            }
            (false, before) => {
                let change = setup::install(place, before.as_deref(), undo.as_ref(), &self.binary)
                    .map_err(trouble)?;
                (Some(change.text), change.undo)
            }
        };
        Ok(Edit {
            client: place.client,
            root: (self.scope == SetupScope::Project).then(|| self.root.clone()),
            path,
            has_hooks: before
                .as_deref()
                .is_some_and(|text| setup::registered(place, text).is_ok_and(|it| !it.is_empty())),
            before,
            after,
            undo,
            executable: place.executable,
        })
    }

    /// Edits the consent to Codex's hooks, in its `config.toml`.
    fn trust(&self, edits: &[Edit]) -> Result<Option<Edit>, Refusal> {
        let hooks = edits.iter().find(|edit| edit.path.ends_with("hooks.json"));
        let (Some(hooks), Some(home)) = (hooks.filter(|_| self.with_trust), &self.home) else {
            return Ok(None);
        };
        let text = match self.remove {
            true => hooks.before.as_deref(),
            false => hooks.after.as_deref(),
        };
        let hooks_path = hooks.path.display().to_string();
        let hashes = codex_trust(&hooks_path, text.unwrap_or_default());
        // Trust is a person's, also that in the hooks of a repository.
        let toml = setup::places(Client::Codex, SetupScope::User)
            .into_iter()
            .find(|place| place.kind == SettingsFormat::Toml);
        let Some(toml) = toml else { return Ok(None) };
        let path = self.path(&toml, home);
        let path = path.canonicalize().unwrap_or(path);
        let before = read(None, &path)?;
        let earlier = edits.iter().find(|edit| edit.path == path);
        let undo = match earlier {
            Some(edit) if !self.remove => edit.undo.clone(),
            _ => self.undo_of(&path),
        };
        let trouble = |trouble: SetupError| cannot_edit(&path, &trouble);
        // The file after earlier edits of this run.
        let so_far = earlier.map_or(&before, |edit| &edit.after);
        // The trust in a repository's hooks stays when the user's own connection goes.
        let disconnected = match (&before, &undo) {
            (Some(now), Some(undo)) if self.remove && earlier.is_some() => {
                disconnect(now, undo, &hooks_path).map_err(trouble)?
            }
            _ => None,
        };
        let (after, undo) = match (disconnected, self.remove, so_far) {
            (Some(left), ..) => (left.text, left.undo),
            (None, true, None) => (None, None),
            (None, true, Some(now)) => {
                let left = distrust_hooks(now, undo.as_ref(), &hashes).map_err(trouble)?;
                (left.text, left.undo)
            }
            (None, false, so_far) => {
                let change =
                    trust_hooks(so_far.as_deref(), undo.as_ref(), &hashes).map_err(trouble)?;
                (Some(change.text), change.undo)
            }
        };
        Ok(Some(Edit {
            client: Client::Codex,
            root: None,
            path,
            before,
            after,
            undo,
            executable: false,
            has_hooks: false,
        }))
    }

    /// Resolves links of a user's own settings, which may lead into a folder of dotfiles: the file that they lead to is
    /// edited. In a repository no link is followed.
    fn real(&self, path: &Path) -> PathBuf {
        match self.scope {
            SetupScope::User => path.canonicalize().unwrap_or_else(|_| path.to_path_buf()),
            SetupScope::Project => path.to_path_buf(),
        }
    }

    fn apply(&self, edit: &Edit, remove: bool) -> Result<(), Refusal> {
        let path = &edit.path;
        let missing: Vec<PathBuf> = path
            .ancestors()
            .skip(1)
            .take_while(|above| !above.exists())
            .map(Path::to_path_buf)
            .collect();
        if edit.act() != Act::Keep {
            let fresh = if edit.executable { 0o755 } else { 0o644 };
            let written = Written {
                root: edit.root.as_deref(),
                path,
                mode: fresh,
            };
            written.put(edit.after.as_deref(), &self.steps)?;
        }
        match (&edit.undo, remove) {
            (Some(undo), _) => self.keep(path, undo, missing),
            (None, true) => self.forget(path, edit.root.as_deref()),
            _ => Ok(()),
        }
    }
}

/// Returns true for a file that gets entries. A user's own instructions do not: they would be told in repositories without
/// a fleet, too; there and here the hooks say enough.
fn connected(place: &SetupFile) -> bool {
    place.kind != SettingsFormat::Markdown || place.scope == SetupScope::Project
}
