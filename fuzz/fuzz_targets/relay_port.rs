//! Relays that say anything, over connections that carry producers of their machine, too: the service goes on, tells only of machines that take
//! part, once what each is, and of clocks that a reader can reckon with.
#![no_main]

use std::collections::BTreeSet;

use ferretto_fuzz::Stage;
use ferretto_ipc::frame;
use ferretto_ipc::host::{HostConnection, Reply};
use ferretto_ipc::identity::machine_id;
use ferretto_ipc::methods::{PRODUCER_PORT, RELAY_PORT, ServiceDef};
use ferretto_protos as protos;
use ferretto_protos::ipc_frame::{BindService, InvokeMethod, Msg, SetPeerIdentity};
use ferretto_protos::trace_packet::Data;
use ferretto_service::limits::{MAX_CLOCK_READING, MAX_SYNC_ROUND, MAX_SYNC_ROUNDS, MAX_SYSTEM_INFO_BYTES};
use ferretto_service::{Machine, Peer, ProducerCall, ProducerConn, RelayCall};
use ferretto_shm::SharedMemory;
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use prost::Message;

static SERVICES: [ServiceDef; 2] = [PRODUCER_PORT, RELAY_PORT];
/// Counted from 1, in the order of `SERVICES`.
const RELAY_SERVICE: u32 = 2;
/// Producers whose machines take part in the session.
const PRODUCERS: [ProducerConn; 2] = [ProducerConn(1000), ProducerConn(1001)];
/// Connections whose frames the script makes.
const CONNECTIONS: u64 = 4;

#[derive(Arbitrary, Debug)]
struct Step {
    connection: u8,
    act: Act,
}

#[derive(Arbitrary, Debug)]
enum Act {
    /// Whatever a socket may bring.
    Bytes(Vec<u8>),
    Identity {
        hint: Option<u8>,
        other_hint: String,
        name: String,
    },
    Bind {
        is_relay: bool,
    },
    Invoke {
        service: u8,
        method: u8,
        args: Vec<u8>,
    },
    Init {
        info: Vec<u8>,
        repeat: u8,
    },
    Sync {
        phase: Option<u8>,
        clocks: Vec<(u8, u64)>,
    },
    /// Two halves that belong together, unless time passed otherwise.
    Round {
        at: u64,
        later: u64,
    },
    HangUp,
    Pass {
        ms: u16,
    },
    Read,
}

fuzz_target!(|script: Vec<Step>| {
    let mut world = World::new();
    for Step { connection, act } in script {
        world.apply(u64::from(connection) % CONNECTIONS, act);
    }
    let World { stage, mut seen, .. } = world;
    stage.end(|packet| seen.check_packet(packet));
});

/// A connection of the script's, as the daemon has it.
struct Link {
    conn: ProducerConn,
    host: HostConnection,
    is_introduced: bool,
    /// 0 if it is on none.
    machine: u32,
}

struct World {
    stage: Stage,
    links: Vec<Link>,
    seen: Seen,
}

/// What may be in the trace.
#[derive(Default)]
struct Seen {
    /// Machines that have data sources.
    taking_part: BTreeSet<u32>,
    /// Machines of which the trace has said what they are.
    told: BTreeSet<u32>,
}

impl World {
    fn new() -> Self {
        let stage = Stage::new(SharedMemory::in_process);
        let mut world = Self { stage, links: Vec::new(), seen: Seen::default() };
        world.links = (0..CONNECTIONS).map(|_| world.link()).collect();
        for (index, conn) in PRODUCERS.into_iter().enumerate() {
            world.introduce_producer(conn, index as u8);
        }
        world.stage.enable(protos::TraceConfig { trace_all_machines: Some(true), ..Default::default() });
        world
    }

    fn link(&mut self) -> Link {
        Link {
            conn: ProducerConn(self.stage.next()),
            host: HostConnection::new(&SERVICES),
            is_introduced: false,
            machine: 0,
        }
    }

