//! The life of one connection: phase by phase, each with its end.
//!
//! Header → handshake → open → introduce → handshake → relay, half-closed at last → linger, until everything has arrived → a program's exit. A life
//! that fails or is cut in any phase is aborted instead: its program is ended, and its TCP sockets are reset, so that
//! nobody takes what came for all of it. `docs/endings.md` has the table.

use std::future::{Future, pending, poll_fn};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use gush::Rate;
use gush_net::{
    ByteCounts, Conduit, Direction, Ended, Error, LingerError, LingerTimeouts, Passed, Totals,
    Used, within,
};
use gush_text::with_unit;
use rustix::event::PollFlags;
use rustix::fs::{Dev, FileType};
use rustix::io::ioctl_fionread;
use rustix::net::sockopt;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tracing::{debug, info, warn};

use crate::ends::{self, Name};
use crate::open::{End, How, Keeper, OpenError};
use crate::programs::{self, Finish};
use crate::proxy::{self, HEADER_LIMIT, Header};
use crate::record::{Ending, Failure};
use crate::session::{Names, Shared, Turn};
use crate::stop::Cancellation;
use crate::watch::watch;
use gush_text::os_text;

/// How long what was delivered before a failure may take to arrive before its socket is reset.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// How long answers are waited for once one side has ended, where no linger limit says and the other side can neither be told of
/// the end nor ends itself: datagrams, and terminals that are devices.
const LAST_ANSWERS: Duration = Duration::from_millis(500);
/// The largest datagram of UDP, nearly (udp(7)).
const MOST_DATAGRAM_BYTES: f64 = 65_536.0;
const WAITS_LONGER: &str = "-t TIME waits longer";
/// The number of /dev/null, 1:3 (null(4)).
const NULL_DEVICE: Dev = 0x103;

/// Where a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
enum Phase {
    /// The client's PROXY header is read.
    Header,
    /// The client's handshake, where TLS has one.
    ClientHandshake,
    /// The other address is resolved and connected, or its program started.
    Open,
    /// The other end is told where the client comes from.
    Introduce,
    /// The other end's handshake, where TLS has one.
    Handshake,
    /// Bytes pass, both ways or, once one end has ended, one way.
    Relay,
    /// All is sent, and has to arrive; what still comes is dropped.
    Linger,
    /// Programs do the rest of their work.
    Program,
}

/// How a connection went on until it ended.
pub(crate) struct Course {
    /// None where the relay was cut: the counts tell then.
    pub passed: Option<(Passed, Passed)>,
    pub ending: Ending,
    pub failure: Option<Failure>,
}

impl Course {
    fn of(ending: Ending) -> Self {
        Self { passed: None, ending, failure: None }
    }

    fn failed(ending: Ending, failure: Failure) -> Self {
        Self { passed: None, ending, failure: Some(failure) }
    }
}

/// Why a phase was left before it was over.
enum Left {
    /// The link ends, at once or after draining.
    Interrupted,
    /// The client has gone before anything was opened for it.
    HungUp(std::io::Error),
}

/// How the bytes of a connection stopped passing.
enum Relayed {
    /// Both directions have ended, or a limit of the user's is over.
    Ended(Totals),
    /// A direction failed.
    Failed(Error),
    /// The relay was left where it stood.
    Cut(Ending),
}

/// One connection on its way.
pub(crate) struct Life<'a> {
    shared: &'a Shared,
    id: u64,
    pub names: Names<'a>,
    counts: &'a Arc<ByteCounts>,
    cancellation: &'a Cancellation,
    turn: Option<Turn>,
}

impl<'a> Life<'a> {
    pub fn new(
        shared: &'a Shared,
        id: u64,
        names: Names<'a>,
        counts: &'a Arc<ByteCounts>,
        cancellation: &'a Cancellation,
    ) -> Self {
        Self { shared, id, names, counts, cancellation, turn: None }
    }

