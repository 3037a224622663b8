//! What holds for every dialect: what a file must survive, and random documents.

use flightline_core::dialect::{
    Dialect, DialectDocument, DocumentFault, Json, MAX_BYTES, MAX_DEPTH, SourcePosition,
};
use flightline_core::time::Time;
use proptest::prelude::*;

pub fn time(text: &str) -> Time {
    text.parse().unwrap()
}

/// A good document.
pub fn read(dialect: Dialect, text: &str) -> DialectDocument {
    DialectDocument::read(dialect, text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// The document comes back as it was: values, keys, and their order. Its text is returned.
pub fn check_round_trip(dialect: Dialect, text: &str) -> String {
    let written = read(dialect, text).write();
    let (before, after) = (Json::parse(text).unwrap(), Json::parse(&written).unwrap());
    assert_eq!(before, after);
    assert_eq!(before.pretty(&[]), after.pretty(&[]), "the order of keys");
    assert_eq!(read(dialect, &written).write(), written, "written twice");
    written
}

/// Everything that can be wrong with a file as a file.
pub fn check_bad_files(dialect: Dialect, good: &str) {
    let refused = |text: &str| match DialectDocument::read(dialect, text) {
        Err(error) => error,
        Ok(_) => panic!("was read: {text}"),
    };
    let good = good.trim_end();
    for cut in (0..good.len()).filter(|at| good.is_char_boundary(*at)) {
        let fault = refused(&good[..cut]).fault;
        let expected = matches!(fault, DocumentFault::CutShort | DocumentFault::Empty);
        assert!(expected, "cut at {cut}: {fault:?}");
    }
    for root in ["null", "[]", "1", "\"{}\"", "true"] {
        let error = refused(root);
        assert!(
            matches!(error.fault, DocumentFault::WrongType { .. }),
            "{error}"
        );
        assert_eq!(error.place, SourcePosition::Path("$".to_owned()));
    }
    // Every byte replaced by one that can stand in no JSON outside text.
    for at in (0..good.len()).filter(|at| good.as_bytes()[*at].is_ascii_punctuation()) {
        let broken = format!("{}\u{1}{}", &good[..at], &good[at + 1..]);
        assert!(DialectDocument::read(dialect, &broken).is_err(), "{broken}");
    }
    let inside = |field: &str| good.replacen('{', &format!("{{{field},"), 1);
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    read(
        dialect,
        &inside(&format!("\"x\": {}", nested(MAX_DEPTH - 1))),
    );
    let deep = refused(&inside(&format!("\"x\": {}", nested(MAX_DEPTH))));
    assert_eq!(deep.fault, DocumentFault::TooDeep);
    let huge = refused(&inside(&format!("\"x\": \"{}\"", "x".repeat(MAX_BYTES))));
    assert!(
        matches!(huge.fault, DocumentFault::TooLarge { .. }),
        "{huge}"
    );
    let half = refused(&inside(r#""x": "\ud83d""#));
    assert_eq!(half.fault, DocumentFault::LoneSurrogate);
    let Json::Object(fields) = Json::parse(good).unwrap() else {
        panic!("not an object");
    };
    for (key, _) in fields {
        let twice = refused(&inside(&format!("\"{key}\": 1"))).fault;
        assert_eq!(twice, DocumentFault::DuplicateKey { key });
    }
    let windows = format!("\u{feff}{}", good.replace('\n', "\r\n"));
    assert_eq!(read(dialect, &windows).write(), read(dialect, good).write());
}

/// Replaces `from`, which must be there, and checks what is said then.
pub fn check_refused(dialect: Dialect, good: &str, cases: &[(&str, &str, &str)]) {
    for (from, to, message) in cases {
        assert!(good.contains(from), "{from}");
        let refused = DialectDocument::read(dialect, &good.replacen(from, to, 1)).unwrap_err();
        assert_eq!(refused.to_string(), *message);
    }
}

/// Any JSON.
pub fn json() -> BoxedStrategy<Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::Bool),
        any::<u64>().prop_map(Json::from),
        (-99_999i64..99_999, 0u8..6)
            .prop_map(|(digits, shift)| Json::parse(&format!("{digits}e-{shift}")).unwrap()),
        any::<String>().prop_map(Json::Text),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Json::List),
            prop::collection::btree_map("[a-c0-9é]{0,3}", inner, 0..4)
                .prop_map(|fields| Json::Object(fields.into_iter().rev().collect())),
        ]
    })
    .boxed()
}

/// Any text.
pub fn text() -> BoxedStrategy<Json> {
    prop_oneof!["[a-zA-Z0-9 ._/-]{0,12}", any::<String>()]
        .prop_map(Json::Text)
        .boxed()
}

/// One of these words.
pub fn word(words: &'static [&'static str]) -> BoxedStrategy<Json> {
    prop::sample::select(words).prop_map(Json::from).boxed()
}

/// A point in time, written in one of the ways it can be.
pub fn stamp() -> BoxedStrategy<Json> {
    (0i64..4_000_000_000_000, 0..3)
        .prop_map(|(millis, style)| {
            let time = Time::from_millis(millis);
            Json::Text(match style {
                0 => time.to_seconds(),
                1 => time.to_string(),
                _ => time.to_seconds().replace('Z', "+02:00"),
            })
        })
        .boxed()
}

pub fn whole() -> BoxedStrategy<Json> {
    (0u64..1_000_000).prop_map(Json::from).boxed()
}

pub fn flag() -> BoxedStrategy<Json> {
    any::<bool>().prop_map(Json::Bool).boxed()
}

pub fn list(of: BoxedStrategy<Json>) -> BoxedStrategy<Json> {
    prop::collection::vec(of, 0..4).prop_map(Json::List).boxed()
}

/// An object with names of the file's choice.
pub fn named(of: BoxedStrategy<Json>) -> BoxedStrategy<Json> {
    prop::collection::btree_map("[a-z0-9_]{1,5}", of, 0..4)
        .prop_map(|fields| Json::Object(fields.into_iter().rev().collect()))
        .boxed()
}

/// Whether a field must be there.
#[derive(Clone, Copy)]
pub enum Need {
    Must,
    /// It may be left out.
    May,
    /// It may be left out or be null.
    Null,
}

/// An object with these fields, those that need not be there perhaps not, some that nobody knows, in
/// any order.
pub fn object(fields: Vec<(&'static str, Need, BoxedStrategy<Json>)>) -> BoxedStrategy<Json> {
    let known: Vec<BoxedStrategy<Option<(String, Json)>>> = fields
        .into_iter()
        .map(|(key, need, value)| {
            let value = value.prop_map(move |value| Some((key.to_owned(), value)));
            let null = Just(Some((key.to_owned(), Json::Null)));
            match need {
                Need::Must => value.boxed(),
                Need::May => prop_oneof![1 => Just(None), 3 => value].boxed(),
                Need::Null => prop_oneof![1 => Just(None), 1 => null, 4 => value].boxed(),
            }
        })
        .collect();
    let unknown = prop::collection::btree_map("x_[a-z0-9]{0,3}", json(), 0..3);
    (known, unknown)
        .prop_flat_map(|(known, unknown)| {
            let fields: Vec<(String, Json)> = known.into_iter().flatten().chain(unknown).collect();
            prop_oneof![Just(fields.clone()), Just(fields).prop_shuffle()]
        })
        .prop_map(Json::Object)
        .boxed()
}
