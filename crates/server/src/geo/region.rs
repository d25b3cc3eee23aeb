//! Region: a circle or a box around a place, and the ranges of scores that cover it.
//!
//! The cells are so large that one and its neighbours cover the region: its middle lies in the one,
//! and the neighbours that it cannot reach are left out. What is in a cell need not be in the
//! region.

use super::{Borders, Cell, EARTH_RADIUS_M, LATITUDE_MAX, Position, STEPS_MAX};

/// Half of the map's width in metres: below so much a cell's steps are counted.
const MAP_M: f64 = 20_037_726.37;
/// Degrees from which on cells are narrow, and very narrow.
const NARROW_LATITUDE: f64 = 66.0;
const VERY_NARROW_LATITUDE: f64 = 80.0;
/// The neighbours of a cell in the order in which they are searched, east and north.
const NEIGHBOURS: [(i8, i8); 8] = [
    (0, 1),
    (0, -1),
    (1, 0),
    (-1, 0),
    (1, 1),
    (-1, 1),
    (1, -1),
    (-1, -1),
];

/// What a region looks like, in metres.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Outline {
    /// All that is no farther.
    Circle(f64),
    /// Width and height.
    Box(f64, f64),
}

/// A part of the earth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Region {
    /// Its middle.
    pub middle: Position,
    /// What it looks like.
    pub outline: Outline,
}

impl Region {
    /// Metres from the middle to a place, if it is in the region.
    #[must_use]
    pub fn distance_m(&self, place: Position) -> Option<f64> {
        let distance_m = self.middle.distance_m(place);
        let is_outside = match self.outline {
            // No number, of places opposite to each other, is not farther.
            Outline::Circle(radius_m) => distance_m > radius_m,
            Outline::Box(width_m, height_m) => {
                let beside = Position {
                    longitude: self.middle.longitude,
                    ..place
                };
                place.distance_of_latitudes_m(self.middle) > height_m / 2.0
                    || place.distance_m(beside) > width_m / 2.0
            }
        };
        (!is_outside).then_some(distance_m)
    }

    /// The ranges of scores in which all its members are, each without its end; no score is in two.
    #[must_use]
    pub fn scores(&self) -> Vec<(f64, f64)> {
        let bounds = self.bounds();
        let mut steps = self.steps();
        if !self.is_covered(steps, bounds) && steps > 1 {
            steps -= 1;
        }
        let own = self.middle.cell(steps, LATITUDE_MAX);
        let borders = own.borders();
        let reaches = |(east, north): (i8, i8)| {
            // Of four cells in all each is needed.
            steps < 2
                || !(north < 0 && borders.south < bounds.south
                    || north > 0 && borders.north > bounds.north
                    || east < 0 && borders.west < bounds.west
                    || east > 0 && borders.east > bounds.east)
        };
        let neighbours = NEIGHBOURS.iter().filter(|&&by| reaches(by));
        let mut cells: Vec<Cell> = vec![own];
        for &(east, north) in neighbours {
            let cell = own.neighbour(east, north);
            if !cells.contains(&cell) {
                cells.push(cell);
            }
        }
        cells.into_iter().map(Cell::scores).collect()
    }

    /// How many steps the cells have, by how far the region reaches.
    fn steps(&self) -> u32 {
        let mut reach_m = match self.outline {
            Outline::Circle(radius_m) => radius_m,
            Outline::Box(width_m, height_m) => (width_m / 2.0).hypot(height_m / 2.0),
        };
        if reach_m == 0.0 {
            return STEPS_MAX;
        }
        let mut steps: u32 = 1;
        // More doublings than those make no difference.
        while reach_m < MAP_M && steps < 2 * STEPS_MAX {
            reach_m *= 2.0;
            steps += 1;
        }
        let latitude = self.middle.latitude.abs();
        let narrow = u32::from(latitude > NARROW_LATITUDE);
        let very_narrow = u32::from(latitude > VERY_NARROW_LATITUDE);
        steps
            .saturating_sub(2 + narrow + very_narrow)
            .clamp(1, STEPS_MAX)
    }

    /// Whether the cell of the middle and its neighbours reach as far as the region.
    fn is_covered(&self, steps: u32, bounds: Borders) -> bool {
        let own = self.middle.cell(steps, LATITUDE_MAX);
        let beside = |east, north| own.neighbour(east, north).borders();
        !(beside(0, 1).north < bounds.north
            || beside(0, -1).south > bounds.south
            || beside(1, 0).east < bounds.east
            || beside(-1, 0).west > bounds.west)
    }

    /// The borders of a box around the region: a degree of longitude is shorter towards the pole.
    fn bounds(&self) -> Borders {
        let Position {
            longitude,
            latitude,
        } = self.middle;
        let (width_m, height_m) = match self.outline {
            Outline::Circle(radius_m) => (radius_m, radius_m),
            Outline::Box(width_m, height_m) => (width_m / 2.0, height_m / 2.0),
        };
        let upwards = (height_m / EARTH_RADIUS_M).to_degrees();
        let sideways_at = |latitude: f64| {
            let shrunk = latitude.to_radians().cos();
            (width_m / EARTH_RADIUS_M / shrunk).to_degrees()
        };
        let sideways = if latitude < 0.0 {
            sideways_at(latitude - upwards)
        } else {
            sideways_at(latitude + upwards)
        };
        Borders {
            west: longitude - sideways,
            east: longitude + sideways,
            south: latitude - upwards,
            north: latitude + upwards,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the ranges have all places of a raster that are in the region.
    fn check(region: &Region) {
        let ranges = region.scores();
        for east in -180..=180 {
            for north in -85..=85 {
                let place = Position::of(f64::from(east), f64::from(north)).unwrap();
                let place = Position::of_score(place.score());
                let is_inside = region.distance_m(place).is_some();
                let score = place.score();
                let ranges = ranges.iter();
                let times = ranges.filter(|(low, high)| (*low..*high).contains(&score));
                let times = times.count();
                assert!(
                    times <= 1 && (times == 1 || !is_inside),
                    "{region:?} {place:?}"
                );
            }
        }
    }

    #[test]
    fn no_place_of_a_region_lies_outside_of_its_ranges() {
        for latitude in [-60.0, -10.5, 0.0, 30.0, 64.0] {
            let middle = Position::of(11.3, latitude).unwrap();
            for outline in [
                Outline::Circle(1.0),
                Outline::Circle(300_000.0),
                Outline::Circle(1_500_000.0),
                Outline::Box(3_000_000.0, 200_000.0),
            ] {
                check(&Region { middle, outline });
            }
        }
    }
}
