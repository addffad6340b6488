//! `linux.inode_file_map`: the paths of the files that ftrace events mention by device and inode number only.
//!
//! Events tell [`InodeFileMap::on_files`] of files; those whose paths are not known yet are looked for on their device's mount points, some
//! time later and in batches (`scan`). What is found is written at once, and again when events mention the file again.

mod mounts;
mod scan;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ferretto_protos::InodeFileConfig;
use ferretto_protos::fields::{inode_file_map as field, trace_packet};
use ferretto_protozero::Message;

use self::mounts::Mounts;
use self::scan::{Found, Kind, Scanner};
use crate::ftrace::metadata::FileId;
use crate::packets::Packets;

/// Where a config says nothing, or 0 (upstream: inode_file_data_source.cc).
const DEFAULT_SCAN_INTERVAL_MS: u32 = 10_000;
const DEFAULT_SCAN_DELAY_MS: u32 = 10_000;
const DEFAULT_SCAN_BATCH_SIZE: u32 = 15_000;
/// Steps of a scan without looking at anything else: some milliseconds, or tens of them where a folder has to come from a slow disk.
const SLICE_STEPS: u32 = 256;
/// Files that are being looked for at a time, 16 bytes each and some for the set. A scan finds the rest when events mention them again.
const MAX_MISSING: usize = 64 << 10;
/// Files whose paths are remembered (upstream: kLRUInodeCacheSize).
const MAX_KNOWN: usize = 1000;
/// Devices of which the trace has been told: more than that are told again.
const MAX_TOLD_DEVICES: usize = 1024;
/// Entries in one packet; more start another one.
const MAX_PACKET_BYTES: usize = 32 << 10;

/// One session's map.
#[derive(Debug)]
pub(crate) struct InodeFileMap {
    options: Options,
    mounts: Option<Mounts>,
    known: Known,
    /// What the running scan looks for.
    missing: Missing,
    /// What the next one will look for: everything mentioned since the running one began that has not been found.
    next_missing: Missing,
    told_devices: BTreeSet<u64>,
    scan: Scan,
    entries: Entries,
    /// The log says so once.
    has_complained: bool,
}

#[derive(Debug)]
struct Options {
    scan_interval: Duration,
    scan_delay: Duration,
    scan_batch_size: u32,
    do_not_scan: bool,
    /// None means all.
    scan_mount_points: BTreeSet<PathBuf>,
    scan_roots: BTreeMap<PathBuf, Vec<PathBuf>>,
}

#[derive(Debug)]
enum Scan {
    /// Nothing is missing.
    Idle,
    /// More may be mentioned meanwhile.
    Waiting { until: Instant },
    /// In the middle of a batch, or between two.
    Running { scanner: Scanner, next: Instant, left_in_batch: u32 },
}

impl InodeFileMap {
    pub(crate) fn new(config: &InodeFileConfig) -> Self {
        Self {
            options: Options::new(config),
            mounts: None,
            known: Known::default(),
            missing: Missing::default(),
            next_missing: Missing::default(),
            told_devices: BTreeSet::new(),
            scan: Scan::Idle,
            entries: Entries::default(),
            has_complained: false,
        }
    }

    /// Events have mentioned these files.
    pub(crate) fn on_files(
        &mut self,
        files: impl Iterator<Item = FileId>,
        now: Instant,
        out: &mut impl Packets,
    ) {
        // One packet a device, whatever the order of the events.
        let files: BTreeSet<FileId> = files.collect();
        for file in files {
            if self.write_if_known(file, out) || self.options.do_not_scan {
                continue;
            }
            let mounts = self.mounts.get_or_insert_with(Mounts::load);
            if !self.options.is_to_be_scanned(mounts.of(file.device)) {
                continue;
            }
            // The running scan may still come by it.
            if self.missing.has_device(file.device) {
                self.missing.insert(file);
            }
            if !self.next_missing.insert(file) && !std::mem::replace(&mut self.has_complained, true) {
                tracing::warn!(
                    "linux.inode_file_map: more than {MAX_MISSING} files to look for; some stay without a path"
                );
            }
            if matches!(self.scan, Scan::Idle) {
                self.scan = Scan::Waiting { until: now + self.options.scan_delay };
            }
        }
        self.write_entries(out);
    }

