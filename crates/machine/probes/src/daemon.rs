//! The producer's loop: connects, sets data sources up and down, keeps their ticks, leaves tracefs as it was found.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use ferretto_producer::{
    Connector, ExhaustedPolicy, ProducerClient, ProducerEvent, ProducerOptions, TraceWriter, Waits,
};
use ferretto_protos::fields::trace_packet::{self, not_recorded};
use ferretto_protos::{DataSourceConfig, DataSourceDescriptor, SystemInfoConfig};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::boost::Boosts;
use crate::clock::{boottime_ns, until_next_tick};
use crate::ftrace::controller::FtraceController;
use crate::ftrace::frozen::FrozenFtrace;
use crate::ftrace::reset::reset_ftrace;
use crate::inode_file_map::InodeFileMap;
use crate::journald::Journald;
use crate::memory_files::MemoryFiles;
use crate::packets::{Packets, stamp};
use crate::process_stats::ProcessStats;
use crate::sys_stats::SysStats;
use crate::sysfs_power::{self, SysfsPower};
use crate::system_info;

/// The name that configs' producer filters know (upstream: probes_producer.cc).
const PRODUCER_NAME: &str = "perfetto.traced_probes";
/// Enough for a second of a busy machine's scheduler events.
const SHM_SIZE_BYTES: u32 = 2 << 20;
/// The largest page that services grant: events come in bundles of many kilobytes.
const SHM_PAGE_BYTES: u32 = 32 << 10;
/// Chunks that writers may hold beside the one that is being written to. The memory has 64; what all instances held would not be there
/// for those that write. Some may, as a chunk that is handed over half empty costs the service as much as a full one.
const MAX_IDLE_CHUNKS: usize = 8;
/// Data sources of one tracing session. Each has its turns on the one thread, and descriptors; a session has use for one of each name, and for
/// some of those of ftrace and of counters with periods of their own.
const MAX_INSTANCES_OF_SESSION: usize = 16;
/// The same for all: a service has 17 sessions at the most, so that no one keeps another out.
const MAX_INSTANCES: usize = 17 * MAX_INSTANCES_OF_SESSION;
/// One of each name for each session.
const MAX_REFUSALS_KNOWN: usize = 17 * DATA_SOURCES.len();
/// After so long with events, or with ticks, it is looked whether ftrace, a signal or the service has something more urgent.
const TURN: Duration = Duration::from_millis(10);
/// How long work that was begun may go on at a flush, for all instances together: others wait for it, but for ftrace. Thousands of processes take
/// less; whoever flushes waits for 5 s.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);
/// The same at an instance's end, and at the daemon's: a flush has gone before.
const STOP_TIMEOUT: Duration = Duration::from_millis(50);
const SHUT_DOWN_TIMEOUT: Duration = Duration::from_millis(100);
/// How long a stopping daemon waits for the service to take the last data.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(500);

const FTRACE: &str = "linux.ftrace";
const PROCESS_STATS: &str = "linux.process_stats";
const SYS_STATS: &str = "linux.sys_stats";
const SYSTEM_INFO: &str = "linux.system_info";
const SYSFS_POWER: &str = "linux.sysfs_power";
const INODE_FILE_MAP: &str = "linux.inode_file_map";
const FROZEN_FTRACE: &str = "linux.frozen_ftrace";
const SYSTEMD_JOURNALD: &str = "linux.systemd_journald";

const DATA_SOURCES: [&str; 8] = [
    FTRACE,
    PROCESS_STATS,
    SYS_STATS,
    SYSTEM_INFO,
    SYSFS_POWER,
    INODE_FILE_MAP,
    FROZEN_FTRACE,
    SYSTEMD_JOURNALD,
];

/// How to run the probes.
#[derive(Debug, Default)]
pub struct ProbesOptions {
    /// Where the tracing service is.
    pub connector: Connector,
    /// Becomes readable (an eventfd, or the other end of a pipe or socket that is closed) when the loop shall end.
    pub stop: Option<OwnedFd>,
    /// Ends the loop on SIGTERM and SIGINT too. A daemon wants this; a host in the same process has its own handlers.
    pub stop_on_signals: bool,
    /// Gets the byte `1` and is closed once all data sources are registered (upstream: TRACED_PROBES_NOTIFY_FD).
    pub notify: Option<OwnedFd>,
    /// Brings ftrace into its default state first, whoever used it.
    pub reset_ftrace: bool,
}

