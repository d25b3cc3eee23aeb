//! `cellar-bench load` and `echo` as programs: against a server made for the test, which can also
//! misbehave, and against Debian's memcached where it is installed.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex, Once};
use std::time::Duration;

use cellar_load::{Drive, Keys, Limit, Plan, Records, ReservedPort, Wire, load as run_load};
use serde_json::Value;

use crate::wait::wait_until;

/// How the test's server treats its clients.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manners {
    Honest,
    /// Changes one byte in each value it returns.
    Corrupts,
    /// Returns the value of another key.
    MixesUp,
    /// Ends each connection after so many requests.
    HangsUp(u32),
    RefusesSets,
    /// Stops once, for all clients, after so many requests.
    Pauses(u32),
    TalksNonsense,
}

const PAUSE: Duration = Duration::from_millis(300);

type Map = Arc<Mutex<HashMap<Vec<u8>, Vec<u8>>>>;

/// A tiny server in a thread of the test; returns its address.
fn serve(manners: Manners) -> String {
    serve_map(manners, Map::default())
}

/// The same with its values in `map`.
fn serve_map(manners: Manners, map: Map) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let pause = Arc::new((Mutex::new(()), Once::new()));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (map, pause) = (map.clone(), pause.clone());
            std::thread::spawn(move || talk(stream.unwrap(), manners, &map, &pause));
        }
    });
    address
}

fn talk(stream: TcpStream, manners: Manners, map: &Map, pause: &(Mutex<()>, Once)) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut input = BufReader::new(stream.try_clone().ok()?);
    let mut output = stream;
    let mut requests = 0;
    loop {
        let mut line = Vec::new();
        if input.read_until(b'\n', &mut line).ok()? == 0 {
            return None;
        }
        requests += 1;
        match manners {
            Manners::HangsUp(after) if requests > after => return None,
            Manners::TalksNonsense if requests > 1 => output.write_all(b"HELLO\r\n").ok()?,
            Manners::Pauses(after) if requests > after => pause.1.call_once(|| {
                let _all = pause.0.lock().unwrap();
                // paced: the pause of the server that the test is about.
                std::thread::sleep(PAUSE);
            }),
            _ => {}
        }
        drop(pause.0.lock().unwrap());
        let words: Vec<&[u8]> = line.trim_ascii_end().split(|&byte| byte == b' ').collect();
        let reply = if words[0] == b"get" {
            get(words[1], manners, map)
        } else {
            let bytes: usize = std::str::from_utf8(words[4]).unwrap().parse().unwrap();
            let mut value = vec![0; bytes + 2];
            input.read_exact(&mut value).ok()?;
            value.truncate(bytes);
            if manners == Manners::RefusesSets {
                b"SERVER_ERROR out of memory storing object\r\n".to_vec()
            } else {
                map.lock().unwrap().insert(words[1].to_vec(), value);
                b"STORED\r\n".to_vec()
            }
        };
        output.write_all(&reply).ok()?;
    }
}

fn get(key: &[u8], manners: Manners, map: &Map) -> Vec<u8> {
    let map = map.lock().unwrap();
    let found = match manners {
        Manners::MixesUp => map.values().next().cloned(),
        _ => map.get(key).cloned(),
    };
    let Some(mut value) = found else {
        return b"END\r\n".to_vec();
    };
    if manners == Manners::Corrupts {
        *value.last_mut().unwrap() ^= 1;
    }
    let key = String::from_utf8_lossy(key);
    let mut reply = format!("VALUE {key} 0 {}\r\n", value.len()).into_bytes();
    reply.extend_from_slice(&value);
    reply.extend_from_slice(b"\r\nEND\r\n");
    reply
}

/// Runs `cellar-bench load --json` with further options.
fn load(target: &str, options: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_cellar-bench"))
        .args(["load", "--target", target, "--json"])
        .args(options.split_whitespace())
        .output()
        .unwrap()
}

fn report(output: &Output) -> Value {
    let errors = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("no report: {errors}"))
}

