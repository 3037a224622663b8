//! Checks that the fleet here is the user's own: a fleet that came with a clone is shown and not obeyed.

use super::App;
use crate::config::{self, Config};
use flightline::core::event::sha256_hex;
use flightline::core::{Code, Refusal};
use flightline::rebuild::REBUILD_FOLDER;
use flightline::store::{FILE, LOG, Location, StoreError};
use flightline::workspace::beneath::{Dir, EntryKind};
use flightline::workspace::{Bounds, Fingerprint, Trust, WorkTree, repository_root};
use std::path::{Path, PathBuf};

/// The trust state of a fleet for this user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrustState {
    Trusted,
    /// The user neither made nor trusted it on this machine.
    Foreign,
    /// The repository put another log beside its store.
    OtherLog,
    /// The repository changed its settings.
    OtherSettings,
    /// The fleet is at a server, and the settings here are a stranger's.
    ForeignSettings,
}

impl TrustState {
    /// The warning about a fleet that is not trusted.
    pub fn warning(self) -> &'static str {
        match self {
            Self::Trusted => "",
            Self::Foreign => {
                "this fleet was neither created nor trusted on this machine: it is shown, but nothing in it takes effect (`fleet trust` changes that)"
            }
            Self::OtherLog => {
                "git tracks the log beside the store (`flightline.db-wal`), and it is another one than before: what is shown may be a stranger's, and nothing in it takes effect (`fleet trust` changes that)"
            }
            Self::OtherSettings => {
                "`.flightline/config.toml` changed, and git tracks it or cannot be asked: nothing here takes effect until you look at `fleet config list` and run `fleet trust`"
            }
            Self::ForeignSettings => {
                "`.flightline/config.toml` was neither written nor trusted on this machine: its settings take no effect until you look at `fleet config list` and run `fleet trust`"
            }
        }
    }
}

impl App {
    pub fn trust(&self) -> Trust {
        Trust::of(self.env.user_state.as_deref())
    }

    /// The file of the store beside the settings; none when there is none.
    pub fn fingerprint(&self, config: &Config) -> Result<Option<Fingerprint>, Refusal> {
        match &self.home {
            Some(_) if self.server.is_none() && self.is_beside_its_settings(config)? => {
                Ok(self.store_file(config)?.map(|(_, file)| file))
            }
            Some(_) | None => Ok(None),
        }
    }

    /// Returns true when the store is in the state folder.
    pub fn is_beside_its_settings(&self, config: &Config) -> Result<bool, Refusal> {
        let state = &self.home()?.state;
        Ok(self.location(config, state)? == Location::Folder(state.clone()))
    }

    /// The store's folder and file, where a repository may have brought them: in the state folder, or in a repository that a
    /// location names.
    fn store_file(&self, config: &Config) -> Result<Option<(PathBuf, Fingerprint)>, Refusal> {
        let state = &self.home()?.state;
        if self.server.is_some() {
            return Ok(None);
        }
        match self.location(config, state)? {
            Location::Folder(folder) if folder == *state || repository_root(&folder).is_some() => {
                let file = Fingerprint::of(&folder, FILE);
                let file = file.map_err(|error| cannot_look(&folder, &error))?;
                Ok(file.map(|file| (folder, file)))
            }
            Location::Folder(_) | Location::Postgres(_) => Ok(None),
        }
    }

    /// Returns true when the user made the fleet here, or trusts it. A fleet at a server is the server's to judge.
    pub fn is_trusted(&self, config: &Config) -> Result<bool, Refusal> {
        let standing = match self.settings.get() {
            // The state was looked at when the settings were read.
            Some(_) => self.standing.get(),
            None => self.standing(config)?,
        };
        Ok(self.server.is_some() || standing == TrustState::Trusted)
    }

    /// Returns the trust state of the fleet here for this user. It is trusted when its store and its settings are both
    /// the user's own, or trusted. A file that changed since the last look counts as the user's own, unless git tracks
    /// it: then a pull may have brought it.
    pub fn standing(&self, config: &Config) -> Result<TrustState, Refusal> {
        let standing = self.look_at_trust(config)?;
        self.standing.set(standing);
        Ok(standing)
    }

