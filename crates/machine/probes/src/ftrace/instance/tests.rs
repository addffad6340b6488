//! Of an instance, on folders that look like tracefs's.

use ferretto_protos::ftrace_config::{KprobeEvent, kprobe_event::KprobeType};

use super::buffers::{SMALL_BUFFER_KB, buffer_size_kb, choose_clock, most_kb_per_cpu};
use super::limits::{MAX_KPROBES, MAX_KPROBES_OF_SESSION};
use super::*;

const LIMITS: Limits =
    Limits { buffers_kb: 1 << 20, kprobes: MAX_KPROBES, kprobes_of_session: MAX_KPROBES_OF_SESSION };

#[test]
fn buffer_sizes_follow_the_config_and_the_machine() {
    assert_eq!(buffer_size_kb(0, false, 16 << 30), 8192);
    assert_eq!(buffer_size_kb(0, false, 1 << 30), 2048);
    assert_eq!(buffer_size_kb(4096, false, 16 << 30), 4096);
    assert_eq!(buffer_size_kb(4096, true, 16 << 30), 8192);
    assert_eq!(buffer_size_kb(1, false, 16 << 30), (rustix::param::page_size() / 1024) as u64);
}

#[test]
fn the_boot_clock_is_preferred_and_mono_raw_on_request() {
    let offered = ["local", "global", "mono_raw", "boot"].map(str::to_owned);
    assert_eq!(choose_clock(&offered, false, "local"), "boot");
    assert_eq!(choose_clock(&offered, true, "local"), "mono_raw");
    assert_eq!(choose_clock(&offered[..2], true, "local"), "global");
    assert_eq!(choose_clock(&[], false, "uptime"), "uptime");
}

/// A directory with the files of an instance, as an ordinary user may make it.
fn fake_tracefs(name: &str) -> PathBuf {
    let root = std::env::temp_dir().join(format!("ferretto-probes-{name}-{}", std::process::id()));
    let formats = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/formats");
    for (group, event) in [
        ("sched", "sched_switch"),
        ("sched", "sched_waking"),
        ("irq", "irq_handler_entry"),
        ("ftrace", "print"),
    ] {
        let dir = root.join("events").join(group).join(event);
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::copy(formats.join(event), dir.join("format")).unwrap();
        std::fs::write(dir.join("enable"), "0").unwrap();
    }
    for (file, text) in [
        ("tracing_on", "1"),
        ("trace", ""),
        ("trace_clock", "[mono] global boot"),
        ("buffer_size_kb", "7"),
        ("current_tracer", "nop"),
        ("events/enable", "0"),
        ("buffer_percent", "50"),
        ("available_events", "sched:sched_switch\nirq:irq_handler_entry\n"),
    ] {
        std::fs::write(root.join(file), text).unwrap();
    }
    root
}

fn file(root: &Path, file: &str) -> String {
    std::fs::read_to_string(root.join(file)).unwrap()
}

/// Where the kernel replaces what a file says, a write to an ordinary file leaves the rest.
fn clock(root: &Path) -> String {
    file(root, "trace_clock").split(|c: char| !c.is_ascii_lowercase()).next().unwrap().to_owned()
}

fn config(events: &[&str]) -> FtraceConfig {
    FtraceConfig { ftrace_events: events.iter().map(|e| (*e).to_owned()).collect(), ..Default::default() }
}

