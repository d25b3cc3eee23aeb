//! Templates: a raw result through its template becomes Markdown.
//!
//! A template reads a raw result by the names of its fields. Beside Jinja's own it has filters that
//! show figures, and functions that gather while the page is read from top to bottom: figures
//! beside a peer's (`less`, `more`), goals (`at_most`, `at_least`), points (`point`, `cell`).
//! `peers`, `goals` and `plot` then put what was gathered where they stand. A field that a raw
//! result does not have is an error, not nothing.

use std::cmp::Ordering;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{ArgType, Kwargs, Rest, Serde};
use minijinja::{Environment, Error as Fault, ErrorKind, State, UndefinedBehavior, Value, context};
use serde::Serialize;

use crate::peers::started_as;
use crate::plot::{Plot, Series};
use crate::spread::{Spread, short};
use cellar_load::binary;

const MIB: f64 = 1_048_576.0;

/// What stands beside a source's own figure on the index.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Headline {
    ours: String,
    peers: String,
}

/// A figure of Cellar's and the same figure of a peer's.
#[derive(Clone, Debug, Serialize)]
struct Versus {
    /// What was measured, with its unit.
    what: String,
    peer: String,
    ours: f64,
    theirs: f64,
    /// Cellar's over the peer's, if that is a number.
    ratio: Option<f64>,
    /// Whether the peer's figure is the better one, by however little.
    is_lost: bool,
}

/// A figure that a measurement must reach.
#[derive(Clone, Debug, Serialize)]
struct Goal {
    what: String,
    limit: String,
    found: String,
    is_reached: bool,
}

/// What a template has gathered.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    compared: Vec<Versus>,
    goals: Vec<Goal>,
    /// Points of the next plot.
    series: Vec<Series>,
    /// Rows of the next plot, from left to right.
    rows: Vec<String>,
    pub(crate) plots: Vec<(String, Plot)>,
    pub(crate) headline: Option<Headline>,
}

/// What this rendering has gathered so far.
fn of<'s>(state: &'s mut State<'_, '_>) -> &'s mut Gathered {
    state.get_or_insert_extension_with(Gathered::default)
}

/// What a run says of Cellar in a few words, beside other runs of the same measurement.
#[derive(Clone, Debug)]
pub(crate) struct Verdict {
    /// In how many of the figures compared a peer is better, if any are compared.
    pub(crate) lost: Option<String>,
    /// Each goal, and what was found of it.
    pub(crate) goals: Vec<(String, String)>,
}

impl Gathered {
    /// What this rendering came to.
    pub(crate) fn verdict(&self) -> Verdict {
        let lost = self.compared.iter().filter(|it| it.is_lost).count();
        let goals = self.goals.iter().map(|goal| {
            let verdict = if goal.is_reached { "reached" } else { "MISSED" };
            (goal.what.clone(), format!("{} {verdict}", goal.found))
        });
        Verdict {
            lost: match self.compared.len() {
                0 => None,
                compared => Some(format!("{lost} of {compared}")),
            },
            goals: goals.collect(),
        }
    }
}

/// The text that a template makes of figures, and what it gathered; plots are files `stem`-NAME.
pub(crate) fn render(
    stem: &str,
    template: &str,
    figures: &serde_json::Value,
) -> Result<(String, Gathered), Fault> {
    let mut environment = Environment::new();
    let mut syntax = SyntaxConfig::builder();
    syntax.trim_blocks(true).lstrip_blocks(true);
    environment.set_syntax(syntax.build()?);
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.add_global("infinity", f64::INFINITY);
    add_filters(&mut environment);
    add_comparisons(&mut environment);
    add_goals(&mut environment);
    add_plots(&mut environment);
    let template = environment.template_from_named_str(stem, template)?;
    let mut rendered = template.render_captured(Value::from(Serde(figures)))?;
    let gathered = rendered.with_state_mut(|state| std::mem::take(of(state)));
    Ok((rendered.output().to_owned(), gathered))
}

