//! One tracefs instance and the sessions that share it: what each of them wants is merged into one state of the kernel's files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use ferretto_protos::FtraceConfig;
use ferretto_protos::ftrace_config::{KprobeEvent, kprobe_event::KprobeType, tracefs_option};

use super::categories;
use super::claim::{self, Claim, Readers};
use super::clock_pair::ClockPair;
use super::compact::CompactLayout;
use super::cpu_stats::CpuStats;
use super::encode::{Filter, ParseConfig};
use super::format::{EventFormat, FieldKind, PageLayout};
use super::plan::{EventPlan, is_known};
use super::print_filter::PrintFilter;
use super::stats::{SetupErrors, Snapshot, kprobe_totals};
use super::symbols::PrintkFormats;
use super::syscalls;
use super::tracefs::Tracefs;
use crate::clock::boottime_ns;

/// Group and name.
type EventName = (String, String);

/// The default size of a CPU's buffer: on machines with 7 GiB and more, and on others (upstream: ftrace_config_muxer.cc).
const LARGE_BUFFER_KB: u64 = 8 << 10;
const SMALL_BUFFER_KB: u64 = 2 << 10;
const LARGE_MEMORY_BYTES: u64 = 7 << 30;
/// The pages of instances of our own, where they are at least so many. Larger ones save no more, and are harder to find memory for.
const LARGE_PAGE_KB: u64 = 16;
const MIN_PAGES: u64 = 64;
/// An instance's buffers take this share of the machine's memory at the most: the kernel gives what it is asked for, whoever asks, and that
/// memory is nobody's whom it could end instead.
const MEMORY_SHARE: u64 = 8;
/// Kernel probes of one session: each takes the probes' thread some hundredths of a second to set up and to remove, and a return probe
/// memory for a thousand calls at once.
pub(crate) const MAX_KPROBES_OF_SESSION: usize = 64;
/// Kernel probes of all sessions.
pub(crate) const MAX_KPROBES: usize = 256;
/// Groups of the probes that this daemon installs; configs may not name them among their events.
const KPROBE_GROUP: &str = "perfetto_kprobes";
const KRETPROBE_GROUP: &str = "perfetto_kretprobes";
/// `KprobeEvent.KprobeType` of the trace: a single moment, or begin and end of a call.
const KPROBE_BEGIN: u64 = 1;
const KPROBE_END: u64 = 2;
const KPROBE_INSTANT: u64 = 3;

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

/// What a new session may take of the kernel, beside what others have of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// For the buffers of all CPUs together.
    pub(crate) buffers_kb: u64,
    /// In all instances.
    pub(crate) kprobes: usize,
    /// For the tracing session, which may have several data sources.
    pub(crate) kprobes_of_session: usize,
}

impl Limits {
    /// What one instance may take while there is no other.
    pub(crate) fn of_machine() -> Self {
        Self {
            buffers_kb: memory_bytes() / 1024 / MEMORY_SHARE,
            kprobes: MAX_KPROBES,
            kprobes_of_session: MAX_KPROBES_OF_SESSION,
        }
    }
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

    /// The first session takes tracefs over from whatever was there.
    fn take_over(
        &self,
        config: &FtraceConfig,
        limits: Limits,
        errors: &mut SetupErrors,
    ) -> Result<State, String> {
        let tracefs = &self.tracefs;
        let keep = config.preserve_ftrace_buffer();
        let tracer = tracefs.current_tracer();
        if !keep && !matches!(tracer.as_str(), "nop" | "") {
            return Err(format!(
                "ftrace is in use: current_tracer of {} is {tracer}, not nop",
                tracefs.root().display()
            ));
        }
        let (clocks, clock_before) = tracefs.clocks();
        let tracing_on_before = tracefs.tracing_on();
        let events_before = tracefs.events_on();
        let buffer_sizes_before = tracefs.buffer_sizes_kb();
        let buffer_percent_before = tracefs.buffer_percent();
        let mut clock = clock_before.clone();
        let mut requested_kb = tracefs.cpu_buffer_size_kb();
        if !keep {
            tracefs.set_tracing_on(false).map_err(|error| denied(tracefs, "tracing_on", &error))?;
            // Not fatal where this file is closed to us: events are switched on and off one by one.
            let _ = tracefs.disable_all_events();
            tracefs.clear_trace().map_err(|error| denied(tracefs, "trace", &error))?;
            clock = choose_clock(&clocks, config.use_monotonic_raw_clock(), &clock_before).to_owned();
            if clock != clock_before {
                tracefs.set_clock(&clock).map_err(|error| denied(tracefs, "trace_clock", &error))?;
            }
            requested_kb = self.granted_kb(config, limits, errors);
            if let Err(error) = self.set_buffer_size_kb(requested_kb) {
                let kept = tracefs.cpu_buffer_size_kb();
                errors.message(format!(
                    "could not set the buffers to {requested_kb} KiB per CPU, {kept} KiB stay: {error}"
                ));
                requested_kb = kept;
            }
        }
        Ok(State {
            tracing_on_before,
            clock_before,
            events_before,
            buffer_sizes_before,
            buffer_percent_before,
            clock: clock_number(&clock),
            requested_kb,
            buffer_kb: tracefs.cpu_buffer_size_kb(),
            enabled: BTreeSet::new(),
            syscall_filter: BTreeSet::new(),
            kprobes: BTreeSet::new(),
            function_graph: false,
            options_before: Vec::new(),
            cpumask_before: None,
            tids_filtered: false,
        })
    }

