//! Promises of the two ends of a connection.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use bytes::Bytes;
use ferretto_ipc::client::{ClientConnection, Event, InvokeError};
use ferretto_ipc::frame::{self, Decoder, MAX_FRAME_SIZE};
use ferretto_ipc::host::{ConnectionError, HostConnection, Reply, Request};
use ferretto_ipc::methods::{CONSUMER_PORT, PRODUCER_PORT, ServiceDef};
use ferretto_ipc::{MAX_QUEUED_BYTES, QueueError};
use ferretto_protos::ipc_frame::{BindService, InvokeMethod, Msg, SetPeerIdentity};
use ferretto_protos::{DetachRequest, IpcFrame};
use proptest::prelude::*;

const SERVICES: &[ServiceDef] = &[PRODUCER_PORT, CONSUMER_PORT];

/// A client and a host, joined by hand.
struct Pair {
    client: ClientConnection,
    host: HostConnection,
}

impl Pair {
    fn new(service: &str) -> Self {
        let mut pair = Self { client: ClientConnection::new(service), host: HostConnection::new(SERVICES) };
        pair.carry();
        pair
    }

    fn bound(service: &str) -> Self {
        let mut pair = Self::new(service);
        assert_eq!(pair.client.poll_event(), Some(Event::Bound));
        pair
    }

    fn carry(&mut self) {
        while let Some(bytes) = self.client.poll_transmit().map(|transmit| transmit.bytes.to_vec()) {
            self.client.transmitted(bytes.len());
            self.host.handle_bytes(&bytes).unwrap();
        }
        while let Some(bytes) = self.host.poll_transmit().map(|transmit| transmit.bytes.to_vec()) {
            self.host.transmitted(bytes.len());
            self.client.handle_bytes(&bytes).unwrap();
        }
    }

    fn events(&mut self) -> Vec<Event> {
        self.carry();
        std::iter::from_fn(|| self.client.poll_event()).collect()
    }
}

fn key(key: &str) -> DetachRequest {
    DetachRequest { key: Some(key.to_owned()) }
}

fn send(host: &mut HostConnection, request_id: u64, msg: Option<Msg>) -> Result<(), ConnectionError> {
    let frame = IpcFrame { request_id: Some(request_id), msg, ..Default::default() };
    host.handle_bytes(&frame::encode(&frame).unwrap())
}

fn sent(host: &mut HostConnection) -> Vec<IpcFrame> {
    let mut decoder = Decoder::new();
    while let Some(bytes) = host.poll_transmit().map(|transmit| transmit.bytes.to_vec()) {
        host.transmitted(bytes.len());
        decoder.push(&bytes);
    }
    std::iter::from_fn(|| decoder.next().unwrap()).collect()
}

fn a_file() -> OwnedFd {
    tempfile::tempfile().unwrap().into()
}

#[test]
fn services_and_methods_have_upstreams_ids() {
    let mut host = HostConnection::new(SERVICES);
    for (id, service) in (1..).zip(SERVICES) {
        send(
            &mut host,
            id,
            Some(Msg::MsgBindService(BindService { service_name: Some(service.name.into()) })),
        )
        .unwrap();
        let frames = sent(&mut host);
        let [IpcFrame { request_id: Some(answered), msg: Some(Msg::MsgBindServiceReply(reply)), .. }] =
            frames.as_slice()
        else {
            panic!("one bind reply, not {frames:?}");
        };
        assert_eq!((*answered, reply.success(), u64::from(reply.service_id())), (id, true, id));
        let methods: Vec<_> = reply.methods.iter().map(|method| (method.id(), method.name())).collect();
        assert_eq!(methods, (1..).zip(service.methods.iter().copied()).collect::<Vec<_>>());
    }
    assert_eq!(CONSUMER_PORT.method_index("CloneSession"), Some(14));
    assert_eq!(PRODUCER_PORT.method_index("UpdateDataSource"), Some(11));
}

