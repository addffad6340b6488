//! One recording of `perfetto`: config, output, session, read-back.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use ferretto_consumer::{Consumer, Event, Observe, flush_flags};
use ferretto_protos::fields::trace_packet;
use ferretto_protos::trace_attributes::Attribute;
use ferretto_protos::trace_attributes::attribute::Value as AttributeValue;
use ferretto_protos::trace_config::StatsdMetadata;
use ferretto_protos::trace_config::trigger_config::TriggerMode;
use ferretto_protos::{ObservableEvents, TraceAttributes, TraceConfig};
use ferretto_protozero::read::{Fields, Value};

use super::args::{Background, ConfigSource, Format, OUT_REQUIRED, Record, Statsd};
use super::light_config;
use super::out_file::OutFile;
use super::snapshots::Snapshots;
use super::watch::Watch;
use crate::config_bytes::ConfigBytes;
use crate::report::UserError;
use crate::wake::{self, Signals, Wake};
use crate::{background, config_file, triggers};
use ferretto_trace_read::PacketStream;

/// On top of a session's own duration and time-outs, before it is given up (upstream: perfetto_cmd.cc).
const SESSION_SLACK: Duration = Duration::from_secs(60);
/// Default of the flush and the stop time-out (upstream: tracing_service_impl.h).
const DEFAULT_TIMEOUT_MS: u32 = 5_000;
/// How long `-D` and `--notify-fd` wait for all sources.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// A flush whose reason is the end of the trace (upstream: flush_flags.h).
const FLUSH_REASON_STOP: u64 = 2;
/// The name under which a config's activate_triggers are fired.
const TRIGGER_PRODUCER: &str = "perfetto_cmd_producer";

/// Runs the recording; in the background if asked.
pub(crate) fn run(record: &Record) -> Result<ExitCode> {
    let (raw, stdin) = load(&record.config)?;
    let config = prepare(raw, record);
    let message = config.decoded();
    if !message.activate_triggers.is_empty() {
        triggers::activate(TRIGGER_PRODUCER, message.activate_triggers)?;
        return Ok(ExitCode::SUCCESS);
    }
    check_output(record, &message)?;
    if record.background != Background::No && !background::is_child() {
        return background::launch(stdin.as_deref(), start_timeout(record));
    }
    let out = record.out.as_deref().map(|path| OutFile::open(path, record.no_clobber)).transpose()?;
    let notifier = Notifier::new(record)?;
    let mut session = Session { signals: Signals::install()?, message, out, notifier, snapshots: None };
    let result = session.run(config, record);
    session.notifier.tell(1);
    // A detached session will write to it yet.
    if let Some(out) = session.out.as_ref().filter(|_| record.detach.is_none() || result.is_err()) {
        out.remove_if_empty();
    }
    result
}

/// How long the parent of `-D` waits for all data sources; None for others.
pub(crate) fn start_timeout(record: &Record) -> Option<Duration> {
    (record.background == Background::WhenStarted).then_some(START_TIMEOUT)
}

/// The config's bytes, and stdin's if it came from there.
fn load(source: &ConfigSource) -> Result<(ConfigBytes, Option<Vec<u8>>)> {
    let (path, format) = match source {
        ConfigSource::Light(light) => {
            let config = light_config::build(light).map_err(UserError::new)?;
            return Ok((ConfigBytes::from_message(&config), None));
        }
        ConfigSource::File { path, format } => (path.as_str(), *format),
    };
    match path {
        ":test" => return Ok((ConfigBytes::from_message(&light_config::test_config()), None)),
        ":mem" => return Err(UserError::new("-c :mem is for programs that embed perfetto").into()),
        _ => {}
    }
    let bytes = config_file::read(Path::new(path))?;
    let config = ConfigBytes::new(parse(path, &bytes, format)?);
    Ok((config, (path == "-").then_some(bytes)))
}

