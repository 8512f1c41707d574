//! A file system in user space whose sizes and reads are as a test wants them.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// A file of [`mount_fuse`], opened with FOPEN_DIRECT_IO: each read reaches the server.
#[derive(Clone, Debug)]
pub struct FuseFile {
    /// The name in the only directory.
    pub name: String,
    /// What is really inside.
    pub content: Vec<u8>,
    /// What `st_size` says.
    pub stat_bytes: u64,
    /// A read answers no more.
    pub most_read_bytes: usize,
}

/// Mounts `files` on `point`, read-only, and serves them by a thread until the mount goes. The
/// caller is in a separate mount namespace, which ends the mount.
///
/// # Errors
/// Those of `/dev/fuse` and mount(2).
///
/// # Panics
/// Where `point` has a zero byte.
pub fn mount_fuse(point: &Path, files: Vec<FuseFile>) -> io::Result<()> {
    mount(point, Arc::new(Served { files, ..Served::default() }), 1)
}

/// As [`mount_fuse`], with each lookup, open and read answered after `delay` only, any number of
/// them at the same time, and nothing cached.
///
/// # Errors
/// Those of [`mount_fuse`].
///
/// # Panics
/// As [`mount_fuse`].
pub fn mount_slow_fuse(
    point: &Path,
    files: Vec<FuseFile>,
    delay: Duration,
) -> io::Result<RequestsAtOnce> {
    /// More than any test has requests under way.
    const THREADS: usize = 128;
    let served = Arc::new(Served { files, delay, ..Served::default() });
    mount(point, Arc::clone(&served), THREADS)?;
    Ok(RequestsAtOnce(served))
}

/// Counts the requests to [`mount_slow_fuse`] that wait for their answers at the same time.
#[derive(Debug)]
pub struct RequestsAtOnce(Arc<Served>);

impl RequestsAtOnce {
    /// The most since this was last asked.
    #[must_use]
    pub fn most(&self) -> usize {
        self.0.most.swap(0, Ordering::Relaxed)
    }
}

#[derive(Debug, Default)]
struct Served {
    files: Vec<FuseFile>,
    delay: Duration,
    waiting: AtomicUsize,
    most: AtomicUsize,
}

