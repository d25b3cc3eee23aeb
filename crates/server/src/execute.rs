//! Execution: the one place where requests meet the engine.
