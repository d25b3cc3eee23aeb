//! `cellar top`: what is drawn of a status, and one look at a running server.

use crate::support::{daemon, tls};

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use cellar::subcommands::top::draw::{Scene, draw, plain};
use cellar::subcommands::top::fetch::fetch;
use cellar::subcommands::top::look::Look;
use cellar_config::dial::Trust;
use cellar_config::settings::top::{Target, TopOptions};
use cellar_execute::http::pages::status::{
    Amount, CurvePoint, HotKey, Status, Thread, TimelineStep,
};
use daemon::{Daemon, check, hit, set};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use rustix::process::{Pid, Signal, kill_process};

/// The status of a server that has had so many thousand requests in so many seconds.
fn status(thousands: u64, seconds: u64) -> Status {
    let mut status = Status::default();
    let requests = thousands * 1_000;
    status.server.version = "9.8.7".to_owned();
    status.server.uptime_ms = seconds * 1_000;
    status.requests.memcached = requests;
    status.operations.gets = requests;
    status.operations.hits = requests * 3 / 4;
    status.operations.misses = requests / 4;
    status.misses.expired = requests / 4;
    let histogram = &mut status.latency_us.memcached.histogram;
    histogram.bounds = vec![100, 1_000];
    histogram.counts = vec![requests, 0, 0];
    status.memory.limit_bytes = 64 << 20;
    status.memory.live_bytes = 32 << 20;
    status.memory.dead_bytes = 1 << 20;
    status.compression.plain_bytes = 4_000;
    status.compression.compressed_bytes = 1_000;
    status.expiry.minute = (1..=60).map(step).collect();
    status.expiry.hour = (1..=60).map(|minute| step(minute * 60)).collect();
    status.expiry.day = (1..=24).map(|hour| step(hour * 3_600)).collect();
    status.expiry.never = Amount {
        items: 7,
        bytes: 7 << 10,
    };
    status.curve = [0.25, 0.5, 1.0, 2.0, 4.0]
        .map(|factor| point(factor, requests))
        .to_vec();
    status.hot_keys = vec![HotKey {
        key: "hot\u{1b}[2Jkey".to_owned(),
        key_percent: String::new(),
        share: 0.125,
        gets_per_s: 250.0,
        database: 3,
    }];
    status.threads = vec![Thread {
        name: "cellar-0".to_owned(),
        busy_us: seconds * 400_000,
        requests,
        connections: 2,
    }];
    status
}

fn step(until_s: u64) -> TimelineStep {
    TimelineStep {
        until_s,
        items: 10,
        bytes: until_s * 100,
    }
}

fn point(factor: f64, gets: u64) -> CurvePoint {
    CurvePoint {
        factor,
        memory_bytes: (f64::from(64 << 20) * factor) as u64,
        gets,
        misses: (gets as f64 * 0.25 / factor.max(0.5)) as u64,
        miss_ratio: None,
    }
}

fn look() -> Look {
    Look::first(status(10, 10)).next(status(14, 12))
}

fn scene<'a>(look: Option<&'a Look>, trouble: Option<&'a str>) -> Scene<'a> {
    Scene {
        target: "http://here:1",
        look,
        history: &[1, 5, 2],
        trouble,
    }
}

/// What a terminal of this size shows.
fn screen(scene: &Scene<'_>, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let drawn = terminal.draw(|frame| {
        let area = frame.area();
        draw(scene, area, frame.buffer_mut());
    });
    drawn.unwrap();
    terminal.backend().to_string()
}

