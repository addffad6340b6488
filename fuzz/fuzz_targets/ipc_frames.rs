//! Any bytes on a connection, in pieces of any size: errors, requests or answers, frames that are the same whatever the pieces, in bounded
//! memory.
#![no_main]

use ferretto_ipc::client::{ClientConnection, Event};
use ferretto_ipc::frame::{Decoder, MAX_FRAME_SIZE};
use ferretto_ipc::host::{HostConnection, Reply};
use ferretto_ipc::methods::{CONSUMER_PORT, PRODUCER_PORT, ServiceDef};
use ferretto_protos::IpcFrame;
use libfuzzer_sys::fuzz_target;

static SERVICES: [ServiceDef; 2] = [PRODUCER_PORT, CONSUMER_PORT];

fuzz_target!(|data: &[u8]| {
    let [piece, bytes @ ..] = data else { return };
    let piece = usize::from(*piece) + 1;
    let whole = decode(bytes, bytes.len().max(1));
    let pieces = decode(bytes, piece);
    assert_eq!(whole, pieces, "the frames depend on how the bytes arrive");
    serve(bytes, piece);
    listen(bytes, piece);
});

/// The frames before the first error, and whether there was one.
fn decode(bytes: &[u8], piece: usize) -> (Vec<IpcFrame>, bool) {
    let mut decoder = Decoder::new();
    let mut frames = Vec::new();
    for bytes in bytes.chunks(piece) {
        decoder.push(bytes);
        loop {
            match decoder.next() {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(_) => return (frames, true),
            }
        }
        assert!(decoder.buffered_bytes() <= MAX_FRAME_SIZE + bytes.len());
    }
    (frames, false)
}

fn serve(bytes: &[u8], piece: usize) {
    let mut host = HostConnection::new(&SERVICES);
    for bytes in bytes.chunks(piece) {
        let result = host.handle_bytes(bytes);
        while let Some(request) = host.poll_request() {
            let method = SERVICES[request.service].methods[request.method];
            assert_eq!(method, request.method_name());
            let _ = host.reply(request.id, Reply::Rejected, false, None);
        }
        while let Some(transmit) = host.poll_transmit() {
            let len = transmit.bytes.len();
            host.transmitted(len);
        }
        if result.is_err() {
            return;
        }
    }
}

/// A client that calls as soon as it can.
fn listen(bytes: &[u8], piece: usize) {
    let mut client = ClientConnection::new(PRODUCER_PORT.name);
    for bytes in bytes.chunks(piece) {
        let result = client.handle_bytes(bytes);
        while let Some(event) = client.poll_event() {
            if matches!(event, Event::Bound) {
                // Refused if the host did not tell of it.
                let _ = client.invoke_encoded("GetAsyncCommand", Default::default(), None, true);
            }
        }
        if result.is_err() {
            return;
        }
    }
}
