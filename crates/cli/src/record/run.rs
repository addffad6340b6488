//! The recording itself: start, watch, stop, read back, sum up.

use std::collections::VecDeque;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use ferretto_consumer::{Answer, CallId, Consumer, Event, Observe, flush_flags, write_packet};
use ferretto_ipc::recorder::RECORDER_ENV;
use ferretto_printable::{printable, printable_lines};
use ferretto_protos::TraceStats;
use ferretto_protos::fields::trace_config;
use ferretto_protos::trace_stats::BufferStats;
use ferretto_trace_info::Tally;
use ferretto_trace_read::PacketStream;

use super::args::RecordArgs;
use super::command::{Program, RunningProgram};
use super::descendants;
use super::output::Output;
use super::plan::Plan;
use super::progress::{Figures, Progress, REFRESH};
use super::reports::Reports;
use super::sampling::Sampling;
use super::service::Service;
use super::summary::{self, LeftOut, Span, Summary};
use crate::config_bytes::ConfigBytes;
use crate::flight::{self, Flight, Keep, Listener};
use crate::report::{self, UserError};
use crate::units::{duration, kib};
use crate::wake::{self, Signals, Wake};

/// How long to wait for all sources before the time counts and COMMAND is started anyway (upstream's client waits as long at most).
const START_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a stop may take: the service gives sources 5 s to flush and 5 s to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(20);
/// How often the service is asked what it has lost.
const STATS_PERIOD: Duration = Duration::from_secs(1);
/// Bytes of the growing file read at once.
const SCAN_CHUNK: usize = 1 << 20;
/// Bytes of it looked at in one turn, so that Ctrl-C is never kept waiting.
const SCAN_PER_TURN: usize = 32 << 20;
/// A flush whose reason is the end of the trace (upstream: flush_flags.h).
const FLUSH_REASON_STOP: u64 = 2;

/// Everything that was settled before the start.
pub(crate) struct Recording<'a> {
    pub(crate) args: &'a RecordArgs,
    pub(crate) config: ConfigBytes,
    pub(crate) plan: Plan,
    pub(crate) output: Output,
    pub(crate) program: Option<Program>,
    pub(crate) sampling: Option<&'a Sampling>,
    pub(crate) signals: Signals,
    pub(crate) left_out: Vec<LeftOut>,
    pub(crate) flight: Option<Flight>,
}

/// What changes while it runs.
struct State {
    progress: Progress,
    reader: Reader,
    child: Option<RunningProgram>,
    /// What the command and its children say of themselves.
    reports: Option<Reports>,
    /// Children of the command that go on without it.
    outliving: Vec<String>,
    sources_started: bool,
    begun: Option<Instant>,
    stats_call: Option<CallId>,
    stats: Option<TraceStats>,
    next_stats: Instant,
    stopping: Option<Stopping>,
    interrupted: bool,
    said_short: bool,
}

/// The end of a recording: flush, then disable.
struct Stopping {
    /// Until it has been answered, one way or the other.
    flush: Option<CallId>,
    deadline: Instant,
}

