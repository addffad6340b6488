//! Compiles upstream's trace buffers, ProtoVM and trace filter, and the functions through which Rust calls them (`src/shim.cc`).
//!
//! The sources are in the package `perfetto-sdk-sys`, as one file of twelve megabytes that takes minutes to compile. Only the
//! files named here are cut out of it: seconds.

#[path = "build/amalgamation.rs"]
mod amalgamation;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use amalgamation::Amalgamation;

const PACKAGE: &str = "perfetto-sdk-sys";

/// The buffers, ProtoVM, the filter, and what these call. `trace_buffer_protovms.cc` is left out: `shim.cc` takes its place.
const SOURCES: [&str; 38] = [
    "src/base/dynamic_string_writer.cc",
    "src/base/intrusive_list.cc",
    "src/base/intrusive_tree.cc",
    "src/base/logging.cc",
    "src/base/paged_memory.cc",
    "src/base/progress_reporter.cc",
    "src/base/regex/regex.cc",
    "src/base/status.cc",
    "src/base/string_splitter.cc",
    "src/base/string_utils.cc",
    "src/base/string_view.cc",
    "src/base/utils.cc",
    "src/protozero/field.cc",
    "src/protozero/filtering/filter_bytecode_parser.cc",
    "src/protozero/filtering/message_filter.cc",
    "src/protozero/filtering/string_filter.cc",
    "src/protozero/gen_field_helpers.cc",
    "src/protozero/message.cc",
    "src/protozero/message_arena.cc",
    "src/protozero/packed_repeated_fields.cc",
    "src/protozero/proto_decoder.cc",
    "src/protozero/scattered_heap_buffer.cc",
    "src/protozero/scattered_stream_writer.cc",
    "src/protozero/virtual_destructors.cc",
    "gen/protos/perfetto/common/trace_stats.gen.cc",
    "src/protovm/allocator.cc",
    "src/protovm/error_handling.cc",
    "src/protovm/executor.cc",
    "src/protovm/node.cc",
    "src/protovm/parser.cc",
    "src/protovm/ro_cursor.cc",
    "src/protovm/rw_proto.cc",
    "src/protovm/rw_proto_cursor.cc",
    "src/protovm/vm.cc",
    "src/tracing/core/trace_packet.cc",
    "src/tracing/service/proto_group_rewriter.cc",
    "src/tracing/service/trace_buffer_v1.cc",
    "src/tracing/service/trace_buffer_v2.cc",
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for path in ["build.rs", "build/amalgamation.rs", "src/shim.cc", "Cargo.lock"] {
        println!("cargo:rerun-if-changed={path}");
    }
    let package = find_package()?;
    let folder = package.join("libperfetto_c");
    let text = fs::read_to_string(folder.join("perfetto_c.cc"))?;
    let cut = Amalgamation::parse(&text)?.cut(&SOURCES)?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("upstream.cc"), cut)?;
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        .opt_level(2)
        .define("NDEBUG", None)
        .define("PERFETTO_IMPLEMENTATION", None)
        .warnings(false)
        .include(&out)
        .include(&folder)
        .file("src/shim.cc")
        .try_compile("upstream_buffer")?;
    Ok(())
}

/// Where cargo has put the package that `Cargo.toml` names.
fn find_package() -> Result<PathBuf, Box<dyn std::error::Error>> {
    let manifest = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("Cargo.toml");
    let output = Command::new(env::var("CARGO")?)
        .args(["metadata", "--format-version=1", "--locked", "--manifest-path"])
        .arg(manifest)
        .output()?;
    if !output.status.success() {
        return Err(format!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let packages = metadata["packages"].as_array().ok_or("cargo metadata names no packages")?;
    let package = packages.iter().find(|package| package["name"] == PACKAGE);
    let path = package.and_then(|package| package["manifest_path"].as_str());
    let path = path.ok_or_else(|| format!("cargo metadata does not know {PACKAGE}"))?;
    Ok(Path::new(path).parent().ok_or("a manifest in no folder")?.to_owned())
}
