//! Which packets are about a time, and which about the trace.

use ferretto_protos::fields::trace_packet as field;
use ferretto_protos::fields::{perf_sample, tracing_service_event};
use ferretto_trace_read::Head;
use ferretto_trace_read::fields::Fields;

/// What is done with a packet, by what it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It says something about the whole trace: who is who, what the clocks showed, what was lost.
    Whole,
    /// It names a track: all of a trace are kept, and rely on nothing.
    Descriptor,
    /// It is for whoever reads a trace while it is written. A cut is not written as its service wrote: readers must not take parts of it for
    /// complete (upstream: trace_sorter.h, the windows).
    Progress,
    /// Only what later packets rely on.
    State,
    /// An event of a program.
    TrackEvent,
    /// Events of the kernel, each with a time of its own.
    Ftrace,
    /// Counters of the system.
    SysStats,
    /// Counters of processes.
    ProcessStats,
    /// A sample, with the counters of its CPU.
    PerfSample,
    /// It counts in the range only.
    Timed,
}

impl Kind {
    pub(crate) fn of(head: &Head<'_>) -> Self {
        let Some((number, data)) = head.data else { return Self::State };
        match number {
            field::TRACK_EVENT => Self::TrackEvent,
            field::TRACK_DESCRIPTOR => Self::Descriptor,
            field::FTRACE_EVENTS => Self::Ftrace,
            field::SYS_STATS => Self::SysStats,
            field::PROCESS_STATS => Self::ProcessStats,
            field::PERF_SAMPLE if !says_loss(data) => Self::PerfSample,
            field::PERF_SAMPLE => Self::Whole,
            field::SERVICE_EVENT if is_progress(data) => Self::Progress,
            _ if is_whole(number) || head.timestamp.is_none() => Self::Whole,
            _ => Self::Timed,
        }
    }
}

fn is_progress(event: &[u8]) -> bool {
    let completed = tracing_service_event::READ_TRACING_BUFFERS_COMPLETED;
    Fields::new(event).whole().any(|part| part.number == completed)
}

/// Samples that were not taken or lost, and what the sampler says of itself: readers count them.
fn says_loss(sample: &[u8]) -> bool {
    let says =
        [perf_sample::KERNEL_RECORDS_LOST, perf_sample::SAMPLE_SKIPPED_REASON, perf_sample::PRODUCER_EVENT];
    Fields::new(sample).map_while(Result::ok).any(|part| says.contains(&part.number))
}

/// `UiState`, `ChromeMetadataPacket`, `TranslationTable`, `GpuInfo`, `TrackEventRangeOfInterest` (upstream: trace_packet.proto).
const OTHER_WHOLE: [u32; 5] = [78, 51, 82, 128, 90];

fn is_whole(number: u32) -> bool {
    matches!(
        number,
        field::PROCESS_TREE
            | field::INODE_FILE_MAP
            | field::CLOCK_SNAPSHOT
            | field::TRACE_UUID
            | field::TRACE_CONFIG
            | field::FTRACE_STATS
            | field::TRACE_STATS
            // A heap's dumps are sums since its begin: each counts by its difference from the one before.
            | field::PROFILE_PACKET
            // Times of its samples are differences from those of the packet before.
            | field::STREAMING_PROFILE_PACKET
            | field::STREAMING_ALLOCATION
            | field::STREAMING_FREE
            | field::SYSTEM_INFO
            | field::TRIGGER
            | field::CPU_INFO
            | field::SERVICE_EVENT
            | field::CONCURRENT_SESSION_EVENT
            | field::TRACE_PROVENANCE
            | field::PROTOVMS
            | field::TRACE_ATTRIBUTES
            | field::INTERRUPT_INFO
            | field::MODULE_SYMBOLS
            | field::DEOBFUSCATION_MAPPING
            | field::PROCESS_DESCRIPTOR
            | field::THREAD_DESCRIPTOR
            | field::SYNCHRONIZATION_MARKER
            | field::EXTENSION_DESCRIPTOR
            | field::REMOTE_CLOCK_SYNC
            | field::CLONE_SNAPSHOT_TRIGGER
            | field::RECOVERED_TRACE_INFO
    ) || OTHER_WHOLE.contains(&number)
}
