//! All ftrace sessions: sets instances up for them, reads the buffers on time, and hands each session its events.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ferretto_producer::TraceWriter;
use ferretto_protos::FtraceConfig;
use ferretto_protos::fields::{ftrace_stats, trace_packet};
use ferretto_protos::ftrace::INTERFERENCE;
use ferretto_protos::ftrace_config::KsymsMemPolicy;

use super::claim;
use super::encode::{Batch, EncodeState, Names, ParseConfig, Scratch, encode_batch, write_gap};
use super::instance::{Instance, Limits, is_exclusive};
use super::metadata::Metadata;
use super::plan::FIRST_GENERIC_FIELD;
use super::reader::{CpuReader, PageBuffer};
use super::stats::{self, Phase, SetupErrors, Snapshot};
use super::symbols::KernelSymbols;
use super::tracefs::{self, Access, Tracefs};
use crate::clock::until_next_tick;
use crate::packets::Packets;

/// How often buffers are drained: by default, and when the kernel wakes us at a watermark (upstream: ftrace_controller.cc).
const DEFAULT_PERIOD_MS: u32 = 100;
const WATERMARK_PERIOD_MS: u32 = 1000;
/// While events come fast, buffers are drained more often than the default says, unless a session asked for a period: the reader must
/// not let more gather than it can pass on before the kernel overwrites the rest. A third leaves room for a reader that the scheduler
/// keeps waiting for two such periods; draining more often than need be costs more than it is worth.
const BUSY_PERIOD_MS: u32 = 25;
const BUSY_FRACTION: usize = 3;
const MAX_PERIOD_MS: u32 = 60_000;
/// Instances that configs name, and those for one data source, of one tracing session: each takes memory of the kernel, for every CPU, and a
/// config may ask for thousands.
const MAX_INSTANCES_OF_SESSION: usize = 4;
/// The same for all: a service has 17 sessions at the most, so that no one keeps another out.
const MAX_ADDITIONAL_INSTANCES: usize = 17 * MAX_INSTANCES_OF_SESSION;
/// So many wakings in a row without data are no coincidence.
const MAX_EMPTY_WAKINGS: u32 = 8;
/// What is read of a CPU in one go; then others get a turn before reading goes on.
const MAX_BYTES_PER_TICK: usize = 1 << 20;

/// All ftrace sessions of this producer.
#[derive(Debug, Default)]
pub(crate) struct FtraceController {
    instances: BTreeMap<Place, Running>,
    sessions: BTreeMap<u64, Session>,
    next_tick: Option<Instant>,
    /// How often buffers are drained where no session says so.
    pace: Pace,
    /// Numbers of generic events are the producer's, so that two instances of a trace do not clash.
    next_field: u32,
    symbols: Option<KernelSymbols>,
    retain_symbols: bool,
    pages: PageBuffer,
    scratch: Scratch,
    /// Over all instances, since the beginning.
    pages_read: u64,
    /// Wakings at a watermark, one after another, that found nothing.
    empty_wakings: u32,
}

/// Where a session records.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Root,
    /// An instance of this process.
    Private,
    /// One for a session that wants what only one session of an instance can have, so that it keeps no other out.
    Exclusive(u64),
    /// The one that the config names.
    Named(String),
}

impl Place {
    /// Whether a config makes it, beside those that all sessions share.
    fn is_additional(&self) -> bool {
        matches!(self, Self::Named(_) | Self::Exclusive(_))
    }
}

/// An instance and the pipes that are open while a session records.
#[derive(Debug)]
struct Running {
    /// Closed first: the kernel removes no instance that somebody reads.
    readers: Vec<CpuReader>,
    instance: Instance,
    /// The kernel's poll() on the pipes can be relied on, and a session asked for it.
    watermark: bool,
}