impl Recording<'_> {
    /// Records, writes the file, prints the summary; the exit status is COMMAND's, if there is one.
    pub(crate) fn run(mut self, service: &mut Service) -> Result<ExitCode> {
        let target = self.output.target_path().map(PathBuf::from);
        let counted = self.reads_file() || !self.plan.write_into_file;
        let early = self.enable(&mut service.consumer)?;
        let listener = self.flight.as_ref().map(Listener::start).transpose()?.flatten();
        self.say_start();
        let mut state = State::new(self.plan.duration, self.args.quiet);
        let outcome = self.watch(service, &mut state, early);
        state.progress.finish();
        if let Some(listener) = listener {
            listener.finish();
        }
        // Nothing is left to be cleaned up but files.
        self.signals.make_deadly();
        let ended = outcome.and_then(|()| self.read_back(&mut service.consumer, &mut state));
        if let Err(error) = ended {
            return Self::fail(self.with_partial(error), state);
        }
        if let Some(error) = self.nothing_came(&state, counted) {
            return Self::fail(error, state);
        }
        let elapsed = state.progress.elapsed();
        self.output.finish()?;
        self.sum_up(&state, target.as_deref(), counted, elapsed);
        Ok(state.await_command()?.map_or(ExitCode::SUCCESS, ExitCode::from))
    }

    /// Starts, or says why the service refuses. What else has happened meanwhile is returned.
    fn enable(&mut self, consumer: &mut Consumer) -> Result<VecDeque<Event>> {
        // The file is ours: the service would refuse to overwrite, and could not rename.
        self.config.remove(trace_config::OUTPUT_PATH);
        let file = match self.plan.write_into_file {
            true => Some(self.output.file().try_clone().context("cannot duplicate the output")?.into()),
            false => None,
        };
        consumer.observe(Observe::ALL_DATA_SOURCES_STARTED)?;
        let deferred = self.config.decoded().deferred_start();
        consumer.enable_tracing(std::mem::take(&mut self.config).into_vec(), file)?;
        // A refusal comes before the answer to whatever is asked next.
        let _ = consumer.stats();
        let mut early: VecDeque<Event> = std::iter::from_fn(|| consumer.next_event()).collect();
        early.retain(|event| !matches!(event, Event::Answer { .. }));
        for event in &early {
            if let Event::TracingDisabled { error: Some(error) } = event {
                return Err(refused(error));
            }
        }
        if deferred {
            consumer.start_tracing()?;
        }
        Ok(early)
    }

    fn say_start(&self) {
        if self.args.quiet {
            return;
        }
        let until = match (&self.program, self.plan.duration) {
            (Some(_), Some(time)) => format!("until the command ends, {} at most", duration(time)),
            (Some(_), None) => "until the command ends".to_owned(),
            (None, Some(time)) => format!("for {}", duration(time)),
            (None, None) if !self.plan.triggers.is_empty() => {
                "when and as long as its triggers say".to_owned()
            }
            (None, None) if self.sampling.is_some_and(|sampling| !sampling.until.is_empty()) => {
                "until what is sampled has ended, or Ctrl-C".to_owned()
            }
            (None, None) => "until Ctrl-C".to_owned(),
        };
        let sources = self.plan.sources.join(", ");
        if self.flight.is_none() {
            return eprintln!("Recording {until}: {sources}.");
        }
        let memory: u64 = self.plan.buffers.iter().map(|buffer| buffer.size_kb).sum();
        eprintln!(
            "Recording {until} into {} of memory, twice that while a snapshot is written: {sources}.",
            kib(memory)
        );
    }

    /// Everything is being recorded now: a snapshot has the names of all that runs.
    fn say_ready(&self) {
        if let Some(flight) = self.flight.as_ref().filter(|_| !self.args.quiet) {
            eprint!("{}", flight.instructions());
        }
    }

    /// Until tracing has ended.
    fn watch(&mut self, service: &mut Service, state: &mut State, mut early: VecDeque<Event>) -> Result<()> {
        let started = Instant::now();
        loop {
            let next_wake = self.next_wake(state);
            let wake = early
                .pop_front()
                .map(Wake::Service)
                .unwrap_or_else(|| wake::wait(&mut service.consumer, &mut self.signals, next_wake));
            match wake {
                Wake::Service(Event::TracingDisabled { error: None }) => return Ok(()),
                Wake::Service(Event::TracingDisabled { error: Some(error) }) => bail!(error),
                Wake::Service(Event::Disconnected { reason }) => {
                    bail!("the tracing service went away: {reason}")
                }
                Wake::Service(event) => state.handle(event, &mut service.consumer)?,
                Wake::Stop if state.interrupted => bail!("interrupted twice"),
                Wake::Stop => {
                    state.interrupted = true;
                    Self::stop(&mut service.consumer, state)?;
                }
                Wake::Child | Wake::Timeout => {}
            }
            let is_ready = state.sources_started || started.elapsed() > START_TIMEOUT;
            if is_ready && state.begun.is_none() {
                state.begin(self.plan.duration, self.args.quiet);
                self.say_ready();
                self.start_command(service, state)?;
            }
            if self.time_left(state) == Some(Duration::ZERO) {
                Self::stop(&mut service.consumer, state)?;
            }
            if state.child.as_mut().is_some_and(RunningProgram::has_ended)
                || self.sampling.is_some_and(Sampling::is_over)
            {
                Self::stop(&mut service.consumer, state)?;
            }
            if state.stopping.as_ref().is_some_and(|stopping| stopping.deadline < Instant::now()) {
                bail!("the recording did not stop within {} s", STOP_TIMEOUT.as_secs());
            }
            self.refresh(&mut service.consumer, state);
        }
    }

    /// What is left of `-t`. It counts from when all sources have started: on a busy machine the kernel takes seconds to switch its
    /// events on, and whoever asks for five seconds wants five seconds of them.
    fn time_left(&self, state: &State) -> Option<Duration> {
        Some(self.args.time?.saturating_sub(state.begun?.elapsed()))
    }

    fn next_wake(&self, state: &State) -> Instant {
        let left = self.time_left(state).filter(|_| state.stopping.is_none());
        Instant::now() + left.map_or(REFRESH, |left| left.min(REFRESH))
    }

    fn start_command(&mut self, service: &Service, state: &mut State) -> Result<()> {
        if let Some(program) = self.program.take() {
            let reports = Reports::create()?;
            let mut env = service.env.clone();
            env.push((RECORDER_ENV, reports.path().display().to_string()));
            env.extend(self.sampling.iter().flat_map(|sampling| sampling.env().iter().cloned()));
            state.reports = Some(reports);
            let start = || program.start(&env);
            state.child = Some(match self.sampling {
                Some(sampling) => sampling.start(start)?,
                None => start()?,
            });
        }
        Ok(())
    }

    /// Collects the last data; the session is ended once that is done. Does nothing the second time.
    fn stop(consumer: &mut Consumer, state: &mut State) -> Result<()> {
        if state.stopping.is_none() {
            state.progress.say("collecting the last data (Ctrl-C again gives up)");
            let flags = FLUSH_REASON_STOP | flush_flags::INITIATOR_COMMAND_LINE;
            let flush = Some(consumer.begin_flush(Duration::ZERO, flags)?);
            state.stopping = Some(Stopping { flush, deadline: Instant::now() + STOP_TIMEOUT });
        }
        Ok(())
    }

    fn refresh(&self, consumer: &mut Consumer, state: &mut State) {
        if state.stats_call.is_none() && state.next_stats < Instant::now() {
            state.next_stats = Instant::now() + STATS_PERIOD;
            // Statistics that do not come leave the figure as it is.
            state.stats_call = consumer.begin_stats().ok();
        }
        if self.reads_file() {
            state.reader.scan(self.output.file(), SCAN_PER_TURN);
        }
        if state.stopping.is_none() {
            self.say_if_short(state);
            state.progress.update(state.figures(self.flight.is_some()));
        }
    }

    /// Whoever asks for a time should know when the memory that was guessed for it is too little.
    fn say_if_short(&self, state: &mut State) {
        let Some(Flight { keep: Some(Keep::Time(wanted)), .. }) = self.flight else { return };
        let ring = state.stats.as_ref().and_then(|stats| stats.buffer_stats.first());
        let (Some(ring), Some(begun)) = (ring, state.begun) else { return };
        if ring.bytes_overwritten() == 0 || state.said_short || self.args.quiet {
            return;
        }
        let part = ring.buffer_size() as f64 / ring.bytes_written().max(1) as f64;
        let holds = begun.elapsed().mul_f64(part.min(1.0));
        if holds >= wanted {
            return;
        }
        state.said_short = true;
        let need_kb =
            ring.buffer_size() as f64 / 1024.0 * wanted.as_secs_f64() / holds.as_secs_f64().max(0.001);
        state.progress.finish();
        eprintln!(
            "note: at this load the memory holds about {}; for {} give it --keep {}mb",
            duration(holds),
            duration(wanted),
            (need_kb / 1024.0).ceil()
        );
    }

    /// Whether the service writes to a file that can be read while it grows.
    fn reads_file(&self) -> bool {
        self.plan.write_into_file && self.output.is_readable()
    }

    /// What is still in the service's buffers, and its last statistics.
    fn read_back(&mut self, consumer: &mut Consumer, state: &mut State) -> Result<()> {
        if matches!(self.flight, Some(Flight { last: None, .. })) {
            consumer.free()?;
            return Ok(());
        }
        if !self.plan.write_into_file {
            let mut file = self.output.file();
            let reader = &mut state.reader;
            let read = consumer.read_buffers(|packet| {
                write_packet(&mut file, packet)?;
                reader.packet(packet);
                Ok(())
            })?;
            reader.tally.read_back(read.oversized_packets, read.torn);
        } else if self.output.is_readable() {
            state.reader.scan(self.output.file(), usize::MAX);
        }
        // Now that all was read, what the buffers still hold is lost.
        state.stats = consumer.stats().ok();
        consumer.free()?;
        Ok(())
    }

    /// A recording that waited for a trigger in vain has no trace.
    fn nothing_came(&self, state: &State, counted: bool) -> Option<anyhow::Error> {
        let name = self.plan.triggers.first().filter(|_| counted && state.reader.bytes == 0)?;
        let error = UserError::new("nothing was recorded: the config waits for a trigger");
        Some(
            error
                .help(format!("call it out while the recording waits: ferretto trigger {name}"))
                .help(format!("for snapshots: ferretto record --flight --trigger {name}"))
                .into(),
        )
    }

    fn sum_up(&self, state: &State, path: Option<&Path>, counted: bool, elapsed: Duration) {
        if matches!(self.flight, Some(Flight { last: None, .. })) {
            if !self.args.quiet {
                eprintln!("Stopped after {}. What was in memory is gone.", duration(elapsed));
            }
            return;
        }
        let span = match &self.flight {
            Some(_) => Span::Last(state.reader.tally.reaches_back(flight::boottime_ns())),
            None => Span::Whole,
        };
        let reports = state.reports.as_ref().map(Reports::lines).unwrap_or_default();
        let summary = Summary {
            path,
            counted,
            bytes: state.reader.bytes,
            span,
            elapsed,
            plan: &self.plan,
            tally: &state.reader.tally,
            stats: state.stats.as_ref(),
            torn: state.reader.stream.is_torn(),
            huge: state.reader.stream.huge(),
            left_out: &self.left_out,
            reports: &reports,
            outliving: &state.outliving,
        };
        if !self.args.quiet {
            eprint!("{}", printable_lines(&summary::render(&summary)));
            return;
        }
        for line in summary::losses(&summary).lines() {
            eprintln!("{}", printable(&line));
        }
    }

    /// The command is not to blame: it ends by itself.
    fn fail(error: anyhow::Error, state: State) -> Result<ExitCode> {
        if state.child.is_none() {
            return Err(error);
        }
        report::print(&error);
        let status = state.await_command()?.filter(|&status| status != 0);
        Ok(status.map_or(ExitCode::FAILURE, ExitCode::from))
    }

    /// An error after the start, with the place of what was recorded before it.
    fn with_partial(&self, error: anyhow::Error) -> anyhow::Error {
        let has_data = self.output.file().metadata().is_ok_and(|meta| meta.len() > 0);
        match self.output.partial_path().filter(|_| has_data) {
            Some(partial) => {
                let kept = format!("what was recorded so far is in {}", partial.display());
                error.context(UserError::new("the recording failed").help(kept))
            }
            None => error,
        }
    }
}

