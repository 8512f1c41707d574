//! Routes: how a flow gets bytes from the source to the target, and which serve a pair of ports.

use super::{PortState, Terms};
use crate::endpoint::Kind;
use crate::method::{MethodName, Refusal, splice_obstacle};
use crate::mover::Choice;
use crate::plan;
use crate::port::Side;

/// How a flow moves bytes now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// Through memory: read(2) and write(2). Serves every pair.
    Memory,
    /// Between two streams: short messages through memory, in two calls instead of four; long ones
    /// through a pipe.
    Adaptive,
    /// Read into memory whose pages are then lent to a pipe (vmsplice) and spliced on.
    Lent,
    /// By reference, through a pipe that is borrowed.
    Piped,
    /// By reference in one call, where one of the two ports is a pipe.
    Direct,
    /// sendfile(2): from a file to a stream, inside the kernel.
    Sendfile,
}

impl Route {
    /// The route that a method of the plan means between these two ports, if a flow has such a
    /// route.
    fn of(
        method: MethodName,
        source: &PortState,
        target: &PortState,
        terms: &Terms,
    ) -> Option<Self> {
        let kinds = [source.kind(), target.kind()];
        let choice = terms.choice;
        Some(match method {
            MethodName::ReadWrite => Route::Memory,
            MethodName::Sendfile => Route::Sendfile,
            MethodName::Vmsplice => Route::Lent,
            // First: a direct splice would be possible too, with the reader and us taking turns.
            MethodName::Splice if terms.own_pipe && gains_by_own_pipe(kinds) => Route::Piped,
            MethodName::Splice if splices_directly(kinds) => Route::Direct,
            // Between sockets a short message costs two calls through memory, and a pipe more by
            // splice.
            MethodName::Splice if choice == Choice::Auto && kinds == [Kind::Stream; 2] => {
                Route::Adaptive
            }
            MethodName::Splice => Route::Piped,
            _ => return None,
        })
    }

    /// The method whose refusal a refused call of this route is.
    pub(super) fn method(self) -> MethodName {
        match self {
            Route::Memory => MethodName::ReadWrite,
            Route::Lent => MethodName::Vmsplice,
            Route::Adaptive | Route::Piped | Route::Direct => MethodName::Splice,
            Route::Sendfile => MethodName::Sendfile,
        }
    }

    /// Are the route's own calls reads, which prove the end?
    pub(super) fn reads(self) -> bool {
        matches!(self, Route::Memory | Route::Lent)
    }
}

/// Is filling a pipe from this source work that the target's reader need not wait for? A splice
/// into the target holds the pipe's lock while it looks up pages (`splice_file_to_pipe` of
/// `fs/splice.c`), a reader while it copies; from a pipe of our own the slots change hands at once.
pub(crate) fn gains_by_own_pipe([source, target]: [Kind; 2]) -> bool {
    matches!(source, Kind::File | Kind::Block) && target == Kind::Pipe
}

/// Is one of the two a pipe that splice(2) can use directly? Datagrams go through an empty pipe of
/// the flow's own, which has room for all of one.
pub(crate) fn splices_directly(kinds: [Kind; 2]) -> bool {
    // A datagram longer than the room in the target's pipe would be cut.
    kinds.contains(&Kind::Pipe) && kinds[0] != Kind::Datagram
}

/// The routes to try, in order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Routes {
    routes: [Route; Routes::MOST],
    len: u8,
    at: u8,
}

impl Routes {
    const MOST: usize = 4;

    /// The plan's routes for two ports under the user's terms.
    pub(super) fn between(
        source: &PortState,
        target: &PortState,
        terms: &Terms,
    ) -> Result<Self, Refusal> {
        let mut routes = Self { routes: [Route::Memory; Self::MOST], len: 0, at: 0 };
        let planned = plan::flow_methods(source.kind(), target.kind());
        match terms.choice {
            Choice::Auto => {
                for &method in planned {
                    if refused(method, source, target, terms).is_none()
                        && let Some(route) = Route::of(method, source, target, terms)
                    {
                        routes.push(route);
                    }
                }
            }
            Choice::Only(method) => {
                if let Some(why) = refused(method, source, target, terms) {
                    return Err(Refusal::because(method, why));
                }
                let Some(route) = Route::of(method, source, target, terms) else {
                    return Err(Refusal::because(method, NO_ROUTE));
                };
                routes.push(route);
            }
        }
        Ok(routes)
    }

