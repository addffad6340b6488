//! The whole system in one thread, under a seeded, faulty world.
//!
//! A [`World`] has the real service, the real frames and connections, real shared memory, and fake clocks and files. Producers and
//! consumers connect, write, stall, lie, send garbage and vanish, the network delays and splits what they say, and files break; every
//! choice comes from the seed, so a failure replays exactly: `cargo run -p sim -- --seeds 42..43 --trace`.
//!
//! | module | what it is |
//! |---|---|
//! | `world` | the order of events, clocks, and the end |
//! | `fate`, `rng` | choices, the story, and how often each behaviour occurred ([`BEHAVIOURS`]) |
//! | `link` | a connection: what one end says arrives late and in pieces at the other |
//! | `plan` | what a session is to be like |
//! | `consumer`, `producer`, `writer`, `files` | those who do what they should, more or less |
//! | `relay` | those who speak for other machines |
//! | `liar` | what hostile producers do |
//! | `model`, `session` | what must be true after each call: who is answered when, what the state is, when a session ends |
//! | `trace` | what must be true of a trace, packet by packet |
//! | `interned` | what packets rely on: names and times that were said before them |
//!
//! What is checked:
//! * each sequence of an honest producer comes back in order, once and undamaged, and each gap in it is announced;
//! * a packet whose names or times a reader cannot know comes after a loss that was announced; and of a buffer that folds what it
//!   overwrites each packet can be read, unless something else than overwriting took what it relies on, or the statistics say that
//!   there was no room;
//! * where buffers and file were large enough, nothing that the service acknowledged, or found in the memory of a producer that
//!   vanished, is missing;
//! * each call is answered once; a flush when the last producer has answered or its time is over, the end of a session when the last
//!   data source has stopped or its time is over;
//! * packets carry the user and process of the connection that they came through, and reach only sessions that have a data source
//!   of that user; what the service says of sessions, producers and data sources is what the model knows, and only to whom it may;
//! * under lock-down no other user's program is let in; programs of other machines take part where they are asked for, and their
//!   packets and clocks say which machine it is;
//! * the state of a ProtoVM is a packet that was overwritten, undamaged, and what comes after it is younger;
//! * each file is closed once, after its last write, and is well-formed up to the last write that succeeded; a clone into a file is
//!   complete when its consumer hears of it, and until then nobody's;
//! * nothing that is due stays due; and in the end no session, buffer, timer, instance, file or shared memory is left.
//!
//! What liars do is counted as theirs: all of this holds for the honest ones beside them.

#![forbid(unsafe_code)]

mod consumer;
mod fate;
mod files;
mod interned;
mod liar;
mod link;
mod model;
mod plan;
mod producer;
mod relay;
mod rng;
mod session;
mod trace;
mod world;
mod writer;

pub use fate::{BEHAVIOURS, Report};
pub use world::World;

/// Runs one world to its end.
///
/// # Panics
/// If the system breaks a promise.
pub fn run(seed: u64) -> Report {
    World::new(seed, false).run()
}

/// The same, and prints the story.
///
/// # Panics
/// If the system breaks a promise.
pub fn tell(seed: u64) -> Report {
    World::new(seed, true).run()
}
