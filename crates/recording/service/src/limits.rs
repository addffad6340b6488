//! Every bound of the service. Values are upstream's (tracing_service_impl.h) unless the reason says otherwise.

use std::time::Duration;

/// Buffers of one session.
pub const MAX_BUFFERS_PER_SESSION: usize = 128;
/// Sessions at one time.
pub const MAX_SESSIONS: usize = 15;
/// So many more root may have: otherwise three users could keep it out.
pub const SESSIONS_FOR_ROOT: usize = 2;
/// Sessions at one time of one user.
pub const MAX_SESSIONS_PER_UID: usize = 5;
/// A trace lasts at most a week: its counters and file sizes are thought for that.
pub const MAX_DURATION: Duration = Duration::from_secs(7 * 24 * 3600);
/// A trace with `enable_extra_guardrails` lasts at most a day.
pub const MAX_DURATION_WITH_GUARDRAILS: Duration = Duration::from_secs(24 * 3600);
/// Memory for the buffers of a trace with `enable_extra_guardrails`, unless the config overrides it upwards.
pub const MAX_BUFFERS_KB_WITH_GUARDRAILS: u64 = 128 * 1024;
/// Two traces of one name with `enable_extra_guardrails` are at least this far apart.
pub const MIN_SPACING_WITH_GUARDRAILS: Duration = Duration::from_secs(300);
/// Names whose last start is remembered for [`MIN_SPACING_WITH_GUARDRAILS`]; the oldest is forgotten first, of the same user if there is one.
/// Ours.
pub const MAX_REMEMBERED_NAMES: usize = 64;

/// Time that a session waits for data sources to say that they started, before it says which did not.
pub const ALL_STARTED_TIMEOUT: Duration = Duration::from_secs(20);
/// Time for a flush if neither config nor request says.
pub const DEFAULT_FLUSH_TIMEOUT_MS: u32 = 5_000;
/// Time for data sources to stop if the config does not say.
pub const DEFAULT_STOP_TIMEOUT_MS: u32 = 5_000;
/// Flushes of one session that are under way at one time.
pub const MAX_PENDING_FLUSHES: usize = 1000;
/// Names of slow data sources in one service event.
pub const MAX_SLOW_DATA_SOURCES: usize = 32;

/// The time over which `max_per_24_h` of a trigger counts.
pub const TRIGGER_WINDOW: Duration = Duration::from_secs(24 * 3600);
/// Activations of triggers that are remembered for [`TRIGGER_WINDOW`], of all users. Ours: a higher `max_per_24_h` is no limit.
pub const MAX_TRIGGER_HISTORY: usize = 4096;
/// Triggers in one `ActivateTriggers` request, and of one producer that are not looked at yet; more are ignored. Ours: each may be looked up
/// in the whole history.
pub const MAX_TRIGGERS_PER_REQUEST: usize = 1024;
/// Producers and triggers of a session of which it is remembered whether they go together. Ours: to find out may take a millisecond.
pub const MAX_TRIGGER_VERDICTS: usize = 4096;
/// Triggers that a session has received and that wait for the next read-back; the oldest are forgotten. Ours: they are encoded at once, which
/// takes a MiB and a millisecond if all names are of [`MAX_NAME_BYTES`].
pub const MAX_RECEIVED_TRIGGERS: usize = 1024;
/// Snapshots of a session that wait for the delay of their trigger. Ours: more than anybody could write at one time.
pub const MAX_PENDING_SNAPSHOTS: usize = 64;

/// Time between clock snapshots if the config does not say.
pub const DEFAULT_SNAPSHOT_INTERVAL_MS: u32 = 10_000;
/// Shortest time between clock snapshots: below that the service would do little else. Ours.
pub const MIN_SNAPSHOT_INTERVAL_MS: u32 = 100;
/// Clock snapshots kept until the next read-back.
pub const MAX_CLOCK_SNAPSHOTS: usize = 16;
/// A clock snapshot is kept only if a clock moved this far against the boot clock since the last one.
pub const SIGNIFICANT_DRIFT: Duration = Duration::from_millis(10);
/// Service events of the kinds that repeat, kept until the next read-back; of other kinds one.
pub const MAX_REPEATED_EVENTS: usize = 64;

