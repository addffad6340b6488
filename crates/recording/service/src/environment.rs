//! What the service needs from the world beside its inputs: memory, randomness, and the names of things.

use std::num::NonZeroUsize;
use std::sync::Arc;

use ferretto_protos::SystemInfo;
use ferretto_shm::SharedMemory;

use crate::ids::FileHandle;
use crate::scheduling::Boost;

/// What the driver gives to [`Service::new`](crate::Service::new). Called from inside `handle_*`; must not block.
pub trait Environment: Send {
    /// New shared memory for a producer.
    fn allocate_memory(&mut self, len: usize) -> Result<Arc<SharedMemory>, String>;

    /// A random number, for the ids of traces.
    fn random_u64(&mut self) -> u64;

    /// Creates the file that a consumer's config names (`output_path`). It must not exist yet. The error is for people.
    fn create_output(&mut self, path: &str) -> Result<FileHandle, String>;

    /// Whether a file that a consumer has passed may be written to for its user: the service writes with its own rights and under its own
    /// name. The error is for people.
    fn check_file(&mut self, _file: FileHandle) -> Result<(), String> {
        Ok(())
    }

    /// The time on a clock of any beginning, for saying what the service's own work took. All that is decided by it is when filtering
    /// makes way for others before it has cost what it may; where nobody measures, it stands still.
    fn stopwatch_ns(&mut self) -> u64 {
        0
    }

    /// Drops something large, at best where nobody waits for that: to give back hundreds of megabytes takes a while.
    fn dispose(&mut self, thing: Box<dyn Send>) {
        drop(thing);
    }

    /// Has the calling thread, which is the service's, scheduled like this from now on; `None`: as it was at first. The error is for
    /// people.
    fn set_scheduling(&mut self, boost: Option<Boost>) -> Result<(), String> {
        match boost {
            Some(_) => Err("the service has no say over how it is scheduled here".to_owned()),
            None => Ok(()),
        }
    }
}

/// Facts that do not change while the service runs.
#[derive(Debug, Clone, Default)]
pub struct ServiceOptions {
    /// The user that the service runs as: the trusted uid of its own packets, and the only one that may connect in lock-down.
    pub uid: u32,
    /// What it calls itself, such as `Ferretto v0.1.0`.
    pub version: String,
    /// The machine's name that `machine_name_filter` compares; `host` always matches too.
    pub machine_name: String,
    /// For the packet of that name.
    pub system_info: SystemInfo,
    /// What a step of long work may cost, in microseconds or so, if not [`STEP_COST`](crate::limits::STEP_COST): for tests, in which
    /// little is long.
    pub step_cost: Option<NonZeroUsize>,
}