fn add_filters(environment: &mut Environment<'_>) {
    environment.add_filter("fixed", fixed);
    environment.add_filter("signed", |value: f64, digits: usize| {
        format!("{value:+.digits$}")
    });
    environment.add_filter("figure", figure);
    environment.add_filter("plain", |value: f64| value.to_string());
    environment.add_filter("short", short);
    environment.add_filter("short_span", |spread: Serde<Spread>| {
        short(spread.0.median) + &brackets(&spread.0)
    });
    environment.add_filter("brackets", |spread: Serde<Spread>| brackets(&spread.0));
    environment.add_filter("mib", |bytes: f64| bytes / MIB);
    environment.add_filter("binary", binary);
    environment.add_filter("spread", |rounds: Vec<f64>| {
        Value::from(Serde(Spread::of(rounds)))
    });
    environment.add_filter("over", |own: Serde<Spread>, other: Serde<Spread>| {
        let rounds = own.0.rounds.iter().zip(&other.0.rounds);
        let ratios = rounds.map(|(own, other)| own / other).collect();
        Value::from(Serde(Spread::of(ratios)))
    });
    environment.add_filter("geometric_mean", |figures: Vec<f64>| {
        let logarithms: f64 = figures.iter().map(|figure| figure.ln()).sum();
        (logarithms / figures.len() as f64).exp()
    });
    environment.add_filter("where", filtered);
    environment.add_filter("find", |all: Value, wanted: Kwargs| {
        Ok::<_, Fault>(
            filtered(all, wanted)?
                .into_iter()
                .next()
                .unwrap_or(().into()),
        )
    });
    environment.add_function("titled", |server: &str, version: &str| match version {
        version if version.is_empty() || server.starts_with("echo floor") => server.to_owned(),
        _ => format!("{server} {version}"),
    });
    environment.add_function("started", |names: Rest<String>| {
        let unknown = || Fault::new(ErrorKind::InvalidOperation, "there is no such server");
        started_as(&names).ok_or_else(unknown)
    });
}

/// A number or a spread with so many digits behind the point.
fn fixed(value: Value, digits: usize) -> Result<String, Fault> {
    if let Ok(number) = f64::try_from(value.clone()) {
        return Ok(format!("{number:.digits$}"));
    }
    let Serde(spread) = Serde::<Spread>::from_value(Some(&value))?;
    Ok(format!("{spread:.digits$}"))
}

/// The ends of a spread over several rounds that differ.
fn brackets(spread: &Spread) -> String {
    if spread.rounds.len() < 2 || spread.min >= spread.max {
        return String::new();
    }
    format!(" [{}..{}]", short(spread.min), short(spread.max))
}

/// Those whose fields have these values.
fn filtered(all: Value, wanted: Kwargs) -> Result<Vec<Value>, Fault> {
    let mut found = Vec::new();
    'all: for one in all.try_iter()? {
        for name in wanted.args() {
            if one.get_attr(name)? != wanted.get::<Value>(name)? {
                continue 'all;
            }
        }
        found.push(one);
    }
    Ok(found)
}

/// A figure with four digits or so, whatever its size; an infinite one was never reached.
fn figure(value: f64) -> String {
    match value.abs() {
        size if size.is_infinite() => "not in this run".to_owned(),
        size if size >= 1000.0 => format!("{value:.0}"),
        size if size >= 100.0 => format!("{value:.1}"),
        size if size >= 10.0 => format!("{value:.2}"),
        size if size >= 0.01 || value == 0.0 => format!("{value:.3}"),
        _ => format!("{value:.2e}"),
    }
}

fn add_comparisons(environment: &mut Environment<'_>) {
    for (name, lost_by) in [("less", Ordering::Less), ("more", Ordering::Greater)] {
        let compare =
            move |state: &mut State<'_, '_>, what: String, ours: f64, peer: String, theirs: f64| {
                of(state).compared.push(Versus {
                    what,
                    peer,
                    ours,
                    theirs,
                    ratio: Some(ours / theirs).filter(|ratio| ratio.is_finite()),
                    is_lost: theirs.partial_cmp(&ours) == Some(lost_by),
                });
            };
        environment.add_function(name, compare);
    }
    environment.add_function("peers", |state: &mut State<'_, '_>| {
        let compared = Value::from(Serde(of(state).compared.clone()));
        let template = include_str!("../pages/peers.jinja");
        state.env().render_str(template, context! { compared })
    });
    environment.add_function(
        "headline",
        |state: &mut State<'_, '_>, ours: String, peers: String| {
            of(state).headline = Some(Headline { ours, peers });
        },
    );
}

