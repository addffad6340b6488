//! A few hundred random scripts of each kind; CI runs more of them, and so can you: see `src/main.rs`.

use std::process::Command;

fn no_difference(kind: &str) {
    let output = Command::new(env!("CARGO_BIN_EXE_upstream-buffer"))
        .args(["differential", kind, "--scripts", "300", "--seed", "1"])
        .output()
        .expect("the program runs");
    let (printed, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{printed}{error}");
    assert!(printed.contains("300 scripts"), "{printed}{error}");
}

#[test]
fn the_trace_buffer_answers_as_upstream_does() {
    no_difference("trace-buffer");
}

#[test]
fn the_filter_answers_as_upstream_does() {
    no_difference("filter");
}

#[test]
fn protovm_answers_as_upstream_does() {
    no_difference("protovm");
}
