//! Requests and answers of one connection, one behind the other.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use ferretto_http::{Error as HeadError, Head};

/// A request's body, but for pieces of traces: a query is text that somebody wrote, or a program.
pub(crate) const MAX_BODY_BYTES: usize = 16 << 20;
/// A piece of a trace; the Python package sends 32 MB at once.
pub(crate) const MAX_PIECE_BYTES: usize = 256 << 20;
/// Whoever begins a request goes on with it. Between requests a connection may rest for as long as it likes.
const WITHIN_REQUEST: Duration = Duration::from_secs(30);
/// How often it is looked whether a client that waits is still there, and for how long.
const BETWEEN_GLANCES: Duration = Duration::from_millis(250);
const GLANCE: Duration = Duration::from_millis(1);
/// The line before a chunk of a body: its length, and what nobody needs.
const MAX_CHUNK_LINE: usize = 256;

/// A connection.
#[derive(Debug)]
pub(crate) struct Exchange {
    stream: TcpStream,
    /// Received and not read yet, from `at` on.
    bytes: Vec<u8>,
    at: usize,
}

/// Why a request is not served.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The connection is over.
    Over,
    /// It is answered with this status and text, and then over.
    Bad(&'static str, String),
}

impl From<io::Error> for Trouble {
    fn from(_: io::Error) -> Self {
        Self::Over
    }
}

impl From<HeadError> for Trouble {
    fn from(error: HeadError) -> Self {
        let status = match error {
            HeadError::Malformed => "400 Bad Request",
            HeadError::TooLong => "431 Request Header Fields Too Large",
        };
        Self::Bad(status, error.to_string())
    }
}

impl Exchange {
    pub(crate) fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        Ok(Self { stream, bytes: Vec::new(), at: 0 })
    }

    /// The next request's head.
    pub(crate) fn head(&mut self) -> Result<Head, Trouble> {
        self.bytes.drain(..self.at);
        self.at = 0;
        self.bytes.shrink_to(64 << 10);
        self.stream.set_read_timeout(None)?;
        loop {
            if let Some((len, head)) = Head::parse(&self.bytes)? {
                self.at = len;
                self.stream.set_read_timeout(Some(WITHIN_REQUEST))?;
                return Ok(head);
            }
            self.receive()?;
            self.stream.set_read_timeout(Some(WITHIN_REQUEST))?;
        }
    }

    /// The request's body, of at most so many bytes.
    pub(crate) fn body(&mut self, head: &Head, max: usize) -> Result<Vec<u8>, Trouble> {
        let is_chunked = head.has_token("Transfer-Encoding", "chunked");
        let mut lengths = head.values("Content-Length").map(str::parse::<usize>);
        let length = match (lengths.next(), lengths.next(), is_chunked) {
            (None, None, _) => None,
            (Some(Ok(length)), None, false) => Some(length),
            _ => return Err(Trouble::Bad("400 Bad Request", "the body has two lengths".to_owned())),
        };
        if head.has_token("Expect", "100-continue") {
            self.stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        }
        let mut body = Vec::new();
        match length {
            Some(length) => self.take(length, max, &mut body)?,
            None if is_chunked => self.take_chunks(max, &mut body)?,
            None => {}
        }
        Ok(body)
    }

    fn take_chunks(&mut self, max: usize, body: &mut Vec<u8>) -> Result<(), Trouble> {
        let bad =
            || Trouble::Bad("400 Bad Request", "the body's chunks are not as they should be".to_owned());
        loop {
            let line = self.line()?;
            let digits = line.split(';').next().unwrap_or_default().trim();
            let length = usize::from_str_radix(digits, 16).map_err(|_| bad())?;
            if length == 0 {
                // What stands behind the last one is read, and means nothing here.
                while !self.line()?.is_empty() {}
                return Ok(());
            }
            self.take(length, max, body)?;
            if !self.line()?.is_empty() {
                return Err(bad());
            }
        }
    }

    fn line(&mut self) -> Result<String, Trouble> {
        loop {
            let rest = self.bytes.get(self.at..).unwrap_or_default();
            if let Some(end) = rest.windows(2).position(|two| two == b"\r\n") {
                let line = String::from_utf8_lossy(rest.get(..end).unwrap_or_default()).into_owned();
                self.at += end + 2;
                return Ok(line);
            }
            if rest.len() > MAX_CHUNK_LINE {
                return Err(Trouble::Bad("400 Bad Request", "a line of the body is too long".to_owned()));
            }
            self.receive()?;
        }
    }

    fn take(&mut self, length: usize, max: usize, body: &mut Vec<u8>) -> Result<(), Trouble> {
        if length > max.saturating_sub(body.len()) {
            let text = format!("the body is larger than {max} bytes");
            return Err(Trouble::Bad("413 Content Too Large", text));
        }
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let here = rest.len().min(length);
        body.extend_from_slice(rest.get(..here).unwrap_or_default());
        self.at += here;
        let left = length - here;
        // As much memory as has come, whatever length was said.
        let read = (&mut self.stream).take(left as u64).read_to_end(body)?;
        if read < left { Err(Trouble::Over) } else { Ok(()) }
    }

    fn receive(&mut self) -> Result<(), Trouble> {
        if self.at > 0 && self.at == self.bytes.len() {
            self.bytes.clear();
            self.at = 0;
        }
        let mut part = [0; 16 << 10];
        loop {
            match self.stream.read(&mut part) {
                Ok(0) => return Err(Trouble::Over),
                Ok(len) => {
                    self.bytes.extend_from_slice(part.get(..len).unwrap_or_default());
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Err(Trouble::Over),
            }
        }
    }

    /// Looks now and then whether the client is still there, and calls `gone` when it is not.
    pub(crate) fn watch(&self, gone: impl FnOnce() + Send + 'static) -> io::Result<Watch> {
        Watch::start(self.stream.try_clone()?, gone)
    }

    /// Answers with a body that is whole. `is_last` says that the connection ends.
    pub(crate) fn answer(
        &mut self,
        status: &str,
        headers: &str,
        body: &[u8],
        is_last: bool,
    ) -> io::Result<()> {
        let ends = if is_last { "Connection: close\r\n" } else { "" };
        let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n{ends}{headers}\r\n", body.len());
        self.stream.write_all(&[head.as_bytes(), body].concat())
    }

    /// Begins an answer that comes in pieces.
    pub(crate) fn begin(&mut self, headers: &str, is_last: bool) -> io::Result<Pieces<'_>> {
        // HTTP 1.0 knows no chunks: the answer ends with the connection.
        let form = if is_last { "Connection: close\r\n" } else { "Transfer-Encoding: chunked\r\n" };
        self.stream.write_all(format!("HTTP/1.1 200 OK\r\n{form}{headers}\r\n").as_bytes())?;
        Ok(Pieces { stream: &self.stream, is_chunked: !is_last })
    }

    /// Says no more, and reads for a moment what the client still sends: else what was said last might be thrown away.
    pub(crate) fn hang_up(mut self) {
        let _ = self.stream.shutdown(std::net::Shutdown::Write);
        let _ = self.stream.set_read_timeout(Some(Duration::from_millis(500)));
        let mut part = [0; 16 << 10];
        for _ in 0..256 {
            if !matches!(self.stream.read(&mut part), Ok(1..)) {
                return;
            }
        }
    }
}

