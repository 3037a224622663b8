use proptest::prelude::*;

use super::*;
use crate::dialect::unreadable::{DocumentFault, MAX_BYTES, MAX_DEPTH, SourcePosition, Unreadable};

fn fault(text: &str) -> (DocumentFault, SourcePosition) {
    let Unreadable { fault, place } = Json::parse(text).unwrap_err();
    (fault, place)
}

fn said(text: &str) -> String {
    Json::parse(text).unwrap_err().to_string()
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    for (text, message) in [
        ("", "it is empty"),
        (" \r\n ", "it is empty"),
        ("{", "it ends too early at line 1, column 2"),
        (
            "{\r\n  \"a\": 1,\r\n  \"é\" 2\r\n}",
            "expected `:`, found '2' at line 3, column 7",
        ),
        (
            "{\"a\": 1,}",
            "expected a key in quotes, found '}' at line 1, column 9",
        ),
        (
            "[1 2]",
            "expected `,` or `]`, found '2' at line 1, column 4",
        ),
        ("[1,]", "expected a value, found ']' at line 1, column 4"),
        ("01", "expected the end, found '1' at line 1, column 2"),
        ("1.", "it ends too early at line 1, column 3"),
        ("+1", "expected a value, found '+' at line 1, column 1"),
        ("nul", "it ends too early at line 1, column 4"),
        (
            "nulL",
            "expected `true`, `false` or `null`, found 'L' at line 1, column 4",
        ),
        (
            "\"a\nb\"",
            "expected the end of the text, or `\\` before this, found '\\n' at line 1, column 3",
        ),
        (
            "\"\\x\"",
            "expected an escape, found 'x' at line 1, column 3",
        ),
        (
            "\"\\u12g4\"",
            "expected four hexadecimal digits, found 'g' at line 1, column 6",
        ),
        ("{} {}", "expected the end, found '{' at line 1, column 4"),
        ("NaN", "expected a value, found 'N' at line 1, column 1"),
        ("1e999", "a number too large to hold at line 1, column 1"),
        (
            "// note\n{}",
            "expected a value, found '/' at line 1, column 1",
        ),
    ] {
        assert_eq!(said(text), message, "{text:?}");
    }
}

#[test]
fn a_key_that_stands_twice_is_named() {
    assert_eq!(
        said("{\"a\": {\"b\": 1,\n \"c\": 2, \"\\u0062\": 3}}"),
        "the key `b` stands twice at line 2, column 10"
    );
    assert!(Json::parse("{\"a\": {\"a\": 1}, \"b\": {\"a\": 1}}").is_ok());
}

