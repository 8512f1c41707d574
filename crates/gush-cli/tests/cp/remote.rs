//! `gush cp SOURCE HOST:DEST`, with a remote shell that runs the command on this machine.

mod connections;
mod decisions;
mod failures;
mod mirrors;
mod names;
mod resumed;
mod trees;

use std::path::Path;
use std::process::Output;

use crate::common::cp::{script, stderr, with_mounts};

pub use decisions::decides_as_a_local_copy;
pub use trees::a_tree_arrives_by;

/// `$C` copies to host `h`: like ssh, its shell takes the host first.
pub fn remote(dir: &Path, text: &str) -> Output {
    script(dir, &format!("{SHELL}{text}"))
}

/// The same with mounts that nobody else sees, on `m`.
pub fn remote_with_mounts(dir: &Path, text: &str) -> Option<Output> {
    with_mounts(dir, &format!("{SHELL}{text}"))
}

const SHELL: &str = "printf '#!/bin/sh\\nshift\\nexec \"$@\"\\n' >shell; chmod +x shell
    C=\"$G cp --rsh ./shell --remote-gush $G\"\n";

/// A remote shell `hold` that passes 1 MiB in either direction, and no more until `$UNTIL`
/// succeeds. Each start of it adds a line to `started`.
pub const HOLD: &str = r#"cat >hold <<'END'
#!/usr/bin/python3
import os, subprocess, sys, threading, time
with open("started", "a") as started: started.write("\n")
child = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
def passes(source, target):
    passed_bytes = 0
    while data := os.read(source, 65536):
        while passed_bytes > 1 << 20 and subprocess.call(os.environ["UNTIL"], shell=True):
            time.sleep(0.02)
        while data: data = data[os.write(target, data):]
        passed_bytes += 65536
    os.close(target)
threading.Thread(target=passes, args=(0, child.stdin.fileno()), daemon=True).start()
passes(child.stdout.fileno(), 1)
sys.exit(child.wait())
END
chmod +x hold; H="$G cp --rsh ./hold --remote-gush $G"
"#;

pub fn remote_succeeds(dir: &Path, text: &str) -> Output {
    let output = remote(dir, text);
    assert!(output.status.success() && stderr(&output).is_empty(), "{text}: {output:?}");
    output
}
