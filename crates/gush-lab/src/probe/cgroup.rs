//! The limits of the process's control group, in either version of cgroups(7).

use std::fs;
use std::path::Path;

use crate::procfs;

/// Limits, the tightest on the way from the group to the root, and how often they were felt.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Cgroup {
    /// Is there a group that can be looked at?
    pub(crate) is_known: bool,
    /// How many processors' time may be used.
    pub(crate) processors: Option<f64>,
    /// How much memory may be used.
    pub(crate) memory_bytes: Option<u64>,
    /// In how many periods the processor limit stopped the group.
    pub(crate) throttled: u64,
}

impl Cgroup {
    /// Looks at the group of this process, with `/proc` and the groups' file systems below `root`.
    pub(crate) fn look_in(root: &Path) -> Self {
        // Bytes, because groups and mount points have any names.
        let text = |path: &str| fs::read(root.join(path)).unwrap_or_default();
        let (own, mounts) = (text("proc/self/cgroup"), text("proc/self/mounts"));
        let (own, mounts) = (String::from_utf8_lossy(&own), String::from_utf8_lossy(&mounts));
        let mut found = Self::default();
        for line in own.lines() {
            // `0::/path` in version 2, `4:memory:/path` in version 1.
            let mut fields = line.splitn(3, ':').skip(1);
            let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
            if let Some(mount) = mount_of(&mounts, controllers) {
                let mount = root.join(mount.trim_start_matches('/'));
                found.is_known |= mount.is_dir();
                found.tighten(&mount, Path::new(path.trim_start_matches('/')));
            }
        }
        found
    }

    /// Goes from the group up to the mount, which inside a container may be all that is visible.
    fn tighten(&mut self, mount: &Path, path: &Path) {
        // A parent's limit holds for its children as well, so the tightest counts.
        for directory in path.ancestors().map(|part| mount.join(part)) {
            self.processors = least(self.processors, processors(&directory));
            self.memory_bytes = least(self.memory_bytes, memory_bytes(&directory));
            self.throttled = self.throttled.max(throttled(&directory).unwrap_or(0));
        }
    }
}

fn least<T: PartialOrd>(one: Option<T>, other: Option<T>) -> Option<T> {
    let both = one.into_iter().chain(other);
    both.reduce(|one, other| if other < one { other } else { one })
}

/// Where the hierarchy with these controllers (none: version 2) is mounted.
fn mount_of<'a>(mounts: &'a str, controllers: &str) -> Option<&'a str> {
    mounts.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let (place, kind, options) = (fields.next()?, fields.next()?, fields.next()?);
        let has = |controller| options.split(',').any(|option| option == controller);
        match controllers {
            "" => (kind == "cgroup2").then_some(place),
            _ => (kind == "cgroup" && controllers.split(',').all(has)).then_some(place),
        }
    })
}

/// `cpu.max` is `quota period` in microseconds, quota `max` without a limit; in version 1 two
/// files, −1 without.
fn processors(directory: &Path) -> Option<f64> {
    let (quota, period) = match procfs::line(directory.join("cpu.max")) {
        Some(line) => {
            let (quota, period) = line.split_once(' ')?;
            (quota.parse::<f64>().ok()?, period.parse::<f64>().ok()?)
        }
        // Version 1; -1 there means no quota, which the sign below leaves out.
        None => {
            let number = |file: &str| procfs::number::<f64>(directory.join(file));
            (number("cpu.cfs_quota_us")?, number("cpu.cfs_period_us")?)
        }
    };
    (quota > 0.0 && period > 0.0).then(|| quota / period)
}

/// `memory.max` is bytes, or `max`; version 1 has a number near 2^63 without a limit.
fn memory_bytes(directory: &Path) -> Option<u64> {
    // Version 1 writes a huge number, rounded to pages, where there is no limit.
    const NO_LIMIT: u64 = 1 << 62;
    let files = ["memory.max", "memory.limit_in_bytes"];
    let limit = files.into_iter().find_map(|name| procfs::line(directory.join(name)));
    limit?.parse().ok().filter(|&bytes| bytes < NO_LIMIT)
}

fn throttled(directory: &Path) -> Option<u64> {
    let stat = fs::read_to_string(directory.join("cpu.stat")).ok()?;
    stat.lines().find_map(|line| line.strip_prefix("nr_throttled "))?.trim().parse().ok()
}
