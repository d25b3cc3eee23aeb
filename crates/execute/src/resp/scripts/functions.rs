//! Functions: FCALL and FCALL_RO, and FUNCTION, which manages their libraries.
//!
//! A library is run once when it is loaded, to learn its functions, and by each event loop before
//! its first call of one. All loops see it before its client gets the reply.
//!
//! Source: redis.io/docs/latest/commands/function-load and its neighbours; what redis-server 7
//! answers. Tests: server/tests/resp_functions.rs.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use cellar_net::output::Output;
use cellar_protocol::resp::{Proto, Reply, Verb, number};
use cellar_script::{
    AnyKeys, FunctionLibrary, LIBRARIES_MAX, LIBRARY_BYTES_MAX, LibraryArrival, LibraryHeader,
    PROGRAM_BYTES_MAX, Program, Run, RunError,
};
use cellar_system::clock::Stopwatch;
use cellar_values::dump::{BadLibraries, read_libraries, write_libraries};

use super::{INTERPRETER, Lists, MAY_WRITE, check_mode, placed, run_to_end};
use crate::context::Context;
use crate::resp::append_failure;
use crate::resp::call::steps::{Progress, Work};
use crate::resp::call::{Call, DONE, Outcome, check_length};
use crate::resp::failure::Failure;
use crate::resp::patterns::pattern_of_any_case;

/// Longest time for which a library runs when it is loaded, in milliseconds, if scripts may run as
/// long.
const LOAD_MS_MAX: u64 = 500;
/// Longest part of an unknown word that the error repeats.
const REPEATED_BYTES_MAX: usize = 1_024;

/// FCALL and FCALL_RO.
pub(in crate::resp) fn fcall(call: &mut Call<'_>) -> Outcome {
    let functions = &call.context.state.functions;
    let found = functions.find(call.args[1]);
    let found = found.ok_or(Failure::text("ERR Function not found"))?;
    let (keys, args) = lists(call.args)?;
    let function = found.function();
    let no_writes = function.flags.no_writes();
    if call.command.verb == Verb::FcallRo && !no_writes {
        return Err(MAY_WRITE);
    }
    let run = Run {
        program: Program::Function {
            found: &found,
            kept: functions,
        },
        keys,
        args,
        time_ms_max: call.script_ms_left(),
    };
    let result = run_to_end(call, &run, !no_writes);
    result.map_err(|error| placed(error, &function.name, "@user_function"))?;
    DONE
}

/// The two arguments of a function: keys and arguments.
fn lists<'a>(args: &'a [&'a [u8]]) -> Result<Lists<'a>, Failure> {
    let keys = number::parse_integer(args[2]);
    let keys = keys.ok_or(Failure::text("ERR Bad number of keys provided"))?;
    let Ok(keys) = usize::try_from(keys) else {
        return Err(Failure::text("ERR Number of keys can't be negative"));
    };
    args[3..].split_at_checked(keys).ok_or(Failure::text(
        "ERR Number of keys can't be greater than number of args",
    ))
}

/// FUNCTION LOAD.
pub(in crate::resp) fn load(call: &mut Call<'_>) -> Outcome {
    let last = call.args.len() - 1;
    let options = &call.args[2..last];
    let is_replace = |word: &&&[u8]| word.eq_ignore_ascii_case(b"REPLACE");
    if let Some(word) = options.iter().find(|word| !is_replace(word)) {
        // Redis strips line ends at the end of the word here.
        let end = word.iter().rposition(|byte| !b"\r\n".contains(byte));
        let word = &word[..end.map_or(0, |last| last + 1)];
        return Err(repeating("ERR Unknown option given: ", word));
    }
    let arrival = if options.is_empty() {
        LibraryArrival::Append
    } else {
        LibraryArrival::Replace
    };
    let functions = &call.context.state.functions;
    let source = call.args[last];
    let header = header_of(source)?;
    if arrival == LibraryArrival::Append && functions.has(&header.name) {
        return Err(is_there(&header.name));
    }
    let script_ms_max = call.script_ms_left();
    let library = run_library(source, header, LOAD_MS_MAX.min(script_ms_max))?;
    let name = library.name.clone();
    let added = functions.add(vec![library], arrival);
    added.map_err(|text| Failure::Text(text.into()))?;
    call.reply().bulk(name);
    DONE
}

fn is_there(name: &str) -> Failure {
    Failure::Text(format!("ERR Library '{name}' already exists").into())
}

fn header_of(source: &[u8]) -> Result<LibraryHeader<'_>, Failure> {
    if source.len() > PROGRAM_BYTES_MAX {
        return Err(Failure::text("ERR the library is longer than 64 KiB"));
    }
    LibraryHeader::read(source).map_err(|text| Failure::Text(text.into()))
}

