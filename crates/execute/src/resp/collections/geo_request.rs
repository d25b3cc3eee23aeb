//! Geo request: what a search asks for, in the many forms that Redis has for it.
//!
//! Source: redis.io/docs/latest/commands/geosearch and its neighbours.

use cellar_engine::Handle;
use cellar_protocol::resp::Verb;
use cellar_protocol::resp::number::{parse_float, parse_integer};
use cellar_shared::keyspace::kind;
use smallvec::SmallVec;

use crate::resp::call::Call;
use crate::resp::collections::geo::{metres_of, position_of};
use crate::resp::failure::Failure;
use cellar_values::SortedSet;
use cellar_values::geo::{Outline, Position, Region, mean};

/// Bytes of the longest word of an option, about.
const WORD_BYTES: usize = 16;

/// In which order members come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::resp) enum Sequence {
    /// As they are found.
    Found,
    Nearest,
    Farthest,
    /// As a sorted set has them whose scores are their places, or their distances.
    Score,
    Distance,
}

/// What a search asks for, beside where.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::resp) struct Wants {
    pub(in crate::resp) turn: Sequence,
    /// Most members that are answered.
    pub(in crate::resp) most: usize,
    /// Whether any will do.
    pub(in crate::resp) takes_any: bool,
    /// Metres of the unit in which distances are answered.
    pub(in crate::resp) metres: f64,
    pub(in crate::resp) with_distance: bool,
    pub(in crate::resp) with_score: bool,
    pub(in crate::resp) with_position: bool,
}

/// What a request says.
pub(in crate::resp) struct Asked<'a> {
    middle: Option<Position>,
    outline: Option<Outline>,
    pub(in crate::resp) wants: Wants,
    /// The key that is to have the result.
    pub(in crate::resp) destination: Option<&'a [u8]>,
    pub(in crate::resp) stores_distances: bool,
}

/// The request that is read, and what of it says how.
struct Reading<'c, 'a> {
    call: &'c Call<'a>,
    /// The set that is searched.
    value: Option<Handle>,
    asked: Asked<'a>,
    has_member: bool,
    has_position: bool,
    has_count: bool,
}

fn number_of(text: &[u8], bad: &'static str) -> Result<f64, Failure> {
    parse_float(text).ok_or(Failure::text(bad))
}

