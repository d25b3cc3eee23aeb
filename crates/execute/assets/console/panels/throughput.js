// Throughput: requests per second by protocol.

import { byId, element } from "../dom.js";
import { rate } from "../format.js";
import { TimeChart } from "../chart.js";

/** Requests per second. */
export class Throughput {
  constructor(history) {
    this.history = history;
    this.panel = byId("throughput");
    this.hint = this.panel.querySelector(".empty");
    this.chart = new TimeChart(this.panel, {
      history,
      label: "Requests per second by protocol",
      format: rate,
      series: [
        { column: "memcached", label: "memcached", token: "memcached", fill: 0.1 },
        { column: "resp", label: "RESP", token: "resp", fill: 0.1 },
        { column: "http", label: "HTTP", token: "http", fill: 0.1 },
      ],
    });
  }

  /** Shows the newest answer. */
  update(status) {
    const { memcached, resp, http } = status.requests;
    const operations = Object.values(status.operations).some((count) => count > 0);
    const isEmpty = !operations && memcached + resp === 0;
    this.panel.classList.toggle("is-empty", isEmpty);
    if (isEmpty && this.hint.childElementCount === 0) this.#writeHint(status.server, http);
    if (!isEmpty) this.chart.update();
  }

  /** Says how to send a first request to this very server. */
  #writeHint(server) {
    this.hint.append(element("strong", {}, "No traffic yet"));
    const [host, port] = split(server.memcached) ?? [];
    const line = server.resp
      ? `redis-cli -h ${split(server.resp)[0]} -p ${split(server.resp)[1]} set greeting hello`
      : server.memcached && `printf 'set greeting 0 60 5\\r\\nhello\\r\\n' | nc ${host} ${port}`;
    if (line) {
      this.hint.append(element("span", {}, "Try ", element("code", {}, line)));
    }
  }
}

/** Host and port of an address; null for none. */
function split(address) {
  const end = address?.lastIndexOf(":") ?? -1;
  return end < 0 ? null : [address.slice(0, end).replace(/[[\]]/g, ""), address.slice(end + 1)];
}
