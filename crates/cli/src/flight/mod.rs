//! The flight recorder: `ferretto record --flight` keeps the latest in memory, `ferretto snapshot` writes it out while it goes on.
//!
//! A recorder is a session with a name. Whoever wants a snapshot clones that session over a consumer socket: that of the system's service,
//! or one that the recorder listens on itself (`socket`).

mod snapshot;
pub(crate) mod socket;
mod triggers;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use anyhow::Result;
use ferretto_consumer::Consumer;
use ferretto_ipc::address::Address;
use ferretto_ipc::socket::Stream;
use ferretto_printable::{printable, printable_lines};
use ferretto_protos::clone_session_request::Selector;
use ferretto_protos::trace_config::IncrementalStateConfig;
use ferretto_protos::tracing_service_state::TracingSession;
use ferretto_protos::{CloneSessionRequest, TraceConfig};
use rustix::process::geteuid;

pub(crate) use self::snapshot::boottime_ns;
pub(crate) use self::triggers::Listener;
use crate::config_bytes::ConfigBytes;
use crate::record::output::{Output, default_name};
use crate::report::UserError;
use crate::units;
use crate::user;
use crate::wake::Signals;

/// The name of a recorder that was given none.
pub(crate) const DEFAULT_NAME: &str = "flight";
/// The numbered files of a recorder that was given no other.
const DEFAULT_FILE: &str = "flight.pftrace";
/// What a busy CPU makes of kernel events a second; one that is saturated with switches makes several times that.
const KB_PER_CPU_SECOND: u64 = 2 << 10;
/// The least and the most that a time is turned into; more can be asked for as a size.
const MIN_KEEP_KB: u64 = 16 << 10;
const MAX_KEEP_KB: u64 = 2 << 20;
/// What is older than the first clear in a ring may be unreadable.
const LONGEST_CLEAR_PERIOD_MS: u32 = 5_000;
/// How long a service may be too busy to take the connection.
const PATIENCE: Duration = Duration::from_secs(10);

/// Writes the last moments of a running flight recorder (`ferretto record --flight`) into a trace. The recording goes on.
#[derive(clap::Args, Debug, Clone)]
pub(crate) struct SnapshotArgs {
    /// The trace; `-` is stdout [default: trace-YYYYMMDD-HHMMSS.pftrace here, the time in UTC].
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// The recorder's name, if it was given one.
    #[arg(long, value_name = "NAME", value_parser = parse_name, default_value = DEFAULT_NAME)]
    name: String,

    /// Show no summary; errors and losses only.
    #[arg(short, long)]
    quiet: bool,
}

/// `ferretto snapshot`.
pub(crate) fn main(args: &SnapshotArgs) -> Result<ExitCode> {
    // A partial file would be left behind otherwise.
    let signals = Signals::install()?;
    let (mut consumer, request) = find(&args.name)?;
    let path = args.output.clone().unwrap_or_else(|| default_name(SystemTime::now()));
    let mut output = Output::open(&path)?;
    signals.make_deadly();
    let words = snapshot::take(&mut consumer, &request, &mut output, args.quiet)?;
    eprint!("{}", printable_lines(&words));
    Ok(ExitCode::SUCCESS)
}

/// Connects to the service that has the recorder, and asks for its session.
fn find(name: &str) -> Result<(Consumer, CloneSessionRequest)> {
    for (path, uid) in socket::where_to_look(name) {
        let stream = Stream::connect_to_user(&Address::Path(path), uid, PATIENCE);
        if let Some(consumer) = stream.ok().and_then(|stream| Consumer::over(stream).ok()) {
            return Ok((consumer, request(name)));
        }
    }
    if let Ok(mut consumer) = Consumer::connect_default() {
        let sessions = consumer.query_service_state(true)?.tracing_sessions;
        if let Some(id) = choose(&sessions, &session_name(name), &whose()) {
            let selector = Some(Selector::SessionId(id));
            return Ok((consumer, CloneSessionRequest { selector, ..CloneSessionRequest::default() }));
        }
    }
    let error = UserError::new(format!("no flight recorder named \"{name}\" runs here that you may read"));
    let error = error.help("start one: ferretto record --flight");
    Err(match geteuid().is_root() {
        true => error,
        false => error.help("one that root has started is root's: sudo ferretto snapshot"),
    }
    .into())
}

