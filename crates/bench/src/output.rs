//! Output: the options that say where the figures of a measurement go, and how they get there.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;

use crate::error::Error;
use crate::page::Page;

/// The file name that means stdout.
const STDOUT: &str = "-";

/// Options of a measurement that prints its tables, and may write all figures and a page.
#[derive(Args, Clone, Debug)]
pub struct FileArgs {
    /// Writes all figures to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Writes a page with tables and plots to this Markdown file
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
}

impl FileArgs {
    /// Writes what was asked for.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub(crate) fn write(
        &self,
        figures: &impl Serialize,
        page: impl FnOnce() -> Page,
    ) -> Result<(), Error> {
        write_json(self.json.as_deref(), figures)?;
        write_page(self.page.as_deref(), page)
    }
}

/// Options of a measurement that prints its tables or all figures, and may write a page.
#[derive(Args, Clone, Debug)]
pub struct PrintArgs {
    /// Prints JSON instead of a table, or writes it to --json=FILE
    #[arg(
        long,
        value_name = "FILE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = STDOUT
    )]
    json: Option<PathBuf>,
    /// Writes a page with tables and plots to this Markdown file
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
}

impl PrintArgs {
    /// Whether a page is asked for.
    pub(crate) fn has_page(&self) -> bool {
        self.page.is_some()
    }

    /// Writes the page, if it is asked for.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub(crate) fn write_page(&self, page: impl FnOnce() -> Page) -> Result<(), Error> {
        write_page(self.page.as_deref(), page)
    }

    /// Prints JSON to stdout or a file if `--json` says so, else the text.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub(crate) fn print(
        &self,
        figures: &impl Serialize,
        text: impl FnOnce() -> String,
    ) -> Result<(), Error> {
        match self.json.as_deref() {
            None => print!("{}", text()),
            Some(file) if file.as_os_str() == STDOUT => {
                let text = serde_json::to_string_pretty(figures)
                    .map_err(|error| Error::system("writing the report", error))?;
                println!("{text}");
            }
            file => write_json(file, figures)?,
        }
        Ok(())
    }
}

/// Writes the figures to a file, if one is given.
///
/// # Errors
/// If the file cannot be written.
pub(crate) fn write_json(file: Option<&Path>, figures: &impl Serialize) -> Result<(), Error> {
    let Some(file) = file else { return Ok(()) };
    let failed = |error| Error::system(format!("writing {}", file.display()), error);
    let text = serde_json::to_string_pretty(figures).map_err(|error| failed(error.into()))?;
    std::fs::write(file, text + "\n").map_err(failed)
}

fn write_page(file: Option<&Path>, page: impl FnOnce() -> Page) -> Result<(), Error> {
    match file {
        Some(file) => page().write(file),
        None => Ok(()),
    }
}