/// Events about other sessions, kept until the next read-back.
pub const MAX_CONCURRENT_SESSION_EVENTS: usize = 4096;

/// Writers that have a histogram, of all buffers of a session. Ours: each takes some 200 bytes, and one buffer has
/// [`MAX_WRITER_HISTOGRAMS`](ferretto_trace_buffer::MAX_WRITER_HISTOGRAMS) at most.
pub const MAX_HISTOGRAMS_PER_SESSION: usize = 64 * 1024;
/// Sequences of a session whose ids are remembered; beyond, those of producers that are gone, and of those that have the most, get new ones. Ours: as many threads as
/// nobody traces at one time.
pub const MAX_SEQUENCE_IDS: usize = 256 * 1024;
/// Sequences of which the buffers of a session have chunks, or have had some at one time; a new writer's chunks are refused beyond. Ours:
/// they take some 12 MiB, and a clone copies all of them at once, in some 10 milliseconds.
pub const MAX_SEQUENCES_PER_SESSION: usize = 128 * 1024;
/// The same of one user's programs in a session that is not his, and of other machines' together. Ours.
pub const MAX_SEQUENCES_OF_ONES_IN_A_SESSION: usize = MAX_SEQUENCES_PER_SESSION / 2;
/// When there are so many, those of producers that are gone are forgotten as soon as all of the trace has been read. Ours.
pub const MANY_SEQUENCE_IDS: usize = 64 * 1024;

/// Time between writes to the file if the config does not say.
pub const DEFAULT_FILE_WRITE_PERIOD_MS: u32 = 5_000;
/// Shortest time between writes to the file.
pub const MIN_FILE_WRITE_PERIOD_MS: u32 = 100;
/// With a file write period up to this, flushes go their own way with this period; with a longer one each write flushes first.
pub const AUTO_FLUSH_PERIOD_MS: u32 = 5_000;
/// Bytes of packets handed out for one write to a file. Ours: it takes a millisecond, in which nobody empties the memory of producers;
/// upstream's clients fill theirs in three.
pub const FILE_WRITE_BYTES: usize = 256 * 1024;
/// Writes to one file that were handed out and are not done. Ours: packets are read back while the disk takes what was read before.
pub const MAX_FILE_WRITES_IN_FLIGHT: usize = 4;
/// Bytes of these: of packets of many megabytes one is under way at a time. Ours, for the memory of the service, as [`FILE_WRITE_BYTES`] is for
/// packets of usual size.
pub const MAX_FILE_BYTES_IN_FLIGHT: usize = MAX_FILE_WRITES_IN_FLIGHT * FILE_WRITE_BYTES;
/// When so many bytes of a user's sessions are on their way, to files and to consumers that read, none of them begins another write.
/// Ours, likewise: as much as one packet may have.
pub const MAX_BYTES_ON_THEIR_WAY_PER_UID: usize = MAX_PACKET_BYTES;
/// Time for which a user's files wait for these, and then they go on beside them: nobody may ever take them. Ours: as long as a disk takes for
/// one packet.
pub const STUCK: Duration = Duration::from_millis(500);
/// A larger packet is left out of a file that goes on beside what nobody takes, and counted. Ours, for the memory of the service: each of a
/// user's [`MAX_SESSIONS_PER_UID`] has so much on its way and [`MAX_FILE_BYTES_IN_FLIGHT`], 25 MiB in sum.
pub const MAX_PACKET_BYTES_BESIDE_STUCK: usize = 4 * 1024 * 1024;
/// A ring is written to the file before its time when this part of it, a quarter, is new. Ours: upstream overwrites what nobody has read.
pub const UNREAD_PARTS: u64 = 4;
/// Producers flush before a ring that is written to the file has turned: when this part of it, a half, is new. Ours.
pub const UNFLUSHED_PARTS: u64 = 2;
/// Shortest time between two such flushes, and between two requests to repeat names. Ours: each wakes all producers of the session.
pub const RING_UPKEEP_PERIOD_MS: u64 = 100;
/// Shortest time between two requests to repeat names for that a ring which folds lost some. Ours: where they do not fit, asking more
/// often would fill the ring with them.
pub const LOST_STATES_PERIOD_MS: u64 = 1000;
/// Shortest time between periodic flushes, and between clears of incremental state: each wakes every producer. Ours.
pub const MIN_PERIOD_MS: u32 = 10;

