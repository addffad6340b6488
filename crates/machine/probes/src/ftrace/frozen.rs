//! `linux.frozen_ftrace`: what a tracefs instance still holds that nobody records into any more, such as a ring of the kernel's that has
//! survived a reboot (boot parameter `trace_instance=NAME@ADDRESS`).
//!
//! The instance's settings stay as they are. Its content does not: reading takes it out of the kernel's buffers, and at the end they are
//! emptied, so that the next boot does not find it again (upstream: frozen_ftrace_data_source.cc). One that somebody records into is not read:
//! what is read would be missing there.

use std::path::PathBuf;
use std::rc::Rc;
use std::time::Instant;

use ferretto_protos::FrozenFtraceConfig;
use ferretto_protos::fields::{ftrace_stats, trace_packet};
use ferretto_protos::ftrace::KNOWN_EVENTS;

use super::claim::{self, Claim};
use super::controller::tracefs_root;
use super::cpu_stats::CpuStats;
use super::encode::{Batch, EncodeState, Filter, Names, ParseConfig, Scratch, encode_batch};
use super::format::{EventFormat, PageLayout};
use super::instance::is_path_part;
use super::plan::EventPlan;
use super::reader::{CpuReader, PageBuffer};
use super::stats::{self, Phase, SetupErrors, Snapshot};
use super::symbols::PrintkFormats;
use super::tracefs::Tracefs;
use crate::packets::Packets;
use crate::proc_fs::leading_u64;

/// One session that reads a frozen instance.
#[derive(Debug)]
pub(crate) struct FrozenFtrace {
    name: String,
    reading: Option<Reading>,
}

/// An instance from its first page to its last.
#[derive(Debug)]
struct Reading {
    tracefs: Tracefs,
    /// Nobody else of ours uses it meanwhile.
    _claim: Claim,
    layout: PageLayout,
    printk: PrintkFormats,
    cpus: Vec<Cpu>,
    parse: ParseConfig,
    state: EncodeState,
    scratch: Scratch,
    pages: PageBuffer,
    /// Nobody writes to it.
    is_frozen: bool,
    /// When to go on; none if everything has been read.
    next: Option<Instant>,
}

#[derive(Debug)]
struct Cpu {
    reader: CpuReader,
    /// The buffer holds no more; only somebody who writes to it all the time would make it more.
    pages_left: usize,
}

impl FrozenFtrace {
    pub(crate) fn new(config: &FrozenFtraceConfig) -> Self {
        Self { name: config.instance_name().to_owned(), reading: None }
    }

    /// Begins reading. What prevents it is said in the log and in the trace.
    pub(crate) fn start(&mut self, out: &mut impl Packets) {
        let mut problems = Vec::new();
        let opened = instance_path(&self.name)
            .and_then(|(root, path)| Reading::open(Tracefs::new(path), &Tracefs::new(root), &mut problems));
        match opened {
            Ok(reading) => self.reading = Some(reading),
            Err(problem) => problems.push(format!("nothing is recorded: {problem}")),
        }
        for problem in &problems {
            tracing::warn!("linux.frozen_ftrace: {problem}");
        }
        write_start(&SetupErrors { messages: problems, ..SetupErrors::default() }, out);
    }

    /// When [`work`](Self::work) wants to be called; none once everything has been read.
    pub(crate) fn next_work(&self) -> Option<Instant> {
        self.reading.as_ref()?.next
    }

    /// Reads a few pages of each CPU.
    pub(crate) fn work(&mut self, out: &mut impl Packets) {
        if let Some(reading) = &mut self.reading
            && reading.next.is_some()
        {
            reading.work(out);
        }
    }

    /// Empties the instance if all of it is in the trace and nobody adds to it.
    pub(crate) fn stop(&mut self) {
        if let Some(reading) =
            self.reading.take().filter(|reading| reading.next.is_none() && reading.is_frozen)
            && let Err(error) = reading.tracefs.clear_trace()
        {
            tracing::warn!(
                "linux.frozen_ftrace: could not empty {}: {error}",
                reading.tracefs.root().display()
            );
        }
    }
}

