//! Operations on the tokens that open a server.

use crate::Schema;
use flightline_core::event::{EventType, sha256_hex};
use flightline_core::time::Millis;
use flightline_core::token::{Presented, Token, unknown};
use flightline_core::{Code, Name, Refusal, Time, TokenId};
use flightline_store::clock::IdSource;
use flightline_store::{Find, Tx};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::checkpoint::readable;
use crate::error::Result;
use crate::fleet::{Access, ActsFor, Operation, Scope};
use crate::mission::short;
use crate::op_context::{OpContext, agent_named, check_new_name};

/// Draws a secret of 256 bits. It stays with the client that drew it: operations see its hash only.
pub fn draw_secret(ids: &IdSource) -> String {
    // A random UUID has 122 random bits.
    sha256_hex(&format!("{}{}{}", ids.next(), ids.next(), ids.next()))
}

/// Creates a token for the project.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct CreateToken {
    /// The name of the token: its purpose.
    pub name: Name,
    /// The scope of the token.
    pub scope: Scope,
    /// The agent that the token acts as.
    pub agent: Option<Name>,
    /// Time until the token expires; without it, the token never expires.
    pub expires_in_ms: Option<Millis>,
    /// The SHA-256 of the token's secret.
    pub sha256: String,
}

/// Lists tokens, oldest first.
#[derive(Clone, Debug, Default, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct ListTokens {
    /// List expired and revoked tokens too.
    pub all: bool,
}

/// Revokes a token, so that it opens nothing any more.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct RevokeToken {
    /// The token to revoke, by name or id.
    pub token: String,
}

/// Checks a token that a caller presents.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct CheckToken {
    /// The token that was presented.
    pub presented: Presented,
}

/// A token as it is shown, without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct TokenView {
    /// The token's id.
    pub id: TokenId,
    /// The project that the token opens.
    pub project: String,
    /// The name of the token: its purpose.
    pub name: Name,
    /// The scope of the token.
    pub scope: Scope,
    /// The agent that the token acts as.
    pub agent: Option<Name>,
    /// True when the token is valid now.
    pub valid: bool,
    /// The name of the agent or person that created the token.
    pub created_by: String,
    /// The time at which the token was created.
    pub created_at: Time,
    /// The time at which the token expires.
    pub expires_at: Option<Time>,
    /// The time at which the token was revoked.
    pub revoked_at: Option<Time>,
}

fn view(ctx: &OpContext<'_, '_>, token: Token) -> TokenView {
    TokenView {
        valid: token.is_valid(ctx.now()),
        id: token.id,
        project: ctx.tx.project_id().to_owned(),
        name: token.name,
        scope: token.scope,
        agent: token.agent,
        created_by: token.created_by,
        created_at: token.created_at,
        expires_at: token.expires_at,
        revoked_at: token.revoked_at,
    }
}

impl Operation for CreateToken {
    const NAME: &'static str = "create_token";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Admin;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Fleet;
    type Outcome = TokenView;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<TokenView> {
        refuse_others(ctx)?;
        if self.sha256.len() != 64
            || !self
                .sha256
                .bytes()
                .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        {
            return Err(Refusal::invalid(
                "the hash of a secret has 64 hexadecimal digits in lower case",
            )
            .into());
        }
        match (&self.agent, self.scope) {
            (None, Scope::Agent) => {
                return Err(
                    Refusal::invalid("a token of scope `agent` needs an agent to act as")
                        .hint("give `--as-agent NAME`")
                        .into(),
                );
            }
            (Some(agent), _) if agent_named(ctx.tx, agent.as_str())?.is_none() => {
                check_new_name(ctx.tx, agent)?;
            }
            (Some(_), _) => {}
            (None, Scope::Read | Scope::Dispatch | Scope::Admin) => {}
        }
        let now = ctx.now();
        let given = valid_tokens(ctx)?;
        if let Some(other) = given.iter().find(|token| token.name == self.name) {
            return Err(Refusal::new(
                Code::AlreadyExists,
                format!("there is a token `{}` already", other.name),
            )
            .hint(format!(
                "choose another name, or revoke that one with `fleet token revoke {}`",
                other.name
            ))
            .into());
        }
        let token = Token {
            id: TokenId::new(ctx.tx.uuid()),
            name: self.name.clone(),
            scope: self.scope,
            agent: self.agent.clone(),
            sha256: self.sha256.clone(),
            created_by: ctx.actor(),
            created_at: now,
            expires_at: self.expires_in_ms.map(|span| now.plus(span)),
            revoked_at: None,
        };
        let data = json!({ "name": token.name, "scope": token.scope, "agent": token.agent });
        ctx.tx.set(EventType::TokenCreated, &token, &data)?;
        Ok(view(ctx, token))
    }
}

