//! `fleet token`: creates, lists and revokes tokens.

use std::process::ExitCode;

use clap::Subcommand;
use flightline::core::event::sha256_hex;
use flightline::core::time::parse_span;
use flightline::core::token::{Scope, written};
use flightline::core::{Kind, Refusal};
use flightline::token::{CreateToken, ListTokens, RevokeToken, TokenView, draw_secret};
use serde::Serialize;

use super::{CommandResult, typed};
use crate::app::App;
use crate::complete;
use crate::ui::{Cell, Page};

#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// Create a token, and show it once
    Create {
        /// The name of the token, such as `laptop`
        name: String,
        /// The scope: read, agent, dispatch or admin (default: agent with `--as-agent`, else dispatch)
        #[arg(long)]
        scope: Option<String>,
        /// The agent it acts as; a token of scope `agent` acts as no other
        #[arg(long, value_name = "NAME", add = complete::agents())]
        as_agent: Option<String>,
        /// Time until it expires: days, a span such as `12h`, or `never`
        #[arg(long, value_name = "SPAN", default_value = "90d")]
        expires: String,
    },
    /// List tokens, oldest first
    List {
        /// Include expired and revoked tokens
        #[arg(long)]
        all: bool,
    },
    /// Revoke a token; it is refused from now on
    Revoke {
        /// The token, by name or id
        #[arg(add = complete::tokens())]
        token: String,
    },
}

/// A new token, with its secret, which is shown only once.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CreatedToken {
    /// The secret, as it is sent after `Bearer`.
    token: String,
    /// The id of the token.
    id: String,
    /// The name of the token.
    name: String,
    /// The most that the token may do.
    scope: Scope,
    /// The agent that the token speaks for; none for any agent.
    agent: Option<String>,
    /// The time at which the token expires; none when it does not.
    expires_at: Option<String>,
}

pub fn run(command: TokenCommand, app: &mut App) -> CommandResult {
    match command {
        TokenCommand::Create {
            name,
            scope,
            as_agent,
            expires,
        } => {
            let expires_in_ms = match expires.as_str() {
                "never" => None,
                span => Some(parse_span(span, "d").map_err(Refusal::invalid)?),
            };
            // Drawn here: the store sees its hash only, and so does everything that is kept of the request.
            let config = app.config()?;
            let secret = draw_secret(&app.open_options(&config)?.ids);
            let request = CreateToken {
                name: typed::name("name", &name)?,
                scope: match (&scope, &as_agent) {
                    (Some(scope), _) => scope.parse()?,
                    // A caller that names an agent wants a token for that agent, and no more.
                    (None, Some(_)) => Scope::Agent,
                    (None, None) => Scope::Dispatch,
                },
                agent: typed::maybe(as_agent.as_ref(), |name| typed::name("agent name", name))?,
                expires_in_ms,
                sha256: sha256_hex(&secret),
            };
            create(&request, &secret, app)
        }
        TokenCommand::List { all } => {
            let tokens = app.run(&ListTokens { all })?;
            let short = app.short(&[Kind::Token], &tokens)?;
            let now = app.now()?;
            app.ui.answer(&tokens, |page| {
                page.at(now);
                if tokens.is_empty() {
                    page.hint("No token yet: create one with `fleet token create NAME`");
                    return;
                }
                let rows: Vec<Vec<Cell>> = tokens
                    .iter()
                    .map(|token| row(page, token, short.id(token.id)))
                    .collect();
                page.table(
                    &[
                        "ID", "NAME", "SCOPE", "AGENT", "CREATED", "BY", "EXPIRES", "STATE",
                    ],
                    &rows,
                );
            })?;
            Ok(ExitCode::SUCCESS)
        }
        TokenCommand::Revoke { token } => {
            let revoked = app.run(&RevokeToken { token })?;
            app.ui.answer(&revoked, |page| {
                page.line(format_args!(
                    "Revoked {} ({}): it is refused from now on",
                    revoked.name, revoked.scope
                ));
            })?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn create(request: &CreateToken, secret: &str, app: &mut App) -> CommandResult {
    app.will_answer("created-token")?;
    let view = app.run(request)?;
    let created = CreatedToken {
        token: written(&view.project, view.id, secret),
        id: view.id.to_string(),
        name: view.name.to_string(),
        scope: view.scope,
        agent: view.agent.as_ref().map(ToString::to_string),
        expires_at: view.expires_at.map(|at| at.to_string()),
    };
    // Nothing but the token, so that it can go into a file or a pipe as it is.
    app.ui.answer(&created, |page| page.line(&created.token))?;
    if !app.ui.json {
        app.ui.talk(format_args!(
            "This is shown once: keep it where only you can read it. {}.",
            what(&view)
        ));
    }
    Ok(ExitCode::SUCCESS)
}

fn what(token: &TokenView) -> String {
    let agent = match &token.agent {
        Some(agent) => format!(", acts as {agent}"),
        None => String::new(),
    };
    let ends = match token.expires_at {
        Some(at) => format!(", expires {at}"),
        None => ", does not expire".to_owned(),
    };
    format!("Scope {}{agent}{ends}", token.scope)
}

fn row(page: &Page, token: &TokenView, id: String) -> Vec<Cell> {
    let state = match (token.revoked_at, token.valid) {
        (Some(at), _) => format!("revoked {}", page.time(at)),
        (None, true) => "valid".to_owned(),
        (None, false) => "expired".to_owned(),
    };
    vec![
        Cell::new(id),
        Cell::new(&token.name),
        Cell::new(token.scope),
        Cell::new(token.agent.as_ref().map_or("-", |agent| agent.as_str())),
        Cell::new(page.time(token.created_at)),
        Cell::new(&token.created_by),
        Cell::new(
            token
                .expires_at
                .map_or_else(|| "never".to_owned(), |at| at.to_string()),
        ),
        Cell::new(state),
    ]
}
