//! `cellar-bench pages`: the pages about all measurements and their index, from raw results alone.
//!
//! Nothing in these pages is written by hand: `--check` fails if a file differs from what the raw
//! results give, if one is missing, or if one is left over.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::error::Error;
use crate::page::{Headline, PageFile};
use crate::parts::{PARTS, named};

/// The name of the index.
const INDEX: &str = "README.md";

/// Options of `cellar-bench pages`.
#[derive(Args, Clone, Debug)]
pub struct PagesArgs {
    /// Writes nothing, and fails if a page differs from what its raw result gives
    #[arg(long)]
    check: bool,
    /// The folder of the raw results
    #[arg(long, value_name = "FOLDER", default_value = "bench/results")]
    results: PathBuf,
    /// The folder of the pages
    #[arg(long, value_name = "FOLDER", default_value = "docs/benchmarks")]
    pages: PathBuf,
}

/// What a source claims, in its own figures.
struct Source {
    part: &'static str,
    what: &'static str,
    claim: &'static str,
}

const SOURCES: [Source; 5] = [
    Source {
        part: "s1",
        what: "LRU in the process of an ad platform, in front of Redis",
        claim: "mean and TP999 at most 0.20 x Redis alone, all stages together (16 cores)",
    },
    Source {
        part: "s2",
        what: "memcached's hash table cut into blocks",
        claim: "inserts of 8 threads over 1: memcached 0.60, theirs 0.86 (4 cores)",
    },
    Source {
        part: "s3",
        what: "a memcached client for Java",
        claim: "1.25 to 1.43 x the old client, 1.66 x on a cluster",
    },
    Source {
        part: "s4",
        what: "a cache service over HTTP, which became BigCache",
        claim: "asked for at 10 k requests/s: mean 5 ms, p99.9 10 ms, p99.999 400 ms",
    },
    Source {
        part: "s5",
        what: "keys that expire in Redis at Twitter",
        claim: "up to 0.25 of the memory came back by looking for more of the dead, at a price in \
                p99.9",
    },
];

/// Writes the pages, or checks them.
///
/// # Errors
/// [`Error::Wrong`] if the check finds something; [`Error`] if a raw result or a page cannot be
/// read or written.
pub fn command(args: &PagesArgs) -> Result<(), Error> {
    let files = render(&args.results)?;
    if args.check {
        let wrong = differences(&files, &args.results, &args.pages)?;
        return if wrong.is_empty() {
            Ok(())
        } else {
            let hint = "`cellar-bench pages` writes them anew";
            Err(Error::Wrong(format!("{}\n{hint}", wrong.join("\n"))))
        };
    }
    write(&files, &args.pages)
}

/// All files that the raw results in a folder give, by name.
///
/// # Errors
/// [`Error`] if a raw result cannot be read or is none of its part.
pub fn render(results: &Path) -> Result<BTreeMap<String, String>, Error> {
    let mut files: Vec<PageFile> = Vec::new();
    let mut measured = Vec::new();
    for part in &PARTS {
        if let Some(page) = part.page(results)? {
            files.extend(page.files(part.name)?);
            measured.push((part.name, page.headline));
        }
    }
    files.push((INDEX.to_owned(), index(&measured)));
    Ok(files.into_iter().collect())
}

/// What is wrong with the pages in a folder, a line for each file.
///
/// # Errors
/// [`Error::System`] if a folder cannot be read.
pub fn differences(
    files: &BTreeMap<String, String>,
    results: &Path,
    pages: &Path,
) -> Result<Vec<String>, Error> {
    let mut wrong = Vec::new();
    for (name, text) in files {
        match std::fs::read_to_string(pages.join(name)) {
            Ok(stored) if stored == *text => {}
            Ok(_) => wrong.push(format!("{name} differs from what its raw result gives")),
            Err(_) => wrong.push(format!("{name} is missing")),
        }
    }
    for name in names(pages)? {
        if !files.contains_key(&name) {
            wrong.push(format!("{name} has no raw result"));
        }
    }
    for name in names(results)? {
        if name
            .strip_suffix(".json")
            .and_then(named)
            .is_none_or(|part| !name.starts_with(part.name))
        {
            wrong.push(format!("{name} is no raw result of any part"));
        }
    }
    Ok(wrong)
}

/// The names of the files in a folder, but for hidden ones.
fn names(folder: &Path) -> Result<Vec<String>, Error> {
    let failed = |error| Error::system(format!("reading {}", folder.display()), error);
    let entries = std::fs::read_dir(folder).map_err(failed)?;
    let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let mut names: Vec<String> = names.collect::<Result<_, _>>().map_err(failed)?;
    names.retain(|name| !name.starts_with('.'));
    names.sort();
    Ok(names)
}

/// Writes the files, and removes those of parts that have no raw result any more.
fn write(files: &BTreeMap<String, String>, pages: &Path) -> Result<(), Error> {
    let failed = |file: &Path, error| Error::system(format!("writing {}", file.display()), error);
    std::fs::create_dir_all(pages).map_err(|error| failed(pages, error))?;
    for (name, text) in files {
        let file = pages.join(name);
        std::fs::write(&file, text).map_err(|error| failed(&file, error))?;
    }
    for name in names(pages)? {
        let part = name.split(['.', '-']).next().and_then(named);
        if part.is_some() && !files.contains_key(&name) {
            let file = pages.join(name);
            std::fs::remove_file(&file).map_err(|error| failed(&file, error))?;
        }
    }
    Ok(())
}

/// The index: the sources' figures, then all pages.
fn index(measured: &[(&str, Option<Headline>)]) -> String {
    let mut text = "# Benchmarks\n\nWhat Cellar promises, measured. `make bench` measures all of \
        it; `cellar-bench pages`\nwrites these pages from the raw results in \
        [bench/results/](../../bench/results) alone, and\n`make check` fails if one differs from \
        them. Each page begins with the figures in which a peer is\nbetter, and ends with its \
        command, machine, commit and date.\n\n## What the sources claim\n\n\
        | source | its own figure | Cellar | peer | page |\n|---|---|---|---|---|\n"
        .to_owned();
    for source in &SOURCES {
        let part = source.part;
        let found = measured.iter().find(|(name, _)| *name == part);
        // Writing to a string cannot fail.
        let _ = match found {
            Some((_, Some(Headline { ours, peers }))) => writeln!(
                text,
                "| {} | {} | {ours} | {peers} | [{part}]({part}.md) |",
                source.what, source.claim
            ),
            Some((_, None)) => writeln!(
                text,
                "| {} | {} | see the page | see the page | [{part}]({part}.md) |",
                source.what, source.claim
            ),
            None => writeln!(
                text,
                "| {} | {} | not measured yet | | |",
                source.what, source.claim
            ),
        };
    }
    text += "\n## All measurements\n\n";
    for part in PARTS {
        if measured.iter().any(|(name, _)| *name == part.name) {
            let _ = writeln!(text, "- [{0}]({0}.md): {1}", part.name, part.sentence);
        }
    }
    text
}
