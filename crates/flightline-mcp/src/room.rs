//! Bounds the size of an answer to a model: pages of lists, cuts of long texts.

use flightline::core::briefing::estimate_tokens;
use flightline::core::redact::shown;
use flightline::core::{Code, Refusal};
use serde_json::{Map, Value, json};

/// The most tokens of a result.
pub(crate) const MOST: usize = 4_000;
/// The tokens that are left for the fields around a list.
const AROUND: usize = 100;
/// The length in bytes above which a text may be cut.
const LONG: usize = 400;

pub(crate) type FieldMap = Map<String, Value>;

pub(crate) fn tokens(value: &Value) -> usize {
    estimate_tokens(&value.to_string())
}

/// A value without the fields that are null: a model reads nothing from them.
pub(crate) fn without_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(without_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(without_nulls),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The part of a list that follows `cursor` and fits, and the cursor of the part after it. An item is known by the value at
/// `id` in it.
pub(crate) fn page(
    items: Vec<Value>,
    id: &str,
    cursor: Option<&str>,
) -> Result<(Vec<Value>, Option<String>), Refusal> {
    let id_of = |item: &Value| item.pointer(id).map(to_text).unwrap_or_default();
    let from = match cursor {
        None => 0,
        Some(cursor) => {
            let last = items.iter().position(|item| id_of(item) == cursor);
            let last = last.ok_or_else(|| {
                Refusal::new(
                    Code::HistoryChanged,
                    format!("nothing in this list has the cursor `{}`", shown(cursor)),
                )
                .hint("call again without a cursor")
            })?;
            last + 1
        }
    };
    let (mut page, mut room) = (Vec::new(), MOST - AROUND);
    let mut rest = items.into_iter().skip(from).peekable();
    while let Some(mut item) = rest.next_if(|item| page.is_empty() || tokens(item) < room) {
        if tokens(&item) > room {
            fit(&mut item, room);
        }
        room = room.saturating_sub(tokens(&item) + 1);
        page.push(item);
    }
    let next = rest.peek().and_then(|_| page.last()).map(id_of);
    Ok((page, next))
}

/// A text or number without quotes.
pub(crate) fn to_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A text that is no longer than a result may be; the last line says how much was cut off.
pub(crate) fn cut(text: String) -> String {
    if estimate_tokens(&text) <= MOST {
        return text;
    }
    let all = text.chars().count();
    let mut kept = all;
    let mut begin = text;
    while estimate_tokens(&begin) > MOST - AROUND {
        kept = kept * 9 / 10;
        begin = begin.chars().take(kept).collect();
    }
    format!("{begin}\n… {} more characters are left out", all - kept)
}

/// Cuts the longest lists and texts of an object until it fits, and says in `left_out` how much of each is missing.
pub(crate) fn fit(value: &mut Value, most: usize) {
    let mut left_out = FieldMap::new();
    while tokens(value) + 20 * left_out.len() > most {
        let Some(path) = largest(value) else {
            break;
        };
        let Some(part) = value.pointer_mut(&path) else {
            break;
        };
        let missing = match part {
            Value::Array(items) => {
                let kept = items.len() / 2;
                let missing = items.len() - kept;
                items.truncate(kept);
                missing
            }
            Value::String(text) => {
                let kept = text.chars().count() / 2;
                let missing = text.chars().count() - kept;
                *text = text.chars().take(kept).chain(['…']).collect();
                missing
            }
            _ => break,
        };
        let before = left_out.get(&path).and_then(Value::as_u64).unwrap_or(0);
        let name = path.clone();
        left_out.insert(name, json!(before + u64::try_from(missing).unwrap_or(0)));
    }
    if let (false, Value::Object(fields)) = (left_out.is_empty(), value) {
        fields.insert("left_out".to_owned(), Value::Object(left_out));
    }
}

/// Finds the place of the largest list or long text in a value.
fn largest(value: &Value) -> Option<String> {
    let mut found = Vec::new();
    collect(value, &mut String::new(), &mut found);
    let largest = found.into_iter().max_by_key(|(_, size)| *size);
    largest.map(|(path, _)| path)
}

fn collect(value: &Value, path: &mut String, found: &mut Vec<(String, usize)>) {
    let mut below = |name: &str, value: &Value, found: &mut Vec<(String, usize)>| {
        let length = path.len();
        path.push('/');
        path.push_str(&name.replace('~', "~0").replace('/', "~1"));
        collect(value, path, found);
        path.truncate(length);
    };
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                below(name, value, found);
            }
        }
        // The parts of a list go with its items, unless there is only one item.
        Value::Array(items) if items.len() == 1 => below("0", &items[0], found),
        Value::Array(items) if !items.is_empty() => found.push((path.clone(), tokens(value))),
        Value::String(text) if text.len() > LONG => {
            found.push((path.clone(), estimate_tokens(text)));
        }
        Value::Array(_) | Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_given_in_parts_that_fit() {
        let item =
            |number: usize| json!({ "id": format!("x-{number}"), "text": "word ".repeat(40) });
        let all: Vec<Value> = (0..200).map(item).collect();
        let (mut seen, mut cursor, mut parts) = (Vec::new(), None, 0);
        loop {
            let (page, next) = page(all.clone(), "/id", cursor.as_deref()).unwrap();
            assert!(tokens(&json!(page)) <= MOST);
            seen.extend(page);
            parts += 1;
            match next {
                Some(next) => cursor = Some(next),
                None => break,
            }
        }
        assert_eq!(seen, all);
        assert!(parts > 2);
        assert!(page(all, "/id", Some("gone")).is_err());
    }

    #[test]
    fn one_large_object_is_cut_and_says_so() {
        let many: Vec<Value> = (0..2_000).map(|number| json!({ "id": number })).collect();
        let mut value = json!({ "title": "M", "a": { "many": many }, "text": "x".repeat(50_000) });
        fit(&mut value, MOST);
        assert!(tokens(&value) <= MOST, "{}", tokens(&value));
        let kept = value["a"]["many"].as_array().unwrap().len();
        assert_eq!(value["left_out"]["/a/many"], json!(2_000 - kept));
        assert_eq!(value["title"], "M");
        let (one, next) = page(
            vec![json!({ "id": 1, "text": "y".repeat(50_000) })],
            "/id",
            None,
        )
        .unwrap();
        assert!(tokens(&json!(one)) <= MOST && next.is_none());
    }

    #[test]
    fn a_long_letter_is_cut_and_says_so() {
        let letter = "Dear Ada, 1234. ".repeat(2_000);
        let shown = cut(letter.clone());
        assert!(estimate_tokens(&shown) <= MOST);
        let (begin, rest) = shown.split_once("\n… ").unwrap();
        let missing: usize = rest.split(' ').next().unwrap().parse().unwrap();
        assert_eq!(begin.chars().count() + missing, letter.chars().count());
        assert_eq!(cut("short".to_owned()), "short");
    }

    #[test]
    fn what_is_small_stays_as_it_is() {
        let mut value = json!({ "a": [1, 2], "b": null });
        fit(&mut value, MOST);
        assert_eq!(value, json!({ "a": [1, 2], "b": null }));
        without_nulls(&mut value);
        assert_eq!(value, json!({ "a": [1, 2] }));
    }
}
