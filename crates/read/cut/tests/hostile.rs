//! Traces that are torn, spliced or lie: a cut, or an error, and never a panic; and what is cut stays a trace.

use ferretto_cut::{Error, Moment, Options, cut, split};
use ferretto_protozero::Message;
use ferretto_trace_read::Reader;
use proptest::prelude::*;

/// A trace with a bit of all: an interned name, a delta clock, slices, counters of differences, flows, scheduling in both forms.
fn trace() -> Vec<u8> {
    let mut out = Vec::new();
    let mut packet = |fill: &dyn Fn(&mut Message<'_, Vec<u8>>)| {
        let mut body = Vec::new();
        fill(&mut Message::new(&mut body));
        Message::new(&mut out).bytes(1, &body);
    };
    packet(&|packet| {
        packet.varint(8, 1000);
        packet.varint(58, 6);
        packet.varint(10, 2);
        packet.varint(13, 1);
        let mut defaults = packet.nested(59);
        defaults.varint(58, 64);
        defaults.nested(11).varint(11, 77);
        drop(defaults);
        let mut snapshot = packet.nested(6);
        for (id, incremental) in [(6, 0), (64, 1)] {
            let mut clock = snapshot.nested(1);
            clock.varint(1, id);
            clock.varint(2, 1000);
            clock.varint(3, incremental);
        }
    });
    packet(&|packet| {
        packet.varint(10, 2);
        let mut track = packet.nested(60);
        track.varint(1, 5);
        track.nested(8).varint(5, 1);
    });
    for step in 0..12u64 {
        packet(&|packet| {
            packet.varint(8, 100);
            packet.varint(10, 2);
            packet.varint(13, 2);
            if step == 0 {
                let mut interned = packet.nested(12);
                let mut name = interned.nested(2);
                name.varint(1, 1);
                name.string(2, "work");
            }
            let mut event = packet.nested(11);
            match step % 4 {
                0 => {
                    event.varint(9, 1);
                    event.varint(10, 1);
                    event.fixed64(47, 9);
                }
                1 => {
                    event.varint(9, 4);
                    event.varint(11, 5);
                    event.int(30, 3);
                }
                2 => event.varint(9, 3),
                _ => event.varint(9, 2),
            }
        });
    }
    for cpu in 0..2u64 {
        packet(&|packet| {
            packet.varint(10, 3);
            let mut bundle = packet.nested(1);
            bundle.varint(1, cpu);
            let mut compact = bundle.nested(4);
            compact.string(5, "a");
            compact.packed_varints(1, [1000 + cpu, 300, 300, 300].into_iter());
            compact.packed_varints(2, [1u64, 0, 2, 1].into_iter());
            compact.packed_varints(3, [10u64, 0, 11, 0].into_iter());
            compact.packed_varints(4, [120u64; 4].into_iter());
            compact.packed_varints(6, [0u64; 4].into_iter());
            compact.packed_varints(7, [1100u64, 500].into_iter());
            compact.packed_varints(8, [11u64, 10].into_iter());
            compact.packed_varints(9, [0u64; 2].into_iter());
            compact.packed_varints(10, [120u64; 2].into_iter());
            compact.packed_varints(11, [0u64; 2].into_iter());
            drop(compact);
            let mut event = bundle.nested(2);
            event.varint(1, 1500);
            event.varint(2, 11);
            event.nested(3).string(2, "B|11|print");
        });
    }
    out
}

fn middle() -> Options {
    Options { from: Some(Moment::Absolute(1450)), to: Some(Moment::Absolute(1800)), ..Options::default() }
}

