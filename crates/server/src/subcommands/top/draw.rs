//! Draw: the metrics of a server as lines of text, for a terminal and for `--once`.
//!
//! The functions draw into a buffer of characters: a terminal shows it, `--once` prints it, tests
//! read it. A narrow terminal has two panels side by side instead of three. A low terminal cuts
//! off panels at the bottom.

use cellar_config::protocol::Protocol;
use cellar_execute::http::pages::status::{HotKey, Status, Thread, TimelineStep};
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Paragraph, Sparkline, Widget};

use super::look::Look;
use super::words::{bytes, count, percent, span, time_us};

/// Height of the lines above the panels.
const HEAD: u16 = 2;
/// Heights of the rows of three panels, borders included; the last row takes what is left.
const ROWS: [u16; 3] = [7, 8, 5];
/// Heights of the rows of two panels. The first three and the head fill 24 lines.
const NARROW_ROWS: [u16; 4] = [7, 8, 7, 8];
/// Width from which on three panels are side by side, each as wide as the latency needs.
const WIDE: u16 = 114;
/// Width of the names before bars.
const NAME_WIDTH: usize = 13;
/// Width of the numbers behind bars.
const NUMBER_WIDTH: usize = 10;

/// The data to draw.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'a> {
    /// The address of the server.
    pub target: &'a str,
    /// Its metrics; `None` before its first reply.
    pub look: Option<&'a Look>,
    /// Requests in a second, the latest last.
    pub history: &'a [u64],
    /// Why it does not answer, if it does not.
    pub trouble: Option<&'a str>,
}

/// Draws all of it.
pub fn draw(scene: &Scene<'_>, area: Rect, buffer: &mut Buffer) {
    let parts = [Constraint::Length(HEAD), Constraint::Min(0)];
    let [head, panels] = Layout::vertical(parts).areas(area);
    let mut above = vec![header(scene)];
    above.extend(scene.look.map(summary));
    lines(above, head, buffer);
    let Some(look) = scene.look else { return };
    if panels.width >= WIDE {
        wide(look, scene.history, panels, buffer);
    } else {
        narrow(look, scene.history, panels, buffer);
    }
}

/// Rows of these heights, those at the bottom cut off where there is no space, and what is left.
fn rows<const N: usize>(area: Rect, heights: [u16; N]) -> ([Rect; N], Rect) {
    let mut rest = area;
    let rows = heights.map(|wanted| {
        let height = wanted.min(rest.height);
        let row = Rect { height, ..rest };
        rest.y += height;
        rest.height -= height;
        row
    });
    (rows, rest)
}

fn wide(look: &Look, history: &[u64], area: Rect, buffer: &mut Buffer) {
    let ([first, second, third], last) = rows(area, ROWS);
    let [left, middle, right] = Layout::horizontal([Constraint::Fill(1); 3]).areas(first);
    requests(look, history, left, buffer);
    latency(look, middle, buffer);
    misses(look, right, buffer);
    let [left, middle, right] = Layout::horizontal([Constraint::Fill(1); 3]).areas(second);
    memory(look, left, buffer);
    curve(look, middle, buffer);
    threads(look, right, buffer);
    expiry(&look.now, third, buffer);
    let [left, right] = Layout::horizontal([Constraint::Fill(2), Constraint::Fill(1)]).areas(last);
    hot_keys(&look.now, left, buffer);
    items(look, right, buffer);
}

fn narrow(look: &Look, history: &[u64], area: Rect, buffer: &mut Buffer) {
    let ([first, second, third, fourth], last) = rows(area, NARROW_ROWS);
    let halves = |row| Layout::horizontal([Constraint::Fill(1); 2]).areas(row);
    let [left, right] = halves(first);
    requests(look, history, left, buffer);
    latency(look, right, buffer);
    let [left, right] = halves(second);
    memory(look, left, buffer);
    threads(look, right, buffer);
    let [left, right] = halves(third);
    misses(look, left, buffer);
    curve(look, right, buffer);
    let [left, right] = halves(fourth);
    items(look, left, buffer);
    hot_keys(&look.now, right, buffer);
    expiry(&look.now, last, buffer);
}

