// Beside the text: findings, barriers and hazards as lists, and all about the one that is picked.
const details = $("#details");

function rowsOf(rows) {
  const list = make("dl");
  let last = "";
  for (const [word, text] of rows) {
    list.append(make("dt", {}, word === last ? "" : word), make("dd", {}, text));
    last = word;
  }
  return list;
}

function linkTo(what, number, words) {
  return make("button", { type: "button", class: "link", onclick: () => pick(what, number) }, words);
}

function barrierCard(number) {
  const barrier = program().barriers[number];
  const weight = `${barrier.costs}${barrier.loop.startsWith("%") ? `, in the loop over ${barrier.loop}` : ""}`;
  const list = rowsOf(barrier.rows);
  const serves = make(
    "dd",
    {},
    ...barrier.serves.flatMap((each) => [linkTo("hazard", each, program().hazards[each].title), make("br")]),
  );
  if (!barrier.serves.length)
    serves.append(
      barrier.needed ? "nothing that a window shows; what breaks without it says why" : "no hazard of memory",
    );
  list.prepend(make("dt", {}, "costs"), make("dd", {}, weight), make("dt", {}, "serves"), serves);
  const need = barrier.needed
    ? "needed"
    : barrier.kind === "stagger"
      ? "holds one half back"
      : barrier.pinned
        ? "pinned"
        : "not needed";
  return make(
    "div",
    { class: "card", "data-card": `barrier-${number}` },
    make("h3", {}, `${barrier.title} (${need})`),
    list,
  );
}

function hazardCard(number) {
  const hazard = program().hazards[number];
  const list = rowsOf(hazard.rows);
  for (const [words, numbers] of [
    ["served by", hazard.barriers],
    ["too weak", hazard.weak],
  ]) {
    if (!numbers.length) continue;
    list.append(
      make("dt", {}, words),
      make(
        "dd",
        {},
        ...numbers.flatMap((each) => [linkTo("barrier", each, program().barriers[each].title), make("br")]),
      ),
    );
  }
  return make("div", { class: "card", "data-card": `hazard-${number}` }, make("h3", {}, hazard.title), list);
}

function findingCard(number) {
  const finding = program().findings[number];
  return make(
    "div",
    { class: "card", "data-card": `finding-${number}` },
    make("h3", {}, `${finding.severity}[${finding.code}]: ${finding.message}`),
    rowsOf([
      ...finding.labels,
      ...finding.notes.map((note) => ["", note]),
      ...(finding.help ? [["help", finding.help]] : []),
    ]),
  );
}

const CARDS = { barrier: barrierCard, hazard: hazardCard, finding: findingCard };

function listOf(title, what, items, chip, words) {
  if (!items.length) return [];
  const buttons = items.map((each, number) =>
    make(
      "li",
      {},
      make(
        "button",
        {
          type: "button",
          "data-pick": `${what}-${number}`,
          "aria-pressed": String(isPicked(what, number)),
          onclick: () => pick(what, number),
        },
        chip(each),
        make("span", {}, words(each)),
      ),
    ),
  );
  return [make("h3", {}, `${title} (${items.length})`), make("ul", {}, ...buttons)];
}

function drawDetails() {
  const shown = program();
  const pieces = [];
  if (state.picked) pieces.push(CARDS[state.picked.what](state.picked.number));
  pieces.push(
    ...listOf(
      "Findings",
      "finding",
      shown.findings,
      (each) => make("span", { class: "chip wrong" }, each.code),
      (each) =>
        each.lines.length
          ? `${each.message}, line ${[...new Set(each.lines)].sort((a, b) => a - b).join(", ")}`
          : each.message,
    ),
  );
  pieces.push(
    ...listOf(
      "Barriers",
      "barrier",
      shown.barriers,
      (each) =>
        make("span", { class: "chip bar" }, `line ${[...new Set(each.parts.map((part) => part.place))].join(", ")}`),
      (each) => (each.parts.length > 1 ? each.kind : each.parts[0].op),
    ),
  );
  pieces.push(
    ...listOf(
      "Hazards",
      "hazard",
      shown.hazards,
      (each) => make("span", { class: `chip ${each.state === "races" ? "wrong" : each.kind}` }, each.kind),
      (each) => each.title.replace(/^\w+ /, "") + (each.state === "races" ? ", races" : ""),
    ),
  );
  if (!shown.hazards.length)
    pieces.push(make("p", {}, "No two waves meet in shared memory: there is nothing to order."));
  if (shown.pairs.length)
    pieces.push(
      make("h3", {}, "Pairs without a barrier of their own"),
      make("div", { class: "card" }, ...shown.pairs.map((text) => make("pre", {}, text))),
    );
  for (const note of shown.notes) pieces.push(make("p", {}, note));
  details.replaceChildren(...pieces);
  details.scrollTop = 0;
}

// The next barrier, hazard or finding after the one that is picked.
function pickNext(what, step) {
  const all = program()[`${what}s`];
  if (!all.length) return;
  const now = state.picked && state.picked.what === what ? state.picked.number : step > 0 ? -1 : 0;
  change({ picked: { what, number: (now + step + all.length) % all.length } });
  const row = listing.querySelector(".end, .row.picked");
  if (row) row.scrollIntoView({ block: "nearest" });
}

listeners.push(() => drawDetails());