    /// When [`work`](Self::work) wants to be called.
    pub(crate) fn next_work(&self) -> Option<Instant> {
        match &self.scan {
            Scan::Idle => None,
            Scan::Waiting { until } => Some(*until),
            Scan::Running { next, .. } => Some(*next),
        }
    }

    /// Does a small piece of the scan that is due.
    pub(crate) fn work(&mut self, now: Instant, out: &mut impl Packets) {
        if self.next_work().is_none_or(|due| due > now) {
            return;
        }
        match std::mem::replace(&mut self.scan, Scan::Idle) {
            Scan::Idle => {}
            Scan::Waiting { .. } => self.begin_scan(now),
            Scan::Running { scanner, left_in_batch, .. } => {
                self.continue_scan(scanner, left_in_batch, now, out)
            }
        }
        self.write_entries(out);
    }

    fn begin_scan(&mut self, now: Instant) {
        self.missing = std::mem::take(&mut self.next_missing);
        // Something may have been mounted since.
        let mounts = self.mounts.insert(Mounts::load());
        let roots = self.missing.devices().flat_map(|device| self.options.roots(mounts.of(device)));
        let scanner = Scanner::new(roots.cloned());
        self.scan = Scan::Running { scanner, next: now, left_in_batch: self.options.scan_batch_size };
    }

    fn continue_scan(
        &mut self,
        mut scanner: Scanner,
        left_in_batch: u32,
        now: Instant,
        out: &mut impl Packets,
    ) {
        let steps = left_in_batch.min(SLICE_STEPS);
        for _ in 0..steps {
            let missing = &self.missing;
            let found = scanner.step(|device| missing.has_device(device), |file| missing.contains(file));
            if let Some(found) = found {
                self.on_found(found, out);
            }
            if scanner.is_done() || self.missing.is_empty() {
                return self.end_scan(&scanner, now, out);
            }
        }
        let (next, left_in_batch) = match left_in_batch - steps {
            0 => (now + self.options.scan_interval, self.options.scan_batch_size),
            left => (now, left),
        };
        self.scan = Scan::Running { scanner, next, left_in_batch };
    }

    fn on_found(&mut self, found: Found, out: &mut impl Packets) {
        self.missing.remove(found.file);
        self.next_missing.remove(found.file);
        self.write_entry(found.file, found.kind, &found.path, out);
        self.known.insert(found);
    }

    fn end_scan(&mut self, scanner: &Scanner, now: Instant, out: &mut impl Packets) {
        if let Some(complaint) = scanner.complaint()
            && !std::mem::replace(&mut self.has_complained, true)
        {
            tracing::warn!("linux.inode_file_map: {complaint}");
        }
        // At least where the device is.
        for device in std::mem::take(&mut self.missing).devices() {
            if !self.told_devices.contains(&device) {
                self.entries.write(self.mounts.as_ref(), out);
                self.entries.begin(device);
                self.tell_of(device);
            }
        }
        if !self.next_missing.is_empty() {
            self.scan = Scan::Waiting { until: now + self.options.scan_delay };
        }
    }

    fn write_if_known(&mut self, file: FileId, out: &mut impl Packets) -> bool {
        let Some((kind, path)) = self.known.get(file) else { return false };
        self.write_entry(file, kind, &path, out);
        true
    }

    fn write_entry(&mut self, file: FileId, kind: Kind, path: &Path, out: &mut impl Packets) {
        if self.entries.device != Some(file.device) || self.entries.body.len() > MAX_PACKET_BYTES {
            self.write_entries(out);
            self.entries.begin(file.device);
            self.tell_of(file.device);
        }
        self.entries.add(file.inode, kind, path);
    }

    fn tell_of(&mut self, device: u64) {
        if self.told_devices.len() >= MAX_TOLD_DEVICES {
            self.told_devices.clear();
        }
        self.told_devices.insert(device);
    }

    fn write_entries(&mut self, out: &mut impl Packets) {
        self.entries.write(self.mounts.as_ref(), out);
    }
}

