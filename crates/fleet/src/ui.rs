//! The only place that prints. stdout is the answer, stderr is the talk; under `--json` stdout is
//! exactly one JSON document, errors too.

use std::fmt::{Display, Write as _};
use std::io::{self, IsTerminal, Write};

use anstyle::{AnsiColor, Style};
use flightline::core::redact::redact;
use flightline::core::time::human_span;
use flightline::core::{Code, Refusal, Time};
use serde::Serialize;
use serde_json::{Value, json};
use unicode_width::UnicodeWidthStr;

use crate::cli::ColorWhen;

/// How to speak.
#[derive(Clone, Debug)]
pub struct Ui {
    /// One JSON document on stdout, and nothing else there.
    pub json: bool,
    /// Fields to keep of that document.
    pub fields: Vec<String>,
    /// Nothing but errors.
    pub quiet: bool,
    /// Whether stdout is a terminal.
    pub terminal: bool,
}

impl Ui {
    /// Sets up colours for the whole process and says how to speak.
    pub fn new(json: bool, fields: Vec<String>, quiet: bool, color: ColorWhen) -> Self {
        match color {
            ColorWhen::Always => anstream::ColorChoice::Always.write_global(),
            ColorWhen::Never => anstream::ColorChoice::Never.write_global(),
            // NO_COLOR, CLICOLOR and the kind of terminal are looked at by the stream itself.
            ColorWhen::Auto => {}
        }
        Self {
            json,
            fields,
            quiet,
            terminal: io::stdout().is_terminal(),
        }
    }

    /// Gives the answer: as JSON when asked for, else as the text that `say` writes.
    ///
    /// # Errors
    /// When a field was asked for that the answer does not have, or stdout is gone.
    pub fn answer<T: Serialize>(
        &self,
        outcome: &T,
        say: impl FnOnce(&mut Page),
    ) -> Result<(), Refusal> {
        if self.json {
            let value = serde_json::to_value(outcome).map_err(|error| cannot_write(&error))?;
            let value = if self.fields.is_empty() {
                value
            } else {
                select(&value, &self.fields)?
            };
            return self.print(&value.to_string());
        }
        let mut page = Page {
            text: String::new(),
            terminal: self.terminal,
            now: None,
        };
        say(&mut page);
        if self.quiet || page.text.is_empty() {
            Ok(())
        } else {
            self.print(page.text.trim_end_matches('\n'))
        }
    }

    /// Prints one line of a stream, such as an event in `events tail`.
    ///
    /// # Errors
    /// When stdout is gone.
    pub fn print(&self, text: &str) -> Result<(), Refusal> {
        let mut out = anstream::stdout().lock();
        writeln!(out, "{text}")
            .and_then(|()| out.flush())
            .map_err(|error| cannot_write(&error))
    }

    /// Says something beside the answer.
    pub fn talk(&self, text: impl Display) {
        if !self.quiet {
            let _ = writeln!(anstream::stderr(), "{}", redact(&text.to_string()));
        }
    }

    /// Warns.
    pub fn warn(&self, text: impl Display) {
        self.talk(format_args!(
            "{}warning:{} {text}",
            YELLOW.render(),
            YELLOW.render_reset()
        ));
    }

    /// Says why it was not done: what, to which thing, and what to do next. Secrets that were typed are
    /// not repeated.
    pub fn refuse(&self, refusal: &Refusal) {
        if self.json {
            let text = json!({ "error": refusal }).to_string();
            let _ = self.print(&redact(&text));
            return;
        }
        let mut text = format!(
            "{}error:{} {}",
            RED.render(),
            RED.render_reset(),
            redact(&refusal.message)
        );
        if let Some(hint) = &refusal.hint {
            let hint = redact(hint).replace('\n', "\n      ");
            let _ = write!(
                text,
                "\n\n{}hint:{} {hint}",
                CYAN.render(),
                CYAN.render_reset()
            );
        }
        let _ = writeln!(anstream::stderr(), "{text}");
    }

    /// Asks a yes-or-no question on the terminal.
    ///
    /// # Errors
    /// When there is no terminal to ask on; `command` is what to run instead.
    pub fn confirm(&self, question: &str, command: &str) -> Result<bool, Refusal> {
        if self.json || !io::stdin().is_terminal() || !io::stderr().is_terminal() {
            return Err(Refusal::new(
                Code::ConfirmationNeeded,
                format!("{question} This needs a yes"),
            )
            .hint(format!("nothing was changed; run `{command}`")));
        }
        let _ = write!(anstream::stderr(), "{question} [y/N] ");
        let mut line = String::new();
        let read = io::stdin().read_line(&mut line);
        Ok(read.is_ok() && matches!(line.trim(), "y" | "Y" | "yes"))
    }
}

/// What a command says to people.
pub struct Page {
    text: String,
    terminal: bool,
    now: Option<Time>,
}

impl Page {
    /// Times are shown relative to this one on a terminal.
    pub fn at(&mut self, now: Time) {
        self.now = Some(now);
    }

