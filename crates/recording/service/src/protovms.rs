//! ProtoVMs: programs of data sources that fold what a buffer overwrites into a state, which the trace begins with (upstream:
//! trace_buffer_v2.cc, `MaybeSetUpProtoVm` and `MaybeProcessOverwrittenPacketWithProtoVm`; tracing_service_impl.cc,
//! `MaybeEmitProtoVmInstances`).
//!
//! A data source's descriptor brings the program; its config in the session enables it, with a limit for the state. Producers that
//! bring the same program under the same name share a VM, and so a state.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;
use ferretto_protos::trace_packet::proto_vms;
use ferretto_protovm::{ApplyError, Program, ProgramError, Vm};
use ferretto_trace_buffer::{OverwriteSink, Packet, ProducerId, TraceBuffer, validator};

use crate::buffers::AtOnce;
use crate::ids;
use crate::limits;
use crate::producer_set::ProducerSet;

/// An encoded `VmProgram`, shared by all that name it. It may have 100 KB, and a session may want it thousands of times: those that differ
/// are told apart by the hash.
#[derive(Debug, Clone)]
pub(crate) struct VmProgram {
    bytes: Bytes,
    hash: u64,
    parsed: Arc<Mutex<Parsed>>,
}

/// What came of parsing a program: it takes a millisecond or two, and memory for as long as there are VMs.
#[derive(Debug, Default)]
struct Parsed {
    program: Weak<Program>,
    /// What the program takes, or why there is none. Not known before it was parsed for the first time.
    known: Option<Result<usize, ProgramError>>,
}

impl VmProgram {
    pub(crate) fn new(bytes: Bytes) -> Self {
        let mut hasher = DefaultHasher::new();
        bytes.hash(&mut hasher);
        Self { bytes, hash: hasher.finish(), parsed: Arc::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// How many bytes [`parse`](Self::parse) would have to read.
    pub(crate) fn bytes_to_parse(&self) -> usize {
        let parsed = self.parsed();
        let is_known = matches!(parsed.known, Some(Err(_))) || parsed.program.strong_count() > 0;
        if is_known { 0 } else { self.len() }
    }

    /// What the program takes with what is kept beside it, if it was parsed before.
    pub(crate) fn known_memory_bytes(&self) -> Option<usize> {
        self.parsed().known?.ok()
    }

    /// The program, the same one for as long as somebody uses it.
    pub(crate) fn parse(&self) -> Result<Arc<Program>, ProgramError> {
        let mut parsed = self.parsed();
        if let Some(Err(error)) = parsed.known {
            return Err(error);
        }
        if let Some(program) = parsed.program.upgrade() {
            return Ok(program);
        }
        let result = Program::parse(&self.bytes).map(Arc::new);
        parsed.known =
            Some(result.as_ref().map(|program| self.memory_bytes(program)).map_err(|error| *error));
        parsed.program = result.as_ref().map(Arc::downgrade).unwrap_or_default();
        result
    }

    fn memory_bytes(&self, program: &Program) -> usize {
        self.len() + program.memory_bytes()
    }

    fn parsed(&self) -> MutexGuard<'_, Parsed> {
        self.parsed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_same(&self, other: &Self) -> bool {
        let is_same_place = || self.bytes.as_ptr() == other.bytes.as_ptr();
        self.hash == other.hash
            && self.bytes.len() == other.bytes.len()
            && (is_same_place() || self.bytes == other.bytes)
    }
}

/// A data source's program, as it is wanted by a session.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) source_name: &'a str,
    pub(crate) program: &'a VmProgram,
    pub(crate) memory_limit_kb: u32,
}

/// Why a data source has no VM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoVm {
    #[error("the producer brings no program")]
    NoProgram,
    #[error("there are too many, or they are too large")]
    NoRoom,
    #[error(transparent)]
    Program(#[from] ProgramError),
}

/// What VMs take of what a session may have.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Taken {
    vms: usize,
    state_kb: u64,
    program_bytes: usize,
}

impl Taken {
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            vms: self.vms + other.vms,
            state_kb: self.state_kb + other.state_kb,
            program_bytes: self.program_bytes + other.program_bytes,
        }
    }

    /// Whether there may be one more, with a program that takes so much.
    pub(crate) fn has_room_for(self, wanted: &Wanted<'_>, program_bytes: usize) -> Result<(), NoVm> {
        let has_room = self.vms < limits::MAX_PROTOVMS_PER_SESSION
            && self.state_kb + u64::from(wanted.memory_limit_kb) <= limits::MAX_PROTOVM_MEMORY_KB.into()
            && self.program_bytes + program_bytes <= limits::MAX_PROTOVM_PROGRAM_BYTES;
        if has_room { Ok(()) } else { Err(NoVm::NoRoom) }
    }
}

