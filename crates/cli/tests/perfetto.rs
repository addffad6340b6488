//! Upstream's programs, by command and by name.

mod common;

use std::process::Stdio;
use std::time::{Duration, Instant};

use common::{Place, assert_status, packets, send_signal, stderr, wait_until};
use ferretto_protos::TracingServiceState;
use ferretto_protos::trace_packet::Data;
use prost::Message;

const COUNTERS: &str = r#"
buffers { size_kb: 1024 }
data_sources { config { name: "linux.sys_stats" sys_stats_config { meminfo_period_ms: 100 } } }
unique_session_name: "mine"
"#;

#[test]
fn each_name_is_a_program() {
    let place = Place::new();
    for name in ["perfetto", "traced", "traced_probes"] {
        let output = place.applet(name, &["--version"]).output().unwrap();
        assert_status(&output, 0);
        assert!(String::from_utf8_lossy(&output.stdout).contains(env!("CARGO_PKG_VERSION")), "{name}");
        let boxed = place.applet("tracebox", &[name, "--version"]).output().unwrap();
        assert_eq!(boxed.stdout, output.stdout, "{name}");
    }
    assert!(!place.applet("traced_relay", &[]).output().unwrap().status.success());
    assert!(!place.applet("trigger_perfetto", &[]).output().unwrap().status.success());
}

#[test]
fn a_service_tells_what_it_knows() {
    let place = Place::new();
    let _traced = place.traced();
    let _probes = place.probes();
    let output = place.ferretto(&["perfetto", "--query"]).output().unwrap();
    assert_status(&output, 0);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("linux.process_stats") && text.contains("perfetto.traced_probes"), "{text}");
    let raw = place.applet("perfetto", &["--query-raw"]).output().unwrap();
    let state = TracingServiceState::decode(raw.stdout.as_slice()).unwrap();
    assert!(!state.data_sources.is_empty());
}

#[test]
fn a_text_config_is_recorded() {
    let place = Place::new();
    let _traced = place.traced();
    let _probes = place.probes();
    place.write("c", format!("{COUNTERS} duration_ms: 500"));
    let output = place.applet("perfetto", &["-c", "c", "--txt", "-o", "t"]).output().unwrap();
    assert_status(&output, 0);
    assert!(packets(&place.path("t")).iter().any(|p| matches!(p.data, Some(Data::SysStats(_)))));
    let light = place.applet("perfetto", &["-t", "300ms", "-s", "10mb", "-o", "light"]).output().unwrap();
    assert_status(&light, 0);
    assert!(packets(&place.path("light")).iter().any(|p| matches!(p.data, Some(Data::TraceConfig(_)))));
}

#[test]
fn a_recording_begins_after_its_delay() {
    let place = Place::new();
    let _traced = place.traced();
    place.write(
        "c",
        format!("{COUNTERS} duration_ms: 1 cmd_trace_start_delay {{ min_delay_ms: 700 max_delay_ms: 750 }}"),
    );
    let before = Instant::now();
    assert_status(&place.applet("perfetto", &["-c", "c", "--txt", "-o", "t"]).output().unwrap(), 0);
    assert!(before.elapsed() >= Duration::from_millis(700));
}

#[test]
fn sigint_ends_a_session_and_keeps_its_data() {
    let place = Place::new();
    let _traced = place.traced();
    let _probes = place.probes();
    place.write("c", COUNTERS);
    let child =
        place.applet("perfetto", &["-c", "c", "--txt", "-o", "t"]).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(700));
    send_signal(&child, "-INT");
    assert_status(&child.wait_with_output().unwrap(), 0);
    assert!(packets(&place.path("t")).iter().any(|p| matches!(p.data, Some(Data::SysStats(_)))));
}

