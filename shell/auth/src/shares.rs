//! Shares of the places in which logins wait, so that nobody takes all of them.
//!
//! Of the places that are free, one address may come to have as many as it leaves to the others, and so
//! may one name: an address alone gets half of all places, a second one half of the rest. A login from
//! elsewhere finds a place as long as there are not as many flooding addresses as half-lives of the
//! queue. An address of IPv6 stands for its network of 64 bits, which one client has as a rule.
//! Invariants: what is counted is given back when its [`Place`] is dropped; the tables hold no more
//! entries than there are places.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};

/// Who has how many places.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    places: usize,
    taken: usize,
    by_address: HashMap<IpAddr, usize>,
    by_name: HashMap<Box<str>, usize>,
}

/// One place, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    shares: Arc<Mutex<Shares>>,
    address: IpAddr,
    name: Box<str>,
}

impl Shares {
    /// So many places, all free.
    pub(crate) fn new(places: usize) -> Arc<Mutex<Shares>> {
        Arc::new(Mutex::new(Shares { places, ..Shares::default() }))
    }

    fn has_room(&self, address: IpAddr, name: &str) -> bool {
        let free = self.places.saturating_sub(self.taken);
        let of_address = self.by_address.get(&address).copied().unwrap_or(0);
        let of_name = self.by_name.get(name).copied().unwrap_or(0);
        free > 0 && of_address.max(of_name) < free
    }
}

/// Takes a place for a login, if its address and its name may have one more.
pub(crate) fn take(shares: &Arc<Mutex<Shares>>, address: IpAddr, name: &str) -> Option<Place> {
    let address = network_of(address);
    let mut known = shares.lock().unwrap_or_else(PoisonError::into_inner);
    if !known.has_room(address, name) {
        return None;
    }
    known.taken += 1;
    *known.by_address.entry(address).or_default() += 1;
    *known.by_name.entry(name.into()).or_default() += 1;
    Some(Place { shares: Arc::clone(shares), address, name: name.into() })
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut known = self.shares.lock().unwrap_or_else(PoisonError::into_inner);
        known.taken -= 1;
        give_back(&mut known.by_address, &self.address);
        give_back(&mut known.by_name, &self.name);
    }
}

fn give_back<K: Hash + Eq>(counts: &mut HashMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

/// What counts as one address.
pub(crate) fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => {
            let network = address.to_bits() & !u128::from(u64::MAX);
            IpAddr::V6(Ipv6Addr::from_bits(network))
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn fill(shares: &Arc<Mutex<Shares>>, address: &str, name: Option<&str>) -> Vec<Place> {
        let address: IpAddr = address.parse().unwrap();
        let named = |at: usize| name.map_or_else(|| format!("{address} {at}"), str::to_owned);
        (0..).map_while(|at| take(shares, address, &named(at))).collect()
    }

    #[test]
    fn one_address_leaves_half_of_the_places_to_others() {
        let shares = Shares::new(64);
        let first = fill(&shares, "192.0.2.1", None);
        assert_eq!(first.len(), 32);
        assert!(fill(&shares, "::ffff:192.0.2.1", None).is_empty(), "the same address");
        let network = fill(&shares, "2001:db8::1", None);
        assert_eq!(network.len(), 16);
        assert!(fill(&shares, "2001:db8::ffff:1", None).is_empty(), "the same network");
        assert_eq!(fill(&shares, "2001:db8:0:1::1", None).len(), 8);
        drop(first);
        assert_eq!(fill(&shares, "192.0.2.2", None).len(), 24);
        drop(network);
        let known = shares.lock().unwrap();
        assert_eq!((known.taken, known.by_address.len(), known.by_name.len()), (0, 0, 0));
    }

    #[test]
    fn one_name_leaves_half_of_the_places_to_others() {
        let shares = Shares::new(64);
        let mut places = Vec::new();
        for at in 0..100 {
            places.extend(take(&shares, IpAddr::from([192, 0, 2, at]), "ann"));
        }
        assert_eq!(places.len(), 32);
        assert!(take(&shares, IpAddr::from([198, 51, 100, 1]), "bob").is_some());
    }
}
