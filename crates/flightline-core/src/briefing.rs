//! The briefing: what an agent is told when it comes back, as text for its context.
//!
//! Only our own words are trusted. They are the [`template`]: sentences, numbers, times, ids and the
//! names of commands. Every string that an agent or a user wrote is data: it stands between
//! `<NONCE author>` and `</NONCE>`, on lines that we begin, and [`strip_data`] takes all of it away and
//! leaves the template. Lists are one block per author, because a fence per line costs a third of the
//! room.
//!
//! The order is fixed, and the first [`FIRST`] characters are enough to act on, because clients cut
//! what is longer. What does not fit is counted, and the command that shows it is named: a briefing becomes shorter,
//! and is never refused.

mod cause;
mod fence;
mod files;
mod layout;
mod list;
mod rules;
mod share;

use crate::Schema;
use serde::{Deserialize, Serialize};

pub use self::cause::{Cause, Ending, Predecessor};
pub(crate) use self::fence::clean;
pub use self::fence::{check_constraint, strip_data};
use self::layout::{Commands, Draft};
use self::list::{BriefingSection, ShownSection, Zone};
pub use self::rules::ConstraintRoom;
pub use self::share::estimate_tokens;
use self::share::{Size, SizeRequest, fair};
use crate::agent::Role;
use crate::context::ContextMode;
use crate::error::Refusal;
use crate::sortie::{SortieStatus, SubtaskProgress};
use crate::text::Name;
use crate::time::{Millis, Time};

/// The number of characters after which a client may cut. The agent's name and the next steps stand before, if the
/// constraints are not long.
pub const FIRST: usize = 2_000;
/// The most tokens of a briefing that says only where to read it all.
pub const LEAST: usize = 200;
/// Room that effects and next steps have together, even when the constraints are long.
const HEAD_LEAST: Size = Size::new(500, 1_150);
/// The most room for blockers, so that files and decisions are not crowded out.
const BLOCKERS: Size = Size::new(500, 450);

/// A text and its author.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct Quote {
    /// The author of the text: an agent's name, `user:NAME`, or `flightline`.
    pub author: String,
    /// The text as its author wrote it.
    pub text: String,
}

/// The facts that a briefing can tell. Lists are in the order of their importance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
pub struct Facts {
    /// The title of the mission.
    pub mission_title: Quote,
    /// The mission's id, or as much of it as is unique.
    pub mission_id: String,
    /// The sortie the agent is at.
    pub sortie: Option<SortieFacts>,
    /// The agent that is briefed; none when a person or a whole fleet is.
    pub agent: Option<AgentFacts>,
    /// The id of the checkpoint the work was resumed from.
    pub checkpoint: Option<String>,
    /// The revision these facts are true at.
    pub rev: u64,
    /// The mission's progress in percent.
    pub progress_percent: u8,
    /// The last action in the mission.
    pub last_action: Option<Quote>,
    /// Rules that bind every agent on the mission: first of all, and word for word where there is room.
    pub constraints: Vec<Quote>,
    /// Effects on the world that happened.
    pub effects_done: Vec<Quote>,
    /// Effects that were begun and never reported done.
    pub effects_in_doubt: Vec<Quote>,
    /// The next steps of the mission.
    pub next_steps: Vec<Quote>,
    /// The blockers of the mission.
    pub blockers: Vec<Quote>,
    /// Files that were worked on.
    pub files: Vec<FileFact>,
    /// The decisions of the mission.
    pub decisions: Vec<Quote>,
    /// Attempts that do not work.
    pub dead_ends: Vec<Quote>,
    /// The changes that were made while the agent was away.
    pub changes: Vec<Quote>,
    /// Mail the agent has not acknowledged.
    pub mail: Vec<MailFact>,
    /// Time that the mission has taken so far, in milliseconds.
    pub elapsed_ms: Millis,
    /// The last sign of life.
    pub last_activity_at: Option<Time>,
    /// The mode in which the agent is given only what is required; none when nothing is left out for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<ModeFacts>,
    /// The reason for which the agent is briefed.
    #[serde(default)]
    pub cause: Cause,
    /// The agent that had the sortie before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predecessor: Option<Predecessor>,
    /// The moment that the briefing describes: now, or that of a checkpoint.
    #[serde(default)]
    pub moment: Moment,
}

/// The moment that a briefing describes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, Schema)]
#[serde(rename_all = "snake_case")]
pub enum Moment {
    /// The present: the agent can work by the briefing, and acknowledge it.
    #[default]
    Now,
    /// The moment of the checkpoint.
    Checkpoint,
}

