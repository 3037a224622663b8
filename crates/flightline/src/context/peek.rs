//! Shows an agent's briefing. Nothing is recorded, and nothing is delivered.

use crate::Schema;
use flightline_core::event::sha256_hex;
use flightline_core::file_system::TreeNow;
use flightline_core::setting::NonceSecret;
use serde::{Deserialize, Serialize};

use super::{BriefAgent, Briefed};
use crate::error::Result;
use crate::fleet::{Access, ActsFor, Operation, Scope};
use crate::op_context::OpContext;

/// Returns the recovery context of an agent to another caller.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct PeekBriefing {
    /// The agent whose recovery context is shown, by name or id.
    pub agent: String,
    /// The mission of the briefing; the current one when none is named.
    pub mission: Option<String>,
    /// Maximum number of tokens of the briefing.
    pub max_tokens: Option<usize>,
    /// Include only the required parts.
    #[serde(default)]
    pub minimal: bool,
    /// The work tree as the caller sees it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<TreeNow>,
}

impl Operation for PeekBriefing {
    const NAME: &'static str = "peek_briefing";
    const BRIEFS: bool = true;
    const ACCESS: Access = Access::Read;
    const SCOPE: Scope = Scope::Read;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = Briefed;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<Briefed> {
        ctx.agent = Some(ctx.find_agent(&self.agent)?);
        let request = BriefAgent {
            mission: self.mission.clone(),
            max_tokens: self.max_tokens,
            minimal: self.minimal,
            tree: self.tree.clone(),
        };
        let (_, briefed) = request.write(ctx, word)?;
        Ok(briefed)
    }
}

/// The word that fences quoted text for a caller that only reads, and so makes no secret: where there is none yet, the
/// word is drawn. An author of the text cannot know it beforehand.
pub(super) fn word(ctx: &mut OpContext<'_, '_>, what: &str) -> Result<String> {
    let secret = match ctx.tx.get::<NonceSecret>(NonceSecret::KEY)? {
        Some(secret) => secret.value,
        None => ctx.tx.uuid().to_string(),
    };
    Ok(sha256_hex(&format!("{secret}/{what}"))[..8].to_owned())
}
