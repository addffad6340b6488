//! Whose stacks a session wants (`PerfEventConfig.CallstackSampling.Scope`; upstream: perf_producer.cc, ShouldRejectDueToFilter).
//!
//! It is decided once for each process, when it is met for the first time.

use ferretto_protos::PerfEventConfig;
use ferretto_protos::perf_event_config::Scope as Config;
use foldhash::fast::RandomState;
use hashbrown::{HashMap, HashSet};

/// Bytes of a command line that are looked at.
const CMDLINE_BYTES: usize = 511;
/// Processes that were decided about. With more all are forgotten, and decided about anew.
const MAX_PROCESSES: usize = 64 << 10;
/// Names and numbers in a config. Each is tried on each process.
const MAX_RULES: usize = 4096;

/// What a session wants.
#[derive(Debug, Default)]
pub(crate) struct Scope {
    rules: Config,
    /// The remainder of a process's number.
    pub(crate) shard: Option<Shard>,
    /// Command lines beyond those that are named.
    more: HashSet<Box<[u8]>, RandomState>,
    decided: HashMap<u32, bool, RandomState>,
}

/// A part of all processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shard {
    pub(crate) count: u32,
    pub(crate) chosen: u32,
}

impl Scope {
    /// What a config says; of shards this one is taken, modulo how many there are.
    pub(crate) fn of(config: &PerfEventConfig, chosen: u64) -> Result<Self, String> {
        let sampling = config.callstack_sampling.as_ref();
        let rules = sampling.and_then(|sampling| sampling.scope.clone()).unwrap_or_else(|| Config {
            // As it was said before there was a message for it.
            target_pid: config.target_pid.clone(),
            target_cmdline: config.target_cmdline.clone(),
            exclude_pid: config.exclude_pid.clone(),
            exclude_cmdline: config.exclude_cmdline.clone(),
            additional_cmdline_count: config.additional_cmdline_count,
            ..Config::default()
        });
        let count = rules.target_pid.len()
            + rules.target_cmdline.len()
            + rules.exclude_pid.len()
            + rules.exclude_cmdline.len();
        if count > MAX_RULES {
            return Err(format!("a scope names {count} processes, and may name {MAX_RULES}"));
        }
        let shards = rules.process_shard_count.filter(|count| *count > 0);
        let shard = shards.map(|count| Shard { count, chosen: (chosen % u64::from(count)) as u32 });
        Ok(Self { rules, shard, ..Self::default() })
    }

    /// Whether a process is one of those. Whose command line is not to be had now is none of them now, and may be later.
    pub(crate) fn wants(&mut self, pid: u32, cmdline: impl FnOnce() -> Option<Vec<u8>>) -> bool {
        if self.is_everybody() {
            return true;
        }
        if let Some(decided) = self.decided.get(&pid) {
            return *decided;
        }
        let Some(cmdline) = cmdline() else { return false };
        let is_wanted = self.decide(pid, &cmdline);
        if self.decided.len() >= MAX_PROCESSES {
            self.decided.clear();
        }
        self.decided.insert(pid, is_wanted);
        is_wanted
    }

    /// The processes that are named by number, if none is in another way.
    pub(crate) fn only_pids(&self) -> Option<Vec<u32>> {
        let Config { target_pid, target_cmdline, .. } = &self.rules;
        let by_name = !target_cmdline.is_empty() || self.rules.additional_cmdline_count() > 0;
        let pids = || target_pid.iter().filter_map(|pid| u32::try_from(*pid).ok()).collect();
        (!target_pid.is_empty() && !by_name && self.shard.is_none()).then(pids)
    }

    fn is_everybody(&self) -> bool {
        let Config { exclude_pid, exclude_cmdline, .. } = &self.rules;
        self.names_nobody() && exclude_pid.is_empty() && exclude_cmdline.is_empty()
    }

    fn names_nobody(&self) -> bool {
        let Config { target_pid, target_cmdline, .. } = &self.rules;
        target_pid.is_empty()
            && target_cmdline.is_empty()
            && self.rules.additional_cmdline_count() == 0
            && self.shard.is_none()
    }

    fn decide(&mut self, pid: u32, cmdline: &[u8]) -> bool {
        let cmdline = cmdline.get(..CMDLINE_BYTES).unwrap_or(cmdline);
        let program = cmdline.split(|byte| *byte == 0).next().unwrap_or_default();
        let Config { target_pid, target_cmdline, exclude_pid, exclude_cmdline, .. } = &self.rules;
        let is_in = |pids: &[i32], names: &[String]| {
            pids.iter().any(|other| u32::try_from(*other) == Ok(pid))
                || names.iter().any(|name| matches(name.as_bytes(), program))
        };
        if is_in(exclude_pid, exclude_cmdline) {
            return false;
        }
        if self.names_nobody() || is_in(target_pid, target_cmdline) {
            return true;
        }
        if let Some(Shard { count, chosen }) = self.shard {
            return pid % count == chosen;
        }
        let is_room = self.more.len() < self.rules.additional_cmdline_count() as usize;
        self.more.contains(program) || is_room && self.more.insert(program.into())
    }
}