/// Packets above this size stand in a compressed trace as they are. Ours: to compress one takes as long as nobody else is served.
pub const MAX_COMPRESSED_PACKET_BYTES: usize = 512 * 1024;
/// Packets above this size zlib compresses fast and each alone. Ours: thorough work may take 0.2 µs a byte, and so 26 ms for one of this size.
pub const MAX_THOROUGHLY_COMPRESSED_BYTES: usize = 128 * 1024;
/// Bytes of packets that are compressed together, if not fewer go into a response or a write. Ours, for the same reason.
pub const COMPRESSED_BATCH_BYTES: usize = 128 * 1024;
/// A larger packet is left out, and counted as invalid. Ours: it is copied at once, and kept until its reader has taken it. So
/// much is a producer's memory at most by its own wish.
pub const MAX_PACKET_BYTES: usize = 32 * 1024 * 1024;

/// Bytes of packets in one `ReadBuffersResponse`: the IPC frame takes 128 KiB, framing included.
pub const READ_REPLY_BYTES: usize = 127 * 1024;
/// Chunks that are looked at for one such response, or for one write to a file. Ours: a millisecond or two, should there be nothing to read
/// in any of them; and a response is full after some hundred that are worth reading.
pub const READ_CHUNKS: usize = 4 * 1024;
/// So many times a buffer may be written anew while it is read; then that is over, and the next buffer's turn. Ours: what was there at the
/// beginning is gone then, and somebody may write without end.
pub const READ_BUFFERS_TIMES: u64 = 2;
/// Bytes of data sources in one `QueryServiceStateResponse`, for the same reason.
pub const QUERY_REPLY_BYTES: usize = 120 * 1024;
/// Bytes of a `GetTraceStatsResponse`, for the same reason: writers beyond it are left out. Ours.
pub const STATS_REPLY_BYTES: usize = 120 * 1024;
/// The same in the trace, where a writer takes some 30 bytes: those of 100,000 threads. Ours.
pub const STATS_PACKET_BYTES: usize = 4 * 1024 * 1024;
/// Of a file with a largest size so much is kept for the statistics that say that it is full: those of some 30 buffers. Ours.
pub const LAST_STATS_BYTES: u64 = 4 * 1024;

/// Chunks of a session that is over that are looked at for what nobody has read; of more, the others are not counted. Ours: some
/// milliseconds. After a trace was read few are left.
pub const UNREAD_CHUNKS: usize = 32 * 1024;
/// Sequences of which a trace says which producer they came from. Ours: those of 65,000 threads, and some milliseconds.
pub const MAX_PROVENANCE_SEQUENCES: usize = 64 * 1024;

