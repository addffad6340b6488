//! Events in the life of a session that go into its trace (upstream: tracing_service_event.proto, `EmitLifecycleEvents`).

use std::collections::VecDeque;

use ferretto_protos::tracing_service_event::{DataSources, EventType, data_sources};

use crate::instance_set::Instance;
use crate::limits;

/// An event and its time on the boot clock.
#[derive(Debug, Clone)]
pub(crate) struct ServiceEvent {
    pub(crate) boottime_ns: u64,
    pub(crate) event: EventType,
}

/// Events that wait for the next read-back, in the order of time.
#[derive(Debug, Clone, Default)]
pub(crate) struct ServiceEvents {
    pending: VecDeque<ServiceEvent>,
}

impl ServiceEvents {
    /// Adds an event; of its kind the oldest is forgotten if there are too many.
    pub(crate) fn push(&mut self, boottime_ns: u64, event: EventType) {
        let kind = std::mem::discriminant(&event);
        let same = |other: &ServiceEvent| std::mem::discriminant(&other.event) == kind;
        if self.pending.iter().filter(|other| same(other)).count() >= max_pending(&event)
            && let Some(oldest) = self.pending.iter().position(same)
        {
            self.pending.remove(oldest);
        }
        self.pending.push_back(ServiceEvent { boottime_ns, event });
    }

    pub(crate) fn pop(&mut self) -> Option<ServiceEvent> {
        self.pending.pop_front()
    }
}

fn max_pending(event: &EventType) -> usize {
    match event {
        EventType::FlushStarted(_) | EventType::AllDataSourcesFlushed(_) => limits::MAX_REPEATED_EVENTS,
        // One a buffer and clone.
        EventType::BufferCloned(_) => limits::MAX_BUFFERS_PER_SESSION,
        _ => 1,
    }
}

/// Names data sources that were too slow.
pub(crate) fn slow_sources<'a>(instances: impl Iterator<Item = &'a Instance>) -> DataSources {
    let name = |instance: &Instance| data_sources::DataSource {
        producer_name: Some(instance.producer_name.to_string()),
        data_source_name: Some(instance.source_name.to_string()),
    };
    DataSources { data_source: instances.take(limits::MAX_SLOW_DATA_SOURCES).map(name).collect() }
}