impl Operation for ListTokens {
    const NAME: &'static str = "list_tokens";
    const ACCESS: Access = Access::Read;
    const SCOPE: Scope = Scope::Admin;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Fleet;
    type Outcome = Vec<TokenView>;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<Vec<TokenView>> {
        let (tokens, _) = readable::<Token>(ctx.tx, Find::All)?;
        let views = tokens.into_iter().map(|token| view(ctx, token));
        Ok(views.filter(|token| self.all || token.valid).collect())
    }
}

impl Operation for RevokeToken {
    const NAME: &'static str = "revoke_token";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Admin;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Fleet;
    type Outcome = TokenView;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<TokenView> {
        refuse_others(ctx)?;
        let given = valid_tokens(ctx)?;
        let named = given
            .into_iter()
            .find(|token| token.name.as_str() == self.token);
        let mut token = match named {
            Some(token) => token,
            None if self.token.starts_with(TokenId::PREFIX) => {
                ctx.by_id::<Token>(&self.token, TokenId::PREFIX)?
            }
            None => {
                return Err(Refusal::new(
                    Code::NotFound,
                    format!(
                        "there is no token `{}`",
                        flightline_core::redact::shown(&self.token)
                    ),
                )
                .hint("list them with `fleet token list`")
                .into());
            }
        };
        let now = ctx.now();
        // Revoking a revoked token changes nothing.
        if token.revoked_at.is_none() {
            token.revoked_at = Some(now);
            let data = json!({ "name": token.name, "token_id": short(token.id) });
            ctx.tx.set(EventType::TokenRevoked, &token, &data)?;
        }
        Ok(view(ctx, token))
    }
}

impl Operation for CheckToken {
    const NAME: &'static str = "check_token";
    const BRIEFS: bool = true;
    const ACCESS: Access = Access::Read;
    const SCOPE: Scope = Scope::Admin;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Fleet;
    type Outcome = TokenView;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<TokenView> {
        let token = admit(ctx.tx, &self.presented)?;
        Ok(view(ctx, token))
    }
}

/// The token that is presented, if it opens this project now.
pub(crate) fn admit(tx: &mut Tx<'_>, presented: &Presented) -> Result<Token> {
    if presented.project != tx.project_id() {
        return Err(unknown().into());
    }
    let found = tx.get::<Token>(presented.id)?;
    let token = found.ok_or_else(unknown)?;
    token.admit(presented, tx.now())?;
    Ok(token)
}

fn valid_tokens(ctx: &mut OpContext<'_, '_>) -> Result<Vec<Token>> {
    let now = ctx.now();
    let (mut tokens, _) = readable::<Token>(ctx.tx, Find::All)?;
    tokens.retain(|token| token.is_valid(now));
    Ok(tokens)
}

/// Tokens are given and taken back by people and by dispatch.
fn refuse_others(ctx: &OpContext<'_, '_>) -> Result<()> {
    if ctx.is_in_charge() {
        return Ok(());
    }
    Err(Refusal::new(
        Code::NotYours,
        format!("{} may not create or revoke tokens", ctx.actor()),
    )
    .hint("ask a person or dispatch to do it")
    .into())
}
