//! The files of the four other systems: read, written, refused, and their rules.
#![expect(clippy::unwrap_used, reason = "tests")]

mod corpus;
mod epic;
mod sitebuilder;
