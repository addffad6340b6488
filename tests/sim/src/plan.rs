//! What a session is to be like.

use ferretto_protos as protos;
use ferretto_protos::fields;
use ferretto_protos::trace_config::buffer_config::FillPolicy;
use ferretto_protos::trace_config::trigger_config::{Trigger, TriggerMode};
use ferretto_protos::trace_config::{
    BufferConfig, BuiltinDataSource, CompressionType, DataSource, IncrementalStateConfig,
    LockdownModeOperation, SessionSemaphore, TraceFilter, TriggerConfig, WriteFlushMode,
};
use ferretto_trace_filter::BytecodeBuilder;
use prost::Message;

use crate::fate::Fate;

/// What producers offer.
pub(crate) const DATA_SOURCES: [&str; 2] = ["sim.one", "sim.two"];
/// What producers call out, and sessions may wait for.
pub(crate) const TRIGGERS: [&str; 3] = ["bang", "boom", "thud"];
/// What sessions may hold together.
const SEMAPHORES: [&str; 2] = ["lane", "bridge"];
/// The names of machines that relays bring, whose ids are one more than their place here.
pub(crate) const MACHINES: [&str; 2] = ["afar", "abroad"];
/// The field of `TestEvent` that filters leave out.
pub(crate) const FILTERED_FIELD: u32 = 4;
/// A buffer that a world of this size seldom fills.
const AMPLE_KB: u32 = 8 * 1024;

/// One buffer.
#[derive(Clone, Debug)]
pub(crate) struct Buffer {
    pub(crate) size_kb: u32,
    pub(crate) discards: bool,
    pub(crate) transfers: bool,
    pub(crate) clears: bool,
}

/// Where the trace is written to.
#[derive(Clone, Debug)]
pub(crate) struct FilePlan {
    pub(crate) is_by_path: bool,
    pub(crate) max_bytes: Option<u64>,
    period_ms: u32,
    flush_mode: WriteFlushMode,
}

/// The trigger that a session waits for.
#[derive(Clone, Debug)]
pub(crate) struct TriggerPlan {
    pub(crate) name: &'static str,
    pub(crate) mode: TriggerMode,
    delay_ms: u32,
    timeout_ms: u32,
}

/// How many others may hold what a session holds.
#[derive(Clone, Debug)]
pub(crate) struct Semaphore {
    pub(crate) name: &'static str,
    pub(crate) max_others: u64,
}

/// A session's config, in the world's words.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Names the session in the world: it is in its name and in what producers get.
    pub(crate) serial: u32,
    pub(crate) buffers: Vec<Buffer>,
    /// Names and target buffers.
    pub(crate) sources: Vec<(&'static str, usize)>,
    /// Producers that may take part; all if there are none.
    pub(crate) filter: Vec<String>,
    pub(crate) duration_ms: u32,
    pub(crate) counts_suspend: bool,
    pub(crate) is_deferred: bool,
    pub(crate) flush_timeout_ms: u32,
    pub(crate) stop_timeout_ms: u32,
    pub(crate) file: Option<FilePlan>,
    pub(crate) score: i32,
    pub(crate) exclusive_prio: u32,
    pub(crate) has_events: bool,
    /// What its rings overwrite is folded.
    pub(crate) folds: bool,
    pub(crate) trigger: Option<TriggerPlan>,
    pub(crate) semaphores: Vec<Semaphore>,
    /// A filter leaves a field of each event out.
    pub(crate) is_filtered: bool,
    /// Lets other users' programs in no more, or again.
    pub(crate) lockdown: Option<bool>,
    /// On which machines its data sources are to run; if none is named, on the service's own, or on all.
    machines: Vec<&'static str>,
    all_machines: bool,
    /// What ProtoVMs may take; none if 0.
    vm_limit_kb: u32,
    flush_period_ms: u32,
    clear_period_ms: u32,
    is_compressed: bool,
}

