//! `cellar-bench load`: its options, and how they become a plan.

use clap::Args;

use crate::page::flowed;
use crate::template;
use cellar_load::address::Address;
use cellar_load::clock::nanoseconds;
use cellar_load::drive::{Drive, Limit};
use cellar_load::error::Error;
use cellar_load::load;
use cellar_load::plan::{Keys, Plan};
use cellar_load::popularity::Popularity;
use cellar_load::quantity::{ByteRange, TtlMix, parse_bytes, parse_count};
use cellar_load::record::Records;
use cellar_load::tls::TlsArgs;
use cellar_load::wire::{Login, Wire};

/// Options of `cellar-bench load`.
#[derive(Args, Clone, Debug)]
pub struct LoadArgs {
    /// Protocol the server speaks
    #[arg(long, value_name = "PROTOCOL", default_value = "memcached")]
    pub protocol: Wire,
    /// The server: HOST:PORT, tls:HOST:PORT or unix:PATH
    #[arg(long, value_name = "ADDR")]
    pub target: Address,
    #[command(flatten)]
    tls: TlsArgs,
    /// Who asks; over HTTP the password comes with each request
    #[arg(long, value_name = "NAME:PASSWORD")]
    user: Option<Login>,
    /// Connections, spread over the threads
    #[arg(long, default_value_t = 50)]
    pub connections: usize,
    /// Threads of the load generator
    #[arg(long, default_value_t = 1)]
    pub threads: usize,
    /// Requests in flight per connection, sent in one write (pipelining)
    #[arg(long, default_value_t = 1)]
    pub depth: usize,
    /// Different keys
    #[arg(long, default_value = "1M", value_parser = parse_count)]
    pub keys: u64,
    /// Length of every key
    #[arg(long, default_value = "16", value_parser = parse_bytes)]
    pub key_bytes: u64,
    /// Length of the values: N or LOW..HIGH
    #[arg(long, default_value = "100")]
    pub value_bytes: ByteRange,
    /// How requests spread over the keys: zipf:EXPONENT or uniform
    #[arg(long, default_value = "zipf:0.99")]
    pub distribution: Popularity,
    /// Share of gets [default: 0.9, or what --set-share leaves]
    #[arg(long, value_name = "SHARE")]
    pub get_share: Option<f64>,
    /// Share of sets [default: what --get-share leaves]
    #[arg(long, value_name = "SHARE")]
    pub set_share: Option<f64>,
    /// Time to live of sets: SECONDS, LOW..HIGH, or a mix such as 60@3,1h..2h@1; 0 = unlimited
    #[arg(long, default_value = "0")]
    pub ttl: TtlMix,
    /// Ends after so many requests [default: 1M]
    #[arg(long, value_parser = parse_count, conflicts_with = "seconds")]
    pub requests: Option<u64>,
    /// Ends after so many seconds
    #[arg(long)]
    pub seconds: Option<f64>,
    /// Open loop: so many requests per second, whatever the server does
    #[arg(long, value_name = "PER_S", value_parser = parse_count)]
    pub rate: Option<u64>,
    /// Stores every key once before the load
    #[arg(long)]
    pub fill: bool,
    /// Checks every value that is read; a wrong one makes the exit code 1
    #[arg(long)]
    pub verify: bool,
    /// Seed of all random choices
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Processors to bind the threads to, in turn
    #[arg(long, value_delimiter = ',')]
    pub cpus: Vec<usize>,
    /// Process whose processor time per request is measured
    #[arg(long, value_name = "PID")]
    pub server_pid: Option<u32>,
    /// Prints the report as JSON
    #[arg(long)]
    pub json: bool,
}

const DEFAULT_GET_SHARE: f64 = 0.9;
const DEFAULT_REQUESTS: u64 = 1_000_000;

impl LoadArgs {
    /// The plan that these options describe.
    ///
    /// # Errors
    /// [`Error::Usage`] if they contradict each other.
    pub fn plan(&self) -> Result<Plan, Error> {
        let key_bytes = usize::try_from(self.key_bytes).unwrap_or(usize::MAX);
        let limit = match (self.requests, self.seconds) {
            (Some(requests), _) => Limit::Requests(requests),
            (None, Some(seconds)) => Limit::Nanoseconds(nanoseconds(seconds)?),
            (None, None) => Limit::Requests(DEFAULT_REQUESTS),
        };
        let records = Records::new(self.keys, key_bytes, self.value_bytes);
        let target = self.target.clone().with_tls(&self.tls)?;
        let drive = Drive {
            login: self.user.clone(),
            depth: self.depth,
            rate_per_s: self.rate.map(|rate| rate as f64),
            cpus: self.cpus.clone(),
            server_pid: self.server_pid,
            ..Drive::new(self.protocol, &target, self.connections, limit)
        };
        Ok(Plan {
            threads: self.threads,
            keys: Keys::Drawn(self.distribution),
            get_share: self.get_share()?,
            ttl: self.ttl.clone(),
            verify: self.verify,
            seed: self.seed,
            ..Plan::gets(drive, records?)
        })
    }

    /// The share of gets; the shares are weights, one alone is a part of 1.
    fn get_share(&self) -> Result<f64, Error> {
        let weights = [self.get_share, self.set_share];
        if weights
            .into_iter()
            .flatten()
            .any(|weight| !(0.0..=1e9).contains(&weight))
        {
            return Err(Error::Usage(
                "--get-share and --set-share are not negative".to_owned(),
            ));
        }
        match weights {
            [Some(gets), Some(sets)] if gets + sets > 0.0 => Ok(gets / (gets + sets)),
            [Some(gets), None] if gets <= 1.0 => Ok(gets),
            [None, Some(sets)] if sets <= 1.0 => Ok(1.0 - sets),
            [None, None] => Ok(DEFAULT_GET_SHARE),
            _ => Err(Error::Usage(
                "--get-share alone, or --set-share alone, is 0 to 1; together not both zero"
                    .to_owned(),
            )),
        }
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
