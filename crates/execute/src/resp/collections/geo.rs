//! Geo: members of a sorted set that are places on the earth.
//!
//! Source: redis.io/docs/latest/commands, group "geo". Searches: geo_search.rs.

use cellar_engine::Handle;
use cellar_protocol::resp::number::parse_float;
use cellar_shared::keyspace::kind;

use crate::resp::call::long_command::options_of_geoadd;
use crate::resp::call::{Call, DONE, Outcome};
use crate::resp::collections::sorted_sets::{ZaddOptions, add_scored};
use crate::resp::failure::Failure;
use cellar_values::SortedSet;
use cellar_values::geo::Position;

/// Metres of a unit.
///
/// # Errors
/// If there is none of that name.
pub(in crate::resp) fn metres_of(unit: &[u8]) -> Result<f64, Failure> {
    match unit.to_ascii_lowercase().as_slice() {
        b"m" => Ok(1.0),
        b"km" => Ok(1_000.0),
        b"ft" => Ok(0.3048),
        b"mi" => Ok(1_609.34),
        _ => Err(Failure::text(
            "ERR unsupported unit provided. please use M, KM, FT, MI",
        )),
    }
}

/// The place that two arguments say, the longitude first.
///
/// # Errors
/// If they are no numbers, or off the map.
pub(in crate::resp) fn position_of(pair: &[&[u8]]) -> Result<Position, Failure> {
    let number = |place: usize| parse_float(pair[place]).ok_or(Failure::NotFloat);
    let (longitude, latitude) = (number(0)?, number(1)?);
    Position::of(longitude, latitude).ok_or_else(|| {
        let text = format!("ERR invalid longitude,latitude pair {longitude:.6},{latitude:.6}");
        Failure::Text(text.into())
    })
}

/// A distance as it is answered.
pub(in crate::resp) fn text_of_distance(distance: f64) -> String {
    format!("{distance:.4}")
}

pub(in crate::resp) fn geoadd(call: &mut Call<'_>) -> Outcome {
    let (options, places) = call.args[2..].split_at(options_of_geoadd(&call.args[2..]));
    let has = |name: &[u8]| options.iter().any(|arg| arg.eq_ignore_ascii_case(name));
    let options = ZaddOptions {
        is_new: has(b"NX"),
        is_there: has(b"XX"),
        counts_changes: has(b"CH"),
        ..ZaddOptions::default()
    };
    let is_whole = !places.is_empty() && places.len().is_multiple_of(3);
    if !is_whole || options.is_new && options.is_there {
        return Err(Failure::Syntax);
    }
    let scored = places
        .chunks_exact(3)
        .map(|place| Ok((position_of(place)?.score(), place[2])));
    let scored = scored.collect::<Result<Vec<(f64, &[u8])>, Failure>>()?;
    add_scored(call, options, &scored)
}

/// The sorted set of the first key.
fn places(call: &Call<'_>) -> Result<Option<Handle>, Failure> {
    call.value(call.first_key()?, kind::SORTED_SET)
}

pub(in crate::resp) fn geopos(call: &mut Call<'_>) -> Outcome {
    let value = places(call)?;
    let set = value.as_ref().map(|value| SortedSet::view(value));
    let members = &call.args[2..];
    let mut reply = call.reply();
    reply.array(members.len());
    for member in members {
        let score = set.as_ref().and_then(|set| set.score(member));
        match score.map(Position::of_score) {
            Some(position) => {
                reply.array(2);
                reply.coordinate(position.longitude);
                reply.coordinate(position.latitude);
            }
            None => reply.null_array(),
        }
    }
    DONE
}

pub(in crate::resp) fn geohash(call: &mut Call<'_>) -> Outcome {
    let value = places(call)?;
    let set = value.as_ref().map(|value| SortedSet::view(value));
    let members = &call.args[2..];
    let mut reply = call.reply();
    reply.array(members.len());
    for member in members {
        let score = set.as_ref().and_then(|set| set.score(member));
        match score.map(Position::of_score) {
            Some(position) => reply.bulk(position.geohash()),
            None => reply.null(),
        }
    }
    DONE
}

pub(in crate::resp) fn geodist(call: &mut Call<'_>) -> Outcome {
    let metres = match call.args[4..] {
        [] => 1.0,
        [unit] => metres_of(unit)?,
        _ => return Err(Failure::Syntax),
    };
    let value = places(call)?;
    let set = value.as_ref().map(|value| SortedSet::view(value));
    let position = |member: &[u8]| {
        let score = set.as_ref().and_then(|set| set.score(member));
        score.map(Position::of_score)
    };
    match (position(call.args[2]), position(call.args[3])) {
        (Some(one), Some(other)) => {
            let distance = one.distance_m(other) / metres;
            call.reply().bulk(text_of_distance(distance));
        }
        _ => call.reply().null(),
    }
    DONE
}
