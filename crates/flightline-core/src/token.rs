//! Tokens: the right to use a server, and its scope. Only the hash of a token's secret is ever kept; the client that
//! asks for a token draws the secret itself, and shows it once.

use crate::Schema;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Code, Refusal};
use crate::event::sha256_hex;
use crate::id::TokenId;
use crate::subject::{Keys, Kind, Subject};
use crate::text::Name;
use crate::time::Time;

/// The beginning of every token, so that people and tools know a token when they see one.
const BEGINNING: &str = "fleet_";
/// The beginning of every project's id.
const PROJECT: &str = "prj-";

words! {
    /// The reach of a token; each scope allows all that those before it allow, and more.
    pub enum Scope {
        /// The token's holder reads, and changes nothing.
        Read = "read",
        /// The token's holder works, as one agent and no other.
        Agent = "agent",
        /// The token's holder coordinates: acts for any agent, deletes and restores.
        Dispatch = "dispatch",
        /// The token's holder gives and takes tokens.
        Admin = "admin",
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Scope {
    type Err = Refusal;

    fn from_str(word: &str) -> Result<Self, Refusal> {
        Self::from_word(word).ok_or_else(|| {
            Refusal::invalid(format!("`{word}` is not a scope"))
                .hint("scopes: read, agent, dispatch, admin")
        })
    }
}

/// A token that opens a server for one project.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token {
    pub id: TokenId,
    /// The purpose of the token; its holder is `user:NAME` where no agent acts.
    pub name: Name,
    pub scope: Scope,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<Name>,
    pub sha256: String,
    pub created_by: String,
    pub created_at: Time,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<Time>,
}

impl Subject for Token {
    const KIND: Kind = Kind::Token;

    fn key(&self) -> String {
        self.id.to_string()
    }

    fn keys(&self) -> Keys {
        Keys {
            name: Some(self.name.to_string()),
            status: match self.revoked_at {
                Some(_) => "revoked",
                None => "given",
            },
            ..Keys::default()
        }
    }
}

pub fn too_narrow(token: &Name, scope: Scope, needed: Scope) -> Refusal {
    Refusal::new(
        Code::Forbidden,
        format!("the token `{token}` has the scope `{scope}`, and this needs `{needed}`"),
    )
    .hint(format!(
        "get another with `fleet token create NAME --scope {needed}`"
    ))
}

impl Token {
    /// Returns true when the token was neither taken back nor has ended.
    pub fn is_valid(&self, now: Time) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|end| now < end)
    }

    pub fn too_narrow(&self, needed: Scope) -> Refusal {
        too_narrow(&self.name, self.scope, needed)
    }

    /// Refuses a caller without its secret, and one that comes too late. Only a caller with the secret is told more
    /// than that the token is not known. (Hashes of random secrets can be compared like any text: the time that it
    /// takes tells nothing of the secret.)
    pub fn admit(&self, presented: &Presented, now: Time) -> Result<(), Refusal> {
        let because = |why: &str| {
            Err(
                Refusal::new(Code::Unauthenticated, format!("this token {why}"))
                    .hint("get a new one with `fleet token create NAME`"),
            )
        };
        match self {
            _ if self.sha256 != presented.sha256 => Err(unknown()),
            Self {
                revoked_at: Some(_),
                ..
            } => because("was revoked"),
            Self {
                expires_at: Some(end),
                ..
            } if now >= *end => because("has expired"),
            _ => Ok(()),
        }
    }
}

/// A token as a caller presents it, with the hash of its secret in place of the secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct Presented {
    /// The project that the token claims to open.
    pub project: String,
    /// The id that the token claims to have.
    pub id: TokenId,
    /// The SHA-256 of the secret.
    pub sha256: String,
}

