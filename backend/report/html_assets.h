// Style of the HTML report. Colours are custom properties, so light and dark are one sheet and the canvases read them
// too.
#pragma once

namespace npuc::report {

inline constexpr const char kHtmlStyle[] = R"css(
:root { color-scheme: light; --bg: #ffffff; --fg: #1b1f24; --dim: #59636e; --line: #d1d9e0; --card: #f6f8fa; --npu: #1a7f37; --host: #c2410c;
  --gone: #8c959f; --bad: #cf222e; --link: #0550ae; --mark: #fff3b0; --LD: #0969da; --ST: #8250df; --MXU: #1a7f37; --VPU: #9a6700;
  --w0: #6e7781; --w1: #1a7f37; --w2: #4ac26b; --w3: #bf8700; --w4: #9a6700; --w5: #cf222e; --w6: #8250df; --w7: #54aeff; --w8: #0969da; }
@media (prefers-color-scheme: dark) { :root { color-scheme: dark; --bg: #0d1117; --fg: #e6edf3; --dim: #9198a1; --line: #30363d; --card: #151b23;
  --npu: #3fb950; --host: #f0883e; --gone: #6e7681; --bad: #f85149; --link: #79c0ff; --mark: #4d3f00; --LD: #58a6ff; --ST: #bc8cff; --MXU: #3fb950;
  --VPU: #d29922; --w0: #8b949e; --w1: #2ea043; --w2: #7ee787; --w3: #e3b341; --w4: #d29922; --w5: #f85149; --w6: #bc8cff; --w7: #a5d6ff; --w8: #388bfd; } }
* { box-sizing: border-box; }
html { scroll-padding-top: 3.25rem; }
body { margin: 0; background: var(--bg); color: var(--fg); font: 15px/1.5 system-ui, -apple-system, "Segoe UI", sans-serif; }
header, main, nav > div { max-width: 80rem; margin: 0 auto; padding: 0 1.25rem; }
main { padding-bottom: 4rem; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 1.25rem 0 .25rem; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 2.25rem 0 .5rem; } h3 { font-size: 1rem; margin: 1rem 0 .35rem; }
p { margin: .35rem 0 .6rem; } a { color: var(--link); }
.dim { color: var(--dim); } .skip { position: absolute; left: -999px; } .skip:focus { left: 1rem; top: .5rem; background: var(--bg); z-index: 9; }
nav { position: sticky; top: 0; z-index: 5; background: var(--bg); border-bottom: 1px solid var(--line); margin-top: .75rem; }
nav > div { display: flex; gap: 1.1rem; overflow-x: auto; white-space: nowrap; padding-top: .55rem; padding-bottom: .55rem; scrollbar-width: thin; }
nav a { text-decoration: none; } nav a:hover { text-decoration: underline; }
:focus-visible { outline: 2px solid var(--link); outline-offset: 1px; }
.note { border: 1px solid var(--host); border-left-width: 5px; border-radius: 6px; padding: .5rem .8rem; margin: 1rem 0; }
.tiles { display: grid; grid-template-columns: repeat(auto-fill, minmax(14rem, 1fr)); gap: .6rem; margin: 1rem 0; }
.tile, .card { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: .55rem .8rem; }
.tile span { display: block; font-size: .8rem; } .tile b { display: block; font-size: 1.3rem; line-height: 1.35; font-variant-numeric: tabular-nums; }
.bar { display: flex; height: 14px; border-radius: 7px; overflow: hidden; gap: 1px; } .bar span { display: block; min-width: 2px; }
.legend { display: flex; flex-wrap: wrap; gap: .15rem 1.1rem; font-size: .85rem; margin: .4rem 0 .8rem; }
.legend i { display: inline-block; width: .75em; height: .75em; border-radius: 2px; margin-right: .4em; }
.hbars { display: grid; grid-template-columns: max-content 1fr max-content; gap: .3rem .7rem; align-items: center; font-size: .875rem; }
.hbars > div { background: var(--card); border-radius: 3px; height: 13px; } .hbars > div > span { display: block; height: 13px; border-radius: 3px; min-width: 2px; }
.hbars .n { font-variant-numeric: tabular-nums; text-align: right; } .hbars .id { max-width: 26rem; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.two { display: grid; grid-template-columns: repeat(auto-fit, minmax(20rem, 1fr)); gap: 1.5rem; }
.advice { list-style: none; margin: .5rem 0; padding: 0; display: grid; gap: .6rem; } .advice .gain { float: right; margin-left: 1rem; font-weight: 600; white-space: nowrap; font-variant-numeric: tabular-nums; }
.advice .kind { display: inline-block; font-size: .75rem; border: 1px solid var(--line); border-radius: 1em; padding: 0 .6em; margin-right: .5em; }
.advice .dim { display: block; font-size: .875rem; } .advice code { display: block; margin-top: .35rem; padding: .35rem .6rem; background: var(--bg); border: 1px solid var(--line); border-radius: 4px; overflow-wrap: anywhere; font-size: .85rem; }
.npu { color: var(--npu); } .host { color: var(--host); } .eliminated { color: var(--dim); } .bad { color: var(--bad); } .ok { color: var(--npu); }
.scroll { overflow: auto; max-height: 32rem; border: 1px solid var(--line); border-radius: 8px; }
table { border-collapse: collapse; width: 100%; font-size: .85rem; } th, td { overflow-wrap: normal; text-align: left; padding: .3rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; }
tbody tr:last-child td { border-bottom: 0; } tbody tr:hover { background: var(--card); } tr:target, tr.chosen { background: var(--mark); }
th { position: sticky; top: 0; background: var(--card); z-index: 1; white-space: nowrap; } td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
td.id { min-width: 9rem; overflow-wrap: anywhere; } td.why { min-width: 14rem; overflow-wrap: anywhere; } td code { white-space: nowrap; } td.nw { white-space: nowrap; } th button { all: unset; cursor: pointer; font-weight: 600; }
th button:focus-visible { outline: 2px solid var(--link); } th[aria-sort=descending] button::after { content: " \25be"; } th[aria-sort=ascending] button::after { content: " \25b4"; }
.tools { display: flex; flex-wrap: wrap; gap: .4rem .6rem; align-items: center; margin: .4rem 0; }
input[type=search] { font: inherit; padding: .25rem .55rem; border: 1px solid var(--line); border-radius: 6px; background: var(--bg); color: var(--fg); min-width: 0; width: 16rem; max-width: 100%; }
.tools button { font: inherit; min-width: 2.1rem; padding: .2rem .6rem; border: 1px solid var(--line); border-radius: 6px; background: var(--card); color: var(--fg); cursor: pointer; }
canvas { display: block; width: 100%; border: 1px solid var(--line); border-radius: 8px; background: var(--bg); }
#time-canvas { height: 262px; touch-action: pan-y; cursor: crosshair; } #roof-canvas { height: 320px; max-width: 46rem; } #graph-canvas { height: 30rem; touch-action: none; cursor: grab; }
.graph { display: grid; grid-template-columns: minmax(0, 1fr) 21rem; gap: .8rem; } .graph aside { overflow: auto; max-height: 30rem; overflow-wrap: anywhere; }
.graph aside h3 { margin-top: 0; } .graph dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem .7rem; margin: .4rem 0; font-size: .875rem; } dd { margin: 0; } dt { color: var(--dim); }
.graph aside button { all: unset; cursor: pointer; color: var(--link); text-decoration: underline; overflow-wrap: anywhere; } .graph aside button:focus-visible { outline: 2px solid var(--link); }
.reason { border-left: 3px solid var(--host); padding-left: .6rem; margin: .5rem 0; font-size: .875rem; }
#tip { position: fixed; z-index: 9; pointer-events: none; background: var(--fg); color: var(--bg); font-size: .8rem; padding: .2rem .5rem; border-radius: 4px; max-width: 22rem; overflow-wrap: anywhere; }
code { background: var(--card); padding: 0 .25rem; border-radius: 3px; overflow-wrap: anywhere; font-size: .9em; }
ul.checks { list-style: none; padding: 0; margin: 0; } ul.checks li { padding: .25rem 0 .25rem 1.6rem; position: relative; } ul.checks li b:first-child { position: absolute; left: 0; }
details { margin: .6rem 0; } summary { cursor: pointer; }
@media (max-width: 760px) { header, main, nav > div { padding-left: .8rem; padding-right: .8rem; } .graph { grid-template-columns: minmax(0, 1fr); } #graph-canvas { height: 22rem; }
  .tiles { grid-template-columns: repeat(2, 1fr); } .tile b { font-size: 1.1rem; } .two { grid-template-columns: minmax(0, 1fr); } .hbars .id { max-width: 9.5rem; } .graph aside { max-height: none; } }
@media print { .scroll { max-height: none; overflow: visible; } nav, .tools { display: none; } }
)css";

} // namespace npuc::report
