//! `ferretto profile --heap`, on programs whose blocks are known. The library that it needs is beside these tests: it is a dev-dependency of this package.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use common::heap::{Figures, Heap, assert_about};
use common::{Place, assert_status, packets, stderr};

const LIBRARY: &str = "libferretto_preload.so";

/// What the programs below keep, each at a place of its own.
const BLOCKS: usize = 2000;
const BLOCK_BYTES: usize = 1000;
const KEPT: u64 = (BLOCKS * BLOCK_BYTES) as u64;

#[inline(never)]
fn site_held() -> Vec<Vec<u8>> {
    let mut all = Vec::with_capacity(BLOCKS);
    all.extend((0..BLOCKS).map(|_| black_box(vec![1u8; BLOCK_BYTES])));
    black_box(all)
}

#[inline(never)]
fn site_returned() {
    (0..BLOCKS).for_each(|_| drop(black_box(vec![2u8; BLOCK_BYTES])));
    black_box(());
}

#[inline(never)]
fn site_grown() -> Vec<u8> {
    let mut vec = Vec::new();
    (0..1 << 20).for_each(|n: u32| vec.push(n as u8));
    black_box(vec)
}

#[inline(never)]
fn site_peak() {
    let blocks: Vec<Vec<u8>> = (0..BLOCKS).map(|_| black_box(vec![3u8; 4 * BLOCK_BYTES])).collect();
    drop(black_box(blocks));
}

fn ends() -> ! {
    // The harness would free and print, and its threads would end.
    std::process::exit(0)
}

#[test]
#[ignore = "a program of the other tests, not one itself"]
fn keeps_and_gives_back() {
    site_peak();
    std::mem::forget(site_held());
    site_returned();
    std::mem::forget(site_grown());
    ends();
}

#[test]
#[ignore = "a program of the other tests, not one itself"]
fn four_threads_keep() {
    let threads: Vec<_> = (0..4).map(|_| std::thread::spawn(|| std::mem::forget(site_held()))).collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    ends();
}

#[test]
#[ignore = "a program of the other tests, not one itself"]
fn is_killed() {
    std::mem::forget(site_held());
    let itself = rustix::process::getpid();
    rustix::process::kill_process(itself, rustix::process::Signal::KILL).unwrap();
    std::thread::sleep(Duration::from_secs(60));
}

#[test]
#[ignore = "a program of the other tests, not one itself"]
fn takes_a_second() {
    std::mem::forget(site_held());
    std::thread::sleep(Duration::from_secs(1));
    ends();
}

fn itself(name: &str) -> [String; 4] {
    let program = std::env::current_exe().unwrap().display().to_string();
    [&program, "--ignored", "--exact", name].map(str::to_owned)
}

fn library() -> PathBuf {
    let library = std::env::current_exe().unwrap().parent().unwrap().join(LIBRARY);
    assert!(library.exists(), "Cargo builds it for these tests: {}", library.display());
    library
}

fn profile(place: &Place, args: &[&str], command: &[impl AsRef<std::ffi::OsStr>]) -> Output {
    let mut profile = place.ferretto(&["profile", "--heap", "--own", "-o", "t"]);
    profile.env("FERRETTO_PRELOAD", library()).args(["--ring", "64mb"]).args(args).arg("--").args(command);
    profile.output().unwrap()
}

#[test]
fn with_a_sample_of_every_block_every_byte_is_there() {
    let place = Place::new();
    let output = profile(&place, &["--interval", "1"], &itself("keeps_and_gives_back"));
    assert_status(&output, 0);
    let heap = Heap::read(&packets(&place.path("t")));
    // The vector of vectors, too.
    let list = (BLOCKS * size_of::<Vec<u8>>()) as u64;
    assert_eq!(heap.live("site_held"), KEPT + list, "{}", stderr(&output));
    assert_eq!(heap.of("site_returned"), Figures { allocated: KEPT, freed: KEPT, max: 0 });
    // Each size is there in its turn, and the last one stays: 1 MiB and what was before it.
    let grows = heap.of("site_grown");
    assert_eq!(grows.allocated - grows.freed, 1 << 20);
    assert!(((2 << 20) - 64..2 << 20).contains(&grows.allocated), "{grows:?}");
    for part in ["one for each 1 byte", "heap::site_held < ", "not freed, by who has allocated it"] {
        assert!(stderr(&output).contains(part), "{part:?} in\n{}", stderr(&output));
    }
}

