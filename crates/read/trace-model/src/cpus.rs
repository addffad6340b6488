//! Which processors there are.
//!
//! A machine has 4096 numbers (`ucpu` = the machine's row × 4096 + its own number). A processor has a row once anything names it: an event of
//! the kernel, a counter, the list of processors (upstream: cpu_tracker.cc, and the SQL view `cpu`, which leaves out those that nothing
//! names).
//!
//! Memory: 4096 bytes for each machine whose processors are named, and a row for each of them.

use ferretto_trace_tables::tables::{CpuRow, Tables};
use ferretto_trace_tables::{ArgSetId, MachineId, Str, Ucpu};

/// Numbers of processors of a machine. Upstream's. Linux has fewer; a higher number out of a trace is taken for the last.
pub const MAX_CPUS: u32 = 4096;

/// The processors that were named.
#[derive(Debug, Default)]
pub struct Cpus {
    /// By `ucpu`.
    is_known: Vec<bool>,
    known: Vec<(Ucpu, Facts)>,
}

/// What is known of a processor.
#[derive(Clone, Copy, Debug, Default)]
pub struct Facts {
    /// What it calls itself.
    pub processor: Option<Str>,
    /// Which of the machine's kinds it is.
    pub cluster_id: u32,
    /// What it can do, relative to the fastest.
    pub capacity: Option<u32>,
    /// More about it.
    pub args: Option<ArgSetId>,
}

impl Cpus {
    /// A processor's number over all machines. It was named.
    #[inline]
    pub fn get(&mut self, machine: MachineId, cpu: u32) -> Ucpu {
        let ucpu = Ucpu(machine.0.saturating_mul(MAX_CPUS).saturating_add(cpu.min(MAX_CPUS - 1)));
        if !self.is_known.get(ucpu.index()).copied().unwrap_or(false) {
            self.add(ucpu);
        }
        ucpu
    }

    /// What is known of one, to be written.
    pub fn facts(&mut self, ucpu: Ucpu) -> Option<&mut Facts> {
        self.known.iter_mut().find(|(known, _)| *known == ucpu).map(|(_, facts)| facts)
    }

    /// Writes the table `cpu`, by number.
    pub fn write(&mut self, tables: &mut Tables) {
        self.known.sort_by_key(|(ucpu, _)| *ucpu);
        for (ucpu, facts) in &self.known {
            tables.cpu.push(CpuRow {
                ucpu: *ucpu,
                cpu: ucpu.0 % MAX_CPUS,
                cluster_id: facts.cluster_id,
                processor: facts.processor,
                machine_id: Some(MachineId(ucpu.0 / MAX_CPUS)),
                capacity: facts.capacity,
                arg_set_id: facts.args,
            });
        }
    }

    #[cold]
    fn add(&mut self, ucpu: Ucpu) {
        if self.is_known.len() <= ucpu.index() {
            self.is_known.resize(ucpu.index() + 1, false);
        }
        if let Some(is_known) = self.is_known.get_mut(ucpu.index()) {
            *is_known = true;
        }
        self.known.push((ucpu, Facts::default()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_that_are_named_have_rows_by_number() {
        let mut cpus = Cpus::default();
        assert_eq!(cpus.get(MachineId(1), 2), Ucpu(4098));
        assert_eq!(cpus.get(MachineId(0), 3), Ucpu(3));
        assert_eq!(cpus.get(MachineId(0), 3), Ucpu(3));
        assert_eq!(cpus.get(MachineId(0), u32::MAX), Ucpu(4095));
        cpus.facts(Ucpu(3)).unwrap().cluster_id = 1;
        let mut tables = Tables::default();
        cpus.write(&mut tables);
        assert_eq!(tables.cpu.ucpu, [Ucpu(3), Ucpu(4095), Ucpu(4098)]);
        assert_eq!(tables.cpu.cpu, [3, 4095, 2]);
        assert_eq!(tables.cpu.cluster_id, [1, 0, 0]);
    }
}
