//! Checks that the fleet here is the user's own: a fleet that came with a clone is shown and not obeyed.

use super::App;
use crate::config::{self, Config};
use flightline::core::{Code, Refusal};
use flightline::store::{FILE, LOG, Location, StoreError};
use flightline::workspace::beneath::Dir;
use flightline::workspace::{Bounds, Fingerprint, STATE_FOLDER, Trust, WorkTree, repository_root};
use std::path::Path;

/// Where a fleet stands with this user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrustState {
    Trusted,
    /// The user neither made nor trusted it on this machine.
    Foreign,
    /// The repository put another log beside its store.
    OtherLog,
    /// The repository changed its settings.
    OtherSettings,
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
                "git tracks `.flightline/flightline.db-wal` and replaced it: what is shown may be a stranger's, and nothing in it takes effect (`fleet trust` changes that)"
            }
            Self::OtherSettings => {
                "`.flightline/config.toml` changed, and git tracks it or cannot be asked: the fleet is shown, but nothing in it takes effect until you look at `fleet config list` and run `fleet trust`"
            }
        }
    }
}

impl App {
    pub fn trust(&self) -> Trust {
        Trust::of(self.env.user_state.as_deref())
    }

    /// The file by which the fleet here is trusted. None when there is none yet, or when the store is where the user's own
    /// settings say: no clone brings one there.
    pub fn fingerprint(&self, config: &Config) -> Result<Option<Fingerprint>, Refusal> {
        let (Some(home), None) = (&self.home, &self.server) else {
            return Ok(None);
        };
        if !self.is_beside_its_settings(config)? {
            return Ok(None);
        }
        Fingerprint::of(&home.state, FILE).map_err(|error| cannot_look(&home.state, &error))
    }

    /// Whether the store is in the state folder.
    pub fn is_beside_its_settings(&self, config: &Config) -> Result<bool, Refusal> {
        let state = &self.home()?.state;
        Ok(self.location(config, state)? == Location::Folder(state.clone()))
    }

    /// Returns true when the user made the fleet here, or trusts it. A fleet whose making was cut short is the user's own.
    pub fn is_trusted(&self, config: &Config) -> Result<bool, Refusal> {
        Ok(self.standing(config)? == TrustState::Trusted)
    }

    /// Where the fleet here stands with this user. What changed since the last look is taken for the user's own, unless the
    /// repository tracks it: then a pull may have brought it.
    pub fn standing(&self, config: &Config) -> Result<TrustState, Refusal> {
        let Some(entry) = self.entry(config)? else {
            return Ok(TrustState::Trusted);
        };
        let known = match self.note_of(&entry)? {
            Some(known) => known,
            None if self.is_being_made()? => return Ok(TrustState::Trusted),
            None => return Ok(TrustState::Foreign),
        };
        if let Some(store) = self.store_in_a_repository(config)?
            && !self.covers(&store)?
        {
            return Ok(TrustState::Foreign);
        }
        let seen = self.seen(config)?;
        if known == seen {
            return Ok(TrustState::Trusted);
        }
        let (known_log, known_settings) = known.split_once(' ').unwrap_or_default();
        let (log, settings) = seen.split_once(' ').unwrap_or_default();
        let tracked_log = match log != known_log && log != NOTHING {
            true => self.tracks(LOG)?,
            false => Some(false),
        };
        if tracked_log == Some(true) {
            return Ok(TrustState::OtherLog);
        }
        let other_settings = settings != known_settings && !known_settings.is_empty();
        if other_settings && self.tracks(config::FILE)? != Some(false) {
            return Ok(TrustState::OtherSettings);
        }
        if tracked_log.is_none() {
            // A store makes a new log again and again. A command that can ask git decides whose this one is.
            return Ok(TrustState::Trusted);
        }
        // Where it cannot be noted, the next command looks again.
        let _ = self.trust().add_noting(&entry, &seen);
        let _ = self.note_home();
        Ok(TrustState::Trusted)
    }

