//! The mirrors of a repository: read before anything is decided, written after the answer.

use super::App;
use flightline::core::Refusal;
use flightline::mirror::{MirrorNotice, Mirrors};
use flightline::{Caller, Fleet};
use std::path::PathBuf;

impl App {
    /// The mirrors that are kept beside the work, if the settings name any.
    pub fn mirrors(&self) -> Result<Option<Mirrors>, Refusal> {
        let (home, config) = (self.home()?, self.config()?);
        let dialects = config.policy.mirrors.dialects();
        Ok((!dialects.is_empty()).then(|| Mirrors {
            root: home.root.clone(),
            inside: config
                .mirror_root
                .map_or_else(PathBuf::new, |inside| PathBuf::from(inside.as_str())),
            state: home.state.clone(),
            dialects,
        }))
    }

    /// The files and folders that mirrors write, relative to the repository.
    pub(super) fn mirrored(&self) -> Result<Vec<PathBuf>, Refusal> {
        let Some(mirrors) = self.mirrors()? else {
            return Ok(Vec::new());
        };
        let places = mirrors.places().into_iter();
        Ok(places.map(|place| mirrors.inside.join(place)).collect())
    }

    /// Imports the files that other programs wrote into the mirrors, before anything is decided.
    pub(super) fn take_in_mirrors(&mut self) -> Result<(), Refusal> {
        self.with_mirrors(flightline::mirror::take_in)
    }

    pub fn write_mirrors(&mut self) -> Result<(), Refusal> {
        self.with_mirrors(flightline::mirror::write_out)
    }

    fn with_mirrors(
        &mut self,
        pass: fn(&mut Fleet, &Mirrors, &Caller) -> flightline::Result<Vec<MirrorNotice>>,
    ) -> Result<(), Refusal> {
        let Some(mirrors) = self.mirrors()? else {
            return Ok(());
        };
        let caller = self.caller()?;
        let said = pass(self.fleet()?, &mirrors, &caller);
        for line in said.map_err(flightline::Error::into_refusal)? {
            match line {
                MirrorNotice::Done(line) => self.ui.talk(line),
                MirrorNotice::Trouble(line) => self.ui.warn(line),
            }
            self.ui.written = true;
        }
        Ok(())
    }
}