/// Runs a library to learn which functions it has.
fn run_library(
    source: &[u8],
    header: LibraryHeader<'_>,
    ms_max: u64,
) -> Result<FunctionLibrary, Failure> {
    let functions = INTERPRETER.with_borrow_mut(|interpreter| {
        let functions = interpreter.load(header.body, ms_max);
        interpreter.tidy_up();
        functions
    });
    let functions = functions.map_err(|error| match error {
        RunError::Compile(text) => {
            Failure::Text(format!("ERR Error compiling function: {text}").into())
        }
        RunError::Ended(_) => {
            Failure::text("ERR Error registering functions: ERR FUNCTION LOAD timeout")
        }
        RunError::Failed(text, _) | RunError::Passed(text, _) => {
            let text = String::from_utf8_lossy(&text);
            Failure::Text(format!("ERR Error registering functions: {text}").into())
        }
    })?;
    if functions.is_empty() {
        return Err(Failure::text("ERR No functions registered"));
    }
    Ok(FunctionLibrary {
        name: header.name,
        any_keys: AnyKeys::of(source),
        source: source.into(),
        functions,
    })
}

/// FUNCTION DELETE.
pub(in crate::resp) fn delete(call: &mut Call<'_>) -> Outcome {
    if !call.context.state.functions.delete(call.args[2]) {
        return Err(Failure::text("ERR Library not found"));
    }
    call.ok()
}

/// FUNCTION FLUSH.
pub(in crate::resp) fn flush(call: &mut Call<'_>) -> Outcome {
    if call.args.len() > 3 {
        return Err(wrong_number(call));
    }
    check_mode(call, "ERR FUNCTION FLUSH only supports SYNC|ASYNC option")?;
    call.context.state.functions.flush();
    call.ok()
}

fn wrong_number(call: &Call<'_>) -> Failure {
    let name = String::from_utf8_lossy(call.args[1]);
    let text = format!(
        "ERR unknown subcommand or wrong number of arguments for '{name}'. Try FUNCTION HELP."
    );
    Failure::Text(text.into())
}

/// FUNCTION DUMP.
pub(in crate::resp) fn dump(call: &mut Call<'_>) -> Outcome {
    let libraries = call.context.state.functions.list();
    let sources = libraries.iter().map(|library| &*library.source);
    let dump = write_libraries(sources);
    call.reply().bulk(dump);
    DONE
}

/// FUNCTION RESTORE.
pub(in crate::resp) fn restore(call: &mut Call<'_>) -> Outcome {
    let arrival = match call.args[3..] {
        [] => LibraryArrival::Append,
        [policy] if policy.eq_ignore_ascii_case(b"APPEND") => LibraryArrival::Append,
        [policy] if policy.eq_ignore_ascii_case(b"REPLACE") => LibraryArrival::Replace,
        [policy] if policy.eq_ignore_ascii_case(b"FLUSH") => LibraryArrival::Flush,
        [_] => {
            return Err(Failure::text(
                "ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.",
            ));
        }
        _ => return Err(wrong_number(call)),
    };
    // This server makes no dump of so many bytes, and its checksum takes time.
    if call.args[2].len() > 2 * LIBRARY_BYTES_MAX {
        return Err(Failure::text("ERR the libraries are too long"));
    }
    let sources = read_libraries(call.args[2], LIBRARIES_MAX, LIBRARY_BYTES_MAX);
    let sources = sources.map_err(|problem| {
        Failure::text(match problem {
            BadLibraries::Checksum => "ERR DUMP payload version or checksum are wrong",
            BadLibraries::Other => "ERR given type is not a function",
            BadLibraries::Broken => "ERR Failed loading library payload",
        })
    })?;
    let restoring = IncomingLibraries {
        is_unpacked: false,
        sources: sources.into_iter(),
        libraries: Vec::new(),
        names: HashSet::new(),
        arrival,
        proto: call.session.proto,
        left: Duration::from_millis(call.script_ms_left()),
    };
    call.work_in_steps(restoring)
}

/// Libraries on their way in: one is run in each step, and when all of them are known they are
/// added together.
struct IncomingLibraries {
    /// Whether the step that read the dump has ended: it takes some milliseconds itself.
    is_unpacked: bool,
    sources: std::vec::IntoIter<Vec<u8>>,
    libraries: Vec<FunctionLibrary>,
    /// The names of the libraries so far.
    names: HashSet<String>,
    arrival: LibraryArrival,
    proto: Proto,
    /// Time left for the other libraries.
    left: Duration,
}

