"""docs/guide/libraries.md, made of its template and of the results."""

import collections
import json
import pathlib

HERE = pathlib.Path(__file__).resolve().parent
RESULTS = HERE / "results"
TEMPLATE = HERE / "page.md.template"
PAGE = HERE.parents[1] / "docs" / "guide" / "libraries.md"
TITLES = {
    "python": "Python",
    "node": "Node.js",
    "java": "Java",
    "go": "Go",
    "php": "PHP",
    "ruby": "Ruby",
    "c": "C and C++",
    "rust": "Rust",
    "perl": "Perl",
    "lua": "Lua",
    "erlang": "Erlang",
}
OUTCOMES = {"works": "works", "setting": "works with a setting", "fails": "does not work"}


def results(language):
    """The rows of results that are kept of a language."""
    file = RESULTS / f"{language}.json"
    return json.loads(file.read_text()) if file.exists() else []


def text():
    """The page as it has to be."""
    rows = {language: results(language) for language in TITLES}
    rows = {language: found for language, found in rows.items() if found}
    tables = "\n\n".join(f"## {TITLES[name]}\n\n{table(found)}" for name, found in rows.items())
    places = {"{sums}": sums(rows), "{tables}": tables}
    made = TEMPLATE.read_text()
    for place, filling in places.items():
        made = made.replace(place, filling)
    return made


def sums(rows):
    """How many libraries of each language came to what."""
    lines = ["| language | libraries | programs | work | with a setting | do not |"]
    lines.append("|---|--:|--:|--:|--:|--:|")
    total = collections.Counter()
    for name, found in rows.items():
        counts = collections.Counter(row["outcome"] for row in found)
        counts["libraries"] = len({row["package"] for row in found})
        lines.append(sum_line(f"[{TITLES[name]}](#{anchor(TITLES[name])})", counts))
        total += counts
    return "\n".join([*lines, sum_line("all", total)])


def sum_line(name, counts):
    outcomes = [counts[outcome] for outcome in OUTCOMES]
    numbers = (counts["libraries"], sum(outcomes), *outcomes)
    return f"| {name} | " + " | ".join(map(str, numbers)) + " |"


def anchor(title):
    return title.lower().replace(".", "").replace("+", "").replace(" ", "-")


def table(rows):
    """A language's libraries."""
    lines = ["| library | version | protocol | tried | outcome |", "|---|---|---|---|---|"]
    for row in sorted(rows, key=lambda row: row["library"].lower()):
        cells = (row["library"], row["version"], row["protocol"], row["tries"], outcome(row))
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)


def outcome(row):
    """The outcome with what a user has to know of it."""
    told = OUTCOMES[row["outcome"]]
    if row["outcome"] == "works":
        return told + (f"; {row['note']}" if "note" in row else "")
    if row["outcome"] == "setting":
        return f"works with {row['setting']}; without: `{quoted(row['error'])}`"
    reason = f": {row['reason']}" if "reason" in row else ""
    return f"**{told}**{reason}; shown: `{quoted(row['error'])}`"


def quoted(error):
    return error.replace("`", "'")
