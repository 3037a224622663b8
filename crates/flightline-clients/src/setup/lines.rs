//! Compares two texts line by line.

use std::ops::Range;

/// So many pairs of lines are compared; where there are more, all lines between the first and the last that differ count as
/// changed. A settings file is far below.
const MOST_PAIRS: usize = 4_000_000;

/// A stretch of lines, and the lines that stand there instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LineChange {
    pub(super) old: Range<usize>,
    pub(super) new: Range<usize>,
}

/// The lines of a text, each with its end.
pub(super) fn lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

/// The fewest changes that lead from `old` to `new`, in order; between two of them is at least one line that stays.
pub(super) fn changes(old: &[&str], new: &[&str]) -> Vec<LineChange> {
    let pairs = || old.iter().zip(new);
    let head = pairs().take_while(|(a, b)| a == b).count();
    let (old_rest, new_rest) = (&old[head..], &new[head..]);
    let ends = old_rest.iter().rev().zip(new_rest.iter().rev());
    let tail = ends.take_while(|(a, b)| a == b).count();
    let old_rest = &old_rest[..old_rest.len() - tail];
    let new_rest = &new_rest[..new_rest.len() - tail];
    let kept = match old_rest.len().saturating_mul(new_rest.len()) <= MOST_PAIRS {
        true => common(old_rest, new_rest),
        false => Vec::new(),
    };
    let mut changes = Vec::new();
    let (mut at, mut to) = (0, 0);
    let end = (old_rest.len(), new_rest.len());
    for (a, b) in kept.into_iter().chain([end]) {
        if at < a || to < b {
            changes.push(LineChange {
                old: head + at..head + a,
                new: head + to..head + b,
            });
        }
        (at, to) = (a + 1, b + 1);
    }
    changes
}

/// The places of a longest run of lines that both have, in order.
fn common(old: &[&str], new: &[&str]) -> Vec<(usize, usize)> {
    let width = new.len() + 1;
    // The number of lines that both have in common from there on.
    let mut rest = vec![0_u32; (old.len() + 1) * width];
    for (a, line) in old.iter().enumerate().rev() {
        for (b, other) in new.iter().enumerate().rev() {
            let at = a * width + b;
            rest[at] = match line == other {
                true => rest[at + width + 1] + 1,
                false => rest[at + width].max(rest[at + 1]),
            };
        }
    }
    let (mut a, mut b, mut kept) = (0, 0, Vec::new());
    while a < old.len() && b < new.len() {
        let at = a * width + b;
        if old[a] == new[b] {
            kept.push((a, b));
            (a, b) = (a + 1, b + 1);
        } else if rest[at + width] >= rest[at + 1] {
            a += 1;
        } else {
            b += 1;
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(old: &str, new: &str) -> Vec<(Range<usize>, Range<usize>)> {
        let changes = changes(&lines(old), &lines(new));
        changes.into_iter().map(|it| (it.old, it.new)).collect()
    }

    #[test]
    fn changes_lead_from_one_text_to_the_other_and_name_no_line_that_stays() {
        assert_eq!(found("", ""), []);
        assert_eq!(found("a\nb\n", "a\nb\n"), []);
        assert_eq!(found("", "a\n"), [(0..0, 0..1)]);
        assert_eq!(found("a\nb\nc\n", "a\nc\n"), [(1..2, 1..1)]);
        assert_eq!(
            found("a\nb\nc\nd\n", "x\nb\nc\ny\nd\n"),
            [(0..1, 0..1), (3..3, 3..4)]
        );
        assert_eq!(found("a\n", "a"), [(0..1, 0..1)]);
        let (old, new) = ("x\n".repeat(2_100), "y\n".repeat(2_100));
        assert_eq!(found(&old, &new), [(0..2_100, 0..2_100)]);
    }
}
