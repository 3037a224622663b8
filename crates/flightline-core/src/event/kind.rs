//! The types of events. A new type is one row of [`event_types!`]; the order of the rows is that of their words.

use std::fmt;

macro_rules! event_types {
    ($($name:ident $word:literal;)*) => {
        /// The type of an event that this version of the program writes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum EventType {
            $(#[doc = concat!("The event `", $word, "`.")] $name,)*
        }

        impl EventType {
            /// Every type of event there is, in the order of their words.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The word for it in the journal, in JSON and in text.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $word,)* }
            }
        }
    };
}

event_types! {
    AgentCompacted "agent_compacted";
    AgentCrashed "agent_crashed";
    AgentEscalated "agent_escalated";
    AgentImported "agent_imported";
    AgentModeChanged "agent_mode_changed";
    AgentRegistered "agent_registered";
    AgentRestarted "agent_restarted";
    AgentResumed "agent_resumed";
    AgentRetired "agent_retired";
    AgentSessionEnded "agent_session_ended";
    AgentSessionStarted "agent_session_started";
    AgentSpoke "agent_spoke";
    AgentStepCompleted "agent_step_completed";
    AgentStepRemoved "agent_step_removed";
    AgentUpdated "agent_updated";
    AgentWarned "agent_warned";
    BriefingAcknowledged "briefing_acknowledged";
    BriefingExpired "briefing_expired";
    BriefingOffered "briefing_offered";
    BriefingRepeated "briefing_repeated";
    CheckpointArchived "checkpoint_archived";
    CheckpointBackedUp "checkpoint_backed_up";
    CheckpointBackupFailed "checkpoint_backup_failed";
    CheckpointConsumed "checkpoint_consumed";
    CheckpointCorrupted "checkpoint_corrupted";
    CheckpointCreated "checkpoint_created";
    CheckpointDeleted "checkpoint_deleted";
    CheckpointFailed "checkpoint_failed";
    CheckpointImported "checkpoint_imported";
    CheckpointNoted "checkpoint_noted";
    CheckpointPinned "checkpoint_pinned";
    CheckpointPruned "checkpoint_pruned";
    CheckpointRebuilt "checkpoint_rebuilt";
    CheckpointRecovered "checkpoint_recovered";
    CheckpointResumed "checkpoint_resumed";
    CheckpointUnpinned "checkpoint_unpinned";
    CheckpointValuesImported "checkpoint_values_imported";
    CheckpointValuesRemoved "checkpoint_values_removed";
    ContextCompacted "context_compacted";
    ContextFilled "context_filled";
    DamageSetAside "damage_set_aside";
    DeadlineSet "deadline_set";
    DeadlinesChecked "deadlines_checked";
    DispatchChanged "dispatch_changed";
    DocumentForgotten "document_forgotten";
    DocumentImported "document_imported";
    EffectBegun "effect_begun";
    EffectDone "effect_done";
    EpochsForgotten "epochs_forgotten";
    ErrorRemoved "error_removed";
    ErrorRestored "error_restored";
    EventBroughtBack "event_brought_back";
    EventsTold "events_told";
    FailureNoted "failure_noted";
    FileCreated "file_created";
    FileDeleted "file_deleted";
    FileModified "file_modified";
    FileRemoved "file_removed";
    FileRestored "file_restored";
    FileSystemRecorded "file_system_recorded";
    FileSystemRemoved "file_system_removed";
    FleetCheckpointed "fleet_checkpointed";
    FleetRecovered "fleet_recovered";
    HistoryBegun "history_begun";
    InboxOpened "inbox_opened";
    JournalThinned "journal_thinned";
    LockAcquired "lock_acquired";
    LockReclaimed "lock_reclaimed";
    LockReleased "lock_released";
    LockRenewed "lock_renewed";
    LockStolen "lock_stolen";
    MessageAcknowledged "message_acknowledged";
    MessageDeadlineMoved "message_deadline_moved";
    MessageDelivered "message_delivered";
    MessageForwarded "message_forwarded";
    MessageMoved "message_moved";
    MessageOverdue "message_overdue";
    MessageQueued "message_queued";
    MessageRequeued "message_requeued";
    MessageSent "message_sent";
    MessageSettled "message_settled";
    MessageSuperseded "message_superseded";
    MessageUpdated "message_updated";
    MilestoneKept "milestone_kept";
    MilestoneOwed "milestone_owed";
    MilestoneReached "milestone_reached";
    MilestoneSettled "milestone_settled";
    MissionArchived "mission_archived";
    MissionChosen "mission_chosen";
    MissionCompleted "mission_completed";
    MissionCreated "mission_created";
    MissionFailed "mission_failed";
    MissionImported "mission_imported";
    MissionKept "mission_kept";
    MissionPaused "mission_paused";
    MissionReset "mission_reset";
    MissionRestored "mission_restored";
    MissionStarted "mission_started";
    MissionTransitionPending "mission_transition_pending";
    MissionTransitioned "mission_transitioned";
    MissionUpdated "mission_updated";
    NoteAdded "note_added";
    NoteClosed "note_closed";
    NoteReplaced "note_replaced";
    NoteWithdrawn "note_withdrawn";
    RecoveryUndone "recovery_undone";
    ResumeFellBack "resume_fell_back";
    RetentionApplied "retention_applied";
    RetentionPutRight "retention_put_right";
    ReviewRemoved "review_removed";
    ReviewRestored "review_restored";
    SecretMade "secret_made";
    SortieAdded "sortie_added";
    SortieApproved "sortie_approved";
    SortieAssigned "sortie_assigned";
    SortieBlocked "sortie_blocked";
    SortieCancelled "sortie_cancelled";
    SortieClaimed "sortie_claimed";
    SortieCompleted "sortie_completed";
    SortieEdited "sortie_edited";
    SortieError "sortie_error";
    SortieErrorCleared "sortie_error_cleared";
    SortieFailed "sortie_failed";
    SortieImported "sortie_imported";
    SortieKept "sortie_kept";
    SortieMoved "sortie_moved";
    SortieProgress "sortie_progress";
    SortieReassigned "sortie_reassigned";
    SortieRejected "sortie_rejected";
    SortieReleased "sortie_released";
    SortieRemoved "sortie_removed";
    SortieReordered "sortie_reordered";
    SortieRequeued "sortie_requeued";
    SortieRestarted "sortie_restarted";
    SortieRestored "sortie_restored";
    SortieResumed "sortie_resumed";
    SortieReviewed "sortie_reviewed";
    SortieSkipped "sortie_skipped";
    SortieStarted "sortie_started";
    SortieUnblocked "sortie_unblocked";
    StoreRestored "store_restored";
    SubtaskRemoved "subtask_removed";
    SubtaskRestarted "subtask_restarted";
    SubtaskRestored "subtask_restored";
    SubtaskUpdated "subtask_updated";
    TokenCreated "token_created";
    TokenRevoked "token_revoked";
    ValueRebuilt "value_rebuilt";
    ValueRepaired "value_repaired";
}