/// The steps that the VMs of a session have saved up, all together: for each alone they would be as many times more.
#[derive(Debug, Clone)]
pub(crate) struct Account(Arc<AtomicU64>);

impl Default for Account {
    fn default() -> Self {
        Self(Arc::new(limits::PROTOVM_STEPS_SAVED.into()))
    }
}

impl Account {
    /// What there is, and what a packet of this size earns, as far as one packet may have it.
    fn with_packet(&self, packet_len: usize) -> u64 {
        let earned = limits::PROTOVM_STEPS_PER_PACKET + limits::PROTOVM_STEPS_PER_BYTE * packet_len as u64;
        self.0.load(Ordering::Relaxed).saturating_add(earned).min(limits::MAX_PROTOVM_STEPS_PER_PACKET)
    }

    fn save(&self, left: u64) {
        self.0.store(left.min(limits::PROTOVM_STEPS_SAVED), Ordering::Relaxed);
    }
}

/// The VMs of a buffer, in the order in which they were made.
#[derive(Debug, Default)]
pub(crate) struct ProtoVms {
    vms: Vec<ProtoVm>,
    /// Those that were asked for and could not be had.
    left_out: u64,
    account: Account,
    /// By all of them, for all packets.
    steps_taken: u64,
    /// Of these, for packets that have gone for the sake of one chunk.
    steps_for_chunk: u64,
    /// A packet in pieces, put together.
    whole: Vec<u8>,
    /// Bytes of such packets, but for what was earned by what is stored.
    whole_bytes: usize,
}

/// A VM, and whose packets it gets.
#[derive(Debug)]
struct ProtoVm {
    source_name: String,
    memory_limit_kb: u32,
    /// Those that are gone, too: their packets may still be in the buffer. Clones share it.
    producers: Arc<ProducerSet>,
    program: VmProgram,
    vm: Vm,
    is_off: bool,
    aborts: u64,
}

impl ProtoVms {
    pub(crate) fn is_empty(&self) -> bool {
        self.vms.is_empty()
    }

    /// What they take of what the session may have. Each counts its program, though others may share it.
    pub(crate) fn taken(&self) -> Taken {
        let taken = |vm: &ProtoVm| Taken {
            vms: 1,
            state_kb: vm.memory_limit_kb.into(),
            program_bytes: vm.program.memory_bytes(vm.vm.program()),
        };
        self.vms.iter().map(taken).fold(Taken::default(), Taken::and)
    }

    /// Lets a producer take part in the VM that runs the same program for the same data source. False if there is none.
    pub(crate) fn join(&mut self, wanted: &Wanted<'_>, producer: ProducerId) -> bool {
        let same =
            |vm: &&mut ProtoVm| vm.program.is_same(wanted.program) && vm.source_name == wanted.source_name;
        let found = self.vms.iter_mut().find(same);
        found.map(|vm| vm.join(producer)).is_some()
    }

    /// What others of the session share.
    pub(crate) fn account(&self) -> Account {
        self.account.clone()
    }

