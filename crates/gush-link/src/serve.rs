//! From two addresses to connections: a single one, or one for every client.
//!
//! A client is accepted only if a place is free (`max-children=`, descriptors); otherwise it stays
//! in the kernel's queue. Every wait is raced against [`Stop`](crate::Stop).

use std::convert::Infallible;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::pin::pin;
use std::sync::{Arc, Mutex as StdMutex};
use std::time::Duration;

use gush_text::with_unit;
use tokio::sync::{Mutex, OwnedSemaphorePermit, mpsc, watch};
use tracing::{error, info, warn};

use crate::address::{Address, Opt};
use crate::connection;
use crate::ends::{accept, listen, open_failure, open_one, open_ready};
use crate::exporter;
use crate::handover::{Event, FAILED, Handover, HandoverRole, Metrics, Relays, Resumed};
use crate::ledger::Ledger;
use crate::limits::Places;
use crate::open::{Listener, Peer, Throttle, prepare, reaper};
use crate::record::{Failure, Record};
use crate::roles::Roles;
use crate::session::{Arrival, EARLY_WARNINGS, Name, Other, Shared};
use crate::settings::Settings;
use crate::shared_end::SharedEnd;
use crate::stop::{Cancellation, Stop};
use crate::workers::{self, Balance, LoadGuard, Seat, Workers};

/// How long a handover may go on once the link drains.
const LAST_GROUPS: Duration = Duration::from_secs(1);

/// Runs a link to its end.
///
/// # Errors
/// The failure that ended the link early.
pub(crate) fn run(
    roles: &Roles,
    settings: &Arc<Settings>,
    ledger: &Arc<Ledger>,
    stop: &Stop,
) -> Result<(), Failure> {
    check(roles, settings).map_err(|failure| match roles.forks() {
        true => failure,
        false => not_opened(failure, &roles.first, &roles.second, settings, ledger),
    })?;
    let runtime = workers::runtime().map_err(|error| {
        Failure::new(format!("no runtime can be started: {error}"), error.raw_os_error())
    })?;
    let ran = runtime.block_on(async {
        let mut handover = None;
        if let Some(path) = &settings.handover {
            let begun = until(stop.draining(), Handover::begin(path, roles)).await;
            let Some(begun) = begun else { return Ok(()) };
            handover = Some(begun?);
        }
        if let Some(place) = &settings.metrics {
            let taken = handover.as_mut().and_then(|handover| handover.metrics_at(place));
            let listener = exporter::listen(place, taken).await?;
            let copy = listener.as_fd().try_clone_to_owned();
            // Listening before the first client: a port that is taken ends the link at once.
            let answering = tokio::spawn(exporter::answer(listener, Arc::clone(ledger)));
            if let (Some(handover), Ok(listener)) = (&mut handover, copy) {
                let (place, answering) = (place.clone(), answering.abort_handle());
                handover.give_metrics(Metrics { place, listener, answering });
            }
        }
        connect(roles, settings, ledger, stop, handover).await
    });
    // Without waiting: a lookup may hang in getaddrinfo(3), which cannot be cancelled.
    runtime.shutdown_background();
    // No program that must end outlives the link.
    let limit = settings.drain_limit();
    reaper::wait(|| stop.is_over(limit));
    let copies = || [&settings.tee, &settings.tee_back].into_iter().flatten();
    copies().for_each(|tee| tee.finish(|| stop.is_over(limit)));
    // A cut copy is a failure of the link, even if every connection succeeded.
    let lost = copies().find_map(|tee| tee.failure());
    ran.and(lost.map_or(Ok(()), |message| Err(Failure::new(message, None))))
}

/// The first step of a start, which reads what the addresses name, and opens nothing.
pub(crate) fn check(roles: &Roles, settings: &Settings) -> Result<(), Failure> {
    for (address, is_first) in [(&roles.first, true), (&roles.second, false)] {
        prepare(address, &settings.how(is_first)).map_err(|error| open_failure(&error))?;
    }
    Ok(())
}

