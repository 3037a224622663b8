//! Reading JSON text, strictly.

use std::collections::BTreeSet;

use super::{Json, Number};
use crate::dialect::unreadable::{DocumentFault, MAX_BYTES, MAX_DEPTH, SourcePosition, Unreadable};

const BYTE_ORDER_MARK: char = '\u{feff}';

pub(super) fn document(text: &str) -> Result<Json, Unreadable> {
    if text.len() > MAX_BYTES {
        return Err(Unreadable::whole(DocumentFault::TooLarge {
            bytes: text.len(),
        }));
    }
    let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    let mut parser = Parser { text, at: 0 };
    parser.space();
    if parser.at == text.len() {
        return Err(Unreadable::whole(DocumentFault::Empty));
    }
    let value = parser.value(0)?;
    parser.space();
    match parser.peek() {
        None => Ok(value),
        Some(_) => Err(parser.unexpected("the end")),
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl Parser<'_> {
    fn value(&mut self, depth: usize) -> Result<Json, Unreadable> {
        match self.peek() {
            Some(b'{' | b'[') if depth == MAX_DEPTH => {
                Err(self.wrong(DocumentFault::TooDeep, self.at))
            }
            Some(b'{') => self.object(depth + 1),
            Some(b'[') => self.list(depth + 1),
            Some(b'"') => self.string().map(Json::Text),
            Some(b'-' | b'0'..=b'9') => self.number().map(Json::Number),
            Some(b't') => self.word("true", Json::Bool(true)),
            Some(b'f') => self.word("false", Json::Bool(false)),
            Some(b'n') => self.word("null", Json::Null),
            Some(_) | None => Err(self.unexpected("a value")),
        }
    }

    fn object(&mut self, depth: usize) -> Result<Json, Unreadable> {
        let mut fields: Vec<(String, Json)> = Vec::new();
        let mut keys = BTreeSet::new();
        self.at += 1;
        self.space();
        if self.take(b'}') {
            return Ok(Json::Object(fields));
        }
        loop {
            let begin = self.at;
            if self.peek() != Some(b'"') {
                return Err(self.unexpected("a key in quotes"));
            }
            let key = self.string()?;
            if !keys.insert(key.clone()) {
                return Err(self.wrong(DocumentFault::DuplicateKey { key }, begin));
            }
            self.space();
            if !self.take(b':') {
                return Err(self.unexpected("`:`"));
            }
            self.space();
            fields.push((key, self.value(depth)?));
            self.space();
            if self.take(b'}') {
                return Ok(Json::Object(fields));
            }
            if !self.take(b',') {
                return Err(self.unexpected("`,` or `}`"));
            }
            self.space();
        }
    }

    fn list(&mut self, depth: usize) -> Result<Json, Unreadable> {
        let mut items = Vec::new();
        self.at += 1;
        self.space();
        if self.take(b']') {
            return Ok(Json::List(items));
        }
        loop {
            items.push(self.value(depth)?);
            self.space();
            if self.take(b']') {
                return Ok(Json::List(items));
            }
            if !self.take(b',') {
                return Err(self.unexpected("`,` or `]`"));
            }
            self.space();
        }
    }

    fn string(&mut self) -> Result<String, Unreadable> {
        let mut string = String::new();
        self.at += 1;
        loop {
            let rest = &self.text[self.at..];
            let plain = rest
                .bytes()
                .take_while(|byte| !matches!(byte, b'"' | b'\\' | 0..=0x1f))
                .count();
            string.push_str(&rest[..plain]);
            self.at += plain;
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(string);
                }
                Some(b'\\') => string.push(self.escape()?),
                Some(_) | None => {
                    return Err(self.unexpected("the end of the text, or `\\` before this"));
                }
            }
        }
    }

    fn escape(&mut self) -> Result<char, Unreadable> {
        let begin = self.at;
        self.at += 1;
        let plain = match self.peek() {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode(begin),
            Some(_) | None => return Err(self.unexpected("an escape")),
        };
        self.at += 1;
        Ok(plain)
    }

    /// Reads the rest of an escape after `\`, from `u` on. `begin` is the place of the `\`.
    fn unicode(&mut self, begin: usize) -> Result<char, Unreadable> {
        let lone = |parser: &Self| parser.wrong(DocumentFault::LoneSurrogate, begin);
        let first = self.unit()?;
        let code = match first {
            0xd800..=0xdbff => {
                // Cut short within the pair is cut short, not half a pair.
                let rest = &self.text[self.at..];
                if !rest.starts_with("\\u") {
                    return Err(match rest {
                        "" | "\\" => self.wrong(DocumentFault::CutShort, self.text.len()),
                        _ => lone(self),
                    });
                }
                self.at += 1;
                let second = self.unit()?;
                if !(0xdc00..=0xdfff).contains(&second) {
                    return Err(lone(self));
                }
                0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00)
            }
            code => code,
        };
        char::from_u32(code).ok_or_else(|| lone(self))
    }

    /// The four digits after `u`.
    fn unit(&mut self) -> Result<u32, Unreadable> {
        let mut unit = 0;
        for _ in 0..4 {
            self.at += 1;
            let digit = self
                .peek()
                .and_then(|byte| char::from(byte).to_digit(16))
                .ok_or_else(|| self.unexpected("four hexadecimal digits"))?;
            unit = unit * 16 + digit;
        }
        self.at += 1;
        Ok(unit)
    }

    fn number(&mut self) -> Result<Number, Unreadable> {
        let begin = self.at;
        self.take(b'-');
        if !self.take(b'0') {
            self.digits()?;
        }
        if self.take(b'.') {
            self.digits()?;
        }
        if self.take(b'e') || self.take(b'E') {
            let _ = self.take(b'+') || self.take(b'-');
            self.digits()?;
        }
        Number::written(&self.text[begin..self.at])
            .ok_or_else(|| self.wrong(DocumentFault::NumberTooLarge, begin))
    }

    fn digits(&mut self) -> Result<(), Unreadable> {
        let rest = self.text[self.at..].bytes();
        let count = rest.take_while(u8::is_ascii_digit).count();
        if count == 0 {
            return Err(self.unexpected("a digit"));
        }
        self.at += count;
        Ok(())
    }

    fn word(&mut self, word: &'static str, value: Json) -> Result<Json, Unreadable> {
        for byte in word.bytes() {
            if !self.take(byte) {
                return Err(self.unexpected("`true`, `false` or `null`"));
            }
        }
        Ok(value)
    }

    fn space(&mut self) {
        let rest = self.text[self.at..].bytes();
        self.at += rest
            .take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r'))
            .count();
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let there = self.peek() == Some(byte);
        self.at += usize::from(there);
        there
    }

    /// Returns the error for a character that is not expected here, or for a text that ends.
    fn unexpected(&self, expected: &'static str) -> Unreadable {
        let fault = match self.text[self.at..].chars().next() {
            Some(found) => DocumentFault::Syntax { expected, found },
            None => DocumentFault::CutShort,
        };
        self.wrong(fault, self.at)
    }

    fn wrong(&self, fault: DocumentFault, at: usize) -> Unreadable {
        let before = &self.text[..at];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Unreadable {
            fault,
            place: SourcePosition::Line {
                line: before.matches('\n').count() + 1,
                column: before[line_start..].chars().count() + 1,
            },
        }
    }
}