/// Longest time that producers which commit fast are left alone. Ours: a program that writes as fast as it can commits three to five chunks
/// a millisecond, so that half as long saves a third of the wake-ups and this saves three quarters; and nobody waits for a commit, but for
/// flushes and ends of sessions, before which there is no rest.
pub const MAX_REST: Duration = Duration::from_millis(2);
/// Shortest one. Ours: the kernel's timers may be late by half as much, and a wake-up costs a tenth.
pub const MIN_REST: Duration = Duration::from_micros(100);
/// In a rest a producer may fill this part of its memory, a sixteenth, by what it handed over just before. Ours: were it to write several
/// times as fast from one moment to the next, there would still be room, and for a service that the kernel wakes up late.
pub const MEMORY_PARTS_IN_REST: u64 = 16;
/// There is no rest while more than this part of a producer's memory, a quarter, is in use. Ours: upstream's client has 256 KiB, which it can
/// fill within three milliseconds, and its own thread that sends the commits may be late by one or two.
pub const MEMORY_PARTS_BEFORE_REST: u64 = 4;

/// What a step of long work may cost, in units of about a microsecond. Ours: others wait for no longer.
pub const STEP_COST: usize = 2000;

/// What filtering may cost before others have their turn, in bytes of strings times bytes of compiled rules that are tried on them
/// (`ferretto_trace_filter`). Ours: some ten milliseconds if the rules are as bad as they can be, and much less with those that people write.
pub const FILTER_COST: u64 = 48 << 20;
/// What it may cost between two looks at the clock. Ours: less than a millisecond, as a rule.
pub const FILTER_COST_BETWEEN_LOOKS: u64 = FILTER_COST / 16;
/// Time after which filtering makes way, whatever it has cost. Ours: others wait for no longer, and for one search in one string.
pub const FILTER_TIME: Duration = Duration::from_millis(4);

/// A larger packet is taken out of the buffer in one batch, and filtered in the next ones. Ours: it takes some milliseconds to copy so much
/// into memory that is new.
pub const MAX_FILTERED_AT_ONCE_BYTES: usize = 12 * 1024 * 1024;

/// Bytes of what a consumer is still to be told of its data sources' starts and ends. Ours: two for each of
/// [`MAX_INSTANCES_PER_SESSION`] with names of usual length. One that is further behind has its ObserveEvents call rejected.
pub const MAX_OBSERVED_BYTES: usize = 16 << 20;

/// A packet that is being filtered for a session's file is copied to a clone of that up to this size: it is neither in the buffers nor in the
/// file. Ours: as much as a write, which takes a millisecond.
pub const MAX_CARRIED_PACKET_BYTES: usize = FILE_WRITE_BYTES;
/// For a larger one a clone waits so long at the most, from when it is asked for, and then goes on without it. Ours: as long as for a flush.
pub const CLONE_WAITS_MS: u64 = DEFAULT_FLUSH_TIMEOUT_MS as u64;

/// Memory that takes longer to give back than to hand to another thread. Ours.
pub const LARGE_BYTES: usize = 4 << 20;
/// The same for the instances of a session, and for the data sources that it remembers; and sessions with more instances take turns when
/// something is due.
pub const MANY_INSTANCES: usize = 1000;