async fn connect(
    roles: &Roles,
    settings: &Arc<Settings>,
    ledger: &Arc<Ledger>,
    stop: &Stop,
    handover: Option<Handover>,
) -> Result<(), Failure> {
    let shared = |client: &Address, other: Other, flipped| Shared {
        client: client.clone(),
        settings: Arc::clone(settings),
        ledger: Arc::clone(ledger),
        stop: stop.clone(),
        other_name: Name::Text(other.address().target().to_string().into()),
        other,
        flipped,
        forks: roles.forks(),
        early_warnings: Throttle::allowing(EARLY_WARNINGS).into(),
        relays: settings.handover.as_ref().map(|_| Relays::default()),
        is_ipv6: false,
    };
    let Roles { first, second, .. } = roles;
    let (Some(server), Some(other)) = (roles.server(), roles.other()) else {
        let flipped = settings.reversed;
        let (client, other) = if flipped { (second, first) } else { (first, second) };
        let how = settings.how(!flipped).once();
        let Some(opened) = until(stop.cancelled(), open_one(client, &how)).await else {
            return Ok(());
        };
        let shared = shared(client, Other::Address(other.clone()), flipped);
        return match opened {
            Ok(end) => {
                let Arrival { client, mut known } = shared.arrived(end);
                connection::serve(&shared, client, &mut known, &Cancellation::of(stop)).await
            }
            Err(failure) => Err(not_opened(failure, first, second, settings, ledger)),
        };
    };
    let flipped = roles.are_flipped();
    let (how, how_other) = (settings.how(!flipped), settings.how(flipped));
    // A PROXY header comes first, and names the client.
    let is_opened_first = !roles.forks()
        && !other.kind().listens()
        && flipped != settings.reversed
        && settings.send_proxy.is_none();
    let opened = match roles.shares_other() || is_opened_first {
        false => None,
        true => {
            let how = how_other.clone().once();
            match until(stop.draining(), open_ready(other, &how)).await {
                None => return Ok(()),
                Some(Ok(end)) => Some(end),
                Some(Err(failure)) if roles.forks() => return Err(failure),
                Some(Err(failure)) => {
                    return Err(not_opened(failure, first, second, settings, ledger));
                }
            }
        }
    };
    let listener = {
        // A copy that stayed open would queue clients that a draining link refuses.
        let how = how.listening(handover.as_ref().and_then(Handover::listener));
        until(stop.draining(), listen(server, &how)).await
    };
    let Some(listener) = listener else { return Ok(()) };
    let mut listener = match listener {
        Ok(listener) => listener,
        // No connection was ever there, so there is no record to write.
        Err(failure) if roles.forks() => return Err(failure),
        Err(failure) => return Err(not_opened(failure, first, second, settings, ledger)),
    };
    listener.count_in(ledger.listener());
    let other = match (opened, other.kind().listens()) {
        (Some(end), _) if roles.forks() => Other::Shared(Box::new(SharedEnd::new(other, end)?)),
        (Some(end), _) => Other::Opened(other.clone(), StdMutex::new(Some(Box::new(end)))),
        (None, false) => Other::Address(other.clone()),
        // As socat, so that a probe of the second listener is refused until a client is at the
        // first.
        (None, true) if settings.graceful => Other::Address(other.clone()),
        // The second listener listens from the start: its clients may come before ours.
        (None, true) => match until(stop.draining(), listen(other, &how_other)).await {
            None => return Ok(()),
            Some(bound) => Other::Listener(Box::new(other.clone()), Arc::new(Mutex::new(bound?))),
        },
    };
    let is_ipv6 = matches!(listener.local(), Ok(Peer::Ip(SocketAddr::V6(_))));
    let shared = Shared { is_ipv6, ..shared(server, other, flipped) };
    if roles.forks() {
        serve_all(listener, Arc::new(shared), roles.max_children(), handover).await
    } else {
        serve_one(listener, &shared).await
    }
}

/// Gives the account of a link's only connection, whose address could not be opened.
fn not_opened(
    failure: Failure,
    first: &Address,
    second: &Address,
    settings: &Settings,
    ledger: &Ledger,
) -> Failure {
    let record = Record::of_unopened(ledger.begin(Arc::default()), first, second, failure.clone());
    ledger.end(record.id, [0; 2], record.lasted, record.ending);
    if let Some(on_end) = &settings.on_end {
        on_end(&record);
    }
    failure
}

