//! Tells an agent that its file was put aside.

use crate::Schema;
use flightline_core::Name;
use flightline_core::agent::{Agent, Role};
use flightline_core::dialect::{Dialect, DialectDocument, epic as core_epic};
use flightline_core::redact::shown;
use flightline_core::shell::shell_word;
use flightline_store::{Actor, Find};
use serde::{Deserialize, Serialize};

use super::sitebuilder;
use crate::error::Result;
use crate::fleet::{Access, ActsFor, Operation, Scope};
use crate::mail::notice;
use crate::op_context::{OpContext, agent_named};

/// Sends a message about a file that was put aside to the agent that wrote it; to the coordinator, where the writer
/// is not known.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct TellPutAside {
    /// The dialect of the file.
    pub dialect: Dialect,
    /// The file that was put aside.
    pub file: String,
    /// The name that the file has now.
    pub kept: String,
    /// The text of the file, where it is whole.
    pub text: Option<String>,
    /// The reason why the file was not imported.
    pub why: String,
}

impl Operation for TellPutAside {
    const NAME: &'static str = "tell_put_aside";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Dispatch;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Fleet;
    type Outcome = Option<Name>;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<Option<Name>> {
        let Some(to) = self.recipient(ctx)? else {
            return Ok(None);
        };
        let (file, kept) = (shown(&self.file), shown(&self.kept));
        let (subject, word) = (format!("{file} was put aside"), shell_word(&kept));
        let body = format!(
            "{file} was not taken in: {}\n\n\
             It is kept as {kept}; nothing in it is lost, and nothing in it is applied.\n\
             Show the differences: fleet conflicts list\n\
             Apply it anyway: fleet conflicts take {word}\n\
             Discard it: fleet conflicts drop {word}",
            shown(&self.why)
        );
        let (name, who) = (to.name.clone(), ctx.tx.actor().clone());
        ctx.tx.act_as(Actor::flightline());
        notice(ctx, to, &subject, &body, None)?;
        ctx.tx.act_as(who);
        Ok(Some(name))
    }
}

impl TellPutAside {
    /// The recipient: the writer, else the coordinator; none when there is neither.
    fn recipient(&self, ctx: &mut OpContext<'_, '_>) -> Result<Option<Agent>> {
        let writer = self.writer(ctx)?;
        let writer = writer.filter(|agent| agent.retired_at.is_none());
        if writer.is_some() {
            return Ok(writer);
        }
        let mut agents = ctx.tx.find::<Agent>(Find::All)?;
        agents.retain(|agent| agent.role == Role::Dispatch && agent.retired_at.is_none());
        agents.sort_by_key(|agent| agent.epoch == 0);
        Ok(agents.into_iter().next())
    }

    /// Returns the agent whose file it is: as its text says, else as its name says.
    fn writer(&self, ctx: &mut OpContext<'_, '_>) -> Result<Option<Agent>> {
        let text = self.text.as_deref();
        let document = text.and_then(|text| DialectDocument::read(self.dialect, text).ok());
        let named = match (self.dialect, &document) {
            (Dialect::Epic, Some(document)) => agent_named(ctx.tx, document.word("agent_id"))?,
            (Dialect::Sitebuilder, Some(document)) => sitebuilder::owner(ctx, document)?,
            (_, _) => None,
        };
        if named.is_some() {
            return Ok(named);
        }
        let file = self.file.rsplit('/').next().unwrap_or_default();
        let is_its = |agent: &Agent| match self.dialect {
            Dialect::Epic => core_epic::file_name(agent.name.as_str()).is_ok_and(|it| it == file),
            Dialect::Sitebuilder => {
                let word = agent.kind.as_ref().unwrap_or(&agent.name);
                file.strip_prefix(word.as_str())
                    .is_some_and(|rest| rest.starts_with('-'))
            }
            Dialect::Recovery | Dialect::Orchestrator => false,
        };
        let agents = ctx.tx.find::<Agent>(Find::All)?;
        Ok(agents.into_iter().find(is_its))
    }
}
