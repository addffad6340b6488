//! A bundle of kernel events, part by part (upstream: ftrace_event_bundle.proto, ftrace_event.proto).

use ferretto_protos::fields::{ftrace_event, ftrace_event_bundle};
use ferretto_trace_read::fields::{Field, Fields, Value};

/// `FtraceEvent.sched_switch`.
pub const SCHED_SWITCH: u32 = ftrace_event::SCHED_SWITCH;
/// `FtraceEvent.sched_waking`.
pub const SCHED_WAKING: u32 = ftrace_event::SCHED_WAKING;

const EVENT_TAG: u8 = (ftrace_event_bundle::EVENT << 3 | 2) as u8;
const TIMESTAMP_TAG: u8 = (ftrace_event::TIMESTAMP << 3) as u8;
const PID_TAG: u8 = (ftrace_event::PID << 3) as u8;

/// Takes what is in a bundle.
pub trait Parts<'a> {
    /// Comes first: whose events follow, and on which clock. 0 is the boot clock; of another it is said what both showed at one time.
    fn begin(&mut self, cpu: u32, clock: u64, pair: Option<(i64, i64)>);
    /// An event with a message of its own.
    fn event(&mut self, event: Event<'a>);
    /// Scheduling switches in columns.
    fn switches(&mut self, switches: Switches<'a>);
    /// Wake-ups in columns.
    fn wakings(&mut self, wakings: Wakings<'a>);
}

/// Takes note of nothing.
impl Parts<'_> for () {
    fn begin(&mut self, _: u32, _: u64, _: Option<(i64, i64)>) {}
    fn event(&mut self, _: Event<'_>) {}
    fn switches(&mut self, _: Switches<'_>) {}
    fn wakings(&mut self, _: Wakings<'_>) {}
}

/// Columns of wake-ups.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wakings<'a> {
    /// The times: the first is whole, the others are differences.
    pub timestamps: &'a [u8],
    /// How many they are.
    pub count: u64,
    /// How large all of the columns are.
    pub bytes: usize,
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
    /// How many they are.
    pub count: u64,
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

/// Gives `parts` every part, in the order of the bytes.
#[inline]
pub fn walk<'a>(bundle: &'a [u8], parts: &mut impl Parts<'a>) -> Bundle {
    let mut about = Bundle::default();
    let (mut clock, mut here, mut boot) = (0, None, None);
    // Most events are their own fields; what is said of all of them may stand behind them.
    let mut fields = Fields::new(bundle);
    while let Some(tag) = fields.first_byte() {
        if tag == EVENT_TAG && fields.take_message().is_some() {
            continue;
        }
        let Some(Ok(field)) = fields.next() else { break };
        match (field.number, field.value) {
            (ftrace_event_bundle::CPU, Value::Varint(number)) => about.cpu = number as u32,
            (ftrace_event_bundle::LOST_EVENTS, Value::Varint(flag)) => about.has_lost_events = flag != 0,
            (ftrace_event_bundle::FTRACE_CLOCK, Value::Varint(number)) => clock = number,
            (ftrace_event_bundle::FTRACE_TIMESTAMP, Value::Varint(time)) => here = Some(time as i64),
            (ftrace_event_bundle::BOOT_TIMESTAMP, Value::Varint(time)) => boot = Some(time as i64),
            _ => {}
        }
    }
    parts.begin(about.cpu, clock, here.zip(boot));
    let mut fields = Fields::new(bundle);
    let mut begin = 0;
    while let Some(tag) = fields.first_byte() {
        let usual = if tag == EVENT_TAG { fields.take_message() } else { None };
        let (number, value) = match usual {
            Some(event) => (ftrace_event_bundle::EVENT, Value::Bytes(event)),
            None => {
                let Some(Ok(Field { number, value })) = fields.next() else { break };
                (number, value)
            }
        };
        let bytes = fields.offset() - begin;
        begin += bytes;
        match (number, value) {
            (ftrace_event_bundle::EVENT, Value::Bytes(event)) => {
                parts.event(Event { bytes, ..read(event) });
            }
            (ftrace_event_bundle::COMPACT_SCHED, Value::Bytes(compact)) => columns(compact, parts),
            _ => {}
        }
    }
    about
}

#[inline(always)]
fn read(event: &[u8]) -> Event<'_> {
    let mut read = Event::default();
    // Nearly all begin with these.
    let mut fields = Fields::new(event);
    read.timestamp = fields.number_of(TIMESTAMP_TAG);
    if let Some(pid) = fields.number_of(PID_TAG) {
        read.pid = pid as i32;
    }
    for field in fields.whole() {
        match (field.number, field.value) {
            (ftrace_event::TIMESTAMP, Value::Varint(time)) => read.timestamp = Some(time),
            (ftrace_event::PID, Value::Varint(pid)) => read.pid = pid as i32,
            (number, Value::Bytes(body)) => (read.number, read.body) = (number, body),
            _ => {}
        }
    }
    read
}

fn columns<'a>(compact: &'a [u8], parts: &mut impl Parts<'a>) {
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
    switches.count = packed_len(switches.timestamps);
    parts.switches(switches);
    if let Some(timestamps) = wakings {
        parts.wakings(Wakings { timestamps, count: packed_len(timestamps), bytes: waking_bytes });
    }
}

/// How many varints a packed field holds: each ends with the one byte that has no continuation bit.
fn packed_len(packed: &[u8]) -> u64 {
    // Sums of single bytes are what the compiler makes of it many at a time.
    let go_on = packed.chunks(u8::MAX.into()).map(|chunk| chunk.iter().map(|byte| byte >> 7).sum::<u8>());
    packed.len() as u64 - go_on.map(u64::from).sum::<u64>()
}
