//! How the probes' thread is scheduled: as the running data source wants it that wants most (upstream: `priority_boost` in
//! probes_producer.cc).

use std::collections::BTreeMap;

use ferretto_protos::PriorityBoostConfig;
use ferretto_protos::priority_boost_config::BoostPolicy;
use ferretto_sys::Scheduling;

/// The greater one is the better one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Boost {
    Other(u8),
    Fifo(u8),
}

/// Data source instances that want a boost.
#[derive(Debug, Default)]
pub(crate) struct Boosts {
    wanted: BTreeMap<u64, Boost>,
    applied: Option<Boost>,
    /// How the thread was scheduled before the first boost.
    unboosted: Option<Scheduling>,
}

impl Boosts {
    /// The instance runs from now on. The error is for people; without its boost the instance runs as well.
    pub(crate) fn add(&mut self, instance: u64, config: &PriorityBoostConfig) -> Result<(), String> {
        let boost = parse(config).ok_or(
            "priority_boost needs policy POLICY_SCHED_OTHER with priority 0 to 20, or POLICY_SCHED_FIFO with priority 1 to 99",
        )?;
        self.wanted.insert(instance, boost);
        self.apply().inspect_err(|_| {
            self.wanted.remove(&instance);
        })
    }

    /// The instance runs no longer. True if it had a boost.
    pub(crate) fn remove(&mut self, instance: u64) -> bool {
        let had_one = self.wanted.remove(&instance).is_some();
        if had_one && let Err(error) = self.apply() {
            tracing::warn!("the probes' priority cannot be changed: {error}");
        }
        had_one
    }

    fn apply(&mut self) -> Result<(), String> {
        let best = self.wanted.values().max().copied();
        if best == self.applied {
            return Ok(());
        }
        let text =
            |error: std::io::Error| format!("{error}; the probes need the capability CAP_SYS_NICE for it");
        let unboosted = match self.unboosted {
            Some(unboosted) => unboosted,
            None => *self.unboosted.insert(Scheduling::current().map_err(text)?),
        };
        let scheduling = match best {
            Some(Boost::Other(boost)) => Scheduling::other(boost),
            Some(Boost::Fifo(priority)) => Scheduling::fifo(priority),
            None => unboosted,
        };
        scheduling.apply().map_err(text)?;
        self.applied = best;
        Ok(())
    }
}

fn parse(config: &PriorityBoostConfig) -> Option<Boost> {
    let priority = u8::try_from(config.priority()).ok()?;
    match (BoostPolicy::try_from(config.policy.unwrap_or_default()), priority) {
        (Ok(BoostPolicy::PolicySchedOther), 0..=20) => Some(Boost::Other(priority)),
        (Ok(BoostPolicy::PolicySchedFifo), 1..=99) => Some(Boost::Fifo(priority)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(policy: BoostPolicy, priority: u32) -> PriorityBoostConfig {
        PriorityBoostConfig { policy: Some(policy as i32), priority: Some(priority) }
    }

    #[test]
    fn boosts_that_cannot_be_are_refused() {
        let mut boosts = Boosts::default();
        for (policy, priority) in [
            (BoostPolicy::PolicyUnspecified, 1),
            (BoostPolicy::PolicySchedOther, 21),
            (BoostPolicy::PolicySchedFifo, 0),
            (BoostPolicy::PolicySchedFifo, 100),
        ] {
            assert!(boosts.add(1, &config(policy, priority)).unwrap_err().contains("priority 0 to 20"));
        }
    }

    /// In a thread of its own: tests that run beside it keep their priority.
    #[test]
    fn the_data_source_that_wants_most_counts() {
        std::thread::spawn(|| {
            let before = Scheduling::current().unwrap();
            let mut boosts = Boosts::default();
            if let Err(error) = boosts.add(1, &config(BoostPolicy::PolicySchedOther, 3)) {
                return println!("skipped: a boost is not granted here: {error}");
            }
            boosts.add(2, &config(BoostPolicy::PolicySchedOther, 7)).unwrap();
            boosts.add(3, &config(BoostPolicy::PolicySchedOther, 5)).unwrap();
            assert_eq!(Scheduling::current().unwrap(), Scheduling::other(7));
            boosts.remove(2);
            assert_eq!(Scheduling::current().unwrap(), Scheduling::other(5));
            boosts.remove(3);
            boosts.remove(1);
            boosts.remove(1);
            assert_eq!(Scheduling::current().unwrap(), before);
        })
        .join()
        .unwrap();
    }
}
