//! Kernel probes: made for a session that names functions, and removed with it.

use std::rc::Rc;

use ferretto_protos::FtraceConfig;
use ferretto_protos::ftrace_config::{KprobeEvent, kprobe_event::KprobeType};

use super::limits::{Limits, MAX_KPROBES, MAX_KPROBES_OF_SESSION};
use super::{EventName, Instance, State};
use crate::ftrace::encode::{Filter, ParseConfig};
use crate::ftrace::format::EventFormat;
use crate::ftrace::plan::EventPlan;
use crate::ftrace::stats::SetupErrors;

/// Groups of the probes that this daemon installs; configs may not name them among their events.
pub(super) const KPROBE_GROUP: &str = "perfetto_kprobes";
pub(super) const KRETPROBE_GROUP: &str = "perfetto_kretprobes";
/// `KprobeEvent.KprobeType` of the trace: a single moment, or begin and end of a call.
const KPROBE_BEGIN: u64 = 1;
const KPROBE_END: u64 = 2;
const KPROBE_INSTANT: u64 = 3;

impl Instance {
    pub(super) fn enable_kprobes(
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

    /// Each must be off by then: here, and those that another instance uses stay until that one goes.
    pub(super) fn remove_kprobes(&self, state: &State) {
        for (group, name) in &state.kprobes {
            let _ = self.tracefs.disable_event(group, name);
            let _ = self.tracefs.remove_kprobe(group, name);
        }
    }

    /// Kernel probes that its sessions have.
    pub(crate) fn kprobes(&self) -> usize {
        self.state.as_ref().map_or(0, |state| state.kprobes.len())
    }

    /// Those of one session.
    pub(crate) fn kprobes_of(&self, session: u64) -> usize {
        self.wanted.get(&session).map_or(0, |wanted| wanted.kprobes)
    }
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
