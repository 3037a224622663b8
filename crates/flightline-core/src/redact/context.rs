//! Secrets that their surroundings give away: headers, addresses, commands, blocks of a file.

use std::sync::LazyLock;

use regex::Regex;

use super::pair::{PROSE, is_placeholder};
use super::random::looks_random;
use super::scan::Hit;
use super::{Redaction, compile};

/// `fleet_PROJECT_ID_SECRET`, our own.
pub(super) fn fleet_token(hit: &Hit<'_>, found: &mut Vec<Redaction>) {
    let mut rest = hit.rest();
    for (least, most) in [(32, 32), (32, 32), (16, usize::MAX)] {
        let length = run(rest, |byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if length < least || length > most {
            return;
        }
        rest = &rest[length..];
        if most != usize::MAX {
            match rest.strip_prefix('_') {
                Some(after) => rest = after,
                None => return,
            }
        }
    }
    found.push((hit.at..hit.text.len() - rest.len(), "fleet-token"));
}

/// A JSON web token: two or more parts in base64 for URLs, the first of which is an object.
pub(super) fn jwt(hit: &Hit<'_>, found: &mut Vec<Redaction>) {
    let part = |text: &str| {
        run(text, |byte| {
            byte.is_ascii_alphanumeric() || b"_-".contains(&byte)
        })
    };
    let head = part(hit.rest());
    let mut lengths = Vec::new();
    let mut rest = &hit.rest()[head..];
    while let Some(after) = rest.strip_prefix('.') {
        let length = part(after);
        // An encrypted token may leave its second part empty. A token before a full stop ends there.
        if length == 0 && !(lengths.is_empty() && after.starts_with('.')) {
            break;
        }
        lengths.push((length, after.starts_with("eyJ")));
        rest = &after[length..];
    }
    let sound = match lengths.as_slice() {
        [(length, true), ..] if *length >= 7 => true,
        [_, (length, _), ..] => *length >= 4,
        [] | [_] => false,
    };
    if head >= 6 && sound {
        found.push((hit.at..hit.text.len() - rest.len(), "jwt"));
    }
}

/// Keys of model vendors. An unknown vendor's needs a digit: `sk-folding-cube-container` is a class in a style sheet.
pub(super) fn sk_key(hit: &Hit<'_>, found: &mut Vec<Redaction>) {
    let length = run(hit.rest(), |byte| {
        byte.is_ascii_alphanumeric() || b"_-".contains(&byte)
    });
    let body = &hit.rest()[..length];
    let known = ["ant-", "proj-", "svcacct-", "admin-", "or-"]
        .iter()
        .any(|vendor| {
            body.strip_prefix(vendor)
                .is_some_and(|rest| rest.len() >= 16)
        });
    let digit = body.find(|c: char| c.is_ascii_digit());
    let letters = run(body, |byte| byte.is_ascii_alphabetic());
    if hit.begins_word() && (known || letters >= 32 || digit.is_some_and(|at| body.len() - at > 12))
    {
        found.push((hit.at..hit.end + length, "api-key"));
    }
}

/// `123456789:AA…`: the number of a bot, and its key.
pub(super) fn telegram(hit: &Hit<'_>, found: &mut Vec<Redaction>) {
    let digits = hit
        .before()
        .bytes()
        .rev()
        .take_while(u8::is_ascii_digit)
        .count();
    let key = run(hit.rest(), |byte| {
        byte.is_ascii_alphanumeric() || b"_-".contains(&byte)
    });
    if (8..=11).contains(&digits) && (30..=40).contains(&key) {
        found.push((hit.at - digits..hit.end + key, "telegram-token"));
    }
}

/// The secret of an application in Azure: three characters, `8Q~`, and thirty-one or more.
pub(super) fn azure_secret(hit: &Hit<'_>, found: &mut Vec<Redaction>) {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_~.-".contains(&byte);
    let before = hit
        .before()
        .bytes()
        .rev()
        .take_while(|byte| fits(*byte))
        .count();
    let after = run(hit.rest(), fits);
    if before == 3 && (28..=40).contains(&after) {
        found.push((hit.at - 3..hit.end + after, "azure-secret"));
    }
}

/// A block of PEM or PGP or SSH2 that holds a private key, however it is spaced; without an end, all the rest.
pub(super) fn private_key(hit: &Hit<'_>, found: &mut Vec<Redaction>) {
    static BEGIN: LazyLock<Regex> = LazyLock::new(|| {
        compile(r"^[A-Z0-9 \t_-]{0,80}?PRIVATE[ \t_]+KEY(?:[ \t]+BLOCK)?[ \t]*-{2,}")
    });
    static END: LazyLock<Regex> = LazyLock::new(|| {
        compile(r"-{2,}[ \t]*END[A-Z0-9 \t_-]{0,80}?PRIVATE[ \t_]+KEY(?:[ \t]+BLOCK)?[ \t]*-{2,}")
    });
    let bare = hit.before().trim_end_matches([' ', '\t']);
    let start = bare.trim_end_matches('-').len();
    // A transaction begins with the same word.
    if bare.len() - start < 2
        || !hit
            .rest()
            .as_bytes()
            .get(..120)
            .unwrap_or(hit.rest().as_bytes())
            .windows(7)
            .any(|seven| seven == b"PRIVATE")
    {
        return;
    }
    let Some(begin) = BEGIN.find(hit.rest()) else {
        return;
    };
    let body = hit.end + begin.end();
    let end = END
        .find(&hit.text[body..])
        .map_or(hit.text.len(), |end| body + end.end());
    found.push((start..end, "private-key"));
}

/// A key as PuTTY keeps it: all of its lines.
pub(super) fn putty_key(hit: &Hit<'_>, found: &mut Vec<Redaction>) {
    let rest = hit.rest();
    let mac = rest
        .find("Private-MAC:")
        .map(|at| at + run(&rest[at..], |byte| !byte.is_ascii_control()));
    let lines =
        rest.contains("Private-Lines:") || hit.text[hit.at..hit.end].starts_with("Private-Lines");
    let counts = rest.trim_start().starts_with(|c: char| c.is_ascii_digit());
    if lines && counts {
        found.push((
            hit.at..mac.map_or(hit.text.len(), |end| hit.end + end),
            "private-key",
        ));
    }
}

/// A password in an address, or a token in the place of a user.
pub(super) fn url(hit: &Hit<'_>, found: &mut Vec<Redaction>) {
    // A password runs to the last `@` of the authority or, when it holds a raw `/`, `?` or `#`, to
    // the next one; but in `http://host:8080/@scope` the digits are a port.
    static PASSWORD: LazyLock<Regex> = LazyLock::new(|| {
        compile(concat!(
            r#"^[^ \t\r\n/?#:@"'`<>\[\]]*:([^ \t\r\n/?#"'`<>]+"#,
            r#"|[0-9]*[^0-9 \t\r\n/?#@"'`<>][^ \t\r\n@"'`<>]{1,128})@"#,
        ))
    });
    let ends = |byte: &u8| byte.is_ascii_whitespace() || b"\"'`<>".contains(byte);
    let rest = hit.rest();
    let length = rest
        .bytes()
        .take(4_096)
        .position(|byte| ends(&byte))
        .unwrap_or(rest.len().min(4_096));
    let Some(at) = rest.as_bytes()[..length]
        .iter()
        .position(|byte| *byte == b'@')
    else {
        return;
    };
    let user = &rest.as_bytes()[..at];
    let alone = user
        .iter()
        .all(|byte| byte.is_ascii_alphanumeric() || b"_.-~+=%".contains(byte));
    if alone {
        let user = &rest[..at];
        let digit = user.bytes().any(|byte| byte.is_ascii_digit());
        if !is_placeholder(user) && (looks_random(user) || user.len() >= 32 && digit) {
            found.push((hit.end..hit.end + at, "url-token"));
        }
        return;
    }
    let secret = PASSWORD.captures(rest).and_then(|captures| captures.get(1));
    if let Some(secret) = secret.filter(|secret| !is_placeholder(secret.as_str())) {
        found.push((
            hit.end + secret.start()..hit.end + secret.end(),
            "url-password",
        ));
    }
}

/// `bearer TOKEN`, wherever it stands.
pub(super) fn bearer(hit: &Hit<'_>, found: &mut Vec<Redaction>) {
    if !hit.before().ends_with(is_word) {
        credentials(hit, hit.end, ContextConfidence::Word, found);
    }
}

/// `Authorization: SCHEME CREDENTIALS`.
pub(super) fn authorization(hit: &Hit<'_>, found: &mut Vec<Redaction>) {
    let rest = hit
        .rest()
        .trim_start_matches(['"', '\'', '\\', '`'])
        .trim_start_matches([' ', '\t']);
    let Some(rest) = rest.strip_prefix([':', '=']) else {
        return;
    };
    let rest = rest
        .trim_start_matches([' ', '\t'])
        .trim_start_matches(['"', '\'', '`', '\\']);
    let length = run(rest, |byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let (scheme, after) = rest.split_at(length);
    if scheme.eq_ignore_ascii_case("AWS4-HMAC-SHA256") || scheme.eq_ignore_ascii_case("digest") {
        return parameters(hit, after, found);
    }
    let known = SCHEMES
        .iter()
        .any(|known| scheme.eq_ignore_ascii_case(known));
    let lead = if known {
        ContextConfidence::Header
    } else {
        ContextConfidence::UnknownScheme
    };
    if !scheme.is_empty() {
        credentials(hit, hit.text.len() - after.len(), lead, found);
    }
}

/// Words that stand before credentials in a header, and hardly elsewhere.
const SCHEMES: [&str; 16] = [
    "bearer",
    "basic",
    "token",
    "apikey",
    "api-key",
    "key",
    "geniekey",
    "ssws",
    "oauth",
    "negotiate",
    "ntlm",
    "hmac",
    "jwt",
    "bot",
    "splunk",
    "discogs",
];

/// The certainty, from the text before, that credentials follow.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ContextConfidence {
    Header,
    UnknownScheme,
    Word,
}

fn credentials(hit: &Hit<'_>, from: usize, lead: ContextConfidence, found: &mut Vec<Redaction>) {
    let rest = &hit.text[from..];
    let blanks = run(rest, |byte| byte == b' ' || byte == b'\t');
    let start = from + blanks;
    let length = run(&hit.text[start..], |byte| {
        byte.is_ascii_alphanumeric() || b"._~+/=-".contains(&byte)
    });
    let secret = hit.text[start..start + length].trim_end_matches('.');
    if blanks == 0 || secret.is_empty() || is_placeholder(secret) {
        return;
    }
    let digit = secret.bytes().any(|byte| byte.is_ascii_digit());
    let long = digit && secret.len() >= 16;
    let sure = match lead {
        ContextConfidence::Word => long,
        ContextConfidence::UnknownScheme => looks_random(secret),
        ContextConfidence::Header => {
            long || secret.len() >= 6 && !PROSE.is_match(&hit.text[start..])
        }
    };
    if sure {
        found.push((start..start + secret.len(), "bearer"));
    }
}

/// The parameters of a header that prove the caller's identity: `Signature=…`, `response="…"`.
fn parameters(hit: &Hit<'_>, rest: &str, found: &mut Vec<Redaction>) {
    static PROOF: LazyLock<Regex> = LazyLock::new(|| {
        compile(r#"(?i-u)\b(?:signature|response|nonce|cnonce)=[\x22\\]*([0-9a-z+/=_-]{8,})"#)
    });
    let line = rest.lines().next().unwrap_or_default();
    let from = hit.text.len() - rest.len();
    for captures in PROOF.captures_iter(line) {
        if let Some(proof) = captures.get(1) {
            found.push((from + proof.start()..from + proof.end(), "bearer"));
        }
    }
}

/// `Cookie: a=1; sid=…` and `Set-Cookie: sid=…; Path=/`: the values that authenticate.
pub(super) fn cookie(hit: &Hit<'_>, found: &mut Vec<Redaction>) {
    let rest = hit
        .rest()
        .trim_start_matches(['"', '\'', '\\', '`', ']'])
        .trim_start_matches([' ', '\t']);
    let Some(rest) = rest.strip_prefix([':', '=']) else {
        return;
    };
    let rest = rest.trim_start_matches([' ', '\t', '"', '\'', '`', '\\']);
    let line = rest
        .split(['\n', '\r', '"', '\'', '`', '\\'])
        .next()
        .unwrap_or_default();
    let mut at = hit.text.len() - rest.len();
    for part in line.split(';') {
        if let Some((name, value)) = part.split_once('=') {
            let (name, value) = (name.trim().to_ascii_lowercase(), value.trim_end());
            let start = at + part.find('=').map_or(0, |equals| equals + 1);
            let telling = [
                "sess", "sid", "auth", "token", "jwt", "login", "remember", "csrf", "xsrf",
                "identity",
            ]
            .iter()
            .any(|word| name.contains(word));
            let attribute =
                ["path", "domain", "expires", "max-age", "samesite"].contains(&name.as_str());
            let word =
                name.bytes().all(|byte| byte.is_ascii_graphic()) && !value.contains([' ', '\t']);
            let secret = telling && value.len() >= 6
                || looks_random(value)
                || value.len() >= 24 && value.contains('%');
            if word && !attribute && secret && !is_placeholder(value) {
                found.push((start..start + value.len(), "cookie"));
            }
        }
        at += part.len() + 1;
    }
}

/// `IDENTIFIED BY 'password'` of SQL.
pub(super) fn identified_by(hit: &Hit<'_>, found: &mut Vec<Redaction>) {
    let rest = hit.rest().trim_start();
    let from = hit.text.len() - rest.len() + 1;
    let Some(quote) = rest.chars().next().filter(|c| ['\'', '"'].contains(c)) else {
        return;
    };
    if let Some((secret, _)) = rest[1..].split_once(quote)
        && !secret.is_empty()
        && !is_placeholder(secret)
    {
        found.push((from..from + secret.len(), "password"));
    }
}

/// A password on the command line of a well-known program.
pub(super) fn command(hit: &Hit<'_>, found: &mut Vec<Redaction>) {
    // A value, bare or quoted; in quotes it may hold blanks.
    const CURL: &str = r#"[ \t](?:-u|--user|-U|--proxy-user)(?:=|[ \t]*)(?:\x22[^\x22:\n]*:([^\x22\n]+)\x22|'[^':\n]*:([^'\n]+)'|[^ \t\r\n\x22':]+:([^ \t\r\n\x22']+))"#;
    const SHORT: &str =
        r#"[ \t]-p[ \t=]+(?:\x22([^\x22\n]+)\x22|'([^'\n]+)'|([^ \t\r\n\x22'-][^ \t\r\n\x22']*))"#;
    const JOINED: &str =
        r#"[ \t]-p(?:\x22([^\x22\n]+)\x22|'([^'\n]+)'|([^ \t\r\n\x22'=-][^ \t\r\n\x22']*))"#;
    const REDIS: &str = r#"[ \t](?:-a|--pass)[ \t=]+(?:\x22([^\x22\n]+)\x22|'([^'\n]+)'|([^ \t\r\n\x22'-][^ \t\r\n\x22']*))"#;
    static CURL_RULE: LazyLock<Regex> = LazyLock::new(|| compile(CURL));
    static SHORT_RULE: LazyLock<Regex> = LazyLock::new(|| compile(SHORT));
    static JOINED_RULE: LazyLock<Regex> = LazyLock::new(|| compile(JOINED));
    static REDIS_RULE: LazyLock<Regex> = LazyLock::new(|| compile(REDIS));
    let line = command_line(hit.rest());
    // No expression is compiled for a line without its option.
    let (option, rule) = match hit.text.as_bytes()[hit.at] | 0x20 {
        b'c' => (
            ["-u", "-U", "--user", "--proxy-user"].as_slice(),
            &CURL_RULE,
        ),
        b'm' => (["-p"].as_slice(), &JOINED_RULE),
        b'r' => (["-a", "--pass"].as_slice(), &REDIS_RULE),
        _ => (["-p"].as_slice(), &SHORT_RULE),
    };
    let inside = hit.before().ends_with(is_word);
    if inside || !option.iter().any(|option| has_option(line, option)) || !is_program(hit) {
        return;
    }
    for captures in rule.captures_iter(line) {
        let Some(secret) = captures.iter().skip(1).flatten().next() else {
            continue;
        };
        // A port is no password.
        let numbers = secret
            .as_str()
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b':');
        let port = numbers && (secret.len() < 6 || secret.as_str().contains(':'));
        if !is_placeholder(secret.as_str()) && !port {
            found.push((hit.end + secret.start()..hit.end + secret.end(), "password"));
        }
    }
}

/// Returns true when `login` is a command: many programs have one, and prose uses the word.
fn is_program(hit: &Hit<'_>) -> bool {
    let of = [
        "docker", "podman", "nerdctl", "buildah", "skopeo", "registry", "oras", "az", "oc", "cf",
        "ibmcloud",
    ];
    let word = hit
        .before()
        .trim_end_matches(' ')
        .rsplit(|c| !is_word(c))
        .next()
        .unwrap_or_default();
    !hit.text[hit.at..hit.end].eq_ignore_ascii_case("login") || of.contains(&word)
}

/// The rest of a command: to the end of its line, where a backslash may join the next.
fn command_line(rest: &str) -> &str {
    let mut end = 0;
    for line in rest.split_inclusive('\n').take(20) {
        end += line.len();
        if !line.trim_end().ends_with('\\') {
            break;
        }
    }
    let line = &rest[..end];
    // Another command may follow.
    let line = line.split('`').next().unwrap_or(line);
    line.find(" | ")
        .or_else(|| line.find(" && "))
        .or_else(|| line.find("; "))
        .map_or(line, |at| &line[..at])
}

fn has_option(line: &str, option: &str) -> bool {
    line.match_indices(option)
        .any(|(at, _)| line[..at].ends_with([' ', '\t']))
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Returns the number of bytes at the beginning that fit.
pub(super) fn run(text: &str, fits: impl Fn(u8) -> bool) -> usize {
    text.bytes().take_while(|byte| fits(*byte)).count()
}
