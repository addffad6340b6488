//! What the code of `#[ferretto::record]` calls. Not for use by hand: it may change with any version.

mod place;
mod target;

use std::fmt::Display;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use ferretto_protos::TraceConfig;
use prost::Message;

use crate::tracing_session::{SessionError, TracingSession};
use crate::{Backends, InitError};
use place::Place;

/// A test that cannot be recorded for this long is told so rather than hang.
const TIMEOUT: Duration = Duration::from_secs(30);

/// What the attribute says.
#[derive(Debug)]
pub struct Recorder {
    /// For messages.
    function: String,
    /// The file's name, without its folder.
    name: String,
    categories: Vec<String>,
    buffer_kb: Option<u32>,
    config: Option<Bytes>,
    path: Option<PathBuf>,
}

/// A recording that ends, and writes its trace, when this is dropped.
#[derive(Debug)]
pub struct Recording {
    /// Until the end.
    session: Option<TracingSession>,
    function: String,
    path: PathBuf,
    _place: Place,
}

/// Why nothing was recorded.
#[derive(Debug, thiserror::Error)]
enum RecordError {
    #[error(transparent)]
    Init(#[from] InitError),
    #[error(transparent)]
    Session(#[from] SessionError),
    #[error(transparent)]
    Target(#[from] target::TargetError),
    #[error(transparent)]
    Place(#[from] place::NoPlace),
}

impl Recorder {
    /// For the function of this name in this module of this package.
    pub fn new(module: &str, function: &str, package: Option<&str>) -> Self {
        Self {
            function: function.to_owned(),
            name: target::file_name(module, function, package),
            categories: Vec::new(),
            buffer_kb: None,
            config: None,
            path: None,
        }
    }

    /// Only these categories.
    #[must_use]
    pub fn categories<S: Into<String>>(mut self, patterns: impl IntoIterator<Item = S>) -> Self {
        self.categories = patterns.into_iter().map(Into::into).collect();
        self
    }

    /// The size of the buffer.
    #[must_use]
    pub fn buffer_kb(mut self, size_kb: u32) -> Self {
        self.buffer_kb = Some(size_kb);
        self
    }

    /// A config instead of these two.
    #[must_use]
    pub fn config(mut self, config: impl RecordConfig) -> Self {
        self.config = Some(config.into_bytes().unwrap_or_else(|error| fail(&self.function, &error)));
        self
    }

    /// The file.
    #[must_use]
    pub fn path(mut self, path: impl Into<PathBuf>) -> Self {
        self.path = Some(path.into());
        self
    }

    /// Starts.
    ///
    /// # Panics
    ///
    /// If nothing can be recorded: this is the test's failure.
    #[must_use]
    pub fn start(self) -> Recording {
        let function = self.function.clone();
        self.try_start().unwrap_or_else(|error| fail(&function, &error))
    }

    fn try_start(self) -> Result<Recording, RecordError> {
        let path = match self.path {
            Some(path) => path,
            None => target::traces_folder()?.join(self.name),
        };
        target::make_folder_of(&path)?;
        let place = Place::take(TIMEOUT)?;
        crate::builder(&target::program_name()).backends(Backends::IN_PROCESS).init()?;
        let mut setup = TracingSession::in_process()?.timeout(TIMEOUT);
        if let Some(config) = self.config {
            setup = setup.config_bytes(config);
        }
        if !self.categories.is_empty() {
            setup = setup.categories(self.categories);
        }
        if let Some(size_kb) = self.buffer_kb {
            setup = setup.buffer_size_kb(size_kb);
        }
        Ok(Recording { session: Some(setup.start()?), function: self.function, path, _place: place })
    }
}

impl Recording {
    fn finish(session: TracingSession, path: &PathBuf) -> Result<(), SessionError> {
        session.stop()?.save(path).map(|_| ())
    }
}

impl Drop for Recording {
    /// # Panics
    ///
    /// If the trace cannot be written, unless the test panics already.
    fn drop(&mut self) {
        let Some(session) = self.session.take() else { return };
        match Self::finish(session, &self.path) {
            Ok(()) => {}
            Err(error) if std::thread::panicking() => {
                eprintln!("#[ferretto::record]: `{}` was not recorded: {error}", self.function);
            }
            Err(error) => fail(&self.function, &error),
        }
    }
}

fn fail(function: &str, error: &dyn Display) -> ! {
    panic!("#[ferretto::record]: `{function}` was not recorded: {error}")
}

/// What `config = …` takes: a [`TraceConfig`], one that is serialised, or, with the feature `config-text`, one in the text format.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no trace config",
    note = "`config = …` of #[ferretto::record] takes a `TraceConfig`, a serialised one as `&[u8]` or `Vec<u8>`, or, with the feature `config-text`, one in the text format as `&str`"
)]
pub trait RecordConfig {
    /// Serialised.
    ///
    /// # Errors
    ///
    /// If it has a mistake.
    fn into_bytes(self) -> Result<Bytes, SessionError>;
}

impl RecordConfig for TraceConfig {
    fn into_bytes(self) -> Result<Bytes, SessionError> {
        Ok(self.encode_to_vec().into())
    }
}

impl RecordConfig for &TraceConfig {
    fn into_bytes(self) -> Result<Bytes, SessionError> {
        Ok(self.encode_to_vec().into())
    }
}

impl RecordConfig for Vec<u8> {
    fn into_bytes(self) -> Result<Bytes, SessionError> {
        Ok(self.into())
    }
}

impl RecordConfig for &[u8] {
    fn into_bytes(self) -> Result<Bytes, SessionError> {
        Ok(Bytes::copy_from_slice(self))
    }
}

#[cfg(feature = "config-text")]
impl RecordConfig for &str {
    fn into_bytes(self) -> Result<Bytes, SessionError> {
        let config = ferretto_protos::text::parse_trace_config(self);
        Ok(config.map_err(crate::tracing_session::ConfigError::Text)?.into())
    }
}
