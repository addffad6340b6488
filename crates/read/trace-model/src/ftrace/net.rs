//! The network: what devices carry, states of connections (upstream: ftrace_parser.cc, tcp_state.h).

use ferretto_trace_tables::{MachineId, Str};
use foldhash::fast::RandomState;
use hashbrown::HashMap;

use super::apply::At;
use super::numbers as event;
use super::on_tracks::NONE;
use super::payload::Payload;
use crate::args::ArgValue;
use crate::model::Model;
use crate::tracks::{Blueprint, Dimension, Dimensions};

const OF_INTERFACE: &[Dimension] = &[Dimension::Text("network_interface")];
const RECEIVE: Blueprint = Blueprint::counter("net_receive", OF_INTERFACE);
const TRANSMIT: Blueprint = Blueprint::counter("net_transmit", OF_INTERFACE);
const FREED: Blueprint = Blueprint::counter("net_kfree_skb", NONE);
const STREAM: Blueprint = Blueprint::slice("net_socket_set_state", &[Dimension::Number("tcp_stream_idx")]);
const RETRANSMIT: Blueprint = Blueprint::slice("net_tcp_retransmit_skb", NONE);

/// By their numbers in the kernel (include/net/tcp_states.h); 0 is none.
const TCP_STATES: [&str; 13] = [
    "TCP_UNKNOWN",
    "TCP_ESTABLISHED",
    "TCP_SYN_SENT",
    "TCP_SYN_RECV",
    "TCP_FIN_WAIT1",
    "TCP_FIN_WAIT2",
    "TCP_TIME_WAIT",
    "TCP_CLOSE",
    "TCP_CLOSE_WAIT",
    "TCP_LAST_ACK",
    "TCP_LISTEN",
    "TCP_CLOSING",
    "TCP_NEW_SYN_RECV",
];
const ESTABLISHED: usize = 1;
const SYN_SENT: usize = 2;
/// `IPPROTO_TCP`.
const TCP: u32 = 6;
/// `AF_INET` and `AF_INET6`.
const FAMILIES: [u32; 2] = [2, 10];
/// `ETH_P_IP` and `ETH_P_IPV6`.
const ETHERNET_IP: u32 = 0x800;
const ETHERNET_IPV6: u32 = 0x86dd;

/// What is kept of a machine's network.
#[derive(Debug, Default)]
pub(super) struct Net {
    received_bytes: HashMap<Str, u64, RandomState>,
    transmitted_bytes: HashMap<Str, u64, RandomState>,
    /// By the address of the kernel's socket; from 1.
    streams: HashMap<u64, i64, RandomState>,
    freed: u64,
}

impl Model {
    /// Whether an event is of these; if so, it is done.
    pub(super) fn net(&mut self, at: At<'_>, number: u32, payload: &Payload<'_>) -> bool {
        match number {
            event::netif_receive_skb::NUMBER => {
                use event::netif_receive_skb as field;
                let len = payload.u32(field::LEN);
                let device = payload.text(field::NAME);
                let track =
                    self.text_track(&RECEIVE, at.cpu.machine, &device, |name| format!("{name} Received KB"));
                let device = self.tables.strings.intern(&device);
                let bytes = self.net_of(at).received_bytes.entry(device).or_default();
                *bytes = bytes.saturating_add(len.into());
                let kb = (*bytes / 1024) as f64;
                self.carried(at, track, kb, len);
            }
            event::net_dev_xmit::NUMBER => {
                use event::net_dev_xmit as field;
                // The driver must have taken it.
                if payload.i32(field::RC) != 0 {
                    return true;
                }
                let len = payload.u32(field::LEN);
                let device = payload.text(field::NAME);
                let track = self
                    .text_track(&TRANSMIT, at.cpu.machine, &device, |name| format!("{name} Transmitted KB"));
                let device = self.tables.strings.intern(&device);
                let bytes = self.net_of(at).transmitted_bytes.entry(device).or_default();
                *bytes = bytes.saturating_add(len.into());
                let kb = (*bytes / 1024) as f64;
                self.carried(at, track, kb, len);
            }
            event::inet_sock_set_state::NUMBER => self.tcp_state(at, payload),
            event::tcp_retransmit_skb::NUMBER => {
                use event::tcp_retransmit_skb as field;
                let (sport, dport) = (payload.u32(field::SPORT), payload.u32(field::DPORT));
                let name = self.tables.strings.intern(&format!("sport={sport},dport={dport}"));
                let track =
                    self.kernel_track(&RETRANSMIT, at.cpu.machine, Dimensions::default(), |strings| {
                        strings.intern("TCP Retransmit Skb")
                    });
                self.instant(at.ts, track, Some("tcp_event"), Some(name), &[]);
            }
            event::kfree_skb::NUMBER => self.freed(at, payload.u32(event::kfree_skb::PROTOCOL)),
            _ => return false,
        }
        true
    }

    fn net_of(&mut self, at: At<'_>) -> &mut Net {
        &mut self.kernel(at.cpu.machine).net
    }

    fn carried(&mut self, at: At<'_>, track: ferretto_trace_tables::TrackId, kb: f64, len: u32) {
        let args = [("cpu", ArgValue::Uint(at.cpu.cpu.into())), ("len", ArgValue::Uint(len.into()))];
        self.counter_with(at.ts, track, kb, &args);
    }

    fn tcp_state(&mut self, at: At<'_>, payload: &Payload<'_>) {
        use event::inet_sock_set_state as field;
        let state = |number: i32| usize::try_from(number).ok().filter(|state| *state < TCP_STATES.len());
        let (Some(new), Some(_)) = (state(payload.i32(field::NEWSTATE)), state(payload.i32(field::OLDSTATE)))
        else {
            return;
        };
        if payload.u32(field::PROTOCOL) != TCP || !FAMILIES.contains(&payload.u32(field::FAMILY)) {
            return;
        }
        let word = TCP_STATES.get(new).copied().unwrap_or_default();
        let name = match new {
            SYN_SENT => format!("{word}(pid={})", at.tid),
            ESTABLISHED => {
                format!("{word}(sport={},dport={})", payload.u32(field::SPORT), payload.u32(field::DPORT))
            }
            _ => word.to_owned(),
        };
        let name = self.tables.strings.intern(&name);
        let track = self.stream_track(at.cpu.machine, payload.u64(field::SKADDR));
        self.end_slice(at.ts, track, None, None, &[]);
        self.begin_slice(at.ts, track, Some("tcp_state"), Some(name), &[]);
    }

    fn stream_track(&mut self, machine: MachineId, socket: u64) -> ferretto_trace_tables::TrackId {
        let streams = &mut self.kernel(machine).net.streams;
        let next = i64::try_from(streams.len()).unwrap_or(i64::MAX).saturating_add(1);
        let stream = *streams.entry(socket).or_insert(next);
        let dimensions = Dimensions { number: Some(stream), ..Dimensions::default() };
        self.kernel_track(&STREAM, machine, dimensions, |strings| {
            strings.intern(&format!("TCP stream#{stream}"))
        })
    }

    fn freed(&mut self, at: At<'_>, protocol: u32) {
        let protocol = match protocol {
            ETHERNET_IP => "IP",
            ETHERNET_IPV6 => "IPV6",
            _ => return,
        };
        let net = self.net_of(at);
        net.freed += 1;
        let freed = net.freed as f64;
        let track = self.kernel_track(&FREED, at.cpu.machine, Dimensions::default(), |strings| {
            strings.intern("Kfree Skb IP Prot")
        });
        let protocol = self.text_arg(protocol);
        self.counter_with(at.ts, track, freed, &[("protocol", protocol)]);
    }
}
