//! The kinds of ends that bytes come from and go to.

use std::fmt;
use std::str::FromStr;

use crate::Error;

macro_rules! kinds {
    ($($variant:ident $name:literal $short:literal $source:literal $target:literal $what:literal;)+) => {
        /// A kind of end.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Kind {
            $(#[doc = $what] $variant,)+
        }

        impl Kind {
            /// Every kind, in the order of the table.
            pub const ALL: &'static [Kind] = &[$(Kind::$variant),+];

            /// The name in `--pairs` and in the CSV.
            pub fn name(self) -> &'static str {
                match self { $(Kind::$variant => $name,)+ }
            }

            /// The name in three letters, over a column.
            pub fn short(self) -> &'static str {
                match self { $(Kind::$variant => $short,)+ }
            }

            /// Can bytes be read from this kind?
            pub fn is_source(self) -> bool {
                match self { $(Kind::$variant => $source,)+ }
            }

            /// Can bytes be written into this kind?
            pub fn is_target(self) -> bool {
                match self { $(Kind::$variant => $target,)+ }
            }
        }
    };
}

kinds! {
    File "file" "fil" true true "A file on the temporary directory's own file system, none of those below";
    Ext4 "ext4" "ext" true true "A file on ext4";
    Tmpfs "tmpfs" "tmp" true true "A file on tmpfs";
    Xfs "xfs" "xfs" true true "A file on xfs";
    Btrfs "btrfs" "btr" true true "A file on btrfs";
    Overlay "overlay" "ovl" true true "A file on overlayfs, as in a container";
    Append "append" "app" true true "A file opened with O_APPEND";
    Direct "direct" "dir" true true "A file opened with O_DIRECT";
    Procfs "procfs" "prc" true true "/proc/version as source, /proc/self/comm as target";
    ProcfsSeq "procfs-seq" "seq" true false "/proc/self/limits, made up while it is read, as /proc/self/maps is";
    Memfd "memfd" "mem" true true "Memory with a descriptor (memfd_create)";
    Pipe "pipe" "pip" true true "A pipe";
    Fifo "fifo" "fif" true true "A pipe with a name";
    Tcp "tcp" "tcp" true true "A TCP socket on loopback";
    UnixStream "unix-stream" "uns" true true "A unix stream socket";
    UnixDatagram "unix-datagram" "und" true true "A unix datagram socket";
    Udp "udp" "udp" true true "A UDP socket on loopback";
    Pty "pty" "pty" true true "A pseudo-terminal in raw mode";
    Zero "zero" "zer" true true "/dev/zero";
    Null "null" "nul" true true "/dev/null";
    Full "full" "ful" true true "/dev/full";
}

impl Kind {
    /// Regular files whose bytes lie on a file system, whatever their flags.
    pub const FILES: &'static [Kind] = &[
        Kind::File,
        Kind::Ext4,
        Kind::Tmpfs,
        Kind::Xfs,
        Kind::Btrfs,
        Kind::Overlay,
        Kind::Append,
        Kind::Direct,
        Kind::Memfd,
    ];

    /// Does making an end of this kind need a directory?
    pub fn needs_place(self) -> bool {
        self == Kind::Fifo || (self.is_in(Self::FILES) && self != Kind::Memfd)
    }

    /// Both ends of these are pipes to the kernel.
    pub const PIPES: &'static [Kind] = &[Kind::Pipe, Kind::Fifo];

    pub fn is_in(self, group: &[Kind]) -> bool {
        group.contains(&self)
    }

    /// Does each write become a message of its own?
    pub fn has_messages(self) -> bool {
        matches!(self, Kind::UnixDatagram | Kind::Udp)
    }

    /// Does the far end see a read of 0 when this end is closed?
    pub(super) fn shows_the_end(self) -> bool {
        self.is_in(Self::PIPES) || matches!(self, Kind::Tcp | Kind::UnixStream)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Kind {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Error::named("kind of end", text, Self::ALL.iter().copied(), |kind| kind.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_names_are_three_letters_and_differ() {
        let shorts: std::collections::BTreeSet<_> =
            Kind::ALL.iter().map(|kind| kind.short()).collect();
        assert_eq!(shorts.len(), Kind::ALL.len());
        assert!(shorts.iter().all(|short| short.len() == 3));
    }
}
