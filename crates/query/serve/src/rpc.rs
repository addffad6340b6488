//! `TraceProcessorRpc`: requests and answers as messages of a stream (`POST /rpc`).

use ferretto_analysis::Stop;
use ferretto_protozero::Message;
use ferretto_protozero::read::{Fields, Value};

use crate::engine::Engine;
use crate::wire;

/// `TraceProcessorMethod`.
const APPEND_TRACE_DATA: u64 = 1;
const FINALIZE_TRACE_DATA: u64 = 2;
const QUERY_STREAMING: u64 = 3;
const RESTORE_INITIAL_TABLES: u64 = 7;
const GET_STATUS: u64 = 10;
const RESET_TRACE_PROCESSOR: u64 = 11;

/// Fields of `TraceProcessorRpc`.
mod field {
    pub(super) const SEQ: u32 = 1;
    pub(super) const REQUEST: u32 = 2;
    pub(super) const RESPONSE: u32 = 3;
    pub(super) const INVALID_REQUEST: u32 = 4;
    pub(super) const FATAL_ERROR: u32 = 5;
    pub(super) const APPEND_TRACE_DATA: u32 = 101;
    pub(super) const QUERY_ARGS: u32 = 103;
    pub(super) const APPEND_RESULT: u32 = 201;
    pub(super) const QUERY_RESULT: u32 = 203;
    pub(super) const STATUS: u32 = 210;
    pub(super) const FINALIZE_RESULT: u32 = 212;
}

/// A request.
#[derive(Debug, Default)]
struct Request<'a> {
    method: u64,
    piece: &'a [u8],
    query: &'a [u8],
}

impl<'a> Request<'a> {
    fn parse(message: &'a [u8]) -> Option<Self> {
        let mut request = Self::default();
        for field in Fields::new(message) {
            let field = field.ok()?;
            match (field.number, field.value) {
                (field::REQUEST, Value::Varint(method)) => request.method = method,
                (field::APPEND_TRACE_DATA, Value::Bytes(piece)) => request.piece = piece,
                (field::QUERY_ARGS, Value::Bytes(args)) => request.query = args,
                _ => {}
            }
        }
        Some(request)
    }
}

/// Answers a stream of requests with one of answers, which are given out in pieces.
pub(crate) fn serve<E>(
    engine: &Engine,
    stop: &Stop,
    stream: &[u8],
    mut out: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let mut answers = Answers { out: &mut out, seq: 0 };
    for field in Fields::new(stream) {
        let request = field.ok().and_then(|field| match (field.number, field.value) {
            (1, Value::Bytes(message)) => Request::parse(message),
            _ => None,
        });
        match request {
            Some(request) => answers.serve(engine, stop, &request)?,
            None => return answers.fatal("these bytes are no TraceProcessorRpcStream"),
        }
    }
    Ok(())
}

struct Answers<'a, F> {
    out: &'a mut F,
    seq: u64,
}

impl<E, F: FnMut(&[u8]) -> Result<(), E>> Answers<'_, F> {
    fn serve(&mut self, engine: &Engine, stop: &Stop, request: &Request<'_>) -> Result<(), E> {
        match request.method {
            APPEND_TRACE_DATA => {
                let result = wire::appended(&engine.append(request.piece.to_vec()));
                self.answer(request.method, field::APPEND_RESULT, &result)
            }
            FINALIZE_TRACE_DATA => {
                let result = wire::finalized(&engine.finish());
                self.answer(request.method, field::FINALIZE_RESULT, &result)
            }
            QUERY_STREAMING => match wire::statement(request.query) {
                Some(sql) => wire::results(engine.query(&sql, stop), |result| {
                    self.answer(QUERY_STREAMING, field::QUERY_RESULT, &result)
                }),
                None => self.fatal("the query's arguments are no QueryArgs"),
            },
            RESTORE_INITIAL_TABLES => self.done(request.method, engine.restore()),
            RESET_TRACE_PROCESSOR => self.done(request.method, engine.reset()),
            GET_STATUS => {
                let status = wire::status(engine.name());
                self.answer(request.method, field::STATUS, &status)
            }
            unknown => self.send(|message| message.varint(field::INVALID_REQUEST, unknown)),
        }
    }

    /// Of a request whose answer has no place for an error.
    fn done(&mut self, method: u64, result: Result<(), String>) -> Result<(), E> {
        match result {
            Ok(()) => self.send(|message| message.varint(field::RESPONSE, method)),
            Err(error) => self.fatal(&error),
        }
    }

    fn answer(&mut self, method: u64, number: u32, result: &[u8]) -> Result<(), E> {
        self.send(|message| {
            message.varint(field::RESPONSE, method);
            message.bytes(number, result);
        })
    }

    fn fatal(&mut self, error: &str) -> Result<(), E> {
        self.send(|message| message.string(field::FATAL_ERROR, error))
    }

    fn send(&mut self, write: impl FnOnce(&mut Message<'_, Vec<u8>>)) -> Result<(), E> {
        let mut inner = Vec::new();
        let mut message = Message::new(&mut inner);
        message.varint(field::SEQ, self.seq);
        write(&mut message);
        drop(message);
        self.seq += 1;
        let mut bytes = Vec::new();
        Message::new(&mut bytes).bytes(1, &inner);
        (self.out)(&bytes)
    }
}
