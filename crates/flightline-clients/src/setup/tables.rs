//! Our tables in a TOML file. Text is cut and put in by position, so that every other byte stays, whatever its line ends are.

use std::ops::Range;

use toml_edit::{Document, Item, Key, Table, Value};

use super::setup_error::position;
use super::{SetupError, program};

const SERVER: [&str; 2] = ["mcp_servers", "flightline"];
const BOM: char = '\u{feff}';

pub(super) fn install(text: &str, binary: &str) -> Result<String, SetupError> {
    let document = parse(text)?;
    if let Some(entry) = find(document.as_table(), &SERVER)
        && !is_server(entry)
    {
        return Err(SetupError::Taken {
            what: SERVER.join("."),
        });
    }
    let args: Value = program::MCP.into_iter().collect();
    put(text, &SERVER, &[("command", binary.into()), ("args", args)])
}

pub(super) fn remove(text: &str) -> Result<String, SetupError> {
    let document = parse(text)?;
    match find(document.as_table(), &SERVER) {
        Some(entry) if is_server(entry) => cut(text, &[&SERVER]),
        Some(_) | None => Ok(text.to_owned()),
    }
}

fn is_server(entry: &Item) -> bool {
    let command = entry.as_table_like().and_then(|it| it.get("command"));
    command
        .and_then(Item::as_str)
        .is_some_and(program::is_fleet)
}

/// Reads a text. Its positions are those of `bare`.
pub(super) fn parse(text: &str) -> Result<Document<&str>, SetupError> {
    let bare = bare(text);
    Document::parse(bare).map_err(|error| {
        let (line, column) = position(bare, error.span().map_or(0, |span| span.start));
        let reason = error.message().replace('\n', ", ");
        SetupError::Malformed {
            line,
            column,
            reason,
        }
    })
}

fn bare(text: &str) -> &str {
    text.strip_prefix(BOM).unwrap_or(text)
}

pub(super) fn find<'a>(table: &'a Table, path: &[&str]) -> Option<&'a Item> {
    let (first, rest) = path.split_first()?;
    let mut item = table.get(first)?;
    for key in rest {
        item = item.as_table_like()?.get(key)?;
    }
    Some(item)
}

/// Sets keys of a table, which is added at the end of the text when it is not there.
pub(super) fn put(text: &str, path: &[&str], keys: &[(&str, Value)]) -> Result<String, SetupError> {
    let document = parse(text)?;
    let Some(entry) = find(document.as_table(), path) else {
        return added(text, path, keys);
    };
    let Some(table) = entry.as_table_like() else {
        return Err(misshapen(text, entry, path));
    };
    let mut edits: Vec<(Range<usize>, String)> = Vec::new();
    for (key, want) in keys {
        match table.get(key) {
            Some(item) if plain(item) == plain(&Item::Value(want.clone())) => {}
            Some(item) => {
                let Some(span) = item.span() else {
                    return Err(misshapen(text, entry, path));
                };
                edits.push((span, want.to_string()));
            }
            None => {
                let place = match entry {
                    Item::Table(table) if !table.is_dotted() => table.span(),
                    _ => None,
                };
                let Some(span) = place else {
                    return Err(misshapen(text, entry, path));
                };
                let at = line_end(bare(text), span.end);
                let line = format!("{} = {want}{}", name(key), newline(text));
                let lead = if bare(text)[..at].ends_with('\n') {
                    ""
                } else {
                    newline(text)
                };
                edits.push((at..at, format!("{lead}{line}")));
            }
        }
    }
    let mut out = bare(text).to_owned();
    edits.sort_by_key(|(span, _)| std::cmp::Reverse(span.start));
    for (span, new) in edits {
        out.replace_range(span, &new);
    }
    checked(with_bom(text, out), path, text)
}

fn added(text: &str, path: &[&str], keys: &[(&str, Value)]) -> Result<String, SetupError> {
    let end = newline(text);
    let names: Vec<String> = path.iter().map(|key| name(key)).collect();
    let mut block = format!("[{}]", names.join("."));
    for (key, value) in keys {
        block.push_str(&format!("{end}{} = {value}", name(key)));
    }
    let old = bare(text);
    // A text without an end of line keeps none: by that, the removal knows how much to take.
    let out = if old.is_empty() {
        format!("{block}{end}")
    } else if old.ends_with('\n') {
        format!("{old}{end}{block}{end}")
    } else {
        format!("{old}{end}{end}{block}")
    };
    checked(with_bom(text, out), path, text)
}

/// A table that could not be added, such as one below an inline table, shows when the text is read again.
fn checked(out: String, path: &[&str], text: &str) -> Result<String, SetupError> {
    let found = parse(&out).is_ok_and(|it| find(it.as_table(), path).is_some());
    if found {
        return Ok(out);
    }
    let document = parse(text)?;
    let held = (1..=path.len())
        .rev()
        .find_map(|len| find(document.as_table(), &path[..len]));
    let none = Item::None;
    Err(misshapen(text, held.unwrap_or(&none), path))
}

