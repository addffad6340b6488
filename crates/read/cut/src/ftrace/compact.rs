//! Scheduling in columns (upstream: ftrace_event_bundle.proto, `CompactSched`).

use ferretto_protos::fields::ftrace_event_bundle::compact_sched;
use ferretto_trace_read::fields::{Fields, Value};

use crate::packed::Packed;

/// The columns of scheduling's compact form.
#[derive(Clone, Debug, Default)]
pub(crate) struct Compact<'a> {
    pub(crate) names: Vec<&'a [u8]>,
    switch: [Column<'a>; 5],
    waking: [Column<'a>; 6],
}

/// A switch in the compact form.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CompactSwitch {
    pub(crate) raw_ts: u64,
    pub(crate) prev_state: i64,
    pub(crate) next_pid: i32,
    pub(crate) next_prio: i32,
    pub(crate) next_comm: usize,
}

/// A waking in the compact form.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CompactWaking {
    pub(crate) raw_ts: u64,
    pub(crate) pid: i32,
    pub(crate) target_cpu: i32,
    pub(crate) prio: i32,
    pub(crate) comm: usize,
    pub(crate) common_flags: Option<u64>,
}

impl<'a> Compact<'a> {
    pub(crate) fn of(bytes: &'a [u8]) -> Self {
        let mut compact = Self::default();
        for part in Fields::new(bytes).whole() {
            let Value::Bytes(bytes) = part.value else { continue };
            let column = match part.number {
                compact_sched::INTERN_TABLE => {
                    compact.names.push(bytes);
                    continue;
                }
                compact_sched::SWITCH_TIMESTAMP => &mut compact.switch[0],
                compact_sched::SWITCH_PREV_STATE => &mut compact.switch[1],
                compact_sched::SWITCH_NEXT_PID => &mut compact.switch[2],
                compact_sched::SWITCH_NEXT_PRIO => &mut compact.switch[3],
                compact_sched::SWITCH_NEXT_COMM_INDEX => &mut compact.switch[4],
                compact_sched::WAKING_TIMESTAMP => &mut compact.waking[0],
                compact_sched::WAKING_PID => &mut compact.waking[1],
                compact_sched::WAKING_TARGET_CPU => &mut compact.waking[2],
                compact_sched::WAKING_PRIO => &mut compact.waking[3],
                compact_sched::WAKING_COMM_INDEX => &mut compact.waking[4],
                compact_sched::WAKING_COMMON_FLAGS => &mut compact.waking[5],
                _ => continue,
            };
            *column = Column(bytes);
        }
        compact
    }

    pub(crate) fn switches(&self) -> Vec<CompactSwitch> {
        let [ts, state, pid, prio, comm] = self.switch;
        let mut rows =
            ts.sums(shortest(&self.switch), |raw_ts| CompactSwitch { raw_ts, ..CompactSwitch::default() });
        pid.fill(&mut rows, |row, pid| row.next_pid = pid as i32);
        fill_all([state, prio, comm], &mut rows, |row, [state, prio, comm]| {
            (row.prev_state, row.next_prio, row.next_comm) = (state as i64, prio as i32, comm as usize);
        });
        let named = rows.iter().position(|row| row.next_comm >= self.names.len());
        rows.truncate(named.unwrap_or(rows.len()));
        rows
    }

    pub(crate) fn wakings(&self) -> Vec<CompactWaking> {
        let [ts, pid, cpu, prio, comm, flags] = self.waking;
        let rows = shortest(&[ts, pid, cpu, prio, comm]);
        let mut rows = ts.sums(rows, |raw_ts| CompactWaking { raw_ts, ..CompactWaking::default() });
        pid.fill(&mut rows, |row, pid| row.pid = pid as i32);
        fill_all([cpu, prio, comm], &mut rows, |row, [cpu, prio, comm]| {
            (row.target_cpu, row.prio, row.comm) = (cpu as i32, prio as i32, comm as usize);
        });
        // Older writers have no such column.
        flags.each(&mut rows, |row, flags| row.common_flags = Some(flags));
        let named = rows.iter().position(|row| row.comm >= self.names.len());
        rows.truncate(named.unwrap_or(rows.len()));
        rows
    }
}

/// How many rows columns make, at most: as many as the shortest has bytes.
fn shortest(columns: &[Column<'_>]) -> usize {
    columns.iter().map(|column| column.0.len()).min().unwrap_or(0)
}

/// A column of the compact form.
#[derive(Clone, Copy, Debug, Default)]
struct Column<'a>(&'a [u8]);

