//! Recognises a generic type as one of tokio's own. The only `unsafe` of this crate.
#![allow(unsafe_code)]

use std::any::TypeId;
use std::marker::PhantomData;

use tokio::net::{TcpStream, UnixStream, tcp, unix};

use crate::conduit::Conduit;

/// A type that a generic one is compared with.
///
/// # Safety
/// `As<'r>` is one type for every `'r`, apart from lifetimes; each of these is `'r`, and the type
/// is covariant in `'r`.
pub(crate) unsafe trait Known {
    type As<'r>;
}

macro_rules! known {
    ($($marker:ident: $($known:tt)::+ $(<$life:lifetime>)?, $why:literal;)+) => {$(
        pub(crate) struct $marker;

        #[doc = $why]
        // SAFETY: as said in the line above.
        unsafe impl Known for $marker {
            type As<'r> = $($known)::+ $(<$life>)?;
        }
    )+};
}

known! {
    Tcp: TcpStream, "No lifetime.";
    Unix: UnixStream, "No lifetime.";
    TcpOwnedRead: tcp::OwnedReadHalf, "No lifetime.";
    TcpOwnedWrite: tcp::OwnedWriteHalf, "No lifetime.";
    UnixOwnedRead: unix::OwnedReadHalf, "No lifetime.";
    UnixOwnedWrite: unix::OwnedWriteHalf, "No lifetime.";
    TcpRead: tcp::ReadHalf<'r>, "A shared reference to a stream: covariant (checked below).";
    TcpWrite: tcp::WriteHalf<'r>, "A shared reference to a stream: covariant (checked below).";
    UnixRead: unix::ReadHalf<'r>, "A shared reference to a stream: covariant (checked below).";
    UnixWrite: unix::WriteHalf<'r>, "A shared reference to a stream: covariant (checked below).";
}

/// Refused by the compiler for a type that is not covariant.
#[allow(dead_code, reason = "it is compiled, and never called")]
mod covariant {
    use super::{tcp, unix};

    fn tcp_read<'r>(half: tcp::ReadHalf<'static>) -> tcp::ReadHalf<'r> {
        half
    }
    fn tcp_write<'r>(half: tcp::WriteHalf<'static>) -> tcp::WriteHalf<'r> {
        half
    }
    fn unix_read<'r>(half: unix::ReadHalf<'static>) -> unix::ReadHalf<'r> {
        half
    }
    fn unix_write<'r>(half: unix::WriteHalf<'static>) -> unix::WriteHalf<'r> {
        half
    }
}

/// The identity of a type apart from its lifetimes: `TypeId::of` takes none that has any.
fn type_id<T: ?Sized>() -> TypeId {
    trait Identified {
        fn id(&self) -> TypeId
        where
            Self: 'static;
    }
    impl<T: ?Sized> Identified for PhantomData<T> {
        fn id(&self) -> TypeId
        where
            Self: 'static,
        {
            TypeId::of::<T>()
        }
    }
    let of: &dyn Identified = &PhantomData::<T>;
    // SAFETY: the two references have one layout. The value whose lifetime is extended is a
    // PhantomData, of which `id` reads nothing; lifetimes are erased in generated code, so that
    // `id` exists for every `T`.
    Identified::id(unsafe {
        std::mem::transmute::<&dyn Identified, &(dyn Identified + 'static)>(of)
    })
}

/// The end as its concrete type, or back again.
pub(crate) fn known<'r, E, K>(end: &'r mut E) -> Result<&'r K::As<'r>, &'r mut E>
where
    E: ?Sized,
    K: Known,
{
    if type_id::<E>() != type_id::<K::As<'static>>() {
        return Err(end);
    }
    // SAFETY: `E` is `K::As` with lifetimes that outlive `'r`, as `E` is borrowed for `'r`. A
    // shared reference to a covariant type (`Known`) may be used as one with shorter lifetimes, and
    // borrows all of `end`.
    Ok(unsafe { &*std::ptr::from_mut(end).cast::<K::As<'r>>() })
}

/// The end as a conduit, or back again.
pub(crate) fn conduit<E: ?Sized>(end: &mut E) -> Result<&mut Conduit, &mut E> {
    if type_id::<E>() != type_id::<Conduit>() {
        return Err(end);
    }
    // SAFETY: a conduit has no lifetimes, so `E` is this very type.
    Ok(unsafe { &mut *std::ptr::from_mut(end).cast::<Conduit>() })
}
