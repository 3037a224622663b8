//! Ids as people read them: the shortest beginning that no other id shares.

use std::collections::{BTreeMap, BTreeSet};

use flightline::core::Kind;

/// The least number of digits after the three letters and the dash of a word that may be an id.
const FEWEST_DIGITS: usize = 8;
/// The number of characters shown of an id whose short form is unknown.
const USUAL: usize = 12;

/// The shortest unique beginning of each id that is shown.
#[derive(Clone, Debug, Default)]
pub struct DisplayIds(pub(super) BTreeMap<String, String>);

impl DisplayIds {
    pub fn id(&self, id: impl ToString) -> String {
        let id = id.to_string();
        match self.0.get(&id) {
            Some(short) => short.clone(),
            None => id.chars().take(USUAL).collect(),
        }
    }

    /// Shortens every id in a text as in the lists beside it.
    pub fn text(&self, text: &str) -> String {
        let mut shortened = String::with_capacity(text.len());
        let mut end = 0;
        for (at, word) in words(text) {
            if let Some(short) = self.0.get(word) {
                shortened.push_str(&text[end..at]);
                shortened.push_str(short);
                end = at + word.len();
            }
        }
        shortened.push_str(&text[end..]);
        shortened
    }

    /// Finds the ids of these kinds in a text, whole ones and long beginnings.
    pub(super) fn ids_in(text: &str, kinds: &[Kind]) -> BTreeSet<String> {
        let words = words(text).map(|(_, word)| word);
        words
            .filter(|word| Kind::of_id(word).is_some_and(|kind| kinds.contains(&kind)))
            .map(str::to_owned)
            .collect()
    }
}

/// Finds the words of a text that may be ids, and where each begins: three letters, a dash, and at least eight digits.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_digit = |byte: &u8| byte.is_ascii_hexdigit() || *byte == b'-';
    let mut from = 0;
    std::iter::from_fn(move || {
        loop {
            let dash = from + text.get(from..)?.find('-')?;
            let rest = &text.as_bytes()[dash + 1..];
            let digits = rest.iter().take_while(|byte| is_digit(byte)).count();
            let end = dash + 1 + digits;
            from = end;
            let Some(at) = dash.checked_sub(3) else {
                continue;
            };
            if digits >= FEWEST_DIGITS
                && let Some(word) = text.get(at..end)
            {
                return Some((at, word));
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_found_in_any_text_and_only_those_of_the_kinds_that_are_shown() {
        let text = r#"{"id":"srt-02c40000-0000-4000-8000-000000000001","why":"müde — msn-4f1c09ab waits; nte-12345678, a-1234567890, srt-12"}"#;
        let found = DisplayIds::ids_in(text, &[Kind::Sortie, Kind::Mission]);
        let found: Vec<&str> = found.iter().map(String::as_str).collect();
        assert_eq!(
            found,
            ["msn-4f1c09ab", "srt-02c40000-0000-4000-8000-000000000001"]
        );
    }

    #[test]
    fn a_text_shows_ids_as_short_as_the_lists_beside_it() {
        let whole = "srt-02c40000-0000-4000-8000-000000000001";
        let short = DisplayIds([(whole.to_owned(), "srt-02c4".to_owned())].into());
        let said = format!("{whole} waits for msn-4f1c09ab-ü ({whole})");
        assert_eq!(
            short.text(&said),
            "srt-02c4 waits for msn-4f1c09ab-ü (srt-02c4)"
        );
        assert_eq!(short.id(whole), "srt-02c4");
        assert_eq!(
            short.id("msn-4f1c09ab-0000-4000-8000-000000000001"),
            "msn-4f1c09ab"
        );
    }
}
