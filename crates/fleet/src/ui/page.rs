//! Lays out pages: lines, tables and times, as people read them.

use std::borrow::Cow;
use std::fmt::{Display, Write as _};

use anstyle::Style;
use flightline::core::Time;
use flightline::core::time::human_span;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::{BOLD, DIM, is_plain, visible};
use crate::hint::Repeated;

/// The answer of a command for people.
pub struct Page {
    text: String,
    terminal: bool,
    now: Option<Time>,
    repeated: Repeated,
    /// The width of the terminal in columns; none where there is no terminal.
    width: Option<usize>,
}

/// The treatment of a last column that is too long.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Overlong {
    Wrapped,
    Shortened,
}

impl Page {
    pub(super) fn new(repeated: Repeated, terminal: bool, width: Option<usize>) -> Self {
        Self {
            text: String::new(),
            terminal,
            now: None,
            repeated,
            width,
        }
    }

    /// Completes a command, so that the reader may paste it as it stands.
    pub fn command(&self, command: impl AsRef<str>) -> String {
        self.repeated.command(command.as_ref())
    }

    /// Adds a line of ours with commands in backticks, which can be pasted as they stand.
    pub fn hint(&mut self, text: impl Display) {
        let text = text.to_string();
        let text = self.repeated.complete(&text).into_owned();
        self.line(text);
    }

    /// Adds a text of ours of several lines, with commands in backticks.
    pub fn hints(&mut self, text: &str) {
        text.lines().for_each(|line| self.hint(line));
    }

    pub fn text(&self) -> &str {
        self.text.trim_end_matches('\n')
    }

    /// Sets the present time, relative to which a terminal shows times.
    pub fn at(&mut self, now: Time) {
        self.now = Some(now);
    }

    /// Adds a line: line breaks in what agents wrote do not make another.
    pub fn line(&mut self, text: impl Display) {
        self.line_of(&text.to_string());
    }

    fn line_of(&mut self, text: &str) {
        for (at, part) in text.split('\n').enumerate() {
            if at > 0 {
                self.text.push(' ');
            }
            self.text.push_str(part);
        }
        self.text.push('\n');
    }

    /// Adds a text of several lines, each moved to the right.
    pub fn block(&mut self, indent: usize, text: impl Display) {
        for line in text.to_string().lines() {
            let line = format!("{:indent$}{line}", "");
            let _ = writeln!(self.text, "{}", line.trim_end());
        }
    }

    /// Adds a table without lines between its cells. The last column is not padded.
    pub fn table(&mut self, header: &[&str], rows: &[Vec<Cell>]) {
        let header: Vec<Cell> = header.iter().map(|text| Cell::dim(*text)).collect();
        let (first, overlong) = match header.is_empty() {
            true => (None, Overlong::Wrapped),
            false => (Some(&header), Overlong::Shortened),
        };
        let all: Vec<&[Cell]> = first.into_iter().chain(rows).map(Vec::as_slice).collect();
        self.lay_out(&[], &all, overlong);
    }

    /// Adds rows in columns with this number of blanks after each; two where no number is given. They are made to fit the
    /// terminal: the last column goes on below itself in a table without titles, and is shortened in one with titles.
    pub fn columns(&mut self, gaps: &[usize], all: &[Vec<Cell>]) {
        let all: Vec<&[Cell]> = all.iter().map(Vec::as_slice).collect();
        self.lay_out(gaps, &all, Overlong::Wrapped);
    }

