//! Upstream's C++ objects as Rust types. All unsafe code is here; `shim.cc` is the other side.

#![allow(unsafe_code)]

use std::ffi::c_void;
use std::marker::PhantomData;
use std::ptr::{NonNull, null};

use ferretto_trace_buffer::{Chunk, FillPolicy, Patch, Stats};

use crate::filter_script::RuleLine;

/// Which of upstream's trace buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    V1 = 1,
    V2 = 2,
}

/// A packet that was read, or overwritten (then `writer` and `loss` are 0).
#[derive(Debug)]
pub(crate) struct Packet {
    pub(crate) producer: u16,
    pub(crate) writer: u16,
    pub(crate) loss: u32,
    pub(crate) bytes: Vec<u8>,
}

/// Upstream's trace buffer.
///
/// It aborts the process on some inputs that ours refuses or survives: a write to a clone, and whatever it takes for a sign of
/// its own mistakes.
#[derive(Debug)]
pub(crate) struct Buffer(NonNull<Opaque>);

impl Buffer {
    /// `None` when there is no memory for it.
    pub(crate) fn new(version: Version, size: usize, policy: FillPolicy) -> Option<Self> {
        // SAFETY: takes numbers only, and gives a new object that is ours, or null.
        // JUSTIFICATION: C++ can be called in no other way; the same holds for every call below.
        let raw = unsafe { upstream_buffer_new(version as u32, size, policy == FillPolicy::Discard) };
        NonNull::new(raw).map(Self)
    }

    pub(crate) fn size(&self) -> usize {
        // SAFETY: the object lives as long as `self`.
        // JUSTIFICATION: as for `new`.
        unsafe { upstream_buffer_size(self.0.as_ptr()) }
    }

    /// Records the packets of these producers when they are overwritten.
    pub(crate) fn want(&mut self, producers: &[u16]) {
        // SAFETY: the object lives and is borrowed mutably; the slice is read during the call only.
        // JUSTIFICATION: as for `new`.
        unsafe { upstream_buffer_want(self.0.as_ptr(), producers.as_ptr(), producers.len()) }
    }

    pub(crate) fn copy(&mut self, chunk: &Chunk<'_>) {
        // SAFETY: the object lives and is borrowed mutably; the payload is copied during the call.
        // JUSTIFICATION: as for `new`.
        unsafe {
            upstream_buffer_copy(
                self.0.as_ptr(),
                chunk.producer.0,
                chunk.writer,
                chunk.chunk_id,
                chunk.num_fragments,
                chunk.flags,
                chunk.complete,
                chunk.payload.as_ptr(),
                chunk.payload.len(),
            );
        }
    }

    /// What the last copy to any buffer of this thread has overwritten.
    pub(crate) fn overwritten() -> impl Iterator<Item = Packet> {
        (0..).map_while(|index| {
            // SAFETY: the record of this thread stays as it is until the next copy, and `receive` copies out of it.
            // JUSTIFICATION: as for `new`.
            unsafe { receive(|out| upstream_buffer_overwritten(index, out)) }
        })
    }

    pub(crate) fn patch(
        &mut self,
        (producer, writer, chunk_id): (u16, u16, u32),
        patches: &[Patch],
        more_pending: bool,
    ) -> bool {
        let raw: Vec<RawPatch> =
            patches.iter().map(|patch| RawPatch { offset: patch.offset, data: patch.data }).collect();
        // SAFETY: the object lives and is borrowed mutably; the patches are read during the call only.
        // JUSTIFICATION: as for `new`.
        unsafe {
            upstream_buffer_patch(
                self.0.as_ptr(),
                producer,
                writer,
                chunk_id,
                raw.as_ptr(),
                raw.len(),
                more_pending,
            )
        }
    }

    pub(crate) fn begin(&mut self) {
        // SAFETY: the object lives and is borrowed mutably.
        // JUSTIFICATION: as for `new`.
        unsafe { upstream_buffer_begin(self.0.as_ptr()) }
    }

    pub(crate) fn read(&mut self) -> Option<Packet> {
        // SAFETY: the object lives and is borrowed mutably; the bytes that it hands out stay until the next call, and
        // `receive` copies them.
        // JUSTIFICATION: as for `new`.
        unsafe { receive(|out| upstream_buffer_read(self.0.as_ptr(), out)) }
    }

