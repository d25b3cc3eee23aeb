//! Compression as clients and operators meet it: nobody sees it in a value, everybody in the
//! figures.

use crate::support::{daemon, http, resp};

use std::io::{Read, Write};
use std::time::Duration;

use cellar_execute::http::pages::status::Status;
use daemon::Daemon;
use http::Http;
use resp::{Client, Value, bulks, error, ok};

const KEYS: u64 = 30_000;
const STEP: Duration = Duration::from_secs(1);

/// A document of some 600 bytes; no other has its text.
fn document(number: u64) -> String {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut text = format!(
        "{{\"id\":{number},\"owner\":\"user{}\",\"tags\":[",
        mixed >> 52
    );
    for place in 0..mixed >> 61 {
        text += &format!(
            "{{\"tag\":\"tag{}\",\"weight\":{place}}},",
            mixed >> (place + 40) & 63
        );
    }
    text += "null],\"comments\":null,\"language\":\"en\",\"visibility\":\"public\",";
    let pad = "\"description\":\"a document as services cache it, longer than a line\",";
    text + &pad.repeat(4) + "\"end\":true}"
}

/// A server whose memory is full of documents, some of them compressed.
fn compressed(memory: &str) -> (Daemon, Client) {
    let daemon = Daemon::start(&["--memory", memory, "--compress", "auto"]);
    let mut client = Client::connect(&daemon);
    for number in 0..KEYS {
        let (key, value) = (format!("doc:{number}"), document(number));
        let stored = client.call(&[b"SET", key.as_bytes(), value.as_bytes()]);
        assert_eq!(stored, ok());
    }
    daemon.advance_until("a dictionary is there", STEP, || {
        daemon.stat("dictionaries") == 1
    });
    daemon.advance_until("values are compressed", STEP, || {
        daemon.stat("values_compressed") > 1_000
    });
    (daemon, client)
}

/// Keys of items that take less memory than their values have bytes.
fn compressed_keys(client: &mut Client) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for number in 0..KEYS {
        let (key, value) = (format!("doc:{number}"), document(number));
        if let Value::Integer(bytes) = client.run(&format!("MEMORY USAGE {key}"))
            && (bytes as usize) < value.len()
        {
            found.push((key, value));
            if found.len() == 8 {
                break;
            }
        }
    }
    found
}

#[test]
fn clients_see_plain_values_in_every_command() {
    let (daemon, mut client) = compressed("16MiB");
    let keys = compressed_keys(&mut client);
    assert_eq!(keys.len(), 8);
    let text = |text: &str| Value::Bulk(text.as_bytes().to_vec());
    let length = |value: &str| Value::Integer(value.len() as i64);
    for (key, value) in &keys {
        assert_eq!(client.run(&format!("STRLEN {key}")), length(value));
        assert_eq!(client.run(&format!("GET {key}")), text(value));
        assert_eq!(
            client.run(&format!("GETRANGE {key} 5 40")),
            text(&value[5..=40])
        );
    }
    let (key, value) = &keys[0];
    let longer = format!("{value}more");
    assert_eq!(client.run(&format!("APPEND {key} more")), length(&longer));
    assert_eq!(client.run(&format!("GET {key}")), text(&longer));
    let (key, value) = &keys[1];
    assert_eq!(client.run(&format!("SETRANGE {key} 3 XYZ")), length(value));
    let changed = format!("{}XYZ{}", &value[..3], &value[6..]);
    assert_eq!(client.run(&format!("GET {key}")), text(&changed));
    let (key, value) = &keys[2];
    assert_eq!(client.run(&format!("EXPIRE {key} 1000")), Value::Integer(1));
    assert_eq!(client.run(&format!("RENAME {key} doc:other")), ok());
    assert_eq!(client.run("GET doc:other"), text(value));
    let (key, value) = &keys[3];
    assert_eq!(client.run(&format!("COPY {key} copy")), Value::Integer(1));
    assert_eq!(client.run("GET copy"), text(value));
    let (key, value) = &keys[4];
    let mut stream = daemon.connect();
    let hit = daemon::hit(key, value.as_bytes());
    daemon::check(&mut stream, format!("get {key}\r\n").as_bytes(), &hit);
    let (key, value) = &keys[5];
    assert_eq!(client.run(&format!("GETDEL {key}")), text(value));
    assert_eq!(client.run(&format!("GET {key}")), Value::Null);
    let (key, _) = &keys[6];
    assert_eq!(client.run(&format!("SETBIT {key} 7 1")), Value::Integer(1));
}

