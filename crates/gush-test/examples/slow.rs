//! `slow POINT FILES BYTES DELAY_US` mounts a file system whose lookups, opens and reads take a
//! while, and serves it until POINT is unmounted.

use std::path::Path;
use std::time::Duration;

use gush_test::{FuseFile, mount_slow_fuse};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [point, files, bytes, delay_us] = &words[..] else {
        return Err("usage: slow POINT FILES BYTES DELAY_US".into());
    };
    let bytes: usize = bytes.parse()?;
    let file = |number| FuseFile {
        name: format!("f{number}"),
        content: vec![b'x'; bytes],
        stat_bytes: bytes as u64,
        most_read_bytes: usize::MAX,
    };
    let files = (0..files.parse()?).map(|number: u32| file(number)).collect();
    let point = Path::new(point);
    let served = mount_slow_fuse(point, files, Duration::from_micros(delay_us.parse()?))?;
    // A served file system has another device number than the directory that it covers.
    let device =
        || std::fs::metadata(point).map(|at| std::os::unix::fs::MetadataExt::dev(&at)).ok();
    let mounted = device();
    while device() == mounted {
        std::thread::sleep(Duration::from_millis(100));
    }
    println!("{}", served.most());
    Ok(())
}
