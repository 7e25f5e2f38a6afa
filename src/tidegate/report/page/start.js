// The head of the page, its keys, and the first look at everything.
const KEYS = [
  ["b, Shift+b", "next, previous barrier"],
  ["h, Shift+h", "next, previous hazard"],
  ["f, Shift+f", "next, previous finding"],
  ["Esc", "nothing picked"],
  ["1, 2, 3", "version of the program"],
  ["t", "light or dark"],
  ["+, −, 0, ← →", "timeline: zoom, all, move"],
  ["← →, space", "placing barriers: step, play"],
  ["?", "these keys"],
];

function drawHead() {
  const shown = program();
  $("#head h1").replaceChildren(
    `@${data.name} `,
    make("small", {}, `on ${data.target}${data.about ? `, ${data.about}` : ""}, ${shown.waves} waves`),
  );
  const verdict = $(".verdict");
  verdict.className = `verdict ${shown.verdict.kind}`;
  const [first, ...more] = shown.verdict.text.split("\n");
  verdict.textContent = data.programs.length > 1 ? `${shown.title}: ${first}` : first;
  verdict.title = more.join("\n");
  tabs(
    $("#program .tabs"),
    data.programs.map((each) => each.title),
    state.program,
    (number) => change({ program: number, picked: null }),
  );
}

function drawFigures() {
  const number = (value) => (value === null || value === undefined ? "–" : format(value));
  const columns = [
    ["findings", "findings"],
    ["hazards", "hazards"],
    ["barriers", "barriers"],
    ["in loops", "in loops"],
    ["waits", "waits"],
    ["weight", "weight"],
    ["cycles", "cycles an iteration"],
    ["busy", "matrix units busy, %"],
  ];
  const head = make(
    "tr",
    {},
    make("th", { scope: "col" }, ""),
    ...columns.map(([, words]) => make("th", { scope: "col" }, words)),
    make("th", { scope: "col" }, "verdict"),
  );
  const rows = data.programs.map((each) =>
    make(
      "tr",
      {},
      make("td", {}, each.title),
      ...columns.map(([name]) => make("td", {}, number(each.figures[name]))),
      make("td", {}, { proved: "proved", wrong: "wrong", open: "not decided" }[each.verdict.kind]),
    ),
  );
  $("#figures").replaceChildren(make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows)));
}

function theme(kind) {
  document.documentElement.dataset.theme = kind;
  try {
    localStorage.setItem("tidegate-theme", kind);
  } catch {
    /* a frame may not keep anything */
  }
}

function otherTheme() {
  const now =
    document.documentElement.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  theme(now === "dark" ? "light" : "dark");
}

function showKeys() {
  const dialog = $("#keys");
  if (dialog.open) return dialog.close();
  dialog.replaceChildren(
    make("h2", {}, "Keys"),
    make("dl", {}, ...KEYS.flatMap(([key, words]) => [make("dt", {}, make("kbd", {}, key)), make("dd", {}, words)])),
    make("button", { type: "button", onclick: () => dialog.close() }, "Close"),
  );
  dialog.showModal();
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.tagName === "INPUT") return;
  const step = event.shiftKey ? -1 : 1,
    what = { b: "barrier", h: "hazard", f: "finding" }[event.key.toLowerCase()];
  if (what) return pickNext(what, step);
  if (event.key === "Escape" && state.picked) return change({ picked: null });
  if (event.key === "t") return otherTheme();
  if (event.key === "?") return showKeys();
  const number = Number(event.key) - 1;
  if (number >= 0 && number < data.programs.length) change({ program: number, picked: null });
});
$("#theme").addEventListener("click", otherTheme);
$("#help").addEventListener("click", showKeys);
try {
  if (localStorage.getItem("tidegate-theme")) theme(localStorage.getItem("tidegate-theme"));
} catch {
  /* as above */
}
listeners.push((what) => {
  if ("program" in what) drawHead();
});
$("footer").textContent =
  `Tidegate ${data.tidegate}. This page is self-contained; costs are estimates of the target's cost model, not measurements.`;
drawFigures();
drawLegend();
drawHow();
change({
  program: data.programs.length > 1 && data.programs[0].verdict.kind !== "wrong" ? data.programs.length - 1 : 0,
  picked: null,
});
