//! A command line as the simple commands in it, with their quotes taken away. It knows as much of the shell's grammar as is needed to
//! tell a command from a text that only mentions it.

use std::str::Chars;

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Simple {
    pub words: Vec<String>,
    /// The here-document that it reads.
    pub stdin: Option<String>,
}

/// The largest depth to which substitutions are followed. Deeper ones count as text.
const DEEPEST: usize = 16;

/// The commands of a command line, those inside of substitutions and subshells as well, in no particular order.
pub fn commands(line: &str) -> Vec<Simple> {
    let mut reader = Reader {
        rest: line.chars(),
        done: Vec::new(),
        awaited: Vec::new(),
    };
    // A closing parenthesis too many ends a list early.
    while reader.rest.as_str() != "" {
        reader.list(0);
    }
    reader.done
}

struct Reader<'a> {
    rest: Chars<'a>,
    done: Vec<Simple>,
    awaited: Vec<HereDocument>,
}

/// A here-document whose lines have not come yet.
struct HereDocument {
    delimiter: String,
    /// The command that reads it, once that is complete.
    reader: Option<usize>,
}

#[derive(Default)]
struct Word {
    text: String,
    /// There is a word, be it an empty one in quotes.
    begun: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    Argument,
    File,
    /// The end mark of a here-document.
    Delimiter,
}

impl Reader<'_> {
    /// Reads commands up to the closing parenthesis that belongs to an opening one before, or to the end.
    fn list(&mut self, depth: usize) {
        let mut command = Simple::default();
        let mut word = Word::default();
        let mut next = Next::Argument;
        while let Some(c) = self.rest.next() {
            match c {
                ' ' | '\t' | '\r' => self.end_word(&mut word, &mut next, &mut command),
                '\n' => {
                    self.end_command(&mut word, &mut next, &mut command);
                    self.here_documents();
                }
                '&' if self.peek() == Some('>') => {
                    self.end_word(&mut word, &mut next, &mut command);
                }
                ';' | '&' | '|' => self.end_command(&mut word, &mut next, &mut command),
                '(' if depth < DEEPEST => {
                    self.end_command(&mut word, &mut next, &mut command);
                    self.list(depth + 1);
                }
                ')' => break,
                '<' | '>' => {
                    if word.text.bytes().all(|it| it.is_ascii_digit()) {
                        // The number of a file descriptor.
                        word = Word::default();
                    }
                    self.end_word(&mut word, &mut next, &mut command);
                    next = self.redirection(c, depth);
                }
                '#' if !word.begun => {
                    while !matches!(self.peek(), None | Some('\n')) {
                        self.rest.next();
                    }
                }
                c => self.part(c, &mut word, depth),
            }
        }
        self.end_command(&mut word, &mut next, &mut command);
    }

    /// Reads what belongs to a word: a character, a quoted text, a substitution.
    fn part(&mut self, c: char, word: &mut Word, depth: usize) {
        word.begun = true;
        match c {
            '\\' => match self.rest.next() {
                Some('\n') | None => word.begun = !word.text.is_empty(),
                Some(literal) => word.text.push(literal),
            },
            '\'' => self.quoted(word),
            '"' => {
                while let Some(c) = self.rest.next() {
                    match c {
                        '"' => break,
                        '\\' => match self.rest.next() {
                            Some(c @ ('"' | '\\' | '$' | '`')) => word.text.push(c),
                            Some('\n') | None => (),
                            Some(c) => word.text.extend(['\\', c]),
                        },
                        c => self.substitution(c, word, depth),
                    }
                }
            }
            '$' if self.peek() == Some('\'') => {
                self.rest.next();
                while let Some(c) = self.rest.next() {
                    match c {
                        '\'' => break,
                        '\\' => word.text.extend(self.rest.next()),
                        c => word.text.push(c),
                    }
                }
            }
            c => self.substitution(c, word, depth),
        }
    }

    fn quoted(&mut self, word: &mut Word) {
        let inside = self.rest.by_ref().take_while(|it| *it != '\'');
        word.text.extend(inside);
    }

    /// Reads a command in `$(…)` or in backquotes; its output is not known, so that the word gets a mark in its place.
    fn substitution(&mut self, c: char, word: &mut Word, depth: usize) {
        match c {
            '$' if self.peek() == Some('(') && depth < DEEPEST => {
                self.rest.next();
                self.list(depth + 1);
                word.text.push_str("$()");
            }
            '`' if depth < DEEPEST => {
                let mut inside = String::new();
                while let Some(c) = self.rest.next() {
                    match c {
                        '`' => break,
                        '\\' => inside.extend(self.rest.next()),
                        c => inside.push(c),
                    }
                }
                self.nested(&inside, depth);
                word.text.push_str("$()");
            }
            c => word.text.push(c),
        }
    }

    fn nested(&mut self, inside: &str, depth: usize) {
        let mut reader = Reader {
            rest: inside.chars(),
            done: Vec::new(),
            awaited: Vec::new(),
        };
        reader.list(depth + 1);
        self.done.append(&mut reader.done);
    }

    /// Reads the rest of a redirection's sign, and says what its word is.
    fn redirection(&mut self, sign: char, depth: usize) -> Next {
        match self.peek() {
            Some('(') if depth < DEEPEST => {
                // A command in the place of a file.
                self.rest.next();
                self.list(depth + 1);
                Next::Argument
            }
            Some('<') if sign == '<' => {
                self.rest.next();
                match self.peek() {
                    Some('<') => {
                        self.rest.next();
                        Next::File
                    }
                    Some('-') => {
                        self.rest.next();
                        Next::Delimiter
                    }
                    _ => Next::Delimiter,
                }
            }
            Some('>' | '&' | '|') => {
                self.rest.next();
                Next::File
            }
            _ => Next::File,
        }
    }

    fn end_word(&mut self, word: &mut Word, next: &mut Next, command: &mut Simple) {
        if !word.begun {
            return;
        }
        let text = std::mem::take(word).text;
        match std::mem::replace(next, Next::Argument) {
            Next::Argument => command.words.push(text),
            Next::File => (),
            Next::Delimiter => self.awaited.push(HereDocument {
                delimiter: text,
                reader: None,
            }),
        }
    }

    fn end_command(&mut self, word: &mut Word, next: &mut Next, command: &mut Simple) {
        self.end_word(word, next, command);
        *next = Next::Argument;
        if command.words.is_empty() {
            return;
        }
        for awaited in &mut self.awaited {
            awaited.reader.get_or_insert(self.done.len());
        }
        self.done.push(std::mem::take(command));
    }

    /// Reads the here-documents that begin after the line that just ended.
    fn here_documents(&mut self) {
        for document in std::mem::take(&mut self.awaited) {
            let mut text = String::new();
            let mut rest = self.rest.as_str();
            while !rest.is_empty() {
                let (line, after) = rest.split_once('\n').unwrap_or((rest, ""));
                rest = after;
                if line.trim_start_matches('\t').trim_end_matches('\r') == document.delimiter {
                    break;
                }
                text.push_str(line);
                text.push('\n');
            }
            self.rest = rest.chars();
            if let Some(command) = document.reader.and_then(|at| self.done.get_mut(at)) {
                command.stdin = Some(text);
            }
        }
    }

    fn peek(&self) -> Option<char> {
        self.rest.clone().next()
    }
}

