//! Pages: what HTTP answers beside the data path.

pub mod status;
