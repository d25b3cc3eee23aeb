//! Whether inserts fall as threads are added, told: tables for the terminal, and the page.

use std::fmt::Write;

use super::Outcome;
use super::probe::{Held, Operation};
use super::simulation::{Design, HANDOVER_NS, LIST_NS, Point, SLABS_NS, Scene};
use super::ycsb::Row;
use crate::goal::{self, Goal};
use crate::page::{Finding, Headline, Page};
use crate::peers::started_as;
use crate::plot::{Axis, Plot, Scale, Series};
use crate::process::Recipe;
use crate::spread::{Spread, short};
use crate::versus::Versus;

const CELLAR: &str = "cellar";
/// Inserts by two threads over those by one, per second of the server's processor time.
const GOAL_TWO_THREADS: f64 = 1.0;
/// Inserts of the source by 8 threads over those by one: 94 k over 109 k.
const GOAL_EIGHT: f64 = 0.86;
const EIGHT: usize = 8;

/// The tables, and where their numbers come from.
pub(super) fn render(outcome: &Outcome) -> String {
    let mut text = format!("{}\n\n", load(outcome));
    for table in tables(outcome) {
        let _ = writeln!(text, "{table}");
    }
    format!("{text}{SOURCE}\n\nFrom {}.\n", outcome.setting)
}

/// What the source found on a 4-core PC with 48 client threads.
const SOURCE: &str = "The source (4-core PC, 48 client threads): original memcached 109 k inserts\
    /s on 1 thread, 65 k on 8; its own version 94 k on 8; reads 119 k/s per client.";

fn load(outcome: &Outcome) -> String {
    format!(
        "{} new records of {} + {} B, then {} zipf:{} reads, {} connections, depth {}; medians of \
         {} rounds.",
        short(count(outcome.records)),
        outcome.key_bytes,
        outcome.value_bytes,
        short(count(outcome.reads)),
        super::ZIPF_EXPONENT,
        outcome.connections,
        outcome.depth,
        outcome.rounds,
    )
}

fn tables(outcome: &Outcome) -> Vec<String> {
    let mut tables = vec![
        goal::table(&goals(outcome)),
        servers(outcome),
        ratios(outcome),
        held(&outcome.held),
    ];
    tables.extend(outcome.scenes.iter().map(simulated));
    tables.retain(|table| !table.is_empty());
    tables
}

fn servers(outcome: &Outcome) -> String {
    let mut text = "| server | threads | inserts/s | reads/s | CPU us/insert | CPU us/read | x \
                    floor, reads | inserts per server CPU s | reads per server CPU s |\n\
                    |---|---|---|---|---|---|---|---|---|\n"
        .to_owned();
    for row in &outcome.rows {
        let of_inserts = |cell: String| if row.is_floor { "-".to_owned() } else { cell };
        let mut floors = outcome.rows.iter().filter(|row| row.is_floor);
        let floor = floors.find(|floor| floor.threads == row.threads);
        let over_floor = floor.map(|floor| {
            let (own, floor) = (&row.server_cpu_us_per_read, &floor.server_cpu_us_per_read);
            format!("{:.2}", quotients(own, floor))
        });
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "| {} {} | {} | {} | {} | {} | {:.2} | {} | {} | {} |",
            row.server,
            row.version,
            row.threads,
            of_inserts(short(row.inserts_per_s.median)),
            short(row.reads_per_s.median),
            of_inserts(format!("{:.2}", row.server_cpu_us_per_insert)),
            row.server_cpu_us_per_read,
            over_floor.unwrap_or_default(),
            of_inserts(short(row.inserts_per_server_cpu_s.median)),
            short(row.reads_per_server_cpu_s.median),
        );
    }
    for row in outcome
        .rows
        .iter()
        .filter(|row| row.misses + row.errors > 0)
    {
        let (server, misses, errors) = (&row.server, row.misses, row.errors);
        let _ = writeln!(text, "\n{server}: {misses} misses, {errors} errors");
    }
    text
}

/// One spread over another, round by round.
fn quotients(own: &Spread, other: &Spread) -> Spread {
    let rounds = own.rounds.iter().zip(&other.rounds);
    Spread::of(rounds.map(|(own, other)| own / other).collect())
}