impl<'a> Reading<'_, 'a> {
    /// Where a member is; any place, if there is no set.
    fn place_of(&self, member: &[u8]) -> Result<Option<Position>, Failure> {
        let Some(value) = &self.value else {
            return Ok(None);
        };
        let score = SortedSet::view(value).score(member);
        let bad = Failure::text("ERR could not decode requested zset member");
        score.map(Position::of_score).ok_or(bad).map(Some)
    }

    fn read_circle(&mut self, args: &[&[u8]]) -> Result<(), Failure> {
        let radius = number_of(args[0], "ERR need numeric radius")?;
        if radius < 0.0 {
            return Err(Failure::text("ERR radius cannot be negative"));
        }
        self.asked.wants.metres = metres_of(args[1])?;
        self.asked.outline = Some(Outline::Circle(radius * self.asked.wants.metres));
        Ok(())
    }

    fn read_box(&mut self, args: &[&[u8]]) -> Result<(), Failure> {
        let width = number_of(args[0], "ERR need numeric width")?;
        let height = number_of(args[1], "ERR need numeric height")?;
        if width < 0.0 || height < 0.0 {
            return Err(Failure::text("ERR height or width cannot be negative"));
        }
        let metres = metres_of(args[2])?;
        self.asked.wants.metres = metres;
        self.asked.outline = Some(Outline::Box(width * metres, height * metres));
        Ok(())
    }

    /// Reads a polygon; the arguments behind it.
    fn read_polygon<'s>(&mut self, args: &'s [&'a [u8]]) -> Result<&'s [&'a [u8]], Failure> {
        let few = Failure::text("ERR GEOSEARCH BYPOLYGON must have at least 3 vertices");
        let (count, rest) = args.split_first().ok_or(Failure::Syntax)?;
        let count = parse_integer(count).ok_or(Failure::NotInteger)?;
        let count = usize::try_from(count).ok().filter(|&count| count >= 3);
        let taken = count.and_then(|count| count.checked_mul(2));
        let taken = taken.and_then(|taken| rest.split_at_checked(taken));
        let (numbers, rest) = taken.ok_or(few)?;
        let vertices = numbers.chunks_exact(2).map(position_of);
        let vertices: Vec<Position> = vertices.collect::<Result<_, _>>()?;
        self.asked.middle = Some(mean(&vertices));
        self.asked.outline = Some(Outline::Polygon(vertices.into()));
        Ok(rest)
    }

    fn is_polygon(&self) -> bool {
        matches!(self.asked.outline, Some(Outline::Polygon(_)))
    }

    /// Whether no part of where is searched was read that goes with a middle.
    fn has_no_middle(&self) -> bool {
        !self.has_member && !self.has_position && self.asked.outline.is_none()
    }

    /// Reads what stands before the options, where circle and middle have fixed places; how many
    /// arguments that are.
    fn read_fixed(&mut self) -> Result<usize, Failure> {
        let args = self.call.args;
        match self.call.command.verb {
            Verb::Georadius | Verb::GeoradiusRo => {
                self.asked.middle = Some(position_of(&args[2..4])?);
                self.read_circle(&args[4..6])?;
                Ok(6)
            }
            Verb::Georadiusbymember | Verb::GeoradiusbymemberRo => {
                // Without a set Redis looks at the options alone.
                if self.value.is_some() {
                    self.asked.middle = self.place_of(args[2])?;
                    self.read_circle(&args[3..5])?;
                }
                Ok(5)
            }
            Verb::Geosearchstore => {
                self.asked.destination = Some(args[1]);
                Ok(3)
            }
            _ => Ok(2),
        }
    }

    /// Reads the option that comes first; the arguments behind it.
    fn read_option<'s>(&mut self, args: &'s [&'a [u8]]) -> Result<&'s [&'a [u8]], Failure> {
        let verb = self.call.command.verb;
        let is_search = matches!(verb, Verb::Geosearch | Verb::Geosearchstore);
        let may_store = matches!(verb, Verb::Georadius | Verb::Georadiusbymember);
        let (name, rest) = args.split_first().ok_or(Failure::Syntax)?;
        let wants = &mut self.asked.wants;
        let name: SmallVec<[u8; WORD_BYTES]> = name.iter().map(u8::to_ascii_uppercase).collect();
        match (&name[..], rest) {
            (b"WITHDIST", _) => wants.with_distance = true,
            (b"WITHHASH", _) => wants.with_score = true,
            (b"WITHCOORD", _) => wants.with_position = true,
            (b"ANY", _) => wants.takes_any = true,
            (b"ASC", _) => wants.turn = Sequence::Nearest,
            (b"DESC", _) => wants.turn = Sequence::Farthest,
            (b"COUNT", [count, rest @ ..]) => {
                let count = parse_integer(count).ok_or(Failure::NotInteger)?;
                let count = usize::try_from(count).ok().filter(|count| *count > 0);
                wants.most = count.ok_or(Failure::text("ERR COUNT must be > 0"))?;
                self.has_count = true;
                return Ok(rest);
            }
            (name @ (b"STORE" | b"STOREDIST"), [key, rest @ ..]) if may_store => {
                self.asked.destination = Some(*key);
                self.asked.stores_distances = name == b"STOREDIST";
                return Ok(rest);
            }
            (b"STOREDIST", _) if verb == Verb::Geosearchstore => {
                self.asked.stores_distances = true;
            }
            (b"BYPOLYGON", rest) if is_search && self.has_no_middle() => {
                return self.read_polygon(rest);
            }
            _ if is_search && self.is_polygon() => return Err(Failure::Syntax),
            (b"FROMMEMBER", [member, rest @ ..]) if is_search && !self.has_position => {
                self.asked.middle = self.place_of(member)?;
                self.has_member = true;
                return Ok(rest);
            }
            (b"FROMLONLAT", [_, _, ..]) if is_search && !self.has_member => {
                self.asked.middle = Some(position_of(&rest[..2])?);
                self.has_position = true;
                return Ok(&rest[2..]);
            }
            (b"BYRADIUS", [_, _, ..])
                if is_search && !matches!(self.asked.outline, Some(Outline::Box(..))) =>
            {
                self.read_circle(&rest[..2])?;
                return Ok(&rest[2..]);
            }
            (b"BYBOX", [_, _, _, ..])
                if is_search && !matches!(self.asked.outline, Some(Outline::Circle(_))) =>
            {
                self.read_box(&rest[..3])?;
                return Ok(&rest[3..]);
            }
            _ => return Err(Failure::Syntax),
        }
        Ok(rest)
    }

    /// Refuses options that do not go together.
    fn check(&self) -> Result<(), Failure> {
        let (asked, wants) = (&self.asked, &self.asked.wants);
        let verb = self.call.command.verb;
        let shows = wants.with_distance || wants.with_score || wants.with_position;
        if asked.destination.is_some() && shows {
            let text = if verb == Verb::Geosearchstore {
                "ERR GEOSEARCHSTORE is not compatible with WITHDIST, WITHHASH and WITHCOORD options"
            } else {
                "ERR STORE option in GEORADIUS is not compatible with WITHDIST, WITHHASH and \
                 WITHCOORD options"
            };
            return Err(Failure::text(text));
        }
        if matches!(verb, Verb::Geosearch | Verb::Geosearchstore) {
            let name = String::from_utf8_lossy(self.call.args[0]);
            let missing = if self.is_polygon() {
                None
            } else if !(self.has_member || self.has_position) {
                Some("exactly one of FROMMEMBER or FROMLONLAT")
            } else if asked.outline.is_none() {
                Some("exactly one of BYRADIUS and BYBOX")
            } else {
                None
            };
            if let Some(missing) = missing {
                let text = format!("ERR {missing} can be specified for {name}");
                return Err(Failure::Text(text.into()));
            }
        }
        if wants.takes_any && !self.has_count {
            return Err(Failure::text(
                "ERR the ANY argument requires COUNT argument",
            ));
        }
        Ok(())
    }
}

/// Reads a request, and takes the set that it is about; where in it is searched.
///
/// # Errors
/// As Redis, in its order.
pub(in crate::resp) fn read<'a>(
    call: &Call<'a>,
) -> Result<(Asked<'a>, Option<(Handle, Region)>), Failure> {
    let is_second = call.command.verb == Verb::Geosearchstore;
    let key = call.key_at(if is_second { 2 } else { 1 })?;
    let mut reader = Reading {
        call,
        value: call.value(key, kind::SORTED_SET)?,
        asked: Asked {
            middle: None,
            outline: None,
            wants: Wants {
                turn: Sequence::Found,
                most: usize::MAX,
                takes_any: false,
                metres: 1.0,
                with_distance: false,
                with_score: false,
                with_position: false,
            },
            destination: None,
            stores_distances: false,
        },
        has_member: false,
        has_position: false,
        has_count: false,
    };
    let fixed = reader.read_fixed()?;
    let mut args = &call.args[fixed..];
    while !args.is_empty() {
        args = reader.read_option(args)?;
    }
    reader.check()?;
    let (mut asked, value) = (reader.asked, reader.value);
    let wants = &mut asked.wants;
    if reader.has_count && wants.turn == Sequence::Found && !wants.takes_any {
        wants.turn = Sequence::Nearest;
    }
    let region = (asked.middle.zip(asked.outline.take()))
        .map(|(middle, outline)| Region { middle, outline });
    Ok((asked, value.zip(region)))
}