#[test]
fn sessions_share_the_events_and_the_last_one_restores_everything() {
    let root = fake_tracefs("share");
    let mut instance = Instance::root(root.clone()).unwrap();
    let (mut field, mut errors) = (65536, SetupErrors::default());
    let first = instance.set_up(1, &config(&["sched/*", "print"]), LIMITS, &mut field, &mut errors).unwrap();
    assert!(first.is_compact());
    assert!(clock(&root).starts_with("boot"));
    assert_eq!(file(&root, "tracing_on"), "0");
    instance.activate(1).unwrap();
    let second = instance
        .set_up(
            2,
            &config(&["irq_handler_entry", "sched/sched_switch", "no/such", "nothing"]),
            LIMITS,
            &mut field,
            &mut errors,
        )
        .unwrap();
    assert!(second.is_compact() && instance.is_shared());
    assert_eq!(errors.unknown_events, ["nothing", "no/such"]);
    instance.activate(2).unwrap();
    assert_eq!(file(&root, "tracing_on"), "1");
    instance.remove(1);
    let enabled = |event: &str| file(&root, &format!("events/{event}/enable"));
    assert_eq!(
        [enabled("sched/sched_switch"), enabled("sched/sched_waking"), enabled("irq/irq_handler_entry")],
        ["1", "0", "1"]
    );
    instance.remove(2);
    assert!(instance.is_idle());
    assert_eq!([enabled("sched/sched_switch"), enabled("irq/irq_handler_entry")], ["0", "0"]);
    assert!(clock(&root).starts_with("mono"));
    assert_eq!(file(&root, "tracing_on"), "1");
    std::fs::remove_dir_all(root).unwrap();
}

#[test]
fn a_foreign_tracer_is_left_alone() {
    let root = fake_tracefs("foreign");
    std::fs::write(root.join("current_tracer"), "function").unwrap();
    let mut instance = Instance::root(root.clone()).unwrap();
    let error = instance
        .set_up(1, &config(&["sched/sched_switch"]), LIMITS, &mut 65536, &mut SetupErrors::default())
        .unwrap_err();
    assert!(error.contains("function"), "{error}");
    assert_eq!(file(&root, "tracing_on"), "1");
    std::fs::remove_dir_all(root).unwrap();
}

#[test]
fn one_session_may_use_exclusive_options_and_no_other_beside_it() {
    let root = fake_tracefs("exclusive");
    std::fs::write(root.join("set_event_pid"), "").unwrap();
    let mut instance = Instance::root(root.clone()).unwrap();
    let exclusive = FtraceConfig { tids_to_trace: vec![1, 2], ..config(&["sched/sched_switch"]) };
    instance.set_up(1, &exclusive, LIMITS, &mut 65536, &mut SetupErrors::default()).unwrap();
    assert_eq!(file(&root, "set_event_pid"), "1 2");
    let mut errors = SetupErrors::default();
    assert!(instance.set_up(2, &config(&["print"]), LIMITS, &mut 65536, &mut errors).is_err());
    assert!(errors.exclusive_feature.is_some());
    drop(instance);
    assert_eq!(file(&root, "set_event_pid"), "");
    std::fs::remove_dir_all(root).unwrap();
}

#[test]
fn an_instance_name_is_no_path() {
    assert!(Instance::named(Path::new("/nonexistent"), "a/b").is_err());
    assert!(Instance::named(Path::new("/nonexistent"), "../b").is_err());
    assert!(Instance::named(Path::new("/nonexistent"), "b").is_err());
    let root = fake_tracefs("paths");
    std::fs::create_dir_all(root.join("instances")).unwrap();
    assert!(Instance::named(&root, ".").unwrap_err().contains("plain name"));
    let instance = Instance::root(root.clone()).unwrap();
    let mut errors = SetupErrors::default();
    let wanted = config(&["../*", "./*", "/*", "..", "*", "sched/../sched"]);
    assert!(instance.resolve_events(&wanted, &mut errors).is_empty());
    assert_eq!(errors.unknown_events, wanted.ftrace_events);
    std::fs::remove_dir_all(root).unwrap();
}

