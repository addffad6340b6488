//! Machines: which there are, and what rules need to know of each (upstream: machine_tracker.cc, proto_trace_reader.cc).
//!
//! Row 0 is the machine that the service ran on. If all packets of a trace come from one other machine, that one has row 0.

use ferretto_trace_tables::MachineId;
use ferretto_trace_tables::tables::{MachineRow, Tables};
use foldhash::fast::RandomState;
use hashbrown::HashMap;

/// Machines of one trace: packets of further ones are taken for those of the service's own. Ours.
const MAX_MACHINES: usize = 4096;
/// The size of a page, where the trace does not say it.
pub const PAGE_BYTES: u32 = 4096;

/// What rules need to know of a machine, beside what stands in the table.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// The size of a page.
    pub page_bytes: u32,
}

impl Default for Facts {
    fn default() -> Self {
        Self { page_bytes: PAGE_BYTES }
    }
}

/// All machines of a trace.
#[derive(Debug, Default)]
pub struct Machines {
    rows: HashMap<u32, MachineId, RandomState>,
    facts: Vec<Facts>,
    /// Something came from the service's own machine.
    is_host_used: bool,
    /// The last one that was looked up: most packets come from one.
    last: Option<(u32, MachineId)>,
}

impl Machines {
    /// The machine that a packet of this number comes from. Markers of places in the file come from none.
    #[inline]
    pub fn of_packet(&mut self, raw_id: u32, is_marker: bool, tables: &mut Tables) -> MachineId {
        match self.last {
            Some((last, machine)) if last == raw_id && !is_marker => machine,
            _ => self.find(raw_id, is_marker, tables),
        }
    }

    /// What is known of a machine.
    #[must_use]
    pub fn get(&self, machine: MachineId) -> Facts {
        self.facts.get(machine.index()).copied().unwrap_or_default()
    }

    /// The same, to be written.
    pub fn get_mut(&mut self, machine: MachineId) -> Option<&mut Facts> {
        self.facts.get_mut(machine.index())
    }

    #[cold]
    fn find(&mut self, raw_id: u32, is_marker: bool, tables: &mut Tables) -> MachineId {
        if self.facts.is_empty() {
            self.add(0, tables);
        }
        if raw_id == 0 && is_marker {
            return MachineId(0);
        }
        let machine = match self.rows.get(&raw_id) {
            Some(known) => *known,
            None if !self.is_host_used && self.facts.len() == 1 && self.rows.len() == 1 => {
                // So far nobody else has the host's row.
                self.rows.insert(raw_id, MachineId(0));
                if let Some(cell) = tables.machine.raw_id.first_mut() {
                    *cell = raw_id;
                }
                MachineId(0)
            }
            None if self.facts.len() >= MAX_MACHINES => MachineId(0),
            None => self.add(raw_id, tables),
        };
        self.is_host_used |= raw_id == 0;
        self.last = Some((raw_id, machine));
        machine
    }

    fn add(&mut self, raw_id: u32, tables: &mut Tables) -> MachineId {
        let id = MachineId(tables.machine.push(MachineRow { raw_id, ..MachineRow::default() }));
        self.rows.insert(raw_id, id);
        self.facts.push(Facts::default());
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(raw_ids: &[u32]) -> (Vec<u32>, Vec<u32>) {
        let (mut machines, mut tables) = (Machines::default(), Tables::default());
        let ids = raw_ids.iter().map(|raw_id| machines.of_packet(*raw_id, false, &mut tables).0).collect();
        (ids, tables.machine.raw_id)
    }

    #[test]
    fn the_only_machine_has_the_first_row_and_others_have_rows_of_their_own() {
        assert_eq!(of(&[0, 7, 0, 9, 7]), (vec![0, 1, 0, 2, 1], vec![0, 7, 9]));
        assert_eq!(of(&[7, 7]), (vec![0, 0], vec![7]));
        assert_eq!(of(&[7, 9, 7]), (vec![0, 1, 0], vec![7, 9]));
    }

    #[test]
    fn markers_belong_to_no_machine() {
        let (mut machines, mut tables) = (Machines::default(), Tables::default());
        machines.of_packet(0, true, &mut tables);
        assert_eq!(machines.of_packet(5, false, &mut tables), MachineId(0));
        assert_eq!(tables.machine.raw_id, [5]);
    }
}