#[test]
fn exit_statuses_are_upstreams() {
    let place = Place::new();
    place.write("bad", "nonsense: 1");
    place.write("refused", "buffers { size_kb: 0 }");
    let status = |args: &[&str]| place.applet("perfetto", args).output().unwrap().status.code();
    assert_eq!(status(&["--query"]), Some(1), "no service");
    let _traced = place.traced();
    assert_eq!(status(&["--nonsense"]), Some(1));
    assert_eq!(status(&["-o", "t"]), Some(1));
    assert_eq!(status(&["-c", "bad", "--txt", "-o", "t"]), Some(1));
    assert_eq!(status(&["-c", "refused", "--txt", "-o", "t"]), Some(0));
    assert_eq!(status(&["--clone", "77", "-o", "t"]), Some(0));
    assert!(!place.path("t").exists(), "no empty trace stays");
    assert_eq!(status(&["--is_detached=key"]), Some(2));
    assert_eq!(status(&["--attach=key"]), Some(2));
    place.write("there", "x");
    assert_eq!(status(&["-t", "1s", "-o", "there", "--no-clobber"]), Some(1));
}

#[test]
fn in_the_background_it_prints_its_pid_and_records() {
    let place = Place::new();
    let _traced = place.traced();
    let _probes = place.probes();
    place.write("c", format!("{COUNTERS} duration_ms: 1000"));
    for (flag, name) in [("-d", "t1"), ("-D", "t2")] {
        let output = place.applet("perfetto", &["-c", "c", "--txt", "-o", name, flag]).output().unwrap();
        assert_status(&output, 0);
        let pid: u32 = String::from_utf8_lossy(&output.stdout).trim().parse().unwrap();
        wait_until("the background process has ended", || {
            !std::path::Path::new(&format!("/proc/{pid}/exe")).exists()
        });
        assert!(!packets(&place.path(name)).is_empty());
    }
}

#[test]
fn a_running_session_can_be_cloned() {
    let place = Place::new();
    let _traced = place.traced();
    let _probes = place.probes();
    place.write("c", COUNTERS);
    let child =
        place.applet("perfetto", &["-c", "c", "--txt", "-o", "t"]).stderr(Stdio::null()).spawn().unwrap();
    let mut child = common::Daemon(child);
    std::thread::sleep(Duration::from_millis(700));
    let output = place.applet("perfetto", &["--clone-by-name", "mine", "-o", "clone"]).output().unwrap();
    assert_status(&output, 0);
    assert!(
        packets(&place.path("clone")).iter().any(|p| matches!(p.data, Some(Data::SysStats(_)))),
        "{}",
        stderr(&output)
    );
    child.signal("-TERM");
    assert!(child.0.wait().unwrap().success());
}

#[test]
fn a_detached_session_goes_on_and_is_found_again() {
    let place = Place::new();
    let _traced = place.traced();
    let _probes = place.probes();
    place.write("c", format!("{COUNTERS} write_into_file: true file_write_period_ms: 100"));
    let status = |args: &[&str]| place.applet("perfetto", args).output().unwrap().status.code();
    assert_eq!(status(&["-c", "c", "--txt", "-o", "t", "--detach=key"]), Some(0));
    assert_eq!(status(&["--is_detached=key"]), Some(0));
    assert_eq!(status(&["--is_detached=key"]), Some(0), "asking leaves it where it is");
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(status(&["--attach=key", "--stop"]), Some(0));
    assert_eq!(status(&["--is_detached=key"]), Some(2));
    assert!(packets(&place.path("t")).iter().any(|p| matches!(p.data, Some(Data::SysStats(_)))));
}

#[test]
fn tracebox_starts_what_it_needs() {
    let place = Place::new();
    place.write("c", format!("{COUNTERS} duration_ms: 500"));
    let mut command = place.applet("tracebox", &["-c", "c", "--txt", "-o", "t"]);
    command.env_remove("PERFETTO_PRODUCER_SOCK_NAME").env_remove("PERFETTO_CONSUMER_SOCK_NAME");
    let output = command.output().unwrap();
    assert_status(&output, 0);
    assert!(
        packets(&place.path("t")).iter().any(|p| matches!(p.data, Some(Data::SysStats(_)))),
        "{}",
        stderr(&output)
    );
}

#[test]
fn triggers_reach_the_service() {
    let place = Place::new();
    assert_status(&place.applet("trigger_perfetto", &["now"]).output().unwrap(), 1);
    let _traced = place.traced();
    assert_status(&place.applet("trigger_perfetto", &["now", "--ignored"]).output().unwrap(), 0);
    place.write("c", "activate_triggers: \"now\"");
    assert_status(&place.applet("perfetto", &["-c", "c", "--txt"]).output().unwrap(), 0);
}
