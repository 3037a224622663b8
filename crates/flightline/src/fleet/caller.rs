//! Who asks, and with what in hand.

use super::precondition::Target;
use super::window::Window;
use crate::event::Cursor;
use flightline_core::token::Presented;
use flightline_core::{Title, TokenId};

#[derive(Clone, Debug, Default)]
pub struct Caller {
    /// The agent it acts as, by name or id.
    pub agent: Option<String>,
    /// The incarnation it believes it is.
    pub epoch: Option<u64>,
    pub session: Option<String>,
    /// The person at the keyboard.
    pub user: String,
    /// The mission it works on, unless a request names another.
    pub mission: Option<String>,
    /// Makes a write happen once, however often it is asked for.
    pub idempotency_key: Option<String>,
    /// The thing it is about, and what must not have happened to it.
    pub target: Option<Target>,
    /// The place in the journal that it goes on from, when it looks.
    pub place: Option<Cursor>,
    /// Which part of a list it wants. An operation that does not know how to give one gives all.
    pub window: Option<Window>,
    /// The token that a server got with the request: looked at again in every transaction, so that one
    /// that was taken back while its request waited opens nothing.
    pub token: Option<Presented>,
    /// The token that this was said with, which opens nothing any more.
    pub on_behalf_of_token: Option<TokenId>,
}

impl Caller {
    /// The person at the keyboard, as events name them; cleaned like every text that enters.
    #[must_use]
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
