//! The matrix: what each request costs a server, at each number of elements and length of values.
//!
//! The requests stand in requests.txt. Both servers run on one processor and take turns in each
//! round, so that a disturbance of the machine falls on both alike. Each family is filled anew.
//!
//! Invariant: each command of the groups of data types, which Cellar itself lists, has a request.

use std::collections::HashSet;

use serde::Serialize;
use serde_json::{Value, json};

use super::connection::Connection;
use super::contestant::Contestant;
use super::request::{Request, Shape};
use crate::spread::Spread;
use cellar_load::Error;

/// Groups of commands by data type, as `COMMAND` names them.
const GROUPS: [&str; 8] = [
    "@string",
    "@hash",
    "@set",
    "@sortedset",
    "@list",
    "@bitmap",
    "@hyperloglog",
    "@geo",
];
/// Elements that are walked in a round, and bytes, by requests that take all of a collection.
const WALKED: u64 = 200_000;
const COPIED_BYTES: u64 = 20_000_000;
/// Requests of a round at least.
const REQUESTS_MIN: u64 = 2;
/// Collections with more elements in all are not filled again after requests that take some away.
const REFILLED: u64 = 200_000;

/// Errors with which a cell stays empty: the server lacks the command, or bounds its replies.
const UNANSWERED: [&str; 2] = ["unknown command", "the reply would be longer"];

/// What a request costs by its nature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cost {
    One,
    Whole,
    Bytes,
}

/// What is sent after a round so that the next finds the same.
#[derive(Clone, Debug)]
enum Undo {
    Nothing,
    Refill,
    Send(Request),
}

#[derive(Clone, Debug)]
struct Row {
    name: &'static str,
    line: &'static str,
    cost: Cost,
    request: Request,
    undo: Undo,
}

/// The requests on one kind of data, and those that make it.
#[derive(Clone, Debug)]
struct Family {
    name: &'static str,
    fill_each: Vec<Request>,
    fill_one: Vec<Request>,
    rows: Vec<Row>,
}

/// How much of the matrix is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent<'a> {
    pub(crate) elements: &'a [u64],
    pub(crate) value_bytes: &'a [usize],
    pub(crate) requests: u64,
    pub(crate) rounds: usize,
    /// A part of the names of families or requests; all if it is empty.
    pub(crate) only: &'a str,
}

/// What one request cost.
#[derive(Debug, Serialize)]
struct Cell {
    family: &'static str,
    name: &'static str,
    request: &'static str,
    elements: u64,
    value_bytes: usize,
    requests: u64,
    /// Processor time of a request, medians; none if the server lacks the command, or answers that
    /// its reply would be too long.
    cellar_us: Option<f64>,
    peer_us: Option<f64>,
    /// The first over the second.
    ratio: Option<f64>,
}

/// Measures all cells. The first contestant is Cellar, the second, if there is one, its peer.
/// [`Error::Wrong`] if a command has no request, or a server refuses one.
pub(crate) fn measure(extent: Extent<'_>, servers: &mut [Contestant]) -> Result<Value, Error> {
    let families = families();
    check_complete(&families, &mut servers[0].connection)?;
    let mut cells = Vec::new();
    for (&elements, &value_bytes, family) in extent.elements.iter().flat_map(|elements| {
        let lengths = extent.value_bytes.iter();
        lengths.flat_map({
            let families = &families;
            move |length| families.iter().map(move |it| (elements, length, it))
        })
    }) {
        let shape = Shape {
            elements,
            value_bytes,
            copies: (2 * extent.requests / elements).max(1),
        };
        // Nothing in these depends on the length of values.
        let is_repeated = family.name == "bitmaps" && value_bytes != extent.value_bytes[0];
        if !is_repeated {
            cells.extend(family.measure(extent, shape, servers)?);
        }
    }
    Ok(json!(cells))
}

/// The families by the file of requests.
fn families() -> Vec<Family> {
    let mut families: Vec<Family> = Vec::new();
    for line in include_str!("requests.txt").lines() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let mut fields = line.split('|').map(str::trim);
        let mut field = || fields.next().unwrap_or_default();
        let (family, name, cost, line, undo) = (field(), field(), field(), field(), field());
        if families.last().is_none_or(|last| last.name != family) {
            families.push(Family {
                name: family,
                fill_each: Vec::new(),
                fill_one: Vec::new(),
                rows: Vec::new(),
            });
        }
        let request = Request::parse(line);
        let Some(family) = families.last_mut() else {
            continue;
        };
        match name {
            "fill each" => family.fill_each.push(request),
            "fill one" => family.fill_one.push(request),
            _ => family.rows.push(Row {
                name,
                line,
                cost: match cost {
                    "whole" => Cost::Whole,
                    "bytes" => Cost::Bytes,
                    _ => Cost::One,
                },
                request,
                undo: match undo {
                    "" => Undo::Nothing,
                    "*" => Undo::Refill,
                    undo => Undo::Send(Request::parse(undo)),
                },
            }),
        }
    }
    families
}