    /// Its place among the clients that wait for the other listener is taken already.
    pub fn at(self, turn: Option<Turn>) -> Self {
        Self { turn, ..self }
    }

    /// Goes through all phases.
    ///
    /// The memory of a connection is that of this future, so nothing large is in it: a future has room for every value
    /// that it ever holds, often twice. Ends are in boxes, and so is the work of each phase, for as long as it lasts.
    pub async fn run(&mut self, client: Box<End>) -> Course {
        let header = match self.header(&client).await {
            Ok(header) => header,
            Err(course) => return aborted(course, [client]),
        };
        // Before the other address is opened: a stranger without a certificate costs the server nothing.
        let client = match self.client_handshake(client).await {
            Ok(client) => client,
            Err(course) => return course,
        };
        let mut other = match self.open(&header, &client).await {
            Ok(other) => other,
            Err(course) => return aborted(course, [client]),
        };
        // The PROXY header goes before the handshake: it stands in front of TLS, in the clear.
        if let Err(course) = self.introduce(&header, &client, &mut other).await {
            return aborted(course, [client, other]);
        }
        let other = match self.handshake(&client, other).await {
            Ok(other) => other,
            Err(course) => return aborted(course, [client]),
        };
        let (first, mut second) = self.shared.in_order(client, other);
        match self.shared.ready(&first, &mut second) {
            Ok(()) => self.relay(first, second).await,
            Err(failure) => aborted(Course::failed(Ending::OpenFailed, failure), [first, second]),
        }
    }

