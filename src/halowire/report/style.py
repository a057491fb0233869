"""The style sheet that all pages share: for light and dark screens, for desk, phone and paper."""

from __future__ import annotations

LIGHT = """
--page:#fdfdfb;--ink:#1b1c1e;--soft:#5b5e63;--rule:#d6d6d1;--grid:#e4e4df;--band:#0000000a;--shade:#00000030;--wash:#f4f4ef;--alert:#9a3412;
--s0:#0b62a4;--s1:#c2410c;--s2:#00704f;--s3:#96347c;--s4:#805a00;--s5:#5d6166;--s6:#0b6b80;--s7:#b0174a;--s8:#5a43c8;
--forward:#0b62a4;--backward:#74b0dd;--wait:#dd6b20;--pack:#f4c08d;--reduce:#96347c;--optimise:#8e9196;--other:#d3d3cd;
--on-forward:#fff;--on-reduce:#fff;--on-fill:#141414;
"""

DARK = """
--page:#15171a;--ink:#e8e8e4;--soft:#a4a8ad;--rule:#3a3e44;--grid:#2a2d32;--band:#ffffff12;--shade:#ffffff30;--wash:#1d2024;--alert:#ffab7d;
--s0:#6cb4f0;--s1:#ff9a62;--s2:#4fd0a5;--s3:#e59ad0;--s4:#e6bf57;--s5:#a9adb2;--s6:#67d3e6;--s7:#ff8fab;--s8:#b5a6ff;
--forward:#3d8fd1;--backward:#9accf2;--wait:#f08540;--pack:#f8d3ac;--reduce:#d08cbf;--optimise:#8f949a;--other:#6a6e74;
--on-forward:#0c0d0f;--on-reduce:#0c0d0f;--on-fill:#0c0d0f;
"""

PHASE_RULES = "".join(
    f".{name}{{--fill:var(--{name})}}"
    for name in ("forward", "backward", "wait", "pack", "reduce", "optimise", "other")
)
PHASE_RULES += ".exchange{--fill:var(--pack)}.transfer{--fill:var(--reduce)}"

SLOT_RULES = "".join(f".s{slot}{{--line:var(--s{slot})}}" for slot in range(9))

