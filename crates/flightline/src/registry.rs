//! The registry of operations: every operation by its name, from JSON to JSON.
//!
//! HTTP, MCP, hooks at a server and `fleet call` are doors to it. A door finds an operation with [`find`], or
//! runs it with [`call`]; what the operation does to the store ([`Entry::access`]), the narrowest token that may
//! ask for it over a network ([`Entry::scope`]), how large its request may be ([`Entry::largest`]), and the JSON
//! schemas of its request and outcome are told here, once for all doors. No door holds a rule of its own.

pub mod misfit;

use std::collections::BTreeMap;
use std::path::Path;

use flightline_core::token::Scope;
use flightline_core::{Code, Refusal};
#[cfg(feature = "schema")]
use schemars::{Schema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::checkpoint::serve::{self, ReadsCheckpoints};
use crate::desk::Desk;
use crate::remote::{Deferred, Offline};
use crate::{Access, Answered, Caller, Done, Errand, Fleet, Operation, Outcome, When};
use crate::{
    agent, checkpoint, clock, context, dialect, effect, errand, event, figures, hook, ids, late,
    lease, lock, mail, mission, note, recovery, replay, report, sortie, stats, status, task, token,
};

const MIB: usize = 1024 * 1024;
/// The largest request over a network, in bytes.
pub const LARGEST: usize = MIB;
/// The largest request where whole documents are taken in: as large as one may be in a file.
pub const LARGEST_DOCUMENT: usize = 64 * MIB;

/// Whether a write may share its commit with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Company {
    /// It may: it is short.
    Welcome,
    /// It takes long, or is more than one transaction.
    Alone,
}

type Reader = fn(&str) -> Result<Box<dyn Request>, Refusal>;
type Decider = fn(&str, &mut Desk<'_, '_>) -> crate::Result<Value>;

/// How something is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// The caller of the operation.
    pub caller: &'a Caller,
    /// The state folder beside the store.
    pub folder: &'a Path,
    /// Whether it is only to be shown what it would do.
    pub rehearse: bool,
}

/// A request that was read and cleaned, without its type. It can be run on another thread than the one that read it, and more
/// than once.
pub trait Request: Send {
    /// Runs the request.
    fn run(&self, fleet: &mut Fleet, ask: &Ask<'_>) -> Ran;
}

/// The result of a request that was run. Nothing of it is JSON yet.
pub struct Ran {
    /// The outcome, or why it was refused.
    pub outcome: Result<Answered<Box<dyn Outcome>>, Refusal>,
    /// Warnings, whether or not it succeeded.
    pub warnings: Vec<String>,
}

impl From<crate::Result<Answered<Box<dyn Outcome>>>> for Ran {
    fn from(outcome: crate::Result<Answered<Box<dyn Outcome>>>) -> Self {
        Self {
            outcome: outcome.map_err(crate::Error::into_refusal),
            warnings: Vec::new(),
        }
    }
}

/// The result of a request, as JSON.
#[derive(Debug)]
pub struct Called {
    /// The outcome as JSON text: most callers send it on as it is.
    pub outcome: Result<Spoken, Refusal>,
    /// Warnings, whether or not it succeeded.
    pub warnings: Vec<String>,
}

impl From<Ran> for Called {
    fn from(ran: Ran) -> Self {
        Self {
            outcome: ran.outcome.and_then(|answered| match answered {
                Answered::Now(done) => done.outcome.text().map(Spoken::Outcome),
                Answered::Later(later) => Ok(Spoken::Later(later)),
            }),
            warnings: ran.warnings,
        }
    }
}

impl From<Result<Box<RawValue>, Refusal>> for Called {
    fn from(outcome: Result<Box<RawValue>, Refusal>) -> Self {
        Self {
            outcome: outcome.map(Spoken::Outcome),
            warnings: Vec::new(),
        }
    }
}

/// What a door says of a request that was not refused.
#[derive(Debug)]
pub enum Spoken {
    /// Its outcome.
    Outcome(Box<RawValue>),
    /// It was not done yet, and nothing failed.
    Later(Deferred),
}

impl Spoken {
    /// The outcome; refuses where there is none yet.
    ///
    /// # Errors
    /// When it was not done yet.
    pub fn now(self) -> Result<Box<RawValue>, Refusal> {
        match self {
            Self::Outcome(outcome) => Ok(outcome),
            Self::Later(later) => Err(Refusal::new(Code::Unavailable, later.message)),
        }
    }
}

/// Reads an outcome to look into it.
///
/// # Errors
/// When its text is no JSON.
pub fn value_of(outcome: &RawValue) -> Result<Value, Refusal> {
    serde_json::from_str(outcome.get())
        .map_err(|error| Refusal::new(Code::Failed, format!("cannot read the outcome: {error}")))
}

/// An operation, as doors know it.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The operation's name on the wire.
    pub name: &'static str,
    /// What it does to the store.
    pub access: Access,
    /// The narrowest token that may ask for it over a network.
    pub scope: Scope,
    /// Whether it may share a commit with others.
    pub company: Company,
    /// The schema of its request.
    #[cfg(feature = "schema")]
    pub request: fn(&mut SchemaGenerator) -> Schema,
    /// The schema of its outcome.
    #[cfg(feature = "schema")]
    pub outcome: fn(&mut SchemaGenerator) -> Schema,
    /// The largest request over a network.
    pub largest: usize,
    /// What becomes of it when the store cannot be reached.
    offline: Offline,
    reader: Reader,
    /// Decides it as a part of a batch, where it can be one.
    part: Option<Decider>,
}

