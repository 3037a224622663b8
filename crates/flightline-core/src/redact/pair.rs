//! `name = value`, in whatever language: the name says that the value is a secret.

use std::sync::LazyLock;

use regex::Regex;

use super::context::run;
use super::random::looks_random;
use super::scan::Hit;
use super::{Redaction, compile};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NameClass {
    /// Named after passwords: needs the least proof.
    Password,
    /// `token` and `secret` are words that logs and source code use all the time.
    Secret,
    /// A key that is named as a secret one; names of files, types and variables stand beside such names, too.
    Key,
    /// The secret half of a pair of keys at Amazon.
    AccessKey,
    Header,
    /// The name is called a key, or authenticates: only a value that looks random is a secret.
    Perhaps,
}

/// Judges a name that holds one of the words of the rule set, and the value that follows it.
pub(super) fn judge(hit: &Hit<'_>, found: &mut Vec<Redaction>) {
    let name = name_around(hit);
    // Each name is judged once, by the last of the words in it.
    if name.end < hit.end || holds_word(&hit.text[hit.at + 1..name.end]) {
        return;
    }
    let Some(follows) = Follows::read(hit.text, &name) else {
        return;
    };
    let Some(promise) = promise(&name) else {
        return;
    };
    if let Some((start, value)) = secret(hit.text, &name, &follows, promise) {
        let kind = match promise {
            NameClass::AccessKey => "aws-key",
            NameClass::Header => "bearer",
            NameClass::Key | NameClass::Perhaps => "key",
            NameClass::Password | NameClass::Secret => "password",
        };
        found.push((start..start + value.len(), kind));
    }
}

/// A name as it stands in the text: letters, digits, `_`, `-` and `.`; two words where the first belongs to `key`.
struct Name<'t> {
    text: &'t str,
    start: usize,
    end: usize,
}

/// A longer name is none.
const LONGEST: usize = 100;

fn name_around<'t>(hit: &Hit<'t>) -> Name<'t> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    let left = |end: usize| {
        let before = &hit.text.as_bytes()[..end];
        end - before
            .iter()
            .rev()
            .take(LONGEST)
            .take_while(|byte| fits(**byte))
            .count()
    };
    let mut start = left(hit.at);
    let tail = &hit.text[hit.end..];
    let mut end = hit.end + run(tail, fits).min(LONGEST);
    // The full stop of a sentence, and the dash after it.
    end -= hit.text[hit.end..end].len() - hit.text[hit.end..end].trim_end_matches(['.', '-']).len();
    // `api key: …` is one name in prose.
    if start == hit.at
        && hit.text[hit.at..hit.end].eq_ignore_ascii_case("key")
        && hit.before().ends_with(' ')
    {
        let word = left(hit.at - 1);
        if OF_SECRETS
            .iter()
            .any(|first| hit.text[word..hit.at - 1].eq_ignore_ascii_case(first))
        {
            start = word;
        }
    }
    Name {
        text: &hit.text[start..end],
        start,
        end,
    }
}

/// The words that the rule set looks for in names.
const WORDS: [&str; 7] = ["pass", "pwd", "secret", "token", "key", "auth", "cred"];

fn holds_word(text: &str) -> bool {
    let bytes = text.as_bytes();
    (0..bytes.len()).any(|at| {
        WORDS.iter().any(|word| {
            bytes[at..].len() >= word.len()
                && bytes[at..at + word.len()].eq_ignore_ascii_case(word.as_bytes())
        })
    })
}

/// Words that make a key a secret one: `api_key`, `privateKey`.
const OF_SECRETS: [&str; 17] = [
    "api",
    "secret",
    "private",
    "access",
    "account",
    "shared",
    "signing",
    "signature",
    "encryption",
    "master",
    "auth",
    "service",
    "license",
    "webhook",
    "deploy",
    "storage",
    "hmac",
];
/// Words that make a key a harmless one: `primary_key`, `cacheKey`.
const OF_THINGS: [&str; 44] = [
    "public",
    "pub",
    "primary",
    "foreign",
    "cache",
    "sort",
    "partition",
    "idempotency",
    "object",
    "map",
    "hot",
    "index",
    "unique",
    "natural",
    "row",
    "column",
    "hash",
    "group",
    "routing",
    "range",
    "shortcut",
    "dict",
    "json",
    "field",
    "header",
    "config",
    "setting",
    "state",
    "query",
    "surrogate",
    "composite",
    "candidate",
    "lookup",
    "s3",
    "bucket",
    "i18n",
    "translation",
    "dedupe",
    "dedup",
    "item",
    "merge",
    "effect",
    "lock",
    "websocket",
];
/// Words that may stand after the telling word: `SECRET_KEY_BASE`, `token_prod`, `password2`.
const TAILS: [&str; 24] = [
    "base",
    "base64",
    "b64",
    "hex",
    "raw",
    "value",
    "val",
    "pem",
    "string",
    "str",
    "prod",
    "production",
    "dev",
    "staging",
    "stage",
    "live",
    "test",
    "old",
    "new",
    "current",
    "previous",
    "next",
    "primary",
    "plain",
];