#[test]
fn samples_stand_for_what_there_is() {
    const INTERVAL: u64 = 16 << 10;
    let mut all = Figures::default();
    for _ in 0..4 {
        let place = Place::new();
        let output = profile(&place, &["--interval", "16k"], &itself("keeps_and_gives_back"));
        assert_status(&output, 0);
        let heap = Heap::read(&packets(&place.path("t")));
        all.allocated += heap.live("site_held");
        all.freed += heap.of("site_returned").freed;
    }
    // The list of 48 kB is more than an interval, and so is there itself.
    let list = (BLOCKS * size_of::<Vec<u8>>()) as u64;
    assert_about(all.allocated - 4 * list, 4 * KEPT, INTERVAL);
    assert_about(all.freed, 4 * KEPT, INTERVAL);
}

#[test]
fn what_threads_allocate_is_there() {
    let place = Place::new();
    let output = profile(&place, &["--interval", "1"], &itself("four_threads_keep"));
    assert_status(&output, 0);
    let heap = Heap::read(&packets(&place.path("t")));
    let list = (BLOCKS * size_of::<Vec<u8>>()) as u64;
    assert_eq!(heap.live("site_held"), 4 * (KEPT + list), "{}", stderr(&output));
}

#[test]
fn of_a_program_that_is_killed_what_was_known_is_kept() {
    let place = Place::new();
    let output = profile(&place, &["--interval", "1"], &itself("is_killed"));
    assert_status(&output, 137);
    let heap = Heap::read(&packets(&place.path("t")));
    assert!(heap.live("site_held") >= KEPT, "{}", stderr(&output));
}

#[test]
fn a_program_that_takes_the_place_of_another_has_the_process_for_itself() {
    let place = Place::new();
    let script = format!("exec {}", itself("keeps_and_gives_back").join(" "));
    let output = profile(&place, &["--interval", "1"], &["sh", "-c", &script]);
    assert_status(&output, 0);
    let heap = Heap::read(&packets(&place.path("t")));
    let list = (BLOCKS * size_of::<Vec<u8>>()) as u64;
    assert_eq!(heap.live("site_held"), KEPT + list, "{}", stderr(&output));
    let pids: BTreeSet<u32> = heap.sites.keys().map(|(pid, _)| *pid).collect();
    assert_eq!(pids.len(), 1, "{:?}", heap.sites.keys());
}

#[test]
fn the_peak_has_what_was_there_then() {
    let place = Place::new();
    let output = profile(&place, &["--interval", "1", "--at-peak"], &itself("keeps_and_gives_back"));
    assert_status(&output, 0);
    let heap = Heap::read(&packets(&place.path("t")));
    assert!(heap.of("site_peak").max >= 4 * KEPT, "{}", stderr(&output));
    assert_eq!(heap.of("site_held").max, 0);
}

#[test]
fn dumps_come_as_often_as_they_are_asked_for() {
    let place = Place::new();
    let output = profile(&place, &["--interval", "1", "--dump-every", "100ms"], &itself("takes_a_second"));
    assert_status(&output, 0);
    let heap = Heap::read(&packets(&place.path("t")));
    assert!(heap.dumps >= 3, "{} dumps", heap.dumps);
    let list = (BLOCKS * size_of::<Vec<u8>>()) as u64;
    assert_eq!(heap.live("site_held"), KEPT + list);
}

