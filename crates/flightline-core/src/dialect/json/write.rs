//! Writing JSON text: for people, and as JavaScript does.

use std::fmt::Write as _;

use super::{Json, Number};

pub(super) fn pretty(json: &Json, one_line: &[&str]) -> String {
    let mut text = String::new();
    block(&mut text, json, 0, one_line);
    text
}

fn block(text: &mut String, json: &Json, level: usize, one_line: &[&str]) {
    match json {
        Json::List(items) if !items.is_empty() => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                next_line(text, index > 0, level + 1);
                block(text, item, level + 1, one_line);
            }
            next_line(text, false, level);
            text.push(']');
        }
        Json::Object(fields) if !fields.is_empty() => {
            text.push('{');
            for (index, (key, value)) in fields.iter().enumerate() {
                next_line(text, index > 0, level + 1);
                quoted(text, key);
                text.push_str(": ");
                if one_line.contains(&key.as_str()) {
                    lines(text, value, level + 1);
                } else {
                    block(text, value, level + 1, one_line);
                }
            }
            next_line(text, false, level);
            text.push('}');
        }
        _ => line(text, json),
    }
}

/// A value on one line, or a list of objects with each of them on one.
fn lines(text: &mut String, json: &Json, level: usize) {
    let objects = |items: &[Json]| items.iter().any(|item| matches!(item, Json::Object(_)));
    match json {
        Json::List(items) if objects(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                next_line(text, index > 0, level + 1);
                line(text, item);
            }
            next_line(text, false, level);
            text.push(']');
        }
        _ => line(text, json),
    }
}

fn line(text: &mut String, json: &Json) {
    match json {
        Json::Null => text.push_str("null"),
        Json::Bool(value) => text.push_str(if *value { "true" } else { "false" }),
        // Writing to a String cannot fail.
        Json::Number(number) => drop(write!(text, "{number}")),
        Json::Text(value) => quoted(text, value),
        Json::List(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                text.push_str(if index > 0 { ", " } else { "" });
                line(text, item);
            }
            text.push(']');
        }
        Json::Object(fields) => {
            text.push('{');
            for (index, (key, value)) in fields.iter().enumerate() {
                text.push_str(if index > 0 { ", " } else { "" });
                quoted(text, key);
                text.push_str(": ");
                line(text, value);
            }
            text.push('}');
        }
    }
}

fn next_line(text: &mut String, comma: bool, level: usize) {
    text.push_str(if comma { ",\n" } else { "\n" });
    for _ in 0..level {
        text.push_str("  ");
    }
}

/// Text in quotes, escaped as JavaScript and `serde_json` do.
fn quoted(text: &mut String, value: &str) {
    text.push('"');
    for c in value.chars() {
        match c {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\u{8}' => text.push_str("\\b"),
            '\t' => text.push_str("\\t"),
            '\n' => text.push_str("\\n"),
            '\u{c}' => text.push_str("\\f"),
            '\r' => text.push_str("\\r"),
            c if c < ' ' => drop(write!(text, "\\u{:04x}", u32::from(c))),
            c => text.push(c),
        }
    }
    text.push('"');
}

pub(super) fn stringify(json: &Json) -> String {
    let mut text = String::new();
    compact(&mut text, json);
    text
}

fn compact(text: &mut String, json: &Json) {
    match json {
        Json::Null | Json::Bool(_) | Json::Text(_) => line(text, json),
        Json::Number(number) => text.push_str(&js_number(number)),
        Json::List(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                text.push_str(if index > 0 { "," } else { "" });
                compact(text, item);
            }
            text.push(']');
        }
        Json::Object(fields) => {
            text.push('{');
            for (index, (key, value)) in js_order(fields).into_iter().enumerate() {
                text.push_str(if index > 0 { "," } else { "" });
                quoted(text, key);
                text.push(':');
                compact(text, value);
            }
            text.push('}');
        }
    }
}

/// A JavaScript object lists keys that are array indices first, by number, and then the others as they
/// came.
fn js_order(fields: &[(String, Json)]) -> Vec<&(String, Json)> {
    let mut order: Vec<&(String, Json)> = fields.iter().collect();
    order.sort_by_key(|(key, _)| array_index(key).map_or(u64::MAX, u64::from));
    order
}

fn array_index(key: &str) -> Option<u32> {
    let index: u32 = key.parse().ok()?;
    (index < u32::MAX && index.to_string() == key).then_some(index)
}

/// The number as JavaScript writes it: the shortest digits that mean the same double, with an exponent
/// from 10²¹ on and below 10⁻⁶.
fn js_number(number: &Number) -> String {
    let value = number.as_f64();
    if value == 0.0 {
        return "0".to_owned();
    }
    // Rust finds the same shortest digits, and writes them as `-1.2345e-7`.
    let scientific = format!("{value:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", mantissa),
    };
    let digits = mantissa.replace('.', "");
    let zeros = |count: i32| "0".repeat(usize::try_from(count).unwrap_or(0));
    let before_point = exponent + 1;
    let count = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    let body = match exponent {
        0..21 if count <= before_point => digits.clone() + &zeros(before_point - count),
        0..21 => {
            let (whole, fraction) = digits.split_at(usize::try_from(before_point).unwrap_or(0));
            format!("{whole}.{fraction}")
        }
        -6..0 => format!("0.{}{digits}", zeros(-before_point)),
        _ => {
            let plus = if exponent < 0 { "" } else { "+" };
            format!("{mantissa}e{plus}{exponent}")
        }
    };
    format!("{sign}{body}")
}
