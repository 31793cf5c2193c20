"""The look of the pages: light and dark, phone and print."""

STYLE = """
:root {
  color-scheme: light dark;
  --ground: #ffffff; --panel: #fbfbfc; --ink: #1a1e23; --soft: #5d6772; --rule: #e2e5e9; --grid: #edeff2;
  --good: #0a7a53; --bad: #b3261e; --wait: #8a5a00;
  --c0: #0072b2; --c1: #d55e00; --c2: #009e73; --c3: #b0468c; --c4: #b58100; --c5: #4c9fd4; --c6: #70757a;
  --c7: #7b4a2d;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #121417; --panel: #181b1f; --ink: #e6e8eb; --soft: #9aa4af; --rule: #2b3036; --grid: #24282d;
    --good: #4fd19e; --bad: #ff8a80; --wait: #f0b94a;
    --c0: #5db4f0; --c1: #ff9152; --c2: #3ecfa0; --c3: #e48fc6; --c4: #eac04d; --c5: #a5d8ff; --c6: #a9b0b7;
    --c7: #cf9b78;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; padding: 40px 24px 64px; max-width: 1200px; background: var(--ground); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
  font-variant-numeric: tabular-nums; -webkit-text-size-adjust: 100%;
}
h1, h2, h3, p, figure, ul, dl, dd { margin: 0; padding: 0; }
h1 { font-size: 26px; font-weight: 650; letter-spacing: -.01em; line-height: 1.25; overflow-wrap: anywhere; }
h2 { font-size: 17px; font-weight: 650; margin: 44px 0 14px; }
h3 { font-size: 14px; font-weight: 650; }
a { color: var(--c0); text-underline-offset: 2px; }
.over { color: var(--soft); font-size: 13px; margin-bottom: 4px; }
.meta { color: var(--soft); margin-top: 8px; display: flex; flex-wrap: wrap; gap: 4px 18px; }
.state { font-weight: 600; }
.state::before { content: "\\25CF"; margin-right: 6px; }
.state.done { color: var(--good); } .state.failed { color: var(--bad); }
.state.running { color: var(--c0); } .state.preempted, .state.interrupted { color: var(--wait); }
.problem {
  margin-top: 20px; padding: 12px 16px; border-left: 3px solid var(--bad); background: var(--panel);
  overflow-wrap: anywhere; white-space: pre-wrap;
}
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(158px, 1fr)); gap: 1px; margin: 28px 0 16px;
  background: var(--rule); border: 1px solid var(--rule); border-radius: 10px; overflow: hidden; }
.tile { background: var(--panel); padding: 14px 16px; min-width: 0; }
.tile dt { color: var(--soft); font-size: 13px; }
.tile dd { font-size: 22px; font-weight: 600; line-height: 1.35; overflow-wrap: anywhere; }
.tile .hint { display: block; color: var(--soft); font-size: 12.5px; font-weight: 400; line-height: 1.4; }
.shared { margin-bottom: 12px; } .shared .legend { padding: 0; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 440px), 1fr)); gap: 16px; }
.chart { border: 1px solid var(--rule); border-radius: 10px; background: var(--panel); padding: 14px 18px 10px 10px;
  min-width: 0; break-inside: avoid; }
.chart.wide { grid-column: 1 / -1; }
figcaption { display: flex; flex-wrap: wrap; align-items: baseline; gap: 0 10px; padding-left: 8px; }
.unit { color: var(--soft); font-size: 12.5px; }
.reset { margin-left: auto; font: inherit; font-size: 12.5px; color: var(--c0); background: none; border: 0;
  padding: 0; cursor: pointer; text-decoration: underline; text-underline-offset: 2px; }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: 0 16px; padding: 2px 0 0 8px; font-size: 12.5px; }
.key { display: flex; align-items: center; gap: 7px; overflow-wrap: anywhere; }
.key::before { content: ""; flex: none; width: 16px; border-top: 2.5px solid currentColor; }
.key.dash1::before { border-top-style: dashed; }
.key.dash2::before, .key.dash3::before { border-top-style: dotted; }
.key { color: var(--ink); }
.key::before { border-top-color: var(--colour); }
.c0 { --colour: var(--c0); } .c1 { --colour: var(--c1); } .c2 { --colour: var(--c2); }
.c3 { --colour: var(--c3); } .c4 { --colour: var(--c4); } .c5 { --colour: var(--c5); }
.c6 { --colour: var(--c6); } .c7 { --colour: var(--c7); }
.plot { display: grid; grid-template-columns: 52px minmax(0, 1fr); grid-template-rows: 220px 26px; margin-top: 12px;
  outline-offset: 4px; }
.wide .plot { grid-template-rows: 320px 26px; }
.ys, .xs, .area { position: relative; }
.tick { position: absolute; font-size: 11.5px; color: var(--soft); white-space: nowrap; line-height: 1; }
.ys .tick { right: 9px; transform: translateY(-50%); }
.xs { grid-column: 2; }
.xs .tick { top: 9px; transform: translateX(-50%); }
.xs .tick.end { transform: translateX(-100%); }
.xname { grid-column: 1; grid-row: 2; justify-self: end; margin: 9px 26px 0 0; font-size: 11.5px; line-height: 1;
  color: var(--soft); }
.area { cursor: crosshair; touch-action: pan-y; }
.area svg { position: absolute; inset: 0; width: 100%; height: 100%; overflow: visible; }
.zoomed .area svg { overflow: hidden; }
svg path { fill: none; vector-effect: non-scaling-stroke; }
.grid path { stroke: var(--grid); stroke-width: 1; }
.level { stroke: var(--soft); stroke-width: 1; stroke-dasharray: 2 4; }
.line { stroke: var(--colour); stroke-width: 1.9; stroke-linejoin: round; stroke-linecap: round; }
.line.faint { stroke-width: 1; opacity: .32; }
.line.dash1 { stroke-dasharray: 7 4; } .line.dash2 { stroke-dasharray: 2 4; } .line.dash3 { stroke-dasharray: 9 3 2 3; }
.dots { stroke: var(--colour); stroke-width: 5.5; stroke-linecap: round; }
.lit-one path[data-run]:not(.lit) { opacity: .12; }
.lit-one path.lit { stroke-width: 2.6; } .lit-one path.lit.dots { stroke-width: 6.5; }
.level-name { position: absolute; right: 0; transform: translateY(-100%); padding: 0 0 2px 6px; font-size: 11.5px;
  line-height: 1.3; color: var(--soft); pointer-events: none;
  text-shadow: 0 0 2px var(--panel), 0 0 2px var(--panel), 0 0 3px var(--panel); }
.level-name.below { transform: none; padding-top: 2px; }
.cursor { position: absolute; top: 0; bottom: 0; width: 0; border-left: 1px solid var(--soft); pointer-events: none; }
.band { position: absolute; top: 0; bottom: 0; background: var(--c0); opacity: .14; pointer-events: none; }
.tip { position: absolute; top: 6px; z-index: 1; pointer-events: none; padding: 7px 10px; border-radius: 6px;
  border: 1px solid var(--rule); background: var(--ground); font-size: 12.5px; line-height: 1.45;
  max-width: min(260px, 70vw); box-shadow: 0 2px 10px rgb(0 0 0 / .12); }
.tip b { display: block; font-weight: 600; }
.tip div { display: flex; gap: 8px; align-items: center; }
.tip div::before { content: ""; flex: none; width: 9px; height: 9px; border-radius: 50%; background: var(--colour); }
.tip span:last-child { margin-left: auto; padding-left: 8px; }
.tip span:first-child { overflow-wrap: anywhere; }
.note { color: var(--soft); font-size: 12.5px; padding: 4px 0 4px 8px; overflow-wrap: anywhere; }
.scroll { overflow-x: auto; border: 1px solid var(--rule); border-radius: 10px; background: var(--panel); }
table { border-collapse: collapse; width: 100%; font-size: 13.5px; }
th, td { padding: 7px 14px; text-align: left; vertical-align: top; border-bottom: 1px solid var(--rule); }
tbody tr:last-child > * { border-bottom: 0; }
th { font-weight: 600; color: var(--soft); font-size: 12.5px; }
tbody th { color: var(--ink); font-weight: 500; font-size: 13.5px; }
.number { text-align: right; white-space: nowrap; }
.wrap { overflow-wrap: break-word; max-width: 340px; }
thead .number { white-space: normal; min-width: 88px; }
tbody .run { white-space: nowrap; }
.fits { table-layout: fixed; } .fits .wrap { overflow-wrap: anywhere; }
.matrix { width: auto; } .matrix th, .matrix td { padding: 3px 6px; border: 0; font-size: 12.5px; }
.matrix thead th { vertical-align: bottom; } .matrix thead span { writing-mode: vertical-rl; }
.matrix tbody td { min-width: 34px; background: color-mix(in srgb, var(--c1) calc(var(--share) * 80%), transparent); }
.matrix tbody td.right { background: color-mix(in srgb, var(--c2) calc(var(--share) * 60%), transparent); }
th button { font: inherit; color: inherit; background: none; border: 0; padding: 0; cursor: pointer;
  text-align: inherit; }
th[aria-sort=ascending] button::after { content: " \\2191"; }
th[aria-sort=descending] button::after { content: " \\2193"; }
tr.best { background: color-mix(in srgb, var(--good) 9%, transparent); }
.find { display: flex; flex-wrap: wrap; align-items: center; gap: 8px 18px; margin-bottom: 10px; font-size: 13px; }
.find input[type=search] { font: inherit; color: inherit; padding: 5px 10px; width: 220px; border-radius: 7px;
  border: 1px solid var(--rule); background: var(--panel); }
.find output { color: var(--soft); margin-left: auto; }
.browse tbody tr > :first-child { border-left: 3px solid transparent; font-weight: 400; max-width: 520px; }
.browse tr.wrong > :first-child { border-left-color: var(--bad); }
.browse tr.right > :first-child { border-left-color: var(--good); }
.shown { display: flex; flex-wrap: wrap; gap: 12px; margin-bottom: 14px; }
.shown figure { margin: 0; width: 150px; padding: 8px; font-size: 12.5px; border-top: 3px solid var(--good);
  background: var(--panel); break-inside: avoid; }
.shown figure.wrong { border-top-color: var(--bad); }
.shown img { width: 96px; image-rendering: pixelated; }
.sample { padding: 12px 16px; margin-bottom: 10px; border: 1px solid var(--rule); border-radius: 10px;
  background: var(--panel); line-height: 1.75; overflow-wrap: anywhere; white-space: pre-line; break-inside: avoid; }
mark { color: inherit; padding: 1px 4px; border-radius: 4px; }
mark.right { background: color-mix(in srgb, var(--good) 20%, transparent); }
mark.wrong { background: color-mix(in srgb, var(--bad) 16%, transparent); }
mark i { margin-left: 6px; font-size: .86em; color: var(--bad); }
.swatch { display: inline-block; width: 16px; border-top: 3px solid var(--colour); vertical-align: middle;
  margin-right: 9px; }
.swatch.dash1 { border-top-style: dashed; } .swatch.dash2, .swatch.dash3 { border-top-style: dotted; }
.facts { display: grid; grid-template-columns: minmax(110px, max-content) minmax(0, 1fr); gap: 5px 24px; }
.facts dt { color: var(--soft); } .facts dd { overflow-wrap: anywhere; }
pre, code { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; font-size: 13px; }
pre { margin: 0; padding: 12px 16px; border: 1px solid var(--rule); border-radius: 10px; background: var(--panel);
  white-space: pre-wrap; overflow-wrap: anywhere; }
pre.command { user-select: all; }
.label { color: var(--soft); font-size: 13px; margin: 14px 0 6px; }
details { margin-top: 14px; } summary { cursor: pointer; color: var(--c0); margin-bottom: 10px; }
footer { margin-top: 48px; color: var(--soft); font-size: 12.5px; }
@media (max-width: 560px) {
  body { padding: 24px 14px 48px; }
  h1 { font-size: 21px; }
  .tiles { grid-template-columns: repeat(2, minmax(0, 1fr)); }
  .tile { padding: 11px 12px; } .tile dd { font-size: 19px; }
  .tile:first-child:nth-last-child(odd) { grid-column: 1 / -1; }
  .xs:has(.tick:nth-child(6)) .tick:nth-child(even) { display: none; }
  .chart { padding: 12px 12px 8px 4px; }
  .plot, .wide .plot { grid-template-columns: 46px minmax(0, 1fr); grid-template-rows: 220px 26px; }
  th, td { padding: 7px 10px; }
  .xname { margin-right: 14px; }
  .browse table, .browse tbody { display: block; } .browse thead { display: none; }
  .browse tr { display: grid; grid-template-columns: 1fr 1fr auto; border-bottom: 1px solid var(--rule); }
  .browse tr[hidden] { display: none; }
  .browse tr > * { border-bottom: 0; padding: 2px 10px 8px; min-width: 0; overflow-wrap: anywhere; }
  .browse tr > :first-child { grid-column: 1 / -1; padding-top: 8px; max-width: none; }
  .browse td::before { display: block; font-size: 11.5px; color: var(--soft); }
  .browse td:nth-child(2)::before { content: "true"; } .browse td:nth-child(3)::before { content: "predicted"; }
  .browse td:nth-child(4)::before { content: "probability"; }
  .facts { grid-template-columns: minmax(0, 1fr); gap: 0; } .facts dd { margin-bottom: 8px; }
}
@media print {
  :root { color-scheme: light; --ground: #fff; --panel: #fff; --ink: #000; --soft: #444; --rule: #ccc; --grid: #e6e6e6;
    --good: #0a7a53; --bad: #b3261e; --wait: #8a5a00; --c0: #0072b2; --c1: #d55e00; --c2: #009e73; --c3: #b0468c;
    --c4: #b58100; --c5: #4c9fd4; --c6: #70757a; --c7: #7b4a2d; }
  body { padding: 0; max-width: none; font-size: 11pt; print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  .charts { grid-template-columns: 1fr 1fr; }
  .plot { grid-template-rows: 150px 26px; } .wide .plot { grid-template-rows: 220px 26px; }
  .browse tbody tr:nth-child(n + 21) { display: none; }
  .cursor, .tip, .band, .reset, .find { display: none !important; }
  .scroll { overflow: visible; } table { font-size: 8.5pt; } th, td, tbody th { padding: 3px 5px; font-size: 8.5pt; }
  .number { white-space: normal; }
  h2 { break-after: avoid; } tr { break-inside: avoid; }
}
"""
