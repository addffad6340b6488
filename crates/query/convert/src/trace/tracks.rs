//! Processes, threads and tracks, as descriptors.
//!
//! Numbers (`uuid`) are made of rows. What a thread does has the thread's own number, which is its main track. All others are apart from
//! tracks of the same name (`SIBLING_MERGE_BEHAVIOR_NONE`): whether two are one was decided when they were read.

use ferretto_protos::fields::trace_packet::{PROCESS_TREE, TRACK_DESCRIPTOR};
use ferretto_protos::fields::{
    counter_descriptor, process_descriptor, process_tree, thread_descriptor, track_descriptor as field,
};
use ferretto_protozero::Message;
use ferretto_trace_tables::{Str, Tables, TrackId, Upid, Utid};

use super::sequence::Sequence;
use super::{number, people};
use crate::Error;
use crate::owners::{Owner, pid, tid};
use crate::packets::Sink;

/// `SIBLING_MERGE_BEHAVIOR_NONE`.
const NEVER_MERGED: u64 = 2;

/// `PROCESS_ORDERING_EXPLICIT` and `THREAD_ORDERING_EXPLICIT`.
const EXPLICIT: u64 = 1;

/// The main track of a thread, by type.
const OF_THREAD: &str = "thread_execution";

fn uuid_of_process(upid: Upid) -> u64 {
    u64::from(upid.0) * 4 + 1
}

fn uuid_of_thread(utid: Utid) -> u64 {
    u64::from(utid.0) * 4 + 2
}

/// The number of the track that events of a row are on.
pub(super) fn uuid(tables: &Tables, track: TrackId) -> u64 {
    match own_thread(tables, track) {
        Some(utid) => uuid_of_thread(utid),
        None => u64::from(track.0) * 4 + 3,
    }
}

/// The thread whose main track it is.
fn own_thread(tables: &Tables, track: TrackId) -> Option<Utid> {
    let type_ = tables.track.type_.get(track.index()).copied().flatten()?;
    let utid = tables.track.utid.get(track.index())?;
    (tables.strings.get(type_) == OF_THREAD).then_some(utid)
}

/// Who is there, then where things happen.
pub(super) fn write(tables: &Tables, sink: &mut dyn Sink) -> Result<(), Error> {
    let mut writer =
        Descriptors { tables, sequence: Sequence::new(number::DESCRIPTORS), sink, bytes: Vec::new() };
    writer.orders()?;
    writer.processes_and_threads()?;
    writer.tracks()
}

struct Descriptors<'a> {
    tables: &'a Tables,
    sequence: Sequence,
    sink: &'a mut dyn Sink,
    bytes: Vec<u8>,
}