    fn look_at_trust(&self, config: &Config) -> Result<TrustState, Refusal> {
        if self.home.is_none() {
            return Ok(TrustState::Trusted);
        }
        let (store, is_far) = (self.store_file(config)?, self.server.is_some());
        let is_beside = !is_far && self.is_beside_its_settings(config)?;
        if is_beside && store.is_none() || is_far && !config.sets_more_than_a_project() {
            return Ok(TrustState::Trusted);
        }
        let mut known = Known::default();
        if let Some((folder, file)) = &store {
            let is_own = match self.note_of(file)? {
                Some(note) => {
                    known.log = note;
                    // A file that is known by its number alone can be replaced by a pull.
                    file.is_certain() || self.tracks(folder, &[FILE, LOG])? == Some(false)
                }
                // The user named the place, or makes a store here, and no pull brought the file.
                None if !is_beside || self.is_being_made()? => {
                    self.tracks(folder, &[FILE])? == Some(false)
                }
                None => false,
            };
            if !is_own {
                return Ok(TrustState::Foreign);
            }
        }
        let home = self.home_fingerprint()?;
        match home.map(|home| self.note_of(&home)).transpose()?.flatten() {
            Some(note) => known.settings = note,
            None if self.is_being_made()? => {}
            None if is_far => return Ok(TrustState::ForeignSettings),
            None => return Ok(TrustState::Foreign),
        }
        let seen = self.seen(store.as_ref(), config)?;
        if (&known.log, &known.settings) == (&seen.log, &seen.settings) {
            return Ok(TrustState::Trusted);
        }
        let tracked_log = match &store {
            Some((folder, _)) if !seen.log_is_empty => {
                self.may_be_pulled(&known.log, &seen.log, (folder, LOG))?
            }
            Some(_) | None => Some(false),
        };
        // A file that was refused once stays refused when the repository ceases to track it. When the note fails, the
        // next command looks again.
        if tracked_log == Some(true) {
            known.log = refused(known.log);
            let _ = self.note(store.as_ref(), &known);
            return Ok(TrustState::OtherLog);
        }
        match self.may_be_pulled_settings(&known, &seen)? {
            Some(false) => {}
            Some(true) => {
                known.settings = refused(known.settings);
                let _ = self.note(store.as_ref(), &known);
                return Ok(TrustState::OtherSettings);
            }
            // The next command that can ask git decides.
            None => return Ok(TrustState::OtherSettings),
        }
        // A store makes a new log again and again. A command that can ask git decides whose this one is.
        if tracked_log.is_some() {
            // When the note fails, the next command looks again.
            let _ = self.note(store.as_ref(), &seen);
        }
        Ok(TrustState::Trusted)
    }

    fn may_be_pulled_settings(&self, known: &Known, seen: &Known) -> Result<Option<bool>, Refusal> {
        let file = (self.home()?.state.as_path(), config::FILE);
        self.may_be_pulled(&known.settings, &seen.settings, file)
    }

    /// Returns true when a pull may have replaced a file since it was noted; none when git cannot tell. `known` is the
    /// noted state of the file, `seen` its present one.
    fn may_be_pulled(
        &self,
        known: &str,
        seen: &str,
        (folder, file): (&Path, &str),
    ) -> Result<Option<bool>, Refusal> {
        match known.strip_prefix(WAS_REFUSED) {
            _ if seen == NOTHING || seen == known => Ok(Some(false)),
            Some(known) => Ok(Some(seen != known)),
            None => self.tracks(folder, &[file]),
        }
    }

    /// Returns true when git tracks one of these files in a folder; none when git cannot tell. Git is asked in that
    /// folder, which may be in another work tree than this one, or a repository of its own.
    fn tracks(&self, folder: &Path, files: &[&str]) -> Result<Option<bool>, Refusal> {
        let tree = WorkTree::new(folder, self.env.surroundings.clone(), Bounds::default());
        Ok(tree.tracks(files))
    }

    fn note_of(&self, entry: &Fingerprint) -> Result<Option<String>, Refusal> {
        let noted = self.trust().note(entry);
        noted.map_err(|error| unreadable(&error))
    }

    /// The log beside the store, and the settings.
    fn seen(
        &self,
        store: Option<&(PathBuf, Fingerprint)>,
        config: &Config,
    ) -> Result<Known, Refusal> {
        let (log, log_is_empty) = match store {
            Some((folder, _)) => Fingerprint::of_content(folder, LOG)
                .map_err(|error| cannot_look(folder, &error))?
                .unwrap_or_else(|| (NOTHING.to_owned(), true)),
            None => (String::new(), true),
        };
        let settings = config.project_sha.as_deref().unwrap_or(NOTHING);
        Ok(Known {
            log,
            log_is_empty,
            settings: settings.to_owned(),
        })
    }

