//! One tracefs instance and the sessions that share it: what each of them wants is merged into one state of the kernel's files.
//!
//! | module | what it does |
//! |---|---|
//! | `take_over` | what was there before the first session, and is put back after the last |
//! | `buffers` | how large the kernel's buffers are, and their clock |
//! | `events` | which events are on, for whom, and how each is taken apart |
//! | `kprobes` | kernel probes |
//! | `limits` | what sessions may take of the kernel |

mod buffers;
mod events;
mod kprobes;
mod limits;
mod take_over;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use ferretto_protos::FtraceConfig;

use self::buffers::system_page_kb;
use self::events::{say_what_is_missing, syscall_ids};
use super::claim::{self, Claim, Readers};
use super::clock_pair::ClockPair;
use super::compact::CompactLayout;
use super::cpu_stats::CpuStats;
use super::encode::ParseConfig;
use super::format::PageLayout;
use super::plan::EventPlan;
use super::stats::{SetupErrors, Snapshot, kprobe_totals};
use super::symbols::PrintkFormats;
use super::tracefs::Tracefs;
use crate::clock::boottime_ns;

pub(crate) use self::events::is_path_part;
pub(crate) use self::limits::Limits;

/// Group and name.
type EventName = (String, String);

/// A tracefs instance.
#[derive(Debug)]
pub(crate) struct Instance {
    pub(crate) tracefs: Tracefs,
    pub(crate) layout: PageLayout,
    /// The directory was made for a session, and goes with the last one.
    created: bool,
    /// Made because somebody else uses the root instance.
    is_private: bool,
    /// Nobody else of ours uses it meanwhile.
    _claim: Claim,
    plans: BTreeMap<EventName, Rc<EventPlan>>,
    printk: Option<PrintkFormats>,
    compact: Option<Option<CompactLayout>>,
    /// What each session wants, by session.
    wanted: BTreeMap<u64, Wanted>,
    active: BTreeSet<u64>,
    /// The kernel's state while there is a session.
    state: Option<State>,
}

/// One session's share of the kernel's state.
#[derive(Debug, Default)]
struct Wanted {
    events: BTreeSet<EventName>,
    /// System calls to record; `None` if the session does not record system calls, empty for all.
    syscalls: Option<BTreeSet<u32>>,
    buffer_percent: Option<u32>,
    kprobes: usize,
    exclusive: bool,
}

/// What has been changed, and what it was.
#[derive(Debug)]
struct State {
    tracing_on_before: bool,
    clock_before: String,
    /// `events/enable`, and the events that were on if it was some of them.
    events_before: (String, Vec<EventName>),
    buffer_sizes_before: Vec<(String, u64)>,
    buffer_percent_before: Option<u64>,
    /// `FtraceClock`; 0 is the boot clock.
    clock: u64,
    requested_kb: u64,
    /// What the kernel has made of it.
    buffer_kb: u64,
    enabled: BTreeSet<EventName>,
    syscall_filter: BTreeSet<u32>,
    kprobes: BTreeSet<EventName>,
    function_graph: bool,
    options_before: Vec<(String, bool)>,
    cpumask_before: Option<String>,
    tids_filtered: bool,
}

impl Instance {
    /// Makes an instance that nobody else knows of.
    pub(crate) fn private(root: &Path) -> Result<Self, String> {
        let (name, claim) = claim::make_private(root)?;
        let tracefs = Tracefs::instance(root.to_owned(), root.join("instances").join(name));
        let mut instance = Self::new(tracefs, true, claim);
        instance.is_private = true;
        // Where tracefs was given to a user, what is made in it later need not be theirs.
        match instance.tracefs.is_usable() {
            true => Ok(instance),
            false => Err(format!("{} may not be written", instance.tracefs.root().display())),
        }
    }

    /// Opens the root instance, unless another recorder of ours uses it.
    pub(crate) fn root(root: PathBuf) -> Result<Self, String> {
        let claim =
            Claim::take(&root).ok_or_else(|| format!("{} is used by another recorder", root.display()))?;
        Ok(Self::new(Tracefs::new(root), false, claim))
    }