/// A server's row with more threads, and that with the fewest.
fn pairs(outcome: &Outcome) -> Vec<(&Row, &Row)> {
    let mut pairs = Vec::new();
    for row in &outcome.rows {
        let of_it = outcome.rows.iter().filter(|it| it.server == row.server);
        if let Some(first) = of_it.min_by_key(|it| it.threads)
            && first.threads < row.threads
        {
            pairs.push((row, first));
        }
    }
    pairs
}

/// More threads over one, per second of the wall clock and of the server's processor time.
fn ratios(outcome: &Outcome) -> String {
    let pairs = pairs(outcome);
    if pairs.is_empty() {
        return String::new();
    }
    let mut text = "Throughput with more threads over that with one, round by round:\n\n\
                    | server | threads | inserts, wall | inserts, CPU | reads, wall \
                    | reads, CPU |\n\
                    |---|---|---|---|---|---|\n"
        .to_owned();
    for (row, first) in pairs {
        let ratio = |of: fn(&Row) -> &Spread| match of(row).rounds.as_slice() {
            [] => "-".to_owned(),
            _ => format!("{:.2}", quotients(of(row), of(first))),
        };
        let _ = writeln!(
            text,
            "| {} | {} / {} | {} | {} | {} | {} |",
            row.server,
            row.threads,
            first.threads,
            ratio(|it| &it.inserts_per_s),
            ratio(|it| &it.inserts_per_server_cpu_s),
            ratio(|it| &it.reads_per_s),
            ratio(|it| &it.reads_per_server_cpu_s),
        );
    }
    text
}

fn held(all: &[Held]) -> String {
    let mut text = "The locks of the shards, in process:\n\n\
                    | operation | threads | shards | held, ns, mean | p99 | operation, ns | \
                    operations/s | found taken % |\n|---|---|---|---|---|---|---|---|\n"
        .to_owned();
    for it in all {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {:.0} | {:.0} | {:.0} | {} | {:.3} |",
            it.operation,
            it.threads,
            it.shards,
            it.held_ns_mean,
            it.held_ns_p99,
            it.operation_ns,
            short(it.operations_per_s),
            it.taken_share * 100.0,
        );
    }
    text
}

fn told(scene: &Scene) -> String {
    let place = if scene.is_server {
        "over the network"
    } else {
        "in process"
    };
    format!("{}s {place}", scene.operation)
}

/// How many times as much as one processor of the same design does.
fn speed_up(points: &[Point], cores: usize) -> Option<f64> {
    let first = points.iter().find(|point| point.cores == 1)?;
    let point = points.iter().find(|point| point.cores == cores)?;
    Some(point.operations_per_s / first.operations_per_s)
}

fn simulated(scene: &Scene) -> String {
    let cores = scene.lines.first().map_or(&[][..], |line| &line.points);
    let mut text = format!(
        "Simulated: {}, {:.0} ns outside the lock and {:.0} ns under it; times one processor, in \
         brackets the share of time that waiting takes:\n\n| processors |",
        told(scene),
        scene.outside_ns,
        scene.held_ns
    );
    for point in cores {
        let _ = write!(text, " {} |", point.cores);
    }
    let _ = writeln!(text, "\n|---|{}", "---|".repeat(cores.len()));
    for line in &scene.lines {
        let _ = write!(text, "| {} |", line.design);
        for point in &line.points {
            let times = speed_up(&line.points, point.cores).unwrap_or(f64::NAN);
            let _ = write!(text, " {times:.1} ({:.0} %) |", point.waiting_share * 100.0);
        }
        text.push('\n');
    }
    text
}

/// Simulated inserts over the network by 8 processors over one.
fn eight(outcome: &Outcome, design: Design) -> Option<f64> {
    let mut scenes = outcome.scenes.iter();
    let scene = scenes.find(|it| it.is_server && it.operation == Operation::Insert.name())?;
    let line = scene
        .lines
        .iter()
        .find(|line| line.design == design.name())?;
    speed_up(&line.points, EIGHT)
}

/// Inserts with the most threads over those with one, per second of the server's processor time.
fn inserts_ratio(outcome: &Outcome, server: &str) -> Option<Spread> {
    let pairs = pairs(outcome).into_iter();
    let mut pairs = pairs.filter(|(row, _)| row.server == server);
    let (row, first) = pairs.next_back()?;
    let (own, other) = (
        &row.inserts_per_server_cpu_s,
        &first.inserts_per_server_cpu_s,
    );
    Some(quotients(own, other))
}

