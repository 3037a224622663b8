//! Processes that die, stop, race, and run out of disk: what was acknowledged stays, what was not is
//! wholly there or wholly absent, and the next command goes on. Runs the real binary.

mod adopted;
mod beside;
mod clock;
mod copies;
mod damage;
mod disk;
mod faults;
mod foreign;
mod freeze;
mod hostile;
mod journal;
mod kill;
mod lost;
mod mirror;
mod mirrors;
mod points;
mod power;
mod pulled;
mod race;
mod rebuild;
mod recovery;
mod served;
mod setup;
mod storm;
mod untrusted;
mod upgrade;
mod world;
