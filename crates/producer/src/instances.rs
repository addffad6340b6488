//! The data sources of a producer and the instances that the service asks for, as a state machine.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use ferretto_protos::{DataSourceConfig, DataSourceDescriptor};
use prost::Message;

use crate::event::{InstanceId, ProducerEvent};

/// A service runs some tens of sessions; one that asks for more instances than this is broken or hostile.
const MAX_INSTANCES: usize = 4096;

#[derive(Debug)]
pub(crate) struct DataSource {
    /// The serialised descriptor, as it is sent.
    pub(crate) descriptor: Bytes,
    notifies_start: bool,
    notifies_stop: bool,
}

#[derive(Debug)]
struct Instance {
    started: bool,
    notifies_start: bool,
    notifies_stop: bool,
}

/// The registry. Events go to `events`, in the order in which they are to be served.
#[derive(Debug, Default)]
pub(crate) struct Instances {
    sources: BTreeMap<String, DataSource>,
    instances: BTreeMap<InstanceId, Instance>,
    pub(crate) events: VecDeque<ProducerEvent>,
}

impl Instances {
    /// Adds a source, or changes what is said about it; `true` if it is new.
    pub(crate) fn register(&mut self, descriptor: &DataSourceDescriptor) -> bool {
        let source = DataSource {
            descriptor: descriptor.encode_to_vec().into(),
            notifies_start: descriptor.will_notify_on_start(),
            notifies_stop: descriptor.will_notify_on_stop(),
        };
        self.sources.insert(descriptor.name().to_owned(), source).is_none()
    }

    pub(crate) fn unregister(&mut self, name: &str) -> bool {
        self.sources.remove(name).is_some()
    }

    pub(crate) fn sources(&self) -> impl Iterator<Item = &DataSource> {
        self.sources.values()
    }

    pub(crate) fn setup(&mut self, instance: InstanceId, raw: Bytes) {
        if let Some(config) = self.add(instance, &raw) {
            self.events.push_back(ProducerEvent::Setup { instance, config, raw });
        }
    }

    /// Services that are older than `SetupDataSource` only send this.
    pub(crate) fn start(&mut self, instance: InstanceId, raw: Bytes) {
        if !self.instances.contains_key(&instance) {
            self.setup(instance, raw.clone());
        }
        let Some(state) = self.instances.get_mut(&instance) else {
            return;
        };
        if std::mem::replace(&mut state.started, true) {
            tracing::debug!(instance, "the service started an instance twice");
            return;
        }
        let Some(config) = decode(&raw) else {
            return;
        };
        self.events.push_back(ProducerEvent::Start { instance, config, raw });
    }

    pub(crate) fn stop(&mut self, instance: InstanceId) {
        if self.instances.contains_key(&instance) {
            self.events.push_back(ProducerEvent::Stop { instance });
        }
    }

    /// `false` if none of these instances is here: nobody else would answer the request then.
    pub(crate) fn flush(&mut self, request_id: u64, mut instances: Vec<InstanceId>, flags: u64) -> bool {
        instances.retain(|instance| self.instances.contains_key(instance));
        if instances.is_empty() {
            return false;
        }
        self.events.push_back(ProducerEvent::Flush { request_id, instances, flags });
        true
    }

    pub(crate) fn clear_incremental_state(&mut self, mut instances: Vec<InstanceId>) {
        instances.retain(|instance| self.instances.contains_key(instance));
        if !instances.is_empty() {
            self.events.push_back(ProducerEvent::ClearIncrementalState { instances });
        }
    }

    /// Whether the service waits to hear that this instance has started.
    pub(crate) fn started(&mut self, instance: InstanceId) -> bool {
        self.instances.get(&instance).is_some_and(|state| state.notifies_start)
    }

    /// Forgets the instance; whether the service waits to hear that it has stopped.
    pub(crate) fn stopped(&mut self, instance: InstanceId) -> bool {
        self.instances.remove(&instance).is_some_and(|state| state.notifies_stop)
    }

    /// The connection ended: nobody speaks for the instances any more.
    pub(crate) fn disconnect(&mut self, reason: String) {
        let instances = std::mem::take(&mut self.instances).into_keys();
        self.events.extend(instances.map(|instance| ProducerEvent::Stop { instance }));
        self.events.push_back(ProducerEvent::Disconnected { reason });
    }

    fn add(&mut self, instance: InstanceId, raw: &Bytes) -> Option<Box<DataSourceConfig>> {
        if self.instances.contains_key(&instance) || self.instances.len() >= MAX_INSTANCES {
            tracing::warn!(instance, "ignored an instance that the service set up twice, or one too many");
            return None;
        }
        let config = decode(raw)?;
        let Some(source) = self.sources.get(config.name()) else {
            tracing::warn!(
                name = config.name(),
                "ignored an instance of a data source that is not registered"
            );
            return None;
        };
        let state = Instance {
            started: false,
            notifies_start: source.notifies_start,
            notifies_stop: source.notifies_stop,
        };
        self.instances.insert(instance, state);
        Some(config)
    }
}

fn decode(raw: &Bytes) -> Option<Box<DataSourceConfig>> {
    match DataSourceConfig::decode(raw.clone()) {
        Ok(config) => Some(Box::new(config)),
        Err(error) => {
            tracing::warn!(%error, "ignored a data source config that cannot be decoded");
            None
        }
    }
}
