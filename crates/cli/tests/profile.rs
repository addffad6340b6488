//! `ferretto profile`, as any user may run it. Where the kernel gives a user no perf events, as in most containers, it says so and is skipped.

mod common;

use std::hint::black_box;
use std::sync::{Barrier, Mutex};
use std::time::{Duration, Instant};

use common::stacks::Stacks;
use common::{Place, assert_status, packets, stderr};
use ferretto_protos::TracePacket;
use ferretto_protos::trace_packet::Data;
use rustix::time::{ClockId, clock_gettime};

/// What [`uses_a_second_of_a_processor`] does in functions of these names.
const SHARES: [(&str, f64); 3] = [("six_tenths", 0.6), ("three_tenths", 0.3), ("one_tenth", 0.1)];
/// Long enough that a function is met many times, short enough that the shares are the same from one tenth of a second to the next.
const ROUND: Duration = Duration::from_millis(20);
const ROUNDS: u32 = 50;

/// Of a processor's time, by this thread.
fn used() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.cast_unsigned(), u32::try_from(time.tv_nsec).unwrap())
}

#[inline(never)]
fn spin(share: u32) {
    let until = used() + ROUND * share / 10;
    let mut sum = 0u64;
    while used() < until {
        (0..2000u64).for_each(|n| sum = black_box(sum.wrapping_mul(31) + n));
    }
    black_box(sum);
}

#[inline(never)]
fn six_tenths() {
    spin(6);
    black_box(());
}

#[inline(never)]
fn three_tenths() {
    spin(3);
    black_box(());
}

#[inline(never)]
fn one_tenth() {
    spin(1);
    black_box(());
}

/// The program that is profiled: this one, as [`work`] calls it.
#[test]
#[ignore = "a program of the other tests, not one itself"]
fn uses_a_second_of_a_processor() {
    for _ in 0..ROUNDS {
        six_tenths();
        three_tenths();
        one_tenth();
    }
}

#[inline(never)]
fn sleeps_half_a_second() {
    (0..50).for_each(|_| std::thread::sleep(Duration::from_millis(10)));
    black_box(());
}

#[inline(never)]
fn waits_for_a_lock(lock: &Mutex<()>) {
    drop(lock.lock().unwrap());
    black_box(());
}

/// Another program: half a second it sleeps, and a quarter it waits for somebody else.
#[test]
#[ignore = "a program of the other tests, not one itself"]
fn waits() {
    let (lock, barrier) = (Mutex::new(()), Barrier::new(2));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let held = lock.lock().unwrap();
            barrier.wait();
            std::thread::sleep(Duration::from_millis(250));
            drop(held);
        });
        barrier.wait();
        let began = Instant::now();
        waits_for_a_lock(&lock);
        println!("waits_for_a_lock took {} ms", began.elapsed().as_millis());
    });
    let began = Instant::now();
    sleeps_half_a_second();
    println!("sleeps_half_a_second took {} ms", began.elapsed().as_millis());
}

/// What the next one does itself, meanwhile.
#[inline(never)]
fn runs_itself() {
    let until = used() + MOMENT;
    while used() < until {}
    black_box(());
}

/// Another program: its children live a millisecond each, and it says what they have used of processors.
#[test]
#[ignore = "a program of the other tests, not one itself"]
fn starts_children_that_live_a_moment() {
    for _ in 0..CHILDREN_COUNT {
        assert!(std::process::Command::new("true").status().unwrap().success());
        runs_itself();
    }
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    // `cutime` and `cstime` of proc_pid_stat(5), the 14th and 15th field behind the name.
    let fields = stat.rsplit(')').next().unwrap().split_ascii_whitespace();
    let ticks: u64 = fields.skip(13).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum();
    println!("{} of process {} used {} ms", CHILDREN, std::process::id(), ticks * 10);
}

const CHILDREN: &str = "children";
const CHILDREN_COUNT: u32 = 400;
const MOMENT: Duration = Duration::from_micros(500);

