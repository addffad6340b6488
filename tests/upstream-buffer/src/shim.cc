// The functions through which Rust calls upstream's trace buffers, ProtoVM and trace filter. `build.rs` has cut their sources out of the
// package that holds them; `cpp.rs` declares these functions again and says what they ask of their callers.

#include "perfetto_c.h"
#include "upstream.cc"

#include <utility>

using perfetto::TraceBuffer;
using perfetto::TraceBufferProtoVms;
using perfetto::TraceBufferV1;
using perfetto::TraceBufferV2;
using perfetto::TracePacket;

namespace {

// A packet in the way that Rust sees it; the bytes are in the buffer's or the list's memory.
struct Packet {
  uint16_t producer;
  uint16_t writer;
  uint32_t loss;
  const uint8_t* data;
  size_t size;
};

struct Patch {
  uint32_t offset;
  uint8_t data[4];
};

struct OverwrittenPacket {
  uint16_t producer;
  std::string bytes;
};

// What the buffer has overwritten since this was last cleared.
thread_local std::vector<OverwrittenPacket> overwritten;

constexpr const char* kClear = "clear";

}  // namespace

// A buffer gives the packets that it overwrites to these, to be run through ProtoVMs. Here they are recorded instead: that is
// why trace_buffer_protovms.cc is not compiled.
namespace perfetto {

TraceBufferProtoVms::TraceBufferProtoVms() = default;
TraceBufferProtoVms::~TraceBufferProtoVms() = default;
TraceBufferProtoVms::Vm::Vm() = default;
TraceBufferProtoVms::Vm::~Vm() = default;
TraceBufferProtoVms::Vm::Vm(Vm&&) noexcept = default;

void TraceBufferProtoVms::MaybeSetUp(const std::string& name, const std::string&, uint32_t, ProducerID producer) {
  if (name == kClear) {
    vms_.clear();
    return;
  }
  if (vms_.empty())
    vms_.emplace_back();
  vms_[0].producers.insert(producer);
}

void TraceBufferProtoVms::MaybeProcessOverwrittenPacket(const TracePacket& packet, ProducerID producer) {
  if (!HasProducer(producer))
    return;
  overwritten.push_back({producer, {}});
  packet.GetRawBytes(&overwritten.back().bytes);
}

// A clone overwrites nothing.
void TraceBufferProtoVms::CloneReadOnlyFrom(const TraceBufferProtoVms&) {}

bool TraceBufferProtoVms::HasProducer(ProducerID producer) const {
  return !vms_.empty() && vms_[0].producers.count(producer) != 0;
}

size_t TraceBufferProtoVms::GetMemoryUsageBytes() const {
  return 0;
}

}  // namespace perfetto

struct UpstreamBuffer {
  std::unique_ptr<TraceBuffer> buffer;
  TracePacket packet;
  std::string bytes;
};

