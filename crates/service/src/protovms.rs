//! ProtoVMs: programs of data sources that fold what a buffer overwrites into a state, which the trace begins with (upstream:
//! trace_buffer_v2.cc, `MaybeSetUpProtoVm` and `MaybeProcessOverwrittenPacketWithProtoVm`; tracing_service_impl.cc,
//! `MaybeEmitProtoVmInstances`).
//!
//! A data source's descriptor brings the program; its config in the session enables it, with a limit for the state. Producers that
//! bring the same program under the same name share a VM, and so a state.

use std::collections::BTreeSet;

use bytes::Bytes;
use ferretto_protos::trace_packet::proto_vms;
use ferretto_protovm::{ApplyError, MAX_STEPS, Program, ProgramError, Vm};
use ferretto_trace_buffer::{OverwriteSink, Packet, ProducerId, TraceBuffer, validator};

use crate::limits;

/// A data source's program, as it is wanted by a session.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) source_name: &'a str,
    /// An encoded `VmProgram`.
    pub(crate) program: &'a [u8],
    pub(crate) memory_limit_kb: u32,
}

/// The VMs of a buffer, in the order in which they were made.
#[derive(Debug, Default)]
pub(crate) struct ProtoVms {
    vms: Vec<ProtoVm>,
    /// Those that were asked for and could not be had.
    left_out: u64,
    /// A packet in pieces, put together.
    whole: Vec<u8>,
}

/// A VM, and whose packets it gets.
#[derive(Debug)]
struct ProtoVm {
    source_name: String,
    memory_limit_kb: u32,
    /// Those that are gone, too: their packets may still be in the buffer.
    producers: BTreeSet<ProducerId>,
    vm: Vm,
    /// Steps that it may take before it is switched off: as many as one packet may cost at first, then as packets earn.
    steps_left: u64,
    is_off: bool,
    aborts: u64,
}

impl ProtoVms {
    pub(crate) fn is_empty(&self) -> bool {
        self.vms.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.vms.len()
    }

    /// What their states may take together.
    pub(crate) fn memory_limit_kb(&self) -> u64 {
        self.vms.iter().map(|vm| u64::from(vm.memory_limit_kb)).sum()
    }

    /// Lets a producer take part in the VM that runs the same program for the same data source. False if there is none.
    pub(crate) fn join(&mut self, wanted: &Wanted<'_>, producer: ProducerId) -> bool {
        let same = |vm: &&mut ProtoVm| {
            vm.source_name == wanted.source_name && vm.vm.program().as_bytes() == wanted.program
        };
        let found = self.vms.iter_mut().find(same);
        found.map(|vm| vm.producers.insert(producer)).is_some()
    }

    /// Makes a VM with an empty state.
    pub(crate) fn add(&mut self, wanted: &Wanted<'_>, producer: ProducerId) -> Result<(), ProgramError> {
        let limit_bytes = usize::try_from(u64::from(wanted.memory_limit_kb) * 1024).unwrap_or(usize::MAX);
        self.vms.push(ProtoVm {
            source_name: wanted.source_name.to_owned(),
            memory_limit_kb: wanted.memory_limit_kb,
            producers: BTreeSet::from([producer]),
            vm: Vm::new(Program::parse(wanted.program)?, limit_bytes),
            steps_left: MAX_STEPS,
            is_off: false,
            aborts: 0,
        });
        Ok(())
    }

    pub(crate) fn clone_read_only(&self) -> Self {
        let vms = self.vms.iter().map(ProtoVm::clone_read_only).collect();
        Self { vms, left_out: self.left_out, whole: Vec::new() }
    }

    /// One that was asked for cannot be had.
    /// Says whether it is the first.
    pub(crate) fn note_left_out(&mut self) -> bool {
        self.left_out = self.left_out.saturating_add(1);
        self.left_out == 1
    }

    /// Packets that the states should have taken and did not.
    pub(crate) fn packets_not_taken(&self) -> u64 {
        self.vms.iter().map(|vm| vm.aborts).fold(0, u64::saturating_add)
    }

    /// VMs that give the trace no state.
    pub(crate) fn switched_off(&self) -> u64 {
        self.vms.iter().filter(|vm| vm.is_off).count() as u64 + self.left_out
    }