#[test]
fn a_service_that_is_not_there_cannot_be_bound() {
    let mut pair = Pair::new("RelayPort");
    assert_eq!(pair.events(), [Event::BindFailed]);
    let error = pair.client.invoke("InitRelay", &key("x"), None, true);
    assert_eq!(error, Err(InvokeError::NotBound { method: "InitRelay".into() }));
}

#[test]
fn a_service_may_be_bound_again() {
    let mut host = HostConnection::new(SERVICES);
    for id in 1..=3 {
        send(
            &mut host,
            id,
            Some(Msg::MsgBindService(BindService { service_name: Some("ProducerPort".into()) })),
        )
        .unwrap();
    }
    assert_eq!(sent(&mut host).len(), 3);
}

#[test]
fn calls_before_the_bind_and_of_unknown_methods_fail_here() {
    let mut client = ClientConnection::new("ConsumerPort");
    assert!(matches!(client.invoke("Detach", &key("x"), None, true), Err(InvokeError::NotBound { .. })));
    let mut pair = Pair::bound("ConsumerPort");
    assert!(pair.client.has_method("Detach"));
    assert!(!pair.client.has_method("Levitate"));
    let error = pair.client.invoke("Levitate", &key("x"), None, true);
    assert_eq!(error, Err(InvokeError::UnknownMethod { method: "Levitate".into() }));
    assert_eq!(pair.client.queued_bytes(), 0);
}

#[test]
fn a_call_reaches_its_method_and_its_answers_come_back_in_order() {
    let mut pair = Pair::bound("ConsumerPort");
    let first = pair.client.invoke("Detach", &key("a"), None, true).unwrap();
    let second = pair.client.invoke("Attach", &key("b"), None, true).unwrap();
    pair.carry();
    let detach = pair.host.poll_request().unwrap();
    assert_eq!((detach.service, detach.method_name(), detach.drop_reply), (1, "Detach", false));
    assert_eq!(SERVICES[detach.service].methods[detach.method], "Detach");
    assert_eq!(&detach.args[..], b"\x0a\x01a");
    let attach = pair.host.poll_request().unwrap();
    assert_eq!(pair.host.poll_request(), None);

    for (id, body, has_more) in [(attach.id, "1", true), (detach.id, "2", false), (attach.id, "3", false)] {
        pair.host.reply(id, Reply::Body(Bytes::from(body)), has_more, None).unwrap();
    }
    // One too many: the client has forgotten the call.
    pair.host.reply(attach.id, Reply::Body(Bytes::from("4")), false, None).unwrap();
    let answer =
        |request, body: &'static str, has_more| Event::Reply { request, has_more, body: Some(body.into()) };
    assert_eq!(
        pair.events(),
        [answer(second, "1", true), answer(first, "2", false), answer(second, "3", false)]
    );
}

#[test]
fn a_client_that_wants_no_answer_gets_none() {
    let mut pair = Pair::bound("ConsumerPort");
    pair.client.invoke("Detach", &key("a"), None, false).unwrap();
    pair.carry();
    let Request { id, drop_reply, .. } = pair.host.poll_request().unwrap();
    assert!(drop_reply);
    pair.host.reply(id, Reply::Body(Bytes::new()), false, Some(Arc::new(a_file()))).unwrap();
    assert_eq!(pair.host.queued_bytes(), 0);
}

#[test]
fn an_empty_answer_is_not_a_rejection() {
    let mut pair = Pair::bound("ConsumerPort");
    for reply in [Reply::Body(Bytes::new()), Reply::Rejected] {
        pair.client.invoke("Detach", &key("a"), None, true).unwrap();
        pair.carry();
        let id = pair.host.poll_request().unwrap().id;
        pair.host.reply(id, reply, false, None).unwrap();
    }
    let bodies = pair.events().into_iter().map(|event| match event {
        Event::Reply { body, .. } => body,
        other => panic!("{other:?}"),
    });
    assert_eq!(bodies.collect::<Vec<_>>(), [Some(Bytes::new()), None]);
}

