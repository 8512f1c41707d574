//! One move: `gush_copy`.

use std::ffi::{CStr, c_char, c_int, c_void};

use engine::{Choice, Control, Mover, Rate};

use crate::boundary::{answer, descriptor};
use crate::error::{Error, Status};

/// What becomes of holes in a file that is copied to a file.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub enum Holes {
    /// Holes stay holes.
    Keep = 0,
    /// Each block of zeros becomes a hole.
    Make = 1,
    /// Every byte is written.
    Fill = 2,
}

/// A moment of a move.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// The bytes that have arrived so far.
    pub bytes: u64,
    /// The bytes expected in all, 0 if unknown.
    pub expected_bytes: u64,
    /// Nanoseconds since the move began.
    pub elapsed_ns: u64,
}

/// The options of a move. All zeros are the defaults: `struct gush_options options = {0};`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The method to use or to refuse, such as "splice"; null lets gush choose.
    pub method: *const c_char,
    /// The most bytes to move; null means all, up to the end of the source.
    pub length_bytes: *const u64,
    /// The offset to read from; null means the source's position, which then moves.
    pub source_offset_bytes: *const u64,
    /// The offset to write to; null means the target's position, which then moves.
    pub target_offset_bytes: *const u64,
    /// The most bytes a second; 0 means no limit.
    pub rate_bytes_per_second: u64,
    /// Threads for one large file; 0 lets gush choose.
    pub threads: u32,
    /// One of `enum gush_holes`.
    pub holes: u32,
    /// Never let a later write to the source file show in bytes already sent to a pipe or socket.
    pub isolated: bool,
    /// The target, a file, ends where the move ends.
    pub replace: bool,
    /// Called at least ten times a second, on the thread that called `gush_copy`; false ends the
    /// move. Null if nobody wants to know. No exception and no longjmp may leave this function.
    pub on_progress:
        Option<unsafe extern "C" fn(context: *mut c_void, progress: *const Progress) -> bool>,
    /// Handed to `on_progress`.
    pub context: *mut c_void,
    /// For later versions: zeros.
    pub reserved: [u64; 8],
}

/// The account of a move.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Report {
    /// The bytes that the target gained, holes included.
    pub bytes: u64,
    /// The holes among them.
    pub hole_bytes: u64,
    /// The time that the move took, in nanoseconds.
    pub elapsed_ns: u64,
    /// The method that moved most of the bytes, "" if there were none. Ends with a null byte.
    pub method: [c_char; 32],
    /// Why the move ended early; its status is `GUSH_STATUS_OK` if the move did not.
    pub error: Error,
}

/// The observer of a C program.
#[derive(Clone, Copy)]
struct Observer {
    call: unsafe extern "C" fn(*mut c_void, *const Progress) -> bool,
    context: *mut c_void,
}

// SAFETY: a mover asks its observer on the thread that runs the move, and nowhere else.
unsafe impl Send for Observer {}

impl Observer {
    fn observe(self, seen: &engine::Progress) -> Control {
        let progress = Progress {
            bytes: seen.bytes,
            expected_bytes: seen.expected_bytes.unwrap_or(0),
            elapsed_ns: nanoseconds(seen.elapsed),
        };
        // SAFETY: the caller's function, with the caller's context and a place that lives
        // meanwhile.
        let goes_on = unsafe { (self.call)(self.context, &raw const progress) };
        if goes_on { Control::Continue } else { Control::Stop }
    }
}

fn nanoseconds(elapsed: std::time::Duration) -> u64 {
    u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX)
}

fn holes_of(number: u32) -> Result<engine::Holes, Error> {
    match number {
        _ if number == Holes::Keep as u32 => Ok(engine::Holes::Keep),
        _ if number == Holes::Make as u32 => Ok(engine::Holes::Make),
        _ if number == Holes::Fill as u32 => Ok(engine::Holes::Fill),
        _ => Err(Error::invalid("holes is none of enum gush_holes")),
    }
}