#[test]
fn every_panel_shows_its_figures() {
    let look = look();
    let shown = screen(&scene(Some(&look), None), 120, 40);
    for expected in [
        "cellar 9.8.7 at http://here:1, up 12 s  (rates over 2.0 s)",
        "2.00 k requests/s",
        "hit ratio",
        "75.0 %",
        "memcached    50 us    99 us   100 us",
        "500 misses/s by reason",
        "memory of 64.0 MiB, compressed to 25",
        "32.0 MiB",
        "miss ratio by memory size",
        "256 MiB",
        "6.2 %",
        "cellar-0",
        "no TTL 7.00 KiB",
        "next minute: 600 items, 179 KiB",
        "next day: 240 items",
        "12.5 %",
        "hot\u{fffd}[2Jkey (db3)",
        "items and connections",
    ] {
        assert!(shown.contains(expected), "no {expected:?} in\n{shown}");
    }
    assert!(!shown.contains("since the start"));
    // Half of memory is live: its bar fills half of the room between name and number.
    let live = shown.lines().find(|line| line.contains("live")).unwrap();
    let panel: String = live.chars().skip(1).take(40).collect();
    let full = panel.chars().filter(|&c| c == '\u{2588}').count();
    assert!((7..=8).contains(&full), "{live}");
}

#[test]
fn the_number_of_misses_is_the_sum_of_its_reasons() {
    // Changes of keys that are not there have reasons too; misses are those of reads.
    let (first, mut second) = (status(10, 10), status(14, 12));
    second.misses.never_stored = 3_000;
    let look = Look::first(first).next(second);
    let shown = screen(&scene(Some(&look), None), 120, 40);
    assert!(shown.contains("2.00 k misses/s by reason"), "{shown}");
}

/// What the lines of a panel with this name show behind it.
fn number_of(shown: &str, name: &str) -> String {
    let line = shown.lines().find(|line| line.contains(name));
    let line = line.unwrap_or_else(|| panic!("no {name} in\n{shown}"));
    let behind = &line[line.find(name).unwrap() + name.len()..];
    let panel = behind.split('\u{2502}').next().unwrap();
    panel
        .trim_matches(|c| c == ' ' || ('\u{2588}'..='\u{258f}').contains(&c))
        .to_owned()
}

#[test]
fn without_reads_there_is_neither_a_hit_ratio_nor_a_miss_ratio() {
    let (first, mut second) = (status(10, 10), status(10, 12));
    for point in &mut second.curve {
        point.miss_ratio = Some(0.14);
    }
    let look = Look::first(first).next(second);
    let shown = screen(&scene(Some(&look), None), 120, 40);
    assert_eq!(number_of(&shown, "hit ratio"), "no reads");
    assert_eq!(number_of(&shown, "128 MiB"), "-");
}

#[test]
fn the_miss_ratio_of_the_present_memory_is_what_the_hit_ratio_leaves() {
    // Ten thousand reads that mostly hit, and then two thousand of which a quarter misses.
    let (mut first, second) = (status(10, 10), status(12, 14));
    for (point, later) in first.curve.iter_mut().zip(&second.curve) {
        point.misses = later.misses - 500;
    }
    (first.operations.hits, first.operations.misses) = (7_500, 2_500);
    let shown = screen(
        &scene(Some(&Look::first(first).next(second)), None),
        120,
        40,
    );
    assert_eq!(number_of(&shown, "hit ratio"), "75.0 %");
    assert_eq!(number_of(&shown, "64.0 MiB  "), "25.0 %");
}

#[test]
fn what_memory_holds_and_what_is_free_make_up_the_limit() {
    let mut status = status(10, 10);
    let memory = &mut status.memory;
    (memory.index_bytes, memory.overhead_bytes) = (2 << 20, 1 << 20);
    // Most of what is free was never touched, and is not resident.
    memory.free_bytes = 12 << 20;
    let shown = screen(&scene(Some(&Look::first(status)), None), 120, 40);
    assert_eq!(number_of(&shown, "free"), "28.0 MiB");
}

#[test]
fn a_terminal_of_80_columns_and_24_lines_shows_whole_numbers() {
    let look = look();
    let shown = screen(&scene(Some(&look), None), 80, 24);
    for expected in [
        "0 items, 0 connections, busiest event loop 40.0 % busy",
        "memcached    50 us    99 us   100 us",
        "hit ratio",
        "memory of 64.0 MiB",
        "500 misses/s by reason",
        "miss ratio by memory size",
        "6.2 %",
        "cellar-0",
    ] {
        assert!(shown.contains(expected), "no {expected:?} in\n{shown}");
    }
}