/// Whether a name in a config is that of a program. With a star the name is a pattern: of the whole path if it begins with a slash, and else of the
/// file's name. Without one both are cut: before the last slash, and from the first `@` on.
pub(crate) fn matches(name: &[u8], program: &[u8]) -> bool {
    let file = |path: &[u8]| path.rsplit(|byte| *byte == b'/').next().unwrap_or_default().to_owned();
    let cut = |path: &[u8]| file(path.split(|byte| *byte == b'@').next().unwrap_or_default());
    match (name.contains(&b'*'), name.first()) {
        (false, _) => cut(name) == cut(program),
        (true, Some(b'/')) => is_like(name, program),
        (true, _) => is_like(name, &file(program)),
    }
}

/// Whether a text is like a pattern, in which a star stands for anything. Each part between two stars is looked for behind the one before: in time that
/// grows as pattern and text together do.
fn is_like(pattern: &[u8], text: &[u8]) -> bool {
    let mut parts = pattern.split(|byte| *byte == b'*');
    let (first, last) = (parts.next().unwrap_or_default(), parts.next_back());
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let Some(last) = last else { return rest.is_empty() };
    for part in parts.filter(|part| !part.is_empty()) {
        let Some(at) = rest.windows(part.len()).position(|window| window == part) else { return false };
        rest = rest.get(at + part.len()..).unwrap_or_default();
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use ferretto_protos::perf_event_config::CallstackSampling;

    use super::*;

    fn scope(rules: Config) -> Scope {
        let sampling = CallstackSampling { scope: Some(rules), ..CallstackSampling::default() };
        let config = PerfEventConfig { callstack_sampling: Some(sampling), ..PerfEventConfig::default() };
        Scope::of(&config, 7).unwrap()
    }

    fn decides(rules: Config, expected: &[(u32, &str, bool)]) {
        let mut scope = scope(rules.clone());
        for (pid, cmdline, is_wanted) in expected {
            assert_eq!(scope.decide(*pid, cmdline.as_bytes()), *is_wanted, "{pid} {cmdline}: {rules:?}");
        }
    }

    #[test]
    fn names_are_those_of_programs() {
        for (name, program, expected) in [
            ("server", "/usr/bin/server", true),
            ("/opt/server", "/usr/bin/server", true),
            ("server", "server@2", true),
            ("serve", "server", false),
            ("serv*", "/usr/bin/server", true),
            ("*", "/usr/bin/server", true),
            ("/usr/*/server", "/usr/bin/server", true),
            ("/usr/*", "server", false),
            ("usr*", "/usr/bin/server", false),
            ("s*v*r", "server", true),
            ("s*v*s", "server", false),
            ("server*er", "server", false),
            ("", "", true),
        ] {
            assert_eq!(matches(name.as_bytes(), program.as_bytes()), expected, "{name} {program}");
        }
    }

    #[test]
    fn what_is_excluded_is_out_and_what_is_named_in() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        decides(Config::default(), &[(1, "/a\0-x", true)]);
        decides(
            Config { target_cmdline: names(&["a"]), target_pid: vec![5], ..Config::default() },
            &[(1, "/bin/a\0-x", true), (2, "b", false), (5, "b", true)],
        );
        decides(
            Config { exclude_cmdline: names(&["a"]), exclude_pid: vec![5], ..Config::default() },
            &[(1, "a", false), (2, "b", true), (5, "b", false)],
        );
        decides(
            Config { target_cmdline: names(&["*"]), exclude_pid: vec![5], ..Config::default() },
            &[(5, "a", false), (6, "a", true)],
        );
        decides(
            Config { additional_cmdline_count: Some(2), ..Config::default() },
            &[(1, "a", true), (2, "b", true), (3, "c", false), (4, "a\0other", true)],
        );
        decides(
            Config { process_shard_count: Some(4), ..Config::default() },
            &[(3, "a", true), (4, "a", false), (7, "b", true)],
        );
    }

    #[test]
    fn of_whom_nothing_is_known_now_it_is_decided_later() {
        let mut scope = scope(Config { target_cmdline: vec!["a".to_owned()], ..Config::default() });
        assert!(!scope.wants(1, || None));
        assert!(scope.wants(1, || Some(b"/bin/a\0-x".to_vec())));
    }

    #[test]
    fn what_was_decided_stays_so() {
        let mut scope = scope(Config { target_pid: vec![1_000_000_000], ..Config::default() });
        assert!(scope.wants(1_000_000_000, || Some(Vec::new())) && !scope.wants(1, || Some(Vec::new())));
        scope.rules.target_pid.clear();
        scope.rules.exclude_pid.push(1_000_000_000);
        assert!(scope.wants(1_000_000_000, || unreachable!("it is decided")));
        let legacy = PerfEventConfig { target_pid: vec![9], ..PerfEventConfig::default() };
        assert!(!Scope::of(&legacy, 0).unwrap().wants(8, || Some(Vec::new())));
        let many = PerfEventConfig { target_pid: vec![9; 5000], ..PerfEventConfig::default() };
        assert!(Scope::of(&many, 0).unwrap_err().contains("5000 processes"));
    }
}
