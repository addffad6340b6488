//! Socket addresses as users write them, and the default ones.
//!
//! Upstream: `unix_socket.cc` (forms), `default_socket.cc` (environment variables and paths).

use std::error::Error;
use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use rustix::fs::{Access, access};
use rustix::io::Errno;

use crate::log;

/// Names the producer socket, or several separated by commas.
pub const PRODUCER_SOCKET_ENV: &str = "PERFETTO_PRODUCER_SOCK_NAME";
/// Names the consumer socket.
pub const CONSUMER_SOCKET_ENV: &str = "PERFETTO_CONSUMER_SOCK_NAME";

/// Where packages let the daemon put its sockets. Used if this user may enter it.
const RUN_DIR: &str = "/run/perfetto/";
const RUN_DIR_PRODUCER: &str = "/run/perfetto/traced-producer.sock";
const RUN_DIR_CONSUMER: &str = "/run/perfetto/traced-consumer.sock";
const FALLBACK_PRODUCER: &str = "/tmp/perfetto-producer";
const FALLBACK_CONSUMER: &str = "/tmp/perfetto-consumer";

/// `sun_path` has 108 bytes, one of them for the NUL; upstream leaves one more.
const MAX_UNIX_NAME: usize = 106;

/// Where a service listens.
///
/// ```
/// use ferretto_ipc::address::Address;
/// assert_eq!("@perfetto".parse(), Ok(Address::Abstract(b"perfetto".to_vec())));
/// assert_eq!("vsock://2:30001".parse(), Ok(Address::Vsock { cid: 2, port: 30001 }));
/// assert_eq!("[::1]:32278".parse(), Ok(Address::Tcp { host: "::1".into(), port: 32278 }));
/// assert_eq!("/tmp/socket".parse(), Ok(Address::Path("/tmp/socket".into())));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Address {
    /// A Unix socket in the file system.
    Path(PathBuf),
    /// A Unix socket in Linux's abstract name space; written with a leading `@`, kept without it.
    Abstract(Vec<u8>),
    /// `host:port` or `[v6]:port`; the host without brackets.
    Tcp {
        /// A name or number.
        host: String,
        /// The port.
        port: u16,
    },
    /// `vsock://CID:PORT`.
    Vsock {
        /// The context id: 2 is the host of a virtual machine.
        cid: u32,
        /// The port.
        port: u32,
    },
}

/// A text that is no socket address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AddressError {
    /// No text at all.
    Empty,
    /// Longer than the kernel takes.
    TooLong {
        /// The name.
        name: String,
        /// Its length.
        len: usize,
    },
    /// Starts with `vsock://` and goes on wrongly.
    BadVsock {
        /// The text.
        text: String,
    },
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(
                f,
                "the socket address is empty; expected a path, @abstract-name, host:port, [v6]:port or vsock://CID:PORT"
            ),
            Self::TooLong { name, len } => write!(
                f,
                "the socket name {name:?} has {len} bytes; at most {MAX_UNIX_NAME} fit into a Unix socket address: use a shorter path"
            ),
            Self::BadVsock { text } => {
                write!(f, "{text:?} is no vsock address; expected vsock://CID:PORT with two numbers")
            }
        }
    }
}

impl Error for AddressError {}

impl Address {
    /// Whether descriptors, and so shared memory, can pass through sockets of this kind.
    pub fn passes_fds(&self) -> bool {
        matches!(self, Self::Path(_) | Self::Abstract(_))
    }

    /// The file of a Unix socket in the file system.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Path(path) => Some(path),
            _ => None,
        }
    }

    fn unix(name: &str) -> Result<&str, AddressError> {
        match name.len() {
            0 => Err(AddressError::Empty),
            len if len > MAX_UNIX_NAME => Err(AddressError::TooLong { name: name.to_owned(), len }),
            _ => Ok(name),
        }
    }

    fn vsock(text: &str, rest: &str) -> Result<Self, AddressError> {
        let parsed = rest.split_once(':').and_then(|(cid, port)| Some((number(cid)?, number(port)?)));
        match parsed {
            Some((cid, port)) => Ok(Self::Vsock { cid, port }),
            None => Err(AddressError::BadVsock { text: text.to_owned() }),
        }
    }

    /// A host has no slash, so that a path with a colon stays a path.
    fn tcp(text: &str) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let port = u16::try_from(number(port)?).ok()?;
        let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let plain = (!host.bytes().any(|byte| matches!(byte, b':' | b'/'))).then_some(host);
        let host = bracketed.or(plain)?;
        (!host.is_empty()).then(|| Self::Tcp { host: host.to_owned(), port })
    }
}

#[inline(never)]
fn number(text: &str) -> Option<u32> {
    text.parse().ok()
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        if let Some(name) = text.strip_prefix('@') {
            return Ok(Self::Abstract(Self::unix(name)?.as_bytes().to_vec()));
        }
        if let Some(rest) = text.strip_prefix("vsock://") {
            return Self::vsock(text, rest);
        }
        if let Some(address) = Self::tcp(text) {
            return Ok(address);
        }
        Ok(Self::Path(PathBuf::from(Self::unix(text)?)))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => write!(f, "{}", path.display()),
            Self::Abstract(name) => write!(f, "@{}", String::from_utf8_lossy(name)),
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Vsock { cid, port } => write!(f, "vsock://{cid}:{port}"),
        }
    }
}

/// The producer sockets: from the environment (a list), else the default path. A daemon listens on all; a producer connects to the first.
pub fn default_producer() -> Result<Vec<Address>, AddressError> {
    producer_addresses(environment(PRODUCER_SOCKET_ENV), run_dir_is_usable())
}

