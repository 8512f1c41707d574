//! The ends of a relay: one of tokio's streams or their halves, a conduit, or any other stream.

use std::io;

use crate::sides::Opened;
use crate::sys::{self, known};
use crate::tap::Tap;

/// Opens an end for a relay: by the descriptor, if the type is known to have one, and else as a stream without a descriptor.
pub(crate) fn open<E: ?Sized>(end: &mut E) -> io::Result<Opened<'_, E>> {
    macro_rules! by_descriptor {
        ($end:expr => $($tap:path: $($known:ident)+;)+) => {{
            let end = $end;
            $($(
                let end = match known::<E, sys::$known>(end) {
                    Ok(stream) => return Ok(Opened::Joint($tap(stream.as_ref()))),
                    Err(end) => end,
                };
            )+)+
            end
        }};
    }
    // The commonest first: each question costs a comparison of type ids for every relay.
    let end = match known::<E, sys::Tcp>(end) {
        Ok(stream) => return Ok(Opened::Joint(Tap::tcp(stream))),
        Err(end) => end,
    };
    let end = match known::<E, sys::Unix>(end) {
        Ok(stream) => return Ok(Opened::Joint(Tap::unix(stream))),
        Err(end) => end,
    };
    let end = by_descriptor! { end =>
        Tap::tcp: TcpOwnedRead TcpOwnedWrite TcpRead TcpWrite;
        Tap::unix: UnixOwnedRead UnixOwnedWrite UnixRead UnixWrite;
    };
    match sys::conduit(end) {
        Ok(conduit) => conduit.opened(),
        Err(end) => Ok(Opened::Any(end)),
    }
}
