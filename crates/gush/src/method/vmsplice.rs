//! `vmsplice`: read into page-aligned memory, lend its pages to a private pipe, splice them on.
//!
//! No notice says when the last holder of a lent page is done (see `pages.rs`). A regular file copies
//! before its splice returns, so the memory is taken back; for every other target it is given away.
//! With GIFT start and length must be page-aligned: the last piece is rounded up, and the surplus is
//! drained from the pipe, never delivered (vmsplice(2)).

use rustix::io::Errno;

use super::splice::takes_splices;
use super::{
    Method, MethodName, Pair, Refusal, Step, Traits, Transfer, call_bytes, splices_fit_direct,
};
use crate::endpoint::Kind;
use crate::fault::Fault;
use crate::kernel::{Kernel, Vmsplice as Ability, page_bytes};
use crate::pages::{Lent, Pages};
use crate::pipe::Pipe;
use crate::port::{Port, Side};
use crate::sys::Call;
use crate::tuning::Tuning;

/// As many pages as a pipe of this size has slots.
const BUFFER_BYTES: usize = 256 << 10;

#[derive(Debug)]
pub(super) struct Vmsplice;

impl Method for Vmsplice {
    fn name(&self) -> MethodName {
        MethodName::Vmsplice
    }

    fn traits(&self) -> Traits {
        Traits { sees_bytes: true, proves_end: true, ..Traits::default() }
    }

    fn serves(&self, pair: &Pair<'_>, kernel: &Kernel) -> Result<(), Refusal> {
        takes_splices(self.name(), pair)?;
        splices_fit_direct(self.name(), pair)?;
        match kernel.vmsplice() {
            Ability::Absent(errno) => Err(Refusal::by_kernel(self.name(), Call::Vmsplice, errno)),
            Ability::Copies | Ability::ZeroCopy => Ok(()),
        }
    }

    fn start<'fd>(
        &self,
        pair: &Pair<'fd>,
        tuning: &Tuning,
    ) -> Result<Box<dyn Transfer + Send + 'fd>, Refusal> {
        let wanted = tuning.buffer_or(BUFFER_BYTES).next_multiple_of(page_bytes());
        let pipe = Pipe::new(tuning.pipe_or(wanted))
            .map_err(|errno| Refusal::by_kernel(self.name(), Call::Pipe, errno))?;
        let pages = Pages::new(wanted.min(pipe.capacity_bytes()))
            .map_err(|errno| Refusal::by_kernel(self.name(), Call::Mmap, errno))?;
        Ok(Box::new(Lending {
            source: Port::new(&pair.source, pair.source_at),
            target: Port::new(&pair.target, pair.target_at),
            pipe,
            memory: Memory::Ours(pages),
            tuning: tuning.clone(),
        }))
    }
}

/// Whose the pages are now.
enum Memory {
    Ours(Pages),
    /// `filled` bytes of it hold data; `lent` of them (rounded up under GIFT) went into the pipe;
    /// `delivered` arrived.
    Out {
        lent_pages: Lent,
        filled: usize,
        lent: usize,
        delivered: usize,
    },
    /// Giving away failed for want of memory: nothing more can move this way.
    Gone,
}

struct Lending<'fd> {
    source: Port<'fd>,
    target: Port<'fd>,
    pipe: Pipe,
    memory: Memory,
    tuning: Tuning,
}

