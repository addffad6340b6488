//! The files of /proc/PID, as bytes.

use crate::proc_fs::{leading_i64, leading_u64, lines, words};

/// What `/proc/PID/status` says that does not change from poll to poll.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Status<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) tgid: i32,
    pub(crate) pid: i32,
    pub(crate) ppid: i32,
    /// The real user id: the first of four.
    pub(crate) uid: i32,
    /// The ids in the nested PID namespaces, outermost first, without the one in ours.
    pub(crate) nspid: &'a [u8],
    /// Kernels from 6.4 on say it.
    pub(crate) is_kthread: Option<bool>,
}

impl<'a> Status<'a> {
    /// Parses the file; `None` without a pid and a tgid, as when the thread is gone.
    pub(crate) fn parse(text: &'a [u8]) -> Option<Self> {
        let mut status = Self::default();
        for line in lines(text) {
            let Some((key, value)) = split_key(line) else { continue };
            match key {
                b"Name" => status.name = value,
                b"Tgid" => status.tgid = id(value),
                b"Pid" => status.pid = id(value),
                b"PPid" => status.ppid = id(value),
                b"Uid" => status.uid = id(value),
                b"NSpid" => status.nspid = value,
                b"Kthread" => status.is_kthread = leading_u64(value).filter(|v| *v < 2).map(|v| v == 1),
                // The identity comes first; memory and masks follow.
                b"VmPeak" => break,
                _ => {}
            }
        }
        (status.tgid > 0 && status.pid > 0).then_some(status)
    }

    /// The thread's ids in nested PID namespaces.
    pub(crate) fn namespaced_ids(&self) -> impl Iterator<Item = i32> + Clone + 'a {
        words(self.nspid).skip(1).map(id)
    }

    pub(crate) fn is_namespaced(&self) -> bool {
        words(self.nspid).nth(1).is_some()
    }
}

/// `Name: bash` without its blanks. Only what follows the first colon is the value: names may hold colons.
fn split_key(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = line.iter().position(|&b| b == b':')?;
    let (key, value) = line.split_at_checked(colon)?;
    Some((key, value.get(1..)?.trim_ascii()))
}

fn id(value: &[u8]) -> i32 {
    // User ids are unsigned and travel as int32, as in upstream: the bits stay.
    leading_i64(value).map_or(0, |v| v as i32)
}

/// The memory counters of `status` and `smaps_rollup`, by their keys. The order is that of [`Counter`].
const MEMORY_KEYS: [(&[u8], Counter); 14] = [
    (b"VmSize", Counter::VmSize),
    (b"VmRSS", Counter::VmRss),
    (b"RssAnon", Counter::RssAnon),
    (b"RssFile", Counter::RssFile),
    (b"RssShmem", Counter::RssShmem),
    (b"VmSwap", Counter::VmSwap),
    (b"VmLck", Counter::VmLocked),
    (b"VmHWM", Counter::VmHwm),
    (b"Rss", Counter::SmrRss),
    (b"Pss", Counter::SmrPss),
    (b"Pss_Anon", Counter::SmrPssAnon),
    (b"Pss_File", Counter::SmrPssFile),
    (b"Pss_Shmem", Counter::SmrPssShmem),
    (b"SwapPss", Counter::SmrSwapPss),
];

/// A polled value of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Counter {
    VmSize,
    VmRss,
    RssAnon,
    RssFile,
    RssShmem,
    VmSwap,
    VmLocked,
    VmHwm,
    SmrRss,
    SmrPss,
    SmrPssAnon,
    SmrPssFile,
    SmrPssShmem,
    SmrSwapPss,
    OomScoreAdj,
    RuntimeUser,
    RuntimeKernel,
    DmabufRss,
}

impl Counter {
    /// How many there are.
    pub(crate) const COUNT: usize = Self::DmabufRss as usize + 1;
}

/// Gives every memory counter of `status` or `smaps_rollup`, in KiB.
pub(crate) fn memory_counters(text: &[u8]) -> impl Iterator<Item = (Counter, u64)> + '_ {
    lines(text).filter_map(|line| {
        if !matches!(line.first(), Some(b'V' | b'R' | b'P' | b'S')) {
            return None;
        }
        let (key, value) = split_key(line)?;
        let (_, counter) = MEMORY_KEYS.iter().find(|(k, _)| *k == key)?;
        Some((*counter, leading_u64(value)?))
    })
}

