//! The cost of text, and how the room of a briefing is shared among its parts.

use std::ops::{Add, Sub};

/// About how many tokens a text is, erring on the high side: a briefing that is believed to fit must
/// fit with any client's tokenizer.
///
/// Three plain letters count as a token (English has four to five), a capital or a digit as one and
/// punctuation as two thirds (ids and hashes are split finely), a character outside ASCII as one token
/// less than it has bytes. Measured against `cl100k` and `o200k`: briefings come out at 1.2 times their
/// real count, prose in ten languages, code and paths at 1.3 to 2.5 times, UUIDs and base64 just above
/// it. Only letters or ideographs random are more tokens than this says.
pub fn estimate_tokens(text: &str) -> usize {
    Size::of(text).tokens()
}

/// The cost of a text, in both currencies that clients count in. The parts of a text cost exactly as much as the whole,
/// so that room can be shared out piece by piece.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Size {
    pub chars: usize,
    /// Thirds of an estimated token.
    pub thirds: usize,
}

impl Size {
    pub const ENDLESS: Self = Self::new(usize::MAX, usize::MAX);

    pub const fn new(chars: usize, thirds: usize) -> Self {
        Self { chars, thirds }
    }

    pub fn of(text: &str) -> Self {
        text.chars()
            .map(Self::of_char)
            .fold(Self::default(), Self::add)
    }

    const fn of_char(c: char) -> Self {
        let thirds = match c {
            'a'..='z' | ' ' => 1,
            'A'..='Z' | '0'..='9' => 3,
            '\0'..='\x7f' => 2,
            c => 3 * (c.len_utf8() - 1),
        };
        Self { chars: 1, thirds }
    }

    pub const fn tokens(self) -> usize {
        self.thirds.div_ceil(3)
    }

    pub const fn fits(self, room: Self) -> bool {
        self.chars <= room.chars && self.thirds <= room.thirds
    }

    pub fn least(self, other: Self) -> Self {
        Self::new(self.chars.min(other.chars), self.thirds.min(other.thirds))
    }

    pub fn most(self, other: Self) -> Self {
        Self::new(self.chars.max(other.chars), self.thirds.max(other.thirds))
    }
}

impl Add for Size {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            chars: self.chars.saturating_add(other.chars),
            thirds: self.thirds.saturating_add(other.thirds),
        }
    }
}

/// The difference; zero where the subtrahend is larger.
impl Sub for Size {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self {
            chars: self.chars.saturating_sub(other.chars),
            thirds: self.thirds.saturating_sub(other.thirds),
        }
    }
}

impl std::iter::Sum for Size {
    fn sum<I: Iterator<Item = Self>>(sizes: I) -> Self {
        sizes.fold(Self::default(), Self::add)
    }
}

/// A part of a briefing that wants room.
#[derive(Clone, Copy, Debug)]
pub(super) struct SizeRequest {
    pub need: Size,
    /// The least room in which the part can say anything.
    pub floor: Size,
}

impl SizeRequest {
    /// Returns the least room in which this part is served at all.
    pub fn least(&self) -> Size {
        self.need.least(self.floor)
    }
}

/// Shares `room` out: as many parts as possible get their floor, from the first on, and the rest of the room is levelled
/// among them, so that no part gets more than it needs, and a part with many or long texts takes nothing from one with few.
/// Returns one share for each part that got its floor.
pub(super) fn fair(asks: &[SizeRequest], room: Size) -> Vec<Size> {
    let mut promised = Size::default();
    let served = asks
        .iter()
        .take_while(|ask| {
            let more = promised + ask.least();
            let fits = more.fits(room);
            if fits {
                promised = more;
            }
            fits
        })
        .count();
    let wishes: Vec<Size> = asks[..served]
        .iter()
        .map(|ask| ask.need - ask.least())
        .collect();
    let left = room - promised;
    let level = Size {
        chars: level(wishes.iter().map(|wish| wish.chars), left.chars),
        thirds: level(wishes.iter().map(|wish| wish.thirds), left.thirds),
    };
    asks.iter()
        .zip(wishes)
        .map(|(ask, wish)| ask.least() + wish.least(level))
        .collect()
}

