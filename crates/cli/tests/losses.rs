//! Each way to lose events is brought about with the real binary, which must say so: the rows of `docs/losses.md`.

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, ChildStderr, Stdio};
use std::time::Duration;

use common::{Place, assert_status, copy_program, send_signal, stderr, wait_until};
use ferretto_ipc::frame;
use ferretto_ipc::methods::PRODUCER_PORT;
use ferretto_ipc::socket::Stream;
use ferretto_producer::{Connector, ExhaustedPolicy, ProducerClient, ProducerEvent, ProducerOptions};
use ferretto_protos::commit_data_request::chunk_to_patch::Patch;
use ferretto_protos::commit_data_request::{ChunkToPatch, ChunksToMove};
use ferretto_protos::fields::trace_packet;
use ferretto_protos::get_async_command_response::Cmd;
use ferretto_protos::initialize_connection_request::ProducerSmbScrapingMode;
use ferretto_protos::ipc_frame::{BindService, InvokeMethod, Msg};
use ferretto_protos::trace_packet::Data;
use ferretto_protos::{
    CommitDataRequest, DataSourceConfig, DataSourceDescriptor, EventName, GetAsyncCommandRequest,
    GetAsyncCommandResponse, InitializeConnectionRequest, InternedData, IpcFrame, RegisterDataSourceRequest,
    RegisterTraceWriterRequest, TestEvent, TracePacket,
};
use ferretto_protozero::fnv::{fnv1a, fnv1a_on};
use prost::Message;

/// Flags of a chunk.
const BEGINS_IN_THE_ONE_BEFORE: u16 = 1;
const GOES_ON_IN_THE_NEXT: u16 = 2;
const NEEDS_PATCHING: u16 = 4;

/// A program that speaks the protocol by hand, and so may break its rules.
struct Program {
    stream: UnixStream,
    requests: u64,
    /// Of the service, for its data source.
    buffer: u32,
}

#[derive(Default, Clone, Copy)]
struct Habits {
    says_when_started: bool,
    says_when_stopped: bool,
    may_be_scraped: bool,
}

impl Program {
    /// Connects and waits until its data source `data` is started.
    fn start(place: &Place, habits: Habits) -> Self {
        let mut program = Self::connect(place, habits);
        program.register("data", habits);
        while program.buffer == 0 {
            program.hear();
        }
        program
    }

    fn connect(place: &Place, habits: Habits) -> Self {
        let stream = UnixStream::connect(place.path("producer.sock")).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let mut program = Self { stream, requests: 0, buffer: 0 };
        program.say(Msg::MsgBindService(BindService { service_name: Some(PRODUCER_PORT.name.to_owned()) }));
        let scraping = match habits.may_be_scraped {
            true => ProducerSmbScrapingMode::SmbScrapingEnabled,
            false => ProducerSmbScrapingMode::SmbScrapingDisabled,
        };
        program.call(
            "InitializeConnection",
            &InitializeConnectionRequest {
                producer_name: Some("by.hand".to_owned()),
                smb_scraping_mode: Some(scraping as i32),
                ..Default::default()
            },
        );
        program.call("GetAsyncCommand", &GetAsyncCommandRequest::default());
        program
    }

    fn register(&mut self, name: &str, habits: Habits) {
        let descriptor = DataSourceDescriptor {
            name: Some(name.to_owned()),
            will_notify_on_start: Some(habits.says_when_started),
            will_notify_on_stop: Some(habits.says_when_stopped),
            ..Default::default()
        };
        let descriptor = Some(descriptor.encode_to_vec().into());
        self.call("RegisterDataSource", &RegisterDataSourceRequest { data_source_descriptor: descriptor });
    }

    fn say(&mut self, msg: Msg) {
        self.requests += 1;
        let frame = IpcFrame { request_id: Some(self.requests), msg: Some(msg), ..Default::default() };
        // A recording that ended by itself does not listen any more: what it says is what counts.
        let _ = self.stream.write_all(&frame::encode(&frame).unwrap());
    }

    fn call(&mut self, method: &str, args: &impl Message) {
        let index = PRODUCER_PORT.method_index(method).unwrap();
        self.say(Msg::MsgInvokeMethod(InvokeMethod {
            service_id: Some(1),
            method_id: Some(u32::try_from(index).unwrap() + 1),
            args_proto: Some(args.encode_to_vec().into()),
            // Nobody reads them.
            drop_reply: Some(!matches!(method, "GetAsyncCommand" | "InitializeConnection")),
        }));
    }

