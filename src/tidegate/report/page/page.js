// What all parts of the page share: the data, what is picked, and small ways to make elements.
const data = JSON.parse(document.getElementById("data").textContent);
const SVG = "http://www.w3.org/2000/svg";
const state = { program: 0, picked: null }; // picked: {what: "barrier" | "hazard" | "finding", number}
const listeners = [];

const $ = (selector, inside = document) => inside.querySelector(selector);
const program = () => data.programs[state.program];
const format = (number) => Number(number).toLocaleString("en", { maximumFractionDigits: 1 });

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

function draw(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

// Something was picked, or another version of the program is shown: everybody looks again.
function change(what) {
  Object.assign(state, what);
  for (const each of listeners) each(what);
}

function pick(what, number) {
  const same = state.picked && state.picked.what === what && state.picked.number === number;
  change({ picked: same ? null : { what, number } });
}

const isPicked = (what, number) =>
  state.picked !== null && state.picked.what === what && state.picked.number === number;

// Tabs that arrow keys move between, as screen readers expect.
function tabs(bar, names, chosen, choose) {
  if (names.length < 2) return bar.replaceChildren();
  const buttons = names.map((name, number) =>
    make(
      "button",
      {
        type: "button",
        role: "tab",
        "aria-selected": String(number === chosen),
        tabindex: number === chosen ? 0 : -1,
        onclick: () => choose(number),
        onkeydown: (event) => {
          const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
          if (!step) return;
          event.preventDefault();
          event.stopPropagation();
          choose((number + step + names.length) % names.length);
          bar.querySelector('[aria-selected="true"]').focus();
        },
      },
      name,
    ),
  );
  bar.replaceChildren(...buttons);
}
