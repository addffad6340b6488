//! System calls (seccomp(2)): those that are on no list here fail with EPERM.
//!
//! They fail and do not kill: a list that has forgotten something costs a feature, and not the recording. `clone3`, whose flags no filter
//! can see, is said to be unknown, as C libraries expect of old kernels; `clone` may start threads.

use crate::Rights;

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
pub(crate) fn restrict(_: &Rights) -> Result<(), String> {
    Err("not made for this processor".to_owned())
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))]
pub(crate) use lists::restrict;

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))]
mod lists {
    use std::collections::BTreeMap;

    use seccompiler::{
        BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
        SeccompFilter, SeccompRule,
    };

    use super::Rights;

    /// Which calls, and with which arguments; with any if there is none.
    type Calls = BTreeMap<i64, Vec<SeccompRule>>;

    /// Memory, threads, time and the end.
    const LIVING: &[i64] = &[
        libc::SYS_brk,
        libc::SYS_clock_getres,
        libc::SYS_clock_gettime,
        libc::SYS_clock_nanosleep,
        libc::SYS_exit,
        libc::SYS_exit_group,
        libc::SYS_futex,
        libc::SYS_get_robust_list,
        libc::SYS_getcpu,
        libc::SYS_getegid,
        libc::SYS_geteuid,
        libc::SYS_getgid,
        libc::SYS_getpid,
        libc::SYS_getppid,
        libc::SYS_getpriority,
        libc::SYS_getrandom,
        libc::SYS_getresgid,
        libc::SYS_getresuid,
        libc::SYS_getrusage,
        libc::SYS_gettid,
        libc::SYS_gettimeofday,
        libc::SYS_getuid,
        libc::SYS_madvise,
        libc::SYS_membarrier,
        libc::SYS_mincore,
        libc::SYS_mmap,
        libc::SYS_mprotect,
        libc::SYS_mremap,
        libc::SYS_munmap,
        libc::SYS_nanosleep,
        libc::SYS_prctl,
        libc::SYS_restart_syscall,
        libc::SYS_rseq,
        libc::SYS_rt_sigaction,
        libc::SYS_rt_sigprocmask,
        libc::SYS_rt_sigreturn,
        libc::SYS_sched_get_priority_max,
        libc::SYS_sched_get_priority_min,
        libc::SYS_sched_getaffinity,
        libc::SYS_sched_getattr,
        libc::SYS_sched_getparam,
        libc::SYS_sched_getscheduler,
        libc::SYS_sched_yield,
        libc::SYS_set_robust_list,
        libc::SYS_set_tid_address,
        libc::SYS_sigaltstack,
        libc::SYS_sysinfo,
        libc::SYS_uname,
    ];

    /// Descriptors of all kinds. Which files can be opened is not said here.
    const DESCRIPTORS: &[i64] = &[
        libc::SYS_close,
        libc::SYS_close_range,
        libc::SYS_copy_file_range,
        libc::SYS_dup,
        libc::SYS_dup3,
        libc::SYS_epoll_create1,
        libc::SYS_epoll_ctl,
        libc::SYS_epoll_pwait,
        libc::SYS_epoll_pwait2,
        libc::SYS_eventfd2,
        libc::SYS_faccessat,
        libc::SYS_faccessat2,
        libc::SYS_fallocate,
        libc::SYS_fcntl,
        libc::SYS_fdatasync,
        libc::SYS_flock,
        libc::SYS_fstat,
        libc::SYS_fstatfs,
        libc::SYS_fsync,
        libc::SYS_ftruncate,
        libc::SYS_getcwd,
        libc::SYS_getdents64,
        libc::SYS_inotify_add_watch,
        libc::SYS_inotify_init1,
        libc::SYS_inotify_rm_watch,
        libc::SYS_ioctl,
        libc::SYS_lseek,
        libc::SYS_memfd_create,
        libc::SYS_newfstatat,
        libc::SYS_openat,
        libc::SYS_openat2,
        libc::SYS_pipe2,
        libc::SYS_ppoll,
        libc::SYS_pread64,
        libc::SYS_preadv,
        libc::SYS_pwrite64,
        libc::SYS_pwritev,
        libc::SYS_read,
        libc::SYS_readlinkat,
        libc::SYS_readv,
        libc::SYS_sendfile,
        libc::SYS_splice,
        libc::SYS_statfs,
        libc::SYS_statx,
        libc::SYS_timerfd_create,
        libc::SYS_timerfd_gettime,
        libc::SYS_timerfd_settime,
        libc::SYS_unlinkat,
        libc::SYS_write,
        libc::SYS_writev,
    ];

