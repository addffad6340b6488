//! What can be asked for (upstream: httpd.cc).

use std::io;

use ferretto_analysis::Stop;
use ferretto_http::Head;

use crate::engine::Engine;
use crate::exchange::{Exchange, MAX_BODY_BYTES, MAX_PIECE_BYTES, Trouble};
use crate::{rpc, wire};

/// What Trace Processor has besides, and this has not.
const NOT_HERE: [&str; 6] = [
    "/websocket",
    "/compute_metric",
    "/trace_summary",
    "/enable_metatrace",
    "/disable_and_read_metatrace",
    "/export",
];

const PROTOBUF: &str = "Content-Type: application/x-protobuf\r\n";
const TEXT: &str = "Content-Type: text/plain; charset=utf-8\r\n";

/// What this is, for whoever opens it in a browser.
const ABOUT: &str = "\
Ferretto answers queries on a trace here, as Perfetto's Trace Processor does.
From Python: TraceProcessor(addr='HOST:PORT').query('select …')
Endpoints: /status, /query, /parse, /notify_eof, /restore_initial_tables, /rpc
";

/// Serves a request. `headers` go with each answer; `is_last` says that the connection ends.
pub(crate) fn serve(
    engine: &Engine,
    exchange: &mut Exchange,
    head: &Head,
    headers: &str,
    is_last: bool,
) -> Result<(), Trouble> {
    let path = head.path().split('?').next().unwrap_or_default();
    let max = if matches!(path, "/parse" | "/rpc") { MAX_PIECE_BYTES } else { MAX_BODY_BYTES };
    let body = exchange.body(head, max)?;
    let binary = format!("{PROTOBUF}{headers}");
    let protobuf = |exchange: &mut Exchange, bytes: &[u8]| exchange.answer("200 OK", &binary, bytes, is_last);
    match path {
        "/status" => protobuf(exchange, &wire::status(engine.name()))?,
        "/query" => match wire::statement(&body) {
            Some(sql) => streamed(exchange, &binary, is_last, |stop, out| {
                wire::results(engine.query(&sql, stop), |piece| out(&piece))
            })?,
            None => return Err(bad("the body is no QueryArgs")),
        },
        "/rpc" => streamed(exchange, &binary, is_last, |stop, out| rpc::serve(engine, stop, &body, out))?,
        "/parse" => protobuf(exchange, &wire::appended(&engine.append(body)))?,
        "/notify_eof" => protobuf(exchange, &wire::finalized(&engine.finish()))?,
        "/restore_initial_tables" => match engine.restore() {
            Ok(()) => protobuf(exchange, &[])?,
            Err(error) => return Err(bad(&error)),
        },
        "/" => exchange.answer("200 OK", &format!("{TEXT}{headers}"), ABOUT.as_bytes(), is_last)?,
        known if NOT_HERE.contains(&known) => {
            let text = format!("{known} of Trace Processor's server is not here\n");
            exchange.answer("501 Not Implemented", &format!("{TEXT}{headers}"), text.as_bytes(), is_last)?;
        }
        _ => exchange.answer(
            "404 Not Found",
            &format!("{TEXT}{headers}"),
            b"there is nothing here\n",
            is_last,
        )?,
    }
    Ok(())
}

fn bad(text: &str) -> Trouble {
    Trouble::Bad("400 Bad Request", text.to_owned())
}

/// An answer whose pieces go out as they are made. The queries that it is of end if the client goes.
fn streamed(
    exchange: &mut Exchange,
    headers: &str,
    is_last: bool,
    answer: impl FnOnce(&Stop, &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()>,
) -> io::Result<()> {
    let stop = Stop::new();
    let of_query = stop.clone();
    let _watch = exchange.watch(move || of_query.stop())?;
    let mut pieces = exchange.begin(headers, is_last)?;
    answer(&stop, &mut |piece| pieces.piece(piece))?;
    pieces.end()
}
