// Numbers for people: short, with units, never more digits than mean something.

/** What stands for a number that nobody knows. */
export const UNKNOWN = "–";

const NARROW_SPACE = "\u202f";
const BINARY_UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

const isKnown = (number) => typeof number === "number" && Number.isFinite(number);

/** Three significant digits at most: 0.25, 8.1, 42, 830. */
function short(number) {
  const digits = Math.abs(number) >= 100 ? 0 : Math.abs(number) >= 10 ? 1 : 2;
  return String(Number(number.toFixed(digits)));
}

/** A count: 830, 12.4 k, 3.1 M. */
export function count(number) {
  if (!isKnown(number)) return UNKNOWN;
  const size = Math.abs(number);
  if (size < 999.5) return short(number);
  if (size < 999_500) return `${short(number / 1e3)}${NARROW_SPACE}k`;
  if (size < 999_500_000) return `${short(number / 1e6)}${NARROW_SPACE}M`;
  return `${short(number / 1e9)}${NARROW_SPACE}G`;
}

/** A count each second. */
export const rate = (number) => (isKnown(number) ? `${count(number)}/s` : UNKNOWN);

/** Bytes in binary units: 512 B, 1.5 MiB. */
export function bytes(number) {
  if (!isKnown(number)) return UNKNOWN;
  let value = number;
  let unit = 0;
  while (Math.abs(value) >= 999.5 && unit + 1 < BINARY_UNITS.length) {
    value /= 1024;
    unit += 1;
  }
  return `${short(value)}${NARROW_SPACE}${BINARY_UNITS[unit]}`;
}

/** A share of one as per cent; close to 0 and 100 with more digits, since they matter there. */
export function percent(share) {
  if (!isKnown(share)) return UNKNOWN;
  const value = share * 100;
  const edge = Math.min(value, 100 - value);
  const digits = edge === 0 ? 0 : edge < 1 ? 2 : edge < 10 ? 1 : 0;
  return `${value.toFixed(digits)}${NARROW_SPACE}%`;
}

/** A share as an axis has it: no more digits than the step between two labels needs. */
export const percentShort = (share) => `${short(share * 100)}${NARROW_SPACE}%`;

/** Microseconds: 85 us, 1.2 ms, 3.4 s. */
export function micros(number) {
  if (!isKnown(number)) return UNKNOWN;
  if (number < 999.5) return `${short(number)}${NARROW_SPACE}µs`;
  if (number < 999_500) return `${short(number / 1e3)}${NARROW_SPACE}ms`;
  return `${short(number / 1e6)}${NARROW_SPACE}s`;
}

/** A length of time in its two largest units: 3 d 4 h, 12 min 5 s. */
export function span(ms) {
  if (!isKnown(ms)) return UNKNOWN;
  if (ms < 1000) return `${Math.round(ms)}${NARROW_SPACE}ms`;
  const seconds = Math.floor(ms / 1000);
  const parts = [
    [Math.floor(seconds / 86_400), "d"],
    [Math.floor(seconds / 3600) % 24, "h"],
    [Math.floor(seconds / 60) % 60, "min"],
    [seconds % 60, "s"],
  ];
  const first = parts.findIndex(([value]) => value > 0);
  return parts
    .slice(first, first + 2)
    .filter(([value]) => value > 0)
    .map(([value, unit]) => `${value}${NARROW_SPACE}${unit}`)
    .join(" ");
}

/** A factor of memory: a quarter, a half, 1.5 times. */
export function factor(number) {
  const fractions = { 0.25: "¼", 0.5: "½" };
  return `${fractions[number] ?? short(number)}${NARROW_SPACE}×`;
}

const clockFormat = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });
const minuteFormat = new Intl.DateTimeFormat("en-GB", { timeStyle: "short" });

/** A time of day with seconds, from Unix seconds. */
export const clock = (unix_s) => clockFormat.format(new Date(unix_s * 1000));

/** A time of day without seconds where they are zero. */
export const shortClock = (unix_s) =>
  unix_s % 60 === 0 ? minuteFormat.format(new Date(unix_s * 1000)) : clock(unix_s);