    /// Sockets that are there, and what comes in by them.
    const SERVING: &[i64] = &[
        libc::SYS_accept,
        libc::SYS_accept4,
        libc::SYS_getpeername,
        libc::SYS_getsockname,
        libc::SYS_getsockopt,
        libc::SYS_listen,
        libc::SYS_recvfrom,
        libc::SYS_recvmsg,
        libc::SYS_sendmsg,
        libc::SYS_sendto,
        libc::SYS_setsockopt,
        libc::SYS_shutdown,
        libc::SYS_socketpair,
    ];

    /// What older processors' system calls are still called by.
    #[cfg(target_arch = "x86_64")]
    const OLD_NAMES: &[i64] = &[
        libc::SYS_access,
        libc::SYS_arch_prctl,
        libc::SYS_dup2,
        libc::SYS_epoll_wait,
        libc::SYS_lstat,
        libc::SYS_open,
        libc::SYS_poll,
        libc::SYS_readlink,
        libc::SYS_stat,
        libc::SYS_time,
        libc::SYS_unlink,
    ];
    #[cfg(not(target_arch = "x86_64"))]
    const OLD_NAMES: &[i64] = &[];

    const CONNECTING: &[i64] = &[libc::SYS_connect, libc::SYS_bind];

    #[cfg(target_arch = "x86_64")]
    const FOLDERS: &[i64] = &[libc::SYS_mkdirat, libc::SYS_mkdir, libc::SYS_rmdir];
    #[cfg(not(target_arch = "x86_64"))]
    const FOLDERS: &[i64] = &[libc::SYS_mkdirat];

    /// For the threads of this process: which others may be changed is the business of [`SysNice`](crate::Capability::SysNice).
    const SCHEDULING: &[i64] = &[
        libc::SYS_sched_setaffinity,
        libc::SYS_sched_setattr,
        libc::SYS_sched_setparam,
        libc::SYS_sched_setscheduler,
        libc::SYS_setpriority,
    ];

    const FAMILIES: [i32; 4] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_VSOCK];

    pub(crate) fn restrict(rights: &Rights) -> Result<(), String> {
        install(rights).map_err(|error| error.to_string())
    }

    fn install(rights: &Rights) -> Result<(), seccompiler::Error> {
        // The one that is installed last is asked first, and of two refusals its number counts.
        let (allow, refuse) = (SeccompAction::Allow, SeccompAction::Errno(libc::EPERM as u32));
        let unknown = SeccompAction::Errno(libc::ENOSYS as u32);
        let allowed = compile(allowed(rights)?, refuse, allow.clone())?;
        let hidden = compile(BTreeMap::from([(libc::SYS_clone3, Vec::new())]), allow, unknown)?;
        seccompiler::apply_filter(&allowed)?;
        seccompiler::apply_filter(&hidden)
    }

    fn compile(
        calls: Calls,
        others: SeccompAction,
        these: SeccompAction,
    ) -> Result<BpfProgram, BackendError> {
        SeccompFilter::new(calls, others, these, std::env::consts::ARCH.try_into()?)?.try_into()
    }

    fn allowed(rights: &Rights) -> Result<Calls, BackendError> {
        let mut lists = vec![LIVING, DESCRIPTORS, SERVING, OLD_NAMES, SCHEDULING];
        if rights.connects {
            lists.push(CONNECTING);
        }
        if !rights.controls.is_empty() {
            lists.push(FOLDERS);
        }
        let mut calls: Calls = lists.concat().into_iter().map(|call| (call, Vec::new())).collect();
        // For the second filter to refuse, and, once that is there, to go on installing nothing.
        calls.insert(libc::SYS_clone3, Vec::new());
        calls.insert(libc::SYS_seccomp, Vec::new());
        calls.insert(libc::SYS_clone, vec![argument(0, has_bit(libc::CLONE_THREAD as u64))?]);
        // To itself, which is how a program aborts.
        calls.insert(libc::SYS_tgkill, vec![argument(0, (SeccompCmpOp::Eq, std::process::id().into()))?]);
        let families = FAMILIES.iter().map(|family| argument(0, (SeccompCmpOp::Eq, *family as u64)));
        calls.insert(libc::SYS_socket, families.collect::<Result<_, _>>()?);
        Ok(calls)
    }

    fn has_bit(bit: u64) -> (SeccompCmpOp, u64) {
        (SeccompCmpOp::MaskedEq(bit), bit)
    }

    fn argument(index: u8, (op, value): (SeccompCmpOp, u64)) -> Result<SeccompRule, BackendError> {
        SeccompRule::new(vec![SeccompCondition::new(index, SeccompCmpArgLen::Dword, op, value)?])
    }
}
