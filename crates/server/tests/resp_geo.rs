//! Places on the earth over RESP: members by longitude and latitude, searches in circles and boxes.

use crate::support::{daemon, resp};

use daemon::Daemon;
use resp::{Client, Value, check_alone};

const SICILY: &str = "GEOADD g 13.361389 38.115556 Palermo 15.087269 37.502669 Catania";

fn sicily(lines: &str) {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    assert_eq!(client.run(SICILY), Value::Integer(2));
    client.check(lines);
}

#[test]
fn a_place_is_a_score() {
    sicily(
        "ZSCORE g Palermo => 3479099956230698
        TYPE g => +zset
        GEOPOS g Palermo Rome => [[13.36138933897018433, 38.11555639549629859], nil]
        GEOHASH g Palermo Catania Rome => [sqc8b49rny0, sqdtr74hyu0, nil]
        GEODIST g Palermo Catania => 166274.1516
        GEODIST g Palermo Catania km => 166.2742
        GEODIST g Palermo Catania MI => 103.3182
        GEODIST g Palermo Rome => nil
        GEODIST nothing a b => nil
        GEOPOS nothing a => [nil]
        GEODIST g Palermo Catania miles => -ERR unsupported unit provided. please use M, KM, FT, MI
        GEODIST g Palermo Catania m m => -ERR syntax error
        GEOADD g 181 1 x => -ERR invalid longitude,latitude pair 181.000000,1.000000
        GEOADD g 1 x x => -ERR value is not a valid float
        GEOADD g NX XX 1 1 x => -ERR syntax error
        GEOADD g 1 1 x 2 => -ERR syntax error
        GEOADD g XX CH 13.4 38.1 Palermo 1 1 Rome => :1
        GEOADD g NX 1 1 Palermo => :0
        ZCARD g => :2
        SET s a => +OK
        GEOPOS s a => -WRONGTYPE Operation against a key holding the wrong kind of value",
    );
}

#[test]
fn a_polygon_has_its_middle_where_its_vertices_have_theirs() {
    const SQUARE: &str = "BYPOLYGON 4 12 37 18 37 18 39 12 39";
    const FEW: &str = "-ERR GEOSEARCH BYPOLYGON must have at least 3 vertices";
    sicily(&format!(
        "GEOADD g 12.758489 38.788135 edge1 17.241510 38.788135 edge2 => :2
        GEOSEARCH g {SQUARE} ASC => [Catania, Palermo, edge2, edge1]
        GEOSEARCH g {SQUARE} COUNT 2 DESC WITHDIST => [[edge1, 212409.0341], [edge2, 212408.8908]]
        GEOSEARCH g BYPOLYGON 3 13 38 14 38 13.3 38.5 WITHDIST => [[Palermo, 8556.2937]]
        GEOSEARCH g BYPOLYGON 3 13.361389 38.115556 15.087269 37.502669 14 36 => [Catania]
        GEOSEARCH g BYPOLYGON 5 12 37 18 37 15 38.2 18 39 12 39 ASC => [Catania, Palermo, edge1]
        GEOSEARCHSTORE d g {SQUARE} STOREDIST => :4
        ZRANGE d 0 -1 => [Catania, Palermo, edge2, edge1]
        ZSCORE d Catania => 6.004927976666302e+4
        GEOSEARCH none {SQUARE} => []
        GEOSEARCH none BYPOLYGON 2 12 37 18 37 => {FEW}
        GEOSEARCH g BYPOLYGON 3 12 37 18 37 => {FEW}
        GEOSEARCH g BYPOLYGON 9223372036854775807 12 37 18 37 => {FEW}
        GEOSEARCH g BYPOLYGON 3 12 37 18 37 18 a => -ERR value is not a valid float
        GEOSEARCH g BYPOLYGON 3 12 37 18 37 18 99 => \
         -ERR invalid longitude,latitude pair 18.000000,99.000000
        GEOSEARCH g FROMMEMBER Palermo {SQUARE} => -ERR syntax error
        GEOSEARCH g {SQUARE} FROMLONLAT 1 1 => -ERR syntax error
        GEOSEARCH g {SQUARE} BYRADIUS 10 km => -ERR syntax error
        GEOSEARCH g BYBOX 1 1 km {SQUARE} => -ERR syntax error"
    ));
}