/// The mode in which an agent is given only what is required.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct ModeFacts {
    /// The agent's mode; never the normal one.
    pub mode: ContextMode,
    /// True when the project keeps the files that seed E's protocol names.
    pub protocol_files: bool,
}

/// The sortie the agent is at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct SortieFacts {
    /// The sortie's id, or as much of it as is unique.
    pub id: String,
    /// The title of the sortie.
    pub title: Quote,
    /// The status of the sortie.
    pub status: SortieStatus,
    /// The number of this attempt at the sortie.
    pub attempt: u32,
    /// The sortie's progress, counted in subtasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<SubtaskProgress>,
}

/// The agent that is briefed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct AgentFacts {
    /// The agent's name.
    pub name: Name,
    /// The epoch of the agent's session.
    pub epoch: u64,
    /// The agent's role: `dispatch` coordinates, a `specialist` works.
    pub role: Role,
}

/// A file that was worked on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct FileFact {
    /// The file's path, from the repository's root.
    pub path: String,
    /// The mark that says whether the reports about the file are true.
    pub mark: FileMark,
}

words! {
    /// A mark on a file that says whether the reports about it are true. The order puts first what needs attention.
    pub enum FileMark {
        /// The file is not there.
        Missing = "missing",
        /// The file is not what it was when it was reported.
        Changed = "changed",
        /// A report names the file, and the work tree was not looked at.
        Claimed = "claimed",
        /// The file is as it was reported.
        Verified = "verified",
    }
}

/// Mail the agent has not acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct MailFact {
    /// The message's id, or as much of it as is unique.
    pub id: String,
    /// The message's subject; its author is the sender.
    pub subject: Quote,
}

/// The limits of a briefing's length. Both hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct Budget {
    /// The most tokens, as [`estimate_tokens`] counts.
    pub max_tokens: usize,
    /// The most Unicode characters.
    pub max_chars: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            max_tokens: 2_000,
            max_chars: 9_000,
        }
    }
}

impl Budget {
    fn limit(self) -> Size {
        Size::new(self.max_chars, self.max_tokens.saturating_mul(3))
    }
}

/// The extent of a briefing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// The briefing says everything there is room for.
    Full,
    /// The briefing says only the required part: constraints, who you are, effects, next steps, blockers, commands.
    Minimal,
}

/// Writes the briefing. The same arguments give the same bytes, and the text keeps to both limits of
/// the budget: with too little room for everything the required part is written, then less of the constraints, and
/// in the end only where to read it all, which takes up to [`LEAST`] tokens whatever is allowed. All that is left out
/// is counted, with the command that shows it.
///
/// The nonce names the fences: 6 to 32 ASCII letters and digits, to be derived with a secret, so that
/// no author can know it beforehand. Refuses a malformed id or nonce, which is a mistake of the caller.
pub fn write(facts: &Facts, nonce: &str, budget: Budget, mode: Mode) -> Result<String, Refusal> {
    draft(facts, nonce, budget, mode).map(|draft| draft.text)
}

/// Returns the text of [`write()`] in Flightline's own words: the same text without the data blocks. It depends on ids,
/// names, numbers, times and on how much is shown, never on what the data says.
pub fn template(facts: &Facts, nonce: &str, budget: Budget, mode: Mode) -> Result<String, Refusal> {
    draft(facts, nonce, budget, mode).map(|draft| draft.template)
}

/// The reason why a briefing is only recalled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReminderReason {
    /// The briefing was offered twice, and is not acknowledged.
    Waiting,
    /// The briefing is acknowledged.
    Read,
}

/// Returns one line for an agent that was offered its briefing twice, or has acknowledged it.
pub fn recall_line(
    mission_id: &str,
    agent: Option<&Name>,
    recall: ReminderReason,
) -> Result<String, Refusal> {
    check_id("mission id", mission_id)?;
    let command = layout::context_command(agent, mission_id);
    let what = match recall {
        ReminderReason::Waiting => "is waiting",
        ReminderReason::Read => "is acknowledged, and here again",
    };
    Ok(format!(
        "Flightline: your briefing for `{mission_id}` {what}: `{command}`"
    ))
}

