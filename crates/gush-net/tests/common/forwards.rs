//! Streams around a stream, which change some of its functions and leave the others as they are.

/// Functions of `AsyncRead` and `AsyncWrite` that are those of the stream in field 0.
macro_rules! forwards {
    ($($function:ident),+) => { $($crate::forwards::forwards!(@$function);)+ };
    (@poll_read) => {
        fn poll_read(
            mut self: std::pin::Pin<&mut Self>,
            cx: &mut std::task::Context<'_>,
            buf: &mut tokio::io::ReadBuf<'_>,
        ) -> std::task::Poll<std::io::Result<()>> {
            std::pin::Pin::new(&mut self.0).poll_read(cx, buf)
        }
    };
    (@poll_write) => {
        fn poll_write(
            mut self: std::pin::Pin<&mut Self>,
            cx: &mut std::task::Context<'_>,
            bytes: &[u8],
        ) -> std::task::Poll<std::io::Result<usize>> {
            std::pin::Pin::new(&mut self.0).poll_write(cx, bytes)
        }
    };
    (@$function:ident) => {
        fn $function(
            mut self: std::pin::Pin<&mut Self>,
            cx: &mut std::task::Context<'_>,
        ) -> std::task::Poll<std::io::Result<()>> {
            std::pin::Pin::new(&mut self.0).$function(cx)
        }
    };
}
pub(crate) use forwards;