/// Every function of the C library that gives memory, and children.
const C_PROGRAM: &str = r#"
#define _GNU_SOURCE
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#define SITE __attribute__((noinline)) void
void *volatile kept[4096];
int count;
static void keep(void *block) { if (!block) abort(); memset(block, 1, 1); kept[count++] = block; }
SITE by_malloc(void) { for (int i = 0; i < 100; i++) keep(malloc(1000)); }
SITE by_calloc(void) { for (int i = 0; i < 100; i++) keep(calloc(10, 100)); }
SITE by_posix_memalign(void) { for (int i = 0; i < 100; i++) { void *p = 0; if (posix_memalign(&p, 64, 1000)) abort(); keep(p); } }
SITE by_aligned_alloc(void) { for (int i = 0; i < 100; i++) keep(aligned_alloc(64, 1024)); }
SITE by_memalign(void) { for (int i = 0; i < 100; i++) keep(memalign(64, 1000)); }
SITE by_valloc(void) { for (int i = 0; i < 10; i++) keep(valloc(1000)); }
SITE by_reallocarray(void) { for (int i = 0; i < 100; i++) keep(reallocarray(NULL, 10, 100)); }
SITE by_realloc_chain(void) { char *p = NULL; for (int i = 1; i <= 1000; i++) { p = realloc(p, i * 100); p[i * 100 - 1] = 1; } keep(p); }
SITE by_realloc_to_nothing(void) { for (int i = 0; i < 100; i++) { void *volatile p = malloc(1000); p = realloc(p, 0); if (p) free(p); } }
SITE by_realloc_that_fails(void) { void *p = malloc(1000); volatile size_t much = PTRDIFF_MAX; if (realloc(p, much)) abort(); keep(p); }
SITE in_child(void) { for (int i = 0; i < 100; i++) keep(malloc(1000)); }
SITE frees_the_parents(void) { for (int i = 0; i < 100; i++) { free(kept[i]); kept[i] = 0; } }
int main(void) {
    by_malloc(); by_calloc(); by_posix_memalign(); by_aligned_alloc(); by_memalign(); by_valloc(); by_reallocarray();
    by_realloc_chain(); by_realloc_to_nothing(); by_realloc_that_fails();
    for (int i = 0; i < 3; i++) {
        pid_t child = fork();
        if (child == 0) { frees_the_parents(); in_child(); if (i == 2 && fork() == 0) { in_child(); _exit(0); } while (wait(NULL) > 0); _exit(0); }
        int status;
        if (waitpid(child, &status, 0) != child || status) return 1;
    }
    free(NULL);
    printf("%zu\n", malloc_usable_size(kept[0]) >= 1000 ? (size_t)count : 0);
    return 42;
}
"#;

/// A program in C, if there is a compiler.
fn compiled(place: &Place, flags: &[&str]) -> Option<PathBuf> {
    compiled_from(place, C_PROGRAM, flags)
}

fn compiled_from(place: &Place, text: &str, flags: &[&str]) -> Option<PathBuf> {
    let (source, program) = (place.write("program.c", text), place.path("program"));
    let done = Command::new("cc").args(["-g", "-O1", "-o"]).arg(&program).arg(&source).args(flags).output();
    match done {
        Ok(done) if done.status.success() => Some(program),
        Ok(done) => {
            eprintln!("skipped: cc {flags:?}: {}", stderr(&done));
            None
        }
        Err(error) => {
            eprintln!("skipped: there is no cc: {error}");
            None
        }
    }
}

#[test]
fn every_function_that_gives_memory_is_heard_and_each_child_has_its_own() {
    let place = Place::new();
    let Some(program) = compiled(&place, &[]) else { return };
    let output = profile(&place, &["--interval", "1"], &[&program]);
    assert_status(&output, 42);
    assert_eq!(output.stdout, b"612\n");
    let heap = Heap::read(&packets(&place.path("t")));
    let mut expected = BTreeMap::new();
    for site in ["by_malloc", "by_calloc", "by_posix_memalign", "by_memalign", "by_reallocarray"] {
        expected.insert(site, 100_000);
    }
    expected.extend([("by_aligned_alloc", 102_400), ("by_valloc", 10_000), ("by_realloc_chain", 100_000)]);
    expected.extend([("by_realloc_to_nothing", 0), ("by_realloc_that_fails", 1000), ("in_child", 400_000)]);
    for (site, bytes) in expected {
        assert_eq!(heap.live(site), bytes, "{site}: {:?}\n{}", heap.of(site), stderr(&output));
    }
    // Each step is a block of its own: of 100, 200, … 100,000 bytes.
    assert_eq!(heap.of("by_realloc_chain").allocated, 50_050_000);
    assert_eq!(heap.of("by_realloc_to_nothing").freed, 100_000);
    assert_eq!(heap.pids("in_child").len(), 4);
    assert_eq!(heap.pids("by_malloc").len(), 1);
}

#[test]
fn a_program_without_a_loader_is_refused() {
    let place = Place::new();
    let Some(program) = compiled(&place, &["-static"]) else { return };
    let output = profile(&place, &[], &[&program]);
    assert_status(&output, 1);
    assert!(stderr(&output).contains("linked statically"), "{}", stderr(&output));
}

