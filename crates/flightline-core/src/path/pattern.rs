//! Compares patterns of paths: whether two of them, or a pattern and a path, have a path in common.
//!
//! `*` stands for any part of a name, `?` for one character, `[a-z]` for one of those, `[!a-z]` for one of the others, and `**`
//! as a whole name for any number of folders. A backslash takes the next character as it is.
//!
//! A pattern also covers everything below the paths that it stands for. But a name with an ending, such as `*.rs` or
//! `a.md`, is taken for a file's, below which there is nothing: else `**/*.rs` would overlap everything there is,
//! because everything might be a folder. A folder with such a name is `conf.d/**`.
//!
//! A file may really be called `[id].ts`. So what looks like a list of characters stands for its own text as well, and a
//! backslash also for itself: a lock covers too much rather than too little.

/// Returns true when this text holds a character that means something in a pattern.
pub(super) fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '[', '\\'])
}

/// Returns true when two patterns can match one path, or a path and a folder above it. Both begin at one root.
pub(super) fn overlap(one: &str, other: &str) -> bool {
    let holds_more = [!names_a_file(one), !names_a_file(other)];
    let (one, other) = (parts(one, Part::read), parts(other, Part::read));
    have_common(&one, &other, holds_more)
}

/// Returns true when the last name of a path is that of a file, by its ending.
pub(super) fn names_a_file(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.rsplit_once('.').is_some_and(|(stem, ending)| {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        !stem.is_empty()
            && (1..=5).contains(&ending.len())
            && ending.chars().all(plain)
            && !ending.chars().all(|c| c.is_ascii_digit())
    })
}

/// Returns true when a pattern stands for exactly this path, or for a folder above it.
pub(super) fn covers(pattern: &str, path: &str) -> bool {
    let holds_more = !names_a_file(pattern);
    let (pattern, path) = (parts(pattern, Part::read), parts(path, Part::plain));
    let (width, mut seen) = (
        path.len() + 1,
        Visited::new(pattern.len() + 1, path.len() + 1),
    );
    let mut open = vec![(0, 0)];
    while let Some((at, on)) = open.pop() {
        if seen.was(at * width + on) {
            continue;
        }
        let Some(part) = pattern.get(at) else {
            if holds_more || on == path.len() {
                return true;
            }
            continue;
        };
        match (part, path.get(on)) {
            (Part::AnyDepth, Some(_)) => open.extend([(at + 1, on), (at, on + 1)]),
            (Part::AnyDepth, None) => open.push((at + 1, on)),
            (Part::Name(name), Some(Part::Name(given))) if name.meets(given) => {
                open.push((at + 1, on + 1));
            }
            (Part::Name(_), _) => {}
        }
    }
    false
}

/// The first of the two that ends has everything the other stands for, if it holds more than itself.
fn have_common(one: &[Part], other: &[Part], holds_more: [bool; 2]) -> bool {
    let (width, mut seen) = (
        other.len() + 1,
        Visited::new(one.len() + 1, other.len() + 1),
    );
    let mut open = vec![(0, 0)];
    while let Some((at, on)) = open.pop() {
        if seen.was(at * width + on) {
            continue;
        }
        match (one.get(at), other.get(on)) {
            (None, None) => return true,
            (None, Some(_)) if holds_more[0] => return true,
            (Some(_), None) if holds_more[1] => return true,
            (None, Some(Part::AnyDepth)) => open.push((at, on + 1)),
            (Some(Part::AnyDepth), None) => open.push((at + 1, on)),
            (None, Some(Part::Name(_))) | (Some(Part::Name(_)), None) => {}
            (Some(Part::AnyDepth), Some(_)) | (Some(_), Some(Part::AnyDepth)) => {
                open.extend([(at + 1, on), (at, on + 1)]);
            }
            (Some(Part::Name(left)), Some(Part::Name(right))) => {
                if left.meets(right) {
                    open.push((at + 1, on + 1));
                }
            }
        }
    }
    false
}

