//! Opens a PostgreSQL store: connects, and makes the schema current.

use std::collections::HashMap;
use std::time::Duration;

use super::outbox::Outbox;
use super::wire::WireFault;
use super::{Postgres, Timeline, classify, connect};
use crate::crash_points::CrashPoints;
use crate::engine::upgrade::{Unsealed, seal_all};
use crate::engine::{Driver as _, SCHEMA_VERSION};
use crate::error::StoreError;

pub(super) const MIGRATIONS: [&str; 12] = [
    include_str!("../../schema/postgres/0001_journal.sql"),
    include_str!("../../schema/postgres/0002_backups.sql"),
    include_str!("../../schema/postgres/0003_timeline.sql"),
    include_str!("../../schema/postgres/0004_plans.sql"),
    include_str!("../../schema/postgres/0005_rows.sql"),
    include_str!("../../schema/postgres/0006_chain.sql"),
    include_str!("../../schema/postgres/0007_cuts.sql"),
    include_str!("../../schema/postgres/0008_watch.sql"),
    include_str!("../../schema/postgres/0009_names.sql"),
    include_str!("../../schema/postgres/0010_work.sql"),
    include_str!("../../schema/postgres/0011_deltas.sql"),
    include_str!("../../schema/postgres/0012_pages.sql"),
];

/// The migration after which the journal is sealed.
const CHAIN: i64 = 6;

/// The lock that keeps two nodes from preparing the schema at once.
const SCHEMA_LOCK: &str = "SELECT pg_advisory_xact_lock(5064666954)";
const SCHEMA_TABLE: &str = "CREATE TABLE IF NOT EXISTS schema_version (version BIGINT NOT NULL)";
const SCHEMA_SEEN: &str =
    "SELECT to_regclass('schema_version') IS NOT NULL, to_regclass('event') IS NOT NULL";
const SCHEMA_READ: &str = "SELECT CAST(coalesce(max(version), 0) AS BIGINT) FROM schema_version";
const SCHEMA_WRITE: &str = "INSERT INTO schema_version (version) VALUES ($1)";

/// Opens the store at `url`, creating its schema when `create` says so.
pub(crate) fn open(
    url: &str,
    create: bool,
    patience: Duration,
    steps: CrashPoints,
) -> Result<Postgres, StoreError> {
    let wire = connect::connect(url, patience)?;
    let mut driver = Postgres {
        wire,
        prepared: HashMap::new(),
        outbox: Outbox::default(),
        failed: false,
        steps,
        timeline: Timeline::Unread,
        ahead: None,
        standing: None,
        overtaken: false,
        landings: HashMap::new(),
    };
    driver.migrate(create)?;
    Ok(driver)
}

impl Postgres {
    fn migrate(&mut self, create: bool) -> Result<(), StoreError> {
        let act = "cannot prepare the store's schema";
        let said = |fault: WireFault| classify(act, &fault);
        let seen = self.wire.ask(|client| client.query_one(SCHEMA_SEEN, &[]));
        let seen = seen.map_err(said)?;
        let (versioned, foreign): (bool, bool) = (seen.get(0), seen.get(1));
        if !versioned && foreign {
            return Err(StoreError::NotOurs(
                "the database (it has a table `event` of another program)".to_owned(),
            ));
        }
        if !versioned && !create {
            return Err(StoreError::Missing("that PostgreSQL database".to_owned()));
        }
        if versioned {
            let version = self.wire.ask(|client| client.query_one(SCHEMA_READ, &[]));
            let version: i64 = version.map_err(said)?.get(0);
            if version > SCHEMA_VERSION {
                return Err(StoreError::Newer {
                    found: version,
                    known: SCHEMA_VERSION,
                });
            }
            if version == SCHEMA_VERSION {
                return Ok(());
            }
        }
        let begun = self.wire.ask(|client| client.batch_execute("BEGIN"));
        begun.map_err(said)?;
        let migrated = self.bring_up_to_date();
        self.steps.step();
        let migrated = migrated.and_then(|()| {
            let committed = self.wire.ask(|client| client.batch_execute("COMMIT"));
            committed.map_err(said)
        });
        if migrated.is_err() {
            self.rollback();
        }
        self.steps.step();
        migrated
    }

    /// Creates the schema, or changes an older one.
    fn bring_up_to_date(&mut self) -> Result<(), StoreError> {
        let said = |fault: WireFault| classify("cannot prepare the store's schema", &fault);
        let version = self.wire.ask(|client| {
            client.execute(SCHEMA_LOCK, &[])?;
            client.execute(SCHEMA_TABLE, &[])?;
            // Another process may have been faster while we waited.
            client.query_one(SCHEMA_READ, &[])
        });
        let version: i64 = version.map_err(said)?.get(0);
        let done = usize::try_from(version).unwrap_or(0);
        for (number, migration) in (1_i64..).zip(MIGRATIONS).skip(done) {
            // Some migrations of a long journal take long.
            let changed = self
                .wire
                .ask_patiently(move |client| client.batch_execute(migration));
            changed.map_err(said)?;
            if number == CHAIN {
                seal_all(&self.steps.clone(), self, &Unsealed::InPlace)?;
                self.deliver()?;
            }
            let noted = self
                .wire
                .ask(move |client| client.execute(SCHEMA_WRITE, &[&number]));
            noted.map_err(said)?;
            self.steps.step();
        }
        Ok(())
    }
}