/// A process that is ended with the test.
struct Guard(Child);

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn every_request_is_counted_and_every_value_checked() {
    let target = serve(Manners::Honest);
    let output = load(
        &target,
        "--keys 500 --connections 7 --threads 2 --depth 5 --value-bytes 0..300 --key-bytes 21 \
         --requests 20011 --get-share 0.7 --fill --verify --distribution zipf:0.99",
    );
    let report = report(&output);
    assert!(output.status.success());
    assert_eq!(report["requests"], 20_011);
    assert_eq!(report["mismatches"], 0);
    assert_eq!(report["errors"], 0);
    assert_eq!(report["get"]["misses"], 0);
    let (gets, sets) = (&report["get"]["requests"], &report["set"]["requests"]);
    assert_eq!(gets.as_u64().unwrap() + sets.as_u64().unwrap(), 20_011);
    assert!(
        (13_500..14_500).contains(&gets.as_u64().unwrap()),
        "{gets} gets"
    );
    assert_eq!(report["set"]["stored"], *sets);
    for field in [
        "latency_us_p50",
        "latency_us_p99_999",
        "throughput_per_s",
        "elapsed_s",
    ] {
        assert!(report[field].as_f64().unwrap() > 0.0, "{field}");
    }
}

#[test]
fn several_servers_share_records_and_connections_evenly() {
    const RECORDS: u64 = 900;
    let maps = [Map::default(), Map::default(), Map::default()];
    let addresses = maps
        .iter()
        .map(|map| serve_map(Manners::Honest, map.clone()).parse().unwrap());
    let addresses: Vec<_> = addresses.collect();
    // None of them has a process of its own to measure.
    let others = addresses[1..].iter().cloned();
    let others = others.map(|address| (address, std::process::id()));
    let drive = Drive {
        others: others.collect(),
        ..Drive::new(Wire::Memcached, &addresses[0], 12, Limit::Requests(RECORDS))
    };
    let records = Records::new(RECORDS, 20, 10).unwrap();
    let gets = Plan {
        threads: 2,
        ..Plan::gets(drive, records)
    };
    let inserts = Plan {
        keys: Keys::Each,
        get_share: 0.0,
        ..gets.clone()
    };
    assert_eq!(run_load::run(&inserts).unwrap().set.stored, RECORDS);
    let stored = maps.map(|map| map.lock().unwrap().len());
    assert_eq!(stored, [300; 3]);
    // Each is asked for what it has.
    let report = run_load::run(&gets).unwrap();
    assert_eq!((report.get.hits, report.get.misses), (RECORDS, 0));

    let mut uneven = gets;
    uneven.drive.connections = 13;
    let error = run_load::run(&uneven).unwrap_err().to_string();
    assert!(error.contains("equal parts"), "{error}");
}

#[test]
fn an_empty_server_gives_misses() {
    let report = report(&load(
        &serve(Manners::Honest),
        "--get-share 1 --requests 300",
    ));
    assert_eq!(report["get"]["misses"], 300);
    assert_eq!(report["get"]["hits"], 0);
}

#[test]
fn a_wrong_value_is_an_error_exit() {
    for manners in [Manners::Corrupts, Manners::MixesUp] {
        // Uniform, because the value that is always returned is right for its own key.
        let options = "--keys 50 --distribution uniform --fill --verify --get-share 1 \
                       --requests 1000 --depth 4";
        let output = load(&serve(manners), options);
        assert_eq!(output.status.code(), Some(1));
        assert!(report(&output)["mismatches"].as_u64().unwrap() > 900);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            errors.contains("not what is stored") || errors.contains("not what"),
            "{errors}"
        );
    }
}

#[test]
fn refused_requests_are_counted_and_the_first_is_shown() {
    let output = load(
        &serve(Manners::RefusesSets),
        "--get-share 0 --requests 200 --depth 3",
    );
    let report = report(&output);
    assert_eq!(report["errors"], 200);
    assert_eq!(report["set"]["stored"], 0);
    assert_eq!(
        report["first_error"],
        "SERVER_ERROR out of memory storing object"
    );
}

#[test]
fn a_server_that_hangs_up_or_talks_nonsense_ends_the_load_with_its_cause() {
    for (manners, cause) in [
        (Manners::HangsUp(100), "closed a connection"),
        (Manners::TalksNonsense, "no known"),
    ] {
        let output = load(&serve(manners), "--requests 100k --threads 2");
        assert_eq!(output.status.code(), Some(1));
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(errors.contains(cause), "{errors}");
    }
}

