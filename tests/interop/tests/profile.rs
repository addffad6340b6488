//! Stacks of `ferretto profile`, as the real Trace Processor reads them.

use std::hint::black_box;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ferretto_interop::{
    Maker, Peers, World, config, end_into_file, ferretto, need, through_each_service, trace_query,
};
use rustix::time::{ClockId, clock_gettime};

/// Of a processor's time, by this thread.
fn used() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.cast_unsigned(), u32::try_from(time.tv_nsec).unwrap())
}

#[inline(never)]
fn spins_inside() {
    let until = used() + Duration::from_secs(1);
    let mut sum = 0u64;
    while used() < until {
        (0..2000u64).for_each(|n| sum = black_box(sum.wrapping_mul(31) + n));
    }
    black_box(sum);
}

/// The program that is profiled: this one.
#[test]
#[ignore = "a program of the other tests, not one itself"]
fn spins() {
    spins_inside();
    black_box(());
}

#[inline(never)]
fn sleeps_inside() {
    (0..50).for_each(|_| std::thread::sleep(Duration::from_millis(10)));
    black_box(());
}

/// Another program.
#[test]
#[ignore = "a program of the other tests, not one itself"]
fn sleeps() {
    let start = Instant::now();
    sleeps_inside();
    println!("slept for {} ms", start.elapsed().as_millis());
}

/// Samples in whose stack is a function that is called like NAME.
const SAMPLES_INSIDE: &str = "with recursive up(sample, site) as (
         select id, callsite_id from perf_sample
         union all select sample, parent_id from up join stack_profile_callsite c on c.id = site where parent_id is not null)
     select count(distinct sample) from up join stack_profile_callsite c on c.id = site
     join stack_profile_frame f on f.id = c.frame_id where f.name glob '*NAME*'";

fn samples_inside(name: &str) -> String {
    SAMPLES_INSIDE.replace("NAME", name)
}

/// Samples, those whose stack is whole, and those of the thread.
const QUESTIONS: [&str; 3] = [
    "select count(*) from perf_sample",
    "select count(*) from perf_sample where unwind_error is null",
    "select count(*) from perf_sample join thread using (utid) join process using (upid) where thread.name = 'spins'",
];

