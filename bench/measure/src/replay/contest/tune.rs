//! Tuning: the largest memory setting with which a server's peak stays below a limit.
//!
//! What a server takes beyond its setting is nearly constant, so the setting moves by what the peak
//! is off; between a setting that fits and one that does not, a line through both peaks says where
//! the limit is.

use cellar_load::share;

/// A setting that is nearer to the limit than this part of it is good enough.
const NEAR_PART: u64 = 64;

/// A search in progress.
#[derive(Debug)]
pub(super) struct Tuner {
    limit_bytes: u64,
    /// Settings are multiples of it.
    step_bytes: u64,
    next: Option<u64>,
    /// The largest setting that fits, with its peak.
    fitting: Option<(u64, u64)>,
    /// The smallest setting that does not.
    excess: Option<(u64, u64)>,
}

impl Tuner {
    /// Begins with `first` as the setting.
    pub(super) fn new(limit_bytes: u64, step_bytes: u64, first: u64) -> Tuner {
        Tuner {
            limit_bytes,
            step_bytes,
            next: Some((first / step_bytes).max(1) * step_bytes),
            fitting: None,
            excess: None,
        }
    }

    /// The setting to try next; `None` when nothing is left.
    pub(super) fn next(&self) -> Option<u64> {
        self.next
    }

    /// Learns the peak of a setting; whether it is the best so far.
    pub(super) fn learn(&mut self, setting: u64, peak: u64) -> bool {
        let fits = peak <= self.limit_bytes;
        let is_best = match (fits, self.fitting, self.excess) {
            (true, Some((best, _)), _) => setting > best,
            (true, None, _) | (false, None, None) => true,
            (false, None, Some((_, least))) => peak < least,
            (false, Some(_), _) => false,
        };
        let near_bytes = self.limit_bytes / NEAR_PART;
        // The whole trace fits: more memory would not be used.
        let is_idle = fits
            && self.fitting.is_some_and(|(before, its_peak)| {
                setting > before && peak <= its_peak + near_bytes
            });
        // A server that takes no less when it is told less: nothing will make it fit.
        let is_stuck = self.fitting.is_none()
            && self.excess.is_some_and(|(before, its_peak)| {
                !fits && setting + near_bytes < before && peak + near_bytes >= its_peak
            });
        if fits && is_best {
            self.fitting = Some((setting, peak));
        }
        if !fits && self.excess.is_none_or(|(least, _)| setting < least) {
            self.excess = Some((setting, peak));
        }
        self.next = if is_idle || is_stuck {
            None
        } else {
            self.propose()
        };
        is_best
    }

    fn propose(&self) -> Option<u64> {
        let near_bytes = self.limit_bytes / NEAR_PART;
        let wanted = match (self.fitting, self.excess) {
            (None, None) => Some(self.limit_bytes),
            (None, Some((setting, peak))) => {
                // Peaks differ a little from run to run: a smaller step could change nothing.
                let over_bytes = (peak - self.limit_bytes).max(near_bytes / 2);
                Some(setting.saturating_sub(over_bytes.next_multiple_of(self.step_bytes)))
            }
            (Some((_, peak)), _) if self.limit_bytes - peak <= near_bytes => None,
            (Some((setting, peak)), None) => Some(setting + (self.limit_bytes - peak)),
            (Some((setting, peak)), Some((excess, its_peak))) => {
                let aim_bytes = self.limit_bytes - peak - near_bytes / 2;
                let part = share(aim_bytes, its_peak - peak);
                let wanted = setting + ((excess - setting) as f64 * part) as u64;
                Some(wanted.max(setting + self.step_bytes))
            }
        };
        let setting = wanted? / self.step_bytes * self.step_bytes;
        let above = self.fitting.map_or(0, |(setting, _)| setting);
        let below = self.excess.map_or(u64::MAX, |(setting, _)| setting);
        (setting > above && setting < below).then_some(setting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// The settings tried for a server whose peak is a function of its setting; both in MiB.
    fn tried(limit: u64, peak: impl Fn(u64) -> u64) -> (Vec<u64>, Option<u64>) {
        tried_from(limit, limit, peak)
    }

    fn tried_from(first: u64, limit: u64, peak: impl Fn(u64) -> u64) -> (Vec<u64>, Option<u64>) {
        let mut tuner = Tuner::new(limit * MIB, MIB, first * MIB);
        let (mut tried, mut best) = (Vec::new(), None);
        while let Some(setting) = tuner.next() {
            let setting_mib = setting / MIB;
            tried.push(setting_mib);
            if tuner.learn(setting, peak(setting_mib) * MIB) {
                best = Some(setting_mib);
            }
            assert!(tried.len() < 20, "{tried:?}");
        }
        (tried, best)
    }

    #[test]
    fn a_constant_base_is_found_in_two_trials() {
        assert_eq!(tried(64, |setting| setting + 6), (vec![64, 58], Some(58)));
    }

    #[test]
    fn a_good_first_guess_is_the_only_trial_and_a_bad_one_does_no_harm() {
        for (first, tried) in [(58, vec![58]), (40, vec![40, 58]), (62, vec![62, 58])] {
            let found = tried_from(first, 64, |setting| setting + 6);
            assert_eq!(found, (tried, Some(58)), "{first}");
        }
    }

    #[test]
    fn overhead_that_grows_with_the_setting_is_found_too() {
        let (settings, best) = tried(64, |setting| 2 + setting * 5 / 4);
        assert!(matches!(best, Some(49 | 50)), "{settings:?}");
        assert!(settings.len() <= 5, "{settings:?}");
    }

    #[test]
    fn a_server_that_takes_less_than_it_is_told_is_given_more() {
        let (settings, best) = tried(64, |setting| setting / 2 + 2);
        assert!(best.is_some_and(|best| best >= 122), "{settings:?}");
    }

    #[test]
    fn a_server_that_needs_no_more_is_not_given_more_and_more() {
        let (settings, _) = tried(64, |setting| setting.min(20) + 2);
        assert_eq!(settings, [64, 106]);
    }

    #[test]
    fn one_that_is_hardly_above_the_limit_is_told_enough_less_to_fit() {
        let peaks = std::cell::Cell::new(0);
        let (settings, best) = tried_from(250, 256, |setting| {
            peaks.set(peaks.get() + 1);
            setting + if peaks.get() == 1 { 7 } else { 8 }
        });
        assert_eq!((settings, best), (vec![250, 248], Some(248)));
    }

    #[test]
    fn a_server_that_takes_no_less_is_not_given_less_and_less() {
        let (settings, _) = tried(32, |setting| setting.max(44));
        assert_eq!(settings, [32, 20]);
    }

    #[test]
    fn one_that_never_fits_ends_with_its_smallest_peak() {
        let (settings, best) = tried(8, |setting| setting + 20);
        assert_eq!(settings.first(), Some(&8));
        assert_eq!(best, settings.last().copied());
    }
}
