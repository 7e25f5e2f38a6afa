// The text of the program, with hazards as arcs and barriers as bars in its margin.
const listing = $("#listing");
const LANE = 9,
  LEAST_GUTTER = 46,
  MOST_LANES = 14;
const WORDS =
  /^(kernel|target|iterate|conditional|else|carry|sizes|where|grid|waves|yield|alloc|mma|for|in|def|import|return|with|if|tt\.func|scf\.for|scf\.if|scf\.yield)$/;

function coloured(text) {
  const code = make("code");
  const comment = text.search(/\.(ttgir|mlir)$/.test(program().file) ? /(^|\s)\/\// : /(^|\s)#/);
  const body = comment < 0 ? text : text.slice(0, comment);
  for (const part of body.split(/(%[\w.#:]+|[A-Za-z_][\w.]*)/)) {
    if (part.startsWith("%")) code.append(make("span", { class: "v" }, part));
    else if (WORDS.test(part)) code.append(make("span", { class: "w" }, part));
    else if (part) code.append(part);
  }
  if (comment >= 0) code.append(make("span", { class: "c" }, text.slice(comment)));
  return code;
}

function barriersAt(line) {
  return program()
    .barriers.map((_, number) => number)
    .filter((number) => program().barriers[number].parts.some((part) => part.line === line));
}

function drawListing() {
  const shown = program();
  const lanes = arcLanes(shown.hazards);
  const gutter = Math.max(
    LEAST_GUTTER,
    26 + LANE * Math.min(MOST_LANES, Math.max(0, ...lanes.map((lane) => lane + 1))),
  );
  listing.style.setProperty("--gutter", `${gutter}px`);
  const wrong = new Set(shown.findings.filter((each) => each.severity === "error").flatMap((each) => each.lines));
  const rows = shown.lines.map(([number, text]) => {
    if (!number)
      return make(
        "div",
        { class: "row gap" },
        make("span"),
        make("span", { class: "num" }, "⋮"),
        make("code", {}, "…"),
      );
    const own = barriersAt(number);
    const classes = ["row", own.length ? "barrier" : "", wrong.has(number) ? "wrong" : ""].join(" ").trim();
    const row = make(
      "div",
      { class: classes, "data-line": number },
      make("span"),
      make("span", { class: "num" }, String(number)),
      coloured(text),
    );
    if (own.length) row.addEventListener("click", () => pick("barrier", own[0]));
    return row;
  });
  listing.replaceChildren(draw("svg", { "aria-hidden": "true" }), ...rows);
  drawMargin();
}

// A lane for each arc, so that those which overlap stand beside each other; short ones next to the text.
function arcLanes(hazards) {
  const ends = hazards.map((each) => [Math.min(each.from, each.to), Math.max(each.from, each.to)]);
  const order = ends
    .map((_, number) => number)
    .sort((a, b) => ends[a][1] - ends[a][0] - (ends[b][1] - ends[b][0]) || a - b);
  const taken = [],
    lanes = new Array(hazards.length).fill(0);
  for (const number of order) {
    const [low, high] = ends[number];
    let lane = taken.findIndex((spans) => spans.every(([first, last]) => high < first || last < low));
    if (lane < 0) lane = taken.push([]) - 1;
    taken[lane].push([low, high]);
    lanes[number] = lane;
  }
  return lanes;
}

function rowOf(line) {
  return listing.querySelector(`[data-line="${line}"]`);
}

function drawMargin() {
  const svg = $("svg", listing),
    shown = program(),
    box = listing.getBoundingClientRect();
  const width = parseFloat(listing.style.getPropertyValue("--gutter")),
    lanes = arcLanes(shown.hazards);
  svg.setAttribute("width", width);
  svg.setAttribute("height", box.height);
  const middle = (line) => {
    const row = rowOf(line);
    if (!row) return null;
    const place = row.getBoundingClientRect();
    return place.top - box.top + Math.min(place.height, 20) / 2;
  };
  const pieces = [];
  shown.hazards.forEach((hazard, number) => {
    const [top, bottom] = [middle(hazard.from), middle(hazard.to)];
    if (top === null || bottom === null) return;
    const right = width - 2,
      x = Math.max(6, right - 12 - LANE * Math.min(lanes[number], MOST_LANES));
    const shift = hazard.from === hazard.to ? 5 : 2,
      start = top + shift,
      end = bottom - shift;
    const path = `M ${right} ${start} H ${x + 4} Q ${x} ${start} ${x} ${start + Math.sign(end - start) * 4} V ${end - Math.sign(end - start) * 4} Q ${x} ${end} ${x + 4} ${end} H ${right - 4}`;
    const chosen = isPicked("hazard", number);
    const dim = state.picked !== null && !chosen && !related(number);
    const kind = [
      hazard.kind,
      hazard.carried ? "carried" : "",
      hazard.state === "races" ? "unserved" : "",
      dim ? "dim" : "",
      chosen ? "picked" : "",
    ].join(" ");
    const say = `${hazard.title}${hazard.state === "races" ? ": it races" : ""}`;
    pieces.push(draw("path", { class: `arc ${kind}`, d: path }));
    pieces.push(
      draw("path", { class: `tip ${hazard.kind} ${dim ? "dim" : ""}`, d: `M ${right} ${end} l -6 -3.5 v 7 z` }),
    );
    pieces.push(
      draw(
        "path",
        { class: "hit", d: path, "data-hazard": number, onclick: () => pick("hazard", number) },
        draw("title", {}, document.createTextNode(say)),
      ),
    );
  });
  shown.barriers.forEach((barrier, number) => {
    for (const part of barrier.parts) {
      const y = middle(part.line);
      if (y === null) continue;
      const style = `stroke: var(--${barrier.needed || barrier.pinned || barrier.kind === "stagger" ? "barrier" : "open"}); stroke-width: ${isPicked("barrier", number) ? 6 : 4}`;
      pieces.push(
        draw("line", {
          x1: 4,
          y1: y,
          x2: width - 2,
          y2: y,
          style,
          "stroke-dasharray": barrier.pinned ? "6 3" : "none",
          opacity: 0.8,
        }),
      );
      pieces.push(
        draw(
          "path",
          { class: "hit", d: `M 4 ${y} H ${width}`, "data-barrier": number, onclick: () => pick("barrier", number) },
          draw("title", {}, document.createTextNode(barrier.title)),
        ),
      );
    }
  });
  svg.replaceChildren(...pieces);
}

// Whether a hazard belongs to what is picked.
function related(number) {
  const picked = state.picked;
  if (picked.what === "barrier") return program().barriers[picked.number].serves.includes(number);
  if (picked.what === "finding") {
    const lines = program().findings[picked.number].lines,
      hazard = program().hazards[number];
    return lines.includes(hazard.from) && lines.includes(hazard.to);
  }
  return false;
}

function markRows() {
  const shown = program(),
    picked = state.picked;
  const window = new Set(),
    ends = new Set(),
    bars = new Set();
  if (picked && picked.what === "hazard") {
    const hazard = shown.hazards[picked.number];
    hazard.window.forEach((line) => window.add(line));
    [hazard.from, hazard.to].forEach((line) => ends.add(line));
    hazard.barriers.forEach((each) => shown.barriers[each].parts.forEach((part) => bars.add(part.line)));
  } else if (picked && picked.what === "barrier") {
    const barrier = shown.barriers[picked.number];
    barrier.parts.forEach((part) => bars.add(part.line));
    barrier.serves.forEach((each) =>
      [shown.hazards[each].from, shown.hazards[each].to].forEach((line) => ends.add(line)),
    );
  } else if (picked) shown.findings[picked.number].lines.forEach((line) => ends.add(line));
  for (const row of listing.querySelectorAll("[data-line]")) {
    const line = Number(row.dataset.line);
    row.classList.toggle("window", window.has(line) && !ends.has(line));
    row.classList.toggle("end", ends.has(line));
    row.classList.toggle("picked", bars.has(line));
  }
}

// Shows a line that something else on the page speaks of.
function light(line) {
  for (const row of listing.querySelectorAll(".lit")) row.classList.remove("lit");
  const row = rowOf(line);
  if (row) row.classList.add("lit");
}

function drawLegend() {
  const line = (style) => make("i", { class: "line", style });
  const item = (mark, words) => make("span", {}, mark, words);
  $("#legend").replaceChildren(
    item(line("border-color: var(--raw)"), "read after write"),
    item(line("border-color: var(--war)"), "write after read"),
    item(line("border-color: var(--waw)"), "write after write"),
    item(line("border-color: var(--faint); border-top-style: dashed"), "round a loop"),
    item(line("border-color: var(--barrier); border-top-width: 4px"), "barrier"),
  );
}

listeners.push((what) => {
  if ("program" in what) drawListing();
  drawMargin();
  markRows();
});
new ResizeObserver(() => drawMargin()).observe(listing);
