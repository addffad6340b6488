//! Configs whose triggers ask for snapshots: each trigger writes `FILE.0`, `FILE.1`, … while the session goes on.

use std::thread::JoinHandle;

use ferretto_protos::CloneSessionRequest;
use ferretto_protos::clone_session_request::Selector;
use ferretto_protos::observable_events::CloneTriggerHit;

use super::existing::clone_into;
use super::out_file::OutFile;

/// The snapshots of one session.
pub(crate) struct Snapshots {
    path: String,
    taken: u32,
    running: Vec<JoinHandle<()>>,
}

impl Snapshots {
    pub(crate) fn new(path: &str) -> Self {
        Self { path: path.to_owned(), taken: 0, running: Vec::new() }
    }

    /// Takes one over a connection of its own, so that this one keeps hearing of triggers.
    pub(crate) fn take(&mut self, hit: CloneTriggerHit) {
        let path = format!("{}.{}", self.path, self.taken);
        self.taken += 1;
        self.running.retain(|thread| !thread.is_finished());
        self.running.push(std::thread::spawn(move || write_snapshot(&path, &hit)));
    }

    /// Waits for those that are being written.
    pub(crate) fn finish(self) {
        for thread in self.running {
            // What failed has been said by the thread.
            let _ = thread.join();
        }
    }
}

fn write_snapshot(path: &str, hit: &CloneTriggerHit) {
    let request = CloneSessionRequest {
        selector: Some(Selector::SessionId(hit.tracing_session_id().unsigned_abs())),
        clone_trigger_name: hit.trigger_name.clone(),
        clone_trigger_producer_name: hit.producer_name.clone(),
        clone_trigger_trusted_producer_uid: hit.producer_uid.map(u32::cast_signed),
        clone_trigger_boot_time_ns: hit.boot_time_ns,
        clone_trigger_delay_ms: hit.trigger_delay_ms,
        ..CloneSessionRequest::default()
    };
    let result = OutFile::open(path, false).and_then(|mut out| {
        let refusal = clone_into(&request, &mut out);
        out.remove_if_empty();
        match refusal? {
            Some(refusal) => eprintln!("Service error: {refusal}"),
            None => out.announce(),
        }
        Ok(())
    });
    if let Err(error) = result {
        crate::report::print(&error);
    }
}
