//! Keeps Flightline's state.
//!
//! A store is a journal of events and the last value of each subject, on SQLite or PostgreSQL. One SQL text serves both
//! engines; their differences are in two small drivers. This is the only crate with SQL in it: no other can name a
//! column.

pub mod aside;
pub mod clock;
mod copy;
mod crash_points;
mod damage;
mod delta;
mod engine;
mod error;
mod fleet_counts;
mod location;
mod loss;
mod mend;
mod mend_event;
mod notify;
mod replay;
mod seal;
mod stats;
mod store;
mod table;
mod thin;
mod tx;
mod value;
mod value_aside;
pub mod verify;
mod write_cache;

pub use copy::Copied;
pub use crash_points::{CrashPoints, Reads};
pub use damage::{DamageKind, DamagedValue, OtherCopy};
pub use engine::{Compaction, DiskSpace, SpaceUsed};
pub use error::StoreError;
pub use fleet_counts::EventCounts;
pub use location::Location;
pub use loss::Loss;
pub use mend::{CopyLocation, Damage, JournalChange, Mended};
pub use notify::{NotifyListener, NotifySender};
pub use replay::{PastValue, ReplayEvent, ReplayFrom};
pub use stats::{KindSize, MissionSize};
pub use store::{AsStoreError, OpenOptions, Store};
pub use table::backup::{WaitingBackup, WrittenBackup};
pub use table::event::{EventFilter, StoredEvent};
pub use table::overview::{ListOrder, ListScope, MissionFilter, RowList};
pub use table::pulse::Pulse;
pub use table::subject::{Find, SubjectRow};
pub use tx::neighbours::Neighbours;
pub use tx::{Actor, NewestWork, Past, Savepoint, Tx};
pub use value_aside::ValueAside;

/// Every SQL statement of the store, for the test that prepares them all on both engines.
pub fn statements() -> Vec<&'static str> {
    table::all_statements()
}

/// The name of a store's file in its folder.
pub const FILE: &str = engine::sqlite::FILE;

/// The name of the log beside it.
pub const LOG: &str = engine::sqlite::LOG;

/// The number of the newest schema this version knows.
pub const SCHEMA_VERSION: i64 = engine::SCHEMA_VERSION;
