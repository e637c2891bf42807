// Style and script of the HTML report. Colours come from custom properties, so light and dark are one sheet; the script
// only filters and sorts what stands there without it.
#pragma once

namespace npuc::report {

inline constexpr const char kHtmlStyle[] = R"css(
:root { color-scheme: light dark; --bg: #ffffff; --fg: #1b1f24; --dim: #59636e; --line: #d1d9e0; --card: #f6f8fa; --npu: #1a7f37; --host: #bc4c00;
  --gone: #8c959f; --bad: #cf222e; --link: #0550ae; --LD: #0969da; --ST: #8250df; --MXU: #1a7f37; --VPU: #9a6700; }
@media (prefers-color-scheme: dark) { :root { --bg: #0d1117; --fg: #e6edf3; --dim: #9198a1; --line: #3d444d; --card: #151b23; --npu: #3fb950;
  --host: #f0883e; --gone: #6e7681; --bad: #f85149; --link: #79c0ff; --LD: #58a6ff; --ST: #bc8cff; --MXU: #3fb950; --VPU: #d29922; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem 1.25rem 4rem; max-width: 78rem; background: var(--bg); color: var(--fg); font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: .5rem 0 .25rem; } h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; }
p, li { max-width: 70rem; } .dim { color: var(--dim); } a { color: var(--link); }
nav a { margin-right: 1rem; } .skip { position: absolute; left: -99rem; } .skip:focus { position: static; }
:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(11rem, 1fr)); gap: .75rem; margin: 1rem 0; }
.tile { background: var(--card); border: 1px solid var(--line); border-radius: 6px; padding: .6rem .8rem; }
.tile b { display: block; font-size: 1.4rem; font-weight: 600; }
.bar { display: flex; height: 1.1rem; border-radius: 4px; overflow: hidden; border: 1px solid var(--line); } .bar span { display: block; }
.npu { color: var(--npu); } .host { color: var(--host); } .eliminated { color: var(--gone); } .bad { color: var(--bad); } .ok { color: var(--npu); }
.scroll { overflow: auto; max-height: 34rem; border: 1px solid var(--line); border-radius: 6px; }
table { border-collapse: collapse; width: 100%; font-size: .875rem; } th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; }
th { position: sticky; top: 0; background: var(--card); } td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
td.id { overflow-wrap: anywhere; } th button { all: unset; cursor: pointer; font-weight: 600; } th button:focus-visible { outline: 2px solid var(--link); }
svg { display: block; max-width: none; } svg text { fill: var(--fg); font: 11px system-ui, sans-serif; } svg .axis { stroke: var(--line); } svg .edge { stroke: var(--line); fill: none; }
input { font: inherit; padding: .25rem .5rem; border: 1px solid var(--line); border-radius: 4px; background: var(--bg); color: var(--fg); }
code { background: var(--card); padding: 0 .25rem; border-radius: 3px; overflow-wrap: anywhere; }
@media print { .scroll { max-height: none; } }
)css";

inline constexpr const char kHtmlScript[] = R"js(
for (const box of document.querySelectorAll('input[data-filter]')) {
  const rows = document.querySelectorAll('#' + box.dataset.filter + ' tbody tr');
  box.addEventListener('input', () => {
    const want = box.value.toLowerCase();
    for (const row of rows) row.hidden = !row.textContent.toLowerCase().includes(want);
  });
}
for (const table of document.querySelectorAll('table[data-sort]')) {
  const body = table.tBodies[0];
  table.querySelectorAll('thead th').forEach((th, column) => {
    const button = document.createElement('button');
    button.textContent = th.textContent;
    th.textContent = '';
    th.append(button);
    button.addEventListener('click', () => {
      const down = th.getAttribute('aria-sort') !== 'descending';
      for (const other of table.querySelectorAll('th')) other.removeAttribute('aria-sort');
      th.setAttribute('aria-sort', down ? 'descending' : 'ascending');
      const key = row => row.cells[column].dataset.v ?? row.cells[column].textContent;
      const rows = [...body.rows].sort((a, b) => {
        const x = key(a), y = key(b), n = Number(x) - Number(y);
        return Number.isNaN(n) ? x.localeCompare(y) : n;
      });
      if (down) rows.reverse();
      body.append(...rows);
    });
  });
}
)js";

} // namespace npuc::report