    /// Does the work of one phase, unless the link ends first. Before anything is relayed, a client that hangs up ends
    /// its connection.
    fn phase<'p, T: Send + 'p>(
        &'p self,
        phase: Phase,
        client: Option<Client<'p>>,
        work: impl Future<Output = T> + Send + 'p,
    ) -> impl Future<Output = Result<T, Left>> + Send + 'p {
        let mut work = Box::pin(work);
        async move {
            debug!(id = self.id, ?phase, "begins");
            // Most phases of a short connection are over at once, and need nobody who watches.
            if let Poll::Ready(done) = poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx))).await {
                return Ok(done);
            }
            let given_up: Pin<Box<dyn Future<Output = Left> + Send + 'p>> =
                match phase < Phase::Relay {
                    true => Box::pin(async move { Left::HungUp(hung_up(client).await) }),
                    false => Box::pin(pending()),
                };
            tokio::select! {
                // Work that is done counts, also where the link ends in the same moment.
                biased;
                done = work => Ok(done),
                () = self.cancellation.cancelled() => Err(Left::Interrupted),
                left = given_up => Err(left),
            }
        }
    }

    /// The client whose hang-up ends the connection before anything is relayed. The exit of a program is none: what the program
    /// has said waits, and its exit status counts.
    fn watched<'p>(&self, client: &'p End) -> Option<Client<'p>> {
        let socket =
            client.conduit.stream_socket().filter(|_| client.keeper.process().is_none())?;
        let Shared { settings, flipped, .. } = self.shared;
        let is_heard = !settings.one_way || !flipped;
        Some(Client { socket, is_heard, ends_by_closing: settings.one_way && is_heard })
    }

    /// Over once a link that drains has datagrams which have rested for [`LAST_ANSWERS`]: they say no end by themselves.
    async fn has_rested(&self) {
        self.shared.stop.draining().await;
        let settings = &self.shared.settings;
        // Pauses of the link's own are no rest: that of the rate limit behind a datagram, and that of a copy without room.
        let pause = |rate: Rate| Duration::from_secs_f64(MOST_DATAGRAM_BYTES / rate.get() as f64);
        let rest = LAST_ANSWERS + settings.limit.map(pause).unwrap_or_default();
        let copies = [&settings.tee, &settings.tee_back];
        let has_full_copy = || copies.into_iter().flatten().any(|copy| copy.is_full());
        // Datagrams have no end, so silence after draining began stands for one.
        let moved = || Direction::ALL.map(|way| self.counts.delivered_bytes(way));
        let (mut before, mut was_held) = (moved(), has_full_copy());
        loop {
            // Not a sleep: what came while the process was stopped is moved before anybody looks.
            let _ = within(rest, pending::<()>()).await;
            let (now, is_held) = (moved(), has_full_copy());
            let is_empty = Direction::ALL.iter().all(|&way| self.counts.in_flight_bytes(way) == 0);
            if now == before && is_empty && !is_held && !was_held {
                return;
            }
            (before, was_held) = (now, is_held);
        }
    }

    fn left(&self, left: Left) -> Course {
        match left {
            Left::Interrupted => Course::of(Ending::Interrupted),
            Left::HungUp(error) => {
                let Names { client, other } = &self.names;
                let why = os_text(&error);
                let why = format!("{client}: hung up before {other} was open: {why}");
                Course::failed(Ending::OpenFailed, Failure::new(why, error.raw_os_error()))
            }
        }
    }

    /// Where the client comes from, by its own PROXY header or by its socket.
    async fn header(&mut self, client: &End) -> Result<Header, Course> {
        let settings = &self.shared.settings;
        if !settings.accept_proxy {
            return Ok(match settings.send_proxy {
                Some(_) => Header::new(Some(client.peer.clone()), client.local()),
                None => Header { source: None, destination: None },
            });
        }
        let fail = |failure| Course::failed(Ending::ProxyHeader, failure);
        let Some(socket) = client.conduit.read_fd() else {
            return Err(fail(Failure::new("a PROXY header cannot be read from it", None)));
        };
        // Bounded even without an idle limit: a client that says nothing would keep its place for ever.
        let limit = settings.idle.map_or(HEADER_LIMIT, |idle| idle.min(HEADER_LIMIT));
        // No watch for a hang-up: reading the header sees the end by itself.
        let header = self.phase(Phase::Header, None, proxy::accept(socket, limit)).await;
        let header = header.map_err(|left| self.left(left))?;
        let header = header
            .map_err(|error| fail(Failure::new(format!("{}: {error}", client.peer), None)))?;
        if let Some(source) = &header.source {
            debug!(id = self.id, client = %source, proxy = %self.names.client, "comes through a proxy");
            // From here on messages name the client, and not the proxy that forwards all of them.
            self.names.client = Name::Text(source.to_string().into());
        }
        Ok(header)
    }

    /// What TLS agrees on with the client: in its own life, so that a slow one holds up nobody else.
    async fn client_handshake(&self, client: Box<End>) -> Result<Box<End>, Course> {
        // Without TLS no phase and no box: a short connection counts every allocation.
        if !client.wants_handshake() {
            return Ok(client);
        }
        let shaken = self.phase(Phase::ClientHandshake, None, client.shaken()).await;
        let shaken = shaken.map_err(|left| self.left(left))?;
        let failed = |error: OpenError| {
            let failure = ends::open_failure(&error.at(&self.names.client));
            Course::failed(Ending::HandshakeFailed, failure)
        };
        shaken.map(Box::new).map_err(failed)
    }

    /// What TLS agrees on with the other end.
    async fn handshake(&self, client: &End, other: Box<End>) -> Result<Box<End>, Course> {
        if !other.wants_handshake() {
            return Ok(other);
        }
        let socket = self.watched(client);
        let shaken = self.phase(Phase::Handshake, socket, other.shaken()).await;
        let shaken = shaken.map_err(|left| self.left(left))?;
        let failed = |error: OpenError| {
            let failure = ends::open_failure(&error.at(&self.names.other));
            Course::failed(Ending::OpenFailed, failure)
        };
        shaken.map(Box::new).map_err(failed)
    }

    async fn open(&mut self, header: &Header, client: &End) -> Result<Box<End>, Course> {
        let how = self.shared.settings.how(self.shared.flipped);
        let how = if self.shared.other.address().kind().row().is_program {
            let local = header.destination.clone().or_else(|| client.local());
            how.serving(header.source.as_ref().unwrap_or(&client.peer), local.as_ref())
        } else {
            how
        };
        let how = if self.shared.forks { how } else { how.once() };
        let how = match self.shared.settings.send_proxy {
            Some(version) => how.introducing(header.clone(), version),
            None => how,
        };
        let other = self.opened(&how, client).await?;
        if other.chosen.is_some() || self.shared.other.address().kind().listens() {
            self.names.other = ends::name(&other, self.shared.other.address());
        }
        debug!(id = self.id, other = %self.names.other, "opened");
        Ok(Box::new(other))
    }

    async fn opened(&mut self, how: &How, client: &End) -> Result<End, Course> {
        let socket = self.watched(client);
        let failed = |failure| Course::failed(Ending::OpenFailed, failure);
        let of_error = |error: OpenError| failed(ends::open_failure(&error));
        // On this very machine a connection is there at once, and needs no box for a future.
        let opening = match self.shared.other.begin(how) {
            Some(begun) => match begun.map_err(failed)?.into_end() {
                Ok(end) => {
                    debug!(id = self.id, phase = ?Phase::Open, "is over at once");
                    return end.map_err(of_error);
                }
                Err(opening) => opening,
            },
            None => {
                // Two listeners pair their clients in the order of arrival, whichever thread serves them.
                let turn = self.turn.take();
                let opened = self.phase(Phase::Open, socket, self.shared.other.open(how, turn));
                return opened.await.map_err(|left| self.left(left))?.map_err(failed);
            }
        };
        let opened = self.phase(Phase::Open, socket, opening.finished()).await;
        opened.map_err(|left| self.left(left))?.map_err(of_error)
    }

    /// Tells the other end where the client comes from, if that is asked for.
    async fn introduce(
        &self,
        header: &Header,
        client: &End,
        other: &mut End,
    ) -> Result<(), Course> {
        let Some(version) = self.shared.settings.send_proxy else { return Ok(()) };
        let socket = self.watched(client);
        let sent = self.phase(Phase::Introduce, socket, other.introduce(header, version)).await;
        let sent = sent.map_err(|left| self.left(left))?;
        sent.map_err(|error| {
            let (other, why) = (&self.names.other, os_text(&error));
            let what = format!("{other}: the PROXY header cannot be sent: {why}");
            Course::failed(Ending::ProxyHeader, Failure::new(what, error.raw_os_error()))
        })
    }

    async fn relay(&self, mut first: Box<End>, mut second: Box<End>) -> Course {
        let settings = &self.shared.settings;
        let (a, b) = self.shared.in_order(&self.shared.client, self.shared.other.address());
        // An option may give an end to datagrams on one side; the other is told of none all the same.
        let datagrams = first.is_endless() || second.is_endless();
        let devices = is_terminal_device(&first) || is_terminal_device(&second);
        let are_answers = devices && !says_nothing(&first) && !says_nothing(&second);
        first = first.shaped(a.options());
        second = second.shaped(b.options());
        if settings.one_way {
            // With -u bytes of the other direction are not even taken from their socket.
            first.conduit = first.conduit.read_only();
            second.conduit = second.conduit.write_only();
        }
        let mut options = settings.relay(self.id, Arc::clone(self.counts));
        if (datagrams || are_answers) && settings.linger.is_none() {
            options = options.linger(LAST_ANSWERS);
        }
        let closes_at_end = first.keeper.is_empty() && second.keeper.is_empty();
        if closes_at_end {
            options = options.close_sends_last_fin();
        }
        // An end that cannot be told to a terminal matters only where nothing else ends the link.
        if !devices {
            options = options.on_unsent_eof(match settings.is_part {
                true => |_| warn_of_untold_end(""),
                false => |_| warn_of_untold_end("-t TIME ends the link, and "),
            });
        }
        let ways = Ways::between(&first.conduit, &second.conduit);
        let room = [first.keeper.makes_room(), second.keeper.makes_room()];
        let work = async {
            let rested = async {
                match datagrams {
                    true => self.has_rested().await,
                    false => pending().await,
                }
            };
            let [first_room, second_room] = room;
            tokio::select! {
                biased;
                relayed = programs::relayed(&mut first, &mut second, &options) => match relayed {
                    Ok(totals) => Relayed::Ended(totals),
                    Err(error) => Relayed::Failed(error),
                },
                () = rested => Relayed::Cut(Ending::Idle),
                () = first_room => Relayed::Cut(Ending::MadeRoom),
                () = second_room => Relayed::Cut(Ending::MadeRoom),
            }
        };
        let relayed = self.phase(Phase::Relay, None, work).await;
        let passed = match &relayed {
            Err(_) | Ok(Relayed::Cut(_)) => None,
            Ok(Relayed::Ended(totals)) => Some((totals.forward, totals.back)),
            Ok(Relayed::Failed(error)) => {
                Some((error.passed(Direction::Forward), error.passed(Direction::Back)))
            }
        };
        let gone = match relayed {
            Err(left) => Err(self.left(left)),
            // The time for a peer's answers has passed.
            Ok(Relayed::Cut(ending)) => {
                self.linger(&mut first, &mut second, ways, ending, LingerTimeouts::none()).await
            }
            // Most short connections: there is nobody to wait for.
            Ok(Relayed::Ended(totals))
                if closes_at_end
                    && totals.ended == Ended::Closed
                    && ways.are_seen_off(&first.conduit, &second.conduit) =>
            {
                farewell([&mut first, &mut second]);
                return Course { passed, ..Course::of(Ending::Closed) };
            }
            Ok(Relayed::Ended(totals)) => match self.cut_short(&totals, datagrams) {
                None => {
                    let patience = match totals.ended {
                        Ended::Closed => LingerTimeouts::of(settings.linger),
                        // A limit of the user's has ended it: nobody waits for what peers still might say.
                        _ => LingerTimeouts::none(),
                    };
                    let ending = totals.ended.into();
                    self.linger(&mut first, &mut second, ways, ending, patience).await
                }
                Some(failure) => Err(Course::failed(totals.ended.into(), failure)),
            },
            Ok(Relayed::Failed(error)) => Err(self.failed(&error, &mut first, &mut second).await),
        };
        let course = match gone {
            // Reset, so that no peer takes what came for all of it.
            Err(course) => aborted(course, [first, second]),
            Ok(Course { ending: Ending::Closed, .. }) => self.programs(first, second).await,
            Ok(course) => {
                // Closing a terminal hangs its program up, and throws away what the program has not read yet.
                (first.keeper, second.keeper) = (Keeper::default(), Keeper::default());
                course
            }
        };
        Course { passed, ..course }
    }

    /// The cause of a relay's failure. Bytes delivered before arrive before the reset, which would overtake them.
    async fn failed(&self, error: &Error, first: &mut End, second: &mut End) -> Course {
        let (a_name, b_name) = self.names();
        let concerned = match error.end() {
            Some(gush_net::End::A) => Some((&mut first.keeper, a_name)),
            Some(gush_net::End::B) => Some((&mut second.keeper, b_name)),
            None => None,
        };
        let program = match concerned {
            Some((keeper, name)) => programs::finish_of(keeper, name, Some(LAST_WORDS)).await,
            None => Finish::Well,
        };
        // Programs are told first: their input has no proper end.
        (first.keeper, second.keeper) = (Keeper::default(), Keeper::default());
        let arrived = async {
            tokio::join!(first.conduit.arrived(LAST_WORDS), second.conduit.arrived(LAST_WORDS))
        };
        // It is over either way.
        let _ = self.phase(Phase::Linger, None, arrived).await;
        match program {
            Finish::Failed(failure) => Course::failed(Ending::ProgramFailed, failure),
            Finish::Well | Finish::Late(_) => {
                let failure =
                    self.shared.relay_failure(error, &self.names, [first.origin, second.origin]);
                Course::failed(Ending::RelayFailed, failure)
            }
        }
    }

    /// The two ends as they stand.
    fn names(&self) -> (&Name<'a>, &Name<'a>) {
        self.shared.in_order(&self.names.client, &self.names.other)
    }

    /// What is wrong with a relay that a time limit has ended.
    ///
    /// Datagrams have no end of data: a silence is all that can end them.
    fn cut_short(&self, totals: &Totals, datagrams: bool) -> Option<Failure> {
        let lost_bytes = totals.forward.in_flight_bytes + totals.back.in_flight_bytes;
        let limit = match totals.ended {
            Ended::Idle if totals.stuck || !datagrams => self.shared.settings.idle,
            Ended::Lingered if totals.stuck => self.shared.settings.linger,
            _ => return None,
        };
        let (first, second) = self.names();
        let mut why = format!("{first} to {second}: nothing moved");
        if let Some(limit) = limit {
            why += &format!(" for {}", with_unit(limit));
        }
        if lost_bytes > 0 {
            why += &format!("; {lost_bytes} bytes taken and not delivered");
        } else if totals.stuck {
            why += "; bytes that wait at their source were not taken";
        }
        Some(Failure::new(why, None))
    }

    /// Waits until all that was sent has arrived, at both ends at once, and then says the end where it was not said. Bytes that
    /// are not acknowledged in time are no reason to reset their connection: the kernel goes on sending them.
    async fn linger(
        &self,
        first: &mut End,
        second: &mut End,
        ways: Ways,
        ending: Ending,
        patience: LingerTimeouts,
    ) -> Result<Course, Course> {
        let a = first.conduit.linger(ways.used_of_first(), patience);
        let b = second.conduit.linger(ways.used_of_second(), patience);
        let read_limit = match self.shared.settings.linger {
            // Our own limit is over, and not the user's.
            None if ending == Ending::Lingered => LingerTimeouts::of(None),
            _ => patience,
        };
        let read_limit = read_limit.unsent();
        let (a_lines, b_lines) =
            (first.keeper.is_read(read_limit), second.keeper.is_read(read_limit));
        let gone = async { tokio::join!(a, b, a_lines, b_lines) };
        let gone = self.phase(Phase::Linger, None, gone).await;
        let (a, b, a_lines, b_lines) = gone.map_err(|left| self.left(left))?;
        let (a_name, b_name) = self.names();
        for (read, name) in [(a_lines, a_name), (b_lines, b_name)] {
            if let Err(bytes) = read {
                // Closing the terminal throws them away, and so whoever has sent them is told.
                let advice = self.shared.settings.advice(WAITS_LONGER);
                let why =
                    format!("{name}: {bytes} bytes or more were not read there in time{advice}");
                return Err(Course::failed(Ending::RelayFailed, Failure::new(why, None)));
            }
        }
        let mut course = Course::of(ending);
        for (seen_off, name) in [(a, a_name), (b, b_name)] {
            if let Err(unsent) = seen_off {
                course = Course::failed(Ending::RelayFailed, self.unsent_failure(&unsent, name));
                if !matches!(unsent, LingerError::Late(_)) {
                    return Err(course);
                }
                break;
            }
        }
        farewell([first, second]);
        Ok(course)
    }

    fn unsent_failure(&self, unsent: &LingerError, name: &Name<'_>) -> Failure {
        match unsent {
            LingerError::Failed(error) => {
                let why = os_text(error);
                let why =
                    format!("{name}: after the last byte: {why} (it may not have read all bytes)");
                Failure::new(why, error.raw_os_error())
            }
            _ => {
                let advice = self.shared.settings.advice(WAITS_LONGER);
                Failure::new(format!("{name}: {unsent}{advice}"), None)
            }
        }
    }

    /// Waits until the programs of both ends have done their work: their exit statuses count. One limit is there for both, and the
    /// first that fails ends the other.
    async fn programs(&self, first: Box<End>, second: Box<End>) -> Course {
        if first.keeper.process().is_none() && second.keeper.process().is_none() {
            return Course::of(Ending::Closed);
        }
        let (a_name, b_name) = self.names();
        // In one direction nobody ever reads what the program of the second end writes.
        let second_heed = (!self.shared.settings.one_way).then_some(LAST_WORDS);
        let finished = async {
            tokio::try_join!(
                self.program(first, a_name, Some(LAST_WORDS)),
                self.program(second, b_name, second_heed)
            )
        };
        let late = match self.phase(Phase::Program, None, finished).await {
            Err(left) => return self.left(left),
            Ok(Err(failure)) => return Course::failed(Ending::ProgramFailed, failure),
            Ok(Ok((a_late, b_late))) => a_late.into_iter().chain(b_late),
        };
        // The linger limit ends what goes on in peace, the idle limit with an error.
        let mut course = Course::of(Ending::Closed);
        for failure in late {
            match (self.shared.settings.linger, course.ending) {
                (None, Ending::Closed) => course = Course::failed(Ending::Idle, failure),
                (Some(_), _) => {
                    warn!(id = self.id, "{failure}");
                    course = Course::of(Ending::Lingered);
                }
                _ => warn!(id = self.id, "{failure}"),
            }
        }
        course
    }

    /// Waits until the program of an end has done its work, and tells what it has left unread. Answers with the program that is still
    /// at work at the limit.
    ///
    /// # Errors
    /// The failure of the program.
    async fn program(
        &self,
        end: Box<End>,
        name: &Name<'_>,
        heed: Option<Duration>,
    ) -> Result<Option<Failure>, Failure> {
        // The conduit of any other end is closed here: a program sees the end of its input. Closing the master of a terminal is a
        // hang-up (tty(4), SIGHUP), and throws away what the program has not read yet.
        let End { conduit, mut keeper, .. } = *end;
        let terminal = Some(conduit).filter(Conduit::is_terminal_master);
        let limit = self.shared.settings.linger.or(self.shared.settings.idle);
        match programs::finish_beside(terminal, heed, &mut keeper, name, limit).await {
            Finish::Well => {
                if let Some(left) = programs::unread(&mut keeper, name) {
                    match self.shared.forks {
                        // Of many clients it may be the usual end.
                        true => info!(id = self.id, "{left}"),
                        false => warn!("{left}"),
                    }
                }
                Ok(None)
            }
            Finish::Failed(failure) => Err(failure),
            Finish::Late(failure) => Ok(Some(failure)),
        }
    }
}