    fn introduce_producer(&mut self, conn: ProducerConn, machine: u8) {
        let service = &mut self.stage.service;
        service.handle_producer_connected(conn, Peer { uid: 7, pid: 7, emulated: true });
        service.handle_producer_machine(conn, Machine { id: id_of(machine), name: hint(machine) });
        self.seen.taking_part.insert(id_of(machine));
        let hello = protos::InitializeConnectionRequest {
            shared_memory_size_hint_bytes: Some(32 * 1024),
            shared_memory_page_size_hint_bytes: Some(4096),
            ..Default::default()
        };
        self.stage.introduce(conn, hello);
    }

    fn apply(&mut self, index: u64, act: Act) {
        self.stage.now_ns += 1000;
        match act {
            Act::Bytes(bytes) => self.receive(index, &bytes),
            Act::Identity { hint: known, other_hint, name } => {
                let hint = known.map_or(other_hint, hint);
                self.frame(
                    index,
                    Msg::SetPeerIdentity(SetPeerIdentity {
                        pid: Some(1),
                        uid: Some(1),
                        machine_id_hint: Some(hint),
                        machine_name: Some(name),
                    }),
                );
            }
            Act::Bind { is_relay } => {
                let name = SERVICES[usize::from(is_relay)].name.to_owned();
                self.frame(index, Msg::MsgBindService(BindService { service_name: Some(name) }));
            }
            Act::Invoke { service, method, args } => {
                self.invoke(index, u32::from(service % 4), u32::from(method % 16), args);
            }
            Act::Init { info, repeat } => {
                let info = info.repeat(usize::from(repeat).max(1)).into();
                self.relay_call(index, 1, &protos::InitRelayRequest { system_info: Some(info) });
            }
            Act::Sync { phase, clocks } => {
                self.sync(index, phase.map(|phase| i32::from(phase % 4)), clocks);
            }
            Act::Round { at, later } => {
                // Clock 6 is the boot clock (builtin_clock.proto).
                self.sync(index, Some(1), vec![(6, at)]);
                self.sync(index, Some(2), vec![(6, at.wrapping_add(later))]);
            }
            Act::HangUp => self.hang_up(index),
            Act::Pass { ms } => {
                self.stage.now_ns += u64::from(ms) * 1_000_000;
                self.stage.handle_timeout();
            }
            Act::Read => self.stage.read(|packet| self.seen.check_packet(packet)),
        }
    }

    fn sync(&mut self, index: u64, phase: Option<i32>, clocks: Vec<(u8, u64)>) {
        use protos::sync_clock_request::Clock;
        let clock = |(id, at): (u8, u64)| Clock { clock_id: Some(u32::from(id)), timestamp: Some(at) };
        let clocks = clocks.into_iter().map(clock).collect();
        self.relay_call(index, 2, &protos::SyncClockRequest { phase, clocks });
    }

    fn relay_call(&mut self, index: u64, method: u32, request: &impl Message) {
        self.invoke(index, RELAY_SERVICE, method, request.encode_to_vec());
    }

    fn invoke(&mut self, index: u64, service: u32, method: u32, args: Vec<u8>) {
        self.frame(
            index,
            Msg::MsgInvokeMethod(InvokeMethod {
                service_id: Some(service),
                method_id: Some(method),
                args_proto: Some(args.into()),
                drop_reply: None,
            }),
        );
    }

    fn frame(&mut self, index: u64, msg: Msg) {
        let frame =
            protos::IpcFrame { request_id: Some(self.stage.next()), msg: Some(msg), ..Default::default() };
        if let Ok(bytes) = frame::encode(&frame) {
            self.receive(index, &bytes);
        }
    }

