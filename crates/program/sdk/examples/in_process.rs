//! A program that records itself: the tracing service runs on a thread of this process, and nobody else is needed.
//!
//!     cargo run -p ferretto --features in-process --example in_process [FILE]

use std::error::Error;
use std::time::Duration;

use ferretto::{Backends, TracingSession};

ferretto::categories! {
    static CATEGORIES = { WORK = "example.work", "What this example does"; }
}

fn main() -> Result<(), Box<dyn Error>> {
    let file = std::env::args().nth(1).unwrap_or_else(|| "in_process.pftrace".to_owned());
    let packets = record(&file)?;
    println!("wrote {packets} packets into {file}: open it in https://ui.perfetto.dev");
    Ok(())
}

/// Records some work into a file, and says how many packets that gave.
fn record(file: &str) -> Result<u64, Box<dyn Error>> {
    ferretto::builder("org.example.in-process")
        .categories(CATEGORIES)
        .backends(Backends::IN_PROCESS)
        .init()?;
    let session = TracingSession::in_process()?.categories(["example.*"]).start()?;
    work();
    Ok(session.stop()?.save(file)?.packets)
}

fn work() {
    for round in 0..3 {
        let _slice = ferretto::slice!(WORK, "round", round = round);
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[cfg(test)]
mod tests {
    use ferretto::protos::Trace;
    use prost::Message;

    #[test]
    fn its_work_is_in_the_trace() {
        let file = std::env::temp_dir().join(format!("ferretto-in-process-{}.pftrace", std::process::id()));
        super::record(file.to_str().unwrap()).unwrap();
        let trace = Trace::decode(&*std::fs::read(&file).unwrap()).unwrap();
        std::fs::remove_file(&file).unwrap();
        let mentions = |text: &[u8]| {
            let packets = trace.packet.iter().map(Message::encode_to_vec);
            packets.filter(|packet| packet.windows(text.len()).any(|part| part == text)).count()
        };
        assert!(mentions(b"round") > 0 && mentions(b"example.work") > 0, "{} packets", trace.packet.len());
    }
}
