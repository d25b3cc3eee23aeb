//! Credentials: the name and password of a user, never shown.

use std::fmt;

/// A user.
#[derive(Clone)]
pub(super) struct Login {
    pub(super) name: String,
    pub(super) password: String,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_not_shown() {
        let (name, password) = ("ada".to_owned(), "secret".to_owned());
        let shown = format!("{:?}", Login { name, password });
        assert!(shown.contains("ada") && !shown.contains("secret"));
    }
}
