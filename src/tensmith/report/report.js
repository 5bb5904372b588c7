"use strict";
(() => {
  const data = JSON.parse(document.getElementById("plot-data").textContent);
  const plot = document.getElementById("plot");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const narrow = matchMedia("(max-width: 640px)");
  const PEER_SYMBOLS = ["diamond", "triangle-up", "triangle-down", "pentagon", "star", "hexagon"];
  let view = "size_ratio";

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const column = (marks, axis, part) => marks.map((mark) => mark[axis][part]);

  function arms(marks, axis, tint) {
    return {
      type: "data", symmetric: false, array: column(marks, axis, 2), arrayminus: column(marks, axis, 1),
      color: tint, thickness: 1.2, width: 3,
    };
  }

  function scatter(name, marks, marker, more) {
    const drawn = marks.filter((mark) => mark.speedup && mark[view]);
    return {
      name, type: "scatter", mode: "markers", x: column(drawn, "speedup", 0), y: column(drawn, view, 0),
      hovertext: drawn.map((mark) => mark.hover), hoverinfo: "text", marker, cliponaxis: true, ...more(drawn),
    };
  }

  function traces() {
    const [front, peer, ink, grey, card] = ["front", "peer", "original", "tried", "page"].map(colour);
    const withArms = (tint) => (drawn) => ({
      error_x: arms(drawn, "speedup", tint), error_y: arms(drawn, view, tint),
    });
    const steps = data.steps[view];
    const chosen = data.front.map((_, index) => index === data.chosen);
    return [
      scatter("tried", data.tried, { color: grey, size: 5, opacity: 0.6 }, () => ({})),
      {
        type: "scatter", mode: "lines", x: steps.map((s) => s[0]), y: steps.map((s) => s[1]), showlegend: false,
        line: { shape: "vh", color: front, width: 1.2, dash: "dot" }, hoverinfo: "skip",
      },
      scatter("original", data.original, { color: ink, size: 11, symbol: "square" }, withArms(ink)),
      ...data.peers.map((mark, index) => scatter(
        mark.label, [mark], { color: peer, size: 11, symbol: PEER_SYMBOLS[index % PEER_SYMBOLS.length] }, withArms(peer),
      )),
      scatter("front", data.front, {
        color: chosen.map((is) => (is ? front : card)), size: chosen.map((is) => (is ? 14 : 11)),
        line: { color: front, width: 2.2 }, opacity: 1,
      }, withArms(front)),
    ];
  }

  function layout() {
    const [ink, quiet, line, card] = ["ink", "quiet", "line", "card"].map(colour);
    const family = getComputedStyle(document.body).fontFamily;
    const axis = (name) => ({
      title: { text: data.titles[name], font: { size: 13 }, standoff: 12 }, range: data.ranges[name], gridcolor: line,
      zeroline: false, linecolor: line, ticksuffix: name === "accuracy" ? "" : "×", automargin: true, nticks: 8,
    });
    const rule = (more) => ({ type: "line", line: { color: quiet, width: 1, dash: "dash" }, layer: "below", ...more });
    const shapes = [rule({ xref: "x", x0: 1, x1: 1, yref: "paper", y0: 0, y1: 1 })];
    const annotations = [];
    const level = view === "accuracy" ? data.limit : 1;
    if (level !== null) shapes.push(rule({ xref: "paper", x0: 0, x1: 1, yref: "y", y0: level, y1: level }));
    if (view === "accuracy" && level !== null) {
      annotations.push({
        xref: "paper", x: 1, xanchor: "right", y: level, yanchor: data.higher[view] ? "top" : "bottom",
        text: "accuracy budget", showarrow: false, font: { size: 11, color: quiet },
      });
    }
    const up = axis(view);
    if (!data.higher[view]) up.range = [...up.range].reverse();
    return {
      xaxis: axis("speedup"), yaxis: up, shapes, annotations, hovermode: "closest", dragmode: "zoom",
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

  for (const button of document.querySelectorAll("[data-view]")) {
    button.addEventListener("click", () => {
      view = button.dataset.view;
      for (const each of document.querySelectorAll("[data-view]")) {
        each.setAttribute("aria-pressed", String(each === button));
      }
      document.getElementById("view-name").textContent = button.textContent;
      draw();
    });
  }
  dark.addEventListener("change", draw);
  narrow.addEventListener("change", draw);

  draw().then(() => {
    const rows = [...document.querySelectorAll(".points tr.point")];
    plot.on("plotly_hover", (event) => {
      const { data: trace, pointNumber } = event.points[0];
      if (trace.name === "front") rows[pointNumber]?.classList.add("hot");
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
