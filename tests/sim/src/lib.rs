//! The whole system in one thread, under a seeded, faulty world.
//!
//! A [`World`] has the real service, the real frames and connections, real shared memory, and a fake clock. Producers and consumers
//! connect, write, stall, lie, send garbage and vanish, and the network delays and splits what they say; every choice comes from the
//! seed, so a failure replays exactly: `cargo run -p sim -- --seeds 42..43`.
//!
//! What is checked (see `trace.rs` and `world.rs`):
//! * nothing panics, and the service does not grow: when all have gone, no session, buffer or timer is left;
//! * each sequence comes back in order and once, and each gap in it is announced by `previous_packet_dropped`;
//! * where the buffer was large enough and the producer kept the rules, nothing that the service acknowledged is missing;
//! * packets carry the user of the connection that they came through, and reach only sessions that their data source was started for.

#![forbid(unsafe_code)]

mod consumer;
mod link;
mod producer;
mod rng;
mod trace;
mod world;

pub use world::{Report, World};

/// Runs one world to its end.
///
/// # Panics
/// If the system breaks a promise; the message names the seed.
pub fn run(seed: u64) -> Report {
    World::new(seed).run()
}