/// Which directions two ends have between them.
#[derive(Clone, Copy)]
struct Ways {
    forward: bool,
    back: bool,
}

impl Ways {
    fn between(a: &Conduit, b: &Conduit) -> Self {
        Self { forward: a.reads() && b.writes(), back: b.reads() && a.writes() }
    }

    /// How the first end is used: what comes back is written there.
    fn used_of_first(self) -> Used {
        Used { is_written: self.back, is_read: self.forward }
    }

    fn used_of_second(self) -> Used {
        Used { is_written: self.forward, is_read: self.back }
    }

    /// Has all that was sent to either end arrived there?
    fn are_seen_off(self, a: &Conduit, b: &Conduit) -> bool {
        a.is_seen_off(self.used_of_first()) && b.is_seen_off(self.used_of_second())
    }
}

/// Is the end a terminal that was opened by its name, such as a serial line, or a new one that programs may open again and again?
/// No end of data passes there in either direction. A user's own terminal ends by a key, and that of a program by the program that
/// leaves it.
fn is_terminal_device(end: &End) -> bool {
    end.origin.is_line && end.conduit.reads() || end.keeper.holds_a_line()
}

/// Is the end a file without bytes ahead, or the null device? Its end of data is no sign that somebody has gone.
fn says_nothing(end: &End) -> bool {
    let Some(fd) = end.conduit.read_fd() else { return false };
    let Ok(found) = rustix::fs::fstat(fd) else { return false };
    match FileType::from_raw_mode(found.st_mode) {
        FileType::CharacterDevice => found.st_rdev == NULL_DEVICE,
        FileType::RegularFile => {
            let size_bytes = u64::try_from(found.st_size).unwrap_or(0);
            rustix::fs::tell(fd).is_ok_and(|position_bytes| position_bytes >= size_bytes)
        }
        _ => false,
    }
}