/// One data source instance.
#[derive(Debug)]
struct Session {
    /// Data sources of one tracing session work together.
    tracing_session: u64,
    config: FtraceConfig,
    place: Place,
    writer: TraceWriter,
    parse: ParseConfig,
    state: EncodeState,
    errors: SetupErrors,
    before: Snapshot,
    started: bool,
    /// Somebody else has changed the instance, and it has been said.
    is_interfered_with: bool,
    /// Set up: false if nothing can be recorded, then only the reason goes into the trace.
    works: bool,
}

/// What one pass over an instance's buffers gave.
struct ReadPass {
    /// Every buffer has been read to its end; otherwise one may have more.
    all_done: bool,
    pages: u64,
    /// Of the fullest buffer.
    most_pages: usize,
}

/// Chooses the period of draining from how much has gathered each time.
#[derive(Debug)]
struct Pace {
    period_ms: u32,
    /// Since all buffers were last read to their ends: whether the fullest was too full, or so empty that there is no hurry.
    was_busy: bool,
    was_idle: bool,
}

impl Default for Pace {
    fn default() -> Self {
        Self { period_ms: DEFAULT_PERIOD_MS, was_busy: false, was_idle: true }
    }
}

impl Pace {
    /// So many pages of a buffer were read in one pass.
    fn observe(&mut self, pages: usize, of: usize) {
        self.was_busy |= pages.saturating_mul(BUSY_FRACTION) > of;
        self.was_idle &= pages.saturating_mul(4 * BUSY_FRACTION) < of;
    }

    /// All buffers have been read to their ends.
    fn settle(&mut self) {
        if self.was_busy {
            self.period_ms = (self.period_ms / 2).max(BUSY_PERIOD_MS);
        } else if self.was_idle {
            self.period_ms = (self.period_ms * 2).min(DEFAULT_PERIOD_MS);
        }
        (self.was_busy, self.was_idle) = (false, true);
    }
}

impl Session {
    /// Says so, in words and for readers of the trace with a gap of every CPU, if another program has ended what is recorded here.
    fn look_for_interference(&mut self, instance: &Instance) {
        if self.is_interfered_with {
            return;
        }
        let Some(what) = instance.interference() else { return };
        self.is_interfered_with = true;
        self.errors.message(format!("{INTERFERENCE}{what}"));
        for cpu in instance.tracefs.cpus() {
            write_gap(&mut self.writer, cpu, &mut self.state);
        }
    }
}

impl FtraceController {
    /// Prepares a session. It always comes to be: what prevents recording is said in the log and in the trace.
    pub(crate) fn set_up(
        &mut self,
        id: u64,
        tracing_session: u64,
        config: FtraceConfig,
        writer: TraceWriter,
    ) {
        let mut errors = SetupErrors::default();
        let (place, parse, works) = match self.try_set_up(id, tracing_session, &config, &mut errors) {
            Ok((place, parse)) => (place, parse, true),
            Err(reason) => {
                errors.message(format!("nothing is recorded: {reason}"));
                errors.failed_events.extend(config.ftrace_events.iter().cloned());
                (Place::Root, ParseConfig::default(), false)
            }
        };
        let state = EncodeState::default();
        let before = Snapshot::default();
        self.sessions.insert(
            id,
            Session {
                tracing_session,
                config,
                place,
                writer,
                parse,
                state,
                errors,
                before,
                started: false,
                is_interfered_with: false,
                works,
            },
        );
    }

    fn try_set_up(
        &mut self,
        id: u64,
        tracing_session: u64,
        config: &FtraceConfig,
        errors: &mut SetupErrors,
    ) -> Result<(Place, ParseConfig), String> {
        let place = self.open(id, tracing_session, config)?;
        let limits = self.limits(&place, tracing_session);
        self.next_field = self.next_field.max(FIRST_GENERIC_FIELD);
        let Some(running) = self.instances.get_mut(&place) else {
            return Err("the instance is gone".to_owned());
        };
        let result = running.instance.set_up(id, config, limits, &mut self.next_field, errors);
        self.drop_idle_instance(&place);
        Ok((place, result?))
    }

