//! The files of the four other systems: read, written, refused, and their rules.
#![expect(clippy::unwrap_used, reason = "tests")]

mod compress;
mod corpus;
mod epic;
mod orchestrator;
mod random;
mod recovery;
mod sitebuilder;
