//! Earlier runs: a raw result keeps the runs before it, and its page shows what they found.
//!
//! Each run goes through the template of the page once more, and what it gathers of goals and
//! peers becomes one column. Why: a run is never left out for a better one.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::template::{self, Verdict};

/// Where a raw result keeps the runs before it.
pub(crate) const EARLIER: &str = "earlier";

/// A raw result as the runs that it holds, the newest first.
pub(crate) fn runs_of(mut raw: Value) -> Vec<Value> {
    let earlier = raw
        .as_object_mut()
        .and_then(|fields| fields.remove(EARLIER));
    let earlier = earlier.and_then(|runs| runs.as_array().cloned());
    [raw]
        .into_iter()
        .chain(earlier.unwrap_or_default())
        .collect()
}

/// The section of a page on the runs before, or nothing if there are none.
pub(crate) fn section(template: &str, figures: &Value, newest: &Verdict) -> String {
    let runs = runs_of(figures.clone());
    let Some((present, before)) = runs.split_first().filter(|(_, before)| !before.is_empty())
    else {
        return String::new();
    };
    let mut columns = vec![Column::of(present, present, Some(newest.clone()))];
    columns.extend(before.iter().map(|run| {
        let verdict = template::render("", template, run).ok();
        Column::of(
            present,
            run,
            verdict.map(|(_, gathered)| gathered.verdict()),
        )
    }));
    table(newest, &columns)
}

/// One run in the table.
struct Column {
    run: String,
    differs: String,
    /// None if the run has another form than this template reads.
    verdict: Option<Verdict>,
}

impl Column {
    fn of(present: &Value, run: &Value, verdict: Option<Verdict>) -> Column {
        let text = |name: &str| run["setting"][name].as_str().unwrap_or("").to_owned();
        Column {
            run: format!("{} {}", text("date"), text("commit")),
            differs: differences(present, run),
            verdict,
        }
    }
}

/// The options of a run that have another value in the newest one.
fn differences(present: &Value, run: &Value) -> String {
    let fields = |value: &Value| value.as_object().cloned().unwrap_or_default();
    let (present, run) = (fields(present), fields(run));
    let is_option = |value: &Value| value.is_u64() || value.is_string();
    let changed = run.iter().filter(|(name, value)| {
        is_option(value) && present.get(*name).is_some_and(|other| other != *value)
    });
    let changed: Vec<String> = changed
        .map(|(name, value)| format!("{name} {value}"))
        .collect();
    changed.join(", ")
}

fn table(newest: &Verdict, columns: &[Column]) -> String {
    let row = |what: &str, cell: &dyn Fn(&Column) -> String| {
        let cells: Vec<String> = columns.iter().map(cell).collect();
        format!("| {what} | {} |\n", cells.join(" | "))
    };
    let of = |column: &Column, told: &dyn Fn(&Verdict) -> Option<String>| match &column.verdict {
        Some(verdict) => told(verdict).unwrap_or_else(|| "-".to_owned()),
        None => "in another form".to_owned(),
    };
    let mut text =
        "\n## Earlier runs\n\nThe raw result keeps the last three runs, the newest first.\n\n"
            .to_owned();
    text += &row("", &|column| column.run.clone());
    text += &format!("|---|{}\n", "---|".repeat(columns.len()));
    if columns.iter().any(|column| !column.differs.is_empty()) {
        text += &row("measured with", &|column| column.differs.clone());
    }
    if newest.lost.is_some() {
        text += &row("figures in which a peer is better", &|column| {
            of(column, &|verdict| verdict.lost.clone())
        });
    }
    let mut told = BTreeSet::new();
    for (goal, _) in &newest.goals {
        if told.insert(goal) {
            text += &row(goal, &|column| {
                of(column, &|verdict| {
                    let found = verdict.goals.iter().find(|(what, _)| what == goal);
                    found.map(|(_, found)| found.clone())
                })
            });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEMPLATE: &str = "{% do at_most('ms', 2, found, 1) %}{% do less('us', 1, 'a', peer) %}";

    fn shown(figures: &Value) -> String {
        let newest = template::render("", TEMPLATE, figures).unwrap().1.verdict();
        section(TEMPLATE, figures, &newest)
    }

    #[test]
    fn each_earlier_run_is_a_column_with_its_options_goals_and_peers() {
        let run = |commit: &str, rounds: u32, found: f64| {
            let setting = serde_json::json!({"date": "2026-01-31", "commit": commit});
            serde_json::json!({"setting": setting, "rounds": rounds, "found": found, "peer": 0.5})
        };
        let mut raw = run("c", 3, 1.5);
        assert_eq!(shown(&raw), "");
        let old = serde_json::json!({"setting": {"date": "2026-01-01", "commit": "a"}});
        raw[EARLIER] = serde_json::json!([run("b", 2, 2.5), old]);
        let text = shown(&raw);
        for row in [
            "|  | 2026-01-31 c | 2026-01-31 b | 2026-01-01 a |",
            "| measured with |  | rounds 2 |  |",
            "| figures in which a peer is better | 1 of 1 | 1 of 1 | in another form |",
            "| ms | 1.5 reached | 2.5 MISSED | in another form |",
        ] {
            assert!(text.contains(row), "{row} in {text}");
        }
    }
}
