"use strict";
(() => {
  const data = JSON.parse(document.getElementById("plot-data").textContent);
  const plot = document.getElementById("plot");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const narrow = matchMedia("(max-width: 640px)");
  const RATIOS = ["speedup", "size_ratio"];
  const PEER_SYMBOLS = ["diamond", "triangle-up", "triangle-down", "pentagon", "star", "hexagon"];
  const axes = { x: "speedup", y: "size_ratio" };

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const column = (marks, axis, part) => marks.map((mark) => mark[axis][part]);

  function arms(marks, axis, tint) {
    return {
      type: "data", symmetric: false, array: column(marks, axis, 2), arrayminus: column(marks, axis, 1),
      color: tint, thickness: 1.2, width: 3,
    };
  }

  function scatter(name, marks, marker, more) {
    const drawn = marks.filter((mark) => mark[axes.x] && mark[axes.y]);
    return {
      name, type: "scatter", mode: "markers", x: column(drawn, axes.x, 0), y: column(drawn, axes.y, 0),
      hovertext: drawn.map((mark) => mark.hover), hoverinfo: "text", marker, cliponaxis: true, ...more(drawn),
    };
  }

  function traces() {
    const [front, beyond, peer, ink, grey, card] = ["front", "lossy", "peer", "original", "tried", "page"].map(colour);
    const withArms = (tint) => (drawn) => ({
      error_x: arms(drawn, axes.x, tint), error_y: arms(drawn, axes.y, tint), customdata: drawn.map((mark) => mark.row),
    });
    const points = (marks, tint, more) => ({
      color: marks.map((mark) => (mark.chosen ? tint : card)), size: marks.map((mark) => (mark.chosen ? 14 : 11)),
      line: { color: tint, width: 2.2 }, opacity: 1, ...more,
    });
    const steps = data.steps[axes.x][axes.y] ?? [];
    return [
      scatter("tried", data.tried, { color: grey, size: 5, opacity: 0.6 }, () => ({})),
      {
        type: "scatter", mode: "lines", x: steps.map((s) => s[0]), y: steps.map((s) => s[1]), showlegend: false,
        line: { shape: data.higher.includes(axes.x) ? "vh" : "hv", color: front, width: 1.2, dash: "dot" }, hoverinfo: "skip",
      },
      scatter("original", data.original, { color: ink, size: 11, symbol: "square" }, withArms(ink)),
      ...data.peers.map((mark, index) => scatter(
        mark.label, [mark], { color: peer, size: 11, symbol: PEER_SYMBOLS[index % PEER_SYMBOLS.length] }, withArms(peer),
      )),
      scatter("beyond the budget", data.beyond, points(data.beyond, beyond, { symbol: "diamond-open" }), withArms(beyond)),
      scatter("front", data.front, points(data.front, front), withArms(front)),
    ];
  }

  // Further right and further up is better on every axis.
  const better = (axis, name) => (data.higher.includes(name) ? axis : { ...axis, range: [...axis.range].reverse() });

  function layout() {
    const [ink, quiet, line, card] = ["ink", "quiet", "line", "card"].map(colour);
    const family = getComputedStyle(document.body).fontFamily;
    const axis = (name) => ({
      title: { text: data.titles[name], font: { size: 13 }, standoff: 12 }, range: data.ranges[name], gridcolor: line,
      zeroline: false, linecolor: line, ticksuffix: RATIOS.includes(name) ? "×" : "", automargin: true, nticks: 8,
    });
    const rule = (more, dash) => ({ type: "line", line: { color: quiet, width: 1, dash }, layer: "below", ...more });
    const across = (level) => ({ xref: "paper", x0: 0, x1: 1, yref: "y", y0: level, y1: level });
    const upright = (level) => ({ xref: "x", x0: level, x1: level, yref: "paper", y0: 0, y1: 1 });
    const label = (text, more) => ({ text, showarrow: false, font: { size: 11, color: quiet }, ...more });
    const [shapes, annotations] = [[], []];
    for (const [letter, line] of [["x", upright], ["y", across]]) {
      const limit = data.limits[axes[letter]];
      if (RATIOS.includes(axes[letter])) shapes.push(rule(line(1), "dot"));
      if (limit !== undefined) shapes.push(rule(line(limit), "dash"));
    }
    const [right, top] = [data.limits[axes.x], data.limits[axes.y]];
    if (right !== undefined) annotations.push(label("budget", { xref: "x", x: right, yref: "paper", y: 1, xanchor: "left", yanchor: "top" }));
    if (top !== undefined) annotations.push(label("budget", { xref: "paper", x: 1, y: top, xanchor: "right", yanchor: "bottom" }));
    for (const knee of [...data.front, ...data.beyond].filter((mark) => mark.knee)) {
      annotations.push(label("knee", { x: knee[axes.x][0], y: knee[axes.y][0], yshift: 16 }));
    }
    return {
      xaxis: better(axis(axes.x), axes.x), yaxis: better(axis(axes.y), axes.y), shapes, annotations, hovermode: "closest", dragmode: "zoom",
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family, color: ink, size: 12 },
      hoverlabel: { bgcolor: card, bordercolor: quiet, align: "left", font: { family, color: ink, size: 12 } },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: quiet, activecolor: ink },
      legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", itemsizing: "constant" },
      margin: narrow.matches ? { l: 44, r: 8, t: 34, b: 48 } : { l: 60, r: 16, t: 40, b: 52 },
    };
  }

  const draw = () => Plotly.react(plot, traces(), layout(), {
    responsive: true, displaylogo: false, modeBarButtons: [["toImage", "resetScale2d"]],
    displayModeBar: narrow.matches ? false : "hover", toImageButtonOptions: { filename: "front", scale: 2 },
  });

  for (const chooser of document.querySelectorAll("[data-axis]")) {
    chooser.addEventListener("change", () => {
      axes[chooser.dataset.axis] = chooser.value;
      draw();
    });
  }
  dark.addEventListener("change", draw);
  narrow.addEventListener("change", draw);

  draw().then(() => {
    const rows = [...document.querySelectorAll(".points tr.point")];
    plot.on("plotly_hover", (event) => {
      rows[event.points[0].customdata]?.classList.add("hot");
    });
    plot.on("plotly_unhover", () => rows.forEach((row) => row.classList.remove("hot")));
  });

  const keyOf = (row, column) => {
    const { sort } = row.cells[column].dataset;
    return sort === undefined ? row.cells[column].textContent : sort === "" ? -Number.MAX_VALUE : Number(sort);
  };

  for (const table of document.querySelectorAll("table")) {
    const heads = [...table.tHead.rows[0].cells];
    const original = [...table.tBodies[0].rows];
    heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
      const next = { none: "descending", descending: "ascending", ascending: "none" }[head.ariaSort ?? "none"];
      heads.forEach((each) => each.removeAttribute("aria-sort"));
      let rows = original;
      if (next !== "none") {
        head.setAttribute("aria-sort", next);
        const sign = next === "ascending" ? 1 : -1;
        rows = [...original].sort((a, b) => {
          const [left, right] = [keyOf(a, column), keyOf(b, column)];
          return sign * (typeof left === "string" ? left.localeCompare(right) : left - right);
        });
      }
      table.tBodies[0].append(...rows);
    }));
  }
})();
