//! Whether the data sources that a config names can deliver: checked before anything is recorded.

use std::collections::BTreeSet;

use ferretto_probes::{Availability, Limitation};
use ferretto_protos::{DataSourceDescriptor, TracingServiceState, text};
use prost::Message;
use rustix::process::geteuid;

use super::plan::Plan;
use super::summary::LeftOut;
use crate::report::UserError;

/// Data sources that programs offer when they start, or that other producers of upstream's world offer. Not an error
/// when nobody does, because somebody may later (upstream: the producers' own files).
const KNOWN_ELSEWHERE: [&str; 24] = [
    "android.heapprofd",
    "android.java_hprof",
    "android.log",
    "android.packages_list",
    "android.power",
    "android.surfaceflinger.frametimeline",
    "gpu.counters",
    "gpu.renderstages",
    "java_hprof",
    "heapprofd",
    "linux.frozen_ftrace",
    "linux.ftrace",
    "linux.inode_file_map",
    "linux.perf",
    "linux.process_stats",
    "linux.sys_stats",
    "linux.sysfs_power",
    "linux.system_info",
    "linux.systemd_journald",
    "org.chromium.trace_event",
    "org.chromium.trace_metadata",
    "perfetto.metatrace",
    "track_event",
    "vulkan.memory_tracker",
];

/// Names that some connected producer offers now.
pub(crate) fn offered(state: &TracingServiceState) -> BTreeSet<String> {
    let descriptors = state.data_sources.iter().filter_map(|source| source.ds_descriptor.as_deref());
    let names = descriptors.filter_map(|bytes| DataSourceDescriptor::decode(bytes).ok()?.name);
    names.collect()
}

/// Keeps the data sources of root's programs, of this user's and of the service's: anybody can offer something under any name, which is no
/// reason to do without the real one.
pub(crate) fn leave_out_strangers(state: &mut TracingServiceState, service_uid: Option<u32>) {
    let own = geteuid().as_raw();
    let is_trusted = |uid: i32| {
        let uid = uid.cast_unsigned();
        uid == 0 || uid == own || Some(uid) == service_uid
    };
    let trusted: BTreeSet<i32> = state
        .producers
        .iter()
        .filter(|producer| is_trusted(producer.uid()) && producer.machine_id() == 0)
        .map(|producer| producer.id())
        .collect();
    state.data_sources.retain(|source| trusted.contains(&source.producer_id()));
}

/// An unknown name ends the matter; known ones that nobody offers yet are returned.
pub(crate) fn check(
    plan: &Plan,
    offered: &BTreeSet<String>,
    any_source: bool,
) -> Result<Vec<String>, UserError> {
    let missing = plan.sources.iter().filter(|name| !offered.contains(*name));
    let (known, unknown): (Vec<&String>, Vec<&String>) =
        missing.partition(|name| any_source || KNOWN_ELSEWHERE.contains(&name.as_str()));
    match unknown.first() {
        Some(name) => Err(unknown_source(name, offered)),
        None => Ok(known.into_iter().cloned().collect()),
    }
}

fn unknown_source(name: &str, offered: &BTreeSet<String>) -> UserError {
    let all: BTreeSet<&str> = offered.iter().map(String::as_str).chain(KNOWN_ELSEWHERE).collect();
    let near = text::nearest(name, all.iter().copied());
    let mut error = UserError::new(format!("the config asks for an unknown data source \"{name}\""));
    if !near.is_empty() {
        error = error.help(format!("did you mean {}?", near.join(" or ")));
    }
    let here: Vec<&str> = offered.iter().map(String::as_str).collect();
    error
        .help(format!("available here: {}", here.join(", ")))
        .help("if a program that starts later offers it, add --any-source")
}

/// Whether the probes say that a source will deliver anything. Of those that are not theirs they say nothing.
pub(crate) fn works(report: &[Availability], name: &str) -> bool {
    report.iter().find(|source| source.data_source == name).is_none_or(|source| source.works)
}

/// What the wanted sources cannot record here, as far as `config_text` asks for it.
pub(crate) fn left_out(report: &[Availability], wanted: &[String], config_text: &str) -> Vec<LeftOut> {
    let wanted = report.iter().filter(|source| wanted.iter().any(|name| name == source.data_source));
    wanted.flat_map(|source| concerning(source, config_text)).map(LeftOut::of).collect()
}

/// The limitations that this config meets; all of them if a source is of no use and none explains it.
fn concerning<'a>(source: &'a Availability, config_text: &str) -> Vec<&'a Limitation> {
    let asked = |limitation: &&Limitation| is_asked_for(&limitation.what, config_text);
    let met: Vec<&Limitation> = source.limitations.iter().filter(asked).collect();
    if met.is_empty() && !source.works { source.limitations.iter().collect() } else { met }
}

/// Whether the config has one of the fields in the sentence's parentheses; a sentence without any concerns everybody.
fn is_asked_for(what: &str, config_text: &str) -> bool {
    let parentheses: Vec<&str> = what.split('(').skip(1).filter_map(|rest| rest.split(')').next()).collect();
    let is_in = |field: &&str| config_text.contains(&format!("{field}:"));
    parentheses.is_empty() || parentheses.iter().any(is_in)
}

impl LeftOut {
    fn of(limitation: &Limitation) -> Self {
        Self { what: limitation.what.clone(), why: limitation.why.clone(), grant: limitation.remedy.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &[&str]) -> Vec<String> {
        list.iter().map(|&name| name.to_owned()).collect()
    }

    fn check_names(wanted: &[&str], any_source: bool) -> Result<Vec<String>, String> {
        let plan = Plan { sources: names(wanted), ..Plan::default() };
        let offered = names(&["linux.ftrace", "linux.sys_stats", "com.example.mine"]).into_iter().collect();
        check(&plan, &offered, any_source).map_err(|error| format!("{error:?}"))
    }

    #[test]
    fn misspelt_sources_are_refused_with_the_likely_name() {
        let error = check_names(&["linux.ftrace", "linux.ftraec"], false).unwrap_err();
        for part in ["linux.ftraec", "did you mean linux.ftrace", "com.example.mine", "--any-source"] {
            assert!(error.contains(part), "{part} in {error}");
        }
    }

    #[test]
    fn sources_that_may_come_later_are_only_mentioned() {
        assert_eq!(check_names(&["linux.ftrace", "com.example.mine"], false), Ok(vec![]));
        assert_eq!(check_names(&["track_event"], false), Ok(names(&["track_event"])));
        assert_eq!(check_names(&["com.example.other"], true), Ok(names(&["com.example.other"])));
        assert!(check_names(&["com.example.other"], false).is_err());
    }

    #[test]
    fn limitations_of_things_nobody_asked_for_are_not_mentioned() {
        let limitation = |what: &str| Limitation { what: what.to_owned(), why: "w".to_owned(), remedy: None };
        let source = |data_source, works, what: &[&str]| Availability {
            data_source,
            works,
            limitations: what.iter().map(|what| limitation(what)).collect(),
        };
        let report = [
            source("a", true, &["slabs (slab_period_ms)", "pressure (psi_period_ms)", "plain"]),
            source("b", false, &["everything (x)"]),
            source("c", false, &["unwanted"]),
        ];
        let found = left_out(&report, &names(&["a", "b"]), "config { psi_period_ms: 5 }");
        let what: Vec<&str> = found.iter().map(|left_out| left_out.what.as_str()).collect();
        assert_eq!(what, ["pressure (psi_period_ms)", "plain", "everything (x)"]);
    }
}