fn work() -> [String; 4] {
    program("uses_a_second_of_a_processor")
}

fn program(name: &str) -> [String; 4] {
    let program = std::env::current_exe().unwrap().display().to_string();
    [&program, "--ignored", "--exact", name].map(str::to_owned)
}

/// Whether it was refused, which is said aloud.
fn is_refused(said: &str) -> bool {
    let is_refused = said.contains("cannot profile: the kernel gives no samples");
    if is_refused {
        eprintln!("skipped: {said}");
    }
    is_refused
}

/// The functions of each sample, outermost first, out of what its sequence has said before.
fn stacks(packets: &[TracePacket]) -> Vec<(u32, Vec<String>, bool)> {
    let (mut stacks, mut samples) = (Stacks::default(), Vec::new());
    for packet in packets {
        stacks.hear(packet);
        if let Some(Data::PerfSample(sample)) = &packet.data {
            let Some(functions) = stacks.functions(sample.callstack_iid()) else { continue };
            samples.push((sample.pid(), functions, sample.optional_unwind_error.is_none()));
        }
    }
    samples
}

#[test]
fn the_shares_of_functions_are_those_that_they_have() {
    let place = Place::new();
    let output = place.ferretto(&["profile", "--own", "-o", "t", "--"]).args(work()).output().unwrap();
    let said = stderr(&output);
    if is_refused(&said) {
        return;
    }
    assert_status(&output, 0);
    let samples = stacks(&packets(&place.path("t")));
    // A second at 999 a second; of a virtual machine whose processors are others' for half of the time the half.
    assert!((200..1200).contains(&samples.len()), "{} samples\n{said}", samples.len());
    let whole = samples.iter().filter(|(_, _, is_whole)| *is_whole).count();
    assert!(whole * 100 >= samples.len() * 95, "{whole} of {}", samples.len());
    for (name, share) in SHARES {
        let within = |stack: &Vec<String>| stack.iter().any(|function| function.contains(name));
        let found =
            samples.iter().filter(|(_, stack, _)| within(stack)).count() as f64 / samples.len() as f64;
        // Of a thousand samples the noise is 1.5 points.
        assert!((found - share).abs() < 0.06, "{name}: {found}\n{said}");
    }
    for part in ["Profile: ", "999 a second", "profile::spin", "profile::six_tenths", "uses_a_second_o"] {
        assert!(said.contains(part), "{part:?} in\n{said}");
    }
    let spinning = |stack: &Vec<String>| stack.last().is_some_and(|innermost| !innermost.is_empty());
    assert!(samples.iter().filter(|(_, stack, _)| spinning(stack)).count() * 10 > samples.len() * 9);
}

#[test]
fn children_are_sampled_and_what_lives_a_moment_is_no_error() {
    let place = Place::new();
    let script = format!("{0} & {0} & wait", work().join(" "));
    let output =
        place.ferretto(&["profile", "--own", "-o", "t", "--", "sh", "-c", &script]).output().unwrap();
    if is_refused(&stderr(&output)) {
        return;
    }
    assert_status(&output, 0);
    let samples = stacks(&packets(&place.path("t")));
    let of_children = samples.iter().filter(|(_, stack, _)| stack.iter().any(|name| name.contains("_tenth")));
    let pids: std::collections::HashSet<u32> = of_children.map(|(pid, ..)| *pid).collect();
    assert_eq!(pids.len(), 2, "{}", stderr(&output));
    let output =
        place.ferretto(&["profile", "--own", "-o", "u", "--", "sh", "-c", "exit 7"]).output().unwrap();
    assert_status(&output, 7);
    assert!(stderr(&output).contains("Profile: "), "{}", stderr(&output));
}

