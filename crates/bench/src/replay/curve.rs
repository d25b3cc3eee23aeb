//! The miss-ratio curve: misses over memory, of the engine and of each baseline.

use super::baseline::Baseline;
use super::report::Run;
use crate::plot::{Axis, Plot, Scale, Series};

/// The curve of one trace.
pub(super) fn plot(runs: &[&Run], baselines: &[Baseline]) -> Plot {
    let mut runs = runs.to_vec();
    runs.sort_by_key(|run| run.memory_bytes);
    let trace = runs.first().map_or("", |run| run.trace.as_str());
    let others = baselines.iter().map(|baseline| {
        let name = baseline.name();
        let ratio = |run: &&Run| Some((run.memory_bytes, run.baselines.get(name)?.miss_ratio));
        line(name, runs.iter().filter_map(ratio))
    });
    let own = runs.iter().map(|run| (run.memory_bytes, run.miss_ratio));
    Plot {
        title: format!("Misses of {trace} over memory"),
        x: Axis {
            label: "memory, MiB".to_owned(),
            scale: Scale::Logarithmic,
        },
        y: Axis {
            label: "miss ratio".to_owned(),
            scale: Scale::Linear,
        },
        series: std::iter::once(line("cellar", own)).chain(others).collect(),
    }
}

#[expect(clippy::cast_precision_loss, reason = "shown on an axis")]
fn line(label: &str, points: impl Iterator<Item = (u64, f64)>) -> Series {
    let in_mib = |(bytes, ratio): (u64, f64)| (bytes as f64 / f64::from(1 << 20), ratio);
    Series {
        label: label.to_owned(),
        points: points.map(in_mib).collect(),
    }
}
