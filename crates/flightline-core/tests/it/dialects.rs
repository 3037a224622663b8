//! The files of the four other systems: read, written, refused, and their rules.

mod compress;
mod corpus;
mod epic;
mod orchestrator;
mod random;
mod recovery;
mod sitebuilder;
