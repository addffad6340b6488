//! The server over sockets, asked as programs ask.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use ferretto_analysis::{Options, Trace};
use ferretto_import::Options as ImportOptions;
use ferretto_protos::{Trace as TraceBytes, TracePacket};
use ferretto_protozero::Message;
use ferretto_protozero::read::{Fields, Value};
use ferretto_serve::{Engine, Server};
use ferretto_trace_tables::Tables;
use prost::Message as _;

/// A server for the tables of no trace.
fn serve() -> SocketAddr {
    start(Engine::of(Trace::of(Tables::default(), &Options::default()).unwrap(), "nothing.pftrace"))
}

fn start(engine: Engine) -> SocketAddr {
    let server = Server::bind("127.0.0.1:0", engine, []).unwrap();
    let address = server.address().unwrap();
    thread::spawn(move || server.run());
    address
}

/// A connection and what came over it.
struct Client(TcpStream);

/// An answer: its status line's number, headers and body.
#[derive(Debug)]
struct Answer {
    status: u32,
    headers: String,
    body: Vec<u8>,
}

impl Client {
    fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Self(stream)
    }

    fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).unwrap();
    }

    fn ask(&mut self, method: &str, path: &str, headers: &str, body: &[u8]) -> Answer {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n{headers}\r\n",
            body.len()
        );
        self.send(&[head.as_bytes(), body].concat());
        self.answer()
    }

    fn query(&mut self, sql: &str) -> QueryResult {
        let answer = self.ask("POST", "/query", "", &query_args(sql));
        assert_eq!(answer.status, 200, "{answer:?}");
        QueryResult::parse(&answer.body)
    }

    fn line(&mut self) -> String {
        let (mut line, mut byte) = (Vec::new(), [0]);
        while !line.ends_with(b"\r\n") {
            self.0.read_exact(&mut byte).unwrap();
            line.push(byte[0]);
        }
        String::from_utf8(line).unwrap().trim_end().to_owned()
    }

    fn take(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.0.read_exact(&mut bytes).unwrap();
        bytes
    }

    fn answer(&mut self) -> Answer {
        let status = self.line().split(' ').nth(1).unwrap().parse().unwrap();
        let mut headers = String::new();
        loop {
            match self.line() {
                line if line.is_empty() => break,
                line => headers += &format!("{line}\n"),
            }
        }
        let mut body = Vec::new();
        if headers.contains("Transfer-Encoding: chunked") {
            loop {
                let len = usize::from_str_radix(&self.line(), 16).unwrap();
                body.extend(self.take(len));
                assert_eq!(self.line(), "");
                if len == 0 {
                    break;
                }
            }
        } else if let Some(len) = headers.lines().find_map(|line| line.strip_prefix("Content-Length: ")) {
            body = self.take(len.parse().unwrap());
        } else {
            self.0.read_to_end(&mut body).unwrap();
        }
        Answer { status, headers, body }
    }
}

fn query_args(sql: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    Message::new(&mut bytes).string(1, sql);
    bytes
}

/// What a client makes of `QueryResult`s, one behind the other.
#[derive(Debug, Default)]
struct QueryResult {
    columns: Vec<String>,
    error: String,
    cells: Vec<u8>,
    varints: Vec<i64>,
    doubles: Vec<f64>,
    strings: Vec<String>,
    blobs: Vec<Vec<u8>>,
    batches: usize,
    last: Vec<bool>,
}

impl QueryResult {
    fn parse(bytes: &[u8]) -> Self {
        let mut result = Self::default();
        for field in Fields::new(bytes).map(Result::unwrap) {
            match (field.number, field.value) {
                (1, Value::Bytes(name)) => result.columns.push(String::from_utf8(name.to_vec()).unwrap()),
                (2, Value::Bytes(error)) => result.error = String::from_utf8(error.to_vec()).unwrap(),
                (3, Value::Bytes(batch)) => result.batch(batch),
                (4 | 5, Value::Varint(_)) => {}
                other => panic!("{other:?}"),
            }
        }
        result
    }

    fn batch(&mut self, bytes: &[u8]) {
        self.batches += 1;
        let mut is_last = false;
        for field in Fields::new(bytes).map(Result::unwrap) {
            match (field.number, field.value) {
                (1, Value::Bytes(cells)) => self.cells.extend(cells),
                (2, Value::Bytes(mut packed)) => {
                    while !packed.is_empty() {
                        let value = prost::encoding::decode_varint(&mut packed).unwrap();
                        self.varints.push(value.cast_signed());
                    }
                }
                (3, Value::Bytes(packed)) => {
                    let value = |bytes: &[u8]| f64::from_le_bytes(bytes.try_into().unwrap());
                    self.doubles.extend(packed.chunks(8).map(value));
                }
                (4, Value::Bytes(blob)) => self.blobs.push(blob.to_vec()),
                (5, Value::Bytes(strings)) => {
                    let strings = std::str::from_utf8(strings).unwrap().strip_suffix('\0').unwrap();
                    self.strings.extend(strings.split('\0').map(str::to_owned));
                }
                (6, Value::Varint(last)) => is_last = last == 1,
                other => panic!("{other:?}"),
            }
        }
        self.last.push(is_last);
    }
}

