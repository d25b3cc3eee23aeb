//! Progress: a bar on stderr while a long run lasts, and nothing where stderr is no terminal.

use indicatif::{ProgressBar, ProgressStyle};

/// A bar that goes away when it is dropped.
#[derive(Debug)]
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// Towards a known number of steps.
    pub(crate) fn towards(steps: usize, what: &str) -> Progress {
        let bar = ProgressBar::new(steps as u64);
        Progress::with(bar, "{msg} {wide_bar} {percent:>3} % {eta:>4}", what)
    }

    /// Without a known end: shows how many steps are done.
    pub(crate) fn counting(what: &str) -> Progress {
        let bar = ProgressBar::new_spinner();
        Progress::with(bar, "{spinner} {msg}: {human_pos} rows", what)
    }

    fn with(bar: ProgressBar, template: &str, what: &str) -> Progress {
        // A template that does not parse leaves the library's own look.
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_message(what.to_owned());
        Progress(bar)
    }

    /// Shows that so many steps are done.
    pub(crate) fn at(&self, steps: usize) {
        self.0.set_position(steps as u64);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