/// Whose recorder it may be, best first. The service shows all of them to root; to others their own only, by whatever numbers.
fn whose() -> Vec<u32> {
    match user::is_root() {
        true => std::iter::once(0).chain(user::before_sudo()).collect(),
        false => Vec::new(),
    }
}

/// The session with this name of the first of these users who has one, or of whomever if none are given.
fn choose(sessions: &[TracingSession], name: &str, users: &[u32]) -> Option<u64> {
    let mut named = sessions.iter().filter(|session| session.unique_session_name() == name);
    let of = |uid: &u32| named.clone().find(|session| session.consumer_uid == Some(uid.cast_signed()));
    let found = if users.is_empty() { named.next() } else { users.iter().find_map(of) };
    found.map(TracingSession::id)
}

fn request(name: &str) -> CloneSessionRequest {
    let selector = Some(Selector::UniqueSessionName(session_name(name)));
    CloneSessionRequest { selector, ..CloneSessionRequest::default() }
}

fn session_name(name: &str) -> String {
    format!("ferretto.{name}")
}

/// A name that can be part of a file's.
pub(crate) fn parse_name(text: &str) -> Result<String, String> {
    const MAX_LEN: usize = 40;
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    match text.bytes().all(allowed) && (1..=MAX_LEN).contains(&text.len()) {
        true => Ok(text.to_owned()),
        false => Err(format!("expected up to {MAX_LEN} letters, digits, '-' and '_'")),
    }
}

/// How much is kept.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Keep {
    Memory {
        kb: u32,
    },
    /// For how much memory that takes there is but a guess.
    Time(Duration),
}

impl Keep {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        if matches!(unit, "kb" | "k" | "mb" | "gb" | "g") {
            return crate::record::size_kb(text).map(|kb| Self::Memory { kb });
        }
        match unit {
            // Minutes or megabytes?
            "" | "m" => Err("expected a size such as 256mb or a time such as 30s or 5min".to_owned()),
            _ => units::parse_duration(text).map(Self::Time),
        }
    }

    /// The ring's size.
    pub(crate) fn kb(self) -> u32 {
        match self {
            Self::Memory { kb } => kb,
            Self::Time(time) => {
                let cpus = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
                let guess = time.as_secs().saturating_add(1).saturating_mul(KB_PER_CPU_SECOND * cpus);
                u32::try_from(guess.clamp(MIN_KEEP_KB, MAX_KEEP_KB)).unwrap_or(u32::MAX)
            }
        }
    }

    /// How often data sources say again what later events refer to: what is older than the first time in the ring cannot be read.
    fn clear_period_ms(self) -> u32 {
        const SHORTEST_MS: u32 = 1_000;
        match self {
            Self::Memory { .. } => LONGEST_CLEAR_PERIOD_MS,
            Self::Time(time) => {
                let quarter = u32::try_from(time.as_millis() / 4).unwrap_or(u32::MAX);
                quarter.clamp(SHORTEST_MS, LONGEST_CLEAR_PERIOD_MS)
            }
        }
    }
}

/// What makes a recording a flight recorder.
#[derive(Debug, Clone)]
pub(crate) struct Flight {
    pub(crate) name: String,
    pub(crate) triggers: Vec<String>,
    /// Where it ends up when the recording ends; nowhere if none.
    pub(crate) last: Option<PathBuf>,
    /// None if a config says it all.
    pub(crate) keep: Option<Keep>,
    pub(crate) quiet: bool,
    /// A recorder with a service of its own listens there for who wants a snapshot.
    pub(crate) socket: Option<PathBuf>,
}

impl Flight {
    /// The session that everybody finds, with its rings.
    pub(crate) fn change(&self, config: &mut ConfigBytes) {
        let says_it = config.decoded().incremental_state_config.is_some();
        let clear_period_ms = match self.keep {
            Some(keep) => Some(keep.clear_period_ms()),
            None => (!says_it).then_some(LONGEST_CLEAR_PERIOD_MS),
        };
        let incremental_state_config =
            clear_period_ms.map(|ms| IncrementalStateConfig { clear_period_ms: Some(ms) });
        config.merge(&TraceConfig {
            unique_session_name: Some(session_name(&self.name)),
            incremental_state_config,
            ..TraceConfig::default()
        });
    }

