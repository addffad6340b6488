//! The rights of root, one by one (capabilities(7)).

use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_no_new_privs};

use crate::Capability;

impl Capability {
    fn as_set(self) -> CapabilitySet {
        match self {
            Self::DacOverride => CapabilitySet::DAC_OVERRIDE,
            Self::DacReadSearch => CapabilitySet::DAC_READ_SEARCH,
            Self::SysPtrace => CapabilitySet::SYS_PTRACE,
            Self::Syslog => CapabilitySet::SYSLOG,
            Self::SysNice => CapabilitySet::SYS_NICE,
            Self::Perfmon => CapabilitySet::PERFMON,
            Self::SysAdmin => CapabilitySet::SYS_ADMIN,
        }
    }
}

/// No program that is started gets more than this one has.
pub(crate) fn gain_none() -> Result<(), String> {
    set_no_new_privs(true).map_err(|error| error.to_string())
}

/// Those that are there, of these.
pub(crate) fn keep(kept: &[Capability]) -> Result<(), String> {
    let wanted = kept.iter().fold(CapabilitySet::empty(), |all, one| all | one.as_set());
    let set = || {
        let permitted = capabilities(None)?.permitted & wanted;
        let inheritable = CapabilitySet::empty();
        set_capabilities(None, CapabilitySets { effective: permitted, permitted, inheritable })
    };
    set().map_err(|error| error.to_string())
}