    /// Opens the instance for such a session, unless others have it open.
    fn open(&mut self, id: u64, tracing_session: u64, config: &FtraceConfig) -> Result<Place, String> {
        let root = tracefs_root()?;
        let place = self.choose_place(&root, id, config);
        if self.instances.contains_key(&place) {
            return Ok(place);
        }
        let (place, instance) = match place {
            Place::Root => {
                let instance = Instance::root(root)?;
                // Otherwise it was found free, or there is no other.
                if needs_root(config) {
                    instance.check_unused(config)?;
                }
                (Place::Root, instance)
            }
            Place::Named(name) => {
                self.check_additional_instances(tracing_session)?;
                let instance = Instance::named(&root, &name)?;
                instance.check_unused(config)?;
                (Place::Named(name), instance)
            }
            Place::Exclusive(id) => {
                self.check_additional_instances(tracing_session)?;
                (Place::Exclusive(id), Instance::private(&root)?)
            }
            Place::Private => match Instance::private(&root) {
                Ok(instance) => (Place::Private, instance),
                Err(_) if self.instances.contains_key(&Place::Root) => return Ok(Place::Root),
                Err(reason) => {
                    (Place::Root, Instance::root(root).map_err(|error| format!("{reason}; {error}"))?)
                }
            },
        };
        self.instances.insert(place.clone(), Running { readers: Vec::new(), instance, watermark: false });
        Ok(place)
    }

    fn check_additional_instances(&self, tracing_session: u64) -> Result<(), String> {
        let of_session = self.sessions.values().filter(|s| s.works && s.tracing_session == tracing_session);
        let places: BTreeSet<&Place> =
            of_session.map(|s| &s.place).filter(|place| place.is_additional()).collect();
        if places.len() >= MAX_INSTANCES_OF_SESSION {
            return Err(format!(
                "a session has {MAX_INSTANCES_OF_SESSION} instances beside the shared one at the most: those that it names, and one for each data source with tids_to_trace or tracing_cpumask"
            ));
        }
        if self.instances.keys().filter(|place| place.is_additional()).count() < MAX_ADDITIONAL_INSTANCES {
            return Ok(());
        }
        Err(format!("{MAX_ADDITIONAL_INSTANCES} instances are in use already; let one of them end first"))
    }

    /// What a session may take of the kernel there: those that configs have made together no more than twice what one may.
    fn limits(&self, place: &Place, tracing_session: u64) -> Limits {
        let of_machine = Limits::of_machine();
        let others =
            || self.instances.iter().filter(|(other, _)| *other != place).map(|(p, r)| (p, &r.instance));
        let additional = others().filter(|(other, _)| other.is_additional());
        let left_kb = (2 * of_machine.buffers_kb)
            .saturating_sub(additional.map(|(_, instance)| instance.buffers_kb()).sum());
        Limits {
            buffers_kb: match place.is_additional() {
                true => left_kb.min(of_machine.buffers_kb),
                false => of_machine.buffers_kb,
            },
            kprobes: of_machine
                .kprobes
                .saturating_sub(others().map(|(_, instance)| instance.kprobes()).sum()),
            kprobes_of_session: of_machine
                .kprobes_of_session
                .saturating_sub(self.kprobes_of(tracing_session)),
        }
    }

    /// Of all data sources of a tracing session.
    fn kprobes_of(&self, tracing_session: u64) -> usize {
        let of_session =
            self.sessions.iter().filter(|(_, s)| s.works && s.tracing_session == tracing_session);
        of_session.filter_map(|(id, s)| Some(self.instances.get(&s.place)?.instance.kprobes_of(*id))).sum()
    }

    /// The root of tracefs is for what no other instance can do, and for kernels whose instances lack something: others, who would have
    /// to share it and know nothing of us, may empty it and switch it off.
    fn choose_place(&self, root: &Path, id: u64, config: &FtraceConfig) -> Place {
        match config.instance_name() {
            "" if needs_root(config) => Place::Root,
            "" if is_exclusive(config) && Tracefs::new(root.to_owned()).has_good_instances() => {
                Place::Exclusive(id)
            }
            "" if self.instances.contains_key(&Place::Private) => Place::Private,
            "" if Tracefs::new(root.to_owned()).has_good_instances() => Place::Private,
            "" if self.instances.contains_key(&Place::Root) || claim::is_root_free(root) => Place::Root,
            "" => Place::Private,
            name => Place::Named(name.to_owned()),
        }
    }

