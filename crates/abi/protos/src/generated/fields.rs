// Generated from the .proto files by tests/generated.rs; do not edit.
/// Field numbers of `CommitDataRequest`.
pub mod commit_data_request {
    /// `CommitDataRequest.chunks_to_move`.
    pub const CHUNKS_TO_MOVE: u32 = 1;
    /// `CommitDataRequest.chunks_to_patch`.
    pub const CHUNKS_TO_PATCH: u32 = 2;
    /// `CommitDataRequest.flush_request_id`.
    pub const FLUSH_REQUEST_ID: u32 = 3;
    /// Field numbers of `ChunksToMove`.
    pub mod chunks_to_move {
        /// `ChunksToMove.page`.
        pub const PAGE: u32 = 1;
        /// `ChunksToMove.chunk`.
        pub const CHUNK: u32 = 2;
        /// `ChunksToMove.target_buffer`.
        pub const TARGET_BUFFER: u32 = 3;
        /// `ChunksToMove.data`.
        pub const DATA: u32 = 4;
        /// `ChunksToMove.chunk_incomplete`.
        pub const CHUNK_INCOMPLETE: u32 = 5;
    }
    /// Field numbers of `ChunkToPatch`.
    pub mod chunk_to_patch {
        /// `ChunkToPatch.target_buffer`.
        pub const TARGET_BUFFER: u32 = 1;
        /// `ChunkToPatch.writer_id`.
        pub const WRITER_ID: u32 = 2;
        /// `ChunkToPatch.chunk_id`.
        pub const CHUNK_ID: u32 = 3;
        /// `ChunkToPatch.patches`.
        pub const PATCHES: u32 = 4;
        /// `ChunkToPatch.has_more_patches`.
        pub const HAS_MORE_PATCHES: u32 = 5;
        /// Field numbers of `Patch`.
        pub mod patch {
            /// `Patch.offset`.
            pub const OFFSET: u32 = 1;
            /// `Patch.data`.
            pub const DATA: u32 = 2;
        }
    }
}
/// Field numbers of `FtraceDescriptor`.
pub mod ftrace_descriptor {
    /// `FtraceDescriptor.atrace_categories`.
    pub const ATRACE_CATEGORIES: u32 = 1;
    /// Field numbers of `AtraceCategory`.
    pub mod atrace_category {
        /// `AtraceCategory.name`.
        pub const NAME: u32 = 1;
        /// `AtraceCategory.description`.
        pub const DESCRIPTION: u32 = 2;
    }
}
/// Field numbers of `GpuCounterDescriptor`.
pub mod gpu_counter_descriptor {
    /// `GpuCounterDescriptor.specs`.
    pub const SPECS: u32 = 1;
    /// `GpuCounterDescriptor.blocks`.
    pub const BLOCKS: u32 = 2;
    /// `GpuCounterDescriptor.counter_groups`.
    pub const COUNTER_GROUPS: u32 = 6;
    /// `GpuCounterDescriptor.min_sampling_period_ns`.
    pub const MIN_SAMPLING_PERIOD_NS: u32 = 3;
    /// `GpuCounterDescriptor.max_sampling_period_ns`.
    pub const MAX_SAMPLING_PERIOD_NS: u32 = 4;
    /// `GpuCounterDescriptor.supports_instrumented_sampling`.
    pub const SUPPORTS_INSTRUMENTED_SAMPLING: u32 = 5;
    /// `GpuCounterDescriptor.supports_counter_names`.
    pub const SUPPORTS_COUNTER_NAMES: u32 = 7;
    /// `GpuCounterDescriptor.supports_counter_name_globs`.
    pub const SUPPORTS_COUNTER_NAME_GLOBS: u32 = 8;
    /// Field numbers of `GpuCounterSpec`.
    pub mod gpu_counter_spec {
        /// `GpuCounterSpec.counter_id`.
        pub const COUNTER_ID: u32 = 1;
        /// `GpuCounterSpec.name`.
        pub const NAME: u32 = 2;
        /// `GpuCounterSpec.description`.
        pub const DESCRIPTION: u32 = 3;
        /// `GpuCounterSpec.int_peak_value`.
        pub const INT_PEAK_VALUE: u32 = 5;
        /// `GpuCounterSpec.double_peak_value`.
        pub const DOUBLE_PEAK_VALUE: u32 = 6;
        /// `GpuCounterSpec.numerator_units`.
        pub const NUMERATOR_UNITS: u32 = 7;
        /// `GpuCounterSpec.denominator_units`.
        pub const DENOMINATOR_UNITS: u32 = 8;
        /// `GpuCounterSpec.select_by_default`.
        pub const SELECT_BY_DEFAULT: u32 = 9;
        /// `GpuCounterSpec.groups`.
        pub const GROUPS: u32 = 10;
        /// `GpuCounterSpec.value_direction`.
        pub const VALUE_DIRECTION: u32 = 11;
    }
    /// Field numbers of `GpuCounterBlock`.
    pub mod gpu_counter_block {
        /// `GpuCounterBlock.block_id`.
        pub const BLOCK_ID: u32 = 1;
        /// `GpuCounterBlock.block_capacity`.
        pub const BLOCK_CAPACITY: u32 = 2;
        /// `GpuCounterBlock.name`.
        pub const NAME: u32 = 3;
        /// `GpuCounterBlock.description`.
        pub const DESCRIPTION: u32 = 4;
        /// `GpuCounterBlock.counter_ids`.
        pub const COUNTER_IDS: u32 = 5;
    }
    /// Field numbers of `GpuCounterGroupSpec`.
    pub mod gpu_counter_group_spec {
        /// `GpuCounterGroupSpec.group_id`.
        pub const GROUP_ID: u32 = 1;
        /// `GpuCounterGroupSpec.name`.
        pub const NAME: u32 = 2;
        /// `GpuCounterGroupSpec.description`.
        pub const DESCRIPTION: u32 = 3;
        /// `GpuCounterGroupSpec.counter_ids`.
        pub const COUNTER_IDS: u32 = 4;
    }
}
/// Field numbers of `TrackEventCategory`.
pub mod track_event_category {
    /// `TrackEventCategory.name`.
    pub const NAME: u32 = 1;
    /// `TrackEventCategory.description`.
    pub const DESCRIPTION: u32 = 2;
    /// `TrackEventCategory.tags`.
    pub const TAGS: u32 = 3;
}
/// Field numbers of `TrackEventDescriptor`.
pub mod track_event_descriptor {
    /// `TrackEventDescriptor.available_categories`.
    pub const AVAILABLE_CATEGORIES: u32 = 1;
}
/// Field numbers of `VmProgram`.
pub mod vm_program {
    /// `VmProgram.version`.
    pub const VERSION: u32 = 1;
    /// `VmProgram.instructions`.
    pub const INSTRUCTIONS: u32 = 2;
}
/// Field numbers of `VmInstruction`.
pub mod vm_instruction {
    /// `VmInstruction.select`.
    pub const SELECT: u32 = 1;
    /// `VmInstruction.reg_load`.
    pub const REG_LOAD: u32 = 2;
    /// `VmInstruction.merge`.
    pub const MERGE: u32 = 3;
    /// `VmInstruction.set`.
    pub const SET: u32 = 4;
    /// `VmInstruction.del`.
    pub const DEL: u32 = 5;
    /// `VmInstruction.abort_level`.
    pub const ABORT_LEVEL: u32 = 6;
    /// `VmInstruction.nested_instructions`.
    pub const NESTED_INSTRUCTIONS: u32 = 7;
}
/// Field numbers of `VmOpSelect`.
pub mod vm_op_select {
    /// `VmOpSelect.cursor`.
    pub const CURSOR: u32 = 1;
    /// `VmOpSelect.relative_path`.
    pub const RELATIVE_PATH: u32 = 2;
    /// `VmOpSelect.create_if_not_exist`.
    pub const CREATE_IF_NOT_EXIST: u32 = 3;
    /// Field numbers of `PathComponent`.
    pub mod path_component {
        /// `PathComponent.field_id`.
        pub const FIELD_ID: u32 = 1;
        /// `PathComponent.array_index`.
        pub const ARRAY_INDEX: u32 = 2;
        /// `PathComponent.map_key_field_id`.
        pub const MAP_KEY_FIELD_ID: u32 = 3;
        /// `PathComponent.is_repeated`.
        pub const IS_REPEATED: u32 = 5;
        /// `PathComponent.register_to_match`.
        pub const REGISTER_TO_MATCH: u32 = 6;
        /// `PathComponent.store_foreach_index_into_register`.
        pub const STORE_FOREACH_INDEX_INTO_REGISTER: u32 = 7;
    }
}
/// Field numbers of `VmOpRegLoad`.
pub mod vm_op_reg_load {
    /// `VmOpRegLoad.cursor`.
    pub const CURSOR: u32 = 1;
    /// `VmOpRegLoad.dst_register`.
    pub const DST_REGISTER: u32 = 2;
}
/// Field numbers of `VmOpMerge`.
pub mod vm_op_merge {
    /// `VmOpMerge.skip_submessages`.
    pub const SKIP_SUBMESSAGES: u32 = 1;
    /// `VmOpMerge.del_if_src_empty`.
    pub const DEL_IF_SRC_EMPTY: u32 = 2;
}
/// Field numbers of `DataSourceDescriptor`.
pub mod data_source_descriptor {
    /// `DataSourceDescriptor.name`.
    pub const NAME: u32 = 1;
    /// `DataSourceDescriptor.id`.
    pub const ID: u32 = 7;
    /// `DataSourceDescriptor.will_notify_on_stop`.
    pub const WILL_NOTIFY_ON_STOP: u32 = 2;
    /// `DataSourceDescriptor.will_notify_on_start`.
    pub const WILL_NOTIFY_ON_START: u32 = 3;
    /// `DataSourceDescriptor.handles_incremental_state_clear`.
    pub const HANDLES_INCREMENTAL_STATE_CLEAR: u32 = 4;
    /// `DataSourceDescriptor.no_flush`.
    pub const NO_FLUSH: u32 = 9;
    /// `DataSourceDescriptor.protovm_program`.
    pub const PROTOVM_PROGRAM: u32 = 10;
    /// `DataSourceDescriptor.gpu_counter_descriptor`.
    pub const GPU_COUNTER_DESCRIPTOR: u32 = 5;
    /// `DataSourceDescriptor.track_event_descriptor`.
    pub const TRACK_EVENT_DESCRIPTOR: u32 = 6;
    /// `DataSourceDescriptor.ftrace_descriptor`.
    pub const FTRACE_DESCRIPTOR: u32 = 8;
}
/// Field numbers of `ObservableEvents`.
pub mod observable_events {
    /// `ObservableEvents.instance_state_changes`.
    pub const INSTANCE_STATE_CHANGES: u32 = 1;
    /// `ObservableEvents.all_data_sources_started`.
    pub const ALL_DATA_SOURCES_STARTED: u32 = 2;
    /// `ObservableEvents.clone_trigger_hit`.
    pub const CLONE_TRIGGER_HIT: u32 = 3;
    /// Field numbers of `DataSourceInstanceStateChange`.
    pub mod data_source_instance_state_change {
        /// `DataSourceInstanceStateChange.producer_name`.
        pub const PRODUCER_NAME: u32 = 1;
        /// `DataSourceInstanceStateChange.data_source_name`.
        pub const DATA_SOURCE_NAME: u32 = 2;
        /// `DataSourceInstanceStateChange.state`.
        pub const STATE: u32 = 3;
    }
    /// Field numbers of `CloneTriggerHit`.
    pub mod clone_trigger_hit {
        /// `CloneTriggerHit.tracing_session_id`.
        pub const TRACING_SESSION_ID: u32 = 1;
        /// `CloneTriggerHit.trigger_name`.
        pub const TRIGGER_NAME: u32 = 2;
        /// `CloneTriggerHit.producer_name`.
        pub const PRODUCER_NAME: u32 = 3;
        /// `CloneTriggerHit.producer_uid`.
        pub const PRODUCER_UID: u32 = 4;
        /// `CloneTriggerHit.boot_time_ns`.
        pub const BOOT_TIME_NS: u32 = 5;
        /// `CloneTriggerHit.trigger_delay_ms`.
        pub const TRIGGER_DELAY_MS: u32 = 6;
    }
}
/// Field numbers of `PerfEvents`.
pub mod perf_events {
    /// Field numbers of `Timebase`.
    pub mod timebase {
        /// `Timebase.frequency`.
        pub const FREQUENCY: u32 = 2;
        /// `Timebase.period`.
        pub const PERIOD: u32 = 1;
        /// `Timebase.poll_period_ms`.
        pub const POLL_PERIOD_MS: u32 = 6;
        /// `Timebase.counter`.
        pub const COUNTER: u32 = 4;
        /// `Timebase.tracepoint`.
        pub const TRACEPOINT: u32 = 3;
        /// `Timebase.raw_event`.
        pub const RAW_EVENT: u32 = 5;
        /// `Timebase.modifiers`.
        pub const MODIFIERS: u32 = 12;
        /// `Timebase.timestamp_clock`.
        pub const TIMESTAMP_CLOCK: u32 = 11;
        /// `Timebase.name`.
        pub const NAME: u32 = 10;
    }
    /// Field numbers of `Tracepoint`.
    pub mod tracepoint {
        /// `Tracepoint.name`.
        pub const NAME: u32 = 1;
        /// `Tracepoint.filter`.
        pub const FILTER: u32 = 2;
    }
    /// Field numbers of `RawEvent`.
    pub mod raw_event {
        /// `RawEvent.type`.
        pub const TYPE: u32 = 1;
        /// `RawEvent.config`.
        pub const CONFIG: u32 = 2;
        /// `RawEvent.config1`.
        pub const CONFIG1: u32 = 3;
        /// `RawEvent.config2`.
        pub const CONFIG2: u32 = 4;
        /// `RawEvent.pmu_name`.
        pub const PMU_NAME: u32 = 5;
    }
}
/// Field numbers of `FollowerEvent`.
pub mod follower_event {
    /// `FollowerEvent.counter`.
    pub const COUNTER: u32 = 1;
    /// `FollowerEvent.tracepoint`.
    pub const TRACEPOINT: u32 = 2;
    /// `FollowerEvent.raw_event`.
    pub const RAW_EVENT: u32 = 3;
    /// `FollowerEvent.modifiers`.
    pub const MODIFIERS: u32 = 5;
    /// `FollowerEvent.name`.
    pub const NAME: u32 = 4;
}
/// Field numbers of `Utsname`.
pub mod utsname {
    /// `Utsname.sysname`.
    pub const SYSNAME: u32 = 1;
    /// `Utsname.version`.
    pub const VERSION: u32 = 2;
    /// `Utsname.release`.
    pub const RELEASE: u32 = 3;
    /// `Utsname.machine`.
    pub const MACHINE: u32 = 4;
}
/// Field numbers of `SystemInfo`.
pub mod system_info {
    /// `SystemInfo.utsname`.
    pub const UTSNAME: u32 = 1;
    /// `SystemInfo.android_build_fingerprint`.
    pub const ANDROID_BUILD_FINGERPRINT: u32 = 2;
    /// `SystemInfo.android_device_manufacturer`.
    pub const ANDROID_DEVICE_MANUFACTURER: u32 = 14;
    /// `SystemInfo.android_soc_model`.
    pub const ANDROID_SOC_MODEL: u32 = 9;
    /// `SystemInfo.device_tree_compatibles`.
    pub const DEVICE_TREE_COMPATIBLES: u32 = 18;
    /// `SystemInfo.android_guest_soc_model`.
    pub const ANDROID_GUEST_SOC_MODEL: u32 = 13;
    /// `SystemInfo.android_hardware_revision`.
    pub const ANDROID_HARDWARE_REVISION: u32 = 10;
    /// `SystemInfo.android_storage_model`.
    pub const ANDROID_STORAGE_MODEL: u32 = 11;
    /// `SystemInfo.android_ram_model`.
    pub const ANDROID_RAM_MODEL: u32 = 12;
    /// `SystemInfo.android_serial_console`.
    pub const ANDROID_SERIAL_CONSOLE: u32 = 15;
    /// `SystemInfo.tracing_service_version`.
    pub const TRACING_SERVICE_VERSION: u32 = 4;
    /// `SystemInfo.android_sdk_version`.
    pub const ANDROID_SDK_VERSION: u32 = 5;
    /// `SystemInfo.page_size`.
    pub const PAGE_SIZE: u32 = 6;
    /// `SystemInfo.num_cpus`.
    pub const NUM_CPUS: u32 = 8;
    /// `SystemInfo.timezone_off_mins`.
    pub const TIMEZONE_OFF_MINS: u32 = 7;
    /// `SystemInfo.hz`.
    pub const HZ: u32 = 3;
    /// `SystemInfo.system_ram_bytes`.
    pub const SYSTEM_RAM_BYTES: u32 = 16;
    /// `SystemInfo.machine_name`.
    pub const MACHINE_NAME: u32 = 17;
}
/// Field numbers of `TraceAttributes`.
pub mod trace_attributes {
    /// `TraceAttributes.attribute`.
    pub const ATTRIBUTE: u32 = 1;
    /// Field numbers of `Attribute`.
    pub mod attribute {
        /// `Attribute.key`.
        pub const KEY: u32 = 1;
        /// `Attribute.long_value`.
        pub const LONG_VALUE: u32 = 2;
        /// `Attribute.string_value`.
        pub const STRING_VALUE: u32 = 3;
    }
}
/// Field numbers of `TraceStats`.
pub mod trace_stats {
    /// `TraceStats.buffer_stats`.
    pub const BUFFER_STATS: u32 = 1;
    /// `TraceStats.chunk_payload_histogram_def`.
    pub const CHUNK_PAYLOAD_HISTOGRAM_DEF: u32 = 17;
    /// `TraceStats.writer_stats`.
    pub const WRITER_STATS: u32 = 18;
    /// `TraceStats.producers_connected`.
    pub const PRODUCERS_CONNECTED: u32 = 2;
    /// `TraceStats.producers_seen`.
    pub const PRODUCERS_SEEN: u32 = 3;
    /// `TraceStats.data_sources_registered`.
    pub const DATA_SOURCES_REGISTERED: u32 = 4;
    /// `TraceStats.data_sources_seen`.
    pub const DATA_SOURCES_SEEN: u32 = 5;
    /// `TraceStats.tracing_sessions`.
    pub const TRACING_SESSIONS: u32 = 6;
    /// `TraceStats.total_buffers`.
    pub const TOTAL_BUFFERS: u32 = 7;
    /// `TraceStats.chunks_discarded`.
    pub const CHUNKS_DISCARDED: u32 = 8;
    /// `TraceStats.patches_discarded`.
    pub const PATCHES_DISCARDED: u32 = 9;
    /// `TraceStats.invalid_packets`.
    pub const INVALID_PACKETS: u32 = 10;
    /// `TraceStats.filter_stats`.
    pub const FILTER_STATS: u32 = 11;
    /// `TraceStats.flushes_requested`.
    pub const FLUSHES_REQUESTED: u32 = 12;
    /// `TraceStats.flushes_succeeded`.
    pub const FLUSHES_SUCCEEDED: u32 = 13;
    /// `TraceStats.flushes_failed`.
    pub const FLUSHES_FAILED: u32 = 14;
    /// `TraceStats.final_flush_outcome`.
    pub const FINAL_FLUSH_OUTCOME: u32 = 15;
    /// `TraceStats.losses`.
    pub const LOSSES: u32 = 5000;
    /// Field numbers of `BufferStats`.
    pub mod buffer_stats {
        /// `BufferStats.buffer_size`.
        pub const BUFFER_SIZE: u32 = 12;
        /// `BufferStats.bytes_written`.
        pub const BYTES_WRITTEN: u32 = 1;
        /// `BufferStats.bytes_overwritten`.
        pub const BYTES_OVERWRITTEN: u32 = 13;
        /// `BufferStats.bytes_read`.
        pub const BYTES_READ: u32 = 14;
        /// `BufferStats.padding_bytes_written`.
        pub const PADDING_BYTES_WRITTEN: u32 = 15;
        /// `BufferStats.padding_bytes_cleared`.
        pub const PADDING_BYTES_CLEARED: u32 = 16;
        /// `BufferStats.chunks_written`.
        pub const CHUNKS_WRITTEN: u32 = 2;
        /// `BufferStats.chunks_rewritten`.
        pub const CHUNKS_REWRITTEN: u32 = 10;
        /// `BufferStats.chunks_relocated`.
        pub const CHUNKS_RELOCATED: u32 = 20;
        /// `BufferStats.chunks_overwritten`.
        pub const CHUNKS_OVERWRITTEN: u32 = 3;
        /// `BufferStats.chunks_discarded`.
        pub const CHUNKS_DISCARDED: u32 = 18;
        /// `BufferStats.chunks_read`.
        pub const CHUNKS_READ: u32 = 17;
        /// `BufferStats.chunks_committed_out_of_order`.
        pub const CHUNKS_COMMITTED_OUT_OF_ORDER: u32 = 11;
        /// `BufferStats.write_wrap_count`.
        pub const WRITE_WRAP_COUNT: u32 = 4;
        /// `BufferStats.compactions`.
        pub const COMPACTIONS: u32 = 23;
        /// `BufferStats.compactions_skipped`.
        pub const COMPACTIONS_SKIPPED: u32 = 24;
        /// `BufferStats.patches_succeeded`.
        pub const PATCHES_SUCCEEDED: u32 = 5;
        /// `BufferStats.patches_failed`.
        pub const PATCHES_FAILED: u32 = 6;
        /// `BufferStats.readaheads_succeeded`.
        pub const READAHEADS_SUCCEEDED: u32 = 7;
        /// `BufferStats.readaheads_failed`.
        pub const READAHEADS_FAILED: u32 = 8;
        /// `BufferStats.abi_violations`.
        pub const ABI_VIOLATIONS: u32 = 9;
        /// `BufferStats.trace_writer_packet_loss`.
        pub const TRACE_WRITER_PACKET_LOSS: u32 = 19;
        /// `BufferStats.oversized_packets_dropped`.
        pub const OVERSIZED_PACKETS_DROPPED: u32 = 22;
        /// `BufferStats.sequence_states_lost`.
        pub const SEQUENCE_STATES_LOST: u32 = 9100;
        /// `BufferStats.track_descriptors_dropped`.
        pub const TRACK_DESCRIPTORS_DROPPED: u32 = 9101;
        /// `BufferStats.chunks_discarded_without_loss`.
        pub const CHUNKS_DISCARDED_WITHOUT_LOSS: u32 = 9102;
    }
    /// Field numbers of `WriterStats`.
    pub mod writer_stats {
        /// `WriterStats.sequence_id`.
        pub const SEQUENCE_ID: u32 = 1;
        /// `WriterStats.buffer`.
        pub const BUFFER: u32 = 4;
        /// `WriterStats.chunk_payload_histogram_counts`.
        pub const CHUNK_PAYLOAD_HISTOGRAM_COUNTS: u32 = 2;
        /// `WriterStats.chunk_payload_histogram_sum`.
        pub const CHUNK_PAYLOAD_HISTOGRAM_SUM: u32 = 3;
    }
    /// Field numbers of `FilterStats`.
    pub mod filter_stats {
        /// `FilterStats.input_packets`.
        pub const INPUT_PACKETS: u32 = 1;
        /// `FilterStats.input_bytes`.
        pub const INPUT_BYTES: u32 = 2;
        /// `FilterStats.output_bytes`.
        pub const OUTPUT_BYTES: u32 = 3;
        /// `FilterStats.errors`.
        pub const ERRORS: u32 = 4;
        /// `FilterStats.time_taken_ns`.
        pub const TIME_TAKEN_NS: u32 = 5;
        /// `FilterStats.bytes_discarded_per_buffer`.
        pub const BYTES_DISCARDED_PER_BUFFER: u32 = 20;
    }
    /// Field numbers of `Losses`.
    pub mod losses {
        /// `Losses.buffers`.
        pub const BUFFERS: u32 = 1;
        /// `Losses.file_is_full`.
        pub const FILE_IS_FULL: u32 = 2;
        /// `Losses.slow_to_start`.
        pub const SLOW_TO_START: u32 = 3;
        /// `Losses.slow_to_stop`.
        pub const SLOW_TO_STOP: u32 = 4;
        /// `Losses.slow_to_flush`.
        pub const SLOW_TO_FLUSH: u32 = 5;
        /// `Losses.refused`.
        pub const REFUSED: u32 = 6;
        /// `Losses.producers_refused`.
        pub const PRODUCERS_REFUSED: u32 = 7;
        /// `Losses.sources_left_out`.
        pub const SOURCES_LEFT_OUT: u32 = 8;
        /// `Losses.producers_without_memory`.
        pub const PRODUCERS_WITHOUT_MEMORY: u32 = 9;
        /// `Losses.producers_out_of_writers`.
        pub const PRODUCERS_OUT_OF_WRITERS: u32 = 10;
        /// `Losses.sources`.
        pub const SOURCES: u32 = 11;
        /// `Losses.chunks_discarded`.
        pub const CHUNKS_DISCARDED: u32 = 12;
        /// `Losses.patches_discarded`.
        pub const PATCHES_DISCARDED: u32 = 13;
        /// `Losses.unseen_ends`.
        pub const UNSEEN_ENDS: u32 = 14;
        /// `Losses.large_packets`.
        pub const LARGE_PACKETS: u32 = 15;
        /// Field numbers of `Buffer`.
        pub mod buffer {
            /// `Buffer.unread_chunks`.
            pub const UNREAD_CHUNKS: u32 = 1;
            /// `Buffer.unread_bytes`.
            pub const UNREAD_BYTES: u32 = 2;
            /// `Buffer.unpatched_chunks`.
            pub const UNPATCHED_CHUNKS: u32 = 3;
            /// `Buffer.protovm_packets`.
            pub const PROTOVM_PACKETS: u32 = 4;
            /// `Buffer.protovms_off`.
            pub const PROTOVMS_OFF: u32 = 5;
        }
        /// Field numbers of `Refused`.
        pub mod refused {
            /// `Refused.producer_name`.
            pub const PRODUCER_NAME: u32 = 1;
            /// `Refused.pid`.
            pub const PID: u32 = 2;
            /// `Refused.uid`.
            pub const UID: u32 = 3;
            /// `Refused.reason`.
            pub const REASON: u32 = 4;
        }
        /// Field numbers of `Source`.
        pub mod source {
            /// `Source.name`.
            pub const NAME: u32 = 1;
            /// `Source.producers`.
            pub const PRODUCERS: u32 = 2;
        }
    }
}
/// Field numbers of `TracingServiceCapabilities`.
pub mod tracing_service_capabilities {
    /// `TracingServiceCapabilities.has_query_capabilities`.
    pub const HAS_QUERY_CAPABILITIES: u32 = 1;
    /// `TracingServiceCapabilities.observable_events`.
    pub const OBSERVABLE_EVENTS: u32 = 2;
    /// `TracingServiceCapabilities.has_trace_config_output_path`.
    pub const HAS_TRACE_CONFIG_OUTPUT_PATH: u32 = 3;
    /// `TracingServiceCapabilities.has_clone_session`.
    pub const HAS_CLONE_SESSION: u32 = 4;
}
/// Field numbers of `TracingServiceState`.
pub mod tracing_service_state {
    /// `TracingServiceState.producers`.
    pub const PRODUCERS: u32 = 1;
    /// `TracingServiceState.data_sources`.
    pub const DATA_SOURCES: u32 = 2;
    /// `TracingServiceState.tracing_sessions`.
    pub const TRACING_SESSIONS: u32 = 6;
    /// `TracingServiceState.supports_tracing_sessions`.
    pub const SUPPORTS_TRACING_SESSIONS: u32 = 7;
    /// `TracingServiceState.num_sessions`.
    pub const NUM_SESSIONS: u32 = 3;
    /// `TracingServiceState.num_sessions_started`.
    pub const NUM_SESSIONS_STARTED: u32 = 4;
    /// `TracingServiceState.tracing_service_version`.
    pub const TRACING_SERVICE_VERSION: u32 = 5;
    /// Field numbers of `Producer`.
    pub mod producer {
        /// `Producer.id`.
        pub const ID: u32 = 1;
        /// `Producer.name`.
        pub const NAME: u32 = 2;
        /// `Producer.pid`.
        pub const PID: u32 = 5;
        /// `Producer.uid`.
        pub const UID: u32 = 3;
        /// `Producer.sdk_version`.
        pub const SDK_VERSION: u32 = 4;
        /// `Producer.frozen`.
        pub const FROZEN: u32 = 6;
        /// `Producer.machine_id`.
        pub const MACHINE_ID: u32 = 7;
        /// `Producer.machine_name`.
        pub const MACHINE_NAME: u32 = 8;
    }
    /// Field numbers of `DataSource`.
    pub mod data_source {
        /// `DataSource.ds_descriptor`.
        pub const DS_DESCRIPTOR: u32 = 1;
        /// `DataSource.producer_id`.
        pub const PRODUCER_ID: u32 = 2;
    }
    /// Field numbers of `TracingSession`.
    pub mod tracing_session {
        /// `TracingSession.id`.
        pub const ID: u32 = 1;
        /// `TracingSession.consumer_uid`.
        pub const CONSUMER_UID: u32 = 2;
        /// `TracingSession.state`.
        pub const STATE: u32 = 3;
        /// `TracingSession.unique_session_name`.
        pub const UNIQUE_SESSION_NAME: u32 = 4;
        /// `TracingSession.buffer_size_kb`.
        pub const BUFFER_SIZE_KB: u32 = 5;
        /// `TracingSession.duration_ms`.
        pub const DURATION_MS: u32 = 6;
        /// `TracingSession.num_data_sources`.
        pub const NUM_DATA_SOURCES: u32 = 7;
        /// `TracingSession.start_realtime_ns`.
        pub const START_REALTIME_NS: u32 = 8;
        /// `TracingSession.bugreport_score`.
        pub const BUGREPORT_SCORE: u32 = 9;
        /// `TracingSession.bugreport_filename`.
        pub const BUGREPORT_FILENAME: u32 = 10;
        /// `TracingSession.is_started`.
        pub const IS_STARTED: u32 = 11;
    }
}
/// Field numbers of `AndroidAflagsConfig`.
pub mod android_aflags_config {
    /// `AndroidAflagsConfig.poll_ms`.
    pub const POLL_MS: u32 = 1;
}
/// Field numbers of `AndroidGameInterventionListConfig`.
pub mod android_game_intervention_list_config {
    /// `AndroidGameInterventionListConfig.package_name_filter`.
    pub const PACKAGE_NAME_FILTER: u32 = 1;
}
/// Field numbers of `AndroidInputEventConfig`.
pub mod android_input_event_config {
    /// `AndroidInputEventConfig.mode`.
    pub const MODE: u32 = 1;
    /// `AndroidInputEventConfig.rules`.
    pub const RULES: u32 = 2;
    /// `AndroidInputEventConfig.trace_dispatcher_input_events`.
    pub const TRACE_DISPATCHER_INPUT_EVENTS: u32 = 3;
    /// `AndroidInputEventConfig.trace_dispatcher_window_dispatch`.
    pub const TRACE_DISPATCHER_WINDOW_DISPATCH: u32 = 4;
    /// `AndroidInputEventConfig.trace_evdev_events`.
    pub const TRACE_EVDEV_EVENTS: u32 = 5;
    /// Field numbers of `TraceRule`.
    pub mod trace_rule {
        /// `TraceRule.trace_level`.
        pub const TRACE_LEVEL: u32 = 1;
        /// `TraceRule.match_all_packages`.
        pub const MATCH_ALL_PACKAGES: u32 = 2;
        /// `TraceRule.match_any_packages`.
        pub const MATCH_ANY_PACKAGES: u32 = 3;
        /// `TraceRule.match_secure`.
        pub const MATCH_SECURE: u32 = 4;
        /// `TraceRule.match_ime_connection_active`.
        pub const MATCH_IME_CONNECTION_ACTIVE: u32 = 5;
    }
}
/// Field numbers of `AndroidLogConfig`.
pub mod android_log_config {
    /// `AndroidLogConfig.log_ids`.
    pub const LOG_IDS: u32 = 1;
    /// `AndroidLogConfig.min_prio`.
    pub const MIN_PRIO: u32 = 3;
    /// `AndroidLogConfig.filter_tags`.
    pub const FILTER_TAGS: u32 = 4;
    /// `AndroidLogConfig.preserve_log_buffer`.
    pub const PRESERVE_LOG_BUFFER: u32 = 5;
}
/// Field numbers of `AndroidPolledStateConfig`.
pub mod android_polled_state_config {
    /// `AndroidPolledStateConfig.poll_ms`.
    pub const POLL_MS: u32 = 1;
}
/// Field numbers of `AndroidProcessStateConfig`.
pub mod android_process_state_config {
    /// `AndroidProcessStateConfig.dump_process_metadata`.
    pub const DUMP_PROCESS_METADATA: u32 = 1;
}
/// Field numbers of `AndroidSdkSyspropGuardConfig`.
pub mod android_sdk_sysprop_guard_config {
    /// `AndroidSdkSyspropGuardConfig.surfaceflinger_skia_track_events`.
    pub const SURFACEFLINGER_SKIA_TRACK_EVENTS: u32 = 1;
    /// `AndroidSdkSyspropGuardConfig.hwui_skia_track_events`.
    pub const HWUI_SKIA_TRACK_EVENTS: u32 = 2;
    /// `AndroidSdkSyspropGuardConfig.hwui_package_name_filter`.
    pub const HWUI_PACKAGE_NAME_FILTER: u32 = 3;
}
/// Field numbers of `AndroidSystemPropertyConfig`.
pub mod android_system_property_config {
    /// `AndroidSystemPropertyConfig.poll_ms`.
    pub const POLL_MS: u32 = 1;
    /// `AndroidSystemPropertyConfig.property_name`.
    pub const PROPERTY_NAME: u32 = 2;
}
/// Field numbers of `AppWakelocksConfig`.
pub mod app_wakelocks_config {
    /// `AppWakelocksConfig.write_delay_ms`.
    pub const WRITE_DELAY_MS: u32 = 1;
    /// `AppWakelocksConfig.filter_duration_below_ms`.
    pub const FILTER_DURATION_BELOW_MS: u32 = 2;
    /// `AppWakelocksConfig.drop_owner_pid`.
    pub const DROP_OWNER_PID: u32 = 3;
}
/// Field numbers of `CpuPerUidConfig`.
pub mod cpu_per_uid_config {
    /// `CpuPerUidConfig.poll_ms`.
    pub const POLL_MS: u32 = 1;
}
/// Field numbers of `DisplayVideoConfig`.
pub mod display_video_config {
    /// `DisplayVideoConfig.scale`.
    pub const SCALE: u32 = 1;
    /// `DisplayVideoConfig.format`.
    pub const FORMAT: u32 = 2;
    /// `DisplayVideoConfig.key_frame_interval_secs`.
    pub const KEY_FRAME_INTERVAL_SECS: u32 = 3;
    /// `DisplayVideoConfig.max_stream_size_bytes`.
    pub const MAX_STREAM_SIZE_BYTES: u32 = 4;
    /// `DisplayVideoConfig.bitrate_bps`.
    pub const BITRATE_BPS: u32 = 5;
}
/// Field numbers of `InputMethodConfig`.
pub mod input_method_config {
    /// `InputMethodConfig.client`.
    pub const CLIENT: u32 = 1;
    /// `InputMethodConfig.service`.
    pub const SERVICE: u32 = 2;
    /// `InputMethodConfig.manager_service`.
    pub const MANAGER_SERVICE: u32 = 3;
}
/// Field numbers of `KernelWakelocksConfig`.
pub mod kernel_wakelocks_config {
    /// `KernelWakelocksConfig.poll_ms`.
    pub const POLL_MS: u32 = 1;
}
/// Field numbers of `NetworkPacketTraceConfig`.
pub mod network_packet_trace_config {
    /// `NetworkPacketTraceConfig.poll_ms`.
    pub const POLL_MS: u32 = 1;
    /// `NetworkPacketTraceConfig.aggregation_threshold`.
    pub const AGGREGATION_THRESHOLD: u32 = 2;
    /// `NetworkPacketTraceConfig.intern_limit`.
    pub const INTERN_LIMIT: u32 = 3;
    /// `NetworkPacketTraceConfig.drop_local_port`.
    pub const DROP_LOCAL_PORT: u32 = 4;
    /// `NetworkPacketTraceConfig.drop_remote_port`.
    pub const DROP_REMOTE_PORT: u32 = 5;
    /// `NetworkPacketTraceConfig.drop_tcp_flags`.
    pub const DROP_TCP_FLAGS: u32 = 6;
}
/// Field numbers of `PackagesListConfig`.
pub mod packages_list_config {
    /// `PackagesListConfig.package_name_filter`.
    pub const PACKAGE_NAME_FILTER: u32 = 1;
    /// `PackagesListConfig.package_name_regex_filter`.
    pub const PACKAGE_NAME_REGEX_FILTER: u32 = 3;
    /// `PackagesListConfig.only_write_on_cpu_use_every_ms`.
    pub const ONLY_WRITE_ON_CPU_USE_EVERY_MS: u32 = 2;
}
/// Field numbers of `PixelModemConfig`.
pub mod pixel_modem_config {
    /// `PixelModemConfig.event_group`.
    pub const EVENT_GROUP: u32 = 1;
    /// `PixelModemConfig.pigweed_hash_allow_list`.
    pub const PIGWEED_HASH_ALLOW_LIST: u32 = 2;
    /// `PixelModemConfig.pigweed_hash_deny_list`.
    pub const PIGWEED_HASH_DENY_LIST: u32 = 3;
}
/// Field numbers of `ProtoLogConfig`.
pub mod proto_log_config {
    /// `ProtoLogConfig.group_overrides`.
    pub const GROUP_OVERRIDES: u32 = 1;
    /// `ProtoLogConfig.tracing_mode`.
    pub const TRACING_MODE: u32 = 2;
    /// `ProtoLogConfig.default_log_from_level`.
    pub const DEFAULT_LOG_FROM_LEVEL: u32 = 3;
}
/// Field numbers of `ProtoLogGroup`.
pub mod proto_log_group {
    /// `ProtoLogGroup.group_name`.
    pub const GROUP_NAME: u32 = 1;
    /// `ProtoLogGroup.log_from`.
    pub const LOG_FROM: u32 = 2;
    /// `ProtoLogGroup.collect_stacktrace`.
    pub const COLLECT_STACKTRACE: u32 = 3;
}
/// Field numbers of `SurfaceFlingerLayersConfig`.
pub mod surface_flinger_layers_config {
    /// `SurfaceFlingerLayersConfig.mode`.
    pub const MODE: u32 = 1;
    /// `SurfaceFlingerLayersConfig.trace_flags`.
    pub const TRACE_FLAGS: u32 = 2;
}
/// Field numbers of `SurfaceFlingerTransactionsConfig`.
pub mod surface_flinger_transactions_config {
    /// `SurfaceFlingerTransactionsConfig.mode`.
    pub const MODE: u32 = 1;
}
/// Field numbers of `AndroidUserListConfig`.
pub mod android_user_list_config {
    /// `AndroidUserListConfig.user_type_filter`.
    pub const USER_TYPE_FILTER: u32 = 1;
}
/// Field numbers of `WindowManagerConfig`.
pub mod window_manager_config {
    /// `WindowManagerConfig.log_frequency`.
    pub const LOG_FREQUENCY: u32 = 1;
    /// `WindowManagerConfig.log_level`.
    pub const LOG_LEVEL: u32 = 2;
    /// `WindowManagerConfig.log_mode`.
    pub const LOG_MODE: u32 = 3;
}
/// Field numbers of `ChromeConfig`.
pub mod chrome_config {
    /// `ChromeConfig.trace_config`.
    pub const TRACE_CONFIG: u32 = 1;
    /// `ChromeConfig.privacy_filtering_enabled`.
    pub const PRIVACY_FILTERING_ENABLED: u32 = 2;
    /// `ChromeConfig.convert_to_legacy_json`.
    pub const CONVERT_TO_LEGACY_JSON: u32 = 3;
    /// `ChromeConfig.client_priority`.
    pub const CLIENT_PRIORITY: u32 = 4;
    /// `ChromeConfig.json_agent_label_filter`.
    pub const JSON_AGENT_LABEL_FILTER: u32 = 5;
    /// `ChromeConfig.event_package_name_filter_enabled`.
    pub const EVENT_PACKAGE_NAME_FILTER_ENABLED: u32 = 6;
}
/// Field numbers of `ChromiumHistogramSamplesConfig`.
pub mod chromium_histogram_samples_config {
    /// `ChromiumHistogramSamplesConfig.histograms`.
    pub const HISTOGRAMS: u32 = 1;
    /// `ChromiumHistogramSamplesConfig.filter_histogram_names`.
    pub const FILTER_HISTOGRAM_NAMES: u32 = 2;
    /// Field numbers of `HistogramSample`.
    pub mod histogram_sample {
        /// `HistogramSample.histogram_name`.
        pub const HISTOGRAM_NAME: u32 = 1;
        /// `HistogramSample.min_value`.
        pub const MIN_VALUE: u32 = 2;
        /// `HistogramSample.max_value`.
        pub const MAX_VALUE: u32 = 3;
    }
}
/// Field numbers of `ChromiumSamplingHeapProfilerConfig`.
pub mod chromium_sampling_heap_profiler_config {
    /// `ChromiumSamplingHeapProfilerConfig.sampling_interval_bytes`.
    pub const SAMPLING_INTERVAL_BYTES: u32 = 1;
    /// `ChromiumSamplingHeapProfilerConfig.sampling_interval_ms`.
    pub const SAMPLING_INTERVAL_MS: u32 = 2;
}
/// Field numbers of `ChromiumStackSamplingProfilerConfig`.
pub mod chromium_stack_sampling_profiler_config {
    /// `ChromiumStackSamplingProfilerConfig.sampling_interval_ms`.
    pub const SAMPLING_INTERVAL_MS: u32 = 1;
}
/// Field numbers of `ChromiumSystemMetricsConfig`.
pub mod chromium_system_metrics_config {
    /// `ChromiumSystemMetricsConfig.sampling_interval_ms`.
    pub const SAMPLING_INTERVAL_MS: u32 = 1;
}
/// Field numbers of `V8Config`.
pub mod v8_config {
    /// `V8Config.log_script_sources`.
    pub const LOG_SCRIPT_SOURCES: u32 = 1;
    /// `V8Config.log_instructions`.
    pub const LOG_INSTRUCTIONS: u32 = 2;
}
/// Field numbers of `EtwConfig`.
pub mod etw_config {
    /// `EtwConfig.kernel_flags`.
    pub const KERNEL_FLAGS: u32 = 1;
    /// `EtwConfig.scheduler_provider_events`.
    pub const SCHEDULER_PROVIDER_EVENTS: u32 = 2;
    /// `EtwConfig.memory_provider_events`.
    pub const MEMORY_PROVIDER_EVENTS: u32 = 3;
    /// `EtwConfig.file_provider_events`.
    pub const FILE_PROVIDER_EVENTS: u32 = 4;
    /// `EtwConfig.stack_sampling_events`.
    pub const STACK_SAMPLING_EVENTS: u32 = 5;
    /// `EtwConfig.disk_provider_events`.
    pub const DISK_PROVIDER_EVENTS: u32 = 6;
    /// `EtwConfig.system_io_provider_events`.
    pub const SYSTEM_IO_PROVIDER_EVENTS: u32 = 7;
    /// `EtwConfig.stack_sampling_debug_ids`.
    pub const STACK_SAMPLING_DEBUG_IDS: u32 = 8;
    /// Field numbers of `DebugId`.
    pub mod debug_id {
        /// `DebugId.path`.
        pub const PATH: u32 = 1;
        /// `DebugId.debug_id`.
        pub const DEBUG_ID: u32 = 2;
    }
}
/// Field numbers of `FrozenFtraceConfig`.
pub mod frozen_ftrace_config {
    /// `FrozenFtraceConfig.instance_name`.
    pub const INSTANCE_NAME: u32 = 1;
}
/// Field numbers of `FtraceConfig`.
pub mod ftrace_config {
    /// `FtraceConfig.ftrace_events`.
    pub const FTRACE_EVENTS: u32 = 1;
    /// `FtraceConfig.atrace_categories`.
    pub const ATRACE_CATEGORIES: u32 = 2;
    /// `FtraceConfig.atrace_apps`.
    pub const ATRACE_APPS: u32 = 3;
    /// `FtraceConfig.atrace_categories_prefer_sdk`.
    pub const ATRACE_CATEGORIES_PREFER_SDK: u32 = 28;
    /// `FtraceConfig.atrace_userspace_only`.
    pub const ATRACE_USERSPACE_ONLY: u32 = 34;
    /// `FtraceConfig.buffer_size_kb`.
    pub const BUFFER_SIZE_KB: u32 = 10;
    /// `FtraceConfig.buffer_size_lower_bound`.
    pub const BUFFER_SIZE_LOWER_BOUND: u32 = 27;
    /// `FtraceConfig.drain_period_ms`.
    pub const DRAIN_PERIOD_MS: u32 = 11;
    /// `FtraceConfig.drain_buffer_percent`.
    pub const DRAIN_BUFFER_PERCENT: u32 = 29;
    /// `FtraceConfig.compact_sched`.
    pub const COMPACT_SCHED: u32 = 12;
    /// `FtraceConfig.print_filter`.
    pub const PRINT_FILTER: u32 = 22;
    /// `FtraceConfig.symbolize_ksyms`.
    pub const SYMBOLIZE_KSYMS: u32 = 13;
    /// `FtraceConfig.ksyms_mem_policy`.
    pub const KSYMS_MEM_POLICY: u32 = 17;
    /// `FtraceConfig.throttle_rss_stat`.
    pub const THROTTLE_RSS_STAT: u32 = 15;
    /// `FtraceConfig.denser_generic_event_encoding`.
    pub const DENSER_GENERIC_EVENT_ENCODING: u32 = 32;
    /// `FtraceConfig.disable_generic_events`.
    pub const DISABLE_GENERIC_EVENTS: u32 = 16;
    /// `FtraceConfig.syscall_events`.
    pub const SYSCALL_EVENTS: u32 = 18;
    /// `FtraceConfig.enable_function_graph`.
    pub const ENABLE_FUNCTION_GRAPH: u32 = 19;
    /// `FtraceConfig.function_filters`.
    pub const FUNCTION_FILTERS: u32 = 20;
    /// `FtraceConfig.function_graph_roots`.
    pub const FUNCTION_GRAPH_ROOTS: u32 = 21;
    /// `FtraceConfig.function_graph_max_depth`.
    pub const FUNCTION_GRAPH_MAX_DEPTH: u32 = 33;
    /// `FtraceConfig.kprobe_events`.
    pub const KPROBE_EVENTS: u32 = 30;
    /// `FtraceConfig.preserve_ftrace_buffer`.
    pub const PRESERVE_FTRACE_BUFFER: u32 = 23;
    /// `FtraceConfig.use_monotonic_raw_clock`.
    pub const USE_MONOTONIC_RAW_CLOCK: u32 = 24;
    /// `FtraceConfig.instance_name`.
    pub const INSTANCE_NAME: u32 = 25;
    /// `FtraceConfig.debug_ftrace_abi`.
    pub const DEBUG_FTRACE_ABI: u32 = 31;
    /// `FtraceConfig.tids_to_trace`.
    pub const TIDS_TO_TRACE: u32 = 35;
    /// `FtraceConfig.tracefs_options`.
    pub const TRACEFS_OPTIONS: u32 = 36;
    /// `FtraceConfig.tracing_cpumask`.
    pub const TRACING_CPUMASK: u32 = 37;
    /// `FtraceConfig.initialize_ksyms_synchronously_for_testing`.
    pub const INITIALIZE_KSYMS_SYNCHRONOUSLY_FOR_TESTING: u32 = 14;
    /// Field numbers of `CompactSchedConfig`.
    pub mod compact_sched_config {
        /// `CompactSchedConfig.enabled`.
        pub const ENABLED: u32 = 1;
    }
    /// Field numbers of `PrintFilter`.
    pub mod print_filter {
        /// `PrintFilter.rules`.
        pub const RULES: u32 = 1;
        /// Field numbers of `Rule`.
        pub mod rule {
            /// `Rule.prefix`.
            pub const PREFIX: u32 = 1;
            /// `Rule.atrace_msg`.
            pub const ATRACE_MSG: u32 = 3;
            /// `Rule.allow`.
            pub const ALLOW: u32 = 2;
            /// Field numbers of `AtraceMessage`.
            pub mod atrace_message {
                /// `AtraceMessage.type`.
                pub const TYPE: u32 = 1;
                /// `AtraceMessage.prefix`.
                pub const PREFIX: u32 = 2;
            }
        }
    }
    /// Field numbers of `KprobeEvent`.
    pub mod kprobe_event {
        /// `KprobeEvent.probe`.
        pub const PROBE: u32 = 1;
        /// `KprobeEvent.type`.
        pub const TYPE: u32 = 2;
    }
    /// Field numbers of `TracefsOption`.
    pub mod tracefs_option {
        /// `TracefsOption.name`.
        pub const NAME: u32 = 1;
        /// `TracefsOption.state`.
        pub const STATE: u32 = 2;
    }
}
/// Field numbers of `GpuCounterConfig`.
pub mod gpu_counter_config {
    /// `GpuCounterConfig.counter_period_ns`.
    pub const COUNTER_PERIOD_NS: u32 = 1;
    /// `GpuCounterConfig.counter_ids`.
    pub const COUNTER_IDS: u32 = 2;
    /// `GpuCounterConfig.counter_names`.
    pub const COUNTER_NAMES: u32 = 6;
    /// `GpuCounterConfig.instrumented_sampling`.
    pub const INSTRUMENTED_SAMPLING: u32 = 3;
    /// `GpuCounterConfig.instrumented_sampling_config`.
    pub const INSTRUMENTED_SAMPLING_CONFIG: u32 = 5;
    /// `GpuCounterConfig.fix_gpu_clock`.
    pub const FIX_GPU_CLOCK: u32 = 4;
    /// Field numbers of `InstrumentedSamplingConfig`.
    pub mod instrumented_sampling_config {
        /// `InstrumentedSamplingConfig.activity_name_filters`.
        pub const ACTIVITY_NAME_FILTERS: u32 = 3;
        /// `InstrumentedSamplingConfig.activity_tx_include_globs`.
        pub const ACTIVITY_TX_INCLUDE_GLOBS: u32 = 6;
        /// `InstrumentedSamplingConfig.activity_tx_exclude_globs`.
        pub const ACTIVITY_TX_EXCLUDE_GLOBS: u32 = 7;
        /// `InstrumentedSamplingConfig.activity_ranges`.
        pub const ACTIVITY_RANGES: u32 = 5;
        /// Field numbers of `ActivityNameFilter`.
        pub mod activity_name_filter {
            /// `ActivityNameFilter.name_glob`.
            pub const NAME_GLOB: u32 = 1;
            /// `ActivityNameFilter.name_base`.
            pub const NAME_BASE: u32 = 2;
        }
        /// Field numbers of `ActivityRange`.
        pub mod activity_range {
            /// `ActivityRange.skip`.
            pub const SKIP: u32 = 1;
            /// `ActivityRange.count`.
            pub const COUNT: u32 = 2;
        }
    }
}
/// Field numbers of `GpuRenderStagesConfig`.
pub mod gpu_render_stages_config {
    /// `GpuRenderStagesConfig.full_loadstore`.
    pub const FULL_LOADSTORE: u32 = 1;
    /// `GpuRenderStagesConfig.low_overhead`.
    pub const LOW_OVERHEAD: u32 = 2;
    /// `GpuRenderStagesConfig.trace_metrics`.
    pub const TRACE_METRICS: u32 = 3;
    /// `GpuRenderStagesConfig.drawcall_stages`.
    pub const DRAWCALL_STAGES: u32 = 4;
}
/// Field numbers of `VulkanMemoryConfig`.
pub mod vulkan_memory_config {
    /// `VulkanMemoryConfig.track_driver_memory_usage`.
    pub const TRACK_DRIVER_MEMORY_USAGE: u32 = 1;
    /// `VulkanMemoryConfig.track_device_memory_usage`.
    pub const TRACK_DEVICE_MEMORY_USAGE: u32 = 2;
}
/// Field numbers of `InodeFileConfig`.
pub mod inode_file_config {
    /// `InodeFileConfig.scan_interval_ms`.
    pub const SCAN_INTERVAL_MS: u32 = 1;
    /// `InodeFileConfig.scan_delay_ms`.
    pub const SCAN_DELAY_MS: u32 = 2;
    /// `InodeFileConfig.scan_batch_size`.
    pub const SCAN_BATCH_SIZE: u32 = 3;
    /// `InodeFileConfig.do_not_scan`.
    pub const DO_NOT_SCAN: u32 = 4;
    /// `InodeFileConfig.scan_mount_points`.
    pub const SCAN_MOUNT_POINTS: u32 = 5;
    /// `InodeFileConfig.mount_point_mapping`.
    pub const MOUNT_POINT_MAPPING: u32 = 6;
    /// Field numbers of `MountPointMappingEntry`.
    pub mod mount_point_mapping_entry {
        /// `MountPointMappingEntry.mountpoint`.
        pub const MOUNTPOINT: u32 = 1;
        /// `MountPointMappingEntry.scan_roots`.
        pub const SCAN_ROOTS: u32 = 2;
    }
}
/// Field numbers of `ConsoleConfig`.
pub mod console_config {
    /// `ConsoleConfig.output`.
    pub const OUTPUT: u32 = 1;
    /// `ConsoleConfig.enable_colors`.
    pub const ENABLE_COLORS: u32 = 2;
}
/// Field numbers of `InterceptorConfig`.
pub mod interceptor_config {
    /// `InterceptorConfig.name`.
    pub const NAME: u32 = 1;
    /// `InterceptorConfig.console_config`.
    pub const CONSOLE_CONFIG: u32 = 100;
}
/// Field numbers of `SystemdJournaldConfig`.
pub mod systemd_journald_config {
    /// `SystemdJournaldConfig.min_prio`.
    pub const MIN_PRIO: u32 = 1;
    /// `SystemdJournaldConfig.filter_identifiers`.
    pub const FILTER_IDENTIFIERS: u32 = 2;
    /// `SystemdJournaldConfig.filter_units`.
    pub const FILTER_UNITS: u32 = 3;
}
/// Field numbers of `AndroidPowerConfig`.
pub mod android_power_config {
    /// `AndroidPowerConfig.battery_poll_ms`.
    pub const BATTERY_POLL_MS: u32 = 1;
    /// `AndroidPowerConfig.battery_counters`.
    pub const BATTERY_COUNTERS: u32 = 2;
    /// `AndroidPowerConfig.collect_power_rails`.
    pub const COLLECT_POWER_RAILS: u32 = 3;
    /// `AndroidPowerConfig.collect_energy_estimation_breakdown`.
    pub const COLLECT_ENERGY_ESTIMATION_BREAKDOWN: u32 = 4;
    /// `AndroidPowerConfig.collect_entity_state_residency`.
    pub const COLLECT_ENTITY_STATE_RESIDENCY: u32 = 5;
}
/// Field numbers of `PriorityBoostConfig`.
pub mod priority_boost_config {
    /// `PriorityBoostConfig.policy`.
    pub const POLICY: u32 = 1;
    /// `PriorityBoostConfig.priority`.
    pub const PRIORITY: u32 = 2;
}
/// Field numbers of `ProcessStatsConfig`.
pub mod process_stats_config {
    /// `ProcessStatsConfig.quirks`.
    pub const QUIRKS: u32 = 1;
    /// `ProcessStatsConfig.scan_all_processes_on_start`.
    pub const SCAN_ALL_PROCESSES_ON_START: u32 = 2;
    /// `ProcessStatsConfig.record_thread_names`.
    pub const RECORD_THREAD_NAMES: u32 = 3;
    /// `ProcessStatsConfig.proc_stats_poll_ms`.
    pub const PROC_STATS_POLL_MS: u32 = 4;
    /// `ProcessStatsConfig.proc_stats_cache_ttl_ms`.
    pub const PROC_STATS_CACHE_TTL_MS: u32 = 6;
    /// `ProcessStatsConfig.scan_smaps_rollup`.
    pub const SCAN_SMAPS_ROLLUP: u32 = 10;
    /// `ProcessStatsConfig.record_process_age`.
    pub const RECORD_PROCESS_AGE: u32 = 11;
    /// `ProcessStatsConfig.record_process_runtime`.
    pub const RECORD_PROCESS_RUNTIME: u32 = 12;
    /// `ProcessStatsConfig.record_process_dmabuf_rss`.
    pub const RECORD_PROCESS_DMABUF_RSS: u32 = 13;
    /// `ProcessStatsConfig.resolve_process_fds`.
    pub const RESOLVE_PROCESS_FDS: u32 = 9;
    /// `ProcessStatsConfig.skip_main_thread_message`.
    pub const SKIP_MAIN_THREAD_MESSAGE: u32 = 14;
}
/// Field numbers of `HeapprofdConfig`.
pub mod heapprofd_config {
    /// `HeapprofdConfig.sampling_interval_bytes`.
    pub const SAMPLING_INTERVAL_BYTES: u32 = 1;
    /// `HeapprofdConfig.adaptive_sampling_shmem_threshold`.
    pub const ADAPTIVE_SAMPLING_SHMEM_THRESHOLD: u32 = 24;
    /// `HeapprofdConfig.adaptive_sampling_max_sampling_interval_bytes`.
    pub const ADAPTIVE_SAMPLING_MAX_SAMPLING_INTERVAL_BYTES: u32 = 25;
    /// `HeapprofdConfig.process_cmdline`.
    pub const PROCESS_CMDLINE: u32 = 2;
    /// `HeapprofdConfig.pid`.
    pub const PID: u32 = 4;
    /// `HeapprofdConfig.target_installed_by`.
    pub const TARGET_INSTALLED_BY: u32 = 26;
    /// `HeapprofdConfig.heaps`.
    pub const HEAPS: u32 = 20;
    /// `HeapprofdConfig.exclude_heaps`.
    pub const EXCLUDE_HEAPS: u32 = 27;
    /// `HeapprofdConfig.stream_allocations`.
    pub const STREAM_ALLOCATIONS: u32 = 23;
    /// `HeapprofdConfig.heap_sampling_intervals`.
    pub const HEAP_SAMPLING_INTERVALS: u32 = 22;
    /// `HeapprofdConfig.all_heaps`.
    pub const ALL_HEAPS: u32 = 21;
    /// `HeapprofdConfig.all`.
    pub const ALL: u32 = 5;
    /// `HeapprofdConfig.min_anonymous_memory_kb`.
    pub const MIN_ANONYMOUS_MEMORY_KB: u32 = 15;
    /// `HeapprofdConfig.max_heapprofd_memory_kb`.
    pub const MAX_HEAPPROFD_MEMORY_KB: u32 = 16;
    /// `HeapprofdConfig.max_heapprofd_cpu_secs`.
    pub const MAX_HEAPPROFD_CPU_SECS: u32 = 17;
    /// `HeapprofdConfig.skip_symbol_prefix`.
    pub const SKIP_SYMBOL_PREFIX: u32 = 7;
    /// `HeapprofdConfig.continuous_dump_config`.
    pub const CONTINUOUS_DUMP_CONFIG: u32 = 6;
    /// `HeapprofdConfig.shmem_size_bytes`.
    pub const SHMEM_SIZE_BYTES: u32 = 8;
    /// `HeapprofdConfig.block_client`.
    pub const BLOCK_CLIENT: u32 = 9;
    /// `HeapprofdConfig.block_client_timeout_us`.
    pub const BLOCK_CLIENT_TIMEOUT_US: u32 = 14;
    /// `HeapprofdConfig.no_startup`.
    pub const NO_STARTUP: u32 = 10;
    /// `HeapprofdConfig.no_running`.
    pub const NO_RUNNING: u32 = 11;
    /// `HeapprofdConfig.dump_at_max`.
    pub const DUMP_AT_MAX: u32 = 13;
    /// `HeapprofdConfig.disable_fork_teardown`.
    pub const DISABLE_FORK_TEARDOWN: u32 = 18;
    /// `HeapprofdConfig.disable_vfork_detection`.
    pub const DISABLE_VFORK_DETECTION: u32 = 19;
    /// Field numbers of `ContinuousDumpConfig`.
    pub mod continuous_dump_config {
        /// `ContinuousDumpConfig.dump_phase_ms`.
        pub const DUMP_PHASE_MS: u32 = 5;
        /// `ContinuousDumpConfig.dump_interval_ms`.
        pub const DUMP_INTERVAL_MS: u32 = 6;
    }
}
/// Field numbers of `SmapsConfig`.
pub mod smaps_config {
    /// `SmapsConfig.vma_fields`.
    pub const VMA_FIELDS: u32 = 1;
    /// `SmapsConfig.unaggregated`.
    pub const UNAGGREGATED: u32 = 2;
    /// `SmapsConfig.name_redaction_rules`.
    pub const NAME_REDACTION_RULES: u32 = 3;
}
/// Field numbers of `RedactionRule`.
pub mod redaction_rule {
    /// `RedactionRule.pattern`.
    pub const PATTERN: u32 = 1;
    /// `RedactionRule.match_mode`.
    pub const MATCH_MODE: u32 = 2;
    /// `RedactionRule.keep_full`.
    pub const KEEP_FULL: u32 = 3;
    /// `RedactionRule.replacement_name`.
    pub const REPLACEMENT_NAME: u32 = 4;
    /// `RedactionRule.keep_file_extension`.
    pub const KEEP_FILE_EXTENSION: u32 = 5;
    /// `RedactionRule.keep_path_elements`.
    pub const KEEP_PATH_ELEMENTS: u32 = 6;
}
/// Field numbers of `JavaHprofConfig`.
pub mod java_hprof_config {
    /// `JavaHprofConfig.process_cmdline`.
    pub const PROCESS_CMDLINE: u32 = 1;
    /// `JavaHprofConfig.pid`.
    pub const PID: u32 = 2;
    /// `JavaHprofConfig.target_installed_by`.
    pub const TARGET_INSTALLED_BY: u32 = 7;
    /// `JavaHprofConfig.continuous_dump_config`.
    pub const CONTINUOUS_DUMP_CONFIG: u32 = 3;
    /// `JavaHprofConfig.min_anonymous_memory_kb`.
    pub const MIN_ANONYMOUS_MEMORY_KB: u32 = 4;
    /// `JavaHprofConfig.min_java_heap_size_kb`.
    pub const MIN_JAVA_HEAP_SIZE_KB: u32 = 9;
    /// `JavaHprofConfig.dump_smaps`.
    pub const DUMP_SMAPS: u32 = 5;
    /// `JavaHprofConfig.smaps_config`.
    pub const SMAPS_CONFIG: u32 = 8;
    /// `JavaHprofConfig.ignored_types`.
    pub const IGNORED_TYPES: u32 = 6;
    /// `JavaHprofConfig.dump_oome_callstack`.
    pub const DUMP_OOME_CALLSTACK: u32 = 10;
    /// Field numbers of `ContinuousDumpConfig`.
    pub mod continuous_dump_config {
        /// `ContinuousDumpConfig.dump_phase_ms`.
        pub const DUMP_PHASE_MS: u32 = 1;
        /// `ContinuousDumpConfig.dump_interval_ms`.
        pub const DUMP_INTERVAL_MS: u32 = 2;
        /// `ContinuousDumpConfig.scan_pids_only_on_start`.
        pub const SCAN_PIDS_ONLY_ON_START: u32 = 3;
    }
}
/// Field numbers of `PerfEventConfig`.
pub mod perf_event_config {
    /// `PerfEventConfig.timebase`.
    pub const TIMEBASE: u32 = 15;
    /// `PerfEventConfig.followers`.
    pub const FOLLOWERS: u32 = 19;
    /// `PerfEventConfig.callstack_sampling`.
    pub const CALLSTACK_SAMPLING: u32 = 16;
    /// `PerfEventConfig.target_cpu`.
    pub const TARGET_CPU: u32 = 20;
    /// `PerfEventConfig.ignore_open_failure`.
    pub const IGNORE_OPEN_FAILURE: u32 = 21;
    /// `PerfEventConfig.cpuid`.
    pub const CPUID: u32 = 22;
    /// `PerfEventConfig.ring_buffer_read_period_ms`.
    pub const RING_BUFFER_READ_PERIOD_MS: u32 = 8;
    /// `PerfEventConfig.ring_buffer_pages`.
    pub const RING_BUFFER_PAGES: u32 = 3;
    /// `PerfEventConfig.max_enqueued_footprint_kb`.
    pub const MAX_ENQUEUED_FOOTPRINT_KB: u32 = 17;
    /// `PerfEventConfig.max_daemon_memory_kb`.
    pub const MAX_DAEMON_MEMORY_KB: u32 = 13;
    /// `PerfEventConfig.remote_descriptor_timeout_ms`.
    pub const REMOTE_DESCRIPTOR_TIMEOUT_MS: u32 = 9;
    /// `PerfEventConfig.unwind_state_clear_period_ms`.
    pub const UNWIND_STATE_CLEAR_PERIOD_MS: u32 = 10;
    /// `PerfEventConfig.target_installed_by`.
    pub const TARGET_INSTALLED_BY: u32 = 18;
    /// `PerfEventConfig.all_cpus`.
    pub const ALL_CPUS: u32 = 1;
    /// `PerfEventConfig.sampling_frequency`.
    pub const SAMPLING_FREQUENCY: u32 = 2;
    /// `PerfEventConfig.kernel_frames`.
    pub const KERNEL_FRAMES: u32 = 12;
    /// `PerfEventConfig.target_pid`.
    pub const TARGET_PID: u32 = 4;
    /// `PerfEventConfig.target_cmdline`.
    pub const TARGET_CMDLINE: u32 = 5;
    /// `PerfEventConfig.exclude_pid`.
    pub const EXCLUDE_PID: u32 = 6;
    /// `PerfEventConfig.exclude_cmdline`.
    pub const EXCLUDE_CMDLINE: u32 = 7;
    /// `PerfEventConfig.additional_cmdline_count`.
    pub const ADDITIONAL_CMDLINE_COUNT: u32 = 11;
    /// Field numbers of `CallstackSampling`.
    pub mod callstack_sampling {
        /// `CallstackSampling.scope`.
        pub const SCOPE: u32 = 1;
        /// `CallstackSampling.kernel_frames`.
        pub const KERNEL_FRAMES: u32 = 2;
        /// `CallstackSampling.user_frames`.
        pub const USER_FRAMES: u32 = 3;
    }
    /// Field numbers of `Scope`.
    pub mod scope {
        /// `Scope.target_pid`.
        pub const TARGET_PID: u32 = 1;
        /// `Scope.target_cmdline`.
        pub const TARGET_CMDLINE: u32 = 2;
        /// `Scope.exclude_pid`.
        pub const EXCLUDE_PID: u32 = 3;
        /// `Scope.exclude_cmdline`.
        pub const EXCLUDE_CMDLINE: u32 = 4;
        /// `Scope.additional_cmdline_count`.
        pub const ADDITIONAL_CMDLINE_COUNT: u32 = 5;
        /// `Scope.process_shard_count`.
        pub const PROCESS_SHARD_COUNT: u32 = 6;
    }
}
/// Field numbers of `ProcessSmapsConfig`.
pub mod process_smaps_config {
    /// `ProcessSmapsConfig.smaps_config`.
    pub const SMAPS_CONFIG: u32 = 1;
    /// `ProcessSmapsConfig.scope`.
    pub const SCOPE: u32 = 2;
    /// `ProcessSmapsConfig.read_period_ms`.
    pub const READ_PERIOD_MS: u32 = 3;
    /// `ProcessSmapsConfig.max_processes_per_period`.
    pub const MAX_PROCESSES_PER_PERIOD: u32 = 4;
    /// Field numbers of `Scope`.
    pub mod scope {
        /// `Scope.target_cmdline`.
        pub const TARGET_CMDLINE: u32 = 1;
        /// `Scope.target_uid`.
        pub const TARGET_UID: u32 = 2;
        /// Field numbers of `UidRange`.
        pub mod uid_range {
            /// `UidRange.min_uid`.
            pub const MIN_UID: u32 = 1;
            /// `UidRange.max_uid`.
            pub const MAX_UID: u32 = 2;
            /// `UidRange.android_match_across_profiles`.
            pub const ANDROID_MATCH_ACROSS_PROFILES: u32 = 3;
        }
    }
}
/// Field numbers of `ProtoVmConfig`.
pub mod proto_vm_config {
    /// `ProtoVmConfig.memory_limit_kb`.
    pub const MEMORY_LIMIT_KB: u32 = 1;
}
/// Field numbers of `QnxConfig`.
pub mod qnx_config {
    /// `QnxConfig.qnx_kernel_buffers`.
    pub const QNX_KERNEL_BUFFERS: u32 = 1;
    /// `QnxConfig.qnx_kernel_kbuffers`.
    pub const QNX_KERNEL_KBUFFERS: u32 = 2;
    /// `QnxConfig.qnx_kernel_wide_events`.
    pub const QNX_KERNEL_WIDE_EVENTS: u32 = 3;
    /// `QnxConfig.qnx_cache_pages`.
    pub const QNX_CACHE_PAGES: u32 = 4;
    /// `QnxConfig.qnx_cache_max_pages`.
    pub const QNX_CACHE_MAX_PAGES: u32 = 5;
    /// `QnxConfig.qnx_trace_buffer_init_bytes`.
    pub const QNX_TRACE_BUFFER_INIT_BYTES: u32 = 6;
}
/// Field numbers of `StatsdTracingConfig`.
pub mod statsd_tracing_config {
    /// `StatsdTracingConfig.push_atom_id`.
    pub const PUSH_ATOM_ID: u32 = 1;
    /// `StatsdTracingConfig.raw_push_atom_id`.
    pub const RAW_PUSH_ATOM_ID: u32 = 2;
    /// `StatsdTracingConfig.pull_config`.
    pub const PULL_CONFIG: u32 = 3;
}
/// Field numbers of `StatsdPullAtomConfig`.
pub mod statsd_pull_atom_config {
    /// `StatsdPullAtomConfig.pull_atom_id`.
    pub const PULL_ATOM_ID: u32 = 1;
    /// `StatsdPullAtomConfig.raw_pull_atom_id`.
    pub const RAW_PULL_ATOM_ID: u32 = 2;
    /// `StatsdPullAtomConfig.pull_frequency_ms`.
    pub const PULL_FREQUENCY_MS: u32 = 3;
    /// `StatsdPullAtomConfig.packages`.
    pub const PACKAGES: u32 = 4;
}
/// Field numbers of `SysStatsConfig`.
pub mod sys_stats_config {
    /// `SysStatsConfig.meminfo_period_ms`.
    pub const MEMINFO_PERIOD_MS: u32 = 1;
    /// `SysStatsConfig.meminfo_counters`.
    pub const MEMINFO_COUNTERS: u32 = 2;
    /// `SysStatsConfig.vmstat_period_ms`.
    pub const VMSTAT_PERIOD_MS: u32 = 3;
    /// `SysStatsConfig.vmstat_counters`.
    pub const VMSTAT_COUNTERS: u32 = 4;
    /// `SysStatsConfig.stat_period_ms`.
    pub const STAT_PERIOD_MS: u32 = 5;
    /// `SysStatsConfig.stat_counters`.
    pub const STAT_COUNTERS: u32 = 6;
    /// `SysStatsConfig.devfreq_period_ms`.
    pub const DEVFREQ_PERIOD_MS: u32 = 7;
    /// `SysStatsConfig.cpufreq_period_ms`.
    pub const CPUFREQ_PERIOD_MS: u32 = 8;
    /// `SysStatsConfig.buddyinfo_period_ms`.
    pub const BUDDYINFO_PERIOD_MS: u32 = 9;
    /// `SysStatsConfig.diskstat_period_ms`.
    pub const DISKSTAT_PERIOD_MS: u32 = 10;
    /// `SysStatsConfig.psi_period_ms`.
    pub const PSI_PERIOD_MS: u32 = 11;
    /// `SysStatsConfig.thermal_period_ms`.
    pub const THERMAL_PERIOD_MS: u32 = 12;
    /// `SysStatsConfig.cpuidle_period_ms`.
    pub const CPUIDLE_PERIOD_MS: u32 = 13;
    /// `SysStatsConfig.gpufreq_period_ms`.
    pub const GPUFREQ_PERIOD_MS: u32 = 14;
    /// `SysStatsConfig.slab_period_ms`.
    pub const SLAB_PERIOD_MS: u32 = 15;
}
/// Field numbers of `SystemInfoConfig`.
pub mod system_info_config {
    /// `SystemInfoConfig.irq_names`.
    pub const IRQ_NAMES: u32 = 1;
}
/// Field numbers of `TestConfig`.
pub mod test_config {
    /// `TestConfig.message_count`.
    pub const MESSAGE_COUNT: u32 = 1;
    /// `TestConfig.max_messages_per_second`.
    pub const MAX_MESSAGES_PER_SECOND: u32 = 2;
    /// `TestConfig.seed`.
    pub const SEED: u32 = 3;
    /// `TestConfig.message_size`.
    pub const MESSAGE_SIZE: u32 = 4;
    /// `TestConfig.send_batch_on_register`.
    pub const SEND_BATCH_ON_REGISTER: u32 = 5;
    /// `TestConfig.dummy_fields`.
    pub const DUMMY_FIELDS: u32 = 6;
    /// Field numbers of `DummyFields`.
    pub mod dummy_fields {
        /// `DummyFields.field_uint32`.
        pub const FIELD_UINT32: u32 = 1;
        /// `DummyFields.field_int32`.
        pub const FIELD_INT32: u32 = 2;
        /// `DummyFields.field_uint64`.
        pub const FIELD_UINT64: u32 = 3;
        /// `DummyFields.field_int64`.
        pub const FIELD_INT64: u32 = 4;
        /// `DummyFields.field_fixed64`.
        pub const FIELD_FIXED64: u32 = 5;
        /// `DummyFields.field_sfixed64`.
        pub const FIELD_SFIXED64: u32 = 6;
        /// `DummyFields.field_fixed32`.
        pub const FIELD_FIXED32: u32 = 7;
        /// `DummyFields.field_sfixed32`.
        pub const FIELD_SFIXED32: u32 = 8;
        /// `DummyFields.field_double`.
        pub const FIELD_DOUBLE: u32 = 9;
        /// `DummyFields.field_float`.
        pub const FIELD_FLOAT: u32 = 10;
        /// `DummyFields.field_sint64`.
        pub const FIELD_SINT64: u32 = 11;
        /// `DummyFields.field_sint32`.
        pub const FIELD_SINT32: u32 = 12;
        /// `DummyFields.field_string`.
        pub const FIELD_STRING: u32 = 13;
        /// `DummyFields.field_bytes`.
        pub const FIELD_BYTES: u32 = 14;
    }
}
/// Field numbers of `TrackEventConfig`.
pub mod track_event_config {
    /// `TrackEventConfig.disabled_categories`.
    pub const DISABLED_CATEGORIES: u32 = 1;
    /// `TrackEventConfig.enabled_categories`.
    pub const ENABLED_CATEGORIES: u32 = 2;
    /// `TrackEventConfig.disabled_tags`.
    pub const DISABLED_TAGS: u32 = 3;
    /// `TrackEventConfig.enabled_tags`.
    pub const ENABLED_TAGS: u32 = 4;
    /// `TrackEventConfig.disable_incremental_timestamps`.
    pub const DISABLE_INCREMENTAL_TIMESTAMPS: u32 = 5;
    /// `TrackEventConfig.timestamp_unit_multiplier`.
    pub const TIMESTAMP_UNIT_MULTIPLIER: u32 = 6;
    /// `TrackEventConfig.filter_debug_annotations`.
    pub const FILTER_DEBUG_ANNOTATIONS: u32 = 7;
    /// `TrackEventConfig.enable_thread_time_sampling`.
    pub const ENABLE_THREAD_TIME_SAMPLING: u32 = 8;
    /// `TrackEventConfig.thread_time_subsampling_ns`.
    pub const THREAD_TIME_SUBSAMPLING_NS: u32 = 10;
    /// `TrackEventConfig.filter_dynamic_event_names`.
    pub const FILTER_DYNAMIC_EVENT_NAMES: u32 = 9;
}
/// Field numbers of `DataSourceConfig`.
pub mod data_source_config {
    /// `DataSourceConfig.name`.
    pub const NAME: u32 = 1;
    /// `DataSourceConfig.target_buffer`.
    pub const TARGET_BUFFER: u32 = 2;
    /// `DataSourceConfig.target_buffer_name`.
    pub const TARGET_BUFFER_NAME: u32 = 11;
    /// `DataSourceConfig.trace_duration_ms`.
    pub const TRACE_DURATION_MS: u32 = 3;
    /// `DataSourceConfig.prefer_suspend_clock_for_duration`.
    pub const PREFER_SUSPEND_CLOCK_FOR_DURATION: u32 = 122;
    /// `DataSourceConfig.stop_timeout_ms`.
    pub const STOP_TIMEOUT_MS: u32 = 7;
    /// `DataSourceConfig.enable_extra_guardrails`.
    pub const ENABLE_EXTRA_GUARDRAILS: u32 = 6;
    /// `DataSourceConfig.session_initiator`.
    pub const SESSION_INITIATOR: u32 = 8;
    /// `DataSourceConfig.tracing_session_id`.
    pub const TRACING_SESSION_ID: u32 = 4;
    /// `DataSourceConfig.buffer_exhausted_policy`.
    pub const BUFFER_EXHAUSTED_POLICY: u32 = 9;
    /// `DataSourceConfig.priority_boost`.
    pub const PRIORITY_BOOST: u32 = 10;
    /// `DataSourceConfig.protovm_config`.
    pub const PROTOVM_CONFIG: u32 = 12;
    /// `DataSourceConfig.supports_tracing_v2`.
    pub const SUPPORTS_TRACING_V2: u32 = 147;
    /// `DataSourceConfig.experimental_tracing_v2`.
    pub const EXPERIMENTAL_TRACING_V2: u32 = 148;
    /// `DataSourceConfig.ftrace_config`.
    pub const FTRACE_CONFIG: u32 = 100;
    /// `DataSourceConfig.inode_file_config`.
    pub const INODE_FILE_CONFIG: u32 = 102;
    /// `DataSourceConfig.process_stats_config`.
    pub const PROCESS_STATS_CONFIG: u32 = 103;
    /// `DataSourceConfig.sys_stats_config`.
    pub const SYS_STATS_CONFIG: u32 = 104;
    /// `DataSourceConfig.heapprofd_config`.
    pub const HEAPPROFD_CONFIG: u32 = 105;
    /// `DataSourceConfig.java_hprof_config`.
    pub const JAVA_HPROF_CONFIG: u32 = 110;
    /// `DataSourceConfig.android_power_config`.
    pub const ANDROID_POWER_CONFIG: u32 = 106;
    /// `DataSourceConfig.android_log_config`.
    pub const ANDROID_LOG_CONFIG: u32 = 107;
    /// `DataSourceConfig.gpu_counter_config`.
    pub const GPU_COUNTER_CONFIG: u32 = 108;
    /// `DataSourceConfig.android_game_intervention_list_config`.
    pub const ANDROID_GAME_INTERVENTION_LIST_CONFIG: u32 = 116;
    /// `DataSourceConfig.packages_list_config`.
    pub const PACKAGES_LIST_CONFIG: u32 = 109;
    /// `DataSourceConfig.perf_event_config`.
    pub const PERF_EVENT_CONFIG: u32 = 111;
    /// `DataSourceConfig.vulkan_memory_config`.
    pub const VULKAN_MEMORY_CONFIG: u32 = 112;
    /// `DataSourceConfig.track_event_config`.
    pub const TRACK_EVENT_CONFIG: u32 = 113;
    /// `DataSourceConfig.android_polled_state_config`.
    pub const ANDROID_POLLED_STATE_CONFIG: u32 = 114;
    /// `DataSourceConfig.android_system_property_config`.
    pub const ANDROID_SYSTEM_PROPERTY_CONFIG: u32 = 118;
    /// `DataSourceConfig.statsd_tracing_config`.
    pub const STATSD_TRACING_CONFIG: u32 = 117;
    /// `DataSourceConfig.system_info_config`.
    pub const SYSTEM_INFO_CONFIG: u32 = 119;
    /// `DataSourceConfig.frozen_ftrace_config`.
    pub const FROZEN_FTRACE_CONFIG: u32 = 136;
    /// `DataSourceConfig.chrome_config`.
    pub const CHROME_CONFIG: u32 = 101;
    /// `DataSourceConfig.v8_config`.
    pub const V8_CONFIG: u32 = 127;
    /// `DataSourceConfig.interceptor_config`.
    pub const INTERCEPTOR_CONFIG: u32 = 115;
    /// `DataSourceConfig.network_packet_trace_config`.
    pub const NETWORK_PACKET_TRACE_CONFIG: u32 = 120;
    /// `DataSourceConfig.surfaceflinger_layers_config`.
    pub const SURFACEFLINGER_LAYERS_CONFIG: u32 = 121;
    /// `DataSourceConfig.surfaceflinger_transactions_config`.
    pub const SURFACEFLINGER_TRANSACTIONS_CONFIG: u32 = 123;
    /// `DataSourceConfig.android_sdk_sysprop_guard_config`.
    pub const ANDROID_SDK_SYSPROP_GUARD_CONFIG: u32 = 124;
    /// `DataSourceConfig.etw_config`.
    pub const ETW_CONFIG: u32 = 125;
    /// `DataSourceConfig.protolog_config`.
    pub const PROTOLOG_CONFIG: u32 = 126;
    /// `DataSourceConfig.android_input_event_config`.
    pub const ANDROID_INPUT_EVENT_CONFIG: u32 = 128;
    /// `DataSourceConfig.pixel_modem_config`.
    pub const PIXEL_MODEM_CONFIG: u32 = 129;
    /// `DataSourceConfig.windowmanager_config`.
    pub const WINDOWMANAGER_CONFIG: u32 = 130;
    /// `DataSourceConfig.chromium_system_metrics`.
    pub const CHROMIUM_SYSTEM_METRICS: u32 = 131;
    /// `DataSourceConfig.kernel_wakelocks_config`.
    pub const KERNEL_WAKELOCKS_CONFIG: u32 = 132;
    /// `DataSourceConfig.gpu_renderstages_config`.
    pub const GPU_RENDERSTAGES_CONFIG: u32 = 133;
    /// `DataSourceConfig.chromium_histogram_samples`.
    pub const CHROMIUM_HISTOGRAM_SAMPLES: u32 = 134;
    /// `DataSourceConfig.app_wakelocks_config`.
    pub const APP_WAKELOCKS_CONFIG: u32 = 135;
    /// `DataSourceConfig.cpu_per_uid_config`.
    pub const CPU_PER_UID_CONFIG: u32 = 137;
    /// `DataSourceConfig.user_list_config`.
    pub const USER_LIST_CONFIG: u32 = 138;
    /// `DataSourceConfig.inputmethod_config`.
    pub const INPUTMETHOD_CONFIG: u32 = 139;
    /// `DataSourceConfig.android_aflags_config`.
    pub const ANDROID_AFLAGS_CONFIG: u32 = 140;
    /// `DataSourceConfig.journald_config`.
    pub const JOURNALD_CONFIG: u32 = 141;
    /// `DataSourceConfig.display_video_config`.
    pub const DISPLAY_VIDEO_CONFIG: u32 = 142;
    /// `DataSourceConfig.chromium_stack_sampling_profiler`.
    pub const CHROMIUM_STACK_SAMPLING_PROFILER: u32 = 143;
    /// `DataSourceConfig.chromium_sampling_heap_profiler`.
    pub const CHROMIUM_SAMPLING_HEAP_PROFILER: u32 = 144;
    /// `DataSourceConfig.android_process_state_config`.
    pub const ANDROID_PROCESS_STATE_CONFIG: u32 = 145;
    /// `DataSourceConfig.process_smaps_config`.
    pub const PROCESS_SMAPS_CONFIG: u32 = 146;
    /// `DataSourceConfig.qnx_config`.
    pub const QNX_CONFIG: u32 = 150;
    /// `DataSourceConfig.legacy_config`.
    pub const LEGACY_CONFIG: u32 = 1000;
    /// `DataSourceConfig.for_testing`.
    pub const FOR_TESTING: u32 = 1001;
    /// Field numbers of `ExperimentalTracingV2Config`.
    pub mod experimental_tracing_v2_config {
        /// `ExperimentalTracingV2Config.use_v2_probability_percent`.
        pub const USE_V2_PROBABILITY_PERCENT: u32 = 1;
        /// `ExperimentalTracingV2Config.chunk_size_options`.
        pub const CHUNK_SIZE_OPTIONS: u32 = 2;
        /// `ExperimentalTracingV2Config.drain_occupancy_percent`.
        pub const DRAIN_OCCUPANCY_PERCENT: u32 = 3;
        /// Field numbers of `ChunkSizeOption`.
        pub mod chunk_size_option {
            /// `ChunkSizeOption.size_bytes`.
            pub const SIZE_BYTES: u32 = 1;
            /// `ChunkSizeOption.weight`.
            pub const WEIGHT: u32 = 2;
        }
    }
}
/// Field numbers of `TraceConfig`.
pub mod trace_config {
    /// `TraceConfig.buffers`.
    pub const BUFFERS: u32 = 1;
    /// `TraceConfig.experimental_trace_buffer_v2_compaction`.
    pub const EXPERIMENTAL_TRACE_BUFFER_V2_COMPACTION: u32 = 50;
    /// `TraceConfig.data_sources`.
    pub const DATA_SOURCES: u32 = 2;
    /// `TraceConfig.builtin_data_sources`.
    pub const BUILTIN_DATA_SOURCES: u32 = 20;
    /// `TraceConfig.duration_ms`.
    pub const DURATION_MS: u32 = 3;
    /// `TraceConfig.prefer_suspend_clock_for_duration`.
    pub const PREFER_SUSPEND_CLOCK_FOR_DURATION: u32 = 36;
    /// `TraceConfig.enable_extra_guardrails`.
    pub const ENABLE_EXTRA_GUARDRAILS: u32 = 4;
    /// `TraceConfig.lockdown_mode`.
    pub const LOCKDOWN_MODE: u32 = 5;
    /// `TraceConfig.producers`.
    pub const PRODUCERS: u32 = 6;
    /// `TraceConfig.statsd_metadata`.
    pub const STATSD_METADATA: u32 = 7;
    /// `TraceConfig.write_into_file`.
    pub const WRITE_INTO_FILE: u32 = 8;
    /// `TraceConfig.output_path`.
    pub const OUTPUT_PATH: u32 = 29;
    /// `TraceConfig.file_write_period_ms`.
    pub const FILE_WRITE_PERIOD_MS: u32 = 9;
    /// `TraceConfig.max_file_size_bytes`.
    pub const MAX_FILE_SIZE_BYTES: u32 = 10;
    /// `TraceConfig.guardrail_overrides`.
    pub const GUARDRAIL_OVERRIDES: u32 = 11;
    /// `TraceConfig.deferred_start`.
    pub const DEFERRED_START: u32 = 12;
    /// `TraceConfig.flush_period_ms`.
    pub const FLUSH_PERIOD_MS: u32 = 13;
    /// `TraceConfig.flush_timeout_ms`.
    pub const FLUSH_TIMEOUT_MS: u32 = 14;
    /// `TraceConfig.data_source_stop_timeout_ms`.
    pub const DATA_SOURCE_STOP_TIMEOUT_MS: u32 = 23;
    /// `TraceConfig.notify_traceur`.
    pub const NOTIFY_TRACEUR: u32 = 16;
    /// `TraceConfig.bugreport_score`.
    pub const BUGREPORT_SCORE: u32 = 30;
    /// `TraceConfig.bugreport_filename`.
    pub const BUGREPORT_FILENAME: u32 = 38;
    /// `TraceConfig.trigger_config`.
    pub const TRIGGER_CONFIG: u32 = 17;
    /// `TraceConfig.activate_triggers`.
    pub const ACTIVATE_TRIGGERS: u32 = 18;
    /// `TraceConfig.incremental_state_config`.
    pub const INCREMENTAL_STATE_CONFIG: u32 = 21;
    /// `TraceConfig.allow_user_build_tracing`.
    pub const ALLOW_USER_BUILD_TRACING: u32 = 19;
    /// `TraceConfig.unique_session_name`.
    pub const UNIQUE_SESSION_NAME: u32 = 22;
    /// `TraceConfig.compression_type`.
    pub const COMPRESSION_TYPE: u32 = 24;
    /// `TraceConfig.compression`.
    pub const COMPRESSION: u32 = 47;
    /// `TraceConfig.incident_report_config`.
    pub const INCIDENT_REPORT_CONFIG: u32 = 25;
    /// `TraceConfig.statsd_logging`.
    pub const STATSD_LOGGING: u32 = 31;
    /// `TraceConfig.trace_uuid_msb`.
    pub const TRACE_UUID_MSB: u32 = 27;
    /// `TraceConfig.trace_uuid_lsb`.
    pub const TRACE_UUID_LSB: u32 = 28;
    /// `TraceConfig.trace_filter`.
    pub const TRACE_FILTER: u32 = 33;
    /// `TraceConfig.android_report_config`.
    pub const ANDROID_REPORT_CONFIG: u32 = 34;
    /// `TraceConfig.cmd_trace_start_delay`.
    pub const CMD_TRACE_START_DELAY: u32 = 35;
    /// `TraceConfig.session_semaphores`.
    pub const SESSION_SEMAPHORES: u32 = 39;
    /// `TraceConfig.priority_boost`.
    pub const PRIORITY_BOOST: u32 = 40;
    /// `TraceConfig.exclusive_prio`.
    pub const EXCLUSIVE_PRIO: u32 = 41;
    /// `TraceConfig.write_flush_mode`.
    pub const WRITE_FLUSH_MODE: u32 = 44;
    /// `TraceConfig.fflush_post_write`.
    pub const FFLUSH_POST_WRITE: u32 = 45;
    /// `TraceConfig.trace_all_machines`.
    pub const TRACE_ALL_MACHINES: u32 = 43;
    /// `TraceConfig.trace_attributes`.
    pub const TRACE_ATTRIBUTES: u32 = 48;
    /// `TraceConfig.persist_trace_across_reboots`.
    pub const PERSIST_TRACE_ACROSS_REBOOTS: u32 = 49;
    /// Field numbers of `BufferConfig`.
    pub mod buffer_config {
        /// `BufferConfig.size_kb`.
        pub const SIZE_KB: u32 = 1;
        /// `BufferConfig.fill_policy`.
        pub const FILL_POLICY: u32 = 4;
        /// `BufferConfig.transfer_on_clone`.
        pub const TRANSFER_ON_CLONE: u32 = 5;
        /// `BufferConfig.clear_before_clone`.
        pub const CLEAR_BEFORE_CLONE: u32 = 6;
        /// `BufferConfig.name`.
        pub const NAME: u32 = 7;
        /// `BufferConfig.experimental_mode`.
        pub const EXPERIMENTAL_MODE: u32 = 8;
        /// `BufferConfig.fold_overwritten`.
        pub const FOLD_OVERWRITTEN: u32 = 9100;
    }
    /// Field numbers of `DataSource`.
    pub mod data_source {
        /// `DataSource.config`.
        pub const CONFIG: u32 = 1;
        /// `DataSource.producer_name_filter`.
        pub const PRODUCER_NAME_FILTER: u32 = 2;
        /// `DataSource.producer_name_regex_filter`.
        pub const PRODUCER_NAME_REGEX_FILTER: u32 = 3;
        /// `DataSource.machine_name_filter`.
        pub const MACHINE_NAME_FILTER: u32 = 4;
    }
    /// Field numbers of `BuiltinDataSource`.
    pub mod builtin_data_source {
        /// `BuiltinDataSource.disable_clock_snapshotting`.
        pub const DISABLE_CLOCK_SNAPSHOTTING: u32 = 1;
        /// `BuiltinDataSource.disable_trace_config`.
        pub const DISABLE_TRACE_CONFIG: u32 = 2;
        /// `BuiltinDataSource.disable_system_info`.
        pub const DISABLE_SYSTEM_INFO: u32 = 3;
        /// `BuiltinDataSource.disable_service_events`.
        pub const DISABLE_SERVICE_EVENTS: u32 = 4;
        /// `BuiltinDataSource.primary_trace_clock`.
        pub const PRIMARY_TRACE_CLOCK: u32 = 5;
        /// `BuiltinDataSource.snapshot_interval_ms`.
        pub const SNAPSHOT_INTERVAL_MS: u32 = 6;
        /// `BuiltinDataSource.prefer_suspend_clock_for_snapshot`.
        pub const PREFER_SUSPEND_CLOCK_FOR_SNAPSHOT: u32 = 7;
        /// `BuiltinDataSource.disable_chunk_usage_histograms`.
        pub const DISABLE_CHUNK_USAGE_HISTOGRAMS: u32 = 8;
        /// `BuiltinDataSource.disable_extension_descriptors`.
        pub const DISABLE_EXTENSION_DESCRIPTORS: u32 = 9;
        /// `BuiltinDataSource.enable_concurrent_session_events`.
        pub const ENABLE_CONCURRENT_SESSION_EVENTS: u32 = 10;
    }
    /// Field numbers of `ProducerConfig`.
    pub mod producer_config {
        /// `ProducerConfig.producer_name`.
        pub const PRODUCER_NAME: u32 = 1;
        /// `ProducerConfig.shm_size_kb`.
        pub const SHM_SIZE_KB: u32 = 2;
        /// `ProducerConfig.page_size_kb`.
        pub const PAGE_SIZE_KB: u32 = 3;
    }
    /// Field numbers of `StatsdMetadata`.
    pub mod statsd_metadata {
        /// `StatsdMetadata.triggering_alert_id`.
        pub const TRIGGERING_ALERT_ID: u32 = 1;
        /// `StatsdMetadata.triggering_config_uid`.
        pub const TRIGGERING_CONFIG_UID: u32 = 2;
        /// `StatsdMetadata.triggering_config_id`.
        pub const TRIGGERING_CONFIG_ID: u32 = 3;
        /// `StatsdMetadata.triggering_subscription_id`.
        pub const TRIGGERING_SUBSCRIPTION_ID: u32 = 4;
    }
    /// Field numbers of `GuardrailOverrides`.
    pub mod guardrail_overrides {
        /// `GuardrailOverrides.max_upload_per_day_bytes`.
        pub const MAX_UPLOAD_PER_DAY_BYTES: u32 = 1;
        /// `GuardrailOverrides.max_tracing_buffer_size_kb`.
        pub const MAX_TRACING_BUFFER_SIZE_KB: u32 = 2;
    }
    /// Field numbers of `TriggerConfig`.
    pub mod trigger_config {
        /// `TriggerConfig.trigger_mode`.
        pub const TRIGGER_MODE: u32 = 1;
        /// `TriggerConfig.use_clone_snapshot_if_available`.
        pub const USE_CLONE_SNAPSHOT_IF_AVAILABLE: u32 = 5;
        /// `TriggerConfig.triggers`.
        pub const TRIGGERS: u32 = 2;
        /// `TriggerConfig.trigger_timeout_ms`.
        pub const TRIGGER_TIMEOUT_MS: u32 = 3;
        /// Field numbers of `Trigger`.
        pub mod trigger {
            /// `Trigger.name`.
            pub const NAME: u32 = 1;
            /// `Trigger.producer_name_regex`.
            pub const PRODUCER_NAME_REGEX: u32 = 2;
            /// `Trigger.stop_delay_ms`.
            pub const STOP_DELAY_MS: u32 = 3;
            /// `Trigger.max_per_24_h`.
            pub const MAX_PER_24_H: u32 = 4;
            /// `Trigger.skip_probability`.
            pub const SKIP_PROBABILITY: u32 = 5;
        }
    }
    /// Field numbers of `IncrementalStateConfig`.
    pub mod incremental_state_config {
        /// `IncrementalStateConfig.clear_period_ms`.
        pub const CLEAR_PERIOD_MS: u32 = 1;
    }
    /// Field numbers of `CompressionConfig`.
    pub mod compression_config {
        /// `CompressionConfig.deflate`.
        pub const DEFLATE: u32 = 1;
        /// `CompressionConfig.zstd`.
        pub const ZSTD: u32 = 2;
        /// Field numbers of `Zstd`.
        pub mod zstd {
            /// `Zstd.level`.
            pub const LEVEL: u32 = 1;
        }
    }
    /// Field numbers of `IncidentReportConfig`.
    pub mod incident_report_config {
        /// `IncidentReportConfig.destination_package`.
        pub const DESTINATION_PACKAGE: u32 = 1;
        /// `IncidentReportConfig.destination_class`.
        pub const DESTINATION_CLASS: u32 = 2;
        /// `IncidentReportConfig.privacy_level`.
        pub const PRIVACY_LEVEL: u32 = 3;
        /// `IncidentReportConfig.skip_incidentd`.
        pub const SKIP_INCIDENTD: u32 = 5;
        /// `IncidentReportConfig.skip_dropbox`.
        pub const SKIP_DROPBOX: u32 = 4;
    }
    /// Field numbers of `TraceFilter`.
    pub mod trace_filter {
        /// `TraceFilter.bytecode`.
        pub const BYTECODE: u32 = 1;
        /// `TraceFilter.bytecode_v2`.
        pub const BYTECODE_V2: u32 = 2;
        /// `TraceFilter.string_filter_chain`.
        pub const STRING_FILTER_CHAIN: u32 = 3;
        /// `TraceFilter.bytecode_overlay_v54`.
        pub const BYTECODE_OVERLAY_V54: u32 = 4;
        /// `TraceFilter.string_filter_chain_v54`.
        pub const STRING_FILTER_CHAIN_V54: u32 = 5;
        /// Field numbers of `StringFilterRule`.
        pub mod string_filter_rule {
            /// `StringFilterRule.policy`.
            pub const POLICY: u32 = 1;
            /// `StringFilterRule.regex_pattern`.
            pub const REGEX_PATTERN: u32 = 2;
            /// `StringFilterRule.atrace_payload_starts_with`.
            pub const ATRACE_PAYLOAD_STARTS_WITH: u32 = 3;
            /// `StringFilterRule.name`.
            pub const NAME: u32 = 4;
            /// `StringFilterRule.semantic_type`.
            pub const SEMANTIC_TYPE: u32 = 5;
        }
        /// Field numbers of `StringFilterChain`.
        pub mod string_filter_chain {
            /// `StringFilterChain.rules`.
            pub const RULES: u32 = 1;
        }
    }
    /// Field numbers of `AndroidReportConfig`.
    pub mod android_report_config {
        /// `AndroidReportConfig.reporter_service_package`.
        pub const REPORTER_SERVICE_PACKAGE: u32 = 1;
        /// `AndroidReportConfig.reporter_service_class`.
        pub const REPORTER_SERVICE_CLASS: u32 = 2;
        /// `AndroidReportConfig.skip_report`.
        pub const SKIP_REPORT: u32 = 3;
        /// `AndroidReportConfig.use_pipe_in_framework_for_testing`.
        pub const USE_PIPE_IN_FRAMEWORK_FOR_TESTING: u32 = 4;
    }
    /// Field numbers of `CmdTraceStartDelay`.
    pub mod cmd_trace_start_delay {
        /// `CmdTraceStartDelay.min_delay_ms`.
        pub const MIN_DELAY_MS: u32 = 1;
        /// `CmdTraceStartDelay.max_delay_ms`.
        pub const MAX_DELAY_MS: u32 = 2;
    }
    /// Field numbers of `SessionSemaphore`.
    pub mod session_semaphore {
        /// `SessionSemaphore.name`.
        pub const NAME: u32 = 1;
        /// `SessionSemaphore.max_other_session_count`.
        pub const MAX_OTHER_SESSION_COUNT: u32 = 2;
    }
}
/// Field numbers of `EnableTracingRequest`.
pub mod enable_tracing_request {
    /// `EnableTracingRequest.trace_config`.
    pub const TRACE_CONFIG: u32 = 1;
    /// `EnableTracingRequest.attach_notification_only`.
    pub const ATTACH_NOTIFICATION_ONLY: u32 = 2;
}
/// Field numbers of `EnableTracingResponse`.
pub mod enable_tracing_response {
    /// `EnableTracingResponse.disabled`.
    pub const DISABLED: u32 = 1;
    /// `EnableTracingResponse.error`.
    pub const ERROR: u32 = 3;
}
/// Field numbers of `ChangeTraceConfigRequest`.
pub mod change_trace_config_request {
    /// `ChangeTraceConfigRequest.trace_config`.
    pub const TRACE_CONFIG: u32 = 1;
}
/// Field numbers of `ReadBuffersResponse`.
pub mod read_buffers_response {
    /// `ReadBuffersResponse.slices`.
    pub const SLICES: u32 = 2;
    /// Field numbers of `Slice`.
    pub mod slice {
        /// `Slice.data`.
        pub const DATA: u32 = 1;
        /// `Slice.last_slice_for_packet`.
        pub const LAST_SLICE_FOR_PACKET: u32 = 2;
    }
}
/// Field numbers of `FreeBuffersRequest`.
pub mod free_buffers_request {
    /// `FreeBuffersRequest.buffer_ids`.
    pub const BUFFER_IDS: u32 = 1;
}
/// Field numbers of `FlushRequest`.
pub mod flush_request {
    /// `FlushRequest.timeout_ms`.
    pub const TIMEOUT_MS: u32 = 1;
    /// `FlushRequest.flags`.
    pub const FLAGS: u32 = 2;
}
/// Field numbers of `DetachRequest`.
pub mod detach_request {
    /// `DetachRequest.key`.
    pub const KEY: u32 = 1;
}
/// Field numbers of `AttachRequest`.
pub mod attach_request {
    /// `AttachRequest.key`.
    pub const KEY: u32 = 1;
}
/// Field numbers of `AttachResponse`.
pub mod attach_response {
    /// `AttachResponse.trace_config`.
    pub const TRACE_CONFIG: u32 = 1;
}
/// Field numbers of `GetTraceStatsResponse`.
pub mod get_trace_stats_response {
    /// `GetTraceStatsResponse.trace_stats`.
    pub const TRACE_STATS: u32 = 1;
}
/// Field numbers of `ObserveEventsRequest`.
pub mod observe_events_request {
    /// `ObserveEventsRequest.events_to_observe`.
    pub const EVENTS_TO_OBSERVE: u32 = 1;
}
/// Field numbers of `ObserveEventsResponse`.
pub mod observe_events_response {
    /// `ObserveEventsResponse.events`.
    pub const EVENTS: u32 = 1;
}
/// Field numbers of `QueryServiceStateRequest`.
pub mod query_service_state_request {
    /// `QueryServiceStateRequest.sessions_only`.
    pub const SESSIONS_ONLY: u32 = 1;
}
/// Field numbers of `QueryServiceStateResponse`.
pub mod query_service_state_response {
    /// `QueryServiceStateResponse.service_state`.
    pub const SERVICE_STATE: u32 = 1;
}
/// Field numbers of `QueryCapabilitiesResponse`.
pub mod query_capabilities_response {
    /// `QueryCapabilitiesResponse.capabilities`.
    pub const CAPABILITIES: u32 = 1;
}
/// Field numbers of `SaveTraceForBugreportResponse`.
pub mod save_trace_for_bugreport_response {
    /// `SaveTraceForBugreportResponse.success`.
    pub const SUCCESS: u32 = 1;
    /// `SaveTraceForBugreportResponse.msg`.
    pub const MSG: u32 = 2;
}
/// Field numbers of `CloneSessionRequest`.
pub mod clone_session_request {
    /// `CloneSessionRequest.session_id`.
    pub const SESSION_ID: u32 = 1;
    /// `CloneSessionRequest.unique_session_name`.
    pub const UNIQUE_SESSION_NAME: u32 = 4;
    /// `CloneSessionRequest.skip_trace_filter`.
    pub const SKIP_TRACE_FILTER: u32 = 2;
    /// `CloneSessionRequest.for_bugreport`.
    pub const FOR_BUGREPORT: u32 = 3;
    /// `CloneSessionRequest.clone_trigger_name`.
    pub const CLONE_TRIGGER_NAME: u32 = 5;
    /// `CloneSessionRequest.clone_trigger_producer_name`.
    pub const CLONE_TRIGGER_PRODUCER_NAME: u32 = 6;
    /// `CloneSessionRequest.clone_trigger_trusted_producer_uid`.
    pub const CLONE_TRIGGER_TRUSTED_PRODUCER_UID: u32 = 7;
    /// `CloneSessionRequest.clone_trigger_boot_time_ns`.
    pub const CLONE_TRIGGER_BOOT_TIME_NS: u32 = 8;
    /// `CloneSessionRequest.clone_trigger_delay_ms`.
    pub const CLONE_TRIGGER_DELAY_MS: u32 = 9;
}
/// Field numbers of `CloneSessionResponse`.
pub mod clone_session_response {
    /// `CloneSessionResponse.success`.
    pub const SUCCESS: u32 = 1;
    /// `CloneSessionResponse.error`.
    pub const ERROR: u32 = 2;
    /// `CloneSessionResponse.uuid_msb`.
    pub const UUID_MSB: u32 = 3;
    /// `CloneSessionResponse.uuid_lsb`.
    pub const UUID_LSB: u32 = 4;
    /// `CloneSessionResponse.was_write_into_file`.
    pub const WAS_WRITE_INTO_FILE: u32 = 5;
}
/// Field numbers of `InitializeConnectionRequest`.
pub mod initialize_connection_request {
    /// `InitializeConnectionRequest.shared_memory_page_size_hint_bytes`.
    pub const SHARED_MEMORY_PAGE_SIZE_HINT_BYTES: u32 = 1;
    /// `InitializeConnectionRequest.shared_memory_size_hint_bytes`.
    pub const SHARED_MEMORY_SIZE_HINT_BYTES: u32 = 2;
    /// `InitializeConnectionRequest.producer_name`.
    pub const PRODUCER_NAME: u32 = 3;
    /// `InitializeConnectionRequest.smb_scraping_mode`.
    pub const SMB_SCRAPING_MODE: u32 = 4;
    /// `InitializeConnectionRequest.producer_provided_shmem`.
    pub const PRODUCER_PROVIDED_SHMEM: u32 = 6;
    /// `InitializeConnectionRequest.sdk_version`.
    pub const SDK_VERSION: u32 = 8;
    /// `InitializeConnectionRequest.shm_key_windows`.
    pub const SHM_KEY_WINDOWS: u32 = 7;
}
/// Field numbers of `InitializeConnectionResponse`.
pub mod initialize_connection_response {
    /// `InitializeConnectionResponse.using_shmem_provided_by_producer`.
    pub const USING_SHMEM_PROVIDED_BY_PRODUCER: u32 = 1;
    /// `InitializeConnectionResponse.direct_smb_patching_supported`.
    pub const DIRECT_SMB_PATCHING_SUPPORTED: u32 = 2;
    /// `InitializeConnectionResponse.use_shmem_emulation`.
    pub const USE_SHMEM_EMULATION: u32 = 3;
}
/// Field numbers of `RegisterDataSourceRequest`.
pub mod register_data_source_request {
    /// `RegisterDataSourceRequest.data_source_descriptor`.
    pub const DATA_SOURCE_DESCRIPTOR: u32 = 1;
}
/// Field numbers of `RegisterDataSourceResponse`.
pub mod register_data_source_response {
    /// `RegisterDataSourceResponse.error`.
    pub const ERROR: u32 = 1;
}
/// Field numbers of `UpdateDataSourceRequest`.
pub mod update_data_source_request {
    /// `UpdateDataSourceRequest.data_source_descriptor`.
    pub const DATA_SOURCE_DESCRIPTOR: u32 = 1;
}
/// Field numbers of `UnregisterDataSourceRequest`.
pub mod unregister_data_source_request {
    /// `UnregisterDataSourceRequest.data_source_name`.
    pub const DATA_SOURCE_NAME: u32 = 1;
}
/// Field numbers of `RegisterTraceWriterRequest`.
pub mod register_trace_writer_request {
    /// `RegisterTraceWriterRequest.trace_writer_id`.
    pub const TRACE_WRITER_ID: u32 = 1;
    /// `RegisterTraceWriterRequest.target_buffer`.
    pub const TARGET_BUFFER: u32 = 2;
}
/// Field numbers of `UnregisterTraceWriterRequest`.
pub mod unregister_trace_writer_request {
    /// `UnregisterTraceWriterRequest.trace_writer_id`.
    pub const TRACE_WRITER_ID: u32 = 1;
}
/// Field numbers of `NotifyDataSourceStartedRequest`.
pub mod notify_data_source_started_request {
    /// `NotifyDataSourceStartedRequest.data_source_id`.
    pub const DATA_SOURCE_ID: u32 = 1;
}
/// Field numbers of `NotifyDataSourceStoppedRequest`.
pub mod notify_data_source_stopped_request {
    /// `NotifyDataSourceStoppedRequest.data_source_id`.
    pub const DATA_SOURCE_ID: u32 = 1;
}
/// Field numbers of `ActivateTriggersRequest`.
pub mod activate_triggers_request {
    /// `ActivateTriggersRequest.trigger_names`.
    pub const TRIGGER_NAMES: u32 = 1;
}
/// Field numbers of `GetAsyncCommandResponse`.
pub mod get_async_command_response {
    /// `GetAsyncCommandResponse.setup_tracing`.
    pub const SETUP_TRACING: u32 = 3;
    /// `GetAsyncCommandResponse.setup_data_source`.
    pub const SETUP_DATA_SOURCE: u32 = 6;
    /// `GetAsyncCommandResponse.start_data_source`.
    pub const START_DATA_SOURCE: u32 = 1;
    /// `GetAsyncCommandResponse.stop_data_source`.
    pub const STOP_DATA_SOURCE: u32 = 2;
    /// `GetAsyncCommandResponse.flush`.
    pub const FLUSH: u32 = 5;
    /// `GetAsyncCommandResponse.clear_incremental_state`.
    pub const CLEAR_INCREMENTAL_STATE: u32 = 7;
    /// Field numbers of `SetupDataSource`.
    pub mod setup_data_source {
        /// `SetupDataSource.new_instance_id`.
        pub const NEW_INSTANCE_ID: u32 = 1;
        /// `SetupDataSource.config`.
        pub const CONFIG: u32 = 2;
    }
    /// Field numbers of `StartDataSource`.
    pub mod start_data_source {
        /// `StartDataSource.new_instance_id`.
        pub const NEW_INSTANCE_ID: u32 = 1;
        /// `StartDataSource.config`.
        pub const CONFIG: u32 = 2;
    }
    /// Field numbers of `StopDataSource`.
    pub mod stop_data_source {
        /// `StopDataSource.instance_id`.
        pub const INSTANCE_ID: u32 = 1;
    }
    /// Field numbers of `SetupTracing`.
    pub mod setup_tracing {
        /// `SetupTracing.shared_buffer_page_size_kb`.
        pub const SHARED_BUFFER_PAGE_SIZE_KB: u32 = 1;
        /// `SetupTracing.shm_key_windows`.
        pub const SHM_KEY_WINDOWS: u32 = 2;
    }
    /// Field numbers of `Flush`.
    pub mod flush {
        /// `Flush.data_source_ids`.
        pub const DATA_SOURCE_IDS: u32 = 1;
        /// `Flush.request_id`.
        pub const REQUEST_ID: u32 = 2;
        /// `Flush.flags`.
        pub const FLAGS: u32 = 3;
    }
    /// Field numbers of `ClearIncrementalState`.
    pub mod clear_incremental_state {
        /// `ClearIncrementalState.data_source_ids`.
        pub const DATA_SOURCE_IDS: u32 = 1;
    }
}
/// Field numbers of `InitRelayRequest`.
pub mod init_relay_request {
    /// `InitRelayRequest.system_info`.
    pub const SYSTEM_INFO: u32 = 1;
}
/// Field numbers of `SyncClockRequest`.
pub mod sync_clock_request {
    /// `SyncClockRequest.phase`.
    pub const PHASE: u32 = 1;
    /// `SyncClockRequest.clocks`.
    pub const CLOCKS: u32 = 2;
    /// Field numbers of `Clock`.
    pub mod clock {
        /// `Clock.clock_id`.
        pub const CLOCK_ID: u32 = 1;
        /// `Clock.timestamp`.
        pub const TIMESTAMP: u32 = 2;
    }
}
/// Field numbers of `IPCFrame`.
pub mod ipc_frame {
    /// `IPCFrame.request_id`.
    pub const REQUEST_ID: u32 = 2;
    /// `IPCFrame.msg_bind_service`.
    pub const MSG_BIND_SERVICE: u32 = 3;
    /// `IPCFrame.msg_bind_service_reply`.
    pub const MSG_BIND_SERVICE_REPLY: u32 = 4;
    /// `IPCFrame.msg_invoke_method`.
    pub const MSG_INVOKE_METHOD: u32 = 5;
    /// `IPCFrame.msg_invoke_method_reply`.
    pub const MSG_INVOKE_METHOD_REPLY: u32 = 6;
    /// `IPCFrame.msg_request_error`.
    pub const MSG_REQUEST_ERROR: u32 = 7;
    /// `IPCFrame.set_peer_identity`.
    pub const SET_PEER_IDENTITY: u32 = 8;
    /// `IPCFrame.data_for_testing`.
    pub const DATA_FOR_TESTING: u32 = 1;
    /// Field numbers of `BindService`.
    pub mod bind_service {
        /// `BindService.service_name`.
        pub const SERVICE_NAME: u32 = 1;
    }
    /// Field numbers of `BindServiceReply`.
    pub mod bind_service_reply {
        /// `BindServiceReply.success`.
        pub const SUCCESS: u32 = 1;
        /// `BindServiceReply.service_id`.
        pub const SERVICE_ID: u32 = 2;
        /// `BindServiceReply.methods`.
        pub const METHODS: u32 = 3;
        /// Field numbers of `MethodInfo`.
        pub mod method_info {
            /// `MethodInfo.id`.
            pub const ID: u32 = 1;
            /// `MethodInfo.name`.
            pub const NAME: u32 = 2;
        }
    }
    /// Field numbers of `InvokeMethod`.
    pub mod invoke_method {
        /// `InvokeMethod.service_id`.
        pub const SERVICE_ID: u32 = 1;
        /// `InvokeMethod.method_id`.
        pub const METHOD_ID: u32 = 2;
        /// `InvokeMethod.args_proto`.
        pub const ARGS_PROTO: u32 = 3;
        /// `InvokeMethod.drop_reply`.
        pub const DROP_REPLY: u32 = 4;
    }
    /// Field numbers of `InvokeMethodReply`.
    pub mod invoke_method_reply {
        /// `InvokeMethodReply.success`.
        pub const SUCCESS: u32 = 1;
        /// `InvokeMethodReply.has_more`.
        pub const HAS_MORE: u32 = 2;
        /// `InvokeMethodReply.reply_proto`.
        pub const REPLY_PROTO: u32 = 3;
    }
    /// Field numbers of `RequestError`.
    pub mod request_error {
        /// `RequestError.error`.
        pub const ERROR: u32 = 1;
    }
    /// Field numbers of `SetPeerIdentity`.
    pub mod set_peer_identity {
        /// `SetPeerIdentity.pid`.
        pub const PID: u32 = 1;
        /// `SetPeerIdentity.uid`.
        pub const UID: u32 = 2;
        /// `SetPeerIdentity.machine_id_hint`.
        pub const MACHINE_ID_HINT: u32 = 3;
        /// `SetPeerIdentity.machine_name`.
        pub const MACHINE_NAME: u32 = 4;
    }
}
/// Field numbers of `CompileConfig`.
pub mod compile_config {
    /// `CompileConfig.root_message`.
    pub const ROOT_MESSAGE: u32 = 1;
    /// `CompileConfig.commands`.
    pub const COMMANDS: u32 = 2;
}
/// Field numbers of `CompileCommand`.
pub mod compile_command {
    /// `CompileCommand.del`.
    pub const DEL: u32 = 1;
    /// `CompileCommand.enter_scope`.
    pub const ENTER_SCOPE: u32 = 2;
    /// `CompileCommand.merge`.
    pub const MERGE: u32 = 3;
    /// `CompileCommand.set`.
    pub const SET: u32 = 4;
    /// `CompileCommand.abort_level`.
    pub const ABORT_LEVEL: u32 = 5;
}
/// Field numbers of `CompileCommandDel`.
pub mod compile_command_del {
    /// `CompileCommandDel.src`.
    pub const SRC: u32 = 1;
    /// `CompileCommandDel.dst`.
    pub const DST: u32 = 2;
    /// `CompileCommandDel.if_src_present`.
    pub const IF_SRC_PRESENT: u32 = 3;
    /// `CompileCommandDel.dst_key_field`.
    pub const DST_KEY_FIELD: u32 = 4;
}
/// Field numbers of `CompileCommandEnterScope`.
pub mod compile_command_enter_scope {
    /// `CompileCommandEnterScope.src`.
    pub const SRC: u32 = 1;
    /// `CompileCommandEnterScope.dst`.
    pub const DST: u32 = 2;
    /// `CompileCommandEnterScope.commands`.
    pub const COMMANDS: u32 = 3;
}
/// Field numbers of `CompileCommandMerge`.
pub mod compile_command_merge {
    /// `CompileCommandMerge.src`.
    pub const SRC: u32 = 1;
    /// `CompileCommandMerge.dst`.
    pub const DST: u32 = 2;
    /// `CompileCommandMerge.recursive`.
    pub const RECURSIVE: u32 = 3;
    /// `CompileCommandMerge.key_field`.
    pub const KEY_FIELD: u32 = 4;
}
/// Field numbers of `CompileCommandSet`.
pub mod compile_command_set {
    /// `CompileCommandSet.src`.
    pub const SRC: u32 = 1;
    /// `CompileCommandSet.dst`.
    pub const DST: u32 = 2;
}
/// Field numbers of `ClockSnapshot`.
pub mod clock_snapshot {
    /// `ClockSnapshot.clocks`.
    pub const CLOCKS: u32 = 1;
    /// `ClockSnapshot.primary_trace_clock`.
    pub const PRIMARY_TRACE_CLOCK: u32 = 2;
    /// Field numbers of `Clock`.
    pub mod clock {
        /// `Clock.clock_id`.
        pub const CLOCK_ID: u32 = 1;
        /// `Clock.timestamp`.
        pub const TIMESTAMP: u32 = 2;
        /// `Clock.is_incremental`.
        pub const IS_INCREMENTAL: u32 = 3;
        /// `Clock.unit_multiplier_ns`.
        pub const UNIT_MULTIPLIER_NS: u32 = 4;
    }
}
/// Field numbers of `ExtensionDescriptor`.
pub mod extension_descriptor {
    /// `ExtensionDescriptor.extension_set`.
    pub const EXTENSION_SET: u32 = 1;
    /// `ExtensionDescriptor.extension_set_gzip`.
    pub const EXTENSION_SET_GZIP: u32 = 2;
    /// `ExtensionDescriptor.file_name`.
    pub const FILE_NAME: u32 = 3;
}
/// Field numbers of `InodeFileMap`.
pub mod inode_file_map {
    /// `InodeFileMap.block_device_id`.
    pub const BLOCK_DEVICE_ID: u32 = 1;
    /// `InodeFileMap.mount_points`.
    pub const MOUNT_POINTS: u32 = 2;
    /// `InodeFileMap.entries`.
    pub const ENTRIES: u32 = 3;
    /// Field numbers of `Entry`.
    pub mod entry {
        /// `Entry.inode_number`.
        pub const INODE_NUMBER: u32 = 1;
        /// `Entry.paths`.
        pub const PATHS: u32 = 2;
        /// `Entry.type`.
        pub const TYPE: u32 = 3;
    }
}
/// Field numbers of `PrintFtraceEvent`.
pub mod print_ftrace_event {
    /// `PrintFtraceEvent.ip`.
    pub const IP: u32 = 1;
    /// `PrintFtraceEvent.buf`.
    pub const BUF: u32 = 2;
}
/// Field numbers of `FuncgraphEntryFtraceEvent`.
pub mod funcgraph_entry_ftrace_event {
    /// `FuncgraphEntryFtraceEvent.depth`.
    pub const DEPTH: u32 = 1;
    /// `FuncgraphEntryFtraceEvent.func`.
    pub const FUNC: u32 = 2;
}
/// Field numbers of `FuncgraphExitFtraceEvent`.
pub mod funcgraph_exit_ftrace_event {
    /// `FuncgraphExitFtraceEvent.calltime`.
    pub const CALLTIME: u32 = 1;
    /// `FuncgraphExitFtraceEvent.depth`.
    pub const DEPTH: u32 = 2;
    /// `FuncgraphExitFtraceEvent.func`.
    pub const FUNC: u32 = 3;
    /// `FuncgraphExitFtraceEvent.overrun`.
    pub const OVERRUN: u32 = 4;
    /// `FuncgraphExitFtraceEvent.rettime`.
    pub const RETTIME: u32 = 5;
}
/// Field numbers of `GenericFtraceEvent`.
pub mod generic_ftrace_event {
    /// `GenericFtraceEvent.event_name`.
    pub const EVENT_NAME: u32 = 1;
    /// `GenericFtraceEvent.field`.
    pub const FIELD: u32 = 2;
    /// Field numbers of `Field`.
    pub mod field {
        /// `Field.name`.
        pub const NAME: u32 = 1;
        /// `Field.str_value`.
        pub const STR_VALUE: u32 = 3;
        /// `Field.int_value`.
        pub const INT_VALUE: u32 = 4;
        /// `Field.uint_value`.
        pub const UINT_VALUE: u32 = 5;
    }
}
/// Field numbers of `KprobeEvent`.
pub mod kprobe_event {
    /// `KprobeEvent.name`.
    pub const NAME: u32 = 1;
    /// `KprobeEvent.type`.
    pub const TYPE: u32 = 2;
}
/// Field numbers of `CpuFrequencyFtraceEvent`.
pub mod cpu_frequency_ftrace_event {
    /// `CpuFrequencyFtraceEvent.state`.
    pub const STATE: u32 = 1;
    /// `CpuFrequencyFtraceEvent.cpu_id`.
    pub const CPU_ID: u32 = 2;
}
/// Field numbers of `CpuFrequencyLimitsFtraceEvent`.
pub mod cpu_frequency_limits_ftrace_event {
    /// `CpuFrequencyLimitsFtraceEvent.min_freq`.
    pub const MIN_FREQ: u32 = 1;
    /// `CpuFrequencyLimitsFtraceEvent.max_freq`.
    pub const MAX_FREQ: u32 = 2;
    /// `CpuFrequencyLimitsFtraceEvent.cpu_id`.
    pub const CPU_ID: u32 = 3;
}
/// Field numbers of `CpuIdleFtraceEvent`.
pub mod cpu_idle_ftrace_event {
    /// `CpuIdleFtraceEvent.state`.
    pub const STATE: u32 = 1;
    /// `CpuIdleFtraceEvent.cpu_id`.
    pub const CPU_ID: u32 = 2;
}
/// Field numbers of `ClockEnableFtraceEvent`.
pub mod clock_enable_ftrace_event {
    /// `ClockEnableFtraceEvent.name`.
    pub const NAME: u32 = 1;
    /// `ClockEnableFtraceEvent.state`.
    pub const STATE: u32 = 2;
    /// `ClockEnableFtraceEvent.cpu_id`.
    pub const CPU_ID: u32 = 3;
}
/// Field numbers of `ClockDisableFtraceEvent`.
pub mod clock_disable_ftrace_event {
    /// `ClockDisableFtraceEvent.name`.
    pub const NAME: u32 = 1;
    /// `ClockDisableFtraceEvent.state`.
    pub const STATE: u32 = 2;
    /// `ClockDisableFtraceEvent.cpu_id`.
    pub const CPU_ID: u32 = 3;
}
/// Field numbers of `ClockSetRateFtraceEvent`.
pub mod clock_set_rate_ftrace_event {
    /// `ClockSetRateFtraceEvent.name`.
    pub const NAME: u32 = 1;
    /// `ClockSetRateFtraceEvent.state`.
    pub const STATE: u32 = 2;
    /// `ClockSetRateFtraceEvent.cpu_id`.
    pub const CPU_ID: u32 = 3;
}
/// Field numbers of `SuspendResumeFtraceEvent`.
pub mod suspend_resume_ftrace_event {
    /// `SuspendResumeFtraceEvent.action`.
    pub const ACTION: u32 = 1;
    /// `SuspendResumeFtraceEvent.val`.
    pub const VAL: u32 = 2;
    /// `SuspendResumeFtraceEvent.start`.
    pub const START: u32 = 3;
}
/// Field numbers of `GpuFrequencyFtraceEvent`.
pub mod gpu_frequency_ftrace_event {
    /// `GpuFrequencyFtraceEvent.gpu_id`.
    pub const GPU_ID: u32 = 1;
    /// `GpuFrequencyFtraceEvent.state`.
    pub const STATE: u32 = 2;
}
/// Field numbers of `WakeupSourceActivateFtraceEvent`.
pub mod wakeup_source_activate_ftrace_event {
    /// `WakeupSourceActivateFtraceEvent.name`.
    pub const NAME: u32 = 1;
    /// `WakeupSourceActivateFtraceEvent.state`.
    pub const STATE: u32 = 2;
}
/// Field numbers of `WakeupSourceDeactivateFtraceEvent`.
pub mod wakeup_source_deactivate_ftrace_event {
    /// `WakeupSourceDeactivateFtraceEvent.name`.
    pub const NAME: u32 = 1;
    /// `WakeupSourceDeactivateFtraceEvent.state`.
    pub const STATE: u32 = 2;
}
/// Field numbers of `GpuWorkPeriodFtraceEvent`.
pub mod gpu_work_period_ftrace_event {
    /// `GpuWorkPeriodFtraceEvent.gpu_id`.
    pub const GPU_ID: u32 = 1;
    /// `GpuWorkPeriodFtraceEvent.uid`.
    pub const UID: u32 = 2;
    /// `GpuWorkPeriodFtraceEvent.start_time_ns`.
    pub const START_TIME_NS: u32 = 3;
    /// `GpuWorkPeriodFtraceEvent.end_time_ns`.
    pub const END_TIME_NS: u32 = 4;
    /// `GpuWorkPeriodFtraceEvent.total_active_duration_ns`.
    pub const TOTAL_ACTIVE_DURATION_NS: u32 = 5;
}
/// Field numbers of `DevicePmCallbackStartFtraceEvent`.
pub mod device_pm_callback_start_ftrace_event {
    /// `DevicePmCallbackStartFtraceEvent.device`.
    pub const DEVICE: u32 = 1;
    /// `DevicePmCallbackStartFtraceEvent.driver`.
    pub const DRIVER: u32 = 2;
    /// `DevicePmCallbackStartFtraceEvent.parent`.
    pub const PARENT: u32 = 3;
    /// `DevicePmCallbackStartFtraceEvent.pm_ops`.
    pub const PM_OPS: u32 = 4;
    /// `DevicePmCallbackStartFtraceEvent.event`.
    pub const EVENT: u32 = 5;
}
/// Field numbers of `DevicePmCallbackEndFtraceEvent`.
pub mod device_pm_callback_end_ftrace_event {
    /// `DevicePmCallbackEndFtraceEvent.device`.
    pub const DEVICE: u32 = 1;
    /// `DevicePmCallbackEndFtraceEvent.driver`.
    pub const DRIVER: u32 = 2;
    /// `DevicePmCallbackEndFtraceEvent.error`.
    pub const ERROR: u32 = 3;
}
/// Field numbers of `GpuPowerStateFtraceEvent`.
pub mod gpu_power_state_ftrace_event {
    /// `GpuPowerStateFtraceEvent.old_state`.
    pub const OLD_STATE: u32 = 1;
    /// `GpuPowerStateFtraceEvent.new_state`.
    pub const NEW_STATE: u32 = 2;
}
/// Field numbers of `PsciDomainIdleExitFtraceEvent`.
pub mod psci_domain_idle_exit_ftrace_event {
    /// `PsciDomainIdleExitFtraceEvent.cpu_id`.
    pub const CPU_ID: u32 = 1;
    /// `PsciDomainIdleExitFtraceEvent.state`.
    pub const STATE: u32 = 2;
    /// `PsciDomainIdleExitFtraceEvent.s2idle`.
    pub const S2IDLE: u32 = 3;
}
/// Field numbers of `PsciDomainIdleEnterFtraceEvent`.
pub mod psci_domain_idle_enter_ftrace_event {
    /// `PsciDomainIdleEnterFtraceEvent.cpu_id`.
    pub const CPU_ID: u32 = 1;
    /// `PsciDomainIdleEnterFtraceEvent.state`.
    pub const STATE: u32 = 2;
    /// `PsciDomainIdleEnterFtraceEvent.s2idle`.
    pub const S2IDLE: u32 = 3;
}
/// Field numbers of `SchedSwitchFtraceEvent`.
pub mod sched_switch_ftrace_event {
    /// `SchedSwitchFtraceEvent.prev_comm`.
    pub const PREV_COMM: u32 = 1;
    /// `SchedSwitchFtraceEvent.prev_pid`.
    pub const PREV_PID: u32 = 2;
    /// `SchedSwitchFtraceEvent.prev_prio`.
    pub const PREV_PRIO: u32 = 3;
    /// `SchedSwitchFtraceEvent.prev_state`.
    pub const PREV_STATE: u32 = 4;
    /// `SchedSwitchFtraceEvent.next_comm`.
    pub const NEXT_COMM: u32 = 5;
    /// `SchedSwitchFtraceEvent.next_pid`.
    pub const NEXT_PID: u32 = 6;
    /// `SchedSwitchFtraceEvent.next_prio`.
    pub const NEXT_PRIO: u32 = 7;
}
/// Field numbers of `SchedWakeupFtraceEvent`.
pub mod sched_wakeup_ftrace_event {
    /// `SchedWakeupFtraceEvent.comm`.
    pub const COMM: u32 = 1;
    /// `SchedWakeupFtraceEvent.pid`.
    pub const PID: u32 = 2;
    /// `SchedWakeupFtraceEvent.prio`.
    pub const PRIO: u32 = 3;
    /// `SchedWakeupFtraceEvent.success`.
    pub const SUCCESS: u32 = 4;
    /// `SchedWakeupFtraceEvent.target_cpu`.
    pub const TARGET_CPU: u32 = 5;
}
/// Field numbers of `SchedBlockedReasonFtraceEvent`.
pub mod sched_blocked_reason_ftrace_event {
    /// `SchedBlockedReasonFtraceEvent.pid`.
    pub const PID: u32 = 1;
    /// `SchedBlockedReasonFtraceEvent.caller`.
    pub const CALLER: u32 = 2;
    /// `SchedBlockedReasonFtraceEvent.io_wait`.
    pub const IO_WAIT: u32 = 3;
}
/// Field numbers of `SchedCpuHotplugFtraceEvent`.
pub mod sched_cpu_hotplug_ftrace_event {
    /// `SchedCpuHotplugFtraceEvent.affected_cpu`.
    pub const AFFECTED_CPU: u32 = 1;
    /// `SchedCpuHotplugFtraceEvent.error`.
    pub const ERROR: u32 = 2;
    /// `SchedCpuHotplugFtraceEvent.status`.
    pub const STATUS: u32 = 3;
}
/// Field numbers of `SchedWakingFtraceEvent`.
pub mod sched_waking_ftrace_event {
    /// `SchedWakingFtraceEvent.comm`.
    pub const COMM: u32 = 1;
    /// `SchedWakingFtraceEvent.pid`.
    pub const PID: u32 = 2;
    /// `SchedWakingFtraceEvent.prio`.
    pub const PRIO: u32 = 3;
    /// `SchedWakingFtraceEvent.success`.
    pub const SUCCESS: u32 = 4;
    /// `SchedWakingFtraceEvent.target_cpu`.
    pub const TARGET_CPU: u32 = 5;
}
/// Field numbers of `SchedWakeupNewFtraceEvent`.
pub mod sched_wakeup_new_ftrace_event {
    /// `SchedWakeupNewFtraceEvent.comm`.
    pub const COMM: u32 = 1;
    /// `SchedWakeupNewFtraceEvent.pid`.
    pub const PID: u32 = 2;
    /// `SchedWakeupNewFtraceEvent.prio`.
    pub const PRIO: u32 = 3;
    /// `SchedWakeupNewFtraceEvent.success`.
    pub const SUCCESS: u32 = 4;
    /// `SchedWakeupNewFtraceEvent.target_cpu`.
    pub const TARGET_CPU: u32 = 5;
}
/// Field numbers of `SchedProcessExecFtraceEvent`.
pub mod sched_process_exec_ftrace_event {
    /// `SchedProcessExecFtraceEvent.filename`.
    pub const FILENAME: u32 = 1;
    /// `SchedProcessExecFtraceEvent.pid`.
    pub const PID: u32 = 2;
    /// `SchedProcessExecFtraceEvent.old_pid`.
    pub const OLD_PID: u32 = 3;
}
/// Field numbers of `SchedProcessExitFtraceEvent`.
pub mod sched_process_exit_ftrace_event {
    /// `SchedProcessExitFtraceEvent.comm`.
    pub const COMM: u32 = 1;
    /// `SchedProcessExitFtraceEvent.pid`.
    pub const PID: u32 = 2;
    /// `SchedProcessExitFtraceEvent.tgid`.
    pub const TGID: u32 = 3;
    /// `SchedProcessExitFtraceEvent.prio`.
    pub const PRIO: u32 = 4;
}
/// Field numbers of `SchedProcessForkFtraceEvent`.
pub mod sched_process_fork_ftrace_event {
    /// `SchedProcessForkFtraceEvent.parent_comm`.
    pub const PARENT_COMM: u32 = 1;
    /// `SchedProcessForkFtraceEvent.parent_pid`.
    pub const PARENT_PID: u32 = 2;
    /// `SchedProcessForkFtraceEvent.child_comm`.
    pub const CHILD_COMM: u32 = 3;
    /// `SchedProcessForkFtraceEvent.child_pid`.
    pub const CHILD_PID: u32 = 4;
}
/// Field numbers of `SchedProcessFreeFtraceEvent`.
pub mod sched_process_free_ftrace_event {
    /// `SchedProcessFreeFtraceEvent.comm`.
    pub const COMM: u32 = 1;
    /// `SchedProcessFreeFtraceEvent.pid`.
    pub const PID: u32 = 2;
    /// `SchedProcessFreeFtraceEvent.prio`.
    pub const PRIO: u32 = 3;
}
/// Field numbers of `SchedProcessHangFtraceEvent`.
pub mod sched_process_hang_ftrace_event {
    /// `SchedProcessHangFtraceEvent.comm`.
    pub const COMM: u32 = 1;
    /// `SchedProcessHangFtraceEvent.pid`.
    pub const PID: u32 = 2;
}
/// Field numbers of `SchedProcessWaitFtraceEvent`.
pub mod sched_process_wait_ftrace_event {
    /// `SchedProcessWaitFtraceEvent.comm`.
    pub const COMM: u32 = 1;
    /// `SchedProcessWaitFtraceEvent.pid`.
    pub const PID: u32 = 2;
    /// `SchedProcessWaitFtraceEvent.prio`.
    pub const PRIO: u32 = 3;
}
/// Field numbers of `SchedPiSetprioFtraceEvent`.
pub mod sched_pi_setprio_ftrace_event {
    /// `SchedPiSetprioFtraceEvent.comm`.
    pub const COMM: u32 = 1;
    /// `SchedPiSetprioFtraceEvent.newprio`.
    pub const NEWPRIO: u32 = 2;
    /// `SchedPiSetprioFtraceEvent.oldprio`.
    pub const OLDPRIO: u32 = 3;
    /// `SchedPiSetprioFtraceEvent.pid`.
    pub const PID: u32 = 4;
}
/// Field numbers of `SchedCpuUtilCfsFtraceEvent`.
pub mod sched_cpu_util_cfs_ftrace_event {
    /// `SchedCpuUtilCfsFtraceEvent.active`.
    pub const ACTIVE: u32 = 1;
    /// `SchedCpuUtilCfsFtraceEvent.capacity`.
    pub const CAPACITY: u32 = 2;
    /// `SchedCpuUtilCfsFtraceEvent.capacity_orig`.
    pub const CAPACITY_ORIG: u32 = 3;
    /// `SchedCpuUtilCfsFtraceEvent.cpu`.
    pub const CPU: u32 = 4;
    /// `SchedCpuUtilCfsFtraceEvent.cpu_importance`.
    pub const CPU_IMPORTANCE: u32 = 5;
    /// `SchedCpuUtilCfsFtraceEvent.cpu_util`.
    pub const CPU_UTIL: u32 = 6;
    /// `SchedCpuUtilCfsFtraceEvent.exit_lat`.
    pub const EXIT_LAT: u32 = 7;
    /// `SchedCpuUtilCfsFtraceEvent.group_capacity`.
    pub const GROUP_CAPACITY: u32 = 8;
    /// `SchedCpuUtilCfsFtraceEvent.grp_overutilized`.
    pub const GRP_OVERUTILIZED: u32 = 9;
    /// `SchedCpuUtilCfsFtraceEvent.idle_cpu`.
    pub const IDLE_CPU: u32 = 10;
    /// `SchedCpuUtilCfsFtraceEvent.nr_running`.
    pub const NR_RUNNING: u32 = 11;
    /// `SchedCpuUtilCfsFtraceEvent.spare_cap`.
    pub const SPARE_CAP: u32 = 12;
    /// `SchedCpuUtilCfsFtraceEvent.task_fits`.
    pub const TASK_FITS: u32 = 13;
    /// `SchedCpuUtilCfsFtraceEvent.wake_group_util`.
    pub const WAKE_GROUP_UTIL: u32 = 14;
    /// `SchedCpuUtilCfsFtraceEvent.wake_util`.
    pub const WAKE_UTIL: u32 = 15;
}
/// Field numbers of `SchedMigrateTaskFtraceEvent`.
pub mod sched_migrate_task_ftrace_event {
    /// `SchedMigrateTaskFtraceEvent.comm`.
    pub const COMM: u32 = 1;
    /// `SchedMigrateTaskFtraceEvent.pid`.
    pub const PID: u32 = 2;
    /// `SchedMigrateTaskFtraceEvent.prio`.
    pub const PRIO: u32 = 3;
    /// `SchedMigrateTaskFtraceEvent.orig_cpu`.
    pub const ORIG_CPU: u32 = 4;
    /// `SchedMigrateTaskFtraceEvent.dest_cpu`.
    pub const DEST_CPU: u32 = 5;
    /// `SchedMigrateTaskFtraceEvent.running`.
    pub const RUNNING: u32 = 6;
    /// `SchedMigrateTaskFtraceEvent.load`.
    pub const LOAD: u32 = 7;
}
/// Field numbers of `SchedWakeupTaskAttrFtraceEvent`.
pub mod sched_wakeup_task_attr_ftrace_event {
    /// `SchedWakeupTaskAttrFtraceEvent.pid`.
    pub const PID: u32 = 1;
    /// `SchedWakeupTaskAttrFtraceEvent.cpu_affinity`.
    pub const CPU_AFFINITY: u32 = 2;
    /// `SchedWakeupTaskAttrFtraceEvent.task_util`.
    pub const TASK_UTIL: u32 = 3;
    /// `SchedWakeupTaskAttrFtraceEvent.uclamp_min`.
    pub const UCLAMP_MIN: u32 = 4;
    /// `SchedWakeupTaskAttrFtraceEvent.vruntime`.
    pub const VRUNTIME: u32 = 5;
    /// `SchedWakeupTaskAttrFtraceEvent.sched_qos_user_defined_flag`.
    pub const SCHED_QOS_USER_DEFINED_FLAG: u32 = 6;
    /// `SchedWakeupTaskAttrFtraceEvent.rampup_multiplier`.
    pub const RAMPUP_MULTIPLIER: u32 = 7;
    /// `SchedWakeupTaskAttrFtraceEvent.effect_rampup_multiplier`.
    pub const EFFECT_RAMPUP_MULTIPLIER: u32 = 8;
    /// `SchedWakeupTaskAttrFtraceEvent.tag_nice`.
    pub const TAG_NICE: u32 = 9;
}
/// Field numbers of `SchedGroupTrackerFtraceEvent`.
pub mod sched_group_tracker_ftrace_event {
    /// `SchedGroupTrackerFtraceEvent.comm`.
    pub const COMM: u32 = 1;
    /// `SchedGroupTrackerFtraceEvent.pid`.
    pub const PID: u32 = 2;
    /// `SchedGroupTrackerFtraceEvent.group`.
    pub const GROUP: u32 = 3;
    /// `SchedGroupTrackerFtraceEvent.group_num`.
    pub const GROUP_NUM: u32 = 4;
}
/// Field numbers of `TaskNewtaskFtraceEvent`.
pub mod task_newtask_ftrace_event {
    /// `TaskNewtaskFtraceEvent.pid`.
    pub const PID: u32 = 1;
    /// `TaskNewtaskFtraceEvent.comm`.
    pub const COMM: u32 = 2;
    /// `TaskNewtaskFtraceEvent.clone_flags`.
    pub const CLONE_FLAGS: u32 = 3;
    /// `TaskNewtaskFtraceEvent.oom_score_adj`.
    pub const OOM_SCORE_ADJ: u32 = 4;
}
/// Field numbers of `TaskRenameFtraceEvent`.
pub mod task_rename_ftrace_event {
    /// `TaskRenameFtraceEvent.pid`.
    pub const PID: u32 = 1;
    /// `TaskRenameFtraceEvent.oldcomm`.
    pub const OLDCOMM: u32 = 2;
    /// `TaskRenameFtraceEvent.newcomm`.
    pub const NEWCOMM: u32 = 3;
    /// `TaskRenameFtraceEvent.oom_score_adj`.
    pub const OOM_SCORE_ADJ: u32 = 4;
}
/// Field numbers of `FtraceEvent`.
pub mod ftrace_event {
    /// `FtraceEvent.timestamp`.
    pub const TIMESTAMP: u32 = 1;
    /// `FtraceEvent.pid`.
    pub const PID: u32 = 2;
    /// `FtraceEvent.common_flags`.
    pub const COMMON_FLAGS: u32 = 5;
    /// `FtraceEvent.print`.
    pub const PRINT: u32 = 3;
    /// `FtraceEvent.sched_switch`.
    pub const SCHED_SWITCH: u32 = 4;
    /// `FtraceEvent.cpu_frequency`.
    pub const CPU_FREQUENCY: u32 = 11;
    /// `FtraceEvent.cpu_frequency_limits`.
    pub const CPU_FREQUENCY_LIMITS: u32 = 12;
    /// `FtraceEvent.cpu_idle`.
    pub const CPU_IDLE: u32 = 13;
    /// `FtraceEvent.clock_enable`.
    pub const CLOCK_ENABLE: u32 = 14;
    /// `FtraceEvent.clock_disable`.
    pub const CLOCK_DISABLE: u32 = 15;
    /// `FtraceEvent.clock_set_rate`.
    pub const CLOCK_SET_RATE: u32 = 16;
    /// `FtraceEvent.sched_wakeup`.
    pub const SCHED_WAKEUP: u32 = 17;
    /// `FtraceEvent.sched_blocked_reason`.
    pub const SCHED_BLOCKED_REASON: u32 = 18;
    /// `FtraceEvent.sched_cpu_hotplug`.
    pub const SCHED_CPU_HOTPLUG: u32 = 19;
    /// `FtraceEvent.sched_waking`.
    pub const SCHED_WAKING: u32 = 20;
    /// `FtraceEvent.suspend_resume`.
    pub const SUSPEND_RESUME: u32 = 113;
    /// `FtraceEvent.sched_wakeup_new`.
    pub const SCHED_WAKEUP_NEW: u32 = 114;
    /// `FtraceEvent.task_newtask`.
    pub const TASK_NEWTASK: u32 = 235;
    /// `FtraceEvent.task_rename`.
    pub const TASK_RENAME: u32 = 236;
    /// `FtraceEvent.sched_process_exec`.
    pub const SCHED_PROCESS_EXEC: u32 = 237;
    /// `FtraceEvent.sched_process_exit`.
    pub const SCHED_PROCESS_EXIT: u32 = 238;
    /// `FtraceEvent.sched_process_fork`.
    pub const SCHED_PROCESS_FORK: u32 = 239;
    /// `FtraceEvent.sched_process_free`.
    pub const SCHED_PROCESS_FREE: u32 = 240;
    /// `FtraceEvent.sched_process_hang`.
    pub const SCHED_PROCESS_HANG: u32 = 241;
    /// `FtraceEvent.sched_process_wait`.
    pub const SCHED_PROCESS_WAIT: u32 = 242;
    /// `FtraceEvent.generic`.
    pub const GENERIC: u32 = 327;
    /// `FtraceEvent.gpu_frequency`.
    pub const GPU_FREQUENCY: u32 = 332;
    /// `FtraceEvent.sched_pi_setprio`.
    pub const SCHED_PI_SETPRIO: u32 = 353;
    /// `FtraceEvent.wakeup_source_activate`.
    pub const WAKEUP_SOURCE_ACTIVATE: u32 = 404;
    /// `FtraceEvent.wakeup_source_deactivate`.
    pub const WAKEUP_SOURCE_DEACTIVATE: u32 = 405;
    /// `FtraceEvent.sched_cpu_util_cfs`.
    pub const SCHED_CPU_UTIL_CFS: u32 = 421;
    /// `FtraceEvent.funcgraph_entry`.
    pub const FUNCGRAPH_ENTRY: u32 = 437;
    /// `FtraceEvent.funcgraph_exit`.
    pub const FUNCGRAPH_EXIT: u32 = 438;
    /// `FtraceEvent.gpu_work_period`.
    pub const GPU_WORK_PERIOD: u32 = 488;
    /// `FtraceEvent.sched_migrate_task`.
    pub const SCHED_MIGRATE_TASK: u32 = 491;
    /// `FtraceEvent.device_pm_callback_start`.
    pub const DEVICE_PM_CALLBACK_START: u32 = 504;
    /// `FtraceEvent.device_pm_callback_end`.
    pub const DEVICE_PM_CALLBACK_END: u32 = 505;
    /// `FtraceEvent.sched_wakeup_task_attr`.
    pub const SCHED_WAKEUP_TASK_ATTR: u32 = 540;
    /// `FtraceEvent.kprobe_event`.
    pub const KPROBE_EVENT: u32 = 542;
    /// `FtraceEvent.gpu_power_state`.
    pub const GPU_POWER_STATE: u32 = 601;
    /// `FtraceEvent.sched_group_tracker`.
    pub const SCHED_GROUP_TRACKER: u32 = 604;
    /// `FtraceEvent.psci_domain_idle_exit`.
    pub const PSCI_DOMAIN_IDLE_EXIT: u32 = 614;
    /// `FtraceEvent.psci_domain_idle_enter`.
    pub const PSCI_DOMAIN_IDLE_ENTER: u32 = 615;
}
/// Field numbers of `FtraceCpuStats`.
pub mod ftrace_cpu_stats {
    /// `FtraceCpuStats.cpu`.
    pub const CPU: u32 = 1;
    /// `FtraceCpuStats.entries`.
    pub const ENTRIES: u32 = 2;
    /// `FtraceCpuStats.overrun`.
    pub const OVERRUN: u32 = 3;
    /// `FtraceCpuStats.commit_overrun`.
    pub const COMMIT_OVERRUN: u32 = 4;
    /// `FtraceCpuStats.bytes_read`.
    pub const BYTES_READ: u32 = 5;
    /// `FtraceCpuStats.oldest_event_ts`.
    pub const OLDEST_EVENT_TS: u32 = 6;
    /// `FtraceCpuStats.now_ts`.
    pub const NOW_TS: u32 = 7;
    /// `FtraceCpuStats.dropped_events`.
    pub const DROPPED_EVENTS: u32 = 8;
    /// `FtraceCpuStats.read_events`.
    pub const READ_EVENTS: u32 = 9;
}
/// Field numbers of `FtraceKprobeStats`.
pub mod ftrace_kprobe_stats {
    /// `FtraceKprobeStats.hits`.
    pub const HITS: u32 = 1;
    /// `FtraceKprobeStats.misses`.
    pub const MISSES: u32 = 2;
}
/// Field numbers of `FtraceStats`.
pub mod ftrace_stats {
    /// `FtraceStats.phase`.
    pub const PHASE: u32 = 1;
    /// `FtraceStats.cpu_stats`.
    pub const CPU_STATS: u32 = 2;
    /// `FtraceStats.kernel_symbols_parsed`.
    pub const KERNEL_SYMBOLS_PARSED: u32 = 3;
    /// `FtraceStats.kernel_symbols_mem_kb`.
    pub const KERNEL_SYMBOLS_MEM_KB: u32 = 4;
    /// `FtraceStats.atrace_errors`.
    pub const ATRACE_ERRORS: u32 = 5;
    /// `FtraceStats.exclusive_feature_error`.
    pub const EXCLUSIVE_FEATURE_ERROR: u32 = 13;
    /// `FtraceStats.unknown_ftrace_events`.
    pub const UNKNOWN_FTRACE_EVENTS: u32 = 6;
    /// `FtraceStats.failed_ftrace_events`.
    pub const FAILED_FTRACE_EVENTS: u32 = 7;
    /// `FtraceStats.preserve_ftrace_buffer`.
    pub const PRESERVE_FTRACE_BUFFER: u32 = 8;
    /// `FtraceStats.ftrace_parse_errors`.
    pub const FTRACE_PARSE_ERRORS: u32 = 9;
    /// `FtraceStats.kprobe_stats`.
    pub const KPROBE_STATS: u32 = 10;
    /// `FtraceStats.cpu_buffer_size_pages`.
    pub const CPU_BUFFER_SIZE_PAGES: u32 = 11;
    /// `FtraceStats.cached_cpu_buffer_size_pages`.
    pub const CACHED_CPU_BUFFER_SIZE_PAGES: u32 = 12;
}
/// Field numbers of `FtraceEventBundle`.
pub mod ftrace_event_bundle {
    /// `FtraceEventBundle.cpu`.
    pub const CPU: u32 = 1;
    /// `FtraceEventBundle.event`.
    pub const EVENT: u32 = 2;
    /// `FtraceEventBundle.lost_events`.
    pub const LOST_EVENTS: u32 = 3;
    /// `FtraceEventBundle.compact_sched`.
    pub const COMPACT_SCHED: u32 = 4;
    /// `FtraceEventBundle.ftrace_clock`.
    pub const FTRACE_CLOCK: u32 = 5;
    /// `FtraceEventBundle.ftrace_timestamp`.
    pub const FTRACE_TIMESTAMP: u32 = 6;
    /// `FtraceEventBundle.boot_timestamp`.
    pub const BOOT_TIMESTAMP: u32 = 7;
    /// `FtraceEventBundle.error`.
    pub const ERROR: u32 = 8;
    /// `FtraceEventBundle.last_read_event_timestamp`.
    pub const LAST_READ_EVENT_TIMESTAMP: u32 = 9;
    /// `FtraceEventBundle.previous_bundle_end_timestamp`.
    pub const PREVIOUS_BUNDLE_END_TIMESTAMP: u32 = 10;
    /// `FtraceEventBundle.generic_event_descriptors`.
    pub const GENERIC_EVENT_DESCRIPTORS: u32 = 11;
    /// `FtraceEventBundle.broken_abi_trace_page`.
    pub const BROKEN_ABI_TRACE_PAGE: u32 = 512;
    /// Field numbers of `CompactSched`.
    pub mod compact_sched {
        /// `CompactSched.intern_table`.
        pub const INTERN_TABLE: u32 = 5;
        /// `CompactSched.switch_timestamp`.
        pub const SWITCH_TIMESTAMP: u32 = 1;
        /// `CompactSched.switch_prev_state`.
        pub const SWITCH_PREV_STATE: u32 = 2;
        /// `CompactSched.switch_next_pid`.
        pub const SWITCH_NEXT_PID: u32 = 3;
        /// `CompactSched.switch_next_prio`.
        pub const SWITCH_NEXT_PRIO: u32 = 4;
        /// `CompactSched.switch_next_comm_index`.
        pub const SWITCH_NEXT_COMM_INDEX: u32 = 6;
        /// `CompactSched.waking_timestamp`.
        pub const WAKING_TIMESTAMP: u32 = 7;
        /// `CompactSched.waking_pid`.
        pub const WAKING_PID: u32 = 8;
        /// `CompactSched.waking_target_cpu`.
        pub const WAKING_TARGET_CPU: u32 = 9;
        /// `CompactSched.waking_prio`.
        pub const WAKING_PRIO: u32 = 10;
        /// `CompactSched.waking_comm_index`.
        pub const WAKING_COMM_INDEX: u32 = 11;
        /// `CompactSched.waking_common_flags`.
        pub const WAKING_COMMON_FLAGS: u32 = 12;
    }
    /// Field numbers of `FtraceError`.
    pub mod ftrace_error {
        /// `FtraceError.timestamp`.
        pub const TIMESTAMP: u32 = 1;
        /// `FtraceError.status`.
        pub const STATUS: u32 = 2;
    }
    /// Field numbers of `GenericEventDescriptor`.
    pub mod generic_event_descriptor {
        /// `GenericEventDescriptor.field_id`.
        pub const FIELD_ID: u32 = 1;
        /// `GenericEventDescriptor.group_name`.
        pub const GROUP_NAME: u32 = 3;
        /// `GenericEventDescriptor.event_descriptor`.
        pub const EVENT_DESCRIPTOR: u32 = 2;
    }
}
/// Field numbers of `InternedString`.
pub mod interned_string {
    /// `InternedString.iid`.
    pub const IID: u32 = 1;
    /// `InternedString.str`.
    pub const STR: u32 = 2;
}
/// Field numbers of `Line`.
pub mod line {
    /// `Line.function_name`.
    pub const FUNCTION_NAME: u32 = 1;
    /// `Line.source_file_name`.
    pub const SOURCE_FILE_NAME: u32 = 2;
    /// `Line.line_number`.
    pub const LINE_NUMBER: u32 = 3;
}
/// Field numbers of `AddressSymbols`.
pub mod address_symbols {
    /// `AddressSymbols.address`.
    pub const ADDRESS: u32 = 1;
    /// `AddressSymbols.lines`.
    pub const LINES: u32 = 2;
}
/// Field numbers of `ModuleSymbols`.
pub mod module_symbols {
    /// `ModuleSymbols.path`.
    pub const PATH: u32 = 1;
    /// `ModuleSymbols.build_id`.
    pub const BUILD_ID: u32 = 2;
    /// `ModuleSymbols.address_symbols`.
    pub const ADDRESS_SYMBOLS: u32 = 3;
}
/// Field numbers of `Mapping`.
pub mod mapping {
    /// `Mapping.iid`.
    pub const IID: u32 = 1;
    /// `Mapping.build_id`.
    pub const BUILD_ID: u32 = 2;
    /// `Mapping.exact_offset`.
    pub const EXACT_OFFSET: u32 = 8;
    /// `Mapping.start_offset`.
    pub const START_OFFSET: u32 = 3;
    /// `Mapping.start`.
    pub const START: u32 = 4;
    /// `Mapping.end`.
    pub const END: u32 = 5;
    /// `Mapping.load_bias`.
    pub const LOAD_BIAS: u32 = 6;
    /// `Mapping.path_string_ids`.
    pub const PATH_STRING_IDS: u32 = 7;
}
/// Field numbers of `Frame`.
pub mod frame {
    /// `Frame.iid`.
    pub const IID: u32 = 1;
    /// `Frame.function_name_id`.
    pub const FUNCTION_NAME_ID: u32 = 2;
    /// `Frame.mapping_id`.
    pub const MAPPING_ID: u32 = 3;
    /// `Frame.rel_pc`.
    pub const REL_PC: u32 = 4;
    /// `Frame.source_path_iid`.
    pub const SOURCE_PATH_IID: u32 = 5;
    /// `Frame.line_number`.
    pub const LINE_NUMBER: u32 = 6;
    /// `Frame.kind`.
    pub const KIND: u32 = 7;
    /// `Frame.kind_str`.
    pub const KIND_STR: u32 = 8;
}
/// Field numbers of `Callstack`.
pub mod callstack {
    /// `Callstack.iid`.
    pub const IID: u32 = 1;
    /// `Callstack.frame_ids`.
    pub const FRAME_IDS: u32 = 2;
}
/// Field numbers of `InlineCallstack`.
pub mod inline_callstack {
    /// `InlineCallstack.frames`.
    pub const FRAMES: u32 = 1;
    /// Field numbers of `Frame`.
    pub mod frame {
        /// `Frame.function_name`.
        pub const FUNCTION_NAME: u32 = 1;
        /// `Frame.source_file`.
        pub const SOURCE_FILE: u32 = 2;
        /// `Frame.line_number`.
        pub const LINE_NUMBER: u32 = 3;
    }
}
/// Field numbers of `StackSample`.
pub mod stack_sample {
    /// `StackSample.task_context`.
    pub const TASK_CONTEXT: u32 = 1;
    /// `StackSample.task_context_iid`.
    pub const TASK_CONTEXT_IID: u32 = 2;
    /// `StackSample.execution_context`.
    pub const EXECUTION_CONTEXT: u32 = 3;
    /// `StackSample.execution_context_iid`.
    pub const EXECUTION_CONTEXT_IID: u32 = 4;
    /// `StackSample.callstack`.
    pub const CALLSTACK: u32 = 5;
    /// `StackSample.callstack_iid`.
    pub const CALLSTACK_IID: u32 = 6;
    /// `StackSample.unwind_error`.
    pub const UNWIND_ERROR: u32 = 7;
    /// `StackSample.unwind_error_iid`.
    pub const UNWIND_ERROR_IID: u32 = 8;
    /// `StackSample.primary_descriptor`.
    pub const PRIMARY_DESCRIPTOR: u32 = 9;
    /// `StackSample.primary_descriptor_iid`.
    pub const PRIMARY_DESCRIPTOR_IID: u32 = 10;
    /// `StackSample.primary_weight`.
    pub const PRIMARY_WEIGHT: u32 = 11;
    /// `StackSample.follower_descriptors`.
    pub const FOLLOWER_DESCRIPTORS: u32 = 12;
    /// `StackSample.follower_descriptor_iids`.
    pub const FOLLOWER_DESCRIPTOR_IIDS: u32 = 13;
    /// `StackSample.follower_weights`.
    pub const FOLLOWER_WEIGHTS: u32 = 14;
    /// Field numbers of `TaskContext`.
    pub mod task_context {
        /// `TaskContext.iid`.
        pub const IID: u32 = 1;
        /// `TaskContext.pid`.
        pub const PID: u32 = 2;
        /// `TaskContext.tid`.
        pub const TID: u32 = 3;
        /// `TaskContext.async_id`.
        pub const ASYNC_ID: u32 = 4;
    }
    /// Field numbers of `AsyncContextDescriptor`.
    pub mod async_context_descriptor {
        /// `AsyncContextDescriptor.iid`.
        pub const IID: u32 = 1;
        /// `AsyncContextDescriptor.name`.
        pub const NAME: u32 = 2;
        /// `AsyncContextDescriptor.kind`.
        pub const KIND: u32 = 3;
        /// `AsyncContextDescriptor.parent_iid`.
        pub const PARENT_IID: u32 = 4;
    }
    /// Field numbers of `ExecutionContext`.
    pub mod execution_context {
        /// `ExecutionContext.iid`.
        pub const IID: u32 = 1;
        /// `ExecutionContext.cpu`.
        pub const CPU: u32 = 2;
        /// `ExecutionContext.mode`.
        pub const MODE: u32 = 3;
    }
    /// Field numbers of `CounterDescriptor`.
    pub mod counter_descriptor {
        /// `CounterDescriptor.iid`.
        pub const IID: u32 = 1;
        /// `CounterDescriptor.name`.
        pub const NAME: u32 = 2;
        /// `CounterDescriptor.unit`.
        pub const UNIT: u32 = 3;
        /// `CounterDescriptor.unit_str`.
        pub const UNIT_STR: u32 = 4;
        /// `CounterDescriptor.unit_multiplier`.
        pub const UNIT_MULTIPLIER: u32 = 5;
        /// `CounterDescriptor.description`.
        pub const DESCRIPTION: u32 = 6;
        /// `CounterDescriptor.scope`.
        pub const SCOPE: u32 = 7;
    }
}
/// Field numbers of `StackSampleDefaults`.
pub mod stack_sample_defaults {
    /// `StackSampleDefaults.source`.
    pub const SOURCE: u32 = 1;
    /// `StackSampleDefaults.primary_descriptor`.
    pub const PRIMARY_DESCRIPTOR: u32 = 2;
    /// `StackSampleDefaults.follower_descriptors`.
    pub const FOLLOWER_DESCRIPTORS: u32 = 3;
}
/// Field numbers of `DebugAnnotation`.
pub mod debug_annotation {
    /// `DebugAnnotation.name_iid`.
    pub const NAME_IID: u32 = 1;
    /// `DebugAnnotation.name`.
    pub const NAME: u32 = 10;
    /// `DebugAnnotation.bool_value`.
    pub const BOOL_VALUE: u32 = 2;
    /// `DebugAnnotation.uint_value`.
    pub const UINT_VALUE: u32 = 3;
    /// `DebugAnnotation.int_value`.
    pub const INT_VALUE: u32 = 4;
    /// `DebugAnnotation.double_value`.
    pub const DOUBLE_VALUE: u32 = 5;
    /// `DebugAnnotation.pointer_value`.
    pub const POINTER_VALUE: u32 = 7;
    /// `DebugAnnotation.nested_value`.
    pub const NESTED_VALUE: u32 = 8;
    /// `DebugAnnotation.legacy_json_value`.
    pub const LEGACY_JSON_VALUE: u32 = 9;
    /// `DebugAnnotation.string_value`.
    pub const STRING_VALUE: u32 = 6;
    /// `DebugAnnotation.string_value_iid`.
    pub const STRING_VALUE_IID: u32 = 17;
    /// `DebugAnnotation.proto_type_name`.
    pub const PROTO_TYPE_NAME: u32 = 16;
    /// `DebugAnnotation.proto_type_name_iid`.
    pub const PROTO_TYPE_NAME_IID: u32 = 13;
    /// `DebugAnnotation.proto_value`.
    pub const PROTO_VALUE: u32 = 14;
    /// `DebugAnnotation.dict_entries`.
    pub const DICT_ENTRIES: u32 = 11;
    /// `DebugAnnotation.array_values`.
    pub const ARRAY_VALUES: u32 = 12;
    /// Field numbers of `NestedValue`.
    pub mod nested_value {
        /// `NestedValue.nested_type`.
        pub const NESTED_TYPE: u32 = 1;
        /// `NestedValue.dict_keys`.
        pub const DICT_KEYS: u32 = 2;
        /// `NestedValue.dict_values`.
        pub const DICT_VALUES: u32 = 3;
        /// `NestedValue.array_values`.
        pub const ARRAY_VALUES: u32 = 4;
        /// `NestedValue.int_value`.
        pub const INT_VALUE: u32 = 5;
        /// `NestedValue.double_value`.
        pub const DOUBLE_VALUE: u32 = 6;
        /// `NestedValue.bool_value`.
        pub const BOOL_VALUE: u32 = 7;
        /// `NestedValue.string_value`.
        pub const STRING_VALUE: u32 = 8;
    }
}
/// Field numbers of `DebugAnnotationName`.
pub mod debug_annotation_name {
    /// `DebugAnnotationName.iid`.
    pub const IID: u32 = 1;
    /// `DebugAnnotationName.name`.
    pub const NAME: u32 = 2;
}
/// Field numbers of `DebugAnnotationValueTypeName`.
pub mod debug_annotation_value_type_name {
    /// `DebugAnnotationValueTypeName.iid`.
    pub const IID: u32 = 1;
    /// `DebugAnnotationValueTypeName.name`.
    pub const NAME: u32 = 2;
}
/// Field numbers of `LogMessage`.
pub mod log_message {
    /// `LogMessage.source_location_iid`.
    pub const SOURCE_LOCATION_IID: u32 = 1;
    /// `LogMessage.body_iid`.
    pub const BODY_IID: u32 = 2;
    /// `LogMessage.prio`.
    pub const PRIO: u32 = 3;
}
/// Field numbers of `LogMessageBody`.
pub mod log_message_body {
    /// `LogMessageBody.iid`.
    pub const IID: u32 = 1;
    /// `LogMessageBody.body`.
    pub const BODY: u32 = 2;
}
/// Field numbers of `SourceLocation`.
pub mod source_location {
    /// `SourceLocation.iid`.
    pub const IID: u32 = 1;
    /// `SourceLocation.file_name`.
    pub const FILE_NAME: u32 = 2;
    /// `SourceLocation.function_name`.
    pub const FUNCTION_NAME: u32 = 3;
    /// `SourceLocation.line_number`.
    pub const LINE_NUMBER: u32 = 4;
}
/// Field numbers of `TaskExecution`.
pub mod task_execution {
    /// `TaskExecution.posted_from_iid`.
    pub const POSTED_FROM_IID: u32 = 1;
}
/// Field numbers of `TrackEvent`.
pub mod track_event {
    /// `TrackEvent.category_iids`.
    pub const CATEGORY_IIDS: u32 = 3;
    /// `TrackEvent.categories`.
    pub const CATEGORIES: u32 = 22;
    /// `TrackEvent.name_iid`.
    pub const NAME_IID: u32 = 10;
    /// `TrackEvent.name`.
    pub const NAME: u32 = 23;
    /// `TrackEvent.type`.
    pub const TYPE: u32 = 9;
    /// `TrackEvent.track_uuid`.
    pub const TRACK_UUID: u32 = 11;
    /// `TrackEvent.counter_value`.
    pub const COUNTER_VALUE: u32 = 30;
    /// `TrackEvent.double_counter_value`.
    pub const DOUBLE_COUNTER_VALUE: u32 = 44;
    /// `TrackEvent.extra_counter_track_uuids`.
    pub const EXTRA_COUNTER_TRACK_UUIDS: u32 = 31;
    /// `TrackEvent.extra_counter_values`.
    pub const EXTRA_COUNTER_VALUES: u32 = 12;
    /// `TrackEvent.extra_double_counter_track_uuids`.
    pub const EXTRA_DOUBLE_COUNTER_TRACK_UUIDS: u32 = 45;
    /// `TrackEvent.extra_double_counter_values`.
    pub const EXTRA_DOUBLE_COUNTER_VALUES: u32 = 46;
    /// `TrackEvent.flow_ids_old`.
    pub const FLOW_IDS_OLD: u32 = 36;
    /// `TrackEvent.flow_ids`.
    pub const FLOW_IDS: u32 = 47;
    /// `TrackEvent.terminating_flow_ids_old`.
    pub const TERMINATING_FLOW_IDS_OLD: u32 = 42;
    /// `TrackEvent.terminating_flow_ids`.
    pub const TERMINATING_FLOW_IDS: u32 = 48;
    /// `TrackEvent.correlation_id`.
    pub const CORRELATION_ID: u32 = 52;
    /// `TrackEvent.correlation_id_str`.
    pub const CORRELATION_ID_STR: u32 = 53;
    /// `TrackEvent.correlation_id_str_iid`.
    pub const CORRELATION_ID_STR_IID: u32 = 54;
    /// `TrackEvent.callstack`.
    pub const CALLSTACK: u32 = 55;
    /// `TrackEvent.callstack_iid`.
    pub const CALLSTACK_IID: u32 = 56;
    /// `TrackEvent.callstack_weight`.
    pub const CALLSTACK_WEIGHT: u32 = 57;
    /// `TrackEvent.debug_annotations`.
    pub const DEBUG_ANNOTATIONS: u32 = 4;
    /// `TrackEvent.task_execution`.
    pub const TASK_EXECUTION: u32 = 5;
    /// `TrackEvent.log_message`.
    pub const LOG_MESSAGE: u32 = 21;
    /// `TrackEvent.source_location`.
    pub const SOURCE_LOCATION: u32 = 33;
    /// `TrackEvent.source_location_iid`.
    pub const SOURCE_LOCATION_IID: u32 = 34;
    /// `TrackEvent.timestamp_delta_us`.
    pub const TIMESTAMP_DELTA_US: u32 = 1;
    /// `TrackEvent.timestamp_absolute_us`.
    pub const TIMESTAMP_ABSOLUTE_US: u32 = 16;
    /// `TrackEvent.thread_time_delta_us`.
    pub const THREAD_TIME_DELTA_US: u32 = 2;
    /// `TrackEvent.thread_time_absolute_us`.
    pub const THREAD_TIME_ABSOLUTE_US: u32 = 17;
    /// `TrackEvent.thread_instruction_count_delta`.
    pub const THREAD_INSTRUCTION_COUNT_DELTA: u32 = 8;
    /// `TrackEvent.thread_instruction_count_absolute`.
    pub const THREAD_INSTRUCTION_COUNT_ABSOLUTE: u32 = 20;
    /// `TrackEvent.legacy_event`.
    pub const LEGACY_EVENT: u32 = 6;
    /// Field numbers of `InlineCallstack`.
    pub mod inline_callstack {
        /// `InlineCallstack.frames`.
        pub const FRAMES: u32 = 1;
        /// Field numbers of `Frame`.
        pub mod frame {
            /// `Frame.function_name`.
            pub const FUNCTION_NAME: u32 = 1;
            /// `Frame.source_file`.
            pub const SOURCE_FILE: u32 = 2;
            /// `Frame.line_number`.
            pub const LINE_NUMBER: u32 = 3;
        }
    }
    /// Field numbers of `LegacyEvent`.
    pub mod legacy_event {
        /// `LegacyEvent.name_iid`.
        pub const NAME_IID: u32 = 1;
        /// `LegacyEvent.phase`.
        pub const PHASE: u32 = 2;
        /// `LegacyEvent.duration_us`.
        pub const DURATION_US: u32 = 3;
        /// `LegacyEvent.thread_duration_us`.
        pub const THREAD_DURATION_US: u32 = 4;
        /// `LegacyEvent.thread_instruction_delta`.
        pub const THREAD_INSTRUCTION_DELTA: u32 = 15;
        /// `LegacyEvent.unscoped_id`.
        pub const UNSCOPED_ID: u32 = 6;
        /// `LegacyEvent.local_id`.
        pub const LOCAL_ID: u32 = 10;
        /// `LegacyEvent.global_id`.
        pub const GLOBAL_ID: u32 = 11;
        /// `LegacyEvent.id_scope`.
        pub const ID_SCOPE: u32 = 7;
        /// `LegacyEvent.use_async_tts`.
        pub const USE_ASYNC_TTS: u32 = 9;
        /// `LegacyEvent.bind_id`.
        pub const BIND_ID: u32 = 8;
        /// `LegacyEvent.bind_to_enclosing`.
        pub const BIND_TO_ENCLOSING: u32 = 12;
        /// `LegacyEvent.flow_direction`.
        pub const FLOW_DIRECTION: u32 = 13;
        /// `LegacyEvent.instant_event_scope`.
        pub const INSTANT_EVENT_SCOPE: u32 = 14;
        /// `LegacyEvent.pid_override`.
        pub const PID_OVERRIDE: u32 = 18;
        /// `LegacyEvent.tid_override`.
        pub const TID_OVERRIDE: u32 = 19;
    }
}
/// Field numbers of `TrackEventDefaults`.
pub mod track_event_defaults {
    /// `TrackEventDefaults.track_uuid`.
    pub const TRACK_UUID: u32 = 11;
    /// `TrackEventDefaults.extra_counter_track_uuids`.
    pub const EXTRA_COUNTER_TRACK_UUIDS: u32 = 31;
    /// `TrackEventDefaults.extra_double_counter_track_uuids`.
    pub const EXTRA_DOUBLE_COUNTER_TRACK_UUIDS: u32 = 45;
}
/// Field numbers of `EventCategory`.
pub mod event_category {
    /// `EventCategory.iid`.
    pub const IID: u32 = 1;
    /// `EventCategory.name`.
    pub const NAME: u32 = 2;
}
/// Field numbers of `EventName`.
pub mod event_name {
    /// `EventName.iid`.
    pub const IID: u32 = 1;
    /// `EventName.name`.
    pub const NAME: u32 = 2;
}
/// Field numbers of `InternedData`.
pub mod interned_data {
    /// `InternedData.event_categories`.
    pub const EVENT_CATEGORIES: u32 = 1;
    /// `InternedData.event_names`.
    pub const EVENT_NAMES: u32 = 2;
    /// `InternedData.debug_annotation_names`.
    pub const DEBUG_ANNOTATION_NAMES: u32 = 3;
    /// `InternedData.debug_annotation_value_type_names`.
    pub const DEBUG_ANNOTATION_VALUE_TYPE_NAMES: u32 = 27;
    /// `InternedData.debug_annotation_string_values`.
    pub const DEBUG_ANNOTATION_STRING_VALUES: u32 = 29;
    /// `InternedData.correlation_id_str`.
    pub const CORRELATION_ID_STR: u32 = 43;
    /// `InternedData.build_ids`.
    pub const BUILD_IDS: u32 = 16;
    /// `InternedData.mapping_paths`.
    pub const MAPPING_PATHS: u32 = 17;
    /// `InternedData.source_paths`.
    pub const SOURCE_PATHS: u32 = 18;
    /// `InternedData.function_names`.
    pub const FUNCTION_NAMES: u32 = 5;
    /// `InternedData.mappings`.
    pub const MAPPINGS: u32 = 19;
    /// `InternedData.frames`.
    pub const FRAMES: u32 = 6;
    /// `InternedData.callstacks`.
    pub const CALLSTACKS: u32 = 7;
    /// `InternedData.stack_sample_task_contexts`.
    pub const STACK_SAMPLE_TASK_CONTEXTS: u32 = 48;
    /// `InternedData.stack_sample_execution_contexts`.
    pub const STACK_SAMPLE_EXECUTION_CONTEXTS: u32 = 49;
    /// `InternedData.stack_sample_counter_descriptors`.
    pub const STACK_SAMPLE_COUNTER_DESCRIPTORS: u32 = 50;
    /// `InternedData.stack_sample_async_context_descriptors`.
    pub const STACK_SAMPLE_ASYNC_CONTEXT_DESCRIPTORS: u32 = 51;
    /// `InternedData.source_locations`.
    pub const SOURCE_LOCATIONS: u32 = 4;
    /// `InternedData.log_message_body`.
    pub const LOG_MESSAGE_BODY: u32 = 20;
    /// `InternedData.kernel_symbols`.
    pub const KERNEL_SYMBOLS: u32 = 26;
}
/// Field numbers of `SystemdJournaldEvent`.
pub mod systemd_journald_event {
    /// `SystemdJournaldEvent.pid`.
    pub const PID: u32 = 1;
    /// `SystemdJournaldEvent.tid`.
    pub const TID: u32 = 2;
    /// `SystemdJournaldEvent.uid`.
    pub const UID: u32 = 3;
    /// `SystemdJournaldEvent.gid`.
    pub const GID: u32 = 4;
    /// `SystemdJournaldEvent.prio`.
    pub const PRIO: u32 = 5;
    /// `SystemdJournaldEvent.tag`.
    pub const TAG: u32 = 6;
    /// `SystemdJournaldEvent.message`.
    pub const MESSAGE: u32 = 7;
    /// `SystemdJournaldEvent.comm`.
    pub const COMM: u32 = 8;
    /// `SystemdJournaldEvent.exe`.
    pub const EXE: u32 = 9;
    /// `SystemdJournaldEvent.systemd_unit`.
    pub const SYSTEMD_UNIT: u32 = 10;
    /// `SystemdJournaldEvent.hostname`.
    pub const HOSTNAME: u32 = 11;
    /// `SystemdJournaldEvent.transport`.
    pub const TRANSPORT: u32 = 12;
    /// `SystemdJournaldEvent.num_total`.
    pub const NUM_TOTAL: u32 = 20;
    /// `SystemdJournaldEvent.num_failed`.
    pub const NUM_FAILED: u32 = 21;
}
/// Field numbers of `ConcurrentSessionEvent`.
pub mod concurrent_session_event {
    /// `ConcurrentSessionEvent.state`.
    pub const STATE: u32 = 1;
    /// `ConcurrentSessionEvent.session_name`.
    pub const SESSION_NAME: u32 = 2;
    /// `ConcurrentSessionEvent.session_id`.
    pub const SESSION_ID: u32 = 3;
    /// `ConcurrentSessionEvent.consumer_uid`.
    pub const CONSUMER_UID: u32 = 4;
    /// `ConcurrentSessionEvent.num_data_sources`.
    pub const NUM_DATA_SOURCES: u32 = 5;
}
/// Field numbers of `RecoveredTraceInfo`.
pub mod recovered_trace_info {
    /// `RecoveredTraceInfo.reason`.
    pub const REASON: u32 = 1;
    /// `RecoveredTraceInfo.original_file_size_bytes`.
    pub const ORIGINAL_FILE_SIZE_BYTES: u32 = 2;
    /// `RecoveredTraceInfo.bytes_truncated`.
    pub const BYTES_TRUNCATED: u32 = 3;
}
/// Field numbers of `TraceProvenance`.
pub mod trace_provenance {
    /// `TraceProvenance.buffers`.
    pub const BUFFERS: u32 = 2;
    /// Field numbers of `Sequence`.
    pub mod sequence {
        /// `Sequence.id`.
        pub const ID: u32 = 1;
        /// `Sequence.producer_id`.
        pub const PRODUCER_ID: u32 = 2;
    }
    /// Field numbers of `Buffer`.
    pub mod buffer {
        /// `Buffer.sequences`.
        pub const SEQUENCES: u32 = 1;
    }
}
/// Field numbers of `TracingServiceEvent`.
pub mod tracing_service_event {
    /// `TracingServiceEvent.tracing_started`.
    pub const TRACING_STARTED: u32 = 2;
    /// `TracingServiceEvent.all_data_sources_started`.
    pub const ALL_DATA_SOURCES_STARTED: u32 = 1;
    /// `TracingServiceEvent.flush_started`.
    pub const FLUSH_STARTED: u32 = 9;
    /// `TracingServiceEvent.all_data_sources_flushed`.
    pub const ALL_DATA_SOURCES_FLUSHED: u32 = 3;
    /// `TracingServiceEvent.read_tracing_buffers_completed`.
    pub const READ_TRACING_BUFFERS_COMPLETED: u32 = 4;
    /// `TracingServiceEvent.tracing_disabled`.
    pub const TRACING_DISABLED: u32 = 5;
    /// `TracingServiceEvent.seized_for_bugreport`.
    pub const SEIZED_FOR_BUGREPORT: u32 = 6;
    /// `TracingServiceEvent.slow_starting_data_sources`.
    pub const SLOW_STARTING_DATA_SOURCES: u32 = 7;
    /// `TracingServiceEvent.last_flush_slow_data_sources`.
    pub const LAST_FLUSH_SLOW_DATA_SOURCES: u32 = 8;
    /// `TracingServiceEvent.clone_started`.
    pub const CLONE_STARTED: u32 = 10;
    /// `TracingServiceEvent.buffer_cloned`.
    pub const BUFFER_CLONED: u32 = 11;
    /// Field numbers of `DataSources`.
    pub mod data_sources {
        /// `DataSources.data_source`.
        pub const DATA_SOURCE: u32 = 1;
        /// Field numbers of `DataSource`.
        pub mod data_source {
            /// `DataSource.producer_name`.
            pub const PRODUCER_NAME: u32 = 1;
            /// `DataSource.data_source_name`.
            pub const DATA_SOURCE_NAME: u32 = 2;
        }
    }
}
/// Field numbers of `BatteryCounters`.
pub mod battery_counters {
    /// `BatteryCounters.charge_counter_uah`.
    pub const CHARGE_COUNTER_UAH: u32 = 1;
    /// `BatteryCounters.capacity_percent`.
    pub const CAPACITY_PERCENT: u32 = 2;
    /// `BatteryCounters.current_ua`.
    pub const CURRENT_UA: u32 = 3;
    /// `BatteryCounters.current_avg_ua`.
    pub const CURRENT_AVG_UA: u32 = 4;
    /// `BatteryCounters.name`.
    pub const NAME: u32 = 5;
    /// `BatteryCounters.energy_counter_uwh`.
    pub const ENERGY_COUNTER_UWH: u32 = 6;
    /// `BatteryCounters.voltage_uv`.
    pub const VOLTAGE_UV: u32 = 7;
}
/// Field numbers of `ObfuscatedMember`.
pub mod obfuscated_member {
    /// `ObfuscatedMember.obfuscated_name`.
    pub const OBFUSCATED_NAME: u32 = 1;
    /// `ObfuscatedMember.deobfuscated_name`.
    pub const DEOBFUSCATED_NAME: u32 = 2;
    /// `ObfuscatedMember.obfuscated_line_start`.
    pub const OBFUSCATED_LINE_START: u32 = 3;
    /// `ObfuscatedMember.obfuscated_line_end`.
    pub const OBFUSCATED_LINE_END: u32 = 4;
    /// `ObfuscatedMember.source_line_start`.
    pub const SOURCE_LINE_START: u32 = 5;
    /// `ObfuscatedMember.source_line_end`.
    pub const SOURCE_LINE_END: u32 = 6;
}
/// Field numbers of `ObfuscatedClass`.
pub mod obfuscated_class {
    /// `ObfuscatedClass.obfuscated_name`.
    pub const OBFUSCATED_NAME: u32 = 1;
    /// `ObfuscatedClass.deobfuscated_name`.
    pub const DEOBFUSCATED_NAME: u32 = 2;
    /// `ObfuscatedClass.obfuscated_members`.
    pub const OBFUSCATED_MEMBERS: u32 = 3;
    /// `ObfuscatedClass.obfuscated_methods`.
    pub const OBFUSCATED_METHODS: u32 = 4;
    /// `ObfuscatedClass.merged_classes`.
    pub const MERGED_CLASSES: u32 = 5;
    /// Field numbers of `MergedClass`.
    pub mod merged_class {
        /// `MergedClass.name`.
        pub const NAME: u32 = 1;
        /// `MergedClass.class_id`.
        pub const CLASS_ID: u32 = 2;
        /// `MergedClass.merged_classes`.
        pub const MERGED_CLASSES: u32 = 3;
    }
    /// Field numbers of `MergedClasses`.
    pub mod merged_classes {
        /// `MergedClasses.class_id_field_name`.
        pub const CLASS_ID_FIELD_NAME: u32 = 1;
        /// `MergedClasses.merged_classes`.
        pub const MERGED_CLASSES: u32 = 2;
        /// `MergedClasses.unknown_merged_classes`.
        pub const UNKNOWN_MERGED_CLASSES: u32 = 3;
    }
}
/// Field numbers of `DeobfuscationMapping`.
pub mod deobfuscation_mapping {
    /// `DeobfuscationMapping.package_name`.
    pub const PACKAGE_NAME: u32 = 1;
    /// `DeobfuscationMapping.version_code`.
    pub const VERSION_CODE: u32 = 2;
    /// `DeobfuscationMapping.obfuscated_classes`.
    pub const OBFUSCATED_CLASSES: u32 = 3;
}
/// Field numbers of `ProfilePacket`.
pub mod profile_packet {
    /// `ProfilePacket.strings`.
    pub const STRINGS: u32 = 1;
    /// `ProfilePacket.mappings`.
    pub const MAPPINGS: u32 = 4;
    /// `ProfilePacket.frames`.
    pub const FRAMES: u32 = 2;
    /// `ProfilePacket.callstacks`.
    pub const CALLSTACKS: u32 = 3;
    /// `ProfilePacket.process_dumps`.
    pub const PROCESS_DUMPS: u32 = 5;
    /// `ProfilePacket.continued`.
    pub const CONTINUED: u32 = 6;
    /// `ProfilePacket.index`.
    pub const INDEX: u32 = 7;
    /// Field numbers of `HeapSample`.
    pub mod heap_sample {
        /// `HeapSample.callstack_id`.
        pub const CALLSTACK_ID: u32 = 1;
        /// `HeapSample.self_allocated`.
        pub const SELF_ALLOCATED: u32 = 2;
        /// `HeapSample.self_freed`.
        pub const SELF_FREED: u32 = 3;
        /// `HeapSample.self_max`.
        pub const SELF_MAX: u32 = 8;
        /// `HeapSample.self_max_count`.
        pub const SELF_MAX_COUNT: u32 = 9;
        /// `HeapSample.timestamp`.
        pub const TIMESTAMP: u32 = 4;
        /// `HeapSample.alloc_count`.
        pub const ALLOC_COUNT: u32 = 5;
        /// `HeapSample.free_count`.
        pub const FREE_COUNT: u32 = 6;
    }
    /// Field numbers of `Histogram`.
    pub mod histogram {
        /// `Histogram.buckets`.
        pub const BUCKETS: u32 = 1;
        /// Field numbers of `Bucket`.
        pub mod bucket {
            /// `Bucket.upper_limit`.
            pub const UPPER_LIMIT: u32 = 1;
            /// `Bucket.max_bucket`.
            pub const MAX_BUCKET: u32 = 2;
            /// `Bucket.count`.
            pub const COUNT: u32 = 3;
        }
    }
    /// Field numbers of `ProcessStats`.
    pub mod process_stats {
        /// `ProcessStats.unwinding_errors`.
        pub const UNWINDING_ERRORS: u32 = 1;
        /// `ProcessStats.heap_samples`.
        pub const HEAP_SAMPLES: u32 = 2;
        /// `ProcessStats.map_reparses`.
        pub const MAP_REPARSES: u32 = 3;
        /// `ProcessStats.unwinding_time_us`.
        pub const UNWINDING_TIME_US: u32 = 4;
        /// `ProcessStats.total_unwinding_time_us`.
        pub const TOTAL_UNWINDING_TIME_US: u32 = 5;
        /// `ProcessStats.client_spinlock_blocked_us`.
        pub const CLIENT_SPINLOCK_BLOCKED_US: u32 = 6;
    }
    /// Field numbers of `ProcessHeapSamples`.
    pub mod process_heap_samples {
        /// `ProcessHeapSamples.pid`.
        pub const PID: u32 = 1;
        /// `ProcessHeapSamples.from_startup`.
        pub const FROM_STARTUP: u32 = 3;
        /// `ProcessHeapSamples.rejected_concurrent`.
        pub const REJECTED_CONCURRENT: u32 = 4;
        /// `ProcessHeapSamples.disconnected`.
        pub const DISCONNECTED: u32 = 6;
        /// `ProcessHeapSamples.buffer_overran`.
        pub const BUFFER_OVERRAN: u32 = 7;
        /// `ProcessHeapSamples.client_error`.
        pub const CLIENT_ERROR: u32 = 14;
        /// `ProcessHeapSamples.buffer_corrupted`.
        pub const BUFFER_CORRUPTED: u32 = 8;
        /// `ProcessHeapSamples.hit_guardrail`.
        pub const HIT_GUARDRAIL: u32 = 10;
        /// `ProcessHeapSamples.heap_name`.
        pub const HEAP_NAME: u32 = 11;
        /// `ProcessHeapSamples.sampling_interval_bytes`.
        pub const SAMPLING_INTERVAL_BYTES: u32 = 12;
        /// `ProcessHeapSamples.orig_sampling_interval_bytes`.
        pub const ORIG_SAMPLING_INTERVAL_BYTES: u32 = 13;
        /// `ProcessHeapSamples.timestamp`.
        pub const TIMESTAMP: u32 = 9;
        /// `ProcessHeapSamples.start_timestamp`.
        pub const START_TIMESTAMP: u32 = 15;
        /// `ProcessHeapSamples.stats`.
        pub const STATS: u32 = 5;
        /// `ProcessHeapSamples.samples`.
        pub const SAMPLES: u32 = 2;
    }
}
/// Field numbers of `StreamingAllocation`.
pub mod streaming_allocation {
    /// `StreamingAllocation.address`.
    pub const ADDRESS: u32 = 1;
    /// `StreamingAllocation.size`.
    pub const SIZE: u32 = 2;
    /// `StreamingAllocation.sample_size`.
    pub const SAMPLE_SIZE: u32 = 3;
    /// `StreamingAllocation.clock_monotonic_coarse_timestamp`.
    pub const CLOCK_MONOTONIC_COARSE_TIMESTAMP: u32 = 4;
    /// `StreamingAllocation.heap_id`.
    pub const HEAP_ID: u32 = 5;
    /// `StreamingAllocation.sequence_number`.
    pub const SEQUENCE_NUMBER: u32 = 6;
}
/// Field numbers of `StreamingFree`.
pub mod streaming_free {
    /// `StreamingFree.address`.
    pub const ADDRESS: u32 = 1;
    /// `StreamingFree.heap_id`.
    pub const HEAP_ID: u32 = 2;
    /// `StreamingFree.sequence_number`.
    pub const SEQUENCE_NUMBER: u32 = 3;
}
/// Field numbers of `StreamingProfilePacket`.
pub mod streaming_profile_packet {
    /// `StreamingProfilePacket.callstack_iid`.
    pub const CALLSTACK_IID: u32 = 1;
    /// `StreamingProfilePacket.timestamp_delta_us`.
    pub const TIMESTAMP_DELTA_US: u32 = 2;
    /// `StreamingProfilePacket.process_priority`.
    pub const PROCESS_PRIORITY: u32 = 3;
}
/// Field numbers of `PerfSample`.
pub mod perf_sample {
    /// `PerfSample.cpu`.
    pub const CPU: u32 = 1;
    /// `PerfSample.pid`.
    pub const PID: u32 = 2;
    /// `PerfSample.tid`.
    pub const TID: u32 = 3;
    /// `PerfSample.cpu_mode`.
    pub const CPU_MODE: u32 = 5;
    /// `PerfSample.timebase_count`.
    pub const TIMEBASE_COUNT: u32 = 6;
    /// `PerfSample.follower_counts`.
    pub const FOLLOWER_COUNTS: u32 = 7;
    /// `PerfSample.callstack_iid`.
    pub const CALLSTACK_IID: u32 = 4;
    /// `PerfSample.unwind_error`.
    pub const UNWIND_ERROR: u32 = 16;
    /// `PerfSample.kernel_records_lost`.
    pub const KERNEL_RECORDS_LOST: u32 = 17;
    /// `PerfSample.sample_skipped_reason`.
    pub const SAMPLE_SKIPPED_REASON: u32 = 18;
    /// `PerfSample.producer_event`.
    pub const PRODUCER_EVENT: u32 = 19;
    /// Field numbers of `ProducerEvent`.
    pub mod producer_event {
        /// `ProducerEvent.source_stop_reason`.
        pub const SOURCE_STOP_REASON: u32 = 1;
    }
}
/// Field numbers of `PerfSampleDefaults`.
pub mod perf_sample_defaults {
    /// `PerfSampleDefaults.timebase`.
    pub const TIMEBASE: u32 = 1;
    /// `PerfSampleDefaults.followers`.
    pub const FOLLOWERS: u32 = 4;
    /// `PerfSampleDefaults.process_shard_count`.
    pub const PROCESS_SHARD_COUNT: u32 = 2;
    /// `PerfSampleDefaults.chosen_process_shard`.
    pub const CHOSEN_PROCESS_SHARD: u32 = 3;
}
/// Field numbers of `SmapsEntry`.
pub mod smaps_entry {
    /// `SmapsEntry.path`.
    pub const PATH: u32 = 1;
    /// `SmapsEntry.size_kb`.
    pub const SIZE_KB: u32 = 2;
    /// `SmapsEntry.private_dirty_kb`.
    pub const PRIVATE_DIRTY_KB: u32 = 3;
    /// `SmapsEntry.swap_kb`.
    pub const SWAP_KB: u32 = 4;
    /// `SmapsEntry.file_name`.
    pub const FILE_NAME: u32 = 5;
    /// `SmapsEntry.start_address`.
    pub const START_ADDRESS: u32 = 6;
    /// `SmapsEntry.module_timestamp`.
    pub const MODULE_TIMESTAMP: u32 = 7;
    /// `SmapsEntry.module_debugid`.
    pub const MODULE_DEBUGID: u32 = 8;
    /// `SmapsEntry.module_debug_path`.
    pub const MODULE_DEBUG_PATH: u32 = 9;
    /// `SmapsEntry.protection_flags`.
    pub const PROTECTION_FLAGS: u32 = 10;
    /// `SmapsEntry.private_clean_resident_kb`.
    pub const PRIVATE_CLEAN_RESIDENT_KB: u32 = 11;
    /// `SmapsEntry.shared_dirty_resident_kb`.
    pub const SHARED_DIRTY_RESIDENT_KB: u32 = 12;
    /// `SmapsEntry.shared_clean_resident_kb`.
    pub const SHARED_CLEAN_RESIDENT_KB: u32 = 13;
    /// `SmapsEntry.locked_kb`.
    pub const LOCKED_KB: u32 = 14;
    /// `SmapsEntry.proportional_resident_kb`.
    pub const PROPORTIONAL_RESIDENT_KB: u32 = 15;
}
/// Field numbers of `PackedSmaps`.
pub mod packed_smaps {
    /// `PackedSmaps.string_table`.
    pub const STRING_TABLE: u32 = 1;
    /// `PackedSmaps.name_id`.
    pub const NAME_ID: u32 = 2;
    /// `PackedSmaps.aggregate_count`.
    pub const AGGREGATE_COUNT: u32 = 3;
    /// `PackedSmaps.size_kb`.
    pub const SIZE_KB: u32 = 4;
    /// `PackedSmaps.rss_kb`.
    pub const RSS_KB: u32 = 5;
    /// `PackedSmaps.anonymous_kb`.
    pub const ANONYMOUS_KB: u32 = 6;
    /// `PackedSmaps.swap_kb`.
    pub const SWAP_KB: u32 = 7;
    /// `PackedSmaps.shared_clean_kb`.
    pub const SHARED_CLEAN_KB: u32 = 8;
    /// `PackedSmaps.shared_dirty_kb`.
    pub const SHARED_DIRTY_KB: u32 = 9;
    /// `PackedSmaps.private_clean_kb`.
    pub const PRIVATE_CLEAN_KB: u32 = 10;
    /// `PackedSmaps.private_dirty_kb`.
    pub const PRIVATE_DIRTY_KB: u32 = 11;
    /// `PackedSmaps.locked_kb`.
    pub const LOCKED_KB: u32 = 12;
    /// `PackedSmaps.pss_kb`.
    pub const PSS_KB: u32 = 13;
    /// `PackedSmaps.pss_dirty_kb`.
    pub const PSS_DIRTY_KB: u32 = 14;
    /// `PackedSmaps.swap_pss_kb`.
    pub const SWAP_PSS_KB: u32 = 15;
}
/// Field numbers of `SmapsPacket`.
pub mod smaps_packet {
    /// `SmapsPacket.pid`.
    pub const PID: u32 = 1;
    /// `SmapsPacket.entries`.
    pub const ENTRIES: u32 = 2;
    /// `SmapsPacket.packed_entries`.
    pub const PACKED_ENTRIES: u32 = 3;
    /// `SmapsPacket.recording_type`.
    pub const RECORDING_TYPE: u32 = 4;
}
/// Field numbers of `ProcessStats`.
pub mod process_stats {
    /// `ProcessStats.processes`.
    pub const PROCESSES: u32 = 1;
    /// `ProcessStats.collection_end_timestamp`.
    pub const COLLECTION_END_TIMESTAMP: u32 = 2;
    /// Field numbers of `Thread`.
    pub mod thread {
        /// `Thread.tid`.
        pub const TID: u32 = 1;
    }
    /// Field numbers of `FDInfo`.
    pub mod fd_info {
        /// `FDInfo.fd`.
        pub const FD: u32 = 1;
        /// `FDInfo.path`.
        pub const PATH: u32 = 2;
    }
    /// Field numbers of `Process`.
    pub mod process {
        /// `Process.pid`.
        pub const PID: u32 = 1;
        /// `Process.threads`.
        pub const THREADS: u32 = 11;
        /// `Process.vm_size_kb`.
        pub const VM_SIZE_KB: u32 = 2;
        /// `Process.vm_rss_kb`.
        pub const VM_RSS_KB: u32 = 3;
        /// `Process.rss_anon_kb`.
        pub const RSS_ANON_KB: u32 = 4;
        /// `Process.rss_file_kb`.
        pub const RSS_FILE_KB: u32 = 5;
        /// `Process.rss_shmem_kb`.
        pub const RSS_SHMEM_KB: u32 = 6;
        /// `Process.vm_swap_kb`.
        pub const VM_SWAP_KB: u32 = 7;
        /// `Process.vm_locked_kb`.
        pub const VM_LOCKED_KB: u32 = 8;
        /// `Process.vm_hwm_kb`.
        pub const VM_HWM_KB: u32 = 9;
        /// `Process.oom_score_adj`.
        pub const OOM_SCORE_ADJ: u32 = 10;
        /// `Process.is_peak_rss_resettable`.
        pub const IS_PEAK_RSS_RESETTABLE: u32 = 12;
        /// `Process.chrome_private_footprint_kb`.
        pub const CHROME_PRIVATE_FOOTPRINT_KB: u32 = 13;
        /// `Process.chrome_peak_resident_set_kb`.
        pub const CHROME_PEAK_RESIDENT_SET_KB: u32 = 14;
        /// `Process.fds`.
        pub const FDS: u32 = 15;
        /// `Process.smr_rss_kb`.
        pub const SMR_RSS_KB: u32 = 16;
        /// `Process.smr_pss_kb`.
        pub const SMR_PSS_KB: u32 = 17;
        /// `Process.smr_pss_anon_kb`.
        pub const SMR_PSS_ANON_KB: u32 = 18;
        /// `Process.smr_pss_file_kb`.
        pub const SMR_PSS_FILE_KB: u32 = 19;
        /// `Process.smr_pss_shmem_kb`.
        pub const SMR_PSS_SHMEM_KB: u32 = 20;
        /// `Process.smr_swap_pss_kb`.
        pub const SMR_SWAP_PSS_KB: u32 = 23;
        /// `Process.runtime_user_mode`.
        pub const RUNTIME_USER_MODE: u32 = 21;
        /// `Process.runtime_kernel_mode`.
        pub const RUNTIME_KERNEL_MODE: u32 = 22;
        /// `Process.dmabuf_rss_kb`.
        pub const DMABUF_RSS_KB: u32 = 24;
    }
}
/// Field numbers of `ProcessTree`.
pub mod process_tree {
    /// `ProcessTree.processes`.
    pub const PROCESSES: u32 = 1;
    /// `ProcessTree.threads`.
    pub const THREADS: u32 = 2;
    /// `ProcessTree.collection_end_timestamp`.
    pub const COLLECTION_END_TIMESTAMP: u32 = 3;
    /// Field numbers of `Thread`.
    pub mod thread {
        /// `Thread.tid`.
        pub const TID: u32 = 1;
        /// `Thread.tgid`.
        pub const TGID: u32 = 3;
        /// `Thread.name`.
        pub const NAME: u32 = 2;
        /// `Thread.nstid`.
        pub const NSTID: u32 = 4;
    }
    /// Field numbers of `Process`.
    pub mod process {
        /// `Process.pid`.
        pub const PID: u32 = 1;
        /// `Process.ppid`.
        pub const PPID: u32 = 2;
        /// `Process.cmdline`.
        pub const CMDLINE: u32 = 3;
        /// `Process.cmdline_is_comm`.
        pub const CMDLINE_IS_COMM: u32 = 9;
        /// `Process.uid`.
        pub const UID: u32 = 5;
        /// `Process.nspid`.
        pub const NSPID: u32 = 6;
        /// `Process.process_start_from_boot`.
        pub const PROCESS_START_FROM_BOOT: u32 = 7;
        /// `Process.is_kthread`.
        pub const IS_KTHREAD: u32 = 8;
    }
}
/// Field numbers of `RemoteClockSync`.
pub mod remote_clock_sync {
    /// `RemoteClockSync.synced_clocks`.
    pub const SYNCED_CLOCKS: u32 = 1;
    /// Field numbers of `SyncedClocks`.
    pub mod synced_clocks {
        /// `SyncedClocks.client_clocks`.
        pub const CLIENT_CLOCKS: u32 = 2;
        /// `SyncedClocks.host_clocks`.
        pub const HOST_CLOCKS: u32 = 3;
    }
}
/// Field numbers of `SysStats`.
pub mod sys_stats {
    /// `SysStats.meminfo`.
    pub const MEMINFO: u32 = 1;
    /// `SysStats.vmstat`.
    pub const VMSTAT: u32 = 2;
    /// `SysStats.cpu_stat`.
    pub const CPU_STAT: u32 = 3;
    /// `SysStats.num_forks`.
    pub const NUM_FORKS: u32 = 4;
    /// `SysStats.num_irq_total`.
    pub const NUM_IRQ_TOTAL: u32 = 5;
    /// `SysStats.num_irq`.
    pub const NUM_IRQ: u32 = 6;
    /// `SysStats.num_softirq_total`.
    pub const NUM_SOFTIRQ_TOTAL: u32 = 7;
    /// `SysStats.num_softirq`.
    pub const NUM_SOFTIRQ: u32 = 8;
    /// `SysStats.collection_end_timestamp`.
    pub const COLLECTION_END_TIMESTAMP: u32 = 9;
    /// `SysStats.devfreq`.
    pub const DEVFREQ: u32 = 10;
    /// `SysStats.cpufreq_khz`.
    pub const CPUFREQ_KHZ: u32 = 11;
    /// `SysStats.buddy_info`.
    pub const BUDDY_INFO: u32 = 12;
    /// `SysStats.disk_stat`.
    pub const DISK_STAT: u32 = 13;
    /// `SysStats.psi`.
    pub const PSI: u32 = 14;
    /// `SysStats.thermal_zone`.
    pub const THERMAL_ZONE: u32 = 15;
    /// `SysStats.cpuidle_state`.
    pub const CPUIDLE_STATE: u32 = 16;
    /// `SysStats.gpufreq_mhz`.
    pub const GPUFREQ_MHZ: u32 = 17;
    /// `SysStats.slab_info`.
    pub const SLAB_INFO: u32 = 18;
    /// Field numbers of `MeminfoValue`.
    pub mod meminfo_value {
        /// `MeminfoValue.key`.
        pub const KEY: u32 = 1;
        /// `MeminfoValue.value`.
        pub const VALUE: u32 = 2;
    }
    /// Field numbers of `VmstatValue`.
    pub mod vmstat_value {
        /// `VmstatValue.key`.
        pub const KEY: u32 = 1;
        /// `VmstatValue.value`.
        pub const VALUE: u32 = 2;
    }
    /// Field numbers of `CpuTimes`.
    pub mod cpu_times {
        /// `CpuTimes.cpu_id`.
        pub const CPU_ID: u32 = 1;
        /// `CpuTimes.user_ns`.
        pub const USER_NS: u32 = 2;
        /// `CpuTimes.user_nice_ns`.
        pub const USER_NICE_NS: u32 = 3;
        /// `CpuTimes.system_mode_ns`.
        pub const SYSTEM_MODE_NS: u32 = 4;
        /// `CpuTimes.idle_ns`.
        pub const IDLE_NS: u32 = 5;
        /// `CpuTimes.io_wait_ns`.
        pub const IO_WAIT_NS: u32 = 6;
        /// `CpuTimes.irq_ns`.
        pub const IRQ_NS: u32 = 7;
        /// `CpuTimes.softirq_ns`.
        pub const SOFTIRQ_NS: u32 = 8;
        /// `CpuTimes.steal_ns`.
        pub const STEAL_NS: u32 = 9;
    }
    /// Field numbers of `InterruptCount`.
    pub mod interrupt_count {
        /// `InterruptCount.irq`.
        pub const IRQ: u32 = 1;
        /// `InterruptCount.count`.
        pub const COUNT: u32 = 2;
    }
    /// Field numbers of `DevfreqValue`.
    pub mod devfreq_value {
        /// `DevfreqValue.key`.
        pub const KEY: u32 = 1;
        /// `DevfreqValue.value`.
        pub const VALUE: u32 = 2;
    }
    /// Field numbers of `BuddyInfo`.
    pub mod buddy_info {
        /// `BuddyInfo.node`.
        pub const NODE: u32 = 1;
        /// `BuddyInfo.zone`.
        pub const ZONE: u32 = 2;
        /// `BuddyInfo.order_pages`.
        pub const ORDER_PAGES: u32 = 3;
    }
    /// Field numbers of `DiskStat`.
    pub mod disk_stat {
        /// `DiskStat.device_name`.
        pub const DEVICE_NAME: u32 = 1;
        /// `DiskStat.read_sectors`.
        pub const READ_SECTORS: u32 = 2;
        /// `DiskStat.read_time_ms`.
        pub const READ_TIME_MS: u32 = 3;
        /// `DiskStat.write_sectors`.
        pub const WRITE_SECTORS: u32 = 4;
        /// `DiskStat.write_time_ms`.
        pub const WRITE_TIME_MS: u32 = 5;
        /// `DiskStat.discard_sectors`.
        pub const DISCARD_SECTORS: u32 = 6;
        /// `DiskStat.discard_time_ms`.
        pub const DISCARD_TIME_MS: u32 = 7;
        /// `DiskStat.flush_count`.
        pub const FLUSH_COUNT: u32 = 8;
        /// `DiskStat.flush_time_ms`.
        pub const FLUSH_TIME_MS: u32 = 9;
    }
    /// Field numbers of `PsiSample`.
    pub mod psi_sample {
        /// `PsiSample.resource`.
        pub const RESOURCE: u32 = 1;
        /// `PsiSample.total_ns`.
        pub const TOTAL_NS: u32 = 2;
    }
    /// Field numbers of `ThermalZone`.
    pub mod thermal_zone {
        /// `ThermalZone.name`.
        pub const NAME: u32 = 1;
        /// `ThermalZone.temp`.
        pub const TEMP: u32 = 2;
        /// `ThermalZone.type`.
        pub const TYPE: u32 = 3;
    }
    /// Field numbers of `CpuIdleStateEntry`.
    pub mod cpu_idle_state_entry {
        /// `CpuIdleStateEntry.state`.
        pub const STATE: u32 = 1;
        /// `CpuIdleStateEntry.duration_us`.
        pub const DURATION_US: u32 = 2;
    }
    /// Field numbers of `CpuIdleState`.
    pub mod cpu_idle_state {
        /// `CpuIdleState.cpu_id`.
        pub const CPU_ID: u32 = 1;
        /// `CpuIdleState.cpuidle_state_entry`.
        pub const CPUIDLE_STATE_ENTRY: u32 = 2;
    }
    /// Field numbers of `SlabInfo`.
    pub mod slab_info {
        /// `SlabInfo.name`.
        pub const NAME: u32 = 1;
        /// `SlabInfo.pages_per_slab`.
        pub const PAGES_PER_SLAB: u32 = 2;
        /// `SlabInfo.num_slabs`.
        pub const NUM_SLABS: u32 = 3;
    }
}
/// Field numbers of `CpuInfo`.
pub mod cpu_info {
    /// `CpuInfo.cpus`.
    pub const CPUS: u32 = 1;
    /// Field numbers of `ArmCpuIdentifier`.
    pub mod arm_cpu_identifier {
        /// `ArmCpuIdentifier.implementer`.
        pub const IMPLEMENTER: u32 = 1;
        /// `ArmCpuIdentifier.architecture`.
        pub const ARCHITECTURE: u32 = 2;
        /// `ArmCpuIdentifier.variant`.
        pub const VARIANT: u32 = 3;
        /// `ArmCpuIdentifier.part`.
        pub const PART: u32 = 4;
        /// `ArmCpuIdentifier.revision`.
        pub const REVISION: u32 = 5;
    }
    /// Field numbers of `Cpu`.
    pub mod cpu {
        /// `Cpu.processor`.
        pub const PROCESSOR: u32 = 1;
        /// `Cpu.frequencies`.
        pub const FREQUENCIES: u32 = 2;
        /// `Cpu.capacity`.
        pub const CAPACITY: u32 = 3;
        /// `Cpu.arm_identifier`.
        pub const ARM_IDENTIFIER: u32 = 4;
        /// `Cpu.features`.
        pub const FEATURES: u32 = 5;
    }
}
/// Field numbers of `InterruptInfo`.
pub mod interrupt_info {
    /// `InterruptInfo.irq_mapping`.
    pub const IRQ_MAPPING: u32 = 1;
    /// Field numbers of `InterruptMapping`.
    pub mod interrupt_mapping {
        /// `InterruptMapping.irq_id`.
        pub const IRQ_ID: u32 = 1;
        /// `InterruptMapping.name`.
        pub const NAME: u32 = 2;
    }
}
/// Field numbers of `TestEvent`.
pub mod test_event {
    /// `TestEvent.str`.
    pub const STR: u32 = 1;
    /// `TestEvent.seq_value`.
    pub const SEQ_VALUE: u32 = 2;
    /// `TestEvent.counter`.
    pub const COUNTER: u32 = 3;
    /// `TestEvent.is_last`.
    pub const IS_LAST: u32 = 4;
    /// `TestEvent.payload`.
    pub const PAYLOAD: u32 = 5;
    /// `TestEvent.protovm_patch`.
    pub const PROTOVM_PATCH: u32 = 6;
    /// `TestEvent.protovm_incremental_state`.
    pub const PROTOVM_INCREMENTAL_STATE: u32 = 7;
    /// Field numbers of `TestPayload`.
    pub mod test_payload {
        /// `TestPayload.str`.
        pub const STR: u32 = 1;
        /// `TestPayload.nested`.
        pub const NESTED: u32 = 2;
        /// `TestPayload.single_string`.
        pub const SINGLE_STRING: u32 = 4;
        /// `TestPayload.single_int`.
        pub const SINGLE_INT: u32 = 5;
        /// `TestPayload.repeated_ints`.
        pub const REPEATED_INTS: u32 = 6;
        /// `TestPayload.remaining_nesting_depth`.
        pub const REMAINING_NESTING_DEPTH: u32 = 3;
        /// `TestPayload.debug_annotations`.
        pub const DEBUG_ANNOTATIONS: u32 = 7;
    }
    /// Field numbers of `ProtoVmMessage`.
    pub mod proto_vm_message {
        /// `ProtoVmMessage.id`.
        pub const ID: u32 = 1;
        /// `ProtoVmMessage.submessage`.
        pub const SUBMESSAGE: u32 = 2;
        /// Field numbers of `ProtoVmSubmessage`.
        pub mod proto_vm_submessage {
            /// `ProtoVmSubmessage.single_int`.
            pub const SINGLE_INT: u32 = 1;
        }
    }
    /// Field numbers of `ProtoVmPatch`.
    pub mod proto_vm_patch {
        /// `ProtoVmPatch.string_to_merge`.
        pub const STRING_TO_MERGE: u32 = 1;
        /// `ProtoVmPatch.int_to_merge`.
        pub const INT_TO_MERGE: u32 = 2;
        /// `ProtoVmPatch.single_message`.
        pub const SINGLE_MESSAGE: u32 = 3;
        /// `ProtoVmPatch.messages`.
        pub const MESSAGES: u32 = 4;
        /// `ProtoVmPatch.delete_message_ids`.
        pub const DELETE_MESSAGE_IDS: u32 = 5;
    }
    /// Field numbers of `ProtoVmIncrementalState`.
    pub mod proto_vm_incremental_state {
        /// `ProtoVmIncrementalState.string_merged`.
        pub const STRING_MERGED: u32 = 1;
        /// `ProtoVmIncrementalState.int_merged`.
        pub const INT_MERGED: u32 = 2;
        /// `ProtoVmIncrementalState.single_message`.
        pub const SINGLE_MESSAGE: u32 = 3;
        /// `ProtoVmIncrementalState.messages`.
        pub const MESSAGES: u32 = 4;
    }
}
/// Field numbers of `TracePacketDefaults`.
pub mod trace_packet_defaults {
    /// `TracePacketDefaults.timestamp_clock_id`.
    pub const TIMESTAMP_CLOCK_ID: u32 = 58;
    /// `TracePacketDefaults.track_event_defaults`.
    pub const TRACK_EVENT_DEFAULTS: u32 = 11;
    /// `TracePacketDefaults.perf_sample_defaults`.
    pub const PERF_SAMPLE_DEFAULTS: u32 = 12;
    /// `TracePacketDefaults.stack_sample_defaults`.
    pub const STACK_SAMPLE_DEFAULTS: u32 = 100;
}
/// Field numbers of `TraceUuid`.
pub mod trace_uuid {
    /// `TraceUuid.msb`.
    pub const MSB: u32 = 1;
    /// `TraceUuid.lsb`.
    pub const LSB: u32 = 2;
}
/// Field numbers of `ProcessDescriptor`.
pub mod process_descriptor {
    /// `ProcessDescriptor.pid`.
    pub const PID: u32 = 1;
    /// `ProcessDescriptor.cmdline`.
    pub const CMDLINE: u32 = 2;
    /// `ProcessDescriptor.process_name`.
    pub const PROCESS_NAME: u32 = 6;
    /// `ProcessDescriptor.process_priority`.
    pub const PROCESS_PRIORITY: u32 = 5;
    /// `ProcessDescriptor.start_timestamp_ns`.
    pub const START_TIMESTAMP_NS: u32 = 7;
    /// `ProcessDescriptor.chrome_process_type`.
    pub const CHROME_PROCESS_TYPE: u32 = 4;
    /// `ProcessDescriptor.legacy_sort_index`.
    pub const LEGACY_SORT_INDEX: u32 = 3;
    /// `ProcessDescriptor.process_labels`.
    pub const PROCESS_LABELS: u32 = 8;
}
/// Field numbers of `ThreadDescriptor`.
pub mod thread_descriptor {
    /// `ThreadDescriptor.pid`.
    pub const PID: u32 = 1;
    /// `ThreadDescriptor.tid`.
    pub const TID: u32 = 2;
    /// `ThreadDescriptor.thread_name`.
    pub const THREAD_NAME: u32 = 5;
    /// `ThreadDescriptor.chrome_thread_type`.
    pub const CHROME_THREAD_TYPE: u32 = 4;
    /// `ThreadDescriptor.reference_timestamp_us`.
    pub const REFERENCE_TIMESTAMP_US: u32 = 6;
    /// `ThreadDescriptor.reference_thread_time_us`.
    pub const REFERENCE_THREAD_TIME_US: u32 = 7;
    /// `ThreadDescriptor.reference_thread_instruction_count`.
    pub const REFERENCE_THREAD_INSTRUCTION_COUNT: u32 = 8;
    /// `ThreadDescriptor.legacy_sort_index`.
    pub const LEGACY_SORT_INDEX: u32 = 3;
}
/// Field numbers of `CounterDescriptor`.
pub mod counter_descriptor {
    /// `CounterDescriptor.type`.
    pub const TYPE: u32 = 1;
    /// `CounterDescriptor.categories`.
    pub const CATEGORIES: u32 = 2;
    /// `CounterDescriptor.unit`.
    pub const UNIT: u32 = 3;
    /// `CounterDescriptor.unit_name`.
    pub const UNIT_NAME: u32 = 6;
    /// `CounterDescriptor.unit_multiplier`.
    pub const UNIT_MULTIPLIER: u32 = 4;
    /// `CounterDescriptor.is_incremental`.
    pub const IS_INCREMENTAL: u32 = 5;
    /// `CounterDescriptor.y_axis_share_key`.
    pub const Y_AXIS_SHARE_KEY: u32 = 7;
}
/// Field numbers of `TrackDescriptor`.
pub mod track_descriptor {
    /// `TrackDescriptor.uuid`.
    pub const UUID: u32 = 1;
    /// `TrackDescriptor.parent_uuid`.
    pub const PARENT_UUID: u32 = 5;
    /// `TrackDescriptor.name`.
    pub const NAME: u32 = 2;
    /// `TrackDescriptor.static_name`.
    pub const STATIC_NAME: u32 = 10;
    /// `TrackDescriptor.atrace_name`.
    pub const ATRACE_NAME: u32 = 13;
    /// `TrackDescriptor.description`.
    pub const DESCRIPTION: u32 = 14;
    /// `TrackDescriptor.process`.
    pub const PROCESS: u32 = 3;
    /// `TrackDescriptor.thread`.
    pub const THREAD: u32 = 4;
    /// `TrackDescriptor.counter`.
    pub const COUNTER: u32 = 8;
    /// `TrackDescriptor.state`.
    pub const STATE: u32 = 18;
    /// `TrackDescriptor.disallow_merging_with_system_tracks`.
    pub const DISALLOW_MERGING_WITH_SYSTEM_TRACKS: u32 = 9;
    /// `TrackDescriptor.child_ordering`.
    pub const CHILD_ORDERING: u32 = 11;
    /// `TrackDescriptor.sibling_order_rank`.
    pub const SIBLING_ORDER_RANK: u32 = 12;
    /// `TrackDescriptor.sibling_merge_behavior`.
    pub const SIBLING_MERGE_BEHAVIOR: u32 = 15;
    /// `TrackDescriptor.sibling_merge_key`.
    pub const SIBLING_MERGE_KEY: u32 = 16;
    /// `TrackDescriptor.sibling_merge_key_int`.
    pub const SIBLING_MERGE_KEY_INT: u32 = 17;
    /// `TrackDescriptor.process_ordering`.
    pub const PROCESS_ORDERING: u32 = 19;
    /// `TrackDescriptor.thread_ordering`.
    pub const THREAD_ORDERING: u32 = 20;
}
/// Field numbers of `Trigger`.
pub mod trigger {
    /// `Trigger.trigger_name`.
    pub const TRIGGER_NAME: u32 = 1;
    /// `Trigger.producer_name`.
    pub const PRODUCER_NAME: u32 = 2;
    /// `Trigger.trusted_producer_uid`.
    pub const TRUSTED_PRODUCER_UID: u32 = 3;
    /// `Trigger.stop_delay_ms`.
    pub const STOP_DELAY_MS: u32 = 4;
}
/// Field numbers of `TracePacket`.
pub mod trace_packet {
    /// `TracePacket.timestamp`.
    pub const TIMESTAMP: u32 = 8;
    /// `TracePacket.timestamp_clock_id`.
    pub const TIMESTAMP_CLOCK_ID: u32 = 58;
    /// `TracePacket.track_event`.
    pub const TRACK_EVENT: u32 = 11;
    /// `TracePacket.track_descriptor`.
    pub const TRACK_DESCRIPTOR: u32 = 60;
    /// `TracePacket.process_tree`.
    pub const PROCESS_TREE: u32 = 2;
    /// `TracePacket.process_stats`.
    pub const PROCESS_STATS: u32 = 9;
    /// `TracePacket.inode_file_map`.
    pub const INODE_FILE_MAP: u32 = 4;
    /// `TracePacket.clock_snapshot`.
    pub const CLOCK_SNAPSHOT: u32 = 6;
    /// `TracePacket.sys_stats`.
    pub const SYS_STATS: u32 = 7;
    /// `TracePacket.trace_uuid`.
    pub const TRACE_UUID: u32 = 89;
    /// `TracePacket.trace_config`.
    pub const TRACE_CONFIG: u32 = 33;
    /// `TracePacket.ftrace_stats`.
    pub const FTRACE_STATS: u32 = 34;
    /// `TracePacket.trace_stats`.
    pub const TRACE_STATS: u32 = 35;
    /// `TracePacket.profile_packet`.
    pub const PROFILE_PACKET: u32 = 37;
    /// `TracePacket.streaming_allocation`.
    pub const STREAMING_ALLOCATION: u32 = 74;
    /// `TracePacket.streaming_free`.
    pub const STREAMING_FREE: u32 = 75;
    /// `TracePacket.battery`.
    pub const BATTERY: u32 = 38;
    /// `TracePacket.system_info`.
    pub const SYSTEM_INFO: u32 = 45;
    /// `TracePacket.trigger`.
    pub const TRIGGER: u32 = 46;
    /// `TracePacket.streaming_profile_packet`.
    pub const STREAMING_PROFILE_PACKET: u32 = 54;
    /// `TracePacket.perf_sample`.
    pub const PERF_SAMPLE: u32 = 66;
    /// `TracePacket.cpu_info`.
    pub const CPU_INFO: u32 = 67;
    /// `TracePacket.smaps_packet`.
    pub const SMAPS_PACKET: u32 = 68;
    /// `TracePacket.service_event`.
    pub const SERVICE_EVENT: u32 = 69;
    /// `TracePacket.concurrent_session_event`.
    pub const CONCURRENT_SESSION_EVENT: u32 = 134;
    /// `TracePacket.stack_sample`.
    pub const STACK_SAMPLE: u32 = 135;
    /// `TracePacket.trace_provenance`.
    pub const TRACE_PROVENANCE: u32 = 124;
    /// `TracePacket.protovms`.
    pub const PROTOVMS: u32 = 125;
    /// `TracePacket.trace_attributes`.
    pub const TRACE_ATTRIBUTES: u32 = 126;
    /// `TracePacket.interrupt_info`.
    pub const INTERRUPT_INFO: u32 = 130;
    /// `TracePacket.module_symbols`.
    pub const MODULE_SYMBOLS: u32 = 61;
    /// `TracePacket.deobfuscation_mapping`.
    pub const DEOBFUSCATION_MAPPING: u32 = 64;
    /// `TracePacket.process_descriptor`.
    pub const PROCESS_DESCRIPTOR: u32 = 43;
    /// `TracePacket.thread_descriptor`.
    pub const THREAD_DESCRIPTOR: u32 = 44;
    /// `TracePacket.ftrace_events`.
    pub const FTRACE_EVENTS: u32 = 1;
    /// `TracePacket.synchronization_marker`.
    pub const SYNCHRONIZATION_MARKER: u32 = 36;
    /// `TracePacket.compressed_packets`.
    pub const COMPRESSED_PACKETS: u32 = 50;
    /// `TracePacket.zstd_compressed_packets`.
    pub const ZSTD_COMPRESSED_PACKETS: u32 = 133;
    /// `TracePacket.extension_descriptor`.
    pub const EXTENSION_DESCRIPTOR: u32 = 72;
    /// `TracePacket.remote_clock_sync`.
    pub const REMOTE_CLOCK_SYNC: u32 = 107;
    /// `TracePacket.clone_snapshot_trigger`.
    pub const CLONE_SNAPSHOT_TRIGGER: u32 = 113;
    /// `TracePacket.journald_event`.
    pub const JOURNALD_EVENT: u32 = 132;
    /// `TracePacket.recovered_trace_info`.
    pub const RECOVERED_TRACE_INFO: u32 = 138;
    /// `TracePacket.for_testing`.
    pub const FOR_TESTING: u32 = 900;
    /// `TracePacket.trusted_uid`.
    pub const TRUSTED_UID: u32 = 3;
    /// `TracePacket.trusted_packet_sequence_id`.
    pub const TRUSTED_PACKET_SEQUENCE_ID: u32 = 10;
    /// `TracePacket.trusted_pid`.
    pub const TRUSTED_PID: u32 = 79;
    /// `TracePacket.interned_data`.
    pub const INTERNED_DATA: u32 = 12;
    /// `TracePacket.sequence_flags`.
    pub const SEQUENCE_FLAGS: u32 = 13;
    /// `TracePacket.incremental_state_cleared`.
    pub const INCREMENTAL_STATE_CLEARED: u32 = 41;
    /// `TracePacket.trace_packet_defaults`.
    pub const TRACE_PACKET_DEFAULTS: u32 = 59;
    /// `TracePacket.previous_packet_dropped`.
    pub const PREVIOUS_PACKET_DROPPED: u32 = 42;
    /// `TracePacket.first_packet_on_sequence`.
    pub const FIRST_PACKET_ON_SEQUENCE: u32 = 87;
    /// `TracePacket.machine_id`.
    pub const MACHINE_ID: u32 = 98;
    /// `TracePacket.not_recorded`.
    pub const NOT_RECORDED: u32 = 5000;
    /// Field numbers of `ProtoVms`.
    pub mod proto_vms {
        /// `ProtoVms.instance`.
        pub const INSTANCE: u32 = 1;
        /// Field numbers of `Instance`.
        pub mod instance {
            /// `Instance.program`.
            pub const PROGRAM: u32 = 1;
            /// `Instance.state`.
            pub const STATE: u32 = 2;
            /// `Instance.memory_limit_kb`.
            pub const MEMORY_LIMIT_KB: u32 = 3;
            /// `Instance.producer_id`.
            pub const PRODUCER_ID: u32 = 4;
        }
    }
    /// Field numbers of `NotRecorded`.
    pub mod not_recorded {
        /// `NotRecorded.data_source_name`.
        pub const DATA_SOURCE_NAME: u32 = 1;
        /// `NotRecorded.producer_name`.
        pub const PRODUCER_NAME: u32 = 2;
        /// `NotRecorded.reason`.
        pub const REASON: u32 = 3;
    }
}
/// Field numbers of `Trace`.
pub mod trace {
    /// `Trace.packet`.
    pub const PACKET: u32 = 1;
}