    /// Reads every packet in a pass of its own and gives the sum of their sizes.
    pub(crate) fn read_all(&mut self) -> usize {
        // SAFETY: the object lives and is borrowed mutably.
        // JUSTIFICATION: as for `new`.
        unsafe { upstream_buffer_read_all(self.0.as_ptr()) }
    }

    /// `None` when there is no memory for it.
    pub(crate) fn clone_read_only(&self) -> Option<Self> {
        // SAFETY: the object lives; the clone is a new one that is ours, or null.
        // JUSTIFICATION: as for `new`.
        NonNull::new(unsafe { upstream_buffer_clone(self.0.as_ptr()) }).map(Self)
    }

    pub(crate) fn compact(&mut self) {
        // SAFETY: the object lives and is borrowed mutably; no packet points into it, for `read` copies.
        // JUSTIFICATION: as for `new`.
        unsafe { upstream_buffer_compact(self.0.as_ptr()) }
    }

    pub(crate) fn stats(&self) -> Stats {
        let mut values = [0; 22];
        // SAFETY: the object lives; as many numbers are written as there is room for.
        // JUSTIFICATION: as for `new`.
        unsafe { upstream_buffer_stats(self.0.as_ptr(), &mut values) };
        stats_of(values)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: the object is ours, and this is the last use of it.
        // JUSTIFICATION: as for `new`.
        unsafe { upstream_buffer_free(self.0.as_ptr()) }
    }
}

/// In the order of `upstream_buffer_stats`.
fn stats_of(values: [u64; 22]) -> Stats {
    let mut stats = Stats::default();
    let fields = [
        &mut stats.buffer_size,
        &mut stats.bytes_written,
        &mut stats.bytes_overwritten,
        &mut stats.bytes_read,
        &mut stats.padding_bytes_written,
        &mut stats.padding_bytes_cleared,
        &mut stats.chunks_written,
        &mut stats.chunks_rewritten,
        &mut stats.chunks_overwritten,
        &mut stats.chunks_discarded,
        &mut stats.chunks_read,
        &mut stats.chunks_committed_out_of_order,
        &mut stats.chunks_relocated,
        &mut stats.write_wrap_count,
        &mut stats.patches_succeeded,
        &mut stats.patches_failed,
        &mut stats.readaheads_succeeded,
        &mut stats.readaheads_failed,
        &mut stats.abi_violations,
        &mut stats.trace_writer_packet_loss,
        &mut stats.compactions,
        &mut stats.compactions_skipped,
    ];
    for (field, value) in fields.into_iter().zip(values) {
        *field = value;
    }
    stats
}

/// Copies the packet that `fill` describes, if it says that there is one.
///
/// # Safety
/// The bytes that `fill` points at must stay until this returns.
unsafe fn receive(fill: impl FnOnce(*mut RawPacket) -> bool) -> Option<Packet> {
    let mut raw = RawPacket { producer: 0, writer: 0, loss: 0, data: null(), size: 0 };
    fill(&mut raw).then(|| {
        // SAFETY: the caller says so.
        // JUSTIFICATION: as for `Buffer::new`.
        let bytes = unsafe { bytes_at(raw.data, raw.size) };
        Packet { producer: raw.producer, writer: raw.writer, loss: raw.loss, bytes }
    })
}

/// # Safety
/// There must be `size` bytes at `data`, unless it is null.
unsafe fn bytes_at(data: *const u8, size: usize) -> Vec<u8> {
    if data.is_null() {
        return Vec::new();
    }
    // SAFETY: the caller says so.
    // JUSTIFICATION: as for `Buffer::new`.
    unsafe { std::slice::from_raw_parts(data, size) }.to_vec()
}

/// How applying a packet ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Applied {
    Ok,
    Error,
    Abort,
}

/// Upstream's ProtoVM.
#[derive(Debug)]
pub(crate) struct Vm(NonNull<Opaque>);

impl Vm {
    pub(crate) fn new(program: &[u8], memory_limit_bytes: usize, state: Option<&[u8]>) -> Self {
        let (state, state_size) = state.map_or((null(), 0), |state| (state.as_ptr(), state.len()));
        // SAFETY: program and state are copied during the call. The new object is ours.
        // JUSTIFICATION: as for `Buffer::new`.
        let raw = unsafe {
            upstream_vm_new(program.as_ptr(), program.len(), memory_limit_bytes, state, state_size)
        };
        Self(NonNull::new(raw).expect("`new` in C++ does not give null"))
    }