fn promise(name: &Name<'_>) -> Option<NameClass> {
    let words = words(name.text);
    let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
    while words.len() > 1
        && words.last().is_some_and(|last| {
            TAILS.contains(last) || last.bytes().all(|byte| byte.is_ascii_digit())
        })
    {
        words.pop();
    }
    let (last, before) = words.split_last()?;
    // Numbers are joined to words: `password2`.
    let last = last.trim_end_matches(|c: char| c.is_ascii_digit());
    let ends = |word: &str| last.ends_with(word);
    let previous = before.last().copied().unwrap_or_default();
    if ends("password")
        || ends("passwd")
        || ends("passphrase")
        || ends("passwort")
        || ends("pwd")
        || ends("passcode")
    {
        return Some(NameClass::Password);
    }
    // `pass` alone is what tests do.
    if matches!(last, "pass" | "pw") && !before.is_empty()
        || matches!(last, "dbpass" | "userpass" | "rootpass")
    {
        return Some(NameClass::Password);
    }
    if ends("authorization") {
        return Some(NameClass::Header);
    }
    if ends("secret")
        || ends("token")
        || ends("apikey")
        || ends("secretkey")
        || ends("privatekey")
        || ends("authkey")
    {
        return Some(NameClass::Secret);
    }
    if last == "key" {
        return match previous {
            "" => None,
            "access" if before.contains(&"secret") => Some(NameClass::AccessKey),
            "access" if before.contains(&"aws") || before.contains(&"id") => {
                Some(NameClass::Perhaps)
            }
            "api" | "secret" => Some(NameClass::Secret),
            previous if OF_SECRETS.contains(&previous) => Some(NameClass::Key),
            previous if OF_THINGS.contains(&previous) => None,
            _ => Some(NameClass::Perhaps),
        };
    }
    let perhaps = matches!(
        last,
        "auth"
            | "credential"
            | "credentials"
            | "cred"
            | "creds"
            | "accesskey"
            | "signingkey"
            | "masterkey"
    );
    perhaps.then_some(NameClass::Perhaps)
}

/// The words of a name in lower case: `DB_PASSWORD`, `dbPassword`, `db-password` and `db.password` have the same.
fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut last = '_';
    for c in name.chars() {
        let separates = !c.is_ascii_alphanumeric();
        let begins =
            !last.is_ascii_alphanumeric() || c.is_ascii_uppercase() && last.is_ascii_lowercase();
        if !separates {
            if begins || words.is_empty() {
                words.push(String::new());
            }
            if let Some(word) = words.last_mut() {
                word.push(c.to_ascii_lowercase());
            }
        }
        last = c;
    }
    words
}

/// The text between a name and its value.
struct Follows {
    /// The place where the value begins, or its quote.
    value: usize,
    operator: Operator,
    /// The name was quoted.
    shut: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operator {
    /// `=` and `:=`.
    Assigns,
    /// `:`, which prose uses too.
    Colon,
    /// `=>`, which source code uses too.
    Arrow,
    /// Nothing but blanks: after `--password`, or in SQL and `.netrc`.
    Blank,
    /// `<password>…`.
    Element,
    /// `"password", "…"`.
    Comma,
}

impl Follows {
    /// Returns true when the value stands in quotes.
    fn quotes(&self, text: &str) -> bool {
        quoted(text, self.value).is_some()
    }

