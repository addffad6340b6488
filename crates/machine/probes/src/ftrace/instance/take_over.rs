//! What a session finds in tracefs and changes, and what the last one puts back.

use std::collections::BTreeSet;

use ferretto_protos::FtraceConfig;
use ferretto_protos::ftrace_config::tracefs_option;

use super::buffers::{choose_clock, clock_number};
use super::limits::Limits;
use super::{Instance, State, denied};
use crate::ftrace::stats::SetupErrors;

impl Instance {
    /// The first session takes tracefs over from whatever was there.
    pub(super) fn take_over(
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

    /// Options that change what all sessions would see.
    pub(super) fn apply_exclusive(&mut self, config: &FtraceConfig) -> Result<(), String> {
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

    /// Failures are ignored one by one: each of the files should be given back, whatever became of the others.
    pub(super) fn restore(&mut self, state: &State) {
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
}
