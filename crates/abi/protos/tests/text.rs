//! The text format: what is accepted, and what each mistake is told.

#![cfg(feature = "reflect")]

use ferretto_protos::text::{self, parse, parse_trace_config, parse_trace_config_lossy};
use proptest::prelude::*;
use prost::Message as _;

/// Parses the text and prints it again.
fn normal(text: &str) -> String {
    text::format("perfetto.protos.TraceConfig", &parse_trace_config(text).unwrap()).unwrap()
}

#[track_caller]
fn same(text: &str, other: &str) {
    assert_eq!(parse_trace_config(text), parse_trace_config(other), "{text}");
}

#[track_caller]
fn fails(text: &str, expected: &str) {
    assert_eq!(parse_trace_config(text).unwrap_err().to_string(), expected, "{text}");
}

#[test]
fn a_config_of_every_kind_of_field_is_read() {
    let text = r#"
        # A comment, then fields of every kind.
        buffers: { size_kb: 0x1000 fill_policy: DISCARD }
        buffers < size_kb: 010; fill_policy: 1, >
        data_sources {
            config {
                name: "linux." 'ftrace'
                ftrace_config { ftrace_events: ["sched/sched_switch", "power/*"] compact_sched { enabled: true } }
            }
            producer_name_filter: "perfetto.traced_probes"
        }
        duration_ms: 5000
        write_into_file: 1
        trace_uuid_msb: -5
        trigger_config { triggers { name: "a\n\x41\102\u00e9" skip_probability: 1.5e-1 } }
    "#;
    assert_eq!(
        normal(text),
        r#"buffers {
  size_kb: 4096
  fill_policy: DISCARD
}
buffers {
  size_kb: 8
  fill_policy: RING_BUFFER
}
data_sources {
  config {
    name: "linux.ftrace"
    ftrace_config {
      ftrace_events: "sched/sched_switch"
      ftrace_events: "power/*"
      compact_sched {
        enabled: true
      }
    }
  }
  producer_name_filter: "perfetto.traced_probes"
}
duration_ms: 5000
write_into_file: true
trigger_config {
  triggers {
    name: "a\nABé"
    skip_probability: 0.15
  }
}
trace_uuid_msb: -5
"#,
    );
}

#[test]
fn separators_and_lists_may_be_written_in_any_of_the_usual_ways() {
    same("duration_ms: 1, flush_period_ms: 2;", "duration_ms:1 flush_period_ms:2");
    same("buffers: [{ size_kb: 1 }, { size_kb: 2 }]", "buffers { size_kb: 1 } buffers { size_kb: 2 }");
    same("activate_triggers: []", "");
    same("activate_triggers: ['a', \"b\"]", "activate_triggers: 'a' activate_triggers: 'b'");
    same("write_into_file: t", "write_into_file: true");
    same("buffers { fill_policy: 2 }", "buffers { fill_policy: DISCARD }");
    same("", "   # nothing\n\n");
}

