//! The only place that prints. stdout is the answer, stderr is the talk; under `--json` stdout is
//! exactly one JSON document, errors too.

mod page;

use std::borrow::Cow;
use std::fmt::{Display, Write as _};
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::process::{Command, Stdio};

use anstyle::{AnsiColor, Style};
use flightline::core::redact::{redact, redact_texts};
use flightline::core::{Code, Refusal};
use flightline::remote::Deferred;
use serde::Serialize;
use serde_json::{Value, json};
use unicode_width::UnicodeWidthStr;

use crate::cli::ColorWhen;
use crate::hint::Repeated;
pub use page::{Cell, Page};

#[derive(Clone, Debug)]
pub struct Ui {
    /// True when stdout gets one JSON document and nothing else.
    pub json: bool,
    /// The fields to keep of that document.
    pub fields: Vec<String>,
    /// True when only errors are printed.
    pub quiet: bool,
    pub terminal: bool,
    /// True when the store was written to: an answer that cannot be shown must not pass for a refusal.
    pub written: bool,
    /// The typed options that shown commands repeat.
    pub repeated: Repeated,
    /// The program that shows a text longer than the screen; none when there is to be none.
    pub pager: Option<String>,
    pub pager_has_settings: bool,
}

/// The error when the reader of the answer, such as `head`, has gone: there is nothing left to say.
const READER_GONE: &str = "the reader of the output is gone";

