//! Which lines of a file are of the trace (upstream: systrace_trace_parser.cc).
//!
//! Systrace's HTML has the trace in a script of type `application/text`, and may have more of them: a list of processes as `ps` prints it,
//! with those of threads, and a list of control groups. In a file without HTML all lines are the trace's.

use ferretto_trace_model::model::Model;
use ferretto_trace_model::processes::{ProcessName, ThreadName};

const SCRIPT: &[u8] = b"<script class=\"trace-data\" type=\"application/text\">";
const SCRIPT_END: &[u8] = b"</script>";

/// Where in the file it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// At the first line.
    #[default]
    Start,
    /// In HTML that is none of the trace.
    Html,
    /// In a script, of which nothing is known yet.
    Script,
    /// In the trace.
    Trace,
    /// In the list of processes.
    Processes,
    /// In that of threads.
    Threads,
    /// In that of control groups.
    Groups,
    /// Behind the trace.
    End,
}

/// What a line is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn<'a> {
    /// It is of the trace.
    Event,
    /// It says what a process or a thread is called.
    Process(Listed<'a>),
    /// Nothing.
    Skip,
    /// The trace is over, and so is the file.
    End,
}

/// A line of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Listed<'a> {
    is_thread: bool,
    /// The process.
    pid: &'a [u8],
    /// Of a thread its number, of a process its parent's.
    other: &'a [u8],
    name: &'a [u8],
}

/// Knows where in the file it is.
#[derive(Debug, Default)]
pub(super) struct Sections {
    state: State,
}

impl Sections {
    /// What the next line is for.
    pub(super) fn turn<'a>(&mut self, line: &'a [u8]) -> Turn<'a> {
        if self.state == State::Start {
            if is_cpus_line(line) {
                return Turn::Skip;
            }
            self.state = if line.starts_with(b"<") { State::Html } else { State::Trace };
        }
        let is_script_end = contains(line, SCRIPT_END);
        self.state = match self.state {
            State::Html if contains(line, SCRIPT) => State::Script,
            State::Script => match () {
                () if line.starts_with(b"#") && contains(line, b"TASK-PID") => State::Trace,
                () if line.starts_with(b"PROCESS DUMP") => State::Processes,
                () if line.starts_with(b"CGROUP DUMP") => State::Groups,
                () if is_script_end => State::Html,
                () => State::Script,
            },
            State::Trace if is_script_end => State::End,
            State::Trace => return Turn::Event,
            State::Processes | State::Threads | State::Groups if is_script_end => State::Html,
            State::Processes | State::Threads => return self.list(line),
            state => state,
        };
        if self.state == State::End { Turn::End } else { Turn::Skip }
    }

    /// Whether the trace of a page has not begun.
    pub(super) fn is_html(&self) -> bool {
        !matches!(self.state, State::Start | State::Trace | State::End)
    }

    fn list<'a>(&mut self, line: &'a [u8]) -> Turn<'a> {
        let mut words = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
        let mut next = || words.next().unwrap_or_default();
        let first: [&[u8]; 4] = [next(), next(), next(), next()];
        match first {
            [b"USER", b"PID", b"TID", b"CMD"] if words.next().is_none() => {
                self.state = State::Threads;
                return Turn::Skip;
            }
            [b"USER", b"PID", b"PPID", b"VSZ"] if words.next().is_some() => {
                self.state = State::Processes;
                return Turn::Skip;
            }
            _ => {}
        }
        let [_, pid, other, fourth] = first;
        let is_thread = self.state == State::Threads;
        // A command may have blanks in it; a process's name is the ninth of ten words or more.
        let name = match is_thread {
            true => fourth.first().and_then(|first| line.get(offset_of(line, first)?..)),
            false => words.nth(4).filter(|_| words.next().is_some()),
        };
        let listed = name.map(|name| Listed { is_thread, pid, other, name });
        listed.map_or(Turn::Skip, Turn::Process)
    }
}

impl Listed<'_> {
    /// Says it to the model; nothing if its numbers are none.
    pub(super) fn apply(self, model: &mut Model) -> Option<()> {
        let number = |digits| std::str::from_utf8(digits).ok()?.parse::<u32>().ok().map(i64::from);
        let (pid, other) = (number(self.pid)?, number(self.other)?);
        let name = model.tables.strings.intern_bytes(self.name);
        let (tables, processes, stats) = model.processes_and_stats(model.file_machine());
        if self.is_thread {
            let utid = processes.thread_of(tables, other, pid);
            processes.name_thread(tables, utid, name, ThreadName::Other);
        } else {
            let parent = processes.process(tables, other);
            let upid = processes.process(tables, pid);
            processes.set_parent(tables, stats, upid, parent);
            processes.name_process(tables, upid, name, ProcessName::System);
        }
        Some(())
    }
}

/// `trace-cmd` says first how many processors there are.
fn is_cpus_line(line: &[u8]) -> bool {
    line.strip_prefix(b"cpus=").is_some_and(|count| count.iter().all(u8::is_ascii_digit))
}

fn contains(line: &[u8], part: &[u8]) -> bool {
    // Nearly no line of a trace has one of these.
    let first = part.first().copied().unwrap_or_default();
    line.contains(&first) && line.windows(part.len()).any(|window| window == part)
}

/// Where in a line a byte of it is.
fn offset_of(line: &[u8], byte: &u8) -> Option<usize> {
    line.iter().position(|it| std::ptr::eq(it, byte))
}
