//! The table of the binary protocol's requests.
//!
//! One row for each operation; its quiet form is another opcode of the same row. The decoder takes
//! from here which parts a request has to have.

/// One request, and its quiet form.
#[derive(Clone, Copy, Debug)]
pub struct Operation {
    /// Its name.
    pub name: &'static str,
    /// Its opcode.
    pub code: u8,
    /// The opcode of its quiet form.
    pub quiet_code: Option<u8>,
    /// The fields of its extras.
    pub extras: &'static str,
    /// Length of its extras.
    pub extras_bytes: u8,
    /// Whether the extras may be left out.
    pub extras_optional: bool,
    /// Whether it has a key.
    pub key: Part,
    /// Whether it has a value.
    pub value: Part,
    /// One line of documentation.
    pub summary: &'static str,
}

/// Whether a request has a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// It has none.
    No,
    /// It has one; a value may be empty, a key may not.
    Yes,
    /// It may have one.
    Maybe,
}

macro_rules! operations {
    ($($id:ident $name:literal $code:literal $(quiet $quiet_id:ident $quiet:literal)?
        [$($extra:literal $bytes:literal)*] $($optional:ident)?, $key:ident $value:ident:
        $summary:literal;)*) => {
        /// The opcodes.
        pub mod code {
            $(
                #[doc = $summary]
                pub const $id: u8 = $code;
                $(
                    /// The same, quiet.
                    pub const $quiet_id: u8 = $quiet;
                )?
            )*
        }

        /// Every request that is understood.
        pub const OPERATIONS: &[Operation] = &[$(Operation {
            name: $name,
            code: $code,
            quiet_code: operations!(@quiet $($quiet)?),
            extras: concat!($($extra, " "),*),
            extras_bytes: 0 $(+ $bytes)*,
            extras_optional: operations!(@flag $($optional)?),
            key: Part::$key,
            value: Part::$value,
            summary: $summary,
        },)*];
    };
    (@quiet) => { None };
    (@quiet $quiet:literal) => { Some($quiet) };
    (@flag) => { false };
    (@flag optional) => { true };
}

operations! {
    GET "get" 0x00 quiet GETQ 0x09 [], Yes No:
        "Reads an item; quiet: no reply to a miss.";
    GETK "getk" 0x0c quiet GETKQ 0x0d [], Yes No:
        "Reads an item; the reply contains the key.";
    GAT "gat" 0x1d quiet GATQ 0x1e ["exptime" 4], Yes No:
        "Reads an item and sets its deadline.";
    GATK "gatk" 0x23 quiet GATKQ 0x24 ["exptime" 4], Yes No:
        "Reads an item and sets its deadline; the reply contains the key.";
    TOUCH "touch" 0x1c ["exptime" 4], Yes No:
        "Sets an item's deadline; returns its flags.";
    SET "set" 0x01 quiet SETQ 0x11 ["flags" 4 "exptime" 4], Yes Yes:
        "Stores a value; with a version, if the item still has it.";
    ADD "add" 0x02 quiet ADDQ 0x12 ["flags" 4 "exptime" 4], Yes Yes:
        "Stores a value if the key does not exist.";
    REPLACE "replace" 0x03 quiet REPLACEQ 0x13 ["flags" 4 "exptime" 4], Yes Yes:
        "Stores a value if the key exists.";
    APPEND "append" 0x0e quiet APPENDQ 0x19 [], Yes Yes:
        "Appends bytes to a value.";
    PREPEND "prepend" 0x0f quiet PREPENDQ 0x1a [], Yes Yes:
        "Prepends bytes to a value.";
    DELETE "delete" 0x04 quiet DELETEQ 0x14 [], Yes No:
        "Removes an item; with a version, if it still has it.";
    INCREMENT "increment" 0x05 quiet INCREMENTQ 0x15
        ["delta" 8 "initial" 8 "exptime" 4], Yes No:
        "Adds to a decimal number; on a miss stores the initial one, unless exptime is 0xffffffff.";
    DECREMENT "decrement" 0x06 quiet DECREMENTQ 0x16
        ["delta" 8 "initial" 8 "exptime" 4], Yes No:
        "Subtracts from a decimal number; stops at zero.";
    FLUSH "flush" 0x08 quiet FLUSHQ 0x18 ["exptime" 4] optional, No No:
        "Deletes all items, at once or after a delay.";
    NOOP "noop" 0x0a [], No No:
        "Replies after all quiet requests before it are done.";
    VERSION "version" 0x0b [], No No:
        "Shows the compatible version of memcached, and the version of this server.";
    VERBOSITY "verbosity" 0x1b ["level" 4], No No:
        "Accepted without effect; set the log level with --log-level.";
    STAT "stat" 0x10 [], Maybe No:
        "Shows the statistics of `stats`; the key is its argument.";
    SASL_LIST "sasl_list_mechs" 0x20 [], No No:
        "Lists the SASL mechanisms: PLAIN.";
    SASL_AUTH "sasl_auth" 0x21 [], Yes Yes:
        "Logs in; the key is the mechanism, the value its data.";
    SASL_STEP "sasl_step" 0x22 [], Yes Yes:
        "Continues a login; it fails, because PLAIN has no second step.";
    QUIT "quit" 0x07 quiet QUITQ 0x17 [], No No:
        "Closes the connection.";
}

