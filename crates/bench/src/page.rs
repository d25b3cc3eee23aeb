//! Pages: one measurement as Markdown with plots beside it, written whole by the program.
//!
//! Every page answers one question in the same order: what was asked, where a peer is better, what
//! was found, how it was measured, what it means, what it does not show, and where the numbers come
//! from.

use std::fmt::Write;
use std::path::Path;

use serde::de::DeserializeOwned;

use crate::error::Error;
use crate::machine::Setting;
use crate::plot::Plot;
use crate::versus::{self, Versus};

/// One measurement, told to a reader.
#[derive(Clone, Debug)]
pub struct Page {
    /// Heading.
    pub title: String,
    /// The question the page answers.
    pub question: String,
    /// How it was measured, in a few sentences.
    pub method: String,
    /// Figures of Cellar's beside those of peers; the page begins with those that are lost.
    pub versus: Vec<Versus>,
    /// What stands on the index, if this is the measurement of a source.
    pub headline: Option<Headline>,
    /// What was found: tables in Markdown, and plots.
    pub findings: Vec<Finding>,
    /// What a user may conclude.
    pub meaning: String,
    /// What the figures do not show.
    pub limits: String,
    /// Where and when.
    pub setting: Setting,
}

/// The figures beside a source's own on the index.
#[derive(Clone, Debug)]
pub struct Headline {
    /// Cellar's, as ratios.
    pub ours: String,
    /// The peers', as ratios.
    pub peers: String,
}

/// A part of what was found.
#[derive(Clone, Debug)]
pub enum Finding {
    /// Markdown: a table, with a sentence before it where it needs one.
    Text(String),
    /// A plot; the name is part of its file's name.
    Plot {
        /// A word or two, joined by hyphens.
        name: String,
        /// The plot, whose title is also its text for readers who see no images.
        plot: Plot,
    },
}

/// A file that a page consists of: its name and its text.
pub type PageFile = (String, String);

impl Page {
    /// The page of figures that were stored as JSON, drawn by `page`.
    ///
    /// # Errors
    /// [`Error::Wrong`] if the text does not hold such figures.
    pub fn stored<F: DeserializeOwned>(json: &str, page: fn(&F) -> Page) -> Result<Page, Error> {
        let figures = serde_json::from_str(json)
            .map_err(|error| Error::Wrong(format!("reading stored figures: {error}")))?;
        Ok(page(&figures))
    }

    /// Writes the page to `file` and its plots beside it, as `<page>-<name>.svg`.
    ///
    /// # Errors
    /// [`Error::System`] if a file cannot be written, and those of [`Plot::svg`].
    pub fn write(&self, file: &Path) -> Result<(), Error> {
        let stem = file.file_stem().unwrap_or_default().to_string_lossy();
        for (name, text) in self.files(&stem)? {
            let file = file.with_file_name(name);
            std::fs::write(&file, text)
                .map_err(|error| Error::system(format!("writing {}", file.display()), error))?;
        }
        Ok(())
    }

    /// The files of the page called `stem`: the text first, then its plots.
    ///
    /// # Errors
    /// As [`Plot::svg`].
    pub fn files(&self, stem: &str) -> Result<Vec<PageFile>, Error> {
        let mut files = vec![(format!("{stem}.md"), self.text(stem))];
        for finding in &self.findings {
            if let Finding::Plot { name, plot } = finding {
                files.push((format!("{stem}-{name}.svg"), plot.svg()?));
            }
        }
        Ok(files)
    }

    fn text(&self, stem: &str) -> String {
        let mut text = format!(
            "# {}\n\n{}\n\n## Where a peer is better\n\n{}\n## What was found\n\n",
            self.title,
            self.question,
            versus::section(&self.versus)
        );
        for finding in &self.findings {
            // Writing to a string cannot fail.
            let _ = match finding {
                Finding::Text(markdown) => write!(text, "{}\n\n", markdown.trim_end()),
                Finding::Plot { name, plot } => {
                    write!(text, "![{}]({stem}-{name}.svg)\n\n", plot.title)
                }
            };
        }
        for (heading, body) in [
            ("How it was measured", &self.method),
            ("What it means", &self.meaning),
            ("What it does not show", &self.limits),
        ] {
            let _ = write!(text, "## {heading}\n\n{}\n\n", body.trim_end());
        }
        text + &self.source()
    }

    /// Where the figures come from.
    fn source(&self) -> String {
        let Setting {
            date,
            command,
            commit,
            cpu,
            cpus,
            kernel,
        } = &self.setting;
        format!(
            "## Where the figures come from\n\n| | |\n|---|---|\n| command | `{command}` |\n\
             | machine | {cpus} x {cpu}, Linux {kernel} |\n| commit | {commit} |\n\
             | date | {date} |\n"
        )
    }
}

/// Names in the order in which they first come, each once.
pub(crate) fn distinct<'n>(names: impl Iterator<Item = &'n str>) -> Vec<&'n str> {
    let mut distinct = Vec::new();
    for name in names {
        if !distinct.contains(&name) {
            distinct.push(name);
        }
    }
    distinct
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::{Axis, Scale, Series};

    #[test]
    fn a_page_shows_every_part_and_names_its_plots() {
        let axis = |label: &str| Axis {
            label: label.to_owned(),
            scale: Scale::Linear,
        };
        let plot = Plot {
            title: "Memory of the dead".to_owned(),
            x: axis("s"),
            y: axis("MiB"),
            series: vec![Series {
                label: "cellar".to_owned(),
                points: vec![(0.0, 1.0)],
            }],
        };
        let page = Page {
            title: "Expiry".to_owned(),
            question: "Who pays for the dead?".to_owned(),
            method: "So.".to_owned(),
            versus: vec![Versus::less("us", 2.0, "redis", 1.0)],
            headline: None,
            findings: vec![
                Finding::Text("| a |\n|---|\n| 1 |\n".to_owned()),
                Finding::Plot {
                    name: "memory".to_owned(),
                    plot,
                },
            ],
            meaning: "Nobody.".to_owned(),
            limits: "Much.".to_owned(),
            setting: Setting::here(),
        };
        let text = page.text("expiry");
        let peers = text.find("| us | redis | 1.000 | 2.000 | 2.000 |");
        assert!(
            peers < text.find("| 1 |"),
            "a peer that wins comes first: {text}"
        );
        let part = "| 1 |\n\n![Memory of the dead](expiry-memory.svg)\n\n## How it was measured";
        assert!(text.contains(part), "{text}");
        assert!(text.starts_with("# Expiry\n\nWho pays for the dead?\n\n"));
        let folder = tempfile::tempdir().unwrap();
        page.write(&folder.path().join("expiry.md")).unwrap();
        assert!(folder.path().join("expiry-memory.svg").exists());
    }
}