fn goals(outcome: &Outcome) -> Vec<Goal> {
    let times = |times: f64| format!("{times:.2}");
    let two = inserts_ratio(outcome, CELLAR).map(|found| {
        let what = "inserts per server CPU second, more threads over one";
        Goal::at_least(what, GOAL_TWO_THREADS, found.median, times)
    });
    let eight = eight(outcome, Design::Sharded).map(|found| {
        let what = "inserts, 8 processors over one, simulated";
        Goal::at_least(what, GOAL_EIGHT, found, times)
    });
    two.into_iter().chain(eight).collect()
}

fn versus(outcome: &Outcome) -> Vec<Versus> {
    let mut all = Vec::new();
    for peer in outcome
        .rows
        .iter()
        .filter(|it| !it.is_floor && it.server != CELLAR)
    {
        let mut rows = outcome.rows.iter();
        let own = rows.find(|it| it.server == CELLAR && it.threads == peer.threads);
        let Some(own) = own else { continue };
        let what = |figure: &str| format!("{figure}, threads: {}", peer.threads);
        let mut more = |figure: &str, of: fn(&Row) -> &Spread| {
            let (ours, theirs) = (of(own).median, of(peer).median);
            all.push(Versus::more(what(figure), ours, &peer.server, theirs));
        };
        more("inserts/s", |it| &it.inserts_per_s);
        more("reads/s", |it| &it.reads_per_s);
        more("inserts per server CPU s", |it| {
            &it.inserts_per_server_cpu_s
        });
        more("reads per server CPU s", |it| &it.reads_per_server_cpu_s);
        if let Some((ours, theirs)) = inserts_ratio(outcome, CELLAR)
            .zip(inserts_ratio(outcome, &peer.server))
            .filter(|_| peer.threads > 1)
        {
            let what = "inserts per server CPU s, more threads over one";
            all.push(Versus::more(what, ours.median, &peer.server, theirs.median));
        }
    }
    all
}

fn headline(outcome: &Outcome) -> Option<Headline> {
    let told = |server: &str, design| {
        let ratio = inserts_ratio(outcome, server)?;
        let mut text = format!("inserts, 2 threads over 1: {ratio:.2} per CPU second");
        if let Some(times) = eight(outcome, design) {
            let _ = write!(text, "; 8 over 1, simulated: {times:.1}");
        }
        Some(text)
    };
    Some(Headline {
        ours: told(CELLAR, Design::Sharded)?,
        peers: told("memcached", Design::Memcached)
            .map_or_else(|| "-".to_owned(), |text| format!("memcached: {text}")),
    })
}

/// The page.
pub(super) fn page(outcome: &Outcome) -> Page {
    let mut findings: Vec<Finding> = tables(outcome).into_iter().map(Finding::Text).collect();
    for scene in &outcome.scenes {
        findings.push(Finding::Plot {
            name: told(scene).replace(' ', "-"),
            plot: plot(scene),
        });
    }
    Page {
        title: "Inserts as threads are added".to_owned(),
        question: format!(
            "Do inserts and reads fall as threads are added, as memcached's did? How long is a \
             shard's lock held, and how often is it found taken? And what would more processors \
             than this machine has do? {SOURCE}"
        ),
        method: method(outcome),
        versus: versus(outcome),
        headline: headline(outcome),
        findings,
        meaning: meaning(outcome),
        limits: LIMITS.to_owned(),
        setting: outcome.setting.clone(),
    }
}

const LIMITS: &str = "\
A simulation is no measurement: it knows of nothing but processors, locks and the times it is \
given. The memory's bandwidth, the network's interrupts, the kernel's own locks and threads that \
share a core's parts are not in it, and all of these come before the locks on a real machine of 64 \
processors. The measured rows have two processors for server threads and load together, so that \
throughput per second of the wall clock says little about more threads.";

