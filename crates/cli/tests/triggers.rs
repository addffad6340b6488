//! Recordings that wait for triggers, and who calls them out.

mod common;

use std::process::Stdio;

use common::{Place, assert_status, packets, stderr, wait_until};
use ferretto_protos::trace_packet::Data;

fn config(trigger_config: &str) -> String {
    format!(
        "buffers {{ size_kb: 1024 }} data_sources {{ config {{ name: \"linux.system_info\" }} }} \
         trigger_config {{ {trigger_config} }}"
    )
}

/// What the triggers of a trace are called.
fn triggers(place: &Place, file: &str) -> Vec<String> {
    let packets = packets(&place.path(file));
    let triggers = packets.iter().filter_map(|packet| match &packet.data {
        Some(Data::Trigger(trigger)) => {
            Some(format!("{} of {}", trigger.trigger_name(), trigger.producer_name()))
        }
        _ => None,
    });
    triggers.collect()
}

#[test]
fn a_recording_without_its_trigger_has_no_trace_and_says_so() {
    let place = Place::new();
    place
        .write("c", config("trigger_mode: STOP_TRACING trigger_timeout_ms: 300 triggers { name: \"late\" }"));
    let output = place.ferretto(&["record", "-c", "c", "-o", "t"]).output().unwrap();
    assert_status(&output, 1);
    for part in ["nothing was recorded", "ferretto trigger late"] {
        assert!(stderr(&output).contains(part), "{part} in {}", stderr(&output));
    }
    assert_eq!(place.files(), ["c"]);
}

/// Of the only session: the third column of the list of sessions, whose first is a number.
fn session_state(place: &Place) -> Option<String> {
    let query = place.ferretto(&["perfetto", "--query"]).output().unwrap();
    let text = String::from_utf8_lossy(&query.stdout).into_owned();
    let sessions = text.lines().skip_while(|line| !line.contains("STATE")).skip(1);
    let mut states = sessions.filter_map(|line| line.split_whitespace().nth(2));
    states.find(|state| matches!(*state, "CONFIGURED" | "STARTED")).map(str::to_owned)
}

#[test]
fn triggers_come_from_commands_and_configs() {
    let place = Place::new();
    let _service = place.traced();
    place.write("activate", "activate_triggers: \"a\"");
    let callers: [(&[&str], &str); 2] = [
        (&["trigger", "x", "a"], "a of trigger_perfetto"),
        (&["perfetto", "--txt", "-c", "activate"], "a of perfetto_cmd_producer"),
    ];
    for (mode, state) in [("START_TRACING", "CONFIGURED"), ("STOP_TRACING", "STARTED")] {
        place.write(
            "c",
            config(&format!(
                "trigger_mode: {mode} trigger_timeout_ms: 60000 triggers {{ name: \"a\" stop_delay_ms: 10 }}"
            )),
        );
        for (caller, expected) in callers {
            let mut command = place.ferretto(&["perfetto", "--txt", "-c", "c", "-o", "t"]);
            let mut recording = command.stderr(Stdio::null()).spawn().unwrap();
            wait_until("the session is there", || session_state(&place).as_deref() == Some(state));
            assert_status(&place.ferretto(caller).output().unwrap(), 0);
            assert!(recording.wait().unwrap().success());
            assert_eq!(triggers(&place, "t"), [expected], "{mode}");
        }
    }
}