/// # Safety
/// The pointers in the options are null or valid.
unsafe fn with_options<'a>(mut mover: Mover<'a>, options: &Options) -> Result<Mover<'a>, Error> {
    if options.reserved != [0; 8] {
        return Err(Error::invalid(
            "reserved is not zero: begin with struct gush_options options = {0}",
        ));
    }
    mover = mover
        .isolated(options.isolated)
        .replace(options.replace)
        .threads(options.threads as usize)
        .holes(holes_of(options.holes)?);
    if !options.method.is_null() {
        // SAFETY: not null, and a string by the caller's word.
        let name = unsafe { CStr::from_ptr(options.method) }.to_string_lossy();
        let choice = name.parse::<Choice>();
        mover = mover.method(choice.map_err(|unknown| Error::invalid(&unknown.to_string()))?);
    }
    // SAFETY: null or valid, by the caller's word.
    let [length, source, target] =
        [options.length_bytes, options.source_offset_bytes, options.target_offset_bytes]
            .map(|number| unsafe { number.as_ref() }.copied());
    if let Some(bytes) = length {
        mover = mover.length_bytes(bytes);
    }
    if let Some(bytes) = source {
        mover = mover.source_offset_bytes(bytes);
    }
    if let Some(bytes) = target {
        mover = mover.target_offset_bytes(bytes);
    }
    if let Some(rate) = Rate::bytes_per_second(options.rate_bytes_per_second) {
        mover = mover.limit(rate);
    }
    Ok(mover)
}

/// # Safety
/// As `gush_copy`.
unsafe fn copy(
    source: c_int,
    target: c_int,
    options: *const Options,
) -> Result<engine::Report, Error> {
    // SAFETY: open until the move ends, by the caller's word.
    let (source, target) =
        unsafe { (descriptor(source, "the source")?, descriptor(target, "the target")?) };
    let mut mover = Mover::new(&source, &target);
    // SAFETY: null or valid, by the caller's word.
    let options = unsafe { options.as_ref() };
    if let Some(options) = options {
        // SAFETY: as above.
        mover = unsafe { with_options(mover, options) }?;
    }
    let observer = options.and_then(|options| {
        options.on_progress.map(|call| Observer { call, context: options.context })
    });
    let mut observe =
        observer.map(|observer| move |seen: &engine::Progress| observer.observe(seen));
    if let Some(observe) = &mut observe {
        mover = mover.observe(observe);
    }
    Ok(mover.run()?)
}

/// Moves bytes from one descriptor to another, up to the end of the source, waiting as needed.
///
/// `options` may be null for the defaults, and `report` may be null if nobody wants to know.
/// Without offsets the descriptors' positions move, as with read and write. Descriptors stay open.
///
/// A pipe whose reader has left raises SIGPIPE, as write does, and so does a socket where splice or
/// sendfile is used; with the signal ignored the error is EPIPE.
///
/// # Safety
/// Both descriptors stay open until the function returns. Each pointer is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gush_copy(
    source_fd: c_int,
    target_fd: c_int,
    options: *const Options,
    report: *mut Report,
) -> Status {
    let mut moved = None;
    let mut error = Error::none();
    // SAFETY: the caller's word on the arguments; the place for the error is ours.
    let status = unsafe {
        answer(&raw mut error, || {
            moved = Some(copy(source_fd, target_fd, options)?);
            Ok(())
        })
    };
    let mut filled = Report {
        bytes: error.delivered_bytes,
        hole_bytes: 0,
        elapsed_ns: 0,
        method: [0; 32],
        error,
    };
    if let Some(moved) = moved {
        filled.bytes = moved.bytes;
        filled.hole_bytes = moved.hole_bytes;
        filled.elapsed_ns = nanoseconds(moved.elapsed);
        if let Some(method) = moved.main_method() {
            filled.method = crate::error::text_of(&method.to_string());
        }
    }
    if !report.is_null() {
        // SAFETY: not null, and the caller lets us write there.
        unsafe { report.write(filled) };
    }
    status
}
