//! Connects to PostgreSQL within limits of time, whatever the other side does or does not do.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use postgres::Config;

use super::root_cause;
use super::tls;
use super::wire::{ConnectPlan, Wire};
use crate::error::StoreError;

/// The time that a connection may take in all: names, TCP, TLS, password, start.
const AT_MOST: Duration = Duration::from_secs(10);
/// The time for which the server's machine may leave sent data unconfirmed before it counts as gone.
const UNCONFIRMED: Duration = Duration::from_secs(15);
/// The most connections that may be under way without an answer: each has a thread.
const UNDER_WAY: usize = 32;

static WAITING: AtomicUsize = AtomicUsize::new(0);

/// A permit for one of the connections under way.
struct ConnectPermit;

impl ConnectPermit {
    fn take() -> Option<Self> {
        // Counted before it is checked: an attempt that finds no room gives its place back by dropping it.
        let place = Self;
        (WAITING.fetch_add(1, Ordering::SeqCst) < UNDER_WAY).then_some(place)
    }
}

impl Drop for ConnectPermit {
    fn drop(&mut self) {
        WAITING.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Connects to the server at `url`.
pub(super) fn connect(url: &str, patience: Duration) -> Result<Wire, StoreError> {
    let (url, wishes) = tls::read(url)?;
    let mut config: Config = url.parse().map_err(|error: postgres::Error| {
        StoreError::Location(format!(
            "the PostgreSQL URL cannot be read: {}",
            root_cause(&error)
        ))
    })?;
    // To PostgreSQL, zero means for ever.
    let millis = patience.as_millis().max(1);
    // A frozen client must not freeze the project, and a frozen server not the client.
    let limits = format!(
        "-c idle_in_transaction_session_timeout=5000 -c lock_timeout={millis} -c statement_timeout=60000 \
         -c default_transaction_isolation=read\\ committed"
    );
    let limits = match config.get_options() {
        Some(own) => format!("{limits} {own}"),
        None => limits,
    };
    let at_most = config
        .get_connect_timeout()
        .copied()
        .unwrap_or(AT_MOST)
        .clamp(Duration::from_secs(1), Duration::from_secs(60));
    config
        .options(&limits)
        .application_name("fleet")
        .connect_timeout(at_most)
        // A machine that is gone, with or without something on its way, is noticed within half a minute.
        .tcp_user_timeout(UNCONFIRMED)
        .keepalives(true)
        .keepalives_idle(Duration::from_secs(10))
        .keepalives_interval(Duration::from_secs(5))
        .keepalives_retries(3);
    let tls = wishes.apply(&mut config)?;
    let place = ConnectPermit::take().ok_or_else(|| silent(at_most))?;
    Wire::connect(ConnectPlan { config, tls }, at_most, place)
}

pub(super) fn refused(error: &postgres::Error) -> StoreError {
    if error
        .to_string()
        .starts_with("error performing TLS handshake")
    {
        return tls::failure(&root_cause(error));
    }
    StoreError::Unreachable(format!("PostgreSQL: {}", root_cause(error)))
}

/// The error of a server that takes the connection and then says nothing. The driver limits only how long TCP takes.
pub(super) fn silent(at_most: Duration) -> StoreError {
    let seconds = at_most.as_secs();
    StoreError::Unreachable(format!(
        "PostgreSQL: it takes connections and does not answer them within {seconds} seconds"
    ))
}
