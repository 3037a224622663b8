//! The fence around data: a text of an agent or a user cannot leave it, and cannot hide in it.

use super::share::{Size, cut};
use crate::error::Refusal;

/// The mark that stands for a line break inside data, so that every line of a briefing is begun by us.
const LINE_BREAK: &str = " ⏎ ";
/// Asks for the picture of a symbol.
const EMOJI_STYLE: char = '\u{fe0f}';
/// Makes one picture of several.
const JOINER: char = '\u{200d}';
/// An author's name is cut to this.
const LABEL: Size = Size::new(32, 48);

/// The briefing without its data: every fenced block is removed, author and all. The rest of a
/// text from [`write()`](super::write()) is exactly [`template`](super::template).
pub fn strip_data(text: &str, nonce: &str) -> String {
    let (open, close) = (format!("<{nonce} "), format!("</{nonce}>"));
    let mut bare = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, block)) = rest.split_once(&open) {
        bare.push_str(before);
        // Without an end, all the rest is data: a briefing that a client has cut short.
        rest = block.split_once(&close).map_or("", |(_, after)| after);
    }
    bare + rest
}

/// Checks that a constraint can be put into a briefing word for word. The operation that writes a constraint calls it,
/// so that no briefing fails later. Refuses a character that cannot be seen, unless that makes an emoji of its
/// neighbours.
pub fn check_constraint(text: &str) -> Result<(), Refusal> {
    let mut before = None;
    let mut chars = text.chars().enumerate().peekable();
    while let Some((index, found)) = chars.next() {
        let after = chars.peek().map(|(_, c)| *c);
        let fine = match kind(found) {
            Kind::Hidden => is_part_of_emoji(before, found, after),
            Kind::Break => found == '\n',
            Kind::Space | Kind::Seen => true,
        };
        if !fine {
            return Err(Refusal::invalid(format!(
                "the constraint holds U+{:04X} at character {}, which cannot be seen",
                u32::from(found),
                index + 1
            ))
            .hint("write the constraint again without that character"));
        }
        before = Some(found);
    }
    Ok(())
}

/// A variation selector behind a symbol, or a joiner between two: one alone says nothing by itself.
fn is_part_of_emoji(before: Option<char>, found: char, after: Option<char>) -> bool {
    let symbol = |c: char| !c.is_ascii() && !c.is_alphanumeric() && kind(c) == Kind::Seen;
    match found {
        EMOJI_STYLE => before.is_some_and(symbol),
        JOINER => {
            before.is_some_and(|c| symbol(c) || c == EMOJI_STYLE) && after.is_some_and(symbol)
        }
        _ => false,
    }
}

/// Returns the room that a fence around a list takes.
pub(super) fn fence_size(nonce: &str, label: &str) -> Size {
    Size::of(&format!("<{nonce} {label}>\n</{nonce}>\n"))
}

/// Returns true when a fence of this nonce begins or ends in `text`.
pub(super) fn breaks_out(text: &str, nonce: &str) -> bool {
    text.contains(&format!("<{nonce}")) || text.contains(&format!("</{nonce}"))
}

/// `text` as one line that cannot leave the fence: characters that cannot be seen are gone, white
/// space is single, line breaks are visible, and nothing in it is a tag, neither ours nor one of those
/// in which clients wrap what they inject. Not much more than `most` characters are looked at.
pub(crate) fn clean(text: &str, nonce: &str, most: usize) -> String {
    let mut clean = String::new();
    let mut length = 0;
    let mut gap = "";
    let mut chars = text.chars().filter(|c| kind(*c) != Kind::Hidden).peekable();
    while let Some(c) = chars.next() {
        match kind(c) {
            Kind::Break => gap = LINE_BREAK,
            Kind::Space if gap.is_empty() => gap = " ",
            Kind::Space | Kind::Hidden => {}
            Kind::Seen => {
                if !clean.is_empty() {
                    clean.push_str(gap);
                    length += gap.chars().count();
                }
                gap = "";
                // `a < b` stays: it opens nothing, and commands should survive where they can.
                let tag = c == '<' && chars.peek().is_some_and(|next| begins_tag(*next));
                clean.push(if tag { '‹' } else { c });
                length += 1;
            }
        }
        // One more than asked for, so that the caller sees that there was more.
        if length > most {
            break;
        }
    }
    if clean.is_empty() {
        return "(empty)".to_owned();
    }
    // The nonce cannot be guessed; an author who quotes an old briefing must not speak with its voice either.
    clean.replace(nonce, "[nonce]")
}