/// Heaps of a program's own, by upstream's functions. They are not there without the library.
const C_HEAPS: &str = r#"
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
#define WEAK __attribute__((weak))
#define SITE __attribute__((noinline)) void
typedef struct AHeapInfo AHeapInfo;
typedef struct AHeapProfileEnableCallbackInfo EnableInfo;
typedef struct AHeapProfileDisableCallbackInfo DisableInfo;
WEAK uint64_t AHeapProfileEnableCallbackInfo_getSamplingInterval(const EnableInfo *);
WEAK AHeapInfo *AHeapInfo_create(const char *);
WEAK AHeapInfo *AHeapInfo_setEnabledCallback(AHeapInfo *, void (*)(void *, const EnableInfo *), void *);
WEAK AHeapInfo *AHeapInfo_setDisabledCallback(AHeapInfo *, void (*)(void *, const DisableInfo *), void *);
WEAK uint32_t AHeapProfile_registerHeap(AHeapInfo *);
WEAK bool AHeapProfile_reportAllocation(uint32_t, uint64_t, uint64_t);
WEAK bool AHeapProfile_reportSample(uint32_t, uint64_t, uint64_t);
WEAK void AHeapProfile_reportFree(uint32_t, uint64_t);
static void enabled(void *data, const EnableInfo *info) { *(uint64_t *)data += AHeapProfileEnableCallbackInfo_getSamplingInterval(info); }
static void disabled(void *data, const DisableInfo *info) { (void)info; *(uint64_t *)data = 0; }
static int sampled;
SITE reports(uint32_t heap, uint64_t size) { for (uint64_t i = 1; i <= 2000; i++) sampled += AHeapProfile_reportAllocation(heap, i * 16, size); }
SITE chooses(uint32_t heap) { for (uint64_t i = 1; i <= 100; i++) if (!AHeapProfile_reportSample(heap, 1 << 20 | i, 5000)) sampled = -1; }
SITE frees(uint32_t heap) { for (uint64_t i = 1; i <= 1000; i++) AHeapProfile_reportFree(heap, i * 16); }
int main(void) {
    if (!AHeapInfo_create) { puts("no library"); return 0; }
    char longest[64] = {0}, toolong[65] = {0};
    for (int i = 0; i < 63; i++) longest[i] = 'x';
    for (int i = 0; i < 64; i++) toolong[i] = 'x';
    if (AHeapInfo_create(toolong) || AHeapInfo_create("") || AHeapInfo_create(NULL) || AHeapProfile_registerHeap(NULL)) return 1;
    uint64_t interval = 0;
    AHeapInfo *info = AHeapInfo_create("test.arena");
    if (AHeapInfo_setEnabledCallback(info, enabled, &interval) != info || AHeapInfo_setDisabledCallback(info, disabled, &interval) != info) return 2;
    if (interval) return 3;
    uint32_t arena = AHeapProfile_registerHeap(info);
    uint32_t other = AHeapProfile_registerHeap(AHeapInfo_create(longest));
    if (!arena || !other || arena == other) return 4;
    reports(0, 1000); reports(63, 1000); reports(4000000000u, 1000);
    if (sampled) return 5;
    reports(arena, 1000); reports(other, 500); chooses(other); frees(arena);
    fflush(stdout);
    if (fork() == 0) { reports(arena, 100); _exit(0); }
    int status;
    if (wait(&status) < 0 || status) return 6;
    printf("%llu %s\n", (unsigned long long)interval, sampled > 0 ? "sampled" : "not");
    return 0;
}
"#;

#[test]
fn heaps_of_a_programs_own_have_what_it_reports_and_nothing_else_has() {
    let place = Place::new();
    let Some(program) = compiled_from(&place, C_HEAPS, &[]) else { return };
    let output = profile(&place, &["--interval", "1"], &[&program]);
    assert_status(&output, 0);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "1 sampled\n");
    let packets = packets(&place.path("t"));
    let arena = Heap::read_heap(&packets, "test.arena");
    // Also of the child, whose numbers are those of the parent.
    let figures = Figures { allocated: 2_200_000, freed: 1_000_000, max: 0 };
    assert_eq!(arena.of("reports"), figures, "{}", stderr(&output));
    assert_eq!(arena.pids("reports").len(), 2);
    let other = Heap::read_heap(&packets, &"x".repeat(63));
    assert_eq!((other.live("reports"), other.live("chooses")), (1_000_000, 500_000));
    // The innermost function is the program's, not the library's.
    assert!(
        other
            .sites
            .values()
            .all(|(stack, _)| ["reports", "chooses"].contains(&stack.last().unwrap().as_str()))
    );
    assert_eq!(Heap::read(&packets).of("reports"), Figures::default());
    assert!(stderr(&output).contains(", in test.arena\n"), "{}", stderr(&output));
}

#[test]
fn samples_of_such_heaps_stand_for_what_there_is() {
    let place = Place::new();
    let Some(program) = compiled_from(&place, C_HEAPS, &[]) else { return };
    let mut live = [0; 2];
    for _ in 0..8 {
        let output = profile(&place, &["--interval", "8k"], &[&program]);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "8192 sampled\n");
        let packets = packets(&place.path("t"));
        live[0] += Heap::read_heap(&packets, "test.arena").of("reports").allocated;
        live[1] += Heap::read_heap(&packets, &"x".repeat(63)).of("reports").allocated;
    }
    assert_about(live[0], 8 * 2_200_000, 8192);
    assert_about(live[1], 8 * 1_000_000, 8192);
}

