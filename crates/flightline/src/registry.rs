//! The registry of operations: every operation that a front end can ask for by its name, from JSON to JSON.
//!
//! HTTP, MCP, hooks at a server and `fleet call` are its front ends. They find an operation with [`find`];
//! what the operation does to the store ([`OperationEntry::access`]), the narrowest token that may
//! ask for it over a network ([`OperationEntry::scope`]), how large its request may be ([`OperationEntry::largest`]), and the JSON
//! schemas of its request and outcome are told here, once for all front ends. No front end has a rule of its own.

pub mod misfit;

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
use crate::op_context::OpContext;
use crate::remote::{Deferred, Offline};
use crate::{Access, Answered, Caller, Done, ErasedOutcome, Fleet, Operation, StoreJob, When};
use crate::{
    agent, checkpoint, clock, context, dialect, effect, event, hook, ids, lease, lock, mail,
    metrics_snapshot, mission, note, recovery, rejected_delivery, replay, report, sortie, stats,
    status, store_job, task, token,
};

const MIB: usize = 1024 * 1024;
/// The largest request over a network, in bytes.
pub const LARGEST: usize = MIB;
/// The largest request where whole documents are taken in: as large as one may be in a file.
pub const LARGEST_DOCUMENT: usize = 64 * MIB;

/// The choice of whether a write shares its commit with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commit {
    /// The write may share a commit: it is short.
    Grouped,
    /// The write takes long, or is more than one transaction.
    Own,
}

type Reader = fn(&str) -> Result<Box<dyn ErasedRequest>, Refusal>;
type PartReader = fn(&str) -> Result<Box<dyn ErasedPart>, Refusal>;

#[derive(Clone, Copy, Debug)]
pub struct CallContext<'a> {
    pub caller: &'a Caller,
    /// The state folder beside the store.
    pub folder: &'a Path,
    pub rehearse: bool,
}

