//! The lists of a briefing: their order, their headings, and how much of each is shown.

use std::collections::HashMap;

use super::fence::{clean, fence_size, label};
use super::files::{FILES, Files};
use super::layout::Commands;
use super::share::{Size, SizeRequest, cut, fair, level};
use super::{Facts, Quote};

/// The most room of one entry, however much there is.
const ENTRY: Size = Size::new(400, 600);
/// The least room of an entry that is cut. One with less is left out instead.
const ENTRY_LEAST: Size = Size::new(60, 100);

/// The most entries of a list that are looked at: no reader needs a hundred, and a list of thousands must not make a
/// hook slow.
const MOST_ENTRIES: usize = 100;

/// The room that a section is given from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Zone {
    /// The part within the first characters, which no client cuts.
    Head,
    /// The required part after the head.
    Blockers,
    /// The parts that share the remaining room.
    Rest,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Heading {
    pub zone: Zone,
    /// The title of the list, printed once for neighbours that share it.
    pub title: &'static str,
    /// A line of our own before the list.
    pub intro: Option<&'static str>,
    /// The sentence for an empty list; none when an empty list is left out.
    pub empty: Option<&'static str>,
    /// The name of the list where all of it is left out.
    pub noun: &'static str,
}

pub(super) const fn heading(zone: Zone, title: &'static str, noun: &'static str) -> Heading {
    Heading {
        zone,
        title,
        intro: None,
        empty: None,
        noun,
    }
}

const DONE: Heading = Heading {
    intro: Some("ALREADY DONE, do not repeat:"),
    ..heading(Zone::Head, "Effects", "effects")
};
const IN_DOUBT: Heading = Heading {
    intro: Some("IN DOUBT, verify first:"),
    ..heading(Zone::Head, "Effects", "effects in doubt")
};
pub(super) const NEXT_STEPS: Heading = Heading {
    empty: Some("None recorded."),
    ..heading(Zone::Head, "Next Steps", "next steps")
};
pub(super) const BLOCKERS: Heading = Heading {
    empty: Some("None."),
    ..heading(Zone::Blockers, "Current Blockers", "blockers")
};
pub(super) const FILES_MODIFIED: Heading = Heading {
    empty: Some("None recorded."),
    ..heading(Zone::Rest, "Files Modified", "files")
};
const DECISIONS: Heading = heading(Zone::Rest, "Decisions", "decisions");
const DEAD_ENDS: Heading = Heading {
    intro: Some("Tried, and does not work:"),
    ..heading(Zone::Rest, "Dead Ends", "dead ends")
};
const CHANGES: Heading = heading(Zone::Rest, "Changed While You Were Away", "changes");
const MAIL: Heading = heading(Zone::Rest, "Unread Mail", "mail");

pub(super) struct BriefingSection {
    pub heading: &'static Heading,
    content: Content,
    command: String,
    /// The most room that the sentence about omitted entries takes.
    footer: Size,
    need: Size,
    /// The least room in which the section can say anything.
    floor: Size,
}

pub(super) enum Content {
    Quotes { voices: Vec<Voice>, count: usize },
    Files { files: Files, fence: Size },
}

pub(super) struct Voice {
    label: String,
    /// The room that the fence around the list takes.
    fence: Size,
    entries: Vec<VoiceEntry>,
}

impl Voice {
    /// Returns the least room in which this author is heard at all.
    fn least(&self) -> Size {
        self.fence + self.entries.iter().take(1).map(|it| it.ask().least()).sum()
    }

    /// Returns the place in the list where the author first speaks.
    fn first(&self) -> usize {
        self.entries.first().map_or(0, |entry| entry.place)
    }
}

struct VoiceEntry {
    /// The entry's place in the list.
    place: usize,
    line: String,
    cut: bool,
}

impl VoiceEntry {
    fn ask(&self) -> SizeRequest {
        SizeRequest {
            need: line_size(&self.line),
            floor: ENTRY_LEAST,
        }
    }
}

#[derive(Default)]
pub(super) struct ShownSection {
    pub blocks: Vec<Block>,
    pub footer: String,
    pub size: Size,
}

pub(super) struct Block {
    pub label: String,
    pub lines: Vec<String>,
}

#[derive(Default)]
struct Loss {
    /// The number of files, when folders stand for them.
    rolled_up: Option<usize>,
    left_out: usize,
    shortened: usize,
}