/// The root of tracefs and the instance's folder in it, or what is missing.
fn instance_path(name: &str) -> Result<(PathBuf, PathBuf), String> {
    if name.is_empty() {
        return Err("frozen_ftrace_config needs an instance_name".to_owned());
    }
    if !is_path_part(name) || name.starts_with("..") {
        return Err(format!("instance_name \"{name}\" must be a plain name"));
    }
    if claim::is_private(name) {
        return Err(format!("instance_name \"{name}\" is what a recorder calls an instance of its own"));
    }
    let root = tracefs_root()?;
    let path = root.join("instances").join(name);
    match path.is_dir() {
        true => Ok((root, path)),
        false => Err(format!(
            "there is no ftrace instance {} (one that survives reboots is made by the kernel: boot parameter trace_instance)",
            path.display()
        )),
    }
}

/// Without the flag readers would cut what was recorded before the start: everything.
fn write_start(errors: &SetupErrors, out: &mut impl Packets) {
    out.packet(|packet| {
        let mut stats = packet.nested(trace_packet::FTRACE_STATS);
        stats.varint(ftrace_stats::PHASE, Phase::Start as u64);
        stats.bool(ftrace_stats::PRESERVE_FTRACE_BUFFER, true);
        stats::write_setup_errors(&mut stats, errors);
    });
}

impl Reading {
    fn open(tracefs: Tracefs, root: &Tracefs, problems: &mut Vec<String>) -> Result<Self, String> {
        let place = tracefs.root().display();
        let claim =
            Claim::take(tracefs.root()).ok_or_else(|| format!("{place} is used by another recorder"))?;
        let is_frozen = !tracefs.tracing_on();
        if !is_frozen && (tracefs.has_events() || !matches!(tracefs.current_tracer().as_str(), "nop" | "")) {
            return Err(format!(
                "{place} is still recorded into, and what is read is gone from it; switch it off first (tracing_on)"
            ));
        }
        if !is_frozen {
            problems.push(format!(
                "{place} is still switched on: what it holds now is read, and it is not emptied at the end"
            ));
        }
        let layout = PageLayout::parse(&tracefs.read("events/header_page"))
            .unwrap_or(PageLayout::native_64bit(rustix::param::page_size()));
        let parse = every_known_event(&tracefs);
        let cpus = open_cpus(&tracefs, layout, problems);
        if cpus.is_empty() {
            return Err(format!("no buffer of {} can be read", tracefs.root().display()));
        }
        Ok(Self {
            // Only the root has it.
            printk: PrintkFormats::parse(&root.read("printk_formats")),
            pages: PageBuffer::default(),
            tracefs,
            _claim: claim,
            layout,
            cpus,
            parse,
            state: EncodeState::default(),
            scratch: Scratch::default(),
            is_frozen,
            next: Some(Instant::now()),
        })
    }

    fn work(&mut self, out: &mut impl Packets) {
        let mut is_done = true;
        for cpu in &mut self.cpus {
            let pages = self.pages.pages(self.layout);
            let read = cpu.reader.read_frozen(pages, self.layout, cpu.pages_left);
            cpu.pages_left = if read.is_last { 0 } else { cpu.pages_left.saturating_sub(read.pages) };
            is_done &= cpu.pages_left == 0;
            if let Some(error) = read.error {
                self.state.errors.insert(error);
            }
            let pages = pages.get(..read.pages * self.layout.page_size).unwrap_or(&[]);
            // The clock is that of an earlier boot, so there is no pair to convert with.
            let batch = Batch { cpu: cpu.reader.cpu, pages, layout: self.layout, clock: None };
            let names = Names { printk: &self.printk, symbols: None };
            encode_batch(out, &batch, &self.parse, &mut self.state, &mut self.scratch, names);
        }
        // Threads of an earlier boot are nobody's business now.
        self.state.metadata.clear();
        self.next = (!is_done).then(Instant::now);
        if is_done {
            self.write_end(out);
        }
    }

    fn write_end(&mut self, out: &mut impl Packets) {
        let stats_of = |cpu: &Cpu| CpuStats::parse(cpu.reader.cpu, &self.tracefs.cpu_stats(cpu.reader.cpu));
        let snapshot = Snapshot { cpus: self.cpus.iter().map(stats_of).collect(), ..Snapshot::default() };
        stats::write(out, Phase::End, &snapshot, &SetupErrors::default(), self.state.errors);
    }
}

