//! Where devices are mounted, from /proc/self/mountinfo: to read it does not wait for servers that are gone, as `stat` on each mount
//! point would (upstream: fs_mount.cc), and its device numbers are those that events have.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use crate::proc_fs::{lines, read, words};

/// Mount points by device, each in the kernel's order.
#[derive(Debug, Default)]
pub(crate) struct Mounts(BTreeMap<u64, Vec<PathBuf>>);

impl Mounts {
    /// Those that this process sees; none if there is no /proc.
    pub(crate) fn load() -> Self {
        Self::parse(&read("/proc/self/mountinfo"))
    }

    /// Parses lines such as `27 1 254:0 / /mnt/my\040disk rw,relatime - ext4 /dev/vda rw`. What has another form is left out.
    pub(crate) fn parse(text: &[u8]) -> Self {
        let mut mounts = Self::default();
        for (device, mount_point) in lines(text).filter_map(parse_line) {
            mounts.0.entry(device).or_default().push(mount_point);
        }
        mounts
    }

    pub(crate) fn of(&self, device: u64) -> &[PathBuf] {
        self.0.get(&device).map_or(&[], Vec::as_slice)
    }
}

fn parse_line(line: &[u8]) -> Option<(u64, PathBuf)> {
    let mut words = words(line).skip(2);
    let (major, minor) = std::str::from_utf8(words.next()?).ok()?.split_once(':')?;
    let device = rustix::fs::makedev(major.parse().ok()?, minor.parse().ok()?);
    let mount_point = OsString::from_vec(unescape(words.nth(1)?));
    Some((device, mount_point.into()))
}

/// The kernel writes blanks, line ends and backslashes as three octal digits.
fn unescape(mut text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    while let [byte, rest @ ..] = text {
        text = match rest.first_chunk() {
            Some(digits) if *byte == b'\\' && is_octal(digits) => {
                plain.push(digits.iter().fold(0, |value: u8, digit| value << 3 | (digit - b'0')));
                rest.get(digits.len()..).unwrap_or_default()
            }
            _ => {
                plain.push(*byte);
                rest
            }
        };
    }
    plain
}

/// Of a byte's value: the first digit ends at 3.
fn is_octal(digits: &[u8; 3]) -> bool {
    matches!(digits, [b'0'..=b'3', b'0'..=b'7', b'0'..=b'7'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_points_are_grouped_by_device_with_their_blanks() {
        let mounts = Mounts::parse(
            b"27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n\
              24 27 0:6 / /dev rw,relatime - devtmpfs devtmpfs rw\n\
              43 27 254:0 /a /mnt/my\\040disk\\134x\\9 rw shared:1 - ext4 /dev/vda rw\n\
              44 27 70000:300000 / /big rw - ext4 /dev/big rw\n\
              nonsense\n45 27 x:1 / /x rw\n46 27 1\n47 27 1:2 /\n",
        );
        let of = |major, minor| -> Vec<_> {
            let device = rustix::fs::makedev(major, minor);
            mounts.of(device).iter().map(|path| path.to_str().unwrap()).collect()
        };
        assert_eq!(of(254, 0), ["/", "/mnt/my disk\\x\\9"]);
        assert_eq!([of(0, 6), of(70000, 300_000)], [["/dev"], ["/big"]]);
        assert_eq!(mounts.0.len(), 3);
    }

    #[test]
    fn the_device_of_a_mount_point_is_the_one_that_stat_shows() {
        use std::os::unix::fs::MetadataExt;
        let device = std::fs::metadata("/proc").unwrap().dev();
        assert!(Mounts::load().of(device).iter().any(|path| path == &PathBuf::from("/proc")));
    }
}