impl EventType {
    /// The type this word means. Another version of the program may have written words that mean none here.
    pub fn from_word(word: &str) -> Option<Self> {
        let place = Self::ALL.binary_search_by(|it| it.as_str().cmp(word));
        place.ok().map(|place| Self::ALL[place])
    }

    /// Returns true when the type can be asked for before there is an event of it: the API's description and the hints
    /// name these types alone.
    pub const fn is_listed(self) -> bool {
        !matches!(
            self,
            Self::AgentSpoke
                | Self::CheckpointResumed
                | Self::ErrorRemoved
                | Self::ErrorRestored
                | Self::EventBroughtBack
                | Self::FailureNoted
                | Self::FileRemoved
                | Self::FileRestored
                | Self::NoteClosed
                | Self::NoteReplaced
                | Self::NoteWithdrawn
                | Self::ReviewRemoved
                | Self::ReviewRestored
                | Self::SubtaskRemoved
                | Self::SubtaskRestored
        )
    }

    /// The words of the types that are listed, in order.
    pub fn listed() -> impl Iterator<Item = &'static str> {
        let listed = Self::ALL.iter().filter(|it| it.is_listed());
        listed.map(|it| it.as_str())
    }
}

impl fmt::Display for EventType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words that are listed. Journals hold them, and programs ask for them: a word here is never removed or changed.
    const LISTED: &str = "
        agent_compacted agent_crashed agent_escalated agent_imported agent_mode_changed agent_registered
        agent_restarted agent_resumed agent_retired agent_session_ended agent_session_started
        agent_step_completed agent_step_removed agent_updated agent_warned briefing_acknowledged
        briefing_expired briefing_offered briefing_repeated checkpoint_archived checkpoint_backed_up
        checkpoint_backup_failed checkpoint_consumed checkpoint_corrupted checkpoint_created checkpoint_deleted
        checkpoint_failed checkpoint_imported checkpoint_noted checkpoint_pinned checkpoint_pruned
        checkpoint_rebuilt checkpoint_recovered checkpoint_unpinned checkpoint_values_imported
        checkpoint_values_removed context_compacted context_filled damage_set_aside deadline_set
        deadlines_checked dispatch_changed document_forgotten document_imported effect_begun effect_done
        epochs_forgotten events_told file_created file_deleted file_modified file_system_recorded
        file_system_removed fleet_checkpointed fleet_recovered history_begun inbox_opened journal_thinned
        lock_acquired lock_reclaimed lock_released lock_renewed lock_stolen message_acknowledged
        message_deadline_moved message_delivered message_forwarded message_moved message_overdue message_queued
        message_requeued message_sent message_settled message_superseded message_updated milestone_kept
        milestone_owed milestone_reached milestone_settled mission_archived mission_chosen mission_completed
        mission_created mission_failed mission_imported mission_kept mission_paused mission_reset
        mission_restored mission_started mission_transition_pending mission_transitioned mission_updated
        note_added recovery_undone resume_fell_back retention_applied retention_put_right secret_made
        sortie_added sortie_approved sortie_assigned sortie_blocked sortie_cancelled sortie_claimed
        sortie_completed sortie_edited sortie_error sortie_error_cleared sortie_failed sortie_imported
        sortie_kept sortie_moved sortie_progress sortie_reassigned sortie_rejected sortie_released
        sortie_removed sortie_reordered sortie_requeued sortie_restarted sortie_restored sortie_resumed
        sortie_reviewed sortie_skipped sortie_started sortie_unblocked store_restored subtask_restarted
        subtask_updated token_created token_revoked value_rebuilt value_repaired
    ";

    /// The words that are not listed; they are kept like the others.
    const NOT_LISTED: &str = "
        agent_spoke checkpoint_resumed error_removed error_restored event_brought_back failure_noted
        file_removed file_restored note_closed note_replaced note_withdrawn review_removed review_restored
        subtask_removed subtask_restored
    ";

    #[test]
    fn a_word_once_written_stays_a_type() {
        let listed: Vec<&str> = LISTED.split_whitespace().collect();
        assert_eq!(EventType::listed().collect::<Vec<_>>(), listed);
        let others = EventType::ALL.iter().filter(|it| !it.is_listed());
        let others: Vec<&str> = others.map(|it| it.as_str()).collect();
        assert_eq!(others, NOT_LISTED.split_whitespace().collect::<Vec<_>>());
    }

    #[test]
    fn every_word_is_the_snake_case_of_its_name() {
        for kind in EventType::ALL {
            let mut word = String::new();
            for letter in format!("{kind:?}").chars() {
                if letter.is_ascii_uppercase() && !word.is_empty() {
                    word.push('_');
                }
                word.push(letter.to_ascii_lowercase());
            }
            assert_eq!(kind.as_str(), word);
        }
    }

    #[test]
    fn words_are_unique_in_order_and_read_back() {
        for pair in EventType::ALL.windows(2) {
            assert!(pair[0].as_str() < pair[1].as_str(), "{pair:?}");
        }
        for kind in EventType::ALL {
            assert_eq!(EventType::from_word(kind.as_str()), Some(*kind));
            assert_eq!(kind.to_string(), kind.as_str());
        }
        for other in ["", "sortie", "sortie_claimed ", "Sortie_Claimed", "zz"] {
            assert_eq!(EventType::from_word(other), None, "{other}");
        }
    }
}