#[test]
fn trace_processor_has_every_sample_with_its_stack() {
    let sql = need!(trace_query());
    let peers = need!(ferretto());
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t");
    let itself = std::env::current_exe().unwrap();
    let output = peers
        .ferretto()
        .args(["profile", "--own", "-o"])
        .arg(&trace)
        .arg("--")
        .arg(itself)
        .args(["--ignored", "--exact", "spins"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("cannot profile: the kernel gives no samples") {
        return eprintln!("skipped: {said}");
    }
    assert!(output.status.success(), "{said}");
    let [all, whole, named] = QUESTIONS;
    let answers = sql.numbers(&trace, &[all, whole, &samples_inside("spins_inside"), named]);
    let [all, whole, inside, named] = answers.as_slice() else { panic!("{answers:?}") };
    assert!(said.replace(',', "").contains(&format!("Profile: {all} samples")), "{all}\n{said}");
    assert!(*all > 200 && whole * 100 >= all * 95, "{whole} of {all} are whole\n{said}");
    assert!(inside * 100 >= all * 90 && named * 100 >= all * 90, "{inside}, {named} of {all}\n{said}");
    assert_eq!(sql.losses(&trace), Vec::<String>::new());
}

#[test]
fn trace_processor_has_as_many_samples_of_a_wait_as_it_has_milliseconds() {
    let sql = need!(trace_query());
    let peers = need!(ferretto());
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t");
    let itself = std::env::current_exe().unwrap();
    let output = peers
        .ferretto()
        .args(["profile", "--own", "--off-cpu", "-o"])
        .arg(&trace)
        .arg("--")
        .arg(itself)
        .args(["--ignored", "--exact", "--nocapture", "sleeps"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("cannot profile: the kernel gives no samples") {
        return eprintln!("skipped: {said}");
    }
    assert!(output.status.success(), "{said}");
    let printed = String::from_utf8_lossy(&output.stdout);
    let slept = printed.split_once("slept for ").and_then(|(_, rest)| rest.split(' ').next()?.parse().ok());
    let slept: i64 = slept.unwrap_or_else(|| panic!("{printed}"));
    let answers = sql.numbers(&trace, &[&samples_inside("sleeps_inside")]);
    let found = answers[0];
    assert!((found - slept).abs() * 20 <= slept, "{found} of {slept} ms\n{said}");
    assert_eq!(sql.losses(&trace), Vec::<String>::new());
}

/// A program with lines of source in it.
const SPINS_IN_LINES: &str = "\
#[inline(never)]
fn spins_in_lines(n: u64) -> u64 {
    (0..400_000_000).fold(n, |sum, it| std::hint::black_box(sum.wrapping_mul(31) + it))
}
fn main() {
    std::hint::black_box(spins_in_lines(7));
}
";

#[test]
fn trace_processor_opens_a_bundle_with_the_lines_of_its_program() {
    let sql = need!(trace_query());
    let peers = need!(ferretto());
    let folder = tempfile::tempdir().unwrap();
    let path = |name| folder.path().join(name);
    std::fs::write(path("spins.rs"), SPINS_IN_LINES).unwrap();
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc.args(["-O", "-Cdebuginfo=1", "-Cstrip=none", "spins.rs"]).current_dir(folder.path());
    assert!(rustc.status().unwrap().success());
    let profile = ["profile", "--own", "-q", "-o", "t", "--", "./spins"];
    for (args, name) in [(&profile[..], "t"), (&["bundle", "-q", "t", "-o", "t.tar"], "t.tar")] {
        let output = peers.ferretto().args(args).current_dir(folder.path()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        if said.contains("cannot profile: the kernel gives no samples") {
            return eprintln!("skipped: {said}");
        }
        assert!(output.status.success() && path(name).exists(), "{said}");
    }
    let all = "select count(*) from perf_sample";
    let lines = "select count(distinct line_number) from stack_profile_symbol
                 where source_file glob '*spins.rs' and name glob '*spins_in_lines*' and line_number > 0";
    let [in_trace, in_bundle] = ["t", "t.tar"].map(|name| sql.numbers(&path(name), &[all, lines]));
    assert!(in_trace[0] > 50 && in_trace[1] == 0, "{in_trace:?}");
    assert!(in_bundle[0] == in_trace[0] && in_bundle[1] > 0, "{in_trace:?} {in_bundle:?}");
}

/// `ferretto perf`, as the data source of a service.
mod daemon {
    use super::*;

    through_each_service!(check);

    fn check(peers: &Peers, maker: Maker) {
        let sql = need!(trace_query());
        let ours = need!(ferretto());
        if !rustix::process::geteuid().is_root() {
            return eprintln!("skipped: samples of the machine are for root");
        }
        let mut world = World::with_traced(peers, maker);
        let mut perf = ours.ferretto();
        perf.arg("perf");
        world.start(perf, "perf");
        world.wait_for_data_source("linux.perf");
        let itself = std::env::current_exe().unwrap();
        let text = format!(
            r#"buffers {{ size_kb: 65536 }}
            data_sources {{ config {{ name: "linux.perf" perf_event_config {{
                timebase {{ frequency: 499 counter: SW_CPU_CLOCK }}
                callstack_sampling {{ kernel_frames: true scope {{ target_cmdline: "{}" }} }}
            }} }} }}"#,
            itself.file_name().unwrap().to_str().unwrap()
        );
        let mut consumer = world.consumer();
        // It runs before the session does, and another program beside it.
        let args = ["--ignored", "--exact", "spins"];
        let mut running = Command::new(&itself).args(args).stdout(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(100));
        consumer.enable_tracing(config(&text), None).expect("a session");
        let another =
            Command::new("sh").args(["-c", "i=0; while [ $i -lt 600000 ]; do i=$((i+1)); done"]).status();
        assert!(another.unwrap().success() && running.wait().unwrap().success());
        let trace = world.path("trace");
        end_into_file(&mut consumer, &trace);
        let answers = sql.numbers(
            &trace,
            &[
                "select count(*) from perf_sample where callsite_id is not null",
                &samples_inside("spins_inside"),
                "select count(*) from perf_sample join thread using (utid) where callsite_id is not null and thread.name = 'spins'",
                "select count(*) from perf_sample where callsite_id is null",
            ],
        );
        let [stacks, inside, named, others] = answers.as_slice() else { panic!("{answers:?}") };
        assert!(*stacks > 50 && inside * 100 >= stacks * 90 && named * 100 >= stacks * 90, "{answers:?}");
        assert!(*others > 5, "those of others are counted, without a stack: {answers:?}");
        assert_eq!(sql.losses(&trace), Vec::<String>::new());
    }
}
