// Script of the HTML report: tables that sort and filter, and three pictures drawn from the report's own JSON, which
// stands in the page: timeline, roofline, graph. No library, no network.
//
// The graph: nodes are ranked by the longest way from an input, ranks are broken into bands like lines of text so that
// the whole has the shape of its window, and within a rank nodes stand near what they read. Boxes of a colour and edges
// are one path each, of what is in sight, so a frame costs a handful of draw calls however many nodes there are.
#pragma once

namespace npuc::report {

inline constexpr const char kHtmlScript[] = R"js('use strict';
const R = JSON.parse(document.getElementById('report').textContent);
const $ = id => document.getElementById(id);
const color = name => getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim();
const grouped = n => String(Math.round(n)).replace(/\B(?=(\d{3})+$)/g, ' ');
const bytes = n => n < 1024 ? n + ' B' : n < 1048576 ? (n / 1024).toPrecision(3) + ' KiB' : (n / 1048576).toPrecision(3) + ' MiB';
const make = (tag, text, attrs) => Object.assign(document.createElement(tag), text === undefined ? {} : {textContent: text}, attrs);

// ---- tables
for (const box of document.querySelectorAll('input[data-filter]')) {
  const rows = [...document.querySelectorAll('#' + box.dataset.filter + ' tbody tr')];
  const texts = rows.map(row => row.textContent.toLowerCase());
  box.addEventListener('input', () => {
    const want = box.value.toLowerCase();
    rows.forEach((row, i) => { row.hidden = !texts[i].includes(want); });
  });
}
for (const table of document.querySelectorAll('table[data-sort]')) {
  const body = table.tBodies[0];
  table.querySelectorAll('thead th').forEach((th, column) => {
    const button = make('button', th.textContent, {type: 'button'});
    th.textContent = '';
    th.append(button);
    button.addEventListener('click', () => {
      const down = th.getAttribute('aria-sort') !== 'descending';
      for (const other of table.querySelectorAll('th')) other.removeAttribute('aria-sort');
      th.setAttribute('aria-sort', down ? 'descending' : 'ascending');
      const key = row => row.cells[column].dataset.v ?? row.cells[column].textContent;
      const rows = [...body.rows].map(row => [key(row), row]).sort(([x], [y]) => {
        const n = Number(x) - Number(y);
        return Number.isNaN(n) ? x.localeCompare(y) : n;
      });
      if (down) rows.reverse();
      body.append(...rows.map(r => r[1]));
    });
  });
}

// ---- canvases: sharp on every screen, redrawn at most once a frame
const tip = document.body.appendChild(make('div', '', {id: 'tip', hidden: true}));
function showTip(event, text) {
  tip.hidden = !text;
  if (!text) return;
  tip.textContent = text;
  tip.style.left = Math.max(4, Math.min(event.clientX + 12, innerWidth - tip.offsetWidth - 8)) + 'px';
  tip.style.top = (event.clientY + tip.offsetHeight + 24 > innerHeight ? event.clientY - tip.offsetHeight - 8 : event.clientY + 16) + 'px';
}
function paint(canvas, draw) {
  let asked = false;
  const redraw = () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      const w = canvas.clientWidth, h = canvas.clientHeight, d = devicePixelRatio || 1;
      if (!w) return;
      if (canvas.width !== Math.round(w * d) || canvas.height !== Math.round(h * d)) {
        canvas.width = Math.round(w * d);
        canvas.height = Math.round(h * d);
      }
      const c = canvas.getContext('2d');
      c.setTransform(d, 0, 0, d, 0, 0);
      c.clearRect(0, 0, w, h);
      c.font = '11px system-ui, sans-serif';
      c.textBaseline = 'middle';
      draw(c, w, h, d);
    });
  };
  new ResizeObserver(redraw).observe(canvas);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw);
  canvas.addEventListener('mouseleave', () => showTip(null, ''));
  return redraw;
}
// Steps of 1, 2 or 5 times a power of ten.
function niceStep(span, most) {
  const raw = span / most, p = 10 ** Math.floor(Math.log10(raw));
  return [1, 2, 5, 10].map(f => f * p).find(s => s >= raw);
}
function firstAfter(list, key, value) {
  let lo = 0, hi = list.length;
  while (lo < hi) { const m = (lo + hi) >> 1; key(list[m]) > value ? hi = m : lo = m + 1; }
  return lo;
}

