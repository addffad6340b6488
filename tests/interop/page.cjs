// The Perfetto UI in a headless browser: what the programs that use its pages share, under node.
//
// The browser is driven by its DevTools protocol over two pipes: JSON messages that end in NUL.
'use strict';

const fs = require('fs');
const http = require('http');
const path = require('path');
const {spawn} = require('child_process');

/** For one step, on a loaded machine. */
const PATIENCE_MS = 60000;
const PAUSE_MS = 100;

const TYPES = {
  '.css': 'text/css', '.html': 'text/html', '.js': 'text/javascript', '.json': 'application/json', '.png': 'image/png',
  '.wasm': 'application/wasm', '.woff2': 'font/woff2',
};

/** What is run in the page to find things as a person does: by their text. */
const IN_PAGE = `
  const shown = (selector, text) => [...document.querySelectorAll(selector)].find((found) => found.innerText.includes(text));
  const click = (selector, text) => { const found = shown(selector, text); if (!found || found.disabled) return false; found.click(); return true; };
  const enable = (text) => {
    const box = shown('label', text)?.querySelector('input');
    if (!box) return false;
    if (!box.checked) box.click();
    return true;
  };
`;

/** Serves the UI at a port of localhost, or at any, and a file beside it as `/trace`. Gives the address. */
function serve(root, port = 0, trace = '') {
  const server = http.createServer((request, response) => {
    const name = decodeURIComponent(request.url.split('?')[0]);
    const file = name === '/trace' ? trace : path.join(root, name === '/' ? 'index.html' : name);
    if ((file !== trace && !file.startsWith(root)) || !fs.statSync(file, {throwIfNoEntry: false})?.isFile()) {
      response.writeHead(404).end();
      return;
    }
    response.writeHead(200, {'content-type': TYPES[path.extname(file)] ?? 'application/octet-stream'});
    fs.createReadStream(file).pipe(response);
  });
  return new Promise((done, failed) => {
    server.once('error', failed).listen(port, '127.0.0.1', () => done(`http://localhost:${server.address().port}/`));
  });
}

/** A browser with one page. */
class Page {
  static async open([program, ...args], profile, address) {
    const page = new Page();
    page.address = address;
    page.browser = spawn(program, [...args, ...FLAGS, `--user-data-dir=${profile}`], {
      stdio: ['ignore', 'ignore', 'pipe', 'pipe', 'pipe'],
    });
    page.browser.stderr.on('data', (text) => (page.log = (page.log + text).slice(-4096)));
    page.browser.stdio[4].on('data', (bytes) => page.receive(bytes));
    page.browser.on('exit', () => page.fail(new Error(`the browser ended:\n${page.log}`)));
    const {targetId} = await page.call('Target.createTarget', {url: 'about:blank'});
    const {sessionId} = await page.call('Target.attachToTarget', {targetId, flatten: true});
    page.session = sessionId;
    await page.call('Runtime.enable');
    return page;
  }

  log = '';
  /** What the page threw and nobody caught. */
  exceptions = [];
  lastId = 0;
  received = Buffer.alloc(0);
  waiting = new Map();

  call(method, params = {}) {
    const id = ++this.lastId;
    this.browser.stdio[3].write(JSON.stringify({id, method, params, sessionId: this.session}) + '\0');
    return new Promise((done, failed) => this.waiting.set(id, {done, failed}));
  }

  receive(bytes) {
    this.received = Buffer.concat([this.received, bytes]);
    for (let end; (end = this.received.indexOf(0)) >= 0; ) {
      const message = JSON.parse(this.received.subarray(0, end));
      this.received = this.received.subarray(end + 1);
      if (message.method === 'Runtime.exceptionThrown') {
        const {text, exception} = message.params.exceptionDetails;
        this.exceptions.push(exception?.description ?? text);
      }
      const waiting = this.waiting.get(message.id);
      this.waiting.delete(message.id);
      if (message.error) waiting?.failed(new Error(message.error.message));
      else waiting?.done(message.result);
    }
  }

  fail(error) {
    for (const {failed} of this.waiting.values()) failed(error);
    this.waiting.clear();
  }

  /** The value of an expression in the page. */
  async run(expression) {
    const params = {expression: `(() => { ${IN_PAGE} return ${expression}; })()`, awaitPromise: true, returnByValue: true};
    const {result, exceptionDetails} = await this.call('Runtime.evaluate', params);
    if (exceptionDetails) throw new Error(`${expression}: ${exceptionDetails.exception?.description ?? exceptionDetails.text}`);
    return result.value;
  }

  /** Waits until an expression is true; one that throws is not, yet. */
  async until(what, expression) {
    const deadline = Date.now() + PATIENCE_MS;
    for (;;) {
      const so = await this.run(`Boolean(${expression})`).catch((error) => error);
      if (so === true) return;
      if (Date.now() > deadline) {
        const text = await this.run('document.body.innerText').catch(String);
        throw new Error(`waited in vain until ${what} (${so}); the page says:\n${text}\n${this.log}`);
      }
      await new Promise((done) => setTimeout(done, PAUSE_MS));
    }
  }

  /** Shows a page of the UI: the first time it is loaded, then as a link in it does. */
  async show(hash) {
    const url = this.address + hash;
    if (this.shows) await this.run(`location.href = ${JSON.stringify(url)}`);
    else await this.call('Page.navigate', {url});
    this.shows = url;
  }

  async screenshot(file) {
    const {data} = await this.call('Page.captureScreenshot', {format: 'png'});
    fs.writeFileSync(file, Buffer.from(data, 'base64'));
  }

  close() {
    this.browser.removeAllListeners('exit');
    this.browser.kill('SIGKILL');
  }
}

/** No sandbox: tests run as root, and in containers. Nothing is looked up outside: every name but localhost is unknown. */
const FLAGS = [
  '--headless', '--no-sandbox', '--disable-gpu', '--remote-debugging-pipe', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync', '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1',
  '--window-size=1600,1000',
];

/** Runs a program on its arguments, and ends with status 1 if it fails. */
function run(name, main) {
  main(process.argv.slice(2)).then(
    () => process.exit(0),
    (error) => {
      process.stderr.write(`${name}: ${error.stack}\n`);
      process.exit(1);
    },
  );
}

module.exports = {Page, run, serve};