fn warn_of_untold_end(advice: &str) {
    warn!(
        "a raw terminal cannot pass on the end of the input; {advice}pipes instead of pty pass the end on"
    );
}

/// Says the end, at the proper end of a life, to peers of TLS not told of one: where a limit or draining ended the
/// connection, where the data went one way only, with `shut-none`. Nobody waits for one that takes nothing any more.
fn farewell(ends: [&mut End; 2]) {
    for end in ends {
        let _ = end.conduit.poll_part(&mut Context::from_waker(Waker::noop()));
    }
}

/// Ends a life that did not come to its proper end: programs are told to end, and the peers of TCP sockets see a reset.
fn aborted(course: Course, ends: impl IntoIterator<Item = Box<End>>) -> Course {
    for end in ends {
        let End { conduit, keeper, .. } = *end;
        drop(keeper);
        conduit.reset_on_close();
    }
    course
}

/// A client while the other address opens.
#[derive(Clone, Copy)]
struct Client<'p> {
    socket: BorrowedFd<'p>,
    /// Are its data wanted?
    is_heard: bool,
    /// Is a close the proper end of its data, since nothing goes back?
    ends_by_closing: bool,
}

impl Client<'_> {
    /// Has it closed, with nothing left that somebody wants?
    fn has_gone(self) -> bool {
        is_closed(self.socket) && !self.ends_by_closing && !(self.is_heard && self.has_unread())
    }

    /// Are there bytes of its data that nobody has read yet?
    fn has_unread(self) -> bool {
        ioctl_fionread(self.socket).is_ok_and(|bytes| bytes > 0)
    }
}