    /// Begins recording.
    pub(crate) fn start(&mut self, id: u64) {
        self.read_for_others(id);
        let Some(session) = self.sessions.get_mut(&id).filter(|session| !session.started) else { return };
        session.started = true;
        let Some(running) = self.instances.get_mut(&session.place).filter(|_| session.works) else {
            return;
        };
        if let Err(reason) = running.instance.activate(id) {
            session.errors.message(format!("nothing is recorded: {reason}"));
            return;
        }
        running.open_pipes(&mut session.errors);
        running.watermark = running.instance.wants_watermark() && kernel_polls_well();
        if session.config.symbolize_ksyms() {
            // Takes some tenths of a second. The kernel records meanwhile, and the session counts as started only afterwards.
            let symbols = self.symbols.get_or_insert_with(KernelSymbols::load);
            if symbols.len() == 0 {
                session.errors.message("symbolize_ksyms has no effect: /proc/kallsyms hides the addresses (kernel.kptr_restrict)".to_owned());
            }
            self.retain_symbols |= session.config.ksyms_mem_policy() == KsymsMemPolicy::KsymsRetain;
        }
        session.before = snapshot(&running.instance, self.symbols.as_ref());
        if session.config.preserve_ftrace_buffer() {
            // Tells readers not to cut what was recorded before the start.
            session.writer.packet(|packet| {
                let mut stats = packet.nested(trace_packet::FTRACE_STATS);
                stats.varint(ftrace_stats::PHASE, Phase::Start as u64);
                stats.bool(ftrace_stats::PRESERVE_FTRACE_BUFFER, true);
            });
        }
        self.next_tick = Some(Instant::now() + until_next_tick(self.period_ms()));
    }

    /// Hands on what was recorded before a session begins to those that it was for: what was lost of it is not the new one's loss.
    fn read_for_others(&mut self, id: u64) {
        if self.sessions.get(&id).is_some_and(|session| session.works && !session.started) {
            self.read_all(|instance| instance.buffer_pages().max(1));
        }
    }

    /// Ends a session and takes its share of the kernel's state back.
    pub(crate) fn remove(&mut self, id: u64) {
        let Some(session) = self.sessions.remove(&id) else { return };
        let place = &session.place;
        let others_record = self.sessions.values().any(|s| s.started && s.works && s.place == *place);
        if let Some(running) = self.instances.get_mut(place) {
            if !others_record {
                running.readers.clear();
            }
            running.instance.remove(id);
            running.watermark &= running.instance.wants_watermark();
        }
        self.drop_idle_instance(place);
        if self.sessions.is_empty() {
            self.next_tick = None;
            self.pace = Pace::default();
            self.pages = PageBuffer::default();
            // An empty table is worth another try.
            if !self.retain_symbols || self.symbols.as_ref().is_some_and(|symbols| symbols.len() == 0) {
                self.symbols = None;
            }
            self.retain_symbols = false;
        }
    }

    fn drop_idle_instance(&mut self, place: &Place) {
        if self.instances.get(place).is_some_and(|running| running.instance.is_idle()) {
            self.instances.remove(place);
        }
    }

    /// When the buffers want to be read again.
    pub(crate) fn next_tick(&self) -> Option<Instant> {
        self.next_tick
    }

