//! Which system calls move data, and which of their arguments are descriptors: a table.

use std::borrow::Cow;

use syscalls::Sysno;

/// A call at entry.
pub(super) struct Call {
    pub(super) name: Cow<'static, str>,
    /// The descriptors among the arguments.
    pub(super) fds: Vec<i32>,
    /// The call moves bytes, or maps them.
    pub(super) moves_data: bool,
    /// The call neither makes nor ends a descriptor: cached facts about descriptors stay true.
    pub(super) keeps_descriptors: bool,
}

/// Calls that move data: the positions of their descriptors.
const DATA: &[(Sysno, &[usize])] = &[
    (Sysno::read, &[0]),
    (Sysno::write, &[0]),
    (Sysno::readv, &[0]),
    (Sysno::writev, &[0]),
    (Sysno::pread64, &[0]),
    (Sysno::pwrite64, &[0]),
    (Sysno::preadv, &[0]),
    (Sysno::pwritev, &[0]),
    (Sysno::preadv2, &[0]),
    (Sysno::pwritev2, &[0]),
    (Sysno::sendfile, &[0, 1]),
    (Sysno::splice, &[0, 2]),
    (Sysno::tee, &[0, 1]),
    (Sysno::vmsplice, &[0]),
    (Sysno::copy_file_range, &[0, 2]),
    (Sysno::mmap, &[4]),
    (Sysno::io_uring_enter, &[0]),
];

/// ioctl(2) requests that share blocks (`include/uapi/linux/fs.h`).
const CLONES: &[(u64, &str)] =
    &[(0x4004_9409, "ioctl(FICLONE)"), (0x4020_940d, "ioctl(FICLONERANGE)")];

/// Calls without descriptors to make or end, apart from those of [`DATA`]: frequent ones only.
const HARMLESS: &[Sysno] = &[
    Sysno::munmap,
    Sysno::madvise,
    Sysno::lseek,
    Sysno::fstat,
    Sysno::ppoll,
    Sysno::fadvise64,
    Sysno::brk,
];

pub(super) fn of(number: u64, arguments: &[u64; 6]) -> Call {
    let known = usize::try_from(number).ok().and_then(Sysno::new);
    let Some(sysno) = known else {
        let name = Cow::Owned(format!("call {number}"));
        return Call { name, fds: Vec::new(), moves_data: false, keeps_descriptors: false };
    };
    let at =
        |positions: &[usize]| positions.iter().map(|&position| fd(arguments[position])).collect();
    if let Some((_, positions)) = DATA.iter().find(|(data, _)| *data == sysno) {
        let name = Cow::Borrowed(sysno.name());
        return Call { name, fds: at(positions), moves_data: true, keeps_descriptors: true };
    }
    // The kernel takes the request as 32 bits; the upper half of the register may hold anything.
    let request = arguments[1] & 0xffff_ffff;
    if sysno == Sysno::ioctl
        && let Some((_, name)) = CLONES.iter().find(|(clone, _)| *clone == request)
    {
        let name = Cow::Borrowed(*name);
        return Call { name, fds: at(&[0, 2]), moves_data: true, keeps_descriptors: true };
    }
    Call {
        name: Cow::Borrowed(sysno.name()),
        fds: Vec::new(),
        moves_data: false,
        keeps_descriptors: HARMLESS.contains(&sysno),
    }
}

/// A register as the `int` that the kernel reads: the upper half means nothing.
fn fd(argument: u64) -> i32 {
    // Registers have 64 bits, a descriptor the lower 32, with a sign.
    argument as u32 as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_found_where_the_manual_has_them() {
        let call = |sysno: Sysno, arguments| of(sysno.id() as u64, &arguments);
        let splice = call(Sysno::splice, [3, 0, 7, 0, 4096, 0]);
        assert_eq!((splice.name.as_ref(), splice.fds), ("splice", vec![3, 7]));
        let anonymous = call(Sysno::mmap, [0, 4096, 3, 0x22, 0xffff_ffff, 0]);
        assert_eq!(anonymous.fds, [-1]);
        let clone = call(Sysno::ioctl, [4, 0x4004_9409, 3, 0, 0, 0]);
        assert_eq!((clone.name.as_ref(), clone.fds), ("ioctl(FICLONE)", vec![4, 3]));
        assert!(!call(Sysno::ioctl, [1, 0x5401, 0, 0, 0, 0]).moves_data);
        assert!(!call(Sysno::close, [3, 0, 0, 0, 0, 0]).keeps_descriptors);
        assert_eq!(of(99_999, &[0; 6]).name, "call 99999");
    }
}
