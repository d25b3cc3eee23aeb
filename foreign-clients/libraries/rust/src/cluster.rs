//! A cluster through redis-rs; cluster_clients.py has the nodes. Prints a line for each test.

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use redis::cluster::{cluster_pipe, ClusterClient, ClusterConnection};
use redis::{ProtocolVersion, TypedCommands};

use crate::{Ended, PATIENCE};

pub const KEYS: usize = 1000;

pub fn run() -> Ended {
    let nodes = env::var("CLUSTER_NODES")?;
    for (name, version) in [
        ("redis-rs-2", ProtocolVersion::RESP2),
        ("redis-rs-3", ProtocolVersion::RESP3),
    ] {
        let nodes = nodes.split(',').map(|node| format!("redis://{node}"));
        let client = ClusterClient::builder(nodes)
            .use_protocol(version)
            .build()?;
        goes_on(name, &client)?;
        println!("ok {name} goes on");
    }
    Ok(())
}

fn goes_on(name: &str, client: &ClusterClient) -> Ended {
    let keys: Vec<String> = (0..KEYS).map(|number| format!("{name}:{number}")).collect();
    let mut connection = client.get_connection()?;
    stores_and_finds_all(&mut connection, &keys, "first")?;
    for scene in ["goes", "comes"] {
        play_while_it_writes(scene, client, &keys)?;
        stores_and_finds_all(&mut connection, &keys, scene)?;
    }
    for scene in ["dies", "returns"] {
        play_while_it_writes(scene, client, &keys)?;
        // A connection asks for the map when it is sent to another node: a dead one sends nobody.
        at_last(|| stores_and_finds_all(&mut client.get_connection()?, &keys, scene))?;
    }
    Ok(())
}

fn play_while_it_writes(scene: &str, client: &ClusterClient, keys: &[String]) -> Ended {
    let (is_over, stored) = (AtomicBool::new(false), AtomicUsize::new(0));
    let mut writer = client.get_connection()?;
    let (played, written) = thread::scope(|scope| {
        let writing = scope.spawn(|| write(&mut writer, keys, &is_over, &stored));
        let played = play(scene);
        // One answer that a dead node owes may take longer than the scene.
        let end = Instant::now() + PATIENCE;
        while stored.load(Ordering::Relaxed) == 0 && Instant::now() < end {
            thread::sleep(Duration::from_millis(10));
        }
        is_over.store(true, Ordering::Relaxed);
        (played, writing.join())
    });
    played?;
    match (written, stored.into_inner()) {
        (Ok(()), 1..) => Ok(()),
        _ => Err("nothing was written".into()),
    }
}

/// Tries until nothing fails: what a client has of a dead node it may find out first.
fn at_last(mut attempt: impl FnMut() -> Ended) -> Ended {
    let end = Instant::now() + PATIENCE;
    loop {
        match attempt() {
            Err(_) if Instant::now() < end => thread::sleep(Duration::from_millis(50)),
            outcome => return outcome,
        }
    }
}

/// Has a scene happen; cluster_clients.py says which there are.
pub fn play(scene: &str) -> Ended {
    let mut stage = TcpStream::connect(env::var("CLUSTER_STAGE")?)?;
    writeln!(stage, "{scene}")?;
    let mut answer = String::new();
    BufReader::new(stage).read_line(&mut answer)?;
    if answer == "done\n" {
        Ok(())
    } else {
        Err(format!("{scene}: {answer:?}").into())
    }
}

/// Writes without a pause until it is over, and counts what was stored.
fn write(
    connection: &mut ClusterConnection,
    keys: &[String],
    is_over: &AtomicBool,
    stored: &AtomicUsize,
) {
    for key in keys.iter().cycle() {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        let outcome = connection.set(format!("written:{key}"), "written");
        stored.fetch_add(usize::from(outcome.is_ok()), Ordering::Relaxed);
    }
}

fn stores_and_finds_all(connection: &mut ClusterConnection, keys: &[String], value: &str) -> Ended {
    let (one, other) = keys.split_at(KEYS / 2);
    for key in one {
        connection.set(key, value)?;
    }
    let mut pipe = cluster_pipe();
    for key in other {
        pipe.set(key, value).ignore();
    }
    pipe.query::<()>(connection)?;
    let mut pipe = cluster_pipe();
    for key in one {
        pipe.get(key);
    }
    let mut found: Vec<Option<String>> = pipe.query(connection)?;
    for key in other {
        found.push(connection.get(key)?);
    }
    let is_it = |seen: &&Option<String>| seen.as_deref() == Some(value);
    let found = found.iter().filter(is_it).count();
    if found == KEYS {
        Ok(())
    } else {
        Err(format!("{found} of {KEYS} are found").into())
    }
}