#[test]
fn methods_that_do_not_exist_are_rejected_unless_no_answer_is_wanted() {
    for (service_id, method_id) in [(0, 1), (1, 0), (1, 13), (2, 16), (3, 1), (u32::MAX, u32::MAX)] {
        for drop_reply in [false, true] {
            let mut host = HostConnection::new(SERVICES);
            let invoke = InvokeMethod {
                service_id: Some(service_id),
                method_id: Some(method_id),
                drop_reply: Some(drop_reply),
                ..Default::default()
            };
            send(&mut host, 9, Some(Msg::MsgInvokeMethod(invoke))).unwrap();
            assert_eq!(host.poll_request(), None);
            let frames = sent(&mut host);
            assert_eq!(frames.len(), usize::from(!drop_reply), "{service_id} {method_id}");
            for frame in frames {
                assert_eq!(frame.request_id(), 9);
                assert!(
                    matches!(frame.msg, Some(Msg::MsgInvokeMethodReply(reply)) if !reply.success() && !reply.has_more())
                );
            }
        }
    }
}

#[test]
fn what_is_no_request_gets_an_error_with_its_id() {
    for msg in [
        None,
        Some(Msg::MsgRequestError(Default::default())),
        Some(Msg::MsgInvokeMethodReply(Default::default())),
    ] {
        let mut host = HostConnection::new(SERVICES);
        send(&mut host, 5, msg).unwrap();
        let frames = sent(&mut host);
        let [IpcFrame { request_id: Some(5), msg: Some(Msg::MsgRequestError(error)), .. }] =
            frames.as_slice()
        else {
            panic!("{frames:?}");
        };
        assert_eq!(error.error(), "unknown request");
    }
}

#[test]
fn the_first_peer_identity_counts() {
    let mut host = HostConnection::new(SERVICES);
    assert_eq!(host.peer_identity(), None);
    for pid in [7, 8] {
        send(
            &mut host,
            0,
            Some(Msg::SetPeerIdentity(SetPeerIdentity { pid: Some(pid), ..Default::default() })),
        )
        .unwrap();
    }
    assert_eq!(host.peer_identity().unwrap().pid(), 7);
    assert_eq!(host.queued_bytes(), 0);
}

#[test]
fn answers_that_the_client_did_not_ask_for_are_ignored() {
    let mut client = ClientConnection::new("ConsumerPort");
    for msg in [
        None,
        Some(Msg::MsgInvokeMethodReply(Default::default())),
        Some(Msg::MsgRequestError(Default::default())),
        Some(Msg::MsgBindServiceReply(Default::default())),
        Some(Msg::MsgInvokeMethod(Default::default())),
    ] {
        let frame = IpcFrame { request_id: Some(77), msg, ..Default::default() };
        client.handle_bytes(&frame::encode(&frame).unwrap()).unwrap();
    }
    assert_eq!(client.poll_event(), None);
    assert!(!client.is_bound());
}

#[test]
fn the_end_of_the_connection_rejects_what_waits() {
    let mut pair = Pair::bound("ConsumerPort");
    let ids: Vec<_> = (0..3).map(|_| pair.client.invoke("Detach", &key("a"), None, true).unwrap()).collect();
    pair.client.handle_disconnect();
    let events: Vec<_> = std::iter::from_fn(|| pair.client.poll_event()).collect();
    let rejected = ids.into_iter().map(|request| Event::Reply { request, has_more: false, body: None });
    assert_eq!(events, rejected.collect::<Vec<_>>());
    assert!(!pair.client.is_bound());

    let mut client = ClientConnection::new("ConsumerPort");
    client.handle_disconnect();
    assert_eq!(client.poll_event(), Some(Event::BindFailed));
}