    /// Pipes that become readable when a buffer is as full as a session set it.
    pub(crate) fn watermark_fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.instances
            .values()
            .filter(|running| running.watermark)
            .flat_map(|running| running.readers.iter().map(|r| r.pipe.as_fd()))
    }

    /// Reads because a buffer is said to be as full as a session set it. Wakings without data (the pipe of a CPU that is offline
    /// always has an error to report) end this way of waking: the period goes on.
    pub(crate) fn on_watermark(&mut self) {
        let pages_before = self.pages_read;
        self.tick();
        // Once may be a flush that came first.
        self.empty_wakings = if self.pages_read == pages_before { self.empty_wakings + 1 } else { 0 };
        if self.empty_wakings >= MAX_EMPTY_WAKINGS {
            self.empty_wakings = 0;
            tracing::info!(
                "linux.ftrace: drain_buffer_percent has no more effect: the kernel wakes without data"
            );
            self.instances.values_mut().for_each(|running| running.watermark = false);
        }
    }

    /// Reads what has gathered. Call [`take_metadata`](Self::take_metadata) afterwards.
    pub(crate) fn tick(&mut self) {
        let all_done = self.read_all(|instance| (MAX_BYTES_PER_TICK / instance.layout.page_size).max(1));
        if all_done {
            self.pace.settle();
        }
        let delay = if all_done { until_next_tick(self.period_ms()) } else { Duration::ZERO };
        self.next_tick =
            self.sessions.values().any(|session| session.started).then(|| Instant::now() + delay);
    }

    /// Reads once through all buffers, so that what happened before the call is in the trace, and writes the statistics of these sessions.
    pub(crate) fn flush(&mut self, ids: &[u64]) {
        // Not to an end: events may come faster than they are read.
        self.read_all(|instance| instance.buffer_pages().max(1));
        for id in ids {
            let Some(session) = self.sessions.get_mut(id).filter(|session| session.started) else { continue };
            let instance =
                self.instances.get(&session.place).map(|running| &running.instance).filter(|_| session.works);
            if let Some(instance) = instance {
                session.look_for_interference(instance);
            }
            let after =
                instance.map(|instance| snapshot(instance, self.symbols.as_ref())).unwrap_or_default();
            stats::write(
                &mut session.writer,
                Phase::Start,
                &session.before,
                &session.errors,
                session.state.errors,
            );
            stats::write(&mut session.writer, Phase::End, &after, &session.errors, session.state.errors);
            session.writer.flush();
        }
    }

    /// Those of all sessions.
    pub(crate) fn writers(&mut self) -> impl Iterator<Item = &mut TraceWriter> {
        self.sessions.values_mut().map(|session| &mut session.writer)
    }

    /// Gives what each tracing session's events have mentioned since the last time.
    pub(crate) fn take_metadata(&mut self, mut give: impl FnMut(u64, &Metadata)) {
        for session in self.sessions.values_mut() {
            let tracing_session = session.tracing_session;
            session.state.metadata.give(|seen| give(tracing_session, seen));
        }
    }

    /// Lets the events of some tracing sessions tell of files, and those of others not.
    pub(crate) fn set_wanting_files(&mut self, is_wanting: impl Fn(u64) -> bool) {
        let this_thread = rustix::thread::gettid().as_raw_nonzero().get();
        for session in self.sessions.values_mut() {
            let thread = is_wanting(session.tracing_session).then_some(this_thread);
            session.state.metadata.files.set_wanted_by(thread);
        }
    }

    /// Reads every buffer; false if some may have more.
    fn read_all(&mut self, max_pages: impl Fn(&Instance) -> usize) -> bool {
        let mut all_done = true;
        for (place, running) in &mut self.instances {
            let mut sessions: Vec<&mut Session> =
                self.sessions.values_mut().filter(|s| s.started && s.works && s.place == *place).collect();
            if sessions.is_empty() {
                continue;
            }
            let max_pages = max_pages(&running.instance);
            let read = running.read(
                &mut sessions,
                max_pages,
                &mut self.pages,
                &mut self.scratch,
                self.symbols.as_ref(),
            );
            all_done &= read.all_done;
            self.pages_read += read.pages;
            self.pace.observe(read.most_pages, running.instance.buffer_pages());
        }
        all_done
    }

    fn period_ms(&self) -> u32 {
        let asked = self
            .sessions
            .values()
            .filter(|session| session.started)
            .filter_map(|session| session.config.drain_period_ms)
            .min();
        let default = if self.instances.values().all(|running| running.watermark) {
            WATERMARK_PERIOD_MS
        } else {
            self.pace.period_ms
        };
        match asked {
            None => default,
            Some(period_ms @ 1..=MAX_PERIOD_MS) => period_ms,
            Some(_) => DEFAULT_PERIOD_MS,
        }
    }
}