    /// A line.
    pub fn line(&mut self, text: impl Display) {
        let _ = writeln!(self.text, "{text}");
    }

    /// A table without lines between its cells. The last column is not padded.
    pub fn table(&mut self, header: &[&str], rows: &[Vec<Cell>]) {
        let mut all: Vec<Vec<Cell>> = Vec::new();
        if !header.is_empty() {
            all.push(header.iter().map(|text| Cell::dim(*text)).collect());
        }
        all.extend(rows.iter().cloned());
        let columns = all.iter().map(Vec::len).max().unwrap_or(0);
        let width = |at: usize| {
            all.iter()
                .filter_map(|row| row.get(at))
                .map(Cell::width)
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in &all {
            let mut line = String::new();
            for (at, cell) in row.iter().enumerate() {
                let _ = write!(line, "{cell}");
                if at + 1 < row.len() {
                    let pad = widths[at] - cell.width() + 2;
                    line.extend(std::iter::repeat_n(' ', pad));
                }
            }
            self.line(line.trim_end());
        }
    }

    /// A point in time: how long ago on a terminal, in full elsewhere.
    pub fn time(&self, time: Time) -> String {
        match self.now {
            Some(now) if self.terminal => format!("{} ago", human_span(now.since(time))),
            _ => time.to_string(),
        }
    }
}

/// A piece of text with a style.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    text: String,
    style: Style,
    indent: usize,
}

impl Cell {
    /// Plain text, on one line.
    pub fn new(text: impl Display) -> Self {
        Self {
            text: text.to_string().replace(['\n', '\t'], " "),
            style: Style::new(),
            indent: 0,
        }
    }

    /// Text in a style.
    pub fn styled(text: impl Display, style: Style) -> Self {
        Self {
            style,
            ..Self::new(text)
        }
    }

    /// Text that matters less.
    pub fn dim(text: impl Display) -> Self {
        Self::styled(text, DIM)
    }

    /// The same, moved to the right.
    #[must_use]
    pub fn indent(mut self, by: usize) -> Self {
        self.indent += by;
        self
    }

    fn width(&self) -> usize {
        self.indent + self.text.width()
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
        write!(
            f,
            "{:indent$}{}{}{}",
            "",
            self.style.render(),
            self.text,
            self.style.render_reset(),
            indent = self.indent
        )
    }
}

/// For what went well.
pub const GREEN: Style = AnsiColor::Green.on_default();
/// For what is under way.
pub const BLUE: Style = AnsiColor::Blue.on_default();
/// For what needs somebody.
pub const YELLOW: Style = AnsiColor::Yellow.on_default();
/// For what went wrong.
pub const RED: Style = AnsiColor::Red.on_default();
/// For what helps.
pub const CYAN: Style = AnsiColor::Cyan.on_default();
/// For what matters less.
pub const DIM: Style = Style::new().dimmed();
/// For what matters most.
pub const BOLD: Style = Style::new().bold();

/// A state as glyph, word and colour: never by colour alone.
pub fn state(word: &str) -> Cell {
    let (glyph, style) = match word {
        "completed" | "complete" | "done" | "acknowledged" | "active" | "approved" => ("✓", GREEN),
        "in_progress" | "delivered" => ("●", BLUE),
        "assigned" | "quiet" | "waiting" => ("◐", BLUE),
        "blocked" | "warning" | "paused" | "intent" => ("▲", YELLOW),
        "failed" | "stalled" | "dead" | "rejected" => ("✗", RED),
        "archived" | "retired" => ("▪", DIM),
        _ => ("○", DIM),
    };
    Cell::styled(format!("{glyph} {}", word.replace('_', " ")), style)
}

/// A bar of sixteen characters for a percentage.
pub fn bar(percent: u8) -> String {
    let full = usize::from(percent) * 16 / 100;
    format!("{}{}", "▓".repeat(full), "▒".repeat(16 - full))
}

fn select(value: &Value, fields: &[String]) -> Result<Value, Refusal> {
    match value {
        Value::Array(items) => items.iter().map(|item| select(item, fields)).collect(),
        Value::Object(_) => {
            let pick = |field: &String| {
                let found = field
                    .split('.')
                    .try_fold(value, |value, part| value.get(part));
                found
                    .map(|found| (field.clone(), found.clone()))
                    .ok_or_else(|| {
                        let known: Vec<&str> = value
                            .as_object()
                            .into_iter()
                            .flatten()
                            .map(|(key, _)| key.as_str())
                            .collect();
                        Refusal::invalid(format!("the answer has no field `{field}`"))
                            .hint(format!("it has: {}", known.join(", ")))
                    })
            };
            Ok(Value::Object(
                fields.iter().map(pick).collect::<Result<_, _>>()?,
            ))
        }
        _ => Ok(value.clone()),
    }
}

fn cannot_write(error: &dyn Display) -> Refusal {
    Refusal::new(Code::Failed, format!("cannot write the answer: {error}"))
}