/// Cuts; what comes out must be whole packets.
fn check(bytes: &[u8], options: &Options) {
    let mut out = Vec::new();
    match cut(bytes, "hostile", options, &mut out) {
        Ok(report) => {
            let end = Reader::new(out.as_slice()).for_each(|_, _| {}).unwrap();
            assert_eq!((end.broken_at, end.torn_at, end.packets), (None, None, report.packets));
            assert_eq!(end.bytes, report.bytes);
        }
        Err(Error::NotATrace { .. } | Error::NoTimes | Error::Read(_)) => {}
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_part_of_a_whole_trace() {
    let bytes = trace();
    let mut out = Vec::new();
    let report = cut(bytes.as_slice(), "t", &middle(), &mut out).unwrap();
    // The first switch of each CPU, at 1000, makes no row.
    assert_eq!(report.span, (1100, 2200));
    assert_eq!((report.left_out, report.beyond), (0, 0));
    check(&bytes, &middle());
    // A cut of all that was cut is no smaller: nothing is lost twice.
    let mut again = Vec::new();
    cut(out.as_slice(), "t", &middle(), &mut again).unwrap();
    assert!(again.len() >= out.len(), "{} {}", again.len(), out.len());
}

#[test]
fn a_trace_that_ends_anywhere() {
    let bytes = trace();
    for len in 0..bytes.len() {
        check(&bytes[..len], &middle());
        check(&bytes[len..], &middle());
    }
}

#[test]
fn a_byte_that_lies_anywhere() {
    let bytes = trace();
    for at in 0..bytes.len() {
        for lie in [0, 1, 0x7f, 0x80, 0xff] {
            let mut bytes = bytes.clone();
            bytes[at] = lie;
            check(&bytes, &middle());
        }
    }
}

#[test]
fn pieces_are_all_of_the_trace() {
    let bytes = trace();
    let files = std::cell::RefCell::new(Vec::new());
    let reports = split(bytes.as_slice(), "t", &Options::default(), 100, |_| {
        let file = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
        files.borrow_mut().push(file.clone());
        Ok(Shared(file))
    })
    .unwrap();
    assert!(reports.len() > 2, "{reports:?}");
    assert!(reports.windows(2).all(|two| two[0].range.to == two[1].range.from));
    for file in files.borrow().iter() {
        check(&file.borrow(), &Options::default());
    }
}

#[test]
fn extremes_of_time_are_no_trouble() {
    for (from, to) in [(i64::MIN, i64::MAX), (i64::MAX, i64::MAX), (i64::MIN, i64::MIN), (0, 0)] {
        for moment in [Moment::Absolute as fn(i64) -> Moment, Moment::FromStart] {
            let options = Options { from: Some(moment(from)), to: Some(moment(to)), ..Options::default() };
            let mut out = Vec::new();
            cut(trace().as_slice(), "t", &options, &mut out).unwrap();
        }
    }
}

struct Shared(std::rc::Rc<std::cell::RefCell<Vec<u8>>>);

impl std::io::Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

proptest! {
    #[test]
    fn spliced_traces(a in 0usize..400, b in 0usize..400, lies in proptest::collection::vec((0usize..800, any::<u8>()), 0..6)) {
        let bytes = trace();
        let mut spliced = [&bytes[..a.min(bytes.len())], &bytes[b.min(bytes.len())..]].concat();
        for (at, lie) in lies {
            if let Some(byte) = spliced.get_mut(at) {
                *byte = lie;
            }
        }
        check(&spliced, &middle());
    }
}

/// What [`ferretto_cut::merge`] reads.
struct Bytes(Vec<u8>);

impl ferretto_cut::Source for Bytes {
    fn open(&self) -> std::io::Result<Box<dyn std::io::Read + '_>> {
        Ok(Box::new(self.0.as_slice()))
    }

    fn file_bytes(&self) -> std::io::Result<u64> {
        Ok(self.0.len() as u64)
    }
}

#[test]
fn what_ends_anywhere_is_merged() {
    let bytes = trace();
    for len in (1..bytes.len()).step_by(7) {
        for machines in [ferretto_cut::Machines::ByWhatTheySay, ferretto_cut::Machines::Apart] {
            let sources = [Bytes(bytes.clone()), Bytes(bytes[..len].to_vec())];
            let mut out = Vec::new();
            if let Ok(merged) = ferretto_cut::merge(&sources, machines, &mut out) {
                let end = Reader::new(out.as_slice()).for_each(|_, _| {}).unwrap();
                assert_eq!((end.broken_at, end.torn_at, end.packets), (None, None, merged.packets));
            }
        }
    }
}

#[test]
fn sequences_of_merged_traces_do_not_collide() {
    let mut out = Vec::new();
    let sources = [Bytes(trace()), Bytes(trace())];
    ferretto_cut::merge(&sources, ferretto_cut::Machines::One, &mut out).unwrap();
    let mut sequences = std::collections::BTreeMap::<u32, u32>::new();
    Reader::new(out.as_slice())
        .for_each(|packet, _| {
            let head = ferretto_trace_read::Head::of(packet).unwrap();
            *sequences.entry(head.sequence_id).or_default() += 1;
        })
        .unwrap();
    let counts: Vec<u32> = sequences.values().copied().collect();
    assert_eq!(counts, [14, 14, 2, 2], "{sequences:?}");
}
