//! `linux.systemd_journald`: what systemd's journal takes down while a session records, read from the journal's files.
//!
//! [`file`](mod@file) reads one file, `follow` finds those of this machine and notices new entries, and this module writes them.

pub mod file;
mod follow;
#[cfg(test)]
mod testing;
mod unpack;

use std::time::{Duration, Instant};

use ferretto_protos::fields::{systemd_journald_event as field, trace_packet};
use ferretto_protos::{BuiltinClock, SystemdJournaldConfig};

use self::file::{Entry, Field, FieldBuffer, FileError, JournalFile, Storage};
use self::follow::Follower;
pub use self::unpack::Packing;
use crate::clock::boottime_ns;
use crate::packets::{Packets, stamp};

pub(crate) use self::follow::what_is_missing;

/// How often the files are looked at. Entries carry their own times, so this is how late they come, not how wrong they are.
const POLL_PERIOD: Duration = Duration::from_millis(250);
/// Entries read before others get a turn: a few milliseconds.
const ENTRIES_PER_TURN: usize = 256;
/// Entries read for a flush: what came since the last look, unless somebody floods the journal.
const ENTRIES_PER_FLUSH: usize = 16 << 10;
/// Without `min_prio`: everything that has a priority, which ends at 7.
const LOWEST_PRIORITY: u32 = 7;

/// One session's view of the journal.
#[derive(Debug)]
pub(crate) struct Journald {
    filter: Filter,
    /// None if there is no journal for this user.
    follower: Option<Follower>,
    next_poll: Option<Instant>,
    total: u64,
    failed: u64,
    buffer: FieldBuffer,
}

/// Which entries a session wants: of the priorities, and of one of the identifiers, and of one of the units.
#[derive(Debug)]
struct Filter {
    lowest_priority: u32,
    /// None means all, as with units.
    identifiers: Vec<String>,
    units: Vec<String>,
}

impl Journald {
    pub(crate) fn new(config: &SystemdJournaldConfig) -> Self {
        Self {
            filter: Filter {
                lowest_priority: config.min_prio.unwrap_or(LOWEST_PRIORITY),
                identifiers: config.filter_identifiers.clone(),
                units: config.filter_units.clone(),
            },
            follower: None,
            next_poll: None,
            total: 0,
            failed: 0,
            buffer: FieldBuffer::default(),
        }
    }

    /// What is in the journal from now on is of interest.
    pub(crate) fn start(&mut self) {
        match Follower::of_this_machine() {
            Ok(follower) => {
                self.follower = Some(follower);
                self.next_poll = Some(Instant::now() + POLL_PERIOD);
            }
            Err(problem) => tracing::warn!("linux.systemd_journald records nothing: {problem}"),
        }
    }

    /// When [`work`](Self::work) wants to be called.
    pub(crate) fn next_work(&self) -> Option<Instant> {
        self.next_poll
    }

    /// Writes what is new, or some of it.
    pub(crate) fn work(&mut self, out: &mut impl Packets) {
        let has_more = self.read(ENTRIES_PER_TURN, out);
        let delay = if has_more { Duration::ZERO } else { POLL_PERIOD };
        self.next_poll = self.follower.is_some().then(|| Instant::now() + delay);
    }

    /// Writes what is new, and how much it has been since the start.
    pub(crate) fn flush(&mut self, out: &mut impl Packets) {
        self.read(ENTRIES_PER_FLUSH, out);
        out.packet(|packet| {
            stamp(packet, boottime_ns());
            let mut event = packet.nested(trace_packet::JOURNALD_EVENT);
            event.varint(field::NUM_TOTAL, self.total);
            event.varint(field::NUM_FAILED, self.failed);
        });
    }

    /// True if there may be more.
    fn read(&mut self, max_entries: usize, out: &mut impl Packets) -> bool {
        let Some(mut follower) = self.follower.take() else { return false };
        let boot_id = follower.boot_id;
        let has_more =
            follower.read(max_entries, |file, offset| self.write_entry(file, offset, boot_id, out));
        self.failed += follower.take_failures();
        self.follower = Some(follower);
        has_more
    }

    fn write_entry<S: Storage>(
        &mut self,
        file: &JournalFile<S>,
        offset: u64,
        boot_id: [u8; 16],
        out: &mut impl Packets,
    ) -> Result<(), FileError> {
        let entry = file.entry(offset)?;
        let event = Event::read(file, &entry, &self.filter, &mut self.buffer)?;
        if !event.passes(&self.filter) {
            return Ok(());
        }
        // Of another boot (copied in, or from before the last one): its time says nothing here.
        if entry.boot_id != boot_id {
            self.failed += 1;
            return Ok(());
        }
        event.write(entry.monotonic_us, out);
        self.total += 1;
        Ok(())
    }
}

