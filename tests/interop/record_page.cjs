// Records with the "Record new trace" page of the Perfetto UI in a headless browser, as a person would, under node.
//
//   node record_page.cjs UI_DIR OUT_DIR BROWSER...
//
// Serves the UI at localhost:10000, one of the addresses that `ferretto bridge` knows, opens its page, chooses Linux, two probes and
// "Start tracing", stops when the page shows how full the buffer is, and waits until the UI has opened the trace. Writes the trace to
// OUT_DIR/ui.pftrace and what is seen at the end to OUT_DIR/ui.png, and prints what the UI says about the service and the answers
// of the UI's own Trace Processor. A step that does not succeed ends the program with status 1 and says which.
'use strict';

const fs = require('fs');
const path = require('path');
const {Page, run, serve} = require('./page.cjs');

const PORT = 10000;

async function main([ui, out, ...browser]) {
  if (!browser.length) throw new Error('usage: record_page.cjs UI_DIR OUT_DIR BROWSER...');
  const address = await serve(ui, PORT);
  const page = await Page.open(browser, path.join(out, 'profile'), address);
  try {
    await record(page, out);
  } finally {
    await page.screenshot(path.join(out, 'ui.png')).catch(() => {});
    page.close();
  }
}

async function record(page, out) {
  await page.show('#!/record');
  await page.until('the page offers Linux', `click('button', 'Linux')`);
  await page.until('the page is connected', `shown('tr', 'WebSocket connection')?.innerText.includes('Connected')`);
  await page.until('the page knows the service', `shown('tr', 'Traced state')?.innerText.includes('#sessions')`);
  console.log(await page.run(`shown('tr', 'Traced version').innerText`));

  await page.show('#!/record/cpu');
  await page.until('scheduling is chosen', `enable('Scheduling details')`);
  await page.show('#!/record/memory');
  await page.until('processes are chosen', `enable('Per process')`);
  await page.show('#!/record/target');
  await page.until('tracing is started', `click('button', 'Start tracing')`);
  await page.until('the page records', `shown('tr', 'State')?.innerText.includes('RECORDING')`);
  await page.until('the page shows the buffer', `/\\d+ %/.test(shown('tr', 'Buffer usage')?.innerText)`);
  await page.until('tracing is stopped', `click('button', 'Stop')`);

  await page.until('the UI has opened the trace', `window.app.trace?.engine && location.hash.startsWith('#!/viewer')`);
  await page.until('the UI draws CPUs', `shown('*', 'CPU Scheduling') || shown('*', 'Cpu 0') || shown('*', 'CPU 0')`);
  for (const table of ['sched', 'process']) {
    const count = `window.app.trace.engine.query('select count(*) as n from ${table}')`;
    console.log(`${table}\t${await page.run(`${count}.then((answer) => Number(answer.firstRow({n: 0n}).n))`)}`);
  }
  fs.writeFileSync(path.join(out, 'ui.pftrace'), Buffer.from(await page.run(TRACE), 'base64'));
}

/** The bytes that the page received. */
const TRACE = `(async () => {
  const bytes = window.recordingMgr.currentSession.session.getTraceData();
  const url = await new Promise((done) => {
    const reader = new FileReader();
    reader.onload = () => done(reader.result);
    reader.readAsDataURL(new Blob([bytes]));
  });
  return url.split(',')[1];
})()`;

run('record_page', main);