#[test]
fn a_server_without_an_answer_is_told_about() {
    let shown = screen(&scene(None, Some("connection refused")), 100, 30);
    assert!(
        shown.contains("no answer: connection refused; trying again"),
        "{shown}"
    );
    let look = look();
    let shown = screen(&scene(Some(&look), Some("connection refused")), 120, 30);
    assert!(
        shown.contains("no answer") && shown.contains("2.00 k requests/s"),
        "{shown}"
    );
}

#[test]
fn any_size_of_terminal_is_drawn() {
    let (look, idle) = (look(), Look::first(Status::default()));
    for (width, height) in [(1, 1), (3, 2), (20, 5), (40, 60), (80, 24), (300, 90)] {
        for look in [&look, &idle] {
            screen(&scene(Some(look), None), width, height);
        }
    }
    let paper = plain(&scene(Some(&idle), None), 100, 40);
    assert!(
        paper.contains("(rates since the start)") && paper.contains("no reads"),
        "{paper}"
    );
    assert!(paper.lines().all(|line| line == line.trim_end()) && paper.ends_with('\n'));
}

fn top(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_cellar"))
        .arg("top")
        .args(arguments)
        .env_remove("CELLAR_HTTP_TOKEN")
        .output()
        .unwrap()
}

#[test]
fn one_look_at_a_running_server_is_printed() {
    let daemon = Daemon::spawn(&["--http-token", "s3cret"]);
    let mut stream = daemon.connect();
    check(&mut stream, &set("key", b"value"), b"STORED\r\n");
    check(&mut stream, b"get key\r\n", &hit("key", b"value"));
    // Output to a pipe is output to no terminal: `--once` is not needed.
    let flags = [
        "--target",
        &daemon.http,
        "--interval",
        "100ms",
        "--token",
        "s3cret",
    ];
    for once in [&["--once"][..], &[]] {
        let output = top(&[&flags[..], once].concat());
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(
            output.status.success() && output.stderr.is_empty(),
            "{text}"
        );
        for expected in ["requests/s", "memory of 64.0 MiB", "cellar-1", "no TTL"] {
            assert!(text.contains(expected), "no {expected} in\n{text}");
        }
        assert!(!text.contains('\u{1b}'));
    }
    let output = top(&flags[..4]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(
        error.contains("the server requires --token or --user"),
        "{error}"
    );
}

/// Answers one question as a server would that asks for a user.
fn answer(mut stream: impl Read + Write) {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        request.push(byte[0]);
    }
    // ada:secret
    let user = b"\r\nAuthorization: Basic YWRhOnNlY3JldA==\r\n";
    let is_known = request.windows(user.len()).any(|part| part == user);
    let status = if is_known {
        "200 OK"
    } else {
        "401 Unauthorized"
    };
    let body = serde_json::to_string(&Status::default()).unwrap();
    let bytes = body.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Length: {bytes}\r\n\r\n{body}"
    )
    .unwrap();
    stream.flush().unwrap();
}

#[test]
fn a_server_is_asked_over_tls_and_over_a_socket_file_as_a_user() {
    let folder = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let ca = folder.path().join("ca.pem");
    std::fs::write(&ca, made.cert.pem()).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let config = rustls::ServerConfig::builder().with_no_client_auth();
    let config = config.with_single_cert(vec![made.cert.der().clone()], key);
    let config = Arc::new(config.unwrap());
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = tcp.local_addr().unwrap().port();
    let path = folder.path().join("http.sock");
    let unix = UnixListener::bind(&path).unwrap();
    let serving = std::thread::spawn(move || {
        for _ in 0..2 {
            let tls = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
            answer(rustls::StreamOwned::new(tls, tcp.accept().unwrap().0));
            answer(unix.accept().unwrap().0);
        }
    });
    for password in ["secret", "wrong"] {
        for target in [
            Target::Https(format!("127.0.0.1:{port}")),
            Target::Unix(path.clone()),
        ] {
            let options = TopOptions {
                target,
                trust: Trust {
                    ca: Some(ca.clone()),
                    identity: None,
                },
                user: Some(("ada".to_owned(), password.to_owned())),
                token: String::new(),
                interval_ms: 1_000,
                once: true,
            };
            match fetch(&options) {
                Ok(_) => assert_eq!(password, "secret"),
                Err(error) => assert!(error.contains("--user") && password == "wrong", "{error}"),
            }
        }
    }
    serving.join().unwrap();
}