#[cfg(test)]
mod tests {
    use super::commands;

    fn check(line: &str, expected: &[&[&str]]) {
        let found: Vec<Vec<String>> = commands(line).into_iter().map(|it| it.words).collect();
        assert_eq!(found, expected, "{line}");
    }

    #[test]
    fn commands_are_told_from_texts() {
        check("a b  c", &[&["a", "b", "c"]]);
        check(
            "a && b || c; d | e & f\ng",
            &[&["a"], &["b"], &["c"], &["d"], &["e"], &["f"], &["g"]],
        );
        check(
            "a 'b; c' \"d && e\" f\\ g",
            &[&["a", "b; c", "d && e", "f g"]],
        );
        check("a '' \"\"", &[&["a", "", ""]]);
        check("a \\\n b", &[&["a", "b"]]);
        check("a # b; c\nd#e", &[&["a"], &["d#e"]]);
        check("(a; b) | { c; }", &[&["a"], &["b"], &["{", "c"], &["}"]]);
        check("a \"$(b 'c)')\" d", &[&["b", "c)"], &["a", "$()", "d"]]);
        check("a `b \\`c\\``", &[&["c"], &["b", "$()"], &["a", "$()"]]);
        check("a $'x\\'; b'", &[&["a", "x'; b"]]);
        check("a '$(b)'", &[&["a", "$(b)"]]);
    }

    #[test]
    fn redirections_are_no_words() {
        check("a > b 2>&1 &> c < d", &[&["a"]]);
        check("a 2>/dev/null >>b c", &[&["a", "c"]]);
        check("a <(b c) >| d", &[&["b", "c"], &["a"]]);
        check("a <<< 'b; c'", &[&["a"]]);
        check("a2>b", &[&["a2"]]);
    }

    #[test]
    fn a_here_document_belongs_to_its_command() {
        let found = commands("a <<'END' | b\none; two\n\tEND\nc <<-X\n\tx\n\tX\n");
        let read: Vec<(&str, Option<&str>)> = found
            .iter()
            .map(|it| (it.words[0].as_str(), it.stdin.as_deref()))
            .collect();
        assert_eq!(
            read,
            [("a", Some("one; two\n")), ("b", None), ("c", Some("\tx\n"))]
        );
    }

    #[test]
    fn what_is_not_closed_goes_to_the_end() {
        for line in [
            "a 'b", "a \"b", "a $(b", "a `b", "a <<X\nb", "a \\", "a >", "$(", "`", "\"$(`'",
            "))a", ")", "a <<", "<<X",
        ] {
            commands(line);
        }
        check("a)b", &[&["a"], &["b"]]);
        commands(&"$(".repeat(100_000));
        commands(&"(".repeat(100_000));
        commands(&"`".repeat(100_001));
        commands(&"\"$(".repeat(100_000));
    }
}