/// The result of `work`, or `None` if `stop` is over first.
async fn until<T>(stop: impl Future<Output = ()>, work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        () = stop => None,
        done = work => Some(done),
    }
}

/// As [`until`], but a result that is there at once counts, also after `stop`.
async fn at_once_or_until<T>(
    stop: impl Future<Output = ()>,
    work: impl Future<Output = T>,
) -> Option<T> {
    tokio::select! {
        biased;
        done = work => Some(done),
        () = stop => None,
    }
}

/// Resolves when draining is wanted, or `accept-timeout` has passed since the last client came.
async fn no_more_clients(shared: &Shared) {
    let late = async {
        let Some(limit) = shared.client.options().duration(Opt::AcceptTimeout) else {
            return std::future::pending().await;
        };
        let mut before = None;
        // Other threads accept as well.
        while before.replace(shared.ledger.connections()) != Some(shared.ledger.connections()) {
            tokio::time::sleep(limit).await;
        }
        warn!("{}: no client has come for {}", shared.client, with_unit(limit));
    };
    tokio::select! {
        () = shared.stop.draining() => {}
        () = late => {}
    }
}

/// Serves the first client. The listener is closed by then.
async fn serve_one(mut listener: Listener, shared: &Shared) -> Result<(), Failure> {
    let accepted = until(no_more_clients(shared), accept(&mut listener)).await;
    // Other clients are refused at once, and do not wait in the queue.
    listener.close();
    match accepted {
        None => Ok(()),
        Some(client) => {
            let Arrival { client, mut known } = shared.arrived(client?);
            let cancellation = Cancellation::of(&shared.stop);
            connection::serve(shared, client, &mut known, &cancellation).await
        }
    }
}

/// A client of a link that serves many.
pub(crate) struct Client {
    work: Work,
    /// Released at the end.
    _place: Option<OwnedSemaphorePermit>,
    open: Arc<Open>,
}

/// What is to be done for a client.
enum Work {
    Serve(Arrival),
    Resume(Box<Resumed>),
}

/// A link for as long as clients are served or may come.
struct Open {
    shared: Arc<Shared>,
    /// No message is ever sent: the channel closes when the last connection has ended.
    _until_closed: mpsc::Sender<Infallible>,
}

impl Client {
    /// Serves the client to the end. Not `async`, which would keep the client twice.
    pub fn serve(self, guard: LoadGuard) -> impl Future<Output = ()> + Send {
        let Self { mut work, _place: place, open } = self;
        async move {
            // The failure is this client's alone, and logged already.
            let (shared, cancellation) = (&open.shared, guard.cancellation());
            match work {
                Work::Serve(Arrival { client, ref mut known }) => {
                    let _ = connection::serve(shared, client, known, cancellation).await;
                }
                Work::Resume(resumed) => {
                    Box::pin(connection::resume(shared, *resumed, cancellation)).await;
                }
            }
            drop(place);
        }
    }
}

/// Does a link accept clients?
#[derive(Clone, Copy, PartialEq, Eq)]
enum Accepting {
    Goes,
    /// During a handover, which may fail.
    Rests,
    Ended,
}

/// Accepts clients on a further thread.
pub(crate) struct Acceptor {
    listener: Listener,
    places: Arc<Places>,
    open: Arc<Open>,
    /// Dropped after the listener, so that the sender sees when all are closed.
    accepting: watch::Receiver<Accepting>,
}

impl Acceptor {
    /// Accepts while the link does, and only while no other thread has fewer clients.
    pub async fn run(self, balance: Balance) {
        let Self { mut listener, places, open, mut accepting } = self;
        let place = || balance.has_fewest().then(|| places.free_now()).flatten();
        loop {
            let now = accepting.wait_for(|now| *now != Accepting::Rests).await.map(|now| *now);
            if now.is_err() || now.is_ok_and(|now| now == Accepting::Ended) {
                break;
            }
            let over = async {
                let _ = accepting.changed().await;
            };
            let place = match until(over, listener.accept_if(place)).await {
                None => continue,
                Some(None) => break,
                Some(Some(place)) => place,
            };
            // Also during a handover, whose connections leave it their descriptors.
            let admitted = at_once_or_until(open.shared.stop.draining(), listener.admitted());
            let client = match admitted.await {
                None => break,
                Some(Ok(client)) => client,
                Some(Err(error)) => {
                    let address = &open.shared.client;
                    warn!("{address}: an accepted client is given up: {error}");
                    continue;
                }
            };
            let work = Work::Serve(open.shared.arrived(client));
            let client = Client { work, _place: Some(place), open: Arc::clone(&open) };
            tokio::spawn(client.serve(balance.guard()));
            tokio::task::yield_now().await;
        }
        listener.close();
        drop(accepting);
    }
}