#[test]
fn searches_answer_what_is_near() {
    sicily(
        "GEOSEARCH g FROMLONLAT 15 37 BYRADIUS 200 km ASC => [Catania, Palermo]
        GEOSEARCH g FROMLONLAT 15 37 BYRADIUS 200 km DESC => [Palermo, Catania]
        GEOSEARCH g FROMLONLAT 15 37 BYRADIUS 100 km WITHDIST WITHHASH => \
         [[Catania, 56.4413, :3479447370796909]]
        GEOSEARCH g FROMLONLAT 15 37 BYBOX 400 400 km COUNT 1 => [Catania]
        GEOSEARCH g FROMMEMBER Palermo BYBOX 1 1 m WITHCOORD => \
         [[Palermo, [13.36138933897018433, 38.11555639549629859]]]
        GEORADIUS g 15 37 200 km WITHDIST ASC => [[Catania, 56.4413], [Palermo, 190.4424]]
        GEORADIUS_RO g 15 37 200 km COUNT 1 ANY => [Palermo]
        GEORADIUSBYMEMBER g Catania 170 km DESC => [Palermo, Catania]
        georadiusbymember_ro g Catania 1 km => [Catania]
        GEORADIUSBYMEMBER_RO g Catania 1 km STORE x => -ERR syntax error
        GEOSEARCH nothing FROMLONLAT 15 37 BYRADIUS 200 km => []
        GEOSEARCH g FROMLONLAT 15 37 BYRADIUS 200 km COUNT 0 => -ERR COUNT must be > 0
        GEOSEARCH g FROMLONLAT 15 37 BYRADIUS 200 km ANY => \
         -ERR the ANY argument requires COUNT argument
        GEOSEARCH g FROMMEMBER Rome BYRADIUS 200 km => \
         -ERR could not decode requested zset member
        GEOSEARCH g FROMLONLAT 15 37 BYRADIUS 200 km BYBOX 1 1 km => -ERR syntax error
        Geosearch g BYRADIUS 200 km ASC DESC => \
         -ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for Geosearch
        GEOSEARCH g FROMLONLAT 15 37 ASC DESC => \
         -ERR exactly one of BYRADIUS and BYBOX can be specified for GEOSEARCH
        GEORADIUS g 15 37 -1 km => -ERR radius cannot be negative
        GEORADIUS g 15 37 x km => -ERR need numeric radius
        GEOSEARCH g FROMLONLAT 15 37 BYBOX 1 -1 km => -ERR height or width cannot be negative",
    );
}

#[test]
fn what_a_search_finds_is_stored_with_scores_or_distances() {
    sicily(
        "GEOSEARCHSTORE to g FROMLONLAT 15 37 BYRADIUS 200 km => :2
        ZRANGE to 0 -1 WITHSCORES => [Palermo, 3479099956230698, Catania, 3479447370796909]
        GEOSEARCHSTORE to g FROMLONLAT 15 37 BYRADIUS 200 km COUNT 1 DESC STOREDIST => :1
        ZRANGE to 0 -1 => [Palermo]
        GEORADIUS g 15 37 200 km STORE to => :2
        GEOPOS to Catania => [[15.08726745843887329, 37.50266842333162032]]
        GEORADIUSBYMEMBER g Catania 200 km STOREDIST to => :2
        ZRANGE to 0 -1 => [Catania, Palermo]
        ZSCORE to Catania => 0
        GEORADIUS g 15 37 200 km STORE to WITHDIST => \
         -ERR STORE option in GEORADIUS is not compatible with WITHDIST, WITHHASH and WITHCOORD \
         options
        GEOSEARCHSTORE to g FROMLONLAT 15 37 BYRADIUS 1 km WITHCOORD => \
         -ERR GEOSEARCHSTORE is not compatible with WITHDIST, WITHHASH and WITHCOORD options
        GEOSEARCHSTORE to g FROMLONLAT 15 37 BYRADIUS 1 km => :0
        EXISTS to => :0
        GEOSEARCHSTORE g nothing FROMLONLAT 15 37 BYRADIUS 1 km => :0
        EXISTS g => :0",
    );
}

/// Members on a raster of the whole earth, each with its place.
fn raster(client: &mut Client, count: usize) {
    for first in (0..count).step_by(5_000) {
        let mut words = vec!["GEOADD".to_owned(), "earth".to_owned()];
        for number in first..(first + 5_000).min(count) {
            let east = (number * 7_919 % 360_000) as f64 / 1_000.0 - 180.0;
            let north = (number * 104_729 % 160_000) as f64 / 1_000.0 - 80.0;
            words.extend([format!("{east}"), format!("{north}"), format!("m{number}")]);
        }
        let args: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
        let added = client.call(&args);
        assert_eq!(added, Value::Integer((count - first).min(5_000) as i64));
    }
}

