// How windows are found and barriers placed, a step at a time.
const how = $("#how"),
  stage = $("#stage"),
  play = { which: 0, step: 0, timer: 0 };
const ROW = 30,
  TOP = 18,
  COLUMN = 30,
  PAUSE = 1600;

const animation = () => data.animations[play.which];

function drawStage() {
  const shown = animation(),
    width = Math.max(stage.clientWidth, 320),
    count = shown.windows.length;
  const right = Math.min(width * 0.6, count * COLUMN + 30),
    text = width - right,
    height = TOP * 2 + shown.rows.length * ROW;
  const middle = (row) => TOP + row * ROW + ROW / 2,
    edge = (row) => TOP + row * ROW;
  const pieces = shown.rows.map(([line, words, depth], row) => {
    const x = 44 + depth * 14,
      most = Math.max(4, Math.floor((text - x - 10) / 7.9));
    return draw(
      "g",
      { class: "line" },
      draw("rect", {
        x: 0,
        y: edge(row),
        width,
        height: ROW,
        fill: row % 2 ? "transparent" : "color-mix(in srgb, var(--ink) 3%, transparent)",
      }),
      draw(
        "text",
        { x: 34, y: middle(row) + 4, class: "faint", "text-anchor": "end" },
        document.createTextNode(line || ""),
      ),
      draw(
        "text",
        { x, y: middle(row) + 4, class: "code" },
        document.createTextNode(words.length > most ? `${words.slice(0, most - 1)}…` : words),
        draw("title", {}, document.createTextNode(words)),
      ),
    );
  });
  const columns = shown.windows.map((each, number) => {
    const pieces = [];
    const span = (from, to) =>
      pieces.push(draw("rect", { x: -5, y: from, width: 10, height: Math.max(to - from, 4), rx: 4 }));
    if (each.carried) {
      span(middle(each.from), edge(each.loop[1] + 1));
      span(edge(each.loop[0]), middle(each.to) - 4);
    } else span(middle(each.from), middle(each.to) - 4);
    const label = draw(
      "text",
      { x: 0, y: 12, "text-anchor": "middle", style: "font-size: 10px" },
      document.createTextNode(each.kind),
    );
    return draw(
      "g",
      { class: `win ${each.kind}`, "data-window": number },
      draw("title", {}, document.createTextNode(each.title)),
      label,
      ...pieces,
    );
  });
  const before = {};
  const bars = shown.bars.map((each, number) => {
    const offset = (before[each.row] = (before[each.row] || 0) + 1) - 1,
      y = edge(each.row) + offset * 6;
    const words = draw(
      "text",
      {
        x: text - 8,
        y: y - 6,
        "text-anchor": "end",
        style: "fill: var(--barrier); font-weight: 600; paint-order: stroke; stroke: var(--surface); stroke-width: 4px",
      },
      document.createTextNode(
        offset
          ? ""
          : shown.bars
              .filter((other) => other.row === each.row)
              .map((other) => other.op)
              .join("; "),
      ),
    );
    return draw(
      "g",
      { class: "put", "data-bar": number },
      draw("line", { x1: 40, x2: width - 6, y1: y, y2: y, style: "stroke: var(--barrier); stroke-width: 4" }),
      words,
    );
  });
  const cut = draw("g", { class: "cut" });
  stage.replaceChildren(
    draw("svg", { height, viewBox: `0 0 ${width} ${height}` }, ...pieces, cut, ...columns, ...bars),
  );
  stage.dataset.text = text;
  showStep();
}

function showStep() {
  const shown = animation(),
    step = shown.steps[play.step],
    text = Number(stage.dataset.text);
  const order = step.order.length ? step.order : shown.windows.map((_, number) => number);
  for (const column of stage.querySelectorAll(".win")) {
    const number = Number(column.dataset.window);
    column.setAttribute("transform", `translate(${text + 20 + order.indexOf(number) * COLUMN}, 0)`);
    column.classList.toggle("hidden", !step.shown.includes(number));
    column.classList.toggle("done", step.done.includes(number) && !step.new.includes(number));
  }
  for (const bar of stage.querySelectorAll(".put"))
    bar.classList.toggle("hidden", !step.bars.includes(Number(bar.dataset.bar)));
  const rows = step.cut.map((row) =>
    draw("rect", { x: 40, width: 9999, y: TOP + row * ROW - 4, height: 8, fill: "var(--pick)" }),
  );
  $(".cut", stage).replaceChildren(...rows);
  $(".say", how).textContent = step.say;
  $(".count", how).textContent = `${play.step + 1} of ${shown.steps.length}`;
  const range = $("input", how);
  range.max = shown.steps.length - 1;
  range.value = play.step;
}

function go(step) {
  play.step = Math.min(Math.max(step, 0), animation().steps.length - 1);
  if (play.step === animation().steps.length - 1) pause();
  showStep();
}

function pause() {
  clearInterval(play.timer);
  play.timer = 0;
  $('[data-do="play"]', how).textContent = "Play";
}

function toggle() {
  if (play.timer) return pause();
  if (play.step === animation().steps.length - 1) go(0);
  play.timer = setInterval(() => go(play.step + 1), PAUSE);
  $('[data-do="play"]', how).textContent = "Pause";
}

function drawHow() {
  how.hidden = !data.animations.length;
  if (how.hidden) return;
  tabs(
    $(".tabs", how),
    data.animations.map((each) => (each.target === data.target ? each.title : `${each.title} (${each.target})`)),
    play.which,
    (number) => {
      pause();
      Object.assign(play, { which: number, step: 0 });
      drawHow();
    },
  );
  drawStage();
}

const ACTS = {
  first: () => go(0),
  back: () => go(play.step - 1),
  next: () => go(play.step + 1),
  last: () => go(Infinity),
  play: toggle,
};
$(".player", how).addEventListener("click", (event) => {
  const act = ACTS[event.target.dataset.do];
  if (act) act();
});
$("input", how).addEventListener("input", (event) => go(Number(event.target.value)));
stage.addEventListener("keydown", (event) => {
  const act = { ArrowLeft: ACTS.back, ArrowRight: ACTS.next, Home: ACTS.first, End: ACTS.last, " ": ACTS.play }[
    event.key
  ];
  if (!act) return;
  event.preventDefault();
  event.stopPropagation();
  act();
});
new ResizeObserver(() => {
  if (data.animations.length) drawStage();
}).observe(stage);