    /// Takes what can be read from a buffer that goes.
    pub(crate) fn take_all(&mut self, buffer: &mut TraceBuffer) {
        buffer.begin_read();
        while let Some(packet) = buffer.read_next() {
            if self.wants(packet.producer) {
                self.take(&packet);
            }
        }
    }

    /// What the trace is to say of them.
    pub(crate) fn instances(&self) -> impl Iterator<Item = proto_vms::Instance> {
        self.vms.iter().filter_map(ProtoVm::instance)
    }
}

impl OverwriteSink for ProtoVms {
    fn wants(&self, producer: ProducerId) -> bool {
        self.vms.iter().any(|vm| vm.serves(producer))
    }

    fn wants_some_of(&self, producer: ProducerId, packets: &[u8]) -> bool {
        self.vms.iter().any(|vm| vm.serves(producer) && vm.vm.may_concern(packets))
    }

    /// The first VM of the producer whose program succeeds has taken the packet.
    fn take(&mut self, packet: &Packet<'_>) {
        let bytes = match packet.in_one_piece() {
            Some(bytes) => bytes,
            None => {
                self.whole.clear();
                self.whole.shrink_to(limits::KEEP_PACKET_BYTES);
                packet.slices().for_each(|slice| self.whole.extend_from_slice(slice));
                &self.whole
            }
        };
        let mut serving =
            self.vms.iter_mut().filter(|vm| vm.serves(packet.producer) && vm.vm.concerns(bytes)).peekable();
        // What the trace would not take is not to get into it in this way. Upstream does not look.
        if serving.peek().is_none() || validator::is_valid_untrusted_packet([bytes]).is_err() {
            return;
        }
        let _taken = serving.any(|vm| vm.apply(bytes));
    }
}

impl ProtoVm {
    fn serves(&self, producer: ProducerId) -> bool {
        !self.is_off && self.producers.contains(&producer)
    }

    /// Runs the program with a packet. Did it succeed?
    fn apply(&mut self, packet: &[u8]) -> bool {
        let result = self.vm.apply(packet);
        self.pay_for(packet.len());
        match &result {
            Ok(()) => true,
            Err(ApplyError::Failed) => false,
            Err(error) => {
                if self.aborts == 0 {
                    tracing::warn!(
                        data_source = self.source_name,
                        "a ProtoVM did not take a packet that is overwritten; others like it will not be mentioned: {error}"
                    );
                }
                self.aborts = self.aborts.saturating_add(1);
                false
            }
        }
    }

    fn pay_for(&mut self, packet_len: usize) {
        let earned = limits::PROTOVM_STEPS_PER_PACKET + limits::PROTOVM_STEPS_PER_BYTE * packet_len as u64;
        let available = self.steps_left.saturating_add(earned).min(MAX_STEPS);
        match available.checked_sub(self.vm.last_steps()) {
            Some(left) => self.steps_left = left,
            None => {
                tracing::warn!(
                    data_source = self.source_name,
                    "a ProtoVM takes too many steps for what it is given, and is switched off: the trace will lack its state"
                );
                self.is_off = true;
            }
        }
    }

    fn clone_read_only(&self) -> Self {
        Self {
            source_name: self.source_name.clone(),
            memory_limit_kb: self.memory_limit_kb,
            producers: self.producers.clone(),
            vm: self.vm.clone_read_only(),
            steps_left: 0,
            is_off: self.is_off,
            aborts: self.aborts,
        }
    }

    /// None if it has no state that the trace can take.
    fn instance(&self) -> Option<proto_vms::Instance> {
        if self.aborts > 0 {
            tracing::warn!(
                data_source = self.source_name,
                packets = self.aborts,
                "a ProtoVM has lost changes"
            );
        }
        if self.is_off {
            return None;
        }
        let mut state = Vec::new();
        self.vm.serialize_state(&mut state);
        // A program can make any field, those included that only the service may write.
        if let Err(error) = validator::is_valid_untrusted_packet([state.as_slice()]) {
            tracing::warn!(data_source = self.source_name, "the state of a ProtoVM is left out: {error}");
            return None;
        }
        Some(proto_vms::Instance {
            program: Some(Bytes::copy_from_slice(self.vm.program().as_bytes())),
            state: Some(state.into()),
            memory_limit_kb: Some(self.memory_limit_kb),
            producer_id: self.producers.iter().map(|producer| i32::from(producer.0)).collect(),
        })
    }
}
