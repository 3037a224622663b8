//! `fleet login` and `fleet logout`: connects this repository to a server, and disconnects it.

use std::io::{self, IsTerminal};
use std::process::ExitCode;

use clap::Args;
use flightline::clock::TellTime;
use flightline::core::token::Presented;
use flightline::core::{Code, Refusal};
use flightline::remote::{Offline, RemoteCall, Waiting};
use flightline::workspace::beneath::Dir;
use flightline::workspace::repository_root;
use flightline::{Access, Caller, Operation};
use serde_json::json;

use super::{CommandResult, init, typed};
use crate::app::App;
use crate::config::Secret;
use crate::remote::{Address, Known, Sent, TokenOwner};
use crate::terminal::read_hidden;

/// The most bytes of a token that are read.
const LONGEST: usize = 4_096;

#[derive(Debug, Args)]
pub struct LoginArgs {
    /// The address of the server, such as `https://fleet.example.com`
    url: String,
    /// Read the token from stdin, even from a terminal
    #[arg(long)]
    token_stdin: bool,
}

pub fn log_in(args: &LoginArgs, app: &mut App) -> CommandResult {
    let address = Address::parse(&args.url)?;
    let token = token(args, &address, app)?;
    // A token that is not one of ours is not sent.
    Presented::parse(token.reveal())?;
    check(&address, &token, app)?;
    let mut known = known(app)?;
    let root = app.root();
    let state = app.home.as_ref().map_or_else(
        || root.join(flightline::workspace::STATE_FOLDER),
        |home| home.state.clone(),
    );
    let had_store = Dir::private(&state).and_then(|state| state.entry(flightline::store::FILE));
    let had_store = had_store.is_ok_and(|seen| seen.is_some());
    // A repository is found from below by itself; any other folder by its state folder, of which nothing is ever committed.
    if repository_root(&app.here).is_none() {
        init::make_private(&state)?;
        init::ignore_all(&state)?;
    }
    known.remember(&address, &token, &root)?;
    let waiting = app.spool().waiting(TokenOwner::of(&token).as_ref());
    let is_here = |of: &&Waiting| {
        of.server
            .as_deref()
            .is_none_or(|server| server == address.as_str())
    };
    for of in waiting.iter().filter(|of| !is_here(of)) {
        app.ui.warn(format_args!(
            "{} request(s) queued by {} on this machine for {}: `fleet login {2}` and then any command deliver them; \
             `rm {}` drops them",
            of.count,
            of.agent.as_deref().unwrap_or("you"),
            of.server.as_deref().unwrap_or_default(),
            of.file
        ));
    }
    let held: usize = waiting
        .iter()
        .filter(is_here)
        .map(|of| of.for_other_token)
        .sum();
    if held > 0 {
        app.ui.warn(format_args!(
            "{held} request(s) queued on this machine for another token: the next command delivers those of an expired or revoked token; \
             for others, log in with that token"
        ));
    }
    let answer =
        json!({ "server": address.as_str(), "repository": root, "local_store": had_store });
    app.ui.answer(&answer, |page| {
        page.line(format_args!(
            "This repository's fleet is at {address} from now on"
        ));
        if had_store {
            page.hint("The store in its `.flightline/` is kept, but not used: `fleet logout` returns to it");
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

pub fn log_out(app: &mut App) -> CommandResult {
    let (mut known, root) = (known(app)?, app.root());
    let server = known.server_of(&root).map(str::to_owned).ok_or_else(|| {
        Refusal::new(
            Code::NotFound,
            format!("{} is not logged in to a server", root.display()),
        )
        .hint("log in with `fleet login URL`")
    })?;
    let forgot_token = known.forget(&root)?;
    let waiting = app.spool().waiting(None);
    let waiting: usize = waiting.iter().map(|of| of.count).sum();
    if waiting > 0 {
        app.ui.warn(format_args!(
            "{waiting} request(s) still queued on this machine: `fleet login {server}` delivers them"
        ));
    }
    let answer = json!({ "server": server, "repository": root, "token_forgotten": forgot_token, "waiting": waiting });
    app.ui.answer(&answer, |page| {
        let token = match forgot_token {
            true => "its token is forgotten",
            false => "its token is kept for other repositories",
        };
        page.line(format_args!("Logged out of {server}: {token}"));
    })?;
    Ok(ExitCode::SUCCESS)
}

fn known(app: &App) -> Result<Known, Refusal> {
    Known::read(app.env.user_config.as_deref())?.ok_or_else(|| {
        Refusal::new(Code::Failed, "there is no folder for your settings")
            .hint("set HOME, or XDG_CONFIG_HOME")
    })
}

/// Reads the token, which is never shown on the terminal.
fn token(args: &LoginArgs, address: &Address, app: &App) -> Result<Secret, Refusal> {
    let asks = io::stdin().is_terminal() && !args.token_stdin;
    if asks && app.globals.no_input {
        return Err(Refusal::new(
            Code::ConfirmationNeeded,
            "a token must be entered, and prompts are not allowed",
        )
        .hint(format!(
            "give it on stdin: `fleet login {address} --token-stdin < FILE`"
        )));
    }
    let text = if asks {
        app.ui
            .talk(format_args!("Token for {address} (it is not shown):"));
        read_hidden().map_err(|error| {
            Refusal::new(Code::Failed, format!("cannot read the token: {error}"))
        })?
    } else {
        typed::stdin("token", LONGEST)?
    };
    let text = text.trim();
    if text.is_empty() {
        return Err(Refusal::invalid("there is no token on stdin")
            .hint("get one with `fleet token create NAME`, where the store is"));
    }
    Ok(Secret::new(text.to_owned()))
}

/// Checks that the server accepts the token.
fn check(address: &Address, token: &Secret, app: &App) -> Result<(), Refusal> {
    let mut client = app.client(address.clone(), token.clone())?;
    let caller = Caller::default();
    let sent = client.send(
        &RemoteCall {
            operation: TellTime::NAME,
            access: Access::Read,
            rehearse: false,
            offline: Offline::Refused,
            request: "{}".to_owned(),
            later: &|_| Ok("{}".to_owned()),
            caller: &caller,
        },
        None,
    );
    match sent {
        Sent::Answered(answer) => answer
            .reply
            .map(drop)
            .map_err(|refusal| match refusal.code {
                Code::Unauthenticated => {
                    refusal.hint("get another with `fleet token create NAME`, where the store is")
                }
                _ => refusal,
            }),
        Sent::Unreachable { unreachable, .. } => Err(Refusal::new(
            Code::Unavailable,
            format!("the server at {address} {}", unreachable.what),
        )
        .hint(unreachable.advice("nothing was remembered"))),
    }
}
