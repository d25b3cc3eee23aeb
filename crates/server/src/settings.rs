//! Settings: what the operator chose; flag > CELLAR_* variable > TOML file > default.

/// All settings of the daemon.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Memory of the cache in bytes.
    pub memory_bytes: usize,
    /// Event loops.
    pub threads: usize,
    /// Most connections at one time.
    pub max_connections: usize,
    /// Longest value in bytes.
    pub max_value_bytes: usize,
    /// Seconds after which an idle connection is closed; 0 = never.
    pub idle_timeout_s: u64,
    /// Milliseconds for which a lease keeps others out.
    pub lease_ms: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            memory_bytes: 256 << 20,
            threads: 2,
            max_connections: 1024,
            max_value_bytes: 1 << 20,
            idle_timeout_s: 0,
            lease_ms: 30_000,
        }
    }
}