/// The metrics that a small terminal has no panel for.
fn summary(look: &Look) -> Line<'static> {
    let open = &look.now.connections.now;
    let loops = look.threads();
    let busiest = loops.iter().map(|(busy, _)| *busy).fold(0.0, f64::max);
    Line::from(format!(
        "{} items, {} connections, busiest event loop {} busy",
        count(look.now.items.now as f64),
        open.memcached + open.resp + open.http,
        percent(busiest),
    ))
}

fn header(scene: &Scene<'_>) -> Line<'static> {
    let mut line = vec![Span::from("cellar ").bold()];
    match (scene.trouble, scene.look) {
        (Some(trouble), _) => {
            line.push(Span::from(format!("at {}  ", scene.target)));
            line.push(Span::from(format!("no answer: {trouble}; trying again")).fg(Color::Red));
        }
        (None, Some(look)) => {
            let server = &look.now.server;
            let up = span(server.uptime_ms);
            line.push(Span::from(format!(
                "{} at {}, up {up}",
                server.version, scene.target
            )));
            if server.draining {
                line.push(Span::from("  draining").fg(Color::Yellow));
            }
            if let Some(restored) = &server.restored {
                let told = match &restored.empty_because {
                    None if restored.unchecked_bytes > 0 => {
                        let left = bytes(restored.unchecked_bytes);
                        format!("  checks items of a killed server: {left} left")
                    }
                    None => format!("  restored {} items", count(restored.items as f64)),
                    Some(why) => format!("  began empty: {why}"),
                };
                line.push(Span::from(told).dim());
            }
            let window = match look.is_first() {
                true => "  (rates since the start)".to_owned(),
                false => format!("  (rates over {:.1} s)", look.seconds()),
            };
            line.push(Span::from(window).dim());
        }
        (None, None) => line.push(Span::from(format!("at {}", scene.target))),
    }
    Line::from(line)
}

/// A panel's border with its title; the area within.
fn panel(title: &str, area: Rect, buffer: &mut Buffer) -> Rect {
    let block = Block::bordered()
        .title(format!(" {title} "))
        .border_style(Style::new().dim());
    let inner = block.inner(area);
    block.render(area, buffer);
    inner
}

fn lines(lines: Vec<Line<'static>>, area: Rect, buffer: &mut Buffer) {
    Paragraph::new(lines).render(area, buffer);
}

/// A name, a bar whose length shows a share, and a number.
fn bar(name: &str, share: f64, number: &str, color: Color, width: u16) -> Line<'static> {
    let room = usize::from(width).saturating_sub(NAME_WIDTH + NUMBER_WIDTH);
    let eighths = (share.clamp(0.0, 1.0) * room as f64 * 8.0).round() as usize;
    let mut filled = "\u{2588}".repeat(eighths / 8);
    if !eighths.is_multiple_of(8) {
        let partial = 0x2590 - u32::try_from(eighths % 8).unwrap_or(0);
        filled.extend(char::from_u32(partial));
    }
    Line::from(vec![
        Span::from(format!("{name:<NAME_WIDTH$}")),
        Span::from(format!("{filled:<room$}")).fg(color),
        Span::from(format!("{number:>NUMBER_WIDTH$}")),
    ])
}

/// A name and a number at the panel's end.
fn pair(name: &str, number: &str, width: u16) -> Line<'static> {
    let room = usize::from(width).saturating_sub(NAME_WIDTH);
    Line::from(format!("{name:<NAME_WIDTH$}{number:>room$}"))
}

fn requests(look: &Look, history: &[u64], area: Rect, buffer: &mut Buffer) {
    let title = format!("{} requests/s", count(look.requests()));
    let inner = panel(&title, area, buffer);
    let mut text: Vec<Line<'static>> = Vec::new();
    for protocol in Protocol::ALL {
        let rate = look.rate(|status| *status.requests.of(protocol));
        text.push(pair(protocol.name(), &count(rate), inner.width));
    }
    let hits = look.hit_ratio().map_or("no reads".to_owned(), percent);
    text.push(pair("hit ratio", &hits, inner.width));
    let above = Constraint::Length(text.len() as u16);
    let [above, below] = Layout::vertical([above, Constraint::Min(0)]).areas(inner);
    lines(text, above, buffer);
    let shown = history.len().saturating_sub(usize::from(below.width));
    let spark = Sparkline::default().data(&history[shown..]).fg(Color::Cyan);
    spark.render(below, buffer);
}

