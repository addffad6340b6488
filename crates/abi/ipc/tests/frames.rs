//! Promises of the frame decoder: it survives every way of splitting, and everything a hostile peer sends.

use bytes::Bytes;
use ferretto_ipc::frame::{Decoder, FrameError, HEADER_SIZE, MAX_FRAME_SIZE, MAX_PAYLOAD_SIZE, encode};
use ferretto_protos::IpcFrame;
use ferretto_protos::ipc_frame::bind_service_reply::MethodInfo;
use ferretto_protos::ipc_frame::{
    BindService, BindServiceReply, InvokeMethod, InvokeMethodReply, Msg, RequestError, SetPeerIdentity,
};
use ferretto_protozero::read::Fields;
use proptest::prelude::*;
use prost::Message;

fn frame(request_id: u64, args: usize) -> IpcFrame {
    let invoke = InvokeMethod { args_proto: Some(vec![0xa5; args].into()), ..Default::default() };
    IpcFrame { request_id: Some(request_id), msg: Some(Msg::MsgInvokeMethod(invoke)), ..Default::default() }
}

fn drain(decoder: &mut Decoder) -> Vec<IpcFrame> {
    std::iter::from_fn(|| decoder.next().expect("no frame is too large")).collect()
}

fn with_header(payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_le_bytes().to_vec();
    bytes.extend_from_slice(payload);
    bytes
}

/// A frame whose encoding, header included, has exactly this size.
fn frame_of_size(size: usize) -> IpcFrame {
    let mut frame = IpcFrame::default();
    let mut padding = size - HEADER_SIZE;
    loop {
        frame.data_for_testing = vec![Bytes::from(vec![0; padding])];
        match frame.encoded_len() + HEADER_SIZE {
            now if now == size => return frame,
            now => padding -= now - size,
        }
    }
}

#[test]
fn frames_split_at_every_byte_are_whole() {
    let frames = [frame(1, 0), frame(2, 3), frame(u64::MAX, 300)];
    let stream: Vec<u8> = frames.iter().flat_map(|frame| encode(frame).unwrap()).collect();
    for split in 0..=stream.len() {
        let mut decoder = Decoder::new();
        let mut received = Vec::new();
        for part in [&stream[..split], &stream[split..]] {
            decoder.push(part);
            received.extend(drain(&mut decoder));
        }
        assert_eq!(received, frames, "split at {split}");
        assert_eq!(decoder.buffered_bytes(), 0);
    }
}

#[test]
fn one_byte_at_a_time_is_enough() {
    let mut decoder = Decoder::new();
    let bytes = encode(&frame(7, 1000)).unwrap();
    let (last, first) = bytes.split_last().unwrap();
    for byte in first {
        decoder.push(&[*byte]);
        assert_eq!(decoder.next(), Ok(None));
    }
    decoder.push(&[*last]);
    assert_eq!(decoder.next(), Ok(Some(frame(7, 1000))));
}

#[test]
fn empty_frames_are_skipped() {
    let mut decoder = Decoder::new();
    decoder.push(&[0; 4 * 1000]);
    decoder.push(&encode(&frame(1, 1)).unwrap());
    assert_eq!(drain(&mut decoder), [frame(1, 1)]);
    assert_eq!(decoder.undecodable_frames(), 0);
}

#[test]
fn the_largest_frame_passes_and_one_byte_more_ends_the_connection() {
    let largest = frame_of_size(MAX_FRAME_SIZE);
    let bytes = encode(&largest).unwrap();
    assert_eq!(bytes.len(), MAX_FRAME_SIZE);
    let mut decoder = Decoder::new();
    decoder.push(&bytes);
    assert_eq!(decoder.next(), Ok(Some(largest)));

    let too_large = FrameError::TooLarge { size: MAX_FRAME_SIZE + 1 };
    assert_eq!(encode(&frame_of_size(MAX_FRAME_SIZE + 1)), Err(too_large.clone()));
    decoder.push(&(MAX_PAYLOAD_SIZE as u32 + 1).to_le_bytes());
    assert_eq!(decoder.next(), Err(too_large.clone()));
    decoder.push(&bytes);
    assert_eq!(decoder.next(), Err(too_large), "and there is no way back");
    assert_eq!(decoder.buffered_bytes(), 0, "what follows is not kept");
}

#[test]
fn a_length_of_four_gigabytes_is_refused_by_its_header() {
    let mut decoder = Decoder::new();
    decoder.push(&[0xff; 4]);
    assert_eq!(decoder.next(), Err(FrameError::TooLarge { size: u32::MAX as usize + HEADER_SIZE }));
}

#[test]
fn payloads_that_are_no_frames_are_skipped_and_counted() {
    let garbage: [&[u8]; 6] = [
        &[0xff; 40],                     // A tag without end.
        &[0x12, 0x05, 0x00],             // A length beyond the payload.
        &[0x1a, 0x02, 0x0a, 0x09],       // The same in a nested message.
        &[0x00],                         // Field number 0.
        &[0x13],                         // A group, opened as field 2.
        &[0x1a, 0x03, 0x0a, 0x01, 0xff], // A name that is not UTF-8.
    ];
    for payload in garbage {
        let mut decoder = Decoder::new();
        decoder.push(&with_header(payload));
        decoder.push(&encode(&frame(3, 5)).unwrap());
        assert_eq!(drain(&mut decoder), [frame(3, 5)], "{payload:02x?}");
        assert_eq!(decoder.undecodable_frames(), 1, "{payload:02x?}");
    }
}

