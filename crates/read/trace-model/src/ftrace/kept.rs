//! Arguments of rows of `ftrace_event` that are made when they are asked for.
//!
//! Written out, the arguments of the kernel's events take most of the time and the memory of reading a trace, and most are never looked at.
//! [`RowArgs::Kept`] keeps for each row where its bytes lie, and the bytes of the bundles.
//!
//! Memory: a number a row, 24 bytes an event, 16 a wake-up and 48 a switch of the compact form or not, and the bundles.

use ferretto_trace_tables::Strings;

use super::generic::Generic;
use super::raw::Raw;
use super::{Bundles, Cpu, KernelEvent, Waking};
use crate::args::Arg;
use crate::sched::FullSwitch;

/// What becomes of the arguments of rows of `ftrace_event`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RowArgs {
    /// They are written into the table `args`, as Trace Processor does.
    #[default]
    Written,
    /// They can be asked for ([`KeptArgs`]).
    Kept,
    /// They are left out.
    Left,
}

/// What is kept of each row.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    /// By row: which of the lists below, and its place there.
    rows: Vec<u32>,
    events: Vec<(Cpu, KernelEvent)>,
    switches: Vec<FullSwitch>,
    wakings: Vec<Waking>,
}

/// The list of a row is told by its number modulo so many.
const LISTS: u32 = 3;

impl Kept {
    pub(crate) fn push_event(&mut self, cpu: Cpu, event: KernelEvent) {
        self.push(0, self.events.len());
        self.events.push((cpu, event));
    }

    pub(crate) fn push_switch(&mut self, event: FullSwitch) {
        self.push(1, self.switches.len());
        self.switches.push(event);
    }

    pub(crate) fn push_waking(&mut self, event: Waking) {
        self.push(2, self.wakings.len());
        self.wakings.push(event);
    }

    fn push(&mut self, list: u32, place: usize) {
        let place = u32::try_from(place).unwrap_or(u32::MAX);
        self.rows.push(place.saturating_mul(LISTS).saturating_add(list));
    }
}

/// The arguments of all rows of `ftrace_event`, made one row at a time.
#[derive(Debug, Default)]
pub struct KeptArgs {
    pub(crate) kept: Kept,
    pub(crate) bundles: Bundles,
    pub(crate) raw: Raw,
    /// By machine.
    pub(crate) generic: Vec<Generic>,
}

impl KeptArgs {
    /// How many rows there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.kept.rows.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kept.rows.is_empty()
    }

    /// Bytes of memory that it holds.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let kept = &self.kept;
        kept.rows.capacity() * size_of::<u32>()
            + kept.events.capacity() * size_of::<(Cpu, KernelEvent)>()
            + kept.switches.capacity() * size_of::<FullSwitch>()
            + kept.wakings.capacity() * size_of::<Waking>()
            + self.bundles.memory_bytes()
    }

    /// Appends the arguments of a row to `list`. `strings` are those of the tables that the row is of.
    pub fn of_row(&mut self, row: usize, strings: &mut Strings, list: &mut Vec<Arg>) {
        let Some(number) = self.kept.rows.get(row) else { return };
        let place = (number / LISTS) as usize;
        match number % LISTS {
            0 => self.of_event(place, strings, list),
            1 => {
                if let Some(event) = self.kept.switches.get(place) {
                    list.extend(self.raw.switch_args(event.values()));
                }
            }
            _ => {
                if let Some(event) = self.kept.wakings.get(place) {
                    list.extend(self.raw.waking_args(event.values()));
                }
            }
        }
    }

    fn of_event(&mut self, place: usize, strings: &mut Strings, list: &mut Vec<Arg>) {
        let Some((cpu, event)) = self.kept.events.get(place) else { return };
        let Some(bundle) = self.bundles.get(event.bundle) else { return };
        let message = bundle.payload(event);
        match event.field {
            super::generic::LEGACY_NUMBER => {
                super::generic::legacy_args(message, strings, list);
            }
            super::generic::FIRST_NUMBER.. => {
                if let Some(generic) = self.generic.get(cpu.machine.index()) {
                    generic.args(event.field, message, strings, list);
                }
            }
            number => {
                self.raw.args(number, message, &bundle.state, strings, list);
            }
        }
    }
}
