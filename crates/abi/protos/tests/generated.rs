//! Regenerates everything under `src/generated` from the `.proto` files and compares it with what is checked in, so that users need
//! neither `protoc` nor a build script. `UPDATE_GENERATED=1 cargo test -p ferretto-protos --test generated` rewrites the files.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use prost::Message as _;
use prost_types::field_descriptor_proto::Type;
use prost_types::{DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet};

/// The files of ftrace events that get Rust types; the rest is only in the table of known events, which keeps the build small.
const TYPED_FTRACE_FILES: &[&str] =
    &["ftrace_event", "ftrace_event_bundle", "ftrace_stats", "ftrace", "generic", "power", "sched", "task"];

/// The files whose messages a producer exchanges with the service: all that there is without the feature `full`. Of the messages in
/// them only the fields whose types are here, too.
const PRODUCER_FILES: &[&str] = &[
    "common/commit_data_request",
    "common/data_source_descriptor",
    "common/track_event_descriptor",
    "config/data_source_config",
    "config/track_event/track_event_config",
    "ipc/producer_port",
    "ipc/wire_protocol",
];

const PACKAGE: &str = ".perfetto.protos.";

/// Fields whose Rust type is `bytes` although the schema has a message: what they carry is passed on as it came, so that fields our
/// schema has not heard of survive. On the wire the two are the same.
const KEPT_AS_BYTES: &[(&str, &str)] = &[
    ("AttachResponse", "trace_config"),
    ("ChangeTraceConfigRequest", "trace_config"),
    ("DataSourceDescriptor", "protovm_program"),
    ("EnableTracingRequest", "trace_config"),
    ("GetAsyncCommandResponse.SetupDataSource", "config"),
    ("GetAsyncCommandResponse.StartDataSource", "config"),
    ("InitRelayRequest", "system_info"),
    ("RegisterDataSourceRequest", "data_source_descriptor"),
    ("TracePacket", "trace_config"),
    ("TracePacket.ProtoVms.Instance", "program"),
    ("TracePacket.ProtoVms.Instance", "state"),
    ("TracingServiceState.DataSource", "ds_descriptor"),
    ("UpdateDataSourceRequest", "data_source_descriptor"),
];

/// Enums of many values that no Rust code names: their fields become plain numbers in Rust.
const KEPT_AS_NUMBERS: &[&str] = &["AtomId"];

/// Groups whose events carry the group in their name in `FtraceEvent` (upstream: ftrace_proto_gen.cc, EventNameToProtoFieldName).
const GROUPS_IN_NAMES: &[&str] = &["dpu", "g2d", "hypervisor", "kgsl", "lwis", "mali", "samsung", "sde"];

#[test]
fn generated_files_are_current() {
    let files = compile();
    let typed = as_rust_sees_it(&files);
    check("producer.rs", &prost_types_source(&for_producers(&typed)));
    check("full.rs", &prost_types_source(&typed));
    check("fields.rs", field_constants(&files).as_bytes());
    check("known_events.txt", known_events(&files).as_bytes());
    check("descriptors.bin", &reflection_descriptors(&files).encode_to_vec());
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn check(name: &str, expected: &[u8]) {
    let path = root().join("src/generated").join(name);
    if std::env::var_os("UPDATE_GENERATED").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, expected).unwrap();
        return;
    }
    let found = std::fs::read(&path).unwrap_or_default();
    assert!(
        found == expected,
        "{name} is not what the .proto files say; run UPDATE_GENERATED=1 cargo test -p ferretto-protos --test generated"
    );
}

fn proto_files(dir: &Path, into: &mut Vec<PathBuf>) {
    let mut entries: Vec<_> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            proto_files(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "proto") {
            into.push(path);
        }
    }
}

fn compile() -> FileDescriptorSet {
    let include = root().join("proto");
    let mut paths = Vec::new();
    proto_files(&include, &mut paths);
    let mut compiler = protox::Compiler::new([&include]).unwrap();
    compiler.include_source_info(true).include_imports(true).open_files(&paths).unwrap();
    compiler.file_descriptor_set()
}

