use super::*;
use ferretto_protos::trace_stats::FilterStats;
use ferretto_trace_info::Tally;

fn plan() -> Plan {
    let buffer = |name: &str, size_kb, source: &str| Buffer {
        name: name.to_owned(),
        size_kb,
        discard: false,
        sources: vec![source.to_owned()],
    };
    Plan {
        sources: ["linux.ftrace", "linux.process_stats", "track_event"].map(str::to_owned).to_vec(),
        buffers: vec![buffer("kernel", 65536, "linux.ftrace"), buffer("", 4096, "track_event")],
        write_into_file: true,
        ..Plan::default()
    }
}

fn stats() -> TraceStats {
    TraceStats {
        buffer_stats: vec![BufferStats::default(); 2],
        losses: Some(Losses { buffers: vec![losses::Buffer::default(); 2], ..Losses::default() }),
        ..TraceStats::default()
    }
}

fn check(change: impl FnOnce(&mut Plan, &mut Tally, &mut TraceStats)) -> Verdict {
    let (mut plan, mut tally, mut stats) = (plan(), Tally::default(), stats());
    change(&mut plan, &mut tally, &mut stats);
    find(&evidence(&plan, &tally, Some(&stats)))
}

fn evidence<'a>(plan: &'a Plan, tally: &'a Tally, stats: Option<&'a TraceStats>) -> Evidence<'a> {
    Evidence {
        plan,
        tally,
        stats,
        counted: true,
        is_over: true,
        torn: false,
        huge: 0,
        reports: &[],
        outliving: &[],
    }
}

/// The only loss.
#[track_caller]
fn one(verdict: &Verdict) -> (Kind, String) {
    let [loss] = verdict.losses.as_slice() else { panic!("not one loss: {verdict:?}") };
    assert!(verdict.unknown.is_empty(), "{verdict:?}");
    (loss.kind, loss.to_string())
}

#[test]
fn nothing_lost_says_nothing() {
    assert_eq!(check(|_, _, _| {}), Verdict::default());
}

#[test]
fn a_buffer_too_small_is_named_with_the_flag_that_enlarges_it() {
    let lost = |stats: &mut TraceStats| stats.buffer_stats[0].bytes_overwritten = Some(5_000_000);
    let (kind, words) = one(&check(|_, _, stats| lost(stats)));
    assert_eq!(kind, Kind::Overwritten);
    assert_eq!(
        words,
        "5.00 MB in buffer 0 (\"kernel\", 64 MiB, for linux.ftrace): it was full before the file was written; \
         enlarge it with --buffer 128mb."
    );
    let from_file = check(|plan, _, stats| {
        plan.from_file = true;
        plan.write_into_file = false;
        lost(stats);
    });
    assert_eq!(
        one(&from_file).1,
        "5.00 MB of the oldest data in buffer 0 (\"kernel\", 64 MiB, for linux.ftrace), a ring that keeps the \
         newest; enlarge it with size_kb: 131072 in the config's buffers number 1 to keep more."
    );
}

