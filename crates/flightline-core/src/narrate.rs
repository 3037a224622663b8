//! The journal as sentences. The log, the replay and mail all tell an event by this one narrator.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::event::Event;
use crate::text::counted;

/// The longest quoted text in a sentence, in characters.
const LONGEST: usize = 120;

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

/// What an event says of itself.
struct Told<'a> {
    event: &'a Event,
    /// The thing that the event is about.
    id: &'a str,
    /// The part of that thing, when it is about a part.
    part: &'a str,
}

impl Told<'_> {
    fn text(&self, field: &str) -> &str {
        self.event.data[field].as_str().unwrap_or_default()
    }

    fn words(&self, field: &str) -> String {
        self.text(field).replace('_', " ")
    }

    fn number(&self, field: &str) -> u64 {
        self.event.data[field].as_u64().unwrap_or_default()
    }

    /// What follows a colon, when it is said.
    fn because(&self, field: &str) -> String {
        match self.text(field) {
            "" => String::new(),
            why => format!(": {}", cut(why)),
        }
    }

    /// Names of several, as an event lists them.
    fn list(&self, field: &str) -> String {
        match &self.event.data[field] {
            Value::Array(items) => {
                let items: Vec<&str> = items.iter().filter_map(Value::as_str).collect();
                items.join(", ")
            }
            Value::String(one) => one.clone(),
            _ => String::new(),
        }
    }
}

