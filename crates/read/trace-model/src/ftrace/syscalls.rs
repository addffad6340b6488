//! Calls into the kernel, by name (upstream: syscall_tracker.cc).
//!
//! Which number is which call depends on the kind of processor, which `uname` tells. The lists in `syscalls/` have a name a line, from number
//! 0; they are the kernel's own tables.

use ferretto_trace_tables::{MachineId, Str, Utid};
use foldhash::fast::RandomState;
use hashbrown::HashSet;

use super::apply::At;
use super::numbers as event;
use super::payload::Payload;
use crate::args::{Arg, ArgValue};
use crate::model::Model;
use crate::slices::Label;
use crate::stats::Stat;
use ferretto_protozero::read::Fields;

/// Numbers are below this. Upstream's; x32 has the highest.
const MAX_SYSCALLS: u32 = 550;
/// Arguments of a call. The kernel passes six.
const MAX_ARGS: usize = 16;

/// What is kept of a machine's calls.
#[derive(Debug, Default)]
pub(super) struct Syscalls {
    /// By number: the name, once it was asked for.
    names: Vec<Option<Str>>,
    arch: Option<Str>,
    /// Threads that are in `write`.
    in_write: HashSet<Utid, RandomState>,
}

impl Model {
    /// `sys_enter`.
    pub(super) fn sys_enter(&mut self, at: At<'_>, payload: &Payload<'_>, message: &[u8]) {
        let utid = self.kernel_thread(at.cpu.machine, at.tid);
        let Some(name) = self.syscall(at.cpu.machine, payload.u64(event::sys_enter::ID) as u32) else {
            return;
        };
        let args = self.call_args(message);
        let track = self.main_track(at.cpu.machine, utid);
        let label = Label { category: None, name: Some(name), args };
        let (is_sigreturn, is_write) = match self.tables.strings.get(name) {
            "sys_rt_sigreturn" => (true, false),
            "sys_write" => (false, true),
            _ => (false, false),
        };
        let (slices, mut out) = self.slices();
        if is_sigreturn {
            // It does not return.
            slices.complete(&mut out, at.ts, 0, track, label);
        } else {
            slices.begin(&mut out, at.ts, track, label);
        }
        if is_write {
            self.kernel(at.cpu.machine).syscalls.in_write.insert(utid);
        }
    }

    /// `sys_exit`.
    pub(super) fn sys_exit(&mut self, at: At<'_>, payload: &Payload<'_>) {
        use event::sys_exit as field;
        let utid = self.kernel_thread(at.cpu.machine, at.tid);
        let Some(name) = self.syscall(at.cpu.machine, payload.u64(field::ID) as u32) else { return };
        if self.tables.strings.get(name) == "sys_write"
            && !self.kernel(at.cpu.machine).syscalls.in_write.remove(&utid)
        {
            // It began before the trace, or was ended by what was written.
            return;
        }
        let track = self.main_track(at.cpu.machine, utid);
        let ret = [("ret", ArgValue::Int(payload.i64(field::RET)))];
        let args = if payload.has(field::RET) { &ret[..] } else { &[] };
        self.end_slice(at.ts, track, None, Some(name), args);
    }

    /// What a program writes into `trace_marker` may begin a slice in the middle of its call of `write`: the call ends there.
    pub(super) fn end_write(&mut self, at: At<'_>) {
        let machine = at.cpu.machine;
        let (_, processes) = self.processes(machine);
        let Some(utid) = processes.find_thread(at.tid.into()) else { return };
        if !self.kernel(machine).syscalls.in_write.remove(&utid) {
            return;
        }
        self.stats.count(Stat::TruncatedSysWriteDuration);
        let track = self.main_track(machine, utid);
        let name = self.tables.strings.intern("sys_write");
        self.end_slice(at.ts, track, None, Some(name), &[]);
    }

    fn syscall(&mut self, machine: MachineId, number: u32) -> Option<Str> {
        if number >= MAX_SYSCALLS {
            return None;
        }
        let kernel = self.kernel(machine);
        let (arch, calls) = (kernel.arch, &mut kernel.syscalls);
        if calls.arch != arch {
            calls.arch = arch;
            calls.names.clear();
        }
        if let Some(Some(name)) = calls.names.get(number as usize) {
            return Some(*name);
        }
        let table = arch.map(|arch| table_of(self.tables.strings.get(arch))).unwrap_or_default();
        let name = match table.lines().nth(number as usize) {
            Some(name) if !name.is_empty() => format!("sys_{name}"),
            _ => format!("sys_{number}"),
        };
        let name = self.tables.strings.intern(&name);
        let names = &mut self.kernel(machine).syscalls.names;
        names.resize(MAX_SYSCALLS as usize, None);
        if let Some(cell) = names.get_mut(number as usize) {
            *cell = Some(name);
        }
        Some(name)
    }

    fn call_args(&mut self, message: &[u8]) -> crate::args::ArgList {
        let mut list = std::mem::take(&mut self.raw.list);
        list.clear();
        let flat_key = self.tables.strings.intern("args");
        for part in Fields::new(message).map_while(Result::ok) {
            if part.number == event::sys_enter::ARGS && list.len() < MAX_ARGS {
                let key = self.raw.call_arg_key(list.len(), &mut self.tables.strings);
                let value = ArgValue::Uint(part.value.as_u64().unwrap_or(0));
                list.push(Arg { flat_key, key, value });
            }
        }
        let args = self.args.intern(&list);
        self.raw.list = list;
        args
    }
}

/// By what `uname` says of the machine.
fn table_of(machine: &str) -> &'static str {
    match machine {
        "aarch64" => include_str!("syscalls/arm64.txt"),
        "armv8l" | "armv7l" => include_str!("syscalls/arm32.txt"),
        "x86_64" => include_str!("syscalls/x86_64.txt"),
        "i686" => include_str!("syscalls/x86.txt"),
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_machine() {
        for (machine, number, expected) in
            [("x86_64", 1, "write"), ("aarch64", 64, "write"), ("i686", 4, "write"), ("armv7l", 4, "write")]
        {
            assert_eq!(table_of(machine).lines().nth(number), Some(expected), "{machine}");
        }
        assert_eq!(table_of("x86_64").lines().nth(15), Some("rt_sigreturn"));
        assert_eq!(table_of("s390x"), "");
    }
}
