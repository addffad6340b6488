//! `ferretto bridge` between a websocket client and sockets of the test's own.

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use common::{Daemon, Place};
use rustix::process::Uid;
use tungstenite::client::IntoClientRequest;
use tungstenite::protocol::frame::coding::CloseCode;
use tungstenite::{Error, Message, WebSocket};

const PATIENCE: Duration = Duration::from_secs(30);
const ORIGIN: &str = "http://localhost:10000";

/// A bridge on a port of its own.
struct Bridge {
    process: Daemon,
    port: u16,
    stderr: BufReader<std::process::ChildStderr>,
}

impl Bridge {
    fn start(place: &Place, args: &[&str], env: &[(&str, String)]) -> Self {
        let mut command = place.applet("websocket_bridge", &["--port", "0"]);
        command.args(args).envs(env.iter().cloned()).env("FERRETTO_LOG", "info").stderr(Stdio::piped());
        let mut process = Daemon(command.spawn().unwrap());
        let mut stderr = BufReader::new(process.0.stderr.take().unwrap());
        let mut line = String::new();
        stderr.read_line(&mut line).unwrap();
        let port = line.split("127.0.0.1:").nth(1).and_then(|rest| rest.split('/').next());
        let port = port.and_then(|port| port.parse().ok()).unwrap_or_else(|| panic!("no port in {line:?}"));
        Self { process, port, stderr }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// A page's websocket.
    fn open(&self, path: &str) -> Result<WebSocket<TcpStream>, Box<Error>> {
        let mut request = format!("ws://127.0.0.1:{}{path}", self.port).into_client_request().unwrap();
        request.headers_mut().insert("Origin", ORIGIN.parse().unwrap());
        match tungstenite::client(request, self.connect()) {
            Ok((socket, _)) => Ok(socket),
            Err(tungstenite::HandshakeError::Failure(error)) => Err(Box::new(error)),
            Err(error) => panic!("{error}"),
        }
    }

    /// The status of the answer to a request, and the answer's text.
    fn ask(&self, head: &str) -> (String, String) {
        let mut stream = self.connect();
        stream.write_all(format!("{head}\r\n\r\n").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, text) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split_whitespace().nth(1).unwrap();
        (status.to_owned(), text.to_owned())
    }

    /// Waits for its end.
    fn end(&mut self) -> ExitStatus {
        let mut rest = String::new();
        self.stderr.read_to_string(&mut rest).unwrap();
        self.process.0.wait().unwrap()
    }
}

/// A place where the test plays the service.
fn place_with_service() -> (Place, UnixListener) {
    let place = Place::new();
    let service = UnixListener::bind(place.path("consumer.sock")).unwrap();
    (place, service)
}

/// The next connection that is more than the bridge's look whether anybody is there.
fn accept(service: &UnixListener) -> UnixStream {
    let (stream, _) = service.accept().unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// The bridge looks once, when it starts, whether the service is there.
fn start(place: &Place, service: &UnixListener) -> Bridge {
    let bridge = Bridge::start(place, &[], &[]);
    drop(accept(service));
    bridge
}

fn status(error: &Error) -> u16 {
    match error {
        Error::Http(response) => response.status().as_u16(),
        error => panic!("{error}"),
    }
}

/// Bytes that are not all the same.
fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + at / 251) as u8).collect()
}

#[test]
fn bytes_pass_both_ways_untouched() {
    let (place, service) = place_with_service();
    let bridge = start(&place, &service);
    let mut page = bridge.open("/traced").unwrap();
    let mut traced = accept(&service);

    page.send(Message::binary(pattern(100_000))).unwrap();
    page.send(Message::Ping("still there?".into())).unwrap();
    page.send(Message::text("and text")).unwrap();
    let mut received = vec![0; 100_008];
    traced.read_exact(&mut received).unwrap();
    assert_eq!(received, [pattern(100_000).as_slice(), b"and text"].concat());

    traced.write_all(b"answer").unwrap();
    let mut answers = vec![page.read().unwrap(), page.read().unwrap()];
    answers.sort_by_key(Message::is_pong);
    assert_eq!(answers, [Message::binary(&b"answer"[..]), Message::Pong("still there?".into())]);
}