#[test]
fn cells_of_all_kinds_come_in_their_order() {
    let mut client = Client::connect(serve());
    let result =
        client.query("select 1 as a, -5 as b, 2.5 as c, 'text' as d, null as e, x'00ff' as f, '' as g");
    assert_eq!(result.columns, ["a", "b", "c", "d", "e", "f", "g"]);
    assert_eq!(result.cells, [2, 2, 3, 4, 1, 5, 4]);
    assert_eq!((result.varints, result.doubles), (vec![1, -5], vec![2.5]));
    assert_eq!((result.strings, result.blobs), (vec!["text".to_owned(), String::new()], vec![vec![0, 255]]));
    assert_eq!(result.last, [true]);
}

#[test]
fn many_rows_come_in_batches_and_on_one_connection() {
    let mut client = Client::connect(serve());
    for _ in 0..2 {
        let sql = "with d(x) as (values (0), (1), (2), (3), (4), (5), (6), (7), (8), (9)),
                     n(x) as (select a.x + 10 * b.x + 100 * c.x + 1000 * d.x + 10000 * e.x from d a, d b, d c, d d, d e)
                   select x, 'n' || x from n";
        let result = client.query(sql);
        assert_eq!((result.varints.len(), result.strings.len()), (100_000, 100_000), "{}", result.error);
        assert_eq!(result.varints.iter().sum::<i64>(), 100_000 * 99_999 / 2);
        assert!(result.batches > 2);
        assert_eq!(result.last.iter().filter(|last| **last).count(), 1);
        assert_eq!(result.last.last(), Some(&true));
    }
}

#[test]
fn what_is_wrong_with_a_query_is_said_with_its_place() {
    let mut client = Client::connect(serve());
    let result = client.query("select nam from slice");
    assert!(
        result.error.contains("there is no column nam (line 1, column 8); did you mean name?"),
        "{result:?}"
    );
    assert_eq!(result.last, [true]);
    // And the connection goes on.
    assert_eq!(client.query("select 1").varints, [1]);
}

#[test]
fn what_queries_have_made_stays_until_it_is_restored() {
    let address = serve();
    let mut client = Client::connect(address);
    assert_eq!(client.query("create perfetto table mine as select 7 as x").error, "");
    assert_eq!(Client::connect(address).query("select x from mine").varints, [7]);
    assert_eq!(client.ask("GET", "/restore_initial_tables", "", b"").status, 200);
    assert!(client.query("select x from mine").error.contains("mine"));
}

#[test]
fn a_trace_comes_in_pieces() {
    let packet = TracePacket { timestamp: Some(5), ..Default::default() };
    let trace = TraceBytes { packet: vec![packet; 1000] }.encode_to_vec();
    let mut client = Client::connect(start(Engine::empty(ImportOptions::default(), Options::default())));
    assert!(client.query("select 1").error.contains("no trace is loaded"));
    for piece in trace.chunks(700) {
        assert_eq!(client.ask("POST", "/parse", "", piece).status, 200);
    }
    assert!(client.query("select 1").error.contains("still coming"));
    assert_eq!(client.ask("GET", "/notify_eof", "", b"").body, b"");
    let result = client.query("select value from stats where name = 'tokenizer_skipped_packets'");
    assert_eq!((result.error.as_str(), result.cells.len()), ("", 1));
    // Another one only after a reset.
    let refused = client.ask("POST", "/parse", "", b"x");
    assert!(String::from_utf8_lossy(&refused.body).contains("loaded already"), "{refused:?}");
    let reset = client.ask("POST", "/rpc", "", &rpc(&[(11, &[])]));
    assert_eq!(reset.status, 200);
    assert_eq!(client.ask("POST", "/parse", "", b"{ no trace").status, 200);
    let end = client.ask("POST", "/notify_eof", "", b"");
    assert!(String::from_utf8_lossy(&end.body).contains("cannot be read"), "{end:?}");
    assert!(client.query("select 1").error.contains("cannot be read"));
}

