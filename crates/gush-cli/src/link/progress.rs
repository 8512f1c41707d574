//! The progress of a running link.

use std::io::{IsTerminal, stderr};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use gush_link::Ledger;
use gush_net::Direction;
use gush_text::rounded_bytes;
use indicatif::{HumanDuration, ProgressBar, ProgressStyle};

use crate::console::Console;
use crate::cp::When;

/// The intervals of updates on a terminal, and of lines in a log.
const DRAWN_EVERY: Duration = Duration::from_millis(200);
const SAID_EVERY: Duration = Duration::from_secs(1);

/// How long the end of a link waits for a stopped terminal (Ctrl-S).
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);

/// Shows the totals of a running link.
#[derive(Debug)]
pub struct Display {
    done: Sender<()>,
    over: Receiver<()>,
}

impl Display {
    /// Starts showing, if `when` asks for a display and there is a terminal.
    pub fn start(when: Option<When>, ledger: Arc<Ledger>, console: &Console) -> Option<Self> {
        let on_terminal = stderr().is_terminal();
        match when? {
            When::Never => return None,
            When::Auto if !on_terminal => return None,
            When::Auto | When::Always => {}
        }
        let console = console.clone();
        let (done, is_done) = channel();
        let (is_over, over) = channel();
        let show = move || {
            // Dropped at the thread's end, even by a panic.
            let _is_over: Sender<()> = is_over;
            let bar = on_terminal.then(bar);
            let every = if on_terminal { DRAWN_EVERY } else { SAID_EVERY };
            let mut meter = Meter::new();
            while is_done.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                let line = meter.line(&ledger);
                match &bar {
                    Some(bar) => bar.set_message(line),
                    None => console.say(line),
                }
            }
            if let Some(bar) = bar {
                bar.finish_and_clear();
            }
            console.say(meter.total(&ledger));
        };
        // Without a thread the link runs without a display.
        thread::Builder::new().name("gush-progress".into()).spawn(show).ok()?;
        Some(Self { done, over })
    }

    /// Clears the line and prints the totals.
    pub fn finish(self) {
        drop(self.done);
        let _ = self.over.recv_timeout(EXIT_TIMEOUT);
    }
}

/// Prints the totals of the running link whenever it is called.
pub fn report(ledger: Arc<Ledger>, console: Console) -> impl FnMut() + Send + 'static {
    let mut meter = Meter::new();
    move || console.say(format_args!("info: {}", meter.line(&ledger)))
}

fn bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {wide_msg}");
    ProgressBar::no_length().with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()))
}

/// Rates since the last update.
#[derive(Debug)]
struct Meter {
    began: Instant,
    looked: Instant,
    seen_bytes: [u64; 2],
}

impl Meter {
    fn new() -> Self {
        Self { began: Instant::now(), looked: Instant::now(), seen_bytes: [0; 2] }
    }

    fn line(&mut self, ledger: &Ledger) -> String {
        // Bounded, so that the rate is finite.
        let seconds = self.looked.elapsed().as_secs_f64().max(1e-3);
        self.looked = Instant::now();
        let bytes = Direction::ALL.map(|way| ledger.delivered_bytes(way));
        let rate = |way: usize| {
            let new = bytes[way].saturating_sub(self.seen_bytes[way]);
            rounded_bytes((new as f64 / seconds) as u64)
        };
        let line = format!(
            "{} forward ({}/s), {} back ({}/s), {} open, {} in all, {:#}",
            rounded_bytes(bytes[0]),
            rate(0),
            rounded_bytes(bytes[1]),
            rate(1),
            ledger.active(),
            ledger.connections(),
            HumanDuration(self.began.elapsed()),
        );
        self.seen_bytes = bytes;
        line
    }

    fn total(&self, ledger: &Ledger) -> String {
        let [forward, back] = Direction::ALL.map(|way| rounded_bytes(ledger.delivered_bytes(way)));
        let seconds = self.began.elapsed().as_secs_f64();
        format!("{forward} forward, {back} back, {} in all, {seconds:.3} s", ledger.connections())
    }
}
