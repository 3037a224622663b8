//! Makes and applies deltas between a value and an earlier one of its subject. A delta lists the parts of the earlier text
//! that the new text keeps, and the new text between them: `[[1,120],"halfway",[128,40]]` is 120 characters from the first
//! on, a word, and 40 characters from the 128th on. A delta is JSON, and counts characters from one, so that SQL can put
//! the text together as well: the view `event_text` does.
//!
//! Every delta is against a whole value, never against another delta: a value takes two rows to read, and one that is thinned or damaged
//! takes no other with it, unless it is the whole one.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// The number of deltas of a subject after which a value is kept whole.
pub(crate) const DELTAS: u64 = 15;

/// The length in bytes below which a part is not worth a reference.
const SHORTEST: usize = 16;
/// The most bytes of a value: a delta that makes a longer one was damaged.
const LONGEST: usize = 1024 * 1024;

/// A whole value in the journal, which is the base of the next deltas of its subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Base {
    pub(crate) rev: u64,
    pub(crate) text: Arc<str>,
    pub(crate) deltas: u64,
}

impl Base {
    /// Returns the delta that gives `text`, or none when `text` has to be kept whole.
    pub(crate) fn delta(&self, text: &str) -> Option<String> {
        match self.deltas < DELTAS {
            true => between(&self.text, text),
            false => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
enum Part<'a> {
    /// The first character of the part in the base, counted from one, and the number of characters.
    Copy(usize, usize),
    New(Cow<'a, str>),
}

/// Reads a part by its JSON type. Serde's own way for such types keeps a copy of everything it has read, to try again.
impl<'de: 'a, 'a> Deserialize<'de> for Part<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PartVisitor)
    }
}

struct PartVisitor;

impl<'de> Visitor<'de> for PartVisitor {
    type Value = Part<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, or two numbers")
    }

    fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Part<'de>, E> {
        Ok(Part::New(Cow::Borrowed(text)))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Part<'de>, E> {
        Ok(Part::New(Cow::Owned(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut numbers: A) -> Result<Part<'de>, A::Error> {
        let mut next = |at: usize| -> Result<usize, A::Error> {
            let number = numbers.next_element()?;
            number.ok_or_else(|| de::Error::invalid_length(at, &self))
        };
        let part = Part::Copy(next(0)?, next(1)?);
        match numbers.next_element::<usize>()? {
            None => Ok(part),
            Some(_) => Err(de::Error::invalid_length(3, &self)),
        }
    }
}

/// A piece of the new text: its place there, and, when the base has it too, its beginning there. In bytes.
struct Piece {
    at: Range<usize>,
    from: Option<usize>,
}

/// Returns the delta that makes `text` out of `base`, or none when it is not much shorter.
fn between(base: &str, text: &str) -> Option<String> {
    let parts: Vec<Part<'_>> = pieces(base, text)
        .into_iter()
        .map(|Piece { at, from }| match from {
            Some(from) => Part::Copy(length(&base[..from]) + 1, length(&text[at])),
            None => Part::New(Cow::Borrowed(&text[at])),
        })
        .collect();
    let delta = serde_json::to_string(&parts).ok()?;
    let short = delta.len() * 2 <= text.len();
    // However a delta was made, it is kept only if it gives back the very text.
    (short && apply(base, &delta).as_deref() == Some(text)).then_some(delta)
}

/// Returns the text that a delta makes out of `base`, or none when it is no delta, or not as it was written.
pub(crate) fn apply(base: &str, delta: &str) -> Option<String> {
    let parts: Vec<Part<'_>> = serde_json::from_str(delta).ok()?;
    // Two deltas that are read alike and written differently are not the same: nothing that is stored goes unseen.
    if serde_json::to_string(&parts).ok()? != delta {
        return None;
    }
    let mut text = String::with_capacity(base.len() + delta.len());
    for part in &parts {
        match part {
            Part::Copy(first, count) => text.push_str(copied(base, *first, *count)?),
            Part::New(new) => text.push_str(new),
        }
        if text.len() > LONGEST {
            return None;
        }
    }
    Some(text)
}

