//! Which blocks are samples: points fall on the bytes that a thread allocates, at random and so many bytes apart on average, and a block on which some fall
//! stands for as many times the interval (upstream: sampler.h). Blocks of an interval and more are all samples, and stand for themselves.
//!
//! What is left until the next point is counted down. It is never more than an interval: where the point is farther away, the countdown ends at none, and
//! the distance is drawn anew, which changes nothing, as points do not know of each other. So a block of an interval or more never passes unseen.

/// Points that are looked for in one block: of blocks below an interval one in a thousand million has a dozen.
const MAX_POINTS: u64 = 32;

/// What a thread's sampler knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sampler {
    /// Bytes until the countdown has ended.
    pub(crate) left: i64,
    /// A point is there.
    pub(crate) is_point: bool,
    /// State of the random numbers; 0 before the first.
    pub(crate) random: u64,
}

impl Sampler {
    /// Begins with some number.
    pub(crate) fn seeded(seed: u64, interval: u64) -> Self {
        let mut sampler = Self { left: 0, is_point: false, random: seed | 1 };
        // Neighbouring seeds are far apart after a few steps.
        for _ in 0..4 {
            sampler.next_random();
        }
        sampler.draw(interval);
        sampler
    }

    /// A block is allocated in a heap that has an interval of its own, not below that of the points, or none: the bytes that it stands for, 0 if it is no sample.
    pub(crate) fn take(&mut self, size: u64, interval: u64, of_heap: u64) -> u64 {
        if of_heap > 0 && size >= of_heap {
            return size;
        }
        if size >= interval {
            return self.points_of_its_own(size, of_heap) * of_heap;
        }
        let points = self.points(size, interval);
        if of_heap <= interval {
            return points * of_heap;
        }
        // Some of the points are those of a heap that has fewer.
        (0..points).filter(|_| self.uniform() * of_heap as f64 <= interval as f64).count() as u64 * of_heap
    }

    /// How many points fall on a block that never passes.
    fn points_of_its_own(&mut self, size: u64, of_heap: u64) -> u64 {
        if of_heap == 0 {
            return 0;
        }
        let (mut at, mut points) = (-ln(self.uniform()) * of_heap as f64, 0);
        while at < size as f64 && points < MAX_POINTS {
            at -= ln(self.uniform()) * of_heap as f64;
            points += 1;
        }
        points
    }

    /// How many fall on one that may.
    fn points(&mut self, size: u64, interval: u64) -> u64 {
        let mut rest = size.cast_signed();
        let mut points = 0;
        for _ in 0..MAX_POINTS {
            if rest < self.left {
                break;
            }
            rest -= self.left;
            points += u64::from(self.is_point);
            self.draw(interval);
        }
        self.left -= rest.min(self.left - 1);
        points
    }

