// Events: what happened beside requests, the newest first; the charts have a line at each.

import { byId, each, element, write } from "../dom.js";
import { clock } from "../format.js";

const SHOWN_MAX = 20;

/** What an event says, by its kind. */
const WORDS = {
  started: ({ detail }) => `Server started, version ${detail}`,
  flush: ({ count }) => `Flushed${times(count)}`,
  config: ({ detail, count }) => `Setting changed${times(count)}: ${detail}`,
  shed: ({ count }) => `${connections(count)} closed: clients used too much memory`,
  slow: ({ count }) => `${connections(count)} closed: the client did not read its replies`,
  refused: ({ count }) => `${connections(count)} refused: --max-connections is reached`,
  stalled: ({ count }) => `An event loop was blocked${times(count)}`,
};
const times = (count) => (count > 1 ? `, ${count} times` : "");
const connections = (count) => (count === 1 ? "1 connection" : `${count} connections`);

/** The list of events. */
export class Events {
  constructor() {
    this.list = byId("event-list");
  }

  /** Shows the newest answer. */
  update({ events }) {
    const shown = events.slice(-SHOWN_MAX).reverse();
    each(
      this.list,
      shown,
      () => element("li", {}, element("time"), element("span")),
      (item, event) => {
        const [time, text] = item.children;
        time.dateTime = new Date(event.unix_ms).toISOString();
        write(time, moment(event));
        write(text, WORDS[event.kind]?.(event) ?? event.kind);
        item.dataset.kind = event.kind;
      },
    );
  }
}

/** When it happened; from when until when, if that took longer. */
function moment({ unix_ms, until_unix_ms }) {
  const first = clock(unix_ms / 1000);
  return until_unix_ms - unix_ms < 1000 ? first : `${first} to ${clock(until_unix_ms / 1000)}`;
}
