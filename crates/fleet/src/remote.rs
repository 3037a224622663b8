//! A fleet at a server: its address, the client, and the queue for when it cannot be reached.

mod address;
mod bearer;
mod client;
mod courier;
mod known;
mod silence;
mod spool;
mod trust;

pub use address::Address;
pub use bearer::Bearer;
pub use client::{Client, Means, Sent};
pub use courier::{Courier, DELIVERED};
pub use known::Known;
pub use spool::Spool;
#[cfg(feature = "otel")]
pub use trust::trusted;