    /// Opens `instances/NAME`, which is made if it does not exist.
    pub(crate) fn named(root: &Path, name: &str) -> Result<Self, String> {
        if !is_path_part(name) || name.starts_with("..") {
            return Err(format!("instance_name \"{name}\" must be a plain name"));
        }
        // The hypervisor's events live beside `instances/` (upstream: ftrace_controller.cc).
        let path = if matches!(name, "hyp" | "hypervisor") {
            root.join(name)
        } else {
            root.join("instances").join(name)
        };
        let mut created = false;
        if !path.is_dir() {
            std::fs::create_dir(&path).map_err(|error| {
                format!("could not create the ftrace instance {}: {error}", path.display())
            })?;
            created = true;
        }
        let claim = Claim::take(&path)
            .ok_or_else(|| format!("the ftrace instance {} is used by another recorder", path.display()))?;
        Ok(Self::new(Tracefs::instance(root.to_owned(), path), created, claim))
    }

    /// Refuses an instance that is somebody else's: taking it over would end what they record, and empty it. Whoever wants what is in the
    /// buffers (`preserve_ftrace_buffer`) wants an instance that records; only somebody who reads it is in the way then. A daemon that is shut in
    /// sees that by what has been read.
    pub(crate) fn check_unused(&self, config: &FtraceConfig) -> Result<(), String> {
        self.check_unused_by(config, claim::readers)
    }

    fn check_unused_by(
        &self,
        config: &FtraceConfig,
        readers: impl FnOnce(&Tracefs) -> Readers,
    ) -> Result<(), String> {
        let tracefs = &self.tracefs;
        let place = tracefs.root().display();
        let has_events = tracefs.has_events();
        let why = if config.preserve_ftrace_buffer() {
            let is_read = || match readers(tracefs) {
                Readers::Some => true,
                Readers::Nobody => false,
                Readers::Unknown => self.is_named() && tracefs.was_read(),
            };
            (has_events && is_read()).then_some("it is being read")
        } else if has_events {
            Some("events are on")
        } else {
            (self.is_named() && !tracefs.is_empty()).then_some("there are events in its buffers")
        };
        match why {
            None => Ok(()),
            Some(why) => Err(format!(
                "{place} is in use by somebody else: {why}; if it is not, switch its events off (events/enable) and empty it (trace)"
            )),
        }
    }

    fn is_named(&self) -> bool {
        !self.created && self.tracefs.is_instance()
    }

    fn new(tracefs: Tracefs, created: bool, claim: Claim) -> Self {
        Self {
            layout: layout(&tracefs),
            tracefs,
            created,
            is_private: false,
            _claim: claim,
            plans: BTreeMap::new(),
            printk: None,
            compact: None,
            wanted: BTreeMap::new(),
            active: BTreeSet::new(),
            state: None,
        }
    }

    /// Whether no session needs it.
    pub(crate) fn is_idle(&self) -> bool {
        self.wanted.is_empty()
    }

    /// Whether several sessions share the buffers.
    pub(crate) fn is_shared(&self) -> bool {
        self.wanted.len() > 1
    }

    pub(crate) fn printk(&mut self) -> &PrintkFormats {
        self.printk.get_or_insert_with(|| PrintkFormats::parse(&self.tracefs.read_shared("printk_formats")))
    }

    /// Brings the kernel into a state that serves this session too, without recording yet. Single things that fail go into `errors`; an
    /// error means that nothing can be recorded.
    pub(crate) fn set_up(
        &mut self,
        session: u64,
        config: &FtraceConfig,
        limits: Limits,
        next_field: &mut u32,
        errors: &mut SetupErrors,
    ) -> Result<ParseConfig, String> {
        let exclusive = is_exclusive(config);
        if self.state.is_none() {
            self.state = Some(self.take_over(config, limits, errors)?);
            self.layout = layout(&self.tracefs);
        } else if exclusive || self.wanted.values().any(|wanted| wanted.exclusive) {
            let error = "tids_to_trace, tracefs_options and tracing_cpumask are for one session at a time, and another session is active";
            errors.exclusive_feature = Some(error.to_owned());
            return Err(error.to_owned());
        } else {
            self.grow(config, limits, errors);
        }
        self.wanted.insert(
            session,
            Wanted { exclusive, buffer_percent: config.drain_buffer_percent, ..Wanted::default() },
        );
        let result = self.apply(session, config, limits, next_field, errors);
        if result.is_err() {
            self.remove(session);
        }
        result
    }

