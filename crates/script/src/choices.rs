//! Choices: the JSON settings of a script. They last until its run ends.
//!
//! Source: the manual of lua-cjson 2.1.

/// Deepest nesting, whatever the settings.
pub(super) const NESTING_MAX: i32 = 1_000;

/// The choices of one instance of the library.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choices {
    /// Whether an array with too many holes becomes an object.
    pub(super) converts_sparse: bool,
    /// Places for each value from which an array has too many; 0 for never.
    pub(super) sparse_ratio: i32,
    /// Places up to which it has not.
    pub(super) sparse_safe: i32,
    pub(super) encode_depth_max: i32,
    pub(super) decode_depth_max: i32,
    /// Digits of a number.
    pub(super) digits: i32,
    /// Reported to scripts, and without effect: no buffer is reused.
    pub(super) keeps_buffer: bool,
    /// A place in the words `off`, `on` and `null`.
    pub(super) encodes_invalid: usize,
    pub(super) decodes_invalid: bool,
}

impl Default for Choices {
    fn default() -> Choices {
        Choices {
            converts_sparse: false,
            sparse_ratio: 2,
            sparse_safe: 10,
            encode_depth_max: NESTING_MAX,
            decode_depth_max: NESTING_MAX,
            digits: 14,
            keeps_buffer: true,
            encodes_invalid: 0,
            decodes_invalid: true,
        }
    }
}
