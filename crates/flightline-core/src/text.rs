//! Text from outside. This is the one door: whatever an agent or a user wrote becomes a [`Text`] or
//! a [`Name`] before anything else sees it, so that length, control characters and secrets are
//! settled here and nowhere else.

use crate::Schema;
use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;
use std::ops::Deref;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::count::{self, Work};
use crate::error::{Code, Refusal};
use crate::redact::{contains_secret, redact, shown};

/// A text of one line: a title, a subject, a purpose.
pub type Title = Text<500>;
/// Texts of at most this many bytes are one line: a line break in them becomes a space.
const ONE_LINE: usize = 500;
pub type Body = Text<65_536>;
/// A longer text: a note, a description, a step.
pub type NoteText = Text<8_192>;

/// A number of things, by their noun: `1 lock`, `2 locks`.
pub fn counted(count: u64, noun: &str) -> String {
    let s = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{s}")
}

/// The known word that was likely meant: the one with the fewest differences, when there are few.
pub fn closest<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let typed: Vec<char> = typed.to_lowercase().chars().take(100).collect();
    let near = known.into_iter().filter_map(|word| {
        let letters: Vec<char> = word.to_lowercase().chars().take(100).collect();
        let distance = differences(&typed, &letters);
        // One wrong letter in three, and never every letter.
        let allowed = (typed.len().max(letters.len()) / 3).max(1);
        (distance <= allowed && distance < letters.len()).then_some((distance, word))
    });
    near.min().map(|(_, word)| word)
}

/// Returns the number of letters that have to be added, dropped, replaced or swapped with their neighbour to make one
/// word of another.
fn differences(a: &[char], b: &[char]) -> usize {
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let above = &rows[i];
            let mut least = (above[j + 1] + 1)
                .min(row[j] + 1)
                .min(above[j] + usize::from(x != y));
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                least = least.min(rows[i - 1][j - 1] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

/// Free text of at most `MAX` bytes: not empty, no control characters but line breaks and tabs, and
/// no secret.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Text<const MAX: usize>(String);

impl<const MAX: usize> Text<MAX> {
    /// Cleans and checks `raw`; `what` names the field in errors. Refuses a text of which nothing is left, or that is
    /// longer than `MAX` bytes.
    pub fn parse(what: &str, raw: &str) -> Result<Self, Refusal> {
        // Measured before redaction too: a 10 MB text is refused, not searched.
        if raw.len() > MAX.saturating_mul(2) {
            return Err(too_long(what, raw.len(), MAX));
        }
        let one_line = MAX <= ONE_LINE;
        let clean = raw.chars().filter(|c| !is_control(*c)).map(|c| match c {
            '\n' | '\t' if one_line => ' ',
            c => c,
        });
        let text = redact(clean.collect::<String>().trim()).into_owned();
        match text.len() {
            0 => Err(Refusal::invalid(format!("the {what} is empty"))),
            length if length > MAX => Err(too_long(what, length, MAX)),
            _ => Ok(Self(text)),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn into_string(self) -> String {
        self.0
    }
}

fn is_control(c: char) -> bool {
    c.is_control() && c != '\n' && c != '\t'
}

fn too_long(what: &str, length: usize, max: usize) -> Refusal {
    Refusal::new(
        Code::TooLong,
        format!("the {what} has {length} bytes, and at most {max} are allowed"),
    )
    .hint("put the long version into a file and name the file")
}

impl<const MAX: usize> Deref for Text<MAX> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<const MAX: usize> fmt::Display for Text<MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<const MAX: usize> fmt::Debug for Text<MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

thread_local! {
    /// True while this thread reads a document that was cleaned before.
    static READS_STORED: Cell<bool> = const { Cell::new(false) };
}

/// Reads a document that the store holds and whose hash was checked. Its texts came through this door when they were
/// written, and are taken as they are: looking through all of them again would be most of what a checkpoint costs.
pub fn read_stored<T: DeserializeOwned>(text: &str) -> serde_json::Result<T> {
    struct Before(bool);
    impl Drop for Before {
        fn drop(&mut self) {
            READS_STORED.set(self.0);
        }
    }
    count::add(Work::Document);
    let _before = Before(READS_STORED.replace(true));
    serde_json::from_str(text)
}

/// Returns true while a document that the store holds is being read on this thread.
pub(crate) fn is_stored() -> bool {
    READS_STORED.get()
}

impl<'de, const MAX: usize> Deserialize<'de> for Text<MAX> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <Cow<'_, str>>::deserialize(deserializer)?;
        if READS_STORED.get() {
            return Ok(Self(raw.into_owned()));
        }
        Self::parse("text", &raw).map_err(serde::de::Error::custom)
    }
}

#[cfg(feature = "schema")]
impl<const MAX: usize> schemars::JsonSchema for Text<MAX> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("Text{MAX}").into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        // A text must not be empty after it was cleaned. Its length is counted in bytes.
        schemars::json_schema!({
            "type": "string",
            "minLength": 1,
            "maxLength": MAX,
            "pattern": "[^\\s\\u0000-\\u001f\\u007f-\\u009f]"
        })
    }
}