    /// What programs and states take.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.vms.iter().map(|vm| vm.program.len() + vm.vm.memory_usage_bytes()).sum()
    }

    /// Makes a VM with an empty state. If the session has others, it shares their account.
    pub(crate) fn add(
        &mut self,
        wanted: &Wanted<'_>,
        program: Arc<Program>,
        producer: ProducerId,
        account: Option<Account>,
    ) {
        let limit_bytes = usize::try_from(u64::from(wanted.memory_limit_kb) * 1024).unwrap_or(usize::MAX);
        self.account = account.unwrap_or_else(|| self.account.clone());
        self.vms.push(ProtoVm {
            source_name: wanted.source_name.to_owned(),
            memory_limit_kb: wanted.memory_limit_kb,
            producers: Arc::new([ids::ProducerId(producer.0)].into_iter().collect()),
            program: wanted.program.clone(),
            vm: Vm::new(program, limit_bytes),
            is_off: false,
            aborts: 0,
        });
    }

    pub(crate) fn clone_read_only(&self) -> Self {
        let vms = self.vms.iter().map(ProtoVm::clone_read_only).collect();
        Self { vms, left_out: self.left_out, ..Self::default() }
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

    /// Takes what can be read from a buffer that goes, as far as it does not take too long.
    pub(crate) fn take_all(&mut self, buffer: &mut TraceBuffer, at_once: &mut AtOnce) {
        let start = self.steps_taken;
        let is_whole = self.take_some(buffer, at_once);
        at_once.vm_steps = at_once.vm_steps.saturating_sub(self.steps_taken - start);
        if !is_whole {
            self.miss_some();
        }
    }

    /// Says whether that was all.
    fn take_some(&mut self, buffer: &mut TraceBuffer, at_once: &mut AtOnce) -> bool {
        let end = self.steps_taken.saturating_add(at_once.vm_steps);
        buffer.begin_read();
        buffer.look_at_most(at_once.packets);
        while let Some(packet) = buffer.read_next() {
            let Some(packets_left) = at_once.packets.checked_sub(1) else { return false };
            at_once.packets = packets_left;
            // Who runs out of steps in the midst is switched off: none begins what there may not be enough for.
            if self.steps_taken + self.account.with_packet(packet.len()) > end {
                return false;
            }
            if self.wants(packet.producer) {
                // All of it is little.
                (self.whole_bytes, self.steps_for_chunk) = (0, 0);
                self.take(&packet);
            }
        }
        at_once.packets = at_once.packets.min(buffer.looks_left());
        !buffer.is_reading()
    }

    /// A chunk of so many bytes is stored: for that something may be put together of what is overwritten.
    pub(crate) fn earn(&mut self, stored_bytes: usize) {
        self.steps_for_chunk = 0;
        let earned = stored_bytes.saturating_mul(limits::PROTOVM_PIECES_PER_STORED);
        self.whole_bytes = self.whole_bytes.saturating_sub(earned);
    }

    /// Steps that they took for what was overwritten by the last chunk.
    pub(crate) fn steps_for_chunk(&self) -> u64 {
        self.steps_for_chunk
    }

    /// Something goes that they should have taken.
    pub(crate) fn miss_some(&mut self) {
        self.vms.iter_mut().for_each(ProtoVm::miss);
    }

    /// What the trace is to say of them, and of these producers.
    pub(crate) fn instances(&self, producers: &ProducerSet) -> impl Iterator<Item = proto_vms::Instance> {
        self.vms.iter().filter_map(|vm| vm.instance(producers))
    }
}

impl OverwriteSink for ProtoVms {
    fn wants(&self, producer: ProducerId) -> bool {
        self.vms.iter().any(|vm| vm.serves(producer))
    }

    fn wants_some_of(&self, producer: ProducerId, packets: &[u8]) -> bool {
        self.vms.iter().any(|vm| vm.serves(producer) && vm.vm.may_concern(packets))
    }

    fn miss(&mut self, producer: ProducerId) {
        self.vms.iter_mut().filter(|vm| vm.serves(producer)).for_each(ProtoVm::miss);
    }

    /// The first VM of the producer whose program succeeds has taken the packet. One that is too large to be put together they all miss, and
    /// one for which there may not be enough steps: of all that one chunk overwrites they have as many as of one packet.
    fn take(&mut self, packet: &Packet<'_>) {
        let available = self.account.with_packet(packet.len());
        if self.steps_for_chunk + available > limits::MAX_PROTOVM_STEPS_PER_PACKET {
            return self.miss(packet.producer);
        }
        if packet.in_one_piece().is_none() {
            let whole_bytes = self.whole_bytes.saturating_add(packet.len());
            if whole_bytes > limits::MAX_PROTOVM_PACKET_BYTES {
                return self.miss(packet.producer);
            }
            self.whole_bytes = whole_bytes;
        }
        let bytes = match packet.in_one_piece() {
            Some(bytes) => bytes,
            None => {
                self.whole.clear();
                self.whole.shrink_to(limits::KEEP_PACKET_BYTES);
                packet.slices().for_each(|slice| self.whole.extend_from_slice(slice));
                &self.whole
            }
        };
        let mut steps = available;
        take_whole(&mut self.vms, packet.producer, bytes, &mut steps);
        self.steps_taken = self.steps_taken.saturating_add(available - steps);
        self.steps_for_chunk += available - steps;
        self.account.save(steps);
    }
}

