//! What a recording is: what was sampled, what that is called, the build ids of files, the command.

use ferretto_trace_model::profiles::stacks;
use ferretto_trace_tables::Tables;
use foldhash::fast::RandomState;
use hashbrown::HashMap;

use super::attr::Attr;
use super::bytes::Bytes;
use super::tracepoints::Tracepoints;

/// Things that were sampled. Ours: a recording of all tracepoints has some thousand.
pub(super) const MAX_ATTRS: usize = 1 << 16;
/// Ids of these, one for each processor. Ours.
const MAX_IDS: usize = 1 << 22;
/// Files with a build id. Ours: a machine's processes have some ten thousand.
const MAX_BUILD_IDS: usize = 1 << 20;
/// Words of the command line. Ours.
const MAX_WORDS: u32 = 1 << 16;

/// Numbers of features that are read.
pub(super) mod feature {
    pub(in super::super) const TRACING_DATA: u32 = 1;
    pub(super) const BUILD_ID: u32 = 2;
    pub(super) const OS_RELEASE: u32 = 4;
    pub(super) const CMD_LINE: u32 = 11;
    pub(super) const EVENT_DESC: u32 = 12;
    pub(super) const GROUP_DESC: u32 = 17;
    /// simpleperf's, from here on.
    pub(super) const SIMPLEPERF: u32 = 128;
}

/// A recording.
#[derive(Debug, Default)]
pub(super) struct Session {
    pub(super) attrs: Vec<Attr>,
    ids: HashMap<u64, usize, RandomState>,
    build_ids: HashMap<(i32, Vec<u8>), Vec<u8>, RandomState>,
    pub(super) tracepoints: Tracepoints,
    pub(super) command: Option<String>,
    pub(super) release: Option<String>,
    /// Features that are not read.
    pub(super) skipped_features: Vec<u32>,
    /// Android's recorder has the addresses of calls already.
    pub(super) is_simpleperf: bool,
}

impl Session {
    pub(super) fn add_attr(&mut self, attr: Attr, ids: &[u8]) {
        if self.attrs.len() >= MAX_ATTRS {
            return;
        }
        let number = self.attrs.len();
        self.attrs.push(attr);
        let (words, _) = ids.as_chunks();
        for id in words.iter().take(MAX_IDS.saturating_sub(self.ids.len())) {
            self.ids.entry(u64::from_le_bytes(*id)).or_insert(number);
        }
    }

    pub(super) fn attr(&self, number: usize) -> Option<&Attr> {
        self.attrs.get(number)
    }

    pub(super) fn number_of_id(&self, id: u64) -> Option<usize> {
        self.ids.get(&id).copied()
    }

    /// Whose record this is. All of one recording have their ids at the same place.
    pub(super) fn attr_of_record(&self, is_sample: bool, record: Bytes<'_>) -> Option<usize> {
        let first = self.attrs.first()?;
        if self.attrs.len() == 1 || (!is_sample && !first.says_id_always()) {
            return Some(0);
        }
        let id = match is_sample {
            true => Bytes(record.0.get(first.id_from_start()?..)?).u64(),
            false => record.u64_before_end(first.id_before_end()?),
        };
        match id? {
            0 => Some(0),
            id => self.number_of_id(id),
        }
    }

    /// Names the thing of an id.
    pub(super) fn name(&mut self, id: u64, name: &str) {
        if let Some(attr) = self.number_of_id(id).and_then(|number| self.attrs.get_mut(number))
            && !name.is_empty()
        {
            attr.name = Some(name.to_owned());
        }
    }

    /// Reads a feature.
    pub(super) fn feature(&mut self, number: u32, bytes: &[u8]) {
        let mut at = Bytes(bytes);
        match number {
            feature::TRACING_DATA => self.tracepoints.read(bytes),
            feature::OS_RELEASE => self.release = at.counted_text(),
            feature::CMD_LINE => {
                let count = at.u32().unwrap_or(0).min(MAX_WORDS);
                let words: Vec<String> = (0..count).map_while(|_| at.counted_text()).collect();
                self.command = Some(words.join(" "));
            }
            feature::EVENT_DESC => _ = self.event_names(at),
            feature::BUILD_ID => self.all_build_ids(at),
            feature::GROUP_DESC => {}
            simpleperf if simpleperf >= feature::SIMPLEPERF => self.is_simpleperf = true,
            other => self.skipped_features.push(other),
        }
    }

    fn event_names(&mut self, mut at: Bytes<'_>) -> Option<()> {
        let (count, attr_bytes) = (at.u32()?, at.u32()? as usize);
        for _ in 0..count {
            at.take(attr_bytes)?;
            let ids = at.u32()?;
            let name = at.counted_text()?;
            for _ in 0..ids {
                self.name(at.u64()?, &name);
            }
        }
        Some(())
    }

    fn all_build_ids(&mut self, mut at: Bytes<'_>) {
        /// A record's head: its type, flags, and size.
        const HEAD: usize = 8;
        while let Some(head) = at.take(HEAD) {
            let mut head = Bytes(head);
            let (_, misc, size) = (head.u32(), head.u16().unwrap_or(0), head.u16().unwrap_or(0));
            let Some(record) = usize::from(size).checked_sub(HEAD).and_then(|len| at.take(len)) else {
                return;
            };
            self.build_id(misc, record);
        }
    }

    /// A record of one file's.
    pub(super) fn build_id(&mut self, misc: u16, record: &[u8]) {
        /// Of the flags: the size is said.
        const HAS_SIZE: u16 = 1 << 15;
        const BYTES: usize = 20;
        let mut at = Bytes(record);
        let (Some(pid), Some(id)) = (at.u32(), at.take(BYTES + 4)) else { return };
        let size = match misc & HAS_SIZE {
            0 => BYTES,
            _ => id.get(BYTES).map_or(0, |size| usize::from(*size)).min(BYTES),
        };
        if self.build_ids.len() < MAX_BUILD_IDS {
            let id = id.get(..size).unwrap_or_default().to_vec();
            self.build_ids.insert((pid.cast_signed(), at.text().to_vec()), id);
        }
    }

    /// The build id of a file, in hexadecimal.
    pub(super) fn build_id_of(
        &self,
        tables: &mut Tables,
        pid: u32,
        path: &[u8],
        said: Option<&[u8]>,
    ) -> Option<ferretto_trace_tables::Str> {
        /// Of files that have one whoever maps them.
        const ANY: i32 = -1;
        let known = |pid| self.build_ids.get(&(pid, path.to_vec())).map(Vec::as_slice);
        let id = said.or_else(|| known(pid.cast_signed())).or_else(|| known(ANY))?;
        Some(stacks::build_id(tables, id))
    }
}
