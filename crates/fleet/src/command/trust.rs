//! `fleet trust`: trusts this repository's fleet, or revokes the trust.

use std::process::ExitCode;

use clap::Args;
use flightline::core::{Code, Kind, Refusal};
use flightline::ids::ListIds;
use serde::Serialize;

use super::CommandResult;
use crate::app::{App, TrustState, without_project};

#[derive(Debug, Args)]
pub struct TrustArgs {
    /// Revoke the trust that was given
    #[arg(long)]
    revoke: bool,
    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
}

#[derive(Serialize)]
struct TrustReport {
    state: std::path::PathBuf,
    /// None where the settings name none yet.
    project: Option<String>,
    trusted: bool,
    tracked: bool,
}

pub fn run(args: &TrustArgs, app: &mut App) -> CommandResult {
    let (state, config) = (app.home()?.state.clone(), app.written_config()?);
    // When the fleet is at a server, the settings here are all that can be trusted.
    let is_local = app.must_be_local().is_ok();
    // A state folder without a store may be a clone's, with files that a store can be built from.
    let has_store = app.fingerprint(&config)?.is_some();
    // Settings that were written before the store was made name no project.
    let brought = app.brought(&config)?;
    if is_local && (has_store || brought.is_empty()) {
        App::project(&config, &state)?;
    }
    let tracked = app.work_tree()?.tracks_state();
    let standing = app.standing(&config)?;
    let is_lost = is_local && !has_store && app.is_beside_its_settings(&config)?;
    if is_lost && brought.is_empty() && !args.revoke {
        return Err(Refusal::new(
            Code::NotFound,
            format!("there is no store in {}", state.display()),
        )
        .hint(without_project(&state)));
    }
    let is_own = !is_local || has_store || app.is_own_home()?;
    let was = standing == TrustState::Trusted && is_own && brought.is_empty();
    if args.revoke || !was {
        app.must_be_a_person("decide which fleets are trusted")?;
    }
    if !args.revoke && !was {
        let content = match (is_local, is_lost) {
            (false, _) => "  settings, for work at the server: see `fleet config list`".to_owned(),
            (true, true) => "  no store; its settings and its checkpoint files may have come with the repository"
                .to_owned(),
            (true, false) => describe(app),
        };
        app.ui.talk(format_args!("{}\n{content}", state.display()));
        if tracked {
            app.ui
                .warn("the repository tracks this folder: a pull can replace it");
        }
        if !args.yes {
            let act = match is_local {
                true => {
                    "trust this fleet: its constraints bind agents here, and its tokens open a server"
                }
                false => {
                    "trust these settings: agents here follow them, and files of other systems are kept as they say"
                }
            };
            app.ui.confirm(act, "fleet trust -y", app.asking())?;
        }
    }
    match args.revoke {
        true => app.distrust_it()?,
        false => {
            app.trust_it()?;
            if !brought.is_empty() {
                // From now on, a store may be made of the files that are here.
                app.accept(&app.brought(&config)?)?;
            }
        }
    }
    let trusted = match is_local && !has_store {
        true => app.is_own_home()?,
        false => app.standing(&config)? == TrustState::Trusted,
    };
    if trusted == args.revoke && (is_local || !args.revoke) {
        return Err(Refusal::new(
            Code::Integrity,
            "the list of trusted fleets does not read back as written",
        ));
    }
    let answer = TrustReport {
        state,
        project: config.project,
        trusted,
        tracked,
    };
    app.ui.answer(&answer, |page| {
        let shown = answer.state.display();
        page.line(match (trusted, was) {
            (true, false) => format!("Trusted: {shown}"),
            (true, true) => format!("{shown} is trusted already"),
            (false, true) => format!("No longer trusted: {shown}"),
            (false, false) => format!("{shown} was not trusted"),
        });
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Describes the content of a fleet that is not trusted yet, as far as it can be read.
fn describe(app: &mut App) -> String {
    let kinds = [Kind::Mission, Kind::Agent, Kind::Note, Kind::Token];
    let ids = match app.run(&ListIds {
        kinds: kinds.to_vec(),
    }) {
        Ok(ids) => ids.ids,
        Err(refusal) => return format!("  it cannot be read: {}", refusal.message),
    };
    let count = |kind: Kind| ids.get(&kind).map_or(0, Vec::len);
    format!(
        "  missions {} · agents {} · notes {} · tokens {}",
        count(Kind::Mission),
        count(Kind::Agent),
        count(Kind::Note),
        count(Kind::Token)
    )
}
