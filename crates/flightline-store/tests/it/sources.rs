//! What the source text itself must and must not say.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use flightline_store::statements;

/// A string literal, and the code on both sides of it.
struct Literal {
    text: String,
    before: String,
    after: String,
    place: String,
}

#[test]
fn no_sql_stands_outside_the_store() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut searched = 0;
    for folder in fs::read_dir(crates).unwrap() {
        let folder = folder.unwrap().path();
        if folder.ends_with("flightline-store") || !folder.join("src").is_dir() {
            continue;
        }
        for file in files_under(&folder.join("src")) {
            // For tests only: it damages stores in ways that no operation can.
            if file.ends_with("flightline-testkit/src/damage.rs") {
                continue;
            }
            assert!(
                file.extension().is_none_or(|extension| extension != "sql"),
                "{}",
                file.display()
            );
            searched += 1;
            for literal in literals_of(&file) {
                assert!(
                    !is_sql(&literal.text),
                    "{} has SQL in it: {}",
                    literal.place,
                    literal.text
                );
            }
        }
    }
    assert!(searched > 20, "the other crates were searched");
}

#[test]
fn every_statement_of_a_table_is_in_the_list() {
    let listed = statements();
    let mut found = 0;
    for file in store_sources() {
        let name = file.strip_prefix(store()).unwrap().display().to_string();
        if name.starts_with("engine") {
            continue;
        }
        for literal in literals_of(&file) {
            if is_sql(&literal.text) {
                let sql = continued(&literal.text);
                assert!(
                    listed.contains(&sql.as_str()),
                    "{} is not in `statements()`: {sql}",
                    literal.place
                );
                found += 1;
            }
        }
    }
    assert_eq!(found, listed.len(), "the search sees every statement");
}

#[test]
fn no_sql_is_put_together_while_running() {
    for file in store_sources() {
        for literal in literals_of(&file)
            .iter()
            .filter(|literal| is_sql(&literal.text))
        {
            assert!(
                !literal.before.trim_end().ends_with("!("),
                "{} is the pattern of a macro",
                literal.place
            );
            let after = literal.after.trim_start();
            for builder in [".to_", ".into", ".replace", ".repeat", "+"] {
                assert!(
                    !after.starts_with(builder),
                    "{} is a part of something",
                    literal.place
                );
            }
        }
        let code = fs::read_to_string(&file).unwrap();
        for call in [
            "execute",
            "execute_batch",
            "batch_execute",
            "query",
            "query_one",
            "query_map",
            "prepare",
            "prepare_cached",
        ] {
            assert!(
                !code.contains(&format!(".{call}(&format!")),
                "{}: {call}",
                file.display()
            );
        }
    }
}