fn add_goals(environment: &mut Environment<'_>) {
    environment.add_function("at_most", at_most);
    environment.add_function("at_least", at_least);
    environment.add_function("goals", |state: &mut State<'_, '_>| {
        let goals = Value::from(Serde(of(state).goals.clone()));
        let template = include_str!("../pages/goals.jinja");
        state.env().render_str(template, context! { goals })
    });
}

/// A goal that is reached at its limit; a figure that is no number misses.
fn at_most(state: &mut State<'_, '_>, what: String, limit: f64, found: f64, digits: usize) {
    of(state).goals.push(Goal {
        what,
        limit: format!("<= {limit}"),
        found: format!("{found:.digits$}"),
        is_reached: found <= limit,
    });
}

fn at_least(
    state: &mut State<'_, '_>,
    what: String,
    limit: f64,
    figure: f64,
    shown: Kwargs,
) -> Result<(), Fault> {
    let least: String = shown.get("shown")?;
    of(state).goals.push(Goal {
        what,
        limit: format!(">= {least}"),
        found: shown.get("found")?,
        is_reached: figure >= limit,
    });
    Ok(())
}

fn add_plots(environment: &mut Environment<'_>) {
    environment.add_function("point", point);
    environment.add_function("cell", cell);
    environment.add_function("plot", plot);
}

fn point(state: &mut State<'_, '_>, label: &str, x: f64, y: f64) {
    of(state).add(label, x, y);
}

fn cell(state: &mut State<'_, '_>, row: &str, label: &str, figure: f64) {
    let it = of(state);
    let place = it.rows.iter().position(|one| one == row);
    let place = place.unwrap_or_else(|| {
        it.rows.push(row.to_owned());
        it.rows.len() - 1
    });
    let x = place as f64 + 1.0;
    let line = it.series.iter().find(|line| line.label == label);
    // Of several figures with one row and label the first counts.
    if !line.is_some_and(|line| line.points.iter().any(|point| point.0 == x)) {
        it.add(label, x, figure);
    }
}

/// What was gathered since the last plot, unless there is too little of it.
fn plot(
    state: &mut State<'_, '_>,
    name: &str,
    title: &str,
    options: Kwargs,
) -> Result<String, Fault> {
    let stem = state.name().to_owned();
    let it = of(state);
    let series = std::mem::take(&mut it.series);
    it.rows.clear();
    let log = options.get::<Option<&str>>("log")?.unwrap_or_default();
    let least = options.get::<Option<usize>>("least")?.unwrap_or(1);
    if !series.iter().any(|line| line.points.len() >= least) {
        return Ok(String::new());
    }
    let plot = Plot {
        title: title.to_owned(),
        x: options.get("x")?,
        y: options.get("y")?,
        is_log: ["x", "y"].map(|axis| log.contains(axis)),
        series,
    };
    it.plots.push((name.to_owned(), plot));
    Ok(format!("![{title}]({stem}-{name}.svg)"))
}

