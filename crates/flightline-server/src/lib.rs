//! The doors for programs. For now there is one: [`call`] runs any operation by its name, from JSON to
//! JSON. Transports (HTTP, MCP) will stand in front of it and hold no rule of their own.

use flightline::core::{Code, Refusal};
use flightline::{Caller, Fleet, Operation};
use flightline::{
    agent, checkpoint, context, dialect, effect, event, ids, lock, mail, mission, note, recovery,
    replay, report, sortie, stats, status, task,
};
use serde_json::Value;

type Handler = fn(&mut Fleet, &str, &Caller) -> Result<Value, Refusal>;

/// Every operation by its name.
const OPERATIONS: &[(&str, Handler)] = &[
    entry::<mission::CreateMission>(),
    entry::<mission::ListMissions>(),
    entry::<mission::ShowMission>(),
    entry::<mission::ChangeMission>(),
    entry::<mission::TransitionMission>(),
    entry::<mission::UseMission>(),
    entry::<sortie::add::AddSorties>(),
    entry::<sortie::ListSorties>(),
    entry::<sortie::ShowSortie>(),
    entry::<sortie::claim::ClaimSortie>(),
    entry::<sortie::claim::ClaimNext>(),
    entry::<sortie::change::ChangeSortie>(),
    entry::<sortie::report::UpdateSortie>(),
    entry::<sortie::report::ReportError>(),
    entry::<sortie::report::ClearErrors>(),
    entry::<sortie::report::AddReview>(),
    entry::<agent::RegisterAgent>(),
    entry::<agent::ListAgents>(),
    entry::<agent::ShowAgent>(),
    entry::<agent::UpdateAgent>(),
    entry::<agent::RetireAgent>(),
    entry::<agent::Heartbeat>(),
    entry::<agent::monitor::MonitorAgents>(),
    entry::<agent::resume::ResumeAgent>(),
    entry::<agent::takeover::TakeOver>(),
    entry::<agent::takeover::ShowHandoff>(),
    entry::<agent::restart::RestartAgent>(),
    entry::<agent::context::EndSession>(),
    entry::<agent::context::FullSync>(),
    entry::<lock::AcquireLocks>(),
    entry::<lock::RenewLocks>(),
    entry::<lock::ReleaseLocks>(),
    entry::<lock::StealLock>(),
    entry::<lock::ListLocks>(),
    entry::<lock::CheckLocks>(),
    entry::<mail::SendMail>(),
    entry::<mail::ReplyMail>(),
    entry::<mail::OpenInbox>(),
    entry::<mail::PeekInbox>(),
    entry::<mail::ReadMail>(),
    entry::<mail::AcknowledgeMail>(),
    entry::<mail::ShowThread>(),
    entry::<mail::RequeueMail>(),
    entry::<mail::relay::RelayEvents>(),
    entry::<note::AddNote>(),
    entry::<note::ListNotes>(),
    entry::<effect::BeginEffect>(),
    entry::<effect::FinishEffect>(),
    entry::<effect::ListEffects>(),
    entry::<event::ListEvents>(),
    entry::<ids::ListIds>(),
    entry::<status::ShowStatus>(),
    entry::<stats::ShowStats>(),
    entry::<report::ShowReport>(),
    entry::<task::ShowTask>(),
    entry::<task::ShowTaskTable>(),
    entry::<checkpoint::take::TakeCheckpoint>(),
    entry::<checkpoint::take::RecordFailure>(),
    entry::<checkpoint::destructive::BeforeDestructive>(),
    entry::<checkpoint::inspect::ListCheckpoints>(),
    entry::<checkpoint::inspect::ShowCheckpoint>(),
    entry::<checkpoint::inspect::VerifyCheckpoints>(),
    entry::<checkpoint::inspect::MarkCheckpoint>(),
    entry::<checkpoint::inspect::DiffCheckpoints>(),
    entry::<checkpoint::prune::PlanPrune>(),
    entry::<checkpoint::prune::ApplyPrune>(),
    entry::<checkpoint::due::DueCheckpoints>(),
    entry::<checkpoint::thin::PlanThinning>(),
    entry::<checkpoint::thin::ThinJournal>(),
    entry::<checkpoint::thin::RecordThinning>(),
    entry::<checkpoint::import::ImportCheckpoint>(),
    entry::<checkpoint::files::UnsettledBackups>(),
    entry::<checkpoint::files::RecordBackup>(),
    entry::<checkpoint::files::WholeCheckpoint>(),
    entry::<checkpoint::tree::RecordFiles>(),
    entry::<checkpoint::inspect::VerifyCheckpoint>(),
    entry::<checkpoint::mend::ExamineCheckpoints>(),
    entry::<checkpoint::mend::MendCheckpoint>(),
    entry::<recovery::claims::ListClaims>(),
    entry::<recovery::detect::Detect>(),
    entry::<recovery::detect::PeekCandidates>(),
    entry::<recovery::points::ListRecoveryPoints>(),
    entry::<recovery::resume::Resume>(),
    entry::<recovery::undo::Undo>(),
    entry::<recovery::compaction::ReportCompaction>(),
    entry::<replay::Replay>(),
    entry::<recovery::delta::ApplyDeltas>(),
    entry::<context::BriefAgent>(),
    entry::<context::DeliverBriefing>(),
    entry::<context::AcknowledgeBriefing>(),
    entry::<dialect::ImportDocuments>(),
    entry::<dialect::ExportDocuments>(),
    entry::<dialect::convert::ConvertDocument>(),
];

/// The names of all operations.
#[must_use]
pub fn operation_names() -> Vec<&'static str> {
    OPERATIONS.iter().map(|(name, _)| *name).collect()
}

/// Runs the operation `name` on a request in JSON, and gives its outcome as JSON.
///
/// # Errors
/// When there is no such operation, the request does not fit it, or it refuses.
pub fn call(
    fleet: &mut Fleet,
    name: &str,
    request: &str,
    caller: &Caller,
) -> Result<Value, Refusal> {
    let found = OPERATIONS.iter().find(|(known, _)| *known == name);
    let (_, handler) = found.ok_or_else(|| {
        Refusal::new(Code::NotFound, format!("there is no operation `{name}`"))
            .hint("list them with `fleet call`")
    })?;
    handler(fleet, request, caller)
}

const fn entry<O: Operation>() -> (&'static str, Handler) {
    (O::NAME, handle::<O>)
}

fn handle<O: Operation>(
    fleet: &mut Fleet,
    request: &str,
    caller: &Caller,
) -> Result<Value, Refusal> {
    let operation: O = serde_json::from_str(request).map_err(|error| {
        Refusal::invalid(format!("the request does not fit `{}`: {error}", O::NAME))
    })?;
    let outcome = fleet
        .run(&operation, caller)
        .map_err(flightline::Error::into_refusal)?;
    serde_json::to_value(&outcome)
        .map_err(|error| Refusal::new(Code::Failed, format!("cannot write JSON: {error}")))
}