/// All places where programs of any user look for the producer socket: a folder for packages that not everybody may enter leads some to the
/// other place.
pub fn where_programs_look() -> Result<Vec<Address>, AddressError> {
    let mut places = default_producer()?;
    let is_for_all = |mode: rustix::fs::Mode| mode.contains(rustix::fs::Mode::XOTH);
    let run_dir = rustix::fs::stat(RUN_DIR).map(|stat| rustix::fs::Mode::from_raw_mode(stat.st_mode));
    if environment(PRODUCER_SOCKET_ENV).is_none() && run_dir.is_ok_and(|mode| !is_for_all(mode)) {
        let fallback = FALLBACK_PRODUCER.parse()?;
        if !places.contains(&fallback) {
            places.push(fallback);
        }
    }
    Ok(places)
}

/// The consumer socket: from the environment, else the default path.
pub fn default_consumer() -> Result<Address, AddressError> {
    consumer_address(environment(CONSUMER_SOCKET_ENV), run_dir_is_usable())
}

/// A variable of the environment, unless this program has more rights than whoever has set it.
pub fn environment(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|_| !ferretto_sys::has_rights_of_its_own())
}

/// Parses addresses separated by commas.
pub fn parse_list(text: &str) -> Result<Vec<Address>, AddressError> {
    // Not `split` and `collect`, which are a kilobyte more in each program with the SDK.
    let mut addresses = Vec::new();
    let mut rest = Some(text);
    while let Some(text) = rest {
        let (first, others) = text.split_once(',').map_or((text, None), |(first, rest)| (first, Some(rest)));
        addresses.push(first.parse()?);
        rest = others;
    }
    Ok(addresses)
}

fn producer_addresses(env: Option<OsString>, run_dir: bool) -> Result<Vec<Address>, AddressError> {
    match env {
        Some(names) => parse_list(utf8(&names)?),
        None => parse_list(if run_dir { RUN_DIR_PRODUCER } else { FALLBACK_PRODUCER }),
    }
}

fn consumer_address(env: Option<OsString>, run_dir: bool) -> Result<Address, AddressError> {
    match env {
        Some(name) => utf8(&name)?.parse(),
        None => if run_dir { RUN_DIR_CONSUMER } else { FALLBACK_CONSUMER }.parse(),
    }
}

/// Names that are not UTF-8 could not be told apart from mistakes in messages; nobody uses them.
fn utf8(name: &OsString) -> Result<&str, AddressError> {
    name.to_str().ok_or_else(|| AddressError::TooLong {
        name: name.to_string_lossy().into_owned(),
        len: name.as_bytes().len(),
    })
}

fn run_dir_is_usable() -> bool {
    match access(RUN_DIR, Access::EXEC_OK) {
        Ok(()) => true,
        Err(Errno::NOENT) => false,
        Err(error) => {
            log::warn(format_args!("cannot use {RUN_DIR} for sockets: {error}; using /tmp"));
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_parsed_and_printed() {
        let tcp = |host: &str, port| Ok(Address::Tcp { host: host.to_owned(), port });
        let path = |path: &str| Ok(Address::Path(path.into()));
        let cases = [
            ("/run/perfetto/x.sock", path("/run/perfetto/x.sock")),
            ("relative", path("relative")),
            ("/tmp/with:7", path("/tmp/with:7")),
            ("name:notaport", path("name:notaport")),
            (":80", path(":80")),
            ("a:b:80", path("a:b:80")),
            ("@name", Ok(Address::Abstract(b"name".to_vec()))),
            ("@a:80", Ok(Address::Abstract(b"a:80".to_vec()))),
            ("localhost:32278", tcp("localhost", 32278)),
            ("127.0.0.1:1", tcp("127.0.0.1", 1)),
            ("[::1]:2", tcp("::1", 2)),
            ("vsock://4294967295:10001", Ok(Address::Vsock { cid: u32::MAX, port: 10001 })),
            ("vsock://2", Err(AddressError::BadVsock { text: "vsock://2".to_owned() })),
            ("", Err(AddressError::Empty)),
            ("@", Err(AddressError::Empty)),
        ];
        for (text, expected) in cases {
            let parsed = text.parse::<Address>();
            assert_eq!(parsed, expected, "{text}");
            if let Ok(address) = parsed {
                assert_eq!(address.to_string(), text);
            }
        }
    }

    #[test]
    fn names_that_do_not_fit_are_refused() {
        let long = "x".repeat(MAX_UNIX_NAME + 1);
        assert!(matches!(long.parse::<Address>(), Err(AddressError::TooLong { len: 107, .. })));
        assert!(matches!(format!("@{long}").parse::<Address>(), Err(AddressError::TooLong { .. })));
        assert!("x".repeat(MAX_UNIX_NAME).parse::<Address>().is_ok());
    }

    #[test]
    fn defaults_follow_environment_then_run_dir_then_tmp() {
        let path = |path: &str| Address::Path(path.into());
        assert_eq!(
            producer_addresses(Some("@a,/b".into()), true),
            Ok(vec![Address::Abstract(b"a".to_vec()), path("/b")])
        );
        assert_eq!(producer_addresses(None, true), Ok(vec![path(RUN_DIR_PRODUCER)]));
        assert_eq!(producer_addresses(None, false), Ok(vec![path(FALLBACK_PRODUCER)]));
        assert_eq!(consumer_address(Some("/c".into()), true), Ok(path("/c")));
        assert_eq!(consumer_address(None, true), Ok(path(RUN_DIR_CONSUMER)));
        assert_eq!(consumer_address(None, false), Ok(path(FALLBACK_CONSUMER)));
        assert_eq!(producer_addresses(Some("a,".into()), true), Err(AddressError::Empty));
    }
}
