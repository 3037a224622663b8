//! The store: opens an engine, and runs closures in transactions.

mod begin;
mod care;
mod group;
mod options;
mod settle;

pub use options::OpenOptions;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use flightline_core::Time;

use crate::clock::{Clock, IdSource};
use crate::crash_points::CrashPoints;
use crate::engine::{Acknowledged, Driver, Durability, postgres, sqlite};
use crate::error::StoreError;
use crate::location::Location;
use crate::loss::Loss;
use crate::mend::Damage;
use crate::table::project::ProjectRow;
use crate::table::{event, project};
use crate::tx::{Trace, Tx};
use crate::write_cache::{DocumentCache, WriteCaches};
use group::{Group, OptimisticGroups};

/// The number of attempts at a write that collides with others.
const ATTEMPTS: u32 = 8;

pub struct Store {
    driver: Box<dyn Driver>,
    location: Location,
    project: String,
    options: OpenOptions,
    repaired: Vec<String>,
    noticed: Vec<Damage>,
    losses: Vec<Loss>,
    /// The last acknowledged revision, as it was kept when this project was entered, before anything was read of it.
    acknowledged: Option<Acknowledged>,
    group: Option<Group>,
    ahead: OptimisticGroups,
    /// The cache of the last written values, where there is one.
    caches: WriteCaches,
    seen: DocumentCache,
}

impl Store {
    /// Opens a store that exists. Refuses one that is not ours, or from a newer version.
    pub fn open(
        location: &Location,
        project: &str,
        options: OpenOptions,
    ) -> Result<Self, StoreError> {
        Self::connect(location, project, options, false)
    }

    /// Creates the store where it is missing, and the project in it. Harmless when both exist. Refuses a store that is not
    /// ours.
    pub fn create(
        location: &Location,
        id: &str,
        name: &str,
        options: OpenOptions,
    ) -> Result<Self, StoreError> {
        let mut store = Self::connect(location, id, options, true)?;
        let (now, history) = (store.writing_time()?, store.options.ids.next().to_string());
        store
            .driver
            .begin_write(Durability::Full, store.options.patience)?;
        let project = ProjectRow {
            timeline: store.driver.timeline(),
            ..ProjectRow::new(id, name, &history, now)
        };
        match project::insert(store.driver.as_mut(), &project) {
            Ok(()) => store.driver.commit()?,
            Err(error) => {
                store.driver.rollback();
                return Err(error);
            }
        }
        // Now the database names the project without its log, so that a lost log is missed. The project is durable
        // either way.
        let _ = store.driver.fold_log(true);
        Ok(store)
    }

    /// Creates the store where it is missing, and no project in it: that one comes whole, with
    /// [`Store::restore_above`]. Refuses a store that is not ours.
    pub fn create_empty(
        location: &Location,
        id: &str,
        options: OpenOptions,
    ) -> Result<Self, StoreError> {
        Self::connect(location, id, options, true)
    }

    fn connect(
        location: &Location,
        project: &str,
        options: OpenOptions,
        create: bool,
    ) -> Result<Self, StoreError> {
        let (mut driver, repaired) = drive(location, &options, create)?;
        // A damaged anchor is the doctor's: it says nothing of the database.
        let acknowledged = driver.acknowledged(project).unwrap_or(None);
        Ok(Self {
            driver,
            location: location.clone(),
            project: project.to_owned(),
            options,
            repaired,
            noticed: Vec::new(),
            losses: Vec::new(),
            acknowledged,
            group: None,
            ahead: OptimisticGroups::default(),
            caches: WriteCaches::default(),
            seen: DocumentCache::default(),
        })
    }

    /// The files whose modes were wrong on opening, and were repaired.
    pub fn repaired(&self) -> &[String] {
        &self.repaired
    }

    /// Takes the values of which transactions found one copy damaged, used the other, and did not report that themselves.
    pub fn take_noticed(&mut self) -> Vec<Damage> {
        std::mem::take(&mut self.noticed)
    }

    /// Takes the losses that transactions found and did not report themselves.
    pub fn take_losses(&mut self) -> Vec<Loss> {
        std::mem::take(&mut self.losses)
    }

    fn notice(&mut self, noticed: Vec<Damage>, losses: Vec<Loss>) {
        for damage in noticed {
            if !self.noticed.contains(&damage) {
                self.noticed.push(damage);
            }
        }
        for loss in losses {
            if !self.losses.contains(&loss) {
                self.losses.push(loss);
            }
        }
    }

