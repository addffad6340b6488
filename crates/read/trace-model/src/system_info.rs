//! `SystemInfo`: the kernel, its architecture, memory and time zone, and what Android adds (upstream: system_probes_parser.cc).

use ferretto_protos::fields::{system_info as field, utsname};
use ferretto_trace_tables::{MachineId, Str};

use crate::machines::PAGE_BYTES;
use crate::metadata::{Key, Metadatum};
use crate::model::Model;
use crate::wire;

const BYTES_PER_GB: f64 = 1e9;

/// Texts that become metadata as they are.
const ANDROID_TEXTS: [(u32, Key); 6] = [
    (field::ANDROID_SOC_MODEL, Key::AndroidSocModel),
    (field::ANDROID_GUEST_SOC_MODEL, Key::AndroidGuestSocModel),
    (field::ANDROID_HARDWARE_REVISION, Key::AndroidHardwareRevision),
    (field::ANDROID_STORAGE_MODEL, Key::AndroidStorageModel),
    (field::ANDROID_RAM_MODEL, Key::AndroidRamModel),
    (field::ANDROID_SERIAL_CONSOLE, Key::AndroidSerialConsole),
];

/// Android's versions and those of its interface to programs, where the trace does not say the latter.
const ANDROID_VERSIONS: [(&str, i64); 14] = [
    ("12", 31),
    ("11", 30),
    ("10", 29),
    ("9", 28),
    ("8.1", 27),
    ("8.0", 26),
    ("7.1", 25),
    ("7.0", 24),
    ("6.0", 23),
    ("5.1", 22),
    ("5.1.1", 22),
    ("5.0", 21),
    ("5.0.1", 21),
    ("5.0.2", 21),
];

impl Model {
    /// Reads `TracePacket.system_info`, when it arrives.
    pub fn read_system_info(&mut self, machine: MachineId, message: &[u8]) {
        let row = machine.index();
        if let Some(name) = wire::bytes(message, field::MACHINE_NAME) {
            let name = self.tables.strings.intern_bytes(name);
            set(&mut self.tables.machine.name, row, Some(name));
        }
        if let Some(utsname) = wire::bytes(message, field::UTSNAME) {
            self.utsname(machine, utsname);
        }
        if let Some(minutes) = wire::int(message, field::TIMEZONE_OFF_MINS) {
            self.set_metadata(Key::TimezoneOffMins, machine, Metadatum::Int(minutes));
        }
        self.android(machine, message);
        let page_bytes = wire::number(message, field::PAGE_SIZE).unwrap_or(0) as u32;
        if let Some(facts) = self.machines.get_mut(machine) {
            facts.page_bytes = if page_bytes == 0 { PAGE_BYTES } else { page_bytes };
        }
        if let Some(cpus) = wire::number(message, field::NUM_CPUS) {
            self.tables.machine.num_cpus.set(row, Some(cpus as u32));
        }
        if let Some(bytes) = wire::int(message, field::SYSTEM_RAM_BYTES) {
            let gigabytes = (bytes as f64 / BYTES_PER_GB).round() as i64;
            self.set_metadata(Key::SystemRamBytes, machine, Metadatum::Int(bytes));
            self.set_metadata(Key::SystemRamGb, machine, Metadatum::Int(gigabytes));
            self.tables.machine.system_ram_bytes.set(row, Some(bytes));
            self.tables.machine.system_ram_gb.set(row, Some(gigabytes));
        }
    }

    fn utsname(&mut self, machine: MachineId, message: &[u8]) {
        let row = machine.index();
        let mut text = |number| self.text_if_any(wire::bytes(message, number));
        let sysname = text(utsname::SYSNAME);
        let version = text(utsname::VERSION);
        let release = text(utsname::RELEASE);
        let arch = text(utsname::MACHINE);
        let table = &mut self.tables.machine;
        set(&mut table.sysname, row, sysname);
        set(&mut table.release, row, release);
        set(&mut table.version, row, version);
        set(&mut table.arch, row, arch);
        for (key, text) in [
            (Key::SystemName, sysname),
            (Key::SystemVersion, version),
            (Key::SystemRelease, release),
            (Key::SystemMachine, arch),
        ] {
            self.set_metadata(key, machine, text.map_or(Metadatum::Nothing, Metadatum::Text));
        }
    }

    fn android(&mut self, machine: MachineId, message: &[u8]) {
        let fingerprint = wire::bytes(message, field::ANDROID_BUILD_FINGERPRINT).map(String::from_utf8_lossy);
        let build = fingerprint.as_deref().and_then(parse_fingerprint);
        if let Some(fingerprint) = &fingerprint {
            self.set_text(Key::AndroidBuildFingerprint, machine, fingerprint.as_bytes());
        }
        if let Some((_, incremental)) = build {
            self.set_text(Key::AndroidIncrementalBuild, machine, incremental.as_bytes());
        }
        if let Some(manufacturer) = wire::bytes(message, field::ANDROID_DEVICE_MANUFACTURER) {
            self.set_text(Key::AndroidDeviceManufacturer, machine, manufacturer);
        }
        let said = wire::int(message, field::ANDROID_SDK_VERSION);
        if let Some(version) = said.or_else(|| build.and_then(|(version, _)| version)) {
            self.set_metadata(Key::AndroidSdkVersion, machine, Metadatum::Int(version));
        }
        if let Some(version) = wire::bytes(message, field::TRACING_SERVICE_VERSION) {
            self.set_text(Key::TracingServiceVersion, machine, version);
        }
        for (number, key) in ANDROID_TEXTS {
            if let Some(text) = wire::bytes(message, number) {
                self.set_text(key, machine, text);
            }
        }
    }
}

fn set(column: &mut [Option<Str>], row: usize, text: Option<Str>) {
    if let Some(cell) = column.get_mut(row) {
        *cell = text;
    }
}

/// The version of the interface, if the version is a known one, and the build, out of
/// `BRAND/PRODUCT/DEVICE:VERSION/ID/BUILD:TYPE/TAGS`.
fn parse_fingerprint(fingerprint: &str) -> Option<(Option<i64>, &str)> {
    let (_, after_device) = fingerprint.split_once(':')?;
    let (version, after_version) = after_device.split_once('/')?;
    let (_, after_id) = after_version.split_once('/')?;
    let (build, _) = after_id.split_once(':')?;
    let known = ANDROID_VERSIONS.iter().find(|(known, _)| *known == version).map(|(_, sdk)| *sdk);
    let sdk = if version.starts_with(['S', 'T']) { Some(31) } else { known };
    Some((sdk, build))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_have_a_version_and_a_build() {
        let cases = [
            ("google/coral/coral:12/SP1A.210812.015/7679548:userdebug/dev-keys", Some((Some(31), "7679548"))),
            ("a/b/c:Tiramisu/X/1:user/keys", Some((Some(31), "1"))),
            ("a/b/c:99/X/1:user/keys", Some((None, "1"))),
            ("a/b/c:12/X/1", None),
            ("nothing", None),
        ];
        for (fingerprint, expected) in cases {
            assert_eq!(parse_fingerprint(fingerprint), expected, "{fingerprint}");
        }
    }
}
