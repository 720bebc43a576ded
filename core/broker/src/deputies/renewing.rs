//! Topics of an upstream that has begun anew, and versions with it.
//!
//! Relies on the numbers of this home, which rise: a topic whose last message has a number from before the upstream came
//! back has a version of its former life. Invariant: nothing of the new life is compared with such a version; the topics
//! that nothing has come of are gone through a slice at a time.

use std::sync::Arc;

use tiderace_base::Key;

use super::sweeps::{Sweep, Why};
use crate::deputy_side::DeputySide;
use crate::effects::Effects;
use crate::messages::ToSubscriber;

impl DeputySide<'_> {
    /// The upstream has begun anew: clients that know earlier versions connect again. Done once for each connection.
    pub(super) fn begin_anew(&mut self, at: usize) {
        let until = self.home.home.last_number();
        let Some(deputy) = self.deputies.list.get_mut(at) else { return };
        // Each subscription that comes back says so.
        if std::mem::replace(&mut deputy.has_begun_anew, true) {
            return;
        }
        deputy.numberings.clear();
        let nothing: Arc<[_]> = Arc::new([]);
        deputy.subscriptions.begin_all(&nothing);
        let upstream = self.home.options.upstreams.get(usize::from(deputy.upstream));
        let Some(upstream) = upstream else { return };
        deputy.renewed_after = Some(until);
        let below = upstream.topics.clone();
        deputy.sweeps.push(Sweep { below, after: None, why: Why::BegunAnew { until } });
    }

    /// Forgets the version of a topic if it is one of the upstream's former life.
    pub(super) fn renew(&mut self, at: usize, key: Key, effects: &mut Effects) {
        let until = self.deputies.list.get(at).and_then(|deputy| deputy.renewed_after);
        let Some(until) = until else { return };
        let Some(topic) = self.home.directory.get(key) else { return };
        let Some(home) = self.home.home.topic_mut(topic).filter(|home| home.last() <= until) else {
            return;
        };
        let had_messages = home.last_version() != 0;
        home.begin_at_version(0);
        let places = home.places();
        self.home.home.empty_history(topic);
        let path = topic.path.clone();
        for place in places.iter().filter(|_| had_messages) {
            self.home.send(place, ToSubscriber::BegunAnew { path: path.clone() }, effects);
        }
    }

    /// All topics have been looked at that had versions when the upstream came back the last time but a number before.
    pub(super) fn end_renewal(&mut self, at: usize, until: u64) {
        if let Some(deputy) = self.deputies.list.get_mut(at) {
            deputy.renewed_after.take_if(|known| *known == until);
        }
    }
}
