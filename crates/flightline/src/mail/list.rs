//! Lists all messages.

use std::collections::BTreeSet;

use flightline_core::message::Message;
use flightline_core::{Kind, Subject};
use flightline_store::Find;
use serde::{Deserialize, Serialize};

use super::{MessageView, views};
use crate::error::Result;
use crate::fleet::{Access, ActsFor, Operation, Scope, documents, newest, wanted};
use crate::op_context::OpContext;

/// Lists messages, newest first, without marking anything.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ListMessages {
    /// List only messages of this mission.
    pub mission: Option<String>,
    /// List only messages from or to this agent.
    pub agent: Option<String>,
    /// Maximum number of entries.
    pub limit: u64,
}

impl Operation for ListMessages {
    const NAME: &'static str = "list_messages";
    const ACCESS: Access = Access::Read;
    const SCOPE: Scope = Scope::Read;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = Vec<MessageView>;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<Vec<MessageView>> {
        let find = match &self.mission {
            Some(reference) => Find::Mission(ctx.mission(Some(reference))?.id),
            None => Find::All,
        };
        let agent = match &self.agent {
            Some(reference) => Some(ctx.find_agent(reference)?.id),
            None => None,
        };
        let rows = match (&self.mission, agent) {
            (None, None) => newest(ctx, Kind::Message, None, self.limit)?,
            _ => {
                let mut rows = ctx.tx.rows(Kind::Message, find)?;
                rows.reverse();
                if let Some(agent) = agent {
                    // Whom a message is from and to, only its text says.
                    let messages = ctx.tx.find_those(find, |message: &Message| {
                        message.from_id == Some(agent) || message.to.contains(&agent)
                    })?;
                    let ids: BTreeSet<String> = messages.iter().map(Message::key).collect();
                    rows.retain(|row| ids.contains(&row.id));
                }
                wanted(ctx, rows, self.limit)
            }
        };
        let messages: Vec<Message> = documents(ctx, &rows)?;
        views(ctx, messages)
    }
}
