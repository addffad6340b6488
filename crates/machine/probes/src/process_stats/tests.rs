//! On this machine's own /proc.

use super::open_files::FDS_PACKET_BYTES;
use super::*;
use crate::ftrace::metadata::COMM_BYTES;
use crate::memory_files::MemoryFile;
use crate::memory_files::testing::Folder;
use crate::packets::testing::Recorded;
use ferretto_protos::TracePacket;

fn run(config: &ProcessStatsConfig, f: impl FnOnce(&mut ProcessStats, &mut Recorded)) -> Vec<TracePacket> {
    let mut source = ProcessStats::new(config, Rc::default());
    let mut out = Recorded::default();
    f(&mut source, &mut out);
    out.decoded()
}

fn own_pid() -> i32 {
    i32::try_from(std::process::id()).unwrap()
}

fn trees(packets: &[TracePacket]) -> Vec<&ferretto_protos::ProcessTree> {
    use ferretto_protos::trace_packet::Data;
    packets
        .iter()
        .filter_map(|p| match &p.data {
            Some(Data::ProcessTree(tree)) => Some(tree),
            _ => None,
        })
        .collect()
}

fn stats(packets: &[TracePacket]) -> Vec<&ferretto_protos::ProcessStats> {
    use ferretto_protos::trace_packet::Data;
    packets
        .iter()
        .filter_map(|p| match &p.data {
            Some(Data::ProcessStats(stats)) => Some(stats),
            _ => None,
        })
        .collect()
}

#[test]
fn a_full_scan_names_this_process_and_its_threads() {
    let thread = std::thread::Builder::new().name("probe-test".into());
    let (tell, wait) = std::sync::mpsc::channel::<()>();
    let (tell_named, named) = std::sync::mpsc::channel();
    let body = move || {
        // A thread takes its name when it runs for the first time.
        tell_named.send(()).unwrap();
        wait.recv().is_ok()
    };
    let thread = thread.spawn(body).unwrap();
    named.recv().unwrap();
    let config = ProcessStatsConfig {
        scan_all_processes_on_start: Some(true),
        record_thread_names: Some(true),
        record_process_age: Some(true),
        ..Default::default()
    };
    let packets = run(&config, |source, out| {
        source.start(out);
        source.finish_work(out);
    });
    drop(tell);
    thread.join().unwrap();
    let all = trees(&packets);
    let own = all.iter().flat_map(|tree| &tree.processes).find(|p| p.pid() == own_pid()).unwrap();
    let has_thread = |is: &dyn Fn(&ferretto_protos::process_tree::Thread) -> bool| {
        all.iter().flat_map(|tree| &tree.threads).any(is)
    };
    assert!(!own.cmdline.is_empty() && own.process_start_from_boot() > 0);
    assert!(has_thread(&|t| t.tgid() == own_pid() && t.name() == "probe-test"));
    assert!(has_thread(&|t| t.tid() == own_pid()), "the main thread has a message of its own");
    assert!(all[0].collection_end_timestamp() >= packets[0].timestamp());
}

/// Opens something so often whose path is nearly as long as paths can be.
fn open_with_long_paths(count: usize) -> (Folder, Vec<std::fs::File>) {
    let folder = Folder::new("paths");
    let mut path = folder.0.clone();
    for _ in 0..14 {
        path.push("x".repeat(250));
    }
    std::fs::create_dir_all(&path).unwrap();
    let open = || std::fs::File::open(&path).unwrap();
    (folder, std::iter::repeat_with(open).take(count).collect())
}