impl Gathered {
    fn add(&mut self, label: &str, x: f64, y: f64) {
        match self.series.iter_mut().find(|line| line.label == label) {
            Some(line) => line.points.push((x, y)),
            None => self.series.push(Series {
                label: label.to_owned(),
                points: vec![(x, y)],
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(template: &str) -> (String, Gathered) {
        let spread = Spread::of(vec![1.5, 2.5]);
        let rows = serde_json::json!([{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]);
        let figures = serde_json::json!({"spread": spread, "rows": rows});
        render("stem", template, &figures).unwrap()
    }

    #[test]
    fn figures_are_shown_as_the_filters_say() {
        for (template, expected) in [
            ("{{ 2.345|fixed(1) }} {{ 7|fixed(0) }}", "2.3 7"),
            ("{{ spread|fixed(1) }}", "2.0 [1.5..2.5]"),
            (
                "{{ 3|signed(1) }} {{ 2.0|plain }} {{ 2500|short }}",
                "+3.0 2 2 k",
            ),
            (
                "{{ 1048576|binary }} {{ 1048576|mib|fixed(2) }}",
                "1 MiB 1.00",
            ),
            (
                "{{ (rows|find(a=2)).b }} {{ rows|where(b='x')|length }}",
                "y 1",
            ),
            (
                "{{ rows|find(a=3) is none }} {{ [2.0, 8.0]|geometric_mean|fixed(1) }}",
                "True 4.0",
            ),
            ("{{ ([2.0]|spread|over([4.0]|spread)).median }}", "0.5"),
            (
                "{{ titled('a', '1') }}, {{ titled('echo floor', '1') }}",
                "a 1, echo floor",
            ),
        ] {
            assert_eq!(rendered(template).0, expected);
        }
        assert!(
            rendered("{{ started('memcached') }}")
                .0
                .contains("- memcached: `memcached -l ")
        );
        let nothing = serde_json::json!({});
        assert!(render("stem", "{{ started('nobody') }}", &nothing).is_err());
    }

    #[test]
    fn rows_have_a_place_each_and_names_a_line_each() {
        let (text, gathered) = rendered(
            "{% for row, name, y in [('a', 'cellar', 0.5), ('a', 'other', 0.6), \
             ('b', 'other', 0.7), ('a', 'other', 0.8)] %}{% do cell(row, name, y) %}{% endfor %}\
             {{ plot('p', 'Misses', x='trace', y='share', log='y') }}\
             {{ plot('q', 'None', x='', y='') }}",
        );
        assert_eq!(text, "![Misses](stem-p.svg)");
        let [(name, plot)] = gathered.plots.as_slice() else {
            panic!("one plot has points: {gathered:?}");
        };
        assert_eq!((name.as_str(), plot.is_log), ("p", [false, true]));
        let lines = plot.series.iter();
        let lines: Vec<_> = lines
            .map(|it| (it.label.as_str(), it.points.clone()))
            .collect();
        let other = vec![(1.0, 0.6), (2.0, 0.7)];
        assert_eq!(lines, [("cellar", vec![(1.0, 0.5)]), ("other", other)]);
    }

    #[test]
    fn a_goal_is_reached_at_its_limit_and_missed_beyond() {
        let (text, _) = rendered(
            "{% do at_most('a', 1.2, 1.2, 2) %}{% do at_most('b', 1.2, 1.201, 3) %}\
             {% do at_most('c', 1.2, infinity - infinity, 2) %}\
             {% do at_least('d', 1, 0.5, shown='1', found='0.5') %}{{ goals() }}",
        );
        assert_eq!(
            text,
            "| goal | limit | found | |\n|---|---|---|---|\n\
             | a | <= 1.2 | 1.20 | reached |\n\
             | b | <= 1.2 | 1.201 | MISSED |\n\
             | c | <= 1.2 | NaN | MISSED |\n\
             | d | >= 1 | 0.5 | MISSED |\n"
        );
        assert_eq!(rendered("{{ goals() }}").0, "");
    }

    #[test]
    fn a_peer_that_is_better_is_a_row_and_one_that_is_not_is_none() {
        let (text, _) = rendered(
            "{% do less('misses', 2, 'memcached', 1) %}\
             {% do less('even misses', 2, 'memcached', 2) %}\
             {% do more('gets/s', 2000, 'redis', 2500.4) %}{% do more('sets/s', 2, 'redis', 1) %}\
             {% do less('s until done', infinity, 'redis', 3) %}{{ peers() }}",
        );
        assert!(
            text.starts_with("A peer is better in 3 of 5 results"),
            "{text}"
        );
        assert!(text.contains("| misses | memcached | 1.000 | 2.000 | 2.000 |"));
        assert!(text.contains("| gets/s | redis | 2500 | 2000 | 0.800 |"));
        assert!(text.contains("| s until done | redis | 3.000 | not in this run | - |"));
        assert!(!text.contains("even") && !text.contains("sets/s"));
    }

    #[test]
    fn no_loss_and_no_peer_are_told_apart() {
        let (text, _) = rendered("{% do less('misses', 1, 'redis', 2) %}{{ peers() }}");
        assert!(text.contains("in none of the 1 results"), "{text}");
        assert!(
            rendered("{{ peers() }}")
                .0
                .contains("This benchmark has no peer")
        );
    }
}