/// Producers at one time: ids are 16 bits, 0 is none.
pub const MAX_PRODUCERS: usize = u16::MAX as usize;
/// Connections of producers of one user. Ours: each costs [`SHARED_MEMORY_SIZE_AT_LAST`] of memory or more.
pub const MAX_PRODUCERS_PER_UID: usize = 4096;
/// Producers that were not let in whose names are remembered. Ours: whoever reads it looks at a few.
pub const MAX_REFUSED_PRODUCERS: usize = 32;
/// Data sources that one producer may register. Ours: they live as long as their connection.
pub const MAX_DATA_SOURCES_PER_PRODUCER: usize = 1024;
/// Bytes of one data source descriptor. Ours: below a frame, so that it can be reported by `QueryServiceState`.
pub const MAX_DESCRIPTOR_BYTES: usize = 112 * 1024;
/// Bytes of all descriptors of one producer. Ours, for the memory of the service.
pub const MAX_DESCRIPTOR_BYTES_PER_PRODUCER: usize = 4 * 1024 * 1024;
/// Bytes of all descriptors of one user's producers. Ours, likewise: a program of the SDK has a few kilobytes.
pub const MAX_DESCRIPTOR_BYTES_PER_UID: usize = 32 * 1024 * 1024;
/// Bytes of a producer's name and of its SDK version that are kept, and of a trigger's name. Ours: names are matched with expressions, which
/// takes time for each byte, and there may be [`MAX_RECEIVED_TRIGGERS`] of them in a session.
pub const MAX_NAME_BYTES: usize = 512;
/// Bytes of a data source's name. Ours: it is repeated in much that is said of its instances.
pub const MAX_SOURCE_NAME_BYTES: usize = 4096;
/// Bytes of a key to detach by. Ours.
pub const MAX_KEY_BYTES: usize = 4096;
/// Data sources of one config. Ours: to read one takes a microsecond or two, which nobody else is to wait for.
pub const MAX_DATA_SOURCES_PER_CONFIG: usize = 4096;
/// Producers whose memory one config decides. Ours, likewise.
pub const MAX_PRODUCER_CONFIGS: usize = 4096;
/// Semaphores of one session. Ours: each is looked for among those of all others.
pub const MAX_SEMAPHORES: usize = 256;
/// Names in the filters of a session's data sources, also of those that it gets later. Ours, for the memory of the service.
pub const MAX_FILTER_NAMES: usize = 16_384;
/// Bytes of all these names. Ours, likewise: a config is smaller.
pub const MAX_FILTER_NAME_BYTES: usize = 256 * 1024;
/// Producers that a session remembers to have had, for each name of a data source one. Ours, for the memory of the service: they may come
/// and go for as long as the session lasts.
pub const MAX_SEEN_SOURCES: usize = 256 * 1024;
/// Data source instances of one session. Ours: each is a match of a configured with a registered data source.
pub const MAX_INSTANCES_PER_SESSION: usize = 65_536;
/// Of these, how many of one registered data source. Ours: its producer hears of all of them, before it can read what is meant for it.
pub const MAX_INSTANCES_PER_SOURCE: usize = 256;
/// Of one data source of a program, instances that one user has who is a stranger to it. Ours: programs with upstream's SDK have eight places
/// (`kMaxDataSourceInstances`), and
pub const MAX_INSTANCES_FOR_A_STRANGER: usize = 2;
/// half of them are for root, the service's own user and the program's.
pub const MAX_INSTANCES_FOR_STRANGERS: usize = 4;
/// The same for programs of root and of the service's own user, such as the probes of the machine, to which all others are strangers: three
/// in each of a user's sessions. Ours likewise, for our SDK has 31 places,
pub const MAX_INSTANCES_FOR_A_STRANGER_OF_ROOTS: usize = 16;
/// of which seven are for root and the service's own user.
pub const MAX_INSTANCES_FOR_STRANGERS_OF_ROOTS: usize = 24;
/// Instances of all sessions of one user. Ours, for the memory of the service: each takes some 300 bytes.
pub const MAX_INSTANCES_PER_UID: usize = 2 * MAX_INSTANCES_PER_SESSION;
/// Of the instances of a session, how many the programs of one user have who is neither its own, root nor the service's. Ours: 64 programs may
/// register 1,024 data sources each under one name, and others have three quarters beside them.
pub const MAX_INSTANCES_OF_ONES_IN_A_SESSION: usize = MAX_INSTANCES_PER_SESSION / 4;
/// The same for all sessions of one user.
pub const MAX_INSTANCES_OF_ONES_PER_UID: usize = MAX_INSTANCES_PER_UID / 4;
/// Bytes of a regular expression for producers' names. Ours: bounds the time to read it.
pub const MAX_REGEX_BYTES: usize = 4096;
/// What such an expression may take once it is compiled. Ours: it bounds the time of a match, which is a millisecond for a name that is as
/// long as it may be; alternatives of 200 letters together fit.
pub const MAX_REGEX_COMPILED_BYTES: usize = 8 * 1024;
/// Such expressions of one data source, or for the triggers of one config. Ours, for the same reason: one may have alternatives.
pub const MAX_REGEXES: usize = 16;
/// Such expressions of a session's data sources, also of those that it gets later. Ours, for their memory, and for the time to compile them.
pub const MAX_REGEXES_PER_CONFIG: usize = 1024;
/// Writers that the producers of one user have announced. Ours, for the memory of the service: 250 for each of 4,000 programs. What others
/// leave in their memory is taken only when it is committed.
pub const MAX_ANNOUNCED_WRITERS_PER_UID: usize = 1024 * 1024;
/// The highest writer id of the ABI (`kMaxWriterID`).
pub const MAX_WRITER_ID: u16 = 32_767;
/// Patches in one entry of a CommitData request.
pub const MAX_PATCHES: usize = 1024;

