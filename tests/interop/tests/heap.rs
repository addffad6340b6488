//! Heaps of `ferretto profile --heap` and `ferretto heap`, as the real Trace Processor reads them.

use std::hint::black_box;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use ferretto_interop::{
    Maker, Peers, TraceQuery, World, config, end_into_file, ferretto, need, through_each_service, trace_query,
};

const BLOCKS: i64 = 2000;
const BLOCK_BYTES: i64 = 1000;
const KEPT: i64 = BLOCKS * BLOCK_BYTES;

fn blocks() -> Vec<Vec<u8>> {
    (0..BLOCKS).map(|_| black_box(vec![1u8; BLOCK_BYTES as usize])).collect()
}

#[inline(never)]
fn site_held() {
    std::mem::forget(black_box(blocks()));
    black_box(());
}

#[inline(never)]
fn site_returned() {
    drop(black_box(blocks()));
    black_box(());
}

/// The program that is profiled: this one.
#[test]
#[ignore = "a program of the other tests, not one itself"]
fn allocates() {
    site_returned();
    site_held();
    std::process::exit(0);
}

/// The same, when it is told to.
#[test]
#[ignore = "a program of the other tests, not one itself"]
fn allocates_later() {
    std::io::stdin().read_line(&mut String::new()).unwrap();
    site_returned();
    site_held();
    std::process::exit(0);
}

/// What stacks have with a function that is called like NAME.
const OF_SITE: &str = "with recursive up(bytes, number, site) as (
         select size, count, callsite_id from heap_profile_allocation where heap_name = 'libc.malloc'
         union all select bytes, number, parent_id from up join stack_profile_callsite c on c.id = site where parent_id is not null)
     select WHAT from up join stack_profile_callsite c on c.id = site
     join stack_profile_frame f on f.id = c.frame_id where f.name glob '*NAME*' CONDITION";

fn of_site(name: &str, what: &str, condition: &str) -> String {
    OF_SITE.replace("NAME", name).replace("WHAT", what).replace("CONDITION", condition)
}

/// It is a dev-dependency of this package, so Cargo leaves it beside the tests.
fn library() -> PathBuf {
    let library = std::env::current_exe().unwrap().parent().unwrap().join("libferretto_preload.so");
    assert!(library.exists(), "Cargo builds it for these tests: {}", library.display());
    library
}

/// The bytes of a profile with these arguments: what is held at one place, what the other one has allocated and freed, and dumps.
fn profiled(peers: &Peers, sql: &TraceQuery, args: &[&str]) -> (Vec<i64>, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t");
    let mut profile = peers.ferretto();
    profile.env("FERRETTO_PRELOAD", library());
    profile.args(["profile", "--heap", "--own", "--ring", "64mb", "-o"]).arg(&trace).args(args).arg("--");
    let output = profile
        .arg(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "allocates"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let answers = sql.numbers(
        &trace,
        &[
            &of_site("site_held", "coalesce(sum(bytes), 0)", ""),
            &of_site("site_returned", "coalesce(sum(bytes), 0)", "and bytes > 0"),
            &of_site("site_returned", "coalesce(sum(bytes), 0)", "and bytes < 0"),
            &of_site("site_held", "coalesce(sum(number), 0)", ""),
            "select count(*) from heap_profile_allocation join process using (upid) where process.name glob '*heap-*'",
        ],
    );
    (answers, sql.losses(&trace))
}

/// The list of blocks itself.
fn list() -> i64 {
    BLOCKS * size_of::<Vec<u8>>() as i64
}

#[test]
fn trace_processor_has_every_byte_of_a_heap_with_who_has_allocated_it() {
    let sql = need!(trace_query());
    let peers = need!(ferretto());
    let (answers, losses) = profiled(&peers, &sql, &["--interval", "1"]);
    let [held, allocated, freed, blocks, named] = answers.as_slice() else { panic!("{answers:?}") };
    assert_eq!((*held, *allocated, *freed), (KEPT + list(), KEPT + list(), -(KEPT + list())));
    assert_eq!((*blocks, losses), (BLOCKS + 1, Vec::<String>::new()));
    assert!(*named > 0, "whose heap it is");
}

#[test]
fn trace_processor_has_samples_that_stand_for_what_there_is() {
    const INTERVAL: i64 = 4096;
    let sql = need!(trace_query());
    let peers = need!(ferretto());
    let (answers, losses) = profiled(&peers, &sql, &["--interval", "4k"]);
    // Five sigma: the noise is that of so many points as there are intervals.
    let noise = 5.0 * ((KEPT * INTERVAL) as f64).sqrt();
    for (found, expected) in
        [(answers[0], KEPT + list()), (answers[1], KEPT + list()), (-answers[2], KEPT + list())]
    {
        assert!(((found - expected) as f64).abs() < noise, "{answers:?}");
    }
    assert_eq!(losses, Vec::<String>::new());
}

/// `ferretto heap`, as the data source of a service, and a program that runs when the session begins.
mod daemon {
    use super::*;

    through_each_service!(check);

    fn check(peers: &Peers, maker: Maker) {
        let sql = need!(trace_query());
        let ours = need!(ferretto());
        let socket = format!("@ferretto-interop-{maker:?}-{}", std::process::id());
        let mut world = World::with_traced(peers, maker);
        let mut heap = ours.ferretto();
        heap.args(["heap", "--ring", "128mb"]).env("FERRETTO_HEAP", &socket);
        world.start(heap, "heap");
        world.wait_for_data_source("android.heapprofd");
        let mut running = Command::new(std::env::current_exe().unwrap());
        running.args(["--ignored", "--exact", "allocates_later"]).stdin(Stdio::piped()).stdout(Stdio::null());
        running.env("FERRETTO_HEAP", &socket).env("LD_PRELOAD", library());
        let mut running = running.spawn().unwrap();
        std::thread::sleep(Duration::from_millis(500));
        let text = format!(
            r#"buffers {{ size_kb: 65536 }}
            data_sources {{ config {{ name: "android.heapprofd" heapprofd_config {{
                sampling_interval_bytes: 1 pid: {}
            }} }} }}"#,
            running.id()
        );
        let mut consumer = world.consumer();
        consumer.enable_tracing(config(&text), None).expect("a session");
        std::thread::sleep(Duration::from_secs(1));
        running.stdin.take().unwrap().write_all(b"\n").unwrap();
        assert!(running.wait().unwrap().success());
        let trace = world.path("trace");
        end_into_file(&mut consumer, &trace);
        let answers = sql.numbers(
            &trace,
            &[
                &of_site("site_held", "coalesce(sum(bytes), 0)", ""),
                &of_site("site_returned", "coalesce(sum(bytes), 0)", "and bytes > 0"),
                &of_site("site_returned", "coalesce(sum(bytes), 0)", "and bytes < 0"),
            ],
        );
        let [held, allocated, freed] = answers.as_slice() else { panic!("{answers:?}") };
        // What went before the thread has looked whether there is a session is not there: 4 KiB at most.
        let all = KEPT + list();
        assert!(
            *held == all && (all - 4096..=all).contains(allocated) && -freed == *allocated,
            "{answers:?}"
        );
        assert_eq!(sql.losses(&trace), Vec::<String>::new());
    }
}
