//! What an evaluation may still spend, and why it stops.
//!
//! Relies on nothing. Invariant: bytes passed over and pieces built have been paid for
//! before, so time and memory of an evaluation are bounded by its limits.

use crate::limits::{Limits, WORK_BYTES, WORK_PIECE, WORK_STEP};

/// Why an evaluation gave no outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Stop {
    /// The source's value is too large.
    #[error("the value of the source is larger than the {0} bytes a view may look at")]
    SourceBytes(usize),
    /// Too many outputs.
    #[error("one source would become more than {0} topics")]
    Outputs(usize),
    /// One output is too large.
    #[error("a value of the view would be larger than {0} bytes")]
    OutputBytes(usize),
    /// All outputs together are too large.
    #[error("the values from one source would be larger than {0} bytes together")]
    TotalBytes(usize),
    /// Too many values of other topics.
    #[error("one source would need more than {0} values of other topics")]
    Lookups(usize),
    /// Too much work.
    #[error("one source would need more than {0} units of work")]
    Work(u32),
    /// A value would be nested too deeply.
    #[error("a value would be nested more than {max} deep", max = crate::limits::VALUE_DEPTH_MAX)]
    Depth,
}

impl Stop {
    /// A stable identifier of the reason, for logs, metrics and clients.
    pub fn code(self) -> &'static str {
        match self {
            Stop::SourceBytes(_) => "view-source-bytes",
            Stop::Outputs(_) => "view-outputs",
            Stop::OutputBytes(_) => "view-output-bytes",
            Stop::TotalBytes(_) => "view-total-bytes",
            Stop::Lookups(_) => "view-lookups",
            Stop::Work(_) => "view-work",
            Stop::Depth => "view-depth",
        }
    }
}

/// The work that is left.
#[derive(Debug)]
pub(crate) struct Budget {
    pub(crate) limits: Limits,
    left: u32,
}

impl Budget {
    pub(crate) fn new(limits: Limits) -> Budget {
        Budget { limits, left: limits.work_max }
    }

    /// Spends for one step.
    pub(crate) fn step(&mut self) -> Result<(), Stop> {
        self.spend(1)
    }

    /// Spends for bytes that are passed over or copied.
    pub(crate) fn bytes(&mut self, bytes: usize) -> Result<(), Stop> {
        self.spend(u32::try_from(bytes / WORK_BYTES + 1).unwrap_or(u32::MAX))
    }

    /// Spends for one piece of a value that is built.
    pub(crate) fn piece(&mut self) -> Result<(), Stop> {
        self.spend(WORK_PIECE)
    }

    /// Does work on JSON that counts its own steps, with as many as are left, and spends for those it took.
    pub(crate) fn json_work<T>(
        &mut self,
        work: impl FnOnce(&mut tiderace_value::Budget) -> T,
    ) -> Result<T, Stop> {
        let steps = (self.left / WORK_STEP) as usize;
        let mut counted = tiderace_value::Budget::new(steps);
        let result = work(&mut counted);
        let spent = u32::try_from(steps - counted.left()).unwrap_or(u32::MAX);
        self.spend(spent.saturating_mul(WORK_STEP))?;
        Ok(result)
    }

    /// What has been spent.
    pub(crate) fn spent(&self) -> u32 {
        self.limits.work_max - self.left
    }

    fn spend(&mut self, units: u32) -> Result<(), Stop> {
        match self.left.checked_sub(units) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => {
                self.left = 0;
                Err(Stop::Work(self.limits.work_max))
            }
        }
    }
}
