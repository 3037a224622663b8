//! The constraints of a briefing: in full as long as there is room for all of them.

use super::fence::{breaks_out, check_constraint, clean, fence_size, label};
use super::list::{Block, BriefingSection, Heading, ShownSection, Zone, heading, voices};
use super::share::Size;
use super::{Facts, Quote};
use crate::error::{Code, Refusal};

/// The most room for constraints, so that the rest of the required part has room.
const RULES: Size = Size::new(3_200, 3 * RULES_TOKENS);
const RULES_TOKENS: usize = 800;

/// A nonce like any other, for sizes: digits cost most.
const SOME_NONCE: &str = "00000000";

const CONSTRAINTS: Heading = heading(Zone::Head, "Constraints", "constraints");

/// The use of the room for constraints, in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConstraintRoom {
    pub limit: usize,
    /// The tokens that the constraints that hold already take.
    pub used: usize,
    /// The tokens that one more constraint would take.
    pub needed: usize,
}

impl ConstraintRoom {
    /// Measures `new` beside those that hold.
    pub fn of(known: &[Quote], new: &Quote) -> Self {
        let used = whole(known, SOME_NONCE).size.tokens();
        let all: Vec<Quote> = known.iter().chain([new]).cloned().collect();
        Self {
            limit: RULES_TOKENS,
            used,
            needed: whole(&all, SOME_NONCE).size.tokens() - used,
        }
    }

    /// Refuses a constraint for which there is no room: briefings would have to cut it.
    pub fn check(self) -> Result<(), Refusal> {
        let Self {
            limit,
            used,
            needed,
        } = self;
        if used + needed <= limit {
            return Ok(());
        }
        let left = limit.saturating_sub(used);
        Err(Refusal::new(
            Code::TooLong,
            format!(
                "there is no room for this constraint: it needs about {needed} tokens of every briefing, and {left} of {limit} are left"
            ),
        )
        .hint("shorten it: put the long version into a file, and let the constraint name the file")
        .details(serde_json::json!({
            "limit_tokens": limit,
            "used_tokens": used,
            "needed_tokens": needed,
        })))
    }
}

/// The constraints within the room that a briefing of the usual size has for them.
pub(super) fn rules(facts: &Facts, nonce: &str, command: &str) -> ShownSection {
    within(facts, nonce, command, RULES).unwrap_or_default()
}

/// The constraints within `room`: whole if they fit, else as much of each as there is room for, and the
/// command that shows them; none when there is not even room for that.
pub(super) fn within(
    facts: &Facts,
    nonce: &str,
    command: &str,
    room: Size,
) -> Option<ShownSection> {
    let constraints = &facts.constraints;
    let verbatim = |it: &Quote| check_constraint(&it.text).is_ok() && !breaks_out(&it.text, nonce);
    if constraints.iter().all(verbatim) {
        let whole = whole(constraints, nonce);
        if whole.size.fits(room) {
            return Some(whole);
        }
    }
    let items = constraints
        .iter()
        .map(|it| (it.author.as_str(), it.text.as_str()));
    let section = BriefingSection::new(&CONSTRAINTS, voices(items, nonce), command.to_owned());
    section.ask().floor.fits(room).then(|| section.show(room))
}

/// Every constraint in full, one block per author: a person's word for word, an agent's on one line, so that no agent
/// can put headings or tags of its own between ours.
fn whole(constraints: &[Quote], nonce: &str) -> ShownSection {
    let mut blocks: Vec<Block> = Vec::new();
    let mut size = Size::default();
    for constraint in constraints {
        let label = label(&constraint.author, nonce);
        let line = match constraint.author.starts_with("user:") {
            true => constraint.text.clone(),
            false => clean(&constraint.text, nonce, usize::MAX),
        };
        size = size + Size::of("- \n") + Size::of(&line);
        match blocks.iter_mut().find(|block| block.label == label) {
            Some(block) => block.lines.push(line),
            None => {
                size = size + fence_size(nonce, &label);
                blocks.push(Block {
                    label,
                    lines: vec![line],
                });
            }
        }
    }
    ShownSection {
        blocks,
        footer: String::new(),
        size,
    }
}
