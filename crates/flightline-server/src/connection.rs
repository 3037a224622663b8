//! Connections: bounds their number, the number of one peer, and the time for which an answer may lie unread.

use std::collections::HashMap;
use std::io::{self, IoSlice};
use std::net::{IpAddr, Ipv6Addr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep};

/// The least number of bytes of an answer that a peer must take in the time that one may lie unread.
const LEAST: usize = 64 * 1024;

/// The answer to a connection above the limit of its peer.
const TOO_MANY: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\n\
    content-type: application/problem+json\r\ncontent-length: 75\r\n\r\n\
    {\"code\":\"unavailable\",\"title\":\"this address has too many connections open\"}";

pub(crate) struct Peers {
    open: Mutex<HashMap<IpAddr, usize>>,
    most: usize,
}

pub(crate) struct Peer {
    peers: Arc<Peers>,
    address: IpAddr,
}

impl Peers {
    /// Allows each peer `most` connections.
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self {
            open: Mutex::default(),
            most,
        })
    }

    /// Counts one more connection of this peer, if there is room for it.
    pub(crate) fn admit(self: &Arc<Self>, address: IpAddr) -> Option<Peer> {
        let address = network(address);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let count = open.entry(address).or_default();
        if *count >= self.most {
            return None;
        }
        *count += 1;
        Some(Peer {
            peers: Arc::clone(self),
            address,
        })
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let open = &self.peers.open;
        let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = open.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.address);
            }
        }
    }
}

/// The holder of one IPv6 address has the 2^64 addresses around it.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
    }
}

/// Answers a peer that has too many connections, if that can be done at once.
pub(crate) fn turn_away(stream: &TcpStream) {
    let _ = stream.try_write(TOO_MANY);
}

/// A connection that ends when its peer does not read for too long: otherwise such a peer would keep it for ever.
pub(crate) struct WriteTimeout<S> {
    stream: S,
    span: Duration,
    /// A timer that runs while there is something to send that cannot be sent.
    stuck: Option<Stuck>,
}

struct Stuck {
    until: Pin<Box<Sleep>>,
    taken: usize,
}

impl<S> WriteTimeout<S> {
    pub(crate) fn new(stream: S, span: Duration) -> Self {
        Self {
            stream,
            span,
            stuck: None,
        }
    }

    /// The verdict on an attempt to send `asked` bytes.
    fn judge(
        &mut self,
        sent: Poll<io::Result<usize>>,
        asked: usize,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        match sent {
            // Nothing is left to be taken.
            Poll::Ready(Ok(count)) if count == asked => {
                self.stuck = None;
                return sent;
            }
            Poll::Ready(Ok(count)) => {
                if let Some(stuck) = &mut self.stuck {
                    stuck.taken += count;
                }
                return sent;
            }
            Poll::Ready(Err(_)) => return sent,
            Poll::Pending => {}
        }
        let span = self.span;
        let stuck = self.stuck.get_or_insert_with(|| Stuck {
            until: Box::pin(sleep(span)),
            taken: 0,
        });
        ready!(stuck.until.as_mut().poll(context));
        if stuck.taken < LEAST {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        stuck.taken = 0;
        stuck.until.as_mut().reset(Instant::now() + span);
        // The task is woken at the end of that time, or when bytes were taken.
        match stuck.until.as_mut().poll(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeout<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let sent = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.judge(sent, bytes.len(), context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let asked = pieces.iter().map(|piece| piece.len()).sum();
        let sent = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.judge(sent, asked, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_has_so_many_connections_and_others_have_room() {
        let peers = Peers::new(2);
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        let one = peers.admit(address("10.0.0.1")).unwrap();
        let _two = peers.admit(address("::ffff:10.0.0.1")).unwrap();
        assert!(peers.admit(address("10.0.0.1")).is_none());
        let _other = peers.admit(address("10.0.0.2")).unwrap();
        drop(one);
        assert!(peers.admit(address("10.0.0.1")).is_some());
        // A peer with many addresses side by side is one peer.
        let _six = peers.admit(address("2001:db8::1")).unwrap();
        let _seven = peers.admit(address("2001:db8::2")).unwrap();
        assert!(peers.admit(address("2001:db8::3")).is_none());
        assert!(peers.admit(address("2001:db8:0:1::1")).is_some());
    }

    #[test]
    fn what_is_said_to_one_too_many_is_as_long_as_it_says() {
        let text = std::str::from_utf8(TOO_MANY).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(
            head.contains(&format!("content-length: {}", body.len())),
            "{}",
            body.len()
        );
        serde_json::from_str::<serde_json::Value>(body).unwrap();
    }
}
