//! Which machine this is, and the part that this process may use, as far as a profile has to know: read from some small files.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::Cgroup;

/// The machine that a profile was measured on: the kernel, the processor's model, how many there are, and how many may be used.
///
/// ```
/// let host = gush::Host::here();
/// assert!(!host.kernel.is_empty() && host.processors >= 1);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Host {
    /// The kernel's release, as in uname(2), too: from `/proc/sys/kernel/osrelease`, because a
    /// filter may deny that call, and rustix panics then. Empty, and matching no profile, without /proc.
    pub kernel: String,
    /// The processor's architecture and model, as `/sys/devices/system/cpu/modalias` names them; the
    /// architecture alone where that is missing.
    ///
    /// `/proc/cpuinfo` would be nicer to read, but before Linux 5.18 opening that file could wait for every
    /// processor (`arch_freq_prepare_all` of `arch/x86/kernel/cpu/aperfmperf.c`).
    pub processor: String,
    /// How many processors are online.
    pub processors: usize,
    /// The processors that this process may run on, as a list of ranges such as `0-3,8` (sched_setaffinity(2)): from
    /// `/proc/self/status`; empty where that is missing.
    pub allowed: String,
    /// How many processors' time the control group grants, with two decimals; `none` for no limit.
    pub quota: String,
}

impl Host {
    /// This machine.
    #[must_use]
    pub fn here() -> Self {
        Self::look_in(Path::new("/"))
    }

    /// The machine whose `/proc` and `/sys` are in `root`.
    ///
    /// ```
    /// assert_eq!(gush::Host::look_in("/nowhere".as_ref()).kernel, "");
    /// assert_eq!(gush::Host::look_in("/".as_ref()), gush::Host::here());
    /// ```
    #[must_use]
    pub fn look_in(root: &Path) -> Self {
        let beginning_of = |path: &str| beginning_of(&root.join(path));
        let kernel = beginning_of("proc/sys/kernel/osrelease").unwrap_or_default();
        // Bytes, because the process's name stands there, and need not be UTF-8.
        let status = std::fs::read(root.join("proc/self/status")).unwrap_or_default();
        let status = String::from_utf8_lossy(&status);
        let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        let quota = Cgroup::look_in(root).processors;
        let architecture = || std::env::consts::ARCH.to_owned();
        Self {
            kernel: kernel.trim().to_owned(),
            processor: beginning_of("sys/devices/system/cpu/modalias")
                .as_deref()
                .and_then(model)
                .map_or_else(architecture, str::to_owned),
            processors: beginning_of("sys/devices/system/cpu/online")
                .as_deref()
                .and_then(count)
                .unwrap_or_else(|| crate::Kernel::get().processors()),
            allowed: allowed.unwrap_or_default().trim().to_owned(),
            // As text with two digits, so that the comparison does not hang on a float's last bit.
            quota: quota.map_or_else(|| "none".to_owned(), |quota| format!("{quota:.2}")),
        }
    }
}

/// The list of features that follows the model is long, and changes with the microcode.
fn beginning_of(path: &Path) -> Option<String> {
    // The model stands in front: modalias goes on with a kilobyte of features.
    let mut bytes = [0; 256];
    let read = File::open(path).and_then(|mut file| file.read(&mut bytes)).ok()?;
    Some(String::from_utf8_lossy(&bytes[..read]).into_owned())
}

/// `cpu:type:x86,ven0002fam0019mod0011:feature:,…` (`drivers/base/cpu.c`).
fn model(modalias: &str) -> Option<&str> {
    let (model, _) = modalias.strip_prefix("cpu:type:")?.split_once(":feature:")?;
    Some(model)
}

/// A list of ranges such as `0-3,8` (`lib/bitmap-str.c`).
fn count(online: &str) -> Option<usize> {
    online.trim().split(',').try_fold(0_usize, |sum, range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (first.parse::<usize>().ok()?, last.parse::<usize>().ok()?);
        // Checked: the file may be another's in a container, and a panic would end a move.
        sum.checked_add(last.checked_sub(first)?.checked_add(1)?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_is_told_without_its_features() {
        let modalias = "cpu:type:x86,ven0002fam0019mod0011:feature:,0000,0001";
        assert_eq!(model(modalias), Some("x86,ven0002fam0019mod0011"));
        assert_eq!(model("odd"), None);
    }

    #[test]
    fn a_process_by_a_name_that_is_not_utf_8_knows_its_processors() {
        let root = tempfile::tempdir().expect("a directory");
        std::fs::create_dir_all(root.path().join("proc/self")).expect("a directory");
        let status = b"Name:\tgush\xff\nCpus_allowed_list:\t0,3-5\n";
        std::fs::write(root.path().join("proc/self/status"), status).expect("a file");
        assert_eq!(Host::look_in(root.path()).allowed, "0,3-5");
    }

    #[test]
    fn processors_are_counted_in_ranges() {
        assert_eq!(count("0-1\n"), Some(2));
        assert_eq!(count("0,2-3,8\n"), Some(4));
        assert_eq!((count("3-1"), count(""), count("0-18446744073709551615")), (None, None, None));
    }
}
