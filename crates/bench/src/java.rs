//! The pages of what Cellar's Java client measures beside others.
//!
//! The measurements themselves run in Java (`java/bench`); here their raw results become pages.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::machine::Setting;
use crate::page::{Finding, Headline, Page, distinct};
use crate::plot::{Axis, Plot, Scale};
use crate::spread::{Spread, short};
use crate::versus::Versus;

/// How Cellar's client is called among the others.
const OWN: &str = "cellar";

/// The table of the source; the form of `s3.json`.
#[derive(Debug, Deserialize, Serialize)]
struct SourceOutcome {
    setting: Setting,
    threads: usize,
    puts_per_thread: usize,
    rows: Vec<SourceRow>,
}

/// One case on one kind of server.
#[derive(Debug, Deserialize, Serialize)]
struct SourceRow {
    case: String,
    /// How much faster the source's client was than the old one, in percent.
    claim_pct: f64,
    server: String,
    servers: usize,
    /// Seconds of each turn.
    old_client_s: Vec<f64>,
    own_client_s: Vec<f64>,
}

impl SourceRow {
    fn old(&self) -> Spread {
        Spread::of(self.old_client_s.clone())
    }

    fn own(&self) -> Spread {
        Spread::of(self.own_client_s.clone())
    }

    /// How many times as fast as the old client Cellar's is.
    fn gain(&self) -> f64 {
        self.old().median / self.own().median
    }

    /// The same of the source's client.
    fn claim(&self) -> f64 {
        1.0 + self.claim_pct / 100.0
    }

    fn is_cluster(&self) -> bool {
        self.case.contains("cluster")
    }
}

/// The page of the source's table that was stored as JSON.
///
/// # Errors
/// [`Error::Wrong`] if it is none.
pub fn stored_source_page(json: &str) -> Result<Page, Error> {
    Page::stored(json, source_page)
}

/// How java/client's `Server` starts them.
const SERVERS: &str = "Servers are started as `memcached -l 127.0.0.1 -p {port} -U 0 -u nobody \
    -m 512 -t 2` and `cellar --memcached 127.0.0.1:{port} --resp 127.0.0.1:{port} --http off \
    --memory 512MiB`.";

fn source_page(outcome: &SourceOutcome) -> Page {
    let versus = outcome.rows.iter().map(|row| {
        let what = format!("seconds, {}, {}", row.case, row.server);
        Versus::less(what, row.own().median, "whalin", row.old().median)
    });
    Page {
        title: "The Java client and the one that its source replaced".to_owned(),
        question: "The source wrote a client for memcached in Java and compared it with the one \
                   that it used before, in seven cases. How does Cellar's client compare with that \
                   old one in the same cases?"
            .to_owned(),
        method: format!(
            "{} threads, each with {} puts and as many gets (in one case twice as many), all \
             started at once; the time until the last one is done. The old client is whalin's, on \
             which the source's client rests; with and without its check that a connection is \
             alive before each use. A cluster is, for the old client, a put to each of two servers \
             and a get from one; for Cellar's, its replicated mode. Clients take turns (A B A B), \
             after one turn of each to warm up; medians, in brackets the extremes. {SERVERS}",
            outcome.threads, outcome.puts_per_thread
        ),
        versus: versus.collect(),
        headline: source_headline(outcome),
        findings: vec![
            Finding::Text(source_table(outcome)),
            Finding::Plot {
                name: "gain".to_owned(),
                plot: source_plot(outcome),
            },
        ],
        meaning:
            "`Cellar's` over 1 is faster than the old client. The source's column is what its \
                  client gained over the old one then, on its own machines."
                .to_owned(),
        limits: "Clients and servers share one machine, so the network costs nothing and the \
                 processors are shared. The source's own client is not measured: its figures are \
                 quoted."
            .to_owned(),
        setting: outcome.setting.clone(),
    }
}

fn source_table(outcome: &SourceOutcome) -> String {
    let mut text = "| case | server | old client, s | Cellar's, s | the source's gain | Cellar's \
                    |\n|---|---|---|---|---|---|\n"
        .to_owned();
    for row in &outcome.rows {
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "| {} | {} | {:.2} | {:.2} | {:.2} x | {:.2} x |",
            row.case,
            row.server,
            row.old(),
            row.own(),
            row.claim(),
            row.gain(),
        );
    }
    text
}

