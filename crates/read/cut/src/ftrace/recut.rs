//! A bundle with less in it: the events in the range, and those that are always kept.

use ferretto_protos::fields::ftrace_event_bundle as field;
use ferretto_protos::fields::ftrace_event_bundle::compact_sched;
use ferretto_protozero::Message;
use ferretto_protozero::read::{Fields, Value};
use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::ftrace::bundle::{Bundle, Event};
use crate::ftrace::compact::{Compact, CompactSwitch, CompactWaking};
use crate::ftrace::pairs::is_always_kept;
use crate::range::Range;
use crate::walk::{Seen, Walk};

/// What becomes of a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recut {
    /// It stays as it is.
    Same,
    /// It has less in it.
    Less,
    /// Nothing of it is needed.
    Nothing,
}

/// Writes what is kept of a bundle to `out`.
///
/// Where a CPU's data begins is said by its first bundle, which therefore always stays, if without events (upstream:
/// ftrace_tokenizer.cc); other bundles must not say it.
pub(crate) fn recut(
    bundle: &Bundle<'_>,
    walk: &mut Walk,
    seen: &Seen<'_>,
    range: Range,
    is_first: bool,
    out: &mut Vec<u8>,
) -> Recut {
    let mut is_in = |raw| bundle.when(walk, seen, raw).is_none_or(|when| range.has(when.ts));
    let says_begin = is_first && bundle.previous_end.is_some();
    let (mut kept, mut less) = (0u64, false);
    let mut message = Message::new(out);
    for part in Fields::new(bundle.bytes).map_while(Result::ok) {
        match (part.number, part.value) {
            (field::EVENT, Value::Bytes(bytes)) => {
                // What cannot be read is kept, to be counted by whoever reads the cut.
                if Event::of(bytes).is_none_or(|event| is_always_kept(event.kind) || is_in(event.raw_ts)) {
                    kept += 1;
                    message.raw(part.raw);
                } else {
                    less = true;
                }
            }
            (field::COMPACT_SCHED, Value::Bytes(bytes)) => {
                let compact = Compact::of(bytes);
                let (switches, wakings) = (compact.switches(), compact.wakings());
                let all = switches.iter().all(|switch| is_in(switch.raw_ts))
                    && wakings.iter().all(|waking| is_in(waking.raw_ts));
                if all {
                    kept += 1;
                    message.raw(part.raw);
                    continue;
                }
                less = true;
                let columns = Columns::of(&switches, &wakings, &mut is_in);
                if !columns.is_empty() {
                    kept += 1;
                    columns.write(&mut message.nested(field::COMPACT_SCHED), &compact.names);
                }
            }
            (field::LAST_READ_EVENT_TIMESTAMP | field::PREVIOUS_BUNDLE_END_TIMESTAMP, _) if !is_first => {
                less = true
            }
            _ => message.raw(part.raw),
        }
    }
    drop(message);
    match (kept, less) {
        (0, _) if !says_begin && !bundle.says_more && bundle.pair().is_none() => Recut::Nothing,
        (_, false) => Recut::Same,
        (_, true) => Recut::Less,
    }
}

/// The compact form, column by column.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    switch: [Vec<u64>; 5],
    waking: [Vec<u64>; 6],
    names: Vec<usize>,
    numbers: HashMap<usize, u64, RandomState>,
}

impl Columns {
    fn of(
        switches: &[CompactSwitch],
        wakings: &[CompactWaking],
        is_in: &mut impl FnMut(u64) -> bool,
    ) -> Self {
        let mut columns = Self::default();
        let mut last = 0;
        for switch in switches.iter().filter(|switch| is_in(switch.raw_ts)) {
            let comm = columns.name(switch.next_comm);
            let row = [
                switch.raw_ts.wrapping_sub(last),
                switch.prev_state as u64,
                i64::from(switch.next_pid) as u64,
                i64::from(switch.next_prio) as u64,
                comm,
            ];
            last = switch.raw_ts;
            columns.switch.iter_mut().zip(row).for_each(|(column, value)| column.push(value));
        }
        let mut last = 0;
        for waking in wakings.iter().filter(|waking| is_in(waking.raw_ts)) {
            let comm = columns.name(waking.comm);
            let row = [
                waking.raw_ts.wrapping_sub(last),
                i64::from(waking.pid) as u64,
                i64::from(waking.target_cpu) as u64,
                i64::from(waking.prio) as u64,
                comm,
            ];
            last = waking.raw_ts;
            columns.waking.iter_mut().zip(row).for_each(|(column, value)| column.push(value));
            columns.waking[5].extend(waking.common_flags);
        }
        columns
    }

    fn is_empty(&self) -> bool {
        self.switch[0].is_empty() && self.waking[0].is_empty()
    }

    fn name(&mut self, old: usize) -> u64 {
        *self.numbers.entry(old).or_insert_with(|| {
            self.names.push(old);
            self.names.len() as u64 - 1
        })
    }

    fn write(&self, message: &mut Message<'_, Vec<u8>>, names: &[&[u8]]) {
        const SWITCH: [u32; 5] = [
            compact_sched::SWITCH_TIMESTAMP,
            compact_sched::SWITCH_PREV_STATE,
            compact_sched::SWITCH_NEXT_PID,
            compact_sched::SWITCH_NEXT_PRIO,
            compact_sched::SWITCH_NEXT_COMM_INDEX,
        ];
        const WAKING: [u32; 6] = [
            compact_sched::WAKING_TIMESTAMP,
            compact_sched::WAKING_PID,
            compact_sched::WAKING_TARGET_CPU,
            compact_sched::WAKING_PRIO,
            compact_sched::WAKING_COMM_INDEX,
            compact_sched::WAKING_COMMON_FLAGS,
        ];
        for name in &self.names {
            message.bytes(compact_sched::INTERN_TABLE, names.get(*name).copied().unwrap_or_default());
        }
        for (field, column) in
            SWITCH.into_iter().zip(&self.switch).chain(WAKING.into_iter().zip(&self.waking))
        {
            message.packed_varints(field, column.iter().copied());
        }
    }
}
