//! `ferretto profile --heap`: the library that the command is started with, and what is asked of the profiler.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result};
use ferretto_ipc::address::environment;
use ferretto_profile::heap::{LIBRARY, Listener, has_client, is_static};
use ferretto_protos::HeapprofdConfig;
use ferretto_protos::heapprofd_config::ContinuousDumpConfig;
use ferretto_shm::heap::SOCKET_ENV;

use super::ProfileArgs;
use crate::private::unguessable;
use crate::record::find_program;
use crate::record::sampling::Heap;
use crate::report::UserError;
use crate::units;

/// Where the library is, if it is not where it is looked for.
const LIBRARY_ENV: &str = "FERRETTO_PRELOAD";
/// What the loader loads before a program's libraries (ld.so(8)).
const PRELOAD_ENV: &str = "LD_PRELOAD";
/// Where it is looked for, beside the folder of this program.
const FOLDERS: [&str; 2] = ["", "../lib/ferretto"];

/// What the profiler gives.
const RING_MIN_KB: u64 = 4 << 10;
const RING_MAX_KB: u64 = 128 << 10;

/// Bytes between samples: a number, or one with k or m behind it.
pub(super) fn interval(text: &str) -> Result<u64, String> {
    let bytes = match text.parse() {
        Ok(bytes) => Some(bytes),
        Err(_) => units::parse_size_kb(text).and_then(|kb| kb.checked_mul(1024)),
    };
    match bytes {
        Some(0) => Err("1 is a sample of every block; there is no less".to_owned()),
        Some(bytes) if bytes <= 1 << 40 => Ok(bytes),
        _ => Err("expected a number of bytes, as in 4096, 32k or 1m".to_owned()),
    }
}

/// A ring's size in KiB.
pub(crate) fn ring_kb(text: &str) -> Result<u64, String> {
    let kb = units::parse_size_kb(text).ok_or("expected a number and mb, as in 16mb")?;
    match kb {
        RING_MIN_KB..=RING_MAX_KB if kb.is_power_of_two() => Ok(kb),
        _ => Err("a ring has 4mb, 8mb, 16mb, 32mb, 64mb or 128mb".to_owned()),
    }
}

/// Where programs find a daemon of this user's, or where the environment says.
pub(crate) fn listen() -> Result<Listener> {
    let name = environment(SOCKET_ENV).map(|name| name.to_string_lossy().into_owned());
    let listener = match &name {
        None => Listener::bind_daemon(),
        Some(name) => match name.strip_prefix('@').filter(|name| !name.is_empty()) {
            Some(name) => Listener::bind(name),
            None => {
                let error = UserError::new(format!("{SOCKET_ENV} is {name:?}, which is no name of a socket"));
                return Err(error.help("it is an @ and what follows it, as in @my-heaps").into());
            }
        },
    };
    listener.map_err(|source| {
        let error = UserError::new(format!("cannot listen for programs: {source}"));
        match source.kind() {
            std::io::ErrorKind::AddrInUse => {
                error.help("another one runs, or somebody has its name; see /proc/net/unix").into()
            }
            _ => error.into(),
        }
    })
}

/// What the profiler needs; what cannot work is said.
pub(super) fn prepare(args: &ProfileArgs) -> Result<Heap> {
    let library = library_for(find_program(&args.command)?.as_deref())?;
    let name = format!("ferretto-heap-{}-{:016x}", std::process::id(), unguessable());
    let listener = Listener::bind(&name).context("cannot listen for programs")?;
    let dumps = args.dump_every.map(|every| ContinuousDumpConfig {
        dump_phase_ms: None,
        dump_interval_ms: Some(u32::try_from(every.as_millis()).unwrap_or(u32::MAX)),
    });
    let mut env = vec![(SOCKET_ENV, listener.address().to_owned())];
    if let Some(library) = library {
        env.push((PRELOAD_ENV, preload(&library)?));
    }
    Ok(Heap {
        env,
        listener: Mutex::new(Some(listener)),
        config: HeapprofdConfig {
            sampling_interval_bytes: Some(args.interval),
            all: Some(true),
            all_heaps: Some(true),
            continuous_dump_config: dumps,
            shmem_size_bytes: Some(args.ring * 1024),
            dump_at_max: Some(args.at_peak),
            ..HeapprofdConfig::default()
        },
        summary: Arc::default(),
    })
}

/// The library for a program. One that has the allocator of the SDK needs none.
fn library_for(program: Option<&Path>) -> Result<Option<PathBuf>> {
    if let Some(program) = program.filter(|program| is_static(program) && !has_client(program)) {
        let error = UserError::new(format!("cannot profile the heap of {}", program.display()));
        return Err(error
            .help("it is linked statically, so that nothing can stand before its allocator")
            .help("a program in Rust can have ferretto::heap::Profiled as its #[global_allocator]")
            .help("what it starts can be profiled by itself")
            .into());
    }
    match find() {
        Ok(library) => Ok(Some(library)),
        Err(_) if environment(LIBRARY_ENV).is_none() && program.is_some_and(has_client) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The library: the one that the environment names, or that lies beside this program.
fn find() -> Result<PathBuf> {
    if let Some(path) = environment(LIBRARY_ENV).map(PathBuf::from) {
        return match path.canonicalize() {
            Ok(path) if path.is_file() => Ok(path),
            _ => Err(UserError::new(format!("there is no library {}", path.display()))
                .help(format!("{LIBRARY_ENV} names it"))
                .into()),
        };
    }
    let own = std::env::current_exe().context("cannot tell where this program is")?;
    let folder = own.parent().unwrap_or(Path::new("/"));
    let places = FOLDERS.map(|beside| folder.join(beside).join(LIBRARY));
    let found = places.iter().filter_map(|place| place.canonicalize().ok()).find(|place| place.is_file());
    found.ok_or_else(|| {
        UserError::new(format!("there is no {LIBRARY}, which stands before a program's allocator"))
            .help("releases have it; in a clone, build it, and it lies beside this program: cargo build --release -p ferretto-preload")
            .help(format!("or copy it to {}, or name it: {LIBRARY_ENV}=PATH", folder.display()))
            .into()
    })
}

/// What is loaded first: the library, and behind it what is so already.
fn preload(library: &Path) -> Result<String> {
    let path = library.to_str().filter(|path| !path.contains([':', ' ', '\t', '\n']));
    let path = path.ok_or_else(|| {
        UserError::new(format!("the loader cannot load {}", library.display()))
            .help("its path must not have spaces and colons in it: copy it elsewhere, and name it: FERRETTO_PRELOAD=PATH")
    })?;
    Ok(match environment(PRELOAD_ENV).and_then(|others| others.into_string().ok()) {
        Some(others) => format!("{path}:{others}"),
        None => path.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_bytes() {
        for (text, bytes) in [("1", 1), ("4096", 4096), ("32k", 32 << 10), ("1mb", 1 << 20)] {
            assert_eq!(interval(text), Ok(bytes), "{text}");
        }
        for text in ["0", "", "k", "1.5k", "-1", "99999gb"] {
            assert!(interval(text).is_err(), "{text}");
        }
    }

    #[test]
    fn rings_are_powers_of_two() {
        assert_eq!(ring_kb("8mb"), Ok(8 << 10));
        for text in ["2mb", "24mb", "256mb", "8", ""] {
            assert!(ring_kb(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_path_that_the_loader_would_take_for_two_is_refused() {
        assert!(preload(Path::new("/a/b.so")).unwrap().starts_with("/a/b.so"));
        for path in ["/a b.so", "/a:b.so"] {
            assert!(preload(Path::new(path)).is_err(), "{path}");
        }
    }
}