/// A request that was read and cleaned, without its type. It can be run on another thread than the one that read it, and more
/// than once.
pub trait ErasedRequest: Send {
    fn run(&self, fleet: &mut Fleet, ask: &CallContext<'_>) -> RunResult;
}

/// The result of a request that was run. Nothing of it is JSON yet.
pub struct RunResult {
    pub outcome: Result<Answered<Box<dyn ErasedOutcome>>, Refusal>,
    /// Warnings, whether or not it succeeded.
    pub warnings: Vec<String>,
}

impl From<crate::Result<Answered<Box<dyn ErasedOutcome>>>> for RunResult {
    fn from(outcome: crate::Result<Answered<Box<dyn ErasedOutcome>>>) -> Self {
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

impl From<RunResult> for Called {
    fn from(ran: RunResult) -> Self {
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

/// The answer to a request that was not refused.
#[derive(Debug)]
pub enum Spoken {
    Outcome(Box<RawValue>),
    /// The request was not carried out yet, and nothing failed.
    Later(Deferred),
}

impl Spoken {
    /// The outcome; refuses where there is none yet.
    pub fn now(self) -> Result<Box<RawValue>, Refusal> {
        match self {
            Self::Outcome(outcome) => Ok(outcome),
            Self::Later(later) => Err(Refusal::new(Code::Unavailable, later.message)),
        }
    }
}

pub fn value_of(outcome: &RawValue) -> Result<Value, Refusal> {
    serde_json::from_str(outcome.get())
        .map_err(|error| Refusal::new(Code::Failed, format!("cannot read the outcome: {error}")))
}

/// An operation, as the front ends see it.
#[derive(Clone, Copy, Debug)]
pub struct OperationEntry {
    pub name: &'static str,
    pub access: Access,
    /// The narrowest token that may ask for it over a network.
    pub scope: Scope,
    pub commit: Commit,
    /// True when only `fleet` itself asks a server for it: lists and descriptions leave it out.
    pub internal: bool,
    #[cfg(feature = "schema")]
    pub request: fn(&mut SchemaGenerator) -> Schema,
    #[cfg(feature = "schema")]
    pub outcome: fn(&mut SchemaGenerator) -> Schema,
    pub largest: usize,
    /// The behaviour when the store cannot be reached.
    offline: Offline,
    reader: Reader,
    /// Reads it as a part of a batch, where it can be one.
    part: Option<PartReader>,
}

impl OperationEntry {
    /// Reads a request for it, and cleans every text in it: the only time that its JSON is read.
    pub fn read(&self, request: &str) -> Result<Box<dyn ErasedRequest>, Refusal> {
        (self.reader)(request)
    }

    pub fn run(&self, fleet: &mut Fleet, request: &str, ask: &CallContext<'_>) -> Called {
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
    fn run_in(
        &self,
        fleet: &mut Fleet,
        caller: &Caller,
        when: When,
    ) -> crate::Result<Answered<Self::Outcome>>;

    /// Runs or rehearses it for a front end that needs only the text of its outcome.
    fn run_erased(
        &self,
        fleet: &mut Fleet,
        ask: &CallContext<'_>,
    ) -> crate::Result<Answered<Box<dyn ErasedOutcome>>>;

    /// Shows the effect of the operation. See [`Fleet::rehearse`].
    fn rehearse_in(&self, fleet: &mut Fleet, caller: &Caller) -> crate::Result<Self::Outcome>;
}

/// Puts operations into the registry, and compiles the code that runs them. `operations` are for all front ends,
/// `internal` ones for `fleet` alone. `steps` are compiled, and stand in no registry.
macro_rules! register {
    (
        operations { $($how:ident $operation:ty),* $(,)? }
        internal { $($inner:ident $own:ty),* $(,)? }
        steps { $($step:ty),* $(,)? }
        store_jobs { $($job:ty),* $(,)? }
    ) => {
        // Not a constant: every crate that names one has a copy of everything in it.
        static OPERATIONS: &[OperationEntry] = &[
            $($how::<$operation>(),)*
            $(internal($inner::<$own>()),)*
            $(upkeep::<$job>(),)*
        ];
        register!($($operation,)* $($own,)* $($step,)*);
    };
    ($($operation:ty,)*) => {
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
            fn run_erased(
                &self,
                fleet: &mut Fleet,
                ask: &CallContext<'_>,
            ) -> crate::Result<Answered<Box<dyn ErasedOutcome>>> {
                fleet.act_erased(self, ask.caller, ask.rehearse)
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
        entry note::AddNote,
        entry note::ListNotes,
        entry note::end::EndNote,
        entry note::end::ReplaceNote,
        entry rejected_delivery::RecordRejected,
        entry effect::BeginEffect,
        entry effect::FinishEffect,
        entry effect::ListEffects,
        entry event::ListEvents,
        entry ids::ListIds,
        entry ids::ListNames,
        entry ids::ShortenIds,
        entry clock::TellTime,
        entry status::ShowStatus,
        entry stats::ShowStats,
        entry metrics_snapshot::ReadMetricsSnapshot,
        entry checkpoint::take::TakeCheckpoint,
        entry checkpoint::trigger::RecordFailure,
        entry checkpoint::destructive::BeforeDestructive,
        entry checkpoint::inspect::ListCheckpoints,
        with_file_repair checkpoint::inspect::ShowCheckpoint,
        with_file_repair checkpoint::inspect::VerifyCheckpoints,
        entry checkpoint::inspect::MarkCheckpoint,
        with_file_repair checkpoint::inspect::DiffCheckpoints,
        entry checkpoint::prune::PlanPrune,
        alone checkpoint::prune::PruneCheckpoints,
        large_alone checkpoint::import::ImportCheckpoint,
        entry checkpoint::files::WholeCheckpoint,
        alone recovery::detect::Detect,
        entry recovery::detect::PeekCandidates,
        entry recovery::points::ListRecoveryPoints,
        with_file_repair recovery::resume::Resume,
        with_file_repair recovery::undo::Undo,
        alone recovery::past::UndoRecovery,
        entry recovery::past::ListRecoveries,
        entry recovery::compaction::ReportCompaction,
        entry context::BriefAgent,
        entry context::past::BriefCheckpoint,
        entry context::DeliverBriefing,
        entry context::AcknowledgeBriefing,
        large_alone dialect::ImportDocuments,
        entry dialect::ExportDocuments,
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
        entry recovery::claims::ListClaims,
        entry replay::Replay,
        entry replay::state::ShowState,
        alone recovery::delta::ApplyDeltas,
        entry token::CreateToken,
        entry token::ListTokens,
        entry token::RevokeToken,
    }
    // Only `fleet` itself asks a server for these.
    internal {
        entry agent::ListProcesses,
        entry clock::NameHistory,
        alone checkpoint::prune::ApplyPrune,
        entry checkpoint::thin::PlanThinning,
        alone checkpoint::thin::ThinJournal,
        entry checkpoint::thin::RecordThinning,
        large dialect::aside::TellPutAside,
    }
    // Flightline takes these steps where the store is: none of them travels.
    steps {
        checkpoint::due::DueCheckpoints,
        checkpoint::backups::UnsettledBackups,
        checkpoint::backups::RecordBackups,
        checkpoint::inspect::VerifyCheckpoint,
        checkpoint::mend::ExamineCheckpoints,
        checkpoint::mend::MendCheckpoint,
        checkpoint::tree::RecordFiles,
        mail::relay::RelayEvents,
        token::CheckToken,
    }
    store_jobs {
        store_job::SettleBackups,
        store_job::CompareFiles,
        store_job::AfterWrite,
        store_job::ClearFiles,
        store_job::GiveBack,
        store_job::MendFromFiles,
    }
}

/// Every operation that a server knows, internal ones included.
pub fn operations() -> &'static [OperationEntry] {
    OPERATIONS
}

/// The operations that callers are told of.
pub fn public_operations() -> impl Iterator<Item = &'static OperationEntry> {
    OPERATIONS.iter().filter(|entry| !entry.internal)
}

/// Returns true when an operation may have been queued on another machine until the server could be reached.
pub fn may_wait(name: &str) -> bool {
    find(name).is_ok_and(|entry| entry.offline == Offline::Kept)
}

pub fn find(name: &str) -> Result<OperationEntry, Refusal> {
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

const fn entry<O: Registered>() -> OperationEntry {
    OperationEntry {
        name: O::NAME,
        access: O::ACCESS,
        scope: O::SCOPE,
        commit: Commit::Grouped,
        internal: false,
        #[cfg(feature = "schema")]
        request: O::json_schema,
        #[cfg(feature = "schema")]
        outcome: |schemas| schemas.subschema_for::<O::Outcome>(),
        largest: LARGEST,
        offline: O::OFFLINE,
        reader: |text| Ok(Box::new(Plain(read::<O>(O::NAME, text)?))),
        part: Some(|text| Ok(Box::new(Plain(misfit::read::<O>("its request", text)?)))),
    }
}

/// Returns this entry as one that only `fleet` itself asks for.
const fn internal(entry: OperationEntry) -> OperationEntry {
    OperationEntry {
        internal: true,
        ..entry
    }
}

/// Returns the entry of an operation that takes long, or reads much of the store.
const fn alone<O: Registered>() -> OperationEntry {
    OperationEntry {
        commit: Commit::Own,
        part: None,
        ..entry::<O>()
    }
}

/// Returns the entry of an operation that takes in whole documents.
const fn large<O: Registered>() -> OperationEntry {
    OperationEntry {
        largest: LARGEST_DOCUMENT,
        ..entry::<O>()
    }
}

/// Returns the entry of an operation that takes in whole documents, and takes long.
const fn large_alone<O: Registered>() -> OperationEntry {
    OperationEntry {
        commit: Commit::Own,
        part: None,
        ..large::<O>()
    }
}

/// Returns the entry of an operation that reads checkpoints, with the help of their files where the store is damaged.
const fn with_file_repair<O: ReadsCheckpoints>() -> OperationEntry {
    OperationEntry {
        commit: Commit::Own,
        reader: |text| Ok(Box::new(WithFileRepair(read::<O>(O::NAME, text)?))),
        part: None,
        ..entry::<O>()
    }
}

/// A store job: work with the files beside the store.
const fn upkeep<E: StoreJob>() -> OperationEntry {
    OperationEntry {
        name: E::NAME,
        access: E::ACCESS,
        scope: E::SCOPE,
        commit: Commit::Own,
        internal: true,
        #[cfg(feature = "schema")]
        request: |_| Schema::default(),
        #[cfg(feature = "schema")]
        outcome: |_| Schema::default(),
        largest: LARGEST,
        offline: Offline::Refused,
        reader: |text| Ok(Box::new(JobRequest(read::<E>(E::NAME, text)?))),
        part: None,
    }
}

/// An operation that runs others.
const fn batch<O: Registered>() -> OperationEntry {
    OperationEntry {
        part: None,
        ..entry::<O>()
    }
}

/// An operation of a batch, without its type. It was read together with the batch.
pub(crate) trait ErasedPart: Send {
    fn asked(&self) -> crate::Result<String>;
    /// Decides it in the transaction of the batch.
    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> crate::Result<Box<dyn ErasedOutcome>>;
}

/// Reads the request of an operation that is part of a batch.
pub(crate) fn read_part(name: &str, request: &str) -> Result<Box<dyn ErasedPart>, Refusal> {
    let Some(read) = find(name)?.part else {
        return Err(Refusal::invalid("it cannot be part of a batch").hint("run it alone"));
    };
    read(request)
}

impl<O: Registered> ErasedPart for Plain<O> {
    fn asked(&self) -> crate::Result<String> {
        self.0.asked()
    }

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> crate::Result<Box<dyn ErasedOutcome>> {
        crate::fleet::decide_part(&self.0, ctx).map(erase)
    }
}

struct Plain<O>(O);

impl<O: Registered> ErasedRequest for Plain<O> {
    fn run(&self, fleet: &mut Fleet, ask: &CallContext<'_>) -> RunResult {
        self.0.run_erased(fleet, ask).into()
    }
}

/// A request for an operation that reads checkpoints.
struct WithFileRepair<O>(O);

impl<O: ReadsCheckpoints> ErasedRequest for WithFileRepair<O> {
    fn run(&self, fleet: &mut Fleet, ask: &CallContext<'_>) -> RunResult {
        let run = match ask.rehearse {
            true => serve::rehearse::<O>,
            false => serve::serve::<O>,
        };
        let served = run(fleet, ask.folder, ask.caller, &self.0);
        let done = served.done.map(|done| Answered::Now(done.map(erase)));
        RunResult {
            warnings: served.warnings,
            ..done.into()
        }
    }
}

/// A request for work with the files beside the store.
struct JobRequest<E>(E);

impl<E: StoreJob> ErasedRequest for JobRequest<E> {
    fn run(&self, fleet: &mut Fleet, ask: &CallContext<'_>) -> RunResult {
        if ask.rehearse {
            let message = format!("`{}` cannot be rehearsed", E::NAME);
            return Err(Refusal::invalid(message).into()).into();
        }
        let sent = fleet.run_job(&self.0, ask.folder, ask.caller);
        sent.map(|outcome| Answered::Now(Done::plain(erase(outcome))))
            .into()
    }
}

fn erase<T: Serialize + Send + 'static>(outcome: T) -> Box<dyn ErasedOutcome> {
    Box::new(outcome)
}

fn read<T: DeserializeOwned>(name: &str, request: &str) -> Result<T, Refusal> {
    misfit::read(&format!("the request for `{name}`"), request)
}