    /// The next frame of the service, if it is a command.
    fn hear(&mut self) -> Option<Cmd> {
        let mut len = [0; 4];
        self.stream.read_exact(&mut len).unwrap();
        let mut bytes = vec![0; u32::from_le_bytes(len) as usize];
        self.stream.read_exact(&mut bytes).unwrap();
        let Some(Msg::MsgInvokeMethodReply(reply)) = IpcFrame::decode(bytes.as_slice()).unwrap().msg else {
            return None;
        };
        let cmd = GetAsyncCommandResponse::decode(reply.reply_proto.unwrap_or_default()).ok()?.cmd;
        if let Some(Cmd::StartDataSource(start)) = &cmd {
            let config = DataSourceConfig::decode(start.config.clone().unwrap_or_default()).unwrap();
            self.buffer = config.target_buffer();
        }
        cmd
    }

    /// Answers flushes until the service says something else that `done` waits for.
    fn serve_until(&mut self, mut done: impl FnMut(&Cmd) -> bool) {
        loop {
            let Some(cmd) = self.hear() else { continue };
            if let Cmd::Flush(flush) = &cmd {
                let request = CommitDataRequest { flush_request_id: flush.request_id, ..Default::default() };
                self.call("CommitData", &request);
            }
            if done(&cmd) {
                return;
            }
        }
    }

    /// A chunk of these fragments.
    fn chunk(&mut self, id: u32, flags: u16, fragments: &[&[u8]]) {
        self.chunk_into(self.buffer, id, flags, fragments);
    }

    fn chunk_into(&mut self, buffer: u32, id: u32, flags: u16, fragments: &[&[u8]]) {
        let mut payload = Vec::new();
        for fragment in fragments {
            prost::encoding::encode_varint(fragment.len() as u64, &mut payload);
            payload.extend_from_slice(fragment);
        }
        self.raw_chunk(buffer, id, fragments.len() as u16 | flags << 10, &payload);
    }

    fn raw_chunk(&mut self, buffer: u32, id: u32, count_and_flags: u16, payload: &[u8]) {
        const WRITER: u16 = 1;
        let mut data = id.to_le_bytes().to_vec();
        data.extend(WRITER.to_le_bytes());
        data.extend(count_and_flags.to_le_bytes());
        data.extend_from_slice(payload);
        let chunk =
            ChunksToMove { target_buffer: Some(buffer), data: Some(data.into()), ..Default::default() };
        self.call("CommitData", &CommitDataRequest { chunks_to_move: vec![chunk], ..Default::default() });
    }

    /// Several packets, each in a chunk of its own.
    fn packets(&mut self, count: u32, len: usize) {
        let packet = text(&"x".repeat(len));
        (0..count).for_each(|id| self.chunk(id, 0, &[&packet]));
    }
}

fn text(text: &str) -> Vec<u8> {
    let event = TestEvent { str: Some(text.to_owned()), ..Default::default() };
    TracePacket { data: Some(Data::ForTesting(event)), ..Default::default() }.encode_to_vec()
}

/// `ferretto record` at work.
struct Recording<'a> {
    place: &'a Place,
    child: Child,
    words: BufReader<ChildStderr>,
    said: String,
}

const BUFFER: &str = "buffers { size_kb: 256 }";
const SOURCE: &str = "data_sources { config { name: \"data\" } }";

impl<'a> Recording<'a> {
    fn start(place: &'a Place, config: &str) -> Self {
        place.write("config", config);
        let args = ["record", "-c", "config", "--any-source", "-o", "t"];
        let mut child = place.ferretto(&args).stderr(Stdio::piped()).spawn().unwrap();
        let mut words = BufReader::new(child.stderr.take().unwrap());
        // It listens before it has a session.
        let mut said = String::new();
        while !said.contains("Recording until Ctrl-C") {
            assert_ne!(words.read_line(&mut said).unwrap(), 0, "{said}");
        }
        Self { place, child, words, said }
    }

    /// Ends it and gives what it says.
    fn end(self) -> String {
        // What was sent has arrived.
        std::thread::sleep(Duration::from_millis(300));
        send_signal(&self.child, "-INT");
        self.said()
    }

    fn said(mut self) -> String {
        self.words.read_to_string(&mut self.said).unwrap();
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}: {}", self.said);
        assert!(self.place.path("t").exists());
        self.said
    }
}

/// Records a program that does this; what is said must have these words, and nothing else lost.
#[track_caller]
fn check(config: &str, habits: Habits, act: impl FnOnce(&mut Program), words: &str) {
    let place = Place::new();
    let recording = Recording::start(&place, config);
    let mut program = Program::start(&place, habits);
    act(&mut program);
    let said = recording.end();
    assert_one_loss(&said, words);
}

