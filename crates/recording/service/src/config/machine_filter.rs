//! On which machines a data source is wanted.

use ferretto_protos::{TraceConfig, trace_config};

/// What stands for the service's own machine, whatever its name is.
const HOST: &str = "host";

/// The machines of a data source (upstream: `SetupDataSource`).
#[derive(Debug, Clone)]
pub(crate) struct MachineFilter {
    /// `machine_name_filter`.
    names: Vec<String>,
    /// `trace_all_machines`: what counts if there are no names.
    all: bool,
}

impl MachineFilter {
    pub(super) fn new(config: &TraceConfig, source: &trace_config::DataSource) -> Self {
        Self { names: source.machine_name_filter.clone(), all: config.trace_all_machines() }
    }

    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    /// Whether a machine is one of those asked for. `is_host`: the service runs on it.
    pub(crate) fn matches(&self, machine_name: &str, is_host: bool) -> bool {
        if self.names.is_empty() {
            return is_host || self.all;
        }
        self.names.iter().any(|name| name == machine_name || (is_host && name == HOST))
    }
}
