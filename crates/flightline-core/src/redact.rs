//! Removes credentials from text before it is stored or shown.
//!
//! The rule set is a table (`rules.rs`). One pass over a text looks for its words (`scan.rs`), and only where one stands is
//! anything judged: nearly every text holds no secret, and a command that looks at one lives for milliseconds. So no
//! expression is compiled before it is needed, and none needs Unicode tables: `regex` is built without them.

mod context;
mod pair;
mod random;
mod rules;
mod scan;

use std::borrow::Cow;
use std::ops::{ControlFlow, Range};

use regex::Regex;

use self::rules::{RedactRule, TokenPattern};
use self::scan::Hit;

/// Replaces every secret found in `text` by `[redacted:KIND]`; borrows when there is none.
///
/// Key names, separators and the rest of a URL stay readable. Redacting a redacted text changes
/// nothing: `redact(&redact(x)) == redact(x)`.
pub fn redact(text: &str) -> Cow<'_, str> {
    let mut clean = Cow::Borrowed(text);
    // Removing one secret can expose another, so go on until nothing changes: this is what makes
    // the result idempotent. It ends because each replacement swallows text that was no marker.
    loop {
        let found = secrets(&clean, usize::MAX);
        if found.is_empty() {
            return clean;
        }
        let (mut out, mut copied) = (String::with_capacity(clean.len()), 0);
        for (range, kind) in found {
            out.extend([&clean[copied..range.start], "[redacted:", kind, "]"]);
            copied = range.end;
        }
        clean = Cow::Owned(out + &clean[copied..]);
    }
}

/// Tells whether [`redact`] would change `text`, without building the redacted text.
pub fn contains_secret(text: &str) -> bool {
    !secrets(text, 1).is_empty()
}

/// `text` as an error may repeat it: no secret, no control character, 60 characters at most.
pub fn shown(text: &str) -> String {
    // Cut before it is searched, so that a long one costs nothing; cut short only afterwards, so that
    // half a secret is not shown.
    let head = text.chars().filter(|c| !c.is_control()).take(4_096);
    redact(&head.collect::<String>()).chars().take(60).collect()
}

/// A range to replace, and the kind to name in its place.
type Redaction = (Range<usize>, &'static str);

/// Returns the secrets in `text`, from left to right and apart from each other; not more than the first few when `most`
/// says so. Where a shape and a name claim the same text, the shape has it: `token=ghp_…` is named a GitHub token.
fn secrets(text: &str, most: usize) -> Vec<Redaction> {
    let (mut shapes, mut named) = (Vec::new(), Vec::new());
    // A hit within a secret is not judged again: a long line of names must not cost its square.
    let end_of = |found: &[Redaction]| found.last().map_or(0, |(range, _)| range.end);
    scan::visit(text, |hit, row| {
        match &row.rule {
            _ if hit.at < end_of(&shapes) => {}
            RedactRule::Token(token) => shapes.extend(token.find(&hit)),
            RedactRule::Shape(find) => find(&hit, &mut shapes),
            RedactRule::Named(_) if hit.at < end_of(&named) => {}
            RedactRule::Named(find) => find(&hit, &mut named),
        }
        match shapes.len() + named.len() < most {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    });
    apart(shapes, named)
}

fn apart(mut shapes: Vec<Redaction>, mut named: Vec<Redaction>) -> Vec<Redaction> {
    drop_overlaps(&mut shapes);
    // A skipped match is found again in the next round, with the shape's marker in it.
    named.retain(|(range, _)| {
        let next = shapes.partition_point(|shape| shape.0.end <= range.start);
        shapes
            .get(next)
            .is_none_or(|shape| range.end <= shape.0.start)
    });
    shapes.extend(named);
    drop_overlaps(&mut shapes);
    shapes
}

fn drop_overlaps(found: &mut Vec<Redaction>) {
    found.sort_by_key(|(range, _)| range.start);
    let mut end = 0;
    found.retain(|(range, _)| {
        let apart = range.start >= end;
        if apart {
            end = range.end;
        }
        apart
    });
}

impl TokenPattern {
    fn find(&self, hit: &Hit<'_>) -> Option<Redaction> {
        if self.edge && !hit.begins_word() {
            return None;
        }
        let length = context::run(hit.rest(), self.alphabet);
        let body = hit.rest()[..length].trim_end_matches('.');
        let ends =
            !hit.rest()[length..].starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        let fits = body.len() >= self.least
            && (self.most == usize::MAX || body.len() <= self.most && ends);
        let digit = !self.digit || body.bytes().any(|byte| byte.is_ascii_digit());
        let random = !self.random || random::looks_random(body);
        let start = if self.keep { hit.end } else { hit.at };
        (fits && digit && random).then(|| (start..hit.end + body.len(), self.kind))
    }
}

fn compile(pattern: &str) -> Regex {
    Regex::new(pattern).expect("redaction patterns are constant and all compiled by the tests")
}

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
        assert!(text.len() > 1_000_000);
        assert!(matches!(redact(&text), Cow::Borrowed(same) if same.len() == text.len()));
    }
}
