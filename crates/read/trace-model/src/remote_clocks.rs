//! `RemoteClockSync`: how the clocks of another machine relate to those of the first (upstream: proto_trace_reader.cc).

use ferretto_trace_read::remote_clocks::snapshots;
use ferretto_trace_tables::MachineId;

use crate::clocks::Machine;
use crate::model::Model;

impl Model {
    /// Reads `TracePacket.remote_clock_sync`, when it arrives, of the machine that it is about.
    pub fn read_remote_clock_sync(&mut self, machine: MachineId, message: &[u8]) {
        for snapshot in snapshots(message, Machine(machine.0), self.clocks.trace_clock().machine) {
            self.add_snapshot(&snapshot);
        }
    }
}
