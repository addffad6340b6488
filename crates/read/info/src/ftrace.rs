//! A bundle of kernel events, part by part (upstream: ftrace_event_bundle.proto, ftrace_event.proto).

use ferretto_protos::fields::{ftrace_event, ftrace_event_bundle};
use ferretto_trace_read::fields::{Fields, Value};

/// `FtraceEvent.sched_switch`.
pub const SCHED_SWITCH: u32 = ftrace_event::SCHED_SWITCH;
/// `FtraceEvent.sched_waking`.
pub const SCHED_WAKING: u32 = ftrace_event::SCHED_WAKING;

/// What is in a bundle.
#[derive(Clone, Copy, Debug)]
pub enum Part<'a> {
    /// Comes first: whose events follow, and on which clock.
    Clock {
        /// The CPU.
        cpu: u32,
        /// The clock's number, if it has one: 0 is the boot clock.
        clock: u64,
        /// What that clock and the boot clock showed at one time.
        pair: Option<(i64, i64)>,
    },
    /// An event with a message of its own.
    Event(Event<'a>),
    /// Scheduling switches in columns.
    Switches(Switches<'a>),
    /// Wake-ups in columns.
    Wakings {
        /// The times: the first is whole, the others are differences.
        timestamps: &'a [u8],
        /// How large all of the columns are.
        bytes: usize,
    },
}

/// One event.
#[derive(Clone, Copy, Debug, Default)]
pub struct Event<'a> {
    /// On the bundle's clock.
    pub timestamp: Option<u64>,
    /// The thread that it happened in.
    pub pid: i32,
    /// The number of its message's field in `FtraceEvent`; 0 if there is none.
    pub number: u32,
    /// That message.
    pub body: &'a [u8],
    /// How large the whole is.
    pub bytes: usize,
}

/// Columns: packed numbers, as many in each.
#[derive(Clone, Copy, Debug, Default)]
pub struct Switches<'a> {
    /// The first is whole, the others are differences.
    pub timestamps: &'a [u8],
    /// The thread that runs from now on.
    pub next_pids: &'a [u8],
    /// Its name's number in the table.
    pub next_comms: &'a [u8],
    /// All columns, with the table of names, which are its fields number 5.
    pub message: &'a [u8],
    /// How large all of them are.
    pub bytes: usize,
}

/// What is said of a bundle as a whole.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bundle {
    /// The CPU.
    pub cpu: u32,
    /// The kernel had overwritten events before these.
    pub has_lost_events: bool,
}

/// Calls `each` with every part, in the order of the bytes.
pub fn walk<'a>(bundle: &'a [u8], each: &mut impl FnMut(Part<'a>)) -> Bundle {
    let mut about = Bundle::default();
    let (mut clock, mut here, mut boot) = (0, None, None);
    // Most events are their own fields; what is said of all of them may stand behind them.
    for field in Fields::new(bundle).whole() {
        match (field.number, field.value) {
            (ftrace_event_bundle::EVENT, _) => {}
            (ftrace_event_bundle::CPU, Value::Varint(number)) => about.cpu = number as u32,
            (ftrace_event_bundle::LOST_EVENTS, Value::Varint(flag)) => about.has_lost_events = flag != 0,
            (ftrace_event_bundle::FTRACE_CLOCK, Value::Varint(number)) => clock = number,
            (ftrace_event_bundle::FTRACE_TIMESTAMP, Value::Varint(time)) => here = Some(time as i64),
            (ftrace_event_bundle::BOOT_TIMESTAMP, Value::Varint(time)) => boot = Some(time as i64),
            _ => {}
        }
    }
    each(Part::Clock { cpu: about.cpu, clock, pair: here.zip(boot) });
    let mut fields = Fields::new(bundle);
    let mut begin = 0;
    while let Some(Ok(field)) = fields.next() {
        let bytes = fields.offset() - begin;
        begin += bytes;
        match (field.number, field.value) {
            (ftrace_event_bundle::EVENT, Value::Bytes(event)) => {
                each(Part::Event(Event { bytes, ..read(event) }));
            }
            (ftrace_event_bundle::COMPACT_SCHED, Value::Bytes(compact)) => columns(compact, each),
            _ => {}
        }
    }
    about
}

fn read(event: &[u8]) -> Event<'_> {
    let mut read = Event::default();
    for field in Fields::new(event).whole() {
        match (field.number, field.value) {
            (ftrace_event::TIMESTAMP, Value::Varint(time)) => read.timestamp = Some(time),
            (ftrace_event::PID, Value::Varint(pid)) => read.pid = pid as i32,
            (number, Value::Bytes(body)) => (read.number, read.body) = (number, body),
            _ => {}
        }
    }
    read
}

fn columns<'a>(compact: &'a [u8], each: &mut impl FnMut(Part<'a>)) {
    use ftrace_event_bundle::compact_sched as field;
    let mut switches = Switches { message: compact, ..Switches::default() };
    let (mut wakings, mut waking_bytes) = (None, 0);
    let mut fields = Fields::new(compact);
    let mut begin = 0;
    while let Some(Ok(part)) = fields.next() {
        let bytes = fields.offset() - begin;
        begin += bytes;
        let Value::Bytes(column) = part.value else { continue };
        match part.number {
            field::SWITCH_TIMESTAMP => switches.timestamps = column,
            field::SWITCH_NEXT_PID => switches.next_pids = column,
            field::SWITCH_NEXT_COMM_INDEX => switches.next_comms = column,
            field::WAKING_TIMESTAMP => wakings = Some(column),
            _ => {}
        }
        match part.number {
            field::WAKING_TIMESTAMP
            | field::WAKING_PID
            | field::WAKING_TARGET_CPU
            | field::WAKING_PRIO
            | field::WAKING_COMM_INDEX
            | field::WAKING_COMMON_FLAGS => waking_bytes += bytes,
            _ => switches.bytes += bytes,
        }
    }
    each(Part::Switches(switches));
    if let Some(timestamps) = wakings {
        each(Part::Wakings { timestamps, bytes: waking_bytes });
    }
}
