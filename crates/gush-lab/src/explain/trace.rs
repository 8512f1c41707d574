//! The kernel's call path of one small copy, by its own tracer, where root.
//!
//! The tracer gets an instance of its own (Documentation/trace/ftrace.rst, "Instances"): nobody's
//! settings are touched, and removing the instance removes ours. An instance that exists only while a
//! few calls are made, in this very thread, cannot be left behind by an interrupt that waits for them.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use gush::{Choice, MethodName, Mover};
use nix::mount::{MntFlags, MsFlags, mount, umount2};

use super::calls::Calls;
use crate::Error;

/// Enough for several calls of every method, and few enough for the tracer's buffer.
const BYTES: usize = 256 << 10;
/// The system calls that move data, without what an architecture puts in front.
const CALLS: [&str; 12] = [
    "sys_read",
    "sys_write",
    "sys_pread64",
    "sys_pwrite64",
    "sys_sendfile64",
    "sys_splice",
    "sys_copy_file_range",
    "sys_ioctl",
    "sys_vmsplice",
    "sys_fallocate",
    "sys_ftruncate",
    "sys_io_uring_enter",
];
/// What architectures put in front of them.
const PREFIXES: [&str; 4] = ["__x64_", "__arm64_", "__riscv_", "__s390x_"];

/// How one method copies a small file in `dir`, as the kernel calls itself.
///
/// # Errors
/// A sentence: who is allowed to see it, what this kernel lacks, or what failed.
pub fn of_method(method: MethodName, dir: &Path) -> Result<Calls, Error> {
    if !rustix::process::geteuid().is_root() {
        return Err(Error::refused("only root may trace the kernel's functions"));
    }
    let mut source = file_in(dir)?;
    source.write_all(&[b'x'; BYTES]).map_err(|error| Error::failed("cannot fill a file", error))?;
    let target = file_in(dir)?;
    let system = System::find()?;
    let instance = Instance::new(&system)?;
    let mover =
        Mover::new(&source, &target).method(Choice::Only(method)).source_offset_bytes(0).threads(1);
    instance.set("tracing_on", "1")?;
    let moved = mover.run();
    instance.set("tracing_on", "0")?;
    moved.map_err(|error| Error::refused(error.to_string()))?;
    let text = instance.get("trace")?;
    Ok(match instance.tracer {
        Tracer::Graph => Calls::of_graph(&text),
        Tracer::Functions => Calls::of_functions(&text, is_call),
    })
}

fn is_call(function: &str) -> bool {
    PREFIXES
        .iter()
        .filter_map(|prefix| function.strip_prefix(prefix))
        .any(|bare| CALLS.contains(&bare))
}

fn file_in(dir: &Path) -> Result<fs::File, Error> {
    tempfile::tempfile_in(dir)
        .map_err(|error| Error::failed(format!("cannot make a file in {}", dir.display()), error))
}

/// The tracing file system: the one that is mounted, or one of our own for as long as it is needed.
struct System {
    root: PathBuf,
    ours: Option<tempfile::TempDir>,
}

impl System {
    fn find() -> Result<Self, Error> {
        let known = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
        if let Some(root) = known.iter().find(|root| Path::new(root).join("instances").is_dir()) {
            return Ok(Self { root: root.into(), ours: None });
        }
        let dir =
            tempfile::tempdir().map_err(|error| Error::failed("no temporary directory", error))?;
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
        mount(Some("tracefs"), dir.path(), Some("tracefs"), flags, None::<&str>).map_err(|errno| {
            let why = "this kernel does not show its functions (CONFIG_FTRACE), or not here: cannot \
                       mount tracefs";
            Error::failed(why, io::Error::from(errno))
        })?;
        Ok(Self { root: dir.path().to_owned(), ours: Some(dir) })
    }
}

impl Drop for System {
    fn drop(&mut self) {
        if self.ours.is_some() {
            // If it cannot be unmounted, its directory cannot be removed either, which does no harm.
            let _ = umount2(&self.root, MntFlags::MNT_DETACH);
        }
    }
}

/// What can tell of calls here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tracer {
    /// `function_graph`: beginnings and ends.
    Graph,
    /// `function`: beginnings with their callers.
    Functions,
}

/// Our own buffer and settings.
struct Instance<'s> {
    dir: PathBuf,
    tracer: Tracer,
    _system: &'s System,
}

impl<'s> Instance<'s> {
    fn new(system: &'s System) -> Result<Self, Error> {
        let name = format!("gush-{}", std::process::id());
        let dir = system.root.join("instances").join(name);
        fs::create_dir(&dir).map_err(|error| Error::failed("no tracing of one's own", error))?;
        let mut instance = Self { dir, tracer: Tracer::Graph, _system: system };
        instance.set("tracing_on", "0")?;
        let thread = rustix::thread::gettid().as_raw_nonzero().to_string();
        instance.set("set_ftrace_pid", &thread)?;
        // The beginning is what is asked for, should there be more than the buffer holds.
        let _ = instance.set("options/overwrite", "0");
        let _ = instance.set("buffer_size_kb", "8192");
        if instance.set("current_tracer", "function_graph").is_ok() {
            instance.look_below_calls();
            return Ok(instance);
        }
        instance.tracer = Tracer::Functions;
        instance.set("current_tracer", "function").map_err(|_| {
            Error::refused("this kernel has no function tracer (CONFIG_FUNCTION_TRACER)")
        })?;
        Ok(instance)
    }

    /// Limits the graph to system calls that move data; names that are not this kernel's are refused one
    /// by one, which does not matter.
    fn look_below_calls(&self) {
        let path = self.dir.join("set_graph_function");
        for name in PREFIXES.iter().flat_map(|prefix| CALLS.map(|call| format!("{prefix}{call}"))) {
            let opened = fs::OpenOptions::new().append(true).open(&path);
            let _ = opened.and_then(|mut file| file.write_all(name.as_bytes()));
        }
    }

    fn set(&self, name: &str, value: &str) -> Result<(), Error> {
        fs::write(self.dir.join(name), value)
            .map_err(|error| Error::failed(format!("cannot set {name} of the tracer"), error))
    }

    fn get(&self, name: &str) -> Result<String, Error> {
        let bytes = fs::read(self.dir.join(name))
            .map_err(|error| Error::failed(format!("cannot read {name} of the tracer"), error))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

impl Drop for Instance<'_> {
    fn drop(&mut self) {
        // It holds nothing but our own settings; without a tracer it can be removed.
        let _ = self.set("tracing_on", "0");
        let _ = self.set("current_tracer", "nop");
        let _ = fs::remove_dir(&self.dir);
    }
}

/// The method that a case of a suite is about, if it is one of the engine's.
///
/// ```
/// use gush::MethodName;
/// use gush_lab::explain::trace::method_in;
/// assert_eq!(method_in("copy-file-range-64K"), Some(MethodName::CopyFileRange));
/// assert_eq!(method_in("stdio-char"), Some(MethodName::ReadWrite));
/// assert_eq!(method_in("nothing"), None);
/// ```
#[must_use]
pub fn method_in(case: &str) -> Option<MethodName> {
    if case.starts_with("stdio-") {
        return Some(MethodName::ReadWrite);
    }
    let fits = |name: &&MethodName| case.starts_with(name.as_str());
    MethodName::ALL.iter().filter(fits).max_by_key(|name| name.as_str().len()).copied()
}
