//! What a determined neighbour can do to the service, judged by those beside him.
//!
//! Each of the [`cases`] is an attack: clients that know the protocol and its limits and stay just below them. Beside it stand honest
//! clients ([`bystanders`]): a consumer that asks for the state of the sessions every 50 ms, and a session with a producer that
//! writes numbered packets. Their longest wait, their losses and the memory that the attack cost are the [`Verdict`]. What the machine
//! itself makes them wait under the attack, a pair of them measures that has nothing to do with the service. The attacker is a process of
//! its own ([`attack()`]): who shares one with the honest holds up them and not the service, by the locks of its memory.
//!
//! Where this program may switch users (as root), the attacker is another user than the honest ([`ATTACKER_UID`]): the service serves
//! users in turn, and it is between users that its promise is the strongest. An attack that the service refuses at the door shows
//! nothing, so it fails its case ([`Refused`]).
//!
//! `cargo run --release -p ferretto-hostile` prints a line a case; `tests/quick.rs` runs those that are quick.

#![forbid(unsafe_code)]

mod attack;
pub mod bystanders;
pub mod cases;
mod chunks;
pub mod client;
mod memory;
mod refused;
mod serve;
mod user;

pub use attack::{ATTACK, attack};
pub use refused::Refused;
pub use serve::{SERVE, command, serve};
pub use user::{ATTACKER_UID, attacker_uid};

use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use ferretto_interop::World;

use crate::attack::Attack;
use crate::bystanders::{Bystanders, Fates};
use crate::client::Client;

/// What an attack may cost in memory, in KiB: one by a single connection, and one by many.
pub const GROWN_KIB: [u64; 2] = [64 * 1024, 300 * 1024];

/// Bystanders work alone for so long before and after.
const CALM: Duration = Duration::from_millis(300);

/// An attack.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// Its file in [`cases`].
    pub name: &'static str,
    /// What is done to the service, in a line.
    pub tells: &'static str,
    /// It takes more than one connection.
    pub needs_many: bool,
    /// The buffers that its configs ask for and fill: what the service gives to anybody.
    pub asks_for_kib: u64,
    /// It takes up to a minute, or much memory of the test's own: not for `cargo test`.
    pub is_slow: bool,
    /// Does it. An error says that the service has had enough of it, which is no failure, unless it is [`Refused`].
    pub run: fn(&Target) -> std::io::Result<()>,
}

/// What is attacked.
#[derive(Debug, Clone)]
pub struct Target {
    /// Where producers connect.
    pub producers: PathBuf,
    /// Where consumers connect.
    pub consumers: PathBuf,
    until: Instant,
}

impl Target {
    /// A consumer.
    pub fn consumer(&self) -> std::io::Result<Client> {
        Client::consumer(&self.consumers)
    }

    /// A producer, with memory of this size.
    pub fn producer(&self, name: &str, shared_memory_bytes: u32) -> std::io::Result<Client> {
        Client::producer(&self.producers, name, shared_memory_bytes)
    }

    /// Whether the attack may go on.
    pub fn goes_on(&self) -> bool {
        Instant::now() < self.until
    }
}

/// How a case went.
#[derive(Debug, Clone)]
pub struct Verdict {
    /// Its name.
    pub name: &'static str,
    /// What became of the honest; the error says how they were wronged.
    pub fates: Result<Fates, String>,
    /// By how much the service's memory grew, at most, in KiB.
    pub grown_kib: u64,
    /// How the attacker ended, if the service had enough of it.
    pub attacker: Option<String>,
    /// Why the attack was none.
    pub untried: Option<String>,
}

/// What the honest may expect.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Of one answer, beyond what two threads that have nothing to do with the service wait for each other.
    pub longest_wait: Duration,
    /// Of memory for an attack by one connection, and by many.
    pub grown_kib: [u64; 2],
}

impl Verdict {
    /// What is wrong with it, if anything is.
    pub fn fault(&self, case: &Case, bounds: &Bounds) -> Option<String> {
        let fates = match &self.fates {
            Ok(fates) => fates,
            Err(error) => return Some(error.clone()),
        };
        if let Some(why) = &self.untried {
            return Some(format!("the attack did not take place: {why}"));
        }
        if fates.longest_wait > bounds.longest_wait + fates.machine_wait {
            return Some(format!("an honest consumer waited for {:?}", fates.longest_wait));
        }
        if fates.recorded != fates.written {
            return Some(format!("of {} honest packets {} were recorded", fates.written, fates.recorded));
        }
        let allowed = case.asks_for_kib + bounds.grown_kib[usize::from(case.needs_many)];
        (self.grown_kib > allowed).then(|| format!("the service's memory grew by {} KiB", self.grown_kib))
    }
}

/// Runs a case against a service of its own, made by `command`, with the program `hostile` as the attacker.
///
/// # Panics
///
/// If the service or the attacker cannot be started.
pub fn judge(case: &Case, command: Command, hostile: &Path) -> Verdict {
    let mut world = World::new();
    world.start(command, "traced");
    world.wait_for_sockets();
    let pid = world.daemons()[0].pid();
    let (producers, consumers) = (world.producer_socket(), world.consumer_socket());
    let mut verdict =
        Verdict { name: case.name, fates: Ok(Fates::default()), grown_kib: 0, attacker: None, untried: None };
    user::let_in(&[&producers, &consumers]);
    let bystanders = match Bystanders::start(&producers, &consumers) {
        Ok(bystanders) => bystanders,
        Err(error) => return Verdict { fates: Err(error), ..verdict },
    };
    thread::sleep(CALM);
    let before_kib = memory::resident_kib(pid);
    memory::forget_peak(pid);
    let end = Attack::start(hostile, case, &producers, &consumers).wait();
    thread::sleep(CALM);
    verdict.grown_kib = memory::peak_kib(pid).saturating_sub(before_kib);
    verdict.fates = match end {
        attack::End::Waits => {
            Err(format!("after {:?} the attacker still waits for its answers", attack::AFTERMATH))
        }
        _ => bystanders.finish(),
    };
    match end {
        attack::End::Done | attack::End::Waits => {}
        attack::End::Refused(why) => verdict.untried = Some(why),
        attack::End::Error(why) => verdict.attacker = Some(why),
    }
    if !world.daemons()[0].is_running() {
        verdict.fates = Err("the service is gone".to_owned());
    }
    verdict
}
