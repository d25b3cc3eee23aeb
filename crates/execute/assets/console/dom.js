// Elements. Text from the server only ever becomes text, never markup.

/** The element with this id. */
export const byId = (id) => document.getElementById(id);

/** Makes an element; `children` are elements or text. */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

/** Shows a text; leaves the document alone where it is there already. */
export function write(node, text) {
  if (node.textContent !== text) {
    node.textContent = text;
  }
}

/** Gives an element the colour of a token such as `live`. */
export function colour(node, token) {
  node.style.setProperty("--colour", `var(--${token})`);
  return node;
}

/** A small square, or a line, in the colour of a token. */
export function swatch(token, shape = "square") {
  const classes = shape === "line" ? "swatch is-line" : "swatch";
  return colour(element("span", { class: classes, "aria-hidden": "true" }), token);
}

/**
 * Keeps one child of `parent` for each item: makes missing ones, removes those too many, and
 * updates all. Children stay where they are, so focus and selection survive.
 */
export function each(parent, items, make, update) {
  while (parent.children.length > items.length) {
    parent.lastElementChild.remove();
  }
  items.forEach((item, index) => {
    if (index === parent.children.length) {
      parent.append(make(item));
    }
    update(parent.children[index], item);
  });
}

/** A row of a table: its first cell is its heading. */
export function row(columns) {
  const cells = Array.from({ length: columns - 1 }, () => element("td"));
  return element("tr", {}, element("th", { scope: "row" }), ...cells);
}

/** The value of the chosen one of a group of radio buttons, and what to do when it changes. */
export function choice(id, onChange) {
  const group = byId(id);
  group.addEventListener("change", (event) => onChange(event.target.value));
  return group.querySelector(":checked").value;
}

/** Draws a bar of shares; `label` says what it shows. */
export function shares(bar, parts, label) {
  each(
    bar,
    parts,
    () => element("span"),
    (span, part) => {
      colour(span, part.token);
      span.style.flexGrow = String(part.value);
      span.hidden = !(part.value > 0);
      span.title = part.title;
    },
  );
  bar.setAttribute("aria-label", label);
}