#[test]
fn an_instance_that_somebody_uses_is_left_alone() {
    let root = fake_tracefs("used");
    let path = fake_tracefs("used-instance");
    std::fs::create_dir_all(root.join("instances")).unwrap();
    std::fs::rename(path, root.join("instances/theirs")).unwrap();
    let file = |name: &str| root.join("instances/theirs").join(name);
    let refusal = |config: &FtraceConfig| {
        Instance::named(&root, "theirs").unwrap().check_unused(config).err().unwrap_or_default()
    };
    let plain = config(&["sched/sched_switch"]);
    assert_eq!(refusal(&plain), "", "one that was made for us");

    std::fs::write(file("events/enable"), "X").unwrap();
    assert!(refusal(&plain).contains("events are on"));
    let preserve = FtraceConfig { preserve_ftrace_buffer: Some(true), ..plain.clone() };
    assert_eq!(refusal(&preserve), "", "nobody reads it");

    std::fs::write(file("events/enable"), "0").unwrap();
    std::fs::create_dir_all(file("per_cpu/cpu0")).unwrap();
    std::fs::write(file("per_cpu/cpu0/stats"), "entries: 3\n").unwrap();
    assert!(refusal(&plain).contains("there are events in its buffers"));
    std::fs::remove_dir_all(root).unwrap();
}

#[test]
fn a_daemon_that_sees_no_readers_sees_what_has_been_read() {
    let root = fake_tracefs("read");
    let path = fake_tracefs("read-instance");
    std::fs::create_dir_all(root.join("instances")).unwrap();
    std::fs::rename(path, root.join("instances/theirs")).unwrap();
    let file = |name: &str| root.join("instances/theirs").join(name);
    std::fs::write(file("events/enable"), "1").unwrap();
    std::fs::create_dir_all(file("per_cpu/cpu0")).unwrap();
    let instance = Instance::named(&root, "theirs").unwrap();
    let preserve = FtraceConfig { preserve_ftrace_buffer: Some(true), ..FtraceConfig::default() };
    let refused = |read: u32, readers| {
        std::fs::write(file("per_cpu/cpu0/stats"), format!("entries: 3\nread events: {read}\n")).unwrap();
        instance.check_unused_by(&preserve, |_| readers).is_err()
    };
    assert_eq!(
        [(0, Readers::Unknown), (9, Readers::Nobody), (9, Readers::Unknown), (0, Readers::Some)]
            .map(|(read, readers)| refused(read, readers)),
        [false, false, true, true]
    );
    drop(instance);
    std::fs::remove_dir_all(root).unwrap();
}

#[test]
fn who_comes_later_and_wants_larger_buffers_gets_them() {
    let root = fake_tracefs("grow");
    // An ordinary file keeps what a write does not cover.
    std::fs::write(root.join("buffer_size_kb"), "70000").unwrap();
    let mut instance = Instance::root(root.clone()).unwrap();
    let of = |kb| FtraceConfig { buffer_size_kb: Some(kb), ..config(&["sched/sched_switch"]) };
    let mut errors = SetupErrors::default();
    for (session, kb, expected) in [(1, 10240, "10240"), (2, 16384, "16384"), (3, 12288, "16384")] {
        instance.set_up(session, &of(kb), LIMITS, &mut 65536, &mut errors).unwrap();
        assert_eq!(file(&root, "buffer_size_kb"), expected);
    }
    let most = Limits { buffers_kb: 32768, ..LIMITS };
    instance.set_up(4, &of(1 << 20), most, &mut 65536, &mut errors).unwrap();
    assert_eq!(file(&root, "buffer_size_kb"), "32768");
    assert_eq!(instance.buffer_pages() * instance.layout.page_size, 32768 << 10);
    assert!(errors.messages[0].contains("more of the machine's memory"), "{errors:?}");
    (1..=4).for_each(|session| instance.remove(session));
    assert_eq!(file(&root, "buffer_size_kb"), "70000");
    std::fs::remove_dir_all(root).unwrap();
}

