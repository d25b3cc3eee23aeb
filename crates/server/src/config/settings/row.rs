//! Row: what there is to know of one setting.

use super::Settings;

/// One setting.
pub struct Row {
    /// The flag without its dashes.
    pub name: &'static str,
    /// What it is called in CONFIG GET, if it is there; what CONFIG SET can change of these while
    /// the server runs, a settings file that is read anew changes too.
    pub parameter: Option<&'static str>,
    /// What kind of value it takes, as shown in the help.
    pub value: &'static str,
    /// The default, as an operator would write it.
    pub default: &'static str,
    /// What it does, one sentence or two.
    pub help: &'static str,
    /// Takes a value as written.
    pub(super) set: fn(&mut Settings, &str) -> Result<(), String>,
    /// The present value, as an operator would write it.
    pub(super) show: fn(&Settings) -> String,
}

impl Row {
    /// The environment variable.
    #[must_use]
    pub fn variable(&self) -> String {
        variable_of(self.name)
    }

    /// The present value, as an operator would write it; that a secret is set, not the secret.
    #[must_use]
    pub fn shown(&self, settings: &Settings) -> String {
        (self.show)(settings)
    }

    /// Whether it has the same value in both, secrets too.
    #[must_use]
    pub fn is_same(&self, one: &Settings, other: &Settings) -> bool {
        match self.name {
            "password" => one.password == other.password,
            "http-token" => one.http_token == other.http_token,
            _ => (self.show)(one) == (self.show)(other),
        }
    }

    /// Gives `to` the value that `from` has; nothing is done about a secret.
    pub fn copy(&self, from: &Settings, to: &mut Settings) {
        // What a setting shows it reads, but for secrets, which are refused.
        let _ = (self.set)(to, &(self.show)(from));
    }

    /// The key in the settings file.
    #[must_use]
    pub fn key(&self) -> String {
        key_of(self.name)
    }
}

/// The key in the settings file of the flag with this name.
pub(super) fn key_of(name: &str) -> String {
    name.replace('-', "_")
}

/// The environment variable of the flag with this name.
pub(super) fn variable_of(name: &str) -> String {
    format!("CELLAR_{}", key_of(name).to_uppercase())
}