/// Has the peer ended both directions, as the kernel tells of Unix sockets (unix_poll of net/unix/af_unix.c)?
fn is_closed(socket: impl AsFd) -> bool {
    gush::poll_now(&socket, PollFlags::empty()).is_ok_and(|told| told.contains(PollFlags::HUP))
}

/// Over when the client has gone for good: at a reset, or at a close where the kernel tells that from a half-close, which
/// it does for Unix sockets. A client that has closed behind data of its own waits to be heard.
async fn hung_up(client: Option<Client<'_>>) -> std::io::Error {
    let Some(client) = client else { return pending().await };
    let socket = client.socket;
    if let Ok(watched) = watch(socket, Interest::READABLE) {
        return gone(client, watched).await;
    }
    // The socket under a stream of TLS is registered already: epoll takes it under another number only (EEXIST).
    let copy = socket.try_clone_to_owned().and_then(|copy| watch(copy, Interest::READABLE));
    match copy {
        Ok(watched) => gone(client, watched).await,
        Err(_) => pending().await,
    }
}

async fn gone<F: AsFd + AsRawFd>(client: Client<'_>, watched: AsyncFd<F>) -> std::io::Error {
    let mut interest = Interest::READABLE | Interest::ERROR;
    loop {
        let mut guard = match watched.ready(interest).await {
            Ok(guard) => guard,
            Err(error) => return error,
        };
        let ready = guard.ready();
        if ready.is_error() || client.has_gone() {
            return match sockopt::socket_error(watched.get_ref()) {
                Ok(Err(errno)) | Err(errno) => errno.into(),
                Ok(Ok(())) => std::io::ErrorKind::ConnectionAborted.into(),
            };
        }
        if ready.is_read_closed() {
            // The end of data stays ready; that the client has closed makes it ready to be written, too (EPOLLHUP).
            interest = Interest::WRITABLE | Interest::ERROR;
        }
        if ready.is_write_closed() {
            interest = Interest::ERROR;
        }
        guard.clear_ready();
    }
}