    fn read(text: &str, name: &Name<'_>) -> Option<Self> {
        let rest = &text[name.end..];
        let bare = rest.trim_start_matches('\\');
        let after = bare
            .strip_prefix(['"', '\'', '`'])
            .map(|after| after.strip_prefix(']').unwrap_or(after));
        let (rest, shut) = match after {
            Some(after) => (after, true),
            None => (rest, false),
        };
        if text[..name.start].ends_with('<') && rest.starts_with('>') {
            return Some(Self {
                value: name.end + 1,
                operator: Operator::Element,
                shut,
            });
        }
        let spaced = rest.trim_start_matches([' ', '\t']);
        // The operator may be bold Markdown.
        let bold = |text: &str| run(text, |byte| byte == b'*').min(2);
        let at = &spaced[bold(spaced)..];
        let (operator, length) = match at.as_bytes() {
            [b'=', b'>', ..] => (Operator::Arrow, 2),
            [b':', b'=', ..] => (Operator::Assigns, 2),
            [b'=', ..] => (Operator::Assigns, 1),
            [b':', ..] => (Operator::Colon, 1),
            [b',', ..] if shut => (Operator::Comma, 1),
            _ => {
                let blanks = rest.len() - spaced.len();
                let blank =
                    blanks > 0 && (name.text.starts_with("--") || is_statement(text, name, spaced));
                return blank.then_some(Self {
                    value: text.len() - spaced.len(),
                    operator: Operator::Blank,
                    shut,
                });
            }
        };
        let value = &at[length..];
        let value = value[bold(value)..].trim_start_matches([' ', '\t']);
        Some(Self {
            value: text.len() - value.len(),
            operator,
            shut,
        })
    }
}

/// `… WITH PASSWORD '…'` in SQL, `machine … login … password …` in a `.netrc`.
fn is_statement(text: &str, name: &Name<'_>, value: &str) -> bool {
    if !name.text.eq_ignore_ascii_case("password") {
        return false;
    }
    let before = &text[..name.start];
    let line = before
        .rsplit('\n')
        .next()
        .unwrap_or_default()
        .trim_end()
        .to_ascii_lowercase();
    let sql = value.starts_with('\'')
        && [" with", " encrypted", " set"]
            .iter()
            .any(|word| line.ends_with(word));
    sql || line.contains("machine ") && line.contains("login ")
}

/// The value and where it stands, if it is a secret.
fn secret<'t>(
    text: &'t str,
    name: &Name<'_>,
    follows: &Follows,
    promise: NameClass,
) -> Option<(usize, &'t str)> {
    let password = promise == NameClass::Password;
    let assigned = follows.operator == Operator::Assigns;
    let (start, value) = if let Some((start, value)) = quoted(text, follows.value) {
        // In `"password=" + value` the quote closes a string instead of opening one.
        let closes = value.starts_with([' ', '+', ',', ';', ')', ']', '}']);
        if closes && !follows.shut || value.len() < 6 && !password {
            return None;
        }
        (start, value)
    } else {
        let start = follows.value;
        let rest = &text[start..];
        if promise == NameClass::Perhaps {
            // Before anything is compiled: keys of maps are everywhere.
            let length = run(rest, |byte| {
                byte.is_ascii_alphanumeric() || b"+/=_.~:-".contains(&byte)
            });
            if !looks_random(&rest[..length]) {
                return None;
            }
        }
        if follows.operator == Operator::Element {
            let (value, close) = rest.split_once('<')?;
            if value.is_empty() || value.contains('\n') || !close.starts_with('/') {
                return None;
            }
            (start, value)
        } else {
            // Judged before the value is measured: a long line full of keys must not cost its square.
            let code = matches!(follows.operator, Operator::Arrow | Operator::Comma)
                || CODE.is_match(rest);
            if code || !assigned && PROSE.is_match(rest) {
                return None;
            }
            let value = BARE.find(rest)?.as_str();
            // A header's first word is a scheme when more follows it.
            if promise == NameClass::Header
                && rest[value.len()..]
                    .trim_start_matches(' ')
                    .starts_with(is_graphic)
            {
                return None;
            }
            let value = value.trim_end_matches([')', ']', '}', '.', ':']);
            let size = value.chars().count();
            let proof = password || size >= 16 || value.contains(|c: char| c.is_ascii_digit());
            let count = value.trim_matches(|c: char| c.is_ascii_digit() || "._,/%kM".contains(c));
            let plain = size < 6 || !password && size < 20 && count.is_empty();
            if plain && !(assigned && password) || !assigned && !proof {
                return None;
            }
            (start, value)
        }
    };
    // In a list, names follow each other.
    let listed = follows.operator == Operator::Comma;
    let telling = password
        && value.len() >= 8
        && value.bytes().all(|byte| byte.is_ascii_graphic())
        && has_digit_and_letter(value);
    let digit = value.bytes().any(|byte| byte.is_ascii_digit());
    let named = assigned && digit && value.len() >= 8
        || follows.quotes(text) && (digit || value.len() >= 16);
    let proven = match promise {
        _ if listed && !telling => false,
        NameClass::Password | NameClass::AccessKey | NameClass::Header => true,
        NameClass::Secret => !matches!(value, "secret" | "token" | "key"),
        NameClass::Key => named && !PROSE.is_match(value),
        NameClass::Perhaps => false,
    };
    if !proven && !looks_random(value) {
        return None;
    }
    // The shell's `PWD` is a folder.
    let folder = name.text.to_ascii_lowercase().ends_with("pwd")
        && (value.starts_with(['/', '~', '.']) || value.contains(":\\"));
    (!folder && !is_placeholder(value)).then_some((start, value))
}