impl Entry {
    /// Reads a request for it, and cleans every text in it: the only time that its JSON is read.
    ///
    /// # Errors
    /// When it is not JSON, or does not fit.
    pub fn read(&self, request: &str) -> Result<Box<dyn Request>, Refusal> {
        (self.reader)(request)
    }

    /// Runs it, from JSON to JSON.
    pub fn run(&self, fleet: &mut Fleet, request: &str, ask: &Ask<'_>) -> Called {
        match self.read(request) {
            Ok(request) => request.run(fleet, ask).into(),
            Err(refusal) => Err(refusal).into(),
        }
    }
}

/// An operation that stands in the registry. The code that runs it is compiled in this crate, once: a generic function would
/// be compiled anew in every crate that runs operations.
pub trait Registered: Operation {
    /// Runs it. See [`Fleet::run`].
    ///
    /// # Errors
    /// When it will not be done, the caller is fenced, or the store fails.
    fn run_in(
        &self,
        fleet: &mut Fleet,
        caller: &Caller,
        when: When,
    ) -> crate::Result<Answered<Self::Outcome>>;

    /// Runs or rehearses it for a door that wants the text of its outcome.
    ///
    /// # Errors
    /// As [`Registered::run_in`].
    fn run_for_door(
        &self,
        fleet: &mut Fleet,
        ask: &Ask<'_>,
    ) -> crate::Result<Answered<Box<dyn Outcome>>>;

    /// Shows what it would do. See [`Fleet::rehearse`].
    fn rehearse_in(&self, fleet: &mut Fleet, caller: &Caller) -> crate::Result<Self::Outcome>;
}

/// Puts operations into the registry, each by what it is to its neighbours, and compiles what runs them.
macro_rules! register {
    (operations { $($how:ident $operation:ty),* $(,)? } errands { $($errand:ty),* $(,)? }) => {
        // Not a constant: every crate that names one has a copy of everything in it.
        static OPERATIONS: &[Entry] = &[$($how::<$operation>(),)* $(upkeep::<$errand>(),)*];

        $(impl Registered for $operation {
            #[inline(never)]
            fn run_in(
                &self,
                fleet: &mut Fleet,
                caller: &Caller,
                when: When,
            ) -> crate::Result<Answered<Self::Outcome>> {
                fleet.act_out(self, caller, when)
            }

            #[inline(never)]
            fn run_for_door(
                &self,
                fleet: &mut Fleet,
                ask: &Ask<'_>,
            ) -> crate::Result<Answered<Box<dyn Outcome>>> {
                fleet.act_for_door(self, ask.caller, ask.rehearse)
            }

            #[inline(never)]
            fn rehearse_in(&self, fleet: &mut Fleet, caller: &Caller) -> crate::Result<Self::Outcome> {
                fleet.show_acted(self, caller)
            }
        })*
    };
}

