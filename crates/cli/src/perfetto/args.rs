//! The command line of upstream's `perfetto`, flag for flag (upstream: src/perfetto_cmd/perfetto_cmd.cc).
//!
//! `parse` turns it into one `Action` that cannot be contradictory; each conflict has its sentence here.

use super::getopt::{self, Item, Spec};

/// What one run of `perfetto` is to do.
#[derive(Debug, PartialEq)]
pub(crate) enum Action {
    Help,
    Version,
    /// `--reset-guardrails`: there are none on Linux, so there is nothing to do.
    ResetGuardrails,
    Query {
        long: bool,
        raw: bool,
    },
    IsDetached {
        key: String,
    },
    Attach(Attach),
    Clone(CloneRequest),
    Record(Box<Record>),
}

/// `--attach=KEY [--stop]`.
#[derive(Debug, PartialEq)]
pub(crate) struct Attach {
    pub(crate) key: String,
    pub(crate) stop: bool,
}

/// Which session `--clone*` and `--save-for-bugreport` copy.
#[derive(Debug, PartialEq, Clone)]
pub(crate) enum CloneOf {
    Session(u64),
    Name(String),
    /// The session with the highest bugreport_score.
    Bugreport,
}

/// A clone, and where it goes.
#[derive(Debug, PartialEq)]
pub(crate) struct CloneRequest {
    pub(crate) of: CloneOf,
    pub(crate) for_bugreport: bool,
    pub(crate) out: Output,
}

/// `-o` and `--no-clobber`.
#[derive(Debug, PartialEq, Clone)]
pub(crate) struct Output {
    pub(crate) path: String,
    pub(crate) no_clobber: bool,
}

/// A recording.
#[derive(Debug, PartialEq)]
pub(crate) struct Record {
    pub(crate) config: ConfigSource,
    /// Absent is right only for configs that name an output_path or only activate triggers.
    pub(crate) out: Option<String>,
    pub(crate) no_clobber: bool,
    pub(crate) background: Background,
    pub(crate) notify_fd: Option<i32>,
    pub(crate) detach: Option<String>,
    pub(crate) attributes: Vec<(String, String)>,
    pub(crate) statsd: Statsd,
}

/// `-d` and `-D`.
#[derive(Debug, PartialEq, Clone, Copy, Default)]
pub(crate) enum Background {
    #[default]
    No,
    Immediately,
    WhenStarted,
}

/// Where the config comes from.
#[derive(Debug, PartialEq)]
pub(crate) enum ConfigSource {
    /// A file, `-` or `:test`.
    File {
        path: String,
        format: Format,
    },
    Light(Light),
}

/// How a config file is to be read.
#[derive(Debug, PartialEq, Clone, Copy, Default)]
pub(crate) enum Format {
    #[default]
    Binary,
    Text,
    /// As text, dropping what the schema does not know.
    TextLossy,
}

/// The light flags, as typed.
#[derive(Debug, PartialEq, Default, Clone)]
pub(crate) struct Light {
    pub(crate) time: Option<String>,
    pub(crate) size: Option<String>,
    pub(crate) buffer: Option<String>,
    pub(crate) apps: Vec<String>,
    pub(crate) categories: Vec<String>,
}

