//! Several servers on one PostgreSQL, many clients, and everything that can happen on the way: servers that are
//! killed or stand still, connections that break before, during and after a commit, a database that is
//! restarted. What was acknowledged is there, once; what was not is there once or not at all; locks exclude;
//! a reader that follows the journal sees all of it, in order.
//!
//! Every run has a seed, which it prints: `FLEET_CHAOS_SEED=… FLEET_CHAOS_SECONDS=…` asks for another, or a
//! longer one.
#![expect(clippy::print_stdout, reason = "runs tell what they came to")]

mod chance;
mod client;
mod cluster;
mod commits;
mod failover;
mod freeze;
mod http;
mod kill;
mod ledger;
mod node;
mod power;
mod proxy;
mod run;
mod stream;
mod three_nodes;
