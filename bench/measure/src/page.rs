//! Pages: one measurement as Markdown with plots beside it, written whole by the program.
//!
//! Every page answers one question in the same order: what was asked, where a peer is better, what
//! was found, how it was measured, what it means, what it does not show, and where the numbers come
//! from. All but the last is the measurement's template.

use std::path::Path;

use serde_json::Value;

use crate::earlier;
use crate::machine::Setting;
use crate::template::{self, Headline};
use cellar_load::Error;

/// A file that a page consists of: its name and its text.
pub(crate) type PageFile = (String, String);

/// One measurement, told to a reader.
#[derive(Debug)]
pub(crate) struct Page {
    /// The text first, then its plots.
    pub(crate) files: Vec<PageFile>,
    /// What stands on the index, if this is the measurement of a source.
    pub(crate) headline: Option<Headline>,
}

impl Page {
    /// The page of a raw result, whose files are called `stem`.
    /// [`Error::Wrong`] if the raw result does not have what its template reads.
    pub(crate) fn of(stem: &str, template: &str, figures: &Value) -> Result<Page, Error> {
        let wrong = |error: &dyn std::fmt::Display| Error::Wrong(format!("{stem}: {error}"));
        let setting = serde_json::from_value(figures["setting"].clone());
        let setting: Setting = setting.map_err(|error| wrong(&error))?;
        let rendered = template::render(stem, template, figures);
        let (text, gathered) = rendered.map_err(|error| wrong(&format!("{error:#}")))?;
        let earlier = earlier::section(template, figures, &gathered.verdict());
        let text = format!("{}{earlier}\n{}", flowed(&text), setting.source());
        let mut files = vec![(format!("{stem}.md"), text)];
        for (name, plot) in &gathered.plots {
            files.push((format!("{stem}-{name}.svg"), plot.svg()?));
        }
        Ok(Page {
            files,
            headline: gathered.headline,
        })
    }

    /// Its text.
    pub(crate) fn text(&self) -> &str {
        self.files.first().map_or("", |(_, text)| text)
    }

    /// Writes its files into a folder.
    /// [`Error::System`] if a file cannot be written.
    pub(crate) fn write(&self, folder: &Path) -> Result<(), Error> {
        let mut files = self.files.iter();
        files.try_for_each(|(name, text)| write(&folder.join(name), text))
    }
}

/// Writes a file.
/// [`Error::System`] with its name.
pub(crate) fn write(file: &Path, text: &str) -> Result<(), Error> {
    let failed = |error| Error::system(format!("writing {}", file.display()), error);
    std::fs::write(file, text).map_err(failed)
}

/// Markdown with each paragraph on a line of its own, and one empty line between any two blocks.
pub(crate) fn flowed(text: &str) -> String {
    let is_block = |line: &str| ["|", "#", "!["].iter().any(|mark| line.starts_with(mark));
    let mut flowed = String::new();
    let mut before = "";
    for line in text.trim().lines().map(str::trim_end) {
        let is_begun = !before.is_empty() && !is_block(before);
        if is_begun && !line.is_empty() && !is_block(line) && !line.starts_with("- ") {
            flowed.push(' ');
        } else if !(flowed.is_empty() || line.is_empty() && before.is_empty()) {
            flowed.push('\n');
        }
        flowed += line.trim_start();
        before = line;
    }
    flowed + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_flow_and_tables_lists_and_headings_stay() {
        let text =
            "\n\n# A title\n\nOne\ntwo.  \n\n\n| a |\n|---|\n| b |\n- first\n  of it\n- second\n";
        let expected = "# A title\n\nOne two.\n\n| a |\n|---|\n| b |\n- first of it\n- second\n";
        assert_eq!(flowed(text), expected);
    }

    #[test]
    fn a_raw_result_without_what_its_template_reads_is_an_error() {
        let setting = serde_json::to_value(Setting::here()).unwrap();
        let figures = serde_json::json!({ "setting": setting, "rows": [] });
        let page = |template| Page::of("x", template, &figures).map(|page| page.text().to_owned());
        assert!(
            page("# {{ rows|length }}")
                .unwrap()
                .starts_with("# 0\n\n## Where the")
        );
        let error = page("{{ missing }}").unwrap_err().to_string();
        assert!(error.starts_with("x: "), "{error}");
        assert!(Page::of("x", "", &serde_json::json!({})).is_err());
    }
}
