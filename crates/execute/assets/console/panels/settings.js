// Settings: what the server was started with.

import { byId, each, element, write } from "../dom.js";

/** The list of settings, and its filter. */
export class Settings {
  #settings = [];

  constructor() {
    this.list = byId("settings").querySelector(".setting-list");
    this.filter = byId("settings-filter");
    this.filter.addEventListener("input", () => this.#show());
  }

  /** Shows the newest answer. */
  update(status) {
    this.#settings = status.settings;
    this.#show();
  }

  #show() {
    const wanted = this.filter.value.trim().toLowerCase();
    const shown = this.#settings.filter((setting) => setting.name.includes(wanted));
    byId("settings-none").hidden = shown.length > 0;
    each(
      this.list,
      shown,
      () => element("div", {}, element("dt", { class: "mono" }), element("dd", { class: "mono" })),
      (line, setting) => {
        write(line.children[0], setting.name);
        write(line.children[1], setting.value === "" ? "–" : setting.value);
      },
    );
  }
}