    pub(crate) fn apply(&mut self, packet: &[u8]) -> Applied {
        // SAFETY: the object lives and is borrowed mutably; the packet is read during the call only.
        // JUSTIFICATION: as for `Buffer::new`.
        match unsafe { upstream_vm_apply(self.0.as_ptr(), packet.as_ptr(), packet.len()) } {
            0 => Applied::Ok,
            1 => Applied::Error,
            _ => Applied::Abort,
        }
    }

    /// The encoded state.
    pub(crate) fn state(&self) -> Vec<u8> {
        let mut state = Vec::new();
        // SAFETY: the object lives; `take_state` is called during the call only, with the vector's address.
        // JUSTIFICATION: as for `Buffer::new`.
        unsafe { upstream_vm_state(self.0.as_ptr(), take_state, (&raw mut state).cast()) };
        state
    }

    /// Without the program.
    pub(crate) fn memory_usage_bytes(&self) -> usize {
        // SAFETY: the object lives.
        // JUSTIFICATION: as for `Buffer::new`.
        unsafe { upstream_vm_memory_usage_bytes(self.0.as_ptr()) as usize }
    }

    pub(crate) fn clone_read_only(&self) -> Self {
        // SAFETY: the object lives. The clone is a new one that is ours.
        // JUSTIFICATION: as for `Buffer::new`.
        let raw = unsafe { upstream_vm_clone(self.0.as_ptr()) };
        Self(NonNull::new(raw).expect("`new` in C++ does not give null"))
    }
}

impl Drop for Vm {
    fn drop(&mut self) {
        // SAFETY: the object is ours, and this is the last use of it.
        // JUSTIFICATION: as for `Buffer::new`.
        unsafe { upstream_vm_free(self.0.as_ptr()) }
    }
}

/// Upstream's trace filter.
#[derive(Debug)]
pub(crate) struct Filter(NonNull<Opaque>);

impl Default for Filter {
    fn default() -> Self {
        // SAFETY: takes nothing, and gives a new object that is ours.
        // JUSTIFICATION: as for `Buffer::new`.
        let raw = unsafe { upstream_filter_new() };
        Self(NonNull::new(raw).expect("`new` in C++ does not give null"))
    }
}

impl Filter {
    pub(crate) fn add_rule(&mut self, rule: &RuleLine) {
        let types = [rule.types as u64, (rule.types >> 64) as u64];
        // SAFETY: the object lives and is borrowed mutably; mask and strings are copied during the call.
        // JUSTIFICATION: as for `Buffer::new`.
        unsafe {
            upstream_filter_rule(
                self.0.as_ptr(),
                rule.policy,
                &types,
                rule.prefix.as_ptr(),
                rule.prefix.len(),
                rule.pattern.as_ptr(),
                rule.pattern.len(),
                rule.name.as_ptr(),
                rule.name.len(),
            );
        }
    }

    pub(crate) fn load(&mut self, program: &[u8], overlay: &[u8]) -> bool {
        // SAFETY: the object lives and is borrowed mutably; the slices are read during the call only.
        // JUSTIFICATION: as for `Buffer::new`.
        unsafe {
            upstream_filter_load(
                self.0.as_ptr(),
                program.as_ptr(),
                program.len(),
                overlay.as_ptr(),
                overlay.len(),
            )
        }
    }

    /// Steps beyond the second are not taken.
    pub(crate) fn set_root(&mut self, path: &[u32]) -> bool {
        // SAFETY: the object lives and is borrowed mutably; the slice is read during the call only.
        // JUSTIFICATION: as for `Buffer::new`.
        unsafe { upstream_filter_root(self.0.as_ptr(), path.as_ptr(), path.len()) }
    }

    /// What is kept, unless there is an error.
    pub(crate) fn filter(&mut self, message: &[u8]) -> Option<Vec<u8>> {
        let mut kept = Vec::new();
        // SAFETY: the object lives and is borrowed mutably; the message is read and `take_state` called during the call only, the
        // latter with the vector's address.
        // JUSTIFICATION: as for `Buffer::new`.
        let is_ok = unsafe {
            upstream_filter_apply(
                self.0.as_ptr(),
                message.as_ptr(),
                message.len(),
                take_state,
                (&raw mut kept).cast(),
            )
        };
        is_ok.then_some(kept)
    }
}

