//! Something scarce, divided among peers: while there is plenty anyone may take, beyond half of it no peer
//! may hold more than an eighth. One peer alone can so never keep the others out.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const SHARE: usize = 8;

/// Clones share what there is.
#[derive(Debug, Clone)]
pub struct Shares(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    all: usize,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    total: usize,
    peers: HashMap<Peer, usize>,
}

/// Who is on the other end of a connection; travels in the extensions of its requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Peer(IpAddr);

/// What one holder has taken; given back when dropped.
#[derive(Debug)]
pub struct Share {
    of: Shares,
    peer: Peer,
    amount: usize,
}

impl Peer {
    /// An IPv4 peer is the same one on a socket for both.
    pub fn new(address: IpAddr) -> Self {
        Self(address.to_canonical())
    }
}

/// For requests that came by no connection (tests of a router alone).
impl Default for Peer {
    fn default() -> Self {
        Self(Ipv4Addr::UNSPECIFIED.into())
    }
}

impl Shares {
    pub fn new(all: usize) -> Self {
        Self(Arc::new(Inner { all, held: Mutex::default() }))
    }

    /// `None` where there is not that much left, or not for this peer.
    pub fn take(&self, peer: Peer, amount: usize) -> Option<Share> {
        let mut share = Share { of: self.clone(), peer, amount: 0 };
        share.grow(amount).then_some(share)
    }

    /// More than half is taken.
    pub fn is_scarce(&self) -> bool {
        self.0.beyond_half(self.0.held().total)
    }
}

impl Inner {
    fn held(&self) -> MutexGuard<'_, Held> {
        // Nothing panics while it is held, and numbers cannot be half written.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn beyond_half(&self, total: usize) -> bool {
        total > self.all.div_ceil(2)
    }
}

impl Share {
    pub fn amount(&self) -> usize {
        self.amount
    }

    /// Whether there was that much more.
    pub fn grow(&mut self, more: usize) -> bool {
        let inner = &self.of.0;
        let mut held = inner.held();
        let total = held.total.saturating_add(more);
        let own = held.peers.get(&self.peer).copied().unwrap_or_default().saturating_add(more);
        if total > inner.all || (inner.beyond_half(total) && own > (inner.all / SHARE).max(1)) {
            return false;
        }
        held.total = total;
        held.peers.insert(self.peer, own);
        drop(held);
        self.amount += more;
        true
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut held = self.of.0.held();
        held.total -= self.amount;
        if let Some(own) = held.peers.get_mut(&self.peer) {
            *own -= self.amount;
            if *own == 0 {
                held.peers.remove(&self.peer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(last: u8) -> Peer {
        Peer::new(Ipv4Addr::new(10, 0, 0, last).into())
    }

    #[test]
    fn one_peer_alone_gets_half_and_leaves_room_for_others() {
        let shares = Shares::new(16);
        let mut greedy: Vec<_> = std::iter::from_fn(|| shares.take(peer(1), 1)).collect();
        assert_eq!((greedy.len(), shares.is_scarce()), (8, false));
        let other = shares.take(peer(2), 2).unwrap();
        assert!(shares.is_scarce());
        assert!(shares.take(peer(2), 1).is_none(), "an eighth each");
        greedy.pop();
        assert!(shares.take(peer(1), 2).is_none());
        drop((greedy, other));
        assert_eq!(shares.0.held().total, 0);
        assert!(shares.0.held().peers.is_empty(), "who holds nothing is not remembered");
    }

    #[test]
    fn never_more_than_there_is() {
        let shares = Shares::new(16);
        let held: Vec<_> = (0..=255).filter_map(|last| shares.take(peer(last), 1)).collect();
        assert_eq!(held.len(), 16);
        assert!(shares.take(peer(1), usize::MAX).is_none());
    }

    #[test]
    fn one_address_two_ways_to_write_it() {
        assert_eq!(peer(7), Peer::new("::ffff:10.0.0.7".parse().unwrap()));
    }
}