fn refused(error: &str) -> anyhow::Error {
    UserError::new(format!("the tracing service refused the config: {error}")).into()
}

impl State {
    fn new(total: Option<Duration>, quiet: bool) -> Self {
        Self {
            progress: Progress::start(total, quiet),
            reader: Reader::default(),
            child: None,
            reports: None,
            outliving: Vec::new(),
            sources_started: false,
            begun: None,
            stats_call: None,
            stats: None,
            next_stats: Instant::now() + STATS_PERIOD,
            stopping: None,
            interrupted: false,
            said_short: false,
        }
    }

    /// All sources have started, or there was no more waiting for them: the clock starts.
    fn begin(&mut self, total: Option<Duration>, quiet: bool) {
        self.begun = Some(Instant::now());
        self.progress.finish();
        self.progress = Progress::start(total, quiet);
    }

    fn handle(&mut self, event: Event, consumer: &mut Consumer) -> Result<()> {
        match event {
            Event::Observed(events) => self.sources_started |= events.all_data_sources_started(),
            Event::Answer { call, answer } if Some(call) == self.stats_call => {
                self.stats_call = None;
                if let Ok(Answer::Stats(stats)) = answer {
                    self.stats = Some(*stats);
                }
            }
            Event::Answer { call, .. } => self.flushed(call, consumer)?,
            _ => {}
        }
        Ok(())
    }

