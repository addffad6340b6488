//! How fast a trace becomes tables: `speed FILE [kept|left]`. The file is read before the clock starts.

use std::time::Instant;

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
        let begun = Instant::now();
        let mut import = Import::default().ftrace_args(row_args);
        Reader::new(bytes.as_slice()).for_each(|packet, place| import.push(packet, place))?;
        let arrived = begun.elapsed();
        let tables = import.finish();
        let all = begun.elapsed();
        println!(
            "{:.1} MB/s ({:.2} s to arrive, {:.2} s in all), tables of {} MB from {} MB: {} switches, {} states, {} events",
            bytes.len() as f64 / 1e6 / all.as_secs_f64(),
            arrived.as_secs_f64(),
            all.as_secs_f64(),
            tables.memory_bytes() >> 20,
            bytes.len() >> 20,
            tables.sched.len(),
            tables.thread_state.len(),
            tables.ftrace_event.len(),
        );
    }
    Ok(())
}
