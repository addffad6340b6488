//! Events of every kind that the SDK can write (its example `gallery`), through each service, as Trace Processor finds them.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use ferretto_interop::{Maker, Peers, World, config, end_into_file, need, through_each_service, trace_query};

const TIMEOUT: Duration = Duration::from_secs(60);

const CONFIG: &str = r#"
    buffers { size_kb: 4096 }
    data_sources { config { name: "track_event" track_event_config {
        enabled_categories: "gallery" enabled_categories: "gallery.plugin*" enabled_categories: "gallery.one"
        enabled_tags: "debug" disabled_categories: "*"
    } } }
"#;

through_each_service!(check);

fn check(peers: &Peers, maker: Maker) {
    let sql = need!(trace_query());
    let world = World::with_traced(peers, maker);
    let trace = record(&world);
    assert_eq!(sql.losses(&trace), Vec::<String>::new());
    let looks = [SLICES_AND_ARGUMENTS, TRACKS, COUNTERS, FLOWS_AND_LOGS, TIMES, CATEGORIES].concat();
    // One run for all of them.
    let queries: Vec<&str> = looks.iter().map(|(query, _)| *query).collect();
    for (found, (query, expected)) in sql.query(&trace, &queries).iter().zip(&looks) {
        assert_eq!(found.column(), *expected, "{query}");
    }
}

fn record(world: &World) -> PathBuf {
    let mut program = world.spawn(Command::new(env!("CARGO_BIN_EXE_sdk-gallery")), "gallery");
    world.wait_for_data_source("track_event");
    let mut consumer = world.consumer();
    consumer.enable_tracing(config(CONFIG), None).unwrap();
    let status = program.wait(TIMEOUT).unwrap_or_else(|| panic!("it hangs: {}", program.log()));
    assert!(status.success(), "{}", program.log());
    let path = world.path("trace.pftrace");
    end_into_file(&mut consumer, &path);
    path
}

/// A query with one column, and what it gives.
type Look = (&'static str, &'static [&'static str]);

const SLICES_AND_ARGUMENTS: &[Look] = &[
    // `outer` holds the others of its function; what ends with the function has a duration.
    (
        "select s.name || ' ' || s.depth || ' ' || (s.dur > 0) from slice s join slice o on o.name = 'outer' \
         where s.track_id = o.track_id and s.ts >= o.ts and s.ts <= o.ts + o.dur order by s.ts",
        &["outer 0 1", "arguments 1 1", "computed name 1 1 1", "log 1 0"],
    ),
    (
        "select key || '=' || display_value from slice join args using (arg_set_id) \
         where name = 'arguments' and key like 'debug.%' order by key",
        &[
            "debug.debug=Some(1)",
            "debug.display=1",
            "debug.found at run time=1",
            // Trace Processor takes dots of names for its own.
            "debug.http_status=200",
            "debug.list[0]=1",
            "debug.list[1]=2",
            "debug.list[2]=3",
            "debug.pointer=0xbeef",
            "debug.real=0.5",
            "debug.signed=-7",
            "debug.table.host=example.org",
            "debug.table.path=/",
            "debug.text=a text",
            "debug.truth=true",
            "debug.unsigned=7",
        ],
    ),
    (
        "select display_value from slice join args using (arg_set_id) \
         where (name = 'computed name 1' and key = 'debug.result') or (name = 'order 1' and key = 'debug.pizzas') \
         order by slice.id",
        &["known at the end", "2"],
    ),
    (
        "select display_value like '%gallery.rs' from slice join args using (arg_set_id) \
         where name = 'outer' and key = 'source.file_name'",
        &["1"],
    ),
];

const TRACKS: &[Look] = &[
    (
        "select s.name || ' on ' || ifnull(t.name, '-') || ' below ' || ifnull(p.name, '-') \
         from slice s join track t on s.track_id = t.id left join track p on t.parent_id = p.id \
         where s.name in ('order 1', 'in the oven', 'reserved', 'for everybody', 'of the process') order by s.ts",
        &[
            "order 1 on Orders below Shop",
            "in the oven on Kitchen below Shop",
            "reserved on Seat below Table",
            "for everybody on Street below -",
            "of the process on - below -",
        ],
    ),
    // Guests overlap: each has its own track, of the same name, and its own duration.
    (
        "select count(distinct t.id) || ' ' || count(distinct t.name) || ' ' || (max(s.ts) < min(s.ts + s.dur)) \
         from slice s join track t on s.track_id = t.id where s.name like 'guest %'",
        &["2 1 1"],
    ),
];

const COUNTERS: &[Look] = &[(
    "select t.name || ' ' || ifnull(t.unit, '-') || ' ' || group_concat(cast(c.value as text), ' ') \
         from (select * from counter order by ts) c join counter_track t on c.track_id = t.id group by t.name order by t.name",
    &[
        "Load count 0.25 0.25 0.25 0.25",
        "Memory bytes 0.0 102400.0 204800.0 307200.0",
        "Oven °C 0.0 20.5 41.0 61.5",
        "Sold pizzas 10.0 11.0 12.0 13.0",
    ],
)];

const FLOWS_AND_LOGS: &[Look] = &[
    (
        "select o.name || ' to ' || i.name from flow join slice o on flow.slice_out = o.id join slice i on flow.slice_in = i.id",
        &["send to receive"],
    ),
    (
        "select name || ' ' || display_value from slice join args using (arg_set_id) \
         where key = 'correlation_id' order by slice.id",
        &["send delivery 1", "receive delivery 1"],
    ),
    ("select prio || ' ' || msg from android_logs", &["5 a line of the log"]),
];

const TIMES: &[Look] = &[
    (
        "select (dur > 1000000) || ' ' || t.name from slice s join track t on s.track_id = t.id \
         where s.name = 'said afterwards'",
        &["1 Late"],
    ),
    // Half a microsecond after the snapshot, which was made between the slice's end and the event.
    (
        "select (o.ts between s.ts + s.dur and s.ts + s.dur + 1000000000) from slice o join slice s \
         on s.name = 'said afterwards' where o.name like '%oven''s clock'",
        &["1"],
    ),
];

const CATEGORIES: &[Look] = &[
    (
        "select category || ': ' || name from slice where category <> 'gallery' order by ts",
        &[
            "gallery.plugin.blur: from a category found at run time",
            "gallery.one,gallery.two: of a group",
            "gallery.tagged: only for those who ask",
        ],
    ),
    ("select count(*) from slice where name like 'typed fields%'", &["1"]),
];