fn draft<'a>(
    facts: &Facts,
    nonce: &'a str,
    budget: Budget,
    mode: Mode,
) -> Result<Draft<'a>, Refusal> {
    check(facts, nonce)?;
    let limit = budget.limit();
    let commands = Commands::new(facts);
    let sections = list::sections(facts, nonce, &commands);
    let required = sections.partition_point(|section| section.heading.zone != Zone::Rest);
    let rules = rules::rules(facts, nonce, &commands.constraints);
    let whole = Parts {
        facts,
        nonce,
        rules: &rules,
        sections: &sections,
        left_out: &[],
    };
    let required = Parts {
        sections: &sections[..required],
        left_out: &sections[required..],
        ..whole
    };
    let at_once = match mode {
        Mode::Full => whole.fit(limit).or_else(|| required.fit(limit)),
        Mode::Minimal => required.fit(limit),
    };
    if let Some(draft) = at_once {
        return Ok(draft);
    }
    // The other required parts come first now: an agent that does not know its task cannot keep a rule while doing it.
    let without = Parts {
        rules: &ShownSection::default(),
        ..required
    };
    let room = limit - without.needed(&without.frame()) - Size::of(layout::PARTLY);
    let rules = rules::within(facts, nonce, &commands.constraints, room);
    let draft = rules.and_then(|rules| {
        let fewer = Parts {
            rules: &rules,
            ..required
        };
        fewer.fit(limit)
    });
    Ok(draft.unwrap_or_else(|| layout::write_least(facts, nonce, limit)))
}

/// The parts that a briefing is put together from.
#[derive(Clone, Copy)]
struct Parts<'a, 'f> {
    facts: &'f Facts,
    nonce: &'a str,
    rules: &'f ShownSection,
    sections: &'f [BriefingSection],
    left_out: &'f [BriefingSection],
}

impl<'a> Parts<'a, '_> {
    fn write(&self, shown: &[ShownSection]) -> Draft<'a> {
        let lists = (self.sections, self.left_out);
        layout::write(self.facts, self.nonce, self.rules, lists, shown)
    }

    /// The text with nothing in its lists.
    fn frame(&self) -> Draft<'a> {
        let nothing: Vec<ShownSection> = self
            .sections
            .iter()
            .map(|_| ShownSection::default())
            .collect();
        self.write(&nothing)
    }

    /// Returns the room that the text takes at least.
    fn needed(&self, frame: &Draft<'_>) -> Size {
        let owed: Size = self.sections.iter().map(|it| it.ask().floor).sum();
        Size::of(&frame.text) + owed
    }

    /// Returns the text with as much of each section as there is room for; none when there is not room for the least.
    fn fit(&self, limit: Size) -> Option<Draft<'a>> {
        let frame = self.frame();
        if !self.needed(&frame).fits(limit) {
            return None;
        }
        let mut owed: Size = self.sections.iter().map(|it| it.ask().floor).sum();
        let head = FIRST.saturating_sub(frame.head_chars);
        // Plain prose costs that many thirds. A dearer text must not take the room of all that follows.
        let head = Size::new(head, head + head / 4).most(HEAD_LEAST);
        let mut room = limit - Size::of(&frame.text);
        let mut shown = Vec::with_capacity(self.sections.len());
        for (zone, most) in [
            (Zone::Head, head),
            (Zone::Blockers, BLOCKERS),
            (Zone::Rest, Size::ENDLESS),
        ] {
            let group = self.sections.iter().filter(|it| it.heading.zone == zone);
            let asks: Vec<SizeRequest> = group.clone().map(BriefingSection::ask).collect();
            let floor: Size = asks.iter().map(|ask| ask.floor).sum();
            owed = owed - floor;
            let shares = fair(&asks, (room - owed).least(most.most(floor)));
            for (section, share) in group.zip(shares) {
                let part = section.show(share);
                // The next zone has the room that one zone leaves.
                room = room - part.size;
                shown.push(part);
            }
        }
        Some(self.write(&shown))
    }
}

pub(crate) fn check_nonce(nonce: &str) -> Result<(), Refusal> {
    let plain = nonce.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if !plain || !(6..=32).contains(&nonce.len()) {
        return Err(Refusal::invalid(
            "the briefing's nonce is not 6 to 32 ASCII letters and digits",
        ));
    }
    Ok(())
}

/// Checks the words that become part of our own text. Refuses a malformed id or nonce.
fn check(facts: &Facts, nonce: &str) -> Result<(), Refusal> {
    check_nonce(nonce)?;
    check_id("mission id", &facts.mission_id)?;
    if let Some(sortie) = &facts.sortie {
        check_id("sortie id", &sortie.id)?;
    }
    if let Some(checkpoint) = &facts.checkpoint {
        check_id("checkpoint id", checkpoint)?;
    }
    if let Cause::Rewind { to } = &facts.cause {
        check_id("checkpoint id", to)?;
    }
    Ok(())
}

fn check_id(what: &str, id: &str) -> Result<(), Refusal> {
    Name::parse(what, id).map(|_| ())
}

#[cfg(test)]
mod tests;
