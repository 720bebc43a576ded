//! Topics whose home is elsewhere, for which this one stands in.
//!
//! Relies on versions that were given there. Invariant: numbers are those of this home, as of all that it keeps.

use tiderace_base::Time;
use tiderace_wire::Run;

use super::Home;
use crate::BrokerOptions;
use crate::topic::Topic;

impl Home {
    /// A run that has versions comes from elsewhere, and gets its numbers: whether the topic is there from now on.
    pub(crate) fn begin_adopted(
        &mut self,
        now: Time,
        topic: &Topic,
        run: &mut Run,
        options: &BrokerOptions,
    ) -> bool {
        self.begin_message(now, topic, options, |home, numbers| {
            numbers.assign(run);
            home.begin_at_version(run.version());
        })
    }

    /// Numbers below this one are not given to what comes.
    pub(crate) fn begin_numbers_at(&mut self, number: u64) {
        self.numbers.begin_at(number);
    }
}