impl Lending<'_> {
    fn take_from_source(&mut self, budget_bytes: u64) -> Result<(), Step> {
        let Memory::Ours(pages) = &mut self.memory else { return Ok(()) };
        let room = pages.len_bytes().min(self.pipe.capacity_bytes());
        if let Some(fault) = fits_whole(&self.source, &self.target, room, budget_bytes) {
            return Err(Step::Refused(fault));
        }
        let most = match self.source.kind {
            Kind::Datagram => pages.len_bytes(),
            _ => call_bytes(budget_bytes, pages.len_bytes()),
        };
        match self.source.read(&mut pages.as_mut_slice()[..most]) {
            Ok(0) if self.source.ends_at_zero() => return Err(Step::End),
            Ok(0) => return Err(Step::Moved(0)),
            Ok(filled) => {
                self.tuning.show(&pages.as_slice()[..filled]);
                if let Memory::Ours(pages) = std::mem::replace(&mut self.memory, Memory::Gone) {
                    let lent_pages = pages.lend();
                    self.memory = Memory::Out { lent_pages, filled, lent: 0, delivered: 0 };
                }
            }
            Err(errno) => return Err(Step::from_errno_final(Call::Read, Side::Source, errno)),
        }
        Ok(())
    }

    /// Lends the next pages if the pipe is empty, and splices on what it holds of the data.
    fn pass_on(&mut self) -> Step {
        let Memory::Out { lent_pages, filled, lent, delivered } = &mut self.memory else {
            let fault = Fault { call: Call::Mmap, side: Side::Target, errno: Errno::NOMEM };
            return Step::Failed(fault);
        };
        if self.pipe.is_empty() {
            let end =
                if self.tuning.gift { filled.next_multiple_of(page_bytes()) } else { *filled };
            match lent_pages.splice_into(self.pipe.write_end(), *lent..end, self.tuning.gift) {
                Ok(0) => {
                    let errno = Errno::IO;
                    return Step::Refused(Fault {
                        call: Call::Vmsplice,
                        side: Side::Target,
                        errno,
                    });
                }
                Ok(put) => {
                    self.pipe.put(put);
                    *lent += put;
                }
                Err(errno) => return Step::from_errno(Call::Vmsplice, Side::Target, errno),
            }
        }
        let data = (*filled).min(*lent) - *delivered;
        let step = empty(&mut self.pipe, &mut self.target, data as u64);
        if let Step::Moved(put) = step {
            *delivered += usize::try_from(put).unwrap_or(0);
        }
        step
    }

    /// Empties the pipe of what was lent only to fill a page; a pipe that will not be emptied is closed.
    fn drop_surplus(&mut self) {
        let mut surplus = [0; 4096];
        while !self.pipe.is_empty() {
            match self.pipe.read_out(&mut surplus) {
                Ok(1..) | Err(Errno::INTR) => {}
                Ok(0) | Err(_) => match Pipe::new(self.pipe.capacity_bytes()) {
                    Ok(empty) => self.pipe = empty,
                    Err(_) => return,
                },
            }
        }
    }

    /// Everything arrived: drops the surplus of the last page, and gets writable memory again.
    fn settle(&mut self) {
        let Memory::Out { filled, delivered, .. } = &self.memory else { return };
        if delivered < filled {
            return;
        }
        self.drop_surplus();
        let Memory::Out { lent_pages, .. } = std::mem::replace(&mut self.memory, Memory::Gone)
        else {
            return;
        };
        if !self.pipe.is_empty() {
            return;
        }
        if self.target.kind == Kind::File {
            self.memory = Memory::Ours(lent_pages.reclaim());
        } else if let Ok(pages) = lent_pages.renew() {
            self.memory = Memory::Ours(pages);
        }
    }
}

impl Transfer for Lending<'_> {
    fn step(&mut self, budget_bytes: u64) -> Step {
        if let Err(step) = self.take_from_source(budget_bytes) {
            return step;
        }
        let step = self.pass_on();
        self.settle();
        step
    }

    fn in_flight(&self) -> u64 {
        match &self.memory {
            Memory::Out { filled, delivered, .. } => (filled - delivered) as u64,
            Memory::Ours(_) | Memory::Gone => 0,
        }
    }

    /// The lent pages still hold the data, unchanged: they are written as they are.
    fn drain(&mut self) -> Step {
        let Memory::Out { lent_pages, filled, delivered, .. } = &mut self.memory else {
            return Step::Moved(0);
        };
        match self.target.write(&lent_pages.as_slice()[*delivered..*filled]) {
            Ok(0) => {
                Step::Failed(Fault { call: Call::Write, side: Side::Target, errno: Errno::IO })
            }
            Ok(put) => {
                *delivered += put;
                Step::Moved(put as u64)
            }
            Err(errno) => Step::from_errno_final(Call::Write, Side::Target, errno),
        }
    }
}

/// Refuses a datagram that the empty pipe has no room for: the splice would cut it. A slot takes a page
/// of it (`copy_splice_read` of `fs/splice.c`); into a unix datagram socket each slot becomes a message
/// of its own (`tests/datagrams.rs`).
fn fits_whole(
    source: &Port<'_>,
    target: &Port<'_>,
    room_bytes: usize,
    datagram_bytes: u64,
) -> Option<Fault> {
    let most = match target.kind {
        Kind::Datagram => room_bytes.min(page_bytes()),
        _ => room_bytes,
    };
    let cut = source.kind == Kind::Datagram && datagram_bytes > most as u64;
    cut.then_some(Fault { call: Call::Splice, side: Side::Source, errno: Errno::MSGSIZE })
}

/// Empties a private pipe into a target as far as the target takes it; leaves `keep` bytes at most
/// when `most` says so.
fn empty(pipe: &mut Pipe, target: &mut Port<'_>, most: u64) -> Step {
    let mut moved = 0;
    while !pipe.is_empty() && moved < most {
        let step = match target.is_writable() {
            Ok(true) => match pipe.empty_into(target, most - moved) {
                // A target that takes nothing of something never will.
                Ok(0) => Step::Refused(Fault {
                    call: Call::Splice,
                    side: Side::Target,
                    errno: Errno::IO,
                }),
                Ok(put) => Step::Moved(put as u64),
                Err(errno) => Step::from_errno(Call::Splice, Side::Target, errno),
            },
            Ok(false) => Step::WouldBlock(Side::Target),
            Err(errno) => Step::from_errno(Call::Poll, Side::Target, errno),
        };
        match step {
            Step::Moved(put) if put > 0 => moved += put,
            _ if moved > 0 => break,
            step => return step,
        }
    }
    Step::Moved(moved)
}