fn parse(path: &str, bytes: &[u8], format: Format) -> Result<Vec<u8>> {
    let name = Path::new(if path == "-" { "<stdin>" } else { path });
    if format == Format::Binary {
        let parsed = config_file::parse_binary(name, bytes);
        return parsed.or_else(|error| config_of_trace(bytes).ok_or(error));
    }
    let text = std::str::from_utf8(bytes).map_err(|_| {
        UserError::new(format!("{} is not text", name.display())).help("leave --txt out if it is binary")
    })?;
    match format {
        Format::TextLossy => config_file::parse_text_lossy(name, text),
        _ => config_file::parse_text(name, text),
    }
}

/// A trace given as config stands for the config that it was recorded with.
fn config_of_trace(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut found = None;
    PacketStream::default().push(bytes, &mut |packet, _| {
        let mut fields = Fields::new(packet).map_while(Result::ok);
        let config = fields.find_map(|field| match field.value {
            Value::Bytes(config) if field.number == trace_packet::TRACE_CONFIG => Some(config.to_vec()),
            _ => None,
        });
        found = found.take().or(config);
    });
    found
}

/// Adds what the command line and every trace of ours must have.
fn prepare(mut config: ConfigBytes, record: &Record) -> ConfigBytes {
    #[expect(deprecated, reason = "services still read the uuid there (upstream: tracing_service_impl.cc)")]
    if config.decoded().trace_uuid_msb.is_none() {
        let [msb, lsb] = random_uuid();
        config.merge(&TraceConfig { trace_uuid_msb: msb, trace_uuid_lsb: lsb, ..TraceConfig::default() });
    }
    if !record.attributes.is_empty() {
        let attribute = record.attributes.iter().map(|(key, value)| Attribute {
            key: Some(key.clone()),
            value: Some(AttributeValue::StringValue(value.clone())),
        });
        let attributes = TraceAttributes { attribute: attribute.collect() };
        config.merge(&TraceConfig { trace_attributes: Some(attributes), ..TraceConfig::default() });
    }
    if !record.statsd.is_empty() {
        let metadata = Some(statsd_metadata(&record.statsd));
        config.merge(&TraceConfig { statsd_metadata: metadata, ..TraceConfig::default() });
    }
    config
}

fn statsd_metadata(statsd: &Statsd) -> StatsdMetadata {
    StatsdMetadata {
        triggering_alert_id: statsd.alert_id,
        triggering_config_uid: statsd.config_uid.and_then(|uid| i32::try_from(uid).ok()),
        triggering_config_id: statsd.config_id,
        triggering_subscription_id: statsd.subscription_id,
    }
}

/// Two random numbers; none without the kernel's random source, which only costs the trace its id.
fn random_uuid() -> [Option<i64>; 2] {
    let mut bytes = [0; 16];
    let read = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    let (halves, _) = bytes.as_chunks::<8>();
    let half =
        |index: usize| halves.get(index).map(|half| i64::from_le_bytes(*half)).filter(|_| read.is_ok());
    [half(0), half(1)]
}

fn check_output(record: &Record, config: &TraceConfig) -> Result<()> {
    let in_config = config.output_path();
    let wrong = match (&record.out, in_config) {
        (None, "") => OUT_REQUIRED.to_owned(),
        (Some(_), path) if !path.is_empty() => {
            format!("the config names an output_path ({path}), so --out cannot be used")
        }
        (None, path) if Path::new(path).exists() => format!("the config's output_path {path} exists already"),
        _ if record.detach.is_some() && !config.write_into_file() => {
            "--detach needs write_into_file: true in the config".to_owned()
        }
        _ => return Ok(()),
    };
    Err(UserError::new(wrong).into())
}

/// Whoever waits for the start of all sources: the parent of `-D`, or the reader of `--notify-fd`.
struct Notifier(Option<File>);

