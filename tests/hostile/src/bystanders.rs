//! Honest clients, who pay for what the service lets others do: a consumer that asks for the state of its session all the time, and
//! that session, with a producer which writes numbered packets. Beside them two threads answer each other, so that what the machine makes
//! anybody wait, whose processors and whose kernel's locks an attacker has too, is told from what the service does.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use ferretto_consumer::Consumer;
use ferretto_interop::{config, wait_for_end};
use ferretto_ipc::address::Address;
use ferretto_producer::{
    Connector, ExhaustedPolicy, ProducerClient, ProducerEvent, ProducerOptions, TraceWriter,
};
use ferretto_protos::fields::{test_event, trace_packet};
use ferretto_protos::trace_packet::Data;
use ferretto_protos::{DataSourceDescriptor, TracePacket};
use prost::Message;

/// The data source of the honest producer.
pub const SOURCE: &str = "honest";
/// How often the honest consumer asks.
const PERIOD: Duration = Duration::from_millis(50);
/// A packet each; 500 a second is what a program with a few threads emits, and none may be lost.
const PACKET_PERIOD: Duration = Duration::from_millis(2);
const PACKET_PAYLOAD: &str = "numbered, and none of them is missing";
const CONFIG: &str = "buffers { size_kb: 16384 } data_sources { config { name: 'honest' } }";

/// What became of the honest.
#[derive(Debug, Clone, Copy, Default)]
pub struct Fates {
    /// The longest time that the consumer waited for an answer.
    pub longest_wait: Duration,
    /// The longest time that one thread waited for another one's answer, without the service.
    pub machine_wait: Duration,
    /// The middle of the consumer's waits.
    pub median_wait: Duration,
    /// Packets that the producer wrote, and those of them that the trace had.
    pub written: u64,
    /// As [`written`](Self::written).
    pub recorded: u64,
}

/// The honest, at work.
#[derive(Debug)]
pub struct Bystanders {
    is_over: Arc<AtomicBool>,
    asking: JoinHandle<Result<Vec<Duration>, String>>,
    echoing: JoinHandle<Result<Vec<Duration>, String>>,
    writing: JoinHandle<Result<(), String>>,
    written: Arc<AtomicU64>,
    session: Consumer,
}

impl Bystanders {
    /// Connects them and has them work.
    pub fn start(producers: &Path, consumers: &Path) -> Result<Self, String> {
        let is_over = Arc::new(AtomicBool::new(false));
        let written = Arc::new(AtomicU64::new(0));
        let mut session = connect(consumers)?;
        session.enable_tracing(config(CONFIG), None).map_err(|error| error.to_string())?;
        let writing = {
            let (socket, is_over, written) =
                (producers.to_owned(), Arc::clone(&is_over), Arc::clone(&written));
            thread::spawn(move || write(socket, &is_over, &written))
        };
        while written.load(Ordering::Relaxed) == 0 && !writing.is_finished() {
            thread::sleep(PACKET_PERIOD);
        }
        let asking = {
            let (mut consumer, is_over) = (connect(consumers)?, Arc::clone(&is_over));
            thread::spawn(move || ask(&mut consumer, &is_over))
        };
        let echoing = {
            let is_over = Arc::clone(&is_over);
            thread::spawn(move || echo(&is_over).map_err(|error| error.to_string()))
        };
        Ok(Self { is_over, asking, echoing, writing, written, session })
    }

    /// Ends the session, reads it, and says how they fared.
    pub fn finish(mut self) -> Result<Fates, String> {
        self.is_over.store(true, Ordering::Relaxed);
        let mut waits = join(self.asking, "the consumer that asks")?;
        waits.sort();
        let machine_wait = join(self.echoing, "the echo")?.into_iter().max().unwrap_or_default();
        self.session.flush(Duration::from_secs(20), 0).map_err(|error| error.to_string())?;
        let written = self.written.load(Ordering::Relaxed);
        self.session.disable().map_err(|error| error.to_string())?;
        if let Some(error) = wait_for_end(&mut self.session) {
            return Err(format!("the session of the honest ended with: {error}"));
        }
        let mut recorded = 0;
        let read = self.session.read_buffers(|packet| {
            let data = TracePacket::decode(packet).ok().and_then(|packet| packet.data);
            recorded += u64::from(matches!(data, Some(Data::ForTesting(_))));
            Ok(())
        });
        read.map_err(|error| error.to_string())?;
        self.session.free().map_err(|error| error.to_string())?;
        drop(self.session);
        join(self.writing, "the producer")?;
        let longest_wait = waits.last().copied().unwrap_or_default();
        let median_wait = waits.get(waits.len() / 2).copied().unwrap_or_default();
        Ok(Fates { longest_wait, machine_wait, median_wait, written, recorded })
    }
}

