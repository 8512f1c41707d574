//! `shared`: one end for all clients, opened before the link listens.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Mutex;
use std::time::Duration;

use gush::Unpoisoned;
use gush_net::{Conduit, LingerTimeouts};
use rustix::event::PollFlags;

use crate::address::Address;
use crate::ends;
use crate::open::{End, OpenError};
use crate::programs::{self, Finish};
use crate::record::Failure;
use crate::session::Name;
use crate::shape::{WriteTurn, one_of_many};

/// How long the program of a shared end may go on writing once its input has ended.
const LAST_BYTES: Duration = Duration::from_secs(1);

/// The end that all clients of a link use.
pub(crate) struct SharedEnd {
    address: Address,
    /// Taken when the last client is served.
    end: Mutex<Option<End>>,
    turn: WriteTurn,
    /// Are answers read, which have no end for one client alone?
    has_answers: bool,
}

impl SharedEnd {
    pub fn new(address: &Address, end: End) -> Result<Self, Failure> {
        if descriptors(&end.conduit).iter().all(Option::is_none) {
            let why =
                format!("{}: it is not a descriptor that clients can share", address.locator());
            return Err(Failure::new(why, None));
        }
        let has_answers = end.conduit.reads() && !ends::is_empty(&end);
        let (address, end) = (address.clone(), Mutex::new(Some(end)));
        Ok(Self { address, end, turn: WriteTurn::default(), has_answers })
    }

    pub fn address(&self) -> &Address {
        &self.address
    }

    /// The end for one client: of copies of the descriptors, by which files share their offset.
    pub fn for_client(&self) -> Result<End, Failure> {
        let end = self.end.lock().unpoisoned();
        let fail = |error: io::Error| {
            ends::open_failure(&OpenError::new("share", error).at(self.address.locator()))
        };
        let Some(end) = end.as_ref() else { return Err(fail(io::ErrorKind::NotConnected.into())) };
        let conduit = copied(&end.conduit).map_err(fail)?;
        let mut ours = End::new(one_of_many(conduit, self.turn.clone()), end.peer.clone());
        ours.rare().chosen = end.chosen().cloned();
        ours.origin = end.origin;
        ours.origin.is_line = ends::is_terminal_device(end);
        ours.origin.is_shared = self.has_answers && !has_hung_up(&end.conduit);
        Ok(ours)
    }

    /// Ends what clients have written, and waits until it has arrived and a program has exited.
    pub async fn close(&self, linger: Option<Duration>, limit: Duration) -> Result<(), Failure> {
        let end = self.end.lock().unpoisoned().take();
        let Some(End { mut conduit, mut keeper, .. }) = end else { return Ok(()) };
        let name = Name::Text(self.address.locator().to_string().into());
        let failed = |why: String| Failure::new(format!("{name}: {why}"), None);
        conduit.finish().map_err(|error| failed(error.to_string()))?;
        let lingered = conduit.linger(false, LingerTimeouts::of(linger)).await;
        let terminal = Some(conduit).filter(|conduit| conduit.facts().hangs_up);
        let output_limit = Some(LAST_BYTES);
        let finished =
            programs::finish_during(terminal, output_limit, &mut keeper, &name, Some(limit)).await;
        match finished {
            Finish::Failed(failure) | Finish::Late(failure) => Err(failure),
            Finish::Well => lingered.map_err(|error| failed(error.to_string())),
        }
    }
}

/// Is nobody left to write what is read? Then the client alone decides when it ends.
fn has_hung_up(conduit: &Conduit) -> bool {
    let asked = conduit.read_fd().map(|fd| gush::poll_now(&fd, PollFlags::IN));
    matches!(asked, Some(Ok(now)) if now.contains(PollFlags::HUP) && !now.contains(PollFlags::IN))
}

/// What is read, and what is written.
fn descriptors(conduit: &Conduit) -> [Option<BorrowedFd<'_>>; 2] {
    [conduit.read_fd(), conduit.write_fd()]
}

fn copied(conduit: &Conduit) -> io::Result<Conduit> {
    let copy =
        |fd: BorrowedFd<'_>| -> io::Result<OwnedFd> { Ok(rustix::io::fcntl_dupfd_cloexec(fd, 3)?) };
    match descriptors(conduit) {
        [Some(read), Some(write)] if read.as_raw_fd() == write.as_raw_fd() => {
            Conduit::inherited(copy(read)?)
        }
        [Some(read), Some(write)] => Conduit::inherited_two(copy(read)?, copy(write)?),
        [Some(read), None] => Conduit::inherited(copy(read)?).map(Conduit::read_only),
        [None, Some(write)] => Conduit::inherited(copy(write)?).map(Conduit::write_only),
        [None, None] => Err(io::ErrorKind::Unsupported.into()),
    }
}
