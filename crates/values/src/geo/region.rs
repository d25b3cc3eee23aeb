//! Region: a circle, a box or a polygon around a position, and the cells that cover it.
//!
//! The cells are so large that one and its neighbours cover the region: its middle lies in the one,
//! and the neighbours that it cannot reach are left out. A position in a cell need not be in the
//! region. In a cell with many members, only the quarters that the region reaches are searched.

use std::f64::consts::FRAC_PI_2;
use std::sync::Arc;

use super::{Borders, Cell, EARTH_RADIUS_M, LATITUDE_MAX, LONGITUDE_MAX, Position, STEPS_MAX};

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

/// The shape of a region, in metres.
#[derive(Clone, Debug, PartialEq)]
pub enum Outline {
    /// All points within this radius.
    Circle(f64),
    /// Width and height.
    Box(f64, f64),
    /// Its vertices, three or more, with straight lines between them on the map.
    Polygon(Arc<[Position]>),
}

impl Outline {
    /// The cost of comparing a position with it, as a multiple of that of a circle.
    #[must_use]
    pub fn cost(&self) -> usize {
        const VERTICES: usize = 16;
        match self {
            Outline::Circle(_) | Outline::Box(..) => 1,
            Outline::Polygon(vertices) => 1 + vertices.len() / VERTICES,
        }
    }
}

/// The mean of some places: below which their centre of mass in the sphere lies.
#[must_use]
pub fn mean(places: &[Position]) -> Position {
    let (mut x, mut y, mut z) = (0.0, 0.0, 0.0);
    for place in places {
        let (longitude, latitude) = (place.longitude.to_radians(), place.latitude.to_radians());
        x += latitude.cos() * longitude.cos();
        y += latitude.cos() * longitude.sin();
        z += latitude.sin();
    }
    let latitude = f64::atan2(z, x.hypot(y)).to_degrees();
    Position {
        longitude: f64::atan2(y, x).to_degrees(),
        latitude: latitude.clamp(-LATITUDE_MAX, LATITUDE_MAX),
    }
}

/// Whether a place is in a polygon: a line from it to the east crosses an odd number of edges.
fn is_within(place: Position, vertices: &[Position]) -> bool {
    let others = vertices.iter().cycle().skip(1);
    let crosses = |(one, other): &(&Position, &Position)| {
        let is_between = (one.latitude > place.latitude) != (other.latitude > place.latitude);
        is_between && {
            let part = (place.latitude - one.latitude) / (other.latitude - one.latitude);
            place.longitude < one.longitude + part * (other.longitude - one.longitude)
        }
    };
    vertices.iter().zip(others).filter(crosses).count() % 2 == 1
}

/// A part of the earth.
#[derive(Clone, Debug, PartialEq)]
pub struct Region {
    /// Its middle.
    pub middle: Position,
    /// Its shape.
    pub outline: Outline,
}

