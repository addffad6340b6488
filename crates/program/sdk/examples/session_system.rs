//! Records what the system's tracing service sees, this program's own events and the kernel's scheduling if somebody offers that, for a
//! second, with callbacks instead of waiting.
//!
//!     ferretto traced & ferretto probes &
//!     cargo run -p ferretto --features sessions --example session_system [FILE]

use std::error::Error;
use std::sync::mpsc::channel;
use std::time::Duration;

use ferretto::TracingSession;
use ferretto::protos::DataSourceConfig;

const DURATION: Duration = Duration::from_secs(1);

fn main() -> Result<(), Box<dyn Error>> {
    let file = std::env::args().nth(1).unwrap_or_else(|| "session_system.pftrace".to_owned());
    ferretto::init("org.example.session-system")?;

    let mut service = TracingSession::system()?;
    let state = service.query_service_state()?;
    println!("{} has {} producers", state.tracing_service_version(), state.producers.len());
    let offers = |name: &str| {
        let sources = state.data_sources.iter().filter_map(|source| source.ds_descriptor.as_ref());
        sources
            .into_iter()
            .any(|descriptor| descriptor.windows(name.len()).any(|part| part == name.as_bytes()))
    };

    let (ended, end) = channel();
    let mut setup = service.duration(DURATION).write_into_file(&file)?;
    for name in ["linux.process_stats", "linux.sys_stats"].into_iter().filter(|name| offers(name)) {
        setup = setup.data_source(DataSourceConfig { name: Some(name.to_owned()), ..Default::default() });
    }
    let failed = ended.clone();
    let session = setup
        .on_start(|| println!("all data sources have started"))
        .on_error(move |error| failed.send(Err(error)).expect("main waits"))
        .on_stop(move || ended.send(Ok(())).expect("main waits"))
        .start()?;

    let mut ticks: u64 = 0;
    let outcome = loop {
        match end.recv_timeout(Duration::from_millis(50)) {
            Ok(outcome) => break outcome,
            Err(_) if ticks > 1000 => return Err("the session does not end".into()),
            Err(_) => {
                ticks += 1;
                ferretto::instant!("example.tick", "tick", number = ticks);
            }
        }
    };
    outcome?;
    // It has ended: this gives the file its name.
    let trace = session.stop()?;
    println!("wrote {}: open it in https://ui.perfetto.dev", trace.path().ok_or("no file")?.display());
    Ok(())
}
