//! How fast a trace becomes tables: `speed FILE [kept|left]`. The file is read before the clock starts, which is that of this thread on its
//! processor: what else the machine does counts little.

use ferretto_trace_model::Import;
use ferretto_trace_model::ftrace::kept::RowArgs;
use ferretto_trace_read::Reader;

fn main() -> std::io::Result<()> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or_else(|| std::io::Error::other("usage: speed FILE [kept|left]"))?;
    let row_args = match args.next().as_deref() {
        Some("kept") => RowArgs::Kept,
        Some("left") => RowArgs::Left,
        _ => RowArgs::Written,
    };
    let bytes = std::fs::read(path)?;
    for _ in 0..3 {
        let begun = cpu_seconds()?;
        let mut import = Import::default().ftrace_args(row_args);
        Reader::new(bytes.as_slice()).for_each(|packet, place| import.push(packet, place))?;
        let arrived = cpu_seconds()? - begun;
        let (tables, kept) = import.finish_with_args();
        let all = cpu_seconds()? - begun;
        println!(
            "{:.1} MB/s ({arrived:.2} s to arrive, {all:.2} s in all); {} MB became {} MB, and {} MB kept: {} switches, {} states, {} events",
            bytes.len() as f64 / 1e6 / all,
            bytes.len() >> 20,
            tables.memory_bytes() >> 20,
            kept.memory_bytes() >> 20,
            tables.sched.len(),
            tables.thread_state.len(),
            tables.ftrace_event.len(),
        );
    }
    Ok(())
}

/// How long this thread has run.
fn cpu_seconds() -> std::io::Result<f64> {
    let schedstat = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    let ns: f64 = schedstat.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0.0);
    Ok(ns / 1e9)
}
