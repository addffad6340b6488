//! Whoever reads the arguments of a process holds the lock of its memory, and who is seldom run holds it for long.

use std::fs::File;
use std::io::{self, Read as _};
use std::thread;
use std::time::Duration;

use ferretto_interop::config;
use ferretto_protos::FreeBuffersRequest;
use ferretto_sys::Scheduling;

use crate::{Case, Target};

pub(crate) const CASE: Case = Case {
    name: "arguments_read",
    tells: "64 threads that are seldom run read /proc/PID/cmdline, while sessions come and go and want memory",
    needs_many: true,
    asks_for_kib: BUFFER_KIB,
    is_slow: true,
    run,
};

const READERS: usize = 64;
const BUFFER_KIB: u64 = 16 * 1024;
const PAUSE: Duration = Duration::from_millis(1);

fn run(target: &Target) -> io::Result<()> {
    let mut consumer = target.consumer()?;
    let arguments = format!("/proc/{}/cmdline", ferretto_sys::peer_credentials(consumer.stream())?.pid);
    let session =
        config(&format!("buffers {{ size_kb: {BUFFER_KIB} }} data_sources {{ config {{ name: 'none' }} }}"));
    thread::scope(|scope| {
        for _ in 0..READERS {
            scope.spawn(|| read(&arguments, target));
        }
        for _ in 0..thread::available_parallelism()?.get() {
            scope.spawn(|| while target.goes_on() {});
        }
        while target.goes_on() {
            consumer.have_enabled(&session)?;
            consumer.call("FreeBuffers", &FreeBuffersRequest::default())?;
            thread::sleep(PAUSE);
        }
        Ok(())
    })
}

fn read(arguments: &str, target: &Target) -> io::Result<()> {
    Scheduling::idle().apply()?;
    while target.goes_on() {
        File::open(arguments)?.read_to_end(&mut Vec::new())?;
    }
    Ok(())
}