#[track_caller]
fn assert_one_loss(said: &str, words: &str) {
    let losses: Vec<&str> = said.lines().filter(|line| line.starts_with("  - ")).collect();
    assert!(
        said.contains("Lost:\n") && losses.len() == 1 && losses[0].contains(words),
        "no {words:?} alone in\n{said}"
    );
}

/// With a scraped program and a flush that nobody waits for long.
fn quick(more: &str) -> String {
    format!("{BUFFER} {SOURCE} flush_timeout_ms: 300 {more}")
}

/// Answers the flush at the end, on another thread.
fn well_behaved() -> Habits {
    Habits { may_be_scraped: true, ..Habits::default() }
}

/// Records a program that does this and then answers what the service asks, as it should.
#[track_caller]
fn check_polite(config: &str, act: impl FnOnce(&mut Program), words: &str) {
    let place = Place::new();
    let recording = Recording::start(&place, config);
    let mut program = Program::start(&place, well_behaved());
    act(&mut program);
    std::thread::sleep(Duration::from_millis(300));
    send_signal(&recording.child, "-INT");
    program.serve_until(|cmd| matches!(cmd, Cmd::StopDataSource(_)));
    let said = recording.said();
    match words {
        "" => assert!(said.contains("Lost: nothing.\n"), "{said}"),
        words => assert_one_loss(&said, words),
    }
}

#[test]
fn nothing_is_lost_of_a_program_that_does_as_it_should() {
    check_polite(&quick(""), |program| program.packets(3, 100), "");
}

#[test]
fn shared_memory_runs_full() {
    let place = Place::new();
    let recording = Recording::start(&place, &quick(""));
    let mut options = ProducerOptions::new("flood");
    options.connector = Connector::Address(place.path("producer.sock").to_str().unwrap().parse().unwrap());
    let mut client = ProducerClient::new(options).unwrap();
    client
        .register_data_source(&DataSourceDescriptor { name: Some("data".to_owned()), ..Default::default() });
    let mut writer = None;
    let mut is_stopped = false;
    while !is_stopped {
        client.wait(None, &[]).unwrap();
        while let Some(event) = client.next_event() {
            match event {
                ProducerEvent::Start { config, .. } => {
                    let buffer = config.decode().unwrap().target_buffer() as u16;
                    let mut flood = client.create_writer(buffer, ExhaustedPolicy::Drop);
                    // Nobody hands anything over meanwhile.
                    while !flood.is_dropping() {
                        flood.new_packet().bytes(trace_packet::FOR_TESTING, &[0; 1000]);
                    }
                    client.commit();
                    writer = Some(flood);
                    send_signal(&recording.child, "-INT");
                }
                ProducerEvent::Flush { request_id, .. } => {
                    let flood = writer.as_mut().unwrap();
                    // There is room again, and what follows says that something is missing.
                    wait_until("there is room", || {
                        flood.new_packet().bytes(trace_packet::FOR_TESTING, b"x");
                        !flood.is_dropping()
                    });
                    flood.flush();
                    client.notify_flush_complete(request_id);
                }
                ProducerEvent::Stop { .. } => is_stopped = true,
                _ => {}
            }
        }
    }
    let said = recording.said();
    assert!(said.contains("a program wrote faster than its shared memory was emptied; enlarge it"), "{said}");
}

#[test]
fn a_ring_overwrites_the_oldest() {
    let config = format!("buffers {{ size_kb: 16 }} {SOURCE}");
    check_polite(
        &config,
        |program| program.packets(100, 1000),
        "of the oldest data in buffer 0 (16 KiB, for data)",
    );
}

#[test]
fn a_buffer_that_keeps_the_oldest_is_full() {
    let config = format!("buffers {{ size_kb: 16 fill_policy: DISCARD }} {SOURCE}");
    check_polite(
        &config,
        |program| program.packets(100, 1000),
        "it was full and keeps the oldest; enlarge it with size_kb: 32 in the config's buffers number 1",
    );
}

#[test]
fn a_chunk_comes_after_those_behind_it() {
    let file = "write_into_file: true file_write_period_ms: 100";
    let in_order = |ids: [u32; 4], words: &str| {
        let act = |program: &mut Program| {
            for (place, id) in ids.into_iter().enumerate() {
                if place == 3 {
                    std::thread::sleep(Duration::from_secs(1));
                }
                program.chunk(id, 0, &[&text("x")]);
            }
        };
        check_polite(&quick(file), act, words);
    };
    in_order([0, 1, 3, 2], "1 chunk in buffer 0 (256 KiB, for data): ");
    // What was read comes again.
    in_order([0, 1, 2, 0], "");
}