register! {
    operations {
        batch crate::batch::RunBatch,
        entry mission::CreateMission,
        entry mission::ListMissions,
        entry mission::ShowMission,
        entry mission::ChangeMission,
        entry mission::TransitionMission,
        entry mission::UseMission,
        entry mission::update::UpdateMission,
        entry sortie::add::AddSorties,
        entry sortie::ListSorties,
        entry sortie::ShowSortie,
        entry sortie::claim::ClaimSortie,
        entry sortie::claim::ClaimNext,
        entry sortie::change::ChangeSortie,
        entry sortie::edit::EditSortie,
        entry sortie::edit::MoveSortie,
        entry sortie::queue::ListQueue,
        entry sortie::report::UpdateSortie,
        entry sortie::report::ReportError,
        entry sortie::report::ClearErrors,
        entry sortie::report::AddReview,
        entry agent::RegisterAgent,
        entry agent::ListAgents,
        entry agent::ListProcesses,
        entry agent::ShowAgent,
        entry agent::UpdateAgent,
        entry agent::RetireAgent,
        entry agent::Heartbeat,
        entry hook::TellHook,
        entry lease::SettleLeases,
        entry lock::AcquireLocks,
        entry lock::RenewLocks,
        entry lock::ReleaseLocks,
        entry lock::StealLock,
        entry lock::held::StealHeldLock,
        entry lock::ListLocks,
        entry lock::CheckLocks,
        entry context::peek::PeekBriefing,
        entry mail::SendMail,
        entry mail::ReplyMail,
        entry mail::OpenInbox,
        entry mail::PeekInbox,
        entry mail::ReadMail,
        entry mail::AcknowledgeMail,
        entry mail::ShowThread,
        entry mail::list::ListMessages,
        entry mail::RequeueMail,
        entry mail::relay::RelayEvents,
        entry note::AddNote,
        entry note::ListNotes,
        entry note::end::EndNote,
        entry note::end::ReplaceNote,
        entry late::RecordLate,
        entry effect::BeginEffect,
        entry effect::FinishEffect,
        entry effect::ListEffects,
        entry event::ListEvents,
        entry ids::ListIds,
        entry ids::ListNames,
        entry ids::ShortenIds,
        entry clock::TellTime,
        entry clock::NameHistory,
        entry status::ShowStatus,
        entry stats::ShowStats,
        entry figures::ReadFigures,
        entry checkpoint::take::TakeCheckpoint,
        entry checkpoint::trigger::RecordFailure,
        entry checkpoint::destructive::BeforeDestructive,
        entry checkpoint::inspect::ListCheckpoints,
        helped checkpoint::inspect::ShowCheckpoint,
        helped checkpoint::inspect::VerifyCheckpoints,
        entry checkpoint::inspect::MarkCheckpoint,
        helped checkpoint::inspect::DiffCheckpoints,
        entry checkpoint::prune::PlanPrune,
        alone checkpoint::prune::ApplyPrune,
        alone checkpoint::prune::PruneCheckpoints,
        entry checkpoint::due::DueCheckpoints,
        entry checkpoint::thin::PlanThinning,
        alone checkpoint::thin::ThinJournal,
        entry checkpoint::thin::RecordThinning,
        large_alone checkpoint::import::ImportCheckpoint,
        entry checkpoint::backups::UnsettledBackups,
        entry checkpoint::backups::RecordBackups,
        entry checkpoint::files::WholeCheckpoint,
        entry checkpoint::inspect::VerifyCheckpoint,
        entry checkpoint::mend::ExamineCheckpoints,
        large_alone checkpoint::mend::MendCheckpoint,
        alone recovery::detect::Detect,
        entry recovery::detect::PeekCandidates,
        entry recovery::points::ListRecoveryPoints,
        helped recovery::resume::Resume,
        helped recovery::undo::Undo,
        alone recovery::past::UndoRecovery,
        entry recovery::past::ListRecoveries,
        entry recovery::compaction::ReportCompaction,
        entry context::BriefAgent,
        entry context::past::BriefCheckpoint,
        entry context::DeliverBriefing,
        entry context::AcknowledgeBriefing,
        large_alone dialect::ImportDocuments,
        entry dialect::ExportDocuments,
        large dialect::aside::TellPutAside,
        alone agent::monitor::MonitorAgents,
        entry agent::resume::ResumeAgent,
        entry agent::takeover::TakeOver,
        entry agent::takeover::ShowHandoff,
        entry agent::restart::RestartAgent,
        entry agent::context::EndSession,
        entry agent::context::FullSync,
        entry report::ShowReport,
        entry task::ShowTask,
        entry task::ShowTaskTable,
        entry checkpoint::tree::RecordFiles,
        entry recovery::claims::ListClaims,
        entry replay::Replay,
        entry replay::state::ShowState,
        alone recovery::delta::ApplyDeltas,
        entry token::CreateToken,
        entry token::ListTokens,
        entry token::RevokeToken,
        entry token::CheckToken,
    }
    errands {
        errand::SettleBackups,
        errand::CompareFiles,
        errand::AfterWrite,
        errand::ClearFiles,
        errand::GiveBack,
        errand::MendFromFiles,
    }
}

