"use strict";
(() => {
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const drawn = new Set();

  function themed(layout, box) {
    const narrow = box.clientWidth < 560;
    const axis = { gridcolor: css("--grid"), linecolor: css("--line"), zeroline: false, automargin: true, ticks: "", tickfont: { color: css("--soft") } };
    const title = (t) => (t ? { text: t.text, font: { size: 12.5, color: css("--soft") }, standoff: 8 } : undefined);
    return {
      ...layout,
      title: layout.title && { ...layout.title, font: { size: 14, color: css("--ink") } },
      xaxis: { ...axis, ...layout.xaxis, title: title(layout.xaxis.title) },
      yaxis: { ...axis, ...layout.yaxis, title: title(layout.yaxis.title) },
      margin: narrow ? { ...layout.margin, l: 48, r: 10 } : layout.margin,
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: css("--sans"), size: narrow ? 11.5 : 13, color: css("--ink") },
      hoverlabel: { bgcolor: css("--card"), bordercolor: css("--line"), font: { family: css("--sans"), color: css("--ink") } },
      legend: { orientation: "h", y: -0.22, yanchor: "top", x: 0, font: { size: 12.5 } },
      dragmode: false,
    };
  }

  // Labels of points take the first of eight places that hits neither another label nor a point, else the best one.
  const places = [
    ["top center", 0, -1], ["bottom center", 0, 1], ["middle right", 1, 0], ["middle left", -1, 0],
    ["top right", 1, -1], ["top left", -1, -1], ["bottom right", 1, 1], ["bottom left", -1, 1],
  ];
  function placeLabels(box) {
    const { xaxis, yaxis, width } = box._fullLayout._plots.xy ? { xaxis: box._fullLayout.xaxis, yaxis: box._fullLayout.yaxis, width: box._fullLayout._size.w } : {};
    if (!xaxis) return;
    const size = box._fullLayout.font.size;
    const points = box.data.flatMap((trace, index) => {
      if (!trace.text) return [];
      const label = trace.text[0].replace(/<[^>]*>/g, "").replace(/&[a-z0-9#]+;/g, "x");
      const wide = [...label].reduce((sum, c) => sum + (c.codePointAt(0) > 0x2e7f ? 1.02 : 0.56), 0) * size;
      const { array, arrayminus } = trace.error_y;
      const at = (y) => yaxis.d2p(y);
      return [{ index, x: xaxis.d2p(trace.x[0]), y: at(trace.y[0]), wide, tall: size * 1.3, up: at(trace.y[0] + array[0]), down: at(trace.y[0] - arrayminus[0]) }];
    });
    const taken = points.flatMap((p) => [[p.x - 7, p.y - 7, p.x + 7, p.y + 7], [p.x - 2, p.up, p.x + 2, p.down]]);
    const line = box.data[0].x.map((x, i) => [xaxis.d2p(x), yaxis.d2p(box.data[0].y[i])]);
    for (let i = 1; i < line.length; i++)
      for (let k = 0; k <= 24; k++) {
        const x = line[i - 1][0] + ((line[i][0] - line[i - 1][0]) * k) / 24, y = line[i - 1][1] + ((line[i][1] - line[i - 1][1]) * k) / 24;
        taken.push([x - 4, y - 4, x + 4, y + 4]);
      }
    const overlap = (a, b) => Math.max(0, Math.min(a[2], b[2]) - Math.max(a[0], b[0])) * Math.max(0, Math.min(a[3], b[3]) - Math.max(a[1], b[1]));
    for (const p of points.sort((a, b) => a.x - b.x)) {
      let best = null;
      for (const [name, dx, dy] of places) {
        const cx = p.x + dx * (p.wide / 2 + (dy ? 2 : 11));
        const cy = p.y + dy * (p.tall / 2 + (dx ? 4 : 9));
        const rect = [cx - p.wide / 2, cy - p.tall / 2, cx + p.wide / 2, cy + p.tall / 2];
        const out = Math.max(0, -rect[0]) + Math.max(0, rect[2] - width);
        const bad = taken.reduce((sum, t) => sum + overlap(rect, t), 0) + 40 * out;
        if (!best || bad < best.bad - 1) best = { name, rect, bad };
      }
      taken.push(best.rect);
      Plotly.restyle(box, { textposition: best.name }, [p.index]);
    }
  }

  function draw(box) {
    if (box.hidden) return;
    const figure = figures[box.dataset.figure];
    drawn.add(box);
    Plotly.react(box, figure.data, themed(figure.layout, box), { displayModeBar: false, responsive: true }).then(() => figure.place_labels && placeLabels(box));
  }

  const boxes = [...document.querySelectorAll(".figure")];
  boxes.forEach(draw);
  for (const button of document.querySelectorAll(".switch button"))
    button.addEventListener("click", () => {
      for (const other of button.parentNode.children) {
        const on = other === button;
        other.setAttribute("aria-pressed", on);
        document.querySelector(`[data-figure="${other.dataset.shows}"]`).hidden = !on;
      }
      draw(document.querySelector(`[data-figure="${button.dataset.shows}"]`));
    });
  const again = () => drawn.forEach(draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  let timer;
  addEventListener("resize", () => { clearTimeout(timer); timer = setTimeout(again, 150); });
})();
