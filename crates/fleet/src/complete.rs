//! Completion with live ids: what the shell offers comes from the store of the folder it is in.

use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use flightline::core::Kind;
use flightline::ids::ListNames;

use crate::app::App;
use crate::cli::{ColorWhen, Globals};
use crate::config::Environment;
use crate::ui::Ui;

/// Offers missions.
pub fn missions() -> ArgValueCandidates {
    ArgValueCandidates::new(|| candidates(Kind::Mission))
}

/// Offers sorties.
pub fn sorties() -> ArgValueCandidates {
    ArgValueCandidates::new(|| candidates(Kind::Sortie))
}

/// Offers agents, by name.
pub fn agents() -> ArgValueCandidates {
    ArgValueCandidates::new(|| candidates(Kind::Agent))
}

/// Offers messages.
pub fn messages() -> ArgValueCandidates {
    ArgValueCandidates::new(|| candidates(Kind::Message))
}

/// Offers checkpoints.
pub fn checkpoints() -> ArgValueCandidates {
    ArgValueCandidates::new(|| candidates(Kind::Checkpoint))
}

/// Offers tokens, by name.
pub fn tokens() -> ArgValueCandidates {
    ArgValueCandidates::new(|| candidates(Kind::Token))
}

/// Offers locked paths.
pub fn locks() -> ArgValueCandidates {
    ArgValueCandidates::new(|| candidates(Kind::Lock))
}

/// Nothing is offered where there is no store: a shell that waits for Tab gets no error.
fn candidates(kind: Kind) -> Vec<CompletionCandidate> {
    let globals = Globals {
        dir: None,
        location: None,
        server: None,
        mission: None,
        agent: None,
        json: false,
        fields: Vec::new(),
        quiet: true,
        verbose: false,
        color: ColorWhen::Never,
        no_input: true,
        idempotency_key: None,
    };
    let ui = Ui {
        json: false,
        fields: Vec::new(),
        quiet: true,
        terminal: false,
        written: false,
    };
    let app = Environment::read().and_then(|mut env| {
        // Whoever waits for Tab does not wait for a server that is not there.
        env.patience_ms.get_or_insert_with(|| "500".to_owned());
        App::new(globals, ui, env)
    });
    let Ok(mut app) = app else {
        return Vec::new();
    };
    let named = app.run(&ListNames { kind, limit: 200 });
    named
        .unwrap_or_default()
        .into_iter()
        .map(|(id, name)| match kind {
            Kind::Agent | Kind::Lock | Kind::Token => CompletionCandidate::new(name),
            _ => CompletionCandidate::new(id.chars().take(12).collect::<String>())
                .help(Some(name.into())),
        })
        .collect()
}
