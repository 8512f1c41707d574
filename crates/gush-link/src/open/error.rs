//! The error of opening an address, with its remedy.

use std::fmt;
use std::io;

use gush::Errno;
use gush_text::{Doing, os_text};

/// The address that could not be opened, the step that failed, why, and the remedy.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use gush_link::open::{OpenOptions, open};
/// let error = open(&"file:/no/such/file".parse().unwrap(), &OpenOptions::default()).await.unwrap_err();
/// assert_eq!(error.to_string(), "file:/no/such/file: open: No such file or directory");
/// assert!(error.hint().unwrap().contains("create"));
/// # }
/// ```
#[derive(Debug)]
pub struct OpenError {
    address: String,
    step: String,
    cause: Cause,
    passes: bool,
    /// Did a proxy or a TLS server refuse?
    is_refusal: bool,
    doing: Doing,
    hint: Option<String>,
}

#[derive(Debug)]
enum Cause {
    Io(io::Error),
    Said(String),
}

impl OpenError {
    pub(crate) fn new(step: impl Into<String>, error: impl Into<io::Error>) -> Self {
        let error = error.into();
        Self {
            address: String::new(),
            step: step.into(),
            passes: passes(&error),
            is_refusal: false,
            doing: Doing::Other,
            hint: None,
            cause: Cause::Io(error),
        }
    }

    pub(crate) fn said(step: impl Into<String>, why: impl Into<String>) -> Self {
        Self {
            address: String::new(),
            step: step.into(),
            cause: Cause::Said(why.into()),
            passes: false,
            is_refusal: false,
            doing: Doing::Other,
            hint: None,
        }
    }

    /// None of several addresses could be opened.
    pub(crate) fn of_all(failures: Vec<Self>) -> Self {
        let passes = failures.iter().any(Self::passes);
        let texts: Vec<_> = failures.iter().map(ToString::to_string).collect();
        let hint = failures.iter().find_map(|failure| failure.hint().map(str::to_owned));
        Self { passes, hint, ..Self::said("open any", texts.join("; ")) }
    }

    /// The operation, by which a remedy for the errno is found if there is no hint.
    pub(crate) fn doing(self, doing: Doing) -> Self {
        Self { doing, ..self }
    }

    pub(crate) fn hinted(mut self, hint: impl Into<String>) -> Self {
        self.hint.get_or_insert(hint.into());
        self
    }

    pub(crate) fn instead_hinted(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    pub(crate) fn hinted_by(self, hint: Option<&str>) -> Self {
        match hint {
            Some(hint) => self.hinted(hint),
            None => self,
        }
    }

    pub(crate) fn passing(mut self, passes: bool) -> Self {
        self.passes = passes;
        self
    }

    /// By a proxy or a TLS server that was there.
    pub(crate) fn refused(self) -> Self {
        Self { is_refusal: true, ..self }
    }

    /// What came is no answer of a proxy.
    pub(crate) fn unanswered(self) -> Self {
        Self { is_refusal: false, ..self }
    }

    pub(crate) fn is_refusal(&self) -> bool {
        self.is_refusal
    }

    pub(crate) fn step_is(mut self, step: String) -> Self {
        self.step = step;
        self
    }

    pub(crate) fn at(mut self, address: impl fmt::Display) -> Self {
        self.address = address.to_string();
        self
    }

    /// The step that failed, such as `connect to 127.0.0.1:80`.
    #[must_use]
    pub fn step(&self) -> &str {
        &self.step
    }

    /// The operating system's error, where there is one.
    #[must_use]
    pub fn io_error(&self) -> Option<&io::Error> {
        match &self.cause {
            Cause::Io(error) => Some(error),
            Cause::Said(_) => None,
        }
    }

    /// May a retry succeed, as when the server has not started yet? `retry=` retries only then.
    #[must_use]
    pub fn passes(&self) -> bool {
        self.passes
    }

    /// The remedy for the user, where there is one.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        let by_errno = || gush_text::remedy(self.doing, Errno::from_io_error(self.io_error()?)?);
        self.hint.as_deref().or_else(by_errno)
    }

    /// Does this machine lack the address, or the version of the protocol?
    pub(crate) fn is_unknown_here(&self) -> bool {
        matches!(self.errno(), Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL))
    }

    /// Were there not enough descriptors, in the process or in the system?
    pub(crate) fn wants_descriptors(&self) -> bool {
        matches!(self.errno(), Some(libc::EMFILE | libc::ENFILE))
    }

    pub(crate) fn errno(&self) -> Option<i32> {
        self.io_error()?.raw_os_error()
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The files of an address are read again later, for whatever client.
        if !self.address.is_empty() {
            write!(f, "{}: ", self.address)?;
        }
        write!(f, "{}: ", self.step)?;
        match &self.cause {
            Cause::Io(error) => f.write_str(&os_text(error)),
            Cause::Said(why) => f.write_str(why),
        }
    }
}

/// The operating system's part is in the text already.
impl std::error::Error for OpenError {}

/// Names the step that failed.
pub(crate) trait Step<T> {
    fn step(self, step: impl Into<String>) -> Result<T, OpenError>;
}

impl<T, E: Into<io::Error>> Step<T> for Result<T, E> {
    fn step(self, step: impl Into<String>) -> Result<T, OpenError> {
        self.map_err(|error| OpenError::new(step, error))
    }
}

/// Errors that may pass by themselves: a server that is not up yet, a network that is down, a
/// missing name.
fn passes(error: &io::Error) -> bool {
    const PASSING: [i32; 13] = [
        libc::ECONNREFUSED,
        libc::ECONNRESET,
        libc::ECONNABORTED,
        libc::EHOSTUNREACH,
        libc::EHOSTDOWN,
        libc::ENETUNREACH,
        libc::ENETDOWN,
        libc::ETIMEDOUT,
        libc::EADDRINUSE,
        libc::EADDRNOTAVAIL,
        libc::ENOENT,
        libc::EAGAIN,
        libc::EMFILE,
    ];
    error.raw_os_error().is_some_and(|errno| PASSING.contains(&errno))
}
