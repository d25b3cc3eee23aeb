//! What a measurement is: options that find figures.

use clap::Args;
use serde::Serialize;

use cellar_load::Error;

/// A measurement: its options, which find its figures.
pub(crate) trait Measurement: Args {
    /// The figures; with where and when they come from, they are the raw result.
    type Outcome: Serialize;

    /// Measures.
    ///
    /// # Errors
    /// [`Error`] if that was not possible, or found something wrong.
    fn measure(&self) -> Result<Self::Outcome, Error>;

    /// What is wrong with figures that are worth writing nevertheless.
    ///
    /// # Errors
    /// [`Error::Wrong`] if there is such a thing.
    fn check(_outcome: &Self::Outcome) -> Result<(), Error> {
        Ok(())
    }
}
