//! Files and folders, TCP ports, and the sockets and processes of others (landlock(7)).
//!
//! Descriptors that are open, and those that clients pass, stay as they are.

use std::path::PathBuf;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, NetPort, RestrictionStatus, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope, path_beneath_rules,
};

use crate::Rights;

/// What is taken where the kernel knows it: from 5.13 on files, from 6.7 on TCP, from 6.12 on sockets with abstract names and signals.
const NEWEST: ABI = ABI::V6;

pub(crate) fn restrict(rights: &Rights) -> Result<(), String> {
    match try_to_restrict(rights) {
        Ok(RestrictionStatus { ruleset: RulesetStatus::NotEnforced, .. }) => {
            Err("the kernel has none, or it is switched off".to_owned())
        }
        Ok(_) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
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