#[test]
fn small_messages_pass_in_their_order_whatever_stands_between_them() {
    let (place, service) = place_with_service();
    let bridge = start(&place, &service);
    let mut page = bridge.open("/traced").unwrap();
    let mut traced = accept(&service);
    let reads = std::thread::spawn(move || {
        let mut received = Vec::new();
        traced.read_to_end(&mut received).unwrap();
        received
    });
    let mut all = Vec::new();
    for n in 0..3000 {
        let piece = pattern([1, 0, 5, 700, 9000][n % 5]);
        all.extend_from_slice(&piece);
        page.write(Message::binary(piece)).unwrap();
        if n % 70 == 0 {
            page.write(Message::Ping(Default::default())).unwrap();
        }
    }
    page.close(None).unwrap();
    while page.flush().is_ok() && page.read().is_ok() {}
    assert!(reads.join().unwrap() == all);
}

#[test]
fn a_page_that_goes_on_to_say_nothing_is_hung_up_on() {
    let (place, service) = place_with_service();
    let mut bridge = start(&place, &service);
    for message in [Message::binary(&b""[..]), Message::Pong(Default::default())] {
        let mut page = bridge.open("/traced").unwrap();
        let mut traced = accept(&service);
        let page_stream = page.get_mut().try_clone().unwrap();
        let writes = std::thread::spawn(move || while page.send(message.clone()).is_ok() {});
        // Only an end.
        assert_eq!(traced.read(&mut [0; 16]).unwrap(), 0);
        writes.join().unwrap();
        drop(page_stream);
    }
    let mut line = String::new();
    while !line.contains("say nothing") {
        line.clear();
        assert_ne!(bridge.stderr.read_line(&mut line).unwrap(), 0);
    }
}

/// More than all the system's buffers between the two hold.
const FLOOD: usize = 32 * 1024 * 1024;

#[test]
fn a_page_that_does_not_read_holds_up_the_service_and_loses_nothing() {
    let (place, service) = place_with_service();
    let bridge = start(&place, &service);
    let mut page = bridge.open("/traced").unwrap();
    let mut traced = accept(&service);
    let flood = pattern(FLOOD);

    traced.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    let mut written = 0;
    while let Ok(len @ 1..) = traced.write(&flood[written..]) {
        written += len;
    }
    assert!(written < FLOOD, "the bridge holds little");

    traced.set_write_timeout(Some(PATIENCE)).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| traced.write_all(&flood[written..]).unwrap());
        let mut received = Vec::new();
        while received.len() < FLOOD {
            received.extend_from_slice(&page.read().unwrap().into_data());
        }
        assert!(received == flood, "it arrived as it was sent");
    });
}

#[test]
fn a_service_that_does_not_read_holds_up_the_page_and_loses_nothing() {
    let (place, service) = place_with_service();
    let bridge = start(&place, &service);
    let mut page = bridge.open("/traced").unwrap();
    let mut traced = accept(&service);
    let flood = pattern(FLOOD);

    page.get_ref().set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    let mut pieces = flood.chunks(500_000);
    let mut sent = 0;
    // The piece that does not fit any more waits in the library.
    for piece in &mut pieces {
        sent += piece.len();
        if page.send(Message::binary(piece.to_vec())).is_err() {
            break;
        }
    }
    assert!(sent < FLOOD, "the bridge holds little");

    page.get_ref().set_write_timeout(Some(PATIENCE)).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            page.flush().unwrap();
            pieces.for_each(|piece| page.send(Message::binary(piece.to_vec())).unwrap());
        });
        let mut received = vec![0; FLOOD];
        traced.read_exact(&mut received).unwrap();
        assert!(received == flood, "it arrived as it was sent");
    });
}