/// The kernel keeps what is recorded, and goes on.
#[test]
fn buffers_of_the_kernel_grow_while_it_records() {
    let root = Path::new("/sys/kernel/tracing");
    let mut instance = match Instance::private(root) {
        Ok(instance) => instance,
        Err(error) => return println!("skipped: no instance of tracefs can be made here: {error}"),
    };
    let of = |kb| FtraceConfig { buffer_size_kb: Some(kb), ..config(&["sched/sched_switch"]) };
    let mut errors = SetupErrors::default();
    instance.set_up(1, &of(64), LIMITS, &mut 65536, &mut errors).unwrap();
    instance.activate(1).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(20));
    let entries =
        |instance: &Instance| -> u64 { instance.snapshot().cpus.iter().map(|cpu| cpu.entries).sum() };
    let before = entries(&instance);
    instance.set_up(2, &of(4096), LIMITS, &mut 65536, &mut errors).unwrap();
    assert!(instance.tracefs.cpu_buffer_size_kb() >= 4096 && entries(&instance) >= before && before > 0);
    assert_eq!(instance.interference(), None);
    assert_eq!(errors.messages, Vec::<String>::new());
    (1..=2).for_each(|session| instance.remove(session));
}

#[test]
fn what_was_on_and_how_large_it_was_comes_back() {
    let root = fake_tracefs("restore");
    for (name, text) in [
        ("events/enable", "X"),
        ("events/irq/irq_handler_entry/enable", "1"),
        ("set_event", "irq:irq_handler_entry\n"),
        ("buffer_size_kb", "4000"),
        ("buffer_percent", "30"),
    ] {
        std::fs::write(root.join(name), text).unwrap();
    }
    let mut instance = Instance::root(root.clone()).unwrap();
    let config = FtraceConfig {
        buffer_size_kb: Some(1024),
        drain_buffer_percent: Some(70),
        ..config(&["irq/irq_handler_entry"])
    };
    instance.set_up(1, &config, LIMITS, &mut 65536, &mut SetupErrors::default()).unwrap();
    instance.activate(1).unwrap();
    let values = || {
        ["buffer_size_kb", "buffer_percent", "events/irq/irq_handler_entry/enable"].map(|f| file(&root, f))
    };
    assert_eq!(values(), ["1024", "70", "1"]);
    instance.remove(1);
    assert_eq!(values(), ["4000", "30", "1"]);
    std::fs::remove_dir_all(root).unwrap();
}

#[test]
fn the_kernels_memory_and_probes_are_bounded_and_it_is_said() {
    let root = fake_tracefs("bounds");
    std::fs::write(root.join("kprobe_events"), "").unwrap();
    let probe = |number: usize| KprobeEvent {
        probe: Some(format!("function_{number}")),
        r#type: Some(KprobeType::Both as i32),
    };
    let config = FtraceConfig {
        buffer_size_kb: Some(3 << 20),
        kprobe_events: (0..MAX_KPROBES_OF_SESSION).map(probe).collect(),
        ..config(&["sched/sched_switch"])
    };
    let mut instance = Instance::root(root.clone()).unwrap();
    let mut errors = SetupErrors::default();
    instance.set_up(1, &config, LIMITS, &mut 65536, &mut errors).unwrap();
    assert_eq!(file(&root, "buffer_size_kb"), LIMITS.buffers_kb.to_string());
    assert!(errors.messages.iter().any(|m| m.contains("more of the machine's memory")), "{errors:?}");
    assert!(errors.messages.iter().any(|m| m.contains("64 of 128 kernel probes are left out")));
    let asked = file(&root, "kprobe_events");
    assert!(asked.contains("function_31"));
    assert!(!asked.contains("function_32"));
    // Another data source of the session.
    let left = Limits { kprobes_of_session: MAX_KPROBES_OF_SESSION - instance.kprobes_of(1), ..LIMITS };
    let mut errors = SetupErrors::default();
    instance.set_up(2, &config, left, &mut 65536, &mut errors).unwrap();
    assert!(errors.messages.iter().any(|m| m.contains("128 of 128 kernel probes are left out")));
    assert_eq!([most_kb_per_cpu(1 << 20, 4), most_kb_per_cpu(1, 4)], [1 << 18, SMALL_BUFFER_KB]);
    std::fs::remove_dir_all(root).unwrap();
}
