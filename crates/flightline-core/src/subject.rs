//! Subjects: the things whose last value is the state. Every event names one and carries its new
//! value; the store keeps them all in one table and needs to know only what this trait says.

use std::borrow::Cow;
use std::fmt::Display;
use std::marker::PhantomData;

use std::fmt;
use std::str::FromStr;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::id::{
    AgentId, CheckpointId, EffectId, LockId, MessageId, MissionId, NoteId, RecoveryId, SortieId,
    TokenId,
};

words! {
    /// The kind of a subject.
    pub enum Kind {
        /// A mission of the fleet.
        Mission = "mission",
        /// A sortie of a mission.
        Sortie = "sortie",
        /// A part of a sortie.
        Subtask = "subtask",
        /// A file a sortie created, modified or deleted.
        File = "file",
        /// An error met in a sortie.
        Error = "error",
        /// A review of a sortie.
        Review = "review",
        /// An agent of the fleet.
        Agent = "agent",
        /// A step an agent has completed.
        Step = "step",
        /// A lock on a file, a folder or a pattern.
        Lock = "lock",
        /// A message to agents.
        Message = "message",
        /// A message's way to one recipient.
        Delivery = "delivery",
        /// A note about a mission.
        Note = "note",
        /// An effect on the world outside.
        Effect = "effect",
        /// A remembered choice, such as the current mission.
        Setting = "setting",
        /// A checkpoint of a mission.
        Checkpoint = "checkpoint",
        /// A milestone that a mission reached.
        Milestone = "milestone",
        /// A recovery that was done.
        Recovery = "recovery",
        /// A briefing that was offered to an agent.
        Briefing = "briefing",
        /// The values of a checkpoint that came from elsewhere.
        Import = "import",
        /// The file of another system, as it last came in.
        Original = "original",
        /// The state of a checkpoint's work tree.
        FileSystem = "file_system",
        /// A token that opens a server's door.
        Token = "token",
    }
}

impl Kind {
    /// The kind of an id, or of the beginning of one, by the three letters it begins with.
    pub fn of_id(id: &str) -> Option<Self> {
        Some(match id.get(..4)? {
            MissionId::PREFIX => Self::Mission,
            SortieId::PREFIX => Self::Sortie,
            AgentId::PREFIX => Self::Agent,
            LockId::PREFIX => Self::Lock,
            MessageId::PREFIX => Self::Message,
            NoteId::PREFIX => Self::Note,
            CheckpointId::PREFIX => Self::Checkpoint,
            RecoveryId::PREFIX => Self::Recovery,
            EffectId::PREFIX => Self::Effect,
            TokenId::PREFIX => Self::Token,
            _ => return None,
        })
    }

    /// The largest document of this kind, in bytes. A message holds up to 64 KiB of text, which JSON
    /// may write with escapes; everything else grows by more subjects, not by larger ones.
    pub const fn max_document(self) -> usize {
        match self {
            Self::Message => 160 * 1024,
            Self::Checkpoint => 8 * 1024 * 1024,
            // Two texts of up to 8 MiB, which JSON may write with escapes.
            Self::Import | Self::Original => 64 * 1024 * 1024,
            Self::FileSystem => 4 * 1024 * 1024,
            _ => 32 * 1024,
        }
    }

    /// Returns true when the journal alone keeps the subject's text: large, seldom read, and hardly ever changed.
    pub const fn is_kept_once(self) -> bool {
        matches!(self, Self::Checkpoint)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not a kind of subject")]
pub struct UnknownKind(String);

impl FromStr for Kind {
    type Err = UnknownKind;

    fn from_str(text: &str) -> Result<Self, UnknownKind> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.as_str() == text)
            .ok_or_else(|| UnknownKind(text.to_owned()))
    }
}

/// The properties by which a subject can be found, beside its id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keys {
    /// The mission that the subject belongs to. Never changes.
    pub mission: Option<MissionId>,
    /// The subject that this one is part of: the sortie of a subtask, the message of a delivery.
    pub parent: Option<String>,
    /// The agent that the subject belongs to: owner, holder, recipient.
    pub agent: Option<AgentId>,
    /// The subject's name for people: a title, a name, a path, a key.
    pub name: Option<String>,
    /// The subject's status, in the words of its kind.
    pub status: &'static str,
    pub percent: Option<u8>,
}

impl Keys {
    /// The keys of a setting: it is found by its id alone.
    pub(crate) fn of_setting() -> Self {
        Self {
            status: "set",
            ..Self::default()
        }
    }
}

/// A thing whose values the journal keeps.
pub trait Subject: Serialize + DeserializeOwned + Clone + Send + Sync + 'static {
    const KIND: Kind;

    /// Returns the subject's id, unique within project and kind.
    fn key(&self) -> String;

    fn keys(&self) -> Keys;
}

/// The key by which a subject of one kind is asked for: its typed id, or a text that the store gave.
pub struct SubjectKey<'a, S>(Cow<'a, str>, PhantomData<fn() -> S>);

impl<S> SubjectKey<'_, S> {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The key of the subject with this id.
    pub(crate) fn of(id: &dyn Display) -> Self {
        Self(Cow::Owned(id.to_string()), PhantomData)
    }
}

impl<'a, S, T: AsRef<str> + ?Sized> From<&'a T> for SubjectKey<'a, S> {
    fn from(text: &'a T) -> Self {
        Self(Cow::Borrowed(text.as_ref()), PhantomData)
    }
}

/// Reads the keys of a subject of this kind from the exact text of its document.
pub fn keys_of(kind: Kind, text: &str) -> Result<Keys, serde_json::Error> {
    fn read<S: Subject>(text: &str) -> Result<Keys, serde_json::Error> {
        serde_json::from_str::<S>(text).map(|subject| subject.keys())
    }
    match kind {
        Kind::Mission => read::<crate::mission::Mission>(text),
        Kind::Sortie => read::<crate::sortie::Sortie>(text),
        Kind::Subtask => read::<crate::sortie::Subtask>(text),
        Kind::File => read::<crate::sortie::SortieFile>(text),
        Kind::Error => read::<crate::sortie::SortieError>(text),
        Kind::Review => read::<crate::sortie::Review>(text),
        Kind::Agent => read::<crate::agent::Agent>(text),
        Kind::Step => read::<crate::agent::Step>(text),
        Kind::Lock => read::<crate::lock::Lock>(text),
        Kind::Message => read::<crate::message::Message>(text),
        Kind::Delivery => read::<crate::message::Delivery>(text),
        Kind::Note => read::<crate::note::Note>(text),
        Kind::Effect => read::<crate::effect::Effect>(text),
        Kind::Checkpoint => read::<crate::checkpoint::Checkpoint>(text),
        Kind::Import => read::<crate::checkpoint::ImportedValues>(text),
        Kind::Original => read::<crate::dialect::Original>(text),
        Kind::FileSystem => read::<crate::file_system::RecordedFiles>(text),
        Kind::Token => read::<crate::token::Token>(text),
        Kind::Milestone => read::<crate::checkpoint::Milestone>(text),
        Kind::Recovery => read::<crate::setting::Recovery>(text),
        Kind::Briefing => read::<crate::setting::Briefing>(text),
        // Settings have types of their own, and all are found by their id alone.
        Kind::Setting => {
            serde_json::from_str::<serde_json::Value>(text).map(|_| Keys::of_setting())
        }
    }
}