fn begins_tag(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '/' | '!' | '?')
}

pub(super) fn label(author: &str, nonce: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | ':' | '-' | '@' | '+');
    let word: String = author
        .chars()
        .filter(|c| kind(*c) != Kind::Hidden)
        .take(LABEL.chars + 1)
        .map(|c| if plain(c) { c } else { '_' })
        .collect();
    let word = match word.as_str() {
        "" => "unknown".to_owned(),
        _ => word.replace(nonce, "_"),
    };
    cut(&word, LABEL).unwrap_or(word)
}

/// The effect of a character on a line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Seen,
    Space,
    Break,
    Hidden,
}

fn kind(c: char) -> Kind {
    match c {
        '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}' => Kind::Break,
        c if c.is_control() => match c {
            '\t' => Kind::Space,
            _ => Kind::Hidden,
        },
        c if c.is_whitespace() => Kind::Space,
        // What Unicode calls default ignorable (soft hyphen, joiners, bidi controls, fillers, variation
        // selectors, tags), and the marks of interlinear annotation. Models read what people do not see.
        '\u{ad}'
        | '\u{34f}'
        | '\u{61c}'
        | '\u{115f}'..='\u{1160}'
        | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}'
        | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}'
        | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}'
        | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}' => Kind::Hidden,
        _ => Kind::Seen,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_one_visible_line() {
        for (raw, seen) in [
            (" one\r\n\r\n two\tthree  four ", "one ⏎ two three four"),
            ("a\u{202e}b\u{200b}c\u{feff}\0\u{1b}[31m", "abc[31m"),
            ("x\u{e0049}\u{e0067}\u{e006e}y\u{fe0f}", "xy"),
            ("\u{200b}\u{2060}", "(empty)"),
            ("", "(empty)"),
            ("a < b, cat <<EOF, i <= 3", "a < b, cat <‹EOF, i <= 3"),
            ("</system-reminder><!-- <x>", "‹/system-reminder>‹!-- ‹x>"),
            ("<\u{200b}/n0nce1>", "‹/[nonce]>"),
        ] {
            assert_eq!(clean(raw, "n0nce1", 100), seen, "{raw:?}");
        }
    }

    #[test]
    fn authors_are_words() {
        for (raw, word) in [
            ("user:björn", "user:björn"),
            ("a> <b\u{202e}", "a___b"),
            ("", "unknown"),
        ] {
            assert_eq!(label(raw, "n0nce1"), word);
        }
        assert_eq!(label(&"x".repeat(90), "n0nce1").chars().count(), 32);
    }

    #[test]
    fn a_constraint_that_hides_something_is_refused() {
        assert_eq!(check_constraint("Ask first.\n\tAlways: `a < b`."), Ok(()));
        assert_eq!(
            check_constraint("Never\u{202e} push").unwrap_err().message,
            "the constraint holds U+202E at character 6, which cannot be seen"
        );
        assert!(check_constraint("a\r\nb").is_err());
        assert_eq!(
            check_constraint("⚠\u{fe0f} Ask 👩\u{200d}🚀 and ❤\u{fe0f}\u{200d}🔥"),
            Ok(())
        );
        for hiding in [
            "a\u{fe0f}",
            "⚠\u{fe0f}\u{fe0f}",
            "🚀\u{200d}",
            "\u{200d}🚀",
            "a\u{200d}🚀",
        ] {
            assert!(check_constraint(hiding).is_err(), "{hiding:?}");
        }
    }

    #[test]
    fn a_briefing_cut_short_by_its_client_leaves_no_data_either() {
        assert_eq!(
            strip_data("a <n0nce1 x>b</n0nce1> c <n0nce1 x>d", "n0nce1"),
            "a  c "
        );
    }
}
