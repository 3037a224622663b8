//! Explains in plain words why a JSON document does not fit its schema: the field, its value, and the value it must
//! have.

use flightline_core::Refusal;
use flightline_core::count::{self, Work};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Reads a JSON object as this type; `what` begins the sentence when it is none.
pub fn read<T: DeserializeOwned>(what: &str, text: &str) -> Result<T, Refusal> {
    count::add(Work::Request);
    // Read twice only when it does not fit at once: most numbers are written as ours.
    if text.trim_start().starts_with('{')
        && let Ok(read) = serde_json::from_str(text)
    {
        return Ok(read);
    }
    let mut value: Value = serde_json::from_str(text).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        Refusal::invalid(format!(
            "{what} is not JSON: it cannot be read from line {line}, column {column} on"
        ))
    })?;
    let is = match &value {
        Value::Object(_) => None,
        Value::Array(_) => Some("a list"),
        Value::String(_) => Some("a text"),
        Value::Number(_) => Some("a number"),
        Value::Bool(_) => Some("true or false"),
        Value::Null => Some("null"),
    };
    if let Some(is) = is {
        return Err(Refusal::invalid(format!(
            "{what} is {is}, and must be an object"
        )));
    }
    normalise_integers(&mut value);
    let text = value.to_string();
    serde_json::from_str(&text).map_err(|error| misfit(what, &text, &error))
}

/// Says why a text that is JSON does not fit. Where, is found by how far the reader came: to have every type note its path
/// would compile every type once more.
fn misfit(what: &str, text: &str, error: &serde_json::Error) -> Refusal {
    let path = path_at(text, error.column());
    Refusal::invalid(sentence(what, &path, &error.to_string()))
}

/// The path to the innermost value at `offset`, such as `plan.names[0]`: there a reader stopped, before a list or an object
/// that it did not want, or behind anything else. The text is JSON without white space.
fn path_at(text: &str, offset: usize) -> String {
    let mut path = String::new();
    let mut scan = Scan {
        bytes: text.as_bytes(),
        at: 0,
        offset,
    };
    match scan.value(&mut path) {
        true => path,
        false => String::new(),
    }
}

struct Scan<'a> {
    bytes: &'a [u8],
    at: usize,
    offset: usize,
}

impl Scan<'_> {
    /// Passes over a value; true when the place is in it, and `path` then leads there.
    fn value(&mut self, path: &mut String) -> bool {
        let (start, above) = (self.at, path.len());
        match self.next() {
            Some(open @ (b'{' | b'[')) => {
                let mut index = 0_usize;
                while !matches!(self.bytes.get(self.at), None | Some(b'}' | b']')) {
                    if self.bytes.get(self.at) == Some(&b',') {
                        self.at += 1;
                    }
                    if open == b'{' {
                        let key = self.at;
                        self.at += 1;
                        self.text();
                        let name = self.bytes.get(key + 1..self.at - 1).unwrap_or_default();
                        if !path.is_empty() {
                            path.push('.');
                        }
                        path.push_str(&String::from_utf8_lossy(name));
                        if self.is_in(key) {
                            return true;
                        }
                        // The colon.
                        self.at += 1;
                    } else {
                        path.push_str(&format!("[{index}]"));
                        index += 1;
                    }
                    if self.value(path) {
                        return true;
                    }
                    path.truncate(above);
                }
                self.at += 1;
            }
            Some(b'"') => self.text(),
            _ => {
                while !matches!(self.bytes.get(self.at), None | Some(b',' | b'}' | b']')) {
                    self.at += 1;
                }
            }
        }
        self.is_in(start)
    }

    /// Passes over a text whose first quote is behind us.
    fn text(&mut self) {
        while let Some(byte) = self.next() {
            match byte {
                b'"' => return,
                b'\\' => self.at += 1,
                _ => {}
            }
        }
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.bytes.get(self.at).copied();
        self.at += 1;
        byte
    }

    fn is_in(&self, start: usize) -> bool {
        start <= self.offset && self.offset <= self.at
    }
}

