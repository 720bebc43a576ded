//! The namespaces of a session.
//!
//! Relies on nothing. Invariant: a namespace keeps its number until it is left.

/// How far a namespace has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// The login is under way.
    Asked,
    /// Its subscriptions are being made.
    Joining,
    /// In order.
    Connected,
}

/// One namespace of one session.
#[derive(Debug)]
pub(super) struct Namespace {
    /// Empty for `/`.
    name: Box<str>,
    /// The public id of the socket.
    pub(super) sid: u64,
    /// The private id by which it may be found again: two words, for the alignment's sake.
    pid: [u64; 2],
    pub(super) standing: Standing,
}

const _: () = assert!(size_of::<Namespace>() <= 48, "there may be millions of idle ones");

impl Namespace {
    pub(super) fn new(name: &str, sid: u64, pid: u128) -> Namespace {
        let name = if name == "/" { Box::default() } else { name.into() };
        Namespace { name, sid, pid: words(pid), standing: Standing::Asked }
    }

    /// Its name, with the slash.
    pub(super) fn name(&self) -> &str {
        if self.name.is_empty() { "/" } else { &self.name }
    }

    /// Whether it is `/`, which has the server's own events.
    pub(super) fn is_main(&self) -> bool {
        self.name.is_empty()
    }

    pub(super) fn pid(&self) -> u128 {
        let [high, low] = self.pid;
        u128::from(high) << 64 | u128::from(low)
    }

    pub(super) fn set_pid(&mut self, pid: u128) {
        self.pid = words(pid);
    }
}

fn words(id: u128) -> [u64; 2] {
    [(id >> 64) as u64, id as u64]
}

/// By their numbers.
#[derive(Debug, Default)]
pub(super) struct Namespaces(Vec<Option<Namespace>>);

impl Namespaces {
    pub(super) fn find(&self, name: &str) -> Option<u8> {
        let same =
            |known: &Option<Namespace>| known.as_ref().is_some_and(|known| known.name() == name);
        self.0.iter().position(same).map(|number| number as u8)
    }

    pub(super) fn get(&self, number: u8) -> Option<&Namespace> {
        self.0.get(usize::from(number))?.as_ref()
    }

    pub(super) fn get_mut(&mut self, number: u8) -> Option<&mut Namespace> {
        self.0.get_mut(usize::from(number))?.as_mut()
    }

    /// The name of one, `/` if there is none of that number.
    pub(super) fn name(&self, number: u8) -> &str {
        self.get(number).map_or("/", Namespace::name)
    }

    /// The number that the next one gets.
    pub(super) fn free(&self) -> usize {
        self.0.iter().position(Option::is_none).unwrap_or(self.0.len())
    }

    pub(super) fn insert(&mut self, namespace: Namespace) -> u8 {
        let number = self.free();
        match self.0.get_mut(number) {
            Some(place) => *place = Some(namespace),
            None => {
                self.0.reserve_exact(1);
                self.0.push(Some(namespace));
            }
        }
        number as u8
    }

    pub(super) fn remove(&mut self, number: u8) -> Option<Namespace> {
        self.0.get_mut(usize::from(number))?.take()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Namespace> {
        self.0.iter().flatten()
    }

    /// The numbers of those that have come so far.
    pub(super) fn numbers(&self, standing: Standing) -> Vec<u8> {
        let fits = |(number, known): (usize, &Option<Namespace>)| {
            let fits = known.as_ref().is_some_and(|known| known.standing == standing);
            fits.then_some(number as u8)
        };
        self.0.iter().enumerate().filter_map(fits).collect()
    }
}
