//! Peers that are called: `tcp:HOST:PORT,fork` makes one connection after the other.

use tokio::time::Instant;

use crate::address::Address;
use crate::open::{End, OpenError, OpenOptions, Opened, Retries, attempt};

/// As with socat, the attempts of `retry=` are those of all connections together.
#[derive(Debug)]
pub(super) struct Calls {
    address: Address,
    how: OpenOptions,
    retries: Retries,
    /// Kept here: a call may be cancelled while it waits.
    due: Instant,
}

impl Calls {
    pub fn new(address: &Address, how: &OpenOptions) -> Self {
        let retries = Retries::of(address.options());
        Self { address: address.clone(), how: how.clone(), retries, due: Instant::now() }
    }

    /// Connects to the next peer, `interval=` after the last one was reached.
    pub async fn next(&mut self) -> Result<End, OpenError> {
        loop {
            tokio::time::sleep_until(self.due).await;
            match self.call().await {
                Ok(end) => {
                    self.due = Instant::now() + self.retries.interval;
                    return Ok(end);
                }
                Err(error) => self.retries.after(error.at(self.address.locator())).await?,
            }
        }
    }

    /// With its handshake, so that a peer that refuses it is called again no sooner.
    async fn call(&self) -> Result<End, OpenError> {
        match attempt(&self.address, &self.how).await? {
            Opened::One(end) if end.wants_handshake() => {
                let mut end = end.handshake().await?;
                end.conduit = self.how.narrowed(end.conduit)?;
                Ok(end)
            }
            Opened::One(end) => Ok(end),
            Opened::Listener(_) => Err(OpenError::said("connect", "it listens")),
        }
    }
}
