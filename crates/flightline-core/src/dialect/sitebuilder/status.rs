//! `STATUS.md`: the table of active checkpoints. Only what stands between our marks is ours.

use std::fmt::Write as _;

use crate::dialect::one_line;
use crate::error::{Code, Refusal};
use crate::time::Time;

/// The line our block begins with.
pub const BEGIN: &str = "<!-- flightline:active-checkpoints -->";
/// The line our block ends with.
pub const END: &str = "<!-- /flightline:active-checkpoints -->";

const BYTE_ORDER_MARK: char = '\u{feff}';

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusRow {
    pub agent: String,
    pub task: String,
    pub percent: u8,
    pub last_update: Option<Time>,
    pub status: String,
}

impl StatusRow {
    /// The status of a task that has no checkpoint yet.
    pub const NOT_STARTED: &str = "not started";
}

/// The table, with its heading and our marks around it. It ends with a line break. Times stand there as they are: a page is
/// read later than it is written, and what was two minutes ago then is not so any more. It is as of its last change, so
/// that it changes with the tasks and not with every look.
pub fn status_block(rows: &[StatusRow]) -> String {
    let mut text = format!("{BEGIN}\n## Active Checkpoints\n\n");
    let changed = rows.iter().filter_map(|row| row.last_update).max();
    if let Some(changed) = changed {
        let _ = writeln!(text, "As of {}\n", changed.to_seconds());
    }
    text += "| Agent | Task | Progress | Last Update | Status |\n\
             |-------|------|----------|-------------|--------|\n";
    for row in rows {
        let at = row
            .last_update
            .map_or_else(|| "—".to_owned(), Time::to_seconds);
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "| {} | {} | {}% | {at} | {} |",
            cell(&row.agent),
            cell(&row.task),
            row.percent,
            cell(&row.status)
        );
    }
    text + END + "\n"
}

/// A text that stays in its cell, and cannot be one of our marks.
fn cell(text: &str) -> String {
    one_line(text)
        .replace('\\', "\\\\")
        .replace('|', "\\|")
        .replace("<!--", "<!\\--")
}

/// `existing` with our block replaced by `block`, or with `block` at its end when it has none. Everything
/// outside the block stays as it is, byte for byte; the block takes over the file's line ends. Refuses marks that are not
/// one begin and one end after it: then it is not known which part is ours.
pub fn place_in_status(existing: &str, block: &str) -> Result<String, Refusal> {
    let block = if existing.contains("\r\n") {
        block.replace('\n', "\r\n")
    } else {
        block.to_owned()
    };
    let (begins, ends) = (
        lines_that_are(existing, BEGIN),
        lines_that_are(existing, END),
    );
    match (begins.as_slice(), ends.as_slice()) {
        ([], []) => Ok(append(existing, &block)),
        ([(start, _)], [(_, end)]) if start < end => {
            let mark = usize::from(existing.starts_with(BYTE_ORDER_MARK) && *start == 0)
                * BYTE_ORDER_MARK.len_utf8();
            Ok(format!(
                "{}{block}{}",
                &existing[..start + mark],
                &existing[*end..]
            ))
        }
        _ => Err(Refusal::new(
            Code::IllegalTransition,
            format!(
                "cannot write `STATUS.md`: it has {} lines `{BEGIN}` and {} lines `{END}`, and needs one of each, in this order",
                begins.len(),
                ends.len()
            ),
        )
        .hint("remove both marks; the table is then written anew at the end of the file")),
    }
}

/// The ranges of the lines that are this mark, with their line ends.
fn lines_that_are(text: &str, mark: &str) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        if line.trim_start_matches(BYTE_ORDER_MARK).trim() == mark {
            found.push((start, start + line.len()));
        }
        start += line.len();
    }
    found
}

fn append(existing: &str, block: &str) -> String {
    let line_end = if existing.contains("\r\n") {
        "\r\n"
    } else {
        "\n"
    };
    let gap = match existing.trim_start_matches(BYTE_ORDER_MARK) {
        "" => String::new(),
        text if text.ends_with('\n') => line_end.to_owned(),
        _ => line_end.repeat(2),
    };
    format!("{existing}{gap}{block}")
}
