// Runs SQL on a trace with Trace Processor's WebAssembly build, under node.
//
//   node trace_query.cjs ENGINE_DIR TRACE [--then TRACE]... [--times] SQL...
//
// With --times a line `Time: 1.234 ms` stands behind each table: from the question to the answer's last row.
// Starting the engine takes longer than reading a small trace: several can be asked one after the other. Prints a table for each query: a line of column names, then a line for each row; cells are separated by tabs, NULL is \N, and
// tabs, newlines and backslashes in cells are escaped with a backslash. An empty line ends a table. A query that fails ends the
// program with status 1, a trace that cannot be read with status 2.
//
// The engine bundle is made to run as a web worker of the Perfetto UI. Here a worker thread plays the browser: it gives it the few
// globals that it looks for, and a message port over which the UI speaks `TraceProcessorRpcStream`
// (upstream: protos/perfetto/trace_processor/trace_processor.proto, whose field numbers are below).
'use strict';

const fs = require('fs');
const path = require('path');
const vm = require('vm');
const {Worker, MessageChannel, isMainThread, parentPort, workerData} = require('worker_threads');

// TraceProcessorMethod
const APPEND_TRACE_DATA = 1, FINALIZE_TRACE_DATA = 2, QUERY_STREAMING = 3, RESET_TRACE_PROCESSOR = 11;
// TraceProcessorRpc
const REQUEST = 2, FATAL_ERROR = 5, DATA = 101, QUERY_ARGS = 103, APPEND_RESULT = 201, QUERY_RESULT = 203;
// CellsBatch.CellType
const NULL = 1, INTEGER = 2, FLOAT = 3, STRING = 4;

const CHUNK = 16 << 20;

function fail(status, message) {
  process.stderr.write(`trace_query: ${message}\n`);
  process.exit(status);
}

async function main([engineDir, trace, ...queries]) {
  const traces = [trace];
  while (queries[0] === '--then') traces.push(queries.splice(0, 2)[1]);
  const times = queries[0] === '--times' && Boolean(queries.shift());
  if (!queries.length) fail(2, 'usage: trace_query.cjs ENGINE_DIR TRACE [--then TRACE]... SQL...');
  const engine = new Engine(engineDir);
  for (const [at, path] of traces.entries()) {
    if (at) await engine.reset();
    await engine.load(fs.readFileSync(path)).catch((error) => fail(2, `${path}: ${error.message}`));
    for (const sql of queries) {
      const asked = process.hrtime.bigint();
      const answer = await engine.query(sql);
      const ms = Number(process.hrtime.bigint() - asked) / 1e6;
      print(table(answer) + (times ? `Time: ${ms.toFixed(3)} ms\n` : '\n'));
    }
  }
  process.exit(0);
}

// A pipe takes a part of a large text at once.
function print(text) {
  for (let bytes = Buffer.from(text); bytes.length; ) bytes = bytes.subarray(fs.writeSync(1, bytes));
}

function table({columns, rows, error}) {
  if (error) fail(1, error);
  const cell = (value) =>
    value === null ? '\\N' : String(value).replace(/[\\\t\n]/g, (c) => ({'\\': '\\\\', '\t': '\\t', '\n': '\\n'})[c]);
  return [columns, ...rows].map((row) => row.map(cell).join('\t') + '\n').join('');
}

class Engine {
  constructor(dir) {
    const {port1, port2} = new MessageChannel();
    this.port = port2;
    this.seq = 0;
    this.received = Buffer.alloc(0);
    this.listener = () => {};
    this.worker = new Worker(__filename, {workerData: dir, stdout: true, stderr: true});
    this.worker.on('error', (error) => fail(2, `the engine died: ${error.message}`));
    this.ready = new Promise((resolve) => this.worker.once('message', resolve)).then(() => this.worker.postMessage(port1, [port1]));
    port2.on('message', (bytes) => this.receive(bytes));
  }

  async load(trace) {
    await this.ready;
    for (let at = 0; at < trace.length; at += CHUNK) {
      const reply = await this.call(APPEND_TRACE_DATA, bytesField(DATA, trace.subarray(at, at + CHUNK)));
      const error = get(reply.get(APPEND_RESULT), 2);
      if (error && error.length) throw new Error(`the trace cannot be read: ${error}`);
    }
    await this.call(FINALIZE_TRACE_DATA, Buffer.alloc(0));
  }

  reset() {
    return this.call(RESET_TRACE_PROCESSOR, Buffer.alloc(0));
  }

  // Results come in batches; the last says so.
  query(sql) {
    const columns = [], cells = [];
    let error = null;
    return new Promise((resolve) => {
      this.listener = (message) => {
        let last = false;
        for (const [field, value] of fields(message.get(QUERY_RESULT) ?? Buffer.alloc(0))) {
          if (field === 1) columns.push(value.toString());
          else if (field === 2 && value.length) error = value.toString();
          else if (field === 3) last = readBatch(value, cells) || last;
        }
        if (!last && !error) return;
        const rows = [];
        for (let at = 0; columns.length && at < cells.length; at += columns.length) rows.push(cells.slice(at, at + columns.length));
        resolve({columns, rows, error});
      };
      this.send(QUERY_STREAMING, bytesField(QUERY_ARGS, bytesField(1, Buffer.from(sql))));
    });
  }

