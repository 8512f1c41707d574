//! The name by which programs find the shared library: without it a later, incompatible library
//! would be loaded in its place.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libgush.so.0");
}