#[test]
fn a_program_that_reports_heaps_runs_without_the_library_and_without_a_profiler() {
    let place = Place::new();
    let Some(program) = compiled_from(&place, C_HEAPS, &[]) else { return };
    let run = |library: Option<PathBuf>| {
        let output = Command::new(&program)
            .env_remove("FERRETTO_HEAP")
            .envs(library.map(|it| ("LD_PRELOAD", it)))
            .output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    assert_eq!((run(None).as_str(), run(Some(library())).as_str()), ("no library\n", "0 not\n"),);
}

/// Programs that use much of what the C library has, and what they print.
#[test]
fn what_programs_do_is_what_they_do_without() {
    let place = Place::new();
    let source = place.write("a.c", "#include <stdio.h>\nint main(void) { puts(\"hello\"); return 0; }\n");
    let source = source.to_str().unwrap();
    let programs: [&[&str]; 6] = [
        &["git", "--no-pager", "log", "--oneline", "-20"],
        &[
            "python3",
            "-c",
            "import json, threading, subprocess\nt = [threading.Thread(target=lambda: json.loads(json.dumps([1] * 10000))) for _ in range(4)]\n[x.start() for x in t]; [x.join() for x in t]\nprint(subprocess.run(['sh', '-c', 'echo out; exit 3'], capture_output=True))",
        ],
        &[
            "bash",
            "-c",
            "for i in 1 2 3; do (echo $i; exit $i) || echo \"status $?\"; done; echo $(echo a | sort | cat) > x; cat x; ls /proc/self/fd | wc -l; exit 9",
        ],
        &[
            "perl",
            "-e",
            "my %h = map { $_ => 'x' x $_ } 1..2000; print scalar(keys %h), \"\\n\"; exec 'echo', 'end';",
        ],
        &["cc", "-S", "-O2", "-o", "-", source],
        &["sort", "-r", source],
    ];
    let preload = library();
    for command in programs {
        let plain = Command::new(command[0]).args(&command[1..]).current_dir(place.path(".")).output();
        let Ok(plain) = plain else {
            eprintln!("skipped: there is no {}", command[0]);
            continue;
        };
        // With a profiler, and with the library alone.
        let profiled = profile(&place, &["-q", "--interval", "256"], command);
        let idle = Command::new(command[0])
            .args(&command[1..])
            .current_dir(place.path("."))
            .env("LD_PRELOAD", &preload)
            .output()
            .unwrap();
        for with in [&profiled, &idle] {
            assert_eq!(with.status.code(), plain.status.code(), "{command:?}\n{}", stderr(with));
            let (with, plain) =
                (String::from_utf8_lossy(&with.stdout), String::from_utf8_lossy(&plain.stdout));
            assert_eq!(with, plain, "{command:?}");
        }
    }
}

#[test]
fn what_cannot_be_profiled_is_said_before_anything_is_written() {
    let place = Place::new();
    for (args, library, part) in [
        (
            &["--heap", "--", "true"][..],
            Path::new("/no/such/library.so"),
            "there is no library /no/such/library.so",
        ),
        (&["--heap", "-p", "1"], &library(), "cannot be used with"),
        (&["--heap", "--faults", "--", "true"], &library(), "cannot be used with"),
        (&["--heap"], &library(), "COMMAND"),
        (&["--heap", "--interval", "0", "--", "true"], &library(), "1 is a sample of every block"),
        (&["--interval", "1k", "--", "true"], &library(), "--heap"),
        (&["--heap", "--", "no-such-program-here"], &library(), "no-such-program-here"),
    ] {
        let output =
            place.ferretto(&["profile"]).args(args).env("FERRETTO_PRELOAD", library).output().unwrap();
        assert!(!output.status.success() && stderr(&output).contains(part), "{}", stderr(&output));
    }
    // Where there is none it is said how to get one.
    let alone = place.path("ferretto");
    std::fs::copy(env!("CARGO_BIN_EXE_ferretto"), &alone).unwrap();
    let output = place.command(&alone, &["profile", "--heap", "--", "true"]).output().unwrap();
    assert_status(&output, 1);
    assert!(stderr(&output).contains("cargo build --release -p ferretto-preload"), "{}", stderr(&output));
    assert_eq!(place.files(), ["ferretto"]);
}