    fn receive(&mut self, index: u64, bytes: &[u8]) {
        let result = self.links[index as usize].host.handle_bytes(bytes);
        while let Some(request) = self.links[index as usize].host.poll_request() {
            self.introduce(index);
            let (token, now) = (self.stage.token(), self.stage.now());
            let link = &mut self.links[index as usize];
            // Replies are not looked at; the queue for them is to stay empty.
            let _ = link.host.reply(request.id, Reply::Rejected, false, None);
            let name = request.method_name();
            if request.service + 1 == RELAY_SERVICE as usize {
                if let Ok(call) = RelayCall::decode(name, request.args) {
                    self.stage.service.handle_relay_call(link.conn, token, call, &now);
                }
            } else if let Ok(call) = ProducerCall::decode(name, request.args) {
                if matches!(call, ProducerCall::RegisterDataSource(_)) {
                    self.seen.taking_part.insert(link.machine);
                }
                self.stage.service.handle_producer_call(link.conn, token, call, None, &now);
            }
            self.stage.outputs();
        }
        let host = &mut self.links[index as usize].host;
        while let Some(transmit) = host.poll_transmit() {
            let len = transmit.bytes.len();
            host.transmitted(len);
        }
        if result.is_err() {
            self.hang_up(index);
        }
    }

    /// As the daemon does at a connection's first request.
    fn introduce(&mut self, index: u64) {
        let link = &mut self.links[index as usize];
        if std::mem::replace(&mut link.is_introduced, true) {
            return;
        }
        self.stage.service.handle_producer_connected(link.conn, Peer { uid: 1, pid: 1, emulated: true });
        if let Some(identity) = link.host.peer_identity() {
            let id = machine_id(identity.machine_id_hint(), "elsewhere");
            let name = identity.machine_name().to_owned();
            link.machine = id;
            self.stage.service.handle_producer_machine(link.conn, Machine { id, name });
        }
    }

    fn hang_up(&mut self, index: u64) {
        let link = self.link();
        let gone = std::mem::replace(&mut self.links[index as usize], link);
        if gone.is_introduced {
            let now = self.stage.now();
            self.stage.service.handle_producer_disconnected(gone.conn, &now);
            self.stage.outputs();
        }
    }
}

impl Seen {
    fn check_packet(&mut self, packet: &[u8]) {
        // What a relay says a machine is goes into the trace as it came, be it a SystemInfo or not.
        let Ok(packet) = protos::TracePacket::decode(packet) else { return };
        let machine = packet.machine_id();
        let takes_part = machine != 0 && self.taking_part.contains(&machine);
        match packet.data {
            Some(Data::SystemInfo(info)) if machine != 0 => {
                assert!(takes_part && self.told.insert(machine), "{machine:x} is told of once");
                assert!(info.encoded_len() <= MAX_SYSTEM_INFO_BYTES);
            }
            Some(Data::RemoteClockSync(sync)) => {
                assert!(takes_part, "{machine:x} takes no part");
                check_clocks(&sync);
            }
            _ => {}
        }
    }
}

/// Pairs of readings in order, not too far apart, and small enough to be added up.
fn check_clocks(sync: &protos::RemoteClockSync) {
    let rounds: Vec<_> = sync.synced_clocks.chunks(2).collect();
    assert!((1..=MAX_SYNC_ROUNDS).contains(&rounds.len()));
    for round in rounds {
        let boot_times: Vec<u64> = round.iter().map(boot_time).collect();
        let [ping, update] = boot_times[..] else { panic!("half a round: {round:?}") };
        assert!(ping <= update && update - ping < MAX_SYNC_ROUND.as_nanos() as u64);
        assert!((1..=MAX_CLOCK_READING).contains(&ping) && update <= MAX_CLOCK_READING);
    }
}

fn boot_time(synced: &protos::remote_clock_sync::SyncedClocks) -> u64 {
    let clocks = synced.client_clocks.as_ref().expect("the machine's clocks");
    let boot = clocks.clocks.iter().find(|clock| clock.clock_id() == 6);
    boot.expect("the boot clock").timestamp()
}

/// What machines call themselves; the first two have producers from the beginning.
fn hint(machine: u8) -> String {
    format!("machine{}", machine % 3)
}

fn id_of(machine: u8) -> u32 {
    machine_id(&hint(machine), "")
}