    /// What the user can do now.
    pub(crate) fn instructions(&self) -> String {
        let name = match self.name.as_str() {
            DEFAULT_NAME => String::new(),
            name => format!(" --name {name}"),
        };
        let mut text = format!("Take a snapshot, as often as you like: ferretto snapshot{name} -o FILE\n");
        for trigger in &self.triggers {
            text += &format!(
                "  or: ferretto trigger {trigger}, into {}\n",
                printable(&numbered(&self.base(), "N").display().to_string())
            );
        }
        text += &match &self.last {
            Some(path) => {
                let path = path.display().to_string();
                format!("At the end the last moments go into {}.\n", printable(&path))
            }
            None => "Nothing is written at the end (-o FILE would write the last moments).\n".to_owned(),
        };
        text
    }

    fn base(&self) -> PathBuf {
        self.last.clone().unwrap_or_else(|| PathBuf::from(DEFAULT_FILE))
    }
}

/// `trace.pftrace` with `1` is `trace-1.pftrace`.
fn numbered(base: &std::path::Path, number: &str) -> PathBuf {
    let stem = base.file_stem().unwrap_or_default();
    let mut name = stem.to_owned();
    name.push(format!("-{number}"));
    if let Some(extension) = base.extension() {
        name.push(".");
        name.push(extension);
    }
    base.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_a_size_or_a_time() {
        let second = Duration::from_secs(1);
        assert_eq!(Keep::parse("256mb"), Ok(Keep::Memory { kb: 256 << 10 }));
        assert_eq!(Keep::parse("1gb"), Ok(Keep::Memory { kb: 1 << 20 }));
        assert_eq!(Keep::parse("30s"), Ok(Keep::Time(30 * second)));
        assert_eq!(Keep::parse("5min"), Ok(Keep::Time(300 * second)));
        for text in ["", "30", "5m", "0mb", "lots", "4gb"] {
            assert!(Keep::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn more_time_takes_more_memory_within_bounds() {
        let kb = |seconds| Keep::Time(Duration::from_secs(seconds)).kb();
        assert_eq!(u64::from(kb(0)), MIN_KEEP_KB);
        assert!(kb(10) <= kb(100));
        assert_eq!(u64::from(kb(10_000_000)), MAX_KEEP_KB);
    }

    #[test]
    fn numbers_stand_before_the_extension() {
        let cases = [("a/t.pftrace", "a/t-3.pftrace"), ("t", "t-3"), ("a.b/t.tar.gz", "a.b/t.tar-3.gz")];
        for (base, expected) in cases {
            assert_eq!(numbered(std::path::Path::new(base), "3"), PathBuf::from(expected));
        }
    }

    #[test]
    fn of_recorders_with_one_name_it_is_the_users_own() {
        let session = |id, uid, name: &str| TracingSession {
            id: Some(id),
            consumer_uid: Some(uid),
            unique_session_name: Some(name.to_owned()),
            ..TracingSession::default()
        };
        let sessions =
            [session(1, 1002, "x"), session(2, 1001, "x"), session(3, 0, "x"), session(4, 1001, "y")];
        let cases: [(&str, &[u32], Option<u64>); 5] = [
            ("x", &[0, 1001], Some(3)),
            ("y", &[0, 1001], Some(4)),
            ("y", &[0], None),
            ("z", &[], None),
            ("x", &[], Some(1)),
        ];
        for (name, users, expected) in cases {
            assert_eq!(choose(&sessions, name, users), expected, "{name} {users:?}");
        }
    }

    #[test]
    fn names_are_safe_in_file_names() {
        assert!(parse_name("web-1_x").is_ok());
        for name in ["", "a/b", "..", "a b", "x".repeat(41).as_str()] {
            assert!(parse_name(name).is_err(), "{name}");
        }
    }

    #[test]
    fn the_user_is_told_how_to_get_at_it() {
        let mut flight = Flight {
            name: DEFAULT_NAME.to_owned(),
            triggers: vec!["slow".to_owned()],
            last: None,
            keep: None,
            quiet: false,
            socket: None,
        };
        let text = flight.instructions();
        for part in [
            "ferretto snapshot -o FILE",
            "ferretto trigger slow, into flight-N.pftrace",
            "Nothing is written",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        flight.name = "web".to_owned();
        flight.last = Some("x/y.pftrace".into());
        let text = flight.instructions();
        for part in ["snapshot --name web -o", "into x/y-N.pftrace", "go into x/y.pftrace"] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }
}
