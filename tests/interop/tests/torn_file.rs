//! Files whose last packet is torn, as `kill -9` of the service may leave them: upstream's Trace Processor reads what stands before it.

use std::io::Write;

use ferretto_consumer::write_packet;
use ferretto_interop::{need, trace_query};
use ferretto_protos::trace_packet::{Data, OptionalTrustedPacketSequenceId};
use ferretto_protos::{TracePacket, TrackEvent, track_event};
use flate2::{Compression, write::ZlibEncoder};
use prost::Message;

/// Instants on one track.
fn packets(count: u64) -> Vec<TracePacket> {
    let packet = |number| TracePacket {
        timestamp: Some(1_000 + number),
        sequence_flags: Some(if number == 0 { 1 } else { 2 }),
        optional_trusted_packet_sequence_id: Some(OptionalTrustedPacketSequenceId::TrustedPacketSequenceId(
            7,
        )),
        data: Some(Data::TrackEvent(TrackEvent {
            r#type: Some(track_event::Type::Instant as i32),
            track_uuid: Some(99),
            name_field: Some(track_event::NameField::Name(format!("instant {number}"))),
            ..Default::default()
        })),
        ..Default::default()
    };
    (0..count).map(packet).collect()
}

fn file_of(packets: &[TracePacket]) -> Vec<u8> {
    let mut file = Vec::new();
    packets.iter().for_each(|packet| write_packet(&mut file, &packet.encode_to_vec()).unwrap());
    file
}

fn compressed(packets: &[TracePacket]) -> TracePacket {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(&file_of(packets)).unwrap();
    let batch = encoder.finish().unwrap();
    TracePacket { data: Some(Data::CompressedPackets(batch.into())), ..Default::default() }
}

#[test]
fn trace_processor_reads_the_whole_packets_before_a_torn_one() {
    let sql = need!(trace_query());
    let folder = tempfile::tempdir().unwrap();
    let plain = packets(100);
    let batches = [compressed(&plain[..60]), compressed(&plain[60..])];
    for (whole, all, left) in
        [(file_of(&plain[..99]), file_of(&plain), 99), (file_of(&batches[..1]), file_of(&batches), 60)]
    {
        // Only its tag, and all but a byte.
        for len in [whole.len() + 1, all.len() - 1] {
            let path = folder.path().join("torn");
            std::fs::write(&path, &all[..len]).unwrap();
            let instants = sql.number(&path, "select count(*) from slice where name glob 'instant *'");
            assert_eq!(instants, left, "{len} of {} bytes", all.len());
            assert_eq!(sql.losses(&path), Vec::<String>::new(), "{len} of {} bytes", all.len());
        }
    }
}