/// Returns `count` characters of a text, from the character `first` on.
fn copied(base: &str, first: usize, count: usize) -> Option<&str> {
    let first = first.checked_sub(1)?;
    if base.is_ascii() {
        return base.get(first..first.checked_add(count)?);
    }
    let begin = offset(base, first)?;
    let rest = &base[begin..];
    rest.get(..offset(rest, count)?)
}

/// Returns the byte at which a character of a text begins; the end, for the character after the last.
fn offset(text: &str, character: usize) -> Option<usize> {
    let ends = std::iter::once(text.len());
    let begins = text.char_indices().map(|(at, _)| at);
    begins.chain(ends).nth(character)
}

fn length(text: &str) -> usize {
    match text.is_ascii() {
        true => text.len(),
        false => text.chars().count(),
    }
}

/// Splits `text` into pieces, in order: fields that `base` has as they are, and of other fields the common beginnings and
/// ends.
fn pieces(base: &str, text: &str) -> Vec<Piece> {
    let known = fields(base);
    let mut pieces = Vec::new();
    for (number, at) in fields(text).into_iter().enumerate() {
        let name = name(&text[at.clone()]);
        let is_it = |field: &&Range<usize>| self::name(&base[field.start..field.end]) == name;
        // Almost always they come in the same order.
        let same_place = known.get(number).filter(is_it);
        match same_place.or_else(|| known.iter().find(is_it)) {
            Some(field) => compare(base, field, text, &at, &mut pieces),
            None => add(&mut pieces, at, None),
        }
    }
    inline_short_pieces(pieces)
}

/// Finds the beginning and the end that a field has in common with the base's field of that name.
fn compare(
    base: &str,
    field: &Range<usize>,
    text: &str,
    at: &Range<usize>,
    pieces: &mut Vec<Piece>,
) {
    let (old, new) = (&base[field.clone()], &text[at.clone()]);
    let pairs = old.bytes().zip(new.bytes());
    let mut head = pairs.take_while(|(a, b)| a == b).count();
    while !new.is_char_boundary(head) {
        head -= 1;
    }
    let pairs = old
        .bytes()
        .skip(head)
        .rev()
        .zip(new.bytes().skip(head).rev());
    let mut tail = pairs.take_while(|(a, b)| a == b).count();
    while !new.is_char_boundary(new.len() - tail) {
        tail -= 1;
    }
    add(pieces, at.start..at.start + head, Some(field.start));
    add(pieces, at.start + head..at.end - tail, None);
    add(pieces, at.end - tail..at.end, Some(field.end - tail));
}

/// Adds a piece, or joins it to the one before when it continues that.
fn add(pieces: &mut Vec<Piece>, at: Range<usize>, from: Option<usize>) {
    if at.is_empty() {
        return;
    }
    if let Some(last) = pieces.last_mut() {
        let goes_on = match (last.from, from) {
            (Some(before), Some(from)) => before + last.at.len() == from,
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        if goes_on {
            last.at.end = at.end;
            return;
        }
    }
    pieces.push(Piece { at, from });
}

/// Writes out the pieces that are too short for a reference.
fn inline_short_pieces(pieces: Vec<Piece>) -> Vec<Piece> {
    let mut whole = Vec::with_capacity(pieces.len());
    for Piece { at, from } in pieces {
        let from = from.filter(|_| at.len() >= SHORTEST);
        add(&mut whole, at, from);
    }
    whole
}

/// Splits a JSON object into its fields, each with the text before it, and the closing text; any other text is one piece.
fn fields(text: &str) -> Vec<Range<usize>> {
    let (mut fields, mut begin, mut depth) = (Vec::new(), 0, 0_usize);
    let (mut quoted, mut escaped) = (false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    fields.push(begin..at);
                    begin = at;
                }
            }
            b',' if depth == 1 => {
                fields.push(begin..at);
                begin = at;
            }
            _ => {}
        }
    }
    fields.push(begin..text.len());
    fields
}

