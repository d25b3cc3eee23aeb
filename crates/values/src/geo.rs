//! Geo: geographic positions as numbers, such that nearby positions have nearby numbers.
//!
//! A cell is a rectangle of the map: each step of its number halves longitude and latitude once,
//! and the bits of both are interleaved, those of the latitude at the even positions. A member of a
//! sorted set has the score of its cell of 26 steps, 52 bits, which a float holds exactly; so the
//! members of any larger cell are those of one range of scores. Cells, radius of the earth, bounds
//! and scores are those of Redis.
//!
//! Tests: at the end of this file, server/tests/resp_geo.rs, foreign-clients/differential.py.

mod region;

pub use region::{Outline, Region, mean};

/// Longitudes lie between this and its negative, in degrees.
const LONGITUDE_MAX: f64 = 180.0;
/// Latitudes lie between this and its negative: a square map ends there.
const LATITUDE_MAX: f64 = 85.051_128_78;
/// The same in a geohash that is written.
const WRITTEN_LATITUDE_MAX: f64 = 90.0;
/// Radius of the earth in metres.
const EARTH_RADIUS_M: f64 = 6_372_797.560_856;
/// Steps of a member's cell.
const STEPS_MAX: u32 = 26;
/// Bits of a latitude in the number of a cell; those of a longitude are the others.
const LATITUDE_BITS: u64 = 0x5555_5555_5555_5555;
/// Digits of a written geohash, 5 bits each; the last one is always zero.
const WRITTEN_DIGITS: usize = 11;
const DIGITS: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";

/// A place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Position {
    /// Degrees to the east.
    pub longitude: f64,
    /// Degrees to the north.
    pub latitude: f64,
}

/// A rectangle of the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    bits: u64,
    steps: u32,
}

/// The borders of a cell, in degrees.
#[derive(Clone, Copy, Debug)]
struct Borders {
    west: f64,
    east: f64,
    south: f64,
    north: f64,
}

impl Position {
    /// A place, if it is on the map.
    #[must_use]
    pub fn of(longitude: f64, latitude: f64) -> Option<Position> {
        let is_on_map = longitude.abs() <= LONGITUDE_MAX && latitude.abs() <= LATITUDE_MAX;
        is_on_map.then_some(Position {
            longitude,
            latitude,
        })
    }

    /// The score of a member at this place.
    #[expect(clippy::cast_precision_loss, reason = "a cell has 52 bits")]
    #[must_use]
    pub fn score(self) -> f64 {
        self.cell(STEPS_MAX, LATITUDE_MAX).bits as f64
    }

    /// The place that a score means: the middle of its cell.
    #[must_use]
    pub fn of_score(score: f64) -> Position {
        let borders = Cell {
            bits: whole(score),
            steps: STEPS_MAX,
        }
        .borders();
        let middle = |low: f64, high: f64, most: f64| f64::midpoint(low, high).clamp(-most, most);
        Position {
            longitude: middle(borders.west, borders.east, LONGITUDE_MAX),
            latitude: middle(borders.south, borders.north, LATITUDE_MAX),
        }
    }

    /// The place as others write a geohash, for whom latitudes go to the poles.
    #[must_use]
    pub fn geohash(self) -> [u8; WRITTEN_DIGITS] {
        let bits = self.cell(STEPS_MAX, WRITTEN_LATITUDE_MAX).bits;
        let mut text = [DIGITS[0]; WRITTEN_DIGITS];
        for (place, digit) in text[..WRITTEN_DIGITS - 1].iter_mut().enumerate() {
            let shift = 2 * STEPS_MAX as usize - 5 * (place + 1);
            *digit = DIGITS[(bits >> shift & 0x1f) as usize];
        }
        text
    }

    /// Metres to another place, over a sphere.
    #[must_use]
    pub fn distance_m(self, other: Position) -> f64 {
        let (longitude, others) = (self.longitude.to_radians(), other.longitude.to_radians());
        let sideways = ((others - longitude) / 2.0).sin();
        if sideways == 0.0 {
            return self.distance_of_latitudes_m(other);
        }
        let (latitude, others) = (self.latitude.to_radians(), other.latitude.to_radians());
        let upwards = ((others - latitude) / 2.0).sin();
        let chord = upwards * upwards + latitude.cos() * others.cos() * sideways * sideways;
        2.0 * EARTH_RADIUS_M * chord.sqrt().asin()
    }

    /// Metres between two latitudes.
    fn distance_of_latitudes_m(self, other: Position) -> f64 {
        let [one, other] = [self, other].map(|place| place.latitude.to_radians());
        EARTH_RADIUS_M * (other - one).abs()
    }

    /// The cell of `steps` steps, on a map that ends at a latitude.
    fn cell(self, steps: u32, latitude_max: f64) -> Cell {
        let part = |degrees: f64, most: f64| {
            let part = (degrees + most) / (most + most) * (1_u64 << steps) as f64;
            // It lies between zero and 2 to the power of 26.
            part as u32
        };
        let latitude = spread(part(self.latitude, latitude_max));
        let longitude = spread(part(self.longitude, LONGITUDE_MAX));
        Cell {
            bits: latitude | longitude << 1,
            steps,
        }
    }
}

impl Cell {
    fn borders(self) -> Borders {
        let count = (1_u64 << self.steps) as f64;
        let border = |part: u32, most: f64| -most + f64::from(part) / count * (most + most);
        let (latitude, longitude) = (gather(self.bits), gather(self.bits >> 1));
        Borders {
            west: border(longitude, LONGITUDE_MAX),
            east: border(longitude.wrapping_add(1), LONGITUDE_MAX),
            south: border(latitude, LATITUDE_MAX),
            north: border(latitude.wrapping_add(1), LATITUDE_MAX),
        }
    }

