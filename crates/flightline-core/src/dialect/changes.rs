//! Tells the differences between two documents, in a few words each.

use super::json::Json;
use crate::redact::shown;

/// The number of differences that are named; the rest is counted.
const MOST: usize = 4;
/// The number of characters of a text that are shown.
const LONGEST: usize = 40;
/// Fields that say only when a document was written.
const TIMES: [&str; 8] = [
    "last_checkpoint",
    "next_checkpoint_expected",
    "coordination_state",
    "updated_at",
    "checkpoint_id",
    "heartbeat",
    "timestamp",
    "version",
];

/// Returns true when two documents say the same, but for the times of writing.
pub fn says_the_same(before: &Json, after: &Json) -> bool {
    let mut found = Vec::new();
    compare("", before, after, &mut found);
    found.is_empty()
}

/// Returns the changes of a document, the most telling first. A document of which only the times changed is a sign of
/// life.
pub fn changes(before: &Json, after: &Json) -> Vec<String> {
    let mut found = Vec::new();
    compare("", before, after, &mut found);
    let left_out = found.len().saturating_sub(MOST);
    found.truncate(MOST);
    if left_out > 0 {
        found.push(format!("{left_out} more"));
    }
    if found.is_empty() && before != after {
        found.push("a sign of life".to_owned());
    }
    found
}

fn compare(name: &str, before: &Json, after: &Json, found: &mut Vec<String>) {
    if before == after {
        return;
    }
    match (before, after) {
        (Json::Object(was), Json::Object(is)) => {
            for (key, value) in is {
                if name.is_empty() && TIMES.contains(&key.as_str()) {
                    continue;
                }
                let name = joined(name, key);
                compare(&name, before.get(key).unwrap_or(&Json::Null), value, found);
            }
            for (key, value) in was {
                let is_time = name.is_empty() && TIMES.contains(&key.as_str());
                if after.get(key).is_none() && *value != Json::Null && !is_time {
                    found.push(format!("{} is gone", joined(name, key)));
                }
            }
        }
        (Json::List(was), Json::List(is)) => found.extend(counted(name, was, is)),
        (_, Json::List(is)) => found.extend(counted(name, &[], is)),
        (before, Json::Object(is)) if *before == Json::Null && is.is_empty() => {}
        (_, after) => found.push(format!("{name} is {}", word(after))),
    }
}

fn joined(name: &str, key: &str) -> String {
    let key = cut(key);
    match name.is_empty() {
        true => key,
        false => format!("{name}.{key}"),
    }
}

/// Counts the items that a list has gained, lost and changed. Items with an `id` are known by it.
fn counted(name: &str, was: &[Json], is: &[Json]) -> Option<String> {
    let id = |item: &Json| item.get("id").unwrap_or(item).stringify();
    let (mut gained, mut changed) = (0, 0);
    for item in is {
        match was.iter().find(|before| id(before) == id(item)) {
            None => gained += 1,
            Some(before) => changed += usize::from(before != item),
        }
    }
    let still = |before: &&Json| is.iter().any(|item| id(item) == id(before));
    let lost = was.len() - was.iter().filter(still).count();
    let counts = [(gained, "new"), (changed, "changed"), (lost, "gone")];
    let said: Vec<String> = counts
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    (!said.is_empty()).then(|| format!("{name}: {}", said.join(", ")))
}

fn word(value: &Json) -> String {
    match value {
        Json::Text(text) => format!("\"{}\"", cut(text)),
        Json::Null => "empty".to_owned(),
        Json::Object(_) => "given".to_owned(),
        other => cut(&other.stringify()),
    }
}

fn cut(text: &str) -> String {
    let text = shown(text);
    match text.chars().count() > LONGEST {
        true => text.chars().take(LONGEST - 1).chain(['…']).collect(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(before: &str, after: &str, expected: &[&str]) {
        let json = |text: &str| Json::parse(text).unwrap();
        assert_eq!(changes(&json(before), &json(after)), expected);
    }

    #[test]
    fn what_changed_is_said_in_a_few_words() {
        check(
            r#"{"status":"IN_PROGRESS","steps":["a"],"updated_at":"1"}"#,
            r#"{"status":"WAITING","steps":["a","b"],"updated_at":"2"}"#,
            &["status is \"WAITING\"", "steps: 1 new"],
        );
        check(
            r#"{"subtasks":{"completed":1,"items":[{"id":"x","status":"pending"}]}}"#,
            r#"{"subtasks":{"completed":2,"items":[{"id":"x","status":"complete"}]}}"#,
            &["subtasks.completed is 2", "subtasks.items: 1 changed"],
        );
        check(r#"{"a":1,"b":2}"#, r#"{"a":1}"#, &["b is gone"]);
    }

    #[test]
    fn the_time_alone_is_a_sign_of_life() {
        check(
            r#"{"updated_at":"1"}"#,
            r#"{"updated_at":"2"}"#,
            &["a sign of life"],
        );
        check(r#"{"updated_at":"1"}"#, r#"{"updated_at":"1"}"#, &[]);
        let json = |text: &str| Json::parse(text).unwrap();
        let (one, two) = (json(r#"{"a":1,"updated_at":"1"}"#), json(r#"{"a":1}"#));
        assert!(says_the_same(&one, &two) && !says_the_same(&one, &json("{}")));
    }

    #[test]
    fn many_changes_are_counted_and_long_texts_are_cut() {
        check(
            "{}",
            r#"{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6}"#,
            &["a is 1", "b is 2", "c is 3", "d is 4", "2 more"],
        );
        let long = format!(r#"{{"a":"{}"}}"#, "x".repeat(100));
        let found = changes(&Json::parse("{}").unwrap(), &Json::parse(&long).unwrap());
        assert_eq!(found, [format!("a is \"{}…\"", "x".repeat(39))]);
    }
}