#[test]
fn open_files_with_long_paths_are_said_once_each_in_packets_that_are_not_large() {
    let (folder, files) = open_with_long_paths(200);
    let config = ProcessStatsConfig {
        scan_all_processes_on_start: Some(true),
        resolve_process_fds: Some(true),
        ..Default::default()
    };
    let packets = run(&config, |source, out| {
        // Other processes may have thousands of files open.
        source.turn = Duration::from_millis(1);
        source.start(out);
        source.finish_work(out);
    });
    let long = folder.0.to_str().unwrap();
    let stats = stats(&packets);
    let of_own = stats.iter().flat_map(|stats| &stats.processes).filter(|p| p.pid() == own_pid());
    let mut found: Vec<u64> =
        of_own.flat_map(|p| &p.fds).filter(|fd| fd.path().starts_with(long)).map(|fd| fd.fd()).collect();
    found.sort_unstable();
    let opened = files.iter().map(|file| u64::try_from(std::os::fd::AsRawFd::as_raw_fd(file)).unwrap());
    // Other tests open and close files meanwhile.
    let mut opened: Vec<u64> = opened.collect();
    opened.sort_unstable();
    assert_eq!(found, opened);
    let largest = stats.iter().map(|stats| prost::Message::encoded_len(*stats)).max().unwrap();
    assert!(largest < FDS_PACKET_BYTES + 8192, "{largest}");
}

#[test]
fn open_files_of_a_user_are_read_for_so_long_and_so_much_within_a_time() {
    let files = Rc::new(RefCell::new(MemoryFiles::default()));
    let of = Target { pid: own_pid(), uid: rustix::process::getuid().as_raw() };
    let config = ProcessStatsConfig {
        resolve_process_fds: Some(true),
        proc_stats_poll_ms: Some(1000),
        ..Default::default()
    };
    let count_of_own = || {
        let mut source = ProcessStats::new(&config, files.clone());
        let mut out = Recorded::default();
        source.turn = Duration::from_mins(1);
        source.work(&mut out);
        let packets = out.decoded();
        let own = stats(&packets).into_iter().flat_map(|stats| &stats.processes);
        own.filter(|process| process.pid() == own_pid()).map(|process| process.fds.len()).sum::<usize>()
    };
    assert!(count_of_own() > 0);
    // Others of this user's processes, and as much as one may have.
    files.borrow_mut().spend(&MemoryFile::FDS, of, Duration::ZERO, 8 << 20);
    assert_eq!(count_of_own(), 0);
}

#[test]
fn a_thread_seen_in_events_is_named_once_until_it_is_renamed() {
    let packets = run(&ProcessStatsConfig::default(), |source, out| {
        let mut pids = PidSet::default();
        pids.insert(own_pid());
        pids.insert(0);
        source.on_threads(&pids, &[], out);
        source.on_threads(&pids, &[], out);
        let other = Named { pid: own_pid(), comm: [b'x'; COMM_BYTES], time_ns: 1, birth: None };
        source.on_threads(&pids, &[other], out);
        source.clear_incremental_state();
        source.on_threads(&pids, &[], out);
    });
    assert_eq!(trees(&packets).len(), 3);
    assert!(
        trees(&packets).iter().all(|tree| tree.processes.len() == 1 && tree.processes[0].pid() == own_pid())
    );
    assert_eq!(
        packets.iter().map(TracePacket::incremental_state_cleared).collect::<Vec<_>>(),
        [false, false, true]
    );
}

#[test]
fn the_quirk_switches_on_demand_naming_off() {
    let config = ProcessStatsConfig { quirks: vec![Quirks::DisableOnDemand as i32], ..Default::default() };
    let packets = run(&config, |source, out| {
        let mut pids = PidSet::default();
        pids.insert(own_pid());
        source.on_threads(&pids, &[], out);
    });
    assert!(packets.is_empty());
}

#[test]
fn counters_are_written_when_they_change_and_after_the_cache_ends() {
    let config = ProcessStatsConfig {
        proc_stats_poll_ms: Some(1),
        proc_stats_cache_ttl_ms: Some(200),
        ..Default::default()
    };
    let mut sizes = Vec::new();
    let packets = run(&config, |source, out| {
        assert_eq!(source.poll_period_ms(), Some(MIN_POLL_PERIOD_MS));
        for _ in 0..3 {
            source.work(out);
            source.finish_work(out);
            sizes.push(out.0.iter().map(Vec::len).sum::<usize>());
        }
    });
    let first = stats(&packets)
        .into_iter()
        .flat_map(|stats| &stats.processes)
        .find(|p| p.pid() == own_pid())
        .unwrap();
    assert!(first.vm_size_kb() > 0 && first.vm_rss_kb() > 0 && first.oom_score_adj.is_some());
    // The second poll has little to say; the cache ends after two, so the third says all again.
    assert!(sizes[2] - sizes[1] > sizes[1] - sizes[0]);
    let named = trees(&packets).into_iter().flat_map(|tree| &tree.processes).filter(|p| p.pid() == own_pid());
    assert_eq!(named.count(), 1, "names are written once");
}

