//! A change of a file, for people to read.

use std::fmt::Write as _;
use std::ops::Range;

use super::lines::{LineChange, changes, lines};

/// The number of lines that stay and are shown around a change.
const AROUND: usize = 3;

/// The change of a file as a unified diff with three lines of context; empty when nothing changes. `None` stands for no file.
pub fn diff(before: Option<&str>, after: Option<&str>, path: &str) -> String {
    if before == after {
        return String::new();
    }
    let name = |side: &str, text: Option<&str>| match text {
        Some(_) => format!("{side}/{path}"),
        None => "/dev/null".to_owned(),
    };
    let mut text = format!("--- {}\n+++ {}\n", name("a", before), name("b", after));
    let old = lines(before.unwrap_or_default());
    let new = lines(after.unwrap_or_default());
    for hunk in hunks(changes(&old, &new)) {
        hunk_text(&mut text, &hunk, &old, &new);
    }
    text
}

/// Changes that are so near to one another that they are shown together.
fn hunks(changes: Vec<LineChange>) -> Vec<Vec<LineChange>> {
    let mut hunks: Vec<Vec<LineChange>> = Vec::new();
    for change in changes {
        let last = hunks.last_mut().filter(|hunk| {
            let end = hunk.last().map_or(0, |last| last.old.end);
            change.old.start - end <= 2 * AROUND
        });
        match last {
            Some(hunk) => hunk.push(change),
            None => hunks.push(vec![change]),
        }
    }
    hunks
}

fn hunk_text(text: &mut String, hunk: &[LineChange], old: &[&str], new: &[&str]) {
    let (Some(first), Some(last)) = (hunk.first(), hunk.last()) else {
        return;
    };
    let around = |start: usize, end: usize, all: usize| {
        start.saturating_sub(AROUND)..(end + AROUND).min(all)
    };
    let (from, to) = (
        around(first.old.start, last.old.end, old.len()),
        around(first.new.start, last.new.end, new.len()),
    );
    let _ = writeln!(text, "@@ -{} +{} @@", place(&from), place(&to));
    let mut at = from.start;
    for change in hunk {
        say(text, ' ', &old[at..change.old.start]);
        say(text, '-', &old[change.old.clone()]);
        say(text, '+', &new[change.new.clone()]);
        at = change.old.end;
    }
    say(text, ' ', &old[at..from.end]);
}

/// Returns the place of lines: the number of the first, counted from one, and how many; of none, the number of the line
/// before.
fn place(lines: &Range<usize>) -> String {
    match lines.len() {
        0 => format!("{},0", lines.start),
        1 => format!("{}", lines.start + 1),
        count => format!("{},{count}", lines.start + 1),
    }
}

fn say(text: &mut String, mark: char, lines: &[&str]) {
    for line in lines {
        let end = match line.ends_with('\n') {
            true => "",
            false => "\n\\ No newline at end of file\n",
        };
        let _ = write!(text, "{mark}{line}{end}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_shows_the_lines_around_a_change() {
        let before = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
        let after = before.replace('5', "five");
        let text = diff(Some(before), Some(&after), "x.json");
        assert_eq!(
            text,
            "--- a/x.json\n+++ b/x.json\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n"
        );
        assert_eq!(diff(Some("a"), Some("a"), "x"), "");
        assert_eq!(
            diff(None, Some("a\n"), "x"),
            "--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+a\n"
        );
        assert_eq!(
            diff(Some("a\nb"), Some("a\nb\n"), "x"),
            "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+b\n"
        );
        // Changes that are far from one another are shown apart.
        let after = format!("0\n{before}10\n");
        let text = diff(Some(before), Some(&after), "x");
        assert_eq!(
            text,
            "--- a/x\n+++ b/x\n@@ -1,3 +1,4 @@\n+0\n 1\n 2\n 3\n@@ -7,3 +8,4 @@\n 7\n 8\n 9\n+10\n"
        );
    }
}
