//! Why a config is refused.

use ferretto_trace_filter::{BytecodeError, RootError, RuleError};

use crate::limits;

/// Why a config is refused. The text reaches the person who wrote it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum ConfigError {
    #[error("the trace config is no valid protobuf message: {0}")]
    Undecodable(String),
    #[error("duration_ms is {duration_ms}: a trace lasts at most {max_ms} ms; use a shorter duration_ms")]
    TooLong { duration_ms: u64, max_ms: u128 },
    #[error(
        "trigger_config.trigger_timeout_ms is {timeout_ms}: triggers need 1 to {max_ms} ms, after which the session ends"
    )]
    TriggerTimeout { timeout_ms: u32, max_ms: u128 },
    #[error(
        "trigger_config.trigger_mode {0} is unknown; START_TRACING, STOP_TRACING or CLONE_SNAPSHOT is expected"
    )]
    TriggerMode(i32),
    #[error(
        "trigger_config.use_clone_snapshot_if_available needs trigger_mode: STOP_TRACING, and trigger_mode is {0}"
    )]
    TriggerModeForClone(&'static str),
    #[error(
        "trigger_config has {0} trigger(s) and no trigger_mode; set START_TRACING, STOP_TRACING or CLONE_SNAPSHOT"
    )]
    TriggersWithoutMode(usize),
    #[error("duration_ms is {0}: with triggers, trigger_timeout_ms takes its place; remove duration_ms")]
    TriggerWithDuration(u32),
    #[error(
        "write_into_file cannot be used with trigger_mode STOP_TRACING or CLONE_SNAPSHOT: what comes before the trigger stays in memory"
    )]
    TriggerWithFile,
    #[error("trigger_config.triggers[{index}].name has {bytes} bytes; {max} is the most", max = limits::MAX_NAME_BYTES)]
    LongTriggerName { index: usize, bytes: usize },
    #[error("two triggers are named {0:?}; names must be unique in trigger_config")]
    DuplicateTrigger(String),
    #[error("trigger {name:?}: producer_name_regex {pattern:?} is no valid regular expression: {reason}")]
    TriggerRegex { name: String, pattern: String, reason: String },
    #[error("bugreport_filename {0:?} may contain only letters, digits, '-', '_' and '.'")]
    BugreportFilename(String),
    #[error("enable_extra_guardrails does not allow deferred_start")]
    GuardrailDeferredStart,
    #[error(
        "enable_extra_guardrails wants buffer sizes that are multiples of 4 KiB; buffers[{index}].size_kb is {size_kb}"
    )]
    GuardrailBufferMultiple { index: usize, size_kb: u64 },
    #[error("enable_extra_guardrails allows {max_kb} KiB of buffers; the config asks for {sum_kb} KiB")]
    GuardrailBufferSum { sum_kb: u64, max_kb: u64 },
    #[error("the config has {count} buffers; a session has at most {max}", max = limits::MAX_BUFFERS_PER_SESSION)]
    TooManyBuffers { count: usize },
    #[error("two buffers are named {0:?}; names must be unique in a config")]
    DuplicateBufferName(String),
    #[error("data source {source_name:?} wants buffer {wanted:?}, but no buffer of the config has this name")]
    NoSuchBufferName { source_name: String, wanted: String },
    #[error(
        "data source {source_name:?}: target_buffer_name {wanted:?} is buffer {named}, but target_buffer is {index}"
    )]
    BufferMismatch { source_name: String, wanted: String, named: usize, index: usize },
    #[error(
        "data source {source_name:?} wants target_buffer {index}, but the config has {count} buffer(s), counted from 0"
    )]
    NoSuchBuffer { source_name: String, index: u32, count: usize },
    #[error(
        "data source {source_name:?}: the producer filter {pattern:?} is no valid regular expression: {reason}"
    )]
    Regex { source_name: String, pattern: String, reason: String },
    #[error("{of}: {max} regular expressions are the most there may be; one may have alternatives (a|b)")]
    TooManyRegexes { of: String, max: usize },
    #[error("the config has {count} {field}; a session has at most {max}")]
    TooMany { field: &'static str, count: usize, max: usize },
    #[error(
        "data_sources: producer_name_filter and machine_name_filter have more than {names} names or {bytes} bytes together",
        names = limits::MAX_FILTER_NAMES,
        bytes = limits::MAX_FILTER_NAME_BYTES
    )]
    TooManyNames,
    #[error("buffers[{index}].size_kb is {size_kb}; a buffer has 1 to 4194303 KiB")]
    BufferSize { index: usize, size_kb: u64 },
    #[error("buffers[{index}].experimental_mode {mode} is unknown")]
    BufferMode { index: usize, mode: i32 },
    #[error("buffers[{index}].fill_policy {policy} is unknown; RING_BUFFER or DISCARD is expected")]
    FillPolicy { index: usize, policy: i32 },
    #[error("trace_filter.{field}: {error}")]
    FilterProgram { field: &'static str, error: BytecodeError },
    #[error("trace_filter: {0}")]
    FilterRoot(#[from] RootError),
    #[error("trace_filter.{field}.rules[{index}]: {problem}")]
    FilterRule { field: &'static str, index: usize, problem: RuleProblem },
    #[error(
        "priority_boost needs policy POLICY_SCHED_OTHER with priority 0 to 20, or POLICY_SCHED_FIFO with priority 1 to 99"
    )]
    PriorityBoost,
    #[error("write_into_file needs a file descriptor or output_path, and got neither")]
    NoFile,
    #[error("write_into_file needs a file descriptor or output_path, and got both")]
    TwoFiles,
    #[error("output_path without write_into_file would leave the file empty; set write_into_file: true")]
    OutputPathWithoutWrite,
    #[error(
        "data source {source_name:?}: protovm_config.memory_limit_kb is {memory_limit_kb}; {max} is the most for a session",
        max = limits::MAX_PROTOVM_MEMORY_KB
    )]
    ProtoVmMemory { source_name: String, memory_limit_kb: u32 },
    #[error("data source {source_name:?}: {problem}")]
    TracingV2 { source_name: String, problem: &'static str },
}

/// Why a rule of a trace filter is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum RuleProblem {
    #[error("policy {0} is unknown; one of the SFP_… is expected")]
    Policy(i32),
    #[error(transparent)]
    Rule(#[from] RuleError),
}