    fn apply(
        &mut self,
        session: u64,
        config: &FtraceConfig,
        limits: Limits,
        next_field: &mut u32,
        errors: &mut SetupErrors,
    ) -> Result<ParseConfig, String> {
        self.apply_exclusive(config)?;
        say_what_is_missing(config, errors);
        let mut parse =
            ParseConfig::new(config.denser_generic_event_encoding.unwrap_or(true), config.symbolize_ksyms());
        let syscall_ids = syscall_ids(config, errors);
        self.enable_kprobes(session, config, limits, &mut parse, errors);
        let events = self.resolve_events(config, errors);
        let records_syscalls = events.iter().any(|(group, _)| group == "raw_syscalls");
        for event in events {
            self.enable_event(session, event, config, &syscall_ids, &mut parse, next_field, errors);
        }
        if records_syscalls && let Some(wanted) = self.wanted.get_mut(&session) {
            wanted.syscalls = Some(syscall_ids);
        }
        self.update_syscall_filter()
            .map_err(|error| denied(&self.tracefs, "events/raw_syscalls/*/filter", &error))?;
        if config.enable_function_graph() {
            self.enable_function_graph(config)?;
        }
        self.choose_compact(config, &mut parse, errors);
        Ok(parse)
    }

    /// Begins recording.
    pub(crate) fn activate(&mut self, session: u64) -> Result<(), String> {
        let is_first = self.active.is_empty();
        self.active.insert(session);
        self.update_buffer_percent();
        if is_first && let Err(error) = self.tracefs.set_tracing_on(true) {
            self.active.remove(&session);
            return Err(denied(&self.tracefs, "tracing_on", &error));
        }
        Ok(())
    }

    /// Takes one session's share back; the last one restores what was there before the first. Raw pipes must be closed by then: the
    /// kernel changes no tracer under a reader.
    pub(crate) fn remove(&mut self, session: u64) {
        if self.wanted.remove(&session).is_none() {
            return;
        }
        if let Err(error) = self.update_syscall_filter() {
            tracing::warn!("linux.ftrace: could not restore the system call filter: {error}");
        }
        if let Some(state) = &mut self.state {
            let unwanted: Vec<_> = state
                .enabled
                .iter()
                .filter(|e| !self.wanted.values().any(|w| w.events.contains(*e)))
                .cloned()
                .collect();
            for event in unwanted {
                if self.tracefs.disable_event(&event.0, &event.1).is_ok() {
                    state.enabled.remove(&event);
                }
            }
        }
        if self.active.remove(&session) && self.active.is_empty() {
            let _ = self.tracefs.set_tracing_on(false);
        }
        self.update_buffer_percent();
        if self.wanted.is_empty()
            && let Some(state) = self.state.take()
        {
            self.restore(&state);
        }
    }

    /// The two clocks now, if the buffer's is not the boot clock.
    pub(crate) fn clock_pair(&self) -> Option<ClockPair> {
        let clock = self.state.as_ref()?.clock;
        (clock != 0).then(|| {
            let boot_ns = boottime_ns();
            ClockPair { clock, boot_ns, ftrace_ns: CpuStats::parse(0, &self.tracefs.cpu_stats(0)).now_ns() }
        })
    }

    /// What the kernel says about its buffers now.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let cpus = self.tracefs.cpus();
        Snapshot {
            cpus: cpus.into_iter().map(|cpu| CpuStats::parse(cpu, &self.tracefs.cpu_stats(cpu))).collect(),
            kprobes: self
                .state
                .as_ref()
                .filter(|state| !state.kprobes.is_empty())
                .map(|_| kprobe_totals(&self.tracefs)),
            buffer_pages: self.tracefs.cpu_buffer_size_kb() / system_page_kb(),
            requested_buffer_pages: self.state.as_ref().map_or(0, |state| state.requested_kb)
                / system_page_kb(),
            ..Snapshot::default()
        }
    }
}

impl Drop for Instance {
    /// Whatever ends the daemon's loop, the kernel gets its files back.
    fn drop(&mut self) {
        if let Some(state) = self.state.take() {
            self.restore(&state);
        }
        if self.created
            && let Err(error) = std::fs::remove_dir(self.tracefs.root())
        {
            tracing::warn!("linux.ftrace: could not remove {}: {error}", self.tracefs.root().display());
        }
    }
}

/// How this instance's pages are laid out; its sub-buffers may be of several of the machine's pages.
fn layout(tracefs: &Tracefs) -> PageLayout {
    PageLayout::parse(&tracefs.read("events/header_page"))
        .unwrap_or(PageLayout::native_64bit(rustix::param::page_size()))
}

fn denied(tracefs: &Tracefs, file: &str, error: &std::io::Error) -> String {
    format!("could not write {}: {error}", tracefs.root().join(file).display())
}

/// Whether a session wants options that only one of an instance can have.
pub(crate) fn is_exclusive(config: &FtraceConfig) -> bool {
    !config.tids_to_trace.is_empty()
        || !config.tracefs_options.is_empty()
        || !config.tracing_cpumask().is_empty()
}

#[cfg(test)]
mod tests;
