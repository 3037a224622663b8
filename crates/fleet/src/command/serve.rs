//! `fleet serve`: serves the fleet over HTTP, and checks the health of a server.

mod check;
mod log;

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clap::Args;
use flightline::core::Refusal;
use flightline_server::{DEFAULT_ADDRESS, Limits, Ready, ServerMessage, Setup, Stop, TestMode};
use serde::Serialize;

use self::log::{Log, LogFormat};
use super::{CommandResult, typed};
use crate::app::App;
use crate::config;
use crate::ui::Ui;

#[derive(Debug, Args)]
#[cfg_attr(
    feature = "otel",
    command(after_help = "Traces are sent to OTEL_EXPORTER_OTLP_ENDPOINT.")
)]
pub struct ServeArgs {
    /// The address to listen on; port 0 picks a free port
    #[arg(long, value_name = "IP:PORT", default_value = DEFAULT_ADDRESS)]
    addr: String,
    /// Another host name that requests may use, such as that of a proxy in front (repeatable)
    #[arg(long = "allow-host", value_name = "NAME")]
    hosts: Vec<String>,
    /// Stop after this time, such as `10m` (default: never)
    #[arg(long = "for", value_name = "SPAN", value_parser = typed::span)]
    during: Option<u64>,
    /// The format of the log on stderr: warnings, and with `-v` requests
    #[arg(long = "log-format", value_name = "FORMAT", value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,
    /// Only check the health of the server at this address
    #[arg(long, value_name = "URL", conflicts_with_all = ["hosts", "during"])]
    check: Option<String>,
}

pub fn run(args: &ServeArgs, app: &mut App) -> CommandResult {
    // A health check works for any server, also where another is logged in to.
    if let Some(url) = &args.check {
        return check::run(url, app);
    }
    app.must_be_local()?;
    app.must_be_trusted()?;
    app.will_answer("serving")?;
    let address: SocketAddr = args.addr.parse().map_err(|_| {
        Refusal::invalid(format!("`{}` is not an address to listen at", args.addr)).hint(format!(
            "give an IP and a port, such as `{DEFAULT_ADDRESS}`"
        ))
    })?;
    let home = app.home()?.clone();
    let config = app.config()?;
    let log = Log {
        ui: app.ui.clone(),
        format: args.log_format,
        verbose: app.globals.verbose,
        clock: app.open_options(&config)?.clock,
    };
    if !address.ip().is_loopback() {
        log.warning(&format!(
            "{address} can be reached from other machines, and tokens are sent unencrypted: put a proxy with TLS in front"
        ));
    }
    let asked = config::traces();
    for warning in &asked.warnings {
        log.warning(warning);
    }
    let setup = Setup {
        address,
        hosts: args.hosts.clone(),
        location: app.location(&config, &home.state)?,
        project: App::project(&config, &home.state)?,
        options: app.open_options(&config)?,
        state: home.state,
        mirrors: app.mirrors()?,
        tree: Some(app.work_tree()?),
        user: app.env.user.clone(),
        lifetime: args.during.map(Duration::from_millis),
        limits: Limits::default(),
        api: app.api()?,
        test_mode: app.env.test_token.as_ref().map(|token| TestMode {
            token: token.reveal().to_owned(),
            user: app.env.user.clone(),
        }),
        policy: config.policy,
        traces: asked.traces,
    };
    // A server whose address cannot be printed is of no use.
    let stop = Stop::default();
    let untold: Arc<Mutex<Option<Refusal>>> = Arc::default();
    let (told, ends) = (Arc::clone(&untold), stop.clone());
    let say = Arc::new(move |said: ServerMessage| match said {
        ServerMessage::Ready(ready) => {
            if let Err(refusal) = announce(&log.ui, &ready, asked.to.as_deref()) {
                *told.lock().unwrap_or_else(PoisonError::into_inner) = Some(refusal);
                ends.now();
            }
        }
        ServerMessage::Warning(text) => log.warning(&text),
        ServerMessage::Served(line) => log.request(&line),
        ServerMessage::Stopping => log.note("stopping: finishing the accepted requests"),
    });
    flightline_server::serve(setup, say, &stop)?;
    let untold = untold.lock().unwrap_or_else(PoisonError::into_inner).take();
    match untold {
        Some(refusal) => Err(refusal),
        None => Ok(ExitCode::SUCCESS),
    }
}

/// Answers `fleet openapi`: the description of the server's API.
pub fn describe(app: &mut App) -> CommandResult {
    let described = flightline_server::openapi();
    app.ui.answer(&described, |page| {
        page.block(0, format_args!("{described:#}"))
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Address and process of a running server.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Serving {
    /// The address of the server.
    url: String,
    /// The id of the server's process.
    pid: u32,
    /// The number of tokens that are valid.
    tokens: usize,
    /// The address that traces are sent to, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    traces: Option<String>,
}

fn announce(ui: &Ui, ready: &Ready, traces: Option<&str>) -> Result<(), Refusal> {
    let url = format!("http://{}", ready.address);
    let answer = Serving {
        url: url.clone(),
        pid: std::process::id(),
        tokens: ready.tokens,
        traces: traces.map(str::to_owned),
    };
    ui.answer(&answer, |page| {
        page.line(format_args!("Serving this fleet at {url}"));
        if ready.tokens == 0 {
            page.hint("There is no token yet: create one with `fleet token create NAME`");
        }
        if let Some(to) = traces {
            page.line(format_args!("Traces go to {to}"));
        }
    })
}
