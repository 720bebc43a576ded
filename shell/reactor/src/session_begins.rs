//! When the sessions of a shard began, by the places of their records.
//!
//! Four bytes a place, beside the records, which have no room. Relies on a session to stay at its place. Invariant: the table
//! grows without moving what is in it, and never by more than [`PLACES`] at once.

/// Places that get memory at a time.
const PLACES: usize = 1_024;

/// Seconds since 1970, by place.
#[derive(Debug, Default)]
pub(crate) struct SessionBegins(Vec<Box<[u32]>>);

impl SessionBegins {
    /// A session begins at a place.
    pub(crate) fn set(&mut self, place: u32, second: u32) {
        let (chunk, at) = split(place);
        while self.0.len() <= chunk {
            self.0.push(vec![0; PLACES].into());
        }
        if let Some(begins) = self.0.get_mut(chunk).and_then(|chunk| chunk.get_mut(at)) {
            *begins = second;
        }
    }

    /// When the session at a place began.
    pub(crate) fn of(&self, place: u32) -> u32 {
        let (chunk, at) = split(place);
        self.0.get(chunk).and_then(|chunk| chunk.get(at)).copied().unwrap_or(0)
    }
}

fn split(place: u32) -> (usize, usize) {
    (place as usize / PLACES, place as usize % PLACES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_has_its_own() {
        let mut begins = SessionBegins::default();
        assert_eq!(begins.of(7), 0);
        for place in [0, 1_023, 1_024, 5_000] {
            begins.set(place, place + 1);
        }
        begins.set(0, 9);
        assert_eq!(
            [0, 1, 1_023, 1_024, 5_000].map(|it| begins.of(it)),
            [9, 0, 1_024, 1_025, 5_001]
        );
    }
}