#[test]
fn operators_see_what_compression_saves_and_switch_it_off() {
    let (daemon, mut client) = compressed("16MiB");
    let (before, after) = (
        daemon.stat("value_bytes_before_compression"),
        daemon.stat("value_bytes_after_compression"),
    );
    assert!(after * 2 < before, "{after} of {before}");
    assert!(daemon.stat("dictionary_bytes") > 0);
    let Value::Bulk(info) = client.run("INFO memory") else {
        panic!("no text");
    };
    let info = String::from_utf8(info).unwrap();
    assert!(info.contains("number_of_dictionaries:1\r\n"), "{info}");
    let line = "compressed_prefix1:prefix=doc,database=0,compressed=1,ratio=0.";
    assert!(info.contains(line), "{info}");
    assert!(daemon.stat("compression_usec") > 0);
    let mut stream = daemon.connect();
    stream.write_all(b"stats compression\r\nquit\r\n").unwrap();
    let mut ratio = String::new();
    stream.read_to_string(&mut ratio).unwrap();
    assert!(
        ratio.contains("STAT compression:1:prefix doc\r\n"),
        "{ratio}"
    );
    assert!(
        ratio.contains("STAT compression:1:compressed 1\r\n"),
        "{ratio}"
    );
    let response = Http::to(&daemon).get("/v1/console/status");
    let status: Status = serde_json::from_slice(&response.body).unwrap();
    let shown = status.compression;
    assert!(shown.enabled && shown.values > 1_000 && shown.dictionaries == 1);
    assert_eq!((shown.plain_bytes, shown.compressed_bytes), (before, after));
    let [prefix] = &shown.prefixes[..] else {
        panic!("{:?}", shown.prefixes);
    };
    assert_eq!((prefix.database, &*prefix.prefix), (0, "doc"));
    let ratio = prefix.ratio.unwrap();
    assert!(prefix.compressed && (0.01..0.5).contains(&ratio), "{ratio}");
    assert!(shown.cpu_us > 0);
    let metrics = Http::to(&daemon).get("/metrics").body;
    let metrics = String::from_utf8(metrics).unwrap();
    let name = "cellar_compression_ratio{database=\"0\",prefix=\"doc\"} 0.";
    assert!(metrics.contains(name), "{metrics}");
    assert_eq!(
        client.run("CONFIG GET compress"),
        bulks(&["compress", "auto"])
    );
    assert_eq!(client.run("CONFIG SET compress off"), ok());
    assert_eq!(client.run("FLUSHALL"), ok());
    daemon.advance_until("the dictionary is gone", STEP, || {
        daemon.stat("dictionaries") == 0
    });
    let compressed = daemon.stat("values_compressed");
    daemon.advance(STEP);
    assert_eq!(daemon.stat("values_compressed"), compressed);
}

#[test]
fn compression_is_off_unless_it_is_asked_for() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    assert_eq!(
        client.run("CONFIG GET compress"),
        bulks(&["compress", "off"])
    );
    assert_eq!(client.run("CONFIG SET compress auto"), ok());
    assert_eq!(
        client.run("CONFIG GET compress"),
        bulks(&["compress", "auto"])
    );
    let wrong = "ERR CONFIG SET failed (possibly related to argument 'compress') - \"yes\" is \
                 neither auto nor off nor numbers of databases like 0,3";
    assert_eq!(client.run("CONFIG SET compress yes"), error(wrong));
}

#[test]
fn values_are_compressed_in_the_databases_that_are_named() {
    let daemon = Daemon::start(&["--memory", "16MiB", "--compress", "1"]);
    let mut client = Client::connect(&daemon);
    let mut fill = |database: u32| {
        client.run(&format!("SELECT {database}"));
        for number in 0..KEYS / 2 {
            let (key, value) = (format!("doc{database}:{number}"), document(number));
            let stored = client.call(&[b"SET", key.as_bytes(), value.as_bytes()]);
            assert_eq!(stored, ok());
        }
    };
    fill(0);
    fill(1);
    daemon.advance_until("a dictionary is there", STEP, || {
        daemon.stat("dictionaries") == 1
    });
    daemon.advance_until("values are compressed", STEP, || {
        daemon.stat("values_compressed") > 1_000
    });
    assert_eq!(daemon.stat("dictionaries"), 1);
    let mut client = Client::connect(&daemon);
    let is_smaller = |client: &mut Client, database: u32| {
        client.run(&format!("SELECT {database}"));
        (0..KEYS / 2).any(|number| {
            let usage = client.run(&format!("MEMORY USAGE doc{database}:{number}"));
            matches!(usage, Value::Integer(bytes) if (bytes as usize) < document(number).len())
        })
    };
    assert!(!is_smaller(&mut client, 0) && is_smaller(&mut client, 1));
    client.check(
        "CONFIG GET compress => [compress, 1]
        CONFIG SET compress 2,0,2 => +OK
        CONFIG GET compress => [compress, 0,2]",
    );
    let wrong = "ERR CONFIG SET failed (possibly related to argument 'compress') - database 99 \
                 does not exist; --databases is 16";
    assert_eq!(client.run("CONFIG SET compress 99"), error(wrong));
}
