//! The clients that Flightline connects to.

use std::fmt;
use std::str::FromStr;

/// A coding agent's program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Client {
    /// Claude Code.
    Claude,
    /// Codex CLI.
    Codex,
    /// Gemini CLI.
    Gemini,
    /// OpenCode.
    Opencode,
    /// GitHub Copilot CLI.
    Copilot,
    /// Cline CLI.
    Cline,
    /// Cursor.
    Cursor,
}

impl Client {
    /// Every client, in the order they are offered.
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
    #[must_use]
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

    /// Its name as its vendor writes it.
    #[must_use]
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