#[test]
fn either_end_closes_the_other() {
    let (place, service) = place_with_service();
    let bridge = start(&place, &service);

    let mut page = bridge.open("/traced").unwrap();
    let mut traced = accept(&service);
    traced.write_all(b"last words").unwrap();
    drop(traced);
    assert_eq!(page.read().unwrap(), Message::binary(&b"last words"[..]));
    let Message::Close(Some(frame)) = page.read().unwrap() else { panic!("no goodbye") };
    assert_eq!(frame.code, CloseCode::Normal);

    let mut page = bridge.open("/traced").unwrap();
    let mut traced = accept(&service);
    page.send(Message::binary(&b"last words"[..])).unwrap();
    page.close(None).unwrap();
    let mut received = Vec::new();
    traced.read_to_end(&mut received).unwrap();
    assert_eq!(received, b"last words");
}

#[test]
fn a_message_that_is_too_large_closes_its_connection_only() {
    let (place, service) = place_with_service();
    let bridge = start(&place, &service);
    let (mut page, mut other) = (bridge.open("/traced").unwrap(), bridge.open("/traced").unwrap());
    let (_traced, mut other_traced) = (accept(&service), accept(&service));
    // It may be closed before all of it is written.
    let _ = page.send(Message::binary(vec![0; 2 * 1024 * 1024]));
    loop {
        match page.read() {
            Ok(Message::Close(Some(frame))) => break assert_eq!(frame.code, CloseCode::Size),
            Ok(_) => {}
            Err(error) => panic!("{error}"),
        }
    }
    other.send(Message::binary(&b"here"[..])).unwrap();
    let mut received = [0; 4];
    other_traced.read_exact(&mut received).unwrap();
    assert_eq!(&received, b"here");
}

#[test]
fn adb_is_reached_where_its_variable_says() {
    let place = Place::new();
    let adb = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("tcp:{}", adb.local_addr().unwrap());
    let bridge = Bridge::start(&place, &[], &[("ADB_SERVER_SOCKET", address)]);
    let mut page = bridge.open("/adb").unwrap();
    let (mut server, _) = adb.accept().unwrap();
    page.send(Message::text("000chost:version")).unwrap();
    let mut received = [0; 16];
    server.read_exact(&mut received).unwrap();
    assert_eq!(&received, b"000chost:version");
}

#[test]
fn what_cannot_be_had_is_answered_with_its_status() {
    let place = Place::new();
    let bridge = Bridge::start(
        &place,
        &["--http-additional-cors-origins", "https://a.example,https://b.example"],
        &[],
    );
    let cases = [
        ("GET / HTTP/1.1".to_owned(), "404", "/traced"),
        ("GET /traced HTTP/1.1\r\nOrigin: https://evil.example".to_owned(), "403", "origin"),
        ("GET /traced HTTP/1.1\r\nOrigin: https://b.example".to_owned(), "404", "/traced"),
        (format!("OPTIONS /traced HTTP/1.1\r\nOrigin: {ORIGIN}"), "204", ""),
        ("no request".to_owned(), "400", "HTTP"),
        (format!("GET / HTTP/1.1\r\nCookie: {}", "x".repeat(40_000)), "431", "larger"),
    ];
    for (head, expected, text) in cases {
        let (status, said) = bridge.ask(&head);
        assert!(status == expected && said.contains(text), "{head:.60}: {status} {said}");
    }
    // There is no service.
    assert_eq!(status(&bridge.open("/traced").unwrap_err()), 503);
}