fn latency(look: &Look, area: Rect, buffer: &mut Buffer) {
    let inner = panel("latency in the server", area, buffer);
    let row = |name: &str, cells: [String; 3]| {
        let [half, most, nearly_all] = cells;
        Line::from(format!("{name:<10}{half:>8}{most:>9}{nearly_all:>9}"))
    };
    let mut text = vec![row("", ["p50", "p99", "p99.9"].map(str::to_owned)).dim()];
    for protocol in Protocol::ALL {
        let quantiles = look.quantiles(|status| status.latency_us.of(protocol));
        let cells = quantiles.map(|us| us.map(time_us));
        text.push(row(
            protocol.name(),
            cells.unwrap_or_else(|| ["-", "-", "-"].map(str::to_owned)),
        ));
    }
    lines(text, inner, buffer);
}

/// Reasons count for reads and writes that look a key up. So shares use their sum, not the misses
/// of reads.
fn misses(look: &Look, area: Rect, buffer: &mut Buffer) {
    let reasons = [
        (
            "never stored",
            look.rate(|status| status.misses.never_stored),
        ),
        ("expired", look.rate(|status| status.misses.expired)),
        ("evicted", look.rate(|status| status.misses.evicted)),
        ("deleted", look.rate(|status| status.misses.deleted)),
    ];
    let sum: f64 = reasons.iter().map(|(_, rate)| rate).sum();
    let inner = panel(&format!("{} misses/s by reason", count(sum)), area, buffer);
    let line = |(name, rate): &(&str, f64)| {
        bar(
            name,
            rate / sum.max(f64::MIN_POSITIVE),
            &count(*rate),
            Color::Yellow,
            inner.width,
        )
    };
    lines(reasons.iter().map(line).collect(), inner, buffer);
}

fn memory(look: &Look, area: Rect, buffer: &mut Buffer) {
    let memory = &look.now.memory;
    let mut title = format!("memory of {}", bytes(memory.limit_bytes));
    if let Some(share) = compressed(look) {
        title += &format!(", compressed to {}", percent(share));
    }
    let inner = panel(&title, area, buffer);
    let states = [
        ("live", memory.live_bytes, Color::Green),
        ("reclaimable", memory.dead_bytes, Color::Red),
        ("free", memory.unused_bytes(), Color::DarkGray),
        ("index", memory.index_bytes, Color::Blue),
        ("overhead", memory.overhead_bytes, Color::Magenta),
        ("buffers", memory.buffer_bytes, Color::Cyan),
    ];
    let line = |(name, size, color): (&str, u64, Color)| {
        let share = size as f64 / memory.limit_bytes.max(1) as f64;
        bar(name, share, &bytes(size), color, inner.width)
    };
    lines(states.into_iter().map(line).collect(), inner, buffer);
}

/// The compressed size relative to the plain size, if any value was compressed.
fn compressed(look: &Look) -> Option<f64> {
    let compression = &look.now.compression;
    let plain = compression.plain_bytes;
    (plain > 0).then(|| compression.compressed_bytes as f64 / plain as f64)
}

fn curve(look: &Look, area: Rect, buffer: &mut Buffer) {
    let inner = panel("miss ratio by memory size", area, buffer);
    let line = |(factor, memory_bytes, ratio): (f64, u64, Option<f64>)| {
        let name = bytes(memory_bytes);
        let color = if factor == 1.0 {
            Color::Green
        } else {
            Color::Blue
        };
        let number = ratio.map_or("-".to_owned(), percent);
        bar(&name, ratio.unwrap_or(0.0), &number, color, inner.width)
    };
    lines(look.curve().into_iter().map(line).collect(), inner, buffer);
}

