//! Connecting to a host with several addresses: attempts overlap, and the first that succeeds
//! counts (RFC 8305, Happy Eyeballs).

use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use tokio::time::timeout;

use crate::address::Family;

/// How long an attempt goes on alone before the next begins (RFC 8305, 5).
const HEAD_START: Duration = Duration::from_millis(250);

type Attempt<'a, T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send + 'a>>;

/// The first success of `attempts`, which are begun in order: each once the one before has failed,
/// or has taken [`HEAD_START`] if they may overlap. The others are dropped.
///
/// # Errors
/// What all have failed of, in the order of the failures.
pub(super) async fn first<'a, T, E>(
    attempts: impl IntoIterator<Item = Attempt<'a, T, E>>,
    may_overlap: bool,
) -> Result<T, Vec<E>> {
    let mut attempts = attempts.into_iter().peekable();
    let (mut running, mut failures) = (Vec::new(), Vec::new());
    loop {
        running.extend(attempts.next());
        if running.is_empty() {
            return Err(failures);
        }
        let ended = one_of(&mut running);
        let ended = match may_overlap && attempts.peek().is_some() {
            true => timeout(HEAD_START, ended).await.ok(),
            false => Some(ended.await),
        };
        match ended {
            Some(Ok(success)) => return Ok(success),
            Some(Err(error)) => failures.push(error),
            None => {}
        }
    }
}

/// The result of the first attempt that ends.
async fn one_of<T, E>(running: &mut Vec<Attempt<'_, T, E>>) -> Result<T, E> {
    poll_fn(|cx| {
        let ended = running.iter_mut().enumerate().find_map(|(at, attempt)| {
            match attempt.as_mut().poll(cx) {
                Poll::Ready(result) => Some((at, result)),
                Poll::Pending => None,
            }
        });
        let Some((at, result)) = ended else { return Poll::Pending };
        drop(running.remove(at));
        Poll::Ready(result)
    })
    .await
}

/// The addresses in the order in which they are tried: those of the preferred version of IP first,
/// or both in turn.
pub(super) fn in_order(
    mut addresses: Vec<SocketAddr>,
    preferred: Option<Family>,
) -> Vec<SocketAddr> {
    let Some(preferred) = preferred else { return in_turn(addresses) };
    addresses.sort_by_key(|address| address.is_ipv4() != (preferred == Family::V4));
    addresses
}

/// The addresses with the two versions of IP in turn, beginning with that of the first (RFC 8305,
/// 4).
fn in_turn(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let begins_with_v4 = addresses.first().is_some_and(SocketAddr::is_ipv4);
    let (mut ours, mut others) = (0, 0);
    let mut placed: Vec<_> = addresses
        .into_iter()
        .map(|address| {
            let (count, place) = match address.is_ipv4() == begins_with_v4 {
                true => (&mut ours, 0),
                false => (&mut others, 1),
            };
            *count += 1;
            (*count, place, address)
        })
        .collect();
    placed.sort_by_key(|&(count, place, _)| (count, place));
    placed.into_iter().map(|(.., address)| address).collect()
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::io::AsyncReadExt;
    use tokio::time::{Instant, sleep};

    use super::*;

    fn after(millis: u64, result: Result<u32, u32>) -> Attempt<'static, u32, u32> {
        Box::pin(async move {
            sleep(Duration::from_millis(millis)).await;
            result
        })
    }

    /// The clock stands still, and goes to the next timer when there is nothing else to do.
    #[tokio::test(start_paused = true)]
    async fn an_address_that_does_not_answer_delays_the_next_by_a_quarter_of_a_second() {
        let began = Instant::now();
        let attempts = [Box::pin(pending()) as Attempt<'_, u32, u32>, after(10, Ok(2))];
        assert_eq!(first(attempts, true).await, Ok(2));
        assert_eq!(began.elapsed(), Duration::from_millis(260));
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_begins_the_next_attempt_at_once_and_earlier_ones_go_on() {
        let began = Instant::now();
        let attempts = [after(400, Ok(1)), after(10, Err(2)), after(500, Ok(3))];
        assert_eq!(first(attempts, true).await, Ok(1));
        assert_eq!(began.elapsed(), Duration::from_millis(400));
        let failing = [after(300, Err(1)), after(10, Err(2)), after(0, Err(3))];
        assert_eq!(first(failing, true).await, Err(vec![2, 3, 1]));
    }

    /// Servers see them end, and serve no client that never speaks.
    #[tokio::test(start_paused = true)]
    async fn the_connections_of_slower_attempts_are_closed() {
        let (client, mut server) = tokio::io::duplex(1);
        let slower: Attempt<'_, u32, u32> = Box::pin(async move {
            let _connected = client;
            pending().await
        });
        assert_eq!(first([slower, after(10, Ok(2))], true).await, Ok(2));
        let end = timeout(HEAD_START, server.read_u8()).await.expect("an end");
        assert_eq!(end.unwrap_err().kind(), std::io::ErrorKind::UnexpectedEof);
    }

    #[tokio::test(start_paused = true)]
    async fn attempts_that_must_not_overlap_wait_for_each_other() {
        assert_eq!(first([after(900, Err(1)), after(10, Ok(2))], false).await, Ok(2));
        assert_eq!(first([after(900, Ok(1)), after(10, Ok(2))], false).await, Ok(1));
    }

    #[test]
    fn the_versions_of_ip_take_turns_unless_one_is_preferred() {
        let read = |texts: &[&str]| -> Vec<SocketAddr> {
            texts.iter().map(|text| text.parse().expect("an address")).collect()
        };
        let given = read(&["[::1]:1", "[::2]:1", "[::3]:1", "1.0.0.1:1", "1.0.0.2:1"]);
        let expected = read(&["[::1]:1", "1.0.0.1:1", "[::2]:1", "1.0.0.2:1", "[::3]:1"]);
        assert_eq!(in_order(given.clone(), None), expected);
        assert_eq!(in_order(given.clone(), Some(Family::V6)), given);
        let v4_first = read(&["1.0.0.1:1", "1.0.0.2:1", "[::1]:1", "[::2]:1", "[::3]:1"]);
        assert_eq!(in_order(given, Some(Family::V4)), v4_first);
    }
}