impl IncomingLibraries {
    /// Runs the next library, or adds all of them.
    ///
    /// # Errors
    /// Why none of them is added.
    fn go_on(&mut self, context: Context<'_>) -> Result<Progress, Failure> {
        if !std::mem::replace(&mut self.is_unpacked, true) {
            return Ok(Progress::More);
        }
        let Some(source) = self.sources.next() else {
            let libraries = std::mem::take(&mut self.libraries);
            let added = context.state.functions.add(libraries, self.arrival);
            added.map_err(|text| Failure::Text(text.into()))?;
            return Ok(Progress::Last);
        };
        let header = header_of(&source)?;
        if !self.names.insert(header.name.clone()) {
            return Err(is_there(&header.name));
        }
        let watch = Stopwatch::start();
        let left_ms = u64::try_from(self.left.as_millis()).unwrap_or(u64::MAX);
        let library = run_library(&source, header, LOAD_MS_MAX.min(left_ms))?;
        self.libraries.push(library);
        self.left = self.left.saturating_sub(Duration::from_micros(watch.us()));
        Ok(Progress::More)
    }
}

impl Work for IncomingLibraries {
    fn step(&mut self, context: Context<'_>, output: &mut Output) -> Progress {
        match self.go_on(context) {
            Ok(Progress::More) => return Progress::More,
            Ok(Progress::Last) => Reply::new(output.bytes(), self.proto).ok(),
            Err(failure) => append_failure(&failure, self.proto, context, output),
        }
        Progress::Last
    }
}

/// FUNCTION LIST.
pub(in crate::resp) fn list(call: &mut Call<'_>) -> Outcome {
    let (mut pattern, mut with_code) = (None, false);
    let mut words = call.args[2..].iter();
    while let Some(word) = words.next() {
        if pattern.is_none() && word.eq_ignore_ascii_case(b"LIBRARYNAME") {
            let missing = Failure::text("ERR library name argument was not given");
            let given = words.next().ok_or(missing)?;
            pattern = Some(pattern_of_any_case(given)?);
        } else if !with_code && word.eq_ignore_ascii_case(b"WITHCODE") {
            with_code = true;
        } else {
            return Err(repeating("ERR Unknown argument ", word));
        }
    }
    let mut libraries = call.context.state.functions.list();
    libraries.retain(|library| {
        let name = library.name.to_ascii_lowercase();
        let pattern = pattern.as_ref();
        pattern.is_none_or(|pattern| pattern.matches(name.as_bytes()))
    });
    let start = call.output.bytes().len();
    write(&mut call.reply(), &libraries, with_code);
    let bytes = call.output.bytes().len() - start;
    check_length(bytes)?;
    DONE
}

fn write(reply: &mut Reply<'_>, libraries: &[Arc<FunctionLibrary>], with_code: bool) {
    reply.array(libraries.len());
    for library in libraries {
        reply.map(3 + usize::from(with_code));
        reply.bulk("library_name");
        reply.bulk(&library.name);
        reply.bulk("engine");
        reply.bulk("LUA");
        reply.bulk("functions");
        reply.array(library.functions.len());
        for function in &library.functions {
            reply.map(3);
            reply.bulk("name");
            reply.bulk(&function.name);
            reply.bulk("description");
            match &function.description {
                Some(text) => reply.bulk(text),
                None => reply.null(),
            }
            reply.bulk("flags");
            reply.set(function.flags.names().count());
            for name in function.flags.names() {
                reply.simple(name);
            }
        }
        if with_code {
            reply.bulk("library_code");
            reply.bulk(&library.source);
        }
    }
}

/// FUNCTION STATS. The command runs exclusively, so no script is running.
pub(in crate::resp) fn stats(call: &mut Call<'_>) -> Outcome {
    let (libraries, functions, _) = call.context.state.functions.size();
    let mut reply = call.reply();
    reply.map(2);
    reply.bulk("running_script");
    reply.null();
    reply.bulk("engines");
    reply.map(1);
    reply.bulk("LUA");
    reply.map(2);
    reply.bulk("libraries_count");
    reply.integer(libraries as i64);
    reply.bulk("functions_count");
    reply.integer(functions as i64);
    DONE
}

/// A refusal that repeats the beginning of a word.
fn repeating(text: &str, word: &[u8]) -> Failure {
    let word = String::from_utf8_lossy(&word[..word.len().min(REPEATED_BYTES_MAX)]);
    let word = word.replace(['\r', '\n'], " ");
    Failure::Text(format!("{text}{word}").into())
}
