//! A change of a file, for people to read.

use similar::TextDiff;

/// The change of a file as a unified diff with three lines of context; empty when nothing changes. `None` stands for no file.
#[must_use]
pub fn diff(before: Option<&str>, after: Option<&str>, path: &str) -> String {
    if before == after {
        return String::new();
    }
    let name = |side: &str, text: Option<&str>| match text {
        Some(_) => format!("{side}/{path}"),
        None => "/dev/null".to_owned(),
    };
    let header = (name("a", before), name("b", after));
    TextDiff::from_lines(before.unwrap_or_default(), after.unwrap_or_default())
        .unified_diff()
        .context_radius(3)
        .header(&header.0, &header.1)
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_shows_the_lines_around_a_change() {
        let before = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
        let after = before.replace('5', "five");
        let text = diff(Some(before), Some(&after), "x.json");
        assert_eq!(
            text,
            "--- a/x.json\n+++ b/x.json\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n"
        );
        assert_eq!(diff(Some("a"), Some("a"), "x"), "");
        assert!(diff(None, Some("a\n"), "x").starts_with("--- /dev/null\n+++ b/x\n"));
    }
}
