//! Removes credentials from text before it is stored or shown.
//!
//! Nearly every text holds no secret, so each rule has a cheap literal hint that decides whether
//! its regex is even compiled. Patterns need no Unicode tables: `regex` is built without them.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::LazyLock;

use regex::{Captures, Regex};

/// Replaces every secret found in `text` by `[redacted:KIND]`; borrows when there is none.
///
/// Key names, separators and the rest of a URL stay readable. Redacting a redacted text changes
/// nothing: `redact(&redact(x)) == redact(x)`.
#[must_use]
pub fn redact(text: &str) -> Cow<'_, str> {
    let mut clean = Cow::Borrowed(text);
    // Removing one secret can expose another, so go on until nothing changes: this is what makes
    // the result idempotent. It ends because each replacement swallows text that was no marker.
    loop {
        let mut changed = false;
        for rule in &RULES {
            if let Some(next) = rule.apply(&clean) {
                clean = Cow::Owned(next);
                changed = true;
            }
        }
        if !changed {
            return clean;
        }
    }
}

/// Tells whether [`redact`] would change `text`, without building the redacted text.
pub fn contains_secret(text: &str) -> bool {
    RULES
        .iter()
        .any(|rule| (rule.hint)(text) && rule.next(text, 0).is_some())
}

/// `text` as an error may repeat it: no secret, no control character, 60 characters at most.
#[must_use]
pub fn shown(text: &str) -> String {
    // Cut before it is searched, so that a long one costs nothing; cut short only afterwards, so that
    // half a secret is not shown.
    let head = text.chars().filter(|c| !c.is_control()).take(4_096);
    redact(&head.collect::<String>()).chars().take(60).collect()
}

