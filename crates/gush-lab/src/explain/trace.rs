//! The kernel's call path of one small copy, by the kernel's own tracer, for root only.
//!
//! The tracer gets its own instance (Documentation/trace/ftrace.rst, "Instances"): other users of
//! tracing are not disturbed, and removing the instance removes every setting of ours. The first
//! interrupt waits for the end of the small copy; an instance that a second interrupt left is
//! removed the next time.
//!
//! The tracer is `function`, which names callers, and not `function_graph`, which has no instances
//! before Linux 6.13 (`kernel/trace/trace_functions_graph.c`).

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use gush::{Choice, MethodName, Mover};
use nix::mount::{MntFlags, MsFlags, mount, umount2};

use super::calls::Calls;
use crate::Error;

/// The beginning of our instances' names; the process's number follows.
const OURS: &str = "gush-";
/// Enough for several calls of every method, and few enough for the tracer's buffer.
const BYTES: usize = 256 << 10;
/// The system calls that move data, without an architecture's prefix.
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
/// The prefixes of architectures.
const PREFIXES: [&str; 4] = ["__x64_", "__arm64_", "__riscv_", "__s390x_"];

/// How one method copies a small file in `dir`, as the kernel calls itself.
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
        // One thread, because the tracer follows this one.
        Mover::new(&source, &target).method(Choice::Only(method)).source_offset_bytes(0).threads(1);
    // Around the move alone: the opening of files would fill the buffer with other functions.
    instance.set("tracing_on", "1")?;
    // Not `?` yet: tracing ends first, whatever the move says.
    let moved = mover.run();
    instance.set("tracing_on", "0")?;
    moved.map_err(|error| Error::refused(error.to_string()))?;
    let text = instance.get("trace")?;
    Ok(Calls::of_functions(&text, is_call))
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

/// The tracing file system: the one that is mounted, or one of our own mounted while needed.
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
        // A directory of files that are only text: nothing there may be run.
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
            // If it cannot be unmounted, its directory cannot be removed either, which does no
            // harm.
            let _ = umount2(&self.root, MntFlags::MNT_DETACH);
        }
    }
}

/// Our own buffer and settings.
struct Instance<'s> {
    dir: PathBuf,
    _system: &'s System,
}

impl<'s> Instance<'s> {
    fn new(system: &'s System) -> Result<Self, Error> {
        let instances = system.root.join("instances");
        remove_stale(&instances);
        let dir = instances.join(format!("{OURS}{}", std::process::id()));
        fs::create_dir(&dir)
            .map_err(|error| Error::failed("cannot create a tracing instance", error))?;
        let instance = Self { dir, _system: system };
        instance.set("tracing_on", "0")?;
        let thread = rustix::thread::gettid().as_raw_nonzero().to_string();
        instance.set("set_ftrace_pid", &thread)?;
        // The beginning is what is asked for, should there be more than the buffer holds.
        let _ = instance.set("options/overwrite", "0");
        instance.set("current_tracer", "function")?;
        Ok(instance)
    }

    fn set(&self, name: &str, value: &str) -> Result<(), Error> {
        set(&self.dir, name, value).map_err(|error| refusal(name, error))
    }

    fn get(&self, name: &str) -> Result<String, Error> {
        let bytes = fs::read(self.dir.join(name))
            .map_err(|error| Error::failed(format!("cannot read {name} of the tracer"), error))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

impl Drop for Instance<'_> {
    fn drop(&mut self) {
        // A failure cannot be reported here: `remove_stale` removes the instance the next time.
        let _ = self.set("tracing_on", "0");
        remove(&self.dir);
    }
}

/// Nothing is made where there is no such setting.
fn set(dir: &Path, name: &str, value: &str) -> io::Result<()> {
    fs::OpenOptions::new().write(true).open(dir.join(name))?.write_all(value.as_bytes())
}

/// Removes an instance, which can be removed only without a tracer.
fn remove(dir: &Path) {
    // A busy instance answers EBUSY (`__remove_instance` of kernel/trace/trace.c), and stays for
    // `remove_stale`.
    let _ = set(dir, "current_tracer", "nop");
    let _ = fs::remove_dir(dir);
}

/// Removes instances of processes that were killed.
fn remove_stale(instances: &Path) {
    for entry in fs::read_dir(instances).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(OURS)?.parse::<u32>().ok());
        // The number is the process that created it: if that is gone, the instance is stale.
        if process.is_some_and(|id| !Path::new("/proc").join(id.to_string()).exists()) {
            remove(&entry.path());
        }
    }
}

/// The reason why a setting was refused: the kernel feature that is lacking.
fn refusal(name: &str, error: io::Error) -> Error {
    match (name, error.kind()) {
        (_, io::ErrorKind::PermissionDenied) => Error::refused(
            "even root may not trace functions here: the kernel is locked down, or this is a container",
        ),
        ("set_ftrace_pid", io::ErrorKind::NotFound) | ("current_tracer", _) => {
            Error::refused("this kernel has no function tracer (CONFIG_FUNCTION_TRACER)")
        }
        _ => Error::failed(format!("cannot set {name} of the tracer"), error),
    }
}

/// The engine's method that a case of a suite measures, if there is one.
pub fn method_in(case: &str) -> Option<MethodName> {
    if case.starts_with("stdio-") {
        return Some(MethodName::ReadWrite);
    }
    let fits = |name: &&MethodName| case.starts_with(name.as_str());
    // The longest name that fits: `splice` is also the beginning of others' names.
    MethodName::ALL.iter().filter(fits).max_by_key(|name| name.as_str().len()).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_keeps_root_from_tracing_is_reported() {
        let reason =
            |name: &str, number| refusal(name, io::Error::from_raw_os_error(number)).to_string();
        assert!(reason("set_ftrace_pid", 1).starts_with("even root may not trace"));
        assert!(reason("set_ftrace_pid", 2).contains("CONFIG_FUNCTION_TRACER"));
        assert!(reason("current_tracer", 22).contains("CONFIG_FUNCTION_TRACER"));
        assert_eq!(
            reason("tracing_on", 5),
            "cannot set tracing_on of the tracer: Input/output error"
        );
    }

    #[test]
    fn only_instances_of_dead_processes_are_removed() {
        let dir = tempfile::tempdir().expect("a directory");
        let own = format!("{OURS}{}", std::process::id());
        // No process has a number above 2^22 (`PID_MAX_LIMIT` of include/linux/threads.h).
        let names = [own.as_str(), "gush-4194399", "gush-x", "another"];
        names.iter().for_each(|name| fs::create_dir(dir.path().join(name)).expect("made"));
        remove_stale(dir.path());
        let left = names.map(|name| dir.path().join(name).exists());
        assert_eq!(left, [true, false, true, true]);
    }

    #[test]
    fn system_calls_are_known_by_every_architectures_name() {
        assert!(is_call("__x64_sys_read") && is_call("__arm64_sys_splice"));
        assert!(!is_call("ksys_read") && !is_call("__x64_sys_getpid"));
    }
}
