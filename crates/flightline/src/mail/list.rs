//! Lists all messages.

use crate::Schema;
use std::collections::BTreeSet;

use flightline_core::message::Message;
use flightline_core::{Kind, Subject};
use flightline_store::{ListOrder, ListScope, RowList};
use serde::{Deserialize, Serialize};

use super::{MessageView, views};
use crate::error::Result;
use crate::fleet::{Access, ActsFor, Operation, Scope, documents, part_of, some_rows};
use crate::op_context::OpContext;

/// Lists messages, newest first, without marking anything.
#[derive(Clone, Debug, Default, Serialize, Deserialize, Schema)]
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
        let scope = match &self.mission {
            Some(reference) => ListScope::Mission(ctx.mission(Some(reference))?.id),
            None => ListScope::All,
        };
        let list = RowList::new(Kind::Message, scope, &[]);
        let rows = match &self.agent {
            None => some_rows(ctx, list, ListOrder::NEWEST, self.limit)?,
            Some(reference) => {
                let agent = ctx.find_agent(reference)?.id;
                // Whom a message is to, its text alone says, so that all texts are read: deliveries are handed on.
                let messages = ctx.tx.find_those(scope.find(), |message: &Message| {
                    message.from_id == Some(agent) || message.to.contains(&agent)
                })?;
                let ids: BTreeSet<String> = messages.iter().map(Message::key).collect();
                let mut rows = ctx.tx.rows(Kind::Message, scope.find())?;
                rows.reverse();
                rows.retain(|row| ids.contains(&row.id));
                part_of(ctx, rows, self.limit)
            }
        };
        let messages: Vec<Message> = documents(ctx, &rows)?;
        views(ctx, messages)
    }
}
