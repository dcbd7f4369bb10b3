//! The time of day where the person is.

/// A moment as a clock on the wall shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalTime {
    /// The year, of four digits for a while yet.
    pub year: i64,
    /// From 1.
    pub month: i32,
    /// Of the month, from 1.
    pub day: i32,
    /// From 0 to 23.
    pub hour: i32,
    /// From 0.
    pub minute: i32,
    /// From 0; 60 is a leap second.
    pub second: i32,
}

/// That many seconds after the epoch, in the time zone of `TZ` or of the host
/// (`localtime_r(3)`); `None` where that is no year.
pub fn local_time(seconds: u64) -> Option<LocalTime> {
    let seconds = libc::time_t::try_from(seconds).ok()?;
    // SAFETY: all zeroes is a valid `tm`: integers and a pointer that is not used.
    let mut parts: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both are live locals of the types that the call reads and writes;
    // it reads the environment, which nothing here changes once it runs.
    let found = unsafe { libc::localtime_r(&raw const seconds, &raw mut parts) };
    (!found.is_null()).then(|| LocalTime {
        year: i64::from(parts.tm_year) + 1900,
        month: parts.tm_mon + 1,
        day: parts.tm_mday,
        hour: parts.tm_hour,
        minute: parts.tm_min,
        second: parts.tm_sec,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_within_a_day_of_the_same_in_greenwich() {
        // 2025-11-30 12:00:00 UTC.
        let found = local_time(1_764_504_000).unwrap();
        assert_eq!(found.year, 2025);
        assert!([(11, 30), (12, 1)].contains(&(found.month, found.day)), "{found:?}");
        let minutes = found.hour * 60 + found.minute;
        assert!((0..24 * 60).contains(&minutes) && found.second == 0, "{found:?}");
        assert_eq!(local_time(u64::MAX), None);
    }
}