/// Takes whole tables out.
pub(super) fn cut(text: &str, paths: &[&[&str]]) -> Result<String, SetupError> {
    let document = parse(text)?;
    let old = bare(text);
    let mut regions = Vec::new();
    for path in paths {
        let Some((last, parents)) = path.split_last() else {
            continue;
        };
        let Some(entry) = find(document.as_table(), path) else {
            continue;
        };
        let parent = match parents {
            [] => Some(document.as_table()),
            _ => find(document.as_table(), parents).and_then(Item::as_table),
        };
        let Some((key, _)) = parent.and_then(|parent| parent.get_key_value(last)) else {
            return Err(misshapen(text, entry, path));
        };
        gather(old, key, entry, &mut regions);
    }
    regions.sort_by_key(|region| std::cmp::Reverse(region.start));
    let mut out = old.to_owned();
    for region in regions {
        // The gap of the one after it may have taken its end of line.
        let region = with_gap(&out, region.start..region.end.min(out.len()));
        out.replace_range(region, "");
    }
    Ok(with_bom(text, out))
}

/// The lines of an item, and of the tables below it.
fn gather(text: &str, key: &Key, item: &Item, regions: &mut Vec<Range<usize>>) {
    match item {
        Item::None => {}
        Item::Value(value) => {
            let start = key.span().map(|span| span.start);
            if let (Some(start), Some(span)) = (start, value.span()) {
                regions.push(line_start(text, start)..line_end(text, span.end));
            }
        }
        Item::Table(table) => {
            let header = (!table.is_dotted() && !table.is_implicit())
                .then(|| table.span())
                .flatten();
            gather_table(text, table, header, regions);
        }
        Item::ArrayOfTables(all) => {
            for table in all {
                gather_table(text, table, table.span(), regions);
            }
        }
    }
}

fn gather_table(
    text: &str,
    table: &Table,
    header: Option<Range<usize>>,
    regions: &mut Vec<Range<usize>>,
) {
    let mut own = Vec::new();
    for (name, item) in table {
        let Some((key, _)) = table.get_key_value(name) else {
            continue;
        };
        let within = match item {
            Item::Value(_) => true,
            Item::Table(inner) => inner.is_dotted(),
            Item::None | Item::ArrayOfTables(_) => false,
        };
        gather(text, key, item, if within { &mut own } else { regions });
    }
    match header {
        None => regions.extend(own),
        Some(header) => {
            let end = own.iter().map(|region| region.end).max();
            let end = end.unwrap_or_else(|| line_end(text, header.end));
            regions.push(line_start(text, header.start)..end);
        }
    }
}

/// The blank line before a region goes with it, where another blank line or the end of the text follows.
fn with_gap(text: &str, region: Range<usize>) -> Range<usize> {
    let after = &text[region.end..];
    let open_end = after.is_empty() && !text[..region.end].ends_with('\n');
    let mut start = region.start;
    let blank_follows = after.is_empty() || after.starts_with('\n') || after.starts_with("\r\n");
    if blank_follows && let Some(shorter) = without_newline(&text[..start]) {
        if shorter.is_empty() || shorter.ends_with('\n') {
            start = shorter.len();
        }
        if open_end && let Some(shorter) = without_newline(&text[..start]) {
            start = shorter.len();
        }
    }
    start..region.end
}

fn without_newline(text: &str) -> Option<&str> {
    let text = text.strip_suffix('\n')?;
    Some(text.strip_suffix('\r').unwrap_or(text))
}

fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |newline| newline + 1)
}

/// The start of the next line.
fn line_end(text: &str, at: usize) -> usize {
    text[at..]
        .find('\n')
        .map_or(text.len(), |newline| at + newline + 1)
}

fn newline(text: &str) -> &'static str {
    if text.contains("\r\n") { "\r\n" } else { "\n" }
}

fn with_bom(text: &str, out: String) -> String {
    if text.starts_with(BOM) {
        format!("{BOM}{out}")
    } else {
        out
    }
}

fn name(key: &str) -> String {
    Key::new(key).display_repr().into_owned()
}

/// A value without its layout.
fn plain(item: &Item) -> Option<String> {
    match item.as_value()? {
        Value::String(it) => Some(format!("{:?}", it.value())),
        Value::Array(all) => {
            let all: Option<Vec<String>> = all
                .iter()
                .map(|it| plain(&Item::Value(it.clone())))
                .collect();
            Some(format!("[{}]", all?.join(", ")))
        }
        Value::Integer(_)
        | Value::Float(_)
        | Value::Boolean(_)
        | Value::Datetime(_)
        | Value::InlineTable(_) => None,
    }
}

fn misshapen(text: &str, item: &Item, path: &[&str]) -> SetupError {
    let (line, column) = position(bare(text), item.span().map_or(0, |span| span.start));
    SetupError::Shape {
        line,
        column,
        key: path.join("."),
        expected: "a table that can be edited",
    }
}
