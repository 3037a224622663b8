//! Redaction, measured on a corpus: what must go and what must stay (`redaction/*.txt`), and what holds for any text.

use std::sync::LazyLock;

use flightline_core::redact::{contains_secret, redact};
use flightline_core::{Name, RepoPath};
use proptest::prelude::*;

/// Secrets that are known to pass, each with its reason. The list is here so that nobody finds out by surprise.
const KNOWN_MISSES: [(&str, &str); 3] = [
    (
        "db:5432:shop:ada:⟨alnum:12⟩",
        "a line of `.pgpass` is five words between colons, like many others",
    ),
    (
        "builder.password(\"hunter2\")",
        "an argument is a password no more often than a field's name",
    ),
    (
        "SK⟨hex:32⟩",
        "an identifier of Twilio's has a prefix of two letters; its secret is known by name",
    ),
];

/// Texts with every `⟨kind:length⟩` replaced by characters of that kind, `seed` after `seed`.
fn filled(line: &str, seed: u64) -> String {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state >> 33).expect("31 bits") % below
    };
    let mut text = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once('⟨') {
        let (spec, after) = after.split_once('⟩').expect("a closing bracket");
        let (kind, length) = spec.split_once(':').expect("kind:length");
        let (lower, upper, digits) = (
            "abcdefghijklmnopqrstuvwxyz",
            "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
            "0123456789",
        );
        let alphabet = match kind {
            "hex" => "0123456789abcdef".to_owned(),
            "digit" => digits.to_owned(),
            "lower" => lower.to_owned(),
            "upper" => format!("{upper}{digits}"),
            "alpha" => format!("{lower}{upper}"),
            "alnum" => format!("{lower}{upper}{digits}"),
            "url" => format!("{lower}{upper}{digits}_-"),
            "b64" => format!("{lower}{upper}{digits}+/"),
            kind => panic!("no such kind: {kind}"),
        };
        text.push_str(before);
        for _ in 0..length.parse().expect("a length") {
            text.push(char::from(alphabet.as_bytes()[next(alphabet.len())]));
        }
        rest = after;
    }
    (text + rest)
        .replace('⏎', "\n")
        .replace('␍', "\r")
        .replace('‖', "")
}

fn corpus(file: &'static str) -> impl Iterator<Item = &'static str> {
    file.lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
}

static SECRETS: LazyLock<Vec<&str>> =
    LazyLock::new(|| corpus(include_str!("redaction/secrets.txt")).collect());
static HARMLESS: LazyLock<Vec<&str>> =
    LazyLock::new(|| corpus(include_str!("redaction/harmless.txt")).collect());

/// How often each line is filled, each time with other characters.
const ROUNDS: u64 = 20;

#[test]
fn every_secret_of_the_corpus_goes_and_what_is_around_it_stays() {
    assert!(SECRETS.len() >= 150, "{}", SECRETS.len());
    let mut wrong = Vec::new();
    for (at, line) in SECRETS.iter().enumerate() {
        for round in 0..ROUNDS {
            let marked = filled(line, round * 1_000 + at as u64);
            let text = marked.replace(['«', '»'], "");
            let parts: Vec<&str> = marked.split(['«', '»']).collect();
            let around: Vec<&str> = parts.iter().step_by(2).copied().collect();
            let clean = redact(&text);
            if without_kinds(&clean) != around.join("[redacted]") || !contains_secret(&text) {
                wrong.push(format!("{text}\n  became {clean}"));
                break;
            }
            assert_eq!(redact(&clean), clean, "redacting twice is redacting once");
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        SECRETS.len(),
        wrong.join("\n")
    );
}

fn without_kinds(text: &str) -> String {
    let mut parts = text.split("[redacted:");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        plain += "[redacted]";
        plain += part.split_once(']').map_or(part, |(_, after)| after);
    }
    plain
}

#[test]
fn nothing_in_the_harmless_corpus_is_taken_for_a_secret() {
    assert!(HARMLESS.len() >= 150, "{}", HARMLESS.len());
    let mut wrong = Vec::new();
    for (at, line) in HARMLESS.iter().enumerate() {
        for round in 0..ROUNDS {
            let text = filled(line, round * 1_000 + at as u64);
            let clean = redact(&text);
            if clean != text || contains_secret(&text) {
                wrong.push(format!("{text}\n  became {clean}"));
                break;
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        HARMLESS.len(),
        wrong.join("\n")
    );
}

#[test]
fn what_is_known_to_be_missed_is_missed_still() {
    for (line, reason) in KNOWN_MISSES {
        let text = filled(line, 7);
        assert_eq!(redact(&text), text, "take it off the list: {reason}");
    }
}

#[test]
fn ordinary_names_and_paths_are_not_refused() {
    for name in [
        "ada",
        "Specialist-2",
        "ada:review:2",
        "token-refresher",
        "auth-service-2",
        "T060",
        "api_error",
        "key-rotation",
    ] {
        assert!(Name::parse("name", name).is_ok(), "{name}");
    }
    for (at, line) in HARMLESS.iter().enumerate() {
        let path = filled(line, at as u64);
        if !path.starts_with(['/', '.'])
            && !path.contains("..")
            && !path.contains('\n')
            && path.len() <= 1_000
        {
            assert!(RepoPath::parse(&path).is_ok(), "{path}");
        }
    }
}

/// Pieces that rules look at, in every order.
fn pieces() -> impl Strategy<Value = String> {
    let words: Vec<String> = SECRETS
        .iter()
        .chain(HARMLESS.iter())
        .enumerate()
        .flat_map(|(at, line)| {
            let text = filled(line, at as u64).replace(['«', '»'], "");
            let half = (0..=text.len() / 2)
                .rev()
                .find(|at| text.is_char_boundary(*at))
                .unwrap_or(0);
            [text[..half].to_owned(), text[half..].to_owned(), text]
        })
        .collect();
    let signs = [
        "=",
        ": ",
        "\"",
        "'",
        "\\\"",
        " ",
        "\n",
        "é",
        "«",
        "\\",
        "@",
        "://",
        "-----",
        "[redacted:x]",
        "<",
        ">",
        "--",
        ";",
        "|",
    ];
    let piece = prop_oneof![
        3 => proptest::sample::select(words),
        3 => proptest::sample::select(signs.map(str::to_owned).to_vec()),
        1 => "\\PC{0,12}",
    ];
    proptest::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn redacting_never_fails_and_twice_is_once(text in pieces()) {
        let clean = redact(&text).into_owned();
        prop_assert_eq!(redact(&clean), clean.as_str());
        prop_assert_eq!(contains_secret(&text), clean != text);
        prop_assert!(!contains_secret(&clean));
    }

    #[test]
    fn any_text_can_be_redacted(text in "\\PC{0,200}") {
        let clean = redact(&text).into_owned();
        prop_assert_eq!(redact(&clean), clean.as_str());
    }
}
