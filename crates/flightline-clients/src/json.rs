//! Lenient access to another program's JSON: a wrong type counts as absent.

use std::borrow::Cow;

use serde_json::Value;

/// The object that the text holds. JavaScript cuts texts in the middle of a character and writes the half of it: that half is
/// replaced, so that one broken emoji does not hide an event.
pub fn object(text: &str) -> Option<Value> {
    let text = text.trim_start_matches('\u{feff}');
    let value: Value = serde_json::from_str(text)
        .or_else(|_| serde_json::from_str(&without_half_characters(text)))
        .ok()?;
    value.is_object().then_some(value)
}

/// The first of the fields that is a text with something in it.
pub fn text<'a>(body: &'a Value, keys: &[&str]) -> Option<&'a str> {
    let mut texts = keys.iter().filter_map(|key| body.get(key)?.as_str());
    texts.find(|it| !it.is_empty())
}

/// The first of the fields that is there and not null.
pub fn first<'a>(body: &'a Value, keys: &[&str]) -> Option<&'a Value> {
    let mut values = keys.iter().filter_map(|key| body.get(key));
    values.find(|it| !it.is_null())
}

/// The first of the fields that is a whole number, however it is written.
pub fn number(body: &Value, keys: &[&str]) -> Option<u64> {
    keys.iter().find_map(|key| whole(body.get(key)?))
}

/// A value that stays as it is, or that a text holds as JSON.
pub fn unwrapped(value: &Value) -> Cow<'_, Value> {
    let held = match value {
        Value::String(text) if text.trim_start().starts_with(['{', '[']) => {
            serde_json::from_str(text).ok()
        }
        _ => None,
    };
    held.map_or(Cow::Borrowed(value), Cow::Owned)
}

fn whole(value: &Value) -> Option<u64> {
    let float = || {
        let number = value.as_f64()?;
        // Beyond this a float is no exact whole number.
        (0.0..9.0e15).contains(&number).then_some(number as u64)
    };
    value.as_u64().or_else(float)
}

fn without_half_characters(text: &str) -> String {
    let mut whole = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        whole.push_str(before);
        let taken = match unit(escape) {
            Some(0xD800..=0xDBFF)
                if matches!(escape.get(6..).and_then(unit), Some(0xDC00..=0xDFFF)) =>
            {
                12
            }
            Some(0xD800..=0xDFFF) => {
                whole.push_str("\\ufffd");
                rest = escape.get(6..).unwrap_or_default();
                continue;
            }
            Some(_) => 6,
            None => 1 + escape.chars().nth(1).map_or(0, char::len_utf8),
        };
        let (kept, after) = escape.split_at(taken);
        whole.push_str(kept);
        rest = after;
    }
    whole.push_str(rest);
    whole
}

/// The number in `\uXXXX` at the beginning of the text.
fn unit(escape: &str) -> Option<u16> {
    let digits = escape.strip_prefix("\\u")?.get(..4)?;
    u16::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_a_character_does_not_hide_an_event() {
        let check = |json: &str, expected: &str| {
            let body = object(json).unwrap();
            assert_eq!(text(&body, &["a"]), Some(expected), "{json}");
        };
        check(r#"{"a":"x\ud83d"}"#, "x\u{fffd}");
        check(
            r#"{"a":"\udd25y\ud83d\udd25\ud83d"}"#,
            "\u{fffd}y🔥\u{fffd}",
        );
        check(r#"{"a":"\\ud83d\ud83d\"\n"}"#, "\\ud83d\u{fffd}\"\n");
        check("\u{feff}{\"a\":\"x\"}", "x");
        for broken in [
            r#"{"a":"\ud8"#,
            r#"{"a":"\"#,
            r#"{"a":"\é"}"#,
            r#"{"a":"\ud83d"#,
            r#"{"a":"\u+123"}"#,
        ] {
            assert_eq!(object(broken), None, "{broken}");
        }
    }

    #[test]
    fn a_wrong_type_is_the_same_as_nothing() {
        let body =
            object(r#"{"n":null,"s":"","t":"x","f":12.0,"neg":-1,"big":1e300,"l":[1]}"#).unwrap();
        assert_eq!(text(&body, &["n", "l", "s", "t"]), Some("x"));
        assert_eq!(number(&body, &["t", "neg", "big", "f"]), Some(12));
        assert_eq!(
            first(&body, &["none", "n", "l"]),
            Some(&serde_json::json!([1]))
        );
        assert_eq!(object("[]"), None);
        assert_eq!(object("null"), None);
        assert_eq!(object(&"[".repeat(100_000)), None);
    }
}
