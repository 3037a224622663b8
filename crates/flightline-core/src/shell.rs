//! Writes words of a shell's command line: in a command that is shown to be pasted, nothing of a path or a title may act.

use std::borrow::Cow;

/// One word of a shell's command line, quoted where that is needed.
pub fn shell_word(text: &str) -> Cow<'_, str> {
    let plain = |letter: char| letter.is_alphanumeric() || "._-+/@%,:=".contains(letter);
    match text.chars().all(plain) && !text.starts_with('-') && !text.is_empty() {
        true => Cow::Borrowed(text),
        false => Cow::Owned(in_single_quotes(text)),
    }
}

/// A text of several words as one word of a shell's command line, always quoted.
pub fn shell_text(text: &str) -> String {
    // In double quotes these act, the last one in interactive shells.
    match text.contains(['"', '$', '`', '\\', '!']) {
        true => in_single_quotes(text),
        false => format!("\"{text}\""),
    }
}

fn in_single_quotes(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('\'');
    for letter in text.chars() {
        match letter {
            // Between single quotes a backslash acts in fish, so none stands there.
            '\'' | '\\' => quoted.extend(['\'', '\\', letter, '\'']),
            plain => quoted.push(plain),
        }
    }
    quoted.push('\'');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_act_in_a_shell_is_quoted() {
        assert_eq!(shell_word("src/a.rs"), "src/a.rs");
        assert_eq!(shell_word("src/**"), "'src/**'");
        assert_eq!(shell_word("-n"), "'-n'");
        assert_eq!(shell_word(""), "''");
        assert_eq!(shell_word("it's"), r"'it'\''s'");
        assert_eq!(shell_text("Need a.rs"), "\"Need a.rs\"");
        assert_eq!(shell_text("it's"), "\"it's\"");
        for acts in ["$(touch x)", "`touch x`", "a\" b", "!!"] {
            assert_eq!(shell_text(acts), format!("'{acts}'"));
        }
        assert_eq!(shell_word(r"a\'$(x)"), r"'a'\\''\''$(x)'");
    }
}