    /// Whether git tracks a file of the state folder; none where git cannot say.
    fn tracks(&self, file: &str) -> Result<Option<bool>, Refusal> {
        // The state folder may be in another work tree than this one, whose files another index lists.
        let root = self.home()?.state.parent().unwrap_or(Path::new("/"));
        let tree = WorkTree::new(root, self.env.surroundings.clone(), Bounds::default());
        Ok(tree.tracks(&[&format!("{STATE_FOLDER}/{file}")]))
    }

    /// The store of a typed location that lies in a repository, which may have brought it.
    fn store_in_a_repository(&self, config: &Config) -> Result<Option<Fingerprint>, Refusal> {
        let state = &self.home()?.state;
        match self.location(config, state)? {
            Location::Folder(folder) if folder != *state && repository_root(&folder).is_some() => {
                Fingerprint::of(&folder, FILE).map_err(|error| cannot_look(&folder, &error))
            }
            Location::Folder(_) | Location::Postgres(_) => Ok(None),
        }
    }

    /// Trusts the store of a typed location that lies in a repository.
    pub fn note_store(&self) -> Result<(), Refusal> {
        match self.store_in_a_repository(&self.config()?)? {
            Some(store) if !self.covers(&store)? => {
                self.trust().add(&store).map_err(|error| untold(&error))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// The identity under which the fleet here is trusted; none where there is nothing to trust.
    fn entry(&self, config: &Config) -> Result<Option<Fingerprint>, Refusal> {
        if self.home.is_none() || self.server.is_some() {
            return Ok(None);
        }
        match self.is_beside_its_settings(config)? {
            true => self.fingerprint(config),
            // The store is where the user says; its settings may have come with a clone.
            false => self.home_fingerprint(),
        }
    }

    fn note_of(&self, entry: &Fingerprint) -> Result<Option<String>, Refusal> {
        let noted = self.trust().note(entry);
        noted.map_err(|error| unreadable(&error))
    }

    /// The log beside the store and the settings, as an entry notes them.
    fn seen(&self, config: &Config) -> Result<String, Refusal> {
        let state = &self.home()?.state;
        let log = match self.is_beside_its_settings(config)? {
            true => {
                Fingerprint::of_content(state, LOG).map_err(|error| cannot_look(state, &error))?
            }
            false => NOTHING.to_owned(),
        };
        let settings = config.project_sha.as_deref().unwrap_or(NOTHING);
        Ok(format!("{log} {settings}"))
    }

    fn folder_fingerprint(&self) -> Result<Option<Fingerprint>, Refusal> {
        let state = &self.home()?.state;
        Fingerprint::of_folder(state).map_err(|error| cannot_look(state, &error))
    }

    fn home_fingerprint(&self) -> Result<Option<Fingerprint>, Refusal> {
        Ok(self.folder_fingerprint()?.map(Fingerprint::as_home))
    }

    /// Whether the state folder is the user's own: a store was made or trusted in it on this machine.
    pub fn is_own_home(&self) -> Result<bool, Refusal> {
        match self.home_fingerprint()? {
            Some(home) => Ok(self.covers(&home)? || self.is_being_made()?),
            None => Ok(false),
        }
    }

    /// Notes that the state folder is the user's own.
    pub fn note_home(&self) -> Result<(), Refusal> {
        match self.home_fingerprint()? {
            Some(home) if !self.covers(&home)? => {
                self.trust().add(&home).map_err(|error| untold(&error))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn is_being_made(&self) -> Result<bool, Refusal> {
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
        match self.folder_fingerprint()? {
            Some(folder) => self.trust().add(&folder).map_err(|error| untold(&error)),
            None => Ok(()),
        }
    }

    pub fn must_be_trusted(&self) -> Result<(), Refusal> {
        match self.is_trusted(&self.config()?)? {
            true => Ok(()),
            false => Err(StoreError::Untrusted.into()),
        }
    }

    /// Trusts the fleet here, with the log and the settings that it has now.
    pub fn trust_it(&self) -> Result<(), Refusal> {
        self.note_home()?;
        self.note_settings()?;
        // Whatever was being made is made.
        self.end_making()
    }

    /// Trusts the store here, with the log and the settings that it has now: the user changed them a moment ago.
    pub fn note_settings(&self) -> Result<(), Refusal> {
        let config = self.config()?;
        let Some(entry) = self.entry(&config)? else {
            return Ok(());
        };
        let seen = self.seen(&config)?;
        if self.note_of(&entry)?.as_ref() == Some(&seen) {
            return Ok(());
        }
        let noted = self.trust().add_noting(&entry, &seen);
        noted.map_err(|error| untold(&error))
    }

    /// Refuses an act that is a person's alone.
    pub fn must_be_a_person(&self, act: &str) -> Result<(), Refusal> {
        match self.globals.agent.is_some() || self.env.agent.is_some() {
            true => Err(
                Refusal::new(Code::Forbidden, format!("an agent cannot {act}"))
                    .hint("a person does it, without `--agent` and FLEET_AGENT"),
            ),
            false => Ok(()),
        }
    }

    /// Refuses to build a store from files that came with a clone.
    pub fn must_be_own_home(&self, config: &Config) -> Result<(), Refusal> {
        self.must_be_trusted()?;
        let is_lost = self.is_beside_its_settings(config)? && self.fingerprint(config)?.is_none();
        match is_lost && !self.is_own_home()? {
            true => Err(Refusal::new(
                Code::Untrusted,
                "no store was made here on this machine: the checkpoint files came from elsewhere",
            )
            .hint("if they are yours, or you know where they come from, run `fleet trust`, then this command again")),
            false => Ok(()),
        }
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

    /// The files of the state folder that take effect on a store that is made there.
    pub fn adoptable(&self) -> Result<Vec<&'static str>, Refusal> {
        let state = &self.home()?.state;
        let folder = Dir::private_if_there(state).map_err(|error| cannot_look(state, &error))?;
        let Some(folder) = folder else {
            return Ok(vec![]);
        };
        let mut files = vec![config::FILE, "checkpoints", "anchor"];
        files.retain(|file| matches!(folder.entry(file), Ok(Some(_))));
        Ok(files)
    }

    /// Refuses to make a store in a state folder that came with a clone: its settings and its checkpoint files would take
    /// effect.
    pub fn must_not_adopt(&self) -> Result<(), Refusal> {
        let (state, brought) = (&self.home()?.state, self.adoptable()?);
        if brought.is_empty() || self.is_own_home()? {
            return Ok(());
        }
        Err(Refusal::new(
            Code::Untrusted,
            format!(
                "{} holds {}, and you have neither created nor trusted this fleet on this machine",
                state.display(),
                brought.join(" and ")
            ),
        )
        .hint("look at `fleet config list`; if you know where it comes from, run `fleet trust`, then this command again"))
    }

    /// Trusts nothing of the fleet here any more.
    pub fn distrust_it(&self) -> Result<(), Refusal> {
        let (trust, config) = (self.trust(), self.config()?);
        let of_stores = [
            self.fingerprint(&config)?,
            self.store_in_a_repository(&config)?,
        ];
        let all = of_stores.into_iter().chain([self.home_fingerprint()?]);
        for fingerprint in all.flatten() {
            trust.revoke(&fingerprint).map_err(|error| {
                Refusal::new(
                    Code::Unavailable,
                    format!("cannot record that this fleet is no longer trusted: {error}"),
                )
            })?;
        }
        Ok(())
    }

    /// Warns that the answer comes from a fleet that is not trusted, if it does.
    pub fn say_untrusted(&self) {
        if self.standing != TrustState::Trusted {
            self.ui.warn(self.standing.warning());
        }
    }
}

/// How a note says that there is no such file.
const NOTHING: &str = "-";

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
