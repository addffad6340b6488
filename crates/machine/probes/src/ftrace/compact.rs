//! The column-wise encoding of `sched_switch` and `sched_waking`: arrays of varints with interned names.
//!
//! A scheduler event takes about 60 bytes as a message of its own and about 10 here; on most machines these two are nearly all events.

use ferretto_protos::fields::ftrace_event_bundle::compact_sched as out_field;
use ferretto_protozero::{Message, Sink};

use super::format::{FieldKind, FormatField};
use super::page::{Record, read_u32, read_u64};
use super::plan::EventPlan;
use super::words::Words;

/// The kernel's TASK_COMM_LEN: names of any other size take the plain encoding.
const COMM_LEN: usize = 16;

/// A bundle ends at the next page once it holds more names than this, as upstream's does (kCompactSchedInternerThreshold).
pub(crate) const INTERN_LIMIT: usize = 64;

/// Where the fields of this kernel's two events are. Only made when every width is as expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CompactLayout {
    pub(crate) switch: SwitchLayout,
    pub(crate) waking: WakingLayout,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SwitchLayout {
    pub(crate) id: u16,
    size: usize,
    prev_state: usize,
    prev_state_is_64bit: bool,
    next_pid: usize,
    next_prio: usize,
    next_comm: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WakingLayout {
    pub(crate) id: u16,
    size: usize,
    pid: usize,
    target_cpu: usize,
    prio: usize,
    comm: usize,
    common_flags: usize,
}

impl CompactLayout {
    /// Checks both events (upstream: compact_sched.cc, ValidateFormatForCompactSched).
    pub(crate) fn new(switch: &EventPlan, waking: &EventPlan) -> Option<Self> {
        Some(Self { switch: SwitchLayout::new(switch)?, waking: WakingLayout::new(waking)? })
    }
}

/// The offset of a field that has exactly this kind and size.
fn offset(plan: &EventPlan, name: &str, kind: FieldKind, size: usize) -> Option<usize> {
    let fits = |f: &&FormatField| f.name == name && f.kind == kind && usize::from(f.size) == size;
    plan.format.fields.iter().find(fits).map(|f| usize::from(f.offset))
}

const SIGNED: FieldKind = FieldKind::Int { signed: true };

impl SwitchLayout {
    fn new(plan: &EventPlan) -> Option<Self> {
        let wide_state = offset(plan, "prev_state", SIGNED, 8);
        Some(Self {
            id: plan.id,
            size: plan.min_size,
            prev_state: wide_state.or_else(|| offset(plan, "prev_state", SIGNED, 4))?,
            prev_state_is_64bit: wide_state.is_some(),
            next_pid: offset(plan, "next_pid", FieldKind::Pid, 4)?,
            next_prio: offset(plan, "next_prio", SIGNED, 4)?,
            next_comm: offset(plan, "next_comm", FieldKind::FixedString, COMM_LEN)?,
        })
    }
}

impl WakingLayout {
    fn new(plan: &EventPlan) -> Option<Self> {
        Some(Self {
            id: plan.id,
            size: plan.min_size,
            pid: offset(plan, "pid", FieldKind::Pid, 4)?,
            target_cpu: offset(plan, "target_cpu", SIGNED, 4)?,
            prio: offset(plan, "prio", SIGNED, 4)?,
            comm: offset(plan, "comm", FieldKind::FixedString, COMM_LEN)?,
            common_flags: usize::from(plan.flags_offset?),
        })
    }
}

/// One array: encoded varints, ready to be copied.
#[derive(Debug, Default)]
struct Column(Words);

impl Column {
    #[inline(always)]
    fn push(&mut self, value: u64) {
        self.0.put_varint(value);
    }

    #[inline(always)]
    fn push_signed(&mut self, value: i64) {
        self.push(value.cast_unsigned());
    }
}

/// The events of one bundle so far. Its memory is used again for the next one.
#[derive(Debug, Default)]
pub(crate) struct CompactSched {
    switch_timestamp: Column,
    switch_prev_state: Column,
    switch_next_pid: Column,
    switch_next_prio: Column,
    switch_next_comm: Column,
    waking_timestamp: Column,
    waking_pid: Column,
    waking_target_cpu: Column,
    waking_prio: Column,
    waking_comm: Column,
    waking_flags: Column,
    last_switch: u64,
    last_waking: u64,
    comms: CommTable,
}

impl CompactSched {
    /// How many distinct names the bundle holds.
    pub(crate) fn interned(&self) -> usize {
        self.comms.names.len()
    }

    /// Adds a `sched_switch`; gives the thread switched to, or `None` if the record is too short.
    #[inline]
    pub(crate) fn switch(&mut self, record: &Record<'_>, layout: &SwitchLayout) -> Option<i32> {
        let payload = record.payload;
        if payload.len() < layout.size {
            return None;
        }
        let next_pid = read_u32(payload, layout.next_pid)?.cast_signed();
        let next_prio = read_u32(payload, layout.next_prio)?.cast_signed();
        let prev_state = if layout.prev_state_is_64bit {
            read_u64(payload, layout.prev_state)?.cast_signed()
        } else {
            i64::from(read_u32(payload, layout.prev_state)?.cast_signed())
        };
        let comm = self.comms.intern(read_comm(payload, layout.next_comm)?);
        self.switch_timestamp.push(record.timestamp.wrapping_sub(self.last_switch));
        self.last_switch = record.timestamp;
        self.switch_prev_state.push_signed(prev_state);
        self.switch_next_pid.push_signed(i64::from(next_pid));
        self.switch_next_prio.push_signed(i64::from(next_prio));
        self.switch_next_comm.push(comm);
        Some(next_pid)
    }

    /// Adds a `sched_waking`; gives the thread woken, or `None` if the record is too short.
    #[inline]
    pub(crate) fn waking(&mut self, record: &Record<'_>, layout: &WakingLayout) -> Option<i32> {
        let payload = record.payload;
        if payload.len() < layout.size {
            return None;
        }
        let pid = read_u32(payload, layout.pid)?.cast_signed();
        let target_cpu = read_u32(payload, layout.target_cpu)?.cast_signed();
        let prio = read_u32(payload, layout.prio)?.cast_signed();
        let flags = *payload.get(layout.common_flags)?;
        let comm = self.comms.intern(read_comm(payload, layout.comm)?);
        self.waking_timestamp.push(record.timestamp.wrapping_sub(self.last_waking));
        self.last_waking = record.timestamp;
        self.waking_pid.push_signed(i64::from(pid));
        self.waking_target_cpu.push_signed(i64::from(target_cpu));
        self.waking_prio.push_signed(i64::from(prio));
        self.waking_comm.push(comm);
        self.waking_flags.push(u64::from(flags));
        Some(pid)
    }

    /// Writes everything into the bundle and starts anew.
    pub(crate) fn write_and_reset<S: Sink>(&mut self, bundle: &mut Message<'_, S>) {
        if !self.comms.names.is_empty() {
            let mut out = bundle.nested(ferretto_protos::fields::ftrace_event_bundle::COMPACT_SCHED);
            for name in &self.comms.names {
                out.bytes(out_field::INTERN_TABLE, comm_str(name));
            }
            for (field, column) in [
                (out_field::SWITCH_TIMESTAMP, &self.switch_timestamp),
                (out_field::SWITCH_PREV_STATE, &self.switch_prev_state),
                (out_field::SWITCH_NEXT_PID, &self.switch_next_pid),
                (out_field::SWITCH_NEXT_PRIO, &self.switch_next_prio),
                (out_field::SWITCH_NEXT_COMM_INDEX, &self.switch_next_comm),
                (out_field::WAKING_TIMESTAMP, &self.waking_timestamp),
                (out_field::WAKING_PID, &self.waking_pid),
                (out_field::WAKING_TARGET_CPU, &self.waking_target_cpu),
                (out_field::WAKING_PRIO, &self.waking_prio),
                (out_field::WAKING_COMM_INDEX, &self.waking_comm),
                (out_field::WAKING_COMMON_FLAGS, &self.waking_flags),
            ] {
                if !column.0.is_empty() {
                    out.bytes(field, column.0.as_slice());
                }
            }
        }
        self.reset();
    }

    fn reset(&mut self) {
        for column in [
            &mut self.switch_timestamp,
            &mut self.switch_prev_state,
            &mut self.switch_next_pid,
            &mut self.switch_next_prio,
            &mut self.switch_next_comm,
            &mut self.waking_timestamp,
            &mut self.waking_pid,
            &mut self.waking_target_cpu,
            &mut self.waking_prio,
            &mut self.waking_comm,
            &mut self.waking_flags,
        ] {
            column.0.clear();
        }
        self.last_switch = 0;
        self.last_waking = 0;
        self.comms.reset();
    }
}

#[inline]
fn read_comm(payload: &[u8], offset: usize) -> Option<[u8; COMM_LEN]> {
    payload.get(offset..)?.first_chunk::<COMM_LEN>().copied()
}

/// The name without what follows its NUL; old kernels may leave the NUL out.
fn comm_str(comm: &[u8; COMM_LEN]) -> &[u8] {
    let len = comm.iter().position(|&b| b == 0).unwrap_or(COMM_LEN);
    comm.get(..len).unwrap_or(comm)
}

/// Slots of the hash table: a power of two, several times the names that a bundle usually ends at.
const SLOTS: usize = 512;
/// From here on names are added without being looked up: the table must not fill. A page of large size could bring this many.
const MAX_HASHED: usize = SLOTS / 2;

/// Distinct names of one bundle, found by a small open hash table.
#[derive(Debug)]
struct CommTable {
    names: Vec<[u8; COMM_LEN]>,
    /// Index of a name plus one; 0 is empty.
    slots: Box<[u16; SLOTS]>,
}

impl Default for CommTable {
    fn default() -> Self {
        Self { names: Vec::with_capacity(2 * INTERN_LIMIT), slots: Box::new([0; SLOTS]) }
    }
}

impl CommTable {
    /// The name's index; a new one if it was not there. Bytes after the NUL are whatever the kernel left: two spellings of
    /// one name are then two entries, which readers allow.
    #[inline]
    fn intern(&mut self, comm: [u8; COMM_LEN]) -> u64 {
        let mut slot = hash(&comm);
        for _ in 0..SLOTS {
            let Some(entry) = self.slots.get_mut(slot % SLOTS) else { break };
            match entry.checked_sub(1) {
                None => {
                    let index = self.names.len();
                    if index < MAX_HASHED {
                        *entry = index as u16 + 1;
                    }
                    self.names.push(comm);
                    return index as u64;
                }
                Some(index) if self.names.get(usize::from(index)) == Some(&comm) => return u64::from(index),
                Some(_) => slot = slot.wrapping_add(1),
            }
        }
        0
    }

    fn reset(&mut self) {
        if !self.names.is_empty() {
            self.names.clear();
            self.slots.fill(0);
        }
    }
}

/// Multiplication by an odd constant (the golden ratio in 64 bits) spreads the bytes over the upper bits.
#[inline]
fn hash(comm: &[u8; COMM_LEN]) -> usize {
    let word = u128::from_le_bytes(*comm);
    let folded = (word as u64) ^ ((word >> 64) as u64).rotate_left(29);
    (folded.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ftrace::format::EventFormat;

    pub(crate) fn plan(name: &str) -> EventPlan {
        let path = format!("{}/tests/data/formats/{name}", env!("CARGO_MANIFEST_DIR"));
        EventPlan::known("sched", &EventFormat::parse(&std::fs::read(path).unwrap()).unwrap()).unwrap()
    }

    #[test]
    fn the_layout_of_a_real_kernel_is_accepted_and_a_changed_width_is_not() {
        let (switch, waking) = (plan("sched_switch"), plan("sched_waking"));
        assert!(CompactLayout::new(&switch, &waking).is_some());
        let mut longer_comm = switch.clone();
        longer_comm.format.fields[4].size = 32;
        assert!(CompactLayout::new(&longer_comm, &waking).is_none());
        assert!(CompactLayout::new(&waking, &switch).is_none());
    }

    #[test]
    fn names_are_interned_once_and_times_are_deltas() {
        let layout = CompactLayout::new(&plan("sched_switch"), &plan("sched_waking")).unwrap();
        let mut payload = vec![0; 64];
        payload[40..44].copy_from_slice(b"bash");
        payload[56] = 7;
        let mut compact = CompactSched::default();
        for timestamp in [1000, 1003] {
            let record = Record { timestamp, event_id: layout.switch.id, payload: &payload };
            assert_eq!(compact.switch(&record, &layout.switch), Some(7));
        }
        let short = Record { timestamp: 0, event_id: layout.switch.id, payload: &payload[..60] };
        assert_eq!(compact.switch(&short, &layout.switch), None);
        assert_eq!(compact.interned(), 1);
        let mut bytes = Vec::new();
        compact.write_and_reset(&mut Message::new(&mut bytes));
        let expected: &[u8] = &[
            0x22, 25, // compact_sched
            0x2a, 4, b'b', b'a', b's', b'h', // intern_table
            0x0a, 3, 0xe8, 0x07, 3, // switch_timestamp
            0x12, 2, 0, 0, 0x1a, 2, 7, 7, 0x22, 2, 0, 0, 0x32, 2, 0, 0,
        ];
        assert_eq!(bytes[2..], expected[2..]);
        assert_eq!(compact.interned(), 0);
    }

    #[test]
    fn more_names_than_the_table_holds_still_get_their_own_indices() {
        let mut table = CommTable::default();
        for n in 0..2000u32 {
            let mut comm = [0; COMM_LEN];
            comm[..4].copy_from_slice(&n.to_le_bytes());
            let index = table.intern(comm);
            assert_eq!(table.names[index as usize], comm);
        }
    }
}