#[test]
fn a_server_that_asks_for_a_certificate_is_shown_one() {
    let authority = tls::Authority::new();
    authority.issue("server", "server", &["localhost"]);
    authority.issue("ada", "ada", &[]);
    let [ca, certificate, key, shown, its_key] =
        ["ca.pem", "server.pem", "server.key", "ada.pem", "ada.key"].map(|it| authority.path(it));
    let daemon = Daemon::spawn(&[
        "--http",
        "tls:127.0.0.1:0",
        "--tls-cert",
        &certificate,
        "--tls-key",
        &key,
        "--tls-client-ca",
        &ca,
    ]);
    let (_, port) = daemon.http.rsplit_once(':').unwrap();
    let target = format!("https://localhost:{port}");
    let flags = [
        "--once",
        "--interval",
        "100ms",
        "--target",
        &target,
        "--tls-ca",
        &ca,
    ];
    let identity = ["--tls-cert", &shown, "--tls-key", &its_key];
    let output = top(&[&flags[..], &identity].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("requests/s"), "{text}");
    let output = top(&flags);
    assert_eq!(output.status.code(), Some(2));
    let wrong = ["--tls-cert", &shown, "--tls-key", &ca];
    let output = top(&[&flags[..], &wrong].concat());
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("ca.pem: "), "{error}");
}

/// Most pieces of output that are waited for; only what hangs sends more.
const PIECES_MAX: usize = 1_000;

/// `cellar top` in a terminal of its own, which `script` makes.
struct Shown {
    child: Child,
    screen: Receiver<Vec<u8>>,
    sent: Vec<u8>,
}

impl Shown {
    fn start(target: &str) -> Shown {
        let command = format!(
            "stty rows 40 columns 120; exec {} top --interval 100ms --target {target}",
            env!("CARGO_BIN_EXE_cellar"),
        );
        let mut child = Command::new("script")
            .args([
                "--quiet",
                "--flush",
                "--return",
                "--command",
                &command,
                "/dev/null",
            ])
            .env("TERM", "xterm")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("util-linux has script");
        let (sender, screen) = channel();
        let mut output = child.stdout.take().unwrap();
        std::thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(bytes @ 1..) = output.read(&mut piece) {
                if sender.send(piece[..bytes].to_vec()).is_err() {
                    return;
                }
            }
        });
        Shown {
            child,
            screen,
            sent: Vec::new(),
        }
    }

    /// Waits until the screen is as wanted.
    fn wait_for(&mut self, wanted: impl Fn(&str) -> bool) {
        for _ in 0..PIECES_MAX {
            if wanted(&on_screen(&self.sent)) {
                return;
            }
            let piece = self.screen.recv_timeout(crate::support::wait::PATIENCE);
            let piece = piece.unwrap_or_else(|_| panic!("{}", on_screen(&self.sent)));
            self.sent.extend_from_slice(&piece);
        }
        panic!("{}", on_screen(&self.sent));
    }

    /// Presses a key after which it is to end.
    fn end(mut self, key: &[u8]) {
        let mut keyboard = self.child.stdin.take().unwrap();
        keyboard.write_all(key).unwrap();
        self.check_end();
    }

    /// Sends it a signal after which it is to end.
    fn end_by(mut self, signal: Signal) {
        let script = self.child.id();
        let children = format!("/proc/{script}/task/{script}/children");
        let children = std::fs::read_to_string(children).unwrap();
        let pid = children.trim().parse().ok().and_then(Pid::from_raw);
        kill_process(pid.expect("script has one child"), signal).unwrap();
        self.check_end();
    }

    /// Waits for the end, and checks that the terminal is left as it was.
    fn check_end(&mut self) {
        while let Ok(piece) = self.screen.recv_timeout(crate::support::wait::PATIENCE) {
            self.sent.extend_from_slice(&piece);
        }
        let sent = String::from_utf8_lossy(&self.sent).into_owned();
        for (taken, given_back) in [
            ("\u{1b}[?1049h", "\u{1b}[?1049l"),
            ("\u{1b}[?25l", "\u{1b}[?25h"),
        ] {
            assert!(sent.contains(taken), "{sent:?}");
            assert!(sent.rfind(given_back) > sent.rfind(taken), "{sent:?}");
        }
        assert!(self.child.wait().unwrap().success());
    }
}

