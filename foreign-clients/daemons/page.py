"""docs/guide/daemons.md, made of its template, of the table of rows, and of results.json."""

import json
import pathlib
import re

HERE = pathlib.Path(__file__).resolve().parent
RESULTS = HERE / "results.json"
TEMPLATE = HERE / "page.md.template"
PAGE = HERE.parents[1] / "docs" / "guide" / "daemons.md"
STATES = {"works": "works", "setting": "works with a setting", "differs": "does not work"}
DEADLINES = {
    "none": "none",
    "relative": "seconds from now",
    "absolute": "a date",
}


def version(text):
    """A version without Debian's epoch and revision."""
    return re.sub(r"^\d+:|[-+~]\S*$", "", re.sub(r"\+\S*", "", text))


def results():
    """The results that are kept."""
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else []


def keep(result, names):
    """Puts a result beside those that are kept; what is in no row any more leaves."""
    found = {kept["row"]: kept for kept in results()} | {result["row"]: result}
    ordered = [found[name] for name in names if name in found]
    lines = ",\n ".join(json.dumps(row, ensure_ascii=False) for row in ordered)
    RESULTS.write_text(f"[{lines}]\n")


def write():
    """Writes the page."""
    PAGE.write_text(text())


def problems():
    """What does not agree: rows, results, page."""
    import rows

    kept = {result["row"] for result in results()}
    for row in rows.ALL:
        if row.name not in kept:
            yield f"{row.name} has no result"
    for name in kept - {row.name for row in rows.ALL}:
        yield f"{name} has a result and is no row"
    if text() != (PAGE.read_text() if PAGE.exists() else ""):
        yield f"{PAGE.name} is not what the results say: run foreign-clients/daemons/run --page"


def text():
    """The page as it has to be."""
    import rows

    kept = {result["row"]: result for result in results()}
    found = [(row, kept[row.name]) for row in rows.ALL if row.name in kept]
    counts = {name: sum(result["outcome"] == name for _, result in found) for name in STATES}
    sums = ", ".join(f"{counts[name]} {word}" for name, word in
                     (("works", "work"), ("setting", "work with a setting"),
                      ("differs", "do not work")))  # fmt: skip
    tables = []
    for title in rows.TITLES:
        lines = [
            f"## {title}\n",
            "| program | version | tested | sends | configuration | state |",
            "|---|---|---|---|---|---|",
        ]
        lines += [line(row, result) for row, result in found if row.group == title]
        tables.append("\n".join(lines))
    made = TEMPLATE.read_text().replace("{count}", str(len(found))).replace("{sums}", sums)
    return made.replace("{tables}", "\n\n".join(tables))


def line(row, result):
    """A row of the page."""
    configuration = "<br>".join(f"`{part}`" for part in row.configuration.splitlines())
    cells = (row.name, result["version"], row.tried, sends(result), configuration,
             state(row, result))  # fmt: skip
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def sends(result):
    """Protocol, commands, expiration."""
    names = ", ".join(f"`{name}`" for name in result["commands"])
    kinds = ", ".join(DEADLINES[kind] for kind in result["deadlines"])
    return f"{result['protocol']}: {names}" + (f"; expiration: {kinds}" if kinds else "")


def state(row, result):
    """The state, and what a user has to know about it."""
    word = STATES[result["outcome"]]
    if result["outcome"] == "setting":
        return f"{word}: {row.setting}"
    if result["outcome"] == "differs":
        return f"**{word}**: `{result['why']}`"
    return f"{word}; {row.known[2]}" if row.known else word
