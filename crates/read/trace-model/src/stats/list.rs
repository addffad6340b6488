//! All counters: their names, numbers, severities and sources, which are upstream's (tp/storage/stats.h), and what each says, in our words.
//!
//! Left out are those of formats that are not read, and of Android's own data sources.

use super::{Definition, Kind, Scope, Severity, Source};

macro_rules! stats {
    ($($(#[doc = $doc:literal])+ $variant:ident = $key:literal, $name:literal, $kind:ident, $severity:ident, $source:ident, $scope:ident;)*) => {
        /// A counter. Its number is upstream's.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u16)]
        pub enum Stat {
            $($(#[doc = $doc])+ $variant = $key,)*
        }

        /// All of them, in the order of their numbers.
        pub(super) const ALL: &[Definition] = &[
            $(Definition {
                stat: Stat::$variant,
                name: $name,
                kind: Kind::$kind,
                severity: Severity::$severity,
                source: Source::$source,
                scope: Scope::$scope,
                docs: &[$($doc,)+],
            },)*
        ];
    };
}

stats! {
    /// Lines of Android's log that could not be read.
    AndroidLogNumFailed = 2, "android_log_num_failed", Single, Error, Trace, OfMachine;
    /// Lines of Android's log in a format that is none.
    AndroidLogFormatInvalid = 3, "android_log_format_invalid", Single, Error, Trace, OfMachine;
    /// Lines of Android's log that were left out.
    AndroidLogNumSkipped = 4, "android_log_num_skipped", Single, Info, Trace, OfMachine;
    /// Lines of Android's log that were met.
    AndroidLogNumTotal = 5, "android_log_num_total", Single, Info, Trace, OfMachine;
    /// Paths of Android apps that name no package.
    DeobfuscateLocationParseError = 14, "deobfuscate_location_parse_error", Single, Error, Analysis, OfAll;
    /// Bundles of the kernel's events, or parts of them, that cannot be read.
    FtraceBundleTokenizerErrors = 23, "ftrace_bundle_tokenizer_errors", Single, Error, Analysis, OfMachine;
    /// Bytes in the kernel's buffer of a processor when recording began.
    FtraceCpuBytesBegin = 24, "ftrace_cpu_bytes_begin", Indexed, Info, Trace, OfMachine;
    /// Bytes in the kernel's buffer of a processor when recording ended.
    FtraceCpuBytesEnd = 25, "ftrace_cpu_bytes_end", Indexed, Info, Trace, OfMachine;
    /// How much more was in the kernel's buffer of a processor at the end.
    FtraceCpuBytesDelta = 26, "ftrace_cpu_bytes_delta", Indexed, Info, Trace, OfMachine;
    /// Events that nested interrupts had cost a processor before recording.
    FtraceCpuCommitOverrunBegin = 27, "ftrace_cpu_commit_overrun_begin", Indexed, Info, Trace, OfMachine;
    /// Events that nested interrupts had cost a processor when recording ended.
    FtraceCpuCommitOverrunEnd = 28, "ftrace_cpu_commit_overrun_end", Indexed, Info, Trace, OfMachine;
    /// Events that nested interrupts have cost a processor while it was recorded.
    FtraceCpuCommitOverrunDelta = 29, "ftrace_cpu_commit_overrun_delta", Indexed, Error, Trace, OfMachine;
    /// Events that a full buffer of the kernel had refused before recording.
    FtraceCpuDroppedEventsBegin = 30, "ftrace_cpu_dropped_events_begin", Indexed, Info, Trace, OfMachine;
    /// Events that a full buffer of the kernel had refused when recording ended.
    FtraceCpuDroppedEventsEnd = 31, "ftrace_cpu_dropped_events_end", Indexed, Info, Trace, OfMachine;
    /// Events that a full buffer of the kernel has refused while it was recorded.
    FtraceCpuDroppedEventsDelta = 32, "ftrace_cpu_dropped_events_delta", Indexed, Error, Trace, OfMachine;
    /// Events in the kernel's buffer of a processor when recording began.
    FtraceCpuEntriesBegin = 33, "ftrace_cpu_entries_begin", Indexed, Info, Trace, OfMachine;
    /// Events in the kernel's buffer of a processor when recording ended.
    FtraceCpuEntriesEnd = 34, "ftrace_cpu_entries_end", Indexed, Info, Trace, OfMachine;
    /// How many more events were in the kernel's buffer of a processor at the end.
    FtraceCpuEntriesDelta = 35, "ftrace_cpu_entries_delta", Indexed, Info, Trace, OfMachine;
    /// The time that the kernel's buffer of a processor showed when recording began.
    FtraceCpuNowTsBegin = 36, "ftrace_cpu_now_ts_begin", Indexed, Info, Trace, OfMachine;
    /// The time that the kernel's buffer of a processor showed when recording ended.
    FtraceCpuNowTsEnd = 37, "ftrace_cpu_now_ts_end", Indexed, Info, Trace, OfMachine;
    /// The oldest event in the kernel's buffer of a processor when recording began.
    FtraceCpuOldestEventTsBegin = 38, "ftrace_cpu_oldest_event_ts_begin", Indexed, Info, Trace, OfMachine;
    /// The oldest event in the kernel's buffer of a processor when recording ended.
    FtraceCpuOldestEventTsEnd = 39, "ftrace_cpu_oldest_event_ts_end", Indexed, Info, Trace, OfMachine;
    /// Events that newer ones had overwritten in the kernel's buffer before recording.
    FtraceCpuOverrunBegin = 40, "ftrace_cpu_overrun_begin", Indexed, Info, Trace, OfMachine;
    /// Events that newer ones had overwritten in the kernel's buffer when recording ended.
    FtraceCpuOverrunEnd = 41, "ftrace_cpu_overrun_end", Indexed, Info, Trace, OfMachine;
    /// Events that newer ones have overwritten in the kernel's buffer while it was recorded.
    FtraceCpuOverrunDelta = 42, "ftrace_cpu_overrun_delta", Indexed, Info, Trace, OfMachine;
    /// Events that had been read from the kernel's buffer before recording.
    FtraceCpuReadEventsBegin = 43, "ftrace_cpu_read_events_begin", Indexed, Info, Trace, OfMachine;
    /// Events that had been read from the kernel's buffer when recording ended.
    FtraceCpuReadEventsEnd = 44, "ftrace_cpu_read_events_end", Indexed, Info, Trace, OfMachine;
    /// Events that were read from the kernel's buffer while it was recorded.
    FtraceCpuReadEventsDelta = 45, "ftrace_cpu_read_events_delta", Indexed, Info, Trace, OfMachine;
    /// The kernel overwrote events of a processor before they were read, so what the trace says of it has holes. A
    /// larger buffer_size_kb, a shorter drain period or fewer events help.
    FtraceCpuHasDataLoss = 46, "ftrace_cpu_has_data_loss", Indexed, DataLoss, Trace, OfMachine;
    /// Hits of kretprobes before recording.
    FtraceKprobeHitsBegin = 47, "ftrace_kprobe_hits_begin", Single, Info, Trace, OfMachine;
    /// Hits of kretprobes when recording ended.
    FtraceKprobeHitsEnd = 48, "ftrace_kprobe_hits_end", Single, Info, Trace, OfMachine;
    /// Hits of kretprobes while it was recorded.
    FtraceKprobeHitsDelta = 49, "ftrace_kprobe_hits_delta", Single, Info, Trace, OfMachine;
    /// Missed hits of kretprobes before recording.
    FtraceKprobeMissesBegin = 50, "ftrace_kprobe_misses_begin", Single, Info, Trace, OfMachine;
    /// Missed hits of kretprobes when recording ended.
    FtraceKprobeMissesEnd = 51, "ftrace_kprobe_misses_end", Single, Info, Trace, OfMachine;
    /// Missed hits of kretprobes while it was recorded: their maxactive is too small.
    FtraceKprobeMissesDelta = 52, "ftrace_kprobe_misses_delta", Single, DataLoss, Trace, OfMachine;
    /// Events of the kernel, or groups of them, that could not be switched on. The import logs name them.
    FtraceSetupErrors = 53, "ftrace_setup_errors", Single, Notice, Trace, OfMachine;
    /// Events of the kernel without data, which a bug of it writes.
    FtraceAbiErrorsSkippedZeroDataLength = 54, "ftrace_abi_errors_skipped_zero_data_length", Single, Info, Analysis, OfMachine;
    /// Descriptions of events that no version knows which are missing or cannot be read.
    FtraceGenericDescriptorErrors = 55, "ftrace_generic_descriptor_errors", Single, Error, Analysis, OfMachine;
    /// States of tasks of no Linux kernel that come in an order that cannot be.
    GenericTaskStateInvalidOrder = 65, "generic_task_state_invalid_order", Single, Error, Analysis, OfMachine;
    /// How long it took to find out the format.
    GuessTraceTypeDurationNs = 71, "guess_trace_type_duration_ns", Single, Info, Analysis, OfAll;
    /// Interned data that cannot be read.
    InternedDataTokenizerErrors = 76, "interned_data_tokenizer_errors", Single, Info, Analysis, OfMachine;
    /// Snapshots of clocks that contradict earlier ones, or name a clock twice.
    InvalidClockSnapshots = 77, "invalid_clock_snapshots", Single, Error, Analysis, OfAll;
    /// Times of processors that do not say which processor.
    InvalidCpuTimes = 78, "invalid_cpu_times", Single, Error, Analysis, OfMachine;
    /// Events of the kernel that look like track events, and whose fields do not fit that.
    KernelTrackeventFormatError = 84, "kernel_trackevent_format_error", Single, Error, Analysis, OfMachine;
    /// Changes of other recordings to states that this version does not know; left out.
    ConcurrentSessionEventUnknownState = 87, "concurrent_session_event_unknown_state", Single, Error, Analysis, OfMachine;
    /// Lines of /proc/meminfo that this version does not know.
    MeminfoUnknownKeys = 88, "meminfo_unknown_keys", Single, Error, Analysis, OfMachine;
    /// Features of processors that this version has no name for; their bits are in the arguments.
    CpuInfoUnknownCpuFeatures = 89, "cpu_info_unknown_cpu_features", Single, Info, Analysis, OfMachine;
    /// A list of processors without any: /proc/cpuinfo could not be read where it was recorded.
    CpuInfoEmpty = 91, "cpu_info_empty", Single, Error, Analysis, OfMachine;
    /// Switches away from a thread that was not known to run there: some are missing.
    MismatchedSchedSwitchTids = 92, "mismatched_sched_switch_tids", Single, Error, Analysis, OfMachine;
    /// Events of memory management of an unknown type.
    MmUnknownType = 93, "mm_unknown_type", Single, Error, Analysis, OfMachine;
    /// How long it took to read the trace.
    ParseTraceDurationNs = 94, "parse_trace_duration_ns", Single, Info, Analysis, OfAll;
    /// Counters of processes that this version does not know.
    ProcStatUnknownCounters = 97, "proc_stat_unknown_counters", Single, Error, Analysis, OfMachine;
    /// Sizes of processes' memory of an unknown kind.
    RssStatUnknownKeys = 98, "rss_stat_unknown_keys", Single, Error, Analysis, OfMachine;
    /// Sizes of processes' memory below zero; left out.
    RssStatNegativeSize = 99, "rss_stat_negative_size", Single, Info, Analysis, OfMachine;
    /// Sizes of memory whose process is not known.
    RssStatUnknownThreadForMmId = 100, "rss_stat_unknown_thread_for_mm_id", Single, Info, Analysis, OfMachine;
    /// Bytes before the trace filter.
    FilterInputBytes = 101, "filter_input_bytes", Single, Info, Trace, OfMachine;
    /// Packets before the trace filter.
    FilterInputPackets = 102, "filter_input_packets", Single, Info, Trace, OfMachine;
    /// Bytes that the trace filter let pass, before compression.
    FilterOutputBytes = 103, "filter_output_bytes", Single, Info, Trace, OfMachine;
    /// How long the trace filter took, in sum.
    FilterTimeTakenNs = 104, "filter_time_taken_ns", Single, Info, Trace, OfMachine;
    /// Packets that the trace filter could not read, and dropped.
    FilterErrors = 105, "filter_errors", Single, Error, Trace, OfMachine;
    /// Flows that were begun twice.
    FlowDuplicateId = 106, "flow_duplicate_id", Single, Error, Trace, OfMachine;
    /// Ends of flows outside of any slice.
    FlowNoEnclosingSlice = 107, "flow_no_enclosing_slice", Single, Error, Trace, OfMachine;
    /// Steps of flows that were not begun.
    FlowStepWithoutStart = 108, "flow_step_without_start", Single, Info, Trace, OfMachine;
    /// Ends of flows that were not begun.
    FlowEndWithoutStart = 109, "flow_end_without_start", Single, Info, Trace, OfMachine;
    /// Flows without a valid number.
    FlowInvalidId = 110, "flow_invalid_id", Single, Error, Trace, OfMachine;
    /// Flows that say neither in nor out.
    FlowWithoutDirection = 111, "flow_without_direction", Single, Error, Trace, OfMachine;
    /// Call stacks without frames; left out.
    StackprofileEmptyCallstack = 112, "stackprofile_empty_callstack", Single, Error, Trace, OfMachine;
    /// Texts of call stacks that are not there.
    StackprofileInvalidStringId = 113, "stackprofile_invalid_string_id", Single, Error, Trace, OfMachine;
    /// Mappings of call stacks that are not there.
    StackprofileInvalidMappingId = 114, "stackprofile_invalid_mapping_id", Single, Error, Trace, OfMachine;
    /// Frames of call stacks that are not there.
    StackprofileInvalidFrameId = 115, "stackprofile_invalid_frame_id", Single, Error, Trace, OfMachine;
    /// Call stacks that are not there.
    StackprofileInvalidCallstackId = 116, "stackprofile_invalid_callstack_id", Single, Error, Trace, OfMachine;
    /// Parts of call stacks that cannot be read.
    StackprofileParserError = 117, "stackprofile_parser_error", Single, Error, Trace, OfMachine;
    /// Packets of processes' mappings whose columns differ in length: what the tables say of mappings is unreliable.
    SmapsParserErrors = 118, "smaps_parser_errors", Single, Error, Trace, OfMachine;
    /// Lines of systemd's journal that could not be read.
    SystemdJournalNumFailed = 119, "systemd_journal_num_failed", Single, Error, Trace, OfMachine;
    /// Lines of systemd's journal that were read.
    SystemdJournalNumTotal = 120, "systemd_journal_num_total", Single, Info, Trace, OfMachine;
    /// Lines of ftrace's text that cannot be read.
    SystraceParseFailure = 121, "systrace_parse_failure", Single, Error, Analysis, OfMachine;
    /// States of threads that no kernel of this version has.
    TaskStateInvalid = 122, "task_state_invalid", Single, Error, Analysis, OfMachine;
    /// Chunks of a buffer that broke the rules of the shared memory.
    TracedBufAbiViolations = 123, "traced_buf_abi_violations", Indexed, DataLoss, Trace, OfMachine;
    /// The size of a buffer, in bytes.
    TracedBufBufferSize = 124, "traced_buf_buffer_size", Indexed, Info, Trace, OfMachine;
    /// Bytes of a buffer that newer ones overwrote unread.
    TracedBufBytesOverwritten = 125, "traced_buf_bytes_overwritten", Indexed, Info, Trace, OfMachine;
    /// Bytes that were read from a buffer.
    TracedBufBytesRead = 126, "traced_buf_bytes_read", Indexed, Info, Trace, OfMachine;
    /// Bytes of a buffer that the trace filter took out.
    TracedBufBytesFilteredOut = 127, "traced_buf_bytes_filtered_out", Indexed, Info, Trace, OfMachine;
    /// Bytes that were written into a buffer.
    TracedBufBytesWritten = 128, "traced_buf_bytes_written", Indexed, Info, Trace, OfMachine;
    /// When a buffer had been cloned.
    TracedBufCloneDoneTimestampNs = 129, "traced_buf_clone_done_timestamp_ns", Indexed, Info, Trace, OfMachine;
    /// Chunks that a full buffer refused.
    TracedBufChunksDiscarded = 130, "traced_buf_chunks_discarded", Indexed, Info, Trace, OfMachine;
    /// Chunks of a buffer that newer ones overwrote unread.
    TracedBufChunksOverwritten = 131, "traced_buf_chunks_overwritten", Indexed, Info, Trace, OfMachine;
    /// Chunks that were read from a buffer.
    TracedBufChunksRead = 132, "traced_buf_chunks_read", Indexed, Info, Trace, OfMachine;
    /// Scraped chunks that were written anew further on, for the ring was about to reach them.
    TracedBufChunksRelocated = 133, "traced_buf_chunks_relocated", Indexed, Info, Trace, OfMachine;
    /// Chunks that were written again, with more in them.
    TracedBufChunksRewritten = 134, "traced_buf_chunks_rewritten", Indexed, Info, Trace, OfMachine;
    /// Chunks that were written into a buffer.
    TracedBufChunksWritten = 135, "traced_buf_chunks_written", Indexed, Info, Trace, OfMachine;
    /// Chunks that came in another order than that of their sequence.
    TracedBufChunksCommittedOutOfOrder = 136, "traced_buf_chunks_committed_out_of_order", Indexed, Info, Trace, OfMachine;
    /// Bytes of padding that were overwritten in a buffer.
    TracedBufPaddingBytesCleared = 137, "traced_buf_padding_bytes_cleared", Indexed, Info, Trace, OfMachine;
    /// Bytes of padding that were written into a buffer.
    TracedBufPaddingBytesWritten = 138, "traced_buf_padding_bytes_written", Indexed, Info, Trace, OfMachine;
    /// Patches whose chunk was not there: packets are missing. In a buffer that discards when full, it is because it
    /// was.
    TracedBufPatchesFailed = 139, "traced_buf_patches_failed", Indexed, DataLoss, Trace, OfMachine;
    /// Patches that were applied.
    TracedBufPatchesSucceeded = 140, "traced_buf_patches_succeeded", Indexed, Info, Trace, OfMachine;
    /// Times that reading could not skip a packet that is not whole.
    TracedBufReadaheadsFailed = 141, "traced_buf_readaheads_failed", Indexed, Info, Trace, OfMachine;
    /// Times that reading skipped a packet that is not whole.
    TracedBufReadaheadsSucceeded = 142, "traced_buf_readaheads_succeeded", Indexed, Info, Trace, OfMachine;
    /// Packets that their writers lost, also before a ring's begin or after a full buffer's end.
    TracedBufTraceWriterPacketLoss = 143, "traced_buf_trace_writer_packet_loss", Indexed, DataLoss, Trace, OfMachine;
    /// Gaps in sequences of this buffer.
    TracedBufSequencePacketLoss = 144, "traced_buf_sequence_packet_loss", Indexed, DataLoss, Analysis, OfMachine;
    /// Sequences of this buffer of which no packet could be read, for what they had interned was lost. Interned data
    /// should be cleared more often (incremental_state_config).
    TracedBufIncrementalSequencesDropped = 145, "traced_buf_incremental_sequences_dropped", Indexed, DataLoss, Analysis, OfMachine;
    /// Losses of this buffer: chunks of a sequence were missing when it was read.
    TracedBufDataLossReadGap = 146, "traced_buf_data_loss_read_gap", Indexed, DataLoss, Trace, OfMachine;
    /// Losses of this buffer: a chunk could not be cut into packets.
    TracedBufDataLossChunkCorrupted = 147, "traced_buf_data_loss_chunk_corrupted", Indexed, DataLoss, Trace, OfMachine;
    /// Losses of this buffer: a part of a packet without its begin.
    TracedBufDataLossOrphanContinuation = 148, "traced_buf_data_loss_orphan_continuation", Indexed, DataLoss, Trace, OfMachine;
    /// Losses of this buffer: a chunk was missing within a packet.
    TracedBufDataLossReassemblyGap = 149, "traced_buf_data_loss_reassembly_gap", Indexed, DataLoss, Trace, OfMachine;
    /// Losses of this buffer: parts of a packet did not fit together, though no chunk was missing.
    TracedBufDataLossReassemblyBrokenChain = 150, "traced_buf_data_loss_reassembly_broken_chain", Indexed, DataLoss, Trace, OfMachine;
    /// Losses of this buffer: the ring overwrote what had not been read.
    TracedBufDataLossOverwrite = 151, "traced_buf_data_loss_overwrite", Indexed, DataLoss, Trace, OfMachine;
    /// Losses of this buffer: a writer gave up a packet.
    TracedBufDataLossWriterAbort = 152, "traced_buf_data_loss_writer_abort", Indexed, DataLoss, Trace, OfMachine;
    /// Losses of this buffer: the producer's shared memory was full.
    TracedBufDataLossSmbFull = 153, "traced_buf_data_loss_smb_full", Indexed, DataLoss, Trace, OfMachine;
    /// How often writing came round to a buffer's begin.
    TracedBufWriteWrapCount = 154, "traced_buf_write_wrap_count", Indexed, Info, Trace, OfMachine;
    /// When the cloning that made this trace began.
    TracedCloneStartedTimestampNs = 155, "traced_clone_started_timestamp_ns", Single, Info, Trace, OfMachine;
    /// When the trigger came for which this trace was cloned.
    TracedCloneTriggerTimestampNs = 156, "traced_clone_trigger_timestamp_ns", Single, Info, Trace, OfMachine;
    /// Chunks that the service refused, of producers without that buffer or of broken ones.
    TracedChunksDiscarded = 157, "traced_chunks_discarded", Single, Info, Trace, OfMachine;
    /// Data sources that were there at the end.
    TracedDataSourcesRegistered = 158, "traced_data_sources_registered", Single, Info, Trace, OfMachine;
    /// Data sources that had been there at any time.
    TracedDataSourcesSeen = 159, "traced_data_sources_seen", Single, Info, Trace, OfMachine;
    /// The last flush was not answered in time: the ends of some sequences are missing.
    TracedFinalFlushFailed = 160, "traced_final_flush_failed", Single, DataLoss, Trace, OfMachine;
    /// The last flush was answered.
    TracedFinalFlushSucceeded = 161, "traced_final_flush_succeeded", Single, Info, Trace, OfMachine;
    /// Flushes that were not answered in time.
    TracedFlushesFailed = 162, "traced_flushes_failed", Single, DataLoss, Trace, OfMachine;
    /// Flushes that were asked for.
    TracedFlushesRequested = 163, "traced_flushes_requested", Single, Info, Trace, OfMachine;
    /// Flushes that were answered.
    TracedFlushesSucceeded = 164, "traced_flushes_succeeded", Single, Info, Trace, OfMachine;
    /// Patches that the service refused.
    TracedPatchesDiscarded = 165, "traced_patches_discarded", Single, Info, Trace, OfMachine;
    /// Producers that were there at the end.
    TracedProducersConnected = 166, "traced_producers_connected", Single, Info, Trace, OfMachine;
    /// Producers that had been there at any time.
    TracedProducersSeen = 167, "traced_producers_seen", Single, Info, Trace, OfMachine;
    /// Buffers of all recordings of the service.
    TracedTotalBuffers = 168, "traced_total_buffers", Single, Info, Trace, OfMachine;
    /// Recordings of the service at the same time.
    TracedTracingSessions = 169, "traced_tracing_sessions", Single, Info, Trace, OfMachine;
    /// Events of programs that fit nowhere.
    TrackEventParserErrors = 170, "track_event_parser_errors", Single, Info, Analysis, OfMachine;
    /// Events of programs from before the time that the trace says is of interest; left out.
    TrackEventDroppedPacketsOutsideOfRangeOfInterest = 171, "track_event_dropped_packets_outside_of_range_of_interest", Single, Info, Analysis, OfMachine;
    /// Events of programs that cannot be read.
    TrackEventTokenizerErrors = 172, "track_event_tokenizer_errors", Single, Info, Analysis, OfMachine;
    /// Events on tracks below one that nobody has described; how often it was met, not how many were lost.
    TrackHierarchyMissingUuid = 173, "track_hierarchy_missing_uuid", Single, Info, Analysis, OfMachine;
    /// Ends of slices on threads that fit no begin: something is missing, or two sources write to one track.
    TrackEventThreadInvalidEnd = 174, "track_event_thread_invalid_end", Single, Error, Trace, OfMachine;
    /// Packets that cannot be read, as no protobuf.
    TokenizerSkippedPackets = 175, "tokenizer_skipped_packets", Single, Info, Analysis, OfMachine;
    /// Lines of /proc/vmstat that this version does not know.
    VmstatUnknownKeys = 176, "vmstat_unknown_keys", Single, Error, Analysis, OfMachine;
    /// Pressure of a resource that this version does not know.
    PsiUnknownResource = 177, "psi_unknown_resource", Single, Error, Analysis, OfMachine;
    /// Times that could not be converted, of traces before the three causes had counters.
    ClockSyncFailure = 179, "clock_sync_failure", Single, Error, Analysis, OfMachine;
    /// Packets on a clock that no snapshot shows: their writer should have written one before them.
    ClockSyncFailureUnknownSourceClock = 180, "clock_sync_failure_unknown_source_clock", Single, Error, Analysis, OfMachine;
    /// Packets that came when no snapshot had shown the trace's clock.
    ClockSyncFailureUnknownTargetClock = 181, "clock_sync_failure_unknown_target_clock", Single, Error, Analysis, OfMachine;
    /// Packets on a clock that no snapshot relates to the trace's, not through others either.
    ClockSyncFailureNoPath = 182, "clock_sync_failure_no_path", Single, Error, Analysis, OfMachine;
    /// A machine or file whose clock nothing relates to the trace's; its events were left out.
    ClockSyncUnrelatableClockDomains = 183, "clock_sync_unrelatable_clock_domains", Single, Error, Analysis, OfMachine;
    /// A file that was read with another's snapshots until its own came.
    ClockSyncMixedClockSources = 184, "clock_sync_mixed_clock_sources", Single, Error, Analysis, OfMachine;
    /// Packets that were given up because their clock was not known, at the end either.
    ClockSyncFailureUndeferrablePacketLoss = 185, "clock_sync_failure_undeferrable_packet_loss", Single, DataLoss, Analysis, OfMachine;
    /// Conversions of times that had to be looked up anew.
    ClockSyncCacheMiss = 186, "clock_sync_cache_miss", Single, Info, Analysis, OfAll;
    /// Threads that two processes were said to have.
    ProcessTrackerErrors = 187, "process_tracker_errors", Single, Error, Analysis, OfMachine;
    /// Processes that got another parent, and are taken for the same.
    ProcessTrackerParentPidChanged = 188, "process_tracker_parent_pid_changed", Single, Info, Analysis, OfMachine;
    /// Threads in a namespace whose process is not known.
    NamespacedThreadMissingProcess = 189, "namespaced_thread_missing_process", Single, Error, Analysis, OfMachine;
    /// Pieces of JSON that cannot be read.
    JsonTokenizerFailure = 190, "json_tokenizer_failure", Single, Error, Trace, OfMachine;
    /// Events in JSON that fit nowhere.
    JsonParserFailure = 191, "json_parser_failure", Single, Error, Trace, OfMachine;
    /// The JSON says in which unit times are to be shown; it is not heeded.
    JsonDisplayTimeUnit = 192, "json_display_time_unit", Single, Info, Trace, OfMachine;
    /// Texts of heap graphs that are not there.
    HeapGraphInvalidStringId = 193, "heap_graph_invalid_string_id", Indexed, Error, Trace, OfAll;
    /// Packets of heap graphs that cannot be read.
    HeapGraphMalformedPacket = 194, "heap_graph_malformed_packet", Indexed, Error, Trace, OfAll;
    /// Packets of heap graphs that are missing.
    HeapGraphMissingPacket = 195, "heap_graph_missing_packet", Indexed, Error, Trace, OfAll;
    /// The memory shared with a profiled process was damaged. By upid.
    HeapprofdBufferCorrupted = 196, "heapprofd_buffer_corrupted", Indexed, Error, Trace, OfMachine;
    /// The profiler of memory used more than it was allowed. By upid.
    HeapprofdHitGuardrail = 197, "heapprofd_hit_guardrail", Indexed, Error, Trace, OfMachine;
    /// The memory shared with a profiled process was full, so its profile ends early. By upid.
    HeapprofdBufferOverran = 198, "heapprofd_buffer_overran", Indexed, DataLoss, Trace, OfMachine;
    /// The profiled process met an error and stopped. By upid.
    HeapprofdClientError = 199, "heapprofd_client_error", Indexed, Error, Trace, OfMachine;
    /// The profiled process went away. By upid.
    HeapprofdClientDisconnected = 200, "heapprofd_client_disconnected", Indexed, Info, Trace, OfMachine;
    /// Packets of memory profiles that cannot be read. By upid.
    HeapprofdMalformedPacket = 201, "heapprofd_malformed_packet", Indexed, Error, Trace, OfMachine;
    /// Packets of memory profiles that are missing.
    HeapprofdMissingPacket = 202, "heapprofd_missing_packet", Single, Error, Trace, OfMachine;
    /// Another recording was profiling the process, so this one could not. By upid.
    HeapprofdRejectedConcurrent = 203, "heapprofd_rejected_concurrent", Indexed, Error, Trace, OfMachine;
    /// Memory profiles without an end.
    HeapprofdNonFinalizedProfile = 204, "heapprofd_non_finalized_profile", Single, Error, Trace, OfMachine;
    /// By how many bytes the interval of a process was made longer. By pid.
    HeapprofdSamplingIntervalAdjusted = 205, "heapprofd_sampling_interval_adjusted", Indexed, Info, Trace, OfMachine;
    /// How long unwinding took. By pid.
    HeapprofdUnwindTimeUs = 206, "heapprofd_unwind_time_us", Indexed, Info, Trace, OfMachine;
    /// How many stacks were unwound. By pid.
    HeapprofdUnwindSamples = 207, "heapprofd_unwind_samples", Indexed, Info, Trace, OfMachine;
    /// How long the profiled process waited for its lock, in µs. By pid.
    HeapprofdClientSpinlockBlocked = 208, "heapprofd_client_spinlock_blocked", Indexed, Info, Trace, OfMachine;
    /// When the last dump of a process was. By upid.
    HeapprofdLastProfileTimestamp = 209, "heapprofd_last_profile_timestamp", Indexed, Info, Trace, OfMachine;
    /// Programs below /data/local/tmp without a build id, whose symbols cannot be found.
    SymbolizationTmpBuildIdNotFound = 210, "symbolization_tmp_build_id_not_found", Single, Error, Analysis, OfMachine;
    /// Traces of the tracing itself that were lost.
    MetatraceOverruns = 211, "metatrace_overruns", Single, Error, Trace, OfMachine;
    /// Packed switches and wake-ups that cannot be read.
    CompactSchedHasParseErrors = 217, "compact_sched_has_parse_errors", Single, Error, Trace, OfMachine;
    /// Slices that were ended by what they lie within.
    MisplacedEndEvent = 218, "misplaced_end_event", Single, DataLoss, Analysis, OfMachine;
    /// Calls of write that were cut short, for what they wrote were events that begin slices.
    TruncatedSysWriteDuration = 219, "truncated_sys_write_duration", Single, Info, Analysis, OfMachine;
    /// The first packed switch of each processor, which does not say whom it switches from.
    CompactSchedSwitchSkipped = 220, "compact_sched_switch_skipped", Single, Info, Analysis, OfMachine;
    /// Packed wake-ups from before the first switch of their processor.
    CompactSchedWakingSkipped = 221, "compact_sched_waking_skipped", Single, Info, Analysis, OfMachine;
    /// Metadata of Chrome without a value.
    EmptyChromeMetadata = 222, "empty_chrome_metadata", Single, Error, Trace, OfMachine;
    /// Samples that the kernel's buffer of a processor lost. A lower frequency or more ring_buffer_pages help.
    PerfCpuLostRecords = 224, "perf_cpu_lost_records", Indexed, DataLoss, Trace, OfMachine;
    /// Into how many shards processes were divided, of which one was sampled.
    PerfProcessShardCount = 225, "perf_process_shard_count", Indexed, Info, Trace, OfMachine;
    /// Which shard of processes was sampled.
    PerfChosenProcessShard = 226, "perf_chosen_process_shard", Indexed, Info, Trace, OfMachine;
    /// When the profiler stopped because it used more than it was allowed.
    PerfGuardrailStopTs = 227, "perf_guardrail_stop_ts", Indexed, DataLoss, Trace, OfMachine;
    /// Records of perf of a type that this version does not know.
    PerfUnknownRecordType = 228, "perf_unknown_record_type", Indexed, Info, Analysis, OfMachine;
    /// Records of perf that cannot be read.
    PerfRecordSkipped = 229, "perf_record_skipped", Indexed, Error, Analysis, OfMachine;
    /// Samples that do not say of which thread or when.
    PerfSamplesSkipped = 230, "perf_samples_skipped", Single, Error, Analysis, OfMachine;
    /// Headers of perf that cannot be read.
    PerfFeaturesSkipped = 231, "perf_features_skipped", Indexed, Info, Analysis, OfMachine;
    /// Samples that do not say whether they are of the kernel.
    PerfSamplesCpuModeUnknown = 232, "perf_samples_cpu_mode_unknown", Single, Error, Analysis, OfMachine;
    /// Samples that the profiler gave up because it was behind.
    PerfSamplesSkippedDataloss = 233, "perf_samples_skipped_dataloss", Single, DataLoss, Trace, OfMachine;
    /// Frames in no known mapping.
    PerfDummyMappingUsed = 234, "perf_dummy_mapping_used", Single, Info, Analysis, OfMachine;
    /// Dumps of programs' memory that cannot be read.
    MemorySnapshotParserFailure = 246, "memory_snapshot_parser_failure", Single, Error, Analysis, OfMachine;
    /// Times of threads at a frequency that their processor does not have.
    ThreadTimeInStateUnknownCpuFreq = 247, "thread_time_in_state_unknown_cpu_freq", Single, Error, Analysis, OfMachine;
    /// Events of the kernel from before the recording began, left out.
    FtracePacketBeforeTracingStart = 248, "ftrace_packet_before_tracing_start", Single, Info, Analysis, OfMachine;
    /// Events that came after later ones had been handled.
    SorterPushEventOutOfOrder = 249, "sorter_push_event_out_of_order", Single, Error, Trace, OfAll;
    /// Fields of events that no description covers; their arguments are missing.
    UnknownExtensionFields = 250, "unknown_extension_fields", Single, Error, Trace, OfMachine;
    /// Interned data of V8 that is not there.
    V8InternErrors = 255, "v8_intern_errors", Single, DataLoss, Analysis, OfMachine;
    /// Isolates of V8 that do not say where their code is.
    V8IsolateHasNoCodeRange = 256, "v8_isolate_has_no_code_range", Single, Error, Analysis, OfMachine;
    /// Packets of V8 without the defaults that they rely on.
    V8NoDefaults = 257, "v8_no_defaults", Single, DataLoss, Analysis, OfMachine;
    /// Code of V8 outside of any range.
    V8NoCodeRange = 258, "v8_no_code_range", Single, Error, Analysis, OfMachine;
    /// Code of V8 of an unknown type.
    V8UnknownCodeType = 259, "v8_unknown_code_type", Single, Error, Analysis, OfMachine;
    /// Code of V8 that was loaded to nowhere known.
    V8CodeLoadMissingCodeRange = 260, "v8_code_load_missing_code_range", Single, Error, Analysis, OfMachine;
    /// Frames in code made at run time that no function covers.
    JitUnknownFrame = 279, "jit_unknown_frame", Single, DataLoss, Trace, OfMachine;
    /// Events of the kernel that do not say which they are; filters cause that.
    FtraceMissingEventId = 280, "ftrace_missing_event_id", Single, Info, Analysis, OfMachine;
    /// Stacks in V8's old profiles that are damaged.
    LegacyV8CpuProfileInvalidCallsite = 284, "legacy_v8_cpu_profile_invalid_callsite", Single, Error, Trace, OfMachine;
    /// Samples in V8's old profiles that are damaged.
    LegacyV8CpuProfileInvalidSample = 285, "legacy_v8_cpu_profile_invalid_sample", Single, Error, Trace, OfMachine;
    /// It was recorded into a file without flush_period_ms, so all of it has to be sorted at once.
    ConfigWriteIntoFileNoFlush = 286, "config_write_into_file_no_flush", Single, Error, Trace, OfMachine;
    /// It was recorded into a file through a buffer that discards when full: what is missing is missing for good.
    ConfigWriteIntoFileDiscard = 287, "config_write_into_file_discard", Indexed, DataLoss, Trace, OfMachine;
    /// Bytes of a buffer that were overwritten before they were written into the file.
    LongTraceModeBytesOverwritten = 288, "long_trace_mode_bytes_overwritten", Indexed, DataLoss, Trace, OfMachine;
    /// Events whose time is before 0; left out. Clocks or differences of times were wrong.
    TraceSorterNegativeTimestampDropped = 305, "trace_sorter_negative_timestamp_dropped", Single, Error, Trace, OfAll;
    /// Complete slices that end after what they begin in; left out.
    SliceDropOverlappingCompleteEvent = 306, "slice_drop_overlapping_complete_event", Single, Error, Analysis, OfMachine;
    /// Complete slices that end after what they begin in; put onto another track.
    SliceSpillOverlappingCompleteEvent = 307, "slice_spill_overlapping_complete_event", Single, Error, Analysis, OfMachine;
    /// Samples in the text of `perf script` that have no stack.
    PerfTextImporterSampleNoFrames = 308, "perf_text_importer_sample_no_frames", Single, Error, Trace, OfMachine;
    /// Lines of `strace` that are no calls.
    StraceParseFailure = 309, "strace_parse_failure", Single, Info, Trace, OfMachine;
    /// Lines of `strace` with a time that has no day: it must be started with `-ttt`.
    StraceUnsupportedTimestampFormat = 310, "strace_unsupported_timestamp_format", Single, Error, Trace, OfMachine;
    /// Calls in `strace`'s text without a thread's number: it must be started with `-f`.
    StraceMissingPid = 311, "strace_missing_pid", Single, Error, Trace, OfMachine;
    /// Slices of negative length; left out.
    SliceNegativeDuration = 313, "slice_negative_duration", Single, Error, Analysis, OfMachine;
    /// Slices below so many others that they were left out.
    SliceMaxDepthExceeded = 314, "slice_max_depth_exceeded", Single, Error, Analysis, OfMachine;
    /// Descriptions of tracks without a uuid.
    TrackDescriptorMissingUuid = 316, "track_descriptor_missing_uuid", Single, Error, Analysis, OfMachine;
    /// Descriptions of threads without a pid or tid.
    TrackDescriptorThreadMissingPidTid = 317, "track_descriptor_thread_missing_pid_tid", Single, Error, Analysis, OfMachine;
    /// Descriptions of processes without a pid.
    TrackDescriptorProcessMissingPid = 318, "track_descriptor_process_missing_pid", Single, Error, Analysis, OfMachine;
    /// Events of programs in packets of no sequence.
    TrackEventMissingSequenceId = 319, "track_event_missing_sequence_id", Single, Error, Analysis, OfMachine;
    /// Events of programs without a time.
    TrackEventMissingTimestamp = 320, "track_event_missing_timestamp", Single, Error, Analysis, OfMachine;
    /// Events of programs with a time that cannot be.
    TrackEventInvalidTimestamp = 321, "track_event_invalid_timestamp", Single, Error, Analysis, OfMachine;
    /// Samples of Chrome with a time that cannot be.
    StreamingProfileInvalidTimestamp = 322, "streaming_profile_invalid_timestamp", Single, Error, Analysis, OfMachine;
    /// Descriptions of threads in packets of no sequence.
    ThreadDescriptorMissingSequenceId = 323, "thread_descriptor_missing_sequence_id", Single, Error, Analysis, OfMachine;
    /// Packets of no sequence that say what is interned was cleared.
    IncrementalStateClearedMissingSequenceId = 324, "incremental_state_cleared_missing_sequence_id", Single, Error, Analysis, OfMachine;
    /// Packets of no sequence that say others before them are missing.
    PreviousPacketDroppedMissingSequenceId = 325, "previous_packet_dropped_missing_sequence_id", Single, Error, Analysis, OfMachine;
    /// Defaults in packets of no sequence.
    TracePacketDefaultsMissingSequenceId = 326, "trace_packet_defaults_missing_sequence_id", Single, Error, Analysis, OfMachine;
    /// Interned data in packets of no sequence.
    InternedDataMissingSequenceId = 327, "interned_data_missing_sequence_id", Single, Error, Analysis, OfMachine;
    /// Tracks that lie below themselves; their events are left out.
    TrackEventTrackHierarchyLoop = 328, "track_event_track_hierarchy_loop", Single, Error, Analysis, OfMachine;
    /// Tracks below too many others; their events are left out.
    TrackEventTrackHierarchyTooDeep = 329, "track_event_track_hierarchy_too_deep", Single, Error, Analysis, OfMachine;
    /// Descriptions that put the default track below another.
    TrackDescriptorDefaultTrackWithParent = 330, "track_descriptor_default_track_with_parent", Single, Error, Analysis, OfMachine;
    /// Descriptions of one track that contradict each other; the first one counts.
    TrackDescriptorConflictingReservation = 331, "track_descriptor_conflicting_reservation", Single, Error, Analysis, OfMachine;
    /// A range of interest without its begin.
    TrackEventRangeOfInterestMissingStartUs = 332, "track_event_range_of_interest_missing_start_us", Single, Error, Analysis, OfMachine;
    /// Descriptions of tracks with an unknown order of what is below.
    TrackDescriptorInvalidChildOrdering = 333, "track_descriptor_invalid_child_ordering", Single, Error, Analysis, OfMachine;
    /// Values of counters that do not say of which.
    TrackEventCounterMissingTrackUuid = 334, "track_event_counter_missing_track_uuid", Single, Error, Analysis, OfMachine;
    /// Events of counters without a value.
    TrackEventCounterMissingValue = 335, "track_event_counter_missing_value", Single, Error, Analysis, OfMachine;
    /// Values of counters on a track that is none.
    TrackEventCounterInvalidTrackUuid = 336, "track_event_counter_invalid_track_uuid", Single, Error, Analysis, OfMachine;
    /// Further values of events without the tracks that they belong to.
    TrackEventExtraCounterMissingTrackUuids = 337, "track_event_extra_counter_missing_track_uuids", Single, Error, Analysis, OfMachine;
    /// Changes of states that do not say of which.
    TrackEventStateMissingTrackUuid = 338, "track_event_state_missing_track_uuid", Single, Error, Analysis, OfMachine;
    /// Further values of events that are more than their tracks.
    TrackEventExtraCounterTrackUuidMismatch = 339, "track_event_extra_counter_track_uuid_mismatch", Single, Error, Analysis, OfMachine;
    /// Further values of events above how many an event may have.
    TrackEventExtraCounterExceedsMax = 340, "track_event_extra_counter_exceeds_max", Single, Error, Analysis, OfMachine;
    /// Further values of events on a track that is no counter's.
    TrackEventExtraCounterInvalidTrack = 341, "track_event_extra_counter_invalid_track", Single, Error, Analysis, OfMachine;
    /// Descriptions of threads that came when what they rely on was lost.
    ThreadDescriptorSkippedIncrementalStateInvalid = 342, "thread_descriptor_skipped_incremental_state_invalid", Single, Notice, Analysis, OfMachine;
    /// Events that say how much later they are than what was lost.
    TrackEventSkippedTimestampDeltaWithoutValidState = 343, "track_event_skipped_timestamp_delta_without_valid_state", Single, Notice, Analysis, OfMachine;
    /// Events that say how much more time their thread had than in what was lost.
    TrackEventSkippedThreadTimeDeltaWithoutValidState = 344, "track_event_skipped_thread_time_delta_without_valid_state", Single, Notice, Analysis, OfMachine;
    /// Events that say how many more instructions their thread did than in what was lost.
    TrackEventSkippedThreadInstructionDeltaWithoutValidState = 345, "track_event_skipped_thread_instruction_delta_without_valid_state", Single, Notice, Analysis, OfMachine;
    /// Packets that rely on what their sequence had interned before something of it was lost.
    PacketSkippedSeqNeedsIncrementalStateInvalid = 346, "packet_skipped_seq_needs_incremental_state_invalid", Single, Notice, Analysis, OfMachine;
    /// Interned data that came when what it belongs to was lost.
    InternedDataSkippedIncrementalStateInvalid = 347, "interned_data_skipped_incremental_state_invalid", Single, Notice, Analysis, OfMachine;
    /// Heap graphs without an end.
    HeapGraphNonFinalizedGraph = 348, "heap_graph_non_finalized_graph", Single, DataLoss, Trace, OfAll;
    /// Patches of a ProtoVM that could not be applied.
    ProtovmAbort = 355, "protovm_abort", Single, Error, Analysis, OfMachine;
    /// ProtoVMs that the trace describes and that could not be set up.
    ProtovmRegistrationError = 356, "protovm_registration_error", Single, Error, Analysis, OfMachine;
    /// Descriptions of messages, given when reading, that cannot be read.
    ExtraParsingDescriptorsError = 357, "extra_parsing_descriptors_error", Single, Error, Analysis, OfAll;
    /// Ours: packets that rely on what was lost and were kept, by sequence.
    PacketsKeptAfterLoss = 10_000, "ferretto_packets_kept_after_loss", Indexed, DataLoss, Analysis, OfMachine;
}
