//! Block devices for root: loop devices that detach by themselves when the test process is gone.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use tempfile::NamedTempFile;

use super::is_root;

/// Devices that no test uses now, with their sizes.
static IDLE: Mutex<Vec<(u64, File)>> = Mutex::new(Vec::new());

/// A device of zeros; handed on to the next test when dropped.
#[derive(Debug)]
pub struct LoopDevice {
    device: Option<File>,
    len: u64,
}

impl LoopDevice {
    /// A device of `len` bytes (a multiple of 512), or the reason why there is none.
    pub fn new(len: u64) -> Result<Self, String> {
        let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
        let known = idle.iter().position(|(size, _)| *size == len).map(|at| idle.swap_remove(at).1);
        drop(idle);
        let device = match known {
            Some(device) => device,
            None => attach(len)?,
        };
        let zeros = vec![0; usize::try_from(len).expect("a small device")];
        // The test before has left its bytes.
        device.write_all_at(&zeros, 0).map_err(|error| error.to_string())?;
        Ok(Self { device: Some(device), len })
    }

    /// The device, at position 0.
    pub fn open(&self) -> OwnedFd {
        let device = self.device.as_ref().expect("until it is dropped");
        let fd: OwnedFd = device.try_clone().expect("dup").into();
        rustix::fs::seek(&fd, rustix::fs::SeekFrom::Start(0)).expect("rewind");
        fd
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
        idle.extend(self.device.take().map(|device| (self.len, device)));
    }
}

/// Detaching an open device only marks it: the kernel removes the device with the last descriptor.
fn attach(len: u64) -> Result<File, String> {
    if !is_root() {
        return Err("a loop device needs root".into());
    }
    let failed = |error: std::io::Error| error.to_string();
    let backing = NamedTempFile::new().map_err(failed)?;
    backing.as_file().set_len(len).map_err(failed)?;
    let losetup = |words: &[&str]| Command::new("losetup").args(words).output().map_err(failed);
    let path = backing.path().to_str().ok_or("a strange temporary directory")?;
    let out = losetup(&["--find", "--show", path])?;
    if !out.status.success() {
        return Err(format!("losetup: {}", String::from_utf8_lossy(&out.stderr).trim()));
    }
    let name = String::from_utf8_lossy(&out.stdout).trim().to_owned();
    let device = File::options().read(true).write(true).open(&name);
    losetup(&["-d", &name])?;
    device.map_err(failed)
}
