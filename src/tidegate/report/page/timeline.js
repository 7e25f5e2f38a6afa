// The waves over time. A bar begins where an access is issued and ends where it is performed; hatched: the wave waits.
const lanes = $("#lanes"),
  time = { which: 0, from: 0, to: 1 };
const NAMES = {
  global_read: "global read, in flight",
  global_write: "global write",
  copy: "copy, in flight",
  local_read: "LDS read",
  local_write: "LDS write",
  atomic: "LDS atomic",
  mma: "matrix product",
  other: "other work",
};
const WHY = {
  barrier: "a barrier",
  wait: "a wait",
  lds: "LDS",
  global: "global memory",
  mma: "a matrix unit",
  alu: "other work",
  issue: "another wave's turn",
  hang: "ever: it hangs",
};
const LEFT = 66,
  TRACK = 8,
  MOST_TRACKS = 5,
  WAITING = 7,
  APART = 9,
  AXIS = 24;

const timeline = () => program().timelines[time.which];
const kindOf = (kind) => (kind in NAMES ? kind : "other");

// A track for each bar of a wave: the first that is free.
function tracksOf(bars) {
  const ends = [];
  return bars.map(([, start, end]) => {
    let free = ends.findIndex((last) => last <= start);
    if (free < 0) free = ends.length < MOST_TRACKS ? ends.push(0) - 1 : ends.indexOf(Math.min(...ends));
    ends[free] = end;
    return free;
  });
}

function fit() {
  time.from = timeline().start;
  time.to = timeline().end;
}

function zoom(factor, around = 0.5) {
  const { start, end } = timeline(),
    width = Math.min(end - start, Math.max((time.to - time.from) * factor, (end - start) / 400));
  const centre = time.from + (time.to - time.from) * around;
  time.from = Math.min(Math.max(start, centre - width * around), end - width);
  time.to = time.from + width;
  drawLanes();
}

function move(share) {
  const { start, end } = timeline(),
    width = time.to - time.from;
  time.from = Math.min(Math.max(start, time.from + share * width), end - width);
  time.to = time.from + width;
  drawLanes();
}

function tick(span) {
  const rough = span / 8,
    power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough) || 1;
}