impl Notifier {
    fn new(record: &Record) -> Result<Self> {
        if background::is_child() {
            let pipe = background::enter()?;
            return Ok(Self((record.background == Background::WhenStarted).then_some(pipe)));
        }
        let Some(number) = record.notify_fd else { return Ok(Self(None)) };
        // Opening it anew by its name avoids taking over a raw number that something else may own.
        let path = format!("/proc/self/fd/{number}");
        let pipe = File::options().write(true).open(path);
        pipe.map(|pipe| Self(Some(pipe)))
            .with_context(|| format!("--notify-fd {number} is no open descriptor"))
    }

    fn is_waiting(&self) -> bool {
        self.0.is_some()
    }

    /// Tells it once: 0 for success.
    fn tell(&mut self, status: u8) {
        if let Some(mut pipe) = self.0.take() {
            // A reader that has gone does not care.
            let _ = pipe.write_all(&[status]);
        }
    }
}

struct Session {
    signals: Signals,
    message: TraceConfig,
    out: Option<OutFile>,
    notifier: Notifier,
    snapshots: Option<Snapshots>,
}

/// How the session ended.
enum End {
    Disabled,
    /// The service refused it or gave it up, with these words.
    Refused(String),
    TimedOut,
}

impl Session {
    fn run(&mut self, config: ConfigBytes, record: &Record) -> Result<ExitCode> {
        let mut consumer = Consumer::connect_default()?;
        self.sleep_before_start();
        let file = match &self.out {
            Some(out) if self.message.write_into_file() => Some(out.descriptor()?),
            _ => None,
        };
        consumer.enable_tracing(config.into_vec(), file)?;
        if let Some(key) = &record.detach {
            consumer.detach(key)?;
            return Ok(ExitCode::SUCCESS);
        }
        self.observe(&mut consumer)?;
        match self.wait_for_end(&mut consumer)? {
            End::Disabled => {}
            End::Refused(error) => {
                // Upstream exits with 0 after any error of the service, and scripts rely on it (perfetto_cmd.cc).
                eprintln!("Service error: {error}");
                return Ok(ExitCode::SUCCESS);
            }
            End::TimedOut => {
                eprintln!("perfetto: the service did not end the session in time");
                return Ok(ExitCode::FAILURE);
            }
        }
        self.read_back(&mut consumer)?;
        consumer.free()?;
        Ok(ExitCode::SUCCESS)
    }

    fn sleep_before_start(&self) {
        let Some(delay) = &self.message.cmd_trace_start_delay else { return };
        let (min, max) = (delay.min_delay_ms(), delay.max_delay_ms().max(delay.min_delay_ms()));
        let random = random_uuid()[0].unwrap_or_default().unsigned_abs();
        let ms = u64::from(min) + random % (u64::from(max - min) + 1);
        std::thread::sleep(Duration::from_millis(ms));
    }

    fn observe(&mut self, consumer: &mut Consumer) -> Result<()> {
        let mode = self.message.trigger_config.as_ref().map(|triggers| (triggers.trigger_mode(), triggers));
        let snapshots = mode.is_some_and(|(mode, triggers)| {
            mode == TriggerMode::CloneSnapshot
                || (mode == TriggerMode::StopTracing && triggers.use_clone_snapshot_if_available())
        });
        let mut kinds = Observe::NOTHING;
        if let (true, Some(path)) = (snapshots, self.out.as_ref().and_then(OutFile::path)) {
            kinds = kinds | Observe::CLONE_TRIGGER_HIT;
            self.snapshots = Some(Snapshots::new(path));
        }
        if self.notifier.is_waiting() {
            kinds = kinds | Observe::ALL_DATA_SOURCES_STARTED;
        }
        if kinds != Observe::NOTHING {
            consumer.observe(kinds)?;
        }
        Ok(())
    }