    /// KiB per CPU that a session gets.
    fn granted_kb(&self, config: &FtraceConfig, limits: Limits, errors: &mut SetupErrors) -> u64 {
        let requested_kb =
            buffer_size_kb(config.buffer_size_kb(), config.buffer_size_lower_bound(), memory_bytes());
        let most_kb = most_kb_per_cpu(limits.buffers_kb, self.tracefs.cpus().len());
        if requested_kb > most_kb {
            errors.message(format!(
                "buffer_size_kb: {requested_kb} KiB per CPU are more of the machine's memory than ftrace may take here; {most_kb} KiB are taken"
            ));
        }
        requested_kb.min(most_kb)
    }

    /// Gives a session beside others as much as it asks for: those that came first may have wanted less. What the buffers hold stays.
    fn grow(&mut self, config: &FtraceConfig, limits: Limits, errors: &mut SetupErrors) {
        let wanted_kb = self.granted_kb(config, limits, errors);
        let Some(state) = self.state.as_mut().filter(|state| wanted_kb > state.requested_kb) else { return };
        if let Err(error) = self.tracefs.set_cpu_buffer_size_kb(wanted_kb) {
            return errors.message(format!(
                "could not make the buffers larger, they stay at {} KiB per CPU: {error}",
                state.requested_kb
            ));
        }
        state.requested_kb = wanted_kb;
        state.buffer_kb = self.tracefs.cpu_buffer_size_kb();
    }