impl Plan {
    pub(crate) fn new(serial: u32, uid: u32, fate: &mut Fate) -> Self {
        let buffers: Vec<Buffer> = (0..fate.pick(&[1, 1, 2, 3])).map(|_| Buffer::new(fate)).collect();
        let count = buffers.len();
        let sources = DATA_SOURCES.iter().take(fate.pick(&[1, 2, 2]));
        let sources = sources.map(|name| (*name, fate.below(count))).collect();
        let exclusive_prio = if uid == 0 && fate.one_in(8) { 1 } else { 0 };
        // An exclusive one must be there for sure, or not.
        let trigger = (exclusive_prio == 0 && fate.one_in(6)).then(|| TriggerPlan::new(fate));
        let has_duration = exclusive_prio == 0 && trigger.is_none() && fate.one_in(3);
        // Without a trigger there may be no trace, and so only a session that starts with it may have a file.
        let may_have_file = trigger.as_ref().is_none_or(|trigger| trigger.mode == TriggerMode::StartTracing);
        Self {
            serial,
            buffers,
            sources,
            // The names of the first producers of a world.
            filter: if fate.one_in(6) {
                (0..fate.below(4) + 1).map(producer_name).collect()
            } else {
                Vec::new()
            },
            duration_ms: if has_duration { 1 + fate.below(2000) as u32 } else { 0 },
            counts_suspend: fate.one_in(3),
            is_deferred: trigger.is_none() && fate.one_in(4),
            flush_timeout_ms: 200,
            stop_timeout_ms: 300,
            file: (may_have_file && fate.one_in(4)).then(|| FilePlan::new(uid, fate)),
            score: if fate.one_in(5) { 1 + fate.below(3) as i32 } else { 0 },
            exclusive_prio,
            has_events: !fate.one_in(8),
            folds: fate.one_in(2),
            trigger,
            semaphores: if fate.one_in(4) { vec![Semaphore::new(fate)] } else { Vec::new() },
            is_filtered: fate.one_in(5),
            lockdown: (uid == 0 && fate.one_in(12)).then(|| fate.one_in(3)),
            machines: if fate.one_in(6) {
                fate.pick(&[&["host"][..], &["afar"], &["host", "abroad"]]).to_vec()
            } else {
                Vec::new()
            },
            all_machines: fate.one_in(2),
            vm_limit_kb: fate.pick(&[0, 1, 64, 64]),
            flush_period_ms: if fate.one_in(3) { 100 } else { 0 },
            clear_period_ms: if fate.one_in(4) { 150 } else { 0 },
            is_compressed: fate.one_in(6),
        }
    }

    /// Nothing in a world is likely to overflow its buffers.
    pub(crate) fn is_ample(&self) -> bool {
        self.buffers.iter().all(|buffer| buffer.size_kb == AMPLE_KB)
    }

    /// A clone takes some of its buffers away.
    pub(crate) fn transfers(&self) -> bool {
        self.buffers.iter().any(|buffer| buffer.transfers)
    }

    /// Whether its data sources are to run on this machine.
    pub(crate) fn wants_machine(&self, id: u32) -> bool {
        match machine_name(id) {
            None => self.machines.is_empty() || self.machines.contains(&"host"),
            Some(_) if self.machines.is_empty() => self.all_machines,
            Some(name) => self.machines.contains(&name),
        }
    }

    fn waits_for(&self, mode: TriggerMode) -> bool {
        self.trigger.as_ref().is_some_and(|trigger| trigger.mode == mode)
    }

    pub(crate) fn session_name(&self) -> String {
        format!("s{}", self.serial)
    }