impl Options {
    fn new(config: &InodeFileConfig) -> Self {
        let ms_or =
            |value: u32, default| Duration::from_millis(u64::from(if value == 0 { default } else { value }));
        let mut scan_roots = BTreeMap::new();
        for mapping in &config.mount_point_mapping {
            let roots = mapping.scan_roots.iter().map(PathBuf::from).collect();
            scan_roots.entry(PathBuf::from(mapping.mountpoint())).or_insert(roots);
        }
        Self {
            scan_interval: ms_or(config.scan_interval_ms(), DEFAULT_SCAN_INTERVAL_MS),
            scan_delay: ms_or(config.scan_delay_ms(), DEFAULT_SCAN_DELAY_MS),
            scan_batch_size: match config.scan_batch_size() {
                0 => DEFAULT_SCAN_BATCH_SIZE,
                size => size,
            },
            do_not_scan: config.do_not_scan(),
            scan_mount_points: config.scan_mount_points.iter().map(PathBuf::from).collect(),
            scan_roots,
        }
    }

    /// Whether to look for files of a device that is mounted there.
    fn is_to_be_scanned(&self, mount_points: &[PathBuf]) -> bool {
        self.scan_mount_points.is_empty()
            || mount_points.iter().any(|mount_point| self.scan_mount_points.contains(mount_point))
    }

    /// Where to look for them: what the first mapping says, or everywhere.
    fn roots<'a>(&'a self, mount_points: &'a [PathBuf]) -> &'a [PathBuf] {
        let mapped = mount_points.iter().find_map(|mount_point| self.scan_roots.get(mount_point));
        mapped.map_or(mount_points, Vec::as_slice)
    }
}

/// Files without a path, by device.
#[derive(Debug, Default)]
struct Missing {
    by_device: BTreeMap<u64, BTreeSet<u64>>,
    len: usize,
}

impl Missing {
    /// False if there is no room.
    fn insert(&mut self, file: FileId) -> bool {
        if self.len >= MAX_MISSING {
            return self.contains(file);
        }
        self.len += usize::from(self.by_device.entry(file.device).or_default().insert(file.inode));
        true
    }

    fn remove(&mut self, file: FileId) {
        let Some(inodes) = self.by_device.get_mut(&file.device) else { return };
        self.len -= usize::from(inodes.remove(&file.inode));
        if inodes.is_empty() {
            self.by_device.remove(&file.device);
        }
    }

    fn contains(&self, file: FileId) -> bool {
        self.by_device.get(&file.device).is_some_and(|inodes| inodes.contains(&file.inode))
    }

    fn has_device(&self, device: u64) -> bool {
        self.by_device.contains_key(&device)
    }

    fn devices(&self) -> impl Iterator<Item = u64> + '_ {
        self.by_device.keys().copied()
    }

    fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// The paths found last, and those asked for last.
#[derive(Debug, Default)]
struct Known {
    files: HashMap<FileId, KnownFile>,
    uses: u64,
}

#[derive(Debug)]
struct KnownFile {
    kind: Kind,
    path: PathBuf,
    last_use: u64,
}

impl Known {
    fn get(&mut self, file: FileId) -> Option<(Kind, PathBuf)> {
        self.uses += 1;
        let known = self.files.get_mut(&file)?;
        known.last_use = self.uses;
        Some((known.kind, known.path.clone()))
    }

    fn insert(&mut self, Found { file, kind, path }: Found) {
        self.uses += 1;
        if self.files.len() >= MAX_KNOWN
            && let Some(oldest) =
                self.files.iter().min_by_key(|(_, known)| known.last_use).map(|(file, _)| *file)
        {
            self.files.remove(&oldest);
        }
        self.files.insert(file, KnownFile { kind, path, last_use: self.uses });
    }
}

/// A packet in the making.
#[derive(Debug, Default)]
struct Entries {
    device: Option<u64>,
    body: Vec<u8>,
}

impl Entries {
    fn begin(&mut self, device: u64) {
        self.device = Some(device);
        self.body.clear();
    }

    fn add(&mut self, inode: u64, kind: Kind, path: &Path) {
        let mut map = Message::new(&mut self.body);
        let mut entry = map.nested(field::ENTRIES);
        entry.varint(field::entry::INODE_NUMBER, inode);
        entry.bytes(field::entry::PATHS, path.as_os_str().as_bytes());
        entry.varint(field::entry::TYPE, kind as u64);
    }

