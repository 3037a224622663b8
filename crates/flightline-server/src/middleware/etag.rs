//! Entity tags: they say since when a thing stands as it does, so that it is not sent twice, and not changed unseen.

use axum::http::{HeaderMap, HeaderValue, header};
use flightline::IfUnchanged;
use flightline::core::event::sha256_hex;
use flightline::event::Cursor;

/// The number of characters of an answer's hash in its tag.
const SUM: usize = 12;

/// The tag of an answer: the place in the journal, and the answer read there. Not everything that is told is in
/// the journal: how alive an agent is depends on the time.
pub(crate) fn of(since: &Cursor, text: Option<&str>) -> Option<HeaderValue> {
    let Cursor { history, rev } = since;
    let tag = match text {
        Some(text) => format!("\"{history}.{rev}.{}\"", &sha256_hex(text)[..SUM]),
        None => format!("\"{history}.{rev}\""),
    };
    HeaderValue::from_str(&tag).ok()
}

pub(crate) fn is_known(asked: &HeaderMap, tag: Option<&HeaderValue>) -> bool {
    let Some(tag) = tag.and_then(|tag| tag.to_str().ok()) else {
        return false;
    };
    given(asked, header::IF_NONE_MATCH).any(|given| {
        let given = given.strip_prefix("W/").unwrap_or(given);
        given == tag || given == "*"
    })
}

/// The precondition of an `If-Match`. A tag that is not ours belongs to something else: then it changed.
pub(crate) fn if_unchanged(asked: &HeaderMap) -> Option<IfUnchanged> {
    if !asked.contains_key(header::IF_MATCH) {
        return None;
    }
    let mut places = Vec::new();
    for tag in given(asked, header::IF_MATCH) {
        if tag == "*" {
            return Some(IfUnchanged::NoCondition);
        }
        // A tag that says itself that it is not exact (`W/`) proves nothing.
        let inner = tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"'));
        let mut parts = inner.unwrap_or_default().split('.');
        if let (Some(history), Some(rev)) = (parts.next(), parts.next())
            && let Ok(rev) = rev.parse()
        {
            places.push(Cursor {
                history: history.to_owned(),
                rev,
            });
        }
    }
    Some(IfUnchanged::Since(places))
}

fn given(headers: &HeaderMap, name: header::HeaderName) -> impl Iterator<Item = &str> {
    let lines = headers.get_all(name).into_iter();
    lines
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(','))
        .map(str::trim)
        .filter(|tag| !tag.is_empty())
}