impl Column<'_> {
    /// Calls `set` with each row and its number; says how many there were.
    #[inline(always)]
    fn each<R>(self, rows: &mut [R], mut set: impl FnMut(&mut R, u64)) -> usize {
        let rows = rows.iter_mut();
        if self.0.is_ascii() {
            // Numbers of one byte each, as priorities, states and names are.
            rows.zip(self.0).map(|(row, byte)| set(row, u64::from(*byte))).count()
        } else {
            rows.zip(Packed(self.0)).map(|(row, number)| set(row, number)).count()
        }
    }

    /// The same; rows without a number are none.
    #[inline(always)]
    fn fill<R>(self, rows: &mut Vec<R>, set: impl FnMut(&mut R, u64)) {
        let count = self.each(rows, set);
        rows.truncate(count);
    }

    /// Rows of numbers that are differences, at most so many.
    #[inline(always)]
    fn sums<R>(self, most: usize, row: impl Fn(u64) -> R) -> Vec<R> {
        let (mut rows, mut sum) = (Vec::with_capacity(most), 0u64);
        for difference in Packed(self.0).take(most) {
            sum = sum.wrapping_add(difference);
            rows.push(row(sum));
        }
        rows
    }
}

/// Fills rows from three columns, which mostly are numbers of one byte each, as CPUs, priorities, states and names are; rows without one of them are
/// none.
#[inline(always)]
fn fill_all<R>(columns: [Column<'_>; 3], rows: &mut Vec<R>, mut set: impl FnMut(&mut R, [u64; 3])) {
    let [one, two, three] = columns;
    let count = if columns.iter().all(|column| column.0.is_ascii()) {
        let bytes = one.0.iter().zip(two.0).zip(three.0);
        let numbers = bytes.map(|((one, two), three)| [one, two, three].map(|byte| u64::from(*byte)));
        rows.iter_mut().zip(numbers).map(|(row, numbers)| set(row, numbers)).count()
    } else {
        let numbers = Packed(one.0).zip(Packed(two.0)).zip(Packed(three.0));
        let numbers = numbers.map(|((one, two), three)| [one, two, three]);
        rows.iter_mut().zip(numbers).map(|(row, numbers)| set(row, numbers)).count()
    };
    rows.truncate(count);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Rows as upstream's reader takes them: one number of each column after the other, up to the first that is missing.
    fn row_by_row(compact: &Compact<'_>) -> Vec<(u64, i64, i32, i32, usize)> {
        let [mut ts, mut state, mut pid, mut prio, mut comm] = compact.switch.map(|column| Packed(column.0));
        let mut now = 0u64;
        let rows = std::iter::from_fn(|| {
            now = now.wrapping_add(ts.next()?);
            let (state, pid, prio) = (state.next()? as i64, pid.next()? as i32, prio.next()? as i32);
            Some((now, state, pid, prio, comm.next()? as usize))
        });
        rows.take_while(|row| row.4 < compact.names.len()).collect()
    }

    fn column() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            proptest::collection::vec(0u8..3, 0..40),
            proptest::collection::vec(prop_oneof![any::<u8>(), 0u8..3, Just(0x80)], 0..60),
        ]
    }

    proptest! {
        #[test]
        fn columns_make_the_rows_that_they_make_one_by_one(
            switch in (column(), column(), column(), column(), column()),
        ) {
            let ((ts, state, pid, prio, comm), flags) = (&switch, vec![1, 2]);
            let compact = Compact {
                names: vec![b"a", b"b"],
                switch: [ts, state, pid, prio, comm].map(|bytes| Column(bytes)),
                waking: [ts, pid, state, prio, comm, &flags].map(|bytes| Column(bytes)),
            };
            let expected = row_by_row(&compact);
            let switches = compact.switches();
            let rows = switches.iter().map(|row| {
                (row.raw_ts, row.prev_state, row.next_pid, row.next_prio, row.next_comm)
            });
            prop_assert_eq!(rows.collect::<Vec<_>>(), expected.clone());
            let wakings = compact.wakings();
            let rows = wakings.iter().map(|row| (row.raw_ts, row.target_cpu, row.pid, row.prio, row.comm));
            let of_switch = |row: (u64, i64, i32, i32, usize)| (row.0, row.1 as i32, row.2, row.3, row.4);
            prop_assert_eq!(rows.collect::<Vec<_>>(), expected.into_iter().map(of_switch).collect::<Vec<_>>());
            let flags = wakings.iter().map(|row| row.common_flags);
            let known = [Some(1), Some(2)].into_iter().chain(std::iter::repeat(None));
            prop_assert!(flags.eq(known.take(wakings.len())));
        }
    }
}
