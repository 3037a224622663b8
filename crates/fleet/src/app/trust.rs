//! Checks that the fleet here is the user's own: a fleet that came with a clone is shown and not obeyed.

use super::App;
use crate::config::{self, Config};
use flightline::core::{Code, Refusal};
use flightline::store::{FILE, LOG, Location, StoreError};
use flightline::workspace::{Fingerprint, STATE_FOLDER, Trust};
use std::path::Path;

/// Where a fleet stands with this user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    Trusted,
    /// The user neither made nor trusted it on this machine.
    Foreign,
    /// The repository put another log beside its store.
    OtherLog,
    /// The repository changed its settings.
    OtherSettings,
}

impl Standing {
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
                "git tracks `.flightline/config.toml`, which changed: the fleet is shown, but nothing in it takes effect until you look at `fleet config list` and run `fleet trust`"
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
        Ok(self.standing(config)? == Standing::Trusted)
    }

    /// Where the fleet here stands with this user. What changed since the last look is taken for the user's own, unless the
    /// repository tracks it: then a pull may have brought it.
    pub fn standing(&self, config: &Config) -> Result<Standing, Refusal> {
        let Some(entry) = self.entry(config)? else {
            return Ok(Standing::Trusted);
        };
        let known = match self.note_of(&entry)? {
            Some(known) => known,
            // Nothing is known of its settings yet.
            None if entry.is_home => String::new(),
            None if self.is_being_made()? => return Ok(Standing::Trusted),
            None => return Ok(Standing::Foreign),
        };
        let seen = self.seen(config)?;
        if known == seen {
            return Ok(Standing::Trusted);
        }
        let (known_log, known_settings) = known.split_once(' ').unwrap_or_default();
        let (log, settings) = seen.split_once(' ').unwrap_or_default();
        let tree = self.work_tree()?;
        let tracks = |file: &str| tree.tracks(&[&format!("{STATE_FOLDER}/{file}")]);
        if log != known_log && log != NOTHING && tracks(LOG) {
            return Ok(Standing::OtherLog);
        }
        if settings != known_settings && !known_settings.is_empty() && tracks(config::FILE) {
            return Ok(Standing::OtherSettings);
        }
        // Where it cannot be noted, the next command looks again.
        let _ = self.trust().add_noting(&entry.fingerprint, &seen);
        let _ = self.note_home();
        Ok(Standing::Trusted)
    }

    /// The entry that the list of trusted fleets would have for the fleet here; none where there is nothing to trust.
    fn entry(&self, config: &Config) -> Result<Option<Entry>, Refusal> {
        if self.home.is_none() || self.server.is_some() {
            return Ok(None);
        }
        if self.is_beside_its_settings(config)? {
            let of_store = self.fingerprint(config)?;
            return Ok(of_store.map(|fingerprint| Entry {
                fingerprint,
                is_home: false,
            }));
        }
        // The store is where the user says; its settings may have come with a clone.
        let of_home = self.home_fingerprint()?;
        Ok(of_home.map(|fingerprint| Entry {
            fingerprint,
            is_home: true,
        }))
    }

    fn note_of(&self, entry: &Entry) -> Result<Option<String>, Refusal> {
        let noted = self.trust().note(&entry.fingerprint);
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
        if let Some(folder) = self.folder_fingerprint()?
            && self.covers(&folder)?
        {
            let revoked = self.trust().revoke(&folder);
            revoked.map_err(|error| untold(&error))?;
        }
        Ok(())
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
        let noted = self.trust().add_noting(&entry.fingerprint, &seen);
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

    /// Trusts nothing of the fleet here any more.
    pub fn distrust_it(&self) -> Result<(), Refusal> {
        let (trust, config) = (self.trust(), self.config()?);
        let of_store = self.fingerprint(&config)?;
        for fingerprint in [of_store, self.home_fingerprint()?].into_iter().flatten() {
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
        if self.standing != Standing::Trusted {
            self.ui.warn(self.standing.warning());
        }
    }
}

/// An entry in the list of trusted fleets.
struct Entry {
    fingerprint: Fingerprint,
    /// Whether it is that of a state folder whose store is elsewhere.
    is_home: bool,
}

/// How a note says that there is no such file.
const NOTHING: &str = "-";

fn unreadable(error: &std::io::Error) -> Refusal {
    Refusal::new(
        Code::Unavailable,
        format!("cannot read which fleets you trust: {error}"),
    )
    .hint("nothing was written; check `~/.local/state/flightline` and its disk, then run the command again")
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
    .hint("set HOME, or XDG_STATE_HOME, to a folder of yours, then run `fleet trust`")
}