fn parts(text: &str, read: fn(&str) -> Part) -> Vec<Part> {
    match text {
        "." => Vec::new(),
        text => text.split('/').map(read).collect(),
    }
}

enum Part {
    /// `**`
    AnyDepth,
    Name(Names),
}

impl Part {
    fn read(text: &str) -> Self {
        match text {
            "**" => Self::AnyDepth,
            text if is_pattern(text) => Self::Name(Names::Pattern(Automaton::read(text))),
            text => Self::plain(text),
        }
    }

    fn plain(text: &str) -> Self {
        Self::Name(Names::Exactly(text.to_owned()))
    }
}

/// The names that a part of a path stands for.
enum Names {
    Exactly(String),
    Pattern(Automaton),
}

impl Names {
    fn meets(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Exactly(one), Self::Exactly(other)) => one == other,
            (Self::Pattern(one), Self::Exactly(other))
            | (Self::Exactly(other), Self::Pattern(one)) => one.meets(&Automaton::plain(other)),
            (Self::Pattern(one), Self::Pattern(other)) => one.meets(other),
        }
    }
}

/// Reads a name character by character; the last state accepts it.
struct Automaton {
    states: Vec<Vec<Step>>,
}

struct Step {
    /// Nothing: the step is free.
    on: Option<Letters>,
    to: usize,
}

impl Automaton {
    fn plain(text: &str) -> Self {
        let mut automaton = Self::empty();
        for letter in text.chars() {
            automaton.then(Letters::One(letter));
        }
        automaton
    }

    fn read(text: &str) -> Self {
        let letters: Vec<char> = text.chars().collect();
        let (mut automaton, mut at) = (Self::empty(), 0);
        while let Some(&letter) = letters.get(at) {
            at += 1;
            match (letter, letters.get(at)) {
                ('*', _) => {
                    let here = automaton.end();
                    automaton.step(here, Some(Letters::Any), here);
                    let next = automaton.new_state();
                    automaton.step(here, None, next);
                }
                ('?', _) => automaton.then(Letters::Any),
                ('\\', Some(&taken)) => {
                    at += 1;
                    automaton.either(Letters::One(taken), &['\\', taken]);
                }
                ('[', _) => match list(&letters, at) {
                    Some((listed, end)) => {
                        automaton.either(listed, &letters[at - 1..end]);
                        at = end;
                    }
                    None => automaton.then(Letters::One(letter)),
                },
                (letter, _) => automaton.then(Letters::One(letter)),
            }
        }
        automaton
    }

    fn empty() -> Self {
        Self {
            states: vec![Vec::new()],
        }
    }

    fn end(&self) -> usize {
        self.states.len() - 1
    }

    fn new_state(&mut self) -> usize {
        self.states.push(Vec::new());
        self.end()
    }

    fn step(&mut self, from: usize, on: Option<Letters>, to: usize) {
        self.states[from].push(Step { on, to });
    }

    fn then(&mut self, letters: Letters) {
        let (here, next) = (self.end(), self.new_state());
        self.step(here, Some(letters), next);
    }

    /// Adds a step over one of `letters`, or over the whole of `text`, which has at least two characters.
    fn either(&mut self, letters: Letters, text: &[char]) {
        let start = self.end();
        for letter in text {
            self.then(Letters::One(*letter));
        }
        let end = self.end();
        self.step(start, Some(letters), end);
    }

    /// Returns true when there is a name that both accept.
    fn meets(&self, other: &Self) -> bool {
        let width = other.states.len();
        let mut seen = Visited::new(self.states.len(), width);
        let mut open = vec![(0, 0)];
        while let Some((at, on)) = open.pop() {
            if (at, on) == (self.end(), other.end()) {
                return true;
            }
            if seen.was(at * width + on) {
                continue;
            }
            for step in &self.states[at] {
                let Some(letters) = &step.on else {
                    open.push((step.to, on));
                    continue;
                };
                let common = other.states[on].iter().filter(|theirs| {
                    let theirs = theirs.on.as_ref();
                    theirs.is_some_and(|theirs| letters.meet(theirs))
                });
                open.extend(common.map(|theirs| (step.to, theirs.to)));
            }
            let free = other.states[on].iter().filter(|step| step.on.is_none());
            open.extend(free.map(|step| (at, step.to)));
        }
        false
    }
}