    fn lay_out(&mut self, gaps: &[usize], all: &[&[Cell]], overlong: Overlong) {
        let count = all.iter().map(|row| row.len()).max().unwrap_or(0);
        let gap = |at: usize| *gaps.get(at).unwrap_or(&2);
        let widest = |at: usize| {
            let cells = all.iter().filter_map(|row| row.get(at));
            cells.map(Cell::width).max().unwrap_or(0)
        };
        let natural: Vec<usize> = (0..count).map(widest).collect();
        let gaps_in_all = (0..count.saturating_sub(1)).map(gap).sum();
        let room = self.width.map(|width| width.saturating_sub(gaps_in_all));
        let widths = fitted(&natural, room, overlong);
        let mut line = String::new();
        for row in all {
            line.clear();
            let mut before = 0;
            let mut below = Vec::new();
            for (at, cell) in row.iter().enumerate() {
                let is_last = at + 1 == row.len();
                let cell = match (is_last, overlong) {
                    (true, Overlong::Wrapped) if at + 1 == count => {
                        let mut pieces = cell.wrapped(widths[at]).into_iter();
                        let first = pieces.next().unwrap_or(Cow::Borrowed(cell));
                        below = pieces.collect();
                        first
                    }
                    // A cell without a neighbour may use the empty space beside it.
                    (true, _) if at + 1 < count => Cow::Borrowed(cell),
                    _ => cell.shortened(widths[at]),
                };
                cell.put(&mut line);
                if !is_last {
                    let pad = widths[at].saturating_sub(cell.width()) + gap(at);
                    line.extend(std::iter::repeat_n(' ', pad));
                    before += widths[at] + gap(at);
                }
            }
            self.line_of(line.trim_end());
            for piece in below {
                self.line(format_args!("{:before$}{piece}", ""));
            }
        }
    }

    /// Renders a point in time: how long ago on a terminal, in full elsewhere.
    pub fn time(&self, time: Time) -> String {
        match self.now {
            Some(now) if self.terminal => format!("{} ago", human_span(now.since(time))),
            _ => time.to_string(),
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct Cell {
    text: String,
    /// The columns that the text takes.
    columns: usize,
    style: Style,
    indent: usize,
}

impl Cell {
    /// Makes a cell of plain text, on one line.
    pub fn new(text: impl Display) -> Self {
        let mut text = text.to_string();
        // Made visible here already, so that its width is right and colours in quoted text are none.
        if !text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            let line = text.replace(['\n', '\t'], " ").replace('\x1b', "\\u001b");
            text = visible(&line).into_owned();
        }
        Self::of(text, Style::new(), 0)
    }

    fn of(text: String, style: Style, indent: usize) -> Self {
        Self {
            columns: match is_plain(&text) {
                true => text.len(),
                false => text.width(),
            },
            text,
            style,
            indent,
        }
    }

    pub fn styled(text: impl Display, style: Style) -> Self {
        Self {
            style,
            ..Self::new(text)
        }
    }

    pub fn bold(text: impl Display) -> Self {
        Self::styled(text, BOLD)
    }

    /// Makes a cell of text that matters less.
    pub fn dim(text: impl Display) -> Self {
        Self::styled(text, DIM)
    }

    #[must_use]
    pub fn indent(mut self, by: usize) -> Self {
        self.indent += by;
        self
    }

    fn width(&self) -> usize {
        self.indent + self.columns
    }

    /// Adds the cell to a line.
    fn put(&self, line: &mut String) {
        line.extend(std::iter::repeat_n(' ', self.indent));
        // No style around nothing: what ends a line must be seen as its end.
        match self.text.is_empty() || self.style == Style::new() {
            true => line.push_str(&self.text),
            false => {
                let (begin, end) = (self.style.render(), self.style.render_reset());
                let _ = write!(line, "{begin}{}{end}", self.text);
            }
        }
    }

    /// Shortens the cell to `width` columns, with `…` where something is left out.
    fn shortened(&self, width: usize) -> Cow<'_, Self> {
        let room = width.saturating_sub(self.indent);
        if self.columns <= room {
            return Cow::Borrowed(self);
        }
        let mut text = beginning(&self.text, room.saturating_sub(1))
            .trim_end()
            .to_owned();
        text.push('…');
        Cow::Owned(Self::of(text, self.style, self.indent))
    }

    /// Breaks the cell between words into lines of at most `width` columns. A word that is longer than a line stays whole:
    /// a command or a path must be copied as it is.
    fn wrapped(&self, width: usize) -> Vec<Cow<'_, Self>> {
        let room = width.saturating_sub(self.indent);
        if self.columns <= room {
            return vec![Cow::Borrowed(self)];
        }
        let mut lines: Vec<String> = Vec::new();
        for word in pieces(&self.text) {
            match lines.last_mut() {
                Some(line) if line.width() + 1 + word.width() <= room => {
                    line.push(' ');
                    line.push_str(word);
                }
                _ => lines.push(word.to_owned()),
            }
        }
        let line = |text| Self::of(text, self.style, self.indent);
        let lines = lines.into_iter().map(line);
        lines.map(Cow::Owned).collect()
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl Display for Cell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut line = String::with_capacity(self.indent + self.text.len() + 8);
        self.put(&mut line);
        f.write_str(&line)
    }
}

