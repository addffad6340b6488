//! The messages of processes in `ProcessStats`.

use ferretto_protos::fields::process_stats as stats_field;
use ferretto_protozero::Message;

/// A `ProcessStats.Process` that begins with its first value: one without is not written.
pub(super) struct Process {
    pub(super) pid: i32,
    slot: Option<ferretto_protozero::LenSlot>,
}

impl Process {
    pub(super) fn new(pid: i32) -> Self {
        Self { pid, slot: None }
    }

    pub(super) fn begin(&mut self, body: &mut Vec<u8>) {
        use ferretto_protozero::Sink;
        if self.slot.is_none() {
            let mut message = Message::new(body);
            // The tag alone: the length is closed in finish().
            message.raw(&[(stats_field::PROCESSES << 3 | 2) as u8]);
            self.slot = Some(message.sink().reserve_len());
            message.int(stats_field::process::PID, i64::from(self.pid));
        }
    }

    pub(super) fn finish(self, body: &mut Vec<u8>) {
        use ferretto_protozero::Sink;
        if let Some(slot) = self.slot {
            body.close_len(slot);
        }
    }
}
