//! Runs operations and jobs for a command, and prints their warnings beside the answer.

use super::App;
use crate::fields;
use crate::remote::DELIVERED;
use crate::ui::Ui;
use flightline::checkpoint::mend::CheckpointsToRead;
use flightline::checkpoint::serve::{self, OutcomeWithWarnings, ReadsCheckpoints};
use flightline::core::{Code, Refusal};
use flightline::registry::Registered;
use flightline::remote::Offline;
use flightline::store_job::{AfterWrite, MendFromFiles, SettleBackups};
use flightline::{Access, Answered, Caller, Fleet, StoreJob};
use std::collections::BTreeSet;
use std::path::Path;

impl App {
    /// Names the schema of the command's answer, where that is not the outcome of its one operation. A field that the
    /// answer cannot have is refused before anything is written.
    pub fn will_answer(&mut self, schema: &str) -> Result<(), Refusal> {
        self.answer_is_known = true;
        fields::check_answer(schema, &self.ui.fields)
    }

    fn check_fields(&self, operation: &str) -> Result<(), Refusal> {
        match self.answer_is_known {
            true => Ok(()),
            false => fields::check_outcome(operation, &self.ui.fields),
        }
    }

    /// Runs an operation that does not wait for its server. An operation that may wait is run with [`App::run_or_keep`],
    /// which the compiler sees to.
    pub fn run<O: Registered>(&mut self, operation: &O) -> Result<O::Outcome, Refusal> {
        const {
            assert!(matches!(O::OFFLINE, Offline::Refused));
        }
        self.run_now(operation)
    }

    /// Runs an operation now or not at all, also one that may wait.
    pub fn run_now<O: Registered>(&mut self, operation: &O) -> Result<O::Outcome, Refusal> {
        if O::ACCESS != Access::Read {
            self.check_fields(O::NAME)?;
        }
        let caller = self.caller()?;
        let outcome = self.fleet()?.run(operation, &caller);
        self.say_noticed();
        let outcome = outcome.map_err(flightline::Error::into_refusal)?;
        self.ui.written |= O::ACCESS != Access::Read;
        Ok(outcome)
    }

    /// Runs an operation that may wait for its server. Where the server cannot be reached, prints whether the request is
    /// queued or dropped, and returns no outcome: the command has done what it can.
    pub fn run_or_keep<O: Registered>(
        &mut self,
        operation: &O,
    ) -> Result<Option<O::Outcome>, Refusal> {
        const {
            assert!(!matches!(O::OFFLINE, Offline::Refused));
        }
        self.check_fields(O::NAME)?;
        let caller = self.caller()?;
        let answered = self.fleet()?.run_or_keep(operation, &caller);
        self.say_noticed();
        match answered.map_err(flightline::Error::into_refusal)? {
            Answered::Now(done) => {
                self.ui.written = true;
                Ok(Some(done.outcome))
            }
            Answered::Later(later) => {
                self.ui.say_later(&later)?;
                Ok(None)
            }
        }
    }

    /// Runs an operation that reads checkpoints, with the help of their files where the store is damaged.
    pub fn serve<O: ReadsCheckpoints>(&mut self, operation: &O) -> Result<O::Outcome, Refusal> {
        self.serve_with(operation, serve::serve)
    }

    /// Shows the changes that such a write would make, without making them.
    pub fn rehearse<O: ReadsCheckpoints>(&mut self, operation: &O) -> Result<O::Outcome, Refusal> {
        self.serve_with(operation, serve::rehearse)
    }

    /// Mends checkpoints in the store from their files.
    pub fn mend(&mut self, wanted: &CheckpointsToRead) -> Result<(), Refusal> {
        let wanted = wanted.clone();
        for warning in self.run_job(&MendFromFiles { wanted })? {
            self.ui.warn(warning);
        }
        Ok(())
    }

    fn serve_with<O: ReadsCheckpoints>(
        &mut self,
        operation: &O,
        run: fn(&mut Fleet, &Path, &Caller, &O) -> OutcomeWithWarnings<O::Outcome>,
    ) -> Result<O::Outcome, Refusal> {
        self.check_fields(O::NAME)?;
        let (caller, folder) = (self.caller()?, self.home()?.state.clone());
        let served = run(self.fleet()?, &folder, &caller, operation);
        for warning in &served.warnings {
            self.ui.warn(warning);
        }
        self.say_noticed();
        let done = served.done.map_err(flightline::Error::into_refusal)?;
        self.ui.written |= served.written;
        Ok(done.outcome)
    }

    /// The fleet, with the output for its progress.
    pub fn fleet_and_ui(&mut self) -> Result<(&mut Fleet, &Ui), Refusal> {
        self.fleet()?;
        match &mut self.fleet {
            Some(fleet) => Ok((fleet, &self.ui)),
            None => Err(Refusal::new(Code::Failed, "the store is not open")),
        }
    }

    /// Warns of values that were read from their second copy, because the first one is damaged, and prints the warnings of
    /// a server.
    pub fn say_noticed(&mut self) {
        let warnings = self.fleet.as_mut().map(Fleet::take_warnings);
        for warning in warnings.unwrap_or_default() {
            // That all of it arrived is no warning.
            match warning.starts_with(DELIVERED) && !warning.contains(';') {
                true => self.ui.talk(warning),
                false => self.ui.warn(warning),
            }
        }
        let noticed = self.fleet.as_mut().map(Fleet::take_noticed);
        for damage in noticed.unwrap_or_default() {
            if self.said.insert(damage.clone()) {
                // Some messages name a command that helps.
                let hint = match damage.contains("`fleet ") {
                    true => "",
                    false => "; repair it with `fleet doctor --fix`",
                };
                self.ui.warn(format_args!("{damage}{hint}"));
            }
        }
    }

    /// Runs a job where the store is.
    pub fn run_job<E: StoreJob>(&mut self, job: &E) -> Result<E::Outcome, Refusal> {
        let (caller, folder) = (self.caller()?, self.home()?.state.clone());
        let done = self.fleet()?.run_job(job, &folder, &caller);
        done.map_err(flightline::Error::into_refusal)
    }

    /// Does the work that follows a write, after the answer was given. Returns the reasons for which a part of it was not
    /// done.
    pub fn follow_write(&mut self) -> Result<BTreeSet<String>, Refusal> {
        let heartbeat = self.purpose == "heartbeat";
        let followed = self.run_job(&AfterWrite { heartbeat })?;
        for (id, warning) in followed.told {
            self.ui.warn(format_args!("{id}: {warning}"));
        }
        Ok(followed.failed)
    }

    pub fn settle_backups(&mut self) -> Result<(), Refusal> {
        for (id, warning) in self.run_job(&SettleBackups {})? {
            self.ui.warn(format_args!("{id}: {warning}"));
        }
        Ok(())
    }
}