#[test]
fn an_answer_larger_than_a_frame_is_refused_and_the_connection_goes_on() {
    let mut pair = Pair::bound("ConsumerPort");
    pair.client.invoke("Detach", &key("a"), None, true).unwrap();
    pair.carry();
    let id = pair.host.poll_request().unwrap().id;
    let error = pair.host.reply(id, Reply::Body(vec![0; MAX_FRAME_SIZE].into()), true, None);
    assert!(matches!(error, Err(QueueError::Frame(_))));
    pair.host.reply(id, Reply::Rejected, false, None).unwrap();
    assert_eq!(pair.events().len(), 1);
}

#[test]
fn a_peer_that_does_not_read_is_bounded() {
    let mut pair = Pair::bound("ConsumerPort");
    pair.client.invoke("ReadBuffers", &key(""), None, true).unwrap();
    pair.carry();
    let id = pair.host.poll_request().unwrap().id;
    let body = Bytes::from(vec![0; MAX_FRAME_SIZE - 64]);
    let full = std::iter::repeat_with(|| pair.host.reply(id, Reply::Body(body.clone()), true, None))
        .find_map(Result::err);
    assert!(matches!(full, Some(QueueError::Full { .. })));
    assert!(pair.host.queued_bytes() <= MAX_QUEUED_BYTES);
    assert!(pair.host.queued_bytes() > MAX_QUEUED_BYTES - MAX_FRAME_SIZE);

    // Binds make answers without a driver's doing; they end the connection.
    let bind = Msg::MsgBindService(BindService { service_name: Some("ConsumerPort".into()) });
    let flood = std::iter::repeat_with(|| send(&mut pair.host, 1, Some(bind.clone())))
        .take(1000)
        .find_map(Result::err);
    assert!(matches!(flood, Some(ConnectionError::Queue(QueueError::Full { .. }))));
}

#[test]
fn a_descriptor_goes_with_the_first_byte_of_its_frame_and_only_once() {
    let mut pair = Pair::bound("ConsumerPort");
    pair.client.invoke("Detach", &key("a"), None, false).unwrap();
    let plain = pair.client.queued_bytes();
    let files = [Arc::new(a_file()), Arc::new(a_file())];
    for file in &files {
        pair.client.invoke("EnableTracing", &key("a"), Some(Arc::clone(file)), false).unwrap();
    }
    pair.client.invoke("Detach", &key("a"), None, false).unwrap();

    let client = &mut pair.client;
    let next = |client: &ClientConnection| {
        client.poll_transmit().map(|transmit| (transmit.bytes.len(), transmit.fd.map(|fd| fd.as_raw_fd())))
    };
    assert_eq!(next(client), Some((plain, None)), "bytes before the descriptor go alone");
    client.transmitted(plain);
    let (len, fd) = next(client).unwrap();
    assert_eq!(fd, Some(files[0].as_raw_fd()));
    client.transmitted(0);
    assert_eq!(next(client), Some((len, fd)), "a send that took nothing took no descriptor");
    client.transmitted(1);
    assert_eq!(next(client), Some((len - 1, None)), "a partial write took it");
    assert_eq!(Arc::strong_count(&files[0]), 1, "and the queue has let go of it");
    client.transmitted(len - 1);
    let (len, fd) = next(client).unwrap();
    assert_eq!(fd, Some(files[1].as_raw_fd()));
    client.transmitted(len);
    assert_eq!(next(client), None);
}

#[test]
fn the_newest_descriptor_counts() {
    let mut host = HostConnection::new(SERVICES);
    let (old, new) = (a_file(), a_file());
    let wanted = new.as_raw_fd();
    let unwanted = old.as_raw_fd();
    assert!(host.handle_fd(old).is_none());
    assert_eq!(host.handle_fd(new).map(|fd| fd.as_raw_fd()), Some(unwanted));
    assert_eq!(host.take_fd().map(|fd| fd.as_raw_fd()), Some(wanted));
    assert!(host.take_fd().is_none());
}

