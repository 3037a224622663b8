//! Whether the fleet here is the user's own: a fleet that came with a clone is shown and not obeyed.

use super::App;
use crate::config::Config;
use flightline::core::{Code, Refusal};
use flightline::store::{Location, StoreError};
use flightline::workspace::{Fingerprint, Trust};
use std::path::Path;

/// The warning about a fleet that came from elsewhere.
const UNTRUSTED: &str = "this fleet was neither created nor trusted on this machine: it is shown, but nothing in it takes effect (`fleet trust` changes that)";

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
        if self.location(config, &home.state)? != Location::Folder(home.state.clone()) {
            return Ok(None);
        }
        Fingerprint::of(&home.state, flightline::store::FILE)
            .map_err(|error| cannot_look(&home.state, &error))
    }

    /// Whether the user made the fleet here, or trusts it. One whose making was cut short is the user's own.
    pub fn is_trusted(&self, config: &Config) -> Result<bool, Refusal> {
        let Some(fingerprint) = self.fingerprint(config)? else {
            return Ok(true);
        };
        Ok(self.covers(&fingerprint)? || self.is_being_made()?)
    }

    fn folder_fingerprint(&self) -> Result<Option<Fingerprint>, Refusal> {
        let state = &self.home()?.state;
        Fingerprint::of_folder(state).map_err(|error| cannot_look(state, &error))
    }

    fn is_being_made(&self) -> Result<bool, Refusal> {
        match self.folder_fingerprint()? {
            Some(folder) => self.covers(&folder),
            None => Ok(false),
        }
    }

    fn covers(&self, fleet: &Fingerprint) -> Result<bool, Refusal> {
        self.trust().covers(fleet).map_err(|error| {
            Refusal::new(
                Code::Unavailable,
                format!("cannot read which fleets you trust: {error}"),
            )
            .hint("nothing was written; check `~/.local/state/flightline` and its disk, then run the command again")
        })
    }

    /// Notes that the user makes a store in the state folder: should that be cut short, it can be completed.
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

    pub fn trust_it(&self) -> Result<(), Refusal> {
        let trust = self.trust();
        if let Some(fingerprint) = self.fingerprint(&self.config()?)?
            && !self.covers(&fingerprint)?
        {
            trust.add(&fingerprint).map_err(|error| untold(&error))?;
        }
        // Whatever was being made is made.
        if let Some(folder) = self.folder_fingerprint()?
            && self.covers(&folder)?
        {
            trust.revoke(&folder).map_err(|error| untold(&error))?;
        }
        Ok(())
    }

    /// Says that the answer is a stranger's word, if it is.
    pub fn say_untrusted(&self) {
        if self.untrusted {
            self.ui.warn(UNTRUSTED);
        }
    }
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