#[test]
fn a_chunk_is_larger_than_its_buffer() {
    let config = format!("buffers {{ size_kb: 4 }} {SOURCE}");
    check_polite(&config, |program| program.packets(1, 8000), "data broke the rules of the protocol");
}

#[test]
fn data_breaks_the_rules() {
    check_polite(
        &quick(""),
        |program| program.raw_chunk(program.buffer, 0, 1, &[200, 1, 1, 2, 3]),
        "a program's data broke the rules of the protocol",
    );
}

#[test]
fn a_patch_comes_too_late() {
    let act = |program: &mut Program| {
        let patch = ChunkToPatch {
            target_buffer: Some(program.buffer),
            writer_id: Some(1),
            chunk_id: Some(7),
            patches: vec![Patch { offset: Some(0), data: Some(vec![0; 4].into()) }],
            ..Default::default()
        };
        program.call("CommitData", &CommitDataRequest { chunks_to_patch: vec![patch], ..Default::default() });
    };
    check_polite(&quick(""), act, "1 piece in buffer 0 (256 KiB, for data): the end of a packet came when");
}

#[test]
fn a_program_dies_in_the_middle_of_a_packet() {
    let place = Place::new();
    let recording = Recording::start(&place, &quick(""));
    let mut program = Program::start(&place, well_behaved());
    let packet = text(&"x".repeat(100));
    program.chunk(0, GOES_ON_IN_THE_NEXT | NEEDS_PATCHING, &[&packet, &packet[..50]]);
    program.chunk(1, BEGINS_IN_THE_ONE_BEFORE | GOES_ON_IN_THE_NEXT, &[&packet[50..]]);
    drop(program);
    assert_one_loss(&recording.end(), "2 chunks");
}

#[test]
fn data_is_for_a_buffer_of_somebody_else() {
    check_polite(
        &quick(""),
        |program| program.chunk_into(4000, 0, 0, &[&text("x")]),
        "1 piece of data that a program sent for a buffer that is not its own",
    );
}

#[test]
fn a_packet_says_what_only_the_service_may_say() {
    let packet = TracePacket {
        optional_trusted_uid: Some(ferretto_protos::trace_packet::OptionalTrustedUid::TrustedUid(0)),
        ..Default::default()
    };
    check_polite(
        &quick(""),
        |p| p.chunk(0, 0, &[&packet.encode_to_vec()]),
        "1 packet that a program wrote wrongly",
    );
}

#[test]
fn the_file_reaches_its_largest_size() {
    let place = Place::new();
    let file = "write_into_file: true file_write_period_ms: 100 max_file_size_bytes: 20000";
    let recording = Recording::start(&place, &quick(file));
    let mut program = Program::start(&place, well_behaved());
    program.packets(100, 1000);
    // The recording ends by itself.
    let said = recording.said();
    assert_one_loss(&said, "its largest size of 20.0 kB, ");
    assert!(said.contains("raise max_file_size_bytes"), "{said}");
    // Whoever has nothing but the file is told, too.
    let info = place.ferretto(&["info", "t"]).output().unwrap();
    assert_status(&info, 0);
    let told = String::from_utf8_lossy(&info.stdout);
    assert!(told.contains("its largest size of 20.0 kB, ") && !told.contains("Lost: nothing"), "{told}");
}

#[test]
fn the_file_cannot_be_written() {
    let place = Place::new();
    place.write("config", quick("duration_ms: 300 write_into_file: true"));
    let args = ["record", "-c", "config", "--any-source", "-o", "/dev/full"];
    let output = place.ferretto(&args).output().unwrap();
    assert_status(&output, 1);
    let said = stderr(&output);
    assert!(said.contains("the trace file cannot be written") && !said.contains("Lost: nothing"), "{said}");
    // Not that another write had failed before.
    assert!(said.contains("No space left on device"), "{said}");
}

#[test]
fn a_filter_lets_nothing_through() {
    // Of a trace's packets (field 1) fields 2 to 101, and so not `for_testing`.
    let words: [u32; 6] = [1 << 3 | 3, 1, 0, 2 << 3 | 2, 100, 0];
    let hash = words.iter().fold(fnv1a(b""), |hash, word| fnv1a_on(hash, &word.to_le_bytes()));
    let mut bytecode = Vec::new();
    words
        .iter()
        .chain([&(hash as u32)])
        .for_each(|word| prost::encoding::encode_varint(u64::from(*word), &mut bytecode));
    let bytecode: String = bytecode.iter().map(|byte| format!("\\{byte:03o}")).collect();
    let config = quick(&format!("trace_filter {{ bytecode: \"{bytecode}\" }}"));
    check_polite(
        &config,
        |program| program.packets(3, 1000),
        "that the config's trace_filter does not let through",
    );
}

