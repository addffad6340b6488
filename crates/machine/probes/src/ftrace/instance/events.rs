//! Which events a session asks for, and how each is switched on and taken apart.

use std::collections::BTreeSet;
use std::rc::Rc;

use ferretto_protos::FtraceConfig;

use super::kprobes::{KPROBE_GROUP, KRETPROBE_GROUP};
use super::{EventName, Instance};
use crate::ftrace::compact::CompactLayout;
use crate::ftrace::encode::{Filter, ParseConfig};
use crate::ftrace::format::{EventFormat, FieldKind};
use crate::ftrace::plan::{EventPlan, is_known};
use crate::ftrace::print_filter::PrintFilter;
use crate::ftrace::stats::SetupErrors;
use crate::ftrace::{categories, syscalls};

impl Instance {
    /// Every event that a config asks for, by group and name. Whether each exists is seen later.
    pub(super) fn resolve_events(
        &self,
        config: &FtraceConfig,
        errors: &mut SetupErrors,
    ) -> BTreeSet<EventName> {
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
    pub(super) fn enable_event(
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
    pub(super) fn switch_on(&mut self, session: u64, event: EventName, errors: &mut SetupErrors) -> bool {
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

    pub(super) fn enable_function_graph(&mut self, config: &FtraceConfig) -> Result<(), String> {
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
    pub(super) fn update_syscall_filter(&mut self) -> std::io::Result<()> {
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
    pub(super) fn choose_compact(
        &mut self,
        config: &FtraceConfig,
        parse: &mut ParseConfig,
        errors: &mut SetupErrors,
    ) {
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
}

/// Whether a name stays in its folder.
pub(crate) fn is_path_part(part: &str) -> bool {
    !part.is_empty() && !part.contains(['/', '\0']) && part != "." && part != ".."
}

/// Fields that this daemon does not act on: said, never swallowed.
pub(super) fn say_what_is_missing(config: &FtraceConfig, errors: &mut SetupErrors) {
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

pub(super) fn syscall_ids(config: &FtraceConfig, errors: &mut SetupErrors) -> BTreeSet<u32> {
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
