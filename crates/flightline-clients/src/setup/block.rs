//! The block in a Markdown file that tells an agent how to work with `fleet`.

use super::SetupError;
use super::setup_error::position;

const BEGIN: &str = "<!-- flightline:begin -->";
const END: &str = "<!-- flightline:end -->";

/// The block for `AGENTS.md`, `CLAUDE.md` or `GEMINI.md`, with its markers.
pub const fn agents_md() -> &'static str {
    include_str!("AGENTS.md")
}

/// The text with the block: where one is, or else at the end.
pub(super) fn install(text: &str) -> Result<String, SetupError> {
    let end = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let block = agents_md().trim_end().replace('\n', end);
    if let Some((start, stop)) = find(text)? {
        return Ok(format!("{}{block}{}", &text[..start], &text[stop..]));
    }
    // A text without an end of line keeps none: by that, the removal knows how much to take.
    Ok(if text.is_empty() {
        format!("{block}{end}")
    } else if text.ends_with('\n') {
        format!("{text}{end}{block}{end}")
    } else {
        format!("{text}{end}{end}{block}")
    })
}

pub(super) fn remove(text: &str) -> Result<String, SetupError> {
    let Some((start, stop)) = find(text)? else {
        return Ok(text.to_owned());
    };
    let (before, after) = (&text[..start], &text[stop..]);
    let rest = without_newline(after, str::strip_prefix);
    let before = match (rest, trailing(before)) {
        (None, Some(shorter)) => trailing(shorter).unwrap_or(shorter),
        (Some(_), Some(shorter)) if shorter.ends_with('\n') => shorter,
        (_, _) => before,
    };
    Ok(format!("{before}{}", rest.unwrap_or(after)))
}

fn without_newline<'a>(
    text: &'a str,
    strip: fn(&'a str, &'static str) -> Option<&'a str>,
) -> Option<&'a str> {
    strip(text, "\r\n").or_else(|| strip(text, "\n"))
}

fn trailing(text: &str) -> Option<&str> {
    without_newline(text, str::strip_suffix)
}

fn find(text: &str) -> Result<Option<(usize, usize)>, SetupError> {
    let Some(start) = text.find(BEGIN) else {
        return Ok(None);
    };
    let second = text[start + BEGIN.len()..].find(BEGIN);
    let stop = text[start..].find(END).map(|at| start + at + END.len());
    match (stop, second) {
        (Some(stop), None) => Ok(Some((start, stop))),
        (Some(stop), Some(second)) if start + BEGIN.len() + second > stop => {
            Ok(Some((start, stop)))
        }
        (_, _) => {
            let (line, column) = position(text, start);
            Err(SetupError::Malformed {
                line,
                column,
                reason: format!("{BEGIN} without {END}"),
            })
        }
    }
}
