//! Wide registers: loops over bytes that are compiled a second time for newer processors.
//!
//! A program for every x86-64 processor uses registers of 16 bytes. [`Wide::run`] compiles its work
//! for registers of 32 bytes (AVX2, BMI and POPCNT), and a [`Wide`] exists only where the processor
//! has them. Other architectures have none.

/// That this processor has registers of 32 bytes.
#[derive(Clone, Copy, Debug)]
pub struct Wide(());

impl Wide {
    /// Asks the processor. Cost: one relaxed load.
    #[inline]
    #[must_use]
    pub fn of_processor() -> Option<Wide> {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("popcnt")
        {
            return Some(Wide(()));
        }
        None
    }

    /// Runs work that may use these registers.
    ///
    /// Only code that is inlined into `work` uses them: mark the functions that it calls
    /// `#[inline(always)]`.
    #[inline]
    pub fn run<R>(self, work: impl FnOnce() -> R) -> R {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the processor has these instructions; else there is no `Wide`.
        return unsafe { with_avx2(work) };
        #[cfg(not(target_arch = "x86_64"))]
        work()
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn with_avx2<R>(work: impl FnOnce() -> R) -> R {
    work()
}

#[cfg(test)]
mod tests {
    use super::Wide;

    #[inline(always)]
    fn ones(bytes: &[u8]) -> u32 {
        bytes.iter().map(|byte| byte.count_ones()).sum()
    }

    #[test]
    fn work_has_the_same_result_with_any_registers() {
        let Some(wide) = Wide::of_processor() else {
            return;
        };
        let bytes: Vec<u8> = (0..=u8::MAX).cycle().take(1_000).collect();
        for end in 0..bytes.len() {
            assert_eq!(wide.run(|| ones(&bytes[..end])), ones(&bytes[..end]));
        }
    }
}
