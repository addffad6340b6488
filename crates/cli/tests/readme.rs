//! The README's program, as it stands there, recorded by the command that stands there.

mod common;

use std::path::Path;
use std::process::Command;

use common::{Place, assert_status, packets, stderr};
use ferretto_protos::trace_packet::Data;
use ferretto_protos::track_event::{CounterValueField, Type};

/// The first block of Rust in the README that is a whole program.
fn program() -> String {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let blocks = readme.split("```rust\n").skip(1).map(|rest| rest.split("```").next().unwrap().to_owned());
    blocks.into_iter().find(|block| block.contains("fn main()")).expect("a program in the README")
}

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// An empty crate with nothing but the SDK, and this.
fn build(place: &Place, program: &str) {
    let sdk = root().join("crates/program/sdk").canonicalize().unwrap();
    std::fs::create_dir(place.path("src")).unwrap();
    place.write("src/main.rs", program);
    let package = "[package]\nname = \"program\"\nversion = \"0.1.0\"\nedition = \"2024\"\n";
    place.write(
        "Cargo.toml",
        format!("{package}[workspace]\n[dependencies]\nferretto = {{ path = {sdk:?} }}\n"),
    );
    // The versions that are on this machine already.
    std::fs::copy(root().join("Cargo.lock"), place.path("Cargo.lock")).unwrap();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--offline"]).current_dir(place.folder.path());
    let output = cargo.env("CARGO_TARGET_DIR", place.path("target")).output().unwrap();
    assert_status(&output, 0);
}

#[test]
fn the_program_of_the_readme_shows_its_slice_and_its_counter() {
    let place = Place::new();
    build(&place, &program());
    let record = ["record", "-o", "t.pftrace", "--", "target/debug/program"];
    let output = place.ferretto(&record).output().unwrap();
    assert_status(&output, 0);
    assert!(stderr(&output).contains("Lost: nothing."), "{}", stderr(&output));

    let trace = packets(&place.path("t.pftrace"));
    let names = trace.iter().flat_map(|packet| &packet.interned_data).flat_map(|data| &data.event_names);
    assert!(names.into_iter().any(|name| name.name() == "serve"), "{}", stderr(&output));
    let tracks = trace.iter().filter_map(|packet| match &packet.data {
        Some(Data::TrackDescriptor(track)) => Some(track),
        _ => None,
    });
    let counter = tracks.filter(|track| track.counter.is_some()).map(|track| track.uuid()).next().unwrap();
    let events: Vec<_> = trace
        .iter()
        .filter_map(|packet| match &packet.data {
            Some(Data::TrackEvent(event)) => Some(event),
            _ => None,
        })
        .collect();
    for kind in [Type::SliceBegin, Type::SliceEnd] {
        assert_eq!(events.iter().filter(|event| event.r#type() == kind).count(), 1, "{kind:?}");
    }
    let counted: Vec<_> = events.iter().filter(|event| event.track_uuid() == counter).collect();
    assert!(
        matches!(counted[..], [event] if event.counter_value_field == Some(CounterValueField::CounterValue(3))),
        "{counted:?}"
    );
}