#[test]
fn half_a_surrogate_pair_is_refused() {
    for text in [
        r#""\ud83d""#,
        r#""\ude00""#,
        r#""\ud83dx""#,
        r#""\ud83d\n""#,
        r#""\ud83d\ud83d""#,
        r#""\ud83dA""#,
    ] {
        assert_eq!(fault(text).0, DocumentFault::LoneSurrogate, "{text}");
    }
    assert_eq!(Json::parse(r#""\uD83D\ude00""#).unwrap(), Json::from("😀"));
}

#[test]
fn a_byte_order_mark_in_front_is_passed_over_and_nowhere_else() {
    assert_eq!(Json::parse("\u{feff}{}").unwrap(), Json::Object(vec![]));
    for text in ["\u{feff}\u{feff}{}", "{\u{feff}}", "{}\u{feff}"] {
        assert!(
            matches!(fault(text).0, DocumentFault::Syntax { .. }),
            "{text:?}"
        );
    }
}

#[test]
fn too_deep_and_too_large_is_refused() {
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    assert!(Json::parse(&nested(MAX_DEPTH)).is_ok());
    assert_eq!(fault(&nested(MAX_DEPTH + 1)).0, DocumentFault::TooDeep);
    // Deep and cut short: refused for its depth, before it costs anything.
    assert_eq!(
        fault(&"{\"a\":".repeat(1_000_000)).0,
        DocumentFault::TooDeep
    );
    let filled = |bytes: usize| format!("\"{}\"", "x".repeat(bytes - 2));
    assert!(Json::parse(&filled(MAX_BYTES)).is_ok());
    assert_eq!(
        fault(&filled(MAX_BYTES + 1)),
        (
            DocumentFault::TooLarge {
                bytes: MAX_BYTES + 1
            },
            SourcePosition::Whole
        )
    );
}

/// The right column is what Node.js says.
#[test]
fn numbers_are_written_as_javascript_writes_them() {
    for (text, js) in [
        ("0", "0"),
        ("-0", "0"),
        ("-1", "-1"),
        ("65.0", "65"),
        ("1E+2", "100"),
        ("0.1", "0.1"),
        ("0.1e1", "1"),
        ("123456789012345680000", "123456789012345680000"),
        ("1e20", "100000000000000000000"),
        ("1e21", "1e+21"),
        ("123e20", "1.23e+22"),
        ("1e-6", "0.000001"),
        ("0.0000012", "0.0000012"),
        ("1e-7", "1e-7"),
        ("1.5e-9", "1.5e-9"),
        ("9007199254740993", "9007199254740992"),
        ("12345678901234567890", "12345678901234567000"),
        ("-9223372036854775808", "-9223372036854776000"),
        ("18446744073709551615", "18446744073709552000"),
        ("1.7976931348623157e308", "1.7976931348623157e+308"),
        ("5e-324", "5e-324"),
        ("0.30000000000000004", "0.30000000000000004"),
        ("-2.50", "-2.5"),
        ("123.456e1", "1234.56"),
        ("333333333.33333329", "333333333.3333333"),
        ("4294967296.5", "4294967296.5"),
        ("-1e-7", "-1e-7"),
        ("1.0000000000000002", "1.0000000000000002"),
    ] {
        let number = Json::parse(text).unwrap();
        assert_eq!(number.stringify(), js, "{text}");
        assert_eq!(number.pretty(&[]), text, "{text}");
    }
}

/// Compares with `JSON.stringify(JSON.parse(text))` in Node.js.
#[test]
fn keys_are_ordered_and_text_is_escaped_as_javascript_does() {
    let text = r#"{"b":1,"a":{"10":1,"9":2,"x":3,"01":4,"-1":5,"4294967295":6,"4294967294":7,"y":8},"0":[1.0,"\u0001\u007f/\/é😀\ud83d\ude00"]}"#;
    assert_eq!(
        Json::parse(text).unwrap().stringify(),
        "{\"0\":[1,\"\\u0001\u{7f}//é😀😀\"],\"b\":1,\"a\":{\"9\":2,\"10\":1,\"4294967294\":7,\"x\":3,\"01\":4,\"-1\":5,\"4294967295\":6,\"y\":8}}"
    );
}

#[test]
fn files_keep_their_order_and_seeds_their_layout() {
    let text = r#"{
  "z": {},
  "list": [],
  "items": [
    {"id": "a", "done": [1, 2]},
    {"id": "b", "more": {}}
  ],
  "short": ["x", "y"],
  "long": [
    "x"
  ]
}"#;
    let json = Json::parse(text).unwrap();
    assert_eq!(json.pretty(&["items", "short"]), text);
}

#[test]
fn whole_numbers_may_be_written_with_a_point() {
    let number = |text: &str| match Json::parse(text).unwrap() {
        Json::Number(number) => number.as_u64(),
        other => panic!("{other:?}"),
    };
    assert_eq!(number("65"), Some(65));
    assert_eq!(number("65.0"), Some(65));
    assert_eq!(number("1e2"), Some(100));
    assert_eq!(number("18446744073709551615"), Some(u64::MAX));
    assert_eq!(number("65.5"), None);
    assert_eq!(number("-1"), None);
    assert_eq!(number("1e30"), None);
}

pub(crate) fn any_json() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::Bool),
        any::<u64>().prop_map(Json::from),
        (-1_000_000i64..1_000_000, 0u8..6)
            .prop_map(|(digits, shift)| { Json::parse(&format!("{digits}e-{shift}")).unwrap() }),
        any::<String>().prop_map(Json::Text),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Json::List),
            prop::collection::btree_map("[a-c0-9é\"\\\\]{0,4}", inner, 0..6)
                .prop_map(|fields| Json::Object(fields.into_iter().rev().collect())),
        ]
    })
}

fn almost_json() -> impl Strategy<Value = String> {
    let token = prop::sample::select(vec![
        "{", "}", "[", "]", ",", ":", "\"a\"", "\"b\"", "\"", "\\", "\\u00e9", "\\ud83d",
        "\\ude00", "1", "-", "0", ".5", "e3", "E+", "true", "null", "false", " ", "\n", "\r\n",
        "é", "\u{1}",
    ]);
    prop::collection::vec(token, 0..14).prop_map(|tokens| tokens.concat())
}

proptest! {
    #[test]
    fn what_is_written_reads_back(json in any_json()) {
        let text = json.pretty(&["a", "b"]);
        let back = Json::parse(&text).unwrap();
        prop_assert_eq!(&back, &json);
        prop_assert_eq!(back.pretty(&["a", "b"]), text);
        prop_assert_eq!(Json::parse(&json.stringify()).unwrap().stringify(), json.stringify());
    }

    #[test]
    fn what_is_cut_short_is_refused_as_such(json in any_json(), at in any::<prop::sample::Index>()) {
        let text = format!("[{}]", json.stringify());
        let cut = (0..text.len()).filter(|at| text.is_char_boundary(*at)).collect::<Vec<_>>();
        let cut = &text[..cut[at.index(cut.len())]];
        let fault = fault(cut).0;
        prop_assert!(matches!(fault, DocumentFault::CutShort | DocumentFault::Empty), "{:?}: {:?}", cut, fault);
    }

    /// `serde_json` is the judge: what we read it reads as the same, what we refuse it refuses, but for
    /// what we refuse on purpose.
    #[test]
    fn we_read_what_is_json_and_nothing_else(text in almost_json()) {
        let judge = serde_json::from_str::<serde_json::Value>(&text);
        match Json::parse(&text) {
            Ok(json) => prop_assert_eq!(json, Json::from(judge.unwrap())),
            Err(Unreadable { fault: DocumentFault::DuplicateKey { .. } | DocumentFault::TooDeep, .. }) => {}
            Err(error) => prop_assert!(judge.is_err(), "{}: {:?}", error, text),
        }
    }
}
