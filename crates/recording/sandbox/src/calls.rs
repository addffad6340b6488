//! System calls (seccomp(2)): those that are on no list here fail with EPERM.
//!
//! They fail and do not kill: a list that has forgotten something costs a feature, and not the recording. (A call in the manner of another
//! processor, such as `int 0x80` on x86-64, kills: it cannot be known by its number, and no list has forgotten it.) `clone3`, whose flags no filter
//! can see, is said to be unknown, as C libraries expect of old kernels; `clone` may start threads.

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
pub(crate) fn restrict(_: &crate::Rights) -> Result<(), String> {
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

    use crate::{Capability, Connection, Rights};

    /// Which calls, and with which arguments; with any if there is none.
    type Calls = BTreeMap<i64, Vec<SeccompRule>>;

    /// A call, and the ways in which it may be made: the arguments have to be as in one of them.
    type ByArguments = (i64, Vec<Vec<Argument>>);

    /// An argument by its place. The kernel takes all of these as 32 bits, whatever is above.
    type Argument = (u8, SeccompCmpOp, u32);

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
        libc::SYS_fdatasync,
        libc::SYS_flock,
        libc::SYS_fstat,
        libc::SYS_fstatfs,
        libc::SYS_fsync,
        libc::SYS_ftruncate,
        libc::SYS_getcwd,
        libc::SYS_getdents64,
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
        libc::SYS_recvfrom,
        libc::SYS_recvmsg,
        libc::SYS_shutdown,
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

    /// Who connects to a socket may wait for it to be there. It is a look at names in folders that Landlock does not keep shut.
    const WAITING: &[i64] =
        &[libc::SYS_inotify_add_watch, libc::SYS_inotify_init1, libc::SYS_inotify_rm_watch];

    /// What resolvers of C libraries do with their sockets, besides.
    const RESOLVING: &[i64] = &[libc::SYS_bind];

    #[cfg(target_arch = "x86_64")]
    const FOLDERS: &[i64] = &[libc::SYS_mkdirat, libc::SYS_mkdir, libc::SYS_rmdir];
    #[cfg(not(target_arch = "x86_64"))]
    const FOLDERS: &[i64] = &[libc::SYS_mkdirat];

    /// Descriptors are copied and asked for their flags. Not: whom they signal (`F_SETOWN`), and leases, for which others have to wait.
    const FCNTLS: [i32; 8] = [
        libc::F_DUPFD,
        libc::F_DUPFD_CLOEXEC,
        libc::F_GETFD,
        libc::F_SETFD,
        libc::F_GETFL,
        libc::F_SETFL,
        libc::F_ADD_SEALS,
        libc::F_GET_SEALS,
    ];

    /// To wait or not, whether it is a terminal, and what a peer has not read. Not: what types into one (`TIOCSTI`), or signals others
    /// (`FIOSETOWN`).
    const IOCTLS: [libc::Ioctl; 5] =
        [libc::FIONBIO, libc::FIOCLEX, libc::TCGETS, libc::TIOCGWINSZ, libc::TIOCOUTQ];

    /// PERF_EVENT_IOC_ENABLE, _DISABLE, _SET_OUTPUT and _SET_FILTER (linux/perf_event.h).
    const OF_EVENTS: [u32; 4] = [0x2400, 0x2401, 0x2405, 0x4008_2406];
    /// What opens files with flags that no filter can see, or removes them.
    const NOT_TO_READ: [i64; 2] = [libc::SYS_openat2, libc::SYS_unlinkat];

    /// Of linux/resource.h: C libraries differ in its type.
    const PRIO_PROCESS: u32 = 0;

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
        let mut lists = vec![LIVING, DESCRIPTORS, SERVING, OLD_NAMES];
        if rights.connects.contains(&Connection::Names) {
            lists.push(RESOLVING);
        }
        if !rights.connects.is_empty() {
            lists.push(&[libc::SYS_connect]);
        }
        if rights.connects.contains(&Connection::Unix) {
            lists.push(WAITING);
        }
        if !rights.controls.is_empty() {
            lists.push(FOLDERS);
        }
        let mut calls: Calls = lists.concat().into_iter().map(|call| (call, Vec::new())).collect();
        // For the second filter to refuse, and, once that is there, to go on installing nothing.
        calls.insert(libc::SYS_clone3, Vec::new());
        calls.insert(libc::SYS_seccomp, Vec::new());
        if rights.samples {
            calls.insert(libc::SYS_perf_event_open, Vec::new());
        }
        if rights.looks_into_programs {
            calls.insert(libc::SYS_pidfd_open, Vec::new());
        }
        if rights.looks() {
            calls.retain(|call, _| !NOT_TO_READ.contains(call));
            #[cfg(target_arch = "x86_64")]
            calls.remove(&libc::SYS_unlink);
        }
        for (call, ways) in decided_by_arguments(rights) {
            let rules = ways.into_iter().map(rule).collect::<Result<_, _>>()?;
            calls.insert(call, rules);
        }
        Ok(calls)
    }

    fn decided_by_arguments(rights: &Rights) -> Vec<ByArguments> {
        let mut calls = vec![
            (libc::SYS_clone, vec![vec![has(0, libc::CLONE_THREAD as u32)]]),
            // To itself, which is how a program aborts.
            (libc::SYS_tgkill, vec![vec![is(0, std::process::id())]]),
            (libc::SYS_fcntl, FCNTLS.map(|command| vec![is(1, command as u32)]).to_vec()),
            (libc::SYS_ioctl, ioctls(rights)),
        ];
        if rights.looks() {
            calls.push((libc::SYS_openat, vec![vec![reads_only(2)]]));
            #[cfg(target_arch = "x86_64")]
            calls.push((libc::SYS_open, vec![vec![reads_only(1)]]));
        }
        calls.extend(sending(rights));
        calls.extend(sockets(rights));
        if rights.capabilities.contains(&Capability::SysNice) {
            calls.extend(scheduling());
        }
        calls
    }

    fn ioctls(rights: &Rights) -> Vec<Vec<Argument>> {
        let of_events = OF_EVENTS.iter().filter(|_| rights.samples).copied();
        IOCTLS
            .iter()
            .map(|request| *request as u32)
            .chain(of_events)
            .map(|request| vec![is(1, request)])
            .collect()
    }

    /// Flags by which a file is neither written nor made nor emptied.
    fn reads_only(place: u8) -> Argument {
        let writes = libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC;
        (place, SeccompCmpOp::MaskedEq(u64::from(writes as u32)), libc::O_RDONLY as u32)
    }

    /// Not to where nothing is connected: the first bytes of a TCP connection (`MSG_FASTOPEN`) would make one, and Landlock does not see it.
    fn sending(rights: &Rights) -> Vec<ByArguments> {
        let slowly = |flags| vec![vec![lacks(flags, libc::MSG_FASTOPEN as u32)]];
        let mut calls = vec![(libc::SYS_sendto, slowly(3)), (libc::SYS_sendmsg, slowly(2))];
        if rights.connects.contains(&Connection::Names) {
            calls.push((libc::SYS_sendmmsg, slowly(3)));
        }
        // Makes another kind of socket of one of TCP.
        let (level, name) = (is_not(1, libc::IPPROTO_TCP as u32), is_not(2, libc::TCP_ULP as u32));
        calls.push((libc::SYS_setsockopt, vec![vec![level], vec![name]]));
        calls
    }

    /// Streams of the families that are connected to, and pairs. Datagrams go where nobody has connected to, and other protocols, such as
    /// MPTCP, are nothing that Landlock knows.
    fn sockets(rights: &Rights) -> Vec<ByArguments> {
        let of = |family: i32, kind: i32| {
            let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
            vec![
                is(0, family as u32),
                (1, SeccompCmpOp::MaskedEq(u64::from(!flags as u32)), kind as u32),
                is(2, 0),
            ]
        };
        let stream = |family| of(family, libc::SOCK_STREAM);
        let ways = |connection: &Connection| match connection {
            Connection::Unix => vec![stream(libc::AF_UNIX)],
            Connection::Tcp => vec![stream(libc::AF_INET), stream(libc::AF_INET6)],
            Connection::Vsock => vec![stream(libc::AF_VSOCK)],
            // Some resolvers are services of this machine.
            Connection::Names => vec![
                of(libc::AF_INET, libc::SOCK_DGRAM),
                of(libc::AF_INET6, libc::SOCK_DGRAM),
                stream(libc::AF_UNIX),
            ],
        };
        let ways: Vec<_> = rights.connects.iter().flat_map(ways).collect();
        let mut calls = vec![(libc::SYS_socketpair, vec![stream(libc::AF_UNIX)])];
        // A call without ways is one that may be made in any.
        if !ways.is_empty() {
            calls.push((libc::SYS_socket, ways));
        }
        calls
    }

    /// Of the thread that asks: [`SysNice`](Capability::SysNice) is for those of others, too.
    fn scheduling() -> [ByArguments; 2] {
        [
            (libc::SYS_sched_setscheduler, vec![vec![is(0, 0)]]),
            (libc::SYS_setpriority, vec![vec![is(0, PRIO_PROCESS), is(1, 0)]]),
        ]
    }

    fn is(place: u8, value: u32) -> Argument {
        (place, SeccompCmpOp::Eq, value)
    }

    fn is_not(place: u8, value: u32) -> Argument {
        (place, SeccompCmpOp::Ne, value)
    }

    fn has(place: u8, bit: u32) -> Argument {
        (place, SeccompCmpOp::MaskedEq(bit.into()), bit)
    }

    fn lacks(place: u8, bit: u32) -> Argument {
        (place, SeccompCmpOp::MaskedEq(bit.into()), 0)
    }

    fn rule(arguments: Vec<Argument>) -> Result<SeccompRule, BackendError> {
        let condition = |(place, op, value): Argument| {
            SeccompCondition::new(place, SeccompCmpArgLen::Dword, op, value.into())
        };
        SeccompRule::new(arguments.into_iter().map(condition).collect::<Result<_, _>>()?)
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        /// The answer of a filter, as the kernel would find it.
        fn run(program: &BpfProgram, call: i64, arguments: [u64; 4]) -> u32 {
            const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
            const AND: u32 = libc::BPF_ALU | libc::BPF_AND | libc::BPF_K;
            const JUMP: u32 = libc::BPF_JMP | libc::BPF_JA;
            const IF_EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
            const RETURN: u32 = libc::BPF_RET | libc::BPF_K;
            // `struct seccomp_data`: the call, the processor, which the second instruction compares, and two words more.
            let mut data = vec![call as u32, program[1].k, 0, 0];
            data.extend(arguments.iter().flat_map(|argument| [*argument as u32, (argument >> 32) as u32]));
            let (mut at, mut value) = (0, 0);
            loop {
                let instruction = &program[at];
                let k = instruction.k as usize;
                at += 1;
                match u32::from(instruction.code) {
                    LOAD => value = data[k / 4],
                    AND => value &= instruction.k,
                    JUMP => at += k,
                    IF_EQUAL if value == instruction.k => at += usize::from(instruction.jt),
                    IF_EQUAL => at += usize::from(instruction.jf),
                    RETURN => return instruction.k,
                    other => panic!("instruction {other:#x}"),
                }
            }
        }

        /// Who may make this call: `n`obody's rights are enough, or those to connect by `u`nix sockets, `t`cp or `v`sock, to `r`esolve names,
        /// or to change the `p`riority.
        fn who_may(call: i64, arguments: [u64; 4]) -> String {
            let connects = |connection| Rights { connects: vec![connection], ..Rights::default() };
            let all = [
                ('n', Rights::default()),
                ('u', connects(Connection::Unix)),
                ('t', connects(Connection::Tcp)),
                ('v', connects(Connection::Vsock)),
                ('r', connects(Connection::Names)),
                ('p', Rights { capabilities: vec![Capability::SysNice], ..Rights::default() }),
            ];
            let may = |rights: &Rights| {
                let refuse = SeccompAction::Errno(libc::EPERM as u32);
                let program = compile(allowed(rights).unwrap(), refuse, SeccompAction::Allow).unwrap();
                run(&program, call, arguments) == libc::SECCOMP_RET_ALLOW
            };
            all.iter().filter(|(_, rights)| may(rights)).map(|(letter, _)| letter).collect()
        }

        const ALL: &str = "nutvrp";
        /// A bit that the kernel does not look at.
        const ABOVE: u64 = 1 << 32;

        fn assert_may(cases: &[(i64, [u64; 4], &str)]) {
            for (call, arguments, expected) in cases {
                assert_eq!(who_may(*call, *arguments), *expected, "call {call} with {arguments:x?}");
            }
        }

        #[test]
        fn sockets_are_of_the_kinds_that_are_connected_by() {
            let socket = |family: i32, kind: i32, protocol: i32, who| {
                (libc::SYS_socket, [family as u64, kind as u64, protocol as u64, 0], who)
            };
            let pair =
                |kind: i32, who| (libc::SYS_socketpair, [libc::AF_UNIX as u64, kind as u64, 0, 0], who);
            assert_may(&[
                socket(libc::AF_UNIX, libc::SOCK_STREAM, 0, "ur"),
                socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, 0, "ur"),
                socket(libc::AF_UNIX, libc::SOCK_DGRAM, 0, ""),
                socket(libc::AF_UNIX, libc::SOCK_SEQPACKET, 0, ""),
                socket(libc::AF_INET, libc::SOCK_STREAM, 0, "t"),
                socket(libc::AF_INET6, libc::SOCK_STREAM, 0, "t"),
                socket(libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_MPTCP, ""),
                socket(libc::AF_INET6, libc::SOCK_STREAM, libc::IPPROTO_SCTP, ""),
                socket(libc::AF_INET, libc::SOCK_DGRAM, 0, "r"),
                socket(libc::AF_INET6, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0, "r"),
                socket(libc::AF_INET, libc::SOCK_DGRAM, libc::IPPROTO_ICMP, ""),
                socket(libc::AF_INET, libc::SOCK_RAW, 0, ""),
                socket(libc::AF_VSOCK, libc::SOCK_STREAM, 0, "v"),
                socket(libc::AF_VSOCK, libc::SOCK_DGRAM, 0, ""),
                socket(libc::AF_NETLINK, libc::SOCK_RAW, 0, ""),
                pair(libc::SOCK_STREAM | libc::SOCK_CLOEXEC, ALL),
                pair(libc::SOCK_DGRAM, ""),
                (libc::SYS_connect, [3, 0, 0, 0], "utvr"),
                (libc::SYS_bind, [3, 0, 0, 0], "r"),
                (libc::SYS_listen, [3, 1, 0, 0], ""),
            ]);
        }

        #[test]
        fn nothing_is_sent_to_where_nothing_is_connected() {
            let flags = libc::MSG_NOSIGNAL as u64;
            let fast = flags | libc::MSG_FASTOPEN as u64;
            let option =
                |level: i32, name: i32, who| (libc::SYS_setsockopt, [3, level as u64, name as u64, 0], who);
            assert_may(&[
                (libc::SYS_sendto, [3, 0, 0, flags], ALL),
                (libc::SYS_sendto, [3, 0, 0, fast], ""),
                (libc::SYS_sendmsg, [3, 0, flags, 0], ALL),
                (libc::SYS_sendmsg, [3, 0, fast | ABOVE, 0], ""),
                (libc::SYS_sendmmsg, [3, 0, 1, flags], "r"),
                (libc::SYS_sendmmsg, [3, 0, 1, fast], ""),
                option(libc::IPPROTO_TCP, libc::TCP_NODELAY, ALL),
                option(libc::SOL_SOCKET, libc::TCP_ULP, ALL),
                option(libc::IPPROTO_TCP, libc::TCP_ULP, ""),
            ]);
        }

        #[test]
        fn descriptors_signal_nobody_and_type_nothing() {
            /// Of asm-generic/fcntl.h and asm-generic/ioctls.h.
            const F_SETSIG: u64 = 10;
            const F_SETOWN_EX: u64 = 15;
            const FIOSETOWN: libc::Ioctl = 0x8901;
            let fcntl = |command: u64, who| (libc::SYS_fcntl, [3, command, 1, 0], who);
            let ioctl =
                |request: libc::Ioctl, who| (libc::SYS_ioctl, [0, u64::from(request as u32), 1, 0], who);
            assert_may(&[
                fcntl(libc::F_SETFL as u64, ALL),
                fcntl(libc::F_SETOWN as u64, ""),
                fcntl(libc::F_SETOWN as u64 | ABOVE, ""),
                fcntl(F_SETSIG, ""),
                fcntl(F_SETOWN_EX, ""),
                fcntl(libc::F_SETLEASE as u64, ""),
                ioctl(libc::FIONBIO, ALL),
                ioctl(libc::TIOCOUTQ, ALL),
                ioctl(libc::TIOCSTI, ""),
                (libc::SYS_ioctl, [0, u64::from(libc::TIOCSTI as u32) | ABOVE, 1, 0], ""),
                ioctl(libc::TIOCLINUX, ""),
                ioctl(FIOSETOWN, ""),
                ioctl(libc::TCSETS, ""),
            ]);
        }

        #[test]
        fn only_the_own_thread_gets_another_priority() {
            /// Of linux/resource.h.
            const PRIO_USER: u64 = 2;
            let another = 4711;
            assert_may(&[
                (libc::SYS_setpriority, [PRIO_PROCESS.into(), 0, 1, 0], "p"),
                (libc::SYS_setpriority, [PRIO_PROCESS.into(), another, 1, 0], ""),
                (libc::SYS_setpriority, [PRIO_USER, 0, 1, 0], ""),
                (libc::SYS_sched_setscheduler, [0, 0, 0, 0], "p"),
                (libc::SYS_sched_setscheduler, [another, 0, 0, 0], ""),
                (libc::SYS_sched_setaffinity, [0, 0, 0, 0], ""),
                (libc::SYS_sched_setattr, [another, 0, 0, 0], ""),
                (libc::SYS_tgkill, [std::process::id().into(), 1, 1, 0], ALL),
                (libc::SYS_tgkill, [another, another, 1, 0], ""),
            ]);
        }
    }
}
