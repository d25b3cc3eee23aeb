//! Open addresses: checks which listeners may be open without authentication.
//!
//! Clients that reach an address of this machine from outside have to authenticate; only an
//! explicit decision of the operator turns that off. Loopback addresses and Unix sockets are local.
//!
//! Why: docs/decisions/0042. Tests: below; server/tests/startup_errors.rs.

use cellar_config::protocol::Protocol;

/// A listener, as far as access is concerned.
#[derive(Clone, Copy, Debug)]
pub struct OpenAddresses {
    /// The protocol there.
    pub protocol: Protocol,
    /// Whether other machines can reach it.
    pub is_reachable_by_others: bool,
    /// Whether its clients have to log in: as a user, or with the protocol's password or token.
    pub has_users: bool,
    /// Whether its clients have to present a certificate.
    pub has_client_ca: bool,
}

impl OpenAddresses {
    /// Whether it may be listened on; why not.
    ///
    /// # Errors
    /// One line that says what would let it be.
    pub fn check(self, is_insecure: bool) -> Result<(), String> {
        let is_guarded = self.has_users || self.has_client_ca;
        if !self.is_reachable_by_others || is_guarded || is_insecure {
            return Ok(());
        }
        let own = self.protocol.row().secret_flag;
        let short_form = own.map_or(String::new(), |flag| format!(" or {flag} TEXT"));
        Err(format!(
            "this address is reachable from other machines and has no authentication; set \
             --users FILE{short_form}, listen on 127.0.0.1, or set --insecure"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_reach_asks_who_they_are_or_is_open_on_purpose() {
        for protocol in Protocol::ALL {
            for bits in 0..16_u8 {
                let is = |bit: u8| bits & 1 << bit != 0;
                let open_addresses = OpenAddresses {
                    protocol,
                    is_reachable_by_others: is(0),
                    has_users: is(1),
                    has_client_ca: is(2),
                };
                let expected = !is(0) || is(1) || is(2) || is(3);
                assert_eq!(
                    open_addresses.check(is(3)).is_ok(),
                    expected,
                    "{open_addresses:?}"
                );
            }
        }
    }
}
