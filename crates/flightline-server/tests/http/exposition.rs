//! The text that Prometheus reads, read as strictly as it does.

use std::collections::{BTreeMap, BTreeSet};

/// One figure: its labels and its value.
pub type Figure = (BTreeMap<String, String>, f64);

/// A family of figures.
#[derive(Debug)]
pub struct Family {
    pub kind: String,
    /// Under its own name, or that with `_bucket`, `_sum` or `_count`.
    pub figures: Vec<(String, Figure)>,
}

/// Reads a page, and refuses what is not quite right.
pub fn read(text: &str) -> BTreeMap<String, Family> {
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let (mut current, mut seen) = (None::<String>, BTreeSet::new());
    assert!(text.ends_with('\n'), "the last line ends");
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').expect("a help text");
            assert!(is_name(name) && name.starts_with("flightline_"), "{line}");
            assert!(help.ends_with('.') && help.len() > 5, "{line}");
            let next = lines.next().expect("a type after the help");
            let (typed, kind) = next
                .strip_prefix("# TYPE ")
                .and_then(|rest| rest.split_once(' '))
                .expect(next);
            assert_eq!(typed, name);
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{next}");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{name}");
            let fresh = Family {
                kind: kind.to_owned(),
                figures: Vec::new(),
            };
            assert!(
                families.insert(name.to_owned(), fresh).is_none(),
                "{name} twice"
            );
            current = Some(name.to_owned());
            continue;
        }
        assert!(!line.starts_with('#') && !line.is_empty(), "{line:?}");
        let name = current.clone().expect("a family before its figures");
        let (sample, labels, value) = figure(line);
        let family = families.get_mut(&name).expect("the family");
        let suffix = sample.strip_prefix(&name).expect("a figure of its family");
        match family.kind.as_str() {
            "histogram" => assert!(["_bucket", "_sum", "_count"].contains(&suffix), "{line}"),
            _ => assert_eq!(suffix, "", "{line}"),
        }
        assert!(family.kind != "counter" || value >= 0.0, "{line}");
        assert!(
            seen.insert((sample.clone(), labels.clone())),
            "twice: {line}"
        );
        family.figures.push((sample, (labels, value)));
    }
    families
        .iter()
        .for_each(|(name, family)| histogram(name, family));
    families
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte == b'_')
}

fn figure(line: &str) -> (String, BTreeMap<String, String>, f64) {
    let (head, value) = line.rsplit_once(' ').expect(line);
    let value: f64 = value.parse().expect(line);
    assert!(value.is_finite(), "{line}");
    let Some((name, rest)) = head.split_once('{') else {
        assert!(is_name(head), "{line}");
        return (head.to_owned(), BTreeMap::new(), value);
    };
    assert!(is_name(name), "{line}");
    let inner = rest.strip_suffix('}').expect(line);
    let (mut labels, mut letters) = (BTreeMap::new(), inner.chars().peekable());
    while letters.peek().is_some() {
        let label: String = letters
            .by_ref()
            .take_while(|letter| *letter != '=')
            .collect();
        assert!(is_name(&label), "{line}");
        assert_eq!(letters.next(), Some('"'), "{line}");
        let mut text = String::new();
        loop {
            match letters.next().expect(line) {
                '"' => break,
                '\\' => text.push(match letters.next() {
                    Some('n') => '\n',
                    Some(plain @ ('\\' | '"')) => plain,
                    other => panic!("{other:?} in {line}"),
                }),
                letter => text.push(letter),
            }
        }
        assert!(labels.insert(label, text).is_none(), "{line}");
        match letters.next() {
            None => break,
            Some(',') => {}
            Some(other) => panic!("{other} in {line}"),
        }
    }
    (name.to_owned(), labels, value)
}

/// Classes grow, the last holds all, and the sum and the count are there.
fn histogram(name: &str, family: &Family) {
    if family.kind != "histogram" {
        return;
    }
    let mut groups: BTreeMap<BTreeMap<String, String>, Vec<(String, f64)>> = BTreeMap::new();
    for (sample, (labels, value)) in &family.figures {
        let mut labels = labels.clone();
        let what = match labels.remove("le") {
            Some(most) => most,
            None => sample.strip_prefix(name).expect("its own").to_owned(),
        };
        groups.entry(labels).or_default().push((what, *value));
    }
    for (labels, figures) in groups {
        let known: BTreeMap<&str, f64> = figures
            .iter()
            .map(|(what, value)| (what.as_str(), *value))
            .collect();
        let classes: Vec<(f64, f64)> = figures
            .iter()
            .filter(|(what, _)| !what.starts_with('_'))
            .map(|(most, within)| (most.parse().expect("a number"), *within))
            .collect();
        assert!(classes.is_sorted(), "{name} {labels:?}: {classes:?}");
        assert!(
            classes.is_sorted_by_key(|(_, within)| *within),
            "{name} {labels:?}"
        );
        assert_eq!(known.get("+Inf"), known.get("_count"), "{name} {labels:?}");
        assert!(known.contains_key("_sum"), "{name} {labels:?}");
    }
}