#[test]
fn each_count_has_its_kind_and_words() {
    type Change = fn(&mut Plan, &mut Tally, &mut TraceStats);
    fn own(stats: &mut TraceStats) -> &mut Losses {
        stats.losses.get_or_insert_default()
    }
    let cases: &[(Change, Kind, &str)] = &[
        (|_, _, s| s.buffer_stats[1].chunks_discarded = Some(3), Kind::ChunksRefused, "3 chunks in buffer 1"),
        (
            |p, _, s| {
                p.buffers[1].discard = true;
                s.buffer_stats[1].chunks_discarded = Some(3);
            },
            Kind::BufferFull,
            "keeps the oldest; enlarge it with --buffer 8mb",
        ),
        (
            |_, _, s| s.buffer_stats[1].trace_writer_packet_loss = Some(2),
            Kind::SharedMemory,
            "2 times: a program wrote faster than its shared memory was emptied; give it more with --shared-memory 64mb.",
        ),
        (|_, _, s| s.buffer_stats[1].abi_violations = Some(1), Kind::BrokenData, "1 piece"),
        (|_, _, s| s.buffer_stats[1].patches_failed = Some(1), Kind::PatchesTooLate, "1 piece"),
        (
            |_, _, s| s.buffer_stats[1].sequence_states_lost = Some(2),
            Kind::SequenceStates,
            "names that packets left in buffer 1",
        ),
        (
            |_, _, s| s.buffer_stats[1].track_descriptors_dropped = Some(7),
            Kind::SequenceStates,
            "the descriptions of 7 tracks in buffer 1",
        ),
        (|_, _, s| s.invalid_packets = Some(2), Kind::InvalidPackets, "2 packets"),
        (|_, _, s| own(s).chunks_discarded = Some(9), Kind::ForeignBuffer, "9 pieces"),
        (
            |_, _, s| s.filter_stats = Some(FilterStats { input_bytes: Some(9), ..Default::default() }),
            Kind::Filter,
            "9 bytes that the config's trace_filter does not let through",
        ),
        (
            |_, _, s| s.final_flush_outcome = Some(FinalFlushOutcome::FinalFlushFailed as i32),
            Kind::SlowFlush,
            "last moments",
        ),
        (|_, t, _| t.slow_to_flush.extend(["a of b".to_owned()]), Kind::SlowFlush, "of a of b: not handed"),
        (|_, _, s| own(s).slow_to_flush.push("a of b".to_owned()), Kind::SlowFlush, "of a of b: not handed"),
        (|_, _, s| own(s).slow_to_stop.push("a of b".to_owned()), Kind::SlowStop, "of a of b: not stopped"),
        (|_, t, _| t.slow_to_start.extend(["a of b".to_owned()]), Kind::SlowStart, "of a of b: not started"),
        (
            |_, t, _| t.not_recorded.extend(["a of b (process 7: c)".to_owned()]),
            Kind::NotRecorded,
            "all of a of b (process 7: c).",
        ),
        (|_, _, s| own(s).buffers[0].unread_chunks = Some(4), Kind::Unfinished, "4 chunks"),
        (|_, _, s| own(s).buffers[0].protovm_packets = Some(4), Kind::ProtoVm, "4 packets"),
        (|_, _, s| own(s).buffers[0].protovms_off = Some(1), Kind::ProtoVm, "1 state"),
        (
            |p, _, s| {
                p.max_file_bytes = 1_000_000;
                own(s).file_is_full = Some(true);
                own(s).buffers[0].unread_chunks = Some(2);
                own(s).buffers[0].unread_bytes = Some(8_000);
            },
            Kind::FileFull,
            "largest size of 1.00 MB, 8.00 kB and whatever followed; raise max_file_size_bytes",
        ),
        (|_, _, s| own(s).producers_without_memory = Some(1), Kind::NoSharedMemory, "all of 1 program"),
        (|_, _, s| own(s).producers_out_of_writers = Some(1), Kind::WriterIds, "32,767 writers"),
        (|_, _, s| own(s).unseen_ends = Some(2), Kind::UnseenEnd, "2 programs that went away"),
        (
            |_, _, s| own(s).large_packets = Some(1),
            Kind::LargePackets,
            "1 large packet left out: nobody took",
        ),
        (|_, _, s| own(s).sources_left_out = Some(2), Kind::SourcesLeftOut, "2 data sources"),
        (
            |_, _, s| {
                own(s).producers_refused = Some(2);
                own(s).refused.push(Refused {
                    producer_name: Some("p".to_owned()),
                    pid: Some(7),
                    uid: Some(8),
                    reason: Some("full house".to_owned()),
                });
            },
            Kind::Refused,
            "all of 2 programs that the service did not let in: p (process 7, user 8: full house).",
        ),
        (
            |p, _, _| p.intercepted.push(("track_event".to_owned(), "console".to_owned())),
            Kind::Interceptor,
            "all of track_event: the config gives it to the interceptor console; remove",
        ),
        (|_, t, _| t.readable.without_names = 3, Kind::Names, "3 packets that nobody can read"),
        (|_, t, _| t.readable.without_time = 3, Kind::Clocks, "3 packets whose time"),
        (|_, t, _| t.oversized = 1, Kind::Oversized, "1 packet too large"),
        (|_, _, s| s.buffer_stats[0].oversized_packets_dropped = Some(2), Kind::Oversized, "2 packets"),
        (|_, t, _| t.cut_short = true, Kind::TornFile, "ends in the middle of a packet"),
        (|_, t, _| t.undecodable = 3, Kind::Undecodable, "3 packets of the trace"),
        (|_, t, _| t.losses.packets = 3, Kind::Gaps, "3 gaps in 0 sequences of packets."),
        (
            |_, t, _| {
                t.ftrace.lossy_bundles = 2;
                t.ftrace.lossy_cpus.extend([0, 3]);
            },
            Kind::KernelBuffer,
            "2 gaps of kernel events on CPU 0, 3: the kernel's buffer was full before it was read; give it more with \
             --kernel-buffer.",
        ),
        (
            |_, t, _| {
                t.ftrace.lossy_bundles = 2;
                t.ftrace.interference.extend(["it switched a/b off".to_owned()]);
            },
            Kind::KernelInterference,
            "kernel events, from some moment on: another program interfered: it switched a/b off; record again",
        ),
        (|_, t, _| t.ftrace.parse_errors = 1, Kind::KernelPages, "1 page"),
        (
            |_, t, _| t.heap_overruns = 1,
            Kind::HeapSamples,
            "samples of what 1 program allocated: there was no room",
        ),
        (|_, t, _| t.samples_lost = 7, Kind::Samples, "7 records of samples and of what was mapped"),
        (
            |_, t, _| t.ftrace.unknown_events.extend(["a/b".to_owned()]),
            Kind::KernelEvents,
            "kernel event a/b does not exist on this kernel.",
        ),
        (
            |_, t, _| t.ftrace.refusals.extend(["no such clock.".to_owned()]),
            Kind::KernelEvents,
            "a part of linux.ftrace: no such clock.",
        ),
    ];
    for (change, kind, words) in cases {
        let (found, said) = one(&check(change));
        assert_eq!(found, *kind, "{said}");
        assert!(said.contains(words), "{words} in {said}");
    }
}