/// How many opcodes there may be.
const CODES: usize = 0x40;

/// The row of each opcode, and whether it is its quiet form.
const ROWS: [Option<(&Operation, bool)>; CODES] = {
    let mut rows = [None; CODES];
    let mut row = 0;
    while row < OPERATIONS.len() {
        let operation = &OPERATIONS[row];
        rows[operation.code as usize] = Some((operation, false));
        if let Some(quiet) = operation.quiet_code {
            rows[quiet as usize] = Some((operation, true));
        }
        row += 1;
    }
    rows
};

impl Operation {
    /// The operation of an opcode, and whether it is the quiet form.
    #[inline]
    #[must_use]
    pub fn of(code: u8) -> Option<(&'static Operation, bool)> {
        *ROWS.get(usize::from(code))?
    }

    /// Whether a request with parts of these lengths is of its form.
    #[inline]
    #[must_use]
    pub fn takes(&self, extras_bytes: usize, key_bytes: usize, value_bytes: usize) -> bool {
        let extras_fit = extras_bytes == usize::from(self.extras_bytes)
            || self.extras_optional && extras_bytes == 0;
        extras_fit && self.key.takes(key_bytes, 1) && self.value.takes(value_bytes, 0)
    }
}

impl Part {
    #[inline]
    const fn takes(self, bytes: usize, least: usize) -> bool {
        match self {
            Part::No => bytes == 0,
            Part::Yes => bytes >= least,
            Part::Maybe => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_opcode_is_given_twice() {
        let mut codes: Vec<u8> = OPERATIONS
            .iter()
            .flat_map(|row| std::iter::once(row.code).chain(row.quiet_code))
            .collect();
        let all = codes.len();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), all);
        for code in 0..=u8::MAX {
            let is_known = Operation::of(code).is_some();
            assert_eq!(is_known, codes.contains(&code), "{code:#x}");
        }
    }

    #[test]
    fn a_request_has_the_parts_of_its_row() {
        let (set, quiet) = Operation::of(code::SETQ).unwrap();
        assert!(quiet && set.takes(8, 1, 0) && set.takes(8, 250, 9));
        assert!(!set.takes(0, 1, 0) && !set.takes(8, 0, 5));
        let (flush, _) = Operation::of(code::FLUSH).unwrap();
        assert!(flush.takes(0, 0, 0) && flush.takes(4, 0, 0));
        assert!(!flush.takes(3, 0, 0) && !flush.takes(4, 1, 0) && !flush.takes(4, 0, 1));
        let (stat, _) = Operation::of(code::STAT).unwrap();
        assert!(stat.takes(0, 0, 0) && stat.takes(0, 5, 0) && !stat.takes(0, 5, 1));
    }
}