/// Every operation there is.
#[must_use]
pub fn operations() -> &'static [Entry] {
    OPERATIONS
}

/// The names of all operations.
#[must_use]
pub fn operation_names() -> Vec<&'static str> {
    OPERATIONS.iter().map(|entry| entry.name).collect()
}

/// Every operation, and the narrowest token that may ask for it.
#[must_use]
pub fn scopes() -> BTreeMap<&'static str, &'static str> {
    let scopes = OPERATIONS.iter();
    scopes
        .map(|entry| (entry.name, entry.scope.as_str()))
        .collect()
}

/// Whether an operation may have been queued on another machine until the server could be reached.
#[must_use]
pub fn may_wait(name: &str) -> bool {
    find(name).is_ok_and(|entry| entry.offline == Offline::Kept)
}

/// Runs the operation `name` on a request in JSON, and gives its outcome as JSON.
pub fn call(fleet: &mut Fleet, name: &str, request: &str, ask: &Ask<'_>) -> Called {
    match find(name) {
        Ok(entry) => entry.run(fleet, request, ask),
        Err(refusal) => Err(refusal).into(),
    }
}

/// The operation of this name.
///
/// # Errors
///
/// When there is no operation of this name.
pub fn find(name: &str) -> Result<Entry, Refusal> {
    let found = OPERATIONS.iter().find(|known| known.name == name);
    found.copied().ok_or_else(|| {
        Refusal::new(
            Code::NotFound,
            format!(
                "there is no operation `{}`",
                flightline_core::redact::shown(name)
            ),
        )
        .hint("list them with `fleet call`")
    })
}

const fn entry<O: Registered>() -> Entry {
    Entry {
        name: O::NAME,
        access: O::ACCESS,
        scope: O::SCOPE,
        company: Company::Welcome,
        #[cfg(feature = "schema")]
        request: O::json_schema,
        #[cfg(feature = "schema")]
        outcome: |schemas| schemas.subschema_for::<O::Outcome>(),
        largest: LARGEST,
        offline: O::OFFLINE,
        reader: read_request::<O>,
        part: Some(decide::<O>),
    }
}

/// It takes long, or much of the store.
const fn alone<O: Registered>() -> Entry {
    Entry {
        company: Company::Alone,
        part: None,
        ..entry::<O>()
    }
}

/// It takes in whole documents.
const fn large<O: Registered>() -> Entry {
    Entry {
        largest: LARGEST_DOCUMENT,
        ..entry::<O>()
    }
}

/// It takes in whole documents, and long.
const fn large_alone<O: Registered>() -> Entry {
    Entry {
        company: Company::Alone,
        part: None,
        ..large::<O>()
    }
}