extern "C" {

UpstreamBuffer* upstream_buffer_new(uint32_t version, size_t size, bool discard) {
  auto policy = discard ? TraceBuffer::kDiscard : TraceBuffer::kOverwrite;
  std::unique_ptr<TraceBuffer> buffer;
  if (version == 1)
    buffer = TraceBufferV1::Create(size, policy);
  else
    buffer = TraceBufferV2::Create(size, policy);
  return buffer ? new UpstreamBuffer{std::move(buffer), {}, {}} : nullptr;
}

void upstream_buffer_free(UpstreamBuffer* self) {
  delete self;
}

UpstreamBuffer* upstream_buffer_clone(const UpstreamBuffer* self) {
  std::unique_ptr<TraceBuffer> clone = self->buffer->CloneReadOnly();
  return clone ? new UpstreamBuffer{std::move(clone), {}, {}} : nullptr;
}

size_t upstream_buffer_size(const UpstreamBuffer* self) {
  return self->buffer->size();
}

void upstream_buffer_want(UpstreamBuffer* self, const uint16_t* producers, size_t count) {
  self->buffer->protovms()->MaybeSetUp(kClear, {}, 0, 0);
  for (size_t i = 0; i < count; i++)
    self->buffer->protovms()->MaybeSetUp({}, {}, 0, producers[i]);
}

void upstream_buffer_copy(UpstreamBuffer* self,
                          uint16_t producer,
                          uint16_t writer,
                          uint32_t chunk,
                          uint16_t num_fragments,
                          uint8_t flags,
                          bool complete,
                          const uint8_t* data,
                          size_t size) {
  overwritten.clear();
  self->buffer->CopyChunkUntrusted(producer, perfetto::ClientIdentity(), writer, chunk, num_fragments, flags, complete, data,
                                   size);
}

// What the last copy has overwritten: packet `index`, or false if there are not so many.
bool upstream_buffer_overwritten(size_t index, Packet* out) {
  if (index >= overwritten.size())
    return false;
  const OverwrittenPacket& packet = overwritten[index];
  *out = {packet.producer, 0, 0, reinterpret_cast<const uint8_t*>(packet.bytes.data()), packet.bytes.size()};
  return true;
}

bool upstream_buffer_patch(UpstreamBuffer* self,
                           uint16_t producer,
                           uint16_t writer,
                           uint32_t chunk,
                           const Patch* patches,
                           size_t count,
                           bool more_pending) {
  std::vector<TraceBuffer::Patch> theirs;
  for (size_t i = 0; i < count; i++) {
    const auto& data = patches[i].data;
    theirs.push_back({patches[i].offset, {data[0], data[1], data[2], data[3]}});
  }
  return self->buffer->TryPatchChunkContents(producer, writer, chunk, theirs.data(), theirs.size(), more_pending);
}

void upstream_buffer_begin(UpstreamBuffer* self) {
  self->buffer->BeginRead();
}

bool upstream_buffer_read(UpstreamBuffer* self, Packet* out) {
  TraceBuffer::PacketSequenceProperties sequence{};
  uint32_t loss = 0;
  self->packet.Clear();
  if (!self->buffer->ReadNextTracePacket(&self->packet, &sequence, &loss))
    return false;
  self->bytes.clear();
  self->packet.GetRawBytes(&self->bytes);
  *out = {sequence.producer_id_trusted, sequence.writer_id, loss, reinterpret_cast<const uint8_t*>(self->bytes.data()),
          self->bytes.size()};
  return true;
}

// Begins a pass, reads all packets and gives the sum of their sizes: for measuring, without crossing the languages each time.
size_t upstream_buffer_read_all(UpstreamBuffer* self) {
  TraceBuffer::PacketSequenceProperties sequence{};
  uint32_t loss = 0;
  size_t bytes = 0;
  self->buffer->BeginRead();
  for (self->packet.Clear(); self->buffer->ReadNextTracePacket(&self->packet, &sequence, &loss); self->packet.Clear())
    bytes += self->packet.size();
  return bytes;
}

void upstream_buffer_compact(UpstreamBuffer* self) {
  self->buffer->MaybeCompact();
}

// In the order of the fields of `Stats` in the crate `ferretto-trace-buffer`.
void upstream_buffer_stats(const UpstreamBuffer* self, uint64_t (*out)[22]) {
  const auto& stats = self->buffer->stats();
  const uint64_t values[] = {stats.buffer_size(),
                             stats.bytes_written(),
                             stats.bytes_overwritten(),
                             stats.bytes_read(),
                             stats.padding_bytes_written(),
                             stats.padding_bytes_cleared(),
                             stats.chunks_written(),
                             stats.chunks_rewritten(),
                             stats.chunks_overwritten(),
                             stats.chunks_discarded(),
                             stats.chunks_read(),
                             stats.chunks_committed_out_of_order(),
                             stats.chunks_relocated(),
                             stats.write_wrap_count(),
                             stats.patches_succeeded(),
                             stats.patches_failed(),
                             stats.readaheads_succeeded(),
                             stats.readaheads_failed(),
                             stats.abi_violations(),
                             stats.trace_writer_packet_loss(),
                             stats.compactions(),
                             stats.compactions_skipped()};
  static_assert(sizeof(values) == sizeof(*out));
  memcpy(*out, values, sizeof(values));
}

struct UpstreamVm {
  std::unique_ptr<perfetto::protovm::Vm> vm;
};

// No state is a null pointer; an empty one is not.
UpstreamVm* upstream_vm_new(const uint8_t* program,
                            size_t program_size,
                            size_t memory_limit_bytes,
                            const uint8_t* state,
                            size_t state_size) {
  protozero::ConstBytes initial{state, state_size};
  return new UpstreamVm{std::make_unique<perfetto::protovm::Vm>(protozero::ConstBytes{program, program_size},
                                                                memory_limit_bytes, initial)};
}

void upstream_vm_free(UpstreamVm* self) {
  delete self;
}

UpstreamVm* upstream_vm_clone(const UpstreamVm* self) {
  return new UpstreamVm{self->vm->CloneReadOnly()};
}

// 0: ok, 1: error, 2: abort.
uint32_t upstream_vm_apply(UpstreamVm* self, const uint8_t* packet, size_t size) {
  auto status = self->vm->ApplyPatch({packet, size});
  return status.IsOk() ? 0 : status.IsAbort() ? 2 : 1;
}

uint64_t upstream_vm_memory_usage_bytes(const UpstreamVm* self) {
  return self->vm->GetMemoryUsageBytes() - self->vm->SerializeProgram().size();
}

// Calls `take` once with the encoded state.
void upstream_vm_state(const UpstreamVm* self, void (*take)(void* context, const uint8_t* data, size_t size), void* context) {
  protozero::HeapBuffered<protozero::Message> message;
  self->vm->SerializeIncrementalState(message.get());
  std::string state = message.SerializeAsString();
  take(context, reinterpret_cast<const uint8_t*>(state.data()), state.size());
}

struct UpstreamFilter {
  protozero::MessageFilter filter;
};

UpstreamFilter* upstream_filter_new() {
  return new UpstreamFilter;
}

void upstream_filter_free(UpstreamFilter* self) {
  delete self;
}

// `types` is a mask, the lower half first. The pattern must be one that upstream's engine takes.
void upstream_filter_rule(UpstreamFilter* self,
                          uint32_t policy,
                          const uint64_t (*types)[2],
                          const char* prefix,
                          size_t prefix_size,
                          const char* pattern,
                          size_t pattern_size,
                          const char* name,
                          size_t name_size) {
  using Rules = protozero::StringFilter;
  self->filter.string_filter().AddRule(static_cast<Rules::Policy>(policy), {pattern, pattern_size},
                                       std::string(prefix, prefix_size), std::string(name, name_size),
                                       Rules::SemanticTypeMask::FromWords((*types)[0], (*types)[1]));
}

bool upstream_filter_load(UpstreamFilter* self,
                          const uint8_t* program,
                          size_t program_size,
                          const uint8_t* overlay,
                          size_t overlay_size) {
  return self->filter.LoadFilterBytecode(program, program_size, overlay_size ? overlay : nullptr, overlay_size);
}

// The way has two steps at most.
bool upstream_filter_root(UpstreamFilter* self, const uint32_t* path, size_t size) {
  switch (size) {
    case 0:
      return self->filter.SetFilterRoot({});
    case 1:
      return self->filter.SetFilterRoot({path[0]});
    default:
      return self->filter.SetFilterRoot({path[0], path[1]});
  }
}

// Calls `take` once with what is kept, unless there is an error.
bool upstream_filter_apply(UpstreamFilter* self,
                           const uint8_t* message,
                           size_t size,
                           void (*take)(void* context, const uint8_t* data, size_t size),
                           void* context) {
  auto filtered = self->filter.FilterMessage(message, size);
  if (filtered.error)
    return false;
  take(context, filtered.data.get(), filtered.size);
  return true;
}

}  // extern "C"