#[test]
fn children_that_live_a_moment_have_all_of_their_samples() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: it takes root to see more than what each child begins anew");
        return;
    }
    let place = Place::new();
    let program = program("starts_children_that_live_a_moment");
    let mut profile = place.ferretto(&["profile", "--own", "-o", "t", "--"]);
    let output = profile.args(program).arg("--nocapture").output().unwrap();
    if is_refused(&stderr(&output)) {
        return;
    }
    assert_status(&output, 0);
    let stdout = String::from_utf8(output.stdout.clone()).unwrap();
    let said = stdout.lines().find_map(|line| line.split_once(&format!("{CHILDREN} of process "))).unwrap().1;
    let numbers: Vec<u32> = said.split(' ').filter_map(|word| word.parse().ok()).collect();
    let [parent, used_ms] = numbers[..] else { panic!("{said}") };
    let samples = stacks(&packets(&place.path("t")));
    let of_children = samples.iter().filter(|(pid, ..)| *pid != parent).count() as f64;
    let of_itself =
        samples.iter().filter(|(_, stack, _)| stack.iter().any(|name| name.contains("runs_itself")));
    let share_of_itself = of_itself.count() as f64 / (MOMENT * CHILDREN_COUNT).as_millis() as f64;
    let share_of_children = of_children / f64::from(used_ms);
    // Of a virtual machine whose processors are others' the timer comes late, for all.
    assert!(
        share_of_children > 0.7 * share_of_itself && share_of_itself > 0.2,
        "{share_of_children} of {used_ms} ms, itself {share_of_itself}\n{}",
        stderr(&output)
    );
}

/// That is how they have them.
#[test]
fn roots_command_runs_in_a_control_group_that_is_gone_at_the_end() {
    // No other hierarchy has the controller of events (cgroups(7)).
    let controllers = std::fs::read_to_string("/proc/cgroups").unwrap_or_default();
    let has_events =
        controllers.lines().any(|line| line.starts_with("perf_event\t0\t") && line.ends_with("\t1"));
    let in_a_hierarchy = std::fs::read_to_string("/proc/self/cgroup").unwrap().contains("0::/") && has_events;
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let place_of = |line: &str| {
        let (fields, kind) = line.split_once(" - ")?;
        kind.starts_with("cgroup2 ").then(|| fields.split(' ').nth(4).unwrap().to_owned())
    };
    let mounted = mounts.lines().find_map(place_of).filter(|_| in_a_hierarchy);
    let is_writable =
        |place: &String| rustix::fs::access(place.as_str(), rustix::fs::Access::WRITE_OK).is_ok();
    let Some(mounted) = mounted.filter(is_writable) else {
        return eprintln!("skipped: there are no control groups that this user may make");
    };
    let place = Place::new();
    let mut profile = place.ferretto(&["profile", "--own", "-o", "t", "--", "cat", "/proc/self/cgroup"]);
    let output = profile.output().unwrap();
    if is_refused(&stderr(&output)) {
        return;
    }
    assert_status(&output, 0);
    let groups = String::from_utf8(output.stdout).unwrap();
    let group = groups.lines().find_map(|line| line.strip_prefix("0::")).unwrap();
    let name = group.rsplit('/').next().unwrap();
    assert!(name.starts_with("ferretto-profile-"), "{groups}");
    assert!(!std::path::Path::new(&mounted).join(group.trim_start_matches('/')).exists());
}

#[test]
fn a_program_that_runs_already_is_sampled_until_it_ends() {
    let place = Place::new();
    let [program, args @ ..] = work();
    let mut running = std::process::Command::new(program).args(args).spawn().unwrap();
    let pid = running.id().to_string();
    let mut profile = place.ferretto(&["profile", "--own", "-o", "t", "-p", &pid]);
    let profile = std::thread::spawn(move || profile.output().unwrap());
    running.wait().unwrap();
    let output = profile.join().unwrap();
    if is_refused(&stderr(&output)) {
        return;
    }
    assert_status(&output, 0);
    let all = packets(&place.path("t"));
    let samples = stacks(&all);
    let spinning = samples.iter().filter(|(_, stack, _)| stack.iter().any(|name| name.contains("_tenth")));
    assert!(spinning.count() * 10 > samples.len() * 9 && samples.len() > 100, "{}", stderr(&output));
    assert!(samples.iter().all(|(of, ..)| of.to_string() == pid), "{pid}");
    let whole = samples.iter().filter(|(_, _, is_whole)| *is_whole).count();
    assert!(whole * 100 >= samples.len() * 95, "{whole} of {}", samples.len());
    // Its threads had their names before.
    assert!(stderr(&output).contains("%  uses_a_second_o"), "{}", stderr(&output));
}

