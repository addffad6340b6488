use std::io::Read;

use ferretto_protos::fields::{trace_packet, track_event};
use ferretto_protozero::Message;
use proptest::prelude::*;

use super::*;

fn text_of(packets: &[&[u8]]) -> String {
    let mut out = Vec::new();
    let mut sink = sink(&mut out, &Options::default());
    packets.iter().for_each(|packet| sink.packet(packet).unwrap());
    sink.finish().unwrap();
    drop(sink);
    String::from_utf8(out).unwrap()
}

fn framed(packets: &[&[u8]]) -> Vec<u8> {
    let mut trace = Vec::new();
    packets.iter().for_each(|packet| Message::new(&mut trace).bytes(1, packet));
    trace
}

fn trace_of(text: &str) -> Result<Vec<u8>, String> {
    let mut trace = Vec::new();
    let read = TraceOfText::new(text.as_bytes()).read_to_end(&mut trace);
    read.map(|_| trace).map_err(|error| error.to_string())
}

/// To text, and back to the very same bytes.
fn check(packet: &[u8], expected: &str) {
    let text = text_of(&[packet]);
    assert_eq!(text, expected);
    assert_eq!(trace_of(&text).unwrap(), framed(&[packet]), "{text}");
}

fn packet(write: impl FnOnce(&mut Message<'_, Vec<u8>>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(&mut Message::new(&mut bytes));
    bytes
}

#[test]
fn fields_have_their_names_and_enums_their_values() {
    let event = packet(|it| {
        it.varint(trace_packet::TIMESTAMP, 7);
        let mut event = it.nested(trace_packet::TRACK_EVENT);
        event.varint(track_event::TYPE, 1);
        event.string(track_event::CATEGORIES, "a");
        event.string(track_event::CATEGORIES, "b\"\n\u{e4}");
        event.double(track_event::DOUBLE_COUNTER_VALUE, 0.5);
        event.fixed64(track_event::FLOW_IDS, 3);
    });
    check(
        &event,
        "packet {\n  timestamp: 7\n  track_event {\n    type: TYPE_SLICE_BEGIN\n    categories: \"a\"\n    \
         categories: \"b\\\"\\n\\303\\244\"\n    double_counter_value: 0.5\n    flow_ids: 3\n  }\n}\n",
    );
}

#[test]
fn packed_lists_are_packed_again() {
    use ferretto_protos::fields::ftrace_event_bundle as bundle;
    let of_kernel = packet(|it| {
        let mut events = it.nested(trace_packet::FTRACE_EVENTS);
        events.varint(bundle::CPU, 2);
        let mut compact = events.nested(bundle::COMPACT_SCHED);
        compact.packed_varints(bundle::compact_sched::SWITCH_TIMESTAMP, [5u64, 300].into_iter());
        compact.packed_varints(bundle::compact_sched::SWITCH_PREV_STATE, [1u64, u64::MAX].into_iter());
    });
    check(
        &of_kernel,
        "packet {\n  ftrace_events {\n    cpu: 2\n    compact_sched {\n      switch_timestamp: 5\n      \
         switch_timestamp: 300\n      switch_prev_state: 1\n      switch_prev_state: -1\n    }\n  }\n}\n",
    );
}

#[test]
fn what_nothing_describes_stands_by_its_number() {
    let odd = packet(|it| {
        it.varint(7777, 5);
        it.fixed32(7777, 6);
        it.fixed64(7777, 7);
        it.string(7778, "text\0");
        it.nested(7779).varint(1, 2);
        // Not as short as it can be: only as bytes it stays the same.
        it.bytes(7780, b"\x08\x82\x00");
    });
    check(
        &odd,
        "packet {\n  7777: 5\n  7777: 0x00000006\n  7777: 0x0000000000000007\n  7778: \"text\\000\"\n  7779 {\n    \
         1: 2\n  }\n  7780: \"\\010\\202\\000\"\n}\n",
    );
}

#[test]
fn what_is_not_as_it_is_described_stands_by_its_number() {
    // A number where a message should be, an event that is cut off, and a packet that is none.
    check(&packet(|it| it.varint(trace_packet::TRACK_EVENT, 5)), "packet {\n  11: 5\n}\n");
    check(&packet(|it| it.bytes(trace_packet::TRACK_EVENT, b"\x48")), "packet {\n  11: \"H\"\n}\n");
    check(b"\xff", "1: \"\\377\"\n");
    check(b"", "packet {\n}\n");
}

#[test]
fn of_what_is_set_twice_the_last_counts_and_messages_are_joined() {
    let twice = packet(|it| {
        it.varint(trace_packet::TIMESTAMP, 1);
        it.nested(trace_packet::TRACK_EVENT).varint(track_event::TYPE, 1);
        it.varint(trace_packet::TIMESTAMP, 2);
        it.nested(trace_packet::TRACK_EVENT).varint(track_event::TRACK_UUID, 3);
    });
    assert_eq!(
        text_of(&[&twice]),
        "packet {\n  timestamp: 2\n  track_event {\n    type: TYPE_SLICE_BEGIN\n    track_uuid: 3\n  }\n}\n"
    );
    let other = packet(|it| {
        it.nested(trace_packet::CLOCK_SNAPSHOT).finish();
        it.nested(trace_packet::TRACK_EVENT).finish();
    });
    assert_eq!(text_of(&[&other]), "packet {\n  track_event {\n  }\n}\n");
}

/// A packet that describes the extension `my.pkg.answer` of events: number 5000, a message with the text `words`.
fn description() -> Vec<u8> {
    use ferretto_protos::fields::extension_descriptor::EXTENSION_SET;
    packet(|it| {
        let mut extension = it.nested(trace_packet::EXTENSION_DESCRIPTOR);
        let mut set = extension.nested(EXTENSION_SET);
        let mut file = set.nested(1);
        file.string(2, "my.pkg");
        {
            let mut message = file.nested(4);
            message.string(1, "Answer");
            let mut field = message.nested(2);
            field.string(1, "words");
            field.varint(3, 1);
            field.varint(4, 1);
            field.varint(5, 9);
        }
        let mut field = file.nested(7);
        field.string(1, "answer");
        field.string(2, ".perfetto.protos.TrackEvent");
        field.varint(3, 5000);
        field.varint(4, 1);
        field.varint(5, 11);
        field.string(6, ".my.pkg.Answer");
    })
}

#[test]
fn extensions_that_a_trace_describes_have_their_names_from_there_on() {
    let event = packet(|it| it.nested(trace_packet::TRACK_EVENT).nested(5000).string(1, "yes"));
    let unknown = text_of(&[&event]);
    assert!(unknown.contains("5000 {") || unknown.contains("5000: "), "{unknown}");
    let text = text_of(&[&description(), &event]);
    let end = "packet {\n  track_event {\n    [my.pkg.answer] {\n      words: \"yes\"\n    }\n  }\n}\n";
    assert!(text.ends_with(end), "{text}");
    assert_eq!(trace_of(&text).unwrap(), framed(&[&description(), &event]));
    assert_eq!(trace_of(&unknown).unwrap(), framed(&[&event]));
}

#[test]
fn people_may_write_it_in_other_ways() {
    let text = "# A comment.\npacket: < timestamp: 0x10, trusted_uid: -1; track_event { categories: ['a', \"b\" 'c']\n\
                flow_ids: [1, 2] double_counter_value: .5 } >";
    let expected = packet(|it| {
        it.varint(trace_packet::TIMESTAMP, 16);
        it.int(trace_packet::TRUSTED_UID, -1);
        let mut event = it.nested(trace_packet::TRACK_EVENT);
        ["a", "bc"].iter().for_each(|category| event.string(track_event::CATEGORIES, category));
        [1, 2].iter().for_each(|flow| event.fixed64(track_event::FLOW_IDS, *flow));
        event.double(track_event::DOUBLE_COUNTER_VALUE, 0.5);
    });
    assert_eq!(trace_of(text).unwrap(), framed(&[&expected]));
}

#[test]
fn mistakes_have_a_line_and_a_column() {
    for (text, expected) in [
        ("pakcet { }", "1:1: expected `packet` of Trace, found `pakcet`"),
        (
            "packet {\n  track_evnt { }\n}",
            "2:3: unknown field `track_evnt` in TracePacket; did you mean `track_event`?",
        ),
        ("packet { timestamp: -1 }", "1:21: `-1` is out of range for `timestamp`"),
        ("packet { timestamp: x }", "1:21: expected an integer from 0"),
        ("packet { timestamp 1 }", "1:20: expected `:` and a value after `timestamp`, found `1`"),
        (
            "packet { track_event { type: TYPE_SLICE_BEGUN } }",
            "1:30: unknown value `TYPE_SLICE_BEGUN` of Type; did you mean",
        ),
        ("packet {\n\n", "3:1: the text ends, but the `{` of line 1 is not closed; expected `}`"),
        (
            "packet { track_event { name: \"\u{e4}\" \"x } }",
            "1:34: this string has no closing \" on its line",
        ),
        ("packet { timestamp: [1] }", "1:21: `timestamp` takes one value, not a list"),
        ("packet { 0: 1 }", "1:10: `0` is no number of a field"),
        ("packet ~", "1:8: unexpected character `~`"),
    ] {
        let error = trace_of(text).unwrap_err();
        assert!(error.starts_with(expected), "{text}: {error}");
    }
    let deep = format!("packet {{ {} ", "7777 { ".repeat(200));
    assert!(trace_of(&deep).unwrap_err().contains("nested more than 100 deep"));
}

proptest! {
    // What is described is read for each case anew.
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_packet_is_the_same_after_its_text(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
        let text = text_of(&[&bytes]);
        let once = trace_of(&text).unwrap();
        // What was written twice, or longer than it need be, has become one: of that nothing changes any more.
        let inner = ferretto_protozero::read::Fields::new(&once).next().unwrap().unwrap().value;
        prop_assert_eq!(text_of(&[inner.as_bytes().unwrap()]), text);
    }

    #[test]
    fn any_text_is_read_to_an_end(text in "(packet|\\{|\\}|:|\"|'|timestamp|1|-|0x|\\[|\\]| |\n|#|track_event|\\\\){0,40}") {
        let _ = trace_of(&text);
    }
}