/// What to replace, and the kind to name in its place.
type Found = (Range<usize>, &'static str);

struct Rule {
    /// Cheap test that holds for every text the regex can match.
    hint: fn(&str) -> bool,
    regex: LazyLock<Regex>,
    /// Decides whether a match is a secret. Every match starts with an ASCII character.
    judge: fn(&str, &Captures<'_>) -> Option<Found>,
}

impl Rule {
    fn next(&self, text: &str, mut from: usize) -> Option<Found> {
        while let Some(found) = self.regex.captures_at(text, from) {
            if let Some(secret) = (self.judge)(text, &found) {
                return Some(secret);
            }
            // A rejected match may overlap a real secret, hence one step and not to its end.
            from = found.get(0)?.start() + 1;
        }
        None
    }

    fn apply(&self, text: &str) -> Option<String> {
        if !(self.hint)(text) {
            return None;
        }
        let (mut out, mut copied) = (String::new(), 0);
        while let Some((range, kind)) = self.next(text, copied) {
            out.extend([&text[copied..range.start], "[redacted:", kind, "]"]);
            copied = range.end;
        }
        (copied > 0).then(|| out + &text[copied..])
    }
}

macro_rules! rule {
    ($kind:literal, [$($hint:literal),+], $pattern:expr $(,)?) => {
        rule!(|text| [$($hint),+].iter().any(|hint| text.contains(hint)), $pattern, |_, found| {
            let secret = found.get(1).or_else(|| found.get(0))?;
            (!is_placeholder(secret.as_str())).then(|| (secret.range(), $kind))
        })
    };
    ($hint:expr, $pattern:expr, $judge:expr $(,)?) => {
        Rule { hint: $hint, regex: LazyLock::new(|| compile($pattern)), judge: $judge }
    };
}

// Specific shapes come first so that `token=ghp_…` is named a GitHub token. They ask for no word
// boundary on their left: logs hold JSON inside JSON, where `\n` puts an `n` right before them.
static RULES: [Rule; 14] = [
    rule!(
        "private-key",
        ["PRIVATE KEY"],
        concat!(
            r"(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----.*?",
            r"(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\z)",
        ),
    ),
    rule!(
        "fleet-token",
        ["fleet_"],
        r"fleet_[0-9a-f]{32}_[0-9a-f]{32}_[0-9a-f]{16,}"
    ),
    rule!("aws-key", ["AKIA", "ASIA"], r"A[KS]IA[A-Z0-9]{16}(?-u:\b)"),
    rule!(
        "github-token",
        ["ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"],
        r"(?:gh[pousr]|github_pat)_[A-Za-z0-9_]{16,}",
    ),
    rule!(
        "gitlab-token",
        ["glpat-"],
        r"(?-u)glpat-[\w-]{16,}(?:\.[\w-]+)*"
    ),
    rule!("npm-token", ["npm_"], r"npm_[A-Za-z0-9]{36}(?-u:\b)"),
    rule!("slack-token", ["xox"], r"xox[abprs]-[A-Za-z0-9-]{10,}"),
    rule!("google-key", ["AIza"], r"AIza[A-Za-z0-9_-]{30,}"),
    rule!(
        "stripe-key",
        ["k_live_", "k_test_"],
        r"[rs]k_(?:live|test)_[A-Za-z0-9]{10,}"
    ),
    rule!(
        "jwt",
        ["eyJ"],
        r"(?-u)eyJ[\w-]{6,}\.(?:eyJ[\w-]{4,}|[\w-]*\.[\w-]{4,})(?:\.[\w-]+)*",
    ),
    // An unknown vendor's key needs a digit: `sk-folding-cube-container` is a CSS class.
    rule!(
        "api-key",
        ["sk-"],
        r"(?-u)(?:\b|\\n)(sk-(?:(?:ant|proj)-[\w-]{16,}|[A-Za-z_-]*[0-9][\w-]{12,}|[A-Za-z]{32,}))",
    ),
    // A password runs to the last `@` of the authority or, when it holds a raw `/`, `?` or `#`, to
    // the next one; but in `http://host:8080/@scope` the digits are a port.
    rule!(
        "url-password",
        ["://"],
        concat!(
            r#"://[^ \t\r\n/?#:@"'`<>\[\]]*:([^ \t\r\n/?#"'`<>]+"#,
            r#"|[0-9]*[^0-9 \t\r\n/?#@"'`<>][^ \t\r\n@"'`<>]{1,128})@"#,
        ),
    ),
    rule!(
        |text| has_word(text, |byte| match byte {
            b'b' => &["bearer"],
            b'z' => &["authorization"],
            _ => &[],
        }),
        concat!(
            r"(?i-u)(\bbearer|authorization[\x22'\\]*[ \t]*[:=][ \t]*[\x22'`\\]*",
            r"(?:bearer|basic|token))[ \t]+([a-z0-9._~+/=-]*[a-z0-9_~+/=-])",
        ),
        judge_bearer,
    ),
    rule!(
        |text| has_word(text, |byte| match byte {
            b'w' => &["password", "passwd", "pwd"],
            b'k' => &["token", "apikey", "api_key", "api-key", "api key"],
            b'c' => &["secret"],
            b'p' => &["passphrase", "_pass"],
            b'z' => &["authorization"],
            _ => &[],
        }),
        concat!(
            r"(?i-u)(?P<flag>--[\w-]*?)?(?P<key>pass(?:word|wd|phrase)|(?:admin|db|root|user)_pass",
            r"|pwd|secret(?:[_-]?(?:access[_-]?)?key)?|token|api[ _-]?key|authorization)",
            // The operator may be bold Markdown; without one, only `--password value` counts.
            r"(?P<shut>\\*[\x22'`]\]?)?(?:[ \t]*\*{0,2}(?P<op>:=|=>|[:=])\*{0,2}[ \t]*|[ \t]+)",
            // Language prefixes (`b'…'`, `Some(…`) would otherwise pass for the value.
            r"(?u-i:(?:Some\(|[bfru]{1,2})?(?:\x22((?:[^\x22\\\n]|\\[^\n])*)",
            r"|'((?:[^'\\\n]|\\[^\n])*)|`([^`\n]*)|\\+[\x22']((?:[^\x22\\\n]|\\+[^\x22'\\\n])*)))?",
        ),
        judge_pair,
    ),
];

fn compile(pattern: &str) -> Regex {
    Regex::new(pattern).expect("redaction patterns are constant and all compiled by the tests")
}

/// Looks for words in any case in a single pass: `words` gives, for a lower-case byte, the words to
/// look for around it. Rare bytes keep this cheap, and a plural (`tokens`) is never a key.
fn has_word(text: &str, words: impl Fn(u8) -> &'static [&'static str]) -> bool {
    let bytes = text.as_bytes();
    bytes.iter().enumerate().any(|(at, &byte)| {
        words(byte | 0x20).iter().any(|word| {
            let back = word.find(char::from(byte | 0x20)).unwrap_or(0);
            let tail = bytes.get(at.saturating_sub(back)..).unwrap_or_default();
            let (head, end) = tail.split_at(word.len().min(tail.len()));
            head.eq_ignore_ascii_case(word.as_bytes()) && !matches!(end, [b's' | b'S', ..])
        })
    })
}

fn judge_bearer(text: &str, found: &Captures<'_>) -> Option<Found> {
    let (lead, secret) = (found.get(1)?, found.get(2)?);
    let digit = secret.as_str().contains(|c: char| c.is_ascii_digit());
    let header = lead.len() > "bearer".len() && secret.len() >= 6;
    let sure = digit && secret.len() >= 16 || header && !PROSE.is_match(&text[secret.start()..]);
    sure.then(|| (secret.range(), "bearer"))
}

/// Judges `key = value`. A key named after passwords needs less proof than `token`, a word that
/// logs and source code use all the time; `:` needs more than `=`, because prose uses it too.
fn judge_pair(text: &str, found: &Captures<'_>) -> Option<Found> {
    let key = found.name("key")?.as_str().to_ascii_lowercase();
    let op = found.name("op").map_or("", |op| op.as_str());
    let password = key.contains("pass") || key == "pwd";
    if op.is_empty() && found.name("flag").is_none() {
        return None;
    }
    let (start, value) = if let Some(quoted) = found.iter().skip(5).flatten().next() {
        let value = quoted.as_str();
        // In `"password=" + value` the quote closes a string instead of opening one.
        let closes = value.starts_with([' ', '+', ',', ';', ')', ']', '}']);
        if closes && found.name("shut").is_none() || value.len() < 6 && !password {
            return None;
        }
        (quoted.start(), value)
    } else {
        let start = found.get(0)?.end();
        let rest = &text[start..];
        let assigned = op == "=" || op == ":=";
        // Judged before the value is measured: a long line full of keys must not cost its square.
        if op == "=>" || CODE.is_match(rest) || !assigned && PROSE.is_match(rest) {
            return None;
        }
        let value = BARE.find(rest)?.as_str();
        let value = value.trim_end_matches([')', ']', '}', '.', ':']);
        let size = value.chars().count();
        let proof = password || size >= 16 || value.contains(|c: char| c.is_ascii_digit());
        let count = value.trim_matches(|c: char| c.is_ascii_digit() || "._,/%kM".contains(c));
        let plain = size < 6 || !password && size < 20 && count.is_empty();
        if plain && !(assigned && password) || !assigned && !proof {
            return None;
        }
        (start, value)
    };
    // The shell's `PWD` is a folder.
    let folder = key == "pwd" && (value.starts_with(['/', '~', '.']) || value.contains(":\\"));
    let kind = match key.as_str() {
        "authorization" => "bearer",
        _ if key.contains("access") => "aws-key",
        _ => "password",
    };
    (!folder && !is_placeholder(value)).then(|| (start..start + value.len(), kind))
}

fn is_placeholder(value: &str) -> bool {
    value.starts_with("[redacted") || PLACEHOLDER.is_match(value)
}

/// Variables, templates and masks; closing braces may be missing because bare values lose them.
static PLACEHOLDER: LazyLock<Regex> = LazyLock::new(|| {
    compile(concat!(
        r"^(?:[*•.…?_{}()\[\]|,;+$~&\\/-]*|\$[A-Za-z_]+|\$[A-Z0-9_]+|\$?\{+[A-Za-z0-9_. ]*\}*",
        r"|\$\(.*|%[sdv]|%[A-Z_]+%|:[a-z_]+|<[^<>]*>|(?i-u:(?:bearer|basic|token) (?u-i:[\[$%{].*)?",
        r"|null|none|nil|true|false|undefined|string|number|boolean|required|optional|invalid",
        r"|incorrect|expired|missing|await|new|function|bearer))$",
    ))
});

/// A plain word that more words follow, a block, or a path such as `src/auth/token.rs:42`.
static PROSE: LazyLock<Regex> = LazyLock::new(|| {
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

/// Hides what looks like a secret in every text of a document; its keys are words of ours.
pub fn redact_texts(value: &mut serde_json::Value) {
    use serde_json::Value;
    match value {
        Value::String(text) => *text = redact(text).into_owned(),
        Value::Array(items) => items.iter_mut().for_each(redact_texts),
        Value::Object(fields) => fields.values_mut().for_each(redact_texts),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// (secret, kind), built by concatenation so that no scanner takes this file for a leak.
    fn secrets() -> Vec<(String, &'static str)> {
        let mix = "a1B2c3D4e5".repeat(4);
        let rsa = "RSA PRIVATE KEY";
        let pem = format!("-----BEGIN {rsa}-----\nMIIé\n\n{mix}\n-----END {rsa}-----");
        let mut all = vec![
            (format!("AKIA{}", "IOSFODNN7EXAMPLE"), "aws-key"),
            (format!("github_pat_{mix}_{mix}"), "github-token"),
            (format!("glpat-{}", &mix[..20]), "gitlab-token"),
            (format!("npm_{}", &mix[..36]), "npm-token"),
            (format!("xoxb-12-{}", &mix[..12]), "slack-token"),
            (format!("AIza{}", &mix[..35]), "google-key"),
            (format!("sk_live_{}", &mix[..24]), "stripe-key"),
            (format!("rk_live_{}", &mix[..24]), "stripe-key"),
            (format!("eyJ{}.eyJ{}.{mix}", &mix[..17], &mix[..30]), "jwt"),
            (format!("sk-{mix}"), "api-key"),
            (format!("sk-proj-{mix}"), "api-key"),
            (format!("sk-ant-api03-{mix}-AA"), "api-key"),
            (pem, "private-key"),
        ];
        for c in "pousr".chars() {
            all.push((format!("gh{c}_{}", &mix[..36]), "github-token"));
        }
        all
    }

    /// Text around `«secret|kind»`, the notation of the table below.
    fn check(marked: &str) {
        let (mut text, mut want) = (String::new(), String::new());
        for (i, part) in marked.split(['«', '»']).enumerate() {
            let secret = part.rsplit_once('|').filter(|_| i % 2 == 1);
            text += secret.map_or(part, |(secret, _)| secret);
            match secret {
                Some((_, kind)) => want.extend(["[redacted:", kind, "]"]),
                None => want += part,
            }
        }
        assert_eq!(redact(&text), want, "{text}");
        assert_eq!(redact(&want), want, "not idempotent");
        assert_eq!(contains_secret(&text), text != want, "{text}");
    }

    #[test]
    fn removes_known_shapes_anywhere() {
        for (secret, kind) in secrets() {
            for around in ["_", "ключ é _ — fin", "\"_\",", "a\\n_\\n b"] {
                check(&around.replace('_', &format!("«{secret}|{kind}»")));
            }
        }
        let all = secrets()
            .into_iter()
            .map(|(s, k)| format!("«{s}|{k}» und "));
        check(&all.collect::<String>());
        let open_end = format!("-----BEGIN {}-----\nMIIB\nnever closed", "PRIVATE KEY");
        check(&format!("see «{open_end}|private-key»"));
    }

    #[test]
    fn removes_values_of_named_keys_headers_and_urls() {
        let table = r#"
            postgres://ada:«hunter2|url-password»@host/db and redis://:«a/b+c==|url-password»@h:6379
            amqp://ü:«p@ss|url-password»@h,amqp://b:«x|url-password»@h git+https://u:«z#2|url-password»@h
            password=«x|password» PGPASSWORD=«hunter2|password» psql; ?token=«abc123|password»&page=2
            password: «hunter2|password» then passwd=«a,b|password», pwd: «пароль1|password».
            {"password":"«x|password»","secret" : "«two words|password»","n":1,"apikey":'«k-1234|password»'}
            {\"client_secret\":\"«s3 \\n cret|password»\",\"user\":\"ada\"} password = '«it "is"|password»'
            DB_PASSWORD="«correct \" horse|password»" user_pass=«tr0ub|password» **Password:** «hunter2|password»
            access_token=«abcdefgh|password» x-api-key: «0a1b2c3d|password» apiKey: `«abcdefgh|password»`
            token: «abcdefghijklmnopqrst|password» --password «hunter2|password» (secret=«topsecret|password»)
            Config { password: Some("«hunter2|password»") } os.environ["API_KEY"] = b"«abc def|password»"
            aws_secret_access_key = «wJalr/K7MDENG+bPxRfi|aws-key» "SecretAccessKey": "«wJalr/K7MD|aws-key»"
            Authorization: Bearer «abcdef.ghi-jk|bearer». 'authorization: basic «dXNlcjpw=|bearer»' -v
            {"Authorization":"Bearer «a1b2c3|bearer»"} send bearer «0123456789abcdef0|bearer» Authorization: token «a1b2c3d4|bearer»
        "#;
        table.lines().for_each(check);
    }

    #[test]
    fn leaves_prose_code_and_ids_alone() {
        let table = r#"
            the token is refreshed; password reset flow; refresh token logic; password field; bearer token
            secret: none of your business. Password: must hold 8 characters. password: required for login
            Never log passwords, not even hashed. tokens: 5000/200000 token_usage: 123456 --tokens 120/200
            token=12345 tokens=5000 token: 5000/200000 max_token=128000 "token": 123456789 secrets: inherit
            src/token.rs src/auth/password.ts:42 token: src/auth/token2.rs:42 PWD=/srv/main "pwd":"/home/ada1"
            id 123e4567-e89b-12d3-a456-426614174000 msn-4f1c09ab-77aa task-4f1c09ab77aa4f1c09ab77aa4f1c09ab
            sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 sk-folding-cube-container
            let token = self.next_token(); password: String, token: Option<String>, Token::Ident; token == other1
            password=$DB_PASSWORD token="${TOKEN}" password: ******** secret={{ x }} password=<password> token=%s
            "password=" + value + "&token=" + other; type="password" name="p"; password: string; password=null
            http://host:8080/@scope/x https://h:443?mail=a@b.c postgres://u:${PW}@h postgres://{u}:{p}@h
            Authorization: Bearer tokens are required. Authorization: Bearer $TOKEN -----BEGIN CERTIFICATE-----
            пароль: секрет; das Passwort; [redacted] password=[redacted] token: [redacted:github-token]
        "#;
        table.lines().for_each(check);
    }

    #[test]
    fn clean_text_borrows_and_runs_no_regex() {
        let text = "Étape 7: cargo test passed, 5000 tokens used in task.\n".repeat(20_000);
        assert!(text.len() > 1_000_000 && RULES.iter().all(|rule| !(rule.hint)(&text)));
        assert!(matches!(redact(&text), Cow::Borrowed(same) if same.len() == text.len()));
    }
}
