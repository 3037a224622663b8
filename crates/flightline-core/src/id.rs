//! Ids: a three-letter prefix and a UUID. Each kind has its own type, parsed once, at the door.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;
use uuid::fmt::Hyphenated;

use crate::error::Refusal;
use crate::redact::shown;
use crate::subject::SubjectKey;

macro_rules! id_type {
    ($(#[$doc:meta])* $name:ident of $subject:ty, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Uuid);

        impl $name {
            /// The prefix of every id of this kind.
            pub const PREFIX: &'static str = $prefix;

            /// The id made of this UUID.
            pub const fn new(uuid: Uuid) -> Self {
                Self(uuid)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                // In one piece, because ids are most of what a busy server formats.
                let mut text = [b' '; $prefix.len() + Hyphenated::LENGTH];
                text[..$prefix.len()].copy_from_slice($prefix.as_bytes());
                self.0.hyphenated().encode_lower(&mut text[$prefix.len()..]);
                f.write_str(std::str::from_utf8(&text).map_err(|_| fmt::Error)?)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = Refusal;

            fn from_str(text: &str) -> Result<Self, Refusal> {
                text.strip_prefix($prefix)
                    .filter(|rest| rest.len() == 36)
                    .and_then(|rest| Uuid::try_parse(rest).ok())
                    .map(Self)
                    .ok_or_else(|| malformed(text, $prefix))
            }
        }

        impl From<$name> for SubjectKey<'_, $subject> {
            fn from(id: $name) -> Self {
                Self::of(&id)
            }
        }

        impl Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <Cow<'_, str>>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }

        #[cfg(feature = "schema")]
        impl schemars::JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({
                    "type": "string",
                    "pattern": concat!("^", $prefix, "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$")
                })
            }
        }
    };
}

id_type!(
    /// The id of a mission.
    MissionId of crate::mission::Mission, "msn-");
id_type!(
    /// The id of a sortie: a unit of work with one owner.
    SortieId of crate::sortie::Sortie, "srt-");
id_type!(
    /// The id of an agent.
    AgentId of crate::agent::Agent, "agt-");
id_type!(
    /// The id of a lock on a path.
    LockId of crate::lock::Lock, "lck-");
id_type!(
    /// The id of a message.
    MessageId of crate::message::Message, "msg-");
id_type!(
    /// The id of a note.
    NoteId of crate::note::Note, "nte-");
id_type!(
    /// The id of a checkpoint.
    CheckpointId of crate::checkpoint::Checkpoint, "chk-");
id_type!(
    /// The id of a recovery that was done.
    RecoveryId of crate::setting::Recovery, "rcv-");
id_type!(
    /// The id of an effect on the world outside.
    EffectId of crate::effect::Effect, "eff-");
id_type!(
    /// The id of a token that opens a server's door.
    TokenId of crate::token::Token, "tok-");

/// Number of characters of a whole id.
pub const WHOLE: usize = 40;

/// The least number of characters of a shortened id.
pub const SHORTEST: usize = 8;

/// The least number of characters of an id that a person must type.
pub const SHORTEST_TYPED: usize = 4;

/// An id as it was typed: whole, or the beginning of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Typed {
    /// The beginning that an id must have, prefix included, lower case.
    pub beginning: String,
}

impl Typed {
    /// Reads `srt-02c4`, `02c4` or a whole id as the beginning of an id with `prefix`. Refuses a text that is too short to
    /// mean anything.
    pub fn parse(text: &str, prefix: &str) -> Result<Self, Refusal> {
        let lower = text.to_ascii_lowercase();
        let rest = lower.strip_prefix(prefix).unwrap_or(&lower);
        let beginning = format!("{prefix}{rest}");
        let fits = rest.len() <= 36
            && rest.bytes().enumerate().all(|(at, byte)| match at {
                8 | 13 | 18 | 23 => byte == b'-',
                _ => byte.is_ascii_hexdigit(),
            });
        if !fits {
            return Err(malformed(text, prefix));
        }
        // A prefix alone would name whatever happens to be the only thing of its kind.
        if rest.is_empty() || lower.len() < SHORTEST_TYPED {
            return Err(Refusal::invalid(format!(
                "`{text}` is too short: give at least {SHORTEST_TYPED} characters of the id"
            )));
        }
        Ok(Self { beginning })
    }

    /// The first text after every id with this beginning, for a range search.
    pub fn end(&self) -> String {
        // Ids hold hexadecimal digits and dashes only, all below `g`.
        format!("{}g", self.beginning)
    }
}

/// The shortest beginning of `id` that no other id in `sorted` shares, eight characters at least.
pub fn shortest_unique<'a>(id: &'a str, sorted: &[impl AsRef<str>]) -> &'a str {
    let at = sorted.partition_point(|other| other.as_ref() < id);
    let before = at.checked_sub(1).and_then(|index| sorted.get(index));
    let after = sorted
        .get(at..)
        .and_then(|rest| rest.iter().find(|other| other.as_ref() != id));
    let shared = [before, after]
        .into_iter()
        .flatten()
        .map(|other| common_length(id, other.as_ref()))
        .max();
    let length = shared
        .map_or(SHORTEST, |shared| (shared + 1).max(SHORTEST))
        .min(id.len());
    // Do not end on a dash: it reads as if something were missing.
    let length = if id.as_bytes().get(length - 1) == Some(&b'-') {
        length + 1
    } else {
        length
    };
    &id[..length.min(id.len())]
}

fn common_length(a: &str, b: &str) -> usize {
    a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count()
}

fn malformed(text: &str, prefix: &str) -> Refusal {
    Refusal::invalid(format!("`{}` is not an id that begins with `{prefix}`", shown(text)))
        .hint(format!("ids look like `{prefix}4f1c09ab`; the first {SHORTEST_TYPED} or more characters are enough when they are unique"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_parse_what_they_print_and_nothing_else() {
        let text = "msn-4f1c09ab-0000-4000-8000-000000000001";
        assert_eq!(text.parse::<MissionId>().unwrap().to_string(), text);
        for wrong in [
            "",
            "msn-",
            "srt-4f1c09ab-0000-4000-8000-000000000001",
            "msn-../../etc/passwd",
        ] {
            assert!(wrong.parse::<MissionId>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn typed_ids_take_beginnings_with_or_without_prefix() {
        assert_eq!(Typed::parse("srt-02", "srt-").unwrap().beginning, "srt-02");
        assert_eq!(Typed::parse("02C4", "srt-").unwrap().beginning, "srt-02c4");
        for wrong in ["02c", "srt-xyz", "msn-02c4", "srt-02c4/..", ""] {
            assert!(Typed::parse(wrong, "srt-").is_err(), "{wrong}");
        }
    }

    #[test]
    fn short_ids_are_unique_among_their_neighbours() {
        let ids: Vec<String> = [
            "srt-aaaa0000",
            "srt-aaaab000",
            "srt-aaaab100",
            "srt-ffff0000",
        ]
        .map(str::to_owned)
        .to_vec();
        let short: Vec<&str> = ids.iter().map(|id| shortest_unique(id, &ids)).collect();
        assert_eq!(short, ["srt-aaaa0", "srt-aaaab0", "srt-aaaab1", "srt-ffff"]);
    }
}
