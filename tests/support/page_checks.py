"""Scripts that look for faults in a page that a browser shows; each returns the faults that it finds."""

from __future__ import annotations

# Pairs of shown texts of a drawing that overlap by more than a hair, and texts that leave the page.
OVERLAPS = """
[...document.querySelectorAll('.plot')].flatMap(plot => {
  const shown = [...plot.querySelectorAll('text')].filter(t => getComputedStyle(t).display != 'none');
  const boxes = shown.map(t => [t.textContent, t.getBoundingClientRect()]);
  const bad = [];
  boxes.forEach(([a, p], i) => {
    if (p.left < -0.5 || p.right > innerWidth + 0.5) bad.push(a + ' leaves the page');
    boxes.slice(i + 1).forEach(([b, q]) => {
      const w = Math.min(p.right, q.right) - Math.max(p.left, q.left);
      const h = Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top);
      if (w > 1 && h > 3) bad.push(a + ' | ' + b);
    });
  });
  return bad;
})
"""

# Texts whose contrast with what lies behind them is below 4.5 (WCAG AA).
FAINT = """
(() => {
  const rgb = c => (c.match(/[\\d.]+/g) || []).map(Number);
  const linear = v => v / 255 <= .04045 ? v / 255 / 12.92 : ((v / 255 + .055) / 1.055) ** 2.4;
  const light = c => { const [r, g, b] = rgb(c).map(linear); return .2126 * r + .7152 * g + .0722 * b; };
  const page = getComputedStyle(document.body).backgroundColor;
  const ratio = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + .05) / (y + .05); };
  const behind = e => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor;
                        if (rgb(c).length === 3) return c; } return page; };
  const bad = [];
  for (const e of document.querySelectorAll('body *')) {
    const own = [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
    if (!own || !e.getClientRects().length || e.closest('title, desc')) continue;
    let fore = getComputedStyle(e).color, back = behind(e);
    if (e instanceof SVGElement) {
      fore = getComputedStyle(e).fill;
      if (e.classList.contains('inside')) back = getComputedStyle(e.previousElementSibling).fill;
    }
    if (ratio(fore, back) < 4.5) bad.push(e.textContent.slice(0, 40) + ' ' + fore + ' on ' + back);
  }
  return bad;
})()
"""

# Figures without a title, a description or their data.
UNDESCRIBED = """
[...document.querySelectorAll('figure')].filter(f => !f.querySelector('svg[role=img][aria-label] > title') ||
  !f.querySelector('svg > desc') || !f.querySelector('details tbody tr') || !f.querySelector('h3'))
  .map(f => f.textContent.slice(0, 40))
"""

# The first part of the colour behind the page, and every fold opened.
SHADE = "Number(getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0])"
UNFOLD = "document.querySelectorAll('details').forEach(one => one.open = true)"