impl Drop for Filter {
    fn drop(&mut self) {
        // SAFETY: the object is ours, and this is the last use of it.
        // JUSTIFICATION: as for `Buffer::new`.
        unsafe { upstream_filter_free(self.0.as_ptr()) }
    }
}

/// # Safety
/// `context` must be the address of a `Vec<u8>` that nothing else uses, and there must be `size` bytes at `data`.
unsafe extern "C" fn take_state(context: *mut c_void, data: *const u8, size: usize) {
    // SAFETY: the caller says so.
    // JUSTIFICATION: as for `Buffer::new`.
    unsafe { *context.cast::<Vec<u8>>() = bytes_at(data, size) }
}

/// An object of upstream's, behind its address.
#[repr(C)]
struct Opaque {
    _bytes: [u8; 0],
    /// Neither `Send` nor `Sync`: what a buffer overwrites is recorded by thread.
    _not_send: PhantomData<*mut u8>,
}

#[repr(C)]
struct RawPacket {
    producer: u16,
    writer: u16,
    loss: u32,
    data: *const u8,
    size: usize,
}

#[repr(C)]
struct RawPatch {
    offset: u32,
    data: [u8; 4],
}

type TakeState = unsafe extern "C" fn(*mut c_void, *const u8, usize);

// SAFETY: as `shim.cc` defines them.
// JUSTIFICATION: as for `Buffer::new`.
unsafe extern "C" {
    fn upstream_buffer_new(version: u32, size: usize, discard: bool) -> *mut Opaque;
    fn upstream_buffer_free(buffer: *mut Opaque);
    fn upstream_buffer_clone(buffer: *const Opaque) -> *mut Opaque;
    fn upstream_buffer_size(buffer: *const Opaque) -> usize;
    fn upstream_buffer_want(buffer: *mut Opaque, producers: *const u16, count: usize);
    fn upstream_buffer_copy(
        buffer: *mut Opaque,
        producer: u16,
        writer: u16,
        chunk: u32,
        num_fragments: u16,
        flags: u8,
        complete: bool,
        data: *const u8,
        size: usize,
    );
    fn upstream_buffer_overwritten(index: usize, out: *mut RawPacket) -> bool;
    fn upstream_buffer_patch(
        buffer: *mut Opaque,
        producer: u16,
        writer: u16,
        chunk: u32,
        patches: *const RawPatch,
        count: usize,
        more_pending: bool,
    ) -> bool;
    fn upstream_buffer_begin(buffer: *mut Opaque);
    fn upstream_buffer_read(buffer: *mut Opaque, out: *mut RawPacket) -> bool;
    fn upstream_buffer_read_all(buffer: *mut Opaque) -> usize;
    fn upstream_buffer_compact(buffer: *mut Opaque);
    fn upstream_buffer_stats(buffer: *const Opaque, out: &mut [u64; 22]);

    fn upstream_vm_new(
        program: *const u8,
        program_size: usize,
        memory_limit_bytes: usize,
        state: *const u8,
        state_size: usize,
    ) -> *mut Opaque;
    fn upstream_vm_free(vm: *mut Opaque);
    fn upstream_vm_clone(vm: *const Opaque) -> *mut Opaque;
    fn upstream_vm_apply(vm: *mut Opaque, packet: *const u8, size: usize) -> u32;
    fn upstream_vm_memory_usage_bytes(vm: *const Opaque) -> u64;
    fn upstream_vm_state(vm: *const Opaque, take: TakeState, context: *mut c_void);

    fn upstream_filter_new() -> *mut Opaque;
    fn upstream_filter_free(filter: *mut Opaque);
    fn upstream_filter_rule(
        filter: *mut Opaque,
        policy: u32,
        types: &[u64; 2],
        prefix: *const u8,
        prefix_size: usize,
        pattern: *const u8,
        pattern_size: usize,
        name: *const u8,
        name_size: usize,
    );
    fn upstream_filter_load(
        filter: *mut Opaque,
        program: *const u8,
        program_size: usize,
        overlay: *const u8,
        overlay_size: usize,
    ) -> bool;
    fn upstream_filter_root(filter: *mut Opaque, path: *const u32, size: usize) -> bool;
    fn upstream_filter_apply(
        filter: *mut Opaque,
        message: *const u8,
        size: usize,
        take: TakeState,
        context: *mut c_void,
    ) -> bool;
}