#[test]
fn a_time_is_on_a_clock_that_nobody_knows() {
    let packet = TracePacket { timestamp: Some(1), timestamp_clock_id: Some(64), ..Default::default() };
    check_polite(
        &quick(""),
        |p| p.chunk(0, 0, &[&packet.encode_to_vec()]),
        "1 packet whose time nobody can tell",
    );
}

#[test]
fn names_are_overwritten() {
    // Once the ring has gone round, the packet with the state of the sequence is gone.
    let flagged = |flags| TracePacket { sequence_flags: Some(flags), ..Default::default() }.encode_to_vec();
    let (clears, needs) = (flagged(1), [flagged(2), text(&"x".repeat(1000))].concat());
    let config = format!("buffers {{ size_kb: 16 }} {SOURCE}");
    let place = Place::new();
    let recording = Recording::start(&place, &config);
    let mut program = Program::start(&place, well_behaved());
    program.chunk(0, 0, &[&clears]);
    (1..100).for_each(|id| program.chunk(id, 0, &[&needs]));
    std::thread::sleep(Duration::from_millis(300));
    send_signal(&recording.child, "-INT");
    program.serve_until(|cmd| matches!(cmd, Cmd::StopDataSource(_)));
    let said = recording.said();
    assert!(said.contains("packets that nobody can read: the names that they refer to were lost"), "{said}");
}

#[test]
fn names_do_not_fit_beside_a_ring() {
    // Names of 2,000 bytes, in a ring that may keep 800 of them.
    let name = InternedData {
        event_names: vec![EventName { iid: Some(1), name: Some("n".repeat(2000)) }],
        ..Default::default()
    };
    let clears = TracePacket { sequence_flags: Some(1), interned_data: Some(name), ..Default::default() }
        .encode_to_vec();
    let flagged = TracePacket { sequence_flags: Some(2), ..Default::default() }.encode_to_vec();
    let needs = [flagged, text(&"x".repeat(1000))].concat();
    let place = Place::new();
    let recording =
        Recording::start(&place, &format!("buffers {{ size_kb: 16 fold_overwritten: true }} {SOURCE}"));
    let mut program = Program::start(&place, well_behaved());
    program.chunk(0, 0, &[&clears]);
    (1..100).for_each(|id| program.chunk(id, 0, &[&needs]));
    std::thread::sleep(Duration::from_millis(300));
    send_signal(&recording.child, "-INT");
    program.serve_until(|cmd| matches!(cmd, Cmd::StopDataSource(_)));
    let said = recording.said();
    assert!(said.contains("names that packets left in buffer 0"), "{said}");
    assert!(said.contains("1 time: when they were overwritten there was no room"), "{said}");
}

#[test]
fn a_chunk_is_missing() {
    let packet = text("x");
    let act = |program: &mut Program| [0, 5].into_iter().for_each(|id| program.chunk(id, 0, &[&packet]));
    check_polite(&quick(""), act, "1 gap in 1 sequence of packets");
}

#[test]
fn a_source_never_starts() {
    let habits = Habits { says_when_started: true, ..well_behaved() };
    let place = Place::new();
    let recording = Recording::start(&place, &quick(""));
    let mut program = Program::start(&place, habits);
    // The recorder waits for it for a while.
    std::thread::sleep(Duration::from_millis(300));
    send_signal(&recording.child, "-INT");
    program.serve_until(|cmd| matches!(cmd, Cmd::StopDataSource(_)));
    assert_one_loss(&recording.said(), "the beginning, or all, of data of by.hand: not started in time");
}

#[test]
fn a_source_does_not_answer_the_last_flush() {
    let words = "perhaps the last moments of data of by.hand: not handed over in time";
    check(&quick(""), well_behaved(), |_| {}, words);
}

#[test]
fn a_source_does_not_stop() {
    let place = Place::new();
    let recording = Recording::start(&place, &quick("data_source_stop_timeout_ms: 300"));
    let mut program = Program::start(&place, Habits { says_when_stopped: true, ..well_behaved() });
    send_signal(&recording.child, "-INT");
    program.serve_until(|cmd| matches!(cmd, Cmd::StopDataSource(_)));
    assert_one_loss(&recording.said(), "perhaps the last moments of data of by.hand: not stopped in time");
}

#[test]
fn a_program_ends_and_nobody_can_look_into_its_memory() {
    let place = Place::new();
    let recording = Recording::start(&place, &quick(""));
    drop(Program::start(&place, Habits::default()));
    assert_one_loss(&recording.end(), "perhaps the last moments of 1 program that went away");
}

