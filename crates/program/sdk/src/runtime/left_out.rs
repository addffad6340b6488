//! What is said in a session's trace if this program does not record what the session wants.
//!
//! The service hears that the data source has started and stopped, so that nobody waits for it; whoever reads the trace finds the reason in
//! place of the data.

use ferretto_producer::{ExhaustedPolicy, TraceWriter};
use ferretto_protos::fields::trace_packet::{self, not_recorded};
use ferretto_protozero::control::Writer;

use super::source::Setup;
use crate::clock;
use crate::track_event::timestamp::BOOTTIME;

/// Something before this packet is missing (upstream: `DATA_LOSS_PRESENT`).
const LOSS_PRESENT: u64 = 1;

/// One session's instance of a data source that it does not get.
pub(super) struct LeftOut {
    writer: TraceWriter,
    /// `TracePacket.NotRecorded`.
    note: Writer,
    is_said: bool,
}

impl LeftOut {
    pub(super) fn new(setup: &Setup, program: &str, reason: &str) -> Self {
        let mut note = Writer::new();
        note.text(not_recorded::DATA_SOURCE_NAME, setup.config.name())
            .text(not_recorded::PRODUCER_NAME, program)
            .text(not_recorded::REASON, reason);
        let writer = setup.arbiter.create_writer(setup.target_buffer(), ExhaustedPolicy::Drop);
        Self { writer, note, is_said: false }
    }

    /// Says it, and again at each flush: a ring may have overwritten what was said before. Where there is no memory now, the next time counts.
    pub(super) fn say(&mut self) {
        let mut packet = Writer::new();
        packet
            .integer(trace_packet::TIMESTAMP, clock::boot_time())
            .integer(trace_packet::TIMESTAMP_CLOCK_ID, BOOTTIME.into())
            .integer(trace_packet::PREVIOUS_PACKET_DROPPED, LOSS_PRESENT)
            .message(trace_packet::NOT_RECORDED, &self.note);
        self.writer.new_packet().raw(packet.as_bytes());
        self.is_said |= !self.writer.is_dropping();
        // A chunk that is kept would be one that others do not have.
        self.writer.flush();
    }

    /// The session ends.
    pub(super) fn say_last(&mut self) {
        if !self.is_said {
            self.say();
        }
    }
}