// ---- timeline
(() => {
  const canvas = $('time-canvas'), total = R.performance.cycles;
  if (!canvas) return;
  const engines = ['LD', 'ST', 'MXU', 'VPU'], gutter = 58, lane = 26, tall = 52;
  let from = 0, to = total;
  const span = () => to - from;
  const set = (a, b) => {
    const width = Math.min(total, Math.max(20, b - a));
    from = Math.max(0, Math.min(a, total - width));
    to = from + width;
    redraw();
  };
  const x = (t, w) => gutter + (t - from) / span() * (w - gutter - 8);
  const at = (px, w) => from + (px - gutter) / (w - gutter - 8) * span();
  function area(c, w, steps, base, height, most) {
    c.beginPath();
    c.moveTo(x(from, w), base);
    for (let i = Math.max(0, firstAfter(steps, s => s[0], from) - 1); i < steps.length && steps[i][0] < to; ++i) {
      const y = base - Math.min(1, steps[i][1] / most) * height;
      c.lineTo(x(Math.max(from, steps[i][0]), w), y);
      c.lineTo(x(Math.min(to, i + 1 < steps.length ? steps[i + 1][0] : total), w), y);
    }
    c.lineTo(x(to, w), base);
    c.fill();
  }
  const redraw = paint(canvas, (c, w) => {
    const fg = color('fg'), line = color('line'), bg = color('bg');
    const bottom = 4 * lane + 2 * tall + 8;
    c.strokeStyle = line; c.fillStyle = fg; c.textAlign = 'center'; c.lineWidth = 1;
    const step = niceStep(span(), w < 600 ? 4 : 9);
    for (let t = Math.ceil(from / step) * step; t <= to; t += step) {
      const px = Math.round(x(t, w)) + .5;
      c.beginPath(); c.moveTo(px, 0); c.lineTo(px, bottom); c.stroke();
      c.fillText(grouped(t), Math.min(Math.max(px, gutter + 14), w - 30), bottom + 10);
    }
    c.textAlign = 'center';
    c.fillStyle = color('dim');
    c.fillText('cycles', w / 2, bottom + 26);
    engines.forEach((engine, e) => {
      const spans = R.timeline.engines[engine] || [], y = e * lane + 5;
      c.fillStyle = fg; c.textAlign = 'left';
      c.fillText(engine, 6, y + 9);
      for (let i = Math.max(0, firstAfter(spans, s => s[1], from)); i < spans.length && spans[i][0] < to; ++i) {
        const [a, b, layer] = spans[i], left = Math.max(gutter, x(a, w)), width = Math.max(.7, Math.min(w - 8, x(b, w)) - left);
        c.globalAlpha = layer % 2 ? .7 : 1;
        c.fillStyle = color(engine);
        c.fillRect(left, y, width, 18);
        c.globalAlpha = 1;
        const name = R.layers[layer] ? R.layers[layer].name : '';
        if (width > 40 && c.measureText(name).width < width - 6) { c.fillStyle = bg; c.fillText(name, left + 3, y + 9); }
      }
    });
    const macBase = 4 * lane + tall, sramBase = macBase + tall + 4;
    c.fillStyle = color('MXU'); c.globalAlpha = .55; area(c, w, R.timeline.mac || [], macBase, tall - 8, 1);
    c.fillStyle = color('LD'); area(c, w, R.timeline.sram, sramBase, tall - 8, R.memory.sram_bytes || 1);
    c.globalAlpha = 1; c.fillStyle = fg;
    c.fillText('MACs', 6, macBase - 22); c.fillText('SRAM', 6, sramBase - 22);
    c.fillStyle = color('dim');
    c.fillText('100 %', 6, macBase - 38); c.fillText(bytes(R.memory.sram_bytes), 2, sramBase - 38);
    for (const base of [macBase, sramBase]) { c.strokeStyle = line; c.beginPath(); c.moveTo(gutter, base - tall + 8.5); c.lineTo(w - 8, base - tall + 8.5); c.stroke(); }
  });
  function under(event) {
    const box = canvas.getBoundingClientRect(), px = event.clientX - box.left, py = event.clientY - box.top, t = at(px, box.width);
    if (px < gutter || t < 0 || t > total) return null;
    const e = Math.floor(py / lane);
    if (e < 4) {
      const spans = R.timeline.engines[engines[e]] || [], slack = span() / box.width;
      const hit = spans.find(s => s[0] - slack <= t && t <= s[1] + slack);
      return hit ? {layer: hit[2], text: `${engines[e]}: ${R.layers[hit[2]] ? R.layers[hit[2]].name : ''}, cycles ${grouped(hit[0])} to ${grouped(hit[1])}`} : null;
    }
    const mac = py < 4 * lane + tall + 2, steps = mac ? R.timeline.mac || [] : R.timeline.sram, i = firstAfter(steps, s => s[0], t) - 1;
    if (i < 0) return null;
    return {text: `cycle ${grouped(t)}: ` + (mac ? (100 * steps[i][1]).toFixed(0) + ' % of the MAC array' : bytes(steps[i][1]) + ' of SRAM in use')};
  }
  const zoom = (factor, center = (from + to) / 2) => set(center - (center - from) * factor, center + (to - center) * factor);
  let drag = null;
  canvas.addEventListener('pointerdown', e => { drag = {x: e.clientX, from, to, moved: false}; canvas.setPointerCapture(e.pointerId); });
  canvas.addEventListener('pointermove', e => {
    if (drag && Math.abs(e.clientX - drag.x) > 3) {
      drag.moved = true;
      const d = (drag.x - e.clientX) / (canvas.clientWidth - gutter - 8) * (drag.to - drag.from);
      set(drag.from + d, drag.to + d);
      return showTip(null, '');
    }
    const hit = under(e);
    showTip(e, hit ? hit.text : '');
  });
  canvas.addEventListener('pointerup', e => {
    const hit = drag && !drag.moved && under(e);
    drag = null;
    if (!hit || !R.layers[hit.layer]) return;
    const l = R.layers[hit.layer];
    $('time-chosen').replaceChildren(make('a', l.name, {href: '#layer-' + l.id}),
      ` (${l.op}): ${grouped(l.cycles)} cycles, ${(100 * l.share).toFixed(1)} %, waits for ${l.bound_by || 'nothing of its own'}`);
  });
  canvas.addEventListener('wheel', e => {
    if (!e.ctrlKey && document.activeElement !== canvas) return;
    e.preventDefault();
    zoom(Math.exp(e.deltaY * .0015), at(e.offsetX, canvas.clientWidth));
  }, {passive: false});
  canvas.addEventListener('dblclick', e => zoom(.4, at(e.offsetX, canvas.clientWidth)));
  canvas.addEventListener('keydown', e => {
    const move = {ArrowLeft: -.15, ArrowRight: .15}[e.key];
    if (move) set(from + move * span(), to + move * span());
    else if (e.key === '+' || e.key === '=') zoom(.6);
    else if (e.key === '-') zoom(1.6);
    else if (e.key === '0' || e.key === 'Home') set(0, total);
    else return;
    e.preventDefault();
  });
  $('time-in').onclick = () => zoom(.6);
  $('time-out').onclick = () => zoom(1.6);
  $('time-all').onclick = () => set(0, total);
})();

