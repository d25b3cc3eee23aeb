// Hottest keys: which keys take the most reads; one of them opens its look-up.

import { byId, each, element, write } from "../dom.js";
import { percent } from "../format.js";

/** The most read keys. */
export class HotKeys {
  constructor(onKey) {
    this.panel = byId("hot-keys");
    this.rows = this.panel.querySelector("tbody");
    this.onKey = onKey;
  }

  /** Shows the newest answer, unless somebody is about to choose a row. */
  update(status) {
    this.panel.classList.toggle("is-empty", status.hot_keys.length === 0);
    if (this.rows.matches(":hover, :focus-within")) return;
    const most = status.hot_keys[0]?.share ?? 0;
    each(
      this.rows,
      status.hot_keys,
      () => this.#startRow(),
      (line, hot) => updateRow(line, hot, most),
    );
  }

  #startRow() {
    const button = element("button", { class: "key-link", type: "button" });
    button.addEventListener("click", () => {
      const { query, database } = button.dataset;
      this.onKey({ key: button.textContent, query, database });
    });
    const meter = element("span", { class: "meter", "aria-hidden": "true" }, element("span"));
    const share = element("td", {}, meter, element("span"));
    const head = element("th", { scope: "row" }, button);
    return element("tr", {}, head, element("td"), share);
  }
}

function updateRow(line, hot, most) {
  const button = line.cells[0].firstElementChild;
  write(button, hot.key);
  button.title = hot.key;
  // As text a key may be shown like another one; asked for is this one, by its bytes.
  button.dataset.query = hot.key_percent;
  button.dataset.database = String(hot.database);
  write(line.cells[1], String(hot.database));
  const [meter, share] = line.cells[2].children;
  meter.firstElementChild.style.width = `${most > 0 ? (hot.share / most) * 100 : 0}%`;
  write(share, percent(hot.share));
}
