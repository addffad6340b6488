//! `linux.system_info`: what the CPUs are, and what the interrupts are called; once, at the start.

use ferretto_protos::fields::{cpu_info as cpu_field, interrupt_info as irq_field, trace_packet};
use ferretto_protozero::Message;

use crate::clock::boottime_ns;
use crate::packets::{Packets, stamp};
use crate::proc_fs::{leading_u64, lines, read, words};

/// One CPU of /proc/cpuinfo.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Cpu {
    index: u64,
    /// Arm kernels name the processor once for all CPUs; others do not name it under this key (upstream: cpu_info.cc).
    processor: Vec<u8>,
    /// Implementer, architecture, variant, part, revision: Arm only, and only when all are known.
    arm: [Option<u64>; 5],
    /// A bit for each feature of [`FEATURES`].
    features: u64,
}

/// CPU features that have a bit, by bit (upstream: cpu_info_features_allowlist.h).
const FEATURES: [&[u8]; 2] = [b"mte", b"mte3"];

/// Writes the packets of this source.
pub(crate) fn write(irq_names: bool, out: &mut impl Packets) {
    let mut body = Vec::new();
    let mut message = Message::new(&mut body);
    for cpu in parse_cpuinfo(&read("/proc/cpuinfo")) {
        let dir = format!("/sys/devices/system/cpu/cpu{}", cpu.index);
        let frequencies = ["scaling_available_frequencies", "scaling_boost_frequencies"]
            .map(|f| read(format!("{dir}/cpufreq/{f}")));
        write_cpu(&cpu, leading_u64(&read(format!("{dir}/cpu_capacity"))), &frequencies, &mut message);
    }
    drop(message);
    out.packet(|packet| {
        stamp(packet, boottime_ns());
        packet.bytes(trace_packet::CPU_INFO, &body);
    });
    if irq_names {
        write_interrupts(&read("/proc/interrupts"), out);
    }
}

fn write_cpu(
    cpu: &Cpu,
    capacity: Option<u64>,
    frequencies: &[Vec<u8>; 2],
    message: &mut Message<'_, Vec<u8>>,
) {
    use cpu_field::{arm_cpu_identifier as arm, cpu as field};
    let mut out = message.nested(cpu_field::CPUS);
    out.bytes(field::PROCESSOR, &cpu.processor);
    if let Some(capacity) = capacity {
        out.varint(field::CAPACITY, capacity);
    }
    let mut khz: Vec<u64> = frequencies.iter().flat_map(|text| words(text)).filter_map(leading_u64).collect();
    khz.sort_unstable();
    khz.dedup();
    for khz in khz {
        out.varint(field::FREQUENCIES, khz);
    }
    if let [Some(implementer), Some(architecture), Some(variant), Some(part), Some(revision)] = cpu.arm {
        let mut id = out.nested(field::ARM_IDENTIFIER);
        id.varint(arm::IMPLEMENTER, implementer);
        id.varint(arm::ARCHITECTURE, architecture);
        id.varint(arm::VARIANT, variant);
        id.varint(arm::PART, part);
        id.varint(arm::REVISION, revision);
    }
    if cpu.features != 0 {
        out.varint(field::FEATURES, cpu.features);
    }
}

fn parse_cpuinfo(text: &[u8]) -> Vec<Cpu> {
    let mut cpus: Vec<Cpu> = Vec::new();
    let mut processor = b"unknown".to_vec();
    for line in lines(text) {
        let Some(colon) = line.iter().position(|&b| b == b':') else { continue };
        let (key, value) = line.split_at(colon);
        let value = value.strip_prefix(b":").unwrap_or(value).trim_ascii();
        match (key.trim_ascii(), cpus.last_mut()) {
            // Arm's old kernels print this line before, newer ones after the CPUs.
            (b"Processor", _) => processor = value.to_vec(),
            (b"processor", _) => {
                if let Some(index) = leading_u64(value) {
                    cpus.push(Cpu { index, ..Cpu::default() });
                }
            }
            (key, Some(cpu)) => match key {
                b"CPU implementer" => cpu.arm[0] = number(value),
                b"CPU architecture" => cpu.arm[1] = number(value),
                b"CPU variant" => cpu.arm[2] = number(value),
                b"CPU part" => cpu.arm[3] = number(value),
                b"CPU revision" => cpu.arm[4] = number(value),
                b"Features" | b"flags" | b"Flags" => {
                    let bits = FEATURES
                        .iter()
                        .enumerate()
                        .filter(|(_, feature)| words(value).any(|word| word == **feature));
                    cpu.features = bits.fold(0, |all, (bit, _)| all | 1 << bit);
                }
                _ => {}
            },
            _ => {}
        }
    }
    for cpu in &mut cpus {
        cpu.processor.clone_from(&processor);
    }
    cpus
}

