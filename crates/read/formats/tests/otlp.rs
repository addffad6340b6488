//! Spans of OpenTelemetry: what they become, and files that end anywhere.

mod tables;

use ferretto_protozero::Message;
use ferretto_trace_formats::Error;
use ferretto_trace_formats::recognize::{Format, recognize};
use proptest::prelude::*;
use tables::{import, rows};

type Bytes = Vec<u8>;

fn message(build: impl FnOnce(&mut Message<'_, Bytes>)) -> Bytes {
    let mut bytes = Vec::new();
    build(&mut Message::new(&mut bytes));
    bytes
}

fn attribute(key: &str, value: &[u8]) -> Bytes {
    message(|pair| {
        pair.bytes(1, key.as_bytes());
        pair.bytes(2, value);
    })
}

fn text(text: &str) -> Bytes {
    message(|value| value.bytes(1, text.as_bytes()))
}

struct Span {
    id: u8,
    parent: u8,
    name: &'static str,
    start: u64,
    end: u64,
    more: Vec<(u32, Bytes)>,
}

fn span(id: u8, parent: u8, name: &'static str, (start, end): (u64, u64)) -> Span {
    Span { id, parent, name, start, end, more: Vec::new() }
}

impl Span {
    fn with(mut self, field: u32, bytes: Bytes) -> Self {
        self.more.push((field, bytes));
        self
    }

    fn bytes(&self) -> Bytes {
        message(|span| {
            span.bytes(1, &[7; 16]);
            span.bytes(2, &[0, 0, 0, 0, 0, 0, 0, self.id]);
            if self.parent > 0 {
                span.bytes(4, &[0, 0, 0, 0, 0, 0, 0, self.parent]);
            }
            span.bytes(5, self.name.as_bytes());
            span.varint(6, 2);
            span.fixed64(7, self.start);
            span.fixed64(8, self.end);
            self.more.iter().for_each(|(field, bytes)| span.bytes(*field, bytes));
        })
    }
}

fn resource_spans(attributes: &[Bytes], scope: &str, spans: &[Span]) -> Bytes {
    let resource = message(|resource| attributes.iter().for_each(|it| resource.bytes(1, it)));
    let scope = message(|it| it.bytes(1, scope.as_bytes()));
    let scoped = message(|it| {
        it.bytes(1, &scope);
        spans.iter().for_each(|span| it.bytes(2, &span.bytes()));
    });
    let of_resource = message(|it| {
        it.bytes(1, &resource);
        it.bytes(2, &scoped);
    });
    message(|it| it.bytes(1, &of_resource))
}

fn link(id: u8) -> Bytes {
    message(|link| {
        link.bytes(1, &[7; 16]);
        link.bytes(2, &[0, 0, 0, 0, 0, 0, 0, id]);
    })
}

/// Two services. In the first a request with two calls that overlap, the second with a call of its own.
fn example() -> Bytes {
    let event = message(|event| {
        event.fixed64(1, 160);
        event.bytes(2, b"retry");
        event.bytes(3, &attribute("n", &message(|value| value.varint(3, 2))));
    });
    let list = message(|value| {
        let list = message(|list| [text("a"), text("b")].iter().for_each(|it| list.bytes(1, it)));
        value.bytes(5, &list);
    });
    let pid = message(|value| value.varint(3, 42));
    let shop = [attribute("service.name", &text("shop")), attribute("process.pid", &pid)];
    let spans = [
        span(2, 1, "first", (110, 150)),
        span(1, 0, "request", (100, 200)).with(9, attribute("tags", &list)),
        span(3, 1, "second", (120, 190)).with(11, event),
        span(4, 3, "inner", (130, 180)),
    ];
    let database = [attribute("service.name", &text("database"))];
    let thread = message(|value| value.varint(3, 9));
    let query = span(5, 4, "query", (140, 170)).with(13, link(4)).with(13, link(99));
    let query =
        query.with(9, attribute("thread.id", &thread)).with(9, attribute("thread.name", &text("worker")));
    let status = message(|status| {
        status.bytes(2, b"too slow");
        status.varint(3, 2);
    });
    let endless = span(6, 0, "endless", (300, 0)).with(15, status);
    [resource_spans(&shop, "http", &spans), resource_spans(&database, "sql", &[query, endless])].concat()
}

const JSON: &str = r#"{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"shop"}}]},
 "scopeSpans":[{"spans":[
  {"traceId":"5B8EFFF798038103D269B633813FC60C","spanId":"EEE19B7EC3C1B174","parentSpanId":"","name":"a","kind":2,
   "startTimeUnixNano":"1544712660000000000","endTimeUnixNano":"1544712661000000000",
   "attributes":[{"key":"n","value":{"intValue":"5"}},{"key":"x","value":{"doubleValue":0.5}},
    {"key":"map","value":{"kvlistValue":{"values":[{"key":"deep","value":{"boolValue":true}}]}}}]},
  {"traceId":"5B8EFFF798038103D269B633813FC60C","spanId":"EEE19B7EC3C1B175","parentSpanId":"EEE19B7EC3C1B174","name":"b",
   "kind":"SPAN_KIND_CLIENT","startTimeUnixNano":1544712660500000000,"endTimeUnixNano":1544712660600000000,
   "events":[{"timeUnixNano":"1544712660550000000","name":"e"}],"status":{"code":2},
   "links":[{"traceId":"5B8EFFF798038103D269B633813FC60C","spanId":"EEE19B7EC3C1B174"}]}],
  "scope":{"name":"lib","version":"1"}}]}]}
{"resourceSpans":[{"scopeSpans":[{"spans":[{"spanId":"1","name":"c","startTimeUnixNano":"5","endTimeUnixNano":"9"}]}]}]}
"#;

