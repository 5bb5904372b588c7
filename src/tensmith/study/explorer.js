"use strict";
(() => {
  const { layers, figures, cells } = JSON.parse(document.getElementById("cells").textContent);
  const filters = document.getElementById("filters");
  const bars = document.getElementById("bars");
  const evidence = document.getElementById("evidence");

  const select = (name, options) => {
    const label = document.createElement("label");
    const list = document.createElement("select");
    list.id = `filter-${name}`;
    for (const [value, text] of options) list.add(new Option(text, value));
    list.addEventListener("change", show);
    label.append(`${name} `, list);
    filters.append(label);
    return list;
  };

  const tell = (cell) => {
    const lines = layers.map((layer) => `${layer}: ${cell[layer]}`);
    if (cell.reason) lines.push(`no result: ${cell.reason}`);
    lines.push(...cell.figures.map((figure) => figure.told), ...cell.notes);
    evidence.replaceChildren(...lines.map((line) => {
      const row = document.createElement("div");
      row.textContent = line;
      return row;
    }));
  };

  const drawn = (cell, name, largest) => {
    const figure = cell.figures.find((each) => each.name === name);
    const bar = document.createElement("div");
    bar.className = `bar ${cell.reason ? "failed" : figure?.evidence ?? ""}`;
    bar.tabIndex = 0;
    const words = document.createElement("span");
    words.textContent = layers.slice(1).map((layer) => cell[layer]).join(" / ");
    const length = document.createElement("i");
    length.style.width = figure ? `${(100 * Math.max(0, figure.value)) / largest}%` : "0";
    bar.append(words, length);
    bar.addEventListener("mouseenter", () => tell(cell));
    bar.addEventListener("focus", () => tell(cell));
    return bar;
  };

  function show() {
    const chosen = cells.filter((cell) => lists.every(([layer, list]) => !list.value || cell[layer] === list.value));
    const name = figure.value;
    const value = (cell) => cell.figures.find((each) => each.name === name)?.value ?? 0;
    const largest = Math.max(...chosen.map(value), 1e-12);
    bars.replaceChildren(...chosen.map((cell) => drawn(cell, name, largest)));
    document.getElementById("count").textContent = `${chosen.length} of ${cells.length} cells`;
  }

  const lists = layers.map((layer) => {
    const values = [...new Set(cells.map((cell) => cell[layer]))];
    return [layer, select(layer, [["", "all"], ...values.map((value) => [value, value])])];
  });
  const figure = select("figure", figures.map((name) => [name, name]));
  show();
})();