impl Ui {
    /// Sets up colours for the whole process, and the form of the output.
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
            written: false,
            repeated: Repeated::default(),
            pager: None,
            pager_has_settings: false,
        }
    }

    /// Prints the answer: as JSON when asked for, else as the text that `say` writes. Refuses a field that the answer does
    /// not have.
    pub fn answer<T: Serialize>(
        &self,
        outcome: &T,
        say: impl FnOnce(&mut Page),
    ) -> Result<(), Refusal> {
        if self.json {
            return self.print(&self.document(outcome)?);
        }
        let page = self.fill(say);
        match self.quiet || page.text().is_empty() {
            true => Ok(()),
            false => self.show(page.text()),
        }
    }

    fn fill(&self, say: impl FnOnce(&mut Page)) -> Page {
        let width = match self.terminal {
            true => terminal_size().map(|(columns, _)| columns),
            false => None,
        };
        let mut page = Page::new(self.repeated.clone(), self.terminal, width);
        say(&mut page);
        page
    }

    /// Prints a text; on a terminal that is too small for it, through the user's pager. An answer that tells of a change
    /// is never hidden behind one.
    fn show(&self, text: &str) -> Result<(), Refusal> {
        let rows = terminal_size().map_or(usize::MAX, |(_, rows)| rows);
        let is_long = text.lines().count() >= rows;
        match (
            &self.pager,
            is_long && self.is_interactive() && !self.written,
        ) {
            (Some(pager), true) => self.page_through(pager, text),
            _ => self.print(text),
        }
    }

    /// Shows a text with the user's pager; prints it when there is none.
    fn page_through(&self, pager: &str, text: &str) -> Result<(), Refusal> {
        let text = as_stdout_shows(text);
        let mut command = Command::new("sh");
        command.args(["-c", pager]).stdin(Stdio::piped());
        if !self.pager_has_settings {
            // Ends by itself when all fits, keeps colours, and leaves the text on the screen.
            command.env("LESS", "FRX");
        }
        let Ok(mut child) = command.spawn() else {
            return self.print(&text);
        };
        if let Some(mut stdin) = child.stdin.take() {
            // A user who leaves the pager early has seen enough.
            let _ = writeln!(stdin, "{text}");
        }
        match child.wait() {
            Ok(ended) if ended.code() != Some(127) => Ok(()),
            _ => self.print(&text),
        }
    }

    /// Reports a request that could not be delivered to the server, and is no failure.
    pub fn say_later(&self, later: &Deferred) -> Result<(), Refusal> {
        let mut answer = later.details.clone();
        answer["message"] = json!(later.message);
        let mut first = later.message.chars();
        let text: String = first
            .next()
            .into_iter()
            .flat_map(char::to_uppercase)
            .chain(first)
            .collect();
        // Fields of the outcome that is still to come are no fields of this.
        let whole = Self {
            fields: Vec::new(),
            ..self.clone()
        };
        whole.answer(&answer, |page| page.line(text))
    }

    /// Shows one look of several at a subject that changes: on a terminal it replaces the look before, elsewhere it
    /// follows it.
    pub fn look<T: Serialize>(
        &self,
        outcome: &T,
        say: impl FnOnce(&mut Page),
    ) -> Result<(), Refusal> {
        if self.terminal && !self.json && !self.quiet {
            let mut out = anstream::stdout().lock();
            // Home, and nothing below: a user who interrupts it finds the last look, and a usual terminal.
            let _ = write!(out, "\x1b[H\x1b[2J");
            drop(out);
            return self.print(self.fill(say).text());
        }
        self.answer(outcome, say)
    }

    /// Prints one element of a stream, such as an event in `events tail`: JSON when asked for, else `line`. Refuses a
    /// field that the element does not have.
    pub fn element<T: Serialize>(&self, element: &T, line: impl Display) -> Result<(), Refusal> {
        match (self.json, self.quiet) {
            (true, _) => self.print(&self.document(element)?),
            (false, true) => Ok(()),
            (false, false) => self.print(&line.to_string()),
        }
    }

    /// Returns true when a person sits at the terminal, whose keys can be read.
    pub fn is_interactive(&self) -> bool {
        self.terminal && io::stdin().is_terminal() && !self.json && !self.quiet
    }

    /// Shows a line that does not end, in place of the one before, and stays on it.
    pub fn replace_line(&self, before: &str, line: &str) {
        let mut out = io::stdout().lock();
        let (blank, line) = (" ".repeat(visible(before).width()), visible(line));
        let _ = write!(out, "\r{blank}\r{line}").and_then(|()| out.flush());
    }

    pub fn print(&self, text: &str) -> Result<(), Refusal> {
        let mut text = as_stdout_shows(text).into_owned();
        text.push('\n');
        // The text is written in one piece: a list of a thousand lines is not a thousand system calls.
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())
            .and_then(|()| out.flush())
            .map_err(|error| match error.kind() {
                ErrorKind::BrokenPipe => Refusal::new(Code::Failed, READER_GONE),
                _ => cannot_write(&error),
            })
    }

    /// Renders an outcome as JSON, with all its fields.
    pub fn text_of<T: Serialize>(&self, outcome: &T) -> Result<String, Refusal> {
        serde_json::to_string(outcome).map_err(|error| cannot_write(&error))
    }

    fn document<T: Serialize>(&self, outcome: &T) -> Result<String, Refusal> {
        self.arrange(&self.text_of(outcome)?)
    }

    /// Renders a document with its fields in order, or only those that were asked for.
    fn arrange(&self, text: &str) -> Result<String, Refusal> {
        let value: Value = serde_json::from_str(text).map_err(|error| cannot_write(&error))?;
        if self.fields.is_empty() {
            return Ok(value.to_string());
        }
        match select(&value, &self.fields) {
            Ok(selected) => Ok(selected.to_string()),
            Err(refusal) if self.written => {
                let hint = refusal.hint.clone().unwrap_or_default();
                Err(refusal.hint(format!("{hint}\nthe operation was done: do not repeat it")))
            }
            Err(refusal) => Err(refusal),
        }
    }

    /// Shows the progress of a long job at a terminal, in one line that is written over.
    pub fn progress(&self, text: impl Display) {
        if !self.quiet && !self.json && io::stderr().is_terminal() {
            let _ = write!(io::stderr(), "\r{text}\x1b[K");
        }
    }

    /// Makes a page that is shown beside the answer, or as a part of it.
    pub fn page(&self) -> Page {
        Page::new(self.repeated.clone(), false, None)
    }

    /// Prints a remark beside the answer.
    pub fn talk(&self, text: impl Display) {
        if !self.quiet {
            let text = text.to_string();
            let text = self.repeated.complete(&text);
            let _ = writeln!(anstream::stderr(), "{}", visible(&redact(&text)));
        }
    }

    /// Prints a text on stderr as it is, such as the change of a file: its commands are not for the reader.
    pub fn show_beside(&self, text: &str) {
        if !self.quiet {
            let _ = writeln!(anstream::stderr(), "{}", visible(text));
        }
    }

    /// Prints a line of a log that programs read. Its texts were redacted one by one: redacting the document as a whole
    /// could take the end of it away.
    pub fn log(&self, document: &Value) {
        if !self.quiet {
            let _ = writeln!(io::stderr(), "{}", visible(&document.to_string()));
        }
    }

    pub fn warn(&self, text: impl Display) {
        self.talk(format_args!(
            "{}warning:{} {text}",
            YELLOW.render(),
            YELLOW.render_reset()
        ));
    }

    /// Prints a refusal: what was not done, to which thing, and what to do next. Secrets that were typed are not repeated,
    /// and neither are control characters.
    pub fn refuse(&self, refusal: &Refusal) {
        if refusal.message == READER_GONE {
            return;
        }
        if self.json {
            // Text by text: redacting the document as a whole could take the end of it away.
            let mut refusal = refusal.clone();
            refusal.hint = refusal
                .hint
                .map(|hint| self.repeated.complete(&hint).into_owned());
            let mut document = json!({ "error": refusal });
            redact_texts(&mut document);
            let _ = self.print(&document.to_string());
            return;
        }
        let mut text = format!(
            "{}error:{} {}",
            RED.render(),
            RED.render_reset(),
            plain(&refusal.message)
        );
        if let Some(hint) = &refusal.hint {
            let _ = write!(text, "\n\n{}hint:{}", CYAN.render(), CYAN.render_reset());
            let hint = self.repeated.complete(hint);
            for (at, line) in plain(&hint).lines().enumerate() {
                let indent = if at == 0 { " " } else { "\n      " };
                let _ = match line {
                    "" => writeln!(text),
                    line => write!(text, "{indent}{line}"),
                };
            }
        }
        let _ = writeln!(anstream::stderr(), "{}", visible(&text));
    }

    /// Asks on the terminal whether to go on with `act`, such as "delete everything". Refuses when there is no terminal to
    /// ask on, or the answer is no; `command` is the one to run instead.
    pub fn confirm(&self, act: &str, command: &str, ask: Prompting) -> Result<(), Refusal> {
        self.agree(&format!("This will {act}. Continue?"), act, command, ask)
    }

    /// Like [`Ui::confirm`], with a question of the caller's, which has already shown what will happen.
    pub fn agree(
        &self,
        question: &str,
        act: &str,
        command: &str,
        ask: Prompting,
    ) -> Result<(), Refusal> {
        if self.ask(question, ask) == Some(true) {
            return Ok(());
        }
        Err(Refusal::new(
            Code::ConfirmationNeeded,
            format!("this would {act}, and needs confirmation"),
        )
        .hint(format!("nothing was changed; run `{command}`")))
    }

    /// Asks a question, and returns true when the answer is yes; none when there is no terminal to ask on.
    pub fn ask(&self, question: &str, ask: Prompting) -> Option<bool> {
        let terminal = io::stdin().is_terminal() && io::stderr().is_terminal();
        if !matches!(ask, Prompting::Allowed) || !terminal || self.json {
            return None;
        }
        let _ = write!(anstream::stderr(), "{} [y/N] ", visible(question));
        let mut line = String::new();
        let read = io::stdin().read_line(&mut line);
        Some(read.is_ok() && matches!(line.trim(), "y" | "Y" | "yes"))
    }
}