fn is_untyped_ftrace(file_name: &str) -> bool {
    file_name
        .strip_prefix("perfetto/trace/ftrace/")
        .and_then(|name| name.strip_suffix(".proto"))
        .is_some_and(|stem| !TYPED_FTRACE_FILES.contains(&stem))
}

/// The files without the ftrace events that have no Rust types.
fn without_untyped_ftrace(files: &FileDescriptorSet) -> FileDescriptorSet {
    let mut kept = files.clone();
    kept.file.retain(|file| !is_untyped_ftrace(file.name()));
    let known: BTreeSet<String> = kept.file.iter().flat_map(top_level_names).collect();
    for file in &mut kept.file {
        file.dependency.retain(|name| !is_untyped_ftrace(name));
        file.public_dependency.clear();
        for message in &mut file.message_type {
            if message.name() == "FtraceEvent" {
                message.field.retain(|field| match field.r#type() {
                    Type::Message | Type::Enum => known.contains(field.type_name()),
                    _ => true,
                });
            }
        }
    }
    kept
}

fn top_level_names(file: &FileDescriptorProto) -> Vec<String> {
    file.message_type.iter().map(|message| format!("{PACKAGE}{}", message.name())).collect()
}

/// The messages of [`PRODUCER_FILES`], without the fields that have other messages in them.
fn for_producers(files: &FileDescriptorSet) -> FileDescriptorSet {
    let mut kept = files.clone();
    let is_kept = |name: &str| {
        let stem = name.strip_prefix("perfetto/").and_then(|name| name.strip_suffix(".proto"));
        stem.is_some_and(|stem| PRODUCER_FILES.contains(&stem))
    };
    kept.file.retain(|file| is_kept(file.name()));
    assert_eq!(kept.file.len(), PRODUCER_FILES.len(), "a file in PRODUCER_FILES does not exist");
    let known: BTreeSet<String> = kept.file.iter().flat_map(top_level_names).collect();
    let is_known = |field: &FieldDescriptorProto| match field.type_name().strip_prefix(PACKAGE) {
        Some(name) => known.contains(&format!("{PACKAGE}{}", name.split('.').next().unwrap_or(name))),
        None => true,
    };
    for file in &mut kept.file {
        file.dependency.retain(|name| is_kept(name));
        // Places in the file, with which comments are found, would be those of other fields.
        file.source_code_info = None;
        for message in &mut file.message_type {
            message.field.retain(&is_known);
        }
    }
    kept
}

fn prost_types_source(files: &FileDescriptorSet) -> Vec<u8> {
    let out = tempdir();
    let mut config = prost_build::Config::new();
    config.bytes(["."]).out_dir(&out).compile_fds(files.clone()).unwrap();
    let source = std::fs::read(out.join("perfetto.protos.rs")).unwrap();
    std::fs::remove_dir_all(&out).unwrap();
    source
}

/// The schema with the substitutions of [`KEPT_AS_BYTES`] and [`KEPT_AS_NUMBERS`].
fn as_rust_sees_it(files: &FileDescriptorSet) -> FileDescriptorSet {
    let mut kept = without_untyped_ftrace(files);
    let mut substituted = 0;
    for file in &mut kept.file {
        file.enum_type.retain(|item| !KEPT_AS_NUMBERS.contains(&item.name()));
        for message in &mut file.message_type {
            let name = message.name().to_owned();
            substitute(message, &name, &mut substituted);
        }
    }
    assert_eq!(substituted, KEPT_AS_BYTES.len(), "a field in KEPT_AS_BYTES does not exist");
    kept
}

fn substitute(message: &mut DescriptorProto, name: &str, substituted: &mut usize) {
    for field in &mut message.field {
        if KEPT_AS_BYTES.contains(&(name, field.name())) {
            field.set_type(Type::Bytes);
            field.type_name = None;
            *substituted += 1;
        } else if field.type_name().strip_prefix(PACKAGE).is_some_and(|name| KEPT_AS_NUMBERS.contains(&name))
        {
            field.set_type(Type::Int32);
            field.type_name = None;
        }
    }
    for nested in &mut message.nested_type {
        let name = format!("{name}.{}", nested.name());
        substitute(nested, &name, substituted);
    }
}

