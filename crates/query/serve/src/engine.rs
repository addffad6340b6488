//! The trace that is asked. It was named at the start, or comes from a client in pieces, which are read while they come.

use std::io::{self, Read};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use ferretto_analysis::{Options, Rows, Stop, Trace};
use ferretto_import::{Options as ImportOptions, import};
use ferretto_trace_tables::Tables;

use crate::wire::words;

/// Pieces that wait to be read: whoever sends them waits, too.
const PIECES_WAITING: usize = 2;

/// What is asked, by all connections.
#[derive(Debug)]
pub struct Engine {
    state: Mutex<State>,
    /// The name of a trace that stays.
    name: Option<String>,
    import: ImportOptions,
    options: Options,
}

#[derive(Debug)]
enum State {
    Empty,
    Coming(Coming),
    Ready(Arc<Trace>),
    Failed(String),
}

/// A trace that is being read while it comes.
#[derive(Debug)]
struct Coming {
    pieces: SyncSender<Vec<u8>>,
    reader: JoinHandle<Result<Tables, String>>,
    bytes: u64,
}

/// Why something was not done, for people.
pub(crate) type Refused = String;

const NO_TRACE: &str = "no trace is loaded: send one, or start the server with one";
const NOT_WHOLE: &str = "the trace is still coming: say that it is whole first (notify_eof)";

impl Engine {
    /// For a trace that stays, and is called so.
    #[must_use]
    pub fn of(trace: Trace, name: &str) -> Self {
        Self {
            state: Mutex::new(State::Ready(Arc::new(trace))),
            name: Some(name.to_owned()),
            import: ImportOptions::default(),
            options: Options::default(),
        }
    }

    /// For traces that clients send. They are read and asked within these bounds.
    #[must_use]
    pub fn empty(import: ImportOptions, options: Options) -> Self {
        Self { state: Mutex::new(State::Empty), name: None, import, options }
    }

    /// What the trace is called, if there is one that stays.
    pub(crate) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The next piece of a trace. Gives how much has come.
    pub(crate) fn append(&self, piece: Vec<u8>) -> Result<u64, Refused> {
        let mut state = self.lock();
        if matches!(*state, State::Empty) {
            *state = State::Coming(Coming::start(&self.import).map_err(|error| error.to_string())?);
        }
        let coming = match &mut *state {
            State::Coming(coming) => coming,
            State::Failed(error) => return Err(error.clone()),
            State::Empty | State::Ready(_) => return Err(self.is_loaded()),
        };
        coming.bytes += piece.len() as u64;
        let bytes = coming.bytes;
        if coming.pieces.send(piece).is_err() {
            // It was not read on: what comes has no end, or is no trace.
            self.finish_coming(&mut state);
            if let State::Failed(error) = &*state {
                return Err(error.clone());
            }
        }
        Ok(bytes)
    }

    /// All pieces have come.
    pub(crate) fn finish(&self) -> Result<(), Refused> {
        let mut state = self.lock();
        if matches!(*state, State::Empty) {
            // The tables of no trace, which statements can be tried on.
            *state = self.ready(Ok(Tables::default()));
        }
        self.finish_coming(&mut state);
        match &*state {
            State::Failed(error) => Err(error.clone()),
            _ => Ok(()),
        }
    }

    fn finish_coming(&self, state: &mut State) {
        if let State::Coming(coming) = std::mem::replace(state, State::Empty) {
            *state = self.ready(coming.end());
        }
    }

    fn ready(&self, tables: Result<Tables, String>) -> State {
        let trace =
            tables.and_then(|tables| Trace::of(tables, &self.options).map_err(|error| error.to_string()));
        trace.map_or_else(State::Failed, |trace| State::Ready(Arc::new(trace)))
    }

    /// Forgets the trace, so that another may come.
    pub(crate) fn reset(&self) -> Result<(), Refused> {
        if self.name.is_some() {
            return Err(self.is_loaded());
        }
        let mut state = self.lock();
        if let State::Coming(coming) = std::mem::replace(&mut *state, State::Empty) {
            let _ = coming.end();
        }
        Ok(())
    }

    /// Forgets what queries have made.
    pub(crate) fn restore(&self) -> Result<(), Refused> {
        self.trace()?.restore().map_err(|error| error.to_string())
    }

    /// Runs statements, until they are ended.
    pub(crate) fn query(&self, sql: &str, stop: &Stop) -> Result<Rows, Refused> {
        self.trace()?.query_until(sql, stop).map_err(|error| words(&error))
    }

    fn trace(&self) -> Result<Arc<Trace>, Refused> {
        match &*self.lock() {
            State::Ready(trace) => Ok(trace.clone()),
            State::Empty => Err(NO_TRACE.to_owned()),
            State::Coming(_) => Err(NOT_WHOLE.to_owned()),
            State::Failed(error) => Err(error.clone()),
        }
    }

    fn is_loaded(&self) -> Refused {
        match &self.name {
            Some(name) => format!("this server is for {name}, and takes no other trace: start one without"),
            None => "a trace is loaded already: reset the server first".to_owned(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code under the lock leaves it half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Coming {
    fn start(options: &ImportOptions) -> io::Result<Self> {
        let (pieces, waiting) = sync_channel(PIECES_WAITING);
        let options = options.clone();
        let read = move || {
            let pieces = Pieces { waiting, piece: Vec::new(), at: 0 };
            let imported = import(pieces, &options, &mut |_| true);
            imported.map(|(tables, _)| tables).map_err(|error| format!("the trace cannot be read: {error}"))
        };
        let reader = std::thread::Builder::new().name("import".to_owned()).spawn(read)?;
        Ok(Self { pieces, reader, bytes: 0 })
    }

    fn end(self) -> Result<Tables, String> {
        drop(self.pieces);
        self.reader.join().unwrap_or_else(|_| Err("the trace cannot be read: its reader failed".to_owned()))
    }
}

/// Pieces, as one file.
struct Pieces {
    waiting: Receiver<Vec<u8>>,
    piece: Vec<u8>,
    at: usize,
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.at >= self.piece.len() {
            let Ok(next) = self.waiting.recv() else { return Ok(0) };
            (self.piece, self.at) = (next, 0);
        }
        let rest = self.piece.get(self.at..).unwrap_or_default();
        let len = rest.len().min(buffer.len());
        if let (Some(to), Some(from)) = (buffer.get_mut(..len), rest.get(..len)) {
            to.copy_from_slice(from);
        }
        self.at += len;
        Ok(len)
    }
}