fn members(value: Value) -> Vec<String> {
    let Value::Array(values) = value else {
        panic!("{value:?}");
    };
    values.iter().map(Value::shown).collect()
}

#[test]
fn many_members_are_searched_in_steps_and_come_in_order() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    raster(&mut client, 20_000);
    let Value::Array(all) =
        client.run("GEOSEARCH earth FROMLONLAT 3 4 BYRADIUS 30000 km ASC WITHDIST")
    else {
        panic!("no array")
    };
    assert_eq!(all.len(), 20_000);
    let distance = |value: &Value| match value {
        Value::Array(pair) => pair[1].shown().parse::<f64>().unwrap(),
        other => panic!("{other:?}"),
    };
    assert!(all.iter().map(distance).is_sorted());
    let near = members(client.run("GEOSEARCH earth FROMLONLAT 3 4 BYRADIUS 9000 km ASC"));
    let farthest = client.run("GEOSEARCH earth FROMLONLAT 3 4 BYRADIUS 9000 km COUNT 9000 DESC");
    let within = all.iter().filter(|one| distance(one) <= 9_000.0).count();
    assert_eq!(near.len(), within);
    let mut farthest = members(farthest);
    farthest.reverse();
    assert_eq!(near[near.len() - farthest.len()..], farthest);
    let count = near.len() as i64;
    for store in [
        "GEOSEARCHSTORE to earth FROMLONLAT 3 4 BYRADIUS 9000 km",
        "GEORADIUS earth 3 4 9000 km STOREDIST to",
    ] {
        assert_eq!(client.run(store), Value::Integer(count));
        let mut stored = members(client.run("ZRANGE to 0 -1"));
        if store.ends_with("STOREDIST to") {
            assert_eq!(stored, near);
        }
        stored.sort_unstable();
        let mut expected = near.clone();
        expected.sort_unstable();
        assert_eq!(stored, expected);
    }
    client.check(
        "GEORADIUS earth 3 4 9000 km COUNT 5000 STORE to => :5000
        GEORADIUS earth 3 4 9000 km COUNT 5000 ANY STORE to => :5000
        ZCARD to => :5000
        MULTI => +OK
        GEORADIUS earth 3 4 30000 km STORE to => +QUEUED
        EXEC => [:20000]",
    );
    let args: Vec<String> = (0..5_000).map(|number| format!("m{number}")).collect();
    let command = [&b"GEOHASH"[..], b"earth"].into_iter();
    let args: Vec<&[u8]> = command.chain(args.iter().map(String::as_bytes)).collect();
    assert_eq!(members(client.call(&args)).len(), 5_000);
}

#[test]
fn a_search_of_any_size_finds_what_is_within() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    raster(&mut client, 20_000);
    for middle in ["3 4", "-179.5 50", "179.99 -60"] {
        let all = format!("GEOSEARCH earth FROMLONLAT {middle} BYRADIUS 30000 km ASC WITHDIST");
        let Value::Array(all) = client.run(&all) else {
            panic!("no array")
        };
        let places = all.iter().map(|one| match one {
            Value::Array(pair) => (pair[0].shown(), pair[1].shown().parse::<f64>().unwrap()),
            other => panic!("{other:?}"),
        });
        let places: Vec<(String, f64)> = places.collect();
        for radius in [100, 400, 900, 2_000, 3_500] {
            let search = format!("GEOSEARCH earth FROMLONLAT {middle} BYRADIUS {radius} km");
            let within = places.iter().filter(|(_, km)| *km <= f64::from(radius));
            let within: Vec<&str> = within.map(|(name, _)| &**name).collect();
            let found = members(client.run(&format!("{search} ASC")));
            assert_eq!(found, within, "{search}");
            let mut unsorted = members(client.run(&search));
            unsorted.sort_unstable();
            let mut within = within;
            within.sort_unstable();
            assert_eq!(unsorted, within, "{search}");
        }
    }
}

#[test]
fn searches_end_at_poles_and_go_over_the_date_line() {
    check_alone(
        "GEOADD g 179.9 0 east -179.9 0 west 0 85.05 north 0 -85.05 south => :4
        GEOSEARCH g FROMMEMBER east BYRADIUS 50 km ASC => [east, west]
        GEOSEARCH g FROMLONLAT 180 85.05112878 BYRADIUS 1200 km => [north]
        GEOSEARCH g FROMLONLAT -180 -85.05112878 BYRADIUS 1200 km => [south]
        GEOSEARCH g FROMLONLAT 0 0 BYRADIUS 1e308 mi COUNT 9 ANY => [north, east, south, west]",
    );
}