    fn wait_for_end(&mut self, consumer: &mut Consumer) -> Result<End> {
        let started = Instant::now();
        let mut give_up = self.session_timeout().map(|timeout| started + timeout);
        loop {
            let start_deadline = self.notifier.is_waiting().then_some(started + START_TIMEOUT);
            let next_check = Instant::now() + SESSION_SLACK;
            let deadline = [give_up, start_deadline].into_iter().flatten().fold(next_check, Instant::min);
            match wake::wait(consumer, &mut self.signals, deadline) {
                Wake::Service(Event::TracingDisabled { error: None }) => return Ok(End::Disabled),
                Wake::Service(Event::TracingDisabled { error: Some(error) }) => {
                    return Ok(End::Refused(error));
                }
                Wake::Service(Event::Disconnected { reason }) => {
                    anyhow::bail!("the tracing service went away: {reason}");
                }
                Wake::Service(Event::Observed(events)) => self.observed(events),
                Wake::Stop => {
                    self.signals.make_deadly();
                    self.stop(consumer)?;
                    give_up = Some(Instant::now() + SESSION_SLACK);
                }
                _ => {}
            }
            if start_deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                self.notifier.tell(1);
            }
            if give_up.is_some_and(|deadline| deadline <= Instant::now()) {
                return Ok(End::TimedOut);
            }
        }
    }

    /// None for sessions that last until somebody stops them.
    fn session_timeout(&self) -> Option<Duration> {
        let or_default = |ms: u32| if ms == 0 { DEFAULT_TIMEOUT_MS } else { ms };
        let flush = or_default(self.message.flush_timeout_ms());
        let stop = or_default(self.message.data_source_stop_timeout_ms());
        let trigger_timeout =
            self.message.trigger_config.as_ref().map_or(0, |triggers| triggers.trigger_timeout_ms());
        let duration = self.message.duration_ms().max(trigger_timeout);
        let total_ms = [duration, flush, stop].into_iter().map(u64::from).sum();
        (duration > 0).then(|| Duration::from_millis(total_ms) + SESSION_SLACK)
    }

    fn observed(&mut self, events: ObservableEvents) {
        if events.all_data_sources_started() {
            self.notifier.tell(0);
        }
        if let (Some(hit), Some(snapshots)) = (events.clone_trigger_hit, &mut self.snapshots) {
            snapshots.take(hit);
        }
    }

    /// Flushes, then stops; the end of tracing comes as an event.
    fn stop(&mut self, consumer: &mut Consumer) -> Result<()> {
        let timeout = Duration::from_millis(self.message.flush_timeout_ms().into());
        let flags = FLUSH_REASON_STOP | flush_flags::INITIATOR_COMMAND_LINE;
        if let Err(error) = consumer.flush(timeout, flags) {
            eprintln!("perfetto: {error}");
        }
        consumer.begin_disable()?;
        Ok(())
    }

    fn read_back(&mut self, consumer: &mut Consumer) -> Result<()> {
        if let Some(snapshots) = self.snapshots.take() {
            snapshots.finish();
        }
        let Some(out) = &mut self.out else { return Ok(()) };
        let mut watch = Watch::of_session(&self.message);
        match self.message.write_into_file() {
            true => watch.file(out.to_read()),
            false => {
                let read = consumer.read_buffers(|packet| {
                    watch.packet(packet);
                    out.write_packet(packet)
                })?;
                watch.read_back(read);
            }
        }
        out.announce();
        watch.say(consumer);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use prost::Message;

    #[test]
    fn a_trace_stands_for_its_config() {
        let config = TraceConfig { duration_ms: Some(7), ..TraceConfig::default() }.encode_to_vec();
        let mut packet = Vec::new();
        prost::encoding::bytes::encode(trace_packet::TRACE_CONFIG, &Bytes::from(config.clone()), &mut packet);
        let mut trace = Vec::new();
        ferretto_consumer::write_packet(&mut trace, &[8 << 3, 1]).unwrap();
        ferretto_consumer::write_packet(&mut trace, &packet).unwrap();
        assert_eq!(config_of_trace(&trace), Some(config));
        assert_eq!(config_of_trace(b"no trace"), None);
    }
}
