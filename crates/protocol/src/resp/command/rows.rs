//! Rows: the macro that makes the table of commands and [`Verb`](super::Verb).
//!
//! A row: verb, name, arity, flags, keys, group, version, summary, complexity; a command with
//! subcommands has their rows in braces. The rows: table.rs.

macro_rules! row {
    ($verb:ident $name:literal $arity:literal [$($flag:ident)*] $keys:ident $group:ident
        $since:literal $summary:literal $complexity:literal $subcommands:expr) => {
        Command {
            verb: Verb::$verb,
            name: $name,
            arity: $arity,
            flags: Flags::NONE$(.and(Flags::$flag))*,
            keys: Keys::$keys,
            group: Group::$group,
            since: $since,
            summary: $summary,
            complexity: $complexity,
            subcommands: $subcommands,
        }
    };
}

macro_rules! commands {
    ($(
        $verb:ident $name:literal $arity:literal $flags:tt $keys:ident $group:ident
            $since:literal $summary:literal $complexity:literal
        $({$(
            $sub_verb:ident $sub_name:literal $sub_arity:literal $sub_flags:tt $sub_keys:ident
                $sub_group:ident $sub_since:literal $sub_summary:literal
                $sub_complexity:literal;
        )*})?;
    )*) => {
        /// The command of a request: one variant for each row of the table.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Verb {
            $(
                #[doc = $summary]
                $verb,
                $($(#[doc = $sub_summary] $sub_verb,)*)?
            )*
        }

        impl Verb {
            /// How many there are; `verb as usize` is below it.
            pub const COUNT: usize = [$(Verb::$verb, $($(Verb::$sub_verb,)*)?)*].len();
        }

        /// Every command that is understood; GET and SET first.
        pub const TABLE: &[Command] = &[$(
            row!($verb $name $arity $flags $keys $group $since $summary $complexity
                &[$($(row!($sub_verb $sub_name $sub_arity $sub_flags $sub_keys $sub_group
                    $sub_since $sub_summary $sub_complexity &[]),)*)?]),
        )*];
    };
}
