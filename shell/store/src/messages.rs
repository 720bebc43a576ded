//! Where the messages of one stream are: nothing, one place, or many in order.
//!
//! Relies on nothing. Most streams are topics with one value, so one message is held in place and only more
//! than one costs an allocation. The numbers of a queue that orders by priority rise within each priority alone, which its
//! upper bits say: these are kept apart, so that a message costs the same wherever it comes in. Invariant: messages are in
//! order of their numbers; removing one in the middle leaves a hole, and there are never more holes than messages.

use std::collections::VecDeque;

/// Where a record lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    pub(crate) segment: u32,
    pub(crate) offset: u32,
    /// With its frame; 0 where there is no record.
    pub(crate) bytes: u32,
}

impl Place {
    pub(crate) const NONE: Place = Place { segment: 0, offset: 0, bytes: 0 };

    pub(crate) fn is_none(self) -> bool {
        self.bytes == 0
    }
}

/// How many records from the front on are read together, and how many bytes that takes: records of one segment that
/// lie behind each other, with gaps up to `gap`, and several of them only up to `bytes_max` bytes.
pub(crate) fn stretch_of(
    places: impl IntoIterator<Item = Place>,
    gap: u32,
    bytes_max: u32,
) -> (usize, u32) {
    let mut places = places.into_iter();
    let Some(first) = places.next() else { return (0, 0) };
    let (mut count, mut bytes) = (1, first.bytes);
    for place in places {
        let end = first.offset.saturating_add(bytes);
        let is_near = place.segment == first.segment
            && (end..=end.saturating_add(gap)).contains(&place.offset)
            && place.offset.saturating_add(place.bytes) - first.offset <= bytes_max;
        if !is_near {
            break;
        }
        count += 1;
        bytes = place.offset + place.bytes - first.offset;
    }
    (count, bytes)
}

/// One record of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) sequence: u64,
    pub(crate) count: u32,
    pub(crate) place: Place,
}

impl Message {
    pub(crate) fn last(&self) -> u64 {
        self.sequence + u64::from(self.count - 1)
    }
}

/// Numbers that differ above so many bits are kept apart.
const APART_BITS: u32 = 48;

/// The records of messages of one stream.
#[derive(Debug, Default)]
pub(crate) enum Messages {
    #[default]
    None,
    One(Message),
    Many(Box<Many>),
    Apart(Box<Apart>),
}

/// Those of each upper part of their numbers, in order; none is empty.
#[derive(Debug, Default)]
pub(crate) struct Apart(Vec<(u64, Many)>);

/// The upper part of a number.
fn upper(sequence: u64) -> u64 {
    sequence >> APART_BITS
}

#[derive(Debug, Default)]
pub(crate) struct Many {
    messages: VecDeque<Message>,
    /// Messages without a place.
    holes: usize,
}

impl Messages {
    /// Adds a record; gives back the one with the same number, whose place it takes.
    pub(crate) fn insert(&mut self, message: Message) -> Option<Message> {
        match self {
            Messages::None => {
                *self = Messages::One(message);
                None
            }
            Messages::One(one) if one.sequence == message.sequence => {
                Some(std::mem::replace(one, message))
            }
            Messages::One(one) if upper(one.sequence) != upper(message.sequence) => {
                let mut apart = Apart::default();
                apart.insert(*one);
                apart.insert(message);
                *self = Messages::Apart(Box::new(apart));
                None
            }
            Messages::One(one) => {
                let mut many = Many::default();
                many.insert(*one);
                many.insert(message);
                *self = Messages::Many(Box::new(many));
                None
            }
            Messages::Many(many)
                if many.upper().is_some_and(|it| it != upper(message.sequence)) =>
            {
                let mut apart = Apart(
                    many.upper().map(|it| (it, std::mem::take(&mut **many))).into_iter().collect(),
                );
                apart.insert(message);
                *self = Messages::Apart(Box::new(apart));
                None
            }
            Messages::Many(many) => many.insert(message),
            Messages::Apart(apart) => apart.insert(message),
        }
    }