#[test]
fn an_open_loop_charges_a_pause_to_every_request_it_delays() {
    let options = "--rate 2000 --seconds 1 --connections 4 --get-share 1 --depth 1";
    let output = load(&serve(Manners::Pauses(100)), options);
    let report = report(&output);
    // A busy machine may have no time for the last ones.
    let [sent, unsent] = ["requests", "unsent_requests"].map(|name| report[name].as_u64().unwrap());
    assert_eq!(sent + unsent, 2000);
    // 300 of 1000 ms of requests are due in the pause; four connections alone would report four.
    let p90 = report["latency_us_p90"].as_f64().unwrap();
    assert!(p90 > 50_000.0, "p90 {p90} us");
    assert!(report["latency_us_max"].as_f64().unwrap() >= 290_000.0);
}

#[test]
fn the_echo_floor_answers_with_as_many_bytes_as_a_server_would() {
    for threads in ["1", "2"] {
        check_echo_floor(threads);
    }
}

fn check_echo_floor(threads: &str) {
    let reserved = ReservedPort::take().unwrap();
    let port = reserved.address().port();
    let echo = Command::new(env!("CARGO_BIN_EXE_cellar-bench"))
        .args([
            "echo",
            "--listen",
            &format!("127.0.0.1:{port}"),
            "--value-bytes",
            "77",
            "--threads",
            threads,
        ])
        .spawn()
        .unwrap();
    let echo = Guard(echo);
    let target = format!("127.0.0.1:{port}");
    wait_until("the server listens", || TcpStream::connect(&target).is_ok());
    // Deep enough that a window of replies is longer than what the floor sends at a time.
    let options = "--get-share 1 --requests 50000 --depth 4000 --connections 3 --threads 3";
    let pid = echo.0.id();
    let output = load(&target, &format!("{options} --server-pid {pid}"));
    let report = report(&output);
    assert_eq!(report["get"]["hits"], 50_000);
    let reply_bytes = "VALUE  0 77\r\n\r\nEND\r\n".len() as u64 + 16 + 77;
    assert_eq!(report["received_bytes"], 50_000 * reply_bytes);
    assert!(report["server_cpu_us_per_request"].as_f64().unwrap() > 0.0);
}

#[test]
fn the_floor_of_http_answers_with_as_many_bytes_as_cellar() {
    let Some(cellar) = crate::program::cellar() else {
        return;
    };
    let bytes = |program: &str, options: &str, fill: &str| {
        let reserved = ReservedPort::take().unwrap();
        let target = reserved.address().to_string();
        let options = options.replace("{target}", &target);
        let server = Command::new(program)
            .args(options.split_whitespace())
            .stderr(Stdio::null())
            .spawn();
        let _server = Guard(server.unwrap());
        wait_until("the server listens", || TcpStream::connect(&target).is_ok());
        let options = format!("--protocol http --keys 10 --get-share 1 --requests 100 {fill}");
        let report = report(&load(&target, &options));
        assert_eq!(report["get"]["hits"], 100);
        report["received_bytes"].clone()
    };
    let options = "--memory 64MiB --memcached off --resp off --http {target}";
    let cellar = bytes(&cellar, options, "--fill");
    let floor = "echo --protocol http --value-bytes 100 --listen {target}";
    assert_eq!(bytes(crate::program::PROGRAM, floor, ""), cellar);
}

#[test]
fn debians_memcached_is_loaded_over_tcp_and_over_a_unix_socket() {
    const PROGRAM: &str = "/usr/bin/memcached";
    if !std::path::Path::new(PROGRAM).exists() {
        println!("skipped: {PROGRAM} is not installed");
        return;
    }
    let reserved = ReservedPort::take().unwrap();
    let port = reserved.address().port();
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("memcached.sock");
    let start = |options: &[&str]| {
        let mut command = Command::new(PROGRAM);
        command
            .args(["-u", "root", "-t", "1"])
            .args(options)
            .stderr(Stdio::null());
        Guard(command.spawn().unwrap())
    };
    let tcp = start(&["-l", "127.0.0.1", "-p", &port.to_string()]);
    let unix = start(&["-s", socket.to_str().unwrap()]);
    let target = format!("127.0.0.1:{port}");
    wait_until("the server listens", || TcpStream::connect(&target).is_ok());
    wait_until("the server listens", || {
        std::os::unix::net::UnixStream::connect(&socket).is_ok()
    });
    let options = "--keys 5000 --requests 30k --depth 16 --value-bytes 1..2000 --ttl 60@1,1h..2h@1 \
                   --fill --verify";
    for (target, pid) in [
        (target, tcp.0.id()),
        (format!("unix:{}", socket.display()), unix.0.id()),
    ] {
        let output = load(&target, &format!("{options} --server-pid {pid}"));
        let report = report(&output);
        assert!(output.status.success());
        assert_eq!(report["requests"], 30_000);
        assert_eq!(report["get"]["misses"], 0);
        assert_eq!(report["mismatches"], 0);
        assert!(report["server_cpu_us_per_request"].as_f64().unwrap() > 0.0);
    }
}

