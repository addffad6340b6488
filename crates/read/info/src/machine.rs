//! What machines say of themselves (upstream: system_info.proto, cpu_info.proto, sys_stats.proto).

use ferretto_protos::fields::{cpu_info, sys_stats, system_info, utsname};
use ferretto_protozero::read::{Fields, Value};

use crate::events::{bytes_of, number_of};

/// Machines that are told apart. A relay carries a handful.
const MAX_MACHINES: usize = 64;
/// What is kept of a text.
const MAX_TEXT_BYTES: usize = 256;
/// `MeminfoCounters.MEMINFO_MEM_TOTAL`.
const MEM_TOTAL: i32 = 1;

/// A machine. What it did not say is empty, or 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// 0 is that of the service.
    pub id: u32,
    /// What a relay called it.
    pub name: String,
    /// `Linux`.
    pub system: String,
    /// `6.18.5`.
    pub release: String,
    /// What the kernel's build is called.
    pub version: String,
    /// `x86_64`.
    pub architecture: String,
    /// Android's build.
    pub android_build: String,
    /// The service that recorded it.
    pub service: String,
    /// Processors.
    pub cpus: u64,
    /// Memory, in bytes.
    pub memory_bytes: u64,
    /// Local time minus UTC.
    pub timezone_minutes: Option<i32>,
}

/// All of them.
#[derive(Debug, Default)]
pub struct Machines(Vec<Machine>);

impl Machines {
    /// A machine, which is known from now on; the first one if there are too many.
    pub fn get(&mut self, id: u32) -> Option<&mut Machine> {
        let known = self.0.iter().position(|machine| machine.id == id);
        let at = match known {
            Some(at) => at,
            None if self.0.len() < MAX_MACHINES => {
                self.0.push(Machine { id, ..Machine::default() });
                self.0.len() - 1
            }
            None => 0,
        };
        self.0.get_mut(at)
    }

    /// All that were met, in that order.
    #[must_use]
    pub fn all(self) -> Vec<Machine> {
        self.0
    }
}

impl Machine {
    /// `SystemInfo`.
    pub fn system(&mut self, message: &[u8]) {
        for part in Fields::new(message).map_while(Result::ok) {
            match (part.number, part.value) {
                (system_info::UTSNAME, Value::Bytes(names)) => {
                    let of = |number| bytes_of(names, number).map(text).unwrap_or_default();
                    self.system = of(utsname::SYSNAME);
                    self.release = of(utsname::RELEASE);
                    self.version = of(utsname::VERSION);
                    self.architecture = of(utsname::MACHINE);
                }
                (system_info::MACHINE_NAME, Value::Bytes(name)) => self.name = text(name),
                (system_info::ANDROID_BUILD_FINGERPRINT, Value::Bytes(name)) => {
                    self.android_build = text(name)
                }
                (system_info::TRACING_SERVICE_VERSION, Value::Bytes(name)) => self.service = text(name),
                (system_info::NUM_CPUS, Value::Varint(cpus)) => self.cpus = cpus,
                (system_info::SYSTEM_RAM_BYTES, Value::Varint(bytes)) => self.memory_bytes = bytes,
                (system_info::TIMEZONE_OFF_MINS, Value::Varint(minutes)) => {
                    self.timezone_minutes = Some(minutes as i32);
                }
                _ => {}
            }
        }
    }

    /// `CpuInfo`: those that the kernel knows.
    pub fn cpus(&mut self, message: &[u8]) {
        let cpus = Fields::new(message).map_while(Result::ok).filter(|part| part.number == cpu_info::CPUS);
        self.cpus = cpus.count() as u64;
    }

    /// `SysStats`: how much memory there is.
    pub fn counters(&mut self, message: &[u8]) {
        if self.memory_bytes > 0 {
            return;
        }
        for part in Fields::new(message).map_while(Result::ok) {
            if let (sys_stats::MEMINFO, Value::Bytes(value)) = (part.number, part.value)
                && number_of(value, sys_stats::meminfo_value::KEY) == Some(MEM_TOTAL)
            {
                let mut fields = Fields::new(value).map_while(Result::ok);
                let total = fields.find(|field| field.number == sys_stats::meminfo_value::VALUE);
                let kib = total.and_then(|total| total.value.as_u64()).unwrap_or(0);
                self.memory_bytes = kib.saturating_mul(1024);
            }
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes.get(..MAX_TEXT_BYTES).unwrap_or(bytes)).into_owned()
}