    /// The record that begins with this number.
    pub(crate) fn find(&self, sequence: u64) -> Option<&Message> {
        match self {
            Messages::None => None,
            Messages::One(one) => Some(one).filter(|one| one.sequence == sequence),
            Messages::Many(many) => many.find(sequence),
            Messages::Apart(apart) => apart.of(upper(sequence))?.find(sequence),
        }
    }

    /// Takes the record that begins with this number away.
    pub(crate) fn remove(&mut self, sequence: u64) -> Option<Message> {
        match self {
            Messages::None => None,
            Messages::One(one) if one.sequence == sequence => {
                let removed = *one;
                *self = Messages::None;
                Some(removed)
            }
            Messages::One(_) => None,
            Messages::Many(many) => {
                let removed = many.remove(sequence);
                if many.messages.is_empty() {
                    *self = Messages::None;
                }
                removed
            }
            Messages::Apart(apart) => {
                let removed = apart.remove(sequence);
                if let [(_, many)] = apart.0.as_mut_slice() {
                    *self = Messages::Many(Box::new(std::mem::take(many)));
                }
                removed
            }
        }
    }

    /// The first record.
    pub(crate) fn first(&self) -> Option<&Message> {
        match self {
            Messages::None => None,
            Messages::One(one) => Some(one),
            // The front is never a hole.
            Messages::Many(many) => many.messages.front(),
            Messages::Apart(apart) => apart.0.first()?.1.messages.front(),
        }
    }

    /// The records that have messages from `first` to `last`.
    pub(crate) fn overlapping(&self, first: u64, last: u64) -> Vec<Message> {
        self.from(first).take_while(|message| message.sequence <= last).copied().collect()
    }

    /// The records that have messages from `first` on, in order.
    pub(crate) fn from(&self, first: u64) -> impl Iterator<Item = &Message> {
        let (one, many, apart) = match self {
            Messages::None => (None, None, &[][..]),
            Messages::One(one) => (Some(one).filter(|one| one.last() >= first), None, &[][..]),
            Messages::Many(many) => (None, Some(&**many), &[][..]),
            Messages::Apart(apart) => (None, None, apart.from(upper(first))),
        };
        let many = many.into_iter().chain(apart.iter().map(|(_, many)| many));
        let many = many.flat_map(move |many| {
            let start = many.messages.partition_point(|message| message.last() < first);
            many.messages.range(start..)
        });
        one.into_iter().chain(many).filter(|message| !message.place.is_none())
    }

    /// All records, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Message> {
        self.from(0)
    }
}

impl Apart {
    fn place(&self, upper: u64) -> Result<usize, usize> {
        self.0.binary_search_by_key(&upper, |(known, _)| *known)
    }

    fn of(&self, upper: u64) -> Option<&Many> {
        self.0.get(self.place(upper).ok()?).map(|(_, many)| many)
    }

    /// Those with an upper part or a higher one.
    fn from(&self, upper: u64) -> &[(u64, Many)] {
        let (Ok(start) | Err(start)) = self.place(upper);
        self.0.get(start..).unwrap_or_default()
    }

    fn insert(&mut self, message: Message) -> Option<Message> {
        let upper = upper(message.sequence);
        match self.place(upper) {
            Ok(at) => self.0.get_mut(at)?.1.insert(message),
            Err(at) => {
                let mut many = Many::default();
                many.insert(message);
                self.0.insert(at, (upper, many));
                None
            }
        }
    }

    fn remove(&mut self, sequence: u64) -> Option<Message> {
        let at = self.place(upper(sequence)).ok()?;
        let (_, many) = self.0.get_mut(at)?;
        let removed = many.remove(sequence);
        if many.messages.is_empty() {
            self.0.remove(at);
        }
        removed
    }
}

impl Many {
    /// The upper part that the numbers of all have.
    fn upper(&self) -> Option<u64> {
        self.messages.front().map(|first| upper(first.sequence))
    }

    fn find(&self, sequence: u64) -> Option<&Message> {
        let at = self.position(sequence).ok()?;
        self.messages.get(at).filter(|message| !message.place.is_none())
    }

