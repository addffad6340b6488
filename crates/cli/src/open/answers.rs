//! What is answered to which request.
//!
//! The trace lies at a path that nobody can guess, and pages of other sites get it neither: a browser says which page asks (`Origin`), and what the
//! page believes to talk to (`Host`), which keeps away pages whose name leads to this machine.

use std::fs::File;

use ferretto_http::{Head, Origins};
use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};

/// Of files by the ends of their names; browsers take scripts and styles of no other.
const TYPES: [(&str, &str); 11] = [
    ("css", "text/css"),
    ("html", "text/html; charset=utf-8"),
    ("ico", "image/x-icon"),
    ("js", "text/javascript"),
    ("json", "application/json"),
    ("map", "application/json"),
    ("png", "image/png"),
    ("svg", "image/svg+xml"),
    ("ttf", "font/ttf"),
    ("wasm", "application/wasm"),
    ("woff2", "font/woff2"),
];

/// What is served at a port of localhost.
#[derive(Debug)]
pub(super) struct Site {
    /// Where the trace is.
    path: String,
    hosts: [String; 2],
    /// Of another site that may ask for it.
    origins: Origins,
    /// Files of a UI are here, too.
    has_files: bool,
}

/// To one request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// To a page of this origin, if it is another site's.
    Trace { origin: Option<String> },
    /// Of the UI, below its folder.
    File(String),
    /// A browser asks whether a page of this origin may ask.
    Preflight { origin: String },
    /// A status, and why.
    Refused(&'static str, &'static str),
}

const NOT_FOUND: Answer = Answer::Refused("404 Not Found", "there is nothing here");

impl Site {
    /// For pages of this origin, or with a UI of its own.
    pub(super) fn new(path: &str, port: u16, origin: Option<&str>) -> Self {
        let hosts = ["127.0.0.1", "localhost"].map(|host| format!("{host}:{port}"));
        let has_files = origin.is_none();
        let own = hosts.iter().map(|host| format!("http://{host}"));
        let origins = Origins::new(own.chain(origin.map(str::to_owned)));
        Self { path: path.to_owned(), hosts, origins, has_files }
    }

    /// The address that shows the trace.
    pub(super) fn url(&self, ui: &str) -> String {
        let [host, _] = &self.hosts;
        let page = if self.has_files { format!("http://{host}") } else { ui.to_owned() };
        format!("{page}/#!/?url=http://{host}{}&referrer=open_trace_in_ui", self.path)
    }

    pub(super) fn answer(&self, head: &Head) -> Answer {
        if !head.values("host").all(|host| self.hosts.iter().any(|own| own == host)) {
            return Answer::Refused("421 Misdirected Request", "this is asked by the name of another place");
        }
        let origin = head.values("origin").next().map(str::to_owned);
        if !head.values("origin").all(|origin| self.origins.knows(origin)) {
            return Answer::Refused("403 Forbidden", "pages of other sites get nothing here");
        }
        let path = head.path().split(['?', '#']).next().unwrap_or_default();
        match (head.method(), origin) {
            ("OPTIONS", Some(origin)) if path == self.path => Answer::Preflight { origin },
            ("GET" | "HEAD", origin) if path == self.path => Answer::Trace { origin },
            ("GET" | "HEAD", _) if self.has_files => {
                let name = path.trim_start_matches('/');
                Answer::File(if name.is_empty() { "index.html" } else { name }.to_owned())
            }
            ("GET" | "HEAD", _) => NOT_FOUND,
            _ => Answer::Refused("405 Method Not Allowed", "this is for reading"),
        }
    }
}

impl Answer {
    /// The head of an answer with a body of so many bytes, and what it says without one.
    pub(super) fn head(&self, body_bytes: Option<u64>) -> (String, &'static str) {
        let answer = if body_bytes.is_none() && matches!(self, Self::File(_)) { &NOT_FOUND } else { self };
        let mut fields = String::new();
        let (status, text) = match answer {
            Self::Trace { origin } => {
                fields += "Content-Type: application/octet-stream\r\n";
                fields += &origin.as_ref().map(|origin| of_origin(origin)).unwrap_or_default();
                ("200 OK", "")
            }
            Self::File(name) => {
                fields += &format!("Content-Type: {}\r\n", type_of(name));
                ("200 OK", "")
            }
            Self::Preflight { origin } => {
                fields += &of_origin(origin);
                fields += "Access-Control-Allow-Methods: GET\r\nAccess-Control-Allow-Headers: *\r\n";
                // A page of the network asks a machine's own address.
                fields += "Access-Control-Allow-Private-Network: true\r\n";
                ("204 No Content", "")
            }
            Self::Refused(status, text) => {
                fields += "Content-Type: text/plain\r\n";
                (*status, *text)
            }
        };
        let bytes = body_bytes.unwrap_or(text.len() as u64);
        let common = "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close";
        (format!("HTTP/1.1 {status}\r\nContent-Length: {bytes}\r\n{fields}{common}\r\n\r\n"), text)
    }
}

