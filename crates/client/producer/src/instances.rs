//! The data sources of a producer and the instances that the service asks for, as a state machine.

use std::collections::VecDeque;

use bytes::Bytes;
use ferretto_ipc::log;
use ferretto_protos::fields::data_source_descriptor::{NAME, WILL_NOTIFY_ON_START, WILL_NOTIFY_ON_STOP};
use ferretto_protos::fields::register_data_source_request::DATA_SOURCE_DESCRIPTOR;
use ferretto_protozero::control::{ControlError, Reader, Writer};

use crate::config::InstanceConfig;
use crate::event::{InstanceId, ProducerEvent};

/// A service runs some tens of sessions; one that asks for more instances than this is broken or hostile.
const MAX_INSTANCES: usize = 4096;

#[derive(Debug)]
pub(crate) struct DataSource {
    name: String,
    /// The serialised descriptor, as it is sent.
    descriptor: Bytes,
    notifies_start: bool,
    notifies_stop: bool,
}

#[derive(Debug)]
struct Instance {
    id: InstanceId,
    started: bool,
    notifies_start: bool,
    notifies_stop: bool,
}

impl DataSource {
    /// From a serialised `DataSourceDescriptor`.
    pub(crate) fn new(descriptor: Bytes) -> Result<Self, ControlError> {
        let mut source = Self {
            name: String::new(),
            descriptor: Bytes::new(),
            notifies_start: false,
            notifies_stop: false,
        };
        let mut field = Reader::new(&descriptor);
        while field.next()? {
            match field.number {
                NAME => field.text()?.clone_into(&mut source.name),
                WILL_NOTIFY_ON_START => source.notifies_start = field.truth()?,
                WILL_NOTIFY_ON_STOP => source.notifies_stop = field.truth()?,
                _ => {}
            }
        }
        source.descriptor = descriptor;
        Ok(source)
    }

    /// `RegisterDataSourceRequest`; `UpdateDataSourceRequest` is the same.
    pub(crate) fn request(&self) -> Vec<u8> {
        let mut request = Writer::new();
        request.bytes(DATA_SOURCE_DESCRIPTOR, &self.descriptor);
        request.into_bytes()
    }
}

/// The registry. Events go to `events`, in the order in which they are to be served.
#[derive(Debug, Default)]
pub(crate) struct Instances {
    sources: Vec<DataSource>,
    instances: Vec<Instance>,
    pub(crate) events: VecDeque<ProducerEvent>,
}

impl Instances {
    /// Adds a source, or changes what is said about it; `true` if it is new.
    pub(crate) fn register(&mut self, source: DataSource) -> bool {
        match self.sources.iter_mut().find(|known| known.name == source.name) {
            Some(known) => *known = source,
            None => {
                self.sources.push(source);
                return true;
            }
        }
        false
    }

    pub(crate) fn unregister(&mut self, name: &str) -> bool {
        let place = self.sources.iter().position(|source| source.name == name);
        place.map(|place| self.sources.remove(place)).is_some()
    }

    pub(crate) fn sources(&self) -> impl Iterator<Item = &DataSource> {
        self.sources.iter()
    }

    pub(crate) fn setup(&mut self, instance: InstanceId, config: Bytes) {
        if let Some(config) = self.add(instance, config) {
            self.events.push_back(ProducerEvent::Setup { instance, config });
        }
    }

    /// Services that are older than `SetupDataSource` only send this.
    pub(crate) fn start(&mut self, instance: InstanceId, config: Bytes) {
        if self.find(instance).is_none() {
            self.setup(instance, config.clone());
        }
        let Some(state) = self.instances.iter_mut().find(|state| state.id == instance) else {
            return;
        };
        if std::mem::replace(&mut state.started, true) {
            log::debug(format_args!("the service started instance {instance} twice"));
            return;
        }
        let Some(config) = read(config) else {
            return;
        };
        self.events.push_back(ProducerEvent::Start { instance, config });
    }

    pub(crate) fn stop(&mut self, instance: InstanceId) {
        if self.find(instance).is_some() {
            self.events.push_back(ProducerEvent::Stop { instance });
        }
    }

    /// `false` if none of these instances is here: nobody else would answer the request then.
    pub(crate) fn flush(&mut self, request_id: u64, mut instances: Vec<InstanceId>, flags: u64) -> bool {
        instances.retain(|instance| self.find(*instance).is_some());
        if instances.is_empty() {
            return false;
        }
        self.events.push_back(ProducerEvent::Flush { request_id, instances, flags });
        true
    }

    pub(crate) fn clear_incremental_state(&mut self, mut instances: Vec<InstanceId>) {
        instances.retain(|instance| self.find(*instance).is_some());
        if !instances.is_empty() {
            self.events.push_back(ProducerEvent::ClearIncrementalState { instances });
        }
    }

    /// Whether the service waits to hear that this instance has started.
    pub(crate) fn started(&mut self, instance: InstanceId) -> bool {
        self.find(instance).is_some_and(|state| state.notifies_start)
    }

    /// Forgets the instance; whether the service waits to hear that it has stopped.
    pub(crate) fn stopped(&mut self, instance: InstanceId) -> bool {
        let place = self.instances.iter().position(|state| state.id == instance);
        place.is_some_and(|place| self.instances.remove(place).notifies_stop)
    }

    /// The connection ended: nobody speaks for the instances any more.
    #[inline(never)]
    pub(crate) fn disconnect(&mut self, reason: String) {
        for state in std::mem::take(&mut self.instances) {
            self.events.push_back(ProducerEvent::Stop { instance: state.id });
        }
        self.events.push_back(ProducerEvent::Disconnected { reason });
    }

    #[inline(never)]
    fn find(&self, instance: InstanceId) -> Option<&Instance> {
        self.instances.iter().find(|state| state.id == instance)
    }

    fn add(&mut self, instance: InstanceId, config: Bytes) -> Option<InstanceConfig> {
        if self.find(instance).is_some() || self.instances.len() >= MAX_INSTANCES {
            log::warn(format_args!(
                "ignored instance {instance}, which the service set up twice, or which is one too many"
            ));
            return None;
        }
        let config = read(config)?;
        let Some(source) = self.sources.iter().find(|source| source.name == config.name()) else {
            log::warn(format_args!(
                "ignored an instance of the data source {}, which is not registered",
                config.name()
            ));
            return None;
        };
        let state = Instance {
            id: instance,
            started: false,
            notifies_start: source.notifies_start,
            notifies_stop: source.notifies_stop,
        };
        self.instances.push(state);
        Some(config)
    }
}

fn read(config: Bytes) -> Option<InstanceConfig> {
    match InstanceConfig::new(config) {
        Ok(config) => Some(config),
        Err(error) => {
            log::warn(format_args!("ignored a data source config that cannot be decoded: {error}"));
            None
        }
    }
}