/// The list of characters that begins before `at`, and where it ends; none when it is not closed.
fn list(letters: &[char], mut at: usize) -> Option<(Letters, usize)> {
    let others = matches!(letters.get(at), Some('!' | '^'));
    at += usize::from(others);
    let (first, mut ranges, mut named) = (at, Vec::new(), false);
    loop {
        let mut low = *letters.get(at)?;
        if low == ']' && at > first {
            break;
        }
        // Names such as `[:alpha:]` mean different things to different shells: any character, then.
        named |= low == '[' && letters.get(at + 1) == Some(&':');
        if low == '\\' {
            at += 1;
            low = *letters.get(at)?;
        }
        at += 1;
        let mut high = low;
        if letters.get(at) == Some(&'-') && letters.get(at + 1).is_some_and(|next| *next != ']') {
            at += 1;
            if letters[at] == '\\' && at + 1 < letters.len() {
                at += 1;
            }
            high = letters[at];
            at += 1;
        }
        ranges.push((low.min(high), low.max(high)));
    }
    ranges.sort_unstable();
    let listed = match (named, others) {
        (true, _) => Letters::Any,
        (false, true) => Letters::NoneOf(ranges),
        (false, false) => Letters::OneOf(ranges),
    };
    Some((listed, at + 1))
}

/// The characters a step can be taken on. Ranges are sorted.
enum Letters {
    Any,
    One(char),
    OneOf(Vec<(char, char)>),
    NoneOf(Vec<(char, char)>),
}

impl Letters {
    fn meet(&self, other: &Self) -> bool {
        match (self, other) {
            // A list cannot exclude all characters.
            (Self::Any, _) | (_, Self::Any) | (Self::NoneOf(_), Self::NoneOf(_)) => true,
            (Self::One(one), Self::One(other)) => one == other,
            (Self::One(letter), Self::OneOf(ranges)) | (Self::OneOf(ranges), Self::One(letter)) => {
                ranges
                    .iter()
                    .any(|(low, high)| low <= letter && letter <= high)
            }
            (Self::One(letter), Self::NoneOf(ranges))
            | (Self::NoneOf(ranges), Self::One(letter)) => !ranges
                .iter()
                .any(|(low, high)| low <= letter && letter <= high),
            (Self::OneOf(one), Self::OneOf(other)) => one.iter().any(|(low, high)| {
                let apart = |(from, to): &(char, char)| to < low || high < from;
                !other.iter().all(apart)
            }),
            (Self::OneOf(listed), Self::NoneOf(excluded))
            | (Self::NoneOf(excluded), Self::OneOf(listed)) => {
                listed.iter().any(|range| is_left(*range, excluded))
            }
        }
    }
}

/// Returns true when a part of a range is left when these are taken out of it.
fn is_left((low, high): (char, char), taken_out: &[(char, char)]) -> bool {
    let (mut next, high) = (u32::from(low), u32::from(high));
    for (from, to) in taken_out {
        if u32::from(*from) > next {
            break;
        }
        next = next.max(u32::from(*to) + 1);
    }
    next <= high
}

/// The pairs of places that were looked at.
struct Visited(Vec<bool>);

impl Visited {
    fn new(rows: usize, columns: usize) -> Self {
        Self(vec![false; rows * columns])
    }

