//! File systems of our own, in a mount namespace of our own.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{child, is_root, runs};

/// Runs an ignored test of this program as root of a new mount namespace.
pub fn in_own_namespace(test: &str) -> Result<(), String> {
    if !is_root() || !runs("unshare", &["--mount", "true"]) {
        return Err("a mount namespace needs root, or unshare(1) is missing".into());
    }
    let (passed, said) = child(&["unshare", "--mount"], test, &[]);
    print!("{said}");
    assert!(passed, "{said}");
    Ok(())
}

pub fn run(program: &str, words: &[&str]) {
    let out = Command::new(program).args(words).output().expect(program);
    assert!(out.status.success(), "{program}: {}", String::from_utf8_lossy(&out.stderr));
}

/// An image of `mebibytes`, formatted and mounted; the mount goes with the namespace and the
/// directory.
pub fn mounted(mkfs: &str, mebibytes: u64, dir: &Path) -> PathBuf {
    let (image, point) = (dir.join("image"), dir.join("mounted"));
    File::create(&image).and_then(|file| file.set_len(mebibytes << 20)).expect("an image");
    std::fs::create_dir(&point).expect("a directory");
    let [image, mount] = [&image, &point].map(|path| path.to_str().expect("a path"));
    run(mkfs, &["-q", image]);
    run("mount", &["-o", "loop", image, mount]);
    point
}

/// Does the kernel have this file system?
pub fn knows(file_system: &str) -> bool {
    let known = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
    known.lines().any(|line| line.ends_with(file_system)) || runs("modprobe", &["-q", file_system])
}
