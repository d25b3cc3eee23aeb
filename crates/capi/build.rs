//! Names the shared library as it is installed, so that programs look for that.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcellar-near.so.0");
    println!("cargo::rerun-if-changed=build.rs");
}