/// Splits a text into words; a command after an arrow is one, so that it can be copied from one line.
fn pieces(text: &str) -> Vec<&str> {
    let (prose, command) = match text.split_once(" → ") {
        Some((prose, _)) => {
            let at = prose.len() + 1;
            (prose, Some(&text[at..]))
        }
        None => (text, None),
    };
    prose.split_whitespace().chain(command).collect()
}

/// The beginning of a text that fits into `room` columns.
fn beginning(text: &str, room: usize) -> &str {
    let mut used = 0;
    for (at, c) in text.char_indices() {
        used += c.width().unwrap_or(0);
        if used > room {
            return &text[..at];
        }
    }
    text
}

/// Computes the widths of columns that fit into `room`: the widest give way first, and none below what can be read.
fn fitted(natural: &[usize], room: Option<usize>, overlong: Overlong) -> Vec<usize> {
    const NARROWEST: usize = 12;
    let mut widths = natural.to_vec();
    let Some(room) = room else {
        return widths;
    };
    // A last column that goes on below itself is the one that gives way.
    if overlong == Overlong::Wrapped
        && let Some((last, others)) = widths.split_last_mut()
    {
        let others: usize = others.iter().sum();
        *last = (*last).min(room.saturating_sub(others).max(2 * NARROWEST));
    }
    // Many columns have to be narrower than can be read well, rather than break.
    for narrowest in [NARROWEST, NARROWEST / 2] {
        while widths.iter().sum::<usize>() > room {
            let widest = widths.iter().copied().max().unwrap_or(0);
            let at = widths.iter().rposition(|width| *width == widest);
            match at {
                Some(at) if widest > narrowest => widths[at] -= 1,
                _ => break,
            }
        }
    }
    widths
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(width: usize) -> Page {
        Page::new(Repeated::default(), true, Some(width))
    }

    #[test]
    fn a_table_with_titles_is_shortened_to_the_terminal() {
        let mut page = page(40);
        let rows = [
            vec![
                "srt-1".into(),
                "A title that is far too long for it".into(),
                "ada".into(),
            ],
            vec![
                "srt-2".into(),
                "日本語のとても長いタイトルがここにあります".into(),
                "bob".into(),
            ],
        ];
        page.table(&["ID", "TITLE", "OWNER"], &rows);
        let text = anstream::adapter::strip_str(page.text()).to_string();
        for line in text.lines() {
            assert!(line.width() <= 40, "{line}");
        }
        assert!(
            page.text().contains("A title that is far too l…  ada"),
            "{}",
            page.text()
        );
    }

    #[test]
    fn a_table_without_titles_goes_on_below_itself_and_keeps_commands_whole() {
        let mut page = page(40);
        let what = "ada is dead and holds srt-1   → fleet agents show ada --mission msn-1";
        page.table(&[], &[vec!["Needs you".into(), what.into()]]);
        assert_eq!(
            page.text(),
            "Needs you  ada is dead and holds srt-1\n           → fleet agents show ada --mission msn-1"
        );
    }

    #[test]
    fn without_a_terminal_nothing_is_left_out() {
        let mut page = Page::new(Repeated::default(), false, None);
        let long = "word ".repeat(60);
        page.table(&["A", "B"], &[vec!["x".into(), long.trim().into()]]);
        assert!(page.text().contains(long.trim()));
    }
}
