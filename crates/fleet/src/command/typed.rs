//! Parses typed texts into the types of requests.

use std::io::Read;

use flightline::core::text::{NoteText, Text};
use flightline::core::time::{Millis, parse_span};
use flightline::core::{Body, Code, Name, Refusal, Title};

/// Parses a text of at most `MAX` bytes; `-` reads it from stdin.
pub fn text<const MAX: usize>(what: &str, typed: &str) -> Result<Text<MAX>, Refusal> {
    if typed == "-" {
        Text::parse(what, &stdin(what, MAX)?)
    } else {
        Text::parse(what, typed)
    }
}

pub fn title(what: &str, typed: &str) -> Result<Title, Refusal> {
    text(what, typed)
}

pub fn titles(what: &str, typed: &[String]) -> Result<Vec<Title>, Refusal> {
    typed.iter().map(|one| title(what, one)).collect()
}

/// Parses a note; `-` reads it from stdin.
pub fn note(what: &str, typed: &str) -> Result<NoteText, Refusal> {
    text(what, typed)
}

/// Parses the body of a message; `-` reads it from stdin.
pub fn body(typed: &str) -> Result<Body, Refusal> {
    text("body", typed)
}

/// Parses a name; or makes the name that stands for a free text, and returns that text too.
pub fn labelled(what: &str, typed: &str) -> Result<(Name, Option<Title>), Refusal> {
    match Name::parse(what, typed) {
        Ok(name) => Ok((name, None)),
        Err(_) => {
            let title = title(what, typed)?;
            Ok((Name::of_text(what, &title)?, Some(title)))
        }
    }
}

pub fn name(what: &str, typed: &str) -> Result<Name, Refusal> {
    Name::parse(what, typed)
}

/// Parses a value that may be left out.
pub fn maybe<T>(
    typed: Option<&String>,
    read: impl FnOnce(&str) -> Result<T, Refusal>,
) -> Result<Option<T>, Refusal> {
    typed.map(|typed| read(typed)).transpose()
}

/// Parses a duration such as `15m`.
pub fn span(typed: &str) -> Result<Millis, String> {
    parse_span(typed, "s")
}

/// Reads all of stdin as UTF-8, and not more than a field can hold.
pub fn stdin(what: &str, max: usize) -> Result<String, Refusal> {
    String::from_utf8(stdin_bytes(what, max)?).map_err(|_| {
        Refusal::invalid(format!("the {what} on stdin is not UTF-8"))
            .hint("convert it first, with `iconv` for example")
    })
}

/// Reads bytes from stdin, with the same limit.
pub fn stdin_bytes(what: &str, max: usize) -> Result<Vec<u8>, Refusal> {
    let mut bytes = Vec::new();
    let limit = (max as u64).saturating_mul(2) + 1;
    std::io::stdin()
        .lock()
        .take(limit)
        .read_to_end(&mut bytes)
        .map_err(|error| {
            Refusal::new(
                Code::Failed,
                format!("cannot read the {what} from stdin: {error}"),
            )
        })?;
    if bytes.len() as u64 >= limit {
        return Err(Refusal::new(
            Code::TooLong,
            format!("the {what} on stdin is longer than {max} bytes"),
        )
        .hint("put the long version into a file and name the file"));
    }
    Ok(bytes)
}