    /// Ends the session after its last flush. That a source did not hand over its data shows in the statistics.
    fn flushed(&mut self, call: CallId, consumer: &mut Consumer) -> Result<()> {
        if let Some(stopping) = self.stopping.as_mut().filter(|stopping| stopping.flush == Some(call)) {
            stopping.flush = None;
            // Those that end later have their last events cut off.
            if let (Some(reports), true) =
                (&self.reports, self.child.as_mut().is_some_and(RunningProgram::has_ended))
            {
                self.outliving = descendants::of_recorder(reports.path());
            }
            consumer.begin_disable()?;
        }
        Ok(())
    }

    /// The command's exit status, once it has ended.
    fn await_command(self) -> Result<Option<u8>> {
        let Some(mut child) = self.child else { return Ok(None) };
        if self.interrupted {
            child.terminate();
        }
        if !child.has_ended() {
            eprintln!("Waiting for the command to end.");
        }
        child.wait().map(Some)
    }

    fn figures(&self, is_flight: bool) -> Figures {
        let stats = self.stats.iter();
        if is_flight {
            let buffers = || stats.clone().flat_map(|stats| &stats.buffer_stats);
            let held = |ring: &BufferStats| ring.bytes_written().saturating_sub(ring.bytes_overwritten());
            return Figures {
                losses: buffers().map(ring_losses).sum(),
                ring: buffers().next().map(|ring| (held(ring), ring.buffer_size())),
                ..Figures::default()
            };
        }
        let by_service: u64 =
            stats.map(|stats| stats.buffer_stats.iter().map(buffer_losses).sum::<u64>()).sum();
        let by_kernel = self.reader.tally.ftrace.lossy_bundles;
        Figures {
            bytes: self.reader.bytes,
            packets: self.reader.tally.packets,
            losses: by_service + by_kernel,
            ring: None,
        }
    }
}

