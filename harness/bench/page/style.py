"""The page's style: two colour schemes, one column on a phone, wide tables that scroll inside themselves."""

CSS = """
:root {
  --ground: #ffffff; --panel: #f5f6f8; --line: #d5d9e0; --ink: #1b1f27; --soft: #596273;
  --bad: #b3261e; --good: #1a6f3c; --doubt: #7a5800; --link: #1f5fbf; --band: #1f5fbf33; --shade: #1b1f2740;
  --c0: #0072b2; --c1: #c44e00; --c2: #00795c; --c3: #a4508b; --c4: #8a6d00; --c5: #4a4ea8; --c6: #5c6370;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #14171c; --panel: #1d2128; --line: #363d49; --ink: #e8eaee; --soft: #a3acba;
    --bad: #ff8a80; --good: #7ad69b; --doubt: #f0c35b; --link: #8ab8ff; --band: #8ab8ff33; --shade: #e8eaee40;
    --c0: #5bb4f0; --c1: #ff9d5c; --c2: #4fd1ab; --c3: #e69ccb; --c4: #e0c14a; --c5: #a6a9ff; --c6: #b4bcc9;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0 auto; max-width: 72rem; padding: 1.5rem 1rem 4rem; background: var(--ground); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; overflow-wrap: break-word; }
h1 { margin: 0; font-size: 1.6rem; line-height: 1.2; }
h2 { margin: 0 0 .75rem; font-size: 1.2rem; }
h3 { margin: 1.5rem 0 .5rem; font-size: 1rem; font-weight: 600; }
section { margin-top: 2.5rem; scroll-margin-top: 1rem; }
a { color: var(--link); }
nav { display: flex; flex-wrap: wrap; gap: .25rem 1rem; margin-top: 1rem; font-size: .9rem; }
.facts { display: flex; flex-wrap: wrap; gap: .1rem 1rem; margin: .4rem 0 .8rem; color: var(--soft); font-size: .9rem; }
.status { display: flex; flex-wrap: wrap; align-items: center; gap: .4rem .6rem; margin: 0; font-weight: 600; }
.note { margin: .6rem 0 0; color: var(--soft); font-size: .85rem; max-width: 50rem; }
.chip { display: inline-block; padding: .05rem .5rem; border: 1px solid; border-radius: 1rem; font-size: .85rem;
  font-weight: 600; white-space: nowrap; }
.bad { color: var(--bad); } .good { color: var(--good); } .doubt { color: var(--doubt); } .plain { color: var(--soft); }
/* a shade at the side where there is more to scroll to: covered by what scrolls along with the table's ends */
.scroll { overflow-x: auto; border: 1px solid var(--line); border-radius: .4rem; background:
  linear-gradient(to right, var(--ground) 40%, transparent) left / 2.5rem 100% no-repeat local,
  linear-gradient(to left, var(--ground) 40%, transparent) right / 2.5rem 100% no-repeat local,
  linear-gradient(to right, var(--shade), transparent) left / 1rem 100% no-repeat scroll,
  linear-gradient(to left, var(--shade), transparent) right / 1rem 100% no-repeat scroll; }
table { border-collapse: collapse; width: 100%; font-size: .88rem; font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .6rem; text-align: left; white-space: nowrap; border-top: 1px solid var(--line); }
thead th { border-top: 0; background: var(--panel); color: var(--soft); font-weight: 600; }
tbody th { font-weight: 500; white-space: normal; min-width: 9rem; overflow-wrap: anywhere; }
@media (min-width: 48rem) { tbody th { min-width: 16rem; } }
tbody .group { background: var(--panel); color: var(--soft); font-weight: 600; }
.wraps td { white-space: normal; overflow-wrap: anywhere; }
.n { text-align: right; }
.bar { display: inline-block; vertical-align: middle; width: 4.5rem; height: .55rem; margin-right: .4rem;
  background: var(--panel); border: 1px solid var(--line); border-radius: .2rem; overflow: hidden; }
.bar > i { display: block; height: 100%; background: var(--c0); }
details { margin-top: .75rem; }
summary { cursor: pointer; color: var(--link); padding: .3rem 0; }
ul { padding-left: 1.2rem; margin: .5rem 0; }
figure { margin: 0; }
figcaption { font-size: .82rem; line-height: 1.35; margin-bottom: .2rem; overflow-wrap: anywhere; }
figcaption b { font-weight: 600; }
.scale { margin: 0; color: var(--soft); font-size: .78rem; }
svg { display: block; width: 100%; height: auto; }
svg text { font: 12px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; fill: var(--soft); }
.roof { max-width: 44rem; }
.roof svg text { font-size: 14px; }
.grid { stroke: var(--line); stroke-width: 1; fill: none; }
.roofline { stroke: var(--ink); stroke-width: 2; fill: none; }
.course { stroke: var(--link); stroke-width: 1.8; fill: none; }
.spread { fill: var(--band); stroke: none; }
.floor { stroke: var(--soft); stroke-width: 1.2; stroke-dasharray: 4 3; fill: none; }
.last { fill: var(--link); }
.wide { display: grid; grid-template-columns: repeat(auto-fill, minmax(15.5rem, 1fr)); gap: .9rem; }
.wide figure { padding: .6rem .7rem; background: var(--panel); border: 1px solid var(--line); border-radius: .4rem;
  min-width: 0; }
.wide figure.slower { border-color: var(--bad); } .wide figure.faster { border-color: var(--good); }
.legend { display: flex; flex-wrap: wrap; gap: .2rem 1rem; padding: 0; margin: .6rem 0 0; list-style: none;
  font-size: .85rem; }
.legend svg { display: inline-block; width: 14px; height: 14px; margin-right: .3rem; vertical-align: -2px; }
.k0 { --k: var(--c0); } .k1 { --k: var(--c1); } .k2 { --k: var(--c2); } .k3 { --k: var(--c3); }
.k4 { --k: var(--c4); } .k5 { --k: var(--c5); } .k6 { --k: var(--c6); }
[class^="k"] { fill: var(--k); stroke: var(--k); stroke-width: 0; }
.outlined { fill: var(--ground); stroke-width: 1.8; }
@media (max-width: 30rem) { th, td { padding: .35rem .4rem; } .bar { display: none; } }
""".strip()
