//! Row: the description of one setting.

use super::Settings;

/// One setting.
pub struct Row {
    /// The flag without its dashes.
    pub name: &'static str,
    /// Its name in CONFIG GET, if it has one. If CONFIG SET can change it, a reload of the settings
    /// file changes it, too.
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

    /// The present value, as an operator would write it; a secret is masked.
    #[must_use]
    pub fn shown(&self, settings: &Settings) -> String {
        (self.show)(settings)
    }

    /// Whether the setting has the same value in both, secrets too.
    #[must_use]
    pub fn is_same(&self, one: &Settings, other: &Settings) -> bool {
        match self.name {
            "password" => one.secrets.resp == other.secrets.resp,
            "http-token" => one.secrets.http == other.secrets.http,
            _ => (self.show)(one) == (self.show)(other),
        }
    }

    /// Copies the value from `from` to `to`, unless it is a secret.
    pub fn copy(&self, from: &Settings, to: &mut Settings) {
        // A setting parses its own output, except masked secrets, which are errors.
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