fn connect(socket: &Path) -> Result<Consumer, String> {
    Consumer::connect(&Address::Path(socket.to_owned())).map_err(|error| error.to_string())
}

fn join<T>(thread: JoinHandle<Result<T, String>>, who: &str) -> Result<T, String> {
    let result = thread.join().map_err(|_| format!("{who} panicked"))?;
    result.map_err(|error| format!("{who}: {error}"))
}

fn ask(consumer: &mut Consumer, is_over: &AtomicBool) -> Result<Vec<Duration>, String> {
    let mut waits = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        let start = Instant::now();
        consumer.query_service_state(true).map_err(|error| error.to_string())?;
        waits.push(start.elapsed());
        thread::sleep(PERIOD);
    }
    Ok(waits)
}

/// Asks a thread that does nothing but answer, as often as the consumer asks the service.
fn echo(is_over: &AtomicBool) -> io::Result<Vec<Duration>> {
    let (mut asker, mut answerer) = UnixStream::pair()?;
    let answering = thread::spawn(move || {
        let mut byte = [0];
        while answerer.read_exact(&mut byte).is_ok() && answerer.write_all(&byte).is_ok() {}
    });
    let mut waits = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        let start = Instant::now();
        asker.write_all(&[0])?;
        asker.read_exact(&mut [0])?;
        waits.push(start.elapsed());
        thread::sleep(PERIOD);
    }
    drop(asker);
    let _ = answering.join();
    Ok(waits)
}

/// Writes as a program does: a packet now and then, whatever the service is at, and never waiting for it.
fn write(socket: PathBuf, is_over: &AtomicBool, written: &AtomicU64) -> Result<(), String> {
    let mut options = ProducerOptions::new("honest");
    options.connector = Connector::Address(Address::Path(socket));
    let mut client = ProducerClient::new(options).map_err(|error| error.to_string())?;
    client
        .register_data_source(&DataSourceDescriptor { name: Some(SOURCE.to_owned()), ..Default::default() });
    let mut writer: Option<TraceWriter> = None;
    let mut own = None;
    loop {
        client.wait(Some(PACKET_PERIOD), &[]).map_err(|error| error.to_string())?;
        while let Some(event) = client.next_event() {
            match event {
                // Sessions of others may want the data source, too. The honest one was first.
                ProducerEvent::Start { instance, .. } if own.is_some_and(|own| own != instance) => {}
                ProducerEvent::Stop { instance } if own.is_some_and(|own| own != instance) => {
                    client.notify_stopped(instance);
                }
                ProducerEvent::Start { instance, config, .. } => {
                    own = Some(instance);
                    let config = config.decode().map_err(|error| error.to_string())?;
                    writer = Some(client.create_writer(config.target_buffer() as u16, ExhaustedPolicy::Drop));
                }
                ProducerEvent::Flush { request_id, .. } => {
                    if let Some(writer) = &mut writer {
                        writer.flush();
                    }
                    client.notify_flush_complete(request_id);
                }
                ProducerEvent::Stop { instance } => {
                    drop(writer.take());
                    client.notify_stopped(instance);
                    return Ok(());
                }
                ProducerEvent::Disconnected { .. } => return Err("the service hung up".to_owned()),
                _ => {}
            }
        }
        if let Some(writer) = &mut writer
            && !is_over.load(Ordering::Relaxed)
        {
            let mut packet = writer.new_packet();
            packet.nested(trace_packet::FOR_TESTING).string(test_event::STR, PACKET_PAYLOAD);
            drop(packet);
            written.fetch_add(1, Ordering::Relaxed);
        }
    }
}