#[test]
fn a_program_has_more_threads_than_there_are_writers() {
    let act = |program: &mut Program| {
        for id in 1..=32_767 {
            let request =
                RegisterTraceWriterRequest { trace_writer_id: Some(id), target_buffer: Some(program.buffer) };
            program.call("RegisterTraceWriter", &request);
        }
    };
    check_polite(&quick(""), act, "what threads of 1 program wrote that had 32,767 writers already");
}

#[test]
fn a_program_offers_too_many_sources() {
    let act = |program: &mut Program| {
        (0..1100).for_each(|number| program.register(&format!("more{number}"), Habits::default()));
    };
    check_polite(&quick(""), act, "77 data sources that programs offer: there are too many");
}

/// As many sessions as a program has places for record this one, before another does.
#[test]
fn a_program_has_no_place_for_another_session() {
    static CROWD: ferretto::Category = ferretto::Category::new("crowd");
    let place = Place::new();
    let traced = place.traced();
    let stream = UnixStream::connect(place.path("producer.sock")).unwrap();
    let stream = Stream::from_unix_fd(stream.into()).unwrap();
    let builder = ferretto::builder("org.example.crowded").connector(Connector::Stream(stream));
    builder.init().unwrap();
    let source = "data_sources { config { name: \"track_event\" } }";
    place.write("crowd", format!("{BUFFER} {}", source.repeat(31)));
    let args = ["record", "--system", "-c", "crowd", "-o", "c"];
    let crowd = place.ferretto(&args).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("the crowd records", || CROWD.is_enabled());
    place.write("config", format!("{BUFFER} {source} duration_ms: 500"));
    let args = ["record", "--system", "-c", "config", "-o", "t"];
    let recording = place.ferretto(&args).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(250));
    ferretto::instant!(CROWD, "event");
    let late = stderr(&recording.wait_with_output().unwrap());
    let pid = std::process::id();
    let words = "too many other sessions record it already";
    let words = format!("all of track_event of org.example.crowded (process {pid}: {words})");
    assert!(late.contains(&words) && !late.contains("Lost: nothing"), "{late}");
    send_signal(&crowd, "-INT");
    let said = stderr(&crowd.wait_with_output().unwrap());
    assert!(said.contains("Lost: nothing."), "{said}");
    drop(traced);
}

#[test]
fn a_state_that_was_asked_for_cannot_be_had() {
    let config = "data_sources { config { name: \"data\" protovm_config { memory_limit_kb: 64 } } }";
    let config = format!("{BUFFER} {config} flush_timeout_ms: 300");
    check_polite(&config, |_| {}, "1 state of what was overwritten in buffer 0 (256 KiB, for data)");
}

#[test]
fn an_interceptor_takes_the_data() {
    let config = "data_sources { config { name: \"data\" interceptor_config { name: \"console\" } } }";
    let config = format!("{BUFFER} {config} flush_timeout_ms: 300");
    check_polite(&config, |_| {}, "all of data: the config gives it to the interceptor console");
}

#[test]
fn the_packets_go_where_nobody_counts_them() {
    let place = Place::new();
    place.write("config", quick("duration_ms: 300 write_into_file: true"));
    let output =
        place.ferretto(&["record", "-c", "config", "--any-source", "-o", "/dev/null"]).output().unwrap();
    assert_status(&output, 0);
    let said = stderr(&output);
    assert!(
        said.contains("Lost: nothing known; could not be asked: the packets, which went elsewhere."),
        "{said}"
    );
}

#[test]
fn the_service_goes_away() {
    let place = Place::new();
    place.write("config", quick(""));
    let traced = place.traced();
    let args = ["record", "--system", "-c", "config", "--any-source", "-o", "t"];
    let child = place.ferretto(&args).stderr(Stdio::piped()).spawn().unwrap();
    let program = Program::start(&place, well_behaved());
    traced.signal("-KILL");
    let output = child.wait_with_output().unwrap();
    drop(program);
    assert_status(&output, 1);
    assert!(stderr(&output).contains("the tracing service went away"), "{}", stderr(&output));
}

#[test]
fn no_program_connects_or_emits() {
    let place = Place::new();
    let config =
        format!("{BUFFER} data_sources {{ config {{ name: \"track_event\" }} }} flush_timeout_ms: 300");
    place.write("config", &config);
    let output = place.ferretto(&["record", "-c", "config", "-t", "300ms", "-o", "t"]).output().unwrap();
    assert_status(&output, 0);
    assert!(stderr(&output).contains("nothing: no instrumented program connected"), "{}", stderr(&output));

    let recording = Recording::start(&place, &config);
    let mut program = Program::connect(&place, well_behaved());
    program.register("track_event", Habits::default());
    program.serve_until(|cmd| matches!(cmd, Cmd::StartDataSource(_)));
    send_signal(&recording.child, "-INT");
    program.serve_until(|cmd| matches!(cmd, Cmd::StopDataSource(_)));
    let said = recording.said();
    assert!(said.contains("nothing: 1 instrumented program took part and emitted no event"), "{said}");
}

