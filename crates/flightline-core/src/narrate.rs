//! The journal as sentences. The log, the replay and mail all tell an event by this one narrator.

mod sentence;

use std::collections::BTreeMap;

use crate::event::{Event, EventType};

/// Tells events, and calls things by their names.
#[derive(Clone, Copy)]
pub struct Narrator<'a> {
    /// Names of agents, titles of missions and sorties, texts of notes: by id.
    pub names: &'a BTreeMap<String, String>,
    /// An id as people read it.
    pub short: &'a dyn Fn(&str) -> String,
}

impl std::fmt::Debug for Narrator<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Narrator")
            .field("names", self.names)
            .finish_non_exhaustive()
    }
}

/// The author of an event. An automatic checkpoint is taken in the request of the agent that caused it.
pub fn who(event: &Event) -> &str {
    match event.event_type() {
        Some(EventType::FleetCheckpointed) if event.data["trigger"] != "manual" => "flightline",
        Some(
            EventType::CheckpointCreated
            | EventType::CheckpointBackedUp
            | EventType::CheckpointBackupFailed,
        ) => "flightline",
        _ => &event.actor,
    }
}

/// An id in a text where it need not be unique: the kind and eight digits.
pub fn shortened(id: &str) -> String {
    id.chars().take(12).collect()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::{Value, json};

    use super::*;
    use crate::event::Change;
    use crate::subject::Kind;
    use crate::time::Time;

    fn event(kind: &str, subject: &str, data: Value) -> Event {
        Event {
            rev: 1,
            step: 1,
            kind: kind.to_owned(),
            timestamp: Time::from_millis(0),
            mission_id: None,
            subject_kind: Kind::Sortie,
            subject: subject.to_owned(),
            actor: "ada".to_owned(),
            epoch: None,
            change: Change::Set,
            data,
        }
    }

    #[track_caller]
    fn check(kind: &str, subject: &str, data: Value, told: &str) {
        let names = BTreeMap::from([
            ("srt-1".to_owned(), "Auth".to_owned()),
            ("msn-1".to_owned(), "Add login".to_owned()),
            ("agt-1".to_owned(), "ada".to_owned()),
            ("nte-1".to_owned(), "Never log passwords".to_owned()),
        ]);
        let narrator = Narrator {
            names: &names,
            short: &shortened,
        };
        assert_eq!(narrator.tell(&event(kind, subject, data)), told);
    }

    #[test]
    fn an_event_is_told_with_names_instead_of_ids() {
        check(
            "sortie_claimed",
            "srt-1",
            json!({ "attempt": 2 }),
            "claims \"Auth\", attempt 2",
        );
        check(
            "milestone_kept",
            "msn-1/2/25",
            json!({}),
            "keeps the milestone of 25 % of \"Add login\"",
        );
        check(
            "agent_registered",
            "agt-1",
            json!({ "role": "dispatch" }),
            "registers as dispatch",
        );
        check(
            "note_added",
            "nte-1",
            json!({ "kind": "constraint" }),
            "notes a constraint: Never log passwords",
        );
        check(
            "message_sent",
            "msg-1",
            json!({ "to": ["bob"], "subject": "Ready?" }),
            "writes to bob: \"Ready?\"",
        );
        check(
            "lock_released",
            "lck-1",
            json!({ "file": "src/a.rs", "reason": "holder retired" }),
            "releases src/a.rs: holder retired",
        );
    }

    #[test]
    fn an_event_that_nobody_knows_is_told_plainly() {
        check(
            "value_repaired",
            "srt-1",
            json!({}),
            "value repaired: \"Auth\"",
        );
        check(
            "new_thing",
            "msg-0123456789abcdef",
            json!({}),
            "new thing msg-01234567",
        );
    }

    #[test]
    fn these_types_alone_have_no_sentence_of_their_own() {
        let (names, short) = (BTreeMap::new(), shortened);
        let narrator = Narrator {
            names: &names,
            short: &short,
        };
        let plain = EventType::ALL.iter().map(|it| it.as_str()).filter(|word| {
            let told = narrator.tell(&event(word, "srt-1", json!({})));
            told == format!("{} srt-1", word.replace('_', " "))
        });
        expect![[r#"
            agent_spoke
            checkpoint_rebuilt
            checkpoint_resumed
            checkpoint_values_imported
            checkpoint_values_removed
            damage_set_aside
            deadline_set
            deadlines_checked
            document_forgotten
            document_imported
            epochs_forgotten
            error_removed
            error_restored
            event_brought_back
            events_told
            failure_noted
            file_removed
            file_restored
            file_system_recorded
            file_system_removed
            history_begun
            journal_thinned
            note_closed
            note_replaced
            note_withdrawn
            retention_put_right
            review_removed
            review_restored
            store_restored
            subtask_removed
            subtask_restored
            value_rebuilt
            value_repaired"#]]
        .assert_eq(&plain.collect::<Vec<_>>().join("\n"));
    }
}