/// What a terminal shows that was sent these bytes: texts, and moves of the cursor.
fn on_screen(sent: &[u8]) -> String {
    let sent = String::from_utf8_lossy(sent);
    let mut cells = vec![vec![' '; 121]; 41];
    let (mut row, mut column) = (0, 0);
    let mut pieces = sent.split("\u{1b}[");
    let mut put = |text: &str, row: usize, column: &mut usize| {
        for c in text.chars().filter(|c| !c.is_control()) {
            if let Some(cell) = cells.get_mut(row).and_then(|cells| cells.get_mut(*column)) {
                *cell = c;
            }
            *column += 1;
        }
    };
    put(pieces.next().unwrap_or_default(), row, &mut column);
    for piece in pieces {
        let Some(end) = piece.find(|c: char| c.is_ascii_alphabetic()) else {
            continue;
        };
        let (parameters, text) = (&piece[..end], &piece[end + 1..]);
        if piece[end..].starts_with('H')
            && let Some((to_row, to_column)) = parameters.split_once(';')
        {
            row = to_row.parse::<usize>().unwrap() - 1;
            column = to_column.parse::<usize>().unwrap() - 1;
        }
        put(text, row, &mut column);
    }
    let rows: Vec<String> = cells.iter().map(|row| row.iter().collect()).collect();
    rows.join("\n")
}

#[test]
fn the_terminal_is_left_as_it_was_by_every_key_that_ends_it() {
    let daemon = Daemon::spawn(&[]);
    for key in [&b"q"[..], b"\x03"] {
        let mut shown = Shown::start(&daemon.http);
        shown.wait_for(|text| text.contains("memory of 64.0 MiB"));
        shown.end(key);
    }
}

#[test]
fn the_terminal_is_left_as_it_was_by_every_signal_that_ends_it() {
    let daemon = Daemon::spawn(&[]);
    for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
        let mut shown = Shown::start(&daemon.http);
        shown.wait_for(|text| text.contains("memory of 64.0 MiB"));
        shown.end_by(signal);
    }
}

#[test]
fn a_server_that_goes_away_is_waited_for() {
    let mut daemon = Daemon::spawn(&[]);
    let mut shown = Shown::start(&daemon.http);
    shown.wait_for(|text| text.contains("memory of 64.0 MiB"));
    daemon.signal(Signal::TERM);
    assert!(daemon.wait().success());
    shown.wait_for(|text| text.contains("trying again") && text.contains("memory of 64.0 MiB"));
    let _again = Daemon::spawn(&["--http", &daemon.http, "--memory", "32MiB"]);
    shown.wait_for(|text| text.contains("memory of 32.0 MiB") && !text.contains("trying again"));
    shown.end(b"q");
}

#[test]
fn a_server_that_is_not_there_is_one_line_and_a_status() {
    let output = top(&["--target", "127.0.0.1:1", "--once"]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), error.lines().count()), (Some(2), 1));
    assert!(
        error.starts_with("cellar: top: http://127.0.0.1:1 does not answer: "),
        "{error}"
    );
}
