//! Libraries: `struct`, `cmsgpack`, `bit` and `cjson`, as Redis's scripts have them.
//!
//! Each function checks the time limit in proportion to its work and knows the size of its result.
//! Tests: server/tests/resp_script_libraries.rs; foreign-clients/libraries.py beside redis-server.

mod bits;
mod json;
mod msgpack;
mod structs;

use std::cell::Cell;
use std::rc::Rc;

use mlua::{Function, IntoLuaMulti, Lua, Result, Table, Value, Variadic};

use super::choices::Choices;
use super::given::Given;
use super::shared::{Shared, Unlimited};

/// Adds the libraries to the table that the prelude is called with.
pub(super) fn add(lua: &Lua, host: &Table, shared: &Rc<Shared>) -> Result<()> {
    let maker = Maker { lua, shared };
    host.raw_set("bit", maker.bits()?)?;
    host.raw_set("struct", maker.structs()?)?;
    host.raw_set("cmsgpack", maker.msgpack()?)?;
    let next = lua.globals().raw_get("next")?;
    host.raw_set("cjson", json_library(lua, shared, &shared.json, &next)?)
}

struct Maker<'a> {
    lua: &'a Lua,
    shared: &'a Rc<Shared>,
}

impl Maker<'_> {
    /// A function of a library.
    fn function<R: IntoLuaMulti>(
        &self,
        name: &'static str,
        run: impl Fn(&Given<'_>) -> Result<R> + 'static,
    ) -> Result<Function> {
        let shared = Rc::clone(self.shared);
        self.lua
            .create_function(move |lua, values: Variadic<Value>| {
                shared.limit.check()?;
                let unlimited = Unlimited::begin(lua)?;
                let given = Given {
                    lua,
                    shared: &shared,
                    name,
                    values: &values,
                };
                let answer = run(&given);
                drop(unlimited);
                shared.keep_pace(lua)?;
                answer
            })
    }

    fn put<R: IntoLuaMulti>(
        &self,
        table: &Table,
        name: &'static str,
        run: impl Fn(&Given<'_>) -> Result<R> + 'static,
    ) -> Result<()> {
        table.raw_set(name, self.function(name, run)?)
    }

    fn bits(&self) -> Result<Table> {
        let table = self.lua.create_table()?;
        let arithmetic = |bits: u32, by: u32| (bits.cast_signed() >> by).cast_unsigned();
        self.put(&table, "tobit", |given| bits::one(given, |bits| bits))?;
        self.put(&table, "bnot", |given| bits::one(given, |bits| !bits))?;
        self.put(&table, "bswap", |given| bits::one(given, u32::swap_bytes))?;
        self.put(&table, "band", |given| {
            bits::all(given, |one, other| one & other)
        })?;
        self.put(&table, "bor", |given| {
            bits::all(given, |one, other| one | other)
        })?;
        self.put(&table, "bxor", |given| {
            bits::all(given, |one, other| one ^ other)
        })?;
        self.put(&table, "lshift", |given| {
            bits::shift(given, |bits, by| bits << by)
        })?;
        self.put(&table, "rshift", |given| {
            bits::shift(given, |bits, by| bits >> by)
        })?;
        self.put(&table, "arshift", move |given| {
            bits::shift(given, arithmetic)
        })?;
        self.put(&table, "rol", |given| bits::shift(given, u32::rotate_left))?;
        self.put(&table, "ror", |given| bits::shift(given, u32::rotate_right))?;
        self.put(&table, "tohex", bits::to_hex)?;
        Ok(table)
    }

    fn structs(&self) -> Result<Table> {
        let table = self.lua.create_table()?;
        self.put(&table, "pack", structs::pack)?;
        self.put(&table, "unpack", structs::unpack)?;
        self.put(&table, "size", structs::size)?;
        Ok(table)
    }

    fn msgpack(&self) -> Result<Table> {
        let table = self.lua.create_table()?;
        self.put(&table, "pack", msgpack::pack)?;
        self.put(&table, "unpack", msgpack::unpack)?;
        self.put(&table, "unpack_one", msgpack::unpack_one)?;
        self.put(&table, "unpack_limit", msgpack::unpack_limit)?;
        table.raw_set("_NAME", "cmsgpack")?;
        table.raw_set("_VERSION", "lua-cmsgpack 0.4.0")?;
        table.raw_set("_DESCRIPTION", "MessagePack C implementation for Lua")?;
        Ok(table)
    }
}

/// An instance of `cjson` with these choices.
fn json_library(
    lua: &Lua,
    shared: &Rc<Shared>,
    choices: &Rc<Cell<Choices>>,
    next: &Function,
) -> Result<Table> {
    let maker = Maker { lua, shared };
    let table = lua.create_table()?;
    let (own, with) = (Rc::clone(choices), next.clone());
    maker.put(&table, "encode", move |given| {
        json::encode::encode(given, own.get(), &with)
    })?;
    let own = Rc::clone(choices);
    maker.put(&table, "decode", move |given| {
        json::decode::decode(given, own.get())
    })?;
    for (name, run) in json::choose::FUNCTIONS {
        let own = Rc::clone(choices);
        maker.put(&table, name, move |given| {
            json::choose::choose(given, &own, run)
        })?;
    }
    let (of, with) = (Rc::clone(shared), next.clone());
    let new = maker.function("new", move |given| {
        json_library(given.lua, &of, &Rc::default(), &with)
    })?;
    table.raw_set("new", new)?;
    table.raw_set("null", Value::NULL)?;
    table.raw_set("_NAME", "cjson")?;
    table.raw_set("_VERSION", "2.1.0")?;
    Ok(table)
}
