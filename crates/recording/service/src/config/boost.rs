//! How a config wants the service scheduled (upstream: priority_boost_config.h).

use ferretto_protos::PriorityBoostConfig;
use ferretto_protos::priority_boost_config::BoostPolicy;

use super::ConfigError;
use crate::scheduling::Boost;

pub(super) fn parse_boost(config: Option<&PriorityBoostConfig>) -> Result<Option<Boost>, ConfigError> {
    let Some(config) = config else { return Ok(None) };
    let priority = u8::try_from(config.priority()).unwrap_or(u8::MAX);
    let policy = BoostPolicy::try_from(config.policy.unwrap_or_default());
    match (policy, priority) {
        (Ok(BoostPolicy::PolicySchedOther), 0..=20) => Ok(Some(Boost::Other(priority))),
        (Ok(BoostPolicy::PolicySchedFifo), 1..=99) => Ok(Some(Boost::Fifo(priority))),
        _ => Err(ConfigError::PriorityBoost),
    }
}