#[test]
fn servers_are_loaded_over_tls_by_clients_with_certificates_and_users() {
    let programs = ["/usr/bin/memcached", "/usr/bin/redis-server"];
    if let Some(missing) = programs
        .iter()
        .find(|it| !std::path::Path::new(it).exists())
    {
        println!("skipped: {missing} is not installed");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let certificate = put("certificate.pem", &made.cert.pem());
    let key = put("key.pem", &made.signing_key.serialize_pem());
    let users = put("users", "ada:secret\n");
    let acl = put("acl", "user default off\nuser ada on >secret ~* &* +@all\n");
    let ports = [(); 2].map(|()| ReservedPort::take().unwrap());
    let [memcached, redis] = ports.each_ref().map(|it| it.address().port());
    let files = [&certificate, &key, &users, &acl].map(String::as_str);
    let _servers = secured(programs, files, [memcached, redis]);
    // This memcached does not answer when many large values come at once over TLS.
    for (protocol, port, bytes) in [("memcached", memcached, 400), ("resp", redis, 40_000)] {
        wait_until("the server listens", || {
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        let target = format!("tls:127.0.0.1:{port}");
        let options = format!(
            "--protocol {protocol} --keys 2000 --requests 20k --value-bytes 1..{bytes} --fill \
             --verify --connections 10 --threads 2 --depth 8"
        );
        let tls = format!("--tls-ca {certificate} --tls-cert {certificate} --tls-key {key}");
        let output = load(&target, &format!("{options} {tls} --user ada:secret"));
        let report = report(&output);
        assert!(output.status.success());
        assert_eq!(report["requests"], 20_000);
        let wrong = ["misses", "errors", "mismatches"].map(|it| report[it].as_u64().unwrap_or(0));
        assert_eq!((wrong, &report["get"]["misses"]), ([0; 3], &0.into()));
        let stranger = put("stranger.pem", &stranger());
        for (options, word) in [
            (String::new(), "--tls-ca FILE"),
            (format!("--tls-ca {key}"), "no certificate"),
            (format!("--tls-ca {stranger}"), "invalid peer certificate"),
            (
                format!("--tls-ca {certificate} --user ada:secret"),
                "ertificate",
            ),
            (tls.clone(), "makes no sense"),
            (format!("{tls} --user ada:wrong"), "makes no sense"),
        ] {
            is_refused(&target, &format!("--protocol {protocol} {options}"), word);
        }
    }
}

/// A load that fails with this word.
fn is_refused(target: &str, options: &str, word: &str) {
    let output = load(target, options);
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains(word), "{options}: {told}");
    assert!(!output.status.success());
}

/// memcached and redis-server behind TLS, which ask for certificates and for Ada's password.
fn secured(programs: [&str; 2], files: [&str; 4], ports: [u16; 2]) -> [Guard; 2] {
    let [certificate, key, users, acl] = files;
    let [memcached, redis] = ports;
    let start = |program: &str, options: String| {
        let mut command = Command::new(program);
        command
            .args(options.split(' '))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Guard(command.spawn().unwrap())
    };
    let memcached = format!(
        "-u root -l 127.0.0.1 -p {memcached} -Y {users} -Z -o ssl_chain_cert={certificate},\
         ssl_key={key},ssl_ca_cert={certificate},ssl_verify_mode=2"
    );
    let redis = format!(
        "--port 0 --tls-port {redis} --bind 127.0.0.1 --appendonly no --aclfile {acl} \
         --tls-cert-file {certificate} --tls-key-file {key} --tls-ca-cert-file {certificate}"
    );
    [start(programs[0], memcached), start(programs[1], redis)]
}

/// A certificate of somebody else.
fn stranger() -> String {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    made.cert.pem()
}
