// Opens a page of `ferretto report --html` in a headless browser, under node.
//
//   node open_report.cjs PAGE OUT_DIR BROWSER...
//
// Prints `NAME<tab>NUMBER`: pictures and those of them that are drawn with some size, rows of tables, what the page has loaded, scripts in it,
// whether a name became more than text (`harm`), whether it is wider than the window, and whether its colours are others in the dark.
// Writes what is seen to OUT_DIR/report.png.
'use strict';

const path = require('path');
const {pathToFileURL} = require('url');
const {Page, run} = require('./page.cjs');

const QUESTIONS = {
  pictures: "document.querySelectorAll('svg').length",
  drawn: "[...document.querySelectorAll('svg')].filter((svg) => svg.getBoundingClientRect().width > 100 && svg.getBoundingClientRect().height > 10).length",
  rows: "document.querySelectorAll('tbody tr').length",
  loaded: "performance.getEntriesByType('resource').length",
  scripts: "document.querySelectorAll('script, img, iframe, object, embed, link, a').length",
  harm: 'Number(Boolean(window.harm))',
  wider: 'Number(document.documentElement.scrollWidth > window.innerWidth)',
};

async function main([file, out, ...browser]) {
  if (!browser.length) throw new Error('usage: open_report.cjs PAGE OUT_DIR BROWSER...');
  const page = await Page.open(browser, path.join(out, 'profile'), pathToFileURL(file).href);
  try {
    await page.show('');
    await page.until('the page is there', "document.readyState === 'complete' && document.querySelector('main')");
    for (const [name, question] of Object.entries(QUESTIONS)) console.log(`${name}\t${await page.run(question)}`);
    const back = () => page.run('getComputedStyle(document.body).backgroundColor');
    const inScheme = async (value) => {
      await page.call('Emulation.setEmulatedMedia', {features: [{name: 'prefers-color-scheme', value}]});
      return back();
    };
    const dark = await inScheme('dark');
    console.log(`darker\t${Number((await inScheme('light')) !== dark)}`);
    for (const text of page.exceptions) console.error(text);
    console.log(`troubles\t${page.exceptions.length}`);
  } finally {
    await page.screenshot(path.join(out, 'report.png')).catch(() => {});
    page.close();
  }
}

run('open_report', main);