fn name(field: &str) -> Option<&str> {
    field.split('"').nth(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(number: usize, value: &str) -> String {
        format!("\"field_{number}\":{value}")
    }

    fn object(values: &[String]) -> String {
        let fields: Vec<String> = values
            .iter()
            .enumerate()
            .map(|(number, value)| field(number, value))
            .collect();
        format!("{{{}}}", fields.join(","))
    }

    fn long() -> Vec<String> {
        (0..20)
            .map(|number| format!("\"the value of field {number}, in some words\""))
            .collect()
    }

    #[test]
    fn what_changed_is_told_and_the_rest_is_pointed_at() {
        let base = object(&long());
        let mut values = long();
        values[3] = "\"halfway\"".to_owned();
        values[17] = "null".to_owned();
        let text = object(&values);
        let delta = between(&base, &text).unwrap();
        assert_eq!(delta, "[[1,156],\"halfway\",[192,651],\"null\",[881,101]]");
        assert_eq!(apply(&base, &delta).unwrap(), text);
    }

    #[test]
    fn a_delta_that_is_not_as_it_was_written_gives_nothing() {
        let base = object(&long());
        let mut values = long();
        values[3] = "\"halfway\"".to_owned();
        let delta = between(&base, &object(&values)).unwrap();
        let last = delta.len() - 1;
        let longer = (base.len() + 1).to_string();
        for damaged in [
            format!("{delta} "),
            format!(" {delta}"),
            delta[..last].to_owned(),
            delta.replacen('h', "\\u0068", 1),
            delta.replacen("[1,", "[0,", 1),
            delta.replacen("[1,", "[-1,", 1),
            delta.replacen("[1,", &format!("[{longer},"), 1),
            delta.replacen("[1,", "[18446744073709551615,", 1),
            base.clone(),
            String::new(),
        ] {
            assert_eq!(apply(&base, &damaged), None, "{damaged}");
        }
    }

    #[test]
    fn what_is_short_or_all_new_is_kept_whole() {
        assert_eq!(between("{\"a\":1}", "{\"a\":2}"), None);
        let base = object(&long());
        let other = base.replace("the value", "quite another thing");
        assert_eq!(between(&base, &other), None);
        assert_eq!(between("", &base), None);
    }

    #[test]
    fn a_base_is_used_so_often_and_no_more() {
        let mut base = Base {
            rev: 1,
            text: object(&long()).into(),
            deltas: DELTAS - 1,
        };
        let text = object(&long()).replace("field 7", "field seven");
        assert!(base.delta(&text).is_some());
        base.deltas += 1;
        assert_eq!(base.delta(&text), None);
    }

    /// Every text comes back as it was: other orders of fields, fields that came or went, letters of several bytes,
    /// escapes, and texts that are not JSON.
    #[test]
    fn every_text_comes_back_exactly() {
        let words = [
            "\"ü\"",
            "\"→ ↑\"",
            "\"\\\"{[,\\\\\"",
            "null",
            "[1,{\"a\":\"}\"},3]",
            "{}",
            "\"𝄞𝄞𝄞\"",
            "0.5",
            "true",
            "\"a longer text with a comma, a {brace} and ümläuts\"",
        ];
        let mut seed = 7_u64;
        let mut chance = |below: usize| {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(seed >> 33).unwrap() % below
        };
        let (mut before, mut deltas) = (String::new(), 0);
        for _ in 0..3_000 {
            let mut values: Vec<String> = long();
            for _ in 0..chance(5) {
                let place = chance(values.len());
                values[place] = words[chance(words.len())].to_owned();
            }
            let mut text = object(&values);
            match chance(8) {
                0 => values.reverse(),
                1 => text = text.replacen("\"field_", "\"other_", chance(6)),
                2 => text.truncate(text.floor_char_boundary(chance(text.len()))),
                3 => text = text.chars().rev().collect(),
                _ => {}
            }
            for (base, text) in [(&before, &text), (&text, &before)] {
                let parts: Vec<Part<'_>> = pieces(base, text)
                    .into_iter()
                    .map(|Piece { at, from }| match from {
                        Some(from) => Part::Copy(length(&base[..from]) + 1, length(&text[at])),
                        None => Part::New(Cow::Borrowed(&text[at])),
                    })
                    .collect();
                let delta = serde_json::to_string(&parts).unwrap();
                assert_eq!(apply(base, &delta).as_ref(), Some(text), "{base}\n{delta}");
                deltas += usize::from(between(base, text).is_some());
            }
            before = text;
        }
        assert!(deltas > 1_000, "{deltas}");
    }
}