/// From `/proc/PID/stat`, in clock ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Runtimes {
    pub(crate) user_ticks: u64,
    pub(crate) system_ticks: u64,
    pub(crate) start_ticks: u64,
}

impl Runtimes {
    /// Fields 14, 15 and 22 of the line. The name in field 2 may hold blanks and parentheses, so counting starts after the last one.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        let name_end = text.iter().rposition(|&b| b == b')')?;
        // The field after the name is number 3.
        let mut fields = words(text.get(name_end + 1..)?.trim_ascii());
        let user_ticks = leading_u64(fields.nth(14 - 3)?)?;
        let system_ticks = leading_u64(fields.next()?)?;
        let start_ticks = leading_u64(fields.nth(22 - 16)?)?;
        Some(Self { user_ticks, system_ticks, start_ticks })
    }
}

/// The arguments of `/proc/PID/cmdline`. Some kernels leave the last NUL out.
pub(crate) fn arguments(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|&b| b == 0).filter(|argument| !argument.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &[u8] = include_bytes!("../../tests/data/proc/status");
    const STATUS_KTHREAD: &[u8] = include_bytes!("../../tests/data/proc/status_kthread");
    const STATUS_NAMESPACED: &[u8] = include_bytes!("../../tests/data/proc/status_namespaced");
    const SMAPS_ROLLUP: &[u8] = include_bytes!("../../tests/data/proc/smaps_rollup");

    #[test]
    fn identity_is_read_from_status() {
        let status = Status::parse(STATUS).unwrap();
        assert_eq!(
            (status.name, status.pid, status.tgid, status.ppid, status.uid),
            (&b"server: worker"[..], 4242, 4242, 1, 1000)
        );
        assert_eq!(status.is_kthread, Some(false));
        assert!(!status.is_namespaced());
        let kthread = Status::parse(STATUS_KTHREAD).unwrap();
        assert_eq!((kthread.name, kthread.ppid, kthread.is_kthread), (&b"kthreadd"[..], 0, Some(true)));
        let namespaced = Status::parse(STATUS_NAMESPACED).unwrap();
        assert_eq!(namespaced.namespaced_ids().collect::<Vec<_>>(), [17, 1]);
    }

    #[test]
    fn memory_is_read_from_status_and_smaps_rollup() {
        let counters: Vec<_> = memory_counters(STATUS).collect();
        assert_eq!(counters.len(), 8);
        assert!(counters.contains(&(Counter::VmRss, 3456)));
        assert_eq!(memory_counters(STATUS_KTHREAD).count(), 0);
        let rollup: Vec<_> = memory_counters(SMAPS_ROLLUP).collect();
        assert!(rollup.contains(&(Counter::SmrPss, 1200)) && rollup.contains(&(Counter::SmrSwapPss, 0)));
        assert_eq!(rollup.len(), 6);
    }

    #[test]
    fn run_times_are_found_behind_any_name() {
        let stat = b"4242 (a) b (c)) S 1 2 3 4 5 6 7 8 9 10 111 222 13 14 15 16 17 18 333 20 21";
        let expected = Runtimes { user_ticks: 111, system_ticks: 222, start_ticks: 333 };
        assert_eq!(Runtimes::parse(stat), Some(expected));
        assert_eq!(Runtimes::parse(b"4242 (x) S 1"), None);
        assert_eq!(Runtimes::parse(b""), None);
        let own = std::fs::read("/proc/self/stat").unwrap();
        assert!(Runtimes::parse(&own).unwrap().start_ticks > 0);
    }

    #[test]
    fn arguments_end_at_nul_bytes() {
        assert_eq!(arguments(b"/bin/sh\0-c\0x y\0").collect::<Vec<_>>(), [&b"/bin/sh"[..], b"-c", b"x y"]);
        assert_eq!(arguments(b"no terminator").collect::<Vec<_>>(), [&b"no terminator"[..]]);
        assert_eq!(arguments(b"").count(), 0);
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_parse_without_a_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..300), cut in 0usize..2000) {
            for text in [bytes.as_slice(), STATUS.get(..cut).unwrap_or(STATUS)] {
                if let Some(status) = Status::parse(text) {
                    let _ = status.namespaced_ids().count();
                }
                let _ = memory_counters(text).count();
                let _ = Runtimes::parse(text);
                let _ = arguments(text).count();
            }
        }
    }
}
