// Opens HTML reports in headless Chromium and uses them: no console errors, no sideways scrolling, search, click, keyboard,
// sorting, frame times. For development: needs Chromium and puppeteer-core, which is looked for from the current folder.
//
//   npm install puppeteer-core && node .../tools/check_report_html.mjs a.report.html ...
//   SHOTS=folder writes screenshots at 1280 and 390 px, light and dark.
import {createRequire} from 'node:module';
import path from 'node:path';

const puppeteer = createRequire(process.cwd() + '/')('puppeteer-core');
const browser = await puppeteer.launch({
  executablePath: process.env.CHROMIUM || '/usr/bin/chromium', headless: true, args: ['--no-sandbox', '--disable-gpu'], protocolTimeout: 300000,
});
let bad = 0;
for (const file of process.argv.slice(2)) {
  const problems = [];
  const expect = (holds, what) => { if (!holds) problems.push(what); };
  const open = async (width, height, scheme) => {
    const page = await browser.newPage();
    page.on('console', m => { if (['error', 'warning'].includes(m.type())) problems.push('console: ' + m.text()); });
    page.on('pageerror', e => problems.push('script: ' + e));
    page.on('request', r => { if (!/^(file|data):/.test(r.url())) problems.push('asks the network for ' + r.url()); });
    await page.setViewport({width, height});
    await page.emulateMediaFeatures([{name: 'prefers-color-scheme', value: scheme}]);
    await page.goto('file://' + path.resolve(file));
    await page.evaluate(() => new Promise(r => requestAnimationFrame(() => requestAnimationFrame(r))));
    return page;
  };
  for (const [width, height] of [[1280, 900], [390, 844]])
    for (const scheme of ['light', 'dark']) {
      const page = await open(width, height, scheme);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth);
      expect(wide <= width, `${wide} px wide at ${width}`);
      if (process.env.SHOTS)
        await page.screenshot({path: path.join(process.env.SHOTS, path.basename(file, '.report.html') + `-${width}-${scheme}.png`), fullPage: true});
      await page.close();
    }

  const page = await open(1280, 900, 'light');
  const nodes = await page.evaluate(() => R.nodes.map(n => [n.id, n.verdict, n.reasons.length ? n.reasons[0].message : '']));
  const panel = () => page.evaluate(() => document.getElementById('graph-node').textContent);
  const frame = () => page.evaluate(() => new Promise(r => requestAnimationFrame(() => requestAnimationFrame(r))));
  const search = async text => {
    await page.evaluate(t => { const s = document.getElementById('graph-search'); s.value = t; s.dispatchEvent(new Event('input')); }, text);
    await frame();
  };
  const picked = [0, nodes.length - 1, nodes.findIndex(n => n[1] === 'npu'), nodes.findIndex(n => n[1] === 'host')].filter(i => i >= 0);
  for (const i of new Set(picked)) {
    const [id, verdict, reason] = nodes[i];
    await search(id);
    // The first that contains the text is chosen; it may be a longer id.
    expect((await page.evaluate(() => document.getElementById('graph-count').textContent)).match(/[1-9]\d* found/), `'${id}' is not found`);
    const title = await page.evaluate(() => document.querySelector('#graph-node h3')?.textContent || '');
    expect(title.toLowerCase().includes(id.toLowerCase()) || (await panel()).toLowerCase().includes(id.toLowerCase()), `the panel shows '${title}' for '${id}'`);
    if (title !== id) continue;
    expect((await panel()).includes(verdict), `no verdict for '${id}'`);
    expect((await panel()).includes(reason), `no reason for '${id}'`);
    // What was found stands in the middle: empty the panel, click there.
    await page.evaluate(() => { document.getElementById('graph').scrollIntoView(); document.getElementById('graph-node').replaceChildren(); });
    const box = await (await page.$('#graph-canvas')).boundingBox();
    await page.mouse.click(box.x + box.width / 2, box.y + box.height / 2);
    await frame();
    expect((await panel()).includes(id) && (await panel()).includes(reason), `a click on '${id}' does not show it`);
  }
  if (nodes.length > 1) {
    await search('');
    await page.focus('#graph-canvas');
    await page.keyboard.press('ArrowDown');
    await frame();
    const first = await panel();
    await page.keyboard.press('ArrowDown');
    await frame();
    expect(first !== await panel() || picked.length < 2, 'arrow keys do not walk');
  }
  expect(await page.evaluate(() => {
    const head = document.querySelector('#node-table thead button');
    head.click(); head.click();
    const ids = [...document.querySelectorAll('#node-table tbody tr')].map(r => r.cells[0].textContent);
    return ids.every((x, i) => !i || x.localeCompare(ids[i - 1]) >= 0 || !Number.isNaN(Number(x)));
  }), 'the node table does not sort');
  // Frames while zooming and panning over the whole graph.
  const ms = await page.evaluate(async () => {
    document.getElementById('graph-fit').click();
    const next = () => new Promise(r => requestAnimationFrame(r));
    await next();
    const times = [];
    for (let i = 0; i < 40; ++i) {
      const start = performance.now();
      document.getElementById(i % 20 < 10 ? 'graph-in' : 'graph-out').click();
      await next(); await next();
      times.push(performance.now() - start);
    }
    return times.sort((a, b) => a - b)[30] / 2;
  });
  for (const problem of problems) console.log(`${path.basename(file)}: ${problem}`);
  console.log(`${path.basename(file)}: ${nodes.length} nodes, ${problems.length ? 'BAD' : 'good'}, ${ms.toFixed(1)} ms a frame`);
  bad += problems.length > 0;
  await page.close();
}
await browser.close();
process.exit(bad ? 1 : 0);