/// The most that each request can have, when smaller ones leave the rest to the others.
pub(super) fn level(wishes: impl Iterator<Item = usize>, mut room: usize) -> usize {
    let mut wishes: Vec<usize> = wishes.collect();
    wishes.sort_unstable();
    let mut waiting = wishes.len();
    for wish in wishes {
        let share = room / waiting;
        if wish > share {
            return share;
        }
        room -= wish;
        waiting -= 1;
    }
    usize::MAX
}

/// `text`, cut with `…` when it costs more than `room`; none when it need not be cut.
pub(super) fn cut(text: &str, room: Size) -> Option<String> {
    if Size::of(text).fits(room) {
        return None;
    }
    let mut kept = prefix(text.chars(), room);
    kept.truncate(kept.trim_end().len());
    kept.push('…');
    Some(kept)
}

/// Cuts a text at its beginning: of a path, the file's name matters most.
pub(super) fn cut_front(text: &str, room: Size) -> Option<String> {
    if Size::of(text).fits(room) {
        return None;
    }
    let tail = prefix(text.chars().rev(), room);
    Some(std::iter::once('…').chain(tail.chars().rev()).collect())
}

/// Returns as many characters as fit, with one `…` more.
fn prefix(chars: impl Iterator<Item = char>, room: Size) -> String {
    let mut left = room - Size::of_char('…');
    chars
        .take_while(|c| {
            let cost = Size::of_char(*c);
            let fits = cost.fits(left);
            left = left - cost;
            fits
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(needs: &[usize], floor: usize, room: usize) -> Vec<usize> {
        let size = |n| Size::new(n, n);
        let asks: Vec<SizeRequest> = needs
            .iter()
            .map(|need| SizeRequest {
                need: size(*need),
                floor: size(floor),
            })
            .collect();
        fair(&asks, size(room))
            .into_iter()
            .map(|share| share.chars)
            .collect()
    }

    #[test]
    fn what_one_does_not_need_the_others_get() {
        assert_eq!(shares(&[10, 500, 500], 0, 210), [10, 100, 100]);
        assert_eq!(shares(&[10, 20, 30], 0, 1000), [10, 20, 30]);
        assert_eq!(shares(&[], 0, 100), [0; 0]);
    }

    #[test]
    fn too_little_for_all_is_enough_for_the_first() {
        assert_eq!(shares(&[500, 500, 500], 40, 100), [50, 50]);
        assert_eq!(shares(&[500, 500], 40, 30), [0; 0]);
        // A list that needs less than the floor does not get the floor.
        assert_eq!(shares(&[5, 500, 5], 40, 50), [5, 40, 5]);
    }

    #[test]
    fn cutting_keeps_characters_whole_and_the_end_of_paths() {
        assert_eq!(cut("short", Size::new(5, 99)), None);
        assert_eq!(cut("one two", Size::new(5, 99)).unwrap(), "one…");
        assert_eq!(cut("日本語日本語", Size::new(99, 20)).unwrap(), "日本…");
        assert_eq!(
            cut_front("src/api/auth.rs", Size::new(8, 99)).unwrap(),
            "…auth.rs"
        );
        assert_eq!(cut("long", Size::default()).unwrap(), "…");
    }

    #[test]
    fn tokens_are_counted_on_the_high_side() {
        assert_eq!(estimate_tokens(""), 0);
        assert_eq!(estimate_tokens("the quick brown fox"), 7);
        assert_eq!(estimate_tokens("3f2a91c0"), 6);
        assert_eq!(estimate_tokens("日本"), 4);
        assert_eq!(estimate_tokens("🦀"), 3);
    }
}
