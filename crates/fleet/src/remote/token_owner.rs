//! The public part of the token that requests are sent with, without its secret.

use flightline::core::token::Presented;

use crate::config::Secret;

/// The public part of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenOwner {
    pub project: String,
    pub token: String,
}

impl TokenOwner {
    /// Reads the public part of this token; none when it is no token of ours, which opens nothing.
    pub fn of(token: &Secret) -> Option<Self> {
        let presented = Presented::parse(token.reveal()).ok()?;
        Some(Self {
            project: presented.project,
            token: presented.id.to_string(),
        })
    }
}
