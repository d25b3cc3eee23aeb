#!/usr/bin/env bash
# mlua 0.12.2 (Rust), vendored Lua 5.1, whose Lua::set_memory_limit bounds what scripts may allocate.
# One would guess that a limit costs a comparison for each allocation, and only where memory is allocated.
# With any limit above zero the binding makes every string, table and function that the host creates in a protected
# call, since the allocation may fail: each pushes a C closure, which is garbage afterwards. By callgrind, a short
# string that the host creates and puts into a table takes 2.6 times the instructions, though nowhere near the limit.
# A server that runs a script for each request and passes keys, arguments and replies pays that for each value, and
# the collector pays once more. Lifting the limit while the host works, and setting it again before the script
# continues, removes the cost; the host must then limit its own objects in another way.
# Exit status: 0 as stated here, 1 it behaves otherwise, 77 it could not be run (says why).
set -u
T=$(mktemp -d /tmp/finding.XXXXXX)
trap 'cd /; rm -rf "$T"' EXIT
skip() { echo "SKIPPED: $*"; exit 77; }
command -v cargo >/dev/null || skip "there is no cargo"
command -v valgrind >/dev/null || skip "there is no valgrind"
mkdir -p "$T/src"; cd "$T" || exit 77
cat > Cargo.toml <<'C'
[package]
name = "finding"
version = "0.1.0"
edition = "2021"
[dependencies]
mlua = { version = "=0.12.2", features = ["lua51", "vendored"] }
[profile.release]
debug = false
[workspace]
C
cat > src/main.rs <<'C'
fn main() {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse::<usize>().unwrap());
    let (limit, strings) = (args.next().unwrap(), args.next().unwrap());
    let lua = mlua::Lua::new();
    lua.set_memory_limit(limit).unwrap();
    let table = lua.create_table().unwrap();
    for number in 0..strings {
        let text = lua.create_string(number.to_le_bytes()).unwrap();
        table.raw_set(1, text).unwrap();
    }
}
C
cargo build -q --release 2>"$T/err" || cargo build -q --release --offline 2>"$T/err" ||
    skip "mlua is not compiled: $(head -1 "$T/err")"
count() {
    valgrind --tool=callgrind --callgrind-out-file=/dev/null ./target/release/finding "$@" 2>&1 |
        sed -n 's/.*Collected : //p'
}
# What each string costs: the difference of two runs.
cost() { echo $((($(count "$1" 21000) - $(count "$1" 1000)) / 20000)); }
FREE=$(cost 0) && BOUND=$(cost 1073741824) || skip "the instructions are not counted"
echo "mlua 0.12.2: instructions for a string put into a table: $FREE without a limit, $BOUND with one of 1 GiB"
[ "$BOUND" -gt $((2 * FREE)) ]
