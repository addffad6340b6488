//! Sessions that hold as many semaphores as a config has room for.

use std::io;
use std::thread;
use std::time::Duration;

use ferretto_interop::config;

use crate::{Case, Target};

pub(crate) const CASE: Case = Case {
    name: "semaphores",
    tells: "sessions with thousands of semaphores each, none of which another one holds",
    needs_many: true,
    asks_for_kib: 0,
    is_slow: false,
    run,
};

/// What there may be, and what a frame has room for.
const COUNTS: [usize; 2] = [256, 5000];
const PAUSE: Duration = Duration::from_millis(20);

fn run(target: &Target) -> io::Result<()> {
    let mut consumers = Vec::new();
    let mut round = 0;
    while target.goes_on() {
        for count in COUNTS {
            let semaphores: String = (0..count)
                .map(|n| format!("session_semaphores {{ name: '{round}.{n}' max_other_session_count: 9 }} "))
                .collect();
            let mut consumer = target.consumer()?;
            consumer.enable(&config(&format!("buffers {{ size_kb: 64 }} {semaphores}")))?;
            consumers.push(consumer);
            round += 1;
            thread::sleep(PAUSE);
        }
    }
    Ok(())
}