/// Gives a packet to the first VM that takes it. To look whether it concerns one takes steps, too: there may be many, and a million fields.
fn take_whole(vms: &mut [ProtoVm], producer: ProducerId, bytes: &[u8], steps: &mut u64) {
    let mut is_valid = None;
    for vm in vms.iter_mut().filter(|vm| vm.serves(producer)) {
        if *steps == 0 {
            // Others took them all.
            vm.miss();
            continue;
        }
        let mut looked_at = 0;
        let concerns = vm.vm.concerns(bytes, &mut looked_at);
        *steps = steps.saturating_sub(looked_at / limits::PROTOVM_FIELDS_PER_STEP);
        if !concerns {
            continue;
        }
        // What the trace would not take is not to get into it in this way. Upstream does not look.
        let is_valid = *is_valid.get_or_insert_with(|| {
            *steps = steps.saturating_sub(bytes.len() as u64 / limits::PROTOVM_CHECKED_BYTES_PER_STEP);
            validator::is_valid_untrusted_packet([bytes]).is_ok()
        });
        if !is_valid || vm.apply(bytes, steps) {
            return;
        }
    }
}

impl ProtoVm {
    fn serves(&self, producer: ProducerId) -> bool {
        !self.is_off && self.producers.contains(ids::ProducerId(producer.0))
    }

    fn join(&mut self, producer: ProducerId) {
        let id = ids::ProducerId(producer.0);
        if !self.producers.contains(id) {
            Arc::make_mut(&mut self.producers).insert(id);
        }
    }