fn of_origin(origin: &str) -> String {
    format!("Access-Control-Allow-Origin: {origin}\r\nVary: Origin\r\n")
}

fn type_of(name: &str) -> &'static str {
    let end = name.rsplit_once('.').map_or("", |(_, end)| end);
    TYPES.iter().find(|(known, _)| *known == end).map_or("application/octet-stream", |(_, kind)| kind)
}

/// A regular file below a folder, whatever its name leads to.
pub(super) fn file_below(folder: &File, name: &str) -> Option<File> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let file = File::from(openat2(folder, name, flags, Mode::empty(), resolve).ok()?);
    file.metadata().is_ok_and(|found| found.is_file()).then_some(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    const UI: &str = "https://ui.perfetto.dev";

    fn head(text: &str) -> Head {
        Head::parse(format!("{}\r\n\r\n", text.replace('\n', "\r\n")).as_bytes()).unwrap().unwrap().1
    }

    fn status(site: &Site, text: &str) -> String {
        let answer = site.answer(&head(text));
        let (head, _) = answer.head(matches!(answer, Answer::Trace { .. }).then_some(7));
        head.lines().next().unwrap().to_owned()
    }

    #[test]
    fn the_uis_page_gets_the_trace_and_no_other_page_or_name() {
        let site = Site::new("/secret/t", 9001, Some(UI));
        for (asked, expected) in [
            ("GET /secret/t HTTP/1.1\nHost: 127.0.0.1:9001\nOrigin: https://ui.perfetto.dev", "200 OK"),
            ("GET /secret/t?x HTTP/1.1\nHost: localhost:9001", "200 OK"),
            (
                "OPTIONS /secret/t HTTP/1.1\nHost: 127.0.0.1:9001\nOrigin: https://ui.perfetto.dev",
                "204 No Content",
            ),
            (
                "GET /secret/t HTTP/1.1\nHost: 127.0.0.1:9001\nOrigin: https://ui.perfetto.dev.evil",
                "403 Forbidden",
            ),
            ("GET /secret/t HTTP/1.1\nHost: 127.0.0.1:9001\nOrigin: null", "403 Forbidden"),
            ("GET /secret/t HTTP/1.1\nHost: evil.example:9001", "421 Misdirected Request"),
            ("GET /secret/u HTTP/1.1\nHost: 127.0.0.1:9001", "404 Not Found"),
            ("GET / HTTP/1.1\nHost: 127.0.0.1:9001", "404 Not Found"),
            ("POST /secret/t HTTP/1.1\nHost: 127.0.0.1:9001", "405 Method Not Allowed"),
        ] {
            assert_eq!(status(&site, asked), format!("HTTP/1.1 {expected}"), "{asked}");
        }
    }

    #[test]
    fn a_page_of_another_site_is_named_in_the_answer() {
        let site = Site::new("/secret/t", 9001, Some(UI));
        let asked = head("GET /secret/t HTTP/1.1\nHost: 127.0.0.1:9001\nOrigin: https://ui.perfetto.dev");
        let (answer, _) = site.answer(&asked).head(Some(7));
        for field in ["Content-Length: 7", "Access-Control-Allow-Origin: https://ui.perfetto.dev", "no-store"]
        {
            assert!(answer.contains(field), "{field} in {answer}");
        }
        assert!(site.url(UI).starts_with("https://ui.perfetto.dev/#!/?url=http://127.0.0.1:9001/secret/t"));
    }

    #[test]
    fn files_of_a_ui_are_those_below_its_folder() {
        let site = Site::new("/secret/t", 1234, None);
        let at = |path: &str| site.answer(&head(&format!("GET {path} HTTP/1.1\nHost: localhost:1234")));
        assert_eq!(at("/"), Answer::File("index.html".to_owned()));
        assert_eq!(at("/v1/a.js?b"), Answer::File("v1/a.js".to_owned()));
        assert!(site.url(UI).starts_with("http://127.0.0.1:1234/#!/?url=http://127.0.0.1:1234/secret/t"));

        let outer = tempfile::tempdir().unwrap();
        let (secret, folder) = (outer.path().join("secret"), outer.path().join("ui"));
        std::fs::write(&secret, "x").unwrap();
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("index.html"), "y").unwrap();
        std::os::unix::fs::symlink(&secret, folder.join("link")).unwrap();
        let folder = File::open(&folder).unwrap();
        assert!(file_below(&folder, "index.html").is_some());
        for name in ["../secret", "link", "/etc/passwd", ".", "none"] {
            assert!(file_below(&folder, name).is_none(), "{name}");
        }
        let (answer, _) = Answer::File("none".to_owned()).head(None);
        assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
    }

    #[test]
    fn scripts_and_styles_have_their_types() {
        for (name, kind) in
            [("a/b.js", "text/javascript"), ("c.wasm", "application/wasm"), ("d", "application/octet-stream")]
        {
            assert_eq!(type_of(name), kind);
        }
    }
}