#[derive(Clone, Copy, Debug)]
pub enum Prompting {
    Allowed,
    Forbidden,
}

/// Returns a text as stdout shows it: without colours where those are off.
fn as_stdout_shows(text: &str) -> Cow<'_, str> {
    let text = visible(text);
    match anstream::AutoStream::choice(&io::stdout()) {
        anstream::ColorChoice::Never if text.contains('\x1b') => {
            Cow::Owned(anstream::adapter::strip_str(&text).to_string())
        }
        _ => text,
    }
}

/// Returns `text` as a terminal may get it: a character that cannot be seen, and changes what is seen, is written as JSON
/// escapes it, such as `\u202e`. Stored texts, names of files and words of a server all pass here, whatever let them in;
/// so do JSON documents, which mean the same afterwards. Our own colours stay.
pub fn visible(text: &str) -> Cow<'_, str> {
    let is_harmless = |byte: u8| matches!(byte, b' '..=b'~' | b'\n' | b'\t');
    if text.bytes().all(is_harmless) || !text.contains(is_deceptive) {
        return Cow::Borrowed(text);
    }
    let mut seen = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some(at) = rest.find(is_deceptive) {
        let (before, found) = rest.split_at(at);
        seen.push_str(before);
        let length = match colour(found) {
            0 => {
                let c = found.chars().next().unwrap_or_default();
                let _ = write!(seen, "\\u{:04x}", u32::from(c));
                c.len_utf8()
            }
            length => {
                seen.push_str(&found[..length]);
                length
            }
        };
        rest = &found[length..];
    }
    seen.push_str(rest);
    Cow::Owned(seen)
}

