//! `cellar-bench load`: its options, and how they become a plan.

use clap::Args;

use crate::page::flowed;
use crate::template;
use cellar_load::{Error, Limit, Plan, TlsArgs, load, nanoseconds, parse_count};

/// Options of `cellar-bench load`.
#[derive(Args, Clone, Debug)]
pub struct LoadArgs {
    #[command(flatten)]
    plan: Plan,
    #[command(flatten)]
    tls: TlsArgs,
    /// Share of gets, from 0 to 1; the others are sets
    #[arg(long, value_name = "SHARE", default_value_t = 0.9)]
    get_share: f64,
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
        if !(0.0..=1.0).contains(&self.get_share) {
            return Err(Error::Usage("--get-share is 0 to 1".to_owned()));
        }
        plan.get_share = self.get_share;
        plan.check()?;
        Ok(plan)
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
    fn contradictions_are_refused_with_a_sentence() {
        for (options, word) in [
            (&["--requests", "1", "--seconds", "1"][..], "--seconds"),
            (&["--seconds", "0"], "--seconds"),
            (&["--get-share", "2"], "--get-share"),
            (&["--keys", "1G", "--key-bytes", "4"], "fit"),
            (&["--protocol", "smtp"], "memcached"),
            (&["--value-bytes", "9..1"], "larger"),
        ] {
            let error = plan(options).unwrap_err();
            assert!(error.contains(word), "{options:?}: {error}");
        }
    }
}