/// The fields that the trace has room for, each with its last value.
#[derive(Debug, Default)]
struct Event {
    texts: [Option<Vec<u8>>; TEXTS.len()],
    numbers: [Option<u32>; NUMBERS.len()],
    has_priority: bool,
    has_identifier: bool,
    has_unit: bool,
    /// A field that could not be unpacked. Its name is packed, too; nearly always it is the message.
    packed: Option<Packing>,
}

const MESSAGE: &[u8] = b"MESSAGE";
const TEXTS: [(&[u8], u32); 7] = [
    (MESSAGE, field::MESSAGE),
    (b"SYSLOG_IDENTIFIER", field::TAG),
    (b"_COMM", field::COMM),
    (b"_EXE", field::EXE),
    (b"_SYSTEMD_UNIT", field::SYSTEMD_UNIT),
    (b"_HOSTNAME", field::HOSTNAME),
    (b"_TRANSPORT", field::TRANSPORT),
];
const NUMBERS: [(&[u8], u32); 5] = [
    (b"PRIORITY", field::PRIO),
    (b"_PID", field::PID),
    (b"_TID", field::TID),
    (b"_UID", field::UID),
    (b"_GID", field::GID),
];

impl Event {
    fn read<S: Storage>(
        file: &JournalFile<S>,
        entry: &Entry,
        filter: &Filter,
        buffer: &mut FieldBuffer,
    ) -> Result<Self, FileError> {
        let mut event = Self::default();
        for &offset in &entry.fields {
            match file.field(offset, buffer)? {
                Field::Text(text) => event.take(text, filter),
                Field::Packed(packing) => event.packed = Some(packing),
            }
        }
        Ok(event)
    }

    fn take(&mut self, text: &[u8], filter: &Filter) {
        let Some(equals) = text.iter().position(|&byte| byte == b'=') else { return };
        let (name, value) = text.split_at(equals);
        let value = value.get(1..).unwrap_or_default();
        let is_one_of = |wanted: &[String]| wanted.iter().any(|wanted| wanted.as_bytes() == value);
        let number = || std::str::from_utf8(value).ok()?.parse::<u32>().ok();
        match name {
            b"PRIORITY" => self.has_priority |= number().is_some_and(|prio| prio <= filter.lowest_priority),
            b"SYSLOG_IDENTIFIER" => self.has_identifier |= is_one_of(&filter.identifiers),
            b"_SYSTEMD_UNIT" => self.has_unit |= is_one_of(&filter.units),
            _ => {}
        }
        for ((wanted, _), slot) in TEXTS.iter().zip(&mut self.texts) {
            if *wanted == name && !value.is_empty() {
                *slot = Some(value.to_vec());
            }
        }
        for ((wanted, _), slot) in NUMBERS.iter().zip(&mut self.numbers) {
            if *wanted == name {
                *slot = number().or(*slot);
            }
        }
    }

    fn passes(&self, filter: &Filter) -> bool {
        self.has_priority
            && (filter.identifiers.is_empty() || self.has_identifier)
            && (filter.units.is_empty() || self.has_unit)
    }