/// Returns true when a text is printable ASCII alone, as most are: then each byte is a column, and nothing in it deceives.
fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

/// Returns true for controls but line breaks and tabs, marks that turn the direction of writing, and breaks of lines and
/// paragraphs.
fn is_deceptive(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        '\u{61c}' | '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{206f}' => {
            true
        }
        c => c.is_control(),
    }
}

/// The length of the change of colour that `text` begins with: `ESC [ 1 ; 31 m`. Nothing else that begins with ESC is
/// ours.
fn colour(text: &str) -> usize {
    let Some(rest) = text.strip_prefix("\x1b[") else {
        return 0;
    };
    let codes = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';');
    match codes.starts_with('m') {
        true => text.len() - codes.len() + 1,
        false => 0,
    }
}

fn plain(text: &str) -> String {
    let kept = text.chars().filter(|c| !c.is_control() || *c == '\n');
    redact(&kept.collect::<String>()).into_owned()
}

/// The colour of success.
pub const GREEN: Style = AnsiColor::Green.on_default();
/// The colour of work under way.
pub const BLUE: Style = AnsiColor::Blue.on_default();
/// The colour of things that need a person.
pub const YELLOW: Style = AnsiColor::Yellow.on_default();
/// The colour of failure.
pub const RED: Style = AnsiColor::Red.on_default();
/// The colour of help.
pub const CYAN: Style = AnsiColor::Cyan.on_default();
/// The style of details.
pub const DIM: Style = Style::new().dimmed();
/// The style of the most important words.
pub const BOLD: Style = Style::new().bold();

/// Renders a state as glyph, word and colour: never by colour alone.
pub fn state(word: &str) -> Cell {
    let (glyph, style) = match word {
        "completed" | "complete" | "done" | "acknowledged" | "active" | "approved" => ("✓", GREEN),
        "in_progress" | "delivered" => ("●", BLUE),
        "assigned" | "quiet" | "waiting" => ("◐", BLUE),
        "blocked" | "warning" | "paused" | "intent" => ("▲", YELLOW),
        "failed" | "stalled" | "dead" | "rejected" => ("✗", RED),
        "archived" | "retired" | "skipped" => ("▪", DIM),
        _ => ("○", DIM),
    };
    Cell::styled(format!("{glyph} {}", word.replace('_', " ")), style)
}

/// Renders a percentage as a bar of sixteen characters.
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

/// The number of columns and rows of the terminal; none when stdout is no terminal, or does not say.
fn terminal_size() -> Option<(usize, usize)> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    let (columns, rows) = (usize::from(size.ws_col), usize::from(size.ws_row));
    (columns > 0 && rows > 0).then_some((columns, rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_seen_is_shown_as_json_escapes_it() {
        for (text, seen) in [
            ("a\u{202e}cod.exe", "a\\u202ecod.exe"),
            (
                "\u{2066}x\u{2069} \u{200f}\u{61c}",
                "\\u2066x\\u2069 \\u200f\\u061c",
            ),
            (
                "\u{9b}31m\u{7f}\r\u{85}\0",
                "\\u009b31m\\u007f\\u000d\\u0085\\u0000",
            ),
            (
                "\x1b[1;31mred\x1b[0m \x1b]0;title\x07 \x1b[2J",
                "\x1b[1;31mred\x1b[0m \\u001b]0;title\\u0007 \\u001b[2J",
            ),
            ("שלום\tعربي\n👩\u{200d}💻", "שלום\tعربي\n👩\u{200d}💻"),
        ] {
            assert_eq!(visible(text), seen);
            assert_eq!(visible(seen), seen, "twice is once");
        }
        let document = json!({ "path": "a\u{202e}b\u{9b}" });
        let printed = visible(&document.to_string()).into_owned();
        assert!(printed.is_ascii(), "{printed}");
        assert_eq!(serde_json::from_str::<Value>(&printed).unwrap(), document);
    }
}
