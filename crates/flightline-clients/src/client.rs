//! The clients that Flightline connects to.

use std::fmt;
use std::str::FromStr;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Client {
    Claude,
    Codex,
    Gemini,
    Opencode,
    Copilot,
    Cline,
    Cursor,
}

impl Client {
    /// Every client, in the order in which clients are offered.
    pub const ALL: [Self; 7] = [
        Self::Claude,
        Self::Codex,
        Self::Gemini,
        Self::Opencode,
        Self::Copilot,
        Self::Cline,
        Self::Cursor,
    ];

    /// The word for it on the command line, and the name of its agents.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::Opencode => "opencode",
            Self::Copilot => "copilot",
            Self::Cline => "cline",
            Self::Cursor => "cursor",
        }
    }

    /// Returns the client's name as its vendor writes it.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Claude => "Claude Code",
            Self::Codex => "Codex CLI",
            Self::Gemini => "Gemini CLI",
            Self::Opencode => "OpenCode",
            Self::Copilot => "Copilot CLI",
            Self::Cline => "Cline CLI",
            Self::Cursor => "Cursor",
        }
    }
}

impl Client {
    /// Returns true when the client is an editor: people's terminals are below its process as well, and commands in
    /// them are not its agent's.
    pub const fn is_editor(self) -> bool {
        match self {
            Self::Cline | Self::Cursor => true,
            Self::Claude | Self::Codex | Self::Gemini | Self::Opencode | Self::Copilot => false,
        }
    }

    /// The client whose agent has this name: agents are named after their client, such as `cursor-2`.
    pub fn of_agent(name: &str) -> Option<Self> {
        let word = name.split('-').next().unwrap_or_default();
        word.parse().ok()
    }
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Client {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|it| it.as_str() == word);
        known.ok_or_else(|| {
            let all: Vec<&str> = Self::ALL.iter().map(|it| it.as_str()).collect();
            format!("`{word}` is not a known client: {}", all.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_is_known_by_its_name() {
        assert_eq!(Client::of_agent("cursor"), Some(Client::Cursor));
        assert_eq!(Client::of_agent("claude-2"), Some(Client::Claude));
        assert_eq!(Client::of_agent("claude-Explore-45"), Some(Client::Claude));
        assert_eq!(Client::of_agent("cursory"), None);
        assert_eq!(Client::of_agent("ada"), None);
        assert!(Client::Cursor.is_editor() && !Client::Claude.is_editor());
    }

    #[test]
    fn every_client_is_found_by_its_word() {
        for client in Client::ALL {
            assert_eq!(client.as_str().parse(), Ok(client));
        }
        assert!(
            "emacs"
                .parse::<Client>()
                .unwrap_err()
                .contains("claude, codex")
        );
    }
}
