//! The kinds of traces that reading is tested with. Each is made once, when the first test asks for it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use ferretto_interop::{Maker, Reason};

use crate::{made, recorded};

/// With it, traces that an earlier run has left are taken as they are.
const KEEP_ENV: &str = "FERRETTO_KEEP_TRACES";

static MADE: Mutex<BTreeMap<Kind, Result<PathBuf, Reason>>> = Mutex::new(BTreeMap::new());

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Events of every kind of our library, through our service and through upstream's.
    OurLibrary,
    OurLibraryAtUpstreams,
    /// Tasks of our library and of the crate `tracing`.
    Tasks,
    UpstreamsLibrary,
    /// A machine by our probes, with scheduling as events and in columns, and by upstream's.
    Probes,
    ProbesCompact,
    UpstreamsProbes,
    /// A machine and one that is relayed to it, by our service and by upstream's.
    Machines,
    MachinesAtUpstreams,
    /// Rings that have gone round in the middle of sequences.
    Ring,
    /// What profilers write.
    Heaps,
    Samples,
    Memory,
    /// Formats of others.
    ChromeJson,
    FtraceText,
}

impl Kind {
    /// The file, or why it cannot be had.
    pub(crate) fn trace(self) -> Result<PathBuf, Reason> {
        let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(trace) = made.get(&self) {
            return trace.clone();
        }
        let path = folder().join(format!("{self:?}"));
        let is_kept = std::env::var_os(KEEP_ENV).is_some() && path.exists();
        let trace = if is_kept { Ok(path) } else { self.make(&path).map(|()| path) };
        made.insert(self, trace.clone());
        trace
    }

    /// The next time, another one is made.
    pub(crate) fn forget(self) {
        MADE.lock().unwrap_or_else(PoisonError::into_inner).remove(&self);
    }

    fn make(self, to: &Path) -> Result<(), Reason> {
        use Maker::{Ferretto, Upstream};
        match self {
            Self::OurLibrary => recorded::gallery(Ferretto, to),
            Self::OurLibraryAtUpstreams => recorded::gallery(Upstream, to),
            Self::Tasks => recorded::tasks(to),
            Self::UpstreamsLibrary => recorded::upstreams_library(to),
            Self::Probes => recorded::machine(Ferretto, "", to),
            Self::ProbesCompact => recorded::machine(Ferretto, recorded::COMPACT, to),
            Self::UpstreamsProbes => recorded::machine(Upstream, recorded::COMPACT, to),
            Self::Machines => recorded::machines(Ferretto, to),
            Self::MachinesAtUpstreams => recorded::machines(Upstream, to),
            Self::Ring => recorded::ring(to),
            Self::Heaps => write(to, &made::profiles::heaps()),
            Self::Samples => write(to, &made::profiles::samples()),
            Self::Memory => write(to, &made::memory::snapshots()),
            Self::ChromeJson => write(to, made::chrome_json::events().as_bytes()),
            Self::FtraceText => write(to, made::ftrace_text::lines().as_bytes()),
        }
    }
}

/// Where files of these tests lie; they stay there for whoever wants to look at them.
pub(crate) fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("reading");
    fs::create_dir_all(&folder).expect("a folder");
    folder
}

fn write(to: &Path, bytes: &[u8]) -> Result<(), Reason> {
    fs::write(to, bytes).expect("a file");
    Ok(())
}