  call(method, body) {
    return new Promise((resolve) => {
      this.listener = resolve;
      this.send(method, body);
    });
  }

  send(method, body) {
    const message = Buffer.concat([varintField(1, ++this.seq), varintField(REQUEST, method), body]);
    this.port.postMessage(new Uint8Array(bytesField(1, message)));
  }

  // The stream is a sequence of fields 1; a message may come in parts.
  receive(bytes) {
    this.received = Buffer.concat([this.received, Buffer.from(bytes)]);
    for (;;) {
      const size = this.received.length > 1 ? readVarint(this.received, 1) : null;
      if (!size || this.received.length < size.next + Number(size.value)) return;
      const end = size.next + Number(size.value);
      const message = new Map(fields(this.received.subarray(size.next, end)));
      this.received = this.received.subarray(end);
      if (message.get(FATAL_ERROR)) fail(2, message.get(FATAL_ERROR).toString());
      this.listener(message);
    }
  }
}

// Adds a batch's values to `cells`; true if it is the last one.
function readBatch(batch, cells) {
  let types = [], integers = [], floats = [], strings = [], last = false;
  const blobs = [];
  for (const [field, value] of fields(batch)) {
    if (field === 1) types = varints(value).map(Number);
    else if (field === 2) integers = varints(value).map((n) => BigInt.asIntN(64, n));
    else if (field === 3) for (let at = 0; at + 8 <= value.length; at += 8) floats.push(value.readDoubleLE(at));
    else if (field === 4) blobs.push(value.toString('hex'));
    else if (field === 5) strings = value.toString().split('\0');
    else if (field === 6) last = value !== 0n;
  }
  const sources = {[INTEGER]: integers.values(), [FLOAT]: floats.values(), [STRING]: strings.values()};
  const blobValues = blobs.values();
  for (const type of types) cells.push(type === NULL ? null : (sources[type] ?? blobValues).next().value);
  return last;
}

function varint(value) {
  const bytes = [];
  let rest = BigInt(value);
  for (; rest > 127n; rest >>= 7n) bytes.push(Number(rest & 127n) | 128);
  bytes.push(Number(rest));
  return Buffer.from(bytes);
}

function varintField(number, value) {
  return Buffer.concat([varint(number << 3), varint(value)]);
}

function bytesField(number, bytes) {
  return Buffer.concat([varint((number << 3) | 2), varint(bytes.length), bytes]);
}

// The value at `at` and where the next one is; null if it is not there yet.
function readVarint(bytes, at) {
  let value = 0n;
  for (let shift = 0n; at < bytes.length; shift += 7n) {
    const byte = bytes[at++];
    value |= BigInt(byte & 127) << shift;
    if (byte < 128) return {value, next: at};
  }
  return null;
}

function varints(bytes) {
  const values = [];
  for (let at = 0, read; (read = readVarint(bytes, at)); at = read.next) values.push(read.value);
  return values;
}

function get(bytes, number) {
  return bytes && new Map(fields(bytes)).get(number);
}

// [number, BigInt | Buffer] for each field.
function* fields(bytes) {
  for (let at = 0; at < bytes.length; ) {
    const tag = readVarint(bytes, at);
    const number = Number(tag.value >> 3n);
    const wire = Number(tag.value & 7n);
    if (wire === 0) {
      const {value, next} = readVarint(bytes, tag.next);
      yield [number, value];
      at = next;
      continue;
    }
    const size = wire === 2 ? readVarint(bytes, tag.next) : {value: wire === 1 ? 8 : 4, next: tag.next};
    at = size.next + Number(size.value);
    yield [number, bytes.subarray(size.next, at)];
  }
}

// In the worker thread: what the bundle needs of a browser.
function playBrowser(dir) {
  const file = (url) => path.join(dir, path.basename(String(url)));
  const wasm = {status: 200, headers: {'content-type': 'application/wasm'}};
  globalThis.self = globalThis;
  globalThis.WorkerGlobalScope = class {};
  globalThis.location = {origin: 'http://localhost', href: 'http://localhost/engine_bundle.js'};
  globalThis.importScripts = () => {};
  globalThis.fetch = async (url) => new Response(fs.readFileSync(file(url)), wasm);
  globalThis.XMLHttpRequest = class {
    open(_method, url) { this.url = url; }
    send() { this.status = 200; this.response = fs.readFileSync(file(this.url)); this.onload?.(); }
  };
  // The bundle must not find out where it really runs.
  delete globalThis.process;
  vm.runInThisContext(fs.readFileSync(path.join(dir, 'engine_bundle.js'), 'utf8'), {filename: 'engine_bundle.js'});
  parentPort.on('message', (data) => globalThis.onmessage({data}));
  parentPort.postMessage('ready');
}

if (isMainThread) {
  main(process.argv.slice(2)).catch((error) => fail(2, error.message));
} else {
  playBrowser(workerData);
}