fn method(outcome: &Outcome) -> String {
    format!(
        "**Servers.** {} Each combination of server and number of threads (memcached with `-t`, \
         Cellar with `--threads`) gets a fresh server in each round, and the rounds go through all \
         combinations in turn. Server threads and load share {} processors, unbound: compare \
         thread counts per second of the server's processor time, which is the kernel's \
         accounting. The floor is a server with the same event loop that executes nothing and \
         answers with as many bytes; it takes part in the reads.\n\n\
         **Locks.** In process, the engine's shards stand behind one mutex each that belongs to \
         the measurement; the engine's own lock inside is always free and counts as time held. \
         {} reads for each thread; an operation first tries the lock and counts if it is \
         taken; one in 61 is timed from having the lock to giving it back, less what the clock \
         takes, and the slowest of 200 are left out of the mean as interruptions of the thread. \
         All records have been stored and removed once before, so that no insert waits for fresh \
         memory. Inserts are of all records in turn, reads by Zipf's law.\n\n\
         **Simulation.** Each processor does one request after the other, {} for each: first the \
         time outside any lock, then the locks in turn; a lock serves in the order of arrival. \
         Assumed: (1) the time outside the lock is the processor time of a request to Cellar with \
         one thread, less the time held, or in process the time of an operation less the time \
         held, and it is the same for all designs, so that they differ by their locks alone; (2) \
         the time held is that measured with the most threads, on the shards that the engine \
         chooses for these; (3) both are drawn from exponential distributions, which are more \
         uneven than the real ones; (4) a lock that was found taken costs {HANDOVER_NS} ns more; \
         (5) there is always a next request, and requests are spread evenly over the processors; \
         (6) inserts are of keys drawn evenly, reads of keys by Zipf's law, a key's shard is a \
         hash of it. Cellar's shards are four for each processor, as the engine chooses. `One \
         lock` is the same engine as a single shard. memcached's locks are its item locks in the \
         number that it makes for so many threads, held as long as a shard's of Cellar, and for \
         an insert also the one lock of its slabs and the one of the list of the values' class, \
         held for {SLABS_NS} and {LIST_NS} ns: both assumed, not measured, and passed one after \
         the other though the list's lock is taken under an item's.{}",
        load(outcome),
        outcome.setting.cpus,
        short(count(outcome.operations_per_thread as u64)),
        short(count(outcome.simulated_operations_per_core as u64)),
        started_as(&[
            Recipe::cellar("cellar", &[]),
            Recipe::memcached("memcached"),
        ]),
    )
}

fn meaning(outcome: &Outcome) -> String {
    let mut text = String::new();
    for (row, first) in pairs(outcome) {
        if row.is_floor {
            let cpu = quotients(&row.reads_per_server_cpu_s, &first.reads_per_server_cpu_s).median;
            let _ = writeln!(
                text,
                "- {}, which has no lock and shares nothing between its threads: with {} threads \
                 {cpu:.2} times the reads of {} by its processor time: what the machine makes of \
                 more threads, whatever the server.",
                row.server, row.threads, first.threads
            );
            continue;
        }
        let wall = quotients(&row.inserts_per_s, &first.inserts_per_s).median;
        let cpu = quotients(
            &row.inserts_per_server_cpu_s,
            &first.inserts_per_server_cpu_s,
        )
        .median;
        let _ = writeln!(
            text,
            "- {}: with {} threads {wall:.2} times the inserts of {} by the clock on the wall, \
             {cpu:.2} times by the server's processor time.",
            row.server, row.threads, first.threads
        );
    }
    for scene in &outcome.scenes {
        for line in &scene.lines {
            let Some(last) = line.points.last() else {
                continue;
            };
            let times = speed_up(&line.points, last.cores).unwrap_or(f64::NAN);
            let _ = writeln!(
                text,
                "- Simulated, {}: {} give {times:.1} times one processor on {}.",
                told(scene),
                line.design,
                last.cores
            );
        }
    }
    text
}

/// Throughput over processors, all designs.
fn plot(scene: &Scene) -> Plot {
    let series = scene.lines.iter().map(|line| Series {
        label: line.design.clone(),
        points: line
            .points
            .iter()
            .map(|point| (count(point.cores as u64), point.operations_per_s / 1e6))
            .collect(),
    });
    Plot {
        title: format!("Simulated: {}", told(scene)),
        x: Axis {
            label: "processors".to_owned(),
            scale: Scale::Linear,
        },
        y: Axis {
            label: "million per second".to_owned(),
            scale: Scale::Linear,
        },
        series: series.collect(),
    }
}