#[test]
fn unknown_fields_are_ignored() {
    let mut payload = frame(3, 5).encode_to_vec();
    payload.extend_from_slice(&[0xf8, 0x3f, 0x01]); // Field 1023.
    let mut decoder = Decoder::new();
    decoder.push(&with_header(&payload));
    assert_eq!(drain(&mut decoder), [frame(3, 5)]);
}

fn msg() -> impl Strategy<Value = Msg> {
    let text = || prop::option::of(".{0,8}");
    let bytes = || prop::option::of(prop::collection::vec(any::<u8>(), 0..300).prop_map(Bytes::from));
    let method = (any::<Option<u32>>(), text()).prop_map(|(id, name)| MethodInfo { id, name });
    prop_oneof![
        text().prop_map(|service_name| Msg::MsgBindService(BindService { service_name })),
        (any::<Option<bool>>(), any::<Option<u32>>(), prop::collection::vec(method, 0..4)).prop_map(
            |(success, service_id, methods)| Msg::MsgBindServiceReply(BindServiceReply {
                success,
                service_id,
                methods
            })
        ),
        (any::<[Option<u32>; 2]>(), bytes(), any::<Option<bool>>()).prop_map(
            |([service_id, method_id], args_proto, drop_reply)| Msg::MsgInvokeMethod(InvokeMethod {
                service_id,
                method_id,
                args_proto,
                drop_reply
            })
        ),
        (any::<[Option<bool>; 2]>(), bytes()).prop_map(|([success, has_more], reply_proto)| {
            Msg::MsgInvokeMethodReply(InvokeMethodReply { success, has_more, reply_proto })
        }),
        text().prop_map(|error| Msg::MsgRequestError(RequestError { error })),
        (any::<[Option<i32>; 2]>(), text(), text()).prop_map(
            |([pid, uid], machine_id_hint, machine_name)| {
                Msg::SetPeerIdentity(SetPeerIdentity { pid, uid, machine_id_hint, machine_name })
            }
        ),
    ]
}

fn any_frame() -> impl Strategy<Value = IpcFrame> {
    let data = prop::collection::vec(any::<u8>(), 0..4).prop_map(Bytes::from);
    (any::<Option<u64>>(), prop::collection::vec(data, 0..3), prop::option::of(msg()))
        .prop_map(|(request_id, data_for_testing, msg)| IpcFrame { request_id, data_for_testing, msg })
}

/// What a decoder is to do, without a decoder's care: look at the whole stream from its beginning each time.
fn model(stream: &[u8]) -> (Vec<IpcFrame>, u64, bool) {
    let (mut frames, mut undecodable, mut rest) = (Vec::new(), 0, stream);
    while rest.len() >= HEADER_SIZE {
        let len = u32::from_le_bytes(rest[..HEADER_SIZE].try_into().unwrap()) as usize;
        if len + HEADER_SIZE > MAX_FRAME_SIZE {
            return (frames, undecodable, true);
        }
        let Some(payload) = rest.get(HEADER_SIZE..HEADER_SIZE + len) else {
            break;
        };
        match IpcFrame::decode(payload) {
            _ if len == 0 => {}
            // A group, of which protobuf has none any more.
            Ok(_) if Fields::new(payload).any(|field| field.is_err()) => undecodable += 1,
            Ok(frame) => frames.push(frame),
            Err(_) => undecodable += 1,
        }
        rest = &rest[HEADER_SIZE + len..];
    }
    (frames, undecodable, false)
}

fn piece() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => (any::<u64>(), 0usize..200).prop_map(|(id, args)| encode(&frame(id, args)).unwrap()),
        2 => proptest::collection::vec(any::<u8>(), 0..40).prop_map(|payload| with_header(&payload)),
        1 => Just(vec![0; HEADER_SIZE]),
        1 => proptest::collection::vec(any::<u8>(), 0..8),
    ]
}

proptest! {
    #[test]
    fn frames_are_protobufs(frames in prop::collection::vec(any_frame(), 1..4)) {
        for frame in &frames {
            let encoded = encode(frame).unwrap();
            prop_assert_eq!(encoded.len(), frame.encoded_len() + HEADER_SIZE);
            prop_assert_eq!(&IpcFrame::decode(&encoded[HEADER_SIZE..]).unwrap(), frame);
        }
        // Protobuf's rule for messages that follow one another: the fields of both.
        let payload: Vec<u8> = frames.iter().flat_map(IpcFrame::encode_to_vec).collect();
        let mut decoder = Decoder::new();
        decoder.push(&with_header(&payload));
        let expected = (!payload.is_empty()).then(|| IpcFrame::decode(payload.as_slice()).unwrap());
        prop_assert_eq!(decoder.next(), Ok(expected));
    }

    #[test]
    fn the_decoder_agrees_with_a_plain_model(
        pieces in proptest::collection::vec(piece(), 0..12),
        cuts in proptest::collection::vec(1usize..64, 1..40),
    ) {
        let stream: Vec<u8> = pieces.concat();
        let mut decoder = Decoder::new();
        let (mut received, mut failed, mut rest) = (Vec::new(), false, stream.as_slice());
        for cut in cuts.iter().cycle() {
            let (now, later) = rest.split_at((*cut).min(rest.len()));
            decoder.push(now);
            rest = later;
            loop {
                match decoder.next() {
                    Ok(Some(frame)) => received.push(frame),
                    Ok(None) => break,
                    Err(_) => { failed = true; break }
                }
            }
            if rest.is_empty() {
                break;
            }
        }
        prop_assert_eq!((received, decoder.undecodable_frames(), failed), model(&stream));
    }
}
