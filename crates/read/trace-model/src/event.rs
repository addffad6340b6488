//! What waits for its turn in time.

use std::rc::Rc;

use ferretto_trace_read::Place;
use ferretto_trace_tables::MachineId;

use crate::ftrace::{Cpu, KernelEvent, Switch, Waking};
use crate::order::Waits;
use crate::sequence::Generation;
use crate::track_event::TrackEvent;

/// What happens at a time. Small: a trace has millions.
#[derive(Debug)]
pub enum Event {
    /// An event of a program.
    Track(TrackEvent),
    /// A packet of a rarer kind, which is read when its turn comes.
    Packet(Box<WholePacket>),
    /// An event of the kernel, and its processor.
    Kernel(Cpu, KernelEvent),
    /// A switch in its compact form.
    Switch(Cpu, Switch),
    /// A wake-up in its compact form.
    Waking(Cpu, Waking),
}

// Most are as large as what they hold elsewhere.
impl Waits for Event {}

/// A packet whose data is read in the order of time.
#[derive(Debug)]
pub struct WholePacket {
    /// The field number of its data in `TracePacket`.
    pub kind: u32,
    /// Its data: that message.
    pub data: Box<[u8]>,
    /// Where it comes from.
    pub origin: Origin,
    /// What its sequence had interned.
    pub state: Rc<Generation>,
}

/// Where a packet comes from.
#[derive(Clone, Copy, Debug)]
pub struct Origin {
    /// The machine.
    pub machine: MachineId,
    /// The sequence's number in the trace; 0 is none.
    pub sequence_id: u32,
    /// By the service's word.
    pub trusted_pid: Option<i32>,
    /// By the service's word.
    pub trusted_uid: Option<i32>,
    /// Where it is in the file.
    pub place: Place,
}