#[test]
fn each_mistake_is_told_where_it_is_and_what_was_expected() {
    fails("bufers { }", "1:1: unknown field `bufers` in TraceConfig; did you mean `buffers`?");
    fails(
        "buffers {\n  sizekb: 1\n}",
        "2:3: unknown field `sizekb` in BufferConfig; did you mean `size_kb`?",
    );
    fails(
        "buffers { fill_policy: RING }",
        "1:24: unknown value `RING` of FillPolicy; it has `UNSPECIFIED`, `RING_BUFFER`, `DISCARD`",
    );
    fails(
        "duration_ms: -1",
        "1:14: `-1` is out of range for `duration_ms`; expected an integer from 0 to 4294967295",
    );
    fails(
        "duration_ms: 4294967296",
        "1:14: `4294967296` is out of range for `duration_ms`; expected an integer from 0 to 4294967295",
    );
    fails("duration_ms: 5s", "1:14: expected an integer from 0 to 4294967295 for `duration_ms`, found `5s`");
    fails(
        "duration_ms: \"5\"",
        "1:14: expected an integer from 0 to 4294967295 for `duration_ms`, found the string \"5\"",
    );
    fails("duration_ms 5", "1:13: expected `:` and a value after `duration_ms`, found `5`");
    fails("duration_ms: [1]", "1:14: `duration_ms` takes one value, not a list");
    fails("write_into_file: yes", "1:18: expected true or false for `write_into_file`, found `yes`");
    fails(
        "unique_session_name: abc",
        "1:22: expected a string in quotes for `unique_session_name`, found `abc`",
    );
    fails("unique_session_name: \"abc", "1:22: this string has no closing \" on its line");
    fails("unique_session_name: \"\\q\"", "1:23: unknown escape `\\q`");
    fails(
        "duration_ms: 1\nduration_ms: 2",
        "2:1: `duration_ms` is set already, on line 1; it takes one value",
    );
    fails("buffers 5", "1:9: expected `{` after `buffers`, found `5`");
    fails(
        "buffers {\n size_kb: 1\n",
        "3:1: the text ends, but the `{` of line 1 is not closed; expected `}`",
    );
    fails("buffers { size_kb: 1 > ", "1:22: expected a field of BufferConfig or `}`, found `>`");
    fails("} duration_ms: 1", "1:1: expected a field of TraceConfig, found `}`");
    fails("duration_ms: 1 %", "1:16: unexpected character `%`");
    fails("[foo.bar] { }", "1:1: extensions are not supported here");
}

#[test]
fn a_lossy_text_is_read_without_what_is_unknown() {
    let lossy = parse_trace_config_lossy(
        "duration_ms: 1 new_field { a: [1, 2] b < c: 'x' > } other: -5 buffers { fill_policy: SPIRAL size_kb: 3 }",
    )
    .unwrap();
    assert_eq!(lossy.bytes, parse_trace_config("duration_ms: 1 buffers { size_kb: 3 }").unwrap());
    let dropped: Vec<String> = lossy.dropped.iter().map(ToString::to_string).collect();
    assert_eq!(dropped.len(), 3, "{dropped:?}");
    assert!(dropped[0].starts_with("1:16: unknown field `new_field` in TraceConfig"), "{dropped:?}");
}

#[test]
fn the_nearest_names_are_found_in_every_message_that_a_config_can_hold() {
    fails(
        "data_sources { config { name: 'linux.ftrace' ftrace_config { ftrace_event: 'a/b' } } }",
        "1:62: unknown field `ftrace_event` in FtraceConfig; did you mean `ftrace_events`?",
    );
    fails(
        "data_sources { config { sys_stats_config { stat_counters: STAT_CPU_TIME } } }",
        "1:59: unknown value `STAT_CPU_TIME` of StatCounters; did you mean `STAT_CPU_TIMES`?",
    );
    fails(
        "builtin_data_sources { primary_trace_clock: BUILTIN_CLOCK_BOOTIME }",
        "1:45: unknown value `BUILTIN_CLOCK_BOOTIME` of BuiltinClock; did you mean `BUILTIN_CLOCK_BOOTTIME`?",
    );
    fails(
        "data_sources { config { journald_config { severity: 3 } } }",
        "1:43: unknown field `severity` in SystemdJournaldConfig; it has `min_prio`, `filter_identifiers`, `filter_units`",
    );
    fails(
        "trace_uuid_msb: - 9223372036854775809",
        "1:17: `-9223372036854775809` is out of range for `trace_uuid_msb`; expected a 64-bit integer",
    );
}

