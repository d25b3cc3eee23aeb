// Look-up: what one key holds, and its deletion where the server allows it.

import { byId, element, write } from "../dom.js";
import { bytes, span } from "../format.js";
import { request } from "../poller.js";

const READ_ONLY = "Read-only: start the server with --console-write to delete keys here.";

/** The form, its result, and the dialog before a deletion. */
export class LookUp {
  #mayWrite = false;
  #asked = 0;

  constructor() {
    this.form = byId("look-up-form");
    this.result = byId("look-up-result");
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#lookUp(this.#wanted());
    });
  }

  /** Shows the newest answer. */
  update(status) {
    this.#mayWrite = status.server.console_write;
    write(byId("look-up-note"), this.#mayWrite ? "" : READ_ONLY);
    for (const button of this.result.querySelectorAll(".is-risky")) {
      button.hidden = !this.#mayWrite;
    }
  }

  /** Fills in a key and looks it up; `query` has its bytes in percent codes. */
  open(wanted) {
    this.form.elements.key.value = wanted.key;
    this.form.elements.database.value = wanted.database;
    this.#lookUp(wanted);
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    byId("look-up").scrollIntoView({ behavior: still ? "auto" : "smooth", block: "nearest" });
  }

  #wanted() {
    const { key, database } = this.form.elements;
    const query = encodeURIComponent(key.value);
    return { key: key.value, query, database: database.value };
  }

  async #lookUp(wanted) {
    this.#asked += 1;
    const round = this.#asked;
    const answer = await ask(wanted, "GET");
    // Only the last question is answered.
    if (round !== this.#asked) return;
    if (answer.problem) this.#say(answer.problem, "problem");
    else if (!answer.found) this.#say(`There is no live item “${wanted.key}”.`);
    else this.#show(wanted, answer);
  }

  #say(text, name = "note") {
    this.result.replaceChildren(element("p", { class: name }, text));
  }

  #show(wanted, answer) {
    const facts = element("dl", { class: "facts" });
    const rows = [
      ["Key", element("span", { class: "mono" }, answer.key)],
      ["Kind", answer.kind],
      ["Size", bytes(answer.value_bytes)],
      ["Expires in", answer.ttl_ms === null ? "no TTL" : span(answer.ttl_ms)],
      ["Flags", String(answer.flags)],
    ];
    for (const [name, value] of rows) {
      facts.append(element("dt", {}, name), element("dd", {}, value));
    }
    const remove = element("button", { class: "button is-risky", type: "button" }, "Delete …");
    remove.hidden = !this.#mayWrite;
    remove.addEventListener("click", () => this.#confirm(wanted));
    const isText = answer.preview_encoding === "text";
    const title = element("h3", {}, previewTitle(answer, isText));
    this.result.replaceChildren(
      facts,
      element("div", { class: "row" }, title, remove),
      element("pre", { class: "preview", tabindex: "0" }, answer.preview),
    );
  }

  #confirm(wanted) {
    const dialog = byId("delete-dialog");
    write(byId("delete-key"), `${wanted.key} (database ${wanted.database})`);
    dialog.returnValue = "keep";
    dialog.addEventListener(
      "close",
      () => {
        if (dialog.returnValue === "delete") this.#delete(wanted);
      },
      { once: true },
    );
    dialog.showModal();
  }

  async #delete(wanted) {
    this.#asked += 1;
    const answer = await ask(wanted, "DELETE");
    if (answer.problem) this.#say(answer.problem, "problem");
    else if (answer.deleted) this.#say(`“${wanted.key}” deleted.`);
    else this.#say(`“${wanted.key}” did not exist.`);
  }
}

/** The server's answer, or what kept it from answering. */
async function ask({ query, database }, method) {
  const url = `/v1/console/key?key=${query}&database=${encodeURIComponent(database)}`;
  try {
    const response = await request(url, { method });
    const answer = await response.json();
    return response.ok ? answer : { problem: answer.error.message };
  } catch {
    return { problem: "The server did not answer." };
  }
}

function previewTitle(answer, isText) {
  const form = isText ? "Value" : "Value, in base64";
  return answer.preview_is_cut ? `${form}, its first bytes` : form;
}
