//! The sentence for each type of event.

use serde_json::Value;

use super::Narrator;
use crate::event::{Event, EventType};
use crate::text::counted;

/// The longest quoted text in a sentence, in characters.
const LONGEST: usize = 120;

impl Narrator<'_> {
    /// Returns the act of an event's actor as a sentence without its subject: `claims "Auth", attempt 2`.
    pub fn tell(&self, event: &Event) -> String {
        let (id, part) = event
            .subject
            .split_once('/')
            .unwrap_or((event.subject.as_str(), ""));
        let told = NarratedEvent {
            event,
            kind: event.event_type(),
            id,
            part,
        };
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

    fn plainly(&self, told: &NarratedEvent<'_>) -> String {
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

    fn agent_name(&self, id: &str) -> String {
        self.names
            .get(id)
            .cloned()
            .unwrap_or_else(|| (self.short)(id))
    }

    fn agent(&self, told: &NarratedEvent<'_>) -> Option<String> {
        let name = self.agent_name(told.id);
        // An agent's event about itself does not repeat its name.
        let of = match told.event.actor == name {
            true => String::new(),
            false => format!(" {name}"),
        };
        Some(match told.kind? {
            EventType::AgentRegistered if told.event.data["mailbox_only"] == true => {
                format!("makes a mailbox for{of}")
            }
            EventType::AgentRegistered => {
                let role = match told.text("role") {
                    "" => String::new(),
                    role => format!(" as {role}"),
                };
                format!("registers{of}{role}")
            }
            EventType::AgentSessionStarted => format!(
                "begins a new session{}, epoch {}",
                of_whom(&of),
                told.number("epoch")
            ),
            EventType::AgentSessionEnded => {
                format!("ends the session{}{}", of_whom(&of), told.because("reason"))
            }
            EventType::AgentUpdated if !told.list("files").is_empty() => {
                format!("has changed {}", cut(&told.list("files")))
            }
            EventType::AgentUpdated => match (told.text("step"), told.words("status")) {
                ("", status) if status.is_empty() => format!("updates{of}"),
                ("", status) => format!("is {status}"),
                (step, _) => format!("is at \"{}\"", cut(step)),
            },
            EventType::AgentStepCompleted => {
                format!("completes the step \"{}\"", cut(told.text("step")))
            }
            EventType::AgentStepRemoved => format!("drops the step \"{}\"", cut(told.text("step"))),
            EventType::AgentRetired => format!("retires {name}{}", told.because("reason")),
            EventType::AgentCrashed => format!(
                "gives the work of {name} to {}{}",
                told.text("to"),
                told.because("reason")
            ),
            EventType::AgentResumed => format!("brings {name} back"),
            EventType::AgentRestarted => {
                format!("has {name} begin from scratch{}", told.because("reason"))
            }
            EventType::AgentCompacted => format!("loses its context ({})", told.words("evidence")),
            EventType::AgentModeChanged => format!("puts {name} into {} mode", told.words("to")),
            EventType::AgentWarned => format!("warns {name}"),
            EventType::AgentEscalated => format!("reports the silence of {name}"),
            EventType::AgentImported => format!("imports {name} from a file"),
            _ => return None,
        })
    }

    fn sortie(&self, told: &NarratedEvent<'_>) -> Option<String> {
        let (title, part) = (self.called(told.id), told.part);
        Some(match told.kind? {
            EventType::SortieAdded => format!("adds the sortie {title}"),
            EventType::SortieEdited => {
                format!("edits {title}: {}", told.list("fields").replace('_', " "))
            }
            EventType::SortieCancelled => format!("cancels {title}{}", told.because("reason")),
            EventType::SortieClaimed => match told.number("attempt") {
                0 | 1 => format!("claims {title}"),
                attempt => format!("claims {title}, attempt {attempt}"),
            },
            EventType::SortieAssigned => format!("assigns {title} to {}", told.text("to")),
            EventType::SortieReassigned => format!(
                "takes {title} from {} and gives it to {}{}",
                or_nobody(told.text("from")),
                told.text("to"),
                told.because("reason")
            ),
            EventType::SortieStarted => format!("begins {title}"),
            EventType::SortieProgress => {
                let percent = told.number("percent");
                format!("is at {percent} % of {title}{}", told.because("note"))
            }
            EventType::SortieBlocked => format!("is blocked at {title}{}", told.because("reason")),
            EventType::SortieUnblocked => format!("unblocks {title}"),
            EventType::SortieResumed => format!("takes {title} up again"),
            EventType::SortieCompleted => format!("completes {title}"),
            EventType::SortieFailed => format!("fails {title}{}", told.because("reason")),
            EventType::SortieReleased => format!("releases {title}{}", told.because("reason")),
            EventType::SortieApproved => format!("approves {title}{}", told.because("reason")),
            EventType::SortieRejected => format!("rejects {title}{}", told.because("reason")),
            EventType::SortieReviewed => match told.event.data["score"].as_i64() {
                Some(score) => format!("reviews {title} as {part}: {score}"),
                None => format!("asks {part} to review {title}"),
            },
            EventType::SortieError => {
                format!("reports an error at {title}{}", told.because("message"))
            }
            EventType::SortieErrorCleared => format!("clears an error of {title}"),
            EventType::SortieRequeued => format!(
                "takes {title} back from {}{}",
                or_nobody(told.text("from")),
                told.because("reason")
            ),
            EventType::SortieKept => format!("keeps {title}"),
            EventType::SortieMoved => format!("moves {title} to {}", told.words("to")),
            EventType::SortieReordered => {
                format!("moves {title} to place {}", told.number("position"))
            }
            EventType::SortieRestored => format!(
                "puts {title} back as it was in {}",
                (self.short)(told.text("checkpoint_id"))
            ),
            EventType::SortieRemoved => format!(
                "removes {title}, which {} does not have",
                (self.short)(told.text("checkpoint_id"))
            ),
            EventType::SortieRestarted => format!("has {title} begin from scratch"),
            EventType::SortieSkipped => format!("leaves {title} out{}", told.because("reason")),
            EventType::SortieImported => format!("takes {title} in from a file"),
            EventType::SubtaskUpdated => format!(
                "sets the subtask {part} of {title} to {}",
                told.words("status")
            ),
            EventType::SubtaskRestarted => {
                format!("has the subtask {part} of {title} begin from scratch")
            }
            EventType::FileCreated => format!("creates {part} for {title}"),
            EventType::FileModified => format!("changes {part} for {title}"),
            EventType::FileDeleted => format!("deletes {part} for {title}"),
            _ => return None,
        })
    }

    fn mission(&self, told: &NarratedEvent<'_>) -> Option<String> {
        let title = self.called(told.id);
        let checkpoint = || (self.short)(told.text("checkpoint_id"));
        // `timeline/percent`
        let percent = || told.part.rsplit('/').next().unwrap_or_default().to_owned();
        Some(match told.kind? {
            EventType::MissionCreated => {
                format!("creates the mission \"{}\"", cut(told.text("title")))
            }
            EventType::MissionStarted => format!("starts {title}"),
            EventType::MissionPaused => format!("pauses {title}{}", told.because("reason")),
            EventType::MissionCompleted => format!("completes {title}"),
            EventType::MissionFailed => format!("gives up {title}{}", told.because("reason")),
            EventType::MissionArchived => format!("archives {title}"),
            EventType::MissionUpdated => format!("changes {title}"),
            EventType::MissionChosen => format!(
                "makes {} the current mission",
                self.called(told.text("mission_id"))
            ),
            EventType::MissionTransitioned => format!(
                "moves {title} to {}{}",
                told.text("to"),
                told.because("trigger")
            ),
            EventType::MissionTransitionPending => {
                format!("asks to move {title} to {}", told.text("to"))
            }
            EventType::MissionReset => format!("sets {title} back to {}", told.text("to")),
            EventType::MissionRestored => format!("takes {title} back to {}", checkpoint()),
            EventType::MissionKept => format!("keeps {title}"),
            EventType::MissionImported => format!("takes {title} in from a file"),
            EventType::MilestoneReached => format!("sees {title} reach {} %", percent()),
            EventType::MilestoneOwed => {
                format!("owes the checkpoint at {} % of {title}", percent())
            }
            EventType::MilestoneSettled => format!(
                "takes the checkpoint that was owed at {} % of {title}",
                percent()
            ),
            EventType::MilestoneKept => {
                format!("keeps the milestone of {} % of {title}", percent())
            }
            EventType::DispatchChanged => {
                format!("makes {} the dispatch of {title}", told.text("to"))
            }
            EventType::RecoveryUndone => "takes the last rewind back".to_owned(),
            EventType::FleetCheckpointed => {
                let why = told.words("reason");
                format!(
                    "takes checkpoint {} at {} % ({why})",
                    checkpoint(),
                    told.number("progress_percent")
                )
            }
            EventType::FleetRecovered => format!(
                "recovers the mission from {}: {}, {}, {}",
                checkpoint(),
                counted(told.number("recovered_sorties"), "sortie"),
                counted(told.number("recovered_locks"), "lock"),
                counted(told.number("requeued_messages"), "message")
            ),
            _ => return None,
        })
    }

    fn checkpoint(&self, told: &NarratedEvent<'_>) -> Option<String> {
        let id = match told.text("checkpoint_id") {
            "" => (self.short)(told.id),
            id => (self.short)(id),
        };
        Some(match told.kind? {
            EventType::CheckpointCreated | EventType::CheckpointBackedUp => {
                format!("writes the file of {id}")
            }
            EventType::CheckpointBackupFailed => {
                format!("cannot write the file of {id}{}", told.because("why"))
            }
            EventType::CheckpointFailed => {
                format!("cannot take a checkpoint{}", told.because("error"))
            }
            EventType::CheckpointPinned => format!("pins {id}"),
            EventType::CheckpointUnpinned => format!("unpins {id}"),
            EventType::CheckpointNoted => format!("adds a note to {id}{}", told.because("note")),
            EventType::CheckpointArchived => format!("archives {id}"),
            EventType::CheckpointDeleted => format!("deletes {id}"),
            EventType::CheckpointPruned => format!("prunes {id}"),
            EventType::CheckpointCorrupted => format!("finds {id} damaged"),
            EventType::CheckpointRecovered => format!("mends {id}"),
            EventType::CheckpointConsumed => {
                format!("is done with {id}: it is no longer used for resuming")
            }
            EventType::CheckpointImported => format!("imports {id}"),
            EventType::ContextCompacted => match told.text("agent") {
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
            EventType::ContextFilled => format!(
                "finds the context of {} {} % full",
                told.text("agent"),
                told.number("percent")
            ),
            EventType::ResumeFellBack => {
                format!("cannot resume from {id}{}", told.because("problem"))
            }
            EventType::RetentionApplied => {
                format!(
                    "applies retention: {} deleted, {} archived",
                    told.number("deleted"),
                    told.number("archived")
                )
            }
            _ => return None,
        })
    }

    fn message(&self, told: &NarratedEvent<'_>) -> Option<String> {
        let to = told.list("to");
        let subject = match told.text("subject") {
            "" => (self.short)(told.id),
            subject => format!("\"{}\"", cut(subject)),
        };
        Some(match told.kind? {
            EventType::MessageSent => format!("writes to {to}: {subject}"),
            EventType::MessageUpdated => format!("brings {subject} up to date for {to}"),
            EventType::MessageQueued => format!("queues {subject} for {to}"),
            EventType::MessageDelivered => format!("reads {subject}"),
            EventType::MessageAcknowledged => format!("acknowledges {subject}"),
            EventType::MessageRequeued => format!("queues {subject} again"),
            EventType::MessageForwarded => {
                format!("hands {to} what {} never acknowledged", told.text("from"))
            }
            EventType::MessageMoved => format!("moves mail from {} to {to}", told.text("from")),
            EventType::MessageOverdue => {
                format!("finds {subject} overdue: {to} has not acknowledged it")
            }
            EventType::MessageSuperseded | EventType::MessageSettled => {
                format!("replaces an earlier report to {to}")
            }
            EventType::MessageDeadlineMoved => {
                format!("moves a deadline from {} to {to}", told.text("from"))
            }
            EventType::InboxOpened => match told.number("messages") {
                1 => "reads 1 message".to_owned(),
                count => format!("reads {count} messages"),
            },
            _ => return None,
        })
    }

    fn thing(&self, told: &NarratedEvent<'_>) -> Option<String> {
        let (file, key) = (told.text("file"), told.text("key"));
        Some(match told.kind? {
            EventType::SecretMade => "draws the mark by which briefings are known".to_owned(),
            EventType::LockAcquired => format!("locks {file}"),
            EventType::LockRenewed => format!("renews the lock on {file}"),
            EventType::LockReleased => format!("releases {file}{}", told.because("reason")),
            EventType::LockReclaimed => match told.text("from") {
                "" => format!("reclaims {file}{}", told.because("reason")),
                from => format!("reclaims {file} from {from}{}", told.because("reason")),
            },
            EventType::LockStolen => format!(
                "steals {file} from {}{}",
                told.text("from"),
                told.because("reason")
            ),
            EventType::EffectBegun => match told.number("attempt") {
                0 | 1 => format!("begins the effect {key}"),
                attempt => format!("begins the effect {key} again, attempt {attempt}"),
            },
            EventType::EffectDone => format!("reports the effect {key} done"),
            EventType::NoteAdded => {
                let kind = told.words("kind");
                let text = self
                    .names
                    .get(told.id)
                    .map_or_else(String::new, |text| format!(": {}", cut(text)));
                format!("notes {} {kind}{text}", article(&kind))
            }
            EventType::BriefingOffered => format!("gives {} its briefing", told.text("agent")),
            EventType::BriefingRepeated => {
                format!("gives {} its briefing again", told.text("agent"))
            }
            EventType::BriefingAcknowledged => "acknowledges its briefing".to_owned(),
            EventType::BriefingExpired => {
                format!("lets a briefing of {} expire", told.text("agent"))
            }
            EventType::TokenCreated => format!("creates the token {}", told.text("name")),
            EventType::TokenRevoked => format!("revokes the token {}", told.text("name")),
            _ => return None,
        })
    }
}

struct NarratedEvent<'a> {
    event: &'a Event,
    kind: Option<EventType>,
    /// The thing that the event is about.
    id: &'a str,
    /// The part of that thing, when it is about a part.
    part: &'a str,
}

impl NarratedEvent<'_> {
    fn text(&self, field: &str) -> &str {
        self.event.data[field].as_str().unwrap_or_default()
    }

    fn words(&self, field: &str) -> String {
        self.text(field).replace('_', " ")
    }

    fn number(&self, field: &str) -> u64 {
        self.event.data[field].as_u64().unwrap_or_default()
    }

    /// Returns a colon and the text of a field; nothing when the field is empty.
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