/// The lists, in the order of the briefing.
pub(super) fn sections(facts: &Facts, nonce: &str, commands: &Commands) -> Vec<BriefingSection> {
    let quotes = |quotes: &[Quote]| {
        let items = quotes.iter().map(|it| (it.author.as_str(), &*it.text));
        voices(items, nonce)
    };
    let mail: Vec<String> = facts
        .mail
        .iter()
        .map(|it| format!("{}: {}", it.id, it.subject.text))
        .collect();
    let senders = facts.mail.iter().map(|it| it.subject.author.as_str());
    let mail = voices(senders.zip(mail.iter().map(String::as_str)), nonce);
    let files = Content::Files {
        files: Files::new(&facts.files, nonce),
        fence: fence_size(nonce, FILES),
    };
    let list = |what: &str| commands.of_mission(what);
    let all = || commands.facts.clone();
    let section = BriefingSection::new;
    vec![
        section(&DONE, quotes(&facts.effects_done), list("effect list")),
        section(
            &IN_DOUBT,
            quotes(&facts.effects_in_doubt),
            list("effect list --in-doubt"),
        ),
        section(&NEXT_STEPS, quotes(&facts.next_steps), all()),
        section(&BLOCKERS, quotes(&facts.blockers), all()),
        section(&FILES_MODIFIED, files, all()),
        section(
            &DECISIONS,
            quotes(&facts.decisions),
            list("note list --kind decision"),
        ),
        section(
            &DEAD_ENDS,
            quotes(&facts.dead_ends),
            list("note list --kind dead-end"),
        ),
        section(&CHANGES, quotes(&facts.changes), list("log")),
        section(&MAIL, mail, commands.inbox.clone()),
    ]
}

pub(super) fn voices<'a>(items: impl Iterator<Item = (&'a str, &'a str)>, nonce: &str) -> Content {
    let mut known: HashMap<&str, usize> = HashMap::new();
    let mut authors: Vec<(&str, Vec<(usize, &str)>)> = Vec::new();
    let mut count = 0;
    for (place, (author, text)) in items.enumerate() {
        let index = *known.entry(author).or_insert_with(|| {
            authors.push((author, Vec::new()));
            authors.len() - 1
        });
        authors[index].1.push((place, text));
        count += 1;
    }
    let most = level(authors.iter().map(|(_, texts)| texts.len()), MOST_ENTRIES).max(1);
    let voice = |(author, texts): &(&str, Vec<(usize, &str)>)| {
        let label = label(author, nonce);
        Voice {
            fence: fence_size(nonce, &label),
            label,
            entries: texts
                .iter()
                .take(most)
                .map(|(place, text)| entry(*place, text, nonce))
                .collect(),
        }
    };
    Content::Quotes {
        voices: authors.iter().take(MOST_ENTRIES).map(voice).collect(),
        count,
    }
}

fn entry(place: usize, text: &str, nonce: &str) -> VoiceEntry {
    let line = clean(text, nonce, ENTRY.chars);
    let shorter = cut(&line, ENTRY);
    VoiceEntry {
        place,
        cut: shorter.is_some(),
        line: shorter.unwrap_or(line),
    }
}

impl BriefingSection {
    pub fn new(heading: &'static Heading, content: Content, command: String) -> Self {
        let mut section = Self {
            heading,
            content,
            command,
            footer: Size::default(),
            need: Size::default(),
            floor: Size::default(),
        };
        let count = section.len();
        if count > 0 {
            let worst = Loss {
                rolled_up: match &section.content {
                    Content::Files { .. } => Some(count),
                    Content::Quotes { .. } => None,
                },
                left_out: count,
                shortened: count,
            };
            section.footer = Size::of(&worst.footer(&section.command));
            let least = section.footer + section.first();
            let whole = section.part(Size::ENDLESS).size;
            // A list that costs no more than saying that it is cut is always shown.
            section.need = if whole.fits(least) {
                whole
            } else {
                whole.most(least)
            };
            section.floor = section.need.least(least);
        }
        section
    }

    /// Returns the least room of the first entry of a required list, which is never only counted.
    fn first(&self) -> Size {
        match (&self.content, self.heading.zone) {
            (Content::Quotes { voices, .. }, Zone::Head | Zone::Blockers) => {
                voices.first().map(Voice::least).unwrap_or_default()
            }
            (Content::Quotes { .. } | Content::Files { .. }, _) => Size::default(),
        }
    }

