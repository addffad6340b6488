//! What a program was called with, which everybody may read.

use std::io;

use rustix::process::{PrctlMmMap, configure_virtual_memory_map};

use crate::read_file;

/// Where `/proc/self/stat` has what; proc_pid_stat(5) counts from 1, and the first two are before the last parenthesis.
const THREADS: usize = 20;
const CODE: [usize; 2] = [26, 27];
const STACK: usize = 28;
const DATA: [usize; 2] = [45, 46];
const BREAK: usize = 47;
const ARGUMENTS: usize = 48;
const ENVIRONMENT: [usize; 2] = [50, 51];

/// Shows nobody any more what this process was called with: `/proc/PID/cmdline` is empty, and ps(1) has its name in brackets.
///
/// The kernel reads arguments out of the process's memory, and holds the lock of that for so long. Any user may have it do so, in threads
/// that are seldom run, and while they are not, the process gets no memory. Of empty arguments the kernel reads nothing.
///
/// # Errors
/// If there are other threads: of the memory that they take meanwhile the kernel would know nothing. If the kernel lets nobody change this
/// (it does with `CONFIG_CHECKPOINT_RESTORE`), or `/proc` cannot be read.
///
/// # Example
/// ```no_run
/// ferretto_sys::hide_arguments()?;
/// assert_eq!(std::fs::read("/proc/self/cmdline")?, b"");
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn hide_arguments() -> io::Result<()> {
    let mut map = memory_map(&read_file(c"/proc/self/stat"))?;
    // SAFETY: without an argument that it could take for an end of the heap, the call changes nothing, and tells where the heap ends.
    // JUSTIFICATION: sbrk of libc has its own idea of it.
    map.brk = unsafe { libc::syscall(libc::SYS_brk, 0) }.cast_unsigned();
    // SAFETY: all but the end of the arguments is as the kernel has it: nothing is allocated since the end of the heap was asked for,
    // and there is no other thread that could.
    // JUSTIFICATION: no safe interface has this call.
    Ok(unsafe { configure_virtual_memory_map(&map) }?)
}

/// What the kernel says of the only thread's memory, without arguments.
fn memory_map(stat: &[u8]) -> io::Result<PrctlMmMap> {
    let unreadable = || io::Error::other("/proc/self/stat is not as proc_pid_stat(5) says");
    let text = String::from_utf8_lossy(stat);
    let (_, fields) = text.rsplit_once(')').ok_or_else(unreadable)?;
    let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
    let number = |at: usize| fields.get(at - 3).and_then(|field| field.parse().ok()).ok_or_else(unreadable);
    if number(THREADS)? != 1 {
        return Err(io::Error::other("there are other threads"));
    }
    let [start_code, end_code] = [number(CODE[0])?, number(CODE[1])?];
    let [start_data, end_data] = [number(DATA[0])?, number(DATA[1])?];
    let [env_start, env_end] = [number(ENVIRONMENT[0])?, number(ENVIRONMENT[1])?];
    let arg_start = number(ARGUMENTS)?;
    Ok(PrctlMmMap {
        start_code,
        end_code,
        start_data,
        end_data,
        start_brk: number(BREAK)?,
        brk: 0,
        start_stack: number(STACK)?,
        arg_start,
        arg_end: arg_start,
        env_start,
        env_end,
        auxv: std::ptr::null_mut(),
        auxv_size: 0,
        exe_fd: -1,
    })
}