    /// These routes, in this order.
    pub(super) fn of(routes: &[Route]) -> Self {
        let mut all = Self { routes: [Route::Memory; Self::MOST], len: 0, at: 0 };
        routes.iter().for_each(|&route| all.push(route));
        all
    }

    fn push(&mut self, route: Route) {
        // An array, because a relay has thousands of flows and a list would be an allocation each.
        if usize::from(self.len) < Self::MOST {
            self.routes[usize::from(self.len)] = route;
            self.len += 1;
        }
    }

    pub(super) fn now(&self) -> Route {
        self.routes[usize::from(self.at)]
    }

    /// Goes on to the next route, if this was not the last.
    pub(super) fn advance(&mut self) {
        // The last route stays: it has no successor, and its failure is the flow's.
        self.at += u8::from(self.has_next());
    }

    /// Is there another route if this one is refused?
    pub(super) fn has_next(&self) -> bool {
        self.at + 1 < self.len
    }
}

const NO_ROUTE: &str =
    "a stream is moved by read-write, splice, vmsplice and, from a file, sendfile";

/// Why the user's terms or the ports' flags rule a method out.
pub(super) fn refused(
    method: MethodName,
    source: &PortState,
    target: &PortState,
    terms: &Terms,
) -> Option<&'static str> {
    // First, because nothing rules it out: every plan can end.
    if method == MethodName::ReadWrite {
        return None;
    }
    if source.is_in_memory() || target.is_in_memory() {
        return Some("one side is no descriptor, so the bytes must pass through memory");
    }
    if !terms.permitted.contains(&method) {
        return Some("not among the methods that the driver of this flow permits");
    }
    if terms.make_holes && target.offset_bytes().is_some() {
        return Some("runs of zeros are to become holes, so the bytes must pass through memory");
    }
    // The kernel would say so only once there is something to send.
    let is_file = matches!(source.kind(), Kind::File | Kind::Block | Kind::Pseudo);
    if method == MethodName::Sendfile && terms.never_held && !is_file {
        return Some(NO_ROUTE);
    }
    if method == MethodName::Sendfile
        && target.kind() == Kind::Datagram
        && matches!(source.kind(), Kind::Pseudo | Kind::Block)
    {
        // Before Linux 6.5 (`splice_eof`) nobody sends a corked datagram at the end of the source.
        return Some(
            "the source does not report its size, so the last datagram could be held back",
        );
    }
    if method == MethodName::Sendfile && source.keeps_boundaries() {
        return Some("it would cut a datagram that a pipe has no room for");
    }
    if method == MethodName::Vmsplice {
        // The source is read into memory, so only the target has to take references.
        return obstacle(target, Side::Target, terms);
    }
    if terms.through_memory {
        return Some("the bytes are observed, so they must pass through memory");
    }
    // Only files can be written to later: a pipe's or socket's pages are nobody's any more.
    if terms.isolated && matches!(source.kind(), Kind::File | Kind::Block) {
        return Some("the file's pages would be shared, and isolation was asked for");
    }
    obstacle(source, Side::Source, terms).or_else(|| obstacle(target, Side::Target, terms))
}

/// The obstacle to page references at one port, apart from the kind.
fn obstacle(port: &PortState, side: Side, terms: &Terms) -> Option<&'static str> {
    // By name, the kernel decides.
    let by_name = terms.choice != Choice::Auto && !terms.never_held;
    // A flow knows no sizes: its pieces are those of a stream.
    let of_target = || splice_obstacle(port, true).filter(|_| side == Side::Target);
    if by_name {
        None
    } else if let Some((why, _)) = of_target() {
        Some(why)
    } else if terms.never_held && port.kind().is_socket() && !port.is_nonblocking() {
        Some(Refusal::HELD_BY_SOCKET)
    } else {
        None
    }
}