    /// Writes what there is, if anything.
    fn write(&mut self, mounts: Option<&Mounts>, out: &mut impl Packets) {
        let Some(device) = self.device.take() else { return };
        out.packet(|packet| {
            let mut map = packet.nested(trace_packet::INODE_FILE_MAP);
            map.varint(field::BLOCK_DEVICE_ID, device);
            for mount_point in mounts.map_or(&[][..], |mounts| mounts.of(device)) {
                map.bytes(field::MOUNT_POINTS, mount_point.as_os_str().as_bytes());
            }
            map.raw(&self.body);
        });
        self.body.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use ferretto_protos::inode_file_config::MountPointMappingEntry;
    use ferretto_protos::inode_file_map::entry::Type;
    use ferretto_protos::trace_packet::Data;

    use super::*;
    use crate::packets::testing::Recorded;

    /// A folder with files in it, on whatever device temporary files are.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str, files: &[&str]) -> Self {
            let root = std::env::temp_dir().join(format!("ferretto-inodes-{name}-{}", std::process::id()));
            for file in files {
                let path = root.join(file);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, "").unwrap();
            }
            Self(root)
        }

        fn file(&self, name: &str) -> FileId {
            let metadata = std::fs::metadata(self.0.join(name)).unwrap();
            FileId { device: metadata.dev(), inode: metadata.ino() }
        }

        fn path(&self, name: &str) -> String {
            self.0.join(name).to_str().unwrap().to_owned()
        }

        /// Where its device is mounted, as a config names it.
        fn mount_point(&self) -> Option<String> {
            let mounts = Mounts::load();
            mounts.of(self.file("").device).first().map(|path| path.to_str().unwrap().to_owned())
        }

        /// A config that scans this folder only; nothing (aloud) on file systems whose device numbers mean something else.
        fn config(&self) -> Option<InodeFileConfig> {
            let Some(mountpoint) = self.mount_point() else {
                println!("skipped: {} is on no device that /proc/self/mountinfo knows", self.0.display());
                return None;
            };
            let mapping = MountPointMappingEntry {
                mountpoint: Some(mountpoint),
                scan_roots: vec![self.0.to_str().unwrap().to_owned()],
            };
            Some(InodeFileConfig { mount_point_mapping: vec![mapping], ..Default::default() })
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    /// Does all the work that is ever due, and gives its times in ms after the beginning.
    fn work_to_the_end(map: &mut InodeFileMap, begin: Instant, out: &mut Recorded) -> Vec<u128> {
        let mut times = Vec::new();
        while let Some(due) = map.next_work() {
            times.push((due - begin).as_millis());
            map.work(due, out);
            assert!(times.len() < 10_000, "no end");
        }
        times
    }

    /// What was written, as device, inode, path and type.
    fn entries(out: &Recorded) -> Vec<(u64, u64, String, Type)> {
        let mut entries = Vec::new();
        for packet in out.decoded() {
            let Some(Data::InodeFileMap(map)) = packet.data else { panic!("{packet:?}") };
            assert!(!map.mount_points.is_empty());
            for entry in &map.entries {
                let [path] = &entry.paths[..] else { panic!("{entry:?}") };
                entries.push((map.block_device_id(), entry.inode_number(), path.clone(), entry.r#type()));
            }
        }
        entries
    }

    #[test]
    fn files_are_mapped_after_the_delay_and_from_memory_afterwards() {
        let folder = Folder::new("mapped", &["a/one", "two"]);
        let Some(config) = folder.config() else { return };
        let mut map = InodeFileMap::new(&config);
        let (now, mut out) = (Instant::now(), Recorded::default());
        let (one, two, dir) = (folder.file("a/one"), folder.file("two"), folder.file("a"));
        map.on_files([one, two, one, dir].into_iter(), now, &mut out);
        assert_eq!(out.0.len(), 0);
        let times = work_to_the_end(&mut map, now, &mut out);
        assert!(times.iter().all(|&ms| ms == 10_000), "{times:?}");
        let mut expected = vec![
            (one.device, one.inode, folder.path("a/one"), Type::File),
            (two.device, two.inode, folder.path("two"), Type::File),
            (dir.device, dir.inode, folder.path("a"), Type::Directory),
        ];
        expected.sort_by_key(|entry| entry.1);
        let mut found = entries(&out);
        found.sort_by_key(|entry| entry.1);
        assert_eq!(found, expected);

        out.0.clear();
        map.on_files([two].into_iter(), now, &mut out);
        assert_eq!(entries(&out), [(two.device, two.inode, folder.path("two"), Type::File)]);
        assert_eq!(map.next_work(), None);
    }

    #[test]
    fn batches_come_with_their_interval_and_mentions_meanwhile_with_the_next_scan() {
        let names: Vec<String> = (0..40).map(|number| format!("file{number}")).collect();
        let folder = Folder::new("batches", &names.iter().map(String::as_str).collect::<Vec<_>>());
        let Some(config) = folder.config() else { return };
        let config = InodeFileConfig {
            scan_delay_ms: Some(5),
            scan_interval_ms: Some(20),
            scan_batch_size: Some(10),
            ..config
        };
        let mut map = InodeFileMap::new(&config);
        let (now, mut out) = (Instant::now(), Recorded::default());
        let gone = FileId { inode: u64::MAX, ..folder.file("file0") };
        map.on_files([gone].into_iter(), now, &mut out);
        for _ in 0..2 {
            let due = map.next_work().unwrap();
            map.work(due, &mut out);
        }
        map.on_files([folder.file("file7")].into_iter(), now, &mut out);
        let times = work_to_the_end(&mut map, now, &mut out);
        // One step opens the folder and one sees its end: 42 in five batches.
        assert_eq!(times.get(..3), Some(&[25, 45, 65][..]), "{times:?}");
        assert_eq!(entries(&out).len(), 1, "found once, be it by the first scan or by the second");
    }

    #[test]
    fn a_device_whose_files_are_gone_is_at_least_named() {
        let folder = Folder::new("gone", &["file"]);
        let Some(config) = folder.config() else { return };
        let mut map = InodeFileMap::new(&config);
        let (now, mut out) = (Instant::now(), Recorded::default());
        let gone = FileId { inode: u64::MAX, ..folder.file("file") };
        for expected in [1, 1] {
            map.on_files([gone].into_iter(), now, &mut out);
            work_to_the_end(&mut map, now, &mut out);
            assert_eq!(out.0.len(), expected, "once");
        }
        assert_eq!(entries(&out), []);
    }

    #[test]
    fn only_wanted_mount_points_are_scanned_and_none_if_the_config_says_so() {
        let folder = Folder::new("unwanted", &["file"]);
        let Some(config) = folder.config() else { return };
        let wanted = folder.mount_point().unwrap();
        let scans = |config: &InodeFileConfig| {
            let mut map = InodeFileMap::new(config);
            map.on_files([folder.file("file")].into_iter(), Instant::now(), &mut Recorded::default());
            map.next_work().is_some()
        };
        assert!(scans(&config));
        assert!(scans(&InodeFileConfig {
            scan_mount_points: vec!["/other".to_owned(), wanted],
            ..config.clone()
        }));
        assert!(!scans(&InodeFileConfig { scan_mount_points: vec!["/other".to_owned()], ..config.clone() }));
        assert!(!scans(&InodeFileConfig { do_not_scan: Some(true), ..config }));
    }

    #[test]
    fn what_is_kept_has_bounds() {
        let mut missing = Missing::default();
        let file = |inode| FileId { device: 1, inode };
        assert!((0..MAX_MISSING as u64).all(|inode| missing.insert(file(inode))));
        assert!(missing.insert(file(3)) && !missing.insert(file(u64::MAX)));
        missing.remove(file(3));
        assert!(missing.insert(file(u64::MAX)));

        let mut known = Known::default();
        let found = |inode| Found { file: file(inode), kind: Kind::File, path: PathBuf::from("/x") };
        (0..MAX_KNOWN as u64).for_each(|inode| known.insert(found(inode)));
        assert!(known.get(file(0)).is_some());
        known.insert(found(u64::MAX));
        assert_eq!(known.files.len(), MAX_KNOWN);
        assert!(
            known.get(file(0)).is_some() && known.get(file(1)).is_none(),
            "the one that was not asked for goes"
        );
    }
}