/// JSON has one kind of number: `5.0` is 5.
fn normalise_integers(value: &mut Value) {
    match value {
        Value::Number(number) => {
            let text = number.to_string();
            let whole = text
                .strip_suffix(".0")
                .and_then(|text| text.parse::<i64>().ok());
            if let Some(whole) = whole {
                *number = whole.into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(normalise_integers),
        Value::Object(fields) => fields.values_mut().for_each(normalise_integers),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// The fault at a place in a document, made of serde's message.
pub fn sentence(what: &str, path: &str, why: &str) -> String {
    // The reader adds the place in the text, where it knows one.
    let why = why.split(" at line ").next().unwrap_or(why);
    let at = match path {
        "" | "." | "?" => what.to_owned(),
        path => format!("`{path}` of {what}"),
    };
    if let Some(field) = why.strip_prefix("missing field ") {
        return format!("{at} lacks {field}");
    }
    if let Some(rest) = why.strip_prefix("unknown field ") {
        // The path ends with the field; the object that has it comes before.
        let at = match path.rsplit_once('.') {
            Some((above, _)) => format!("`{above}` of {what}"),
            None => what.to_owned(),
        };
        return format!("{at} has {}", one_of(rest, "which is none of its fields"));
    }
    if let Some(rest) = why.strip_prefix("unknown variant ") {
        return format!("{at} is {}", one_of(rest, "which is none of its words"));
    }
    for begin in ["invalid type: ", "invalid value: ", "invalid length "] {
        let rest = why.strip_prefix(begin);
        if let Some((found, expected)) = rest.and_then(|rest| rest.split_once(", expected ")) {
            return format!("{at} is {}, and must be {}", is(found), must_be(expected));
        }
    }
    format!("{at} does not fit: {why}")
}

/// A name that is not known, and those that are.
fn one_of(rest: &str, none: &str) -> String {
    match rest.split_once(", expected ") {
        Some((name, known)) => {
            let known = known.strip_prefix("one of ").unwrap_or(known);
            format!("{name}, {none}: {known}")
        }
        None => {
            let name = rest.split(", there are no").next().unwrap_or(rest);
            format!("{name}, {none}")
        }
    }
}

fn is(found: &str) -> String {
    let bare = |word: &str| {
        let value = found.strip_prefix(word)?;
        Some(value.trim().trim_matches('`').to_owned())
    };
    let number = bare("integer").or_else(|| bare("floating point"));
    if let Some(number) = number {
        return format!("the number {number}");
    }
    if let Some(text) = bare("string") {
        return format!("the text {text}");
    }
    match bare("boolean") {
        Some(word) => word,
        None => match found {
            "sequence" => "a list".to_owned(),
            "map" => "an object".to_owned(),
            "unit value" | "null" => "null".to_owned(),
            "Option value" | "newtype variant" => "something else".to_owned(),
            other => format!("of the wrong kind ({other})"),
        },
    }
}

fn must_be(expected: &str) -> String {
    match expected {
        "u8" => "a whole number from 0 to 255".to_owned(),
        "u16" | "u32" | "u64" | "usize" => "a whole number that is not negative".to_owned(),
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number".to_owned(),
        "f32" | "f64" => "a number".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "a string" | "a borrowed string" | "str" => "a text".to_owned(),
        "a sequence" => "a list".to_owned(),
        "a map" => "an object".to_owned(),
        "unit" => "null".to_owned(),
        other if other.starts_with("struct ") || other.contains("tagged enum ") => {
            "an object".to_owned()
        }
        other if other.starts_with("enum ") || other.contains("variant identifier") => {
            "one of its words".to_owned()
        }
        other if other.starts_with("tuple ") || other.starts_with("an array of length") => {
            "a list".to_owned()
        }
        other => other.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only reading them matters")]
    struct Asked {
        plan: Plan,
        #[serde(default)]
        dry_run: bool,
        word: Option<Word>,
    }

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only reading them matters")]
    struct Plan {
        keep: Option<u64>,
        names: Vec<String>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Word {
        Pin,
        Note,
    }

    #[test]
    fn it_is_said_which_field_is_wrong_and_how_without_words_of_the_language() {
        let body = "the body";
        for (text, expected) in [
            ("[]", "the body is a list, and must be an object"),
            ("null", "the body is null, and must be an object"),
            (
                "{",
                "the body is not JSON: it cannot be read from line 1, column 1 on",
            ),
            ("{}", "the body lacks `plan`"),
            (r#"{"plan":{}}"#, "`plan` of the body lacks `names`"),
            (
                r#"{"plan":{"names":[],"keep":"x"}}"#,
                "`plan.keep` of the body is the text \"x\", and must be a whole number that is not negative",
            ),
            (
                r#"{"plan":{"names":[1]}}"#,
                "`plan.names[0]` of the body is the number 1, and must be a text",
            ),
            (
                r#"{"plan":7}"#,
                "`plan` of the body is the number 7, and must be an object",
            ),
            (
                r#"{"plan":{"names":[]},"dry_run":"yes"}"#,
                "`dry_run` of the body is the text \"yes\", and must be true or false",
            ),
            (
                r#"{"plan":{"names":[]},"word":"pon"}"#,
                "`word` of the body is `pon`, which is none of its words: `pin` or `note`",
            ),
            (
                r#"{"plan":{"names":["a\"]}","b",{"c":[{}]}]}}"#,
                "`plan.names[2]` of the body is an object, and must be a text",
            ),
            (
                r#"{"plan": {"names": ["a", null]}, "dry_run": true}"#,
                "`plan.names[1]` of the body is null, and must be a text",
            ),
            (
                r#"{"dry_run":true,"plan":[{"names":[]}]}"#,
                "`plan[0]` of the body is an object, and must be a whole number that is not negative",
            ),
        ] {
            let refusal = read::<Asked>(body, text).unwrap_err();
            assert_eq!(refusal.message, expected, "{text}");
        }
        let unknown = read::<Asked>(body, r#"{"dryrun":true}"#).unwrap_err();
        assert_eq!(
            unknown.message,
            "the body has `dryrun`, which is none of its fields: `plan`, `dry_run`, `word`"
        );
    }
}