    fn note(&self, store: Option<&(PathBuf, Fingerprint)>, seen: &Known) -> Result<(), Refusal> {
        let home = self.home_fingerprint()?;
        let entries = [
            store.map(|(_, file)| (file, &seen.log)),
            home.as_ref().map(|home| (home, &seen.settings)),
        ];
        for (entry, note) in entries.into_iter().flatten() {
            if self.note_of(entry)?.as_ref() != Some(note) {
                let noted = self.trust().add_noting(entry, note);
                noted.map_err(|error| untold(&error))?;
            }
        }
        Ok(())
    }

    fn folder_fingerprint(&self) -> Result<Option<Fingerprint>, Refusal> {
        let state = &self.home()?.state;
        Fingerprint::of_folder(state).map_err(|error| cannot_look(state, &error))
    }

    fn home_fingerprint(&self) -> Result<Option<Fingerprint>, Refusal> {
        Ok(self.folder_fingerprint()?.map(Fingerprint::as_home))
    }

    /// Returns true when the state folder is the user's own: a store was made or trusted in it on this machine.
    pub fn is_own_home(&self) -> Result<bool, Refusal> {
        match self.home_fingerprint()? {
            Some(home) => Ok(self.covers(&home)? || self.is_being_made()?),
            None => Ok(false),
        }
    }

    pub fn is_being_made(&self) -> Result<bool, Refusal> {
        match self.folder_fingerprint()? {
            Some(folder) => self.covers(&folder),
            None => Ok(false),
        }
    }

    fn covers(&self, fleet: &Fingerprint) -> Result<bool, Refusal> {
        let covered = self.trust().covers(fleet);
        covered.map_err(|error| unreadable(&error))
    }

    /// Notes that the user makes a store in the state folder, so that it can be completed should that be cut short.
    pub fn begin_making(&self) -> Result<(), Refusal> {
        match self.is_being_made()? {
            true => Ok(()),
            false => self.accept(&[]),
        }
    }

    /// Notes that a store may be made of the files that came with the repository, as they are now.
    pub fn accept(&self, brought: &[String]) -> Result<(), Refusal> {
        match self.folder_fingerprint()? {
            Some(folder) => {
                let accepted = self.described(brought)?;
                let noted = self.trust().add_noting(&folder, &accepted);
                noted.map_err(|error| untold(&error))
            }
            None => Ok(()),
        }
    }

    /// Returns a hash of these files of the state folder, with everything below them. It changes when a pull replaces
    /// one.
    fn described(&self, files: &[String]) -> Result<String, Refusal> {
        if files.is_empty() {
            return Ok(String::new());
        }
        let (state, mut text) = (&self.home()?.state, String::new());
        let folder = Dir::private(state).map_err(|error| cannot_look(state, &error))?;
        for file in files {
            describe(&folder, Path::new(file), &mut text)
                .map_err(|error| cannot_look(&state.join(file), &error))?;
        }
        Ok(sha256_hex(&text))
    }

    pub fn must_be_trusted(&self) -> Result<(), Refusal> {
        match self.is_trusted(&self.config()?)? {
            true => Ok(()),
            false => Err(StoreError::Untrusted.into()),
        }
    }

    /// Refuses to change settings that are not the user's own, also where the fleet is at a server: what is written is noted
    /// as the user's, and so is all that stood in the file before.
    pub fn settings_must_be_own(&self) -> Result<(), Refusal> {
        let standing = self.standing(&self.written_config()?)?;
        if standing != TrustState::Trusted {
            return Err(StoreError::Untrusted.into());
        }
        if self.is_own_home()? {
            return Ok(());
        }
        self.must_be_a_person("make the settings of a folder its own")?;
        // Nor of a folder that may have come with its repository.
        self.refuse_brought(&self.written_config()?)
    }

    /// Returns true when there is a store that this user is not recorded as having made, or when that cannot be found
    /// out.
    pub fn has_unknown_store(&self, config: &Config) -> bool {
        let store = self.store_file(config);
        let noted = store.and_then(|store| store.map(|(_, file)| self.note_of(&file)).transpose());
        !matches!(noted, Ok(None | Some(Some(_))))
    }

    /// Trusts the fleet here, with the log and the settings that it has now.
    pub fn trust_it(&self) -> Result<(), Refusal> {
        self.note_settings()?;
        self.standing.set(TrustState::Trusted);
        // The store or the settings that were being made are made now.
        self.end_making()
    }

    /// Trusts the store here, with the log and the settings that it has now: the user changed them a moment ago.
    pub fn note_settings(&self) -> Result<(), Refusal> {
        let config = self.written_config()?;
        let store = self.store_file(&config)?;
        let seen = self.seen(store.as_ref(), &config)?;
        self.note(store.as_ref(), &seen)
    }