/// `0x41` or `8`.
fn number(text: &[u8]) -> Option<u64> {
    match text.strip_prefix(b"0x") {
        Some(digits) => u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok(),
        None => leading_u64(text),
    }
}

fn write_interrupts(text: &[u8], out: &mut impl Packets) {
    let mut body = Vec::new();
    let mut message = Message::new(&mut body);
    for (irq, name) in parse_interrupts(text) {
        let mut mapping = message.nested(irq_field::IRQ_MAPPING);
        mapping.varint(irq_field::interrupt_mapping::IRQ_ID, irq);
        mapping.bytes(irq_field::interrupt_mapping::NAME, &name);
    }
    drop(message);
    if !body.is_empty() {
        out.packet(|packet| {
            stamp(packet, boottime_ns());
            packet.bytes(trace_packet::INTERRUPT_INFO, &body);
        });
    }
}

/// Numbered interrupts and the names of their handlers. After the counts come the chip, the hardware number and trigger, and
/// the name, which may hold blanks; the trigger is what tells where the name begins (upstream: system_info_data_source.cc).
fn parse_interrupts(text: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let mut lines = lines(text);
    let cpus = lines.next().map_or(0, |header| words(header).filter(|word| word.starts_with(b"CPU")).count());
    let mut found = Vec::new();
    for line in lines.filter(|_| cpus > 0) {
        let tokens: Vec<&[u8]> = words(line).collect();
        let Some(irq) = tokens
            .first()
            .and_then(|t| t.strip_suffix(b":"))
            .filter(|t| t.iter().all(u8::is_ascii_digit))
            .and_then(leading_u64)
        else {
            continue;
        };
        let trigger = tokens
            .iter()
            .enumerate()
            .skip(cpus + 1)
            .rev()
            .find(|(_, token)| is_trigger(token))
            .map(|(index, _)| index);
        let name_start = trigger.map_or(tokens.len() - 1, |index| index + 1);
        match tokens.get(name_start..) {
            Some(name) if !name.is_empty() && name_start >= cpus + 2 => found.push((irq, name.join(&b' '))),
            _ => {}
        }
    }
    found
}

fn is_trigger(token: &[u8]) -> bool {
    matches!(token, b"Level" | b"Edge")
        || [&b"-edge"[..], b"-fasteoi", b"-level"].iter().any(|suffix| token.ends_with(suffix))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packets::testing::Recorded;
    use ferretto_protos::trace_packet::Data;

    #[test]
    fn cpus_of_both_worlds_parse() {
        let x86 = b"processor\t: 0\nvendor_id\t: X\nflags\t\t: fpu mte\n\nprocessor\t: 1\nflags\t\t: fpu\n";
        let cpus = parse_cpuinfo(x86);
        assert_eq!(cpus.iter().map(|c| (c.index, c.features)).collect::<Vec<_>>(), [(0, 1), (1, 0)]);
        assert_eq!(cpus[0].processor, b"unknown");
        let arm = b"Processor\t: AArch64\nprocessor\t: 4\nFeatures\t: mte3\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t: 0x1\nCPU part\t: 0xd05\nCPU revision\t: 2\n";
        let cpus = parse_cpuinfo(arm);
        assert_eq!(cpus[0].arm, [Some(0x41), Some(8), Some(1), Some(0xd05), Some(2)]);
        assert_eq!((cpus[0].processor.as_slice(), cpus[0].features), (&b"AArch64"[..], 2));
    }

    #[test]
    fn interrupts_keep_names_with_blanks_and_skip_those_without_a_number() {
        let text = b"            CPU0       CPU1\n   1:     0   9   IO-APIC   1-edge      i8042\n  24:  1 2  PCI-MSI 65536-edge  my device, eth0\n \
                     30:  1 2  GICv3 27 Level  arch timer\n 31: 1 2 chip last\n NMI:  0  0  Non-maskable interrupts\n bad\n";
        let expected: [(u64, &[u8]); 4] =
            [(1, b"i8042"), (24, b"my device, eth0"), (30, b"arch timer"), (31, b"last")];
        assert_eq!(parse_interrupts(text), expected.map(|(irq, name)| (irq, name.to_vec())));
        assert!(parse_interrupts(b"").is_empty());
    }

    #[test]
    fn this_machine_has_a_cpu() {
        let mut out = Recorded::default();
        write(true, &mut out);
        let Some(Data::CpuInfo(info)) = out.decoded().remove(0).data else { panic!("no cpu_info") };
        assert!(!info.cpus.is_empty());
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_parse_without_a_panic(text in "[ -~\n\t]{0,300}", bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            for text in [text.as_bytes(), &bytes] {
                let _ = parse_cpuinfo(text);
                let _ = parse_interrupts(text);
            }
        }
    }
}