    fn losses_of(&self, project: &ProjectRow) -> Vec<Loss> {
        let mut losses = Vec::new();
        if !project.intact {
            losses.push(Loss::Project);
        }
        let last = self.acknowledged.as_ref();
        losses.extend(last.and_then(|last| last.lost_since(project)));
        losses
    }

    /// The last revision that was acknowledged, as far as that is kept.
    pub(crate) fn last_acknowledged(&self) -> u64 {
        self.acknowledged.as_ref().map_or(0, |last| last.rev)
    }

    /// Records the commit as acknowledged, where that is kept.
    pub(crate) fn acknowledge(&mut self, project: &ProjectRow) {
        let last = self.acknowledged.as_ref();
        if last.is_some_and(|last| last.rev == project.rev && last.seal == project.seal) {
            return;
        }
        let last = Acknowledged {
            project: project.id.clone(),
            history: project.history.clone(),
            rev: project.rev,
            seal: project.seal.clone(),
        };
        self.driver.acknowledge(&last);
        self.acknowledged = Some(last);
    }

    /// The name of the engine: `sqlite` or `postgres`.
    pub fn engine(&self) -> &'static str {
        self.driver.name()
    }

    pub fn location(&self) -> &Location {
        &self.location
    }

    pub fn project(&self) -> &str {
        &self.project
    }

    /// Returns true when the connection is gone for good: every further call is refused.
    pub fn is_closed(&self) -> bool {
        self.driver.is_closed()
    }

    /// Works on another project in the same store from now on. A project that does not exist shows at the first call.
    pub fn enter(&mut self, project: &str) {
        if self.project != project {
            project.clone_into(&mut self.project);
            // Damage of the other project is not reported here.
            self.noticed.clear();
            self.losses.clear();
            self.acknowledged = self.driver.acknowledged(project).unwrap_or(None);
        }
    }

    pub fn projects(&mut self) -> Result<Vec<String>, StoreError> {
        project::list(self.driver.as_mut())
    }

    /// The store's own time.
    pub fn now(&mut self) -> Result<Time, StoreError> {
        match &self.options.clock {
            Clock::System => Ok(self
                .driver
                .server_time()?
                .unwrap_or_else(|| Clock::System.now())),
            fixed @ Clock::Fixed(_) => Ok(fixed.now()),
        }
    }

    /// The store's own time, when something may be written under it.
    fn writing_time(&mut self) -> Result<Time, StoreError> {
        match self.now()? {
            now if now.is_plausible() => Ok(now),
            now => Err(StoreError::Clock(now)),
        }
    }

    /// Runs `f` on one snapshot of the store.
    pub fn read<T, E: From<StoreError>>(
        &mut self,
        f: impl FnOnce(&mut Tx<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let (mut f, mut outcome) = (Some(f), None);
        self.look(&mut |tx| outcome = f.take().map(|f| f(tx)))?;
        outcome.unwrap_or_else(|| Err(did_not_run().into()))
    }

    /// Runs `look` on one snapshot of the store. Every read goes through this one function.
    fn look(&mut self, look: &mut dyn FnMut(&mut Tx<'_>)) -> Result<(), StoreError> {
        if self.group.is_some() {
            return self.look_in_group(look);
        }
        self.driver.begin_read()?;
        let looked = self.guarded(|store| {
            let mut tx = store.transaction(TxAccess::Read)?;
            look(&mut tx);
            let (noticed, losses) = (tx.take_noticed(), tx.take_losses());
            store.notice(noticed, losses);
            Ok(())
        });
        self.driver.rollback();
        looked
    }

    /// Runs `f` and commits what it wrote. When this returns `Ok`, what was written is durable and has
    /// been read back; when it returns `Err`, nothing was written, unless the error is
    /// [`StoreError::CommitUnknown`]. `f` may run more than once.
    pub fn write<T, E: From<StoreError> + AsStoreError>(
        &mut self,
        f: impl FnMut(&mut Tx<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.judged(Durability::Full, f)
    }

    /// Runs `f` and keeps its writes, if it succeeds.
    fn judged<T, E: From<StoreError> + AsStoreError>(
        &mut self,
        durability: Durability,
        mut f: impl FnMut(&mut Tx<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut outcome = None;
        self.persist(durability, &mut |tx| {
            let ran = f(tx);
            let verdict = match &ran {
                Ok(_) => Verdict::Keep,
                Err(error) => match error.as_store_error() {
                    Some(StoreError::Collision(_)) => Verdict::Again,
                    _ => Verdict::Drop,
                },
            };
            outcome = Some(ran);
            verdict
        })?;
        outcome.unwrap_or_else(|| Err(did_not_run().into()))
    }

    /// Runs `work` and keeps its writes; runs it again when it collided with another write. Every write goes through this
    /// one function.
    fn persist(&mut self, durability: Durability, work: &mut Work<'_>) -> Result<(), StoreError> {
        if self.options.rehearse && durability == Durability::Full {
            // A refusal shows in the real run; a rehearsal only has to leave no trace.
            let _ = self.attempt(durability, Ending::RollBack, work);
        }
        for _ in 1..ATTEMPTS {
            match self.attempt(durability, Ending::Commit, work) {
                Ok(Verdict::Again) | Err(StoreError::Collision(_)) => {}
                done => return done.map(drop),
            }
        }
        self.attempt(durability, Ending::Commit, work).map(drop)
    }

    /// Runs `f` and drops its writes: shows what a write would do.
    pub fn rehearse<T, E: From<StoreError>>(
        &mut self,
        mut f: impl FnMut(&mut Tx<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut outcome = None;
        self.attempt(Durability::Full, Ending::RollBack, &mut |tx| {
            let ran = f(tx);
            let verdict = match ran {
                Ok(_) => Verdict::Keep,
                Err(_) => Verdict::Drop,
            };
            outcome = Some(ran);
            verdict
        })?;
        outcome.unwrap_or_else(|| Err(did_not_run().into()))
    }

    /// Runs `f`, which notes signs of life and nothing else. Its writes survive every process, but a power cut may take
    /// them.
    pub fn pulse<T, E: From<StoreError> + AsStoreError>(
        &mut self,
        f: impl FnMut(&mut Tx<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.judged(Durability::Pulse, f)
    }

    /// Runs `work` once. Its writes are kept when that is its verdict and the ending is a commit. An error means that the
    /// store failed, and nothing was written, unless it is [`StoreError::CommitUnknown`].
    fn attempt(
        &mut self,
        durability: Durability,
        ending: Ending,
        work: &mut Work<'_>,
    ) -> Result<Verdict, StoreError> {
        if self.group.is_some() {
            return self.attempt_in_group(ending, work);
        }
        self.check_trust()?;
        self.driver.begin_write(durability, self.options.patience)?;
        let ran = self.guarded(|store| store.run(durability, work));
        match (ran, ending) {
            (Ok((Verdict::Keep, written)), Ending::Commit) => {
                let committed = self.commit(durability, &written.trace);
                if durability == Durability::Full {
                    self.remember(committed.is_ok(), &written.project);
                }
                committed.map(|()| Verdict::Keep)
            }
            (ran, _) => {
                self.roll_back();
                ran.map(|(verdict, _)| verdict)
            }
        }
    }

    /// Refuses to write to a store that is not trusted, or to take its word for anything.
    pub fn check_trust(&self) -> Result<(), StoreError> {
        match self.options.trusted {
            true => Ok(()),
            false => Err(StoreError::Untrusted),
        }
    }

    /// Commits, settles a commit that is in doubt, and reads it back.
    fn commit(&mut self, durability: Durability, trace: &Trace) -> Result<(), StoreError> {
        match self.driver.commit() {
            Err(StoreError::CommitUnknown(cause))
                if durability == Durability::Full && self.can_settle() =>
            {
                self.settle(trace, &cause)
            }
            committed => {
                committed?;
                self.read_back(trace)
            }
        }
    }

    /// Brings the write cache to the state of the last commit, or forgets it.
    fn remember(&mut self, committed: bool, project: &ProjectRow) {
        if committed && project.rev > 0 {
            self.acknowledge(project);
        }
        if !committed {
            self.caches.forget();
        } else if let Some(cache) = self.caches.of(&project.id) {
            cache.stands_at(project);
        }
    }

    fn roll_back(&mut self) {
        self.driver.rollback();
        if let Some(cache) = self.caches.of(&self.project) {
            cache.go_back(0);
        }
    }

    /// Runs `f`. Should it panic, the transaction is rolled back before the panic goes on: the connection is usable
    /// afterwards and blocks no other.
    fn guarded<T>(&mut self, f: impl FnOnce(&mut Self) -> T) -> T {
        match catch_unwind(AssertUnwindSafe(|| f(self))) {
            Ok(result) => result,
            Err(panic) => {
                match self.group {
                    Some(_) => self.drop_member(),
                    None => self.roll_back(),
                }
                resume_unwind(panic)
            }
        }
    }

    fn run(
        &mut self,
        durability: Durability,
        work: &mut Work<'_>,
    ) -> Result<(Verdict, Written), StoreError> {
        let mut tx = self.transaction(match durability {
            Durability::Full => TxAccess::Write,
            Durability::Pulse => TxAccess::Pulse,
        })?;
        let verdict = work(&mut tx);
        let (noticed, losses) = (tx.take_noticed(), tx.take_losses());
        let (trace, project) = (tx.trace, tx.project);
        self.notice(noticed, losses);
        if verdict == Verdict::Keep && durability == Durability::Full {
            project::advance(self.driver.as_mut(), &project)?;
        }
        Ok((verdict, Written { trace, project }))
    }

    /// Reads back the events of a commit, before the caller is told.
    fn read_back(&mut self, trace: &Trace) -> Result<(), StoreError> {
        for (first, last) in trace.spans() {
            let found = event::between(self.driver.as_mut(), &self.project, first, last)
                // The commit was made: whatever keeps us from seeing it, the caller must not take it for undone.
                .map_err(|error| StoreError::CommitUnknown(error.to_string()))?;
            if found != last - first + 1 {
                let problem = "the written data cannot be read back";
                return Err(StoreError::Corrupt(problem.to_owned()));
            }
        }
        Ok(())
    }

    /// In test builds, the numbered moments at which this process may end, for files written beside the store.
    pub fn steps(&self) -> CrashPoints {
        self.options.steps.clone()
    }

    /// For tests: takes the time and new ids from these sources from now on.
    pub fn use_clock_and_ids(&mut self, clock: Clock, ids: IdSource) {
        self.options.clock = clock;
        self.options.ids = ids;
    }

    pub(crate) fn patience(&self) -> Duration {
        self.options.patience
    }

    pub(crate) fn driver(&mut self) -> &mut dyn Driver {
        self.driver.as_mut()
    }

    pub fn prepare(&mut self, sql: &'static str) -> Result<(), StoreError> {
        self.driver.prepare(sql)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TxAccess {
    Read,
    Pulse,
    Write,
}

#[derive(Clone, Copy, Debug)]
enum Ending {
    Commit,
    RollBack,
}

/// The body of a transaction. It may run more than once.
type Work<'a> = dyn FnMut(&mut Tx<'_>) -> Verdict + 'a;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Keep,
    Drop,
    /// The transaction is rolled back, and tried again: it collided with another.
    Again,
}

struct Written {
    trace: Trace,
    project: ProjectRow,
}

/// The error for a transaction whose body did not run.
fn did_not_run() -> StoreError {
    StoreError::Unreachable("the transaction did not run".to_owned())
}

/// Opens a further connection to the store, and returns the repairs made on the way.
fn drive(
    location: &Location,
    options: &OpenOptions,
    create: bool,
) -> Result<(Box<dyn Driver>, Vec<String>), StoreError> {
    match location {
        Location::Folder(folder) => {
            let (driver, repaired) = sqlite::open(
                folder,
                create,
                sqlite::Options {
                    purpose: options.purpose.clone(),
                    steps: options.steps.clone(),
                    max_pages: options.max_pages,
                    look_only: !options.trusted,
                    keep_old: options.keep_old,
                    keeps_log: options.keeps_log,
                },
            )?;
            Ok((Box::new(driver), repaired))
        }
        Location::Postgres(url) => {
            let driver = postgres::open(url, create, options.patience, options.steps.clone())?;
            Ok((Box::new(driver), Vec::new()))
        }
    }
}

/// An error that may be the store's: a write runs again when it is a collision.
pub trait AsStoreError {
    fn as_store_error(&self) -> Option<&StoreError>;
}

impl AsStoreError for StoreError {
    fn as_store_error(&self) -> Option<&StoreError> {
        Some(self)
    }
}
