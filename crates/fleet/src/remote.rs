//! A fleet at a server: where it is, how it is asked, and what is kept while it cannot be reached.

mod address;
mod client;

pub use address::Address;
pub use client::{Client, Means};
