//! `fleet serve --check URL`: checks the health of a server, for supervisors that restart it when it is ill.

use std::process::ExitCode;
use std::time::Duration;

use flightline::core::{Code, Refusal};
use serde_json::Value;

use crate::app::App;
use crate::command::CommandResult;

/// The time that an answer may take.
const AT_MOST: Duration = Duration::from_secs(4);

pub fn run(url: &str, app: &App) -> CommandResult {
    let config = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .timeout_global(Some(AT_MOST))
        .max_redirects(0)
        .build();
    let address = format!("{}/healthz", url.trim_end_matches('/'));
    let answer = ureq::Agent::new_with_config(config).get(&address).call();
    let silent = |error: ureq::Error| {
        Refusal::new(
            Code::Unavailable,
            format!("{address} does not answer: {error}"),
        )
        .hint("check whether it is running, and read its log")
    };
    let mut response = answer.map_err(silent)?;
    let status = response.status();
    let text = response.body_mut().read_to_string().map_err(silent)?;
    let health: Value = serde_json::from_str(&text).unwrap_or_default();
    let Some(word) = health["status"].as_str() else {
        return Err(Refusal::new(
            Code::Unavailable,
            format!("{address} answers {status}, but not as a Flightline server"),
        )
        .hint("give the address that the server printed when it started, such as `http://127.0.0.1:7878`"));
    };
    if !status.is_success() {
        let trouble = health["write_probe"]["trouble"].as_str();
        return Err(Refusal::new(
            Code::Unavailable,
            format!(
                "the server is {word}: {}",
                trouble.unwrap_or("no write was tried for a while")
            ),
        )
        .hint("look at its log, and at the store"));
    }
    app.ui.answer(&health, |page| {
        page.line(format_args!("The server is {word}"));
        let jobs = health["jobs"].as_array().into_iter().flatten();
        for job in jobs.filter(|job| job["ok"] == false) {
            let said = |field: &str| job[field].as_str().unwrap_or_default().to_owned();
            page.line(format_args!("  {}: {}", said("name"), said("trouble")));
        }
    })?;
    Ok(ExitCode::SUCCESS)
}