impl Narrator<'_> {
    /// What the actor of an event does, as a sentence without its subject: `claims "Auth", attempt 2`.
    #[must_use]
    pub fn tell(&self, event: &Event) -> String {
        let (id, part) = event
            .subject
            .split_once('/')
            .unwrap_or((event.subject.as_str(), ""));
        let told = Told { event, id, part };
        let sentence = match event.kind.split_once('_') {
            Some(("agent", _)) => self.agent(&told),
            Some(("sortie" | "subtask" | "file", _)) => self.sortie(&told),
            Some(("mission" | "milestone" | "dispatch" | "recovery" | "fleet", _)) => {
                self.mission(&told)
            }
            Some(("checkpoint" | "context" | "resume" | "retention", _)) => self.checkpoint(&told),
            Some(("message" | "inbox", _)) => self.message(&told),
            Some(("lock" | "effect" | "note" | "briefing" | "token" | "secret", _)) => {
                self.thing(&told)
            }
            _ => None,
        };
        sentence.unwrap_or_else(|| self.plainly(&told))
    }

    /// An event of which nothing more is known.
    fn plainly(&self, told: &Told<'_>) -> String {
        let what = told.event.kind.replace('_', " ");
        match self.names.get(told.id) {
            Some(name) => format!("{what}: \"{}\"", cut(name)),
            None => format!("{what} {} {}", (self.short)(told.id), told.part)
                .trim_end()
                .to_owned(),
        }
    }

    /// A thing by its title, else by its id.
    fn called(&self, id: &str) -> String {
        match self.names.get(id) {
            Some(name) => format!("\"{}\"", cut(name)),
            None => (self.short)(id),
        }
    }

    /// An agent by its name.
    fn agent_name(&self, id: &str) -> String {
        self.names
            .get(id)
            .cloned()
            .unwrap_or_else(|| (self.short)(id))
    }

    fn agent(&self, told: &Told<'_>) -> Option<String> {
        let name = self.agent_name(told.id);
        // What an agent says of itself needs no name a second time.
        let of = match told.event.actor == name {
            true => String::new(),
            false => format!(" {name}"),
        };
        Some(match told.event.kind.as_str() {
            "agent_registered" if told.event.data["mailbox_only"] == true => {
                format!("makes a mailbox for{of}")
            }
            "agent_registered" => {
                let role = match told.text("role") {
                    "" => String::new(),
                    role => format!(" as {role}"),
                };
                format!("registers{of}{role}")
            }
            "agent_session_started" => format!(
                "begins a new session{}, epoch {}",
                of_whom(&of),
                told.number("epoch")
            ),
            "agent_session_ended" => {
                format!("ends the session{}{}", of_whom(&of), told.because("reason"))
            }
            "agent_updated" if !told.list("files").is_empty() => {
                format!("has changed {}", cut(&told.list("files")))
            }
            "agent_updated" => match (told.text("step"), told.words("status")) {
                ("", status) if status.is_empty() => format!("updates{of}"),
                ("", status) => format!("is {status}"),
                (step, _) => format!("is at \"{}\"", cut(step)),
            },
            "agent_step_completed" => format!("completes the step \"{}\"", cut(told.text("step"))),
            "agent_step_removed" => format!("drops the step \"{}\"", cut(told.text("step"))),
            "agent_retired" => format!("retires {name}{}", told.because("reason")),
            "agent_crashed" => format!(
                "gives the work of {name} to {}{}",
                told.text("to"),
                told.because("reason")
            ),
            "agent_resumed" => format!("brings {name} back"),
            "agent_restarted" => format!("has {name} begin from scratch{}", told.because("reason")),
            "agent_compacted" => format!("loses its context ({})", told.words("evidence")),
            "agent_mode_changed" => format!("puts {name} into {} mode", told.words("to")),
            "agent_warned" => format!("warns {name}"),
            "agent_escalated" => format!("reports the silence of {name}"),
            "agent_imported" => format!("imports {name} from a file"),
            _ => return None,
        })
    }

    fn sortie(&self, told: &Told<'_>) -> Option<String> {
        let (title, part) = (self.called(told.id), told.part);
        Some(match told.event.kind.as_str() {
            "sortie_added" => format!("adds the sortie {title}"),
            "sortie_edited" => format!("edits {title}: {}", told.list("fields").replace('_', " ")),
            "sortie_cancelled" => format!("cancels {title}{}", told.because("reason")),
            "sortie_claimed" => match told.number("attempt") {
                0 | 1 => format!("claims {title}"),
                attempt => format!("claims {title}, attempt {attempt}"),
            },
            "sortie_assigned" => format!("assigns {title} to {}", told.text("to")),
            "sortie_reassigned" => format!(
                "takes {title} from {} and gives it to {}{}",
                or_nobody(told.text("from")),
                told.text("to"),
                told.because("reason")
            ),
            "sortie_started" => format!("begins {title}"),
            "sortie_progress" => {
                let percent = told.number("percent");
                format!("is at {percent} % of {title}{}", told.because("note"))
            }
            "sortie_blocked" => format!("is blocked at {title}{}", told.because("reason")),
            "sortie_unblocked" => format!("unblocks {title}"),
            "sortie_resumed" => format!("takes {title} up again"),
            "sortie_completed" => format!("completes {title}"),
            "sortie_failed" => format!("fails {title}{}", told.because("reason")),
            "sortie_released" => format!("releases {title}{}", told.because("reason")),
            "sortie_approved" => format!("approves {title}{}", told.because("reason")),
            "sortie_rejected" => format!("rejects {title}{}", told.because("reason")),
            "sortie_reviewed" => match told.event.data["score"].as_i64() {
                Some(score) => format!("reviews {title} as {part}: {score}"),
                None => format!("asks {part} to review {title}"),
            },
            "sortie_error" => format!("reports an error at {title}{}", told.because("message")),
            "sortie_error_cleared" => format!("clears an error of {title}"),
            "sortie_requeued" => format!(
                "takes {title} back from {}{}",
                or_nobody(told.text("from")),
                told.because("reason")
            ),
            "sortie_kept" => format!("keeps {title}"),
            "sortie_moved" => format!("moves {title} to {}", told.words("to")),
            "sortie_reordered" => format!("moves {title} to place {}", told.number("position")),
            "sortie_restored" => format!(
                "puts {title} back as it was in {}",
                (self.short)(told.text("checkpoint_id"))
            ),
            "sortie_removed" => format!(
                "removes {title}, which {} does not have",
                (self.short)(told.text("checkpoint_id"))
            ),
            "sortie_restarted" => format!("has {title} begin from scratch"),
            "sortie_skipped" => format!("leaves {title} out{}", told.because("reason")),
            "sortie_imported" => format!("takes {title} in from a file"),
            "subtask_updated" => format!(
                "sets the subtask {part} of {title} to {}",
                told.words("status")
            ),
            "subtask_restarted" => format!("has the subtask {part} of {title} begin from scratch"),
            "file_created" => format!("creates {part} for {title}"),
            "file_modified" => format!("changes {part} for {title}"),
            "file_deleted" => format!("deletes {part} for {title}"),
            _ => return None,
        })
    }

    fn mission(&self, told: &Told<'_>) -> Option<String> {
        let title = self.called(told.id);
        let checkpoint = || (self.short)(told.text("checkpoint_id"));
        // `timeline/percent`
        let percent = || told.part.rsplit('/').next().unwrap_or_default().to_owned();
        Some(match told.event.kind.as_str() {
            "mission_created" => format!("creates the mission \"{}\"", cut(told.text("title"))),
            "mission_started" => format!("starts {title}"),
            "mission_paused" => format!("pauses {title}{}", told.because("reason")),
            "mission_completed" => format!("completes {title}"),
            "mission_failed" => format!("gives up {title}{}", told.because("reason")),
            "mission_archived" => format!("archives {title}"),
            "mission_updated" => format!("changes {title}"),
            "mission_chosen" => format!(
                "makes {} the current mission",
                self.called(told.text("mission_id"))
            ),
            "mission_transitioned" => format!(
                "moves {title} to {}{}",
                told.text("to"),
                told.because("trigger")
            ),
            "mission_transition_pending" => format!("asks to move {title} to {}", told.text("to")),
            "mission_reset" => format!("sets {title} back to {}", told.text("to")),
            "mission_restored" => format!("takes {title} back to {}", checkpoint()),
            "mission_kept" => format!("keeps {title}"),
            "mission_imported" => format!("takes {title} in from a file"),
            "milestone_reached" => format!("sees {title} reach {} %", percent()),
            "milestone_owed" => format!("owes the checkpoint at {} % of {title}", percent()),
            "milestone_settled" => format!(
                "takes the checkpoint that was owed at {} % of {title}",
                percent()
            ),
            "milestone_kept" => format!("keeps the milestone of {} % of {title}", percent()),
            "dispatch_changed" => format!("makes {} the dispatch of {title}", told.text("to")),
            "recovery_undone" => "takes the last rewind back".to_owned(),
            "fleet_checkpointed" => {
                let why = told.words("reason");
                format!(
                    "takes checkpoint {} at {} % ({why})",
                    checkpoint(),
                    told.number("progress_percent")
                )
            }
            "fleet_recovered" => format!(
                "recovers the mission from {}: {}, {}, {}",
                checkpoint(),
                counted(told.number("recovered_sorties"), "sortie"),
                counted(told.number("recovered_locks"), "lock"),
                counted(told.number("requeued_messages"), "message")
            ),
            _ => return None,
        })
    }

    fn checkpoint(&self, told: &Told<'_>) -> Option<String> {
        let id = match told.text("checkpoint_id") {
            "" => (self.short)(told.id),
            id => (self.short)(id),
        };
        Some(match told.event.kind.as_str() {
            "checkpoint_created" | "checkpoint_backed_up" => format!("writes the file of {id}"),
            "checkpoint_backup_failed" => {
                format!("cannot write the file of {id}{}", told.because("why"))
            }
            "checkpoint_failed" => format!("cannot take a checkpoint{}", told.because("error")),
            "checkpoint_pinned" => format!("pins {id}"),
            "checkpoint_unpinned" => format!("unpins {id}"),
            "checkpoint_noted" => format!("adds a note to {id}{}", told.because("note")),
            "checkpoint_archived" => format!("archives {id}"),
            "checkpoint_deleted" => format!("deletes {id}"),
            "checkpoint_pruned" => format!("prunes {id}"),
            "checkpoint_corrupted" => format!("finds {id} damaged"),
            "checkpoint_recovered" => format!("mends {id}"),
            "checkpoint_consumed" => {
                format!("is done with {id}: it is no longer used for resuming")
            }
            "checkpoint_imported" => format!("imports {id}"),
            "context_compacted" => match told.text("agent") {
                "" => format!(
                    "finds that {} needs recovery ({})",
                    self.called(told.id),
                    told.words("evidence")
                ),
                agent => format!(
                    "finds that {agent} lost its context ({})",
                    told.words("evidence")
                ),
            },
            "context_filled" => format!(
                "finds the context of {} {} % full",
                told.text("agent"),
                told.number("percent")
            ),
            "resume_fell_back" => format!("cannot resume from {id}{}", told.because("problem")),
            "retention_applied" => {
                format!(
                    "applies retention: {} deleted, {} archived",
                    told.number("deleted"),
                    told.number("archived")
                )
            }
            _ => return None,
        })
    }

    fn message(&self, told: &Told<'_>) -> Option<String> {
        let to = told.list("to");
        let subject = match told.text("subject") {
            "" => (self.short)(told.id),
            subject => format!("\"{}\"", cut(subject)),
        };
        Some(match told.event.kind.as_str() {
            "message_sent" => format!("writes to {to}: {subject}"),
            "message_updated" => format!("brings {subject} up to date for {to}"),
            "message_queued" => format!("queues {subject} for {to}"),
            "message_delivered" => format!("reads {subject}"),
            "message_acknowledged" => format!("acknowledges {subject}"),
            "message_requeued" => format!("queues {subject} again"),
            "message_forwarded" => {
                format!("hands {to} what {} never acknowledged", told.text("from"))
            }
            "message_moved" => format!("moves mail from {} to {to}", told.text("from")),
            "message_overdue" => format!("finds {subject} overdue: {to} has not acknowledged it"),
            "message_superseded" | "message_settled" => {
                format!("replaces an earlier report to {to}")
            }
            "message_deadline_moved" => {
                format!("moves a deadline from {} to {to}", told.text("from"))
            }
            "inbox_opened" => match told.number("messages") {
                1 => "reads 1 message".to_owned(),
                count => format!("reads {count} messages"),
            },
            _ => return None,
        })
    }

    fn thing(&self, told: &Told<'_>) -> Option<String> {
        let (file, key) = (told.text("file"), told.text("key"));
        Some(match told.event.kind.as_str() {
            "secret_made" => "draws the mark by which briefings are known".to_owned(),
            "lock_acquired" => format!("locks {file}"),
            "lock_renewed" => format!("renews the lock on {file}"),
            "lock_released" => format!("releases {file}{}", told.because("reason")),
            "lock_reclaimed" => match told.text("from") {
                "" => format!("reclaims {file}{}", told.because("reason")),
                from => format!("reclaims {file} from {from}{}", told.because("reason")),
            },
            "lock_stolen" => format!(
                "steals {file} from {}{}",
                told.text("from"),
                told.because("reason")
            ),
            "effect_begun" => match told.number("attempt") {
                0 | 1 => format!("begins the effect {key}"),
                attempt => format!("begins the effect {key} again, attempt {attempt}"),
            },
            "effect_done" => format!("reports the effect {key} done"),
            "note_added" => {
                let kind = told.words("kind");
                let text = self
                    .names
                    .get(told.id)
                    .map_or_else(String::new, |text| format!(": {}", cut(text)));
                format!("notes {} {kind}{text}", article(&kind))
            }
            "briefing_offered" => format!("gives {} its briefing", told.text("agent")),
            "briefing_repeated" => format!("gives {} its briefing again", told.text("agent")),
            "briefing_acknowledged" => "acknowledges its briefing".to_owned(),
            "briefing_expired" => format!("lets a briefing of {} expire", told.text("agent")),
            "token_created" => format!("creates the token {}", told.text("name")),
            "token_revoked" => format!("revokes the token {}", told.text("name")),
            _ => return None,
        })
    }
}

