//! Describes the caller of an operation: its identity, its credentials and its conditions.

use super::precondition::Target;
use super::window::Window;
use crate::event::Cursor;
use flightline_core::token::Presented;
use flightline_core::{Title, TokenId};

#[derive(Clone, Debug, Default)]
pub struct Caller {
    /// The agent that the caller acts as, by name or id.
    pub agent: Option<String>,
    /// The incarnation that the caller believes to be.
    pub epoch: Option<u64>,
    pub session: Option<String>,
    /// The person at the keyboard.
    pub user: String,
    /// The mission that the caller works on, unless a request names another.
    pub mission: Option<String>,
    /// Makes a write happen once, however often it is asked for.
    pub idempotency_key: Option<String>,
    /// The subject of the request, and the condition on it.
    pub target: Option<Target>,
    /// The position in the journal from which the caller continues, when it reads.
    pub place: Option<Cursor>,
    /// The part of a list that the caller wants. An operation that knows no parts gives the whole list.
    pub window: Option<Window>,
    /// The token that a server got with the request: looked at again in every transaction, so that one
    /// that was taken back while its request waited opens nothing.
    pub token: Option<Presented>,
    /// The token that the request was made with, which is not valid any more.
    pub on_behalf_of_token: Option<TokenId>,
}

impl Caller {
    /// The person at the keyboard, as events name them; cleaned like every text that enters.
    pub fn person(&self) -> String {
        let name = Title::parse("user", &self.user);
        name.map_or_else(|_| "user:unknown".to_owned(), |name| format!("user:{name}"))
    }

    /// The caller for what Flightline does by itself on the way, once it is known that the request may be made.
    pub(crate) fn housekeeping(&self) -> Self {
        Self {
            token: None,
            ..self.clone()
        }
    }
}
