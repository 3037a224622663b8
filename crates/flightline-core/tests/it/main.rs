//! What the core's functions promise their callers: one executable, one module per subject.
#![expect(clippy::unwrap_used, reason = "tests")]

mod briefing_properties;
mod contexts;
mod dialects;
mod redaction;
mod retention;