/// A method, and fields of arguments.
type Request<'a> = (u64, &'a [(u32, &'a [u8])]);

fn rpc(requests: &[Request<'_>]) -> Vec<u8> {
    let mut stream = Vec::new();
    let mut message = Message::new(&mut stream);
    for (method, args) in requests {
        let mut request = message.nested(1);
        request.varint(2, *method);
        args.iter().for_each(|(number, bytes)| request.bytes(*number, bytes));
    }
    drop(message);
    stream
}

#[test]
fn requests_of_a_stream_are_answered_in_their_order() {
    let mut client = Client::connect(serve());
    let args = query_args("select 3");
    let body = rpc(&[(10, &[]), (3, &[(103, &args)]), (5, &[]), (7, &[]), (1, &[(101, b"more")]), (11, &[])]);
    let answer = client.ask("POST", "/rpc", "", &body);
    let mut said = Vec::new();
    for message in Fields::new(&answer.body).map(Result::unwrap) {
        let (1, Value::Bytes(message)) = (message.number, message.value) else { panic!("{message:?}") };
        let mut words = Vec::new();
        for field in Fields::new(message).map(Result::unwrap) {
            match (field.number, field.value) {
                (1, Value::Varint(seq)) => assert_eq!(seq, said.len() as u64),
                (203, Value::Bytes(result)) => {
                    words.push(format!("{:?}", QueryResult::parse(result).varints))
                }
                (number, Value::Varint(value)) => words.push(format!("{number}={value}")),
                (number, Value::Bytes(bytes)) if number < 210 => {
                    words.push(format!(
                        "{number}: {}",
                        String::from_utf8_lossy(bytes.get(2..).unwrap_or_default())
                    ));
                }
                (number, _) => words.push(number.to_string()),
            }
        }
        said.push(words.join(" "));
    }
    let [status, query, unknown, restored, appended, reset] = said.try_into().unwrap();
    assert_eq!([status, query, unknown, restored], ["3=10 210", "3=3 [3]", "4=5", "3=7"]);
    assert!(appended.contains("this server is for nothing.pftrace"), "{appended}");
    assert!(reset.contains("is server is for nothing.pftrace"), "{reset}");
}

#[test]
fn bodies_come_in_chunks_too_and_what_is_no_request_ends_the_connection() {
    let address = serve();
    let mut client = Client::connect(address);
    let args = query_args("select 11");
    let (one, two) = args.split_at(4);
    let head = "POST /query HTTP/1.1\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n";
    client.send(head.as_bytes());
    assert_eq!(client.line(), "HTTP/1.1 100 Continue");
    assert_eq!(client.line(), "");
    client.send(format!("{:x};x=y\r\n", one.len()).as_bytes());
    client.send(&[one, b"\r\n"].concat());
    client.send(&[format!("{:x}\r\n", two.len()).as_bytes(), two, b"\r\n0\r\nTrailer: x\r\n\r\n"].concat());
    assert_eq!(QueryResult::parse(&client.answer().body).varints, [11]);
    for (request, status) in [
        ("\u{1}\u{2}\r\n\r\n", 400),
        ("DELETE /query HTTP/1.1\r\n\r\n", 405),
        ("POST /query HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n", 413),
        ("POST /query HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        ("POST /query HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
        ("POST /query HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", 400),
        ("POST /query HTTP/1.1\r\nContent-Length: 2\r\n\r\n\u{1f}\u{1f}", 400),
        ("GET /status HTTP/1.1\r\nHost: evil.example\r\n\r\n", 403),
        ("GET /status HTTP/1.1\r\nOrigin: https://evil.example\r\n\r\n", 403),
    ] {
        let mut client = Client::connect(address);
        client.send(request.as_bytes());
        let answer = client.answer();
        assert_eq!(answer.status, status, "{request:?}: {answer:?}");
        assert!(!answer.headers.contains("Access-Control"), "{answer:?}");
        assert_eq!(client.0.read(&mut [0]).unwrap(), 0);
    }
}

#[test]
fn pages_of_the_ui_are_let_in_and_what_is_missing_is_named() {
    let mut client = Client::connect(serve());
    let origin = "Origin: https://ui.perfetto.dev\r\n";
    let preflight = client.ask("OPTIONS", "/query", origin, b"");
    assert_eq!(preflight.status, 204);
    for answer in [preflight, client.ask("POST", "/status", origin, b"")] {
        assert!(
            answer.headers.contains("Access-Control-Allow-Origin: https://ui.perfetto.dev"),
            "{answer:?}"
        );
    }
    assert_eq!(client.ask("POST", "/compute_metric", "", b"").status, 501);
    assert_eq!(client.ask("GET", "/favicon.ico", "", b"").status, 404);
    assert_eq!(client.ask("GET", "/", "", b"").status, 200);
}

/// Statements of others read no files here and write none.
#[test]
fn queries_reach_no_files() {
    let mut client = Client::connect(serve());
    for sql in [
        "copy (select 1) to '/tmp/ferretto-serve.csv'",
        "create external table t stored as csv location '/etc/passwd'",
        "select * from '/etc/passwd'",
        "select readfile('/etc/passwd')",
        "attach '/tmp/x.db' as x",
    ] {
        let result = client.query(sql);
        assert!(!result.error.is_empty(), "{sql}: {result:?}");
    }
    assert!(!std::path::Path::new("/tmp/ferretto-serve.csv").exists());
}

#[test]
fn who_goes_away_ends_its_query_and_holds_up_nobody() {
    let address = serve();
    let all = "with recursive c(x) as (select 1 union all select x + 1 from c where x < 1000) select";
    let endless = format!("create table t as {all} count(*) n from c a, c b, c d, c e, c f");
    let body = query_args(&endless);
    let mut first = Client::connect(address);
    let head = format!("POST /query HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", body.len());
    first.send(&[head.as_bytes(), &body].concat());
    // It makes a table: whoever asks next waits for it.
    thread::sleep(Duration::from_millis(300));
    let second = thread::spawn(move || Client::connect(address).query("select 7 as n"));
    thread::sleep(Duration::from_millis(300));
    assert!(!second.is_finished());
    drop(first);
    assert_eq!(second.join().unwrap().error, "");
}
