//! `cellar-bench pages`: the pages about all measurements and their index, from raw results alone.
//!
//! Nothing in these pages is written by hand: `--check` fails if a file differs from what the raw
//! results give, if one is missing, or if one is left over.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::page::{self, PageFile, flowed};
use crate::parts::{INSTRUCTIONS, PARTS, RESULTS, named};
use crate::template;
use cellar_load::Error;

/// The name of the index.
const INDEX: &str = "README.md";

/// Options of `cellar-bench pages`.
#[derive(Args, Clone, Debug)]
pub struct PagesArgs {
    /// Writes nothing, and fails if a page differs from what its raw result gives
    #[arg(long)]
    check: bool,
    /// The folder of the raw results
    #[arg(long, value_name = "FOLDER", default_value = RESULTS)]
    results: PathBuf,
    /// The folder of the pages
    #[arg(long, value_name = "FOLDER", default_value = "docs/benchmarks")]
    pages: PathBuf,
}

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
    for part in PARTS {
        if let Some(page) = part.page(results)? {
            let (name, sentence, headline) = (part.name, part.sentence, &page.headline);
            let row = serde_json::json!({"name": name, "sentence": sentence, "headline": headline});
            measured.push(row);
            files.extend(page.files);
        }
    }
    let figures = serde_json::json!({ "parts": measured });
    let (text, _) = template::render("index", include_str!("../pages/index.md.jinja"), &figures)
        .map_err(|error| Error::Wrong(format!("the index: {error:#}")))?;
    files.push((INDEX.to_owned(), flowed(&text)));
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
        let is_of_part = name.strip_suffix(".json").and_then(named).is_some();
        if !is_of_part && name != INSTRUCTIONS {
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
        page::write(&pages.join(name), text)?;
    }
    for name in names(pages)? {
        let is_of = |part: &str| {
            let rest = name.strip_prefix(part);
            rest.is_some_and(|rest| {
                rest == ".md" || (rest.starts_with('-') && rest.ends_with(".svg"))
            })
        };
        if PARTS.iter().any(|part| is_of(part.name)) && !files.contains_key(&name) {
            let file = pages.join(name);
            std::fs::remove_file(&file).map_err(|error| failed(&file, error))?;
        }
    }
    Ok(())
}
