//! `ferretto record`, as any user may run it.

mod common;

use std::process::Stdio;
use std::time::Duration;

use common::{Place, assert_status, packets, send_signal, stderr, wait_until};
use ferretto_protos::trace_packet::Data;

const COUNTERS: &str = r#"
buffers { size_kb: 1024 }
data_sources { config { name: "linux.sys_stats" sys_stats_config { meminfo_period_ms: 100 } } }
"#;

#[test]
fn a_recording_needs_nothing_but_the_binary() {
    let place = Place::new();
    let output = place.ferretto(&["record", "-o", "t.pftrace", "-t", "1s"]).output().unwrap();
    assert_status(&output, 0);
    let packets = packets(&place.path("t.pftrace"));
    let has = |wanted: fn(&Data) -> bool| packets.iter().filter_map(|p| p.data.as_ref()).any(wanted);
    assert!(has(|data| matches!(data, Data::TraceConfig(_))));
    assert!(has(|data| matches!(data, Data::ClockSnapshot(_))));
    assert!(has(|data| matches!(data, Data::SysStats(_))), "{}", stderr(&output));
    assert!(has(|data| matches!(data, Data::ProcessTree(_))), "{}", stderr(&output));
    let said = stderr(&output);
    for part in ["Recorded", "t.pftrace", "linux.process_stats", "Lost: nothing", "ui.perfetto.dev"] {
        assert!(said.contains(part), "{part} in\n{said}");
    }
    assert_eq!(place.files(), ["t.pftrace"], "no temporary file stays");
}

#[test]
fn without_a_name_the_trace_is_named_after_the_time() {
    let place = Place::new();
    assert_status(&place.ferretto(&["record", "-t", "300ms"]).output().unwrap(), 0);
    let files = place.files();
    assert!(
        files.len() == 1 && files[0].starts_with("trace-20") && files[0].ends_with(".pftrace"),
        "{files:?}"
    );
}

#[test]
fn a_config_may_be_text_or_binary_and_use_a_ring() {
    let place = Place::new();
    place.write("text.cfg", COUNTERS);
    let binary = ferretto_protos::text::parse_trace_config(COUNTERS).unwrap();
    place.write("binary.cfg", binary);
    for config in ["text.cfg", "binary.cfg"] {
        let output = place.ferretto(&["record", "-c", config, "-o", "t", "-t", "500ms"]).output().unwrap();
        assert_status(&output, 0);
        let count =
            packets(&place.path("t")).iter().filter(|p| matches!(p.data, Some(Data::SysStats(_)))).count();
        assert!(count >= 2, "{count} from {config}: {}", stderr(&output));
    }
}

#[test]
fn what_is_compressed_is_summed_up_as_well() {
    let place = Place::new();
    for codec in ["compression { deflate {} }", "compression { zstd {} }"] {
        place.write("config", format!("{COUNTERS} {codec}"));
        let output = place.ferretto(&["record", "-c", "config", "-o", "t", "-t", "500ms"]).output().unwrap();
        assert_status(&output, 0);
        let trace = packets(&place.path("t"));
        assert!(!trace.iter().any(|packet| matches!(packet.data, Some(Data::SysStats(_)))), "{codec}");
        let said = stderr(&output);
        for part in ["rounds of system counters", "Lost: nothing"] {
            assert!(said.contains(part), "{codec}: no {part} in {said}");
        }
    }
}

#[test]
fn a_command_is_recorded_and_its_status_passed_on() {
    let place = Place::new();
    let cases = [
        ("exit 0", 0),
        ("exit 7", 7),
        ("kill -TERM $$", 143),
        ("test -n \"$PERFETTO_PRODUCER_SOCK_NAME\"", 0),
    ];
    for (script, status) in cases {
        let output = place.ferretto(&["record", "-o", "t", "--", "sh", "-c", script]).output().unwrap();
        assert_status(&output, status);
        assert!(!packets(&place.path("t")).is_empty());
    }
}

#[test]
fn ctrl_c_ends_cleanly_and_keeps_the_data() {
    let place = Place::new();
    let mut command = place.ferretto(&["record", "-o", "t"]);
    let child = command.stderr(Stdio::piped()).spawn().unwrap();
    let partial = place.path("t.partial");
    wait_until("data is written", || partial.metadata().is_ok_and(|meta| meta.len() > 0));
    std::thread::sleep(Duration::from_millis(200));
    send_signal(&child, "-INT");
    let output = child.wait_with_output().unwrap();
    assert_status(&output, 0);
    assert!(!packets(&place.path("t")).is_empty());
    assert_eq!(place.files(), ["t"]);
}

#[test]
fn kill_minus_nine_leaves_a_readable_file_under_the_temporary_name() {
    let place = Place::new();
    let mut child = place.ferretto(&["record", "-o", "t"]).stderr(Stdio::null()).spawn().unwrap();
    let partial = place.path("t.partial");
    wait_until("data is written", || partial.metadata().is_ok_and(|meta| meta.len() > 1000));
    send_signal(&child, "-KILL");
    child.wait().unwrap();
    assert_eq!(place.files(), ["t.partial"]);
    assert!(!packets(&partial).is_empty());
}

