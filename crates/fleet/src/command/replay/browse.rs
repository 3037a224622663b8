//! Moves through a history with keys: the meaning of each key, and the place it leads to. Knows no terminal.

use flightline::core::Refusal;
use flightline::replay::{PageStart, ReplayStep};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    Next,
    Previous,
    First,
    Last,
    State,
    Help,
    Quit,
}

/// Turns the bytes of a terminal into keys. A sequence may come in pieces.
#[derive(Debug, Default)]
pub struct Decoder {
    pending: Vec<u8>,
}

impl Decoder {
    /// Returns the keys that are complete with these bytes. Bytes without a meaning are skipped.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<Key> {
        bytes.iter().filter_map(|byte| self.byte(*byte)).collect()
    }

    fn byte(&mut self, byte: u8) -> Option<Key> {
        const ESCAPE: u8 = 0x1b;
        match self.pending.as_slice() {
            [] if byte == ESCAPE => {
                self.pending.push(byte);
                None
            }
            [] => plain(byte),
            // A lone escape means nothing. The bytes after it stand for themselves.
            [_] => {
                self.pending.clear();
                match byte {
                    b'[' | b'O' => self.pending.extend([ESCAPE, byte]),
                    ESCAPE => self.pending.push(byte),
                    byte => return plain(byte),
                }
                None
            }
            // Parameters, until a letter or `~` ends the sequence.
            [_, _, ..] if matches!(byte, b'0'..=b'?') && self.pending.len() < 16 => {
                self.pending.push(byte);
                None
            }
            sequence => {
                let parameters = sequence.get(2..).unwrap_or_default().to_vec();
                self.pending.clear();
                match (parameters.as_slice(), byte) {
                    (_, b'C' | b'B') => Some(Key::Next),
                    (_, b'D' | b'A') => Some(Key::Previous),
                    (_, b'H') | (b"1" | b"7", b'~') => Some(Key::First),
                    (_, b'F') | (b"4" | b"8", b'~') => Some(Key::Last),
                    _ => None,
                }
            }
        }
    }
}

