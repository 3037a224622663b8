//! The work of the demo: a small book in eight parts, and a ledger that stands for the world outside.
#![expect(
    clippy::disallowed_methods,
    reason = "the demo works in a folder that it makes itself"
)]

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Result, Write};
use std::path::Path;

use flightline::core::event::sha256_hex;

/// How many parts the book has.
pub const PARTS: u64 = 8;
/// How many lines a part has.
pub const LINES: usize = 4;
/// The agents that write it.
pub const SPECIALISTS: [&str; 4] = ["alice", "bob", "carol", "dave"];
/// The world outside: what is written there cannot be taken back.
pub const LEDGER: &str = "ledger.txt";

/// A part of the book.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part(pub u64);

impl Part {
    /// Every part, in order.
    pub fn all() -> impl Iterator<Item = Self> {
        (1..=PARTS).map(Self)
    }

    /// The title of its sortie.
    pub fn title(self) -> String {
        format!("Write part {}", self.0)
    }

    /// Its file, from the repository's root.
    pub fn file(self) -> String {
        format!("src/part-{}.txt", self.0)
    }

    /// The effect of publishing it.
    pub fn effect(self) -> String {
        format!("publish-{}", self.0)
    }

    /// A line of it, counted from zero.
    pub fn line(self, at: usize) -> String {
        format!("part {}, line {} of {LINES}\n", self.0, at + 1)
    }

    /// Its first lines.
    pub fn beginning(self, lines: usize) -> String {
        (0..lines).map(|at| self.line(at)).collect()
    }

    /// What publishing it writes into the ledger.
    pub fn entry(self) -> String {
        let sum = sha256_hex(&self.beginning(LINES));
        format!("{} {} {}", self.effect(), self.file(), &sum[..12])
    }

    /// How many of its lines stand whole at the beginning of `text`.
    pub fn whole_lines(self, text: &str) -> usize {
        let fits = |lines: &usize| text.starts_with(&self.beginning(*lines));
        (0..=LINES).rev().find(fits).unwrap_or(0)
    }
}

/// The published lines. None, when there is no ledger yet.
pub fn ledger(root: &Path) -> Result<Vec<String>> {
    let text = read_or_empty(&root.join(LEDGER))?;
    Ok(text.lines().map(str::to_owned).collect())
}

/// Publishes: one line, in one write, that cannot be taken back.
pub fn publish(root: &Path, entry: &str) -> Result<()> {
    append(&root.join(LEDGER), &format!("{entry}\n"))
}

/// Adds to the end of a file.
pub fn append(path: &Path, text: &str) -> Result<()> {
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// The text of a file; nothing, when it is not there.
pub fn read_or_empty(path: &Path) -> Result<String> {
    match fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
        read => read,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_line_is_not_counted() {
        let part = Part(3);
        let torn = format!("{}part 3, li", part.beginning(2));
        assert_eq!(part.whole_lines(&torn), 2);
        assert_eq!(part.whole_lines(""), 0);
        assert_eq!(part.whole_lines("something else\n"), 0);
        assert_eq!(part.whole_lines(&part.beginning(LINES)), LINES);
    }
}