// ---- roofline: both axes logarithmic
(() => {
  const canvas = $('roof-canvas');
  if (!canvas) return;
  const peak = R.target.macs_per_cycle, ddr = R.target.ddr_bytes_per_cycle;
  const points = R.layers.filter(l => l.macs > 0 && l.cycles > 0).map(l => ({l, x: l.macs / Math.max(1, l.ddr_read_bytes + l.ddr_write_bytes), y: l.macs / l.cycles}));
  const log = Math.log10, ridge = log(peak / ddr);
  const x0 = Math.floor(Math.min(ridge - 1, ...points.map(p => log(p.x)))), x1 = Math.ceil(Math.max(ridge + 1, ...points.map(p => log(p.x))));
  const y0 = Math.floor(Math.min(...points.map(p => log(p.y)), log(peak) - 2)), y1 = log(peak) + .25;
  let place = [];
  const redraw = paint(canvas, (c, w, h) => {
    const px = v => 44 + (v - x0) / (x1 - x0) * (w - 56), py = v => 8 + (y1 - v) / (y1 - y0) * (h - 46);
    c.strokeStyle = color('line'); c.fillStyle = color('dim'); c.textAlign = 'center';
    const power = d => d < 0 ? (10 ** d).toFixed(-d) : grouped(10 ** d);
    for (let d = x0; d <= x1; ++d) { c.beginPath(); c.moveTo(px(d), 8); c.lineTo(px(d), h - 38); c.stroke(); c.fillText(power(d), Math.min(px(d), w - 20), h - 28); }
    c.fillText('MACs a byte of DDR', w / 2, h - 10);
    c.textAlign = 'right';
    for (let d = Math.ceil(y0); d <= y1; ++d) { c.beginPath(); c.moveTo(44, py(d)); c.lineTo(w - 12, py(d)); c.stroke(); c.fillText(power(d), 40, py(d)); }
    c.strokeStyle = color('fg'); c.lineWidth = 1.5;
    const left = Math.max(x0, y0 - log(ddr));
    c.beginPath(); c.moveTo(px(left), py(left + log(ddr))); c.lineTo(px(ridge), py(log(peak))); c.lineTo(px(x1), py(log(peak))); c.stroke();
    c.lineWidth = 1;
    place = points.map(p => ({...p, px: px(log(p.x)), py: py(log(p.y)), r: 3 + 14 * Math.sqrt(p.l.share)}));
    for (const p of place) {
      c.fillStyle = c.strokeStyle = color(p.l.engine === 'LD' || p.l.engine === 'ST' ? p.l.engine : p.l.engine === 'VPU' ? 'VPU' : 'MXU');
      c.globalAlpha = .35; c.beginPath(); c.arc(p.px, p.py, p.r, 0, 7); c.fill();
      c.globalAlpha = 1; c.stroke();
    }
  });
  canvas.addEventListener('pointermove', e => {
    const near = place.filter(p => Math.hypot(p.px - e.offsetX, p.py - e.offsetY) < p.r + 3)[0];
    showTip(e, near ? `${near.l.name}: ${near.x.toPrecision(3)} MACs a byte, ${near.y.toPrecision(3)} MACs a cycle, ${(100 * near.l.share).toFixed(1)} % of the time` : '');
  });
})();
)js"
                                            R"js(