/// Looks whether a client is there, until it is dropped. Nobody reads what it sends meanwhile.
#[derive(Debug)]
pub(crate) struct Watch {
    stream: Arc<TcpStream>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    fn start(stream: TcpStream, gone: impl FnOnce() + Send + 'static) -> io::Result<Self> {
        stream.set_read_timeout(Some(GLANCE))?;
        let (stream, is_over) = (Arc::new(stream), Arc::new(AtomicBool::new(false)));
        let (looked_at, until) = (stream.clone(), is_over.clone());
        let look = move || {
            while !until.load(Ordering::Acquire) {
                std::thread::park_timeout(BETWEEN_GLANCES);
                if !until.load(Ordering::Acquire) && is_gone(&looked_at) {
                    return gone();
                }
            }
        };
        let thread = std::thread::Builder::new().name("client".to_owned()).spawn(look)?;
        Ok(Self { stream, is_over, thread: Some(thread) })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // It does not panic.
            let _ = thread.join();
        }
        // A connection that is over is found when somebody reads.
        let _ = self.stream.set_read_timeout(Some(WITHIN_REQUEST));
    }
}

fn is_gone(stream: &TcpStream) -> bool {
    match stream.peek(&mut [0]) {
        Ok(count) => count == 0,
        Err(error) => !matches!(
            error.kind(),
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
        ),
    }
}

/// An answer that comes in pieces.
#[derive(Debug)]
pub(crate) struct Pieces<'a> {
    stream: &'a TcpStream,
    is_chunked: bool,
}

impl Pieces<'_> {
    pub(crate) fn piece(&mut self, bytes: &[u8]) -> io::Result<()> {
        match (bytes.is_empty(), self.is_chunked) {
            (true, _) => Ok(()),
            (false, false) => self.stream.write_all(bytes),
            (false, true) => {
                let length = format!("{:x}\r\n", bytes.len());
                self.stream.write_all(&[length.as_bytes(), bytes, b"\r\n"].concat())
            }
        }
    }

    pub(crate) fn end(self) -> io::Result<()> {
        let mut stream = self.stream;
        if self.is_chunked { stream.write_all(b"0\r\n\r\n") } else { Ok(()) }
    }
}
