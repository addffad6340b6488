//! The flight recorder: `record --flight` and `snapshot`, as any user may run them.

mod common;

use std::process::{Child, Stdio};

use common::{Place, assert_status, packets, send_signal, stderr, wait_until};
use ferretto_protos::TracePacket;
use ferretto_protos::trace_packet::Data;

/// A recorder that has begun. Its name is this test's own, for the folder of its socket may be the user's.
struct Recorder<'a> {
    place: &'a Place,
    name: String,
    child: Child,
}

impl<'a> Recorder<'a> {
    fn start(place: &'a Place, test: &str, args: &[&str]) -> Self {
        let name = format!("{test}-{}", std::process::id());
        let mut command = place.ferretto(&["record", "--flight", "--name", &name]);
        let log = std::fs::File::create(place.path("log")).unwrap();
        let child = command.args(args).stderr(log).stdout(Stdio::null()).spawn().unwrap();
        let recorder = Self { place, name, child };
        wait_until("the recorder has begun", || {
            recorder.log().contains("At the end") || recorder.log().contains("Nothing is")
        });
        recorder
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.place.path("log")).unwrap()
    }

    fn snapshot(&self, file: &str) -> std::process::Output {
        self.place.ferretto(&["snapshot", "--name", &self.name, "-o", file]).output().unwrap()
    }

    fn stop(&mut self) {
        send_signal(&self.child, "-INT");
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}: {}", self.log());
    }
}

impl Drop for Recorder<'_> {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn has(packets: &[TracePacket], wanted: fn(&Data) -> bool) -> bool {
    packets.iter().filter_map(|packet| packet.data.as_ref()).any(wanted)
}

fn counters(packets: &[TracePacket]) -> usize {
    packets.iter().filter(|packet| matches!(packet.data, Some(Data::SysStats(_)))).count()
}

#[test]
fn snapshots_are_taken_while_the_recorder_goes_on() {
    let place = Place::new();
    let mut recorder = Recorder::start(&place, "twice", &["--keep", "4mb"]);
    wait_until("counters", || {
        assert_status(&recorder.snapshot("a.pftrace"), 0);
        counters(&packets(&place.path("a.pftrace"))) > 1
    });
    let before = counters(&packets(&place.path("a.pftrace")));
    wait_until("more counters", || {
        let output = recorder.snapshot("b.pftrace");
        assert_status(&output, 0);
        let said = stderr(&output);
        for part in ["are in b.pftrace", "linux.process_stats", "Lost: nothing"] {
            assert!(said.contains(part), "{part} in\n{said}");
        }
        counters(&packets(&place.path("b.pftrace"))) > before
    });
    for file in ["a.pftrace", "b.pftrace"] {
        let packets = packets(&place.path(file));
        assert!(has(&packets, |data| matches!(data, Data::ProcessTree(_))), "{file}");
        assert!(has(&packets, |data| matches!(data, Data::CpuInfo(_))), "{file}");
        assert!(has(&packets, |data| matches!(data, Data::TraceConfig(_))), "{file}");
    }
    recorder.stop();
    assert!(recorder.log().contains("Stopped after"), "{}", recorder.log());
    assert_eq!(place.files(), ["a.pftrace", "b.pftrace", "log"]);
    let output = recorder.snapshot("c.pftrace");
    assert_status(&output, 1);
    assert!(stderr(&output).contains("ferretto record --flight"), "{}", stderr(&output));
}

#[test]
fn triggers_write_numbered_files_and_the_end_writes_the_last() {
    let place = Place::new();
    let mut recorder = Recorder::start(&place, "triggers", &["--trigger", "boom", "-o", "t.pftrace"]);
    for file in ["t-1.pftrace", "t-2.pftrace"] {
        assert_status(&place.ferretto(&["trigger", "other", "boom"]).output().unwrap(), 0);
        wait_until(file, || place.path(file).exists());
        let packets = packets(&place.path(file));
        assert!(has(&packets, |data| match data {
            Data::CloneSnapshotTrigger(trigger) => trigger.trigger_name() == "boom",
            _ => false,
        }));
    }
    recorder.stop();
    assert!(recorder.log().contains("in t.pftrace ("), "{}", recorder.log());
    assert!(has(&packets(&place.path("t.pftrace")), |data| matches!(data, Data::TraceConfig(_))));
    assert_eq!(place.files(), ["log", "t-1.pftrace", "t-2.pftrace", "t.pftrace"]);
}

#[test]
fn a_name_has_one_recorder() {
    let place = Place::new();
    let recorder = Recorder::start(&place, "one", &[]);
    let output = place.ferretto(&["record", "--flight", "--name", &recorder.name]).output().unwrap();
    assert_status(&output, 1);
    assert!(stderr(&output).contains("ferretto snapshot --name"), "{}", stderr(&output));
    // It is not disturbed by that, and what a killed one leaves behind is no hindrance.
    assert_status(&recorder.snapshot("a.pftrace"), 0);
    drop(recorder);
    let recorder = Recorder::start(&place, "one", &[]);
    assert_status(&recorder.snapshot("b.pftrace"), 0);
}

#[test]
fn a_config_of_ones_own_makes_a_recorder_too() {
    let place = Place::new();
    let counters = "buffers { size_kb: 256 } data_sources { config { name: \"linux.sys_stats\" sys_stats_config { meminfo_period_ms: 100 } } }";
    place.write("good.cfg", counters);
    place.write("file.cfg", format!("{counters} write_into_file: true"));
    let output = place.ferretto(&["record", "--flight", "-c", "file.cfg"]).output().unwrap();
    assert_status(&output, 1);
    assert!(stderr(&output).contains("remove write_into_file"), "{}", stderr(&output));
    let mut recorder = Recorder::start(&place, "config", &["-c", "good.cfg"]);
    assert_status(&recorder.snapshot("a.pftrace"), 0);
    recorder.stop();
}

#[test]
fn flags_of_a_recorder_need_one() {
    let place = Place::new();
    for flag in ["--keep=5s", "--trigger=x", "--name=x"] {
        let output = place.ferretto(&["record", flag, "-t", "1ms"]).output().unwrap();
        assert!(stderr(&output).contains("--flight"), "{flag}: {}", stderr(&output));
        assert!(!output.status.success());
    }
}