#[test]
fn upstreams_command_line_says_it_too() {
    let place = Place::new();
    let _traced = place.traced();
    place.write(
        "config",
        format!("buffers {{ size_kb: 16 fill_policy: DISCARD }} {SOURCE} flush_timeout_ms: 300"),
    );
    for into_file in ["", "write_into_file: true file_write_period_ms: 60000"] {
        let config = format!(
            "buffers {{ size_kb: 16 fill_policy: DISCARD }} {SOURCE} flush_timeout_ms: 300 {into_file}"
        );
        place.write("config", config);
        let child = place
            .ferretto(&["perfetto", "--txt", "-c", "config", "-o", "t"])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut program = Program::start(&place, well_behaved());
        program.packets(100, 1000);
        std::thread::sleep(Duration::from_millis(300));
        send_signal(&child, "-INT");
        program.serve_until(|cmd| matches!(cmd, Cmd::StopDataSource(_)));
        let output = child.wait_with_output().unwrap();
        assert_status(&output, 0);
        let said = stderr(&output);
        assert!(
            said.contains("Wrote ")
                && said.contains("lost: ")
                && said.contains("it was full and keeps the oldest"),
            "{said}"
        );
    }
}

#[test]
fn a_snapshot_says_it_too() {
    let place = Place::new();
    place.write("config", format!("buffers {{ size_kb: 64 }} {SOURCE} flush_timeout_ms: 300"));
    let _traced = place.traced();
    let args = ["record", "--system", "--flight", "-c", "config", "--any-source"];
    let recorder = common::Daemon(place.ferretto(&args).stderr(Stdio::null()).spawn().unwrap());
    let mut program = Program::start(&place, well_behaved());
    program.raw_chunk(program.buffer, 0, 1, &[200, 1, 1, 2, 3]);
    let child = place.ferretto(&["snapshot", "-o", "s"]).stderr(Stdio::piped()).spawn().unwrap();
    program.serve_until(|cmd| matches!(cmd, Cmd::Flush(_)));
    let output = child.wait_with_output().unwrap();
    assert_status(&output, 0);
    drop(program);
    drop(recorder);
    assert_one_loss(&stderr(&output), "a program's data broke the rules of the protocol");
}

/// Whether this test may record the kernel's events.
fn has_ftrace() -> bool {
    let events = std::path::Path::new("/sys/kernel/tracing/events/sched");
    let may = rustix::process::geteuid().is_root() && events.exists();
    if !may {
        eprintln!("skipped: it takes root and a mounted tracefs");
    }
    may
}

fn ftrace(more: &str) -> String {
    format!("{BUFFER} data_sources {{ config {{ name: \"linux.ftrace\" ftrace_config {{ {more} }} }} }}")
}

#[test]
fn the_kernel_does_not_have_an_event() {
    if !has_ftrace() {
        return;
    }
    let place = Place::new();
    place.write("config", ftrace("ftrace_events: \"no/such_event\""));
    let output = place.ferretto(&["record", "-c", "config", "-t", "300ms", "-o", "t"]).output().unwrap();
    assert_status(&output, 0);
    assert_one_loss(&stderr(&output), "kernel event no/such_event does not exist on this kernel.");
}

#[test]
fn the_kernels_buffer_runs_over() {
    if !has_ftrace() {
        return;
    }
    let place = Place::new();
    // Nobody reads it before the end, and forks and wake-ups fill it.
    let events = "ftrace_events: \"sched/*\" buffer_size_kb: 8 drain_period_ms: 60000";
    place.write("config", ftrace(events));
    let busy = "for i in $(seq 300); do /bin/true; done";
    let output =
        place.ferretto(&["record", "-c", "config", "-o", "t", "--", "sh", "-c", busy]).output().unwrap();
    assert_status(&output, 0);
    let said = stderr(&output);
    assert!(
        said.contains("the kernel's buffer was full before it was read; enlarge ftrace_config"),
        "{said}"
    );
}

const EXECS: &str = "ftrace_events: \"sched/sched_process_exec\"";

