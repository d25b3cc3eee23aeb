//! Figures sent to a collector, which decodes what comes with OpenTelemetry's own definitions.

use crate::support::{daemon, http};

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use daemon::{Daemon, check, set};
use http::Http;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{Metric, number_data_point};
use prost::Message;

/// One request: its line and fields, its body; answered with this status.
fn take(listener: &TcpListener, status: &str) -> (String, Vec<u8>) {
    let (stream, _) = listener.accept().unwrap();
    stream
        .set_read_timeout(Some(crate::support::wait::PATIENCE))
        .unwrap();
    let mut reader = BufReader::new(stream);
    let (mut head, mut bytes) = (String::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        if line == "\r\n" {
            break;
        }
        if let Some(length) = line.strip_prefix("Content-Length: ") {
            bytes = length.trim().parse().unwrap();
        }
        head.push_str(&line);
    }
    let mut body = vec![0; bytes];
    reader.read_exact(&mut body).unwrap();
    answer(reader.get_mut(), status);
    (head, body)
}

fn answer(stream: &mut TcpStream, status: &str) {
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
}

fn attributes(pairs: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |pair: &KeyValue| match pair.value.clone().unwrap().value.unwrap() {
        Value::StringValue(text) => text,
        other => panic!("{other:?}"),
    };
    pairs
        .iter()
        .map(|pair| (pair.key.clone(), text(pair)))
        .collect()
}

fn metrics(body: &[u8]) -> (BTreeMap<String, String>, BTreeMap<String, Metric>) {
    let mut request = ExportMetricsServiceRequest::decode(body).unwrap();
    assert_eq!(request.resource_metrics.len(), 1);
    let mut all = request.resource_metrics.remove(0);
    let scope = all.scope_metrics.remove(0);
    assert_eq!(scope.scope.unwrap().name, "cellar");
    let named = scope
        .metrics
        .into_iter()
        .map(|metric| (metric.name.clone(), metric));
    (
        attributes(&all.resource.unwrap().attributes),
        named.collect(),
    )
}

/// Its points' labels and figures.
fn figures(metric: &Metric) -> Vec<(BTreeMap<String, String>, f64)> {
    let points = match metric.data.as_ref().unwrap() {
        Data::Gauge(gauge) => &gauge.data_points,
        Data::Sum(sum) => {
            assert!(sum.is_monotonic && sum.aggregation_temporality == 2);
            &sum.data_points
        }
        other => panic!("{other:?}"),
    };
    let figure = |value| match value {
        number_data_point::Value::AsInt(whole) => whole as f64,
        number_data_point::Value::AsDouble(figure) => figure,
    };
    points
        .iter()
        .map(|point| {
            assert!(0 < point.start_time_unix_nano);
            assert!(point.start_time_unix_nano <= point.time_unix_nano);
            (attributes(&point.attributes), figure(point.value.unwrap()))
        })
        .collect()
}

#[test]
fn a_collector_gets_all_figures_under_the_names_of_prometheus() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let daemon = Daemon::start(&["--otlp", &url, "--otlp-interval", "1h"]);
    let mut client = daemon.connect();
    check(&mut client, &set("a", b"value"), b"STORED\r\n");
    check(&mut client, b"get nothing\r\n", b"END\r\n");
    // Another thread takes them: the clock has moved when they are sent.
    let collector = std::thread::spawn(move || take(&listener, "200 OK"));
    daemon.advance(Duration::from_secs(1));
    let (head, body) = collector.join().unwrap();
    assert!(head.starts_with("POST /v1/metrics HTTP/1.1\r\n"), "{head}");
    assert!(
        head.contains("Content-Type: application/x-protobuf\r\n"),
        "{head}"
    );
    let (resource, found) = metrics(&body);
    assert_eq!(resource["service.name"], "cellar");
    assert_eq!(resource["service.version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(resource["service.instance.id"].len(), 40);
    assert_eq!(figures(&found["cellar_cmd_set_total"])[0].1, 1.0);
    assert_eq!(figures(&found["cellar_get_misses_total"])[0].1, 1.0);
    let Some(Data::Gauge(_)) = found["cellar_items"].data else {
        panic!("{:?}", found["cellar_items"]);
    };
    let text = Http::to(&daemon).get("/metrics").text().to_owned();
    let names: Vec<&str> = text.split("# HELP ").skip(1).map(first_word).collect();
    // Every family, and no other; what has no figure now may have had one then.
    for name in &names {
        assert!(found.contains_key(*name), "{name}");
    }
    assert_eq!(found.len(), names.len());
    let mut histograms = 0;
    for metric in found.values() {
        let Some(Data::Histogram(histogram)) = &metric.data else {
            figures(metric);
            continue;
        };
        histograms += 1;
        for point in &histogram.data_points {
            assert_eq!(point.bucket_counts.len(), point.explicit_bounds.len() + 1);
            assert!(point.explicit_bounds.is_sorted(), "{}", metric.name);
            assert_eq!(point.bucket_counts.iter().sum::<u64>(), point.count);
            assert!(point.sum.is_some());
        }
    }
    assert!(histograms > 0);
}

fn first_word(line: &str) -> &str {
    line.split(' ').next().unwrap()
}

#[test]
fn a_collector_that_refuses_is_told_of_once_and_when_it_takes_them_again() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/own", listener.local_addr().unwrap());
    let mut daemon = Daemon::spawn(&["--otlp", &url, "--otlp-interval", "1s"]);
    for _ in 0..2 {
        let (head, _) = take(&listener, "503 Service Unavailable");
        assert!(head.starts_with("POST /own "), "{head}");
    }
    take(&listener, "202 Accepted");
    let lines = daemon.log_until("accepts metrics again");
    let told = lines
        .iter()
        .filter(|line| line.contains("does not accept metrics"));
    let told: Vec<_> = told.collect();
    assert_eq!(told.len(), 1, "{lines:?}");
    assert!(told[0].contains("it answers HTTP/1.1 503"), "{told:?}");
    // One that is silent holds up nothing.
    let silent = listener.accept().unwrap();
    daemon.signal(rustix::process::Signal::TERM);
    assert!(daemon.wait().success());
    drop(silent);
}
