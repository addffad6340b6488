//! Names of those who were gone before they could be read, as short-lived commands are, from the events that made and renamed them.
//!
//! A trace that holds those events would not need it. A ring that has gone round holds the end of a life without its beginning, and for
//! one that was read under an old name readers prefer what was read to what events say.

use std::collections::BTreeMap;

use ferretto_protos::fields::{process_tree, trace_packet};
use ferretto_protozero::Message;

use super::ProcessStats;
use super::names::write_thread;
use super::parse::Status;
use crate::ftrace::metadata::Named;
use crate::packets::{Packets, stamp};

/// What the events of one round of reading say of somebody who cannot be read any more.
#[derive(Debug, Clone, Copy)]
struct Life<'a> {
    /// The last event that named it.
    named: &'a Named,
    kind: Kind,
    /// When this was first so.
    since_ns: u64,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    /// A process; its parent, if that is known to be a process's main thread.
    New { parent: Option<i32> },
    /// Another thread of this process.
    Thread { process: i32 },
    /// The main thread of a process that has been written under an old name.
    Renamed,
}

impl ProcessStats {
    /// Names those that have been born or renamed, in the order of time, and could not be read.
    pub(super) fn write_gone(&mut self, named: &[Named], out: &mut impl Packets) {
        let mut lives = BTreeMap::new();
        for named in named {
            self.add_to(&mut lives, named);
        }
        // Each at its own time: readers take a name for the one who has that id then.
        for (pid, life) in lives {
            self.write_life(pid, life, out);
        }
    }