    /// Refuses an act that is a person's alone.
    pub fn must_be_a_person(&self, act: &str) -> Result<(), Refusal> {
        match self.caller()?.agent.is_some() {
            true => Err(
                Refusal::new(Code::Forbidden, format!("an agent cannot {act}"))
                    .hint("a person does it, in a terminal of their own, without `--agent` and FLEET_AGENT"),
            ),
            false => Ok(()),
        }
    }

    /// Refuses to build a store from files that came with a clone.
    pub fn must_be_own_home(&self, config: &Config) -> Result<(), Refusal> {
        self.must_be_trusted()?;
        self.refuse_brought(config)
    }

    /// Trusts no longer that a store is being made in the state folder: nothing was made.
    pub fn end_making(&self) -> Result<(), Refusal> {
        match self.folder_fingerprint()? {
            Some(folder) => {
                let revoked = self.trust().revoke(&folder);
                revoked.map(drop).map_err(|error| untold(&error))
            }
            None => Ok(()),
        }
    }

    /// The files of the state folder that would take effect on a store that is made there, and may have come with the
    /// repository; none when the user has trusted them as they are.
    pub fn brought(&self, config: &Config) -> Result<Vec<String>, Refusal> {
        let state = &self.home()?.state;
        let folder = Dir::private_if_there(state).map_err(|error| cannot_look(state, &error))?;
        let (Some(folder), Some(home), None) = (folder, self.home_fingerprint()?, &self.server)
        else {
            return Ok(vec![]);
        };
        let (mut brought, note) = (Vec::new(), self.note_of(&home)?);
        let is_own = note.is_some() || self.is_being_made()?;
        let names = folder.names_in("");
        for file in names.map_err(|error| cannot_look(state, &error))? {
            let is_adopted = [config::FILE, "checkpoints", ANCHOR, IGNORED].contains(&&*file);
            let is_brought = match &note {
                _ if !is_adopted && !file.starts_with(REBUILD_FOLDER) => false,
                _ if file == IGNORED && is_own => false,
                _ if file == IGNORED => {
                    !matches!(folder.read_text(&file, 100), Ok(Some(text)) if text == IGNORE_ALL)
                }
                Some(note) if file == config::FILE => {
                    let (mut known, seen) = (Known::default(), self.seen(None, config)?);
                    known.settings.clone_from(note);
                    self.may_be_pulled_settings(&known, &seen)? != Some(false)
                }
                _ if is_own => self.tracks(state, &[&file])? != Some(false),
                _ => true,
            };
            if is_brought {
                brought.push(file);
            }
        }
        brought.sort();
        let accepted = match self.folder_fingerprint()? {
            Some(folder) => self.note_of(&folder)?.unwrap_or_default(),
            None => String::new(),
        };
        if !accepted.is_empty() && self.described(&brought)? == accepted {
            brought.clear();
        }
        Ok(brought)
    }

    /// Refuses to make a store that would adopt what came with a clone, or to make a project in a store that did.
    pub fn must_not_adopt(&self, config: &Config) -> Result<(), Refusal> {
        let has_store = self.fingerprint(config)?.is_some();
        if has_store || !self.is_beside_its_settings(config)? && self.is_own_home()? {
            return match self.is_trusted(config)? {
                true => Ok(()),
                false => Err(StoreError::Untrusted.into()),
            };
        }
        self.refuse_brought(config)
    }

    /// Refuses to make a store of what may have come with the repository: in the state folder, or where the store is elsewhere.
    fn refuse_brought(&self, config: &Config) -> Result<(), Refusal> {
        let state = &self.home()?.state;
        if let Location::Folder(folder) = self.location(config, state)?
            && folder != *state
            && self.holds_anothers_store(&folder)?
        {
            return Err(Refusal::new(
                Code::Untrusted,
                format!("the store in {} came with its repository", folder.display()),
            )
            .hint("choose a folder outside of that repository for the store"));
        }
        let brought = self.brought(config)?;
        if brought.is_empty() {
            return Ok(());
        }
        let why = match self.is_own_home()? {
            true => "which git tracks, or git cannot be asked: a pull may have brought it",
            false => "and you have neither created nor trusted this fleet on this machine",
        };
        Err(Refusal::new(
            Code::Untrusted,
            format!("{} holds {}, {why}", state.display(), brought.join(" and ")),
        )
        .hint("look at `fleet config list`; if you know where it comes from, run `fleet trust`, then this command again"))
    }

