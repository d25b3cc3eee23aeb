//! Protocol: which protocols are spoken, one row each.
//!
//! A row is the variant, the name that its setting and its figures have, and what it is. What is
//! kept by protocol has [`Protocol::COUNT`] places, a protocol's is its number.

macro_rules! protocols {
    ($($variant:ident $name:literal $what:literal;)*) => {
        /// What is spoken on a connection.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Protocol {
            $(
                #[doc = $what]
                $variant,
            )*
        }

        impl Protocol {
            /// All of them, each at the place of its number.
            pub const ALL: [Protocol; Protocol::COUNT] = [$(Protocol::$variant,)*];
            /// How many there are.
            pub const COUNT: usize = [$($name,)*].len();

            /// The name of its setting, also in figures and logs.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Protocol::$variant => $name,)*
                }
            }
        }
    };
}

protocols! {
    Memcached "memcached" "memcached's text and meta commands";
    Resp "resp" "RESP, Redis's protocol";
    Http "http" "HTTP/1.1 and 1.0";
}