#[expect(clippy::cast_precision_loss, reason = "a display")]
fn count(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Setting;
    use crate::reproduce::s2::simulation::Line;

    fn row(server: &str, threads: usize, inserts: f64) -> Row {
        let spread = || Spread::of(vec![inserts, inserts * 1.2, inserts * 1.1]);
        Row {
            server: server.to_owned(),
            version: "1".to_owned(),
            is_floor: server.contains("floor"),
            threads,
            inserts_per_s: spread(),
            reads_per_s: spread(),
            server_cpu_us_per_insert: Spread::of(vec![1e6 / inserts]),
            server_cpu_us_per_read: Spread::of(vec![1e6 / inserts]),
            inserts_per_server_cpu_s: spread(),
            reads_per_server_cpu_s: spread(),
            misses: 0,
            errors: 0,
        }
    }

    fn outcome(rows: Vec<Row>) -> Outcome {
        let point = |cores: usize| Point {
            cores,
            operations_per_s: 1e6 * count(cores as u64) * 0.75,
            waiting_share: 0.25,
        };
        let line = |design: Design| Line {
            design: design.name().to_owned(),
            points: [1, 8, 64].map(point).into(),
        };
        Outcome {
            setting: Setting::here(),
            rounds: 3,
            records: 1_000_000,
            reads: 1_000_000,
            connections: 48,
            depth: 1,
            load_threads: 1,
            key_bytes: 20,
            value_bytes: 100,
            rows,
            operations_per_thread: 1000,
            held: vec![Held {
                operation: "insert".to_owned(),
                threads: 2,
                shards: 8,
                held_ns_mean: 150.4,
                held_ns_p99: 900.0,
                operation_ns: 400.0,
                operations_per_s: 4e6,
                taken_share: 0.0123,
            }],
            simulated_operations_per_core: 1000,
            scenes: vec![Scene {
                operation: "insert".to_owned(),
                is_server: true,
                outside_ns: 4000.0,
                held_ns: 150.0,
                lines: Design::ALL.map(line).into(),
            }],
        }
    }

    fn some() -> Outcome {
        outcome(vec![
            row("echo floor", 1, 250_000.0),
            row(CELLAR, 1, 200_000.0),
            row("memcached", 1, 160_000.0),
            row(CELLAR, 2, 180_000.0),
            row("memcached", 2, 190_000.0),
        ])
    }

    #[test]
    fn tables_show_ratios_of_threads_locks_and_the_simulation() {
        let text = render(&some());
        for part in [
            "| inserts per server CPU second, more threads over one | >= 1.00 | 0.90 | MISSED |",
            "| inserts, 8 processors over one, simulated | >= 0.86 | 8.00 | reached |",
            "| echo floor 1 | 1 | - | 275 k | - | 4.00 | 1.00 | - | 275 k |",
            "| cellar 1 | 1 | 220 k | 220 k | 5.00 | 5.00 | 1.25 | 220 k | 220 k |",
            "| cellar | 2 / 1 | 0.90 | 0.90 | 0.90 | 0.90 |",
            "| insert | 2 | 8 | 150 | 900 | 400 | 4 M | 1.230 |",
            "| processors | 1 | 8 | 64 |",
            "| one lock | 1.0 (25 %) | 8.0 (25 %) | 64.0 (25 %) |",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
    }

    #[test]
    fn stored_figures_give_the_same_page_with_a_plot_and_the_peers_wins() {
        let json = serde_json::to_string(&some()).unwrap();
        let stored = crate::reproduce::s2::stored_page(&json).unwrap();
        let files = stored.files("s2").unwrap();
        assert_eq!(files, page(&some()).files("s2").unwrap());
        assert_eq!(files[1].0, "s2-inserts-over-the-network.svg");
        let lost = stored.versus.iter().filter(|versus| versus.is_lost());
        let lost: Vec<&str> = lost.map(|versus| versus.what.as_str()).collect();
        assert!(lost.contains(&"inserts/s, threads: 2"), "{lost:?}");
        assert!(!lost.contains(&"inserts/s, threads: 1"), "{lost:?}");
        let headline = stored.headline.unwrap();
        assert!(
            headline.ours.ends_with("8 over 1, simulated: 8.0"),
            "{}",
            headline.ours
        );
    }
}
