//! Calls: `redis.call`, from a script to the host that runs its commands.
//!
//! The Lua function is made once for each state. It finds the host of the run through a scoped
//! thread-local variable: a function made for each run would be three thousand instructions of
//! setting up, tearing down and garbage.

use std::rc::Rc;

use cellar_protocol::resp::number::write_float;
use mlua::{Error, Function, Lua, MultiValue, Result, Value};
use scoped_tls_hkt::scoped_thread_local;
use smallvec::SmallVec;

use super::Host;
use crate::convert::from_reply;
use crate::library::ONLY_CHECK;
use crate::shared::{ErrorReply, Raised, Shared, Unlimited};

/// Up to this many arguments of a command are passed on without an allocation.
const WORDS_FEW: usize = 8;
/// Most bytes of a command's arguments together.
const ARGS_BYTES_MAX: usize = 64 << 20;
/// Longer memory of arguments is freed after the command.
const ARGS_BYTES_KEPT_MAX: usize = 64 << 10;
/// The same for their number.
const ARGS_KEPT_MAX: usize = 1_024;

scoped_thread_local! {
    /// Runs the commands of the script that this event loop executes.
    static mut HOST: for<'a> &'a mut (dyn Host + 'a)
}

/// Runs a script whose commands go to `host`.
pub(super) fn with_host<R>(host: &mut dyn Host, run: impl FnOnce() -> R) -> R {
    HOST.set(host, run)
}

/// The function `call` of the tables `redis`. With [`ONLY_CHECK`] as its first argument it returns
/// whether the command may be run.
pub(super) fn function(lua: &Lua, shared: &Rc<Shared>) -> Result<Function> {
    let (shared, mut words) = (Rc::clone(shared), Words::default());
    lua.create_function_mut(move |lua, mut args: MultiValue| {
        let unlimited = Unlimited::begin(lua)?;
        let call = Call {
            lua,
            shared: &shared,
        };
        let reply = call.run(args.make_contiguous(), &mut words);
        words.shrink();
        // Checked even if it failed: a script may catch the error and continue.
        shared.limit.check()?;
        let reply = reply?;
        drop(unlimited);
        shared.keep_pace(lua)?;
        Ok(reply)
    })
}

/// One call of a script.
struct Call<'c> {
    lua: &'c Lua,
    shared: &'c Shared,
}

impl Call<'_> {
    fn raise(&self, text: Vec<u8>, is_counted: bool) -> Error {
        self.shared
            .raise(Raised::Reply(ErrorReply { text, is_counted }))
    }

    /// What `call` returns to a script: a command's reply, or whether the command may be run.
    fn run(&self, args: &[Value], words: &mut Words) -> Result<Value> {
        let (only_checks, args) = match args {
            [first, args @ ..] if *first == ONLY_CHECK => (true, args),
            args => (false, args),
        };
        words
            .fill(args)
            .map_err(|text| self.raise(text.into(), false))?;
        // The clock was looked at when the run began, or behind the last command.
        if !HOST.is_set() {
            let text = b"ERR redis.call can only be called inside a script invocation";
            return Err(self.raise(text.to_vec(), false));
        }
        HOST.with(|host| {
            words.with(|words| {
                if only_checks {
                    let may_run = host.may_run(words).map(Value::Boolean);
                    return may_run.map_err(|text| self.raise(text.into(), false));
                }
                self.run_words(words, host)
            })
        })
    }

    fn run_words(&self, words: &[&[u8]], host: &mut dyn Host) -> Result<Value> {
        let (shared, limit) = (self.shared, &self.shared.limit);
        let proto = shared.proto.get();
        let mut reply = Ok(Value::Nil);
        host.call(words, proto, &|| limit.is_over(), &mut |bytes| {
            reply = match bytes.strip_prefix(b"-") {
                None => from_reply(self.lua, shared, bytes, proto),
                Some(text) => Err(self.raise(text.trim_ascii_end().to_vec(), true)),
            };
        });
        if host.is_given_up() {
            limit.end();
            return limit.check().map(|()| Value::Nil);
        }
        reply
    }
}

/// Appends a number as an argument, as short as it can be read back exactly.
///
/// Source: Valkey 9.1.
fn write_number(number: f64, bytes: &mut Vec<u8>) {
    if number == 0.0 {
        // Also of zero with a sign.
        bytes.push(b'0');
        return;
    }
    if number.is_nan() && number.is_sign_negative() {
        bytes.push(b'-');
    }
    write_float(number, bytes);
}

/// The words of one command, one behind the other.
#[derive(Debug, Default)]
struct Words {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Words {
    /// Takes the arguments of `redis.call`; the error is the failure's text.
    fn fill(&mut self, args: &[Value]) -> std::result::Result<(), &'static str> {
        self.bytes.clear();
        self.ends.clear();
        for arg in args {
            match arg {
                Value::String(text) => self.bytes.extend_from_slice(&text.as_bytes()),
                Value::Integer(number) => {
                    let mut buffer = itoa::Buffer::new();
                    self.bytes
                        .extend_from_slice(buffer.format(*number).as_bytes());
                }
                Value::Number(number) => write_number(*number, &mut self.bytes),
                _ => return Err("ERR Lua redis lib command arguments must be strings or integers"),
            }
            if self.bytes.len() > ARGS_BYTES_MAX {
                return Err("ERR the arguments of a command are too long");
            }
            self.ends.push(self.bytes.len());
        }
        if args.is_empty() {
            return Err("ERR Please specify at least one argument for this redis lib call");
        }
        Ok(())
    }

    /// Frees the memory of many or long arguments.
    fn shrink(&mut self) {
        if self.bytes.capacity() > ARGS_BYTES_KEPT_MAX || self.ends.capacity() > ARGS_KEPT_MAX {
            *self = Words::default();
        }
    }

    fn with<R>(&self, run: impl FnOnce(&[&[u8]]) -> R) -> R {
        let mut start = 0;
        let words = self.ends.iter().map(|&end| {
            let word = &self.bytes[start..end];
            start = end;
            word
        });
        run(&words.collect::<SmallVec<[&[u8]; WORDS_FEW]>>())
    }
}