impl Running {
    fn open_pipes(&mut self, errors: &mut SetupErrors) {
        if !self.readers.is_empty() {
            return;
        }
        for cpu in self.instance.tracefs.cpus() {
            match self.instance.tracefs.open_raw_pipe(cpu) {
                Ok(pipe) => self.readers.push(CpuReader { cpu, pipe }),
                Err(error) => errors.message(format!(
                    "CPU {cpu} is not recorded: could not open its trace_pipe_raw: {error}"
                )),
            }
        }
    }

    /// Reads up to `max_pages` of each CPU for these sessions.
    fn read(
        &mut self,
        sessions: &mut [&mut Session],
        max_pages: usize,
        pages: &mut PageBuffer,
        scratch: &mut Scratch,
        symbols: Option<&KernelSymbols>,
    ) -> ReadPass {
        let layout = self.instance.layout;
        let pages = pages.pages(layout);
        let clock = self.instance.clock_pair();
        let shared = self.instance.is_shared();
        let names = Names { symbols, printk: self.instance.printk() };
        let mut pass = ReadPass { all_done: true, pages: 0, most_pages: 0 };
        for reader in &mut self.readers {
            let mut left = max_pages;
            let mut is_first = true;
            while left > 0 {
                let read = reader.read_batch(pages, layout, left, is_first);
                is_first = false;
                left = left.saturating_sub(read.pages);
                pass.pages += read.pages as u64;
                let batch = Batch {
                    cpu: reader.cpu,
                    pages: pages.get(..read.pages * layout.page_size).unwrap_or(&[]),
                    layout,
                    clock,
                };
                for session in sessions.iter_mut() {
                    session.parse.shared = shared;
                    if let Some(error) = read.error {
                        session.state.errors.insert(error);
                    }
                    encode_batch(
                        &mut session.writer,
                        &batch,
                        &session.parse,
                        &mut session.state,
                        scratch,
                        names,
                    );
                }
                if read.is_last {
                    break;
                }
            }
            pass.all_done &= left > 0;
            pass.most_pages = pass.most_pages.max(max_pages - left);
        }
        pass
    }
}

/// Whether a session needs what only the root instance has: what was recorded there before, the function tracer's filters, and options
/// such as `record-cmd`.
fn needs_root(config: &FtraceConfig) -> bool {
    config.preserve_ftrace_buffer() || config.enable_function_graph() || !config.tracefs_options.is_empty()
}

fn snapshot(instance: &Instance, symbols: Option<&KernelSymbols>) -> Snapshot {
    Snapshot {
        symbols_parsed: symbols.map_or(0, KernelSymbols::len),
        symbols_bytes: symbols.map_or(0, KernelSymbols::size_bytes),
        ..instance.snapshot()
    }
}

/// The usable tracefs, or why there is none and what to do.
pub(crate) fn tracefs_root() -> Result<PathBuf, String> {
    match tracefs::check() {
        Access::Usable(root) => Ok(root),
        Access::NotMounted { kernel_has_it: false } => Err("this kernel has no tracefs".to_owned()),
        Access::NotMounted { kernel_has_it: true } => {
            Err("tracefs is not mounted (sudo mount -t tracefs nodev /sys/kernel/tracing)".to_owned())
        }
        Access::Denied { root, missing } => Err(format!(
            "{} may not be written by this user (run with sudo, or: sudo chown -R $USER {}; if it was mounted after the probes started, start them again)",
            missing.display(),
            root.display()
        )),
    }
}

