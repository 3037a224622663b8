//! A fleet at a server: its address, the client, and the queue for when it cannot be reached.

mod address;
mod client;
mod known;
mod queueing_client;
mod spool;
mod token_owner;
mod trust;
mod unreachable;

pub use address::Address;
pub use client::{ClientConfig, Sent, ServerClient};
pub use known::Known;
pub use queueing_client::{DELIVERED, QueueingClient};
pub use spool::Spool;
pub use token_owner::TokenOwner;
#[cfg(feature = "otel")]
pub use trust::trusted;