RULES = """
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%;background:var(--page)}
body{margin:0 auto;max-width:66rem;padding:2.5rem 1.5rem 4rem;color:var(--ink);background:var(--page);
font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans","Liberation Sans",Arial,sans-serif;
font-variant-numeric:tabular-nums;overflow-wrap:break-word}
h1{font-size:clamp(1.35rem,1rem + 1.4vw,1.75rem);line-height:1.25;font-weight:600;letter-spacing:-.012em;
margin:0 0 .6rem;max-width:58rem;text-wrap:balance}
h1 b{font-weight:600;color:var(--s0);white-space:nowrap}
h2{font-size:1.15rem;font-weight:600;margin:3rem 0 .9rem;padding-top:.7rem;border-top:1px solid var(--rule)}
h3{font-size:1rem;font-weight:600;margin:0}
p{margin:0 0 .7rem;max-width:46rem}
.brand{margin:0 0 1.4rem;font-size:.8125rem;color:var(--soft)}
.brand b{color:var(--ink);font-weight:600}
.sub,figcaption p,.quiet{color:var(--soft)}
.sub{font-size:.9375rem}
.notes{margin:1.4rem 0 0;padding:0 0 0 1rem;border-left:3px solid var(--alert);list-style:none;max-width:46rem}
.notes li{margin:.3rem 0}
.tiles{display:grid;grid-template-columns:repeat(6,1fr);gap:1.5rem 1.6rem;margin:2.2rem 0 0}
.tile{border-top:2px solid var(--ink);padding-top:.5rem}
.tile dt{font-size:.8125rem;color:var(--soft)}
.tile dd{margin:0}
.tile .big{font-size:1.6rem;line-height:1.25;font-weight:600;letter-spacing:-.01em;white-space:nowrap}
.tile .big small{font-size:.62em;font-weight:500;color:var(--soft);letter-spacing:0;margin-left:.2em}
.tile .more{font-size:.8125rem;color:var(--soft)}
.figures{display:grid;grid-template-columns:repeat(2,minmax(0,1fr));gap:2.4rem 3rem}
figure{margin:0;min-width:0;break-inside:avoid}
figure.wide{grid-column:1/-1}
figcaption p{font-size:.875rem;line-height:1.45;margin:.1rem 0 .5rem;min-height:2.9em}
figure.wide figcaption p{min-height:0}
.plot svg{display:block}
svg text{font-size:12px;fill:var(--soft)}
svg .grid{stroke:var(--grid)}svg .base,svg .tick{stroke:var(--rule)}
svg .mark{stroke:var(--soft);stroke-dasharray:1 3}
svg .note{font-size:11.5px;paint-order:stroke;stroke:var(--page);stroke-width:4px;stroke-linejoin:round}
svg .line{fill:none;stroke:var(--line);stroke-width:1.8;stroke-linejoin:round;stroke-linecap:round;
vector-effect:non-scaling-stroke}
svg .line.s5{stroke-width:1.3}
svg .area{fill:var(--line);opacity:.16}
svg .dot{fill:var(--line);stroke:var(--page);stroke-width:1}
svg .run{fill:var(--line);opacity:.4}
svg .error{stroke:var(--line);stroke-width:1.6}
svg .leader{stroke:var(--line);stroke-width:1;stroke-dasharray:1 2}
svg .end{fill:var(--line);font-weight:500}
svg .hit{fill:transparent}svg .hit:hover{fill:var(--band)}
svg .name{font-size:13px;fill:var(--ink)}
svg .segment{fill:var(--fill);stroke:var(--page);stroke-width:1.5}
svg .inside{font-size:11.5px;fill:var(--on-fill);pointer-events:none}
svg .span{fill:var(--fill);stroke:var(--page);stroke-width:.6}svg .span.thin{stroke:none}
svg .inside.forward{fill:var(--on-forward)}svg .inside.reduce{fill:var(--on-reduce)}
.scatter .plot,.narrowing .plot{container-type:inline-size}
@container (max-width:19rem){svg .fine{display:none}}
.timeline .plot{container-type:inline-size}
@container (max-width:44rem){.timeline .inside{display:none}}
.key{list-style:none;margin:.2rem 0 .4rem;padding:0;display:flex;flex-wrap:wrap;gap:.2rem 1.3rem;
font-size:.8125rem;color:var(--soft)}
.key b{font-weight:600;color:var(--ink)}
.swatch{display:inline-block;width:.75em;height:.75em;margin-right:.45em;border-radius:2px;background:var(--fill)}
.swatch.run{height:.22em;width:1.3em;vertical-align:middle;background:var(--line)}
.scroll{overflow-x:auto;max-width:100%;background:
linear-gradient(to right,var(--page) 40%,transparent) left/2rem 100% no-repeat local,
linear-gradient(to left,var(--page) 40%,transparent) right/2rem 100% no-repeat local,
linear-gradient(to right,var(--shade),transparent) left/.7rem 100% no-repeat scroll,
linear-gradient(to left,var(--shade),transparent) right/.7rem 100% no-repeat scroll}
.scroll:focus-visible,summary:focus-visible{outline:2px solid var(--s0);outline-offset:2px}
table{border-collapse:collapse;font-size:.875rem;line-height:1.35}
th,td{padding:.34rem 1.2rem .34rem 0;text-align:right;white-space:nowrap;font-weight:400;
border-bottom:1px solid var(--grid)}
th:first-child,td:first-child{text-align:left}
th:last-child,td:last-child{padding-right:0}
thead th{color:var(--soft);font-size:.8125rem;vertical-align:bottom;border-bottom-color:var(--rule)}
td.best{font-weight:650}
table.compare{width:100%}
table.compare thead th{white-space:normal}
table.words td{text-align:left;white-space:normal;overflow-wrap:anywhere}
table.words th{text-align:left;color:var(--soft);vertical-align:top}
.columns{columns:3 10rem;column-gap:2.5rem}
.columns .group{break-inside:avoid;padding-bottom:1.2rem}
.columns th,.columns td{padding-top:.2rem;padding-bottom:.2rem}
.columns table{width:100%}
.columns th{padding-right:.6rem}
.beside{display:flex;flex-wrap:wrap;gap:1.4rem 3.5rem;align-items:flex-start}.beside>*{min-width:0;max-width:100%}
.compare-box{margin-top:1.8rem}.under{margin-top:.6rem;font-size:.8125rem}
h3+pre{margin-top:.4rem}
.columns td{text-align:right!important}
.group h3{margin-bottom:.2rem;font-size:.9375rem}
details{margin:.7rem 0 0;font-size:.875rem}
summary{cursor:pointer;color:var(--soft);font-size:.8125rem}
details .scroll{max-height:20rem;overflow-y:auto;margin-top:.5rem}
pre{margin:.5rem 0;padding:.8rem 1rem;background:var(--wash);border-radius:4px;overflow-x:auto;
font:13px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,"Liberation Mono",monospace}
pre.command{white-space:pre-wrap;overflow-wrap:anywhere}
pre.command span{display:inline-block;max-width:100%;vertical-align:top}
footer{margin-top:3.5rem;padding-top:.8rem;border-top:1px solid var(--rule);font-size:.8125rem;color:var(--soft)}
@media (max-width:52rem){.figures{grid-template-columns:minmax(0,1fr);gap:2.2rem}figcaption p{min-height:0}
.tiles{grid-template-columns:repeat(3,1fr)}}
@media (max-width:30rem){body{padding:1.4rem 1rem 3rem}.tiles{grid-template-columns:1fr 1fr;gap:1.2rem 1.1rem}
.tile .big{font-size:1.4rem}h2{margin-top:2.3rem}.columns{columns:2 8rem;column-gap:1.4rem}
.columns table{font-size:.8125rem}}
"""

