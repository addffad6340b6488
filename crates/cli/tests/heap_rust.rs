//! `ferretto profile --heap` on a program in Rust that has the SDK's allocator, which is this one; with the library that is loaded before a program, and without.

mod common;

use std::alloc::System;
use std::hint::black_box;
use std::process::{Command, Output};

use common::heap::{Figures, Heap, assert_about};
use common::{Place, assert_status, copy_program, packets, stderr};

#[global_allocator]
static ALLOCATOR: ferretto::heap::Profiled<System> = ferretto::heap::Profiled::new(System);
static ARENA: ferretto::heap::Heap = ferretto::heap::Heap::new("org.example.arena");
static OTHER: ferretto::heap::Heap = ferretto::heap::Heap::new("org.example.other");

const BLOCKS: u64 = 1000;
const BLOCK_BYTES: u64 = 1000;
const KEPT: u64 = BLOCKS * BLOCK_BYTES;

#[inline(never)]
fn site_kept() {
    (0..BLOCKS).for_each(|_| std::mem::forget(black_box(vec![1u8; BLOCK_BYTES as usize])));
    black_box(());
}

#[inline(never)]
fn site_zeroed() {
    (0..BLOCKS).for_each(|_| std::mem::forget(black_box(vec![0u8; BLOCK_BYTES as usize])));
    black_box(());
}

#[inline(never)]
fn site_returned() {
    (0..BLOCKS).for_each(|_| drop(black_box(vec![2u8; BLOCK_BYTES as usize])));
    black_box(());
}

#[inline(never)]
fn site_grown() {
    let mut vec = Vec::new();
    (0..1 << 16).for_each(|n: u32| vec.push(n as u8));
    std::mem::forget(black_box(vec));
}

#[inline(never)]
fn site_of_arena() {
    for id in 1..=2 * BLOCKS {
        ARENA.allocated(id, BLOCK_BYTES);
        OTHER.allocated(id, 2 * BLOCK_BYTES);
    }
    (1..=BLOCKS).for_each(|id| ARENA.freed(id * 2));
    // Those it has not handed out.
    (10_000..20_000).for_each(|id| ARENA.freed(id));
}

#[test]
#[ignore = "a program of the other tests, not one itself"]
fn keeps() {
    site_kept();
    std::thread::spawn(site_kept).join().unwrap();
    site_zeroed();
    site_returned();
    site_grown();
    site_of_arena();
    std::process::exit(0)
}

#[test]
#[ignore = "a program of the other tests, not one itself"]
fn starts_itself() {
    let mut itself = Command::new(std::env::current_exe().unwrap());
    assert!(itself.args(["--ignored", "--exact", "keeps"]).status().unwrap().success());
    site_kept();
    std::process::exit(0)
}

/// By a binary that has no library beside it, or by one that is told of the library.
fn profile(place: &Place, with_library: bool, interval: &str, what: &str) -> Output {
    let alone = place.path("ferretto");
    if !alone.exists() {
        copy_program(env!("CARGO_BIN_EXE_ferretto"), &alone);
    }
    let args = ["profile", "--heap", "--own", "-o", "t", "--ring", "128mb", "--interval", interval, "--"];
    let mut profile = place.command(&alone, &args);
    let itself = std::env::current_exe().unwrap();
    if with_library {
        profile.env("FERRETTO_PRELOAD", itself.parent().unwrap().join("libferretto_preload.so"));
    } else {
        profile.env_remove("FERRETTO_PRELOAD");
    }
    let output = profile.arg(itself).args(["--ignored", "--exact", what]).output().unwrap();
    assert_status(&output, 0);
    output
}

/// Exactly what the functions above keep.
fn assert_kept(heap: &Heap, times: u64, output: &Output) {
    assert_eq!(heap.live("site_kept"), times * KEPT, "{}", stderr(output));
    assert_eq!(heap.live("site_zeroed"), KEPT);
    assert_eq!(heap.of("site_returned"), Figures { allocated: KEPT, freed: KEPT, max: 0 });
    assert_eq!(heap.live("site_grown"), 1 << 16);
}

fn assert_arenas(place: &Place) {
    let packets = packets(&place.path("t"));
    let arena = Heap::read_heap(&packets, "org.example.arena");
    assert_eq!(arena.of("site_of_arena"), Figures { allocated: 2 * KEPT, freed: KEPT, max: 0 });
    let other = Heap::read_heap(&packets, "org.example.other");
    assert_eq!(other.of("site_of_arena"), Figures { allocated: 4 * KEPT, freed: 0, max: 0 });
}

#[test]
fn without_a_library_every_byte_is_in_the_heap_of_the_program_or_in_that_of_its_arena() {
    let place = Place::new();
    let output = profile(&place, false, "1", "keeps");
    let packets = packets(&place.path("t"));
    assert_kept(&Heap::read_heap(&packets, "rust.global"), 2, &output);
    assert_eq!(Heap::read(&packets).sites.len(), 0, "there is no library");
    assert_arenas(&place);
    for part in ["heap_rust::site_kept", "B  heap_rust::site_of_arena < ", ", in org.example.arena"] {
        assert!(stderr(&output).contains(part), "{part:?} in\n{}", stderr(&output));
    }
}

#[test]
fn beside_the_library_a_block_is_counted_once() {
    let place = Place::new();
    let output = profile(&place, true, "1", "keeps");
    let packets = packets(&place.path("t"));
    assert_kept(&Heap::read(&packets), 2, &output);
    assert_eq!(Heap::read_heap(&packets, "rust.global").sites.len(), 0);
    assert_arenas(&place);
}

#[test]
fn each_process_has_its_own() {
    let place = Place::new();
    let output = profile(&place, false, "1", "starts_itself");
    let heap = Heap::read_heap(&packets(&place.path("t")), "rust.global");
    assert_kept(&heap, 3, &output);
    assert_eq!(heap.pids("site_kept").len(), 2);
}

#[test]
fn samples_stand_for_what_there_is() {
    let mut all = [0; 3];
    for _ in 0..4 {
        let place = Place::new();
        profile(&place, false, "16k", "keeps");
        let packets = packets(&place.path("t"));
        all[0] += Heap::read_heap(&packets, "rust.global").live("site_kept");
        all[1] += Heap::read_heap(&packets, "org.example.arena").live("site_of_arena");
        all[2] += Heap::read_heap(&packets, "org.example.other").live("site_of_arena");
    }
    for (found, expected) in all.into_iter().zip([2 * KEPT, KEPT, 4 * KEPT]) {
        assert_about(found, 4 * expected, 16 << 10);
    }
}
