//! What a measurement is: options that find figures.

use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};

use cellar_load::Error;

/// A measurement: its options, which find its figures. Both together, with where and when they come
/// from, are the raw result.
pub(crate) trait Measurement: Args + Serialize {
    /// Measures; the figures by the names that the page's template reads.
    /// [`Error`] if that was not possible, or found something wrong.
    fn measure(&self) -> Result<Value, Error>;

    /// What is wrong with figures that are worth writing nevertheless.
    /// [`Error::Wrong`] if there is such a thing.
    fn check(_figures: &Value) -> Result<(), Error> {
        Ok(())
    }
}

/// Figures, and others beside them in the same object.
pub(crate) fn both(figures: impl Serialize, mut others: Value) -> Value {
    let mut all = json!(figures);
    if let (Some(all), Some(others)) = (all.as_object_mut(), others.as_object_mut()) {
        all.append(others);
    }
    all
}