    #[expect(deprecated, reason = "what consumers set all the same")]
    pub(crate) fn config(&self) -> protos::TraceConfig {
        let file = self.file.as_ref();
        protos::TraceConfig {
            buffers: self.buffers.iter().map(|buffer| buffer.config(self.folds)).collect(),
            data_sources: self.sources.iter().map(|(name, buffer)| self.data_source(name, *buffer)).collect(),
            builtin_data_sources: Some(BuiltinDataSource {
                disable_service_events: Some(!self.has_events),
                ..Default::default()
            }),
            unique_session_name: Some(self.session_name()),
            // A clone keeps the second half.
            trace_uuid_msb: Some(1),
            trace_uuid_lsb: Some(i64::from(self.serial)),
            duration_ms: some(self.duration_ms),
            prefer_suspend_clock_for_duration: Some(self.counts_suspend),
            deferred_start: self.is_deferred.then_some(true),
            flush_period_ms: some(self.flush_period_ms),
            flush_timeout_ms: Some(self.flush_timeout_ms),
            data_source_stop_timeout_ms: Some(self.stop_timeout_ms),
            incremental_state_config: some(self.clear_period_ms)
                .map(|period| IncrementalStateConfig { clear_period_ms: Some(period) }),
            bugreport_score: (self.score > 0).then_some(self.score),
            exclusive_prio: some(self.exclusive_prio),
            compression_type: self.is_compressed.then_some(CompressionType::Deflate as i32),
            trigger_config: self.trigger.as_ref().map(TriggerPlan::config),
            session_semaphores: self.semaphores.iter().map(Semaphore::config).collect(),
            trace_filter: self.is_filtered.then(filter),
            lockdown_mode: self.lockdown.map(lockdown_mode),
            trace_all_machines: Some(self.all_machines),
            write_into_file: file.map(|_| true),
            output_path: file.filter(|file| file.is_by_path).map(|_| self.path()),
            file_write_period_ms: file.map(|file| file.period_ms),
            max_file_size_bytes: file.and_then(|file| file.max_bytes),
            write_flush_mode: file.map(|file| file.flush_mode as i32),
            ..Default::default()
        }
    }

    /// The path of its file, from which nature knows whose it is.
    fn path(&self) -> String {
        self.serial.to_string()
    }

    fn data_source(&self, name: &str, buffer: usize) -> DataSource {
        let config = protos::DataSourceConfig {
            name: Some(name.to_owned()),
            target_buffer: u32::try_from(buffer).ok(),
            legacy_config: Some(self.serial.to_string()),
            protovm_config: some(self.vm_limit_kb)
                .map(|limit| protos::ProtoVmConfig { memory_limit_kb: Some(limit) }),
            ..Default::default()
        };
        DataSource {
            config: Some(config),
            producer_name_filter: self.filter.clone(),
            machine_name_filter: self.machines.iter().map(|name| (*name).to_owned()).collect(),
            ..Default::default()
        }
    }

    /// The config once more, with a producer more in its filter.
    pub(crate) fn widened(&self, name: &str) -> protos::TraceConfig {
        let mut config = self.config();
        for source in &mut config.data_sources {
            source.producer_name_filter.push(name.to_owned());
        }
        config
    }

    /// What of the plan is worth a count.
    pub(crate) fn note(&self, fate: &mut Fate) {
        let behaviours = [
            (self.buffers.iter().any(|buffer| buffer.discards), "buffer: discard"),
            (self.buffers.iter().any(|buffer| !buffer.discards), "buffer: ring"),
            (self.is_compressed, "compressed trace"),
            (self.is_deferred, "deferred start"),
            (self.exclusive_prio > 0, "exclusive session"),
            (!self.filter.is_empty(), "producer filter"),
            (self.folds, "what is overwritten is folded"),
            (self.is_filtered, "filtered trace"),
            (self.lockdown == Some(true), "lock-down"),
            (self.lockdown == Some(false), "lock-down ends"),
            (!self.machines.is_empty(), "machine filter"),
            (!self.semaphores.is_empty(), "session semaphore"),
            (self.waits_for(TriggerMode::StartTracing), "trigger that starts"),
            (self.waits_for(TriggerMode::StopTracing), "trigger that stops"),
            (self.waits_for(TriggerMode::CloneSnapshot), "trigger for a clone"),
            (self.file.as_ref().is_some_and(|file| file.is_by_path), "file named by path"),
        ];
        for (_, behaviour) in behaviours.into_iter().filter(|(is_so, _)| *is_so) {
            fate.saw(behaviour);
        }
    }
}

impl Buffer {
    fn new(fate: &mut Fate) -> Self {
        Self {
            // The largest chunk fits into the smallest: one that does not is dropped, and only counted (`abi_violations`).
            size_kb: fate.pick(&[36, 36, 48, 64, AMPLE_KB, AMPLE_KB, AMPLE_KB, AMPLE_KB]),
            discards: fate.one_in(3),
            transfers: fate.one_in(8),
            clears: fate.one_in(8),
        }
    }