/// Closing any descriptor of the database, its log or its index drops SQLite's locks for the whole
/// process. So whatever opens a file in this crate is listed here, with the reason why it may.
#[test]
fn nothing_new_opens_a_file_that_sqlite_may_have_open() {
    let allowed = [
        // The queue's own file, which SQLite never opens.
        (
            "engine/queue.rs",
            "let file = self.folder.lock_file(QUEUE);",
        ),
        (
            "engine/queue.rs",
            "let text = self.folder.read_text(QUEUE, 4_096).ok().flatten();",
        ),
        // A backup that somebody named, which `refuse_live` has looked at; into a folder of our own.
        (
            "copy.rs",
            "self.restore_opened(file, &|| File::open(file), above, settle)",
        ),
        (
            "copy.rs",
            "let mut copy = File::create_new(to).map_err(cannot)?;",
        ),
        (
            "copy.rs",
            "io::copy(&mut from, &mut copy).map_err(cannot)?;",
        ),
        // The finished copy, whose connection is closed.
        ("copy.rs", "let opened = self.above.open_file(&made);"),
        // The folder, and in it the file that keeps the last acknowledged revision.
        (
            "engine/sqlite/anchor.rs",
            "let Some(file) = self.0.open_file(FILE).map_err(cannot)? else {",
        ),
        (
            "engine/sqlite/anchor.rs",
            "let file = self.0.lock_file(FILE)?;",
        ),
        // The room that is kept for what ends trouble.
        (
            "engine/sqlite/reserve.rs",
            "self.folder.put(FILE, content, Replacing::Yes, 0o600)",
        ),
    ];
    let openers = [
        "File::open",
        "File::create",
        "OpenOptions::new",
        "File::options",
        "fs::read(",
        "fs::read_to_string",
        "fs::write",
        "fs::copy",
        "io::copy",
        ".lock_file(",
        ".append_file(",
        ".open_file(",
        ".read_text(",
        "Replacing::",
        "rustix::fs::open(",
        "openat(",
        "rustix::fs::sendfile",
        "rustix::fs::copy_file_range",
    ];
    let mut found: BTreeMap<(String, String), usize> = BTreeMap::new();
    for file in store_sources() {
        let name = file.strip_prefix(store()).unwrap().display().to_string();
        for line in fs::read_to_string(&file).unwrap().lines().map(str::trim) {
            if !line.starts_with("//") && openers.iter().any(|opener| line.contains(opener)) {
                *found.entry((name.clone(), line.to_owned())).or_default() += 1;
            }
        }
    }
    let allowed: BTreeMap<(String, String), usize> = allowed
        .iter()
        .map(|(file, line)| ((String::from(*file), String::from(*line)), 1))
        .collect();
    assert_eq!(found, allowed);
}

fn store() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

fn store_sources() -> Vec<PathBuf> {
    let mut files = files_under(&store());
    files.retain(|file| file.extension().is_some_and(|extension| extension == "rs"));
    assert!(files.len() > 10, "the sources are there");
    files
}

fn files_under(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(files_under(&path));
        } else {
            files.push(path);
        }
    }
    files
}

fn is_sql(text: &str) -> bool {
    let words = text.trim_start().to_ascii_uppercase();
    (words.starts_with("SELECT ") && words.contains(" FROM "))
        || words.starts_with("INSERT INTO ")
        || words.starts_with("DELETE FROM ")
        || (words.starts_with("UPDATE ") && words.contains(" SET "))
        || (words.starts_with("WITH ") && words.contains(" AS (") && words.contains(" SELECT "))
        || words.starts_with("CREATE TABLE ")
}

/// The text as the compiler reads it: a backslash at the end of a line takes the next one's indent away.
fn continued(text: &str) -> String {
    text.split("\\\n")
        .enumerate()
        .map(|(at, part)| if at == 0 { part } else { part.trim_start() })
        .collect()
}

/// The string literals of a Rust file, comments and characters left out.
fn literals_of(file: &Path) -> Vec<Literal> {
    let Ok(code) = fs::read_to_string(file) else {
        return Vec::new();
    };
    let mut literals = Vec::new();
    let mut at = 0;
    while let Some(rest) = code.get(at..).filter(|rest| !rest.is_empty()) {
        if rest.starts_with("//") {
            at += rest.find('\n').unwrap_or(rest.len());
        } else if rest.starts_with("'\"'") {
            at += 3;
        } else if rest.starts_with("'\\\"'") {
            at += 4;
        } else if let Some(literal) = rest.strip_prefix('"') {
            let length = string_length(&code[..at], literal);
            let line = code[..at].matches('\n').count() + 1;
            literals.push(Literal {
                text: literal[..length].to_owned(),
                before: code[..at].lines().last().unwrap_or_default().to_owned(),
                after: literal[length + 1..].chars().take(20).collect(),
                place: format!("{}:{line}", file.display()),
            });
            at += length + 2;
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    literals
}

/// How long the literal is whose opening quote stands between `before` and `rest`.
fn string_length(before: &str, rest: &str) -> usize {
    let hashes = before.len() - before.trim_end_matches('#').len();
    if before.trim_end_matches('#').ends_with('r') {
        let end = format!("\"{}", "#".repeat(hashes));
        return rest.find(&end).unwrap();
    }
    let mut escaped = false;
    rest.find(|c| {
        let ends = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        ends
    })
    .unwrap()
}