function drawLanes() {
  const shown = timeline();
  if (!shown) return;
  const width = Math.max(lanes.clientWidth, 300),
    right = width - 8;
  const x = (at) => LEFT + ((at - time.from) / (time.to - time.from)) * (right - LEFT);
  const inside = (start, end) => end > time.from && start < time.to;
  const span = (start, end) => {
    const left = Math.max(x(start), LEFT);
    return { x: left, width: Math.max(Math.min(x(end), right) - left, 1) };
  };
  const say = (text, line) => ({
    onclick: () => {
      $("#time .picked").textContent = text;
      light(line);
    },
  });
  const pieces = [],
    step = tick(time.to - time.from);
  let y = AXIS;
  const heights = shown.waves.map((wave) => (1 + Math.max(0, ...tracksOf(wave.bars))) * TRACK + WAITING + APART);
  const bottom = AXIS + heights.reduce((sum, each) => sum + each, 0);
  for (let at = shown.start + Math.ceil((time.from - shown.start) / step) * step; at <= time.to; at += step) {
    pieces.push(draw("line", { x1: x(at), y1: AXIS - 4, x2: x(at), y2: bottom, stroke: "var(--line)" }));
    pieces.push(
      draw("text", { x: x(at) + 3, y: 14, class: "faint" }, document.createTextNode(format(at - shown.start))),
    );
  }
  pieces.push(draw("text", { x: 8, y: 14, class: "faint" }, document.createTextNode(shown.unit)));
  shown.waves.forEach((wave, number) => {
    const tracks = tracksOf(wave.bars),
      tall = heights[number] - APART - WAITING;
    pieces.push(draw("text", { x: 8, y: y + tall / 2 + 6 }, document.createTextNode(wave.name)));
    wave.turns
      .filter((at) => inside(at, at + 1))
      .forEach((at) =>
        pieces.push(
          draw("line", {
            x1: x(at),
            y1: y - 3,
            x2: x(at),
            y2: y + tall + WAITING,
            stroke: "var(--faint)",
            "stroke-dasharray": "2 3",
          }),
        ),
      );
    wave.bars.forEach(([kind, start, end, line, what], place) => {
      if (!inside(start, end)) return;
      const text = `${wave.name}: ${what}${line ? `, line ${line}` : ""}: issued at ${format(start - shown.start)}, performed at ${format(end - shown.start)} ${shown.unit}`;
      pieces.push(
        draw(
          "rect",
          {
            class: "bar",
            ...span(start, end),
            y: y + tracks[place] * TRACK,
            height: TRACK - 1,
            rx: 1,
            style: `fill: var(--${kindOf(kind)})`,
            ...say(text, line),
          },
          draw("title", {}, document.createTextNode(text)),
        ),
      );
    });
    wave.held.forEach(([reason, start, end, line]) => {
      if (!inside(start, end)) return;
      const text = `${wave.name}: waits for ${WHY[reason] || reason}${line ? `, line ${line}` : ""}: ${format(start - shown.start)} to ${format(end - shown.start)} ${shown.unit}`;
      pieces.push(
        draw(
          "rect",
          {
            class: "held",
            ...span(start, end),
            y: y + tall + 1,
            height: WAITING - 1,
            style: `fill: url(#hatch-${reason === "barrier" ? "held" : "waiting"})`,
            ...say(text, line),
          },
          draw("title", {}, document.createTextNode(text)),
        ),
      );
    });
    wave.meets.forEach(([arrived, released, line]) => {
      if (!inside(released, released + 0.01)) return;
      const text = `${wave.name}: barrier in line ${line}: arrives at ${format(arrived - shown.start)}, goes on at ${format(released - shown.start)} ${shown.unit}`;
      const number = program().barriers.findIndex((each) => each.parts.some((part) => part.line === line));
      pieces.push(
        draw(
          "line",
          {
            class: "meet",
            x1: x(released),
            x2: x(released),
            y1: y - 2,
            y2: y + tall + WAITING + 1,
            style: "stroke: var(--barrier); stroke-width: 2; cursor: pointer",
            onclick: () => {
              $("#time .picked").textContent = text;
              light(line);
              if (number >= 0) pick("barrier", number);
            },
          },
          draw("title", {}, document.createTextNode(text)),
        ),
      );
    });
    wave.marks.forEach(([at, line, text]) => {
      if (!inside(at, at + 0.01)) return;
      pieces.push(
        draw(
          "path",
          {
            class: "mark",
            d: `M ${x(at)} ${y - 4} l 6 10 h -12 z`,
            style: "fill: var(--wrong); cursor: pointer",
            ...say(`${wave.name}: ${text}`, line),
          },
          draw("title", {}, document.createTextNode(text)),
        ),
      );
    });
    y += heights[number];
  });
  const hatch = (name) =>
    draw(
      "pattern",
      { id: `hatch-${name}`, width: 5, height: 5, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
      draw("rect", { width: 2.2, height: 5, style: `fill: var(--${name})` }),
    );
  lanes.replaceChildren(
    draw(
      "svg",
      { height: bottom + 6, viewBox: `0 0 ${width} ${bottom + 6}` },
      draw("defs", {}, hatch("held"), hatch("waiting")),
      ...pieces,
    ),
  );
}

function drawTimeline() {
  const all = program().timelines,
    part = $("#time");
  part.hidden = !all.length && !program().no_cost;
  if (!all.length) {
    lanes.replaceChildren();
    $(".about", part).textContent = program().no_cost ? `No timeline: ${program().no_cost}.` : "";
    $(".legend", part).replaceChildren();
    return tabs($(".tabs", part), [], 0, () => {});
  }
  time.which = Math.min(time.which, all.length - 1);
  fit();
  tabs(
    $(".tabs", part),
    all.map((each) => each.title),
    time.which,
    (number) => {
      time.which = number;
      drawTimeline();
    },
  );
  $(".about", part).textContent = timeline().about + (timeline().cut ? ` Shown: ${timeline().cut}.` : "");
  $(".picked", part).textContent = "";
  const used = new Set(timeline().waves.flatMap((wave) => wave.bars.map(([kind]) => kindOf(kind))));
  const item = (style, words) => make("span", {}, make("i", { style }), words);
  $(".legend", part).replaceChildren(
    ...Object.keys(NAMES)
      .filter((kind) => used.has(kind))
      .map((kind) => item(`background: var(--${kind})`, NAMES[kind])),
    item("background: repeating-linear-gradient(45deg, var(--held) 0 2px, transparent 2px 5px)", "waits at a barrier"),
    item(
      "background: repeating-linear-gradient(45deg, var(--waiting) 0 2px, transparent 2px 5px)",
      "held up by something else",
    ),
    item("background: var(--barrier); width: 3px", "goes on from a barrier"),
  );
  drawLanes();
}

lanes.addEventListener(
  "wheel",
  (event) => {
    if (!event.ctrlKey && !event.shiftKey) return;
    event.preventDefault();
    const box = lanes.getBoundingClientRect();
    zoom(
      event.deltaY > 0 || event.deltaX > 0 ? 1.25 : 0.8,
      Math.min(Math.max((event.clientX - box.left - LEFT) / (box.width - LEFT), 0), 1),
    );
  },
  { passive: false },
);
lanes.addEventListener("pointerdown", (start) => {
  let last = start.clientX,
    dragging = false;
  const drag = (event) => {
    dragging ||= Math.abs(event.clientX - last) > 3; // a hand that clicks is not still
    if (!dragging) return;
    move(-(event.clientX - last) / (lanes.clientWidth - LEFT));
    last = event.clientX;
  };
  const end = () => {
    removeEventListener("pointermove", drag);
    removeEventListener("pointerup", end);
  };
  addEventListener("pointermove", drag);
  addEventListener("pointerup", end);
});
lanes.addEventListener("keydown", (event) => {
  const act = {
    "+": () => zoom(0.6),
    "=": () => zoom(0.6),
    "-": () => zoom(1.6),
    0: () => {
      fit();
      drawLanes();
    },
    ArrowLeft: () => move(-0.2),
    ArrowRight: () => move(0.2),
  }[event.key];
  if (!act) return;
  event.preventDefault();
  event.stopPropagation();
  act();
});
$("#time .zoom").addEventListener("click", (event) => {
  const act = {
    in: () => zoom(0.6),
    out: () => zoom(1.6),
    fit: () => {
      fit();
      drawLanes();
    },
  }[event.target.dataset.do];
  if (act) act();
});
listeners.push((what) => {
  if ("program" in what) drawTimeline();
});
new ResizeObserver(() => drawLanes()).observe(lanes);