PRINT = """
@page{margin:14mm}
:root{--page:#fff;font-size:12.5px}
body{max-width:none;padding:0;font-size:12.5px}
h1{font-size:22px}h2{break-after:avoid;margin-top:1.6rem}
.tiles{grid-template-columns:repeat(6,1fr);gap:.8rem 1.1rem;margin-top:1.3rem}.tile .big{font-size:17px}
.figures{grid-template-columns:repeat(2,minmax(0,1fr));gap:1.4rem 2rem}
.columns{columns:3}
.tile,tr,.notes,pre.command,.key,.beside,.beside .scroll{break-inside:avoid}
.scroll{overflow:visible;background:none}
footer{margin-top:1.5rem}
svg text,svg .note,svg .inside{font-size:10.5px}svg .name{font-size:11px}
h3{break-after:avoid}figcaption p{min-height:2.9em}
th,td{white-space:normal}table.compare tbody th{white-space:nowrap}.screen{display:none}
pre{font-size:10px}
table.compare{font-size:10.5px}table.compare th,table.compare td{padding-right:.7rem}
details:not([open]){display:none}
*{-webkit-print-color-adjust:exact;print-color-adjust:exact}
"""


def style_sheet() -> str:
    """The whole style sheet; printed pages are always light."""
    return (
        f":root{{color-scheme:light dark;{LIGHT}}}\n"
        f"@media screen and (prefers-color-scheme:dark){{:root{{{DARK}}}}}\n"
        f"{SLOT_RULES}{PHASE_RULES}{RULES}@media print{{{PRINT}}}"
    )