/// ProtoVMs of one session. Ours: each has its state, and is asked whether it wants what is overwritten.
pub const MAX_PROTOVMS_PER_SESSION: usize = 32;
/// What the programs of a session's ProtoVMs may take together, parsed and as they came. Ours: a producer chooses them. It is enough for
/// 32 of 20 KB, where real ones have 5, and a program's least instructions take eight times their bytes.
pub const MAX_PROTOVM_PROGRAM_BYTES: usize = 4 * 1024 * 1024;
/// What the states of a session's ProtoVMs may take together. Ours: they come out, and are cloned, at once, which takes a millisecond or two
/// a MiB.
pub const MAX_PROTOVM_MEMORY_KB: u32 = 8 * 1024;
/// Steps that ProtoVMs may take for each packet and, together with [`PROTOVM_STEPS_PER_BYTE`], for its size. Ours: programs take a
/// few steps a field. One that goes on to take more stops the service from serving others, and is switched off.
pub const PROTOVM_STEPS_PER_PACKET: u64 = 512;
/// Steps that ProtoVMs may take for each byte of a packet, besides [`PROTOVM_STEPS_PER_PACKET`]. Ours.
pub const PROTOVM_STEPS_PER_BYTE: u64 = 4;
/// Steps that the ProtoVMs of a session have at first besides, and may save up. Ours: some milliseconds, which a single packet may cost.
pub const PROTOVM_STEPS_SAVED: u64 = 1 << 18;
/// Steps of all ProtoVMs of a session for one packet, and for all that is overwritten by one chunk. Ours: a step takes 5 to 25 nanoseconds, and a packet of two megabytes has half as many
/// fields unless its maker is out to have them counted.
pub const MAX_PROTOVM_STEPS_PER_PACKET: u64 = 3 << 18;
/// Fields that are looked at for a step, where it is asked whether a packet concerns a program. Ours: each takes some 3 nanoseconds.
pub const PROTOVM_FIELDS_PER_STEP: u64 = 8;
/// Bytes of a packet whose fields are checked for a step. Ours, likewise.
pub const PROTOVM_CHECKED_BYTES_PER_STEP: u64 = 64;
/// Steps of all ProtoVMs of a session for the buffers that a clone takes along or clears. Ours: all of them are theirs at once; what is left
/// they have missed.
pub const PROTOVM_STEPS_AT_ONCE: u64 = 3 << 18;
/// What is in use of all such buffers of a session, at most, for ProtoVMs to take it, or rings that fold to fold it. Ours: to copy it takes
/// some milliseconds.
pub const FOLD_AT_ONCE_BYTES: usize = 8 * 1024 * 1024;
/// Packets in them, and chunks. Ours: each takes some 100 to 200 nanoseconds.
pub const FOLD_AT_ONCE_PACKETS: usize = 50_000;
/// A larger packet ProtoVMs do not get, and have missed. Ours: it is copied at once, and gone through, for what a program takes of it.
pub const MAX_PROTOVM_PACKET_BYTES: usize = 2_000_000;
/// Because of what is stored so many times as much is put together for them of packets in pieces, and once in a while
/// [`MAX_PROTOVM_PACKET_BYTES`]. Ours: many large packets may begin in one place.
pub const PROTOVM_PIECES_PER_STORED: usize = 16;
/// Memory that is kept from one fragmented packet for the next. Ours.
pub const KEEP_PACKET_BYTES: usize = 64 * 1024;

