//! Messages of `trace_processor.proto`, to bytes. Numbers are upstream's; reading is for `rpc` and `routes`.

use ferretto_analysis::{Cell, Error, Rows};
use ferretto_protozero::Message;
use ferretto_protozero::read::{Fields, Value};

/// `TraceProcessorApiVersion` (upstream, v59).
const API_VERSION: i64 = 14;

/// A batch ends here, with a whole row (upstream: query_result_serializer.cc).
const BATCH_CELLS: usize = 50_000;
const BATCH_BYTES: usize = 128 * 1024;

/// `CellsBatch.CellType`.
const NULL: u8 = 1;
const VARINT: u8 = 2;
const FLOAT64: u8 = 3;
const STRING: u8 = 4;
const BLOB: u8 = 5;

/// `StatusResult`. There is no version code: a UI would look for one of its own of that version.
pub(crate) fn status(trace_name: Option<&str>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut message = Message::new(&mut bytes);
    if let Some(name) = trace_name {
        message.string(1, name);
    }
    message.string(2, concat!("Ferretto v", env!("CARGO_PKG_VERSION")));
    message.int(3, API_VERSION);
    drop(message);
    bytes
}

/// `AppendTraceDataResult`.
pub(crate) fn appended(result: &Result<u64, String>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut message = Message::new(&mut bytes);
    match result {
        Ok(total) => message.varint(1, *total),
        Err(error) => message.string(2, error),
    }
    drop(message);
    bytes
}

/// `FinalizeDataResult`.
pub(crate) fn finalized(result: &Result<(), String>) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Err(error) = result {
        Message::new(&mut bytes).string(1, error);
    }
    bytes
}

/// The statement of `QueryArgs`; nothing if it is no such message.
pub(crate) fn statement(args: &[u8]) -> Option<String> {
    let mut sql = String::new();
    for field in Fields::new(args) {
        if let (1, Value::Bytes(text)) = field.ok().map(|field| (field.number, field.value))? {
            sql = String::from_utf8(text.to_vec()).ok()?;
        }
    }
    Some(sql)
}

/// Gives `QueryResult`s, of which the last one says that it is. Together they are one: concatenated, too.
pub(crate) fn results<E>(
    rows: Result<Rows, String>,
    mut out: impl FnMut(Vec<u8>) -> Result<(), E>,
) -> Result<(), E> {
    let rows = match rows {
        Ok(rows) => rows,
        Err(error) => return out(failed(&error)),
    };
    let is_query = rows.is_query();
    let mut head = Vec::new();
    for field in rows.schema().fields() {
        Message::new(&mut head).string(1, field.name());
    }
    let mut batch = Batch::default();
    for part in rows.shown() {
        let part = match part {
            Ok(part) => part,
            Err(error) => return out(failed(&words(&error))),
        };
        for row in 0..part.num_rows() {
            part.cells(row).for_each(|cell| batch.add(cell));
            if batch.is_full() {
                out(batch.take(&mut head, false))?;
            }
        }
    }
    let mut last = batch.take(&mut head, true);
    let mut message = Message::new(&mut last);
    message.varint(4, 1);
    message.varint(5, u64::from(is_query));
    drop(message);
    out(last)
}

/// A query without an answer, or with none from here on.
fn failed(error: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut message = Message::new(&mut bytes);
    message.string(2, error);
    message.nested(3).bool(6, true);
    drop(message);
    bytes
}

/// What is wrong with a query, on a line.
pub(crate) fn words(error: &Error) -> String {
    let place = error.place().map(|place| format!(" (line {}, column {})", place.line, place.column));
    let help = error.help().map(|help| format!("; {help}"));
    format!("{error}{}{}", place.unwrap_or_default(), help.unwrap_or_default())
}

/// Rows of a `CellsBatch`.
#[derive(Debug, Default)]
struct Batch {
    cells: Vec<u8>,
    varints: Vec<u8>,
    doubles: Vec<u8>,
    blobs: Vec<u8>,
    strings: String,
}

impl Batch {
    fn add(&mut self, cell: Cell<'_>) {
        self.cells.push(match cell {
            Cell::Null => NULL,
            Cell::Int(value) => {
                let mut value = value.cast_unsigned();
                while value >= 0x80 {
                    self.varints.push(value as u8 | 0x80);
                    value >>= 7;
                }
                self.varints.push(value as u8);
                VARINT
            }
            Cell::Real(value) => {
                self.doubles.extend(value.to_le_bytes());
                FLOAT64
            }
            Cell::Text(text) => {
                // It ends with a zero; so does one that has a zero within.
                self.strings.push_str(text.split('\0').next().unwrap_or_default());
                self.strings.push('\0');
                STRING
            }
            Cell::Bytes(bytes) => {
                Message::new(&mut self.blobs).bytes(4, bytes);
                BLOB
            }
        });
    }

    fn is_full(&self) -> bool {
        let bytes = self.cells.len() + self.varints.len() + self.doubles.len() + self.blobs.len();
        self.cells.len() >= BATCH_CELLS || bytes + self.strings.len() >= BATCH_BYTES
    }

    /// A result with what stands before it, and these rows.
    fn take(&mut self, head: &mut Vec<u8>, is_last: bool) -> Vec<u8> {
        let rows = std::mem::take(self);
        let mut bytes = std::mem::take(head);
        let mut message = Message::new(&mut bytes);
        let mut batch = message.nested(3);
        for (number, packed) in [(1, &rows.cells), (2, &rows.varints), (3, &rows.doubles)] {
            if !packed.is_empty() {
                batch.bytes(number, packed);
            }
        }
        batch.raw(&rows.blobs);
        if !rows.strings.is_empty() {
            batch.string(5, &rows.strings);
        }
        if is_last {
            batch.bool(6, true);
        }
        drop(batch);
        drop(message);
        bytes
    }
}