/// The author of an event. An automatic checkpoint is taken in the request of the agent that caused it.
#[must_use]
pub fn who(event: &Event) -> &str {
    match event.kind.as_str() {
        "fleet_checkpointed" if event.data["trigger"] != "manual" => "flightline",
        "checkpoint_created" | "checkpoint_backed_up" | "checkpoint_backup_failed" => "flightline",
        _ => &event.actor,
    }
}

/// An id in a text where it need not be unique: the kind and eight digits.
#[must_use]
pub fn shortened(id: &str) -> String {
    id.chars().take(12).collect()
}

/// A quoted text, on one line and not too long.
fn cut(text: &str) -> String {
    let line = text.replace(['\n', '\t'], " ");
    match line.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

fn of_whom(of: &str) -> String {
    match of {
        "" => String::new(),
        of => format!(" of{of}"),
    }
}

fn or_nobody(name: &str) -> &str {
    match name {
        "" => "nobody",
        name => name,
    }
}

fn article(word: &str) -> &'static str {
    match word.starts_with(['a', 'e', 'i', 'o', 'u']) {
        true => "an",
        false => "a",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::event::Change;
    use crate::subject::Kind;
    use crate::time::Time;

    #[track_caller]
    fn check(kind: &str, subject: &str, data: Value, told: &str) {
        let names = BTreeMap::from([
            ("srt-1".to_owned(), "Auth".to_owned()),
            ("msn-1".to_owned(), "Add login".to_owned()),
            ("agt-1".to_owned(), "ada".to_owned()),
            ("nte-1".to_owned(), "Never log passwords".to_owned()),
        ]);
        let event = Event {
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
        };
        let narrator = Narrator {
            names: &names,
            short: &shortened,
        };
        assert_eq!(narrator.tell(&event), told);
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
}
