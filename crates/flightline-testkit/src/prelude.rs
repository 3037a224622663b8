//! Names that most stories use: requests, what they are about, and the words of [`crate::story`].

pub use flightline::agent::restart::RestartAgent;
pub use flightline::agent::takeover::TakeOver;
pub use flightline::agent::{
    AgentView, Heartbeat, ListAgents, RegisterAgent, RetireAgent, ShowAgent, Sighting, UpdateAgent,
};
pub use flightline::checkpoint::CheckpointDocument;
pub use flightline::checkpoint::files::WholeCheckpoint;
pub use flightline::checkpoint::inspect::{
    CheckpointMark, DiffCheckpoints, ListCheckpoints, MarkCheckpoint, ShowCheckpoint,
    VerifyCheckpoints,
};
pub use flightline::checkpoint::prune::{ApplyPrune, PlanPrune, apply_all, plan_all};
pub use flightline::checkpoint::take::TakeCheckpoint;
pub use flightline::checkpoint::thin::PlanThinning;
pub use flightline::context::BriefAgent;
pub use flightline::core::agent::{Agent, AgentStatus, Role};
pub use flightline::core::checkpoint::{Checkpoint, CheckpointStatus, Reason, Trigger};
pub use flightline::core::effect::{Effect, EffectState};
pub use flightline::core::event::EventType;
pub use flightline::core::lock::Lock;
pub use flightline::core::message::{Delivery, DeliveryState, Message, MessageKind};
pub use flightline::core::mission::{Mission, MissionStatus};
pub use flightline::core::note::NoteKind;
pub use flightline::core::policy::{Policy, Preset};
pub use flightline::core::setting::{Recovery, RecoveryKind};
pub use flightline::core::sortie::{FileChange, Sortie, SortieStatus, SubtaskStatus};
pub use flightline::core::{Body, CheckpointId, Code, Kind, MissionId, Refusal, Time};
pub use flightline::effect::{BeginEffect, FinishEffect, ListEffects};
pub use flightline::event::{Cursor, ListEvents};
pub use flightline::lock::{
    AcquireLocks, ListLocks, LockView, ReleaseLocks, RenewLocks, StealLock,
};
pub use flightline::mail::{
    AcknowledgeMail, MessageView, OpenInbox, PeekInbox, ReadMail, ReplyMail, RequeueMail, SendMail,
};
pub use flightline::mission::update::UpdateMission;
pub use flightline::mission::{
    ChangeMission, CreateMission, ListMissions, MissionView, ShowMission, TransitionMission,
    UseMission,
};
pub use flightline::note::{AddNote, ListNotes};
pub use flightline::recovery::detect::{Detect, PeekCandidates, RecoveryCandidate};
pub use flightline::recovery::resume::{Resume, Resumed};
pub use flightline::recovery::undo::Undo;
pub use flightline::sortie::add::{AddSorties, NewSortie};
pub use flightline::sortie::change::{ChangeSortie, SortieAction};
pub use flightline::sortie::claim::{ClaimNext, ClaimSortie};
pub use flightline::sortie::edit::{EditSortie, MoveSortie};
pub use flightline::sortie::report::{
    AddReview, ClearErrors, FileReport, ReportError, SubtaskReport, UpdateSortie,
};
pub use flightline::sortie::{ListSorties, ShowSortie, SortieView};
pub use flightline::status::ShowStatus;
pub use flightline::store::{Find, StoredEvent};
pub use flightline::{Caller, Fleet};

pub use crate::story::login::{at_endpoint, at_model, led};
pub use crate::story::recovery::{Force, back_to, roll_forward};
pub use crate::story::{DONE, GIVEN_BACK, Story};
pub use crate::story::{
    acknowledge, acknowledge_all, add_note, add_sorties, begin_effect, brief_agent, change_mission,
    change_sortie, claim_next, create_mission, file, finish_effect, lesson, letter, list_notes,
    locks_on, name, note, open_inbox, path, peek_inbox, process, registration, release,
    release_all, report_error, retire, show_agent, show_self, show_status, sortie, subtask,
    take_checkpoint, title, transition_mission, undo_rewind, verify_checkpoints,
};
pub use crate::{Engine, World, both_engines, caller, damage, keyed};