    /// In (0, 1].
    fn uniform(&mut self) -> f64 {
        ((self.next_random() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    fn draw(&mut self, interval: u64) {
        let distance = -ln(self.uniform()) * interval as f64;
        self.is_point = distance < interval as f64;
        // A countdown of 0 would be no countdown.
        self.left = if self.is_point { distance as i64 + 1 } else { interval.cast_signed().max(1) };
    }

    /// Xorshift with a multiplication behind it (Vigna: An experimental exploration of Marsaglia's xorshift generators).
    fn next_random(&mut self) -> u64 {
        let mut x = self.random;
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        self.random = x;
        x.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}

/// The natural logarithm of a number in (0, 1]: that of libm would make every profiled program load libm.
///
/// ```text
/// x = m · 2^e, m in [√½, √2);  s = (m - 1) / (m + 1);  ln x = e · ln 2 + 2 · (s + s³/3 + s⁵/5 + …)
/// ```
fn ln(x: f64) -> f64 {
    const MANTISSA: u64 = (1 << 52) - 1;
    const ONE: u64 = 1023 << 52;
    let bits = x.to_bits();
    let mut exponent = (bits >> 52) as i64 - 1023;
    let mut m = f64::from_bits((bits & MANTISSA) | ONE);
    if m > core::f64::consts::SQRT_2 {
        m /= 2.0;
        exponent += 1;
    }
    let s = (m - 1.0) / (m + 1.0);
    let square = s * s;
    let mut sum = 0.0;
    for divisor in [17.0, 15.0, 13.0, 11.0, 9.0, 7.0, 5.0, 3.0, 1.0] {
        sum = sum * square + 1.0 / divisor;
    }
    exponent as f64 * core::f64::consts::LN_2 + 2.0 * s * sum
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: u64 = 4096;

    #[test]
    fn the_logarithm_is_that_of_the_library() {
        for x in
            [1.0, 0.999_999, 0.75, 0.5, std::f64::consts::FRAC_1_SQRT_2, 0.1, 1e-9, 1.0 / (1u64 << 53) as f64]
        {
            assert!((ln(x) - x.ln()).abs() <= 1e-13 * x.ln().abs().max(1e-3), "{x}");
        }
    }

    /// What the samples of so many bytes, in blocks of this size, stand for.
    fn sampled(seed: u64, size: u64, bytes: u64) -> u64 {
        let mut sampler = Sampler::seeded(seed, INTERVAL);
        (0..bytes / size).map(|_| sampler.take(size, INTERVAL, INTERVAL)).sum()
    }

    #[test]
    fn samples_stand_for_what_was_allocated_whatever_the_size_of_blocks() {
        const SEEDS: u64 = 64;
        const BYTES: u64 = 4 << 20;
        for size in [1, 16, 80, 1000, 4000, 4095, 4096, 100_000] {
            let all: u64 = (1..=SEEDS).map(|seed| sampled(seed, size, BYTES)).sum();
            let expected = (BYTES / size * size * SEEDS) as f64;
            // The noise of `n` bytes is that of `n / interval` points; five sigma.
            let noise = 5.0 * (expected * INTERVAL as f64).sqrt();
            assert!((all as f64 - expected).abs() < noise, "{size}: {all} of {expected}");
        }
        assert_eq!(sampled(1, 4096, BYTES), BYTES, "each is a sample");
    }

    #[test]
    fn heaps_with_intervals_of_their_own_stand_for_what_they_have() {
        const SEEDS: u64 = 64;
        const BLOCKS: u64 = 1024;
        for (size, of_heap) in [(80, 3 * INTERVAL), (4000, 7 * INTERVAL), (5000, 2 * INTERVAL), (5000, 5000)]
        {
            let (mut all, mut others) = (0, 0);
            for seed in 1..=SEEDS {
                let mut sampler = Sampler::seeded(seed, INTERVAL);
                for _ in 0..BLOCKS {
                    all += sampler.take(size, INTERVAL, of_heap);
                    others += sampler.take(1000, INTERVAL, INTERVAL);
                    assert_eq!(sampler.take(size, INTERVAL, 0), 0, "a heap that nobody wants");
                }
            }
            for (all, size, of_heap) in [(all, size, of_heap), (others, 1000, INTERVAL)] {
                let expected = (size * BLOCKS * SEEDS) as f64;
                let noise = 5.0 * (expected * of_heap as f64).sqrt();
                assert!((all as f64 - expected).abs() < noise, "{size} {of_heap}: {all} of {expected}");
            }
        }
    }

    #[test]
    fn the_countdown_is_at_least_one_and_at_most_an_interval() {
        let mut sampler = Sampler::seeded(7, INTERVAL);
        for n in 0..100_000 {
            sampler.take(n % 5000, INTERVAL, INTERVAL);
            assert!((1..=INTERVAL as i64 + 1).contains(&sampler.left), "{sampler:?}");
        }
        let mut each = Sampler::seeded(7, 1);
        assert_eq!((each.take(1, 1, 1), each.take(50, 1, 1)), (1, 50));
    }
}