/// With the help of checkpoints' files, where the store is damaged.
const fn helped<O: ReadsCheckpoints>() -> Entry {
    Entry {
        company: Company::Alone,
        reader: read_helped::<O>,
        part: None,
        ..entry::<O>()
    }
}

/// An errand: work with the files beside the store.
const fn upkeep<E: Errand>() -> Entry {
    Entry {
        name: E::NAME,
        access: E::ACCESS,
        scope: E::SCOPE,
        company: Company::Alone,
        // Only ends of ours ask for one.
        #[cfg(feature = "schema")]
        request: |_| Schema::default(),
        #[cfg(feature = "schema")]
        outcome: |_| Schema::default(),
        largest: LARGEST,
        offline: Offline::Refused,
        reader: read_errand::<E>,
        part: None,
    }
}

/// An operation that runs others.
const fn batch<O: Registered>() -> Entry {
    Entry {
        part: None,
        ..entry::<O>()
    }
}

/// Decides an operation as a part of a batch, in its transaction.
pub(crate) fn decide_part(
    name: &str,
    request: &str,
    desk: &mut Desk<'_, '_>,
) -> crate::Result<Value> {
    let entry = find(name)?;
    let Some(decide) = entry.part else {
        return Err(Refusal::invalid("it cannot be part of a batch")
            .hint("run it alone")
            .into());
    };
    decide(request, desk)
}

fn decide<O: Registered>(request: &str, desk: &mut Desk<'_, '_>) -> crate::Result<Value> {
    let operation: O = misfit::read("its request", request)?;
    let outcome = crate::fleet::decide_part(&operation, desk)?;
    Ok(value_of(&erase(outcome).text()?)?)
}

/// A request for an operation.
struct Plain<O>(O);

fn read_request<O: Registered>(request: &str) -> Result<Box<dyn Request>, Refusal> {
    Ok(Box::new(Plain(read::<O>(O::NAME, request)?)))
}

impl<O: Registered> Request for Plain<O> {
    fn run(&self, fleet: &mut Fleet, ask: &Ask<'_>) -> Ran {
        self.0.run_for_door(fleet, ask).into()
    }
}

/// A request for an operation that reads checkpoints.
struct Helped<O>(O);

fn read_helped<O: ReadsCheckpoints>(request: &str) -> Result<Box<dyn Request>, Refusal> {
    Ok(Box::new(Helped(read::<O>(O::NAME, request)?)))
}

impl<O: ReadsCheckpoints> Request for Helped<O> {
    fn run(&self, fleet: &mut Fleet, ask: &Ask<'_>) -> Ran {
        let run = match ask.rehearse {
            true => serve::rehearse::<O>,
            false => serve::serve::<O>,
        };
        let served = run(fleet, ask.folder, ask.caller, &self.0);
        let done = served.done.map(|done| Answered::Now(done.map(erase)));
        Ran {
            warnings: served.warnings,
            ..done.into()
        }
    }
}

/// A request for work with the files beside the store.
struct Beside<E>(E);

fn read_errand<E: Errand>(request: &str) -> Result<Box<dyn Request>, Refusal> {
    Ok(Box::new(Beside(read::<E>(E::NAME, request)?)))
}

impl<E: Errand> Request for Beside<E> {
    fn run(&self, fleet: &mut Fleet, ask: &Ask<'_>) -> Ran {
        if ask.rehearse {
            let message = format!("`{}` cannot be rehearsed", E::NAME);
            return Err(Refusal::invalid(message).into()).into();
        }
        let sent = fleet.send(&self.0, ask.folder, ask.caller);
        sent.map(|outcome| Answered::Now(Done::plain(erase(outcome))))
            .into()
    }
}

fn erase<T: Serialize + Send + 'static>(outcome: T) -> Box<dyn Outcome> {
    Box::new(outcome)
}

fn read<T: DeserializeOwned>(name: &str, request: &str) -> Result<T, Refusal> {
    misfit::read(&format!("the request for `{name}`"), request)
}
