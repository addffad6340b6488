// Opens a trace in the Perfetto UI in a headless browser, under node.
//
//   node open_page.cjs UI_DIR TRACE OUT_DIR BROWSER...
//
// TRACE may also be the address of somebody who serves the UI with a trace.
//
// Waits until the UI shows the trace, and prints `NAME<tab>NUMBER`: slices, what their durations add up to, counters, threads and flows by the
// UI's own Trace Processor, what that counts as an error, and what the page threw or shows in a dialog. Writes what is seen to OUT_DIR/ui.png.
'use strict';

const path = require('path');
const {Page, run, serve} = require('./page.cjs');

const QUESTIONS = {
  slices: 'select count(*) as n from slice',
  ns: 'select ifnull(sum(max(dur, 0)), 0) as n from slice',
  counters: 'select count(*) as n from counter',
  threads: 'select count(distinct utid) as n from thread_track join slice on slice.track_id = thread_track.id',
  flows: 'select count(*) as n from flow',
  errors: "select count(*) as n from stats where value > 0 and severity in ('error', 'data_loss')",
};

async function main([ui, trace, out, ...browser]) {
  if (!browser.length) throw new Error('usage: open_page.cjs UI_DIR TRACE OUT_DIR BROWSER...');
  const isServed = trace.startsWith('http://');
  const address = isServed ? trace.replace(/#.*/, '') : await serve(ui, 0, trace);
  const page = await Page.open(browser, path.join(out, 'profile'), address);
  try {
    await page.show(isServed ? trace.replace(/[^#]*/, '') : `#!/?url=${encodeURIComponent(`${address}trace`)}`);
    await page.until('the UI has opened the trace', `window.app.trace?.engine && location.hash.startsWith('#!/viewer')`);
    for (const [name, question] of Object.entries(QUESTIONS)) {
      const answer = `window.app.trace.engine.query(${JSON.stringify(question)})`;
      console.log(`${name}\t${await page.run(`${answer}.then((answer) => Number(answer.firstRow({n: 0n}).n))`)}`);
    }
    // Tracks are drawn after the first answers.
    await page.until('the UI draws tracks', `document.querySelectorAll('.pf-track').length > 0`);
    const dialogs = await page.run(`[...document.querySelectorAll('.pf-modal-dialog, .modal-dialog')].map((found) => found.innerText)`);
    for (const text of [...page.exceptions, ...dialogs]) console.error(text);
    console.log(`troubles\t${page.exceptions.length + dialogs.length}`);
  } finally {
    await page.screenshot(path.join(out, 'ui.png')).catch(() => {});
    page.close();
  }
}

run('open_page', main);