#[test]
fn configs_of_android_and_chromium_are_read_too() {
    let config = r#"
        data_sources { config { name: "android.statsd"
            statsd_tracing_config { push_atom_id: ATOM_SCHEDULED_JOB_STATE_CHANGED raw_push_atom_id: 8 } } }
        data_sources { config { name: "track_event" chrome_config { client_priority: USER_INITIATED } } }
        data_sources { config { name: "gpu.counters" gpu_counter_config { counter_period_ns: 1 counter_ids: [1, 2] } } }
        data_sources { config { name: "android.packages_list" packages_list_config { } } }
        data_sources { config { process_smaps_config { scope { target_uid { min_uid: 1 max_uid: 2 } } } } }
        persist_trace_across_reboots: true
        compression { zstd { level: -3 } }
        trace_attributes { attribute { key: "a" long_value: 1 } attribute { key: "b" string_value: "c" } }
    "#;
    assert_eq!(parse_trace_config(&normal(config)), parse_trace_config(config));
    assert!(normal(config).contains("push_atom_id: ATOM_SCHEDULED_JOB_STATE_CHANGED"));
}

#[test]
fn numbers_are_printed_as_short_as_they_can_be_read_back() {
    for (text, printed) in [
        ("1", "1"),
        ("0.5", "0.5"),
        ("-2e300", "-2e300"),
        ("1e-7", "1e-7"),
        ("inf", "inf"),
        ("-inf", "-inf"),
        ("3f", "3"),
    ] {
        let config = format!("trigger_config {{ triggers {{ skip_probability: {text} }} }}");
        assert!(normal(&config).contains(&format!("skip_probability: {printed}\n")), "{}", normal(&config));
    }
}

#[test]
fn fields_that_nobody_has_heard_of_are_printed_by_number() {
    let unknown = [
        0xf8, 0x7f, 5, 0xfa, 0x7f, 2, b'h', 0xff, 0xfd, 0x7f, 1, 0, 0, 0, 0xf9, 0x7f, 2, 0, 0, 0, 0, 0, 0, 0,
    ];
    assert_eq!(
        text::format("perfetto.protos.TraceUuid", &[&[0x08, 7][..], &unknown].concat()).unwrap(),
        "msb: 7\n2047: 5\n2047: \"h\\377\"\n2047: 0x00000001\n2047: 0x0000000000000002\n",
    );
}

#[test]
fn a_config_inside_a_packet_is_printed_as_text() {
    let packet = ferretto_protos::TracePacket {
        data: Some(ferretto_protos::trace_packet::Data::TraceConfig(
            parse_trace_config("buffers { size_kb: 4 }").unwrap().into(),
        )),
        ..Default::default()
    };
    assert_eq!(
        text::format("perfetto.protos.TracePacket", &packet.encode_to_vec()).unwrap(),
        "trace_config {\n  buffers {\n    size_kb: 4\n  }\n}\n",
    );
}

#[test]
fn a_text_that_is_too_long_is_refused() {
    let error = parse_trace_config(&" ".repeat((16 << 20) + 1)).unwrap_err();
    assert_eq!(error.message, "this text has 16777217 bytes; more than 16777216 are not read");
}

#[test]
fn deep_nesting_is_refused() {
    let text = format!("{}{}", "child { ".repeat(100), "}".repeat(100));
    let error = parse_trace_config_lossy(&text).unwrap_err();
    assert_eq!(error.message, "messages are nested more than 64 deep here");
}

#[test]
fn a_oneof_takes_one_of_its_fields() {
    let error = parse("perfetto.protos.IPCFrame", "msg_bind_service { }\nmsg_request_error { }").unwrap_err();
    assert_eq!(
        error.to_string(),
        "2:1: `msg_request_error` excludes `msg_bind_service`, which is set on line 1"
    );
}

proptest! {
    #[test]
    fn no_text_makes_the_parser_panic(text in "[a-z_:{}<>\\[\\]\"'\\\\#,; 0-9.\n-]{0,200}") {
        let _ = parse_trace_config(&text);
        let _ = parse_trace_config_lossy(&text);
    }

    #[test]
    fn no_bytes_make_the_printer_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = text::format("perfetto.protos.TraceConfig", &bytes);
    }
}