fn buffer_losses(stats: &BufferStats) -> u64 {
    stats.chunks_overwritten() + ring_losses(stats)
}

/// What a ring loses against its will.
fn ring_losses(stats: &BufferStats) -> u64 {
    let discarded = stats.chunks_discarded().saturating_sub(stats.chunks_discarded_without_loss());
    discarded + stats.trace_writer_packet_loss()
}

/// Follows the trace as it grows.
#[derive(Default)]
struct Reader {
    bytes: u64,
    stream: PacketStream,
    tally: Tally,
    buffer: Vec<u8>,
}

impl Reader {
    /// Looks at what the file has gained, up to `limit` bytes.
    fn scan(&mut self, file: &File, limit: usize) {
        self.buffer.resize(SCAN_CHUNK, 0);
        let mut left = limit;
        while left > 0 {
            let Ok(len) = file.read_at(&mut self.buffer, self.bytes) else { return };
            let Some(piece) = self.buffer.get(..len).filter(|piece| !piece.is_empty()) else { return };
            let tally = &mut self.tally;
            self.stream.push(piece, &mut |packet, _| tally.packet(packet));
            self.bytes += len as u64;
            left = left.saturating_sub(len);
        }
    }

    /// Takes note of a packet that was written by this process.
    fn packet(&mut self, packet: &[u8]) {
        self.tally.packet(packet);
        self.bytes += 1 + prost::length_delimiter_len(packet.len()) as u64 + packet.len() as u64;
    }
}