#[test]
fn spans_are_slices_on_tracks_where_they_do_not_overlap() {
    let file = example();
    assert_eq!(recognize(&file), Some(Format::Otlp));
    let (tables, end) = import(Format::Otlp, &file);
    end.unwrap();
    let slices = rows(&tables, "slice", &["ts", "dur", "track_id", "depth", "parent_id", "category", "name"]);
    assert_eq!(
        slices,
        [
            "100 100 0 0 - http request",
            "110 40 0 1 0 http first",
            // Its parent has another child open.
            "120 70 1 0 - http second",
            "130 50 1 1 2 http inner",
            "140 30 2 0 - sql query",
            "160 0 1 2 3 http retry",
            "300 -1 3 0 - sql endless",
        ]
    );
    let tracks = rows(&tables, "track", &["name", "type", "upid", "utid"]);
    assert_eq!(
        tracks,
        ["http otlp_span 1 -", "http otlp_span 1 -", "- thread_execution - 3", "sql otlp_span 2 -"]
    );
    let processes = rows(&tables, "process", &["pid", "name"]);
    assert_eq!(processes[1..], ["42 shop", "4194304 database"]);
    assert_eq!(rows(&tables, "thread", &["tid", "name", "upid"])[3], "9 worker 2");
    assert_eq!(rows(&tables, "flow", &["slice_out", "slice_in"]), ["3 4"]);
    let args = rows(&tables, "args", &["key", "string_value", "int_value"]);
    for expected in [
        "debug.tags[1] b -",
        "debug.n - 2",
        "otlp.kind server -",
        "otlp.status error -",
        "otlp.status_message too slow -",
        "otlp.links[0].span_id 0000000000000063 -",
        "resource.service.name shop -",
    ] {
        assert!(args.contains(&expected.to_owned()), "{expected}: {args:#?}");
    }
}

#[test]
fn json_says_the_same() {
    assert_eq!(recognize(JSON.as_bytes()), Some(Format::OtlpJson));
    for file in [JSON.to_owned(), format!("[{}]", JSON.trim_end().replace("]}\n{\"res", "]},{\"res"))] {
        let (tables, end) = import(Format::OtlpJson, file.as_bytes());
        end.unwrap();
        let slices = rows(&tables, "slice", &["ts", "dur", "depth", "category", "name"]);
        assert_eq!(
            slices,
            [
                "5 4 0 - c",
                "1544712660000000000 1000000000 0 lib a",
                "1544712660500000000 100000000 1 lib b",
                "1544712660550000000 0 2 lib e",
            ]
        );
        assert_eq!(rows(&tables, "flow", &["slice_out", "slice_in"]), ["1 2"]);
        let processes = rows(&tables, "process", &["name"]);
        assert_eq!(processes[1..], ["unknown_service", "shop"]);
        let args = rows(&tables, "args", &["key", "string_value", "int_value", "real_value"]);
        for expected in [
            "debug.n - 5 -",
            "debug.x - - 0.5",
            "debug.map.deep - 1 -",
            "otlp.kind client - -",
            "otlp.status error - -",
        ] {
            assert!(args.contains(&expected.to_owned()), "{expected}: {args:#?}");
        }
    }
}

#[test]
fn a_file_that_ends_anywhere_is_read_up_to_there() {
    for (format, file) in [(Format::Otlp, example()), (Format::OtlpJson, JSON.as_bytes().to_vec())] {
        let mut before = 0;
        for end in 0..file.len() {
            let (tables, told) = import(format, &file[..end]);
            let slices = tables.slice.ts.iter().count();
            assert!(slices >= before, "up to {end}: {slices} of {before}");
            before = slices;
            if let Err(Error::Broken { offset, .. }) = told {
                assert!(offset <= end as u64);
            }
        }
        assert!(before >= 3);
    }
}

#[test]
fn what_is_wrong_has_a_place() {
    let (tables, end) = import(Format::OtlpJson, &[JSON.as_bytes(), b"{]"].concat());
    let at = JSON.len() as u64;
    assert!(matches!(end, Err(Error::Broken { offset, .. }) if offset > at && offset <= at + 2), "{end:?}");
    assert_eq!(tables.slice.ts.iter().count(), 4);
    let file = example();
    let (_, end) = import(Format::Otlp, &[&file[..], b"\x0f"].concat());
    let at = file.len() as u64;
    assert!(matches!(end, Err(Error::Broken { offset, .. }) if offset == at), "{end:?}");
}

#[test]
fn many_that_overlap_and_deep_ones_take_no_long() {
    let many: Vec<Span> =
        (0..20_000u64).map(|n| span((n % 200) as u8, (n % 199) as u8, "s", (n, n + 50_000))).collect();
    let (tables, end) = import(Format::Otlp, &resource_spans(&[], "x", &many));
    end.unwrap();
    assert_eq!(tables.slice.ts.iter().count(), 20_000);
    let deep = (0..10_000)
        .fold(text("x"), |inner, _| message(|value| value.bytes(5, &message(|list| list.bytes(1, &inner)))));
    let of = span(1, 0, "s", (1, 2)).with(9, attribute("deep", &deep));
    import(Format::Otlp, &resource_spans(&[], "x", &[of])).1.unwrap();
    let deep = format!("{{\"resourceSpans\":{}", "[".repeat(100_000));
    assert!(import(Format::OtlpJson, deep.as_bytes()).1.is_err());
}

proptest! {
    #[test]
    fn damaged_files_do_no_harm(
        is_json: bool,
        damage in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let (format, mut file) = if is_json { (Format::OtlpJson, JSON.as_bytes().to_vec()) } else { (Format::Otlp, example()) };
        for (at, byte) in damage {
            let at = at.index(file.len());
            file[at] = byte;
        }
        let _ = import(format, &file);
    }
}
