//! Libraries that a state has loaded: it runs one when it first calls one of its functions.
//!
//! While a library runs it sees nothing but the means to register functions: no clock, no chance,
//! no keys. So it registers the same in each state.

use std::collections::HashSet;

use mlua::{Function, Lua, Result, Table, Value};
use rapidhash::RapidHashMap;

use super::{Machine, RunError, failure};
use crate::functions::{FoundFunction, Functions};
use crate::header::LibraryHeader;
use crate::library::LIBRARY_CHUNK;
use crate::shared::Registered;

/// Most functions that are found without a look into Lua's tables. Each takes one of the 8,000
/// places that a script's arguments have, too.
const CALLED_MAX: usize = 64;

/// The libraries of a Lua state.
#[derive(Debug)]
pub(super) struct Libraries {
    /// The environment of functions.
    pub(super) environment: Table,
    /// The metatable of the environment, and the map from fences to their contents.
    seen: Table,
    content_of: Table,
    /// The targets of the environment, while functions run and while a library is loaded.
    of_functions: Table,
    of_loading: Table,
    /// Tables of functions by their names, by the numbers of their libraries; in Lua, which has no
    /// room for thousands of values outside.
    loaded: Table,
    /// These numbers.
    ids: HashSet<u64>,
    /// Functions that were called, by the numbers of their libraries and their places in them.
    called: RapidHashMap<(u64, usize), Function>,
    /// The generation of the loaded libraries.
    generation: u64,
}

impl Libraries {
    /// No libraries yet, with the tables that the prelude has made.
    pub(super) fn of(lua: &Lua, made: &Table) -> Result<Libraries> {
        Ok(Libraries {
            environment: made.get("environment_of_functions")?,
            seen: made.get("seen_by_functions")?,
            content_of: made.get("content_of")?,
            of_functions: made.get("of_functions")?,
            of_loading: made.get("of_loading")?,
            loaded: lua.create_table()?,
            ids: HashSet::new(),
            called: RapidHashMap::default(),
            generation: 0,
        })
    }

    /// Has the environment lead to this.
    fn show(&self, content: &Table) -> Result<()> {
        self.seen.raw_set("__index", content)?;
        self.content_of.raw_set(&self.environment, content)
    }

    /// Forgets libraries that are gone.
    fn forget(&mut self, kept: &Functions) -> Result<()> {
        let Some((generation, ids)) = kept.since(self.generation) else {
            return Ok(());
        };
        for &id in self.ids.difference(&ids) {
            self.loaded.raw_set(id, Value::Nil)?;
        }
        self.ids.retain(|id| ids.contains(id));
        self.called.clear();
        self.generation = generation;
        Ok(())
    }
}

impl Machine {
    /// Runs a library: the functions that it registers.
    pub(super) fn load(&self, body: &[u8]) -> std::result::Result<Registered, RunError> {
        let libraries = &self.libraries;
        let main = self.compile(body, LIBRARY_CHUNK, &libraries.environment)?;
        libraries.show(&libraries.of_loading)?;
        let registered = &self.shared.registered;
        registered.replace(Some(Registered::new(&self.lua)?));
        let ran = self.run.call::<(bool, Value)>(main);
        let registered = registered.take();
        // However it ended.
        libraries.show(&libraries.of_functions)?;
        let (is_done, value) = ran?;
        match registered {
            Some(registered) if is_done => Ok(registered),
            _ => Err(failure(&value)),
        }
    }

    /// The Lua function to call for a function of a library.
    pub(super) fn function(
        &mut self,
        found: &FoundFunction,
        kept: &Functions,
    ) -> std::result::Result<Function, RunError> {
        self.libraries.forget(kept)?;
        let (id, place) = (found.id, found.place);
        if let Some(function) = self.libraries.called.get(&(id, place)) {
            return Ok(function.clone());
        }
        let functions = if self.libraries.ids.contains(&id) {
            self.libraries.loaded.raw_get::<Table>(id)?
        } else {
            let header = LibraryHeader::read(&found.library.source);
            let header = header.map_err(|text| RunError::failed(text.into_bytes(), None))?;
            let functions = self.load(header.body)?.called;
            self.libraries.loaded.raw_set(id, &functions)?;
            self.libraries.ids.insert(id);
            functions
        };
        let function = functions.raw_get::<Option<Function>>(&*found.function().name)?;
        let function =
            function.ok_or_else(|| RunError::failed(b"ERR Function not found".to_vec(), None))?;
        let called = &mut self.libraries.called;
        if called.len() >= CALLED_MAX {
            called.clear();
        }
        called.insert((id, place), function.clone());
        Ok(function)
    }
}
