//! Machines: which there are, and what rules need to know of each (upstream: machine_tracker.cc, proto_trace_reader.cc).
//!
//! Row 0 is the machine that the service ran on. If all packets of a trace come from one other machine, that one has row 0. What the
//! manifest of an archive names comes before both, and says for each file which of its machines is which.

use ferretto_trace_tables::MachineId;
use ferretto_trace_tables::tables::{MachineRow, Tables};
use foldhash::fast::RandomState;
use hashbrown::HashMap;

/// Machines of one trace: packets of further ones are taken for those of the service's own. Ours.
const MAX_MACHINES: usize = 4096;
/// What the first machine that a manifest names has for its number: packets have none so high. Upstream's.
const FIRST_NAMED: i64 = 1 << 32;
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
    /// Those that a manifest names.
    named: HashMap<Box<str>, MachineId, RandomState>,
    /// What a manifest says of the file that is read.
    of_file: OfFile,
    /// What is not as the manifest says.
    wrong: Option<String>,
}

/// Whose a file's packets are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum OfFile {
    /// By their numbers.
    #[default]
    AsTheySay,
    /// All of this one's.
    One(MachineId),
    /// By their numbers in this file.
    Several(Vec<(u32, MachineId)>),
    /// Of one machine, by whatever number: the manifest says how its only clock lies.
    Single,
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
        if let Some(machine) = self.find_in_file(raw_id) {
            self.last = Some((raw_id, machine));
            return machine;
        }
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
                    *cell = raw_id.into();
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

    /// The machine that a manifest calls so. Nothing if there are too many.
    pub fn named(&mut self, name: &str, tables: &mut Tables) -> Option<MachineId> {
        if let Some(known) = self.named.get(name) {
            return Some(*known);
        }
        if self.facts.len() >= MAX_MACHINES {
            return None;
        }
        let raw_id = FIRST_NAMED.saturating_add(self.named.len() as i64);
        let name_of_row = Some(tables.strings.intern(name));
        let row = MachineRow { raw_id, name: name_of_row, ..MachineRow::default() };
        let id = MachineId(tables.machine.push(row));
        self.facts.push(Facts::default());
        self.named.insert(name.into(), id);
        Some(id)
    }

    /// Whether a manifest has named any.
    #[must_use]
    pub fn are_named(&self) -> bool {
        !self.named.is_empty()
    }

    /// Another file begins, whose packets are of these.
    pub fn begin_file(&mut self, of_file: OfFile) {
        (self.of_file, self.last) = (of_file, None);
    }

    /// What is not as the manifest says, so that nothing can be said of the rest.
    #[must_use]
    pub fn wrong(&self) -> Option<&str> {
        self.wrong.as_deref()
    }

    /// The file that is read says of itself what the manifest excludes.
    pub fn set_wrong(&mut self, wrong: &str) {
        self.wrong.get_or_insert_with(|| wrong.to_owned());
    }

    /// Which it is if the manifest says so.
    fn find_in_file(&mut self, raw_id: u32) -> Option<MachineId> {
        let (found, wrong) = match &self.of_file {
            OfFile::AsTheySay => return None,
            OfFile::One(machine) if raw_id == 0 => (Some(*machine), None),
            OfFile::One(machine) => (
                Some(*machine),
                Some(format!("a packet is of the machine {raw_id}: say machines instead of machine")),
            ),
            OfFile::Several(machines) => {
                let found = machines.iter().find(|(id, _)| *id == raw_id).map(|(_, machine)| *machine);
                let is_missing = found.is_none() && raw_id != 0;
                (
                    found,
                    is_missing.then(|| format!("machines lacks the machine {raw_id}, which a packet is of")),
                )
            }
            OfFile::Single => (
                None,
                (raw_id != 0)
                    .then(|| format!("a packet is of the machine {raw_id}: clocks are for files of one")),
            ),
        };
        if let Some(wrong) = wrong {
            self.set_wrong(&wrong);
        }
        found
    }

    fn add(&mut self, raw_id: u32, tables: &mut Tables) -> MachineId {
        let row = MachineRow { raw_id: raw_id.into(), ..MachineRow::default() };
        let id = MachineId(tables.machine.push(row));
        self.rows.insert(raw_id, id);
        self.facts.push(Facts::default());
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(raw_ids: &[u32]) -> (Vec<u32>, Vec<i64>) {
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
    fn what_a_manifest_names_is_the_same_in_all_files() {
        let (mut machines, mut tables) = (Machines::default(), Tables::default());
        let phone = machines.named("phone", &mut tables).unwrap();
        let vm = machines.named("vm", &mut tables).unwrap();
        assert_eq!(machines.named("phone", &mut tables), Some(phone));
        machines.begin_file(OfFile::Several(vec![(7, vm)]));
        assert_eq!(machines.of_packet(7, false, &mut tables), vm);
        assert_eq!(machines.of_packet(0, false, &mut tables), MachineId(2));
        machines.begin_file(OfFile::One(phone));
        assert_eq!(machines.of_packet(0, false, &mut tables), phone);
        assert_eq!((machines.wrong(), &tables.machine.raw_id[..]), (None, &[1 << 32, (1 << 32) + 1, 0][..]));
        machines.of_packet(9, false, &mut tables);
        assert!(machines.wrong().unwrap().contains("the machine 9"));
    }

    #[test]
    fn markers_belong_to_no_machine() {
        let (mut machines, mut tables) = (Machines::default(), Tables::default());
        machines.of_packet(0, true, &mut tables);
        assert_eq!(machines.of_packet(5, false, &mut tables), MachineId(0));
        assert_eq!(tables.machine.raw_id, [5]);
    }
}
