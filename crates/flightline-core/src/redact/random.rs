//! Tells random text from text that a person named: keys and tokens from words, versions and paths.

/// Returns true when `value` looks like a key: it, or one unbroken part of it, is long, mixes letters and digits, and
/// repeats itself little. Paths, versions, UUIDs and names in any case convention are made of shorter parts, or of
/// letters alone.
pub(super) fn looks_random(value: &str) -> bool {
    if value.len() < 16 || value.len() > 4_096 || !value.bytes().all(is_of_keys) {
        return false;
    }
    let longest = value
        .split(['-', '_', '.', '/', ':', '~'])
        .max_by_key(|part| part.len());
    let in_part = longest
        .is_some_and(|part| part.len() >= 16 && is_mixed(part) && bits_per_character(part) >= 3.0);
    // In base64 any two separators may follow each other closely, but nothing has a case or a kind for long.
    in_part
        || value.len() >= 20
            && !value.contains('.')
            && is_shuffled(value)
            && bits_per_character(value) >= 4.0
}

fn is_of_keys(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+/=_.~:-".contains(&byte)
}

/// Returns true when letters and digits take turns, as in `f3Kq9`, or in hexadecimal; `version20260104` does not.
fn is_mixed(part: &str) -> bool {
    let letters = part.bytes().any(|byte| byte.is_ascii_alphabetic());
    let changes = |pair: &&[u8]| pair[0].is_ascii_digit() != pair[1].is_ascii_digit();
    letters && part.as_bytes().windows(2).filter(changes).count() >= 3 || is_shuffled(part)
}

/// Returns true when upper case, lower case and digits follow each other as they do not in words: `camelCaseOfWords2`
/// has no two capitals in a row and no small letter alone; random text is full of them.
fn is_shuffled(text: &str) -> bool {
    let has = |is: fn(&u8) -> bool| text.as_bytes().iter().any(is);
    let all = has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase) && has(u8::is_ascii_digit);
    let odd = text
        .as_bytes()
        .chunk_by(|one, next| class(*one) == class(*next))
        .filter(|run| match run {
            [alone] => alone.is_ascii_lowercase(),
            [first, ..] => first.is_ascii_uppercase(),
            [] => false,
        })
        .count();
    all && odd >= if text.len() < 24 { 2 } else { 3 }
}

fn class(byte: u8) -> u8 {
    match byte {
        b'0'..=b'9' => 0,
        b'A'..=b'Z' => 1,
        b'a'..=b'z' => 2,
        _ => 3,
    }
}

/// Shannon's entropy of the characters.
fn bits_per_character(text: &str) -> f64 {
    let mut counts = [0_u32; 128];
    for byte in text.bytes() {
        counts[usize::from(byte & 0x7f)] += 1;
    }
    let total = f64::from(u32::try_from(text.len()).unwrap_or(u32::MAX));
    counts
        .iter()
        .filter(|count| **count > 0)
        .map(|count| {
            let share = f64::from(*count) / total;
            -share * share.log2()
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_look_random_and_names_do_not() {
        for key in [
            "f3Kq9ZpL7xT2vB8n",
            "9f86d081884c7d659a2feaa0c55ad015",
            "app-f3Kq9ZpL7xT2vB8n",
            "aGVsbG8gd29ybGQhIDEyMw==",
        ] {
            assert!(looks_random(key), "{key}");
        }
        for name in [
            "v1-linux-node-20-lockfile-2026",
            "src/auth/token2.rs",
            "123e4567-e89b-12d3-a456-426614174000",
            "aaaaaaaaaaaaaaaaaaaa1a1a1a1",
            "next_page_of_results_3",
            "20260104153000123456",
            "short1A2b3C",
        ] {
            assert!(!looks_random(name), "{name}");
        }
    }
}