    /// Runs the program with a packet, for so many steps at most. Did it succeed?
    fn apply(&mut self, packet: &[u8], steps: &mut u64) -> bool {
        if *steps == 0 {
            // Another one took them all, and is switched off for it.
            self.miss();
            return false;
        }
        let result = self.vm.apply_within(packet, *steps);
        self.pay(steps);
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
                self.miss();
                false
            }
        }
    }

    fn miss(&mut self) {
        self.aborts = self.aborts.saturating_add(1);
    }

    fn pay(&mut self, steps: &mut u64) {
        match steps.checked_sub(self.vm.last_steps()) {
            Some(left) => *steps = left,
            None => {
                tracing::warn!(
                    data_source = self.source_name,
                    "a ProtoVM takes too many steps for what it is given, and is switched off: the trace will lack its state"
                );
                (*steps, self.is_off) = (0, true);
            }
        }
    }

    fn clone_read_only(&self) -> Self {
        Self {
            source_name: self.source_name.clone(),
            memory_limit_kb: self.memory_limit_kb,
            producers: self.producers.clone(),
            program: self.program.clone(),
            vm: self.vm.clone_read_only(),
            is_off: self.is_off,
            aborts: self.aborts,
        }
    }

    /// None if it has no state that the trace can take.
    fn instance(&self, producers: &ProducerSet) -> Option<proto_vms::Instance> {
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
        let state = self.vm.encoded_state();
        // A program can make any field, those included that only the service may write.
        if let Err(error) = validator::is_valid_untrusted_packet([&*state]) {
            tracing::warn!(data_source = self.source_name, "the state of a ProtoVM is left out: {error}");
            return None;
        }
        Some(proto_vms::Instance {
            program: Some(self.program.bytes.clone()),
            state: Some(state),
            memory_limit_kb: Some(self.memory_limit_kb),
            producer_id: producers
                .iter()
                .filter(|producer| self.producers.contains(*producer))
                .map(|producer| i32::from(producer.0))
                .collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use ferretto_protos::vm_op_select::{PathComponent, path_component::Field};
    use ferretto_protos::{
        VmCursorEnum, VmInstruction, VmOpMerge, VmOpSelect, VmProgram as Encoded, vm_instruction,
    };
    use ferretto_trace_buffer::{Chunk, ClientIdentity, FillPolicy, chunk_flags};
    use prost::Message;

    use super::*;

    const FIELD: u32 = 900;
    const VMS: u32 = 8;

    /// Goes through the values of a field many times.
    fn busy(version: u32) -> VmProgram {
        let component = PathComponent {
            field: Some(Field::FieldId(FIELD)),
            is_repeated: Some(true),
            ..Default::default()
        };
        let select = VmInstruction {
            operation: Some(vm_instruction::Operation::Select(VmOpSelect {
                cursor: Some(VmCursorEnum::VmCursorSrc.into()),
                relative_path: vec![component],
                create_if_not_exist: None,
            })),
            ..Default::default()
        };
        let program = Encoded { version: Some(version), instructions: vec![select; 4000] };
        VmProgram::new(program.encode_to_vec().into())
    }

    fn busy_vms() -> ProtoVms {
        let mut vms = ProtoVms::default();
        for version in 0..VMS {
            let program = busy(version);
            let wanted = Wanted { source_name: "data", program: &program, memory_limit_kb: 16 };
            assert!(!vms.join(&wanted, ProducerId(1)));
            vms.add(&wanted, program.parse().unwrap(), ProducerId(1), None);
            assert!(vms.join(&Wanted { program: &busy(version), ..wanted }, ProducerId(1)));
        }
        vms
    }

    /// A packet of a kilobyte, for which a program takes millions of steps.
    fn store(buffer: &mut TraceBuffer, vms: &mut ProtoVms, chunk_id: u32) {
        let mut packet = Vec::new();
        (0..340).for_each(|_| prost::encoding::uint32::encode(FIELD, &1, &mut packet));
        let mut payload = Vec::new();
        prost::encoding::encode_varint(packet.len() as u64, &mut payload);
        payload.extend(packet);
        let chunk = Chunk {
            producer: ProducerId(1),
            client: ClientIdentity::default(),
            writer: 1,
            chunk_id,
            num_fragments: 1,
            flags: 0,
            complete: true,
            payload: &payload,
        };
        buffer.copy_chunk_with(&chunk, vms);
    }

    /// Many may begin in one place, which is overwritten at once.
    #[test]
    fn of_large_packets_as_much_is_put_together_as_was_stored() {
        const PIECES: u32 = 50;
        let (mut buffer, mut vms) = (TraceBuffer::new(8 << 20, FillPolicy::Ring).unwrap(), busy_vms());
        let field = [0x10, 1];
        let piece = field.repeat(15_000);
        let mut store = |vms: &mut ProtoVms, (writer, chunk_id), bytes: &[u8], flags| {
            let mut payload = Vec::new();
            prost::encoding::encode_varint(bytes.len() as u64, &mut payload);
            payload.extend(bytes);
            let (producer, client) = (ProducerId(1), ClientIdentity::default());
            let (num_fragments, complete, payload) = (1, true, &payload[..]);
            let chunk = Chunk { producer, client, writer, chunk_id, num_fragments, flags, complete, payload };
            buffer.copy_chunk_with(&chunk, vms);
            buffer.stats().bytes_overwritten
        };
        let (continued, continues) =
            (chunk_flags::FIRST_CONTINUES_FROM_PREVIOUS, chunk_flags::LAST_CONTINUES_ON_NEXT);
        (1..4).for_each(|writer| _ = store(&mut vms, (writer, 0), &field, continues));
        for writer in 1..4 {
            (1..PIECES).for_each(|id| _ = store(&mut vms, (writer, id), &piece, continued | continues));
            store(&mut vms, (writer, PIECES), &piece, continued);
        }
        let _turns = (0..).find(|id| store(&mut vms, (4, *id), &piece, 0) > 0);
        // The others are missed.
        let had = vms.whole_bytes;
        assert_eq!(had, field.len() + PIECES as usize * piece.len());
        assert!(vms.packets_not_taken() > 0);
        vms.earn(1000);
        assert_eq!(vms.whole_bytes, had - 1000 * limits::PROTOVM_PIECES_PER_STORED);
    }

    /// What is more than `limits::PROTOVM_STEPS_SAVED` must have been earned.
    #[test]
    fn all_vms_of_a_session_have_one_account() {
        let (mut vms, other) = (busy_vms(), busy_vms());
        vms.account = other.account();
        let mut buffer = TraceBuffer::new(4096, FillPolicy::Ring).unwrap();
        let mut chunk_id = 0;
        while vms.switched_off() == 0 {
            store(&mut buffer, &mut vms, chunk_id);
            chunk_id += 1;
        }
        let earned = |packets: u64| {
            packets * (limits::PROTOVM_STEPS_PER_PACKET + limits::PROTOVM_STEPS_PER_BYTE * 1100)
        };
        assert!(vms.steps_taken <= limits::PROTOVM_STEPS_SAVED + earned(1), "{}", vms.steps_taken);
        assert_eq!((vms.switched_off(), vms.packets_not_taken()), (1, u64::from(VMS)));
        // Those of the others are taken as well.
        assert!(other.account.with_packet(0) <= limits::PROTOVM_STEPS_PER_PACKET);
        (chunk_id..chunk_id + 100).for_each(|id| store(&mut buffer, &mut vms, id));
        assert!(vms.steps_taken <= limits::PROTOVM_STEPS_SAVED + earned(101), "{}", vms.steps_taken);
        assert_eq!(vms.switched_off(), u64::from(VMS));
    }

    /// Thousands may come and go.
    #[test]
    fn producers_take_a_bit_each_and_only_those_that_are_asked_for_are_named() {
        let program = busy(1);
        let wanted = Wanted { source_name: "data", program: &program, memory_limit_kb: 16 };
        let mut vms = ProtoVms::default();
        vms.add(&wanted, program.parse().unwrap(), ProducerId(1), None);
        (2..=u16::MAX).step_by(2).for_each(|id| assert!(vms.join(&wanted, ProducerId(id))));
        let clone = vms.clone_read_only();
        assert!(Arc::ptr_eq(&vms.vms[0].producers, &clone.vms[0].producers));
        assert!(clone.wants(ProducerId(4)) && clone.wants(ProducerId(1)) && !clone.wants(ProducerId(3)));
        vms.join(&wanted, ProducerId(3));
        assert!(vms.wants(ProducerId(3)) && !clone.wants(ProducerId(3)));
        let named = [1, 3, 4, 65_534].map(ids::ProducerId).into_iter().collect();
        let ids: Vec<_> = clone.instances(&named).map(|instance| instance.producer_id).collect();
        assert_eq!(ids, [[1, 4, 65_534]]);
    }

    /// Fields that a merge makes and deletes again, and one that there is no room for: no memory grows, and each VM is asked.
    #[test]
    fn a_packet_that_all_vms_abort_takes_steps_up_to_a_bound() {
        let merge = VmInstruction {
            operation: Some(vm_instruction::Operation::Merge(VmOpMerge {
                del_if_src_empty: Some(true),
                ..Default::default()
            })),
            ..Default::default()
        };
        let mut vms = ProtoVms::default();
        for version in 0..limits::MAX_PROTOVMS_PER_SESSION as u32 {
            let program = Encoded { version: Some(version), instructions: vec![merge.clone()] };
            let program = VmProgram::new(program.encode_to_vec().into());
            let wanted = Wanted { source_name: "data", program: &program, memory_limit_kb: 1 };
            vms.add(&wanted, program.parse().unwrap(), ProducerId(1), None);
        }
        let mut bytes = [0x08, 1, 0x0a, 0].repeat(480_000);
        prost::encoding::bytes::encode(2, &vec![0x55; 2000], &mut bytes);
        let mut steps = vms.account.with_packet(bytes.len());
        assert_eq!(steps, limits::MAX_PROTOVM_STEPS_PER_PACKET);
        take_whole(&mut vms.vms, ProducerId(1), &bytes, &mut steps);
        assert_eq!((steps, vms.packets_not_taken()), (0, limits::MAX_PROTOVMS_PER_SESSION as u64));
    }

    #[test]
    fn a_program_is_parsed_once_and_shared_by_all_that_use_it() {
        let program = busy(1);
        assert_eq!((program.bytes_to_parse(), program.known_memory_bytes()), (program.len(), None));
        let (first, second) = (program.parse().unwrap(), program.clone().parse().unwrap());
        assert!(Arc::ptr_eq(&first, &second));
        assert_eq!(program.bytes_to_parse(), 0);
        let wanted = Wanted { source_name: "data", program: &program, memory_limit_kb: 16 };
        let mut vms = ProtoVms::default();
        vms.add(&wanted, first, ProducerId(1), None);
        let clone = vms.clone_read_only();
        assert!(Arc::ptr_eq(clone.vms[0].vm.program(), &second));
        assert_eq!(vms.taken().program_bytes, program.len() + second.memory_bytes());

        drop((vms, clone, second));
        assert_eq!(program.bytes_to_parse(), program.len(), "nobody uses it, and it is kept");
        assert!(program.known_memory_bytes().is_some());
    }

    #[test]
    fn a_program_that_cannot_be_used_is_parsed_once() {
        let deep = (0..300).fold(Vec::new(), |inner, _| {
            let mut outer = Vec::new();
            prost::encoding::bytes::encode(7, &inner, &mut outer);
            outer
        });
        let mut bytes = Vec::new();
        prost::encoding::bytes::encode(2, &deep, &mut bytes);
        let program = VmProgram::new(bytes.clone().into());
        assert_eq!(program.clone().parse().map(drop), Err(ProgramError::TooDeep));
        assert_eq!(program.bytes_to_parse(), 0);
        assert_eq!(program.parse().map(drop), Err(ProgramError::TooDeep));
    }
}
