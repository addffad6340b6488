//! Files and folders, TCP ports, and the sockets and processes of others (landlock(7)).
//!
//! Descriptors that are open, and those that clients pass, stay as they are.

use std::path::PathBuf;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, LandlockStatus, NetPort, RestrictionStatus, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope, path_beneath_rules,
};

use crate::Rights;

/// What is taken where the kernel knows it: from 5.13 on files, from 6.7 on TCP, from 6.12 on sockets with abstract names and signals.
const NEWEST: ABI = ABI::V6;

/// What the versions before these let through. That the first one lets no file change its folder is as it should be.
const GAPS: [(ABI, &str); 4] = [
    (ABI::V3, "emptying files (Linux 6.2)"),
    (ABI::V4, "TCP (6.7)"),
    (ABI::V5, "ioctl of devices (6.10)"),
    (ABI::V6, "abstract names of sockets, and signals (6.12)"),
];

/// Gives what this kernel lets through nevertheless, in words.
pub(crate) fn restrict(rights: &Rights) -> Result<Option<String>, String> {
    match try_to_restrict(rights) {
        Ok(RestrictionStatus {
            ruleset: RulesetStatus::PartiallyEnforced | RulesetStatus::FullyEnforced,
            landlock: LandlockStatus::Available { effective_abi, .. },
            ..
        }) => Ok(gaps(effective_abi)),
        Ok(_) => Err("the kernel has none, or it is switched off".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

fn gaps(kernel: ABI) -> Option<String> {
    let gaps: Vec<&str> =
        GAPS.iter().filter(|(closed_by, _)| kernel < *closed_by).map(|(_, what)| *what).collect();
    (!gaps.is_empty()).then(|| gaps.join(", "))
}

fn try_to_restrict(rights: &Rights) -> Result<RestrictionStatus, RulesetError> {
    let scope = match rights.connects_to_abstract_names {
        true => Scope::Signal.into(),
        false => BitFlags::from(Scope::Signal) | Scope::AbstractUnixSocket,
    };
    let mut ruleset = Ruleset::default()
        .handle_access(AccessFs::from_all(NEWEST))?
        .handle_access(AccessNet::from_all(NEWEST))?
        .scope(scope)?
        .create()?;
    for port in &rights.connects_to_ports {
        ruleset = ruleset.add_rule(NetPort::new(*port, AccessNet::ConnectTcp))?;
    }
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let write = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::MakeReg | AccessFs::Truncate;
    let control = read | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::MakeDir | AccessFs::RemoveDir;
    for (paths, access) in [
        (&rights.lists, AccessFs::ReadDir.into()),
        (&rights.reads, read),
        (&rights.writes, write),
        (&rights.controls, control),
        (&rights.removes, AccessFs::RemoveFile.into()),
    ] {
        ruleset = allow(ruleset, paths, access)?;
    }
    ruleset.restrict_self()
}

/// Folders that are not there need no rule.
fn allow(
    ruleset: RulesetCreated,
    paths: &[PathBuf],
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, RulesetError> {
    ruleset.add_rules(path_beneath_rules(paths, access))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_older_kernel_lets_through_is_named() {
        let oldest = gaps(ABI::V1).unwrap();
        assert!(GAPS.iter().all(|(_, what)| oldest.contains(what)), "{oldest}");
        let before_signals = gaps(ABI::V5).unwrap();
        assert!(before_signals.contains("signals") && !before_signals.contains("TCP"), "{before_signals}");
        assert_eq!(gaps(NEWEST), None);
    }
}