#[test]
fn others_have_a_turn_before_all_processes_are_read() {
    let config = ProcessStatsConfig {
        scan_all_processes_on_start: Some(true),
        proc_stats_poll_ms: Some(100),
        scan_smaps_rollup: Some(true),
        ..Default::default()
    };
    let mut in_pieces = ProcessStats::new(&config, Rc::default());
    in_pieces.turn = Duration::ZERO;
    let mut out = Recorded::default();
    in_pieces.start(&mut out);
    let mut turns = 1;
    while in_pieces.next_work().is_some() {
        in_pieces.work(&mut out);
        turns += 1;
    }
    let packets = out.decoded();
    assert!(turns > 2 && trees(&packets).len() > 1, "{turns}");
    assert_eq!(stats(&packets).len(), 1, "a poll is one packet");
    assert_eq!(trees(&packets)[0].processes.len(), 1, "one at a time, if there is no time");
    let named = trees(&packets).into_iter().flat_map(|tree| &tree.processes);
    assert_eq!(named.filter(|process| process.pid() == own_pid()).count(), 1);
    let counted = || stats(&packets).into_iter().flat_map(|stats| &stats.processes);
    assert_eq!(counted().filter(|process| process.pid() == own_pid()).count(), 1);
    assert!(counted().any(|process| process.pid() == own_pid() && process.smr_rss_kb() > 0));
}

#[test]
fn a_command_line_of_nothing_is_none() {
    let folder = Folder::new("process-stats-empty");
    folder.answers(own_pid(), "cmdline", "\0\0\0");
    let config = ProcessStatsConfig { scan_all_processes_on_start: Some(true), ..Default::default() };
    let mut source = ProcessStats::new(&config, Rc::new(RefCell::new(MemoryFiles::below(&folder.0))));
    let mut out = Recorded::default();
    source.start(&mut out);
    source.finish_work(&mut out);
    let packets = out.decoded();
    let mut all = trees(&packets).into_iter().flat_map(|tree| &tree.processes);
    assert!(all.find(|p| p.pid() == own_pid()).unwrap().cmdline_is_comm());
}

#[test]
fn who_lets_nobody_look_into_its_memory_has_its_short_name_and_its_other_counters() {
    let folder = Folder::new("process-stats");
    folder.hangs(own_pid(), "cmdline");
    folder.hangs(own_pid(), "smaps_rollup");
    let config = ProcessStatsConfig {
        proc_stats_poll_ms: Some(100),
        scan_smaps_rollup: Some(true),
        ..Default::default()
    };
    let files = MemoryFiles::below(&folder.0);
    let mut source = ProcessStats::new(&config, Rc::new(RefCell::new(files)));
    let mut out = Recorded::default();
    source.start(&mut out);
    source.work(&mut out);
    source.finish_work(&mut out);
    let packets = out.decoded();
    let counters = stats(&packets)
        .into_iter()
        .flat_map(|stats| &stats.processes)
        .find(|p| p.pid() == own_pid())
        .unwrap();
    assert!(counters.vm_rss_kb() > 0 && counters.smr_rss_kb.is_none());
    let mut all = trees(&packets).into_iter().flat_map(|tree| &tree.processes);
    let own = all.find(|p| p.pid() == own_pid()).unwrap();
    assert!(own.cmdline_is_comm() && own.cmdline.len() == 1, "{own:?}");
    folder.lets_go(own_pid(), "smaps_rollup");
}
