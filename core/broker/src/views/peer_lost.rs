//! What views do when a place is lost: its topics have no values, and what was made of them is taken back.
//!
//! Relies on `watch.rs` and `output.rs`. Invariant: nothing is shown that was made of a topic of the place.

use tiderace_base::Now;
use tiderace_topics::Path;

use crate::effects::Effects;
use crate::places::Place;
use crate::view_side::ViewSide;

impl ViewSide<'_> {
    /// A place is lost.
    pub(crate) fn peer_lost(&mut self, now: Now, place: Place, effects: &mut Effects) {
        let options = self.home.options.clone();
        let is_lost = |path: &Path| options.home_of(path) == place;
        let watched = self.views.watches.keys().filter(|path| is_lost(path));
        for path in watched.cloned().collect::<Vec<Path>>() {
            self.watched(path, None, 0);
        }
        let directory = &*self.home.directory;
        let path_of = |key| directory.get(key).map(|topic| topic.path.clone());
        for (rank, source, output) in self.views.outputs.made_of(is_lost, path_of) {
            self.take_output(now, rank, &source, output, None, 0, effects);
        }
    }
}
