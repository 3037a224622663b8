//! The reasons why a settings file is left as it is.

/// The reason why a settings file is left as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SetupError {
    #[error("line {line}, column {column}: {reason}")]
    Malformed {
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
        /// The reader's complaint.
        reason: String,
    },
    /// A key holds something that our entries cannot go into.
    #[error("line {line}, column {column}: `{key}` is not {expected}")]
    Shape {
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
        key: String,
        /// The kind of value that is needed.
        expected: &'static str,
    },
    /// A key is there more than once, and clients differ in which one they read.
    #[error("line {line}, column {column}: `{key}` is there more than once")]
    Twice {
        /// The line of the last entry with the key, from 1.
        line: usize,
        /// The column of that entry, from 1.
        column: usize,
        key: String,
    },
    #[error("`{what}` is there already, and it is not Flightline's")]
    Taken { what: String },
    /// The path cannot be written into a settings file.
    #[error("`{binary}` is not the path of a program called `fleet`")]
    Program { binary: String },
}

/// The line and the column of a byte, both from 1.
pub(super) fn position(text: &str, at: usize) -> (usize, usize) {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    let before = &text[..at];
    let line = before.matches('\n').count() + 1;
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (line, before[start..].chars().count() + 1)
}
