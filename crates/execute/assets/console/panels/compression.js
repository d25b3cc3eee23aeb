// Compression: what it saves, in all and by key prefix.

import { byId, each, row, write } from "../dom.js";
import { bytes, count, percent } from "../format.js";

/** What compression saves. */
export class Compression {
  constructor() {
    this.panel = byId("compression");
    this.rows = this.panel.querySelector("tbody");
  }

  /** Shows the newest answer. */
  update({ compression, operations }) {
    this.panel.classList.toggle("is-empty", compression.prefixes.length === 0);
    write(byId("compression-note"), inWords(compression, operations));
    write(
      byId("compression-empty"),
      compression.enabled
        ? "The server has not found enough values with a common prefix yet."
        : "Compression is off. The setting --compress auto switches it on.",
    );
    each(this.rows, compression.prefixes, () => row(4), updateRow);
  }
}

function inWords(figures, { gets }) {
  const { values, plain_bytes, compressed_bytes, reads, cpu_us, dictionary_bytes } = figures;
  if (values === 0) return "No value was compressed";
  const share = gets > 0 ? percent(reads / gets) : percent(0);
  return (
    `${count(values)} values compressed from ${bytes(plain_bytes)} to ${bytes(compressed_bytes)}, ` +
    `${share} of reads decompressed a value, dictionaries take ${bytes(dictionary_bytes)}, ` +
    `${(cpu_us / 1e6).toFixed(1)} s of processor time`
  );
}

function updateRow(line, one) {
  const [prefix, database, state, ratio] = line.cells;
  write(prefix, one.prefix === "" ? "(no prefix)" : one.prefix);
  prefix.title = one.prefix;
  write(database, String(one.database));
  write(state, one.compressed ? "compressed" : "plain");
  write(ratio, percent(one.ratio));
}
