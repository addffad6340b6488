//! A program with a flight recorder: the newest of what it does is in a ring in its memory, and when something goes wrong, a copy of that
//! goes into a file while the recording goes on.
//!
//!     cargo run -p ferretto --features in-process --example session_flight_recorder [FOLDER]

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ferretto::{Backends, TracingSession};

ferretto::categories! {
    static CATEGORIES = { SHOP = "example.shop", "Orders"; }
}

/// Some seconds of a busy program.
const RING_KB: u32 = 1024;
/// An order that takes longer is worth a look.
const SLOW: Duration = Duration::from_millis(4);

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).map_or_else(|| PathBuf::from("."), PathBuf::from);
    for file in serve(&folder)? {
        println!("wrote {}: open it in https://ui.perfetto.dev", file.display());
    }
    Ok(())
}

/// Serves orders, some of which are slow; the traces of these.
fn serve(folder: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    ferretto::builder("org.example.shop").categories(CATEGORIES).backends(Backends::IN_PROCESS).init()?;
    let recorder = TracingSession::in_process()?.categories(["example.*"]).buffer_size_kb(RING_KB).start()?;
    let mut files = Vec::new();
    for order in 0..30 {
        let start = Instant::now();
        handle(order);
        if start.elapsed() > SLOW && order % 10 == 9 {
            let file = folder.join(format!("slow-order-{order}.pftrace"));
            recorder.clone_trace()?.save(&file)?;
            files.push(file);
        }
    }
    Ok(files)
}

fn handle(order: u64) {
    let _slice = ferretto::slice!(SHOP, "order", number = order);
    if order % 10 == 9 {
        let _slice = ferretto::slice!(SHOP, "wait for the warehouse");
        std::thread::sleep(SLOW * 2);
    }
}

#[cfg(test)]
mod tests {
    use ferretto::protos::Trace;
    use prost::Message;

    #[test]
    fn each_slow_order_has_a_trace_with_what_was_before() {
        let folder = tempfile::tempdir().unwrap();
        let files = super::serve(folder.path()).unwrap();
        assert_eq!(files.len(), 3);
        let packets = |file| Trace::decode(&*std::fs::read(file).unwrap()).unwrap().packet.len();
        let sizes: Vec<usize> = files.into_iter().map(packets).collect();
        assert!(sizes.is_sorted() && sizes[0] < sizes[2], "{sizes:?}");
    }
}