/// A name that people type and files carry: of an agent, a subtask, a criterion, an effect.
/// Letters, digits, `.`, `_`, `-`, `:`; 1 to 100 bytes; begins with a letter or a digit.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Name(String);

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Name {
    fn schema_name() -> Cow<'static, str> {
        "Name".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "A name that people type and files carry: of an agent, a subtask, a criterion, an effect",
            "type": "string",
            "pattern": "^[A-Za-z0-9][A-Za-z0-9._:-]{0,99}$"
        })
    }
}

impl Name {
    /// Checks `raw`; `what` names the field in errors. Refuses a text that holds a secret.
    pub fn parse(what: &str, raw: &str) -> Result<Self, Refusal> {
        let name = Self::parse_shape(what, raw)?;
        if contains_secret(raw) {
            return Err(Refusal::invalid(format!("the {what} looks like a secret")));
        }
        Ok(name)
    }

    fn parse_shape(what: &str, raw: &str) -> Result<Self, Refusal> {
        let fits = (1..=100).contains(&raw.len())
            && raw.starts_with(|c: char| c.is_ascii_alphanumeric())
            && raw
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"._-:".contains(&byte));
        if !fits {
            return Err(Refusal::invalid(format!("`{}` cannot be used as {what}", shown(raw)))
                .hint("use 1 to 100 letters, digits, `.`, `_`, `-` or `:`, beginning with a letter or a digit"));
        }
        Ok(Self(raw.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Name {
    /// The name that stands for a text: its words in lower case with dashes between, and where that cannot tell it from others,
    /// because it is long or has other letters, a few digits of its hash. Refuses a text that looks like it holds a secret.
    pub fn of_text(what: &str, text: &str) -> Result<Self, Refusal> {
        const LONGEST: usize = 48;
        let lower = text.to_lowercase();
        let words = lower.split(|c: char| !c.is_ascii_alphanumeric());
        let slug: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
        let slug = slug.join("-");
        let is_whole = slug.len() <= LONGEST && text.is_ascii() && !slug.is_empty();
        if is_whole {
            return Self::parse(what, &slug);
        }
        let hash = Sha256::digest(text.as_bytes());
        let digits: String = hash
            .iter()
            .take(4)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let start: String = slug.chars().take(LONGEST).collect();
        match start.trim_end_matches('-') {
            "" => Self::parse(what, &digits),
            start => Self::parse(what, &format!("{start}-{digits}")),
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <Cow<'_, str>>::deserialize(deserializer)?;
        // The rules for secrets change from version to version, and stored texts must be read for ever.
        let parse = if is_stored() {
            Self::parse_shape
        } else {
            Self::parse
        };
        parse("name", &raw).map_err(serde::de::Error::custom)
    }
}

/// Data from outside whose shape is its author's business. Texts in it are cleaned like any other.
#[derive(Clone, Debug, PartialEq, Serialize, Schema)]
#[serde(transparent)]
pub struct JsonData(serde_json::Value);

impl JsonData {
    pub const MAX_DEPTH: usize = 32;

    /// Cleans and checks `raw`. Refuses values nested deeper than [`JsonData::MAX_DEPTH`].
    pub fn new(raw: serde_json::Value) -> Result<Self, Refusal> {
        clean_data(raw, Self::MAX_DEPTH).map(Self)
    }

    pub fn parse(what: &str, text: &str) -> Result<Self, Refusal> {
        let raw = serde_json::from_str(text)
            .map_err(|error| Refusal::invalid(format!("the {what} is not JSON: {error}")))?;
        Self::new(raw)
    }
}

/// Text without control characters and secrets, whatever its length.
pub(crate) fn clean_text(raw: &str) -> String {
    redact(&without_controls(raw)).into_owned()
}

fn without_controls(raw: &str) -> String {
    raw.chars().filter(|c| !is_control(*c)).collect()
}

/// The text of a field: `"password": "hunter2"` is a secret only together with its key.
pub(crate) fn clean_field(key: &str, raw: &str) -> String {
    // Key and value are checked as they are kept: a control character must not hide what they say together.
    let (key, kept) = (without_controls(key), without_controls(raw));
    if contains_secret(&format!("{key}={kept}")) {
        return "[redacted:password]".to_owned();
    }
    redact(&kept).into_owned()
}

fn clean_data(raw: serde_json::Value, depth: usize) -> Result<serde_json::Value, Refusal> {
    use serde_json::Value;
    let Some(depth) = depth.checked_sub(1) else {
        return Err(Refusal::invalid(format!(
            "the data is nested deeper than {} levels",
            JsonData::MAX_DEPTH
        )));
    };
    Ok(match raw {
        Value::Null | Value::Bool(_) | Value::Number(_) => raw,
        Value::String(text) => Value::String(clean_text(&text)),
        Value::Array(items) => Value::Array(
            items
                .into_iter()
                .map(|item| clean_data(item, depth))
                .collect::<Result<_, _>>()?,
        ),
        Value::Object(fields) => {
            let clean = |(key, value): (String, Value)| {
                let value = match value {
                    Value::String(text) => Value::String(clean_field(&key, &text)),
                    value => clean_data(value, depth)?,
                };
                Ok::<_, Refusal>((clean_text(&key), value))
            };
            Value::Object(fields.into_iter().map(clean).collect::<Result<_, _>>()?)
        }
    })
}

impl<'de> Deserialize<'de> for JsonData {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(serde_json::Value::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_control_character_hides_no_secret_in_data() {
        for text in [
            r#"{"pass\u0001word":"hunter2"}"#,
            r#"{"password":"hun\u0001ter2"}"#,
            r#"{"in":{"pass\u200bword":"a","pass\u0000word":"hunter2"}}"#,
        ] {
            let data = JsonData::parse("data", text).unwrap();
            let kept = serde_json::to_string(&data).unwrap();
            assert!(!kept.contains("hunter2"), "{kept}");
            let again = JsonData::parse("data", &kept).unwrap();
            assert_eq!(again, data, "what was cleaned is clean");
        }
    }

    #[test]
    fn a_text_has_a_name_of_its_own() {
        let named = |text: &str| Name::of_text("criterion", text).unwrap().to_string();
        assert_eq!(named("All 29 files are there!"), "all-29-files-are-there");
        assert_eq!(named("Übersetzung fertig"), "bersetzung-fertig-42a70f47");
        assert_ne!(named("日本語"), named("日本"));
        let long = "a very long criterion ".repeat(5);
        assert!(named(&long).starts_with("a-very-long-criterion-") && named(&long).len() < 60);
        assert_ne!(named(&long), named(&format!("{long}!")));
    }

    #[test]
    fn a_slip_of_the_hand_is_recognised() {
        let known = ["checkpoint", "report", "ada", "bob"];
        for (typed, meant) in [
            ("chekpoint", Some("checkpoint")),
            ("adda", Some("ada")),
            ("bbo", Some("bob")),
            ("REPORT", Some("report")),
            ("nobody", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(closest(typed, known), meant, "{typed}");
        }
    }

    #[test]
    fn control_characters_go_and_line_breaks_stay() {
        let text = NoteText::parse("note", "a\0b\u{1b}[31mc\nd\te").unwrap();
        assert_eq!(text.as_str(), "ab[31mc\nd\te");
    }

    #[test]
    fn nothing_and_too_much_are_refused_with_the_field_named() {
        assert_eq!(
            NoteText::parse("note", " \0 ").unwrap_err().message,
            "the note is empty"
        );
        let long = Title::parse("title", &"x".repeat(501)).unwrap_err();
        assert_eq!(long.code, Code::TooLong);
        assert_eq!(
            long.message,
            "the title has 501 bytes, and at most 500 are allowed"
        );
    }

    #[test]
    fn a_secret_does_not_pass_the_door() {
        let text = NoteText::parse("note", "use password=hunter2hunter2 please").unwrap();
        assert!(!text.contains("hunter2"), "{text}");
        let json = serde_json::to_string("use password=hunter2hunter2 please").unwrap();
        assert!(
            !serde_json::from_str::<NoteText>(&json)
                .unwrap()
                .contains("hunter2")
        );
    }

    #[test]
    fn what_is_stored_is_read_as_it_is_and_nothing_else() {
        let json = serde_json::to_string("use password=hunter2hunter2 please").unwrap();
        assert!(read_stored::<NoteText>(&json).unwrap().contains("hunter2"));
        assert!(read_stored::<u8>(&json).is_err());
        let after: NoteText = serde_json::from_str(&json).unwrap();
        assert!(!after.contains("hunter2"), "the door is closed again");
    }

    #[test]
    fn a_stored_name_or_path_is_read_whatever_the_rules_for_secrets_have_become() {
        let key = format!("AKIA{}", "ABCDEFGH12345678");
        let json = serde_json::to_string(&key).unwrap();
        assert!(serde_json::from_str::<Name>(&json).is_err());
        assert_eq!(read_stored::<Name>(&json).unwrap().as_str(), key);
        assert!(serde_json::from_str::<crate::RepoPath>(&json).is_err());
        assert_eq!(read_stored::<crate::RepoPath>(&json).unwrap().as_str(), key);
        assert!(
            read_stored::<crate::RepoPath>("\"../x\"").is_err(),
            "it stays inside all the same"
        );
        assert!(read_stored::<Name>("\"a/b\"").is_err());
    }

    #[test]
    fn names_are_plain() {
        for good in ["ada", "Specialist-2", "agent_4", "29_files_created", "T060"] {
            assert!(Name::parse("name", good).is_ok(), "{good}");
        }
        for bad in ["", "-x", "a b", "a/b", "ä", "a\n", &"x".repeat(101)] {
            assert!(Name::parse("name", bad).is_err(), "{bad}");
        }
    }
}