fn tempdir() -> PathBuf {
    let dir = std::env::temp_dir().join(format!("ferretto-protos-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

/// What the text format needs at run time: no comments, no untyped ftrace events.
fn reflection_descriptors(files: &FileDescriptorSet) -> FileDescriptorSet {
    let mut kept = without_untyped_ftrace(files);
    for file in &mut kept.file {
        file.source_code_info = None;
    }
    kept
}

/// `fields::trace_packet::TIMESTAMP` and so on, for code that encodes by hand.
fn field_constants(files: &FileDescriptorSet) -> String {
    let mut out = String::from("// Generated from the .proto files by tests/generated.rs; do not edit.\n");
    for file in &without_untyped_ftrace(files).file {
        for message in &file.message_type {
            field_module(message, "", &mut out);
        }
    }
    out
}

fn field_module(message: &DescriptorProto, indent: &str, out: &mut String) {
    if message.field.is_empty() && message.nested_type.is_empty() {
        return;
    }
    let inner = format!("{indent}    ");
    writeln!(out, "{indent}/// Field numbers of `{}`.", message.name()).unwrap();
    writeln!(out, "{indent}pub mod {} {{", snake_case(message.name())).unwrap();
    for field in &message.field {
        writeln!(out, "{inner}/// `{}.{}`.", message.name(), field.name()).unwrap();
        writeln!(out, "{inner}pub const {}: u32 = {};", field.name().to_uppercase(), field.number()).unwrap();
    }
    for nested in &message.nested_type {
        field_module(nested, &inner, out);
    }
    writeln!(out, "{indent}}}").unwrap();
}

/// `FtraceEventBundle` to `ftrace_event_bundle`, as prost names its modules.
fn snake_case(name: &str) -> String {
    let mut out = String::new();
    let chars: Vec<char> = name.chars().collect();
    for (index, &c) in chars.iter().enumerate() {
        let after_lower = index > 0 && !chars[index - 1].is_uppercase() && chars[index - 1] != '_';
        let before_lower = chars.get(index + 1).is_some_and(|next| next.is_lowercase());
        if c.is_uppercase() && index > 0 && chars[index - 1] != '_' && (after_lower || before_lower) {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}

/// The table from kernel events to the messages that have a place of their own in `FtraceEvent`.
fn known_events(files: &FileDescriptorSet) -> String {
    let mut messages = std::collections::BTreeMap::new();
    for file in &files.file {
        let stem = file.name().rsplit('/').next().unwrap().strip_suffix(".proto").unwrap();
        for message in &file.message_type {
            messages.insert(format!("{PACKAGE}{}", message.name()), (stem, message));
        }
    }
    let (_, event) = messages[".perfetto.protos.FtraceEvent"];
    let mut rows = std::collections::BTreeMap::new();
    for field in event.field.iter().filter(|field| field.r#type() == Type::Message) {
        let (stem, message) = messages[field.type_name()];
        // The envelopes for events that have no message; not events of the kernel.
        if stem != "generic" {
            rows.insert(field.name().to_owned(), known_event(field, stem, message));
        }
    }
    rows.into_values().collect()
}

/// The kernel's group and name of an event: the events of a group lie in the file named after it.
fn kernel_names<'a>(field_name: &'a str, stem: &'a str) -> (&'a str, &'a str) {
    let in_name = GROUPS_IN_NAMES
        .iter()
        .find(|group| field_name.strip_prefix(**group).is_some_and(|rest| rest.starts_with('_')));
    match in_name {
        Some(group) if stem == *group || (*group == "hypervisor" && stem == "hyp") => {
            (group, &field_name[group.len() + 1..])
        }
        _ if field_name == "zero" => (stem, "0"),
        _ => (stem, field_name),
    }
}

/// A line of the table; `src/ftrace.rs` reads it.
fn known_event(field: &FieldDescriptorProto, stem: &str, message: &DescriptorProto) -> String {
    let (group, event) = kernel_names(field.name(), stem);
    let mut line = format!("{} {group} {event} {}", field.name(), field.number());
    for inner in &message.field {
        write!(line, " {} {} {:?}", inner.name(), inner.number(), inner.r#type()).unwrap();
    }
    line + "\n"
}
