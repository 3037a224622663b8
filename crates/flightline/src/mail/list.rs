//! Looking through all mail.

use flightline_core::message::Message;
use flightline_store::Find;
use serde::{Deserialize, Serialize};

use super::{MessageView, view};
use crate::desk::Desk;
use crate::error::Result;
use crate::fleet::{Access, ActsFor, Operation, Scope};

/// Lists messages, newest first, without marking anything.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ListMessages {
    /// Of this mission only.
    pub mission: Option<String>,
    /// From or to this agent only.
    pub agent: Option<String>,
    /// Maximum number of entries.
    pub limit: u64,
}

impl Operation for ListMessages {
    const NAME: &'static str = "list_messages";
    const ACCESS: Access = Access::Read;
    const SCOPE: Scope = Scope::Read;
    type Outcome = Vec<MessageView>;

    fn acts_for(&self) -> ActsFor<'_> {
        ActsFor::Caller
    }

    fn decide(&self, desk: &mut Desk<'_, '_>) -> Result<Vec<MessageView>> {
        let find = match &self.mission {
            Some(reference) => Find::Mission(desk.mission(Some(reference))?.id),
            None => Find::All,
        };
        let agent = match &self.agent {
            Some(reference) => Some(desk.find_agent(reference)?.id),
            None => None,
        };
        let mut messages = desk.tx.find::<Message>(find)?;
        messages.retain(|message| {
            agent.is_none_or(|agent| message.from_id == Some(agent) || message.to.contains(&agent))
        });
        messages.reverse();
        messages.truncate(usize::try_from(self.limit).unwrap_or(usize::MAX));
        messages
            .into_iter()
            .map(|message| view(desk, message))
            .collect()
    }
}