impl Descriptors<'_> {
    fn put(&mut self, write: impl FnOnce(&Tables, &mut Message<'_, Vec<u8>>)) -> Result<(), Error> {
        self.bytes.clear();
        write(self.tables, &mut Message::new(&mut self.bytes));
        self.sequence.put(None, TRACK_DESCRIPTOR, &self.bytes, self.sink)
    }

    /// Ranks mean something only where the track above all others says so.
    fn orders(&mut self) -> Result<(), Error> {
        let threads = (0..self.tables.thread.len() as u32).map(Utid);
        let processes = (0..self.tables.process.len() as u32).map(Upid);
        let are_threads_ordered =
            threads.into_iter().any(|utid| people::rank_of_thread(self.tables, utid).is_some());
        let are_processes_ordered =
            processes.into_iter().any(|upid| people::rank_of_process(self.tables, upid).is_some());
        if !are_threads_ordered && !are_processes_ordered {
            return Ok(());
        }
        self.put(|_, descriptor| {
            descriptor.varint(field::UUID, 0);
            descriptor.varint(field::PROCESS_ORDERING, if are_processes_ordered { EXPLICIT } else { 0 });
            descriptor.varint(field::THREAD_ORDERING, if are_threads_ordered { EXPLICIT } else { 0 });
        })
    }

    /// In the order of threads, a process before its first one: so that each has the number again that it had.
    fn processes_and_threads(&mut self) -> Result<(), Error> {
        let mut is_written = vec![false; self.tables.process.len()];
        let has_tracks = self.threads_with_tracks();
        for (row, has_tracks) in has_tracks.into_iter().enumerate() {
            let upid = self.tables.thread.upid.get(row);
            if let Some(upid) = upid
                && let Some(is_written) = is_written.get_mut(upid.index())
                && !std::mem::replace(is_written, true)
            {
                self.process(upid)?;
            }
            let is_idle = self.tables.thread.is_idle.get(row).copied().unwrap_or(false);
            if has_tracks || (!is_idle && upid.is_some()) {
                self.thread(Utid(row as u32))?;
            }
        }
        let others = (0..).zip(is_written).filter(|(_, is_written)| !is_written);
        others.map(|(upid, _)| Upid(upid)).try_for_each(|upid| self.process(upid))
    }

    fn process(&mut self, upid: Upid) -> Result<(), Error> {
        self.listed(upid)?;
        // The idle task's is there anyway.
        if pid(self.tables, upid) == 0 && upid.0 == 0 && !self.has_tracks(upid) {
            return Ok(());
        }
        self.put(|tables, descriptor| {
            let row = upid.index();
            descriptor.varint(field::UUID, uuid_of_process(upid));
            if let Some(rank) = people::rank_of_process(tables, upid) {
                descriptor.int(field::SIBLING_ORDER_RANK, rank.into());
            }
            let mut process = descriptor.nested(field::PROCESS);
            process.varint(process_descriptor::PID, pid(tables, upid).cast_unsigned());
            let text = |text: Option<Str>| text.map(|text| tables.strings.get(text));
            if let Some(name) = text(tables.process.name.get(row).copied().flatten()) {
                process.string(process_descriptor::PROCESS_NAME, name);
            }
            if let Some(ts) = tables.process.start_ts.get(row) {
                process.int(process_descriptor::START_TIMESTAMP_NS, ts);
            }
            if let Some(line) = text(tables.process.cmdline.get(row).copied().flatten()) {
                line.split(' ').for_each(|word| process.string(process_descriptor::CMDLINE, word));
            }
            people::write_labels(tables, upid, &mut process);
        })
    }

    /// What only the list of processes says: whose it is, and who started it.
    fn listed(&mut self, upid: Upid) -> Result<(), Error> {
        let (tables, row) = (self.tables, upid.index());
        let cmdline = tables.process.cmdline.get(row).copied().flatten();
        let (Some(cmdline), Some(parent)) = (cmdline, tables.process.parent_upid.get(row)) else {
            return Ok(());
        };
        self.bytes.clear();
        let mut tree = Message::new(&mut self.bytes);
        let mut process = tree.nested(process_tree::PROCESSES);
        process.varint(process_tree::process::PID, pid(tables, upid).cast_unsigned());
        process.varint(process_tree::process::PPID, pid(tables, parent).cast_unsigned());
        for word in tables.strings.get(cmdline).split(' ') {
            process.string(process_tree::process::CMDLINE, word);
        }
        if let Some(uid) = tables.process.uid.get(row) {
            process.int(process_tree::process::UID, uid);
        }
        if let Some(is_kthread) = people::is_kthread(tables, upid) {
            process.bool(process_tree::process::IS_KTHREAD, is_kthread);
        }
        drop(process);
        drop(tree);
        self.sequence.put(None, PROCESS_TREE, &self.bytes, self.sink)
    }

    fn has_tracks(&self, upid: Upid) -> bool {
        (0..self.tables.track.len()).any(|row| self.tables.track.upid.get(row) == Some(upid))
    }

    fn threads_with_tracks(&self) -> Vec<bool> {
        let mut has_tracks = vec![false; self.tables.thread.len()];
        for row in 0..self.tables.track.len() {
            if let Some(utid) = self.tables.track.utid.get(row)
                && let Some(has) = has_tracks.get_mut(utid.index())
            {
                *has = true;
            }
        }
        has_tracks
    }

    fn thread(&mut self, utid: Utid) -> Result<(), Error> {
        self.put(|tables, descriptor| {
            let tid = tid(tables, utid);
            let upid = tables.thread.upid.get(utid.index());
            // A descriptor wants a process.
            let pid = upid.map_or(tid, |upid| pid(tables, upid));
            descriptor.varint(field::UUID, uuid_of_thread(utid));
            if let Some(upid) = upid {
                descriptor.varint(field::PARENT_UUID, uuid_of_process(upid));
            }
            if let Some(rank) = people::rank_of_thread(tables, utid) {
                descriptor.int(field::SIBLING_ORDER_RANK, rank.into());
            }
            let mut thread = descriptor.nested(field::THREAD);
            thread.varint(thread_descriptor::PID, pid.cast_unsigned());
            thread.varint(thread_descriptor::TID, tid.cast_unsigned());
            if let Some(name) = tables.thread.name.get(utid.index()).copied().flatten() {
                thread.string(thread_descriptor::THREAD_NAME, tables.strings.get(name));
            }
        })
    }

    fn tracks(&mut self) -> Result<(), Error> {
        for row in 0..self.tables.track.len() {
            let track = TrackId(row as u32);
            if own_thread(self.tables, track).is_some() {
                continue;
            }
            self.put(|tables, descriptor| {
                let text = |texts: &Vec<Option<Str>>| {
                    texts.get(row).copied().flatten().map(|text| tables.strings.get(text))
                };
                let owner = Owner::of(tables, track);
                descriptor.varint(field::UUID, uuid(tables, track));
                if let Some(parent) = parent(tables, track, owner) {
                    descriptor.varint(field::PARENT_UUID, parent);
                }
                // Without a name it would get that of its first event.
                let type_ = || text(&tables.track.type_).unwrap_or_default().replace('_', " ");
                let name = text(&tables.track.name).map_or_else(type_, str::to_owned);
                match owner {
                    Owner::Cpu(cpu) => descriptor.string(field::NAME, &format!("{name} (CPU {cpu})")),
                    _ => descriptor.string(field::NAME, &name),
                }
                descriptor.varint(field::SIBLING_MERGE_BEHAVIOR, NEVER_MERGED);
                match text(&tables.track.event_type) {
                    Some("counter") => {
                        let mut counter = descriptor.nested(field::COUNTER);
                        if let Some(unit) = text(&tables.track.counter_unit) {
                            counter.string(counter_descriptor::UNIT_NAME, unit);
                        }
                    }
                    Some("state") => descriptor.nested(field::STATE).finish(),
                    _ => {}
                }
            })?;
        }
        Ok(())
    }
}

fn parent(tables: &Tables, track: TrackId, owner: Owner) -> Option<u64> {
    if let Some(parent) = tables.track.parent_id.get(track.index()) {
        return Some(uuid(tables, parent));
    }
    match owner {
        Owner::Thread(utid) => Some(uuid_of_thread(utid)),
        Owner::Process(upid) => Some(uuid_of_process(upid)),
        Owner::Cpu(_) | Owner::Trace => None,
    }
}