impl Light {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// `--alert-id` and its like: copied into the config.
#[derive(Debug, PartialEq, Default)]
pub(crate) struct Statsd {
    pub(crate) alert_id: Option<i64>,
    pub(crate) config_id: Option<i64>,
    pub(crate) config_uid: Option<i64>,
    pub(crate) subscription_id: Option<i64>,
}

impl Statsd {
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The text of `--help`.
pub(crate) const USAGE: &str = "\
Usage: perfetto -c CONFIG [--txt] -o TRACE          record what a config asks for
       perfetto -o TRACE [-t 10s] [-b 32mb] [-s SIZE] EVENT...
       perfetto --query [--long] | --query-raw      show what the service knows

Recording
  -c, --config FILE      TraceConfig to record; - is stdin, :test is built in
      --txt              the config is text, not binary
      --txt-lossy        text, ignoring fields that this version does not know
  -o, --out FILE         the trace; - is stdout
      --no-clobber       fail if the output file exists
  -d, --background       go on in the background; prints the process id
  -D, --background-wait  the same, but wait (at most 30 s) until all sources started
      --notify-fd FD     write one byte to FD when all sources started: 0, or not 0
      --add-attribute KEY[=VALUE]   note something in the trace

Without a config
  -t, --time N           duration: N with ms, s, m or h (default 10s)
  -b, --buffer N         ring buffer: N with kb, mb or gb (default 32mb)
  -s, --size N           write into the file while recording, up to this size
  -a, --app NAME         atrace app (has an effect on Android only)
  GROUP/NAME             ftrace event, such as sched/sched_switch
  CATEGORY               atrace category (has an effect on Android only)

Sessions
      --query [--long]   producers, data sources and sessions, for people
      --query-raw        the same as binary TracingServiceState
      --clone TSID       save a copy of a running session
      --clone-by-name NAME
      --clone-for-bugreport   with --clone: without the trace filter
      --save-for-bugreport    clone the session with the highest bugreport_score
      --detach=KEY       leave the session running in the service
      --attach=KEY [--stop]   take it over again
      --is_detached=KEY  exit status 0: yes, 2: no, 1: error

Others
      --version, -h, --help
      --alert-id, --config-id, --config-uid, --subscription-id ID   copied into the trace
      --no-guardrails, --reset-guardrails                           accepted, no effect
      --upload, --dropbox                                           Android only
";

#[derive(Debug, Clone, Copy, PartialEq)]
enum Key {
    Help,
    Config,
    Out,
    Background,
    BackgroundWait,
    Time,
    Buffer,
    Size,
    App,
    NoGuardrails,
    Txt,
    TxtLossy,
    Upload,
    Dropbox,
    AlertId,
    ConfigId,
    ConfigUid,
    SubscriptionId,
    ResetGuardrails,
    Detach,
    Attach,
    IsDetached,
    Stop,
    Query,
    Long,
    QueryRaw,
    Version,
    NotifyFd,
    NoClobber,
    Clone,
    CloneByName,
    CloneForBugreport,
    SaveForBugreport,
    SaveAllForBugreport,
    AddAttribute,
}

const fn flag(long: &'static str, key: Key) -> Spec<Key> {
    Spec { long, short: None, takes_value: false, key }
}

const fn value(long: &'static str, key: Key) -> Spec<Key> {
    Spec { long, short: None, takes_value: true, key }
}

const fn with_short(short: char, spec: Spec<Key>) -> Spec<Key> {
    Spec { short: Some(short), ..spec }
}

const SPECS: &[Spec<Key>] = &[
    with_short('h', flag("help", Key::Help)),
    with_short('c', value("config", Key::Config)),
    with_short('o', value("out", Key::Out)),
    with_short('d', flag("background", Key::Background)),
    with_short('D', flag("background-wait", Key::BackgroundWait)),
    with_short('t', value("time", Key::Time)),
    with_short('b', value("buffer", Key::Buffer)),
    with_short('s', value("size", Key::Size)),
    with_short('a', value("app", Key::App)),
    flag("no-guardrails", Key::NoGuardrails),
    flag("txt", Key::Txt),
    flag("txt-lossy", Key::TxtLossy),
    flag("upload", Key::Upload),
    value("dropbox", Key::Dropbox),
    value("alert-id", Key::AlertId),
    value("config-id", Key::ConfigId),
    value("config-uid", Key::ConfigUid),
    value("subscription-id", Key::SubscriptionId),
    flag("reset-guardrails", Key::ResetGuardrails),
    value("detach", Key::Detach),
    value("attach", Key::Attach),
    value("is_detached", Key::IsDetached),
    flag("stop", Key::Stop),
    flag("query", Key::Query),
    flag("long", Key::Long),
    flag("query-raw", Key::QueryRaw),
    flag("version", Key::Version),
    value("notify-fd", Key::NotifyFd),
    flag("no-clobber", Key::NoClobber),
    value("clone", Key::Clone),
    value("clone-by-name", Key::CloneByName),
    flag("clone-for-bugreport", Key::CloneForBugreport),
    flag("save-for-bugreport", Key::SaveForBugreport),
    flag("save-all-for-bugreport", Key::SaveAllForBugreport),
    value("add-attribute", Key::AddAttribute),
];

/// Every flag as it was given, before it is known whether they go together.
#[derive(Default)]
struct Raw {
    help: bool,
    version: bool,
    reset_guardrails: bool,
    upload: bool,
    config: Option<String>,
    out: Option<String>,
    txt: bool,
    txt_lossy: bool,
    background: Background,
    light: Light,
    statsd: Statsd,
    detach: Option<String>,
    attach: Option<String>,
    is_detached: Option<String>,
    stop: bool,
    query: bool,
    long: bool,
    query_raw: bool,
    notify_fd: Option<i32>,
    no_clobber: bool,
    clone: Option<u64>,
    clone_by_name: Option<String>,
    clone_for_bugreport: bool,
    save_for_bugreport: bool,
    save_all_for_bugreport: bool,
    attributes: Vec<(String, String)>,
}

/// Reads the arguments after the program's name. The error is one line for stderr; the exit code is then 1.
pub(crate) fn parse(args: &[String]) -> Result<Action, String> {
    let mut raw = Raw::default();
    for item in getopt::parse(SPECS, args)? {
        match item {
            Item::Flag(key) => raw.set_flag(key),
            Item::Value(key, value) => raw.set_value(key, value)?,
            Item::Operand(text) => raw.light.categories.push(text),
        }
    }
    raw.into_action()
}

impl Raw {
    fn set_flag(&mut self, key: Key) {
        match key {
            Key::Help => self.help = true,
            Key::Version => self.version = true,
            Key::Background => self.background = Background::Immediately,
            Key::BackgroundWait => self.background = Background::WhenStarted,
            Key::Txt => self.txt = true,
            Key::TxtLossy => self.txt_lossy = true,
            Key::Upload => self.upload = true,
            Key::ResetGuardrails => self.reset_guardrails = true,
            Key::Stop => self.stop = true,
            Key::Query => self.query = true,
            Key::Long => self.long = true,
            Key::QueryRaw => self.query_raw = true,
            Key::NoClobber => self.no_clobber = true,
            Key::CloneForBugreport => self.clone_for_bugreport = true,
            Key::SaveForBugreport => self.save_for_bugreport = true,
            Key::SaveAllForBugreport => self.save_all_for_bugreport = true,
            // Guardrails exist for uploads only, which Linux does not have.
            _ => {}
        }
    }