fn plain(byte: u8) -> Option<Key> {
    match byte {
        b'n' | b' ' | b'\r' | b'\n' => Some(Key::Next),
        b'p' | 0x7f | 0x08 => Some(Key::Previous),
        b'g' => Some(Key::First),
        b'G' => Some(Key::Last),
        b's' => Some(Key::State),
        b'?' | b'h' => Some(Key::Help),
        // Ctrl-C and Ctrl-D.
        b'q' | 0x03 | 0x04 => Some(Key::Quit),
        _ => None,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BrowseView {
    Step,
    State,
    FirstAlready,
    LastAlready,
    Help,
    Quit,
}

/// A place in a history, of which one page is loaded.
#[derive(Debug)]
pub struct Browser {
    steps: Vec<ReplayStep>,
    at: usize,
}

impl Browser {
    pub fn new(steps: Vec<ReplayStep>) -> Self {
        Self { steps, at: 0 }
    }

    pub fn step(&self) -> Option<&ReplayStep> {
        self.steps.get(self.at)
    }

    /// Goes to the place that a key leads to; `fetch` reads another page.
    pub fn press(
        &mut self,
        key: Key,
        fetch: impl FnOnce(PageStart) -> Result<Vec<ReplayStep>, Refusal>,
    ) -> Result<BrowseView, Refusal> {
        let here = self.step().map(|step| (step.step, step.rev));
        match (key, here) {
            (Key::Quit, _) => Ok(BrowseView::Quit),
            (Key::Help, _) => Ok(BrowseView::Help),
            (Key::State, _) => Ok(BrowseView::State),
            (Key::Next, _) if self.at + 1 < self.steps.len() => {
                self.at += 1;
                Ok(BrowseView::Step)
            }
            (Key::Previous, _) if self.at > 0 => {
                self.at -= 1;
                Ok(BrowseView::Step)
            }
            (Key::Next, Some((_, rev))) => {
                let steps = fetch(PageStart::After { rev })?;
                Ok(self.turn(steps, 0, BrowseView::LastAlready))
            }
            (Key::Previous, Some((step, _))) => {
                let steps = fetch(PageStart::Before { step })?;
                let last = steps.len().saturating_sub(1);
                Ok(self.turn(steps, last, BrowseView::FirstAlready))
            }
            (Key::First, _) | (Key::Next, None) => {
                let steps = fetch(PageStart::First)?;
                Ok(self.turn(steps, 0, BrowseView::FirstAlready))
            }
            (Key::Last, _) | (Key::Previous, None) => {
                let steps = fetch(PageStart::Last)?;
                let last = steps.len().saturating_sub(1);
                Ok(self.turn(steps, last, BrowseView::LastAlready))
            }
        }
    }

    /// Turns to another page; stays where it is when that one is empty.
    fn turn(&mut self, steps: Vec<ReplayStep>, at: usize, end: BrowseView) -> BrowseView {
        if steps.is_empty() {
            return end;
        }
        (self.steps, self.at) = (steps, at);
        BrowseView::Step
    }
}

#[cfg(test)]
mod tests {
    use flightline::core::Time;

    use super::*;

    #[test]
    fn keys_are_read_whole_or_in_pieces() {
        use Key::{First, Help, Last, Next, Previous, Quit, State};
        for (bytes, keys) in [
            (&b"n \r"[..], &[Next, Next, Next][..]),
            (b"p\x7f", &[Previous, Previous]),
            (b"gGs?q", &[First, Last, State, Help, Quit]),
            (b"\x03", &[Quit]),
            (
                b"\x1b[C\x1b[D\x1bOC\x1bOD",
                &[Next, Previous, Next, Previous],
            ),
            (b"\x1b[H\x1b[F\x1b[1~\x1b[4~", &[First, Last, First, Last]),
            (b"\x1b[1;5C", &[Next]),
            (b"\x1b[3~\x1b[Z\x1b[200~xyz", &[]),
            (b"\x1bn\x1b\x1bq", &[Next, Quit]),
            (b"\x1b[99999999999999999999999n", &[Next]),
            ("\u{fc}\u{2192}".as_bytes(), &[]),
        ] {
            assert_eq!(Decoder::default().feed(bytes), keys, "{bytes:?}");
            let mut pieces = Decoder::default();
            let found: Vec<Key> = bytes
                .iter()
                .flat_map(|byte| pieces.feed(&[*byte]))
                .collect();
            assert_eq!(found, keys, "{bytes:?} byte by byte");
        }
    }

    fn steps(numbers: &[u64]) -> Vec<ReplayStep> {
        let step = |number: &u64| ReplayStep {
            step: *number,
            rev: *number,
            timestamp: Time::from_millis(0),
            actor: "ada".to_owned(),
            timeline: None,
            recovery: None,
            events: Vec::new(),
            changes: Vec::new(),
            missing: None,
            state: None,
            no_state: None,
        };
        numbers.iter().map(step).collect()
    }

    /// Reads pages of three from a history of ten steps.
    fn fetch(place: PageStart) -> Result<Vec<ReplayStep>, Refusal> {
        let all: Vec<u64> = (1..=10).collect();
        let after = |rev: u64| all.iter().copied().filter(move |it| *it > rev).take(3);
        let before = |step: u64| {
            let end = usize::try_from(step).unwrap() - 1;
            all[end.saturating_sub(3)..end].to_vec()
        };
        Ok(steps(&match place {
            PageStart::First | PageStart::At { .. } => after(0).collect::<Vec<u64>>(),
            PageStart::Last => before(11),
            PageStart::After { rev } => after(rev).collect(),
            PageStart::Before { step } => before(step),
        }))
    }

    #[test]
    fn every_step_is_reached_forwards_and_back_over_the_pages() {
        let mut browser = Browser::new(fetch(PageStart::First).unwrap());
        let mut seen = vec![browser.step().unwrap().step];
        while browser.press(Key::Next, fetch).unwrap() == BrowseView::Step {
            seen.push(browser.step().unwrap().step);
        }
        assert_eq!(seen, (1..=10).collect::<Vec<u64>>());
        assert_eq!(
            browser.press(Key::Next, fetch).unwrap(),
            BrowseView::LastAlready
        );
        while browser.press(Key::Previous, fetch).unwrap() == BrowseView::Step {
            seen.push(browser.step().unwrap().step);
        }
        assert_eq!(seen[10..], (1..=9).rev().collect::<Vec<u64>>());
        assert_eq!(
            browser.press(Key::Previous, fetch).unwrap(),
            BrowseView::FirstAlready
        );
        for (key, step) in [
            (Key::Last, 10),
            (Key::Previous, 9),
            (Key::First, 1),
            (Key::Next, 2),
        ] {
            assert_eq!(browser.press(key, fetch).unwrap(), BrowseView::Step);
            assert_eq!(browser.step().unwrap().step, step, "{key:?}");
        }
        for (key, said) in [
            (Key::State, BrowseView::State),
            (Key::Help, BrowseView::Help),
            (Key::Quit, BrowseView::Quit),
        ] {
            assert_eq!(browser.press(key, fetch).unwrap(), said);
            assert_eq!(browser.step().unwrap().step, 2, "{key:?} moves nothing");
        }
    }

    #[test]
    fn where_nothing_is_one_can_still_go_somewhere() {
        let mut browser = Browser::new(Vec::new());
        let nothing = |_| Ok(Vec::new());
        for key in [Key::Next, Key::Previous, Key::First, Key::Last, Key::State] {
            browser.press(key, nothing).unwrap();
            assert!(browser.step().is_none());
        }
        assert_eq!(browser.press(Key::Next, fetch).unwrap(), BrowseView::Step);
        assert_eq!(browser.step().unwrap().step, 1);
        let refusal = Refusal::invalid("no");
        browser
            .press(Key::Last, |_| Err(refusal.clone()))
            .unwrap_err();
        assert_eq!(
            browser.step().unwrap().step,
            1,
            "a page that cannot be read moves nothing"
        );
    }
}