fn has_digit_and_letter(value: &str) -> bool {
    value.bytes().any(|byte| byte.is_ascii_digit())
        && value.bytes().any(|byte| byte.is_ascii_alphabetic())
}

fn is_graphic(c: char) -> bool {
    c.is_ascii_graphic() && !"\"'`,;)]}".contains(c)
}

/// Returns the text in quotes at `at`, without them, and its place. Language prefixes (`b'…'`, `Some(…`) would
/// otherwise pass for the value.
fn quoted(text: &str, at: usize) -> Option<(usize, &str)> {
    let rest = &text[at..];
    let prefix = match rest.strip_prefix("Some(") {
        Some(_) => "Some(".len(),
        None => run(rest, |byte| b"bfru".contains(&byte)).min(2),
    };
    let inner = &rest[prefix..];
    let slashes = run(inner, |byte| byte == b'\\');
    let quote = *inner.as_bytes().get(slashes)?;
    let start = at + prefix + slashes + 1;
    let length = match (quote, slashes) {
        (b'"' | b'\'', 0) => until_quote(&text[start..], quote),
        (b'`', 0) => run(&text[start..], |byte| byte != b'`' && byte != b'\n'),
        (b'"' | b'\'', _) => until_escaped_quote(&text[start..]),
        _ => return None,
    };
    Some((start, &text[start..start + length]))
}

/// Returns the length of a string in which a backslash escapes the character after it.
fn until_quote(text: &str, quote: u8) -> usize {
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'\n' => break,
            byte if *byte == quote => break,
            b'\\' => match text[at + 1..].chars().next() {
                None | Some('\n') => break,
                Some(escaped) => at += 1 + escaped.len_utf8(),
            },
            _ => at += 1,
        }
    }
    at
}

/// Returns the length of a string inside a string: an escaped quote ends it.
fn until_escaped_quote(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'\n' | b'"' => break,
            b'\\' => {
                let slashes = run(&text[at..], |byte| byte == b'\\');
                match text[at + slashes..].chars().next() {
                    None | Some('\n' | '"' | '\'') => break,
                    Some(escaped) => at += slashes + escaped.len_utf8(),
                }
            }
            _ => at += 1,
        }
    }
    at
}

pub(super) fn is_placeholder(value: &str) -> bool {
    value.starts_with("[redacted") || PLACEHOLDER.is_match(value)
}

/// Variables, templates and masks; closing braces may be missing because bare values lose them.
static PLACEHOLDER: LazyLock<Regex> = LazyLock::new(|| {
    compile(concat!(
        r"^(?:[*•.…?_{}()\[\]|,;+$~&\\/-]*|\$[A-Za-z_]+|\$[A-Z0-9_]+|\$?\{+[A-Za-z0-9_. ]*\}*",
        r"|\$\(.*|%[sdv]|%[A-Z_]+%|:[a-z_]+|<[^<>]*>|(?i-u:(?:bearer|basic|token) (?u-i:[\[$%{].*)?",
        r"|null|none|nil|true|false|undefined|string|number|boolean|required|optional|invalid",
        r"|incorrect|expired|missing|await|new|function|bearer|x{3,}))$",
    ))
});

/// A plain word that more words follow, a block, or a path such as `src/auth/token.rs:42`.
pub(super) static PROSE: LazyLock<Regex> = LazyLock::new(|| {
    compile(concat!(
        r"^(?:(?:[A-Za-z]|[^\x00-\x7F])(?:[a-z'-]|[^\x00-\x7F])*,? (?:[A-Za-z]|[^\x00-\x7F])",
        r"|[\[{(]|https?://|[A-Za-z0-9_./-]{0,200}/[A-Za-z0-9_-]+\.[a-z])",
    ))
});

/// Source code that computes the value: `self.x`, `vault::read`, `getToken(`, `node.paren_token`.
static CODE: LazyLock<Regex> = LazyLock::new(|| {
    compile(concat!(
        r"^(?:[=:(]|//|--|\$\(|[&*!]?(?:(?:self|this|args|opts|options|config|settings|env|process",
        r"|os|req|request|params|props|state|ctx|secrets|vars?|data|user|input)\??\.[A-Za-z_]",
        r"|(?-u:[\w.]{0,80}(?:_token|\.\w{0,40}(?:token|password|secret|key))\b)",
        r"|[A-Za-z_]{1,40}::[A-Za-z_]|[A-Za-z_][A-Za-z_.]{0,80}(?:!?[(\[]|<[A-Z&(])))",
    ))
});

/// An unquoted value. Shells and queries end it at `;` and `&`, but a comma may belong to it.
static BARE: LazyLock<Regex> =
    LazyLock::new(|| compile(r#"^(?:,?[^ \t\r\n"'`<>\\,;&)}\]]|[)}\]]|\\[^nrt \t\r\n"'\\])+"#));