    fn set_value(&mut self, key: Key, value: String) -> Result<(), String> {
        match key {
            Key::Config => self.config = Some(value),
            Key::Out => self.out = Some(value),
            Key::Time => self.light.time = Some(value),
            Key::Buffer => self.light.buffer = Some(value),
            Key::Size => self.light.size = Some(value),
            Key::App => self.light.apps.push(value),
            Key::Dropbox => self.upload = true,
            Key::AlertId => self.statsd.alert_id = Some(number("alert-id", &value)?),
            Key::ConfigId => self.statsd.config_id = Some(number("config-id", &value)?),
            Key::ConfigUid => self.statsd.config_uid = Some(number("config-uid", &value)?),
            Key::SubscriptionId => self.statsd.subscription_id = Some(number("subscription-id", &value)?),
            Key::Detach => self.detach = Some(non_empty("detach", value)?),
            Key::Attach => self.attach = Some(non_empty("attach", value)?),
            Key::IsDetached => self.is_detached = Some(non_empty("is_detached", value)?),
            Key::NotifyFd => self.notify_fd = Some(number("notify-fd", &value)?),
            Key::Clone => self.clone = Some(number("clone", &value)?),
            Key::CloneByName => self.clone_by_name = Some(non_empty("clone-by-name", value)?),
            Key::AddAttribute => self.attributes.push(attribute(&value)?),
            _ => {}
        }
        Ok(())
    }

    fn into_action(self) -> Result<Action, String> {
        if self.help {
            return Ok(Action::Help);
        }
        if self.version {
            return Ok(Action::Version);
        }
        self.check_conflicts()?;
        if self.reset_guardrails {
            return Ok(Action::ResetGuardrails);
        }
        if self.query || self.query_raw {
            return Ok(Action::Query { long: self.long, raw: self.query_raw });
        }
        if let Some(key) = self.is_detached {
            return Ok(Action::IsDetached { key });
        }
        if let Some(key) = self.attach {
            return Ok(Action::Attach(Attach { key, stop: self.stop }));
        }
        if self.is_clone() {
            return self.into_clone();
        }
        self.into_record()
    }

    fn is_clone(&self) -> bool {
        self.clone.is_some() || self.clone_by_name.is_some() || self.save_for_bugreport
    }