    fn add_to<'a>(&self, lives: &mut BTreeMap<i32, Life<'a>>, named: &'a Named) {
        let pid = named.pid;
        if self.seen.contains(pid) {
            return;
        }
        if named.birth.is_none()
            && let Some(life) = lives.get_mut(&pid)
        {
            life.named = named;
            return;
        }
        let is_process = |pid, lives: &BTreeMap<i32, Life<'_>>| {
            self.processes.contains(pid)
                || lives.get(&pid).is_some_and(|life| matches!(life.kind, Kind::New { .. }))
        };
        let kind = match named.birth {
            Some(birth) => {
                let parent = Some(birth.parent).filter(|&parent| is_process(parent, lives));
                match (birth.is_thread, parent) {
                    (false, parent) => Kind::New { parent },
                    (true, Some(process)) => Kind::Thread { process },
                    // Whose thread it is cannot be known.
                    (true, None) => return,
                }
            }
            None if self.processes.contains(pid) => Kind::Renamed,
            // Of whom nothing is known.
            None => return,
        };
        // A moment after its birth: before it the id was another's.
        let since_ns = named.time_ns.saturating_add(1);
        lives.insert(pid, Life { named, kind, since_ns });
    }

    fn write_life(&mut self, pid: i32, life: Life<'_>, out: &mut impl Packets) {
        let name = life.named.name();
        let body = &mut self.scratch.body;
        if let Kind::New { parent } = life.kind {
            use process_tree::process as field;
            let mut tree = Message::new(body);
            let mut process = tree.nested(process_tree::PROCESSES);
            process.int(field::PID, i64::from(pid));
            if let Some(parent) = parent {
                process.int(field::PPID, i64::from(parent));
            }
            process.bytes(field::CMDLINE, name);
            process.bool(field::CMDLINE_IS_COMM, true);
            // A parent of those to come: readers take a process without one for another process.
            self.processes.insert(pid);
        }
        let with_name = self.options.thread_names;
        let (process, is_wanted) = match life.kind {
            Kind::Thread { process } => (process, true),
            Kind::New { .. } => (pid, self.options.main_thread),
            Kind::Renamed => (pid, self.options.main_thread && with_name),
        };
        if is_wanted {
            let status = Status { name, ..Status::default() };
            write_thread(&mut self.scratch.body, pid, process, Some(status), with_name);
        }
        if self.scratch.body.is_empty() {
            return;
        }
        let body = &self.scratch.body;
        out.packet(|packet| {
            stamp(packet, life.since_ns);
            packet.bytes(trace_packet::PROCESS_TREE, body);
        });
        self.scratch.body.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;
    use crate::ftrace::metadata::{Birth, COMM_BYTES};
    use crate::packets::testing::Recorded;
    use crate::pids::PidSet;
    use ferretto_protos::trace_packet::Data;
    use ferretto_protos::{ProcessStatsConfig, ProcessTree};

    /// Ids that no thread has here.
    const GONE: i32 = (1 << 22) - 10;

    fn named(pid: i32, time_ns: u64, name: &str, birth: Option<Birth>) -> Named {
        let mut comm = [0; COMM_BYTES];
        comm[..name.len()].copy_from_slice(name.as_bytes());
        Named { pid, comm, time_ns, birth }
    }

    fn of_process(parent: i32) -> Option<Birth> {
        Some(Birth { parent, is_thread: false })
    }

    fn of_thread(parent: i32) -> Option<Birth> {
        Some(Birth { parent, is_thread: true })
    }

    /// What is written, with its time.
    fn trees(rounds: &[&[Named]], first_seen: &[i32]) -> Vec<(u64, ProcessTree)> {
        let config = ProcessStatsConfig { record_thread_names: Some(true), ..Default::default() };
        let mut source = ProcessStats::new(&config, Rc::default());
        let mut out = Recorded::default();
        let mut pids = PidSet::default();
        first_seen.iter().for_each(|&pid| pids.insert(pid));
        source.on_threads(&pids, &[], &mut Recorded::default());
        for round in rounds {
            source.on_threads(&PidSet::default(), round, &mut out);
        }
        let tree = |data| match data {
            Some(Data::ProcessTree(tree)) => tree,
            other => panic!("{other:?}"),
        };
        out.decoded().into_iter().map(|packet| (packet.timestamp(), tree(packet.data))).collect()
    }

    fn threads(tree: &ProcessTree) -> Vec<(i32, i32, &str)> {
        tree.threads.iter().map(|thread| (thread.tid(), thread.tgid(), thread.name())).collect()
    }

    #[test]
    fn a_short_life_has_its_last_name_from_its_birth_on() {
        let own = i32::try_from(std::process::id()).unwrap();
        let events = [
            named(GONE, 50, "sh", of_process(own)),
            named(GONE, 60, "first", None),
            named(GONE, 70, "sixteen-letters", None),
        ];
        let trees = trees(&[&events], &[own]);
        let [(51, tree)] = &trees[..] else { panic!("{trees:?}") };
        let process = &tree.processes[0];
        assert_eq!((process.pid(), process.ppid()), (GONE, own));
        assert_eq!(process.cmdline, ["sixteen-letters"]);
        assert!(process.cmdline_is_comm());
        assert_eq!(threads(tree), [(GONE, GONE, "sixteen-letters")]);
    }

    #[test]
    fn threads_are_named_where_their_process_is_known() {
        let events = [
            named(GONE, 1, "parent", of_process(5)),
            named(GONE + 1, 2, "worker", of_thread(GONE)),
            // Of an unknown thread, and of a thread of which only the process is known.
            named(GONE + 2, 3, "orphan", of_thread(GONE + 9)),
            named(GONE + 3, 4, "grandchild", of_thread(GONE + 1)),
        ];
        let trees = trees(&[&events], &[]);
        assert_eq!(trees.len(), 2, "{trees:?}");
        assert_eq!(trees[0].1.processes[0].ppid, None);
        assert_eq!(threads(&trees[1].1), [(GONE + 1, GONE, "worker")]);
    }

    #[test]
    fn who_was_gone_in_an_earlier_round_is_a_parent() {
        let own = i32::try_from(std::process::id()).unwrap();
        let rounds =
            [[named(GONE, 50, "parent", of_process(own))], [named(GONE + 1, 60, "child", of_process(GONE))]];
        let trees = trees(&[&rounds[0], &rounds[1]], &[own]);
        let parents: Vec<i32> = trees.iter().map(|(_, tree)| tree.processes[0].ppid()).collect();
        assert_eq!(parents, [own, GONE]);
    }

    #[test]
    fn a_process_that_changes_its_name_at_the_end_is_not_left_with_the_old_one() {
        let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let config = ProcessStatsConfig { record_thread_names: Some(true), ..Default::default() };
        let mut source = ProcessStats::new(&config, Rc::default());
        let mut out = Recorded::default();
        let mut pids = PidSet::default();
        pids.insert(pid);
        source.on_threads(&pids, &[], &mut out);
        child.kill().unwrap();
        child.wait().unwrap();
        source.on_threads(&pids, &[named(pid, 7, "first", None), named(pid, 9, "last", None)], &mut out);
        // Of whom nothing is known.
        source.on_threads(&pids, &[named(GONE, 9, "unknown", None)], &mut out);
        let packets = out.decoded();
        assert_eq!(packets.len(), 2);
        assert_eq!(packets[1].timestamp(), 8);
        let Some(Data::ProcessTree(tree)) = &packets[1].data else { panic!("{packets:?}") };
        assert_eq!((tree.processes.len(), threads(tree)), (0, vec![(pid, pid, "last")]));
    }

    #[test]
    fn who_can_be_read_is_read_and_a_reused_id_is_read_again() {
        let own = i32::try_from(std::process::id()).unwrap();
        let config = ProcessStatsConfig { record_thread_names: Some(true), ..Default::default() };
        let mut source = ProcessStats::new(&config, Rc::default());
        let mut out = Recorded::default();
        let mut pids = PidSet::default();
        pids.insert(own);
        for _ in 0..2 {
            source.on_threads(&pids, &[named(own, 5, "event", of_process(1))], &mut out);
        }
        let packets = out.decoded();
        assert_eq!(packets.len(), 2);
        for packet in &packets {
            let Some(Data::ProcessTree(tree)) = &packet.data else { panic!("{packet:?}") };
            assert!(!tree.processes[0].cmdline_is_comm(), "{tree:?}");
        }
    }
}