    fn write(&self, monotonic_us: u64, out: &mut impl Packets) {
        out.packet(|packet| {
            packet.varint(trace_packet::TIMESTAMP, monotonic_us.wrapping_mul(1000));
            packet.varint(trace_packet::TIMESTAMP_CLOCK_ID, BuiltinClock::Monotonic as u64);
            let mut event = packet.nested(trace_packet::JOURNALD_EVENT);
            for ((name, number), text) in TEXTS.iter().zip(&self.texts) {
                match (text, self.packed) {
                    (Some(text), _) => event.bytes(*number, text),
                    (None, Some(packing)) if *name == MESSAGE => {
                        event.string(*number, &format!("(not readable here: a field packed with {packing})"));
                    }
                    _ => {}
                }
            }
            for ((_, number), value) in NUMBERS.iter().zip(&self.numbers) {
                if let Some(value) = value {
                    event.varint(*number, u64::from(*value));
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use ferretto_protos::SystemdJournaldEvent;
    use ferretto_protos::trace_packet::Data;

    use super::testing::{BOOT, Builder, XZ};
    use super::*;
    use crate::packets::testing::Recorded;

    /// What a session with this config writes of a journal, with the times, and how many entries it counts.
    fn write(
        journal: &Builder,
        config: &SystemdJournaldConfig,
    ) -> (Vec<(u64, SystemdJournaldEvent)>, u64, u64) {
        let mut source = Journald::new(config);
        let mut file = JournalFile::open(&*journal.bytes).unwrap();
        let mut out = Recorded::default();
        while let Some(offset) = file.next_entry().unwrap() {
            source.write_entry(&file, offset, BOOT, &mut out).unwrap();
        }
        (out.decoded().into_iter().map(event_of).collect(), source.total, source.failed)
    }

    fn event_of(packet: ferretto_protos::TracePacket) -> (u64, SystemdJournaldEvent) {
        let Some(Data::JournaldEvent(event)) = packet.data else { panic!("{packet:?}") };
        (packet.timestamp.unwrap_or(0), event)
    }

    #[test]
    fn an_entry_becomes_a_packet_with_the_fields_that_the_trace_has_room_for() {
        let mut journal = Builder::new(true, 4);
        journal.message(
            7,
            &[
                "PRIORITY=3",
                "MESSAGE=it = broken",
                "SYSLOG_IDENTIFIER=tag",
                "_COMM=c",
                "_EXE=/x/y",
                "_SYSTEMD_UNIT=u.service",
                "_HOSTNAME=h",
                "_TRANSPORT=journal",
                "_PID=12",
                "_TID=13",
                "_UID=0",
                "_GID=-1",
                "_CMDLINE=not asked for",
                "EMPTY=",
                "nonsense",
            ],
        );
        let text = |text: &str| Some(text.to_owned());
        let expected = SystemdJournaldEvent {
            pid: Some(12),
            tid: Some(13),
            uid: Some(0),
            gid: None,
            prio: Some(3),
            tag: text("tag"),
            message: text("it = broken"),
            comm: text("c"),
            exe: text("/x/y"),
            systemd_unit: text("u.service"),
            hostname: text("h"),
            transport: text("journal"),
            num_total: None,
            num_failed: None,
        };
        assert_eq!(write(&journal, &Default::default()), (vec![(7000, expected)], 1, 0));
    }

    #[test]
    fn filters_choose_by_priority_and_identifier_and_unit() {
        let mut journal = Builder::new(false, 4);
        journal.message(1, &["PRIORITY=7", "SYSLOG_IDENTIFIER=a", "_SYSTEMD_UNIT=x"]);
        journal.message(2, &["PRIORITY=3", "SYSLOG_IDENTIFIER=b", "_SYSTEMD_UNIT=x"]);
        journal.message(3, &["PRIORITY=0", "SYSLOG_IDENTIFIER=a"]);
        journal.message(4, &["SYSLOG_IDENTIFIER=a"]);
        let texts = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        let config = |min_prio, identifiers: &[&str], units: &[&str]| SystemdJournaldConfig {
            min_prio,
            filter_identifiers: texts(identifiers),
            filter_units: texts(units),
        };
        for (config, expected) in [
            (config(None, &[], &[]), &[1, 2, 3][..]),
            (config(Some(3), &[], &[]), &[2, 3]),
            (config(Some(0), &[], &[]), &[3]),
            (config(None, &["a", "c"], &[]), &[1, 3]),
            (config(None, &[], &["x"]), &[1, 2]),
            (config(Some(6), &["a", "b"], &["x", "y"]), &[2]),
        ] {
            let times: Vec<u64> = write(&journal, &config).0.iter().map(|(time, _)| time / 1000).collect();
            assert_eq!(times, expected, "{config:?}");
        }
    }

    #[test]
    fn what_cannot_be_unpacked_is_named_and_another_boots_entries_are_counted() {
        let mut journal = Builder::new(false, 4);
        let (priority, packed) = (journal.field(0, b"PRIORITY=6"), journal.field(XZ, b"?"));
        journal.entry(1, BOOT, &[priority, packed]);
        journal.entry(2, [1; 16], &[priority]);
        let (events, total, failed) = write(&journal, &Default::default());
        assert_eq!((total, failed), (1, 1));
        assert_eq!(events[0].1.message(), "(not readable here: a field packed with xz)");
    }

    #[test]
    fn a_flush_tells_how_much_there_was() {
        let mut source = Journald::new(&Default::default());
        (source.total, source.failed) = (5, 2);
        let mut out = Recorded::default();
        source.flush(&mut out);
        let (time, summary) = event_of(out.decoded().remove(0));
        assert!(time > 0);
        assert_eq!((summary.num_total, summary.num_failed, summary.message), (Some(5), Some(2), None));
        assert_eq!(source.next_work(), None, "there is nothing to follow before the start");
    }
}