/// Checks that each command of the groups has a request.
fn check_complete(families: &[Family], cellar: &mut Connection) -> Result<(), Error> {
    let command = |row: &Row| row.line.split(' ').next().map(str::to_lowercase);
    let rows = families.iter().flat_map(|family| &family.rows);
    let known: HashSet<String> = rows.filter_map(command).collect();
    let table = cellar.ask(&["COMMAND"])?;
    let missing = table.list().iter().filter_map(|row| {
        let name = row.list().first()?.text();
        let mut groups = row.list().get(6)?.list().iter().map(|it| it.text());
        let is_of_data = groups.any(|group| GROUPS.contains(&group));
        (is_of_data && !known.contains(name)).then(|| name.to_owned())
    });
    let missing: Vec<String> = missing.collect();
    if missing.is_empty() && !table.list().is_empty() {
        return Ok(());
    }
    Err(Error::Wrong(format!(
        "requests.txt has no request for {}",
        missing.join(", ")
    )))
}

impl Family {
    fn measure(
        &self,
        extent: Extent<'_>,
        shape: Shape,
        servers: &mut [Contestant],
    ) -> Result<Vec<Cell>, Error> {
        let is_in = |name: &str| name.to_lowercase().contains(&extent.only.to_lowercase());
        let rows = self.rows.iter();
        let rows: Vec<&Row> = rows
            .filter(|it| is_in(it.name) || is_in(self.name))
            .collect();
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        for it in &mut *servers {
            it.connection.ask(&["FLUSHALL"])?;
            self.fill(shape, &mut it.connection)?;
        }
        let mut cells = Vec::new();
        for row in rows {
            let cell = self.cell(row, extent, shape, servers)?;
            let [cellar_us, peer_us] =
                [cell.cellar_us, cell.peer_us].map(|us| us.unwrap_or(f64::NAN));
            eprintln!(
                "{:8} x {:3} B {:28} {cellar_us:10.2} {peer_us:10.2} us, {:.2}",
                cell.elements,
                cell.value_bytes,
                cell.name,
                cellar_us / peer_us
            );
            cells.push(cell);
        }
        Ok(cells)
    }

    fn fill(&self, shape: Shape, connection: &mut Connection) -> Result<(), Error> {
        for request in &self.fill_each {
            request.fill(&shape, connection)?;
        }
        for request in &self.fill_one {
            for copy in 0..shape.copies {
                connection.add(|out| request.push(out, copy, &shape))?;
            }
        }
        connection.flush()?;
        let refused = connection.refused();
        let failed = |error| Err(Error::Wrong(format!("filling {}: {error}", self.name)));
        refused.map_or(Ok(()), failed)
    }

    /// Rounds in which the servers take turns.
    fn cell(
        &self,
        row: &Row,
        extent: Extent<'_>,
        shape: Shape,
        servers: &mut [Contestant],
    ) -> Result<Cell, Error> {
        let budget = match row.cost {
            Cost::One => extent.requests,
            Cost::Whole => WALKED / shape.elements,
            Cost::Bytes => COPIED_BYTES / shape.elements,
        };
        let requests = budget.clamp(REQUESTS_MIN, extent.requests.max(REQUESTS_MIN));
        let mut figures = vec![Vec::new(); servers.len()];
        for round in 0..extent.rounds as u64 {
            for (it, figures) in servers.iter_mut().zip(&mut figures) {
                let from = (round * requests) % shape.all();
                figures.extend(self.round(row, (from, requests), shape, it)?);
            }
        }
        let mut medians = figures
            .into_iter()
            .map(|rounds| (!rounds.is_empty()).then(|| Spread::of(rounds).median));
        let cellar_us = medians.next().flatten();
        let peer_us = medians.next().flatten().filter(|us| *us > 0.0);
        Ok(Cell {
            family: self.name,
            name: row.name,
            request: row.line,
            elements: shape.elements,
            value_bytes: shape.value_bytes,
            requests,
            cellar_us,
            peer_us,
            ratio: cellar_us.zip(peer_us).map(|(own, its)| own / its),
        })
    }

    /// Microseconds of a request; nothing if the server does not answer such a request.
    fn round(
        &self,
        row: &Row,
        (from, requests): (u64, u64),
        shape: Shape,
        it: &mut Contestant,
    ) -> Result<Option<f64>, Error> {
        let mut send = |request: &Request| {
            let begun_ns = it.cpu_ns()?;
            for at in from..from + requests {
                it.connection
                    .add(|out| request.push(out, at % shape.all(), &shape))?;
            }
            it.connection.flush()?;
            let us = (it.cpu_ns()? - begun_ns) as f64 / requests as f64 / 1_000.0;
            Ok::<_, Error>((us, it.connection.refused()))
        };
        let us = match send(&row.request)? {
            (us, None) => us,
            (_, Some(error)) if UNANSWERED.iter().any(|part| error.contains(part)) => {
                return Ok(None);
            }
            (_, Some(error)) => return Err(Error::Wrong(format!("{}: {error}", row.line))),
        };
        match &row.undo {
            Undo::Nothing => {}
            Undo::Send(undo) => {
                send(undo)?;
            }
            Undo::Refill if shape.all() <= REFILLED => self.fill(shape, &mut it.connection)?,
            Undo::Refill => {}
        }
        Ok(Some(us))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_family_has_data_and_every_request_a_name_of_its_own() {
        let families = families();
        assert_eq!(families.len(), 9);
        let mut names = HashSet::new();
        for family in &families {
            let fills = family.fill_each.len() + family.fill_one.len();
            assert!(fills > 0, "{} is never filled", family.name);
            for row in &family.rows {
                assert!(names.insert(row.name), "{}", row.name);
            }
        }
    }
}
