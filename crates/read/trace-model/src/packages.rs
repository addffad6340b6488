//! Android's list of packages (upstream: android_probes_module.cc).

use ferretto_trace_tables::Str;
use ferretto_trace_tables::tables::PackageRow;
use foldhash::fast::RandomState;
use hashbrown::HashSet;

use crate::model::Model;
use crate::wire;

/// `TracePacket.packages_list`, which the messages here do without.
pub(crate) const PACKAGES_LIST: u32 = 47;

/// `PackagesList.packages`.
const PACKAGES: u32 = 1;

/// `PackagesList.PackageInfo`.
mod package {
    pub(super) const NAME: u32 = 1;
    pub(super) const UID: u32 = 2;
    pub(super) const DEBUGGABLE: u32 = 3;
    pub(super) const PROFILEABLE_FROM_SHELL: u32 = 4;
    pub(super) const VERSION_CODE: u32 = 5;
}

/// Packages that were listed.
#[derive(Debug, Default)]
pub(crate) struct Packages {
    seen: HashSet<Str, RandomState>,
}

impl Model {
    /// Reads `TracePacket.packages_list`, when it arrives. The first row of a name counts.
    pub(crate) fn read_packages(&mut self, message: &[u8]) {
        for package in wire::all_bytes(message, PACKAGES) {
            let number = |field| wire::number(package, field).unwrap_or(0);
            let text = wire::bytes(package, package::NAME).unwrap_or_default();
            let uid = number(package::UID).cast_signed();
            self.profiles.deobfuscation.add_package(uid, text, &mut self.tables.strings);
            let name = self.tables.strings.intern_bytes(text);
            if !self.packages.seen.insert(name) {
                continue;
            }
            self.tables.package_list.push(PackageRow {
                package_name: Some(name),
                uid,
                debuggable: number(package::DEBUGGABLE) != 0,
                profileable_from_shell: number(package::PROFILEABLE_FROM_SHELL) != 0,
                version_code: number(package::VERSION_CODE).cast_signed(),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_row_of_a_name_counts() {
        // Two packages of the name `a`, of the users 7 and 8, the first of the version 3 and to be debugged.
        let list =
            [&[0x0a, 9, 0x0a, 1, b'a', 0x10, 7, 0x18, 1, 0x28, 3][..], &[0x0a, 5, 0x0a, 1, b'a', 0x10, 8]]
                .concat();
        let mut model = Model::default();
        model.read_packages(&list);
        let rows = &model.tables.package_list;
        assert_eq!((rows.len(), &rows.uid[..], &rows.version_code[..]), (1, &[7][..], &[3][..]));
        assert_eq!((&rows.debuggable[..], &rows.profileable_from_shell[..]), (&[true][..], &[false][..]));
    }
}