    fn config(&self, folds: bool) -> BufferConfig {
        let policy = if self.discards { FillPolicy::Discard } else { FillPolicy::RingBuffer };
        BufferConfig {
            size_kb: Some(self.size_kb),
            fill_policy: Some(policy as i32),
            transfer_on_clone: Some(self.transfers),
            clear_before_clone: Some(self.clears),
            fold_overwritten: (folds && !self.discards).then_some(true),
            ..Default::default()
        }
    }
}

impl TriggerPlan {
    fn new(fate: &mut Fate) -> Self {
        Self {
            name: fate.pick(&TRIGGERS),
            mode: fate.pick(&[
                TriggerMode::StartTracing,
                TriggerMode::StopTracing,
                TriggerMode::CloneSnapshot,
            ]),
            delay_ms: fate.pick(&[0, 1, 50, 2000]),
            timeout_ms: fate.pick(&[200, 5000, 20_000]),
        }
    }

    fn config(&self) -> TriggerConfig {
        let trigger = Trigger {
            name: Some(self.name.to_owned()),
            stop_delay_ms: Some(self.delay_ms),
            ..Default::default()
        };
        TriggerConfig {
            trigger_mode: Some(self.mode as i32),
            triggers: vec![trigger],
            trigger_timeout_ms: Some(self.timeout_ms),
            ..Default::default()
        }
    }
}

impl Semaphore {
    fn new(fate: &mut Fate) -> Self {
        Self { name: fate.pick(&SEMAPHORES), max_others: fate.below(3) as u64 }
    }

    fn config(&self) -> SessionSemaphore {
        SessionSemaphore { name: Some(self.name.to_owned()), max_other_session_count: Some(self.max_others) }
    }
}

fn lockdown_mode(is_on: bool) -> i32 {
    let mode = if is_on { LockdownModeOperation::LockdownSet } else { LockdownModeOperation::LockdownClear };
    mode as i32
}

/// What a machine is called; the service's own is not.
pub(crate) fn machine_name(id: u32) -> Option<&'static str> {
    MACHINES.get((id as usize).checked_sub(1)?).copied()
}

/// Lets everything through, but for one field.
fn filter() -> TraceFilter {
    const FOR_TESTING: u32 = fields::trace_packet::FOR_TESTING;
    let mut builder = BytecodeBuilder::new();
    let (trace, packet, event) = (builder.message(), builder.message(), builder.message());
    builder.nested(trace, fields::trace::PACKET, packet);
    builder.keep_range(packet, 1, FOR_TESTING - 1).nested(packet, FOR_TESTING, event);
    builder.keep_range(event, 1, FILTERED_FIELD - 1).keep_range(event, FILTERED_FIELD + 1, 100);
    let built = builder.build().expect("a program");
    TraceFilter { bytecode_v2: Some(built.bytecode_v2.into()), ..Default::default() }
}

impl FilePlan {
    fn new(uid: u32, fate: &mut Fate) -> Self {
        Self {
            // Only root may have the service make a file.
            is_by_path: uid == 0 && fate.one_in(2),
            max_bytes: fate.one_in(4).then(|| 500 + fate.below(20_000) as u64),
            period_ms: fate.pick(&[100, 300, 6000]),
            flush_mode: fate.pick(&[
                WriteFlushMode::WriteFlushUnspecified,
                WriteFlushMode::WriteFlushDisabled,
                WriteFlushMode::WriteFlushEnabled,
            ]),
        }
    }
}

/// The name of the producer with this number.
pub(crate) fn producer_name(number: usize) -> String {
    format!("sim.{number}")
}

fn some(value: u32) -> Option<u32> {
    (value != 0).then_some(value)
}

/// Which session a serialised config is for.
pub(crate) fn serial_of(raw: &[u8]) -> Option<u32> {
    let config = protos::TraceConfig::decode(raw).ok()?;
    config.unique_session_name().strip_prefix('s')?.parse().ok()
}