/// Why the probes could not run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The connection could not be prepared. A service that is not there is no error: it is waited for.
    #[error("could not prepare the connection to the tracing service: {0}")]
    Producer(#[from] ferretto_producer::ProducerError),
    /// A signal handler or a file descriptor.
    #[error("could not {what}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

/// Runs the probes on this thread until told to stop. tracefs is restored before it returns, and whenever the service goes away.
///
/// A connection made by [`Connector::Stream`] ends the loop when it ends: there is no other.
pub fn run(options: ProbesOptions) -> Result<(), Error> {
    if options.reset_ftrace && !reset_ftrace() {
        tracing::error!(
            "could not reset ftrace: run it with sudo, or: sudo chown -R $USER /sys/kernel/tracing"
        );
    }
    let is_stopping = Arc::new(AtomicBool::new(false));
    let signals = if options.stop_on_signals { Some(watch_signals(&is_stopping)?) } else { None };
    let has_one_connection = matches!(options.connector, Connector::Stream(_));
    let mut probes = Probes::new(options.connector, options.notify, Waits::until(is_stopping))?;
    loop {
        let stops = [options.stop.as_ref().map(AsFd::as_fd), signals.as_ref().map(AsFd::as_fd)];
        let stops: Vec<BorrowedFd<'_>> = stops.into_iter().flatten().collect();
        if probes.turn(&stops)? || (has_one_connection && probes.was_disconnected) {
            break;
        }
    }
    probes.shut_down();
    Ok(())
}

/// A socket that becomes readable on SIGTERM and SIGINT. Writers that wait for memory see `is_stopping`.
fn watch_signals(is_stopping: &Arc<AtomicBool>) -> Result<UnixStream, Error> {
    let failed = |source| Error::Io { what: "watch for signals", source };
    let (read, write) = UnixStream::pair().map_err(failed)?;
    for signal in [SIGTERM, SIGINT] {
        let write = write.try_clone().map_err(failed)?;
        signal_hook::flag::register(signal, Arc::clone(is_stopping)).map_err(failed)?;
        signal_hook::low_level::pipe::register(signal, write).map_err(failed)?;
    }
    Ok(read)
}

struct Probes {
    client: ProducerClient,
    /// Everything but ftrace, whose sessions share one controller, by instance id.
    sources: BTreeMap<u64, Running>,
    boosts: Boosts,
    memory_files: Rc<RefCell<MemoryFiles>>,
    ftrace: FtraceController,
    notify: Option<OwnedFd>,
    was_disconnected: bool,
    /// Sessions and names of what was refused and said of it, at most [`MAX_REFUSALS_KNOWN`].
    refused: VecDeque<(u64, String)>,
    /// How long writers wait for memory: until a signal ends this process.
    waits: Waits,
}

/// One instance of a data source.
struct Running {
    tracing_session: u64,
    writer: TraceWriter,
    source: Source,
    started: bool,
    next_tick: Option<Instant>,
}

enum Source {
    /// Its state is in the controller.
    Ftrace,
    ProcessStats(Box<ProcessStats>),
    SysStats(Box<SysStats>),
    SystemInfo {
        irq_names: bool,
    },
    SysfsPower(SysfsPower),
    InodeFileMap(Box<InodeFileMap>),
    FrozenFtrace(Box<FrozenFtrace>),
    Journald(Box<Journald>),
}

impl Probes {
    fn new(connector: Connector, notify: Option<OwnedFd>, waits: Waits) -> Result<Self, Error> {
        let mut client = ProducerClient::new(ProducerOptions {
            connector,
            shm_size_hint_bytes: SHM_SIZE_BYTES,
            page_size_hint_bytes: SHM_PAGE_BYTES,
            scraping: false,
            ..ProducerOptions::new(PRODUCER_NAME)
        })?;
        for name in DATA_SOURCES {
            client.register_data_source(&DataSourceDescriptor {
                name: Some(name.to_owned()),
                will_notify_on_start: Some(true),
                will_notify_on_stop: Some(true),
                handles_incremental_state_clear: (name == PROCESS_STATS).then_some(true),
                ..Default::default()
            });
        }
        Ok(Self {
            client,
            sources: BTreeMap::new(),
            boosts: Boosts::default(),
            memory_files: Rc::default(),
            ftrace: FtraceController::default(),
            notify,
            was_disconnected: false,
            refused: VecDeque::new(),
            waits,
        })
    }

    /// Waits for something to do and does it; true if one of `stops` says to stop.
    fn turn(&mut self, stops: &[BorrowedFd<'_>]) -> Result<bool, Error> {
        let next = self
            .sources
            .values()
            .filter_map(|running| running.next_tick)
            .chain(self.ftrace.next_tick())
            .min();
        let timeout = next.map(|at| at.saturating_duration_since(Instant::now()));
        let fds: Vec<BorrowedFd<'_>> = stops.iter().copied().chain(self.ftrace.watermark_fds()).collect();
        let ready = self.client.wait(timeout, &fds)?;
        drop(fds);
        let (stopped, watermarks) = ready.split_at_checked(stops.len()).unwrap_or((&ready, &[]));
        if stopped.contains(&true) {
            return Ok(true);
        }
        self.handle_events(Instant::now() + TURN);
        if watermarks.contains(&true) {
            self.ftrace.on_watermark();
            self.hand_on_metadata();
        } else {
            self.read_ftrace_if_due();
        }
        self.tick_sources(Instant::now() + TURN);
        Ok(false)
    }

    /// Those that are left at the end of this time are there in the next turn, which is at once.
    fn handle_events(&mut self, until: Instant) {
        while let Some(event) = self.client.next_event() {
            self.handle(event);
            self.hand_over_idle_chunks();
            if Instant::now() >= until {
                break;
            }
        }
    }

    /// Gives those that are due a tick, whoever has waited longest first, for so long; one at least.
    fn tick_sources(&mut self, until: Instant) {
        let ticks = self.sources.iter().filter_map(|(id, running)| Some((running.next_tick?, *id)));
        for id in due(ticks, Instant::now()) {
            if let Some(running) = self.sources.get_mut(&id) {
                running.tick();
            }
            self.hand_over_idle_chunks();
            self.read_ftrace_if_due();
            if Instant::now() >= until {
                break;
            }
        }
    }

    fn read_ftrace_if_due(&mut self) {
        if self.ftrace.next_tick().is_some_and(|at| at <= Instant::now()) {
            self.ftrace.tick();
            self.hand_on_metadata();
        }
    }

    /// What instances have written and hold while others write is theirs no longer when it is much.
    fn hand_over_idle_chunks(&mut self) {
        let writers = self.sources.values_mut().map(|running| &mut running.writer);
        hand_over_idle_chunks(writers.chain(self.ftrace.writers()));
    }

    fn handle(&mut self, event: ProducerEvent) {
        match event {
            ProducerEvent::Connected => {
                tracing::info!("connected to the tracing service");
                if self.notify.is_some() {
                    self.client.sync();
                }
            }
            ProducerEvent::Synced => self.notify_ready(),
            ProducerEvent::Disconnected { reason } => {
                tracing::info!("disconnected from the tracing service: {reason}");
                self.was_disconnected = true;
                self.remove_all(Instant::now());
            }
            ProducerEvent::Setup { instance, config } => match config.decode() {
                Ok(config) => self.set_up(instance, &config),
                Err(error) => tracing::warn!("ignored a config of {}: {error}", config.name()),
            },
            ProducerEvent::Start { instance, .. } => self.start(instance),
            ProducerEvent::Stop { instance } => {
                self.remove(instance, Instant::now() + STOP_TIMEOUT);
                // Only now: who is told that recording has stopped may look at tracefs, or end this process.
                self.client.notify_stopped(instance);
            }
            ProducerEvent::Flush { request_id, instances, .. } => {
                self.flush(&instances);
                self.client.notify_flush_complete(request_id);
            }
            ProducerEvent::ClearIncrementalState { instances } => {
                for instance in instances {
                    if let Some(Running { source: Source::ProcessStats(source), writer, next_tick, .. }) =
                        self.sources.get_mut(&instance)
                    {
                        source.clear_incremental_state();
                        // A ring may have forgotten processes that do nothing: events will not name them again.
                        source.start(writer);
                        *next_tick = source.next_work().or(*next_tick);
                    }
                }
            }
            // Nothing writes before there is a session.
            ProducerEvent::StartupEnded { .. } => {}
        }
    }

    fn notify_ready(&mut self) {
        if let Some(fd) = self.notify.take()
            && let Err(error) = rustix::io::write(&fd, b"1")
        {
            tracing::warn!("could not notify that the data sources are registered: {error}");
        }
    }

    /// How many data sources are too many, of this tracing session or in all, if one more is.
    fn is_full_for(&self, tracing_session: u64) -> Option<usize> {
        let of_session = self.sources.values().filter(|running| running.tracing_session == tracing_session);
        match (of_session.count(), self.sources.len()) {
            (MAX_INSTANCES_OF_SESSION.., _) => Some(MAX_INSTANCES_OF_SESSION),
            (_, MAX_INSTANCES..) => Some(MAX_INSTANCES),
            _ => None,
        }
    }

    /// Says in the log and in the trace that a data source is one too many; once for each name of a session, whatever it asks for.
    fn refuse(&mut self, config: &DataSourceConfig, most: usize) {
        let refused = (config.tracing_session_id(), config.name().to_owned());
        if self.refused.contains(&refused) {
            return;
        }
        if self.refused.len() >= MAX_REFUSALS_KNOWN {
            self.refused.pop_front();
        }
        self.refused.push_back(refused);
        let whose = if most == MAX_INSTANCES { "all sessions" } else { "a session" };
        let reason = format!("{whose} may have {most} data sources of the machine, and this is one more");
        tracing::error!("{} records nothing: {reason}", config.name());
        let target_buffer = u16::try_from(config.target_buffer()).unwrap_or(0);
        let mut writer = self.client.create_writer(target_buffer, ExhaustedPolicy::Drop);
        writer.packet(|packet| {
            stamp(packet, boottime_ns());
            packet.varint(trace_packet::PREVIOUS_PACKET_DROPPED, 1);
            let mut note = packet.nested(trace_packet::NOT_RECORDED);
            note.string(not_recorded::DATA_SOURCE_NAME, config.name());
            note.string(not_recorded::PRODUCER_NAME, PRODUCER_NAME);
            note.string(not_recorded::REASON, &reason);
        });
    }

    fn set_up(&mut self, instance: u64, config: &DataSourceConfig) {
        if let Some(most) = self.is_full_for(config.tracing_session_id()) {
            return self.refuse(config, most);
        }
        let target_buffer = u16::try_from(config.target_buffer()).unwrap_or(0);
        let policy = ExhaustedPolicy::from_config(config, ExhaustedPolicy::Stall);
        let mut writer = match self.client.arbiter() {
            Some(arbiter) => arbiter.create_writer_that_waits(target_buffer, policy, self.waits.clone()),
            None => TraceWriter::null(),
        };
        let tracing_session = config.tracing_session_id();
        let source = match config.name() {
            FTRACE => {
                let ftrace_config = config.ftrace_config.clone().unwrap_or_default();
                let writer = std::mem::replace(&mut writer, TraceWriter::null());
                self.ftrace.set_up(instance, tracing_session, ftrace_config, writer);
                Source::Ftrace
            }
            PROCESS_STATS => Source::ProcessStats(Box::new(ProcessStats::new(
                &config.process_stats_config.clone().unwrap_or_default(),
                self.memory_files.clone(),
            ))),
            SYS_STATS => Source::SysStats(Box::new(SysStats::new(
                &config.sys_stats_config.clone().unwrap_or_default(),
            ))),
            SYSTEM_INFO => Source::SystemInfo {
                irq_names: config.system_info_config.as_ref().is_some_and(SystemInfoConfig::irq_names),
            },
            SYSFS_POWER => Source::SysfsPower(SysfsPower::new()),
            INODE_FILE_MAP => Source::InodeFileMap(Box::new(InodeFileMap::new(
                &config.inode_file_config.clone().unwrap_or_default(),
            ))),
            FROZEN_FTRACE => Source::FrozenFtrace(Box::new(FrozenFtrace::new(
                &config.frozen_ftrace_config.clone().unwrap_or_default(),
            ))),
            SYSTEMD_JOURNALD => {
                Source::Journald(Box::new(Journald::new(&config.journald_config.clone().unwrap_or_default())))
            }
            unknown => {
                return tracing::error!(
                    "the service asks for the data source {unknown}, which was never registered"
                );
            }
        };
        if let Some(boost) = &config.priority_boost {
            if let Err(error) = self.boosts.add(instance, boost) {
                tracing::error!("priority_boost of {}: {error}", config.name());
            }
            self.memory_files.borrow_mut().renew_thread();
        }
        self.sources
            .insert(instance, Running { tracing_session, writer, source, started: false, next_tick: None });
        self.update_wanting_files();
    }

    fn update_wanting_files(&mut self) {
        let sources = &self.sources;
        self.ftrace.set_wanting_files(|tracing_session| {
            sources.values().any(|running| {
                running.tracing_session == tracing_session
                    && matches!(running.source, Source::InodeFileMap(_))
            })
        });
    }

    fn start(&mut self, instance: u64) {
        if let Some(running) = self.sources.get_mut(&instance).filter(|running| !running.started) {
            running.started = true;
            if matches!(running.source, Source::Ftrace) {
                self.ftrace.start(instance);
            } else {
                running.start();
            }
        }
        self.client.notify_started(instance);
    }

    /// Ends an instance; what it has begun goes on until then at most.
    fn remove(&mut self, instance: u64, until: Instant) {
        self.finish_work(instance, until);
        if let Some(mut running) = self.sources.remove(&instance) {
            if self.boosts.remove(instance) {
                self.memory_files.borrow_mut().renew_thread();
            }
            running.writer.flush();
            match &mut running.source {
                Source::Ftrace => self.ftrace.remove(instance),
                Source::FrozenFtrace(source) => source.stop(),
                _ => {}
            }
            self.update_wanting_files();
        }
    }

    fn remove_all(&mut self, until: Instant) {
        let instances: Vec<u64> = self.sources.keys().copied().collect();
        for instance in instances {
            self.remove(instance, until);
        }
    }

    /// Does what an instance has begun, in pieces between which ftrace is read.
    fn finish_work(&mut self, instance: u64, until: Instant) {
        while Instant::now() < until && self.sources.get_mut(&instance).is_some_and(Running::go_on) {
            self.read_ftrace_if_due();
        }
    }

    fn flush(&mut self, instances: &[u64]) {
        let is_ftrace =
            |id: &&u64| self.sources.get(id).is_some_and(|running| matches!(running.source, Source::Ftrace));
        let of_ftrace: Vec<u64> = instances.iter().filter(is_ftrace).copied().collect();
        if !of_ftrace.is_empty() {
            self.ftrace.flush(&of_ftrace);
            self.hand_on_metadata();
        }
        let until = Instant::now() + FLUSH_TIMEOUT;
        for instance in instances {
            self.finish_work(*instance, until);
            if let Some(running) = self.sources.get_mut(instance).filter(|running| running.started) {
                if let Source::Journald(source) = &mut running.source {
                    source.flush(&mut running.writer);
                }
                running.writer.flush();
            }
            self.read_ftrace_if_due();
        }
    }

    /// Threads that ftrace events mention are named by the process statistics of the same session, files by its map of inodes.
    fn hand_on_metadata(&mut self) {
        let sources = &mut self.sources;
        self.ftrace.take_metadata(|tracing_session, seen| {
            for running in sources
                .values_mut()
                .filter(|running| running.started && running.tracing_session == tracing_session)
            {
                match &mut running.source {
                    Source::ProcessStats(source) => {
                        source.on_threads(&seen.pids, &seen.named, &mut running.writer);
                    }
                    Source::InodeFileMap(source) => {
                        source.on_files(seen.files.iter(), Instant::now(), &mut running.writer);
                        running.next_tick = source.next_work();
                    }
                    _ => {}
                }
            }
        });
    }

    fn shut_down(&mut self) {
        self.remove_all(Instant::now() + SHUT_DOWN_TIMEOUT);
        self.client.drain(DRAIN_TIMEOUT);
    }
}

impl Running {
    fn start(&mut self) {
        match &mut self.source {
            Source::ProcessStats(source) => source.start(&mut self.writer),
            Source::SystemInfo { irq_names } => {
                system_info::write(*irq_names, &mut self.writer);
                self.writer.flush();
            }
            Source::FrozenFtrace(source) => source.start(&mut self.writer),
            Source::Journald(source) => source.start(),
            Source::Ftrace | Source::SysStats(_) | Source::SysfsPower(_) | Source::InodeFileMap(_) => {}
        }
        // The first poll is at once; those after it keep to the wall clock.
        self.next_tick = self.next_work().or_else(|| self.period_ms().map(|_| Instant::now()));
    }

    /// When those that do their work in pieces want to go on.
    fn next_work(&self) -> Option<Instant> {
        match &self.source {
            Source::InodeFileMap(source) => source.next_work(),
            Source::FrozenFtrace(source) => source.next_work(),
            Source::Journald(source) => source.next_work(),
            Source::ProcessStats(source) => source.next_work(),
            _ => None,
        }
    }

    /// Goes on for a moment with what was begun before a flush, or before the end; false if there was nothing.
    fn go_on(&mut self) -> bool {
        match &mut self.source {
            Source::ProcessStats(source) if source.next_work().is_some() => {
                source.work(&mut self.writer);
                true
            }
            _ => false,
        }
    }

    fn period_ms(&self) -> Option<u32> {
        match &self.source {
            Source::ProcessStats(source) => source.poll_period_ms(),
            Source::SysStats(source) => source.poll_period_ms(),
            Source::SysfsPower(_) => Some(sysfs_power::POLL_PERIOD_MS),
            Source::Ftrace
            | Source::SystemInfo { .. }
            | Source::InodeFileMap(_)
            | Source::FrozenFtrace(_)
            | Source::Journald(_) => None,
        }
    }

    fn tick(&mut self) {
        match &mut self.source {
            Source::InodeFileMap(source) => source.work(Instant::now(), &mut self.writer),
            Source::FrozenFtrace(source) => source.work(&mut self.writer),
            Source::Journald(source) => source.work(&mut self.writer),
            Source::ProcessStats(source) => source.work(&mut self.writer),
            Source::SysStats(source) => source.poll(&mut self.writer),
            Source::SysfsPower(source) => source.poll(&mut self.writer),
            Source::Ftrace | Source::SystemInfo { .. } => {}
        }
        let next_poll = |period_ms| Instant::now() + until_next_tick(period_ms);
        self.next_tick = self.next_work().or_else(|| self.period_ms().map(next_poll));
    }
}

/// Has the packets handed over that these writers hold, if they are many.
fn hand_over_idle_chunks<'a>(writers: impl Iterator<Item = &'a mut TraceWriter>) {
    let holders: Vec<&mut TraceWriter> = writers.filter(|writer| writer.holds_packets()).collect();
    if holders.len() > MAX_IDLE_CHUNKS {
        holders.into_iter().for_each(TraceWriter::flush);
    }
}

/// Whose tick has come by now, whoever has waited longest first.
fn due(ticks: impl Iterator<Item = (Instant, u64)>, now: Instant) -> Vec<u64> {
    let mut due: Vec<(Instant, u64)> = ticks.filter(|(at, _)| *at <= now).collect();
    due.sort_unstable();
    due.into_iter().map(|(_, id)| id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A daemon without a service, and statistics of processes that are begun and poll, in turns of that length.
    fn with_process_stats(instances: u64, turn: Duration) -> Probes {
        let nowhere =
            Connector::Address(ferretto_ipc::address::Address::Abstract(b"ferretto-nobody".to_vec()));
        let mut probes = Probes::new(nowhere, None, Waits::default()).unwrap();
        let config = DataSourceConfig {
            name: Some(PROCESS_STATS.to_owned()),
            process_stats_config: Some(ferretto_protos::ProcessStatsConfig {
                scan_all_processes_on_start: Some(true),
                proc_stats_poll_ms: Some(100),
                ..Default::default()
            }),
            ..Default::default()
        };
        for id in 0..instances {
            probes.set_up(id, &config);
            if let Source::ProcessStats(source) = &mut probes.sources.get_mut(&id).unwrap().source {
                source.turn = turn;
            }
            probes.start(id);
        }
        probes
    }

    #[test]
    fn who_has_waited_longest_is_first_and_others_have_a_turn_before_all_have_had_one() {
        let now = Instant::now();
        let ms = Duration::from_millis;
        let ticks = [(now + ms(1), 1), (now, 2), (now - ms(5), 3), (now - ms(1), 4)];
        assert_eq!(due(ticks.into_iter(), now), [3, 4, 2]);

        let mut probes = with_process_stats(4, TURN);
        let before: BTreeMap<u64, _> = probes.sources.iter().map(|(id, r)| (*id, r.next_tick)).collect();
        let mut ticked = Vec::new();
        for _ in 0..4 {
            // There is no time, so that it is one a turn.
            probes.tick_sources(Instant::now());
            let changed = probes.sources.iter().filter(|(id, running)| running.next_tick != before[*id]);
            ticked.push(changed.count());
        }
        assert_eq!(ticked, [1, 2, 3, 4]);
    }

    #[test]
    fn what_was_begun_is_not_finished_at_any_price() {
        let mut probes = with_process_stats(1, Duration::ZERO);
        let has_more = |probes: &Probes| probes.sources[&0].next_work().is_some();
        assert!(has_more(&probes), "one process has been read");
        probes.finish_work(0, Instant::now());
        assert!(has_more(&probes), "no time, no work");
        probes.finish_work(0, Instant::now() + Duration::from_mins(1));
        assert!(!has_more(&probes));
        probes.remove_all(Instant::now());
        assert!(probes.sources.is_empty());
    }
}
