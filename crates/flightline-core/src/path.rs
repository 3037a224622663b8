//! Paths inside the repository, in the one form that locks and file lists compare.

mod pattern;

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};
use unicode_normalization::{UnicodeNormalization, is_nfc};

use crate::error::Refusal;
use crate::redact::{contains_secret, shown};
use crate::shell::shell_word;
use crate::text::is_stored;

pub const MAX_PATH: usize = 1024;

/// A path relative to the repository's root: `/` between parts, no `.` or `..`, no trailing `/`.
/// The root itself is `.`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct RepoPath(String);

#[cfg(feature = "schema")]
impl schemars::JsonSchema for RepoPath {
    fn schema_name() -> Cow<'static, str> {
        "RepoPath".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "A path relative to the repository's root, `/` between parts; the root itself is `.`",
            "type": "string",
            "minLength": 1,
            "maxLength": MAX_PATH,
            "pattern": "^(?!/)(?!\\.\\.(/|$))(?!.*/\\.\\.(/|$))[^\\u0000-\\u001f\\u007f-\\u009f]+$"
        })
    }
}

impl RepoPath {
    /// Normalises `raw`, which is relative to the repository's root. Refuses a path that is empty, absolute, leads outside,
    /// is too long, or holds a control character.
    pub fn parse(raw: &str) -> Result<Self, Refusal> {
        let refuse = |why: &str| {
            Refusal::invalid(format!("`{}` cannot be used as a path: {why}", shown(raw)))
        };
        if raw.is_empty() {
            return Err(Refusal::invalid("the path is empty"));
        }
        if raw.len() > MAX_PATH {
            return Err(refuse("it is longer than 1024 bytes"));
        }
        if raw.chars().any(char::is_control) {
            return Err(refuse("it holds a control character"));
        }
        if raw.starts_with('/') {
            return Err(refuse("it is absolute").hint("give it relative to the repository's root"));
        }
        // A stored path came in under the rules of its time.
        if !is_stored() && contains_secret(raw) {
            return Err(Refusal::invalid("the path looks like it holds a secret"));
        }
        let mut parts: Vec<&str> = Vec::new();
        for part in raw.split('/') {
            match part {
                "" | "." => {}
                ".." => match parts.pop() {
                    Some("**") => return Err(refuse("`..` cannot follow `**`")),
                    Some(_) => {}
                    None => return Err(refuse("it leads outside the repository")),
                },
                part => parts.push(part),
            }
        }
        Ok(Self(if parts.is_empty() {
            ".".to_owned()
        } else {
            parts.join("/")
        }))
    }

    /// The path as text, with `/` between its parts.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns true when both paths name the same file, or one is a folder that holds the other. Of patterns: when that
    /// is so of any two paths they stand for.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.is_below(other)
            || other.is_below(self)
            || (self.is_pattern() || other.is_pattern())
                && pattern::overlap(&self.composed(), &other.composed())
    }

    /// Returns true when the path holds a character that means something in a pattern: `*`, `?`, `[` or a backslash.
    pub fn is_pattern(&self) -> bool {
        pattern::is_pattern(&self.0)
    }

    /// Returns true when the path's last name is that of a file, by its ending: compared with a pattern, nothing lies
    /// below it.
    pub fn names_a_file(&self) -> bool {
        pattern::names_a_file(&self.0)
    }

    /// Returns the path as one word of a shell's command line.
    pub fn as_word(&self) -> Cow<'_, str> {
        shell_word(&self.0)
    }

    /// Returns true when both paths name the same file, however their letters are put together: `é` is one character or
    /// two.
    pub fn is_same(&self, other: &Self) -> bool {
        self.composed() == other.composed()
    }

    /// Returns true when the path names the same file as `other`, or a folder that holds it. A pattern contains the
    /// paths it stands for; whether it contains another pattern is known only when they begin alike.
    pub fn contains(&self, other: &Self) -> bool {
        other.is_below(self)
            || self.is_pattern()
                && !other.is_pattern()
                && pattern::covers(&self.composed(), &other.composed())
    }

    /// Returns true when the path's text begins with the whole of another, part by part.
    fn is_below(&self, other: &Self) -> bool {
        other.0 == "."
            || self
                .composed()
                .strip_prefix(other.composed().as_ref())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Returns the path's text with every letter in one piece, for comparing (Unicode NFC). The path itself stays as it
    /// was given: a file has the name that its file system knows.
    fn composed(&self) -> Cow<'_, str> {
        if self.0.is_ascii() || is_nfc(&self.0) {
            Cow::Borrowed(&self.0)
        } else {
            Cow::Owned(self.0.nfc().collect())
        }
    }
}

impl fmt::Display for RepoPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for RepoPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl<'de> Deserialize<'de> for RepoPath {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <Cow<'_, str>>::deserialize(deserializer)?;
        Self::parse(&raw).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(raw: &str) -> RepoPath {
        RepoPath::parse(raw).unwrap()
    }

    #[test]
    fn letters_in_one_piece_and_in_two_are_the_same() {
        let (one, two) = (path("caf\u{e9}/a.rs"), path("cafe\u{301}/a.rs"));
        assert!(one.is_same(&two) && one.overlaps(&two));
        assert_ne!(one, two, "each keeps its spelling");
        assert!(path("cafe\u{301}").contains(&one));
        assert!(!path("cafe").overlaps(&one));
    }

    #[test]
    fn paths_have_one_form() {
        for (raw, canonical) in [
            ("src/auth.ts", "src/auth.ts"),
            ("./src//auth.ts", "src/auth.ts"),
            ("src/", "src"),
            ("src/../lib/./a", "lib/a"),
            (".", "."),
            ("a/..", "."),
        ] {
            assert_eq!(path(raw).as_str(), canonical, "{raw}");
        }
    }

    #[test]
    fn paths_stay_inside() {
        for bad in [
            "",
            "/etc/passwd",
            "..",
            "a/../../b",
            "a\0b",
            "a\nb",
            &"x/".repeat(600),
        ] {
            assert!(RepoPath::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn patterns_are_compared_by_what_they_stand_for() {
        assert!(path("src/*.rs").overlaps(&path("src/a.rs")));
        assert!(path("caf\u{e9}/*").overlaps(&path("cafe\u{301}/a.rs")));
        assert!(!path("src/*.rs").overlaps(&path("src/a.ts")));
        assert!(path("src/**").contains(&path("src/a/b.rs")));
        assert!(path("src/*").contains(&path("src/*/b.rs")));
        assert!(!path("src/*").contains(&path("src/a*")));
        assert!(RepoPath::parse("src/**/../a").is_err());
        assert_eq!(path("src/*/../a").as_str(), "src/a");
    }

    #[test]
    fn a_path_can_be_pasted_into_a_shell() {
        assert_eq!(path("src/a-1.rs").as_word(), "src/a-1.rs");
        assert_eq!(path("src/*.rs").as_word(), "'src/*.rs'");
        assert_eq!(path("it's").as_word(), r"'it'\''s'");
        assert_eq!(path("-x").as_word(), "'-x'");
    }

    #[test]
    fn folders_overlap_what_they_hold_and_nothing_else() {
        assert!(path("src").overlaps(&path("src/auth.ts")));
        assert!(path("src/auth.ts").overlaps(&path("src")));
        assert!(path("src/a").overlaps(&path("src/a")));
        assert!(path(".").overlaps(&path("anything")));
        assert!(!path("src/a").overlaps(&path("src/ab")));
        assert!(!path("src").overlaps(&path("src+x/a")));
        assert!(!path("src").overlaps(&path("SRC/a")));
    }
}
