//! The traces: where they are, what is known of each, and how one is read.

use std::fmt;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ferretto_import::{Error as ImportError, Imported, Options as ImportOptions, Progress, import};
use ferretto_trace_tables::Tables;

use crate::error::Error;

/// A trace as it is read.
pub struct Source {
    /// Its bytes.
    pub file: Box<dyn io::Read + Send>,
    /// The same as a file of which any part can be read, if it is one.
    pub again: Option<Arc<File>>,
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").finish_non_exhaustive()
    }
}

/// Where traces lie.
pub trait Places: fmt::Debug + Send + Sync {
    /// Opens one.
    ///
    /// # Errors
    ///
    /// If it is not there, or must not be read.
    fn open(&self, path: &str) -> io::Result<Source>;

    /// Its tables. `watch` hears how far that is, and says whether to go on.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    fn tables(
        &self,
        path: &str,
        options: &ImportOptions,
        watch: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<Read, ImportError> {
        let Source { file, again } = self.open(path)?;
        let options = ImportOptions { file: again, ..options.clone() };
        let (tables, imported) = import(file, &options, watch)?;
        Ok(Read { tables, is_whole: is_whole(&imported) })
    }
}

/// A trace that was read.
#[derive(Debug)]
pub struct Read {
    /// Its tables.
    pub tables: Tables,
    /// Nothing is missing that should be there.
    pub is_whole: bool,
}

/// Files of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Files;

impl Places for Files {
    fn open(&self, path: &str) -> io::Result<Source> {
        let file = File::open(path)?;
        let meta = file.metadata()?;
        if meta.is_dir() {
            return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a folder"));
        }
        let again = if meta.is_file() { Some(Arc::new(file.try_clone()?)) } else { None };
        Ok(Source { file: Box::new(file), again })
    }
}

/// What is known of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// Nobody has asked it.
    #[default]
    Unread,
    /// It was read to its end.
    Read,
    /// It was read, but something is missing that should be there.
    Torn,
    /// It cannot be read, as the words say.
    Bad(String),
}

/// The traces.
#[derive(Debug)]
pub(crate) struct Traces {
    paths: Arc<[String]>,
    places: Arc<dyn Places>,
    import: ImportOptions,
    /// So many are read at once.
    at_once: usize,
    states: Mutex<Vec<State>>,
    /// One that was read to see what a query gives, until its turn comes.
    kept: Mutex<Option<(usize, Arc<Tables>)>>,
}

impl Traces {
    pub(crate) fn new(
        paths: Vec<String>,
        places: Arc<dyn Places>,
        import: ImportOptions,
        at_once: usize,
    ) -> Self {
        let states = Mutex::new(vec![State::Unread; paths.len()]);
        Self { paths: paths.into(), places, import, at_once, states, kept: Mutex::default() }
    }

    pub(crate) fn paths(&self) -> &Arc<[String]> {
        &self.paths
    }

    /// What is known of each.
    pub(crate) fn states(&self) -> Vec<State> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The tables of one; nothing if it is bad, which is known from then on. Ends early when `stop` says so.
    ///
    /// # Errors
    ///
    /// If there is no memory for it beside others, which is no fault of its own.
    pub(crate) async fn tables(
        self: &Arc<Self>,
        at: usize,
        stop: &Stop,
    ) -> Result<Option<Arc<Tables>>, Error> {
        if let Some(tables) = self.take_kept(at) {
            return Ok(Some(tables));
        }
        let (this, stop) = (self.clone(), stop.clone());
        let read = tokio::task::spawn_blocking(move || this.read(at, &stop)).await;
        let read = read.unwrap_or_else(|_| Err(Unread::Bad("its reader broke off".to_owned())));
        let (state, tables) = match read {
            Ok(Read { tables, is_whole }) => {
                (if is_whole { State::Read } else { State::Torn }, Some(Arc::new(tables)))
            }
            Err(Unread::Bad(error)) => (State::Bad(error), None),
            Err(Unread::NoMemory(error)) if self.at_once > 1 => {
                return Err(Error::plain(format!("{error}; allow more memory, or ask fewer traces at once")));
            }
            Err(Unread::NoMemory(error)) => (State::Bad(error), None),
        };
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        states.get_mut(at).into_iter().for_each(|it| *it = state.clone());
        Ok(tables)
    }

    /// Keeps the tables of one for who asks for them next.
    pub(crate) fn keep(&self, at: usize, tables: Arc<Tables>) {
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = Some((at, tables));
    }

    fn take_kept(&self, at: usize) -> Option<Arc<Tables>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.take_if(|(kept, _)| *kept == at).map(|(_, tables)| tables)
    }

    fn read(&self, at: usize, stop: &Stop) -> Result<Read, Unread> {
        let Some(path) = self.paths.get(at) else {
            return Err(Unread::Bad("there is no such trace".to_owned()));
        };
        self.places.tables(path, &self.import, &mut |_| !stop.is_said()).map_err(|error| match error {
            ImportError::Memory { .. } => Unread::NoMemory(error.to_string()),
            error => Unread::Bad(error.to_string()),
        })
    }
}

/// Why a trace was not read.
enum Unread {
    Bad(String),
    NoMemory(String),
}

fn is_whole(imported: &Imported) -> bool {
    let end = &imported.end;
    end.torn_at.is_none()
        && end.broken_at.is_none()
        && end.first_broken_batch.is_none()
        && imported.members.iter().all(|member| member.trouble.is_none())
}

/// Whether nobody wants to know any more.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    fn is_said(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Says so when this is dropped.
    pub(crate) fn on_drop(&self) -> StopOnDrop {
        StopOnDrop(self.clone())
    }
}

/// See [`Stop::on_drop`].
#[derive(Debug)]
pub(crate) struct StopOnDrop(Stop);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}