    pub fn len(&self) -> usize {
        match &self.content {
            Content::Quotes { count, .. } => *count,
            Content::Files { files, .. } => files.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn ask(&self) -> SizeRequest {
        SizeRequest {
            need: self.need,
            floor: self.floor,
        }
    }

    /// Shows as much as costs no more than `room`, which is not less than the floor.
    pub fn show(&self, room: Size) -> ShownSection {
        if self.need.fits(room) {
            self.part(Size::ENDLESS)
        } else {
            self.part(room - self.footer)
        }
    }

    /// Shows as much as has lines that cost no more than `room`. The sentence about the rest comes on top.
    fn part(&self, room: Size) -> ShownSection {
        let (blocks, lines, loss) = match &self.content {
            Content::Quotes { voices, count } => show_voices(voices, *count, room),
            Content::Files { files, fence } => show_files(files, *fence, room),
        };
        let footer = loss.footer(&self.command);
        ShownSection {
            size: lines + Size::of(&footer),
            blocks,
            footer,
        }
    }
}

/// First the authors share the room, then the entries of each author share what he got: many authors
/// are all heard, and one long text does not push out the short ones.
fn show_voices(voices: &[Voice], count: usize, room: Size) -> (Vec<Block>, Size, Loss) {
    let wanted: Vec<Vec<SizeRequest>> = voices
        .iter()
        .map(|voice| voice.entries.iter().map(VoiceEntry::ask).collect())
        .collect();
    let author = |(voice, asks): (&Voice, &Vec<SizeRequest>)| SizeRequest {
        need: voice.fence + asks.iter().map(|ask| ask.need).sum(),
        floor: voice.least(),
    };
    let authors: Vec<SizeRequest> = voices.iter().zip(&wanted).map(author).collect();
    let shares = fair(&authors, room);
    let mut loss = Loss::default();
    let mut picks: Vec<Pick> = Vec::new();
    for (index, voice) in voices.iter().enumerate() {
        let shares = match shares.get(index) {
            Some(share) => fair(&wanted[index], *share - voice.fence),
            None => Vec::new(),
        };
        for (entry, share) in voice.entries.iter().zip(shares) {
            let shorter = cut(&entry.line, share - line_size(""));
            loss.shortened += usize::from(entry.cut || shorter.is_some());
            picks.push(Pick {
                voice,
                place: entry.place,
                line: shorter.unwrap_or_else(|| entry.line.clone()),
            });
        }
    }
    loss.left_out = count - picks.len();
    // In the order of the list if there is room for the fences, else one block per author.
    picks.sort_by_key(|pick| pick.place);
    if !blocks_size(&picks).fits(room) {
        picks.sort_by_key(|pick| (pick.voice.first(), pick.place));
    }
    let size = blocks_size(&picks);
    let blocks = picks
        .chunk_by(Pick::same_author)
        .map(|picks| Block {
            label: picks[0].voice.label.clone(),
            lines: picks.iter().map(|pick| pick.line.clone()).collect(),
        })
        .collect();
    (blocks, size, loss)
}

struct Pick<'a> {
    voice: &'a Voice,
    place: usize,
    line: String,
}

impl Pick<'_> {
    fn same_author(&self, other: &Self) -> bool {
        self.voice.first() == other.voice.first()
    }
}

fn blocks_size(picks: &[Pick]) -> Size {
    let fences = picks
        .chunk_by(Pick::same_author)
        .map(|it| it[0].voice.fence);
    fences.sum::<Size>() + picks.iter().map(|pick| line_size(&pick.line)).sum()
}

fn show_files(files: &Files, fence: Size, room: Size) -> (Vec<Block>, Size, Loss) {
    let cost = |line: &super::files::FileLine| line_size(&line.text);
    let listing = files.listing(|lines| (fence + lines.iter().map(cost).sum()).fits(room));
    let shown: usize = listing.lines.iter().map(|line| line.files).sum();
    let loss = Loss {
        rolled_up: listing.rolled_up.then_some(files.len()),
        left_out: files.len() - shown,
        shortened: listing.lines.iter().filter(|line| line.cut).count(),
    };
    if listing.lines.is_empty() {
        return (Vec::new(), Size::default(), loss);
    }
    let size = fence + listing.lines.iter().map(cost).sum();
    let block = Block {
        label: FILES.to_owned(),
        lines: listing.lines.into_iter().map(|line| line.text).collect(),
    };
    (vec![block], size, loss)
}

fn line_size(line: &str) -> Size {
    Size::of("- \n") + Size::of(line)
}

impl Loss {
    /// Names the missing parts and the command that shows them; nothing when all is there.
    fn footer(&self, command: &str) -> String {
        let mut parts = Vec::new();
        if let Some(files) = self.rolled_up {
            parts.push(format!("{files} files, rolled up by folder"));
        }
        if self.left_out > 0 {
            parts.push(format!("{} left out", self.left_out));
        }
        if self.shortened > 0 {
            parts.push(format!("{} shortened", self.shortened));
        }
        if parts.is_empty() {
            return String::new();
        }
        format!("({}: `{command}`)\n", parts.join(", "))
    }
}

/// The line that says that a text outside a list was cut.
pub(super) fn shortened(count: usize, command: &str) -> String {
    let loss = Loss {
        shortened: count,
        ..Loss::default()
    };
    loss.footer(command)
}