    /// Sets the buffer of each CPU, of larger pages if nobody else is to read them and it has many: each page costs a call, a lock and
    /// more, and with these a sixth less is spent for an event.
    fn set_buffer_size_kb(&self, size_kb: u64) -> std::io::Result<()> {
        let is_large = self.is_private && size_kb >= MIN_PAGES * LARGE_PAGE_KB;
        if is_large
            && system_page_kb() < LARGE_PAGE_KB
            && self.tracefs.set_page_size_kb(LARGE_PAGE_KB).is_ok()
        {
            if self.tracefs.set_cpu_buffer_size_kb(size_kb).is_ok() {
                return Ok(());
            }
            // Memory may be too scattered for them.
            let _ = self.tracefs.set_page_size_kb(system_page_kb());
        }
        self.tracefs.set_cpu_buffer_size_kb(size_kb)
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

    /// Options that change what all sessions would see.
    fn apply_exclusive(&mut self, config: &FtraceConfig) -> Result<(), String> {
        let Some(state) = &mut self.state else { return Ok(()) };
        let tracefs = &self.tracefs;
        if !config.tids_to_trace.is_empty() {
            let tids: Vec<String> = config.tids_to_trace.iter().map(u32::to_string).collect();
            tracefs
                .write("set_event_pid", &tids.join(" "))
                .map_err(|error| denied(tracefs, "set_event_pid", &error))?;
            state.tids_filtered = true;
        }
        for option in &config.tracefs_options {
            let on = match option.state() {
                tracefs_option::State::Unknown => continue,
                tracefs_option::State::Enabled => true,
                tracefs_option::State::Disabled => false,
            };
            let name = option.name();
            let is_plain = !name.is_empty()
                && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'));
            let before = if is_plain { tracefs.option(name) } else { None };
            let before = before.ok_or_else(|| format!("tracefs_options: there is no option \"{name}\""))?;
            tracefs
                .set_option(name, on)
                .map_err(|error| denied(tracefs, &format!("options/{name}"), &error))?;
            state.options_before.push((name.to_owned(), before));
        }
        if !config.tracing_cpumask().is_empty() {
            let before = tracefs.cpumask();
            let mask = config.tracing_cpumask();
            tracefs
                .write("tracing_cpumask", mask)
                .map_err(|error| denied(tracefs, "tracing_cpumask", &error))?;
            state.cpumask_before = Some(before).filter(|mask| !mask.is_empty());
        }
        Ok(())
    }

    /// Every event that a config asks for, by group and name. Whether each exists is seen later.
    fn resolve_events(&self, config: &FtraceConfig, errors: &mut SetupErrors) -> BTreeSet<EventName> {
        let mut events = BTreeSet::new();
        let pair = |group: &str, name: &str| (group.to_owned(), name.to_owned());
        for wanted in &config.ftrace_events {
            match wanted.split_once('/') {
                Some((group, "*")) if is_path_part(group) => {
                    let all = self.tracefs.events_in(group);
                    if all.is_empty() {
                        errors.unknown_events.push(wanted.clone());
                    }
                    events.extend(all.into_iter().map(|name| (group.to_owned(), name)));
                }
                Some((group, name)) if is_path_part(group) && is_path_part(name) => {
                    events.insert(pair(group, name));
                }
                None if is_path_part(wanted) => {
                    let groups = self.tracefs.groups_of_event(wanted);
                    match groups.iter().find(|group| is_known(group, wanted)).or(groups.first()) {
                        Some(group) => drop(events.insert(pair(group, wanted))),
                        None => errors.unknown_events.push(wanted.clone()),
                    }
                }
                _ => errors.unknown_events.push(wanted.clone()),
            }
        }
        if !config.atrace_categories.is_empty() || !config.atrace_apps.is_empty() {
            events.insert(pair("ftrace", "print"));
        }
        for category in &config.atrace_categories {
            match categories::events_of(category, &self.tracefs) {
                Some(of_category) if !config.atrace_userspace_only() => events.extend(of_category),
                Some(_) => {}
                None => errors.message(format!("the atrace category \"{category}\" has no kernel events, and atrace itself exists on Android only")),
            }
        }
        if !config.syscall_events.is_empty() {
            events.extend([pair("raw_syscalls", "sys_enter"), pair("raw_syscalls", "sys_exit")]);
        }
        if config.enable_function_graph() {
            events.extend([pair("ftrace", "funcgraph_entry"), pair("ftrace", "funcgraph_exit")]);
        }
        events.retain(|(group, _)| group != KPROBE_GROUP && group != KRETPROBE_GROUP);
        events
    }

    #[allow(clippy::too_many_arguments)] // All of one event's context, used once.
    fn enable_event(
        &mut self,
        session: u64,
        event: EventName,
        config: &FtraceConfig,
        syscall_ids: &BTreeSet<u32>,
        parse: &mut ParseConfig,
        next_field: &mut u32,
        errors: &mut SetupErrors,
    ) {
        let label = format!("{}/{}", event.0, event.1);
        let Some(plan) = self.plan(&event, next_field) else { return errors.unknown_events.push(label) };
        if plan.is_generic() && config.disable_generic_events() {
            return errors.failed_events.push(label);
        }
        let filter = match (event.0.as_str(), event.1.as_str()) {
            ("ftrace", "print") => {
                self.copy_trace_marker(errors);
                print_filter(config, &plan, errors)
            }
            ("raw_syscalls", _) if !syscall_ids.is_empty() => {
                let offset =
                    plan.format.fields.iter().find(|f| f.name == "id").map_or(8, |f| usize::from(f.offset));
                Filter::Syscalls { offset, ids: syscall_ids.clone() }
            }
            _ => Filter::All,
        };
        if self.switch_on(session, event, errors) {
            parse.enable(plan, filter);
        }
    }

    /// Programs write to the root's `trace_marker`: kernels from 6.16 on copy that to an instance, if asked.
    fn copy_trace_marker(&self, errors: &mut SetupErrors) {
        if self.is_private && self.tracefs.set_option("copy_trace_marker", true).is_err() {
            errors.message(
                "what programs write to trace_marker is not recorded: another recorder uses the root of tracefs, where it arrives".to_owned(),
            );
        }
    }

    /// Enables an event in the kernel, unless another session has.
    fn switch_on(&mut self, session: u64, event: EventName, errors: &mut SetupErrors) -> bool {
        let Some(state) = &mut self.state else { return false };
        // The events of the group `ftrace` are always on and have no switch.
        if event.0 != "ftrace" && !state.enabled.contains(&event) {
            if let Err(error) = self.tracefs.enable_event(&event.0, &event.1) {
                tracing::warn!("linux.ftrace: could not enable {}/{}: {error}", event.0, event.1);
                errors.failed_events.push(format!("{}/{}", event.0, event.1));
                return false;
            }
            state.enabled.insert(event.clone());
        }
        if let Some(wanted) = self.wanted.get_mut(&session) {
            wanted.events.insert(event);
        }
        true
    }

    /// The plan for an event, made on its first use; `None` if the kernel has no such event.
    fn plan(&mut self, event: &EventName, next_field: &mut u32) -> Option<Rc<EventPlan>> {
        if let Some(plan) = self.plans.get(event) {
            return Some(plan.clone());
        }
        let (group, name) = event;
        let format = EventFormat::parse(&self.tracefs.event_format(group, name))?;
        let plan = EventPlan::known(group, &format).unwrap_or_else(|| {
            let field = *next_field;
            *next_field += 1;
            EventPlan::generic(group, &format, field)
        });
        let plan = Rc::new(plan);
        self.plans.insert(event.clone(), plan.clone());
        Some(plan)
    }

    fn enable_kprobes(
        &mut self,
        session: u64,
        config: &FtraceConfig,
        limits: Limits,
        parse: &mut ParseConfig,
        errors: &mut SetupErrors,
    ) {
        let most = limits.kprobes.saturating_sub(self.kprobes()).min(limits.kprobes_of_session);
        let wanted: Vec<(EventName, u64)> = config.kprobe_events.iter().flat_map(parts_of_kprobe).collect();
        let (granted, refused) = wanted.split_at(wanted.len().min(most));
        if !refused.is_empty() {
            errors.message(format!(
                "{} of {} kernel probes are left out: there are {MAX_KPROBES_OF_SESSION} for a session at the most, and {MAX_KPROBES} for all",
                refused.len(),
                wanted.len()
            ));
            errors.failed_events.extend(refused.iter().map(|((group, name), _)| format!("{group}/{name}")));
        }
        for ((group, name), kind) in granted {
            let event = (group.clone(), name.clone());
            if let Err(error) = self.enable_kprobe(session, event, *kind, parse, errors) {
                tracing::warn!("linux.ftrace: no probe on {name}: {error}");
                errors.failed_events.push(format!("{group}/{name}"));
            }
        }
    }

    fn enable_kprobe(
        &mut self,
        session: u64,
        event: EventName,
        kind: u64,
        parse: &mut ParseConfig,
        errors: &mut SetupErrors,
    ) -> std::io::Result<()> {
        let invalid = || std::io::Error::new(std::io::ErrorKind::InvalidInput, "not the name of a function");
        if event.1.is_empty() || !event.1.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
            return Err(invalid());
        }
        self.tracefs.create_kprobe(&event.0, &event.1, event.0 == KRETPROBE_GROUP)?;
        if let Some(state) = &mut self.state {
            state.kprobes.insert(event.clone());
        }
        if let Some(wanted) = self.wanted.get_mut(&session) {
            wanted.kprobes += 1;
        }
        // Probes get a new id each time they are made, so that their formats are never remembered.
        let format =
            EventFormat::parse(&self.tracefs.event_format(&event.0, &event.1)).ok_or_else(invalid)?;
        let plan = Rc::new(EventPlan::kprobe(&event.0, &format));
        if self.switch_on(session, event, errors) {
            parse.enable(plan, Filter::Kprobe { kind });
        }
        Ok(())
    }

