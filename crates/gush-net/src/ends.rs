//! What can be one end of a relay: tokio's streams, their owned halves, and conduits.

use std::io;

use tokio::net::{TcpStream, UnixStream, tcp, unix};

use crate::conduit::Conduit;
use crate::tap::Tap;

pub(crate) mod sealed {
    use super::{Tap, io};

    pub trait Reads {
        fn reader(&mut self) -> io::Result<Option<Tap<'_>>>;
    }

    pub trait Writes {
        fn writer(&mut self) -> io::Result<Option<Tap<'_>>>;
    }

    pub trait Both {
        fn both(&mut self) -> io::Result<(Option<Tap<'_>>, Option<Tap<'_>>)>;
    }
}

/// What bytes can be taken from: `TcpStream`, `UnixStream`, their owned read halves, [`Conduit`].
pub trait Source: sealed::Reads + Send {}

/// What bytes can be delivered to: `TcpStream`, `UnixStream`, their owned write halves, [`Conduit`].
pub trait Target: sealed::Writes + Send {}

/// Both at once: `TcpStream`, `UnixStream`, [`Conduit`].
pub trait Duplex: sealed::Both + Send {}

macro_rules! taps {
    ($($tap:path: $source:ty, $target:ty, $both:ty;)+) => {$(
        impl sealed::Reads for $both {
            fn reader(&mut self) -> io::Result<Option<Tap<'_>>> {
                Ok(Some($tap(self)))
            }
        }
        impl sealed::Writes for $both {
            fn writer(&mut self) -> io::Result<Option<Tap<'_>>> {
                Ok(Some($tap(self)))
            }
        }
        impl sealed::Both for $both {
            fn both(&mut self) -> io::Result<(Option<Tap<'_>>, Option<Tap<'_>>)> {
                Ok((Some($tap(self)), Some($tap(self))))
            }
        }
        impl sealed::Reads for $source {
            fn reader(&mut self) -> io::Result<Option<Tap<'_>>> {
                Ok(Some($tap((*self).as_ref())))
            }
        }
        impl sealed::Writes for $target {
            fn writer(&mut self) -> io::Result<Option<Tap<'_>>> {
                Ok(Some($tap((*self).as_ref())))
            }
        }
        impl Source for $both {}
        impl Target for $both {}
        impl Duplex for $both {}
        impl Source for $source {}
        impl Target for $target {}
    )+};
}

taps! {
    Tap::tcp: tcp::OwnedReadHalf, tcp::OwnedWriteHalf, TcpStream;
    Tap::unix: unix::OwnedReadHalf, unix::OwnedWriteHalf, UnixStream;
}

impl sealed::Reads for Conduit {
    fn reader(&mut self) -> io::Result<Option<Tap<'_>>> {
        self.taps().map(|(reader, _)| reader)
    }
}

impl sealed::Writes for Conduit {
    fn writer(&mut self) -> io::Result<Option<Tap<'_>>> {
        self.taps().map(|(_, writer)| writer)
    }
}

impl sealed::Both for Conduit {
    fn both(&mut self) -> io::Result<(Option<Tap<'_>>, Option<Tap<'_>>)> {
        self.taps()
    }
}

impl Source for Conduit {}
impl Target for Conduit {}
impl Duplex for Conduit {}
