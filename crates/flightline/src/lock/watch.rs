//! Watches of lock holders. An agent that is refused a lock leaves a watch in the store, beside the signs of life; the
//! silence of the holder counts from the first watch on. Without it only the waiting agent could notice that the holder
//! is silent.

use flightline_core::lock::{Lock, LockWatch};
use flightline_core::time::Millis;
use flightline_core::{LockId, Refusal, RepoPath, Time};
use flightline_store::Tx;
use serde_json::{Value, json};

use crate::error::Result;
use crate::op_context::OpContext;

/// The detail of a refusal that names the locks which were asked for.
const IN_THE_WAY: &str = "in_the_way";

/// Returns the time from which the silence of a lock's holder counts: its last sign of life, but not before a sign
/// could have been noticed.
pub(crate) fn silent_since(
    ctx: &mut OpContext<'_, '_>,
    lock: &Lock,
    sign: Option<Time>,
) -> Result<Time> {
    let (now, downtime) = (ctx.now(), ctx.policy.downtime_ms);
    let watch = ctx.tx.watch_of(lock.id)?;
    let watch = watch.map(|watch| watch.again(lock, sign, downtime, now));
    Ok(lock.silent_since(sign, ctx.tx.awake_since(), watch, now))
}

/// Names in a refusal the locks that the caller waits for.
pub(super) fn name_those_in_the_way(refusal: Refusal, locks: &[LockId]) -> Refusal {
    let mut details = refusal.details.clone();
    if let Value::Object(details) = &mut details {
        details.insert(IN_THE_WAY.to_owned(), json!(locks));
    }
    refusal.details(details)
}

/// The locks of others that are in the way of these paths.
pub(super) fn in_the_way(
    held: &[Lock],
    paths: &[RepoPath],
    of: impl Fn(&Lock) -> bool,
) -> Vec<LockId> {
    let overlapping = |lock: &&Lock| paths.iter().any(|path| lock.file.overlaps(path)) && of(lock);
    held.iter()
        .filter(overlapping)
        .map(|lock| lock.id)
        .collect()
}

/// Notes that an agent waits for the locks that a refusal names.
pub(crate) fn note_waiting(tx: &mut Tx<'_>, refusal: &Refusal, downtime: Millis) -> Result<()> {
    let Some(named) = refusal.details.get(IN_THE_WAY).and_then(Value::as_array) else {
        return Ok(());
    };
    let now = tx.now();
    for id in named.iter().filter_map(Value::as_str) {
        let Some(lock) = tx.get::<Lock>(id)? else {
            continue;
        };
        let watch = match tx.watch_of(lock.id)? {
            Some(watch) => {
                let sign = tx.pulse(lock.held_by)?.map(|pulse| pulse.at);
                watch.again(&lock, sign, downtime, now)
            }
            None => LockWatch::begun(&lock, tx.awake_since(), now),
        };
        tx.set_watch(lock.id, watch)?;
    }
    Ok(())
}