/// Serves every client until draining is wanted or a new process takes over, then lets connected
/// clients finish.
async fn serve_all(
    mut listener: Listener,
    shared: Arc<Shared>,
    max_children: Option<usize>,
    handover: Option<Handover>,
) -> Result<(), Failure> {
    let threads = shared.settings.most_threads();
    let places = Places::new(max_children, &shared.client, shared.other.address(), threads);
    let places = Arc::new(places);
    let mut standing = match handover {
        Some(handover) => handover.stand_by(&mut listener, &shared)?,
        None => HandoverRole::Apart,
    };
    let accepting = watch::Sender::new(match standing.accepts() {
        true => Accepting::Goes,
        false => Accepting::Rests,
    });
    listener.limit_stays();
    listener.makes_room_while(places.are_short());
    let (until_closed, mut all_closed) = mpsc::channel::<Infallible>(1);
    let open = Arc::new(Open { shared: Arc::clone(&shared), _until_closed: until_closed });
    let mut workers = Workers::new(threads, &shared.stop);
    let seat = |listener: &Listener, workers: &mut Workers| {
        workers.seat(|| {
            // Two listeners pair their clients in the order of arrival at both.
            if let Other::Listener(..) = shared.other {
                return None;
            }
            let (places, open) = (Arc::clone(&places), Arc::clone(&open));
            let (listener, accepting) = (listener.try_clone()?, accepting.subscribe());
            Some(Acceptor { listener, places, open, accepting })
        })
    };
    let client = |work, place| Client { work, _place: place, open: Arc::clone(&open) };
    let resume = |all: Vec<(Box<Resumed>, Seat)>, workers: &Workers| {
        for (resumed, seat) in all {
            shared.ledger.resume(resumed.id, Arc::clone(&resumed.counts));
            workers.serve(client(Work::Resume(resumed), places.free_now()), seat);
        }
    };
    let mut over = pin!(no_more_clients(&shared));
    let ended = loop {
        let accepts = standing.accepts();
        let accepted = async {
            let place = places.take(&shared.ledger).await;
            (accept(&mut listener).await, place)
        };
        let mut is_over = false;
        let event = tokio::select! {
            biased;
            () = over.as_mut() => {
                is_over = true;
                // Those that come meanwhile are the new process's, if there is one.
                let _ = accepting.send(Accepting::Rests);
                let last = tokio::time::timeout(LAST_GROUPS, standing.last_event()).await;
                let Ok(Some(event)) = last else { break Ok(()) };
                event
            }
            event = standing.event() => event,
            (accepted, place) = accepted, if accepts => match accepted {
                Ok(end) => {
                    let seat = seat(&listener, &mut workers);
                    workers.serve(client(Work::Serve(shared.arrived(end)), place), seat);
                    // Another thread may accept the next client while this one is served.
                    if accepting.receiver_count() > 0 {
                        tokio::task::yield_now().await;
                    }
                    continue;
                }
                Err(failure) => break Err(failure),
            },
        };
        let taker = match event {
            Event::Known(known) => {
                known.place(|| seat(&listener, &mut workers));
                continue;
            }
            Event::Taken(taken) => {
                let taken = taken.map(|all| resume(all, &workers));
                match standing.end(taken, &mut listener, &shared) {
                    Ok(()) => {
                        let _ = accepting.send(Accepting::Goes);
                        continue;
                    }
                    Err(failure) => break Err(failure),
                }
            }
            Event::Asked(taker) => taker,
        };
        let _ = accepting.send(Accepting::Rests);
        // No client comes here meanwhile (`accept-timeout=`). The new process has been told to
        // take over, and would stop if this one did not finish: a drain cuts only what stalls.
        let stalled = async {
            shared.stop.draining().await;
            tokio::time::sleep(LAST_GROUPS).await;
        };
        match taker.give(&shared, stalled).await {
            Ok(stay) => {
                info!("a new process serves the clients from here on; {stay} stay here");
                standing.gave(&mut listener);
                break Ok(());
            }
            Err(error) => warn!("{FAILED}: {error}"),
        }
        if is_over {
            break Ok(());
        }
        let _ = accepting.send(Accepting::Goes);
    };
    // What comes until the running link has noticed belongs to this process.
    while let HandoverRole::Taking(_) = standing {
        match standing.event().await {
            Event::Known(known) => known.place(|| seat(&listener, &mut workers)),
            Event::Taken(taken) => {
                let taken = taken.map(|all| resume(all, &workers));
                drop(standing.end(taken, &mut listener, &shared));
            }
            Event::Asked(_) => break,
        }
    }
    // Accepted before a handover, it waits for descriptors.
    if listener.has_client() {
        match at_once_or_until(shared.stop.draining(), accept(&mut listener)).await {
            Some(Ok(end)) => {
                let seat = seat(&listener, &mut workers);
                let work = Work::Serve(shared.arrived(end));
                workers.serve(client(work, places.free_now()), seat);
            }
            Some(Err(failure)) => warn!("an accepted client is given up: {failure}"),
            None => {}
        }
    }
    // All copies of the listener close here, so that new clients are refused and not queued.
    let _ = accepting.send(Accepting::Ended);
    accepting.closed().await;
    drop(standing);
    listener.close();
    // It would keep the channel open.
    drop(open);
    if let Err(failure) = &ended
        && shared.ledger.active() > 0
    {
        error!("{failure}; no new clients are accepted, connected ones finish");
    }
    let closed = async {
        let _: Option<Infallible> = all_closed.recv().await;
    };
    let drained = drained(closed, &shared).await;
    // After the drain: dropping a runtime cancels its tasks.
    workers.join();
    let Other::Shared(end) = &shared.other else { return ended.and(drained) };
    let settings = &shared.settings;
    let closing = end.close(settings.linger, settings.drain_limit());
    let closed = until(shared.stop.cancelled(), closing).await;
    ended.and(drained).and(closed.unwrap_or(Ok(())))
}