    fn was(&mut self, place: usize) -> bool {
        std::mem::replace(&mut self.0[place], true)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn patterns_overlap_what_they_can_match() {
        for (one, other) in [
            ("src/*.rs", "src/a.rs"),
            ("src/*.rs", "src"),
            ("src/*", "src/deep/a.rs"),
            ("src/**", "src/deep/a.rs"),
            ("src/**", "src"),
            ("**/*.rs", "a.rs"),
            ("**/*.rs", "src/deep/a.rs"),
            ("**/test_*", "src/**"),
            ("src/*.rs", "src/a*"),
            ("src/?.rs", "src/a.rs"),
            ("src/[a-c].rs", "src/b.rs"),
            ("src/[!a-c].rs", "src/x.rs"),
            ("src/[^a-c].rs", "src/[a-z].rs"),
            ("a*b*c", "*x*y*"),
            ("*", "anything/below"),
            (".", "src/*.rs"),
            ("a/[[:alpha:]]", "a/b]"),
            ("a/[]x]", "a/]"),
            ("a/[\\]x]", "a/]"),
            ("pages/[id].tsx", "pages/[id].tsx"),
            ("pages/[id]/*.tsx", "pages/[id]/page.tsx"),
            ("pages/[...slug].tsx", "pages/g.tsx"),
            ("pages/\\[id\\].tsx", "pages/[id].tsx"),
            ("odd\\name", "odd\\name"),
            ("**/*.rs", "src"),
            ("**/*.rs", "src/a*"),
            ("**/*.conf", "conf.d/**"),
            ("**/*.cs", "MyApp.Tests"),
            ("a.rs/**", "**/a.rs"),
        ] {
            assert!(overlap(one, other), "{one} {other}");
            assert!(overlap(other, one), "{other} {one}");
        }
        for (one, other) in [
            ("src/*.rs", "src/a.ts"),
            ("src/*.rs", "lib"),
            ("src/*.rs", "src/deep/a.rs"),
            ("src/?.rs", "src/ab.rs"),
            ("src/[a-c].rs", "src/d.rs"),
            ("src/[!a-c].rs", "src/b.rs"),
            ("src/[!a-c].rs", "src/[a-b].rs"),
            ("src/a*", "src/b*"),
            ("*.rs", "*.ts"),
            ("**/a/*.rs", "**/b/*.ts"),
            ("pages/\\[id\\].tsx", "pages/i.tsx"),
            ("a/[b", "a/b"),
            ("**/*.rs", "README.md"),
            ("**/*.rs", "src/*.ts"),
            ("src/*.rs", "src/a.rs/below"),
        ] {
            assert!(!overlap(one, other), "{one} {other}");
            assert!(!overlap(other, one), "{other} {one}");
        }
    }

    #[test]
    fn a_pattern_covers_the_paths_it_stands_for_and_what_is_below_them() {
        for (pattern, path) in [
            ("src/*", "src/a"),
            ("src/*", "src/a/b"),
            ("src/**", "src"),
            ("**/b", "a/b/c"),
            (".", "a"),
            ("[id]", "[id]"),
        ] {
            assert!(covers(pattern, path), "{pattern} {path}");
        }
        for (pattern, path) in [
            ("src/*", "src"),
            ("src/*.rs", "src/a"),
            ("**/b", "a"),
            ("a\\*", "ab"),
        ] {
            assert!(!covers(pattern, path), "{pattern} {path}");
        }
    }

    #[test]
    fn the_longest_patterns_are_decided_at_once() {
        let (one, other) = ("*a".repeat(500), "*b".repeat(500));
        assert!(overlap(&one, &format!("{other}*")) || !overlap(&one, &other));
        let deep = |name: &str| format!("{name}/**/").repeat(200) + name;
        assert!(!overlap(&deep("a"), &format!("b/{}", deep("b"))));
        assert!(overlap(
            &format!("**/{}", deep("a")),
            &format!("**/{}", deep("b"))
        ));
    }

    /// Every path of up to three short names of two letters.
    /// (Without endings: everything below is theirs.)
    fn all_paths() -> Vec<Vec<&'static str>> {
        let names = ["a", "b", "aa", "ab", "ba", "bb"];
        let mut paths = vec![Vec::new()];
        let mut last = paths.clone();
        for _ in 0..3 {
            last = last
                .iter()
                .flat_map(|path| {
                    names.iter().map(move |name| {
                        let mut longer = path.clone();
                        longer.push(*name);
                        longer
                    })
                })
                .collect();
            paths.extend(last.clone());
        }
        paths
    }