#[test]
fn a_flood_of_connections_is_refused_and_passes() {
    let (place, service) = place_with_service();
    let bridge = start(&place, &service);
    let mut pages = Vec::new();
    let refused = loop {
        match bridge.open("/traced") {
            Ok(page) => pages.push((page, accept(&service))),
            Err(error) => break status(&error),
        }
        assert!(pages.len() < 1000, "somewhere there is an end");
    };
    assert_eq!(refused, 503);
    drop(pages);
    common::wait_until("there is room again", || bridge.open("/traced").is_ok());
}

#[test]
fn no_user_has_all_places_of_pages() {
    const OF_ANOTHER: usize = 12;
    if !rustix::process::geteuid().is_root() {
        return println!("skipped: only root may be several users");
    }
    let (place, service) = place_with_service();
    let bridge = start(&place, &service);
    let open_as = |uid: u32| {
        let open = || {
            let uid = Uid::from_raw(uid);
            rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
            // Some more than there are for one.
            (0..OF_ANOTHER + 2).filter_map(|_| bridge.open("/traced").ok()).collect::<Vec<_>>()
        };
        std::thread::scope(|scope| scope.spawn(open).join().unwrap())
    };
    let neighbours: Vec<_> = (4711..4716).map(open_as).collect();
    let places: Vec<usize> = neighbours.iter().map(Vec::len).collect();
    assert_eq!(places, [OF_ANOTHER, OF_ANOTHER, OF_ANOTHER, OF_ANOTHER, 0]);
    let own: Vec<_> = (0..16).map(|_| bridge.open("/traced").unwrap()).collect();
    drop((neighbours, own));
}

/// Before anybody is judged, and by requests of an origin that was not named.
#[test]
fn those_who_may_not_keep_nobody_out() {
    const STRANGERS: usize = 100;
    let (place, service) = place_with_service();
    let bridge = start(&place, &service);
    let strange = "GET /traced HTTP/1.1\r\nOrigin: https://evil.example\r\n\r\n";
    for said in ["GET /", strange] {
        let _strangers: Vec<TcpStream> = (0..STRANGERS)
            .map(|_| {
                let mut stranger = bridge.connect();
                // It may have been hung up on already.
                let _ = stranger.write_all(said.as_bytes());
                stranger
            })
            .collect();
        bridge.open("/traced").unwrap();
        accept(&service);
    }
}

#[test]
fn those_who_say_nothing_keep_nobody_out_and_have_no_threads() {
    const SILENT: usize = 600;
    let (place, service) = place_with_service();
    let bridge = start(&place, &service);
    let silent: Vec<TcpStream> = (0..SILENT).map(|_| bridge.connect()).collect();
    bridge.open("/traced").unwrap();
    accept(&service);
    let status = std::fs::read_to_string(format!("/proc/{}/status", bridge.process.0.id())).unwrap();
    let threads = status.lines().find_map(|line| line.strip_prefix("Threads:")).unwrap();
    assert!(threads.trim().parse::<usize>().unwrap() < 8, "{threads}");
    drop(silent);
}

#[test]
fn it_stops_when_asked_to_and_says_goodbye() {
    let (place, service) = place_with_service();
    let mut bridge = start(&place, &service);
    let mut page = bridge.open("/traced").unwrap();
    let mut traced = accept(&service);
    // One that has not even said what it wants.
    let silent = bridge.connect();
    bridge.process.signal("-TERM");
    let Message::Close(Some(frame)) = page.read().unwrap() else { panic!("no goodbye") };
    assert_eq!(frame.code, CloseCode::Away);
    // The library answers the goodbye as it reads on.
    assert!(page.read().is_err());
    assert_eq!(traced.read(&mut [0]).unwrap(), 0);
    assert!(bridge.end().success());
    drop(silent);
}

#[test]
fn a_port_that_is_taken_is_an_error_with_advice() {
    let place = Place::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let output = place.ferretto(&["bridge", "--port", &port]).output().unwrap();
    common::assert_status(&output, 1);
    let said = common::stderr(&output);
    assert!(said.contains(&port) && said.contains("help: "), "{said}");
}
