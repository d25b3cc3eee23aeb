// Histograms of the server: `bounds` are upper bounds, `counts` has one more for what lies above.

/** What was counted between two states of one histogram; null if there is no such state. */
export function difference(now, before) {
  if (!now || !before || now.counts.length !== before.counts.length) return null;
  const counts = now.counts.map((count, index) => count - before.counts[index]);
  return counts.some((count) => count < 0) ? null : { bounds: now.bounds, counts };
}

/** Several histograms with the same bounds as one; null if there is none. */
export function sum(histograms) {
  const known = histograms.filter(Boolean);
  if (known.length === 0) return null;
  const [first] = known;
  const same = known.filter((one) => one.counts.length === first.counts.length);
  const counts = first.counts.map((_, index) =>
    same.reduce((total, one) => total + one.counts[index], 0),
  );
  return { bounds: first.bounds, counts };
}

/** How many values were counted. */
export const total = (histogram) => histogram.counts.reduce((all, count) => all + count, 0);

/**
 * The value that a share `q` of all values does not exceed, straight between the bounds of its
 * step; null for an empty histogram. Above the last bound, the last bound is all that is known.
 */
export function quantile(histogram, q) {
  const wanted = histogram ? total(histogram) * q : 0;
  if (wanted === 0) return null;
  let below = 0;
  for (let step = 0; step < histogram.bounds.length; step += 1) {
    const count = histogram.counts[step];
    if (below + count >= wanted) {
      const low = step === 0 ? 0 : histogram.bounds[step - 1];
      return low + ((histogram.bounds[step] - low) * (wanted - below)) / count;
    }
    below += count;
  }
  return histogram.bounds.at(-1);
}