// ---- graph
(() => {
  const canvas = $('graph-canvas');
  if (!canvas) return;
  const N = R.nodes, W = 84, H = 24, DX = 112, DY = 34, panel = $('graph-node');
  const gone = $('graph-gone');
  let shown = [], pos = [], inputs = [], readers = N.map(() => []), world = {w: 1, h: 1}, view = {x: 0, y: 0, k: 1}, chosen = -1, found = [];
  N.forEach((n, i) => n.inputs.forEach(j => readers[j] && readers[j].push(i)));
  // What stands before i when nodes that are not shown are looked through.
  function before(i) {
    const out = new Set(), seen = new Set(), todo = [...N[i].inputs];
    while (todo.length) {
      const j = todo.pop();
      if (seen.has(j)) continue;
      seen.add(j);
      if (shown[j]) out.add(j); else todo.push(...N[j].inputs);
    }
    return [...out];
  }
  function arrange() {
    shown = N.map(n => gone.checked || n.verdict !== 'eliminated');
    if (!shown.some(Boolean)) shown = N.map(() => true);
    inputs = N.map((n, i) => shown[i] ? before(i) : []);
    const rank = N.map(() => 0);
    N.forEach((n, i) => { for (const j of inputs[i]) if (j < i) rank[i] = Math.max(rank[i], rank[j] + 1); });
    const ranks = [];
    N.forEach((n, i) => { if (shown[i]) (ranks[rank[i]] ||= []).push(i); });
    // Sources without inputs stand right before their first reader.
    const order = N.map(() => 0);
    for (const list of ranks) {
      const key = new Map(list.map(i => { const from = inputs[i]; return [i, from.length ? from.reduce((s, j) => s + order[j], 0) / from.length : 0]; }));
      list.sort((a, b) => key.get(a) - key.get(b) || a - b);
      list.forEach((i, k) => { order[i] = k - (list.length - 1) / 2; });
    }
    // Bands: as many ranks a line as give the picture the window's shape.
    const shape = Math.max(.8, canvas.clientWidth / Math.max(1, canvas.clientHeight));
    const bandsOf = perLine => { const b = []; for (let r = 0; r < ranks.length; r += perLine) b.push(Math.max(...ranks.slice(r, r + perLine).map(l => l.length))); return b; };
    let perLine = ranks.length;
    for (let lines = 1; lines <= ranks.length; ++lines) {
      perLine = Math.ceil(ranks.length / lines);
      if (perLine * DX <= shape * bandsOf(perLine).reduce((s, m) => s + m * DY + 30, 0)) break;
    }
    pos = []; let top = 20, r = 0;
    for (const most of bandsOf(perLine)) {
      for (let k = 0; k < perLine && r < ranks.length; ++k, ++r)
        ranks[r].forEach((i, m) => { pos[i] = {x: 16 + k * DX, y: top + (most - ranks[r].length) / 2 * DY + m * DY}; });
      top += most * DY + 30;
    }
    world = {w: Math.min(perLine, ranks.length) * DX + 16, h: top};
  }
  // `coarse`: straight lines, for when the whole is small.
  function link(path, j, i, coarse) {
    const a = pos[j], b = pos[i];
    if (!a || !b) return;
    const x0 = a.x + W, y0 = a.y + H / 2, x1 = b.x, y1 = b.y + H / 2, d = x1 > x0 ? Math.min(40, (x1 - x0) / 2) : 24;
    path.moveTo(x0, y0);
    if (coarse) {
      if (x1 <= x0) { const mid = b.y > a.y ? b.y - 16 : a.y + H + 14; path.lineTo(x0 + 14, mid); path.lineTo(x1 - 14, mid); }
      path.lineTo(x1, y1);
    } else if (x1 > x0) path.bezierCurveTo(x0 + d, y0, x1 - d, y1, x1, y1);
    else { // to the next line: down in the gap between the bands
      const mid = b.y > a.y ? b.y - 16 : a.y + H + 14;
      path.bezierCurveTo(x0 + 30, y0, x0 + 30, mid, x0, mid); path.lineTo(x1, mid); path.bezierCurveTo(x1 - 30, mid, x1 - 30, y1, x1, y1);
    }
  }
  const fit = () => {
    const k = Math.min(canvas.clientWidth / world.w, canvas.clientHeight / world.h, 1.1);
    view = {k, x: (canvas.clientWidth / k - world.w) / 2, y: (canvas.clientHeight / k - world.h) / 2};
    redraw();
  };
  const redraw = paint(canvas, (c, w, h, d) => {
    const {k} = view;
    c.setTransform(d * k, 0, 0, d * k, d * k * view.x, d * k * view.y);
    const left = -view.x - W, right = w / k - view.x, top = -view.y - H, bottom = h / k - view.y, coarse = k < .3;
    const inside = p => p.x > left && p.x < right && p.y > top && p.y < bottom;
    const near = (p, q) => Math.max(p.y, q.y) > top - H && Math.min(p.y, q.y) < bottom + H && Math.max(p.x, q.x) > left - W && Math.min(p.x, q.x) < right + W;
    const edges = new Path2D(), boxes = {npu: new Path2D(), host: new Path2D(), eliminated: new Path2D()}, seen = [];
    N.forEach((n, i) => {
      const p = pos[i];
      if (!p) return;
      for (const j of inputs[i]) if (pos[j] && near(p, pos[j])) link(edges, j, i, coarse);
      if (!inside(p)) return;
      seen.push(i);
      coarse ? boxes[n.verdict].rect(p.x, p.y, W, H) : boxes[n.verdict].roundRect(p.x, p.y, W, H, 5);
    });
    c.strokeStyle = color('gone'); c.globalAlpha = .6; c.lineWidth = Math.max(1, .8 / k); c.stroke(edges); c.globalAlpha = 1;
    if (chosen >= 0 && pos[chosen]) {
      const path = new Path2D();
      for (const j of inputs[chosen]) link(path, j, chosen);
      N.forEach((n, i) => { if (inputs[i].includes(chosen)) link(path, chosen, i); });
      c.strokeStyle = color('link'); c.lineWidth = 2.5 / k; c.stroke(path);
    }
    for (const verdict in boxes) {
      const ink = color(verdict === 'eliminated' ? 'gone' : verdict);
      c.fillStyle = k > .55 ? color('card') : ink; c.fill(boxes[verdict]);
      if (coarse) continue;
      c.strokeStyle = ink; c.lineWidth = 1.5; c.stroke(boxes[verdict]);
    }
    const mark = (i, width) => { if (!pos[i]) return; c.lineWidth = width / k; c.strokeRect(pos[i].x - 3, pos[i].y - 3, W + 6, H + 6); };
    c.strokeStyle = color('link');
    for (const i of found) mark(i, 1.5);
    if (chosen >= 0) mark(chosen, 3);
    if (k > .55) {
      c.textAlign = 'center'; c.textBaseline = 'middle'; c.font = '11px system-ui, sans-serif';
      c.fillStyle = color('fg');
      for (const i of seen) {
        const n = N[i], p = pos[i];
        const op = n.op.includes('::') ? n.op.split('::').pop() : n.op;
        c.fillText(op.length > 13 ? op.slice(0, 12) + '\u2026' : op, p.x + W / 2, p.y + H / 2 + .5);
      }
    }
  });
  function show(i) {
    const n = N[i], go = j => { const b = make('button', `${N[j].id} (${N[j].op})`, {type: 'button'}); b.onclick = () => choose(j, true); return b; };
    const list = make('dl'), row = (key, ...what) => { const d = make('dd'); what.forEach((x, k) => { if (k) d.append(make('br')); d.append(x); }); list.append(make('dt', key), d); };
    panel.replaceChildren(make('h3', n.id), list);
    row('operator', n.op);
    row('verdict', make('b', n.verdict, {className: n.verdict}));
    if (n.precision) row('computes in', n.precision);
    if (n.macs) row('MACs', grouped(n.macs));
    const l = R.layers[n.layer];
    if (l) {
      row('layer', make('a', l.name, {href: '#layer-' + l.id}));
      row('cycles', `${grouped(l.cycles)} (${(100 * l.share).toFixed(1)} %)` + (l.bound_by ? `, waits for ${l.bound_by}` : ''));
    }
    if (n.inputs.length) row('reads', ...n.inputs.map(go));
    if (readers[i].length) row('read by', ...readers[i].slice(0, 20).map(go));
    if ((n.outputs || []).length) row('tensors', ...n.outputs.map(t => make('code', t)));
    row('table', make('a', 'its row', {href: '#node-' + i}));
    for (const reason of n.reasons) {
      const r = make('div', undefined, {className: 'reason'});
      r.append(make('b', reason.rule), make('br'), reason.message);
      if (reason.limit || reason.actual) r.append(make('br'), `limit ${reason.limit || '-'}, found ${reason.actual || '-'}`);
      if (reason.help) r.append(make('br'), make('span', reason.help, {className: 'dim'}));
      panel.append(r);
    }
  }
  function choose(i, center) {
    if (!shown[i]) { gone.checked = true; arrange(); }
    chosen = i;
    show(i);
    if (center) {
      view.k = Math.max(view.k, .8);
      view.x = canvas.clientWidth / view.k / 2 - pos[i].x - W / 2;
      view.y = canvas.clientHeight / view.k / 2 - pos[i].y - H / 2;
    }
    redraw();
  }
  const at = (x, y) => {
    const wx = x / view.k - view.x, wy = y / view.k - view.y, slack = 3 / view.k;
    return pos.findIndex(p => p && wx >= p.x - slack && wx <= p.x + W + slack && wy >= p.y - slack && wy <= p.y + H + slack);
  };
  function zoom(factor, x = canvas.clientWidth / 2, y = canvas.clientHeight / 2) {
    const k = Math.min(4, Math.max(.02, view.k * factor));
    view.x += x / k - x / view.k;
    view.y += y / k - y / view.k;
    view.k = k;
    redraw();
  }
  const fingers = new Map();
  let moved = 0;
  canvas.addEventListener('pointerdown', e => { fingers.set(e.pointerId, {x: e.offsetX, y: e.offsetY}); moved = 0; canvas.setPointerCapture(e.pointerId); canvas.focus({preventScroll: true}); });
  canvas.addEventListener('pointermove', e => {
    const f = fingers.get(e.pointerId);
    if (!f) { const i = at(e.offsetX, e.offsetY); return showTip(e, i >= 0 ? `${N[i].id} (${N[i].op}): ${N[i].verdict}` : ''); }
    const others = [...fingers].filter(([id]) => id !== e.pointerId).map(x => x[1]);
    if (others.length) { // pinch
      const o = others[0];
      zoom(Math.hypot(e.offsetX - o.x, e.offsetY - o.y) / Math.max(1, Math.hypot(f.x - o.x, f.y - o.y)), (e.offsetX + o.x) / 2, (e.offsetY + o.y) / 2);
      moved = 9;
    } else {
      moved += Math.abs(e.offsetX - f.x) + Math.abs(e.offsetY - f.y);
      view.x += (e.offsetX - f.x) / view.k;
      view.y += (e.offsetY - f.y) / view.k;
      redraw();
    }
    f.x = e.offsetX; f.y = e.offsetY;
    showTip(null, '');
  });
  const up = e => {
    const click = fingers.delete(e.pointerId) && moved < 5 && e.type === 'pointerup';
    const i = click ? at(e.offsetX, e.offsetY) : -1;
    if (i >= 0) choose(i, false);
  };
  canvas.addEventListener('pointerup', up);
  canvas.addEventListener('pointercancel', up);
  canvas.addEventListener('wheel', e => {
    if (!e.ctrlKey && document.activeElement !== canvas) return;
    e.preventDefault();
    zoom(Math.exp(-e.deltaY * .0015), e.offsetX, e.offsetY);
  }, {passive: false});
  canvas.addEventListener('keydown', e => {
    const next = list => { const k = list.find(j => pos[j]); if (k !== undefined) choose(k, true); };
    const step = d => { for (let i = (chosen < 0 ? (d > 0 ? -1 : N.length) : chosen) + d; i >= 0 && i < N.length; i += d) if (pos[i]) return choose(i, true); };
    if (e.key === '+' || e.key === '=') zoom(1.4);
    else if (e.key === '-') zoom(1 / 1.4);
    else if (e.key === '0' || e.key === 'Home') fit();
    else if (e.key === 'ArrowRight') chosen < 0 ? step(1) : next(readers[chosen]);
    else if (e.key === 'ArrowLeft') chosen < 0 ? step(-1) : next(before(chosen));
    else if (e.key === 'ArrowDown') step(1);
    else if (e.key === 'ArrowUp') step(-1);
    else if (e.key === 'Escape') { chosen = -1; redraw(); }
    else return;
    e.preventDefault();
  });
  const search = $('graph-search'), count = $('graph-count');
  let nth = 0;
  const texts = N.map(n => [n.id, n.op, ...(n.outputs || [])].join('\n').toLowerCase());
  search.addEventListener('input', () => {
    const want = search.value.trim().toLowerCase();
    found = want ? texts.flatMap((t, i) => t.includes(want) ? [i] : []) : [];
    nth = 0;
    count.textContent = want ? `${found.length} found` : '';
    if (found.length) choose(found[0], true); else { chosen = -1; redraw(); }
  });
  search.addEventListener('keydown', e => {
    if (e.key !== 'Enter' || !found.length) return;
    e.preventDefault();
    nth = (nth + (e.shiftKey ? found.length - 1 : 1)) % found.length;
    count.textContent = `${nth + 1} of ${found.length}`;
    choose(found[nth], true);
  });
  $('graph-in').onclick = () => zoom(1.4);
  $('graph-out').onclick = () => zoom(1 / 1.4);
  $('graph-fit').onclick = fit;
  gone.onchange = () => { arrange(); fit(); };
  for (const link of document.querySelectorAll('a[data-node]'))
    link.addEventListener('click', () => choose(Number(link.dataset.node), true));
  let width = 0;
  new ResizeObserver(() => { if (canvas.clientWidth && Math.abs(canvas.clientWidth - width) > 8) { width = canvas.clientWidth; arrange(); fit(); } }).observe(canvas);
})();
)js";

} // namespace npuc::report
