//! A relay with a program at an end: over when the program is, also where its client keeps the connection open.

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::conduit::Conduit;
use crate::open::Keeper;
use crate::{Error, Options, Relay, Totals};

/// Relays between two conduits, each with what was started for it.
///
/// Towards a program that has ended nothing goes any more: what it has said is delivered, and the client's place is
/// free, although many clients read the end and do not close.
pub(super) async fn relay(
    (a, a_keeper): (&mut Conduit, &mut Keeper),
    (b, b_keeper): (&mut Conduit, &mut Keeper),
    options: &Options,
) -> Result<Totals, Error> {
    let mut relay = Relay::new(options);
    let programs = [a_keeper.process(), b_keeper.process()];
    if programs == [None, None] {
        return relay.run(a, b).await;
    }
    let ended = async {
        tokio::select! {
            _ = a_keeper.finished(), if programs[0].is_some() => {}
            _ = b_keeper.finished(), if programs[1].is_some() => {}
        }
    };
    tokio::select! {
        relayed = relay.run(a, b) => return relayed,
        () = ended => {}
    }
    for conduit in [&mut *a, &mut *b] {
        if is_left(conduit) {
            conduit.write_no_more();
        }
    }
    relay.run(a, b).await
}

/// Has nobody the other side any more? A program may have left it to another that it started.
fn is_left(conduit: &Conduit) -> bool {
    let Some(fd) = conduit.write_fd() else { return false };
    let mut polled = [PollFd::new(&fd, PollFlags::empty())];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut polled, Some(&at_once)).is_ok()
        && polled[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
}
