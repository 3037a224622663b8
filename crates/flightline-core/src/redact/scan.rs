//! Finds the words of the rule set in a text, in one pass and without building anything first: a command lives for a few
//! milliseconds, and nearly every text holds none of them.

use std::ops::ControlFlow;

use super::rules::{ROWS, WordRule};

/// A place where a row's word stands.
pub(super) struct Hit<'t> {
    pub text: &'t str,
    /// The place where the word begins.
    pub at: usize,
    pub end: usize,
}

impl<'t> Hit<'t> {
    /// Returns the text after the word.
    pub fn rest(&self) -> &'t str {
        &self.text[self.end..]
    }

    pub fn before(&self) -> &'t str {
        &self.text[..self.at]
    }

    /// Returns true when a word begins here; `
    /// ` in JSON inside JSON ends the one before.
    pub fn begins_word(&self) -> bool {
        match self.before().as_bytes() {
            [.., b'\\', b'n' | b'r' | b't'] => true,
            [.., last] => !last.is_ascii_alphanumeric() && *last != b'_',
            [] => true,
        }
    }
}

/// Calls `visit` at every place where a word of the rule set stands, from left to right, until it breaks off.
pub(super) fn visit<'t>(
    text: &'t str,
    mut visit: impl FnMut(Hit<'t>, &'static WordRule) -> ControlFlow<()>,
) {
    let bytes = text.as_bytes();
    for (at, start) in bytes.windows(3).enumerate() {
        let mut next = HEADS[slot(start[0], start[1], start[2])];
        while let Some(row) = ROWS.get(usize::from(next)) {
            next = NEXT[usize::from(next)];
            let end = at + row.word.len();
            let fits = bytes.get(at..end).is_some_and(|found| match row.fold {
                true => found.eq_ignore_ascii_case(row.word.as_bytes()),
                false => found == row.word.as_bytes(),
            });
            if fits && visit(Hit { text, at, end }, row).is_break() {
                return;
            }
        }
    }
}

const SLOTS: usize = 4_096;
const NONE: u16 = u16::MAX;

/// Returns the slot in which a word is listed, by its first three bytes in any case.
const fn slot(a: u8, b: u8, c: u8) -> usize {
    let key = ((a | 0x20) as u32) << 16 | ((b | 0x20) as u32) << 8 | (c | 0x20) as u32;
    (key.wrapping_mul(0x9E37_79B1) >> 20) as usize
}

/// For each slot its first row, and for each row the next one of its slot: made by the compiler.
static HEADS: [u16; SLOTS] = CHAINS.0;
static NEXT: [u16; ROWS.len()] = CHAINS.1;
const CHAINS: ([u16; SLOTS], [u16; ROWS.len()]) = chains();

const fn chains() -> ([u16; SLOTS], [u16; ROWS.len()]) {
    let (mut heads, mut next) = ([NONE; SLOTS], [NONE; ROWS.len()]);
    // From the last to the first, so that each chain is in the order of the table.
    let mut row = ROWS.len();
    while row > 0 {
        row -= 1;
        let word = ROWS[row].word.as_bytes();
        let slot = slot(word[0], word[1], word[2]);
        next[row] = heads[slot];
        heads[slot] = row as u16;
    }
    (heads, next)
}