    /// Returns true when a pull may have brought a store that this user does not know into a folder elsewhere, or files
    /// that a store can be made of.
    fn holds_anothers_store(&self, folder: &Path) -> Result<bool, Refusal> {
        let Ok(Some(place)) = Dir::private_if_there(folder) else {
            return Ok(false);
        };
        let known = Fingerprint::of(folder, FILE).map_err(|error| cannot_look(folder, &error))?;
        let is_known = match &known {
            Some(file) => self.note_of(file)?.is_some(),
            None => false,
        };
        let names = place.names_in("");
        let mut names = names.map_err(|error| cannot_look(folder, &error))?;
        names.retain(|name| {
            name.starts_with(REBUILD_FOLDER) || name == ANCHOR || name == FILE && !is_known
        });
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        Ok(!names.is_empty() && self.tracks(folder, &names)? != Some(false))
    }

    /// Trusts the settings here no more, nor the store beside them. Another store is named to be meant.
    pub fn distrust_it(&self) -> Result<(), Refusal> {
        let (trust, config) = (self.trust(), self.written_config()?);
        let is_meant = self.is_beside_its_settings(&config)? || self.globals.location.is_some();
        let store = self.store_file(&config)?.filter(|_| is_meant);
        let all = [store.map(|(_, file)| file), self.home_fingerprint()?];
        for fingerprint in all.into_iter().flatten() {
            trust.revoke(&fingerprint).map_err(|error| {
                Refusal::new(
                    Code::Unavailable,
                    format!("cannot record that this fleet is no longer trusted: {error}"),
                )
            })?;
        }
        self.end_making()
    }

    /// Adds to a refusal why the fleet is no longer trusted: its log, or its settings, changed.
    pub fn with_reason(&self, refusal: Refusal) -> Refusal {
        match (self.standing.get(), &refusal.hint) {
            (standing @ (TrustState::OtherLog | TrustState::OtherSettings), Some(hint))
                if refusal.code == Code::Untrusted =>
            {
                let hint = format!("{}\n{hint}", standing.warning());
                refusal.hint(hint)
            }
            _ => refusal,
        }
    }

    /// Warns that the answer comes from a fleet that is not trusted, if it does.
    pub fn say_untrusted(&self) {
        if self.fleet.is_some() && self.standing.get() != TrustState::Trusted {
            self.ui.warn(self.standing.get().warning());
        }
    }
}

/// The state of a fleet's files when they were noted.
#[derive(Default)]
struct Known {
    log: String,
    /// An empty log holds no changes, so its origin does not matter.
    log_is_empty: bool,
    settings: String,
}

/// The beginning of a note of a file whose replacement was refused.
const WAS_REFUSED: char = '?';

fn refused(known: String) -> String {
    match known.starts_with(WAS_REFUSED) {
        true => known,
        false => format!("{WAS_REFUSED}{known}"),
    }
}

/// The text in a note for a file that does not exist.
const NOTHING: &str = "-";

/// The file that keeps the state folder out of the repository, and its content.
pub const IGNORED: &str = ".gitignore";
const ANCHOR: &str = "anchor";
pub const IGNORE_ALL: &str = "*\n";

/// Appends the identity of a file or a folder: the identity, size and time of each file at or below the path.
fn describe(folder: &Dir, path: &Path, text: &mut String) -> std::io::Result<()> {
    let Some(seen) = folder.entry(path)? else {
        return Ok(());
    };
    if seen.kind == EntryKind::Folder {
        let mut names = folder.names_in(path)?;
        names.sort();
        return names
            .iter()
            .try_for_each(|name| describe(folder, &path.join(name), text));
    }
    let line = (path, folder.identity(path)?, seen.size, seen.modified);
    text.push_str(&format!("{line:?}\n"));
    Ok(())
}

fn unreadable(error: &std::io::Error) -> Refusal {
    Refusal::new(
        Code::Unavailable,
        format!("cannot read which fleets you trust: {error}"),
    )
    .hint("nothing was written; check `flightline` in XDG_STATE_HOME or `~/.local/state` and its disk, then run the command again")
}

fn cannot_look(state: &Path, error: &std::io::Error) -> Refusal {
    Refusal::new(
        Code::Unavailable,
        format!("cannot look at {}: {error}", state.display()),
    )
}

fn untold(error: &std::io::Error) -> Refusal {
    Refusal::new(
        Code::Unavailable,
        format!("cannot record that this fleet is trusted: {error}"),
    )
    .hint("set HOME, or XDG_STATE_HOME, to a folder of yours, then run the command again")
}