#[test]
fn the_advice_on_shared_memory_doubles_what_there_is() {
    let said = |known_kb, from_file| {
        let plan = Plan { shared_memory_kb: known_kb, from_file, ..plan() };
        more_shared_memory(&plan)
    };
    assert_eq!(said(16 << 10, false), "give it more with --shared-memory 32mb");
    assert!(said(1024, true).contains("shm_size_kb: 2048"));
    assert!(said(MAX_SHARED_MEMORY_KB, true).contains("as much as there can be"));
}

#[test]
fn what_programs_report_is_said_in_their_words() {
    let (plan, tally, stats) = (plan(), Tally::default(), stats());
    let reports = ["12 web: no service is there".to_owned(), "nonsense".to_owned()];
    let verdict = find(&Evidence { reports: &reports, ..evidence(&plan, &tally, Some(&stats)) });
    let said: Vec<String> = verdict.losses.iter().map(Loss::to_string).collect();
    assert_eq!(
        said,
        [
            "what web (process 12) traced at its start, or all of it: no service is there.",
            "what a program traced that says: nonsense."
        ]
    );
}

#[test]
fn what_could_not_be_asked_is_not_called_no_loss() {
    let (plan, mut tally, full) = (plan(), Tally::default(), stats());
    let unknown = |evidence: &Evidence<'_>| {
        let verdict = find(evidence);
        assert!(verdict.losses.is_empty(), "{verdict:?}");
        verdict.unknown
    };
    assert_eq!(unknown(&evidence(&plan, &tally, None)), ["the service's statistics"]);
    let others = TraceStats { losses: None, ..full.clone() };
    let said = unknown(&evidence(&plan, &tally, Some(&others)));
    assert!(said.len() == 1 && said[0].starts_with("what this service does not count"), "{said:?}");
    let elsewhere = Evidence { counted: false, ..evidence(&plan, &tally, Some(&full)) };
    assert_eq!(unknown(&elsewhere), ["the packets, which went elsewhere"]);
    let huge = Evidence { huge: 1, ..evidence(&plan, &tally, Some(&full)) };
    assert_eq!(unknown(&huge), ["1 packet of more than 64 MiB"]);
    tally.sealed = 2;
    assert_eq!(unknown(&evidence(&plan, &tally, Some(&full))), ["2 batches of compressed packets"]);
    tally.sealed = 0;
    tally.ftrace.switches = 1;
    assert_eq!(unknown(&evidence(&plan, &tally, Some(&full))), ["the kernel's counts at the end"]);
    let goes_on = Evidence { is_over: false, ..evidence(&plan, &tally, Some(&full)) };
    assert!(unknown(&goes_on).is_empty(), "a snapshot is taken before the end");
}
