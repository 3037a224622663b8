//! Limits how far the clock is believed where data is deleted for good: see `core::retention::ClockEvidence`.

use crate::Schema;
use flightline_core::retention::ClockEvidence;
use flightline_core::setting::LastPrune;
use flightline_core::time::Millis;
use flightline_core::{CheckpointId, Code, Refusal, Time};
use flightline_store::Tx;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::error::{Error, Result};

const DAY: Millis = 86_400_000;

/// A clock that is so far ahead of confirmed time that it may be wrong, and the checkpoints that would go by it
/// alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct ClockAhead {
    /// The time that the clock shows.
    pub now: Time,
    /// The latest time that recorded work or this machine's own running confirms.
    pub confirmed: Time,
    /// Number of days by which the clock is ahead of the confirmed time.
    pub days: u64,
    /// The checkpoints that are old enough to go only if the clock is right.
    pub checkpoints: Vec<CheckpointId>,
}

impl ClockAhead {
    pub(super) fn of(now: Time, confirmed: Time, checkpoints: Vec<CheckpointId>) -> Self {
        Self {
            now,
            confirmed,
            days: now.since(confirmed) / DAY,
            checkpoints,
        }
    }

    pub fn told(&self) -> String {
        let day = |time: Time| time.to_string().get(..10).unwrap_or_default().to_owned();
        let go = match self.checkpoints.len() {
            1 => "1 checkpoint is".to_owned(),
            many => format!("{many} checkpoints are"),
        };
        format!(
            "the clock says {}, {} days ahead of the last work that confirms it ({}), and {go} old enough only if the clock is right",
            day(self.now),
            self.days,
            day(self.confirmed)
        )
    }

    /// Deletes nothing by a clock that nothing confirms.
    pub(super) fn refusal(&self) -> Error {
        Refusal::new(
            Code::ConfirmationNeeded,
            format!("nothing was deleted: {}", self.told()),
        )
        .hint("put the clock right; if it is right, run `fleet checkpoints prune --force`")
        .details(json!(self))
        .into()
    }
}

/// The time it is at least, whatever the clock says.
pub(crate) fn least_time(tx: &mut Tx<'_>) -> Result<Time> {
    let last = tx.get::<LastPrune>(LastPrune::KEY)?;
    let work_went_on = match &last {
        Some(last) => {
            let (from, to) = ClockEvidence::work_that_confirms(last);
            tx.has_events_between(from, to)?
        }
        None => false,
    };
    let uptime = tx.uptime();
    let evidence = ClockEvidence {
        created: tx.project_created_at(),
        last: last.as_ref(),
        work_went_on,
        uptime: uptime.as_ref(),
        now: tx.now(),
    };
    Ok(evidence.least_time())
}

/// Forgets requests whose time is over. A caller that repeats a key of today must not find it forgotten, whatever the clock
/// says.
pub(crate) fn forget_requests(tx: &mut Tx<'_>) -> Result<u64> {
    match tx.has_old_requests()? {
        true => {
            let as_of = least_time(tx)?;
            Ok(tx.forget_requests(as_of)?)
        }
        false => Ok(0),
    }
}

/// The time by which a request is judged: the clock's, unless it is far ahead of the evidence.
pub(crate) fn believed(tx: &mut Tx<'_>) -> Result<Time> {
    let (now, least) = (tx.now(), least_time(tx)?);
    Ok(match now.since(least) > ClockEvidence::FAR {
        true => least,
        false => now,
    })
}
