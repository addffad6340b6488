//! Where packets go.

use ferretto_producer::TraceWriter;
use ferretto_protos::BuiltinClock;
use ferretto_protos::fields::trace_packet;
use ferretto_protozero::{Message, Sink};

/// Takes whole packets: a trace writer, or a vector in tests.
pub(crate) trait Packets {
    /// What the packets' bytes go to.
    type Sink: Sink;
    /// Writes one packet, from its start to its end.
    fn packet<R>(&mut self, write: impl FnOnce(&mut Message<'_, Self::Sink>) -> R) -> R;
}

/// Stamps a packet with a reading of the boot clock. The clock is named although it is the default one: Trace Processor before v54 brings
/// packets of other machines onto the trace's time line only then.
pub(crate) fn stamp(packet: &mut Message<'_, impl Sink>, boottime_ns: u64) {
    packet.varint(trace_packet::TIMESTAMP, boottime_ns);
    packet.varint(trace_packet::TIMESTAMP_CLOCK_ID, BuiltinClock::Boottime as u64);
}

impl Packets for TraceWriter {
    type Sink = ferretto_producer::ChunkSink;

    fn packet<R>(&mut self, write: impl FnOnce(&mut Message<'_, Self::Sink>) -> R) -> R {
        let mut packet = self.new_packet();
        write(&mut packet)
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;
    use ferretto_protos::TracePacket;
    use prost::Message as _;

    /// Keeps packets.
    #[derive(Debug, Default)]
    pub(crate) struct Recorded(pub(crate) Vec<Vec<u8>>);

    impl Recorded {
        pub(crate) fn decoded(&self) -> Vec<TracePacket> {
            self.0.iter().map(|bytes| TracePacket::decode(bytes.as_slice()).unwrap()).collect()
        }
    }

    impl Packets for Recorded {
        type Sink = Vec<u8>;

        fn packet<R>(&mut self, write: impl FnOnce(&mut Message<'_, Self::Sink>) -> R) -> R {
            let mut bytes = Vec::new();
            let result = write(&mut Message::new(&mut bytes));
            self.0.push(bytes);
            result
        }
    }
}