/// Relays at one time. Ours: one a machine, and more machines than anybody has put into one trace.
pub const MAX_RELAYS: usize = 256;
/// Machines besides the service's own whose clocks a session notes. Ours, as [`MAX_RELAYS`].
pub const MAX_MACHINES_PER_SESSION: usize = 256;
/// Bytes of what a relay says of its machine. Ours: it is a few names and numbers.
pub const MAX_SYSTEM_INFO_BYTES: usize = 16 * 1024;
/// Rounds of clock readings kept for each machine. Upstream keeps five pairs, which are two or three rounds.
pub const MAX_SYNC_ROUNDS: usize = 3;
/// Longest time between the two halves of a round: Trace Processor takes longer ones for two rounds.
pub const MAX_SYNC_ROUND: Duration = Duration::from_secs(30);
/// Clocks in one reading of a relay: as many as there can be builtin ones. Ours.
pub const MAX_SYNCED_CLOCKS: usize = 63;
/// The highest id of a clock that means the same everywhere (upstream: builtin_clock.proto).
pub const MAX_BUILTIN_CLOCK: u32 = 63;
/// The latest time that a relay's clock may show: Trace Processor adds two of them as signed numbers. Ours: the year 2116.
pub const MAX_CLOCK_READING: u64 = 1 << 62;

/// Size of a producer's shared memory if nobody says otherwise.
pub const DEFAULT_SHARED_MEMORY_SIZE: usize = 256 * 1024;
/// Page size of a producer's shared memory if nobody says otherwise.
pub const DEFAULT_PAGE_SIZE: usize = 4096;
/// Largest shared memory that a producer gets by its own wish, or brings.
pub const MAX_SHARED_MEMORY_SIZE: usize = 32 * 1024 * 1024;
/// Largest one that a config gives to a producer. Ours: two seconds of what a thread can write when nothing takes it; upstream gives
/// [`MAX_SHARED_MEMORY_SIZE`].
pub const MAX_CONFIGURED_SHARED_MEMORY_SIZE: usize = ferretto_shm::MAX_LEN;
/// The same by a config of a user who is neither root nor the service's own. Ours, for the memory of the service: a producer makes it look
/// at all of it, and 64 MiB is what one client may cost.
pub const MAX_SHARED_MEMORY_SIZE_BY_USERS: usize = 48 * 1024 * 1024;
/// Shared memory of all producers of one user who is neither root nor the service's own, in bytes. Ours, likewise: three with all that
/// they may wish for, or four hundred with the default.
pub const MAX_SHARED_MEMORY_PER_USER: usize = 96 * 1024 * 1024;
/// What further producers of that user get, whatever they or a config wish. Ours: all that there may be have no more than
/// [`MAX_SHARED_MEMORY_PER_USER`] together, and eight pages are enough to write.
pub const SHARED_MEMORY_SIZE_AT_LAST: usize = MAX_SHARED_MEMORY_PER_USER / MAX_PRODUCERS_PER_UID;
/// Largest page: the trace buffer takes chunks below 64 KiB.
pub const MAX_PAGE_SIZE: usize = 32 * 1024;

/// How many sessions there may be before one of this user's.
pub(crate) fn max_sessions(uid: u32) -> usize {
    if uid == 0 { MAX_SESSIONS + SESSIONS_FOR_ROOT } else { MAX_SESSIONS }
}