    /// The neighbour so many cells to the east and the north: -1, 0 or 1 each, wrapping around the
    /// map.
    fn neighbour(self, east: i8, north: i8) -> Cell {
        let bits = self.moved(self.bits, !LATITUDE_BITS, east);
        Cell {
            bits: self.moved(bits, LATITUDE_BITS, north),
            ..self
        }
    }

    /// The number with one of its halves, whose bits are `own`, one higher or lower.
    fn moved(self, bits: u64, own: u64, by: i8) -> u64 {
        let used = u64::MAX >> (u64::BITS - 2 * self.steps);
        // With the other half's bits set a carry goes to the next bit of its own.
        let gaps = !own & used;
        let (half, other) = (bits & own, bits & !own);
        let half = match by {
            0 => return bits,
            1 => half.wrapping_add(gaps + 1),
            _ => (half | gaps).wrapping_sub(gaps + 1),
        };
        half & own & used | other
    }

    /// Whether it has quarters: it is not a member's cell.
    #[must_use]
    pub fn is_divisible(self) -> bool {
        self.steps < STEPS_MAX
    }

    /// Its four quarters in the order of their scores.
    fn quarters(self) -> impl Iterator<Item = Cell> {
        (0..4).map(move |quarter| Cell {
            bits: self.bits << 2 | quarter,
            steps: self.steps + 1,
        })
    }

    /// The scores of its members: from the first one on, below the second one.
    #[must_use]
    pub fn scores(self) -> (f64, f64) {
        let shift = 2 * (STEPS_MAX - self.steps);
        (
            (self.bits << shift) as f64,
            ((self.bits + 1) << shift) as f64,
        )
    }
}

/// The whole part of a score; one outside of all cells is converted as in C.
fn whole(score: f64) -> u64 {
    const HALF: f64 = (1_u64 << 63) as f64;
    if score < HALF {
        score as i64 as u64
    } else if score < 2.0 * HALF {
        score as u64
    } else {
        0
    }
}

/// The bits of a number at the even places of another.
fn spread(number: u32) -> u64 {
    let steps = [
        (16, 0x0000_ffff_0000_ffff),
        (8, 0x00ff_00ff_00ff_00ff),
        (4, 0x0f0f_0f0f_0f0f_0f0f),
        (2, 0x3333_3333_3333_3333),
        (1, LATITUDE_BITS),
    ];
    let number = u64::from(number);
    steps
        .iter()
        .fold(number, |bits, (by, kept)| (bits | bits << by) & kept)
}

/// The bits at the even places of a number.
fn gather(bits: u64) -> u32 {
    let steps = [
        (1, 0x3333_3333_3333_3333),
        (2, 0x0f0f_0f0f_0f0f_0f0f),
        (4, 0x00ff_00ff_00ff_00ff),
        (8, 0x0000_ffff_0000_ffff),
        (16, 0x0000_0000_ffff_ffff_u64),
    ];
    let bits = bits & LATITUDE_BITS;
    let gathered = steps
        .iter()
        .fold(bits, |bits, (by, kept)| (bits | bits >> by) & kept);
    gathered as u32
}

#[cfg(test)]
mod tests {
    use super::{Cell, Position, STEPS_MAX, gather, spread};

    fn at(longitude: f64, latitude: f64) -> Position {
        Position::of(longitude, latitude).unwrap()
    }

    #[test]
    fn places_have_the_scores_and_hashes_that_redis_gives_them() {
        let palermo = at(13.361389, 38.115556);
        let catania = at(15.087269, 37.502669);
        assert_eq!(palermo.score(), 3_479_099_956_230_698.0);
        assert_eq!(catania.score(), 3_479_447_370_796_909.0);
        let [palermo, catania] = [palermo, catania].map(|place| Position::of_score(place.score()));
        assert_eq!(&palermo.geohash(), b"sqc8b49rny0");
        assert_eq!(&catania.geohash(), b"sqdtr74hyu0");
        assert_eq!(format!("{:.4}", palermo.distance_m(catania)), "166274.1516");
    }

    #[test]
    fn bits_take_turns_and_come_back() {
        for number in [0, 1, 0x5555_5555, 0xdead_beef, u32::MAX] {
            assert_eq!(gather(spread(number)), number);
            assert_eq!(gather(spread(number) << 1 >> 1), number);
        }
        assert_eq!(spread(0b1011), 0b100_0101);
    }

    #[test]
    fn neighbours_go_round_the_map() {
        for steps in 1..=STEPS_MAX {
            let corner = at(-180.0, -85.0).cell(steps, super::LATITUDE_MAX);
            let last = (1_u64 << steps) - 1;
            let west = corner.neighbour(-1, 0);
            assert_eq!(u64::from(gather(west.bits >> 1)), last);
            assert_eq!(west.neighbour(1, 0), corner);
            assert_eq!(corner.neighbour(0, 1).neighbour(0, -1), corner);
            assert_eq!(corner.neighbour(-1, -1).neighbour(1, 1), corner);
        }
    }

    #[test]
    fn any_score_is_some_place() {
        for score in [
            0.0,
            -1.0,
            -1e300,
            1e19,
            1e300,
            f64::INFINITY,
            f64::NEG_INFINITY,
        ] {
            let place = Position::of_score(score);
            assert!(Position::of(place.longitude, place.latitude).is_some());
        }
        let whole = Cell { bits: 3, steps: 1 };
        assert!(whole.borders().east > 0.0);
    }
}