    /// Matching as one would write it down, by trying everything.
    fn matches_name(pattern: &[char], name: &[char]) -> bool {
        match pattern {
            [] => name.is_empty(),
            ['*', rest @ ..] => (0..=name.len()).any(|skip| matches_name(rest, &name[skip..])),
            ['?', rest @ ..] => !name.is_empty() && matches_name(rest, &name[1..]),
            ['[', '!', not, ']', rest @ ..] => {
                name.first().is_some_and(|letter| letter != not) && matches_name(rest, &name[1..])
            }
            ['[', one, ']', rest @ ..] => {
                name.first() == Some(one) && matches_name(rest, &name[1..])
            }
            [letter, rest @ ..] => name.first() == Some(letter) && matches_name(rest, &name[1..]),
        }
    }

    fn matches_path(pattern: &[&str], path: &[&str]) -> bool {
        match pattern {
            // Everything below.
            [] => true,
            ["**", rest @ ..] => (0..=path.len()).any(|skip| matches_path(rest, &path[skip..])),
            [part, rest @ ..] => path.split_first().is_some_and(|(name, below)| {
                let letters = |text: &str| text.chars().collect::<Vec<char>>();
                matches_name(&letters(part), &letters(name)) && matches_path(rest, below)
            }),
        }
    }

    fn some_pattern() -> impl Strategy<Value = String> {
        let piece = prop::sample::select(vec!["a", "b", "*", "?", "[a]", "[!a]"]);
        let name = prop::collection::vec(piece, 1..4).prop_map(|pieces| pieces.concat());
        let part = prop_oneof![3 => name, 1 => Just("**".to_owned())];
        prop::collection::vec(part, 1..4).prop_map(|parts| parts.join("/"))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        /// Checks that no path that both can match is overlooked, and that a path is covered exactly when it is
        /// matched.
        #[test]
        fn what_enumeration_finds_is_found(one in some_pattern(), other in some_pattern()) {
            let (left, right): (Vec<&str>, Vec<&str>) = (one.split('/').collect(), other.split('/').collect());
            let mut common = false;
            for path in all_paths() {
                let (in_one, in_other) = (matches_path(&left, &path), matches_path(&right, &path));
                common |= in_one && in_other;
                if !path.is_empty() {
                    prop_assert_eq!(covers(&one, &path.join("/")), in_one, "{} {:?}", one, path);
                }
            }
            prop_assert!(!common || overlap(&one, &other), "{} {}", one, other);
            prop_assert_eq!(overlap(&one, &other), overlap(&other, &one));
        }

        /// Checks that nothing else is found where names are so short that enumeration finds everything.
        #[test]
        fn what_enumeration_does_not_find_is_not_found(
            one in prop::collection::vec(prop::sample::select(vec!["a", "b", "*", "?", "[a]", "[!a]"]), 1..3),
            other in prop::collection::vec(prop::sample::select(vec!["a", "b", "*", "?", "[a]", "[!a]"]), 1..3),
        ) {
            let (one, other) = (one.concat(), other.concat());
            // A list of characters is also its own text; a character beyond `a` and `b` stands for all others.
            let mut names: Vec<Vec<char>> = vec![Vec::new()];
            for _ in 0..4 {
                let longer = names.iter().flat_map(|name| ['a', 'b', 'c'].map(|letter| {
                    let mut longer = name.clone();
                    longer.push(letter);
                    longer
                }));
                names = names.clone().into_iter().chain(longer).collect();
                names.sort();
                names.dedup();
            }
            let letters = |text: &str| text.chars().collect::<Vec<char>>();
            let found = names.iter().any(|name| {
                matches_name(&letters(&one), name) && matches_name(&letters(&other), name)
            });
            let own_text = one.contains('[') && other.contains('[')
                || one.contains('[') && (other.contains('*') || other.contains('?'))
                || other.contains('[') && (one.contains('*') || one.contains('?'));
            if !own_text {
                prop_assert_eq!(overlap(&one, &other), found, "{} {}", one, other);
            }
        }
    }
}