    fn check_conflicts(&self) -> Result<(), String> {
        let light = !self.light.is_empty();
        let configured = self.config.is_some() || light;
        let queries = self.query || self.query_raw;
        let background = self.background != Background::No;
        let no_trace =
            queries || self.is_detached.is_some() || self.attach.is_some() || self.reset_guardrails;
        let rules: [(bool, &str); 18] = [
            (self.upload, "--upload and --dropbox exist on Android only"),
            (
                self.save_all_for_bugreport,
                "--save-all-for-bugreport exists on Android only; use --save-for-bugreport -o FILE",
            ),
            (
                queries && (self.detach.is_some() || self.attach.is_some() || background),
                "--query cannot be combined with any other option",
            ),
            (self.long && !self.query, "--long needs --query"),
            (self.attach.is_some() && self.detach.is_some(), "--attach and --detach are mutually exclusive"),
            (self.txt && self.txt_lossy, "--txt and --txt-lossy are mutually exclusive"),
            (self.detach.is_some() && background, "--detach and --background are mutually exclusive"),
            (self.stop && self.attach.is_none(), "--stop needs --attach"),
            (
                self.clone.is_some() && self.clone_by_name.is_some(),
                "--clone and --clone-by-name are mutually exclusive",
            ),
            (
                self.clone_for_bugreport && self.clone.is_none() && self.clone_by_name.is_none(),
                "--clone-for-bugreport needs --clone or --clone-by-name",
            ),
            (
                self.is_clone()
                    && self.save_for_bugreport
                    && (self.clone.is_some() || self.clone_by_name.is_some()),
                "--save-for-bugreport and --clone are mutually exclusive",
            ),
            (self.is_clone() && background, "--background cannot be combined with --clone"),
            (self.is_clone() && self.detach.is_some(), "--detach cannot be combined with --clone"),
            (
                (no_trace || self.is_clone()) && configured,
                "a trace config cannot be combined with this option",
            ),
            (no_trace && self.out.is_some(), "--out cannot be combined with this option"),
            (
                self.config.is_some() && light,
                "-c/--config cannot be combined with --time, --size, --buffer, --app, events or categories",
            ),
            (light && (self.txt || self.txt_lossy), "--txt needs -c/--config"),
            (self.notify_fd.is_some() && background, "--notify-fd and --background are mutually exclusive"),
        ];
        rules.iter().find(|(broken, _)| *broken).map_or(Ok(()), |(_, message)| Err((*message).to_owned()))
    }

    fn into_clone(self) -> Result<Action, String> {
        let path = self.out.ok_or(OUT_REQUIRED)?;
        let of = match (self.clone, self.clone_by_name) {
            (Some(id), _) => CloneOf::Session(id),
            (None, Some(name)) => CloneOf::Name(name),
            (None, None) => CloneOf::Bugreport,
        };
        let out = Output { path, no_clobber: self.no_clobber };
        Ok(Action::Clone(CloneRequest { of, for_bugreport: self.clone_for_bugreport, out }))
    }