#[test]
fn what_cannot_work_is_said_before_anything_is_recorded() {
    let place = Place::new();
    place.write(
        "typo.cfg",
        "buffers { size_kb: 1024 }\ndata_sources {\n  config { nam: \"linux.ftrace\" }\n}\n",
    );
    place.write("empty.cfg", "");
    place.write("no_sources.cfg", "buffers { size_kb: 1024 }");
    place.write("source.cfg", COUNTERS.replace("linux.sys_stats", "linux.sysstats"));
    place.write("refused.cfg", COUNTERS.replace("size_kb: 1024", "size_kb: 0"));
    let before = place.files();
    let cases: [(&[&str], &[&str]); 9] = [
        (&["-o", "no/such/folder/t"], &["cannot write no/such/folder/t", "mkdir -p no/such/folder"]),
        (&["-o", "."], &["is a directory", "help:"]),
        (&["-c", "missing.cfg"], &["missing.cfg", "no such file"]),
        (&["-c", "typo.cfg"], &["typo.cfg:3:12", "nam", "name", " 3 |", "^"]),
        (&["-c", "empty.cfg"], &["is empty"]),
        (&["-c", "no_sources.cfg"], &["no data sources"]),
        (&["-c", "source.cfg"], &["linux.sysstats", "did you mean linux.sys_stats"]),
        (&["-c", "refused.cfg", "-t", "1s"], &["refused"]),
        (&["--", "no-such-program"], &["no-such-program"]),
    ];
    for (args, expected) in cases {
        let output = record(&place, args);
        assert!(!output.status.success(), "{args:?}");
        let said = stderr(&output);
        assert!(said.starts_with("error: "), "{args:?}: {said}");
        for part in expected {
            assert!(said.contains(part), "{part} in {said}");
        }
    }
    assert_eq!(place.files(), before, "nothing was left behind");
}

/// Runs `record` with an output of its own unless the arguments name one.
fn record(place: &Place, args: &[&str]) -> std::process::Output {
    let output: &[&str] = if args.contains(&"-o") { &[] } else { &["-o", "t"] };
    place.ferretto(&[&["record"], output, args].concat()).output().unwrap()
}

#[test]
fn a_pipe_can_take_the_trace() {
    let place = Place::new();
    let output = place.ferretto(&["record", "-o", "-", "-t", "500ms"]).output().unwrap();
    assert_status(&output, 0);
    let path = place.write("t", &output.stdout);
    assert!(!packets(&path).is_empty());
}

#[test]
fn the_systems_service_can_record_instead() {
    let place = Place::new();
    let missing = place.ferretto(&["record", "--system", "-o", "t", "-t", "1s"]).output().unwrap();
    assert!(
        !missing.status.success() && stderr(&missing).contains("ferretto traced"),
        "{}",
        stderr(&missing)
    );
    let _traced = place.traced();
    let _probes = place.probes();
    place.write("c", COUNTERS);
    let output =
        place.ferretto(&["record", "--system", "-c", "c", "-o", "t", "-t", "500ms"]).output().unwrap();
    assert_status(&output, 0);
    assert!(packets(&place.path("t")).iter().any(|p| matches!(p.data, Some(Data::SysStats(_)))));
}

#[test]
fn a_service_that_runs_already_is_used_and_named() {
    let place = Place::new();
    let _traced = place.traced();
    let record = |more: &[&str]| {
        let mut args = vec!["record", "-o", "t.pftrace", "-t", "300ms"];
        args.extend_from_slice(more);
        let output = place.ferretto(&args).output().unwrap();
        assert_status(&output, 0);
        // Its own probes join a service that has none.
        assert!(packets(&place.path("t.pftrace")).iter().any(|p| matches!(p.data, Some(Data::SysStats(_)))));
        stderr(&output)
    };
    let through = record(&[]);
    assert!(through.contains("Through the tracing service that runs already, process "), "{through}");
    assert!(!record(&["--system"]).contains("Through"));
    let own = record(&["--own"]);
    assert!(own.contains("Left out:\n  - programs that connect by themselves"), "{own}");
    assert!(own.contains("ferretto record --system"), "{own}");
}

#[test]
fn a_recorder_that_cannot_use_the_service_beside_it_says_whose_it_is() {
    let place = Place::new();
    let mut first = place.ferretto(&["record", "-o", "first"]).stderr(Stdio::null()).spawn().unwrap();
    let socket = place.path("producer.sock");
    wait_until("the first one listens", || std::os::unix::net::UnixStream::connect(&socket).is_ok());
    let second = place.ferretto(&["record", "-o", "second", "-t", "300ms"]).output().unwrap();
    send_signal(&first, "-INT");
    first.wait().unwrap();
    assert_status(&second, 0);
    let said = stderr(&second);
    assert!(said.contains(&format!("process {} (ferretto)", first.id())), "{said}");
}

#[test]
fn a_limit_on_the_sizes_of_files_is_an_error_and_no_end() {
    let place = Place::new();
    // What is shared with programs is a file to the kernel.
    let script = "ulimit -f 8; exec \"$0\" record -t 200ms -o limited.pftrace";
    let output =
        place.command("sh".as_ref(), &["-c", script, env!("CARGO_BIN_EXE_ferretto")]).output().unwrap();
    assert_status(&output, 0);
    assert!(stderr(&output).contains("there was no memory to share"), "{}", stderr(&output));
}