/// Kernels before 6.9 wake pollers of the raw pipes too often or not at all (upstream: PollSupportedOnKernelVersion).
fn kernel_polls_well() -> bool {
    let release = crate::proc_fs::read("/proc/sys/kernel/osrelease");
    let mut numbers = release.split(|b| !b.is_ascii_digit()).map(crate::proc_fs::leading_u64);
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(major), Some(minor)) => (major, minor) >= (6, 9),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_that_fill_fast_are_drained_more_often_until_they_do_not() {
        let mut pace = Pace::default();
        let mut period_after = |pages: &[usize]| {
            pages.iter().for_each(|&pages| pace.observe(pages, 2048));
            pace.settle();
            pace.period_ms
        };
        assert_eq!(period_after(&[10]), 100);
        assert_eq!([period_after(&[700]), period_after(&[682, 683]), period_after(&[2048])], [50, 25, 25]);
        assert_eq!(period_after(&[200]), 25, "neither too full nor nearly empty");
        assert_eq!([period_after(&[5]), period_after(&[0, 171]), period_after(&[])], [50, 50, 100]);
    }

    #[test]
    fn a_session_without_tracefs_lives_and_ends_like_any_other() {
        let mut controller = FtraceController::default();
        // A name that no instance can have fails whatever the user may do.
        let config = FtraceConfig { instance_name: Some("a/b".to_owned()), ..Default::default() };
        controller.set_up(1, 1, config, TraceWriter::null());
        controller.start(1);
        controller.tick();
        controller.flush(&[1]);
        controller.take_metadata(|session, seen| assert_eq!((session, seen.pids.iter().count()), (1, 0)));
        assert!(!controller.sessions[&1].works && !controller.sessions[&1].errors.messages.is_empty());
        controller.remove(1);
        assert!(controller.next_tick().is_none() && controller.instances.is_empty());
    }

    #[test]
    fn one_session_does_not_take_all_instances() {
        let mut controller = FtraceController::default();
        let mut record = |id: u64, tracing_session: u64, place: Place| {
            let session = Session {
                tracing_session,
                config: FtraceConfig::default(),
                place,
                writer: TraceWriter::null(),
                parse: ParseConfig::default(),
                state: EncodeState::default(),
                errors: SetupErrors::default(),
                before: Snapshot::default(),
                started: true,
                is_interfered_with: false,
                works: true,
            };
            controller.sessions.insert(id, session);
            [1, 2].map(|session| controller.check_additional_instances(session).is_ok())
        };
        assert_eq!(record(1, 1, Place::Exclusive(1)), [true, true]);
        // The shared ones do not count, and one that several data sources use does once.
        [Place::Private, Place::Root, Place::Named("a".to_owned()), Place::Named("a".to_owned())]
            .into_iter()
            .zip(2..)
            .for_each(|(place, id)| assert_eq!(record(id, 1, place), [true, true]));
        assert_eq!(record(6, 1, Place::Named("b".to_owned())), [true, true]);
        assert_eq!(record(7, 1, Place::Named("c".to_owned())), [false, true]);
    }

    #[test]
    fn who_wants_what_one_session_can_have_only_keeps_no_other_out() {
        let root = std::env::temp_dir().join(format!("ferretto-places-{}", std::process::id()));
        std::fs::create_dir_all(root.join("options")).unwrap();
        ["buffer_subbuf_size_kb", "options/copy_trace_marker"]
            .iter()
            .for_each(|file| std::fs::write(root.join(file), "").unwrap());
        let controller = FtraceController::default();
        let masked = FtraceConfig { tracing_cpumask: Some("1".to_owned()), ..Default::default() };
        assert_eq!(controller.choose_place(&root, 7, &masked), Place::Exclusive(7));
        let traced = FtraceConfig { tids_to_trace: vec![1], ..Default::default() };
        assert_eq!(controller.choose_place(&root, 8, &traced), Place::Exclusive(8));
        assert_eq!(controller.choose_place(&root, 9, &FtraceConfig::default()), Place::Private);
        let with_root = FtraceConfig { enable_function_graph: Some(true), ..masked };
        assert_eq!(controller.choose_place(&root, 7, &with_root), Place::Root);
        std::fs::remove_dir_all(root).unwrap();
    }
}