impl Presented {
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        let parts: Vec<&str> = match text.strip_prefix(BEGINNING) {
            Some(rest) => rest.split('_').collect(),
            None => return Err(unknown()),
        };
        let hex = |text: &str, digits: usize| {
            text.len() == digits
                && text
                    .bytes()
                    .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        };
        match parts[..] {
            [project, id, secret] if hex(project, 32) && hex(id, 32) && hex(secret, 64) => {
                let uuid = |text| uuid::Uuid::try_parse(text).map_err(|_| unknown());
                Ok(Self {
                    project: format!("{PROJECT}{}", uuid(project)?),
                    id: TokenId::new(uuid(id)?),
                    sha256: sha256_hex(secret),
                })
            }
            _ => Err(unknown()),
        }
    }
}

/// A token as it is handed out. It names its project, so that a server of many knows where to look.
pub fn written(project: &str, id: TokenId, secret: &str) -> String {
    let digits = |id: &str, prefix: &str| -> String {
        let rest = id.strip_prefix(prefix).unwrap_or(id);
        rest.chars().filter(|c| *c != '-').collect()
    };
    let (project, id) = (
        digits(project, PROJECT),
        digits(&id.to_string(), TokenId::PREFIX),
    );
    format!("{BEGINNING}{project}_{id}_{secret}")
}

/// The refusal for every token that is not ours, whatever is wrong with it.
pub fn unknown() -> Refusal {
    Refusal::new(Code::Unauthenticated, "this token is not known")
        .hint("get one with `fleet token create NAME`, where the store is")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROJECT_ID: &str = "prj-00000000-0000-4000-8000-00000000000a";

    fn token() -> Token {
        Token {
            id: "tok-4f1c09ab-0000-4000-8000-000000000001".parse().unwrap(),
            name: Name::parse("name", "laptop").unwrap(),
            scope: Scope::Read,
            agent: None,
            sha256: sha256_hex(&"ab".repeat(32)),
            created_by: "user:grace".to_owned(),
            created_at: Time::from_millis(0),
            expires_at: Some(Time::from_millis(1_000)),
            revoked_at: None,
        }
    }

    fn said(token: &Token, text: &str, now: i64) -> Result<(), String> {
        let admitted = Presented::parse(text)
            .and_then(|presented| token.admit(&presented, Time::from_millis(now)));
        admitted.map_err(|refusal| refusal.message)
    }

    #[test]
    fn a_token_opens_until_it_expires_or_is_revoked() {
        let (token, text) = (token(), written(PROJECT_ID, token().id, &"ab".repeat(32)));
        assert_eq!(said(&token, &text, 999), Ok(()));
        assert_eq!(
            said(&token, &text, 1_000),
            Err("this token has expired".to_owned())
        );
        let revoked = Token {
            revoked_at: Some(Time::from_millis(1)),
            ..token
        };
        assert_eq!(
            said(&revoked, &text, 2),
            Err("this token was revoked".to_owned())
        );
    }

    #[test]
    fn who_has_not_the_secret_learns_nothing() {
        let token = Token {
            revoked_at: Some(Time::from_millis(1)),
            ..token()
        };
        let right = written(PROJECT_ID, token.id, &"ab".repeat(32));
        for wrong in [
            "",
            "fleet_",
            "fleet__",
            &right[..right.len() - 1],
            &right.to_uppercase(),
            &right.replace("ab", "cd"),
            &format!("{right}0"),
            &format!(" {right}"),
        ] {
            assert_eq!(
                said(&token, wrong, 2),
                Err("this token is not known".to_owned()),
                "{wrong}"
            );
        }
    }

    #[test]
    fn a_token_never_passes_for_text() {
        let text = format!(
            "use {} now",
            written(PROJECT_ID, token().id, &"ab".repeat(32))
        );
        assert_eq!(
            crate::redact::redact(&text),
            "use [redacted:fleet-token] now"
        );
    }

    #[test]
    fn scopes_widen() {
        assert!(Scope::ALL.is_sorted());
        for scope in Scope::ALL {
            assert_eq!(scope.as_str().parse::<Scope>().unwrap(), scope);
        }
    }
}