impl Served {
    fn wait(&self) {
        if !self.delay.is_zero() {
            let waiting = self.waiting.fetch_add(1, Ordering::Relaxed) + 1;
            self.most.fetch_max(waiting, Ordering::Relaxed);
            thread::sleep(self.delay);
            self.waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

fn mount(point: &Path, served: Arc<Served>, threads: usize) -> io::Result<()> {
    let device = File::options().read(true).write(true).open("/dev/fuse")?;
    let options = format!("fd={},rootmode=40000,user_id=0,group_id=0", device.as_raw_fd());
    let options = CString::new(options).expect("no zero byte");
    let point = CString::new(point.as_os_str().as_bytes()).expect("no zero byte");
    // SAFETY: mount(2) reads four strings, each ended by a zero byte, and keeps none.
    let answer = unsafe {
        let kind = c"fuse".as_ptr();
        libc::mount(kind, point.as_ptr(), kind, libc::MS_RDONLY, options.as_ptr().cast())
    };
    if answer != 0 {
        return Err(io::Error::last_os_error());
    }
    let device = Arc::new(device);
    for _ in 0..threads {
        let (device, served) = (Arc::clone(&device), Arc::clone(&served));
        thread::spawn(move || serve(&device, &served));
    }
    Ok(())
}

/// The directory has number 1, and the files those from 2 on.
const DIRECTORY: u64 = 1;

/// Answers one request after the other (`include/uapi/linux/fuse.h`).
fn serve(mut device: &File, served: &Served) {
    let files = &served.files;
    let mut request = vec![0; 1 << 17];
    // ENODEV after the mount has gone.
    while let Ok(len) = device.read(&mut request) {
        let u32_at = |at: usize| u32::from_ne_bytes(request[at..at + 4].try_into().expect("4"));
        let u64_at = |at: usize| u64::from_ne_bytes(request[at..at + 8].try_into().expect("8"));
        let (operation, node) = (u32_at(4), u64_at(16));
        if matches!(operation, LOOKUP | OPEN | READ) {
            served.wait();
        }
        let answer = match operation {
            LOOKUP => {
                let is_named = |file: &FuseFile| file.name.as_bytes() == &request[40..len - 1];
                let found = files.iter().position(is_named).ok_or(libc::ENOENT);
                found.map(|at| entry(at as u64 + 2, files))
            }
            GETATTR => Ok([words(&[0, 0]), attributes(node, files)].concat()),
            INIT => {
                // Version 7.31, ASYNC_READ, ASYNC_DIO and PARALLEL_DIROPS; 12 requests at a time in
                // the background, writes of a page.
                let asked = [7_u32, 31, 1 << 17, 1 | 1 << 15 | 1 << 18, 12 | 9 << 16, 4096, 1];
                let mut answer: Vec<u8> = asked.into_iter().flat_map(u32::to_ne_bytes).collect();
                answer.resize(64, 0);
                Ok(answer)
            }
            // `struct fuse_kstatfs`, of which nothing counts but the names' length.
            STATFS => Ok(words(&[0, 0, 0, 0, 0, 4096 | 255 << 32, 4096, 0, 0, 0])),
            OPEN => Ok(words(&[0, DIRECT_IO])),
            OPENDIR => Ok(words(&[0, 0])),
            READ => {
                let (at, most) = (u64_at(48), u32_at(56) as usize);
                let FuseFile { content, most_read_bytes, .. } = &files[index(node)];
                let from = content.len().min(usize::try_from(at).unwrap_or(usize::MAX));
                let most = most.min(*most_read_bytes).min(content.len() - from);
                Ok(content[from..from + most].to_vec())
            }
            READDIR if u64_at(48) == 0 => Ok(listing(files)),
            READDIR | FLUSH | RELEASE | RELEASEDIR => Ok(Vec::new()),
            FORGET | BATCH_FORGET => continue,
            _ => Err(libc::ENOSYS),
        };
        let (errno, bytes) = match answer {
            Ok(bytes) => (0, bytes),
            Err(errno) => (-errno, Vec::new()),
        };
        let len = u32::try_from(16 + bytes.len()).expect("small answers");
        let head = [len.to_ne_bytes(), errno.to_ne_bytes()].concat();
        // ENOENT where the caller was interrupted.
        let _ = device.write(&[&head, &request[8..16], &bytes].concat());
    }
}

const LOOKUP: u32 = 1;
const FORGET: u32 = 2;
const GETATTR: u32 = 3;
const OPEN: u32 = 14;
const READ: u32 = 15;
const STATFS: u32 = 17;
const RELEASE: u32 = 18;
const FLUSH: u32 = 25;
const INIT: u32 = 26;
const OPENDIR: u32 = 27;
const READDIR: u32 = 28;
const RELEASEDIR: u32 = 29;
const BATCH_FORGET: u32 = 42;

/// `FOPEN_DIRECT_IO`.
const DIRECT_IO: u64 = 1;

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn index(node: u64) -> usize {
    usize::try_from(node - 2).expect("a file")
}

/// `struct fuse_entry_out`, whose attributes the kernel may not keep: a short read would lower the
/// size that it has kept.
fn entry(node: u64, files: &[FuseFile]) -> Vec<u8> {
    [words(&[node, 0, 0, 0, 0]), attributes(node, files)].concat()
}

/// `struct fuse_attr`.
fn attributes(node: u64, files: &[FuseFile]) -> Vec<u8> {
    let (mode, size) = match node {
        DIRECTORY => (libc::S_IFDIR | 0o755, 0),
        node => (libc::S_IFREG | 0o644, files[index(node)].stat_bytes),
    };
    // Number, size, blocks and three times; then nanoseconds, mode, links, owner, device, unit,
    // flags.
    let small = [0, 0, 0, mode, 1, 0, 0, 0, 4096, 0];
    let mut answer = words(&[node, size, size.div_ceil(512), 0, 0, 0]);
    answer.extend(small.into_iter().flat_map(u32::to_ne_bytes));
    answer
}

/// `struct fuse_dirent`, one after the other, each padded to eight bytes.
fn listing(files: &[FuseFile]) -> Vec<u8> {
    let mut answer = Vec::new();
    for (at, file) in files.iter().enumerate() {
        let number = at as u64 + 2;
        answer.extend(words(&[number, number]));
        let len = u32::try_from(file.name.len()).expect("a short name");
        answer.extend([len, u32::from(libc::DT_REG)].into_iter().flat_map(u32::to_ne_bytes));
        answer.extend(file.name.as_bytes());
        answer.resize(answer.len().next_multiple_of(8), 0);
    }
    answer
}