    fn position(&self, sequence: u64) -> Result<usize, usize> {
        self.messages.binary_search_by_key(&sequence, |message| message.sequence)
    }

    fn insert(&mut self, message: Message) -> Option<Message> {
        if self.messages.len() == self.messages.capacity() {
            // A quarter more, not twice as many: there may be millions of short queues.
            self.messages.reserve_exact((self.messages.len() / 4).max(2));
        }
        if self.messages.back().is_none_or(|last| last.sequence < message.sequence) {
            self.messages.push_back(message);
            return None;
        }
        match self.position(message.sequence) {
            Ok(at) => {
                let old = self.messages.get_mut(at).map(|old| std::mem::replace(old, message))?;
                if old.place.is_none() {
                    self.holes -= 1;
                    return None;
                }
                Some(old)
            }
            Err(at) => {
                self.messages.insert(at, message);
                None
            }
        }
    }

    fn remove(&mut self, sequence: u64) -> Option<Message> {
        let at = self.position(sequence).ok()?;
        let message = self.messages.get_mut(at).filter(|message| !message.place.is_none())?;
        let removed = *message;
        message.place = Place::NONE;
        self.holes += 1;
        while self.messages.front().is_some_and(|message| message.place.is_none()) {
            self.messages.pop_front();
            self.holes -= 1;
        }
        if self.holes * 2 > self.messages.len() {
            self.messages.retain(|message| !message.place.is_none());
            self.holes = 0;
        }
        if self.messages.len() * 4 < self.messages.capacity() {
            self.messages.shrink_to(self.messages.len() * 2);
        }
        Some(removed)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone)]
    enum Step {
        Insert(u64, u32),
        Remove(u64),
        Overlapping(u64, u64),
    }

    /// A number of up to four upper parts, ten of each.
    fn number(which: u64) -> u64 {
        ((which / 10) << APART_BITS) | (which % 10)
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let any = || prop_oneof![0u64..10, 0u64..40].prop_map(number);
        let step = prop_oneof![
            (any(), 1u32..100).prop_map(|(sequence, offset)| Step::Insert(sequence, offset)),
            any().prop_map(Step::Remove),
            (any(), any())
                .prop_map(|(one, other)| Step::Overlapping(one.min(other), one.max(other))),
        ];
        proptest::collection::vec(step, 0..120)
    }

    proptest! {
        #[test]
        fn a_sorted_map_does_the_same(steps in steps()) {
            let mut messages = Messages::None;
            let mut model = BTreeMap::new();
            for step in steps {
                match step {
                    Step::Insert(sequence, offset) => {
                        let place = Place { segment: 1, offset, bytes: 9 };
                        let message = Message { sequence, count: 1, place };
                        prop_assert_eq!(messages.insert(message), model.insert(sequence, message));
                    }
                    Step::Remove(sequence) => {
                        prop_assert_eq!(messages.remove(sequence), model.remove(&sequence));
                    }
                    Step::Overlapping(first, last) => {
                        let expected: Vec<Message> = model.range(first..=last).map(|(_, m)| *m).collect();
                        prop_assert_eq!(messages.overlapping(first, last), expected);
                    }
                }
                prop_assert!(messages.iter().eq(model.values()));
                prop_assert_eq!(messages.first(), model.values().next());
                for sequence in (0..40).map(number) {
                    prop_assert_eq!(messages.find(sequence), model.get(&sequence));
                }
            }
        }
    }

    #[test]
    fn messages_of_one_upper_part_are_kept_as_if_there_were_no_others() {
        let place = Place { segment: 1, offset: 1, bytes: 9 };
        let mut messages = Messages::None;
        for which in [1, 2, 11] {
            messages.insert(Message { sequence: number(which), count: 1, place });
        }
        assert!(matches!(messages, Messages::Apart(_)));
        messages.remove(number(11));
        assert!(matches!(messages, Messages::Many(_)));
        messages.remove(number(1));
        messages.remove(number(2));
        assert!(matches!(messages, Messages::None));
    }
}
