//! `cellar-bench load`: its options, and how they become a plan.

use clap::Args;

use crate::page::flowed;
use crate::template;
use cellar_load::clock::nanoseconds;
use cellar_load::drive::Limit;
use cellar_load::error::Error;
use cellar_load::load;
use cellar_load::plan::Plan;
use cellar_load::quantity::parse_count;
use cellar_load::tls::TlsArgs;

/// Options of `cellar-bench load`.
#[derive(Args, Clone, Debug)]
pub struct LoadArgs {
    #[command(flatten)]
    plan: Plan,
    #[command(flatten)]
    tls: TlsArgs,
    /// Share of gets [default: 0.9, or what --set-share leaves]
    #[arg(long, value_name = "SHARE")]
    get_share: Option<f64>,
    /// Share of sets [default: what --get-share leaves]
    #[arg(long, value_name = "SHARE")]
    set_share: Option<f64>,
    /// Ends after so many requests
    #[arg(long, default_value = "1M", value_parser = parse_count, conflicts_with = "seconds")]
    requests: u64,
    /// Ends after so many seconds
    #[arg(long)]
    seconds: Option<f64>,
    /// Stores every key once before the load
    #[arg(long)]
    fill: bool,
    /// Prints the report as JSON
    #[arg(long)]
    json: bool,
}

const DEFAULT_GET_SHARE: f64 = 0.9;

impl LoadArgs {
    /// The plan that these options describe.
    ///
    /// # Errors
    /// [`Error::Usage`] if they contradict each other.
    pub fn plan(&self) -> Result<Plan, Error> {
        let mut plan = self.plan.clone();
        plan.drive.target = plan.drive.target.with_tls(&self.tls)?;
        plan.drive.limit = match self.seconds {
            Some(seconds) => Limit::Nanoseconds(nanoseconds(seconds)?),
            None => Limit::Requests(self.requests),
        };
        plan.get_share = self.get_share()?;
        plan.check()?;
        Ok(plan)
    }

    /// The share of gets; the shares are weights, one alone is a part of 1.
    fn get_share(&self) -> Result<f64, Error> {
        let rest = self.set_share.map(|sets| 1.0 - sets);
        let gets = self.get_share.or(rest).unwrap_or(DEFAULT_GET_SHARE);
        let sets = self.set_share.unwrap_or(1.0 - gets);
        let is_weight = |weight: f64| (0.0..=1e9).contains(&weight);
        if is_weight(gets) && is_weight(sets) && gets + sets > 0.0 {
            return Ok(gets / (gets + sets));
        }
        let what = "--get-share alone, or --set-share alone, is 0 to 1; together not both zero";
        Err(Error::Usage(what.to_owned()))
    }
}

/// Runs the load and prints its report.
///
/// # Errors
/// [`Error`] if the load cannot be run to its end, or found wrong values.
pub fn command(args: &LoadArgs) -> Result<(), Error> {
    let plan = args.plan()?;
    if args.fill {
        let fill = load::run(&plan.fill())?;
        let (stored, requests, elapsed_s) = (fill.set.stored, fill.requests, fill.elapsed_s);
        eprintln!("filled {stored} of {requests} keys in {elapsed_s:.1} s");
        if let Some(first) = &fill.first_error {
            eprintln!("{} stores were refused, the first: {first}", fill.errors);
        }
    }
    let report = load::run(&plan)?;
    let figures = serde_json::to_value(&report)
        .map_err(|error| Error::system("writing the report", error))?;
    if args.json {
        println!("{figures:#}");
    } else {
        let shown = template::render("load", include_str!("../pages/load.md.jinja"), &figures);
        let (text, _) = shown.map_err(|error| Error::Wrong(format!("the report: {error:#}")))?;
        print!("{}", flowed(&text));
    }
    if report.mismatches > 0 {
        return Err(Error::Wrong(format!(
            "{} of {} values are not what was stored",
            report.mismatches, report.get.hits
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        load: LoadArgs,
    }

    fn plan(options: &[&str]) -> Result<Plan, String> {
        let line = ["load", "--target", "127.0.0.1:1"].iter().chain(options);
        let line = Line::try_parse_from(line).map_err(|error| error.to_string())?;
        line.load.plan().map_err(|error| error.to_string())
    }

    #[test]
    fn shares_are_weights() {
        for (options, expected) in [
            (&[][..], 0.9),
            (&["--get-share", "0.25"], 0.25),
            (&["--set-share", "1"], 0.0),
            (&["--get-share", "3", "--set-share", "1"], 0.75),
        ] {
            assert!(
                (plan(options).unwrap().get_share - expected).abs() < 1e-12,
                "{options:?}"
            );
        }
        for bad in [
            &["--get-share", "2"][..],
            &["--get-share", "0", "--set-share", "0"],
        ] {
            assert!(plan(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn contradictions_are_refused_with_a_sentence() {
        for (options, word) in [
            (&["--requests", "1", "--seconds", "1"][..], "--seconds"),
            (&["--seconds", "0"], "--seconds"),
            (&["--keys", "1G", "--key-bytes", "4"], "fit"),
            (&["--protocol", "smtp"], "memcached"),
            (&["--value-bytes", "9..1"], "larger"),
        ] {
            let error = plan(options).unwrap_err();
            assert!(error.contains(word), "{options:?}: {error}");
        }
    }
}