#[test]
fn faults_are_where_memory_is_used_for_the_first_time() {
    let place = Place::new();
    let output =
        place.ferretto(&["profile", "--own", "--faults", "-o", "t", "--", "sh", "-c", "true"]).output();
    let output = output.unwrap();
    if is_refused(&stderr(&output)) {
        return;
    }
    assert_status(&output, 0);
    assert!(stderr(&output).contains("samples, one for each of page-faults"), "{}", stderr(&output));
    let samples = stacks(&packets(&place.path("t")));
    let whole = samples.iter().filter(|(_, _, is_whole)| *is_whole).count();
    // From the loader's first instruction on, which nothing says how to unwind.
    assert!(samples.len() > 10 && whole * 10 >= samples.len() * 9, "{whole} of {}", samples.len());
}

#[test]
fn waits_have_a_sample_for_each_moment_of_them() {
    let place = Place::new();
    let output = place
        .ferretto(&["profile", "--own", "--off-cpu", "-n", "99", "-o", "t", "--"])
        .args(program("waits"))
        .arg("--nocapture")
        .output()
        .unwrap();
    if is_refused(&stderr(&output)) {
        return;
    }
    assert_status(&output, 0);
    let samples = stacks(&packets(&place.path("t")));
    let told = String::from_utf8(output.stdout.clone()).unwrap();
    for (name, at_least_ms) in [("sleeps_half_a_second", 500), ("waits_for_a_lock", 100)] {
        let within = |stack: &Vec<String>| stack.iter().any(|function| function.contains(name));
        let found = samples.iter().filter(|(_, stack, _)| within(stack)).count();
        // What it has taken as the program knows it: sleeps are longer than they should be on a busy machine.
        let took = told.lines().find_map(|line| line.split_once(&format!("{name} took "))).unwrap().1;
        let took_ms: usize = took.split(' ').next().unwrap().parse().unwrap();
        // A millisecond each.
        assert!(took_ms >= at_least_ms, "{told}");
        assert!(
            (took_ms * 9 / 10..=took_ms * 21 / 20 + 2).contains(&found),
            "{name}: {found} of {took_ms}\n{}",
            stderr(&output)
        );
    }
    for part in ["999 a second of a thread's waiting", "profile::sleeps_half_a_second"] {
        assert!(stderr(&output).contains(part), "{part:?} in\n{}", stderr(&output));
    }
}

#[test]
fn what_cannot_be_profiled_is_said_before_anything_is_written() {
    let place = Place::new();
    for (args, part) in [
        (&["profile", "--", "no-such-program-here"][..], "no-such-program-here"),
        (&["profile", "-F", "0", "--", "true"], "0 is not in 1..=50000"),
        (&["profile"], "COMMAND"),
        (&["profile", "-p", "2147483646"], "there is no process 2147483646"),
        (&["profile", "-p", "1", "--", "true"], "cannot be used with"),
        (&["profile", "--off-cpu", "--faults", "--", "true"], "cannot be used with"),
        (&["profile", "-e", "fault", "--", "true"], "there are cpu-clock, task-clock, page-faults"),
        (&["profile", "-e", "no_such_group:event", "--", "true"], "no tracepoint no_such_group:event"),
        (&["profile", "-e", "faults", "--filter", "x == 1", "--", "true"], "--filter is of tracepoints"),
    ] {
        let output = place.ferretto(args).output().unwrap();
        assert!(!output.status.success() && stderr(&output).contains(part), "{}", stderr(&output));
    }
    assert!(place.files().is_empty());
}