    fn into_record(self) -> Result<Action, String> {
        let format = match (self.txt, self.txt_lossy) {
            (true, _) => Format::Text,
            (_, true) => Format::TextLossy,
            _ => Format::Binary,
        };
        let config = match self.config {
            Some(path) => ConfigSource::File { path, format },
            None if self.light.is_empty() => return Err(NOTHING_TO_RECORD.to_owned()),
            None => ConfigSource::Light(self.light),
        };
        Ok(Action::Record(Box::new(Record {
            config,
            out: self.out,
            no_clobber: self.no_clobber,
            background: self.background,
            notify_fd: self.notify_fd,
            detach: self.detach,
            attributes: self.attributes,
            statsd: self.statsd,
        })))
    }
}

/// Said wherever a trace would have no place to go.
pub(crate) const OUT_REQUIRED: &str = "-o/--out FILE is required";

const NOTHING_TO_RECORD: &str =
    "the trace config is empty: pass -c CONFIG, or a duration or events to record";

fn number<T: std::str::FromStr>(name: &str, value: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("--{name} needs a number, not '{value}'"))
}

fn non_empty(name: &str, value: String) -> Result<String, String> {
    if value.is_empty() { Err(format!("--{name} needs a value")) } else { Ok(value) }
}

/// `KEY=VALUE` split at the first `=`; without one the value is empty.
fn attribute(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').unwrap_or((text, ""));
    match key {
        "" => Err("--add-attribute needs KEY or KEY=VALUE".to_owned()),
        _ => Ok((key.to_owned(), value.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_line(line: &str) -> Result<Action, String> {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    fn record(line: &str) -> Record {
        match parse_line(line) {
            Ok(Action::Record(record)) => *record,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn each_flag_reaches_its_action() {
        assert_eq!(parse_line("--help"), Ok(Action::Help));
        assert_eq!(parse_line("--version --query"), Ok(Action::Version));
        assert_eq!(parse_line("--reset-guardrails"), Ok(Action::ResetGuardrails));
        assert_eq!(parse_line("--query --long"), Ok(Action::Query { long: true, raw: false }));
        assert_eq!(parse_line("--query-raw"), Ok(Action::Query { long: false, raw: true }));
        assert_eq!(parse_line("--is_detached=k"), Ok(Action::IsDetached { key: "k".into() }));
        let attach = Attach { key: "k".into(), stop: true };
        assert_eq!(parse_line("--attach=k --stop"), Ok(Action::Attach(attach)));
        let out = Output { path: "f".into(), no_clobber: true };
        let clone = CloneRequest { of: CloneOf::Session(7), for_bugreport: true, out: out.clone() };
        assert_eq!(parse_line("--clone 7 --clone-for-bugreport -o f --no-clobber"), Ok(Action::Clone(clone)));
        let clone = CloneRequest { of: CloneOf::Name("n".into()), for_bugreport: false, out: out.clone() };
        assert_eq!(parse_line("--clone-by-name n -o f --no-clobber"), Ok(Action::Clone(clone)));
        let clone = CloneRequest { of: CloneOf::Bugreport, for_bugreport: false, out };
        assert_eq!(parse_line("--save-for-bugreport -o f --no-clobber"), Ok(Action::Clone(clone)));
    }

    #[test]
    fn recordings() {
        let full = record("-c cfg --txt -o out -D --notify-fd=3 --no-guardrails".replace("-D ", "").as_str());
        assert_eq!(full.config, ConfigSource::File { path: "cfg".into(), format: Format::Text });
        assert_eq!((full.out.as_deref(), full.notify_fd), (Some("out"), Some(3)));
        assert_eq!(
            record("-c - --txt-lossy -o -").config,
            ConfigSource::File { path: "-".into(), format: Format::TextLossy }
        );
        assert_eq!(record("-c x -o y -d").background, Background::Immediately);
        assert_eq!(record("-c x -o y --background-wait").background, Background::WhenStarted);
        let light = record("-o y -t 5s -b 1mb -s 2mb -a app sched/sched_switch gfx");
        let expected = Light {
            time: Some("5s".into()),
            size: Some("2mb".into()),
            buffer: Some("1mb".into()),
            apps: vec!["app".into()],
            categories: vec!["sched/sched_switch".into(), "gfx".into()],
        };
        assert_eq!(light.config, ConfigSource::Light(expected));
    }

    // The AddAttribute cases of upstream's perfetto_cmd_unittest.cc.
    #[test]
    fn attributes_split_at_the_first_equals_sign() {
        let attributes =
            record("-c x -o y --add-attribute a=b --add-attribute c --add-attribute d=e=f").attributes;
        let expected = [("a", "b"), ("c", ""), ("d", "e=f")].map(|(k, v)| (k.to_owned(), v.to_owned()));
        assert_eq!(attributes, expected);
        for bad in ["--add-attribute =v -c x -o y", "--add-attribute= -c x -o y"] {
            assert!(parse_line(bad).is_err(), "{bad}");
        }
    }

    // The InvalidCases of upstream's cmdline_integrationtest.cc, and the conflicts of its manual.
    #[test]
    fn contradictions_are_refused() {
        let lines = [
            "",
            "-o out",
            "-c cfg -t 2s -o out",
            "-c cfg -o out sched/sched_switch",
            "--query --detach=x",
            "--query -d",
            "--query -o x",
            "--query -c x",
            "--long",
            "--query-raw --long",
            "--attach=a --detach=b",
            "--attach=a -o out",
            "--attach=a -c cfg",
            "--txt --txt-lossy -c x -o y",
            "-t 2s --txt -o y",
            "--detach=a -d -c x -o y",
            "--stop",
            "--stop -c x -o y",
            "--clone 1 --clone-by-name b -o y",
            "--clone-for-bugreport -o y",
            "--clone 1",
            "--clone one -o y",
            "--clone 1 -c x -o y",
            "--clone 1 -d -o y",
            "--is_detached=",
            "--upload -c x",
            "--dropbox perfetto -c x",
            "--save-all-for-bugreport",
            "--notify-fd x -c x -o y",
            "--unknown",
        ];
        for line in lines {
            let error = parse_line(line).expect_err(line);
            assert!(!error.is_empty() && !error.contains('\n'), "{line}: {error}");
        }
    }
}