    fn enable_function_graph(&mut self, config: &FtraceConfig) -> Result<(), String> {
        let tracefs = &self.tracefs;
        let Some(state) = &mut self.state else { return Ok(()) };
        let fail = |file: &'static str| {
            move |error: std::io::Error| format!("function_graph: could not write {file}: {error}")
        };
        if !state.function_graph {
            tracefs.clear("set_ftrace_filter").map_err(fail("set_ftrace_filter"))?;
            tracefs.clear("set_graph_function").map_err(fail("set_graph_function"))?;
        }
        // The kernel keeps the union over sessions: it is one tracer for the instance.
        tracefs
            .append_functions("set_ftrace_filter", &config.function_filters)
            .map_err(fail("set_ftrace_filter"))?;
        tracefs
            .append_functions("set_graph_function", &config.function_graph_roots)
            .map_err(fail("set_graph_function"))?;
        tracefs
            .write("max_graph_depth", &config.function_graph_max_depth().to_string())
            .map_err(fail("max_graph_depth"))?;
        if !state.function_graph {
            tracefs.write("current_tracer", "function_graph").map_err(fail("current_tracer"))?;
            state.function_graph = true;
        }
        Ok(())
    }

    /// The kernel filters for all sessions at once: the union, or everything if one of them wants everything.
    fn update_syscall_filter(&mut self) -> std::io::Result<()> {
        let Some(state) = &mut self.state else { return Ok(()) };
        let sets = || self.wanted.values().filter_map(|wanted| wanted.syscalls.as_ref());
        let wants_all = sets().any(BTreeSet::is_empty);
        let union: BTreeSet<u32> = sets().flatten().copied().filter(|_| !wants_all).collect();
        if union != state.syscall_filter {
            self.tracefs.set_syscall_filter(&union)?;
            state.syscall_filter = union;
        }
        Ok(())
    }

    /// Scheduler events go column by column if `sched_switch` is recorded and both have the layout that the encoding relies on.
    fn choose_compact(&mut self, config: &FtraceConfig, parse: &mut ParseConfig, errors: &mut SetupErrors) {
        let Some(switch) = parse.plans().find(|plan| plan.group == "sched" && plan.name == "sched_switch")
        else {
            return;
        };
        if config.compact_sched.as_ref().is_some_and(|compact| compact.enabled == Some(false))
            || !parse.is_enabled(switch.id)
        {
            return;
        }
        if self.compact.is_none() {
            let waking = EventFormat::parse(&self.tracefs.event_format("sched", "sched_waking"));
            let waking = waking.and_then(|format| EventPlan::known("sched", &format));
            self.compact = Some(waking.and_then(|waking| CompactLayout::new(switch, &waking)));
        }
        match self.compact.flatten() {
            Some(layout) => parse.set_compact(layout),
            None => {
                errors.failed_events.push("perfetto/compact_sched (unexpected sched event format)".to_owned())
            }
        }
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

    /// Failures are ignored one by one: each of the files should be given back, whatever became of the others.
    fn restore(&mut self, state: &State) {
        let tracefs = &self.tracefs;
        let _ = tracefs.set_tracing_on(false);
        if self.created {
            // It goes, and all that was set with it; each of the writes below would take its hundredths of a second.
            return self.remove_kprobes(state);
        }
        for (file, size_kb) in &state.buffer_sizes_before {
            let _ = tracefs.write(file, &size_kb.to_string());
        }
        if let Some(percent) = state.buffer_percent_before {
            let _ = tracefs.set_buffer_percent(percent);
        }
        let _ = tracefs.disable_all_events();
        if state.function_graph {
            let _ = tracefs.write("current_tracer", "nop");
            let _ = tracefs.clear("set_ftrace_filter");
            let _ = tracefs.clear("set_graph_function");
            let _ = tracefs.write("max_graph_depth", "0");
        }
        let _ = tracefs.clear_trace();
        // This empties all buffers, hence after everything else.
        self.remove_kprobes(state);
        if state.tids_filtered {
            let _ = tracefs.clear("set_event_pid");
        }
        if let Some(mask) = &state.cpumask_before {
            let _ = tracefs.write("tracing_cpumask", mask);
        }
        for (option, on) in state.options_before.iter().rev() {
            let _ = tracefs.set_option(option, *on);
        }
        if clock_number(&state.clock_before) != state.clock {
            let _ = tracefs.set_clock(&state.clock_before);
        }
        tracefs.enable_events(&state.events_before);
        let _ = tracefs.set_tracing_on(state.tracing_on_before);
    }

    /// Each must be off by then: here, and those that another instance uses stay until that one goes.
    fn remove_kprobes(&self, state: &State) {
        for (group, name) in &state.kprobes {
            let _ = self.tracefs.disable_event(group, name);
            let _ = self.tracefs.remove_kprobe(group, name);
        }
    }

    /// What another program has done to the instance while it was recorded into, so that events are missing.
    pub(crate) fn interference(&self) -> Option<String> {
        let state = self.state.as_ref().filter(|_| !self.active.is_empty())?;
        let tracefs = &self.tracefs;
        let place = tracefs.root().display();
        if !tracefs.tracing_on() {
            return Some(format!("it switched {place} off"));
        }
        let size_kb = tracefs.cpu_buffer_size_kb();
        if size_kb < state.buffer_kb {
            return Some(format!(
                "it emptied the buffers of {place} and made them {size_kb} KiB instead of {}",
                state.buffer_kb
            ));
        }
        let mut off = state.enabled.iter().filter(|(group, name)| !tracefs.is_enabled(group, name));
        let (group, name) = off.next()?;
        Some(match off.count() {
            0 => format!("it switched {group}/{name} of {place} off"),
            more => format!("it switched {group}/{name} and {more} more events of {place} off"),
        })
    }

    fn update_buffer_percent(&self) {
        let wanted = self.active.iter().filter_map(|session| self.wanted.get(session)?.buffer_percent);
        if let Some(percent) = wanted.filter(|&percent| percent > 0).min()
            && let Err(error) = self.tracefs.set_buffer_percent(u64::from(percent))
        {
            tracing::warn!("linux.ftrace: drain_buffer_percent has no effect: {error}");
        }
    }

    /// Whether an active session wants to be woken when a buffer is that full.
    pub(crate) fn wants_watermark(&self) -> bool {
        self.active.iter().any(|session| {
            self.wanted.get(session).is_some_and(|wanted| wanted.buffer_percent.is_some_and(|p| p > 0))
        })
    }

    /// The two clocks now, if the buffer's is not the boot clock.
    pub(crate) fn clock_pair(&self) -> Option<ClockPair> {
        let clock = self.state.as_ref()?.clock;
        (clock != 0).then(|| {
            let boot_ns = boottime_ns();
            ClockPair { clock, boot_ns, ftrace_ns: CpuStats::parse(0, &self.tracefs.cpu_stats(0)).now_ns() }
        })
    }

    /// The kernel's memory for all of its buffers, in KiB.
    pub(crate) fn buffers_kb(&self) -> u64 {
        let cpus = self.tracefs.cpus().len() as u64;
        self.state.as_ref().map_or(0, |state| state.buffer_kb.saturating_mul(cpus))
    }

    /// Kernel probes that its sessions have.
    pub(crate) fn kprobes(&self) -> usize {
        self.state.as_ref().map_or(0, |state| state.kprobes.len())
    }

    /// Those of one session.
    pub(crate) fn kprobes_of(&self, session: u64) -> usize {
        self.wanted.get(&session).map_or(0, |wanted| wanted.kprobes)
    }

    /// The pages of one CPU's buffer, as asked of the kernel.
    pub(crate) fn buffer_pages(&self) -> usize {
        let kb = self.state.as_ref().map_or(0, |state| state.requested_kb);
        usize::try_from(kb * 1024).unwrap_or(usize::MAX) / self.layout.page_size.max(1)
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

fn system_page_kb() -> u64 {
    (rustix::param::page_size() / 1024).max(1) as u64
}

fn denied(tracefs: &Tracefs, file: &str, error: &std::io::Error) -> String {
    format!("could not write {}: {error}", tracefs.root().join(file).display())
}

/// Whether a name stays in its folder.
pub(crate) fn is_path_part(part: &str) -> bool {
    !part.is_empty() && !part.contains(['/', '\0']) && part != "." && part != ".."
}

/// Whether a session wants options that only one of an instance can have.
pub(crate) fn is_exclusive(config: &FtraceConfig) -> bool {
    !config.tids_to_trace.is_empty()
        || !config.tracefs_options.is_empty()
        || !config.tracing_cpumask().is_empty()
}

/// The probes to install for one that a config names, with their kinds.
fn parts_of_kprobe(probe: &KprobeEvent) -> Vec<(EventName, u64)> {
    let parts: &[(&str, u64)] = match probe.r#type() {
        KprobeType::Kprobe => &[(KPROBE_GROUP, KPROBE_INSTANT)],
        KprobeType::Kretprobe => &[(KRETPROBE_GROUP, KPROBE_INSTANT)],
        KprobeType::Both => &[(KPROBE_GROUP, KPROBE_BEGIN), (KRETPROBE_GROUP, KPROBE_END)],
        KprobeType::Unknown => &[],
    };
    parts.iter().map(|&(group, kind)| ((group.to_owned(), probe.probe().to_owned()), kind)).collect()
}

/// Fields that this daemon does not act on: said, never swallowed.
fn say_what_is_missing(config: &FtraceConfig, errors: &mut SetupErrors) {
    let ignored = [
        ("atrace_apps", !config.atrace_apps.is_empty(), "atrace exists on Android only"),
        (
            "atrace_categories_prefer_sdk",
            !config.atrace_categories_prefer_sdk.is_empty(),
            "atrace exists on Android only",
        ),
        ("throttle_rss_stat", config.throttle_rss_stat(), "kmem/rss_stat is recorded unthrottled"),
        ("debug_ftrace_abi", config.debug_ftrace_abi(), "broken pages are counted, not kept"),
    ];
    for (field, is_set, instead) in ignored {
        if is_set {
            errors.message(format!("{field} has no effect: {instead}"));
        }
    }
}

fn syscall_ids(config: &FtraceConfig, errors: &mut SetupErrors) -> BTreeSet<u32> {
    let mut ids = BTreeSet::new();
    for name in &config.syscall_events {
        match syscalls::number(name) {
            Some(id) => drop(ids.insert(id)),
            None => errors.message(format!("syscall_events: no system call is called \"{name}\"")),
        }
    }
    ids
}

fn print_filter(config: &FtraceConfig, plan: &EventPlan, errors: &mut SetupErrors) -> Filter {
    let Some(rules) = &config.print_filter else { return Filter::All };
    match plan.format.fields.iter().find(|f| f.name == "buf" && f.kind == FieldKind::TailString) {
        Some(field) => Filter::Print(PrintFilter::new(rules, usize::from(field.offset))),
        None => {
            errors.failed_events.push("ftrace/print (unexpected format for filtering)".to_owned());
            Filter::All
        }
    }
}

/// The best clock on offer: the boot clock is the one that traces use.
fn choose_clock<'a>(offered: &'a [String], wants_mono_raw: bool, current: &'a str) -> &'a str {
    let preferred = ["boot", "global", "local"];
    let wanted = wants_mono_raw.then_some("mono_raw").into_iter().chain(preferred);
    wanted
        .filter_map(|clock| offered.iter().find(|offer| *offer == clock))
        .next()
        .map_or(current, String::as_str)
}

/// `FtraceClock` of ftrace_event_bundle.proto.
fn clock_number(clock: &str) -> u64 {
    match clock {
        "boot" => 0,
        "global" => 2,
        "local" => 3,
        "mono_raw" => 4,
        _ => 1,
    }
}

/// KiB per CPU: what was asked for, else a default by the machine's memory; at least a page.
fn buffer_size_kb(requested_kb: u32, is_lower_bound: bool, memory_bytes: u64) -> u64 {
    let default_kb = if memory_bytes >= LARGE_MEMORY_BYTES { LARGE_BUFFER_KB } else { SMALL_BUFFER_KB };
    let requested_kb = u64::from(requested_kb);
    let page_kb = (rustix::param::page_size() / 1024).max(1) as u64;
    let kb = if requested_kb == 0 || (is_lower_bound && requested_kb < default_kb) {
        default_kb
    } else {
        requested_kb
    };
    (kb / page_kb).max(1) * page_kb
}

/// What of so much memory is for each CPU. A small buffer there is always.
fn most_kb_per_cpu(all_kb: u64, cpus: usize) -> u64 {
    let page_kb = system_page_kb();
    let kb = all_kb / (cpus.max(1) as u64) / page_kb * page_kb;
    kb.max(SMALL_BUFFER_KB)
}

fn memory_bytes() -> u64 {
    let info = rustix::system::sysinfo();
    // A long: 32 bits wide on 32-bit machines.
    #[allow(clippy::useless_conversion)]
    u64::from(info.totalram).saturating_mul(u64::from(info.mem_unit.max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits =
        Limits { buffers_kb: 1 << 20, kprobes: MAX_KPROBES, kprobes_of_session: MAX_KPROBES_OF_SESSION };

    #[test]
    fn buffer_sizes_follow_the_config_and_the_machine() {
        assert_eq!(buffer_size_kb(0, false, 16 << 30), 8192);
        assert_eq!(buffer_size_kb(0, false, 1 << 30), 2048);
        assert_eq!(buffer_size_kb(4096, false, 16 << 30), 4096);
        assert_eq!(buffer_size_kb(4096, true, 16 << 30), 8192);
        assert_eq!(buffer_size_kb(1, false, 16 << 30), (rustix::param::page_size() / 1024) as u64);
    }

    #[test]
    fn the_boot_clock_is_preferred_and_mono_raw_on_request() {
        let offered = ["local", "global", "mono_raw", "boot"].map(str::to_owned);
        assert_eq!(choose_clock(&offered, false, "local"), "boot");
        assert_eq!(choose_clock(&offered, true, "local"), "mono_raw");
        assert_eq!(choose_clock(&offered[..2], true, "local"), "global");
        assert_eq!(choose_clock(&[], false, "uptime"), "uptime");
    }

    /// A directory with the files of an instance, as an ordinary user may make it.
    fn fake_tracefs(name: &str) -> PathBuf {
        let root = std::env::temp_dir().join(format!("ferretto-probes-{name}-{}", std::process::id()));
        let formats = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/formats");
        for (group, event) in [
            ("sched", "sched_switch"),
            ("sched", "sched_waking"),
            ("irq", "irq_handler_entry"),
            ("ftrace", "print"),
        ] {
            let dir = root.join("events").join(group).join(event);
            std::fs::create_dir_all(&dir).unwrap();
            std::fs::copy(formats.join(event), dir.join("format")).unwrap();
            std::fs::write(dir.join("enable"), "0").unwrap();
        }
        for (file, text) in [
            ("tracing_on", "1"),
            ("trace", ""),
            ("trace_clock", "[mono] global boot"),
            ("buffer_size_kb", "7"),
            ("current_tracer", "nop"),
            ("events/enable", "0"),
            ("buffer_percent", "50"),
            ("available_events", "sched:sched_switch\nirq:irq_handler_entry\n"),
        ] {
            std::fs::write(root.join(file), text).unwrap();
        }
        root
    }

    fn file(root: &Path, file: &str) -> String {
        std::fs::read_to_string(root.join(file)).unwrap()
    }

    /// Where the kernel replaces what a file says, a write to an ordinary file leaves the rest.
    fn clock(root: &Path) -> String {
        file(root, "trace_clock").split(|c: char| !c.is_ascii_lowercase()).next().unwrap().to_owned()
    }

    fn config(events: &[&str]) -> FtraceConfig {
        FtraceConfig { ftrace_events: events.iter().map(|e| (*e).to_owned()).collect(), ..Default::default() }
    }

    #[test]
    fn sessions_share_the_events_and_the_last_one_restores_everything() {
        let root = fake_tracefs("share");
        let mut instance = Instance::root(root.clone()).unwrap();
        let (mut field, mut errors) = (65536, SetupErrors::default());
        let first =
            instance.set_up(1, &config(&["sched/*", "print"]), LIMITS, &mut field, &mut errors).unwrap();
        assert!(first.is_compact());
        assert!(clock(&root).starts_with("boot"));
        assert_eq!(file(&root, "tracing_on"), "0");
        instance.activate(1).unwrap();
        let second = instance
            .set_up(
                2,
                &config(&["irq_handler_entry", "sched/sched_switch", "no/such", "nothing"]),
                LIMITS,
                &mut field,
                &mut errors,
            )
            .unwrap();
        assert!(second.is_compact() && instance.is_shared());
        assert_eq!(errors.unknown_events, ["nothing", "no/such"]);
        instance.activate(2).unwrap();
        assert_eq!(file(&root, "tracing_on"), "1");
        instance.remove(1);
        let enabled = |event: &str| file(&root, &format!("events/{event}/enable"));
        assert_eq!(
            [enabled("sched/sched_switch"), enabled("sched/sched_waking"), enabled("irq/irq_handler_entry")],
            ["1", "0", "1"]
        );
        instance.remove(2);
        assert!(instance.is_idle());
        assert_eq!([enabled("sched/sched_switch"), enabled("irq/irq_handler_entry")], ["0", "0"]);
        assert!(clock(&root).starts_with("mono"));
        assert_eq!(file(&root, "tracing_on"), "1");
        std::fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_foreign_tracer_is_left_alone() {
        let root = fake_tracefs("foreign");
        std::fs::write(root.join("current_tracer"), "function").unwrap();
        let mut instance = Instance::root(root.clone()).unwrap();
        let error = instance
            .set_up(1, &config(&["sched/sched_switch"]), LIMITS, &mut 65536, &mut SetupErrors::default())
            .unwrap_err();
        assert!(error.contains("function"), "{error}");
        assert_eq!(file(&root, "tracing_on"), "1");
        std::fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn one_session_may_use_exclusive_options_and_no_other_beside_it() {
        let root = fake_tracefs("exclusive");
        std::fs::write(root.join("set_event_pid"), "").unwrap();
        let mut instance = Instance::root(root.clone()).unwrap();
        let exclusive = FtraceConfig { tids_to_trace: vec![1, 2], ..config(&["sched/sched_switch"]) };
        instance.set_up(1, &exclusive, LIMITS, &mut 65536, &mut SetupErrors::default()).unwrap();
        assert_eq!(file(&root, "set_event_pid"), "1 2");
        let mut errors = SetupErrors::default();
        assert!(instance.set_up(2, &config(&["print"]), LIMITS, &mut 65536, &mut errors).is_err());
        assert!(errors.exclusive_feature.is_some());
        drop(instance);
        assert_eq!(file(&root, "set_event_pid"), "");
        std::fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn an_instance_name_is_no_path() {
        assert!(Instance::named(Path::new("/nonexistent"), "a/b").is_err());
        assert!(Instance::named(Path::new("/nonexistent"), "../b").is_err());
        assert!(Instance::named(Path::new("/nonexistent"), "b").is_err());
        let root = fake_tracefs("paths");
        std::fs::create_dir_all(root.join("instances")).unwrap();
        assert!(Instance::named(&root, ".").unwrap_err().contains("plain name"));
        let instance = Instance::root(root.clone()).unwrap();
        let mut errors = SetupErrors::default();
        let wanted = config(&["../*", "./*", "/*", "..", "*", "sched/../sched"]);
        assert!(instance.resolve_events(&wanted, &mut errors).is_empty());
        assert_eq!(errors.unknown_events, wanted.ftrace_events);
        std::fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn an_instance_that_somebody_uses_is_left_alone() {
        let root = fake_tracefs("used");
        let path = fake_tracefs("used-instance");
        std::fs::create_dir_all(root.join("instances")).unwrap();
        std::fs::rename(path, root.join("instances/theirs")).unwrap();
        let file = |name: &str| root.join("instances/theirs").join(name);
        let refusal = |config: &FtraceConfig| {
            Instance::named(&root, "theirs").unwrap().check_unused(config).err().unwrap_or_default()
        };
        let plain = config(&["sched/sched_switch"]);
        assert_eq!(refusal(&plain), "", "one that was made for us");

        std::fs::write(file("events/enable"), "X").unwrap();
        assert!(refusal(&plain).contains("events are on"));
        let preserve = FtraceConfig { preserve_ftrace_buffer: Some(true), ..plain.clone() };
        assert_eq!(refusal(&preserve), "", "nobody reads it");

        std::fs::write(file("events/enable"), "0").unwrap();
        std::fs::create_dir_all(file("per_cpu/cpu0")).unwrap();
        std::fs::write(file("per_cpu/cpu0/stats"), "entries: 3\n").unwrap();
        assert!(refusal(&plain).contains("there are events in its buffers"));
        std::fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_daemon_that_sees_no_readers_sees_what_has_been_read() {
        let root = fake_tracefs("read");
        let path = fake_tracefs("read-instance");
        std::fs::create_dir_all(root.join("instances")).unwrap();
        std::fs::rename(path, root.join("instances/theirs")).unwrap();
        let file = |name: &str| root.join("instances/theirs").join(name);
        std::fs::write(file("events/enable"), "1").unwrap();
        std::fs::create_dir_all(file("per_cpu/cpu0")).unwrap();
        let instance = Instance::named(&root, "theirs").unwrap();
        let preserve = FtraceConfig { preserve_ftrace_buffer: Some(true), ..FtraceConfig::default() };
        let refused = |read: u32, readers| {
            std::fs::write(file("per_cpu/cpu0/stats"), format!("entries: 3\nread events: {read}\n")).unwrap();
            instance.check_unused_by(&preserve, |_| readers).is_err()
        };
        assert_eq!(
            [(0, Readers::Unknown), (9, Readers::Nobody), (9, Readers::Unknown), (0, Readers::Some)]
                .map(|(read, readers)| refused(read, readers)),
            [false, false, true, true]
        );
        drop(instance);
        std::fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn who_comes_later_and_wants_larger_buffers_gets_them() {
        let root = fake_tracefs("grow");
        // An ordinary file keeps what a write does not cover.
        std::fs::write(root.join("buffer_size_kb"), "70000").unwrap();
        let mut instance = Instance::root(root.clone()).unwrap();
        let of = |kb| FtraceConfig { buffer_size_kb: Some(kb), ..config(&["sched/sched_switch"]) };
        let mut errors = SetupErrors::default();
        for (session, kb, expected) in [(1, 10240, "10240"), (2, 16384, "16384"), (3, 12288, "16384")] {
            instance.set_up(session, &of(kb), LIMITS, &mut 65536, &mut errors).unwrap();
            assert_eq!(file(&root, "buffer_size_kb"), expected);
        }
        let most = Limits { buffers_kb: 32768, ..LIMITS };
        instance.set_up(4, &of(1 << 20), most, &mut 65536, &mut errors).unwrap();
        assert_eq!(file(&root, "buffer_size_kb"), "32768");
        assert_eq!(instance.buffer_pages() * instance.layout.page_size, 32768 << 10);
        assert!(errors.messages[0].contains("more of the machine's memory"), "{errors:?}");
        (1..=4).for_each(|session| instance.remove(session));
        assert_eq!(file(&root, "buffer_size_kb"), "70000");
        std::fs::remove_dir_all(root).unwrap();
    }

    /// The kernel keeps what is recorded, and goes on.
    #[test]
    fn buffers_of_the_kernel_grow_while_it_records() {
        let root = Path::new("/sys/kernel/tracing");
        let mut instance = match Instance::private(root) {
            Ok(instance) => instance,
            Err(error) => return println!("skipped: no instance of tracefs can be made here: {error}"),
        };
        let of = |kb| FtraceConfig { buffer_size_kb: Some(kb), ..config(&["sched/sched_switch"]) };
        let mut errors = SetupErrors::default();
        instance.set_up(1, &of(64), LIMITS, &mut 65536, &mut errors).unwrap();
        instance.activate(1).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20));
        let entries =
            |instance: &Instance| -> u64 { instance.snapshot().cpus.iter().map(|cpu| cpu.entries).sum() };
        let before = entries(&instance);
        instance.set_up(2, &of(4096), LIMITS, &mut 65536, &mut errors).unwrap();
        assert!(instance.tracefs.cpu_buffer_size_kb() >= 4096 && entries(&instance) >= before && before > 0);
        assert_eq!(instance.interference(), None);
        assert_eq!(errors.messages, Vec::<String>::new());
        (1..=2).for_each(|session| instance.remove(session));
    }

    #[test]
    fn what_was_on_and_how_large_it_was_comes_back() {
        let root = fake_tracefs("restore");
        for (name, text) in [
            ("events/enable", "X"),
            ("events/irq/irq_handler_entry/enable", "1"),
            ("set_event", "irq:irq_handler_entry\n"),
            ("buffer_size_kb", "4000"),
            ("buffer_percent", "30"),
        ] {
            std::fs::write(root.join(name), text).unwrap();
        }
        let mut instance = Instance::root(root.clone()).unwrap();
        let config = FtraceConfig {
            buffer_size_kb: Some(1024),
            drain_buffer_percent: Some(70),
            ..config(&["irq/irq_handler_entry"])
        };
        instance.set_up(1, &config, LIMITS, &mut 65536, &mut SetupErrors::default()).unwrap();
        instance.activate(1).unwrap();
        let values = || {
            ["buffer_size_kb", "buffer_percent", "events/irq/irq_handler_entry/enable"]
                .map(|f| file(&root, f))
        };
        assert_eq!(values(), ["1024", "70", "1"]);
        instance.remove(1);
        assert_eq!(values(), ["4000", "30", "1"]);
        std::fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn the_kernels_memory_and_probes_are_bounded_and_it_is_said() {
        let root = fake_tracefs("bounds");
        std::fs::write(root.join("kprobe_events"), "").unwrap();
        let probe = |number: usize| KprobeEvent {
            probe: Some(format!("function_{number}")),
            r#type: Some(KprobeType::Both as i32),
        };
        let config = FtraceConfig {
            buffer_size_kb: Some(3 << 20),
            kprobe_events: (0..MAX_KPROBES_OF_SESSION).map(probe).collect(),
            ..config(&["sched/sched_switch"])
        };
        let mut instance = Instance::root(root.clone()).unwrap();
        let mut errors = SetupErrors::default();
        instance.set_up(1, &config, LIMITS, &mut 65536, &mut errors).unwrap();
        assert_eq!(file(&root, "buffer_size_kb"), LIMITS.buffers_kb.to_string());
        assert!(errors.messages.iter().any(|m| m.contains("more of the machine's memory")), "{errors:?}");
        assert!(errors.messages.iter().any(|m| m.contains("64 of 128 kernel probes are left out")));
        let asked = file(&root, "kprobe_events");
        assert!(asked.contains("function_31"));
        assert!(!asked.contains("function_32"));
        // Another data source of the session.
        let left = Limits { kprobes_of_session: MAX_KPROBES_OF_SESSION - instance.kprobes_of(1), ..LIMITS };
        let mut errors = SetupErrors::default();
        instance.set_up(2, &config, left, &mut 65536, &mut errors).unwrap();
        assert!(errors.messages.iter().any(|m| m.contains("128 of 128 kernel probes are left out")));
        assert_eq!([most_kb_per_cpu(1 << 20, 4), most_kb_per_cpu(1, 4)], [1 << 18, SMALL_BUFFER_KB]);
        std::fs::remove_dir_all(root).unwrap();
    }
}
