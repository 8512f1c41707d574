//! The title of the process, as ps(1) shows it in the place of the command line.

use std::fs;
use std::ops::Range;
use std::ptr;

/// Shows `text` in the place of the command line, as ps(1) shows that; cut to the length of the
/// command line.
///
/// ```
/// gush_process::set_title("half done");
/// assert!(std::fs::read_to_string("/proc/self/cmdline")?.starts_with("half done"));
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn set_title(text: &str) {
    let Some(place) = words() else { return };
    // The last byte stays zero: else the kernel would read on in the environment.
    let room = place.len().saturating_sub(1);
    let bytes = text.bytes().chain(std::iter::repeat(0)).take(room);
    for (address, byte) in place.zip(bytes) {
        // SAFETY: the kernel says that the words lie at these addresses (proc_pid_stat(5)), on the
        // stack of the first thread, which stays writable while the process lives. Nothing of
        // Rust's lies there, and no reference leads there: `std::env::args` copies the words.
        unsafe { ptr::with_exposed_provenance_mut::<u8>(address).write_volatile(byte) };
    }
}

/// Where the words of the command line lie: fields 48 and 49 of proc_pid_stat(5), the third of
/// which follows the name.
fn words() -> Option<Range<usize>> {
    let stat = fs::read("/proc/self/stat").ok()?;
    // The name of the program is there too, and need not be UTF-8.
    let stat = String::from_utf8_lossy(&stat);
    let mut fields = stat.rsplit_once(") ")?.1.split_whitespace().skip(45);
    let mut address = || fields.next()?.parse::<usize>().ok().filter(|&address| address > 0);
    Some(address()?..address()?)
}
