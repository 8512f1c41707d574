//! From a file to a stream, and from a stream to a file.

use std::fs::File;
use std::ops::{Bound, RangeBounds};
use std::os::fd::AsFd;

use tokio::io::{AsyncRead, AsyncWrite};

use crate::conduit::Conduit;
use crate::copy::{drive, opened};
use crate::counts::Direction;
use crate::drive::Driver;
use crate::error::{End, Error, Totals};
use crate::options::RelayOptions;
use crate::sides::Opened;
use crate::tap::Tap;

/// Sends a part of a file, or all (`..`), inside the kernel where possible. The file's own
/// position is neither used nor changed; the target is left open.
///
/// Pages of the file that are not in memory are read by the calling thread. Unless
/// [`RelayOptions::isolated`] is set, a write to the file before the peer has received the bytes shows in
/// the bytes received.
///
/// # Cancellation
/// As [`relay_one_way`](crate::relay_one_way).
///
/// # Errors
/// As [`relay_one_way`](crate::relay_one_way); and where the file has become shorter than the range, or than the file was
/// at the beginning of the call, an error that [`Error::is_truncated`].
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::io::Write;
/// use tokio::io::AsyncReadExt;
/// let mut file = tempfile::tempfile()?;
/// file.write_all(b"header, body")?;
/// let (mut near, mut far) = tokio::net::UnixStream::pair()?;
/// let totals = gush_net::send_file(&file, 8.., &mut near, &gush_net::RelayOptions::new()).await?;
/// assert_eq!(totals.forward.bytes, 4);
/// drop(near);
/// let mut arrived = String::new();
/// far.read_to_string(&mut arrived).await?;
/// assert_eq!(arrived, "body");
/// # Ok(()) }
/// ```
pub async fn send_file<T>(
    file: &File,
    range: impl RangeBounds<u64> + Send,
    target: &mut T,
    options: &RelayOptions,
) -> Result<Totals, Error>
where
    T: AsyncWrite + Unpin + ?Sized,
{
    let begin = match range.start_bound() {
        Bound::Included(&at) => at,
        Bound::Excluded(&at) => at.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(&at) => Some(at.saturating_add(1)),
        Bound::Excluded(&at) => Some(at),
        Bound::Unbounded => None,
    };
    let source = Tap::file(file.as_fd(), begin).map_err(|io| Error::failed("fstat", End::A, io))?;
    let target = opened(target, End::B)?;
    let size_bytes = source.shape.size_bytes;
    let mut flow = Driver::new(Direction::Forward, options);
    flow.length_bytes = end.map(|end| end.saturating_sub(begin));
    let expected_bytes = end.unwrap_or(size_bytes).saturating_sub(begin);
    let totals = drive(flow, by_file(source), target, options).await?;
    // An idle limit explains missing bytes by itself; otherwise the file was cut meanwhile.
    if totals.ended == crate::Ended::Closed && totals.forward.bytes < expected_bytes {
        return Err(Error::truncated(End::A, expected_bytes).after(totals.forward, totals.back));
    }
    Ok(totals)
}

/// Receives into a file from `offset` (in bytes) on, until the source's end. The file's own position
/// is neither used nor changed, and the file is not cut behind the last byte.
///
/// # Cancellation
/// As [`relay_one_way`](crate::relay_one_way).
///
/// # Errors
/// As [`relay_one_way`](crate::relay_one_way). A file opened with O_APPEND gets the bytes at the end of the file, not at the
/// offset (pwrite(2), "BUGS").
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::io::Read;
/// use tokio::io::AsyncWriteExt;
/// let (mut near, mut far) = tokio::net::UnixStream::pair()?;
/// near.write_all(b"upload").await?;
/// drop(near);
/// let mut file = tempfile::tempfile()?;
/// let totals = gush_net::recv_file(&mut far, &file, 0, &gush_net::RelayOptions::new()).await?;
/// assert_eq!(totals.forward.bytes, 6);
/// let mut stored = String::new();
/// file.read_to_string(&mut stored)?;
/// assert_eq!(stored, "upload");
/// # Ok(()) }
/// ```
pub async fn recv_file<S>(
    source: &mut S,
    file: &File,
    offset: u64,
    options: &RelayOptions,
) -> Result<Totals, Error>
where
    S: AsyncRead + Unpin + ?Sized,
{
    let source = opened(source, End::A)?;
    let target =
        Tap::file(file.as_fd(), offset).map_err(|io| Error::failed("fstat", End::B, io))?;
    drive(Driver::new(Direction::Forward, options), source, by_file(target), options).await
}

/// A file as an end.
fn by_file(file: Tap<'_>) -> Opened<'_, Conduit> {
    Opened::Joint(file)
}