proptest! {
    /// However much the sockets take at a time, the same requests arrive in the same order with their descriptors in place.
    #[test]
    fn partial_writes_lose_nothing(
        calls in proptest::collection::vec((0usize..2000, any::<bool>()), 1..20),
        writes in proptest::collection::vec(1usize..700, 1..50),
    ) {
        let mut pair = Pair::bound("ConsumerPort");
        let file = Arc::new(a_file());
        for (len, with_fd) in &calls {
            let fd = with_fd.then(|| Arc::clone(&file));
            pair.client.invoke("Detach", &key(&"k".repeat(*len)), fd, false).unwrap();
        }
        let (mut arrived, mut fds, mut writes) = (Vec::new(), 0, writes.into_iter().cycle());
        while let Some(transmit) = pair.client.poll_transmit() {
            let len = transmit.bytes.len().min(writes.next().unwrap());
            fds += usize::from(transmit.fd.is_some());
            pair.host.handle_bytes(&transmit.bytes[..len]).unwrap();
            pair.client.transmitted(len);
            while let Some(request) = pair.host.poll_request() {
                arrived.push(request.args.len());
            }
        }
        let expected: Vec<_> = calls.iter().map(|(len, _)| prost::Message::encoded_len(&key(&"k".repeat(*len)))).collect();
        prop_assert_eq!(arrived, expected);
        prop_assert_eq!(fds, calls.iter().filter(|(_, with_fd)| *with_fd).count());
        prop_assert_eq!(Arc::strong_count(&file), 1);
    }

    /// Nothing that a peer sends makes either end panic.
    #[test]
    fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..600), valid_len in any::<bool>()) {
        let stream = if valid_len {
            let mut framed = (bytes.len() as u32).to_le_bytes().to_vec();
            framed.extend_from_slice(&bytes);
            framed
        } else {
            bytes
        };
        let _ = HostConnection::new(SERVICES).handle_bytes(&stream);
        let _ = ClientConnection::new("ProducerPort").handle_bytes(&stream);
    }
}

/// What is counted for a connection is what it has of memory: it does not stay as large as it was for thousands of requests at once.
#[test]
fn room_for_many_requests_does_not_stay() {
    let mut pair = Pair::bound("ConsumerPort");
    for _ in 0..10_000 {
        pair.client.invoke("Detach", &key("k"), None, false).unwrap();
        let bytes = pair.client.poll_transmit().unwrap().bytes.to_vec();
        pair.client.transmitted(bytes.len());
        pair.host.handle_bytes(&bytes).unwrap();
    }
    assert!(pair.host.held_bytes() > 10_000 * size_of::<Request>());
    for left in (0..10_000usize).rev() {
        pair.host.poll_request().unwrap();
        let most = (4 * left + 64) * (size_of::<Request>() + 16);
        assert!(pair.host.held_bytes() <= most, "{left}: {}", pair.host.held_bytes());
    }
    assert!(pair.host.held_bytes() < 4096);
}

#[test]
fn a_request_that_waits_does_not_keep_what_came_with_it() {
    let mut host = HostConnection::new(SERVICES);
    let invoke = |args: &[u8]| {
        let invoke = InvokeMethod {
            service_id: Some(1),
            method_id: Some(1),
            args_proto: Some(args.to_vec().into()),
            drop_reply: Some(true),
        };
        let frame = IpcFrame { msg: Some(Msg::MsgInvokeMethod(invoke)), ..Default::default() };
        frame::encode(&frame).unwrap()
    };
    let stream = [invoke(&[0; 60_000]), invoke(b"first"), invoke(b""), invoke(b"second")].concat();
    host.handle_bytes(&stream).unwrap();
    drop(host.poll_request());
    host.keep_requests();
    let mut args = || host.poll_request().unwrap().args;
    let (first, empty, second) = (args(), args(), args());
    assert_eq!([&first[..], &empty, &second], [&b"first"[..], b"", b"second"]);
    drop((first, empty));
    assert!(second.try_into_mut().unwrap().capacity() < 100);
}