/// Waits until all clients are served. Those left at the drain limit are cut.
async fn drained(closed: impl Future<Output = ()>, shared: &Shared) -> Result<(), Failure> {
    let limit = shared.settings.drain_limit();
    let late = async {
        shared.stop.draining().await;
        tokio::time::sleep(limit).await;
    };
    tokio::pin!(closed);
    tokio::select! {
        biased;
        () = &mut closed => return Ok(()),
        () = late => {}
    }
    let cut = shared.ledger.active();
    shared.stop.cut();
    closed.await;
    let were = if cut == 1 { "connection was" } else { "connections were" };
    let advice = shared.settings.advice("--drain TIME waits longer");
    let limit = with_unit(limit);
    let why = format!("{cut} {were} cut {limit} after draining began{advice}");
    Err(Failure::new(why, None))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use tokio::time::Instant;

    use super::*;
    use crate::connection::{Connection, ConnectionResult, Relaying};
    use crate::open::End;
    use crate::programs;
    use crate::proxy::Version;
    use crate::record::Ending;
    use crate::session::Names;

    fn shared(settings: Settings) -> Shared {
        let address = |text: &str| text.parse::<Address>().expect("an address");
        Shared {
            settings: Arc::new(settings),
            ledger: Arc::new(Ledger::new().expect("metrics agree")),
            stop: Stop::new(),
            client: address("unix-listen:front,fork"),
            other: Other::Address(address("null:")),
            other_name: "null:".into(),
            flipped: false,
            forks: true,
            early_warnings: Throttle::allowing(EARLY_WARNINGS).into(),
            relays: None,
            is_ipv6: false,
        }
    }

    #[test]
    fn an_idle_connection_takes_little_memory() {
        /// Of the future that a function returns.
        fn bytes<A, B, F: Future>(_: impl FnOnce(A, B) -> F) -> usize {
            size_of::<F>()
        }
        let relayed = bytes(|of: &'static mut Relaying, settings: &'static Settings| {
            programs::relayed(&mut of.relay, &mut of.first, &mut of.second, settings)
        });
        let (task, relaying) = (bytes(Client::serve), size_of::<Relaying>());
        let ends = 2 * size_of::<End>();
        let all = task + relaying + relayed + ends;
        assert!(all <= 1800, "{task} + {relaying} + {relayed} + {ends} bytes");
    }

    /// The clock stands still, and goes to the next timer when there is nothing else to do.
    #[tokio::test(start_paused = true)]
    async fn clients_are_cut_half_a_minute_after_draining_began_or_as_the_settings_say() {
        for (drain, seconds) in [(None, 30), (Some(Duration::from_secs(5)), 5)] {
            let shared = shared(Settings { drain, ..Settings::default() });
            let began = Instant::now();
            shared.stop.drain();
            // Its clients go on until they are cut.
            let failure =
                drained(shared.stop.cancelled(), &shared).await.expect_err("they are cut");
            assert_eq!(began.elapsed().as_secs(), seconds, "{failure}");
        }
        // Clients that finish before are not.
        let shared = shared(Settings::default());
        shared.stop.drain();
        let finished = tokio::time::sleep(Duration::from_secs(29));
        drained(finished, &shared).await.expect("nobody is cut");
    }

    #[tokio::test(start_paused = true)]
    async fn a_header_of_proxy_is_waited_for_5_s_or_as_long_as_the_idle_limit() {
        let second = Duration::from_secs(1);
        for (idle, seconds) in [(None, 5), (Some(3 * second), 3), (Some(60 * second), 5)] {
            let shared = shared(Settings { accept_proxy: true, idle, ..Settings::default() });
            let (result, waited) = result_of_a_mute_client(&shared).await;
            assert_eq!(result.ending, Ending::ProxyHeader);
            assert_eq!(waited, seconds, "{:?}", result.failure);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_header_of_proxy_has_5_s_to_be_taken_by_the_other_end_or_by_a_part_of_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let fifo = dir.path().join("full").display().to_string();
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0)
            .expect("a FIFO");
        let mut full = std::fs::File::options().read(true).write(true).open(&fifo).expect("open");
        rustix::io::ioctl_fionbio(&full, true).expect("non-blocking");
        while full.write(&[0; 4096]).is_ok() {}
        for (other, ending) in [
            (format!("pipe:{fifo}"), Ending::ProxyHeader),
            (format!("null:!!pipe:{fifo}"), Ending::OpenFailed),
        ] {
            let settings = Settings { send_proxy: Some(Version::V1), ..Settings::default() };
            let other = Other::Address(other.parse().expect("an address"));
            let shared = Shared { other, ..shared(settings) };
            let (result, seconds) = result_of_a_mute_client(&shared).await;
            let failure = result.failure.expect("the header was not delivered").message;
            assert_eq!((result.ending, seconds), (ending, 5), "{failure}");
            assert!(failure.contains("the PROXY header"), "{failure}");
        }
    }

    /// The result of the connection of a client that sends nothing, and how many seconds it took.
    async fn result_of_a_mute_client(shared: &Shared) -> (ConnectionResult, u64) {
        let (client, mute) = std::os::unix::net::UnixStream::pair().expect("a pair");
        let conduit = gush_net::Conduit::new(client.into()).expect("an end");
        let client = Box::new(End::new(conduit, Peer::Other("client".into())));
        let mut names = Names { client: "client".into(), other: "other".into() };
        let counts = Arc::default();
        let began = Instant::now();
        let cancellation = Cancellation::of(&shared.stop);
        let mut connection = Connection {
            shared,
            id: 1,
            names: &mut names,
            counts: &counts,
            cancellation: &cancellation,
            turn: &mut None,
            began: std::time::Instant::now(),
        };
        let result = connection.run(client).await.expect("it cannot move");
        drop(mute);
        (result, began.elapsed().as_secs())
    }
}