/// The gains of the cases, one line for the source and one for each kind of server.
fn source_plot(outcome: &SourceOutcome) -> Plot {
    let cells = outcome.rows.iter().flat_map(|row| {
        let (source, own) = ("the source's client", "Cellar's client on ");
        [
            (row.case.clone(), source.to_owned(), row.claim()),
            (row.case.clone(), own.to_owned() + &row.server, row.gain()),
        ]
    });
    let y = Axis {
        label: "times as fast".to_owned(),
        scale: Scale::Linear,
    };
    Plot::of_rows("Times as fast as the old client, by case", "case", y, cells)
}

/// The range of the gains on memcached, and that on a cluster.
fn source_headline(outcome: &SourceOutcome) -> Option<Headline> {
    let of = |is_cluster: bool| {
        let rows = outcome.rows.iter();
        let rows = rows.filter(|row| row.server == "memcached" && row.is_cluster() == is_cluster);
        let gains = rows.map(SourceRow::gain);
        gains.fold((f64::MAX, 0.0f64), |(low, high), gain| {
            (low.min(gain), high.max(gain))
        })
    };
    let ((low, high), (_, cluster)) = (of(false), of(true));
    (high > 0.0).then(|| Headline {
        ours: format!("{low:.2} to {high:.2} x the old client, {cluster:.2} x on a cluster"),
        peers: "1.00: the old client, whalin's".to_owned(),
    })
}

/// Every client on every server; the form of `java.json`.
#[derive(Debug, Deserialize, Serialize)]
struct ClientsOutcome {
    setting: Setting,
    rows: Vec<ClientRow>,
}

/// One client in one row of the table.
#[derive(Debug, Deserialize, Serialize)]
struct ClientRow {
    row: String,
    client: String,
    /// The median.
    requests_per_s: f64,
    /// In each process of its own.
    rounds_per_s: Vec<f64>,
}

/// The page of the Java clients that was stored as JSON.
///
/// # Errors
/// [`Error::Wrong`] if it is none.
pub fn stored_clients_page(json: &str) -> Result<Page, Error> {
    Page::stored(json, clients_page)
}

fn clients_page(outcome: &ClientsOutcome) -> Page {
    let peers = outcome.rows.iter().filter(|row| row.client != OWN);
    let versus = peers.filter_map(|peer| {
        let own = find(outcome, &peer.row, OWN)?;
        let what = format!("requests/s, {}", peer.row);
        let (ours, theirs) = (own.requests_per_s, peer.requests_per_s);
        Some(Versus::more(what, ours, &peer.client, theirs))
    });
    Page {
        title: "The Java client beside others".to_owned(),
        question: "How many requests per second does Cellar's Java client make, blocking on one \
                   thread and on 64 and without waiting, beside other clients on the same server?"
            .to_owned(),
        method:
            "Each round is a JMH measurement in a process of its own, 1000 keys, warmed up. Every \
                 client takes part in the first round, Cellar's and the best of the others in the \
                 later ones, in turn; medians count, the smallest and largest stand beside them. A \
                 window is one thread with at most 256 requests that have no answer yet. Clients \
                 with their defaults, each with the number of connections that it opens by \
                 itself, on one half of the processors and the servers on the other. "
                .to_owned()
                + SERVERS,
        versus: versus.collect(),
        headline: None,
        findings: vec![
            Finding::Text(clients_table(outcome)),
            Finding::Plot {
                name: "clients".to_owned(),
                plot: clients_plot(outcome),
            },
        ],
        meaning: "The last column is Cellar's client over the best of the others in the same row."
            .to_owned(),
        limits: "Clients, JMH and server share one machine's processors, so that a client that \
                 burns more of them also slows the server. The network is the loopback."
            .to_owned(),
        setting: outcome.setting.clone(),
    }
}

fn find<'o>(outcome: &'o ClientsOutcome, row: &str, client: &str) -> Option<&'o ClientRow> {
    let mut rows = outcome.rows.iter();
    rows.find(|it| it.row == row && it.client == client)
}

/// Requests per second of Cellar's client and of the best of the others in each row.
fn clients_plot(outcome: &ClientsOutcome) -> Plot {
    let cells = rows(outcome).into_iter().flat_map(|row| {
        let own = find(outcome, row, OWN).map(|own| (OWN, own.requests_per_s));
        let best = best_other(outcome, row).map(|best| ("the best of the others", best));
        let cells = own.into_iter().chain(best);
        cells.map(|(name, per_s)| (row.to_owned(), name.to_owned(), per_s))
    });
    let y = Axis {
        label: "requests per second".to_owned(),
        scale: Scale::Logarithmic,
    };
    Plot::of_rows("Requests per second", "row", y, cells)
}