impl Region {
    /// Metres from the middle to a place, if it is in the region.
    #[must_use]
    pub fn distance_m(&self, place: Position) -> Option<f64> {
        let distance_m = self.middle.distance_m(place);
        let is_outside = match &self.outline {
            Outline::Polygon(vertices) => !is_within(place, vertices),
            // No number, of places opposite to each other, is not farther.
            Outline::Circle(radius_m) => distance_m > *radius_m,
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

    /// The cells in which all its members are: one and its neighbours, none twice.
    #[must_use]
    pub fn cells(&self) -> Vec<Cell> {
        let bounds = self.bounds();
        let mut steps = self.steps();
        let is_polygon = matches!(self.outline, Outline::Polygon(_));
        while !self.is_covered(steps, bounds) && steps > 1 {
            steps -= 1;
            if !is_polygon {
                break;
            }
        }
        let own = self.centre().cell(steps, LATITUDE_MAX);
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
        cells
    }

    /// The quarters of a divisible cell that the region may reach, in the order of their scores.
    pub fn quarters(&self, cell: Cell) -> impl Iterator<Item = Cell> {
        let reach = self.reach();
        cell.quarters().filter(move |quarter| {
            let borders = quarter.borders();
            borders.north >= reach.south
                && borders.south <= reach.north
                && borders.east >= reach.west
                && borders.west <= reach.east
        })
    }

    /// Borders outside of which no position is in the region, by [`Region::distance_m`]. A region
    /// that contains a pole, or over the east or west end of the map, has all longitudes.
    fn reach(&self) -> Borders {
        // More than the rounding error.
        const SPARE_DEGREES: f64 = 1e-6;
        let Position {
            longitude,
            latitude,
        } = self.middle;
        let (sideways_m, upwards_m) = match &self.outline {
            Outline::Circle(radius_m) => (*radius_m, *radius_m),
            Outline::Box(width_m, height_m) => (width_m / 2.0, height_m / 2.0),
            Outline::Polygon(vertices) => return around(vertices).wider(SPARE_DEGREES),
        };
        let upwards = (upwards_m / EARTH_RADIUS_M).to_degrees();
        let (south, north) = (latitude - upwards, latitude + upwards);
        // Half of the angle to the farthest place to the side, on the shortest circle of latitude.
        let shrunk = south.abs().max(north.abs()).min(90.0).to_radians().cos();
        let half = (sideways_m / EARTH_RADIUS_M / 2.0).min(FRAC_PI_2).sin() / shrunk;
        let sideways = (2.0 * half.min(1.0).asin()).to_degrees();
        let (west, east) = (longitude - sideways, longitude + sideways);
        let goes_round = half >= 1.0 || west < -LONGITUDE_MAX || east > LONGITUDE_MAX;
        let (west, east) = if goes_round {
            (-LONGITUDE_MAX, LONGITUDE_MAX)
        } else {
            (west, east)
        };
        Borders {
            west,
            east,
            south,
            north,
        }
        .wider(SPARE_DEGREES)
    }

    /// The place whose cell is the middle one: of a polygon that of the box around it, since the
    /// mean of its vertices may lie anywhere.
    fn centre(&self) -> Position {
        let Outline::Polygon(vertices) = &self.outline else {
            return self.middle;
        };
        let borders = around(vertices);
        Position {
            longitude: f64::midpoint(borders.west, borders.east),
            latitude: f64::midpoint(borders.south, borders.north),
        }
    }

    /// How many steps the cells have, by how far the region reaches.
    fn steps(&self) -> u32 {
        let mut reach_m = match &self.outline {
            Outline::Circle(radius_m) => *radius_m,
            Outline::Box(width_m, height_m) => (width_m / 2.0).hypot(height_m / 2.0),
            Outline::Polygon(vertices) => {
                let reaches = vertices
                    .iter()
                    .map(|&vertex| self.middle.distance_m(vertex));
                reaches.fold(0.0, f64::max)
            }
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
        let latitude = self.centre().latitude.abs();
        let narrow = u32::from(latitude > NARROW_LATITUDE);
        let very_narrow = u32::from(latitude > VERY_NARROW_LATITUDE);
        steps
            .saturating_sub(2 + narrow + very_narrow)
            .clamp(1, STEPS_MAX)
    }

    /// Whether the cell of the middle and its neighbours reach as far as the region.
    fn is_covered(&self, steps: u32, bounds: Borders) -> bool {
        let own = self.centre().cell(steps, LATITUDE_MAX);
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
        let (width_m, height_m) = match &self.outline {
            Outline::Circle(radius_m) => (*radius_m, *radius_m),
            Outline::Box(width_m, height_m) => (width_m / 2.0, height_m / 2.0),
            Outline::Polygon(vertices) => return around(vertices),
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

impl Borders {
    /// The same, wider by so many degrees on each side.
    fn wider(self, degrees: f64) -> Borders {
        Borders {
            west: self.west - degrees,
            east: self.east + degrees,
            south: self.south - degrees,
            north: self.north + degrees,
        }
    }
}

/// The borders of a box around some places.
fn around(places: &[Position]) -> Borders {
    let longitudes = || places.iter().map(|place| place.longitude);
    let latitudes = || places.iter().map(|place| place.latitude);
    Borders {
        west: longitudes().fold(f64::INFINITY, f64::min),
        east: longitudes().fold(f64::NEG_INFINITY, f64::max),
        south: latitudes().fold(f64::INFINITY, f64::min),
        north: latitudes().fold(f64::NEG_INFINITY, f64::max),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In how many of these cells a place is.
    fn count_with(cells: &[Cell], place: Position) -> usize {
        let is_in = |cell: &&Cell| {
            let (low, high) = cell.scores();
            (low..high).contains(&place.score())
        };
        cells.iter().filter(is_in).count()
    }

    /// The places of a raster of so many degrees that are in a region.
    fn places_in(region: &Region, step: usize) -> Vec<Position> {
        let easts = (-180..=180).step_by(step);
        let norths = move || (-85..=85).step_by(step);
        let raster = easts.flat_map(|east| norths().map(move |north| (east, north)));
        let places = raster.map(|(east, north)| {
            let place = Position::of(f64::from(east), f64::from(north)).unwrap();
            Position::of_score(place.score())
        });
        let is_in = |place: &Position| region.distance_m(*place).is_some();
        places.filter(is_in).collect()
    }

    /// Whether each place of a region is in one of its cells.
    fn check(region: &Region) {
        let cells = region.cells();
        for place in places_in(region, 1) {
            assert_eq!(count_with(&cells, place), 1, "{region:?} {place:?}");
        }
    }

    /// Whether it is then in one of the quarters as well, and in one of theirs.
    fn check_quarters(region: &Region) {
        let cells = region.cells();
        let mut divided = cells.clone();
        for _ in 0..3 {
            let is_divisible = divided.iter().all(|cell| cell.is_divisible());
            if is_divisible {
                let quarters = divided.iter().flat_map(|&cell| region.quarters(cell));
                divided = quarters.collect();
            }
        }
        for place in places_in(region, 4) {
            let (whole, quarters) = (count_with(&cells, place), count_with(&divided, place));
            assert_eq!(quarters, whole, "{region:?} {place:?}");
        }
    }

    #[test]
    fn quarters_that_are_left_out_have_no_place_of_a_region() {
        let outlines = [
            Outline::Circle(1.0),
            Outline::Circle(300_000.0),
            Outline::Circle(1_500_000.0),
            Outline::Circle(19_000_000.0),
            Outline::Box(3_000_000.0, 200_000.0),
            Outline::Box(200_000.0, 6_000_000.0),
            Outline::Box(39_000_000.0, 39_000_000.0),
        ];
        for latitude in [-84.9, -60.0, -10.5, 0.0, 64.0, 80.0] {
            for longitude in [-179.9, 0.0, 11.3, 179.9] {
                for outline in outlines.clone() {
                    let middle = Position::of(longitude, latitude).unwrap();
                    check_quarters(&Region { middle, outline });
                }
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

    #[test]
    fn no_place_of_a_polygon_lies_outside_of_its_ranges() {
        let polygons: [&[(f64, f64)]; 4] = [
            &[(10.2, 10.1), (30.7, 12.3), (18.4, 44.9)],
            &[
                (-179.5, -84.5),
                (179.5, -84.5),
                (179.5, 84.5),
                (-179.5, 84.5),
            ],
            // The mean of these is far from some of them.
            &[
                (0.5, 0.5),
                (0.6, 0.5),
                (0.6, 0.6),
                (0.5, 0.6),
                (120.5, 70.5),
            ],
            &[
                (-20.5, 60.5),
                (20.5, 60.5),
                (0.3, 62.5),
                (20.5, 84.5),
                (-20.5, 84.5),
            ],
        ];
        for polygon in polygons {
            let vertices = polygon.iter();
            let vertices: Vec<Position> = vertices
                .map(|&(east, north)| Position::of(east, north).unwrap())
                .collect();
            let middle = mean(&vertices);
            let outline = Outline::Polygon(vertices.into());
            let region = Region { middle, outline };
            check(&region);
            check_quarters(&region);
        }
    }
}