/// Begins to record the kernel's events for as long as the file NAME.on exists.
fn record_while(place: &Place, name: &str) -> Child {
    place.write("config", ftrace(EXECS));
    place.write(&format!("{name}.on"), "");
    let program = format!("touch {name}.runs; while [ -e {name}.on ]; do sleep 0.02; done");
    let trace = format!("{name}.pftrace");
    let args = ["record", "--own", "-c", "config", "-o", &trace, "--", "sh", "-c", &program];
    let recorder = place.ferretto(&args).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("the recording runs", || place.path(&format!("{name}.runs")).exists());
    recorder
}

/// Ends it: what it said.
fn end(place: &Place, name: &str, recorder: Child) -> String {
    std::fs::remove_file(place.path(&format!("{name}.on"))).unwrap();
    let output = recorder.wait_with_output().unwrap();
    assert_status(&output, 0);
    stderr(&output)
}

#[test]
fn two_recorders_at_a_time_both_have_all_of_the_kernels_events() {
    const RUNS: usize = 40;
    if !has_ftrace() {
        return;
    }
    let place = Place::new();
    let program = place.path("a-program-that-ends");
    copy_program("/bin/true", &program);
    let run = || {
        for _ in 0..RUNS {
            std::process::Command::new(&program).status().unwrap();
        }
    };
    let first = record_while(&place, "first");
    run();
    let second = record_while(&place, "second");
    run();
    let said = end(&place, "second", second);
    assert!(said.contains("Lost: nothing."), "{said}");
    run();
    let said = end(&place, "first", first);
    assert!(said.contains("Lost: nothing."), "{said}");
    let name = program.to_str().unwrap().as_bytes();
    let seen = ["first", "second"].map(|trace| {
        let trace = std::fs::read(place.path(&format!("{trace}.pftrace"))).unwrap();
        trace.windows(name.len()).filter(|part| *part == name).count()
    });
    assert_eq!(seen, [3 * RUNS, RUNS]);
}

#[test]
fn another_program_takes_the_kernels_events() {
    if !has_ftrace() {
        return;
    }
    let tracefs = std::path::Path::new("/sys/kernel/tracing");
    // A recorder that finds the root in use makes an instance, where this test disturbs nobody else.
    let root = std::fs::File::open(tracefs).unwrap();
    let _ = rustix::fs::flock(&root, rustix::fs::FlockOperation::NonBlockingLockExclusive);
    for (file, text, words) in [
        ("tracing_on", "0", "it switched"),
        ("events/enable", "0", "it switched sched/sched_process_exec of"),
        ("buffer_size_kb", "64", "it emptied the buffers of"),
    ] {
        let place = Place::new();
        let recorder = record_while(&place, "t");
        let instance = tracefs.join(format!("instances/ferretto-{}", recorder.id()));
        std::fs::write(instance.join(file), text).unwrap();
        let said = end(&place, "t", recorder);
        assert!(said.contains("kernel events, from some moment on: another program interfered"), "{said}");
        assert!(said.contains(words), "{said}");
        assert!(!instance.exists(), "it goes with its recorder");
    }
}

#[test]
fn a_program_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    const NOBODY: u32 = 65534;
    if !rustix::process::geteuid().is_root() {
        return eprintln!("skipped: it takes root to be somebody else");
    }
    let place = Place::new();
    let open = |path: &std::path::Path| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
    };
    open(place.folder.path());
    let program = place.path("program");
    copy_program(env!("CARGO_BIN_EXE_ferretto"), &program);
    open(&program);
    let recording = Recording::start(&place, &quick("lockdown_mode: LOCKDOWN_SET"));
    open(&place.path("producer.sock"));
    let mut trigger = std::process::Command::new(&program);
    trigger
        .args(["trigger", "x"])
        .uid(NOBODY)
        .env("PERFETTO_PRODUCER_SOCK_NAME", place.path("producer.sock"));
    // It may have gone before it hears of its refusal.
    trigger.output().unwrap();
    let said = recording.end();
    assert_one_loss(&said, "all of 1 program that the service did not let in: ");
    assert!(said.contains("user 65534: a session with lockdown_mode keeps other users out"), "{said}");
}

/// The recording ends with its command.
#[test]
fn a_child_outlives_the_command() {
    let place = Place::new();
    let line = "sleep 60 >/dev/null 2>&1 & echo $! > child";
    let output = place.ferretto(&["record", "-o", "t", "--", "sh", "-c", line]).output().unwrap();
    let child = std::fs::read_to_string(place.path("child")).unwrap();
    let child = child.trim();
    assert!(std::process::Command::new("kill").args(["-9", child]).status().unwrap().success());
    let said = stderr(&output);
    let words =
        format!("what these trace from the end of the command on, for they go on: sleep (process {child})");
    assert!(said.contains(&words), "{said}");
}
