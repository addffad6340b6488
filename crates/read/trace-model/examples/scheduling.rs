//! Writes a trace of a busy machine's scheduling: `scheduling FILE MEGABYTES [compact]`. What it holds is the same each time.

use std::io::Write;

use ferretto_protos::fields::ftrace_event_bundle::compact_sched;
use ferretto_protos::fields::{ftrace_event, ftrace_event_bundle, trace, trace_packet};
use ferretto_protozero::{Message, varint};

const CPUS: u32 = 8;
const THREADS: u64 = 500;
const SWITCHES_OF_BUNDLE: u64 = 200;
/// `SchedSwitchFtraceEvent` and `SchedWakingFtraceEvent` in `FtraceEvent`.
const SCHED_SWITCH: u32 = 4;
const SCHED_WAKING: u32 = 20;

/// Xorshift: numbers that look random and are not.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// What a processor does.
struct Cpu {
    ts: u64,
    tid: u64,
}

fn main() -> std::io::Result<()> {
    let mut args = std::env::args().skip(1);
    let usage = || std::io::Error::other("usage: scheduling FILE MEGABYTES [compact]");
    let path = args.next().ok_or_else(usage)?;
    let megabytes: u64 = args.next().and_then(|size| size.parse().ok()).ok_or_else(usage)?;
    let is_compact = args.next().is_some();
    let mut file = std::io::BufWriter::new(std::fs::File::create(path)?);
    let mut numbers = Numbers(0x1234_5678_9abc_def1);
    let mut cpus: Vec<Cpu> =
        (0..CPUS).map(|cpu| Cpu { ts: 1_000_000_000 + u64::from(cpu), tid: 0 }).collect();
    let mut written = 0;
    while written < megabytes << 20 {
        for (number, cpu) in cpus.iter_mut().enumerate() {
            let mut bundle = Vec::new();
            let mut message = Message::new(&mut bundle);
            message.varint(ftrace_event_bundle::CPU, number as u64);
            match is_compact {
                true => compact(&mut message, cpu, &mut numbers),
                false => events(&mut message, cpu, &mut numbers),
            }
            drop(message);
            let mut packet = Vec::new();
            Message::new(&mut packet).bytes(trace_packet::FTRACE_EVENTS, &bundle);
            let mut out = Vec::new();
            Message::new(&mut out).bytes(trace::PACKET, &packet);
            file.write_all(&out)?;
            written += out.len() as u64;
        }
    }
    file.flush()
}

fn comm(tid: u64) -> String {
    if tid == 0 { "swapper/0".to_owned() } else { format!("worker-{tid}") }
}

fn events(bundle: &mut Message<'_, Vec<u8>>, cpu: &mut Cpu, numbers: &mut Numbers) {
    for _ in 0..SWITCHES_OF_BUNDLE {
        let next = numbers.below(THREADS);
        let mut event = Vec::new();
        cpu.ts += 1000 + numbers.below(50_000);
        let mut message = Message::new(&mut event);
        message.varint(ftrace_event::TIMESTAMP, cpu.ts);
        message.varint(ftrace_event::PID, cpu.tid);
        let mut waking = Vec::new();
        let mut fields = Message::new(&mut waking);
        fields.bytes(1, comm(next).as_bytes());
        fields.varint(2, next);
        fields.varint(3, 120);
        fields.varint(4, 1);
        fields.varint(5, 0);
        drop(fields);
        message.bytes(SCHED_WAKING, &waking);
        drop(message);
        bundle.bytes(ftrace_event_bundle::EVENT, &event);

        let mut event = Vec::new();
        cpu.ts += 1000 + numbers.below(50_000);
        let mut message = Message::new(&mut event);
        message.varint(ftrace_event::TIMESTAMP, cpu.ts);
        message.varint(ftrace_event::PID, cpu.tid);
        let mut switch = Vec::new();
        let mut fields = Message::new(&mut switch);
        fields.bytes(1, comm(cpu.tid).as_bytes());
        fields.varint(2, cpu.tid);
        fields.varint(3, 120);
        fields.varint(4, numbers.below(2));
        fields.bytes(5, comm(next).as_bytes());
        fields.varint(6, next);
        fields.varint(7, 120);
        drop(fields);
        message.bytes(SCHED_SWITCH, &switch);
        drop(message);
        bundle.bytes(ftrace_event_bundle::EVENT, &event);
        cpu.tid = next;
    }
}

fn compact(bundle: &mut Message<'_, Vec<u8>>, cpu: &mut Cpu, numbers: &mut Numbers) {
    let mut columns: [Vec<u8>; 11] = Default::default();
    let mut names: Vec<u64> = Vec::new();
    let (mut last_switch, mut last_waking) = (0, 0);
    for _ in 0..SWITCHES_OF_BUNDLE {
        let next = numbers.below(THREADS);
        let name = names.iter().position(|tid| *tid == next).unwrap_or_else(|| {
            names.push(next);
            names.len() - 1
        }) as u64;
        cpu.ts += 1000 + numbers.below(50_000);
        let wake = cpu.ts;
        cpu.ts += 1000 + numbers.below(50_000);
        let values = [
            cpu.ts - last_switch,
            numbers.below(2),
            next,
            120,
            name,
            wake - last_waking,
            next,
            0,
            120,
            name,
            0,
        ];
        (last_switch, last_waking) = (cpu.ts, wake);
        for (column, value) in columns.iter_mut().zip(values) {
            varint::encode(value, column);
        }
        cpu.tid = next;
    }
    let mut all = Vec::new();
    let mut message = Message::new(&mut all);
    for name in names {
        message.bytes(compact_sched::INTERN_TABLE, comm(name).as_bytes());
    }
    let fields = [
        compact_sched::SWITCH_TIMESTAMP,
        compact_sched::SWITCH_PREV_STATE,
        compact_sched::SWITCH_NEXT_PID,
        compact_sched::SWITCH_NEXT_PRIO,
        compact_sched::SWITCH_NEXT_COMM_INDEX,
        compact_sched::WAKING_TIMESTAMP,
        compact_sched::WAKING_PID,
        compact_sched::WAKING_TARGET_CPU,
        compact_sched::WAKING_PRIO,
        compact_sched::WAKING_COMM_INDEX,
        compact_sched::WAKING_COMMON_FLAGS,
    ];
    for (field, column) in fields.into_iter().zip(&columns) {
        message.bytes(field, column);
    }
    drop(message);
    bundle.bytes(ftrace_event_bundle::COMPACT_SCHED, &all);
}
