//! `CpuInfo` and `InterruptInfo`: what processors there are, what they can do, and what interrupts are called (upstream:
//! system_probes_parser.cc).

use ferretto_protos::fields::cpu_info as field;
use ferretto_protos::fields::interrupt_info;
use ferretto_trace_tables::MachineId;
use ferretto_trace_tables::tables::{CpuFreqRow, InterruptMappingRow};

use crate::args::{Arg, ArgValue};
use crate::cpus::MAX_CPUS;
use crate::model::Model;
use crate::stats::Stat;
use crate::wire;

/// Features that have names, by the bits of `Cpu.features`. Upstream's: cpu_info_features_allowlist.h.
const FEATURES: [&str; 2] = ["mte", "mte3"];

/// A processor as its message has it.
struct Cpu<'a> {
    number: u32,
    message: &'a [u8],
    capacity: Option<u32>,
    frequencies: Vec<u32>,
}

impl Model {
    /// Reads `TracePacket.cpu_info`, when it arrives.
    pub fn read_cpu_info(&mut self, machine: MachineId, message: &[u8]) {
        let mut cpus: Vec<Cpu<'_>> = wire::all_bytes(message, field::CPUS)
            .zip(0..MAX_CPUS)
            .map(|(message, number)| Cpu {
                number,
                message,
                capacity: wire::number(message, field::cpu::CAPACITY).map(|value| value as u32),
                frequencies: wire::all_numbers(message, field::cpu::FREQUENCIES)
                    .map(|khz| khz as u32)
                    .collect(),
            })
            .collect();
        if cpus.is_empty() {
            return self.log(Stat::CpuInfoEmpty, None, &[]);
        }
        let clusters = clusters(&mut cpus);
        for cpu in &cpus {
            let cluster_id = clusters.get(cpu.number as usize).copied().unwrap_or(0);
            self.add_cpu(machine, cpu, cluster_id);
        }
    }

    fn add_cpu(&mut self, machine: MachineId, cpu: &Cpu<'_>, cluster_id: u32) {
        let ucpu = self.cpus.get(machine, cpu.number);
        for freq in &cpu.frequencies {
            self.tables.cpu_freq.push(CpuFreqRow { ucpu, freq: *freq });
        }
        let processor = wire::bytes(cpu.message, field::cpu::PROCESSOR).filter(|text| !text.is_empty());
        let processor = processor.map(|text| self.tables.strings.intern_bytes(text));
        let args = self.args_of_cpu(cpu.message);
        let list = self.args.intern(&args);
        let set = self.args.write(list, &mut self.tables);
        let Some(facts) = self.cpus.facts(ucpu) else { return };
        facts.processor = processor.or(facts.processor);
        facts.cluster_id = cluster_id;
        facts.capacity = cpu.capacity.or(facts.capacity);
        facts.args = set.or(facts.args);
    }

    fn args_of_cpu(&mut self, message: &[u8]) -> Vec<Arg> {
        use field::arm_cpu_identifier as arm;
        let mut args = Vec::new();
        if let Some(identifier) = wire::bytes(message, field::cpu::ARM_IDENTIFIER) {
            let parts = [
                ("arm_cpu_implementer", arm::IMPLEMENTER),
                ("arm_cpu_architecture", arm::ARCHITECTURE),
                ("arm_cpu_variant", arm::VARIANT),
                ("arm_cpu_part", arm::PART),
                ("arm_cpu_revision", arm::REVISION),
            ];
            for (key, number) in parts {
                let value = wire::number(identifier, number).unwrap_or(0);
                args.push(self.arg(key, ArgValue::Uint(value)));
            }
        }
        let features = wire::number(message, field::cpu::FEATURES).unwrap_or(0);
        for (bit, name) in FEATURES.iter().enumerate() {
            if features >> bit & 1 != 0 {
                args.push(self.arg(&["cpu_features.", name].concat(), ArgValue::Bool(true)));
            }
        }
        if features != 0 {
            args.push(self.arg("cpu_features.raw_bitmap", ArgValue::Uint(features)));
        }
        if features >> FEATURES.len() != 0 {
            self.log(Stat::CpuInfoUnknownCpuFeatures, None, &[]);
        }
        args
    }

    /// Reads `TracePacket.interrupt_info`, when it arrives. The first name of an interrupt counts.
    pub fn read_interrupt_info(&mut self, machine: MachineId, message: &[u8]) {
        for mapping in wire::all_bytes(message, interrupt_info::IRQ_MAPPING) {
            let id = wire::number(mapping, interrupt_info::interrupt_mapping::IRQ_ID);
            let name = wire::bytes(mapping, interrupt_info::interrupt_mapping::NAME);
            let (Some(id), Some(name)) = (id, name) else { continue };
            if self.interrupts.insert((machine, id as u32)) {
                let name = Some(self.tables.strings.intern_bytes(name));
                let row = InterruptMappingRow { irq_id: id as u32, name, machine_id: Some(machine) };
                self.tables.interrupt_mapping.push(row);
            }
        }
    }
}

/// The cluster of each processor, by number: those of one capacity are one, or else those of one highest frequency; the slowest is 0. The
/// processors are sorted by capacity if all have one, and get their rows in this order.
fn clusters(cpus: &mut [Cpu<'_>]) -> Vec<u32> {
    let mut clusters = vec![0; cpus.len()];
    let speeds: Vec<(u32, u32)> = if cpus.iter().all(|cpu| cpu.capacity.is_some()) {
        cpus.sort_by_key(|cpu| cpu.capacity);
        cpus.iter().map(|cpu| (cpu.number, cpu.capacity.unwrap_or(0))).collect()
    } else if cpus.iter().all(|cpu| !cpu.frequencies.is_empty()) {
        let fastest = |cpu: &Cpu<'_>| cpu.frequencies.iter().copied().max().unwrap_or(0);
        let mut speeds: Vec<_> = cpus.iter().map(|cpu| (cpu.number, fastest(cpu))).collect();
        speeds.sort_by_key(|(_, speed)| *speed);
        speeds
    } else {
        return clusters;
    };
    let mut cluster = 0;
    let mut last = speeds.first().map_or(0, |(_, speed)| *speed);
    for (number, speed) in speeds {
        if speed > last {
            last = speed;
            cluster += 1;
        }
        if let Some(cell) = clusters.get_mut(number as usize) {
            *cell = cluster;
        }
    }
    clusters
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(cpus: &[(Option<u32>, &[u32])]) -> (Vec<u32>, Vec<u32>) {
        let mut all: Vec<_> = (0..)
            .zip(cpus)
            .map(|(number, (capacity, frequencies))| Cpu {
                number,
                message: &[],
                capacity: *capacity,
                frequencies: frequencies.to_vec(),
            })
            .collect();
        let clusters = clusters(&mut all);
        (clusters, all.iter().map(|cpu| cpu.number).collect())
    }

    #[test]
    fn clusters_are_of_one_capacity_or_else_of_one_highest_frequency() {
        let by_capacity = [(Some(1024), &[][..]), (Some(300), &[]), (Some(1024), &[]), (Some(600), &[])];
        assert_eq!(found(&by_capacity), (vec![2, 0, 2, 1], vec![1, 3, 0, 2]));
        let by_frequency = [(Some(1024), &[5, 9][..]), (None, &[7]), (Some(1024), &[9, 3])];
        assert_eq!(found(&by_frequency), (vec![1, 0, 1], vec![0, 1, 2]));
        assert_eq!(found(&[(None, &[1][..]), (None, &[])]), (vec![0, 0], vec![0, 1]));
    }
}
