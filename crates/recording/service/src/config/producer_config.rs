//! Which shared memory a config gives to which producer.

use std::collections::BTreeMap;

use ferretto_protos::trace_config::ProducerConfig;

use crate::registry::MemorySizes;

/// A producer's name in `producers` that stands for all that are not named there. No program is called so.
const ANY_PRODUCER: &str = "*";

/// By name; of several for one name the first counts.
#[derive(Debug, Default)]
pub(crate) struct ProducerConfigs(BTreeMap<Box<str>, MemorySizes>);

impl ProducerConfigs {
    pub(super) fn new(producers: &[ProducerConfig]) -> Self {
        let bytes = |kb: u32| usize::try_from(kb).unwrap_or(usize::MAX).saturating_mul(1024);
        let sizes = |config: &ProducerConfig| MemorySizes {
            size: bytes(config.shm_size_kb()),
            page: bytes(config.page_size_kb()),
        };
        Self(producers.iter().rev().map(|config| (config.producer_name().into(), sizes(config))).collect())
    }

    /// The memory sizes that the config gives to a producer. Those for the name `*` are for all producers that it does not name, unless
    /// they wish for more (ours).
    pub(crate) fn sizes_of(&self, producer: &str, wished: usize) -> Option<MemorySizes> {
        if let Some(own) = self.0.get(producer) {
            return Some(*own);
        }
        let MemorySizes { size, page } = *self.0.get(ANY_PRODUCER)?;
        Some(MemorySizes { size: if size > wished { size } else { 0 }, page })
    }
}