fn threads(look: &Look, area: Rect, buffer: &mut Buffer) {
    let inner = panel("event loops: busy, requests/s", area, buffer);
    let threads = look.now.threads.iter().zip(look.threads());
    let line = |(thread, (busy, rate)): (&Thread, (f64, f64))| {
        bar(
            &thread.name,
            busy,
            &count(rate),
            Color::Magenta,
            inner.width,
        )
    };
    lines(threads.map(line).collect(), inner, buffer);
}

fn expiry(status: &Status, area: Rect, buffer: &mut Buffer) {
    let expiry = &status.expiry;
    let title = format!(
        "expiring items; later {}, no TTL {}, overdue {}",
        bytes(expiry.later.bytes),
        bytes(expiry.never.bytes),
        bytes(expiry.overdue.bytes),
    );
    let inner = panel(&title, area, buffer);
    let spans = [
        ("next minute", &expiry.minute),
        ("next hour", &expiry.hour),
        ("next day", &expiry.day),
    ];
    let columns: [Rect; 3] = Layout::horizontal([Constraint::Fill(1); 3])
        .spacing(2)
        .areas(inner);
    for ((name, steps), column) in spans.into_iter().zip(columns) {
        span_column(name, steps, column, buffer);
    }
}

/// One span of the timeline: its sum, and its steps over the column's whole width.
fn span_column(name: &str, steps: &[TimelineStep], area: Rect, buffer: &mut Buffer) {
    let [above, below] = Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(area);
    let items: u64 = steps.iter().map(|step| step.items).sum();
    let size: u64 = steps.iter().map(|step| step.bytes).sum();
    let text = format!("{name}: {} items, {}", count(items as f64), bytes(size));
    Line::from(text).render(above, buffer);
    let width = usize::from(below.width);
    let stretched: Vec<u64> = (0..width)
        .filter_map(|x| steps.get(x * steps.len() / width.max(1)))
        .map(|step| step.bytes)
        .collect();
    Sparkline::default()
        .data(&stretched)
        .fg(Color::Green)
        .render(below, buffer);
}

fn hot_keys(status: &Status, area: Rect, buffer: &mut Buffer) {
    let inner = panel("hottest keys, last minute", area, buffer);
    let room = usize::from(inner.width).saturating_sub(20);
    let line = |hot: &HotKey| {
        let key = printable(&hot.key);
        let cut = |key: &str| key.chars().take(room).collect::<String>();
        let database = if hot.database == 0 {
            String::new()
        } else {
            format!(" (db{})", hot.database)
        };
        let (share, rate) = (percent(hot.share), count(hot.gets_per_s));
        Line::from(format!("{share:>8}{rate:>9}  {}", cut(&(key + &database))))
    };
    lines(status.hot_keys.iter().map(line).collect(), inner, buffer);
}

/// The key without terminal control characters.
fn printable(key: &str) -> String {
    key.chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}

fn items(look: &Look, area: Rect, buffer: &mut Buffer) {
    let inner = panel("items and connections", area, buffer);
    let status = &look.now;
    let open = &status.connections.now;
    let per_s = |rate: f64| format!("{}/s", count(rate));
    let text = [
        ("items", count(status.items.now as f64)),
        ("stored", per_s(look.rate(|status| status.items.stored))),
        ("evicted", per_s(look.rate(|status| status.items.evicted))),
        ("expired", per_s(look.rate(|status| status.items.expired))),
        (
            "connections",
            (open.memcached + open.resp + open.http).to_string(),
        ),
        ("refused", status.connections.refused.to_string()),
    ];
    let line = |(name, number): &(&str, String)| pair(name, number, inner.width);
    lines(text.iter().map(line).collect(), inner, buffer);
}

/// A scene as plain text.
#[must_use]
pub fn plain(scene: &Scene<'_>, width: u16, height: u16) -> String {
    let area = Rect::new(0, 0, width, height);
    let mut buffer = Buffer::empty(area);
    draw(scene, area, &mut buffer);
    let mut text = String::new();
    for y in 0..height {
        let row: String = (0..width).map(|x| buffer[(x, y)].symbol()).collect();
        text.push_str(row.trim_end());
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}
