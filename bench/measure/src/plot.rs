//! Plots: lines over two axes, as an SVG file that a page can show.
//!
//! One look for all plots of the project: the same size, the same colours in the same order, so
//! that a reader who knows one reads the next at a glance.

use std::ops::Range;

use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::{
    Cartesian2d, ChartBuilder, ChartContext, Circle, Color, DrawingArea, DrawingAreaErrorKind,
    IntoDrawingArea, IntoLogRange, LineSeries, PathElement, RGBColor, Ranged, SVGBackend,
    SeriesLabelPosition, WHITE,
};

use cellar_load::Error;

const SIZE: (u32, u32) = (900, 520);
const FONT: &str = "sans-serif";
/// Colours that people with any colour vision tell apart (Okabe and Ito), the most telling first.
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(120, 120, 120),
    RGBColor(0, 0, 0),
];
const MARKERS_MAX: usize = 40;
/// The part of a plot's height that a line's name takes, and all names at most.
const NAME_SHARE: f64 = 0.05;
const NAMES_SHARE_MAX: f64 = 0.4;

/// One line of a plot.
#[derive(Clone, Debug)]
pub struct Series {
    /// Its name in the legend.
    pub label: String,
    /// Its points, in the order they are joined.
    pub points: Vec<(f64, f64)>,
}

/// A plot.
#[derive(Clone, Debug)]
pub struct Plot {
    /// The text above it.
    pub title: String,
    /// What is measured along the horizontal axis, with its unit.
    pub x: String,
    /// What is measured along the vertical axis; a linear one begins at zero.
    pub y: String,
    /// Which of the two are logarithmic; all their values must be greater than zero.
    pub is_log: [bool; 2],
    /// The lines; at least one point in all.
    pub series: Vec<Series>,
}

impl Plot {
    /// The plot as the text of an SVG file.
    ///
    /// # Errors
    /// [`Error::Usage`] without any point, or for a logarithmic axis with a value that is not
    /// greater than zero.
    pub fn svg(&self) -> Result<String, Error> {
        let x = self.range(&self.x, self.is_log[0], |point| point.0)?;
        let y = self.below_names(self.range(&self.y, self.is_log[1], |point| point.1)?);
        let mut svg = String::new();
        {
            let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
            self.draw(&area, x, y)
                .map_err(|error| Error::Wrong(format!("drawing a plot: {error}")))?;
        }
        Ok(svg)
    }

    /// The values an axis has to show.
    fn range(
        &self,
        label: &str,
        is_log: bool,
        of: fn(&(f64, f64)) -> f64,
    ) -> Result<Range<f64>, Error> {
        let values = || self.series.iter().flat_map(|series| &series.points).map(of);
        let (low, high) = (values().reduce(f64::min), values().reduce(f64::max));
        match (low, high) {
            (Some(low), Some(_)) if is_log && low <= 0.0 => Err(Error::Usage(format!(
                "{low} does not fit on the logarithmic axis \"{label}\""
            ))),
            (Some(low), Some(high)) if is_log => Ok(low / 1.1..high * 1.1),
            (Some(low), Some(high)) if high > low.min(0.0) => Ok(low.min(0.0)..high * 1.05),
            (Some(low), Some(_)) => Ok(low.min(0.0)..1.0),
            _ => Err(Error::Usage("a plot needs at least one point".to_owned())),
        }
    }

    /// The vertical values with room above them for the names of the lines.
    fn below_names(&self, y: Range<f64>) -> Range<f64> {
        let names = (NAME_SHARE * self.series.len() as f64).min(NAMES_SHARE_MAX);
        let high = match self.is_log[1] {
            false => y.start + (y.end - y.start) / (1.0 - names),
            true => y.start * (y.end / y.start).powf(1.0 / (1.0 - names)),
        };
        y.start..high
    }

    fn draw(&self, area: &Area<'_>, x: Range<f64>, y: Range<f64>) -> Drawn {
        area.fill(&WHITE)?;
        let mut builder = ChartBuilder::on(area);
        builder
            .caption(&self.title, (FONT, 20))
            .margin(14)
            .x_label_area_size(44)
            .y_label_area_size(70);
        match self.is_log {
            [false, false] => self.fill(builder.build_cartesian_2d(x, y)?),
            [false, true] => self.fill(builder.build_cartesian_2d(x, y.log_scale())?),
            [true, false] => self.fill(builder.build_cartesian_2d(x.log_scale(), y)?),
            [true, true] => self.fill(builder.build_cartesian_2d(x.log_scale(), y.log_scale())?),
        }?;
        area.present()
    }

    fn fill<'a, 'b: 'a, X, Y>(&self, mut chart: Chart<'a, 'b, X, Y>) -> Drawn
    where
        X: AsRangedCoord<Value = f64> + Ranged<ValueType = f64> + ValueFormatter<f64>,
        Y: AsRangedCoord<Value = f64> + Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        chart
            .configure_mesh()
            .x_desc(&self.x)
            .y_desc(&self.y)
            .label_style((FONT, 14))
            .axis_desc_style((FONT, 15))
            .light_line_style(WHITE)
            .draw()?;
        for (series, colour) in self.series.iter().zip(COLOURS.iter().cycle()) {
            let line = LineSeries::new(series.points.iter().copied(), colour.stroke_width(2));
            let colour = *colour;
            chart
                .draw_series(line)?
                .label(&series.label)
                .legend(move |(x, y)| {
                    PathElement::new([(x, y), (x + 22, y)], colour.stroke_width(3))
                });
            if series.points.len() <= MARKERS_MAX {
                let markers = series.points.iter();
                chart.draw_series(markers.map(|&at| Circle::new(at, 3, colour.filled())))?;
            }
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperRight)
            .background_style(WHITE.mix(0.85))
            .label_font((FONT, 14))
            .draw()
    }
}

type Backend<'a> = SVGBackend<'a>;
type Area<'a> = DrawingArea<Backend<'a>, Shift>;
type Chart<'a, 'b, X, Y> = ChartContext<'a, Backend<'b>, Cartesian2d<X, Y>>;
type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(is_log: bool, points: Vec<(f64, f64)>) -> Plot {
        Plot {
            title: "Misses".to_owned(),
            x: "memory, MiB".to_owned(),
            y: "miss ratio".to_owned(),
            is_log: [is_log; 2],
            series: vec![Series {
                label: "cellar".to_owned(),
                points,
            }],
        }
    }

    #[test]
    fn a_plot_shows_its_texts_and_its_line() {
        for is_log in [false, true] {
            let svg = plot(is_log, vec![(1.0, 0.5), (2.0, 0.25)]).svg().unwrap();
            for text in ["Misses", "memory, MiB", "miss ratio", "cellar", "<polyline"] {
                assert!(svg.contains(text), "{text} in {svg}");
            }
        }
    }

    #[test]
    fn what_cannot_be_drawn_is_refused() {
        assert!(plot(false, vec![]).svg().is_err());
        assert!(plot(true, vec![(0.0, 1.0)]).svg().is_err());
        assert!(plot(false, vec![(0.0, 0.0)]).svg().is_ok());
    }
}