fn rows(outcome: &ClientsOutcome) -> Vec<&str> {
    distinct(outcome.rows.iter().map(|row| row.row.as_str()))
}

/// Requests per second of the best client that is not Cellar's.
fn best_other(outcome: &ClientsOutcome, row: &str) -> Option<f64> {
    let others = outcome.rows.iter();
    let others = others.filter(|it| it.row == row && it.client != OWN);
    others.map(|it| it.requests_per_s).reduce(f64::max)
}

fn clients_table(outcome: &ClientsOutcome) -> String {
    let clients = distinct(outcome.rows.iter().map(|row| row.client.as_str()));
    let mut text = format!(
        "Requests per second:\n\n| row | {} | x best |\n|---|{}---|\n",
        clients.join(" | "),
        "---|".repeat(clients.len())
    );
    for row in rows(outcome) {
        // Writing to a string cannot fail.
        let _ = write!(text, "| {row} |");
        for client in &clients {
            let cell = find(outcome, row, client);
            let _ = write!(text, " {} |", cell.map_or_else(|| "-".to_owned(), shown));
        }
        let own = find(outcome, row, OWN).map_or(0.0, |own| own.requests_per_s);
        let ratio = best_other(outcome, row).map(|best| format!("{:.2}", own / best));
        let ratio = ratio.unwrap_or_else(|| "-".to_owned());
        let _ = writeln!(text, " {ratio} |");
    }
    text
}

fn shown(row: &ClientRow) -> String {
    let spread = Spread::of(row.rounds_per_s.clone());
    let mut text = short(row.requests_per_s);
    if spread.min < spread.max {
        // Writing to a string cannot fail.
        let _ = write!(text, " [{}..{}]", short(spread.min), short(spread.max));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the Java program writes it, with `rest` behind the setting.
    fn figures(rest: &str) -> String {
        let setting = serde_json::to_string(&Setting::here()).unwrap();
        format!("{{\"setting\": {setting}, {rest}}}")
    }

    #[test]
    fn the_sources_table_shows_both_gains_and_the_index_their_range() {
        let row = |case: &str, own: &str| {
            format!(
                "{{\"case\": \"{case}\", \"claim_pct\": 41, \"server\": \"memcached\", \
                 \"servers\": 1, \"old_client_s\": [2.0, 3.0, 2.5], \"own_client_s\": {own}}}"
            )
        };
        let rows = [
            row("simple", "[1.0, 2.0, 1.25]"),
            row("cluster of two", "[5.0, 5.0, 5.0]"),
        ];
        let rest = format!(
            "\"threads\": 100, \"puts_per_thread\": 1000, \"rows\": [{}]",
            rows.join(", ")
        );
        let page = stored_source_page(&figures(&rest)).unwrap();
        let Finding::Text(table) = &page.findings[0] else {
            panic!("the table comes first");
        };
        let row =
            "| simple | memcached | 2.50 [2.00..3.00] | 1.25 [1.00..2.00] | 1.41 x | 2.00 x |";
        assert!(table.contains(row), "{table}");
        let headline = page.headline.unwrap();
        assert_eq!(
            headline.ours,
            "2.00 to 2.00 x the old client, 0.50 x on a cluster"
        );
        let lost = page.versus.iter().filter(|versus| versus.is_lost());
        assert_eq!(lost.count(), 1, "the cluster");
    }

    #[test]
    fn the_clients_stand_in_a_row_and_the_best_other_is_compared() {
        let rest = "\"rows\": [\
            {\"row\": \"get\", \"client\": \"cellar\", \"requests_per_s\": 3000.0, \
             \"rounds_per_s\": [2000.0, 3000.0, 4000.0]},\
            {\"row\": \"get\", \"client\": \"folsom\", \"requests_per_s\": 4000.0, \
             \"rounds_per_s\": [4000.0]},\
            {\"row\": \"set\", \"client\": \"cellar\", \"requests_per_s\": 9.0, \
             \"rounds_per_s\": [9.0]}]";
        let page = stored_clients_page(&figures(rest)).unwrap();
        let Finding::Text(table) = &page.findings[0] else {
            panic!("the table is all");
        };
        assert!(
            table.contains("| get | 3 k [2 k..4 k] | 4 k | 0.75 |"),
            "{table}"
        );
        assert!(table.contains("| set | 9 | - |"), "{table}");
        assert!(page.versus[0].is_lost());
    }
}