/// Whatever was recorded then, as far as the schema and this kernel know it.
fn every_known_event(tracefs: &Tracefs) -> ParseConfig {
    let mut parse = ParseConfig::new(false, false);
    for known in KNOWN_EVENTS.iter() {
        let format = EventFormat::parse(&tracefs.event_format(known.group, known.event));
        if let Some(plan) = format.and_then(|format| EventPlan::known(known.group, &format)) {
            parse.enable(Rc::new(plan), Filter::All);
        }
    }
    parse
}

fn open_cpus(tracefs: &Tracefs, layout: PageLayout, problems: &mut Vec<String>) -> Vec<Cpu> {
    let mut cpus = Vec::new();
    for cpu in tracefs.cpus() {
        match tracefs.open_raw_pipe(cpu) {
            Ok(pipe) => {
                let pages_left =
                    buffer_pages(&tracefs.read(&format!("per_cpu/cpu{cpu}/buffer_size_kb")), layout);
                cpus.push(Cpu { reader: CpuReader { cpu, pipe }, pages_left });
            }
            Err(error) => {
                problems.push(format!("CPU {cpu} is not read: could not open its trace_pipe_raw: {error}"));
            }
        }
    }
    cpus
}

/// Pages in a buffer of that size, as its file says it, and the one that the kernel sets aside for the reader.
fn buffer_pages(size_kb: &[u8], layout: PageLayout) -> usize {
    let bytes = leading_u64(size_kb).unwrap_or(0).saturating_mul(1024);
    usize::try_from(bytes).unwrap_or(usize::MAX).div_ceil(layout.page_size.max(1)).saturating_add(1)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use ferretto_protos::trace_packet::Data;
    use ferretto_protos::{FtraceStats, TracePacket, ftrace_stats};

    use super::*;
    use crate::ftrace::page::ParseStatus;
    use crate::ftrace::reader::BATCH_BYTES;
    use crate::packets::testing::Recorded;

    const SCHED_PAGES: &[u8] = include_bytes!("../../tests/data/pages/sched");
    /// Pages of a batch, where pages are as small as here.
    const BATCH_PAGES: usize = BATCH_BYTES / 4096;

    /// A folder with the files of a stopped instance of two CPUs, of which one has recorded nothing.
    struct Frozen(PathBuf);

    impl Frozen {
        fn new(name: &str, pages: &[u8]) -> Self {
            let root = std::env::temp_dir().join(format!("ferretto-frozen-{name}-{}", std::process::id()));
            let formats = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/formats");
            for event in ["sched_switch", "sched_waking"] {
                let dir = root.join("events/sched").join(event);
                std::fs::create_dir_all(&dir).unwrap();
                std::fs::copy(formats.join(event), dir.join("format")).unwrap();
            }
            for (cpu, pages) in [(0, pages), (1, &[][..])] {
                let dir = root.join(format!("per_cpu/cpu{cpu}"));
                std::fs::create_dir_all(&dir).unwrap();
                std::fs::write(dir.join("trace_pipe_raw"), pages).unwrap();
                std::fs::write(dir.join("buffer_size_kb"), (pages.len() / 1024).to_string()).unwrap();
                std::fs::write(dir.join("stats"), "entries: 0\nread events: 7\n").unwrap();
            }
            std::fs::write(root.join("tracing_on"), "0\n").unwrap();
            std::fs::write(root.join("trace"), "content").unwrap();
            Self(root)
        }

        fn source(&self) -> (FrozenFtrace, Vec<String>) {
            let mut problems = Vec::new();
            let reading =
                Reading::open(Tracefs::new(self.0.clone()), &Tracefs::new(self.0.clone()), &mut problems);
            (FrozenFtrace { name: "test".to_owned(), reading: reading.ok() }, problems)
        }

        fn is_emptied(&self) -> bool {
            std::fs::read(self.0.join("trace")).unwrap().is_empty()
        }
    }

    impl Drop for Frozen {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn work_to_the_end(source: &mut FrozenFtrace) -> Vec<TracePacket> {
        let mut out = Recorded::default();
        while source.next_work().is_some() {
            source.work(&mut out);
        }
        out.decoded()
    }

    fn events(packets: &[TracePacket]) -> usize {
        let of = |packet: &TracePacket| match &packet.data {
            Some(Data::FtraceEvents(bundle)) => bundle.event.len(),
            _ => 0,
        };
        packets.iter().map(of).sum()
    }

    fn stats(packet: Option<&TracePacket>) -> FtraceStats {
        match packet.and_then(|packet| packet.data.clone()) {
            Some(Data::FtraceStats(stats)) => stats,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_page_is_read_and_the_instance_emptied_afterwards() {
        // More than one turn's pages.
        let rounds = BATCH_PAGES + 1;
        let frozen = Frozen::new("whole", &SCHED_PAGES[..4096].repeat(rounds));
        let (mut source, problems) = frozen.source();
        assert_eq!(problems, Vec::<String>::new());
        let packets = work_to_the_end(&mut source);
        let one_page = events(&work_to_the_end(&mut Frozen::new("page", &SCHED_PAGES[..4096]).source().0));
        assert!(one_page > 0);
        assert_eq!(events(&packets), one_page * rounds);
        let end = stats(packets.last());
        assert_eq!(
            (end.phase(), end.cpu_stats.len(), end.cpu_stats[0].read_events()),
            (ftrace_stats::Phase::EndOfTrace, 2, 7)
        );
        assert!(!frozen.is_emptied());
        source.stop();
        assert!(frozen.is_emptied());
    }

    #[test]
    fn an_instance_that_is_not_read_to_its_end_or_still_used_keeps_the_rest() {
        let frozen = Frozen::new("half", &SCHED_PAGES[..4096].repeat(BATCH_PAGES + 1));
        let (mut source, _) = frozen.source();
        source.work(&mut Recorded::default());
        source.stop();
        assert!(!frozen.is_emptied());

        std::fs::write(frozen.0.join("tracing_on"), "1\n").unwrap();
        let (mut source, problems) = frozen.source();
        assert!(problems[0].contains("still switched on"), "{problems:?}");
        work_to_the_end(&mut source);
        source.stop();
        assert!(!frozen.is_emptied());
    }

    #[test]
    fn an_instance_that_somebody_records_into_is_not_read() {
        let frozen = Frozen::new("recorded", &SCHED_PAGES[..4096]);
        let refusal = || {
            let tracefs = || Tracefs::new(frozen.0.clone());
            Reading::open(tracefs(), &tracefs(), &mut Vec::new()).err().unwrap_or_default()
        };
        assert_eq!(refusal(), "");
        let claim = Claim::take(&frozen.0).unwrap();
        assert!(refusal().contains("used by another recorder"));
        drop(claim);

        std::fs::write(frozen.0.join("tracing_on"), "1\n").unwrap();
        std::fs::write(frozen.0.join("events/enable"), "X\n").unwrap();
        assert!(refusal().contains("still recorded into"));
        std::fs::write(frozen.0.join("events/enable"), "0\n").unwrap();
        std::fs::write(frozen.0.join("current_tracer"), "function\n").unwrap();
        assert!(refusal().contains("still recorded into"));
        std::fs::write(frozen.0.join("tracing_on"), "0\n").unwrap();
        assert_eq!(refusal(), "", "events may be on in one that is stopped");
    }

    #[test]
    fn damage_is_told_at_the_end() {
        let frozen = Frozen::new("damaged", &[&SCHED_PAGES[..4096], &[1; 100]].concat());
        let packets = work_to_the_end(&mut frozen.source().0);
        assert!(events(&packets) > 0);
        assert_eq!(stats(packets.last()).ftrace_parse_errors, [ParseStatus::PartialPageRead as i32]);
    }

    #[test]
    fn what_is_no_instance_is_said_in_the_trace() {
        for (name, part) in [
            ("", "needs an instance_name"),
            ("a/b", "plain name"),
            ("..x", "plain name"),
            ("ferretto-17", "of its own"),
        ] {
            let config = FrozenFtraceConfig { instance_name: Some(name.to_owned()) };
            let mut source = FrozenFtrace::new(&config);
            let mut out = Recorded::default();
            source.start(&mut out);
            let start = stats(out.decoded().first());
            assert!(start.preserve_ftrace_buffer() && start.atrace_errors().contains(part), "{start:?}");
            assert_eq!(source.next_work(), None);
            source.stop();
        }
    }
}
